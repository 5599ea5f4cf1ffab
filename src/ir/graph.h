/* The graph from the inside, for the layers that fill it in (lower) or read and write it as text.
 *
 * Threads: as in tpj/graph.h. */
#ifndef TPJ_IR_GRAPH_H
#define TPJ_IR_GRAPH_H

#include "base/arena.h"
#include "tpj/graph.h"

struct tpj_graph {
    tpj_arena arena; /* holds everything below */
    int n_inputs, n_nodes, n_outputs;
    int input_capacity, node_capacity, output_capacity;
    tpj_input *inputs;
    tpj_node *nodes;
    tpj_output *outputs;
};

/* The types that lowering found for a node's results; copied. */
tpj_status *tpj_graph_set_results(tpj_graph *graph, int node, const tpj_type *types, int n_types) TPJ_MUST_USE;

#endif
