/* Results whose size depends on the data: nonzero, masked_select, repeat_interleave, unique, bincount.
 *
 * `count` emits the number that the caller reads first; `emit` then knows it as tpj_size and writes a program of fixed
 * shapes. What both need (the mask, the sorted runs) is one function. */
#include <math.h>

#include "ops/indexing.h"

static tpj_value *hlo_ones(tpj_hlo *h, tpj_dtype dtype, int64_t n) { return hlo_full(h, dtype, 1, &n, 1); }

/* ---- nonzero ---- */

static tpj_value *nonzero_mask(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    return hlo_convert(h, hlo_flatten(h, tpj_in(e, "self")), TPJ_BOOL);
}

static void count_nonzero(tpj_emit *e) { tpj_out(e, tpj_mask_count(tpj_builder(e), nonzero_mask(e))); }

/* The coordinates [n, rank] of the first n set elements, in row-major order; rows that are left over hold `fill`. */
static tpj_value *coordinates(tpj_emit *e, tpj_value *mask, int64_t n, tpj_value *fill) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, "self");
    int64_t flat = hlo_elements(mask), dims[] = {n, type.rank}, column[] = {n, 1};
    if (n == 0 || type.rank == 0) return hlo_zeros(h, TPJ_I64, 2, dims);
    if (flat == 0) return hlo_broadcast_in_dim(h, fill, 2, dims, NULL);
    tpj_dtype counter = tpj_index_dtype(flat);
    tpj_value *missing = hlo_integer(h, counter, -1);
    tpj_value *cell = tpj_compact(h, mask, hlo_iota(h, counter, 1, &flat, 0), n, missing);
    tpj_value **parts = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, type.rank);
    if (parts == NULL) return hlo_fail(h, TPJ_OUT_OF_MEMORY, "out of memory");
    tpj_value *rest = cell;
    for (int d = type.rank - 1; d >= 0; d--) {
        tpj_value *size = hlo_integer(h, counter, type.dims[d]);
        parts[d] = hlo_reshape(h, hlo_convert(h, hlo_binary(h, "remainder", rest, size), TPJ_I64), 2, column);
        rest = hlo_div(h, rest, size);
    }
    tpj_value *found = hlo_concatenate(h, parts, type.rank, 1);
    tpj_value *is_missing = hlo_reshape(h, hlo_compare(h, "EQ", cell, missing), 2, column);
    return hlo_select(h, hlo_expand(h, is_missing, 2, dims), fill, found);
}

static void emit_nonzero(tpj_emit *e) {
    tpj_value *none = hlo_integer(tpj_builder(e), TPJ_I64, 0);
    tpj_out_columns(e,
                    coordinates(e, nonzero_mask(e), tpj_size(e, 0), none)); /* as the CPU, for the sake of as_tuple */
}

static void emit_nonzero_static(tpj_emit *e) {
    int64_t n = tpj_int(e, "size", 0);
    if (n < 0) {
        tpj_fail(e, TPJ_RUNTIME, "nonzero_static: 'size' must be an non-negative integer");
        return;
    }
    tpj_out(e, coordinates(e, nonzero_mask(e), n, tpj_scalar_or(e, "fill_value", TPJ_I64, -1)));
}

/* ---- masked_select ---- */

static void masked_operands(tpj_emit *e, tpj_value **out_x, tpj_value **out_mask) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self"), *mask = tpj_in_as(e, "mask", TPJ_BOOL);
    tpj_dtype given = tpj_in_type(e, "mask").dtype;
    if (given != TPJ_BOOL) {
        tpj_fail(e, TPJ_RUNTIME, "masked_select: expected BoolTensor for mask, but got %s", tpj_dtype_name(given));
    }
    hlo_expand_together(h, &x, &mask);
    *out_x = hlo_flatten(h, x);
    *out_mask = hlo_flatten(h, mask);
}

static void count_masked_select(tpj_emit *e) {
    tpj_value *x, *mask;
    masked_operands(e, &x, &mask);
    tpj_out(e, tpj_mask_count(tpj_builder(e), mask));
}

