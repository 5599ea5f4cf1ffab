/* What the files of src/eager share. */
#ifndef TPJ_EAGER_INTERNAL_H
#define TPJ_EAGER_INTERNAL_H

#include "base/lock.h"
#include "cache/signatures.h"
#include "eager/eager.h"
#include "exec/program.h"

enum { INLINE_DIMS = 6, N_SCALARS = 512, MOST_CHECKS = 256, MOST_DEVICES = 1024 };

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
};

/* A host number that is on the device, so that `x + 1` sends nothing after its first time. Direct-mapped. */
typedef struct cached_scalar {
    tpj_dtype dtype;
    uint64_t bits[2];
    tpj_buffer *buffer;
} cached_scalar;

typedef struct pending_check {
    tpj_buffer *buffer;
    tpj_program *program;
    int check;
    const char *file; /* where it was called, kept for the life of the process; NULL: not known */
    int line;
} pending_check;

/* One device. Its lock is the order of launches: it is held across Execute, which the lock rule otherwise forbids, because
 * two launches that read and donate the same buffer must reach the plugin in the order in which they took it. */
typedef struct tpj_device {
    tpj_lock lock;
    int ordinal;
    tpj_storage *live;
    tpj_memory memory;
    cached_scalar scalars[N_SCALARS];
    pending_check checks[MOST_CHECKS];
    int n_checks;
    struct file_name *files; /* see tpj_eager_called_at */
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

/* Waits for the device's pending checks, the oldest `n` of them, and reports the first that failed. No lock held. */
tpj_status *tpj_device_take_checks(tpj_device *device, int n) TPJ_MUST_USE;
void tpj_device_add_check(tpj_device *device, tpj_buffer *buffer, tpj_program *program,
                          int check); /* lock held; takes both */
/* Retained buffers of all live storages, malloc'ed. Lock not held. */
tpj_status *tpj_device_live_buffers(tpj_device *device, tpj_buffer ***out_buffers, int *out_n) TPJ_MUST_USE;

#endif
