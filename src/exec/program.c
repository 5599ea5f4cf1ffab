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
#include "ops/ops.h"

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

tpj_status *tpj_program_create(tpj_client *client, const tpj_graph *graph, const tpj_lower_options *options,
                               tpj_program **out_program) {
    return tpj_program_compile(client, graph, options, NULL, out_program);
}

tpj_status *tpj_program_compile(tpj_client *client, const tpj_graph *graph, const tpj_lower_options *options,
                                const tpj_compile_options *compiler, tpj_program **out_program) {
    tpj_status *status = NULL;
    int64_t began = tpj_clock_now();
    tpj_program *program = calloc(1, sizeof *program);
    if (program == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    program->references = 1;
    program->client = client;
    program->n_inputs = tpj_graph_n_inputs(graph);
    remember_origin(program, graph);
    TPJ_TRY_GOTO(tpj_lower_graph(graph, options, &program->lowered));
    dump_module(program);
    const tpj_lowered *lowered = program->lowered;
    bool loaded;
    status = tpj_compile(client, lowered->module, lowered->module_length, compiler, &program->executable, &loaded);
    if (status != NULL) {
        tpj_log(TPJ_LOG_INFO, "module that failed to compile:\n%s", lowered->module);
        status = tpj_status_annotate(status, "%s: the compiler refused the program",
                                     program->op != NULL ? program->op : "graph");
        goto done;
    }
    for (int i = 0; i < lowered->n_results; i++) program->n_outputs += !lowered->results[i].none;
    program->n_outputs += lowered->n_checks;
    enum { FIXED_COST = 48 * 1024 }; /* what a loaded small program was seen to hold on the CPU plugins */
    program->n_bytes = FIXED_COST + lowered->module_length * 2;
    atomic_fetch_add(&n_programs, 1);
    atomic_fetch_add(&n_loaded, loaded);
    atomic_fetch_add(&compile_nanoseconds, tpj_clock_now() - began);
    if (tpj_log_enabled(TPJ_LOG_INFO))
        tpj_log(TPJ_LOG_INFO, "%s %s in %.1f ms (%s:%d)", loaded ? "loaded" : "compiled",
                program->op != NULL ? program->op : "graph", (double)(tpj_clock_now() - began) * 1e-6,
                program->file != NULL ? program->file : "?", program->line);
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
    tpj_lowered_destroy(program->lowered);
    free(program->file);
    free(program);
}

int tpj_program_n_results(const tpj_program *program) { return program->lowered->n_results; }
const tpj_result *tpj_program_result(const tpj_program *program, int i) { return &program->lowered->results[i]; }
uint64_t tpj_program_random_count(const tpj_program *program) { return program->lowered->random_count; }

tpj_status *tpj_program_annotate(tpj_status *status, const tpj_program *program) {
    if (status == NULL || program == NULL || program->op == NULL) return status;
    const char *op = program->lowered->description;
    if (program->file == NULL) return tpj_status_annotate(status, "%s", op);
    return tpj_status_annotate(status, "%s (first called at %s:%d)", op, program->file, program->line);
}

tpj_status *tpj_program_check(const tpj_program *program, int check, tpj_buffer *result, const char *file, int line) {
    const tpj_index_check *expected = &program->lowered->checks[check];
    int64_t past = 0;
    TPJ_TRY(tpj_buffer_to_host(result, &past, sizeof past));
    if (past < 0 && past >= expected->low - expected->size) return NULL;
    int64_t found = (int64_t)((uint64_t)past + (uint64_t)expected->size); /* INT64_MIN less the size has wrapped */
    tpj_status *status =
        expected->message != NULL
            ? tpj_status_create(expected->code, "%s", expected->message)
            : tpj_status_create(expected->code, "index %lld is out of bounds for dimension with size %lld",
                                (long long)found, (long long)expected->size);
    if (file == NULL) return tpj_program_annotate(status, program);
    return tpj_status_annotate(status, "%s (called at %s:%d)", program->lowered->description, file, line);
}
