/* Pointwise ops of two and three tensors. A tensor argument may be a Python number, so the rows of ".Scalar" overloads
 * share the emitters. */
#include <math.h>
#include <string.h>

#include "ops/pointwise.h"

/* ---- reading ---- */

static tpj_pair pair_in(tpj_emit *e, tpj_dtype dtype) { return tpj_pair_read(e, "self", "other", dtype); }
static tpj_pair promoted_pair(tpj_emit *e) { return pair_in(e, tpj_promote(e, "self", "other", NULL)); }
/* Integers become F32. */
static tpj_pair float_pair(tpj_emit *e) {
    return pair_in(e, tpj_float_dtype(e, tpj_promote(e, "self", "other", NULL)));
}

static bool both_bool(tpj_emit *e, const char *x, const char *y) {
    return tpj_in_type(e, x).dtype == TPJ_BOOL && tpj_in_type(e, y).dtype == TPJ_BOOL;
}

/* ---- add, sub, mul ---- */

/* PyTorch's check of alpha (value, weight) against the dtype of the result. */
static void check_alpha(tpj_emit *e, tpj_dtype dtype) {
    tpj_dtype alpha = tpj_scalar_dtype(e, "alpha");
    if (alpha == TPJ_BOOL && dtype != TPJ_BOOL)
        tpj_fail(e, TPJ_RUNTIME, "Boolean alpha only supported for Boolean results.");
    if (tpj_dtype_is_integral(dtype) && !tpj_dtype_is_integral(alpha))
        tpj_fail(e, TPJ_RUNTIME, "For integral input tensors, argument alpha must not be a floating point number.");
    if (!tpj_dtype_is_complex(dtype) && tpj_dtype_is_complex(alpha))
        tpj_fail(e, TPJ_RUNTIME, "For non-complex input tensors, argument alpha must not be a complex number.");
}

static tpj_value *scaled_by_alpha(tpj_emit *e, tpj_value *x) {
    return tpj_has(e, "alpha") ? hlo_mul(tpj_builder(e), x, tpj_scalar(e, "alpha", x->type.dtype)) : x;
}

static void emit_add(tpj_emit *e) {
    tpj_pair p = promoted_pair(e);
    check_alpha(e, p.dtype);
    tpj_out_as(e, hlo_add(p.h, p.x, scaled_by_alpha(e, p.y)), p.dtype);
}

