/* From a graph to a StableHLO module: walks the nodes, runs each row's emitter, reads inputs through their views, writes
 * results back through theirs, and decides the memory order of new results. */
#ifndef TPJ_LOWER_H
#define TPJ_LOWER_H

#include <stddef.h>
#include <stdint.h>

#include "tpj/graph.h"
#include "tpj/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a parameter of the module comes from at launch. */
typedef struct tpj_parameter {
    tpj_input_kind kind;
    int input;       /* the graph input; TPJ_REPORT: none, but where the launch's checks report to (kind SCALAR, I64) */
    tpj_dtype dtype; /* SCALAR: the dtype that the number is made in */
    tpj_type type;   /* BUFFER: of the whole buffer */
} tpj_parameter;

enum { TPJ_REPORT = -1 };

typedef struct tpj_lowered_result {
    int target;             /* graph input whose buffer this result replaces; -1: a new array */
    bool none;              /* an undefined tensor: the module has no result for it */
    tpj_type type;          /* of the value, in the value's order of dimensions */
    const int64_t *strides; /* of the value in the buffer, in elements */
    tpj_type base;          /* of the module's result: the buffer's shape */
    size_t n_bytes;         /* host bytes of the buffer */
} tpj_lowered_result;

/* How the checks of operands whose values only the device knows reach the host. */
typedef enum tpj_check_mode {
    TPJ_CHECK_NONE,
    TPJ_CHECK_RESULT, /* as one more result of the module, I64 with an element for each: of those that it looks at, the one
                         that is furthest outside */
    TPJ_CHECK_REPORT /* the program calls a function of the host (src/pjrt/report.h), where the client has it */
} tpj_check_mode;

/* All is well where the elements lie in [low, size). */
typedef struct tpj_index_check {
    const char *op, *file;
    int line;
    int64_t low, size;
    tpj_code code;
    const char *message; /* static; NULL: "index .. is out of bounds for dimension with size .." */
} tpj_index_check;

/* What the numbers of a launch must be like: `input` in [low, high], or, with `other` (a SCALAR graph input, else -1),
 * below it, or equal to it where `equal` says so; with `high` > 0, at most `high` below it; with `span` > 0, at most `span`
 * below it as integers (`other` -1: `input` above 0).
 * The number goes behind the error's message. TPJ_OK as the code: such numbers are no error, but another program's. */
typedef struct tpj_requirement {
    int input, other;
    bool equal;
    double low, high;
    uint64_t span;
    tpj_code code;
    const char *op, *message; /* static */
} tpj_requirement;

/* A view whose offset is given at launch, and the offsets that the program is right for: those whose digits in the mixed
 * radix of `units` (offset / units[0], then the remainder / units[1], ..) are at most `most`. */
typedef struct tpj_floating {
    int input, n;                /* the SCALAR graph input that gives the offset; digits */
    const int64_t *units, *most; /* n each */
} tpj_floating;

/* Immutable; one allocation arena, thread-safe to read. */
typedef struct tpj_lowered {
    char *module;
    size_t module_length;
    tpj_parameter *parameters;
    int n_parameters;
    tpj_lowered_result *results;
    int n_results;
    tpj_index_check *checks;
    int n_checks;
    bool reports; /* TPJ_CHECK_REPORT: the checks are no result */
    tpj_requirement *requirements;
    int n_requirements;
    tpj_floating *floating;
    int n_floating;
    uint64_t random_count; /* how far a launch advances the generator's offset */
    const char
        *description; /* of the last node, for errors: "embedding(f32[4, 8], i64[3])"; NULL where there is none */
    void *memory;     /* holds all of the above but the module */
} tpj_lowered;

typedef struct tpj_lower_options {
    tpj_check_mode check_index;
    const char *precision; /* of f32 dots: "DEFAULT" "HIGH" "HIGHEST"; NULL is HIGHEST */
    const int64_t *sizes;  /* for TPJ_OP_SIZED rows: what their count found */
    int n_sizes;
    bool for_cpu;            /* in the forms that XLA's compiler for CPUs is quick with */
    bool count_only;         /* emit the last node's `count` instead of its `emit` */
    tpj_dtype default_dtype; /* what a Python float counts as (torch.get_default_dtype()); TPJ_BOOL (zero) is F32 */
} tpj_lower_options;

/* A graph without outputs returns every result of its last node. NULL options are the defaults (all zero). */
TPJ_API tpj_status *tpj_lower_graph(const tpj_graph *graph, const tpj_lower_options *options,
                                    tpj_lowered **out_lowered) TPJ_MUST_USE;
TPJ_API void tpj_lowered_destroy(tpj_lowered *lowered);

#ifdef __cplusplus
}
#endif
#endif
