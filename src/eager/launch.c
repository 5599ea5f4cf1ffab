/* Calling an op: find the program or make it, gather its inputs, launch, store its results. */
#define _DEFAULT_SOURCE /* mkstemps */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "eager/internal.h"
#include "exec/mappings.h"
#include "exec/pool.h"
#include "lower/view.h"

/* ---- the signature cache ---- */

static tpj_lock cache_lock = TPJ_LOCK_INIT(TPJ_RANK_CACHE, "signatures");
static tpj_signatures signatures; /* of programs */
static tpj_signatures families;   /* of counts, see below */
static tpj_signatures windows;    /* of tpj_fused_program */
static bool signatures_ready;
static _Atomic int64_t n_hits, n_launches;

void tpj_count_launch(void) { atomic_fetch_add_explicit(&n_launches, 1, memory_order_relaxed); }

static void drop_program(void *program) { tpj_program_release(program); }
static void drop_count(void *count) { (void)count; }

static void make_tables_locked(void) {
    enum { FAMILY_BYTES = 16 * 1024 * 1024 };
    if (signatures_ready) return;
    tpj_signatures_init(&signatures, (size_t)tpj_config_program_cache_bytes(), drop_program);
    tpj_signatures_init(&families, FAMILY_BYTES, drop_count);
    tpj_signatures_init(&windows, (size_t)tpj_config_program_cache_bytes(), tpj_fused_program_drop);
    signatures_ready = true;
}

/* `program`: the latest. */
static void shrink_when_short_locked(const tpj_program *program) {
    if (!tpj_mappings_run_short(program->lowered->module_length)) return;
    tpj_signatures_shrink(&signatures, signatures.n_bytes / 4 * 3);
    tpj_signatures_shrink(&windows, windows.n_bytes / 4 * 3);
}

bool tpj_eager_is_fused(void) { return tpj_config_eager_mode()[0] == 'f'; }

static void count_hit(void) { atomic_fetch_add_explicit(&n_hits, 1, memory_order_relaxed); }

tpj_program *tpj_eager_find(const uint64_t *key, int n_words) {
    tpj_lock_acquire(&cache_lock);
    tpj_program *program = tpj_signatures_find(&signatures, key, n_words);
    if (program != NULL && tpj_program_state_of(program) == TPJ_PROGRAM_FAILED) program = NULL; /* once more */
    if (program != NULL) tpj_program_retain(program);
    tpj_lock_release(&cache_lock);
    if (program != NULL && !tpj_eager_is_fused()) count_hit();
    return program;
}

/* On a compile thread: what waited for the program goes on. */
static void launch_what_waited(tpj_program *program) {
    tpj_device *device;
    (void)program;
    for (int i = 0; (device = tpj_device_peek(i)) != NULL; i++) {
        tpj_lock_acquire(&device->lock);
        tpj_backlog_launch_locked(device);
        tpj_lock_release(&device->lock);
    }
}

/* Takes the program's reference on error; on success one is the cache's and one the caller's. */
static tpj_status *remember(const uint64_t *key, int n_words, tpj_program *program) {
    tpj_program_retain(program);
    tpj_lock_acquire(&cache_lock);
    make_tables_locked();
    tpj_status *status = tpj_signatures_insert(&signatures, key, n_words, program, program->n_bytes);
    shrink_when_short_locked(program);
    tpj_lock_release(&cache_lock);
    if (status != NULL) tpj_program_release(program);
    return status;
}

static tpj_check_mode check_mode(void) {
    if (!tpj_config_check_index()) return TPJ_CHECK_NONE;
    const tpj_client *client = tpj_runtime_client();
    return tpj_client_has_reports(client) && tpj_program_is_for_cpu(client) ? TPJ_CHECK_REPORT : TPJ_CHECK_RESULT;
}

static tpj_lower_options for_device(const tpj_lower_options *options) {
    tpj_lower_options all = *options;
    all.check_index = check_mode();
    all.for_cpu = tpj_program_is_for_cpu(tpj_runtime_client());
    return all;
}

tpj_status *tpj_eager_compile(const uint64_t *key, int n_words, int ordinal, tpj_graph *graph,
                              const tpj_lower_options *options, tpj_program **out_program) {
    tpj_device *device;
    tpj_program *program;
    tpj_status *status = tpj_device_get(ordinal, &device);
    if (status != NULL) {
        tpj_graph_destroy(graph);
        return status;
    }
    tpj_lower_options all = for_device(options);
    TPJ_TRY(tpj_program_prepare(tpj_runtime_client(), graph, &all, &program));
    if (!tpj_eager_is_fused())
        status = tpj_program_load_beside(program, launch_what_waited); /* a window compiles all of its calls together */
    if (status != NULL) {
        tpj_program_release(program);
        return status;
    }
    TPJ_TRY(remember(key, n_words, program));
    *out_program = program;
    return NULL;
}

