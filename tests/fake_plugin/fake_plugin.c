#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "fake_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

#define EXPORT __attribute__((visibility("default")))

enum { FIRST_DEVICE_ID = 10, MAX_DEVICES = 8 }; /* ids are not ordinals */
struct pjrt_device_description {
    int id;
};
struct pjrt_device {
    pjrt_device_description description;
};
struct pjrt_client {
    bool is_tpu;
    int n_devices;
    pjrt_device devices[MAX_DEVICES], *device_list[MAX_DEVICES];
    worker worker;
};
struct pjrt_buffer {
    pjrt_client *client;
    pjrt_device *device;
    type type;
    contents *contents; /* NULL once donated */
};
struct pjrt_executable {
    program *program;
};
struct pjrt_loaded_executable {
    pjrt_client *client;
    program *program;
    pjrt_device *devices[1]; /* of a program for one device */
};
struct pjrt_serialized_executable {
    char *bytes;
};
struct pjrt_topology_description {
    int n_devices;
    pjrt_device_description devices[MAX_DEVICES], *list[MAX_DEVICES];
};

static pjrt_error *plugin_initialize(pjrt_plugin_initialize_args *args) {
    (void)args;
    INJECT();
    return NULL;
}

/* ---- client ---- */
static pjrt_error *client_create(pjrt_client_create_args *args) {
    INJECT();
    int n_devices = 4;
    for (size_t i = 0; i < args->num_options; i++) {
        const pjrt_named_value *option = &args->create_options[i];
        if (controls.is_tpu || option->type != PJRT_NAMED_VALUE_INT64 ||
            strncmp(option->name, "cpu_device_count", option->name_size) != 0)
            return new_error(PJRT_ERROR_CODE_INVALID_ARGUMENT, "unknown option");
        n_devices = (int)option->int64_value;
    }
    if (n_devices > MAX_DEVICES) return new_error(PJRT_ERROR_CODE_INVALID_ARGUMENT, "too many devices");
    pjrt_client *client = new_object(sizeof *client);
    client->is_tpu = controls.is_tpu;
    client->n_devices = n_devices;
    for (int i = 0; i < n_devices; i++) {
        client->devices[i].description.id = FIRST_DEVICE_ID + i;
        client->device_list[i] = &client->devices[i];
    }
    args->client = client;
    return NULL;
}

static pjrt_error *client_destroy(pjrt_client_destroy_args *args) {
    worker_stop(&args->client->worker);
    return free_and_report(args->client);
}

static pjrt_error *client_platform_name(pjrt_client_platform_name_args *args) {
    INJECT();
    args->platform_name = args->client->is_tpu ? "tpu" : "cpu";
    args->platform_name_size = 3;
    return NULL;
}

static pjrt_error *client_platform_version(pjrt_client_platform_version_args *args) {
    INJECT();
    args->platform_version = "fake 1, and more that does not count";
    args->platform_version_size = 6;
    return NULL;
}

static pjrt_error *client_devices(pjrt_client_devices_args *args) {
    INJECT();
    args->devices = args->client->device_list;
    args->num_devices = (size_t)args->client->n_devices;
    return NULL;
}

static pjrt_error *client_addressable_devices(pjrt_client_addressable_devices_args *args) {
    INJECT();
    args->addressable_devices = args->client->device_list;
    args->num_addressable_devices = (size_t)args->client->n_devices;
    return NULL;
}

static pjrt_error *device_get_description(pjrt_device_get_description_args *args) {
    INJECT();
    args->device_description = &args->device->description;
    return NULL;
}

static pjrt_error *device_description_id(pjrt_device_description_id_args *args) {
    INJECT();
    args->id = args->device_description->id;
    return NULL;
}

static pjrt_error *device_description_kind(pjrt_device_description_kind_args *args) {
    INJECT();
    args->device_kind = "fake device";
    args->device_kind_size = strlen(args->device_kind);
    return NULL;
}

static pjrt_error *device_description_attributes(pjrt_device_description_attributes_args *args) {
    INJECT();
    static const pjrt_named_value attributes[] = {
        {.name = "device_memory_bytes_limit, at least", .name_size = 35, .type = PJRT_NAMED_VALUE_INT64},
        {.name = "device_memory_bytes_limit", .name_size = 25, .type = PJRT_NAMED_VALUE_INT64, .int64_value = 1000},
    };
    args->attributes = attributes;
    args->num_attributes = 2;
    return NULL;
}

