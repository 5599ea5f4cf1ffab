/* Derivatives of gamma and Dirichlet samples by their parameters, as PyTorch's CPU kernels approximate them: Jankowiak and
 * Obermeyer, Pathwise Derivatives Beyond the Reparameterization Trick, 2018 (Taylor series near the ends, Rice's saddle
 * point for large parameters, rational functions fitted to the rest). Everything is computed in the dtype of
 * the result, but for what cancels, which the CPU has in F64 too. */
#include "ops/series.h"

static tpj_value *digamma(tpj_hlo *h, tpj_value *x) { return hlo_unary(h, "chlo.digamma", x); }
static tpj_value *power(tpj_hlo *h, tpj_value *x, double c) { return hlo_pow(h, x, tpj_like(h, x, c)); }
static tpj_value *square(tpj_hlo *h, tpj_value *x) { return hlo_mul(h, x, x); }
static tpj_value *zero_for_nan(tpj_hlo *h, tpj_value *x) {
    return hlo_select(h, hlo_is_nan(h, x), tpj_like(h, x, 0), x);
}

/* F32 and F64 are what the CPU's kernels have. */
static bool is_full(tpj_emit *e, tpj_dtype dtype) {
    if (dtype == TPJ_F32 || dtype == TPJ_F64) return true;
    tpj_fail_dtype(e, dtype);
    return false;
}

/* ---- gamma ---- */

/* By the Taylor series of the distribution function at zero: -x exp(x) ((log(x) - digamma(a)) s1 - s2), where s1 and s2
 * sum (-x)^i / i! over a + i and its square. */
static tpj_value *gamma_taylor(tpj_hlo *h, tpj_value *a, tpj_value *x) {
    tpj_value *term = hlo_full_like(h, x, 1), *s1 = over(h, 1, a), *s2 = square(h, s1);
    for (int i = 1; i <= 5; i++) {
        tpj_value *inverse = over(h, 1, plus(h, a, i));
        term = hlo_mul(h, term, times(h, x, -1.0 / i));
        s1 = hlo_add(h, s1, hlo_mul(h, term, inverse));
        s2 = hlo_add(h, s2, hlo_mul(h, term, square(h, inverse)));
    }
    tpj_value *slope = hlo_sub(h, hlo_mul(h, hlo_sub(h, hlo_log(h, x), digamma(h, a)), s1), s2);
    return zero_for_nan(h, hlo_neg(h, hlo_mul(h, hlo_mul(h, x, hlo_exp(h, x)), slope)));
}

/* Rice's saddle point within 10 % of the mean, where the general form has a pole that is none. */
static tpj_value *gamma_at_mean(tpj_hlo *h, tpj_value *a, tpj_value *x) {
    tpj_value *first = plus(h, times(h, hlo_mul(h, a, plus(h, times(h, a, 12), 1)), 24), 1);
    tpj_value *second = hlo_mul(h, times(h, x, 6), from(h, 53, times(h, x, 120)));
    second = hlo_add(h, second, times(h, square(h, a), 1440));
    second = hlo_sub(h, second, hlo_div(h, times(h, square(h, x), 65), a));
    second = hlo_add(h, second, hlo_mul(h, a, plus(h, times(h, x, 3600), 107)));
    return hlo_div(h, hlo_mul(h, first, second), times(h, square(h, square(h, a)), 1244160));
}

static tpj_value *gamma_saddle(tpj_hlo *h, tpj_value *a, tpj_value *x) {
    tpj_value *ratio = hlo_log(h, hlo_div(h, x, a)), *distance = hlo_sub(h, a, x), *scale = hlo_sqrt(h, times(h, a, 8));
    tpj_value *depth = power(h, hlo_sub(h, hlo_neg(h, distance), hlo_mul(h, a, ratio)), -1.5);
    tpj_value *below = hlo_compare(h, "LT", x, a), *sum = hlo_div(h, scale, distance);
    sum = hlo_add(h, sum, hlo_select(h, below, hlo_neg(h, depth), depth));
    tpj_value *rest = hlo_mul(h, hlo_sqrt(h, over(h, 2, a)), hlo_div(h, hlo_add(h, a, x), square(h, distance)));
    tpj_value *term = hlo_sub(h, hlo_mul(h, ratio, sum), rest);
    tpj_value *twelfth = over(h, 1, times(h, a, 12));
    tpj_value *stirling = plus(h, hlo_mul(h, twelfth, plus(h, over(h, 1, times(h, a, 24)), 1)), 1);
    return hlo_neg(h, hlo_div(h, hlo_mul(h, stirling, hlo_mul(h, x, term)), scale));
}

