/* Sorting and what is read off sorted data: topk, kthvalue, medians, mode. A NaN counts as larger than every number. */
#include <math.h>
#include <stdio.h>

#include "ops/indexing.h"

/* self with one dimension at least, and the dimension argument. */
static tpj_value *read_sorted(tpj_emit *e, int *out_dim) {
    tpj_value *x = tpj_in(e, "self");
    *out_dim = tpj_dim(e, "dim", x->type.rank);
    if (tpj_dtype_is_complex(x->type.dtype)) {
        tpj_fail(e, TPJ_NOT_IMPLEMENTED, "\"%s\" does not support complex inputs", tpj_row(e)->name);
    }
    return tpj_at_least_1d(tpj_builder(e), x);
}

/* Both results, in self's rank. */
static void out_pair(tpj_emit *e, tpj_value *values, tpj_value *indices) {
    tpj_hlo *h = tpj_builder(e);
    if (tpj_in_type(e, "self").rank == 0) {
        values = hlo_reshape(h, values, 0, NULL);
        indices = hlo_reshape(h, indices, 0, NULL);
    }
    tpj_out(e, values);
    tpj_out_as(e, indices, TPJ_I64);
}

static void emit_sort(tpj_emit *e) {
    int dim;
    tpj_value *x = read_sorted(e, &dim), *values, *indices;
    if (hlo_failed(tpj_builder(e))) return;
    tpj_sort(tpj_builder(e), x, dim, tpj_bool(e, "descending", false), &values, &indices);
    out_pair(e, values, indices);
}

/* ---- topk ---- */

/* The k largest of F32 rows in the last dimension, without sorting all: XLA's TopK. It orders NaNs by their bits, so
 * they are made one positive NaN first, the largest there. */
static void largest(tpj_hlo *h, tpj_value *x, int64_t k, tpj_value **out_values, tpj_value **out_indices) {
    x = hlo_select(h, hlo_is_nan(h, x), hlo_number(h, x->type.dtype, NAN), x);
    int64_t *dims = tpj_dims_with(h, x, x->type.rank - 1, k);
    tpj_type types[] = {{x->type.dtype, x->type.rank, dims}, {TPJ_I32, x->type.rank, dims}};
    tpj_value *results[2];
    char attributes[64];
    snprintf(attributes, sizeof attributes, "k = %lld : i64", (long long)k);
    hlo_op(h, "chlo.top_k", &x, 1, attributes, types, 2, results);
    *out_values = results[0];
    *out_indices = results[1];
}

static void emit_topk(tpj_emit *e) {
    enum { LONG_ROW = 1024, FEW = 128 };
    tpj_hlo *h = tpj_builder(e);
    int dim;
    tpj_value *x = read_sorted(e, &dim), *values, *indices;
    int64_t k = tpj_int(e, "k", 0), size = hlo_dim(x, dim);
    if (k < 0 || k > size) {
        tpj_fail(e, TPJ_RUNTIME, "selected index k out of range");
        return;
    }
    bool descending = tpj_bool(e, "largest", true);
    if (descending && x->type.dtype == TPJ_F32 && size >= LONG_ROW && k > 0 && k <= FEW) {
        int last = x->type.rank - 1;
        tpj_value *rows = dim == last ? x : hlo_swap(h, x, dim, last);
        largest(h, rows, k, &values, &indices);
        if (dim != last) {
            values = hlo_swap(h, values, dim, last);
            indices = hlo_swap(h, indices, dim, last);
        }
    } else {
        tpj_sort(h, x, dim, descending, &values, &indices);
        values = hlo_slice_dim(h, values, dim, 0, k, 1);
        indices = hlo_slice_dim(h, indices, dim, 0, k, 1);
    }
    out_pair(e, values, indices);
}

/* ---- one element of the order ---- */

/* Results of one element a row: the dimension is kept with size 1, or goes. */
static void out_reduced(tpj_emit *e, int dim, tpj_value *values, tpj_value *indices) {
    tpj_hlo *h = tpj_builder(e);
    bool keep = tpj_bool(e, "keepdim", false);
    if (tpj_in_type(e, "self").rank > 0 && !keep) {
        values = hlo_squeeze(h, values, dim);
        indices = hlo_squeeze(h, indices, dim);
    }
    out_pair(e, values, indices);
}

/* x may only be reduced along a dimension that has elements, unless the result is empty too. */
static bool reducible(tpj_emit *e, const tpj_value *x, int dim) {
    if (hlo_failed(tpj_builder(e))) return false;
    if (hlo_dim(x, dim) > 0) return true;
    tpj_fail(e, TPJ_INDEX, "%s(): Expected reduction dim %d to have non-zero size.", tpj_row(e)->name, dim);
    return false;
}

/* x[at : at + 1] along dim, `at` an I64 scalar. */
static tpj_value *row_at(tpj_hlo *h, tpj_value *x, int dim, tpj_value *at) {
    tpj_value **starts = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, x->type.rank), *zero = hlo_integer(h, TPJ_I64, 0);
    if (starts == NULL) return hlo_fail(h, TPJ_OUT_OF_MEMORY, "out of memory");
    for (int d = 0; d < x->type.rank; d++) starts[d] = d == dim ? at : zero;
    return hlo_dynamic_slice(h, x, starts, tpj_dims_with(h, x, dim, 1));
}

