/* A window is launched: its program is found under its key or made, its inputs are gathered, and what it leaves goes into the
 * storages. Where the program of the whole cannot be had or launched, the calls run one by one. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "eager/internal.h"

typedef struct flush {
    tpj_device *device;
    tpj_window *window;
    tpj_cut why;
    int n_calls, n_slots; /* of the part that is launched */
    bool *needed;         /* by slot: calls that stay read or write it */
    int *writers;         /* by slot: the last call that writes it; -1: none */
    tpj_window_slot *slots;
    tpj_program *program;
    tpj_buffer **inputs, **outputs;
    tpj_displaced displaced;
    tpj_report *report; /* NULL: no checks, or they are a result */
} flush;

static tpj_status *out_of_memory(void) { return tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory"); }

static int end_of_operands(const tpj_window *w, int call) {
    return call + 1 < w->n_calls ? w->calls[call + 1].first_operand : w->n_operands;
}

/* The slot that a result of a call goes into; -1: it is none. */
static int slot_of_result(const tpj_window *w, const tpj_recorded_call *call, int i) {
    const tpj_lowered_result *result = &call->program->lowered->results[i];
    if (result->none) return -1;
    if (result->target >= 0) return w->operands[call->first_operand + result->target].slot;
    return w->results[call->first_result + i];
}

/* ---- what the slots are, before and after ---- */

static void find_uses(flush *f) {
    const tpj_window *w = f->window;
    for (int i = 0; i < f->n_slots; i++) f->writers[i] = -1;
    for (int k = 0; k < f->n_calls; k++)
        for (int i = 0; i < w->calls[k].program->lowered->n_results; i++) {
            int slot = slot_of_result(w, &w->calls[k], i);
            if (slot >= 0) f->writers[slot] = k;
        }
    int first_kept = f->n_calls < w->n_calls ? w->calls[f->n_calls].first_operand : w->n_operands;
    for (int i = first_kept; i < w->n_operands; i++)
        if (w->operands[i].slot >= 0 && w->operands[i].slot < f->n_slots) f->needed[w->operands[i].slot] = true;
    for (int i = 0; i < f->n_slots; i++) {
        const tpj_slot *slot = &w->slots[i];
        bool read_later = slot->storage != NULL || f->needed[i];
        f->slots[i].live = read_later && f->writers[i] >= 0;
        f->slots[i].donate = !read_later && slot->buffer != NULL;
    }
}

/* The calls, and two bits for each slot. */
static uint64_t *make_key(const flush *f, int *out_n) {
    const tpj_window *w = f->window;
    int n = f->n_calls < w->n_calls ? w->calls[f->n_calls].first_word : w->n_words, n_bits = (f->n_slots + 31) / 32;
    uint64_t *key = malloc(sizeof *key * (size_t)(n + n_bits + 1));
    if (key == NULL) return NULL;
    memcpy(key, w->key, sizeof *key * (size_t)n);
    memset(key + n, 0, sizeof *key * (size_t)n_bits);
    for (int i = 0; i < f->n_slots; i++)
        key[n + i / 32] |= (uint64_t)(f->slots[i].live | f->slots[i].donate << 1) << (i % 32 * 2);
    key[n + n_bits] = (uint64_t)f->n_calls << 32 | (uint64_t)f->n_slots;
    *out_n = n + n_bits + 1;
    return key;
}

/* ---- the program ---- */

/* Slots by input, for the lowering: one array for all calls, where inputs lie as operands do. */
static tpj_status *lower_and_compile(flush *f, double *out_seconds) {
    const tpj_window *w = f->window;
    int64_t began = tpj_clock_now();
    int n_random = 0, failed, n_inputs = 0;
    for (int k = 0; k < f->n_calls; k++) n_inputs += tpj_graph_n_inputs(w->calls[k].program->graph);
    tpj_window_call *calls = calloc((size_t)f->n_calls, sizeof *calls);
    int *inputs = malloc(sizeof *inputs * (size_t)(n_inputs + 1)), *next = inputs;
    tpj_status *status = calls == NULL || inputs == NULL ? out_of_memory() : NULL;
    for (int k = 0; status == NULL && k < f->n_calls; k++) {
        const tpj_recorded_call *call = &w->calls[k];
        int n = end_of_operands(w, k) - call->first_operand, n_all = tpj_graph_n_inputs(call->program->graph);
        for (int i = 0; i < n_all; i++) next[i] = i < n ? w->operands[call->first_operand + i].slot : -1;
        calls[k] = (tpj_window_call){.graph = call->program->graph,
                                     .options = &call->program->options,
                                     .inputs = next,
                                     .results = w->results + call->first_result,
                                     .first_operand = call->first_operand,
                                     .random = call->program->lowered->random_count > 0 ? n_random++ : -1,
                                     .file = call->file,
                                     .line = call->line};
        next += n_all;
    }
    if (status == NULL)
        status = tpj_program_create_window(tpj_runtime_client(), calls, f->n_calls, f->slots, f->n_slots, n_random,
                                           &f->program, &failed);
    free(calls);
    free(inputs);
    *out_seconds = (double)(tpj_clock_now() - began) * 1e-9;
    return status;
}

static tpj_status *find_or_make(flush *f) {
    int n_words;
    double seconds;
    uint64_t *key = make_key(f, &n_words);
    if (key == NULL) return out_of_memory();
    f->program = tpj_fused_find(key, n_words, f->why);
    tpj_status *status = NULL;
    if (f->program == NULL) {
        TPJ_TRY_GOTO(lower_and_compile(f, &seconds));
        tpj_fused_program *made = tpj_fused_program_create(f->program, seconds, f->why, f->window->calls, f->n_calls);
        status = made != NULL ? tpj_fused_insert(key, n_words, made) : out_of_memory();
        if (status == NULL) tpj_window_know_paths(f->window, f->n_calls);
    }
done:
    free(key);
    return status;
}

/* ---- the launch ---- */

static tpj_status *read_slot(flush *f, int number, const tpj_type *type, tpj_buffer **out_buffer) {
    tpj_slot *slot = &f->window->slots[number];
    if (slot->storage != NULL) {
        TPJ_TRY(tpj_storage_failure(slot->storage));
        return tpj_storage_materialize(slot->storage, type, out_buffer);
    }
    if (slot->buffer == NULL) {
        tpj_storage never = {.device = f->device->ordinal, .base_dims = never.inline_dims};
        tpj_status *status = tpj_storage_materialize(&never, type, &slot->buffer);
        if (never.base_dims != never.inline_dims) free(never.base_dims);
        TPJ_TRY(status);
    }
    *out_buffer = slot->buffer;
    return NULL;
}

/* Takes the buffer. */
static void write_slot(flush *f, int number, tpj_buffer *buffer, tpj_program *origin) {
    tpj_slot *slot = &f->window->slots[number];
    if (slot->storage != NULL) {
        tpj_storage_set_buffer(slot->storage, buffer, origin);
        return;
    }
    tpj_buffer_release(slot->buffer);
    slot->buffer = buffer;
}

/* The states of the calls that draw, one after the other. */
static tpj_status *random_states(const flush *f, int first, int n_calls, tpj_buffer **out_buffer) {
    const tpj_window *w = f->window;
    uint64_t *states = malloc(sizeof *states * 2 * (size_t)n_calls);
    int64_t dims[2] = {0, 2};
    if (states == NULL) return out_of_memory();
    for (int k = first; k < first + n_calls; k++)
        if (w->calls[k].program->lowered->random_count > 0)
            memcpy(states + 2 * dims[0]++, w->calls[k].random, 2 * sizeof *states);
    bool alone = n_calls == 1;
    tpj_status *status = tpj_buffer_from_host(tpj_runtime_client(), f->device->ordinal, TPJ_U64, alone ? 1 : 2,
                                              alone ? dims + 1 : dims, states, out_buffer);
    free(states);
    return status;
}

/* `alone`: the call whose own program it is; NULL: the window's. */
static tpj_status *gather(flush *f, const tpj_program *program, const tpj_recorded_call *alone,
                          tpj_buffer **out_random) {
    const tpj_window *w = f->window;
    const tpj_lowered *lowered = program->lowered;
    int first = alone != NULL ? alone->first_operand : 0;
    for (int i = 0; i < lowered->n_parameters; i++) {
        const tpj_parameter *parameter = &lowered->parameters[i];
        const tpj_recorded_operand *operand =
            parameter->input != TPJ_REPORT ? &w->operands[first + parameter->input] : NULL;
        switch (parameter->kind) {
            case TPJ_INPUT_BUFFER: {
                int slot = alone != NULL ? operand->slot : parameter->input;
                TPJ_TRY(read_slot(f, slot, &parameter->type, &f->inputs[i]));
                break;
            }
            case TPJ_INPUT_SCALAR:
                if (operand == NULL) {
                    TPJ_TRY(tpj_device_take_report(f->device, lowered->n_checks, &f->report));
                    f->inputs[i] = tpj_report_operand(f->report);
                    break;
                }
                TPJ_TRY(tpj_device_number(f->device, &operand->number, parameter->dtype, &f->displaced, &f->inputs[i]));
                break;
            case TPJ_INPUT_RANDOM:
                TPJ_TRY(random_states(f, alone != NULL ? (int)(alone - w->calls) : 0, alone != NULL ? 1 : f->n_calls,
                                      out_random));
                f->inputs[i] = *out_random;
                break;
        }
    }
    return NULL;
}

/* Whose the checks of a launch are: of all calls, or of the one that is launched alone. */
static tpj_status *find_origins(const flush *f, const tpj_recorded_call *alone, tpj_pending_check *pending) {
    const tpj_window *w = f->window;
    const tpj_recorded_call *begin = alone != NULL ? alone : w->calls, *end = begin + (alone != NULL ? 1 : f->n_calls);
    pending->origins = malloc(sizeof *pending->origins * (size_t)(end - begin));
    if (pending->origins == NULL) return out_of_memory();
    int first = 0;
    for (const tpj_recorded_call *call = begin; call < end; call++) {
        int n = call->program->lowered->n_checks;
        if (n == 0) continue;
        tpj_program_retain(call->program);
        pending->origins[pending->n_origins++] = (tpj_check_origin){call->program, first, call->file, call->line};
        first += n;
    }
    return NULL;
}

static tpj_status *launch(flush *f, tpj_program *program, const tpj_recorded_call *alone, tpj_buffer **out_random) {
    const tpj_lowered *lowered = program->lowered;
    tpj_pending_check pending = {.program = program};
    TPJ_TRY(gather(f, program, alone, out_random));
    if (lowered->n_checks > 0) {
        TPJ_TRY(tpj_device_reserve_check(f->device));
        TPJ_TRY(find_origins(f, alone, &pending));
    }
    tpj_status *status =
        tpj_executable_execute_reporting(program->executable, f->device->ordinal, f->inputs, lowered->n_parameters,
                                         f->outputs, program->n_outputs, f->report);
    if (status == NULL && lowered->n_checks > 0) {
        pending.checks.report = f->report;
        if (f->report == NULL) pending.checks.result = f->outputs[program->n_outputs - 1];
        f->report = NULL;
        tpj_device_keep_checks(f->device, &pending);
    } else {
        tpj_check_origins_release(&pending);
    }
    return status;
}

static tpj_status *execute(flush *f, tpj_program *program, const tpj_recorded_call *alone) {
    tpj_buffer *random = NULL;
    f->inputs = malloc(sizeof *f->inputs * (size_t)(program->lowered->n_parameters + 1));
    f->outputs = malloc(sizeof *f->outputs * (size_t)(program->n_outputs + 1));
    tpj_status *status = f->inputs != NULL && f->outputs != NULL ? launch(f, program, alone, &random) : out_of_memory();
    tpj_buffer_release(random);
    tpj_report_give(f->report);
    f->report = NULL;
    tpj_displaced_release(&f->displaced);
    tpj_count_launch();
    return status;
}

static void free_arrays(flush *f) {
    free(f->inputs);
    free(f->outputs);
    f->inputs = f->outputs = NULL;
}

static tpj_status *run_whole(flush *f) {
    const tpj_window *w = f->window;
    tpj_status *status = find_or_make(f);
    if (status == NULL) status = execute(f, f->program, NULL);
    int at = 0;
    for (int i = 0; status == NULL && i < f->program->lowered->n_results; i++) {
        int slot = f->program->lowered->results[i].target;
        write_slot(f, slot, f->outputs[at++], w->calls[f->writers[slot]].program);
    }
    free_arrays(f);
    tpj_program_release(f->program);
    return status;
}

/* ---- one by one ---- */

/* What a call that failed was to write is not there; a value that only the window knows has nobody to tell. */
static void fail_results(flush *f, const tpj_recorded_call *call, const tpj_status *why, bool *failed) {
    for (int i = 0; i < call->program->lowered->n_results; i++) {
        int slot = slot_of_result(f->window, call, i);
        if (slot < 0) continue;
        failed[slot] = true;
        if (f->window->slots[slot].storage != NULL) tpj_storage_fail(f->window->slots[slot].storage, why);
    }
}

static bool reads_failed(const flush *f, int index, const bool *failed) {
    const tpj_window *w = f->window;
    for (int i = w->calls[index].first_operand; i < end_of_operands(w, index); i++)
        if (w->operands[i].slot >= 0 && failed[w->operands[i].slot]) return true;
    return false;
}

static tpj_status *run_call(flush *f, const tpj_recorded_call *call) {
    const tpj_lowered *lowered = call->program->lowered;
    tpj_status *status = tpj_program_load(call->program);
    if (status == NULL) status = execute(f, call->program, call);
    int at = 0;
    for (int i = 0; status == NULL && i < lowered->n_results; i++)
        if (!lowered->results[i].none)
            write_slot(f, slot_of_result(f->window, call, i), f->outputs[at++], call->program);
    free_arrays(f);
    if (status == NULL) return NULL;
    const char *file = call->file != NULL ? call->file : call->program->file;
    status = tpj_status_annotate(status, "%s", lowered->description != NULL ? lowered->description : "program");
    if (file == NULL) return status;
    return tpj_status_annotate(status, "at %s:%d", file, call->file != NULL ? call->line : call->program->line);
}

/* The error of the first call that fails. Those that need nothing of it still run. */
static tpj_status *run_one_by_one(flush *f) {
    tpj_status *first = NULL;
    bool *failed = calloc((size_t)f->window->n_slots + 1, sizeof *failed);
    if (failed == NULL) return out_of_memory();
    for (int k = 0; k < f->n_calls; k++) {
        const tpj_recorded_call *call = &f->window->calls[k];
        tpj_status *status = reads_failed(f, k, failed) ? NULL : run_call(f, call);
        if (status != NULL || reads_failed(f, k, failed))
            fail_results(f, call, status != NULL ? status : first, failed);
        if (first == NULL)
            first = status;
        else
            tpj_status_destroy(status);
    }
    free(failed);
    return first;
}

static tpj_status *run(flush *f) {
    size_t n = (size_t)f->n_slots + 1;
    f->needed = calloc(n, sizeof *f->needed);
    f->writers = malloc(sizeof *f->writers * n);
    f->slots = calloc(n, sizeof *f->slots);
    tpj_status *status = NULL;
    if (f->needed == NULL || f->writers == NULL || f->slots == NULL) {
        status = out_of_memory();
    } else {
        find_uses(f);
        status = run_whole(f);
    }
    free(f->needed);
    free(f->writers);
    free(f->slots);
    if (status == NULL) return NULL;
    tpj_log(TPJ_LOG_INFO, "a window of %d ops runs one by one: %s", f->n_calls, tpj_status_message(status));
    tpj_status_destroy(status);
    return run_one_by_one(f);
}

tpj_status *tpj_window_flush(tpj_device *device, tpj_cut why, int n_calls) {
    tpj_window *w = &device->window;
    if (n_calls <= 0 || w->n_calls == 0) return NULL;
    tpj_window_rest *rest = n_calls < w->n_calls ? tpj_window_prepare_rest(w) : NULL;
    if (rest == NULL) n_calls = w->n_calls; /* without memory for the others, all go */
    flush f = {.device = device, .window = w, .why = why, .n_calls = n_calls};
    f.n_slots = n_calls < w->n_calls ? w->calls[n_calls].first_slot : w->n_slots;
    tpj_status *status = run(&f);
    if (rest != NULL)
        tpj_window_drop(device, n_calls, rest);
    else
        tpj_window_clear(device);
    tpj_window_free_rest(rest);
    return status;
}
