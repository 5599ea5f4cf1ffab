/* Normalisations. Statistics are taken in the compute dtype (halves in F32) with the two-pass formula, mean first and then
 * the mean square of the differences: compilers fuse the passes, and no digits are lost to cancellation. */
#include "ops/nn.h"

static tpj_value *number(tpj_hlo *h, tpj_value *x, double c) { return tpj_nn_number(h, x, c); }

/* Elements that a reduction over these dimensions of x adds up. */
static double count(const tpj_value *x, const int64_t *dims, int n_dims) {
    double n = 1;
    for (int i = 0; i < n_dims; i++) n *= (double)x->type.dims[dims[i]];
    return n;
}

static tpj_value *mean_over(tpj_hlo *h, tpj_value *x, const int64_t *dims, int n_dims) {
    tpj_value *sum = hlo_reduce(h, "add", x, NULL, dims, n_dims);
    return hlo_div(h, sum, number(h, sum, count(x, dims, n_dims)));
}

/* Mean and biased variance over `dims`; out_centered is x minus its mean. */
static void moments(tpj_hlo *h, tpj_value *x, const int64_t *dims, int n_dims, tpj_value **out_mean,
                    tpj_value **out_variance, tpj_value **out_centered) {
    *out_mean = mean_over(h, x, dims, n_dims);
    *out_centered = hlo_sub(h, x, tpj_nn_spread(h, *out_mean, x, dims, n_dims));
    *out_variance = mean_over(h, hlo_mul(h, *out_centered, *out_centered), dims, n_dims);
}

/* 1 / sqrt(variance + eps), eps being the op's argument. */
static tpj_value *inverse_deviation(tpj_emit *e, tpj_value *variance, double when_none) {
    tpj_hlo *h = tpj_builder(e);
    return hlo_rsqrt(h, hlo_add(h, variance, tpj_scalar_or(e, "eps", variance->type.dtype, when_none)));
}

/* An optional argument in the compute dtype, NULL when absent. */
static tpj_value *optional(tpj_emit *e, const char *name, tpj_dtype dtype) {
    return tpj_has(e, name) ? tpj_in_as(e, name, dtype) : NULL;
}

/* ---- layer norm and rms norm: over the last n_axes dimensions ---- */

typedef struct layer {
    tpj_hlo *h;
    tpj_dtype dtype, compute;
    tpj_value *x;
    int axis, n_axes; /* the first normalised dimension, and how many there are */
    const int64_t *dims;
} layer;

/* A list of sizes as messages write it, "[2, 3]", in the builder's arena. */
static const char *list_text(tpj_hlo *h, const int64_t *values, int n) {
    const char *text = "";
    for (int i = 0; i < n && text != NULL; i++)
        text = tpj_arena_printf(hlo_arena(h), i == 0 ? "%s%lld" : "%s, %lld", text, (long long)values[i]);
    return text == NULL ? "" : text;
}

static bool begin_layer(tpj_emit *e, layer *l) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, "input");
    const int64_t *shape = tpj_ints(e, "normalized_shape", &l->n_axes);
    *l = (layer){.h = h, .dtype = type.dtype, .compute = tpj_compute_dtype(type.dtype), .n_axes = l->n_axes};
    if (l->n_axes < 1) {
        tpj_fail(e, TPJ_RUNTIME,
                 "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element");
        return false;
    }
    if (!tpj_nn_require_float(e, "input")) return false;
    l->axis = type.rank - l->n_axes;
    bool fits = l->axis >= 0;
    for (int i = 0; fits && i < l->n_axes; i++) fits = type.dims[l->axis + i] == shape[i];
    if (!fits) {
        tpj_fail(e, TPJ_RUNTIME,
                 "Given normalized_shape=[%s], expected input with shape [*, %s], but got input of size [%s]",
                 list_text(h, shape, l->n_axes), list_text(h, shape, l->n_axes), list_text(h, type.dims, type.rank));
        return false;
    }
    l->x = tpj_in_as(e, "input", l->compute);
    l->dims = tpj_nn_dims_from(h, type.rank, l->axis);
    return !hlo_failed(h);
}

