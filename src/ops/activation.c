/* Activations and their gradients. Their numbers (slopes, bounds, alpha) are mostly attributes of modules, so they are
 * baked into the programs until they are seen to change. */
#include "ops/nn.h"

#include <math.h>

#define SQRT_HALF 0.70710678118654752440 /* 1 / sqrt(2) */
#define SQRT_2_OVER_PI 0.79788456080286535588
#define GELU_CUBIC 0.044715

/* Shorthand for this file: constants beside values. */
static tpj_value *plus(tpj_hlo *h, tpj_value *x, double c) { return tpj_nn_add_number(h, x, c); }
static tpj_value *times(tpj_hlo *h, tpj_value *x, double c) { return tpj_nn_mul_number(h, x, c); }
static tpj_value *number(tpj_hlo *h, tpj_value *x, double c) { return tpj_nn_number(h, x, c); }
static tpj_value *square(tpj_hlo *h, tpj_value *x) { return hlo_mul(h, x, x); }
static tpj_value *one_minus(tpj_hlo *h, tpj_value *x) { return hlo_sub(h, number(h, x, 1), x); }
static tpj_value *compare(tpj_hlo *h, const char *direction, tpj_value *x, double c) {
    return hlo_compare(h, direction, x, number(h, x, c));
}

/* A number among the arguments, in the dtype of the arithmetic. */
static tpj_value *given(tpj_emit *e, const tpj_nn *nn, const char *name, double when_none) {
    return tpj_scalar_or(e, name, nn->compute, when_none);
}

/* ---- relu and its clamped relatives: integers too ---- */

static void emit_relu(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin_any(e, "self", NULL, &nn)) return;
    if (tpj_dtype_is_complex(nn.dtype)) {
        tpj_fail(e, TPJ_NOT_IMPLEMENTED, "clamp is not supported for complex types");
        return;
    }
    tpj_out_as(e, hlo_max(nn.h, nn.x, number(nn.h, nn.x, 0)), nn.dtype);
}

static void emit_hardtanh(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin_any(e, "self", NULL, &nn)) return;
    if (tpj_dtype_is_unsigned(nn.dtype)) {
        tpj_require(e, "min_val", 0, INFINITY, "cannot do hardtanh on an unsigned type with negative limits: ");
        tpj_require(e, "max_val", 0, INFINITY, "cannot do hardtanh on an unsigned type with negative limits: ");
    }
    tpj_value *x = hlo_max(nn.h, nn.x, given(e, &nn, "min_val", -1));
    tpj_out_as(e, hlo_min(nn.h, x, given(e, &nn, "max_val", 1)), nn.dtype);
}

static void emit_hardtanh_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin_any(e, "self", "grad_output", &nn)) return;
    tpj_value *outside = hlo_or(nn.h, hlo_compare(nn.h, "LE", nn.x, given(e, &nn, "min_val", -1)),
                                hlo_compare(nn.h, "GE", nn.x, given(e, &nn, "max_val", 1)));
    tpj_out_as(e, hlo_select(nn.h, outside, number(nn.h, nn.grad, 0), nn.grad), nn.dtype);
}

static void emit_threshold(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin_any(e, "self", NULL, &nn)) return;
    tpj_value *low = hlo_compare(nn.h, "LE", nn.x, given(e, &nn, "threshold", 0));
    tpj_out_as(e, hlo_select(nn.h, low, given(e, &nn, "value", 0), nn.x), nn.dtype);
}

static void emit_threshold_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin_any(e, "self", "grad_output", &nn)) return;
    tpj_value *low = hlo_compare(nn.h, "LE", nn.x, given(e, &nn, "threshold", 0));
    tpj_out_as(e, hlo_select(nn.h, low, number(nn.h, nn.grad, 0), nn.grad), nn.dtype);
}

/* ---- gelu, silu, mish ---- */

static bool gelu_is_tanh(tpj_emit *e, bool *out_is_tanh) {
    const char *approximate = tpj_string(e, "approximate", "none");
    bool is_none = approximate[0] == 'n' && approximate[1] == 'o';
    *out_is_tanh = approximate[0] == 't' && approximate[1] == 'a';
    if (is_none || *out_is_tanh) return true;
    tpj_fail(e, TPJ_RUNTIME, "approximate argument must be either none or tanh.");
    return false;
}

