/* What the files of this folder share: the structs behind pjrt.h, and how a function of a plugin is called. */
#ifndef TPJ_PJRT_INTERNAL_H
#define TPJ_PJRT_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "pjrt/abi.h"
#include "tpj/pjrt.h"

struct tpj_plugin {
    tpj_plugin *next;
    char *path;
    void *library;
    const pjrt_api *api;
    enum { TPJ_PLUGIN_LOADING, TPJ_PLUGIN_READY } state; /* under the list's lock */
};

typedef struct tpj_device {
    pjrt_device *handle;
    int id; /* the plugin's global id */
    char *kind;
    struct tpj_report *reports; /* that no launch uses */
} tpj_device;

struct tpj_client {
    tpj_plugin *plugin;
    const pjrt_api *api;
    pjrt_client *handle;
    char *platform, *platform_version;
    bool is_cpu;
    bool reports;        /* programs can call tpj_report's function */
    bool plans;          /* the planning device, and nothing computes: what is read means nothing */
    bool keeps;          /* programs can be serialized */
    tpj_device *devices; /* addressable ones */
    int n_devices;
    int *global_ids; /* of all devices, those of other hosts too; ascending */
    int n_global_ids;
    _Atomic(char *) identity; /* see identity.h; NULL until somebody asks */
};

struct tpj_topology {
    const pjrt_api *api;
    pjrt_topology_description *handle;
    char *version, *device_kind;
    int64_t memory_bytes; /* of each device, or -1 */
    int *ids;             /* ascending */
    int n_ids;
};

struct tpj_buffer {
    atomic_int n_references;
    int device;
    tpj_client *client;
    pjrt_buffer *handle;
    atomic_size_t n_bytes; /* TPJ_SIZE_UNKNOWN until somebody asks */
};
#define TPJ_SIZE_UNKNOWN SIZE_MAX

struct tpj_executable {
    atomic_int n_references;
    tpj_client *client;
    pjrt_loaded_executable *handle;
    int n_outputs;
    int fixed_device;        /* the only ordinal that it was compiled for, or -1: the device is chosen at each launch */
    atomic_int *n_launches;  /* of a program for several devices: on each ordinal so far; else NULL */
    atomic_bool runs_inline; /* a launch with a report was over when it returned */
    atomic_bool runs_behind; /* a later one was not */
};

/* A plugin's error as a status: "PJRT_Client_Compile: message (INVALID_ARGUMENT)". Takes the error. `function` is the name
 * in our table, "client_compile". */
tpj_status *tpj_pjrt_status(const pjrt_api *api, const char *function, pjrt_error *error) TPJ_MUST_USE;
/* The status for a function that the plugin's table does not have. */
tpj_status *tpj_pjrt_missing(const pjrt_api *api, const char *function) TPJ_MUST_USE;
/* Drops an error that nobody can act on (of a destroy, or of a step of a cleanup); it is logged. */
void tpj_pjrt_ignore(tpj_status *status);

/* Whether the plugin's table has a function. */
#define PJRT_HAS(api, function) ((api)->struct_size > offsetof(pjrt_api, function) && (api)->function != NULL)

/* Calls a function with the address of its argument struct. A tpj_status *. */
#define PJRT_CALL(api, function, args) \
    (PJRT_HAS(api, function) ? tpj_pjrt_check(api, #function, (api)->function(args)) : tpj_pjrt_missing(api, #function))

static inline tpj_status *tpj_pjrt_check(const pjrt_api *api, const char *function, pjrt_error *error) {
    return error == NULL ? NULL : tpj_pjrt_status(api, function, error);
}

/* Of a compiled program, as the functions of include/tpj/pjrt.h say. */
tpj_status *tpj_pjrt_memory_stats(const pjrt_api *api, pjrt_executable *handle,
                                  tpj_compiled_memory *out_memory) TPJ_MUST_USE;
tpj_status *tpj_pjrt_cost_stats(const pjrt_api *api, pjrt_executable *handle, tpj_compiled_cost *out_cost) TPJ_MUST_USE;

/* A program as bytes, malloc'ed for the caller. */
tpj_status *tpj_pjrt_serialize(const pjrt_api *api, const pjrt_executable *handle, void **out_data,
                               size_t *out_n_bytes) TPJ_MUST_USE;

void tpj_pjrt_event_destroy(const pjrt_api *api, pjrt_event *event); /* NULL is allowed */
/* Waits for an event and destroys it, whatever comes of it. NULL is allowed. */
tpj_status *tpj_pjrt_await(const pjrt_api *api, pjrt_event *event) TPJ_MUST_USE;

/* A text of the plugin's, which ends with no zero, as a string, malloc'ed. */
tpj_status *tpj_pjrt_copy_text(const char *text, size_t n, char **out_string) TPJ_MUST_USE;

/* Every function that reaches a device begins with this: after fork a plugin's threads are gone and its locks may be
 * held for ever, so a child gets an error instead of hanging. What such a child inherited is left alone. */
tpj_status *tpj_pjrt_check_fork(void) TPJ_MUST_USE;

/* A buffer that takes the plugin's handle. NULL when memory is out (the handle is then still the caller's). */
tpj_buffer *tpj_buffer_wrap(tpj_client *client, int device, pjrt_buffer *handle);

/* The function that programs report to: called when it is registered, to say what it is, and whenever a program runs. */
xla_ffi_error *tpj_report_handle(xla_ffi_call_frame *frame);
/* Makes it known to the plugin; false where it takes none. */
bool tpj_report_register(const tpj_client *client);
void tpj_report_destroy_all(struct tpj_report *first);
bool tpj_report_is_complete(const struct tpj_report *report);
/* The event that says when the launch is over, which the report owns from now on; NULL: it is. */
void tpj_report_completes_with(struct tpj_report *report, pjrt_event *complete);

/* Appends one override; of two with one name the later counts. */
void tpj_option_write(const tpj_option *option, tpj_text *proto);
/* Of all programs of CPU plugins. */
extern const tpj_option tpj_cpu_exact_min_max;
/* CompileOptionsProto. `known_ids` (ascending) are the ids that device_ids may name: compilers abort on others. With
 * `assign_default`, a program that is not portable and names no devices gets the first of them. */
tpj_status *tpj_options_write(const tpj_compile_options *options, const int *known_ids, int n_known_ids,
                              bool assign_default, tpj_text *out_proto) TPJ_MUST_USE;

/* The options that tpj_executable_compile gives the compiler for `options`. */
tpj_status *tpj_executable_write_options(const tpj_client *client, const tpj_compile_options *options,
                                         tpj_text *out_proto) TPJ_MUST_USE;

/* The ids of device descriptions or devices, ascending, for the above. malloc'ed. */
void tpj_ids_sort(int *ids, int n_ids);

#endif
