/* The binary interface of PJRT plugins, as far as it is used here: the layout of API 0.114, which plugins from 0.81 to
 * 0.117 share. Only src/pjrt may include this file.
 *
 * The interface in brief. A plugin exports GetPjrtApi, which returns a table of functions. Each takes one struct, whose
 * first member is its size: a plugin newer than the caller reads no further than that, an older one ignores the rest, so
 * the newest layout works with all of them as long as everything is zeroed first (PJRT_ARGS does both). Functions return
 * an error that the caller must destroy, or NULL. The table grows at its end; its own size says which entries exist.
 *
 * Names are those of the interface in snake case, and whatever is not used is called unused_<n>:
 * tests/python/test_abi.py reads the declarations below and compares every offset, size and number with an independent
 * description of the interface. */
#ifndef TPJ_PJRT_ABI_H
#define TPJ_PJRT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Objects of the plugin. */
typedef struct pjrt_error pjrt_error;
typedef struct pjrt_event pjrt_event;
typedef struct pjrt_client pjrt_client;
typedef struct pjrt_device pjrt_device;
typedef struct pjrt_device_description pjrt_device_description;
typedef struct pjrt_buffer pjrt_buffer;
typedef struct pjrt_executable pjrt_executable;
typedef struct pjrt_loaded_executable pjrt_loaded_executable;
typedef struct pjrt_serialized_executable pjrt_serialized_executable;
typedef struct pjrt_topology_description pjrt_topology_description;

typedef struct pjrt_extension_base {
    size_t struct_size;
    int type;
    struct pjrt_extension_base *next;
} pjrt_extension_base;

/* How every struct begins. */
#define PJRT_HEAD       \
    size_t struct_size; \
    pjrt_extension_base *extension_start

/* A zeroed argument struct with its size set; further arguments are designated initialisers. */
#define PJRT_ARGS(type, name, ...) type name = {.struct_size = sizeof(type), __VA_ARGS__}

enum pjrt_error_code {
    PJRT_ERROR_CODE_OK = 0,
    PJRT_ERROR_CODE_CANCELLED = 1,
    PJRT_ERROR_CODE_UNKNOWN = 2,
    PJRT_ERROR_CODE_INVALID_ARGUMENT = 3,
    PJRT_ERROR_CODE_DEADLINE_EXCEEDED = 4,
    PJRT_ERROR_CODE_NOT_FOUND = 5,
    PJRT_ERROR_CODE_ALREADY_EXISTS = 6,
    PJRT_ERROR_CODE_PERMISSION_DENIED = 7,
    PJRT_ERROR_CODE_RESOURCE_EXHAUSTED = 8,
    PJRT_ERROR_CODE_FAILED_PRECONDITION = 9,
    PJRT_ERROR_CODE_ABORTED = 10,
    PJRT_ERROR_CODE_OUT_OF_RANGE = 11,
    PJRT_ERROR_CODE_UNIMPLEMENTED = 12,
    PJRT_ERROR_CODE_INTERNAL = 13,
    PJRT_ERROR_CODE_UNAVAILABLE = 14,
    PJRT_ERROR_CODE_DATA_LOSS = 15,
    PJRT_ERROR_CODE_UNAUTHENTICATED = 16
};

enum pjrt_buffer_type {
    PJRT_BUFFER_TYPE_INVALID = 0,
    PJRT_BUFFER_TYPE_PRED = 1,
    PJRT_BUFFER_TYPE_S8 = 2,
    PJRT_BUFFER_TYPE_S16 = 3,
    PJRT_BUFFER_TYPE_S32 = 4,
    PJRT_BUFFER_TYPE_S64 = 5,
    PJRT_BUFFER_TYPE_U8 = 6,
    PJRT_BUFFER_TYPE_U16 = 7,
    PJRT_BUFFER_TYPE_U32 = 8,
    PJRT_BUFFER_TYPE_U64 = 9,
    PJRT_BUFFER_TYPE_F16 = 10,
    PJRT_BUFFER_TYPE_F32 = 11,
    PJRT_BUFFER_TYPE_F64 = 12,
    PJRT_BUFFER_TYPE_BF16 = 13,
    PJRT_BUFFER_TYPE_C64 = 14,
    PJRT_BUFFER_TYPE_C128 = 15,
    PJRT_BUFFER_TYPE_F8E5M2 = 16,
    PJRT_BUFFER_TYPE_F8E4M3FN = 17,
    PJRT_BUFFER_TYPE_F8E5M2FNUZ = 19,
    PJRT_BUFFER_TYPE_F8E4M3FNUZ = 20,
    PJRT_BUFFER_TYPE_S4 = 21,
    PJRT_BUFFER_TYPE_U4 = 22,
    PJRT_BUFFER_TYPE_F8E8M0FNU = 28
};

