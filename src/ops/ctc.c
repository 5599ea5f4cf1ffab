/* Connectionist temporal classification (Graves et al. 2006): the negative log likelihood of each target over all
 * alignments with the input, by the forward recursion, and its gradient by the backward one.
 *
 * T time steps, N examples, C labels, S the longest target; the states are the target's labels with blanks around them,
 * L = 2 S + 1. Lengths are operands. What lies beyond a length is neither read nor counted; -inf there in log_alpha. */
#include <math.h>

#include "ops/indexing.h"
#include "ops/pointwise.h"

typedef struct ctc {
    tpj_hlo *h;
    int64_t t, n, c, l;
    tpj_value *log_probs;     /* [T, N, C] */
    tpj_value *inputs, *ends; /* [N], I32: the input's length; the target's number of states, less one */
    tpj_value *state;         /* [N, L], I32: 0, 1, 2, .. */
    tpj_value *label;         /* [N, L] */
    tpj_value *emission;      /* [T, N, L]: log_probs of the labels */
    tpj_value *inside;        /* [N, L]: the state belongs to the target */
} ctc;

static tpj_value *integer(tpj_hlo *h, int64_t value) { return hlo_integer(h, TPJ_I32, value); }
static tpj_value *minus_infinity(tpj_hlo *h, const tpj_value *x) { return hlo_number(h, x->type.dtype, -HUGE_VAL); }
static tpj_value *or_minus_infinity(tpj_hlo *h, tpj_value *where, tpj_value *x) {
    return hlo_select(h, where, x, minus_infinity(h, x));
}

/* [N] for each of [N, L] */
static tpj_value *per_state(const ctc *s, tpj_value *x) {
    const int64_t dims[] = {s->n, s->l}, mapping[] = {0};
    return hlo_broadcast_in_dim(s->h, x, 2, dims, mapping);
}

/* The states' predecessors: x[.., i - by], or successors for a negative `by`; `fill` where there is none. */
static tpj_value *shifted(const ctc *s, tpj_value *x, int64_t by, tpj_value *fill) {
    return hlo_pad_dim(s->h, x, fill, 1, by, -by);
}

/* ---- reading ---- */

static bool read_lengths(tpj_emit *e, ctc *s) {
    const char *const names[] = {"input_lengths", "target_lengths"};
    for (int i = 0; i < 2; i++) {
        tpj_type type = tpj_in_type(e, names[i]);
        if (!tpj_dtype_is_integral(type.dtype)) tpj_fail(e, TPJ_RUNTIME, "%s must be integral", names[i]);
        if (type.rank != 1 || type.dims[0] != s->n) {
            tpj_fail(e, TPJ_RUNTIME, "%s must be of size batch_size", names[i]);
            return false;
        }
    }
    s->inputs = tpj_in_as(e, "input_lengths", TPJ_I32);
    tpj_value *targets = tpj_in_as(e, "target_lengths", TPJ_I32);
    s->ends = hlo_add(s->h, targets, targets);
    return !hlo_failed(s->h);
}

/* Targets of rank 1 are one after the other: row n begins where the ones before it end. */
static tpj_value *target_rows(tpj_emit *e, const ctc *s, tpj_value *targets) {
    tpj_hlo *h = s->h;
    if (targets->type.rank == 2) return targets;
    const int64_t dims[] = {s->n, hlo_dim(targets, 0)}, mapping[] = {0};
    tpj_value *lengths = tpj_in_as(e, "target_lengths", TPJ_I32);
    tpj_value *start = hlo_sub(h, hlo_cumulative(h, "add", lengths, 0, false), lengths);
    tpj_value *at = hlo_add(h, hlo_broadcast_in_dim(h, start, 2, dims, mapping), hlo_iota(h, TPJ_I32, 2, dims, 1));
    return hlo_take(h, targets, at, 0);
}

