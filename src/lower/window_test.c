/* Windows as text: which values leave the module, what is a parameter, what is donated. */
#include "lower/window.h"

#include <stdio.h>
#include <stdlib.h>

#include "runner.h"

enum { MOST = 8 };

typedef struct fixture {
    tpj_graph *graphs[MOST];
    tpj_window_call calls[MOST];
    tpj_window_slot slots[MOST];
    int inputs[MOST][MOST], results[MOST][MOST];
    int n_calls, n_slots, n_random, n_numbers;
    tpj_lowered *lowered;
    bool for_cpu;
    int failed;
} fixture;

/* Adds a call: the slots of its inputs (-1 for numbers), and that of its first new result (-1: none). */
static bool add(fixture *f, const char *text, const int *inputs, int n_inputs, int result) {
    int k = f->n_calls;
    if (!test_status_is(tpj_graph_parse(text, strlen(text), &f->graphs[k]), TPJ_OK, "")) return false;
    memcpy(f->inputs[k], inputs, sizeof *inputs * (size_t)n_inputs);
    f->results[k][0] = result;
    f->calls[k] = (tpj_window_call){.graph = f->graphs[k],
                                    .inputs = f->inputs[k],
                                    .results = f->results[k],
                                    .first_operand = f->n_numbers,
                                    .random = -1};
    f->n_numbers += n_inputs;
    f->n_calls++;
    return true;
}

static tpj_status *lower(fixture *f) {
    return tpj_lower_window(f->calls, f->n_calls, f->slots, f->n_slots, f->n_random, f->for_cpu, &f->lowered,
                            &f->failed);
}

static void close_fixture(fixture *f) {
    for (int i = 0; i < f->n_calls; i++) tpj_graph_destroy(f->graphs[i]);
    tpj_lowered_destroy(f->lowered);
}

static int count(const char *text, const char *part) {
    int n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) n++;
    return n;
}

static const char add_number[] = "graph {\n  %0 = input f32[4, 6]\n  %1 = scalar f64 number\n"
                                 "  %2 = add.Tensor(self=%0, other=%1, alpha=1)\n}\n";
static const char add_in_place[] = "graph {\n  %0 = input f32[4, 6]\n  %1 = scalar f64 number\n"
                                   "  %2 = add.Tensor(self=%0, other=%1, alpha=1)\n  write %2 -> %0\n}\n";
static const char multiply[] = "graph {\n  %0 = input f32[4, 6]\n  %1 = input f32[4, 6]\n"
                               "  %2 = mul.Tensor(self=%0, other=%1)\n}\n";
static const char rows_in_place[] =
    "graph {\n  %0 = input f32[4, 6] view(f32[2, 6] strides=[6, 1] offset=6)\n  %1 = scalar f64 number\n"
    "  %2 = add.Tensor(self=%0, other=%1, alpha=1)\n  write %2 -> %0 view(f32[2, 6] strides=[6, 1] offset=6)\n}\n";
static const char rand_text[] = "graph {\n  %0 = random\n  %1 = rand(size=[4, 6])\n}\n";

TEST(window_values_that_die_stay_inside) {
    fixture f = {.n_slots = 4};
    CHECK(add(&f, add_number, (int[]){0, -1}, 2, 1));
    CHECK(add(&f, multiply, (int[]){1, 0}, 2, 2));
    CHECK(add(&f, multiply, (int[]){2, 2}, 2, 3));
    f.slots[0].live = f.slots[3].live = true; /* 0 is not written: no result */
    CHECK_OK(lower(&f));
    CHECK_INT(f.lowered->n_results, 1);
    CHECK_INT(f.lowered->results[0].target, 3);
    CHECK_INT(f.lowered->results[0].n_bytes, 96);
    CHECK_INT(f.lowered->n_parameters, 2);
    CHECK(f.lowered->parameters[0].kind == TPJ_INPUT_BUFFER && f.lowered->parameters[0].input == 0);
    CHECK(f.lowered->parameters[1].kind == TPJ_INPUT_SCALAR && f.lowered->parameters[1].input == 1);
    CHECK(strstr(f.lowered->module, "arg_attrs") == NULL);
    close_fixture(&f);
}

