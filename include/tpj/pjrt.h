/* The client of the PJRT C API: the only folder that sees the ABI. Everything above works with these types.
 *
 * Threads: plugin, client, topology and executable are immutable after creation and thread-safe. A buffer is counted and
 * thread-safe: any thread may retain, release, read or pass it to an execution. No function here holds a lock across a
 * plugin call. */
#ifndef TPJ_PJRT_H
#define TPJ_PJRT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tpj/dtype.h"
#include "tpj/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tpj_plugin tpj_plugin; /* a loaded plugin; lives until the process ends */
typedef struct tpj_client tpj_client; /* devices of one plugin; lives until the process ends or tpj_client_destroy */
typedef struct tpj_buffer tpj_buffer; /* an array on one device, immutable; counted */
typedef struct tpj_executable tpj_executable; /* a program loaded on a client; counted */
typedef struct tpj_topology tpj_topology;     /* a described, possibly absent, TPU slice to compile for */
typedef struct tpj_compiled tpj_compiled;     /* a program compiled for a topology: not runnable, but measurable */

/* ---- plugin ---- */
/* Loads and initialises the plugin at `path` (once per path: a second call returns the same plugin). Errors say the file,
 * its API version where known, and what to do. TPJ_UNAVAILABLE when the file is missing or not a plugin. For libtpu, the
 * environment that it needs without hardware is set before it is loaded when `for_compile_only`. */
TPJ_API tpj_status *tpj_plugin_open(const char *path, bool for_compile_only, tpj_plugin **out_plugin) TPJ_MUST_USE;
TPJ_API const char *tpj_plugin_path(const tpj_plugin *plugin);
TPJ_API void tpj_plugin_api_version(const tpj_plugin *plugin, int *out_major, int *out_minor);

/* True in a process that was forked after a plugin was loaded: everything here that reaches a device then fails with
 * TPJ_UNAVAILABLE, and what was inherited may only be released. */
TPJ_API bool tpj_plugin_is_forked(void);

/* ---- client ---- */
/* `n_devices`: how many devices a CPU plugin shows; 0 leaves it to the plugin. Plugins with devices of their own ignore it.
 * Destroy a client after its buffers and executables. */
TPJ_API tpj_status *tpj_client_create(tpj_plugin *plugin, int n_devices, tpj_client **out_client) TPJ_MUST_USE;
TPJ_API void tpj_client_destroy(tpj_client *client);
/* Borrowed from the client. platform: "cpu", "tpu"; version: the plugin's own text; kind: "cpu", "TPU v6 lite". */
TPJ_API const char *tpj_client_platform(const tpj_client *client);
TPJ_API const char *tpj_client_platform_version(const tpj_client *client);
TPJ_API bool tpj_client_is_cpu(const tpj_client *client);
TPJ_API int tpj_client_n_devices(const tpj_client *client); /* addressable devices; ordinals 0 .. n-1 below */
TPJ_API const char *tpj_client_device_kind(const tpj_client *client, int device);
TPJ_API int tpj_client_device_id(const tpj_client *client, int device); /* the plugin's global id */
TPJ_API tpj_plugin *tpj_client_plugin(const tpj_client *client);
typedef struct tpj_memory_stats {
    bool known;                                           /* false: the plugin has no statistics */
    int64_t bytes_in_use, peak_bytes_in_use, bytes_limit; /* -1 where one is unknown */
} tpj_memory_stats;
TPJ_API tpj_status *tpj_client_memory_stats(const tpj_client *client, int device,
                                            tpj_memory_stats *out_stats) TPJ_MUST_USE;

/* ---- buffer ---- */
/* Copies dense row-major host data (tpj_dtype_bytes an element); the host memory may be reused on return. */
TPJ_API tpj_status *tpj_buffer_from_host(tpj_client *client, int device, tpj_dtype dtype, int rank, const int64_t *dims,
                                         const void *data, tpj_buffer **out_buffer) TPJ_MUST_USE;
/* Waits for the buffer and copies all of it to `data` (dense row-major, n_bytes must be its host size). The error of the
 * execution that should have produced it, if that failed. On CPU plugins: ready event, pointer, memcpy (0.1 us). */
