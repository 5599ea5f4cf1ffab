/* Compiles a program for a TPU that is not there, and prints what it would need of one.
 *
 *     cc -std=c11 -Iinclude examples/c/aot.c libtpj.so -Wl,-rpath,. -o aot
 *     ./aot libtpu.so v6e:1x1 examples/c/softmax.graph
 *
 * The program is a graph (docs/graph_text.md) or a StableHLO module, as text. Without one a matrix product is compiled,
 * without a topology for one chip of a TPU v6e. libtpu comes from `pip install libtpu`; the environment variable
 * TPU_LIBRARY_PATH may name it instead ("" as the first argument). */
#include <inttypes.h>
#include <string.h>

#include "common.h"
#include "tpj/lower.h"
#include "tpj/pjrt.h"

static const char matrix_product[] = "graph {\n"
                                     "  %0 = input bf16[4096, 8192]\n"
                                     "  %1 = input bf16[8192, 4096]\n"
                                     "  %2 = mm(self=%0, mat2=%1)\n"
                                     "  return %2\n"
                                     "}\n";

/* A graph's text begins with the word, behind comments; a module's does not. */
static bool is_graph(const char *text) {
    for (text += strspn(text, " \t\r\n"); *text == '#'; text += strspn(text, " \t\r\n")) text += strcspn(text, "\n");
    return strncmp(text, "graph", 5) == 0;
}

static tpj_status *lower(const char *text, size_t length, tpj_lowered **out_lowered) {
    tpj_graph *graph;
    TPJ_TRY(tpj_graph_parse(text, length, &graph));
    tpj_status *status = tpj_lower_graph(graph, NULL, out_lowered);
    tpj_graph_destroy(graph);
    return status;
}

static void print_bytes(const char *what, int64_t bytes) {
    if (bytes < 0)
        printf("%-12s unknown\n", what);
    else
        printf("%-12s %12" PRId64 " bytes (%.2f MiB)\n", what, bytes, (double)bytes / (1 << 20));
}

static tpj_status *compile_and_report(const char *libtpu, const char *name, const char *module, size_t module_length) {
    tpj_status *status = NULL;
    tpj_plugin *plugin;
    tpj_topology *topology = NULL;
    tpj_compiled *compiled = NULL;
    tpj_compiled_memory memory;
    tpj_compiled_cost cost;
    TPJ_TRY_GOTO(tpj_plugin_open(libtpu, true, &plugin));
    TPJ_TRY_GOTO(tpj_topology_create(plugin, name, &topology));
    TPJ_TRY_GOTO(tpj_topology_compile(topology, module, module_length, NULL, &compiled));
    TPJ_TRY_GOTO(tpj_compiled_memory_stats(compiled, &memory));
    TPJ_TRY_GOTO(tpj_compiled_cost_stats(compiled, &cost));
    printf("topology     %s, %d device(s)\n", name, tpj_topology_n_devices(topology));
    print_bytes("arguments", memory.argument_bytes);
    print_bytes("outputs", memory.output_bytes);
    print_bytes("in place", memory.alias_bytes);
    print_bytes("temporaries", memory.temp_bytes);
    print_bytes("peak", memory.peak_bytes);
    print_bytes("code", memory.code_bytes);
    if (cost.flops >= 0) printf("work         %.3g floating-point operations\n", cost.flops);
    if (cost.bytes_accessed >= 0) printf("traffic      %.3g bytes read and written\n", cost.bytes_accessed);
    if (cost.optimal_seconds > 0) printf("time         %.1f us at best\n", cost.optimal_seconds * 1e6);
done:
    tpj_compiled_destroy(compiled);
    tpj_topology_destroy(topology);
    return status;
}

static tpj_status *run(const char *libtpu, const char *topology, const char *path) {
    tpj_status *status = NULL;
    tpj_lowered *lowered = NULL;
    char *file = NULL;
    const char *program = matrix_product;
    size_t length = sizeof matrix_product - 1;
    if (path != NULL) {
        TPJ_TRY_GOTO(read_file(path, &file, &length));
        program = file;
    }
    if (is_graph(program)) {
        TPJ_TRY_GOTO(lower(program, length, &lowered));
        program = lowered->module;
        length = lowered->module_length;
    }
    status = compile_and_report(libtpu, topology, program, length);
done:
    tpj_lowered_destroy(lowered);
    free(file);
    return status;
}

int main(int n_args, char **args) {
    const char *libtpu = n_args > 1 && args[1][0] != '\0' ? args[1] : getenv("TPU_LIBRARY_PATH");
    if (libtpu == NULL) {
        printf("skipped: libtpu is not here (pip install libtpu, then: aot path/to/libtpu.so)\n");
        return 0;
    }
    return report(run(libtpu, n_args > 2 ? args[2] : "v6e:1x1", n_args > 3 ? args[3] : NULL));
}