/* tanh(sqrt(2/pi) * (x + 0.044715 x^3)) */
static tpj_value *gelu_tanh(tpj_hlo *h, tpj_value *x) {
    tpj_value *cubed = hlo_mul(h, square(h, x), x);
    return hlo_tanh(h, times(h, hlo_add(h, x, times(h, cubed, GELU_CUBIC)), SQRT_2_OVER_PI));
}

static tpj_value *normal_cdf(tpj_hlo *h, tpj_value *x) {
    return times(h, plus(h, hlo_unary(h, "chlo.erf", times(h, x, SQRT_HALF)), 1), 0.5);
}

static void emit_gelu(tpj_emit *e) {
    tpj_nn nn;
    bool is_tanh;
    if (!gelu_is_tanh(e, &is_tanh) || !tpj_nn_begin(e, "self", NULL, &nn)) return;
    tpj_value *weight = is_tanh ? times(nn.h, plus(nn.h, gelu_tanh(nn.h, nn.x), 1), 0.5) : normal_cdf(nn.h, nn.x);
    tpj_out_as(e, hlo_mul(nn.h, nn.x, weight), nn.dtype);
}

static void emit_gelu_backward(tpj_emit *e) {
    tpj_nn nn;
    bool is_tanh;
    if (!gelu_is_tanh(e, &is_tanh) || !tpj_nn_begin(e, "self", "grad_output", &nn)) return;
    tpj_hlo *h = nn.h;
    tpj_value *slope;
    if (is_tanh) {
        tpj_value *tanh = gelu_tanh(h, nn.x);
        tpj_value *inner = times(h, plus(h, times(h, square(h, nn.x), 3 * GELU_CUBIC), 1), SQRT_2_OVER_PI);
        tpj_value *outer = hlo_mul(h, times(h, nn.x, 0.5), one_minus(h, square(h, tanh)));
        slope = hlo_add(h, times(h, plus(h, tanh, 1), 0.5), hlo_mul(h, outer, inner));
    } else {
        tpj_value *density = times(h, hlo_exp(h, times(h, square(h, nn.x), -0.5)), SQRT_2_OVER_PI / 2);
        slope = hlo_add(h, normal_cdf(h, nn.x), hlo_mul(h, nn.x, density));
    }
    tpj_out_as(e, hlo_mul(h, nn.grad, slope), nn.dtype);
}

static void emit_silu(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_dtype_is_complex(tpj_in_type(e, "self").dtype) && !tpj_nn_require_float(e, "self")) return;
    if (!tpj_nn_begin_any(e, "self", NULL, &nn)) return;
    tpj_out_as(e, hlo_mul(nn.h, nn.x, tpj_nn_sigmoid(nn.h, nn.x)), nn.dtype);
}

static void emit_silu_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_dtype_is_complex(tpj_in_type(e, "self").dtype) && !tpj_nn_require_float(e, "self")) return;
    if (!tpj_nn_begin_any(e, "self", "grad_output", &nn)) return;
    tpj_value *sigmoid = tpj_nn_sigmoid(nn.h, nn.x);
    tpj_value *slope = hlo_mul(nn.h, sigmoid, plus(nn.h, hlo_mul(nn.h, nn.x, one_minus(nn.h, sigmoid)), 1));
    tpj_out_as(e, hlo_mul(nn.h, nn.grad, slope), nn.dtype);
}

static tpj_value *tanh_of_softplus(tpj_hlo *h, tpj_value *x) {
    return hlo_tanh(h, hlo_unary(h, "log_plus_one", hlo_exp(h, x)));
}

static void emit_mish(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", NULL, &nn)) return;
    tpj_out_as(e, hlo_mul(nn.h, nn.x, tanh_of_softplus(nn.h, nn.x)), nn.dtype);
}

static void emit_mish_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", "grad_output", &nn)) return;
    tpj_value *tanh = tanh_of_softplus(nn.h, nn.x);
    tpj_value *rest =
        hlo_mul(nn.h, hlo_mul(nn.h, nn.x, tpj_nn_sigmoid(nn.h, nn.x)), one_minus(nn.h, square(nn.h, tanh)));
    tpj_out_as(e, hlo_mul(nn.h, nn.grad, hlo_add(nn.h, tanh, rest)), nn.dtype);
}

