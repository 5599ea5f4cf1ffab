/* Index arithmetic, scatters, compaction and searching for the families that need them. */
#include "ops/indexing.h"

#include "base/text.h"

const char *tpj_shape_text(tpj_hlo *h, int rank, const int64_t *dims) {
    tpj_text text = {0};
    tpj_text_add(&text, "[");
    tpj_text_integers(&text, dims, (size_t)rank);
    tpj_text_add(&text, "]");
    const char *copy = tpj_arena_string(hlo_arena(h), tpj_text_string(&text));
    tpj_text_destroy(&text);
    return copy != NULL ? copy : "[?]";
}

int64_t tpj_product(const int64_t *dims, int n) {
    int64_t product = 1;
    for (int i = 0; i < n; i++) product *= dims[i];
    return product;
}

int64_t *tpj_dims_with(tpj_hlo *h, const tpj_value *x, int dim, int64_t size) {
    int64_t *dims = hlo_dims(h, x->type.rank);
    for (int i = 0; i < x->type.rank; i++) dims[i] = i == dim ? size : x->type.dims[i];
    return dims;
}

tpj_value *tpj_at_least_1d(tpj_hlo *h, tpj_value *x) { return x->type.rank > 0 ? x : hlo_flatten(h, x); }

bool tpj_common_shape(tpj_hlo *h, tpj_value *const *xs, int n, int *out_rank, const int64_t **out_dims) {
    int rank = 0;
    for (int i = 0; i < n; i++) {
        if (xs[i] != NULL && xs[i]->type.rank > rank) rank = xs[i]->type.rank;
    }
    int64_t *dims = hlo_dims(h, rank);
    for (int d = 0; d < rank; d++) dims[d] = 1;
    for (int i = 0; i < n; i++) {
        if (xs[i] == NULL) continue;
        int shift = rank - xs[i]->type.rank;
        for (int d = 0; d < xs[i]->type.rank; d++) {
            int64_t size = xs[i]->type.dims[d];
            if (size == 1 || size == dims[d + shift]) continue;
            if (dims[d + shift] != 1) return false;
            dims[d + shift] = size;
        }
    }
    *out_rank = rank;
    *out_dims = dims;
    return true;
}

tpj_dtype tpj_index_dtype(int64_t size) { return size <= INT32_MAX ? TPJ_I32 : TPJ_I64; }

tpj_value *tpj_index_narrow(tpj_hlo *h, tpj_value *index, int64_t size) {
    return hlo_convert(h, index, tpj_index_dtype(size));
}

tpj_value *tpj_index_argument(tpj_emit *e, tpj_value *index, int64_t size, bool wrap) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = index->type.dtype;
    if (dtype != TPJ_I64 && dtype != TPJ_I32) index = hlo_convert(h, index, TPJ_I64);
    return tpj_index_narrow(h, tpj_check_index(e, index, size, wrap), size);
}

tpj_dtype tpj_accumulate_dtype(tpj_dtype dtype) { return tpj_compute_dtype(dtype); }

/* ---- scatters ---- */

tpj_value *tpj_scatter_along(tpj_hlo *h, const char *kind, tpj_value *x, int dim, tpj_value *index, tpj_value *src) {
    int rank = x->type.rank;
    if (hlo_elements(index) == 0) return x;
    int64_t *numbers = hlo_dims(h, rank);
    for (int i = 0; i < rank; i++) numbers[i] = i;
    tpj_value *coordinates = index;
    if (rank > 1) { /* every update names its whole position: the other dimensions are counted */
        int64_t *dims = hlo_dims(h, rank + 1);
        for (int i = 0; i < rank; i++) dims[i] = index->type.dims[i];
        dims[rank] = 1;
        tpj_value **parts = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, rank);
        if (parts == NULL) return hlo_fail(h, TPJ_OUT_OF_MEMORY, "out of memory");
        for (int i = 0; i < rank; i++) {
            parts[i] =
                i == dim ? hlo_reshape(h, index, rank + 1, dims) : hlo_iota(h, index->type.dtype, rank + 1, dims, i);
        }
        coordinates = hlo_concatenate(h, parts, rank, rank);
    }
    hlo_gather_numbers gather = {.collapsed = numbers,
                                 .n_collapsed = rank,
                                 .start_index_map = numbers,
                                 .n_start_index_map = rank,
                                 .index_vector_dim = rank};
    return hlo_scatter(h, kind, x, coordinates, src, &gather);
}