static pjrt_error *device_memory_stats(pjrt_device_memory_stats_args *args) {
    INJECT();
    if (!controls.is_tpu) return new_error(PJRT_ERROR_CODE_UNIMPLEMENTED, "no statistics");
    args->bytes_in_use = 1000;
    args->peak_bytes_in_use = 77; /* without its flag: not to be read */
    args->bytes_limit = 4096;
    args->bytes_limit_is_set = true;
    return NULL;
}

/* ---- buffers ---- */
static pjrt_buffer *new_buffer(pjrt_client *client, pjrt_device *device, const type *t, contents *c) {
    pjrt_buffer *buffer = new_object(sizeof *buffer);
    *buffer = (pjrt_buffer){client, device, *t, c};
    return buffer;
}

static pjrt_error *gone(const pjrt_buffer *buffer) {
    if (buffer->contents != NULL) return NULL;
    return new_error(PJRT_ERROR_CODE_INVALID_ARGUMENT, "the buffer was donated");
}

static pjrt_error *client_buffer_from_host_buffer(pjrt_client_buffer_from_host_buffer_args *args) {
    INJECT();
    if (args->num_dims > MAX_RANK || args->num_byte_strides != 0 || element_bytes(args->type) == 0)
        return new_error(PJRT_ERROR_CODE_UNIMPLEMENTED, "the fake plugin does not take this");
    type t = {.element = args->type, .rank = (int)args->num_dims, .n_bytes = element_bytes(args->type)};
    for (int i = 0; i < t.rank; i++) t.n_bytes *= (size_t)(t.dims[i] = args->dims[i]);
    pjrt_error *error = want_memory(t.n_bytes);
    if (error != NULL) return error;
    contents *c = contents_create(t.n_bytes);
    if (t.n_bytes > 0) memcpy(c->bytes, args->data, t.n_bytes);
    contents_retain(c);
    contents_settle(c, true);
    args->buffer = new_buffer(args->client, args->device, &t, c);
    args->done_with_host_buffer = new_event(NULL);
    return NULL;
}

static pjrt_error *buffer_destroy(pjrt_buffer_destroy_args *args) {
    if (args->buffer->contents != NULL) contents_release(args->buffer->contents);
    return free_and_report(args->buffer);
}

static pjrt_error *buffer_element_type(pjrt_buffer_element_type_args *args) {
    INJECT();
    args->type = args->buffer->type.element;
    return NULL;
}

static pjrt_error *buffer_dimensions(pjrt_buffer_dimensions_args *args) {
    INJECT();
    args->dims = args->buffer->type.dims;
    args->num_dims = (size_t)args->buffer->type.rank;
    return NULL;
}

static pjrt_error *buffer_copy_to_device(pjrt_buffer_copy_to_device_args *args) {
    INJECT();
    pjrt_error *error = gone(args->buffer);
    if (error != NULL) return error;
    contents_retain(args->buffer->contents); /* contents never change */
    args->dst_buffer = new_buffer(args->buffer->client, args->dst_device, &args->buffer->type, args->buffer->contents);
    return NULL;
}

/* A TPU keeps dimensions in an order of its own, so a caller that wants row-major has to ask for it. */
static bool is_row_major(const pjrt_buffer_memory_layout *layout, int rank) {
    if (layout == NULL || layout->type != PJRT_BUFFER_MEMORY_LAYOUT_TYPE_TILED || layout->tiled.num_tiles != 0 ||
        layout->tiled.minor_to_major_size != (size_t)rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (layout->tiled.minor_to_major[i] != rank - 1 - i) return false;
    return true;
}

static pjrt_error *buffer_to_host_buffer(pjrt_buffer_to_host_buffer_args *args) {
    INJECT();
    pjrt_error *error = gone(args->src);
    if (error != NULL) return error;
    contents *c = args->src->contents;
    if (args->dst_size < c->n_bytes) return new_error(PJRT_ERROR_CODE_INVALID_ARGUMENT, "the destination is too small");
    if (contents_wait(c)) {
        memcpy(args->dst, c->bytes, c->n_bytes);
        if (args->src->client->is_tpu && !is_row_major(args->host_layout, args->src->type.rank))
            memset(args->dst, 0xee, c->n_bytes);
    }
    args->event = new_event(c);
    return NULL;
}

static pjrt_error *buffer_ready_event(pjrt_buffer_ready_event_args *args) {
    INJECT();
    pjrt_error *error = gone(args->buffer);
    if (error == NULL) args->event = new_event(args->buffer->contents);
    return error;
}

static pjrt_error *buffer_opaque_device_memory_data_pointer(pjrt_buffer_opaque_device_memory_data_pointer_args *args) {
    INJECT();
    if (args->buffer->client->is_tpu) return new_error(PJRT_ERROR_CODE_UNIMPLEMENTED, "no pointers");
    pjrt_error *error = gone(args->buffer);
    if (error == NULL) args->device_memory_ptr = args->buffer->contents->bytes;
    return error;
}

/* ---- programs ---- */
static void retain(program *p) { atomic_fetch_add(&p->n_references, 1); }

static pjrt_error *load(pjrt_client *client, program *p, pjrt_loaded_executable **out_executable) {
    pjrt_loaded_executable *executable = new_object(sizeof *executable);
    *executable = (pjrt_loaded_executable){.client = client, .program = p};
    executable->devices[0] = client->device_list[p->device_id == 0 ? 0 : p->device_id - FIRST_DEVICE_ID];
    *out_executable = executable;
    return NULL;
}

static pjrt_error *client_compile(pjrt_client_compile_args *args) {
    int delay = atomic_load(&controls.compile_delay);
    struct timespec time = {.tv_nsec = delay * 1000L};
    if (delay > 0) nanosleep(&time, NULL);
    if (atomic_load(&controls.fail_compile))
        return new_error(PJRT_ERROR_CODE_INTERNAL, "injected fault of a compilation");
    INJECT();
    program *p;
    pjrt_error *error = program_create(args->program->code, args->program->code_size, args->compile_options,
                                       args->compile_options_size, &p);
    return error != NULL ? error : load(args->client, p, &args->executable);
}

static bool mentions(const pjrt_program *code, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= code->code_size; i++)
        if (memcmp(code->code + i, word, n) == 0) return true;
    return false;
}