/* ---- elu, celu, leaky_relu ---- */

/* The numbers are scalars of x's dtype. */
static tpj_value *elu(tpj_hlo *h, tpj_value *x, tpj_value *alpha, tpj_value *scale, tpj_value *input_scale) {
    tpj_value *below = hlo_unary(h, "exponential_minus_one", hlo_mul(h, x, input_scale));
    below = hlo_mul(h, below, hlo_mul(h, alpha, scale));
    return hlo_select(h, compare(h, "LT", x, 0), below, hlo_mul(h, x, scale));
}

static void emit_elu(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", NULL, &nn)) return;
    tpj_value *alpha = given(e, &nn, "alpha", 1), *scale = given(e, &nn, "scale", 1);
    tpj_out_as(e, elu(nn.h, nn.x, alpha, scale, given(e, &nn, "input_scale", 1)), nn.dtype);
}

static void emit_celu(tpj_emit *e) {
    tpj_nn nn;
    if (tpj_is_constant(e, "alpha") && tpj_float(e, "alpha", 1) == 0) { /* zero is always baked */
        tpj_fail(e, TPJ_RUNTIME, "ZeroDivisionError: alpha cannot be 0 for CELU");
        return;
    }
    if (!tpj_nn_begin(e, "self", NULL, &nn)) return;
    tpj_value *alpha = given(e, &nn, "alpha", 1), *one = number(nn.h, nn.x, 1);
    tpj_out_as(e, elu(nn.h, nn.x, alpha, one, hlo_div(nn.h, one, alpha)), nn.dtype);
}

static void emit_elu_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self_or_result", "grad_output", &nn)) return;
    tpj_hlo *h = nn.h;
    tpj_value *alpha = given(e, &nn, "alpha", 1), *scale = given(e, &nn, "scale", 1);
    tpj_value *input_scale = given(e, &nn, "input_scale", 1), *height = hlo_mul(h, alpha, scale), *below;
    if (tpj_bool(e, "is_result", false)) {
        tpj_require(e, "alpha", 0, INFINITY,
                    "In-place elu backward calculation is triggered with a negative slope which is not supported: ");
        below = hlo_mul(h, hlo_add(h, nn.x, height), input_scale);
    } else {
        below = hlo_mul(h, hlo_exp(h, hlo_mul(h, nn.x, input_scale)), hlo_mul(h, height, input_scale));
    }
    tpj_value *slope = hlo_select(h, compare(h, "LE", nn.x, 0), below, scale);
    tpj_out_as(e, hlo_mul(h, nn.grad, slope), nn.dtype);
}

static void emit_leaky_relu(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", NULL, &nn)) return;
    tpj_value *below = hlo_mul(nn.h, nn.x, given(e, &nn, "negative_slope", 0.01));
    tpj_out_as(e, hlo_select(nn.h, compare(nn.h, "GT", nn.x, 0), nn.x, below), nn.dtype);
}

static void emit_leaky_relu_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", "grad_output", &nn)) return;
    if (tpj_bool(e, "self_is_result", false))
        tpj_require(
            e, "negative_slope", 0, INFINITY,
            "In-place leakyReLu backward calculation is triggered with a negative slope which is not supported: ");
    tpj_value *below = hlo_mul(nn.h, nn.grad, given(e, &nn, "negative_slope", 0.01));
    tpj_out_as(e, hlo_select(nn.h, compare(nn.h, "GT", nn.x, 0), nn.grad, below), nn.dtype);
}

/* ---- piecewise linear ones ---- */

/* clamp(x + 3, 0, 6) / 6 */
static tpj_value *hard_sigmoid(tpj_hlo *h, tpj_value *x) {
    tpj_value *clamped = hlo_min(h, hlo_max(h, plus(h, x, 3), number(h, x, 0)), number(h, x, 6));
    return hlo_div(h, clamped, number(h, x, 6));
}

static void emit_hardsigmoid(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", NULL, &nn)) return;
    tpj_out_as(e, hard_sigmoid(nn.h, nn.x), nn.dtype);
}

static void emit_hardsigmoid_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", "grad_output", &nn)) return;
    tpj_value *inside = hlo_and(nn.h, compare(nn.h, "GT", nn.x, -3), compare(nn.h, "LT", nn.x, 3));
    tpj_out_as(e, tpj_nn_where(nn.h, inside, times(nn.h, nn.grad, 1.0 / 6)), nn.dtype);
}

