/* Where a run of calls repeats itself: loops that never read a result give no other sign of where a step ends.
 *
 * A call is one number here, its signature. Two places are alike when the eight calls up to them are (their context). A
 * repeat is found when enough calls in a row equal those a fixed distance before. The place where it began is the end of a
 * step, or the next one behind it whose context does not come by twice in a step. That context is remembered: from then on a
 * window ends wherever it comes by. A loop whose beginning gives no sign is known by its rarest contexts: when all that were
 * called for a while was called at most so long before, and in the same order, that is the length of a step, and the place in it
 * where the fewest bytes are held is its end. Nothing depends on time or addresses, so the same calls are cut at the same places in
 * every run.
 *
 * Threads: one at a time; the device's lock is held. */
#ifndef TPJ_EAGER_REPEAT_H
#define TPJ_EAGER_REPEAT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TPJ_REPEAT_CONTEXT = 8,
    TPJ_REPEAT_LEAST = 64,     /* calls that make a repeat, and the fewest of a window that a repeat ends */
    TPJ_REPEAT_NEAR = 256,     /* calls that make a repeat of a shorter distance: layers of a model are no steps */
    TPJ_REPEAT_HISTORY = 4096, /* contexts that are kept */
    TPJ_REPEAT_SPAN = 16384    /* calls whose signatures are kept: the longest distance of a repeat */
};

typedef struct tpj_repeat_place {
    uint64_t context, position;
} tpj_repeat_place;

enum { TPJ_REPEAT_SEEN = 16384, TPJ_REPEAT_CUTS = 4096 };

typedef struct tpj_repeat {
    uint64_t position; /* calls so far */
    uint64_t rolling;
    uint64_t signatures[TPJ_REPEAT_SPAN];  /* by position */
    uint64_t contexts[TPJ_REPEAT_HISTORY]; /* by position */
    uint64_t gaps[TPJ_REPEAT_HISTORY];     /* how far before it the same context was; 0: not known */
    uint64_t distance, length;             /* the last `length` calls equal those `distance` before them */
    uint64_t bytes[TPJ_REPEAT_HISTORY];    /* by position: what the window held */
    /* the calls from `block` on, up to `block_size` of them, and the greatest gap among them; UINT64_MAX: a context is new */
    uint64_t block, block_size, rarest;
    tpj_repeat_place seen[TPJ_REPEAT_SEEN]; /* the latest place of a context, by its hash */
    uint64_t cuts[TPJ_REPEAT_CUTS];         /* contexts that end a window; open addressing, 0: free */
    int n_cuts;
} tpj_repeat;

/* All zero is a good beginning. Adds a call, with which the window has n and holds so many bytes of results. True: the window ends here, or -- *out_back > 0 --
 * it should have ended that many calls ago. */
bool tpj_repeat_add(tpj_repeat *repeat, uint64_t signature, uint64_t n, uint64_t n_bytes, uint64_t *out_back);
/* Of the last n calls (at most TPJ_REPEAT_HISTORY), the place in their second half where a window is best ended when there
 * is no better sign: where the fewest bytes are held, and of those that of the least context, so that it is the same place
 * in each step. Returns the calls behind it. */
uint64_t tpj_repeat_divide(const tpj_repeat *repeat, uint64_t n);

#endif
