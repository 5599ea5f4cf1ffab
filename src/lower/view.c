/* Emission of view reads and writes. */
#include "lower/view.h"

#include <string.h>

/* ---- reinterpretation of the linear array as another dtype ---- */

/* [n] complex -> [2n] real, interleaved as in memory. */
static tpj_value *complex_to_reals(tpj_hlo *h, tpj_value *x) {
    tpj_value *parts[2] = {hlo_unsqueeze(h, hlo_real(h, x), 1), hlo_unsqueeze(h, hlo_imag(h, x), 1)};
    return hlo_flatten(h, hlo_concatenate(h, parts, 2, 1));
}

static tpj_value *reals_to_complex(tpj_hlo *h, tpj_value *x) {
    int64_t dims[2] = {hlo_elements(x) / 2, 2};
    tpj_value *pairs = hlo_reshape(h, x, 2, dims);
    tpj_value *real = hlo_flatten(h, hlo_slice_dim(h, pairs, 1, 0, 1, 1));
    tpj_value *imaginary = hlo_flatten(h, hlo_slice_dim(h, pairs, 1, 1, 2, 1));
    return hlo_complex(h, real, imaginary);
}

/* Flat bits of one dtype as another, both real and neither bool. */
static tpj_value *reinterpret_flat(tpj_hlo *h, tpj_value *x, tpj_dtype dtype) {
    size_t from = tpj_dtype_bytes(x->type.dtype), to = tpj_dtype_bytes(dtype);
    if (to > from) {
        int64_t ratio = (int64_t)(to / from), dims[2] = {hlo_elements(x) / ratio, ratio};
        return hlo_bitcast(h, hlo_reshape(h, x, 2, dims), dtype);
    }
    return hlo_flatten(h, hlo_bitcast(h, x, dtype));
}

static tpj_value *reinterpret(tpj_hlo *h, tpj_value *x, tpj_dtype dtype) {
    if (x->type.dtype == dtype) return x;
    x = hlo_flatten(h, x);
    if (tpj_dtype_is_complex(x->type.dtype)) x = complex_to_reals(h, x);
    if (x->type.dtype == TPJ_BOOL) x = hlo_convert(h, x, TPJ_U8);
    if (x->type.dtype == dtype) return x;
    if (tpj_dtype_is_complex(dtype)) return reals_to_complex(h, reinterpret(h, x, hlo_real_dtype(dtype)));
    if (dtype == TPJ_BOOL) return hlo_convert(h, reinterpret_flat(h, x, TPJ_U8), TPJ_BOOL);
    return reinterpret_flat(h, x, dtype);
}

/* The base's elements that make whole ones of another dtype: bytes at the end may be left over (10 bytes as f32). */
static int64_t usable_elements(tpj_value *base, tpj_dtype dtype) {
    int64_t n = hlo_elements(base), from = (int64_t)tpj_dtype_bytes(base->type.dtype),
            to = (int64_t)tpj_dtype_bytes(dtype);
    return to > from ? n / (to / from) * (to / from) : n;
}

static tpj_value *typed_base(tpj_hlo *h, tpj_value *base, tpj_dtype dtype) {
    int64_t usable = usable_elements(base, dtype);
    if (usable < hlo_elements(base)) base = hlo_slice_dim(h, hlo_flatten(h, base), 0, 0, usable, 1);
    return reinterpret(h, base, dtype);
}

/* What typed_base made of `base`, changed, as the base's type again. */
static tpj_value *untyped_base(tpj_hlo *h, tpj_value *base, tpj_value *typed) {
    int64_t usable = usable_elements(base, typed->type.dtype), n = hlo_elements(base);
    tpj_value *changed = reinterpret(h, typed, base->type.dtype);
    if (usable < n) {
        tpj_value *parts[2] = {hlo_flatten(h, changed), hlo_slice_dim(h, hlo_flatten(h, base), 0, usable, n, 1)};
        changed = hlo_concatenate(h, parts, 2, 0);
    }
    return hlo_reshape(h, changed, base->type.rank, base->type.dims);
}

/* ---- gather form ---- */

/* Linear index of every element of the view, shape [elements]. */
static tpj_value *linear_indices(tpj_hlo *h, const tpj_view *view, const tpj_view_plan *plan, tpj_value *offset) {
    tpj_dtype dtype = tpj_view_offset_dtype(plan);
    if (offset == NULL) offset = hlo_integer(h, dtype, view->offset);
    tpj_value *sum = hlo_expand(h, offset, view->rank, view->sizes);
    for (int i = 0; i < view->rank; i++) {
        tpj_value *position = hlo_iota(h, dtype, view->rank, view->sizes, i);
        sum = hlo_add(h, sum, hlo_mul(h, position, hlo_integer(h, dtype, view->strides[i])));
    }
    return hlo_flatten(h, sum);
}

