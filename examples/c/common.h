/* What the examples share: reading files, and ending on an error. */
#ifndef EXAMPLES_C_COMMON_H
#define EXAMPLES_C_COMMON_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "tpj/status.h"

/* The whole of a file, with a NUL behind it. The caller frees it. */
static inline tpj_status *read_file(const char *path, char **out_data, size_t *out_n_bytes) {
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    size_t n = 0, capacity = 0;
    while (file != NULL && !feof(file) && !ferror(file)) {
        if (capacity - n < 2) {
            char *grown = realloc(data, capacity = capacity * 2 + 65536);
            if (grown == NULL) break;
            data = grown;
        }
        n += fread(data + n, 1, capacity - n - 1, file);
    }
    bool complete = file != NULL && feof(file) && !ferror(file);
    if (file != NULL) fclose(file);
    if (!complete) {
        free(data);
        TPJ_ERROR(TPJ_VALUE, "cannot read %s", path);
    }
    data[n] = '\0';
    *out_data = data;
    *out_n_bytes = n;
    return NULL;
}

/* The exit status for what came of it. Takes the status. */
static inline int report(tpj_status *status) {
    if (status != NULL) fprintf(stderr, "%s\n", tpj_status_message(status));
    int result = status != NULL;
    tpj_status_destroy(status);
    return result;
}

#endif