tpj_status *tpj_eager_compile_with(const uint64_t *key, int n_words, int ordinal, const tpj_graph *graph,
                                   const tpj_lower_options *options, const tpj_compile_options *compiler,
                                   tpj_program **out_program) {
    tpj_device *device;
    tpj_program *program;
    TPJ_TRY(tpj_device_get(ordinal, &device));
    tpj_lower_options all = for_device(options);
    TPJ_TRY(tpj_program_compile(tpj_runtime_client(), graph, &all, compiler, &program));
    TPJ_TRY(remember(key, n_words, program));
    *out_program = program;
    return NULL;
}

/* ---- views whose offset changes ----
 * A family's count: the misses so far, up to STATIC_FORMS, and above it the number of floating programs. The programs lie
 * in `signatures` with the others, under the family's key with their number as the last word. */
enum { STATIC_FORMS = 2, FLOATING_FORMS = 4 };

static bool numbers_fit(const tpj_program *program, const tpj_operand *operands) {
    for (int i = 0; i < program->lowered->n_floating; i++) {
        const tpj_floating *f = &program->lowered->floating[i];
        if (!tpj_offset_fits(operands[f->input].number.integer, f->n, f->units, f->most)) return false;
    }
    for (int i = 0; i < program->lowered->n_requirements; i++) {
        const tpj_requirement *r = &program->lowered->requirements[i];
        const tpj_number *other = r->other >= 0 ? &operands[r->other].number : NULL;
        if (!tpj_requirement_fits(r, &operands[r->input].number, other)) return false;
    }
    return true;
}

bool tpj_eager_fits(const tpj_program *program, const tpj_operand *operands) { return numbers_fit(program, operands); }

static tpj_program *find_floating_locked(uint64_t *key, int n_words, const tpj_operand *operands, bool *out_float) {
    make_tables_locked();
    uint64_t *number = &key[n_words - 1];
    *number = UINT64_MAX;
    uintptr_t count = (uintptr_t)tpj_signatures_find(&families, key, n_words);
    uintptr_t n_floating = count > STATIC_FORMS ? count - STATIC_FORMS : 0;
    for (*number = 0; *number < n_floating; ++*number) {
        tpj_program *program = tpj_signatures_find(&signatures, key, n_words);
        *out_float = program == NULL; /* evicted, or it failed to compile: once more */
        if (program == NULL || numbers_fit(program, operands))
            return program != NULL && tpj_program_state_of(program) == TPJ_PROGRAM_FAILED ? NULL : program;
    }
    if (n_floating == FLOATING_FORMS) return NULL;
    *out_float = count >= STATIC_FORMS;
    *number = UINT64_MAX;
    size_t n_bytes = sizeof *key * (size_t)n_words;
    tpj_status_destroy(
        tpj_signatures_insert(&families, key, n_words, (void *)(count + 1), n_bytes)); /* lost: counts anew */
    *number = n_floating;
    return NULL;
}

tpj_program *tpj_eager_find_floating(uint64_t *key, int n_words, const tpj_operand *operands, bool *out_float) {
    *out_float = false;
    tpj_lock_acquire(&cache_lock);
    tpj_program *program = find_floating_locked(key, n_words, operands, out_float);
    if (program != NULL) tpj_program_retain(program);
    tpj_lock_release(&cache_lock);
    if (program != NULL && !tpj_eager_is_fused()) count_hit();
    return program;
}

/* ---- programs of windows ---- */
tpj_program *tpj_fused_find(const uint64_t *key, int n_words, tpj_cut why) {
    tpj_lock_acquire(&cache_lock);
    tpj_fused_program *found = tpj_signatures_find(&windows, key, n_words);
    tpj_program *program = NULL;
    if (found != NULL) {
        program = found->program;
        tpj_program_retain(program);
        found->n_cuts[why]++;
        found->n_hits++;
    }
    tpj_lock_release(&cache_lock);
    if (program != NULL) count_hit();
    return program;
}

