/* Orthogonal polynomials of elementwise degree n: three-term recurrences from degree 1 up, all elements in one loop, each
 * until its own degree (DLMF 18.9). As PyTorch's CPU kernels do: zero for n < 0; Chebyshev's of a higher degree within
 * (-1, 1) by their trigonometric form; a NaN ends the recurrence. The degree is truncated to an integer. */
#include <math.h>

#include "ops/series.h"

typedef enum family {
    CHEBYSHEV_T,
    CHEBYSHEV_U,
    CHEBYSHEV_V,
    CHEBYSHEV_W,
    HERMITE_H,
    HERMITE_HE,
    LAGUERRE,
    LEGENDRE
} family;
enum { SHIFTED = 8, FAMILY = 7 };

typedef struct recurrence {
    tpj_hlo *h;
    family family;
    tpj_value *x, *n; /* n: I64, 0 where the recurrence is not wanted */
} recurrence;

static bool is_chebyshev(family f) { return f <= CHEBYSHEV_W; }

static tpj_value *integer_like(tpj_hlo *h, int64_t value) { return hlo_integer(h, TPJ_I64, value); }
static tpj_value *compare_integer(tpj_hlo *h, const char *direction, tpj_value *n, int64_t value) {
    return hlo_compare(h, direction, n, integer_like(h, value));
}

/* The polynomial of degree 1. */
static tpj_value *first_degree(tpj_hlo *h, family f, tpj_value *x) {
    switch (f) {
        case CHEBYSHEV_U:
        case HERMITE_H: return hlo_add(h, x, x);
        case CHEBYSHEV_V: return plus(h, hlo_add(h, x, x), -1);
        case CHEBYSHEV_W: return plus(h, hlo_add(h, x, x), 1);
        case LAGUERRE: return from(h, 1, x);
        default: return x;
    }
}

/* Degree k + 1 from q of degree k and p of degree k - 1; k is a scalar of x's dtype. */
static tpj_value *next_degree(const recurrence *r, tpj_value *k, tpj_value *q, tpj_value *p) {
    tpj_hlo *h = r->h;
    tpj_value *x = r->x, *twice = hlo_add(h, x, x), *factor, *weighted = hlo_mul(h, p, k);
    switch (r->family) {
        case HERMITE_H: return hlo_sub(h, hlo_mul(h, twice, q), hlo_add(h, weighted, weighted));
        case HERMITE_HE: return hlo_sub(h, hlo_mul(h, x, q), weighted);
        case LAGUERRE: factor = hlo_add(h, from(h, 1, x), hlo_add(h, k, k)); break;
        case LEGENDRE: factor = hlo_mul(h, x, plus(h, hlo_add(h, k, k), 1)); break;
        default: return hlo_sub(h, hlo_mul(h, twice, q), p);
    }
    return hlo_div(h, hlo_sub(h, hlo_mul(h, factor, q), weighted), plus(h, k, 1));
}

enum { STATE_K, STATE_Q, STATE_P, STATE_SIZE };

static void degrees_left(tpj_hlo *h, tpj_value *const *state, tpj_value **results, void *context) {
    const recurrence *r = context;
    tpj_value *open = hlo_and(h, hlo_compare(h, "LT", state[STATE_K], r->n), hlo_not(h, hlo_is_nan(h, state[STATE_Q])));
    results[0] = hlo_reduce_all(h, "or", open);
}

static void raise_degree(tpj_hlo *h, tpj_value *const *state, tpj_value **results, void *context) {
    const recurrence *r = context;
    tpj_value *k = state[STATE_K], *q = state[STATE_Q], *p = state[STATE_P];
    tpj_value *open = hlo_compare(h, "LT", k, r->n);
    results[STATE_K] = hlo_add(h, k, integer_like(h, 1));
    results[STATE_Q] = hlo_select(h, open, next_degree(r, hlo_convert(h, k, r->x->type.dtype), q, p), q);
    results[STATE_P] = hlo_select(h, open, q, p);
}

