/* Element types. The order is stable: it is part of cache keys.
 *
 * StableHLO has no complex number of two halves and no names for bits without a meaning. Those dtypes are *carried*: in
 * programs and buffers their elements are unsigned integers of the same width (tpj_dtype_carrier), which programs move
 * about as they are. c32 is the real part in the low half and the imaginary part in the high one, converted to c64 for
 * arithmetic. The opaque dtypes only move: f4x2 is two float4_e2m1fn, byte_u4 is PyTorch's uint4 (one to a byte). */
#ifndef TPJ_DTYPE_H
#define TPJ_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

#include "tpj/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* enumerator, name, MLIR, bytes on the host, class */
/* clang-format off */
#define TPJ_DTYPES(X) \
    X(TPJ_BOOL,        "bool",        "i1",            1,  TPJ_CLASS_BOOL)     \
    X(TPJ_U8,          "u8",          "ui8",           1,  TPJ_CLASS_UNSIGNED) \
    X(TPJ_I8,          "i8",          "i8",            1,  TPJ_CLASS_SIGNED)   \
    X(TPJ_I16,         "i16",         "i16",           2,  TPJ_CLASS_SIGNED)   \
    X(TPJ_I32,         "i32",         "i32",           4,  TPJ_CLASS_SIGNED)   \
    X(TPJ_I64,         "i64",         "i64",           8,  TPJ_CLASS_SIGNED)   \
    X(TPJ_U16,         "u16",         "ui16",          2,  TPJ_CLASS_UNSIGNED) \
    X(TPJ_U32,         "u32",         "ui32",          4,  TPJ_CLASS_UNSIGNED) \
    X(TPJ_U64,         "u64",         "ui64",          8,  TPJ_CLASS_UNSIGNED) \
    X(TPJ_F16,         "f16",         "f16",           2,  TPJ_CLASS_FLOAT)    \
    X(TPJ_BF16,        "bf16",        "bf16",          2,  TPJ_CLASS_FLOAT)    \
    X(TPJ_F32,         "f32",         "f32",           4,  TPJ_CLASS_FLOAT)    \
    X(TPJ_F64,         "f64",         "f64",           8,  TPJ_CLASS_FLOAT)    \
    X(TPJ_C64,         "c64",         "complex<f32>",  8,  TPJ_CLASS_COMPLEX)  \
    X(TPJ_C128,        "c128",        "complex<f64>",  16, TPJ_CLASS_COMPLEX)  \
    X(TPJ_F8E4M3FN,    "f8e4m3fn",    "f8E4M3FN",      1,  TPJ_CLASS_FLOAT)    \
    X(TPJ_F8E5M2,      "f8e5m2",      "f8E5M2",        1,  TPJ_CLASS_FLOAT)    \
    X(TPJ_F8E4M3FNUZ,  "f8e4m3fnuz",  "f8E4M3FNUZ",    1,  TPJ_CLASS_FLOAT)    \
    X(TPJ_F8E5M2FNUZ,  "f8e5m2fnuz",  "f8E5M2FNUZ",    1,  TPJ_CLASS_FLOAT)    \
    X(TPJ_F8E8M0FNU,   "f8e8m0fnu",   "f8E8M0FNU",     1,  TPJ_CLASS_FLOAT)    \
    X(TPJ_I4,          "i4",          "i4",            1,  TPJ_CLASS_SIGNED)   \
    X(TPJ_U4,          "u4",          "ui4",           1,  TPJ_CLASS_UNSIGNED) \
    X(TPJ_C32,         "c32",         "ui32",          4,  TPJ_CLASS_COMPLEX)  \
    X(TPJ_F4X2,        "f4x2",        "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BITS8,       "bits8",       "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BITS16,      "bits16",      "ui16",          2,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BITS1X8,     "bits1x8",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BITS2X4,     "bits2x4",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BITS4X2,     "bits4x2",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BYTE_I1,     "byte_i1",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BYTE_I2,     "byte_i2",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BYTE_I3,     "byte_i3",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BYTE_I4,     "byte_i4",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BYTE_I5,     "byte_i5",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BYTE_I6,     "byte_i6",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BYTE_I7,     "byte_i7",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BYTE_U1,     "byte_u1",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BYTE_U2,     "byte_u2",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BYTE_U3,     "byte_u3",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BYTE_U4,     "byte_u4",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BYTE_U5,     "byte_u5",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BYTE_U6,     "byte_u6",     "ui8",           1,  TPJ_CLASS_OPAQUE)   \
    X(TPJ_BYTE_U7,     "byte_u7",     "ui8",           1,  TPJ_CLASS_OPAQUE)

typedef enum tpj_class {
    TPJ_CLASS_BOOL,
    TPJ_CLASS_UNSIGNED,
    TPJ_CLASS_SIGNED,
    TPJ_CLASS_FLOAT,
    TPJ_CLASS_COMPLEX,
    TPJ_CLASS_OPAQUE
} tpj_class;

typedef enum tpj_dtype {
#define TPJ_DTYPE_ENUMERATOR(enumerator, name, mlir, bytes, kind) enumerator,
    TPJ_DTYPES(TPJ_DTYPE_ENUMERATOR)
#undef TPJ_DTYPE_ENUMERATOR
    TPJ_N_DTYPES
} tpj_dtype;
/* clang-format on */

/* "f32"; "invalid" for a number that is no dtype. */
TPJ_API const char *tpj_dtype_name(tpj_dtype dtype);
/* The MLIR spelling, "f32". */
TPJ_API const char *tpj_dtype_mlir(tpj_dtype dtype);
/* Bytes an element takes on the host (sub-byte types take one). 0 for a number that is no dtype. */
TPJ_API size_t tpj_dtype_bytes(tpj_dtype dtype);
TPJ_API tpj_class tpj_dtype_class(tpj_dtype dtype);
/* The dtype whose elements stand for this one's in programs and buffers: itself, but for c32 and the opaque ones. */
TPJ_API tpj_dtype tpj_dtype_carrier(tpj_dtype dtype);
/* false when `name` is no dtype's name. */
TPJ_API bool tpj_dtype_parse(const char *name, size_t length, tpj_dtype *out_dtype);

static inline bool tpj_dtype_is_float(tpj_dtype dtype) { return tpj_dtype_class(dtype) == TPJ_CLASS_FLOAT; }
static inline bool tpj_dtype_is_opaque(tpj_dtype dtype) { return tpj_dtype_class(dtype) == TPJ_CLASS_OPAQUE; }
static inline bool tpj_dtype_is_complex(tpj_dtype dtype) { return tpj_dtype_class(dtype) == TPJ_CLASS_COMPLEX; }
/* Integers and bool. */
static inline bool tpj_dtype_is_integral(tpj_dtype dtype) { return tpj_dtype_class(dtype) <= TPJ_CLASS_SIGNED; }
static inline bool tpj_dtype_is_unsigned(tpj_dtype dtype) { return tpj_dtype_class(dtype) <= TPJ_CLASS_UNSIGNED; }
static inline bool tpj_dtype_is_float8(tpj_dtype dtype) {
    return tpj_dtype_is_float(dtype) && tpj_dtype_bytes(dtype) == 1;
}
/* f16, bf16 and the float8 types: arithmetic on them is done in f32 and rounded once, as PyTorch's CPU does. */
static inline bool tpj_dtype_is_half(tpj_dtype dtype) {
    return tpj_dtype_is_float(dtype) && tpj_dtype_bytes(dtype) < 4;
}

#ifdef __cplusplus
}
#endif
#endif