static void emit_masked_select(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x, *mask;
    masked_operands(e, &x, &mask);
    tpj_out(e, tpj_compact(h, mask, x, tpj_size(e, 0), hlo_number(h, x->type.dtype, 0)));
}

/* ---- repeat_interleave ---- */

static bool read_repeats(tpj_emit *e, tpj_value **out_repeats) {
    tpj_value *repeats = tpj_in(e, "repeats");
    if (repeats->type.rank != 1) {
        tpj_fail(e, TPJ_RUNTIME, "repeat_interleave only accept 1D vector as repeat");
        return false;
    }
    if (repeats->type.dtype != TPJ_I64 && repeats->type.dtype != TPJ_I32) {
        tpj_fail(e, TPJ_RUNTIME, "repeats has to be Long or Int tensor");
        return false;
    }
    *out_repeats = repeats;
    return true;
}

static void count_repeat_interleave(tpj_emit *e) {
    tpj_value *repeats;
    if (!read_repeats(e, &repeats)) return;
    tpj_hlo *h = tpj_builder(e);
    tpj_value *negative = hlo_compare(h, "LT", repeats, hlo_integer(h, repeats->type.dtype, 0));
    tpj_check(e, negative, "repeats can not be negative");
    tpj_out(e, hlo_reduce_all(h, "add", hlo_convert(h, repeats, TPJ_I64)));
}

/* A one where the next element starts, summed up: place j holds the number of elements that end at or before j. */
static void emit_repeat_interleave(tpj_emit *e) {
    tpj_value *repeats;
    if (!read_repeats(e, &repeats)) return;
    tpj_hlo *h = tpj_builder(e);
    int64_t n = tpj_size(e, 0);
    tpj_dtype dtype = repeats->type.dtype;
    if (n == 0) {
        tpj_out(e, hlo_zeros(h, dtype, 1, &n));
        return;
    }
    tpj_value *ends = hlo_cumulative(h, "add", repeats, 0, false);
    tpj_value *steps =
        tpj_scatter_rows(h, "add", hlo_zeros(h, dtype, 1, &n), 0, ends, hlo_ones(h, dtype, hlo_dim(repeats, 0)));
    tpj_out(e, hlo_cumulative(h, "add", steps, 0, false));
}

/* ---- bincount ---- */

