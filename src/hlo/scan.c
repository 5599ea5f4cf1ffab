/* Cumulative operations, in the form that compiles and runs well for the shape. XLA makes a tree of a window that reaches
 * back to the start, which is good where the window is long and the array is not too large; the TPU's compiler needs a
 * minute for many short windows. Those are done by doubling, and very long ones in blocks. */
#include <string.h>

#include "hlo/writer.h"

enum {
    SMALL_ARRAY = 16 * 1024, /* elements: a window whatever its length */
    LONG_LINE = 512,         /* shorter lines are done by doubling */
    HUGE_LINE = 8 * 1024,    /* longer ones are cut into blocks */
    BLOCK = 1024
};

static tpj_value *by_window(tpj_hlo *h, const char *kind, tpj_value *x, int dim, bool reverse) {
    int rank = x->type.rank;
    int64_t *size = hlo_dims(h, rank), *padding = hlo_dims(h, rank);
    if (h->failed) return &h->poison;
    for (int i = 0; i < rank; i++) size[i] = 1;
    size[dim] = x->type.dims[dim];
    padding[dim] = size[dim] - 1;
    hlo_window window = {.size = size};
    if (reverse)
        window.high = padding;
    else
        window.low = padding;
    return hlo_reduce_window(h, kind, x, NULL, &window);
}

/* After step k every element holds 2^k of the line. */
static tpj_value *by_doubling(tpj_hlo *h, const char *kind, tpj_value *x, int dim, bool reverse) {
    tpj_value *identity = hlo_identity(h, kind, x->type.dtype);
    int64_t n = x->type.dims[dim];
    for (int64_t reach = 1; reach < n && !h->failed; reach *= 2) {
        int64_t low = reverse ? -reach : reach;
        tpj_value *moved = hlo_pad_dim(h, x, identity, dim, low, -low);
        x = hlo_combine(h, kind, moved, x);
    }
    return x;
}

/* x with its dimension `dim` cut into [n_blocks, BLOCK], BLOCK moved to the front. */
static tpj_value *cut(tpj_hlo *h, const char *kind, tpj_value *x, int dim, int64_t n_blocks) {
    int rank = x->type.rank;
    x = hlo_pad_dim(h, x, hlo_identity(h, kind, x->type.dtype), dim, 0, n_blocks * BLOCK - x->type.dims[dim]);
    int64_t *dims = hlo_dims(h, rank + 1), *permutation = hlo_dims(h, rank + 1);
    if (h->failed) return &h->poison;
    for (int i = 0; i <= rank; i++) {
        dims[i] = i == dim ? n_blocks : i == dim + 1 ? BLOCK : x->type.dims[i - (i > dim)];
        permutation[i] = i == 0 ? dim + 1 : i - 1 + (i - 1 > dim);
    }
    return hlo_transpose(h, hlo_reshape(h, x, rank + 1, dims), permutation);
}

/* The inverse of cut, for a line of n elements. */
static tpj_value *join(tpj_hlo *h, tpj_value *x, int dim, int64_t n) {
    int rank = x->type.rank - 1;
    int64_t *dims = hlo_dims(h, rank), *permutation = hlo_dims(h, rank + 1);
    if (h->failed) return &h->poison;
    for (int i = 0; i <= rank; i++) permutation[i] = i <= dim ? i + 1 : i == dim + 1 ? 0 : i;
    for (int i = 0; i < rank; i++) dims[i] = x->type.dims[i + 1] * (i == dim ? BLOCK : 1);
    x = hlo_reshape(h, hlo_transpose(h, x, permutation), rank, dims);
    return hlo_slice_dim(h, x, dim, 0, n, 1);
}

/* Each block on its own, then what all blocks before it come to. */
static tpj_value *by_blocks(tpj_hlo *h, const char *kind, tpj_value *x, int dim) {
    int64_t n = x->type.dims[dim], n_blocks = (n + BLOCK - 1) / BLOCK;
    tpj_value *blocks = by_window(h, kind, cut(h, kind, x, dim, n_blocks), 0, false);
    if (h->failed) return &h->poison;
    tpj_value *totals = hlo_squeeze(h, hlo_slice_dim(h, blocks, 0, BLOCK - 1, BLOCK, 1), 0);
    tpj_value *before = hlo_cumulative(h, kind, totals, dim, false);
    before = hlo_pad_dim(h, before, hlo_identity(h, kind, x->type.dtype), dim, 1, -1);
    before = hlo_expand(h, before, blocks->type.rank, blocks->type.dims);
    return join(h, hlo_combine(h, kind, before, blocks), dim, n);
}

tpj_value *hlo_cumulative(tpj_hlo *h, const char *kind, tpj_value *x, int dim, bool reverse) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    if (x->type.rank == 0 || x->type.dims[dim] <= 1 || hlo_elements(x) == 0) return x;
    int64_t n = x->type.dims[dim], n_elements = hlo_elements(x);
    if (n_elements > SMALL_ARRAY && n <= LONG_LINE) return by_doubling(h, kind, x, dim, reverse);
    if (n <= HUGE_LINE) return by_window(h, kind, x, dim, reverse);
    if (!reverse) return by_blocks(h, kind, x, dim);
    int64_t along[] = {dim};
    return hlo_reverse(h, by_blocks(h, kind, hlo_reverse(h, x, along, 1), dim), along, 1);
}
