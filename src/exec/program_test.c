/* Programs of real graphs on the fake plugin, whose outputs are copies of the inputs of their type, or zeros. */
#include "exec/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "allocation.h"
#include "fake.h"
#include "runner.h"

/* Results: f32[2, 3] (a copy of the first input), none, and input 1 again with the sum written into a part of it. */
static const char graph_text[] = "graph {\n"
                                 "  %0 = input f32[2, 3]\n"
                                 "  %1 = input f64[4] view(f64[2] strides=[1] offset=1)\n"
                                 "  %2 = scalar f64 number\n"
                                 "  %3 = input f64[4] view(f64[2] strides=[1] offset=0) same=%1\n"
                                 "  %4 = random\n"
                                 "  %5 = add.Tensor(self=%0, other=%2, alpha=1)\n"
                                 "  %6 = add.Tensor(self=%3, other=%1, alpha=%2)\n"
                                 "  %7 = bernoulli.p(self=%0, p=0.5, generator=%4)\n"
                                 "  return %5\n"
                                 "  write %6 -> %1 view(f64[2] strides=[1] offset=1)\n"
                                 "  return %7\n"
                                 "}\n";
enum { N_INPUTS = 5, N_RESULTS = 3 };
static const float floats[6] = {1, 2, 3, 4, 5, 6};
static const double doubles[4] = {10, 20, 30, 40};
static const int64_t float_dims[2] = {2, 3}, double_dims[1] = {4};
static const uint64_t random_state[2] = {7, 0};

typedef struct fixture {
    tpj_client *client;
    tpj_program *program;
    tpj_feed feeds[N_INPUTS];
    tpj_buffer *outputs[N_RESULTS];
} fixture;

static tpj_status *compile(fixture *f, const char *text, const tpj_lower_options *options) {
    tpj_graph *graph;
    TPJ_TRY(tpj_graph_parse(text, strlen(text), &graph));
    tpj_status *status = tpj_program_create(f->client, graph, options, &f->program);
    tpj_graph_destroy(graph);
    return status;
}

static tpj_status *start(fixture *f, const char *text) {
    tpj_plugin *plugin;
    *f = (fixture){NULL};
    TPJ_TRY(tpj_plugin_open(fake_path(), false, &plugin));
    TPJ_TRY(tpj_client_create(plugin, 2, &f->client));
    TPJ_TRY(compile(f, text, NULL));
    TPJ_TRY(tpj_buffer_from_host(f->client, 0, TPJ_F32, 2, float_dims, floats, &f->feeds[0].buffer));
    TPJ_TRY(tpj_buffer_from_host(f->client, 0, TPJ_F64, 1, double_dims, doubles, &f->feeds[1].buffer));
    f->feeds[2].number = (tpj_number){.kind = TPJ_NUMBER_FLOAT, .parts = {0.5}};
    return NULL;
}

static void release_outputs(fixture *f) {
    for (int i = 0; i < N_RESULTS; i++) {
        tpj_buffer_release(f->outputs[i]);
        f->outputs[i] = NULL;
    }
}

static void end(fixture *f) {
    release_outputs(f);
    for (int i = 0; i < N_INPUTS; i++) tpj_buffer_release(f->feeds[i].buffer);
    tpj_program_release(f->program);
    tpj_client_destroy(f->client);
}

static tpj_status *run(fixture *f) {
    return tpj_program_run(f->program, 0, f->feeds, N_INPUTS, random_state, f->outputs);
}

static tpj_status *start_run_and_read(void) {
    fixture f;
    float read[6];
    tpj_status *status = NULL;
    TPJ_TRY_GOTO(start(&f, graph_text));
    TPJ_TRY_GOTO(run(&f));
    TPJ_TRY_GOTO(tpj_buffer_to_host(f.outputs[0], read, sizeof read));
    if (memcmp(read, floats, sizeof read) != 0) status = tpj_status_create(TPJ_INTERNAL, "wrong floats");
done:
    end(&f);
    return status;
}

