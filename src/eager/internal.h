/* What the files of src/eager share. */
#ifndef TPJ_EAGER_INTERNAL_H
#define TPJ_EAGER_INTERNAL_H

#include <limits.h>

#include "base/lock.h"
#include "base/text.h"
#include "cache/signatures.h"
#include "eager/backlog.h"
#include "eager/eager.h"
#include "eager/window.h"
#include "exec/program.h"

enum { INLINE_DIMS = 6, N_SCALARS = 512, MANY_CHECKS = 256, ALL_CHECKS = INT_MAX, MOST_DEVICES = 1024 };

struct tpj_storage {
    tpj_storage *previous, *next; /* live storages of the device */
    int device;
    int base_rank;
    tpj_dtype base_dtype; /* TPJ_N_DTYPES: the base shape is not decided yet */
    int64_t *base_dims;   /* inline_dims, or malloc'ed above INLINE_DIMS */
    int64_t inline_dims[INLINE_DIMS];
    tpj_buffer *buffer;  /* NULL: never written; reads as zeros */
    tpj_program *origin; /* the program that made the buffer, for errors; may be NULL */
    size_t n_bytes;
    uintptr_t address;
    uint64_t window;        /* its slot is in the device's window when that has this number */
    int slot;               /* there */
    uint64_t written_at;    /* the device's call that wrote it last, counted in fused mode; 0: none */
    tpj_code failed;        /* the call that was to write it failed, so reading it does; TPJ_OK: no */
    char *failure;          /* its message */
    int n_queued, n_writes; /* how often calls that wait name it; how many of them write it */
    bool reported;          /* the buffer holds an error of the device, and somebody has been told */
    bool destroyed;         /* by its owner; it lives on for the calls that wait */
};

/* A host number that is on the device, so that `x + 1` sends nothing after its first time. Direct-mapped. */
typedef struct cached_scalar {
    tpj_dtype dtype;
    uint64_t bits[2];
    tpj_buffer *buffer;
} cached_scalar;

/* Whose a check of a window is. */
typedef struct tpj_check_origin {
    tpj_program *program; /* the call's; retained */
    int first;            /* the number of its first check in the window */
    const char *file;     /* kept for the life of the process; NULL: not known */
    int line;
} tpj_check_origin;

/* The checks of a launch that were not seen to be in order when it returned. */
typedef struct tpj_pending_check {
    tpj_checks checks;
    tpj_program *program; /* retained */
    const char *file;     /* where it was called, kept for the life of the process; NULL: not known */
    int line;
    tpj_check_origin *origins; /* of a window: calls with checks, in their order; owned */
    int n_origins;
} tpj_pending_check;

/* A launch that runs though nobody holds its results (unfinished.c). */
typedef struct tpj_unfinished_launch {
    tpj_completion *completion;
    tpj_program *program; /* retained, for its errors */
} tpj_unfinished_launch;

typedef struct tpj_unfinished {
    tpj_lock lock;
    tpj_unfinished_launch *launches;
    int n, capacity;
} tpj_unfinished;

/* One device. Its lock is the order of launches: it is held across Execute, which the lock rule otherwise forbids, because
 * two launches that read and donate the same buffer must reach the plugin in the order in which they took it. */
typedef struct tpj_device {
    tpj_lock lock;
    int ordinal;
    int64_t n_bytes; /* of its memory; INT64_MAX where that is no limit */
    tpj_storage *live;
    tpj_memory memory;
    cached_scalar scalars[N_SCALARS];
    tpj_pending_check *checks; /* oldest first */
    int n_checks, checks_capacity;
    tpj_report *report;      /* of an earlier launch, for the next one; may be NULL */
    struct file_name *files; /* see tpj_eager_called_at */
    tpj_window window;       /* fused mode */
    tpj_backlog backlog;
    tpj_status *failure; /* of the first call that waited and failed since the last synchronisation */
    tpj_unfinished unfinished;
} tpj_device;

/* The device's state; an error when the runtime cannot start or the ordinal does not exist. */
tpj_status *tpj_device_get(int ordinal, tpj_device **out_device) TPJ_MUST_USE;
/* The same without starting anything; NULL when there is none. */
tpj_device *tpj_device_peek(int ordinal);

/* With the device's lock held. */
tpj_storage *tpj_storage_create_locked(tpj_device *device, size_t n_bytes);
tpj_status *tpj_storage_define_base(tpj_storage *storage, tpj_dtype dtype, int rank, const int64_t *dims) TPJ_MUST_USE;
/* Replaces the contents; takes the buffer, retains the origin. */
void tpj_storage_set_buffer(tpj_storage *storage, tpj_buffer *buffer, tpj_program *origin);
/* Borrowed; zeros of the given type are made when it was never written. */
tpj_status *tpj_storage_materialize(tpj_storage *storage, const tpj_type *type, tpj_buffer **out_buffer) TPJ_MUST_USE;

/* A call that waited does not name it any more. */
void tpj_storage_unqueue_locked(tpj_storage *storage);
/* The launch itself: inputs, Execute, results into the storages, which exist. `waited`, `file`, `line`: of a call from the
 * backlog, false and NULL otherwise. */
tpj_status *tpj_eager_launch_locked(tpj_device *device, tpj_program *program, const tpj_operand *operands,
                                    int n_operands, const uint64_t random[2], tpj_storage *const *storages, bool waited,
                                    const char *file, int line) TPJ_MUST_USE;
