/* The recording of a planning device: programs, events, and the memory that the devices would hold. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "pjrt/plan_internal.h"

enum { MOST_DEVICES = 1024, LEAST_UPLOAD = 256 }; /* smaller ones are numbers: counted, and no events */

struct tpj_plan_record {
    int64_t index; /* among the records */
    tpj_plan_program program;
    tpj_plan_signature signature;
};

typedef struct plan_device {
    int64_t live, peak;
    int64_t by_type[TPJ_PLAN_TYPES], at_peak[TPJ_PLAN_TYPES];
    tpj_plan_record *last; /* that was launched */
    int64_t last_new, last_dead;
} plan_device;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* innermost: nothing is called under it */
static tpj_plan_target target = {.device_kind = "TPU", .version = "plan", .n_devices = 1};
static char *owned_kind, *owned_version; /* those of the target, once there was one */
static const pjrt_api *inner;
static int64_t (*on_read)(int64_t n_bytes, bool is_bool);
static tpj_plan_record **records;
static tpj_plan_event *events;
static size_t n_records, records_capacity, n_events, events_capacity;
static uint64_t n_launches;
static plan_device devices[MOST_DEVICES];

static bool reserve(void **array, size_t *capacity, size_t n, size_t n_bytes) {
    if (n < *capacity) return true;
    size_t larger = *capacity > 0 ? *capacity * 2 : 1024;
    void *grown = realloc(*array, larger * n_bytes);
    if (grown == NULL) return false;
    *array = grown;
    *capacity = larger;
    return true;
}

/* ---- target ---- */
const tpj_plan_target *tpj_plan_target_get(void) { return &target; }
const pjrt_api *tpj_plan_inner(void) { return inner; }

static void forget_locked(void) {
    for (size_t i = 0; i < n_records; i++) /* programs of a client that lives on are still launched */
        records[i]->program.n_launches = records[i]->program.missed_bytes = 0;
    n_events = 0;
    for (int i = 0; i < MOST_DEVICES; i++) {
        devices[i].peak = devices[i].live;
        memcpy(devices[i].at_peak, devices[i].by_type, sizeof devices[i].at_peak);
    }
}

tpj_status *tpj_plan_begin(const tpj_plan_target *wanted) {
    tpj_plugin *plugin = NULL;
    if (wanted->n_devices < 1 || wanted->n_devices > MOST_DEVICES)
        TPJ_ERROR(TPJ_VALUE, "a plan for %d devices: there may be 1 to %d", wanted->n_devices, MOST_DEVICES);
    if (wanted->execute != NULL) TPJ_TRY(tpj_plugin_open(wanted->execute, false, &plugin));
    char *kind = strdup(wanted->device_kind), *version = strdup(wanted->version);
    if (kind == NULL || version == NULL) {
        free(kind);
        free(version);
        TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    }
    pthread_mutex_lock(&mutex);
    free(owned_kind); /* clients copy what they are told */
    free(owned_version);
    owned_kind = kind;
    owned_version = version;
    target = (tpj_plan_target){kind, version, wanted->n_devices, wanted->memory_bytes, NULL};
    inner = plugin != NULL ? plugin->api : NULL;
    forget_locked();
    pthread_mutex_unlock(&mutex);
    return NULL;
}

/* ---- events ---- */
/* An event for which there is no memory is lost. */
static void add_event_locked(tpj_plan_what what, int device, int64_t subject, int64_t bytes, int64_t most) {
    if (!reserve((void **)&events, &events_capacity, n_events, sizeof *events)) return;
    events[n_events++] = (tpj_plan_event){.what = what,
                                          .device = device,
                                          .subject = subject,
                                          .bytes = bytes,
                                          .live = devices[device].live,
                                          .most = most,
                                          .nanoseconds = tpj_clock_now()};
}

void tpj_plan_on_read(int64_t (*read)(int64_t n_bytes, bool is_bool)) {
    pthread_mutex_lock(&mutex);
    on_read = read;
    pthread_mutex_unlock(&mutex);
}

void tpj_plan_mark(int64_t number) {
    pthread_mutex_lock(&mutex);
    add_event_locked(TPJ_PLAN_MARK, 0, number, 0, devices[0].live);
    pthread_mutex_unlock(&mutex);
}

bool tpj_plan_read(const tpj_plan_memory *memory) {
    pthread_mutex_lock(&mutex);
    int64_t (*ask)(int64_t n_bytes, bool is_bool) = on_read;
    pthread_mutex_unlock(&mutex);
    bool is_bool = memory->element == PJRT_BUFFER_TYPE_PRED;
    int64_t answer = ask != NULL ? ask(memory->n_bytes, is_bool) : -1;
    bool wants_true = answer >= 0 && (answer & TPJ_PLAN_TRUE) != 0;
    int64_t subject = wants_true ? answer - TPJ_PLAN_TRUE : answer;
    pthread_mutex_lock(&mutex);
    add_event_locked(TPJ_PLAN_READ, memory->device, subject, memory->n_bytes, devices[memory->device].live);
    pthread_mutex_unlock(&mutex);
    return is_bool && wants_true;
}

size_t tpj_plan_events(size_t first, size_t most, tpj_plan_event *out_events) {
    pthread_mutex_lock(&mutex);
    size_t n = first < n_events ? n_events - first : 0;
    if (n > most) n = most;
    if (n > 0) memcpy(out_events, events + first, n * sizeof *events);
    pthread_mutex_unlock(&mutex);
    return n;
}

/* ---- memory ---- */
static void count_locked(tpj_plan_memory *memory, int64_t sign) {
    plan_device *device = &devices[memory->device];
    device->live += sign * memory->n_bytes;
    device->by_type[memory->element] += sign * memory->n_bytes;
}

