#include "exec/mappings.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_PER_QUESTION = 1024 };

static _Atomic int64_t questions_left;

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

bool tpj_mappings_run_short(void) {
    if (atomic_fetch_sub_explicit(&questions_left, 1, memory_order_relaxed) > 0) return false;
    int64_t most = most_mappings(), used = count_mappings();
    atomic_store_explicit(&questions_left, used / LINES_PER_QUESTION, memory_order_relaxed);
    return most > 0 && used > most / 4 * 3;
}
