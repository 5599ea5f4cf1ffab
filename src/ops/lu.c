/* LU with partial pivoting and what follows from it: solve, inverse, determinants. Batches are flattened to one
 * dimension inside. */
#include "ops/matrices.h"

/* ---- elimination ---- */

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

/* `x` with its elements (or rows) at `place` and at `other` exchanged along dimension 1. */
static tpj_value *exchange(tpj_hlo *h, tpj_value *x, tpj_value *place, tpj_value *other, tpj_value *at_place,
                           tpj_value *at_other) {
    int rank = x->type.rank;
    const int64_t *dims = x->type.dims;
    tpj_value *row = hlo_iota(h, TPJ_I32, rank, dims, 1);
    tpj_value *is_place = hlo_compare(h, "EQ", row, place);
    tpj_value *is_other = hlo_compare(h, "EQ", row, tpj_spread(h, other, rank, dims, 0));
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
    return hlo_take_along(h, x, tpj_spread(h, other, x->type.rank, dims, 0), 1);
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
    tpj_value *below = hlo_and(h, hlo_compare(h, "GT", row, k), hlo_not(h, tpj_spread(h, no_pivot, 2, column_dims, 0)));
    tpj_value *factor = hlo_div(h, column, tpj_spread(h, pivot, 2, column_dims, 0));
    factor = hlo_select(h, below, factor, hlo_number(h, factor->type.dtype, 0));
    const int64_t *dims = a->type.dims;
    tpj_value *each_factor = tpj_spread(h, factor, 3, dims, 1), *each_column = hlo_iota(h, TPJ_I32, 3, dims, 2);
    tpj_value *reduced = hlo_sub(h, a, hlo_mul(h, each_factor, hlo_expand(h, pivot_row, 3, dims)));
    tpj_value *is_below = tpj_spread(h, below, 3, dims, 1);
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
    if (!tpj_is_matrix(e, a, square)) return false;
    *out_a = a;
    *out = factorize(h, tpj_flat_batch(h, a), pivot);
    return true;
}

static void emit_lu_factor_ex(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a;
    lu f;
    if (!read_lu(e, false, tpj_bool(e, "pivot", true), &a, &f)) return;
    tpj_out_columns(e, tpj_unflat_batch(h, f.matrix, a));
    tpj_out(e, tpj_unflat_batch(h, f.pivots, a));
    tpj_out(e, tpj_unflat_batch(h, f.info, a));
}

/* B [batch, m, k] with its rows in the order that the pivots give. */
static tpj_value *reorder_rows(tpj_hlo *h, tpj_value *order, tpj_value *b) {
    if (hlo_elements(b) == 0) return b;
    return tpj_rows_at(h, b, order);
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
    tpj_out_columns(e, tpj_unflat_batch(h, solve_with(h, &f, tpj_identity_like(h, f.matrix, a->type.dtype)), a));
    tpj_out(e, tpj_unflat_batch(h, f.info, a));
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
    if (!tpj_is_matrix(e, a, true)) return;
    bool vector = is_vector_stack(a, b);
    if (vector) b = hlo_unsqueeze(h, b, b->type.rank);
    if (!tpj_solvable(e, a, b, left)) return;
    tpj_value *given = a;
    if (!tpj_broadcast_batches(e, &a, &b)) return;
    tpj_value *rhs = left ? b : tpj_transposed(h, b, false), *matrix = left ? a : tpj_transposed(h, a, false);
    lu f = factorize(h, tpj_flat_batch(h, matrix), true);
    tpj_value *x = tpj_unflat_batch(h, solve_with(h, &f, tpj_flat_batch(h, rhs)), b);
    if (!left) x = tpj_transposed(h, x, false);
    if (vector) x = hlo_squeeze(h, x, x->type.rank - 1);
    if (left) {
        tpj_out_columns(e, x); /* vectors too: the CPU swaps their last two strides like those of matrices */
    } else {
        tpj_out(e, x);
    }
    lu own = given == a && left ? f : factorize(h, tpj_flat_batch(h, given), true); /* what backward reads: A's own */
    tpj_out_columns(e, tpj_unflat_batch(h, own.matrix, given));
    tpj_out(e, tpj_unflat_batch(h, own.pivots, given));
    tpj_out(e, tpj_unflat_batch(h, own.info, given));
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
    tpj_value *product = hlo_reduce_dim(h, "multiply", tpj_diagonals(h, f.matrix), 1);
    tpj_out(e, tpj_unflat_batch(h, hlo_mul(h, product, swap_sign(h, &f, a->type.dtype)), a));
    tpj_out_columns(e, tpj_unflat_batch(h, f.matrix, a));
    tpj_out(e, tpj_unflat_batch(h, f.pivots, a));
}