/* Statistics as results: dimension sizes of the batch, then ones. */
static tpj_value *with_ones(const layer *l, tpj_value *reduced) {
    int64_t *dims = hlo_dims(l->h, l->x->type.rank);
    for (int d = 0; d < l->x->type.rank; d++) dims[d] = d < l->axis ? l->x->type.dims[d] : 1;
    return hlo_reshape(l->h, reduced, l->x->type.rank, dims);
}

/* A saved statistic without its ones. */
static tpj_value *saved(tpj_emit *e, const layer *l, const char *name) {
    return hlo_reshape(l->h, tpj_in_as(e, name, l->compute), l->axis, l->x->type.dims);
}

static tpj_value *spread(const layer *l, tpj_value *reduced) {
    return tpj_nn_spread(l->h, reduced, l->x, l->dims, l->n_axes);
}

/* A parameter of the normalised shape, in x's shape. */
static tpj_value *parameter(tpj_emit *e, const layer *l, const char *name) {
    tpj_value *value = optional(e, name, l->compute);
    return value == NULL ? NULL : hlo_expand(l->h, value, l->x->type.rank, l->x->type.dims);
}

static void emit_layer_norm(tpj_emit *e) {
    layer l;
    if (!begin_layer(e, &l)) return;
    tpj_value *mean, *variance, *centered;
    moments(l.h, l.x, l.dims, l.n_axes, &mean, &variance, &centered);
    tpj_value *scale = inverse_deviation(e, variance, 1e-5);
    tpj_value *y = hlo_mul(l.h, centered, spread(&l, scale));
    tpj_value *weight = parameter(e, &l, "weight"), *bias = parameter(e, &l, "bias");
    if (weight != NULL) y = hlo_mul(l.h, y, weight);
    if (bias != NULL) y = hlo_add(l.h, y, bias);
    /* PyTorch keeps the statistics of halves in the parameters' dtype: F32 where those are F32. */
    tpj_dtype kept = tpj_has(e, "weight") ? tpj_promote_dtypes(l.dtype, tpj_in_type(e, "weight").dtype) : l.dtype;
    tpj_out_as(e, y, l.dtype);
    tpj_out_as(e, with_ones(&l, mean), kept);
    tpj_out_as(e, with_ones(&l, scale), kept);
}

/* With g = grad * weight and y the normalised input: (g - mean(g) - y mean(g y)) * scale; rms norm has no mean(g). */
static tpj_value *input_gradient(const layer *l, tpj_value *g, tpj_value *y, tpj_value *scale, bool centered) {
    tpj_hlo *h = l->h;
    tpj_value *along = spread(l, mean_over(h, hlo_mul(h, g, y), l->dims, l->n_axes));
    tpj_value *rest = hlo_sub(h, g, hlo_mul(h, y, along));
    if (centered) rest = hlo_sub(h, rest, spread(l, mean_over(h, g, l->dims, l->n_axes)));
    return hlo_mul(h, rest, scale);
}

/* Sums over the batch dimensions: the gradient of a parameter. */
static tpj_value *parameter_gradient(const layer *l, tpj_value *x) {
    return hlo_reduce(l->h, "add", x, NULL, tpj_nn_dims_from(l->h, l->axis, 0), l->axis);
}

static void emit_layer_norm_backward(tpj_emit *e) {
    layer l;
    if (!begin_layer(e, &l)) return;
    bool mask[3];
    tpj_nn_mask(e, "output_mask", 3, mask);
    tpj_value *grad = tpj_in_as(e, "grad_out", l.compute);
    tpj_value *scale = spread(&l, saved(e, &l, "rstd"));
    tpj_value *y = hlo_mul(l.h, hlo_sub(l.h, l.x, spread(&l, saved(e, &l, "mean"))), scale);
    tpj_value *weight = parameter(e, &l, "weight");
    tpj_value *g = weight == NULL ? grad : hlo_mul(l.h, grad, weight);
    tpj_dtype parameter_dtype = weight == NULL ? l.dtype : tpj_in_type(e, "weight").dtype;
    if (mask[0])
        tpj_out_as(e, input_gradient(&l, g, y, scale, true), l.dtype);
    else
        tpj_out_none(e);
    if (mask[1] && weight != NULL)
        tpj_out_as(e, parameter_gradient(&l, hlo_mul(l.h, grad, y)), parameter_dtype);
    else
        tpj_out_none(e);
    if (mask[2] && tpj_has(e, "bias"))
        tpj_out_as(e, parameter_gradient(&l, grad), tpj_in_type(e, "bias").dtype);
    else
        tpj_out_none(e);
}

