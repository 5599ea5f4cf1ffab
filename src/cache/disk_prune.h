/* Keeping a folder of programs within its bound. */
#ifndef TPJ_CACHE_DISK_PRUNE_H
#define TPJ_CACHE_DISK_PRUNE_H

#include <stdint.h>

#include "tpj/status.h"

#define TPJ_DISK_SUFFIX ".program"
#define TPJ_DISK_DRAFT "draft-"
#define TPJ_DISK_LOCK "lock"

/* When the programs in the folder hold more than most_bytes, those that were not used for longest are removed until a
 * quarter of the bound is free. Drafts that a dead process left go too. Returns the bytes that stay. One process at a
 * time does it; the others return most_bytes / 2 at once, and look again later. Exported for the command `torch_pjrt
 * cache`. Thread-safe. */
TPJ_API int64_t tpj_disk_prune(const char *folder, int64_t most_bytes);

#endif
