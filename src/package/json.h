/* JSON (RFC 8259), as far as packages need it: a tree in an arena. Strict: no comments, no commas too many, no key twice in
 * one object, no NUL in a string, nothing behind the value, at most 64 levels. Bytes above 0x7f are taken as they are.
 *
 * Threads: immutable once parsed. */
#ifndef TPJ_PACKAGE_JSON_H
#define TPJ_PACKAGE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "tpj/status.h"

typedef enum tpj_json_kind {
    TPJ_JSON_NULL,
    TPJ_JSON_BOOL,
    TPJ_JSON_INTEGER, /* a number without fraction and exponent that fits 64 bits */
    TPJ_JSON_NUMBER,
    TPJ_JSON_STRING,
    TPJ_JSON_ARRAY,
    TPJ_JSON_OBJECT
} tpj_json_kind;

typedef struct tpj_json {
    tpj_json_kind kind;
    bool boolean;
    int64_t integer;
    double number;
    const char *string;                  /* STRING */
    const char *key;                     /* in an object */
    const struct tpj_json *first, *next; /* elements of an array or object, in their order */
    int n;                               /* how many */
} tpj_json;

/* Errors (TPJ_VALUE) name the byte. The tree lives in the arena, the text is not needed any longer. */
tpj_status *tpj_json_parse(tpj_arena *arena, const char *text, size_t length, const tpj_json **out_value) TPJ_MUST_USE;

/* The member of an object; NULL when there is none, or `object` is none. */
const tpj_json *tpj_json_get(const tpj_json *object, const char *key);
/* The member as what it has to be: TPJ_VALUE names the key otherwise. */
tpj_status *tpj_json_string(const tpj_json *object, const char *key, const char **out_string) TPJ_MUST_USE;
tpj_status *tpj_json_integer(const tpj_json *object, const char *key, int64_t *out_integer) TPJ_MUST_USE;
/* `kind`: ARRAY or OBJECT. */
tpj_status *tpj_json_container(const tpj_json *object, const char *key, tpj_json_kind kind,
                               const tpj_json **out_value) TPJ_MUST_USE;

#endif
