#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for n more characters and the NUL. */
static bool reserve(tpj_text *text, size_t n) {
    if (text->failed) return false;
    if (text->capacity - text->length > n) return true;
    size_t capacity = text->capacity * 2 > text->length + n + 1 ? text->capacity * 2 : text->length + n + 64;
    char *data = realloc(text->data, capacity);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void tpj_text_append(tpj_text *text, const char *data, size_t n) {
    if (!reserve(text, n)) return;
    memcpy(text->data + text->length, data, n);
    text->length += n;
    text->data[text->length] = '\0';
}

void tpj_text_add(tpj_text *text, const char *string) { tpj_text_append(text, string, strlen(string)); }

void tpj_text_printf(tpj_text *text, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n >= 0 && reserve(text, (size_t)n)) {
        vsnprintf(text->data + text->length, (size_t)n + 1, format, again);
        text->length += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void tpj_text_integers(tpj_text *text, const int64_t *values, size_t n) {
    for (size_t i = 0; i < n; i++) tpj_text_printf(text, i == 0 ? "%" PRId64 : ", %" PRId64, values[i]);
}

void tpj_text_json(tpj_text *text, const char *data, size_t n) {
    tpj_text_add(text, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c == '"' || c == '\\')
            tpj_text_printf(text, "\\%c", c);
        else if (c < ' ')
            tpj_text_printf(text, "\\u%04x", c);
        else
            tpj_text_append(text, data + i, 1);
    }
    tpj_text_add(text, "\"");
}

const char *tpj_text_string(const tpj_text *text) { return text->data == NULL ? "" : text->data; }

void tpj_text_clear(tpj_text *text) {
    text->length = 0;
    if (text->data != NULL) text->data[0] = '\0';
}

void tpj_text_destroy(tpj_text *text) {
    free(text->data);
    *text = (tpj_text){0};
}
