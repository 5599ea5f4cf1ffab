/* Events: everything launched on a device before the event was recorded has finished. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "eager/internal.h"

/* What one recording waits for. Counted: the plugin's callbacks may come after the event has been destroyed. */
typedef struct mark {
    _Atomic int references;
    _Atomic int n_waiting;
    _Atomic int64_t finished; /* nanoseconds, monotonic: the latest so far */
    int n_completions;
    tpj_completion *completions[];
} mark;

struct tpj_event {
    tpj_lock lock;
    mark *recorded; /* NULL: never recorded */
};

static void release_mark(mark *m) {
    if (m == NULL || atomic_fetch_sub(&m->references, 1) != 1) return;
    for (int i = 0; i < m->n_completions; i++) tpj_completion_release(m->completions[i]);
    free(m);
}

static void launch_finished(void *context, int64_t nanoseconds) {
    mark *m = context;
    int64_t latest = atomic_load(&m->finished);
    while (latest < nanoseconds && !atomic_compare_exchange_weak(&m->finished, &latest, nanoseconds)) {}
    atomic_fetch_sub(&m->n_waiting, 1);
    release_mark(m);
}

/* A launch can be over a moment before its callback runs: it is the callback that brings the time, so it is waited for. */
static void await_callbacks(const mark *m) {
    while (atomic_load(&m->n_waiting) > 0) sched_yield();
}

static bool is_complete(const mark *m) {
    if (atomic_load(&m->n_waiting) == 0) return true;
    for (int i = 0; i < m->n_completions; i++)
        if (!tpj_completion_is_ready(m->completions[i])) return false;
    await_callbacks(m);
    return true;
}

tpj_status *tpj_event_create(tpj_event **out_event) {
    *out_event = calloc(1, sizeof **out_event);
    if (*out_event == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    tpj_lock_init(&(*out_event)->lock, TPJ_RANK_STORAGE, "event");
    return NULL;
}

void tpj_event_destroy(tpj_event *event) {
    if (event == NULL) return;
    release_mark(event->recorded);
    tpj_lock_destroy(&event->lock);
    free(event);
}

static mark *take_mark(tpj_event *event) {
    tpj_lock_acquire(&event->lock);
    mark *m = event->recorded;
    if (m != NULL) atomic_fetch_add(&m->references, 1);
    tpj_lock_release(&event->lock);
    return m;
}

/* The launches that run on a device: those whose results are held, and those whose results are gone. */
static tpj_status *take_running(tpj_device *device, mark **out_mark) {
    tpj_buffer **buffers = NULL;
    tpj_unfinished_launch *launches = NULL;
    int n_buffers = 0, n_launches = 0;
    tpj_status *status = tpj_device_live_buffers(device, &buffers, NULL, &n_buffers);
    if (status == NULL) status = tpj_unfinished_list(&device->unfinished, &launches, &n_launches);
    mark *m = malloc(sizeof *m + sizeof *m->completions * (size_t)(n_buffers + n_launches));
    if (m == NULL && status == NULL) status = tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory");
    if (m != NULL) *m = (mark){.references = 1};
    for (int i = 0; i < n_launches && status == NULL; i++) {
        tpj_completion_retain(launches[i].completion);
        m->completions[m->n_completions++] = launches[i].completion;
    }
    for (int i = 0; i < n_buffers; i++) {
        tpj_completion *completion = NULL;
        tpj_status *failed = status == NULL ? tpj_buffer_completion(buffers[i], &completion) : NULL;
        tpj_status_destroy(failed); /* a failed buffer is finished; its error belongs to its reader */
        if (completion != NULL) m->completions[m->n_completions++] = completion;
        tpj_buffer_release(buffers[i]);
    }
    free(buffers);
    tpj_unfinished_list_destroy(launches, n_launches);
    if (status != NULL) {
        release_mark(m);
        return status;
    }
    *out_mark = m;
    return NULL;
}

tpj_status *tpj_event_record(tpj_event *event, int ordinal) {
    tpj_device *device;
    mark *m;
    TPJ_TRY(tpj_device_get(ordinal, &device));
    TPJ_TRY(tpj_backlog_settle(device));
    TPJ_TRY(take_running(device, &m));
    atomic_store(&m->references, 1 + m->n_completions);
    atomic_store(&m->n_waiting, m->n_completions);
    atomic_store(&m->finished, tpj_clock_now());
    for (int i = 0; i < m->n_completions; i++) {
        tpj_status *asked = tpj_completion_on_ready(m->completions[i], launch_finished, m);
        if (asked != NULL) launch_finished(m, tpj_clock_now());
        tpj_status_destroy(asked);
    }
    tpj_lock_acquire(&event->lock);
    mark *old = event->recorded;
    event->recorded = m;
    tpj_lock_release(&event->lock);
    release_mark(old);
    return NULL;
}

tpj_status *tpj_event_synchronize(tpj_event *event) {
    mark *m = take_mark(event);
    if (m == NULL) return NULL; /* PyTorch: an event that was never recorded is complete */
    tpj_status *first = NULL;
    for (int i = 0; i < m->n_completions; i++) {
        tpj_status *status = tpj_completion_wait(m->completions[i]);
        if (first == NULL)
            first = status;
        else
            tpj_status_destroy(status);
    }
    await_callbacks(m);
    release_mark(m);
    return first;
}

bool tpj_event_query(tpj_event *event) {
    mark *m = take_mark(event);
    bool complete = m == NULL || is_complete(m);
    release_mark(m);
    return complete;
}

tpj_status *tpj_event_elapsed(tpj_event *start, tpj_event *end, double *out_milliseconds) {
    mark *from = take_mark(start), *to = take_mark(end);
    tpj_status *status = NULL;
    if (from == NULL || to == NULL)
        status =
            tpj_status_create(TPJ_RUNTIME, "both events must be recorded before the time between them is asked for");
    else if (!is_complete(from) || !is_complete(to))
        status =
            tpj_status_create(TPJ_RUNTIME, "both events must be completed before the time between them is asked for");
    else
        *out_milliseconds = (double)(atomic_load(&to->finished) - atomic_load(&from->finished)) * 1e-6;
    release_mark(from);
    release_mark(to);
    return status;
}