tpj_value *tpj_scatter_rows(tpj_hlo *h, const char *kind, tpj_value *x, int dim, tpj_value *index, tpj_value *src) {
    int rank = x->type.rank;
    if (hlo_elements(src) == 0) return x;
    int64_t *window = hlo_dims(h, rank), inserted = dim;
    int n_window = 0;
    for (int i = 0; i < rank; i++) {
        if (i != dim) window[n_window++] = i;
    }
    hlo_gather_numbers gather = {.offset_dims = window,
                                 .n_offset_dims = n_window,
                                 .collapsed = &inserted,
                                 .n_collapsed = 1,
                                 .start_index_map = &inserted,
                                 .n_start_index_map = 1,
                                 .index_vector_dim = 1};
    return hlo_scatter(h, kind, x, index, src, &gather);
}

tpj_value *tpj_write_slice(tpj_hlo *h, tpj_value *x, tpj_value *src, int dim, int64_t start, int64_t step) {
    int rank = x->type.rank;
    int64_t n = hlo_dim(src, dim), size = hlo_dim(x, dim);
    if (n == 0 || hlo_elements(x) == 0) return x;
    if (n == size) return src;
    if (step == 1 || n == 1) {
        tpj_value **starts = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, rank);
        if (starts == NULL) return hlo_fail(h, TPJ_OUT_OF_MEMORY, "out of memory");
        for (int i = 0; i < rank; i++) starts[i] = hlo_integer(h, tpj_index_dtype(size), i == dim ? start : 0);
        return hlo_dynamic_update_slice(h, x, src, starts);
    }
    int64_t *low = hlo_dims(h, rank), *high = hlo_dims(h, rank), *interior = hlo_dims(h, rank);
    low[dim] = start;
    interior[dim] = step - 1;
    high[dim] = size - (start + (n - 1) * step + 1);
    tpj_value *spread = hlo_pad(h, src, hlo_number(h, src->type.dtype, 0), low, high, interior);
    tpj_value *ones = hlo_full(h, TPJ_BOOL, rank, src->type.dims, 1);
    tpj_value *mask = hlo_pad(h, ones, hlo_number(h, TPJ_BOOL, 0), low, high, interior);
    return hlo_select(h, mask, spread, x);
}

/* ---- compaction ---- */

tpj_value *tpj_mask_count(tpj_hlo *h, tpj_value *mask) {
    tpj_value *ones = hlo_convert(h, mask, tpj_index_dtype(hlo_elements(mask)));
    return hlo_convert(h, hlo_reduce_all(h, "add", ones), TPJ_I64);
}

tpj_value *tpj_mask_positions(tpj_hlo *h, tpj_value *mask, int64_t n) {
    tpj_dtype dtype = tpj_index_dtype(hlo_elements(mask));
    tpj_value *running = hlo_cumulative(h, "add", hlo_convert(h, mask, dtype), 0, false);
    tpj_value *before = hlo_sub(h, running, hlo_integer(h, dtype, 1));
    return hlo_select(h, mask, before, hlo_integer(h, dtype, n));
}

tpj_value *tpj_compact(tpj_hlo *h, tpj_value *mask, tpj_value *x, int64_t n, tpj_value *fill) {
    tpj_value *target = hlo_broadcast_in_dim(h, fill, 1, &n, NULL);
    if (n == 0 || hlo_elements(x) == 0) return target;
    return tpj_scatter_rows(h, "replace", target, 0, tpj_mask_positions(h, mask, n), x);
}

/* ---- searching ---- */

typedef struct search {
    tpj_value *sorted, *values; /* [n] or [rows, n]; [m] or [rows, m] */
    bool right;
} search;

/* The element belongs to the left part: < value, or <= value when `right`. Written as a negation so that a NaN is taken
 * as larger than everything, as PyTorch's binary search does. */
static tpj_value *search_goes_right(tpj_hlo *h, bool right, tpj_value *element, tpj_value *value) {
    return hlo_not(h, hlo_compare(h, right ? "GT" : "GE", element, value));
}

static void search_continues(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    results[0] = hlo_reduce_all(h, "or", hlo_compare(h, "LT", arguments[0], arguments[1]));
}

