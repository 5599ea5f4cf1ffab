/* Linear algebra that runs in the program: triangular solves, Cholesky, LU with partial pivoting and what follows from
 * it, QR. Batches are flattened to one dimension inside. What is not here (SVD, eigenvalues, ..) runs on the CPU. */
#include "ops/indexing.h"

/* ---- shapes ---- */

static bool is_floating(tpj_emit *e, const tpj_value *a) {
    if (!tpj_dtype_is_integral(a->type.dtype) && !tpj_dtype_is_half(a->type.dtype)) return true;
    tpj_fail(e, TPJ_RUNTIME, "%s: Expected a floating point or complex tensor as input. Got %s", tpj_row(e)->name,
             tpj_dtype_name(a->type.dtype));
    return false;
}

static bool is_matrix(tpj_emit *e, const tpj_value *a, bool square) {
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
static tpj_value *flat_batch(tpj_hlo *h, tpj_value *a) {
    int rank = a->type.rank;
    int64_t dims[] = {tpj_product(a->type.dims, rank - 2), hlo_dim(a, -2), hlo_dim(a, -1)};
    return hlo_reshape(h, a, 3, dims);
}

/* x [batch, ..] with the batch dimensions of `like` ([.., rows, columns]) put back. */
static tpj_value *unflat_batch(tpj_hlo *h, tpj_value *x, const tpj_value *like) {
    int n_batch = like->type.rank - 2, rank = n_batch + x->type.rank - 1;
    int64_t *dims = hlo_dims(h, rank);
    for (int d = 0; d < rank; d++) dims[d] = d < n_batch ? like->type.dims[d] : x->type.dims[d - n_batch + 1];
    return hlo_reshape(h, x, rank, dims);
}

/* Broadcasts the batch dimensions of two stacks of matrices to each other. */
static bool broadcast_batches(tpj_emit *e, tpj_value **a, tpj_value **b) {
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

static tpj_value *transposed(tpj_hlo *h, tpj_value *a, bool conjugate) {
    a = hlo_swap(h, a, a->type.rank - 1, a->type.rank - 2);
    return conjugate ? hlo_conj(h, a) : a;
}

static tpj_value *triangle(tpj_hlo *h, tpj_value *a, bool upper) {
    tpj_value *kept = tpj_band_mask(h, upper ? "GE" : "LE", a->type.rank, a->type.dims, 0);
    return hlo_select(h, kept, a, hlo_number(h, a->type.dtype, 0));
}

static tpj_value *identity_like(tpj_hlo *h, const tpj_value *a, tpj_dtype dtype) {
    return hlo_convert(h, tpj_band_mask(h, "EQ", a->type.rank, a->type.dims, 0), dtype);
}

/* The diagonals of [batch, m, n]: [batch, min(m, n)]. */
static tpj_value *diagonals(tpj_hlo *h, tpj_value *a) {
    int64_t m = hlo_dim(a, 1), n = hlo_dim(a, 2), k = m < n ? m : n, dims[] = {hlo_dim(a, 0), m * n};
    return hlo_slice_dim(h, hlo_reshape(h, a, 2, dims), 1, 0, k > 0 ? (k - 1) * (n + 1) + 1 : 0, n + 1);
}

/* ---- Cholesky and triangular solves ---- */

static void emit_cholesky_ex(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a = tpj_in(e, "self");
    if (!is_matrix(e, a, true)) return;
    bool upper = tpj_bool(e, "upper", false);
    tpj_value *factor = triangle(h, hlo_cholesky(h, a, !upper), upper);
    tpj_out(e, factor);
    /* a matrix that is not positive definite leaves NaN on the diagonal: info is the first place, counted from 1 */
    tpj_value *diagonal = hlo_real(h, diagonals(h, flat_batch(h, factor)));
    int64_t n = hlo_dim(diagonal, 1), last = 1;
    tpj_value *place = hlo_iota(h, TPJ_I32, 2, diagonal->type.dims, 1), *none = hlo_integer(h, TPJ_I32, n);
    place = hlo_select(h, hlo_is_nan(h, diagonal), place, none);
    tpj_value *first = hlo_reduce(h, "minimum", place, none, &last, 1);
    tpj_value *info = hlo_select(h, hlo_compare(h, "EQ", first, none), hlo_integer(h, TPJ_I32, 0),
                                 hlo_add(h, first, hlo_integer(h, TPJ_I32, 1)));
    tpj_out(e, unflat_batch(h, info, a));
}

/* Matrices that are solved against: square, same dtype, matching sizes. `left`: A X = B, else X A = B. */
static bool solvable(tpj_emit *e, const tpj_value *a, const tpj_value *b, bool left) {
    if (!is_matrix(e, a, true) || !is_matrix(e, b, false)) return false;
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

static void emit_solve_triangular(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a = tpj_in(e, "self"), *b = tpj_in(e, "B");
    bool left = tpj_bool(e, "left", true), upper = tpj_bool(e, "upper", false);
    if (!solvable(e, a, b, left) || !broadcast_batches(e, &a, &b)) return;
    bool unit = tpj_bool(e, "unitriangular", false);
    tpj_out(e, hlo_triangular_solve(h, a, b, left, !upper, unit, "NO_TRANSPOSE"));
}

static void emit_triangular_solve(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *b = tpj_in(e, "self"), *a = tpj_in(e, "A");
    if (!solvable(e, a, b, true) || !broadcast_batches(e, &a, &b)) return;
    bool upper = tpj_bool(e, "upper", true), unit = tpj_bool(e, "unitriangular", false);
    const char *transpose = tpj_bool(e, "transpose", false) ? "TRANSPOSE" : "NO_TRANSPOSE";
    tpj_out(e, hlo_triangular_solve(h, a, b, true, !upper, unit, transpose));
    tpj_out(e, a);
}

/* A X = B for A = L L^H (or U^H U). */
static tpj_value *solve_cholesky(tpj_hlo *h, tpj_value *factor, tpj_value *b, bool upper) {
    const char *first = upper ? "ADJOINT" : "NO_TRANSPOSE", *second = upper ? "NO_TRANSPOSE" : "ADJOINT";
    b = hlo_triangular_solve(h, factor, b, true, !upper, false, first);
    return hlo_triangular_solve(h, factor, b, true, !upper, false, second);
}

static void emit_cholesky_solve(tpj_emit *e) {
    tpj_value *b = tpj_in(e, "self"), *factor = tpj_in(e, "input2");
    if (!solvable(e, factor, b, true) || !broadcast_batches(e, &factor, &b)) return;
    tpj_out(e, solve_cholesky(tpj_builder(e), factor, b, tpj_bool(e, "upper", false)));
}

static void emit_cholesky_inverse(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *factor = tpj_in(e, "self");
    if (!is_matrix(e, factor, true)) return;
    tpj_value *identity = identity_like(h, factor, factor->type.dtype);
    tpj_out(e, solve_cholesky(h, factor, identity, tpj_bool(e, "upper", false)));
}

/* ---- LU with partial pivoting ---- */

/* The state of the elimination: [batch, m, n] and so on; what is done so far is in the first `column` columns. */
enum { LU_COLUMN, LU_MATRIX, LU_PIVOTS, LU_ORDER, LU_INFO, LU_STATES };

typedef struct lu {
    tpj_value *matrix; /* [batch, m, n]: L below the diagonal (its ones left out), U above */
    tpj_value *pivots; /* I32[batch, k], counted from 1: the row that was swapped with row i */
    tpj_value *order;  /* I32[batch, m]: the row of A that came to row i */
    tpj_value *info;   /* I32[batch]: the first zero pivot, counted from 1; 0 when there is none */
    bool pivot;
} lu;

static void lu_continues(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    results[0] = hlo_compare(h, "LT", arguments[LU_COLUMN], hlo_integer(h, TPJ_I32, hlo_dim(arguments[LU_PIVOTS], 1)));
}

/* x [batch] or [batch, m] repeated to dims, its dimensions going to `at`. */
static tpj_value *spread(tpj_hlo *h, tpj_value *x, int rank, const int64_t *dims, int64_t at) {
    int64_t mapping[] = {0, at};
    return hlo_broadcast_in_dim(h, x, rank, dims, mapping);
}

/* `x` with its elements (or rows) at `place` and at `other` exchanged along dimension 1. */
static tpj_value *exchange(tpj_hlo *h, tpj_value *x, tpj_value *place, tpj_value *other, tpj_value *at_place,
                           tpj_value *at_other) {
    int rank = x->type.rank;
    const int64_t *dims = x->type.dims;
    tpj_value *row = hlo_iota(h, TPJ_I32, rank, dims, 1);
    tpj_value *is_place = hlo_compare(h, "EQ", row, place);
    tpj_value *is_other = hlo_compare(h, "EQ", row, spread(h, other, rank, dims, 0));
    x = hlo_select(h, is_other, hlo_expand(h, at_place, rank, dims), x);
    return hlo_select(h, is_place, hlo_expand(h, at_other, rank, dims), x);
}

/* The slice at row `place` (a scalar) of [batch, m] or [batch, m, n], dimension 1 kept with size 1. */
static tpj_value *row_at(tpj_hlo *h, tpj_value *x, tpj_value *place) {
    tpj_value *zero = hlo_integer(h, TPJ_I32, 0), *starts[] = {zero, place, zero};
    return hlo_dynamic_slice(h, x, starts, tpj_dims_with(h, x, 1, 1));
}

/* The same where each batch has a row of its own; `other`: I32[batch]. */
static tpj_value *row_at_each(tpj_hlo *h, tpj_value *x, tpj_value *other) {
    int64_t *dims = tpj_dims_with(h, x, 1, 1);
    return hlo_take_along(h, x, spread(h, other, x->type.rank, dims, 0), 1);
}

/* What pivots are chosen by, as LAPACK does: |re| + |im|. */
static tpj_value *pivot_size(tpj_hlo *h, tpj_value *x) {
    if (!tpj_dtype_is_complex(x->type.dtype)) return hlo_abs(h, x);
    return hlo_add(h, hlo_abs(h, hlo_real(h, x)), hlo_abs(h, hlo_imag(h, x)));
}

static void lu_eliminate(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    const lu *f = context;
    tpj_value *k = arguments[LU_COLUMN], *a = arguments[LU_MATRIX], *zero = hlo_integer(h, TPJ_I32, 0);
    int64_t batch = hlo_dim(a, 0), m = hlo_dim(a, 1), column_dims[] = {batch, m}, column_sizes[] = {batch, m, 1};
    tpj_value *column_start[] = {zero, zero, k}, *other;
    tpj_value *column = hlo_reshape(h, hlo_dynamic_slice(h, a, column_start, column_sizes), 2, column_dims);
    tpj_value *row = hlo_iota(h, TPJ_I32, 2, column_dims, 1);
    if (f->pivot) {
        tpj_value *size = pivot_size(h, column), *done = hlo_compare(h, "LT", row, k);
        size = hlo_select(h, done, hlo_number(h, size->type.dtype, -1), size);
        hlo_arg_reduce(h, true, size, 1, NULL, &other);
    } else {
        other = hlo_broadcast_in_dim(h, k, 1, &batch, NULL);
    }
    tpj_value *order = arguments[LU_ORDER];
    a = exchange(h, a, k, other, row_at(h, a, k), row_at_each(h, a, other));
    order = exchange(h, order, k, other, row_at(h, order, k), row_at_each(h, order, other));
    tpj_value *pivot_row = row_at(h, a, k); /* [batch, 1, n] */
    column = hlo_reshape(h, hlo_dynamic_slice(h, a, column_start, column_sizes), 2, column_dims);
    tpj_value *pivot = hlo_flatten(h, row_at(h, column, k)); /* [batch] */
    tpj_value *no_pivot = hlo_compare(h, "EQ", pivot, hlo_number(h, pivot->type.dtype, 0));
    tpj_value *below = hlo_and(h, hlo_compare(h, "GT", row, k), hlo_not(h, spread(h, no_pivot, 2, column_dims, 0)));
    tpj_value *factor = hlo_div(h, column, spread(h, pivot, 2, column_dims, 0));
    factor = hlo_select(h, below, factor, hlo_number(h, factor->type.dtype, 0));
    const int64_t *dims = a->type.dims;
    tpj_value *each_factor = spread(h, factor, 3, dims, 1), *each_column = hlo_iota(h, TPJ_I32, 3, dims, 2);
    tpj_value *reduced = hlo_sub(h, a, hlo_mul(h, each_factor, hlo_expand(h, pivot_row, 3, dims)));
    tpj_value *is_below = spread(h, below, 3, dims, 1);
    reduced = hlo_select(h, hlo_compare(h, "EQ", each_column, k), each_factor, reduced);
    reduced = hlo_select(h, hlo_and(h, is_below, hlo_compare(h, "GE", each_column, k)), reduced, a);
    tpj_value *next = hlo_add(h, k, hlo_integer(h, TPJ_I32, 1)), *starts[] = {zero, k};
    int64_t one_column[] = {batch, 1};
    tpj_value *swapped = hlo_reshape(h, hlo_add(h, other, hlo_integer(h, TPJ_I32, 1)), 2, one_column);
    tpj_value *is_first = hlo_and(h, no_pivot, hlo_compare(h, "EQ", arguments[LU_INFO], zero));
    results[LU_COLUMN] = next;
    results[LU_MATRIX] = reduced;
    results[LU_PIVOTS] = hlo_dynamic_update_slice(h, arguments[LU_PIVOTS], swapped, starts);
    results[LU_ORDER] = order;
    results[LU_INFO] = hlo_select(h, is_first, next, arguments[LU_INFO]);
}

/* a: [batch, m, n] */
static lu factorize(tpj_hlo *h, tpj_value *a, bool pivot) {
    int64_t batch = hlo_dim(a, 0), m = hlo_dim(a, 1), n = hlo_dim(a, 2);
    int64_t pivots[] = {batch, m < n ? m : n}, rows[] = {batch, m};
    lu f = {.matrix = a, .pivot = pivot};
    f.pivots = hlo_zeros(h, TPJ_I32, 2, pivots);
    f.order = hlo_iota(h, TPJ_I32, 2, rows, 1);
    f.info = hlo_zeros(h, TPJ_I32, 1, &batch);
    if (hlo_elements(a) == 0) return f;
    tpj_value *initial[LU_STATES] = {hlo_integer(h, TPJ_I32, 0), a, f.pivots, f.order, f.info}, *final[LU_STATES];
    hlo_while(h, initial, LU_STATES, lu_continues, lu_eliminate, &f, final);
    f.matrix = final[LU_MATRIX];
    f.pivots = final[LU_PIVOTS];
    f.order = final[LU_ORDER];
    f.info = final[LU_INFO];
    return f;
}

static bool read_lu(tpj_emit *e, bool square, bool pivot, tpj_value **out_a, lu *out) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a = tpj_in(e, "A");
    if (!is_matrix(e, a, square)) return false;
    *out_a = a;
    *out = factorize(h, flat_batch(h, a), pivot);
    return true;
}

static void emit_lu_factor_ex(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a;
    lu f;
    if (!read_lu(e, false, tpj_bool(e, "pivot", true), &a, &f)) return;
    tpj_out(e, unflat_batch(h, f.matrix, a));
    tpj_out(e, unflat_batch(h, f.pivots, a));
    tpj_out(e, unflat_batch(h, f.info, a));
}

/* B [batch, m, k] with its rows in the order that the pivots give. */
static tpj_value *reorder_rows(tpj_hlo *h, tpj_value *order, tpj_value *b) {
    if (hlo_elements(b) == 0) return b;
    return hlo_take_along(h, b, spread(h, order, 3, b->type.dims, 1), 1);
}

/* A X = B, everything [batch, .., ..]. */
static tpj_value *solve_with(tpj_hlo *h, const lu *f, tpj_value *b) {
    b = hlo_triangular_solve(h, f->matrix, reorder_rows(h, f->order, b), true, true, true, "NO_TRANSPOSE");
    return hlo_triangular_solve(h, f->matrix, b, true, false, false, "NO_TRANSPOSE");
}

static void emit_inv_ex(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a;
    lu f;
    if (!read_lu(e, true, true, &a, &f)) return;
    tpj_out(e, unflat_batch(h, solve_with(h, &f, identity_like(h, f.matrix, a->type.dtype)), a));
    tpj_out(e, unflat_batch(h, f.info, a));
}

/* B counts as a stack of vectors when it has A's batch dimensions and one more. */
static bool is_vector_stack(const tpj_value *a, const tpj_value *b) {
    int rank = a->type.rank;
    if (b->type.rank == 1) return true;
    if (b->type.rank != rank - 1) return false;
    for (int d = 0; d < rank - 1; d++) {
        if (a->type.dims[d] != b->type.dims[d]) return false;
    }
    return true;
}

static void emit_solve_ex(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a = tpj_in(e, "A"), *b = tpj_in(e, "B");
    bool left = tpj_bool(e, "left", true);
    if (!is_matrix(e, a, true)) return;
    bool vector = is_vector_stack(a, b);
    if (vector) b = hlo_unsqueeze(h, b, b->type.rank);
    if (!solvable(e, a, b, left)) return;
    tpj_value *given = a;
    if (!broadcast_batches(e, &a, &b)) return;
    tpj_value *rhs = left ? b : transposed(h, b, false), *matrix = left ? a : transposed(h, a, false);
    lu f = factorize(h, flat_batch(h, matrix), true);
    tpj_value *x = unflat_batch(h, solve_with(h, &f, flat_batch(h, rhs)), b);
    if (!left) x = transposed(h, x, false);
    tpj_out(e, vector ? hlo_squeeze(h, x, x->type.rank - 1) : x);
    lu own = given == a && left ? f : factorize(h, flat_batch(h, given), true); /* what backward reads: A's own */
    tpj_out(e, unflat_batch(h, own.matrix, given));
    tpj_out(e, unflat_batch(h, own.pivots, given));
    tpj_out(e, unflat_batch(h, own.info, given));
}

/* +1 or -1 a batch: the parity of the row swaps. */
static tpj_value *swap_sign(tpj_hlo *h, const lu *f, tpj_dtype dtype) {
    tpj_value *own = hlo_add(h, hlo_iota(h, TPJ_I32, 2, f->pivots->type.dims, 1), hlo_integer(h, TPJ_I32, 1));
    tpj_value *swaps = hlo_convert(h, hlo_compare(h, "NE", f->pivots, own), TPJ_I32);
    tpj_value *odd = hlo_and(h, hlo_reduce_dim(h, "add", swaps, 1), hlo_integer(h, TPJ_I32, 1));
    tpj_value *is_odd = hlo_compare(h, "EQ", odd, hlo_integer(h, TPJ_I32, 1));
    return hlo_select(h, is_odd, hlo_number(h, dtype, -1), hlo_full(h, dtype, 1, is_odd->type.dims, 1));
}

static void emit_det(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a;
    lu f;
    if (!read_lu(e, true, true, &a, &f)) return;
    tpj_value *product = hlo_reduce_dim(h, "multiply", diagonals(h, f.matrix), 1);
    tpj_out(e, unflat_batch(h, hlo_mul(h, product, swap_sign(h, &f, a->type.dtype)), a));
    tpj_out(e, unflat_batch(h, f.matrix, a));
    tpj_out(e, unflat_batch(h, f.pivots, a));
}

static void emit_slogdet(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a;
    lu f;
    if (!read_lu(e, true, true, &a, &f)) return;
    tpj_value *diagonal = diagonals(h, f.matrix);
    tpj_value *sign = hlo_reduce_dim(h, "multiply", hlo_unary(h, "sign", diagonal), 1);
    tpj_out(e, unflat_batch(h, hlo_mul(h, sign, swap_sign(h, &f, a->type.dtype)), a));
    tpj_out(e, unflat_batch(h, hlo_reduce_dim(h, "add", hlo_log(h, hlo_abs(h, diagonal)), 1), a));
    tpj_out(e, unflat_batch(h, f.matrix, a));
    tpj_out(e, unflat_batch(h, f.pivots, a));
}

/* The first k columns / rows of [batch, m, n]. */
static tpj_value *first_columns(tpj_hlo *h, tpj_value *a, int64_t k) { return hlo_slice_dim(h, a, 2, 0, k, 1); }
static tpj_value *first_rows(tpj_hlo *h, tpj_value *a, int64_t k) { return hlo_slice_dim(h, a, 1, 0, k, 1); }

/* P[order[i], i] = 1: [batch, m, m] */
static tpj_value *permutation_matrix(tpj_hlo *h, tpj_value *order, tpj_dtype dtype) {
    int64_t m = hlo_dim(order, 1), dims[] = {hlo_dim(order, 0), m, m};
    tpj_value *row = hlo_iota(h, TPJ_I32, 3, dims, 1);
    return hlo_convert(h, hlo_compare(h, "EQ", row, spread(h, order, 3, dims, 2)), dtype);
}

static void out_empty(tpj_emit *e, tpj_dtype dtype) {
    static const int64_t none = 0;
    tpj_out(e, hlo_zeros(tpj_builder(e), dtype, 1, &none));
}

/* L with its ones, and U, out of the packed matrix [batch, m, n]. `like`: has the batch dimensions. */
static void out_l_and_u(tpj_emit *e, tpj_value *packed, const tpj_value *like) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = packed->type.dtype;
    int64_t m = hlo_dim(packed, 1), n = hlo_dim(packed, 2), k = m < n ? m : n;
    tpj_value *l = first_columns(h, packed, k);
    tpj_value *strict = hlo_select(h, tpj_band_mask(h, "LT", 3, l->type.dims, 0), l, hlo_number(h, dtype, 0));
    tpj_out(e, unflat_batch(h, hlo_add(h, strict, identity_like(h, l, dtype)), like));
    tpj_out(e, unflat_batch(h, triangle(h, first_rows(h, packed, k), true), like));
}

static void emit_lu(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a;
    lu f;
    bool pivot = tpj_bool(e, "pivot", true);
    if (!read_lu(e, false, pivot, &a, &f)) return;
    if (pivot) {
        tpj_out(e, unflat_batch(h, permutation_matrix(h, f.order, a->type.dtype), a));
    } else {
        out_empty(e, a->type.dtype);
    }
    out_l_and_u(e, f.matrix, a);
}

/* ---- factors given: lu_unpack and lu_solve ---- */

enum { SWAP_ROW, SWAP_PIVOTS, SWAP_ORDER, SWAP_STATES };

static void swaps_remain(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    results[0] = hlo_compare(h, "LT", arguments[SWAP_ROW], hlo_integer(h, TPJ_I32, hlo_dim(arguments[SWAP_PIVOTS], 1)));
}

static void swap_next(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    tpj_value *k = arguments[SWAP_ROW], *pivots = arguments[SWAP_PIVOTS], *order = arguments[SWAP_ORDER];
    tpj_value *other = hlo_sub(h, hlo_flatten(h, row_at(h, pivots, k)), hlo_integer(h, TPJ_I32, 1));
    results[SWAP_ROW] = hlo_add(h, k, hlo_integer(h, TPJ_I32, 1));
    results[SWAP_PIVOTS] = pivots;
    results[SWAP_ORDER] = exchange(h, order, k, other, row_at(h, order, k), row_at_each(h, order, other));
}

/* The order of m rows that pivots [batch, k] lead to. */
static tpj_value *order_of_pivots(tpj_hlo *h, tpj_value *pivots, int64_t m) {
    int64_t dims[] = {hlo_dim(pivots, 0), m};
    tpj_value *initial[] = {hlo_integer(h, TPJ_I32, 0), pivots, hlo_iota(h, TPJ_I32, 2, dims, 1)}, *final[SWAP_STATES];
    if (hlo_elements(pivots) == 0) return initial[SWAP_ORDER];
    hlo_while(h, initial, SWAP_STATES, swaps_remain, swap_next, NULL, final);
    return final[SWAP_ORDER];
}

/* Pivots [.., k] as I32[batch, k]. */
static tpj_value *read_pivots(tpj_emit *e, const char *name) {
    tpj_value *pivots = tpj_in_as(e, name, TPJ_I32);
    int rank = pivots->type.rank;
    if (rank == 0) return tpj_at_least_1d(tpj_builder(e), pivots);
    int64_t dims[] = {tpj_product(pivots->type.dims, rank - 1), hlo_dim(pivots, -1)};
    return hlo_reshape(tpj_builder(e), pivots, 2, dims);
}

static void emit_lu_unpack(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *packed = tpj_in(e, "LU_data"), *pivots = read_pivots(e, "LU_pivots");
    if (!is_matrix(e, packed, false)) return;
    tpj_dtype dtype = packed->type.dtype;
    if (tpj_bool(e, "unpack_pivots", true)) {
        tpj_value *order = order_of_pivots(h, pivots, hlo_dim(packed, -2));
        tpj_out(e, unflat_batch(h, permutation_matrix(h, order, dtype), packed));
    } else {
        out_empty(e, dtype);
    }
    if (tpj_bool(e, "unpack_data", true)) {
        out_l_and_u(e, flat_batch(h, packed), packed);
    } else {
        out_empty(e, dtype);
        out_empty(e, dtype);
    }
}

/* A X = B, or A^H X = B, for A = P L U; everything [batch, .., ..]. */
static tpj_value *solve_factors(tpj_hlo *h, tpj_value *packed, tpj_value *order, tpj_value *b, bool adjoint) {
    if (!adjoint) return solve_with(h, &(lu){.matrix = packed, .order = order}, b);
    b = hlo_triangular_solve(h, packed, b, true, false, false, "ADJOINT");
    b = hlo_triangular_solve(h, packed, b, true, true, true, "ADJOINT");
    tpj_value *sorted, *inverse;
    tpj_sort(h, order, 1, false, &sorted, &inverse);
    return reorder_rows(h, inverse, b);
}

static void emit_lu_solve(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *packed = tpj_in(e, "LU"), *b = tpj_in(e, "B"), *pivots = tpj_in_as(e, "pivots", TPJ_I32);
    bool left = tpj_bool(e, "left", true), adjoint = tpj_bool(e, "adjoint", false);
    if (!solvable(e, packed, b, left)) return;
    pivots = hlo_unsqueeze(h, pivots, pivots->type.rank); /* takes part in the broadcast as columns */
    tpj_value *other = b;
    if (!broadcast_batches(e, &packed, &b) || !broadcast_batches(e, &pivots, &other)) return;
    /* X A = B is A^H X^H = B^H */
    tpj_value *rhs = left ? b : transposed(h, b, true), *columns = flat_batch(h, pivots);
    tpj_value *order = order_of_pivots(h, hlo_squeeze(h, columns, 2), hlo_dim(packed, -2));
    tpj_value *x = unflat_batch(
        h, solve_factors(h, flat_batch(h, packed), order, flat_batch(h, rhs), left ? adjoint : !adjoint), b);
    tpj_out(e, left ? x : transposed(h, x, true));
}

/* ---- QR ---- */

/* XLA's QR of [batch, m, n]: reflectors below the diagonal, R on and above it; their factors [batch, min(m, n)]. */
static void reflect(tpj_hlo *h, tpj_value *a, tpj_value *out_packed[2]) {
    int64_t m = hlo_dim(a, 1), n = hlo_dim(a, 2), taus[] = {hlo_dim(a, 0), m < n ? m : n};
    tpj_type types[] = {a->type, {a->type.dtype, 2, taus}};
    if (hlo_elements(a) > 0) {
        hlo_op(h, "custom_call", &a, 1, "call_target_name = \"Qr\"", types, 2, out_packed);
        return;
    }
    out_packed[0] = a;
    out_packed[1] = hlo_zeros(h, a->type.dtype, 2, taus);
}

/* The first `columns` columns of the product of reflectors, [batch, m, columns]. */
static tpj_value *product_of_reflectors(tpj_hlo *h, tpj_value *reflectors, tpj_value *taus, int64_t columns) {
    tpj_dtype dtype = reflectors->type.dtype;
    int64_t dims[] = {hlo_dim(reflectors, 0), hlo_dim(reflectors, 1), columns}, n = hlo_dim(reflectors, 2);
    if (columns > n) reflectors = hlo_pad_dim(h, reflectors, hlo_number(h, dtype, 0), 2, 0, columns - n);
    if (tpj_product(dims, 3) == 0 || hlo_elements(taus) == 0) {
        return identity_like(h, hlo_zeros(h, dtype, 3, dims), dtype);
    }
    tpj_value *operands[] = {reflectors, taus};
    return hlo_op1(h, "custom_call", operands, 2, "call_target_name = \"ProductOfElementaryHouseholderReflectors\"",
                   dtype, 3, dims);
}

static void emit_qr(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *given = tpj_in(e, "A");
    if (!is_matrix(e, given, false)) return;
    const char *mode = tpj_string(e, "mode", "reduced");
    bool complete = mode[0] == 'c', only_r = mode[0] == 'r' && mode[1] == '\0';
    tpj_value *a = flat_batch(h, given);
    tpj_dtype dtype = a->type.dtype;
    int64_t batch = hlo_dim(a, 0), m = hlo_dim(a, 1), n = hlo_dim(a, 2), k = m < n ? m : n;
    int64_t rows = complete ? m : k, q_dims[] = {batch, m, rows}, r_dims[] = {batch, rows, n};
    if (hlo_elements(a) == 0) {
        if (only_r) {
            out_empty(e, dtype);
        } else {
            tpj_out(e, unflat_batch(h, identity_like(h, hlo_zeros(h, dtype, 3, q_dims), dtype), given));
        }
        tpj_out(e, unflat_batch(h, hlo_zeros(h, dtype, 3, r_dims), given));
        return;
    }
    tpj_value *packed[2];
    reflect(h, a, packed);
    tpj_value *r = first_rows(h, packed[0], rows);
    if (only_r) {
        out_empty(e, dtype);
    } else { /* the reflectors lie below the diagonal, in as many columns as Q has */
        tpj_value *reflectors = first_columns(h, packed[0], rows < n ? rows : n);
        tpj_out(e, unflat_batch(h, product_of_reflectors(h, reflectors, packed[1], rows), given));
    }
    tpj_out(e, unflat_batch(h, triangle(h, r, true), given));
}

static void emit_geqrf(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a = tpj_in(e, "self"), *packed[2];
    if (!is_matrix(e, a, false)) return;
    reflect(h, flat_batch(h, a), packed);
    tpj_out(e, unflat_batch(h, packed[0], a));
    tpj_out(e, unflat_batch(h, packed[1], a));
}

/* Reflectors [.., m, n] and tau [.., k], k <= n, flattened: Q with `columns` columns. */
static tpj_value *read_reflectors(tpj_emit *e, const char *name, int64_t columns) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a = flat_batch(h, tpj_in(e, name)), *tau = tpj_in(e, "tau");
    int64_t taus[] = {hlo_dim(a, 0), hlo_dim(tau, -1)};
    return product_of_reflectors(h, a, hlo_reshape(h, tau, 2, taus), columns);
}

