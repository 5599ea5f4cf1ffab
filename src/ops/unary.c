/* Pointwise ops of one tensor. Activations have a family of their own. */
#include <math.h>

#include "ops/series.h"

#define PI 3.14159265358979323846
#define LN_2 0.69314718055994530942
#define LN_10 2.30258509299404568402

/* ---- reading and writing ---- */

/* self as floating point (integers become F32), in the dtype that arithmetic runs in. */
static tpj_value *float_self(tpj_emit *e) {
    return tpj_in_as(e, "self", tpj_compute_dtype(tpj_float_dtype(e, tpj_in_type(e, "self").dtype)));
}

/* The result of a function of float_self. */
static void out_float(tpj_emit *e, tpj_value *y) {
    tpj_dtype dtype = tpj_float_dtype(e, tpj_in_type(e, "self").dtype);
    tpj_out_as(e, y, tpj_dtype_is_complex(y->type.dtype) ? dtype : hlo_real_dtype(dtype));
}

/* float_self, for functions of real numbers only: NULL (and the op fails) for complex ones. */
static tpj_value *real_self(tpj_emit *e) {
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (!tpj_dtype_is_complex(dtype)) return float_self(e);
    tpj_fail_dtype(e, dtype);
    return NULL;
}

/* self in the dtype that arithmetic on its own dtype runs in. */
static tpj_value *same_self(tpj_emit *e) {
    return tpj_in_as(e, "self", tpj_compute_dtype(tpj_in_type(e, "self").dtype));
}

static void out_same(tpj_emit *e, tpj_value *y) { tpj_out_as(e, y, tpj_in_type(e, "self").dtype); }

/* ---- functions that are one op ---- */

static void emit_float(tpj_emit *e) { out_float(e, hlo_unary(tpj_builder(e), tpj_row(e)->hlo, float_self(e))); }

/* The second operand is kept from being folded: a CPU plugin (lammps-jax-pjrt-cpu 0.11.2) miscompiles atan2(x, 1) over
 * vectors, which is what chlo.atan becomes. */
static void emit_atan(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = float_self(e);
    if (tpj_dtype_is_complex(x->type.dtype)) {
        out_float(e, hlo_unary(h, "chlo.atan", x));
        return;
    }
    out_float(e, hlo_binary(h, "atan2", x, hlo_barrier(h, hlo_full_like(h, x, 1))));
}

static void emit_real(tpj_emit *e) {
    tpj_value *x = real_self(e);
    if (x != NULL) out_float(e, hlo_unary(tpj_builder(e), tpj_row(e)->hlo, x));
}

/* ---- exponentials and logarithms ---- */

static void emit_exp2(tpj_emit *e) {
    tpj_value *x = float_self(e);
    out_float(e, hlo_pow(tpj_builder(e), tpj_like(tpj_builder(e), x, 2), x));
}

static void emit_log2(tpj_emit *e) {
    out_float(e, times(tpj_builder(e), hlo_log(tpj_builder(e), float_self(e)), 1 / LN_2));
}
static void emit_log10(tpj_emit *e) {
    out_float(e, times(tpj_builder(e), hlo_log(tpj_builder(e), float_self(e)), 1 / LN_10));
}

static void emit_reciprocal(tpj_emit *e) {
    tpj_value *x = float_self(e);
    out_float(e, hlo_div(tpj_builder(e), tpj_like(tpj_builder(e), x, 1), x));
}

static void emit_logit(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = real_self(e);
    if (x == NULL) return;
    if (tpj_has(e, "eps")) {
        tpj_value *eps = tpj_scalar(e, "eps", x->type.dtype);
        tpj_value *high = hlo_sub(h, tpj_like(h, x, 1), eps); /* below eps where that is above a half */
        tpj_value *capped = hlo_select(h, hlo_compare(h, "GT", x, high), high, x);
        x = hlo_select(h, hlo_compare(h, "LT", x, eps), eps, capped);
    }
    out_float(e, hlo_log(h, hlo_div(h, x, hlo_sub(h, tpj_like(h, x, 1), x))));
}

