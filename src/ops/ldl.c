/* L D L^T (or L D L^H) of symmetric and Hermitian matrices that need not be definite: diagonal pivoting of Bunch and Kaufman
 * (1977), in the form in which LAPACK's sytrf and hetrf leave it for the lower triangle.
 *
 * D has blocks of one or two rows. Which ones is up to the numbers, so that each matrix of a stack stands at a row of its own.
 * The matrix that is left is kept whole, not as a triangle: a symmetric exchange is then a reordering of rows and columns. */
#include "ops/matrices.h"

static const double alpha = 0.64038820320220756872; /* (1 + sqrt 17) / 8, which bounds the growth of elements */

enum { AT, REST, PACKED, PIVOTS, INFO, STATES };

/* ---- small parts: vectors are [batch, n], numbers [batch] ---- */

static tpj_value *places(tpj_hlo *h, const tpj_value *like) { return hlo_iota(h, TPJ_I32, 2, like->type.dims, 1); }

/* A number, or one number a matrix, repeated to the shape of a vector. */
static tpj_value *repeated(tpj_hlo *h, tpj_value *x, const tpj_value *like) {
    return x->type.rank == 0 ? x : tpj_spread(h, x, 2, like->type.dims, 0);
}

static tpj_value *compare_places(tpj_hlo *h, const char *direction, const tpj_value *like, tpj_value *place) {
    return hlo_compare(h, direction, places(h, like), repeated(h, place, like));
}

static tpj_value *as_column(tpj_hlo *h, tpj_value *place) { return hlo_unsqueeze(h, place, 1); }

static tpj_value *element_at(tpj_hlo *h, tpj_value *x, tpj_value *place) {
    return hlo_squeeze(h, hlo_take_along(h, x, as_column(h, place), 1), 1);
}

static tpj_value *row_at(tpj_hlo *h, tpj_value *a, tpj_value *place) {
    return hlo_squeeze(h, tpj_rows_at(h, a, as_column(h, place)), 1);
}

/* The places of a vector with two of them exchanged. */
static tpj_value *exchanged(tpj_hlo *h, const tpj_value *like, tpj_value *one, tpj_value *other) {
    tpj_value *is_one = compare_places(h, "EQ", like, one), *is_other = compare_places(h, "EQ", like, other);
    tpj_value *order = hlo_select(h, is_other, repeated(h, one, like), places(h, like));
    return hlo_select(h, is_one, repeated(h, other, like), order);
}

/* x[i] y[j] */
static tpj_value *outer(tpj_hlo *h, tpj_value *x, tpj_value *y, const tpj_value *like) {
    return hlo_mul(h, tpj_spread(h, x, 3, like->type.dims, 1), tpj_spread(h, y, 3, like->type.dims, 2));
}

/* What LAPACK compares elements by: |re| + |im|. */
static tpj_value *size_of(tpj_hlo *h, tpj_value *x) {
    if (!tpj_dtype_is_complex(x->type.dtype)) return hlo_abs(h, x);
    return hlo_add(h, hlo_abs(h, hlo_real(h, x)), hlo_abs(h, hlo_imag(h, x)));
}

/* ---- one step ---- */

typedef struct step {
    tpj_value *at, *exchange, *with; /* the row it stands at; the rows to be exchanged */
    tpj_value *is_double, *is_singular, *is_active;
} step;

static tpj_value *next_of(tpj_hlo *h, tpj_value *place) { return hlo_add(h, place, hlo_integer(h, TPJ_I32, 1)); }

static tpj_value *within(tpj_hlo *h, tpj_value *place, int64_t n) {
    return hlo_min(h, place, hlo_integer(h, TPJ_I32, n - 1));
}

