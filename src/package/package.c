#include "tpj/package.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "exec/compile.h"
#include "package/internal.h"
#include "pjrt/identity.h"

typedef struct file_bytes {
    char *data;
    size_t n;
} file_bytes;

struct tpj_package {
    char *folder;
    tpj_arena arena;
    tpj_manifest manifest;
    file_bytes program, weights; /* freed once they are on the device */
    const tpj_tensor *tensors;   /* of the weights' file */
    int n_tensors;
    tpj_client *client;
    int device;
    tpj_executable *executable;
    bool precompiled;
};

static tpj_status *no_memory(void) { return tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory"); }

uint32_t tpj_package_crc32(const void *data, size_t n_bytes) {
    uint32_t table[256], crc = 0xFFFFFFFFu;
    const unsigned char *bytes = data;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t entry = i;
        for (int k = 0; k < 8; k++) entry = entry >> 1 ^ (entry & 1 ? 0xEDB88320u : 0);
        table[i] = entry;
    }
    for (size_t i = 0; i < n_bytes; i++) crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 0xff];
    return ~crc;
}

/* ---- files ---- */

/* A file's whole contents with a NUL behind them, which the caller frees. */
static tpj_status *read_stream(FILE *file, file_bytes *out) {
    size_t capacity = 0;
    while (!feof(file)) {
        if (capacity - out->n < 2) {
            char *grown = realloc(out->data, capacity = capacity * 2 + 65536);
            if (grown == NULL) return no_memory();
            out->data = grown;
        }
        out->n += fread(out->data + out->n, 1, capacity - out->n, file);
        if (ferror(file)) TPJ_ERROR(TPJ_VALUE, "the file cannot be read");
    }
    out->data[out->n] = '\0';
    return NULL;
}

static tpj_status *read_whole(const char *folder, const char *name, file_bytes *out) {
    tpj_text path = {0};
    tpj_text_printf(&path, "%s/%s", folder, name);
    bool failed = path.failed;
    FILE *file = failed ? NULL : fopen(tpj_text_string(&path), "rb");
    tpj_text_destroy(&path);
    *out = (file_bytes){0};
    if (failed) return no_memory();
    if (file == NULL) TPJ_ERROR(TPJ_VALUE, "the file cannot be opened");
    tpj_status *status = read_stream(file, out);
    fclose(file);
    if (status == NULL) return NULL;
    free(out->data);
    *out = (file_bytes){0};
    return status;
}

/* A name inside of the folder. */
static bool is_local(const char *name) {
    return name[0] != '\0' && name[0] != '/' && name[0] != '.' && strstr(name, "..") == NULL &&
           strchr(name, '\\') == NULL;
}

static tpj_status *check_file(const tpj_json *entry, const file_bytes *file) {
    int64_t n_bytes, crc;
    TPJ_TRY(tpj_json_integer(entry, "bytes", &n_bytes));
    TPJ_TRY(tpj_json_integer(entry, "crc32", &crc));
    if (n_bytes < 0 || (uint64_t)n_bytes != file->n)
        TPJ_ERROR(TPJ_VALUE, "the file has %zu bytes, the manifest says %lld", file->n, (long long)n_bytes);
    if ((int64_t)tpj_package_crc32(file->data, file->n) != crc)
        TPJ_ERROR(TPJ_VALUE, "the file is damaged: its checksum is not the manifest's");
    return NULL;
}

/* Reads a file that the manifest lists, and checks it. */
static tpj_status *read_listed(const tpj_package *package, const char *name, file_bytes *out) {
    const tpj_json *entry = tpj_json_get(package->manifest.files, name);
    if (!is_local(name)) TPJ_ERROR(TPJ_VALUE, "the name of a file leads out of the folder");
    if (entry == NULL) TPJ_ERROR(TPJ_VALUE, "\"files\" does not list it");
    TPJ_TRY(read_whole(package->folder, name, out));
    tpj_status *status = check_file(entry, out);
    if (status != NULL) {
        free(out->data);
        *out = (file_bytes){0};
    }
    return status;
}

/* ---- opening ---- */

static const tpj_tensor *find_tensor(const tpj_package *package, const char *name) {
    for (int i = 0; i < package->n_tensors; i++)
        if (strcmp(package->tensors[i].name, name) == 0) return &package->tensors[i];
    return NULL;
}

