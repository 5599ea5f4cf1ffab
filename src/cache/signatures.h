/* The signature cache: what a call looks like (a key of 64-bit words) to whatever was made for it. Open addressing over the
 * hash, the whole key compared on a hit, bounded by bytes with the least recently used entries leaving first.
 *
 * Threads: one thread at a time; the owner holds its lock. Values are opaque; `drop` is called for each that leaves. */
#ifndef TPJ_CACHE_SIGNATURES_H
#define TPJ_CACHE_SIGNATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tpj/status.h"

typedef struct tpj_signature_entry tpj_signature_entry;
typedef struct tpj_signatures {
    tpj_signature_entry **table; /* capacity is a power of two */
    size_t capacity, n_entries;
    size_t n_bytes, most_bytes;
    uint64_t clock; /* rises with every hit */
    void (*drop)(void *value);
} tpj_signatures;

void tpj_signatures_init(tpj_signatures *signatures, size_t most_bytes, void (*drop)(void *value));
void tpj_signatures_destroy(tpj_signatures *signatures);
/* Borrowed until the entry is replaced or evicted; NULL when there is none. */
void *tpj_signatures_find(tpj_signatures *signatures, const uint64_t *key, int n_words);
/* Takes the value; replaces an entry of the same key. n_bytes: what the value holds. */
tpj_status *tpj_signatures_insert(tpj_signatures *signatures, const uint64_t *key, int n_words, void *value,
                                  size_t n_bytes) TPJ_MUST_USE;
/* Drops entries, the least recently used first, until they hold at most n_bytes. */
void tpj_signatures_shrink(tpj_signatures *signatures, size_t n_bytes);
void tpj_signatures_clear(tpj_signatures *signatures);

#endif
