/* Embeddings: rows of a table by number, their sums over bags, and the gradients. */
#include <math.h>

#include "ops/indexing.h"

static bool indices_ok(tpj_emit *e, const tpj_value *indices) {
    if (indices->type.dtype == TPJ_I64 || indices->type.dtype == TPJ_I32) return true;
    tpj_fail(
        e, TPJ_RUNTIME,
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got %s "
        "instead",
        tpj_dtype_name(indices->type.dtype));
    return false;
}

static void emit_embedding(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *weight = tpj_in(e, "weight"), *indices = tpj_in(e, "indices");
    if (weight->type.rank != 2) {
        tpj_fail(e, TPJ_RUNTIME, "'weight' must be 2-D");
        return;
    }
    if (!indices_ok(e, indices)) return;
    if (hlo_elements(indices) > 0 && hlo_dim(weight, 0) == 0) {
        tpj_fail(e, TPJ_INDEX, "index out of range in self");
        return;
    }
    if (hlo_elements(indices) == 0 || hlo_elements(weight) == 0) {
        int rank = indices->type.rank;
        int64_t *dims = hlo_dims(h, rank + 1);
        for (int d = 0; d < rank; d++) dims[d] = indices->type.dims[d];
        dims[rank] = hlo_dim(weight, 1);
        tpj_out(e, hlo_zeros(h, weight->type.dtype, rank + 1, dims));
        return;
    }
    tpj_out(e, hlo_take(h, weight, tpj_index_argument(e, indices, hlo_dim(weight, 0), false), 0));
}

/* How often each of n numbers occurs among the indices, in `dtype`. */
static tpj_value *frequencies(tpj_hlo *h, tpj_value *indices, int64_t n, tpj_dtype dtype) {
    tpj_value *ones = hlo_full(h, dtype, 1, indices->type.dims, 1);
    return tpj_scatter_rows(h, "add", hlo_zeros(h, dtype, 1, &n), 0, indices, ones);
}

/* A column [n] repeated to [n, width]. */
static tpj_value *as_column(tpj_hlo *h, tpj_value *x, int64_t width) {
    int64_t dims[] = {hlo_dim(x, 0), width}, at = 0;
    return hlo_broadcast_in_dim(h, x, 2, dims, &at);
}

/* The index of a row that is not there takes the place of the padding index: its updates are dropped. */
static tpj_value *drop_padding(tpj_emit *e, tpj_value *indices, int64_t n_rows) {
    tpj_hlo *h = tpj_builder(e);
    if (tpj_is_constant(e, "padding_idx") && tpj_int(e, "padding_idx", -1) < 0) return indices;
    tpj_dtype dtype = indices->type.dtype;
    tpj_value *padding = tpj_scalar_or(e, "padding_idx", dtype, -1); /* no index is negative */
    return hlo_select(h, hlo_compare(h, "EQ", indices, padding), hlo_integer(h, dtype, n_rows), indices);
}

/* grad[i] added to row indices[i] of n_rows zero rows. */
static tpj_value *add_rows(tpj_hlo *h, tpj_value *indices, tpj_value *grad, int64_t n_rows) {
    int64_t dims[] = {n_rows, hlo_dim(grad, 1)};
    return tpj_scatter_rows(h, "add", hlo_zeros(h, grad->type.dtype, 2, dims), 0, indices, grad);
}

/* Each gradient divided by how often its row is used. */
static tpj_value *scale_by_frequency(tpj_hlo *h, tpj_value *grad, tpj_value *indices, int64_t n_rows) {
    tpj_value *used = hlo_take(h, frequencies(h, indices, n_rows, grad->type.dtype), indices, 0);
    return hlo_div(h, grad, as_column(h, used, hlo_dim(grad, 1)));
}