static bool read_bins(tpj_emit *e, tpj_value **out_bins) {
    tpj_value *bins = tpj_in(e, "self");
    if (bins->type.rank != 1 || !tpj_dtype_is_integral(bins->type.dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
        return false;
    }
    tpj_require(e, "minlength", 0, HUGE_VAL, "minlength should be >= 0, got ");
    if (tpj_has(e, "weights")) {
        tpj_type weights = tpj_in_type(e, "weights");
        if (weights.rank != 1 || weights.dims[0] != hlo_dim(bins, 0)) {
            tpj_fail(e, TPJ_RUNTIME, "weights should be 1-d and have the same length as input");
            return false;
        }
    }
    *out_bins = bins;
    return true;
}

static void count_bincount(tpj_emit *e) {
    tpj_value *bins;
    if (!read_bins(e, &bins)) return;
    tpj_hlo *h = tpj_builder(e);
    tpj_value *n = tpj_scalar_or(e, "minlength", TPJ_I64, 0);
    tpj_check(e, hlo_compare(h, "LT", bins, hlo_integer(h, bins->type.dtype, 0)),
              "bincount only supports 1-d non-negative integral inputs.");
    if (hlo_elements(bins) > 0) {
        tpj_value *largest = hlo_reduce_all(h, "maximum", hlo_convert(h, bins, TPJ_I64));
        n = hlo_max(h, n, hlo_add(h, largest, hlo_integer(h, TPJ_I64, 1)));
    }
    tpj_out(e, n);
}

static void emit_bincount(tpj_emit *e) {
    tpj_value *bins;
    if (!read_bins(e, &bins)) return;
    tpj_hlo *h = tpj_builder(e);
    int64_t n = tpj_size(e, 0);
    tpj_dtype dtype = TPJ_I64;
    if (tpj_has(e, "weights")) dtype = tpj_in_type(e, "weights").dtype == TPJ_F32 ? TPJ_F32 : TPJ_F64;
    tpj_value *weights = tpj_has(e, "weights") ? tpj_in_as(e, "weights", dtype) : hlo_ones(h, dtype, hlo_dim(bins, 0));
    tpj_value *at = tpj_index_argument(e, bins, n, false);
    tpj_out(e, tpj_scatter_rows(h, "add", hlo_zeros(h, dtype, 1, &n), 0, at, weights));
}

/* ---- unique ---- */

/* Equal elements brought together: element i of the order is x[order[i]], `starts` marks the first of each run. */
typedef struct runs {
    tpj_value *elements; /* [n] or [n, m], in order */
    tpj_value *order;    /* I32[n] */
    tpj_value *starts;   /* bool[n] */
    int64_t n;
} runs;

enum { UNIQUE_PAIR, UNIQUE_FLAT, UNIQUE_DIM, UNIQUE_CONSECUTIVE };

/* The first element starts a run, and every one that differs from the one before it. */
static tpj_value *run_starts(tpj_hlo *h, tpj_value *x) {
    int64_t n = hlo_dim(x, 0), one = 1;
    tpj_value *first = hlo_full(h, TPJ_BOOL, 1, &one, 1);
    if (n <= 1) return hlo_slice_dim(h, first, 0, 0, n, 1);
    tpj_value *differs = hlo_compare(h, "NE", hlo_slice_dim(h, x, 0, 1, n, 1), hlo_slice_dim(h, x, 0, 0, n - 1, 1));
    if (x->type.rank == 2) differs = hlo_reduce_dim(h, "or", differs, 1);
    tpj_value *parts[] = {first, differs};
    return hlo_concatenate(h, parts, 2, 0);
}

/* The number of each element's run. */
static tpj_value *run_numbers(tpj_hlo *h, tpj_value *starts) {
    tpj_value *seen = hlo_cumulative(h, "add", hlo_convert(h, starts, TPJ_I32), 0, false);
    return hlo_sub(h, seen, hlo_integer(h, TPJ_I32, 1));
}

static void column_less(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    tpj_value *tie = hlo_compare(h, "EQ", arguments[0], arguments[1]);
    tpj_value *smaller = hlo_compare(h, "LT", arguments[2], arguments[3]);
    results[0] = hlo_or(h, hlo_compare(h, "LT", arguments[0], arguments[1]), hlo_and(h, tie, smaller));
}

static void columns_remain(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    results[0] = hlo_compare(h, "LT", arguments[0], hlo_integer(h, TPJ_I32, hlo_dim(arguments[2], 1)));
}

/* Refines the rank that rows have by their first columns by the next column. */
static void refine_by_column(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    tpj_value *column = arguments[0], *rank = arguments[1], *rows = arguments[2];
    int64_t n = hlo_dim(rows, 0), sizes[] = {n, 1};
    tpj_value *starts[] = {hlo_integer(h, TPJ_I32, 0), column};
    tpj_value *key = hlo_flatten(h, hlo_dynamic_slice(h, rows, starts, sizes));
    tpj_value *operands[] = {rank, key, hlo_iota(h, TPJ_I32, 1, &n, 0)}, *sorted[3];
    hlo_sort(h, operands, 3, 0, true, column_less, NULL, sorted);
    tpj_value *starts_run = hlo_or(h, run_starts(h, sorted[0]), run_starts(h, sorted[1]));
    results[0] = hlo_add(h, column, hlo_integer(h, TPJ_I32, 1));
    results[1] = tpj_scatter_rows(h, "replace", rank, 0, sorted[2], run_numbers(h, starts_run));
    results[2] = rows;
}

/* The order of rows [n, m] by their columns, first column first. */
static tpj_value *lexicographic_order(tpj_hlo *h, tpj_value *rows) {
    int64_t n = hlo_dim(rows, 0);
    tpj_value *initial[] = {hlo_integer(h, TPJ_I32, 0), hlo_zeros(h, TPJ_I32, 1, &n), rows}, *final[3], *rank, *order;
    hlo_while(h, initial, 3, columns_remain, refine_by_column, NULL, final);
    tpj_sort(h, final[1], 0, false, &rank, &order);
    return order;
}

/* x with `dim` in front and the rest flattened: one row an element. */
static tpj_value *rows_of(tpj_hlo *h, tpj_value *x, int dim) {
    int64_t *permutation = hlo_dims(h, x->type.rank), n = hlo_dim(x, dim);
    permutation[0] = dim;
    for (int d = 0, k = 1; d < x->type.rank; d++) {
        if (d != dim) permutation[k++] = d;
    }
    int64_t dims[] = {n, n > 0 ? hlo_elements(x) / n : 0};
    return hlo_reshape(h, hlo_transpose(h, x, permutation), 2, dims);
}

/* Reads self and finds the runs. *out_dim is -1 when self is taken flat. */
static bool find_runs(tpj_emit *e, runs *out_runs, int *out_dim) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int variant = tpj_row(e)->variant;
    bool consecutive = variant == UNIQUE_CONSECUTIVE;
    bool by_dim = (consecutive || variant == UNIQUE_DIM) && tpj_has(e, "dim");
    *out_dim = by_dim ? tpj_dim(e, "dim", x->type.rank) : -1;
    int n_empty = 0;
    for (int d = 0; d < x->type.rank; d++) n_empty += hlo_dim(x, d) == 0;
    if (by_dim && n_empty > 1 && hlo_dim(x, *out_dim) == 0) {
        tpj_fail(e, TPJ_RUNTIME, "Number of zero sized dimensions is more than one, so unique cannot be applied");
        return false;
    }
    if (by_dim && hlo_elements(x) == 0 && (x->type.rank == 0 || hlo_dim(x, *out_dim) != 0)) {
        tpj_fail(e, TPJ_RUNTIME, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
        return false;
    }
    if (x->type.dtype == TPJ_BOOL) x = hlo_convert(h, x, TPJ_U8);
    runs r = {.elements = by_dim ? rows_of(h, tpj_at_least_1d(h, x), *out_dim) : hlo_flatten(h, x)};
    r.n = hlo_dim(r.elements, 0);
    if (consecutive || r.n == 0) {
        r.order = hlo_iota(h, TPJ_I32, 1, &r.n, 0);
    } else if (by_dim) {
        r.order = lexicographic_order(h, r.elements);
        r.elements = hlo_take(h, r.elements, r.order, 0);
    } else {
        tpj_sort(h, r.elements, 0, false, &r.elements, &r.order);
    }
    r.starts = run_starts(h, r.elements);
    *out_runs = r;
    return !hlo_failed(h);
}

static void count_unique(tpj_emit *e) {
    runs r;
    int dim;
    if (find_runs(e, &r, &dim)) tpj_out(e, tpj_mask_count(tpj_builder(e), r.starts));
}

/* The first element of each run: its place among the elements in order. */
static tpj_value *unique_elements(tpj_emit *e, const runs *r, int dim) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, "self");
    int64_t n = tpj_size(e, 0);
    if (dim < 0) return tpj_compact(h, r->starts, r->elements, n, hlo_number(h, r->elements->type.dtype, 0));
    int rank = type.rank > 0 ? type.rank : 1;
    int64_t *dims = hlo_dims(h, rank), *permutation = hlo_dims(h, rank);
    dims[0] = n;
    for (int d = 0, k = 1; d < rank; d++) {
        if (d != dim) dims[k++] = type.dims[d];
        permutation[d] = d == dim ? 0 : d < dim ? d + 1 : d;
    }
    if (n == 0) return hlo_transpose(h, hlo_zeros(h, r->elements->type.dtype, rank, dims), permutation);
    tpj_value *at = tpj_compact(h, r->starts, hlo_iota(h, TPJ_I32, 1, &r->n, 0), n, hlo_integer(h, TPJ_I32, 0));
    return hlo_transpose(h, hlo_reshape(h, hlo_take(h, r->elements, at, 0), rank, dims), permutation);
}