static tpj_value *recur(recurrence *r) {
    tpj_hlo *h = r->h;
    tpj_value *first = first_degree(h, r->family, r->x), *one = hlo_full_like(h, r->x, 1), *out[STATE_SIZE];
    tpj_value *initial[STATE_SIZE] = {integer_like(h, 1), first, one};
    hlo_while(h, initial, STATE_SIZE, degrees_left, raise_degree, r, out);
    return hlo_select(h, compare_integer(h, "EQ", r->n, 0), one, out[STATE_Q]);
}

/* ---- closed forms ---- */

/* 1 for even n, -1 for odd, in x's dtype. */
static tpj_value *parity(tpj_hlo *h, tpj_value *n, tpj_value *x) {
    tpj_value *even = compare_integer(h, "EQ", hlo_and(h, n, integer_like(h, 1)), 0);
    return hlo_select(h, even, hlo_full_like(h, x, 1), tpj_like(h, x, -1));
}

/* a n + b in x's dtype. */
static tpj_value *linear(tpj_hlo *h, tpj_value *n, int64_t a, int64_t b, tpj_value *x) {
    tpj_value *y = hlo_add(h, hlo_mul(h, n, integer_like(h, a)), integer_like(h, b));
    return hlo_convert(h, y, x->type.dtype);
}

/* Values at x = 1 and at x = -1, Chebyshev's and Legendre's. */
static tpj_value *at_end(tpj_hlo *h, family f, tpj_value *x, tpj_value *n) {
    tpj_value *one = hlo_full_like(h, x, 1), *sign = parity(h, n, x), *right = one, *left = one;
    if (f == CHEBYSHEV_U) right = left = linear(h, n, 1, 1, x);
    if (f == CHEBYSHEV_W) right = linear(h, n, 2, 1, x);
    if (f == CHEBYSHEV_V) left = linear(h, n, 2, 1, x);
    return hlo_select(h, tpj_compare_number(h, "GT", x, 0), right, hlo_mul(h, left, sign));
}

/* Chebyshev's for |x| < 1, with x = cos(a). Where half the angle's sine or cosine rounds to one, the end's value. */
static tpj_value *trigonometric(tpj_hlo *h, family f, tpj_value *x, tpj_value *n) {
    tpj_value *one = tpj_like(h, x, 1), *degree = hlo_convert(h, n, x->type.dtype);
    tpj_value *low = hlo_sqrt(h, hlo_sub(h, one, x)), *high = hlo_sqrt(h, plus(h, x, 1));
    tpj_value *half = hlo_binary(h, "atan2", low, high), *angle = hlo_add(h, half, half);
    if (f == CHEBYSHEV_T) return hlo_unary(h, "cosine", hlo_mul(h, degree, angle));
    if (f == CHEBYSHEV_U) {
        tpj_value *y = hlo_unary(h, "sine", hlo_mul(h, plus(h, degree, 1), angle));
        return hlo_div(h, y, hlo_unary(h, "sine", angle));
    }
    const char *above = f == CHEBYSHEV_V ? "cosine" : "sine", *other = f == CHEBYSHEV_V ? "sine" : "cosine";
    tpj_value *y = hlo_unary(h, above, hlo_mul(h, plus(h, degree, 0.5), angle));
    y = hlo_div(h, y, hlo_unary(h, above, half));
    tpj_value *flat = tpj_compare_number(h, "EQ", hlo_unary(h, other, half), 1);
    return hlo_select(h, flat, at_end(h, f, x, n), y);
}

/* The highest degree that recurs within (-1, 1). */
static int64_t most_recurring(family f, bool shifted) {
    static const int64_t most[2][4] = {{6, 8, 8, 8}, {6, 6, 6, 4}};
    return most[shifted][f];
}

/* ---- reading ---- */

