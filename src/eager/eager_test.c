/* Storages and launches on the fake plugin, whose outputs are copies of the inputs of their type, or zeros. */
#include "eager/eager.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/config.h"
#include "base/interrupt.h"
#include "runner.h"
#include "runtime.h"

static fake_plugin_controls *controls;

/* The runtime on two devices of the fake plugin; started once. */
static bool start(void) {
    controls = runtime_controls();
    return controls != NULL;
}

static const int64_t dims[2] = {2, 3};
static const float values[6] = {1, 2, 3, 4, 5, 6};

static tpj_status *make_filled(tpj_storage **out_storage) {
    TPJ_TRY(tpj_storage_create(0, sizeof values, out_storage));
    return tpj_storage_from_host(*out_storage, TPJ_F32, 2, dims, values);
}

/* ---- storages ---- */

TEST(eager_storages_hold_what_was_written) {
    CHECK(start());
    tpj_storage *storage, *other;
    float read[6] = {0};
    CHECK_OK(make_filled(&storage));
    CHECK_OK(tpj_storage_to_host(storage, 0, read, sizeof read));
    CHECK(memcmp(read, values, sizeof read) == 0);
    CHECK_OK(tpj_storage_to_host(storage, 2 * sizeof(float), read, 3 * sizeof(float)));
    CHECK(read[0] == 3 && read[2] == 5);
    CHECK_OK(tpj_storage_create(0, sizeof values + 4, &other));
    CHECK_OK(tpj_storage_copy_bytes(other, storage));
    float more[7];
    CHECK_OK(tpj_storage_to_host(other, 0, more, sizeof more));
    CHECK(memcmp(more, values, sizeof values) == 0 && more[6] == 0);
    CHECK_OK(tpj_storage_adopt(storage, other));
    tpj_storage_destroy(storage);
}

TEST(eager_storages_that_were_never_written_read_as_zeros) {
    CHECK(start());
    tpj_storage *storage;
    float read[6] = {9, 9, 9, 9, 9, 9};
    CHECK_OK(tpj_storage_create(0, sizeof read, &storage));
    CHECK_OK(tpj_storage_to_host(storage, 4, read, 8));
    CHECK(read[0] == 0 && read[1] == 0 && read[2] == 9);
    tpj_storage_destroy(storage);
    CHECK_OK(tpj_storage_create(0, 0, &storage));
    CHECK(tpj_storage_address(storage) == NULL);
    tpj_storage_destroy(storage);
    CHECK_ERROR(tpj_storage_create(2, 4, &storage), TPJ_RUNTIME, "tpu:2");
}

TEST(eager_addresses_are_apart) {
    CHECK(start());
    enum { N = 50 };
    tpj_storage *storages[N];
    for (int i = 0; i < N; i++) CHECK_OK(tpj_storage_create(i % 2, (size_t)(1 + i * 7), &storages[i]));
    for (int i = 0; i < N; i++) {
        char *address = tpj_storage_address(storages[i]);
        CHECK((uintptr_t)address % 64 == 0 && address != NULL);
        CHECK(tpj_storage_find(address) == storages[i]);
        CHECK(tpj_storage_find(address + i * 7) == storages[i]); /* its last byte */
        CHECK(tpj_storage_find(address + i * 7 + 1) != storages[i]);
        CHECK_INT(tpj_storage_device(storages[i]), i % 2);
    }
    void *gone = tpj_storage_address(storages[3]);
    for (int i = 0; i < N; i++) tpj_storage_destroy(storages[i]);
    CHECK(tpj_storage_find(gone) == NULL);
}

TEST(eager_memory_is_counted) {
    CHECK(start());
    tpj_memory before, now;
    tpj_storage *a, *b;
    tpj_memory_reset_peak(1);
    tpj_memory_get(1, &before);
    CHECK_OK(tpj_storage_create(1, 100, &a));
    CHECK_OK(tpj_storage_create(1, 50, &b));
    tpj_storage_destroy(a);
    tpj_memory_get(1, &now);
    CHECK_INT(now.allocated - before.allocated, 50);
    CHECK_INT(now.peak - before.allocated, 150);
    CHECK_INT(now.live - before.live, 1);
    CHECK_INT(now.n_freed - before.n_freed, 1);
    tpj_storage_destroy(b);
    tpj_memory_get(1, &now);
    CHECK_INT(now.allocated, before.allocated);
    tpj_memory_get(7, &now);
    CHECK_INT(now.allocated, 0);
}

