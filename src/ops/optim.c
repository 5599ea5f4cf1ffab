/* Optimizer steps over lists of parameters, and the helpers of mixed precision training.
 *
 * Learning rates, betas and decays are operands: schedules do not recompile. What is near 1 is subtracted from 1 in
 * F64, before it is rounded. The results are the lists that the in-place forms update, one list after the other. */
#include <math.h>

#include "ops/ops.h"

/* ---- what all steps share ---- */

/* One step of one parameter: its values in the dtype of the arithmetic. */
typedef struct step {
    tpj_emit *e;
    tpj_hlo *h;
    tpj_dtype dtype;    /* of the arithmetic */
    tpj_value *skip;    /* bool scalar: gradients were not finite, nothing changes; NULL: never */
    tpj_value *unscale; /* F32 scalar that gradients are divided by; NULL: none */
} step;

static step step_begin(tpj_emit *e) {
    step s = {.e = e, .h = tpj_builder(e)};
    if (tpj_has(e, "grad_scale")) s.unscale = hlo_reshape(s.h, tpj_in_as(e, "grad_scale", TPJ_F32), 0, NULL);
    if (tpj_has(e, "found_inf")) {
        tpj_value *found = hlo_reshape(s.h, tpj_in_as(e, "found_inf", TPJ_F32), 0, NULL);
        s.skip = hlo_compare(s.h, "EQ", found, hlo_number(s.h, TPJ_F32, 1));
    }
    return s;
}

static tpj_value *number(const step *s, double value) { return hlo_number(s->h, s->dtype, value); }

/* A hyperparameter; lr may be a tensor of one element. */
static tpj_value *hyper(const step *s, const char *name) {
    tpj_type type = tpj_in_type(s->e, name);
    if (type.dtype == TPJ_N_DTYPES || type.rank == 0) return tpj_scalar(s->e, name, s->dtype);
    return hlo_reshape(s->h, tpj_in_as(s->e, name, s->dtype), 0, NULL);
}

static tpj_value *one_minus(const step *s, const char *name) {
    tpj_value *x = tpj_scalar(s->e, name, TPJ_F64);
    return hlo_convert(s->h, hlo_sub(s->h, hlo_number(s->h, TPJ_F64, 1), x), s->dtype);
}

/* 1 - beta^t, for beta near 1: -expm1(t * log1p(-(1 - beta))). */
static tpj_value *bias_correction(const step *s, const char *beta, tpj_value *t) {
    tpj_hlo *h = s->h;
    tpj_value *log_beta = hlo_unary(h, "log_plus_one", hlo_neg(h, one_minus(s, beta)));
    return hlo_neg(h, hlo_unary(h, "exponential_minus_one", hlo_mul(h, t, log_beta)));
}

static tpj_value *read(const step *s, tpj_value *x) { return hlo_convert(s->h, x, s->dtype); }

/* The list's new element: the old one where the step is skipped. */
static tpj_value *updated(const step *s, tpj_value *old, tpj_value *now) {
    now = hlo_convert(s->h, now, old->type.dtype);
    return s->skip != NULL ? hlo_select(s->h, s->skip, old, now) : now;
}

/* The gradient freed of the loss scale; *list takes it back. */
static tpj_value *read_gradient(const step *s, tpj_value **list) {
    tpj_value *grad = read(s, *list);
    if (s->unscale != NULL) {
        grad = hlo_div(s->h, grad, hlo_convert(s->h, s->unscale, s->dtype));
        *list = updated(s, *list, grad);
    }
    return tpj_bool(s->e, "maximize", false) ? hlo_neg(s->h, grad) : grad;
}

/* The argument list `name`, which must be as long as the parameters' or empty. */
static tpj_value **read_list(tpj_emit *e, const char *name, int n, int *out_n) {
    tpj_value **list = tpj_in_list(e, name, out_n);
    if (*out_n != n && *out_n != 0) tpj_fail(e, TPJ_RUNTIME, "%s has %d tensors for %d parameters", name, *out_n, n);
    return list;
}

static void out_list(tpj_emit *e, tpj_value **list, int n) {
    for (int i = 0; i < n; i++) tpj_out(e, list[i]);
}

