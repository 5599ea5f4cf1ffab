#include "package/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LEVELS = 64 };

typedef struct reader {
    tpj_arena *arena;
    const char *start, *at, *end;
} reader;

static tpj_status *wrong(const reader *r, const char *what) {
    return tpj_status_create(TPJ_VALUE, "JSON, byte %zu: %s", (size_t)(r->at - r->start), what);
}

static tpj_status *no_memory(void) { return tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory"); }

static void skip_space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static bool accept(reader *r, char c) {
    skip_space(r);
    if (r->at >= r->end || *r->at != c) return false;
    r->at++;
    return true;
}

/* ---- strings ---- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Four hexadecimal digits; -1 when there are none. */
static int32_t read_unit(reader *r) {
    int32_t unit = 0;
    if (r->end - r->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(r->at[i]);
        if (digit < 0) return -1;
        unit = unit * 16 + digit;
    }
    r->at += 4;
    return unit;
}

static char *put_utf8(char *to, int32_t point) {
    if (point < 0x80) {
        *to++ = (char)point;
        return to;
    }
    int n_more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const int first[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(first[n_more] | point >> 6 * n_more);
    for (int i = n_more - 1; i >= 0; i--) *to++ = (char)(0x80 | (point >> 6 * i & 0x3f));
    return to;
}

/* Behind the backslash. At most as many bytes as it reads. */
static tpj_status *read_escape(reader *r, char **to) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (r->at >= r->end) return wrong(r, "the text ends in a string");
    char c = *r->at++;
    const char *known = c != '\0' ? strchr(names, c) : NULL;
    if (known != NULL) {
        *(*to)++ = values[known - names];
        return NULL;
    }
    int32_t point = c == 'u' ? read_unit(r) : -1;
    if (point >= 0xd800 && point < 0xdc00) { /* the first of a pair of UTF-16 */
        bool paired = r->end - r->at >= 2 && r->at[0] == '\\' && r->at[1] == 'u';
        if (paired) r->at += 2;
        int32_t low = paired ? read_unit(r) : -1;
        point = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00) : -1;
    } else if (point >= 0xdc00 && point < 0xe000) {
        point = -1;
    }
    if (point <= 0) return wrong(r, "an escape that is none, or a NUL");
    *to = put_utf8(*to, point);
    return NULL;
}

static tpj_status *read_string(reader *r, const char **out) {
    if (!accept(r, '"')) return wrong(r, "a string was expected");
    const char *close = r->at;
    while (close < r->end && *close != '"') close += *close == '\\' && r->end - close > 1 ? 2 : 1;
    char *string = tpj_arena_alloc(r->arena, (size_t)(close - r->at) + 1), *to = string;
    if (string == NULL) return no_memory();
    while (r->at < r->end && *r->at != '"') {
        char c = *r->at++;
        if ((unsigned char)c < 0x20) return wrong(r, "a control character in a string");
        if (c == '\\')
            TPJ_TRY(read_escape(r, &to));
        else
            *to++ = c;
    }
    if (r->at >= r->end) return wrong(r, "the text ends in a string");
    r->at++;
    *to = '\0';
    *out = string;
    return NULL;
}

/* ---- numbers ---- */

static bool skip_digits(reader *r) {
    const char *before = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
    return r->at > before;
}

static tpj_status *read_number(reader *r, tpj_json *value) {
    const char *begin = r->at;
    bool integral = true;
    if (*r->at == '-') r->at++;
    const char *digits = r->at;
    if (!skip_digits(r) || (*digits == '0' && r->at - digits > 1)) return wrong(r, "a value was expected");
    if (r->at < r->end && *r->at == '.') {
        integral = false;
        r->at++;
        if (!skip_digits(r)) return wrong(r, "digits were expected");
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        integral = false;
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
        if (!skip_digits(r)) return wrong(r, "digits were expected");
    }
    char *text = tpj_arena_string_n(r->arena, begin, (size_t)(r->at - begin));
    if (text == NULL) return no_memory();
    errno = 0;
    value->integer = integral ? strtoll(text, NULL, 10) : 0;
    value->kind = integral && errno == 0 ? TPJ_JSON_INTEGER : TPJ_JSON_NUMBER;
    value->number = strtod(text, NULL);
    return NULL;
}

/* ---- values ---- */