/* Contents that will not come: a reader gets a copy of the error. NULL: they are there. */
void tpj_storage_fail(tpj_storage *storage, const tpj_status *status);
tpj_status *tpj_storage_failure(const tpj_storage *storage) TPJ_MUST_USE;
void tpj_device_count_allocation(tpj_device *device, size_t n_bytes);
void tpj_device_count_free(tpj_device *device, size_t n_bytes);
/* A storage for each new result of the program, its base declared; on error those that were made are the caller's. */
tpj_status *tpj_device_create_results(tpj_device *device, const tpj_program *program,
                                      tpj_storage **out_storages) TPJ_MUST_USE;

/* Numbers that left the cache of numbers and may be inputs of a launch that is being prepared. */
typedef struct tpj_displaced {
    tpj_buffer **buffers;
    int n, capacity;
} tpj_displaced;
/* The number on the device, borrowed until the launch is over. */
tpj_status *tpj_device_number(tpj_device *device, const tpj_number *number, tpj_dtype dtype, tpj_displaced *displaced,
                              tpj_buffer **out_buffer) TPJ_MUST_USE;
void tpj_displaced_release(tpj_displaced *displaced); /* after the launch */
tpj_status *tpj_check_requirements(const tpj_program *program, const tpj_operand *operands) TPJ_MUST_USE;

/* ---- fused mode (fused.c, flush.c) ---- */
typedef enum tpj_cut {
    TPJ_CUT_READ, /* a read, a synchronisation, an event, another mode */
    TPJ_CUT_REPEAT,
    TPJ_CUT_OPS,
    TPJ_CUT_BYTES,
    TPJ_N_CUTS
} tpj_cut;
/* Records a call in place of a launch, and flushes the window where it ends here. As tpj_eager_run, whose lock is held. */
tpj_status *tpj_fused_run(tpj_device *device, tpj_program *program, const tpj_operand *operands, int n_operands,
                          const uint64_t random[2], tpj_storage **out_storages) TPJ_MUST_USE;
/* Launches what the window holds, its first n_calls calls. Lock held. An error is that of the first call that failed; the
 * others have run. */
tpj_status *tpj_window_flush(tpj_device *device, tpj_cut why, int n_calls) TPJ_MUST_USE;
/* Launches the window where a recorded call is still to write the storage. Lock held. */
tpj_status *tpj_window_settle(tpj_device *device, const tpj_storage *storage) TPJ_MUST_USE;

/* The program of a window, and what is known of it. */
typedef struct tpj_fused_call {
    const char *op, *file; /* static; kept for the life of the process, or the program's */
    int line;
} tpj_fused_call;
typedef struct tpj_fused_program {
    struct tpj_fused_program *previous, *next; /* of all, in the order in which they were made */
    tpj_program *program;
    double seconds; /* that making it took */
    int64_t n_hits, n_cuts[TPJ_N_CUTS];
    int n_calls;
    tpj_fused_call calls[];
} tpj_fused_program;
/* NULL: out of memory. Retains the program. */
tpj_fused_program *tpj_fused_program_create(tpj_program *program, double seconds, tpj_cut why,
                                            const tpj_recorded_call *calls, int n_calls);

/* In the cache of programs (launch.c), whose lock guards the list as well. */
tpj_program *tpj_fused_find(const uint64_t *key, int n_words, tpj_cut why);                           /* retained */
tpj_status *tpj_fused_insert(const uint64_t *key, int n_words, tpj_fused_program *made) TPJ_MUST_USE; /* takes it */
void tpj_fused_program_link(tpj_fused_program *made);
void tpj_fused_program_drop(void *made); /* takes it out of the list */
void tpj_fused_report(tpj_text *text);
void tpj_count_launch(void);

/* Adds to an error that memory is out how much was asked for (-1: the plugin's message says it) and who holds how much;
 * other errors are left alone. Takes and gives the status. Lock not held. */
tpj_status *tpj_memory_explain(tpj_status *status, int device, int64_t n_asked) TPJ_MUST_USE;

/* Waits for the device's pending checks, at most the oldest `most` of them, and reports the first that failed. No lock held. */
tpj_status *tpj_device_take_checks(tpj_device *device, int most) TPJ_MUST_USE;
/* For a launch that is about to be made; lock held. */
tpj_status *tpj_device_take_report(tpj_device *device, int n_checks, tpj_report **out_report) TPJ_MUST_USE;
tpj_status *tpj_device_reserve_check(tpj_device *device) TPJ_MUST_USE; /* room for one more that is pending */
/* After it: takes the checks and the origins, retains the program, unless all checks have been made in the calling thread
 * and found nothing. False: so they have. Lock held, room reserved. */
void tpj_check_origins_release(const tpj_pending_check *pending);
bool tpj_device_keep_checks(tpj_device *device, const tpj_pending_check *pending);
/* A buffer that a launch of the program made is about to be released: from any thread, device locked or not. */
void tpj_unfinished_add(tpj_unfinished *list, tpj_buffer *buffer, tpj_program *program);
/* What runs now, malloc'ed and for tpj_unfinished_list_destroy. */
tpj_status *tpj_unfinished_list(tpj_unfinished *list, tpj_unfinished_launch **out_launches, int *out_n) TPJ_MUST_USE;
void tpj_unfinished_list_destroy(tpj_unfinished_launch *launches, int n);
void tpj_unfinished_forget(tpj_unfinished *list); /* those that are over */
/* Retained buffers of all live storages, without those whose error has been reported, malloc'ed; `out_origins`, which may be
 * NULL: what made each, retained, or NULL. Lock not held. */
tpj_status *tpj_device_live_buffers(tpj_device *device, tpj_buffer ***out_buffers, tpj_program ***out_origins,
                                    int *out_n) TPJ_MUST_USE;
/* An error of the device has been reported: so it is for all that hold an error by now. Lock not held. */
void tpj_device_mark_reported(tpj_device *device);

#endif
