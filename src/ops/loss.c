/* Losses and their gradients. Elementwise ones first, then those over class labels. */
#include <float.h>
#include <math.h>

#include "ops/nn.h"

static tpj_value *plus(tpj_hlo *h, tpj_value *x, double c) { return tpj_nn_add_number(h, x, c); }
static tpj_value *times(tpj_hlo *h, tpj_value *x, double c) { return tpj_nn_mul_number(h, x, c); }
static tpj_value *number(tpj_hlo *h, tpj_value *x, double c) { return tpj_nn_number(h, x, c); }
static tpj_value *compare(tpj_hlo *h, const char *direction, tpj_value *x, double c) {
    return hlo_compare(h, direction, x, number(h, x, c));
}
static tpj_value *one_minus(tpj_hlo *h, tpj_value *x) { return hlo_sub(h, number(h, x, 1), x); }
static tpj_value *given(tpj_emit *e, const char *name, tpj_value *like) {
    return tpj_scalar_or(e, name, like->type.dtype, 1);
}

/* ---- elementwise losses ---- */

typedef struct pair {
    tpj_hlo *h;
    tpj_dtype dtype, compute;
    tpj_value *x, *target;
    tpj_value *grad; /* of the output, divided by the number of elements for the mean, in x's shape; backward only */
} pair;

static bool begin(tpj_emit *e, bool backward, pair *p) {
    tpj_hlo *h = tpj_builder(e);
    *p = (pair){.h = h, .dtype = tpj_promote(e, "self", "target", NULL)};
    if (!tpj_nn_require_float(e, "self")) return false;
    p->compute = tpj_compute_dtype(p->dtype);
    p->x = tpj_in_as(e, "self", p->compute);
    p->target = tpj_in_as(e, "target", p->compute);
    if (hlo_failed(h)) return false;
    hlo_expand_together(h, &p->x, &p->target);
    if (backward) {
        tpj_value *grad = tpj_in_as(e, "grad_output", p->compute);
        if (tpj_int(e, "reduction", TPJ_REDUCTION_MEAN) == TPJ_REDUCTION_MEAN)
            grad = hlo_div(h, grad, number(h, grad, (double)hlo_elements(p->x)));
        p->grad = hlo_expand(h, grad, p->x->type.rank, p->x->type.dims);
    }
    return !hlo_failed(h);
}

static void finish(tpj_emit *e, const pair *p, tpj_value *losses) {
    tpj_out_as(e, tpj_nn_reduce_loss(e, losses), p->dtype);
}

static void emit_mse(tpj_emit *e) {
    pair p;
    if (!begin(e, false, &p)) return;
    tpj_value *difference = hlo_sub(p.h, p.x, p.target);
    finish(e, &p, hlo_mul(p.h, difference, difference));
}

static void emit_mse_backward(tpj_emit *e) {
    pair p;
    if (!begin(e, true, &p)) return;
    tpj_out_as(e, times(p.h, hlo_mul(p.h, hlo_sub(p.h, p.x, p.target), p.grad), 2), p.dtype);
}

/* z < beta ? z^2 / (2 beta) : z - beta/2, with z = |x - target| */
static void emit_smooth_l1(tpj_emit *e) {
    pair p;
    tpj_require(e, "beta", 0, INFINITY, "smooth_l1_loss does not support negative values for beta: ");
    if (!begin(e, false, &p)) return;
    tpj_value *z = hlo_abs(p.h, hlo_sub(p.h, p.x, p.target)), *beta = given(e, "beta", z);
    tpj_value *inner = hlo_div(p.h, times(p.h, hlo_mul(p.h, z, z), 0.5), beta); /* not taken where beta is 0 */
    tpj_value *outer = hlo_sub(p.h, z, times(p.h, beta, 0.5));
    finish(e, &p, hlo_select(p.h, hlo_compare(p.h, "LT", z, beta), inner, outer));
}

/* The difference clamped to what the op's argument says. */
static tpj_value *clamped(const pair *p, tpj_value *difference, tpj_value *limit) {
    return hlo_clamp(p->h, hlo_neg(p->h, limit), difference, limit);
}

