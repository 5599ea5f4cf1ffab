#include "eager/window.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "eager/internal.h"

static tpj_status *out_of_memory(void) { return tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory"); }

/* ---- arrays ---- */
static bool reserve(void **array, int *capacity, int wanted, size_t n_bytes) {
    if (wanted <= *capacity) return true;
    int larger = *capacity > 0 ? *capacity : 64;
    while (larger < wanted) larger *= 2;
    void *grown = realloc(*array, n_bytes * (size_t)larger);
    if (grown == NULL) return false;
    *array = grown;
    *capacity = larger;
    return true;
}

static bool reserve_call(tpj_window *w, int n_operands, int n_results) {
    return reserve((void **)&w->calls, &w->capacity_calls, w->n_calls + 1, sizeof *w->calls) &&
           reserve((void **)&w->operands, &w->capacity_operands, w->n_operands + n_operands, sizeof *w->operands) &&
           reserve((void **)&w->results, &w->capacity_results, w->n_results + n_results, sizeof *w->results) &&
           reserve((void **)&w->slots, &w->capacity_slots, w->n_slots + n_operands + n_results, sizeof *w->slots) &&
           reserve((void **)&w->key, &w->capacity_words, w->n_words + 2 + n_operands / 2, sizeof *w->key);
}

/* ---- known beginnings ---- */
static uint64_t *path_cell(const tpj_paths *paths, uint64_t path) {
    size_t i = path & (paths->capacity - 1);
    while (paths->table[i] != 0 && paths->table[i] != path) i = (i + 1) & (paths->capacity - 1);
    return &paths->table[i];
}

static bool is_known(const tpj_paths *paths, uint64_t path) {
    return paths->capacity > 0 && *path_cell(paths, path) == path;
}

static bool grow_paths(tpj_paths *paths) {
    tpj_paths grown = {.capacity = paths->capacity > 0 ? paths->capacity * 2 : 1024};
    grown.table = calloc(grown.capacity, sizeof *grown.table);
    if (grown.table == NULL) return false;
    for (size_t i = 0; i < paths->capacity; i++)
        if (paths->table[i] != 0) *path_cell(&grown, paths->table[i]) = paths->table[i];
    grown.n = paths->n;
    free(paths->table);
    *paths = grown;
    return true;
}

static void know_path(tpj_paths *paths, uint64_t path) {
    enum { MOST = 1 << 20 };
    if (paths->n >= MOST || (paths->n * 2 >= paths->capacity && !grow_paths(paths))) return;
    uint64_t *cell = path_cell(paths, path);
    if (*cell == 0) paths->n++;
    *cell = path;
}

static uint64_t path_after(uint64_t path, const uint64_t *words, int n) {
    return tpj_hash_words(path, words, (size_t)n) | 1; /* 0 is a free cell */
}

static int word_after(const tpj_window *w, int call) {
    return call + 1 < w->n_calls ? w->calls[call + 1].first_word : w->n_words;
}

void tpj_window_know_paths(tpj_window *w, int n_calls) {
    uint64_t path = 0;
    for (int i = 0; i < n_calls; i++) {
        int first = w->calls[i].first_word;
        path = path_after(path, w->key + first, word_after(w, i) - first);
        know_path(&w->paths, path);
    }
}

/* ---- slots ---- */
static bool is_here(const tpj_window *w, const tpj_storage *storage) { return storage->window == w->id; }

bool tpj_window_is_pending(const tpj_device *device, const tpj_storage *storage) {
    const tpj_window *w = &device->window;
    return is_here(w, storage) && w->slots[storage->slot].written;
}

static int new_slot(tpj_window *w, tpj_storage *storage, tpj_slot slot) {
    if (storage != NULL) {
        storage->window = w->id;
        storage->slot = w->n_slots;
    }
    slot.storage = storage;
    w->slots[w->n_slots] = slot;
    return w->n_slots++;
}

static int slot_of(tpj_window *w, tpj_storage *storage) {
    return is_here(w, storage) ? storage->slot : new_slot(w, storage, (tpj_slot){.n_bytes = storage->n_bytes});
}

bool tpj_window_leave(tpj_device *device, tpj_storage *storage) {
    tpj_window *w = &device->window;
    if (!is_here(w, storage)) return false;
    tpj_slot *slot = &w->slots[storage->slot];
    storage->window = 0;
    slot->storage = NULL;
    if (storage->buffer == NULL) {
        if (slot->written) w->n_bytes -= slot->n_bytes;
        return false;
    }
    slot->buffer = storage->buffer;
    slot->counted = true;
    storage->buffer = NULL;
    w->n_bytes += slot->n_bytes;
    return true;
}

void tpj_window_replace(tpj_device *device, tpj_storage *from, tpj_storage *to) {
    tpj_window *w = &device->window;
    to->written_at = from->written_at;
    if (!is_here(w, from)) return;
    to->window = w->id;
    to->slot = from->slot;
    w->slots[to->slot].storage = to;
    from->window = 0;
}

/* ---- recording ---- */

/* A storage whose base nobody has declared gets that of the first call that reads it. */
static tpj_status *declare_base(const tpj_program *program, int input, tpj_storage *storage) {
    const tpj_lowered *lowered = program->lowered;
    if (storage->base_dtype != TPJ_N_DTYPES) return NULL;
    for (int i = 0; i < lowered->n_parameters; i++) {
        const tpj_type *type = &lowered->parameters[i].type;
        if (lowered->parameters[i].kind == TPJ_INPUT_BUFFER && lowered->parameters[i].input == input)
            return tpj_storage_define_base(storage, type->dtype, type->rank, type->dims);
    }
    return NULL;
}

static tpj_status *declare_bases(const tpj_program *program, const tpj_operand *operands, int n_operands) {
    const tpj_lowered *lowered = program->lowered;
    for (int i = 0; i < n_operands; i++)
        if (operands[i].storage != NULL) TPJ_TRY(declare_base(program, i, operands[i].storage));
    for (int i = 0; i < lowered->n_results; i++) {
        const tpj_lowered_result *result = &lowered->results[i];
        tpj_storage *storage = result->target >= 0 && !result->none ? operands[result->target].storage : NULL;
        if (storage == NULL || storage->buffer != NULL) continue;
        TPJ_TRY(tpj_storage_define_base(storage, result->base.dtype, result->base.rank, result->base.dims));
    }
    return NULL;
}

/* How long ago a storage was written, in calls; what is longer ago than a few calls is all the same, or the first step of a loop,
 * whose parameters nobody has updated yet, would be like no other for long. */
static uint64_t age(const tpj_window *w, const tpj_storage *storage) {
    enum { OLD = 4 };
    uint64_t calls = w->n_called - storage->written_at;
    return storage->written_at == 0 || calls > OLD ? OLD : calls;
}

/* The slots of a call in its key, two a word. */
typedef struct key_writer {
    tpj_window *window;
    uint64_t half;
    bool pending;
} key_writer;

static void write_slot(key_writer *k, int slot) {
    if (!k->pending)
        k->half = (uint64_t)slot << 32;
    else
        k->window->key[k->window->n_words++] = k->half | (uint64_t)slot;
    k->pending = !k->pending;
}

static void finish_slots(key_writer *k) {
    if (k->pending) k->window->key[k->window->n_words++] = k->half | UINT32_MAX;
}

static tpj_recorded_call *open_call(tpj_window *w, tpj_program *program) {
    tpj_recorded_call *call = &w->calls[w->n_calls++];
    *call = (tpj_recorded_call){.program = program,
                                .first_operand = w->n_operands,
                                .first_result = w->n_results,
                                .first_slot = w->n_slots,
                                .first_word = w->n_words};
    w->key[w->n_words++] = program->id;
    return call;
}

static void close_call(tpj_window *w, const tpj_recorded_call *call) {
    w->path = path_after(w->path, w->key + call->first_word, w->n_words - call->first_word);
    w->novel = w->novel || !is_known(&w->paths, w->path);
}

static uint64_t record_operands(tpj_window *w, uint64_t signature, const tpj_operand *operands, int n) {
    key_writer writer = {.window = w};
    for (int i = 0; i < n; i++) {
        tpj_storage *storage = operands[i].storage;
        tpj_recorded_operand *made = &w->operands[w->n_operands++];
        if (storage == NULL) {
            *made = (tpj_recorded_operand){-1, operands[i].number};
            continue;
        }
        made->slot = slot_of(w, storage);
        write_slot(&writer, made->slot);
        signature = tpj_hash_word(signature, age(w, storage));
    }
    finish_slots(&writer);
    return signature;
}

/* A recorded call writes the slot. What it will hold then is counted, if it is more than it holds. */
static void mark_slot_written(tpj_window *w, int number) {
    tpj_slot *slot = &w->slots[number];
    if (!slot->written && slot->storage != NULL && slot->storage->buffer == NULL) w->n_bytes += slot->n_bytes;
    slot->written = true;
}

static void record_results(tpj_window *w, const tpj_lowered *lowered, const tpj_operand *operands,
                           tpj_storage **storages) {
    for (int i = 0; i < lowered->n_results; i++) {
        const tpj_lowered_result *result = &lowered->results[i];
        bool is_new = !result->none && result->target < 0;
        w->results[w->n_results++] = is_new ? slot_of(w, storages[i]) : -1;
        if (result->none) continue;
        tpj_storage *storage = is_new ? storages[i] : operands[result->target].storage;
        mark_slot_written(w, storage->slot);
        storage->written_at = w->n_called;
    }
}

tpj_status *tpj_window_record(tpj_device *device, tpj_program *program, const tpj_operand *operands, int n_operands,
                              const uint64_t random[2], tpj_storage **out_storages, uint64_t *out_signature) {
    tpj_window *w = &device->window;
    const tpj_lowered *lowered = program->lowered;
    if (!reserve_call(w, n_operands, lowered->n_results)) return out_of_memory();
    TPJ_TRY(declare_bases(program, operands, n_operands));
    TPJ_TRY(tpj_device_create_results(device, program, out_storages));
    tpj_recorded_call *call = open_call(w, program);
    tpj_program_retain(program);
    if (lowered->random_count > 0 && random != NULL) memcpy(call->random, random, sizeof call->random);
    w->n_called++;
    *out_signature = record_operands(w, tpj_hash_word(0, program->id), operands, n_operands);
    record_results(w, lowered, operands, out_storages);
    close_call(w, call);
    return NULL;
}

bool tpj_window_say_line(tpj_window *w, const tpj_program *program, const char *file, int line) {
    for (int i = w->n_calls; i-- > 0;) {
        if (w->calls[i].program != program) continue;
        if (w->calls[i].file == NULL) {
            w->calls[i].file = file;
            w->calls[i].line = line;
        }
        return true;
    }
    return false;
}

/* ---- taking calls away ---- */

/* The calls that stay, under the numbers that a fresh window gives their slots. */
struct tpj_window_rest {
    tpj_window fresh;
    int *number_of; /* slots of the old window, -1: not seen yet */
};

static int renumber(tpj_device *device, tpj_window_rest *r, int old) {
    if (r->number_of[old] >= 0) return r->number_of[old];
    tpj_slot *slot = &device->window.slots[old];
    tpj_storage *storage = slot->storage;
    tpj_slot kept = {.buffer = slot->buffer, .n_bytes = slot->n_bytes, .counted = slot->counted};
    if (kept.counted) r->fresh.n_bytes += kept.n_bytes;
    *slot = (tpj_slot){0};
    return r->number_of[old] = new_slot(&r->fresh, storage, kept);
}

static void move_operands(tpj_device *device, tpj_window_rest *r, const tpj_recorded_operand *operands, int n) {
    tpj_window *w = &r->fresh;
    key_writer writer = {.window = w};
    for (int i = 0; i < n; i++) {
        tpj_recorded_operand operand = operands[i];
        if (operand.slot >= 0) write_slot(&writer, operand.slot = renumber(device, r, operand.slot));
        w->operands[w->n_operands++] = operand;
    }
    finish_slots(&writer);
}

static void move_results(tpj_device *device, tpj_window_rest *r, const tpj_recorded_call *call, const int *results) {
    tpj_window *w = &r->fresh;
    const tpj_lowered *lowered = call->program->lowered;
    for (int i = 0; i < lowered->n_results; i++) {
        const tpj_lowered_result *result = &lowered->results[i];
        int slot = results[i] >= 0 ? renumber(device, r, results[i]) : -1;
        w->results[w->n_results++] = slot;
        if (result->none) continue;
        if (result->target >= 0) slot = w->operands[call->first_operand + result->target].slot;
        mark_slot_written(w, slot);
    }
}

static void move_call(tpj_device *device, tpj_window_rest *r, int index) {
    const tpj_window *old = &device->window;
    const tpj_recorded_call *call = &old->calls[index];
    int end = index + 1 < old->n_calls ? call[1].first_operand : old->n_operands;
    tpj_recorded_call *moved = open_call(&r->fresh, call->program);
    memcpy(moved->random, call->random, sizeof moved->random);
    moved->file = call->file;
    moved->line = call->line;
    move_operands(device, r, old->operands + call->first_operand, end - call->first_operand);
    move_results(device, r, moved, old->results + call->first_result);
    close_call(&r->fresh, moved);
}

static void free_arrays(tpj_window *w) {
    free(w->calls);
    free(w->slots);
    free(w->operands);
    free(w->results);
    free(w->key);
}

/* Room for all that the window has is room for a part of it. */
tpj_window_rest *tpj_window_prepare_rest(const tpj_window *w) {
    tpj_window_rest *r = calloc(1, sizeof *r);
    if (r == NULL) return NULL;
    tpj_window *fresh = &r->fresh;
    r->number_of = malloc(sizeof *r->number_of * (size_t)(w->n_slots + 1));
    if (r->number_of != NULL &&
        reserve((void **)&fresh->calls, &fresh->capacity_calls, w->n_calls, sizeof *fresh->calls) &&
        reserve((void **)&fresh->slots, &fresh->capacity_slots, w->n_slots, sizeof *fresh->slots) &&
        reserve((void **)&fresh->operands, &fresh->capacity_operands, w->n_operands, sizeof *fresh->operands) &&
        reserve((void **)&fresh->results, &fresh->capacity_results, w->n_results, sizeof *fresh->results) &&
        reserve((void **)&fresh->key, &fresh->capacity_words, w->n_words, sizeof *fresh->key))
        return r;
    tpj_window_free_rest(r);
    return NULL;
}

void tpj_window_free_rest(tpj_window_rest *r) {
    if (r == NULL) return;
    free_arrays(&r->fresh);
    free(r->number_of);
    free(r);
}

static void release_calls(tpj_device *device, int n_calls) {
    tpj_window *w = &device->window;
    for (int i = 0; i < n_calls; i++) tpj_program_release(w->calls[i].program);
    for (int i = 0; i < w->n_slots; i++) {
        tpj_slot *slot = &w->slots[i];
        if (slot->storage != NULL) slot->storage->window = 0;
        tpj_buffer_release(slot->buffer);
        if (slot->counted) tpj_device_count_free(device, slot->n_bytes);
    }
}

void tpj_window_clear(tpj_device *device) {
    tpj_window *w = &device->window;
    release_calls(device, w->n_calls);
    w->n_calls = w->n_slots = w->n_operands = w->n_results = w->n_words = 0;
    w->n_bytes = 0;
    w->path = 0;
    w->novel = false;
    w->id++;
}

void tpj_window_drop(tpj_device *device, int n_calls, tpj_window_rest *r) {
    tpj_window *w = &device->window, *fresh = &r->fresh;
    fresh->id = w->id + 1;
    fresh->n_called = w->n_called;
    fresh->repeat = w->repeat;
    fresh->paths = w->paths;
    for (int i = 0; i < w->n_slots; i++) r->number_of[i] = -1;
    for (int i = n_calls; i < w->n_calls; i++) move_call(device, r, i);
    release_calls(device, n_calls);
    tpj_window old = *w;
    *w = *fresh;
    *fresh = old; /* whose arrays go with the rest */
}
