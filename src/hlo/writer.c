#include "hlo/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool hlo_ready(tpj_hlo *h, tpj_value *const *operands, int n) {
    for (int i = 0; i < n && !h->failed; i++) {
        if (operands[i] == NULL) hlo_fail(h, TPJ_INTERNAL, "operand %d is missing", i);
    }
    return !h->failed;
}

tpj_type hlo_type(tpj_dtype dtype, int rank, const int64_t *dims) { return (tpj_type){dtype, rank, dims}; }

int hlo_dtype_bits(tpj_dtype dtype) { return dtype == TPJ_I4 || dtype == TPJ_U4 ? 4 : (int)tpj_dtype_bytes(dtype) * 8; }

bool hlo_same_type(const tpj_type *a, const tpj_type *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->rank) == 0);
}

const char *hlo_type_string(tpj_hlo *h, const tpj_type *type) {
    tpj_text text = {0};
    tpj_text_printf(&text, "%s[", tpj_dtype_name(type->dtype));
    for (int i = 0; i < type->rank; i++) tpj_text_printf(&text, i == 0 ? "%" PRId64 : ",%" PRId64, type->dims[i]);
    tpj_text_add(&text, "]");
    const char *copy = tpj_arena_string(&h->arena, tpj_text_string(&text));
    tpj_text_destroy(&text);
    return copy == NULL ? "?" : copy;
}

/* Numbers are most of a module's text: this is several times faster than printf. */
static void write_integer(tpj_text *text, int64_t value) {
    char buffer[24], *end = buffer + sizeof buffer, *p = end;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do *--p = (char)('0' + rest % 10);
    while ((rest /= 10) != 0);
    if (value < 0) *--p = '-';
    tpj_text_append(text, p, (size_t)(end - p));
}

void hlo_write_type(tpj_text *text, const tpj_type *type) {
    tpj_text_append(text, "tensor<", 7);
    for (int i = 0; i < type->rank; i++) {
        write_integer(text, type->dims[i]);
        tpj_text_append(text, "x", 1);
    }
    tpj_text_add(text, tpj_dtype_mlir(type->dtype));
    tpj_text_append(text, ">", 1);
}

static void write_name(tpj_text *text, const tpj_value *value) {
    tpj_text_append(text, "%", 1);
    write_integer(text, value->id);
    if (value->n_of > 1) {
        tpj_text_append(text, "#", 1);
        write_integer(text, value->result);
    }
}

/* Ops that move elements without a look at them. Those with regions are among them: what a region does is checked op by
 * op. Sorted, for bsearch. */
static const char *const MOVES[] = {
    "bitcast_convert",
    "broadcast_in_dim",
    "case",
    "concatenate",
    "dynamic_slice",
    "dynamic_update_slice",
    "func.return",
    "gather",
    "if",
    "optimization_barrier",
    "pad",
    "reduce",
    "reshape",
    "reverse",
    "scatter",
    "select",
    "slice",
    "sort",
    "stablehlo.return",
    "transpose",
    "while",
};

static int compare_names(const void *a, const void *b) { return strcmp(a, *(const char *const *)b); }

/* Fails for arithmetic on bits that have no meaning to StableHLO, or, unless the op said so, on float8. */
static bool may_compute(tpj_hlo *h, const char *name, const tpj_value *x) {
    tpj_dtype dtype = x->type.dtype;
    if (tpj_dtype_is_float8(dtype) ? h->float8 : tpj_dtype_carrier(dtype) == dtype) return true;
    if (bsearch(name, MOVES, sizeof MOVES / sizeof *MOVES, sizeof *MOVES, compare_names) != NULL) return true;
    hlo_fail(h, TPJ_NOT_IMPLEMENTED, "not implemented for %s", tpj_dtype_name(dtype));
    return false;
}

static const char *const SLOW[] = {
    "atan2", "cbrt",         "cosine",   "divide", "exponential", "exponential_minus_one",
    "log",   "log_plus_one", "logistic", "power",  "remainder",   "rsqrt",
    "sine",  "sqrt",         "tan",      "tanh",
};

static bool is_slow(const char *name) {
    if (strncmp(name, "chlo.", 5) == 0) return true;
    return bsearch(name, SLOW, sizeof SLOW / sizeof *SLOW, sizeof *SLOW, compare_names) != NULL;
}

int hlo_slow_ops(const tpj_hlo *h) { return h->n_slow; }

tpj_value *hlo_barrier(tpj_hlo *h, tpj_value *x) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    return hlo_op1(h, "optimization_barrier", &x, 1, NULL, x->type.dtype, x->type.rank, x->type.dims);
}

void hlo_allow_float8(tpj_hlo *h, bool allowed) { h->float8 = allowed; }

