/* Random numbers: dropout, uniform, normal and integer fills, distributions by transformation, permutations, sampling.
 *
 * Probabilities, means and bounds are operands: a changing dropout rate does not recompile. */
#include <float.h>
#include <math.h>

#include "ops/indexing.h"

/* The dtype that draws are made in. */
static tpj_dtype draw_dtype(tpj_dtype dtype) {
    tpj_dtype real = hlo_real_dtype(dtype);
    return real == TPJ_F64 ? TPJ_F64 : TPJ_F32;
}

/* true with probability p (a value of dtype F32 or F64, scalar or of these dims). */
static tpj_value *coin(tpj_emit *e, tpj_value *p, int rank, const int64_t *dims) {
    return hlo_compare(tpj_builder(e), "LT", tpj_random_uniform(e, p->type.dtype, rank, dims), p);
}

/* ---- dropout ---- */

/* Fails where a tensor of probabilities holds one that is none; NaN is none. */
static void check_probabilities(tpj_emit *e, tpj_value *p) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *fine = hlo_and(h, hlo_compare(h, "GE", p, hlo_number(h, p->type.dtype, 0)),
                              hlo_compare(h, "LE", p, hlo_number(h, p->type.dtype, 1)));
    tpj_check(e, hlo_not(h, fine), "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
}

/* x where the mask is set, scaled; zero elsewhere (so that an infinity that was dropped leaves no NaN). */
static tpj_value *keep_scaled(tpj_hlo *h, tpj_value *x, tpj_value *mask, tpj_value *scale) {
    tpj_dtype dtype = x->type.dtype, compute = tpj_compute_dtype(dtype);
    tpj_value *scaled = hlo_mul(h, hlo_convert(h, x, compute), hlo_convert(h, scale, compute));
    return hlo_convert(h, hlo_select(h, mask, scaled, hlo_number(h, compute, 0)), dtype);
}

static void emit_native_dropout(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "input");
    if (!tpj_bool(e, "train", true)) {
        tpj_out(e, x);
        tpj_out(e, hlo_full(h, TPJ_BOOL, x->type.rank, x->type.dims, 1));
        return;
    }
    tpj_dtype draw = draw_dtype(x->type.dtype);
    tpj_require(e, "p", 0, 1, "dropout probability has to be between 0 and 1, but got ");
    tpj_value *p = tpj_scalar(e, "p", draw), *one = hlo_number(h, draw, 1), *keep = hlo_sub(h, one, p);
    tpj_value *mask = hlo_compare(h, "GE", tpj_random_uniform(e, draw, x->type.rank, x->type.dims), p);
    tpj_value *scale = hlo_select(h, hlo_compare(h, "EQ", p, one), hlo_number(h, draw, 0), hlo_div(h, one, keep));
    tpj_out(e, keep_scaled(h, x, mask, scale));
    tpj_out(e, mask);
}

static void emit_native_dropout_backward(tpj_emit *e) {
    tpj_dtype dtype = tpj_float_dtype(e, tpj_in_type(e, "grad_output").dtype); /* integers times a float scale */
    tpj_value *grad = tpj_in_as(e, "grad_output", dtype), *mask = tpj_in_as(e, "mask", TPJ_BOOL);
    tpj_value *scale = tpj_scalar(e, "scale", tpj_compute_dtype(grad->type.dtype));
    tpj_out(e, keep_scaled(tpj_builder(e), grad, mask, scale));
}

static void emit_masked_scale(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self"), *mask = tpj_in_as(e, "mask", TPJ_BOOL);
    tpj_out(e, keep_scaled(tpj_builder(e), x, mask, tpj_scalar(e, "scale", tpj_compute_dtype(x->type.dtype))));
}

/* p is the probability to keep here. */
static void emit_fused_dropout(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    tpj_value *p = tpj_scalar(e, "p", draw_dtype(x->type.dtype)), *one = hlo_number(h, p->type.dtype, 1);
    tpj_value *mask = coin(e, p, x->type.rank, x->type.dims);
    tpj_out(e, keep_scaled(h, x, mask, hlo_div(h, one, p)));
    tpj_out_as(e, mask, TPJ_U8);
}

/* ---- bernoulli ---- */

enum { BERNOULLI_SELF, BERNOULLI_NUMBER, BERNOULLI_TENSOR };