tpj_status *tpj_fused_insert(const uint64_t *key, int n_words, tpj_fused_program *made) {
    const tpj_program *program = made->program; /* which the caller holds too */
    size_t n_bytes = program->n_bytes + sizeof *made + sizeof *made->calls * (size_t)made->n_calls;
    tpj_lock_acquire(&cache_lock);
    make_tables_locked();
    tpj_fused_program_link(made);
    tpj_status *status = tpj_signatures_insert(&windows, key, n_words, made, n_bytes);
    shrink_when_short_locked(program);
    tpj_lock_release(&cache_lock);
    return status;
}

char *tpj_eager_fusion_report(void) {
    tpj_text text = {0};
    tpj_lock_acquire(&cache_lock);
    tpj_fused_report(&text);
    tpj_lock_release(&cache_lock);
    return text.data;
}

tpj_status *tpj_compile_stats_get(tpj_compile_stats *out_stats) {
    tpj_compile_counts counts;
    TPJ_TRY(tpj_pool_drain());
    tpj_compile_counts_get(&counts);
    *out_stats = (tpj_compile_stats){.programs = counts.programs,
                                     .loaded = counts.loaded,
                                     .hits = atomic_load(&n_hits),
                                     .seconds = (double)counts.nanoseconds * 1e-9,
                                     .launches = atomic_load(&n_launches)};
    return NULL;
}

void tpj_compile_stats_reset(void) {
    tpj_status_destroy(tpj_pool_drain()); /* programs that are being compiled belong to what came before */
    tpj_compile_counts_reset();
    atomic_store(&n_hits, 0);
    atomic_store(&n_launches, 0);
}

/* ---- where calls come from ---- */
/* Whether this thread's latest launch left checks behind. */
static _Thread_local bool left_checks;

bool tpj_eager_wants_line(int ordinal, const tpj_program *program) {
    if (!tpj_eager_is_fused()) return program->lowered->n_checks > 0 && left_checks;
    const tpj_device *device = tpj_device_peek(ordinal);
    return program->lowered->n_checks > 0 ||
           (device != NULL && __atomic_load_n(&device->window.novel, __ATOMIC_RELAXED));
}

/* The names of the user's files, of which there are few: each is kept once, the last that was asked for in front. Under a
 * device's lock; NULL without memory, and the message names the program's first call. */
typedef struct file_name {
    struct file_name *next;
    char text[];
} file_name;

static const char *kept_file(tpj_device *device, const char *file) {
    file_name **link = &device->files;
    while (*link != NULL && strcmp((*link)->text, file) != 0) link = &(*link)->next;
    file_name *name = *link;
    if (name == NULL) {
        size_t n = strlen(file) + 1;
        name = malloc(sizeof *name + n);
        if (name == NULL) return NULL;
        memcpy(name->text, file, n);
    } else {
        *link = name->next;
    }
    name->next = device->files;
    device->files = name;
    return name->text;
}

void tpj_eager_called_at(int ordinal, const tpj_program *program, const char *file, int line) {
    tpj_device *device = tpj_device_peek(ordinal);
    if (device == NULL) return;
    tpj_lock_acquire(&device->lock);
    const char *kept = kept_file(device, file);
    bool recorded = tpj_window_say_line(&device->window, program, kept, line) ||
                    tpj_backlog_called_at_locked(device, program, kept, line);
    for (int i = device->n_checks; !recorded && i-- > 0;) {
        tpj_pending_check *pending = &device->checks[i];
        if (pending->program != program) continue;
        if (pending->file != NULL) break; /* an earlier launch of it */
        pending->file = kept;
        pending->line = line;
    }
    tpj_lock_release(&device->lock);
}

/* ---- for errors ---- */
const char *tpj_eager_description(const tpj_program *program) {
    return program->op != NULL ? program->lowered->description : "program";
}

bool tpj_eager_write_module(const tpj_program *program, char *out_path, size_t n) {
    const char *folder = tpj_config_dump_dir();
    int length = snprintf(out_path, n, "%s/torch_pjrt_XXXXXX.mlir", folder[0] != '\0' ? folder : P_tmpdir);
    if (length < 0 || (size_t)length >= n) return false;
    int file = mkstemps(out_path, 5);
    FILE *stream = file >= 0 ? fdopen(file, "w") : NULL;
    if (stream == NULL) {
        if (file >= 0) close(file);
        return false;
    }
    bool good =
        fwrite(program->lowered->module, 1, program->lowered->module_length, stream) == program->lowered->module_length;
    return fclose(stream) == 0 && good;
}