/* Which pivot: the partial pivoting of Bunch and Kaufman. */
static step choose_pivot(tpj_hlo *h, tpj_value *rest, tpj_value *at) {
    int64_t n = hlo_dim(rest, 2);
    step s = {.at = at, .is_active = hlo_compare(h, "LT", at, hlo_integer(h, TPJ_I32, n))};
    tpj_value *row = size_of(h, row_at(h, rest, within(h, at, n))), *own = element_at(h, row, within(h, at, n));
    tpj_value *none = hlo_number(h, row->type.dtype, 0), *limit = hlo_number(h, row->type.dtype, alpha), *most, *where;
    hlo_arg_reduce(h, true, hlo_select(h, compare_places(h, "GT", row, at), row, none), 1, &most, &where);
    tpj_value *other = size_of(h, row_at(h, rest, where)), *other_own = element_at(h, other, where);
    tpj_value *counts = hlo_and(h, compare_places(h, "GE", other, at), compare_places(h, "NE", other, where));
    tpj_value *other_most = hlo_reduce_dim(h, "maximum", hlo_select(h, counts, other, none), 1);
    s.is_singular = hlo_or(h, hlo_is_nan(h, own), hlo_compare(h, "EQ", hlo_max(h, own, most), none));
    tpj_value *bound = hlo_mul(h, limit, most);
    tpj_value *stays = hlo_or(h, s.is_singular, hlo_compare(h, "GE", own, bound));
    stays = hlo_or(h, stays, hlo_compare(h, "GE", own, hlo_mul(h, bound, hlo_div(h, most, other_most))));
    stays = hlo_or(h, stays, hlo_not(h, s.is_active));
    tpj_value *is_single = hlo_or(h, stays, hlo_compare(h, "GE", other_own, hlo_mul(h, limit, other_most)));
    s.is_double = hlo_not(h, is_single);
    s.with = hlo_select(h, stays, at, where);
    s.exchange = hlo_select(h, s.is_double, next_of(h, at), at);
    return s;
}

typedef struct block { /* of D, with rows x and y of the matrix that is left, and the columns of L below it */
    tpj_value *d11, *d21, *d12, *d22, *x, *y, *l1, *l2;
} block;

/* Eliminates with a pivot of one row, or of two: [l1 l2] = [columns of x and y] D^-1. */
static block eliminate(tpj_hlo *h, const step *s, tpj_value *rest, bool hermitian) {
    int64_t n = hlo_dim(rest, 2);
    tpj_value *first = within(h, s->at, n), *second = within(h, next_of(h, s->at), n);
    block b = {.x = row_at(h, rest, first), .y = row_at(h, rest, second)};
    tpj_value *cx = hermitian ? hlo_conj(h, b.x) : b.x, *cy = hermitian ? hlo_conj(h, b.y) : b.y;
    b.d11 = element_at(h, b.x, first);
    b.d12 = element_at(h, b.x, second);
    b.d21 = element_at(h, b.y, first);
    b.d22 = element_at(h, b.y, second);
    tpj_dtype dtype = rest->type.dtype;
    tpj_value *one = hlo_number(h, dtype, 1), *zero = hlo_number(h, dtype, 0);
    tpj_value *scale = hlo_select(h, s->is_double, hlo_convert(h, hlo_abs(h, b.d21), dtype), one);
    tpj_value *d11 = hlo_div(h, b.d11, scale), *d12 = hlo_div(h, b.d12, scale), *d21 = hlo_div(h, b.d21, scale);
    tpj_value *d22 = hlo_div(h, b.d22, scale), *determinant = hlo_sub(h, hlo_mul(h, d11, d22), hlo_mul(h, d12, d21));
    determinant = hlo_mul(h, hlo_select(h, s->is_double, determinant, one), scale);
    tpj_value *l1 = hlo_sub(h, hlo_mul(h, cx, repeated(h, d22, cx)), hlo_mul(h, cy, repeated(h, d21, cy)));
    tpj_value *l2 = hlo_sub(h, hlo_mul(h, cy, repeated(h, d11, cy)), hlo_mul(h, cx, repeated(h, d12, cx)));
    tpj_value *is_double = repeated(h, s->is_double, cx);
    l1 = hlo_select(h, is_double, hlo_div(h, l1, repeated(h, determinant, l1)), hlo_div(h, cx, repeated(h, b.d11, cx)));
    l2 = hlo_div(h, l2, repeated(h, determinant, l2));
    tpj_value *works = hlo_and(h, s->is_active, hlo_not(h, s->is_singular));
    tpj_value *below = hlo_and(h, compare_places(h, "GT", cx, s->exchange), repeated(h, works, cx));
    b.l1 = hlo_select(h, below, l1, zero);
    b.l2 = hlo_select(h, hlo_and(h, below, is_double), l2, zero);
    return b;
}

