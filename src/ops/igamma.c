/* The regularized incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x).
 *
 * Where a is above 20 and x within 30 % of it, Temme's uniform expansion (DLMF 8.12); elsewhere the power series of P (DLMF
 * 8.11.4), the continued fraction of Q (DLMF 8.9.2, by Lentz's method as Thompson and Barnett 1986 mend it), or for x near
 * zero the series of Q (DLMF 8.7.3). Which one an element takes, and the values at the ends, are as in PyTorch's CPU kernel.
 * The coefficients were computed with 40 digits. */
#include <math.h>

#include "ops/series.h"

#define PI 3.14159265358979323846

/* c_k(eta) of DLMF 8.12.9 as polynomials in eta, to the accuracy needed for |eta| < 0.34 and a > 20 */
static const double UNIFORM[12][15] = {
    {-0.33333333333333333, 0.083333333333333333, -0.014814814814814815, 0.0011574074074074074, 0.0003527336860670194,
     -0.00017875514403292181, 3.9192631785224378e-5, -2.1854485106799922e-6, -1.85406221071516e-6, 8.296711340953086e-7,
     -1.7665952736826079e-7, 6.7078535434014986e-9, 1.0261809784240308e-8, -4.3820360184533532e-9,
     9.1476995822367902e-10},
    {-0.0018518518518518519, -0.0034722222222222222, 0.0026455026455026455, -0.00099022633744855967,
     0.00020576131687242798, -4.0187757201646091e-7, -1.8098550334489978e-5, 7.6491609160811101e-6,
     -1.6120900894563446e-6, 4.6471278028074343e-9, 1.378633446915721e-7, -5.752545603517705e-8, 1.1951628599778147e-8,
     -1.7543241719747648e-11, -1.0091543710600413e-9},
    {0.0041335978835978836, -0.0026813271604938272, 0.00077160493827160494, 2.0093878600823045e-6,
     -0.00010736653226365161, 5.2923448829120125e-5, -1.2760635188618728e-5, 3.4235787340961381e-8,
     1.3721957309062933e-6, -6.298992138380055e-7, 1.4280614206064242e-7, -2.0477098421990866e-10,
     -1.4092529910867521e-8, 6.228974084922022e-9},
    {0.00064943415637860082, 0.00022947209362139918, -0.00046918949439525571, 0.00026772063206283885,
     -7.5618016718839764e-5, -2.3965051138672967e-7, 1.1082654115347302e-5, -5.6749528269915966e-6,
     1.4230900732435884e-6, -2.7861080291528142e-11, -1.6958404091930277e-7, 8.0994649053880824e-8},
    {-0.0008618882909167117, 0.00078403922172006663, -0.00029907248030319018, -1.4638452578843418e-6,
     6.6414982154651222e-5, -3.9683650471794347e-5, 1.1375726970678419e-5, 2.5074972262375328e-10,
     -1.6954149536558306e-6, 8.9075075322053097e-7, -2.2929348340008049e-7},
    {-0.00033679855336635815, -6.9728137583658578e-5, 0.00027727532449593921, -0.00019932570516188848,
     6.7977804779372078e-5, 1.419062920643967e-7, -1.3594048189768693e-5, 8.0184702563342015e-6,
     -2.2914811765080952e-6},
    {0.00053130793646399222, -0.00059216643735369388, 0.00027087820967180448, 7.9023532326603279e-7,
     -8.1539693675619688e-5, 5.6116827531062497e-5, -1.8329116582843376e-5, -3.0796134506033048e-9,
     3.4651553688036091e-6},
    {0.00034436760689237767, 5.1717909082605922e-5, -0.00033493161081142236, 0.0002812695154763237,
     -0.00010976582244684731, -1.2741009095484485e-7, 2.7744451511563644e-5, -1.8263488805711333e-5},
    {-0.00065262391859530942, 0.00083949872067208728, -0.00043829709854172101, -6.969091458420552e-7,
     0.00016644846642067548, -0.00012783517679769219},
    {-0.00059676129019274625, -7.2048954160200106e-5, 0.00067823088376673284, -0.00064014752602627585,
     0.00027750107634328704},
    {0.0013324454494800656, -0.0019144384985654775, 0.0011089369134596637},
    {0.001579727660730835},
};
/* (mu - log(1 + mu)) / mu^2 on [-0.3, 0.3], Chebyshev in mu / 0.3 */
static const double PHI[] = {
    0.51178665092282612,    -0.10428120034216684,    0.011970802975097851,   -0.0014670902488626826,
    0.00018739645536277114, -2.4629851478779512e-5,  3.3054454261927454e-6,  -4.5073335495547571e-7,
    6.2239480658888228e-8,  -8.6820908288626981e-9,  1.221304490578374e-9,   -1.7301339680576082e-10,
    2.4656819116041693e-11, -3.5321218293588558e-12, 5.0825929945266045e-13, -7.3425801170512218e-14,
    1.0644597243222009e-14, -1.5479694768643247e-15, 2.2574024909244157e-16, -3.3002763396478298e-17};