TEST(eager_base_shapes) {
    CHECK(start());
    tpj_storage *storage;
    tpj_dtype dtype;
    int64_t read[64], flat[1] = {6}, many[8] = {1, 1, 1, 1, 1, 1, 2, 3};
    CHECK_OK(tpj_storage_create(0, sizeof values, &storage));
    CHECK(tpj_storage_is_plain(storage, TPJ_F32, 2, dims) &&
          tpj_storage_is_plain(storage, TPJ_I32, 1, flat)); /* undecided */
    CHECK_INT(tpj_storage_base(storage, &dtype, read), 1);
    CHECK(dtype == TPJ_U8 && read[0] == 24);
    tpj_storage_set_base(storage, TPJ_F64, 1, flat); /* does not fill it: ignored */
    CHECK_INT(tpj_storage_base(storage, &dtype, read), 1);
    CHECK(dtype == TPJ_U8);
    tpj_storage_set_base(storage, TPJ_F32, 8, many);
    CHECK(tpj_storage_is_plain(storage, TPJ_F32, 8, many) && !tpj_storage_is_plain(storage, TPJ_F32, 2, dims));
    CHECK_OK(tpj_storage_from_host(storage, TPJ_F32, 2, dims, values));
    CHECK(tpj_storage_is_plain(storage, TPJ_F32, 2, dims) && !tpj_storage_is_plain(storage, TPJ_I32, 2, dims));
    CHECK_INT(tpj_storage_base(storage, &dtype, read), 2);
    CHECK(dtype == TPJ_F32 && read[0] == 2 && read[1] == 3);
    CHECK_ERROR(tpj_storage_from_host(storage, TPJ_F32, 1, dims, values), TPJ_INTERNAL, "do not fill");
    tpj_storage_destroy(storage);
}

TEST(eager_storages_cross_devices) {
    CHECK(start());
    tpj_storage *here, *there;
    float read[6];
    CHECK_OK(make_filled(&here));
    CHECK_OK(tpj_storage_create(1, sizeof values, &there));
    CHECK_OK(tpj_storage_copy_across(there, here));
    CHECK_OK(tpj_storage_to_host(there, 0, read, sizeof read));
    CHECK(memcmp(read, values, sizeof read) == 0);
    CHECK(tpj_storage_is_plain(there, TPJ_F32, 2, dims));
    tpj_storage_destroy(here);
    tpj_storage_destroy(there);
}

/* ---- calls ---- */

static tpj_status *compile(uint64_t *key, int n_words, const char *text, tpj_program **out_program) {
    tpj_graph *graph;
    TPJ_TRY(tpj_graph_parse(text, strlen(text), &graph));
    return tpj_eager_compile(key, n_words, 0, graph, &(tpj_lower_options){0}, out_program);
}

static const char add_text[] = "graph {\n  %0 = input f32[2, 3]\n  %1 = scalar f64 number\n"
                               "  %2 = add.Tensor(self=%0, other=%1, alpha=1) @ \"train.py\":17\n}\n";
static const char add_in_place_text[] = "graph {\n  %0 = input f32[2, 3]\n  %1 = scalar f64 number\n"
                                        "  %2 = add.Tensor(self=%0, other=%1, alpha=1)\n  write %2 -> %0\n}\n";

static tpj_operand half(void) { return (tpj_operand){.number = {.kind = TPJ_NUMBER_FLOAT, .parts = {0.5}}}; }