static void emit_slogdet(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a;
    lu f;
    if (!read_lu(e, true, true, &a, &f)) return;
    tpj_value *diagonal = tpj_diagonals(h, f.matrix);
    tpj_value *sign = hlo_reduce_dim(h, "multiply", hlo_unary(h, "sign", diagonal), 1);
    tpj_out(e, tpj_unflat_batch(h, hlo_mul(h, sign, swap_sign(h, &f, a->type.dtype)), a));
    tpj_out(e, tpj_unflat_batch(h, hlo_reduce_dim(h, "add", hlo_log(h, hlo_abs(h, diagonal)), 1), a));
    tpj_out_columns(e, tpj_unflat_batch(h, f.matrix, a));
    tpj_out(e, tpj_unflat_batch(h, f.pivots, a));
}

/* P[order[i], i] = 1: [batch, m, m] */
static tpj_value *permutation_matrix(tpj_hlo *h, tpj_value *order, tpj_dtype dtype) {
    int64_t m = hlo_dim(order, 1), dims[] = {hlo_dim(order, 0), m, m};
    tpj_value *row = hlo_iota(h, TPJ_I32, 3, dims, 1);
    return hlo_convert(h, hlo_compare(h, "EQ", row, tpj_spread(h, order, 3, dims, 2)), dtype);
}

/* L with its ones, and U, out of the packed matrix [batch, m, n]. `like`: has the batch dimensions. */
static void out_l_and_u(tpj_emit *e, tpj_value *packed, const tpj_value *like) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = packed->type.dtype;
    int64_t m = hlo_dim(packed, 1), n = hlo_dim(packed, 2), k = m < n ? m : n;
    tpj_value *l = tpj_first_columns(h, packed, k);
    tpj_value *strict = hlo_select(h, tpj_band_mask(h, "LT", 3, l->type.dims, 0), l, hlo_number(h, dtype, 0));
    tpj_out(e, tpj_unflat_batch(h, hlo_add(h, strict, tpj_identity_like(h, l, dtype)), like));
    tpj_out(e, tpj_unflat_batch(h, tpj_triangle(h, tpj_first_rows(h, packed, k), true), like));
}

static void emit_lu(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a;
    lu f;
    bool pivot = tpj_bool(e, "pivot", true);
    if (!read_lu(e, false, pivot, &a, &f)) return;
    if (pivot) {
        tpj_out(e, tpj_unflat_batch(h, permutation_matrix(h, f.order, a->type.dtype), a));
    } else {
        tpj_out_empty(e, a->type.dtype);
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
    if (!tpj_is_matrix(e, packed, false)) return;
    tpj_dtype dtype = packed->type.dtype;
    if (tpj_bool(e, "unpack_pivots", true)) {
        tpj_value *order = order_of_pivots(h, pivots, hlo_dim(packed, -2));
        tpj_out(e, tpj_unflat_batch(h, permutation_matrix(h, order, dtype), packed));
    } else {
        tpj_out_empty(e, dtype);
    }
    if (tpj_bool(e, "unpack_data", true)) {
        out_l_and_u(e, tpj_flat_batch(h, packed), packed);
    } else {
        tpj_out_empty(e, dtype);
        tpj_out_empty(e, dtype);
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
    if (!tpj_solvable(e, packed, b, left)) return;
    pivots = hlo_unsqueeze(h, pivots, pivots->type.rank); /* takes part in the broadcast as columns */
    tpj_value *other = b;
    if (!tpj_broadcast_batches(e, &packed, &b) || !tpj_broadcast_batches(e, &pivots, &other)) return;
    /* X A = B is A^H X^H = B^H */
    tpj_value *rhs = left ? b : tpj_transposed(h, b, true), *columns = tpj_flat_batch(h, pivots);
    tpj_value *order = order_of_pivots(h, hlo_squeeze(h, columns, 2), hlo_dim(packed, -2));
    tpj_value *x = tpj_unflat_batch(
        h, solve_factors(h, tpj_flat_batch(h, packed), order, tpj_flat_batch(h, rhs), left ? adjoint : !adjoint), b);
    if (left) {
        tpj_out_columns(e, x);
    } else {
        tpj_out(e, tpj_transposed(h, x, true));
    }
}

const tpj_op_def tpj_ops_lu[] = {
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
    {0},
};