static double machine_epsilon(tpj_dtype dtype) { return dtype == TPJ_F64 ? 0x1p-52 : 0x1p-23; }

static void emit_rms_norm(tpj_emit *e) {
    layer l;
    if (!begin_layer(e, &l)) return;
    tpj_value *square = mean_over(l.h, hlo_mul(l.h, l.x, l.x), l.dims, l.n_axes);
    tpj_value *scale = inverse_deviation(e, square, machine_epsilon(l.compute));
    tpj_value *y = hlo_mul(l.h, l.x, spread(&l, scale));
    tpj_value *weight = parameter(e, &l, "weight");
    if (weight != NULL) y = hlo_mul(l.h, y, weight);
    tpj_out_as(e, y, weight == NULL ? l.dtype : tpj_promote_dtypes(l.dtype, tpj_in_type(e, "weight").dtype));
    tpj_out(e, with_ones(&l, scale));
}

static void emit_rms_norm_backward(tpj_emit *e) {
    layer l;
    if (!begin_layer(e, &l)) return;
    bool mask[2];
    tpj_nn_mask(e, "output_mask", 2, mask);
    tpj_value *grad = tpj_in_as(e, "grad_out", l.compute);
    tpj_value *scale = spread(&l, saved(e, &l, "rstd")), *y = hlo_mul(l.h, l.x, scale);
    tpj_value *weight = parameter(e, &l, "weight");
    tpj_value *g = weight == NULL ? grad : hlo_mul(l.h, grad, weight);
    if (mask[0])
        tpj_out_as(e, input_gradient(&l, g, y, scale, false), l.dtype);
    else
        tpj_out_none(e);
    if (mask[1] && weight != NULL)
        tpj_out_as(e, parameter_gradient(&l, hlo_mul(l.h, grad, y)), tpj_in_type(e, "weight").dtype);
    else
        tpj_out_none(e);
}

/* ---- group norm: x is [N, C, *] seen as [N, group, C / group, *] ---- */

typedef struct group {
    tpj_hlo *h;
    tpj_type type;
    tpj_dtype dtype, compute;
    int64_t n, groups, per_group, area;
    tpj_value *x; /* [n, groups, per_group, area] */
} group;

static tpj_value *grouped(const group *g, tpj_value *x) {
    const int64_t dims[] = {g->n, g->groups, g->per_group, g->area};
    return hlo_reshape(g->h, x, 4, dims);
}

static bool begin_group(tpj_emit *e, group *g) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, "input");
    *g = (group){.h = h, .type = type, .dtype = type.dtype, .compute = tpj_compute_dtype(type.dtype)};
    g->n = tpj_int(e, "N", 0);
    g->groups = tpj_int(e, "group", 1);
    g->area = tpj_int(e, "HxW", 1);
    int64_t channels = tpj_int(e, "C", 0);
    if (!tpj_nn_require_float(e, "input")) return false;
    if (g->groups <= 0 || channels % g->groups != 0) {
        tpj_fail(e, TPJ_RUNTIME,
                 "Expected number of channels in input to be divisible by num_groups, but got input of %lld "
                 "channels and num_groups=%lld",
                 (long long)channels, (long long)g->groups);
        return false;
    }
    g->per_group = channels / g->groups;
    g->x = grouped(g, tpj_in_as(e, "input", g->compute));
    return !hlo_failed(h);
}

/* A parameter [C] in the grouped shape. */
static tpj_value *channel_parameter(tpj_emit *e, const group *g, const char *name) {
    tpj_value *value = optional(e, name, g->compute);
    if (value == NULL) return NULL;
    const int64_t dims[] = {g->groups, g->per_group}, mapping[] = {1, 2};
    return hlo_broadcast_in_dim(g->h, hlo_reshape(g->h, value, 2, dims), 4, g->x->type.dims, mapping);
}

static const int64_t group_dims[] = {2, 3}; /* what statistics are taken over */
static const int64_t batch_and_area[] = {0, 3};