TEST(window_writes_are_donated_and_chained) {
    fixture f = {.n_slots = 2};
    CHECK(add(&f, add_in_place, (int[]){0, -1}, 2, -1));
    CHECK(add(&f, add_in_place, (int[]){0, -1}, 2, -1));
    CHECK(add(&f, multiply, (int[]){0, 0}, 2, 1));
    f.slots[0].live = f.slots[1].live = true;
    CHECK_OK(lower(&f));
    CHECK_INT(f.lowered->n_results, 2);
    CHECK(f.lowered->results[0].target == 0 && f.lowered->results[1].target == 1);
    CHECK_INT(f.lowered->n_parameters, 3); /* one buffer and two numbers */
    CHECK_INT(f.lowered->parameters[2].input, 3);
    CHECK(strstr(f.lowered->module, "arg_attrs = [{tf.aliasing_output = 0 : i32}, {}, {}]") != NULL);
    close_fixture(&f);
}

TEST(window_inputs_that_died_are_donated) {
    fixture f = {.n_slots = 2};
    CHECK(add(&f, add_number, (int[]){0, -1}, 2, 1));
    f.slots[0].donate = f.slots[1].live = true;
    CHECK_OK(lower(&f));
    CHECK(strstr(f.lowered->module, "arg_attrs = [{jax.buffer_donor = true}, {}]") != NULL);
    close_fixture(&f);
}

/* A slice that is written again and again: the buffer is built once, at the end. */
TEST(window_slices_do_not_nest) {
    fixture f = {.n_slots = 1};
    for (int i = 0; i < 5; i++) CHECK(add(&f, rows_in_place, (int[]){0, -1}, 2, -1));
    f.slots[0].live = true;
    CHECK_OK(lower(&f));
    CHECK_INT(count(f.lowered->module, "stablehlo.slice"), 1);
    CHECK_INT(f.lowered->n_results, 1);
    CHECK_INT(f.lowered->results[0].type.dims[0], 4);
    close_fixture(&f);
}

TEST(window_random_states_are_one_parameter) {
    fixture f = {.n_slots = 3, .n_random = 2};
    CHECK(add(&f, rand_text, (int[]){-1}, 1, 1));
    CHECK(add(&f, rand_text, (int[]){-1}, 1, 2));
    f.calls[0].random = 0;
    f.calls[1].random = 1;
    f.slots[1].live = f.slots[2].live = true;
    CHECK_OK(lower(&f));
    CHECK_INT(f.lowered->n_results, 2);
    CHECK(f.lowered->parameters[0].kind == TPJ_INPUT_RANDOM);
    CHECK(strstr(f.lowered->module, "function_type = (tensor<2x2xui64>") != NULL);
    CHECK_INT(count(f.lowered->module, "rng_bit_generator"), 2);
    close_fixture(&f);
}

/* Four tanh in a row are two loops on a CPU. */
TEST(window_slow_loops_are_short_on_cpus) {
    static const char tanh_text[] = "graph {\n  %0 = input f32[4, 6]\n  %1 = tanh(self=%0)\n}\n";
    for (int for_cpu = 0; for_cpu < 2; for_cpu++) {
        fixture f = {.n_slots = 5, .for_cpu = for_cpu};
        for (int i = 0; i < 4; i++) CHECK(add(&f, tanh_text, &i, 1, i + 1));
        f.slots[4].live = true;
        CHECK_OK(lower(&f));
        CHECK_INT(count(f.lowered->module, "optimization_barrier"), for_cpu);
        close_fixture(&f);
    }
}

TEST(window_errors_name_the_call) {
    fixture f = {.n_slots = 3};
    CHECK(add(&f, add_number, (int[]){0, -1}, 2, 1));
    CHECK(add(&f, "graph {\n  %0 = input f32[4, 6]\n  %1 = input f32[5]\n  %2 = mul.Tensor(self=%0, other=%1)\n}\n",
              (int[]){1, 2}, 2, 2));
    CHECK_ERROR(lower(&f), TPJ_RUNTIME, "mul.Tensor(f32[4, 6], f32[5])");
    CHECK_INT(f.failed, 1);
    f.lowered = NULL;
    close_fixture(&f);
}