/* The sign of the difference, that is beta's slope, with a ramp over [-beta, beta]. */
static void emit_smooth_l1_backward(tpj_emit *e) {
    pair p;
    if (!begin(e, true, &p)) return;
    tpj_value *difference = hlo_sub(p.h, p.x, p.target), *beta = given(e, "beta", difference);
    tpj_value *ramp = hlo_div(p.h, clamped(&p, difference, beta), beta);
    tpj_value *slope = hlo_select(p.h, compare(p.h, "EQ", beta, 0), hlo_unary(p.h, "sign", difference), ramp);
    tpj_out_as(e, hlo_mul(p.h, slope, p.grad), p.dtype);
}

/* z <= delta ? z^2 / 2 : delta (z - delta/2) */
static void emit_huber(tpj_emit *e) {
    pair p;
    tpj_require(e, "delta", DBL_TRUE_MIN, INFINITY, "huber_loss does not support non-positive values for delta: ");
    if (!begin(e, false, &p)) return;
    tpj_value *z = hlo_abs(p.h, hlo_sub(p.h, p.x, p.target)), *delta = given(e, "delta", z);
    tpj_value *outer = hlo_mul(p.h, hlo_sub(p.h, z, times(p.h, delta, 0.5)), delta);
    tpj_value *small = hlo_compare(p.h, "LE", z, delta);
    finish(e, &p, hlo_select(p.h, small, times(p.h, hlo_mul(p.h, z, z), 0.5), outer));
}

static void emit_huber_backward(tpj_emit *e) {
    pair p;
    if (!begin(e, true, &p)) return;
    tpj_value *difference = hlo_sub(p.h, p.x, p.target);
    tpj_out_as(e, hlo_mul(p.h, clamped(&p, difference, given(e, "delta", difference)), p.grad), p.dtype);
}

static tpj_value *weighted(tpj_emit *e, const pair *p, tpj_value *x) {
    if (!tpj_has(e, "weight")) return x;
    return hlo_mul(p->h, x, hlo_expand(p->h, tpj_in_as(e, "weight", p->compute), x->type.rank, x->type.dims));
}

/* -(t log x + (1 - t) log(1 - x)), each log no lower than -100 */
static void emit_binary_cross_entropy(tpj_emit *e) {
    pair p;
    if (!begin(e, false, &p)) return;
    tpj_value *floor = number(p.h, p.x, -100);
    tpj_value *on = hlo_max(p.h, hlo_log(p.h, p.x), floor);
    tpj_value *off = hlo_max(p.h, hlo_unary(p.h, "log_plus_one", hlo_neg(p.h, p.x)), floor);
    tpj_value *loss = hlo_sub(p.h, hlo_mul(p.h, plus(p.h, p.target, -1), off), hlo_mul(p.h, p.target, on));
    finish(e, &p, weighted(e, &p, loss));
}

static void emit_binary_cross_entropy_backward(tpj_emit *e) {
    pair p;
    if (!begin(e, true, &p)) return;
    tpj_value *variance = hlo_max(p.h, hlo_mul(p.h, p.x, one_minus(p.h, p.x)), number(p.h, p.x, 1e-12));
    tpj_value *slope = hlo_div(p.h, hlo_sub(p.h, p.x, p.target), variance);
    tpj_out_as(e, weighted(e, &p, hlo_mul(p.h, slope, p.grad)), p.dtype);
}

/* (1 - t) x + w (log1p(exp(-|x|)) + max(-x, 0)), where w = 1 + (pos_weight - 1) t */
static void emit_bce_with_logits(tpj_emit *e) {
    pair p;
    if (!begin(e, false, &p)) return;
    tpj_value *tail = hlo_unary(p.h, "log_plus_one", hlo_exp(p.h, hlo_neg(p.h, hlo_abs(p.h, p.x))));
    tail = hlo_add(p.h, tail, hlo_max(p.h, hlo_neg(p.h, p.x), number(p.h, p.x, 0)));
    if (tpj_has(e, "pos_weight")) {
        tpj_value *weight = plus(p.h, tpj_in_as(e, "pos_weight", p.compute), -1);
        weight = hlo_expand(p.h, weight, p.x->type.rank, p.x->type.dims);
        tail = hlo_mul(p.h, tail, plus(p.h, hlo_mul(p.h, weight, p.target), 1));
    }
    tpj_value *loss = hlo_add(p.h, hlo_mul(p.h, one_minus(p.h, p.target), p.x), tail);
    finish(e, &p, weighted(e, &p, loss));
}