#define UNIFORM_LEAST_A 20
#define UNIFORM_WIDTH 0.3
enum { UNIFORM_TERMS = TPJ_LENGTH(UNIFORM), UNIFORM_DEGREES = TPJ_LENGTH(UNIFORM[0]) };

enum { MOST_TERMS = 2000 };

typedef struct incomplete_gamma {
    tpj_hlo *h;
    tpj_value *a, *x, *factor; /* factor: x^a exp(-x) / Gamma(a + 1) */
} incomplete_gamma;

static double epsilon(const tpj_value *x) { return x->type.dtype == TPJ_F64 ? 0x1p-53 : 0x1p-24; }

/* ---- the uniform expansion ---- */

/* sum over k of c_k(eta) / a^k */
static tpj_value *uniform_sum(tpj_hlo *h, tpj_value *eta, tpj_value *a) {
    double enough = a->type.dtype == TPJ_F64 ? 0 : 1e-9;
    tpj_value *sum = NULL;
    for (int k = UNIFORM_TERMS - 1; k >= 0; k--) {
        int n = UNIFORM_DEGREES;
        double scale = pow(UNIFORM_LEAST_A, -k);
        while (n > 0 && fabs(UNIFORM[k][n - 1]) * pow(0.34, n - 1) * scale <= enough) n--;
        if (sum != NULL) sum = hlo_div(h, sum, a);
        if (n == 0) continue;
        tpj_value *term = tpj_polynomial(h, UNIFORM[k], n, eta);
        sum = sum == NULL ? term : hlo_add(h, sum, term);
    }
    return sum;
}

/* P or Q where a is large and x near it. */
static tpj_value *uniform(const incomplete_gamma *g, bool upper) {
    tpj_hlo *h = g->h;
    tpj_value *mu = hlo_div(h, hlo_sub(h, g->x, g->a), g->a);
    tpj_value *phi = tpj_chebyshev(h, PHI, TPJ_LENGTH(PHI), times(h, mu, 1 / UNIFORM_WIDTH));
    tpj_value *eta = hlo_mul(h, mu, hlo_sqrt(h, times(h, phi, 2)));
    tpj_value *scaled = hlo_mul(h, eta, hlo_sqrt(h, times(h, g->a, 0.5)));
    tpj_value *decay = hlo_exp(h, hlo_neg(h, hlo_mul(h, scaled, scaled)));
    tpj_value *rest = hlo_div(h, hlo_mul(h, decay, uniform_sum(h, eta, g->a)), hlo_sqrt(h, times(h, g->a, 2 * PI)));
    tpj_value *normal = times(h, hlo_unary(h, "chlo.erfc", upper ? scaled : hlo_neg(h, scaled)), 0.5);
    return upper ? hlo_add(h, normal, rest) : hlo_sub(h, normal, rest);
}

/* ---- the factor before the others ---- */