static void emit_embedding_dense_backward(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_in_type(e, "grad_output").dtype;
    tpj_value *grad = tpj_in_as(e, "grad_output", tpj_accumulate_dtype(dtype)), *indices = tpj_in(e, "indices");
    if (!indices_ok(e, indices)) return;
    int64_t n_rows = tpj_int(e, "num_weights", 0), width = grad->type.rank > 0 ? hlo_dim(grad, -1) : 1;
    int64_t dims[] = {hlo_elements(indices), width}, result[] = {n_rows, width};
    if (tpj_product(dims, 2) == 0 || n_rows == 0) {
        tpj_out(e, hlo_zeros(h, dtype, 2, result));
        return;
    }
    grad = hlo_reshape(h, grad, 2, dims);
    indices = tpj_index_argument(e, hlo_flatten(h, indices), n_rows, false);
    if (tpj_bool(e, "scale_grad_by_freq", false)) grad = scale_by_frequency(h, grad, indices, n_rows);
    indices = drop_padding(e, indices, n_rows);
    tpj_out_as(e, add_rows(h, indices, grad, n_rows), dtype);
}

/* The rows that are named and whose norm is above max_norm are scaled down to it. A row that is named twice gets the
 * same value twice. */
static void emit_embedding_renorm(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *weight = tpj_in(e, "self"), *indices = tpj_in(e, "indices");
    tpj_dtype dtype = weight->type.dtype, compute = tpj_compute_dtype(dtype);
    double p = tpj_is_constant(e, "norm_type") ? tpj_float(e, "norm_type", 2) : NAN; /* no special one */
    if (!indices_ok(e, indices)) return;
    if (weight->type.rank != 2) {
        tpj_fail(e, TPJ_RUNTIME, "'self' must be 2-D");
        return;
    }
    if (hlo_elements(indices) == 0 || hlo_elements(weight) == 0) {
        tpj_out(e, weight);
        return;
    }
    indices = tpj_index_argument(e, hlo_flatten(h, indices), hlo_dim(weight, 0), false);
    tpj_value *rows = hlo_convert(h, hlo_take(h, weight, indices, 0), compute), *size = hlo_abs(h, rows);
    int64_t last = 1;
    tpj_value *power = tpj_scalar(e, "norm_type", compute), *norm;
    tpj_value *root = hlo_div(h, hlo_number(h, compute, 1), power);
    if (isinf(p)) {
        norm = hlo_reduce(h, "maximum", size, hlo_number(h, compute, 0), &last, 1);
    } else if (p == 2) {
        norm = hlo_sqrt(h, hlo_reduce_dim(h, "add", hlo_mul(h, size, size), 1));
    } else {
        norm = hlo_pow(h, hlo_reduce_dim(h, "add", hlo_pow(h, size, power), 1), root);
    }
    tpj_value *most = tpj_scalar(e, "max_norm", compute), *above = hlo_compare(h, "GT", norm, most);
    tpj_value *factor = hlo_div(h, most, hlo_add(h, norm, hlo_number(h, compute, 1e-7)));
    factor = hlo_select(h, above, factor, hlo_number(h, compute, 1));
    rows = hlo_convert(h, hlo_mul(h, rows, as_column(h, factor, hlo_dim(weight, 1))), dtype);
    tpj_out(e, tpj_scatter_rows(h, "replace", weight, 0, indices, rows));
}

/* ---- bags ---- */

enum { BAG_SUM, BAG_MEAN, BAG_MAX };

typedef struct bags {
    tpj_value *weight;  /* [rows, width], in the dtype of the sums */
    tpj_value *indices; /* [n] */
    tpj_value *bag;     /* I32[n]: the bag of each index; n_bags (dropped) for the padding index */
    tpj_value *bag_of;  /* I32[n]: the bag of each index, padding included */
    tpj_value *sizes;   /* I32[n_bags], padding not counted */
    int64_t n, n_bags, n_rows, width;
} bags;

/* A one where a bag starts, summed up. */
static tpj_value *bag_numbers(tpj_hlo *h, tpj_value *offsets, int64_t n) {
    tpj_value *ones = hlo_full(h, TPJ_I32, 1, offsets->type.dims, 1);
    tpj_value *starts = tpj_scatter_rows(h, "add", hlo_zeros(h, TPJ_I32, 1, &n), 0, offsets, ones);
    return hlo_sub(h, hlo_cumulative(h, "add", starts, 0, false), hlo_integer(h, TPJ_I32, 1));
}