/* Labels with blanks around them; blank, too, beyond a target's length, where anything may stand. */
static void read_labels(tpj_emit *e, ctc *s, tpj_value *targets) {
    tpj_hlo *h = s->h;
    const int64_t dims[] = {s->n, s->l}, low[] = {0, 1}, high[] = {0, 1}, interior[] = {0, 1};
    int64_t blank_label = tpj_int(e, "blank", 0);
    tpj_value *blank = hlo_integer(h, targets->type.dtype, blank_label);
    s->state = hlo_iota(h, TPJ_I32, 2, dims, 1);
    s->inside = hlo_compare(h, "LE", s->state, per_state(s, s->ends));
    s->label =
        hlo_dim(targets, 1) == 0 ? hlo_expand(h, blank, 2, dims) : hlo_pad(h, targets, blank, low, high, interior);
    s->label = hlo_select(h, s->inside, s->label, blank);
    s->label = tpj_index_argument(e, s->label, s->c, false);
    const int64_t all[] = {s->t, s->n, s->l}, mapping[] = {1, 2};
    s->emission = hlo_take_along(h, s->log_probs, hlo_broadcast_in_dim(h, s->label, 3, all, mapping), 2);
}

static bool ctc_read(tpj_emit *e, ctc *s) {
    tpj_hlo *h = s->h = tpj_builder(e);
    s->log_probs = tpj_in(e, "log_probs");
    tpj_value *targets = tpj_in(e, "targets");
    tpj_dtype dtype = s->log_probs->type.dtype;
    if (dtype != TPJ_F32 && dtype != TPJ_F64) tpj_fail_dtype(e, dtype);
    if (targets->type.dtype != TPJ_I32 && targets->type.dtype != TPJ_I64)
        tpj_fail(e, TPJ_RUNTIME, "Expected tensor for argument #2 'targets' to have scalar type Int or Long");
    if (s->log_probs->type.rank != 3) tpj_fail(e, TPJ_RUNTIME, "log_probs must have 3 dimensions");
    if (targets->type.rank != 1 && targets->type.rank != 2)
        tpj_fail(e, TPJ_RUNTIME, "targets must have 1 or 2 dimensions");
    if (hlo_failed(h)) return false;
    s->t = hlo_dim(s->log_probs, 0);
    s->n = hlo_dim(s->log_probs, 1);
    s->c = hlo_dim(s->log_probs, 2);
    int64_t blank = tpj_int(e, "blank", 0);
    if (blank < 0 || blank >= s->c) tpj_fail(e, TPJ_RUNTIME, "blank must be in label range");
    if (targets->type.rank == 2 && hlo_dim(targets, 0) != s->n)
        tpj_fail(e, TPJ_RUNTIME, "targets must have one row for each of the %lld examples", (long long)s->n);
    if (s->t == 0 || s->n == 0) tpj_fail(e, TPJ_RUNTIME, "log_probs tensor must not be empty");
    if (!read_lengths(e, s)) return false;
    targets = target_rows(e, s, targets);
    s->l = 2 * hlo_dim(targets, 1) + 1;
    read_labels(e, s, targets);
    return !hlo_failed(h);
}

/* ---- the recursions: log_alpha runs forward, from the states before; log_beta backward, from those behind ---- */

typedef struct recursion {
    const ctc *s;
    bool forward;
    tpj_value *skips; /* [N, L]: the state may be reached from the second next one */
    tpj_value *start; /* [N, L], BOOL: the states in which the recursion may start */
} recursion;

enum { STEP, LAST, TABLE, RECURSION_STATES }; /* LAST: [N, L] of the newest step; TABLE: [T, N, L] */

static void steps_left(tpj_hlo *h, tpj_value *const *state, tpj_value **results, void *context) {
    const recursion *r = context;
    results[0] = hlo_compare(h, "LT", state[STEP], integer(h, r->s->t));
}

/* log(exp(a) + exp(b) + exp(c)) */
static tpj_value *log_sum(tpj_hlo *h, tpj_value *a, tpj_value *b, tpj_value *c) {
    tpj_value *largest = hlo_max(h, hlo_max(h, a, b), c);
    largest =
        hlo_select(h, hlo_compare(h, "EQ", largest, minus_infinity(h, a)), hlo_number(h, a->type.dtype, 0), largest);
    tpj_value *sum = hlo_add(h, hlo_exp(h, hlo_sub(h, a, largest)), hlo_exp(h, hlo_sub(h, b, largest)));
    return hlo_add(h, hlo_log(h, hlo_add(h, sum, hlo_exp(h, hlo_sub(h, c, largest)))), largest);
}

