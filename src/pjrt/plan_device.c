/* The planning device as a plugin: the table of functions. Where a CPU plugin computes, each object holds that plugin's, and
 * each function also calls its own. */
#include <stdlib.h>
#include <string.h>

#include "pjrt/plan_internal.h"

struct pjrt_error {
    int code;
    const char *message;
};
struct pjrt_event {
    int unused;
};
struct pjrt_device_description {
    int id;
};
struct pjrt_device {
    pjrt_device_description description;
    pjrt_device *inner;
};
struct pjrt_client {
    pjrt_client *inner;
    int n_devices;
    pjrt_device *devices, **list;
};
struct pjrt_buffer {
    tpj_plan_memory memory;
    pjrt_client *client;
    pjrt_buffer *inner;
    bool donated;
    int rank;
    int64_t dims[];
};
struct pjrt_loaded_executable {
    tpj_plan_record *record;
    pjrt_client *client;
    pjrt_loaded_executable *inner;
};

/* ---- errors and events: our own are these, all others are the inner plugin's ---- */
enum { NO_MEMORY, BAD_MODULE, DONATED, N_ERRORS };
static pjrt_error errors[N_ERRORS] = {
    {PJRT_ERROR_CODE_RESOURCE_EXHAUSTED, "out of host memory"},
    {PJRT_ERROR_CODE_INVALID_ARGUMENT, "the module does not parse"},
    {PJRT_ERROR_CODE_INVALID_ARGUMENT, "the buffer was donated"},
};
static pjrt_event ready;

static bool is_own(const pjrt_error *error) { return error >= errors && error < errors + N_ERRORS; }

static void error_destroy(pjrt_error_destroy_args *args) {
    if (!is_own(args->error)) tpj_plan_inner()->error_destroy(args);
}

static void error_message(pjrt_error_message_args *args) {
    if (!is_own(args->error)) {
        tpj_plan_inner()->error_message(args);
        return;
    }
    args->message = args->error->message;
    args->message_size = strlen(args->message);
}

static pjrt_error *error_get_code(pjrt_error_get_code_args *args) {
    if (!is_own(args->error)) return tpj_plan_inner()->error_get_code(args);
    args->code = args->error->code;
    return NULL;
}

static pjrt_error *event_destroy(pjrt_event_destroy_args *args) {
    return args->event == &ready ? NULL : tpj_plan_inner()->event_destroy(args);
}

static pjrt_error *event_is_ready(pjrt_event_is_ready_args *args) {
    if (args->event != &ready) return tpj_plan_inner()->event_is_ready(args);
    args->is_ready = true;
    return NULL;
}

static pjrt_error *event_await(pjrt_event_await_args *args) {
    return args->event == &ready ? NULL : tpj_plan_inner()->event_await(args);
}

static pjrt_error *event_on_ready(pjrt_event_on_ready_args *args) {
    if (args->event != &ready) return tpj_plan_inner()->event_on_ready(args);
    args->callback(NULL, args->user_arg);
    return NULL;
}

/* ---- client and devices ---- */
static pjrt_error *take_inner_devices(pjrt_client *client) {
    const pjrt_api *inner = tpj_plan_inner();
    PJRT_ARGS(pjrt_client_addressable_devices_args, args, .client = client->inner);
    pjrt_error *error = inner->client_addressable_devices(&args);
    for (int i = 0; error == NULL && i < client->n_devices; i++)
        client->devices[i].inner = args.addressable_devices[(size_t)i % args.num_addressable_devices];
    return error;
}

static pjrt_error *client_destroy(pjrt_client_destroy_args *args) {
    pjrt_error *error = NULL;
    if (args->client->inner != NULL) {
        PJRT_ARGS(pjrt_client_destroy_args, inner, .client = args->client->inner);
        error = tpj_plan_inner()->client_destroy(&inner);
    }
    free(args->client->devices);
    free(args->client->list);
    free(args->client);
    return error;
}

