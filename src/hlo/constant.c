#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/writer.h"

enum { LITERAL_BYTES = 96 };

/* ---- scalar literals ---- */

/* Bit patterns of what has no decimal form. A format without infinity gets its largest number for it. */
typedef struct float_bits {
    tpj_dtype dtype;
    double limit; /* |x| >= limit rounds to infinity */
    uint64_t infinity, negative_infinity, nan;
} float_bits;

static const float_bits FLOAT_BITS[] = {
    {TPJ_F16, 65520.0, 0x7C00, 0xFC00, 0x7E00},
    {TPJ_BF16, 0x1.FFp127, 0x7F80, 0xFF80, 0x7FC0},
    {TPJ_F32, 0x1.FFFFFFp127, 0x7F800000, 0xFF800000, 0x7FC00000},
    {TPJ_F64, HUGE_VAL, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000},
    {TPJ_F8E4M3FN, 464.0, 0x7E, 0xFE, 0x7F},
    {TPJ_F8E5M2, 61440.0, 0x7C, 0xFC, 0x7E},
    {TPJ_F8E4M3FNUZ, 248.0, 0x7F, 0xFF, 0x80},
    {TPJ_F8E5M2FNUZ, 61440.0, 0x7F, 0xFF, 0x80},
    {TPJ_F8E8M0FNU, 0x1.8p127, 0xFE, 0x00, 0xFF},
};

/* The shortest decimal that reads back as the same number, in the form MLIR wants ("1.0e+00"). MLIR reads a double and
 * rounds that, as is done here. */
static void format_decimal(char *buffer, size_t size, tpj_dtype dtype, double value) {
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(buffer, size, "%.*e", precision, value);
        double back = strtod(buffer, NULL);
        if (dtype == TPJ_F32 ? (float)back == (float)value : back == value) break;
    }
    /* The C library writes the locale's decimal point. */
    char *digit = buffer + (buffer[0] == '-');
    if (digit[1] != '\0') digit[1] = '.';
}

static void format_float(char *buffer, size_t size, tpj_dtype dtype, double value) {
    if (dtype == TPJ_F8E8M0FNU) { /* no sign; the smallest number stands for zero */
        value = fabs(value);
        if (value < 0x1p-127) value = 0x1p-127;
    }
    for (size_t i = 0; i < sizeof FLOAT_BITS / sizeof *FLOAT_BITS; i++) {
        const float_bits *bits = &FLOAT_BITS[i];
        if (bits->dtype != dtype) continue;
        uint64_t pattern;
        if (isnan(value))
            pattern = bits->nan;
        else if (fabs(value) >= bits->limit)
            pattern = value > 0 ? bits->infinity : bits->negative_infinity;
        else
            break;
        snprintf(buffer, size, "0x%0*" PRIX64, (int)tpj_dtype_bytes(dtype) * 2, pattern);
        return;
    }
    format_decimal(buffer, size, dtype, value);
}

/* The value that `dtype` keeps of `value`: the low bits. */
static int64_t wrap_integer(tpj_dtype dtype, int64_t value) {
    int drop = 64 - hlo_dtype_bits(dtype);
    if (drop == 0) return value;
    uint64_t high = (uint64_t)value << drop;
    return tpj_dtype_is_unsigned(dtype) ? (int64_t)(high >> drop) : (int64_t)high >> drop;
}

static void format_integer(char *buffer, size_t size, tpj_dtype dtype, int64_t value) {
    if (dtype == TPJ_BOOL)
        snprintf(buffer, size, value != 0 ? "true" : "false");
    else if (dtype == TPJ_U64)
        snprintf(buffer, size, "%" PRIu64, (uint64_t)value);
    else
        snprintf(buffer, size, "%" PRId64, wrap_integer(dtype, value));
}

static int64_t truncate_number(double value) {
    if (isnan(value)) return 0;
    if (value >= 0x1p63) return value < 0x1p64 ? (int64_t)(uint64_t)value : -1;
    return value <= -0x1p63 ? INT64_MIN : (int64_t)value;
}

static void format_complex(char *buffer, size_t size, tpj_dtype dtype, double real, double imaginary) {
    char re[40], im[40];
    format_float(re, sizeof re, hlo_real_dtype(dtype), real);
    format_float(im, sizeof im, hlo_real_dtype(dtype), imaginary);
    snprintf(buffer, size, "(%s, %s)", re, im);
}

static tpj_value *write_constant(tpj_hlo *h, const char *literal, tpj_dtype dtype, int rank, const int64_t *dims) {
    tpj_type type = hlo_type(dtype, rank, dims);
    hlo_attributes_begin(h);
    tpj_text_add(&h->scratch, "value = dense<");
    tpj_text_add(&h->scratch, literal);
    tpj_text_add(&h->scratch, "> : ");
    hlo_write_type(&h->scratch, &type);
    return hlo_op1(h, "constant", NULL, 0, hlo_attributes(h), dtype, rank, dims);
}

