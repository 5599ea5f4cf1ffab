/* Waiting for buffers, and for what computes them once the buffers are gone. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/lock.h"
#include "pjrt/internal.h"

struct tpj_completion {
    atomic_int n_references;
    const pjrt_api *api;
    pjrt_event *event;
};

static tpj_status *ready_event(const tpj_buffer *buffer, pjrt_event **out_event) {
    TPJ_TRY(tpj_pjrt_check_fork());
    PJRT_ARGS(pjrt_buffer_ready_event_args, args, .buffer = buffer->handle);
    TPJ_TRY(PJRT_CALL(buffer->client->api, buffer_ready_event, &args));
    *out_event = args.event;
    return NULL;
}

static tpj_status *event_is_ready(const pjrt_api *api, pjrt_event *event, bool *out_ready) {
    PJRT_ARGS(pjrt_event_is_ready_args, args, .event = event);
    TPJ_TRY(PJRT_CALL(api, event_is_ready, &args));
    *out_ready = args.is_ready;
    return NULL;
}

tpj_status *tpj_buffer_is_ready(tpj_buffer *buffer, bool *out_ready) {
    pjrt_event *event;
    TPJ_TRY(ready_event(buffer, &event));
    tpj_status *status = event_is_ready(buffer->client->api, event, out_ready);
    tpj_pjrt_event_destroy(buffer->client->api, event);
    return status;
}

/* ---- completions ---- */

tpj_status *tpj_buffer_completion(tpj_buffer *buffer, tpj_completion **out_completion) {
    const pjrt_api *api = buffer->client->api;
    pjrt_event *event;
    bool ready = false;
    *out_completion = NULL;
    TPJ_TRY(ready_event(buffer, &event));
    tpj_status *status = event_is_ready(api, event, &ready);
    tpj_completion *made = status == NULL && !ready ? malloc(sizeof *made) : NULL;
    if (made != NULL) {
        *made = (tpj_completion){.n_references = 1, .api = api, .event = event};
        *out_completion = made;
        return NULL;
    }
    tpj_pjrt_event_destroy(api, event);
    if (status == NULL && !ready) status = tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory");
    return status;
}

void tpj_completion_retain(tpj_completion *completion) {
    atomic_fetch_add_explicit(&completion->n_references, 1, memory_order_relaxed);
}

void tpj_completion_release(tpj_completion *completion) {
    if (completion == NULL) return;
    if (atomic_fetch_sub_explicit(&completion->n_references, 1, memory_order_acq_rel) != 1) return;
    if (!tpj_plugin_is_forked()) tpj_pjrt_event_destroy(completion->api, completion->event);
    free(completion);
}

bool tpj_completion_is_ready(const tpj_completion *completion) {
    bool ready = true; /* an event that cannot be asked is not waited for */
    tpj_pjrt_ignore(event_is_ready(completion->api, completion->event, &ready));
    return ready;
}

typedef struct ready_callback {
    tpj_completion *completion;
    void (*done)(void *context, int64_t nanoseconds);
    void *context;
} ready_callback;

/* On a thread of the plugin, or on the caller's. A failed execution is ready too; whoever reads the buffer is told. */
static void call_done(pjrt_error *error, void *user_arg) {
    ready_callback *callback = user_arg;
    callback->done(callback->context, tpj_clock_now());
    if (error != NULL) {
        PJRT_ARGS(pjrt_error_destroy_args, args, .error = error);
        callback->completion->api->error_destroy(&args);
    }
    tpj_completion_release(callback->completion);
    free(callback);
}

tpj_status *tpj_completion_on_ready(tpj_completion *completion, void (*done)(void *context, int64_t nanoseconds),
                                    void *context) {
    ready_callback *callback = malloc(sizeof *callback);
    if (callback == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    *callback = (ready_callback){.completion = completion, .done = done, .context = context};
    tpj_completion_retain(completion);
    PJRT_ARGS(pjrt_event_on_ready_args, args, .event = completion->event, .callback = call_done, .user_arg = callback);
    tpj_status *status = PJRT_CALL(completion->api, event_on_ready, &args);
    if (status == NULL) return NULL; /* the callback is the plugin's now, or is gone already */
    tpj_completion_release(completion);
    free(callback);
    return status;
}

tpj_status *tpj_buffer_on_ready(tpj_buffer *buffer, void (*done)(void *context, int64_t nanoseconds), void *context) {
    tpj_completion *completion;
    TPJ_TRY(tpj_buffer_completion(buffer, &completion));
    if (completion == NULL) {
        done(context, tpj_clock_now());
        return NULL;
    }
    tpj_status *status = tpj_completion_on_ready(completion, done, context);
    tpj_completion_release(completion);
    return status;
}

/* ---- waiting ---- */

/* Where a wait is and how it ends: shared with the plugin's callback, which may come long after an interrupted wait. */
typedef struct gate {
    tpj_lock lock;
    pthread_cond_t opened;
    bool open;
    int n_users;
} gate;

static void leave_gate(gate *g, bool open) {
    tpj_lock_acquire(&g->lock);
    g->open = g->open || open;
    bool last = --g->n_users == 0;
    pthread_cond_signal(&g->opened);
    tpj_lock_release(&g->lock);
    if (!last) return;
    pthread_cond_destroy(&g->opened);
    tpj_lock_destroy(&g->lock);
    free(g);
}

static void open_gate(void *context, int64_t nanoseconds) {
    (void)nanoseconds;
    leave_gate(context, true);
}

/* PJRT's own wait cannot be left: where somebody may interrupt, it begins when it is known that it will end at once. */
static tpj_status *wait_in_slices(tpj_completion *completion) {
    gate *g = malloc(sizeof *g);
    if (g == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    *g = (gate){.opened = PTHREAD_COND_INITIALIZER, .n_users = 2};
    tpj_lock_init(&g->lock, TPJ_RANK_CLIENT, "wait");
    tpj_status *status = tpj_completion_on_ready(completion, open_gate, g);
    if (status != NULL) leave_gate(g, true);
    bool open = status != NULL;
    while (!open && status == NULL) {
        tpj_lock_acquire(&g->lock);
        if (!g->open) tpj_lock_wait_for(&g->lock, &g->opened, TPJ_WAIT_SLICE);
        open = g->open;
        tpj_lock_release(&g->lock);
        if (!open) status = tpj_interrupt_check();
    }
    leave_gate(g, false);
    return status;
}

tpj_status *tpj_completion_wait(tpj_completion *completion) {
    TPJ_TRY(tpj_pjrt_check_fork());
    if (tpj_interrupt_is_possible()) TPJ_TRY(wait_in_slices(completion));
    PJRT_ARGS(pjrt_event_await_args, args, .event = completion->event);
    return PJRT_CALL(completion->api, event_await, &args);
}

tpj_status *tpj_buffer_wait(tpj_buffer *buffer) {
    pjrt_event *event;
    if (tpj_interrupt_is_possible()) {
        tpj_completion *completion;
        TPJ_TRY(tpj_buffer_completion(buffer, &completion));
        tpj_status *status = completion != NULL ? wait_in_slices(completion) : NULL;
        tpj_completion_release(completion);
        if (status != NULL) return status;
    }
    TPJ_TRY(ready_event(buffer, &event));
    return tpj_pjrt_await(buffer->client->api, event);
}
