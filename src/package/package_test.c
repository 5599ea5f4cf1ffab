/* The readers of a package's files on bytes; whole packages are tested in tests/python/test_export.py. */
#include "package/internal.h"
#include "runner.h"

static tpj_status *parse(const char *text) {
    tpj_arena arena;
    const tpj_json *value;
    tpj_arena_init(&arena);
    tpj_status *status = tpj_json_parse(&arena, text, strlen(text), &value);
    tpj_arena_destroy(&arena);
    return status;
}

TEST(json_values) {
    static const char text[] = " {\"a\": [1, -2, 3.5, 1e2, 99999999999999999999], \"b\": {\"c\": null}, \"d\": "
                               "true,\"e\":\"\\u00e9\\n\\ud83d\\ude00\"} ";
    tpj_arena arena;
    const tpj_json *root = NULL, *list = NULL;
    const char *string = "";
    tpj_arena_init(&arena);
    tpj_status *status = tpj_json_parse(&arena, text, strlen(text), &root);
    if (status == NULL) status = tpj_json_container(root, "a", TPJ_JSON_ARRAY, &list);
    if (status == NULL) status = tpj_json_string(root, "e", &string);
    bool parsed = status == NULL;
    tpj_status_destroy(status);
    bool numbers = parsed && list->n == 5 && list->first->integer == 1 && list->first->next->integer == -2 &&
                   list->first->next->next->kind == TPJ_JSON_NUMBER && list->first->next->next->number == 3.5 &&
                   list->first->next->next->next->next->kind == TPJ_JSON_NUMBER;
    bool words = parsed && tpj_json_get(tpj_json_get(root, "b"), "c")->kind == TPJ_JSON_NULL &&
                 tpj_json_get(root, "d")->boolean && tpj_json_get(root, "x") == NULL;
    bool escapes = strcmp(string, "\xc3\xa9\n\xf0\x9f\x98\x80") == 0;
    tpj_arena_destroy(&arena);
    CHECK(parsed);
    CHECK(numbers);
    CHECK(words);
    CHECK(escapes);
}

TEST(json_that_is_none) {
    static const char *const texts[] = {
        "",
        "{",
        "[1,]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "01",
        "-",
        "1.",
        "1e",
        "+1",
        "nul",
        "tru",
        "\"",
        "\"\\",
        "\"\\x\"",
        "\"\n\"",
        "\"\\u12\"",
        "\"\\u0000\"",
        "\"\\udc00\"",
        "\"\\ud800a\"",
        "1 1",
        "[}",
        "'a'",
        "NaN",
        "[",
        "[[",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,}",
        "\"\\ud800\\u0041\"",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        CHECK_OR(test_status_is(parse(texts[i]), TPJ_VALUE, "JSON, byte"), "'%s' was parsed", texts[i]);
    char deep[200];
    memset(deep, '[', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    CHECK(test_status_is(parse(deep), TPJ_VALUE, "too many levels"));
}

TEST(package_checksum_is_that_of_zlib) {
    CHECK(tpj_package_crc32("", 0) == 0);
    CHECK(tpj_package_crc32("123456789", 9) == 0xCBF43926u); /* the check value of CRC-32/ISO-HDLC */
}

TEST(safetensors_give_their_tensors) {
    static const char header[] =
        "{\"__metadata__\":{},\"b\":{\"dtype\":\"I16\",\"shape\":[1,2],\"data_offsets\":[4,8]},"
        "\"e\":{\"dtype\":\"F64\",\"shape\":[0,3],\"data_offsets\":[4,4]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}";
    char file[8 + sizeof header - 1 + 8] = {(char)(sizeof header - 1)};
    memcpy(file + 8, header, sizeof header - 1);
    tpj_arena arena;
    const tpj_tensor *tensors = NULL;
    int n = 0;
    tpj_arena_init(&arena);
    tpj_status *status = tpj_safetensors_parse(&arena, file, sizeof file, &tensors, &n);
    bool parsed = status == NULL && n == 3;
    bool ordered = parsed && strcmp(tensors[0].name, "a") == 0 && strcmp(tensors[1].name, "e") == 0 &&
                   strcmp(tensors[2].name, "b") == 0;
    bool typed = parsed && tensors[2].type.dtype == TPJ_I16 && tensors[2].type.rank == 2 &&
                 tensors[2].type.dims[1] == 2 && tensors[2].n_bytes == 4 && tensors[1].n_bytes == 0;
    tpj_status_destroy(status);
    tpj_status *cut = tpj_safetensors_parse(&arena, file, sizeof file - 1, &tensors, &n);
    bool refused = test_status_is(cut, TPJ_VALUE, "'b': its data lies outside");
    tpj_arena_destroy(&arena);
    CHECK(parsed);
    CHECK(ordered);
    CHECK(typed);
    CHECK(refused);
}
