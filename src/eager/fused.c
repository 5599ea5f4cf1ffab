/* Fused mode: calls are recorded, windows end where docs/fused.md says, and what is known of their programs. */
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "eager/internal.h"

/* ---- recording ---- */

static tpj_status *check_operands(const tpj_operand *operands, int n) {
    for (int i = 0; i < n; i++)
        if (operands[i].storage != NULL) TPJ_TRY(tpj_storage_failure(operands[i].storage));
    return NULL;
}

/* Ends the window where it has to end, now that a call with this signature was recorded. */
static tpj_status *cut(tpj_device *device, uint64_t signature) {
    tpj_window *w = &device->window;
    uint64_t back, n = (uint64_t)w->n_calls;
    if (tpj_repeat_add(w->repeat, signature, n, w->n_bytes, &back))
        return tpj_window_flush(device, TPJ_CUT_REPEAT, w->n_calls - (int)back);
    if (n >= (uint64_t)tpj_config_fused_ops())
        return tpj_window_flush(device, TPJ_CUT_OPS, w->n_calls - (int)tpj_repeat_divide(w->repeat, n));
    if (w->n_bytes >= (size_t)tpj_config_fused_bytes()) return tpj_window_flush(device, TPJ_CUT_BYTES, w->n_calls);
    return NULL;
}

tpj_status *tpj_fused_run(tpj_device *device, tpj_program *program, const tpj_operand *operands, int n_operands,
                          const uint64_t random[2], tpj_storage **out_storages) {
    tpj_window *w = &device->window;
    uint64_t signature;
    if (program->lowered->n_requirements > 0) TPJ_TRY(tpj_check_requirements(program, operands));
    TPJ_TRY(check_operands(operands, n_operands));
    if (w->repeat == NULL) w->repeat = calloc(1, sizeof *w->repeat);
    if (w->repeat == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    TPJ_TRY(tpj_window_record(device, program, operands, n_operands, random, out_storages, &signature));
    return cut(device, signature);
}

tpj_status *tpj_window_settle(tpj_device *device, const tpj_storage *storage) {
    if (!tpj_window_is_pending(device, storage)) return NULL;
    return tpj_window_flush(device, TPJ_CUT_READ, device->window.n_calls);
}

tpj_status *tpj_eager_flush(int ordinal) {
    tpj_device *device;
    tpj_status *first = NULL;
    for (int i = 0; (device = tpj_device_peek(i)) != NULL; i++) {
        if ((ordinal >= 0 && i != ordinal) || tpj_runtime_in_bad_fork()) continue;
        tpj_lock_acquire(&device->lock);
        tpj_status *status = tpj_window_flush(device, TPJ_CUT_READ, device->window.n_calls);
        tpj_lock_release(&device->lock);
        if (first == NULL)
            first = status;
        else
            tpj_status_destroy(status);
    }
    return first;
}

/* ---- what is known of programs of windows; under the lock of the cache ---- */

static tpj_fused_program *oldest, *newest;

tpj_fused_program *tpj_fused_program_create(tpj_program *program, double seconds, tpj_cut why,
                                            const tpj_recorded_call *calls, int n_calls) {
    tpj_fused_program *made = calloc(1, sizeof *made + sizeof *made->calls * (size_t)n_calls);
    if (made == NULL) return NULL;
    tpj_program_retain(program);
    made->program = program;
    made->seconds = seconds;
    made->n_cuts[why] = 1;
    made->n_calls = n_calls;
    for (int i = 0; i < n_calls; i++)
        made->calls[i] = (tpj_fused_call){calls[i].program->op != NULL ? calls[i].program->op : "graph", calls[i].file,
                                          calls[i].line};
    return made;
}

void tpj_fused_program_link(tpj_fused_program *made) {
    made->previous = newest;
    if (newest != NULL)
        newest->next = made;
    else
        oldest = made;
    newest = made;
}

void tpj_fused_program_drop(void *value) {
    tpj_fused_program *made = value;
    if (made->previous != NULL)
        made->previous->next = made->next;
    else if (oldest == made)
        oldest = made->next;
    if (made->next != NULL)
        made->next->previous = made->previous;
    else if (newest == made)
        newest = made->previous;
    tpj_program_release(made->program);
    free(made);
}

static void write_window(tpj_text *text, const tpj_fused_program *made) {
    static const char *const names[TPJ_N_CUTS] = {"read", "repeat", "ops", "bytes"};
    const tpj_lowered *lowered = made->program->lowered;
    tpj_text_printf(text,
                    "{\"ops\": %d, \"hits\": %lld, \"seconds\": %.6f, \"inputs\": %d, \"results\": %d, \"cuts\": {",
                    made->n_calls, (long long)made->n_hits, made->seconds, lowered->n_parameters, lowered->n_results);
    bool first = true;
    for (int i = 0; i < TPJ_N_CUTS; i++) {
        if (made->n_cuts[i] == 0) continue;
        tpj_text_printf(text, "%s\"%s\": %lld", first ? "" : ", ", names[i], (long long)made->n_cuts[i]);
        first = false;
    }
    tpj_text_add(text, "}, \"calls\": [");
    for (int i = 0; i < made->n_calls; i++) {
        tpj_text_add(text, i > 0 ? ", [" : "[");
        tpj_text_json(text, made->calls[i].op, strlen(made->calls[i].op));
        tpj_text_add(text, ", ");
        if (made->calls[i].file != NULL)
            tpj_text_json(text, made->calls[i].file, strlen(made->calls[i].file));
        else
            tpj_text_add(text, "null");
        tpj_text_printf(text, ", %d]", made->calls[i].line);
    }
    tpj_text_add(text, "]}");
}

void tpj_fused_report(tpj_text *text) {
    tpj_text_add(text, "[");
    for (const tpj_fused_program *made = oldest; made != NULL; made = made->next) {
        if (made != oldest) tpj_text_add(text, ",\n ");
        write_window(text, made);
    }
    tpj_text_add(text, "]");
}
