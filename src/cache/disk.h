/* Compiled programs in a folder, from one process to the next. One file a program, named by the hash of its key; a reader
 * compares the whole key and a checksum, a writer renames a finished file into place, so that any number of processes may
 * use a folder at once and one that dies leaves nothing half written under a name that is looked up.
 *
 * Nothing here is an error to the user: a file that is damaged, truncated or of another version is a miss and is removed; a
 * folder that cannot be written is logged once and then only read.
 *
 * Threads: a folder may be used by several at once. */
#ifndef TPJ_CACHE_DISK_H
#define TPJ_CACHE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tpj_disk tpj_disk;

/* What a program depends on, in two parts so that neither has to be copied: text that is the same for all programs of a
 * client (compiler, options, machine), and the program. Borrowed during a call. */
typedef struct tpj_disk_key {
    const char *client, *module;
    size_t client_length, module_length;
} tpj_disk_key;

/* `most_bytes`: see tpj_disk_save; negative is no bound. The folder is made when something is first saved. NULL when
 * memory runs out: a NULL folder has nothing and keeps nothing. */
tpj_disk *tpj_disk_open(const char *folder, int64_t most_bytes);
void tpj_disk_close(tpj_disk *disk);

/* The bytes that were saved under the key, which the caller frees; NULL when there are none. */
void *tpj_disk_find(tpj_disk *disk, const tpj_disk_key *key, size_t *out_n_bytes);
/* Saves a program. When the folder holds more than its bound, programs leave until a quarter of it is free, those that
 * were not used for longest first. */
void tpj_disk_save(tpj_disk *disk, const tpj_disk_key *key, const void *data, size_t n_bytes);
/* Removes what was found but proved useless. */
void tpj_disk_remove(tpj_disk *disk, const tpj_disk_key *key);

/* Waits until no other process and no other thread holds the key. The lock dies with its process. Give what it returns to
 * tpj_disk_unlock. A file system without locks lets everybody through. */
int tpj_disk_lock(tpj_disk *disk, const tpj_disk_key *key);
void tpj_disk_unlock(int lock);

#endif
