/* grid_sampler: reads an image at places given by another tensor.
 *
 * Along each dimension a place becomes a few taps: an index, whether it lies inside, its weight, and the weight's
 * derivative. A sample is the sum over all combinations of taps of product of weights times the element; its gradients
 * are a scatter of the same products, and the same sum with one weight replaced by its derivative. */
#include "ops/grid_sampler.h"

#include "ops/nn.h"

enum { MAX_SPATIAL = 3, MAX_TAPS = 4 };
enum { BILINEAR, NEAREST, BICUBIC }; /* interpolation_mode */
enum { ZEROS, BORDER, REFLECTION };  /* padding_mode */

typedef struct tap {
    tpj_value *index, *inside, *weight, *slope; /* I32, bool, compute dtype; all [N, places] */
} tap;

typedef struct sampler {
    tpj_hlo *h;
    tpj_dtype dtype, compute;
    int n, n_taps; /* dimensions; taps of each */
    int64_t mode, padding;
    bool align_corners;
    int64_t batch, channels, places, area;
    tpj_type input, grid;
    int64_t size[MAX_SPATIAL];
    tap taps[MAX_SPATIAL][MAX_TAPS];
    tpj_value *factor[MAX_SPATIAL]; /* d place / d grid, for gradients */
} sampler;

static tpj_value *plus(tpj_hlo *h, tpj_value *x, double c) { return tpj_nn_add_number(h, x, c); }
static tpj_value *times(tpj_hlo *h, tpj_value *x, double c) { return tpj_nn_mul_number(h, x, c); }
static tpj_value *number(tpj_hlo *h, tpj_value *x, double c) { return tpj_nn_number(h, x, c); }

/* ---- from the grid to places ---- */

/* Clamps to [0, size - 1]; the factor becomes zero where it was clamped. */
static tpj_value *clip(tpj_hlo *h, tpj_value *x, int64_t size, tpj_value **factor) {
    tpj_value *zero = number(h, x, 0), *last = number(h, x, (double)(size - 1));
    tpj_value *inside = hlo_and(h, hlo_compare(h, "GT", x, zero), hlo_compare(h, "LT", x, last));
    *factor = tpj_nn_where(h, inside, *factor);
    return hlo_min(h, hlo_max(h, x, zero), last);
}

/* Reflects at low and high (given doubled, as they may be halves) until it lies between; the factor changes sign each time. */
static tpj_value *reflect(tpj_hlo *h, tpj_value *x, int64_t twice_low, int64_t twice_high, tpj_value **factor) {
    if (twice_low == twice_high) {
        *factor = hlo_full_like(h, x, 0);
        return hlo_full_like(h, x, 0);
    }
    double low = (double)twice_low / 2, span = (double)(twice_high - twice_low) / 2;
    tpj_value *shifted = plus(h, x, -low), *distance = hlo_abs(h, shifted);
    tpj_value *extra = hlo_binary(h, "remainder", distance, number(h, x, span));
    tpj_value *flips = hlo_unary(h, "floor", hlo_div(h, distance, number(h, x, span)));
    tpj_value *odd = hlo_compare(h, "NE", hlo_binary(h, "remainder", flips, number(h, x, 2)), number(h, x, 0));
    tpj_value *negative = hlo_compare(h, "LT", shifted, number(h, x, 0));
    tpj_value *turned = hlo_binary(h, "xor", odd, negative);
    *factor = hlo_select(h, turned, hlo_neg(h, *factor), *factor);
    return plus(h, hlo_select(h, odd, hlo_sub(h, number(h, x, span), extra), extra), low);
}

static tpj_value *pad_place(const sampler *s, tpj_value *x, int64_t size, tpj_value **factor) {
    if (s->padding == ZEROS) return x;
    if (s->padding == REFLECTION)
        x = s->align_corners ? reflect(s->h, x, 0, 2 * (size - 1), factor) : reflect(s->h, x, -1, 2 * size - 1, factor);
    return clip(s->h, x, size, factor);
}

/* ---- from places to taps ---- */