static void emit_group_norm(tpj_emit *e) {
    group g;
    if (!begin_group(e, &g)) return;
    tpj_value *mean, *variance, *centered;
    moments(g.h, g.x, group_dims, 2, &mean, &variance, &centered);
    tpj_value *scale = inverse_deviation(e, variance, 1e-5);
    tpj_value *y = hlo_mul(g.h, centered, tpj_nn_spread(g.h, scale, g.x, group_dims, 2));
    tpj_value *weight = channel_parameter(e, &g, "weight"), *bias = channel_parameter(e, &g, "bias");
    if (weight != NULL) y = hlo_mul(g.h, y, weight);
    if (bias != NULL) y = hlo_add(g.h, y, bias);
    tpj_dtype kept = weight != NULL ? tpj_promote_dtypes(g.dtype, tpj_in_type(e, "weight").dtype) : g.dtype;
    tpj_out_as(e, hlo_reshape(g.h, y, g.type.rank, g.type.dims), g.dtype);
    tpj_out_as(e, mean, kept);
    tpj_out_as(e, scale, kept);
}

static tpj_value *channel_gradient(const group *g, tpj_value *x) {
    const int64_t dims[] = {g->groups * g->per_group};
    return hlo_reshape(g->h, hlo_reduce(g->h, "add", x, NULL, batch_and_area, 2), 1, dims);
}

static void emit_group_norm_backward(tpj_emit *e) {
    group g;
    if (!begin_group(e, &g)) return;
    tpj_hlo *h = g.h;
    bool mask[3];
    tpj_nn_mask(e, "output_mask", 3, mask);
    const int64_t per_group[] = {g.n, g.groups};
    tpj_value *grad = grouped(&g, tpj_in_as(e, "grad_out", g.compute));
    tpj_value *mean = hlo_reshape(h, tpj_in_as(e, "mean", g.compute), 2, per_group);
    tpj_value *scale = hlo_reshape(h, tpj_in_as(e, "rstd", g.compute), 2, per_group);
    scale = tpj_nn_spread(h, scale, g.x, group_dims, 2);
    tpj_value *y = hlo_mul(h, hlo_sub(h, g.x, tpj_nn_spread(h, mean, g.x, group_dims, 2)), scale);
    tpj_value *weight = channel_parameter(e, &g, "weight");
    tpj_value *weighted = weight == NULL ? grad : hlo_mul(h, grad, weight);
    tpj_dtype parameter_dtype = weight == NULL ? g.dtype : tpj_in_type(e, "weight").dtype;
    if (mask[0]) {
        const layer l = {.h = h, .x = g.x, .axis = 2, .n_axes = 2, .dims = group_dims};
        tpj_out_as(e, hlo_reshape(h, input_gradient(&l, weighted, y, scale, true), g.type.rank, g.type.dims), g.dtype);
    } else {
        tpj_out_none(e);
    }
    if (mask[1])
        tpj_out_as(e, channel_gradient(&g, hlo_mul(h, grad, y)), parameter_dtype);
    else
        tpj_out_none(e);
    if (mask[2])
        tpj_out_as(e, channel_gradient(&g, grad), parameter_dtype);
    else
        tpj_out_none(e);
}

/* ---- batch norm: over all dimensions but the second ---- */

typedef struct batch {
    tpj_hlo *h;
    tpj_dtype dtype, compute;
    tpj_dtype kept; /* of saved statistics */
    tpj_value *x;
    const int64_t *dims;
    int n_dims;
    double count; /* elements per channel */
} batch;

static bool begin_batch(tpj_emit *e, batch *b) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, "input");
    *b = (batch){.h = h, .dtype = type.dtype, .compute = tpj_compute_dtype(type.dtype)};
    if (!tpj_nn_require_float(e, "input")) return false;
    if (type.rank < 2) {
        tpj_fail(e, TPJ_RUNTIME, "batch norm expects at least 2 dimensions, got %d", type.rank);
        return false;
    }
    b->kept = b->compute;
    b->x = tpj_in_as(e, "input", b->compute);
    b->dims = tpj_nn_dims_but(h, type.rank, 1);
    b->n_dims = type.rank - 1;
    if (hlo_failed(h)) return false;
    b->count = count(b->x, b->dims, b->n_dims);
    return true;
}

static tpj_value *channels(const batch *b, tpj_value *vector) { return tpj_nn_along(b->h, vector, b->x, 1); }

