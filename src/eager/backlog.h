/* The calls of a device that wait for a program to be compiled, in their order. Where nothing waits, a call is launched by
 * the thread that makes it and none of this is involved. A call whose program is still being compiled returns at once: its
 * results are storages of which only type and shape are known, and every later call of the device queues up behind it.
 * Whoever comes next launches what has become possible: the compile threads, later calls, a read, a synchronisation. So a
 * read waits for what it reads, programs compile beside each other and beside the caller, and the order of launches, hence
 * every value, is as if nothing had waited.
 *
 * Calls with results of a gigabyte and more do not wait: whether there is room for them is known before anything uses them.
 *
 * A call that fails when its turn comes (the compiler refuses, the launch fails) leaves its error in its results: reading
 * them or using them raises it. The device's next synchronisation reports it where nobody did.
 *
 * Threads: thread-safe; functions that end in _locked want the device's lock. */
#ifndef TPJ_EAGER_BACKLOG_H
#define TPJ_EAGER_BACKLOG_H

#include "eager/eager.h"

struct tpj_device;
typedef struct tpj_queued_call tpj_queued_call;

typedef struct tpj_backlog {
    tpj_queued_call *first, **last; /* `last` NULL: never used */
    int n_calls;
} tpj_backlog;

/* Appends a call. Storages of results exist; those of operands are kept from being freed until its turn. */
tpj_status *tpj_backlog_add_locked(struct tpj_device *device, tpj_program *program, const tpj_operand *operands,
                                   int n_operands, const uint64_t random[2], tpj_storage *const *storages) TPJ_MUST_USE;
/* Launches from the front until there is nothing or a program that is still being compiled. */
void tpj_backlog_launch_locked(struct tpj_device *device);
/* Wait until no call of the device waits; until none writes the storage; until none reads or writes it. TPJ_INTERRUPTED.
 * Without the lock. */
tpj_status *tpj_backlog_settle(struct tpj_device *device) TPJ_MUST_USE;
tpj_status *tpj_backlog_settle_writes(struct tpj_device *device, const tpj_storage *storage) TPJ_MUST_USE;
tpj_status *tpj_backlog_settle_storage(struct tpj_device *device, const tpj_storage *storage) TPJ_MUST_USE;
/* Waits while so many calls wait that another one would be too many. TPJ_INTERRUPTED. Without the lock. */
tpj_status *tpj_backlog_make_room(struct tpj_device *device) TPJ_MUST_USE;
/* Where the latest waiting call of a program was made, for the errors of its checks; false: no call of it waits. */
bool tpj_backlog_called_at_locked(struct tpj_device *device, const tpj_program *program, const char *file, int line);

#endif
