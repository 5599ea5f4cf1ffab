/* Who holds a device's memory: live storages, by the program that made what they hold. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "eager/internal.h"

/* The live storages whose contents one program made. */
typedef struct holder {
    tpj_program *program; /* retained; NULL: copied from the host, or never written */
    int64_t n_bytes, n_storages;
} holder;

static int compare_programs(const void *a, const void *b) {
    uintptr_t left = (uintptr_t)((const holder *)a)->program, right = (uintptr_t)((const holder *)b)->program;
    return (left > right) - (left < right);
}

static int compare_bytes(const void *a, const void *b) {
    int64_t left = ((const holder *)a)->n_bytes, right = ((const holder *)b)->n_bytes;
    return (left < right) - (left > right);
}

static int merge(holder *holders, int n) {
    int n_merged = 0;
    qsort(holders, (size_t)n, sizeof *holders, compare_programs);
    for (int i = 0; i < n; i++) {
        if (n_merged > 0 && holders[n_merged - 1].program == holders[i].program) {
            holders[n_merged - 1].n_bytes += holders[i].n_bytes;
            holders[n_merged - 1].n_storages++;
        } else {
            holders[n_merged++] = holders[i];
        }
    }
    qsort(holders, (size_t)n_merged, sizeof *holders, compare_bytes);
    return n_merged;
}

static int find_holders(int ordinal, holder *out_holders, int most) {
    tpj_device *device = tpj_device_peek(ordinal);
    if (device == NULL) return 0;
    tpj_lock_acquire(&device->lock);
    int n = 0;
    holder *all = malloc(sizeof *all * (size_t)(device->memory.live + 1));
    for (tpj_storage *s = device->live; all != NULL && s != NULL; s = s->next)
        if (s->n_bytes > 0) all[n++] = (holder){s->origin, (int64_t)s->n_bytes, 1};
    if (all != NULL) n = merge(all, n);
    if (n > most) n = most;
    for (int i = 0; i < n; i++) {
        out_holders[i] = all[i];
        if (all[i].program != NULL) tpj_program_retain(all[i].program);
    }
    tpj_lock_release(&device->lock);
    free(all);
    return n;
}

static void describe(const holder *one, tpj_text *text) {
    const tpj_program *program = one->program;
    tpj_text_printf(text, "%" PRId64 " bytes in %" PRId64 " storage%s: ", one->n_bytes, one->n_storages,
                    one->n_storages == 1 ? "" : "s");
    if (program == NULL)
        tpj_text_add(text, "copied from the host, or never written");
    else if (program->file == NULL)
        tpj_text_add(text, program->lowered->description);
    else
        tpj_text_printf(text, "%s (first called at %s:%d)", program->lowered->description, program->file,
                        program->line);
}

static void describe_holders(int ordinal, int most, const char *indent, tpj_text *text) {
    enum { MOST_HOLDERS = 32 };
    holder holders[MOST_HOLDERS];
    int n = find_holders(ordinal, holders, most < MOST_HOLDERS ? most : MOST_HOLDERS);
    for (int i = 0; i < n; i++) {
        tpj_text_printf(text, "\n%s", indent);
        describe(&holders[i], text);
        tpj_program_release(holders[i].program);
    }
}

char *tpj_memory_describe(int ordinal, int most_lines) {
    tpj_text text = {0};
    tpj_device *device = tpj_device_peek(ordinal);
    if (device != NULL) tpj_status_destroy(tpj_backlog_settle(device)); /* what waits has made nothing yet */
    describe_holders(ordinal, most_lines, "", &text);
    char *copy = text.failed ? NULL : strdup(text.length > 0 ? tpj_text_string(&text) + 1 : "");
    tpj_text_destroy(&text);
    return copy;
}

tpj_status *tpj_memory_explain(tpj_status *status, int ordinal, int64_t n_asked) {
    if (tpj_status_code(status) != TPJ_OUT_OF_MEMORY) return status;
    tpj_memory memory;
    tpj_text text = {0};
    tpj_memory_get(ordinal, &memory);
    tpj_text_printf(&text, "%s\n  ", tpj_status_message(status));
    if (n_asked >= 0) tpj_text_printf(&text, "asked for: %" PRId64 " bytes; ", n_asked);
    tpj_text_printf(&text, "tensors on tpu:%d hold %" PRId64 " bytes, at most %" PRId64 " so far", ordinal,
                    memory.allocated, memory.peak);
    describe_holders(ordinal, 5, "  ", &text);
    tpj_status *explained = text.failed ? NULL : tpj_status_create(TPJ_OUT_OF_MEMORY, "%s", tpj_text_string(&text));
    tpj_text_destroy(&text);
    if (explained == NULL) return status;
    tpj_status_destroy(status);
    return explained;
}
