#include <inttypes.h>
#include <string.h>

#include "hlo/writer.h"

static int64_t *copy_dims(tpj_hlo *h, const int64_t *dims, int n, int room) {
    int64_t *copy = hlo_dims(h, room);
    if (!h->failed && n > 0) memcpy(copy, dims, sizeof *copy * (size_t)n);
    return copy;
}

static bool dims_equal(const tpj_value *x, int rank, const int64_t *dims) {
    return x->type.rank == rank && (rank == 0 || memcmp(x->type.dims, dims, sizeof *dims * (size_t)rank) == 0);
}

static bool dim_ok(tpj_hlo *h, const char *name, int dim, int rank) {
    if (dim >= 0 && dim < rank) return true;
    hlo_fail(h, TPJ_INTERNAL, "%s: dimension %d of an array of rank %d", name, dim, rank);
    return false;
}

/* ---- broadcasting ---- */

tpj_value *hlo_broadcast_in_dim(tpj_hlo *h, tpj_value *x, int rank, const int64_t *dims, const int64_t *mapping) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    bool identity = dims_equal(x, rank, dims);
    for (int i = 0; i < x->type.rank && identity; i++) identity = mapping[i] == i;
    if (identity) return x;
    hlo_attributes_begin(h);
    hlo_attribute_array(h, "broadcast_dimensions", mapping, x->type.rank);
    return hlo_op1(h, "broadcast_in_dim", &x, 1, hlo_attributes(h), x->type.dtype, rank, dims);
}

tpj_value *hlo_expand(tpj_hlo *h, tpj_value *x, int rank, const int64_t *dims) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    int lead = rank - x->type.rank;
    if (lead < 0) {
        return hlo_fail(h, TPJ_RUNTIME,
                        "the number of sizes provided (%d) must be greater or equal to the number of dimensions in the "
                        "tensor (%d)",
                        rank, x->type.rank);
    }
    int64_t *mapping = hlo_dims(h, x->type.rank);
    for (int i = 0; i < x->type.rank && !h->failed; i++) {
        mapping[i] = lead + i;
        if (x->type.dims[i] == dims[lead + i] || x->type.dims[i] == 1) continue;
        return hlo_fail(h, TPJ_RUNTIME,
                        "The expanded size of the tensor (%" PRId64 ") must match the existing size (%" PRId64
                        ") at non-singleton dimension %d",
                        dims[lead + i], x->type.dims[i], lead + i);
    }
    return hlo_broadcast_in_dim(h, x, rank, dims, mapping);
}

/* The common NumPy shape of n values, in the arena; NULL after failing. */
static int64_t *common_dims(tpj_hlo *h, tpj_value **xs, int n, int *out_rank) {
    if (!hlo_ready(h, xs, n)) return NULL;
    int rank = 0;
    for (int i = 0; i < n; i++) rank = xs[i]->type.rank > rank ? xs[i]->type.rank : rank;
    int64_t *dims = hlo_dims(h, rank);
    if (h->failed) return NULL;
    for (int d = 0; d < rank; d++) dims[d] = 1;
    for (int i = 0; i < n; i++) {
        int lead = rank - xs[i]->type.rank;
        for (int d = 0; d < xs[i]->type.rank; d++) {
            int64_t size = xs[i]->type.dims[d];
            if (size == 1 || size == dims[lead + d]) continue;
            if (dims[lead + d] != 1) {
                hlo_fail(h, TPJ_RUNTIME,
                         "The size of tensor a (%" PRId64 ") must match the size of tensor b (%" PRId64
                         ") at non-singleton dimension %d",
                         dims[lead + d], size, lead + d);
                return NULL;
            }
            dims[lead + d] = size;
        }
    }
    *out_rank = rank;
    return dims;
}

static void expand_all(tpj_hlo *h, tpj_value **xs, int n) {
    int rank = 0;
    int64_t *dims = common_dims(h, xs, n, &rank);
    for (int i = 0; i < n; i++) xs[i] = dims == NULL ? &h->poison : hlo_expand(h, xs[i], rank, dims);
}

void hlo_expand_together(tpj_hlo *h, tpj_value **x, tpj_value **y) {
    tpj_value *xs[] = {*x, *y};
    expand_all(h, xs, 2);
    *x = xs[0];
    *y = xs[1];
}

