#include <string.h>

#include "package/internal.h"

enum { VERSION = 1, MOST_DIMENSIONS = 64 };

static tpj_status *no_memory(void) { return tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory"); }

tpj_status *tpj_package_read_shape(tpj_arena *arena, const tpj_json *entry, tpj_type *out_type) {
    const tpj_json *shape;
    TPJ_TRY(tpj_json_container(entry, "shape", TPJ_JSON_ARRAY, &shape));
    if (shape->n > MOST_DIMENSIONS) TPJ_ERROR(TPJ_VALUE, "\"shape\" has %d sizes", shape->n);
    int64_t *dims = TPJ_ARENA_ARRAY(arena, int64_t, shape->n + 1);
    if (dims == NULL) return no_memory();
    out_type->rank = 0;
    out_type->dims = dims;
    for (const tpj_json *size = shape->first; size != NULL; size = size->next) {
        if (size->kind != TPJ_JSON_INTEGER || size->integer < 0)
            TPJ_ERROR(TPJ_VALUE, "\"shape\" is not a list of sizes");
        dims[out_type->rank++] = size->integer;
    }
    return NULL;
}

tpj_status *tpj_package_bytes(const tpj_type *type, size_t *out_n_bytes) {
    int64_t n = tpj_type_elements(type);
    size_t width = tpj_dtype_bytes(type->dtype);
    if (n < 0 || (uint64_t)n > PTRDIFF_MAX / width) TPJ_ERROR(TPJ_VALUE, "\"shape\" is too large");
    *out_n_bytes = (size_t)n * width;
    return NULL;
}

static tpj_status *read_type(tpj_arena *arena, const tpj_json *entry, tpj_type *out_type) {
    const char *dtype;
    size_t n_bytes;
    TPJ_TRY(tpj_json_string(entry, "dtype", &dtype));
    if (!tpj_dtype_parse(dtype, strlen(dtype), &out_type->dtype))
        TPJ_ERROR(TPJ_VALUE, "\"dtype\" '%.40s' is not known", dtype);
    TPJ_TRY(tpj_package_read_shape(arena, entry, out_type));
    return tpj_package_bytes(out_type, &n_bytes);
}

/* An index into a list of n; `or_none`: -1 where the key is absent. */
static tpj_status *read_index(const tpj_json *entry, const char *key, int n, bool or_none, int *out_index) {
    int64_t index = -1;
    if (!or_none || tpj_json_get(entry, key) != NULL) {
        TPJ_TRY(tpj_json_integer(entry, key, &index));
        if (index < 0 || index >= n) TPJ_ERROR(TPJ_VALUE, "\"%s\" is %lld of %d", key, (long long)index, n);
    }
    *out_index = (int)index;
    return NULL;
}

/* ---- the lists; each entry is an object ---- */

static tpj_status *read_value(tpj_arena *arena, const tpj_json *entry, tpj_package_value *out) {
    TPJ_TRY(tpj_json_string(entry, "name", &out->name));
    TPJ_TRY(read_type(arena, entry, &out->type));
    if (tpj_json_get(entry, "writes") != NULL) TPJ_TRY(tpj_json_string(entry, "writes", &out->writes));
    return tpj_package_bytes(&out->type, &out->n_bytes);
}

static tpj_status *read_input(tpj_arena *arena, const tpj_json *entry, tpj_manifest *m, int i) {
    return read_value(arena, entry, &m->inputs[i]);
}

static tpj_status *read_output(tpj_arena *arena, const tpj_json *entry, tpj_manifest *m, int i) {
    return read_value(arena, entry, &m->outputs[i]);
}

static tpj_status *read_weight(tpj_arena *arena, const tpj_json *entry, tpj_manifest *m, int i) {
    TPJ_TRY(tpj_json_string(entry, "name", &m->weights[i].name));
    return read_type(arena, entry, &m->weights[i].type);
}

static tpj_status *read_argument(tpj_arena *arena, const tpj_json *entry, tpj_manifest *m, int i) {
    (void)arena;
    tpj_package_argument *out = &m->arguments[i];
    out->is_input = tpj_json_get(entry, "input") != NULL;
    if (out->is_input == (tpj_json_get(entry, "weight") != NULL))
        TPJ_ERROR(TPJ_VALUE, "it is neither an input nor a weight, or both");
    if (out->is_input) return read_index(entry, "input", m->n_inputs, false, &out->index);
    return read_index(entry, "weight", m->n_weights, false, &out->index);
}

static tpj_status *read_result(tpj_arena *arena, const tpj_json *entry, tpj_manifest *m, int i) {
    (void)arena;
    tpj_package_result *out = &m->results[i];
    TPJ_TRY(read_index(entry, "output", m->n_outputs, true, &out->output));
    TPJ_TRY(read_index(entry, "weight", m->n_weights, true, &out->weight));
    if ((out->output < 0) == (out->weight < 0)) TPJ_ERROR(TPJ_VALUE, "it is neither an output nor a weight, or both");
    out->type = out->output >= 0 ? m->outputs[out->output].type : m->weights[out->weight].type;
    return NULL;
}

static const struct {
    const char *name;
    tpj_code code;
} codes[] = {
    {"runtime", TPJ_RUNTIME}, {"type", TPJ_TYPE}, {"value", TPJ_VALUE}, {"index", TPJ_INDEX}, {"linalg", TPJ_LINALG},
};

static tpj_status *read_check(tpj_arena *arena, const tpj_json *entry, tpj_manifest *m, int i) {
    (void)arena;
    tpj_package_check *out = &m->checks[i];
    const char *code;
    TPJ_TRY(tpj_json_string(entry, "op", &out->op));
    TPJ_TRY(tpj_json_string(entry, "message", &out->message));
    TPJ_TRY(tpj_json_integer(entry, "low", &out->low));
    TPJ_TRY(tpj_json_integer(entry, "size", &out->size));
    TPJ_TRY(tpj_json_string(entry, "code", &code));
    for (size_t k = 0; k < sizeof codes / sizeof codes[0]; k++)
        if (strcmp(codes[k].name, code) == 0) out->code = codes[k].code;
    if (out->code == TPJ_OK) TPJ_ERROR(TPJ_VALUE, "\"code\" '%.40s' is not known", code);
    return NULL;
}

static tpj_status *read_executable(tpj_arena *arena, const tpj_json *entry, tpj_manifest *m, int i) {
    (void)arena;
    TPJ_TRY(tpj_json_string(entry, "file", &m->executables[i].file));
    return tpj_json_string(entry, "identity", &m->executables[i].identity);
}

typedef tpj_status *read_entry(tpj_arena *arena, const tpj_json *entry, tpj_manifest *m, int i);

/* Room for the list's entries, zeroed, then each of them. */
static tpj_status *read_list(tpj_arena *arena, const tpj_json *root, const char *key, read_entry *read, size_t size,
                             tpj_manifest *m, void **out_entries, int *out_n) {
    const tpj_json *list;
    TPJ_TRY(tpj_json_container(root, key, TPJ_JSON_ARRAY, &list));
    *out_entries = tpj_arena_alloc(arena, size * ((size_t)list->n + 1));
    if (*out_entries == NULL) return no_memory();
    *out_n = list->n;
    int i = 0;
    for (const tpj_json *entry = list->first; entry != NULL; entry = entry->next, i++)
        TPJ_TRY(tpj_status_annotate(read(arena, entry, m, i), "\"%s\", entry %d", key, i));
    return NULL;
}

#define READ_LIST(name, read) \
    TPJ_TRY(read_list(arena, root, #name, read, sizeof *m->name, m, (void **)&m->name, &m->n_##name))

/* Each output is the result of something, and each input the caller's. */
static tpj_status *check_whole(const tpj_manifest *m) {
    for (int i = 0; i < m->n_outputs; i++) {
        int n = 0;
        for (int k = 0; k < m->n_results; k++) n += m->results[k].output == i;
        if (n != 1) TPJ_ERROR(TPJ_VALUE, "output '%.200s' belongs to %d results", m->outputs[i].name, n);
    }
    return NULL;
}

tpj_status *tpj_manifest_parse(tpj_arena *arena, const char *text, size_t length, tpj_manifest *m) {
    const tpj_json *root;
    const char *format;
    int64_t version;
    *m = (tpj_manifest){0};
    TPJ_TRY(tpj_json_parse(arena, text, length, &root));
    TPJ_TRY(tpj_json_string(root, "format", &format));
    if (strcmp(format, "torch_pjrt.package") != 0) TPJ_ERROR(TPJ_VALUE, "\"format\" is '%.40s'", format);
    TPJ_TRY(tpj_json_integer(root, "version", &version));
    if (version != VERSION)
        TPJ_ERROR(TPJ_NOT_IMPLEMENTED, "the package has version %lld, this library reads %d: export it again",
                  (long long)version, VERSION);
    TPJ_TRY(tpj_json_container(root, "files", TPJ_JSON_OBJECT, &m->files));
    TPJ_TRY(tpj_json_string(root, "program", &m->program));
    TPJ_TRY(tpj_json_string(root, "weights_file", &m->weights_file));
    READ_LIST(inputs, read_input);
    READ_LIST(outputs, read_output);
    READ_LIST(weights, read_weight);
    READ_LIST(arguments, read_argument);
    READ_LIST(results, read_result);
    READ_LIST(checks, read_check);
    READ_LIST(executables, read_executable);
    return check_whole(m);
}
