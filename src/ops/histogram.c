/* Histograms. A value on an inner edge belongs to the bin on its right; the last bin holds its upper edge too. */
#include "ops/indexing.h"

/* ---- bins ---- */

/* A range of no width is widened on both sides. */
static void widen_flat(tpj_hlo *h, tpj_value **low, tpj_value **high, double by) {
    tpj_value *flat = hlo_compare(h, "EQ", *low, *high), *width = hlo_number(h, (*low)->type.dtype, by);
    tpj_value *wider_low = hlo_sub(h, *low, width), *wider_high = hlo_add(h, *high, width);
    *low = hlo_select(h, flat, wider_low, *low);
    *high = hlo_select(h, flat, wider_high, *high);
}

/* The smallest and the largest of x; 0 and 1 when there is nothing. */
static void data_range(tpj_hlo *h, tpj_value *x, tpj_value **out_low, tpj_value **out_high) {
    bool empty = hlo_elements(x) == 0;
    *out_low = empty ? hlo_number(h, x->type.dtype, 0) : hlo_reduce_all(h, "minimum", x);
    *out_high = empty ? hlo_number(h, x->type.dtype, 1) : hlo_reduce_all(h, "maximum", x);
}

/* The bin of each element among n of equal width; n (dropped) for what lies outside. */
static tpj_value *linear_bin(tpj_hlo *h, tpj_value *x, int64_t n, tpj_value *low, tpj_value *high) {
    tpj_value *scaled = hlo_mul(h, hlo_sub(h, x, low), hlo_number(h, x->type.dtype, (double)n));
    tpj_value *bin = hlo_convert(h, hlo_div(h, scaled, hlo_sub(h, high, low)), TPJ_I32);
    bin = hlo_min(h, bin, hlo_integer(h, TPJ_I32, n - 1));
    tpj_value *inside = hlo_and(h, hlo_compare(h, "GE", x, low), hlo_compare(h, "LE", x, high));
    return hlo_select(h, inside, bin, hlo_integer(h, TPJ_I32, n));
}

/* The bin of each element of a rank-1 x among the edges [n + 1]. */
static tpj_value *edge_bin(tpj_hlo *h, tpj_value *x, tpj_value *edges) {
    int64_t n = hlo_dim(edges, 0) - 1;
    tpj_value *one = hlo_integer(h, TPJ_I32, 1), *first = hlo_slice_dim(h, edges, 0, 0, 1, 1);
    tpj_value *last = hlo_reshape(h, hlo_slice_dim(h, edges, 0, n, n + 1, 1), 0, NULL);
    tpj_value *bin = hlo_sub(h, tpj_search_sorted(h, edges, x, true), one);
    bin = hlo_select(h, hlo_compare(h, "EQ", x, last), hlo_integer(h, TPJ_I32, n - 1), bin);
    tpj_value *inside =
        hlo_and(h, hlo_compare(h, "GE", x, hlo_reshape(h, first, 0, NULL)), hlo_compare(h, "LE", x, last));
    return hlo_select(h, inside, bin, hlo_integer(h, TPJ_I32, n));
}

/* n + 1 edges from low to high, counted from the nearer end. */
static tpj_value *linear_edges(tpj_hlo *h, int64_t n, tpj_value *low, tpj_value *high) {
    int64_t count = n + 1;
    tpj_dtype dtype = low->type.dtype;
    tpj_value *step = hlo_div(h, hlo_sub(h, high, low), hlo_number(h, dtype, (double)n));
    tpj_value *i = hlo_iota(h, TPJ_I32, 1, &count, 0), *back = hlo_sub(h, hlo_integer(h, TPJ_I32, n), i);
    tpj_value *up = hlo_add(h, hlo_mul(h, hlo_convert(h, i, dtype), step), low);
    tpj_value *down = hlo_sub(h, high, hlo_mul(h, hlo_convert(h, back, dtype), step));
    return hlo_select(h, hlo_compare(h, "LT", i, hlo_integer(h, TPJ_I32, count / 2)), up, down);
}

