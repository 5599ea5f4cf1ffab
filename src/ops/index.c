/* Reading elements by index: index, index_select, gather, take, searches. What has a data-dependent size is in
 * sized.c. */
#include <string.h>

#include "ops/indexing.h"

static void emit_index(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int n = 0;
    tpj_value **indices = tpj_in_list(e, "indices", &n);
    tpj_index_plan plan;
    if (!tpj_index_plan_make(e, x, indices, n, &plan)) return;
    if (plan.empty) {
        tpj_out(e, hlo_zeros(h, x->type.dtype, plan.rank, plan.dims));
        return;
    }
    hlo_gather_numbers numbers = tpj_index_plan_numbers(h, x, &plan);
    tpj_out(e, hlo_gather(h, x, plan.starts, &numbers));
}

/* An index vector of index_select and its kind: rank 0 or 1, I32 or I64. */
static tpj_value *read_index_vector(tpj_emit *e, const char *op, int64_t size) {
    tpj_value *index = tpj_in(e, "index");
    if (index->type.rank > 1) {
        tpj_fail(e, TPJ_INDEX, "%s(): Index is supposed to be a vector, but got dim: %d", op, index->type.rank);
        return NULL;
    }
    if (index->type.dtype != TPJ_I32 && index->type.dtype != TPJ_I64) {
        tpj_fail(e, TPJ_RUNTIME, "%s(): Expected dtype int32 or int64 for index", op);
        return NULL;
    }
    return tpj_index_argument(e, tpj_at_least_1d(tpj_builder(e), index), size, false);
}

static void emit_index_select(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *self = tpj_in(e, "self"), *x = tpj_at_least_1d(h, self);
    int dim = tpj_dim(e, "dim", self->type.rank);
    tpj_value *index = read_index_vector(e, "index_select", hlo_dim(x, dim));
    if (index == NULL) return;
    int64_t *dims = tpj_dims_with(h, x, dim, hlo_dim(index, 0));
    if (tpj_product(dims, x->type.rank) == 0) {
        tpj_out(e, hlo_zeros(h, x->type.dtype, x->type.rank, dims));
        return;
    }
    if (hlo_dim(x, dim) == 0) {
        tpj_fail(e, TPJ_INDEX, "index_select(): index is out of bounds for dimension %d with size 0", dim);
        return;
    }
    tpj_value *taken = hlo_take(h, x, index, dim);
    tpj_out(e, self->type.rank == 0 ? hlo_reshape(h, taken, 0, NULL) : taken);
}

static void emit_gather(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *self = tpj_in(e, "self"), *index = tpj_in(e, "index");
    int dim = tpj_dim(e, "dim", self->type.rank);
    if (hlo_elements(index) == 0) {
        tpj_out(e, hlo_zeros(h, self->type.dtype, index->type.rank, index->type.dims));
        return;
    }
    if (index->type.dtype != TPJ_I64 && index->type.dtype != TPJ_I32) {
        tpj_fail(e, TPJ_RUNTIME, "gather(): Expected dtype int32/int64 for index");
        return;
    }
    tpj_value *x = tpj_at_least_1d(h, self), *at = tpj_at_least_1d(h, index);
    if (x->type.rank != at->type.rank) {
        tpj_fail(e, TPJ_RUNTIME, "Index tensor must have the same number of dimensions as input tensor");
        return;
    }
    for (int d = 0; d < x->type.rank; d++) {
        if (d == dim) continue;
        if (hlo_dim(at, d) > hlo_dim(x, d)) {
            tpj_fail(e, TPJ_RUNTIME,
                     "Size does not match at dimension %d expected index %s to be no larger than self %s apart from "
                     "dimension %d",
                     d, tpj_shape_text(h, at->type.rank, at->type.dims), tpj_shape_text(h, x->type.rank, x->type.dims),
                     dim);
            return;
        }
        x = hlo_slice_dim(h, x, d, 0, hlo_dim(at, d), 1);
    }
    at = tpj_index_argument(e, at, hlo_dim(x, dim), false);
    if (hlo_dim(x, dim) == 0) {
        tpj_fail(e, TPJ_INDEX, "index is out of bounds for dimension %d with size 0", dim);
        return;
    }
    tpj_out(e, hlo_reshape(h, hlo_take_along(h, x, at, dim), index->type.rank, index->type.dims));
}

