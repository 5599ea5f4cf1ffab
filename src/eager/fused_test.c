/* Fused mode on the fake plugin, whose outputs are copies of the inputs of their type, or zeros: what is launched, and what
 * becomes of the storages. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/config.h"
#include "eager/eager.h"
#include "runner.h"
#include "runtime.h"

static fake_plugin_controls *controls;
static const int64_t dims[2] = {2, 3};
static const float values[6] = {1, 2, 3, 4, 5, 6};

static tpj_status *choose(const char *mode) { return tpj_config_set(tpj_config_find("eager_mode"), mode); }

static bool start(void) {
    controls = runtime_controls();
    return controls != NULL && test_status_is(choose("fused"), TPJ_OK, "");
}

static tpj_status *make_filled(tpj_storage **out_storage) {
    TPJ_TRY(tpj_storage_create(0, sizeof values, out_storage));
    return tpj_storage_from_host(*out_storage, TPJ_F32, 2, dims, values);
}

static const char add_text[] = "graph {\n  %0 = input f32[2, 3]\n  %1 = scalar f64 number\n"
                               "  %2 = add.Tensor(self=%0, other=%1, alpha=1) @ \"train.py\":17\n}\n";
static const char add_in_place_text[] = "graph {\n  %0 = input f32[2, 3]\n  %1 = scalar f64 number\n"
                                        "  %2 = add.Tensor(self=%0, other=%1, alpha=1)\n  write %2 -> %0\n}\n";
static const char multiply_text[] = "graph {\n  %0 = input f32[2, 3]\n  %1 = input f32[2, 3]\n"
                                    "  %2 = mul.Tensor(self=%0, other=%1)\n}\n";

/* The program of a text, remembered under a number. */
static tpj_status *prepare(uint64_t number, const char *text, tpj_program **out_program) {
    uint64_t key[2] = {number, 200};
    tpj_graph *graph;
    *out_program = tpj_eager_find(key, 2);
    if (*out_program != NULL) return NULL;
    TPJ_TRY(tpj_graph_parse(text, strlen(text), &graph));
    return tpj_eager_compile(key, 2, 0, graph, &(tpj_lower_options){0}, out_program);
}

static tpj_status *call(uint64_t number, const char *text, tpj_operand a, tpj_operand b, tpj_storage **out_result) {
    tpj_program *program;
    tpj_storage *result = NULL;
    tpj_operand operands[2] = {a, b};
    TPJ_TRY(prepare(number, text, &program));
    tpj_status *status = tpj_eager_run(program, 0, operands, 2, NULL, &result);
    tpj_program_release(program);
    if (out_result != NULL) *out_result = result;
    return status;
}

static tpj_operand number(double value) {
    return (tpj_operand){.number = {.kind = TPJ_NUMBER_FLOAT, .parts = {value}}};
}
static tpj_operand array(tpj_storage *storage) { return (tpj_operand){.storage = storage}; }
static tpj_status *add(tpj_storage *x, tpj_storage **out) { return call(1, add_text, array(x), number(0.5), out); }
static tpj_status *add_in_place(tpj_storage *x) { return call(2, add_in_place_text, array(x), number(0.5), NULL); }
static tpj_status *multiply(tpj_storage *x, tpj_storage *y, tpj_storage **out) {
    return call(3, multiply_text, array(x), array(y), out);
}

static tpj_compile_stats stats(void) {
    tpj_compile_stats now;
    if (!test_status_is(tpj_compile_stats_get(&now), TPJ_OK, "")) now = (tpj_compile_stats){0};
    return now;
}

static bool holds_values(tpj_storage *storage) {
    float read[6] = {0};
    return test_status_is(tpj_storage_to_host(storage, 0, read, sizeof read), TPJ_OK, "") &&
           memcmp(read, values, sizeof read) == 0;
}