/* -x log(x) */
static void emit_entr(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = real_self(e);
    if (x == NULL) return;
    tpj_value *y = hlo_neg(h, hlo_mul(h, x, hlo_log(h, x)));
    y = hlo_select(h, tpj_compare_number(h, "EQ", x, 0), tpj_like(h, x, 0), y);
    out_float(e, hlo_select(h, tpj_compare_number(h, "LT", x, 0), tpj_like(h, x, -HUGE_VAL), y));
}

static void emit_sinc(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = float_self(e), *angle = times(h, x, PI);
    tpj_value *y = hlo_div(h, hlo_unary(h, "sine", angle), angle);
    out_float(e, hlo_select(h, tpj_compare_number(h, "EQ", x, 0), tpj_like(h, x, 1), y));
}

/* x times the row's factor: degrees and radians. */
enum { DEGREES_TO_RADIANS, RADIANS_TO_DEGREES };
static void emit_scaled(tpj_emit *e) {
    double factor = tpj_row(e)->variant == DEGREES_TO_RADIANS ? PI / 180 : 180 / PI;
    tpj_value *x = real_self(e);
    if (x != NULL) out_float(e, times(tpj_builder(e), x, factor));
}

/* ---- special functions ---- */

/* Zero is a pole whose side its sign tells. */
static tpj_value *digamma(tpj_hlo *h, tpj_value *x) {
    tpj_value *pole = hlo_select(h, tpj_sign_bit(h, x), tpj_like(h, x, HUGE_VAL), hlo_full_like(h, x, -HUGE_VAL));
    return hlo_select(h, tpj_compare_number(h, "EQ", x, 0), pole, hlo_unary(h, "chlo.digamma", x));
}

static void emit_digamma(tpj_emit *e) {
    tpj_value *x = real_self(e);
    if (x != NULL) out_float(e, digamma(tpj_builder(e), x));
}

static void emit_polygamma(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = real_self(e);
    if (x == NULL) return;
    int64_t n = tpj_int(e, "n", 0);
    if (n < 0) {
        tpj_fail(e, TPJ_RUNTIME, "polygamma(n, x) does not support negative n.");
        return;
    }
    if (n == 0)
        out_float(e, digamma(h, x));
    else
        out_float(
            e, times(h, tpj_zeta(h, hlo_full_like(h, x, (double)n + 1), x), (n % 2 ? 1 : -1) * tgamma((double)n + 1)));
}

/* The logarithm of the multivariate gamma function. */
static void emit_mvlgamma(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = real_self(e);
    int64_t p = tpj_int(e, "p", 1);
    if (x == NULL) return;
    if (p < 1) {
        tpj_fail(e, TPJ_RUNTIME, "p has to be greater than or equal to 1");
        return;
    }
    tpj_value *sum = tpj_like(h, x, (double)(p * (p - 1)) / 4 * log(PI));
    for (int64_t i = 0; i < p; i++)
        sum = hlo_add(h, sum, hlo_unary(h, "chlo.lgamma", hlo_sub(h, x, tpj_like(h, x, (double)i / 2))));
    out_float(e, sum);
}

enum { BESSEL_I0, BESSEL_I0E, BESSEL_I1, BESSEL_I1E };
static void emit_bessel_i(tpj_emit *e) {
    int variant = tpj_row(e)->variant;
    tpj_value *x = real_self(e);
    if (x == NULL) return;
    bool scaled = variant == BESSEL_I0E || variant == BESSEL_I1E;
    out_float(e, tpj_bessel_i(tpj_builder(e), x, variant == BESSEL_I1 || variant == BESSEL_I1E, scaled));
}

static void emit_erfcx(tpj_emit *e) {
    tpj_value *x = real_self(e);
    if (x != NULL) out_float(e, tpj_erfcx(tpj_builder(e), x));
}

