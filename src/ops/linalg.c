/* Linear algebra that is an op of XLA: triangular solves, Cholesky; and the cross product. The other factors stand
 * in files of their own: LU, QR, LDL, SVD, eigenvalues of Hermitian matrices. Those of general ones run on the CPU. */
#include "ops/matrices.h"
#include "ops/pointwise.h"

/* ---- Cholesky and triangular solves ---- */

enum { MINOR, MINORS, FAILED, REST, INFO, STATES };

static void minors_remain(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    tpj_value *more = hlo_compare(h, "LT", arguments[MINOR], arguments[MINORS]);
    results[0] = hlo_and(h, more, hlo_reduce_all(h, "or", arguments[FAILED]));
}

/* One step of elimination: the pivot is positive as long as the leading minor is. */
static void next_minor(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    tpj_value *j = arguments[MINOR], *rest = arguments[REST], *info = arguments[INFO],
              *zero = hlo_integer(h, TPJ_I32, 0);
    int64_t batch = hlo_dim(rest, 0), n = hlo_dim(rest, 2), column_sizes[] = {batch, n, 1}, pivot_sizes[] = {batch, 1};
    tpj_value *column = hlo_squeeze(h, hlo_dynamic_slice(h, rest, (tpj_value *[]){zero, zero, j}, column_sizes), 2);
    tpj_value *pivot = hlo_squeeze(h, hlo_dynamic_slice(h, column, (tpj_value *[]){zero, j}, pivot_sizes), 1);
    tpj_value *is_positive =
        hlo_compare(h, "GT", hlo_real(h, pivot), hlo_number(h, hlo_real_dtype(pivot->type.dtype), 0));
    tpj_value *next = hlo_add(h, j, hlo_integer(h, TPJ_I32, 1));
    tpj_value *is_first = hlo_and(h, hlo_not(h, is_positive), hlo_compare(h, "EQ", info, zero));
    tpj_value *factor = hlo_div(h, hlo_conj(h, column), tpj_spread(h, pivot, 2, column->type.dims, 0));
    results[MINOR] = next;
    results[MINORS] = arguments[MINORS];
    results[FAILED] = arguments[FAILED];
    results[REST] = hlo_sub(h, rest, tpj_scale_each(h, tpj_spread(h, column, 3, rest->type.dims, 1), factor, 2));
    results[INFO] = hlo_select(h, is_first, next, info);
}

/* The order of the first leading minor that is not positive, I32[batch]; 0 where the factorization did not fail. XLA fills
 * a factor that fails with NaN and does not say where, so that it is looked for, in a loop that does not run otherwise. */
static tpj_value *first_minor(tpj_hlo *h, tpj_value *a, tpj_value *factor, bool upper) {
    int64_t batch = hlo_dim(a, 0), n = hlo_dim(a, 2);
    tpj_value *none = hlo_zeros(h, TPJ_I32, 1, &batch), *minors = hlo_integer(h, TPJ_I32, n);
    if (hlo_elements(a) == 0) return none;
    tpj_value *is_nan = hlo_is_nan(h, hlo_real(h, tpj_diagonals(h, factor)));
    tpj_value *failed = hlo_reduce_dim(h, "or", is_nan, 1), *final[STATES];
    tpj_value *initial[STATES] = {hlo_integer(h, TPJ_I32, 0), minors, failed, tpj_hermitian(h, a, upper), none};
    hlo_while(h, initial, STATES, minors_remain, next_minor, NULL, final);
    tpj_value *found = hlo_compare(h, "NE", final[INFO], hlo_integer(h, TPJ_I32, 0));
    return hlo_select(h, failed, hlo_select(h, found, final[INFO], minors), none);
}

static void emit_cholesky_ex(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *given = tpj_in(e, "self");
    if (!tpj_is_matrix(e, given, true)) return;
    bool upper = tpj_bool(e, "upper", false);
    tpj_value *a = tpj_flat_batch(h, given), *factor = tpj_triangle(h, hlo_cholesky(h, a, !upper), upper);
    tpj_out_columns(e, tpj_unflat_batch(h, factor, given));
    tpj_out(e, tpj_unflat_batch(h, first_minor(h, a, factor, upper), given));
}

static void emit_solve_triangular(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a = tpj_in(e, "self"), *b = tpj_in(e, "B");
    bool left = tpj_bool(e, "left", true), upper = tpj_bool(e, "upper", false);
    if (!tpj_solvable(e, a, b, left) || !tpj_broadcast_batches(e, &a, &b)) return;
    bool unit = tpj_bool(e, "unitriangular", false);
    tpj_out_columns(e, hlo_triangular_solve(h, a, b, left, !upper, unit, "NO_TRANSPOSE"));
}