tpj_value *hlo_rename(tpj_hlo *h, tpj_value *x, tpj_dtype dtype) {
    if (!hlo_ready(h, &x, 1) || x->type.dtype == dtype) return h->failed ? &h->poison : x;
    tpj_value *renamed = tpj_arena_copy(&h->arena, x, sizeof *x);
    if (renamed == NULL) return hlo_fail(h, TPJ_OUT_OF_MEMORY, "no memory for a value");
    renamed->type.dtype = dtype;
    return renamed;
}

int hlo_open(tpj_hlo *h, const char *name, tpj_value *const *operands, int n_operands, int n_results) {
    for (int i = 0; i < n_operands && !h->failed; i++) may_compute(h, name, operands[i]);
    if (h->failed) return -1;
    h->n_slow += is_slow(name);
    tpj_text *text = &h->body;
    int id = -1;
    if (n_results > 0) {
        id = h->next_id++;
        tpj_text_append(text, "%", 1);
        write_integer(text, id);
        if (n_results > 1) {
            tpj_text_append(text, ":", 1);
            write_integer(text, n_results);
        }
        tpj_text_append(text, " = ", 3);
    }
    tpj_text_add(text, strchr(name, '.') == NULL ? "\"stablehlo." : "\"");
    tpj_text_add(text, name);
    tpj_text_append(text, "\"(", 2);
    for (int i = 0; i < n_operands; i++) {
        if (i > 0) tpj_text_append(text, ", ", 2);
        write_name(text, operands[i]);
    }
    tpj_text_append(text, ")", 1);
    return id;
}

void hlo_regions_begin(tpj_hlo *h) {
    if (!h->failed) tpj_text_add(&h->body, " (");
}

void hlo_regions_end(tpj_hlo *h) {
    if (!h->failed) tpj_text_add(&h->body, ")");
}

static void write_block_arguments(tpj_hlo *h, const tpj_type *types, int n, tpj_value **arguments) {
    tpj_text *text = &h->body;
    for (int i = 0; i < n; i++) {
        arguments[i] = hlo_value(h, h->next_id++, 0, 1, types[i].dtype, types[i].rank, types[i].dims);
        tpj_text_add(text, i == 0 ? "^bb0(" : ", ");
        write_name(text, arguments[i]);
        tpj_text_append(text, ": ", 2);
        hlo_write_type(text, &types[i]);
    }
    if (n > 0) tpj_text_add(text, "):\n");
}

void hlo_region(tpj_hlo *h, const tpj_type *types, int n, hlo_body body, void *context, const tpj_type *result_types,
                int n_results) {
    if (h->failed) return;
    tpj_value **arguments = TPJ_ARENA_ARRAY(&h->arena, tpj_value *, n + 1);
    tpj_value **results = TPJ_ARENA_ARRAY(&h->arena, tpj_value *, n_results + 1);
    if (arguments == NULL || results == NULL) {
        hlo_fail(h, TPJ_OUT_OF_MEMORY, "no memory to write a region");
        return;
    }
    size_t length = h->body.length;
    tpj_text_add(&h->body, length > 0 && h->body.data[length - 1] == '}' ? ", {\n" : "{\n");
    int scope = h->scope;
    h->scope = ++h->next_scope;
    write_block_arguments(h, types, n, arguments);
    body(h, arguments, results, context);
    h->scope = scope;
    if (!hlo_ready(h, results, n_results)) return;
    for (int i = 0; i < n_results; i++) {
        if (hlo_same_type(&results[i]->type, &result_types[i])) continue;
        hlo_fail(h, TPJ_INTERNAL, "a region's result %d is %s, not %s", i, hlo_type_string(h, &results[i]->type),
                 hlo_type_string(h, &result_types[i]));
        return;
    }
    int id = hlo_open(h, "stablehlo.return", results, n_results, 0);
    hlo_close(h, id, NULL, results, n_results, NULL, 0, NULL);
    tpj_text_add(&h->body, "}");
}

void hlo_close(tpj_hlo *h, int id, const char *attributes, tpj_value *const *operands, int n_operands,
               const tpj_type *types, int n_results, tpj_value **out) {
    for (int i = 0; i < n_results; i++) out[i] = &h->poison;
    if (h->failed) return;
    tpj_text *text = &h->body;
    if (attributes != NULL && attributes[0] != '\0') {
        tpj_text_add(text, " {");
        tpj_text_add(text, attributes);
        tpj_text_append(text, "}", 1);
    }
    tpj_text_append(text, " : (", 4);
    for (int i = 0; i < n_operands; i++) {
        if (i > 0) tpj_text_append(text, ", ", 2);
        hlo_write_type(text, &operands[i]->type);
    }
    tpj_text_add(text, n_results == 1 ? ") -> " : ") -> (");
    for (int i = 0; i < n_results; i++) {
        if (i > 0) tpj_text_append(text, ", ", 2);
        hlo_write_type(text, &types[i]);
    }
    if (n_results != 1) tpj_text_append(text, ")", 1);
    if (h->location > 0) {
        tpj_text_add(text, " loc(#loc");
        write_integer(text, h->location);
        tpj_text_append(text, ")", 1);
    }
    tpj_text_append(text, "\n", 1);
    for (int i = 0; i < n_results; i++)
        out[i] = hlo_value(h, id, i, n_results, types[i].dtype, types[i].rank, types[i].dims);
}