TEST(fused_calls_run_when_one_is_read) {
    CHECK(start());
    tpj_storage *x, *y, *z;
    CHECK_OK(make_filled(&x));
    for (int round = 0; round < 3; round++) {
        tpj_compile_stats before = stats();
        CHECK_OK(add(x, &y));
        CHECK_OK(multiply(y, x, &z));
        CHECK(tpj_storage_is_plain(z, TPJ_F32, 2, dims)); /* known before there are contents */
        CHECK_INT(stats().launches, before.launches);
        CHECK(holds_values(x)); /* an input: reading it ends nothing */
        CHECK_INT(stats().launches, before.launches);
        CHECK(holds_values(z));
        CHECK_INT(stats().launches - before.launches, 1);
        CHECK_INT(stats().programs - before.programs, round == 0);
        CHECK_INT(stats().hits - before.hits, round > 0);
        CHECK(holds_values(y)); /* it was alive, so it is there */
        CHECK_INT(stats().launches - before.launches, 1);
        tpj_storage_destroy(y);
        tpj_storage_destroy(z);
    }
    tpj_storage_destroy(x);
    CHECK_OK(choose("strict"));
}

/* Which storages are alive is part of the key, and so is which are the same. */
TEST(fused_windows_are_told_apart) {
    CHECK(start());
    tpj_storage *x, *other, *y, *z;
    CHECK_OK(make_filled(&x));
    CHECK_OK(make_filled(&other));
    for (int round = 0; round < 2; round++)
        for (int kind = 0; kind < 4; kind++) {
            int64_t before = stats().programs;
            CHECK_OK(call(7, add_text, array(x), number(2), &y)); /* a program of this test */
            CHECK_OK(multiply(y, kind < 2 ? y : kind == 2 ? x : other, &z));
            if (kind == 1) tpj_storage_destroy(y);
            CHECK(holds_values(z));
            CHECK_INT(stats().programs - before, round == 0);
            if (kind != 1) tpj_storage_destroy(y);
            tpj_storage_destroy(z);
        }
    tpj_storage_destroy(x);
    tpj_storage_destroy(other);
    CHECK_OK(choose("strict"));
}

TEST(fused_writes_keep_the_storage) {
    CHECK(start());
    tpj_storage *x, *y;
    CHECK_OK(make_filled(&x));
    void *address = tpj_storage_address(x);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(add(x, &y)); /* reads what was there before the write */
        CHECK_OK(add_in_place(x));
        CHECK_OK(add_in_place(x));
        CHECK(holds_values(y) && holds_values(x) && tpj_storage_address(x) == address);
        tpj_storage_destroy(y);
    }
    tpj_storage *fresh; /* never written: zeros */
    CHECK_OK(tpj_storage_create(0, sizeof values, &fresh));
    CHECK_OK(add(fresh, &y));
    CHECK_OK(add_in_place(fresh));
    CHECK_OK(tpj_runtime_synchronize(0));
    CHECK(tpj_storage_is_plain(fresh, TPJ_F32, 2, dims));
    tpj_storage_destroy(y);
    tpj_storage_destroy(fresh);
    tpj_storage_destroy(x);
    CHECK_OK(choose("strict"));
}

/* Contents from outside: recorded calls keep what they were called with. */
TEST(fused_storages_leave_their_slots) {
    CHECK(start());
    static const float others[6] = {9, 9, 9, 9, 9, 9};
    tpj_storage *x, *y, *z, *across;
    float read[6];
    tpj_memory before, now;
    CHECK_OK(make_filled(&x));
    tpj_memory_get(0, &before);
    CHECK_OK(add(x, &y));
    CHECK_OK(tpj_storage_from_host(x, TPJ_F32, 2, dims, others));
    tpj_memory_get(0, &now);
    CHECK_INT(now.allocated - before.allocated, 2 * (int)sizeof values); /* y, and what x was */
    CHECK_OK(tpj_storage_to_host(x, 0, read, sizeof read));
    CHECK(read[0] == 9);
    CHECK(holds_values(y));
    tpj_memory_get(0, &now);
    CHECK_INT(now.allocated - before.allocated, (int)sizeof values);
    CHECK_OK(add(x, &z)); /* out=: z's contents become y's */
    CHECK_OK(tpj_storage_adopt(y, z));
    CHECK_OK(tpj_storage_to_host(y, 0, read, sizeof read));
    CHECK(read[0] == 9);
    CHECK_OK(add(y, &z));
    tpj_storage_destroy(y); /* an input whose only holder is the window */
    CHECK_OK(tpj_storage_create(1, sizeof values, &across));
    CHECK_OK(tpj_storage_copy_across(across, z));
    CHECK_OK(tpj_storage_to_host(across, 0, read, sizeof read));
    CHECK(read[0] == 9);
    tpj_storage_destroy(across);
    CHECK_OK(add(z, &y));
    tpj_storage_destroy(z);
    tpj_storage_destroy(y); /* all of it for nothing */
    tpj_storage_destroy(x);
    CHECK_OK(tpj_runtime_synchronize(0));
    tpj_memory_get(0, &now);
    CHECK_INT(now.allocated, before.allocated - (int)sizeof values);
    CHECK_OK(choose("strict"));
}