/* `packed` with its column `place`, from the diagonal on, replaced by that of x, in the matrices for which it `applies`. */
static tpj_value *with_column(tpj_hlo *h, tpj_value *packed, tpj_value *x, tpj_value *place, tpj_value *applies) {
    const int64_t *dims = packed->type.dims;
    tpj_value *rows = hlo_and(h, compare_places(h, "GE", x, place), repeated(h, applies, x));
    tpj_value *column = hlo_compare(h, "EQ", hlo_iota(h, TPJ_I32, 3, dims, 2), tpj_spread(h, place, 3, dims, 0));
    return hlo_select(h, hlo_and(h, column, tpj_spread(h, rows, 3, dims, 1)), tpj_spread(h, x, 3, dims, 1), packed);
}

static void factor_continues(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    tpj_value *n = hlo_integer(h, TPJ_I32, hlo_dim(arguments[PIVOTS], 1));
    results[0] = hlo_reduce_all(h, "or", hlo_compare(h, "LT", arguments[AT], n));
}

static void factor_next(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    const bool *hermitian = context;
    tpj_value *at = arguments[AT], *rest = arguments[REST], *pivots = arguments[PIVOTS], *info = arguments[INFO];
    step s = choose_pivot(h, rest, at);
    tpj_value *order = exchanged(h, pivots, s.exchange, s.with), *second = next_of(h, at);
    rest = tpj_transposed(h, tpj_rows_at(h, rest, order), false);
    rest = tpj_transposed(h, tpj_rows_at(h, rest, order), false);
    block b = eliminate(h, &s, rest, *hermitian);
    tpj_value *is_at = compare_places(h, "EQ", pivots, at), *is_second = compare_places(h, "EQ", pivots, second);
    tpj_value *in_block = hlo_and(h, is_second, repeated(h, s.is_double, pivots));
    tpj_value *x = hlo_select(h, in_block, repeated(h, b.d21, b.l1), b.l1);
    x = hlo_select(h, is_at, repeated(h, b.d11, x), x);
    tpj_value *packed = with_column(h, arguments[PACKED], x, at, s.is_active);
    packed = with_column(h, packed, hlo_select(h, is_second, repeated(h, b.d22, b.l2), b.l2), second, s.is_double);
    tpj_value *pivot = next_of(h, s.with);
    pivot = hlo_select(h, s.is_double, hlo_neg(h, pivot), pivot);
    tpj_value *fails =
        hlo_and(h, s.is_singular, hlo_and(h, s.is_active, hlo_compare(h, "EQ", info, hlo_integer(h, TPJ_I32, 0))));
    tpj_value *size = hlo_add(h, hlo_convert(h, s.is_active, TPJ_I32), hlo_convert(h, s.is_double, TPJ_I32));
    results[AT] = hlo_add(h, at, size);
    results[REST] = hlo_sub(h, rest, hlo_add(h, outer(h, b.l1, b.x, rest), outer(h, b.l2, b.y, rest)));
    results[PACKED] = packed;
    results[PIVOTS] = hlo_select(h, hlo_or(h, is_at, in_block), repeated(h, pivot, pivots), pivots);
    results[INFO] = hlo_select(h, fails, second, info);
}

/* The symmetric matrices of which the lower triangle is given. */
static tpj_value *symmetric_of(tpj_hlo *h, tpj_value *a) {
    tpj_value *strict = hlo_select(h, tpj_band_mask(h, "LT", 3, a->type.dims, 0), a, hlo_number(h, a->type.dtype, 0));
    return hlo_add(h, tpj_triangle(h, a, false), tpj_transposed(h, strict, false));
}

static void emit_ldl_factor_ex(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *given = tpj_in(e, "self");
    if (!tpj_is_matrix(e, given, true)) return;
    bool hermitian = tpj_bool(e, "hermitian", false) && tpj_dtype_is_complex(given->type.dtype);
    tpj_value *a = tpj_flat_batch(h, given), *final[STATES];
    int64_t batch = hlo_dim(a, 0), vector[] = {batch, hlo_dim(a, 2)};
    tpj_value *zeros = hlo_zeros(h, TPJ_I32, 1, &batch);
    tpj_value *initial[STATES] = {zeros, hermitian ? tpj_hermitian(h, a, false) : symmetric_of(h, a),
                                  hlo_zeros(h, a->type.dtype, 3, a->type.dims), hlo_zeros(h, TPJ_I32, 2, vector),
                                  zeros};
    if (hlo_elements(a) > 0) {
        hlo_while(h, initial, STATES, factor_continues, factor_next, &hermitian, final);
    } else {
        for (int i = 0; i < STATES; i++) final[i] = initial[i];
    }
    tpj_out_columns(e, tpj_unflat_batch(h, final[PACKED], given));
    tpj_out(e, tpj_unflat_batch(h, final[PIVOTS], given));
    tpj_out(e, tpj_unflat_batch(h, final[INFO], given));
}

