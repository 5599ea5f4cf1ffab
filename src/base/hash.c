#include "base/hash.h"

#include <string.h>

uint64_t tpj_hash_bytes(uint64_t seed, const void *data, size_t n) {
    const char *at = data;
    uint64_t hash = tpj_hash_word(seed, n), word;
    for (size_t left = n; left > 0; left -= sizeof word < left ? sizeof word : left, at += sizeof word) {
        word = 0;
        memcpy(&word, at, sizeof word < left ? sizeof word : left);
        hash = tpj_hash_word(hash, word);
    }
    return hash;
}
