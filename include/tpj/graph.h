/* The graph: what every way in (eager op, deferred ops, torch.compile, export, text) is turned into before it becomes
 * StableHLO. A graph is one arena; values are (node, result) references; nodes are in execution order.
 *
 * Threads: one thread at a time while it is built; immutable and shareable afterwards. */
#ifndef TPJ_GRAPH_H
#define TPJ_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "tpj/dtype.h"
#include "tpj/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tpj_graph tpj_graph;
typedef struct tpj_op_def tpj_op_def;

/* A number of the host. */
typedef enum tpj_number_kind { TPJ_NUMBER_BOOL, TPJ_NUMBER_INT, TPJ_NUMBER_FLOAT, TPJ_NUMBER_COMPLEX } tpj_number_kind;
typedef struct tpj_number {
    tpj_number_kind kind;
    union {
        int64_t integer; /* BOOL, INT */
        double parts[2]; /* FLOAT: the first; COMPLEX: real and imaginary */
    };
} tpj_number;

/* An array type. `dims` is borrowed from whatever made the type. Rank 0 is a scalar. */
typedef struct tpj_type {
    tpj_dtype dtype;
    int rank;
    const int64_t *dims;
} tpj_type;

/* Which elements of a storage a tensor names, in elements of the tensor's own dtype: element (i0, i1, ..) lies at
 * offset + sum(i_k * strides[k]). Strides are >= 0; a stride of 0 repeats. */
typedef struct tpj_view {
    tpj_dtype dtype; /* may differ from the storage's: the bytes are then reinterpreted */
    int rank;
    const int64_t *sizes, *strides;
    int64_t offset;
    /* 1 + the SCALAR input that gives the offset at run time: `offset` is then one that occurs, which the view is planned
     * for (tpj_floating in lower.h says which others fit). 0: it is always `offset`. */
    int offset_input;
    bool conj, neg; /* PyTorch's lazy bits */
} tpj_view;

/* A value: result `result` of node `node`, or graph input `result` when node is TPJ_INPUT. */
typedef struct tpj_ref {
    int node, result;
} tpj_ref;
enum { TPJ_INPUT = -1 };

/* What an input is at run time. */
typedef enum tpj_input_kind {
    TPJ_INPUT_BUFFER, /* an array on the device, read as a whole or through a view */
    TPJ_INPUT_SCALAR, /* a number of the host (a Python scalar, a learning rate): given per launch, never in the key */
    TPJ_INPUT_RANDOM  /* the generator's state, u64[2] (seed, offset), given per launch */
} tpj_input_kind;

typedef struct tpj_input {
    tpj_input_kind kind;
    tpj_type type;        /* BUFFER: type of the whole buffer (the storage's base shape) */
    const tpj_view *view; /* BUFFER: the elements that the value names; NULL: the buffer as it is */
    int alias;            /* BUFFER: 1 + the number of an earlier input that is the same buffer; 0: none */
    bool number; /* takes part in dtype promotion as a Python number does (SCALAR, and PyTorch's wrapped numbers) */
} tpj_input;

typedef enum tpj_arg_kind {
    TPJ_ARG_NONE, /* absent, or Python's None */
    TPJ_ARG_VALUE,
    TPJ_ARG_VALUES, /* a tensor list; a ref with node TPJ_NO_VALUE is None inside the list */
    TPJ_ARG_BOOL,
    TPJ_ARG_INT,
    TPJ_ARG_FLOAT,
    TPJ_ARG_COMPLEX,
    TPJ_ARG_DTYPE,
    TPJ_ARG_STRING,
    TPJ_ARG_INTS,
    TPJ_ARG_FLOATS,
    TPJ_ARG_BOOLS,
    TPJ_ARG_SCALARS /* list of numbers, each given as a ref to a SCALAR input */
} tpj_arg_kind;
enum { TPJ_NO_VALUE = -2 };

typedef struct tpj_arg {
    tpj_arg_kind kind;
    int n; /* elements of a list, characters of a string */
    union {
        tpj_ref value;
        const tpj_ref *values;
        bool boolean;
        int64_t integer;
        double number;
        double complex_number[2];
        tpj_dtype dtype;
        const char *string;
        const int64_t *integers;
        const double *numbers;
        const bool *booleans;
    };
} tpj_arg;

/* One op. `args` follow the row's parameters, one each. `file`/`line`: the user's line, NULL where unknown. */
typedef struct tpj_node {
    const tpj_op_def *op;
    const tpj_arg *args;
    int n_args;
    int n_results;         /* filled when the graph is lowered */
    const tpj_type *types; /* n_results; dtype TPJ_N_DTYPES marks a result that is None */
    const char *file;
    int line;
} tpj_node;

/* What becomes of a value at the end. */
typedef struct tpj_output {
    tpj_ref value;
    /* >= 0: the value is written through `view` into the buffer input of this number, which is donated; the output is that
     * whole buffer. `view` NULL replaces the whole buffer. -1: the value is an output of its own. */
    int target;
    const tpj_view *view;
    /* Own outputs: the order of dimensions in memory, outermost first (n = rank), NULL for row-major. The program's
     * result has its dimensions in this order. */
    const int *order;
    int n_order; /* elements of `order`: the value's rank, or 0 */
    bool
        order_of_op; /* own outputs without `order`: the order that the op gives its results, as in a graph without outputs.
                         Not part of the text. */
} tpj_output;

