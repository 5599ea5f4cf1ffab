#include <string.h>

#include "hlo/writer.h"

/* ---- the kinds ---- */

static bool is_kind(const char *kind, const char *name) { return strcmp(kind, name) == 0; }

/* The op that `kind` is on a dtype; NULL for an unknown kind. */
static const char *kind_op(const char *kind, tpj_dtype dtype) {
    bool boolean = dtype == TPJ_BOOL;
    if (is_kind(kind, "add")) return boolean ? "or" : "add";
    if (is_kind(kind, "multiply")) return boolean ? "and" : "multiply";
    if (is_kind(kind, "maximum")) return boolean ? "or" : "maximum";
    if (is_kind(kind, "minimum")) return boolean ? "and" : "minimum";
    if (is_kind(kind, "and") || is_kind(kind, "or") || is_kind(kind, "xor")) return kind;
    return NULL;
}

tpj_value *hlo_combine(tpj_hlo *h, const char *kind, tpj_value *x, tpj_value *y) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    const char *name = kind_op(kind, x->type.dtype);
    if (name == NULL) return hlo_fail(h, TPJ_INTERNAL, "there is no reduction '%s'", kind);
    return hlo_binary(h, name, x, y);
}

tpj_value *hlo_identity(tpj_hlo *h, const char *kind, tpj_dtype dtype) {
    if (is_kind(kind, "add") || is_kind(kind, "or") || is_kind(kind, "xor")) return hlo_integer(h, dtype, 0);
    if (is_kind(kind, "multiply")) return hlo_integer(h, dtype, 1);
    if (is_kind(kind, "and")) return hlo_integer(h, dtype, -1);
    return is_kind(kind, "maximum") ? hlo_lowest(h, dtype) : hlo_highest(h, dtype);
}

void hlo_combine_body(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    results[0] = hlo_combine(h, context, arguments[0], arguments[1]);
}

/* ---- reductions ---- */

tpj_value *hlo_reduce(tpj_hlo *h, const char *kind, tpj_value *x, tpj_value *init, const int64_t *dims, int n_dims) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    if (n_dims == 0) return init == NULL ? x : hlo_combine(h, kind, init, x);
    if (init == NULL) init = hlo_identity(h, kind, x->type.dtype);
    tpj_value *out;
    hlo_reduce_body(h, &x, &init, 1, dims, n_dims, hlo_combine_body, (void *)kind, &out);
    return out;
}

tpj_value *hlo_reduce_dim(tpj_hlo *h, const char *kind, tpj_value *x, int dim) {
    int64_t dims[] = {dim};
    return hlo_reduce(h, kind, x, NULL, dims, 1);
}

tpj_value *hlo_reduce_all(tpj_hlo *h, const char *kind, tpj_value *x) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    int64_t *dims = hlo_dims(h, x->type.rank);
    for (int i = 0; i < x->type.rank && !h->failed; i++) dims[i] = i;
    return hlo_reduce(h, kind, x, NULL, dims, x->type.rank);
}

/* Arguments: best value, its index, a new value, its index. Nothing depends on the order in which pairs meet: NaN beats
 * numbers, and the lower index wins among equals. */
static void pick_extreme(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    const bool *maximum = context;
    tpj_value *best = arguments[0], *fresh = arguments[2];
    tpj_value *better = hlo_compare(h, *maximum ? "GT" : "LT", fresh, best);
    tpj_value *equal = hlo_compare(h, "EQ", fresh, best);
    if (tpj_dtype_is_float(best->type.dtype)) {
        tpj_value *best_nan = hlo_is_nan(h, best), *fresh_nan = hlo_is_nan(h, fresh);
        better = hlo_or(h, better, hlo_and(h, fresh_nan, hlo_not(h, best_nan)));
        equal = hlo_or(h, equal, hlo_and(h, fresh_nan, best_nan));
    }
    tpj_value *earlier = hlo_compare(h, "LT", arguments[3], arguments[1]);
    tpj_value *take = hlo_or(h, better, hlo_and(h, equal, earlier));
    results[0] = hlo_select(h, take, fresh, best);
    results[1] = hlo_select(h, take, arguments[3], arguments[1]);
}

