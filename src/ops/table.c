/* Finding rows: a hash of the names of all families, built once, and a list of rows that were registered at run time. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"

static const tpj_op_def *const families[] = {
#define TPJ_OP_FAMILY_ARRAY(family) tpj_ops_##family,
    TPJ_OP_FAMILIES(TPJ_OP_FAMILY_ARRAY)
#undef TPJ_OP_FAMILY_ARRAY
};
static const char *const family_names[] = {
#define TPJ_OP_FAMILY_NAME(family) #family,
    TPJ_OP_FAMILIES(TPJ_OP_FAMILY_NAME)
#undef TPJ_OP_FAMILY_NAME
};
enum { N_FAMILIES = sizeof families / sizeof families[0], N_SLOTS = 8192, MAX_HASHED = N_SLOTS / 2 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const tpj_op_def *slots[N_SLOTS]; /* open addressing, linear probing */
static int n_rows[N_FAMILIES];
static int n_hashed;

static unsigned hash_of(const char *name, size_t length) {
    unsigned hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return hash;
}

static bool is_named(const tpj_op_def *row, const char *name, size_t length) {
    return strlen(row->name) == length && memcmp(row->name, name, length) == 0;
}

/* The slot that holds the name, or the empty one where it belongs. */
static unsigned slot_of(const char *name, size_t length) {
    unsigned slot = hash_of(name, length) % N_SLOTS;
    while (slots[slot] != NULL && !is_named(slots[slot], name, length)) slot = (slot + 1) % N_SLOTS;
    return slot;
}

static void build(void) {
    for (int f = 0; f < N_FAMILIES; f++)
        for (const tpj_op_def *row = families[f]; row->name != NULL; row++) {
            n_rows[f]++;
            if (n_hashed == MAX_HASHED) continue; /* found by the walk in tpj_op_find */
            slots[slot_of(row->name, strlen(row->name))] = row;
            n_hashed++;
        }
}

/* ---- rows of run time: their names have a namespace ("lib::op"), they are added and never removed ---- */

typedef struct registered {
    const tpj_op_def *row;
    struct registered *next;
} registered;

static _Atomic(registered *) rows_of_run_time;

static const tpj_op_def *find_registered(const char *name, size_t length) {
    for (registered *r = atomic_load(&rows_of_run_time); r != NULL; r = r->next)
        if (is_named(r->row, name, length)) return r->row;
    return NULL;
}

tpj_status *tpj_op_add(const tpj_op_def *row) {
    if (strstr(row->name, "::") == NULL) TPJ_ERROR(TPJ_VALUE, "the op %s is not in a namespace of its own", row->name);
    if (find_registered(row->name, strlen(row->name)) != NULL)
        TPJ_ERROR(TPJ_RUNTIME, "the op %s is registered already", row->name);
    registered *added = malloc(sizeof *added);
    if (added == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    *added = (registered){row, atomic_load(&rows_of_run_time)};
    while (!atomic_compare_exchange_weak(&rows_of_run_time, &added->next, added)) {}
    return NULL;
}

const tpj_op_def *tpj_op_find(const char *name, size_t length) {
    pthread_once(&once, build);
    if (memchr(name, ':', length) != NULL) return find_registered(name, length);
    const tpj_op_def *row = slots[slot_of(name, length)];
    if (row != NULL || n_hashed < MAX_HASHED) return row;
    for (int i = 0; (row = tpj_op_at(i)) != NULL; i++)
        if (is_named(row, name, length)) return row;
    return NULL;
}

const tpj_op_def *tpj_op_at(int i) {
    pthread_once(&once, build);
    if (i < 0) return NULL;
    for (int f = 0; f < N_FAMILIES; i -= n_rows[f++])
        if (i < n_rows[f]) return &families[f][i];
    return NULL;
}

const char *tpj_op_family(const tpj_op_def *op) {
    pthread_once(&once, build);
    for (int f = 0; f < N_FAMILIES; f++)
        if (op >= families[f] && op < families[f] + n_rows[f]) return family_names[f];
    return "custom"; /* registered at run time */
}

const char *tpj_op_name(const tpj_op_def *op) { return op->name; }
const char *tpj_op_params(const tpj_op_def *op) { return op->params; }
const char *tpj_op_writes(const tpj_op_def *op) { return op->writes; }
const char *tpj_op_layout(const tpj_op_def *op) {
    static const char *const names[] = {
        [TPJ_LAYOUT_CONTIGUOUS] = "contiguous",
        [TPJ_LAYOUT_REAL_POINTWISE] = "pointwise of real numbers",
        [TPJ_LAYOUT_JOINED] = "joined",
        [TPJ_LAYOUT_STACKED] = "stacked",
        [TPJ_LAYOUT_POINTWISE] = "pointwise",
        [TPJ_LAYOUT_SELF] = "self",
        [TPJ_LAYOUT_CHANNELS_LAST] = "channels_last",
        [TPJ_LAYOUT_MEMORY_FORMAT] = "memory_format",
        [TPJ_LAYOUT_SPECTRUM] = "spectrum",
    };
    return names[op->layout];
}
bool tpj_op_is_random(const tpj_op_def *op) { return (op->flags & TPJ_OP_RANDOM) != 0; }
bool tpj_op_is_sized(const tpj_op_def *op) { return (op->flags & TPJ_OP_SIZED) != 0; }
bool tpj_op_is_factory(const tpj_op_def *op) { return (op->flags & TPJ_OP_FACTORY) != 0; }
bool tpj_op_size(const tpj_op_def *op, const tpj_number *numbers, int n_numbers, int64_t *out_size) {
    if (op->size == NULL) return false;
    *out_size = op->size(numbers, n_numbers);
    return true;
}