void hlo_expand_together3(tpj_hlo *h, tpj_value **x, tpj_value **y, tpj_value **z) {
    tpj_value *xs[] = {*x, *y, *z};
    expand_all(h, xs, 3);
    *x = xs[0];
    *y = xs[1];
    *z = xs[2];
}

/* ---- reshape and transpose ---- */

tpj_value *hlo_reshape(tpj_hlo *h, tpj_value *x, int rank, const int64_t *dims) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    if (dims_equal(x, rank, dims)) return x;
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    if (n != hlo_elements(x)) {
        tpj_type type = hlo_type(x->type.dtype, rank, dims);
        return hlo_fail(h, TPJ_RUNTIME, "%s does not reshape to %s", hlo_type_string(h, &x->type),
                        hlo_type_string(h, &type));
    }
    return hlo_op1(h, "reshape", &x, 1, NULL, x->type.dtype, rank, dims);
}

tpj_value *hlo_flatten(tpj_hlo *h, tpj_value *x) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    int64_t n = hlo_elements(x);
    return hlo_reshape(h, x, 1, &n);
}

tpj_value *hlo_transpose(tpj_hlo *h, tpj_value *x, const int64_t *permutation) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    int rank = x->type.rank;
    int64_t *dims = hlo_dims(h, rank);
    bool identity = true;
    for (int i = 0; i < rank && !h->failed; i++) {
        if (!dim_ok(h, "transpose", (int)permutation[i], rank)) return &h->poison;
        identity = identity && permutation[i] == i;
        dims[i] = x->type.dims[permutation[i]];
    }
    if (h->failed || identity) return h->failed ? &h->poison : x;
    int64_t *order = hlo_dims(h, rank);
    if (h->failed) return &h->poison;
    memcpy(order, permutation, sizeof *order * (size_t)rank);
    hlo_attributes_begin(h);
    hlo_attribute_array(h, "permutation", permutation, rank);
    tpj_value *made = hlo_op1(h, "transpose", &x, 1, hlo_attributes(h), x->type.dtype, rank, dims);
    if (h->failed) return &h->poison;
    made->of = x;
    made->order = order;
    return made;
}

tpj_value *hlo_swap(tpj_hlo *h, tpj_value *x, int a, int b) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    int rank = x->type.rank;
    if (!dim_ok(h, "transpose", a, rank) || !dim_ok(h, "transpose", b, rank)) return &h->poison;
    int64_t *permutation = hlo_dims(h, rank);
    if (h->failed) return &h->poison;
    for (int i = 0; i < rank; i++) permutation[i] = i == a ? b : i == b ? a : i;
    return hlo_transpose(h, x, permutation);
}

tpj_value *hlo_unsqueeze(tpj_hlo *h, tpj_value *x, int dim) {
    if (!hlo_ready(h, &x, 1) || !dim_ok(h, "unsqueeze", dim, x->type.rank + 1)) return &h->poison;
    int rank = x->type.rank;
    int64_t *dims = hlo_dims(h, rank + 1);
    if (h->failed) return &h->poison;
    for (int i = 0; i <= rank; i++) dims[i] = i == dim ? 1 : x->type.dims[i - (i > dim)];
    return hlo_reshape(h, x, rank + 1, dims);
}

tpj_value *hlo_squeeze(tpj_hlo *h, tpj_value *x, int dim) {
    if (!hlo_ready(h, &x, 1) || !dim_ok(h, "squeeze", dim, x->type.rank)) return &h->poison;
    int rank = x->type.rank;
    if (x->type.dims[dim] != 1) {
        return hlo_fail(h, TPJ_INTERNAL, "squeeze: dimension %d of %s", dim, hlo_type_string(h, &x->type));
    }
    int64_t *dims = hlo_dims(h, rank);
    if (h->failed) return &h->poison;
    for (int i = 0; i + 1 < rank; i++) dims[i] = x->type.dims[i + (i >= dim)];
    return hlo_reshape(h, x, rank - 1, dims);
}

/* ---- slices, padding, concatenation ---- */