static tap make_tap(const sampler *s, tpj_value *index, int64_t size, tpj_value *weight, tpj_value *slope) {
    tpj_hlo *h = s->h;
    tpj_value *zero = number(h, index, 0), *last = number(h, index, (double)(size - 1));
    tap t = {.weight = weight, .slope = slope};
    t.inside = hlo_and(h, hlo_compare(h, "GE", index, zero), hlo_compare(h, "LE", index, last));
    t.index = hlo_convert(h, tpj_nn_where(h, t.inside, index), TPJ_I32);
    return t;
}

/* Keys' cubic convolution, a = -0.75, at distance `from` + t: a polynomial, and its derivative by t. */
static void cubic_weight(tpj_hlo *h, tpj_value *t, int k, tpj_value **out_weight, tpj_value **out_slope) {
    const double a = -0.75;
    bool inner = k == 1 || k == 2;
    double sign = k < 2 ? 1 : -1; /* distances of taps 0, 1 grow with t, those of 2, 3 shrink */
    tpj_value *x = k == 0 ? plus(h, t, 1) : k == 1 ? t : hlo_sub(h, number(h, t, k - 1), t);
    double c3 = inner ? a + 2 : a, c2 = inner ? -(a + 3) : -5 * a, c1 = inner ? 0 : 8 * a, c0 = inner ? 1 : -4 * a;
    tpj_value *w = plus(h, times(h, x, c3), c2);
    w = plus(h, hlo_mul(h, w, x), c1);
    *out_weight = plus(h, hlo_mul(h, w, x), c0);
    tpj_value *d = plus(h, times(h, x, 3 * c3), 2 * c2);
    *out_slope = times(h, plus(h, hlo_mul(h, d, x), c1), sign);
}

static void taps_of_place(sampler *s, int i, tpj_value *place) {
    tpj_hlo *h = s->h;
    int64_t size = s->size[i];
    if (s->mode == NEAREST) {
        tpj_value *one = hlo_full_like(h, place, 1), *zero = hlo_full_like(h, place, 0);
        s->taps[i][0] = make_tap(s, hlo_unary(h, "round_nearest_even", place), size, one, zero);
        return;
    }
    tpj_value *base = hlo_unary(h, "floor", place), *t = hlo_sub(h, place, base);
    if (s->mode == BILINEAR) {
        s->taps[i][0] = make_tap(s, base, size, hlo_sub(h, number(h, t, 1), t), hlo_full_like(h, t, -1));
        s->taps[i][1] = make_tap(s, plus(h, base, 1), size, t, hlo_full_like(h, t, 1));
        return;
    }
    for (int k = 0; k < 4; k++) { /* padding acts on each element's index */
        tpj_value *weight, *slope, *ignored = hlo_full_like(h, t, 1);
        cubic_weight(h, t, k, &weight, &slope);
        s->taps[i][k] = make_tap(s, pad_place(s, plus(h, base, k - 1), size, &ignored), size, weight, slope);
    }
}

static bool begin(tpj_emit *e, sampler *s) {
    tpj_type input = tpj_in_type(e, "input"), grid = tpj_in_type(e, "grid");
    *s = (sampler){.h = tpj_builder(e), .n = tpj_row(e)->variant, .input = input, .grid = grid, .dtype = input.dtype};
    s->compute = tpj_compute_dtype(input.dtype);
    s->mode = tpj_int(e, "interpolation_mode", BILINEAR);
    s->padding = tpj_int(e, "padding_mode", ZEROS);
    s->align_corners = tpj_bool(e, "align_corners", false);
    if (!tpj_nn_require_float(e, "input")) return false;
    if (input.dtype != grid.dtype) {
        tpj_fail(e, TPJ_RUNTIME, "grid_sampler(): expected input and grid to have same dtype");
        return false;
    }
    if (input.rank != s->n + 2 || grid.rank != s->n + 2 || input.dims[0] != grid.dims[0] ||
        grid.dims[s->n + 1] != s->n) {
        tpj_fail(e, TPJ_RUNTIME, "grid_sampler(): the grid's sizes do not fit the input's");
        return false;
    }
    if (s->mode == BICUBIC && s->n != 2) {
        tpj_fail(e, TPJ_RUNTIME, "grid_sampler(): bicubic interpolation only supports 4D input");
        return false;
    }
    s->n_taps = s->mode == NEAREST ? 1 : s->mode == BILINEAR ? 2 : 4;
    s->batch = input.dims[0];
    s->channels = input.dims[1];
    s->places = s->area = 1;
    for (int i = 0; i < s->n; i++) {
        s->size[i] = input.dims[2 + i];
        s->area *= s->size[i];
        s->places *= grid.dims[1 + i];
        if (s->size[i] == 0) {
            tpj_fail(e, TPJ_RUNTIME, "grid_sampler(): expected input to have non-empty spatial dimensions");
            return false;
        }
    }
    const int64_t flat[] = {s->batch, s->places, s->n}, column[] = {s->batch, s->places};
    tpj_value *all = hlo_reshape(s->h, tpj_in_as(e, "grid", s->compute), 3, flat);
    for (int i = 0; i < s->n; i++) { /* the grid's last dimension starts with x, the input's last dimension */
        int64_t from = s->n - 1 - i;
        tpj_value *x = hlo_reshape(s->h, hlo_slice_dim(s->h, all, 2, from, from + 1, 1), 2, column);
        double size = (double)s->size[i], factor = (s->align_corners ? size - 1 : size) / 2;
        x = times(s->h, plus(s->h, x, 1), factor);
        if (!s->align_corners) x = plus(s->h, x, -0.5);
        s->factor[i] = hlo_full_like(s->h, x, factor);
        if (s->mode != BICUBIC) x = pad_place(s, x, s->size[i], &s->factor[i]);
        taps_of_place(s, i, x);
    }
    return !hlo_failed(s->h);
}