/* ---- negative log likelihood: labels at dimension `dim` of x, x without that dimension is the labels' shape ---- */

typedef struct labelled {
    tpj_hlo *h;
    tpj_dtype dtype, compute;
    tpj_value *target;  /* valid labels: ignored ones are 0, dtype I64 or as given */
    tpj_value *keep;    /* bool: the label counts */
    tpj_value *weights; /* of each label, zero for ignored ones; compute dtype */
    int dim;
    int64_t n_classes;
} labelled;

/* self[c], target[]; self[n, c], target[n]; self[n, c, h, w], target[n, h, w]: the class dimension follows the batch. */
static bool begin_labelled(tpj_emit *e, labelled *l) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type x = tpj_in_type(e, "self"), target = tpj_in_type(e, "target");
    *l = (labelled){.h = h, .dtype = x.dtype, .compute = tpj_compute_dtype(x.dtype), .dim = x.rank > 1 ? 1 : 0};
    if (!tpj_nn_require_float(e, "self")) return false;
    bool is_2d = tpj_row(e)->variant == 2;
    if (is_2d ? x.rank != 4 || target.rank != 3 : x.rank < 1 || x.rank > 2 || target.rank > 1) {
        tpj_fail(e, TPJ_RUNTIME,
                 is_2d ? "only batches of spatial targets supported (3D tensors) but got targets of dimension: %d"
                       : "0D or 1D target tensor expected, multi-target not supported (got %d dimensions)",
                 target.rank);
        return false;
    }
    /* Without a batch, a target of one element stands for one label. */
    bool fits = x.rank == 1 ? tpj_type_elements(&target) == 1 : target.rank == x.rank - 1;
    for (int d = 0, t = 0; x.rank > 1 && fits && d < x.rank; d++)
        if (d != l->dim) fits = x.dims[d] == target.dims[t++];
    if (!fits) {
        tpj_fail(e, TPJ_RUNTIME, "size mismatch: the target does not have the input's shape without its classes");
        return false;
    }
    if (target.dtype != TPJ_I64 && target.dtype != TPJ_U8) {
        tpj_fail(e, TPJ_RUNTIME, "expected scalar type Long but found %s", tpj_dtype_name(target.dtype));
        return false;
    }
    l->n_classes = x.dims[l->dim];
    tpj_value *labels = tpj_in_as(e, "target", TPJ_I64);
    if (x.rank == 1) labels = hlo_reshape(h, labels, 0, NULL);
    l->keep = hlo_compare(h, "NE", labels, tpj_scalar_or(e, "ignore_index", TPJ_I64, -100));
    labels = tpj_check_index(e, tpj_nn_where(h, l->keep, labels), l->n_classes, false);
    l->target = hlo_convert(h, labels, TPJ_I32);
    if (!tpj_has(e, "weight")) {
        l->weights = hlo_convert(h, l->keep, l->compute);
        return !hlo_failed(h);
    }
    tpj_type weight = tpj_in_type(e, "weight");
    if (tpj_type_elements(&weight) != l->n_classes) {
        tpj_fail(e, TPJ_RUNTIME, "weight tensor should be defined either for all %lld classes or no classes",
                 (long long)l->n_classes);
        return false;
    }
    tpj_value *table = hlo_flatten(h, tpj_in_as(e, "weight", l->compute));
    l->weights = tpj_nn_where(h, l->keep, hlo_take(h, table, l->target, 0));
    return !hlo_failed(h);
}

/* true where the class number along `dim` is the label: one hot, in x's shape. */
static tpj_value *one_hot(const labelled *l, const tpj_type *x) {
    tpj_value like = {.type = *x};
    const int64_t dims[] = {l->dim};
    tpj_value *classes = hlo_iota(l->h, TPJ_I32, x->rank, x->dims, l->dim);
    return hlo_compare(l->h, "EQ", classes, tpj_nn_spread(l->h, l->target, &like, dims, 1));
}

