#define _POSIX_C_SOURCE 200809L /* strdup */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "eager/internal.h"
#include "lower/view.h"
#include "pjrt/plan.h"

/* ---- addresses ----
 * A storage's address only names it: PyTorch compares data pointers and adds offsets to them, and nothing on the host may
 * read them. They are handed out rising, above every address that x86-64 and AArch64 can map, so that a stray access faults. */
static uintptr_t take_address(size_t n_bytes) {
    enum { ALIGNMENT = 64 };
    static _Atomic uintptr_t next = (uintptr_t)1 << 56;
    size_t span = (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return n_bytes == 0 ? 0 : atomic_fetch_add_explicit(&next, span, memory_order_relaxed);
}

/* ---- memory statistics; with the device's lock held ---- */
void tpj_device_count_allocation(tpj_device *device, size_t n_bytes) {
    tpj_memory *memory = &device->memory;
    memory->allocated += (int64_t)n_bytes;
    memory->allocated_total += (int64_t)n_bytes;
    memory->n_allocated++;
    memory->live++;
    if (memory->allocated > memory->peak) memory->peak = memory->allocated;
    if (memory->live > memory->peak_live) memory->peak_live = memory->live;
}

void tpj_device_count_free(tpj_device *device, size_t n_bytes) {
    tpj_memory *memory = &device->memory;
    memory->allocated -= (int64_t)n_bytes;
    memory->freed_total += (int64_t)n_bytes;
    memory->n_freed++;
    memory->live--;
}

void tpj_memory_get(int ordinal, tpj_memory *out_memory) {
    tpj_device *device = tpj_device_peek(ordinal);
    *out_memory = (tpj_memory){0};
    if (device == NULL) return;
    tpj_lock_acquire(&device->lock);
    *out_memory = device->memory;
    tpj_lock_release(&device->lock);
}

void tpj_memory_reset_peak(int ordinal) {
    tpj_device *device = tpj_device_peek(ordinal);
    if (device == NULL) return;
    tpj_lock_acquire(&device->lock);
    device->memory.peak = device->memory.allocated;
    device->memory.peak_live = device->memory.live;
    tpj_lock_release(&device->lock);
}

void tpj_memory_reset_accumulated(int ordinal) {
    tpj_device *device = tpj_device_peek(ordinal);
    if (device == NULL) return;
    tpj_lock_acquire(&device->lock);
    device->memory.n_allocated = device->memory.live;
    device->memory.n_freed = 0;
    device->memory.allocated_total = device->memory.allocated;
    device->memory.freed_total = 0;
    tpj_lock_release(&device->lock);
}

/* ---- life ---- */
tpj_storage *tpj_storage_create_locked(tpj_device *device, size_t n_bytes) {
    tpj_storage *storage = malloc(sizeof *storage);
    if (storage == NULL) return NULL;
    storage->previous = NULL;
    storage->next = device->live;
    storage->device = device->ordinal;
    storage->base_rank = 0;
    storage->base_dtype = TPJ_N_DTYPES;
    storage->base_dims = storage->inline_dims;
    storage->buffer = NULL;
    storage->origin = NULL;
    storage->n_bytes = n_bytes;
    storage->address = take_address(n_bytes);
    storage->window = storage->written_at = 0;
    storage->slot = 0;
    storage->failed = TPJ_OK;
    storage->failure = NULL;
    storage->n_queued = storage->n_writes = 0;
    storage->destroyed = storage->reported = false;
    if (device->live != NULL) device->live->previous = storage;
    device->live = storage;
    tpj_device_count_allocation(device, n_bytes);
    return storage;
}

tpj_status *tpj_storage_create(int ordinal, size_t n_bytes, tpj_storage **out_storage) {
    tpj_device *device;
    TPJ_TRY(tpj_device_get(ordinal, &device));
    tpj_lock_acquire(&device->lock);
    *out_storage = tpj_storage_create_locked(device, n_bytes);
    tpj_lock_release(&device->lock);
    if (*out_storage == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    return NULL;
}

static void free_storage(tpj_storage *storage) {
    if (storage->buffer != NULL && storage->origin != NULL)
        tpj_unfinished_add(&tpj_device_peek(storage->device)->unfinished, storage->buffer, storage->origin);
    tpj_buffer_release(storage->buffer);
    tpj_program_release(storage->origin);
    if (storage->base_dims != storage->inline_dims) free(storage->base_dims);
    free(storage->failure);
    free(storage);
}

void tpj_storage_unqueue_locked(tpj_storage *storage) {
    if (--storage->n_queued == 0 && storage->destroyed) free_storage(storage);
}

void tpj_storage_destroy(tpj_storage *storage) {
    /* in a forked child the buffers belong to the parent's client: they are left alone */
    if (storage == NULL || tpj_runtime_in_bad_fork()) return;
    tpj_device *device = tpj_device_peek(storage->device);
    tpj_lock_acquire(&device->lock);
    if (storage->previous != NULL)
        storage->previous->next = storage->next;
    else
        device->live = storage->next;
    if (storage->next != NULL) storage->next->previous = storage->previous;
    if (!tpj_window_leave(device, storage)) tpj_device_count_free(device, storage->n_bytes);
    bool queued = storage->n_queued > 0;
    storage->destroyed = true;
    tpj_lock_release(&device->lock);
    if (!queued) free_storage(storage); /* else the last call that names it does */
}

void *tpj_storage_address(const tpj_storage *storage) { return (void *)storage->address; }

tpj_storage *tpj_storage_find(const void *address) {
    uintptr_t wanted = (uintptr_t)address;
    tpj_device *device;
    for (int i = 0; (device = tpj_device_peek(i)) != NULL; i++) {
        tpj_lock_acquire(&device->lock);
        tpj_storage *storage = device->live;
        while (storage != NULL && (wanted < storage->address || wanted - storage->address >= storage->n_bytes))
            storage = storage->next;
        tpj_lock_release(&device->lock);
        if (storage != NULL) return storage;
    }
    return NULL;
}
size_t tpj_storage_bytes(const tpj_storage *storage) { return storage->n_bytes; }
int tpj_storage_device(const tpj_storage *storage) { return storage->device; }

/* ---- base shape ---- */
tpj_status *tpj_storage_define_base(tpj_storage *storage, tpj_dtype dtype, int rank, const int64_t *dims) {
    if (rank > INLINE_DIMS && rank > storage->base_rank) {
        int64_t *grown = malloc(sizeof *grown * (size_t)rank);
        if (grown == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
        if (storage->base_dims != storage->inline_dims) free(storage->base_dims);
        storage->base_dims = grown;
    }
    storage->base_dtype = dtype;
    storage->base_rank = rank;
    for (int i = 0; i < rank; i++) storage->base_dims[i] = dims[i];
    return NULL;
}

static int64_t bytes_of(tpj_dtype dtype, int rank, const int64_t *dims) {
    int64_t n = (int64_t)tpj_dtype_bytes(dtype);
    for (int i = 0; i < rank; i++) n *= dims[i];
    return n;
}

void tpj_storage_set_base(tpj_storage *storage, tpj_dtype dtype, int rank, const int64_t *dims) {
    if (storage->buffer != NULL || storage->n_writes > 0 || storage->window != 0)
        return; /* it has one, which calls have been told */
    if (bytes_of(dtype, rank, dims) != (int64_t)storage->n_bytes) return;
    tpj_status_destroy(tpj_storage_define_base(storage, dtype, rank, dims)); /* without it, the base is flat bytes */
}

bool tpj_storage_is_plain(const tpj_storage *storage, tpj_dtype dtype, int rank, const int64_t *sizes) {
    if (storage->base_dtype == TPJ_N_DTYPES) return bytes_of(dtype, rank, sizes) == (int64_t)storage->n_bytes;
    if (storage->base_dtype != dtype || storage->base_rank != rank) return false;
    for (int i = 0; i < rank; i++)
        if (storage->base_dims[i] != sizes[i]) return false;
    return true;
}

int tpj_storage_base(const tpj_storage *storage, tpj_dtype *out_dtype, int64_t *out_dims) {
    if (storage->base_dtype == TPJ_N_DTYPES) {
        *out_dtype = TPJ_U8;
        out_dims[0] = (int64_t)storage->n_bytes;
        return 1;
    }
    *out_dtype = storage->base_dtype;
    memcpy(out_dims, storage->base_dims, sizeof *out_dims * (size_t)storage->base_rank);
    return storage->base_rank;
}

/* ---- contents ---- */
void tpj_storage_set_buffer(tpj_storage *storage, tpj_buffer *buffer, tpj_program *origin) {
    tpj_buffer *old = storage->buffer;
    tpj_program *old_origin = storage->origin;
    if (origin != NULL) tpj_program_retain(origin);
    storage->buffer = buffer;
    storage->origin = origin;
    storage->failed = TPJ_OK;
    storage->reported = false;
    tpj_buffer_release(old);
    tpj_program_release(old_origin);
}

void tpj_storage_fail(tpj_storage *storage, const tpj_status *status) {
    tpj_storage_set_buffer(storage, NULL, NULL);
    free(storage->failure);
    storage->failed = tpj_status_code(status);
    storage->failure = strdup(tpj_status_message(status)); /* without memory it says less */
}

tpj_status *tpj_storage_failure(const tpj_storage *storage) {
    if (storage->failed == TPJ_OK) return NULL;
    return tpj_status_create(storage->failed, "this value was never made: %s",
                             storage->failure != NULL ? storage->failure : "out of host memory");
}

tpj_status *tpj_storage_materialize(tpj_storage *storage, const tpj_type *type, tpj_buffer **out_buffer) {
    if (storage->buffer == NULL) {
        size_t n_bytes = (size_t)bytes_of(type->dtype, type->rank, type->dims);
        /* a planning device looks at none, and there may be more than the host has */
        bool plans = tpj_client_plans(tpj_runtime_client());
        void *zeros = plans ? NULL : calloc(n_bytes > 0 ? n_bytes : 1, 1);
        if (zeros == NULL && !plans) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory for %zu bytes", n_bytes);
        tpj_buffer *made = NULL;
        tpj_status *status = tpj_buffer_from_host(tpj_runtime_client(), storage->device, type->dtype, type->rank,
                                                  type->dims, zeros, &made);
        free(zeros);
        TPJ_TRY(status);
        tpj_storage_set_buffer(storage, made, NULL);
        TPJ_TRY(tpj_storage_define_base(storage, type->dtype, type->rank, type->dims));
    }
    *out_buffer = storage->buffer;
    return NULL;
}

/* Contents that come from outside: recorded calls keep those that they were called with. */
static void replace_contents(tpj_device *device, tpj_storage *storage, tpj_buffer *buffer, tpj_program *origin) {
    if (tpj_window_leave(device, storage)) tpj_device_count_allocation(device, storage->n_bytes);
    tpj_storage_set_buffer(storage, buffer, origin);
}

tpj_status *tpj_storage_from_host(tpj_storage *storage, tpj_dtype dtype, int rank, const int64_t *dims,
                                  const void *data) {
    tpj_device *device;
    tpj_buffer *buffer = NULL;
    TPJ_TRY(tpj_device_get(storage->device, &device));
    if (bytes_of(dtype, rank, dims) != (int64_t)storage->n_bytes)
        TPJ_ERROR(TPJ_INTERNAL, "%lld bytes do not fill a storage of %zu", (long long)bytes_of(dtype, rank, dims),
                  storage->n_bytes);
    TPJ_TRY(tpj_backlog_settle_storage(device, storage));
    TPJ_TRY(tpj_memory_explain(
        tpj_buffer_from_host(tpj_runtime_client(), storage->device, dtype, rank, dims, data, &buffer), storage->device,
        (int64_t)storage->n_bytes));
    tpj_lock_acquire(&device->lock);
    tpj_status *status = tpj_storage_define_base(storage, dtype, rank, dims);
    if (status == NULL)
        replace_contents(device, storage, buffer, NULL);
    else
        tpj_buffer_release(buffer);
    tpj_lock_release(&device->lock);
    return status;
}

/* Whoever reads a result of the call that failed has been told, so that a synchronisation need not. */
static void mark_told_locked(tpj_device *device, const tpj_storage *storage) {
    if (device->failure == NULL || storage->failure == NULL ||
        strcmp(tpj_status_message(device->failure), storage->failure) != 0)
        return;
    tpj_status_destroy(device->failure);
    device->failure = NULL;
}

tpj_status *tpj_storage_to_host(tpj_storage *storage, size_t offset, void *data, size_t n_bytes) {
    tpj_device *device;
    TPJ_TRY(tpj_device_get(storage->device, &device));
    TPJ_TRY(tpj_backlog_settle_writes(device, storage));
    if (n_bytes == 0) return tpj_device_take_checks(device, ALL_CHECKS);
    tpj_lock_acquire(&device->lock);
    tpj_status *status = tpj_window_settle(device, storage);
    if (status == NULL) status = tpj_storage_failure(storage);
    if (storage->failed != TPJ_OK) mark_told_locked(device, storage);
    tpj_buffer *buffer = storage->buffer;
    tpj_program *origin = storage->origin;
    if (buffer != NULL) tpj_buffer_retain(buffer);
    if (origin != NULL) tpj_program_retain(origin);
    tpj_lock_release(&device->lock);
    if (status == NULL && buffer == NULL)
        memset(data, 0, n_bytes);
    else if (status == NULL)
        status = tpj_program_annotate(tpj_buffer_to_host_part(buffer, offset, data, n_bytes), origin);
    if (status != NULL && tpj_status_code(status) != TPJ_INTERRUPTED) {
        status = tpj_memory_explain(status, storage->device, -1);
        tpj_device_mark_reported(device);
    }
    tpj_buffer_release(buffer);
    tpj_program_release(origin);
    return status != NULL ? status : tpj_device_take_checks(device, ALL_CHECKS);
}

/* Whether it was ever written, or is to be. */
static bool has_contents(const tpj_storage *storage) {
    tpj_device *device = tpj_device_peek(storage->device);
    tpj_lock_acquire(&device->lock);
    bool any = storage->buffer != NULL || storage->failed != TPJ_OK || storage->n_writes > 0 ||
               tpj_window_is_pending(device, storage);
    tpj_lock_release(&device->lock);
    return any;
}

tpj_status *tpj_storage_copy_bytes(tpj_storage *dst, tpj_storage *src) {
    size_t n = dst->n_bytes < src->n_bytes ? dst->n_bytes : src->n_bytes;
    if (n == 0 || !has_contents(src)) return NULL;
    unsigned char *bytes = calloc(dst->n_bytes, 1);
    if (bytes == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory for %zu bytes", dst->n_bytes);
    tpj_status *status = tpj_storage_to_host(src, 0, bytes, n);
    tpj_dtype dtype = src->base_dtype == TPJ_N_DTYPES ? TPJ_U8 : src->base_dtype;
    if (dst->n_bytes % tpj_dtype_bytes(dtype) != 0) dtype = TPJ_U8;
    int64_t elements = (int64_t)(dst->n_bytes / tpj_dtype_bytes(dtype));
    if (status == NULL) status = tpj_storage_from_host(dst, dtype, 1, &elements, bytes);
    free(bytes);
    return status;
}

tpj_status *tpj_storage_copy_across(tpj_storage *dst, tpj_storage *src) {
    tpj_device *from, *to;
    TPJ_TRY(tpj_device_get(src->device, &from));
    TPJ_TRY(tpj_device_get(dst->device, &to));
    TPJ_TRY(tpj_backlog_settle_writes(from, src));
    TPJ_TRY(tpj_backlog_settle_storage(to, dst));
    tpj_lock_acquire(&from->lock);
    tpj_status *status = tpj_window_settle(from, src);
    if (status == NULL) status = tpj_storage_failure(src);
    tpj_buffer *buffer = status == NULL ? src->buffer : NULL, *copy = NULL;
    tpj_dtype dtype = src->base_dtype;
    int rank = src->base_rank;
    int64_t dims[TPJ_VIEW_MAX_RANK];
    memcpy(dims, src->base_dims, sizeof *dims * (size_t)rank);
    if (buffer != NULL) tpj_buffer_retain(buffer);
    tpj_lock_release(&from->lock);
    if (buffer == NULL) return status;
    status = tpj_buffer_copy_to_device(buffer, dst->device, &copy);
    tpj_buffer_release(buffer);
    TPJ_TRY(status);
    tpj_lock_acquire(&to->lock);
    status = tpj_storage_define_base(dst, dtype, rank, dims);
    if (status == NULL)
        replace_contents(to, dst, copy, NULL);
    else
        tpj_buffer_release(copy);
    tpj_lock_release(&to->lock);
    return status;
}

tpj_status *tpj_storage_adopt(tpj_storage *dst, tpj_storage *src) {
    tpj_device *device = tpj_device_peek(dst->device);
    tpj_status *status = NULL;
    TPJ_TRY_GOTO(tpj_backlog_settle_storage(device, src));
    TPJ_TRY_GOTO(tpj_backlog_settle_storage(device, dst));
    tpj_lock_acquire(&device->lock);
    status = tpj_storage_define_base(dst, src->base_dtype, src->base_rank, src->base_dims);
    if (status == NULL) {
        replace_contents(device, dst, src->buffer, src->origin);
        src->buffer = NULL;
        free(dst->failure);
        dst->failed = src->failed;
        dst->failure = src->failure;
        src->failure = NULL;
        tpj_window_replace(device, src, dst);
    }
    tpj_lock_release(&device->lock);
done:
    tpj_storage_destroy(src);
    return status;
}

tpj_status *tpj_device_live_buffers(tpj_device *device, tpj_buffer ***out_buffers, tpj_program ***out_origins,
                                    int *out_n) {
    *out_n = 0;
    tpj_lock_acquire(&device->lock);
    tpj_status *status = tpj_window_flush(device, TPJ_CUT_READ, device->window.n_calls);
    if (status != NULL) {
        tpj_lock_release(&device->lock);
        return status;
    }
    size_t most = (size_t)device->memory.live + 1;
    tpj_buffer **buffers = malloc(sizeof *buffers * most);
    tpj_program **origins = out_origins != NULL ? malloc(sizeof *origins * most) : NULL;
    bool room = buffers != NULL && (out_origins == NULL || origins != NULL);
    for (tpj_storage *s = device->live; room && s != NULL; s = s->next) {
        if (s->buffer == NULL || s->reported) continue;
        tpj_buffer_retain(s->buffer);
        buffers[*out_n] = s->buffer;
        if (origins != NULL && s->origin != NULL) tpj_program_retain(s->origin);
        if (origins != NULL) origins[*out_n] = s->origin;
        ++*out_n;
    }
    tpj_lock_release(&device->lock);
    if (room) {
        *out_buffers = buffers;
        if (out_origins != NULL) *out_origins = origins;
        return NULL;
    }
    free(buffers);
    free(origins);
    TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
}

void tpj_device_mark_reported(tpj_device *device) {
    tpj_lock_acquire(&device->lock);
    for (tpj_storage *s = device->live; s != NULL; s = s->next) {
        if (s->buffer == NULL || s->reported) continue;
        bool ready = false;
        tpj_status *failed = tpj_buffer_is_ready(s->buffer, &ready);
        if (failed == NULL && ready) failed = tpj_buffer_wait(s->buffer); /* ready, if only with an error */
        s->reported = failed != NULL;
        tpj_status_destroy(failed);
    }
    tpj_lock_release(&device->lock);
}
