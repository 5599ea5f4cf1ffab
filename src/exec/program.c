#define _POSIX_C_SOURCE 200809L /* strdup */
#include "exec/program.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "exec/compile.h"
#include "exec/pool.h"
#include "ops/ops.h"
#include "pjrt/plan.h"

static _Atomic int64_t n_programs, n_loaded, compile_nanoseconds, n_dumped;

void tpj_compile_counts_get(tpj_compile_counts *out_counts) {
    out_counts->programs = atomic_load(&n_programs);
    out_counts->loaded = atomic_load(&n_loaded);
    out_counts->nanoseconds = atomic_load(&compile_nanoseconds);
}

void tpj_compile_counts_reset(void) {
    atomic_store(&n_programs, 0);
    atomic_store(&n_loaded, 0);
    atomic_store(&compile_nanoseconds, 0);
}

/* Writes the module to TORCH_PJRT_DUMP_DIR/NNNNNN_op.mlir. A folder that cannot be written is logged, never an error. */
static void dump_module(const tpj_program *program) {
    const char *folder = tpj_config_dump_dir();
    if (folder[0] == '\0') return;
    char path[4096];
    snprintf(path, sizeof path, "%s/%06lld_%s.mlir", folder, (long long)atomic_fetch_add(&n_dumped, 1),
             program->op != NULL ? program->op : "graph");
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        tpj_log(TPJ_LOG_WARNING, "cannot write %s", path);
        return;
    }
    fwrite(program->lowered->module, 1, program->lowered->module_length, file);
    fclose(file);
}

static void remember_origin(tpj_program *program, const tpj_graph *graph) {
    int n_nodes = tpj_graph_n_nodes(graph);
    if (n_nodes == 0) return;
    const tpj_node *node = tpj_graph_node(graph, n_nodes - 1);
    program->op = node->op->name;
    program->file = node->file != NULL ? strdup(node->file) : NULL;
    program->line = node->line;
}

static tpj_program *new_program(tpj_client *client) {
    static _Atomic uint64_t n_made;
    tpj_program *program = calloc(1, sizeof *program);
    if (program == NULL) return NULL;
    program->references = 1;
    program->id = atomic_fetch_add(&n_made, 1) + 1;
    program->client = client;
    return program;
}