static void emit_nll_loss(tpj_emit *e) {
    labelled l;
    if (!begin_labelled(e, &l)) return;
    tpj_hlo *h = l.h;
    tpj_type type = tpj_in_type(e, "self");
    int64_t reduction = tpj_int(e, "reduction", TPJ_REDUCTION_MEAN);
    tpj_value *index = hlo_unsqueeze(h, l.target, l.dim);
    tpj_value *picked = hlo_squeeze(h, hlo_take_along(h, tpj_in(e, "self"), index, l.dim), l.dim);
    picked = hlo_convert(h, picked, l.compute);
    tpj_value *losses = tpj_nn_where(h, l.keep, hlo_neg(h, hlo_mul(h, picked, l.weights)));
    if (reduction == TPJ_REDUCTION_NONE && (type.rank > 1 || tpj_row(e)->variant == 2)) {
        tpj_out_as(e, losses, l.dtype);
        tpj_out(e, hlo_number(h, l.dtype, 0));
        return;
    }
    tpj_value *total = hlo_reduce_all(h, "add", l.weights), *sum = hlo_reduce_all(h, "add", losses);
    tpj_out_as(e, reduction == TPJ_REDUCTION_MEAN ? hlo_div(h, sum, total) : sum, l.dtype);
    tpj_out_as(e, total, l.dtype);
}

/* -weight[label] at the label, times the gradient of its loss; zero elsewhere. One hot by comparison: no scatter. */
static void emit_nll_loss_backward(tpj_emit *e) {
    labelled l;
    if (!begin_labelled(e, &l)) return;
    tpj_hlo *h = l.h;
    tpj_type type = tpj_in_type(e, "self");
    int64_t reduction = tpj_int(e, "reduction", TPJ_REDUCTION_MEAN);
    tpj_value *grad = tpj_in_as(e, "grad_output", l.compute);
    if (hlo_failed(h)) return;
    if (reduction == TPJ_REDUCTION_MEAN) grad = hlo_div(h, grad, tpj_in_as(e, "total_weight", l.compute));
    if (type.rank == 1 || hlo_elements(grad) == 1) grad = hlo_reshape(h, grad, 0, NULL);
    grad = tpj_nn_where(h, l.keep, hlo_neg(h, hlo_mul(h, grad, l.weights)));
    const int64_t dims[] = {l.dim};
    tpj_value like = {.type = type};
    tpj_out_as(e, tpj_nn_where(h, one_hot(&l, &type), tpj_nn_spread(h, grad, &like, dims, 1)), l.dtype);
}

/* ---- multi_margin_loss: sum over classes j of max(0, margin - x[y] + x[j])^p / n_classes, without j = y ---- */

typedef struct margins {
    tpj_hlo *h;
    tpj_type type; /* of self */
    tpj_dtype compute;
    tpj_value *z;        /* [n, c]: margin - x[y] + x[j], zero at the label and where negative */
    tpj_value *is_label; /* [n, c] */
    tpj_value *weights;  /* [n, c]: of the row's label; NULL without */
    double p;
    int64_t n, c;
} margins;

/* Rows of classes: there may be no rows, but there are classes. */
static bool check_classes(tpj_emit *e, const tpj_type *type) {
    if (type->rank <= 2 && (type->rank == 0 || type->dims[type->rank - 1] > 0)) return true;
    tpj_fail(e, TPJ_RUNTIME, "Expected non-empty vector or matrix with optional 0-dim batch size");
    return false;
}

