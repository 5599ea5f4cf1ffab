/* Functions that a user wrote as StableHLO text: they become private functions of the module, and are called.
 *
 * The text is not parsed but for what is needed to put it beside other text: the signature of its entry, and the symbols
 * (@name) and aliases (#name) that it defines, which get names of their own. The rest is the compiler's to read. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/writer.h"

typedef struct word {
    const char *at;
    size_t length;
} word;

enum { MAX_NAMES = 64, MAX_TYPES = 256 };

typedef struct source {
    tpj_hlo *h;
    const char *aliases, *functions, *end; /* alias definitions up to `functions`, these up to `end` */
    word names[MAX_NAMES];                 /* with their @ or # */
    int n_names;
    word entry; /* a symbol */
    const char *signature;
} source;

static bool is_symbol(char c) { return isalnum((unsigned char)c) || strchr("_$.-", c) != NULL; }

static const char *skip_spaces(const char *at, const char *end) {
    for (;;) {
        while (at < end && isspace((unsigned char)*at)) at++;
        if (end - at < 2 || at[0] != '/' || at[1] != '/') return at;
        while (at < end && *at != '\n') at++;
    }
}

/* Behind a string in quotes that begins here. */
static const char *skip_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\' && at + 1 < end) at++;
    return at < end ? at + 1 : end;
}

/* The word that begins with @ or # here; of length 1 where it is none. */
static word name_at(const char *at, const char *end) {
    word found = {at, 1};
    while (at + found.length < end && at[found.length] != '\0' && is_symbol(at[found.length])) found.length++;
    return found;
}

static bool same(word a, word b) { return a.length == b.length && memcmp(a.at, b.at, a.length) == 0; }

static bool is_defined(const source *s, word name) {
    for (int i = 0; i < s->n_names; i++)
        if (same(s->names[i], name)) return true;
    return false;
}

static void define(source *s, word name) {
    if (s->n_names == MAX_NAMES) hlo_fail(s->h, TPJ_VALUE, "the text has more than %d names", MAX_NAMES);
    if (s->n_names < MAX_NAMES && !is_defined(s, name)) s->names[s->n_names++] = name;
}

static bool starts(const char *at, const char *end, const char *prefix) {
    size_t n = strlen(prefix);
    return (size_t)(end - at) >= n && memcmp(at, prefix, n) == 0;
}

static word literal(const char *text) { return (word){text, strlen(text)}; }

/* "func.func public @name(": notes the name. The entry is main, or else the first. */
static void find_function(source *s, const char *at, const char *end) {
    while (at < end && *at != '@' && *at != '(' && *at != '{') at++;
    word name = name_at(at, end);
    if (at == end || *at != '@' || name.length == 1) {
        hlo_fail(s->h, TPJ_VALUE, "expected func.func @name(..), in the form that is not generic");
        return;
    }
    define(s, name);
    if (s->signature == NULL || same(name, literal("@main"))) {
        s->entry = name;
        s->signature = at + name.length;
    }
}

/* Finds functions and aliases; a module around them is left out. */
static void scan(source *s, const char *text) {
    const char *end = text + strlen(text);
    bool in_module = false;
    s->aliases = text;
    bool at_line = true; /* nothing but spaces since the line began */
    for (const char *at = text; at < end; at++) {
        if (*at == '"') {
            at = skip_string(at, end) - 1;
        } else if (starts(at, end, "//")) {
            while (at + 1 < end && at[1] != '\n') at++;
        } else if (at_line && starts(at, end, "func.func")) {
            if (s->functions == NULL) s->functions = at;
            find_function(s, at, end);
        } else if (s->functions == NULL && at_line && starts(at, end, "module")) {
            in_module = true;
        } else if (at_line && *at == '#') {
            word name = name_at(at, end);
            const char *next = skip_spaces(at + name.length, end);
            if (next < end && *next == '=') define(s, name);
        }
        at_line = *at == '\n' || (at_line && (isspace((unsigned char)*at) || *at == '{'));
    }
    if (s->functions == NULL) {
        hlo_fail(s->h, TPJ_VALUE, "the text has no func.func (in the form that is not generic)");
        return;
    }
    s->end = end;
    if (!in_module) return;
    const char *last = NULL; /* the module's own brace */
    for (const char *at = s->functions; at < end; at++) {
        if (*at == '"')
            at = skip_string(at, end) - 1;
        else if (*at == '}')
            last = at;
    }
    s->end = last != NULL ? last : end;
}

