/* The threads that compile. They are started by the first job and run jobs in the order in which they were given, several at
 * once.
 *
 * Threads: thread-safe. */
#ifndef TPJ_EXEC_POOL_H
#define TPJ_EXEC_POOL_H

#include <stdbool.h>

#include "tpj/status.h"

/* Runs run(context) on one of the threads, later. False: there are none (the setting compile_threads is 0, or the system
 * gives no thread), nothing will run. */
bool tpj_pool_submit(void (*run)(void *context), void *context);
/* Waits until done(context), which is asked again after each job, under the pool's lock. TPJ_INTERRUPTED. */
tpj_status *tpj_pool_wait(bool (*done)(const void *context), const void *context) TPJ_MUST_USE;
/* Waits for all jobs. TPJ_INTERRUPTED. */
tpj_status *tpj_pool_drain(void) TPJ_MUST_USE;
/* Before the process ends: jobs that have not begun never will; waits for the others, so many milliseconds at most, because
 * a compiler that is torn down while it works crashes. */
TPJ_API void tpj_pool_stop(int milliseconds);

#endif