/* A dtype without a name in safetensors lies there as bytes. */
static tpj_status *check_weight(const tpj_package *package, const tpj_package_weight *weight) {
    const tpj_tensor *tensor = find_tensor(package, weight->name);
    size_t n_bytes;
    if (tensor == NULL) TPJ_ERROR(TPJ_VALUE, "the file does not have it");
    TPJ_TRY(tpj_package_bytes(&weight->type, &n_bytes));
    const tpj_type *found = &tensor->type, *wanted = &weight->type;
    bool same = found->dtype == wanted->dtype && found->rank == wanted->rank &&
                (wanted->rank == 0 || memcmp(found->dims, wanted->dims, (size_t)wanted->rank * sizeof(int64_t)) == 0);
    bool as_bytes = found->dtype == TPJ_U8 && found->rank == 1 && found->dims[0] == (int64_t)n_bytes;
    if (!same && !as_bytes) TPJ_ERROR(TPJ_VALUE, "its dtype or shape is not the manifest's");
    return NULL;
}

static tpj_status *read_weights(tpj_package *package) {
    const tpj_manifest *m = &package->manifest;
    TPJ_TRY(read_listed(package, m->weights_file, &package->weights));
    TPJ_TRY(tpj_safetensors_parse(&package->arena, package->weights.data, package->weights.n, &package->tensors,
                                  &package->n_tensors));
    for (int i = 0; i < m->n_weights; i++)
        TPJ_TRY(tpj_status_annotate(check_weight(package, &m->weights[i]), "'%.200s'", m->weights[i].name));
    return NULL;
}

static tpj_status *read_package(tpj_package *package) {
    file_bytes text;
    TPJ_TRY(tpj_status_annotate(read_whole(package->folder, "manifest.json", &text), "manifest.json"));
    tpj_status *status = tpj_manifest_parse(&package->arena, text.data, text.n, &package->manifest);
    free(text.data);
    TPJ_TRY(tpj_status_annotate(status, "manifest.json"));
    const tpj_manifest *m = &package->manifest;
    TPJ_TRY(tpj_status_annotate(read_listed(package, m->program, &package->program), "%.200s", m->program));
    TPJ_TRY(tpj_status_annotate(tpj_package_check_signature(m, package->program.data), "%.200s", m->program));
    return tpj_status_annotate(read_weights(package), "%.200s", m->weights_file);
}

tpj_status *tpj_package_open(const char *folder, tpj_package **out_package) {
    tpj_package *package = calloc(1, sizeof *package);
    if (package == NULL) return no_memory();
    tpj_arena_init(&package->arena);
    package->folder = tpj_arena_string(&package->arena, folder);
    tpj_status *status = package->folder == NULL ? no_memory() : read_package(package);
    if (status != NULL) {
        tpj_package_close(package);
        return tpj_status_annotate(status, "package %s", folder);
    }
    *out_package = package;
    return NULL;
}

static void free_files(tpj_package *package) {
    free(package->program.data);
    free(package->weights.data);
    package->program = package->weights = (file_bytes){0};
}

void tpj_package_close(tpj_package *package) {
    if (package == NULL) return;
    for (int i = 0; i < package->manifest.n_weights && package->manifest.weights != NULL; i++)
        tpj_buffer_release(package->manifest.weights[i].buffer);
    tpj_executable_release(package->executable);
    free_files(package);
    tpj_arena_destroy(&package->arena);
    free(package);
}

int tpj_package_n_inputs(const tpj_package *package) { return package->manifest.n_inputs; }
const tpj_package_value *tpj_package_input(const tpj_package *package, int i) { return &package->manifest.inputs[i]; }
int tpj_package_n_outputs(const tpj_package *package) { return package->manifest.n_outputs; }
const tpj_package_value *tpj_package_output(const tpj_package *package, int i) { return &package->manifest.outputs[i]; }
bool tpj_package_is_precompiled(const tpj_package *package) { return package->precompiled; }

bool tpj_package_has_state(const tpj_package *package) {
    for (int i = 0; i < package->manifest.n_results; i++)
        if (package->manifest.results[i].weight >= 0) return true;
    return false;
}

/* ---- loading ---- */

/* A program that was compiled for this client, NULL when there is none. One that is damaged, or that the plugin does not
 * take, is logged: the StableHLO is there. */
