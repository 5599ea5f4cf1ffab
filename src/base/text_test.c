#include "base/text.h"

#include "runner.h"

TEST(text_is_empty_at_first) {
    tpj_text text = {0};
    CHECK_STRING(tpj_text_string(&text), "");
    tpj_text_clear(&text);
    CHECK_STRING(tpj_text_string(&text), "");
    tpj_text_destroy(&text);
}

TEST(text_grows) {
    tpj_text text = {0};
    for (int i = 0; i < 1000; i++) tpj_text_printf(&text, "%d,", i % 10);
    bool fits = text.length == 2000 && strlen(text.data) == 2000 && strcmp(text.data + 1990, "5,6,7,8,9,") == 0;
    tpj_text_destroy(&text);
    CHECK(fits);
}

TEST(text_appends_bytes_and_integers) {
    tpj_text text = {0};
    tpj_text_append(&text, "a\0b", 3);
    tpj_text_add(&text, "|");
    tpj_text_integers(&text, (const int64_t[]){-1, 0, INT64_MAX}, 3);
    tpj_text_integers(&text, NULL, 0);
    static const char expected[] = "a\0b|-1, 0, 9223372036854775807";
    bool fits = text.length == sizeof expected - 1 && memcmp(text.data, expected, sizeof expected) == 0;
    tpj_text_clear(&text);
    bool cleared = text.length == 0 && strcmp(tpj_text_string(&text), "") == 0;
    tpj_text_destroy(&text);
    CHECK(fits);
    CHECK(cleared);
}

TEST(text_appends_json_strings) {
    tpj_text text = {0};
    tpj_text_json(&text, "a\"b\\\n\0\xc3\xa4", 8);
    bool right = strcmp(tpj_text_string(&text), "\"a\\\"b\\\\\\u000a\\u0000\xc3\xa4\"") == 0;
    tpj_text_destroy(&text);
    CHECK(right);
}