static tpj_value *normalise(tpj_emit *e, const batch *b, tpj_value *mean, tpj_value *scale) {
    tpj_hlo *h = b->h;
    tpj_value *weight = optional(e, "weight", b->compute), *bias = optional(e, "bias", b->compute);
    tpj_value *y = hlo_mul(h, hlo_sub(h, b->x, channels(b, mean)), channels(b, scale));
    if (weight != NULL) y = hlo_mul(h, y, channels(b, weight));
    if (bias != NULL) y = hlo_add(h, y, channels(b, bias));
    return y;
}

/* running + momentum * (new - running), in the running statistic's dtype. */
static void update_running(tpj_emit *e, const batch *b, const char *name, tpj_value *new_value) {
    if (!tpj_has(e, name)) {
        tpj_out_none(e);
        return;
    }
    tpj_value *running = tpj_in_as(e, name, b->compute);
    if (new_value != NULL) {
        tpj_value *momentum = tpj_scalar(e, "momentum", b->compute);
        tpj_value *rest = hlo_sub(b->h, hlo_number(b->h, b->compute, 1), momentum);
        running = hlo_add(b->h, hlo_mul(b->h, running, rest), hlo_mul(b->h, new_value, momentum));
    }
    tpj_out_as(e, running, tpj_in_type(e, name).dtype);
}

/* What a row returns beside the output, the saved mean and the saved inverse deviation. */
enum { NO_STATISTICS = 0, RESERVE = 1, RUNNING = 2, EVALUATES = 4, TRAINS = 8 };

/* In training, the batch's own statistics; else the running ones, and the saved ones are empty. */
static void emit_batch_norm(tpj_emit *e) {
    batch b;
    int variant = tpj_row(e)->variant;
    if (!begin_batch(e, &b)) return;
    bool training = (variant & TRAINS) != 0 || (!(variant & EVALUATES) && tpj_bool(e, "training", false));
    const int64_t empty[] = {0};
    tpj_value *mean, *variance, *centered, *scale;
    /* PyTorch keeps statistics in the parameters' dtype: halves with F32 parameters keep them in F32. */
    b.kept = b.dtype;
    if (tpj_has(e, "weight")) b.kept = tpj_promote_dtypes(b.kept, tpj_in_type(e, "weight").dtype);
    if (variant != NO_STATISTICS) b.kept = tpj_promote_dtypes(b.kept, tpj_in_type(e, "running_mean").dtype);
    if (training) {
        moments(b.h, b.x, b.dims, b.n_dims, &mean, &variance, &centered);
        scale = inverse_deviation(e, variance, 1e-5);
    } else {
        if (!tpj_has(e, "running_mean") || !tpj_has(e, "running_var")) {
            tpj_fail(e, TPJ_RUNTIME, "running_mean and running_var must be defined in evaluation mode");
            return;
        }
        mean = tpj_in_as(e, "running_mean", b.compute);
        variance = tpj_in_as(e, "running_var", b.compute);
        scale = inverse_deviation(e, variance, 1e-5);
    }
    tpj_out_as(e, normalise(e, &b, mean, scale), b.dtype);
    tpj_out(e, training ? hlo_convert(b.h, mean, b.kept) : hlo_zeros(b.h, b.kept, 1, empty));
    tpj_out(e, training ? hlo_convert(b.h, scale, b.kept) : hlo_zeros(b.h, b.kept, 1, empty));
    if (variant & RESERVE) tpj_out(e, hlo_zeros(b.h, TPJ_U8, 1, empty));
    if (!(variant & RUNNING)) return;
    double unbiased = b.count / (b.count - 1); /* one element: inf, and inf * 0 is NaN, as PyTorch's */
    update_running(e, &b, "running_mean", training ? mean : NULL);
    update_running(e, &b, "running_var", training ? hlo_mul(b.h, variance, number(b.h, variance, unbiased)) : NULL);
}