/* ---- the signature ---- */

static tpj_dtype dtype_named(word name) {
    for (int i = 0; i < TPJ_N_DTYPES; i++) {
        const char *spelled = tpj_dtype_mlir((tpj_dtype)i);
        if (spelled != NULL && same(literal(spelled), name)) return (tpj_dtype)i;
    }
    return TPJ_N_DTYPES;
}

/* "tensor<4x8xf32>"; moves behind it. */
static bool read_type(source *s, const char **cursor, tpj_type *out_type) {
    const char *at = skip_spaces(*cursor, s->end);
    word whole = {at, 0};
    if (!starts(at, s->end, "tensor<")) {
        while (at + whole.length < s->end && !strchr(",)\n{", at[whole.length])) whole.length++;
        hlo_fail(s->h, TPJ_VALUE, "the function has the type '%.*s', where only tensors may be", (int)whole.length, at);
        return false;
    }
    int64_t *dims = hlo_dims(s->h, 16);
    int rank = 0;
    at += strlen("tensor<");
    while (rank < 16 && at < s->end && isdigit((unsigned char)*at)) {
        char *stop;
        int64_t size = strtoll(at, &stop, 10);
        if (*stop != 'x') break;
        if (dims != NULL) dims[rank] = size;
        rank++;
        at = stop + 1;
    }
    word element = {at, 0};
    int depth = 0; /* complex<f32> */
    while (at + element.length < s->end && (at[element.length] != '>' || depth > 0)) {
        depth += (at[element.length] == '<') - (at[element.length] == '>');
        element.length++;
    }
    tpj_dtype dtype = dtype_named(element);
    if (dtype == TPJ_N_DTYPES) {
        hlo_fail(s->h, TPJ_VALUE, "the function has a tensor of '%.*s', which is no known element type of fixed sizes",
                 (int)element.length, element.at);
        return false;
    }
    *out_type = hlo_type(dtype, rank, dims);
    *cursor = at + element.length + 1;
    return true;
}

/* Moves to the next comma or closing parenthesis of this list, over attributes and locations. */
static const char *skip_to_next(const source *s, const char *at) {
    for (int depth = 0; at < s->end; at++) {
        if (*at == '"') {
            at = skip_string(at, s->end) - 1;
            continue;
        }
        if (depth == 0 && (*at == ',' || *at == ')')) return at;
        depth += (strchr("({[<", *at) != NULL) - (*at == ')' || *at == '}' || *at == ']' || *at == '>');
    }
    return s->end;
}

/* "(%a: tensor<..> {..}, ..)" or, of results, "(tensor<..>, ..)"; returns how many, and moves behind it. */
static int read_types(source *s, const char **cursor, tpj_type *types) {
    const char *at = skip_spaces(*cursor, s->end);
    int n = 0;
    if (at == s->end || *at != '(') return read_type(s, cursor, &types[0]) ? 1 : 0;
    at = skip_spaces(at + 1, s->end);
    while (at < s->end && *at != ')' && !hlo_failed(s->h)) {
        if (*at == '%') {
            while (at < s->end && *at != ':') at++;
            if (at < s->end) at++;
        }
        if (n == MAX_TYPES || !read_type(s, &at, &types[n])) break;
        n++;
        at = skip_to_next(s, at);
        if (at < s->end && *at == ',') at = skip_spaces(at + 1, s->end);
    }
    *cursor = at < s->end ? at + 1 : s->end;
    return n;
}

/* ---- writing ---- */