TEST(fused_bounds_end_a_window) {
    CHECK(start());
    tpj_storage *x, *y;
    CHECK_OK(make_filled(&x));
    CHECK_OK(tpj_config_set(tpj_config_find("fused_ops"), "8"));
    int64_t before = stats().launches;
    for (int i = 0; i < 30; i++) {
        CHECK_OK(multiply(x, x, &y)); /* some of these are still in use behind the cut */
        tpj_storage_destroy(x);
        CHECK_OK(add(y, &x));
        tpj_storage_destroy(y);
    }
    CHECK(stats().launches - before >= 60 / 8);
    CHECK_OK(tpj_config_set(tpj_config_find("fused_ops"), "1024"));
    CHECK_OK(tpj_config_set(tpj_config_find("fused_bytes"), "100"));
    before = stats().launches;
    tpj_storage *made[6];
    for (int i = 0; i < 6; i++) CHECK_OK(add(x, &made[i]));
    CHECK_INT(stats().launches - before, 1); /* at the fifth: 120 bytes */
    for (int i = 0; i < 6; i++) CHECK(holds_values(made[i]));
    for (int i = 0; i < 6; i++) tpj_storage_destroy(made[i]);
    CHECK_OK(tpj_config_set(tpj_config_find("fused_bytes"), "1G"));
    tpj_storage_destroy(x);
    CHECK_OK(choose("strict"));
}

/* Loops that read nothing: the same windows from the third round on, with inputs that die behind a cut. */
TEST(fused_loops_settle) {
    CHECK(start());
    tpj_storage *x, *y, *weights;
    int64_t programs[8];
    CHECK_OK(make_filled(&x));
    CHECK_OK(make_filled(&weights));
    for (int step = 0; step < 8; step++) {
        for (int i = 0; i < 50; i++) {
            tpj_storage *z;
            CHECK_OK(i % 7 == 3 ? add(x, &y) : multiply(x, weights, &y));
            CHECK_OK(multiply(y, x, &z));
            tpj_storage_destroy(y);
            tpj_storage_destroy(x);
            x = z;
        }
        CHECK_OK(add_in_place(weights));
        programs[step] = stats().programs;
    }
    CHECK_INT(programs[7], programs[3]); /* the end of a step has to be seen twice */
    CHECK(holds_values(x) && holds_values(weights));
    tpj_storage_destroy(x);
    tpj_storage_destroy(weights);
    CHECK_OK(choose("strict"));
}

/* A window that cannot be compiled or launched runs call by call. */
TEST(fused_windows_that_fail_run_one_by_one) {
    CHECK(start());
    tpj_storage *x, *y, *z;
    for (int fail = 1; fail < 12; fail++) {
        CHECK_OK(make_filled(&x));
        CHECK_OK(add(x, &y));
        CHECK_OK(multiply(y, fail % 2 ? x : y, &z));
        atomic_store(&controls->fail_call, fail);
        tpj_status *status = tpj_runtime_synchronize(0);
        atomic_store(&controls->fail_call, 0);
        tpj_status_destroy(status);
        CHECK(holds_values(x));
        float read[6];
        status = tpj_storage_to_host(z, 0, read, sizeof read);
        CHECK(status != NULL || memcmp(read, values, sizeof read) == 0);
        tpj_status_destroy(status);
        tpj_storage_destroy(x);
        tpj_storage_destroy(y);
        tpj_storage_destroy(z);
    }
    CHECK_OK(choose("strict"));
}