static bool read_bags(tpj_emit *e, bags *out_bags) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *indices = tpj_in(e, "indices"), *offsets = tpj_in(e, "offsets");
    tpj_type weight = tpj_in_type(e, "weight");
    if (weight.rank != 2 || indices->type.rank != 1 || offsets->type.rank != 1) {
        tpj_fail(e, TPJ_RUNTIME, "embedding_bag: expected a 2-D weight, 1-D indices and 1-D offsets");
        return false;
    }
    if (!indices_ok(e, indices)) return false;
    bags b = {.weight = tpj_in_as(e, "weight", tpj_compute_dtype(weight.dtype)), .n = hlo_dim(indices, 0)};
    b.n_rows = weight.dims[0];
    b.width = weight.dims[1];
    b.n_bags = hlo_dim(offsets, 0) - (tpj_bool(e, "include_last_offset", false) ? 1 : 0);
    if (b.n_bags < 0) {
        tpj_fail(e, TPJ_RUNTIME, "include_last_offset: number of offset should be at least 1");
        return false;
    }
    offsets = hlo_slice_dim(h, offsets, 0, 0, b.n_bags, 1);
    if (b.n_bags > 0)
        tpj_check(e,
                  hlo_compare(h, "NE", hlo_slice_dim(h, offsets, 0, 0, 1, 1), hlo_integer(h, offsets->type.dtype, 0)),
                  "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0.");
    offsets = tpj_index_narrow(h, tpj_check_index(e, offsets, b.n + 1, false), b.n);
    b.indices = tpj_index_argument(e, indices, b.n_rows, false);
    b.bag_of = b.n > 0 ? bag_numbers(h, offsets, b.n) : hlo_zeros(h, TPJ_I32, 1, &b.n);
    b.bag = b.bag_of;
    if (!tpj_is_constant(e, "padding_idx") || tpj_int(e, "padding_idx", -1) >= 0) {
        tpj_value *padding = tpj_scalar_or(e, "padding_idx", b.indices->type.dtype, -1);
        tpj_value *is_padding = hlo_compare(h, "EQ", b.indices, padding);
        b.bag = hlo_select(h, is_padding, hlo_integer(h, TPJ_I32, b.n_bags), b.bag);
    }
    b.sizes = frequencies(h, b.bag, b.n_bags, TPJ_I32);
    *out_bags = b;
    return !hlo_failed(h);
}

static tpj_value *bag_rows(tpj_hlo *h, const bags *b) {
    int64_t dims[] = {b->n, b->width};
    if (tpj_product(dims, 2) == 0 || b->n_rows == 0) return hlo_zeros(h, b->weight->type.dtype, 2, dims);
    return hlo_take(h, b->weight, b->indices, 0);
}

/* sizes as a divisor: empty bags divide by one. */
static tpj_value *bag_divisor(tpj_hlo *h, tpj_value *sizes, tpj_dtype dtype, int64_t width) {
    tpj_value *at_least_one = hlo_max(h, hlo_convert(h, sizes, TPJ_I32), hlo_integer(h, TPJ_I32, 1));
    return as_column(h, hlo_convert(h, at_least_one, dtype), width);
}

/* The largest of each bag and the row of the table that it comes from; zeros for empty bags. */
static tpj_value *bag_maximum(tpj_hlo *h, const bags *b, tpj_value *rows, tpj_value **out_from) {
    tpj_dtype dtype = rows->type.dtype;
    int64_t dims[] = {b->n_bags, b->width}, spread[] = {b->n, b->width};
    tpj_value *lowest = hlo_broadcast_in_dim(h, hlo_lowest(h, dtype), 2, dims, NULL);
    tpj_value *largest = tpj_scatter_rows(h, "maximum", lowest, 0, b->bag, rows);
    tpj_value *none = as_column(h, hlo_compare(h, "EQ", b->sizes, hlo_integer(h, TPJ_I32, 0)), b->width);
    *out_from = hlo_zeros(h, TPJ_I32, 2, dims);
    if (b->n > 0 && b->n_bags > 0) { /* the first index whose row has the largest value */
        tpj_value *mine = hlo_take(h, largest, hlo_min(h, b->bag_of, hlo_integer(h, TPJ_I32, b->n_bags - 1)), 0);
        tpj_value *place = hlo_select(h, hlo_compare(h, "EQ", rows, mine), hlo_iota(h, TPJ_I32, 2, spread, 0),
                                      hlo_integer(h, TPJ_I32, b->n - 1));
        tpj_value *first = hlo_full(h, TPJ_I32, 2, dims, (double)(b->n - 1));
        first = tpj_scatter_rows(h, "minimum", first, 0, b->bag, place);
        *out_from = hlo_take(h, hlo_convert(h, b->indices, TPJ_I32), first, 0);
    }
    *out_from = hlo_select(h, none, hlo_integer(h, TPJ_I32, 0), *out_from);
    return hlo_select(h, none, hlo_number(h, dtype, 0), largest);
}

