/* Softmax and its relatives. Halves are computed in F32 and rounded once. */
#include "ops/nn.h"

enum { SOFTMAX, LOG_SOFTMAX, SAFE_SOFTMAX };

/* A softmax over dimension `dim`; the row's maximum is taken off first, so that exp cannot overflow. */
static tpj_value *softmax(tpj_hlo *h, tpj_value *x, int dim, int variant) {
    const int64_t dims[] = {dim};
    tpj_value *maximum = tpj_nn_reduce_spread(h, "maximum", x, dims, 1);
    if (variant == SAFE_SOFTMAX) /* a row of -inf alone becomes zeros */
        maximum =
            hlo_select(h, hlo_compare(h, "EQ", maximum, hlo_lowest(h, x->type.dtype)), tpj_nn_number(h, x, 0), maximum);
    tpj_value *shifted = hlo_sub(h, x, maximum);
    tpj_value *powers = hlo_exp(h, shifted);
    tpj_value *sum = hlo_reduce(h, "add", powers, NULL, dims, 1);
    if (variant == LOG_SOFTMAX) return hlo_sub(h, shifted, tpj_nn_spread(h, hlo_log(h, sum), x, dims, 1));
    if (variant == SAFE_SOFTMAX)
        sum = hlo_select(h, hlo_compare(h, "EQ", sum, tpj_nn_number(h, x, 0)), tpj_nn_number(h, x, 1), sum);
    return hlo_div(h, powers, tpj_nn_spread(h, sum, x, dims, 1));
}

/* A 0-dim tensor counts as one element in a row. */
static tpj_value *at_least_1d(tpj_hlo *h, tpj_value *x) { return x->type.rank == 0 ? hlo_unsqueeze(h, x, 0) : x; }

static void emit_softmax(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, "self");
    int dim = tpj_dim(e, "dim", type.rank);
    tpj_dtype result = type.dtype;
    if (tpj_row(e)->variant == SAFE_SOFTMAX) {
        result = tpj_float_dtype(e, tpj_dtype_of(e, "dtype", type.dtype));
    } else {
        if (!tpj_nn_require_float(e, "self")) return;
        if (tpj_bool(e, "half_to_float", false)) result = TPJ_F32;
    }
    tpj_dtype compute = tpj_compute_dtype(result);
    tpj_value *x = at_least_1d(h, tpj_in_as(e, "self", compute));
    if (hlo_failed(h)) return;
    tpj_out_as(e, hlo_reshape(h, softmax(h, x, dim, tpj_row(e)->variant), type.rank, type.dims), result);
}

static void emit_softmax_backward(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, "grad_output");
    int dim = tpj_dim(e, "dim", type.rank);
    if (!tpj_nn_require_float(e, "grad_output")) return;
    tpj_dtype result = tpj_dtype_of(e, "input_dtype", type.dtype), compute = tpj_compute_dtype(type.dtype);
    tpj_value *grad = at_least_1d(h, tpj_in_as(e, "grad_output", compute));
    tpj_value *output = at_least_1d(h, tpj_in_as(e, "output", compute));
    if (hlo_failed(h)) return;
    const int64_t dims[] = {dim};
    tpj_value *x;
    if (tpj_row(e)->variant == LOG_SOFTMAX) {
        tpj_value *sum = tpj_nn_reduce_spread(h, "add", grad, dims, 1);
        x = hlo_sub(h, grad, hlo_mul(h, hlo_exp(h, output), sum));
    } else {
        tpj_value *sum = tpj_nn_reduce_spread(h, "add", hlo_mul(h, grad, output), dims, 1);
        x = hlo_mul(h, output, hlo_sub(h, grad, sum));
    }
    tpj_out_as(e, hlo_reshape(h, x, type.rank, type.dims), result);
}

enum { MASK_SOURCE = 0, MASK_KEY_PADDING = 1 };

