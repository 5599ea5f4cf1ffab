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

bool tpj_requirement_fits(const tpj_requirement *r, const tpj_number *number, const tpj_number *other) {
    if (r->span == 0) return true;
    int64_t low = other != NULL ? as_integer(number) : 0, high = as_integer(other != NULL ? other : number);
    return low < high && (uint64_t)high - (uint64_t)low <= r->span;
}

static tpj_status *misfit(const tpj_requirement *r) {
    TPJ_ERROR(TPJ_VALUE, "%s: the program was not made for numbers that are so far apart", r->op);
}

tpj_status *tpj_requirement_check(const tpj_requirement *r, const tpj_number *number, const tpj_number *other) {
    if (r->span > 0) return tpj_requirement_fits(r, number, other) ? NULL : misfit(r);
    double value = as_double(number), limit = other != NULL ? as_double(other) : 0;
    if (other == NULL) {
        if (value >= r->low && value <= r->high) return NULL;
        TPJ_ERROR(r->code, "%s: %s%g", r->op, r->message, value);
    }
    if (r->high > 0) {
        if (limit - value <= r->high) return NULL;
        TPJ_ERROR(r->code, "%s: %s%g, %g", r->op, r->message, value, limit);
    }
    bool integers = is_integral(number) && is_integral(other);
    bool below = integers ? number->integer < other->integer : value < limit;
    bool same = integers ? number->integer == other->integer : value == limit;
    if (below || (r->equal && same)) return NULL;
    TPJ_ERROR(r->code, "%s: %s%g, %g", r->op, r->message, value, limit);
}

tpj_status *tpj_random_state_create(tpj_client *client, int device, const uint64_t random[2], tpj_buffer **out_buffer) {
    static const int64_t two = 2;
    return tpj_buffer_from_host(client, device, TPJ_U64, 1, &two, random, out_buffer);
}
