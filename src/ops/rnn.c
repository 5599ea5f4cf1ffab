/* One step of an LSTM or a GRU after its matrix products. What the forward pass keeps for the backward pass (the
 * "workspace") is the activated gates side by side, and for a GRU the old state and the hidden part of the new gate. */
#include "ops/nn.h"

typedef struct cell {
    tpj_hlo *h;
    tpj_dtype dtype, compute;
    int axis;       /* of the gates: the last dimension */
    int64_t hidden; /* size of the state */
} cell;

static tpj_value *one_minus(tpj_hlo *h, tpj_value *x) { return hlo_sub(h, tpj_nn_number(h, x, 1), x); }
/* Derivatives by the result. */
static tpj_value *sigmoid_slope(tpj_hlo *h, tpj_value *y) { return hlo_mul(h, one_minus(h, y), y); }
static tpj_value *tanh_slope(tpj_hlo *h, tpj_value *y) { return one_minus(h, hlo_mul(h, y, y)); }

/* Part i of values that lie side by side. */
static tpj_value *part(const cell *c, tpj_value *x, int i) {
    return hlo_slice_dim(c->h, x, x->type.rank - 1, i * c->hidden, (i + 1) * c->hidden, 1);
}

/* `n_parts` gates lie in the argument `gates`. */
static bool begin(tpj_emit *e, const char *gates, int n_parts, cell *c) {
    tpj_type type = tpj_in_type(e, gates);
    *c = (cell){
        .h = tpj_builder(e), .dtype = type.dtype, .compute = tpj_compute_dtype(type.dtype), .axis = type.rank - 1};
    if (!tpj_nn_require_float(e, gates)) return false;
    if (type.rank < 1 || type.dims[c->axis] % n_parts != 0) {
        tpj_fail(e, TPJ_RUNTIME, "the last size of '%s' must be a multiple of %d", gates, n_parts);
        return false;
    }
    c->hidden = type.dims[c->axis] / n_parts;
    return true;
}

/* Gates with their bias, which is optional. */
static tpj_value *with_bias(tpj_emit *e, const cell *c, const char *gates, const char *bias) {
    tpj_value *x = tpj_in_as(e, gates, c->compute);
    if (!tpj_has(e, bias)) return x;
    return hlo_add(c->h, x, hlo_expand(c->h, tpj_in_as(e, bias, c->compute), x->type.rank, x->type.dims));
}

static void out_bias_gradient(tpj_emit *e, const cell *c, tpj_value *gates) {
    if (!tpj_bool(e, "has_bias", false)) {
        tpj_out_none(e);
        return;
    }
    tpj_out_as(e, hlo_reduce(c->h, "add", gates, NULL, tpj_nn_dims_from(c->h, c->axis, 0), c->axis), c->dtype);
}

/* cy = f cx + i g, hy = o tanh(cy) */
static void emit_lstm(tpj_emit *e) {
    cell c;
    if (!begin(e, "input_gates", 4, &c)) return;
    tpj_hlo *h = c.h;
    tpj_value *gates =
        hlo_add(h, with_bias(e, &c, "input_gates", "input_bias"), with_bias(e, &c, "hidden_gates", "hidden_bias"));
    tpj_value *cx = tpj_in_as(e, "cx", c.compute);
    tpj_value *in = tpj_nn_sigmoid(h, part(&c, gates, 0)), *forget = tpj_nn_sigmoid(h, part(&c, gates, 1));
    tpj_value *new = hlo_tanh(h, part(&c, gates, 2)), *out = tpj_nn_sigmoid(h, part(&c, gates, 3));
    tpj_value *cy = hlo_add(h, hlo_mul(h, forget, cx), hlo_mul(h, in, new));
    tpj_value *kept[] = {in, forget, new, out};
    tpj_out_as(e, hlo_mul(h, out, hlo_tanh(h, cy)), c.dtype);
    tpj_out_as(e, cy, c.dtype);
    tpj_out_as(e, hlo_concatenate(h, kept, 4, c.axis), c.dtype);
}

