#include "tpj/lower.h"

#include <stdlib.h>
#include <string.h>

#include "lower/lowering.h"
#include "lower/view.h"

/* ---- inputs ---- */

int tpj_lowering_add_parameter(tpj_lowering *lowering, tpj_parameter parameter) {
    if (lowering->n_parameters == lowering->capacity) {
        int capacity = lowering->capacity > 0 ? lowering->capacity * 2 : 8;
        tpj_parameter *grown = TPJ_ARENA_ARRAY(hlo_arena(lowering->h), tpj_parameter, capacity);
        if (grown == NULL) return 0;
        if (lowering->n_parameters > 0)
            memcpy(grown, lowering->parameters, sizeof *grown * (size_t)lowering->n_parameters);
        lowering->parameters = grown;
        lowering->capacity = capacity;
    }
    lowering->parameters[lowering->n_parameters] = parameter;
    return lowering->n_parameters++;
}

/* The input that stands for a buffer: the first of those that share it. */
static int buffer_owner(const tpj_lowering *lowering, int input) {
    int alias = tpj_graph_input(lowering->graph, input)->alias;
    return alias > 0 ? alias - 1 : input;
}

static int slot_of(const tpj_lowering *lowering, int input) {
    input = buffer_owner(lowering, input);
    return lowering->slot_of != NULL ? lowering->slot_of[input] : input;
}

tpj_value *tpj_lowering_buffer(tpj_lowering *lowering, int input) {
    int number = slot_of(lowering, input);
    tpj_slot_value *slot = &lowering->slots[number];
    if (slot->value == NULL) {
        const tpj_type *type = &tpj_graph_input(lowering->graph, buffer_owner(lowering, input))->type;
        tpj_parameter parameter = {TPJ_INPUT_BUFFER, number, type->dtype, *type};
        slot->parameter = 1 + tpj_lowering_add_parameter(lowering, parameter);
        slot->value = hlo_parameter(lowering->h, type->dtype, type->rank, type->dims);
    }
    return slot->value;
}

/* A view's plan and, where the offset is given at run time, the scalar that it comes in. False: failed. */
static bool plan_view(tpj_lowering *lowering, const tpj_type *base, const tpj_view *view, tpj_view_plan *out_plan,
                      tpj_value **out_offset) {
    int64_t units[2 * TPJ_VIEW_MAX_RANK], most[2 * TPJ_VIEW_MAX_RANK];
    *out_offset = NULL;
    tpj_status *status = tpj_view_make_plan(base, view, out_plan);
    if (status != NULL) {
        hlo_fail(lowering->h, tpj_status_code(status), "%s", tpj_status_message(status));
        tpj_status_destroy(status);
        return false;
    }
    int n = view->offset_input > 0 ? tpj_view_plan_room(out_plan, view, units, most) : 0;
    bool moves = false;
    for (int i = 0; i < n; i++) moves = moves || most[i] > 0;
    if (moves) *out_offset = tpj_lowering_scalar(lowering, view->offset_input - 1, tpj_view_offset_dtype(out_plan));
    /* a view that is read and written is planned twice, and alike */
    for (tpj_floating_view *f = lowering->floating; f != NULL; f = f->next)
        if (f->floating.input == view->offset_input - 1) n = 0;
    tpj_arena *arena = hlo_arena(lowering->h);
    tpj_floating_view *made = n > 0 ? TPJ_ARENA_NEW(arena, tpj_floating_view) : NULL;
    if (made == NULL) return !arena->failed;
    made->floating = (tpj_floating){view->offset_input - 1, n, tpj_arena_copy(arena, units, sizeof *units * (size_t)n),
                                    tpj_arena_copy(arena, most, sizeof *most * (size_t)n)};
    made->next = lowering->floating;
    lowering->floating = made;
    return !arena->failed;
}

