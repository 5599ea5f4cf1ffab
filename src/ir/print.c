/* The textual form, writing side. docs/graph_text.md is the definition; parse.c reads it back. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* uselocale */
#endif
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "ir/graph.h"
#include "ir/params.h"

static void print_string(tpj_text *text, const char *string, size_t n) {
    tpj_text_add(text, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)string[i];
        if (c == '"' || c == '\\')
            tpj_text_printf(text, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            tpj_text_printf(text, "\\x%02x", c);
        else
            tpj_text_append(text, string + i, 1);
    }
    tpj_text_add(text, "\"");
}

/* The shortest decimal that reads back as the same double, and never looks like an integer. */
static void print_double(tpj_text *text, double value) {
    if (isnan(value)) {
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        tpj_text_printf(text, bits == UINT64_C(0x7ff8000000000000) ? "nan" : "nan(0x%016" PRIx64 ")", bits);
        return;
    }
    if (isinf(value)) {
        tpj_text_add(text, value < 0 ? "-inf" : "inf");
        return;
    }
    char digits[40];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) break;
    }
    tpj_text_add(text, digits);
    if (strpbrk(digits, ".e") == NULL) tpj_text_add(text, ".0");
}

static void print_integers(tpj_text *text, const char *before, const int64_t *values, int n) {
    tpj_text_add(text, before);
    tpj_text_add(text, "[");
    tpj_text_integers(text, values, (size_t)n);
    tpj_text_add(text, "]");
}

static void print_type(tpj_text *text, tpj_dtype dtype, int rank, const int64_t *dims) {
    tpj_text_add(text, tpj_dtype_name(dtype));
    if (rank > 0) print_integers(text, "", dims, rank);
}

static void print_view(tpj_text *text, const tpj_view *view) {
    tpj_text_add(text, "view(");
    print_type(text, view->dtype, view->rank, view->sizes);
    print_integers(text, " strides=", view->strides, view->rank);
    tpj_text_printf(text, " offset=%" PRId64, view->offset);
    if (view->offset_input > 0) tpj_text_printf(text, " given=%%%d", view->offset_input - 1);
    if (view->conj) tpj_text_add(text, " conj");
    if (view->neg) tpj_text_add(text, " neg");
    tpj_text_add(text, ")");
}

static void print_ref(tpj_text *text, const tpj_graph *graph, tpj_ref ref) {
    if (ref.node == TPJ_NO_VALUE)
        tpj_text_add(text, "none");
    else if (ref.node == TPJ_INPUT)
        tpj_text_printf(text, "%%%d", ref.result);
    else if (ref.result == 0)
        tpj_text_printf(text, "%%%d", graph->n_inputs + ref.node);
    else
        tpj_text_printf(text, "%%%d:%d", graph->n_inputs + ref.node, ref.result);
}

static void print_refs(tpj_text *text, const tpj_graph *graph, const tpj_ref *refs, int n) {
    tpj_text_add(text, "[");
    for (int i = 0; i < n; i++) {
        if (i > 0) tpj_text_add(text, ", ");
        print_ref(text, graph, refs[i]);
    }
    tpj_text_add(text, "]");
}

static void print_arg(tpj_text *text, const tpj_graph *graph, const tpj_arg *arg) {
    switch (arg->kind) {
        case TPJ_ARG_NONE: tpj_text_add(text, "none"); break;
        case TPJ_ARG_VALUE: print_ref(text, graph, arg->value); break;
        case TPJ_ARG_VALUES:
        case TPJ_ARG_SCALARS: print_refs(text, graph, arg->values, arg->n); break;
        case TPJ_ARG_BOOL: tpj_text_add(text, arg->boolean ? "true" : "false"); break;
        case TPJ_ARG_INT: tpj_text_printf(text, "%" PRId64, arg->integer); break;
        case TPJ_ARG_FLOAT: print_double(text, arg->number); break;
        case TPJ_ARG_COMPLEX:
            tpj_text_add(text, "complex(");
            print_double(text, arg->complex_number[0]);
            tpj_text_add(text, ", ");
            print_double(text, arg->complex_number[1]);
            tpj_text_add(text, ")");
            break;
        case TPJ_ARG_DTYPE: tpj_text_add(text, tpj_dtype_name(arg->dtype)); break;
        case TPJ_ARG_STRING: print_string(text, arg->string, (size_t)arg->n); break;
        case TPJ_ARG_INTS: print_integers(text, "", arg->integers, arg->n); break;
        case TPJ_ARG_FLOATS:
            tpj_text_add(text, "[");
            for (int i = 0; i < arg->n; i++) {
                if (i > 0) tpj_text_add(text, ", ");
                print_double(text, arg->numbers[i]);
            }
            tpj_text_add(text, "]");
            break;
        case TPJ_ARG_BOOLS:
            tpj_text_add(text, "[");
            for (int i = 0; i < arg->n; i++) {
                if (i > 0) tpj_text_add(text, ", ");
                tpj_text_add(text, arg->booleans[i] ? "true" : "false");
            }
            tpj_text_add(text, "]");
            break;
    }
}