static void emit_bernoulli(tpj_emit *e) {
    tpj_type type = tpj_in_type(e, "self");
    int form = tpj_row(e)->variant;
    tpj_value *p;
    if (tpj_dtype_is_complex(type.dtype)) {
        tpj_fail(e, TPJ_NOT_IMPLEMENTED, "\"bernoulli\" not implemented for '%s'", tpj_dtype_torch_name(type.dtype));
        return;
    }
    if (form == BERNOULLI_NUMBER) {
        tpj_require(e, "p", 0, 1, "bernoulli_ expects p to be in [0, 1], but got p=");
        p = tpj_scalar(e, "p", draw_dtype(type.dtype));
    } else {
        const char *name = form == BERNOULLI_SELF ? "self" : "p";
        p = tpj_in_as(e, name, draw_dtype(tpj_in_type(e, name).dtype));
        check_probabilities(e, p);
        p = hlo_expand(tpj_builder(e), p, type.rank, type.dims);
    }
    tpj_out_as(e, coin(e, p, type.rank, type.dims), type.dtype);
}

/* ---- floats ---- */

/* The bits of a mantissa, the hidden one included. */
static int mantissa_bits(tpj_dtype dtype) {
    switch (dtype) {
        case TPJ_F16: return 11;
        case TPJ_BF16: return 8;
        case TPJ_F64: return 53;
        default: return 24;
    }
}

/* Uniform in [0, 1) that stays below 1 when it is rounded to `dtype`. */
static tpj_value *uniform(tpj_emit *e, tpj_dtype dtype, int rank, const int64_t *dims) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype draw = draw_dtype(dtype);
    tpj_value *u = tpj_random_uniform(e, draw, rank, dims);
    if (!tpj_dtype_is_half(dtype)) return u;
    double cells = ldexp(1, mantissa_bits(dtype));
    u = hlo_unary(h, "floor", hlo_mul(h, u, hlo_number(h, draw, cells)));
    return hlo_mul(h, u, hlo_number(h, draw, 1 / cells));
}

typedef tpj_value *(*draw_function)(tpj_emit *e, tpj_dtype dtype, int rank, const int64_t *dims);

/* scale * draw + shift in `dtype`; both parts of a complex number are drawn. */
static tpj_value *draw_scaled(tpj_emit *e, draw_function draw, tpj_dtype dtype, int rank, const int64_t *dims,
                              tpj_value *scale, tpj_value *shift) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *parts[2];
    int n = tpj_dtype_is_complex(dtype) ? 2 : 1;
    for (int i = 0; i < n; i++) {
        parts[i] = hlo_add(h, hlo_mul(h, draw(e, hlo_real_dtype(dtype), rank, dims), scale), shift);
    }
    return n == 2 ? hlo_complex(h, parts[0], parts[1]) : hlo_convert(h, parts[0], dtype);
}

/* Draws into what has no such kernel in PyTorch. */
static bool refuse(tpj_emit *e, tpj_code code, tpj_dtype dtype) {
    tpj_fail(e, code, "\"%s\" not implemented for '%s'", tpj_row(e)->name, tpj_dtype_torch_name(dtype));
    return false;
}

static bool floats_ok(tpj_emit *e, tpj_dtype dtype) {
    return !tpj_dtype_is_integral(dtype) || refuse(e, TPJ_NOT_IMPLEMENTED, dtype);
}

/* `code`: PyTorch's continuous distributions differ in how they refuse integers and complex numbers. */
static bool reals_ok(tpj_emit *e, tpj_code code, tpj_dtype dtype) {
    return (!tpj_dtype_is_integral(dtype) && !tpj_dtype_is_complex(dtype)) || refuse(e, code, dtype);
}

/* What a dtype can hold, as PyTorch bounds the numbers of a fill. */
static void extremes(tpj_dtype dtype, double *out_low, double *out_high) {
    static const double greatest[] = {
        [TPJ_F16] = 65504, [TPJ_BF16] = 0x1.fep127, [TPJ_F32] = FLT_MAX, [TPJ_F64] = DBL_MAX};
    dtype = hlo_real_dtype(dtype);
    if (tpj_dtype_is_float(dtype)) {
        bool is_known = (size_t)dtype < sizeof greatest / sizeof greatest[0] && greatest[dtype] > 0;
        *out_high = is_known ? greatest[dtype] : INFINITY;
        *out_low = -*out_high;
        return;
    }
    int bits = dtype == TPJ_BOOL ? 1 : 8 * (int)tpj_dtype_bytes(dtype) - (tpj_dtype_is_unsigned(dtype) ? 0 : 1);
    *out_high = ldexp(1, bits) - 1;
    *out_low = dtype == TPJ_BOOL || tpj_dtype_is_unsigned(dtype) ? 0 : -ldexp(1, bits);
}