static void step(tpj_hlo *h, tpj_value *const *state, tpj_value **results, void *context) {
    const recursion *r = context;
    const ctc *s = r->s;
    tpj_value *last = state[LAST], *none = minus_infinity(h, last), *zero = integer(h, 0);
    tpj_value *t = r->forward ? state[STEP] : hlo_sub(h, integer(h, s->t - 1), state[STEP]);
    const int64_t sizes[] = {1, s->n, s->l}, dims[] = {s->n, s->l};
    tpj_value *starts[] = {t, zero, zero};
    tpj_value *emission = hlo_reshape(h, hlo_dynamic_slice(h, s->emission, starts, sizes), 2, dims);
    int64_t by = r->forward ? 1 : -1;
    tpj_value *one_on = shifted(s, last, by, none), *two_on = shifted(s, last, 2 * by, none);
    tpj_value *next = hlo_add(h, log_sum(h, last, one_on, or_minus_infinity(h, r->skips, two_on)), emission);
    tpj_value *input_end = per_state(s, hlo_sub(h, s->inputs, integer(h, 1)));
    tpj_value *first = hlo_compare(h, "EQ", t, r->forward ? hlo_expand(h, zero, 2, dims) : input_end);
    next = hlo_select(h, first, or_minus_infinity(h, r->start, emission), next);
    next = or_minus_infinity(h, hlo_and(h, s->inside, hlo_compare(h, "LE", t, input_end)), next);
    results[STEP] = hlo_add(h, state[STEP], integer(h, 1));
    /* forward the states at the input's end stay */
    results[LAST] = r->forward ? hlo_select(h, hlo_compare(h, "LE", t, input_end), next, last) : next;
    results[TABLE] = hlo_dynamic_update_slice(h, state[TABLE], hlo_reshape(h, next, 3, sizes), starts);
}

static void run(const ctc *s, bool forward, tpj_value **out) {
    tpj_hlo *h = s->h;
    int64_t by = forward ? 2 : -2;
    tpj_value *none = minus_infinity(h, s->emission), *start;
    tpj_value *other = shifted(s, s->label, by, hlo_integer(h, s->label->type.dtype, -1));
    tpj_value *skips = hlo_compare(h, "NE", other, s->label);
    tpj_value *ends = per_state(s, s->ends);
    if (forward)
        start = hlo_and(h, hlo_compare(h, "LT", s->state, integer(h, 2)), s->inside);
    else
        start = hlo_and(h, hlo_compare(h, "GE", s->state, hlo_sub(h, ends, integer(h, 1))), s->inside);
    recursion r = {s, forward, skips, start};
    tpj_value *initial[] = {integer(h, 0), hlo_expand(h, none, 2, s->label->type.dims),
                            hlo_expand(h, none, 3, s->emission->type.dims)};
    hlo_while(h, initial, RECURSION_STATES, steps_left, step, &r, out);
}

/* ---- the rows ---- */

static void emit_ctc_loss(tpj_emit *e) {
    ctc s;
    if (!ctc_read(e, &s)) return;
    tpj_hlo *h = s.h;
    tpj_value *out[RECURSION_STATES];
    run(&s, true, out);
    tpj_value *ends = per_state(&s, s.ends);
    tpj_value *at_end = hlo_and(h, hlo_compare(h, "GE", s.state, hlo_sub(h, ends, integer(h, 1))), s.inside);
    tpj_value *last = or_minus_infinity(h, at_end, out[LAST]);
    tpj_value *largest = hlo_reduce_dim(h, "maximum", last, 1), *zero = hlo_number(h, last->type.dtype, 0);
    largest = hlo_select(h, hlo_compare(h, "EQ", largest, minus_infinity(h, last)), zero, largest);
    tpj_value *sum = hlo_reduce_dim(h, "add", hlo_exp(h, hlo_sub(h, last, per_state(&s, largest))), 1);
    tpj_value *loss = hlo_neg(h, hlo_add(h, hlo_log(h, sum), largest));
    /* no input has no loss without a target, and cannot be aligned with one */
    tpj_value *no_target = hlo_compare(h, "EQ", s.ends, integer(h, 0));
    tpj_value *no_input = hlo_select(h, no_target, hlo_full_like(h, loss, 0), hlo_full_like(h, loss, HUGE_VAL));
    tpj_out(e, hlo_select(h, hlo_compare(h, "EQ", s.inputs, integer(h, 0)), no_input, loss));
    tpj_out(e, hlo_swap(h, out[TABLE], 0, 1));
}

