#include "ops/pointwise.h"

#include <math.h>

tpj_pair tpj_pair_read(tpj_emit *e, const char *x, const char *y, tpj_dtype dtype) {
    tpj_dtype compute = tpj_compute_dtype(dtype);
    tpj_pair pair = {tpj_builder(e), dtype, tpj_in_as(e, x, compute), tpj_in_as(e, y, compute)};
    hlo_expand_together(pair.h, &pair.x, &pair.y);
    return pair;
}

void tpj_fail_dtype(tpj_emit *e, tpj_dtype dtype) {
    tpj_fail(e, TPJ_NOT_IMPLEMENTED, "not implemented for '%s'", tpj_dtype_torch_name(dtype));
}

tpj_value *tpj_like(tpj_hlo *h, tpj_value *x, double value) { return hlo_number(h, x->type.dtype, value); }

tpj_value *tpj_compare_number(tpj_hlo *h, const char *direction, tpj_value *x, double value) {
    return hlo_compare(h, direction, x, tpj_like(h, x, value));
}

static tpj_dtype integer_of_width(tpj_dtype dtype) {
    switch (tpj_dtype_bytes(dtype)) {
        case 1: return TPJ_I8;
        case 2: return TPJ_I16;
        case 4: return TPJ_I32;
        default: return TPJ_I64;
    }
}

tpj_value *tpj_sign_bit(tpj_hlo *h, tpj_value *x) {
    if (tpj_dtype_is_unsigned(x->type.dtype)) return hlo_full(h, TPJ_BOOL, x->type.rank, x->type.dims, 0);
    if (tpj_dtype_is_float(x->type.dtype)) x = hlo_bitcast(h, x, integer_of_width(x->type.dtype));
    return tpj_compare_number(h, "LT", x, 0);
}

tpj_value *tpj_is_infinite(tpj_hlo *h, tpj_value *x) {
    if (tpj_dtype_is_complex(x->type.dtype))
        return hlo_or(h, tpj_is_infinite(h, hlo_real(h, x)), tpj_is_infinite(h, hlo_imag(h, x)));
    if (!tpj_dtype_is_float(x->type.dtype)) return hlo_full(h, TPJ_BOOL, x->type.rank, x->type.dims, 0);
    return tpj_compare_number(h, "EQ", hlo_abs(h, x), HUGE_VAL);
}

tpj_value *tpj_truncate(tpj_hlo *h, tpj_value *x) {
    return hlo_select(h, tpj_sign_bit(h, x), hlo_unary(h, "ceil", x), hlo_unary(h, "floor", x));
}

tpj_value *tpj_select_or(tpj_hlo *h, tpj_value *predicate, tpj_value *on_true, double otherwise) {
    return hlo_select(h, predicate, on_true, tpj_like(h, on_true, otherwise));
}

tpj_value *tpj_rounded(tpj_hlo *h, tpj_value *x, tpj_dtype dtype) {
    if (dtype != TPJ_F16 && dtype != TPJ_BF16) return x;
    const char *bits = dtype == TPJ_F16 ? "exponent_bits = 5 : i32, mantissa_bits = 10 : i32"
                                        : "exponent_bits = 8 : i32, mantissa_bits = 7 : i32";
    return hlo_op1(h, "reduce_precision", &x, 1, bits, x->type.dtype, x->type.rank, x->type.dims);
}

/* The divisor is made to look like one of its own for each element; the quotient stays: NaN / NaN is NaN. */
tpj_value *tpj_divide(tpj_hlo *h, tpj_value *x, tpj_value *y) {
    if (tpj_dtype_is_float(x->type.dtype)) y = hlo_select(h, hlo_is_nan(h, x), x, y);
    return hlo_div(h, x, y);
}