static bool same_view(const tpj_view *a, const tpj_view *b) {
    size_t n_bytes = sizeof *a->sizes * (size_t)a->rank;
    return a->dtype == b->dtype && a->rank == b->rank && a->offset == b->offset && a->conj == b->conj &&
           a->neg == b->neg && a->offset_input == 0 && b->offset_input == 0 &&
           (n_bytes == 0 || (memcmp(a->sizes, b->sizes, n_bytes) == 0 && memcmp(a->strides, b->strides, n_bytes) == 0));
}

/* Whether no element of the buffer has two places in the view. */
static bool names_once(const tpj_view *view, const tpj_view_plan *plan) {
    bool once = !plan->gather;
    for (int i = 0; i < view->rank; i++) once = once && (view->strides[i] != 0 || view->sizes[i] == 1);
    return once;
}

/* Whether the buffer, which is the slot's value, was last written through this very view. */
static bool is_part(const tpj_slot_value *slot, const tpj_value *buffer, const tpj_view *view) {
    return slot->after != NULL && slot->after == buffer && view != NULL && same_view(slot->view, view);
}

/* The elements of an input's buffer that it names. */
static tpj_value *read_input(tpj_lowering *lowering, int number) {
    const tpj_input *input = tpj_graph_input(lowering->graph, number);
    const tpj_slot_value *slot = &lowering->slots[slot_of(lowering, number)];
    if (is_part(slot, slot->value, input->view)) return slot->part;
    tpj_value *buffer = tpj_lowering_buffer(lowering, number), *offset, like = {.type = input->type};
    const tpj_view *view = input->view;
    if (view == NULL && buffer->type.dtype == input->type.dtype && hlo_same_dims(buffer, &like)) return buffer;
    /* one buffer under two types: this input's is a view of the first one's */
    int64_t *strides = hlo_dims(lowering->h, input->type.rank);
    tpj_view whole = {
        .dtype = input->type.dtype, .rank = input->type.rank, .sizes = input->type.dims, .strides = strides};
    if (view == NULL && strides != NULL) {
        tpj_contiguous_strides(whole.rank, whole.sizes, strides);
        view = &whole;
    }
    tpj_view_plan plan;
    if (view == NULL || !plan_view(lowering, &buffer->type, view, &plan, &offset)) return buffer;
    return tpj_view_read(lowering->h, buffer, view, &plan, offset);
}

tpj_value *tpj_lowering_scalar(tpj_lowering *lowering, int input, tpj_dtype dtype) {
    /* the host makes numbers in the widths that C has; the program rounds to the narrow ones */
    tpj_dtype made_in = tpj_dtype_is_opaque(dtype) ? TPJ_F32 : tpj_compute_dtype(dtype);
    if (made_in != dtype) return hlo_convert(lowering->h, tpj_lowering_scalar(lowering, input, made_in), dtype);
    for (tpj_scalar_value *s = lowering->scalars; s != NULL; s = s->next)
        if (s->input == input && s->dtype == dtype) return s->value;
    tpj_scalar_value *made = TPJ_ARENA_NEW(hlo_arena(lowering->h), tpj_scalar_value);
    int number = lowering->first_operand + input;
    tpj_lowering_add_parameter(lowering, (tpj_parameter){.kind = TPJ_INPUT_SCALAR, .input = number, .dtype = dtype});
    tpj_value *value = hlo_parameter(lowering->h, dtype, 0, NULL);
    if (made != NULL) {
        *made = (tpj_scalar_value){input, dtype, value, lowering->scalars};
        lowering->scalars = made;
    }
    return value;
}

tpj_value *tpj_lowering_report(tpj_lowering *lowering) {
    if (lowering->report == NULL) {
        tpj_lowering_add_parameter(lowering,
                                   (tpj_parameter){.kind = TPJ_INPUT_SCALAR, .input = TPJ_REPORT, .dtype = TPJ_I64});
        lowering->report = hlo_parameter(lowering->h, TPJ_I64, 0, NULL);
    }
    return lowering->report;
}

