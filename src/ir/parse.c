/* The textual form, reading side. docs/graph_text.md is the definition. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* uselocale */
#endif
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph.h"
#include "ir/params.h"

/* A reader of one text. The first error sticks; every read after it is a no-op, so callers need few checks. */
typedef struct parser {
    const char *at, *end, *line_start;
    int line;
    tpj_arena arena; /* lists and names while one statement is read */
    tpj_graph *graph;
    tpj_status *status;
} parser;

static void fail(parser *p, const char *format, ...) TPJ_PRINTF(2, 3);
static void fail(parser *p, const char *format, ...) {
    if (p->status != NULL) return;
    va_list args;
    va_start(args, format);
    tpj_status *status = tpj_status_create_v(TPJ_VALUE, format, args);
    va_end(args);
    p->status = tpj_status_annotate(status, "line %d, column %d", p->line, (int)(p->at - p->line_start) + 1);
}

static bool ok(const parser *p) { return p->status == NULL; }

/* ---- characters and words ---- */

/* Spaces within a line, and a comment up to its end. */
static void skip_spaces(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\r')) p->at++;
    if (p->at < p->end && *p->at == '#')
        while (p->at < p->end && *p->at != '\n') p->at++;
}

static bool at_line_end(parser *p) {
    skip_spaces(p);
    return p->at == p->end || *p->at == '\n';
}

/* Spaces, comments and line ends: between statements and inside brackets. */
static void skip_lines(parser *p) {
    for (skip_spaces(p); p->at < p->end && *p->at == '\n'; skip_spaces(p)) {
        p->at++;
        p->line++;
        p->line_start = p->at;
    }
}

static bool accept(parser *p, char c) {
    skip_spaces(p);
    if (!ok(p) || p->at == p->end || *p->at != c) return false;
    p->at++;
    return true;
}

