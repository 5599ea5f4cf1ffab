/* Ranked locks. A thread may take a lock only when its rank is above those of all that it holds, so the order below is
 * the one order in which locks nest and a deadlock is impossible. Debug builds (TPJ_DEBUG) check it and abort with both
 * names. No lock is held across a PJRT call, a callback or a log sink.
 *
 * Threads: a lock is thread-safe once initialised; release it on the thread that acquired it. */
#ifndef TPJ_BASE_LOCK_H
#define TPJ_BASE_LOCK_H

#include <pthread.h>

/* The only locks of the core, outermost first. */
typedef enum tpj_rank {
    TPJ_RANK_RECORDER = 1, /* a stream's recorder */
    TPJ_RANK_STORAGE,      /* slots and their views */
    TPJ_RANK_CACHE,        /* programs in memory */
    TPJ_RANK_QUEUE,        /* compile threads */
    TPJ_RANK_CLIENT,       /* the open client */
    TPJ_RANK_PLUGIN,       /* the list of loaded plugins */
    TPJ_RANK_CONFIG,       /* settings */
    TPJ_RANK_LOG           /* the sink; innermost, so that anything may log */
} tpj_rank;

typedef struct tpj_lock {
    pthread_mutex_t mutex;
    tpj_rank rank;
    const char *name;
} tpj_lock;

/* For locks with static storage. */
#define TPJ_LOCK_INIT(rank, name) {PTHREAD_MUTEX_INITIALIZER, (rank), (name)}

/* `name` is borrowed and must outlive the lock. */
void tpj_lock_init(tpj_lock *lock, tpj_rank rank, const char *name);
void tpj_lock_destroy(tpj_lock *lock);
void tpj_lock_acquire(tpj_lock *lock);
void tpj_lock_release(tpj_lock *lock);
/* pthread_cond_wait on a held lock. */
void tpj_lock_wait(tpj_lock *lock, pthread_cond_t *condition);
/* The same for so many milliseconds at most. */
void tpj_lock_wait_for(tpj_lock *lock, pthread_cond_t *condition, int milliseconds);

#endif
