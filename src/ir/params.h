/* Parameter strings of the op table ("T self, S alpha=1, I[]? dim"): the notation is documented in ops/ops.h.
 *
 * Threads: pure functions. */
#ifndef TPJ_IR_PARAMS_H
#define TPJ_IR_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "tpj/graph.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum tpj_param_kind {
    TPJ_PARAM_TENSOR,       /* T */
    TPJ_PARAM_INT,          /* I */
    TPJ_PARAM_BOOL,         /* B */
    TPJ_PARAM_FLOAT,        /* F */
    TPJ_PARAM_DTYPE,        /* D */
    TPJ_PARAM_STRING,       /* Str */
    TPJ_PARAM_SCALAR,       /* S, S! */
    TPJ_PARAM_RUN_FLOAT,    /* f */
    TPJ_PARAM_GENERATOR,    /* G */
    TPJ_PARAM_MEMORY_FORMAT /* M */
} tpj_param_kind;

/* One parameter; the texts are borrowed from the string that was read. */
typedef struct tpj_param {
    tpj_param_kind kind;
    bool baked;                      /* S! */
    bool floats;                     /* I~ F~ S~, and S^: baked, until its value is seen to change */
    bool exponent;                   /* S^: small whole and half numbers stay baked */
    bool list;                       /* [] */
    bool holes;                      /* T?[]: elements may be None */
    bool optional;                   /* ? at the end: None is a value */
    const char *name, *default_text; /* default_text is NULL when the parameter has no default */
    size_t name_length, default_length;
} tpj_param;

/* Reads the parameter at *cursor and moves behind it. false at the end, or (with *cursor left before the end) when the
 * notation is wrong. */
bool tpj_param_next(const char **cursor, tpj_param *out_param);
/* "T?[]", for messages. Borrowed, static. */
const char *tpj_param_spelling(const tpj_param *param);
/* Whether an argument of this form may be given for the parameter. */
bool tpj_param_accepts(const tpj_param *param, const tpj_arg *arg);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
