/* Views: how the elements that a tensor names are read out of its storage's array, and written back into it.
 *
 * A storage is a linear array of N elements; its buffer has a base shape, row-major. A view (sizes, strides, offset) is
 * planned once, on numbers alone, as reshape -> slice -> transpose -> broadcast of the base, which XLA fuses into the
 * consumer. Only where that is impossible (diagonals, overlapping windows) does the plan fall back to a gather. */
#ifndef TPJ_LOWER_VIEW_H
#define TPJ_LOWER_VIEW_H

#include "hlo/hlo.h"
#include "tpj/graph.h"

enum { TPJ_VIEW_MAX_RANK = 64 };

typedef struct tpj_view_plan {
    bool gather;            /* linear indices instead of the steps below */
    int64_t cropped;        /* the linear array is cut to this many elements before the reshape; -1: not */
    int rank;               /* of the reshaped base */
    int64_t dims[2 * TPJ_VIEW_MAX_RANK];
    int64_t start[2 * TPJ_VIEW_MAX_RANK], count[2 * TPJ_VIEW_MAX_RANK], step[2 * TPJ_VIEW_MAX_RANK];
    int source[TPJ_VIEW_MAX_RANK]; /* reshaped dimension that view dimension i walks along; -1: size 1 or repeated */
} tpj_view_plan;

/* Plans a view of a base of n_base dims (in elements of the view's dtype). Error when the view reaches outside the base. */
tpj_status *tpj_view_make_plan(const int64_t *base, int n_base, const tpj_view *view, tpj_view_plan *out_plan) TPJ_MUST_USE;

/* The view's elements as a value of the view's dtype and sizes, conj and neg applied. */
tpj_value *tpj_view_read(tpj_hlo *h, tpj_value *base, const tpj_view *view);
/* The base with the view's elements replaced by `value` (the view's dtype and sizes). */
tpj_value *tpj_view_write(tpj_hlo *h, tpj_value *base, const tpj_view *view, tpj_value *value);

/* Row-major strides. */
void tpj_contiguous_strides(int rank, const int64_t *sizes, int64_t *out_strides);
/* The view names every element of n_elements exactly once (no gaps, no repeats). `out_order`: its dimensions from the
 * outermost in memory to the innermost (may be NULL). */
bool tpj_view_is_dense(const tpj_view *view, int64_t n_elements, int *out_order);

#endif