TEST(program_says_its_results) {
    fixture f;
    CHECK_OK(start(&f, graph_text));
    CHECK_INT(tpj_program_n_results(f.program), N_RESULTS);
    const tpj_result *sum = tpj_program_result(f.program, 0), *written = tpj_program_result(f.program, 1);
    CHECK(sum->target == -1 && !sum->none && sum->type.dtype == TPJ_F32 && sum->type.rank == 2);
    CHECK(sum->type.dims[1] == 3 && sum->strides[0] == 3 && sum->strides[1] == 1 && sum->n_bytes == sizeof floats);
    CHECK(written->target == 1 && written->base.rank == 1 && written->base.dims[0] == 4 && written->strides[0] == 1);
    CHECK(tpj_program_random_count(f.program) > 0);
    end(&f);
}

TEST(program_runs_and_consumes_what_it_writes) {
    fixture f;
    double read[4];
    CHECK_OK(start(&f, graph_text));
    CHECK_OK(run(&f));
    CHECK_OK(tpj_buffer_to_host(f.outputs[1], read, sizeof read));
    CHECK(memcmp(read, doubles, sizeof read) == 0);
    CHECK(f.outputs[2] != NULL);
    CHECK(test_status_is(tpj_buffer_to_host(f.feeds[1].buffer, read, sizeof read), TPJ_RUNTIME, "donated"));
    end(&f);
    CHECK_INT(atomic_load(&fake_controls()->n_live), 0);
}

TEST(program_has_no_output_for_a_result_that_is_none) {
    static const char text[] =
        "graph {\n  %0 = input f32[2, 3]\n"
        "  %1 = var_mean.correction(self=%0, dim=[1], correction=0, keepdim=true)\n"
        "  %2 = native_layer_norm_backward(grad_out=%0, input=%0, normalized_shape=[3], mean=%1:1, rstd=%1, "
        "weight=none, bias=none, output_mask=[true, false, false])\n"
        "  return %2:1\n  return %2:0\n}\n";
    fixture f;
    CHECK_OK(start(&f, text));
    CHECK(tpj_program_result(f.program, 0)->none && !tpj_program_result(f.program, 1)->none);
    CHECK_OK(tpj_program_run(f.program, 0, f.feeds, 1, NULL, f.outputs));
    CHECK(f.outputs[0] == NULL && f.outputs[1] != NULL);
    end(&f);
}

TEST(program_refuses_feeds_that_do_not_fit) {
    fixture f;
    CHECK_OK(start(&f, graph_text));
    tpj_feed good[N_INPUTS];
    memcpy(good, f.feeds, sizeof good);
    CHECK_ERROR(tpj_program_run(f.program, 0, f.feeds, 2, random_state, f.outputs), TPJ_VALUE,
                "the graph has 5 inputs, 2 were given");
    CHECK_ERROR(tpj_program_run(f.program, 0, f.feeds, N_INPUTS, NULL, f.outputs), TPJ_VALUE, "no state was given");
    CHECK_ERROR(tpj_program_run(f.program, 1, f.feeds, N_INPUTS, random_state, f.outputs), TPJ_VALUE,
                "is on device 0, the program runs on device 1");
    f.feeds[0].buffer = f.feeds[1].buffer;
    CHECK_ERROR(run(&f), TPJ_TYPE, "input %0 is f32[2, 3], the buffer that was given is f64[4]");
    f.feeds[0].buffer = NULL;
    CHECK_ERROR(run(&f), TPJ_TYPE, "input %0 is an array");
    f.feeds[0] = good[0];
    f.feeds[2].buffer = good[0].buffer;
    CHECK_ERROR(run(&f), TPJ_TYPE, "input %2 is a number");
    f.feeds[2] = good[2];
    CHECK_OK(run(&f));
    end(&f);
}

TEST(program_refuses_a_written_buffer_as_another_input) {
    static const char text[] = "graph {\n  %0 = input f32[2, 3]\n  %1 = input f32[2, 3]\n"
                               "  %2 = add.Tensor(self=%0, other=%1, alpha=1)\n  write %2 -> %0\n}\n";
    fixture f;
    CHECK_OK(start(&f, text));
    tpj_feed both[2] = {f.feeds[0], f.feeds[0]};
    CHECK_ERROR(tpj_program_run(f.program, 0, both, 2, NULL, f.outputs), TPJ_VALUE, "%0 and %1 are one buffer");
    end(&f);
}