/* Text with the names that it defines made this function's own. */
static void copy_renamed(const source *s, tpj_text *out, const char *at, const char *end, int number) {
    while (at < end) {
        const char *start = at;
        if (*at == '"') {
            at = skip_string(at, end);
        } else if (starts(at, end, "//")) {
            while (at < end && *at != '\n') at++;
            continue;
        } else if (starts(at, end, "func.func")) {
            at += strlen("func.func");
            tpj_text_add(out, "func.func private");
            at = skip_spaces(at, end);
            for (const char *const *v = (const char *const[]){"public", "private", "nested", NULL}; *v != NULL; v++)
                if (starts(at, end, *v)) at = skip_spaces(at + strlen(*v), end);
            tpj_text_add(out, " ");
            continue;
        } else if (*at == '@' || *at == '#') {
            word name = name_at(at, end);
            at += name.length;
            if (is_defined(s, name)) {
                tpj_text_printf(out, "%ck%d_%.*s", *start, number, (int)name.length - 1, name.at + 1);
                continue;
            }
        } else {
            at++;
        }
        tpj_text_append(out, start, (size_t)(at - start));
    }
}

static void write_functions(source *s, int number) {
    tpj_text *out = &s->h->functions;
    copy_renamed(s, out, s->functions, s->end, number);
    tpj_text_add(out, "\n");
    /* Aliases stand before the module's brace, or behind it. */
    const char *module = s->aliases;
    while (module < s->functions && !starts(module, s->functions, "module")) module++;
    copy_renamed(s, &s->h->aliases, s->aliases, module, number);
    const char *behind = *s->end == '}' ? strchr(s->end, '\n') : NULL; /* the module's own location goes */
    if (behind != NULL) copy_renamed(s, &s->h->aliases, behind, behind + strlen(behind), number);
    tpj_text_add(&s->h->aliases, "\n");
}

static bool operands_fit(source *s, tpj_value *const *operands, int n_operands, const tpj_type *types, int n) {
    if (n != n_operands) {
        hlo_fail(s->h, TPJ_VALUE, "the function %.*s takes %d operands, and %d are given", (int)s->entry.length,
                 s->entry.at, n, n_operands);
        return false;
    }
    for (int i = 0; i < n; i++)
        if (!hlo_same_type(&types[i], &operands[i]->type)) {
            hlo_fail(s->h, TPJ_VALUE, "the function %.*s takes %s as operand %d, and %s is given", (int)s->entry.length,
                     s->entry.at, hlo_type_string(s->h, &types[i]), i, hlo_type_string(s->h, &operands[i]->type));
            return false;
        }
    return true;
}

int hlo_call(tpj_hlo *h, const char *text, tpj_value *const *operands, int n_operands, tpj_value **out, int n_most) {
    if (!hlo_ready(h, operands, n_operands)) return 0;
    source s = {.h = h};
    scan(&s, text);
    tpj_type *types = TPJ_ARENA_ARRAY(&h->arena, tpj_type, 2 * MAX_TYPES);
    if (hlo_failed(h) || types == NULL) return 0;
    const char *at = s.signature;
    int n = read_types(&s, &at, types);
    if (hlo_failed(h) || !operands_fit(&s, operands, n_operands, types, n)) return 0;
    at = skip_spaces(at, s.end);
    tpj_type *results = types + MAX_TYPES;
    int n_results = 0;
    if (starts(at, s.end, "->")) {
        at += 2;
        n_results = read_types(&s, &at, results);
    }
    if (!hlo_failed(h) && (n_results == 0 || n_results > n_most))
        hlo_fail(h, TPJ_VALUE, "the function %.*s has %d results, and 1 to %d may be", (int)s.entry.length, s.entry.at,
                 n_results, n_most);
    if (hlo_failed(h)) return 0;
    int number = h->n_functions++;
    write_functions(&s, number);
    tpj_text callee = {0};
    tpj_text_printf(&callee, "callee = @k%d_%.*s", number, (int)s.entry.length - 1, s.entry.at + 1);
    hlo_op(h, "func.call", operands, n_operands, tpj_text_string(&callee), results, n_results, out);
    tpj_text_destroy(&callee);
    return hlo_failed(h) ? 0 : n_results;
}