/* The gradient by the logits of a log_softmax: exp(log_probs) less the probability that an alignment is at a label. */
static void emit_ctc_loss_backward(tpj_emit *e) {
    ctc s;
    if (!ctc_read(e, &s)) return;
    tpj_hlo *h = s.h;
    tpj_dtype dtype = s.log_probs->type.dtype;
    const int64_t all[] = {s.t, s.n, s.l}, full[] = {s.t, s.n, s.c}, batch[] = {1}, states[] = {1, 2};
    tpj_value *log_alpha = hlo_swap(h, tpj_in_as(e, "log_alpha", dtype), 0, 1), *out[RECURSION_STATES];
    tpj_value *loss = tpj_in_as(e, "neg_log_likelihood", dtype), *grad = tpj_in_as(e, "grad", dtype);
    if (!hlo_failed(h) && hlo_dim(log_alpha, 2) != s.l) {
        tpj_fail(e, TPJ_RUNTIME, "log_alpha is not of these targets");
        return;
    }
    run(&s, false, out);
    /* both factors hold the emission */
    tpj_value *joint = hlo_sub(h, hlo_add(h, log_alpha, out[TABLE]), s.emission);
    tpj_value *possible = hlo_compare(h, "GT", hlo_add(h, log_alpha, out[TABLE]), minus_infinity(h, joint));
    joint = hlo_exp(h, hlo_add(h, joint, hlo_broadcast_in_dim(h, loss, 3, all, batch)));
    joint = hlo_select(h, possible, joint, hlo_number(h, dtype, 0));
    tpj_value *label = hlo_broadcast_in_dim(h, s.label, 3, all, states);
    tpj_value *occupied = tpj_scatter_along(h, "add", hlo_zeros(h, dtype, 3, full), 2, label, joint);
    tpj_value *y = hlo_sub(h, hlo_exp(h, s.log_probs), occupied);
    y = hlo_mul(h, y, hlo_broadcast_in_dim(h, grad, 3, full, batch));
    tpj_value *hopeless = hlo_compare(h, "EQ", loss, hlo_number(h, dtype, HUGE_VAL));
    double for_hopeless = tpj_bool(e, "zero_infinity", false) ? 0 : NAN;
    y = hlo_select(h, hlo_broadcast_in_dim(h, hopeless, 3, full, batch), hlo_number(h, dtype, for_hopeless), y);
    tpj_value *time = hlo_iota(h, TPJ_I32, 3, full, 0);
    tpj_value *within = hlo_compare(h, "LT", time, hlo_broadcast_in_dim(h, s.inputs, 3, full, batch));
    tpj_out(e, hlo_select(h, within, y, hlo_number(h, dtype, 0)));
}

const tpj_op_def tpj_ops_ctc[] = {
    {.name = "_ctc_loss.Tensor",
     .params = "T log_probs, T targets, T input_lengths, T target_lengths, I blank=0, B zero_infinity=false",
     .emit = emit_ctc_loss},
    {.name = "_ctc_loss_backward.Tensor",
     .params = "T grad, T log_probs, T targets, T input_lengths, T target_lengths, T neg_log_likelihood, T log_alpha, "
               "I blank, B zero_infinity=false",
     .emit = emit_ctc_loss_backward},
    {0},
};