/* One constant per region and value: reducers and comparators may not use values from outside. */
static tpj_value *scalar(tpj_hlo *h, tpj_dtype dtype, const char *literal) {
    if (h->failed) return &h->poison;
    char key[LITERAL_BYTES + 40];
    snprintf(key, sizeof key, "%d %s %s", h->scope, tpj_dtype_name(dtype), literal);
    void **slot = hlo_intern(h, key);
    if (slot == NULL) return &h->poison;
    if (*slot != NULL) return *slot;
    return *slot = write_constant(h, literal, dtype, 0, NULL);
}

tpj_value *hlo_number(tpj_hlo *h, tpj_dtype dtype, double value) {
    char literal[LITERAL_BYTES];
    if (tpj_dtype_is_opaque(dtype)) { /* zero is zeros in any format */
        if (value == 0) return hlo_rename(h, hlo_integer(h, tpj_dtype_carrier(dtype), 0), dtype);
        return hlo_fail(h, TPJ_NOT_IMPLEMENTED, "not implemented for %s", tpj_dtype_name(dtype));
    }
    if (tpj_dtype_is_complex(dtype)) return hlo_complex_number(h, dtype, value, 0);
    if (tpj_dtype_is_float(dtype))
        format_float(literal, sizeof literal, dtype, value);
    else if (dtype == TPJ_BOOL)
        format_integer(literal, sizeof literal, dtype, value != 0);
    else
        format_integer(literal, sizeof literal, dtype, truncate_number(value));
    return scalar(h, dtype, literal);
}

tpj_value *hlo_integer(tpj_hlo *h, tpj_dtype dtype, int64_t value) {
    char literal[LITERAL_BYTES];
    if (!tpj_dtype_is_integral(dtype)) return hlo_number(h, dtype, (double)value);
    format_integer(literal, sizeof literal, dtype, value);
    return scalar(h, dtype, literal);
}

tpj_value *hlo_complex_number(tpj_hlo *h, tpj_dtype dtype, double real, double imaginary) {
    char literal[LITERAL_BYTES];
    if (!tpj_dtype_is_complex(dtype)) return hlo_number(h, dtype, real);
    if (dtype == TPJ_C32) return hlo_convert(h, hlo_complex_number(h, TPJ_C64, real, imaginary), dtype);
    format_complex(literal, sizeof literal, dtype, real, imaginary);
    return scalar(h, dtype, literal);
}

tpj_value *hlo_full(tpj_hlo *h, tpj_dtype dtype, int rank, const int64_t *dims, double value) {
    /* A broadcast scalar, never a splat literal: compilers may spell a literal out. */
    return hlo_broadcast_in_dim(h, hlo_number(h, dtype, value), rank, dims, NULL);
}

tpj_value *hlo_full_like(tpj_hlo *h, tpj_value *like, double value) {
    if (!hlo_ready(h, &like, 1)) return &h->poison;
    return hlo_full(h, like->type.dtype, like->type.rank, like->type.dims, value);
}

tpj_value *hlo_zeros(tpj_hlo *h, tpj_dtype dtype, int rank, const int64_t *dims) {
    return hlo_full(h, dtype, rank, dims, 0);
}

tpj_value *hlo_lowest(tpj_hlo *h, tpj_dtype dtype) {
    if (tpj_dtype_is_float(dtype)) return hlo_number(h, dtype, -HUGE_VAL);
    if (tpj_dtype_is_unsigned(dtype)) return hlo_integer(h, dtype, 0);
    return hlo_integer(h, dtype, INT64_MIN >> (64 - hlo_dtype_bits(dtype)));
}

tpj_value *hlo_highest(tpj_hlo *h, tpj_dtype dtype) {
    if (tpj_dtype_is_float(dtype)) return hlo_number(h, dtype, HUGE_VAL);
    if (tpj_dtype_is_unsigned(dtype)) return hlo_integer(h, dtype, -1);
    return hlo_integer(h, dtype, INT64_MAX >> (64 - hlo_dtype_bits(dtype)));
}

/* ---- arrays ---- */

static int64_t count(int rank, const int64_t *dims) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    return n;
}

