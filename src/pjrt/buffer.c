/* Buffers: host to device, device to host, waiting. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/lock.h"
#include "pjrt/internal.h"

/* ---- element types ---- */
static const struct type_pair {
    int type;
    tpj_dtype dtype;
} type_pairs[] = {
    {PJRT_BUFFER_TYPE_PRED, TPJ_BOOL},
    {PJRT_BUFFER_TYPE_U8, TPJ_U8},
    {PJRT_BUFFER_TYPE_S8, TPJ_I8},
    {PJRT_BUFFER_TYPE_S16, TPJ_I16},
    {PJRT_BUFFER_TYPE_S32, TPJ_I32},
    {PJRT_BUFFER_TYPE_S64, TPJ_I64},
    {PJRT_BUFFER_TYPE_U16, TPJ_U16},
    {PJRT_BUFFER_TYPE_U32, TPJ_U32},
    {PJRT_BUFFER_TYPE_U64, TPJ_U64},
    {PJRT_BUFFER_TYPE_F16, TPJ_F16},
    {PJRT_BUFFER_TYPE_BF16, TPJ_BF16},
    {PJRT_BUFFER_TYPE_F32, TPJ_F32},
    {PJRT_BUFFER_TYPE_F64, TPJ_F64},
    {PJRT_BUFFER_TYPE_C64, TPJ_C64},
    {PJRT_BUFFER_TYPE_C128, TPJ_C128},
    {PJRT_BUFFER_TYPE_F8E4M3FN, TPJ_F8E4M3FN},
    {PJRT_BUFFER_TYPE_F8E5M2, TPJ_F8E5M2},
    {PJRT_BUFFER_TYPE_F8E4M3FNUZ, TPJ_F8E4M3FNUZ},
    {PJRT_BUFFER_TYPE_F8E5M2FNUZ, TPJ_F8E5M2FNUZ},
    {PJRT_BUFFER_TYPE_F8E8M0FNU, TPJ_F8E8M0FNU},
    {PJRT_BUFFER_TYPE_S4, TPJ_I4},
    {PJRT_BUFFER_TYPE_U4, TPJ_U4},
};
enum { N_TYPE_PAIRS = sizeof type_pairs / sizeof *type_pairs };
_Static_assert((int)N_TYPE_PAIRS == (int)TPJ_C32, "every dtype that is not carried has its PJRT type");

static int type_of_dtype(tpj_dtype dtype) {
    dtype = tpj_dtype_carrier(dtype);
    for (int i = 0; i < N_TYPE_PAIRS; i++)
        if (type_pairs[i].dtype == dtype) return type_pairs[i].type;
    return PJRT_BUFFER_TYPE_INVALID;
}

/* 0 for a type that no dtype stands for. */
static size_t type_bytes(int type) {
    for (int i = 0; i < N_TYPE_PAIRS; i++)
        if (type_pairs[i].type == type) return tpj_dtype_bytes(type_pairs[i].dtype);
    return 0;
}

/* On the device these are packed, on the host they take a byte each. */
static bool is_packed(int type) { return type == PJRT_BUFFER_TYPE_S4 || type == PJRT_BUFFER_TYPE_U4; }

/* ---- life ---- */
tpj_buffer *tpj_buffer_wrap(tpj_client *client, int device, pjrt_buffer *handle) {
    tpj_buffer *buffer = malloc(sizeof *buffer);
    if (buffer == NULL) return NULL;
    atomic_init(&buffer->n_references, 1);
    buffer->device = device;
    buffer->client = client;
    buffer->handle = handle;
    atomic_init(&buffer->n_bytes, TPJ_SIZE_UNKNOWN);
    return buffer;
}

static void destroy_handle(const pjrt_api *api, pjrt_buffer *handle) {
    if (handle == NULL || tpj_plugin_is_forked()) return;
    PJRT_ARGS(pjrt_buffer_destroy_args, args, .buffer = handle);
    tpj_pjrt_ignore(PJRT_CALL(api, buffer_destroy, &args));
}

void tpj_buffer_retain(tpj_buffer *buffer) {
    atomic_fetch_add_explicit(&buffer->n_references, 1, memory_order_relaxed);
}

void tpj_buffer_release(tpj_buffer *buffer) {
    if (buffer == NULL) return;
    if (atomic_fetch_sub_explicit(&buffer->n_references, 1, memory_order_acq_rel) != 1) return;
    destroy_handle(buffer->client->api, buffer->handle);
    free(buffer);
}

