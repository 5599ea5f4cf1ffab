/* Conversions between dtypes: of values, of the parts of complex numbers, and of bits. */
#include <inttypes.h>
#include <string.h>

#include "hlo/writer.h"

static tpj_value *convert_directly(tpj_hlo *h, tpj_value *x, tpj_dtype dtype) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    return x->type.dtype == dtype ? x : hlo_op_like(h, "convert", &x, 1, dtype);
}

/* c32's parts, as f16: the low and the high half of its bits. */
static tpj_value *part_of_c32(tpj_hlo *h, tpj_value *x, bool imaginary) {
    tpj_value *bits = hlo_rename(h, x, TPJ_U32);
    bits = imaginary ? hlo_binary(h, "shift_right_logical", bits, hlo_integer(h, TPJ_U32, 16))
                     : hlo_and(h, bits, hlo_integer(h, TPJ_U32, 0xFFFF));
    return hlo_bitcast(h, hlo_convert(h, bits, TPJ_U16), TPJ_F16);
}

static tpj_value *c32_of_parts(tpj_hlo *h, tpj_value *real, tpj_value *imaginary) {
    tpj_value *low = hlo_convert(h, hlo_bitcast(h, real, TPJ_U16), TPJ_U32);
    tpj_value *high = hlo_convert(h, hlo_bitcast(h, imaginary, TPJ_U16), TPJ_U32);
    high = hlo_binary(h, "shift_left", high, hlo_integer(h, TPJ_U32, 16));
    return hlo_rename(h, hlo_or(h, low, high), TPJ_C32);
}

static tpj_value *convert_to_c32(tpj_hlo *h, tpj_value *x) {
    tpj_value *wide = hlo_convert(h, x, TPJ_C64);
    return c32_of_parts(h, hlo_convert(h, hlo_real(h, wide), TPJ_F16), hlo_convert(h, hlo_imag(h, wide), TPJ_F16));
}

static tpj_value *convert_from_c32(tpj_hlo *h, tpj_value *x, tpj_dtype dtype) {
    tpj_value *real = hlo_real(h, x);
    if (dtype != TPJ_BOOL && !tpj_dtype_is_complex(dtype)) return hlo_convert(h, real, dtype);
    tpj_value *wide = hlo_complex(h, hlo_convert(h, real, TPJ_F32), hlo_convert(h, hlo_imag(h, x), TPJ_F32));
    return hlo_convert(h, wide, dtype);
}

/* The bits of a f32 as e8m0fnu, a power of two without a sign: the exponent, rounded to the nearest power, ties up; zero
 * becomes the smallest one, and infinity NaN. After PyTorch's fp8e8m0fnu_from_fp32_value. */
static tpj_value *convert_to_e8m0fnu(tpj_hlo *h, tpj_value *x) {
    tpj_value *bits = hlo_bitcast(h, x, TPJ_U32);
    tpj_value *exponent = hlo_and(h, hlo_binary(h, "shift_right_logical", bits, hlo_integer(h, TPJ_U32, 23)),
                                  hlo_integer(h, TPJ_U32, 0xFF));
    tpj_value *rest = hlo_and(h, bits, hlo_integer(h, TPJ_U32, 0x7FFFFF)), *half = hlo_integer(h, TPJ_U32, 0x400000);
    tpj_value *no_power = hlo_compare(h, "EQ", exponent, hlo_integer(h, TPJ_U32, 0));
    tpj_value *up = hlo_select(h, no_power, hlo_compare(h, "GT", rest, half), hlo_compare(h, "GE", rest, half));
    up = hlo_and(h, up, hlo_compare(h, "NE", exponent, hlo_integer(h, TPJ_U32, 0xFF)));
    exponent = hlo_add(h, exponent, convert_directly(h, up, TPJ_U32));
    return hlo_bitcast(h, convert_directly(h, exponent, TPJ_U8), TPJ_F8E8M0FNU);
}

/* To f16, bf16 and float8, by way of f32 as PyTorch does: f64 and wide integers are rounded twice. */
static tpj_value *convert_to_half(tpj_hlo *h, tpj_value *x, tpj_dtype dtype) {
    if (tpj_dtype_bytes(x->type.dtype) >= 4 || tpj_dtype_is_float8(dtype)) x = convert_directly(h, x, TPJ_F32);
    if (dtype == TPJ_F8E8M0FNU) return convert_to_e8m0fnu(h, x);
    if (dtype == TPJ_F8E4M3FN) /* what is too large becomes the largest number, infinity too */
        x = hlo_clamp(h, hlo_number(h, TPJ_F32, -448), x, hlo_number(h, TPJ_F32, 448));
    return convert_directly(h, x, dtype);
}

/* StableHLO leaves out-of-range values open and XLA saturates. C compilers go through a wider register, so that -1.0
 * becomes the largest unsigned number. */