static void emit_batch_norm_backward(tpj_emit *e) {
    batch b;
    if (!begin_batch(e, &b)) return;
    tpj_hlo *h = b.h;
    bool train = tpj_bool(e, tpj_row(e)->hlo, false), is_new = tpj_row(e)->variant != 0;
    bool mask[3];
    tpj_nn_mask(e, "output_mask", 3, mask);
    tpj_value *grad = tpj_in_as(e, "grad_out", b.compute);
    tpj_value *mean, *scale;
    if (train) {
        mean = tpj_in_as(e, "save_mean", b.compute);
        scale = tpj_in_as(e, is_new ? "save_var" : "save_invstd", b.compute);
    } else {
        mean = tpj_in_as(e, "running_mean", b.compute);
        scale = inverse_deviation(e, tpj_in_as(e, "running_var", b.compute), 1e-5);
    }
    tpj_value *weight = optional(e, "weight", b.compute);
    tpj_value *y = hlo_mul(h, hlo_sub(h, b.x, channels(&b, mean)), channels(&b, scale));
    tpj_value *sum = hlo_reduce(h, "add", grad, NULL, b.dims, b.n_dims);
    tpj_value *dot = hlo_reduce(h, "add", hlo_mul(h, grad, y), NULL, b.dims, b.n_dims);
    tpj_dtype parameter_dtype = weight == NULL ? b.kept : tpj_in_type(e, "weight").dtype;
    if (mask[0]) {
        tpj_value *rest = grad, *n = number(h, sum, b.count);
        if (train) {
            rest = hlo_sub(h, rest, channels(&b, hlo_div(h, sum, n)));
            rest = hlo_sub(h, rest, hlo_mul(h, y, channels(&b, hlo_div(h, dot, n))));
        }
        tpj_value *factor = weight == NULL ? scale : hlo_mul(h, scale, weight);
        tpj_out_as(e, hlo_mul(h, rest, channels(&b, factor)), b.dtype);
    } else {
        tpj_out_none(e);
    }
    if (mask[1])
        tpj_out_as(e, dot, parameter_dtype);
    else
        tpj_out_none(e);
    if (mask[2])
        tpj_out_as(e, sum, parameter_dtype);
    else
        tpj_out_none(e);
}

/* ---- parts of a batch norm whose statistics are gathered from several devices ---- */

static void emit_batch_norm_stats(tpj_emit *e) {
    batch b;
    if (!begin_batch(e, &b)) return;
    tpj_value *mean, *variance, *centered;
    moments(b.h, b.x, b.dims, b.n_dims, &mean, &variance, &centered);
    tpj_out(e, mean);
    tpj_out(e, inverse_deviation(e, variance, 1e-5));
}

static void emit_batch_norm_elemt(tpj_emit *e) {
    batch b;
    if (!begin_batch(e, &b)) return;
    tpj_out_as(e, normalise(e, &b, tpj_in_as(e, "mean", b.compute), tpj_in_as(e, "invstd", b.compute)), b.dtype);
}

/* Per channel: sums of grad and of grad (x - mean), and the gradients of weight and bias. */
static void emit_batch_norm_backward_reduce(tpj_emit *e) {
    batch b;
    if (!begin_batch(e, &b)) return;
    tpj_hlo *h = b.h;
    tpj_value *grad = tpj_in_as(e, "grad_out", b.compute), *mean = tpj_in_as(e, "mean", b.compute);
    tpj_value *sum = hlo_reduce(h, "add", grad, NULL, b.dims, b.n_dims);
    tpj_value *dot = hlo_mul(h, grad, hlo_sub(h, b.x, channels(&b, mean)));
    dot = hlo_reduce(h, "add", dot, NULL, b.dims, b.n_dims);
    tpj_dtype dtype = tpj_has(e, "weight") ? tpj_in_type(e, "weight").dtype : b.kept;
    if (tpj_bool(e, "input_g", true)) {
        tpj_out(e, sum);
        tpj_out(e, dot);
    } else {
        tpj_out_none(e);
        tpj_out_none(e);
    }
    if (tpj_bool(e, "weight_g", true))
        tpj_out_as(e, hlo_mul(h, dot, tpj_in_as(e, "invstd", b.compute)), dtype);
    else
        tpj_out_none(e);
    if (tpj_bool(e, "bias_g", true))
        tpj_out_as(e, sum, dtype);
    else
        tpj_out_none(e);
}