enum pjrt_host_buffer_semantics { PJRT_HOST_BUFFER_SEMANTICS_IMMUTABLE_ONLY_DURING_CALL = 0 };

enum pjrt_named_value_kind {
    PJRT_NAMED_VALUE_STRING = 0,
    PJRT_NAMED_VALUE_INT64 = 1,
    PJRT_NAMED_VALUE_INT64_LIST = 2,
    PJRT_NAMED_VALUE_FLOAT = 3,
    PJRT_NAMED_VALUE_BOOL = 4
};

/* An option or a property: a name and one value. `value_size` is the length of a string or list, else 1. */
typedef struct pjrt_named_value {
    PJRT_HEAD;
    const char *name;
    size_t name_size;
    int type;
    union {
        const char *string_value;
        int64_t int64_value;
        const int64_t *int64_array_value;
        float float_value;
        bool bool_value;
    };
    size_t value_size;
} pjrt_named_value;

/* ---- errors and events ---- */
typedef struct pjrt_error_destroy_args {
    PJRT_HEAD;
    pjrt_error *error;
} pjrt_error_destroy_args;

typedef struct pjrt_error_message_args {
    PJRT_HEAD;
    const pjrt_error *error;
    const char *message; /* out; not NUL-terminated; lives as long as the error */
    size_t message_size; /* out */
} pjrt_error_message_args;

typedef struct pjrt_error_get_code_args {
    PJRT_HEAD;
    const pjrt_error *error;
    int code; /* out */
} pjrt_error_get_code_args;

typedef struct pjrt_event_destroy_args {
    PJRT_HEAD;
    pjrt_event *event;
} pjrt_event_destroy_args;

typedef struct pjrt_event_is_ready_args {
    PJRT_HEAD;
    pjrt_event *event;
    bool is_ready; /* out */
} pjrt_event_is_ready_args;

typedef struct pjrt_event_await_args {
    PJRT_HEAD;
    pjrt_event *event;
} pjrt_event_await_args;

typedef struct pjrt_event_on_ready_args {
    PJRT_HEAD;
    pjrt_event *event;
    void (*callback)(pjrt_error *error, void *user_arg); /* owns the error */
    void *user_arg;
} pjrt_event_on_ready_args;

/* ---- plugin, client, device ---- */
typedef struct pjrt_plugin_initialize_args {
    PJRT_HEAD;
} pjrt_plugin_initialize_args;

typedef struct pjrt_client_create_args {
    PJRT_HEAD;
    const pjrt_named_value *create_options;
    size_t num_options;
    void *unused_0[4];   /* key-value store for several processes */
    pjrt_client *client; /* out */
    void *unused_1[2];
} pjrt_client_create_args;

typedef struct pjrt_client_destroy_args {
    PJRT_HEAD;
    pjrt_client *client;
} pjrt_client_destroy_args;

typedef struct pjrt_client_platform_name_args {
    PJRT_HEAD;
    pjrt_client *client;
    const char *platform_name; /* out */
    size_t platform_name_size; /* out */
} pjrt_client_platform_name_args;

typedef struct pjrt_client_platform_version_args {
    PJRT_HEAD;
    pjrt_client *client;
    const char *platform_version; /* out */
    size_t platform_version_size; /* out */
} pjrt_client_platform_version_args;

typedef struct pjrt_client_devices_args {
    PJRT_HEAD;
    pjrt_client *client;
    pjrt_device *const *devices; /* out */
    size_t num_devices;          /* out */
} pjrt_client_devices_args;

typedef struct pjrt_client_addressable_devices_args {
    PJRT_HEAD;
    pjrt_client *client;
    pjrt_device *const *addressable_devices; /* out */
    size_t num_addressable_devices;          /* out */
} pjrt_client_addressable_devices_args;

typedef struct pjrt_device_get_description_args {
    PJRT_HEAD;
    pjrt_device *device;
    pjrt_device_description *device_description; /* out */
} pjrt_device_get_description_args;

