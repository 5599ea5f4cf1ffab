#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "base/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef TPJ_DEBUG
enum { MAX_HELD = 16 };
static _Thread_local const tpj_lock *held[MAX_HELD];
static _Thread_local int n_held;

static void note_acquire(const tpj_lock *lock) {
    for (int i = 0; i < n_held; i++)
        if (held[i]->rank >= lock->rank) {
            fprintf(stderr, "lock order: %s (rank %d) taken while holding %s (rank %d)\n", lock->name, lock->rank,
                    held[i]->name, held[i]->rank);
            abort();
        }
    if (n_held == MAX_HELD) abort();
    held[n_held++] = lock;
}

static void note_release(const tpj_lock *lock) {
    for (int i = n_held - 1; i >= 0; i--)
        if (held[i] == lock) {
            held[i] = held[--n_held];
            return;
        }
    fprintf(stderr, "lock order: %s released by a thread that does not hold it\n", lock->name);
    abort();
}
#else
static inline void note_acquire(const tpj_lock *lock) { (void)lock; }
static inline void note_release(const tpj_lock *lock) { (void)lock; }
#endif

void tpj_lock_init(tpj_lock *lock, tpj_rank rank, const char *name) {
    pthread_mutex_init(&lock->mutex, NULL);
    lock->rank = rank;
    lock->name = name;
}

void tpj_lock_destroy(tpj_lock *lock) { pthread_mutex_destroy(&lock->mutex); }

void tpj_lock_acquire(tpj_lock *lock) {
    note_acquire(lock);
    pthread_mutex_lock(&lock->mutex);
}

void tpj_lock_release(tpj_lock *lock) {
    note_release(lock);
    pthread_mutex_unlock(&lock->mutex);
}

void tpj_lock_wait(tpj_lock *lock, pthread_cond_t *condition) { pthread_cond_wait(condition, &lock->mutex); }

void tpj_lock_wait_for(tpj_lock *lock, pthread_cond_t *condition, int milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += milliseconds % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(condition, &lock->mutex, &until);
}