/* Truncated; what an I64 does not hold counts as negative. */
static tpj_value *read_degree(tpj_hlo *h, tpj_value *n) {
    tpj_value *whole = tpj_truncate(h, n), *fits = tpj_compare_number(h, "LT", hlo_abs(h, whole), 0x1p63);
    tpj_value *safe = tpj_select_or(h, fits, whole, -1);
    return hlo_convert(h, safe, TPJ_I64);
}

static void emit_orthogonal(tpj_emit *e) {
    family f = (family)(tpj_row(e)->variant & FAMILY);
    bool shifted = tpj_row(e)->variant & SHIFTED;
    tpj_dtype dtype = tpj_float_dtype(e, tpj_promote(e, "x", "n", NULL));
    if (dtype != TPJ_F32 && dtype != TPJ_F64) {
        tpj_fail_dtype(e, dtype);
        return;
    }
    tpj_pair pair = tpj_pair_read(e, "x", "n", dtype);
    tpj_hlo *h = pair.h;
    tpj_value *x = shifted ? plus(h, hlo_add(h, pair.x, pair.x), -1) : pair.x, *degree = read_degree(h, pair.y);
    tpj_value *size = hlo_abs(h, x), *closed = NULL, *y = NULL; /* closed: where y needs no recurrence */
    if (is_chebyshev(f) || f == LEGENDRE) {
        closed = tpj_compare_number(h, "EQ", size, 1);
        y = at_end(h, f, x, degree);
    }
    if (is_chebyshev(f)) {
        tpj_value *inside = hlo_and(h, tpj_compare_number(h, "LT", size, 1),
                                    compare_integer(h, "GT", degree, most_recurring(f, shifted)));
        y = hlo_select(h, inside, trigonometric(h, f, x, degree), y);
        closed = hlo_or(h, closed, inside);
    } else if (f == LAGUERRE) {
        closed = tpj_compare_number(h, "EQ", x, 0);
        y = hlo_full_like(h, x, 1);
    } else if (f != LEGENDRE) { /* Hermite's grow too fast to be of use: NaN, as on the CPU */
        closed = compare_integer(h, "GT", degree, dtype == TPJ_F32 ? 128 : 512);
        y = hlo_full_like(h, x, NAN);
    }
    recurrence r = {h, f, x, hlo_select(h, closed, integer_like(h, 0), degree)};
    y = hlo_select(h, closed, y, recur(&r));
    tpj_out(e, hlo_select(h, compare_integer(h, "LT", degree, 0), tpj_like(h, y, 0), y));
}

#define ORTHOGONAL(op, kind) \
    {.name = op, .params = "T x, T n", .emit = emit_orthogonal, .layout = TPJ_LAYOUT_POINTWISE, .variant = kind}

const tpj_op_def tpj_ops_orthogonal[] = {
    ORTHOGONAL("special_chebyshev_polynomial_t", CHEBYSHEV_T),
    ORTHOGONAL("special_chebyshev_polynomial_u", CHEBYSHEV_U),
    ORTHOGONAL("special_chebyshev_polynomial_v", CHEBYSHEV_V),
    ORTHOGONAL("special_chebyshev_polynomial_w", CHEBYSHEV_W),
    ORTHOGONAL("special_shifted_chebyshev_polynomial_t", SHIFTED | CHEBYSHEV_T),
    ORTHOGONAL("special_shifted_chebyshev_polynomial_u", SHIFTED | CHEBYSHEV_U),
    ORTHOGONAL("special_shifted_chebyshev_polynomial_v", SHIFTED | CHEBYSHEV_V),
    ORTHOGONAL("special_shifted_chebyshev_polynomial_w", SHIFTED | CHEBYSHEV_W),
    ORTHOGONAL("special_hermite_polynomial_h", HERMITE_H),
    ORTHOGONAL("special_hermite_polynomial_he", HERMITE_HE),
    ORTHOGONAL("special_laguerre_polynomial_l", LAGUERRE),
    ORTHOGONAL("special_legendre_polynomial_p", LEGENDRE),
    {0},
};