typedef struct pjrt_device_description_id_args {
    PJRT_HEAD;
    pjrt_device_description *device_description;
    int id; /* out */
} pjrt_device_description_id_args;

typedef struct pjrt_device_description_kind_args {
    PJRT_HEAD;
    pjrt_device_description *device_description;
    const char *device_kind; /* out */
    size_t device_kind_size; /* out */
} pjrt_device_description_kind_args;

typedef struct pjrt_device_description_attributes_args {
    PJRT_HEAD;
    pjrt_device_description *device_description;
    size_t num_attributes;              /* out */
    const pjrt_named_value *attributes; /* out */
} pjrt_device_description_attributes_args;

typedef struct pjrt_device_memory_stats_args {
    PJRT_HEAD;
    pjrt_device *device;
    int64_t bytes_in_use; /* out, as all below */
    int64_t peak_bytes_in_use;
    bool peak_bytes_in_use_is_set;
    int64_t unused_0[4];
    int64_t bytes_limit;
    bool bytes_limit_is_set;
    int64_t unused_1[14];
} pjrt_device_memory_stats_args;

/* ---- buffer ---- */
typedef struct pjrt_client_buffer_from_host_buffer_args {
    PJRT_HEAD;
    pjrt_client *client;
    const void *data;
    int type;
    const int64_t *dims;
    size_t num_dims;
    const int64_t *byte_strides; /* NULL: dense row-major */
    size_t num_byte_strides;
    int host_buffer_semantics;
    pjrt_device *device;
    void *unused_0[2];                 /* memory, device layout */
    pjrt_event *done_with_host_buffer; /* out */
    pjrt_buffer *buffer;               /* out */
} pjrt_client_buffer_from_host_buffer_args;

typedef struct pjrt_buffer_destroy_args {
    PJRT_HEAD;
    pjrt_buffer *buffer;
} pjrt_buffer_destroy_args;

typedef struct pjrt_buffer_element_type_args {
    PJRT_HEAD;
    pjrt_buffer *buffer;
    int type; /* out */
} pjrt_buffer_element_type_args;

typedef struct pjrt_buffer_dimensions_args {
    PJRT_HEAD;
    pjrt_buffer *buffer;
    const int64_t *dims; /* out; lives as long as the buffer */
    size_t num_dims;     /* out */
} pjrt_buffer_dimensions_args;

typedef struct pjrt_buffer_copy_to_device_args {
    PJRT_HEAD;
    pjrt_buffer *buffer;
    pjrt_device *dst_device;
    pjrt_buffer *dst_buffer; /* out */
} pjrt_buffer_copy_to_device_args;

typedef struct pjrt_buffer_to_host_buffer_args {
    PJRT_HEAD;
    pjrt_buffer *src;
    const struct pjrt_buffer_memory_layout *host_layout; /* NULL: the device's own order of dimensions */
    void *dst;
    size_t dst_size;
    pjrt_event *event; /* out */
} pjrt_buffer_to_host_buffer_args;

/* Tiled: the dimensions from the fastest-moving one on, and the tiles that they are cut into (none on the host). */
typedef struct pjrt_buffer_memory_layout_tiled {
    PJRT_HEAD;
    const int64_t *minor_to_major;
    size_t minor_to_major_size;
    const int64_t *tile_dims;
    const size_t *tile_dim_sizes;
    size_t num_tiles;
} pjrt_buffer_memory_layout_tiled;

enum pjrt_buffer_memory_layout_type { PJRT_BUFFER_MEMORY_LAYOUT_TYPE_TILED = 0 };

typedef struct pjrt_buffer_memory_layout {
    PJRT_HEAD;
    pjrt_buffer_memory_layout_tiled tiled;
    int type;
} pjrt_buffer_memory_layout;

typedef struct pjrt_buffer_ready_event_args {
    PJRT_HEAD;
    pjrt_buffer *buffer;
    pjrt_event *event; /* out */
} pjrt_buffer_ready_event_args;

typedef struct pjrt_buffer_opaque_device_memory_data_pointer_args {
    PJRT_HEAD;
    pjrt_buffer *buffer;
    void *device_memory_ptr; /* out */
} pjrt_buffer_opaque_device_memory_data_pointer_args;

