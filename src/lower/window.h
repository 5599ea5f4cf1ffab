/* Several calls as one module. Each call is a graph as tpj_lower_graph takes it; what it reads and writes are slots, the
 * buffers of the window, and a later call sees what an earlier one left in a slot. Values that die inside never leave. */
#ifndef TPJ_LOWER_WINDOW_H
#define TPJ_LOWER_WINDOW_H

#include "tpj/lower.h"

typedef struct tpj_window_call {
    const tpj_graph *graph;
    const tpj_lower_options *options; /* NULL: the defaults */
    const int *inputs; /* the slot of each BUFFER input, by the graph's numbers; other inputs have no meaning */
    const int
        *results; /* the slot that each new result (target -1) goes into, by the graph's outputs; others: not read */
    int first_operand; /* SCALAR input i is the window's number first_operand + i */
    int random;        /* which of the window's random states it draws from; -1: it draws nothing */
    const char *file;  /* the user's line; NULL: what the graph says */
    int line;
} tpj_window_call;

typedef struct tpj_window_slot {
    bool live;   /* read after the window: what it holds then is a result of the module, if the window wrote it */
    bool donate; /* what it held before may be overwritten though nothing takes its place */
} tpj_window_slot;

/* Parameters: `input` is a slot (BUFFER), a number of the window (SCALAR), or 0 (RANDOM: all random states, u64[n, 2]).
 * Results: `target` is the slot; one for each slot that is live and written, ascending. Checks are those of the calls, in
 * their order. Floating offsets and requirements are left to the calls. `for_cpu`: see window.c on loops. On error *out_failed is the call that failed, or
 * -1. */
tpj_status *tpj_lower_window(const tpj_window_call *calls, int n_calls, const tpj_window_slot *slots, int n_slots,
                             int n_random, bool for_cpu, tpj_lowered **out_lowered, int *out_failed) TPJ_MUST_USE;

#endif
