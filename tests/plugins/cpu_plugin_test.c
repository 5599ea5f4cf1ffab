/* The client against a real CPU plugin, whose path is in TPJ_TEST_PLUGIN. tests/python/test_plugins.py builds and runs it
 * for every plugin that is installed. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runner.h"
#include "tpj/pjrt.h"

enum { N_DEVICES = 3 };

/* One client for all tests: creating one takes long enough. */
static tpj_client *client(void) {
    static tpj_client *shared;
    tpj_plugin *plugin;
    const char *path = getenv("TPJ_TEST_PLUGIN");
    if (shared != NULL) return shared;
    tpj_status *status = tpj_plugin_open(path == NULL ? "" : path, false, &plugin);
    if (status == NULL) status = tpj_client_create(plugin, N_DEVICES, &shared);
    if (status != NULL) printf("%s\n", tpj_status_message(status));
    if (status != NULL) abort();
    return shared;
}

/* A module of one function, `signature` = "(%a: …) -> …" and `body`. */
static tpj_status *compile(const char *signature, const char *body, const tpj_compile_options *options,
                           tpj_executable **out_program) {
    char module[1024];
    int n = snprintf(module, sizeof module, "module { func.func @main%s { %s } }", signature, body);
    return tpj_executable_compile(client(), module, (size_t)n, options, out_program);
}

static const char add_signature[] = "(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32>";
static const char add_body[] = "%c = stablehlo.add %a, %b : tensor<4xf32>\n return %c : tensor<4xf32>";
static const int64_t four[1] = {4};

static tpj_buffer *floats(int device, float first) {
    const float values[4] = {first, first + 1, first + 2, first + 3};
    tpj_buffer *buffer = NULL;
    tpj_status *status = tpj_buffer_from_host(client(), device, TPJ_F32, 1, four, values, &buffer);
    if (status != NULL) abort();
    return buffer;
}

TEST(client_is_as_asked) {
    CHECK_STRING(tpj_client_platform(client()), "cpu");
    CHECK(tpj_client_is_cpu(client()));
    CHECK_INT(tpj_client_n_devices(client()), N_DEVICES);
    CHECK_STRING(tpj_client_device_kind(client(), 0), "cpu");
    CHECK(tpj_client_device_id(client(), 0) != tpj_client_device_id(client(), 1));
    tpj_memory_stats stats;
    CHECK_OK(tpj_client_memory_stats(client(), 0, &stats));
    CHECK(!stats.known);
}

TEST(every_dtype_comes_back) {
    const int64_t dims[3] = {2, 3, 5};
    for (int i = 0; i < TPJ_N_DTYPES; i++) {
        tpj_dtype dtype = (tpj_dtype)i;
        size_t bytes = tpj_dtype_bytes(dtype), n = 30 * bytes;
        unsigned char sent[30 * 16], read[30 * 16], part[2 * 16];
        tpj_buffer *buffer;
        /* Values of one bit are good for every type, packed ones and bool too. */
        for (size_t j = 0; j < n; j++) sent[j] = j % bytes == 0 && j / bytes % 3 == 0;
        memset(read, 0xaa, sizeof read);
        CHECK_OK(tpj_buffer_from_host(client(), 1, dtype, 3, dims, sent, &buffer));
        CHECK_INT(tpj_buffer_bytes(buffer), n);
        CHECK_OK(tpj_buffer_to_host(buffer, read, n));
        CHECK_OR(memcmp(sent, read, n) == 0, "%s differs", tpj_dtype_name(dtype));
        CHECK_OK(tpj_buffer_to_host_part(buffer, 3 * bytes, part, 2 * bytes));
        CHECK_OR(memcmp(sent + 3 * bytes, part, 2 * bytes) == 0, "part of %s differs", tpj_dtype_name(dtype));
        tpj_buffer_release(buffer);
    }
}