/* ---- Adam and AdamW ---- */

enum { ADAM, ADAMW };

typedef struct adam {
    tpj_value **params, **grads, **means, **squares, **max_squares, **steps;
    bool amsgrad;
} adam;

static void adam_step(step *s, const adam *a, int i) {
    tpj_hlo *h = s->h;
    s->dtype = tpj_compute_dtype(a->params[i]->type.dtype);
    tpj_value *param = read(s, a->params[i]), *grad = read_gradient(s, &a->grads[i]);
    tpj_value *lr = hyper(s, "lr"), *decay = hyper(s, "weight_decay"),
              *t = hlo_reshape(h, read(s, a->steps[i]), 0, NULL);
    if (tpj_row(s->e)->variant == ADAMW) {
        param = hlo_sub(h, param, hlo_mul(h, hlo_mul(h, lr, decay), param));
    } else {
        grad = hlo_add(h, grad, hlo_mul(h, decay, param));
    }
    tpj_value *mean = read(s, a->means[i]), *square = read(s, a->squares[i]);
    mean = hlo_add(h, mean, hlo_mul(h, hlo_sub(h, grad, mean), one_minus(s, "beta1")));
    square =
        hlo_add(h, hlo_mul(h, square, hyper(s, "beta2")), hlo_mul(h, hlo_mul(h, grad, grad), one_minus(s, "beta2")));
    tpj_value *largest = square;
    if (a->amsgrad) {
        largest = hlo_max(h, read(s, a->max_squares[i]), square);
        a->max_squares[i] = updated(s, a->max_squares[i], largest);
    }
    tpj_value *step_size = hlo_div(h, lr, bias_correction(s, "beta1", t));
    tpj_value *root = hlo_sqrt(h, bias_correction(s, "beta2", t));
    tpj_value *divisor = hlo_add(h, hlo_div(h, hlo_sqrt(h, largest), root), hyper(s, "eps"));
    param = hlo_sub(h, param, hlo_div(h, hlo_mul(h, step_size, mean), divisor));
    a->params[i] = updated(s, a->params[i], param);
    a->means[i] = updated(s, a->means[i], mean);
    a->squares[i] = updated(s, a->squares[i], square);
}

static void emit_fused_adam(tpj_emit *e) {
    int n = 0, n_grads, n_means, n_squares, n_max, n_steps;
    adam a = {.params = tpj_in_list(e, "self", &n), .amsgrad = tpj_bool(e, "amsgrad", false)};
    a.grads = read_list(e, "grads", n, &n_grads);
    a.means = read_list(e, "exp_avgs", n, &n_means);
    a.squares = read_list(e, "exp_avg_sqs", n, &n_squares);
    a.max_squares = read_list(e, "max_exp_avg_sqs", n, &n_max);
    a.steps = read_list(e, "state_steps", n, &n_steps);
    if (hlo_failed(tpj_builder(e))) return;
    if (n_grads != n || n_means != n || n_squares != n || n_steps != n || (a.amsgrad && n_max != n)) {
        tpj_fail(e, TPJ_RUNTIME, "every parameter needs a gradient and its states");
        return;
    }
    step s = step_begin(e);
    for (int i = 0; i < n; i++) adam_step(&s, &a, i);
    out_list(e, a.params, n);
    out_list(e, a.grads, n);
    out_list(e, a.means, n);
    out_list(e, a.squares, n);
    out_list(e, a.max_squares, n_max);
}

/* ---- SGD ---- */

