/* A hash for tables, file names and checksums: 64 bits, fast, the same on every machine of one byte order. It is no defence
 * against somebody who wants a collision: whoever finds an entry by it compares the whole key. Thread-safe. */
#ifndef TPJ_BASE_HASH_H
#define TPJ_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Folded 128-bit products: one multiplication a word, and every bit of the input reaches every bit of the hash. */
static inline uint64_t tpj_hash_word(uint64_t hash, uint64_t word) {
    __uint128_t product = (__uint128_t)(hash ^ 0x9E3779B97F4A7C15u) * (word ^ 0xD1B54A32D192ED03u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t tpj_hash_words(uint64_t seed, const uint64_t *words, size_t n) {
    for (size_t i = 0; i < n; i++) seed = tpj_hash_word(seed, words[i]);
    return seed;
}

/* Any bytes, of any alignment; their number counts. */
uint64_t tpj_hash_bytes(uint64_t seed, const void *data, size_t n);

#endif
