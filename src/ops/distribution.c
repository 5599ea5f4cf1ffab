/* Random numbers by rejection and search: gamma, Dirichlet, Poisson, binomial.
 *
 * All elements try at once in one loop, until each has accepted; a try draws from a stream whose seed is taken from the
 * generator, so that the generator advances by a fixed amount. Methods: Marsaglia and Tsang 2000 (gamma), Hormann 1993
 * (PTRS for Poisson, BTRS for binomial, where means are large), inversion of the distribution function (where they are
 * small). */
#include "ops/series.h"

enum { MOST_ROUNDS = 128 }; /* acceptance is above one half a round: more are never needed in practice */

/* A method: candidates from two uniform numbers in (0, 1), and which of them are accepted. `p` are its parameters, each
 * of the samples' shape. */
enum { MAX_PARAMETERS = 8 };
typedef struct method {
    void (*propose)(tpj_hlo *h, const struct method *m, tpj_value *u, tpj_value *v, tpj_value **out_candidate,
                    tpj_value **out_accepted);
    tpj_value *p[MAX_PARAMETERS];
    int n;
    /* the parameters inside of the loop, where they are carried along */
    tpj_value *const *carried;
} method;

enum { LOOP_STATE, LOOP_ROUND, LOOP_DONE, LOOP_SAMPLE, LOOP_FIXED };

static tpj_value *shaped(tpj_hlo *h, const tpj_value *like, tpj_dtype dtype, double value) {
    return hlo_full(h, dtype, like->type.rank, like->type.dims, value);
}

/* Uniform in the open interval (0, 1) from the stream. */
static tpj_value *draw(tpj_hlo *h, const tpj_value *like, tpj_value **state) {
    tpj_dtype dtype = like->type.dtype;
    bool wide = dtype == TPJ_F64;
    tpj_value *bits = hlo_random_bits(h, *state, wide ? TPJ_U64 : TPJ_U32, like->type.rank, like->type.dims, state);
    bits = hlo_binary(h, "shift_right_logical", bits, hlo_integer(h, bits->type.dtype, wide ? 12 : 9));
    tpj_value *cell = hlo_add(h, hlo_convert(h, bits, dtype), hlo_number(h, dtype, 0.5));
    return hlo_mul(h, cell, hlo_number(h, dtype, wide ? 0x1p-52 : 0x1p-23));
}

static void loop_continues(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    tpj_value *open = hlo_reduce_all(h, "or", hlo_not(h, arguments[LOOP_DONE]));
    results[0] = hlo_and(h, open, hlo_compare(h, "LT", arguments[LOOP_ROUND], hlo_integer(h, TPJ_I32, MOST_ROUNDS)));
}

static void loop_round(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    method *m = context;
    tpj_value *state = arguments[LOOP_STATE], *done = arguments[LOOP_DONE], *sample = arguments[LOOP_SAMPLE];
    tpj_value *u = draw(h, sample, &state), *v = draw(h, sample, &state), *candidate, *accepted;
    m->carried = arguments + LOOP_FIXED;
    m->propose(h, m, u, v, &candidate, &accepted);
    results[LOOP_STATE] = state;
    results[LOOP_ROUND] = hlo_add(h, arguments[LOOP_ROUND], hlo_integer(h, TPJ_I32, 1));
    results[LOOP_DONE] = hlo_or(h, done, accepted);
    results[LOOP_SAMPLE] = hlo_select(h, done, sample, candidate);
    for (int i = 0; i < m->n; i++) results[LOOP_FIXED + i] = arguments[LOOP_FIXED + i];
}

/* A stream of its own, seeded by the generator. */
static tpj_value *new_stream(tpj_emit *e) {
    static const int64_t two = 2;
    return tpj_random_bits(e, TPJ_U64, 1, &two);
}