static void emit_hardswish(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", NULL, &nn)) return;
    tpj_out_as(e, hlo_mul(nn.h, nn.x, hard_sigmoid(nn.h, nn.x)), nn.dtype);
}

static void emit_hardswish_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", "grad_output", &nn)) return;
    tpj_value *middle = hlo_mul(nn.h, nn.grad, plus(nn.h, times(nn.h, nn.x, 1.0 / 3), 0.5));
    tpj_value *inner = hlo_select(nn.h, compare(nn.h, "LT", nn.x, 3), middle, nn.grad);
    tpj_value *x = hlo_select(nn.h, compare(nn.h, "LE", nn.x, -3), number(nn.h, nn.grad, 0), inner);
    tpj_out_as(e, x, nn.dtype);
}

/* -lambda <= x <= lambda */
static tpj_value *is_within(tpj_hlo *h, tpj_value *x, tpj_value *lambda) {
    return hlo_and(h, hlo_compare(h, "GE", x, hlo_neg(h, lambda)), hlo_compare(h, "LE", x, lambda));
}

static void emit_hardshrink(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", NULL, &nn)) return;
    tpj_value *inside = is_within(nn.h, nn.x, given(e, &nn, "lambd", 0.5));
    tpj_out_as(e, hlo_select(nn.h, inside, number(nn.h, nn.x, 0), nn.x), nn.dtype);
}

static void emit_softshrink(tpj_emit *e) {
    tpj_nn nn;
    tpj_require(e, "lambd", 0, INFINITY, "lambda must be greater or equal to 0, but found to be ");
    if (!tpj_nn_begin(e, "self", NULL, &nn)) return;
    tpj_hlo *h = nn.h;
    tpj_value *lambda = given(e, &nn, "lambd", 0.5), *below = hlo_compare(h, "LT", nn.x, hlo_neg(h, lambda));
    /* x * 0 in the middle, so that NaN stays NaN. */
    tpj_value *rest = hlo_select(h, below, hlo_add(h, nn.x, lambda), times(h, nn.x, 0));
    tpj_value *above = hlo_compare(h, "GT", nn.x, lambda);
    tpj_out_as(e, hlo_select(h, above, hlo_sub(h, nn.x, lambda), rest), nn.dtype);
}

static void emit_shrink_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", tpj_row(e)->hlo, &nn)) return;
    tpj_value *inside = is_within(nn.h, nn.x, given(e, &nn, "lambd", 0.5));
    tpj_out_as(e, hlo_select(nn.h, inside, number(nn.h, nn.grad, 0), nn.grad), nn.dtype);
}

/* ---- softplus, log_sigmoid ---- */

static void emit_softplus(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", NULL, &nn)) return;
    tpj_value *beta = given(e, &nn, "beta", 1), *scaled = hlo_mul(nn.h, nn.x, beta);
    tpj_value *soft = hlo_div(nn.h, hlo_unary(nn.h, "log_plus_one", hlo_exp(nn.h, scaled)), beta);
    tpj_value *large = hlo_compare(nn.h, "GT", scaled, given(e, &nn, "threshold", 20));
    tpj_out_as(e, hlo_select(nn.h, large, nn.x, soft), nn.dtype);
}

static void emit_softplus_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", "grad_output", &nn)) return;
    tpj_value *scaled = hlo_mul(nn.h, nn.x, given(e, &nn, "beta", 1));
    tpj_value *soft = hlo_mul(nn.h, nn.grad, tpj_nn_sigmoid(nn.h, scaled));
    tpj_value *large = hlo_compare(nn.h, "GT", scaled, given(e, &nn, "threshold", 20));
    tpj_out_as(e, hlo_select(nn.h, large, nn.grad, soft), nn.dtype);
}

/* min(x, 0) - log1p(exp(-|x|)). The buffer would hold exp(-|x|) for the gradient, which computes it again instead. */
static void emit_log_sigmoid(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", NULL, &nn)) return;
    tpj_value *power = hlo_exp(nn.h, hlo_neg(nn.h, hlo_abs(nn.h, nn.x)));
    tpj_value *low = hlo_min(nn.h, nn.x, number(nn.h, nn.x, 0));
    const int64_t empty[] = {0};
    tpj_out_as(e, hlo_sub(nn.h, low, hlo_unary(nn.h, "log_plus_one", power)), nn.dtype);
    tpj_out(e, hlo_zeros(nn.h, nn.dtype, 1, empty));
}