static void emit_uniform(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, "self");
    if (!floats_ok(e, type.dtype)) return;
    double low, high;
    extremes(type.dtype, &low, &high);
    tpj_require(e, "from", low, high, "uniform_ expects bounds that the dtype can hold, but from is ");
    tpj_require(e, "to", low, high, "uniform_ expects bounds that the dtype can hold, but to is ");
    tpj_require_order(e, "from", "to", true, "uniform_ expects to return a [from, to) range, but found from > to: ");
    tpj_require_distance(e, "from", "to", high, "uniform_ expects to - from to be a number of the dtype, but found ");
    tpj_value *from = tpj_scalar(e, "from", draw_dtype(type.dtype)), *to = tpj_scalar(e, "to", draw_dtype(type.dtype));
    tpj_out(e, draw_scaled(e, uniform, type.dtype, type.rank, type.dims, hlo_sub(h, to, from), from));
}

static tpj_value *normal(tpj_emit *e, tpj_dtype dtype, int rank, const int64_t *dims) {
    return tpj_random_normal(e, draw_dtype(dtype), rank, dims);
}

/* The deviation of each part of a complex number is that of the whole over the square root of two. */
static tpj_value *part_deviation(tpj_hlo *h, tpj_value *std, tpj_dtype dtype) {
    return tpj_dtype_is_complex(dtype) ? hlo_mul(h, std, hlo_number(h, std->type.dtype, sqrt(0.5))) : std;
}

static void emit_normal_fill(tpj_emit *e) {
    tpj_type type = tpj_in_type(e, "self");
    tpj_require(e, "std", 0, INFINITY, "normal expects std >= 0.0, but found std ");
    if (!floats_ok(e, type.dtype)) return;
    tpj_value *mean = tpj_scalar(e, "mean", draw_dtype(type.dtype)),
              *std = tpj_scalar(e, "std", draw_dtype(type.dtype));
    std = part_deviation(tpj_builder(e), std, type.dtype);
    tpj_out(e, draw_scaled(e, normal, type.dtype, type.rank, type.dims, std, mean));
}

enum { MEAN_TENSOR = 1, STD_TENSOR = 2 };

/* Means and deviations as tensors; the result has their common shape. */
static void emit_normal(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int form = tpj_row(e)->variant;
    tpj_dtype dtype = tpj_in_type(e, form & MEAN_TENSOR ? "mean" : "std").dtype, draw = draw_dtype(dtype);
    if (!floats_ok(e, dtype)) return;
    if (tpj_dtype_is_complex(dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "normal expects real means and deviations");
        return;
    }
    tpj_value *mean = form & MEAN_TENSOR ? tpj_in_as(e, "mean", draw) : tpj_scalar(e, "mean", draw);
    tpj_value *std = form & STD_TENSOR ? tpj_in_as(e, "std", draw) : tpj_scalar(e, "std", draw);
    if (form & STD_TENSOR)
        tpj_check(e, hlo_compare(h, "LT", std, hlo_number(h, draw, 0)), "normal expects all elements of std >= 0.0");
    else
        tpj_require(e, "std", 0, INFINITY, "normal expects std >= 0.0, but found std ");
    hlo_expand_together(h, &mean, &std);
    tpj_value *noise = tpj_random_normal(e, draw, mean->type.rank, mean->type.dims);
    tpj_out_as(e, hlo_add(h, hlo_mul(h, noise, std), mean), dtype);
}

/* -log(1 - u): exponential of rate 1, never zero, so that it may divide. */
static tpj_value *standard_exponential(tpj_emit *e, tpj_dtype draw, int rank, const int64_t *dims) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *u = tpj_random_uniform(e, draw, rank, dims);
    tpj_value *x = hlo_neg(h, hlo_unary(h, "log_plus_one", hlo_neg(h, u)));
    return hlo_max(h, x, hlo_number(h, draw, ldexp(1, -mantissa_bits(draw) - 1)));
}

static void emit_exponential(tpj_emit *e) {
    tpj_type type = tpj_in_type(e, "self");
    tpj_require(e, "lambd", DBL_TRUE_MIN, INFINITY, "exponential_ expects lambda > 0.0, but found lambda=");
    if (!reals_ok(e, TPJ_RUNTIME, type.dtype)) return;
    tpj_value *x = standard_exponential(e, draw_dtype(type.dtype), type.rank, type.dims);
    tpj_out_as(e, hlo_div(tpj_builder(e), x, tpj_scalar(e, "lambd", x->type.dtype)), type.dtype);
}