/* variant: 1 for rsub. */
static void emit_sub(tpj_emit *e) {
    tpj_pair p = promoted_pair(e);
    check_alpha(e, p.dtype);
    if (both_bool(e, "self", "other"))
        tpj_fail(
            e, TPJ_RUNTIME,
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
            "operator instead.");
    else if (tpj_in_type(e, "self").dtype == TPJ_BOOL || tpj_in_type(e, "other").dtype == TPJ_BOOL)
        tpj_fail(
            e, TPJ_RUNTIME,
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead.");
    bool reverse = tpj_row(e)->variant == 1;
    tpj_value *from = reverse ? p.y : p.x, *what = scaled_by_alpha(e, reverse ? p.x : p.y);
    tpj_out_as(e, hlo_sub(p.h, from, what), p.dtype);
}

/* Ops that are one StableHLO op in the promoted dtype. */
static void emit_promoted(tpj_emit *e) {
    tpj_pair p = promoted_pair(e);
    tpj_out_as(e, hlo_binary(p.h, tpj_row(e)->hlo, p.x, p.y), p.dtype);
}

/* .. and in floating point. */
static void emit_float(tpj_emit *e) {
    tpj_pair p = float_pair(e);
    tpj_out_as(e, hlo_binary(p.h, tpj_row(e)->hlo, p.x, p.y), p.dtype);
}

/* ---- division ---- */

/* Whether x and y differ in sign. */
static tpj_value *signs_differ(tpj_hlo *h, tpj_value *x, tpj_value *y) {
    return hlo_binary(h, "xor", tpj_compare_number(h, "LT", x, 0), tpj_compare_number(h, "LT", y, 0));
}

/* Python's modulo: the result has the sign of y. */
static tpj_value *modulo(tpj_hlo *h, tpj_value *x, tpj_value *y) {
    tpj_value *rest = hlo_binary(h, "remainder", x, y);
    if (tpj_dtype_is_unsigned(x->type.dtype)) return rest;
    tpj_value *wrong = hlo_and(h, tpj_compare_number(h, "NE", rest, 0), signs_differ(h, rest, y));
    return hlo_select(h, wrong, hlo_add(h, rest, y), rest);
}

/* The quotient rounded down, exact where x / y itself would round up to the next whole number. */
static tpj_value *floor_quotient(tpj_hlo *h, tpj_value *x, tpj_value *y) {
    if (tpj_dtype_is_unsigned(x->type.dtype)) return hlo_div(h, x, y);
    if (!tpj_dtype_is_float(x->type.dtype)) {
        tpj_value *quotient = hlo_div(h, x, y), *rest = hlo_sub(h, x, hlo_mul(h, quotient, y));
        tpj_value *down = hlo_and(h, tpj_compare_number(h, "NE", rest, 0), signs_differ(h, rest, y));
        return hlo_sub(h, quotient, hlo_convert(h, down, x->type.dtype));
    }
    tpj_value *rest = hlo_binary(h, "remainder", x, y), *plain = tpj_divide(h, x, y);
    tpj_value *quotient = tpj_divide(h, hlo_sub(h, x, rest), y);
    tpj_value *down = hlo_and(h, tpj_compare_number(h, "NE", rest, 0), signs_differ(h, rest, y));
    quotient = hlo_sub(h, quotient, hlo_convert(h, down, x->type.dtype));
    tpj_value *floor = hlo_unary(h, "floor", quotient);
    tpj_value *up = tpj_compare_number(h, "GT", hlo_sub(h, quotient, floor), 0.5);
    floor = hlo_add(h, floor, hlo_convert(h, up, x->type.dtype));
    tpj_value *zero = hlo_mul(h, plain, tpj_like(h, x, 0)); /* with the quotient's sign */
    floor = hlo_select(h, tpj_compare_number(h, "EQ", quotient, 0), zero, floor);
    return hlo_select(h, tpj_compare_number(h, "EQ", y, 0), plain, floor);
}

/* The quotient of halves is rounded to a half before it is truncated, as PyTorch does. */
static tpj_value *truncated_quotient(tpj_hlo *h, tpj_value *x, tpj_value *y, tpj_dtype dtype) {
    tpj_value *quotient = tpj_rounded(h, tpj_divide(h, x, y), dtype);
    return tpj_dtype_is_float(x->type.dtype) ? tpj_truncate(h, quotient) : quotient;
}

/* Bool operands divide as bytes do. */
static tpj_pair division_pair(tpj_emit *e) {
    tpj_dtype dtype = tpj_promote(e, "self", "other", NULL);
    if (tpj_dtype_is_complex(dtype)) tpj_fail_dtype(e, dtype);
    if (dtype == TPJ_BOOL) dtype = TPJ_U8;
    tpj_pair p = pair_in(e, dtype);
    if (tpj_dtype_is_integral(dtype) && hlo_elements(p.x) > 0) /* nothing by zero is nothing */
        tpj_check(e, tpj_compare_number(p.h, "EQ", tpj_in_as(e, "other", dtype), 0), "ZeroDivisionError");
    return p;
}

static void emit_floor_divide(tpj_emit *e) {
    tpj_pair p = division_pair(e);
    tpj_out_as(e, floor_quotient(p.h, p.x, p.y), p.dtype);
}

static void emit_div(tpj_emit *e) {
    tpj_pair p = float_pair(e);
    tpj_out_as(e, tpj_divide(p.h, p.x, p.y), p.dtype);
}

static void emit_div_mode(tpj_emit *e) {
    const char *mode = tpj_string(e, "rounding_mode", "");
    if (mode[0] == '\0') {
        emit_div(e);
        return;
    }
    bool down = mode[0] == 'f' && mode[1] == 'l', to_zero = mode[0] == 't' && mode[1] == 'r';
    if (!down && !to_zero) {
        tpj_fail(e, TPJ_RUNTIME, "div expected rounding_mode to be one of None, 'trunc', or 'floor'");
        return;
    }
    tpj_pair p = division_pair(e);
    tpj_out_as(e, down ? floor_quotient(p.h, p.x, p.y) : truncated_quotient(p.h, p.x, p.y, p.dtype), p.dtype);
}

/* What is left over depends on the last bit of a divisor: numbers are rounded to the dtype first, as in PyTorch. */
static tpj_pair remainder_pair(tpj_emit *e) {
    tpj_pair p = division_pair(e);
    p.x = tpj_rounded(p.h, p.x, p.dtype);
    p.y = tpj_rounded(p.h, p.y, p.dtype);
    return p;
}

static void emit_remainder(tpj_emit *e) {
    tpj_pair p = remainder_pair(e);
    tpj_out_as(e, modulo(p.h, p.x, p.y), p.dtype);
}

static void emit_fmod(tpj_emit *e) {
    tpj_pair p = remainder_pair(e);
    tpj_out_as(e, hlo_binary(p.h, "remainder", p.x, p.y), p.dtype);
}

/* ---- powers ---- */

static tpj_value *power(tpj_hlo *h, tpj_value *x, tpj_value *y) {
    if (x->type.dtype == TPJ_BOOL) return hlo_or(h, x, hlo_not(h, y));
    if (!tpj_dtype_is_complex(x->type.dtype)) return hlo_pow(h, x, y);
    /* 0 to the power 0 is 1 for complex numbers too. */
    return hlo_select(h, tpj_compare_number(h, "EQ", y, 0), tpj_like(h, x, 1), hlo_pow(h, x, y));
}

static void emit_pow(tpj_emit *e) {
    tpj_pair p = tpj_pair_read(e, "self", "exponent", tpj_promote(e, "self", "exponent", NULL));
    tpj_out_as(e, power(p.h, p.x, p.y), p.dtype);
}

/* x to a constant power by multiplications; NULL where there is no short way. */
static tpj_value *constant_power(tpj_hlo *h, tpj_value *x, double exponent) {
    bool floating = !tpj_dtype_is_integral(x->type.dtype);
    tpj_value *square = hlo_mul(h, x, x);
    if (exponent == 1) return x;
    if (exponent == 2) return square;
    if (exponent == 3) return hlo_mul(h, square, x);
    if (!floating) return NULL;
    if (exponent == 0.5) return hlo_sqrt(h, x);
    if (exponent == -0.5) return hlo_rsqrt(h, x);
    if (exponent == -1) return hlo_div(h, tpj_like(h, x, 1), x);
    if (exponent == -2) return hlo_div(h, tpj_like(h, x, 1), square);
    return NULL;
}

static void emit_pow_number(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_promote(e, "self", "exponent", NULL), kind = tpj_scalar_dtype(e, "exponent");
    tpj_value *x = tpj_in_as(e, "self", tpj_compute_dtype(dtype)), *y = NULL;
    if (!tpj_is_constant(e, "exponent") && tpj_dtype_is_integral(dtype)) {
        tpj_fail(e, TPJ_NOT_IMPLEMENTED, "an exponent has to be known not to be negative");
        return;
    }
    if (tpj_is_constant(e, "exponent") && !tpj_dtype_is_complex(kind)) {
        double exponent = tpj_float(e, "exponent", 1);
        if (tpj_dtype_is_integral(dtype) && exponent < 0) {
            tpj_fail(e, TPJ_RUNTIME, "Integers to negative integer powers are not allowed.");
            return;
        }
        if (dtype != TPJ_BOOL) y = constant_power(h, x, exponent);
    }
    if (y == NULL) y = power(h, x, hlo_expand(h, tpj_scalar(e, "exponent", x->type.dtype), x->type.rank, x->type.dims));
    tpj_out_as(e, y, dtype);
}

/* ---- maximum, minimum and their like ---- */

static void emit_extreme(tpj_emit *e) {
    if (tpj_dtype_is_complex(tpj_promote(e, "self", "other", NULL)))
        tpj_fail(e, TPJ_RUNTIME, "%s not implemented for complex tensors.", tpj_row(e)->name);
    emit_promoted(e);
}

/* fmax, fmin: a number wins over NaN. */
static void emit_extreme_number(tpj_emit *e) {
    tpj_pair p = promoted_pair(e);
    tpj_value *y = hlo_binary(p.h, tpj_row(e)->hlo, p.x, p.y);
    y = hlo_select(p.h, hlo_is_nan(p.h, p.y), p.x, y);
    tpj_out_as(e, hlo_select(p.h, hlo_is_nan(p.h, p.x), p.y, y), p.dtype);
}

static void emit_hypot(tpj_emit *e) {
    tpj_pair p = float_pair(e);
    tpj_value *a = hlo_abs(p.h, p.x), *b = hlo_abs(p.h, p.y);
    tpj_value *large = hlo_max(p.h, a, b), *small = hlo_min(p.h, a, b), *ratio = hlo_div(p.h, small, large);
    tpj_value *one = tpj_like(p.h, large, 1);
    tpj_value *y = hlo_mul(p.h, large, hlo_sqrt(p.h, hlo_add(p.h, hlo_mul(p.h, ratio, ratio), one)));
    y = hlo_select(p.h, tpj_compare_number(p.h, "EQ", large, 0), large, y);
    tpj_value *infinite = hlo_or(p.h, tpj_is_infinite(p.h, a), tpj_is_infinite(p.h, b));
    tpj_out_as(e, hlo_select(p.h, infinite, tpj_like(p.h, y, HUGE_VAL), y), p.dtype);
}

/* max + log(1 + base^-|x - y|); complex numbers go by their real parts. */
static tpj_value *log_add_exp(tpj_hlo *h, tpj_value *x, tpj_value *y, double scale) {
    tpj_value *ordered = hlo_compare(h, "GE", hlo_real(h, x), hlo_real(h, y));
    tpj_value *large, *gap;
    if (tpj_dtype_is_complex(x->type.dtype)) {
        large = hlo_select(h, ordered, x, y);
        gap = hlo_sub(h, hlo_select(h, ordered, y, x), large);
    } else {
        large = hlo_max(h, x, y);
        gap = hlo_neg(h, hlo_abs(h, hlo_sub(h, x, y)));
    }
    tpj_value *term = hlo_unary(h, "log_plus_one", hlo_exp(h, hlo_mul(h, gap, tpj_like(h, gap, scale))));
    tpj_value *sum = hlo_add(h, large, hlo_mul(h, term, tpj_like(h, term, 1 / scale)));
    /* inf - inf */
    tpj_value *same_infinity = hlo_and(h, hlo_compare(h, "EQ", x, y), tpj_is_infinite(h, x));
    return hlo_select(h, same_infinity, x, sum);
}

/* variant: the base, 0 for e. */
static void emit_logaddexp(tpj_emit *e) {
    tpj_pair p = float_pair(e);
    tpj_out_as(e, log_add_exp(p.h, p.x, p.y, tpj_row(e)->variant == 2 ? log(2) : 1), p.dtype);
}

static void emit_copysign(tpj_emit *e) {
    tpj_pair p = float_pair(e);
    if (tpj_dtype_is_complex(p.dtype)) {
        tpj_fail_dtype(e, p.dtype);
        return;
    }
    tpj_value *size = hlo_abs(p.h, p.x);
    tpj_out_as(e, hlo_select(p.h, tpj_sign_bit(p.h, p.y), hlo_neg(p.h, size), size), p.dtype);
}

/* The next number of the result's own dtype. */
static void emit_nextafter(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_promote(e, "self", "other", NULL);
    if (!tpj_dtype_is_float(dtype)) {
        tpj_fail_dtype(e, dtype);
        return;
    }
    tpj_value *x = tpj_in_as(e, "self", dtype), *y = tpj_in_as(e, "other", dtype);
    hlo_expand_together(h, &x, &y);
    tpj_out(e, hlo_binary(h, "chlo.next_after", x, y));
}

/* x log(y), x log(1 + y): 0 where x is 0, NaN where y is. */
static void emit_xlogy(tpj_emit *e) {
    tpj_pair p = float_pair(e);
    if (tpj_dtype_is_complex(p.dtype)) {
        tpj_fail_dtype(e, p.dtype);
        return;
    }
    tpj_value *product = hlo_mul(p.h, p.x, hlo_unary(p.h, tpj_row(e)->hlo, p.y));
    tpj_value *zero = hlo_and(p.h, tpj_compare_number(p.h, "EQ", p.x, 0), hlo_not(p.h, hlo_is_nan(p.h, p.y)));
    tpj_out_as(e, hlo_select(p.h, zero, tpj_like(p.h, product, 0), product), p.dtype);
}

static void emit_zeta(tpj_emit *e) {
    tpj_pair p = float_pair(e);
    if (tpj_dtype_is_float(p.dtype))
        tpj_out_as(e, tpj_zeta(p.h, p.x, p.y), p.dtype);
    else
        tpj_fail_dtype(e, p.dtype);
}

static void emit_heaviside(tpj_emit *e) {
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (dtype != tpj_in_type(e, "values").dtype) {
        tpj_fail(e, TPJ_RUNTIME, "heaviside is not yet implemented for tensors with different dtypes.");
        return;
    }
    if (tpj_dtype_is_complex(dtype)) tpj_fail(e, TPJ_RUNTIME, "heaviside is not yet implemented for complex tensors.");
    tpj_pair p = tpj_pair_read(e, "self", "values", dtype);
    tpj_value *step = hlo_convert(p.h, tpj_compare_number(p.h, "GT", p.x, 0), p.x->type.dtype);
    tpj_out_as(e, hlo_select(p.h, tpj_compare_number(p.h, "EQ", p.x, 0), p.y, step), dtype);
}

/* ---- integers and bits ---- */

static void emit_bitwise(tpj_emit *e) {
    tpj_dtype dtype = tpj_promote(e, "self", "other", NULL);
    if (tpj_dtype_is_integral(dtype))
        emit_promoted(e);
    else
        tpj_fail_dtype(e, dtype);
}

static void emit_shift(tpj_emit *e) {
    tpj_dtype dtype = tpj_promote(e, "self", "other", NULL);
    if (!tpj_dtype_is_integral(dtype) || dtype == TPJ_BOOL) {
        tpj_fail_dtype(e, dtype);
        return;
    }
    tpj_pair p = pair_in(e, dtype);
    bool logical = strcmp(tpj_row(e)->hlo, "right") == 0 && tpj_dtype_is_unsigned(dtype);
    const char *right = logical ? "shift_right_logical" : "shift_right_arithmetic";
    tpj_out(e, hlo_binary(p.h, strcmp(tpj_row(e)->hlo, "left") == 0 ? "shift_left" : right, p.x, p.y));
}

static void emit_logical(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = hlo_convert(h, tpj_in(e, "self"), TPJ_BOOL), *y = hlo_convert(h, tpj_in(e, "other"), TPJ_BOOL);
    hlo_expand_together(h, &x, &y);
    tpj_out(e, hlo_binary(h, tpj_row(e)->hlo, x, y));
}

static void gcd_condition(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    results[0] = hlo_reduce_all(h, "or", tpj_compare_number(h, "NE", arguments[1], 0));
}

/* One step of Euclid's algorithm where y is not 0 yet. */
static void gcd_step(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    tpj_value *x = arguments[0], *y = arguments[1], *done = tpj_compare_number(h, "EQ", y, 0);
    tpj_value *divisor = hlo_select(h, done, tpj_like(h, y, 1), y);
    results[0] = hlo_select(h, done, x, y);
    results[1] = hlo_select(h, done, y, hlo_binary(h, "remainder", x, divisor));
}

static tpj_value *greatest_common_divisor(tpj_hlo *h, tpj_value *x, tpj_value *y) {
    tpj_value *initial[] = {hlo_abs(h, x), hlo_abs(h, y)}, *out[2];
    hlo_while(h, initial, 2, gcd_condition, gcd_step, NULL, out);
    return out[0];
}

/* variant: 1 for lcm. */
static void emit_gcd(tpj_emit *e) {
    tpj_dtype dtype = tpj_promote(e, "self", "other", NULL);
    if (!tpj_dtype_is_integral(dtype) || dtype == TPJ_BOOL) {
        tpj_fail_dtype(e, dtype);
        return;
    }
    tpj_pair p = pair_in(e, dtype);
    tpj_value *gcd = greatest_common_divisor(p.h, p.x, p.y);
    if (tpj_row(e)->variant == 0) {
        tpj_out(e, gcd);
        return;
    }
    tpj_value *none = tpj_compare_number(p.h, "EQ", gcd, 0);
    tpj_value *divisor = hlo_select(p.h, none, tpj_like(p.h, gcd, 1), gcd);
    tpj_value *lcm = hlo_abs(p.h, hlo_mul(p.h, hlo_div(p.h, p.x, divisor), p.y));
    tpj_out(e, hlo_select(p.h, none, tpj_like(p.h, lcm, 0), lcm));
}

/* ---- complex numbers from parts ---- */

/* Both parts, of one dtype; false after failing. */
static bool parts_in(tpj_emit *e, const char *x, const char *y, tpj_pair *out_parts) {
    tpj_dtype a = tpj_in_type(e, x).dtype, b = tpj_in_type(e, y).dtype;
    if (a != b)
        tpj_fail(e, TPJ_RUNTIME, "Expected object of scalar type %s but got scalar type %s for second argument",
                 tpj_dtype_torch_name(a), tpj_dtype_torch_name(b));
    else if (a != TPJ_F16 && a != TPJ_F32 && a != TPJ_F64)
        tpj_fail(e, TPJ_RUNTIME, "Expected both inputs to be Half, Float or Double tensors but got %s and %s",
                 tpj_dtype_torch_name(a), tpj_dtype_torch_name(b));
    else
        *out_parts = tpj_pair_read(e, x, y, a);
    return !hlo_failed(tpj_builder(e));
}

static void emit_complex(tpj_emit *e) {
    tpj_pair p;
    if (parts_in(e, "real", "imag", &p))
        tpj_out(e, hlo_complex(p.h, hlo_convert(p.h, p.x, p.dtype), hlo_convert(p.h, p.y, p.dtype)));
}

static void emit_polar(tpj_emit *e) {
    tpj_pair p;
    if (!parts_in(e, "abs", "angle", &p)) return;
    tpj_value *real = hlo_mul(p.h, p.x, hlo_unary(p.h, "cosine", p.y));
    tpj_value *imaginary = hlo_mul(p.h, p.x, hlo_unary(p.h, "sine", p.y));
    tpj_out(e, hlo_complex(p.h, hlo_convert(p.h, real, p.dtype), hlo_convert(p.h, imaginary, p.dtype)));
}

/* ---- three operands ---- */

typedef struct triple {
    tpj_hlo *h;
    tpj_dtype dtype;
    tpj_value *x, *y, *z;
} triple;

static triple triple_in(tpj_emit *e, const char *x, const char *y, const char *z, tpj_dtype dtype) {
    tpj_dtype compute = tpj_compute_dtype(dtype);
    triple t = {tpj_builder(e), dtype, tpj_in_as(e, x, compute), tpj_in_as(e, y, compute), tpj_in_as(e, z, compute)};
    hlo_expand_together3(t.h, &t.x, &t.y, &t.z);
    return t;
}

/* self + value * tensor1 * tensor2, or / tensor2. */
static void emit_addcmul(tpj_emit *e) {
    tpj_dtype dtype = tpj_promote(e, "self", "tensor1", "tensor2", NULL);
    bool divides = strcmp(tpj_row(e)->hlo, "divide") == 0;
    if (divides && tpj_dtype_is_integral(tpj_promote(e, "tensor1", "tensor2", NULL)))
        tpj_fail(
            e, TPJ_RUNTIME,
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a "
            "true division of tensor1 and tensor2.");
    triple t = triple_in(e, "self", "tensor1", "tensor2", dtype);
    tpj_value *scaled = hlo_mul(t.h, t.y, tpj_scalar(e, "value", t.y->type.dtype));
    tpj_out_as(e, hlo_add(t.h, t.x, hlo_binary(t.h, tpj_row(e)->hlo, scaled, t.z)), dtype);
}

/* Exact at both ends: from the nearer of them. */
static void emit_lerp(tpj_emit *e) {
    tpj_dtype dtype = tpj_in_type(e, "self").dtype, end = tpj_in_type(e, "end").dtype;
    tpj_dtype weight_dtype = tpj_in_type(e, "weight").dtype;
    bool number = tpj_row(e)->variant == 1;
    if (end != dtype || (!number && weight_dtype != dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "expected dtype %s for `%s` but got dtype %s", tpj_dtype_torch_name(dtype),
                 end != dtype ? "end" : "weight", tpj_dtype_torch_name(end != dtype ? end : weight_dtype));
        return;
    }
    if (tpj_dtype_is_integral(dtype)) {
        tpj_fail_dtype(e, dtype);
        return;
    }
    triple t = triple_in(e, "self", "end", "weight", dtype);
    tpj_value *gap = hlo_sub(t.h, t.y, t.x), *rest = hlo_sub(t.h, tpj_like(t.h, t.z, 1), t.z);
    tpj_value *from_start = hlo_add(t.h, t.x, hlo_mul(t.h, t.z, gap));
    tpj_value *from_end = hlo_sub(t.h, t.y, hlo_mul(t.h, gap, rest));
    tpj_value *near_start = tpj_compare_number(t.h, "LT", hlo_abs(t.h, t.z), 0.5);
    tpj_out_as(e, hlo_select(t.h, near_start, from_start, from_end), dtype);
}

/* Bounds are numbers or tensors, each may be absent. When both cross, the upper one holds. */
static void clamp_between(tpj_emit *e, const char *low, const char *high) {
    tpj_hlo *h = tpj_builder(e);
    bool has_low = low != NULL && tpj_has(e, low), has_high = high != NULL && tpj_has(e, high);
    if (!has_low && !has_high) {
        tpj_fail(e, TPJ_RUNTIME, "torch.clamp: At least one of 'min' or 'max' must not be None");
        return;
    }
    tpj_dtype dtype = tpj_promote(e, "self", has_low ? low : high, has_high ? high : low, NULL);
    if (tpj_dtype_is_complex(dtype)) {
        tpj_fail(e, TPJ_NOT_IMPLEMENTED, "clamp is not supported for complex types");
        return;
    }
    tpj_dtype compute = tpj_compute_dtype(dtype);
    tpj_value *x = tpj_in_as(e, "self", compute);
    tpj_value *from = has_low ? tpj_in_as(e, low, compute) : NULL, *to = has_high ? tpj_in_as(e, high, compute) : NULL;
    if (has_low && has_high) {
        hlo_expand_together3(h, &x, &from, &to);
        /* A NaN bound is the result wherever x is a number. */
        x = hlo_min(h, hlo_max(h, x, from), to);
    } else {
        tpj_value *bound = has_low ? from : to;
        hlo_expand_together(h, &x, &bound);
        x = has_low ? hlo_max(h, x, bound) : hlo_min(h, x, bound);
    }
    tpj_out_as(e, x, dtype);
}

static void emit_clamp(tpj_emit *e) { clamp_between(e, "min", "max"); }
static void emit_clamp_min(tpj_emit *e) { clamp_between(e, "min", NULL); }
static void emit_clamp_max(tpj_emit *e) { clamp_between(e, NULL, "max"); }

static void emit_where(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *condition = tpj_in(e, "condition");
    if (condition->type.dtype != TPJ_BOOL && condition->type.dtype != TPJ_U8) {
        tpj_fail(e, TPJ_RUNTIME, "where expected condition to be a boolean tensor, but got a tensor with dtype %s",
                 tpj_dtype_torch_name(condition->type.dtype));
        return;
    }
    tpj_dtype dtype = tpj_promote(e, "self", "other", NULL);
    tpj_value *x = tpj_in_as(e, "self", dtype), *y = tpj_in_as(e, "other", dtype);
    condition = hlo_convert(h, condition, TPJ_BOOL);
    hlo_expand_together3(h, &condition, &x, &y);
    tpj_out(e, hlo_select(h, condition, x, y));
}

/* ---- rows ---- */

#define ROW(op, parameters, function, ...) \
    {.name = op, .params = parameters, .emit = function, .layout = TPJ_LAYOUT_POINTWISE, __VA_ARGS__}
#define TENSORS(op, function, ...) ROW(op, "T self, T other", function, __VA_ARGS__)
#define NUMBER_RIGHT(op, function, ...) ROW(op, "T self, S other", function, __VA_ARGS__)
#define NUMBER_LEFT(op, function, ...) ROW(op, "S self, T other", function, __VA_ARGS__)

const tpj_op_def tpj_ops_binary[] = {
    ROW("add.Tensor", "T self, T other, S alpha=1", emit_add),
    ROW("add.Scalar", "T self, S other, S alpha=1", emit_add),
    ROW("sub.Tensor", "T self, T other, S alpha=1", emit_sub),
    ROW("sub.Scalar", "T self, S other, S alpha=1", emit_sub),
    ROW("rsub.Tensor", "T self, T other, S alpha=1", emit_sub, .variant = 1),
    ROW("rsub.Scalar", "T self, S other, S alpha=1", emit_sub, .variant = 1),
    TENSORS("mul.Tensor", emit_promoted, .hlo = "multiply", .flags = TPJ_OP_FLOAT8),
    NUMBER_RIGHT("mul.Scalar", emit_promoted, .hlo = "multiply"),
    TENSORS("div.Tensor", emit_div),
    NUMBER_RIGHT("div.Scalar", emit_div),
    ROW("div.Tensor_mode", "T self, T other, Str? rounding_mode", emit_div_mode),
    ROW("div.Scalar_mode", "T self, S other, Str? rounding_mode", emit_div_mode),
    TENSORS("floor_divide", emit_floor_divide),
    NUMBER_RIGHT("floor_divide.Scalar", emit_floor_divide),
    TENSORS("remainder.Tensor", emit_remainder),
    NUMBER_RIGHT("remainder.Scalar", emit_remainder),
    NUMBER_LEFT("remainder.Scalar_Tensor", emit_remainder),
    TENSORS("fmod.Tensor", emit_fmod),
    NUMBER_RIGHT("fmod.Scalar", emit_fmod),
    ROW("pow.Tensor_Tensor", "T self, T exponent", emit_pow),
    ROW("pow.Tensor_Scalar", "T self, S^ exponent", emit_pow_number),
    ROW("pow.Scalar", "S self, T exponent", emit_pow),
    TENSORS("atan2", emit_float, .hlo = "atan2"),
    TENSORS("hypot", emit_hypot),
    TENSORS("maximum", emit_extreme, .hlo = "maximum"),
    TENSORS("minimum", emit_extreme, .hlo = "minimum"),
    TENSORS("fmax", emit_extreme_number, .hlo = "maximum"),
    TENSORS("fmin", emit_extreme_number, .hlo = "minimum"),
    TENSORS("logaddexp", emit_logaddexp),
    TENSORS("logaddexp2", emit_logaddexp, .variant = 2),
    TENSORS("copysign.Tensor", emit_copysign),
    NUMBER_RIGHT("copysign.Scalar", emit_copysign),
    TENSORS("nextafter", emit_nextafter),
    TENSORS("xlogy.Tensor", emit_xlogy, .hlo = "log"),
    NUMBER_RIGHT("xlogy.Scalar_Other", emit_xlogy, .hlo = "log"),
    NUMBER_LEFT("xlogy.Scalar_Self", emit_xlogy, .hlo = "log"),
    TENSORS("special_xlog1py", emit_xlogy, .hlo = "log_plus_one"),
    NUMBER_RIGHT("special_xlog1py.other_scalar", emit_xlogy, .hlo = "log_plus_one"),
    NUMBER_LEFT("special_xlog1py.self_scalar", emit_xlogy, .hlo = "log_plus_one"),
    TENSORS("special_zeta", emit_zeta),
    NUMBER_RIGHT("special_zeta.other_scalar", emit_zeta),
    NUMBER_LEFT("special_zeta.self_scalar", emit_zeta),
    ROW("heaviside", "T self, T values", emit_heaviside),
    TENSORS("gcd", emit_gcd),
    TENSORS("lcm", emit_gcd, .variant = 1),
    TENSORS("bitwise_and.Tensor", emit_bitwise, .hlo = "and"),
    NUMBER_RIGHT("bitwise_and.Scalar", emit_bitwise, .hlo = "and"),
    NUMBER_LEFT("bitwise_and.Scalar_Tensor", emit_bitwise, .hlo = "and"),
    TENSORS("bitwise_or.Tensor", emit_bitwise, .hlo = "or"),
    NUMBER_RIGHT("bitwise_or.Scalar", emit_bitwise, .hlo = "or"),
    NUMBER_LEFT("bitwise_or.Scalar_Tensor", emit_bitwise, .hlo = "or"),
    TENSORS("bitwise_xor.Tensor", emit_bitwise, .hlo = "xor"),
    NUMBER_RIGHT("bitwise_xor.Scalar", emit_bitwise, .hlo = "xor"),
    NUMBER_LEFT("bitwise_xor.Scalar_Tensor", emit_bitwise, .hlo = "xor"),
    TENSORS("bitwise_left_shift.Tensor", emit_shift, .hlo = "left"),
    NUMBER_RIGHT("bitwise_left_shift.Tensor_Scalar", emit_shift, .hlo = "left"),
    NUMBER_LEFT("bitwise_left_shift.Scalar_Tensor", emit_shift, .hlo = "left"),
    TENSORS("bitwise_right_shift.Tensor", emit_shift, .hlo = "right"),
    NUMBER_RIGHT("bitwise_right_shift.Tensor_Scalar", emit_shift, .hlo = "right"),
    NUMBER_LEFT("bitwise_right_shift.Scalar_Tensor", emit_shift, .hlo = "right"),
    TENSORS("__lshift__.Tensor", emit_shift, .hlo = "left"),
    NUMBER_RIGHT("__lshift__.Scalar", emit_shift, .hlo = "left"),
    TENSORS("__rshift__.Tensor", emit_shift, .hlo = "right"),
    NUMBER_RIGHT("__rshift__.Scalar", emit_shift, .hlo = "right"),
    TENSORS("logical_and", emit_logical, .hlo = "and"),
    TENSORS("logical_or", emit_logical, .hlo = "or"),
    TENSORS("logical_xor", emit_logical, .hlo = "xor"),
    ROW("complex", "T real, T imag", emit_complex),
    ROW("polar", "T abs, T angle", emit_polar),
    ROW("addcmul", "T self, T tensor1, T tensor2, S value=1", emit_addcmul, .hlo = "multiply"),
    ROW("addcdiv", "T self, T tensor1, T tensor2, S value=1", emit_addcmul, .hlo = "divide"),
    ROW("lerp.Scalar", "T self, T end, S weight", emit_lerp, .variant = 1),
    ROW("lerp.Tensor", "T self, T end, T weight", emit_lerp),
    ROW("clamp", "T self, S? min, S? max", emit_clamp),
    ROW("clamp.Tensor", "T self, T? min, T? max", emit_clamp),
    ROW("clamp_min", "T self, S min", emit_clamp_min),
    ROW("clamp_min.Tensor", "T self, T min", emit_clamp_min),
    ROW("clamp_max", "T self, S max", emit_clamp_max),
    ROW("clamp_max.Tensor", "T self, T max", emit_clamp_max),
    ROW("where.self", "T condition, T self, T other", emit_where),
    {0},
};