static bool reflectors_ok(tpj_emit *e, const char *name) {
    tpj_type a = tpj_in_type(e, name), tau = tpj_in_type(e, "tau");
    bool fits = a.rank >= 2 && tau.rank == a.rank - 1 && a.dims[a.rank - 2] >= a.dims[a.rank - 1] &&
                tau.dims[tau.rank - 1] <= a.dims[a.rank - 1] && a.dtype == tau.dtype;
    if (!fits) {
        tpj_fail(e, TPJ_RUNTIME,
                 "%s: input must be tall matrices of reflectors, with a tau of the same dtype, one number a reflector",
                 tpj_row(e)->name);
    }
    return fits;
}

static void emit_householder_product(tpj_emit *e) {
    if (!reflectors_ok(e, "input")) return;
    tpj_value *like = tpj_in(e, "input");
    tpj_out(e, unflat_batch(tpj_builder(e), read_reflectors(e, "input", hlo_dim(like, -1)), like));
}

/* Q or its adjoint, times other from the left or the right. */
static void emit_ormqr(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *like = tpj_in(e, "self"), *other = tpj_in(e, "input3");
    tpj_value *tau = tpj_in(e, "input2");
    if (!is_matrix(e, like, false) || !is_matrix(e, other, false)) return;
    bool left = tpj_bool(e, "left", true), transpose = tpj_bool(e, "transpose", false);
    int64_t m = hlo_dim(like, -2), taus[] = {tpj_product(like->type.dims, like->type.rank - 2), hlo_dim(tau, -1)};
    if (hlo_dim(other, left ? -2 : -1) != m || tau->type.rank != like->type.rank - 1) {
        tpj_fail(e, TPJ_RUNTIME, "ormqr: other.shape[%d] must be equal to input.shape[-2]", left ? -2 : -1);
        return;
    }
    tpj_value *q = product_of_reflectors(h, flat_batch(h, like), hlo_reshape(h, tau, 2, taus), m);
    if (transpose) q = transposed(h, q, true);
    tpj_value *x = flat_batch(h, other),
              *y = left ? hlo_matmul(h, q, x, x->type.dtype) : hlo_matmul(h, x, q, x->type.dtype);
    tpj_out(e, unflat_batch(h, y, other));
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
        parts[i] = hlo_sub(h, hlo_mul(h, xj, yk), hlo_mul(h, xk, yj));
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
    {.name = "linalg_lu_factor_ex", .params = "T A, B pivot=True", .emit = emit_lu_factor_ex},
    {.name = "linalg_lu", .params = "T A, B pivot=True", .emit = emit_lu},
    {.name = "lu_unpack",
     .params = "T LU_data, T LU_pivots, B unpack_data=True, B unpack_pivots=True",
     .emit = emit_lu_unpack},
    {.name = "linalg_lu_solve", .params = "T LU, T pivots, T B, B left=True, B adjoint=False", .emit = emit_lu_solve},
    {.name = "linalg_inv_ex", .params = "T A", .emit = emit_inv_ex},
    {.name = "_linalg_solve_ex", .params = "T A, T B, B left=True", .emit = emit_solve_ex},
    {.name = "_linalg_det", .params = "T A", .emit = emit_det},
    {.name = "_linalg_slogdet", .params = "T A", .emit = emit_slogdet},
    {.name = "linalg_qr", .params = "T A, Str mode=reduced", .emit = emit_qr},
    {.name = "geqrf", .params = "T self", .emit = emit_geqrf},
    {.name = "linalg_householder_product", .params = "T input, T tau", .emit = emit_householder_product},
    {.name = "ormqr", .params = "T self, T input2, T input3, B left=True, B transpose=False", .emit = emit_ormqr},
    {.name = "linalg_cross", .params = "T self, T other, I dim=-1", .emit = emit_cross},
    {0},
};