static void emit_triangular_solve(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *b = tpj_in(e, "self"), *a = tpj_in(e, "A");
    if (!tpj_solvable(e, a, b, true) || !tpj_broadcast_batches(e, &a, &b)) return;
    bool upper = tpj_bool(e, "upper", true), unit = tpj_bool(e, "unitriangular", false);
    const char *transpose = tpj_bool(e, "transpose", false) ? "TRANSPOSE" : "NO_TRANSPOSE";
    tpj_out_columns(e, hlo_triangular_solve(h, a, b, true, !upper, unit, transpose));
    tpj_out_columns(e, a);
}

/* A X = B for A = L L^H (or U^H U). */
static tpj_value *solve_cholesky(tpj_hlo *h, tpj_value *factor, tpj_value *b, bool upper) {
    const char *first = upper ? "ADJOINT" : "NO_TRANSPOSE", *second = upper ? "NO_TRANSPOSE" : "ADJOINT";
    b = hlo_triangular_solve(h, factor, b, true, !upper, false, first);
    return hlo_triangular_solve(h, factor, b, true, !upper, false, second);
}

static void emit_cholesky_solve(tpj_emit *e) {
    tpj_value *b = tpj_in(e, "self"), *factor = tpj_in(e, "input2");
    if (!tpj_solvable(e, factor, b, true) || !tpj_broadcast_batches(e, &factor, &b)) return;
    tpj_out_columns(e, solve_cholesky(tpj_builder(e), factor, b, tpj_bool(e, "upper", false)));
}

static void emit_cholesky_inverse(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *factor = tpj_in(e, "self");
    if (!tpj_is_matrix(e, factor, true)) return;
    tpj_value *identity = tpj_identity_like(h, factor, factor->type.dtype);
    tpj_out_columns(e, solve_cholesky(h, factor, identity, tpj_bool(e, "upper", false)));
}

/* ---- cross product ---- */

static void emit_cross(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_promote(e, "self", "other", NULL), compute = tpj_compute_dtype(dtype);
    tpj_value *x = tpj_in_as(e, "self", compute), *y = tpj_in_as(e, "other", compute);
    if (x->type.rank != y->type.rank) {
        tpj_fail(e, TPJ_RUNTIME, "linalg.cross: inputs must have the same number of dimensions.");
        return;
    }
    int dim = tpj_dim(e, "dim", x->type.rank);
    if (x->type.rank == 0 || hlo_dim(x, dim) != 3 || hlo_dim(y, dim) != 3) {
        tpj_fail(e, TPJ_RUNTIME, "linalg.cross: inputs dimension %d must have length 3.", dim);
        return;
    }
    hlo_expand_together(h, &x, &y);
    tpj_value *parts[3];
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;
        tpj_value *xj = hlo_slice_dim(h, x, dim, j, j + 1, 1), *xk = hlo_slice_dim(h, x, dim, k, k + 1, 1);
        tpj_value *yj = hlo_slice_dim(h, y, dim, j, j + 1, 1), *yk = hlo_slice_dim(h, y, dim, k, k + 1, 1);
        /* halves: PyTorch rounds the products, on every device */
        tpj_value *first = tpj_rounded(h, hlo_mul(h, xj, yk), dtype),
                  *second = tpj_rounded(h, hlo_mul(h, xk, yj), dtype);
        parts[i] = hlo_sub(h, first, second);
    }
    tpj_out_as(e, hlo_concatenate(h, parts, 3, dim), dtype);
}

const tpj_op_def tpj_ops_linalg[] = {
    {.name = "linalg_cholesky_ex", .params = "T self, B upper=False", .emit = emit_cholesky_ex},
    {.name = "linalg_solve_triangular",
     .params = "T self, T B, B upper, B left=True, B unitriangular=False",
     .emit = emit_solve_triangular},
    {.name = "triangular_solve",
     .params = "T self, T A, B upper=True, B transpose=False, B unitriangular=False",
     .emit = emit_triangular_solve},
    {.name = "cholesky_solve", .params = "T self, T input2, B upper=False", .emit = emit_cholesky_solve},
    {.name = "cholesky_inverse", .params = "T self, B upper=False", .emit = emit_cholesky_inverse},
    {.name = "linalg_cross", .params = "T self, T other, I dim=-1", .emit = emit_cross},
    {0},
};