/* How often one has to try, at least once. Integers have it too. */
static void emit_geometric(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, "self");
    tpj_require(e, "p", DBL_TRUE_MIN, 1 - DBL_EPSILON / 2, "geometric_ expects p to be in (0, 1), but got p=");
    tpj_value *x = standard_exponential(e, draw_dtype(type.dtype), type.rank, type.dims);
    tpj_value *rate = hlo_neg(h, hlo_unary(h, "log_plus_one", hlo_neg(h, tpj_scalar(e, "p", x->type.dtype))));
    tpj_value *tries = hlo_unary(h, "ceil", hlo_div(h, x, rate));
    tpj_out_as(e, hlo_max(h, tries, hlo_number(h, x->type.dtype, 1)), type.dtype);
}

static void emit_log_normal(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, "self");
    tpj_dtype draw = draw_dtype(type.dtype);
    tpj_require(e, "std", DBL_TRUE_MIN, INFINITY, "log_normal_ expects std > 0.0, but found std=");
    if (!reals_ok(e, TPJ_NOT_IMPLEMENTED, type.dtype)) return;
    tpj_value *noise = tpj_random_normal(e, draw, type.rank, type.dims);
    tpj_value *exponent = hlo_add(h, hlo_mul(h, noise, tpj_scalar(e, "std", draw)), tpj_scalar(e, "mean", draw));
    tpj_out_as(e, hlo_exp(h, exponent), type.dtype);
}

static void emit_cauchy(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, "self");
    tpj_dtype draw = draw_dtype(type.dtype);
    tpj_require(e, "sigma", DBL_TRUE_MIN, INFINITY, "cauchy_ expects sigma > 0.0, but found sigma=");
    if (!reals_ok(e, TPJ_RUNTIME, type.dtype)) return;
    tpj_value *u = tpj_random_uniform(e, draw, type.rank, type.dims);
    tpj_value *angle = hlo_mul(h, hlo_sub(h, u, hlo_number(h, draw, 0.5)), hlo_number(h, draw, 3.14159265358979323846));
    tpj_value *slope = hlo_unary(h, "tan", angle);
    tpj_out_as(e, hlo_add(h, hlo_mul(h, slope, tpj_scalar(e, "sigma", draw)), tpj_scalar(e, "median", draw)),
               type.dtype);
}

/* ---- integers ---- */

/* low + bits mod span; a span of zero is that of all 64 bits. Spans of 32 bits draw and divide in 32. */
static tpj_value *integers_between(tpj_emit *e, tpj_value *low, uint64_t span, int rank, const int64_t *dims) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = span != 0 && span <= UINT32_MAX ? TPJ_U32 : TPJ_U64;
    tpj_value *rest = tpj_random_bits(e, dtype, rank, dims);
    if (span != 0) rest = hlo_binary(h, "remainder", rest, hlo_integer(h, dtype, (int64_t)span));
    rest = dtype == TPJ_U64 ? hlo_bitcast(h, rest, TPJ_I64) : hlo_convert(h, rest, TPJ_I64);
    return hlo_add(h, rest, low);
}

/* Bounds that are given at run time, [low, high); low NULL: 0. For spans of 32 bits, which draw as those that are known do:
 * a seed gives the same numbers either way. */
static tpj_value *integers_given(tpj_emit *e, const char *low, const char *high, int rank, const int64_t *dims) {
    tpj_hlo *h = tpj_builder(e);
    if (!tpj_has(e, high) || tpj_is_constant(e, high) || (low != NULL && tpj_is_constant(e, low))) {
        tpj_fail(e, TPJ_NOT_IMPLEMENTED, "one bound is known and the other is not");
        return hlo_zeros(h, TPJ_I64, rank, dims);
    }
    tpj_fit_span(e, low, high, UINT32_MAX);
    tpj_value *from = low != NULL ? tpj_scalar(e, low, TPJ_I64) : hlo_integer(h, TPJ_I64, 0);
    tpj_value *span = hlo_convert(h, hlo_sub(h, tpj_scalar(e, high, TPJ_I64), from), TPJ_U32);
    tpj_value *rest = hlo_binary(h, "remainder", tpj_random_bits(e, TPJ_U32, rank, dims), span);
    return hlo_add(h, hlo_convert(h, rest, TPJ_I64), from);
}

static bool bounds_are_known(tpj_emit *e, const char *low, const char *high) {
    return (low == NULL || tpj_is_constant(e, low)) && (!tpj_has(e, high) || tpj_is_constant(e, high));
}