TEST(eager_calls_find_their_program) {
    CHECK(start());
    tpj_storage *x, *result = NULL;
    tpj_program *program, *found;
    tpj_compile_stats before, after;
    uint64_t key[2] = {1, 100};
    CHECK_OK(make_filled(&x));
    tpj_operand operands[2] = {{.storage = x}, half()};
    CHECK_OK(tpj_compile_stats_get(&before));
    CHECK(tpj_eager_find(key, 2) == NULL);
    CHECK_OK(compile(key, 2, add_text, &program));
    CHECK_INT(tpj_program_n_results(program), 1);
    CHECK_OK(tpj_eager_run(program, 0, operands, 2, NULL, &result));
    CHECK(result != NULL && result != x && tpj_storage_bytes(result) == sizeof values);
    CHECK(tpj_storage_is_plain(result, TPJ_F32, 2, dims));
    tpj_storage_destroy(result);
    found = tpj_eager_find(key, 2);
    CHECK(found == program);
    CHECK_OK(tpj_compile_stats_get(&after));
    CHECK_INT(after.programs - before.programs, 1);
    CHECK_INT(after.hits - before.hits, 1);
    CHECK_INT(after.launches - before.launches, 1);
    tpj_program_release(found);
    tpj_program_release(program);
    tpj_storage_destroy(x);
}

TEST(eager_calls_in_place_keep_the_storage) {
    CHECK(start());
    tpj_storage *x, *none[1];
    tpj_program *program;
    uint64_t key[2] = {2, 100};
    CHECK_OK(make_filled(&x));
    void *address = tpj_storage_address(x);
    tpj_operand operands[2] = {{.storage = x}, half()};
    CHECK_OK(compile(key, 2, add_in_place_text, &program));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(tpj_eager_run(program, 0, operands, 2, NULL, none));
        CHECK(none[0] == NULL && tpj_storage_address(x) == address);
    }
    /* a storage that was never written can be a target as well */
    tpj_storage *fresh;
    CHECK_OK(tpj_storage_create(0, sizeof values, &fresh));
    operands[0].storage = fresh;
    CHECK_OK(tpj_eager_run(program, 0, operands, 2, NULL, none));
    CHECK(tpj_storage_is_plain(fresh, TPJ_F32, 2, dims));
    tpj_program_release(program);
    tpj_storage_destroy(x);
    tpj_storage_destroy(fresh);
}

/* A failed launch leaves the operands as they were and makes no storage; the next one works. */
TEST(eager_calls_survive_failing_plugins) {
    CHECK(start());
    tpj_storage *x, *result;
    tpj_program *program;
    tpj_memory before, after;
    uint64_t key[2] = {3, 100};
    float read[6];
    CHECK_OK(make_filled(&x));
    tpj_operand operands[2] = {{.storage = x}, half()};
    atomic_store(&controls->fail_call, 1);
    tpj_status *status = compile(key, 2, add_text, &program);
    CHECK(status != NULL);
    tpj_status_destroy(status);
    CHECK(tpj_eager_find(key, 2) == NULL);
    atomic_store(&controls->fail_call, 0);
    CHECK_OK(compile(key, 2, add_text, &program));
    CHECK_OK(tpj_eager_run(program, 0, operands, 2, NULL, &result)); /* the number is on the device from here */
    tpj_storage_destroy(result);
    tpj_memory_get(0, &before);
    atomic_store(&controls->fail_call, 1);
    result = x;
    status = tpj_eager_run(program, 0, operands, 2, NULL, &result);
    atomic_store(&controls->fail_call, 0);
    CHECK(status != NULL && strstr(tpj_status_message(status), "add.Tensor") != NULL);
    tpj_status_destroy(status);
    CHECK(result == NULL);
    tpj_memory_get(0, &after);
    CHECK_INT(after.allocated, before.allocated);
    CHECK_OK(tpj_storage_to_host(x, 0, read, sizeof read));
    CHECK(memcmp(read, values, sizeof read) == 0);
    CHECK_OK(tpj_eager_run(program, 0, operands, 2, NULL, &result));
    tpj_storage_destroy(result);
    tpj_program_release(program);
    tpj_storage_destroy(x);
}

