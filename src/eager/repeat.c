#include "eager/repeat.h"

#include "base/hash.h"

/* A polynomial in an odd base, modulo 2^64: a call enters it and the one that leaves the context is taken out. */
static const uint64_t base = 0x9E3779B97F4A7C15u;

static uint64_t power_of_base(void) {
    uint64_t power = 1;
    for (int i = 0; i < TPJ_REPEAT_CONTEXT; i++) power *= base;
    return power;
}

static uint64_t *context_at(tpj_repeat *r, uint64_t position) { return &r->contexts[position % TPJ_REPEAT_HISTORY]; }

/* The cell that holds a context, or the free one where it would go. */
static uint64_t *cell_of(tpj_repeat *r, uint64_t context) {
    uint64_t i = context % TPJ_REPEAT_CUTS;
    while (r->cuts[i] != 0 && r->cuts[i] != context) i = (i + 1) % TPJ_REPEAT_CUTS;
    return &r->cuts[i];
}

static void remember_cut(tpj_repeat *r, uint64_t context) {
    uint64_t *cell = cell_of(r, context);
    if (*cell == context || r->n_cuts >= TPJ_REPEAT_CUTS / 2) return;
    *cell = context;
    r->n_cuts++;
}

static uint64_t *signature_at(tpj_repeat *r, uint64_t position) { return &r->signatures[position % TPJ_REPEAT_SPAN]; }

static uint64_t next_context(tpj_repeat *r, uint64_t signature) {
    uint64_t leaving = r->position >= TPJ_REPEAT_CONTEXT ? *signature_at(r, r->position - TPJ_REPEAT_CONTEXT) : 0;
    r->rolling = r->rolling * base + signature - leaving * power_of_base();
    *signature_at(r, r->position) = signature;
    return tpj_hash_word(1, r->rolling) | 1; /* 0 is a free cell */
}

/* Stays with the repeat as long as it goes on, whatever else the latest calls equal: inside of a step that repeats, the layers
 * of a model repeat as well. Otherwise one begins where the context was seen last. */
static void follow(tpj_repeat *r, uint64_t signature, uint64_t context) {
    tpj_repeat_place *place = &r->seen[context / 2 % TPJ_REPEAT_SEEN];
    uint64_t distance = place->context == context ? r->position - place->position : 0;
    if (r->length > 0 && *signature_at(r, r->position - r->distance) == signature) {
        r->length++;
    } else {
        r->length = distance > 0 && distance < TPJ_REPEAT_SPAN ? TPJ_REPEAT_CONTEXT : 0;
        r->distance = distance;
    }
    r->gaps[r->position % TPJ_REPEAT_HISTORY] = distance;
    *place = (tpj_repeat_place){context, r->position};
}

/* How many calls ago a step ended, by the repeat of which `length` calls are known. */
static uint64_t end_of_step(const tpj_repeat *r) {
    uint64_t back = r->length;
    if (r->distance < TPJ_REPEAT_CONTEXT) back -= TPJ_REPEAT_CONTEXT; /* the context must not reach before the loop */
    for (; back > 0; back--) {
        uint64_t gap = r->gaps[(r->position - 1 - back) % TPJ_REPEAT_HISTORY];
        if (gap == 0 || gap >= r->distance) return back;
    }
    return 0;
}

bool tpj_repeat_add(tpj_repeat *r, uint64_t signature, uint64_t n, uint64_t *out_back) {
    uint64_t context = next_context(r, signature);
    *context_at(r, r->position) = context;
    follow(r, signature, context);
    r->position++;
    *out_back = 0;
    uint64_t needed = r->distance < TPJ_REPEAT_LEAST ? TPJ_REPEAT_NEAR : TPJ_REPEAT_LEAST;
    if (r->length == needed) {
        uint64_t back = end_of_step(r);
        if (back < n) { /* else a window has ended since */
            *out_back = back;
            remember_cut(r, *context_at(r, r->position - 1 - back));
            return true;
        }
    }
    return n >= TPJ_REPEAT_LEAST && r->n_cuts > 0 && *cell_of(r, context) == context;
}

uint64_t tpj_repeat_divide(const tpj_repeat *r, uint64_t n) {
    uint64_t best = 0, least = UINT64_MAX;
    for (uint64_t back = 0; back < n - n / 2; back++) {
        uint64_t context = r->contexts[(r->position - 1 - back) % TPJ_REPEAT_HISTORY];
        if (context >= least) continue;
        least = context;
        best = back;
    }
    return best;
}
