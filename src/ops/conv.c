/* Convolutions of one to three spatial dimensions, forward and backward, transposed ones included.
 *
 * Three products make up all of them, in PyTorch's terms of a plain convolution y = conv(x, w):
 *   correlate  y from x and w        (also the input's gradient of a transposed convolution)
 *   scatter    x-like from y and w   (the input's gradient; also the transposed convolution itself)
 *   weigh      w-like from x and y   (the weight's gradient of both)
 * Halves are multiplied as they are and accumulated in F32. */
#include "ops/nn.h"

enum { MAX_SPATIAL = 3 };

typedef struct conv {
    tpj_hlo *h;
    tpj_dtype dtype, result; /* of the operands; of the products, before rounding */
    int n;                   /* spatial dimensions */
    bool transposed;
    int64_t groups;
    int64_t stride[MAX_SPATIAL], padding[MAX_SPATIAL], dilation[MAX_SPATIAL], output_padding[MAX_SPATIAL];
} conv;

static const int64_t spatial_dims[] = {2, 3, 4};

static bool begin(tpj_emit *e, const char *first, conv *c) {
    static const int64_t ones[] = {1, 1, 1}, zeros[] = {0, 0, 0};
    tpj_type x = tpj_in_type(e, first), weight = tpj_in_type(e, "weight");
    *c = (conv){.h = tpj_builder(e), .n = weight.rank - 2, .dtype = tpj_promote_dtypes(x.dtype, weight.dtype)};
    if (c->n < 1 || c->n > MAX_SPATIAL) {
        tpj_fail(e, TPJ_RUNTIME, "convolution of %d spatial dimensions: between 1 and 3 are supported", c->n);
        return false;
    }
    if (x.rank != weight.rank) {
        tpj_fail(e, TPJ_RUNTIME, "Expected %dD (batched) input, got input of %d dimensions", weight.rank, x.rank);
        return false;
    }
    if (x.dtype != weight.dtype) {
        tpj_fail(e, TPJ_RUNTIME, "Input type (%s) and weight type (%s) should be the same", tpj_dtype_name(x.dtype),
                 tpj_dtype_name(weight.dtype));
        return false;
    }
    c->result = tpj_compute_dtype(c->dtype);
    c->transposed = tpj_bool(e, "transposed", false);
    c->groups = tpj_int(e, "groups", 1);
    if (!tpj_nn_ints(e, "stride", c->n, ones, c->stride) || !tpj_nn_ints(e, "padding", c->n, zeros, c->padding) ||
        !tpj_nn_ints(e, "dilation", c->n, ones, c->dilation) ||
        !tpj_nn_ints(e, "output_padding", c->n, zeros, c->output_padding))
        return false;
    for (int i = 0; i < c->n; i++)
        if (c->stride[i] <= 0 || c->dilation[i] <= 0 || c->padding[i] < 0 || c->output_padding[i] < 0) {
            tpj_fail(e, TPJ_RUNTIME, "non-positive stride or dilation, or negative padding, is not supported");
            return false;
        }
    if (weight.dims[0] < c->groups) {
        tpj_fail(e, TPJ_RUNTIME, "Given groups=%lld, expected weight to be at least %lld at dimension 0, but got %lld",
                 (long long)c->groups, (long long)c->groups, (long long)weight.dims[0]);
        return false;
    }
    if (c->groups <= 0 || weight.dims[0] % c->groups != 0) {
        tpj_fail(e, TPJ_RUNTIME, "the weight's first size (%lld) must be divisible by groups (%lld)",
                 (long long)weight.dims[0], (long long)c->groups);
        return false;
    }
    return true;
}

/* Extent of a dilated kernel, less one. */
static int64_t reach(const conv *c, const tpj_value *w, int i) { return c->dilation[i] * (hlo_dim(w, 2 + i) - 1); }

/* x [N, C, *], w [O, C / groups, *] to [N, O, sizes]. Rows of x that no window reaches are cropped. */
static tpj_value *correlate(const conv *c, tpj_value *x, tpj_value *w, const int64_t *sizes) {
    int64_t high[MAX_SPATIAL];
    for (int i = 0; i < c->n; i++) {
        int64_t used = (sizes[i] - 1) * c->stride[i] + reach(c, w, i) + 1;
        high[i] = used - hlo_dim(x, 2 + i) - c->padding[i];
    }
    const hlo_convolution numbers = {.n_spatial = c->n,
                                     .input_feature = 1,
                                     .input_spatial = spatial_dims,
                                     .kernel_output = 0,
                                     .kernel_input = 1,
                                     .kernel_spatial = spatial_dims,
                                     .output_feature = 1,
                                     .output_spatial = spatial_dims,
                                     .step = c->stride,
                                     .low = c->padding,
                                     .high = high,
                                     .kernel_dilation = c->dilation,
                                     .feature_groups = c->groups,
                                     .batch_groups = 1};
    return hlo_convolve(c->h, x, w, &numbers, c->result);
}

