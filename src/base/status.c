#include "tpj/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tpj_status {
    tpj_code code;
    char *message;
};

static char no_memory_message[] = "out of host memory while reporting an error";
static tpj_status no_memory = {TPJ_OUT_OF_MEMORY, no_memory_message};

/* A malloc'ed string of the printf result, or NULL. */
static char *format_string(const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *text = n < 0 ? NULL : malloc((size_t)n + 1);
    if (text != NULL) vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}

tpj_status *tpj_status_create_v(tpj_code code, const char *format, va_list args) {
    tpj_status *status = malloc(sizeof *status);
    char *message = format_string(format, args);
    if (status == NULL || message == NULL) {
        free(status);
        free(message);
        return &no_memory;
    }
    status->code = code;
    status->message = message;
    return status;
}

tpj_status *tpj_status_create(tpj_code code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tpj_status *status = tpj_status_create_v(code, format, args);
    va_end(args);
    return status;
}

tpj_status *tpj_status_annotate(tpj_status *status, const char *format, ...) {
    if (status == NULL || status == &no_memory) return status;
    va_list args;
    va_start(args, format);
    char *context = format_string(format, args);
    va_end(args);
    if (context == NULL) return status;
    size_t n = strlen(context) + strlen(status->message) + 3;
    char *joined = malloc(n);
    if (joined != NULL) {
        snprintf(joined, n, "%s: %s", context, status->message);
        free(status->message);
        status->message = joined;
    }
    free(context);
    return status;
}

const char *tpj_status_message(const tpj_status *status) { return status == NULL ? "" : status->message; }

tpj_code tpj_status_code(const tpj_status *status) { return status == NULL ? TPJ_OK : status->code; }

void tpj_status_destroy(tpj_status *status) {
    if (status == NULL || status == &no_memory) return;
    free(status->message);
    free(status);
}