TEST(program_refuses_an_offset_that_it_was_not_planned_for) {
    static const char text[] = "graph {\n  %0 = input f32[2, 3] view(f32[3] strides=[1] offset=0 given=%1)\n"
                               "  %1 = scalar i64\n  %2 = neg(self=%0)\n}\n";
    fixture f;
    CHECK_OK(start(&f, text));
    tpj_feed feeds[2] = {f.feeds[0], {.number = {.kind = TPJ_NUMBER_INT, .integer = 3}}};
    CHECK_OK(tpj_program_run(f.program, 0, feeds, 2, NULL, f.outputs));
    feeds[1].number.integer = 2; /* across two rows */
    CHECK_ERROR(tpj_program_run(f.program, 0, feeds, 2, NULL, f.outputs), TPJ_VALUE,
                "%1: the program was not planned for");
    feeds[1].number.kind = TPJ_NUMBER_FLOAT;
    CHECK_ERROR(tpj_program_run(f.program, 0, feeds, 2, NULL, f.outputs), TPJ_TYPE, "%1 is an offset");
    end(&f);
}

TEST(program_refuses_numbers_outside_its_limits) {
    static const char text[] = "graph {\n  %0 = input f32[2, 3]\n  %1 = scalar f64\n"
                               "  %2 = softshrink(self=%0, lambd=%1)\n}\n";
    fixture f;
    CHECK_OK(start(&f, text));
    tpj_feed feeds[2] = {f.feeds[0], {.number = {.kind = TPJ_NUMBER_FLOAT, .parts = {0.5}}}};
    CHECK_OK(tpj_program_run(f.program, 0, feeds, 2, NULL, f.outputs));
    feeds[1].number.parts[0] = -1;
    CHECK_ERROR(tpj_program_run(f.program, 0, feeds, 2, NULL, f.outputs), TPJ_RUNTIME,
                "softshrink: lambda must be greater or equal to 0, but found to be -1");
    end(&f);
    static const tpj_requirement order = {.other = 1, .code = TPJ_RUNTIME, .op = "op", .message = "low, high: "};
    static const tpj_requirement span = {.other = 1, .span = 10, .code = TPJ_OK, .op = "op"};
    const tpj_number low = {.kind = TPJ_NUMBER_INT, .integer = INT64_MAX - 1};
    const tpj_number high = {.kind = TPJ_NUMBER_INT, .integer = INT64_MAX}; /* the same as floats */
    CHECK_OK(tpj_requirement_check(&order, &low, &high));
    CHECK_ERROR(tpj_requirement_check(&order, &high, &low), TPJ_RUNTIME, "op: low, high: ");
    CHECK_ERROR(tpj_requirement_check(&order, &low, &low), TPJ_RUNTIME, "op: low, high: ");
    CHECK(tpj_requirement_fits(&span, &low, &high));
    CHECK(!tpj_requirement_fits(&span, &high, &low));
    const tpj_number lowest = {.kind = TPJ_NUMBER_INT, .integer = INT64_MIN};
    CHECK(!tpj_requirement_fits(&span, &lowest, &high));
}

/* The fake plugin's check results are zeros, which are made to be out of range. */
TEST(program_waits_for_its_index_checks) {
    static const char text[] = "graph {\n  %0 = input f32[2, 3]\n  %1 = input i64[2]\n"
                               "  %2 = embedding(weight=%0, indices=%1) @ \"train.py\":12\n}\n";
    static const tpj_lower_options checking = {.check_index = TPJ_CHECK_RESULT};
    static const int64_t two[1] = {2}, indices[2] = {0, 1};
    fixture f;
    CHECK_OK(start(&f, graph_text));
    tpj_program_release(f.program);
    f.program = NULL;
    CHECK_OK(compile(&f, text, &checking));
    f.program->lowered->checks[0].low = 1;
    tpj_buffer_release(f.feeds[1].buffer);
    f.feeds[1].buffer = NULL;
    CHECK_OK(tpj_buffer_from_host(f.client, 0, TPJ_I64, 1, two, indices, &f.feeds[1].buffer));
    tpj_status *status = tpj_program_run(f.program, 0, f.feeds, 2, NULL, f.outputs);
    CHECK(f.outputs[0] == NULL);
    end(&f);
    CHECK_ERROR(status, TPJ_INDEX,
                "embedding(f32[2, 3], i64[2]) (first called at train.py:12): index 0 is out of bounds for dimension "
                "with size 2");
    CHECK_INT(atomic_load(&fake_controls()->n_live), 0);
}

