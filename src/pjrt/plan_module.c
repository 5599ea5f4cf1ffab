/* The signature of a module: what a planning device has to know of a program. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/plan_internal.h"

static const struct element {
    const char *name;
    int element, n_bits;
} elements[] = {
    {"i1", PJRT_BUFFER_TYPE_PRED, 8},
    {"i4", PJRT_BUFFER_TYPE_S4, 4},
    {"i8", PJRT_BUFFER_TYPE_S8, 8},
    {"i16", PJRT_BUFFER_TYPE_S16, 16},
    {"i32", PJRT_BUFFER_TYPE_S32, 32},
    {"i64", PJRT_BUFFER_TYPE_S64, 64},
    {"ui4", PJRT_BUFFER_TYPE_U4, 4},
    {"ui8", PJRT_BUFFER_TYPE_U8, 8},
    {"ui16", PJRT_BUFFER_TYPE_U16, 16},
    {"ui32", PJRT_BUFFER_TYPE_U32, 32},
    {"ui64", PJRT_BUFFER_TYPE_U64, 64},
    {"f16", PJRT_BUFFER_TYPE_F16, 16},
    {"bf16", PJRT_BUFFER_TYPE_BF16, 16},
    {"f32", PJRT_BUFFER_TYPE_F32, 32},
    {"f64", PJRT_BUFFER_TYPE_F64, 64},
    {"complex<f32>", PJRT_BUFFER_TYPE_C64, 64},
    {"complex<f64>", PJRT_BUFFER_TYPE_C128, 128},
    {"f8E4M3FN", PJRT_BUFFER_TYPE_F8E4M3FN, 8},
    {"f8E5M2", PJRT_BUFFER_TYPE_F8E5M2, 8},
    {"f8E4M3FNUZ", PJRT_BUFFER_TYPE_F8E4M3FNUZ, 8},
    {"f8E5M2FNUZ", PJRT_BUFFER_TYPE_F8E5M2FNUZ, 8},
    {"f8E8M0FNU", PJRT_BUFFER_TYPE_F8E8M0FNU, 8},
};
enum { N_ELEMENTS = sizeof elements / sizeof *elements };

int64_t tpj_plan_type_bytes(int element, int rank, const int64_t *dims) {
    int64_t n = 0;
    for (int i = 0; i < N_ELEMENTS; i++)
        if (elements[i].element == element) n = elements[i].n_bits;
    for (int i = 0; i < rank; i++) n *= dims[i];
    return (n + 7) / 8;
}

static bool skip(const char **cursor, const char *word) {
    size_t n = strlen(word);
    if (strncmp(*cursor, word, n) != 0) return false;
    *cursor += n;
    return true;
}

/* "tensor<4x8xf32>" at the cursor, which moves behind it. */
static bool parse_type(const char **cursor, tpj_plan_type *out_type) {
    enum { MOST_DIMS = 64 };
    int64_t dims[MOST_DIMS];
    *out_type = (tpj_plan_type){0};
    if (!skip(cursor, "tensor<")) return false;
    while (isdigit((unsigned char)**cursor)) {
        char *end;
        if (out_type->rank == MOST_DIMS) return false;
        dims[out_type->rank++] = strtoll(*cursor, &end, 10);
        if (*end != 'x') return false;
        *cursor = end + 1;
    }
    for (int i = 0; i < N_ELEMENTS; i++) {
        const char *after = *cursor;
        if (!skip(&after, elements[i].name) || *after != '>') continue;
        out_type->element = elements[i].element;
        *cursor = after + 1;
        break;
    }
    out_type->dims = malloc(sizeof *dims * (size_t)(out_type->rank + 1));
    if (out_type->element == PJRT_BUFFER_TYPE_INVALID || out_type->dims == NULL) return false;
    memcpy(out_type->dims, dims, sizeof *dims * (size_t)out_type->rank);
    out_type->n_bytes = tpj_plan_type_bytes(out_type->element, out_type->rank, out_type->dims);
    return true;
}

/* "(type, type)". */
static bool parse_types(const char **cursor, tpj_plan_type **out_types, int *out_n) {
    int capacity = 0;
    if (!skip(cursor, "(")) return false;
    while (!skip(cursor, ")")) {
        if (*out_n == capacity) {
            capacity = capacity > 0 ? capacity * 2 : 8;
            tpj_plan_type *grown = realloc(*out_types, sizeof *grown * (size_t)capacity);
            if (grown == NULL) return false;
            *out_types = grown;
        }
        if (!parse_type(cursor, &(*out_types)[(*out_n)++])) return false;
        skip(cursor, ", ");
    }
    return true;
}

/* "[{tf.aliasing_output = 0 : i32}, {}, {jax.buffer_donor = true}]" */
static void parse_donations(const char *module, const char *end, tpj_plan_signature *s) {
    static const char key[] = "arg_attrs = [", aliasing[] = "tf.aliasing_output = ";
    for (int i = 0; i < s->n_inputs; i++) s->donated[i] = TPJ_PLAN_KEPT;
    const char *cursor = strstr(module, key);
    if (cursor == NULL || cursor > end) return;
    for (int i = 0; i < s->n_inputs; i++) {
        const char *open = strchr(cursor, '{'), *close = open != NULL ? strchr(open, '}') : NULL;
        if (close == NULL || close > end) return;
        const char *alias = strstr(open, aliasing), *donor = strstr(open, "jax.buffer_donor");
        if (alias != NULL && alias < close) {
            const char *number = alias + sizeof aliasing - 1;
            char *rest;
            long output = strtol(number, &rest, 10);
            bool is_output = rest != number && output >= 0 && output < s->n_outputs;
            s->donated[i] = is_output ? (int)output : TPJ_PLAN_ANY_OUTPUT;
        } else if (donor != NULL && donor < close) {
            s->donated[i] = TPJ_PLAN_ANY_OUTPUT;
        }
        cursor = close + 1;
    }
}

bool tpj_plan_parse(const char *module, tpj_plan_signature *out_signature) {
    static const char key[] = "function_type = ";
    *out_signature = (tpj_plan_signature){0};
    const char *type = strstr(module, key), *cursor = type != NULL ? type + sizeof key - 1 : module;
    if (!parse_types(&cursor, &out_signature->inputs, &out_signature->n_inputs) || !skip(&cursor, " -> ") ||
        !parse_types(&cursor, &out_signature->outputs, &out_signature->n_outputs))
        return false;
    out_signature->donated = malloc(sizeof *out_signature->donated * (size_t)(out_signature->n_inputs + 1));
    if (out_signature->donated == NULL) return false;
    parse_donations(module, type, out_signature);
    return true;
}

void tpj_plan_signature_destroy(tpj_plan_signature *signature) {
    for (int i = 0; i < signature->n_inputs; i++) free(signature->inputs[i].dims);
    for (int i = 0; i < signature->n_outputs; i++) free(signature->outputs[i].dims);
    free(signature->inputs);
    free(signature->outputs);
    free(signature->donated);
    *signature = (tpj_plan_signature){0};
}
