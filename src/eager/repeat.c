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

static uint64_t next_context(tpj_repeat *r, uint64_t signature) {
    uint64_t *oldest = &r->signatures[r->position % TPJ_REPEAT_CONTEXT];
    r->rolling = r->rolling * base + signature - *oldest * power_of_base();
    *oldest = signature;
    return tpj_hash_word(1, r->rolling) | 1; /* 0 is a free cell */
}

/* Follows the repeat that the call at `position` continues, or begins. */
static void follow(tpj_repeat *r, uint64_t context) {
    tpj_repeat_place *place = &r->seen[context / 2 % TPJ_REPEAT_SEEN];
    uint64_t distance = place->context == context ? r->position - place->position : 0;
    if (distance == 0)
        r->length = 0;
    else if (distance == r->distance && r->length > 0)
        r->length++;
    else
        r->length = TPJ_REPEAT_CONTEXT;
    r->distance = distance;
    *place = (tpj_repeat_place){context, r->position};
}

bool tpj_repeat_add(tpj_repeat *r, uint64_t signature, uint64_t *out_back) {
    uint64_t context = next_context(r, signature);
    *context_at(r, r->position) = context;
    follow(r, context);
    uint64_t needed = r->distance < TPJ_REPEAT_LEAST ? TPJ_REPEAT_NEAR : TPJ_REPEAT_LEAST;
    *out_back = 0;
    r->position++;
    if (r->length != needed) return r->n_cuts > 0 && *cell_of(r, context) == context;
    /* the first place at or behind the beginning whose context lies within the repeated calls */
    uint64_t steps = r->distance < TPJ_REPEAT_CONTEXT ? (TPJ_REPEAT_CONTEXT + r->distance - 1) / r->distance : 0;
    *out_back = r->length - steps * r->distance;
    remember_cut(r, *context_at(r, r->position - 1 - *out_back));
    return true;
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