/* w [O, C / groups, *] of a plain convolution with the roles of its features exchanged: [C, O / groups, *], flipped. */
static tpj_value *exchanged(const conv *c, tpj_value *w) {
    int64_t inner = hlo_dim(w, 1), outer = hlo_dim(w, 0) / c->groups;
    int64_t split[3 + MAX_SPATIAL] = {c->groups, outer, inner}, merged[2 + MAX_SPATIAL] = {c->groups * inner, outer};
    int64_t permutation[3 + MAX_SPATIAL] = {0, 2, 1};
    for (int i = 0; i < c->n; i++) {
        split[3 + i] = merged[2 + i] = hlo_dim(w, 2 + i);
        permutation[3 + i] = 3 + i;
    }
    w = hlo_reverse(c->h, w, spatial_dims, c->n);
    w = hlo_transpose(c->h, hlo_reshape(c->h, w, 3 + c->n, split), permutation);
    return hlo_reshape(c->h, w, 2 + c->n, merged);
}

/* y [N, O, *], w [O, C / groups, *] to x's shape [N, C, sizes]: each element of y spread over the window that it came from. */
static tpj_value *scatter(const conv *c, tpj_value *y, tpj_value *w, const int64_t *sizes) {
    static const int64_t ones[] = {1, 1, 1};
    int64_t low[MAX_SPATIAL], high[MAX_SPATIAL];
    for (int i = 0; i < c->n; i++) {
        low[i] = reach(c, w, i) - c->padding[i];
        high[i] = sizes[i] - (hlo_dim(y, 2 + i) - 1) * c->stride[i] - 1 + c->padding[i];
    }
    const hlo_convolution numbers = {.n_spatial = c->n,
                                     .input_feature = 1,
                                     .input_spatial = spatial_dims,
                                     .kernel_output = 0,
                                     .kernel_input = 1,
                                     .kernel_spatial = spatial_dims,
                                     .output_feature = 1,
                                     .output_spatial = spatial_dims,
                                     .step = ones,
                                     .low = low,
                                     .high = high,
                                     .input_dilation = c->stride,
                                     .kernel_dilation = c->dilation,
                                     .feature_groups = c->groups,
                                     .batch_groups = 1};
    return hlo_convolve(c->h, y, exchanged(c, w), &numbers, c->result);
}

/* x [N, C, *], y [N, O, *] to w's shape [O, C / groups, sizes]: y is the kernel that runs over x, batch as the feature. */
static tpj_value *weigh_as_convolution(const conv *c, tpj_value *x, tpj_value *y, const int64_t *sizes) {
    int64_t high[MAX_SPATIAL];
    for (int i = 0; i < c->n; i++) {
        int64_t extent = (hlo_dim(y, 2 + i) - 1) * c->stride[i] + 1;
        high[i] = c->dilation[i] * (sizes[i] - 1) + extent - hlo_dim(x, 2 + i) - c->padding[i];
    }
    const hlo_convolution numbers = {.n_spatial = c->n,
                                     .input_batch = 1,
                                     .input_feature = 0,
                                     .input_spatial = spatial_dims,
                                     .kernel_input = 0,
                                     .kernel_output = 1,
                                     .kernel_spatial = spatial_dims,
                                     .output_batch = 1,
                                     .output_feature = 0,
                                     .output_spatial = spatial_dims,
                                     .step = c->dilation,
                                     .low = c->padding,
                                     .high = high,
                                     .kernel_dilation = c->stride,
                                     .feature_groups = 1,
                                     .batch_groups = 1};
    return hlo_convolve(c->h, x, y, &numbers, c->result);
}

/* [N, groups * k, *] to [N, groups, k, *] */
static tpj_value *by_group(const conv *c, tpj_value *x) {
    int64_t dims[3 + MAX_SPATIAL] = {hlo_dim(x, 0), c->groups, hlo_dim(x, 1) / c->groups};
    for (int i = 0; i < c->n; i++) dims[3 + i] = hlo_dim(x, 2 + i);
    return hlo_reshape(c->h, x, 3 + c->n, dims);
}

