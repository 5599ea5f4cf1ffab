/* Matrix products: mm and its relatives, dots, outer products.
 *
 * Halves are multiplied with F32 accumulation and rounded once, small integers accumulate in I32 (the low bits are
 * those of wrapping arithmetic). alpha and beta are operands: a beta of zero is selected away at run time, so that NaN
 * in `self` is ignored as PyTorch says. */
#include <math.h>

#include "ops/ops.h"

enum { MAX_BATCH = 1 }; /* batch dimensions of any product here */

static tpj_dtype product_dtype(tpj_dtype dtype) {
    if (tpj_dtype_is_half(dtype)) return TPJ_F32;
    if (tpj_dtype_is_integral(dtype) && tpj_dtype_bytes(dtype) < 4) return TPJ_I32;
    return dtype;
}

/* x's last dimension against y's last but one (y's only one when it is a vector), leading `n_batch` dimensions in
 * step. */
static tpj_value *contract(tpj_hlo *h, tpj_value *x, tpj_value *y, int n_batch) {
    tpj_dtype dtype = x->type.dtype, result = product_dtype(dtype);
    if (result == TPJ_I32 && dtype != TPJ_I8) { /* the matrix unit takes bytes, nothing in between */
        x = hlo_convert(h, x, TPJ_I32);
        y = hlo_convert(h, y, TPJ_I32);
    }
    int64_t batch[MAX_BATCH] = {0};
    for (int i = 0; i < n_batch && i < MAX_BATCH; i++) batch[i] = i;
    int64_t x_last = x->type.rank - 1, y_rows = y->type.rank - n_batch > 1 ? y->type.rank - 2 : y->type.rank - 1;
    return hlo_dot(h, x, y, batch, batch, n_batch, &x_last, &y_rows, 1, result);
}

/* Operands of a product: same dtype, and one that PyTorch multiplies. */
static bool products_ok(tpj_emit *e, const tpj_value *x, const tpj_value *y) {
    if (x->type.dtype != y->type.dtype) {
        tpj_fail(e, TPJ_RUNTIME, "expected both operands to have the same dtype, but got: %s != %s",
                 tpj_dtype_name(x->type.dtype), tpj_dtype_name(y->type.dtype));
        return false;
    }
    if (x->type.dtype == TPJ_BOOL) {
        tpj_fail(e, TPJ_NOT_IMPLEMENTED, "not implemented for 'Bool'");
        return false;
    }
    return true;
}

static bool rank_ok(tpj_emit *e, const char *name, const tpj_value *x, int rank) {
    static const char *const words[] = {"scalar", "vector", "matrix", "3D tensor"};
    if (x->type.rank == rank) return true;
    tpj_fail(e, TPJ_RUNTIME, "%s must be a %s, but has %d dimensions", name, words[rank], x->type.rank);
    return false;
}

static bool matrices_ok(tpj_emit *e, const char *x_name, tpj_value *x, const char *y_name, tpj_value *y) {
    if (!rank_ok(e, x_name, x, 2) || !rank_ok(e, y_name, y, 2) || !products_ok(e, x, y)) return false;
    if (hlo_dim(x, 1) == hlo_dim(y, 0)) return true;
    tpj_fail(e, TPJ_RUNTIME, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
             (long long)hlo_dim(x, 0), (long long)hlo_dim(x, 1), (long long)hlo_dim(y, 0), (long long)hlo_dim(y, 1));
    return false;
}

static bool batches_ok(tpj_emit *e, const char *x_name, tpj_value *x, const char *y_name, tpj_value *y) {
    if (!rank_ok(e, x_name, x, 3) || !rank_ok(e, y_name, y, 3) || !products_ok(e, x, y)) return false;
    if (hlo_dim(x, 0) == hlo_dim(y, 0) && hlo_dim(x, 2) == hlo_dim(y, 1)) return true;
    tpj_fail(e, TPJ_RUNTIME,
             "Expected size for first two dimensions of %s tensor to be: [%lld, %lld] but got: [%lld, %lld].", y_name,
             (long long)hlo_dim(x, 0), (long long)hlo_dim(x, 2), (long long)hlo_dim(y, 0), (long long)hlo_dim(y, 1));
    return false;
}

