/* Page-aligned host memory, for hooks.cpp. */
#ifndef TPJ_GLUE_PINNED_H
#define TPJ_GLUE_PINNED_H

#include <c10/core/Allocator.h>

c10::Allocator *tpj_glue_pinned_allocator() noexcept;
/* Whether the address lies in a live block of that allocator. */
bool tpj_glue_is_pinned(const void *address);

#endif