static void emit_embedding_bag(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    bags b;
    if (!read_bags(e, &b)) return;
    tpj_dtype dtype = tpj_in_type(e, "weight").dtype, compute = b.weight->type.dtype;
    tpj_dtype index_dtype = tpj_in_type(e, "indices").dtype;
    int64_t mode = tpj_int(e, "mode", BAG_SUM), dims[] = {b.n_bags, b.width};
    tpj_value *rows = bag_rows(h, &b), *from = NULL, *result;
    if (tpj_has(e, "per_sample_weights")) {
        if (mode != BAG_SUM) {
            tpj_fail(e, TPJ_RUNTIME,
                     "embedding_bag: per_sample_weights was not None, which is only supported for "
                     "mode='sum'");
            return;
        }
        rows = hlo_mul(h, rows, as_column(h, tpj_in_as(e, "per_sample_weights", compute), b.width));
    }
    if (mode == BAG_MAX) {
        result = bag_maximum(h, &b, rows, &from);
    } else {
        result = tpj_scatter_rows(h, "add", hlo_zeros(h, compute, 2, dims), 0, b.bag, rows);
        if (mode == BAG_MEAN) result = hlo_div(h, result, bag_divisor(h, b.sizes, compute, b.width));
    }
    tpj_out_as(e, result, dtype);
    tpj_out_as(e, b.bag_of, index_dtype);
    tpj_out_as(e, b.sizes, index_dtype);
    tpj_out_as(e, from != NULL ? from : b.sizes, index_dtype);
}

/* Only the rows that were the largest get a gradient. */
static tpj_value *bag_maximum_backward(tpj_emit *e, tpj_value *grad, int64_t n_rows) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *from = tpj_in_as(e, "maximum_indices", TPJ_I32);
    tpj_value *is_empty = hlo_compare(h, "EQ", tpj_in_as(e, "bag_size", TPJ_I32), hlo_integer(h, TPJ_I32, 0));
    from = hlo_select(h, as_column(h, is_empty, hlo_dim(grad, 1)), hlo_integer(h, TPJ_I32, n_rows), from);
    int64_t dims[] = {n_rows, hlo_dim(grad, 1)};
    tpj_value *zeros = hlo_zeros(h, grad->type.dtype, 2, dims);
    return tpj_scatter_along(h, "add", zeros, 0, drop_padding(e, from, n_rows), grad);
}

enum { MAYBE_SPARSE = 1 }; /* the overload that can ask for a sparse gradient */

static void emit_embedding_bag_backward(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    if (tpj_row(e)->variant == MAYBE_SPARSE && tpj_bool(e, "sparse", false)) {
        tpj_fail(e, TPJ_NOT_IMPLEMENTED, "a graph has no sparse gradients: use sparse=False");
        return;
    }
    tpj_dtype dtype = tpj_in_type(e, "grad").dtype, compute = tpj_accumulate_dtype(dtype);
    tpj_value *grad = tpj_in_as(e, "grad", compute), *indices = tpj_in(e, "indices");
    int64_t n_rows = tpj_int(e, "num_weights", 0), mode = tpj_int(e, "mode", BAG_SUM), width = hlo_dim(grad, 1);
    int64_t n_bags = hlo_dim(grad, 0);
    if (mode == BAG_MAX) {
        tpj_out_as(e, bag_maximum_backward(e, grad, n_rows), dtype);
        return;
    }
    if (hlo_elements(indices) == 0 || n_bags == 0) {
        int64_t dims[] = {n_rows, width};
        tpj_out(e, hlo_zeros(h, dtype, 2, dims));
        return;
    }
    if (mode == BAG_MEAN) grad = hlo_div(h, grad, bag_divisor(h, tpj_in(e, "bag_size"), compute, width));
    tpj_value *each = hlo_take(h, grad, tpj_index_narrow(h, tpj_in(e, "offset2bag"), n_bags), 0);
    indices = tpj_index_narrow(h, indices, n_rows);
    if (tpj_has(e, "per_sample_weights")) {
        each = hlo_mul(h, each, as_column(h, tpj_in_as(e, "per_sample_weights", compute), width));
    }
    if (tpj_bool(e, "scale_grad_by_freq", false)) each = scale_by_frequency(h, each, indices, n_rows);
    tpj_out_as(e, add_rows(h, drop_padding(e, indices, n_rows), each, n_rows), dtype);
}

