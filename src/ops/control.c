/* Control flow that PyTorch captures as higher-order ops: cond, while_loop, scan and map, with their graphs as text. */
#include "ops/control.h"

#include "base/arena.h"

/* ---- cond ---- */

typedef struct branches {
    tpj_nested *on_true, *on_false;
    tpj_value **operands;
    int n_operands;
} branches;

static void write_true(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)h, (void)arguments;
    const branches *b = context;
    tpj_nested_emit(b->on_true, b->operands, b->n_operands, results);
}

static void write_false(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)h, (void)arguments;
    const branches *b = context;
    tpj_nested_emit(b->on_false, b->operands, b->n_operands, results);
}

/* False after failing the op: the text of a graph has to say it. */
static bool result_type(tpj_emit *e, const tpj_nested *nested, int i, tpj_type *out_type) {
    *out_type = tpj_nested_result_type(nested, i);
    if (out_type->dtype != TPJ_N_DTYPES) return true;
    tpj_fail(e, TPJ_VALUE, "a graph does not say the type of its result %d", i);
    return false;
}

static void write_cond(tpj_emit *e, branches *b) {
    tpj_hlo *h = tpj_builder(e);
    int n = tpj_nested_n_results(b->on_true);
    tpj_type *types = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_type, n + 1);
    tpj_value **out = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, n + 1);
    tpj_value *predicate = tpj_in_as(e, "pred", TPJ_BOOL);
    if (types == NULL || out == NULL || predicate == NULL) return;
    if (tpj_nested_n_results(b->on_false) != n) {
        tpj_fail(e, TPJ_VALUE, "the branches have %d and %d results", n, tpj_nested_n_results(b->on_false));
        return;
    }
    for (int i = 0; i < n; i++)
        if (!result_type(e, b->on_true, i, &types[i])) return;
    hlo_if(h, hlo_reshape(h, predicate, 0, NULL), write_true, write_false, b, types, n, out);
    for (int i = 0; i < n; i++) tpj_out(e, out[i]);
}

static void emit_cond(tpj_emit *e) {
    branches b = {.on_true = tpj_nested_open(e, "true_graph"), .on_false = tpj_nested_open(e, "false_graph")};
    b.operands = tpj_in_list(e, "operands", &b.n_operands);
    if (b.on_true != NULL && b.on_false != NULL) write_cond(e, &b);
    tpj_nested_close(b.on_true);
    tpj_nested_close(b.on_false);
}

/* ---- while_loop ---- */

typedef struct loop {
    tpj_nested *condition, *body;
    int n_carried, n_all; /* what the body returns; and what it only reads, behind it */
} loop;

static void write_condition(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    const loop *l = context;
    tpj_value *more = NULL;
    tpj_nested_emit(l->condition, arguments, l->n_all, &more);
    if (more != NULL) results[0] = hlo_reshape(h, hlo_convert(h, more, TPJ_BOOL), 0, NULL);
}

static void write_body(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)h;
    const loop *l = context;
    tpj_nested_emit(l->body, arguments, l->n_all, results);
    for (int i = l->n_carried; i < l->n_all; i++) results[i] = arguments[i];
}

/* The elements of two or three lists, one after the other; NULL without memory. */
static tpj_value **join(tpj_emit *e, const char *const *names, int n_names, int *counts, int *out_n) {
    tpj_value **lists[4], **all;
    int n = 0;
    for (int i = 0; i < n_names; i++) {
        lists[i] = tpj_in_list(e, names[i], &counts[i]);
        n += counts[i];
    }
    all = TPJ_ARENA_ARRAY(hlo_arena(tpj_builder(e)), tpj_value *, n + 1);
    *out_n = 0;
    for (int i = 0; all != NULL && i < n_names; i++)
        for (int k = 0; lists[i] != NULL && k < counts[i]; k++) all[(*out_n)++] = lists[i][k];
    return all;
}

static void emit_while(tpj_emit *e) {
    static const char *const names[] = {"carried", "additional"};
    tpj_hlo *h = tpj_builder(e);
    int counts[2];
    loop l = {.condition = tpj_nested_open(e, "cond_graph"), .body = tpj_nested_open(e, "body_graph")};
    tpj_value **all = join(e, names, 2, counts, &l.n_all);
    l.n_carried = counts[0];
    tpj_value **out = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, l.n_all + 1);
    if (l.condition != NULL && l.body != NULL && all != NULL && out != NULL) {
        if (tpj_nested_n_results(l.body) != l.n_carried || tpj_nested_n_results(l.condition) != 1)
            tpj_fail(e, TPJ_VALUE, "the body returns %d of %d values", tpj_nested_n_results(l.body), l.n_carried);
        else
            hlo_while(h, all, l.n_all, write_condition, write_body, &l, out);
        for (int i = 0; i < l.n_carried && !hlo_failed(h); i++) tpj_out(e, out[i]);
    }
    tpj_nested_close(l.condition);
    tpj_nested_close(l.body);
}

/* ---- scan, map ---- */

/* The loop carries: the step's number, the state, the stacked results, the inputs that are cut into slices, the others. */
typedef struct scan {
    tpj_emit *e;
    tpj_nested *body;
    int n_state, n_stacked, n_xs, n_others, n_all;
    int64_t length;
} scan;