static bool bounds_ok(tpj_emit *e, int64_t low, int64_t high) {
    if (low < high) return true;
    tpj_fail(e, TPJ_RUNTIME, "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld",
             (long long)low, (long long)high);
    return false;
}

/* One more than the largest number that random_() gives for a dtype: what a mantissa holds, or an integer type. */
static uint64_t random_limit(tpj_dtype dtype) {
    if (dtype == TPJ_BOOL) return 2;
    if (tpj_dtype_is_float(dtype)) return ((uint64_t)1 << mantissa_bits(dtype)) + 1;
    int bits = 8 * (int)tpj_dtype_bytes(dtype) - (tpj_dtype_is_unsigned(dtype) ? 0 : 1);
    return bits >= 64 ? 0 : (uint64_t)1 << bits;
}

enum { RANDOM_ALL, RANDOM_TO, RANDOM_FROM };

static void emit_random(tpj_emit *e) {
    tpj_type type = tpj_in_type(e, "self");
    int form = tpj_row(e)->variant;
    if (tpj_dtype_is_complex(type.dtype)) {
        refuse(e, form == RANDOM_ALL ? TPJ_NOT_IMPLEMENTED : TPJ_RUNTIME, type.dtype);
        return;
    }
    double lowest, highest;
    extremes(type.dtype, &lowest, &highest);
    if (form == RANDOM_FROM)
        tpj_require(e, "from", lowest, highest, "random_ expects from to be a number of the dtype, but got ");
    if (form != RANDOM_ALL)
        tpj_require(e, "to", lowest + 1, highest + 1,
                    "random_ expects to - 1 to be a number of the dtype, but got to=");
    if (form != RANDOM_ALL && !bounds_are_known(e, form == RANDOM_FROM ? "from" : NULL, "to")) {
        tpj_out_as(e, integers_given(e, form == RANDOM_FROM ? "from" : NULL, "to", type.rank, type.dims), type.dtype);
        return;
    }
    int64_t low = form == RANDOM_FROM ? tpj_int(e, "from", 0) : 0;
    uint64_t span = random_limit(type.dtype) - (uint64_t)low;
    if (form != RANDOM_ALL && tpj_has(e, "to")) {
        int64_t high = tpj_int(e, "to", 0);
        if (!bounds_ok(e, low, high)) return;
        span = (uint64_t)high - (uint64_t)low;
    }
    tpj_value *from = hlo_integer(tpj_builder(e), TPJ_I64, low);
    tpj_out_as(e, integers_between(e, from, span, type.rank, type.dims), type.dtype);
}

enum { RANDINT_LOW = 1, RANDINT_LIKE = 2 };

static void emit_randint(tpj_emit *e) {
    int form = tpj_row(e)->variant, rank = 0;
    tpj_type like = {.dtype = TPJ_I64};
    const int64_t *dims;
    if (form & RANDINT_LIKE) {
        like = tpj_in_type(e, "self");
        rank = like.rank;
        dims = like.dims;
    } else {
        dims = tpj_ints(e, "size", &rank);
    }
    const char *from_name = form & RANDINT_LOW ? "low" : NULL;
    if (!bounds_are_known(e, from_name, "high")) {
        tpj_value *drawn = integers_given(e, from_name, "high", rank, dims);
        tpj_out_as(e, drawn, tpj_dtype_of(e, "dtype", like.dtype));
        return;
    }
    int64_t low = form & RANDINT_LOW ? tpj_int(e, "low", 0) : 0, high = tpj_int(e, "high", 0);
    if (!bounds_ok(e, low, high)) return;
    tpj_value *from = hlo_integer(tpj_builder(e), TPJ_I64, low);
    tpj_value *numbers = integers_between(e, from, (uint64_t)high - (uint64_t)low, rank, dims);
    tpj_out_as(e, numbers, tpj_dtype_of(e, "dtype", like.dtype));
}

/* Sorts by random keys. Equal keys keep their order: with 64 bits they do not occur in practice. */
static void emit_randperm(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int64_t n = tpj_int(e, "n", 0);
    if (n < 0) {
        tpj_fail(e, TPJ_RUNTIME, "n must be non-negative, got %lld", (long long)n);
        return;
    }
    tpj_value *keys, *order;
    tpj_sort(h, tpj_random_bits(e, TPJ_U64, 1, &n), 0, false, &keys, &order);
    tpj_out_as(e, order, tpj_dtype_of(e, "dtype", TPJ_I64));
}

/* ---- factories ---- */

enum { DRAW_UNIFORM, DRAW_NORMAL, DRAW_LIKE = 2 };