static void emit_log_ndtr(tpj_emit *e) {
    tpj_value *x = real_self(e);
    if (x != NULL) out_float(e, tpj_log_ndtr(tpj_builder(e), x));
}

static void emit_ndtri(tpj_emit *e) {
    tpj_value *x = real_self(e);
    if (x != NULL) out_float(e, tpj_ndtri(tpj_builder(e), x));
}

/* ---- rounding: integers stay as they are ---- */

static void emit_round(tpj_emit *e) {
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    tpj_value *x = same_self(e);
    if (tpj_dtype_is_complex(dtype) || dtype == TPJ_BOOL) tpj_fail_dtype(e, dtype);
    out_same(e, tpj_dtype_is_integral(dtype) ? x : hlo_unary(tpj_builder(e), tpj_row(e)->hlo, x));
}

static void emit_trunc(tpj_emit *e) {
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    tpj_value *x = same_self(e);
    if (tpj_dtype_is_complex(dtype) || dtype == TPJ_BOOL) tpj_fail_dtype(e, dtype);
    out_same(e, tpj_dtype_is_integral(dtype) ? x : tpj_truncate(tpj_builder(e), x));
}

static void emit_frac(tpj_emit *e) {
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    tpj_value *x = same_self(e);
    if (tpj_dtype_is_float(dtype))
        out_same(e, hlo_sub(tpj_builder(e), x, tpj_truncate(tpj_builder(e), x)));
    else
        tpj_fail_dtype(e, dtype);
}

static void emit_round_decimals(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (!tpj_dtype_is_float(dtype)) {
        tpj_fail_dtype(e, dtype);
        return;
    }
    int64_t decimals = tpj_int(e, "decimals", 0);
    tpj_value *x = same_self(e), *power = tpj_like(h, x, pow(10, fabs((double)decimals)));
    tpj_value *scaled = decimals < 0 ? hlo_div(h, x, power) : hlo_mul(h, x, power);
    tpj_value *rounded = hlo_unary(h, "round_nearest_even", scaled);
    out_same(e, decimals < 0 ? hlo_mul(h, rounded, power) : hlo_div(h, rounded, power));
}

/* ---- signs ---- */

static void emit_abs(tpj_emit *e) {
    tpj_value *y = hlo_abs(tpj_builder(e), same_self(e));
    tpj_out_as(e, y, hlo_real_dtype(tpj_in_type(e, "self").dtype));
}

static void emit_neg(tpj_emit *e) {
    if (tpj_in_type(e, "self").dtype == TPJ_BOOL)
        tpj_fail(
            e, TPJ_RUNTIME,
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "
            "the `~` or `logical_not()` operator instead.");
    out_same(e, hlo_neg(tpj_builder(e), same_self(e)));
}

/* -1, 0 or 1; 0 for NaN. */
static tpj_value *sign_of(tpj_hlo *h, tpj_value *x) {
    if (x->type.dtype == TPJ_BOOL) return x;
    if (tpj_dtype_is_unsigned(x->type.dtype)) return hlo_convert(h, tpj_compare_number(h, "NE", x, 0), x->type.dtype);
    if (!tpj_dtype_is_float(x->type.dtype)) return hlo_unary(h, "sign", x);
    tpj_value *negative = tpj_select_or(h, tpj_compare_number(h, "LT", x, 0), tpj_like(h, x, -1), 0);
    return hlo_select(h, tpj_compare_number(h, "GT", x, 0), tpj_like(h, x, 1), negative);
}

static void emit_sign(tpj_emit *e) {
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (tpj_dtype_is_complex(dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "Unlike NumPy, torch.sign doesn't allow complex input; use torch.sgn instead");
        return;
    }
    out_same(e, sign_of(tpj_builder(e), same_self(e)));
}

