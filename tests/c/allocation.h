/* Memory that runs out on demand, in the objects that are linked with --wrap=malloc, calloc, realloc and free (the core
 * and its tests; not the C library, not plugins). */
#ifndef TPJ_TESTS_ALLOCATION_H
#define TPJ_TESTS_ALLOCATION_H

#include <stdbool.h>

/* The Nth allocation from now on fails, and with `and_all_after` every later one; 0: none. */
void allocation_fail(int nth, bool and_all_after);
/* Whether one was refused since. */
bool allocation_has_failed(void);
/* Blocks that are allocated now. */
long allocation_n_live(void);

#endif
