#include "base/interrupt.h"

#include <stdatomic.h>
#include <stddef.h>

static bool (*_Atomic hook)(void);

void tpj_interrupt_set(bool (*asked)(void)) { atomic_store(&hook, asked); }

bool tpj_interrupt_is_possible(void) { return atomic_load_explicit(&hook, memory_order_relaxed) != NULL; }

tpj_status *tpj_interrupt_check(void) {
    bool (*asked)(void) = atomic_load(&hook);
    if (asked != NULL && asked()) TPJ_ERROR(TPJ_INTERRUPTED, "interrupted while waiting for the tpu device");
    return NULL;
}