static void emit_sgn(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = same_self(e);
    if (!tpj_dtype_is_complex(x->type.dtype)) {
        out_same(e, sign_of(h, x));
        return;
    }
    tpj_value *size = hlo_abs(h, x), *unit = hlo_div(h, x, hlo_convert(h, size, x->type.dtype));
    out_same(e, tpj_select_or(h, tpj_compare_number(h, "NE", size, 0), unit, 0));
}

static void emit_signbit(tpj_emit *e) {
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (tpj_dtype_is_complex(dtype))
        tpj_fail(e, TPJ_RUNTIME, "signbit is not implemented for complex tensors.");
    else
        tpj_out(e, tpj_sign_bit(tpj_builder(e), tpj_in(e, "self")));
}

static void emit_angle(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = float_self(e), *y;
    if (tpj_dtype_is_complex(x->type.dtype))
        y = hlo_binary(h, "atan2", hlo_imag(h, x), hlo_real(h, x));
    else {
        y = tpj_select_or(h, tpj_compare_number(h, "LT", x, 0), hlo_full_like(h, x, PI), 0);
        y = hlo_select(h, hlo_is_nan(h, x), x, y);
    }
    out_float(e, y);
}

static void emit_conj(tpj_emit *e) { tpj_out(e, hlo_conj(tpj_builder(e), tpj_in(e, "self"))); }

/* ---- mantissa and exponent ---- */

/* What the bits of F32 and F64 mean. */
typedef struct float_bits {
    tpj_dtype integer;
    int fraction; /* bits of the fraction */
    int half;     /* the exponent field of [1/2, 1) */
    int64_t last; /* the exponent field of infinities and NaN */
} float_bits;

static tpj_value *exponent_field(tpj_hlo *h, const float_bits *f, tpj_value *bits) {
    tpj_value *field = hlo_binary(h, "shift_right_logical", bits, hlo_integer(h, f->integer, f->fraction));
    return hlo_and(h, field, hlo_integer(h, f->integer, f->last));
}

/* On bits alone: a device may take numbers below the smallest normal one for zero. Their fraction, an integer, becomes a
 * float of its own. Zero, infinities and NaN are their own mantissa. */
static void emit_frexp(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (!tpj_dtype_is_float(dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "torch.frexp() only supports floating-point dtypes");
        return;
    }
    tpj_value *x = same_self(e);
    bool wide = x->type.dtype == TPJ_F64;
    float_bits f = wide ? (float_bits){TPJ_I64, 52, 1022, 2047} : (float_bits){TPJ_I32, 23, 126, 255};
    tpj_value *fraction_mask = hlo_integer(h, f.integer, ((int64_t)1 << f.fraction) - 1);
    tpj_value *bits = hlo_bitcast(h, x, f.integer), *field = exponent_field(h, &f, bits);
    tpj_value *fraction = hlo_and(h, bits, fraction_mask), *tiny = tpj_compare_number(h, "EQ", field, 0);
    tpj_value *as_float = hlo_bitcast(h, hlo_convert(h, fraction, x->type.dtype), f.integer);
    tpj_value *tiny_field = hlo_sub(h, exponent_field(h, &f, as_float), hlo_integer(h, f.integer, f.half + f.fraction));
    tpj_value *shift = hlo_integer(h, f.integer, f.half);
    tpj_value *exponent = hlo_sub(h, hlo_select(h, tiny, tiny_field, field), shift);
    tpj_value *sign = hlo_and(h, bits, hlo_integer(h, f.integer, wide ? INT64_MIN : INT32_MIN));
    tpj_value *mantissa = hlo_select(h, tiny, hlo_and(h, as_float, fraction_mask), fraction);
    mantissa = hlo_or(h, hlo_or(h, mantissa, sign), hlo_integer(h, f.integer, (int64_t)f.half << f.fraction));
    tpj_value *itself = hlo_or(h, hlo_and(h, tiny, tpj_compare_number(h, "EQ", fraction, 0)),
                               tpj_compare_number(h, "EQ", field, (double)f.last));
    tpj_out_as(e, hlo_select(h, itself, x, hlo_bitcast(h, mantissa, x->type.dtype)), dtype);
    tpj_out_as(e, tpj_select_or(h, hlo_not(h, itself), exponent, 0), TPJ_I32);
}