/* log Gamma(a + 1) by Stirling's series takes away what cancels for large a. */
static tpj_value *power_factor(tpj_hlo *h, tpj_value *a, tpj_value *x) {
    static const double stirling[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188};
    tpj_value *large = tpj_compare_number(h, "GE", a, UNIFORM_LEAST_A), *inverse = over(h, 1, a);
    tpj_value *series = tpj_polynomial(h, stirling, TPJ_LENGTH(stirling), hlo_mul(h, inverse, inverse));
    tpj_value *mu = hlo_div(h, hlo_sub(h, x, a), a), *phi = hlo_sub(h, mu, hlo_unary(h, "log_plus_one", mu));
    tpj_value *far = hlo_add(h, hlo_mul(h, a, phi), hlo_mul(h, inverse, series));
    far = hlo_sub(h, times(h, hlo_log(h, times(h, a, 2 * PI)), -0.5), far);
    tpj_value *near = hlo_sub(h, hlo_mul(h, a, hlo_log(h, x)), x);
    near = hlo_sub(h, near, hlo_unary(h, "chlo.lgamma", plus(h, a, 1)));
    return hlo_exp(h, hlo_select(h, large, far, near));
}

/* ---- the power series of P ---- */

enum { SERIES_ROUND, SERIES_R, SERIES_TERM, SERIES_SUM, SERIES_STATES };

static tpj_value *series_open(tpj_hlo *h, tpj_value *const *state) {
    return hlo_compare(h, "GT", state[SERIES_TERM], times(h, state[SERIES_SUM], epsilon(state[SERIES_SUM])));
}

static tpj_value *rounds_left(tpj_hlo *h, tpj_value *round, tpj_value *open) {
    tpj_value *left = hlo_compare(h, "LT", round, hlo_integer(h, TPJ_I32, MOST_TERMS));
    return hlo_and(h, left, hlo_reduce_all(h, "or", open));
}

static void series_continues(tpj_hlo *h, tpj_value *const *state, tpj_value **results, void *context) {
    (void)context;
    results[0] = rounds_left(h, state[SERIES_ROUND], series_open(h, state));
}

static void series_term(tpj_hlo *h, tpj_value *const *state, tpj_value **results, void *context) {
    tpj_value *const *x = context;
    tpj_value *r = plus(h, state[SERIES_R], 1), *term = hlo_mul(h, state[SERIES_TERM], hlo_div(h, *x, r));
    results[SERIES_ROUND] = hlo_add(h, state[SERIES_ROUND], hlo_integer(h, TPJ_I32, 1));
    results[SERIES_R] = r;
    results[SERIES_TERM] = term;
    results[SERIES_SUM] = hlo_add(h, state[SERIES_SUM], term);
}

/* P where `wanted`. */
static tpj_value *lower_series(const incomplete_gamma *g, tpj_value *wanted) {
    tpj_hlo *h = g->h;
    tpj_value *x = tpj_select_or(h, hlo_and(h, wanted, tpj_compare_number(h, "GT", g->factor, 0)), g->x, 0);
    tpj_value *one = hlo_full_like(h, x, 1), *out[SERIES_STATES];
    tpj_value *initial[SERIES_STATES] = {hlo_integer(h, TPJ_I32, 0), g->a, one, one};
    hlo_while(h, initial, SERIES_STATES, series_continues, series_term, &x, out);
    return hlo_mul(h, out[SERIES_SUM], g->factor);
}

/* ---- the continued fraction of Q ---- */

enum { FRACTION_ROUND, FRACTION_C, FRACTION_D, FRACTION_VALUE, FRACTION_CHANGE, FRACTION_STATES };

typedef struct fraction {
    tpj_value *a, *b; /* b: x + 1 - a */
    tpj_value *wanted;
} fraction;

static tpj_value *fraction_open(tpj_hlo *h, tpj_value *const *state, const fraction *f) {
    tpj_value *change = hlo_abs(h, plus(h, state[FRACTION_CHANGE], -1));
    return hlo_and(h, f->wanted, tpj_compare_number(h, "GT", change, 4 * epsilon(change)));
}

static void fraction_continues(tpj_hlo *h, tpj_value *const *state, tpj_value **results, void *context) {
    results[0] = rounds_left(h, state[FRACTION_ROUND], fraction_open(h, state, context));
}