int tpj_buffer_device(const tpj_buffer *buffer) { return buffer->device; }

/* ---- size ---- */
static tpj_status *read_type(const tpj_buffer *buffer, int *out_type) {
    PJRT_ARGS(pjrt_buffer_element_type_args, args, .buffer = buffer->handle);
    TPJ_TRY(PJRT_CALL(buffer->client->api, buffer_element_type, &args));
    *out_type = args.type;
    return NULL;
}

tpj_status *tpj_buffer_type(const tpj_buffer *buffer, tpj_dtype *out_dtype, int *out_rank, const int64_t **out_dims) {
    int type, i = 0;
    TPJ_TRY(tpj_pjrt_check_fork());
    TPJ_TRY(read_type(buffer, &type));
    while (i < N_TYPE_PAIRS && type_pairs[i].type != type) i++;
    if (i == N_TYPE_PAIRS)
        TPJ_ERROR(TPJ_NOT_IMPLEMENTED, "the buffer's element type (PJRT's number %d) is none that we know", type);
    PJRT_ARGS(pjrt_buffer_dimensions_args, args, .buffer = buffer->handle);
    TPJ_TRY(PJRT_CALL(buffer->client->api, buffer_dimensions, &args));
    *out_dtype = type_pairs[i].dtype;
    *out_rank = (int)args.num_dims;
    *out_dims = args.dims;
    return NULL;
}

/* The buffer's size on the host, asked of the plugin once. */
static tpj_status *read_bytes(const tpj_buffer *buffer, size_t *out_n_bytes) {
    size_t n = atomic_load_explicit(&buffer->n_bytes, memory_order_relaxed);
    if (n == TPJ_SIZE_UNKNOWN) {
        int type;
        TPJ_TRY(read_type(buffer, &type));
        PJRT_ARGS(pjrt_buffer_dimensions_args, args, .buffer = buffer->handle);
        TPJ_TRY(PJRT_CALL(buffer->client->api, buffer_dimensions, &args));
        n = type_bytes(type);
        for (size_t i = 0; i < args.num_dims; i++) n *= (size_t)args.dims[i];
        /* A fact about the buffer, noted for the next caller: the buffer is as constant as before. */
        atomic_store_explicit(&((tpj_buffer *)buffer)->n_bytes, n, memory_order_relaxed);
    }
    *out_n_bytes = n;
    return NULL;
}

size_t tpj_buffer_bytes(const tpj_buffer *buffer) {
    size_t n = 0;
    tpj_pjrt_ignore(read_bytes(buffer, &n));
    return n;
}

/* ---- waiting ---- */
static tpj_status *ready_event(const tpj_buffer *buffer, pjrt_event **out_event) {
    TPJ_TRY(tpj_pjrt_check_fork());
    PJRT_ARGS(pjrt_buffer_ready_event_args, args, .buffer = buffer->handle);
    TPJ_TRY(PJRT_CALL(buffer->client->api, buffer_ready_event, &args));
    *out_event = args.event;
    return NULL;
}

tpj_status *tpj_buffer_is_ready(tpj_buffer *buffer, bool *out_ready) {
    const pjrt_api *api = buffer->client->api;
    pjrt_event *event;
    TPJ_TRY(ready_event(buffer, &event));
    PJRT_ARGS(pjrt_event_is_ready_args, args, .event = event);
    tpj_status *status = PJRT_CALL(api, event_is_ready, &args);
    tpj_pjrt_event_destroy(api, event);
    if (status == NULL) *out_ready = args.is_ready;
    return status;
}

typedef struct ready_callback {
    const pjrt_api *api;
    pjrt_event *event;
    void (*done)(void *context, int64_t nanoseconds);
    void *context;
} ready_callback;

/* On a thread of the plugin, or on the caller's. A failed execution is ready too; whoever reads the buffer is told. */
static void call_done(pjrt_error *error, void *user_arg) {
    ready_callback *callback = user_arg;
    callback->done(callback->context, tpj_clock_now());
    if (error != NULL) {
        PJRT_ARGS(pjrt_error_destroy_args, args, .error = error);
        callback->api->error_destroy(&args);
    }
    tpj_pjrt_event_destroy(callback->api, callback->event);
    free(callback);
}