/* ---- tests of single elements ---- */

/* In the dtype that arithmetic runs in: a format without infinities may not be asked for them. */
static void emit_isnan(tpj_emit *e) { tpj_out(e, hlo_is_nan(tpj_builder(e), same_self(e))); }
static void emit_isinf(tpj_emit *e) { tpj_out(e, tpj_is_infinite(tpj_builder(e), same_self(e))); }

/* variant: the sign of the infinity. */
static void emit_is_signed_inf(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = same_self(e);
    if (tpj_dtype_is_complex(x->type.dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "%s does not support complex inputs.", tpj_row(e)->name);
        return;
    }
    bool is_float = tpj_dtype_is_float(x->type.dtype);
    tpj_out(e, is_float ? tpj_compare_number(h, "EQ", x, tpj_row(e)->variant * HUGE_VAL) : tpj_is_infinite(h, x));
}

static void emit_bitwise_not(tpj_emit *e) {
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (tpj_dtype_is_integral(dtype))
        tpj_out(e, hlo_not(tpj_builder(e), tpj_in(e, "self")));
    else
        tpj_fail_dtype(e, dtype);
}

static void emit_logical_not(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_out(e, hlo_not(h, hlo_convert(h, tpj_in(e, "self"), TPJ_BOOL)));
}

/* ---- nan_to_num ---- */

/* The largest finite number of a dtype. */
static double largest(tpj_dtype dtype) {
    switch (dtype) {
        case TPJ_F16: return 65504;
        case TPJ_BF16: return 0x1.FEp127;
        case TPJ_F64: return 0x1.FFFFFFFFFFFFFp1023;
        default: return 0x1.FFFFFEp127;
    }
}

static tpj_value *without_nan(tpj_emit *e, tpj_value *x) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = x->type.dtype;
    tpj_value *high = tpj_scalar_or(e, "posinf", dtype, largest(dtype));
    tpj_value *low = tpj_scalar_or(e, "neginf", dtype, -largest(dtype));
    tpj_value *y = hlo_select(h, hlo_is_nan(h, x), tpj_scalar_or(e, "nan", dtype, 0), x);
    y = hlo_select(h, tpj_compare_number(h, "EQ", x, HUGE_VAL), high, y);
    return hlo_select(h, tpj_compare_number(h, "EQ", x, -HUGE_VAL), low, y);
}

static void emit_nan_to_num(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    if (tpj_dtype_is_integral(x->type.dtype))
        tpj_out(e, x);
    else if (!tpj_dtype_is_complex(x->type.dtype))
        tpj_out(e, without_nan(e, x));
    else
        tpj_out(e, hlo_complex(h, without_nan(e, hlo_real(h, x)), without_nan(e, hlo_imag(h, x))));
}

#define UNARY(op, function, ...) \
    {.name = op, .params = "T self", .emit = function, .layout = TPJ_LAYOUT_POINTWISE, __VA_ARGS__}
#define FLOAT(op, hlo_name) UNARY(op, emit_float, .hlo = hlo_name)
#define REAL(op, hlo_name) UNARY(op, emit_real, .hlo = hlo_name)