/* The dtype asked for with out_dtype; rows without that parameter keep the operands'. */
static tpj_dtype result_dtype(tpj_emit *e, tpj_dtype dtype) {
    return tpj_row(e)->variant != 0 ? tpj_dtype_of(e, "out_dtype", dtype) : dtype;
}

enum { WITH_OUT_DTYPE = 1 };

static void emit_mm(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self"), *y = tpj_in(e, "mat2");
    if (!matrices_ok(e, "self", x, "mat2", y)) return;
    tpj_out_as(e, contract(tpj_builder(e), x, y, 0), result_dtype(e, x->type.dtype));
}

static void emit_bmm(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self"), *y = tpj_in(e, "mat2");
    if (!batches_ok(e, "batch1", x, "batch2", y)) return;
    tpj_out_as(e, contract(tpj_builder(e), x, y, 1), result_dtype(e, x->type.dtype));
}

/* beta * self + alpha * product, self broadcast to the product; `dtype` is the result's. Nothing is computed from self
 * where beta is zero. */
static tpj_value *blend(tpj_emit *e, tpj_value *product, tpj_dtype dtype) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype compute = product->type.dtype;
    tpj_value *self = tpj_in_as(e, "self", compute);
    tpj_value *beta = tpj_scalar(e, "beta", compute), *alpha = tpj_scalar(e, "alpha", compute);
    self = hlo_expand(h, self, product->type.rank, product->type.dims);
    tpj_value *ignored = hlo_compare(h, "EQ", beta, hlo_number(h, compute, 0));
    tpj_value *scaled = hlo_select(h, ignored, hlo_number(h, compute, 0), hlo_mul(h, self, beta));
    return hlo_convert(h, hlo_add(h, scaled, hlo_mul(h, product, alpha)), dtype);
}

static void out_blend(tpj_emit *e, tpj_value *product, tpj_dtype dtype) { tpj_out(e, blend(e, product, dtype)); }

static void emit_addmm(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "mat1"), *y = tpj_in(e, "mat2");
    if (!matrices_ok(e, "mat1", x, "mat2", y)) return;
    out_blend(e, contract(tpj_builder(e), x, y, 0), result_dtype(e, x->type.dtype));
}

static void emit_addmm_activation(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "mat1"), *y = tpj_in(e, "mat2");
    if (!matrices_ok(e, "mat1", x, "mat2", y)) return;
    tpj_dtype dtype = x->type.dtype;
    tpj_value *sum = blend(e, contract(h, x, y, 0), dtype);
    if (!tpj_bool(e, "use_gelu", false)) {
        tpj_out(e, hlo_max(h, sum, hlo_number(h, dtype, 0)));
        return;
    }
    tpj_dtype compute = tpj_compute_dtype(dtype);
    sum = hlo_convert(h, sum, compute);
    tpj_value *erf = hlo_unary(h, "chlo.erf", hlo_mul(h, sum, hlo_number(h, compute, sqrt(0.5))));
    tpj_value *weight = hlo_mul(h, hlo_add(h, erf, hlo_number(h, compute, 1)), hlo_number(h, compute, 0.5));
    tpj_out_as(e, hlo_mul(h, sum, weight), dtype);
}

static void emit_baddbmm(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "batch1"), *y = tpj_in(e, "batch2");
    if (!batches_ok(e, "batch1", x, "batch2", y)) return;
    out_blend(e, contract(tpj_builder(e), x, y, 1), result_dtype(e, x->type.dtype));
}

static void emit_addbmm(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "batch1"), *y = tpj_in(e, "batch2");
    if (!batches_ok(e, "batch1", x, "batch2", y)) return;
    tpj_dtype dtype = x->type.dtype, result = product_dtype(dtype);
    int64_t x_contract[] = {0, 2}, y_contract[] = {0, 1}; /* the sum over the batch is part of the contraction */
    tpj_value *product = hlo_dot(h, hlo_convert(h, x, result), hlo_convert(h, y, result), NULL, NULL, 0, x_contract,
                                 y_contract, 2, result);
    out_blend(e, product, dtype);
}

