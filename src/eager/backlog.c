#include "eager/backlog.h"

#include <stdlib.h>
#include <string.h>

#include "eager/internal.h"

enum { MOST_CALLS = 4096 };

struct tpj_queued_call {
    tpj_queued_call *next;
    tpj_program *program;
    const char *file; /* where it was made, kept for the life of the process; NULL: not known */
    int line;
    uint64_t random[2];
    int n_operands, n_results;
    tpj_storage **storages; /* of results */
    tpj_operand operands[];
};

/* ---- the queue ---- */
/* Each storage that the call writes to: new results, and operands that are targets. */
static tpj_storage *written_by(const tpj_queued_call *call, int result) {
    const tpj_lowered_result *r = &call->program->lowered->results[result];
    if (r->none) return NULL;
    return r->target >= 0 ? call->operands[r->target].storage : call->storages[result];
}

static void hold(tpj_queued_call *call) {
    for (int i = 0; i < call->n_operands; i++)
        if (call->operands[i].storage != NULL) call->operands[i].storage->n_queued++;
    for (int i = 0; i < call->n_results; i++) {
        if (call->storages[i] != NULL) call->storages[i]->n_queued++;
        tpj_storage *written = written_by(call, i);
        if (written != NULL) written->n_writes++;
    }
}

static void let_go(tpj_queued_call *call) {
    for (int i = 0; i < call->n_results; i++) {
        tpj_storage *written = written_by(call, i);
        if (written != NULL) written->n_writes--;
    }
    for (int i = 0; i < call->n_results; i++)
        if (call->storages[i] != NULL) tpj_storage_unqueue_locked(call->storages[i]);
    for (int i = 0; i < call->n_operands; i++)
        if (call->operands[i].storage != NULL) tpj_storage_unqueue_locked(call->operands[i].storage);
}

tpj_status *tpj_backlog_add_locked(tpj_device *device, tpj_program *program, const tpj_operand *operands,
                                   int n_operands, const uint64_t random[2], tpj_storage *const *storages) {
    const tpj_lowered *lowered = program->lowered;
    size_t n_results = (size_t)lowered->n_results;
    tpj_queued_call *call = malloc(sizeof *call + sizeof *call->operands * (size_t)n_operands);
    tpj_storage **results = malloc(sizeof *results * (n_results + 1));
    if (call == NULL || results == NULL) {
        free(call);
        free(results);
        TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    }
    *call = (tpj_queued_call){.program = program, .n_operands = n_operands, .n_results = lowered->n_results};
    memcpy(call->operands, operands, sizeof *operands * (size_t)n_operands);
    memcpy(results, storages, sizeof *results * n_results);
    if (random != NULL) memcpy(call->random, random, sizeof call->random);
    call->storages = results;
    tpj_program_retain(program);
    hold(call);
    tpj_backlog *backlog = &device->backlog;
    if (backlog->last == NULL) backlog->last = &backlog->first;
    *backlog->last = call;
    backlog->last = &call->next;
    __atomic_fetch_add(&backlog->n_calls, 1, __ATOMIC_RELAXED); /* read without the lock too */
    return NULL;
}

/* What is read of the results raises from now on. */
static void give_results(const tpj_queued_call *call, const tpj_status *status) {
    for (int i = 0; i < call->n_results; i++) {
        tpj_storage *written = written_by(call, i);
        if (written != NULL) tpj_storage_fail(written, status);
    }
}

/* A copy of the error of the first input that was never made; NULL: they all were. */
static tpj_status *failure_of_inputs(const tpj_queued_call *call) {
    const tpj_lowered *lowered = call->program->lowered;
    for (int i = 0; i < lowered->n_parameters; i++) {
        const tpj_parameter *parameter = &lowered->parameters[i];
        if (parameter->kind != TPJ_INPUT_BUFFER) continue;
        const tpj_storage *storage = call->operands[parameter->input].storage;
        if (storage->failed != TPJ_OK)
            return tpj_status_create(storage->failed, "%s", storage->failure != NULL ? storage->failure : "no memory");
    }
    return NULL;
}