static tpj_value *read_by_gather(tpj_hlo *h, tpj_value *flat, const tpj_view *view, const tpj_view_plan *plan,
                                 tpj_value *offset) {
    tpj_value *indices = linear_indices(h, view, plan, offset);
    return hlo_reshape(h, hlo_take(h, flat, indices, 0), view->rank, view->sizes);
}

static tpj_value *write_by_scatter(tpj_hlo *h, tpj_value *flat, const tpj_view *view, const tpj_view_plan *plan,
                                   tpj_value *offset, tpj_value *value) {
    static const int64_t zero = 0;
    hlo_gather_numbers numbers = {
        .collapsed = &zero, .n_collapsed = 1, .start_index_map = &zero, .n_start_index_map = 1, .index_vector_dim = 1};
    tpj_value *indices = hlo_unsqueeze(h, linear_indices(h, view, plan, offset), 1);
    return hlo_scatter(h, "replace", flat, indices, hlo_flatten(h, value), &numbers);
}

/* ---- slice form ---- */

static tpj_value *reshape_for_plan(tpj_hlo *h, tpj_value *base, const tpj_view_plan *plan) {
    if (plan->cropped >= 0) base = hlo_slice_dim(h, hlo_flatten(h, base), 0, 0, plan->cropped, 1);
    return hlo_reshape(h, base, plan->rank, plan->dims);
}

/* The view's walking dimensions in the order of the reshaped base: view dimension of each, and its size. */
static int walking_in_base_order(const tpj_view_plan *plan, const tpj_view *view, int *out_dims, int64_t *out_sizes) {
    int n = 0;
    for (int at = 0; at < plan->rank; at++)
        for (int i = 0; i < view->rank; i++)
            if (plan->source[i] == at) {
                out_dims[n] = i;
                out_sizes[n++] = view->sizes[i];
            }
    return n;
}

/* What the plan's slice covers of each dimension, from its first element to its last. */
static void spans_of(const tpj_view_plan *plan, int64_t *out_spans) {
    for (int i = 0; i < plan->rank; i++) out_spans[i] = (plan->count[i] - 1) * plan->step[i] + 1;
}

/* Where the slice starts, one scalar a dimension: the digits of an offset given at run time, or the plan's. */
static void starts_of(tpj_hlo *h, const tpj_view *view, const tpj_view_plan *plan, tpj_value *offset,
                      tpj_value **out_starts) {
    int64_t units[2 * TPJ_VIEW_MAX_RANK], most[2 * TPJ_VIEW_MAX_RANK];
    tpj_dtype dtype = tpj_view_offset_dtype(plan);
    tpj_view_plan_room(plan, view, units, most);
    for (int i = 0; i < plan->rank; i++) {
        if (offset == NULL || most[i] == 0) {
            out_starts[i] = hlo_integer(h, dtype, offset == NULL ? plan->start[i] : 0);
            continue;
        }
        tpj_value *unit = hlo_integer(h, dtype, units[i]);
        out_starts[i] = units[i] == 1 ? offset : hlo_div(h, offset, unit);
        if (units[i] > 1) offset = hlo_sub(h, offset, hlo_mul(h, out_starts[i], unit));
    }
}

/* The part of the reshaped base that the slice spans, steps not yet taken. */
static tpj_value *read_span(tpj_hlo *h, tpj_value *x, const tpj_view *view, const tpj_view_plan *plan,
                            tpj_value *offset) {
    int64_t spans[2 * TPJ_VIEW_MAX_RANK], limit[2 * TPJ_VIEW_MAX_RANK];
    spans_of(plan, spans);
    if (offset == NULL) {
        for (int i = 0; i < plan->rank; i++) limit[i] = plan->start[i] + spans[i];
        return hlo_slice(h, x, plan->start, limit, NULL);
    }
    tpj_value *starts[2 * TPJ_VIEW_MAX_RANK];
    starts_of(h, view, plan, offset, starts);
    return hlo_dynamic_slice(h, x, starts, spans);
}

static tpj_value *read_by_slice(tpj_hlo *h, tpj_value *base, const tpj_view *view, const tpj_view_plan *plan,
                                tpj_value *offset) {
    static const int64_t zeros[2 * TPJ_VIEW_MAX_RANK];
    int64_t spans[2 * TPJ_VIEW_MAX_RANK];
    spans_of(plan, spans);
    tpj_value *x = read_span(h, reshape_for_plan(h, base, plan), view, plan, offset);
    x = hlo_slice(h, x, zeros, spans, plan->step);
    int dims[TPJ_VIEW_MAX_RANK];
    int64_t sizes[TPJ_VIEW_MAX_RANK], permutation[TPJ_VIEW_MAX_RANK], mapping[TPJ_VIEW_MAX_RANK];
    int n = walking_in_base_order(plan, view, dims, sizes), at = 0;
    x = hlo_reshape(h, x, n, sizes);
    for (int i = 0; i < view->rank; i++)
        for (int k = 0; k < n; k++)
            if (dims[k] == i) {
                permutation[at] = k;
                mapping[at++] = i;
            }
    x = hlo_transpose(h, x, permutation);
    bool repeats = false;
    for (int i = 0; i < view->rank; i++) repeats = repeats || (view->strides[i] == 0 && view->sizes[i] > 1);
    if (!repeats) return hlo_reshape(h, x, view->rank, view->sizes);
    return hlo_broadcast_in_dim(h, x, view->rank, view->sizes, mapping);
}

