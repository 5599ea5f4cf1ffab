/* What the families that read and write elements by index share: index arithmetic, scatters, compaction, searching.
 *
 * All of it works on values of one builder and follows its rules (errors are sticky, arrays live in its arena). */
#ifndef TPJ_OPS_INDEXING_H
#define TPJ_OPS_INDEXING_H

#include "ops/ops.h"

/* "[2, 3]" for messages, in the builder's arena. */
const char *tpj_shape_text(tpj_hlo *h, int rank, const int64_t *dims);
int64_t tpj_product(const int64_t *dims, int n);
/* A copy of dims in the builder's arena with `dim` set to `size`. */
int64_t *tpj_dims_with(tpj_hlo *h, const tpj_value *x, int dim, int64_t size);
/* A rank-0 value as one of shape [1]. */
tpj_value *tpj_at_least_1d(tpj_hlo *h, tpj_value *x);
/* The common NumPy shape of n shapes (NULL entries are skipped); false when there is none. */
bool tpj_common_shape(tpj_hlo *h, tpj_value *const *xs, int n, int *out_rank, const int64_t **out_dims);

/* The dtype that index arithmetic below `size` runs in: I32 where it is enough. */
tpj_dtype tpj_index_dtype(int64_t size);
tpj_value *tpj_index_narrow(tpj_hlo *h, tpj_value *index, int64_t size);
/* An index argument along a dimension of `size` elements: dtype checked, bounds recorded, narrowed. */
tpj_value *tpj_index_argument(tpj_emit *e, tpj_value *index, int64_t size, bool wrap);

/* torch.scatter's addressing: index has x's rank and src's dims; x[.. index[i] ..] combined with src[i] along dim.
 * Indices outside of the dimension drop their update. kind as hlo_scatter's. */
tpj_value *tpj_scatter_along(tpj_hlo *h, const char *kind, tpj_value *x, int dim, tpj_value *index, tpj_value *src);
/* Whole slices: x[.., index[i], ..] combined with src[.., i, ..]; index has rank 1. */
tpj_value *tpj_scatter_rows(tpj_hlo *h, const char *kind, tpj_value *x, int dim, tpj_value *index, tpj_value *src);
/* x[start + step * i] = src[i] along dim, for all i of src; nothing lies outside. */
tpj_value *tpj_write_slice(tpj_hlo *h, tpj_value *x, tpj_value *src, int dim, int64_t start, int64_t step);

/* Python's slice rule: wraps and clamps start and end into a dimension of `size`; returns the number of elements. */
int64_t tpj_slice_bounds(int64_t *start, int64_t *end, int64_t step, int64_t size);

/* A matrix' diagonal, seen in x with dim1 and dim2 moved behind the others and flattened into one last dimension:
 * element i of the diagonal lies at start + i * step there. */
typedef struct tpj_diagonal {
    tpj_value *flat;            /* [other dims.., rows * columns] */
    const int64_t *permutation; /* of x, that moves dim1 and dim2 behind */
    const int64_t *moved_dims;  /* x's dims so permuted */
    int64_t start, step, length;
} tpj_diagonal;
/* false: the op has failed (a dimension out of range, or the same twice). Reads offset, dim1 and dim2. */
bool tpj_diagonal_read(tpj_emit *e, tpj_value *x, tpj_diagonal *out_diagonal);
/* What tpj_diagonal_read flattened, or a like value, back in x's shape. */
tpj_value *tpj_diagonal_restore(tpj_hlo *h, const tpj_diagonal *diagonal, int rank, tpj_value *flat);

/* Writes and reads of a dtype that is summed in another: halves are added up in F32 and rounded once. */
tpj_dtype tpj_accumulate_dtype(tpj_dtype dtype);

/* Of a rank-1 mask: how many are set, an I64 scalar. */
tpj_value *tpj_mask_count(tpj_hlo *h, tpj_value *mask);
/* Of a rank-1 mask: for each element how many set ones precede it (itself excluded); `n` where it is not set itself. */
tpj_value *tpj_mask_positions(tpj_hlo *h, tpj_value *mask, int64_t n);
/* The elements of a rank-1 x whose mask is set, in order, in an array of n elements; the rest is `fill` (a scalar). */
tpj_value *tpj_compact(tpj_hlo *h, tpj_value *mask, tpj_value *x, int64_t n, tpj_value *fill);

/* How many elements of each row of `sorted` (last dimension) are < value, or <= value when `right`. sorted has rank 1
 * or the leading dims of `values`; the result has the shape of `values`, dtype I32. */
tpj_value *tpj_search_sorted(tpj_hlo *h, tpj_value *sorted, tpj_value *values, bool right);

/* Sorts x along dim with PyTorch's order: NaN counts as the largest value. Stable. out_indices (may be NULL): I32, I64 of
 * more than 2^31 elements. */
void tpj_sort(tpj_hlo *h, tpj_value *x, int dim, bool descending, tpj_value **out_values, tpj_value **out_indices);

/* true where column == row + offset over the last two of dims (an iota comparison: "EQ" diagonal, "LE" lower, "GE"
 * upper). */
tpj_value *tpj_band_mask(tpj_hlo *h, const char *direction, int rank, const int64_t *dims, int64_t offset);

/* Advanced indexing, x[i, None, j]: where each index lies and what the result looks like. */
typedef struct tpj_index_plan {
    tpj_value *starts; /* [broadcast dims.., n_indexed]: the position in the indexed dimensions */
    int n_indexed;
    const int64_t *indexed; /* those dimensions of x */
    int rank; /* of the result: x's other dimensions, and the indices' broadcast dims where the indexed ones */
    const int64_t *dims; /* stood when they are adjacent, in front when not */
    int n_window;
    const int64_t *window; /* the result's dimensions that are x's other ones */
    bool empty;            /* the result has no elements */
} tpj_index_plan;
/* `indices`: n entries, NULL for None, integers of any broadcastable shapes. false: the op has failed. */
bool tpj_index_plan_make(tpj_emit *e, const tpj_value *x, tpj_value *const *indices, int n, tpj_index_plan *out_plan);
/* The numbers of the plan for a gather (slice sizes of x included) or a scatter. */
hlo_gather_numbers tpj_index_plan_numbers(tpj_hlo *h, const tpj_value *x, const tpj_index_plan *plan);

#endif