/* ---- compile ---- */
typedef struct pjrt_program {
    PJRT_HEAD;
    const char *code; /* read by a compiler; written by optimized_program */
    size_t code_size;
    const char *format; /* "mlir"; of optimized_program "hlo_with_config" */
    size_t format_size;
} pjrt_program;

typedef struct pjrt_client_compile_args {
    PJRT_HEAD;
    pjrt_client *client;
    const pjrt_program *program;
    const char *compile_options; /* a serialized CompileOptionsProto */
    size_t compile_options_size;
    pjrt_loaded_executable *executable; /* out */
} pjrt_client_compile_args;

typedef struct pjrt_compile_args {
    PJRT_HEAD;
    const pjrt_topology_description *topology;
    const pjrt_program *program;
    const char *compile_options;
    size_t compile_options_size;
    pjrt_client *client;
    pjrt_executable *executable; /* out */
} pjrt_compile_args;

typedef struct pjrt_topology_description_create_args {
    PJRT_HEAD;
    const char *topology_name;
    size_t topology_name_size;
    const pjrt_named_value *create_options;
    size_t num_options;
    pjrt_topology_description *topology; /* out */
} pjrt_topology_description_create_args;

typedef struct pjrt_topology_description_destroy_args {
    PJRT_HEAD;
    pjrt_topology_description *topology;
} pjrt_topology_description_destroy_args;

typedef struct pjrt_topology_description_get_device_descriptions_args {
    PJRT_HEAD;
    pjrt_topology_description *topology;
    pjrt_device_description *const *descriptions; /* out */
    size_t num_descriptions;                      /* out */
} pjrt_topology_description_get_device_descriptions_args;

typedef struct pjrt_topology_description_platform_version_args {
    PJRT_HEAD;
    pjrt_topology_description *topology;
    const char *platform_version; /* out */
    size_t platform_version_size; /* out */
} pjrt_topology_description_platform_version_args;

/* ---- executable ---- */
typedef struct pjrt_executable_destroy_args {
    PJRT_HEAD;
    pjrt_executable *executable;
} pjrt_executable_destroy_args;

typedef struct pjrt_executable_num_outputs_args {
    PJRT_HEAD;
    pjrt_executable *executable;
    size_t num_outputs; /* out */
} pjrt_executable_num_outputs_args;

typedef struct pjrt_executable_get_cost_analysis_args {
    PJRT_HEAD;
    pjrt_executable *executable;
    size_t num_properties;              /* out */
    const pjrt_named_value *properties; /* out */
} pjrt_executable_get_cost_analysis_args;

typedef struct pjrt_executable_get_compiled_memory_stats_args {
    PJRT_HEAD;
    pjrt_executable *executable;
    int64_t generated_code_size_in_bytes; /* out, as all below */
    int64_t argument_size_in_bytes;
    int64_t output_size_in_bytes;
    int64_t alias_size_in_bytes;
    int64_t temp_size_in_bytes;
    int64_t unused_0[5]; /* the same on the host */
    int64_t peak_memory_in_bytes;
    int64_t unused_1[4];
} pjrt_executable_get_compiled_memory_stats_args;

typedef struct pjrt_executable_optimized_program_args {
    PJRT_HEAD;
    pjrt_executable *executable;
    pjrt_program *program; /* code: the caller's memory, or NULL to learn the size */
} pjrt_executable_optimized_program_args;

typedef struct pjrt_executable_serialize_args {
    PJRT_HEAD;
    const pjrt_executable *executable;
    const char *serialized_bytes;                                                  /* out */
    size_t serialized_bytes_size;                                                  /* out */
    pjrt_serialized_executable *serialized_executable;                             /* out: owns the bytes */
    void (*serialized_executable_deleter)(pjrt_serialized_executable *executable); /* out */
} pjrt_executable_serialize_args;

typedef struct pjrt_executable_deserialize_and_load_args {
    PJRT_HEAD;
    pjrt_client *client;
    const char *serialized_executable;
    size_t serialized_executable_size;
    pjrt_loaded_executable *loaded_executable; /* out */
    void *unused_0[3];
} pjrt_executable_deserialize_and_load_args;

typedef struct pjrt_loaded_executable_destroy_args {
    PJRT_HEAD;
    pjrt_loaded_executable *executable;
} pjrt_loaded_executable_destroy_args;