/* grad * sigmoid(-x) */
static void emit_log_sigmoid_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", "grad_output", &nn)) return;
    tpj_out_as(e, hlo_mul(nn.h, nn.grad, tpj_nn_sigmoid(nn.h, hlo_neg(nn.h, nn.x))), nn.dtype);
}

/* ---- gradients by the result ---- */

static void emit_tanh_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin_any(e, "output", "grad_output", &nn)) return;
    tpj_out_as(e, hlo_mul(nn.h, nn.grad, hlo_conj(nn.h, one_minus(nn.h, square(nn.h, nn.x)))), nn.dtype);
}

static void emit_sigmoid_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin_any(e, "output", "grad_output", &nn)) return;
    tpj_out_as(e, hlo_mul(nn.h, nn.grad, hlo_conj(nn.h, hlo_mul(nn.h, one_minus(nn.h, nn.x), nn.x))), nn.dtype);
}

static void emit_logit_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", "grad_output", &nn)) return;
    tpj_hlo *h = nn.h;
    tpj_value *eps = given(e, &nn, "eps", -1), *zero = number(h, nn.x, 0);
    tpj_value *none = hlo_compare(h, "LT", eps, zero), *low = hlo_select(h, none, zero, eps);
    tpj_value *inner = hlo_div(h, nn.grad, hlo_mul(h, nn.x, one_minus(h, nn.x)));
    tpj_value *outside = hlo_compare(h, "LT", nn.x, low);
    outside = hlo_or(h, outside, hlo_compare(h, "GT", nn.x, one_minus(h, low)));
    tpj_out_as(e, hlo_select(h, outside, hlo_select(h, none, number(h, nn.x, NAN), zero), inner), nn.dtype);
}

/* ---- prelu ---- */

static void emit_prelu(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", "weight", &nn)) return;
    tpj_value *below = hlo_mul(nn.h, nn.x, nn.grad);
    tpj_out_as(e, hlo_select(nn.h, compare(nn.h, "GT", nn.x, 0), nn.x, below), nn.dtype);
}

static void emit_prelu_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", "grad_output", &nn)) return;
    tpj_value *weight = hlo_expand(nn.h, tpj_in_as(e, "weight", nn.compute), nn.x->type.rank, nn.x->type.dims);
    tpj_value *above = compare(nn.h, "GT", nn.x, 0);
    tpj_out_as(e, hlo_select(nn.h, above, nn.grad, hlo_mul(nn.h, weight, nn.grad)), nn.dtype);
    tpj_out_as(e, hlo_select(nn.h, above, number(nn.h, nn.grad, 0), hlo_mul(nn.h, nn.x, nn.grad)), nn.dtype);
}

/* ---- glu: the first half times the sigmoid of the second ---- */

static tpj_value *half(tpj_hlo *h, tpj_value *x, int dim, int which) {
    int64_t n = hlo_dim(x, dim) / 2;
    return hlo_slice_dim(h, x, dim, which * n, (which + 1) * n, 1);
}

/* The wrapped dimension, -1 when the op was failed. */
static int glu_dim(tpj_emit *e, tpj_type type) {
    if (type.rank == 0) {
        tpj_fail(e, TPJ_RUNTIME, "glu does not support 0-dimensional tensors");
        return -1;
    }
    int dim = tpj_dim(e, "dim", type.rank);
    if (type.dims[dim] % 2 == 0) return dim;
    tpj_fail(e, TPJ_RUNTIME, "Halving dimension must be even, but dimension %d is size %lld", dim,
             (long long)type.dims[dim]);
    return -1;
}

static void emit_glu(tpj_emit *e) {
    tpj_nn nn;
    int dim = glu_dim(e, tpj_in_type(e, "self"));
    if (dim < 0 || !tpj_nn_begin(e, "self", NULL, &nn)) return;
    tpj_out_as(e, hlo_mul(nn.h, half(nn.h, nn.x, dim, 0), tpj_nn_sigmoid(nn.h, half(nn.h, nn.x, dim, 1))), nn.dtype);
}