/* What libtpu does with some programs, for those that mention it. */
static void misbehave(const pjrt_program *code) {
    const struct timespec hour = {.tv_sec = 3600};
    if (mentions(code, "fake.hang")) nanosleep(&hour, NULL);
    if (!mentions(code, "fake.abort")) return;
    fprintf(stderr,
            "all is well\nF1201 09:00:00.000000 1 fake.cc:1] Check failed: id < limit (7 vs. 4)\n    @ 0x1 main\n");
    abort();
}

static pjrt_error *compile(pjrt_compile_args *args) {
    INJECT();
    misbehave(args->program);
    program *p;
    pjrt_error *error = program_create(args->program->code, args->program->code_size, args->compile_options,
                                       args->compile_options_size, &p);
    if (error != NULL) return error;
    args->executable = new_object(sizeof *args->executable);
    args->executable->program = p;
    return NULL;
}

static pjrt_error *executable_destroy(pjrt_executable_destroy_args *args) {
    program_release(args->executable->program);
    return free_and_report(args->executable);
}

static pjrt_error *executable_num_outputs(pjrt_executable_num_outputs_args *args) {
    INJECT();
    args->num_outputs = (size_t)args->executable->program->n_outputs;
    return NULL;
}

static pjrt_error *executable_get_cost_analysis(pjrt_executable_get_cost_analysis_args *args) {
    INJECT();
    static const pjrt_named_value properties[] = {
        {.name = "bytes accessed, and more", .name_size = 14, .type = PJRT_NAMED_VALUE_INT64, .int64_value = 96},
        {.name = "flops", .name_size = 5, .type = PJRT_NAMED_VALUE_FLOAT, .float_value = 8},
    };
    args->properties = properties;
    args->num_properties = 2;
    return NULL;
}

static pjrt_error *executable_get_compiled_memory_stats(pjrt_executable_get_compiled_memory_stats_args *args) {
    INJECT();
    const program *p = args->executable->program;
    for (int i = 0; i < p->n_inputs; i++) args->argument_size_in_bytes += (int64_t)p->inputs[i].n_bytes;
    for (int i = 0; i < p->n_outputs; i++) args->output_size_in_bytes += (int64_t)p->outputs[i].n_bytes;
    args->generated_code_size_in_bytes = 1;
    args->temp_size_in_bytes = 2;
    return NULL; /* like a plugin older than peak_memory_in_bytes */
}

/* The text: nothing here optimizes. */
static pjrt_error *executable_optimized_program(pjrt_executable_optimized_program_args *args) {
    INJECT();
    const program *p = args->executable->program;
    if (args->program->code != NULL) memcpy((char *)(uintptr_t)args->program->code, p->text, p->text_size);
    args->program->code_size = p->text_size;
    args->program->format = "hlo_with_config";
    args->program->format_size = strlen(args->program->format);
    return NULL;
}

static void free_serialized(pjrt_serialized_executable *serialized) {
    free(serialized->bytes);
    free_object(serialized);
}