/* Elements as MLIR's hexadecimal blob, little-endian whatever the host is. */
static tpj_value *blob(tpj_hlo *h, tpj_dtype dtype, int rank, const int64_t *dims, const uint64_t *bits, int64_t n) {
    size_t bytes = tpj_dtype_bytes(dtype);
    tpj_text text = {0};
    tpj_text_add(&text, "\"0x");
    for (int64_t i = 0; i < n; i++) {
        char digits[17];
        for (size_t k = 0; k < bytes; k++) snprintf(digits + 2 * k, 3, "%02X", (unsigned)(bits[i] >> (8 * k) & 0xFF));
        tpj_text_append(&text, digits, 2 * bytes);
    }
    tpj_text_add(&text, "\"");
    tpj_value *value = text.failed ? hlo_fail(h, TPJ_OUT_OF_MEMORY, "no memory to write a constant")
                                   : write_constant(h, tpj_text_string(&text), dtype, rank, dims);
    tpj_text_destroy(&text);
    return value;
}

static tpj_value *array_of_bits(tpj_hlo *h, tpj_dtype dtype, int rank, const int64_t *dims, const uint64_t *bits) {
    int64_t n = count(rank, dims);
    bool splat = true;
    for (int64_t i = 1; i < n && splat; i++) splat = bits[i] == bits[0];
    /* MLIR takes a blob of equal elements for a splat, or rejects it, depending on its length: avoid the question. */
    if (splat) {
        tpj_value *one = blob(h, dtype, 0, NULL, bits, 1);
        return hlo_broadcast_in_dim(h, one, rank, dims, NULL);
    }
    return blob(h, dtype, rank, dims, bits, n);
}

static uint64_t *bits_array(tpj_hlo *h, int64_t n) {
    uint64_t *bits = TPJ_ARENA_ARRAY(&h->arena, uint64_t, n);
    if (bits == NULL) hlo_fail(h, TPJ_OUT_OF_MEMORY, "no memory for a constant of %" PRId64 " elements", n);
    return bits;
}

tpj_value *hlo_array_of_integers(tpj_hlo *h, tpj_dtype dtype, int rank, const int64_t *dims, const int64_t *values) {
    if (h->failed) return &h->poison;
    int64_t n = count(rank, dims);
    if (n == 0) return hlo_zeros(h, dtype, rank, dims);
    /* What has no blob of whole bytes goes through a type that has. */
    if (!tpj_dtype_is_integral(dtype) || dtype == TPJ_BOOL || hlo_dtype_bits(dtype) < 8) {
        tpj_dtype carrier = dtype == TPJ_BOOL || hlo_dtype_bits(dtype) < 8 ? TPJ_I8 : TPJ_I64;
        return hlo_convert(h, hlo_array_of_integers(h, carrier, rank, dims, values), dtype);
    }
    uint64_t *bits = bits_array(h, n);
    if (bits == NULL) return &h->poison;
    for (int64_t i = 0; i < n; i++) bits[i] = (uint64_t)values[i];
    return array_of_bits(h, dtype, rank, dims, bits);
}

tpj_value *hlo_array_of_numbers(tpj_hlo *h, tpj_dtype dtype, int rank, const int64_t *dims, const double *values) {
    if (h->failed) return &h->poison;
    int64_t n = count(rank, dims);
    if (n == 0) return hlo_zeros(h, dtype, rank, dims);
    if (dtype != TPJ_F32 && dtype != TPJ_F64) {
        bool wide = dtype == TPJ_C128 || tpj_dtype_is_integral(dtype);
        return hlo_convert(h, hlo_array_of_numbers(h, wide ? TPJ_F64 : TPJ_F32, rank, dims, values), dtype);
    }
    uint64_t *bits = bits_array(h, n);
    if (bits == NULL) return &h->poison;
    for (int64_t i = 0; i < n; i++) {
        float narrow = (float)values[i];
        if (dtype == TPJ_F64)
            memcpy(&bits[i], &values[i], sizeof values[i]);
        else {
            uint32_t word;
            memcpy(&word, &narrow, sizeof word);
            bits[i] = word;
        }
    }
    return array_of_bits(h, dtype, rank, dims, bits);
}

tpj_value *hlo_iota(tpj_hlo *h, tpj_dtype dtype, int rank, const int64_t *dims, int dimension) {
    if (h->failed) return &h->poison;
    if (dimension < 0 || dimension >= rank)
        return hlo_fail(h, TPJ_INTERNAL, "iota: dimension %d of %d", dimension, rank);
    if (dtype == TPJ_BOOL || tpj_dtype_carrier(dtype) != dtype)
        return hlo_convert(h, hlo_iota(h, TPJ_I32, rank, dims, dimension), dtype);
    hlo_attributes_begin(h);
    hlo_attribute_text(h, "iota_dimension = %d : i64", dimension);
    return hlo_op1(h, "iota", NULL, 0, hlo_attributes(h), dtype, rank, dims);
}
