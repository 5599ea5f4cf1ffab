/* Distances between points: cdist, pdist, and their gradients. */
#include <math.h>

#include "ops/indexing.h"

/* x1 [.., P, M] and x2 [.., R, M] with their batch dimensions broadcast. */
static bool read_points(tpj_emit *e, tpj_value **out_x1, tpj_value **out_x2) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x[2] = {tpj_in(e, "x1"), tpj_in(e, "x2")};
    if (x[0]->type.rank < 2 || x[1]->type.rank < 2) {
        tpj_fail(e, TPJ_RUNTIME, "cdist only supports at least 2D tensors");
        return false;
    }
    if (hlo_dim(x[0], -1) != hlo_dim(x[1], -1)) {
        tpj_fail(e, TPJ_RUNTIME, "X1 and X2 must have the same number of columns. X1: %lld X2: %lld",
                 (long long)hlo_dim(x[0], -1), (long long)hlo_dim(x[1], -1));
        return false;
    }
    int rank = x[0]->type.rank > x[1]->type.rank ? x[0]->type.rank : x[1]->type.rank;
    for (int i = 0; i < 2; i++) {
        tpj_value *other = x[1 - i];
        int64_t *dims = hlo_dims(h, rank);
        for (int d = 0; d < rank; d++) {
            int mine = d - (rank - x[i]->type.rank), theirs = d - (rank - other->type.rank);
            int64_t size = mine >= 0 ? x[i]->type.dims[mine] : 1;
            dims[d] = d < rank - 2 && size == 1 && theirs >= 0 ? other->type.dims[theirs] : size;
        }
        x[i] = hlo_expand(h, x[i], rank, dims);
    }
    *out_x1 = x[0];
    *out_x2 = x[1];
    return !hlo_failed(h);
}

/* [.., P, R, M]: every point of x1 less every point of x2. */
static tpj_value *differences(tpj_hlo *h, tpj_value *x1, tpj_value *x2) {
    int rank = x1->type.rank;
    tpj_value *a = hlo_unsqueeze(h, x1, rank - 1), *b = hlo_unsqueeze(h, x2, rank - 2);
    hlo_expand_together(h, &a, &b);
    return hlo_sub(h, a, b);
}

/* |x1|^2 - 2 x1.x2 + |x2|^2 as one product, as PyTorch does for many points. */
static tpj_value *euclidean(tpj_hlo *h, tpj_value *x1, tpj_value *x2) {
    int rank = x1->type.rank;
    tpj_dtype dtype = x1->type.dtype;
    tpj_value *parts[2][3];
    for (int i = 0; i < 2; i++) {
        tpj_value *x = i == 0 ? x1 : x2;
        tpj_value *norm = hlo_unsqueeze(h, hlo_reduce_dim(h, "add", hlo_mul(h, x, x), rank - 1), rank - 1);
        tpj_value *one = hlo_full(h, dtype, rank, norm->type.dims, 1);
        parts[i][0] = i == 0 ? hlo_mul(h, x, hlo_number(h, dtype, -2)) : x;
        parts[i][1] = i == 0 ? norm : one;
        parts[i][2] = i == 0 ? one : norm;
    }
    tpj_value *left = hlo_concatenate(h, parts[0], 3, rank - 1), *right = hlo_concatenate(h, parts[1], 3, rank - 1);
    tpj_value *squares = hlo_matmul(h, left, hlo_swap(h, right, rank - 1, rank - 2), dtype);
    return hlo_sqrt(h, hlo_max(h, squares, hlo_number(h, dtype, 0)));
}

static void emit_euclidean_dist(tpj_emit *e) {
    tpj_value *x1, *x2;
    if (read_points(e, &x1, &x2)) tpj_out(e, euclidean(tpj_builder(e), x1, x2));
}

/* p where it is known. NaN: it is given at run time, and none of those that have formulas of their own. */
static double known_p(tpj_emit *e) { return tpj_is_constant(e, "p") ? tpj_float(e, "p", 2) : NAN; }