static void note_peak_locked(plan_device *device, int64_t most) {
    if (most <= device->peak) return;
    device->peak = most;
    memcpy(device->at_peak, device->by_type, sizeof device->at_peak);
}

void tpj_plan_allocate(tpj_plan_memory *memory, tpj_plan_what what) {
    pthread_mutex_lock(&mutex);
    plan_device *device = &devices[memory->device];
    count_locked(memory, 1);
    note_peak_locked(device, device->live);
    if (memory->n_bytes >= LEAST_UPLOAD) add_event_locked(what, memory->device, -1, memory->n_bytes, device->live);
    pthread_mutex_unlock(&mutex);
}

void tpj_plan_free(tpj_plan_memory *memory) {
    pthread_mutex_lock(&mutex);
    plan_device *device = &devices[memory->device];
    if (memory->read_by == n_launches && device->last != NULL) device->last_dead += memory->n_bytes;
    count_locked(memory, -1);
    pthread_mutex_unlock(&mutex);
}

void tpj_plan_peak(int device, int64_t out_bytes[TPJ_PLAN_TYPES]) {
    pthread_mutex_lock(&mutex);
    memset(out_bytes, 0, sizeof *out_bytes * TPJ_PLAN_TYPES);
    if (device >= 0 && device < MOST_DEVICES)
        memcpy(out_bytes, devices[device].at_peak, sizeof devices[device].at_peak);
    pthread_mutex_unlock(&mutex);
}

void tpj_plan_usage(int device, int64_t *out_live, int64_t *out_peak) {
    pthread_mutex_lock(&mutex);
    *out_live = devices[device].live;
    *out_peak = devices[device].peak;
    pthread_mutex_unlock(&mutex);
}

/* ---- programs ---- */
tpj_plan_record *tpj_plan_add_program(const pjrt_program *program, const char *options, size_t n_options) {
    tpj_plan_record *record = calloc(1, sizeof *record);
    char *module = malloc(program->code_size + 1), *copy = malloc(n_options + 1);
    bool good = record != NULL && module != NULL && copy != NULL;
    if (good) {
        memcpy(module, program->code, program->code_size);
        module[program->code_size] = '\0';
        memcpy(copy, options, n_options);
        good = tpj_plan_parse(module, &record->signature);
    }
    pthread_mutex_lock(&mutex);
    good = good && reserve((void **)&records, &records_capacity, n_records, sizeof *records);
    if (good) {
        record->index = (int64_t)n_records;
        records[n_records++] = record;
    }
    pthread_mutex_unlock(&mutex);
    if (!good) {
        if (record != NULL) tpj_plan_signature_destroy(&record->signature);
        free(record);
        free(module);
        free(copy);
        return NULL;
    }
    const tpj_plan_signature *s = &record->signature;
    tpj_plan_program *p = &record->program;
    *p = (tpj_plan_program){.module = module,
                            .options = copy,
                            .module_length = program->code_size,
                            .options_length = n_options,
                            .nanoseconds = tpj_clock_now()};
    for (int i = 0; i < s->n_inputs; i++) {
        p->argument_bytes += s->inputs[i].n_bytes;
        if (s->donated[i] != TPJ_PLAN_KEPT) p->alias_bytes += s->inputs[i].n_bytes;
    }
    for (int i = 0; i < s->n_outputs; i++) p->output_bytes += s->outputs[i].n_bytes;
    if (p->alias_bytes > p->output_bytes) p->alias_bytes = p->output_bytes;
    return record;
}

const tpj_plan_signature *tpj_plan_record_signature(const tpj_plan_record *record) { return &record->signature; }

size_t tpj_plan_n_programs(void) {
    pthread_mutex_lock(&mutex);
    size_t n = n_records;
    pthread_mutex_unlock(&mutex);
    return n;
}

bool tpj_plan_program_get(size_t index, tpj_plan_program *out_program) {
    pthread_mutex_lock(&mutex);
    bool found = index < n_records;
    if (found) *out_program = records[index]->program;
    pthread_mutex_unlock(&mutex);
    return found;
}

/* ---- launches ---- */
static void settle_missed_locked(plan_device *device) {
    if (device->last == NULL) return;
    int64_t missed = device->last_dead < device->last_new ? device->last_dead : device->last_new;
    if (missed > device->last->program.missed_bytes) device->last->program.missed_bytes = missed;
    device->last = NULL;
}

void tpj_plan_launch(tpj_plan_record *record, tpj_plan_memory *const *inputs, const bool *kept,
                     tpj_plan_memory *const *outputs) {
    const tpj_plan_signature *s = &record->signature;
    if (s->n_outputs == 0) return;
    pthread_mutex_lock(&mutex);
    plan_device *device = &devices[outputs[0]->device];
    settle_missed_locked(device);
    n_launches++;
    int64_t donated = 0, before = device->live;
    for (int i = 0; i < s->n_inputs; i++) {
        inputs[i]->read_by = n_launches;
        if (s->donated[i] == TPJ_PLAN_KEPT || kept[i]) continue;
        donated += inputs[i]->n_bytes;
        count_locked(inputs[i], -1);
        inputs[i]->n_bytes = 0;
    }
    for (int i = 0; i < s->n_outputs; i++) count_locked(outputs[i], 1);
    int64_t made = device->live - (before - donated), fresh = made > donated ? made - donated : 0;
    note_peak_locked(device, before + fresh);
    record->program.n_launches++;
    device->last = record;
    device->last_new = fresh;
    device->last_dead = 0;
    add_event_locked(TPJ_PLAN_LAUNCH, outputs[0]->device, record->index, fresh, before + fresh);
    pthread_mutex_unlock(&mutex);
}