/* What the device reports comes at the read, with the op and the line that made the value. */
TEST(eager_errors_of_the_device_name_the_op) {
    CHECK(start());
    tpj_storage *x, *result;
    tpj_program *program;
    uint64_t key[2] = {4, 100};
    float read[6];
    CHECK_OK(make_filled(&x));
    tpj_operand operands[2] = {{.storage = x}, half()};
    CHECK_OK(compile(key, 2, add_text, &program));
    atomic_store(&controls->fail_execution, 1);
    CHECK_OK(tpj_eager_run(program, 0, operands, 2, NULL, &result));
    tpj_status *status = tpj_storage_to_host(result, 0, read, sizeof read);
    CHECK(status != NULL && strstr(tpj_status_message(status), "add.Tensor") != NULL);
    CHECK(strstr(tpj_status_message(status), "train.py:17") != NULL);
    tpj_status_destroy(status);
    CHECK_OK(tpj_runtime_synchronize(0)); /* it has been said */
    CHECK_ERROR(tpj_storage_to_host(result, 0, read, sizeof read), TPJ_DEVICE, "add.Tensor");
    tpj_storage_destroy(result);
    atomic_store(&controls->fail_execution, 1);
    CHECK_OK(tpj_eager_run(program, 0, operands, 2, NULL, &result));
    CHECK_ERROR(tpj_runtime_synchronize(0), TPJ_DEVICE, "add.Tensor");
    CHECK_OK(tpj_runtime_synchronize(0));
    tpj_storage_destroy(result);
    tpj_program_release(program);
    tpj_storage_destroy(x);
}

/* What was asked for, what is held, by whom; after something was freed the same call passes. */
TEST(eager_out_of_memory_says_who_holds_it) {
    CHECK(start());
    tpj_storage *x, *y, *more, *copied;
    tpj_program *program;
    uint64_t key[2] = {5, 100};
    CHECK_OK(make_filled(&x));
    tpj_operand operands[2] = {{.storage = x}, half()};
    CHECK_OK(compile(key, 2, add_text, &program));
    CHECK_OK(tpj_eager_run(program, 0, operands, 2, NULL, &y));
    CHECK_OK(tpj_storage_create(0, sizeof values, &copied));
    CHECK_OK(tpj_runtime_synchronize(0)); /* what earlier launches held has been given back */
    atomic_store(&controls->memory_limit, atomic_load(&controls->memory_held) + 20);
    tpj_status *status = tpj_eager_run(program, 0, operands, 2, NULL, &more);
    CHECK(tpj_status_code(status) == TPJ_OUT_OF_MEMORY);
    const char *message = tpj_status_message(status);
    CHECK(strstr(message, "add.Tensor(f32[2, 3], number): ") == message && strstr(message, "asked for: 24 bytes"));
    CHECK(strstr(message, "24 bytes in 1 storage: add.Tensor(f32[2, 3], number) (first called at train.py:17)"));
    CHECK(strstr(message, "copied from the host"));
    tpj_status_destroy(status);
    CHECK_ERROR(tpj_storage_from_host(copied, TPJ_F32, 2, dims, values), TPJ_OUT_OF_MEMORY, "asked for: 24 bytes");
    char *lines = tpj_memory_describe(0, 1);
    CHECK(lines != NULL && strchr(lines, '\n') == NULL && strstr(lines, "bytes in") != NULL);
    free(lines);
    tpj_storage_destroy(y);
    CHECK_OK(tpj_eager_run(program, 0, operands, 2, NULL, &more));
    atomic_store(&controls->memory_limit, 0);
    tpj_storage_destroy(more);
    tpj_storage_destroy(copied);
    tpj_program_release(program);
    tpj_storage_destroy(x);
}

/* ---- calls that wait for their program ---- */
static void compile_beside(bool beside, int microseconds) {
    tpj_status_destroy(tpj_config_set(tpj_config_find("compile_threads"), beside ? "2" : "0"));
    atomic_store(&controls->compile_delay, microseconds);
}

/* Calls of two programs that compile, and of one that is there already: all in their order, all read right. Operands and
 * results may be destroyed while they wait. */