static pjrt_error *client_create(pjrt_client_create_args *args) {
    const pjrt_api *inner = tpj_plan_inner();
    size_t n = (size_t)tpj_plan_target_get()->n_devices;
    pjrt_client *client = calloc(1, sizeof *client);
    if (client == NULL) return &errors[NO_MEMORY];
    client->n_devices = (int)n;
    client->devices = calloc(n, sizeof *client->devices);
    client->list = calloc(n, sizeof *client->list);
    pjrt_error *error = client->devices == NULL || client->list == NULL ? &errors[NO_MEMORY] : NULL;
    for (size_t i = 0; error == NULL && i < n; i++) {
        client->devices[i].description.id = (int)i;
        client->list[i] = &client->devices[i];
    }
    if (error == NULL && inner != NULL) {
        pjrt_client_create_args create = *args;
        error = inner->client_create(&create);
        client->inner = error == NULL ? create.client : NULL;
        if (error == NULL) error = take_inner_devices(client);
    }
    if (error == NULL) {
        args->client = client;
        return NULL;
    }
    PJRT_ARGS(pjrt_client_destroy_args, destroy, .client = client);
    client_destroy(&destroy);
    return error;
}

static pjrt_error *client_platform_name(pjrt_client_platform_name_args *args) {
    args->platform_name = "tpu";
    args->platform_name_size = 3;
    return NULL;
}

static pjrt_error *client_platform_version(pjrt_client_platform_version_args *args) {
    args->platform_version = tpj_plan_target_get()->version;
    args->platform_version_size = strlen(args->platform_version);
    return NULL;
}

static pjrt_error *client_devices(pjrt_client_devices_args *args) {
    args->devices = args->client->list;
    args->num_devices = (size_t)args->client->n_devices;
    return NULL;
}

static pjrt_error *client_addressable_devices(pjrt_client_addressable_devices_args *args) {
    args->addressable_devices = args->client->list;
    args->num_addressable_devices = (size_t)args->client->n_devices;
    return NULL;
}

static pjrt_error *device_get_description(pjrt_device_get_description_args *args) {
    args->device_description = &args->device->description;
    return NULL;
}

static pjrt_error *device_description_id(pjrt_device_description_id_args *args) {
    args->id = args->device_description->id;
    return NULL;
}

static pjrt_error *device_description_kind(pjrt_device_description_kind_args *args) {
    args->device_kind = tpj_plan_target_get()->device_kind;
    args->device_kind_size = strlen(args->device_kind);
    return NULL;
}

static pjrt_error *device_memory_stats(pjrt_device_memory_stats_args *args) {
    tpj_plan_usage(args->device->description.id, &args->bytes_in_use, &args->peak_bytes_in_use);
    args->bytes_limit = tpj_plan_target_get()->memory_bytes;
    args->peak_bytes_in_use_is_set = args->bytes_limit_is_set = true;
    return NULL;
}

/* ---- buffers ---- */
static pjrt_buffer *new_buffer(pjrt_client *client, int device, int element, int rank, const int64_t *dims) {
    pjrt_buffer *buffer = malloc(sizeof *buffer + sizeof *dims * (size_t)rank);
    if (buffer == NULL) return NULL;
    *buffer = (pjrt_buffer){.client = client, .rank = rank};
    buffer->memory = (tpj_plan_memory){device, element, tpj_plan_type_bytes(element, rank, dims), 0};
    if (rank > 0) memcpy(buffer->dims, dims, sizeof *dims * (size_t)rank);
    return buffer;
}

