/* What the layers above know of a program beside tpj/program.h: its parts, how numbers become operands, its checks.
 *
 * Threads: immutable after creation; counted. The functions are thread-safe. */
#ifndef TPJ_EXEC_PROGRAM_H
#define TPJ_EXEC_PROGRAM_H

#include <stdbool.h>

#include "tpj/program.h"

struct tpj_program {
    int references; /* atomic */
    tpj_client *client;
    tpj_executable *executable;
    tpj_lowered *lowered;
    int n_inputs;   /* of the graph */
    int n_outputs;  /* of the executable: results that are not none, then index checks */
    size_t n_bytes; /* estimate of host memory held, for the cache's bound */
    const char *op; /* the last node's op; static; NULL for a graph without nodes */
    char *file;     /* the user's line at the first call, NULL where unknown */
    int line;
};

/* The number's host bytes in a dtype, left-aligned, zeros behind them. Never a half or float8: the lowering takes f32 and
 * rounds in the program. */
void tpj_number_encode(const tpj_number *number, tpj_dtype dtype, uint64_t out_bits[2]);
/* RuntimeError, with the op, unless the number (and the one it is compared with) is what the program was made for. */
tpj_status *tpj_requirement_check(const tpj_requirement *requirement, const tpj_number *number,
                                  const tpj_number *other) TPJ_MUST_USE;
/* Whether the program serves these numbers, right or wrong; false: another one has to. */
bool tpj_requirement_fits(const tpj_requirement *requirement, const tpj_number *number, const tpj_number *other);
/* A random state on the device, as the program's parameter wants it. */
tpj_status *tpj_random_state_create(tpj_client *client, int device, const uint64_t random[2],
                                    tpj_buffer **out_buffer) TPJ_MUST_USE;

/* Waits for the result of a check; its error, with the op and the user's line, when it found something wrong.
 * `file`, `line`: of this launch; NULL: the program's first is named. */
tpj_status *tpj_program_check(const tpj_program *program, int check, tpj_buffer *result, const char *file,
                              int line) TPJ_MUST_USE;
/* "add.Tensor(f32[3], number) (first called at train.py:17): " before an error of what the program made. NULL program: as it is. */
tpj_status *tpj_program_annotate(tpj_status *status, const tpj_program *program) TPJ_MUST_USE;

typedef struct tpj_compile_counts {
    int64_t programs;    /* made: compiled, or loaded */
    int64_t loaded;      /* of these: kept from an earlier process */
    int64_t nanoseconds; /* that making them took */
} tpj_compile_counts;
void tpj_compile_counts_get(tpj_compile_counts *out_counts);
void tpj_compile_counts_reset(void);

#endif