/* A failed value fails whoever reads it, in each mode, until it is written anew. */
TEST(fused_values_that_failed_say_so) {
    CHECK(start());
    static const char sub_text[] = "graph {\n  %0 = input f32[2, 3]\n  %1 = input f32[2, 3]\n"
                                   "  %2 = sub.Tensor(self=%0, other=%1, alpha=1) @ \"here.py\":5\n}\n";
    tpj_storage *x, *y, *z = NULL;
    float read[6];
    CHECK_OK(make_filled(&x));
    CHECK_OK(call(4, sub_text, array(x), array(x), &y));
    atomic_store(&controls->fail_compile, true);
    tpj_status *status = tpj_storage_to_host(y, 0, read, sizeof read);
    atomic_store(&controls->fail_compile, false);
    CHECK(status != NULL && strstr(tpj_status_message(status), "sub.Tensor") != NULL);
    CHECK(strstr(tpj_status_message(status), "here.py:5") != NULL);
    tpj_status_destroy(status);
    status = tpj_storage_to_host(y, 0, read, sizeof read);
    CHECK(status != NULL && strstr(tpj_status_message(status), "never made") != NULL);
    tpj_status_destroy(status);
    status = add(y, &z);
    CHECK(status != NULL && z == NULL);
    tpj_status_destroy(status);
    CHECK_OK(choose("strict"));
    status = add(y, &z);
    CHECK(status != NULL && z == NULL);
    tpj_status_destroy(status);
    CHECK_OK(tpj_storage_from_host(y, TPJ_F32, 2, dims, values));
    CHECK_OK(add(y, &z));
    CHECK(holds_values(z));
    tpj_storage_destroy(x);
    tpj_storage_destroy(y);
    tpj_storage_destroy(z);
}

/* What fused mode has recorded comes before what another mode launches. */
TEST(fused_mode_changes) {
    CHECK(start());
    tpj_storage *x, *y, *z;
    CHECK_OK(make_filled(&x));
    CHECK_OK(add(x, &y));
    int64_t before = stats().launches;
    CHECK_OK(choose("strict"));
    CHECK_OK(multiply(y, x, &z));
    CHECK_INT(stats().launches - before, 2);
    CHECK(holds_values(z));
    CHECK_OK(choose("fused"));
    tpj_storage_destroy(y);
    CHECK_OK(add(z, &y));
    CHECK_OK(tpj_eager_flush(-1));
    CHECK_INT(stats().launches - before, 3);
    CHECK_OK(choose("strict"));
    tpj_storage_destroy(x);
    tpj_storage_destroy(y);
    tpj_storage_destroy(z);
}

static void *work(void *argument) {
    tpj_storage *shared = argument, *x, *y;
    bool good = test_status_is(make_filled(&x), TPJ_OK, "");
    for (int i = 0; good && i < 60; i++) {
        good = test_status_is(add(x, &y), TPJ_OK, "") && test_status_is(add_in_place(y), TPJ_OK, "") &&
               test_status_is(add_in_place(shared), TPJ_OK, "");
        if (good && i % 5 == 0) good = holds_values(y);
        tpj_storage_destroy(x);
        x = y;
    }
    tpj_storage_destroy(x);
    return good ? argument : NULL;
}

TEST(fused_threads_share_a_window) {
    CHECK(start());
    tpj_storage *shared;
    pthread_t threads[3];
    CHECK_OK(make_filled(&shared));
    atomic_store(&controls->delay, 200);
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, shared);
    for (int i = 0; i < 3; i++) {
        void *result;
        pthread_join(threads[i], &result);
        CHECK(result == shared);
    }
    atomic_store(&controls->delay, 0);
    CHECK(holds_values(shared));
    tpj_storage_destroy(shared);
    CHECK_OK(choose("strict"));
}

TEST(fused_windows_are_reported) {
    CHECK(start());
    tpj_storage *x, *y;
    CHECK_OK(make_filled(&x));
    CHECK_OK(add(x, &y));
    tpj_program *program;
    CHECK_OK(prepare(1, add_text, &program));
    tpj_eager_called_at(0, program, "my \"file\".py", 33);
    tpj_program_release(program);
    CHECK(holds_values(y));
    char *report = tpj_eager_fusion_report();
    CHECK(report != NULL && strstr(report, "{\"ops\": 1, ") != NULL && strstr(report, "\"read\": ") != NULL);
    free(report);
    tpj_storage_destroy(x);
    tpj_storage_destroy(y);
    CHECK_OK(choose("strict"));
}