/* The elements of padded x that meet kernel element `position`: x[.., stride * i + dilation * position]. */
static tpj_value *met_by(const conv *c, tpj_value *padded, const tpj_value *y, const int64_t *position) {
    int64_t start[2 + MAX_SPATIAL] = {0}, step[2 + MAX_SPATIAL] = {1, 1};
    int64_t limit[2 + MAX_SPATIAL] = {hlo_dim(padded, 0), hlo_dim(padded, 1)};
    for (int i = 0; i < c->n; i++) {
        start[2 + i] = c->dilation[i] * position[i];
        step[2 + i] = c->stride[i];
        limit[2 + i] = start[2 + i] + (hlo_dim(y, 2 + i) - 1) * c->stride[i] + 1;
    }
    return hlo_slice(c->h, padded, start, limit, step);
}

/* The same as one product a kernel element, [groups, O / groups, C / groups], contracted over batch and places. Compilers
 * have no fast form of the convolution where there are groups, and where the kernel is one element this is all of it. */
static tpj_value *weigh_by_element(const conv *c, tpj_value *x, tpj_value *y, const int64_t *sizes) {
    static const int64_t batch[] = {1}, contracted[] = {0, 3, 4, 5};
    int64_t low[2 + MAX_SPATIAL] = {0}, high[2 + MAX_SPATIAL] = {0}, n_elements = 1, position[MAX_SPATIAL];
    for (int i = 0; i < c->n; i++) {
        int64_t used = c->dilation[i] * (sizes[i] - 1) + (hlo_dim(y, 2 + i) - 1) * c->stride[i] + 1;
        low[2 + i] = c->padding[i];
        high[2 + i] = used - hlo_dim(x, 2 + i) - c->padding[i];
        n_elements *= sizes[i];
    }
    x = hlo_pad(c->h, x, tpj_nn_number(c->h, x, 0), low, high, NULL);
    tpj_value *kernel = by_group(c, y);
    tpj_value **products = TPJ_ARENA_ARRAY(hlo_arena(c->h), tpj_value *, n_elements);
    for (int64_t k = 0; products != NULL && k < n_elements; k++) {
        int64_t rest = k;
        for (int i = c->n - 1; i >= 0; rest /= sizes[i--]) position[i] = rest % sizes[i];
        tpj_value *part = by_group(c, met_by(c, x, y, position));
        part = hlo_dot(c->h, kernel, part, batch, batch, 1, contracted, contracted, 1 + c->n, c->result);
        products[k] = hlo_unsqueeze(c->h, part, 3);
    }
    if (products == NULL) return hlo_fail(c->h, TPJ_OUT_OF_MEMORY, "out of host memory");
    int64_t dims[2 + MAX_SPATIAL] = {hlo_dim(y, 1), hlo_dim(x, 1) / c->groups};
    for (int i = 0; i < c->n; i++) dims[2 + i] = sizes[i];
    return hlo_reshape(c->h, hlo_concatenate(c->h, products, (int)n_elements, 3), 2 + c->n, dims);
}

static tpj_value *weigh(const conv *c, tpj_value *x, tpj_value *y, const int64_t *sizes) {
    int64_t n_elements = 1;
    for (int i = 0; i < c->n; i++) n_elements *= sizes[i];
    return c->groups > 1 || n_elements == 1 ? weigh_by_element(c, x, y, sizes) : weigh_as_convolution(c, x, y, sizes);
}

/* Output sizes of the op, checked: PyTorch refuses kernels that are larger than the padded input. */
static bool output_sizes(tpj_emit *e, const conv *c, const tpj_value *x, const tpj_value *w, int64_t *out_sizes) {
    int64_t channels = c->transposed ? hlo_dim(w, 0) : hlo_dim(w, 1) * c->groups;
    if (hlo_dim(x, 1) != channels) {
        tpj_fail(e, TPJ_RUNTIME, "expected input to have %lld channels, but got %lld channels instead",
                 (long long)channels, (long long)hlo_dim(x, 1));
        return false;
    }
    for (int i = 0; i < c->n; i++) {
        int64_t size = hlo_dim(x, 2 + i), padded = size + 2 * c->padding[i];
        if (c->transposed) {
            out_sizes[i] = (size - 1) * c->stride[i] - 2 * c->padding[i] + reach(c, w, i) + c->output_padding[i] + 1;
        } else {
            if (padded < reach(c, w, i) + 1) {
                tpj_fail(e, TPJ_RUNTIME,
                         "Calculated padded input size per channel: (%lld). Kernel size: (%lld). Kernel size "
                         "can't be greater than actual input size",
                         (long long)padded, (long long)reach(c, w, i) + 1);
                return false;
            }
            out_sizes[i] = (padded - reach(c, w, i) - 1) / c->stride[i] + 1;
        }
        if (out_sizes[i] < 0) {
            tpj_fail(e, TPJ_RUNTIME, "Given input size per channel: (%lld), the calculated output size is too small",
                     (long long)size);
            return false;
        }
    }
    return true;
}