static void emit_rand(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int form = tpj_row(e)->variant, rank = 0;
    tpj_type like = {.dtype = tpj_default_dtype(e)};
    const int64_t *dims;
    if (form & DRAW_LIKE) {
        like = tpj_in_type(e, "self");
        rank = like.rank;
        dims = like.dims;
    } else {
        dims = tpj_ints(e, "size", &rank);
    }
    tpj_dtype dtype = tpj_dtype_of(e, "dtype", like.dtype), draw = draw_dtype(dtype);
    if (!floats_ok(e, dtype)) return;
    tpj_value *one = hlo_number(h, draw, 1), *zero = hlo_number(h, draw, 0);
    bool is_normal = (form & DRAW_NORMAL) != 0;
    tpj_value *scale = is_normal ? part_deviation(h, one, dtype) : one;
    tpj_out(e, draw_scaled(e, is_normal ? normal : uniform, dtype, rank, dims, scale, zero));
}

/* ---- rrelu ---- */

/* Negative elements are multiplied with a random slope, which is returned for the gradient. */
static void emit_rrelu_with_noise(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *self = tpj_in(e, "self");
    tpj_dtype dtype = self->type.dtype, compute = draw_dtype(dtype);
    if (!floats_ok(e, dtype)) return;
    tpj_value *x = hlo_convert(h, self, compute), *lower = tpj_scalar(e, "lower", compute);
    tpj_value *upper = tpj_scalar(e, "upper", compute), *zero = hlo_number(h, compute, 0);
    tpj_value *negative = hlo_compare(h, "LE", x, zero);
    if (!tpj_bool(e, "training", false)) {
        tpj_value *slope = hlo_mul(h, hlo_add(h, lower, upper), hlo_number(h, compute, 0.5));
        tpj_out_as(e, hlo_select(h, negative, hlo_mul(h, x, slope), x), dtype);
        tpj_out(e, tpj_in(e, "noise"));
        return;
    }
    tpj_value *u = tpj_random_uniform(e, compute, x->type.rank, x->type.dims);
    tpj_value *slope = hlo_add(h, hlo_mul(h, u, hlo_sub(h, upper, lower)), lower);
    tpj_value *noise = hlo_select(h, negative, slope, hlo_number(h, compute, 1));
    tpj_out_as(e, hlo_mul(h, x, noise), dtype);
    tpj_out_as(e, noise, dtype);
}

/* ---- sampling ---- */

/* Without replacement (or for one sample): the categories whose weight over an exponential is largest. */
static tpj_value *sample_distinct(tpj_emit *e, tpj_value *weights, int64_t n) {
    tpj_hlo *h = tpj_builder(e);
    int last = weights->type.rank - 1;
    tpj_value *noise = standard_exponential(e, weights->type.dtype, weights->type.rank, weights->type.dims);
    tpj_value *score = hlo_div(h, weights, noise), *order;
    if (n == 1) {
        hlo_arg_reduce(h, true, score, last, NULL, &order);
        return hlo_unsqueeze(h, order, last);
    }
    tpj_sort(h, score, last, true, &score, &order);
    return hlo_slice_dim(h, order, last, 0, n, 1);
}

/* With replacement: where uniform numbers fall among the running sums of the weights. */
static tpj_value *sample_independent(tpj_emit *e, tpj_value *weights, int64_t n) {
    tpj_hlo *h = tpj_builder(e);
    int rank = weights->type.rank, last = rank - 1;
    int64_t size = hlo_dim(weights, last);
    tpj_value *sums = hlo_cumulative(h, "add", weights, last, false);
    int64_t *dims = tpj_dims_with(h, weights, last, n);
    tpj_value *total = hlo_expand(h, hlo_slice_dim(h, sums, last, size - 1, size, 1), rank, dims);
    tpj_value *u = hlo_mul(h, tpj_random_uniform(e, weights->type.dtype, rank, dims), total);
    return hlo_min(h, tpj_search_sorted(h, sums, u, true), hlo_integer(h, TPJ_I32, size - 1));
}

static void check_weights(tpj_emit *e, tpj_value *weights) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *zero = hlo_number(h, weights->type.dtype, 0);
    tpj_value *fine = hlo_and(h, hlo_compare(h, "GE", weights, zero), hlo_unary(h, "is_finite", weights));
    tpj_check(e, hlo_not(h, fine), "probability tensor contains either `inf`, `nan` or element < 0");
    tpj_value *sums = hlo_reduce_dim(h, "add", weights, weights->type.rank - 1);
    tpj_check(e, hlo_compare(h, "LE", sums, zero), "invalid multinomial distribution (sum of probabilities <= 0)");
}