static void emit_take(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = hlo_flatten(h, tpj_in(e, "self")), *index = tpj_in(e, "index");
    if (index->type.dtype != TPJ_I64) {
        tpj_fail(e, TPJ_RUNTIME, "take(): Expected a long tensor for index, but got %s",
                 tpj_dtype_name(index->type.dtype));
        return;
    }
    if (hlo_elements(index) == 0) {
        tpj_out(e, hlo_zeros(h, x->type.dtype, index->type.rank, index->type.dims));
        return;
    }
    if (hlo_elements(x) == 0) {
        tpj_fail(e, TPJ_INDEX, "take(): tried to take from an empty tensor");
        return;
    }
    tpj_out(e, hlo_take(h, x, tpj_index_argument(e, index, hlo_dim(x, 0), true), 0));
}

/* ---- searches ---- */

/* `right` and `side` say the same thing and must agree. */
static bool read_side(tpj_emit *e, bool *out_right) {
    bool right = tpj_bool(e, "right", false);
    const char *side = tpj_string(e, "side", NULL);
    if (side != NULL && strcmp(side, "left") != 0 && strcmp(side, "right") != 0) {
        tpj_fail(e, TPJ_RUNTIME, "searchsorted(): side can only be 'left' or 'right' but got %s", side);
        return false;
    }
    if (side != NULL && right && strcmp(side, "left") == 0) {
        tpj_fail(e, TPJ_RUNTIME,
                 "searchsorted(): side and right can't be set to opposites, got side of left while right was True");
        return false;
    }
    *out_right = right || (side != NULL && strcmp(side, "right") == 0);
    return true;
}

static void out_search(tpj_emit *e, tpj_value *sorted, tpj_value *values, bool right) {
    tpj_hlo *h = tpj_builder(e);
    int rank = sorted->type.rank;
    bool fits = rank == 1 || rank == values->type.rank;
    for (int d = 0; fits && rank > 1 && d < rank - 1; d++) fits = hlo_dim(sorted, d) == hlo_dim(values, d);
    if (rank == 0 || !fits) {
        tpj_fail(
            e, TPJ_RUNTIME,
            "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value "
            "tensor must match, but we got boundaries tensor %s and input value tensor %s",
            tpj_shape_text(h, rank, sorted->type.dims), tpj_shape_text(h, values->type.rank, values->type.dims));
        return;
    }
    tpj_value *position = tpj_search_sorted(h, sorted, values, right);
    tpj_out_as(e, position, tpj_bool(e, "out_int32", false) ? TPJ_I32 : TPJ_I64);
}

enum { SEARCH_TENSOR, SEARCH_SCALAR };

static void emit_searchsorted(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    bool right = false, scalar = tpj_row(e)->variant == SEARCH_SCALAR;
    if (!read_side(e, &right)) return;
    tpj_dtype dtype = tpj_promote(e, "sorted_sequence", "self", NULL);
    tpj_value *sorted = tpj_in_as(e, "sorted_sequence", dtype);
    tpj_value *values = scalar ? tpj_scalar(e, "self", dtype) : tpj_in_as(e, "self", dtype);
    if (tpj_has(e, "sorter")) {
        tpj_value *sorter = tpj_in(e, "sorter");
        if (!hlo_same_dims(sorter, sorted)) {
            tpj_fail(e, TPJ_RUNTIME, "boundary and sorter must have the same size");
            return;
        }
        if (sorter->type.dtype != TPJ_I64) {
            tpj_fail(e, TPJ_RUNTIME, "sorter must be a tensor of long dtype");
            return;
        }
        int last = sorted->type.rank - 1;
        if (hlo_elements(sorted) > 0) {
            sorted = hlo_take_along(h, sorted, tpj_index_argument(e, sorter, hlo_dim(sorted, last), false), last);
        }
    }
    out_search(e, sorted, values, right);
}

static void emit_bucketize(tpj_emit *e) {
    bool scalar = tpj_row(e)->variant == SEARCH_SCALAR;
    tpj_dtype dtype = tpj_promote(e, "self", "boundaries", NULL);
    tpj_value *sorted = tpj_in_as(e, "boundaries", dtype);
    tpj_value *values = scalar ? tpj_scalar(e, "self", dtype) : tpj_in_as(e, "self", dtype);
    if (sorted->type.rank != 1) {
        tpj_fail(e, TPJ_RUNTIME, "boundaries tensor must be 1 dimension, but got dim(%d)", sorted->type.rank);
        return;
    }
    out_search(e, sorted, values, tpj_bool(e, "right", false));
}

