#include "ir/graph.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const int64_t random_state_dims[] = {2};

tpj_status *tpj_graph_create(tpj_graph **out_graph) {
    tpj_graph *graph = calloc(1, sizeof *graph);
    if (graph == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory for a graph");
    tpj_arena_init(&graph->arena);
    *out_graph = graph;
    return NULL;
}

void tpj_graph_destroy(tpj_graph *graph) {
    if (graph == NULL) return;
    tpj_arena_destroy(&graph->arena);
    free(graph);
}

static tpj_status *out_of_memory(void) {
    return tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory for a graph");
}

/* Makes room for one more element. The array that is left behind stays in the arena: at most as much again. */
static tpj_status *grow(tpj_arena *arena, void **array, int n, int *capacity, size_t element_size) {
    if (n < *capacity) return NULL;
    if (n > INT_MAX / 2) TPJ_ERROR(TPJ_RUNTIME, "a graph cannot hold more than %d elements of a kind", n);
    int wanted = n == 0 ? 8 : 2 * n;
    void *bigger = tpj_arena_alloc(arena, (size_t)wanted * element_size);
    if (bigger == NULL) return out_of_memory();
    if (n > 0) memcpy(bigger, *array, (size_t)n * element_size);
    *array = bigger;
    *capacity = wanted;
    return NULL;
}

/* The copies below are NULL only for empty data or when memory is out; the arena's flag tells at the end. */
static const void *copy(tpj_arena *arena, const void *data, int n, size_t element_size) {
    return n <= 0 ? NULL : tpj_arena_copy(arena, data, (size_t)n * element_size);
}

static tpj_type copy_type(tpj_arena *arena, const tpj_type *type) {
    return (tpj_type){type->dtype, type->rank, copy(arena, type->dims, type->rank, sizeof(int64_t))};
}

static const tpj_view *copy_view(tpj_arena *arena, const tpj_view *view) {
    if (view == NULL) return NULL;
    tpj_view *made = tpj_arena_copy(arena, view, sizeof *view);
    if (made == NULL) return NULL;
    made->sizes = copy(arena, view->sizes, view->rank, sizeof(int64_t));
    made->strides = copy(arena, view->strides, view->rank, sizeof(int64_t));
    return made;
}

static tpj_arg copy_arg(tpj_arena *arena, const tpj_arg *arg) {
    tpj_arg made = *arg;
    switch (arg->kind) {
        case TPJ_ARG_VALUES:
        case TPJ_ARG_SCALARS: made.values = copy(arena, arg->values, arg->n, sizeof(tpj_ref)); break;
        case TPJ_ARG_STRING: made.string = tpj_arena_string_n(arena, arg->string, (size_t)arg->n); break;
        case TPJ_ARG_INTS: made.integers = copy(arena, arg->integers, arg->n, sizeof(int64_t)); break;
        case TPJ_ARG_FLOATS: made.numbers = copy(arena, arg->numbers, arg->n, sizeof(double)); break;
        case TPJ_ARG_BOOLS: made.booleans = copy(arena, arg->booleans, arg->n, sizeof(bool)); break;
        default: made.n = 0; break;
    }
    return made;
}

tpj_status *tpj_graph_add_input(tpj_graph *graph, const tpj_input *input, tpj_ref *out_value) {
    tpj_arena *arena = &graph->arena;
    TPJ_TRY(grow(arena, (void **)&graph->inputs, graph->n_inputs, &graph->input_capacity, sizeof *graph->inputs));
    tpj_input made = {.kind = input->kind, .number = input->number, .alias = input->alias};
    switch (input->kind) {
        case TPJ_INPUT_BUFFER:
            made.type = copy_type(arena, &input->type);
            made.view = copy_view(arena, input->view);
            break;
        case TPJ_INPUT_SCALAR: made.type.dtype = input->type.dtype; break; /* rank 0, no view */
        case TPJ_INPUT_RANDOM:
            made.type = (tpj_type){TPJ_U64, 1, random_state_dims};
            made.number = false;
            break;
        default: TPJ_ERROR(TPJ_INTERNAL, "an input of unknown kind %d", (int)input->kind);
    }
    if (arena->failed) return out_of_memory();
    graph->inputs[graph->n_inputs] = made;
    *out_value = (tpj_ref){TPJ_INPUT, graph->n_inputs++};
    return NULL;
}

tpj_status *tpj_graph_add_node(tpj_graph *graph, const tpj_op_def *op, const tpj_arg *args, int n_args,
                               const char *file, int line, int *out_node) {
    tpj_arena *arena = &graph->arena;
    TPJ_TRY(grow(arena, (void **)&graph->nodes, graph->n_nodes, &graph->node_capacity, sizeof *graph->nodes));
    tpj_arg *made = TPJ_ARENA_ARRAY(arena, tpj_arg, n_args);
    for (int i = 0; made != NULL && i < n_args; i++) made[i] = copy_arg(arena, &args[i]);
    const char *file_copy = file == NULL ? NULL : tpj_arena_string(arena, file);
    if (arena->failed) return out_of_memory();
    graph->nodes[graph->n_nodes] =
        (tpj_node){.op = op, .args = made, .n_args = n_args, .file = file_copy, .line = file == NULL ? 0 : line};
    *out_node = graph->n_nodes++;
    return NULL;
}

tpj_status *tpj_graph_add_output(tpj_graph *graph, const tpj_output *output) {
    tpj_arena *arena = &graph->arena;
    TPJ_TRY(grow(arena, (void **)&graph->outputs, graph->n_outputs, &graph->output_capacity, sizeof *graph->outputs));
    tpj_output made = *output;
    made.view = copy_view(arena, output->view);
    /* The order of a 0-dim value is a list of no elements; that is row-major. */
    made.n_order = output->order == NULL || output->n_order <= 0 ? 0 : output->n_order;
    made.order = made.n_order == 0 ? NULL : copy(arena, output->order, output->n_order, sizeof(int));
    if (arena->failed) return out_of_memory();
    graph->outputs[graph->n_outputs++] = made;
    return NULL;
}

tpj_status *tpj_graph_set_results(tpj_graph *graph, int node, const tpj_type *types, int n_types) {
    tpj_arena *arena = &graph->arena;
    tpj_type *made = TPJ_ARENA_ARRAY(arena, tpj_type, n_types);
    for (int i = 0; made != NULL && i < n_types; i++) made[i] = copy_type(arena, &types[i]);
    if (arena->failed) return out_of_memory();
    graph->nodes[node].types = made;
    graph->nodes[node].n_results = n_types;
    return NULL;
}

int tpj_graph_n_inputs(const tpj_graph *graph) { return graph->n_inputs; }
int tpj_graph_n_nodes(const tpj_graph *graph) { return graph->n_nodes; }
int tpj_graph_n_outputs(const tpj_graph *graph) { return graph->n_outputs; }
const tpj_input *tpj_graph_input(const tpj_graph *graph, int i) { return &graph->inputs[i]; }
const tpj_node *tpj_graph_node(const tpj_graph *graph, int i) { return &graph->nodes[i]; }
const tpj_output *tpj_graph_output(const tpj_graph *graph, int i) { return &graph->outputs[i]; }

int64_t tpj_type_elements(const tpj_type *type) {
    int64_t n = 1;
    /* A zero anywhere makes the product zero, however large the other sizes are. */
    for (int i = 0; i < type->rank; i++)
        if (type->dims[i] == 0) return 0;
    for (int i = 0; i < type->rank; i++)
        if (type->dims[i] < 0 || __builtin_mul_overflow(n, type->dims[i], &n)) return -1;
    return n;
}