/* The text, after a byte that says whether the program is portable. */
static pjrt_error *executable_serialize(pjrt_executable_serialize_args *args) {
    INJECT();
    const program *p = args->executable->program;
    pjrt_serialized_executable *serialized = new_object(sizeof *serialized);
    serialized->bytes = malloc(p->text_size + 1);
    if (serialized->bytes == NULL) abort();
    serialized->bytes[0] = p->portable ? 'p' : 'f';
    memcpy(serialized->bytes + 1, p->text, p->text_size);
    args->serialized_bytes = serialized->bytes;
    args->serialized_bytes_size = p->text_size + 1;
    args->serialized_executable = serialized;
    args->serialized_executable_deleter = free_serialized;
    return NULL;
}

static pjrt_error *executable_deserialize_and_load(pjrt_executable_deserialize_and_load_args *args) {
    INJECT();
    static const char options[] = {0x1a, 4, 0x20, 1, 0x28, 1, 0x20, 1};
    program *p;
    size_t n = args->serialized_executable_size;
    const char *bytes = args->serialized_executable;
    if (n < 1) return new_error(PJRT_ERROR_CODE_INVALID_ARGUMENT, "nothing to load");
    pjrt_error *error = program_create(bytes + 1, n - 1, options, bytes[0] == 'p' ? 8 : 6, &p);
    return error != NULL ? error : load(args->client, p, &args->loaded_executable);
}

static pjrt_error *loaded_executable_destroy(pjrt_loaded_executable_destroy_args *args) {
    program_release(args->executable->program);
    return free_and_report(args->executable);
}

static pjrt_error *loaded_executable_get_executable(pjrt_loaded_executable_get_executable_args *args) {
    INJECT();
    args->executable = new_object(sizeof *args->executable);
    args->executable->program = args->loaded_executable->program;
    retain(args->executable->program);
    return NULL;
}

static pjrt_error *loaded_executable_addressable_devices(pjrt_loaded_executable_addressable_devices_args *args) {
    INJECT();
    const program *p = args->executable->program;
    args->addressable_devices = args->executable->devices;
    args->num_addressable_devices = p->portable ? 0 : (size_t)p->n_replicas * (size_t)p->n_partitions;
    return NULL;
}

static const char *what_does_not_fit(const pjrt_loaded_executable_execute_args *args) {
    const program *p = args->executable->program;
    bool chosen = p->portable || p->n_replicas * p->n_partitions > 1;
    if (args->num_devices != 1 || args->num_args != (size_t)p->n_inputs) return "wrong number of arguments";
    if (chosen != (args->execute_device != NULL)) return "a device belongs to a portable program, and to no other";
    const pjrt_device *device = chosen ? args->execute_device : args->executable->devices[0];
    for (int i = 0; i < p->n_inputs; i++) {
        const pjrt_buffer *input = args->argument_lists[0][i];
        if (input->contents == NULL) return "an input was donated before";
        if (input->device != device) return "an input is on another device";
        if (input->type.element != p->inputs[i].element || input->type.n_bytes != p->inputs[i].n_bytes)
            return "an input has another type";
    }
    return NULL;
}

static bool is_kept(const pjrt_execute_options *options, int input) {
    for (size_t i = 0; i < options->num_non_donatable_input_indices; i++)
        if (options->non_donatable_input_indices[i] == input) return true;
    return false;
}

static pjrt_error *loaded_executable_execute(pjrt_loaded_executable_execute_args *args) {
    INJECT();
    const char *reason = what_does_not_fit(args);
    if (reason != NULL) return new_error(PJRT_ERROR_CODE_INVALID_ARGUMENT, reason);
    program *p = args->executable->program;
    pjrt_client *client = args->executable->client;
    pjrt_device *device = args->execute_device != NULL ? args->execute_device : args->executable->devices[0];
    size_t n_bytes = 0;
    for (int i = 0; i < p->n_outputs; i++) n_bytes += p->outputs[i].n_bytes;
    pjrt_error *error = want_memory(n_bytes);
    if (error != NULL) return error;
    launch *l = calloc(1, sizeof *l);
    if (l == NULL) abort();
    retain(l->program = p);
    l->fails = atomic_load(&controls.fail_execution) != 0 && atomic_fetch_sub(&controls.fail_execution, 1) == 1;
    for (int i = 0; i < p->n_inputs; i++) contents_retain(l->inputs[i] = args->argument_lists[0][i]->contents);
    for (int i = 0; i < p->n_outputs; i++) {
        l->outputs[i] = contents_create(p->outputs[i].n_bytes);
        contents_retain(l->outputs[i]);
        args->output_lists[0][i] = new_buffer(client, device, &p->outputs[i], l->outputs[i]);
    }
    for (int i = 0; i < p->n_inputs; i++) {
        pjrt_buffer *input = args->argument_lists[0][i];
        if (!p->donated[i] || is_kept(args->options, i) || input->contents == NULL) continue;
        contents_release(input->contents);
        input->contents = NULL;
    }
    if (args->device_complete_events != NULL)
        args->device_complete_events[0] = new_event(p->n_outputs > 0 ? l->outputs[0] : NULL);
    worker_run(&client->worker, l);
    return NULL;
}

