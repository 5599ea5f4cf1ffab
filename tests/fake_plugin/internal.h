/* The objects of the fake plugin. One lock guards all state that changes. */
#ifndef TPJ_TESTS_FAKE_INTERNAL_H
#define TPJ_TESTS_FAKE_INTERNAL_H

#include <pthread.h>
#include <stdint.h>

#include "fake_plugin.h"
#include "pjrt/abi.h"

enum { MAX_RANK = 8, MAX_VALUES = 64 };

extern fake_plugin_controls controls;
extern pthread_mutex_t lock;
extern pthread_cond_t changed;

/* ---- errors.c: objects, errors, events ---- */
void *new_object(size_t n_bytes); /* zeroed and counted; the plugin itself never runs out of memory */
void free_object(void *object);
pjrt_error *new_error(int code, const char *message);
pjrt_error *want_memory(size_t n_bytes);   /* an error when the limit does not allow it */
pjrt_error *free_and_report(void *object); /* what every destroy function returns */

/* A failure on demand: every function that may fail begins with it. */
pjrt_error *injected_fault(void);
#define INJECT()                              \
    do {                                      \
        pjrt_error *fault = injected_fault(); \
        if (fault != NULL) return fault;      \
    } while (0)

/* The contents of a buffer, shared with the events and the launches that wait for them. Counted, under the lock. */
typedef struct contents contents;
typedef struct ready_callback {
    void (*call)(pjrt_error *error, void *user_arg);
    void *user_arg;
    struct ready_callback *next;
} ready_callback;
struct contents {
    int n_references;
    enum { PENDING, READY, FAILED } state;
    ready_callback *callbacks;
    size_t n_bytes;
    unsigned char *bytes;
};
contents *contents_create(size_t n_bytes);
void contents_retain(contents *c);
void contents_release(contents *c);
void contents_settle(contents *c, bool ok); /* pending until now; calls the callbacks; takes a reference */
bool contents_wait(contents *c);            /* whether they are good */

struct pjrt_error {
    int code;
    char message[160];
};
struct pjrt_event {
    contents *of; /* NULL: ready */
};
pjrt_event *new_event(contents *of);
pjrt_error *event_destroy(pjrt_event_destroy_args *args);
pjrt_error *event_is_ready(pjrt_event_is_ready_args *args);
pjrt_error *event_await(pjrt_event_await_args *args);
pjrt_error *event_on_ready(pjrt_event_on_ready_args *args);
void error_destroy(pjrt_error_destroy_args *args);
void error_message(pjrt_error_message_args *args);
pjrt_error *error_get_code(pjrt_error_get_code_args *args);

/* ---- program.c: what is known of a module and its options ---- */
typedef struct type {
    int element; /* pjrt_buffer_type */
    int rank;
    int64_t dims[MAX_RANK];
    size_t n_bytes;
} type;
typedef struct program {
    atomic_int n_references;
    type inputs[MAX_VALUES], outputs[MAX_VALUES];
    bool donated[MAX_VALUES];
    int n_inputs, n_outputs;
    int n_replicas, n_partitions;
    bool portable;
    int64_t device_id; /* the first of the assignment; 0 without one */
    size_t text_size;
    char *text;
} program;
size_t element_bytes(int element); /* 0: no such type */
pjrt_error *program_create(const char *text, size_t text_size, const char *options, size_t options_size,
                           program **out_program);
void program_release(program *p);

/* ---- worker.c: launches in their order, late or at once ---- */
typedef struct launch {
    program *program;
    contents *inputs[MAX_VALUES], *outputs[MAX_VALUES];
    bool fails;
    struct launch *next;
} launch;
typedef struct worker {
    pthread_t thread;
    launch *first, **last;
    bool stopping, started;
} worker;
void worker_run(worker *w, launch *l); /* takes the launch */
void worker_stop(worker *w);           /* after all launches have ended */

#endif
