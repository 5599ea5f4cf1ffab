/* Stacks of matrices: checks, batches flattened and broadcast, triangles and diagonals. */
#include "ops/matrices.h"

static bool is_floating(tpj_emit *e, const tpj_value *a) {
    if (!tpj_dtype_is_integral(a->type.dtype) && !tpj_dtype_is_half(a->type.dtype)) return true;
    tpj_fail(e, TPJ_RUNTIME, "%s: Expected a floating point or complex tensor as input. Got %s", tpj_row(e)->name,
             tpj_dtype_name(a->type.dtype));
    return false;
}

bool tpj_is_matrix(tpj_emit *e, const tpj_value *a, bool square) {
    if (a->type.rank < 2) {
        tpj_fail(e, TPJ_RUNTIME, "%s: The input tensor must have at least 2 dimensions.", tpj_row(e)->name);
        return false;
    }
    if (square && hlo_dim(a, -1) != hlo_dim(a, -2)) {
        tpj_fail(e, TPJ_RUNTIME, "%s: A must be batches of square matrices, but they are %lld by %lld matrices",
                 tpj_row(e)->name, (long long)hlo_dim(a, -2), (long long)hlo_dim(a, -1));
        return false;
    }
    return is_floating(e, a);
}

/* [batch, rows, columns] */
tpj_value *tpj_flat_batch(tpj_hlo *h, tpj_value *a) {
    int rank = a->type.rank;
    int64_t dims[] = {tpj_product(a->type.dims, rank - 2), hlo_dim(a, -2), hlo_dim(a, -1)};
    return hlo_reshape(h, a, 3, dims);
}

/* x [batch, ..] with the batch dimensions of `like` ([.., rows, columns]) put back. */
tpj_value *tpj_unflat_batch(tpj_hlo *h, tpj_value *x, const tpj_value *like) {
    int n_batch = like->type.rank - 2, rank = n_batch + x->type.rank - 1;
    int64_t *dims = hlo_dims(h, rank);
    for (int d = 0; d < rank; d++) dims[d] = d < n_batch ? like->type.dims[d] : x->type.dims[d - n_batch + 1];
    return hlo_reshape(h, x, rank, dims);
}

/* Broadcasts the batch dimensions of two stacks of matrices to each other. */
bool tpj_broadcast_batches(tpj_emit *e, tpj_value **a, tpj_value **b) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *xs[] = {*a, *b}, *batches[2];
    int rank;
    const int64_t *batch;
    for (int i = 0; i < 2; i++) { /* stand-ins that have the batch dimensions alone */
        batches[i] = hlo_zeros(h, TPJ_BOOL, xs[i]->type.rank - 2, xs[i]->type.dims);
    }
    if (!tpj_common_shape(h, batches, 2, &rank, &batch)) {
        tpj_fail(e, TPJ_RUNTIME, "%s: batch dimensions %s and %s do not broadcast", tpj_row(e)->name,
                 tpj_shape_text(h, (*a)->type.rank, (*a)->type.dims),
                 tpj_shape_text(h, (*b)->type.rank, (*b)->type.dims));
        return false;
    }
    for (int i = 0; i < 2; i++) {
        int64_t *dims = hlo_dims(h, rank + 2);
        for (int d = 0; d < rank; d++) dims[d] = batch[d];
        dims[rank] = hlo_dim(xs[i], -2);
        dims[rank + 1] = hlo_dim(xs[i], -1);
        xs[i] = hlo_expand(h, xs[i], rank + 2, dims);
    }
    *a = xs[0];
    *b = xs[1];
    return !hlo_failed(h);
}

tpj_value *tpj_transposed(tpj_hlo *h, tpj_value *a, bool conjugate) {
    a = hlo_swap(h, a, a->type.rank - 1, a->type.rank - 2);
    return conjugate ? hlo_conj(h, a) : a;
}

tpj_value *tpj_triangle(tpj_hlo *h, tpj_value *a, bool upper) {
    tpj_value *kept = tpj_band_mask(h, upper ? "GE" : "LE", a->type.rank, a->type.dims, 0);
    return hlo_select(h, kept, a, hlo_number(h, a->type.dtype, 0));
}

tpj_value *tpj_hermitian(tpj_hlo *h, tpj_value *a, bool upper) {
    tpj_value *zero = hlo_number(h, a->type.dtype, 0);
    tpj_value *strict = hlo_select(h, tpj_band_mask(h, upper ? "GT" : "LT", 3, a->type.dims, 0), a, zero);
    tpj_value *diagonal =
        hlo_mul(h, hlo_convert(h, hlo_real(h, a), a->type.dtype), tpj_identity_like(h, a, a->type.dtype));
    return hlo_add(h, hlo_add(h, strict, tpj_transposed(h, strict, true)), diagonal);
}

