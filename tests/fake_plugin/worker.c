#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

static bool same_type(const type *a, const type *b) {
    return a->element == b->element && a->rank == b->rank && memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

/* Output k copies input k when that has its type, else the first input that has; without one it stays zero. */
static const contents *source_of(const launch *l, int output) {
    const program *p = l->program;
    if (output < p->n_inputs && same_type(&p->inputs[output], &p->outputs[output])) return l->inputs[output];
    for (int i = 0; i < p->n_inputs; i++)
        if (same_type(&p->inputs[i], &p->outputs[output])) return l->inputs[i];
    return NULL;
}

static void run(launch *l) {
    program *p = l->program;
    bool ok = !l->fails;
    for (int i = 0; i < p->n_inputs; i++) ok = contents_wait(l->inputs[i]) && ok;
    for (int i = 0; i < p->n_outputs; i++) {
        const contents *source = source_of(l, i);
        if (source != NULL) memcpy(l->outputs[i]->bytes, source->bytes, source->n_bytes);
    }
    for (int i = 0; i < p->n_inputs; i++) contents_release(l->inputs[i]);
    atomic_fetch_sub(&controls.n_running, 1);
    for (int i = 0; i < p->n_outputs; i++) contents_settle(l->outputs[i], ok);
    program_release(p);
    free(l);
}

static void *work(void *argument) {
    worker *w = argument;
    unsigned seed = 1;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (w->first == NULL && !w->stopping) pthread_cond_wait(&changed, &lock);
        launch *l = w->first;
        if (l != NULL) w->first = l->next;
        if (w->first == NULL) w->last = &w->first;
        pthread_mutex_unlock(&lock);
        if (l == NULL) return NULL;
        int delay = atomic_load(&controls.delay);
        seed = seed * 1103515245u + 12345u;
        struct timespec time = {.tv_nsec = delay == 0 ? 0 : (long)(seed >> 8) % delay * 1000};
        nanosleep(&time, NULL);
        run(l);
    }
}

void worker_run(worker *w, launch *l) {
    atomic_fetch_add(&controls.n_running, 1);
    pthread_mutex_lock(&lock);
    bool at_once = !w->started && atomic_load(&controls.delay) == 0;
    if (!at_once) {
        if (!w->started) { /* from the first late launch on, all go through the thread, so that their order stays */
            w->started = true;
            w->last = &w->first;
            if (pthread_create(&w->thread, NULL, work, w) != 0) abort();
        }
        *w->last = l;
        w->last = &l->next;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    if (at_once) run(l);
}

void worker_stop(worker *w) {
    if (!w->started) return;
    pthread_mutex_lock(&lock);
    w->stopping = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(w->thread, NULL);
}