static void emit_fused_sgd(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int n = 0, n_grads, n_buffers;
    tpj_value **params = tpj_in_list(e, "self", &n), **grads = read_list(e, "grads", n, &n_grads);
    tpj_value **buffers = read_list(e, "momentum_buffer_list", n, &n_buffers);
    if (n_grads != n) tpj_fail(e, TPJ_RUNTIME, "every parameter needs a gradient");
    if (hlo_failed(h)) return;
    step s = step_begin(e);
    bool first = tpj_bool(e, "is_first_step", false), nesterov = tpj_bool(e, "nesterov", false);
    for (int i = 0; i < n; i++) {
        s.dtype = tpj_compute_dtype(params[i]->type.dtype);
        tpj_value *param = read(&s, params[i]), *grad = read_gradient(&s, &grads[i]);
        grad = hlo_add(h, grad, hlo_mul(h, param, hyper(&s, "weight_decay")));
        if (n_buffers > 0) {
            tpj_value *momentum = hyper(&s, "momentum"), *buffer = grad;
            if (!first) {
                buffer = hlo_add(h, hlo_mul(h, read(&s, buffers[i]), momentum),
                                 hlo_mul(h, grad, one_minus(&s, "dampening")));
            }
            buffers[i] = updated(&s, buffers[i], buffer);
            grad = nesterov ? hlo_add(h, grad, hlo_mul(h, buffer, momentum)) : buffer;
        }
        params[i] = updated(&s, params[i], hlo_sub(h, param, hlo_mul(h, grad, hyper(&s, "lr"))));
    }
    out_list(e, params, n);
    out_list(e, grads, n);
    out_list(e, buffers, n_buffers);
}

/* ---- Adagrad ---- */

enum { WITH_STEPS = 1 }; /* the overload that returns the steps too */

static void emit_fused_adagrad(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int n = 0, n_grads, n_sums, n_steps;
    tpj_value **params = tpj_in_list(e, "self", &n), **grads = read_list(e, "grads", n, &n_grads);
    tpj_value **sums = read_list(e, "state_sums", n, &n_sums), **steps = read_list(e, "state_steps", n, &n_steps);
    if (n_grads != n || n_sums != n || n_steps != n)
        tpj_fail(e, TPJ_RUNTIME, "every parameter needs a gradient and its states");
    if (hlo_failed(h)) return;
    step s = step_begin(e);
    for (int i = 0; i < n; i++) {
        s.dtype = tpj_compute_dtype(params[i]->type.dtype);
        tpj_value *param = read(&s, params[i]), *grad = read_gradient(&s, &grads[i]);
        tpj_value *t = hlo_sub(h, hlo_reshape(h, read(&s, steps[i]), 0, NULL), number(&s, 1));
        tpj_value *lr = hlo_div(h, hyper(&s, "lr"), hlo_add(h, hlo_mul(h, t, hyper(&s, "lr_decay")), number(&s, 1)));
        grad = hlo_add(h, grad, hlo_mul(h, param, hyper(&s, "weight_decay")));
        tpj_value *sum = hlo_add(h, read(&s, sums[i]), hlo_mul(h, grad, grad));
        tpj_value *divisor = hlo_add(h, hlo_sqrt(h, sum), hyper(&s, "eps"));
        sums[i] = updated(&s, sums[i], sum);
        params[i] = updated(&s, params[i], hlo_sub(h, param, hlo_div(h, hlo_mul(h, lr, grad), divisor)));
    }
    out_list(e, params, n);
    out_list(e, grads, n);
    out_list(e, sums, n);
    if (tpj_row(e)->variant == WITH_STEPS) out_list(e, steps, n);
}

/* ---- loss scaling ---- */

/* Every gradient times inv_scale, and whether one of them is not finite. */
static void emit_unscale(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int n = 0;
    tpj_value **grads = tpj_in_list(e, "self", &n), *found = tpj_in(e, "found_inf");
    tpj_value *scale = hlo_reshape(h, tpj_in_as(e, "inv_scale", TPJ_F32), 0, NULL), *bad = NULL;
    for (int i = 0; i < n; i++) {
        tpj_dtype dtype = grads[i]->type.dtype, compute = tpj_compute_dtype(dtype);
        tpj_value *grad = hlo_convert(h, grads[i], compute);
        tpj_value *infinite = hlo_not(h, hlo_unary(h, "is_finite", grad));
        tpj_value *any = hlo_reduce_all(h, "or", infinite);
        bad = bad == NULL ? any : hlo_or(h, bad, any);
        tpj_out_as(e, hlo_mul(h, grad, hlo_convert(h, scale, compute)), dtype);
    }
    tpj_out(e, bad == NULL ? found : hlo_select(h, bad, hlo_number(h, found->type.dtype, 1), found));
}