tpj_value *tpj_identity_like(tpj_hlo *h, const tpj_value *a, tpj_dtype dtype) {
    return hlo_convert(h, tpj_band_mask(h, "EQ", a->type.rank, a->type.dims, 0), dtype);
}

/* The diagonals of [batch, m, n]: [batch, min(m, n)]. */
tpj_value *tpj_diagonals(tpj_hlo *h, tpj_value *a) {
    int64_t m = hlo_dim(a, 1), n = hlo_dim(a, 2), k = m < n ? m : n, dims[] = {hlo_dim(a, 0), m * n};
    return hlo_slice_dim(h, hlo_reshape(h, a, 2, dims), 1, 0, k > 0 ? (k - 1) * (n + 1) + 1 : 0, n + 1);
}

/* Matrices that are solved against: square, same dtype, matching sizes. `left`: A X = B, else X A = B. */
bool tpj_solvable(tpj_emit *e, const tpj_value *a, const tpj_value *b, bool left) {
    if (!tpj_is_matrix(e, a, true) || !tpj_is_matrix(e, b, false)) return false;
    if (a->type.dtype != b->type.dtype) {
        tpj_fail(e, TPJ_RUNTIME, "%s: Expected A and B to have the same dtype, but found %s and %s instead",
                 tpj_row(e)->name, tpj_dtype_name(a->type.dtype), tpj_dtype_name(b->type.dtype));
        return false;
    }
    if (hlo_dim(a, -1) != hlo_dim(b, left ? -2 : -1)) {
        tpj_fail(e, TPJ_RUNTIME, "%s: Incompatible shapes of A and B for the equation %s (%lldx%lld and %lldx%lld)",
                 tpj_row(e)->name, left ? "AX = B" : "XA = B", (long long)hlo_dim(a, -2), (long long)hlo_dim(a, -1),
                 (long long)hlo_dim(b, -2), (long long)hlo_dim(b, -1));
        return false;
    }
    return true;
}

tpj_value *tpj_spread(tpj_hlo *h, tpj_value *x, int rank, const int64_t *dims, int64_t at) {
    int64_t mapping[] = {0, at};
    return hlo_broadcast_in_dim(h, x, rank, dims, mapping);
}

tpj_value *tpj_scale_each(tpj_hlo *h, tpj_value *a, tpj_value *factors, int64_t at) {
    factors = hlo_convert(h, factors, a->type.dtype);
    return hlo_mul(h, a, tpj_spread(h, factors, 3, a->type.dims, at));
}

tpj_value *tpj_rows_at(tpj_hlo *h, tpj_value *a, tpj_value *order) {
    int64_t *dims = tpj_dims_with(h, a, 1, hlo_dim(order, 1));
    return hlo_take_along(h, a, tpj_spread(h, order, 3, dims, 1), 1);
}

tpj_value *tpj_in_range(tpj_hlo *h, tpj_value *a, tpj_value **out_scale) {
    static const int64_t both[] = {1, 2};
    tpj_dtype real = hlo_real_dtype(a->type.dtype);
    double small = real == TPJ_F64 ? 0x1p-300 : 0x1p-14, big = real == TPJ_F64 ? 0x1p+300 : 0x1p+28;
    tpj_value *size = hlo_reduce(h, "maximum", hlo_abs(h, a), NULL, both, 2), *one = hlo_number(h, real, 1);
    tpj_value *usual = hlo_and(h, hlo_compare(h, "GE", size, hlo_number(h, real, small)),
                               hlo_compare(h, "LE", size, hlo_number(h, real, big)));
    usual = hlo_or(h, usual, hlo_compare(h, "EQ", size, hlo_number(h, real, 0)));
    *out_scale = hlo_select(h, usual, one, size);
    return hlo_div(h, a, tpj_spread(h, hlo_convert(h, *out_scale, a->type.dtype), 3, a->type.dims, 0));
}

/* The first k columns / rows of [batch, m, n]. */
tpj_value *tpj_first_columns(tpj_hlo *h, tpj_value *a, int64_t k) { return hlo_slice_dim(h, a, 2, 0, k, 1); }
tpj_value *tpj_first_rows(tpj_hlo *h, tpj_value *a, int64_t k) { return hlo_slice_dim(h, a, 1, 0, k, 1); }

void tpj_out_empty(tpj_emit *e, tpj_dtype dtype) {
    static const int64_t none = 0;
    tpj_out(e, hlo_zeros(tpj_builder(e), dtype, 1, &none));
}