static tpj_value *run(tpj_emit *e, method *m) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *like = m->p[0], *initial[LOOP_FIXED + MAX_PARAMETERS], *final[LOOP_FIXED + MAX_PARAMETERS];
    initial[LOOP_STATE] = new_stream(e);
    initial[LOOP_ROUND] = hlo_integer(h, TPJ_I32, 0);
    initial[LOOP_DONE] = shaped(h, like, TPJ_BOOL, 0);
    initial[LOOP_SAMPLE] = shaped(h, like, like->type.dtype, 0);
    for (int i = 0; i < m->n; i++) initial[LOOP_FIXED + i] = m->p[i];
    hlo_while(h, initial, LOOP_FIXED + m->n, loop_continues, loop_round, m, final);
    return final[LOOP_SAMPLE];
}

static tpj_value *log_gamma(tpj_hlo *h, tpj_value *x) { return hlo_unary(h, "chlo.lgamma", x); }
static tpj_value *square(tpj_hlo *h, tpj_value *x) { return hlo_mul(h, x, x); }

static tpj_dtype draw_dtype(tpj_dtype dtype) { return dtype == TPJ_F64 ? TPJ_F64 : TPJ_F32; }

static bool is_float(tpj_emit *e, tpj_dtype dtype) {
    if (tpj_dtype_is_float(dtype)) return true;
    tpj_fail_dtype(e, dtype);
    return false;
}

/* ---- gamma ---- */

enum { GAMMA_D, GAMMA_C };

static void propose_gamma(tpj_hlo *h, const method *m, tpj_value *u, tpj_value *v, tpj_value **out_candidate,
                          tpj_value **out_accepted) {
    tpj_value *d = m->carried[GAMMA_D], *c = m->carried[GAMMA_C];
    tpj_value *x = times(h, hlo_unary(h, "chlo.erf_inv", plus(h, times(h, u, 2), -1)), 1.41421356237309504880);
    tpj_value *root = plus(h, hlo_mul(h, c, x), 1), *positive = tpj_compare_number(h, "GT", root, 0);
    tpj_value *cube = hlo_mul(h, square(h, root), root), *safe = tpj_select_or(h, positive, cube, 1);
    tpj_value *slack = hlo_mul(h, d, hlo_add(h, hlo_sub(h, tpj_like(h, safe, 1), safe), hlo_log(h, safe)));
    tpj_value *bound = hlo_add(h, times(h, square(h, x), 0.5), slack);
    *out_candidate = hlo_mul(h, d, safe);
    *out_accepted = hlo_and(h, positive, hlo_compare(h, "LT", hlo_log(h, v), bound));
}

/* Gamma of shape alpha and scale 1. Below 1 the shape is raised by one, and the sample scaled by u^(1 / alpha). */
static tpj_value *sample_gamma(tpj_emit *e, tpj_value *alpha) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *small = tpj_compare_number(h, "LT", alpha, 1), *stream = new_stream(e);
    tpj_value *d = plus(h, hlo_select(h, small, plus(h, alpha, 1), alpha), -1.0 / 3);
    method m = {.propose = propose_gamma, .p = {d, hlo_rsqrt(h, times(h, d, 9))}, .n = 2};
    tpj_value *sample = run(e, &m), *u = draw(h, alpha, &stream);
    tpj_value *scale = hlo_exp(h, hlo_div(h, hlo_log(h, u), alpha));
    sample = hlo_mul(h, sample, tpj_select_or(h, small, scale, 1));
    return hlo_max(h, sample, tpj_like(h, sample, alpha->type.dtype == TPJ_F64 ? 0x1p-1022 : 0x1p-126));
}

static void emit_standard_gamma(tpj_emit *e) {
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (is_float(e, dtype)) tpj_out_as(e, sample_gamma(e, tpj_in_as(e, "self", draw_dtype(dtype))), dtype);
}