static void emit_glu_backward(tpj_emit *e) {
    tpj_nn nn;
    int dim = glu_dim(e, tpj_in_type(e, "self"));
    if (dim < 0 || !tpj_nn_begin(e, "self", NULL, &nn)) return;
    tpj_value *grad = tpj_in_as(e, "grad_output", nn.compute);
    tpj_value *gate = tpj_nn_sigmoid(nn.h, half(nn.h, nn.x, dim, 1));
    tpj_value *first = hlo_mul(nn.h, grad, gate);
    tpj_value *second = hlo_mul(nn.h, hlo_mul(nn.h, first, one_minus(nn.h, gate)), half(nn.h, nn.x, dim, 0));
    tpj_value *parts[] = {first, second};
    tpj_out_as(e, hlo_concatenate(nn.h, parts, 2, dim), nn.dtype);
}

static void emit_glu_jvp(tpj_emit *e) {
    tpj_nn nn;
    int dim = glu_dim(e, tpj_in_type(e, "x"));
    if (dim < 0 || !tpj_nn_begin(e, "x", "dx", &nn)) return;
    tpj_value *gate = tpj_nn_sigmoid(nn.h, half(nn.h, nn.x, dim, 1));
    tpj_value *dgate = hlo_mul(nn.h, one_minus(nn.h, gate), half(nn.h, nn.grad, dim, 1));
    tpj_value *glu = tpj_in_as(e, "glu", nn.compute);
    tpj_out_as(e, hlo_add(nn.h, hlo_mul(nn.h, half(nn.h, nn.grad, dim, 0), gate), hlo_mul(nn.h, glu, dgate)), nn.dtype);
}

/* The derivative of glu_backward's two halves, g*s(b) and g*s(b)*(1 - s(b))*a, along (dg, da, db). */
static void emit_glu_backward_jvp(tpj_emit *e) {
    tpj_nn nn;
    int dim = glu_dim(e, tpj_in_type(e, "x"));
    if (dim < 0 || !tpj_nn_begin(e, "x", "dx", &nn)) return;
    tpj_hlo *h = nn.h;
    tpj_value *a = half(h, nn.x, dim, 0), *gate = tpj_nn_sigmoid(h, half(h, nn.x, dim, 1));
    tpj_value *da = half(h, nn.grad, dim, 0), *db = half(h, nn.grad, dim, 1);
    tpj_value *grad = tpj_in_as(e, "grad_glu", nn.compute), *dgrad = tpj_in_as(e, "dgrad_glu", nn.compute);
    tpj_value *rest = one_minus(h, gate), *dgate = hlo_mul(h, hlo_mul(h, gate, rest), db);
    tpj_value *first = hlo_add(h, hlo_mul(h, dgrad, gate), hlo_mul(h, grad, dgate));
    tpj_value *inner = hlo_mul(h, grad, gate), *slope = hlo_mul(h, rest, a);
    tpj_value *dslope = hlo_sub(h, hlo_mul(h, rest, da), hlo_mul(h, dgate, a));
    tpj_value *second = hlo_add(h, hlo_mul(h, first, slope), hlo_mul(h, inner, dslope));
    tpj_value *parts[] = {first, second};
    tpj_out_as(e, hlo_concatenate(h, parts, 2, dim), nn.dtype);
}

/* ---- rrelu: its forward row draws, and stands in random.c ---- */

static void emit_rrelu_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", "grad_output", &nn)) return;
    tpj_hlo *h = nn.h;
    tpj_value *lower = given(e, &nn, "lower", 1.0 / 8), *upper = given(e, &nn, "upper", 1.0 / 3);
    tpj_value *below = hlo_mul(h, nn.grad, times(h, hlo_add(h, lower, upper), 0.5));
    tpj_value *grad = hlo_select(h, compare(h, "GT", nn.x, 0), nn.grad, below);
    if (tpj_bool(e, "training", false)) { /* with one slope, nothing was drawn */
        tpj_value *drawn = compare(h, "GT", hlo_sub(h, upper, lower), 1e-6);
        grad = hlo_select(h, drawn, hlo_mul(h, nn.grad, tpj_in_as(e, "noise", nn.compute)), grad);
    }
    tpj_out_as(e, grad, nn.dtype);
}