/* The mask in the input's shape: a key padding mask is [batch, length], others broadcast from the right. */
static tpj_value *mask_like(tpj_emit *e, tpj_value *x, int64_t mask_type) {
    tpj_hlo *h = tpj_builder(e);
    if (tpj_in_type(e, "mask").dtype != TPJ_BOOL) {
        tpj_fail(e, TPJ_RUNTIME, "Mask should be a boolean tensor");
        return NULL;
    }
    tpj_value *mask = tpj_in(e, "mask");
    if (mask_type == MASK_KEY_PADDING && mask->type.rank == 2 && x->type.rank == 4) {
        const int64_t mapping[] = {0, 3};
        return hlo_broadcast_in_dim(h, mask, x->type.rank, x->type.dims, mapping);
    }
    return hlo_expand(h, mask, x->type.rank, x->type.dims);
}

/* True marks what is left out: its result is zero. A row where all is left out is NaN, 0 / 0. */
static void emit_masked_softmax(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "self", NULL, &nn)) return;
    tpj_value *x = at_least_1d(nn.h, nn.x);
    tpj_value *mask = mask_like(e, x, tpj_int(e, "mask_type", MASK_SOURCE));
    if (mask == NULL || hlo_failed(nn.h)) return;
    int dim = tpj_has(e, "dim") ? tpj_dim(e, "dim", nn.x->type.rank) : x->type.rank - 1;
    const int64_t dims[] = {dim};
    tpj_value *lowest = hlo_lowest(nn.h, nn.compute), *zero = tpj_nn_number(nn.h, x, 0);
    tpj_value *maximum = tpj_nn_reduce_spread(nn.h, "maximum", hlo_select(nn.h, mask, lowest, x), dims, 1);
    tpj_value *powers = hlo_select(nn.h, mask, zero, hlo_exp(nn.h, hlo_sub(nn.h, x, maximum)));
    tpj_value *sum = tpj_nn_reduce_spread(nn.h, "add", powers, dims, 1);
    tpj_out_as(e, hlo_reshape(nn.h, hlo_div(nn.h, powers, sum), nn.x->type.rank, nn.x->type.dims), nn.dtype);
}

static void emit_masked_softmax_backward(tpj_emit *e) {
    tpj_nn nn;
    if (!tpj_nn_begin(e, "output", "grad_output", &nn)) return;
    tpj_value *output = at_least_1d(nn.h, nn.x), *grad = at_least_1d(nn.h, nn.grad);
    tpj_value *mask = mask_like(e, output, MASK_SOURCE);
    if (mask == NULL || hlo_failed(nn.h)) return;
    int dim = tpj_has(e, "dim") ? tpj_dim(e, "dim", nn.x->type.rank) : output->type.rank - 1;
    const int64_t dims[] = {dim};
    tpj_value *zero = tpj_nn_number(nn.h, grad, 0);
    tpj_value *product = hlo_select(nn.h, mask, zero, hlo_mul(nn.h, grad, output));
    tpj_value *sum = tpj_nn_reduce_spread(nn.h, "add", product, dims, 1);
    tpj_value *x = hlo_select(nn.h, mask, zero, hlo_sub(nn.h, product, hlo_mul(nn.h, output, sum)));
    tpj_out_as(e, hlo_reshape(nn.h, x, nn.x->type.rank, nn.x->type.dims), nn.dtype);
}

const tpj_op_def tpj_ops_softmax[] = {
    {.name = "_softmax", .params = "T self, I dim, B half_to_float", .emit = emit_softmax, .variant = SOFTMAX},
    {.name = "_log_softmax", .params = "T self, I dim, B half_to_float", .emit = emit_softmax, .variant = LOG_SOFTMAX},
    {.name = "_safe_softmax", .params = "T self, I dim, D? dtype", .emit = emit_softmax, .variant = SAFE_SOFTMAX},
    {.name = "_softmax_backward_data",
     .params = "T grad_output, T output, I dim, D input_dtype",
     .emit = emit_softmax_backward,
     .variant = SOFTMAX},
    {.name = "_log_softmax_backward_data",
     .params = "T grad_output, T output, I dim, D input_dtype",
     .emit = emit_softmax_backward,
     .variant = LOG_SOFTMAX},
    {.name = "_masked_softmax", .params = "T self, T mask, I? dim, I? mask_type", .emit = emit_masked_softmax},
    {.name = "_masked_softmax_backward",
     .params = "T grad_output, T output, T mask, I? dim",
     .emit = emit_masked_softmax_backward},
    {0}};