static pjrt_error *client_buffer_from_host_buffer(pjrt_client_buffer_from_host_buffer_args *args) {
    pjrt_buffer *buffer =
        new_buffer(args->client, args->device->description.id, args->type, (int)args->num_dims, args->dims);
    if (buffer == NULL) return &errors[NO_MEMORY];
    if (args->client->inner != NULL) {
        pjrt_client_buffer_from_host_buffer_args inner = *args;
        inner.client = args->client->inner;
        inner.device = args->device->inner;
        pjrt_error *error = tpj_plan_inner()->client_buffer_from_host_buffer(&inner);
        if (error != NULL) {
            free(buffer);
            return error;
        }
        buffer->inner = inner.buffer;
        args->done_with_host_buffer = inner.done_with_host_buffer;
    }
    tpj_plan_allocate(&buffer->memory, TPJ_PLAN_UPLOAD);
    args->buffer = buffer;
    return NULL;
}

static pjrt_error *destroy_inner(pjrt_buffer *buffer) {
    if (buffer == NULL) return NULL;
    PJRT_ARGS(pjrt_buffer_destroy_args, args, .buffer = buffer);
    return tpj_plan_inner()->buffer_destroy(&args);
}

static pjrt_error *buffer_destroy(pjrt_buffer_destroy_args *args) {
    pjrt_error *error = destroy_inner(args->buffer->inner);
    tpj_plan_free(&args->buffer->memory);
    free(args->buffer);
    return error;
}

static pjrt_error *buffer_element_type(pjrt_buffer_element_type_args *args) {
    args->type = args->buffer->memory.element;
    return NULL;
}

static pjrt_error *buffer_dimensions(pjrt_buffer_dimensions_args *args) {
    args->dims = args->buffer->dims;
    args->num_dims = (size_t)args->buffer->rank;
    return NULL;
}

static pjrt_error *buffer_copy_to_device(pjrt_buffer_copy_to_device_args *args) {
    const pjrt_buffer *from = args->buffer;
    if (from->donated) return &errors[DONATED];
    pjrt_buffer *to =
        new_buffer(from->client, args->dst_device->description.id, from->memory.element, from->rank, from->dims);
    if (to == NULL) return &errors[NO_MEMORY];
    if (from->inner != NULL) {
        pjrt_buffer_copy_to_device_args inner = *args;
        inner.buffer = from->inner;
        inner.dst_device = args->dst_device->inner;
        pjrt_error *error = tpj_plan_inner()->buffer_copy_to_device(&inner);
        if (error != NULL) {
            free(to);
            return error;
        }
        to->inner = inner.dst_buffer;
    }
    tpj_plan_allocate(&to->memory, TPJ_PLAN_COPY);
    args->dst_buffer = to;
    return NULL;
}

static pjrt_error *buffer_to_host_buffer(pjrt_buffer_to_host_buffer_args *args) {
    if (args->src->donated) return &errors[DONATED];
    bool is_true = tpj_plan_read(&args->src->memory);
    if (args->src->inner == NULL) {
        memset(args->dst, is_true, args->dst_size);
        return NULL;
    }
    pjrt_buffer_to_host_buffer_args inner = *args;
    inner.src = args->src->inner;
    pjrt_error *error = tpj_plan_inner()->buffer_to_host_buffer(&inner);
    args->event = inner.event;
    return error;
}

static pjrt_error *buffer_ready_event(pjrt_buffer_ready_event_args *args) {
    if (args->buffer->donated) return &errors[DONATED];
    args->event = &ready;
    if (args->buffer->inner == NULL) return NULL;
    pjrt_buffer_ready_event_args inner = *args;
    inner.buffer = args->buffer->inner;
    pjrt_error *error = tpj_plan_inner()->buffer_ready_event(&inner);
    args->event = inner.event;
    return error;
}

/* ---- programs ---- */
/* For a CPU plugin, with the option that all of its programs have. */
static pjrt_error *compile_inner(const pjrt_client_compile_args *args, pjrt_loaded_executable **out_executable) {
    tpj_text options = {0};
    tpj_text_append(&options, args->compile_options, args->compile_options_size);
    tpj_option_write(&tpj_cpu_exact_min_max, &options);
    pjrt_client_compile_args inner = *args;
    inner.client = args->client->inner;
    inner.compile_options = options.data;
    inner.compile_options_size = options.length;
    pjrt_error *error = options.failed ? &errors[NO_MEMORY] : tpj_plan_inner()->client_compile(&inner);
    tpj_text_destroy(&options);
    *out_executable = inner.executable;
    return error;
}

