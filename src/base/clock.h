/* The one clock that times of events, callbacks and compilations are told in, so that they compare.
 *
 * Threads: thread-safe. */
#ifndef TPJ_BASE_CLOCK_H
#define TPJ_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of the monotonic clock. */
int64_t tpj_clock_now(void);

#endif