static void search_halve(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    const search *s = context;
    tpj_value *low = arguments[0], *high = arguments[1], *sorted = arguments[2], *values = arguments[3];
    tpj_value *open = hlo_compare(h, "LT", low, high);
    tpj_value *half = hlo_div(h, hlo_sub(h, high, low), hlo_integer(h, TPJ_I32, 2));
    tpj_value *middle = hlo_add(h, low, half);
    tpj_value *last = hlo_integer(h, TPJ_I32, hlo_dim(sorted, -1) - 1);
    tpj_value *at = hlo_min(h, middle, last);
    tpj_value *element =
        sorted->type.rank == 1 ? hlo_take(h, sorted, at, 0) : hlo_take_along(h, sorted, at, sorted->type.rank - 1);
    tpj_value *right = search_goes_right(h, s->right, element, values);
    tpj_value *next = hlo_add(h, middle, hlo_integer(h, TPJ_I32, 1));
    results[0] = hlo_select(h, hlo_and(h, open, right), next, low);
    results[1] = hlo_select(h, hlo_and(h, open, hlo_not(h, right)), middle, high);
    results[2] = sorted;
    results[3] = values;
}

/* Few elements are compared with every value, in one fused reduction. */
static tpj_value *search_by_counting(tpj_hlo *h, const search *s) {
    int rank = s->values->type.rank;
    int64_t *dims = hlo_dims(h, rank + 1), *values_at = hlo_dims(h, rank), *sorted_at = hlo_dims(h, rank);
    for (int i = 0; i < rank; i++) dims[i] = s->values->type.dims[i], values_at[i] = i;
    dims[rank] = hlo_dim(s->sorted, -1);
    int sorted_rank = s->sorted->type.rank;
    for (int i = 0; i < sorted_rank; i++) sorted_at[i] = i < sorted_rank - 1 ? i : rank;
    tpj_value *elements = hlo_broadcast_in_dim(h, s->sorted, rank + 1, dims, sorted_at);
    tpj_value *values = hlo_broadcast_in_dim(h, s->values, rank + 1, dims, values_at);
    tpj_value *left = hlo_convert(h, search_goes_right(h, s->right, elements, values), TPJ_I32);
    return hlo_reduce_dim(h, "add", left, rank);
}

tpj_value *tpj_search_sorted(tpj_hlo *h, tpj_value *sorted, tpj_value *values, bool right) {
    enum { FEW = 64 };
    search s = {.sorted = sorted, .values = values, .right = right};
    int64_t n = hlo_dim(sorted, -1);
    if (n == 0 || hlo_elements(values) == 0) return hlo_zeros(h, TPJ_I32, values->type.rank, values->type.dims);
    if (n <= FEW) return search_by_counting(h, &s);
    int rank = values->type.rank;
    tpj_value *low = hlo_zeros(h, TPJ_I32, rank, values->type.dims);
    tpj_value *high = hlo_full(h, TPJ_I32, rank, values->type.dims, (double)n);
    tpj_value *initial[4] = {low, high, sorted, values}, *final[4];
    hlo_while(h, initial, 4, search_continues, search_halve, &s, final);
    return final[0];
}

/* ---- sorting ---- */

static void sort_less(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    const bool *descending = context;
    tpj_value *a = arguments[0], *b = arguments[1];
    tpj_value *less = hlo_compare(h, *descending ? "GT" : "LT", a, b);
    if (tpj_dtype_is_float(a->type.dtype)) { /* a NaN is larger than any number, and equal to a NaN */
        tpj_value *larger = *descending ? a : b, *smaller = *descending ? b : a;
        tpj_value *only = hlo_and(h, hlo_is_nan(h, larger), hlo_not(h, hlo_is_nan(h, smaller)));
        less = hlo_or(h, less, only);
    }
    results[0] = less;
}

void tpj_sort(tpj_hlo *h, tpj_value *x, int dim, bool descending, tpj_value **out_values, tpj_value **out_indices) {
    tpj_dtype dtype = x->type.dtype;
    tpj_value *key = dtype == TPJ_BOOL ? hlo_convert(h, x, TPJ_U8) : x;
    tpj_value *operands[2] = {key, NULL}, *sorted[2] = {NULL, NULL};
    int n = 1;
    if (out_indices != NULL)
        operands[n++] = hlo_iota(h, tpj_index_dtype(hlo_dim(x, dim)), x->type.rank, x->type.dims, dim);
    if (hlo_elements(x) == 0) {
        sorted[0] = operands[0];
        sorted[1] = operands[1];
    } else {
        hlo_sort(h, operands, n, dim, true, sort_less, &descending, sorted);
    }
    *out_values = hlo_convert(h, sorted[0], dtype);
    if (out_indices != NULL) *out_indices = sorted[1];
}