tpj_value *hlo_slice(tpj_hlo *h, tpj_value *x, const int64_t *start, const int64_t *limit, const int64_t *step) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    int rank = x->type.rank;
    int64_t *dims = hlo_dims(h, rank);
    bool full = true;
    for (int i = 0; i < rank && !h->failed; i++) {
        int64_t stride = step == NULL ? 1 : step[i], size = x->type.dims[i];
        if (start[i] < 0 || limit[i] > size || start[i] > limit[i] || stride < 1) {
            return hlo_fail(h, TPJ_INTERNAL, "slice [%" PRId64 ":%" PRId64 ":%" PRId64 "] of dimension %d of %s",
                            start[i], limit[i], stride, i, hlo_type_string(h, &x->type));
        }
        dims[i] = (limit[i] - start[i] + stride - 1) / stride;
        full = full && start[i] == 0 && limit[i] == size && stride == 1;
    }
    if (h->failed || full) return h->failed ? &h->poison : x;
    hlo_attributes_begin(h);
    hlo_attribute_array(h, "start_indices", start, rank);
    hlo_attribute_array(h, "limit_indices", limit, rank);
    hlo_attribute_array_or(h, "strides", step, rank, 1);
    return hlo_op1(h, "slice", &x, 1, hlo_attributes(h), x->type.dtype, rank, dims);
}

tpj_value *hlo_slice_dim(tpj_hlo *h, tpj_value *x, int dim, int64_t start, int64_t limit, int64_t step) {
    if (!hlo_ready(h, &x, 1) || !dim_ok(h, "slice", dim, x->type.rank)) return &h->poison;
    int rank = x->type.rank;
    int64_t *starts = hlo_dims(h, rank), *limits = copy_dims(h, x->type.dims, rank, rank), *steps = hlo_dims(h, rank);
    if (h->failed) return &h->poison;
    for (int i = 0; i < rank; i++) steps[i] = 1;
    starts[dim] = start;
    limits[dim] = limit;
    steps[dim] = step;
    return hlo_slice(h, x, starts, limits, steps);
}

/* first, second (may be NULL) and n start scalars as one operand list. */
static tpj_value **with_starts(tpj_hlo *h, tpj_value *first, tpj_value *second, tpj_value *const *starts, int n,
                               int *out_n) {
    tpj_value **operands = TPJ_ARENA_ARRAY(&h->arena, tpj_value *, n + 2);
    if (operands == NULL) {
        hlo_fail(h, TPJ_OUT_OF_MEMORY, "no memory to write a slice");
        return NULL;
    }
    int count = 0;
    operands[count++] = first;
    if (second != NULL) operands[count++] = second;
    for (int i = 0; i < n; i++) operands[count++] = starts[i];
    *out_n = count;
    return operands;
}

tpj_value *hlo_dynamic_slice(tpj_hlo *h, tpj_value *x, tpj_value *const *starts, const int64_t *sizes) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    int n = 0, rank = x->type.rank;
    if (dims_equal(x, rank, sizes)) return x;
    tpj_value **operands = with_starts(h, x, NULL, starts, rank, &n);
    if (h->failed) return &h->poison;
    hlo_attributes_begin(h);
    hlo_attribute_array(h, "slice_sizes", sizes, rank);
    return hlo_op1(h, "dynamic_slice", operands, n, hlo_attributes(h), x->type.dtype, rank, sizes);
}

tpj_value *hlo_dynamic_update_slice(tpj_hlo *h, tpj_value *x, tpj_value *update, tpj_value *const *starts) {
    tpj_value *both[] = {x, update};
    if (!hlo_ready(h, both, 2)) return &h->poison;
    if (x->type.dtype != update->type.dtype || x->type.rank != update->type.rank) {
        return hlo_fail(h, TPJ_INTERNAL, "dynamic_update_slice of %s into %s", hlo_type_string(h, &update->type),
                        hlo_type_string(h, &x->type));
    }
    if (hlo_same_dims(x, update)) return update;
    int n = 0;
    tpj_value **operands = with_starts(h, x, update, starts, x->type.rank, &n);
    if (h->failed) return &h->poison;
    return hlo_op1(h, "dynamic_update_slice", operands, n, NULL, x->type.dtype, x->type.rank, x->type.dims);
}