static void emit_mv(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self"), *y = tpj_in(e, "vec");
    if (!rank_ok(e, "self", x, 2) || !rank_ok(e, "vec", y, 1) || !products_ok(e, x, y)) return;
    if (hlo_dim(x, 1) != hlo_dim(y, 0)) {
        tpj_fail(e, TPJ_RUNTIME, "size mismatch, got input (%lldx%lld), vec (%lld)", (long long)hlo_dim(x, 0),
                 (long long)hlo_dim(x, 1), (long long)hlo_dim(y, 0));
        return;
    }
    tpj_out_as(e, contract(tpj_builder(e), x, y, 0), x->type.dtype);
}

static void emit_addmv(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "mat"), *y = tpj_in(e, "vec");
    if (!rank_ok(e, "mat", x, 2) || !rank_ok(e, "vec", y, 1) || !products_ok(e, x, y)) return;
    if (hlo_dim(x, 1) != hlo_dim(y, 0)) {
        tpj_fail(e, TPJ_RUNTIME, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
                 (long long)hlo_dim(x, 0), (long long)hlo_dim(x, 0), (long long)hlo_dim(x, 1),
                 (long long)hlo_dim(y, 0));
        return;
    }
    out_blend(e, contract(tpj_builder(e), x, y, 0), x->type.dtype);
}

static void emit_addr(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_promote(e, "self", "vec1", "vec2", NULL), compute = tpj_compute_dtype(dtype);
    static const char *const factors[] = {"beta", "alpha"};
    for (int i = 0; i < 2 && tpj_dtype_is_integral(dtype); i++) {
        if (tpj_dtype_is_integral(tpj_scalar_dtype(e, factors[i]))) continue;
        tpj_fail(e, TPJ_RUNTIME, "For integral input tensors, argument %s must not be a floating point number.",
                 factors[i]);
        return;
    }
    tpj_value *x = tpj_in_as(e, "vec1", compute), *y = tpj_in_as(e, "vec2", compute);
    if (!rank_ok(e, "vec1", x, 1) || !rank_ok(e, "vec2", y, 1)) return;
    int64_t dims[] = {hlo_dim(x, 0), hlo_dim(y, 0)}, rows = 0, columns = 1;
    tpj_value *outer =
        hlo_mul(h, hlo_broadcast_in_dim(h, x, 2, dims, &rows), hlo_broadcast_in_dim(h, y, 2, dims, &columns));
    out_blend(e, outer, dtype);
}

static void emit_dot(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    bool conjugate = tpj_row(e)->variant != 0;
    tpj_value *x = tpj_in(e, "self"), *y = tpj_in(e, conjugate ? "other" : "tensor");
    if (x->type.rank != 1 || y->type.rank != 1) {
        tpj_fail(e, TPJ_RUNTIME, "1D tensors expected, but got %dD and %dD tensors", x->type.rank, y->type.rank);
        return;
    }
    if (!products_ok(e, x, y)) return;
    if (hlo_dim(x, 0) != hlo_dim(y, 0)) {
        tpj_fail(e, TPJ_RUNTIME,
                 "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same number of elements",
                 (long long)hlo_dim(x, 0), (long long)hlo_dim(y, 0));
        return;
    }
    tpj_out_as(e, contract(h, conjugate ? hlo_conj(h, x) : x, y, 0), x->type.dtype);
}

static void emit_int_mm(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self"), *y = tpj_in(e, "mat2");
    if (y->type.dtype != TPJ_I8 || (x->type.dtype != TPJ_I8 && x->type.dtype != TPJ_U8)) {
        tpj_fail(e, TPJ_RUNTIME, "Expected the operands to be int8, got %s and %s", tpj_dtype_name(x->type.dtype),
                 tpj_dtype_name(y->type.dtype));
        return;
    }
    if (x->type.dtype == TPJ_U8) {
        x = hlo_convert(h, x, TPJ_I32);
        y = hlo_convert(h, y, TPJ_I32);
    }
    if (matrices_ok(e, "self", x, "mat2", y)) tpj_out_as(e, contract(h, x, y, 0), TPJ_I32);
}

