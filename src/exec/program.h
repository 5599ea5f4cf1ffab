/* A program: a lowered graph compiled on a client, with what a launch needs to know.
 *
 * Threads: immutable after creation; counted. */
#ifndef TPJ_EXEC_PROGRAM_H
#define TPJ_EXEC_PROGRAM_H

#include "tpj/lower.h"
#include "tpj/pjrt.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct tpj_program tpj_program;
struct tpj_program {
    int references; /* atomic */
    tpj_executable *executable;
    tpj_lowered *lowered;
    int n_outputs; /* of the executable: results that are not none, then index checks */
    size_t n_bytes; /* estimate of host memory held, for the cache's bound */
    const char *op;   /* the last node's op; static */
    char *file;       /* the user's line at the first call, NULL where unknown */
    int line;
};

/* Lowers and compiles. Takes nothing. Counts in the compile statistics. */
tpj_status *tpj_program_create(tpj_client *client, const tpj_graph *graph, const tpj_lower_options *options,
                               tpj_program **out_program) TPJ_MUST_USE;
void tpj_program_retain(tpj_program *program);
void tpj_program_release(tpj_program *program);

typedef struct tpj_compile_counts {
    int64_t programs;
    int64_t nanoseconds;
} tpj_compile_counts;
void tpj_compile_counts_get(tpj_compile_counts *out_counts);
void tpj_compile_counts_reset(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