TEST(empty_and_scalar_arrays_come_back) {
    const int64_t dims[2] = {3, 0};
    tpj_buffer *empty, *scalar;
    double sent = 2.5, read = 0;
    CHECK_OK(tpj_buffer_from_host(client(), 0, TPJ_F32, 2, dims, NULL, &empty));
    CHECK_OK(tpj_buffer_to_host(empty, NULL, 0));
    CHECK_OK(tpj_buffer_from_host(client(), 0, TPJ_F64, 0, NULL, &sent, &scalar));
    CHECK_OK(tpj_buffer_to_host(scalar, &read, sizeof read));
    CHECK(read == 2.5);
    tpj_buffer_release(empty);
    tpj_buffer_release(scalar);
}

TEST(the_host_may_reuse_its_memory_at_once) {
    enum { N = 1 << 20 };
    const int64_t dims[1] = {N};
    float *values = calloc(N, sizeof *values);
    tpj_buffer *buffer;
    CHECK(values != NULL);
    CHECK_OK(tpj_buffer_from_host(client(), 0, TPJ_F32, 1, dims, values, &buffer));
    for (int i = 0; i < N; i++) values[i] = 1;
    CHECK_OK(tpj_buffer_to_host(buffer, values, N * sizeof *values));
    CHECK(values[0] == 0 && values[N - 1] == 0);
    tpj_buffer_release(buffer);
    free(values);
}

TEST(a_portable_program_runs_on_every_device) {
    tpj_executable *program;
    CHECK_OK(compile(add_signature, add_body, NULL, &program));
    CHECK_INT(tpj_executable_n_outputs(program), 1);
    for (int device = 0; device < N_DEVICES; device++) {
        tpj_buffer *inputs[2] = {floats(device, 1), floats(device, 10)}, *output;
        float read[4];
        CHECK_OK(tpj_executable_execute(program, device, inputs, 2, NULL, 0, &output, 1));
        CHECK_INT(tpj_buffer_device(output), device);
        CHECK_INT(tpj_buffer_bytes(output), sizeof read);
        CHECK_OK(tpj_buffer_to_host(output, read, sizeof read));
        CHECK(read[0] == 11 && read[3] == 17);
        tpj_buffer_release(inputs[0]);
        tpj_buffer_release(inputs[1]);
        tpj_buffer_release(output);
    }
    tpj_executable_release(program);
}

TEST(a_program_for_one_device_runs_there) {
    const int64_t id[1] = {tpj_client_device_id(client(), 2)};
    const tpj_compile_options options = {.device_ids = id};
    tpj_executable *program;
    CHECK_OK(compile(add_signature, add_body, &options, &program));
    tpj_buffer *inputs[2] = {floats(2, 1), floats(2, 10)}, *output;
    CHECK_ERROR(tpj_executable_execute(program, 0, inputs, 2, NULL, 0, &output, 1), TPJ_INTERNAL, "for device 2");
    CHECK_OK(tpj_executable_execute(program, 2, inputs, 2, NULL, 0, &output, 1));
    CHECK_OK(tpj_buffer_wait(output));
    tpj_buffer_release(inputs[0]);
    tpj_buffer_release(inputs[1]);
    tpj_buffer_release(output);
    tpj_executable_release(program);
}

typedef struct replica {
    tpj_executable *program;
    int device;
    float result[4];
    tpj_status *status;
} replica;

static void *run_replica(void *argument) {
    replica *r = argument;
    tpj_buffer *input = floats(r->device, (float)(10 * r->device)), *output = NULL;
    r->status = tpj_executable_execute(r->program, r->device, &input, 1, NULL, 0, &output, 1);
    if (r->status == NULL) r->status = tpj_buffer_to_host(output, r->result, sizeof r->result);
    tpj_buffer_release(input);
    tpj_buffer_release(output);
    return NULL;
}

TEST(replicas_on_threads_reduce_together) {
    const int64_t ids[2] = {tpj_client_device_id(client(), 0), tpj_client_device_id(client(), 1)};
    const tpj_compile_options options = {.n_replicas = 2, .device_ids = ids};
    tpj_executable *program;
    pthread_t threads[2];
    replica replicas[2];
    CHECK_OK(
        compile("(%a: tensor<4xf32>) -> tensor<4xf32>",
                "%r = \"stablehlo.all_reduce\"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({\n"
                "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n %s = stablehlo.add %x, %y : tensor<f32>\n"
                " stablehlo.return %s : tensor<f32>\n}) : (tensor<4xf32>) -> tensor<4xf32>\n return %r : tensor<4xf32>",
                &options, &program));
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 2; i++) {
            replicas[i] = (replica){.program = program, .device = i};
            pthread_create(&threads[i], NULL, run_replica, &replicas[i]);
        }
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < 2; i++) {
            CHECK_OK(replicas[i].status);
            CHECK(replicas[i].result[0] == 10 && replicas[i].result[3] == 16);
        }
    }
    tpj_executable_release(program);
}