bool tpj_lowering_is_number(const tpj_lowering *lowering, tpj_ref ref) {
    return ref.node == TPJ_INPUT && tpj_graph_input(lowering->graph, ref.result)->number;
}

tpj_value *tpj_lowering_value(tpj_lowering *lowering, tpj_ref ref, tpj_dtype number_dtype) {
    if (ref.node != TPJ_INPUT) return lowering->results[ref.node][ref.result];
    const tpj_input *input = tpj_graph_input(lowering->graph, ref.result);
    if (input->kind == TPJ_INPUT_SCALAR) {
        tpj_dtype dtype = number_dtype == TPJ_N_DTYPES ? input->type.dtype : number_dtype;
        return tpj_lowering_scalar(lowering, ref.result, dtype);
    }
    tpj_value **slot = &lowering->inputs[ref.result];
    if (*slot == NULL) *slot = read_input(lowering, ref.result);
    return *slot;
}

/* ---- nodes ---- */

static void describe_types(const tpj_lowering *lowering, const tpj_node *node, tpj_text *text) {
    tpj_text_printf(text, "%s(", node->op->name);
    int n = 0;
    for (int i = 0; i < node->n_args; i++) {
        const tpj_arg *arg = &node->args[i];
        int count = arg->kind == TPJ_ARG_VALUES ? (arg->n < 4 ? arg->n : 4) : arg->kind == TPJ_ARG_VALUE ? 1 : 0;
        for (int k = 0; k < count; k++) {
            tpj_ref ref = arg->kind == TPJ_ARG_VALUES ? arg->values[k] : arg->value;
            tpj_type type = {.dtype = TPJ_N_DTYPES};
            bool number = false;
            if (ref.node == TPJ_INPUT) {
                const tpj_input *input = tpj_graph_input(lowering->graph, ref.result);
                number = input->kind == TPJ_INPUT_SCALAR;
                type = input->view != NULL ? (tpj_type){input->view->dtype, input->view->rank, input->view->sizes}
                                           : input->type;
            } else if (ref.node >= 0 && lowering->results[ref.node] != NULL &&
                       lowering->results[ref.node][ref.result] != NULL) {
                type = lowering->results[ref.node][ref.result]->type;
            }
            if (type.dtype == TPJ_N_DTYPES) continue;
            tpj_text_add(text, n++ > 0 ? ", " : "");
            if (number) {
                tpj_text_add(text, "number");
                continue;
            }
            tpj_text_printf(text, "%s[", tpj_dtype_name(type.dtype));
            tpj_text_integers(text, type.dims, (size_t)type.rank);
            tpj_text_add(text, "]");
        }
        if (arg->kind == TPJ_ARG_VALUES && arg->n > 4) tpj_text_add(text, ", ..");
    }
    tpj_text_add(text, ")");
}

bool tpj_lowering_float8(const tpj_node *node) {
    if (node->op->flags & TPJ_OP_FLOAT8) return true;
    for (int i = 0; i < node->n_args; i++)
        if (node->args[i].kind == TPJ_ARG_DTYPE) return !tpj_dtype_is_float8(node->args[i].dtype);
    return false;
}

/* Says which of several nodes failed; whoever calls a single op knows the line. Takes the status. */
static tpj_status *at_line(tpj_status *status, const tpj_node *node) {
    if (node->file == NULL) return status;
    tpj_status *located = tpj_status_create(tpj_status_code(status), "%s\n  at %s:%d", tpj_status_message(status),
                                            node->file, node->line);
    tpj_status_destroy(status);
    return located;
}