static void expect(parser *p, char c) {
    if (!accept(p, c)) fail(p, "expected '%c'", c);
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Takes `word` when it stands here as a whole word. */
static bool accept_word(parser *p, const char *word) {
    skip_spaces(p);
    size_t n = strlen(word), left = (size_t)(p->end - p->at);
    if (!ok(p) || left < n || memcmp(p->at, word, n) != 0 || (left > n && is_word(p->at[n]))) return false;
    p->at += n;
    return true;
}

static const char *read_word(parser *p, size_t *out_length, const char *what, const char *also) {
    skip_spaces(p);
    const char *start = p->at;
    while (p->at < p->end && (is_word(*p->at) || strchr(also, *p->at) != NULL) && *p->at != '\0') p->at++;
    *out_length = (size_t)(p->at - start);
    if (*out_length == 0) fail(p, "expected %s", what);
    return start;
}

/* ---- numbers ---- */

/* The characters that a number may consist of, as a NUL-terminated string. */
static const char *number_text(parser *p, char *buffer, size_t capacity) {
    skip_spaces(p);
    size_t n = 0;
    while (p->at + n < p->end && n + 1 < capacity && (is_word(p->at[n]) || strchr("+-.", p->at[n])) &&
           p->at[n] != '\0') {
        buffer[n] = p->at[n];
        n++;
    }
    buffer[n] = '\0';
    return buffer;
}

static int64_t read_integer(parser *p, const char *what) {
    char buffer[32], *stop;
    number_text(p, buffer, sizeof buffer);
    errno = 0;
    long long value = strtoll(buffer, &stop, 10);
    if (!ok(p)) return 0;
    if (stop == buffer || *stop != '\0') {
        fail(p, "expected %s", what);
    } else if (errno != 0) {
        fail(p, "%s does not fit 64 bits", what);
    } else {
        p->at += stop - buffer;
    }
    return (int64_t)value;
}

static int read_small(parser *p, const char *what) {
    int64_t value = read_integer(p, what);
    if (ok(p) && (value < 0 || value > INT_MAX)) fail(p, "%s is out of range", what);
    return ok(p) ? (int)value : 0;
}

/* nan(0x7ff8000000000001): a NaN with its payload. */
static double read_nan(parser *p) {
    uint64_t bits = UINT64_C(0x7ff8000000000000);
    if (accept(p, '(')) {
        char buffer[32], *stop;
        number_text(p, buffer, sizeof buffer);
        bits = strtoull(buffer, &stop, 16);
        if (stop == buffer || *stop != '\0' || (bits & UINT64_C(0x7ff0000000000000)) != UINT64_C(0x7ff0000000000000) ||
            (bits << 12) == 0)
            fail(p, "expected the bits of a NaN in hexadecimal");
        p->at += strlen(buffer);
        expect(p, ')');
    }
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* An integer or a float into `arg`: a point, an exponent or a word (inf, nan) makes it a float. */
static void read_number(parser *p, tpj_arg *arg) {
    char buffer[128], *stop;
    if (accept_word(p, "nan")) {
        *arg = (tpj_arg){.kind = TPJ_ARG_FLOAT, .number = read_nan(p)};
        return;
    }
    number_text(p, buffer, sizeof buffer);
    bool hexadecimal = strpbrk(buffer, "xX") != NULL, infinite = strstr(buffer, "inf") != NULL;
    if (!hexadecimal && !infinite && strpbrk(buffer, ".eE") == NULL) {
        *arg = (tpj_arg){.kind = TPJ_ARG_INT, .integer = read_integer(p, "a value")};
        return;
    }
    double value = strtod(buffer, &stop);
    if (stop == buffer || *stop != '\0' || strpbrk(buffer, "nN") != NULL) {
        if (!infinite || stop == buffer || *stop != '\0') {
            fail(p, "expected a number");
            return;
        }
    }
    p->at += stop - buffer;
    *arg = (tpj_arg){.kind = TPJ_ARG_FLOAT, .number = value};
}

/* ---- strings, types, views, references ---- */

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static const char *read_string(parser *p, int *out_length) {
    expect(p, '"');
    if (!ok(p)) return "";
    char *text = tpj_arena_alloc(&p->arena, (size_t)(p->end - p->at) + 1);
    size_t n = 0;
    for (; p->at < p->end && *p->at != '"' && *p->at != '\n' && text != NULL; p->at++) {
        char c = *p->at;
        if (c == '\\' && p->end - p->at >= 4 && p->at[1] == 'x' && hex_digit(p->at[2]) >= 0 &&
            hex_digit(p->at[3]) >= 0) {
            c = (char)(hex_digit(p->at[2]) * 16 + hex_digit(p->at[3]));
            p->at += 3;
        } else if (c == '\\' && p->end - p->at >= 2 && (p->at[1] == '"' || p->at[1] == '\\')) {
            c = *++p->at;
        } else if (c == '\\') {
            fail(p, "unknown escape in a string");
            return "";
        }
        text[n++] = c;
    }
    if (!accept(p, '"')) fail(p, "a string without its closing quote");
    if (n > INT_MAX) fail(p, "a string is too long");
    *out_length = ok(p) ? (int)n : 0;
    return text == NULL ? "" : text;
}

/* "[1, 2]" into the arena; the elements are counted first, so that one allocation does. */
static int64_t *read_integers(parser *p, int *out_n) {
    *out_n = 0;
    expect(p, '[');
    size_t commas = 0;
    for (const char *at = p->at; ok(p) && at < p->end && *at != ']'; at++) commas += *at == ',';
    if (!ok(p) || accept(p, ']')) return NULL;
    int64_t *values = TPJ_ARENA_ARRAY(&p->arena, int64_t, commas + 1);
    int n = 0;
    do {
        skip_lines(p);
        int64_t value = read_integer(p, "an integer");
        if (values != NULL && ok(p)) values[n++] = value;
        skip_lines(p);
    } while (accept(p, ','));
    expect(p, ']');
    *out_n = ok(p) ? n : 0;
    return values;
}

static bool accept_dtype(parser *p, tpj_dtype *out_dtype) {
    skip_spaces(p);
    size_t n = 0;
    while (p->at + n < p->end && is_word(p->at[n])) n++;
    if (!ok(p) || !tpj_dtype_parse(p->at, n, out_dtype)) return false;
    p->at += n;
    return true;
}

static tpj_type read_type(parser *p) {
    tpj_type type = {.dtype = TPJ_F32};
    if (!accept_dtype(p, &type.dtype)) fail(p, "expected a type");
    if (p->at < p->end && *p->at == '[') type.dims = read_integers(p, &type.rank);
    return type;
}

/* =%2: an input, which may come later; the verifier looks at it. */
static int read_input_number(parser *p) {
    expect(p, '=');
    expect(p, '%');
    return read_small(p, "the number of an input");
}

static tpj_view *read_view(parser *p) {
    if (!accept_word(p, "view")) return NULL;
    tpj_view *view = TPJ_ARENA_NEW(&p->arena, tpj_view);
    if (view == NULL) return NULL;
    expect(p, '(');
    tpj_type type = read_type(p);
    int n_strides = 0;
    if (!accept_word(p, "strides")) fail(p, "expected strides=");
    expect(p, '=');
    int64_t *strides = read_integers(p, &n_strides);
    if (n_strides != type.rank) fail(p, "a view of %d dimensions has %d strides", type.rank, n_strides);
    if (!accept_word(p, "offset")) fail(p, "expected offset=");
    expect(p, '=');
    int64_t offset = read_integer(p, "an offset");
    int offset_input = accept_word(p, "given") ? 1 + read_input_number(p) : 0;
    bool conj = accept_word(p, "conj"), neg = accept_word(p, "neg");
    expect(p, ')');
    *view = (tpj_view){type.dtype, type.rank, type.dims, strides, offset, offset_input, conj, neg};
    return view;
}

/* %7 or %7:1. Numbers count the inputs first, then the nodes. */
static tpj_ref read_ref(parser *p) {
    expect(p, '%');
    int number = read_small(p, "the number of a value");
    int result = 0;
    if (ok(p) && p->at < p->end && *p->at == ':') {
        p->at++;
        result = read_small(p, "the number of a result");
    }
    if (!ok(p)) return (tpj_ref){TPJ_NO_VALUE, 0};
    if (number >= p->graph->n_inputs + p->graph->n_nodes) fail(p, "%%%d is not defined above", number);
    if (number >= p->graph->n_inputs) return (tpj_ref){number - p->graph->n_inputs, result};
    if (result != 0) fail(p, "%%%d is an input and has one result", number);
    return (tpj_ref){TPJ_INPUT, number};
}

/* ---- arguments ---- */

static void read_value(parser *p, const tpj_param *param, tpj_arg *out_arg);

/* What the elements of a list become; the empty list has the parameter's own form. */
static tpj_arg_kind list_kind(const tpj_param *param, const tpj_arg *elements, int n) {
    if (n == 0 || elements[0].kind == TPJ_ARG_VALUE || elements[0].kind == TPJ_ARG_NONE) {
        if (n > 0 && param->floats) return TPJ_ARG_SCALARS;
        switch (param->kind) {
            case TPJ_PARAM_INT: return n == 0 ? TPJ_ARG_INTS : TPJ_ARG_VALUES;
            case TPJ_PARAM_BOOL: return n == 0 ? TPJ_ARG_BOOLS : TPJ_ARG_VALUES;
            case TPJ_PARAM_FLOAT: return n == 0 ? TPJ_ARG_FLOATS : TPJ_ARG_VALUES;
            case TPJ_PARAM_SCALAR: return TPJ_ARG_SCALARS;
            default: return TPJ_ARG_VALUES;
        }
    }
    switch (elements[0].kind) {
        case TPJ_ARG_INT: return param->kind == TPJ_PARAM_FLOAT ? TPJ_ARG_FLOATS : TPJ_ARG_INTS;
        case TPJ_ARG_FLOAT: return TPJ_ARG_FLOATS;
        case TPJ_ARG_BOOL: return TPJ_ARG_BOOLS;
        default: return TPJ_ARG_NONE;
    }
}

/* Whether a list of this kind may hold the element. */
static bool fits_list(tpj_arg_kind kind, tpj_arg_kind element) {
    switch (kind) {
        case TPJ_ARG_VALUES:
        case TPJ_ARG_SCALARS: return element == TPJ_ARG_VALUE || element == TPJ_ARG_NONE;
        case TPJ_ARG_INTS: return element == TPJ_ARG_INT;
        case TPJ_ARG_FLOATS: return element == TPJ_ARG_FLOAT || element == TPJ_ARG_INT;
        case TPJ_ARG_BOOLS: return element == TPJ_ARG_BOOL;
        default: return false;
    }
}

/* Stores an element that fits as number i of the list. */
static void store_element(tpj_arg_kind kind, void *data, int i, const tpj_arg *from) {
    switch (kind) {
        case TPJ_ARG_INTS: ((int64_t *)data)[i] = from->integer; break;
        case TPJ_ARG_FLOATS:
            ((double *)data)[i] = from->kind == TPJ_ARG_INT ? (double)from->integer : from->number;
            break;
        case TPJ_ARG_BOOLS: ((bool *)data)[i] = from->boolean; break;
        default: ((tpj_ref *)data)[i] = from->kind == TPJ_ARG_VALUE ? from->value : (tpj_ref){TPJ_NO_VALUE, 0}; break;
    }
}

static void read_list(parser *p, const tpj_param *param, tpj_arg *out_arg) {
    tpj_param element = *param;
    element.list = false;
    tpj_arg *elements = NULL;
    int n = 0, capacity = 0;
    skip_lines(p);
    while (ok(p) && (p->at == p->end || *p->at != ']')) {
        if (n == capacity) {
            tpj_arg *bigger = TPJ_ARENA_ARRAY(&p->arena, tpj_arg, capacity = capacity * 2 + 8);
            if (bigger == NULL) return;
            if (n > 0) memcpy(bigger, elements, (size_t)n * sizeof *elements);
            elements = bigger;
        }
        read_value(p, &element, &elements[n++]);
        skip_lines(p);
        if (!accept(p, ',')) break;
        skip_lines(p);
    }
    expect(p, ']');
    if (!ok(p)) return;
    tpj_arg_kind kind = list_kind(param, elements, n);
    void *data = tpj_arena_alloc(&p->arena, (size_t)n * sizeof(int64_t) + 1);
    for (int i = 0; data != NULL && i < n; i++) {
        if (!fits_list(kind, elements[i].kind)) {
            fail(p, "the elements of a list must be of one kind");
            return;
        }
        store_element(kind, data, i, &elements[i]);
    }
    *out_arg = (tpj_arg){.kind = kind, .n = n, .values = data};
}

/* Words stand for strings in the table's defaults ("Str approximate=none"). */
static bool read_keyword(parser *p, const tpj_param *param, tpj_arg *out_arg) {
    bool is_string = param->kind == TPJ_PARAM_STRING && !param->optional;
    if (!is_string && (accept_word(p, "none") || accept_word(p, "None"))) {
        *out_arg = (tpj_arg){.kind = TPJ_ARG_NONE};
    } else if (accept_word(p, "true") || accept_word(p, "True")) {
        *out_arg = (tpj_arg){.kind = TPJ_ARG_BOOL, .boolean = true};
    } else if (accept_word(p, "false") || accept_word(p, "False")) {
        *out_arg = (tpj_arg){.kind = TPJ_ARG_BOOL, .boolean = false};
    } else if (accept_word(p, "complex")) {
        tpj_arg parts[2] = {0};
        expect(p, '(');
        read_number(p, &parts[0]);
        expect(p, ',');
        read_number(p, &parts[1]);
        expect(p, ')');
        *out_arg = (tpj_arg){.kind = TPJ_ARG_COMPLEX};
        for (int i = 0; i < 2; i++)
            out_arg->complex_number[i] = parts[i].kind == TPJ_ARG_INT ? (double)parts[i].integer : parts[i].number;
    } else {
        return false;
    }
    return true;
}

static void read_value(parser *p, const tpj_param *param, tpj_arg *out_arg) {
    *out_arg = (tpj_arg){.kind = TPJ_ARG_NONE};
    skip_lines(p);
    if (!ok(p) || read_keyword(p, param, out_arg)) return;
    char c = p->at < p->end ? *p->at : '\0';
    if (c == '[' && param->list) {
        p->at++;
        read_list(p, param, out_arg);
    } else if (c == '%') {
        out_arg->kind = TPJ_ARG_VALUE;
        out_arg->value = read_ref(p);
    } else if (c == '"') {
        out_arg->kind = TPJ_ARG_STRING;
        out_arg->string = read_string(p, &out_arg->n);
    } else if (accept_dtype(p, &out_arg->dtype)) {
        out_arg->kind = TPJ_ARG_DTYPE;
    } else if (param->kind == TPJ_PARAM_STRING && isalpha((unsigned char)c)) {
        size_t length;
        const char *word = read_word(p, &length, "a string", "");
        *out_arg = (tpj_arg){.kind = TPJ_ARG_STRING, .n = (int)length};
        out_arg->string = tpj_arena_string_n(&p->arena, word, length);
    } else if (isdigit((unsigned char)c) || c == '-' || c == '+' || c == '.' || c == 'i' || c == 'n') {
        read_number(p, out_arg);
    } else {
        fail(p, "expected a value");
    }
}

/* Fills what the text left out with the row's defaults, read by the same rules. */
static void apply_default(parser *p, const tpj_param *param, tpj_arg *out_arg) {
    *out_arg = (tpj_arg){.kind = TPJ_ARG_NONE};
    if (param->default_text == NULL) return;
    const char *at = p->at, *end = p->end, *line_start = p->line_start;
    p->at = p->line_start = param->default_text;
    p->end = param->default_text + param->default_length;
    read_value(p, param, out_arg);
    p->at = at;
    p->end = end;
    p->line_start = line_start;
}

enum { MAX_ARGS = 64 };

static void read_args(parser *p, const tpj_op_def *op, tpj_arg *args, int *out_n) {
    tpj_param params[MAX_ARGS];
    bool given[MAX_ARGS] = {false};
    int n = 0;
    for (const char *cursor = tpj_op_params(op); n < MAX_ARGS && tpj_param_next(&cursor, &params[n]);) n++;
    expect(p, '(');
    skip_lines(p);
    while (ok(p) && (p->at == p->end || *p->at != ')')) {
        size_t length;
        const char *name = read_word(p, &length, "the name of a parameter", "");
        int i = 0;
        while (ok(p) && i < n && (params[i].name_length != length || memcmp(params[i].name, name, length) != 0)) i++;
        if (i == n) fail(p, "%s has no parameter '%.*s'", tpj_op_name(op), (int)length, name);
        if (ok(p) && given[i]) fail(p, "%s: '%.*s' is given twice", tpj_op_name(op), (int)length, name);
        expect(p, '=');
        if (!ok(p)) return;
        read_value(p, &params[i], &args[i]);
        given[i] = true;
        skip_lines(p);
        if (!accept(p, ',')) break;
        skip_lines(p);
    }
    expect(p, ')');
    for (int i = 0; ok(p) && i < n; i++)
        if (!given[i]) apply_default(p, &params[i], &args[i]);
    *out_n = n;
}

/* ---- statements ---- */

static void adopt(parser *p, tpj_status *status) {
    if (status == NULL) return;
    if (p->status == NULL)
        p->status = status;
    else
        tpj_status_destroy(status);
}

static void read_input(parser *p, tpj_input_kind kind) {
    tpj_input input = {.kind = kind};
    tpj_ref ref;
    if (p->graph->n_nodes > 0) fail(p, "inputs come before the ops");
    if (kind == TPJ_INPUT_SCALAR && !accept_dtype(p, &input.type.dtype)) fail(p, "expected a dtype");
    if (kind == TPJ_INPUT_BUFFER) {
        input.type = read_type(p);
        input.view = read_view(p);
        if (accept_word(p, "same")) input.alias = 1 + read_input_number(p);
    }
    input.number = kind != TPJ_INPUT_RANDOM && accept_word(p, "number");
    if (ok(p) && !p->arena.failed) adopt(p, tpj_graph_add_input(p->graph, &input, &ref));
}

static void read_result_types(parser *p, int node) {
    tpj_type types[MAX_ARGS];
    int n = 0;
    do {
        if (n == MAX_ARGS) {
            fail(p, "an op has at most %d results in text", MAX_ARGS);
            return;
        }
        types[n++] = accept_word(p, "none") ? (tpj_type){.dtype = TPJ_N_DTYPES} : read_type(p);
    } while (accept(p, ','));
    if (ok(p) && !p->arena.failed) adopt(p, tpj_graph_set_results(p->graph, node, types, n));
}

static void read_op(parser *p) {
    size_t length;
    const char *name = read_word(p, &length, "an op", ".:");
    if (!ok(p)) return;
    const tpj_op_def *op = tpj_op_find(name, length);
    if (op == NULL) {
        p->at = name;
        fail(p, "there is no op '%.*s'", (int)length, name);
        return;
    }
    tpj_arg args[MAX_ARGS] = {{0}};
    int n = 0, node = 0;
    read_args(p, op, args, &n);
    if (!ok(p) || p->arena.failed) return;
    const char *file = NULL;
    int line = 0, file_length = 0;
    const char *types_at = NULL;
    if (accept(p, ':')) { /* the types are read once the node is there */
        types_at = p->at;
        while (p->at < p->end && *p->at != '\n' && *p->at != '@' && *p->at != '#') p->at++;
    }
    if (accept(p, '@')) {
        file = read_string(p, &file_length);
        if (ok(p) && memchr(file, '\0', (size_t)file_length) != NULL) fail(p, "a file name with a NUL");
        expect(p, ':');
        line = read_small(p, "a line number");
    }
    if (ok(p) && !p->arena.failed) adopt(p, tpj_graph_add_node(p->graph, op, args, n, file, line, &node));
    if (types_at == NULL || !ok(p) || p->arena.failed) return;
    const char *after = p->at;
    p->at = types_at;
    read_result_types(p, node);
    if (ok(p) && !at_line_end(p) && *p->at != '@') fail(p, "expected the end of the line");
    if (ok(p)) p->at = after;
}

/* Takes the word of an input; "random(" is the op of that name. */
static bool accept_input_word(parser *p, const char *word) {
    const char *before = p->at;
    if (!accept_word(p, word)) return false;
    if (p->at == p->end || (*p->at != '(' && *p->at != '.')) return true;
    p->at = before;
    return false;
}

static void read_definition(parser *p) {
    int number = read_small(p, "the number of a value");
    int expected = p->graph->n_inputs + p->graph->n_nodes;
    if (ok(p) && number != expected) fail(p, "values are numbered in order: expected %%%d", expected);
    expect(p, '=');
    if (accept_input_word(p, "input"))
        read_input(p, TPJ_INPUT_BUFFER);
    else if (accept_input_word(p, "scalar"))
        read_input(p, TPJ_INPUT_SCALAR);
    else if (accept_input_word(p, "random"))
        read_input(p, TPJ_INPUT_RANDOM);
    else
        read_op(p);
}

static void read_output(parser *p, bool writes) {
    tpj_output output = {.target = -1};
    output.value = read_ref(p);
    if (writes) {
        expect(p, '-');
        expect(p, '>');
        tpj_ref target = read_ref(p);
        if (ok(p) && target.node != TPJ_INPUT) fail(p, "only an input can be written");
        output.target = target.result;
    }
    output.view = read_view(p);
    int64_t *order = NULL;
    if (accept_word(p, "order")) {
        expect(p, '=');
        order = read_integers(p, &output.n_order);
    }
    int *small = TPJ_ARENA_ARRAY(&p->arena, int, output.n_order);
    for (int i = 0; ok(p) && small != NULL && i < output.n_order; i++) {
        if (order[i] < 0 || order[i] >= output.n_order) fail(p, "an order is a permutation of the dimensions");
        small[i] = (int)order[i];
    }
    output.order = output.n_order > 0 ? small : NULL;
    if (ok(p) && !p->arena.failed) adopt(p, tpj_graph_add_output(p->graph, &output));
}

static void read_graph(parser *p) {
    skip_lines(p);
    if (!accept_word(p, "graph")) fail(p, "expected 'graph {'");
    expect(p, '{');
    for (skip_lines(p); ok(p) && !accept(p, '}'); skip_lines(p)) {
        if (accept(p, '%'))
            read_definition(p);
        else if (accept_word(p, "return"))
            read_output(p, false);
        else if (accept_word(p, "write"))
            read_output(p, true);
        else
            fail(p, "expected a definition, 'return', 'write' or '}'");
        if (ok(p) && p->arena.failed) adopt(p, tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory for a graph"));
        if (ok(p) && !at_line_end(p) && *p->at != '}') fail(p, "expected the end of the line");
        tpj_arena_destroy(&p->arena); /* empty again, for the next statement */
    }
    skip_lines(p);
    if (ok(p) && p->at != p->end) fail(p, "text behind the graph");
}

tpj_status *tpj_graph_parse(const char *text, size_t length, tpj_graph **out_graph) {
    parser p = {.at = text, .end = text + length, .line_start = text, .line = 1};
    TPJ_TRY(tpj_graph_create(&p.graph));
    tpj_arena_init(&p.arena);
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* numbers have a point in every locale */
    if (c_locale != (locale_t)0) {
        locale_t before = uselocale(c_locale);
        read_graph(&p);
        uselocale(before);
        freelocale(c_locale);
    } else {
        p.status = tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory while parsing a graph");
    }
    if (ok(&p)) p.status = tpj_graph_verify(p.graph);
    tpj_arena_destroy(&p.arena);
    if (ok(&p))
        *out_graph = p.graph;
    else
        tpj_graph_destroy(p.graph);
    return p.status;
}