static bool begin_multi_margin(tpj_emit *e, margins *m) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, "self"), target = tpj_in_type(e, "target");
    *m = (margins){.h = h, .type = type, .compute = tpj_compute_dtype(type.dtype), .p = tpj_float(e, "p", 1)};
    if (!tpj_nn_require_float(e, "self")) return false;
    if (m->p != 1 && m->p != 2) {
        tpj_fail(e, TPJ_RUNTIME, "only p == 1 and p == 2 supported");
        return false;
    }
    if (!check_classes(e, &type)) return false;
    m->n = type.rank == 2 ? type.dims[0] : 1;
    m->c = type.rank == 0 ? 1 : type.dims[type.rank - 1];
    if (target.rank > 1 || tpj_type_elements(&target) != m->n) {
        tpj_fail(e, TPJ_RUNTIME, "inconsistent target size, expected %lld", (long long)m->n);
        return false;
    }
    if (target.dtype != TPJ_I64) {
        tpj_fail(e, TPJ_RUNTIME, "expected scalar type Long but found %s", tpj_dtype_torch_name(target.dtype));
        return false;
    }
    const int64_t dims[] = {m->n, m->c}, column[] = {m->n, 1}, rows[] = {0};
    tpj_value *x = hlo_reshape(h, tpj_in_as(e, "self", m->compute), 2, dims);
    tpj_value *labels = tpj_check_index(e, hlo_reshape(h, tpj_in_as(e, "target", TPJ_I64), 1, dims), m->c, false);
    labels = hlo_convert(h, labels, TPJ_I32);
    m->is_label =
        hlo_compare(h, "EQ", hlo_iota(h, TPJ_I32, 2, dims, 1), hlo_broadcast_in_dim(h, labels, 2, dims, rows));
    tpj_value *own = hlo_expand(h, hlo_take_along(h, x, hlo_reshape(h, labels, 2, column), 1), 2, dims);
    tpj_value *difference = hlo_sub(h, x, own), *z = hlo_add(h, difference, given(e, "margin", difference));
    tpj_value *zero = number(h, z, 0);
    m->z = hlo_select(h, m->is_label, zero, hlo_select(h, hlo_compare(h, "GT", z, zero), z, zero));
    if (tpj_has(e, "weight")) {
        tpj_value *table = hlo_flatten(h, tpj_in_as(e, "weight", m->compute));
        m->weights = hlo_broadcast_in_dim(h, hlo_take(h, table, labels, 0), 2, dims, rows);
    }
    return !hlo_failed(h);
}

static void emit_multi_margin(tpj_emit *e) {
    margins m;
    if (!begin_multi_margin(e, &m)) return;
    tpj_value *loss = m.p == 2 ? hlo_mul(m.h, m.z, m.z) : m.z;
    if (m.weights != NULL) loss = hlo_mul(m.h, loss, m.weights);
    loss = hlo_reduce_dim(m.h, "add", loss, 1);
    loss = hlo_div(m.h, loss, number(m.h, loss, (double)m.c));
    if (m.type.rank < 2) loss = hlo_reshape(m.h, loss, 0, NULL);
    tpj_out_as(e, tpj_nn_reduce_loss(e, loss), m.type.dtype);
}

/* The gradient of the output in [n, c]: one a row, or one for all; divided by the rows for the mean. */
static tpj_value *row_gradient(tpj_emit *e, tpj_hlo *h, tpj_dtype compute, int64_t n, int64_t c, double scale) {
    const int64_t dims[] = {n, c}, rows[] = {0};
    tpj_value *grad = tpj_in_as(e, "grad_output", compute);
    if (hlo_failed(h)) return grad;
    if (tpj_int(e, "reduction", TPJ_REDUCTION_MEAN) == TPJ_REDUCTION_MEAN) scale /= (double)n;
    grad = times(h, grad, scale);
    if (hlo_elements(grad) == n) return hlo_broadcast_in_dim(h, hlo_reshape(h, grad, 1, dims), 2, dims, rows);
    return hlo_broadcast_in_dim(h, hlo_reshape(h, grad, 0, NULL), 2, dims, NULL);
}

static void emit_multi_margin_backward(tpj_emit *e) {
    margins m;
    if (!begin_multi_margin(e, &m)) return;
    tpj_value *zero = number(m.h, m.z, 0);
    tpj_value *slope = m.p == 2 ? times(m.h, m.z, 2)
                                : tpj_nn_where(m.h, hlo_compare(m.h, "GT", m.z, zero), hlo_full_like(m.h, m.z, 1));
    if (m.weights != NULL) slope = hlo_mul(m.h, slope, m.weights);
    const int64_t dims[] = {1};
    tpj_value *at_label = hlo_neg(m.h, tpj_nn_reduce_spread(m.h, "add", slope, dims, 1));
    slope = hlo_select(m.h, m.is_label, at_label, slope);
    tpj_value *grad = hlo_mul(m.h, slope, row_gradient(e, m.h, m.compute, m.n, m.c, 1 / (double)m.c));
    tpj_out_as(e, hlo_reshape(m.h, grad, m.type.rank, m.type.dims), m.type.dtype);
}