/* ---- solving with the factors ---- */

enum { ROW, MARKS, OPEN, FIRST, ORDER, LOWER, UNPACK_STATES };

static void unpack_continues(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    results[0] = hlo_compare(h, "LT", arguments[ROW], hlo_integer(h, TPJ_I32, hlo_dim(arguments[MARKS], 1)));
}

/* Row i: its exchange is done in the columns of L that were there before its block, and in the order of rows. A negative
 * pivot opens a block of two rows, or closes the one that is open: the exchange is the second row's. */
static void unpack_next(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    tpj_value *i = arguments[ROW], *marks = arguments[MARKS], *open = arguments[OPEN], *l = arguments[LOWER];
    tpj_value *zero = hlo_integer(h, TPJ_I32, 0), *one = hlo_integer(h, TPJ_I32, 1);
    int64_t batch = hlo_dim(marks, 0);
    tpj_value *own = hlo_broadcast_in_dim(h, i, 1, &batch, NULL), *pivot = element_at(h, marks, own);
    tpj_value *is_double = hlo_compare(h, "LT", pivot, zero), *opens = hlo_and(h, is_double, hlo_not(h, open));
    tpj_value *with = hlo_select(h, opens, own, hlo_sub(h, hlo_abs(h, pivot), one));
    tpj_value *order = exchanged(h, marks, own, with);
    tpj_value *before = hlo_select(h, is_double, hlo_sub(h, own, one), own);
    const int64_t *dims = l->type.dims;
    tpj_value *old = hlo_compare(h, "LT", hlo_iota(h, TPJ_I32, 3, dims, 2), tpj_spread(h, before, 3, dims, 0));
    results[ROW] = hlo_add(h, i, one);
    results[MARKS] = marks;
    results[OPEN] = opens;
    results[FIRST] = hlo_select(h, compare_places(h, "EQ", marks, i), repeated(h, opens, marks), arguments[FIRST]);
    results[ORDER] = hlo_take_along(h, arguments[ORDER], order, 1);
    results[LOWER] = hlo_select(h, old, tpj_rows_at(h, l, order), l);
}

/* x [batch, n, ..] moved by one place along dimension 1, zero (false) coming in: forward, element i is the one before. */
static tpj_value *moved(tpj_hlo *h, tpj_value *x, bool forward) {
    tpj_value *zero = hlo_number(h, x->type.dtype, 0);
    return hlo_pad_dim(h, x, zero, 1, forward ? 1 : -1, forward ? -1 : 1);
}

/* D X = Z. `below`: the elements of D under the diagonal, at the first row of each block of two; `first` marks those. */
static tpj_value *solve_blocks(tpj_hlo *h, tpj_value *d, tpj_value *below, tpj_value *first, tpj_value *z,
                               bool hermitian) {
    tpj_dtype dtype = d->type.dtype;
    tpj_value *one = hlo_number(h, dtype, 1), *second = moved(h, first, true);
    tpj_value *scale = hlo_select(h, first, hlo_convert(h, hlo_abs(h, below), dtype), one);
    tpj_value *d1 = hlo_div(h, d, scale), *d2 = hlo_div(h, moved(h, d, false), scale),
              *lower = hlo_div(h, below, scale);
    tpj_value *upper = hermitian ? hlo_conj(h, lower) : lower;
    tpj_value *determinant = hlo_mul(h, hlo_sub(h, hlo_mul(h, d1, d2), hlo_mul(h, lower, upper)), scale);
    determinant = hlo_select(h, first, determinant, one);
    d1 = hlo_div(h, d1, determinant);
    d2 = hlo_div(h, d2, determinant);
    lower = hlo_div(h, lower, determinant);
    upper = hlo_div(h, upper, determinant);
    tpj_value *x1 = hlo_sub(h, tpj_scale_each(h, z, d2, 1), tpj_scale_each(h, moved(h, z, false), upper, 1));
    tpj_value *x2 = hlo_sub(h, tpj_scale_each(h, moved(h, z, false), d1, 1), tpj_scale_each(h, z, lower, 1));
    tpj_value *single = hlo_div(h, z, tpj_spread(h, d, 3, z->type.dims, 1));
    tpj_value *x = hlo_select(h, tpj_spread(h, second, 3, z->type.dims, 1), moved(h, x2, true), single);
    return hlo_select(h, tpj_spread(h, first, 3, z->type.dims, 1), x1, x);
}

