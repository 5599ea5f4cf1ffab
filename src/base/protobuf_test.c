#include "base/protobuf.h"

#include "runner.h"

/* Compares and destroys. */
static bool holds(tpj_text *message, const char *bytes, size_t n) {
    bool same = message->length == n && memcmp(tpj_text_string(message), bytes, n) == 0;
    tpj_text_destroy(message);
    return same;
}
#define HOLDS(message, literal) holds(&(message), literal, sizeof(literal) - 1)

TEST(protobuf_integers) {
    tpj_text message = {0};
    tpj_protobuf_integer(&message, 1, 0);
    tpj_protobuf_integer(&message, 1, 127);
    tpj_protobuf_integer(&message, 1, 128);
    tpj_protobuf_integer(&message, 16, 300); /* the tag takes two bytes */
    tpj_protobuf_integer(&message, 1, -1);
    tpj_protobuf_integer(&message, 1, INT64_MIN);
    CHECK(HOLDS(message, "\x08\x00"
                         "\x08\x7f"
                         "\x08\x80\x01"
                         "\x80\x01\xac\x02"
                         "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                         "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"));
}

TEST(protobuf_floats) {
    tpj_text message = {0};
    tpj_protobuf_float(&message, 2, 1.5f);
    tpj_protobuf_double(&message, 3, -2.0);
    CHECK(HOLDS(message, "\x15\x00\x00\xc0\x3f"
                         "\x19\x00\x00\x00\x00\x00\x00\x00\xc0"));
}

TEST(protobuf_nested) {
    tpj_text inner = {0}, message = {0}, empty = {0};
    tpj_protobuf_string(&inner, 1, "hi");
    tpj_protobuf_bytes(&inner, 2, "\0\1", 2);
    tpj_protobuf_message(&message, 3, &inner);
    tpj_protobuf_message(&message, 4, &empty);
    tpj_text_destroy(&inner);
    CHECK(HOLDS(message, "\x1a\x08"
                         "\x0a\x02hi"
                         "\x12\x02\x00\x01"
                         "\x22\x00"));
}

TEST(protobuf_long_strings_have_long_lengths) {
    tpj_text message = {0};
    static char data[200];
    tpj_protobuf_bytes(&message, 1, data, sizeof data);
    CHECK_INT(message.length, 3 + sizeof data);
    CHECK(memcmp(message.data, "\x0a\xc8\x01", 3) == 0);
    tpj_text_destroy(&message);
}

TEST(protobuf_remembers_a_failed_part) {
    tpj_text inner = {.failed = true}, message = {0};
    tpj_protobuf_message(&message, 1, &inner);
    CHECK(message.failed);
    tpj_text_destroy(&message);
}