static void emit_sample_dirichlet(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (!is_float(e, dtype)) return;
    tpj_value *gamma = sample_gamma(e, tpj_in_as(e, "self", draw_dtype(dtype)));
    int last = gamma->type.rank - 1;
    tpj_value *sum = gamma->type.rank > 0 ? hlo_unsqueeze(h, hlo_reduce_dim(h, "add", gamma, last), last) : gamma;
    tpj_out_as(e, hlo_div(h, gamma, hlo_expand(h, sum, gamma->type.rank, gamma->type.dims)), dtype);
}

enum { SMALL_MEAN = 10 }; /* below it by inversion, above by rejection */

/* ---- inversion: the first k whose summed probability exceeds a uniform number ---- */

/* term(k + 1) = term(k) * ratio(k). */
enum { SUM_K, SUM_TERM, SUM_TOTAL, SUM_U, SUM_A, SUM_B, SUM_STATES };
enum { MOST_TERMS = 256 }; /* means are below 10 here */

/* More terms are wanted, and worth adding: beyond the mean a tiny term means that u lies above the rounded total. */
static tpj_value *sum_is_open(tpj_hlo *h, tpj_value *const *arguments) {
    tpj_value *k = arguments[SUM_K], *before_mean = tpj_compare_number(h, "LT", k, SMALL_MEAN);
    tpj_value *counts = hlo_or(h, before_mean, tpj_compare_number(h, "GT", arguments[SUM_TERM], 1e-10));
    counts = hlo_and(h, counts, tpj_compare_number(h, "LT", k, MOST_TERMS));
    return hlo_and(h, counts, hlo_compare(h, "GT", arguments[SUM_U], arguments[SUM_TOTAL]));
}

static void sum_continues(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    results[0] = hlo_reduce_all(h, "or", sum_is_open(h, arguments));
}

/* Poisson's terms: a = lambda. Binomial's: a = n, b = p / (1 - p). */
static void sum_term(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    const bool *binomial = context;
    tpj_value *k = arguments[SUM_K], *term = arguments[SUM_TERM], *total = arguments[SUM_TOTAL], *u = arguments[SUM_U];
    tpj_value *a = arguments[SUM_A], *b = arguments[SUM_B], *next = plus(h, k, 1);
    tpj_value *ratio = *binomial ? hlo_div(h, hlo_mul(h, hlo_sub(h, a, k), b), next) : hlo_div(h, a, next);
    tpj_value *open = sum_is_open(h, arguments);
    tpj_value *grown = hlo_mul(h, term, ratio);
    results[SUM_K] = hlo_select(h, open, next, k);
    results[SUM_TERM] = hlo_select(h, open, grown, term);
    results[SUM_TOTAL] = hlo_select(h, open, hlo_add(h, total, grown), total);
    results[SUM_U] = u;
    results[SUM_A] = a;
    results[SUM_B] = b;
}

static tpj_value *invert(tpj_emit *e, tpj_value *first_term, tpj_value *a, tpj_value *b, bool binomial) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *stream = new_stream(e), *u = draw(h, a, &stream), *final[SUM_STATES];
    tpj_value *initial[SUM_STATES] = {shaped(h, a, a->type.dtype, 0), first_term, first_term, u, a, b};
    hlo_while(h, initial, SUM_STATES, sum_continues, sum_term, &binomial, final);
    return final[SUM_K];
}

/* ---- what the two transformed rejections share ---- */

/* floor((2 a / us + b) u + c), with u centred and us its distance from the ends; the squeeze that accepts at once. */
static tpj_value *transformed(tpj_hlo *h, tpj_value *a, tpj_value *b, tpj_value *c, tpj_value *u, tpj_value **out_us) {
    tpj_value *centred = plus(h, u, -0.5);
    *out_us = hlo_sub(h, tpj_like(h, u, 0.5), hlo_abs(h, centred));
    tpj_value *slope = hlo_add(h, hlo_div(h, times(h, a, 2), *out_us), b);
    return hlo_unary(h, "floor", hlo_add(h, hlo_mul(h, slope, centred), c));
}