TEST(a_donated_input_is_gone_unless_kept) {
    static const char signature[] =
        "(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32>) -> tensor<4xf32>";
    const int64_t keep[1] = {0};
    tpj_executable *program;
    float read[4];
    CHECK_OK(compile(signature, add_body, NULL, &program));
    tpj_buffer *inputs[2] = {floats(0, 1), floats(0, 10)}, *output;
    for (int round = 0; round < 2; round++) {
        CHECK_OK(tpj_executable_execute(program, 0, inputs, 2, keep, round == 0, &output, 1));
        CHECK_OK(tpj_buffer_to_host(output, read, sizeof read));
        CHECK(read[0] == 11);
        tpj_buffer_release(output);
    }
    CHECK(tpj_buffer_bytes(inputs[0]) == sizeof read);
    tpj_status *status = tpj_buffer_to_host(inputs[0], read, sizeof read);
    CHECK_OR(status != NULL, "a donated buffer was read");
    tpj_status_destroy(status);
    status = tpj_executable_execute(program, 0, inputs, 2, NULL, 0, &output, 1);
    CHECK_OR(status != NULL, "a donated buffer was used again");
    tpj_status_destroy(status);
    tpj_buffer_release(inputs[0]);
    tpj_buffer_release(inputs[1]);
    tpj_executable_release(program);
}

TEST(inputs_that_do_not_fit_are_refused) {
    tpj_executable *program;
    tpj_buffer *output, *short_one, *doubles;
    const int64_t three[1] = {3};
    const double values[4] = {0};
    CHECK_OK(compile(add_signature, add_body, NULL, &program));
    tpj_buffer *good = floats(0, 1), *elsewhere = floats(1, 1);
    CHECK_OK(tpj_buffer_from_host(client(), 0, TPJ_F32, 1, three, values, &short_one));
    CHECK_OK(tpj_buffer_from_host(client(), 0, TPJ_F64, 1, four, values, &doubles));
    tpj_buffer *bad[] = {short_one, doubles, elsewhere};
    for (int i = 0; i < 3; i++) {
        tpj_buffer *inputs[2] = {good, bad[i]};
        tpj_status *status = tpj_executable_execute(program, 0, inputs, 2, NULL, 0, &output, 1);
        if (status == NULL) { /* a plugin may find out only when the program runs */
            status = tpj_buffer_wait(output);
            tpj_buffer_release(output);
        }
        CHECK_OR(status != NULL, "case %d was taken", i);
        tpj_status_destroy(status);
    }
    CHECK_ERROR(tpj_executable_execute(program, 0, &good, 1, NULL, 0, &output, 1), TPJ_RUNTIME,
                "PJRT_LoadedExecutable_Execute: ");
    tpj_buffer_release(good);
    tpj_buffer_release(elsewhere);
    tpj_buffer_release(short_one);
    tpj_buffer_release(doubles);
    tpj_executable_release(program);
}

TEST(a_program_survives_serialization) {
    tpj_executable *program, *again;
    void *blob;
    size_t n;
    float read[4];
    CHECK_OK(compile(add_signature, add_body, NULL, &program));
    CHECK_OK(tpj_executable_serialize(program, &blob, &n));
    tpj_executable_release(program);
    CHECK_OK(tpj_executable_deserialize(client(), blob, n, &again));
    tpj_buffer *inputs[2] = {floats(1, 1), floats(1, 2)}, *output; /* still portable */
    CHECK_OK(tpj_executable_execute(again, 1, inputs, 2, NULL, 0, &output, 1));
    CHECK_OK(tpj_buffer_to_host(output, read, sizeof read));
    CHECK(read[0] == 3);
    tpj_status *status = tpj_executable_deserialize(client(), blob, n / 2, &program);
    CHECK_OR(status != NULL, "half a program was loaded");
    tpj_status_destroy(status);
    free(blob);
    tpj_buffer_release(inputs[0]);
    tpj_buffer_release(inputs[1]);
    tpj_buffer_release(output);
    tpj_executable_release(again);
}