void hlo_op(tpj_hlo *h, const char *name, tpj_value *const *operands, int n_operands, const char *attributes,
            const tpj_type *types, int n_results, tpj_value **out) {
    int id = hlo_ready(h, operands, n_operands) ? hlo_open(h, name, operands, n_operands, n_results) : -1;
    hlo_close(h, id, attributes, operands, n_operands, types, n_results, out);
}

tpj_value *hlo_op1(tpj_hlo *h, const char *name, tpj_value *const *operands, int n_operands, const char *attributes,
                   tpj_dtype dtype, int rank, const int64_t *dims) {
    tpj_type type = hlo_type(dtype, rank, dims);
    tpj_value *out;
    hlo_op(h, name, operands, n_operands, attributes, &type, 1, &out);
    return out;
}

/* ---- attributes ---- */

void hlo_attributes_begin(tpj_hlo *h) { tpj_text_clear(&h->scratch); }

const char *hlo_attributes(const tpj_hlo *h) { return tpj_text_string(&h->scratch); }

static void attribute_comma(tpj_hlo *h) {
    if (h->scratch.length > 0) tpj_text_append(&h->scratch, ", ", 2);
}

void hlo_attribute_array(tpj_hlo *h, const char *name, const int64_t *values, int n) {
    hlo_attribute_array_or(h, name, values, n, 0);
}

void hlo_attribute_array_or(tpj_hlo *h, const char *name, const int64_t *values, int n, int64_t otherwise) {
    attribute_comma(h);
    tpj_text_add(&h->scratch, name);
    tpj_text_add(&h->scratch, " = array<i64");
    for (int i = 0; i < n; i++) {
        tpj_text_add(&h->scratch, i == 0 ? ": " : ", ");
        write_integer(&h->scratch, values == NULL ? otherwise : values[i]);
    }
    tpj_text_append(&h->scratch, ">", 1);
}

void hlo_attribute_text(tpj_hlo *h, const char *format, ...) {
    attribute_comma(h);
    va_list args;
    va_start(args, format);
    char buffer[512];
    int n = vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof buffer)
        hlo_fail(h, TPJ_INTERNAL, "an attribute is too long");
    else
        tpj_text_append(&h->scratch, buffer, (size_t)n);
}

void hlo_attribute_padding(tpj_hlo *h, const int64_t *low, const int64_t *high, int n) {
    attribute_comma(h);
    tpj_text *text = &h->scratch;
    tpj_text_add(text, "padding = dense<[");
    for (int i = 0; i < n; i++) {
        tpj_text_printf(text, "%s[%" PRId64 ", %" PRId64 "]", i == 0 ? "" : ", ", low == NULL ? 0 : low[i],
                        high == NULL ? 0 : high[i]);
    }
    tpj_text_printf(text, "]> : tensor<%dx2xi64>", n);
}

/* Products of BF16 are exact in F32: more precision is no better there, and TPU compilers fail on it inside of kernels. */
void hlo_attribute_precision(tpj_hlo *h, tpj_dtype operands) {
    const char *precision = operands == TPJ_BF16 ? "DEFAULT" : h->precision;
    hlo_attribute_text(h, "precision_config = [#stablehlo<precision %s>, #stablehlo<precision %s>]", precision,
                       precision);
}

/* ---- small helpers ---- */

int64_t hlo_elements(const tpj_value *x) {
    int64_t n = 1;
    for (int i = 0; i < x->type.rank; i++) n *= x->type.dims[i];
    return n;
}

bool hlo_same_dims(const tpj_value *x, const tpj_value *y) {
    return x->type.rank == y->type.rank &&
           (x->type.rank == 0 || memcmp(x->type.dims, y->type.dims, sizeof(int64_t) * (size_t)x->type.rank) == 0);
}

tpj_dtype hlo_real_dtype(tpj_dtype dtype) {
    switch (dtype) {
        case TPJ_C32: return TPJ_F16;
        case TPJ_C64: return TPJ_F32;
        case TPJ_C128: return TPJ_F64;
        default: return dtype;
    }
}

tpj_dtype hlo_complex_dtype(tpj_dtype dtype) { return dtype == TPJ_F64 || dtype == TPJ_C128 ? TPJ_C128 : TPJ_C64; }