tpj_status *tpj_buffer_on_ready(tpj_buffer *buffer, void (*done)(void *context, int64_t nanoseconds), void *context) {
    const pjrt_api *api = buffer->client->api;
    ready_callback *callback = malloc(sizeof *callback);
    if (callback == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    *callback = (ready_callback){.api = api, .done = done, .context = context};
    tpj_status *status = ready_event(buffer, &callback->event);
    if (status == NULL) {
        PJRT_ARGS(pjrt_event_on_ready_args, args, .event = callback->event, .callback = call_done,
                  .user_arg = callback);
        status = PJRT_CALL(api, event_on_ready, &args);
        if (status == NULL) return NULL; /* the callback is the plugin's now, or is gone already */
        tpj_pjrt_event_destroy(api, callback->event);
    }
    free(callback);
    return status;
}

/* Where a wait is and how it ends: shared with the plugin's callback, which may come long after an interrupted wait. */
typedef struct gate {
    tpj_lock lock;
    pthread_cond_t opened;
    bool open;
    int n_users;
} gate;

static void leave_gate(gate *g, bool open) {
    tpj_lock_acquire(&g->lock);
    g->open = g->open || open;
    bool last = --g->n_users == 0;
    pthread_cond_signal(&g->opened);
    tpj_lock_release(&g->lock);
    if (!last) return;
    pthread_cond_destroy(&g->opened);
    tpj_lock_destroy(&g->lock);
    free(g);
}

static void open_gate(void *context, int64_t nanoseconds) {
    (void)nanoseconds;
    leave_gate(context, true);
}

/* PJRT's own wait cannot be left: where somebody may interrupt, it begins when it is known that it will end at once. */
static tpj_status *wait_in_slices(tpj_buffer *buffer) {
    bool ready;
    tpj_status *status = tpj_buffer_is_ready(buffer, &ready);
    if (status != NULL || ready) return status;
    gate *g = malloc(sizeof *g);
    if (g == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    *g = (gate){.opened = PTHREAD_COND_INITIALIZER, .n_users = 2};
    tpj_lock_init(&g->lock, TPJ_RANK_CLIENT, "wait");
    status = tpj_buffer_on_ready(buffer, open_gate, g);
    if (status != NULL) leave_gate(g, true);
    bool open = status != NULL;
    while (!open && status == NULL) {
        tpj_lock_acquire(&g->lock);
        if (!g->open) tpj_lock_wait_for(&g->lock, &g->opened, TPJ_WAIT_SLICE);
        open = g->open;
        tpj_lock_release(&g->lock);
        if (!open) status = tpj_interrupt_check();
    }
    leave_gate(g, false);
    return status;
}

tpj_status *tpj_buffer_wait(tpj_buffer *buffer) {
    pjrt_event *event;
    if (tpj_interrupt_is_possible()) TPJ_TRY(wait_in_slices(buffer));
    TPJ_TRY(ready_event(buffer, &event));
    return tpj_pjrt_await(buffer->client->api, event);
}

/* ---- host to device ---- */
tpj_status *tpj_buffer_from_host(tpj_client *client, int device, tpj_dtype dtype, int rank, const int64_t *dims,
                                 const void *data, tpj_buffer **out_buffer) {
    const pjrt_api *api = client->api;
    TPJ_TRY(tpj_pjrt_check_fork());
    size_t n_bytes = tpj_dtype_bytes(dtype);
    for (int i = 0; i < rank; i++) n_bytes *= (size_t)dims[i];
    tpj_buffer *buffer = tpj_buffer_wrap(client, device, NULL);
    if (buffer == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    atomic_init(&buffer->n_bytes, n_bytes);
    PJRT_ARGS(pjrt_client_buffer_from_host_buffer_args, args, .client = client->handle, .data = data,
              .type = type_of_dtype(dtype), .dims = dims, .num_dims = (size_t)rank,
              .host_buffer_semantics = PJRT_HOST_BUFFER_SEMANTICS_IMMUTABLE_ONLY_DURING_CALL,
              .device = client->devices[device].handle);
    tpj_status *status = PJRT_CALL(api, client_buffer_from_host_buffer, &args);
    if (status == NULL) {
        buffer->handle = args.buffer;
        status = tpj_pjrt_await(api, args.done_with_host_buffer);
    }
    if (status == NULL)
        *out_buffer = buffer;
    else
        tpj_buffer_release(buffer);
    return status;
}

tpj_status *tpj_buffer_copy_to_device(tpj_buffer *buffer, int device, tpj_buffer **out_buffer) {
    tpj_client *client = buffer->client;
    TPJ_TRY(tpj_pjrt_check_fork());
    tpj_buffer *copy = tpj_buffer_wrap(client, device, NULL);
    if (copy == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    PJRT_ARGS(pjrt_buffer_copy_to_device_args, args, .buffer = buffer->handle,
              .dst_device = client->devices[device].handle);
    tpj_status *status = PJRT_CALL(client->api, buffer_copy_to_device, &args);
    copy->handle = args.dst_buffer;
    if (status == NULL)
        *out_buffer = copy;
    else
        tpj_buffer_release(copy);
    return status;
}

/* ---- device to host ---- */
/* The address of a ready buffer on a CPU plugin; NULL where there is none to be had. */
static const char *host_address(const tpj_buffer *buffer) {
    const pjrt_api *api = buffer->client->api;
    int type;
    if (!buffer->client->is_cpu || !PJRT_HAS(api, buffer_opaque_device_memory_data_pointer)) return NULL;
    tpj_status *status = read_type(buffer, &type);
    PJRT_ARGS(pjrt_buffer_opaque_device_memory_data_pointer_args, args, .buffer = buffer->handle);
    if (status == NULL && !is_packed(type)) status = PJRT_CALL(api, buffer_opaque_device_memory_data_pointer, &args);
    tpj_pjrt_ignore(status);
    return args.device_memory_ptr;
}

/* Through the plugin, which also undoes the device's layout. */
static tpj_status *copy_to_host(const tpj_buffer *buffer, void *data, size_t n_bytes) {
    enum { MAX_RANK = 64 };
    const pjrt_api *api = buffer->client->api;
    int64_t minor_to_major[MAX_RANK];
    PJRT_ARGS(pjrt_buffer_dimensions_args, dims, .buffer = buffer->handle);
    TPJ_TRY(PJRT_CALL(api, buffer_dimensions, &dims));
    if (dims.num_dims > MAX_RANK)
        TPJ_ERROR(TPJ_RUNTIME, "a buffer of rank %zu cannot be read, the limit is %d", dims.num_dims, MAX_RANK);
    for (size_t i = 0; i < dims.num_dims; i++) minor_to_major[i] = (int64_t)(dims.num_dims - 1 - i);
    PJRT_ARGS(pjrt_buffer_memory_layout, layout, .type = PJRT_BUFFER_MEMORY_LAYOUT_TYPE_TILED,
              .tiled = {.struct_size = sizeof layout.tiled,
                        .minor_to_major = minor_to_major,
                        .minor_to_major_size = dims.num_dims});
    PJRT_ARGS(pjrt_buffer_to_host_buffer_args, args, .src = buffer->handle, .host_layout = &layout, .dst = data,
              .dst_size = n_bytes);
    TPJ_TRY(PJRT_CALL(api, buffer_to_host_buffer, &args));
    return tpj_pjrt_await(api, args.event);
}

static tpj_status *copy_part_to_host(const tpj_buffer *buffer, size_t offset, void *data, size_t n_bytes,
                                     size_t total) {
    char *whole = malloc(total);
    if (whole == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory for a buffer of %zu bytes", total);
    tpj_status *status = copy_to_host(buffer, whole, total);
    if (status == NULL) memcpy(data, whole + offset, n_bytes);
    free(whole);
    return status;
}

tpj_status *tpj_buffer_to_host_part(tpj_buffer *buffer, size_t offset_bytes, void *data, size_t n_bytes) {
    size_t total;
    TPJ_TRY(tpj_buffer_wait(buffer));
    TPJ_TRY(read_bytes(buffer, &total));
    if (offset_bytes > total || n_bytes > total - offset_bytes)
        TPJ_ERROR(TPJ_INTERNAL, "read of %zu bytes at %zu from a buffer of %zu", n_bytes, offset_bytes, total);
    if (n_bytes == 0) return NULL;
    const char *address = host_address(buffer);
    if (address != NULL) {
        memcpy(data, address + offset_bytes, n_bytes);
        return NULL;
    }
    if (n_bytes == total) return copy_to_host(buffer, data, n_bytes);
    return copy_part_to_host(buffer, offset_bytes, data, n_bytes, total);
}

tpj_status *tpj_buffer_to_host(tpj_buffer *buffer, void *data, size_t n_bytes) {
    size_t total;
    TPJ_TRY(read_bytes(buffer, &total));
    if (n_bytes != total) TPJ_ERROR(TPJ_INTERNAL, "read of %zu bytes of a buffer of %zu", n_bytes, total);
    return tpj_buffer_to_host_part(buffer, 0, data, n_bytes);
}