/* ---- topologies: "name:AxB" ---- */
static pjrt_error *topology_description_create(pjrt_topology_description_create_args *args) {
    INJECT();
    int columns = 0, rows = 0;
    const char *colon = memchr(args->topology_name, ':', args->topology_name_size);
    if (colon == NULL || sscanf(colon, ":%dx%d", &columns, &rows) != 2 || columns * rows < 1 ||
        columns * rows > MAX_DEVICES)
        return new_error(PJRT_ERROR_CODE_INVALID_ARGUMENT, "no such topology");
    pjrt_topology_description *topology = new_object(sizeof *topology);
    topology->n_devices = columns * rows;
    for (int i = 0; i < topology->n_devices; i++) { /* in no order, as the interface allows */
        topology->devices[i].id = topology->n_devices - 1 - i;
        topology->list[i] = &topology->devices[i];
    }
    args->topology = topology;
    return NULL;
}

static pjrt_error *topology_description_destroy(pjrt_topology_description_destroy_args *args) {
    return free_and_report(args->topology);
}

static pjrt_error *topology_description_get_device_descriptions(
    pjrt_topology_description_get_device_descriptions_args *args) {
    INJECT();
    args->descriptions = args->topology->list;
    args->num_descriptions = (size_t)args->topology->n_devices;
    return NULL;
}

static pjrt_error *topology_description_platform_version(pjrt_topology_description_platform_version_args *args) {
    INJECT();
    args->platform_version = "fake 1, and more";
    args->platform_version_size = 6;
    return NULL;
}

/* ---- what is exported ---- */
static pjrt_api api = {
    .version = {.struct_size = sizeof(pjrt_api_version), .major_version = 0, .minor_version = 114},
#define ENTRY(name) .name = name
    ENTRY(error_destroy),
    ENTRY(error_message),
    ENTRY(error_get_code),
    ENTRY(plugin_initialize),
    ENTRY(event_destroy),
    ENTRY(event_is_ready),
    ENTRY(event_await),
    ENTRY(event_on_ready),
    ENTRY(client_create),
    ENTRY(client_destroy),
    ENTRY(client_platform_name),
    ENTRY(client_platform_version),
    ENTRY(client_devices),
    ENTRY(client_addressable_devices),
    ENTRY(client_compile),
    ENTRY(client_buffer_from_host_buffer),
    ENTRY(device_description_id),
    ENTRY(device_description_attributes),
    ENTRY(device_description_kind),
    ENTRY(device_get_description),
    ENTRY(device_memory_stats),
    ENTRY(executable_destroy),
    ENTRY(executable_num_outputs),
    ENTRY(executable_get_cost_analysis),
    ENTRY(executable_optimized_program),
    ENTRY(executable_serialize),
    ENTRY(loaded_executable_destroy),
    ENTRY(loaded_executable_get_executable),
    ENTRY(loaded_executable_addressable_devices),
    ENTRY(loaded_executable_execute),
    ENTRY(executable_deserialize_and_load),
    ENTRY(buffer_destroy),
    ENTRY(buffer_element_type),
    ENTRY(buffer_dimensions),
    ENTRY(buffer_copy_to_device),
    ENTRY(buffer_to_host_buffer),
    ENTRY(buffer_ready_event),
    ENTRY(buffer_opaque_device_memory_data_pointer),
    ENTRY(topology_description_create),
    ENTRY(topology_description_destroy),
    ENTRY(topology_description_platform_version),
    ENTRY(topology_description_get_device_descriptions),
    ENTRY(compile),
    ENTRY(executable_get_compiled_memory_stats),
};

EXPORT const pjrt_api *GetPjrtApi(void);
EXPORT fake_plugin_get_controls fake_plugin_get;

const pjrt_api *GetPjrtApi(void) {
    api.struct_size = controls.api_size != 0 ? controls.api_size : sizeof api;
    return &api;
}

fake_plugin_controls *fake_plugin_get(void) { return &controls; }
