/* The window of a device in fused mode: calls that were recorded and not launched yet, and the storages that they meet in.
 *
 * A slot stands for one storage, numbered by its first appearance; a storage knows its slot as long as its `window` is the
 * device's. What a call looks like from outside (its program's number and its slots) is written to the key as it arrives.
 * A storage that is destroyed, or whose contents are replaced, leaves its slot, which keeps the contents that recorded calls
 * still have to read.
 *
 * Threads: all of it under the device's lock. */
#ifndef TPJ_EAGER_WINDOW_H
#define TPJ_EAGER_WINDOW_H

#include "eager/eager.h"
#include "eager/repeat.h"
#include "exec/program.h"

struct tpj_device;

typedef struct tpj_slot {
    tpj_storage *storage; /* NULL: it left */
    tpj_buffer *buffer;   /* without a storage: what it held when it left, owned; NULL: nothing */
    size_t n_bytes;
    bool written; /* by a recorded call */
    bool counted; /* `buffer` is in the device's memory statistics on the window's account */
} tpj_slot;

typedef struct tpj_recorded_call {
    tpj_program *program; /* retained */
    uint64_t random[2];
    const char *file; /* kept for the life of the process; NULL: not asked for */
    int line;
    int first_operand, first_result, first_slot, first_word; /* what it added begins there */
} tpj_recorded_call;

typedef struct tpj_recorded_operand {
    int slot; /* -1: the number */
    tpj_number number;
} tpj_recorded_operand;

/* Numbers of runs of calls from the window's beginning that programs were made for. */
typedef struct tpj_paths {
    uint64_t *table; /* 0: free */
    size_t capacity, n;
} tpj_paths;

typedef struct tpj_window {
    uint64_t id; /* of what storages call theirs; changes with every flush */
    tpj_recorded_call *calls;
    tpj_slot *slots;
    tpj_recorded_operand *operands;
    int *results;  /* slots of new results; -1 for targets and for none */
    uint64_t *key; /* words of the calls */
    int n_calls, n_slots, n_operands, n_results, n_words;
    int capacity_calls, capacity_slots, capacity_operands, capacity_results, capacity_words;
    size_t n_bytes;    /* of results that are not written yet, and of contents that only the window holds */
    uint64_t n_called; /* calls ever recorded: storages say when they were last written */
    uint64_t path;     /* of the calls so far */
    bool novel;        /* no program was made for a window that begins so */
    tpj_paths paths;
    tpj_repeat *repeat; /* made at the first call */
} tpj_window;

/* Whether a recorded call is still to write the storage. */
bool tpj_window_is_pending(const struct tpj_device *device, const tpj_storage *storage);
/* Appends a call, whose results get storages. Nothing is recorded on error. *out_signature: what the call looks like, for
 * tpj_repeat_add. */
tpj_status *tpj_window_record(struct tpj_device *device, tpj_program *program, const tpj_operand *operands,
                              int n_operands, const uint64_t random[2], tpj_storage **out_storages,
                              uint64_t *out_signature) TPJ_MUST_USE;
/* The storage leaves its slot, if it has one; its contents (the buffer) stay there. True: the window has taken them, and
 * counts them in the statistics. */
bool tpj_window_leave(struct tpj_device *device, tpj_storage *storage);
/* `to`, which has left its own slot, takes the place of `from`. */
void tpj_window_replace(struct tpj_device *device, tpj_storage *from, tpj_storage *to);
/* Forgets all calls. */
void tpj_window_clear(struct tpj_device *device);
/* Takes the first n_calls calls away, fewer than all; those behind them are recorded anew. What the slots of the first calls
 * hold by then is in the storages, or in the slots' buffers. `rest`: room for those that stay, so that this cannot fail. */
typedef struct tpj_window_rest tpj_window_rest;
void tpj_window_drop(struct tpj_device *device, int n_calls, tpj_window_rest *rest);
tpj_window_rest *tpj_window_prepare_rest(const tpj_window *window); /* NULL: out of memory */
void tpj_window_free_rest(tpj_window_rest *rest);

/* Where the window's latest call of the program was called from; false: there is no such call. */
bool tpj_window_say_line(tpj_window *window, const tpj_program *program, const char *file, int line);

/* The runs of calls that begin the window, up to its n-th call, are known from now on. */
void tpj_window_know_paths(tpj_window *window, int n_calls);

#endif