TPJ_API tpj_status *tpj_buffer_to_host(tpj_buffer *buffer, void *data, size_t n_bytes) TPJ_MUST_USE;
/* Same for elements [offset, offset + n) of the row-major order, where the plugin can (CPU); otherwise through a full copy. */
TPJ_API tpj_status *tpj_buffer_to_host_part(tpj_buffer *buffer, size_t offset_bytes, void *data,
                                            size_t n_bytes) TPJ_MUST_USE;
TPJ_API tpj_status *tpj_buffer_wait(tpj_buffer *buffer) TPJ_MUST_USE; /* until ready; its error */
TPJ_API tpj_status *tpj_buffer_is_ready(tpj_buffer *buffer, bool *out_ready) TPJ_MUST_USE;
TPJ_API tpj_status *tpj_buffer_copy_to_device(tpj_buffer *buffer, int device, tpj_buffer **out_buffer) TPJ_MUST_USE;
/* Calls `done(context, monotonic_nanoseconds)` once the buffer is ready, perhaps at once, perhaps on a plugin's thread;
 * `done` may only set atomics and push to queues. */
TPJ_API tpj_status *tpj_buffer_on_ready(tpj_buffer *buffer, void (*done)(void *context, int64_t nanoseconds),
                                        void *context) TPJ_MUST_USE;
/* What still computes a buffer, for whoever waits for it though the buffer is gone. NULL, too, when the buffer is ready.
 * Counted; thread-safe. Holds none of the buffer's memory. */
typedef struct tpj_completion tpj_completion;
TPJ_API tpj_status *tpj_buffer_completion(tpj_buffer *buffer, tpj_completion **out_completion) TPJ_MUST_USE;
TPJ_API void tpj_completion_retain(tpj_completion *completion);
TPJ_API void tpj_completion_release(tpj_completion *completion); /* NULL is allowed */
TPJ_API bool tpj_completion_is_ready(const tpj_completion *completion);
TPJ_API tpj_status *tpj_completion_wait(tpj_completion *completion) TPJ_MUST_USE; /* as tpj_buffer_wait */
TPJ_API tpj_status *tpj_completion_on_ready(tpj_completion *completion,
                                            void (*done)(void *context, int64_t nanoseconds),
                                            void *context) TPJ_MUST_USE; /* as tpj_buffer_on_ready */
/* Element type and sizes; `dims` is borrowed from the buffer. TPJ_NOT_IMPLEMENTED for a type that is no tpj_dtype. */
TPJ_API tpj_status *tpj_buffer_type(const tpj_buffer *buffer, tpj_dtype *out_dtype, int *out_rank,
                                    const int64_t **out_dims) TPJ_MUST_USE;
TPJ_API size_t tpj_buffer_bytes(const tpj_buffer *buffer); /* host size: elements times tpj_dtype_bytes */
TPJ_API int tpj_buffer_device(const tpj_buffer *buffer);
TPJ_API void tpj_buffer_retain(tpj_buffer *buffer);
TPJ_API void tpj_buffer_release(tpj_buffer *buffer); /* NULL is allowed */

/* ---- compile options ---- */
typedef struct tpj_option { /* one override by name, as in XLA's debug options: never through XLA_FLAGS, which aborts */
    const char *name;
    enum { TPJ_OPTION_STRING, TPJ_OPTION_BOOL, TPJ_OPTION_INT, TPJ_OPTION_DOUBLE } kind;
    const char *string_value;
    int64_t int_value; /* also the bool */
    double double_value;
} tpj_option;
typedef struct tpj_compile_options {
    int n_replicas, n_partitions; /* 0 means 1 */
    bool use_spmd, use_shardy;
    const int64_t *device_ids; /* n_replicas x n_partitions global ids; NULL: see portable */
    bool portable;             /* no assignment: runs on any one device of the client */
    int optimization_level;    /* 0: the compiler's default */
    const tpj_option *options;
    int n_options;
} tpj_compile_options;

/* ---- executable ---- */
/* `module`: StableHLO as MLIR text. NULL options: one device, portable. */
TPJ_API tpj_status *tpj_executable_compile(tpj_client *client, const char *module, size_t module_length,
                                           const tpj_compile_options *options,
                                           tpj_executable **out_executable) TPJ_MUST_USE;
TPJ_API tpj_status *tpj_executable_deserialize(tpj_client *client, const void *data, size_t n_bytes,
                                               tpj_executable **out_executable) TPJ_MUST_USE;