/* ---- grouped products ---- */

/* mask[g, i]: element i belongs to group g, whose end is offs[g]. */
static tpj_value *group_mask(tpj_hlo *h, tpj_value *ends, int64_t n) {
    int64_t dims[] = {hlo_dim(ends, 0), n}, groups = 0;
    ends = hlo_convert(h, ends, TPJ_I32);
    tpj_value *zero = hlo_zeros(h, TPJ_I32, 0, NULL);
    tpj_value *starts = hlo_slice_dim(h, hlo_pad_dim(h, ends, zero, 0, 1, 0), 0, 0, dims[0], 1);
    tpj_value *at = hlo_iota(h, TPJ_I32, 2, dims, 1);
    return hlo_and(h, hlo_compare(h, "GE", at, hlo_broadcast_in_dim(h, starts, 2, dims, &groups)),
                   hlo_compare(h, "LT", at, hlo_broadcast_in_dim(h, ends, 2, dims, &groups)));
}

/* [groups, ...x] with what belongs to other groups zeroed; `dim` is the grouped dimension of x. */
static tpj_value *group_split(tpj_hlo *h, tpj_value *x, tpj_value *mask, int dim) {
    int64_t dims[3] = {hlo_dim(mask, 0), hlo_dim(x, 0), hlo_dim(x, 1)}, x_at[] = {1, 2}, mask_at[] = {0, dim + 1};
    tpj_value *wide = hlo_broadcast_in_dim(h, x, 3, dims, x_at);
    return hlo_select(h, hlo_broadcast_in_dim(h, mask, 3, dims, mask_at), wide, hlo_number(h, x->type.dtype, 0));
}

static void emit_grouped_mm(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self"), *y = tpj_in(e, "mat2"), *ends = tpj_in(e, "offs");
    if (!products_ok(e, x, y)) return;
    tpj_dtype result = tpj_dtype_of(e, "out_dtype", x->type.dtype);
    int x_rank = x->type.rank, y_rank = y->type.rank;
    if (x_rank < 2 || x_rank > 3 || y_rank < 2 || y_rank > 3 || hlo_dim(x, -1) != hlo_dim(y, -2)) {
        tpj_fail(e, TPJ_RUNTIME, "contraction dimension of mat_a and mat_b must match");
        return;
    }
    if (tpj_has(e, "bias")) {
        tpj_fail(e, TPJ_RUNTIME, "Bias not supported yet");
        return;
    }
    if ((ends == NULL) != (x_rank == 3 && y_rank == 3)) {
        tpj_fail(e, TPJ_RUNTIME,
                 "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d");
        return;
    }
    tpj_value *product;
    if (ends == NULL) {
        product = contract(h, x, y, 1);
    } else if (x_rank == 2 && y_rank == 3) { /* rows of x are grouped: sum over (group, k) of masked rows */
        tpj_value *wide = group_split(h, x, group_mask(h, ends, hlo_dim(x, 0)), 0);
        int64_t wide_contract[] = {0, 2}, y_contract[] = {0, 1};
        product = hlo_dot(h, wide, y, NULL, NULL, 0, wide_contract, y_contract, 2, product_dtype(x->type.dtype));
    } else if (x_rank == 3) { /* columns of y are grouped */
        tpj_value *wide = group_split(h, y, group_mask(h, ends, hlo_dim(y, 1)), 1);
        int64_t x_contract[] = {0, 2}, wide_contract[] = {0, 1};
        product = hlo_dot(h, x, wide, NULL, NULL, 0, x_contract, wide_contract, 2, product_dtype(x->type.dtype));
    } else { /* the contraction is grouped: one product a group */
        tpj_value *wide = group_split(h, x, group_mask(h, ends, hlo_dim(x, 1)), 1);
        int64_t k = 2, rows = 0;
        product = hlo_dot(h, wide, y, NULL, NULL, 0, &k, &rows, 1, product_dtype(x->type.dtype));
    }
    tpj_out_as(e, product, result);
}

