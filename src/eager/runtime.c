/* The plugin, its client and the devices' state: made at the first use, never destroyed. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/config.h"
#include "eager/internal.h"
#include "pjrt/plan.h"

static pthread_mutex_t start_mutex =
    PTHREAD_MUTEX_INITIALIZER; /* alone: nothing else is taken before the client exists */
static char *configured_path, *configured_reason;
static int configured_devices = 1;
static tpj_client *client; /* written once, under the mutex, before `devices` */
static tpj_device *devices;
static int n_devices;
static bool forked; /* this process is a child of the one that made the client */

void tpj_runtime_configure(const char *plugin_path, const char *reason_when_none, int n) {
    pthread_mutex_lock(&start_mutex);
    free(configured_path);
    free(configured_reason);
    configured_path = strdup(plugin_path != NULL ? plugin_path : "");
    configured_reason = strdup(reason_when_none != NULL ? reason_when_none : "");
    configured_devices = n > 0 ? n : 1;
    pthread_mutex_unlock(&start_mutex);
}

static void mark_child(void) { forked = client != NULL; }

bool tpj_runtime_in_bad_fork(void) { return forked; }

/* Of a CPU plugin it is the machine's. A planning device takes what does not fit, and reports it. */
static int64_t memory_of(tpj_client *made, int ordinal) {
    tpj_memory_stats stats;
    struct sysinfo machine;
    if (tpj_client_plans(made)) return INT64_MAX;
    tpj_status_destroy(tpj_client_memory_stats(made, ordinal, &stats));
    if (stats.known && stats.bytes_limit > 0) return stats.bytes_limit;
    if (sysinfo(&machine) != 0) return INT64_MAX;
    return (int64_t)((uint64_t)machine.totalram + machine.totalswap) * machine.mem_unit;
}

static tpj_status *start_locked(void) {
    tpj_plugin *plugin;
    tpj_client *made;
    TPJ_TRY(tpj_config_load());
    if (configured_path == NULL || configured_path[0] == '\0')
        TPJ_ERROR(TPJ_UNAVAILABLE, "no tpu device: %s",
                  configured_reason != NULL && configured_reason[0] != '\0' ? configured_reason
                                                                            : "no PJRT plugin was found");
    TPJ_TRY(tpj_plugin_open(configured_path, false, &plugin));
    TPJ_TRY(tpj_client_create(plugin, configured_devices, &made));
    int n = tpj_client_n_devices(made);
    tpj_device *made_devices = calloc((size_t)(n > 0 ? n : 1), sizeof *made_devices);
    if (n < 1 || made_devices == NULL) {
        tpj_client_destroy(made);
        free(made_devices);
        if (n < 1) TPJ_ERROR(TPJ_UNAVAILABLE, "the plugin %s has no devices", configured_path);
        TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    }
    for (int i = 0; i < n; i++) {
        made_devices[i].ordinal = i;
        made_devices[i].n_bytes = memory_of(made, i);
        made_devices[i].window.id = 1; /* storages without a slot have 0 */
        tpj_lock_init(&made_devices[i].lock, TPJ_RANK_RECORDER, "device order");
        tpj_lock_init(&made_devices[i].unfinished.lock, TPJ_RANK_STORAGE, "unfinished launches");
    }
    n_devices = n;
    devices = made_devices;
    pthread_atfork(NULL, NULL, mark_child); /* cheaper than asking for the process' number at every call */
    __atomic_store_n(&client, made, __ATOMIC_RELEASE);
    return NULL;
}

tpj_status *tpj_runtime_start(void) {
    if (__atomic_load_n(&client, __ATOMIC_ACQUIRE) == NULL) {
        pthread_mutex_lock(&start_mutex);
        tpj_status *status = client == NULL ? start_locked() : NULL;
        pthread_mutex_unlock(&start_mutex);
        return status;
    }
    if (tpj_runtime_in_bad_fork())
        TPJ_ERROR(TPJ_RUNTIME,
                  "the tpu device cannot be used in a forked process after its parent used it. Start the process with "
                  "multiprocessing's 'spawn' or 'forkserver' method, or use the device first in the child");
    return NULL;
}

bool tpj_runtime_started(void) { return __atomic_load_n(&client, __ATOMIC_ACQUIRE) != NULL; }
tpj_client *tpj_runtime_client(void) { return __atomic_load_n(&client, __ATOMIC_ACQUIRE); }