/* ---- launch ---- */
enum { FEW = 64 };

typedef struct launch {
    tpj_device *device;
    tpj_program *program;
    const tpj_operand *operands;
    int n_operands;
    const uint64_t *random;
    tpj_storage *const *storages; /* of new results */
    bool waited;                  /* in the backlog: what it writes is defined since then */
    const char *file;             /* of a call that waited; NULL: not known */
    int line;
    tpj_buffer **inputs, **outputs;
    tpj_buffer *random_buffer;
    tpj_report *report; /* NULL: no checks, or they are a result */
    tpj_displaced displaced;
    tpj_buffer *few_inputs[FEW], *few_outputs[FEW];
} launch;

static bool displace(tpj_displaced *displaced, tpj_buffer *buffer) {
    if (displaced->n == displaced->capacity) {
        int capacity = displaced->capacity * 2 + 16;
        tpj_buffer **grown = realloc(displaced->buffers, sizeof *grown * (size_t)capacity);
        if (grown == NULL) return false;
        displaced->buffers = grown;
        displaced->capacity = capacity;
    }
    displaced->buffers[displaced->n++] = buffer;
    return true;
}

void tpj_displaced_release(tpj_displaced *displaced) {
    for (int i = 0; i < displaced->n; i++) tpj_buffer_release(displaced->buffers[i]);
    free(displaced->buffers);
    *displaced = (tpj_displaced){0};
}

/* What the number displaces may be an input of the same launch, so that is released only when that is over. */
tpj_status *tpj_device_number(tpj_device *device, const tpj_number *number, tpj_dtype dtype, tpj_displaced *displaced,
                              tpj_buffer **out_buffer) {
    uint64_t bits[2];
    tpj_number_encode(number, dtype, bits);
    uint64_t hash = (bits[0] ^ bits[1] * 0x9E3779B97F4A7C15u ^ (uint64_t)dtype << 56) * 0xD1B54A32D192ED03u;
    cached_scalar *slot = &device->scalars[hash >> 32 & (N_SCALARS - 1)];
    if (slot->buffer == NULL || slot->dtype != dtype || slot->bits[0] != bits[0] || slot->bits[1] != bits[1]) {
        tpj_buffer *made;
        TPJ_TRY(tpj_buffer_from_host(tpj_runtime_client(), device->ordinal, dtype, 0, NULL, bits, &made));
        if (slot->buffer != NULL && !displace(displaced, slot->buffer)) {
            tpj_buffer_release(made);
            TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
        }
        *slot = (cached_scalar){dtype, {bits[0], bits[1]}, made};
    }
    *out_buffer = slot->buffer;
    return NULL;
}

tpj_status *tpj_check_requirements(const tpj_program *program, const tpj_operand *operands) {
    const tpj_lowered *lowered = program->lowered;
    for (int i = 0; i < lowered->n_requirements; i++) {
        const tpj_requirement *requirement = &lowered->requirements[i];
        const tpj_number *other = requirement->other >= 0 ? &operands[requirement->other].number : NULL;
        TPJ_TRY(tpj_requirement_check(requirement, &operands[requirement->input].number, other));
    }
    return NULL;
}

static tpj_status *gather_inputs(launch *l) {
    const tpj_lowered *lowered = l->program->lowered;
    for (int i = 0; i < lowered->n_parameters; i++) {
        const tpj_parameter *parameter = &lowered->parameters[i];
        const tpj_operand *operand = parameter->input < l->n_operands ? &l->operands[parameter->input] : NULL;
        switch (parameter->kind) {
            case TPJ_INPUT_BUFFER: {
                tpj_storage *storage = operand->storage;
                if (storage->failed != TPJ_OK) return tpj_storage_failure(storage);
                if (storage->buffer != NULL)
                    l->inputs[i] = storage->buffer;
                else
                    TPJ_TRY(tpj_storage_materialize(storage, &parameter->type, &l->inputs[i]));
                break;
            }
            case TPJ_INPUT_SCALAR:
                if (parameter->input != TPJ_REPORT) {
                    TPJ_TRY(
                        tpj_device_number(l->device, &operand->number, parameter->dtype, &l->displaced, &l->inputs[i]));
                } else {
                    TPJ_TRY(tpj_device_take_report(l->device, lowered->n_checks, &l->report));
                    l->inputs[i] = tpj_report_operand(l->report);
                }
                break;
            case TPJ_INPUT_RANDOM:
                TPJ_TRY(
                    tpj_random_state_create(tpj_runtime_client(), l->device->ordinal, l->random, &l->random_buffer));
                l->inputs[i] = l->random_buffer;
                break;
        }
    }
    return NULL;
}

