#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

fake_plugin_controls controls;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void *new_object(size_t n_bytes) {
    void *object = calloc(1, n_bytes);
    if (object == NULL) abort();
    atomic_fetch_add(&controls.n_live, 1);
    return object;
}

void free_object(void *object) {
    if (object == NULL) abort(); /* destroyed twice, or never made */
    free(object);
    atomic_fetch_sub(&controls.n_live, 1);
}

/* ---- errors ---- */
pjrt_error *new_error(int code, const char *message) {
    pjrt_error *error = new_object(sizeof *error);
    error->code = code;
    snprintf(error->message, sizeof error->message, "%s", message);
    return error;
}

pjrt_error *injected_fault(void) {
    atomic_fetch_add(&controls.n_calls, 1);
    if (atomic_load(&controls.fail_call) == 0 || atomic_fetch_sub(&controls.fail_call, 1) != 1) return NULL;
    return new_error(PJRT_ERROR_CODE_INTERNAL, "injected fault");
}

pjrt_error *want_memory(size_t n_bytes) {
    long long limit = atomic_load(&controls.memory_limit);
    if (limit == 0 || atomic_load(&controls.memory_held) + (long long)n_bytes <= limit) return NULL;
    return new_error(PJRT_ERROR_CODE_RESOURCE_EXHAUSTED, "out of device memory");
}

pjrt_error *free_and_report(void *object) {
    free_object(object);
    if (!atomic_load(&controls.fail_destroy)) return NULL;
    return new_error(PJRT_ERROR_CODE_INTERNAL, "injected fault of a destroy");
}

void error_destroy(pjrt_error_destroy_args *args) { free_object(args->error); }

void error_message(pjrt_error_message_args *args) {
    args->message = args->error->message;
    args->message_size = strlen(args->error->message);
}

pjrt_error *error_get_code(pjrt_error_get_code_args *args) {
    args->code = args->error->code;
    return NULL;
}

/* ---- contents ---- */
contents *contents_create(size_t n_bytes) {
    contents *c = calloc(1, sizeof *c);
    unsigned char *bytes = calloc(1, n_bytes + 1);
    if (c == NULL || bytes == NULL) abort();
    *c = (contents){.n_references = 1, .n_bytes = n_bytes, .bytes = bytes};
    atomic_fetch_add(&controls.memory_held, (long long)n_bytes);
    return c;
}

void contents_retain(contents *c) {
    pthread_mutex_lock(&lock);
    c->n_references++;
    pthread_mutex_unlock(&lock);
}

/* With the lock held, so that whoever waited for a launch finds its memory given back. */
static void release_locked(contents *c) {
    if (--c->n_references > 0) return;
    atomic_fetch_sub(&controls.memory_held, (long long)c->n_bytes);
    free(c->bytes);
    free(c);
}

void contents_release(contents *c) {
    pthread_mutex_lock(&lock);
    release_locked(c);
    pthread_mutex_unlock(&lock);
}

static pjrt_error *device_error(void) { return new_error(PJRT_ERROR_CODE_INTERNAL, "the launch failed on the device"); }

void contents_settle(contents *c, bool ok) {
    pthread_mutex_lock(&lock);
    c->state = ok ? READY : FAILED;
    ready_callback *callbacks = c->callbacks;
    c->callbacks = NULL;
    release_locked(c);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (ready_callback *next; callbacks != NULL; callbacks = next) {
        next = callbacks->next;
        callbacks->call(ok ? NULL : device_error(), callbacks->user_arg);
        free(callbacks);
    }
}

bool contents_wait(contents *c) {
    pthread_mutex_lock(&lock);
    while (c->state == PENDING) pthread_cond_wait(&changed, &lock);
    bool ok = c->state == READY;
    pthread_mutex_unlock(&lock);
    return ok;
}

/* ---- events ---- */
pjrt_event *new_event(contents *of) {
    pjrt_event *event = new_object(sizeof *event);
    event->of = of;
    if (of != NULL) contents_retain(of);
    return event;
}

pjrt_error *event_destroy(pjrt_event_destroy_args *args) {
    if (args->event->of != NULL) contents_release(args->event->of);
    return free_and_report(args->event);
}

pjrt_error *event_is_ready(pjrt_event_is_ready_args *args) {
    INJECT();
    pthread_mutex_lock(&lock);
    args->is_ready = args->event->of == NULL || args->event->of->state != PENDING;
    pthread_mutex_unlock(&lock);
    return NULL;
}

pjrt_error *event_await(pjrt_event_await_args *args) {
    INJECT();
    return args->event->of == NULL || contents_wait(args->event->of) ? NULL : device_error();
}

pjrt_error *event_on_ready(pjrt_event_on_ready_args *args) {
    INJECT();
    contents *c = args->event->of;
    pthread_mutex_lock(&lock);
    bool pending = c != NULL && c->state == PENDING, ok = c == NULL || c->state == READY;
    if (pending) {
        ready_callback *callback = malloc(sizeof *callback);
        if (callback == NULL) abort();
        *callback = (ready_callback){args->callback, args->user_arg, c->callbacks};
        c->callbacks = callback;
    }
    pthread_mutex_unlock(&lock);
    if (!pending) args->callback(ok ? NULL : device_error(), args->user_arg);
    return NULL;
}