static void emit_unique(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    runs r;
    int dim;
    if (!find_runs(e, &r, &dim)) return;
    tpj_type type = tpj_in_type(e, "self");
    int64_t n = tpj_size(e, 0), none = 0;
    tpj_out_as(e, unique_elements(e, &r, dim), type.dtype);
    tpj_value *numbers = r.n > 0 ? run_numbers(h, r.starts) : hlo_zeros(h, TPJ_I32, 1, &none);
    tpj_value *absent = hlo_zeros(h, TPJ_I64, 1, &none);
    if (tpj_bool(e, "return_inverse", false)) {
        tpj_value *inverse = tpj_scatter_rows(h, "replace", hlo_zeros(h, TPJ_I32, 1, &r.n), 0, r.order, numbers);
        inverse = hlo_convert(h, inverse, TPJ_I64);
        tpj_out(e, dim < 0 ? hlo_reshape(h, inverse, type.rank, type.dims) : inverse);
    } else {
        tpj_out(e, absent);
    }
    if (tpj_row(e)->variant == UNIQUE_PAIR) return;
    if (!tpj_bool(e, "return_counts", false)) {
        tpj_out(e, absent);
        return;
    }
    tpj_out(e, tpj_scatter_rows(h, "add", hlo_zeros(h, TPJ_I64, 1, &n), 0, numbers, hlo_ones(h, TPJ_I64, r.n)));
}