static tpj_value *quick_accept(tpj_hlo *h, tpj_value *us, tpj_value *v, tpj_value *limit) {
    return hlo_and(h, tpj_compare_number(h, "GE", us, 0.07), hlo_compare(h, "LE", v, limit));
}

/* v * scale / (a / us^2 + b): what is compared with the density. */
static tpj_value *hat(tpj_hlo *h, tpj_value *v, tpj_value *scale, tpj_value *a, tpj_value *b, tpj_value *us) {
    return hlo_div(h, hlo_mul(h, v, scale), hlo_add(h, hlo_div(h, a, square(h, us)), b));
}

/* ---- Poisson ---- */

static void propose_poisson(tpj_hlo *h, const method *m, tpj_value *u, tpj_value *v, tpj_value **out_candidate,
                            tpj_value **out_accepted) {
    tpj_value *rate = m->carried[0], *us;
    tpj_value *b = plus(h, times(h, hlo_sqrt(h, rate), 2.53), 0.931), *a = plus(h, times(h, b, 0.02483), -0.059);
    tpj_value *scale = plus(h, hlo_div(h, tpj_like(h, b, 1.1328), plus(h, b, -3.4)), 1.1239);
    tpj_value *limit = hlo_sub(h, tpj_like(h, b, 0.9277), hlo_div(h, tpj_like(h, b, 3.6224), plus(h, b, -2)));
    tpj_value *k = transformed(h, a, b, plus(h, rate, 0.43), u, &us), *quick = quick_accept(h, us, v, limit);
    tpj_value *possible = tpj_compare_number(h, "GE", k, 0), *safe = tpj_select_or(h, possible, k, 0);
    tpj_value *density =
        hlo_sub(h, hlo_sub(h, hlo_mul(h, safe, hlo_log(h, rate)), rate), log_gamma(h, plus(h, safe, 1)));
    tpj_value *below = hlo_compare(h, "LE", hlo_log(h, hat(h, v, scale, a, b, us)), density);
    *out_candidate = safe;
    *out_accepted = hlo_and(h, possible, hlo_or(h, quick, below));
}

static void emit_poisson(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (!is_float(e, dtype)) return;
    tpj_value *rate = tpj_in_as(e, "self", draw_dtype(dtype));
    tpj_value *is_small = tpj_compare_number(h, "LT", rate, SMALL_MEAN);
    tpj_value *low = hlo_min(h, rate, tpj_like(h, rate, SMALL_MEAN));
    tpj_value *few = invert(e, hlo_exp(h, hlo_neg(h, low)), low, low, false);
    method m = {.propose = propose_poisson, .p = {hlo_max(h, rate, tpj_like(h, rate, SMALL_MEAN))}, .n = 1};
    tpj_out_as(e, hlo_select(h, is_small, few, run(e, &m)), dtype);
}

/* ---- binomial ---- */

enum { TRIALS, CHANCE };

