/* Graphs inside of ops: a lowering of their own, that writes where the outer one does. */
#include "ops/control.h"

#include <stdlib.h>
#include <string.h>

#include "lower/lowering.h"

struct tpj_nested {
    tpj_emit *e;
    tpj_graph *graph;
};

/* Fails the op with the status, and takes it. */
static void fail_with(tpj_emit *e, tpj_status *status) {
    hlo_fail(e->h, tpj_status_code(status), "%s", tpj_status_message(status));
    tpj_status_destroy(status);
}

tpj_nested *tpj_nested_open(tpj_emit *e, const char *name) {
    const char *text = tpj_string(e, name, "");
    tpj_nested *nested = calloc(1, sizeof *nested);
    if (nested == NULL) {
        tpj_fail(e, TPJ_OUT_OF_MEMORY, "out of host memory");
        return NULL;
    }
    nested->e = e;
    tpj_status *status = tpj_graph_parse(text, strlen(text), &nested->graph);
    if (status == NULL) return nested;
    fail_with(e, tpj_status_annotate(status, "%s", name));
    free(nested);
    return NULL;
}

void tpj_nested_close(tpj_nested *nested) {
    if (nested == NULL) return;
    tpj_graph_destroy(nested->graph);
    free(nested);
}

int tpj_nested_n_results(const tpj_nested *nested) { return tpj_graph_n_outputs(nested->graph); }

tpj_type tpj_nested_result_type(const tpj_nested *nested, int i) {
    const tpj_graph *graph = nested->graph;
    tpj_ref ref = tpj_graph_output(graph, i)->value;
    if (ref.node == TPJ_INPUT) return tpj_graph_input(graph, ref.result)->type;
    const tpj_node *node = tpj_graph_node(graph, ref.node);
    return ref.result < node->n_results ? node->types[ref.result] : (tpj_type){.dtype = TPJ_N_DTYPES};
}

void tpj_nested_emit(const tpj_nested *nested, tpj_value *const *inputs, int n_inputs, tpj_value **out) {
    const tpj_lowering *outer = nested->e->lowering;
    tpj_lower_options options = *outer->options;
    options.check_index = TPJ_CHECK_NONE;
    options.count_only = false;
    if (hlo_failed(nested->e->h)) return;
    if (n_inputs != tpj_graph_n_inputs(nested->graph)) {
        tpj_fail(nested->e, TPJ_VALUE, "a graph with %d inputs is given %d", tpj_graph_n_inputs(nested->graph),
                 n_inputs);
        return;
    }
    tpj_lowering inner = {.h = outer->h, .file = outer->file, .line = outer->line};
    inner.checks_end = &inner.checks;
    tpj_status *status = tpj_lowering_nest(&inner, nested->graph, &options, inputs, out);
    if (status != NULL) fail_with(nested->e, status);
}