const tpj_op_def tpj_ops_sized[] = {
    {.name = "nonzero", .params = "T self", .emit = emit_nonzero, .count = count_nonzero, .flags = TPJ_OP_SIZED},
    {.name = "nonzero_static", .params = "T self, I size, I~ fill_value=-1", .emit = emit_nonzero_static},
    {.name = "masked_select",
     .params = "T self, T mask",
     .emit = emit_masked_select,
     .count = count_masked_select,
     .flags = TPJ_OP_SIZED},
    {.name = "repeat_interleave.Tensor",
     .params = "T repeats",
     .emit = emit_repeat_interleave,
     .count = count_repeat_interleave,
     .flags = TPJ_OP_SIZED},
    {.name = "bincount",
     .params = "T self, T? weights=None, I~ minlength=0",
     .emit = emit_bincount,
     .count = count_bincount,
     .flags = TPJ_OP_SIZED},
    {.name = "unique_consecutive",
     .params = "T self, B return_inverse=False, B return_counts=False, I? dim=None",
     .emit = emit_unique,
     .count = count_unique,
     .flags = TPJ_OP_SIZED,
     .variant = UNIQUE_CONSECUTIVE},
    {.name = "_unique",
     .params = "T self, B sorted=True, B return_inverse=False",
     .emit = emit_unique,
     .count = count_unique,
     .flags = TPJ_OP_SIZED,
     .variant = UNIQUE_PAIR},
    {.name = "_unique2",
     .params = "T self, B sorted=True, B return_inverse=False, B return_counts=False",
     .emit = emit_unique,
     .count = count_unique,
     .flags = TPJ_OP_SIZED,
     .variant = UNIQUE_FLAT},
    {.name = "unique_dim_consecutive",
     .params = "T self, I dim, B return_inverse=False, B return_counts=False",
     .emit = emit_unique,
     .count = count_unique,
     .flags = TPJ_OP_SIZED,
     .variant = UNIQUE_CONSECUTIVE},
    {.name = "unique_dim",
     .params = "T self, I dim, B sorted=True, B return_inverse=False, B return_counts=False",
     .emit = emit_unique,
     .count = count_unique,
     .flags = TPJ_OP_SIZED,
     .variant = UNIQUE_DIM},
    {0},
};
