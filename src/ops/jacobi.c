/* One-sided Jacobi iteration (Hestenes 1958): plane rotations from one side make the columns of a matrix orthogonal.
 *
 * Columns are kept as rows here. Row i is paired with row n - 1 - i, and all pairs are rotated at once; then the rows move on
 * as the players of a round-robin tournament do (Brent and Luk 1985), so that in n - 1 rounds every two rows meet once. It
 * takes slices and a reversal, no gathers. The iteration ends when that many rounds in a row found every pair orthogonal. */
#include <math.h>

#include "ops/matrices.h"

enum { ROUND, QUIET, FLOOR, ROWS, STATES };
enum { MOST_SWEEPS = 30 }; /* as LAPACK's gesvj; 6 to 12 are usual */

typedef struct jacobi {
    int64_t width; /* the first elements of a row, which are to be orthogonal; what follows is rotated along */
    int64_t rounds;
    double tolerance; /* cosine of the angle at which two rows count as orthogonal */
} jacobi;

static void jacobi_continues(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    const jacobi *j = context;
    tpj_value *most = hlo_integer(h, TPJ_I32, MOST_SWEEPS * j->rounds), *rounds = hlo_integer(h, TPJ_I32, j->rounds);
    results[0] =
        hlo_and(h, hlo_compare(h, "LT", arguments[ROUND], most), hlo_compare(h, "LT", arguments[QUIET], rounds));
}

/* What belongs to the other row of each pair. */
static tpj_value *partner_of(tpj_hlo *h, tpj_value *x) {
    static const int64_t rows = 1;
    return hlo_reverse(h, x, &rows, 1);
}

/* Products of the rows of x and y, over the part that is to be orthogonal: [batch, rows]. */
static tpj_value *row_products(tpj_hlo *h, const jacobi *j, tpj_value *x, tpj_value *y) {
    x = hlo_slice_dim(h, x, 2, 0, j->width, 1);
    y = hlo_slice_dim(h, y, 2, 0, j->width, 1);
    return hlo_reduce_dim(h, "add", hlo_mul(h, hlo_conj(h, x), y), 2);
}

/* The product of each row and its partner. Taken once a pair: both rows must see the same one to the last bit. */
static tpj_value *pair_products(tpj_hlo *h, const jacobi *j, tpj_value *x, tpj_value *partner) {
    int64_t half = hlo_dim(x, 1) / 2;
    tpj_value *product =
        row_products(h, j, hlo_slice_dim(h, x, 1, 0, half, 1), hlo_slice_dim(h, partner, 1, 0, half, 1));
    return hlo_concatenate(h, (tpj_value *[]){product, hlo_conj(h, partner_of(h, product))}, 2, 1);
}

/* The tangent of the angle that makes each pair orthogonal, of the two the smaller one (Rutishauser 1966), seen from either
 * row: the partner's has the other sign. `twice`: 2 |product|, `squares`: of the rows' lengths. */
static tpj_value *tangent_of(tpj_hlo *h, tpj_value *squares, tpj_value *twice) {
    tpj_dtype real = squares->type.dtype;
    tpj_value *one = hlo_number(h, real, 1), *zero = hlo_number(h, real, 0);
    tpj_value *cotangent = hlo_div(h, hlo_sub(h, partner_of(h, squares), squares), twice); /* of twice the angle */
    tpj_value *root = hlo_sqrt(h, hlo_add(h, hlo_mul(h, cotangent, cotangent), one));
    tpj_value *tangent = hlo_div(h, one, hlo_add(h, hlo_abs(h, cotangent), root));
    tpj_value *row = hlo_iota(h, TPJ_I32, 2, squares->type.dims, 1);
    tpj_value *second = hlo_compare(h, "GE", row, hlo_integer(h, TPJ_I32, hlo_dim(squares, 1) / 2));
    tpj_value *is_zero = hlo_compare(h, "EQ", cotangent, zero);
    tpj_value *negative = hlo_or(h, hlo_compare(h, "LT", cotangent, zero), hlo_and(h, is_zero, second));
    return hlo_select(h, negative, hlo_neg(h, tangent), tangent);
}

