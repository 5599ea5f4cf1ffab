/* Runs a package that torch_pjrt.export.save wrote, without Python.
 *
 *     cc -std=c11 -Iinclude examples/c/run_exported.c libtpj.so -Wl,-rpath,. -o run_exported
 *     ./run_exported plugin.so folder in0.bin in1.bin -o out
 *
 * A file for each input: its elements, dense and row-major. The outputs go to out.0, out.1, .. in the same form. Without
 * inputs it lists what the package takes and gives. `-n 3` runs it three times, each output file is the last run's. */
#include <inttypes.h>
#include <string.h>

#include "common.h"
#include "tpj/package.h"

typedef struct arguments {
    const char *plugin, *folder, *prefix;
    char **files;
    int n_files, n_runs;
} arguments;

static void print_value(const char *what, const tpj_package_value *value) {
    printf("%s %s: %s[", what, value->name, tpj_dtype_name(value->type.dtype));
    for (int k = 0; k < value->type.rank; k++) printf(k == 0 ? "%" PRId64 : ", %" PRId64, value->type.dims[k]);
    printf(value->writes != NULL ? "], the new %s\n" : "]\n", value->writes);
}

static void print_package(const tpj_package *package) {
    for (int i = 0; i < tpj_package_n_inputs(package); i++) print_value("input", tpj_package_input(package, i));
    for (int i = 0; i < tpj_package_n_outputs(package); i++) print_value("output", tpj_package_output(package, i));
}

static tpj_status *read_input(tpj_client *client, const tpj_package_value *value, const char *path, tpj_buffer **out) {
    char *data = NULL;
    size_t n = 0;
    TPJ_TRY(read_file(path, &data, &n));
    tpj_status *status = n == value->n_bytes ? tpj_buffer_from_host(client, 0, value->type.dtype, value->type.rank,
                                                                    value->type.dims, data, out)
                                             : tpj_status_create(TPJ_VALUE, "%s has %zu bytes, input '%s' has %zu",
                                                                 path, n, value->name, value->n_bytes);
    free(data);
    return status;
}

static tpj_status *write_output(const tpj_package_value *value, tpj_buffer *buffer, const char *prefix, int i) {
    char path[4096];
    char *data = malloc(value->n_bytes + 1);
    if (data == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of memory");
    snprintf(path, sizeof path, "%s.%d", prefix, i);
    tpj_status *status = tpj_buffer_to_host(buffer, data, value->n_bytes);
    FILE *file = status == NULL ? fopen(path, "wb") : NULL;
    bool written = file != NULL && fwrite(data, 1, value->n_bytes, file) == value->n_bytes;
    if (file != NULL) written = fclose(file) == 0 && written;
    free(data);
    if (status == NULL && !written) return tpj_status_create(TPJ_VALUE, "cannot write %s", path);
    return status;
}

static tpj_status *run_once(tpj_package *package, tpj_buffer **inputs, tpj_buffer **outputs, const char *prefix) {
    int n_outputs = tpj_package_n_outputs(package);
    TPJ_TRY(tpj_package_run(package, inputs, tpj_package_n_inputs(package), outputs));
    tpj_status *status = NULL;
    for (int i = 0; i < n_outputs; i++) {
        if (status == NULL && prefix != NULL)
            status = write_output(tpj_package_output(package, i), outputs[i], prefix, i);
        tpj_buffer_release(outputs[i]);
    }
    return status;
}

static tpj_status *run_on(tpj_client *client, tpj_package *package, const arguments *given) {
    tpj_status *status = NULL;
    int n_inputs = tpj_package_n_inputs(package), n_outputs = tpj_package_n_outputs(package);
    tpj_buffer **buffers = calloc((size_t)(n_inputs + n_outputs) + 1, sizeof *buffers);
    if (buffers == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of memory");
    if (given->n_files != n_inputs)
        TPJ_TRY_GOTO(
            tpj_status_create(TPJ_VALUE, "the package takes %d inputs, %d files were given", n_inputs, given->n_files));
    TPJ_TRY_GOTO(tpj_package_load(package, client, 0));
    printf("%s\n", tpj_package_is_precompiled(package) ? "came compiled" : "compiled here");
    for (int i = 0; i < n_inputs; i++)
        TPJ_TRY_GOTO(read_input(client, tpj_package_input(package, i), given->files[i], &buffers[i]));
    for (int i = 0; i < given->n_runs; i++) TPJ_TRY_GOTO(run_once(package, buffers, buffers + n_inputs, given->prefix));
done:
    for (int i = 0; i < n_inputs; i++) tpj_buffer_release(buffers[i]);
    free(buffers);
    return status;
}

static tpj_status *run(const arguments *given) {
    tpj_status *status = NULL;
    tpj_plugin *plugin;
    tpj_client *client = NULL;
    tpj_package *package = NULL;
    TPJ_TRY_GOTO(tpj_package_open(given->folder, &package));
    print_package(package);
    if (given->n_files == 0 && tpj_package_n_inputs(package) > 0) goto done;
    TPJ_TRY_GOTO(tpj_plugin_open(given->plugin, false, &plugin));
    TPJ_TRY_GOTO(tpj_client_create(plugin, 1, &client));
    status = run_on(client, package, given);
done:
    tpj_package_close(package);
    if (client != NULL) tpj_client_destroy(client);
    return status;
}

int main(int n_args, char **args) {
    arguments given = {.n_runs = 1};
    if (n_args < 3) {
        fprintf(stderr, "usage: %s plugin.so folder [input.bin ..] [-o prefix] [-n runs]\n", args[0]);
        return 2;
    }
    given.plugin = args[1];
    given.folder = args[2];
    given.files = args + 3;
    while (3 + given.n_files < n_args && args[3 + given.n_files][0] != '-') given.n_files++;
    for (int i = 3 + given.n_files; i + 1 < n_args; i += 2) {
        if (strcmp(args[i], "-o") == 0) given.prefix = args[i + 1];
        if (strcmp(args[i], "-n") == 0) given.n_runs = atoi(args[i + 1]);
    }
    return report(run(&given));
}