/* A CPU plugin's number of devices is what we ask it for; only a TPU has to be asked. */
tpj_status *tpj_runtime_n_devices(int *out_n) {
    *out_n = 0;
    if (!tpj_runtime_started()) {
        pthread_mutex_lock(&start_mutex);
        bool none = configured_path == NULL || configured_path[0] == '\0';
        bool tpu = !none && strstr(configured_path, "libtpu") != NULL;
        *out_n = none ? 0 : configured_devices;
        pthread_mutex_unlock(&start_mutex);
        if (!tpu) return NULL;
        TPJ_TRY(tpj_runtime_start());
    }
    *out_n = n_devices;
    return NULL;
}

tpj_device *tpj_device_peek(int ordinal) {
    if (!tpj_runtime_started() || ordinal < 0 || ordinal >= n_devices) return NULL;
    return &devices[ordinal];
}

tpj_status *tpj_device_get(int ordinal, tpj_device **out_device) {
    TPJ_TRY(tpj_runtime_start());
    if (ordinal < 0 || ordinal >= n_devices)
        TPJ_ERROR(TPJ_RUNTIME, "tpu:%d does not exist: there %s %d tpu device%s", ordinal,
                  n_devices == 1 ? "is" : "are", n_devices, n_devices == 1 ? "" : "s");
    *out_device = &devices[ordinal];
    return NULL;
}

/* The first error of calls that waited which nobody has met by reading a result. */
static tpj_status *take_failure(tpj_device *device) {
    tpj_lock_acquire(&device->lock);
    tpj_status *status = device->failure;
    device->failure = NULL;
    tpj_lock_release(&device->lock);
    return status;
}

/* What a device's work came to: the first error, and only the interruption once there was one. Takes the status. */
static void note_first(tpj_status **first, tpj_status *status) {
    bool interrupted = tpj_status_code(status) == TPJ_INTERRUPTED;
    if (*first == NULL || (interrupted && tpj_status_code(*first) != TPJ_INTERRUPTED)) {
        tpj_status_destroy(*first);
        *first = status;
    } else {
        tpj_status_destroy(status);
    }
}

static bool is_interrupted(const tpj_status *status) { return tpj_status_code(status) == TPJ_INTERRUPTED; }

static tpj_status *await_unfinished(tpj_device *device) {
    tpj_unfinished_launch *launches;
    int n;
    tpj_status *first = NULL;
    TPJ_TRY(tpj_unfinished_list(&device->unfinished, &launches, &n));
    for (int i = 0; i < n && !is_interrupted(first); i++)
        note_first(&first, tpj_program_annotate(tpj_completion_wait(launches[i].completion), launches[i].program));
    tpj_unfinished_list_destroy(launches, n);
    tpj_unfinished_forget(&device->unfinished);
    return first;
}

static tpj_status *await_live(tpj_device *device) {
    tpj_buffer **buffers;
    tpj_program **origins;
    int n;
    tpj_status *first = NULL;
    TPJ_TRY(tpj_device_live_buffers(device, &buffers, &origins, &n));
    for (int i = 0; i < n; i++) {
        if (!is_interrupted(first)) note_first(&first, tpj_program_annotate(tpj_buffer_wait(buffers[i]), origins[i]));
        tpj_buffer_release(buffers[i]);
        tpj_program_release(origins[i]);
    }
    free(buffers);
    free(origins);
    return first;
}

static tpj_status *synchronize_device(tpj_device *device) {
    TPJ_TRY(tpj_backlog_settle(device));
    TPJ_TRY(take_failure(device));
    tpj_status *first = await_live(device);
    if (!is_interrupted(first)) note_first(&first, await_unfinished(device));
    if (first != NULL && !is_interrupted(first)) {
        first = tpj_memory_explain(first, device->ordinal, -1);
        tpj_device_mark_reported(device);
    }
    return first != NULL ? first : tpj_device_take_checks(device, ALL_CHECKS);
}

tpj_status *tpj_runtime_synchronize(int ordinal) {
    if (!tpj_runtime_started()) return NULL;
    TPJ_TRY(tpj_runtime_start()); /* says so after a fork */
    tpj_status *first = NULL;
    for (int i = 0; i < n_devices; i++) {
        if (ordinal >= 0 && i != ordinal) continue;
        tpj_status *status = synchronize_device(&devices[i]);
        if (first == NULL)
            first = status;
        else
            tpj_status_destroy(status);
    }
    return first;
}