/* exp of a rational function in v = log(a), whose coefficients are quadratic in u = log(x / a). */
static tpj_value *gamma_fit(tpj_hlo *h, tpj_value *a, tpj_value *x) {
    static const double over_uv[4][3] = {{0.16009398, 0.53487893, 0.040121004},
                                         {-0.094634809, 0.1298071, -0.0065914022},
                                         {0.025146376, 0.065735949, -0.0026286047},
                                         {-0.0030648343, -0.0015649758, -0.0013441777}};
    static const double under_uv[4][3] = {{1, 0.16639465, 0.017050642},
                                          {0.32668115, 0.020070113, -0.0021309326},
                                          {0.10406089, -0.0035938915, 0.00085092367},
                                          {0.0014179084, -0.00058392623, -1.5247877e-07}};
    tpj_value *u = hlo_log(h, hlo_div(h, x, a)), *v = hlo_log(h, a), *p = hlo_full_like(h, x, 0), *q = p;
    for (int i = 3; i >= 0; i--) {
        p = hlo_add(h, hlo_mul(h, p, v), tpj_polynomial(h, over_uv[i], 3, u));
        q = hlo_add(h, hlo_mul(h, q, v), tpj_polynomial(h, under_uv[i], 3, u));
    }
    return hlo_exp(h, hlo_div(h, p, q));
}

static void emit_standard_gamma_grad(tpj_emit *e) {
    tpj_dtype dtype = tpj_promote(e, "self", "output", NULL);
    if (!is_full(e, dtype)) return;
    tpj_pair pair = tpj_pair_read(e, "self", "output", dtype);
    tpj_hlo *h = pair.h;
    tpj_value *a = pair.x, *x = pair.y, *y = gamma_fit(h, a, x);
    tpj_value *at_mean =
        hlo_and(h, hlo_compare(h, "LE", times(h, a, 0.9), x), hlo_compare(h, "LE", x, times(h, a, 1.1)));
    tpj_value *large = hlo_select(h, at_mean, gamma_at_mean(h, a, x), gamma_saddle(h, a, x));
    y = hlo_select(h, tpj_compare_number(h, "GT", a, 8), large, y);
    y = hlo_select(h, tpj_compare_number(h, "LT", x, 0.8), gamma_taylor(h, a, x), y);
    tpj_out_as(e, y, dtype);
}

/* ---- Dirichlet: the derivative of one beta(alpha, beta) distributed part x by alpha, over 1 - x ---- */

typedef struct part {
    tpj_hlo *h;
    tpj_value *x, *alpha, *beta, *total;
} part;

/* By Taylor series for x near 0. */
static tpj_value *dirichlet_low(const part *s) {
    tpj_hlo *h = s->h;
    tpj_value *factor = hlo_sub(h, hlo_sub(h, digamma(h, s->alpha), digamma(h, s->total)), hlo_log(h, s->x));
    tpj_value *inverse = over(h, 1, s->alpha), *term = hlo_full_like(h, s->x, 1);
    tpj_value *sum = hlo_mul(h, inverse, hlo_add(h, factor, inverse));
    for (int i = 1; i <= 10; i++) {
        term = hlo_mul(h, term, times(h, hlo_mul(h, from(h, i, s->beta), s->x), 1.0 / i));
        inverse = over(h, 1, plus(h, s->alpha, i));
        sum = hlo_add(h, sum, hlo_mul(h, hlo_mul(h, term, inverse), hlo_add(h, factor, inverse)));
    }
    tpj_value *density = hlo_pow(h, from(h, 1, s->x), hlo_neg(h, s->beta));
    return zero_for_nan(h, hlo_mul(h, hlo_mul(h, s->x, density), sum));
}

/* By Taylor series for x near 1. */
static tpj_value *dirichlet_high(const part *s) {
    tpj_hlo *h = s->h;
    tpj_value *y = from(h, 1, s->x), *factor = hlo_sub(h, digamma(h, s->total), digamma(h, s->alpha));
    tpj_value *term = hlo_full_like(h, y, 1), *product = term, *derivative = hlo_full_like(h, y, 0);
    tpj_value *sum = hlo_div(h, factor, s->beta);
    for (int i = 1; i <= 8; i++) {
        tpj_value *less = plus(h, s->alpha, -i);
        term = hlo_mul(h, term, times(h, y, -1.0 / i));
        derivative = hlo_add(h, hlo_mul(h, derivative, less), product);
        product = hlo_mul(h, product, less);
        tpj_value *weight = hlo_div(h, term, plus(h, s->beta, i));
        sum = hlo_add(h, sum, hlo_mul(h, weight, hlo_add(h, derivative, hlo_mul(h, factor, product))));
    }
    return zero_for_nan(h, hlo_mul(h, hlo_pow(h, s->x, from(h, 1, s->alpha)), sum));
}

