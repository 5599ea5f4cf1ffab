/* Executables: compile, serialize, launch. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/internal.h"
#include "pjrt/report.h"

static const tpj_compile_options portable_options = {.portable = true};
/* StableHLO's maximum and minimum propagate NaN. XLA's CPU compiler drops NaN unless told not to. */
const tpj_option tpj_cpu_exact_min_max = {
    .name = "xla_cpu_enable_fast_min_max", .kind = TPJ_OPTION_BOOL, .int_value = 0};

/* ---- life ---- */
static void destroy_handle(const pjrt_api *api, pjrt_loaded_executable *handle) {
    if (handle == NULL || tpj_plugin_is_forked()) return;
    PJRT_ARGS(pjrt_loaded_executable_destroy_args, args, .executable = handle);
    tpj_pjrt_ignore(PJRT_CALL(api, loaded_executable_destroy, &args));
}

/* The description of a loaded program: for a moment, to be given back to drop_description. */
static tpj_status *describe(const tpj_executable *executable, pjrt_executable **out_description) {
    PJRT_ARGS(pjrt_loaded_executable_get_executable_args, args, .loaded_executable = executable->handle);
    TPJ_TRY(PJRT_CALL(executable->client->api, loaded_executable_get_executable, &args));
    *out_description = args.executable;
    return NULL;
}

static void drop_description(const pjrt_api *api, pjrt_executable *description) {
    PJRT_ARGS(pjrt_executable_destroy_args, args, .executable = description);
    tpj_pjrt_ignore(PJRT_CALL(api, executable_destroy, &args));
}

static tpj_status *read_n_outputs(tpj_executable *executable) {
    const pjrt_api *api = executable->client->api;
    pjrt_executable *description;
    TPJ_TRY(describe(executable, &description));
    PJRT_ARGS(pjrt_executable_num_outputs_args, args, .executable = description);
    tpj_status *status = PJRT_CALL(api, executable_num_outputs, &args);
    drop_description(api, description);
    executable->n_outputs = (int)args.num_outputs;
    return status;
}

/* A portable program has no devices of its own and takes one at each launch, as does a program for several devices (one
 * launch for each). A program for one device must not be given any. */
