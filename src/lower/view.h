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
    bool empty;         /* the view has no elements */
    bool gather;        /* linear indices instead of the steps below */
    int64_t n_elements; /* of the linear array, in the view's dtype */
    int64_t cropped;    /* the linear array is cut to this many elements before the reshape; -1: not */
    int rank;           /* of the reshaped base */
    int64_t dims[2 * TPJ_VIEW_MAX_RANK];
    int64_t start[2 * TPJ_VIEW_MAX_RANK], count[2 * TPJ_VIEW_MAX_RANK], step[2 * TPJ_VIEW_MAX_RANK];
    int source[TPJ_VIEW_MAX_RANK]; /* reshaped dimension that view dimension i walks along; -1: size 1 or repeated */
} tpj_view_plan;

/* Plans a view of a buffer. Error when the view reaches outside it. */
tpj_status *tpj_view_make_plan(const tpj_type *base, const tpj_view *view, tpj_view_plan *out_plan) TPJ_MUST_USE;

/* The same plan serves other offsets than the view's: those that move the slice inside the reshaped base. They are the
 * offsets whose digits in the mixed radix of `units` (offset / units[0], then the remainder / units[1], ..; the last unit
 * is 1) are at most `most`. Returns the number of digits, at most 2 * TPJ_VIEW_MAX_RANK; 0: every offset (an empty view). */
int tpj_view_plan_room(const tpj_view_plan *plan, const tpj_view *view, int64_t *out_units, int64_t *out_most);
bool tpj_offset_fits(int64_t offset, int n, const int64_t *units, const int64_t *most);
/* The dtype in which an offset is given to the program. */
tpj_dtype tpj_view_offset_dtype(const tpj_view_plan *plan);

/* The view's elements as a value of the view's dtype and sizes, conj and neg applied. `offset`: a scalar to take the place
 * of the view's own offset, of tpj_view_offset_dtype; NULL: the view's own. */
tpj_value *tpj_view_read(tpj_hlo *h, tpj_value *base, const tpj_view *view, const tpj_view_plan *plan,
                         tpj_value *offset);
/* The base with the view's elements replaced by `value` (the view's dtype and sizes). */
tpj_value *tpj_view_write(tpj_hlo *h, tpj_value *base, const tpj_view *view, const tpj_view_plan *plan,
                          tpj_value *offset, tpj_value *value);

/* Row-major strides. */
void tpj_contiguous_strides(int rank, const int64_t *sizes, int64_t *out_strides);
/* The view names every element of n_elements exactly once (no gaps, no repeats). `out_order`: its dimensions from the
 * outermost in memory to the innermost (may be NULL). */
bool tpj_view_is_dense(const tpj_view *view, int64_t n_elements, int *out_order);

#endif
