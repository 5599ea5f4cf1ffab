#include "cache/signatures.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct tpj_signature_entry {
    uint64_t hash, last_use;
    void *value;
    size_t n_bytes;
    int n_words;
    uint64_t key[];
};

static uint64_t hash_of(const uint64_t *key, int n_words) {
    return tpj_hash_words((uint64_t)n_words, key, (size_t)n_words);
}

void tpj_signatures_init(tpj_signatures *signatures, size_t most_bytes, void (*drop)(void *value)) {
    *signatures = (tpj_signatures){.most_bytes = most_bytes, .drop = drop};
}

/* The slot that holds the key, or the empty one where it would go. */
static size_t slot_of(const tpj_signatures *signatures, uint64_t hash, const uint64_t *key, int n_words) {
    size_t mask = signatures->capacity - 1, slot = (size_t)hash & mask;
    for (;; slot = (slot + 1) & mask) {
        const tpj_signature_entry *entry = signatures->table[slot];
        if (entry == NULL) return slot;
        if (entry->hash == hash && entry->n_words == n_words &&
            memcmp(entry->key, key, sizeof *key * (size_t)n_words) == 0)
            return slot;
    }
}

void *tpj_signatures_find(tpj_signatures *signatures, const uint64_t *key, int n_words) {
    if (signatures->capacity == 0) return NULL;
    tpj_signature_entry *entry = signatures->table[slot_of(signatures, hash_of(key, n_words), key, n_words)];
    if (entry == NULL) return NULL;
    entry->last_use = ++signatures->clock;
    return entry->value;
}

static void free_entry(tpj_signatures *signatures, tpj_signature_entry *entry) {
    signatures->n_bytes -= entry->n_bytes;
    signatures->n_entries--;
    signatures->drop(entry->value);
    free(entry);
}

/* Puts all entries that are kept into a table of `capacity` slots; `older_than`: those used before it leave. */
static bool rebuild(tpj_signatures *signatures, size_t capacity, uint64_t older_than) {
    tpj_signature_entry **old = signatures->table, **table = calloc(capacity, sizeof *table);
    size_t old_capacity = signatures->capacity;
    if (table == NULL) return false;
    signatures->table = table;
    signatures->capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i] == NULL) continue;
        if (old[i]->last_use < older_than)
            free_entry(signatures, old[i]);
        else
            table[slot_of(signatures, old[i]->hash, old[i]->key, old[i]->n_words)] = old[i];
    }
    free(old);
    return true;
}

/* In batches: a whole-table pass is rare, and a hit costs nothing but a counter. */
void tpj_signatures_shrink(tpj_signatures *signatures, size_t n_bytes) {
    uint64_t least = signatures->clock;
    for (size_t i = 0; i < signatures->capacity; i++)
        if (signatures->table[i] != NULL && signatures->table[i]->last_use < least)
            least = signatures->table[i]->last_use;
    for (uint64_t span = signatures->clock - least; signatures->n_bytes > n_bytes;) {
        uint64_t step = span / 8 + 1;
        if (!rebuild(signatures, signatures->capacity, least += step) || least > signatures->clock) return;
    }
}

tpj_status *tpj_signatures_insert(tpj_signatures *signatures, const uint64_t *key, int n_words, void *value,
                                  size_t n_bytes) {
    enum { LEAST_CAPACITY = 256 };
    tpj_signature_entry *entry = malloc(sizeof *entry + sizeof *key * (size_t)n_words);
    bool room = entry != NULL;
    if (room && (signatures->n_entries + 1) * 2 > signatures->capacity)
        room = rebuild(signatures, signatures->capacity > 0 ? signatures->capacity * 2 : LEAST_CAPACITY, 0);
    if (!room) {
        free(entry);
        signatures->drop(value);
        TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory for the program cache");
    }
    *entry = (tpj_signature_entry){.hash = hash_of(key, n_words),
                                   .last_use = ++signatures->clock,
                                   .value = value,
                                   .n_bytes = n_bytes,
                                   .n_words = n_words};
    memcpy(entry->key, key, sizeof *key * (size_t)n_words);
    size_t slot = slot_of(signatures, entry->hash, key, n_words);
    if (signatures->table[slot] != NULL) free_entry(signatures, signatures->table[slot]);
    signatures->table[slot] = entry;
    signatures->n_entries++;
    signatures->n_bytes += n_bytes;
    if (signatures->n_bytes > signatures->most_bytes) tpj_signatures_shrink(signatures, signatures->most_bytes / 4 * 3);
    return NULL;
}

void tpj_signatures_clear(tpj_signatures *signatures) {
    for (size_t i = 0; i < signatures->capacity; i++) {
        if (signatures->table[i] != NULL) free_entry(signatures, signatures->table[i]);
        signatures->table[i] = NULL;
    }
}

void tpj_signatures_destroy(tpj_signatures *signatures) {
    tpj_signatures_clear(signatures);
    free(signatures->table);
    *signatures = (tpj_signatures){0};
}