static void fail(tpj_device *device, const tpj_queued_call *call, tpj_status *status) {
    if (call->program->op != NULL) status = tpj_status_annotate(status, "%s", call->program->lowered->description);
    if (call->file != NULL || call->program->file != NULL) {
        const char *file = call->file != NULL ? call->file : call->program->file;
        tpj_status *located = tpj_status_create(tpj_status_code(status), "%s\n  at %s:%d", tpj_status_message(status),
                                                file, call->file != NULL ? call->line : call->program->line);
        tpj_status_destroy(status);
        status = located;
    }
    give_results(call, status);
    if (device->failure == NULL)
        device->failure = status;
    else
        tpj_status_destroy(status);
}

void tpj_backlog_launch_locked(tpj_device *device) {
    tpj_backlog *backlog = &device->backlog;
    while (backlog->first != NULL && tpj_program_state_of(backlog->first->program) != TPJ_PROGRAM_COMPILING) {
        tpj_queued_call *call = backlog->first;
        backlog->first = call->next;
        if (call->next == NULL) backlog->last = &backlog->first;
        __atomic_fetch_sub(&backlog->n_calls, 1, __ATOMIC_RELAXED);
        tpj_status *inherited = failure_of_inputs(call), *status = NULL;
        if (inherited != NULL) {
            give_results(call, inherited);
            tpj_status_destroy(inherited);
        } else {
            status = tpj_program_await(call->program); /* at once: it has ended */
            if (status == NULL)
                status = tpj_eager_launch_locked(device, call->program, call->operands, call->n_operands, call->random,
                                                 call->storages, true, call->file, call->line);
        }
        if (status != NULL) fail(device, call, status);
        let_go(call);
        tpj_program_release(call->program);
        free(call->storages);
        free(call);
    }
}

/* Waits for the program of the first call in the queue, if it is still being compiled. */
static tpj_status *await_first(tpj_device *device) {
    tpj_lock_acquire(&device->lock);
    tpj_backlog_launch_locked(device);
    tpj_program *program = device->backlog.first != NULL ? device->backlog.first->program : NULL;
    if (program != NULL) tpj_program_retain(program);
    tpj_lock_release(&device->lock);
    if (program == NULL) return NULL;
    tpj_status *status = tpj_program_await(program);
    tpj_program_release(program);
    if (tpj_status_code(status) == TPJ_INTERRUPTED) return status;
    tpj_status_destroy(status); /* it goes into the results of the call */
    return NULL;
}

static tpj_status *settle(tpj_device *device, const int *n_left) {
    if (__atomic_load_n(&device->backlog.n_calls, __ATOMIC_RELAXED) == 0) return NULL;
    for (;;) {
        tpj_lock_acquire(&device->lock);
        tpj_backlog_launch_locked(device);
        bool settled = *n_left == 0;
        tpj_lock_release(&device->lock);
        if (settled) return NULL;
        TPJ_TRY(await_first(device));
    }
}

tpj_status *tpj_backlog_settle(tpj_device *device) { return settle(device, &device->backlog.n_calls); }
tpj_status *tpj_backlog_settle_writes(tpj_device *device, const tpj_storage *storage) {
    return settle(device, &storage->n_writes);
}
tpj_status *tpj_backlog_settle_storage(tpj_device *device, const tpj_storage *storage) {
    return settle(device, &storage->n_queued);
}

tpj_status *tpj_backlog_make_room(tpj_device *device) {
    while (__atomic_load_n(&device->backlog.n_calls, __ATOMIC_RELAXED) >= MOST_CALLS) TPJ_TRY(await_first(device));
    return NULL;
}

bool tpj_backlog_called_at_locked(tpj_device *device, const tpj_program *program, const char *file, int line) {
    tpj_queued_call *latest = NULL;
    for (tpj_queued_call *call = device->backlog.first; call != NULL; call = call->next)
        if (call->program == program) latest = call;
    if (latest == NULL) return false;
    latest->file = file;
    latest->line = line;
    return true;
}