/* Lentz's quotients may not be zero. */
static tpj_value *not_zero(tpj_hlo *h, tpj_value *x) {
    double tiny = x->type.dtype == TPJ_F64 ? 0x1p-900 : 0x1p-100;
    return hlo_select(h, tpj_compare_number(h, "LT", hlo_abs(h, x), tiny), tpj_like(h, x, tiny), x);
}

static void fraction_term(tpj_hlo *h, tpj_value *const *state, tpj_value **results, void *context) {
    const fraction *f = context;
    tpj_value *open = fraction_open(h, state, f);
    tpj_value *round = hlo_add(h, state[FRACTION_ROUND], hlo_integer(h, TPJ_I32, 1));
    tpj_value *i = hlo_convert(h, round, f->a->type.dtype), *b = hlo_add(h, f->b, hlo_add(h, i, i));
    tpj_value *numerator = hlo_mul(h, i, hlo_sub(h, f->a, i));
    tpj_value *d = over(h, 1, not_zero(h, hlo_add(h, b, hlo_mul(h, numerator, state[FRACTION_D]))));
    tpj_value *c = not_zero(h, hlo_add(h, b, hlo_div(h, numerator, state[FRACTION_C])));
    tpj_value *change = hlo_mul(h, c, d);
    results[FRACTION_ROUND] = round;
    results[FRACTION_C] = c;
    results[FRACTION_D] = d;
    results[FRACTION_VALUE] = hlo_select(h, open, hlo_mul(h, state[FRACTION_VALUE], change), state[FRACTION_VALUE]);
    results[FRACTION_CHANGE] = hlo_select(h, open, change, state[FRACTION_CHANGE]);
}

/* Q where `wanted`, which is where x > 1 and x >= a. */
static tpj_value *upper_fraction(const incomplete_gamma *g, tpj_value *wanted) {
    tpj_hlo *h = g->h;
    fraction f = {.wanted = hlo_and(h, wanted, tpj_compare_number(h, "GT", g->factor, 0))};
    f.a = tpj_select_or(h, f.wanted, g->a, 1);
    f.b = hlo_sub(h, plus(h, tpj_select_or(h, f.wanted, g->x, 2), 1), f.a);
    tpj_value *infinite = over(h, 1, not_zero(h, hlo_full_like(h, f.b, 0))), *d = over(h, 1, f.b);
    tpj_value *initial[FRACTION_STATES] = {hlo_integer(h, TPJ_I32, 0), infinite, d, d, hlo_full_like(h, d, 2)};
    tpj_value *out[FRACTION_STATES];
    hlo_while(h, initial, FRACTION_STATES, fraction_continues, fraction_term, &f, out);
    return hlo_mul(h, hlo_mul(h, out[FRACTION_VALUE], g->factor), g->a);
}

/* ---- Q for x near zero ---- */

/* 1 - x^a / Gamma(a + 1) (1 + a sum over n > 0 of (-x)^n / (n! (a + n))), without cancellation for small a; x < 1.2. */
static tpj_value *upper_series(const incomplete_gamma *g) {
    tpj_hlo *h = g->h;
    int n_terms = g->x->type.dtype == TPJ_F64 ? 20 : 12;
    tpj_value *power = hlo_full_like(h, g->x, 1), *sum = hlo_full_like(h, g->x, 0);
    for (int n = 1; n <= n_terms; n++) {
        power = hlo_mul(h, power, times(h, g->x, -1.0 / n));
        sum = hlo_add(h, sum, hlo_div(h, power, plus(h, g->a, n)));
    }
    tpj_value *exponent = hlo_sub(h, hlo_mul(h, g->a, hlo_log(h, g->x)), hlo_unary(h, "chlo.lgamma", plus(h, g->a, 1)));
    tpj_value *start = hlo_neg(h, hlo_unary(h, "exponential_minus_one", exponent));
    return hlo_sub(h, start, hlo_mul(h, hlo_mul(h, hlo_exp(h, exponent), g->a), sum));
}

/* ---- which for which ---- */