static pjrt_error *client_compile(pjrt_client_compile_args *args) {
    pjrt_loaded_executable *executable = calloc(1, sizeof *executable);
    if (executable == NULL) return &errors[NO_MEMORY];
    executable->client = args->client;
    executable->record = tpj_plan_add_program(args->program, args->compile_options, args->compile_options_size);
    pjrt_error *error = executable->record == NULL ? &errors[BAD_MODULE] : NULL;
    if (error == NULL && args->client->inner != NULL) error = compile_inner(args, &executable->inner);
    if (error == NULL)
        args->executable = executable;
    else
        free(executable);
    return error;
}

static pjrt_error *loaded_executable_destroy(pjrt_loaded_executable_destroy_args *args) {
    pjrt_error *error = NULL;
    if (args->executable->inner != NULL) {
        PJRT_ARGS(pjrt_loaded_executable_destroy_args, inner, .executable = args->executable->inner);
        error = tpj_plan_inner()->loaded_executable_destroy(&inner);
    }
    free(args->executable);
    return error;
}

/* A description is the program's record. */
static pjrt_error *loaded_executable_get_executable(pjrt_loaded_executable_get_executable_args *args) {
    args->executable = (pjrt_executable *)args->loaded_executable->record;
    return NULL;
}

static pjrt_error *executable_destroy(pjrt_executable_destroy_args *args) {
    (void)args; /* the recording keeps it */
    return NULL;
}

static pjrt_error *executable_num_outputs(pjrt_executable_num_outputs_args *args) {
    args->num_outputs = (size_t)tpj_plan_record_signature((const tpj_plan_record *)args->executable)->n_outputs;
    return NULL;
}

/* None: the device is chosen at each launch. */
static pjrt_error *loaded_executable_addressable_devices(pjrt_loaded_executable_addressable_devices_args *args) {
    args->addressable_devices = args->executable->client->list;
    args->num_addressable_devices = 0;
    return NULL;
}

static pjrt_error *execute_inner(const pjrt_loaded_executable_execute_args *args, pjrt_buffer **outputs,
                                 pjrt_buffer **scratch, int n_outputs) {
    pjrt_buffer *const *inputs = args->argument_lists[0];
    pjrt_buffer **inner_inputs = scratch, **inner_outputs = scratch + args->num_args;
    for (size_t i = 0; i < args->num_args; i++) inner_inputs[i] = inputs[i]->inner;
    for (int i = 0; i < n_outputs; i++) inner_outputs[i] = NULL;
    pjrt_buffer *const *argument_list = inner_inputs;
    pjrt_loaded_executable_execute_args inner = *args;
    inner.executable = args->executable->inner;
    inner.argument_lists = &argument_list;
    inner.output_lists = &inner_outputs;
    inner.execute_device = args->execute_device->inner;
    pjrt_error *error = tpj_plan_inner()->loaded_executable_execute(&inner);
    for (int i = 0; error == NULL && i < n_outputs; i++) outputs[i]->inner = inner_outputs[i];
    return error;
}

static bool make_outputs(const pjrt_loaded_executable_execute_args *args, const tpj_plan_signature *s,
                         pjrt_buffer **outputs) {
    for (int i = 0; i < s->n_outputs; i++) {
        const tpj_plan_type *type = &s->outputs[i];
        outputs[i] = new_buffer(args->executable->client, args->execute_device->description.id, type->element,
                                type->rank, type->dims);
        if (outputs[i] != NULL) continue;
        while (i > 0) free(outputs[--i]);
        return false;
    }
    return true;
}