/* ---- combinations of taps ---- */

static int n_combinations(const sampler *s) {
    int n = 1;
    for (int i = 0; i < s->n; i++) n *= s->n_taps;
    return n;
}

/* Combination c as one flat index, and the product of its weights, zero outside. With `by` >= 0, the weight of that
 * dimension is replaced by its derivative. */
static tpj_value *combine(const sampler *s, int c, int by, tpj_value **out_index) {
    tpj_hlo *h = s->h;
    tpj_value *index = NULL, *weight = NULL, *inside = NULL;
    for (int i = s->n - 1, rest = c; i >= 0; rest /= s->n_taps, i--) {
        const tap *t = &s->taps[i][rest % s->n_taps];
        tpj_value *own = i == by ? t->slope : t->weight;
        weight = weight == NULL ? own : hlo_mul(h, weight, own);
        inside = inside == NULL ? t->inside : hlo_and(h, inside, t->inside);
        int64_t stride = 1;
        for (int k = i + 1; k < s->n; k++) stride *= s->size[k];
        tpj_value *part = stride == 1 ? t->index : hlo_mul(h, t->index, hlo_integer(h, TPJ_I32, stride));
        index = index == NULL ? part : hlo_add(h, index, part);
    }
    if (out_index != NULL) *out_index = index;
    return tpj_nn_where(h, inside, weight);
}

static const int64_t zero_dim[] = {0}, one_dim[] = {1}, two_dim[] = {2};

/* Elements of x [N, C, area] at indices [N, places]: [N, C, places]. */
static tpj_value *elements_at(const sampler *s, tpj_value *x, tpj_value *index) {
    const int64_t dims[] = {s->batch, s->places, 1}, sizes[] = {1, s->channels, 1};
    const hlo_gather_numbers numbers = {.offset_dims = one_dim,
                                        .n_offset_dims = 1,
                                        .collapsed = two_dim,
                                        .n_collapsed = 1,
                                        .operand_batching = zero_dim,
                                        .indices_batching = zero_dim,
                                        .n_batching = 1,
                                        .start_index_map = two_dim,
                                        .n_start_index_map = 1,
                                        .index_vector_dim = 2,
                                        .slice_sizes = sizes};
    return hlo_gather(s->h, x, hlo_reshape(s->h, index, 3, dims), &numbers);
}

/* [N, places] over the channels. */
static tpj_value *over_channels(const sampler *s, tpj_value *x) {
    const int64_t dims[] = {s->batch, s->channels, s->places}, mapping[] = {0, 2};
    return hlo_broadcast_in_dim(s->h, x, 3, dims, mapping);
}

static tpj_value *flat_input(tpj_emit *e, const sampler *s) {
    const int64_t dims[] = {s->batch, s->channels, s->area};
    return hlo_reshape(s->h, tpj_in_as(e, "input", s->compute), 3, dims);
}