/* ---- multilabel_margin_loss: labels of a row up to the first -1; sum over labels y and non-labels j of
 *      max(0, 1 - (x[y] - x[j])) / n_classes ---- */

typedef struct multilabel {
    tpj_hlo *h;
    tpj_type type;
    tpj_dtype compute;
    tpj_value *is_target; /* [n, c], bool */
    tpj_value *hinge;     /* [n, k, c]: 1 - x[label k] + x[j] where positive, k a label and j none; else 0 */
    tpj_value *labels;    /* [n, k], I32, ended ones 0 */
    tpj_value *counts;    /* [n, k], bool: before the first -1 */
    int64_t n, c;
} multilabel;

static bool begin_multilabel(tpj_emit *e, multilabel *m) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, "self"), target = tpj_in_type(e, "target");
    *m = (multilabel){.h = h, .type = type, .compute = tpj_compute_dtype(type.dtype)};
    if (!tpj_nn_require_float(e, "self")) return false;
    if (!check_classes(e, &type)) return false;
    m->n = type.rank == 2 ? type.dims[0] : 1;
    m->c = type.rank == 0 ? 1 : type.dims[type.rank - 1];
    if (target.rank > 2 || tpj_type_elements(&target) != m->n * m->c) {
        tpj_fail(e, TPJ_RUNTIME, "inconsistent target size: it must be the input's");
        return false;
    }
    const int64_t dims[] = {m->n, m->c}, cube[] = {m->n, m->c, m->c}, by_label[] = {0, 1}, by_class[] = {0, 2};
    tpj_value *x = hlo_reshape(h, tpj_in_as(e, "self", m->compute), 2, dims);
    tpj_value *raw = hlo_reshape(h, tpj_in_as(e, "target", TPJ_I64), 2, dims);
    tpj_value *given = hlo_convert(h, compare(h, "GE", raw, 0), TPJ_I32);
    m->counts = hlo_compare(h, "EQ", hlo_cumulative(h, "minimum", given, 1, false), hlo_integer(h, TPJ_I32, 1));
    m->labels = hlo_convert(h, tpj_check_index(e, tpj_nn_where(h, m->counts, raw), m->c, false), TPJ_I32);
    tpj_value *at =
        hlo_compare(h, "EQ", hlo_iota(h, TPJ_I32, 3, cube, 2), hlo_broadcast_in_dim(h, m->labels, 3, cube, by_label));
    at = hlo_and(h, at, hlo_broadcast_in_dim(h, m->counts, 3, cube, by_label));
    const int64_t over_labels[] = {1};
    m->is_target = hlo_reduce(h, "or", at, NULL, over_labels, 1);
    tpj_value *own = hlo_broadcast_in_dim(h, hlo_take_along(h, x, m->labels, 1), 3, cube, by_label);
    tpj_value *z = plus(h, hlo_sub(h, hlo_broadcast_in_dim(h, x, 3, cube, by_class), own), 1);
    tpj_value *open = hlo_and(h, hlo_broadcast_in_dim(h, m->counts, 3, cube, by_label),
                              hlo_not(h, hlo_broadcast_in_dim(h, m->is_target, 3, cube, by_class)));
    m->hinge = tpj_nn_where(h, hlo_and(h, open, compare(h, "GT", z, 0)), z);
    return !hlo_failed(h);
}

static void emit_multilabel_margin(tpj_emit *e) {
    multilabel m;
    if (!begin_multilabel(e, &m)) return;
    const int64_t dims[] = {1, 2};
    tpj_value *loss = hlo_reduce(m.h, "add", m.hinge, NULL, dims, 2);
    loss = hlo_div(m.h, loss, number(m.h, loss, (double)m.c));
    if (m.type.rank < 2) loss = hlo_reshape(m.h, loss, 0, NULL);
    tpj_out_as(e, tpj_nn_reduce_loss(e, loss), m.type.dtype);
    tpj_type target = tpj_in_type(e, "target");
    tpj_out_as(e, hlo_reshape(m.h, m.is_target, target.rank, target.dims), m.type.dtype);
}