/* ---- diagonals ---- */

tpj_value *tpj_band_mask(tpj_hlo *h, const char *direction, int rank, const int64_t *dims, int64_t offset) {
    tpj_value *rows = hlo_iota(h, TPJ_I32, rank, dims, rank - 2);
    tpj_value *columns = hlo_iota(h, TPJ_I32, rank, dims, rank - 1);
    return hlo_compare(h, direction, columns, hlo_add(h, rows, hlo_integer(h, TPJ_I32, offset)));
}

/* ---- advanced indexing ---- */

static bool plan_error_shapes(tpj_emit *e, tpj_value *const *indices, int n) {
    tpj_hlo *h = tpj_builder(e);
    tpj_text text = {0};
    for (int i = 0; i < n; i++) {
        if (indices[i] == NULL) continue;
        if (text.length > 0) tpj_text_add(&text, ", ");
        tpj_text_add(&text, tpj_shape_text(h, indices[i]->type.rank, indices[i]->type.dims));
    }
    tpj_fail(e, TPJ_INDEX, "shape mismatch: indexing tensors could not be broadcast together with shapes %s",
             tpj_text_string(&text));
    tpj_text_destroy(&text);
    return false;
}

/* Where the broadcast dimensions stand in the result, and the result's dims. */
static void plan_result(tpj_hlo *h, const tpj_value *x, const bool *is_indexed, int b_rank, const int64_t *b_dims,
                        tpj_index_plan *plan) {
    int rank = x->type.rank, first = (int)plan->indexed[0], last = (int)plan->indexed[plan->n_indexed - 1];
    bool adjacent = last - first + 1 == plan->n_indexed;
    int64_t *dims = hlo_dims(h, rank + b_rank), *window = hlo_dims(h, rank);
    int n = 0;
    for (int d = -1; d < rank; d++) {
        if (d == (adjacent ? first : -1)) {
            for (int b = 0; b < b_rank; b++) dims[n++] = b_dims[b];
        }
        if (d < 0 || is_indexed[d]) continue;
        window[plan->n_window++] = n;
        dims[n++] = x->type.dims[d];
    }
    plan->rank = n;
    plan->dims = dims;
    plan->window = window;
    plan->empty = tpj_product(dims, n) == 0;
}

bool tpj_index_plan_make(tpj_emit *e, const tpj_value *x, tpj_value *const *indices, int n, tpj_index_plan *out_plan) {
    tpj_hlo *h = tpj_builder(e);
    int rank = x->type.rank, b_rank = 0;
    const int64_t *b_dims = NULL;
    tpj_index_plan plan = {0};
    if (n > rank) {
        tpj_fail(e, TPJ_INDEX, "too many indices for tensor of dimension %d (got %d)", rank, n);
        return false;
    }
    if (!tpj_common_shape(h, indices, n, &b_rank, &b_dims)) return plan_error_shapes(e, indices, n);
    int64_t *indexed = hlo_dims(h, rank), largest = 0, n_positions = tpj_product(b_dims, b_rank);
    bool *is_indexed = TPJ_ARENA_ARRAY(hlo_arena(h), bool, rank + 1);
    tpj_value **parts = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, rank + 1);
    if (is_indexed == NULL || parts == NULL) {
        hlo_fail(h, TPJ_OUT_OF_MEMORY, "out of memory");
        return false;
    }
    for (int d = 0; d < n; d++) {
        if (indices[d] == NULL) continue;
        is_indexed[d] = true;
        indexed[plan.n_indexed++] = d;
        if (x->type.dims[d] > largest) largest = x->type.dims[d];
        if (x->type.dims[d] == 0 && n_positions > 0) {
            tpj_fail(e, TPJ_INDEX, "index is out of bounds for dimension %d with size 0", d);
            return false;
        }
    }
    if (plan.n_indexed == 0) {
        tpj_fail(e, TPJ_INDEX, "at least one index tensor is needed");
        return false;
    }
    plan.indexed = indexed;
    plan_result(h, x, is_indexed, b_rank, b_dims, &plan);
    int64_t *dims = hlo_dims(h, b_rank + 1);
    for (int b = 0; b < b_rank; b++) dims[b] = b_dims[b];
    dims[b_rank] = 1;
    for (int i = 0; i < plan.n_indexed; i++) {
        int d = (int)indexed[i];
        tpj_value *index = tpj_check_index(e, indices[d], x->type.dims[d], true);
        parts[i] = hlo_reshape(h, hlo_expand(h, tpj_index_narrow(h, index, largest), b_rank, b_dims), b_rank + 1, dims);
    }
    plan.starts = hlo_concatenate(h, parts, plan.n_indexed, b_rank);
    *out_plan = plan;
    return !hlo_failed(h);
}

