/* Launches that are still running when nobody holds their results any more: a synchronisation and an event wait for them
 * too, as for all work. Only what says that they are over is kept, none of the results' memory. */
#include <stdlib.h>

#include "eager/internal.h"

static void drop(tpj_unfinished_launch *launch) {
    tpj_completion_release(launch->completion);
    tpj_program_release(launch->program);
}

/* The lock is held across the plugin's answer whether something is ready, which waits for nothing. */
static void forget_ready_locked(tpj_unfinished *list) {
    int kept = 0;
    for (int i = 0; i < list->n; i++) {
        if (tpj_completion_is_ready(list->launches[i].completion))
            drop(&list->launches[i]);
        else
            list->launches[kept++] = list->launches[i];
    }
    list->n = kept;
}

static bool make_room_locked(tpj_unfinished *list) {
    if (list->n < list->capacity) return true;
    forget_ready_locked(list);
    if (list->n < list->capacity / 2) return true; /* else most of the next calls would look in vain */
    int capacity = list->capacity * 2 + 16;
    tpj_unfinished_launch *grown = realloc(list->launches, sizeof *grown * (size_t)capacity);
    if (grown == NULL) return list->n < list->capacity;
    list->launches = grown;
    list->capacity = capacity;
    return true;
}

void tpj_unfinished_add(tpj_unfinished *list, tpj_buffer *buffer, tpj_program *program) {
    tpj_completion *completion;
    tpj_status *status = tpj_buffer_completion(buffer, &completion);
    tpj_status_destroy(status); /* it was donated: the launch that took it is waited for */
    if (status != NULL || completion == NULL) return;
    tpj_lock_acquire(&list->lock);
    bool room = make_room_locked(list);
    if (room) {
        tpj_program_retain(program);
        list->launches[list->n++] = (tpj_unfinished_launch){completion, program};
    }
    tpj_lock_release(&list->lock);
    if (!room) tpj_completion_release(completion); /* out of memory: it is not waited for */
}

tpj_status *tpj_unfinished_list(tpj_unfinished *list, tpj_unfinished_launch **out_launches, int *out_n) {
    *out_n = 0;
    tpj_lock_acquire(&list->lock);
    forget_ready_locked(list);
    tpj_unfinished_launch *launches = malloc(sizeof *launches * (size_t)(list->n + 1));
    for (int i = 0; launches != NULL && i < list->n; i++) {
        launches[i] = list->launches[i];
        tpj_completion_retain(launches[i].completion);
        tpj_program_retain(launches[i].program);
        ++*out_n;
    }
    tpj_lock_release(&list->lock);
    *out_launches = launches;
    if (launches == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    return NULL;
}

void tpj_unfinished_forget(tpj_unfinished *list) {
    tpj_lock_acquire(&list->lock);
    forget_ready_locked(list);
    tpj_lock_release(&list->lock);
}

void tpj_unfinished_list_destroy(tpj_unfinished_launch *launches, int n) {
    for (int i = 0; i < n; i++) drop(&launches[i]);
    free(launches);
}