static void emit_multinomial(tpj_emit *e) {
    tpj_type type = tpj_in_type(e, "self");
    int64_t n = tpj_int(e, "num_samples", 1);
    bool replacement = tpj_bool(e, "replacement", false);
    if (!tpj_dtype_is_float(type.dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "multinomial only supports floating-point dtypes for input, got: %s",
                 tpj_dtype_name(type.dtype));
        return;
    }
    if (type.rank != 1 && type.rank != 2) {
        tpj_fail(e, TPJ_RUNTIME, "prob_dist must be 1 or 2 dim");
        return;
    }
    if (n <= 0 || (!replacement && n > type.dims[type.rank - 1]) || type.dims[type.rank - 1] == 0) {
        tpj_fail(e, TPJ_RUNTIME,
                 n <= 0 ? "cannot sample n_sample <= 0 samples"
                        : "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
        return;
    }
    if (type.dims[type.rank - 1] > 1 << 24) { /* PyTorch's bound, so that a float can name each */
        tpj_fail(e, TPJ_RUNTIME, "number of categories cannot exceed 2^24");
        return;
    }
    tpj_value *weights = tpj_in_as(e, "self", draw_dtype(type.dtype));
    check_weights(e, weights);
    tpj_out_as(e, replacement && n > 1 ? sample_independent(e, weights, n) : sample_distinct(e, weights, n), TPJ_I64);
}

#define RAND_ROWS(op, code)                                                                                          \
    {.name = op,                                                                                                     \
     .params = "I[] size, D? dtype=None",                                                                            \
     .emit = emit_rand,                                                                                              \
     .flags = TPJ_OP_FACTORY | TPJ_OP_RANDOM,                                                                        \
     .variant = (code)},                                                                                             \
        {.name = op ".generator",                                                                                    \
         .params = "I[] size, G generator, D? dtype=None",                                                           \
         .emit = emit_rand,                                                                                          \
         .flags = TPJ_OP_FACTORY | TPJ_OP_RANDOM,                                                                    \
         .variant = (code)},                                                                                         \
        {.name = op "_like",                                                                                         \
         .params = "T self, D? dtype=None, M? memory_format=None",                                                   \
         .emit = emit_rand,                                                                                          \
         .layout = TPJ_LAYOUT_MEMORY_FORMAT,                                                                         \
         .flags = TPJ_OP_RANDOM,                                                                                     \
         .variant = (code) | DRAW_LIKE},                                                                             \
    {                                                                                                                \
        .name = op "_like.generator", .params = "T self, G generator, D? dtype=None, M? memory_format=None",         \
        .emit = emit_rand, .layout = TPJ_LAYOUT_MEMORY_FORMAT, .flags = TPJ_OP_RANDOM, .variant = (code) | DRAW_LIKE \
    }

/* Fills of self. */
#define FILL_ROW(op, arguments, emitter)                \
    {.name = op,                                        \
     .params = "T self, " arguments "G generator=None", \
     .emit = emitter,                                   \
     .layout = TPJ_LAYOUT_SELF,                         \
     .flags = TPJ_OP_RANDOM}
#define FILL_ROW_V(op, arguments, emitter, code)        \
    {.name = op,                                        \
     .params = "T self, " arguments "G generator=None", \
     .emit = emitter,                                   \
     .layout = TPJ_LAYOUT_SELF,                         \
     .flags = TPJ_OP_RANDOM,                            \
     .variant = (code)}

const tpj_op_def tpj_ops_random[] = {
    {.name = "native_dropout",
     .params = "T input, f p, B? train",
     .emit = emit_native_dropout,
     .layout = TPJ_LAYOUT_SELF,
     .flags = TPJ_OP_RANDOM},
    {.name = "native_dropout_backward",
     .params = "T grad_output, T mask, f scale",
     .emit = emit_native_dropout_backward,
     .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "_fused_dropout",
     .params = "T self, f p, G generator=None",
     .emit = emit_fused_dropout,
     .layout = TPJ_LAYOUT_SELF,
     .flags = TPJ_OP_RANDOM},
    {.name = "_masked_scale",
     .params = "T self, T mask, f scale",
     .emit = emit_masked_scale,
     .layout = TPJ_LAYOUT_POINTWISE},
    FILL_ROW_V("bernoulli", "", emit_bernoulli, BERNOULLI_SELF),
    FILL_ROW_V("bernoulli.p", "f p, ", emit_bernoulli, BERNOULLI_NUMBER),
    FILL_ROW_V("bernoulli.float", "f p=0.5, ", emit_bernoulli,
               BERNOULLI_NUMBER), /* bernoulli_.float has no other twin */
    FILL_ROW_V("bernoulli.Tensor", "T p, ", emit_bernoulli, BERNOULLI_TENSOR),
    FILL_ROW("uniform", "f from=0.0, f to=1.0, ", emit_uniform),
    FILL_ROW("normal_functional", "f mean=0.0, f std=1.0, ", emit_normal_fill),
    {.name = "normal.Tensor_float",
     .params = "T mean, f std=1.0, G generator=None",
     .emit = emit_normal,
     .flags = TPJ_OP_RANDOM,
     .variant = MEAN_TENSOR},
    {.name = "normal.float_Tensor",
     .params = "f mean, T std, G generator=None",
     .emit = emit_normal,
     .flags = TPJ_OP_RANDOM,
     .variant = STD_TENSOR},
    {.name = "normal.Tensor_Tensor",
     .params = "T mean, T std, G generator=None",
     .emit = emit_normal,
     .flags = TPJ_OP_RANDOM,
     .variant = MEAN_TENSOR | STD_TENSOR},
    FILL_ROW("exponential", "f lambd=1.0, ", emit_exponential),
    FILL_ROW("geometric", "f p, ", emit_geometric),
    FILL_ROW("log_normal", "f mean=1.0, f std=2.0, ", emit_log_normal),
    FILL_ROW("cauchy", "f median=0.0, f sigma=1.0, ", emit_cauchy),
    FILL_ROW_V("random", "", emit_random, RANDOM_ALL),
    FILL_ROW_V("random.to", "I~ to, ", emit_random, RANDOM_TO),
    FILL_ROW_V("random.from", "I~ from, I~? to, ", emit_random, RANDOM_FROM),
    RAND_ROWS("rand", DRAW_UNIFORM),
    RAND_ROWS("randn", DRAW_NORMAL),
    {.name = "randint",
     .params = "I~ high, I[] size, D? dtype=None",
     .emit = emit_randint,
     .flags = TPJ_OP_FACTORY | TPJ_OP_RANDOM},
    {.name = "randint.generator",
     .params = "I~ high, I[] size, G generator, D? dtype=None",
     .emit = emit_randint,
     .flags = TPJ_OP_FACTORY | TPJ_OP_RANDOM},
    {.name = "randint.low",
     .params = "I~ low, I~ high, I[] size, D? dtype=None",
     .emit = emit_randint,
     .flags = TPJ_OP_FACTORY | TPJ_OP_RANDOM,
     .variant = RANDINT_LOW},
    {.name = "randint.low_generator",
     .params = "I~ low, I~ high, I[] size, G generator, D? dtype=None",
     .emit = emit_randint,
     .flags = TPJ_OP_FACTORY | TPJ_OP_RANDOM,
     .variant = RANDINT_LOW},
    {.name = "randint_like",
     .params = "T self, I~ high, D? dtype=None, M? memory_format=None",
     .emit = emit_randint,
     .layout = TPJ_LAYOUT_MEMORY_FORMAT,
     .flags = TPJ_OP_RANDOM,
     .variant = RANDINT_LIKE},
    {.name = "randint_like.low_dtype",
     .params = "T self, I~ low, I~ high, D? dtype=None, M? memory_format=None",
     .emit = emit_randint,
     .layout = TPJ_LAYOUT_MEMORY_FORMAT,
     .flags = TPJ_OP_RANDOM,
     .variant = RANDINT_LIKE | RANDINT_LOW},
    {.name = "randperm",
     .params = "I n, D? dtype=None",
     .emit = emit_randperm,
     .flags = TPJ_OP_FACTORY | TPJ_OP_RANDOM},
    {.name = "randperm.generator",
     .params = "I n, G generator, D? dtype=None",
     .emit = emit_randperm,
     .flags = TPJ_OP_FACTORY | TPJ_OP_RANDOM},
    {.name = "multinomial",
     .params = "T self, I num_samples, B replacement=False, G generator=None",
     .emit = emit_multinomial,
     .flags = TPJ_OP_RANDOM},
    {.name = "rrelu_with_noise_functional",
     .params = "T self, T noise, S lower=0.125, S upper=0.3333333333333333, B training=False, G generator=None",
     .emit = emit_rrelu_with_noise,
     .layout = TPJ_LAYOUT_SELF,
     .flags = TPJ_OP_RANDOM},
    {0},
};