static void propose_binomial(tpj_hlo *h, const method *m, tpj_value *u, tpj_value *v, tpj_value **out_candidate,
                             tpj_value **out_accepted) {
    tpj_value *n = m->carried[TRIALS], *p = m->carried[CHANCE], *q = hlo_sub(h, tpj_like(h, p, 1), p), *us;
    tpj_value *mean = hlo_mul(h, n, p), *deviation = hlo_sqrt(h, hlo_mul(h, mean, q));
    tpj_value *b = plus(h, times(h, deviation, 2.53), 1.15);
    tpj_value *a = plus(h, hlo_add(h, times(h, b, 0.0248), times(h, p, 0.01)), -0.0873);
    tpj_value *limit = hlo_sub(h, tpj_like(h, b, 0.92), hlo_div(h, tpj_like(h, b, 4.2), b));
    tpj_value *scale = hlo_mul(h, plus(h, hlo_div(h, tpj_like(h, b, 5.1), b), 2.83), deviation);
    tpj_value *k = transformed(h, a, b, plus(h, mean, 0.5), u, &us), *quick = quick_accept(h, us, v, limit);
    tpj_value *possible = hlo_and(h, tpj_compare_number(h, "GE", k, 0), hlo_compare(h, "LE", k, n));
    tpj_value *safe = tpj_select_or(h, possible, k, 0), *mode = hlo_unary(h, "floor", hlo_mul(h, plus(h, n, 1), p));
    /* the density relative to the one at the mode */
    tpj_value *at_mode = hlo_add(h, log_gamma(h, plus(h, mode, 1)), log_gamma(h, plus(h, hlo_sub(h, n, mode), 1)));
    tpj_value *at_k = hlo_add(h, log_gamma(h, plus(h, safe, 1)), log_gamma(h, plus(h, hlo_sub(h, n, safe), 1)));
    tpj_value *odds = hlo_mul(h, hlo_sub(h, safe, mode), hlo_log(h, hlo_div(h, p, q)));
    tpj_value *density = hlo_add(h, hlo_sub(h, at_mode, at_k), odds);
    tpj_value *below = hlo_compare(h, "LE", hlo_log(h, hat(h, v, scale, a, b, us)), density);
    *out_candidate = safe;
    *out_accepted = hlo_and(h, possible, hlo_or(h, quick, below));
}

static void emit_binomial(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_promote(e, "count", "prob", NULL);
    if (!is_float(e, tpj_in_type(e, "count").dtype) || !is_float(e, tpj_in_type(e, "prob").dtype)) return;
    tpj_value *n = tpj_in_as(e, "count", draw_dtype(dtype)), *p = tpj_in_as(e, "prob", draw_dtype(dtype));
    hlo_expand_together(h, &n, &p);
    tpj_value *mirrored = tpj_compare_number(h, "GT", p, 0.5), *q = hlo_sub(h, tpj_like(h, p, 1), p);
    tpj_value *chance = hlo_select(h, mirrored, q, p), *mean = hlo_mul(h, n, chance);
    tpj_value *is_small = tpj_compare_number(h, "LT", mean, SMALL_MEAN);
    /* each method gets parameters that it can work with where it is not the one that counts */
    tpj_value *few_n = tpj_select_or(h, is_small, n, 1), *few_p = tpj_select_or(h, is_small, chance, 0.25);
    tpj_value *complement = hlo_sub(h, tpj_like(h, few_p, 1), few_p);
    tpj_value *none = hlo_exp(h, hlo_mul(h, few_n, hlo_log(h, complement)));
    tpj_value *few = hlo_min(h, invert(e, none, few_n, hlo_div(h, few_p, complement), true), few_n);
    tpj_value *many_n = hlo_select(h, is_small, tpj_like(h, n, 4 * SMALL_MEAN), n);
    tpj_value *many_p = hlo_select(h, is_small, tpj_like(h, n, 0.5), chance);
    method m = {.propose = propose_binomial, .p = {many_n, many_p}, .n = 2};
    tpj_value *sample = hlo_select(h, is_small, few, run(e, &m));
    tpj_out_as(e, hlo_select(h, mirrored, hlo_sub(h, n, sample), sample), dtype);
}

const tpj_op_def tpj_ops_distribution[] = {
    {.name = "_standard_gamma",
     .params = "T self, G generator=None",
     .emit = emit_standard_gamma,
     .flags = TPJ_OP_RANDOM},
    {.name = "_sample_dirichlet",
     .params = "T self, G generator=None",
     .emit = emit_sample_dirichlet,
     .flags = TPJ_OP_RANDOM},
    {.name = "poisson", .params = "T self, G generator=None", .emit = emit_poisson, .flags = TPJ_OP_RANDOM},
    {.name = "binomial", .params = "T count, T prob, G generator=None", .emit = emit_binomial, .flags = TPJ_OP_RANDOM},
    {0},
};