#define ROW(op, parameters, emitter) {.name = op, .params = parameters, .emit = emitter, .layout = TPJ_LAYOUT_POINTWISE}

const tpj_op_def tpj_ops_activation[] = {
    ROW("relu", "T self", emit_relu),
    ROW("hardtanh", "T self, S~ min_val=-1, S~ max_val=1", emit_hardtanh),
    ROW("hardtanh_backward", "T grad_output, T self, S~ min_val, S~ max_val", emit_hardtanh_backward),
    ROW("threshold", "T self, S~ threshold, S~ value", emit_threshold),
    ROW("threshold_backward", "T grad_output, T self, S~ threshold", emit_threshold_backward),
    ROW("gelu", "T self, Str approximate=\"none\"", emit_gelu),
    ROW("gelu_backward", "T grad_output, T self, Str approximate=\"none\"", emit_gelu_backward),
    ROW("silu", "T self", emit_silu),
    ROW("silu_backward", "T grad_output, T self", emit_silu_backward),
    ROW("mish", "T self", emit_mish),
    ROW("mish_backward", "T grad_output, T self", emit_mish_backward),
    ROW("elu", "T self, S~ alpha=1, S~ scale=1, S~ input_scale=1", emit_elu),
    ROW("elu_backward", "T grad_output, S~ alpha, S~ scale, S~ input_scale, B is_result, T self_or_result",
        emit_elu_backward),
    ROW("celu", "T self, S^ alpha=1.0", emit_celu),
    ROW("leaky_relu", "T self, S~ negative_slope=0.01", emit_leaky_relu),
    ROW("leaky_relu_backward", "T grad_output, T self, S~ negative_slope, B self_is_result", emit_leaky_relu_backward),
    ROW("hardsigmoid", "T self", emit_hardsigmoid),
    ROW("hardsigmoid_backward", "T grad_output, T self", emit_hardsigmoid_backward),
    ROW("hardswish", "T self", emit_hardswish),
    ROW("hardswish_backward", "T grad_output, T self", emit_hardswish_backward),
    ROW("hardshrink", "T self, S~ lambd=0.5", emit_hardshrink),
    {.name = "hardshrink_backward",
     .params = "T grad_out, T self, S~ lambd",
     .emit = emit_shrink_backward,
     .layout = TPJ_LAYOUT_POINTWISE,
     .hlo = "grad_out"},
    ROW("softshrink", "T self, S~ lambd=0.5", emit_softshrink),
    {.name = "softshrink_backward",
     .params = "T grad_output, T self, S~ lambd",
     .emit = emit_shrink_backward,
     .layout = TPJ_LAYOUT_POINTWISE,
     .hlo = "grad_output"},
    ROW("softplus", "T self, S~ beta=1, S~ threshold=20", emit_softplus),
    ROW("softplus_backward", "T grad_output, T self, S~ beta, S~ threshold", emit_softplus_backward),
    ROW("log_sigmoid_forward", "T self", emit_log_sigmoid),
    ROW("log_sigmoid_backward", "T grad_output, T self, T buffer", emit_log_sigmoid_backward),
    ROW("tanh_backward", "T grad_output, T output", emit_tanh_backward),
    ROW("sigmoid_backward", "T grad_output, T output", emit_sigmoid_backward),
    ROW("logit_backward", "T grad_output, T self, F~? eps", emit_logit_backward),
    ROW("_prelu_kernel", "T self, T weight", emit_prelu),
    ROW("_prelu_kernel_backward", "T grad_output, T self, T weight", emit_prelu_backward),
    {.name = "glu", .params = "T self, I dim=-1", .emit = emit_glu, .layout = TPJ_LAYOUT_SELF},
    {.name = "glu_backward", .params = "T grad_output, T self, I dim", .emit = emit_glu_backward},
    {.name = "glu_jvp", .params = "T glu, T x, T dx, I dim", .emit = emit_glu_jvp},
    {.name = "glu_backward_jvp",
     .params = "T grad_x, T grad_glu, T x, T dgrad_glu, T dx, I dim",
     .emit = emit_glu_backward_jvp},
    ROW("rrelu_with_noise_backward", "T grad_output, T self, T noise, S~ lower, S~ upper, B training, B self_is_result",
        emit_rrelu_backward),
    {0}};