static void emit_per_sample_weights_backward(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_in_type(e, "grad").dtype, compute = tpj_accumulate_dtype(dtype);
    tpj_value *grad = tpj_in_as(e, "grad", compute), *weight = tpj_in_as(e, "weight", compute);
    tpj_value *indices = tpj_in(e, "indices"), *offsets = tpj_in(e, "offsets"), *bag = tpj_in(e, "offset2bag");
    int64_t n = hlo_dim(indices, 0);
    if (n == 0) {
        tpj_out(e, hlo_zeros(h, dtype, 1, &n));
        return;
    }
    bag = hlo_dim(bag, 0) == n ? tpj_index_narrow(h, bag, n) : bag_numbers(h, tpj_index_narrow(h, offsets, n), n);
    indices = tpj_index_narrow(h, indices, hlo_dim(weight, 0));
    tpj_value *product = hlo_mul(h, hlo_take(h, grad, bag, 0), hlo_take(h, weight, indices, 0));
    tpj_value *sum = hlo_reduce_dim(h, "add", product, 1);
    if (!tpj_is_constant(e, "padding_idx") || tpj_int(e, "padding_idx", -1) >= 0) {
        tpj_value *padding = tpj_scalar_or(e, "padding_idx", indices->type.dtype, -1);
        tpj_value *is_padding = hlo_compare(h, "EQ", indices, padding);
        sum = hlo_select(h, is_padding, hlo_number(h, compute, 0), sum);
    }
    tpj_out_as(e, sum, dtype);
}

#define BAG_PARAMS                                                                           \
    "T weight, T indices, T offsets, B scale_grad_by_freq=False, I mode=0, B sparse=False, " \
    "T? per_sample_weights=None, B include_last_offset=False, I~ padding_idx=-1"

const tpj_op_def tpj_ops_embedding[] = {
    {.name = "embedding", .params = "T weight, T indices", .emit = emit_embedding},
    {.name = "embedding_dense_backward",
     .params = "T grad_output, T indices, I num_weights, I~ padding_idx, B scale_grad_by_freq",
     .emit = emit_embedding_dense_backward},
    {.name = "embedding_renorm",
     .params = "T self, T indices, F~ max_norm, F^ norm_type",
     .emit = emit_embedding_renorm,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "_embedding_bag", .params = BAG_PARAMS, .emit = emit_embedding_bag},
    {.name = "_embedding_bag_forward_only", .params = BAG_PARAMS, .emit = emit_embedding_bag},
    {.name = "_embedding_bag_dense_backward",
     .params = "T grad, T indices, T offset2bag, T bag_size, T maximum_indices, I num_weights, B scale_grad_by_freq, "
               "I mode, T? per_sample_weights, I~ padding_idx=-1",
     .emit = emit_embedding_bag_backward},
    {.name = "_embedding_bag_backward",
     .params = "T grad, T indices, T offsets, T offset2bag, T bag_size, T maximum_indices, I num_weights, "
               "B scale_grad_by_freq, I mode, B sparse, T? per_sample_weights, I~ padding_idx=-1",
     .emit = emit_embedding_bag_backward,
     .variant = MAYBE_SPARSE},
    {.name = "_embedding_bag_per_sample_weights_backward",
     .params = "T grad, T weight, T indices, T offsets, T offset2bag, I mode, I~ padding_idx=-1",
     .emit = emit_per_sample_weights_backward},
    {0},
};
