/* What the layers above know of a program beside tpj/program.h: its parts, how numbers become operands, its checks.
 *
 * Threads: immutable after creation; counted. The functions are thread-safe. */
#ifndef TPJ_EXEC_PROGRAM_H
#define TPJ_EXEC_PROGRAM_H

#include <stdbool.h>

#include "lower/window.h"
#include "pjrt/report.h"
#include "tpj/program.h"

/* Of a program without an executable. */
typedef enum tpj_program_state { TPJ_PROGRAM_IDLE, TPJ_PROGRAM_COMPILING, TPJ_PROGRAM_FAILED } tpj_program_state;

struct tpj_program {
    int references; /* atomic */
    uint64_t id;    /* of no other program of the process */
    tpj_client *client;
    tpj_executable *executable; /* atomic; NULL: prepared, not compiled yet */
    int state;                  /* atomic, a tpj_program_state */
    tpj_status *failure;        /* why the compile threads failed */
    tpj_lowered *lowered;
    tpj_graph *graph;          /* of a prepared program, to be lowered again among others; NULL otherwise */
    tpj_lower_options options; /* of a prepared program; owns what it points to */
    int n_inputs;              /* of the graph */
    int n_outputs;             /* of the executable: results that are not none, then the checks where they are one */
    size_t n_bytes;            /* estimate of host memory held, for the cache's bound */
    const char *op;            /* the last node's op; static; NULL for a graph without nodes */
    char *file;                /* the user's line at the first call, NULL where unknown */
    int line;
};

/* In two steps: what a call gives and asks for is known when it is lowered, which takes microseconds; the executable may
 * follow later, or never where the call becomes part of a window. Takes the graph, also on error. */
tpj_status *tpj_program_prepare(tpj_client *client, tpj_graph *graph, const tpj_lower_options *options,
                                tpj_program **out_program) TPJ_MUST_USE;
/* Makes the executable if there is none; of two threads that do so at once, one throws its own away. */
tpj_status *tpj_program_load(tpj_program *program) TPJ_MUST_USE;
static inline bool tpj_program_is_loaded(const tpj_program *program) {
    return __atomic_load_n(&program->executable, __ATOMIC_ACQUIRE) != NULL;
}
/* The same, left to the compile threads; where there are none it is done at once. Nothing happens where it has begun, or is
 * done. `compiled` is called once, on the thread that compiled, whether that went well or not. Errors: those of
 * tpj_program_load where there are no threads. */
tpj_status *tpj_program_load_beside(tpj_program *program, void (*compiled)(tpj_program *program)) TPJ_MUST_USE;
static inline tpj_program_state tpj_program_state_of(const tpj_program *program) {
    return (tpj_program_state)__atomic_load_n(&program->state, __ATOMIC_ACQUIRE);
}
/* Waits for the compile threads. Why they failed; TPJ_INTERRUPTED. */
tpj_status *tpj_program_await(const tpj_program *program) TPJ_MUST_USE;
/* What its new results take. */
int64_t tpj_program_result_bytes(const tpj_program *program);
/* Whether programs get the form of CPU plugins: on such a client, unless the settings ask for a TPU's. */
bool tpj_program_is_for_cpu(const tpj_client *client);

/* Lowers and compiles a window; *out_failed as in tpj_lower_window. */
tpj_status *tpj_program_create_window(tpj_client *client, const tpj_window_call *calls, int n_calls,
                                      const tpj_window_slot *slots, int n_slots, int n_random,
                                      tpj_program **out_program, int *out_failed) TPJ_MUST_USE;

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

/* The checks of one launch: its last result, or its report. */
typedef struct tpj_checks {
    tpj_buffer *result; /* NULL: see report */
    tpj_report *report;
} tpj_checks;
/* Waits for the checks. The number of the first that found something wrong and the element that is furthest outside; -1:
 * none did. */
tpj_status *tpj_program_read_checks(const tpj_program *program, const tpj_checks *checks, int *out_check,
                                    int64_t *out_element) TPJ_MUST_USE;
/* Its error, with the op and the user's line. `file`, `line`: of this launch; NULL: the program's first is named. */
tpj_status *tpj_program_check_error(const tpj_program *program, int check, int64_t element, const char *file,
                                    int line) TPJ_MUST_USE;
void tpj_checks_release(tpj_checks *checks);
/* "add.Tensor(f32[3], number) (first called at train.py:17): " before an error of what the program made. NULL program: as it is. */
tpj_status *tpj_program_annotate(tpj_status *status, const tpj_program *program) TPJ_MUST_USE;

typedef struct tpj_compile_counts {
    int64_t programs;    /* made: compiled, or loaded */
    int64_t loaded;      /* of these: kept from an earlier process */
    int64_t nanoseconds; /* that making them took, on all threads together */
} tpj_compile_counts;
void tpj_compile_counts_get(tpj_compile_counts *out_counts);
void tpj_compile_counts_reset(void);

#endif