/* Products over nothing: a batch of no elements, or no channels. */
static bool is_empty(const tpj_value *x, const tpj_value *y) { return hlo_elements(x) == 0 || hlo_elements(y) == 0; }

static void emit_convolution(tpj_emit *e) {
    conv c;
    int64_t sizes[MAX_SPATIAL];
    if (!begin(e, "input", &c)) return;
    tpj_value *x = tpj_in(e, "input"), *w = tpj_in(e, "weight"), *y;
    if (hlo_failed(c.h) || !output_sizes(e, &c, x, w, sizes)) return;
    int64_t dims[2 + MAX_SPATIAL] = {hlo_dim(x, 0), c.transposed ? hlo_dim(w, 1) * c.groups : hlo_dim(w, 0)};
    for (int i = 0; i < c.n; i++) dims[2 + i] = sizes[i];
    if (is_empty(x, w))
        y = hlo_zeros(c.h, c.result, 2 + c.n, dims);
    else
        y = c.transposed ? scatter(&c, x, w, sizes) : correlate(&c, x, w, sizes);
    if (tpj_has(e, "bias") && !hlo_failed(c.h))
        y = hlo_add(c.h, y, tpj_nn_along(c.h, tpj_in_as(e, "bias", c.result), y, 1));
    tpj_out_as(e, y, c.dtype);
}

static void emit_convolution_backward(tpj_emit *e) {
    conv c;
    bool mask[3];
    tpj_nn_mask(e, "output_mask", 3, mask);
    if (!begin(e, "input", &c)) return;
    tpj_value *grad = tpj_in_as(e, "grad_output", c.dtype), *x = tpj_in(e, "input"), *w = tpj_in(e, "weight");
    if (hlo_failed(c.h)) return;
    bool nothing = is_empty(x, grad) || is_empty(w, w);
    if (!mask[0])
        tpj_out_none(e);
    else if (nothing)
        tpj_out(e, hlo_zeros(c.h, c.dtype, x->type.rank, x->type.dims));
    else
        tpj_out_as(e, c.transposed ? correlate(&c, grad, w, x->type.dims + 2) : scatter(&c, grad, w, x->type.dims + 2),
                   c.dtype);
    if (!mask[1])
        tpj_out_none(e);
    else if (nothing)
        tpj_out(e, hlo_zeros(c.h, c.dtype, w->type.rank, w->type.dims));
    else
        tpj_out_as(e, c.transposed ? weigh(&c, grad, x, w->type.dims + 2) : weigh(&c, x, grad, w->type.dims + 2),
                   c.dtype);
    if (!mask[2]) {
        tpj_out_none(e);
    } else {
        tpj_value *sum = hlo_convert(c.h, grad, c.result);
        tpj_out_as(e, hlo_reduce(c.h, "add", sum, NULL, tpj_nn_dims_but(c.h, grad->type.rank, 1), grad->type.rank - 1),
                   c.dtype);
    }
}

#define GEOMETRY "I[] stride, I[] padding, I[] dilation, B transposed, I[] output_padding, I groups"

const tpj_op_def tpj_ops_conv[] = {
    {.name = "convolution",
     .params = "T input, T weight, T? bias, " GEOMETRY,
     .emit = emit_convolution,
     .layout = TPJ_LAYOUT_CHANNELS_LAST},
    {.name = "convolution_overrideable",
     .params = "T input, T weight, T? bias, " GEOMETRY,
     .emit = emit_convolution,
     .layout = TPJ_LAYOUT_CHANNELS_LAST},
    {.name = "convolution_backward",
     .params = "T grad_output, T input, T weight, I[]? bias_sizes, " GEOMETRY ", B[] output_mask",
     .emit = emit_convolution_backward,
     .layout = TPJ_LAYOUT_CHANNELS_LAST},
    {.name = "convolution_backward_overrideable",
     .params = "T grad_output, T input, T weight, " GEOMETRY ", B[] output_mask",
     .emit = emit_convolution_backward,
     .layout = TPJ_LAYOUT_CHANNELS_LAST},
    {0}};