void hlo_arg_reduce(tpj_hlo *h, bool maximum, tpj_value *x, int dim, tpj_value **out_value, tpj_value **out_index) {
    tpj_value *out[2] = {&h->poison, &h->poison};
    if (hlo_ready(h, &x, 1)) {
        tpj_dtype counter = x->type.dims[dim] <= INT32_MAX ? TPJ_I32 : TPJ_I64;
        tpj_value *indices = hlo_iota(h, counter, x->type.rank, x->type.dims, dim);
        tpj_value *xs[] = {x, indices};
        /* A first element that equals the identity has index 0 as well, so index 0 is neutral beside it. */
        tpj_value *inits[] = {hlo_identity(h, maximum ? "maximum" : "minimum", x->type.dtype),
                              hlo_integer(h, counter, 0)};
        int64_t dims[] = {dim};
        hlo_reduce_body(h, xs, inits, 2, dims, 1, pick_extreme, &maximum, out);
    }
    if (out_value != NULL) *out_value = out[0];
    if (out_index != NULL) *out_index = out[1];
}

/* ---- windows ---- */

static int64_t or_one(const int64_t *values, int i) { return values == NULL ? 1 : values[i]; }
static int64_t or_zero(const int64_t *values, int i) { return values == NULL ? 0 : values[i]; }

static int64_t window_count(const hlo_window *window, int i, int64_t size) {
    int64_t dilated = size == 0 ? 0 : (size - 1) * or_one(window->base_dilation, i) + 1;
    int64_t padded = dilated + or_zero(window->low, i) + or_zero(window->high, i);
    int64_t extent = (or_one(window->size, i) - 1) * or_one(window->window_dilation, i) + 1;
    return padded < extent ? 0 : (padded - extent) / or_one(window->step, i) + 1;
}

tpj_value *hlo_reduce_window(tpj_hlo *h, const char *kind, tpj_value *x, tpj_value *init, const hlo_window *window) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    int rank = x->type.rank;
    if (rank == 0) return init == NULL ? x : hlo_combine(h, kind, init, x);
    if (init == NULL) init = hlo_identity(h, kind, x->type.dtype);
    int64_t *dims = hlo_dims(h, rank);
    if (h->failed) return &h->poison;
    for (int i = 0; i < rank; i++) dims[i] = window_count(window, i, x->type.dims[i]);
    tpj_value *operands[] = {x, init}, *out;
    tpj_type scalar = hlo_type(x->type.dtype, 0, dims), type = hlo_type(x->type.dtype, rank, dims);
    tpj_type arguments[] = {scalar, scalar};
    int id = hlo_open(h, "reduce_window", operands, 2, 1);
    hlo_regions_begin(h);
    hlo_region(h, arguments, 2, hlo_combine_body, (void *)kind, &scalar, 1);
    hlo_regions_end(h);
    hlo_attributes_begin(h);
    hlo_attribute_array_or(h, "window_dimensions", window->size, rank, 1);
    hlo_attribute_array_or(h, "window_strides", window->step, rank, 1);
    hlo_attribute_array_or(h, "base_dilations", window->base_dilation, rank, 1);
    hlo_attribute_array_or(h, "window_dilations", window->window_dilation, rank, 1);
    hlo_attribute_padding(h, window->low, window->high, rank);
    hlo_close(h, id, hlo_attributes(h), operands, 2, &type, 1, &out);
    return out;
}

static void is_greater_or_equal(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    results[0] = hlo_compare(h, "GE", arguments[0], arguments[1]);
}

tpj_value *hlo_select_and_scatter(tpj_hlo *h, tpj_value *x, tpj_value *source, tpj_value *init,
                                  const hlo_window *window) {
    tpj_value *operands[] = {x, source, init}, *out;
    if (!hlo_ready(h, operands, 3)) return &h->poison;
    int rank = x->type.rank;
    tpj_type scalar = hlo_type(x->type.dtype, 0, h->poison_dims), boolean = hlo_type(TPJ_BOOL, 0, h->poison_dims);
    tpj_type arguments[] = {scalar, scalar};
    int id = hlo_open(h, "select_and_scatter", operands, 3, 1);
    hlo_regions_begin(h);
    hlo_region(h, arguments, 2, is_greater_or_equal, NULL, &boolean, 1);
    hlo_region(h, arguments, 2, hlo_combine_body, (void *)"add", &scalar, 1);
    hlo_regions_end(h);
    hlo_attributes_begin(h);
    hlo_attribute_array_or(h, "window_dimensions", window->size, rank, 1);
    hlo_attribute_array_or(h, "window_strides", window->step, rank, 1);
    hlo_attribute_padding(h, window->low, window->high, rank);
    hlo_close(h, id, hlo_attributes(h), operands, 3, &x->type, 1, &out);
    return out;
}