static void write_more(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    const scan *s = context;
    results[0] = hlo_compare(h, "LT", arguments[0], hlo_integer(h, TPJ_I32, s->length));
}

/* Where slice `step` of x begins: (step, 0, ..). */
static tpj_value **starts_of(tpj_hlo *h, tpj_value *step, int rank) {
    tpj_value **starts = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, rank + 1);
    for (int i = 0; starts != NULL && i < rank; i++) starts[i] = i == 0 ? step : hlo_integer(h, TPJ_I32, 0);
    return starts;
}

static tpj_value *slice_at(tpj_hlo *h, tpj_value *x, tpj_value *step) {
    int64_t *sizes = hlo_dims(h, x->type.rank);
    tpj_value **starts = starts_of(h, step, x->type.rank);
    if (sizes == NULL || starts == NULL) return x;
    for (int i = 0; i < x->type.rank; i++) sizes[i] = i == 0 ? 1 : x->type.dims[i];
    return hlo_squeeze(h, hlo_dynamic_slice(h, x, starts, sizes), 0);
}

static void write_step(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    const scan *s = context;
    tpj_value *step = arguments[0], *const *state = arguments + 1, *const *stacked = state + s->n_state,
              *const *xs = stacked + s->n_stacked, *const *others = xs + s->n_xs;
    int n_inputs = s->n_state + s->n_xs + s->n_others, n = 0, n_results = s->n_state + s->n_stacked;
    tpj_value **inputs = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, n_inputs + 1);
    tpj_value **made = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, n_results + 1);
    for (int i = 0; i < s->n_all; i++) results[i] = arguments[i];
    if (inputs == NULL || made == NULL) return;
    for (int i = 0; i < s->n_state; i++) inputs[n++] = state[i];
    for (int i = 0; i < s->n_xs; i++) inputs[n++] = slice_at(h, xs[i], step);
    for (int i = 0; i < s->n_others; i++) inputs[n++] = others[i];
    tpj_nested_emit(s->body, inputs, n_inputs, made);
    if (hlo_failed(h)) return;
    results[0] = hlo_add(h, step, hlo_integer(h, TPJ_I32, 1));
    for (int i = 0; i < s->n_state; i++) results[1 + i] = made[i];
    for (int i = 0; i < s->n_stacked; i++) {
        tpj_value *row = hlo_unsqueeze(h, made[s->n_state + i], 0);
        results[1 + s->n_state + i] =
            hlo_dynamic_update_slice(h, stacked[i], row, starts_of(h, step, stacked[i]->type.rank));
    }
}

/* Room for the results of all steps. */
static tpj_value *stack_of(tpj_hlo *h, tpj_type type, int64_t length) {
    int64_t *dims = hlo_dims(h, type.rank + 1);
    if (dims == NULL) return NULL;
    dims[0] = length;
    for (int i = 0; i < type.rank; i++) dims[i + 1] = type.dims[i];
    return hlo_zeros(h, type.dtype, type.rank + 1, dims);
}

static void write_scan(scan *s, tpj_value *const *given) {
    tpj_hlo *h = tpj_builder(s->e);
    s->n_stacked = tpj_nested_n_results(s->body) - s->n_state;
    s->n_all = 1 + s->n_state + s->n_stacked + s->n_xs + s->n_others;
    if (s->n_xs == 0 || s->n_stacked < 0) {
        tpj_fail(s->e, TPJ_VALUE, s->n_xs == 0 ? "there is nothing to go over" : "the state is more than the results");
        return;
    }
    s->length = given[s->n_state]->type.dims[0];
    tpj_value **all = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, s->n_all + 1);
    tpj_value **out = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, s->n_all + 1);
    if (all == NULL || out == NULL) return;
    int n = 0;
    all[n++] = hlo_integer(h, TPJ_I32, 0);
    for (int i = 0; i < s->n_state; i++) all[n++] = given[i];
    for (int i = 0; i < s->n_stacked; i++) {
        tpj_type type;
        if (!result_type(s->e, s->body, s->n_state + i, &type)) return;
        all[n++] = stack_of(h, type, s->length);
    }
    for (int i = 0; i < s->n_xs + s->n_others; i++) all[n++] = given[s->n_state + i];
    hlo_while(h, all, s->n_all, write_more, write_step, s, out);
    for (int i = 0; i < s->n_state + s->n_stacked; i++) tpj_out(s->e, out[1 + i]);
}

static void emit_scan(tpj_emit *e) {
    static const char *const names[] = {"init", "xs", "additional"};
    int counts[3], n;
    scan s = {.e = e, .body = tpj_nested_open(e, "combine_graph")};
    tpj_value **given = join(e, names, 3, counts, &n);
    s.n_state = counts[0];
    s.n_xs = counts[1];
    s.n_others = counts[2];
    if (s.body != NULL && given != NULL && !hlo_failed(tpj_builder(e))) write_scan(&s, given);
    tpj_nested_close(s.body);
}

const tpj_op_def tpj_ops_control[] = {
    {.name = "cond", .params = "T pred, Str true_graph, Str false_graph, T[] operands", .emit = emit_cond},
    {.name = "while_loop", .params = "Str cond_graph, Str body_graph, T[] carried, T[] additional", .emit = emit_while},
    {.name = "scan", .params = "Str combine_graph, T[] init, T[] xs, T[] additional", .emit = emit_scan},
    {0}};