/* The input's gradient from the sums over all devices; `count` holds each device's elements per channel. */
static void emit_batch_norm_backward_elemt(tpj_emit *e) {
    batch b;
    if (!begin_batch(e, &b)) return;
    tpj_hlo *h = b.h;
    tpj_value *grad = tpj_in_as(e, "grad_out", b.compute), *scale = tpj_in_as(e, "invstd", b.compute);
    tpj_value *total = hlo_reduce_all(h, "add", tpj_in_as(e, "count", b.compute));
    tpj_value *mean_grad = hlo_div(h, tpj_in_as(e, "sum_dy", b.compute), total);
    tpj_value *slope = hlo_mul(h, hlo_div(h, tpj_in_as(e, "sum_dy_xmu", b.compute), total), hlo_mul(h, scale, scale));
    tpj_value *centered = hlo_sub(h, b.x, channels(&b, tpj_in_as(e, "mean", b.compute)));
    tpj_value *rest = hlo_sub(h, hlo_sub(h, grad, channels(&b, mean_grad)), hlo_mul(h, centered, channels(&b, slope)));
    tpj_value *weight = optional(e, "weight", b.compute);
    tpj_value *factor = weight == NULL ? scale : hlo_mul(h, scale, weight);
    tpj_out_as(e, hlo_mul(h, rest, channels(&b, factor)), b.dtype);
}

/* ---- weight norm: v g / |v|, norms over all dimensions but `dim` (-1: over all) ---- */

typedef struct weight_norm {
    tpj_hlo *h;
    tpj_dtype dtype, compute;
    tpj_value *v;
    const int64_t *dims;
    int n_dims;
} weight_norm;

static bool begin_weight_norm(tpj_emit *e, const char *v, weight_norm *w) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, v);
    int64_t dim = tpj_int(e, "dim", 0);
    *w = (weight_norm){.h = h, .dtype = type.dtype, .compute = tpj_compute_dtype(type.dtype)};
    if (!tpj_nn_require_float(e, v)) return false;
    if (dim >= type.rank || dim < -1) {
        tpj_fail(e, TPJ_INDEX, "weight norm: dimension %lld of a tensor of %d", (long long)dim, type.rank);
        return false;
    }
    w->v = tpj_in_as(e, v, w->compute);
    w->dims = tpj_nn_dims_but(h, type.rank, (int)dim);
    w->n_dims = dim < 0 ? type.rank : type.rank - 1;
    return !hlo_failed(h);
}

static tpj_value *like_v(const weight_norm *w, tpj_value *x) {
    return hlo_expand(w->h, x, w->v->type.rank, w->v->type.dims);
}

/* A sum over the normed dimensions with the shape of g: ones where it was reduced, or 0-dim when g is. */
static tpj_value *norm_sum(const weight_norm *w, tpj_value *x, tpj_type g) {
    return hlo_reshape(w->h, hlo_reduce(w->h, "add", x, NULL, w->dims, w->n_dims), g.rank, g.dims);
}

static void emit_weight_norm(tpj_emit *e) {
    weight_norm w;
    if (!begin_weight_norm(e, "v", &w)) return;
    tpj_type g = tpj_in_type(e, "g");
    tpj_value *norm = hlo_sqrt(w.h, norm_sum(&w, hlo_mul(w.h, w.v, w.v), g));
    tpj_value *scale = hlo_div(w.h, tpj_in_as(e, "g", w.compute), norm);
    tpj_out_as(e, hlo_mul(w.h, w.v, like_v(&w, scale)), w.dtype);
    tpj_out(e, norm); /* halves keep it in F32 */
}

/* dv = (g / |v|) (dw - v (v . dw) / |v|^2), dg = (v . dw) / |v| */
static void emit_weight_norm_backward(tpj_emit *e) {
    weight_norm w;
    if (!begin_weight_norm(e, "saved_v", &w)) return;
    tpj_hlo *h = w.h;
    tpj_type type = tpj_in_type(e, "saved_g");
    tpj_value *grad = tpj_in_as(e, "grad_w", w.compute), *g = tpj_in_as(e, "saved_g", w.compute);
    tpj_value *norm = hlo_reshape(h, tpj_in_as(e, "saved_norms", w.compute), type.rank, type.dims);
    tpj_value *dot = norm_sum(&w, hlo_mul(h, grad, w.v), type);
    tpj_value *along = hlo_mul(h, w.v, like_v(&w, hlo_div(h, dot, hlo_mul(h, norm, norm))));
    tpj_out_as(e, hlo_mul(h, like_v(&w, hlo_div(h, g, norm)), hlo_sub(h, grad, along)), w.dtype);
    tpj_out_as(e, hlo_div(h, dot, norm), type.dtype);
}