typedef struct pjrt_loaded_executable_get_executable_args {
    PJRT_HEAD;
    pjrt_loaded_executable *loaded_executable;
    pjrt_executable *executable; /* out; the caller destroys it */
} pjrt_loaded_executable_get_executable_args;

typedef struct pjrt_loaded_executable_addressable_devices_args {
    PJRT_HEAD;
    pjrt_loaded_executable *executable;
    pjrt_device *const *addressable_devices; /* out */
    size_t num_addressable_devices;          /* out */
} pjrt_loaded_executable_addressable_devices_args;

typedef struct pjrt_execute_options {
    PJRT_HEAD;
    void *unused_0[4]; /* send and receive callbacks */
    int launch_id;
    const int64_t *non_donatable_input_indices;
    size_t num_non_donatable_input_indices;
    void *unused_1[9];
} pjrt_execute_options;

typedef struct pjrt_loaded_executable_execute_args {
    PJRT_HEAD;
    pjrt_loaded_executable *executable;
    pjrt_execute_options *options;
    pjrt_buffer *const *const *argument_lists; /* [num_devices][num_args] */
    size_t num_devices;
    size_t num_args;
    pjrt_buffer **const *output_lists;   /* [num_devices][outputs], filled */
    pjrt_event **device_complete_events; /* NULL: none wanted */
    pjrt_device *execute_device;         /* NULL: those that the program was compiled for */
} pjrt_loaded_executable_execute_args;

/* ---- the table ---- */
typedef struct pjrt_api_version {
    PJRT_HEAD;
    int major_version;
    int minor_version;
} pjrt_api_version;

#define PJRT_FUNCTION(name) pjrt_error *(*name)(pjrt_##name##_args *)
typedef void (*pjrt_unused_function)(void);

typedef struct pjrt_api {
    PJRT_HEAD;
    pjrt_api_version version;
    void (*error_destroy)(pjrt_error_destroy_args *);
    void (*error_message)(pjrt_error_message_args *);
    PJRT_FUNCTION(error_get_code);
    PJRT_FUNCTION(plugin_initialize);
    pjrt_unused_function unused_4[1];
    PJRT_FUNCTION(event_destroy);
    PJRT_FUNCTION(event_is_ready);
    pjrt_unused_function unused_7[1];
    PJRT_FUNCTION(event_await);
    PJRT_FUNCTION(event_on_ready);
    PJRT_FUNCTION(client_create);
    PJRT_FUNCTION(client_destroy);
    PJRT_FUNCTION(client_platform_name);
    pjrt_unused_function unused_13[1];
    PJRT_FUNCTION(client_platform_version);
    PJRT_FUNCTION(client_devices);
    PJRT_FUNCTION(client_addressable_devices);
    pjrt_unused_function unused_17[3];
    PJRT_FUNCTION(client_compile);
    pjrt_unused_function unused_21[1];
    PJRT_FUNCTION(client_buffer_from_host_buffer);
    PJRT_FUNCTION(device_description_id);
    pjrt_unused_function unused_24[1];
    PJRT_FUNCTION(device_description_attributes);
    PJRT_FUNCTION(device_description_kind);
    pjrt_unused_function unused_27[2];
    PJRT_FUNCTION(device_get_description);
    pjrt_unused_function unused_30[4];
    PJRT_FUNCTION(device_memory_stats);
    pjrt_unused_function unused_35[5];
    PJRT_FUNCTION(executable_destroy);
    pjrt_unused_function unused_41[3];
    PJRT_FUNCTION(executable_num_outputs);
    pjrt_unused_function unused_45[1];
    PJRT_FUNCTION(executable_get_cost_analysis);
    pjrt_unused_function unused_47[1];
    PJRT_FUNCTION(executable_optimized_program);
    PJRT_FUNCTION(executable_serialize);
    PJRT_FUNCTION(loaded_executable_destroy);
    PJRT_FUNCTION(loaded_executable_get_executable);
    PJRT_FUNCTION(loaded_executable_addressable_devices);
    pjrt_unused_function unused_53[2];
    PJRT_FUNCTION(loaded_executable_execute);
    PJRT_FUNCTION(executable_deserialize_and_load);
    pjrt_unused_function unused_57[1];
    PJRT_FUNCTION(buffer_destroy);
    PJRT_FUNCTION(buffer_element_type);
    PJRT_FUNCTION(buffer_dimensions);
    pjrt_unused_function unused_61[8];
    PJRT_FUNCTION(buffer_copy_to_device);
    PJRT_FUNCTION(buffer_to_host_buffer);
    pjrt_unused_function unused_71[1];
    PJRT_FUNCTION(buffer_ready_event);
    pjrt_unused_function unused_73[3];
    PJRT_FUNCTION(buffer_opaque_device_memory_data_pointer);
    pjrt_unused_function unused_77[5];
    PJRT_FUNCTION(topology_description_create);
    PJRT_FUNCTION(topology_description_destroy);
    pjrt_unused_function unused_84[1];
    PJRT_FUNCTION(topology_description_platform_version);
    PJRT_FUNCTION(topology_description_get_device_descriptions);
    pjrt_unused_function unused_87[2];
    PJRT_FUNCTION(compile);
    pjrt_unused_function unused_90[6];
    PJRT_FUNCTION(executable_get_compiled_memory_stats);
    pjrt_unused_function unused_97[41];
} pjrt_api;