/* The weights (or ones) added up in n bins. */
static tpj_value *count_bins(tpj_emit *e, tpj_value *bin, int64_t n, tpj_dtype dtype, bool weighted) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *weights = weighted && tpj_has(e, "weight") ? hlo_flatten(h, tpj_in_as(e, "weight", dtype))
                                                          : hlo_full(h, dtype, 1, bin->type.dims, 1);
    return tpj_scatter_rows(h, "add", hlo_zeros(h, dtype, 1, &n), 0, bin, weights);
}

/* ---- histc ---- */

static void emit_histc(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_in_type(e, "self").dtype, compute = tpj_compute_dtype(tpj_float_dtype(e, dtype));
    tpj_value *x = hlo_flatten(h, tpj_in_as(e, "self", compute));
    int64_t bins = tpj_int(e, "bins", 100);
    if (bins <= 0) {
        tpj_fail(e, TPJ_RUNTIME, "bins must be > 0");
        return;
    }
    tpj_value *low = tpj_scalar(e, "min", compute), *high = tpj_scalar(e, "max", compute), *least, *most;
    if (hlo_elements(x) > 0) { /* min == max asks for the data's range */
        tpj_value *own = hlo_compare(h, "EQ", low, high);
        data_range(h, x, &least, &most);
        low = hlo_select(h, own, least, low);
        high = hlo_select(h, own, most, high);
    }
    widen_flat(h, &low, &high, 1);
    tpj_out_as(e, count_bins(e, linear_bin(h, x, bins, low, high), bins, compute, false), dtype);
}

/* ---- histogram and histogramdd ---- */

/* Counts as a probability density over the edges of each dimension. hist: [bins..]. */
static tpj_value *to_density(tpj_hlo *h, tpj_value *hist, tpj_value *const *edges) {
    hist = hlo_div(h, hist, hlo_reduce_all(h, "add", hist));
    for (int d = 0; d < hist->type.rank; d++) {
        int64_t n = hlo_dim(edges[d], 0), at = d;
        tpj_value *width =
            hlo_sub(h, hlo_slice_dim(h, edges[d], 0, 1, n, 1), hlo_slice_dim(h, edges[d], 0, 0, n - 1, 1));
        hist = hlo_div(h, hist, hlo_broadcast_in_dim(h, width, hist->type.rank, hist->type.dims, &at));
    }
    return hist;
}

static bool floats_ok(tpj_emit *e, tpj_dtype dtype) {
    if (dtype == TPJ_F32 || dtype == TPJ_F64) return true;
    tpj_fail(e, TPJ_NOT_IMPLEMENTED, "\"histogramdd\" not implemented for '%s'", tpj_dtype_name(dtype));
    return false;
}

/* The range argument for dimension d of n, or the data's. */
static void read_range(tpj_emit *e, tpj_value *x, int d, int n, tpj_value **out_low, tpj_value **out_high) {
    tpj_hlo *h = tpj_builder(e);
    int n_range = 0;
    const double *range = tpj_floats(e, "range", &n_range);
    if (range != NULL && n_range == 2 * n) {
        *out_low = hlo_number(h, x->type.dtype, range[2 * d]);
        *out_high = hlo_number(h, x->type.dtype, range[2 * d + 1]);
    } else {
        data_range(h, x, out_low, out_high);
    }
    widen_flat(h, out_low, out_high, 0.5);
}

static void emit_histogram(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = hlo_flatten(h, tpj_in(e, "self")), *edges, *low, *high;
    tpj_dtype dtype = x->type.dtype;
    if (!floats_ok(e, dtype)) return;
    if (tpj_row(e)->variant != 0) {
        edges = tpj_in(e, "bins");
        if (edges->type.rank != 1 || edges->type.dtype != dtype || hlo_dim(edges, 0) < 1) {
            tpj_fail(e, TPJ_RUNTIME, "torch.histogram(): bins tensor should be a vector of the input's dtype");
            return;
        }
    } else {
        int64_t bins = tpj_int(e, "bins", 100);
        if (bins <= 0) {
            tpj_fail(e, TPJ_RUNTIME, "torch.histogram(): bins must be > 0, but got %lld", (long long)bins);
            return;
        }
        read_range(e, x, 0, 1, &low, &high);
        edges = linear_edges(h, bins, low, high);
    }
    int64_t n = hlo_dim(edges, 0) - 1;
    tpj_value *hist = n > 0 ? count_bins(e, edge_bin(h, x, edges), n, dtype, true) : hlo_zeros(h, dtype, 1, &n);
    tpj_out(e, tpj_bool(e, "density", false) ? to_density(h, hist, &edges) : hist);
    tpj_out(e, edges);
}

