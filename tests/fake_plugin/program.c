/* The signature of a module: only "function_type = (…) -> …" and "arg_attrs = […]" of its generic form are read. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const struct element {
    const char *name;
    int element;
    size_t n_bytes;
} elements[] = {
    {"i1", PJRT_BUFFER_TYPE_PRED, 1},   {"i8", PJRT_BUFFER_TYPE_S8, 1},    {"i16", PJRT_BUFFER_TYPE_S16, 2},
    {"i32", PJRT_BUFFER_TYPE_S32, 4},   {"i64", PJRT_BUFFER_TYPE_S64, 8},  {"ui8", PJRT_BUFFER_TYPE_U8, 1},
    {"ui32", PJRT_BUFFER_TYPE_U32, 4},  {"ui64", PJRT_BUFFER_TYPE_U64, 8}, {"f16", PJRT_BUFFER_TYPE_F16, 2},
    {"bf16", PJRT_BUFFER_TYPE_BF16, 2}, {"f32", PJRT_BUFFER_TYPE_F32, 4},  {"f64", PJRT_BUFFER_TYPE_F64, 8},
    {"i4", PJRT_BUFFER_TYPE_S4, 1},     {"ui4", PJRT_BUFFER_TYPE_U4, 1},
};
enum { N_ELEMENTS = sizeof elements / sizeof *elements };

size_t element_bytes(int element) {
    for (int i = 0; i < N_ELEMENTS; i++)
        if (elements[i].element == element) return elements[i].n_bytes;
    return 0;
}

/* "tensor<4x8xf32>" at the cursor, which moves behind it. */
static bool parse_type(const char **cursor, type *out_type) {
    static const char prefix[] = "tensor<";
    const char *text = *cursor;
    if (strncmp(text, prefix, sizeof prefix - 1) != 0) return false;
    text += sizeof prefix - 1;
    *out_type = (type){.n_bytes = 1};
    while (isdigit((unsigned char)*text)) {
        char *end;
        if (out_type->rank == MAX_RANK) return false;
        int64_t size = strtoll(text, &end, 10);
        if (*end != 'x') return false;
        out_type->dims[out_type->rank++] = size;
        out_type->n_bytes *= (size_t)size;
        text = end + 1;
    }
    size_t n = strcspn(text, ">");
    for (int i = 0; i < N_ELEMENTS; i++)
        if (strlen(elements[i].name) == n && memcmp(elements[i].name, text, n) == 0) {
            out_type->element = elements[i].element;
            out_type->n_bytes *= elements[i].n_bytes;
            *cursor = text + n + 1;
            return true;
        }
    return false;
}

/* "(type, type)", or one type alone. */
static bool parse_types(const char **cursor, type *types, int *out_n) {
    *out_n = 0;
    if (**cursor != '(') {
        *out_n = 1;
        return parse_type(cursor, types);
    }
    for (++*cursor; **cursor != ')'; *cursor += strspn(*cursor, ", "))
        if (*out_n == MAX_VALUES || !parse_type(cursor, &types[(*out_n)++])) return false;
    ++*cursor;
    return true;
}

static bool parse_signature(program *p) {
    static const char key[] = "function_type = ", arrow[] = " -> ", attributes[] = "arg_attrs = [";
    const char *cursor = strstr(p->text, key);
    if (cursor == NULL) return false;
    cursor += sizeof key - 1;
    if (!parse_types(&cursor, p->inputs, &p->n_inputs) || strncmp(cursor, arrow, sizeof arrow - 1) != 0) return false;
    cursor += sizeof arrow - 1;
    if (!parse_types(&cursor, p->outputs, &p->n_outputs)) return false;
    cursor = strstr(p->text, attributes);
    for (int i = 0; cursor != NULL && i < p->n_inputs; i++) {
        const char *open = strchr(cursor, '{'), *close = strchr(cursor, '}');
        if (open == NULL || close == NULL) return false;
        p->donated[i] = close > open + 1;
        cursor = close + 1;
    }
    return true;
}

/* ---- options: enough of the wire format to find what compilers insist on ---- */
static bool read_varint(const char **cursor, const char *end, uint64_t *out_value) {
    *out_value = 0;
    for (int shift = 0; *cursor < end && shift < 64; shift += 7) {
        unsigned char byte = (unsigned char)*(*cursor)++;
        *out_value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

/* The fields of a message: their numbers, and their values or (for bytes) where they begin and how long they are. */
typedef struct field {
    unsigned number;
    uint64_t value;
    const char *bytes;
} field;
static bool next_field(const char **cursor, const char *end, field *out_field) {
    uint64_t tag;
    if (*cursor >= end || !read_varint(cursor, end, &tag) || !read_varint(cursor, end, &out_field->value)) return false;
    out_field->number = (unsigned)(tag >> 3);
    out_field->bytes = *cursor;
    if ((tag & 7) == 2) *cursor += out_field->value;
    return *cursor <= end;
}

static void parse_build(program *p, const char *data, size_t n) {
    field build, assignment, devices;
    for (const char *cursor = data; next_field(&cursor, data + n, &build);) {
        if (build.number == 4) p->n_replicas = (int)build.value;
        if (build.number == 5) p->n_partitions = (int)build.value;
        if (build.number != 9) continue;
        for (const char *a = build.bytes; next_field(&a, build.bytes + build.value, &assignment);) {
            if (assignment.number != 3) continue;
            const char *d = assignment.bytes;
            if (next_field(&d, d + assignment.value, &devices) && p->device_id == 0)
                p->device_id = (int64_t)devices.value;
        }
    }
}

static void parse_options(program *p, const char *data, size_t n) {
    field one;
    for (const char *cursor = data; next_field(&cursor, data + n, &one);) {
        if (one.number == 3) parse_build(p, one.bytes, one.value);
        if (one.number == 4) p->portable = one.value != 0;
    }
    if (p->n_replicas < 1 || p->n_partitions < 1) abort(); /* as the compilers do */
}

pjrt_error *program_create(const char *text, size_t text_size, const char *options, size_t options_size,
                           program **out_program) {
    program *p = calloc(1, sizeof *p);
    char *copy = malloc(text_size + 1);
    if (p == NULL || copy == NULL) abort();
    memcpy(copy, text, text_size);
    copy[text_size] = '\0';
    *p = (program){.n_references = 1, .text = copy, .text_size = text_size};
    parse_options(p, options, options_size);
    if (!parse_signature(p)) {
        program_release(p);
        return new_error(PJRT_ERROR_CODE_INVALID_ARGUMENT, "the module does not parse");
    }
    *out_program = p;
    return NULL;
}

void program_release(program *p) {
    if (atomic_fetch_sub(&p->n_references, 1) != 1) return;
    free(p->text);
    free(p);
}