static void emit_lstm_backward(tpj_emit *e) {
    cell c;
    if (!tpj_has(e, "grad_hy") && !tpj_has(e, "grad_cy")) {
        for (int i = 0; i < 3; i++) tpj_out_none(e);
        return;
    }
    if (!begin(e, "workspace", 4, &c)) return;
    tpj_hlo *h = c.h;
    tpj_value *kept = tpj_in_as(e, "workspace", c.compute), *cx = tpj_in_as(e, "cx", c.compute);
    tpj_value *in = part(&c, kept, 0), *forget = part(&c, kept, 1), *new = part(&c, kept, 2), *out = part(&c, kept, 3);
    tpj_value *tanh = hlo_tanh(h, tpj_in_as(e, "cy", c.compute)), *state = NULL, *grad_out = hlo_full_like(h, tanh, 0);
    if (tpj_has(e, "grad_cy")) state = tpj_in_as(e, "grad_cy", c.compute);
    if (tpj_has(e, "grad_hy")) {
        tpj_value *grad = tpj_in_as(e, "grad_hy", c.compute);
        tpj_value *through = hlo_mul(h, hlo_mul(h, grad, out), tanh_slope(h, tanh));
        state = state == NULL ? through : hlo_add(h, state, through);
        grad_out = hlo_mul(h, hlo_mul(h, grad, tanh), sigmoid_slope(h, out));
    }
    tpj_value *gates[] = {hlo_mul(h, hlo_mul(h, state, new), sigmoid_slope(h, in)),
                          hlo_mul(h, hlo_mul(h, state, cx), sigmoid_slope(h, forget)),
                          hlo_mul(h, hlo_mul(h, state, in), tanh_slope(h, new)), grad_out};
    tpj_value *all = hlo_concatenate(h, gates, 4, c.axis);
    tpj_out_as(e, all, c.dtype);
    tpj_out_as(e, hlo_mul(h, state, forget), c.dtype);
    out_bias_gradient(e, &c, all);
}

/* n = tanh(in + r hn), hy = n + z (hx - n) */
static void emit_gru(tpj_emit *e) {
    cell c;
    if (!begin(e, "input_gates", 3, &c)) return;
    tpj_hlo *h = c.h;
    tpj_value *x = with_bias(e, &c, "input_gates", "input_bias"), *y = with_bias(e, &c, "hidden_gates", "hidden_bias");
    tpj_value *hx = tpj_in_as(e, "hx", c.compute);
    tpj_value *reset = tpj_nn_sigmoid(h, hlo_add(h, part(&c, x, 0), part(&c, y, 0)));
    tpj_value *update = tpj_nn_sigmoid(h, hlo_add(h, part(&c, x, 1), part(&c, y, 1)));
    tpj_value *hidden = part(&c, y, 2);
    tpj_value *new = hlo_tanh(h, hlo_add(h, part(&c, x, 2), hlo_mul(h, reset, hidden)));
    tpj_value *kept[] = {reset, update, new, hx, hidden};
    tpj_out_as(e, hlo_add(h, new, hlo_mul(h, update, hlo_sub(h, hx, new))), c.dtype);
    tpj_out_as(e, hlo_concatenate(h, kept, 5, c.axis), c.dtype);
}

static void emit_gru_backward(tpj_emit *e) {
    cell c;
    if (!begin(e, "workspace", 5, &c)) return;
    tpj_hlo *h = c.h;
    tpj_value *kept = tpj_in_as(e, "workspace", c.compute), *grad = tpj_in_as(e, "grad_hy", c.compute);
    tpj_value *reset = part(&c, kept, 0), *update = part(&c, kept, 1), *new = part(&c, kept, 2);
    tpj_value *hx = part(&c, kept, 3), *hidden = part(&c, kept, 4);
    tpj_value *grad_update = hlo_mul(h, hlo_mul(h, grad, hlo_sub(h, hx, new)), sigmoid_slope(h, update));
    tpj_value *grad_new = hlo_mul(h, hlo_mul(h, grad, one_minus(h, update)), tanh_slope(h, new));
    tpj_value *grad_reset = hlo_mul(h, hlo_mul(h, grad_new, hidden), sigmoid_slope(h, reset));
    tpj_value *of_input[] = {grad_reset, grad_update, grad_new};
    tpj_value *of_hidden[] = {grad_reset, grad_update, hlo_mul(h, grad_new, reset)};
    tpj_value *input_gates = hlo_concatenate(h, of_input, 3, c.axis),
              *hidden_gates = hlo_concatenate(h, of_hidden, 3, c.axis);
    tpj_out_as(e, input_gates, c.dtype);
    tpj_out_as(e, hidden_gates, c.dtype);
    tpj_out_as(e, hlo_mul(h, grad, update), c.dtype);
    out_bias_gradient(e, &c, input_gates);
    out_bias_gradient(e, &c, hidden_gates);
}

const tpj_op_def tpj_ops_rnn[] = {{.name = "_thnn_fused_lstm_cell",
                                   .params = "T input_gates, T hidden_gates, T cx, T? input_bias, T? hidden_bias",
                                   .emit = emit_lstm},
                                  {.name = "_thnn_fused_lstm_cell_backward_impl",
                                   .params = "T? grad_hy, T? grad_cy, T cx, T cy, T workspace, B has_bias",
                                   .emit = emit_lstm_backward},
                                  {.name = "_thnn_fused_gru_cell",
                                   .params = "T input_gates, T hidden_gates, T hx, T? input_bias, T? hidden_bias",
                                   .emit = emit_gru},
                                  {.name = "_thnn_fused_gru_cell_backward",
                                   .params = "T grad_hy, T workspace, B has_bias",
                                   .emit = emit_gru_backward},
                                  {0}};