static tpj_executable *find_executable(const tpj_package *package, tpj_client *client) {
    const tpj_manifest *m = &package->manifest;
    tpj_text identity = {0};
    tpj_executable *executable = NULL;
    tpj_status *status = m->n_executables > 0 ? tpj_client_identify(client, NULL, &identity) : NULL;
    for (int i = 0; i < m->n_executables && status == NULL && executable == NULL; i++) {
        file_bytes file = {0};
        if (strcmp(m->executables[i].identity, tpj_text_string(&identity)) != 0) continue;
        status = read_listed(package, m->executables[i].file, &file);
        if (status == NULL) status = tpj_executable_deserialize(client, file.data, file.n, &executable);
        status = tpj_status_annotate(status, "%.200s", m->executables[i].file);
        free(file.data);
    }
    if (status != NULL) tpj_log(TPJ_LOG_WARNING, "package %s: %s", package->folder, tpj_status_message(status));
    tpj_status_destroy(status);
    tpj_text_destroy(&identity);
    return executable;
}

tpj_status *tpj_package_compile(tpj_client *client, const char *module, size_t module_length, void **out_data,
                                size_t *out_n_bytes, char **out_identity) {
    tpj_text identity = {0};
    tpj_executable *executable = NULL;
    tpj_status *status;
    TPJ_TRY_GOTO(tpj_client_identify(client, NULL, &identity));
    if (identity.failed) TPJ_TRY_GOTO(no_memory());
    /* Not through the folder of kept programs: what a CPU plugin has loaded it serialises without its code. */
    TPJ_TRY_GOTO(tpj_executable_compile(client, module, module_length, NULL, &executable));
    TPJ_TRY_GOTO(tpj_executable_serialize(executable, out_data, out_n_bytes));
    *out_identity = identity.data; /* the caller's */
    identity = (tpj_text){0};
done:
    tpj_executable_release(executable);
    tpj_text_destroy(&identity);
    return status;
}

static tpj_status *upload(tpj_package *package, tpj_client *client, int device) {
    for (int i = 0; i < package->manifest.n_weights; i++) {
        tpj_package_weight *weight = &package->manifest.weights[i];
        const tpj_tensor *tensor = find_tensor(package, weight->name);
        size_t n = tensor->n_bytes;
        void *aligned = malloc(n + 1); /* the file's data has any alignment */
        if (aligned == NULL) return no_memory();
        memcpy(aligned, tensor->data, n);
        tpj_status *status = tpj_buffer_from_host(client, device, weight->type.dtype, weight->type.rank,
                                                  weight->type.dims, aligned, &weight->buffer);
        free(aligned);
        TPJ_TRY(tpj_status_annotate(status, "weight '%.200s'", weight->name));
    }
    return NULL;
}

static tpj_status *load_program(tpj_package *package, tpj_client *client, tpj_executable **out) {
    const tpj_manifest *m = &package->manifest;
    bool kept;
    tpj_executable *executable = find_executable(package, client);
    int n_outputs = m->n_results + (m->n_checks > 0);
    package->precompiled = executable != NULL;
    if (executable == NULL)
        TPJ_TRY(tpj_compile(client, package->program.data, package->program.n, NULL, &executable, &kept));
    if (tpj_executable_n_outputs(executable) != n_outputs) {
        tpj_status *status = tpj_status_create(TPJ_VALUE, "the program has %d results, the manifest says %d",
                                               tpj_executable_n_outputs(executable), n_outputs);
        tpj_executable_release(executable);
        return status;
    }
    *out = executable;
    return NULL;
}

tpj_status *tpj_package_load(tpj_package *package, tpj_client *client, int device) {
    if (package->executable != NULL) TPJ_ERROR(TPJ_RUNTIME, "package %s is loaded already", package->folder);
    if (device < 0 || device >= tpj_client_n_devices(client))
        TPJ_ERROR(TPJ_VALUE, "package %s: there is no device %d", package->folder, device);
    tpj_executable *executable = NULL;
    tpj_status *status = load_program(package, client, &executable);
    if (status == NULL) status = upload(package, client, device);
    if (status != NULL) {
        for (int i = 0; i < package->manifest.n_weights; i++) {
            tpj_buffer_release(package->manifest.weights[i].buffer);
            package->manifest.weights[i].buffer = NULL;
        }
        tpj_executable_release(executable);
        return tpj_status_annotate(status, "package %s", package->folder);
    }
    package->executable = executable;
    package->client = client;
    package->device = device;
    free_files(package);
    return NULL;
}

/* ---- running ---- */