TEST(eager_calls_wait_for_programs_in_their_order) {
    CHECK(start());
    tpj_storage *x, *y, *z, *gone, *none[1];
    tpj_program *add, *in_place, *there;
    tpj_memory before, after;
    tpj_compile_stats stats;
    uint64_t keys[3][2] = {{10, 100}, {11, 100}, {12, 100}};
    float read[6] = {0};
    tpj_memory_get(0, &before);
    CHECK_OK(make_filled(&x));
    CHECK_OK(compile(keys[2], 2, add_text, &there));
    compile_beside(true, 20000);
    CHECK_OK(compile(keys[0], 2, add_text, &add));
    CHECK_OK(compile(keys[1], 2, add_in_place_text, &in_place));
    tpj_operand operands[2] = {{.storage = x}, half()};
    CHECK_OK(tpj_eager_run(add, 0, operands, 2, NULL, &y));
    CHECK(tpj_storage_is_plain(y, TPJ_F32, 2, dims));
    CHECK_OK(tpj_eager_run(there, 0, operands, 2, NULL, &gone));
    tpj_storage_destroy(gone);
    operands[0].storage = y;
    CHECK_OK(tpj_eager_run(in_place, 0, operands, 2, NULL, none));
    CHECK_OK(tpj_eager_run(there, 0, operands, 2, NULL, &z));
    tpj_storage_destroy(y);
    tpj_storage_destroy(x);
    CHECK_OK(tpj_storage_to_host(z, 0, read, sizeof read));
    CHECK(memcmp(read, values, sizeof read) == 0);
    CHECK_OK(tpj_compile_stats_get(&stats));
    tpj_storage_destroy(z);
    CHECK_OK(tpj_runtime_synchronize(0));
    tpj_memory_get(0, &after);
    CHECK_INT(after.allocated, before.allocated);
    compile_beside(false, 0);
    tpj_program_release(add);
    tpj_program_release(in_place);
    tpj_program_release(there);
}

/* What the compiler refuses is the error of the results and of all that is made of them, and of nothing else. */
TEST(eager_calls_that_waited_in_vain_say_why) {
    CHECK(start());
    tpj_storage *x, *y, *z, *good;
    tpj_program *bad, *there;
    uint64_t keys[2][2] = {{13, 100}, {14, 100}};
    float read[6];
    CHECK_OK(make_filled(&x));
    CHECK_OK(compile(keys[1], 2, add_text, &there));
    compile_beside(true, 20000);
    tpj_operand operands[2] = {{.storage = x}, half()};
    tpj_storage *number; /* 0.5 is on the device from here */
    CHECK_OK(tpj_eager_run(there, 0, operands, 2, NULL, &number));
    atomic_store(&controls->fail_call, 1);
    CHECK_OK(compile(keys[0], 2, add_text, &bad));
    CHECK_OK(tpj_eager_run(bad, 0, operands, 2, NULL, &y));
    operands[0].storage = y;
    CHECK_OK(tpj_eager_run(there, 0, operands, 2, NULL, &z));
    operands[0].storage = x;
    CHECK_OK(tpj_eager_run(there, 0, operands, 2, NULL, &good));
    CHECK_ERROR(tpj_storage_to_host(z, 0, read, sizeof read), TPJ_DEVICE, "refused the program");
    CHECK_ERROR(tpj_storage_to_host(y, 0, read, sizeof read), TPJ_DEVICE, "train.py:17");
    CHECK_OK(tpj_storage_to_host(good, 0, read, sizeof read));
    CHECK(memcmp(read, values, sizeof read) == 0);
    CHECK_OK(tpj_runtime_synchronize(0)); /* it has been said */
    tpj_program_release(bad);
    CHECK(tpj_eager_find(keys[0], 2) == NULL); /* the next call compiles again */
    tpj_storage_destroy(y);
    atomic_store(&controls->fail_call, 1);
    CHECK_OK(compile(keys[0], 2, add_text, &bad));
    CHECK_OK(tpj_eager_run(bad, 0, operands, 2, NULL, &y));
    CHECK_ERROR(tpj_runtime_synchronize(0), TPJ_DEVICE, "add.Tensor"); /* nobody had read it */
    CHECK_OK(tpj_runtime_synchronize(0));
    CHECK_OK(tpj_storage_from_host(y, TPJ_F32, 2, dims, values)); /* a new value is a good one */
    CHECK_OK(tpj_storage_to_host(y, 0, read, sizeof read));
    compile_beside(false, 0);
    tpj_program_release(bad);
    tpj_program_release(there);
    tpj_storage_destroy(number);
    tpj_storage_destroy(x);
    tpj_storage_destroy(y);
    tpj_storage_destroy(z);
    tpj_storage_destroy(good);
}