#define BATCH_HEAD "T input, T? weight, T? bias, "
#define BATCH_TAIL ", f momentum, F~ eps" /* without a fixed momentum, modules give 1 / (number of batches so far) */
#define BATCH_ROW(op, parameters, bits) \
    {.name = op, .params = BATCH_HEAD parameters, .emit = emit_batch_norm, .variant = bits, .layout = TPJ_LAYOUT_SELF}

const tpj_op_def tpj_ops_norm[] = {
    {.name = "native_layer_norm",
     .params = "T input, I[] normalized_shape, T? weight, T? bias, F~ eps",
     .emit = emit_layer_norm},
    {.name = "native_layer_norm_backward",
     .params = "T grad_out, T input, I[] normalized_shape, T mean, T rstd, T? weight, T? bias, B[] output_mask",
     .emit = emit_layer_norm_backward},
    {.name = "_fused_rms_norm", .params = "T input, I[] normalized_shape, T? weight, F~? eps", .emit = emit_rms_norm},
    {.name = "_fused_rms_norm_backward",
     .params = "T grad_out, T input, I[] normalized_shape, T rstd, T? weight, B[] output_mask",
     .emit = emit_rms_norm_backward},
    {.name = "native_group_norm",
     .params = "T input, T? weight, T? bias, I N, I C, I HxW, I group, F~ eps",
     .emit = emit_group_norm,
     .layout = TPJ_LAYOUT_CHANNELS_LAST},
    {.name = "native_group_norm_backward",
     .params = "T grad_out, T input, T mean, T rstd, T? weight, I N, I C, I HxW, I group, B[] output_mask",
     .emit = emit_group_norm_backward,
     .layout = TPJ_LAYOUT_CHANNELS_LAST},
    /* The in-place forms (native_batch_norm, _native_batch_norm_legit, _batch_norm_with_update) write the last two
     * results of these rows back into the running statistics. */
    BATCH_ROW("_native_batch_norm_legit_functional", "T? running_mean, T? running_var, B training" BATCH_TAIL, RUNNING),
    BATCH_ROW("_batch_norm_with_update_functional", "T running_mean, T running_var" BATCH_TAIL,
              RUNNING | RESERVE | TRAINS),
    BATCH_ROW("_native_batch_norm_legit.no_stats", "B training" BATCH_TAIL, NO_STATISTICS),
    BATCH_ROW("_native_batch_norm_legit_no_training", "T running_mean, T running_var" BATCH_TAIL, EVALUATES),
    BATCH_ROW("_batch_norm_no_update", "T? running_mean, T? running_var" BATCH_TAIL, EVALUATES | RESERVE),
    {.name = "native_batch_norm_backward",
     .params =
         "T grad_out, T input, T? weight, T? running_mean, T? running_var, T? save_mean, T? save_invstd, B train, "
         "F~ eps, B[] output_mask",
     .emit = emit_batch_norm_backward,
     .hlo = "train",
     .layout = TPJ_LAYOUT_SELF},
    {.name = "batch_norm_backward",
     .params = "T grad_out, T input, T weight, T? running_mean, T? running_var, T? save_mean, T? save_var, B update, "
               "F~ eps, B[] output_mask, T reserve",
     .emit = emit_batch_norm_backward,
     .hlo = "update",
     .variant = 1,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "batch_norm_stats", .params = "T input, F~ eps", .emit = emit_batch_norm_stats},
    {.name = "batch_norm_elemt",
     .params = "T input, T? weight, T? bias, T mean, T invstd, F~ eps",
     .emit = emit_batch_norm_elemt,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "batch_norm_backward_reduce",
     .params = "T grad_out, T input, T mean, T invstd, T? weight, B input_g, B weight_g, B bias_g",
     .emit = emit_batch_norm_backward_reduce},
    {.name = "batch_norm_backward_elemt",
     .params = "T grad_out, T input, T mean, T invstd, T? weight, T sum_dy, T sum_dy_xmu, T count",
     .emit = emit_batch_norm_backward_elemt,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "_weight_norm_interface", .params = "T v, T g, I dim=0", .emit = emit_weight_norm},
    {.name = "_weight_norm_interface_backward",
     .params = "T grad_w, T saved_v, T saved_g, T saved_norms, I dim",
     .emit = emit_weight_norm_backward},
    {0}};