/* ---- host functions that CPU programs call: XLA's foreign function interface, 0.1 to 0.4 ---- */
enum pjrt_extension_type { PJRT_EXTENSION_TYPE_FFI = 5 };

typedef struct pjrt_ffi_register_handler_args {
    size_t struct_size;
    const char *target_name;
    size_t target_name_size;
    void *handler; /* xla_ffi_error *(*)(xla_ffi_call_frame *) */
    const char *platform_name;
    size_t platform_name_size;
    int traits;
} pjrt_ffi_register_handler_args;

typedef struct pjrt_ffi_extension {
    pjrt_extension_base base;
    void *unused_0[2];
    pjrt_error *(*register_handler)(pjrt_ffi_register_handler_args *args);
} pjrt_ffi_extension;

enum xla_ffi_extension_type { XLA_FFI_EXTENSION_METADATA = 1 };
enum xla_ffi_execution_stage { XLA_FFI_EXECUTION_STAGE_EXECUTE = 3 };
enum xla_ffi_data_type { XLA_FFI_DATA_TYPE_S32 = 4, XLA_FFI_DATA_TYPE_S64 = 5 };

typedef struct xla_ffi_error xla_ffi_error;

typedef struct xla_ffi_extension_base {
    size_t struct_size;
    int type;
    struct xla_ffi_extension_base *next;
} xla_ffi_extension_base;

#define XLA_FFI_HEAD    \
    size_t struct_size; \
    xla_ffi_extension_base *extension_start

typedef struct xla_ffi_api_version {
    XLA_FFI_HEAD;
    int major_version; /* out */
    int minor_version; /* out */
} xla_ffi_api_version;

/* What a handler is asked for when it is registered. */
typedef struct xla_ffi_metadata {
    size_t struct_size;
    xla_ffi_api_version api_version;
    uint32_t traits;  /* out */
    int64_t unused_0; /* the type of a handler's state; not in older plugins */
} xla_ffi_metadata;

typedef struct xla_ffi_metadata_extension {
    xla_ffi_extension_base extension_base;
    xla_ffi_metadata *metadata;
} xla_ffi_metadata_extension;

typedef struct xla_ffi_buffer {
    XLA_FFI_HEAD;
    int dtype;
    void *data;
    int64_t rank;
    int64_t *dims;
} xla_ffi_buffer;

typedef struct xla_ffi_scalar {
    int dtype;
    void *value;
} xla_ffi_scalar;

typedef struct xla_ffi_args {
    XLA_FFI_HEAD;
    int64_t size;
    int *types;
    void **args; /* xla_ffi_buffer * */
} xla_ffi_args;

typedef struct xla_ffi_rets {
    XLA_FFI_HEAD;
    int64_t size;
    int *types;
    void **rets;
} xla_ffi_rets;

typedef struct xla_ffi_attrs {
    XLA_FFI_HEAD;
    int64_t size;
    int *types;
    void **names;
    void **attrs; /* in the order of their names; xla_ffi_scalar * */
} xla_ffi_attrs;

typedef struct xla_ffi_call_frame {
    XLA_FFI_HEAD;
    const void *api;
    void *ctx;
    int stage;
    xla_ffi_args args;
    xla_ffi_rets rets;
    xla_ffi_attrs attrs;
    void *future;
} xla_ffi_call_frame;

#endif