static bool always(void) { return true; }

TEST(eager_waits_can_be_interrupted) {
    CHECK(start());
    tpj_storage *x, *y;
    tpj_program *program;
    uint64_t key[2] = {15, 100};
    float read[6];
    CHECK_OK(make_filled(&x));
    compile_beside(true, 200000);
    CHECK_OK(compile(key, 2, add_text, &program));
    tpj_operand operands[2] = {{.storage = x}, half()};
    CHECK_OK(tpj_eager_run(program, 0, operands, 2, NULL, &y));
    tpj_interrupt_set(always);
    CHECK_ERROR(tpj_storage_to_host(y, 0, read, sizeof read), TPJ_INTERRUPTED, "interrupted");
    CHECK_ERROR(tpj_runtime_synchronize(0), TPJ_INTERRUPTED, "interrupted");
    tpj_interrupt_set(NULL);
    CHECK_OK(tpj_storage_to_host(y, 0, read, sizeof read)); /* it went on meanwhile */
    CHECK(memcmp(read, values, sizeof read) == 0);
    compile_beside(false, 0);
    atomic_store(&controls->delay, 400000);
    tpj_storage *late;
    CHECK_OK(tpj_eager_run(program, 0, operands, 2, NULL, &late));
    atomic_store(&controls->delay, 0);
    tpj_interrupt_set(always);
    tpj_status *status =
        tpj_storage_to_host(late, 0, read, sizeof read); /* it may have been quick: the delay is random */
    CHECK(status == NULL || tpj_status_code(status) == TPJ_INTERRUPTED);
    tpj_status_destroy(status);
    tpj_interrupt_set(NULL);
    CHECK_OK(tpj_storage_to_host(late, 0, read, sizeof read));
    tpj_storage_destroy(late);
    tpj_program_release(program);
    tpj_storage_destroy(x);
    tpj_storage_destroy(y);
}

/* ---- views whose offset changes ---- */

/* Row `i` of [4, 6], from `first` on; the offset is fixed, or it is input 1. */
static tpj_status *compile_row(uint64_t *key, int n_words, int64_t offset, bool floating, tpj_program **out_program) {
    char text[512];
    snprintf(text, sizeof text,
             "graph {\n  %%0 = input f32[4, 6] view(f32[4] strides=[1] offset=%lld%s)\n%s"
             "  %%%d = neg(self=%%0)\n}\n",
             (long long)offset, floating ? " given=%1" : "", floating ? "  %1 = scalar i64\n" : "", floating ? 2 : 1);
    return compile(key, n_words, text, out_program);
}

TEST(eager_offsets_float_from_the_third_on) {
    CHECK(start());
    uint64_t key[3] = {5, UINT64_MAX, 0};
    tpj_program *program = NULL, *first, *second;
    bool floating;
    tpj_operand operands[2] = {{NULL}, {.number = {.kind = TPJ_NUMBER_INT}}};
    for (int64_t i = 0; i < 2; i++) { /* fixed forms */
        operands[1].number.integer = i * 6;
        CHECK(tpj_eager_find_floating(key, 3, operands, &floating) == NULL);
        CHECK(!floating);
    }
    operands[1].number.integer = 12;
    CHECK(tpj_eager_find_floating(key, 3, operands, &floating) == NULL);
    CHECK(floating && key[2] == 0);
    CHECK(tpj_eager_find_floating(key, 3, operands, &floating) == NULL && floating); /* it was not compiled: again */
    CHECK_OK(compile_row(key, 3, 12, true, &first));
    for (int64_t offset = 0; offset < 20; offset++) { /* those that stay in a row fit */
        operands[1].number.integer = offset;
        program = offset % 6 <= 2 ? tpj_eager_find_floating(key, 3, operands, &floating) : NULL;
        CHECK(program == (offset % 6 <= 2 ? first : NULL));
        tpj_program_release(program);
    }
    operands[1].number.integer = 3; /* across two rows: another form */
    CHECK(tpj_eager_find_floating(key, 3, operands, &floating) == NULL);
    CHECK(floating && key[2] == 1);
    CHECK_OK(compile_row(key, 3, 3, true, &second));
    for (int64_t offset = 0; offset <= 20; offset++) {
        operands[1].number.integer = offset;
        program = tpj_eager_find_floating(key, 3, operands, &floating);
        CHECK(program == (offset % 6 <= 2 ? first : second));
        tpj_program_release(program);
    }
    tpj_storage *x, *result;
    CHECK_OK(tpj_storage_create(0, 24 * sizeof(float), &x));
    tpj_storage_set_base(x, TPJ_F32, 2, (int64_t[2]){4, 6});
    operands[0].storage = x;
    operands[1].number.integer = 8;
    CHECK_OK(tpj_eager_run(first, 0, operands, 2, NULL, &result));
    CHECK_INT(tpj_storage_bytes(result), 16);
    tpj_storage_destroy(result);
    tpj_storage_destroy(x);
    tpj_program_release(first);
    tpj_program_release(second);
}