static tpj_status *emit_node(tpj_lowering *lowering, int index, bool count_only) {
    const tpj_node *node = tpj_graph_node(lowering->graph, index);
    tpj_emit e = {.lowering = lowering, .h = lowering->h, .node = node};
    bool placed = lowering->file != NULL;
    hlo_location(lowering->h, node->op->name, placed ? lowering->file : node->file,
                 placed ? lowering->line : node->line);
    hlo_allow_float8(lowering->h, tpj_lowering_float8(node));
    if (count_only)
        node->op->count(&e);
    else
        node->op->emit(&e);
    if (hlo_failed(lowering->h)) {
        tpj_text text = {0};
        describe_types(lowering, node, &text);
        tpj_status *status = tpj_status_annotate(hlo_take_status(lowering->h), "%s", tpj_text_string(&text));
        tpj_text_destroy(&text);
        return tpj_graph_n_nodes(lowering->graph) > 1 ? at_line(status, node) : status;
    }
    lowering->results[index] = e.results;
    lowering->n_results[index] = e.n_results;
    lowering->by_columns[index] = e.by_columns;
    return NULL;
}

/* ---- outputs ---- */

static bool can_cast(tpj_dtype from, tpj_dtype to) {
    tpj_class a = tpj_dtype_class(from), b = tpj_dtype_class(to);
    if (a == TPJ_CLASS_COMPLEX && b != TPJ_CLASS_COMPLEX) return false;
    if (a == TPJ_CLASS_FLOAT && b < TPJ_CLASS_FLOAT) return false;
    return !(b == TPJ_CLASS_BOOL && a != TPJ_CLASS_BOOL);
}

/* A value written into an input's storage: converted, expanded, put in place. */
static tpj_value *write_target(tpj_lowering *lowering, const tpj_output *output, tpj_value *value, bool check_cast) {
    tpj_hlo *h = lowering->h;
    const tpj_input *input = tpj_graph_input(lowering->graph, output->target);
    const tpj_view *view = output->view;
    tpj_type type = view != NULL ? (tpj_type){view->dtype, view->rank, view->sizes} : input->type;
    if (check_cast && !can_cast(value->type.dtype, type.dtype))
        return hlo_fail(h, TPJ_RUNTIME, "result type %s can't be cast to the desired output type %s",
                        tpj_dtype_torch_name(value->type.dtype), tpj_dtype_torch_name(type.dtype));
    value = hlo_expand(h, hlo_convert(h, value, type.dtype), type.rank, type.dims);
    if (view == NULL) return value;
    int order[TPJ_VIEW_MAX_RANK];
    tpj_value like = {.type = input->type};
    int64_t n_elements = hlo_elements(&like);
    if (view->dtype == input->type.dtype && !view->conj && !view->neg && tpj_view_is_dense(view, n_elements, order)) {
        int64_t permutation[TPJ_VIEW_MAX_RANK];
        for (int i = 0; i < view->rank; i++) permutation[i] = order[i];
        return hlo_reshape(h, hlo_transpose(h, value, permutation), input->type.rank, input->type.dims);
    }
    int owner = buffer_owner(lowering, output->target);
    tpj_value *buffer = lowering->written[owner], *offset;
    if (buffer == NULL) buffer = tpj_lowering_buffer(lowering, owner);
    tpj_slot_value *slot = &lowering->slots[slot_of(lowering, owner)];
    if (is_part(slot, buffer, view)) buffer = slot->before;
    tpj_view_plan plan;
    if (!plan_view(lowering, &buffer->type, view, &plan, &offset)) return buffer;
    tpj_value *after = tpj_view_write(h, buffer, view, &plan, offset, value);
    if (!names_once(view, &plan)) return after;
    slot->before = buffer;
    slot->after = after;
    slot->part = value;
    slot->view = view;
    return after;
}

/* A value of its own in the order of memory. */
static tpj_value *new_result(tpj_lowering *lowering, tpj_value *value, const int *order, tpj_lowered_result *result) {
    int rank = value->type.rank;
    int64_t *strides = hlo_dims(lowering->h, rank), *permutation = hlo_dims(lowering->h, rank);
    if (strides == NULL || permutation == NULL) return value;
    int64_t stride = 1;
    for (int k = rank - 1; k >= 0; k--) {
        int dim = order != NULL ? order[k] : k;
        permutation[k] = dim;
        strides[dim] = stride;
        stride *= value->type.dims[dim] > 1 ? value->type.dims[dim] : 1;
    }
    result->type = value->type;
    result->strides = strides;
    return hlo_transpose(lowering->h, value, permutation);
}