/* ---- indices of triangles ---- */

/* How many of row's `columns` columns lie at or below (`lower`) / at or above the diagonal `offset`. */
static int64_t triangle_row(int64_t row, int64_t columns, int64_t offset, bool lower) {
    int64_t end = lower ? row + offset + 1 : row + offset; /* exclusive end of the lower part / start of the upper */
    int64_t left = end < 0 ? 0 : end > columns ? columns : end;
    return lower ? left : columns - left;
}

static void emit_triangle_indices(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    bool lower = tpj_row(e)->variant != 0;
    int64_t dims[] = {tpj_int(e, "row", 0), tpj_int(e, "col", 0)}, offset = tpj_int(e, "offset", 0), n = 0;
    tpj_dtype dtype = tpj_dtype_of(e, "dtype", TPJ_I64);
    if (dims[0] < 0 || dims[1] < 0) {
        tpj_fail(e, TPJ_RUNTIME, "row and col must be non-negative, got %lld and %lld", (long long)dims[0],
                 (long long)dims[1]);
        return;
    }
    for (int64_t row = 0; row < dims[0]; row++) n += triangle_row(row, dims[1], offset, lower);
    if (n == 0) {
        int64_t none[] = {2, 0};
        tpj_out(e, hlo_zeros(h, dtype, 2, none));
        return;
    }
    tpj_dtype counter = tpj_index_dtype(dims[0] * dims[1]);
    int64_t flat = dims[0] * dims[1], one_row[] = {1, n};
    tpj_value *mask = hlo_flatten(h, tpj_band_mask(h, lower ? "LE" : "GE", 2, dims, offset));
    tpj_value *cell = tpj_compact(h, mask, hlo_iota(h, counter, 1, &flat, 0), n, hlo_integer(h, counter, 0));
    tpj_value *columns = hlo_integer(h, counter, dims[1]);
    tpj_value *parts[] = {hlo_div(h, cell, columns), hlo_binary(h, "remainder", cell, columns)};
    for (int i = 0; i < 2; i++) parts[i] = hlo_reshape(h, parts[i], 2, one_row);
    tpj_out_as(e, hlo_concatenate(h, parts, 2, 0), dtype);
}

const tpj_op_def tpj_ops_index[] = {
    {.name = "index.Tensor", .params = "T self, T?[] indices", .emit = emit_index},
    {.name = "_unsafe_index.Tensor", .params = "T self, T?[] indices", .emit = emit_index},
    {.name = "index_select", .params = "T self, I dim, T index", .emit = emit_index_select},
    {.name = "gather", .params = "T self, I dim, T index", .emit = emit_gather},
    {.name = "take", .params = "T self, T index", .emit = emit_take},
    {.name = "searchsorted.Tensor",
     .params = "T sorted_sequence, T self, B out_int32=False, B right=False, Str? side=None, T? sorter=None",
     .emit = emit_searchsorted,
     .variant = SEARCH_TENSOR},
    {.name = "searchsorted.Scalar",
     .params = "T sorted_sequence, S self, B out_int32=False, B right=False, Str? side=None, T? sorter=None",
     .emit = emit_searchsorted,
     .variant = SEARCH_SCALAR},
    {.name = "bucketize.Tensor",
     .params = "T self, T boundaries, B out_int32=False, B right=False",
     .emit = emit_bucketize,
     .variant = SEARCH_TENSOR},
    {.name = "bucketize.Scalar",
     .params = "S self, T boundaries, B out_int32=False, B right=False",
     .emit = emit_bucketize,
     .variant = SEARCH_SCALAR},
    {.name = "tril_indices",
     .params = "I row, I col, I offset=0, D? dtype",
     .emit = emit_triangle_indices,
     .flags = TPJ_OP_FACTORY,
     .variant = 1},
    {.name = "triu_indices",
     .params = "I row, I col, I offset=0, D? dtype",
     .emit = emit_triangle_indices,
     .flags = TPJ_OP_FACTORY},
    {0},
};