TEST(compile_errors_are_errors) {
    tpj_executable *program;
    tpj_status *status = compile("()", "nonsense", NULL, &program);
    CHECK_OR(status != NULL && strstr(tpj_status_message(status), "PJRT_Client_Compile: ") != NULL, "no error");
    tpj_status_destroy(status);
    const tpj_option unknown = {.name = "xla_no_such_option", .kind = TPJ_OPTION_BOOL, .int_value = 1};
    const tpj_compile_options refused = {.portable = true, .options = &unknown, .n_options = 1};
    CHECK_ERROR(compile(add_signature, add_body, &refused, &program), TPJ_RUNTIME, "xla_no_such_option");
    const tpj_option known = {.name = "xla_backend_optimization_level", .kind = TPJ_OPTION_INT, .int_value = 0};
    const tpj_compile_options taken = {.portable = true, .options = &known, .n_options = 1};
    CHECK_OK(compile(add_signature, add_body, &taken, &program));
    tpj_executable_release(program);
}

static atomic_int n_done;
static void count_done(void *context, int64_t nanoseconds) {
    if (nanoseconds > 0 && context == &n_done) atomic_fetch_add(&n_done, 1);
}

TEST(a_late_result_is_announced_once) {
    enum { SIDE = 600 };
    const int64_t dims[2] = {SIDE, SIDE};
    float *values = calloc(SIDE * SIDE, sizeof *values);
    tpj_executable *program;
    tpj_buffer *input, *output;
    bool ready;
    CHECK(values != NULL);
    CHECK_OK(compile("(%a: tensor<600x600xf32>) -> tensor<600x600xf32>",
                     "%b = stablehlo.dot %a, %a : (tensor<600x600xf32>, tensor<600x600xf32>) -> tensor<600x600xf32>\n"
                     "return %b : tensor<600x600xf32>",
                     NULL, &program));
    for (int i = 0; i < SIDE; i++) values[i * SIDE + i] = 2;
    CHECK_OK(tpj_buffer_from_host(client(), 0, TPJ_F32, 2, dims, values, &input));
    CHECK_OK(tpj_executable_execute(program, 0, &input, 1, NULL, 0, &output, 1));
    CHECK_OK(tpj_buffer_on_ready(output, count_done, &n_done));
    tpj_buffer_release(input); /* while it may still be read */
    CHECK_OK(tpj_buffer_to_host(output, values, SIDE * SIDE * sizeof *values));
    CHECK(values[0] == 4 && values[1] == 0 && values[SIDE * SIDE - 1] == 4);
    CHECK_OK(tpj_buffer_is_ready(output, &ready));
    CHECK(ready);
    for (int i = 0; i < 2000 && atomic_load(&n_done) == 0; i++) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CHECK_INT(atomic_load(&n_done), 1);
    tpj_buffer_release(output);
    tpj_executable_release(program);
    free(values);
}

TEST(buffers_go_to_other_devices) {
    float read[4];
    tpj_buffer *here = floats(0, 5), *there;
    CHECK_OK(tpj_buffer_copy_to_device(here, 2, &there));
    CHECK_INT(tpj_buffer_device(there), 2);
    tpj_buffer_release(here);
    CHECK_OK(tpj_buffer_to_host(there, read, sizeof read));
    CHECK(read[3] == 8);
    tpj_buffer_release(there);
}

TEST(a_forked_child_gets_an_error) {
    int state = 0;
    tpj_buffer *buffer = floats(0, 1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bool good = test_status_is(tpj_buffer_wait(buffer), TPJ_UNAVAILABLE, "forked after its first use");
        tpj_buffer_release(buffer);
        _exit(good);
    }
    waitpid(child, &state, 0);
    tpj_buffer_release(buffer);
    CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 1);
}