/* x to the power of p - less. */
static tpj_value *power(tpj_emit *e, tpj_value *x, double less) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *p = tpj_scalar(e, "p", x->type.dtype);
    return hlo_pow(h, x, hlo_sub(h, p, hlo_number(h, x->type.dtype, less)));
}

static tpj_value *root(tpj_emit *e, tpj_value *x) {
    tpj_hlo *h = tpj_builder(e);
    return hlo_pow(h, x, hlo_div(h, hlo_number(h, x->type.dtype, 1), tpj_scalar(e, "p", x->type.dtype)));
}

/* p-norms of the differences of all pairs of points, [.., P, R]. */
static tpj_value *pair_norms(tpj_emit *e, tpj_value *x1, tpj_value *x2) {
    tpj_hlo *h = tpj_builder(e);
    double p = known_p(e);
    tpj_dtype dtype = x1->type.dtype;
    tpj_value *distance = hlo_abs(h, differences(h, x1, x2));
    int last = distance->type.rank - 1;
    if (p == 0) {
        tpj_value *differs = hlo_compare(h, "NE", distance, hlo_number(h, dtype, 0));
        return hlo_reduce_dim(h, "add", hlo_convert(h, differs, dtype), last);
    }
    if (isinf(p)) {
        int64_t dim = last;
        return hlo_reduce(h, "maximum", distance, hlo_number(h, dtype, 0), &dim, 1);
    }
    if (p == 1) return hlo_reduce_dim(h, "add", distance, last);
    if (p == 2) return hlo_sqrt(h, hlo_reduce_dim(h, "add", hlo_mul(h, distance, distance), last));
    return root(e, hlo_reduce_dim(h, "add", power(e, distance, 0), last));
}

static void emit_cdist_forward(tpj_emit *e) {
    enum { MANY_POINTS = 25, MODE_IF_NECESSARY = 0, MODE_PRODUCT = 1 };
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x1, *x2;
    if (!read_points(e, &x1, &x2)) return;
    double p = known_p(e);
    tpj_require(e, "p", 0, HUGE_VAL, "cdist only supports non-negative p values, got ");
    int64_t mode = tpj_int(e, "compute_mode", MODE_IF_NECESSARY);
    bool many = hlo_dim(x1, -2) > MANY_POINTS || hlo_dim(x2, -2) > MANY_POINTS;
    if (p == 2 && hlo_dim(x1, -1) > 0 && (mode == MODE_PRODUCT || (mode == MODE_IF_NECESSARY && many))) {
        tpj_out(e, euclidean(h, x1, x2));
        return;
    }
    tpj_out(e, pair_norms(e, x1, x2));
}

/* d distance / d difference, element by element. `distance` and `grad` have a last dimension of 1 repeated. */
static tpj_value *distance_slope(tpj_emit *e, tpj_value *difference, tpj_value *distance) {
    tpj_hlo *h = tpj_builder(e);
    double p = known_p(e);
    tpj_dtype dtype = difference->type.dtype;
    tpj_value *zero = hlo_number(h, dtype, 0), *size = hlo_abs(h, difference), *sign = hlo_unary(h, "sign", difference);
    if (p == 1) return sign;
    if (isinf(p)) return hlo_select(h, hlo_compare(h, "EQ", size, distance), sign, zero);
    tpj_value *flat = hlo_compare(h, "EQ", distance, zero);
    tpj_value *steep = hlo_compare(h, "LT", tpj_scalar(e, "p", dtype), hlo_number(h, dtype, 1));
    flat = hlo_or(h, flat, hlo_and(h, steep, hlo_compare(h, "EQ", difference, zero)));
    tpj_value *slope = p == 2 ? hlo_div(h, difference, distance)
                              : hlo_div(h, hlo_mul(h, sign, power(e, size, 1)), power(e, distance, 1));
    return hlo_select(h, flat, zero, slope);
}

