/* What the glue offers to the Python extension, in C. Everything else that the extension needs comes from the core.
 *
 * Threads: all functions are thread-safe and need no GIL. */
#ifndef TPJ_GLUE_API_H
#define TPJ_GLUE_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tpj/graph.h"
#include "tpj/pjrt.h"
#include "tpj/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the device ---- */
/* As tpj_runtime_configure; also makes the device count as available to PyTorch when there is a plugin. */
TPJ_API void tpj_glue_configure(const char *plugin_path, const char *reason_when_none, int n_devices);

/* ---- fallbacks to the CPU, by op, in the order in which they first happened (fallback.cpp) ---- */
TPJ_API int tpj_glue_fallbacks_count(void);
/* "aten::foo.bar"; static. NULL past the end. */
TPJ_API const char *tpj_glue_fallbacks_name(int i);
TPJ_API int64_t tpj_glue_fallbacks_calls(int i);
/* Sets all counts to 0 and forgets the names, so that the next fallback of each op warns again. */
TPJ_API void tpj_glue_fallbacks_reset(void);

/* ---- what the Python extension gives to the glue (python_hooks.cpp); called without the GIL, which they take ---- */
/* Writes the innermost line of the calling thread's Python stack that belongs to the user: 1, or 0 when there is none. */
typedef int (*tpj_glue_line_finder)(char *out_file, size_t n_file, int *out_line);
TPJ_API void tpj_glue_set_line_finder(tpj_glue_line_finder finder);
/* Traces PyTorch's decomposition of an op that has no row. The request is JSON:
 *     {"op": "aten::foo.bar", "inputs": "  %0 = input f32[4]\n..", "args": [..]}
 * with the graph's input statements, and one entry per schema argument:
 *     {"input": 0, "dtype": "f32", "sizes": [4], "strides": [1]}  tensor; "number": true for a wrapped number
 *     [..] list, null, true, 3, 0.5, "text", {"float": "inf"|"-inf"|"nan"}, {"dtype": "f32"}, {"device": true},
 *     {"complex": [re, im]}
 * The answer is the graph's text (docs/graph_text.md) with one own output per result, malloc'ed; NULL when no decomposition
 * ends in rows. */
typedef char *(*tpj_glue_tracer)(const char *request);
TPJ_API void tpj_glue_set_tracer(tpj_glue_tracer tracer);

/* Writes the StableHLO text of an op that was registered at run time, as tpj_kernel_writer does (tpj/graph.h). */
TPJ_API void tpj_glue_set_kernel_writer(tpj_kernel_writer writer);
/* Gives an op of another library ("lib::op", and an overload's name, "" for none) a row whose StableHLO the writer writes, and
 * a kernel on the device. Errors: TPJ_VALUE for an op that there is not, or whose arguments text cannot have; TPJ_RUNTIME for
 * one that has a kernel for the device. */
TPJ_API tpj_status *tpj_glue_register_kernel(const char *name, const char *overload) TPJ_MUST_USE;

/* ---- captured graphs (compiled.cpp) ----
 * The op torch_pjrt::run_graph(int graph, Tensor[] tensors, Scalar[] numbers) -> Tensor[] runs one. */
typedef struct tpj_glue_graph tpj_glue_graph;
/* Is told of each program that is made for a graph with `watched`, when it has been compiled: the StableHLO text, and what
 * the compiler says of it. */
typedef void (*tpj_glue_program_watcher)(const char *graph, const char *module, size_t n_module,
                                         const tpj_compiled_memory *memory, const tpj_compiled_cost *cost);
TPJ_API void tpj_glue_set_program_watcher(tpj_glue_program_watcher watcher);
typedef enum tpj_glue_result_kind {
    TPJ_GLUE_RESULT_NONE,  /* an undefined tensor: Python's None */
    TPJ_GLUE_RESULT_NEW,   /* return number `index` of the body */
    TPJ_GLUE_RESULT_PART,  /* elements of that, sharing its storage */
    TPJ_GLUE_RESULT_INPUT, /* input `index` itself */
    TPJ_GLUE_RESULT_VIEW   /* elements of input `index`, sharing its storage */
} tpj_glue_result_kind;
typedef struct tpj_glue_graph_description {
    const char *name; /* for errors and files */
    /* The statements of docs/graph_text.md that follow the inputs', of which each run makes its own. Inputs are %0 and on:
     * the tensors, then the numbers; with `random` the state of the random generator comes behind them. */
    const char *body;
    int n_tensors, n_numbers;
    bool random, watched;
    int device;                          /* for graphs without tensors; -1: the current one */
    const char *precision;               /* as in tpj_lower_options; NULL: as PyTorch's settings say at each run */
    const char *dump_dir;                /* receives the StableHLO text, NAME.mlir; NULL: nothing does */
    const tpj_compile_options *compiler; /* as tpj_program_compile takes them; NULL: the defaults */
    /* How many results a run returns, and each as kind and index, followed for a VIEW by the strides that the input is
     * expected to have (their number first), and for a VIEW or PART by the result's rank, sizes, strides and the distance of
     * its first element from that of what it is a part of. Then how many inputs are written, and each as the node (the
     * first of the body is 0, an input is -1) and result whose value is written, and the input. */
    const int64_t *results;
    size_t n_results; /* numbers in `results` */
} tpj_glue_graph_description;
/* All is copied. Errors: numbers that do not fit. */
TPJ_API tpj_status *tpj_glue_graph_create(const tpj_glue_graph_description *description,
                                          tpj_glue_graph **out_graph) TPJ_MUST_USE;
TPJ_API void tpj_glue_graph_destroy(tpj_glue_graph *graph);

/* Registers the kernel of every op, once, after PyTorch is loaded. */
TPJ_API void tpj_glue_register(void);

#ifdef __cplusplus
}
#endif
#endif