/* ---- events ---- */

TEST(eager_events_cover_what_was_launched) {
    CHECK(start());
    tpj_storage *x, *result;
    tpj_program *program;
    tpj_event *begin, *end;
    double milliseconds;
    uint64_t key[2] = {6, 100};
    CHECK_OK(make_filled(&x));
    tpj_operand operands[2] = {{.storage = x}, half()};
    CHECK_OK(compile(key, 2, add_text, &program));
    CHECK_OK(tpj_event_create(&begin));
    CHECK_OK(tpj_event_create(&end));
    CHECK(tpj_event_query(end)); /* never recorded */
    CHECK_ERROR(tpj_event_elapsed(begin, end, &milliseconds), TPJ_RUNTIME, "recorded");
    CHECK_OK(tpj_event_record(begin, 0));
    atomic_store(&controls->delay, 2000);
    CHECK_OK(tpj_eager_run(program, 0, operands, 2, NULL, &result));
    CHECK_OK(tpj_event_record(end, 0));
    CHECK_OK(tpj_event_synchronize(end));
    CHECK(tpj_event_query(end));
    atomic_store(&controls->delay, 0);
    CHECK_OK(tpj_event_elapsed(begin, end, &milliseconds));
    CHECK(milliseconds >= 0);
    tpj_event_destroy(begin);
    tpj_event_destroy(end);
    tpj_storage_destroy(result);
    tpj_program_release(program);
    tpj_storage_destroy(x);
}

/* More than the list of such launches holds at first. */
static void run_and_drop(tpj_program *program, tpj_storage *x, int n) {
    tpj_operand operands[2] = {{.storage = x}, half()};
    for (int i = 0; i < n; i++) {
        tpj_storage *result;
        CHECK_OK(tpj_eager_run(program, 0, operands, 2, NULL, &result));
        tpj_storage_destroy(result);
    }
}

TEST(eager_waits_for_launches_whose_results_are_gone) {
    CHECK(start());
    tpj_storage *x;
    tpj_program *program;
    tpj_event *end;
    uint64_t key[2] = {6, 101};
    CHECK_OK(make_filled(&x));
    CHECK_OK(compile(key, 2, add_text, &program));
    CHECK_OK(tpj_event_create(&end));
    CHECK_OK(tpj_runtime_synchronize(0)); /* the program is compiled */
    atomic_store(&controls->delay, 2000);
    run_and_drop(program, x, 50);
    CHECK(atomic_load(&controls->n_running) > 0);
    CHECK_OK(tpj_runtime_synchronize(0));
    CHECK_INT(atomic_load(&controls->n_running), 0);
    run_and_drop(program, x, 50);
    CHECK_OK(tpj_event_record(end, 0));
    CHECK_OK(tpj_event_synchronize(end));
    CHECK_INT(atomic_load(&controls->n_running), 0);
    atomic_store(&controls->delay, 0);
    tpj_event_destroy(end);
    tpj_program_release(program);
    tpj_storage_destroy(x);
}