static void jacobi_round(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    const jacobi *j = context;
    tpj_value *x = arguments[ROWS], *partner = partner_of(h, x);
    tpj_value *squares = hlo_real(h, row_products(h, j, x, x)), *product = pair_products(h, j, x, partner);
    tpj_value *size = hlo_abs(h, product), *norm = hlo_sqrt(h, squares), *other_norm = partner_of(h, norm);
    tpj_dtype real = size->type.dtype;
    tpj_value *one = hlo_number(h, real, 1), *zero = hlo_number(h, real, 0);
    tpj_value *least = hlo_mul(h, hlo_mul(h, norm, other_norm), hlo_number(h, real, j->tolerance));
    tpj_value *floor = hlo_expand(h, arguments[FLOOR], 2, size->type.dims);
    least = hlo_max(h, least, hlo_mul(h, floor, hlo_max(h, norm, other_norm)));
    tpj_value *turns = hlo_compare(h, "GT", size, least), *safe = hlo_select(h, turns, size, one);
    tpj_value *tangent = hlo_select(h, turns, tangent_of(h, squares, hlo_add(h, safe, safe)), zero);
    tpj_value *cosine = hlo_div(h, one, hlo_sqrt(h, hlo_add(h, hlo_mul(h, tangent, tangent), one)));
    tpj_value *sine = hlo_mul(h, tangent, cosine), *half_tangent = hlo_div(h, sine, hlo_add(h, cosine, one));
    tpj_value *phase = hlo_div(h, hlo_conj(h, product), hlo_convert(h, safe, product->type.dtype));
    /* x cos - partner sin as a small correction of x, which keeps rounding from changing the rows' lengths */
    tpj_value *towards = hlo_add(h, tpj_scale_each(h, partner, phase, 1), tpj_scale_each(h, x, half_tangent, 1));
    x = hlo_sub(h, x, tpj_scale_each(h, towards, sine, 1));
    int64_t n = hlo_dim(x, 1);
    if (n > 2) { /* the first row stays, the others move on by one */
        tpj_value *moved[] = {hlo_slice_dim(h, x, 1, 0, 1, 1), hlo_slice_dim(h, x, 1, n - 1, n, 1),
                              hlo_slice_dim(h, x, 1, 1, n - 1, 1)};
        x = hlo_concatenate(h, moved, 3, 1);
    }
    tpj_value *next_quiet = hlo_add(h, arguments[QUIET], hlo_integer(h, TPJ_I32, 1));
    results[ROUND] = hlo_add(h, arguments[ROUND], hlo_integer(h, TPJ_I32, 1));
    results[QUIET] = hlo_select(h, hlo_reduce_all(h, "or", turns), hlo_integer(h, TPJ_I32, 0), next_quiet);
    results[FLOOR] = arguments[FLOOR];
    results[ROWS] = x;
}

tpj_value *tpj_jacobi(tpj_hlo *h, tpj_value *rows, int64_t width) {
    tpj_dtype dtype = rows->type.dtype, real = hlo_real_dtype(dtype);
    int64_t n = hlo_dim(rows, 1);
    if (n < 2 || hlo_elements(rows) == 0) return rows;
    double epsilon = real == TPJ_F64 ? 0x1p-52 : 0x1p-23;
    if (n % 2 == 1) rows = hlo_pad_dim(h, rows, hlo_number(h, dtype, 0), 1, 0, 1);
    jacobi j = {.width = width, .rounds = hlo_dim(rows, 1) - 1, .tolerance = epsilon * sqrt((double)width)};
    tpj_value *part = hlo_abs(h, hlo_slice_dim(h, rows, 2, 0, width, 1));
    static const int64_t both[] = {1, 2};
    tpj_value *size = hlo_sqrt(h, hlo_reduce(h, "add", hlo_mul(h, part, part), NULL, both, 2));
    int64_t per_batch[] = {hlo_dim(rows, 0), 1};
    tpj_value *floor = hlo_reshape(h, hlo_mul(h, size, hlo_number(h, real, epsilon / 16)), 2, per_batch);
    tpj_value *initial[STATES] = {hlo_integer(h, TPJ_I32, 0), hlo_integer(h, TPJ_I32, 0), floor, rows}, *final[STATES];
    hlo_while(h, initial, STATES, jacobi_continues, jacobi_round, &j, final);
    return final[ROWS];
}
