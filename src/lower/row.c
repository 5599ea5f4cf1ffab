/* Rows that are made of other rows: an op over lists lets the row of one tensor write each of its results. */
#include <string.h>

#include "lower/lowering.h"

/* An argument of the op, or element i of it where it is a list. */
static tpj_arg element_of(const tpj_arg *arg, int i) {
    if (arg->kind == TPJ_ARG_VALUES || arg->kind == TPJ_ARG_SCALARS) {
        if (i >= arg->n) return (tpj_arg){.kind = TPJ_ARG_NONE};
        return (tpj_arg){.kind = TPJ_ARG_VALUE, .value = arg->values[i]};
    }
    if (arg->kind == TPJ_ARG_FLOATS && i < arg->n) return (tpj_arg){.kind = TPJ_ARG_FLOAT, .number = arg->numbers[i]};
    if (arg->kind == TPJ_ARG_INTS && i < arg->n) return (tpj_arg){.kind = TPJ_ARG_INT, .integer = arg->integers[i]};
    return *arg;
}

void tpj_emit_row(tpj_emit *e, const char *name, const char *const *arguments, int n_arguments, int i) {
    enum { MAX_ARGUMENTS = 8 };
    const tpj_op_def *row = tpj_op_find(name, strlen(name));
    if (row == NULL || n_arguments > MAX_ARGUMENTS) {
        tpj_fail(e, TPJ_INTERNAL, "there is no row %s to build on", name);
        return;
    }
    tpj_arg args[MAX_ARGUMENTS] = {{.kind = TPJ_ARG_NONE}};
    for (int k = 0; k < n_arguments; k++) {
        if (arguments[k][0] == '\0') continue;
        args[k] = strcmp(arguments[k], "1") == 0 ? (tpj_arg){.kind = TPJ_ARG_INT, .integer = 1}
                                                 : element_of(tpj_emit_argument(e, arguments[k]), i);
    }
    tpj_node node = {.op = row, .args = args, .n_args = n_arguments, .file = e->node->file, .line = e->node->line};
    tpj_emit inner = {.lowering = e->lowering, .h = e->h, .node = &node};
    hlo_allow_float8(e->h, tpj_lowering_float8(&node));
    row->emit(&inner);
    hlo_allow_float8(e->h, tpj_lowering_float8(e->node));
    for (int k = 0; k < inner.n_results; k++) tpj_out(e, inner.results[k]);
}
