/* Numbers of the host as operands of a program. */
#include <string.h>

#include "exec/program.h"

static bool is_integral(const tpj_number *number) { return number->kind < TPJ_NUMBER_FLOAT; }

static double as_double(const tpj_number *number) {
    return is_integral(number) ? (double)number->integer : number->parts[0];
}

static int64_t as_integer(const tpj_number *number) {
    if (is_integral(number)) return number->integer;
    double value = number->parts[0];
    return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN; /* what x86's conversion gives */
}

static bool as_bool(const tpj_number *number) {
    if (is_integral(number)) return number->integer != 0;
    return number->parts[0] != 0 || (number->kind == TPJ_NUMBER_COMPLEX && number->parts[1] != 0);
}

void tpj_number_encode(const tpj_number *number, tpj_dtype dtype, uint64_t out_bits[2]) {
    out_bits[0] = out_bits[1] = 0;
    double wide[2] = {as_double(number), number->kind == TPJ_NUMBER_COMPLEX ? number->parts[1] : 0};
    float parts[2] = {(float)wide[0], (float)wide[1]};
    int64_t integer = tpj_dtype_is_integral(dtype) ? as_integer(number) : 0;
    bool boolean = as_bool(number);
    switch (dtype) {
        case TPJ_F32: memcpy(out_bits, parts, 4); return;
        case TPJ_F64: memcpy(out_bits, wide, 8); return;
        case TPJ_C64: memcpy(out_bits, parts, 8); return;
        case TPJ_C128: memcpy(out_bits, wide, 16); return;
        case TPJ_BOOL: memcpy(out_bits, &boolean, 1); return;
        default: memcpy(out_bits, &integer, tpj_dtype_bytes(dtype)); return; /* little-endian: the low bytes */
    }
}

tpj_status *tpj_random_state_create(tpj_client *client, int device, const uint64_t random[2], tpj_buffer **out_buffer) {
    static const int64_t two = 2;
    return tpj_buffer_from_host(client, device, TPJ_U64, 1, &two, random, out_buffer);
}