hlo_gather_numbers tpj_index_plan_numbers(tpj_hlo *h, const tpj_value *x, const tpj_index_plan *plan) {
    int64_t *sizes = hlo_dims(h, x->type.rank);
    for (int d = 0; d < x->type.rank; d++) sizes[d] = x->type.dims[d];
    for (int i = 0; i < plan->n_indexed; i++) sizes[plan->indexed[i]] = 1;
    return (hlo_gather_numbers){.offset_dims = plan->window,
                                .n_offset_dims = plan->n_window,
                                .collapsed = plan->indexed,
                                .n_collapsed = plan->n_indexed,
                                .start_index_map = plan->indexed,
                                .n_start_index_map = plan->n_indexed,
                                .index_vector_dim = plan->starts->type.rank - 1,
                                .slice_sizes = sizes};
}

/* ---- slices and diagonals ---- */

int64_t tpj_slice_bounds(int64_t *start, int64_t *end, int64_t step, int64_t size) {
    int64_t *const bounds[] = {start, end};
    for (int i = 0; i < 2; i++) {
        int64_t at = *bounds[i];
        if (at < 0) at += size;
        *bounds[i] = at < 0 ? 0 : at > size ? size : at;
    }
    if (*end < *start) *end = *start;
    return (*end - *start + step - 1) / step;
}

bool tpj_diagonal_read(tpj_emit *e, tpj_value *x, tpj_diagonal *out_diagonal) {
    tpj_hlo *h = tpj_builder(e);
    int rank = x->type.rank, dim1 = tpj_dim(e, "dim1", rank), dim2 = tpj_dim(e, "dim2", rank);
    if (dim1 == dim2) {
        tpj_fail(e, TPJ_RUNTIME, "diagonal dimensions cannot be identical %d, %d", dim1, dim2);
        return false;
    }
    if (hlo_failed(h)) return false;
    int64_t offset = tpj_int(e, "offset", 0), *permutation = hlo_dims(h, rank), *moved = hlo_dims(h, rank);
    int n = 0;
    for (int d = 0; d < rank; d++) {
        if (d != dim1 && d != dim2) permutation[n++] = d;
    }
    permutation[n++] = dim1;
    permutation[n] = dim2;
    for (int d = 0; d < rank; d++) moved[d] = x->type.dims[permutation[d]];
    int64_t rows = moved[rank - 2], columns = moved[rank - 1];
    int64_t row = offset < 0 ? -offset : 0, column = offset > 0 ? offset : 0;
    int64_t length = rows - row < columns - column ? rows - row : columns - column;
    int64_t *flat = hlo_dims(h, rank - 1);
    for (int d = 0; d < rank - 2; d++) flat[d] = moved[d];
    flat[rank - 2] = rows * columns;
    *out_diagonal = (tpj_diagonal){.flat = hlo_reshape(h, hlo_transpose(h, x, permutation), rank - 1, flat),
                                   .permutation = permutation,
                                   .moved_dims = moved,
                                   .start = length > 0 ? row * columns + column : 0,
                                   .step = columns + 1,
                                   .length = length > 0 ? length : 0};
    return true;
}

tpj_value *tpj_diagonal_restore(tpj_hlo *h, const tpj_diagonal *diagonal, int rank, tpj_value *flat) {
    int64_t *inverse = hlo_dims(h, rank);
    for (int d = 0; d < rank; d++) inverse[diagonal->permutation[d]] = d;
    return hlo_transpose(h, hlo_reshape(h, flat, rank, diagonal->moved_dims), inverse);
}