static tpj_status *read_devices(tpj_executable *executable) {
    const tpj_client *client = executable->client;
    PJRT_ARGS(pjrt_loaded_executable_addressable_devices_args, args, .executable = executable->handle);
    TPJ_TRY(PJRT_CALL(client->api, loaded_executable_addressable_devices, &args));
    executable->fixed_device = -1;
    for (int i = 0; i < client->n_devices && args.num_addressable_devices == 1; i++)
        if (client->devices[i].handle == args.addressable_devices[0]) executable->fixed_device = i;
    if (args.num_addressable_devices > 1) {
        executable->n_launches = calloc((size_t)client->n_devices, sizeof *executable->n_launches);
        if (executable->n_launches == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    }
    return NULL;
}

/* Takes the handle. */
static tpj_status *wrap_handle(tpj_client *client, pjrt_loaded_executable *handle, tpj_executable **out_executable) {
    tpj_status *status = NULL;
    tpj_executable *executable = malloc(sizeof *executable);
    if (executable == NULL) {
        destroy_handle(client->api, handle);
        TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    }
    *executable = (tpj_executable){.client = client, .handle = handle};
    atomic_init(&executable->n_references, 1);
    TPJ_TRY_GOTO(read_n_outputs(executable));
    TPJ_TRY_GOTO(read_devices(executable));
    *out_executable = executable;
    executable = NULL;
done:
    tpj_executable_release(executable);
    return status;
}

void tpj_executable_retain(tpj_executable *executable) {
    atomic_fetch_add_explicit(&executable->n_references, 1, memory_order_relaxed);
}

void tpj_executable_release(tpj_executable *executable) {
    if (executable == NULL) return;
    if (atomic_fetch_sub_explicit(&executable->n_references, 1, memory_order_acq_rel) != 1) return;
    destroy_handle(executable->client->api, executable->handle);
    free(executable->n_launches);
    free(executable);
}

int tpj_executable_n_outputs(const tpj_executable *executable) { return executable->n_outputs; }

/* ---- compile, serialize ---- */
tpj_status *tpj_executable_write_options(const tpj_client *client, const tpj_compile_options *options,
                                         tpj_text *out_proto) {
    if (client->is_cpu) tpj_option_write(&tpj_cpu_exact_min_max, out_proto);
    return tpj_options_write(options == NULL ? &portable_options : options, client->global_ids, client->n_global_ids,
                             false, out_proto);
}

tpj_status *tpj_executable_compile(tpj_client *client, const char *module, size_t module_length,
                                   const tpj_compile_options *options, tpj_executable **out_executable) {
    tpj_status *status = NULL;
    tpj_text proto = {0};
    TPJ_TRY_GOTO(tpj_pjrt_check_fork());
    TPJ_TRY_GOTO(tpj_executable_write_options(client, options, &proto));
    PJRT_ARGS(pjrt_program, program, .code = module, .code_size = module_length, .format = "mlir", .format_size = 4);
    PJRT_ARGS(pjrt_client_compile_args, args, .client = client->handle, .program = &program,
              .compile_options = proto.data, .compile_options_size = proto.length);
    TPJ_TRY_GOTO(PJRT_CALL(client->api, client_compile, &args));
    TPJ_TRY_GOTO(wrap_handle(client, args.executable, out_executable));
done:
    tpj_text_destroy(&proto);
    return status;
}

tpj_status *tpj_executable_deserialize(tpj_client *client, const void *data, size_t n_bytes,
                                       tpj_executable **out_executable) {
    TPJ_TRY(tpj_pjrt_check_fork());
    PJRT_ARGS(pjrt_executable_deserialize_and_load_args, args, .client = client->handle, .serialized_executable = data,
              .serialized_executable_size = n_bytes);
    TPJ_TRY(PJRT_CALL(client->api, executable_deserialize_and_load, &args));
    return wrap_handle(client, args.loaded_executable, out_executable);
}

tpj_status *tpj_pjrt_serialize(const pjrt_api *api, const pjrt_executable *handle, void **out_data,
                               size_t *out_n_bytes) {
    tpj_status *status = NULL;
    PJRT_ARGS(pjrt_executable_serialize_args, args, .executable = handle);
    TPJ_TRY(PJRT_CALL(api, executable_serialize, &args));
    void *copy = malloc(args.serialized_bytes_size + 1);
    if (copy != NULL) {
        memcpy(copy, args.serialized_bytes, args.serialized_bytes_size);
        *out_data = copy;
        *out_n_bytes = args.serialized_bytes_size;
    } else {
        status = tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory");
    }
    args.serialized_executable_deleter(args.serialized_executable);
    return status;
}

tpj_status *tpj_executable_serialize(tpj_executable *executable, void **out_data, size_t *out_n_bytes) {
    const pjrt_api *api = executable->client->api;
    pjrt_executable *description;
    TPJ_TRY(tpj_pjrt_check_fork());
    TPJ_TRY(describe(executable, &description));
    tpj_status *status = tpj_pjrt_serialize(api, description, out_data, out_n_bytes);
    drop_description(api, description);
    return status;
}

tpj_status *tpj_executable_stats(tpj_executable *executable, tpj_compiled_memory *out_memory,
                                 tpj_compiled_cost *out_cost) {
    const pjrt_api *api = executable->client->api;
    pjrt_executable *description;
    *out_memory = (tpj_compiled_memory){-1, -1, -1, -1, -1, -1};
    *out_cost = (tpj_compiled_cost){-1, -1, -1};
    TPJ_TRY(tpj_pjrt_check_fork());
    TPJ_TRY(describe(executable, &description));
    tpj_pjrt_ignore(tpj_pjrt_memory_stats(api, description, out_memory)); /* not all plugins know them */
    tpj_pjrt_ignore(tpj_pjrt_cost_stats(api, description, out_cost));
    drop_description(api, description);
    return NULL;
}

/* ---- launch ---- */
/* Shared by all launches that keep no inputs; plugins only read it. */
static pjrt_execute_options plain_options = {.struct_size = sizeof(pjrt_execute_options)};

/* Collectives meet by this number: it has to be the same on all devices, to change from launch to launch, and not to be 0. */
static int next_launch(atomic_int *n_launches) {
    unsigned number = (unsigned)atomic_fetch_add_explicit(n_launches, 1, memory_order_relaxed);
    return (int)(number % INT_MAX) + 1;
}

static tpj_status *launch(tpj_executable *executable, int device, pjrt_buffer *const *inputs, int n_inputs,
                          const int64_t *keep, int n_keep, pjrt_buffer **outputs, pjrt_event **complete) {
    const tpj_client *client = executable->client;
    pjrt_execute_options own_options, *options = &plain_options;
    if (n_keep > 0 || executable->n_launches != NULL) {
        own_options = (pjrt_execute_options){.struct_size = sizeof own_options,
                                             .non_donatable_input_indices = keep,
                                             .num_non_donatable_input_indices = (size_t)n_keep};
        if (executable->n_launches != NULL) own_options.launch_id = next_launch(&executable->n_launches[device]);
        options = &own_options;
    }
    PJRT_ARGS(pjrt_loaded_executable_execute_args, args, .executable = executable->handle, .options = options,
              .argument_lists = &inputs, .num_devices = 1, .num_args = (size_t)n_inputs, .output_lists = &outputs,
              .device_complete_events = complete,
              .execute_device = executable->fixed_device < 0 ? client->devices[device].handle : NULL);
    return PJRT_CALL(client->api, loaded_executable_execute, &args);
}

/* Wrappers come before the launch: when memory is out, nothing has been donated yet. */
static tpj_status *wrap_outputs(tpj_client *client, int device, tpj_buffer **wrappers, int n) {
    for (int i = 0; i < n; i++) {
        wrappers[i] = tpj_buffer_wrap(client, device, NULL);
        if (wrappers[i] != NULL) continue;
        while (i > 0) tpj_buffer_release(wrappers[--i]);
        TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    }
    return NULL;
}

/* An event costs as much as all of a report, and a program that runs in the calling thread needs none. So one is asked for
 * until a launch has been seen to run there, and again when one did not: that one is waited for here, on its first result. */
static void finish_report(tpj_executable *executable, tpj_report *report, pjrt_event *complete, tpj_buffer *output) {
    bool inline_now = tpj_report_is_complete(report);
    if (complete == NULL && !inline_now) {
        tpj_status_destroy(tpj_buffer_wait(output)); /* whoever reads it gets the error */
        atomic_store_explicit(&executable->runs_behind, true, memory_order_relaxed);
    } else if (complete != NULL && inline_now &&
               !atomic_load_explicit(&executable->runs_behind, memory_order_relaxed)) {
        atomic_store_explicit(&executable->runs_inline, true, memory_order_relaxed);
    }
    tpj_report_completes_with(report, complete);
}

static bool wants_event(const tpj_executable *executable) {
    return atomic_load_explicit(&executable->runs_behind, memory_order_relaxed) ||
           !atomic_load_explicit(&executable->runs_inline, memory_order_relaxed);
}

static tpj_status *execute(tpj_executable *executable, int device, tpj_buffer *const *inputs, int n_inputs,
                           const int64_t *keep, int n_keep, tpj_buffer **outputs, int n_outputs, tpj_report *report) {
    enum { N_ON_STACK = 96 };
    void *on_stack[N_ON_STACK], **pointers = on_stack;
    tpj_status *status = NULL;
    size_t n_pointers = (size_t)n_inputs + 2 * (size_t)n_outputs;
    TPJ_TRY(tpj_pjrt_check_fork());
    if (n_outputs != executable->n_outputs)
        TPJ_ERROR(TPJ_INTERNAL, "a program with %d outputs was launched for %d", executable->n_outputs, n_outputs);
    if (executable->fixed_device >= 0 && executable->fixed_device != device)
        TPJ_ERROR(TPJ_INTERNAL, "a program for device %d was launched on device %d", executable->fixed_device, device);
    if (n_pointers > N_ON_STACK) {
        pointers = malloc(n_pointers * sizeof *pointers);
        if (pointers == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    }
    pjrt_buffer **input_handles = (pjrt_buffer **)pointers, **output_handles = input_handles + n_inputs;
    tpj_buffer **wrappers = (tpj_buffer **)(pointers + n_inputs + n_outputs);
    for (int i = 0; i < n_inputs; i++) input_handles[i] = inputs[i]->handle;
    for (int i = 0; i < n_outputs; i++) output_handles[i] = NULL;
    TPJ_TRY_GOTO(wrap_outputs(executable->client, device, wrappers, n_outputs));
    pjrt_event *complete = NULL, **wanted = report != NULL && wants_event(executable) ? &complete : NULL;
    status = launch(executable, device, input_handles, n_inputs, keep, n_keep, output_handles, wanted);
    for (int i = 0; i < n_outputs; i++) {
        if (status == NULL) {
            wrappers[i]->handle = output_handles[i];
            outputs[i] = wrappers[i];
        } else {
            tpj_buffer_release(wrappers[i]);
        }
    }
    if (status == NULL && report != NULL) finish_report(executable, report, complete, outputs[0]);
done:
    if (pointers != on_stack) free(pointers);
    return status;
}

tpj_status *tpj_executable_execute(tpj_executable *executable, int device, tpj_buffer *const *inputs, int n_inputs,
                                   const int64_t *keep, int n_keep, tpj_buffer **outputs, int n_outputs) {
    return execute(executable, device, inputs, n_inputs, keep, n_keep, outputs, n_outputs, NULL);
}

tpj_status *tpj_executable_execute_reporting(tpj_executable *executable, int device, tpj_buffer *const *inputs,
                                             int n_inputs, tpj_buffer **outputs, int n_outputs, tpj_report *report) {
    return execute(executable, device, inputs, n_inputs, NULL, 0, outputs, n_outputs, report);
}