static void emit_cdist_backward(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x1, *x2;
    if (!read_points(e, &x1, &x2)) return;
    if (known_p(e) == 0) {
        tpj_out(e, hlo_zeros(h, x1->type.dtype, x1->type.rank, x1->type.dims));
        return;
    }
    tpj_value *difference = differences(h, x1, x2);
    int rank = difference->type.rank;
    tpj_value *grad = hlo_expand(h, hlo_unsqueeze(h, tpj_in(e, "grad"), rank - 1), rank, difference->type.dims);
    tpj_value *distance = hlo_expand(h, hlo_unsqueeze(h, tpj_in(e, "cdist"), rank - 1), rank, difference->type.dims);
    tpj_value *slope = distance_slope(e, difference, distance);
    tpj_out(e, hlo_reduce_dim(h, "add", hlo_mul(h, grad, slope), rank - 2));
}

/* The pairs i < j of n points in row-major order: a mask over [n, n]. */
static tpj_value *pair_mask(tpj_hlo *h, int64_t n) {
    int64_t dims[] = {n, n};
    return hlo_flatten(h, tpj_band_mask(h, "GT", 2, dims, 0));
}

static void emit_pdist_forward(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    if (x->type.rank != 2) {
        tpj_fail(e, TPJ_RUNTIME, "pdist only supports 2D tensors, got: %dD", x->type.rank);
        return;
    }
    int64_t n = hlo_dim(x, 0);
    tpj_value *all = hlo_flatten(h, pair_norms(e, x, x));
    tpj_out(e, tpj_compact(h, pair_mask(h, n), all, n * (n - 1) / 2, hlo_number(h, x->type.dtype, 0)));
}

/* A value of each pair as a symmetric matrix with a diagonal of zeros. */
static tpj_value *pairs_to_matrix(tpj_hlo *h, tpj_value *pairs, int64_t n) {
    int64_t dims[] = {n, n};
    tpj_value *mask = pair_mask(h, n), *zero = hlo_number(h, pairs->type.dtype, 0);
    tpj_value *upper = hlo_select(h, mask, hlo_take(h, pairs, tpj_mask_positions(h, mask, 0), 0), zero);
    upper = hlo_reshape(h, upper, 2, dims);
    return hlo_add(h, upper, hlo_swap(h, upper, 0, 1));
}

static void emit_pdist_backward(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int64_t n = hlo_dim(x, 0);
    if (known_p(e) == 0 || n <= 1 || hlo_elements(x) == 0) {
        tpj_out(e, hlo_zeros(h, x->type.dtype, x->type.rank, x->type.dims));
        return;
    }
    tpj_value *difference = differences(h, x, x);
    tpj_value *grad = hlo_unsqueeze(h, pairs_to_matrix(h, tpj_in(e, "grad"), n), 2);
    tpj_value *distance = hlo_unsqueeze(h, pairs_to_matrix(h, tpj_in(e, "pdist"), n), 2);
    grad = hlo_expand(h, grad, 3, difference->type.dims);
    tpj_value *slope = distance_slope(e, difference, hlo_expand(h, distance, 3, difference->type.dims));
    tpj_out(e, hlo_reduce_dim(h, "add", hlo_mul(h, grad, slope), 1));
}

const tpj_op_def tpj_ops_distance[] = {
    {.name = "_euclidean_dist", .params = "T x1, T x2", .emit = emit_euclidean_dist},
    {.name = "_cdist_forward", .params = "T x1, T x2, F^ p, I? compute_mode", .emit = emit_cdist_forward},
    {.name = "_pdist_forward", .params = "T self, F^ p=2.0", .emit = emit_pdist_forward},
    {.name = "_pdist_backward", .params = "T grad, T self, F^ p, T pdist", .emit = emit_pdist_backward},
    {.name = "_cdist_backward", .params = "T grad, T x1, T x2, F^ p, T cdist", .emit = emit_cdist_backward},
    {0},
};