static tpj_status *check_input(const tpj_package *package, const tpj_package_value *input, const tpj_buffer *buffer) {
    tpj_dtype dtype;
    int rank;
    const int64_t *dims;
    if (buffer == NULL) TPJ_ERROR(TPJ_VALUE, "input '%s' has no buffer", input->name);
    TPJ_TRY(tpj_buffer_type(buffer, &dtype, &rank, &dims));
    if (dtype != tpj_dtype_carrier(input->type.dtype))
        TPJ_ERROR(TPJ_TYPE, "input '%s' is %s, and %s was given", input->name, tpj_dtype_name(input->type.dtype),
                  tpj_dtype_name(dtype));
    bool same = rank == input->type.rank;
    for (int k = 0; same && k < rank; k++) same = dims[k] == input->type.dims[k];
    if (!same) TPJ_ERROR(TPJ_VALUE, "input '%s' has not the sizes that the package was exported with", input->name);
    if (tpj_buffer_device(buffer) != package->device)
        TPJ_ERROR(TPJ_VALUE, "input '%s' is on device %d, the package on %d", input->name, tpj_buffer_device(buffer),
                  package->device);
    return NULL;
}

static tpj_status *check_indices(const tpj_manifest *m, tpj_buffer *found) {
    int64_t *elements = malloc((size_t)m->n_checks * sizeof *elements);
    if (elements == NULL) return no_memory();
    tpj_status *status = tpj_buffer_to_host(found, elements, (size_t)m->n_checks * sizeof *elements);
    for (int i = 0; i < m->n_checks && status == NULL; i++) {
        const tpj_package_check *check = &m->checks[i];
        if (elements[i] >= check->low && elements[i] < check->size) continue;
        if (check->message[0] != '\0')
            status = tpj_status_create(check->code, "%s: %s", check->op, check->message);
        else
            status = tpj_status_create(check->code, "%s: index %lld is out of bounds for dimension with size %lld",
                                       check->op, (long long)elements[i], (long long)check->size);
    }
    free(elements);
    return status;
}

/* Gives each result to the caller, or puts it in the place of the weight that it is. */
static void distribute(tpj_manifest *m, tpj_buffer **results, tpj_buffer **outputs) {
    for (int i = 0; i < m->n_results; i++) {
        const tpj_package_result *result = &m->results[i];
        if (result->output >= 0) {
            outputs[result->output] = results[i];
        } else {
            tpj_buffer_release(m->weights[result->weight].buffer);
            m->weights[result->weight].buffer = results[i];
        }
        results[i] = NULL;
    }
}

static tpj_status *launch(tpj_package *package, tpj_buffer *const *inputs, tpj_buffer **arguments, tpj_buffer **results,
                          tpj_buffer **outputs) {
    tpj_manifest *m = &package->manifest;
    int n_results = m->n_results + (m->n_checks > 0);
    for (int i = 0; i < m->n_arguments; i++) {
        const tpj_package_argument *argument = &m->arguments[i];
        arguments[i] = argument->is_input ? inputs[argument->index] : m->weights[argument->index].buffer;
    }
    TPJ_TRY(tpj_executable_execute(package->executable, package->device, arguments, m->n_arguments, NULL, 0, results,
                                   n_results));
    tpj_status *status = m->n_checks > 0 ? check_indices(m, results[m->n_results]) : NULL;
    if (status == NULL) distribute(m, results, outputs);
    for (int i = 0; i < n_results; i++) tpj_buffer_release(results[i]);
    return status;
}

tpj_status *tpj_package_run(tpj_package *package, tpj_buffer *const *inputs, int n_inputs, tpj_buffer **outputs) {
    const tpj_manifest *m = &package->manifest;
    if (package->executable == NULL) TPJ_ERROR(TPJ_RUNTIME, "package %s is not loaded", package->folder);
    if (n_inputs != m->n_inputs)
        TPJ_ERROR(TPJ_VALUE, "the package takes %d inputs, and %d were given", m->n_inputs, n_inputs);
    for (int i = 0; i < n_inputs; i++) TPJ_TRY(check_input(package, &m->inputs[i], inputs[i]));
    tpj_buffer **arguments = calloc((size_t)m->n_arguments + (size_t)m->n_results + 2, sizeof *arguments);
    if (arguments == NULL) return no_memory();
    tpj_status *status = launch(package, inputs, arguments, arguments + m->n_arguments, outputs);
    free(arguments);
    return status;
}