static tpj_status *out_of_memory(void) { return tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory"); }

/* What follows from the lowered form. */
static void measure(tpj_program *program) {
    enum { FIXED_COST = 48 * 1024 }; /* what a loaded small program was seen to hold on the CPU plugins */
    const tpj_lowered *lowered = program->lowered;
    for (int i = 0; i < lowered->n_results; i++) program->n_outputs += !lowered->results[i].none;
    program->n_outputs += lowered->n_checks > 0 && !lowered->reports;
    program->n_bytes = FIXED_COST + lowered->module_length * 2;
}

static tpj_status *lower(tpj_program *program, const tpj_graph *graph, const tpj_lower_options *options) {
    program->n_inputs = tpj_graph_n_inputs(graph);
    remember_origin(program, graph);
    TPJ_TRY(tpj_lower_graph(graph, options, &program->lowered));
    measure(program);
    return NULL;
}

static tpj_status *load(tpj_program *program, const tpj_compile_options *compiler) {
    if (tpj_program_is_loaded(program)) return NULL;
    int64_t began = tpj_clock_now();
    const tpj_lowered *lowered = program->lowered;
    const char *op = program->op != NULL ? program->op : "graph";
    tpj_executable *executable, *none = NULL;
    bool loaded;
    dump_module(program);
    tpj_status *status =
        tpj_compile(program->client, lowered->module, lowered->module_length, compiler, &executable, &loaded);
    if (status != NULL) {
        tpj_log(TPJ_LOG_INFO, "module that failed to compile:\n%s", lowered->module);
        return tpj_status_annotate(status, "%s: the compiler refused the program", op);
    }
    if (!__atomic_compare_exchange_n(&program->executable, &none, executable, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        tpj_executable_release(executable);
    atomic_fetch_add(&n_programs, 1);
    atomic_fetch_add(&n_loaded, loaded);
    atomic_fetch_add(&compile_nanoseconds, tpj_clock_now() - began);
    if (tpj_log_enabled(TPJ_LOG_INFO))
        tpj_log(TPJ_LOG_INFO, "%s %s in %.1f ms (%s:%d)", loaded ? "loaded" : "compiled", op,
                (double)(tpj_clock_now() - began) * 1e-6, program->file != NULL ? program->file : "?", program->line);
    return NULL;
}

tpj_status *tpj_program_load(tpj_program *program) { return load(program, NULL); }

typedef struct compile_job {
    tpj_program *program; /* retained */
    void (*compiled)(tpj_program *program);
} compile_job;

static void set_state(tpj_program *program, tpj_program_state state) {
    __atomic_store_n(&program->state, state, __ATOMIC_RELEASE);
}

static void run_job(void *context) {
    compile_job *job = context;
    tpj_program *program = job->program;
    program->failure = load(program, NULL);
    set_state(program, program->failure != NULL ? TPJ_PROGRAM_FAILED : TPJ_PROGRAM_IDLE);
    job->compiled(program);
    tpj_program_release(program);
    free(job);
}

tpj_status *tpj_program_load_beside(tpj_program *program, void (*compiled)(tpj_program *program)) {
    int idle = TPJ_PROGRAM_IDLE;
    if (tpj_program_is_loaded(program) || !__atomic_compare_exchange_n(&program->state, &idle, TPJ_PROGRAM_COMPILING,
                                                                       false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return NULL;
    compile_job *job = malloc(sizeof *job);
    if (job != NULL) {
        *job = (compile_job){program, compiled};
        tpj_program_retain(program);
        if (tpj_pool_submit(run_job, job)) return NULL;
        tpj_program_release(program);
        free(job);
    }
    tpj_status *status = load(program, NULL);
    set_state(program, TPJ_PROGRAM_IDLE);
    return status;
}

static bool has_compiled(const void *program) { return tpj_program_state_of(program) != TPJ_PROGRAM_COMPILING; }

tpj_status *tpj_program_await(const tpj_program *program) {
    if (!has_compiled(program)) TPJ_TRY(tpj_pool_wait(has_compiled, program));
    if (tpj_program_state_of(program) != TPJ_PROGRAM_FAILED) return NULL;
    return tpj_status_create(tpj_status_code(program->failure), "%s", tpj_status_message(program->failure));
}

tpj_status *tpj_program_stats(tpj_program *program, tpj_compiled_memory *out_memory, tpj_compiled_cost *out_cost) {
    TPJ_TRY(tpj_program_await(program));
    TPJ_TRY(tpj_program_load(program));
    return tpj_executable_stats(program->executable, out_memory, out_cost);
}

tpj_status *tpj_program_create(tpj_client *client, const tpj_graph *graph, const tpj_lower_options *options,
                               tpj_program **out_program) {
    return tpj_program_compile(client, graph, options, NULL, out_program);
}

tpj_status *tpj_program_compile(tpj_client *client, const tpj_graph *graph, const tpj_lower_options *options,
                                const tpj_compile_options *compiler, tpj_program **out_program) {
    tpj_program *program = new_program(client);
    if (program == NULL) return out_of_memory();
    tpj_status *status = lower(program, graph, options);
    if (status == NULL) status = load(program, compiler);
    if (status != NULL)
        tpj_program_release(program);
    else
        *out_program = program;
    return status;
}

static tpj_status *copy_options(tpj_lower_options *copy, const tpj_lower_options *options) {
    size_t n_bytes = sizeof *options->sizes * (size_t)options->n_sizes;
    *copy = *options;
    copy->precision = options->precision != NULL ? strdup(options->precision) : NULL;
    copy->sizes = n_bytes > 0 ? malloc(n_bytes) : NULL;
    if ((options->precision != NULL && copy->precision == NULL) || (n_bytes > 0 && copy->sizes == NULL))
        return out_of_memory();
    if (n_bytes > 0) memcpy((int64_t *)copy->sizes, options->sizes, n_bytes);
    return NULL;
}

tpj_status *tpj_program_prepare(tpj_client *client, tpj_graph *graph, const tpj_lower_options *options,
                                tpj_program **out_program) {
    tpj_program *program = new_program(client);
    if (program == NULL) {
        tpj_graph_destroy(graph);
        return out_of_memory();
    }
    program->graph = graph;
    tpj_status *status = copy_options(&program->options, options);
    if (status == NULL) status = lower(program, graph, options);
    if (status != NULL)
        tpj_program_release(program);
    else
        *out_program = program;
    return status;
}

bool tpj_program_is_for_cpu(const tpj_client *client) {
    return tpj_client_is_cpu(client) && strcmp(tpj_config_lower_for(), "tpu") != 0;
}

tpj_status *tpj_program_create_window(tpj_client *client, const tpj_window_call *calls, int n_calls,
                                      const tpj_window_slot *slots, int n_slots, int n_random,
                                      tpj_program **out_program, int *out_failed) {
    tpj_status *status = NULL;
    *out_failed = -1;
    tpj_program *program = new_program(client);
    if (program == NULL) return out_of_memory();
    program->op = "window";
    TPJ_TRY_GOTO(tpj_lower_window(calls, n_calls, slots, n_slots, n_random, tpj_program_is_for_cpu(client),
                                  &program->lowered, out_failed));
    measure(program);
    TPJ_TRY_GOTO(tpj_program_load(program));
    *out_program = program;
    program = NULL;
done:
    tpj_program_release(program);
    return status;
}

void tpj_program_retain(tpj_program *program) { __atomic_fetch_add(&program->references, 1, __ATOMIC_RELAXED); }

void tpj_program_release(tpj_program *program) {
    if (program == NULL || __atomic_sub_fetch(&program->references, 1, __ATOMIC_ACQ_REL) != 0) return;
    if (program->executable != NULL) tpj_executable_release(program->executable);
    tpj_status_destroy(program->failure);
    tpj_lowered_destroy(program->lowered);
    tpj_graph_destroy(program->graph);
    free((char *)program->options.precision);
    free((int64_t *)program->options.sizes);
    free(program->file);
    free(program);
}

int tpj_program_n_results(const tpj_program *program) { return program->lowered->n_results; }
const tpj_result *tpj_program_result(const tpj_program *program, int i) { return &program->lowered->results[i]; }
uint64_t tpj_program_random_count(const tpj_program *program) { return program->lowered->random_count; }

int64_t tpj_program_result_bytes(const tpj_program *program) {
    int64_t n_bytes = 0;
    for (int i = 0; i < program->lowered->n_results; i++) {
        const tpj_lowered_result *result = &program->lowered->results[i];
        if (!result->none && result->target < 0) n_bytes += (int64_t)result->n_bytes;
    }
    return n_bytes;
}

tpj_status *tpj_program_annotate(tpj_status *status, const tpj_program *program) {
    if (status == NULL || program == NULL || program->op == NULL) return status;
    const char *op = program->lowered->description;
    if (program->file == NULL) return tpj_status_annotate(status, "%s", op);
    return tpj_status_annotate(status, "%s (first called at %s:%d)", op, program->file, program->line);
}

tpj_status *tpj_program_check_error(const tpj_program *program, int check, int64_t element, const char *file,
                                    int line) {
    const tpj_index_check *expected = &program->lowered->checks[check];
    tpj_status *status =
        expected->message != NULL
            ? tpj_status_create(expected->code, "%s", expected->message)
            : tpj_status_create(expected->code, "index %lld is out of bounds for dimension with size %lld",
                                (long long)element, (long long)expected->size);
    if (file == NULL) return tpj_program_annotate(status, program);
    return tpj_status_annotate(status, "%s (called at %s:%d)", program->lowered->description, file, line);
}

/* The first check whose result lies outside of what is right, or -1. */
static tpj_status *read_result(const tpj_program *program, tpj_buffer *result, int *out_check, int64_t *out_element) {
    enum { FEW = 32 };
    int64_t few[FEW], *elements = few;
    int n = program->lowered->n_checks;
    if (n > FEW) elements = malloc(sizeof *elements * (size_t)n);
    if (elements == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    tpj_status *status = tpj_buffer_to_host(result, elements, sizeof *elements * (size_t)n);
    *out_check = -1;
    for (int i = n - 1; i >= 0 && status == NULL; i--) {
        const tpj_index_check *expected = &program->lowered->checks[i];
        if (elements[i] >= expected->low && elements[i] < expected->size) continue;
        *out_check = i;
        *out_element = elements[i];
    }
    if (elements != few) free(elements);
    return status;
}

tpj_status *tpj_program_read_checks(const tpj_program *program, const tpj_checks *checks, int *out_check,
                                    int64_t *out_element) {
    *out_check = -1;
    if (tpj_client_plans(program->client)) return NULL; /* no index was made */
    if (checks->result != NULL) return read_result(program, checks->result, out_check, out_element);
    *out_check = tpj_report_await(checks->report, out_element);
    return NULL;
}

void tpj_checks_release(tpj_checks *checks) {
    tpj_buffer_release(checks->result);
    tpj_report_give(checks->report);
    *checks = (tpj_checks){0};
}
