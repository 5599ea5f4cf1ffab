#include "exec/mappings.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int64_t unasked; /* mappings that programs may add before the list is read again */

static int64_t most_mappings(void) {
    char text[32];
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    if (file == NULL) return 0;
    int64_t most = fgets(text, sizeof text, file) != NULL ? strtoll(text, NULL, 10) : 0; /* 0 also for no number */
    fclose(file);
    return most;
}

static int64_t count_mappings(void) {
    char text[16384];
    int64_t n_lines = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    if (file == NULL) return 0;
    for (size_t n; (n = fread(text, 1, sizeof text, file)) > 0;)
        for (const char *at = text, *end = text + n; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
            n_lines++;
    fclose(file);
    return n_lines;
}

enum { ANY = 8, TEXT = 512, PARTS = 64, LINES_PER_QUESTION = 1024 };

/* Twice what was seen: four for one operator, some 350 for a window of 281 of them, 360 KB of text. */
static int64_t held_by(size_t module_length) { return ANY + (int64_t)(module_length / TEXT); }

bool tpj_mappings_run_short(size_t module_length) {
    int64_t added = held_by(module_length);
    if (atomic_fetch_sub_explicit(&unasked, added, memory_order_relaxed) > added) return false;
    int64_t most = most_mappings(), used = count_mappings(), next = INT64_MAX;
    bool is_short = most > 0 && used > most / 4 * 3;
    if (most > 0) next = is_short ? used / LINES_PER_QUESTION * ANY : most / PARTS;
    atomic_store_explicit(&unasked, next, memory_order_relaxed);
    return is_short;
}