void tpj_emit_grid_sampler(tpj_emit *e) {
    sampler s;
    if (!begin(e, &s)) return;
    int64_t dims[2 + MAX_SPATIAL] = {s.batch, s.channels};
    for (int i = 0; i < s.n; i++) dims[2 + i] = s.grid.dims[1 + i];
    if (tpj_type_elements(&(tpj_type){s.dtype, s.n + 2, dims}) == 0) {
        tpj_out(e, hlo_zeros(s.h, s.dtype, s.n + 2, dims));
        return;
    }
    tpj_value *x = flat_input(e, &s), *sum = NULL;
    for (int c = 0; c < n_combinations(&s); c++) {
        tpj_value *index, *weight = combine(&s, c, -1, &index);
        tpj_value *part = hlo_mul(s.h, elements_at(&s, x, index), over_channels(&s, weight));
        sum = sum == NULL ? part : hlo_add(s.h, sum, part);
    }
    tpj_out_as(e, hlo_reshape(s.h, sum, s.n + 2, dims), s.dtype);
}

/* The gradients of all combinations, added at their elements in one scatter. */
static tpj_value *input_gradient(const sampler *s, tpj_value *grad) {
    tpj_hlo *h = s->h;
    tpj_value *indices[MAX_TAPS * MAX_TAPS], *updates[MAX_TAPS * MAX_TAPS];
    int n = n_combinations(s);
    for (int c = 0; c < n; c++) {
        tpj_value *weight = combine(s, c, -1, &indices[c]);
        updates[c] = hlo_mul(h, grad, over_channels(s, weight));
    }
    const int64_t dims[] = {s->batch, s->channels, s->area}, columns[] = {s->batch, s->places * n, 1};
    const hlo_gather_numbers numbers = {.offset_dims = one_dim,
                                        .n_offset_dims = 1,
                                        .collapsed = two_dim,
                                        .n_collapsed = 1,
                                        .operand_batching = zero_dim,
                                        .indices_batching = zero_dim,
                                        .n_batching = 1,
                                        .start_index_map = two_dim,
                                        .n_start_index_map = 1,
                                        .index_vector_dim = 2};
    tpj_value *index = hlo_reshape(h, hlo_concatenate(h, indices, n, 1), 3, columns);
    tpj_value *x =
        hlo_scatter(h, "add", hlo_zeros(h, s->compute, 3, dims), index, hlo_concatenate(h, updates, n, 2), &numbers);
    return hlo_reshape(h, x, s->input.rank, s->input.dims);
}

static tpj_value *grid_gradient(tpj_emit *e, const sampler *s, tpj_value *grad) {
    tpj_hlo *h = s->h;
    tpj_value *x = flat_input(e, s), *columns[MAX_SPATIAL], *dots[MAX_TAPS * MAX_TAPS];
    int n = n_combinations(s);
    for (int c = 0; c < n; c++) { /* what an element adds to the loss, over the channels: [N, places] */
        tpj_value *index;
        combine(s, c, -1, &index);
        dots[c] = hlo_reduce_dim(h, "add", hlo_mul(h, elements_at(s, x, index), grad), 1);
    }
    for (int i = 0; i < s->n; i++) {
        tpj_value *sum = NULL;
        for (int c = 0; c < n; c++) {
            tpj_value *part = hlo_mul(h, combine(s, c, i, NULL), dots[c]);
            sum = sum == NULL ? part : hlo_add(h, sum, part);
        }
        columns[s->n - 1 - i] = hlo_unsqueeze(h, hlo_mul(h, sum, s->factor[i]), 2);
    }
    return hlo_reshape(h, hlo_concatenate(h, columns, s->n, 2), s->grid.rank, s->grid.dims);
}

void tpj_emit_grid_sampler_backward(tpj_emit *e) {
    sampler s;
    bool mask[2];
    tpj_nn_mask(e, "output_mask", 2, mask);
    if (!begin(e, &s)) return;
    const int64_t dims[] = {s.batch, s.channels, s.places};
    tpj_value *grad = hlo_reshape(s.h, tpj_in_as(e, "grad_output", s.compute), 3, dims);
    if (mask[0])
        tpj_out_as(e, input_gradient(&s, grad), s.dtype);
    else
        tpj_out_none(e);
    if (mask[1])
        tpj_out_as(e, grid_gradient(e, &s, grad), s.dtype);
    else
        tpj_out_none(e);
}