static void record_launch(const pjrt_loaded_executable_execute_args *args, const tpj_plan_signature *s,
                          pjrt_buffer *const *outputs, tpj_plan_memory **memories, bool *kept) {
    pjrt_buffer *const *inputs = args->argument_lists[0];
    tpj_plan_memory **output_memories = memories + s->n_inputs;
    for (size_t i = 0; i < args->options->num_non_donatable_input_indices; i++)
        kept[args->options->non_donatable_input_indices[i]] = true;
    for (int i = 0; i < s->n_inputs; i++) memories[i] = &inputs[i]->memory;
    for (int i = 0; i < s->n_outputs; i++) output_memories[i] = &outputs[i]->memory;
    tpj_plan_launch(args->executable->record, memories, kept, output_memories);
    for (int i = 0; i < s->n_inputs; i++) inputs[i]->donated = s->donated[i] != TPJ_PLAN_KEPT && !kept[i];
}

static pjrt_error *loaded_executable_execute(pjrt_loaded_executable_execute_args *args) {
    const tpj_plan_signature *s = tpj_plan_record_signature(args->executable->record);
    pjrt_buffer *const *inputs = args->argument_lists[0], **outputs = args->output_lists[0];
    if ((size_t)s->n_inputs != args->num_args) return &errors[BAD_MODULE];
    for (int i = 0; i < s->n_inputs; i++)
        if (inputs[i]->donated) return &errors[DONATED];
    size_t n = (size_t)s->n_inputs + (size_t)s->n_outputs;
    void **scratch = malloc(sizeof *scratch * (n + 1));
    bool *kept = calloc(n + 1, sizeof *kept);
    pjrt_error *error = scratch == NULL || kept == NULL || !make_outputs(args, s, outputs) ? &errors[NO_MEMORY] : NULL;
    if (error == NULL && args->executable->inner != NULL) {
        error = execute_inner(args, outputs, (pjrt_buffer **)scratch, s->n_outputs);
        for (int i = 0; error != NULL && i < s->n_outputs; i++) free(outputs[i]);
    }
    if (error == NULL) record_launch(args, s, outputs, (tpj_plan_memory **)scratch, kept);
    free(scratch);
    free(kept);
    return error;
}

/* Nothing is serialized: a plan is made anew each time, and its programs are no use to anybody else. */
const pjrt_api *tpj_plan_api(void) {
    static const pjrt_api api = {
        .struct_size = sizeof api,
        .version = {.struct_size = sizeof(pjrt_api_version), .major_version = 0, .minor_version = 114},
        .error_destroy = error_destroy,
        .error_message = error_message,
        .error_get_code = error_get_code,
        .event_destroy = event_destroy,
        .event_is_ready = event_is_ready,
        .event_await = event_await,
        .event_on_ready = event_on_ready,
        .client_create = client_create,
        .client_destroy = client_destroy,
        .client_platform_name = client_platform_name,
        .client_platform_version = client_platform_version,
        .client_devices = client_devices,
        .client_addressable_devices = client_addressable_devices,
        .client_compile = client_compile,
        .client_buffer_from_host_buffer = client_buffer_from_host_buffer,
        .device_description_id = device_description_id,
        .device_description_kind = device_description_kind,
        .device_get_description = device_get_description,
        .device_memory_stats = device_memory_stats,
        .executable_destroy = executable_destroy,
        .executable_num_outputs = executable_num_outputs,
        .loaded_executable_destroy = loaded_executable_destroy,
        .loaded_executable_get_executable = loaded_executable_get_executable,
        .loaded_executable_addressable_devices = loaded_executable_addressable_devices,
        .loaded_executable_execute = loaded_executable_execute,
        .buffer_destroy = buffer_destroy,
        .buffer_element_type = buffer_element_type,
        .buffer_dimensions = buffer_dimensions,
        .buffer_copy_to_device = buffer_copy_to_device,
        .buffer_to_host_buffer = buffer_to_host_buffer,
        .buffer_ready_event = buffer_ready_event,
    };
    return &api;
}