tpj_value *hlo_pad(tpj_hlo *h, tpj_value *x, tpj_value *value, const int64_t *low, const int64_t *high,
                   const int64_t *interior) {
    tpj_value *xs[] = {x, value};
    if (!hlo_ready(h, xs, 2)) return &h->poison;
    int rank = x->type.rank;
    int64_t *dims = hlo_dims(h, rank);
    bool nothing = true;
    for (int i = 0; i < rank && !h->failed; i++) {
        int64_t before = low == NULL ? 0 : low[i], after = high == NULL ? 0 : high[i];
        int64_t between = interior == NULL ? 0 : interior[i], size = x->type.dims[i];
        dims[i] = before + after + size + (size > 1 ? (size - 1) * between : 0);
        nothing = nothing && before == 0 && after == 0 && between == 0;
        if (dims[i] < 0 || between < 0) {
            return hlo_fail(h, TPJ_INTERNAL, "pad of %s by %" PRId64 " and %" PRId64 " at dimension %d",
                            hlo_type_string(h, &x->type), before, after, i);
        }
    }
    if (h->failed || nothing) return h->failed ? &h->poison : x;
    if (value->type.rank != 0 || value->type.dtype != x->type.dtype) {
        return hlo_fail(h, TPJ_INTERNAL, "pad of %s with %s", hlo_type_string(h, &x->type),
                        hlo_type_string(h, &value->type));
    }
    hlo_attributes_begin(h);
    hlo_attribute_array_or(h, "edge_padding_low", low, rank, 0);
    hlo_attribute_array_or(h, "edge_padding_high", high, rank, 0);
    hlo_attribute_array_or(h, "interior_padding", interior, rank, 0);
    return hlo_op1(h, "pad", xs, 2, hlo_attributes(h), x->type.dtype, rank, dims);
}

tpj_value *hlo_pad_dim(tpj_hlo *h, tpj_value *x, tpj_value *value, int dim, int64_t low, int64_t high) {
    if (!hlo_ready(h, &x, 1) || !dim_ok(h, "pad", dim, x->type.rank)) return &h->poison;
    int64_t *lows = hlo_dims(h, x->type.rank), *highs = hlo_dims(h, x->type.rank);
    if (h->failed) return &h->poison;
    lows[dim] = low;
    highs[dim] = high;
    return hlo_pad(h, x, value, lows, highs, NULL);
}

tpj_value *hlo_concatenate(tpj_hlo *h, tpj_value *const *xs, int n, int dim) {
    if (!hlo_ready(h, xs, n)) return &h->poison;
    if (n == 0) return hlo_fail(h, TPJ_INTERNAL, "concatenate needs an array");
    int rank = xs[0]->type.rank;
    if (!dim_ok(h, "concatenate", dim, rank)) return &h->poison;
    int64_t *dims = copy_dims(h, xs[0]->type.dims, rank, rank);
    for (int i = 1; i < n && !h->failed; i++) {
        const tpj_type *type = &xs[i]->type;
        bool fits = type->rank == rank && type->dtype == xs[0]->type.dtype;
        for (int d = 0; d < rank && fits; d++) fits = d == dim || type->dims[d] == dims[d];
        if (!fits) {
            return hlo_fail(h, TPJ_RUNTIME, "%s and %s do not concatenate along dimension %d",
                            hlo_type_string(h, &xs[0]->type), hlo_type_string(h, type), dim);
        }
        dims[dim] += type->dims[dim];
    }
    if (h->failed || n == 1) return h->failed ? &h->poison : xs[0];
    hlo_attributes_begin(h);
    hlo_attribute_text(h, "dimension = %d : i64", dim);
    return hlo_op1(h, "concatenate", xs, n, hlo_attributes(h), xs[0]->type.dtype, rank, dims);
}

tpj_value *hlo_reverse(tpj_hlo *h, tpj_value *x, const int64_t *dims, int n) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    if (n == 0) return x;
    hlo_attributes_begin(h);
    hlo_attribute_array(h, "dimensions", dims, n);
    return hlo_op1(h, "reverse", &x, 1, hlo_attributes(h), x->type.dtype, x->type.rank, x->type.dims);
}
