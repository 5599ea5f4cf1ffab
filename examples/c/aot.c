/* Compiles a StableHLO program for a TPU that is not there, and prints what it would need of one.
 *
 *     cc -std=c11 -Iinclude -Isrc -o aot examples/c/aot.c $(find src -name '*.c' ! -name '*_test.c') -ldl -lpthread -lm
 *     ./aot libtpu.so v6e:1x1 module.mlir
 *
 * Without a module a matrix product is compiled, without a topology one chip of a TPU v6e. libtpu comes from
 * `pip install libtpu`; the environment variable TPU_LIBRARY_PATH may name it instead ("" as the first argument). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tpj/pjrt.h"

static const char matrix_product[] =
    "module {\n"
    "  func.func @main(%a: tensor<4096x8192xbf16>, %b: tensor<8192x4096xbf16>) -> tensor<4096x4096xf32> {\n"
    "    %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]\n"
    "        : (tensor<4096x8192xbf16>, tensor<8192x4096xbf16>) -> tensor<4096x4096xf32>\n"
    "    return %c : tensor<4096x4096xf32>\n"
    "  }\n"
    "}\n";

/* The whole of a file, with a NUL behind it. The caller frees it. NULL, with errno set, when that fails. */
static char *read_file(const char *path, size_t *out_n) {
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    size_t n = 0, capacity = 0;
    while (file != NULL && !feof(file) && !ferror(file)) {
        if (capacity - n < 2) {
            char *grown = realloc(data, capacity = capacity * 2 + 65536);
            if (grown == NULL) break;
            data = grown;
        }
        n += fread(data + n, 1, capacity - n - 1, file);
    }
    bool complete = file != NULL && feof(file);
    if (file != NULL) fclose(file);
    if (complete) {
        data[n] = '\0';
        *out_n = n;
        return data;
    }
    free(data);
    return NULL;
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
    if (cost.optimal_seconds > 0) printf("time         %.1f us at best\n", cost.optimal_seconds * 1e6);
done:
    tpj_compiled_destroy(compiled);
    tpj_topology_destroy(topology);
    return status;
}

int main(int n_args, char **args) {
    const char *libtpu = n_args > 1 && args[1][0] != '\0' ? args[1] : getenv("TPU_LIBRARY_PATH");
    const char *topology = n_args > 2 ? args[2] : "v6e:1x1";
    size_t module_length = sizeof matrix_product - 1;
    char *file = NULL;
    if (libtpu == NULL) {
        printf("skipped: libtpu is not here (pip install libtpu, then: aot path/to/libtpu.so)\n");
        return 0;
    }
    if (n_args > 3 && (file = read_file(args[3], &module_length)) == NULL) {
        perror(args[3]);
        return 1;
    }
    tpj_status *status = compile_and_report(libtpu, topology, file != NULL ? file : matrix_product, module_length);
    if (status != NULL) fprintf(stderr, "%s\n", tpj_status_message(status));
    int result = status != NULL;
    tpj_status_destroy(status);
    free(file);
    return result;
}
