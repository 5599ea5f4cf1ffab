#include "allocation.h"

#include <stdatomic.h>
#include <stddef.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t n);
void __real_free(void *memory);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t n);
void __wrap_free(void *memory);

static atomic_int until_failure; /* 0: never */
static atomic_bool all_after, has_failed;
static atomic_long n_live;

void allocation_fail(int nth, bool and_all_after) {
    atomic_store(&has_failed, false);
    atomic_store(&all_after, and_all_after);
    atomic_store(&until_failure, nth);
}

bool allocation_has_failed(void) { return atomic_load(&has_failed); }
long allocation_n_live(void) { return atomic_load(&n_live); }

static bool fails(void) {
    if (atomic_load(&until_failure) != 0 && atomic_fetch_sub(&until_failure, 1) == 1)
        atomic_store(&has_failed, true);
    else if (!atomic_load(&has_failed) || !atomic_load(&all_after))
        return false;
    return true;
}

static void *counted(void *memory) {
    if (memory != NULL) atomic_fetch_add(&n_live, 1);
    return memory;
}

void *__wrap_malloc(size_t n) { return fails() ? NULL : counted(__real_malloc(n)); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : counted(__real_calloc(n, size)); }

void *__wrap_realloc(void *memory, size_t n) {
    if (fails()) return NULL;
    return memory == NULL ? counted(__real_malloc(n)) : __real_realloc(memory, n);
}

void __wrap_free(void *memory) {
    if (memory != NULL) atomic_fetch_sub(&n_live, 1);
    __real_free(memory);
}