/* Rice's saddle point within a tenth of a deviation from the mean. */
static tpj_value *dirichlet_at_mean(const part *s) {
    tpj_hlo *h = s->h;
    tpj_value *a = s->alpha, *b = s->beta, *x = s->x, *y = from(h, 1, x), *bb = square(h, b), *poly;
    poly = hlo_mul(h, times(h, y, 8), plus(h, times(h, b, 135), -11));
    tpj_value *cubic = hlo_add(h, hlo_mul(h, times(h, b, 1620), y), from(h, 453, times(h, x, 455)));
    poly = hlo_add(h, hlo_mul(h, cubic, b), hlo_mul(h, a, poly));
    tpj_value *quadratic = plus(h, hlo_sub(h, times(h, b, 180), times(h, x, 90)), 59);
    poly = hlo_add(h, hlo_mul(h, times(h, quadratic, 3), bb), hlo_mul(h, a, poly));
    tpj_value *linear = plus(h, hlo_mul(h, times(h, plus(h, times(h, b, 27), 16), 20), x), 43);
    poly = hlo_add(h, hlo_mul(h, hlo_mul(h, linear, bb), b), hlo_mul(h, a, poly));
    poly = hlo_add(h, hlo_mul(h, times(h, x, 47), square(h, bb)), hlo_mul(h, a, poly));
    tpj_value *numerator = hlo_mul(h, plus(h, times(h, a, 12), 1), plus(h, times(h, b, 12), 1));
    numerator = hlo_div(h, numerator, square(h, s->total));
    tpj_value *denominator = hlo_mul(h, hlo_mul(h, square(h, a), a), bb);
    denominator = hlo_mul(h, times(h, denominator, 12960), plus(h, times(h, s->total, 12), 1));
    return hlo_div(h, hlo_mul(h, hlo_div(h, numerator, y), poly), denominator);
}

/* 1 + 1 / (12 a) + 1 / (288 a^2) */
static tpj_value *stirling_of(tpj_hlo *h, tpj_value *a) {
    static const double coefficients[] = {1, 1.0 / 12, 1.0 / 288};
    return tpj_polynomial(h, coefficients, 3, over(h, 1, a));
}

static tpj_value *dirichlet_saddle(const part *s, tpj_value *mean) {
    tpj_hlo *h = s->h;
    tpj_value *a = s->alpha, *b = s->beta, *x = s->x, *total = s->total, *ab = hlo_mul(h, a, b), *y = plus(h, x, -1);
    tpj_value *stirling = hlo_div(h, hlo_mul(h, stirling_of(h, a), stirling_of(h, b)), stirling_of(h, total));
    tpj_value *factor = hlo_neg(h, hlo_div(h, x, hlo_sqrt(h, hlo_div(h, times(h, ab, 2), total))));
    tpj_value *off = hlo_add(h, hlo_mul(h, a, y), hlo_mul(h, b, x));
    tpj_value *term1 = hlo_mul(h, y, hlo_add(h, times(h, square(h, a), 2), ab));
    term1 = hlo_sub(h, term1, hlo_mul(h, x, square(h, b)));
    tpj_value *scale = hlo_mul(h, hlo_sqrt(h, times(h, hlo_div(h, a, b), 2)), power(h, total, 1.5));
    term1 = hlo_div(h, term1, hlo_mul(h, scale, square(h, off)));
    tpj_value *ratio = hlo_log(h, hlo_div(h, a, hlo_mul(h, total, x)));
    tpj_value *other = hlo_log(h, hlo_div(h, b, hlo_mul(h, total, from(h, 1, x))));
    tpj_value *term3 = hlo_div(h, hlo_sqrt(h, hlo_div(h, times(h, ab, 8), total)), off);
    tpj_value *term4 = power(h, hlo_add(h, hlo_mul(h, b, other), hlo_mul(h, a, ratio)), -1.5);
    term4 = hlo_select(h, hlo_compare(h, "LT", x, mean), term4, hlo_neg(h, term4));
    tpj_value *sum = hlo_add(h, term1, hlo_mul(h, times(h, ratio, 0.5), hlo_add(h, term3, term4)));
    return hlo_mul(h, hlo_mul(h, stirling, factor), sum);
}