static tpj_status *add_output(tpj_lowering *lowering, const tpj_output *output, const int *order, bool check_cast,
                              tpj_output_values *out) {
    tpj_lowered_result *result = &out->results[out->n];
    tpj_value *value = tpj_lowering_value(lowering, output->value, TPJ_N_DTYPES);
    result->target = output->target;
    result->none = value == NULL;
    out->slots[out->n] = -1;
    if (value != NULL && output->target >= 0) {
        int owner = buffer_owner(lowering, output->target), *writer = &lowering->writers[owner];
        value = write_target(lowering, output, value, check_cast);
        result->type = result->base = value->type;
        lowering->written[owner] = value;
        out->slots[out->n] = slot_of(lowering, owner);
        if (*writer > 0) { /* an earlier output wrote another part of this buffer, and is in what this one returns */
            out->results[*writer - 1].none = true;
            out->values[*writer - 1] = NULL;
        }
        *writer = out->n + 1;
    } else if (value != NULL) {
        value = new_result(lowering, value, order, result);
        result->base = value->type;
    }
    if (value != NULL) result->n_bytes = (size_t)hlo_elements(value) * tpj_dtype_bytes(value->type.dtype);
    out->values[out->n++] = value;
    return hlo_take_status(lowering->h);
}

/* The memory order that an op gives its result (`buffer`), or NULL. */
static const int *order_of_op(tpj_lowering *lowering, tpj_ref ref, int *buffer) {
    const tpj_value *value = ref.node >= 0 ? lowering->results[ref.node][ref.result] : NULL;
    if (value == NULL) return NULL;
    bool columns = ref.result < 64 && (lowering->by_columns[ref.node] >> ref.result & 1) != 0;
    bool ordered = columns ? tpj_layout_columns(value, buffer)
                           : tpj_layout_order(lowering, tpj_graph_node(lowering->graph, ref.node), value, buffer);
    return ordered ? buffer : NULL;
}

static tpj_status *add_outputs(tpj_lowering *lowering, tpj_output_values *out) {
    hlo_allow_float8(lowering->h, true); /* a result is converted to its target's dtype */
    const tpj_graph *graph = lowering->graph;
    int n = tpj_graph_n_outputs(graph), last = tpj_graph_n_nodes(graph) - 1;
    int n_implied = n > 0 || last < 0 ? 0 : lowering->n_results[last];
    tpj_arena *arena = hlo_arena(lowering->h);
    int capacity = n + n_implied + 1;
    out->results = TPJ_ARENA_ARRAY(arena, tpj_lowered_result, capacity);
    out->values = TPJ_ARENA_ARRAY(arena, tpj_value *, capacity);
    out->slots = TPJ_ARENA_ARRAY(arena, int, capacity);
    out->n = 0;
    if (arena->failed) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    for (int i = 0; i < n; i++) {
        const tpj_output *output = tpj_graph_output(graph, i);
        const tpj_node *node = output->value.node >= 0 ? tpj_graph_node(graph, output->value.node) : NULL;
        bool check_cast = node != NULL && !(node->op->flags & TPJ_OP_SAME_DTYPE);
        int buffer[TPJ_VIEW_MAX_RANK];
        const int *order = output->order_of_op ? order_of_op(lowering, output->value, buffer) : output->order;
        TPJ_TRY(add_output(lowering, output, order, check_cast, out));
    }
    for (int i = 0; i < n_implied; i++) {
        tpj_output output = {.value = {last, i}, .target = -1};
        int buffer[TPJ_VIEW_MAX_RANK];
        TPJ_TRY(add_output(lowering, &output, order_of_op(lowering, output.value, buffer), false, out));
    }
    return NULL;
}