/* malloc'ed bytes that the caller frees. */
TPJ_API tpj_status *tpj_executable_serialize(tpj_executable *executable, void **out_data,
                                             size_t *out_n_bytes) TPJ_MUST_USE;
TPJ_API int tpj_executable_n_outputs(const tpj_executable *executable);
TPJ_API void tpj_executable_retain(tpj_executable *executable);
TPJ_API void tpj_executable_release(tpj_executable *executable);
/* Launches on one device; returns before the work ends. A program for several devices is launched once on each, perhaps by
 * a thread for each; the nth launches on all of them belong together. Inputs are borrowed. Inputs that the module marks as donated are
 * consumed (the buffer stays valid to release, but not to read) unless listed in `keep` (n_keep input positions).
 * `outputs` receives n_outputs new buffers that the caller owns; on error nothing is written to it. The hot path: no
 * allocation but the output wrappers, no lock. */
TPJ_API tpj_status *tpj_executable_execute(tpj_executable *executable, int device, tpj_buffer *const *inputs,
                                           int n_inputs, const int64_t *keep, int n_keep, tpj_buffer **outputs,
                                           int n_outputs) TPJ_MUST_USE;

/* ---- compiling for a topology that is not there ---- */
/* `name`: "v6e:2x4", "v5p:2x2x1", "tpu7x:2x2x1" (the generation, then the grid). NULL options: the plugin's defaults. */
TPJ_API tpj_status *tpj_topology_create(tpj_plugin *plugin, const char *name, tpj_topology **out_topology) TPJ_MUST_USE;
TPJ_API void tpj_topology_destroy(tpj_topology *topology);
TPJ_API int tpj_topology_n_devices(const tpj_topology *topology);
/* Of the nth device, 0 .. n_devices - 1, in ascending order: the id that compile options name it by. */
TPJ_API int tpj_topology_device_id(const tpj_topology *topology, int n);
/* Borrowed from the topology. version: the build of the compiler in its own words, of several lines, and "" where it has
 * none; kind: of all its devices, "TPU v6 lite". */
TPJ_API const char *tpj_topology_version(const tpj_topology *topology);
TPJ_API const char *tpj_topology_device_kind(const tpj_topology *topology);
/* The memory that programs can use on each device; -1 where the compiler does not say. */
TPJ_API int64_t tpj_topology_memory_bytes(const tpj_topology *topology);
TPJ_API tpj_status *tpj_topology_compile(tpj_topology *topology, const char *module, size_t module_length,
                                         const tpj_compile_options *options, tpj_compiled **out_compiled) TPJ_MUST_USE;
TPJ_API void tpj_compiled_destroy(tpj_compiled *compiled);
typedef struct tpj_compiled_memory {
    int64_t code_bytes, argument_bytes, output_bytes, alias_bytes, temp_bytes, peak_bytes; /* -1 where unknown */
} tpj_compiled_memory;
TPJ_API tpj_status *tpj_compiled_memory_stats(const tpj_compiled *compiled,
                                              tpj_compiled_memory *out_memory) TPJ_MUST_USE;
typedef struct tpj_compiled_cost {
    double flops, bytes_accessed, optimal_seconds; /* negative where unknown */
} tpj_compiled_cost;
TPJ_API tpj_status *tpj_compiled_cost_stats(const tpj_compiled *compiled, tpj_compiled_cost *out_cost) TPJ_MUST_USE;
/* Both of a loaded program; what the plugin does not tell is -1. */
TPJ_API tpj_status *tpj_executable_stats(tpj_executable *executable, tpj_compiled_memory *out_memory,
                                         tpj_compiled_cost *out_cost) TPJ_MUST_USE;
/* malloc'ed bytes that the caller frees: what tpj_executable_deserialize takes on such a TPU, and the program as the
 * compiler's last pass left it, an HloModuleProtoWithConfig of XLA's hlo.proto. */
TPJ_API tpj_status *tpj_compiled_serialize(const tpj_compiled *compiled, void **out_data,
                                           size_t *out_n_bytes) TPJ_MUST_USE;
TPJ_API tpj_status *tpj_compiled_optimized_program(const tpj_compiled *compiled, void **out_data,
                                                   size_t *out_n_bytes) TPJ_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