/* Large parameters. F64: near the mean, terms of opposite sign grow without bound. */
static tpj_value *dirichlet_large(const part *narrow) {
    tpj_hlo *h = narrow->h;
    tpj_dtype dtype = narrow->x->type.dtype;
    part wide = {h, hlo_convert(h, narrow->x, TPJ_F64), hlo_convert(h, narrow->alpha, TPJ_F64), NULL,
                 hlo_convert(h, narrow->total, TPJ_F64)},
         *s = &wide;
    wide.beta = hlo_sub(h, wide.total, wide.alpha);
    tpj_value *mean = hlo_div(h, s->alpha, s->total), *variance = hlo_mul(h, s->alpha, s->beta);
    variance = hlo_div(h, variance, plus(h, s->total, 1));
    tpj_value *width = times(h, hlo_div(h, hlo_sqrt(h, variance), s->total), 0.1);
    tpj_value *at_mean = hlo_and(h, hlo_compare(h, "LE", hlo_sub(h, mean, width), s->x),
                                 hlo_compare(h, "LE", s->x, hlo_add(h, mean, width)));
    return hlo_convert(h, hlo_select(h, at_mean, dirichlet_at_mean(s), dirichlet_saddle(s, mean)), dtype);
}

/* [numerator, denominator][power of u][power of a][power of b] of dirichlet_fit */
static const double FIT[2][3][3][4] = {
    {{{1.003668233, -0.01061107488, -0.0657888334, 0.01201642863},
      {0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033},
      {-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013}},
     {{0.221950385, -0.3187676331, 0.01799915743, 0.01074823814},
      {-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057},
      {0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05}},
     {{-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565},
      {0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181},
      {0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05}}},
    {{{1, -0.02924021934, -0.04438342661, 0.007285809825},
      {0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521},
      {-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149}},
     {{0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273},
      {0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956},
      {-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05}},
     {{0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05},
      {0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05},
      {-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06}}},
};

static tpj_value *fit_part(tpj_hlo *h, const double coefficients[3][3][4], tpj_value *u, tpj_value *a, tpj_value *b) {
    tpj_value *sum = hlo_full_like(h, u, 0);
    for (int i = 2; i >= 0; i--) {
        tpj_value *row = hlo_full_like(h, u, 0);
        for (int j = 2; j >= 0; j--) row = hlo_add(h, hlo_mul(h, row, a), tpj_polynomial(h, coefficients[i][j], 4, b));
        sum = hlo_add(h, hlo_mul(h, sum, u), row);
    }
    return sum;
}

/* A rational correction in u = log(x), a = log(alpha / x), b = log(total) - a of an analytic approximation. */
static tpj_value *dirichlet_fit(const part *s) {
    tpj_hlo *h = s->h;
    tpj_value *u = hlo_log(h, s->x), *a = hlo_sub(h, hlo_log(h, s->alpha), u), *b = hlo_sub(h, hlo_log(h, s->total), a);
    tpj_value *ratio = hlo_div(h, fit_part(h, FIT[0], u, a, b), fit_part(h, FIT[1], u, a, b));
    tpj_value *approximation = hlo_sub(h, digamma(h, s->total), digamma(h, s->alpha));
    return hlo_mul(h, ratio, hlo_div(h, hlo_mul(h, s->x, approximation), s->beta));
}

static void emit_dirichlet_grad(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_promote(e, "x", "alpha", "total", NULL);
    if (!is_full(e, dtype)) return;
    part s = {.h = h, .x = tpj_in_as(e, "x", dtype), .alpha = tpj_in_as(e, "alpha", dtype)};
    s.total = tpj_in_as(e, "total", dtype);
    hlo_expand_together3(h, &s.x, &s.alpha, &s.total);
    s.beta = hlo_sub(h, s.total, s.alpha);
    tpj_value *edge = hlo_mul(h, hlo_mul(h, s.total, s.x), from(h, 1, s.x)), *y = dirichlet_fit(&s);
    tpj_value *large = hlo_and(h, tpj_compare_number(h, "GT", s.alpha, 6), tpj_compare_number(h, "GT", s.beta, 6));
    tpj_value *high = hlo_and(h, tpj_compare_number(h, "GE", s.x, 0.5), tpj_compare_number(h, "LT", edge, 0.75));
    tpj_value *low = hlo_and(h, tpj_compare_number(h, "LE", s.x, 0.5), tpj_compare_number(h, "LT", edge, 2.5));
    y = hlo_select(h, large, dirichlet_large(&s), y);
    y = hlo_select(h, high, dirichlet_high(&s), y);
    tpj_out_as(e, hlo_select(h, low, dirichlet_low(&s), y), dtype);
}

const tpj_op_def tpj_ops_distribution_grad[] = {
    {.name = "_standard_gamma_grad",
     .params = "T self, T output",
     .emit = emit_standard_gamma_grad,
     .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "_dirichlet_grad",
     .params = "T x, T alpha, T total",
     .emit = emit_dirichlet_grad,
     .layout = TPJ_LAYOUT_POINTWISE},
    {0},
};
