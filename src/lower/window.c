#include "lower/window.h"

#include <string.h>

#include "lower/lowering.h"

typedef struct window {
    tpj_lowering lowering;
    const tpj_window_call *calls;
    const tpj_window_slot *slots;
    int n_calls, n_slots;
    bool for_cpu;
    bool *written;            /* by slot */
    int *slow;                /* by slot: slow ops one after the other that made it, and would become one loop */
    tpj_value *random_states; /* u64[n, 2]; NULL: none are drawn */
} window;

static tpj_status *out_of_memory(void) { return tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory"); }

static void add_random_states(window *w, int n_random) {
    if (n_random == 0) return;
    int64_t dims[2] = {n_random, 2};
    tpj_lowering_add_parameter(&w->lowering, (tpj_parameter){TPJ_INPUT_RANDOM, 0, TPJ_U64, {TPJ_U64, 0, NULL}});
    w->random_states = hlo_parameter(w->lowering.h, TPJ_U64, 2, dims);
}

static tpj_value *random_state_of(window *w, const tpj_window_call *call) {
    static const int64_t two = 2;
    tpj_hlo *h = w->lowering.h;
    if (call->random < 0) return NULL;
    return hlo_reshape(h, hlo_slice_dim(h, w->random_states, 0, call->random, call->random + 1, 1), 1, &two);
}

/* Compilers for CPUs make one loop of all elementwise ops in a row. In a long one of slow ops each element waits for its own
 * chain of results: a loop of 20 tanh was seen to take seven times what loops of one or two take. Of more than MOST_SLOW, the value goes
 * through memory. */
enum { MOST_SLOW = 3 };

static int slow_ops(const window *w, const tpj_window_call *call, int n_own) {
    const tpj_graph *graph = call->graph;
    int n_nodes = tpj_graph_n_nodes(graph), most = 0;
    if (n_nodes != 1 || tpj_graph_node(graph, 0)->op->layout != TPJ_LAYOUT_POINTWISE) return 0;
    for (int i = 0; i < tpj_graph_n_inputs(graph); i++)
        if (tpj_graph_input(graph, i)->kind == TPJ_INPUT_BUFFER && w->slow[call->inputs[i]] > most)
            most = w->slow[call->inputs[i]];
    return most + n_own;
}

static tpj_value *limit_loop(window *w, int slot, tpj_value *value, int n_slow) {
    bool most = w->for_cpu && n_slow >= MOST_SLOW;
    w->slow[slot] = most ? 0 : n_slow;
    return most ? hlo_barrier(w->lowering.h, value) : value;
}

/* Puts what a call has written and made into the slots. */
static void take_outputs(window *w, const tpj_window_call *call, const tpj_output_values *outputs, int n_slow) {
    for (int i = 0; i < outputs->n; i++) {
        if (outputs->values[i] == NULL) continue;
        int slot = outputs->results[i].target >= 0 ? outputs->slots[i] : call->results[i];
        w->lowering.slots[slot].value = limit_loop(w, slot, outputs->values[i], n_slow);
        w->written[slot] = true;
    }
}

static tpj_status *add_call(window *w, const tpj_window_call *call) {
    tpj_lowering *lowering = &w->lowering;
    tpj_output_values outputs = {0};
    hlo_location(lowering->h, "window", call->file, call->line);
    lowering->random_state = random_state_of(w, call);
    lowering->slot_of = call->inputs;
    lowering->first_operand = call->first_operand;
    lowering->file = call->file;
    lowering->line = call->line;
    int before = hlo_slow_ops(lowering->h);
    TPJ_TRY(tpj_lowering_add(lowering, call->graph, call->options, &outputs));
    take_outputs(w, call, &outputs, slow_ops(w, call, hlo_slow_ops(lowering->h) - before));
    return NULL;
}

/* The results of the module: what is left in slots that are read later. */
static tpj_status *gather_results(window *w, tpj_output_values *out) {
    tpj_arena *arena = hlo_arena(w->lowering.h);
    out->results = TPJ_ARENA_ARRAY(arena, tpj_lowered_result, w->n_slots + 1);
    out->values = TPJ_ARENA_ARRAY(arena, tpj_value *, w->n_slots + 1);
    out->slots = TPJ_ARENA_ARRAY(arena, int, w->n_slots + 1);
    if (arena->failed) return out_of_memory();
    for (int i = 0; i < w->n_slots; i++) {
        tpj_value *value = w->lowering.slots[i].value;
        int parameter = w->lowering.slots[i].parameter;
        if (w->slots[i].live && w->written[i]) {
            size_t n_bytes = (size_t)hlo_elements(value) * tpj_dtype_bytes(value->type.dtype);
            out->results[out->n] =
                (tpj_lowered_result){.target = i, .type = value->type, .base = value->type, .n_bytes = n_bytes};
            out->values[out->n] = value;
            out->slots[out->n++] = i;
        } else if (parameter > 0 && w->slots[i].donate) {
            hlo_donate(w->lowering.h, parameter - 1, -1);
        }
    }
    return NULL;
}

static tpj_status *lower(window *w, int n_random, tpj_lowered *lowered, int *out_failed) {
    tpj_output_values results = {0};
    TPJ_TRY(tpj_lowering_begin(&w->lowering, w->n_slots));
    w->written = TPJ_ARENA_ARRAY(hlo_arena(w->lowering.h), bool, w->n_slots + 1);
    w->slow = TPJ_ARENA_ARRAY(hlo_arena(w->lowering.h), int, w->n_slots + 1);
    if (w->written == NULL || w->slow == NULL) return out_of_memory();
    add_random_states(w, n_random);
    for (*out_failed = 0; *out_failed < w->n_calls; ++*out_failed) TPJ_TRY(add_call(w, &w->calls[*out_failed]));
    *out_failed = -1;
    TPJ_TRY(gather_results(w, &results));
    lowered->description = tpj_arena_printf(lowered->memory, "a window of %d ops", w->n_calls);
    return tpj_lowering_finish(&w->lowering, &results, lowered);
}

tpj_status *tpj_lower_window(const tpj_window_call *calls, int n_calls, const tpj_window_slot *slots, int n_slots,
                             int n_random, bool for_cpu, tpj_lowered **out_lowered, int *out_failed) {
    window w = {.calls = calls, .slots = slots, .n_calls = n_calls, .n_slots = n_slots, .for_cpu = for_cpu};
    tpj_lowered *lowered = tpj_lowered_create();
    *out_failed = -1;
    tpj_status *status = lowered != NULL ? lower(&w, n_random, lowered, out_failed) : out_of_memory();
    tpj_lowering_end(&w.lowering);
    if (status != NULL)
        tpj_lowered_destroy(lowered);
    else
        *out_lowered = lowered;
    return status;
}