TPJ_API tpj_status *tpj_graph_create(tpj_graph **out_graph) TPJ_MUST_USE;
TPJ_API void tpj_graph_destroy(tpj_graph *graph);

/* All that is passed is copied into the graph. */
TPJ_API tpj_status *tpj_graph_add_input(tpj_graph *graph, const tpj_input *input, tpj_ref *out_value) TPJ_MUST_USE;
TPJ_API tpj_status *tpj_graph_add_node(tpj_graph *graph, const tpj_op_def *op, const tpj_arg *args, int n_args,
                                       const char *file, int line, int *out_node) TPJ_MUST_USE;
TPJ_API tpj_status *tpj_graph_add_output(tpj_graph *graph, const tpj_output *output) TPJ_MUST_USE;

TPJ_API int tpj_graph_n_inputs(const tpj_graph *graph);
TPJ_API int tpj_graph_n_nodes(const tpj_graph *graph);
TPJ_API int tpj_graph_n_outputs(const tpj_graph *graph);
/* Borrowed until the graph changes or dies. */
TPJ_API const tpj_input *tpj_graph_input(const tpj_graph *graph, int i);
TPJ_API const tpj_node *tpj_graph_node(const tpj_graph *graph, int i);
TPJ_API const tpj_output *tpj_graph_output(const tpj_graph *graph, int i);

/* The row of an op by its PyTorch name ("add.Tensor"); NULL when there is none. Thread-safe. */
TPJ_API const tpj_op_def *tpj_op_find(const char *name, size_t length);
TPJ_API const char *tpj_op_name(const tpj_op_def *op);
/* Walks the table: row number i, NULL past the end. */
TPJ_API const tpj_op_def *tpj_op_at(int i);
/* The row's parameters as they stand in the table ("T self, T other, S alpha=1"). */
TPJ_API const char *tpj_op_params(const tpj_op_def *op);

/* "running_mean, running_var": arguments that results beyond the schema's own are written back to; NULL: none. */
TPJ_API const char *tpj_op_writes(const tpj_op_def *op);
/* The family's name, the file of src/ops that holds the row ("matmul"). Static. */
TPJ_API const char *tpj_op_family(const tpj_op_def *op);
/* How the results' strides follow from the operands': "contiguous" "pointwise" "self" "channels_last" "memory_format". */
TPJ_API const char *tpj_op_layout(const tpj_op_def *op);
TPJ_API bool tpj_op_is_random(const tpj_op_def *op);  /* draws from the generator: its graph needs a RANDOM input */
TPJ_API bool tpj_op_is_sized(const tpj_op_def *op);   /* its results' sizes depend on data: its count runs first */
TPJ_API bool tpj_op_is_factory(const tpj_op_def *op); /* makes tensors from no tensor */
/* Whether a sized op's count follows from the numbers (kind S) of the call alone; false leaves the device to count. */
TPJ_API bool tpj_op_size(const tpj_op_def *op, const tpj_number *numbers, int n_numbers, int64_t *out_size);

/* ---- ops of the user's own, registered at run time ----
 * Their StableHLO is text: a function (func.func, in the form that is not generic) whose parameters are the op's tensors in
 * their order, lists one after the other and None left out, all of fixed sizes. A module around it is ignored.
 *
 * The writer is asked once for each kind of call. `arguments` is a JSON object of the op's arguments by name: a tensor is
 * {"dtype": "f32", "sizes": [4, 8]}, lists are lists, a float that is not finite {"float": "nan"}, a dtype
 * {"dtype": "f32"}. It returns a malloc'ed text, or an error, which the call raises. Called on any thread. */
typedef tpj_status *(*tpj_kernel_writer)(void *context, const char *op, const char *arguments, char **out_text);
/* `name` has a namespace ("lib::op.overload"), `params` are as a row's (src/ops/ops.h), without the kinds S, f and G. Both are
 * copied; context must live as long as the process. Thread-safe. Errors: TPJ_VALUE for a name or parameters that cannot be,
 * TPJ_RUNTIME for a name that is there. */
TPJ_API tpj_status *tpj_op_register(const char *name, const char *params, tpj_kernel_writer writer, void *context,
                                    const tpj_op_def **out_op) TPJ_MUST_USE;

/* The textual form, documented in docs/graph_text.md. parse: errors name the line and column. print: malloc'ed, the
 * caller frees it. parse(print(g)) equals g. */
TPJ_API tpj_status *tpj_graph_parse(const char *text, size_t length, tpj_graph **out_graph) TPJ_MUST_USE;
TPJ_API tpj_status *tpj_graph_print(const tpj_graph *graph, char **out_text) TPJ_MUST_USE;
/* References point backwards, args fit the rows' parameters, views lie inside their buffers. */
TPJ_API tpj_status *tpj_graph_verify(const tpj_graph *graph) TPJ_MUST_USE;

/* Elements of a type; -1 when the product does not fit 63 bits. */
TPJ_API int64_t tpj_type_elements(const tpj_type *type);

#ifdef __cplusplus
}
#endif
#endif
