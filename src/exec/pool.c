#define _POSIX_C_SOURCE 200809L /* sysconf */
#include "exec/pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/interrupt.h"
#include "base/lock.h"

typedef struct job {
    struct job *next;
    void (*run)(void *context);
    void *context;
} job;

static tpj_lock lock = TPJ_LOCK_INIT(TPJ_RANK_QUEUE, "compile threads");
static pthread_cond_t has_job = PTHREAD_COND_INITIALIZER, job_ended = PTHREAD_COND_INITIALIZER;
static job *first, **last = &first;
static int n_threads, n_running, n_queued;
static bool started, stopped;

static void *work(void *nothing) {
    (void)nothing;
    tpj_lock_acquire(&lock);
    for (;;) {
        while (first == NULL) tpj_lock_wait(&lock, &has_job);
        job *one = first;
        first = one->next;
        if (first == NULL) last = &first;
        n_queued--;
        n_running++;
        tpj_lock_release(&lock);
        one->run(one->context);
        free(one);
        tpj_lock_acquire(&lock);
        n_running--;
        pthread_cond_broadcast(&job_ended);
    }
    return NULL;
}

static void start_locked(void) {
    enum { MOST_THREADS = 16 };
    int64_t wanted = tpj_config_compile_threads();
    started = true;
    if (wanted < 0) {
        wanted = sysconf(_SC_NPROCESSORS_ONLN);
        if (wanted > MOST_THREADS) wanted = MOST_THREADS;
    }
    for (int64_t i = 0; i < wanted; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL) != 0) break;
        pthread_detach(thread);
        n_threads++;
    }
}

bool tpj_pool_submit(void (*run)(void *context), void *context) {
    if (tpj_config_compile_threads() == 0) return false;
    job *one = malloc(sizeof *one);
    if (one == NULL) return false;
    *one = (job){NULL, run, context};
    tpj_lock_acquire(&lock);
    if (!started) start_locked();
    bool accepted = n_threads > 0 && !stopped;
    if (accepted) {
        *last = one;
        last = &one->next;
        n_queued++;
        pthread_cond_signal(&has_job);
    }
    tpj_lock_release(&lock);
    if (!accepted) free(one);
    return accepted;
}

tpj_status *tpj_pool_wait(bool (*done)(const void *context), const void *context) {
    for (;;) {
        tpj_lock_acquire(&lock);
        bool ended = done(context);
        if (!ended) tpj_lock_wait_for(&lock, &job_ended, TPJ_WAIT_SLICE);
        ended = ended || done(context);
        tpj_lock_release(&lock);
        if (ended) return NULL;
        TPJ_TRY(tpj_interrupt_check());
    }
}

static bool is_idle(const void *nothing) {
    (void)nothing;
    return n_running == 0 && n_queued == 0;
}

tpj_status *tpj_pool_drain(void) { return tpj_pool_wait(is_idle, NULL); }

void tpj_pool_stop(int milliseconds) {
    int64_t until = tpj_clock_now() + (int64_t)milliseconds * 1000000;
    tpj_lock_acquire(&lock);
    stopped = true;
    first = NULL; /* what they would have made is not asked for any more; the process ends */
    last = &first;
    n_queued = 0;
    while (n_running > 0 && tpj_clock_now() < until) tpj_lock_wait_for(&lock, &job_ended, TPJ_WAIT_SLICE);
    tpj_lock_release(&lock);
}