/* ---- the whole ---- */

static tpj_type copy_type(tpj_arena *arena, tpj_type type) {
    type.dims = tpj_arena_copy(arena, type.dims, sizeof(int64_t) * (size_t)type.rank);
    return type;
}

/* A result that takes a buffer's place is row-major: the builder gives it no strides. */
static const int64_t *copy_strides(tpj_arena *arena, const tpj_lowered_result *result) {
    int rank = result->type.rank;
    if (result->strides != NULL) return tpj_arena_copy(arena, result->strides, sizeof(int64_t) * (size_t)rank);
    int64_t *strides = TPJ_ARENA_ARRAY(arena, int64_t, rank + 1);
    if (strides != NULL && result->type.dims != NULL) tpj_contiguous_strides(rank, result->type.dims, strides);
    return strides;
}

/* What outlives the builder, in one arena of its own. */
static tpj_status *copy_facts(tpj_lowering *lowering, const tpj_output_values *outputs, tpj_lowered *lowered) {
    tpj_arena *arena = lowered->memory;
    lowered->n_parameters = lowering->n_parameters;
    lowered->parameters =
        tpj_arena_copy(arena, lowering->parameters, sizeof(tpj_parameter) * (size_t)lowering->n_parameters);
    for (int i = 0; lowered->parameters != NULL && i < lowered->n_parameters; i++)
        lowered->parameters[i].type = copy_type(arena, lowered->parameters[i].type);
    lowered->n_results = outputs->n;
    lowered->results = tpj_arena_copy(arena, outputs->results, sizeof(tpj_lowered_result) * (size_t)outputs->n);
    for (int i = 0; lowered->results != NULL && i < outputs->n; i++) {
        tpj_lowered_result *result = &lowered->results[i];
        if (result->none) continue;
        result->type = copy_type(arena, result->type);
        result->base = copy_type(arena, result->base);
        result->strides = copy_strides(arena, result);
    }
    lowered->n_checks = lowering->n_checks;
    lowered->reports = lowering->report != NULL;
    lowered->checks = TPJ_ARENA_ARRAY(arena, tpj_index_check, lowered->n_checks + 1);
    int i = 0;
    for (tpj_check_value *c = lowering->checks; lowered->checks != NULL && c != NULL; c = c->next) {
        lowered->checks[i] = c->check;
        if (c->check.file != NULL) lowered->checks[i].file = tpj_arena_string(arena, c->check.file);
        i++;
    }
    for (tpj_required_number *r = lowering->required; r != NULL; r = r->next) lowered->n_requirements++;
    lowered->requirements = TPJ_ARENA_ARRAY(arena, tpj_requirement, lowered->n_requirements + 1);
    i = 0;
    for (tpj_required_number *r = lowering->required; lowered->requirements != NULL && r != NULL; r = r->next)
        lowered->requirements[i++] = r->requirement;
    for (tpj_floating_view *f = lowering->floating; f != NULL; f = f->next) lowered->n_floating++;
    lowered->floating = TPJ_ARENA_ARRAY(arena, tpj_floating, lowered->n_floating + 1);
    i = 0;
    for (tpj_floating_view *f = lowering->floating; lowered->floating != NULL && f != NULL; f = f->next, i++) {
        lowered->floating[i] = f->floating;
        lowered->floating[i].units = tpj_arena_copy(arena, f->floating.units, sizeof(int64_t) * (size_t)f->floating.n);
        lowered->floating[i].most = tpj_arena_copy(arena, f->floating.most, sizeof(int64_t) * (size_t)f->floating.n);
    }
    lowered->random_count = lowering->random_count;
    return arena->failed ? tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory") : NULL;
}

tpj_status *tpj_lowering_begin(tpj_lowering *lowering, int n_slots) {
    *lowering = (tpj_lowering){.checks_end = &lowering->checks};
    TPJ_TRY(hlo_create(&lowering->h));
    lowering->slots = TPJ_ARENA_ARRAY(hlo_arena(lowering->h), tpj_slot_value, n_slots + 1);
    return lowering->slots != NULL ? NULL : tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory");
}