static int compare_keys(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static tpj_status *check_keys(const reader *r, const tpj_json *object) {
    if (object->n < 2) return NULL;
    const char **keys = malloc((size_t)object->n * sizeof *keys), *twice = NULL;
    if (keys == NULL) return no_memory();
    int n = 0;
    for (const tpj_json *member = object->first; member != NULL; member = member->next) keys[n++] = member->key;
    qsort(keys, (size_t)n, sizeof *keys, compare_keys);
    for (int i = 1; i < n && twice == NULL; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0) twice = keys[i];
    free(keys);
    return twice == NULL ? NULL : tpj_status_annotate(wrong(r, "this key comes twice"), "'%.200s'", twice);
}

static tpj_status *read_value(reader *r, int level, tpj_json *value);

static tpj_status *read_elements(reader *r, int level, char close, tpj_json *value) {
    const tpj_json **link = &value->first;
    if (level >= MOST_LEVELS) return wrong(r, "too many levels");
    if (accept(r, close)) return NULL;
    do {
        tpj_json *element = TPJ_ARENA_NEW(r->arena, tpj_json);
        if (element == NULL) return no_memory();
        if (value->kind == TPJ_JSON_OBJECT) {
            TPJ_TRY(read_string(r, &element->key));
            if (!accept(r, ':')) return wrong(r, "':' was expected");
        }
        TPJ_TRY(read_value(r, level + 1, element));
        *link = element;
        link = &element->next;
        value->n++;
    } while (accept(r, ','));
    if (!accept(r, close)) return wrong(r, close == ']' ? "',' or ']' was expected" : "',' or '}' was expected");
    return value->kind == TPJ_JSON_OBJECT ? check_keys(r, value) : NULL;
}

static bool accept_word(reader *r, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

static tpj_status *read_value(reader *r, int level, tpj_json *value) {
    skip_space(r);
    if (r->at >= r->end) return wrong(r, "the text ends where a value was expected");
    if (*r->at == '{' || *r->at == '[') {
        char close = *r->at == '{' ? '}' : ']';
        value->kind = *r->at++ == '{' ? TPJ_JSON_OBJECT : TPJ_JSON_ARRAY;
        return read_elements(r, level, close, value);
    }
    if (*r->at == '"') {
        value->kind = TPJ_JSON_STRING;
        return read_string(r, &value->string);
    }
    if (accept_word(r, "null")) return NULL;
    value->kind = TPJ_JSON_BOOL;
    value->boolean = *r->at == 't';
    if (accept_word(r, "true") || accept_word(r, "false")) return NULL;
    return read_number(r, value);
}

tpj_status *tpj_json_parse(tpj_arena *arena, const char *text, size_t length, const tpj_json **out_value) {
    reader r = {arena, text, text, text + length};
    tpj_json *value = TPJ_ARENA_NEW(arena, tpj_json);
    if (value == NULL) return no_memory();
    TPJ_TRY(read_value(&r, 0, value));
    skip_space(&r);
    if (r.at < r.end) return wrong(&r, "more behind the end");
    *out_value = value;
    return NULL;
}

const tpj_json *tpj_json_get(const tpj_json *object, const char *key) {
    if (object == NULL || object->kind != TPJ_JSON_OBJECT) return NULL;
    for (const tpj_json *member = object->first; member != NULL; member = member->next)
        if (strcmp(member->key, key) == 0) return member;
    return NULL;
}

static tpj_status *member(const tpj_json *object, const char *key, tpj_json_kind kind, const char *what,
                          const tpj_json **out_value) {
    *out_value = tpj_json_get(object, key);
    if (*out_value == NULL || (*out_value)->kind != kind) TPJ_ERROR(TPJ_VALUE, "\"%s\" is not %s", key, what);
    return NULL;
}

tpj_status *tpj_json_string(const tpj_json *object, const char *key, const char **out_string) {
    const tpj_json *value;
    TPJ_TRY(member(object, key, TPJ_JSON_STRING, "a string", &value));
    *out_string = value->string;
    return NULL;
}

tpj_status *tpj_json_integer(const tpj_json *object, const char *key, int64_t *out_integer) {
    const tpj_json *value;
    TPJ_TRY(member(object, key, TPJ_JSON_INTEGER, "an integer", &value));
    *out_integer = value->integer;
    return NULL;
}

tpj_status *tpj_json_container(const tpj_json *object, const char *key, tpj_json_kind kind,
                               const tpj_json **out_value) {
    return member(object, key, kind, kind == TPJ_JSON_ARRAY ? "an array" : "an object", out_value);
}
