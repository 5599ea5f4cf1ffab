/* Buffers: host to device, device to host. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