const tpj_op_def tpj_ops_unary[] = {
    FLOAT("exp", "exponential"),
    FLOAT("expm1", "exponential_minus_one"),
    UNARY("exp2", emit_exp2),
    FLOAT("log", "log"),
    FLOAT("log1p", "log_plus_one"),
    UNARY("log2", emit_log2),
    UNARY("log10", emit_log10),
    FLOAT("sqrt", "sqrt"),
    FLOAT("rsqrt", "rsqrt"),
    UNARY("reciprocal", emit_reciprocal),
    FLOAT("sin", "sine"),
    FLOAT("cos", "cosine"),
    FLOAT("tan", "chlo.tan"),
    FLOAT("asin", "chlo.asin"),
    FLOAT("acos", "chlo.acos"),
    UNARY("atan", emit_atan),
    FLOAT("sinh", "chlo.sinh"),
    FLOAT("cosh", "chlo.cosh"),
    FLOAT("tanh", "tanh"),
    FLOAT("asinh", "chlo.asinh"),
    FLOAT("acosh", "chlo.acosh"),
    FLOAT("atanh", "chlo.atanh"),
    FLOAT("sigmoid", "logistic"),
    REAL("erf", "chlo.erf"),
    REAL("erfc", "chlo.erfc"),
    REAL("erfinv", "chlo.erf_inv"),
    REAL("lgamma", "chlo.lgamma"),
    UNARY("digamma", emit_digamma),
    {.name = "polygamma", .params = "I n, T self", .emit = emit_polygamma, .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "mvlgamma", .params = "T self, I p", .emit = emit_mvlgamma, .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "logit", .params = "T self, F~? eps", .emit = emit_logit, .layout = TPJ_LAYOUT_POINTWISE},
    UNARY("sinc", emit_sinc),
    UNARY("deg2rad", emit_scaled, .variant = DEGREES_TO_RADIANS),
    UNARY("rad2deg", emit_scaled, .variant = RADIANS_TO_DEGREES),
    UNARY("special_entr", emit_entr),
    UNARY("special_erfcx", emit_erfcx),
    UNARY("special_ndtri", emit_ndtri),
    UNARY("special_log_ndtr", emit_log_ndtr),
    UNARY("i0", emit_bessel_i, .variant = BESSEL_I0),
    UNARY("special_i0e", emit_bessel_i, .variant = BESSEL_I0E),
    UNARY("special_i1", emit_bessel_i, .variant = BESSEL_I1),
    UNARY("special_i1e", emit_bessel_i, .variant = BESSEL_I1E),
    UNARY("special_modified_bessel_i0", emit_bessel_i, .variant = BESSEL_I0),
    UNARY("special_modified_bessel_i1", emit_bessel_i, .variant = BESSEL_I1),
    UNARY("ceil", emit_round, .hlo = "ceil"),
    UNARY("floor", emit_round, .hlo = "floor"),
    UNARY("round", emit_round, .hlo = "round_nearest_even"),
    {.name = "round.decimals",
     .params = "T self, I decimals",
     .emit = emit_round_decimals,
     .layout = TPJ_LAYOUT_POINTWISE},
    UNARY("trunc", emit_trunc),
    UNARY("frac", emit_frac),
    UNARY("abs", emit_abs, .flags = TPJ_OP_FLOAT8),
    UNARY("neg", emit_neg),
    UNARY("sign", emit_sign),
    UNARY("sgn", emit_sgn),
    UNARY("signbit", emit_signbit),
    {.name = "angle", .params = "T self", .emit = emit_angle, .layout = TPJ_LAYOUT_REAL_POINTWISE},
    UNARY("_conj_physical", emit_conj),
    UNARY("frexp.Tensor", emit_frexp),
    UNARY("isnan", emit_isnan, .flags = TPJ_OP_FLOAT8),
    UNARY("isinf", emit_isinf, .flags = TPJ_OP_FLOAT8),
    UNARY("isposinf", emit_is_signed_inf, .variant = 1, .flags = TPJ_OP_FLOAT8),
    UNARY("isneginf", emit_is_signed_inf, .variant = -1, .flags = TPJ_OP_FLOAT8),
    UNARY("bitwise_not", emit_bitwise_not),
    UNARY("logical_not", emit_logical_not),
    {.name = "nan_to_num",
     .params = "T self, F~? nan, F~? posinf, F~? neginf",
     .emit = emit_nan_to_num,
     .layout = TPJ_LAYOUT_POINTWISE},
    {0},
};