/* `value` laid out as the slice of the reshaped base that it replaces. */
static tpj_value *value_as_slice(tpj_hlo *h, tpj_value *value, const tpj_view *view, const tpj_view_plan *plan) {
    int dims[TPJ_VIEW_MAX_RANK];
    int64_t sizes[TPJ_VIEW_MAX_RANK], squeezed[TPJ_VIEW_MAX_RANK], permutation[TPJ_VIEW_MAX_RANK];
    int n = walking_in_base_order(plan, view, dims, sizes), at = 0, position[TPJ_VIEW_MAX_RANK];
    for (int i = 0; i < view->rank; i++)
        if (plan->source[i] >= 0) {
            squeezed[at] = view->sizes[i];
            position[i] = at++;
        }
    value = hlo_reshape(h, value, n, squeezed);
    for (int k = 0; k < n; k++) permutation[k] = position[dims[k]];
    return hlo_reshape(h, hlo_transpose(h, value, permutation), plan->rank, plan->count);
}

static tpj_value *write_by_slice(tpj_hlo *h, tpj_value *base, const tpj_view *view, const tpj_view_plan *plan,
                                 tpj_value *offset, tpj_value *value) {
    static const int64_t zeros[2 * TPJ_VIEW_MAX_RANK];
    value = value_as_slice(h, value, view, plan);
    bool whole = true, steps = false;
    int64_t interior[2 * TPJ_VIEW_MAX_RANK];
    for (int i = 0; i < plan->rank; i++) {
        whole = whole && plan->count[i] == plan->dims[i];
        steps = steps || plan->step[i] > 1;
        interior[i] = plan->step[i] - 1;
    }
    tpj_value *old = reshape_for_plan(h, base, plan), *updated = value;
    if (steps) { /* what lies between the written elements keeps its values */
        tpj_value *mask = hlo_full(h, TPJ_BOOL, plan->rank, plan->count, 1);
        mask = hlo_pad(h, mask, hlo_number(h, TPJ_BOOL, 0), zeros, zeros, interior);
        tpj_value *spread = hlo_pad(h, value, hlo_number(h, value->type.dtype, 0), zeros, zeros, interior);
        updated = hlo_select(h, mask, spread, read_span(h, old, view, plan, offset));
    }
    if (!whole) {
        tpj_value *starts[2 * TPJ_VIEW_MAX_RANK];
        starts_of(h, view, plan, offset, starts);
        updated = hlo_dynamic_update_slice(h, old, updated, starts);
    }
    if (plan->cropped >= 0) {
        tpj_value *flat = hlo_flatten(h, base);
        tpj_value *parts[2] = {hlo_flatten(h, updated),
                               hlo_slice_dim(h, flat, 0, plan->cropped, hlo_elements(flat), 1)};
        updated = hlo_concatenate(h, parts, 2, 0);
    }
    return updated;
}

/* ---- the two entries ---- */

static tpj_value *apply_bits(tpj_hlo *h, tpj_value *x, const tpj_view *view) {
    if (view->conj) x = hlo_conj(h, x);
    if (view->neg) x = hlo_neg(h, x);
    return x;
}

tpj_value *tpj_view_read(tpj_hlo *h, tpj_value *base, const tpj_view *view, const tpj_view_plan *plan,
                         tpj_value *offset) {
    if (plan->empty) return hlo_zeros(h, view->dtype, view->rank, view->sizes);
    base = typed_base(h, base, view->dtype);
    tpj_value *x = plan->gather ? read_by_gather(h, hlo_flatten(h, base), view, plan, offset)
                                : read_by_slice(h, base, view, plan, offset);
    return apply_bits(h, x, view);
}

tpj_value *tpj_view_write(tpj_hlo *h, tpj_value *base, const tpj_view *view, const tpj_view_plan *plan,
                          tpj_value *offset, tpj_value *value) {
    if (plan->empty) return base;
    tpj_value *typed = typed_base(h, base, view->dtype), *updated;
    value = apply_bits(h, value, view);
    if (plan->gather)
        updated = write_by_scatter(h, hlo_flatten(h, typed), view, plan, offset, value);
    else
        updated = write_by_slice(h, typed, view, plan, offset, value);
    return untyped_base(h, base, hlo_reshape(h, updated, typed->type.rank, typed->type.dims));
}