static void emit_multilabel_margin_backward(tpj_emit *e) {
    multilabel m;
    if (!begin_multilabel(e, &m)) return;
    tpj_hlo *h = m.h;
    const int64_t cube[] = {m.n, m.c, m.c}, by_label[] = {0, 1}, over_labels[] = {1};
    tpj_value *active = hlo_convert(h, compare(h, "GT", m.hinge, 0), m.compute);
    tpj_value *up = hlo_reduce(h, "add", active, NULL, over_labels, 1); /* at the non-labels */
    tpj_value *down = hlo_reduce_dim(h, "add", active, 2);              /* of each label, put at its class */
    tpj_value *at =
        hlo_compare(h, "EQ", hlo_iota(h, TPJ_I32, 3, cube, 2), hlo_broadcast_in_dim(h, m.labels, 3, cube, by_label));
    at = hlo_and(h, at, hlo_broadcast_in_dim(h, m.counts, 3, cube, by_label));
    down = hlo_reduce(h, "add", tpj_nn_where(h, at, hlo_broadcast_in_dim(h, down, 3, cube, by_label)), NULL,
                      over_labels, 1);
    tpj_value *grad = hlo_mul(h, hlo_sub(h, up, down), row_gradient(e, h, m.compute, m.n, m.c, 1 / (double)m.c));
    tpj_out_as(e, hlo_reshape(h, grad, m.type.rank, m.type.dims), m.type.dtype);
}

#define NLL "T self, T target, T? weight, I reduction, I~ ignore_index"
#define NLL_BACKWARD "T grad_output, T self, T target, T? weight, I reduction, I~ ignore_index, T total_weight"

const tpj_op_def tpj_ops_loss[] = {
    {.name = "mse_loss", .params = "T self, T target, I reduction=1", .emit = emit_mse, .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "mse_loss_backward",
     .params = "T grad_output, T self, T target, I reduction",
     .emit = emit_mse_backward,
     .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "smooth_l1_loss",
     .params = "T self, T target, I reduction=1, F~ beta=1.0",
     .emit = emit_smooth_l1,
     .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "smooth_l1_loss_backward",
     .params = "T grad_output, T self, T target, I reduction, F~ beta",
     .emit = emit_smooth_l1_backward,
     .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "huber_loss",
     .params = "T self, T target, I reduction=1, F~ delta=1.0",
     .emit = emit_huber,
     .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "huber_loss_backward",
     .params = "T grad_output, T self, T target, I reduction, F~ delta",
     .emit = emit_huber_backward,
     .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "binary_cross_entropy",
     .params = "T self, T target, T? weight, I reduction=1",
     .emit = emit_binary_cross_entropy,
     .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "binary_cross_entropy_backward",
     .params = "T grad_output, T self, T target, T? weight, I reduction=1",
     .emit = emit_binary_cross_entropy_backward,
     .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "binary_cross_entropy_with_logits",
     .params = "T self, T target, T? weight, T? pos_weight, I reduction=1",
     .emit = emit_bce_with_logits,
     .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "nll_loss_forward", .params = NLL, .emit = emit_nll_loss, .variant = 1},
    {.name = "nll_loss_backward", .params = NLL_BACKWARD, .emit = emit_nll_loss_backward, .variant = 1},
    {.name = "nll_loss2d_forward", .params = NLL, .emit = emit_nll_loss, .variant = 2},
    {.name = "nll_loss2d_backward", .params = NLL_BACKWARD, .emit = emit_nll_loss_backward, .variant = 2},
    {.name = "multi_margin_loss",
     .params = "T self, T target, S! p=1, S~ margin=1, T? weight, I reduction=1",
     .emit = emit_multi_margin},
    {.name = "multi_margin_loss_backward",
     .params = "T grad_output, T self, T target, S! p, S~ margin, T? weight, I reduction=1",
     .emit = emit_multi_margin_backward},
    {.name = "multilabel_margin_loss_forward",
     .params = "T self, T target, I reduction",
     .emit = emit_multilabel_margin},
    {.name = "multilabel_margin_loss_backward",
     .params = "T grad_output, T self, T target, I reduction, T is_target",
     .emit = emit_multilabel_margin_backward},
    {0}};
