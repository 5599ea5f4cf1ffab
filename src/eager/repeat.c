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

/* Where the context was seen last: one of four places that its hash names, else the oldest of them. */
static tpj_repeat_place *place_of(tpj_repeat *r, uint64_t context) {
    enum { WAYS = 4 };
    tpj_repeat_place *places = &r->seen[context / 2 % (TPJ_REPEAT_SEEN / WAYS) * WAYS], *oldest = places;
    for (int i = 0; i < WAYS; i++) {
        if (places[i].context == context) return &places[i];
        if (places[i].position < oldest->position) oldest = &places[i];
    }
    return oldest;
}

/* Stays with the repeat as long as it goes on, whatever else the latest calls equal: inside of a step that repeats, the layers
 * of a model repeat as well. Otherwise one begins where the context was seen last. */
static void follow(tpj_repeat *r, uint64_t signature, uint64_t context) {
    tpj_repeat_place *place = place_of(r, context);
    uint64_t gap = place->context == context ? r->position - place->position : 0;
    if (gap >= TPJ_REPEAT_SPAN) gap = 0;
    if (r->length > 0 && *signature_at(r, r->position - r->distance) == signature) {
        r->length++;
    } else {
        r->length = gap > 0 ? TPJ_REPEAT_CONTEXT : 0;
        r->distance = gap;
    }
    r->gaps[r->position % TPJ_REPEAT_HISTORY] = gap;
    *place = (tpj_repeat_place){context, r->position};
    if (gap == 0) gap = UINT64_MAX;
    if (gap > r->rarest) r->rarest = gap;
}

/* The place among the last n calls with the fewest bytes, and then the least context. */
static uint64_t lightest(const tpj_repeat *r, uint64_t n) {
    uint64_t best = 0, least_bytes = UINT64_MAX, least_context = UINT64_MAX;
    for (uint64_t back = 0; back < n; back++) {
        uint64_t at = (r->position - 1 - back) % TPJ_REPEAT_HISTORY;
        if (r->bytes[at] > least_bytes || (r->bytes[at] == least_bytes && r->contexts[at] >= least_context)) continue;
        least_bytes = r->bytes[at];
        least_context = r->contexts[at];
        best = back;
    }
    return best;
}

static void open_block(tpj_repeat *r, uint64_t size) {
    r->block = r->position;
    r->block_size = size;
    r->rarest = 0;
}

/* How many calls make a repeat. */
static uint64_t calls_needed(uint64_t distance) {
    return distance < TPJ_REPEAT_LEAST ? TPJ_REPEAT_NEAR : TPJ_REPEAT_LEAST;
}

/* Whether the block is a loop: it is longer than its rarest gap, and equals the calls so long before. */
static bool is_loop(tpj_repeat *r) {
    uint64_t n = r->position - r->block;
    if (r->rarest == UINT64_MAX || n < r->rarest + calls_needed(r->rarest) || n + r->rarest >= TPJ_REPEAT_SPAN)
        return false;
    for (uint64_t back = 1; back <= n; back++)
        if (*signature_at(r, r->position - back) != *signature_at(r, r->position - back - r->rarest)) return false;
    return true;
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

static bool ends_at(tpj_repeat *r, uint64_t back, uint64_t *out_back) {
    *out_back = back;
    open_block(r, TPJ_REPEAT_LEAST);
    remember_cut(r, *context_at(r, r->position - 1 - back));
    return true;
}

bool tpj_repeat_add(tpj_repeat *r, uint64_t signature, uint64_t n, uint64_t n_bytes, uint64_t *out_back) {
    uint64_t context = next_context(r, signature);
    if (n == 1) open_block(r, TPJ_REPEAT_LEAST);
    *context_at(r, r->position) = context;
    r->bytes[r->position % TPJ_REPEAT_HISTORY] = n_bytes;
    follow(r, signature, context);
    r->position++;
    *out_back = 0;
    /* a window that began in between, or right there, has cut it */
    if (r->length == calls_needed(r->distance) && end_of_step(r) + TPJ_REPEAT_CONTEXT < n)
        return ends_at(r, end_of_step(r), out_back);
    if (n >= TPJ_REPEAT_LEAST && r->n_cuts > 0 && *cell_of(r, context) == context) return true;
    if (is_loop(r)) return ends_at(r, lightest(r, r->rarest < n ? r->rarest : n), out_back);
    if (r->position - r->block >= r->block_size) open_block(r, 2 * r->block_size);
    return false;
}

uint64_t tpj_repeat_divide(const tpj_repeat *r, uint64_t n) { return lightest(r, n - n / 2); }
