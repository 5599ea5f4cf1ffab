/* The state that the files of src/lower share while one graph is lowered. */
#ifndef TPJ_LOWER_LOWERING_H
#define TPJ_LOWER_LOWERING_H

#include "hlo/hlo.h"
#include "ops/ops.h"
#include "tpj/lower.h"

typedef struct tpj_scalar_value { /* a SCALAR input made in one dtype */
    int input;
    tpj_dtype dtype;
    tpj_value *value;
    struct tpj_scalar_value *next;
} tpj_scalar_value;

typedef struct tpj_check_value {
    tpj_value *value; /* I64[1]: see TPJ_CHECK_RESULT; NULL where it is reported */
    tpj_index_check check;
    struct tpj_check_value *next;
} tpj_check_value;

typedef struct tpj_required_number {
    tpj_requirement requirement;
    struct tpj_required_number *next;
} tpj_required_number;

typedef struct tpj_floating_view {
    tpj_floating floating;
    struct tpj_floating_view *next;
} tpj_floating_view;

/* A buffer that the module knows, at the point that lowering has reached. */
typedef struct tpj_slot_value {
    tpj_value *value; /* what it holds; NULL: neither read nor written so far */
    int parameter;    /* 1 + the parameter that it came in; 0: none */
    /* when `value` is `before` with `part` written through `view`: that view is `part`, without a look at the buffer, and
     * writing it again begins with `before`. Runs of writes to a slice would else nest, which compilers take ill. */
    tpj_value *after, *before, *part;
    const tpj_view *view;
} tpj_slot_value;

/* What becomes of a graph's outputs. */
typedef struct tpj_output_values {
    tpj_lowered_result *results;
    tpj_value **values; /* whole buffers; NULL for none */
    int *slots;         /* the buffers that they replace; -1: new ones */
    int n;
} tpj_output_values;

/* One module: a graph, or several in a row (window.c), which meet in the slots. */
typedef struct tpj_lowering {
    tpj_hlo *h;
    tpj_parameter *parameters; /* grows */
    int n_parameters, capacity;
    tpj_slot_value *slots;
    tpj_check_value *checks, **checks_end;
    int n_checks;

    /* of the graph that is being lowered */
    const tpj_graph *graph;
    const tpj_lower_options *options;
    const int *slot_of; /* one per graph input: its slot; NULL: its own number */
    int first_operand;  /* what its numbers' parameters count from */
    const char *file;   /* where it was called; NULL: as the nodes say */
    int line;
    tpj_value **written; /* one per graph input: the buffer after the writes so far, NULL: not written */
    int *writers;        /* 1 + the output that wrote it last */
    tpj_value **inputs;  /* one per graph input: read through its view, NULL until used */
    tpj_scalar_value *scalars;
    tpj_required_number *required;
    tpj_floating_view *floating;
    tpj_value *random_state;
    uint64_t random_count;
    tpj_value ***results; /* one array per node; NULL values are undefined tensors */
    uint64_t *by_columns; /* one per node: bit i, result i lies in memory column after column */
    int *n_results;
    tpj_value *report; /* where checks report to; NULL until used */
} tpj_lowering;

/* What makes a module, in this order: begin; for each graph, its place (the fields from slot_of to line, random_state) is set and
 * it is added; finish. `lowered`: what is to be filled in; its arena exists. */
tpj_status *tpj_lowering_begin(tpj_lowering *lowering, int n_slots) TPJ_MUST_USE;
tpj_status *tpj_lowering_add(tpj_lowering *lowering, const tpj_graph *graph, const tpj_lower_options *options,
                             tpj_output_values *out) TPJ_MUST_USE;
/* Writes a graph's nodes where the builder stands, with values for its inputs; `out`: its results. */
tpj_status *tpj_lowering_nest(tpj_lowering *lowering, const tpj_graph *graph, const tpj_lower_options *options,
                              tpj_value *const *inputs, tpj_value **out) TPJ_MUST_USE;
tpj_status *tpj_lowering_finish(tpj_lowering *lowering, const tpj_output_values *outputs,
                                tpj_lowered *lowered) TPJ_MUST_USE;
void tpj_lowering_end(tpj_lowering *lowering);
int tpj_lowering_add_parameter(tpj_lowering *lowering, tpj_parameter parameter);
/* Empty, with its arena; NULL when memory is out. */
tpj_lowered *tpj_lowered_create(void);

struct tpj_emit {
    tpj_lowering *lowering;
    tpj_hlo *h;
    const tpj_node *node;
    tpj_value **results; /* grows in the builder's arena */
    int n_results, capacity;
    uint64_t by_columns;
};

/* An argument of the op by its row's name for it; fails the op when the row has no such parameter. Never NULL. */
const tpj_arg *tpj_emit_argument(tpj_emit *e, const char *name);

tpj_value *tpj_lowering_buffer(tpj_lowering *lowering, int input);
tpj_value *tpj_lowering_scalar(tpj_lowering *lowering, int input, tpj_dtype dtype);
tpj_value *tpj_lowering_report(tpj_lowering *lowering);
/* The value of a reference; `number_dtype`: the dtype to make a number in, TPJ_N_DTYPES for its own. */
tpj_value *tpj_lowering_value(tpj_lowering *lowering, tpj_ref ref, tpj_dtype number_dtype);
bool tpj_lowering_is_number(const tpj_lowering *lowering, tpj_ref ref);

/* Whether the node may compute on float8, which is a format for storage: its row says so, or the call gives another dtype
 * for the result, to which operands are converted first. */
bool tpj_lowering_float8(const tpj_node *node);

/* The order of dimensions in memory (outermost first) of result `value` of a node, as PyTorch's CPU would lay it out;
 * false: row-major. */
bool tpj_layout_order(tpj_lowering *lowering, const tpj_node *node, const tpj_value *value, int *out_order);
/* The same for matrices that lie column after column. */
bool tpj_layout_columns(const tpj_value *value, int *out_order);

#endif
