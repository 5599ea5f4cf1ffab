#include "base/protobuf.h"

#include <string.h>

enum wire_type { WIRE_VARINT = 0, WIRE_64_BITS = 1, WIRE_LENGTH = 2, WIRE_32_BITS = 5 };

static void add_varint(tpj_text *message, uint64_t value) {
    char bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value != 0);
    tpj_text_append(message, bytes, n);
}

static void add_tag(tpj_text *message, uint32_t field, enum wire_type type) {
    add_varint(message, (uint64_t)field << 3 | type);
}

static void add_little_endian(tpj_text *message, uint64_t value, size_t n_bytes) {
    char bytes[8];
    for (size_t i = 0; i < n_bytes; i++) bytes[i] = (char)(value >> 8 * i);
    tpj_text_append(message, bytes, n_bytes);
}

void tpj_protobuf_integer(tpj_text *message, uint32_t field, int64_t value) {
    add_tag(message, field, WIRE_VARINT);
    add_varint(message, (uint64_t)value);
}

void tpj_protobuf_float(tpj_text *message, uint32_t field, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_tag(message, field, WIRE_32_BITS);
    add_little_endian(message, bits, sizeof bits);
}

void tpj_protobuf_double(tpj_text *message, uint32_t field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_tag(message, field, WIRE_64_BITS);
    add_little_endian(message, bits, sizeof bits);
}

void tpj_protobuf_bytes(tpj_text *message, uint32_t field, const void *data, size_t n) {
    add_tag(message, field, WIRE_LENGTH);
    add_varint(message, n);
    tpj_text_append(message, data, n);
}

void tpj_protobuf_string(tpj_text *message, uint32_t field, const char *string) {
    tpj_protobuf_bytes(message, field, string, strlen(string));
}

void tpj_protobuf_message(tpj_text *message, uint32_t field, const tpj_text *inner) {
    if (inner->failed) message->failed = true;
    tpj_protobuf_bytes(message, field, tpj_text_string(inner), inner->length);
}