static void emit_kthvalue(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int dim;
    tpj_value *x = read_sorted(e, &dim), *values, *indices;
    if (!reducible(e, x, dim)) return;
    tpj_require(e, "k", 1, (double)hlo_dim(x, dim), "kthvalue(): selected number k out of range for the dimension: ");
    tpj_sort(h, x, dim, false, &values, &indices);
    tpj_value *at = hlo_sub(h, tpj_scalar(e, "k", TPJ_I64), hlo_integer(h, TPJ_I64, 1));
    out_reduced(e, dim, row_at(h, values, dim, at), row_at(h, indices, dim, at));
}

enum { MEDIAN, NAN_MEDIAN };

/* The lower median of each row. NaNs come last: a median is the first NaN if there is one; a nanmedian looks at what
 * lies before them. The dimension stays, with size 1. */
static void median(tpj_hlo *h, tpj_value *x, int dim, bool ignore_nan, tpj_value **out_values,
                   tpj_value **out_indices) {
    int64_t n = hlo_dim(x, dim);
    tpj_value *values, *indices;
    tpj_sort(h, x, dim, false, &values, &indices);
    int64_t middle = (n - 1) / 2;
    if (!tpj_dtype_is_float(x->type.dtype)) {
        *out_values = hlo_slice_dim(h, values, dim, middle, middle + 1, 1);
        *out_indices = hlo_slice_dim(h, indices, dim, middle, middle + 1, 1);
        return;
    }
    tpj_value *zero = hlo_integer(h, TPJ_I32, 0), *one = hlo_integer(h, TPJ_I32, 1), *size = hlo_integer(h, TPJ_I32, n);
    tpj_value *n_nan = hlo_unsqueeze(h, hlo_reduce_dim(h, "add", hlo_convert(h, hlo_is_nan(h, x), TPJ_I32), dim), dim);
    tpj_value *numbers = hlo_sub(h, size, n_nan), *at;
    if (ignore_nan) {
        at = hlo_max(h, hlo_div(h, hlo_sub(h, numbers, one), hlo_integer(h, TPJ_I32, 2)), zero);
    } else {
        at = hlo_select(h, hlo_compare(h, "GT", n_nan, zero), numbers, hlo_integer(h, TPJ_I32, middle));
    }
    *out_values = hlo_take_along(h, values, at, dim);
    *out_indices = hlo_take_along(h, indices, at, dim);
}

static void emit_median(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = hlo_flatten(h, tpj_in(e, "self")), *values, *indices;
    if (hlo_elements(x) == 0) { /* the median of nothing */
        bool is_float = tpj_dtype_is_float(x->type.dtype);
        tpj_out(e, is_float ? hlo_number(h, x->type.dtype, NAN) : hlo_lowest(h, x->type.dtype));
        return;
    }
    median(h, x, 0, tpj_row(e)->variant == NAN_MEDIAN, &values, &indices);
    tpj_out(e, hlo_reshape(h, values, 0, NULL));
}

static void emit_median_dim(tpj_emit *e) {
    int dim;
    tpj_value *x = read_sorted(e, &dim), *values, *indices;
    if (!reducible(e, x, dim)) return;
    median(tpj_builder(e), x, dim, tpj_row(e)->variant == NAN_MEDIAN, &values, &indices);
    out_reduced(e, dim, values, indices);
}

/* The most frequent value, the smallest among equals, and its last place: sorted, the end of the first longest run. */
static void emit_mode(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int dim;
    tpj_value *x = read_sorted(e, &dim), *values, *indices;
    if (!reducible(e, x, dim)) return;
    tpj_sort(h, x, dim, false, &values, &indices);
    int64_t n = hlo_dim(x, dim);
    tpj_value *differs =
        hlo_compare(h, "NE", hlo_slice_dim(h, values, dim, 1, n, 1), hlo_slice_dim(h, values, dim, 0, n - 1, 1));
    tpj_value *starts = hlo_pad_dim(h, differs, hlo_number(h, TPJ_BOOL, 1), dim, 1, 0);
    tpj_value *place = hlo_iota(h, TPJ_I32, x->type.rank, x->type.dims, dim);
    tpj_value *start = hlo_select(h, starts, place, hlo_integer(h, TPJ_I32, 0));
    tpj_value *length = hlo_sub(h, place, hlo_cumulative(h, "maximum", start, dim, false)), *at;
    hlo_arg_reduce(h, true, length, dim, NULL, &at);
    at = hlo_unsqueeze(h, at, dim);
    out_reduced(e, dim, hlo_take_along(h, values, at, dim), hlo_take_along(h, indices, at, dim));
}

const tpj_op_def tpj_ops_sort[] = {
    {.name = "sort", .params = "T self, I dim=-1, B descending=False", .emit = emit_sort, .layout = TPJ_LAYOUT_SELF},
    {.name = "sort.stable",
     .params = "T self, B? stable, I dim=-1, B descending=False",
     .emit = emit_sort,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "topk", .params = "T self, I k, I dim=-1, B largest=True, B sorted=True", .emit = emit_topk},
    {.name = "kthvalue", .params = "T self, I~ k, I dim=-1, B keepdim=False", .emit = emit_kthvalue},
    {.name = "median", .params = "T self", .emit = emit_median, .variant = MEDIAN},
    {.name = "nanmedian", .params = "T self", .emit = emit_median, .variant = NAN_MEDIAN},
    {.name = "median.dim", .params = "T self, I dim, B keepdim=False", .emit = emit_median_dim, .variant = MEDIAN},
    {.name = "nanmedian.dim",
     .params = "T self, I dim, B keepdim=False",
     .emit = emit_median_dim,
     .variant = NAN_MEDIAN},
    {.name = "mode", .params = "T self, I dim=-1, B keepdim=False", .emit = emit_mode},
    {0},
};