tpj_status *tpj_device_create_results(tpj_device *device, const tpj_program *program, tpj_storage **out_storages) {
    for (int i = 0; i < program->lowered->n_results; i++) {
        const tpj_result *result = &program->lowered->results[i];
        const tpj_type *base = &result->base;
        if (result->none || result->target >= 0) continue;
        if ((uint64_t)result->n_bytes > (uint64_t)device->n_bytes) /* at once, and not at the first use */
            TPJ_ERROR(TPJ_OUT_OF_MEMORY, "a result has %zu bytes, the device %" PRId64, (size_t)result->n_bytes,
                      device->n_bytes);
        out_storages[i] = tpj_storage_create_locked(device, result->n_bytes);
        if (out_storages[i] == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
        TPJ_TRY(tpj_storage_define_base(out_storages[i], base->dtype, base->rank, base->dims));
    }
    return NULL;
}

static tpj_status *store_results(launch *l) {
    const tpj_lowered *lowered = l->program->lowered;
    int at = 0;
    for (int i = 0; i < lowered->n_results; i++) {
        const tpj_lowered_result *result = &lowered->results[i];
        if (result->none) continue;
        tpj_storage *storage = result->target >= 0 ? l->operands[result->target].storage : l->storages[i];
        if (result->target >= 0 && storage->buffer == NULL && !l->waited)
            TPJ_TRY(tpj_storage_define_base(storage, result->base.dtype, result->base.rank, result->base.dims));
        tpj_storage_set_buffer(storage, l->outputs[at++], l->program);
    }
    return NULL;
}

static void keep_checks(launch *l) {
    tpj_checks checks = {.report = l->report};
    if (l->report == NULL) checks.result = l->outputs[l->program->n_outputs - 1];
    l->report = NULL;
    left_checks = tpj_device_keep_checks(
        l->device, &(tpj_pending_check){.checks = checks, .program = l->program, .file = l->file, .line = l->line});
}

static tpj_status *launch_locked(launch *l) {
    TPJ_TRY(gather_inputs(l));
    const tpj_lowered *lowered = l->program->lowered;
    if (lowered->n_checks > 0) TPJ_TRY(tpj_device_reserve_check(l->device));
    TPJ_TRY(tpj_executable_execute_reporting(l->program->executable, l->device->ordinal, l->inputs,
                                             lowered->n_parameters, l->outputs, l->program->n_outputs, l->report));
    if (lowered->n_checks > 0) keep_checks(l);
    return store_results(l);
}

tpj_status *tpj_eager_launch_locked(tpj_device *device, tpj_program *program, const tpj_operand *operands,
                                    int n_operands, const uint64_t random[2], tpj_storage *const *storages, bool waited,
                                    const char *file, int line) {
    const tpj_lowered *lowered = program->lowered;
    launch l = {.device = device,
                .program = program,
                .operands = operands,
                .n_operands = n_operands,
                .random = random,
                .storages = storages,
                .waited = waited,
                .file = file,
                .line = line};
    l.inputs = lowered->n_parameters <= FEW ? l.few_inputs : malloc(sizeof *l.inputs * (size_t)lowered->n_parameters);
    l.outputs = program->n_outputs <= FEW ? l.few_outputs : malloc(sizeof *l.outputs * (size_t)program->n_outputs);
    tpj_status *status = l.inputs != NULL && l.outputs != NULL
                             ? launch_locked(&l)
                             : tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory");
    tpj_buffer_release(l.random_buffer);
    tpj_displaced_release(&l.displaced);
    tpj_report_give(l.report);
    if (l.inputs != l.few_inputs) free(l.inputs);
    if (l.outputs != l.few_outputs) free(l.outputs);
    return status;
}

/* What a launch would do first, and what the next call's key looks at: operands that were never written are zeros now, and
 * targets have their shape. */
static tpj_status *define_operands(const tpj_program *program, const tpj_operand *operands) {
    const tpj_lowered *lowered = program->lowered;
    for (int i = 0; i < lowered->n_parameters; i++) {
        const tpj_parameter *parameter = &lowered->parameters[i];
        if (parameter->kind != TPJ_INPUT_BUFFER) continue;
        tpj_storage *storage = operands[parameter->input].storage;
        tpj_buffer *buffer;
        if (storage->buffer == NULL && storage->n_writes == 0)
            TPJ_TRY(tpj_storage_materialize(storage, &parameter->type, &buffer));
    }
    for (int i = 0; i < lowered->n_results; i++) {
        const tpj_lowered_result *result = &lowered->results[i];
        if (result->none || result->target < 0) continue;
        tpj_storage *storage = operands[result->target].storage;
        if (storage->buffer == NULL && storage->n_writes == 0)
            TPJ_TRY(tpj_storage_define_base(storage, result->base.dtype, result->base.rank, result->base.dims));
    }
    return NULL;
}

static tpj_status *run_locked(tpj_device *device, tpj_program *program, const tpj_operand *operands, int n_operands,
                              const uint64_t random[2], tpj_storage **out_storages) {
    if (program->lowered->n_requirements > 0) TPJ_TRY(tpj_check_requirements(program, operands));
    if (device->window.n_calls > 0) /* the mode has changed */
        TPJ_TRY(tpj_window_flush(device, TPJ_CUT_READ, device->window.n_calls));
    /* the new storages first, so that nothing can fail once the launch has happened */
    TPJ_TRY(tpj_device_create_results(device, program, out_storages));
    if (device->backlog.n_calls > 0) tpj_backlog_launch_locked(device);
    if (device->backlog.n_calls > 0 || tpj_program_state_of(program) == TPJ_PROGRAM_COMPILING) {
        TPJ_TRY(define_operands(program, operands));
        left_checks = program->lowered->n_checks > 0;
        return tpj_backlog_add_locked(device, program, operands, n_operands, random, out_storages);
    }
    if (!tpj_program_is_loaded(program)) return tpj_program_await(program); /* it has failed */
    return tpj_eager_launch_locked(device, program, operands, n_operands, random, out_storages, false, NULL, 0);
}

/* Makes sure that checks and calls that wait do not pile up, and that nothing waits where calls are recorded. */
static tpj_status *make_room(tpj_device *device, const tpj_program *program, bool records) {
    if (records) TPJ_TRY(tpj_backlog_settle(device));
    TPJ_TRY(tpj_backlog_make_room(device));
    if (program->lowered->n_checks == 0 || device->n_checks < MANY_CHECKS) return NULL;
    return tpj_device_take_checks(device, MANY_CHECKS / 2); /* the older ones have run by now */
}

/* Before a call that has to wait, for its program or for calls before it. Whether large results find room has to be known
 * before more programs are compiled for them: those calls are waited for. Programs that were prepared for windows get their
 * executable at their first launch on their own. */
static tpj_status *prepare_to_wait(tpj_device *device, tpj_program *program) {
    enum { LARGE = 1 << 30 };
    TPJ_TRY(tpj_program_load_beside(program, launch_what_waited));
    if (tpj_program_result_bytes(program) < LARGE) return NULL;
    TPJ_TRY(tpj_program_await(program));
    return tpj_backlog_settle(device);
}

tpj_status *tpj_eager_run(tpj_program *program, int ordinal, const tpj_operand *operands, int n_operands,
                          const uint64_t random[2], tpj_storage **out_storages) {
    tpj_device *device;
    const tpj_lowered *lowered = program->lowered;
    bool records = tpj_eager_is_fused() && program->graph != NULL;
    tpj_status *status = NULL;
    for (int i = 0; i < lowered->n_results; i++) out_storages[i] = NULL;
    TPJ_TRY(tpj_device_get(ordinal, &device));
    TPJ_TRY_GOTO(make_room(device, program, records));
    if (!records &&
        (!tpj_program_is_loaded(program) || __atomic_load_n(&device->backlog.n_calls, __ATOMIC_RELAXED) > 0))
        TPJ_TRY_GOTO(prepare_to_wait(device, program));
    tpj_lock_acquire(&device->lock);
    if (records)
        status = tpj_fused_run(device, program, operands, n_operands, random, out_storages);
    else
        status = run_locked(device, program, operands, n_operands, random, out_storages);
    tpj_lock_release(&device->lock);
    if (!records) tpj_count_launch();
done:
    if (status != NULL) {
        for (int i = 0; i < lowered->n_results; i++) {
            if (out_storages[i] != NULL) tpj_storage_destroy(out_storages[i]);
            out_storages[i] = NULL;
        }
        status = tpj_status_annotate(status, "%s", tpj_eager_description(program));
        status = tpj_memory_explain(status, ordinal, tpj_program_result_bytes(program));
    }
    return status;
}