void tpj_lowering_end(tpj_lowering *lowering) { hlo_destroy(lowering->h); }

static tpj_status *open_graph(tpj_lowering *lowering, const tpj_graph *graph, const tpj_lower_options *options) {
    static const tpj_lower_options defaults;
    tpj_arena *arena = hlo_arena(lowering->h);
    size_t n_inputs = (size_t)tpj_graph_n_inputs(graph) + 1, n_nodes = (size_t)tpj_graph_n_nodes(graph) + 1;
    lowering->graph = graph;
    lowering->options = options != NULL ? options : &defaults;
    hlo_set_for_cpu(lowering->h, lowering->options->for_cpu);
    hlo_set_precision(lowering->h, lowering->options->precision != NULL ? lowering->options->precision : "HIGHEST");
    lowering->written = TPJ_ARENA_ARRAY(arena, tpj_value *, n_inputs);
    lowering->writers = TPJ_ARENA_ARRAY(arena, int, n_inputs);
    lowering->inputs = TPJ_ARENA_ARRAY(arena, tpj_value *, n_inputs);
    lowering->results = TPJ_ARENA_ARRAY(arena, tpj_value **, n_nodes);
    lowering->n_results = TPJ_ARENA_ARRAY(arena, int, n_nodes);
    lowering->by_columns = TPJ_ARENA_ARRAY(arena, uint64_t, n_nodes);
    lowering->scalars = NULL;
    lowering->required = NULL;
    lowering->floating = NULL;
    lowering->random_count = 0;
    return arena->failed ? tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory") : NULL;
}

static tpj_status *annotate_with_types(tpj_lowering *lowering, tpj_status *status) {
    int n_nodes = tpj_graph_n_nodes(lowering->graph);
    if (status == NULL || n_nodes == 0) return status;
    tpj_text text = {0};
    describe_types(lowering, tpj_graph_node(lowering->graph, n_nodes - 1), &text);
    status = tpj_status_annotate(status, "%s", tpj_text_string(&text));
    tpj_text_destroy(&text);
    return status;
}

tpj_status *tpj_lowering_add(tpj_lowering *lowering, const tpj_graph *graph, const tpj_lower_options *options,
                             tpj_output_values *out) {
    TPJ_TRY(open_graph(lowering, graph, options));
    int n_nodes = tpj_graph_n_nodes(graph);
    for (int i = 0; i < n_nodes; i++)
        TPJ_TRY(emit_node(lowering, i, lowering->options->count_only && i == n_nodes - 1));
    return annotate_with_types(lowering, add_outputs(lowering, out));
}

tpj_status *tpj_lowering_nest(tpj_lowering *lowering, const tpj_graph *graph, const tpj_lower_options *options,
                              tpj_value *const *inputs, tpj_value **out) {
    TPJ_TRY(open_graph(lowering, graph, options));
    for (int i = 0; i < tpj_graph_n_inputs(graph); i++) lowering->inputs[i] = inputs[i];
    for (int i = 0; i < tpj_graph_n_nodes(graph); i++) TPJ_TRY(emit_node(lowering, i, false));
    for (int i = 0; i < tpj_graph_n_outputs(graph); i++)
        out[i] = tpj_lowering_value(lowering, tpj_graph_output(graph, i)->value, TPJ_N_DTYPES);
    return NULL;
}

/* One result for all of them: each that a launch has costs the host. */
static tpj_value *checks_as_one(tpj_lowering *lowering) {
    tpj_value **values = TPJ_ARENA_ARRAY(hlo_arena(lowering->h), tpj_value *, lowering->n_checks);
    if (values == NULL) return hlo_fail(lowering->h, TPJ_OUT_OF_MEMORY, "out of host memory");
    int n = 0;
    for (tpj_check_value *c = lowering->checks; c != NULL; c = c->next) values[n++] = c->value;
    return n == 1 ? values[0] : hlo_concatenate(lowering->h, values, n, 0);
}