/* ---- numbers ---- */

static uint64_t encoded(tpj_number_kind kind, double value, tpj_dtype dtype) {
    tpj_number number = {.kind = kind};
    if (kind < TPJ_NUMBER_FLOAT)
        number.integer = (int64_t)value;
    else
        number.parts[0] = value;
    uint64_t bits[2];
    tpj_number_encode(&number, dtype, bits);
    return bits[0];
}

TEST(numbers_take_the_dtype_that_is_wanted) {
    CHECK_INT(encoded(TPJ_NUMBER_INT, -1, TPJ_I8), 0xff);
    CHECK_INT(encoded(TPJ_NUMBER_INT, 300, TPJ_U8), 300 % 256);
    CHECK_INT(encoded(TPJ_NUMBER_INT, 1, TPJ_F32), 0x3f800000);
    CHECK_INT(encoded(TPJ_NUMBER_FLOAT, -2.75, TPJ_I64), (uint64_t)-2);
    CHECK_INT(encoded(TPJ_NUMBER_FLOAT, NAN, TPJ_I64), (uint64_t)INT64_MIN);
    CHECK_INT(encoded(TPJ_NUMBER_FLOAT, 0x1p70, TPJ_I32), 0);
    CHECK_INT(encoded(TPJ_NUMBER_FLOAT, 0.5, TPJ_BOOL), 1);
    CHECK_INT(encoded(TPJ_NUMBER_BOOL, 1, TPJ_F64), 0x3ff0000000000000);
    tpj_number imaginary = {.kind = TPJ_NUMBER_COMPLEX, .parts = {0, 1}};
    uint64_t bits[2];
    tpj_number_encode(&imaginary, TPJ_BOOL, bits);
    CHECK_INT(bits[0], 1);
    tpj_number_encode(&imaginary, TPJ_C64, bits);
    CHECK_INT(bits[0], 0x3f80000000000000);
    tpj_number_encode(&imaginary, TPJ_C128, bits);
    CHECK(bits[0] == 0 && bits[1] == 0x3ff0000000000000);
}

/* ---- faults ---- */

/* The Nth call or allocation fails: an error that says so, nothing left behind, and the next try succeeds. */
static bool survives(int nth, bool plugin_fails, bool *out_reached) {
    long n_live_before = allocation_n_live();
    if (plugin_fails)
        atomic_store(&fake_controls()->fail_call, nth);
    else
        allocation_fail(nth, false);
    tpj_status *status = start_run_and_read();
    *out_reached = plugin_fails ? atomic_load(&fake_controls()->fail_call) <= 0 : allocation_has_failed();
    atomic_store(&fake_controls()->fail_call, 0);
    allocation_fail(0, false);
    bool explained = plugin_fails ? strstr(tpj_status_message(status), "injected fault") != NULL
                                  : tpj_status_code(status) == TPJ_OUT_OF_MEMORY;
    if (status == NULL || !*out_reached) explained = status == NULL; /* a fault may also be survived */
    if (!explained) printf("fault %d: %s\n", nth, tpj_status_message(status));
    tpj_status_destroy(status);
    bool clean = atomic_load(&fake_controls()->n_live) == 0 && allocation_n_live() == n_live_before;
    if (!clean) printf("fault %d: %ld blocks are left\n", nth, allocation_n_live() - n_live_before);
    status = start_run_and_read();
    bool recovers = status == NULL;
    if (!recovers) printf("fault %d, retry: %s\n", nth, tpj_status_message(status));
    tpj_status_destroy(status);
    return explained && clean && recovers;
}

static bool sweep(bool plugin_fails, int *out_n) {
    bool reached = true, good = true;
    tpj_status_destroy(start_run_and_read()); /* loads the plugin, which stays */
    for (*out_n = 0; reached && good && *out_n < 2000; ++*out_n) good = survives(*out_n + 1, plugin_fails, &reached);
    return good;
}

TEST(program_survives_each_failing_call) {
    int n;
    CHECK(sweep(true, &n));
    CHECK_OR(n > 20 && n < 2000, "%d calls", n);
}

TEST(program_survives_each_failing_allocation) {
    int n;
    CHECK(sweep(false, &n));
    CHECK_OR(n > 50 && n < 2000, "%d allocations", n);
}