/* Points [.., D] as D columns. */
static tpj_value *column(tpj_hlo *h, tpj_value *x, int64_t d) {
    return hlo_flatten(h, hlo_slice_dim(h, x, x->type.rank - 1, d, d + 1, 1));
}

enum { BIN_EDGES, BIN_COUNTS, BIN_TENSORS };

static void emit_histogramdd(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self"), **edges;
    int form = tpj_row(e)->variant, n = 0;
    if (!floats_ok(e, x->type.dtype)) return;
    const int64_t *counts = NULL;
    if (form == BIN_TENSORS) {
        edges = tpj_in_list(e, "bins", &n);
    } else {
        counts = tpj_ints(e, "bins", &n);
        edges = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, n + 1);
    }
    if (edges == NULL || x->type.rank < 2 || hlo_dim(x, -1) != n) {
        tpj_fail(e, TPJ_RUNTIME,
                 "torch.histogramdd(): the size of bins must be equal to the innermost dimension of the input");
        return;
    }
    int64_t *bins = hlo_dims(h, n), total = 1;
    tpj_value *flat = NULL, *outside = NULL;
    for (int d = 0; d < n; d++) {
        tpj_value *values = column(h, x, d), *low, *high, *bin;
        if (form != BIN_TENSORS) {
            read_range(e, values, d, n, &low, &high);
            edges[d] = linear_edges(h, counts[d], low, high);
            bin = linear_bin(h, values, counts[d], low, high);
        } else {
            bin = edge_bin(h, values, edges[d]);
        }
        bins[d] = hlo_dim(edges[d], 0) - 1;
        total *= bins[d];
        tpj_value *out = hlo_compare(h, "EQ", bin, hlo_integer(h, TPJ_I32, bins[d]));
        outside = outside == NULL ? out : hlo_or(h, outside, out);
        flat = flat == NULL ? bin : hlo_add(h, hlo_mul(h, flat, hlo_integer(h, TPJ_I32, bins[d])), bin);
    }
    if (form == BIN_EDGES) {
        for (int d = 0; d < n; d++) tpj_out(e, edges[d]);
        return;
    }
    flat = hlo_select(h, outside, hlo_integer(h, TPJ_I32, total), flat);
    tpj_value *hist = hlo_reshape(h, count_bins(e, flat, total, x->type.dtype, true), n, bins);
    tpj_out(e, tpj_bool(e, "density", false) ? to_density(h, hist, edges) : hist);
}

#define MANY(bins) "T self, " bins " bins, F[]? range=None, T? weight=None, B density=False"

const tpj_op_def tpj_ops_histogram[] = {
    {.name = "histc", .params = "T self, I bins=100, S min=0, S max=0", .emit = emit_histc},
    {.name = "histogram.bins_tensor",
     .params = "T self, T bins, T? weight=None, B density=False",
     .emit = emit_histogram,
     .variant = 1},
    {.name = "histogram.bin_ct",
     .params = "T self, I bins=100, F[]? range=None, T? weight=None, B density=False",
     .emit = emit_histogram},
    {.name = "_histogramdd_bin_edges", .params = MANY("I[]"), .emit = emit_histogramdd, .variant = BIN_EDGES},
    {.name = "_histogramdd_from_bin_cts", .params = MANY("I[]"), .emit = emit_histogramdd, .variant = BIN_COUNTS},
    {.name = "_histogramdd_from_bin_tensors",
     .params = "T self, T[] bins, T? weight=None, B density=False",
     .emit = emit_histogramdd,
     .variant = BIN_TENSORS},
    {0},
};