tpj_status *tpj_lowering_finish(tpj_lowering *lowering, const tpj_output_values *outputs, tpj_lowered *lowered) {
    int n = 0;
    tpj_value **values = TPJ_ARENA_ARRAY(hlo_arena(lowering->h), tpj_value *, outputs->n + 1);
    if (values == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    for (int i = 0; i < outputs->n; i++) {
        int slot = outputs->slots[i];
        if (outputs->values[i] == NULL) continue;
        if (slot >= 0 && lowering->slots[slot].parameter > 0)
            hlo_donate(lowering->h, lowering->slots[slot].parameter - 1, n);
        values[n++] = outputs->values[i];
    }
    if (lowering->n_checks > 0 && lowering->report == NULL) values[n++] = checks_as_one(lowering);
    TPJ_TRY(copy_facts(lowering, outputs, lowered));
    return hlo_finish(lowering->h, "main", values, n, &lowered->module, &lowered->module_length);
}

/* The random state must be a parameter before any op asks for it: ops find it by the graph's RANDOM input. */
static void add_random_state(tpj_lowering *lowering, const tpj_graph *graph) {
    static const int64_t two = 2;
    for (int i = 0; i < tpj_graph_n_inputs(graph); i++) {
        if (tpj_graph_input(graph, i)->kind != TPJ_INPUT_RANDOM) continue;
        tpj_lowering_add_parameter(lowering, (tpj_parameter){.kind = TPJ_INPUT_RANDOM, .input = i, .dtype = TPJ_U64});
        lowering->random_state = hlo_parameter(lowering->h, TPJ_U64, 1, &two);
        return;
    }
}

static tpj_status *describe_last(tpj_lowering *lowering, tpj_lowered *lowered) {
    int n_nodes = tpj_graph_n_nodes(lowering->graph);
    if (n_nodes == 0) return NULL;
    tpj_text text = {0};
    describe_types(lowering, tpj_graph_node(lowering->graph, n_nodes - 1), &text);
    lowered->description = tpj_arena_string(lowered->memory, tpj_text_string(&text));
    tpj_text_destroy(&text);
    return lowered->description != NULL ? NULL : tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory");
}

tpj_status *tpj_lower_graph(const tpj_graph *graph, const tpj_lower_options *options, tpj_lowered **out_lowered) {
    tpj_status *status = NULL;
    tpj_lowering lowering = {0};
    tpj_output_values outputs = {0};
    tpj_lowered *lowered = tpj_lowered_create();
    if (lowered == NULL) {
        status = tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory");
        goto done;
    }
    TPJ_TRY_GOTO(tpj_lowering_begin(&lowering, tpj_graph_n_inputs(graph)));
    add_random_state(&lowering, graph);
    TPJ_TRY_GOTO(tpj_lowering_add(&lowering, graph, options, &outputs));
    TPJ_TRY_GOTO(describe_last(&lowering, lowered));
    TPJ_TRY_GOTO(tpj_lowering_finish(&lowering, &outputs, lowered));
    *out_lowered = lowered;
    lowered = NULL;
done:
    tpj_lowering_end(&lowering);
    tpj_lowered_destroy(lowered);
    return status;
}

tpj_lowered *tpj_lowered_create(void) {
    tpj_lowered *lowered = calloc(1, sizeof *lowered);
    if (lowered == NULL) return NULL;
    lowered->memory = calloc(1, sizeof(tpj_arena));
    if (lowered->memory == NULL) {
        free(lowered);
        return NULL;
    }
    return lowered;
}

void tpj_lowered_destroy(tpj_lowered *lowered) {
    if (lowered == NULL) return;
    if (lowered->memory != NULL) tpj_arena_destroy(lowered->memory);
    free(lowered->memory);
    free(lowered->module);
    free(lowered);
}