/* A X = B for the factors of A: everything [batch, .., ..], pivots [batch, n]. */
static tpj_value *solve_ldl(tpj_hlo *h, tpj_value *packed, tpj_value *pivots, tpj_value *b, bool hermitian) {
    int64_t batch = hlo_dim(packed, 0), n = hlo_dim(packed, 2);
    tpj_dtype dtype = packed->type.dtype;
    tpj_value *zero = hlo_number(h, dtype, 0), *final[UNPACK_STATES];
    tpj_value *initial[UNPACK_STATES] = {hlo_integer(h, TPJ_I32, 0),
                                         pivots,
                                         hlo_zeros(h, TPJ_BOOL, 1, &batch),
                                         hlo_zeros(h, TPJ_BOOL, 2, pivots->type.dims),
                                         places(h, pivots),
                                         packed};
    hlo_while(h, initial, UNPACK_STATES, unpack_continues, unpack_next, NULL, final);
    tpj_value *first = final[FIRST], *order = final[ORDER], *l = final[LOWER], *sorted, *inverse;
    tpj_value *d = tpj_diagonals(h, packed), *below = hlo_zeros(h, dtype, 2, first->type.dims);
    if (hermitian) d = hlo_convert(h, hlo_real(h, d), dtype);
    if (n > 1) {
        tpj_value *diagonal = tpj_diagonals(h, hlo_slice_dim(h, hlo_slice_dim(h, packed, 1, 1, n, 1), 2, 0, n - 1, 1));
        below = hlo_select(h, first, hlo_pad_dim(h, diagonal, zero, 1, 0, 1), zero);
    }
    tpj_value *of_d = hlo_and(h, tpj_band_mask(h, "EQ", 3, l->type.dims, -1), tpj_spread(h, first, 3, l->type.dims, 2));
    l = hlo_select(h, of_d, zero, l);
    b = hlo_triangular_solve(h, l, tpj_rows_at(h, b, order), true, true, true, "NO_TRANSPOSE");
    b = solve_blocks(h, d, below, first, b, hermitian);
    b = hlo_triangular_solve(h, l, b, true, true, true, hermitian ? "ADJOINT" : "TRANSPOSE");
    tpj_sort(h, order, 1, false, &sorted, &inverse);
    return tpj_rows_at(h, b, inverse);
}

static void emit_ldl_solve(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *packed = tpj_in(e, "LD"), *b = tpj_in(e, "B"), *pivots = tpj_in_as(e, "pivots", TPJ_I32);
    if (!tpj_solvable(e, packed, b, true)) return;
    bool hermitian = tpj_bool(e, "hermitian", false) && tpj_dtype_is_complex(packed->type.dtype);
    pivots = hlo_unsqueeze(h, pivots, pivots->type.rank); /* takes part in the broadcast as columns */
    tpj_value *other = b;
    if (!tpj_broadcast_batches(e, &packed, &b) || !tpj_broadcast_batches(e, &pivots, &other)) return;
    tpj_value *x = tpj_flat_batch(h, b), *columns = hlo_squeeze(h, tpj_flat_batch(h, pivots), 2);
    if (hlo_elements(b) > 0) x = solve_ldl(h, tpj_flat_batch(h, packed), columns, x, hermitian);
    tpj_out_columns(e, tpj_unflat_batch(h, x, b));
}

const tpj_op_def tpj_ops_ldl[] = {
    {.name = "linalg_ldl_factor_ex", .params = "T self, B hermitian=False", .emit = emit_ldl_factor_ex},
    {.name = "linalg_ldl_solve", .params = "T LD, T pivots, T B, B hermitian=False", .emit = emit_ldl_solve},
    {0},
};
