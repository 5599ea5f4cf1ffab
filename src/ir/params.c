#include "ir/params.h"

#include <ctype.h>
#include <string.h>

static const struct {
    const char *spelling;
    tpj_param_kind kind;
} kinds[] = {
    {"Str", TPJ_PARAM_STRING},  {"T", TPJ_PARAM_TENSOR},        {"I", TPJ_PARAM_INT},    {"B", TPJ_PARAM_BOOL},
    {"F", TPJ_PARAM_FLOAT},     {"D", TPJ_PARAM_DTYPE},         {"S", TPJ_PARAM_SCALAR}, {"f", TPJ_PARAM_RUN_FLOAT},
    {"G", TPJ_PARAM_GENERATOR}, {"M", TPJ_PARAM_MEMORY_FORMAT},
};

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool take(const char **cursor, const char *token) {
    size_t n = strlen(token);
    if (strncmp(*cursor, token, n) != 0) return false;
    *cursor += n;
    return true;
}

static bool take_kind(const char **cursor, tpj_param *param) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (take(cursor, kinds[i].spelling)) {
            param->kind = kinds[i].kind;
            return true;
        }
    return false;
}

/* A default ends at the comma that is inside no brackets and no quotes. */
static const char *end_of_default(const char *at) {
    int depth = 0;
    for (; *at != '\0'; at++) {
        if (*at == '"') {
            const char *close = strchr(at + 1, '"');
            if (close == NULL) return at;
            at = close;
        } else if (*at == '[' || *at == '(') {
            depth++;
        } else if (*at == ']' || *at == ')') {
            depth--;
        } else if (*at == ',' && depth == 0) {
            break;
        }
    }
    return at;
}

bool tpj_param_next(const char **cursor, tpj_param *out_param) {
    const char *at = *cursor;
    while (*at == ' ' || *at == ',') at++;
    *cursor = at;
    *out_param = (tpj_param){0};
    if (*at == '\0' || !take_kind(&at, out_param)) return false;
    out_param->baked = take(&at, "!");
    out_param->exponent = take(&at, "^");
    out_param->floats = out_param->exponent || take(&at, "~");
    bool optional = take(&at, "?");
    out_param->list = take(&at, "[]");
    out_param->holes = optional && out_param->list;
    out_param->optional =
        take(&at, "?") || (optional && !out_param->list) || out_param->kind == TPJ_PARAM_MEMORY_FORMAT;
    if (!take(&at, " ")) return false;
    while (*at == ' ') at++;
    out_param->name = at;
    while (is_name(*at)) at++;
    out_param->name_length = (size_t)(at - out_param->name);
    if (out_param->name_length == 0) return false;
    if (take(&at, "=")) {
        out_param->default_text = at;
        at = end_of_default(at);
        out_param->default_length = (size_t)(at - out_param->default_text);
    }
    while (*at == ' ') at++;
    if (*at != '\0' && *at != ',') return false;
    *cursor = at;
    return true;
}

const char *tpj_param_spelling(const tpj_param *param) {
    static const char *const spellings[][4] = {
        /* plain, optional, list, optional list */
        [TPJ_PARAM_TENSOR] = {"tensor", "tensor or none", "list of tensors", "list of tensors or none"},
        [TPJ_PARAM_INT] = {"int", "int or none", "list of ints", "list of ints or none"},
        [TPJ_PARAM_BOOL] = {"bool", "bool or none", "list of bools", "list of bools or none"},
        [TPJ_PARAM_FLOAT] = {"float", "float or none", "list of floats", "list of floats or none"},
        [TPJ_PARAM_DTYPE] = {"dtype", "dtype or none", "list of dtypes", "list of dtypes or none"},
        [TPJ_PARAM_STRING] = {"string", "string or none", "list of strings", "list of strings or none"},
        [TPJ_PARAM_SCALAR] = {"number", "number or none", "list of numbers", "list of numbers or none"},
        [TPJ_PARAM_RUN_FLOAT] = {"float", "float or none", "list of floats", "list of floats or none"},
        [TPJ_PARAM_GENERATOR] = {"random state", "random state or none", "random states", "random states or none"},
        [TPJ_PARAM_MEMORY_FORMAT] = {"memory format", "memory format or none", "memory formats",
                                     "memory formats or none"},
    };
    return spellings[param->kind][2 * param->list + param->optional];
}

static bool is_number(tpj_arg_kind kind) {
    return kind == TPJ_ARG_BOOL || kind == TPJ_ARG_INT || kind == TPJ_ARG_FLOAT || kind == TPJ_ARG_COMPLEX;
}

static bool accepts_list(const tpj_param *param, const tpj_arg *arg) {
    if (param->floats && arg->kind == TPJ_ARG_SCALARS) return true;
    switch (param->kind) {
        case TPJ_PARAM_TENSOR: return arg->kind == TPJ_ARG_VALUES;
        case TPJ_PARAM_INT: return arg->kind == TPJ_ARG_INTS;
        case TPJ_PARAM_BOOL: return arg->kind == TPJ_ARG_BOOLS;
        case TPJ_PARAM_FLOAT: return arg->kind == TPJ_ARG_FLOATS;
        case TPJ_PARAM_SCALAR:
            if (arg->kind == TPJ_ARG_SCALARS) return !param->baked;
            /* An empty list has one form, so that it reads back as it was. */
            return arg->n > 0 &&
                   (arg->kind == TPJ_ARG_INTS || arg->kind == TPJ_ARG_FLOATS || arg->kind == TPJ_ARG_BOOLS);
        default: return false;
    }
}

bool tpj_param_accepts(const tpj_param *param, const tpj_arg *arg) {
    if (arg->kind == TPJ_ARG_NONE) return param->optional;
    if (param->list) return accepts_list(param, arg);
    if (param->floats && arg->kind == TPJ_ARG_VALUE) return true;
    switch (param->kind) {
        case TPJ_PARAM_TENSOR: return arg->kind == TPJ_ARG_VALUE;
        case TPJ_PARAM_INT:
        case TPJ_PARAM_MEMORY_FORMAT: return arg->kind == TPJ_ARG_INT;
        case TPJ_PARAM_BOOL: return arg->kind == TPJ_ARG_BOOL;
        case TPJ_PARAM_FLOAT: return arg->kind == TPJ_ARG_FLOAT || arg->kind == TPJ_ARG_INT;
        case TPJ_PARAM_DTYPE: return arg->kind == TPJ_ARG_DTYPE;
        case TPJ_PARAM_STRING: return arg->kind == TPJ_ARG_STRING;
        case TPJ_PARAM_SCALAR: return is_number(arg->kind) || (arg->kind == TPJ_ARG_VALUE && !param->baked);
        case TPJ_PARAM_RUN_FLOAT:
            return arg->kind == TPJ_ARG_FLOAT || arg->kind == TPJ_ARG_INT || arg->kind == TPJ_ARG_VALUE;
        case TPJ_PARAM_GENERATOR: return arg->kind == TPJ_ARG_VALUE;
    }
    return false;
}
