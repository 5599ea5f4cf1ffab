/* Whether whoever waits should give up. What blocks for long (a compilation, the device) waits in slices and asks in between;
 * the layer above knows what to ask, for instance Python whether Ctrl-C was pressed.
 *
 * Threads: thread-safe. */
#ifndef TPJ_BASE_INTERRUPT_H
#define TPJ_BASE_INTERRUPT_H

#include <stdbool.h>

#include "tpj/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TPJ_WAIT_SLICE = 50 /* milliseconds */ };

/* `asked` is called on the thread that waits, which holds no lock then; NULL: nothing interrupts. */
TPJ_API void tpj_interrupt_set(bool (*asked)(void));
bool tpj_interrupt_is_possible(void); /* something was set */
/* TPJ_INTERRUPTED when the caller should give up. */
tpj_status *tpj_interrupt_check(void) TPJ_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