/* ---- bilinear ---- */

static void emit_trilinear(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    static const char *const inputs[] = {"i1", "i2", "i3"}, *const expands[] = {"expand1", "expand2", "expand3"};
    tpj_dtype dtype = tpj_in_type(e, "i1").dtype, compute = tpj_compute_dtype(dtype);
    tpj_value *xs[3];
    for (int i = 0; i < 3; i++) {
        int n = 0;
        const int64_t *at = tpj_ints(e, expands[i], &n);
        xs[i] = tpj_in_as(e, inputs[i], compute);
        for (int k = 0; k < n; k++) xs[i] = hlo_unsqueeze(h, xs[i], (int)at[k]);
    }
    int n_sum = 0;
    const int64_t *sum = tpj_ints(e, "sumdim", &n_sum);
    hlo_expand_together3(h, &xs[0], &xs[1], &xs[2]);
    tpj_value *product = hlo_mul(h, hlo_mul(h, xs[0], xs[1]), xs[2]);
    tpj_out_as(e, n_sum > 0 ? hlo_reduce(h, "add", product, NULL, sum, n_sum) : product, dtype);
}

const tpj_op_def tpj_ops_matmul[] = {
    {.name = "mm", .params = "T self, T mat2", .emit = emit_mm, .flags = TPJ_OP_FLOAT8},
    {.name = "mm.dtype", .params = "T self, T mat2, D out_dtype", .emit = emit_mm, .variant = WITH_OUT_DTYPE},
    {.name = "bmm", .params = "T self, T mat2", .emit = emit_bmm, .flags = TPJ_OP_FLOAT8},
    {.name = "bmm.dtype", .params = "T self, T mat2, D out_dtype", .emit = emit_bmm, .variant = WITH_OUT_DTYPE},
    {.name = "addmm",
     .params = "T self, T mat1, T mat2, S beta=1, S alpha=1",
     .emit = emit_addmm,
     .flags = TPJ_OP_FLOAT8},
    {.name = "addmm.dtype",
     .params = "T self, T mat1, T mat2, D out_dtype, S beta=1, S alpha=1",
     .emit = emit_addmm,
     .variant = WITH_OUT_DTYPE},
    {.name = "_addmm_activation",
     .params = "T self, T mat1, T mat2, S beta=1, S alpha=1, B use_gelu=False",
     .emit = emit_addmm_activation},
    {.name = "baddbmm", .params = "T self, T batch1, T batch2, S beta=1, S alpha=1", .emit = emit_baddbmm},
    {.name = "baddbmm.dtype",
     .params = "T self, T batch1, T batch2, D out_dtype, S beta=1, S alpha=1",
     .emit = emit_baddbmm,
     .variant = WITH_OUT_DTYPE},
    {.name = "addbmm", .params = "T self, T batch1, T batch2, S beta=1, S alpha=1", .emit = emit_addbmm},
    {.name = "addmv", .params = "T self, T mat, T vec, S beta=1, S alpha=1", .emit = emit_addmv},
    {.name = "addr",
     .params = "T self, T vec1, T vec2, S beta=1, S alpha=1",
     .emit = emit_addr,
     .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "mv", .params = "T self, T vec", .emit = emit_mv},
    {.name = "dot", .params = "T self, T tensor", .emit = emit_dot},
    {.name = "vdot", .params = "T self, T other", .emit = emit_dot, .variant = 1},
    {.name = "_int_mm", .params = "T self, T mat2", .emit = emit_int_mm},
    {.name = "_grouped_mm", .params = "T self, T mat2, T? offs, T? bias, D? out_dtype", .emit = emit_grouped_mm},
    {.name = "_trilinear",
     .params = "T i1, T i2, T i3, I[] expand1, I[] expand2, I[] expand3, I[] sumdim, I unroll_dim=1",
     .emit = emit_trilinear},
    {0},
};
