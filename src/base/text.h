/* A growing string. One thread at a time. When memory runs out, appending stops and `failed` is set; the text so far
 * stays valid. */
#ifndef TPJ_BASE_TEXT_H
#define TPJ_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tpj/status.h"

typedef struct tpj_text {
    char *data; /* NUL-terminated once anything was appended; NULL before */
    size_t length, capacity;
    bool failed;
} tpj_text;

void tpj_text_append(tpj_text *text, const char *data, size_t n);
void tpj_text_add(tpj_text *text, const char *string);
void tpj_text_printf(tpj_text *text, const char *format, ...) TPJ_PRINTF(2, 3);
/* Appends "1, 2, 3". */
void tpj_text_integers(tpj_text *text, const int64_t *values, size_t n);
/* Appends n bytes as a JSON string, quoted and escaped. Bytes from 0x80 on stay as they are: UTF-8. */
void tpj_text_json(tpj_text *text, const char *data, size_t n);
/* Borrowed; "" for an empty text. */
const char *tpj_text_string(const tpj_text *text);
void tpj_text_clear(tpj_text *text);
void tpj_text_destroy(tpj_text *text);

#endif
