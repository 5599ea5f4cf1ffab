/* Index checks of launches, from the launch to the read that raises what they found. */
#include <stdlib.h>
#include <string.h>

#include "eager/internal.h"

/* Takes at most n of the oldest off the list. */
static int take_oldest(tpj_device *device, tpj_pending_check *taken, int n) {
    tpj_lock_acquire(&device->lock);
    if (n > device->n_checks) n = device->n_checks;
    if (n > 0) {
        device->n_checks -= n;
        memcpy(taken, device->checks, sizeof *taken * (size_t)n);
        memmove(device->checks, device->checks + n, sizeof *taken * (size_t)device->n_checks);
    }
    tpj_lock_release(&device->lock);
    return n;
}

void tpj_check_origins_release(const tpj_pending_check *pending) {
    for (int i = 0; i < pending->n_origins; i++) tpj_program_release(pending->origins[i].program);
    free(pending->origins);
}

static tpj_status *settle(tpj_pending_check *pending) {
    int check;
    int64_t element;
    tpj_status *status = tpj_program_read_checks(pending->program, &pending->checks, &check, &element);
    if (status == NULL && check >= 0) {
        tpj_check_origin whole = {pending->program, 0, pending->file, pending->line}, *origin = &whole;
        for (int i = 0; i < pending->n_origins && pending->origins[i].first <= check; i++)
            origin = &pending->origins[i];
        status = tpj_program_check_error(origin->program, check - origin->first, element, origin->file, origin->line);
    }
    tpj_checks_release(&pending->checks);
    tpj_program_release(pending->program);
    tpj_check_origins_release(pending);
    return status;
}

tpj_status *tpj_device_take_checks(tpj_device *device, int most) {
    enum { BATCH = 64 };
    tpj_pending_check taken[BATCH];
    tpj_status *first = NULL;
    for (int n; most > 0 && (n = take_oldest(device, taken, most < BATCH ? most : BATCH)) > 0; most -= n) {
        for (int i = 0; i < n; i++) {
            tpj_status *status = settle(&taken[i]);
            if (first == NULL)
                first = status;
            else
                tpj_status_destroy(status);
        }
    }
    return first;
}

tpj_status *tpj_device_take_report(tpj_device *device, int n_checks, tpj_report **out_report) {
    *out_report = device->report;
    device->report = NULL;
    if (*out_report == NULL) return tpj_report_take(tpj_runtime_client(), device->ordinal, n_checks, out_report);
    tpj_report_reset(*out_report, n_checks);
    return NULL;
}

tpj_status *tpj_device_reserve_check(tpj_device *device) {
    if (device->n_checks < device->checks_capacity) return NULL;
    int capacity = device->checks_capacity > 0 ? device->checks_capacity * 2 : MANY_CHECKS;
    tpj_pending_check *grown = realloc(device->checks, sizeof *grown * (size_t)capacity);
    if (grown == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    device->checks = grown;
    device->checks_capacity = capacity;
    return NULL;
}

bool tpj_device_keep_checks(tpj_device *device, const tpj_pending_check *pending) {
    tpj_report *report = pending->checks.report;
    if (report == NULL || !tpj_report_is_clear(report)) {
        tpj_program_retain(pending->program);
        device->checks[device->n_checks++] = *pending;
        return true;
    }
    if (device->report == NULL)
        device->report = report;
    else
        tpj_report_give(report);
    tpj_check_origins_release(pending);
    return false;
}