static tpj_value *convert_float_to_integer(tpj_hlo *h, tpj_value *x, tpj_dtype dtype) {
    if (tpj_dtype_bytes(dtype) < 4) return convert_directly(h, convert_directly(h, x, TPJ_I32), dtype);
    if (dtype == TPJ_U32) return convert_directly(h, convert_directly(h, x, TPJ_I64), dtype);
    if (dtype != TPJ_U64) return convert_directly(h, x, dtype);
    tpj_value *negative = hlo_compare(h, "LT", x, hlo_number(h, x->type.dtype, 0));
    tpj_value *wrapped = hlo_bitcast(h, convert_directly(h, x, TPJ_I64), TPJ_U64);
    return hlo_select(h, negative, wrapped, convert_directly(h, x, TPJ_U64));
}

tpj_value *hlo_convert(tpj_hlo *h, tpj_value *x, tpj_dtype dtype) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    tpj_dtype from = x->type.dtype;
    if (from == dtype) return x;
    if (from == TPJ_C32) return convert_from_c32(h, x, dtype);
    if (dtype == TPJ_C32) return convert_to_c32(h, x);
    if (tpj_dtype_is_opaque(dtype))
        return hlo_fail(h, TPJ_NOT_IMPLEMENTED, "not implemented for %s", tpj_dtype_name(dtype));
    if (tpj_dtype_is_float8(from) && dtype != TPJ_F32) return hlo_convert(h, convert_directly(h, x, TPJ_F32), dtype);
    if (dtype == TPJ_BOOL) return hlo_compare(h, "NE", x, hlo_integer(h, from, 0));
    if (tpj_dtype_is_complex(from) && !tpj_dtype_is_complex(dtype)) return hlo_convert(h, hlo_real(h, x), dtype);
    if (tpj_dtype_is_complex(dtype) && !tpj_dtype_is_complex(from)) {
        tpj_value *real = convert_directly(h, x, hlo_real_dtype(dtype));
        return hlo_complex(h, real, hlo_full_like(h, real, 0));
    }
    if (tpj_dtype_is_half(dtype)) return convert_to_half(h, x, dtype);
    if (tpj_dtype_is_float(from) && tpj_dtype_is_integral(dtype)) return convert_float_to_integer(h, x, dtype);
    return convert_directly(h, x, dtype);
}

tpj_value *hlo_real(tpj_hlo *h, tpj_value *x) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    if (!tpj_dtype_is_complex(x->type.dtype)) return x;
    if (x->type.dtype == TPJ_C32) return part_of_c32(h, x, false);
    return hlo_op_like(h, "real", &x, 1, hlo_real_dtype(x->type.dtype));
}

tpj_value *hlo_imag(tpj_hlo *h, tpj_value *x) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    if (!tpj_dtype_is_complex(x->type.dtype)) return hlo_full_like(h, x, 0);
    if (x->type.dtype == TPJ_C32) return part_of_c32(h, x, true);
    return hlo_op_like(h, "imag", &x, 1, hlo_real_dtype(x->type.dtype));
}

tpj_value *hlo_complex(tpj_hlo *h, tpj_value *real, tpj_value *imaginary) {
    tpj_value *xs[] = {real, imaginary};
    if (!hlo_match(h, "complex", xs, 2) || !hlo_same_dtypes(h, "complex", xs[0], xs[1])) return &h->poison;
    tpj_dtype dtype = xs[0]->type.dtype;
    if (dtype == TPJ_F16) return c32_of_parts(h, xs[0], xs[1]);
    if (dtype != TPJ_F32 && dtype != TPJ_F64) {
        return hlo_fail(h, TPJ_RUNTIME, "no complex numbers are made of %s", tpj_dtype_name(dtype));
    }
    return hlo_op_like(h, "complex", xs, 2, hlo_complex_dtype(dtype));
}

tpj_value *hlo_conj(tpj_hlo *h, tpj_value *x) {
    if (!hlo_ready(h, &x, 1) || !tpj_dtype_is_complex(x->type.dtype)) return h->failed ? &h->poison : x;
    return hlo_complex(h, hlo_real(h, x), hlo_neg(h, hlo_imag(h, x)));
}

tpj_value *hlo_bitcast(tpj_hlo *h, tpj_value *x, tpj_dtype dtype) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    if (x->type.dtype == dtype) return x;
    tpj_dtype target = dtype;
    x = hlo_rename(h, x, tpj_dtype_carrier(x->type.dtype));
    dtype = tpj_dtype_carrier(dtype);
    if (x->type.dtype == dtype) return hlo_rename(h, x, target);
    int64_t from = hlo_dtype_bits(x->type.dtype), to = hlo_dtype_bits(dtype);
    int rank = x->type.rank;
    int64_t *dims = hlo_dims(h, rank + 1);
    if (h->failed) return &h->poison;
    if (rank > 0) memcpy(dims, x->type.dims, sizeof *dims * (size_t)rank);
    if (from > to) dims[rank++] = from / to;
    if (from < to) {
        if (rank == 0 || dims[rank - 1] != to / from) {
            return hlo_fail(h, TPJ_INTERNAL, "bitcast of %s to %s: the last dimension must be %" PRId64,
                            hlo_type_string(h, &x->type), tpj_dtype_name(dtype), to / from);
        }
        rank--;
    }
    return hlo_rename(h, hlo_op1(h, "bitcast_convert", &x, 1, NULL, dtype, rank, dims), target);
}