/* The scale backs off after a step with infinities, and grows after growth_interval steps without. */
static void emit_update_scale(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *scale = tpj_in(e, "self"), *tracker = tpj_in(e, "growth_tracker");
    tpj_dtype dtype = scale->type.dtype, counter = tracker->type.dtype;
    tpj_value *found = tpj_in(e, "found_inf");
    tpj_value *failed = hlo_compare(h, "NE", hlo_reshape(h, found, 0, NULL), hlo_number(h, found->type.dtype, 0));
    tpj_value *count = hlo_add(h, tracker, hlo_integer(h, counter, 1)), *zero = hlo_integer(h, counter, 0);
    tpj_value *due = hlo_compare(h, "EQ", count, tpj_scalar(e, "growth_interval", counter));
    tpj_value *grown = hlo_mul(h, scale, tpj_scalar(e, "scale_growth_factor", dtype));
    tpj_value *fits = hlo_unary(h, "is_finite", grown);
    due = hlo_reshape(h, due, scale->type.rank, scale->type.dims);
    tpj_value *success = hlo_select(h, hlo_and(h, due, fits), grown, scale);
    tpj_value *backed_off = hlo_mul(h, scale, tpj_scalar(e, "scale_backoff_factor", dtype));
    due = hlo_reshape(h, due, tracker->type.rank, tracker->type.dims);
    tpj_out(e, hlo_select(h, failed, backed_off, success));
    tpj_out(e, hlo_select(h, failed, zero, hlo_select(h, due, zero, count)));
}

#define ADAM_PARAMS(lr)                                                                                              \
    "T[] self, T[] grads, T[] exp_avgs, T[] exp_avg_sqs, T[] max_exp_avg_sqs, T[] state_steps, " lr " lr, f beta1, " \
    "f beta2, f weight_decay, f eps, B amsgrad, B maximize, T? grad_scale=None, T? found_inf=None"
#define SGD_PARAMS(lr)                                                                                                \
    "T[] self, T[] grads, T[] momentum_buffer_list, f weight_decay, f momentum, " lr " lr, f dampening, B nesterov, " \
    "B maximize, B is_first_step, T? grad_scale=None, T? found_inf=None"
#define ADAGRAD_PARAMS(lr)                                                                                             \
    "T[] self, T[] grads, T[] state_sums, T[] state_steps, " lr " lr, f lr_decay, f weight_decay, f eps, B maximize, " \
    "T? grad_scale=None, T? found_inf=None"

const tpj_op_def tpj_ops_optim[] = {
    {.name = "_fused_adam", .params = ADAM_PARAMS("f"), .emit = emit_fused_adam, .variant = ADAM},
    {.name = "_fused_adam.tensor_lr", .params = ADAM_PARAMS("T"), .emit = emit_fused_adam, .variant = ADAM},
    {.name = "_fused_adamw", .params = ADAM_PARAMS("f"), .emit = emit_fused_adam, .variant = ADAMW},
    {.name = "_fused_adamw.tensor_lr", .params = ADAM_PARAMS("T"), .emit = emit_fused_adam, .variant = ADAMW},
    {.name = "_fused_sgd", .params = SGD_PARAMS("f"), .emit = emit_fused_sgd},
    {.name = "_fused_sgd.tensor_lr", .params = SGD_PARAMS("T"), .emit = emit_fused_sgd},
    {.name = "_fused_adagrad", .params = ADAGRAD_PARAMS("f"), .emit = emit_fused_adagrad, .variant = WITH_STEPS},
    {.name = "_fused_adagrad.tensor_lr", .params = ADAGRAD_PARAMS("T"), .emit = emit_fused_adagrad},
    {.name = "_amp_foreach_non_finite_check_and_unscale",
     .params = "T[] self, T found_inf, T inv_scale",
     .emit = emit_unscale},
    {.name = "_amp_update_scale",
     .params =
         "T self, T growth_tracker, T found_inf, f scale_growth_factor, f scale_backoff_factor, I~ growth_interval",
     .emit = emit_update_scale},
    {0},
};
