#include <string.h>

#include "ir/graph.h"
#include "ir/params.h"

static tpj_status *verify_type(const tpj_type *type) {
    if ((unsigned)type->dtype >= TPJ_N_DTYPES) TPJ_ERROR(TPJ_INTERNAL, "dtype %d does not exist", (int)type->dtype);
    if (type->rank < 0 || (type->rank > 0 && type->dims == NULL)) TPJ_ERROR(TPJ_INTERNAL, "rank %d", type->rank);
    for (int i = 0; i < type->rank; i++)
        if (type->dims[i] < 0) TPJ_ERROR(TPJ_VALUE, "size %lld at dimension %d", (long long)type->dims[i], i);
    int64_t n = tpj_type_elements(type), n_bytes;
    if (n < 0 || __builtin_mul_overflow(n, (int64_t)tpj_dtype_bytes(type->dtype), &n_bytes))
        TPJ_ERROR(TPJ_VALUE, "the size in bytes does not fit 63 bits");
    return NULL;
}

static bool is_input_of_kind(const tpj_graph *graph, tpj_ref ref, tpj_input_kind kind) {
    return ref.node == TPJ_INPUT && ref.result >= 0 && ref.result < graph->n_inputs &&
           graph->inputs[ref.result].kind == kind;
}

/* Every element of the view lies inside a buffer of this type. */
static tpj_status *verify_view(const tpj_graph *graph, const tpj_view *view, const tpj_type *buffer) {
    if (view->offset_input != 0 &&
        !is_input_of_kind(graph, (tpj_ref){TPJ_INPUT, view->offset_input - 1}, TPJ_INPUT_SCALAR))
        TPJ_ERROR(TPJ_VALUE, "%%%d gives no offset: it is no scalar input", view->offset_input - 1);
    tpj_type type = {view->dtype, view->rank, view->sizes};
    TPJ_TRY(verify_type(&type));
    if (view->offset < 0) TPJ_ERROR(TPJ_VALUE, "a view's offset is negative");
    int64_t last = view->offset, room = tpj_type_elements(buffer) * (int64_t)tpj_dtype_bytes(buffer->dtype);
    room /= (int64_t)tpj_dtype_bytes(view->dtype);
    for (int i = 0; i < view->rank; i++) {
        int64_t reach;
        if (view->strides[i] < 0) TPJ_ERROR(TPJ_VALUE, "a view's stride is negative at dimension %d", i);
        if (view->sizes[i] > 0 && (__builtin_mul_overflow(view->sizes[i] - 1, view->strides[i], &reach) ||
                                   __builtin_add_overflow(last, reach, &last)))
            TPJ_ERROR(TPJ_VALUE, "a view's reach does not fit 63 bits");
    }
    if ((view->conj) && !tpj_dtype_is_complex(view->dtype)) TPJ_ERROR(TPJ_VALUE, "conj on a view that is not complex");
    if (tpj_type_elements(&type) > 0 && last >= room)
        TPJ_ERROR(TPJ_VALUE, "a view reaches element %lld of a buffer of %lld", (long long)last, (long long)room);
    return NULL;
}

static tpj_status *verify_input(const tpj_graph *graph, int i) {
    const tpj_input *input = &graph->inputs[i];
    TPJ_TRY(verify_type(&input->type));
    if (input->alias != 0) {
        const tpj_input *first = input->alias > 0 && input->alias <= i ? &graph->inputs[input->alias - 1] : NULL;
        if (first == NULL || first->kind != TPJ_INPUT_BUFFER || first->alias != 0)
            TPJ_ERROR(TPJ_VALUE, "%%%d is not the first input of its buffer", input->alias - 1);
        int64_t n = tpj_type_elements(&input->type) * (int64_t)tpj_dtype_bytes(input->type.dtype);
        if (n != tpj_type_elements(&first->type) * (int64_t)tpj_dtype_bytes(first->type.dtype))
            TPJ_ERROR(TPJ_VALUE, "the buffer of %%%d has another size", input->alias - 1);
    }
    return input->view == NULL ? NULL : verify_view(graph, input->view, &input->type);
}

/* The value exists and was made before node number `before`. */
static tpj_status *verify_ref(const tpj_graph *graph, tpj_ref ref, int before) {
    if (ref.node == TPJ_INPUT) {
        if (ref.result < 0 || ref.result >= graph->n_inputs) TPJ_ERROR(TPJ_VALUE, "there is no input %d", ref.result);
        return NULL;
    }
    if (ref.node < 0 || ref.node >= graph->n_nodes) TPJ_ERROR(TPJ_VALUE, "there is no node %d", ref.node);
    if (ref.node >= before) TPJ_ERROR(TPJ_VALUE, "node %d is used before it is made", ref.node);
    const tpj_node *node = &graph->nodes[ref.node];
    if (ref.result < 0) TPJ_ERROR(TPJ_VALUE, "result %d", ref.result);
    if (node->n_results > 0 && (ref.result >= node->n_results || node->types[ref.result].dtype == TPJ_N_DTYPES))
        TPJ_ERROR(TPJ_VALUE, "node %d (%s) has no result %d", ref.node, tpj_op_name(node->op), ref.result);
    return NULL;
}