/* Where P's series is used. For Q, where P is the smaller one. */
static tpj_value *takes_series(const incomplete_gamma *g, bool upper) {
    tpj_hlo *h = g->h;
    tpj_value *below = hlo_compare(h, "LT", g->x, g->a);
    if (!upper) return hlo_not(h, hlo_and(h, tpj_compare_number(h, "GT", g->x, 1), hlo_compare(h, "GT", g->x, g->a)));
    tpj_value *small = hlo_compare(h, "LT", over(h, -0.4, hlo_log(h, g->x)), g->a);
    tpj_value *middle = hlo_compare(h, "LT", times(h, g->x, 1.1), g->a);
    tpj_value *rest = hlo_select(h, tpj_compare_number(h, "LE", g->x, 0.5), small, middle);
    return hlo_select(h, tpj_compare_number(h, "GT", g->x, 1.1), below, rest);
}

/* The values at the ends of the range, `at_zero` for x = 0. */
static tpj_value *with_ends(const incomplete_gamma *g, tpj_value *y, double at_zero) {
    tpj_hlo *h = g->h;
    tpj_value *nan = tpj_like(h, y, NAN), *start = hlo_full_like(h, y, at_zero),
              *end = hlo_full_like(h, y, 1 - at_zero);
    tpj_value *a_is_infinite = tpj_is_infinite(h, g->a), *x_is_infinite = tpj_is_infinite(h, g->x);
    y = hlo_select(h, x_is_infinite, end, y);
    y = hlo_select(h, a_is_infinite, hlo_select(h, x_is_infinite, nan, start), y);
    y = hlo_select(h, tpj_compare_number(h, "EQ", g->x, 0), start, y);
    tpj_value *at_pole = hlo_select(h, tpj_compare_number(h, "GT", g->x, 0), end, nan);
    y = hlo_select(h, tpj_compare_number(h, "EQ", g->a, 0), at_pole, y);
    tpj_value *outside = hlo_or(h, tpj_compare_number(h, "LT", g->x, 0), tpj_compare_number(h, "LT", g->a, 0));
    return hlo_select(h, outside, nan, y);
}

enum { LOWER, UPPER };

static void emit_incomplete_gamma(tpj_emit *e) {
    bool upper = tpj_row(e)->variant == UPPER;
    tpj_dtype dtype = tpj_promote(e, "self", "other", NULL);
    if (!tpj_dtype_is_float(dtype)) {
        tpj_fail_dtype(e, dtype);
        return;
    }
    tpj_pair pair = tpj_pair_read(e, "self", "other", dtype);
    tpj_hlo *h = pair.h;
    incomplete_gamma g = {h, pair.x, pair.y, power_factor(h, pair.x, pair.y)};
    tpj_value *distance = hlo_abs(h, hlo_sub(h, g.x, g.a));
    tpj_value *is_uniform = hlo_and(h, tpj_compare_number(h, "GT", g.a, UNIFORM_LEAST_A),
                                    hlo_compare(h, "LT", distance, times(h, g.a, UNIFORM_WIDTH)));
    tpj_value *others = hlo_not(h, is_uniform), *series = takes_series(&g, upper);
    tpj_value *large = tpj_compare_number(h, "GT", g.x, 1.1);
    tpj_value *p = lower_series(&g, hlo_and(h, others, series));
    tpj_value *q = upper_fraction(&g, hlo_and(h, hlo_and(h, others, large), hlo_not(h, series)));
    q = hlo_select(h, large, q, upper_series(&g));
    tpj_value *y = upper ? hlo_select(h, series, from(h, 1, p), q) : hlo_select(h, series, p, from(h, 1, q));
    y = hlo_select(h, is_uniform, uniform(&g, upper), y);
    tpj_out_as(e, with_ends(&g, y, upper ? 1 : 0), dtype);
}

#define INCOMPLETE_GAMMA(op, which)  \
    {.name = op,                     \
     .params = "T self, T other",    \
     .emit = emit_incomplete_gamma,  \
     .layout = TPJ_LAYOUT_POINTWISE, \
     .variant = which}

const tpj_op_def tpj_ops_igamma[] = {
    INCOMPLETE_GAMMA("igamma", LOWER),
    INCOMPLETE_GAMMA("igammac", UPPER),
    {0},
};