static void print_input(tpj_text *text, const tpj_graph *graph, int i) {
    const tpj_input *input = &graph->inputs[i];
    tpj_text_printf(text, "  %%%d = ", i);
    switch (input->kind) {
        case TPJ_INPUT_RANDOM: tpj_text_add(text, "random"); break;
        case TPJ_INPUT_SCALAR: tpj_text_printf(text, "scalar %s", tpj_dtype_name(input->type.dtype)); break;
        case TPJ_INPUT_BUFFER:
            tpj_text_add(text, "input ");
            print_type(text, input->type.dtype, input->type.rank, input->type.dims);
            if (input->view != NULL) {
                tpj_text_add(text, " ");
                print_view(text, input->view);
            }
            if (input->alias > 0) tpj_text_printf(text, " same=%%%d", input->alias - 1);
            break;
    }
    tpj_text_add(text, input->number ? " number\n" : "\n");
}

static void print_node(tpj_text *text, const tpj_graph *graph, int i) {
    const tpj_node *node = &graph->nodes[i];
    tpj_text_printf(text, "  %%%d = %s(", graph->n_inputs + i, tpj_op_name(node->op));
    const char *cursor = tpj_op_params(node->op);
    const char *separator = "";
    tpj_param param;
    for (int a = 0; a < node->n_args && tpj_param_next(&cursor, &param); a++) {
        /* Left out means the default; None has to be said where the default is something else. */
        if (node->args[a].kind == TPJ_ARG_NONE && param.default_text == NULL) continue;
        tpj_text_printf(text, "%s%.*s=", separator, (int)param.name_length, param.name);
        print_arg(text, graph, &node->args[a]);
        separator = ", ";
    }
    tpj_text_add(text, ")");
    for (int r = 0; r < node->n_results; r++) {
        tpj_text_add(text, r == 0 ? " : " : ", ");
        if (node->types[r].dtype == TPJ_N_DTYPES)
            tpj_text_add(text, "none");
        else
            print_type(text, node->types[r].dtype, node->types[r].rank, node->types[r].dims);
    }
    if (node->file != NULL) {
        tpj_text_add(text, " @ ");
        print_string(text, node->file, strlen(node->file));
        tpj_text_printf(text, ":%d", node->line);
    }
    tpj_text_add(text, "\n");
}

static void print_output(tpj_text *text, const tpj_graph *graph, int i) {
    const tpj_output *output = &graph->outputs[i];
    tpj_text_add(text, output->target >= 0 ? "  write " : "  return ");
    print_ref(text, graph, output->value);
    if (output->target >= 0) tpj_text_printf(text, " -> %%%d", output->target);
    if (output->view != NULL) {
        tpj_text_add(text, " ");
        print_view(text, output->view);
    }
    for (int k = 0; k < output->n_order; k++) tpj_text_printf(text, k == 0 ? " order=[%d" : ", %d", output->order[k]);
    tpj_text_add(text, output->n_order > 0 ? "]\n" : "\n");
}

tpj_status *tpj_graph_print(const tpj_graph *graph, char **out_text) {
    tpj_text text = {0};
    /* Numbers are written with a point whatever the application's locale says. */
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory while printing a graph");
    locale_t before = uselocale(c_locale);
    tpj_text_add(&text, "graph {\n");
    for (int i = 0; i < graph->n_inputs; i++) print_input(&text, graph, i);
    for (int i = 0; i < graph->n_nodes; i++) print_node(&text, graph, i);
    for (int i = 0; i < graph->n_outputs; i++) print_output(&text, graph, i);
    tpj_text_add(&text, "}\n");
    uselocale(before);
    freelocale(c_locale);
    if (text.failed) {
        tpj_text_destroy(&text);
        TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory while printing a graph");
    }
    *out_text = text.data;
    return NULL;
}