static tpj_status *verify_arg(const tpj_graph *graph, int node, const tpj_param *param, const tpj_arg *arg) {
    if (!tpj_param_accepts(param, arg))
        TPJ_ERROR(TPJ_TYPE, arg->kind == TPJ_ARG_NONE ? "is missing, expected a %s" : "expected a %s",
                  tpj_param_spelling(param));
    if (arg->kind == TPJ_ARG_VALUE) {
        TPJ_TRY(verify_ref(graph, arg->value, node));
        bool is_random = is_input_of_kind(graph, arg->value, TPJ_INPUT_RANDOM);
        if (is_random != (param->kind == TPJ_PARAM_GENERATOR))
            TPJ_ERROR(TPJ_TYPE, "expected a %s%s", tpj_param_spelling(param), is_random ? ", not a random state" : "");
    }
    if (arg->kind != TPJ_ARG_VALUES && arg->kind != TPJ_ARG_SCALARS) return NULL;
    for (int i = 0; i < arg->n; i++) {
        tpj_ref ref = arg->values[i];
        tpj_status *status = NULL;
        if (ref.node != TPJ_NO_VALUE)
            status = verify_ref(graph, ref, node);
        else if (!param->holes)
            status = tpj_status_create(TPJ_TYPE, "none is not allowed");
        if (status == NULL && is_input_of_kind(graph, ref, TPJ_INPUT_RANDOM))
            status = tpj_status_create(TPJ_TYPE, "a random state is no tensor");
        TPJ_TRY(tpj_status_annotate(status, "element %d", i));
    }
    return NULL;
}

static tpj_status *verify_node(const tpj_graph *graph, int i) {
    const tpj_node *node = &graph->nodes[i];
    const char *cursor = tpj_op_params(node->op);
    tpj_param param;
    int n = 0;
    for (; tpj_param_next(&cursor, &param); n++)
        if (n < node->n_args)
            TPJ_TRY(tpj_status_annotate(verify_arg(graph, i, &param, &node->args[n]), "%%%d = %s: parameter '%.*s'",
                                        graph->n_inputs + i, tpj_op_name(node->op), (int)param.name_length,
                                        param.name));
    if (*cursor != '\0')
        TPJ_ERROR(TPJ_INTERNAL, "%s: its row has a malformed parameter at '%s'", tpj_op_name(node->op), cursor);
    if (n != node->n_args)
        TPJ_ERROR(TPJ_INTERNAL, "%%%d = %s: %d arguments for %d parameters", graph->n_inputs + i, tpj_op_name(node->op),
                  node->n_args, n);
    for (int r = 0; r < node->n_results; r++)
        if (node->types[r].dtype != TPJ_N_DTYPES)
            TPJ_TRY(tpj_status_annotate(verify_type(&node->types[r]), "%%%d = %s: result %d", graph->n_inputs + i,
                                        tpj_op_name(node->op), r));
    return NULL;
}

/* The rank of a value where it is known, else -1. */
static int rank_of(const tpj_graph *graph, tpj_ref ref) {
    if (ref.node == TPJ_INPUT) {
        const tpj_input *input = &graph->inputs[ref.result];
        return input->view != NULL ? input->view->rank : input->type.rank;
    }
    const tpj_node *node = &graph->nodes[ref.node];
    return node->n_results == 0 ? -1 : node->types[ref.result].rank;
}

static tpj_status *verify_order(const tpj_output *output, int rank) {
    if (output->n_order == 0) return NULL;
    if (rank >= 0 && output->n_order != rank)
        TPJ_ERROR(TPJ_VALUE, "an order of %d dimensions for a value of %d", output->n_order, rank);
    /* Every dimension occurs: of n numbers, none is missing, so none repeats. */
    for (int d = 0; d < output->n_order; d++) {
        bool found = false;
        for (int k = 0; k < output->n_order && !found; k++) found = output->order[k] == d;
        if (!found) TPJ_ERROR(TPJ_VALUE, "dimension %d is missing in the order", d);
    }
    return NULL;
}

static tpj_status *verify_output(const tpj_graph *graph, int i) {
    const tpj_output *output = &graph->outputs[i];
    TPJ_TRY(verify_ref(graph, output->value, graph->n_nodes));
    TPJ_TRY(verify_order(output, rank_of(graph, output->value)));
    if (output->target < 0) {
        if (output->view != NULL) TPJ_ERROR(TPJ_VALUE, "a view without a buffer to write");
        return NULL;
    }
    if (!is_input_of_kind(graph, (tpj_ref){TPJ_INPUT, output->target}, TPJ_INPUT_BUFFER))
        TPJ_ERROR(TPJ_VALUE, "%%%d is no buffer to write", output->target);
    if (output->n_order > 0) TPJ_ERROR(TPJ_VALUE, "a written value has no order of its own");
    for (int k = 0; k < i; k++)
        if (graph->outputs[k].target == output->target) TPJ_ERROR(TPJ_VALUE, "%%%d is written twice", output->target);
    return output->view == NULL ? NULL : verify_view(graph, output->view, &graph->inputs[output->target].type);
}

tpj_status *tpj_graph_verify(const tpj_graph *graph) {
    for (int i = 0; i < graph->n_inputs; i++) TPJ_TRY(tpj_status_annotate(verify_input(graph, i), "%%%d", i));
    for (int i = 0; i < graph->n_nodes; i++) TPJ_TRY(verify_node(graph, i));
    for (int i = 0; i < graph->n_outputs; i++) TPJ_TRY(tpj_status_annotate(verify_output(graph, i), "output %d", i));
    return NULL;
}
