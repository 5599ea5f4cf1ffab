/* The client against the fake plugin (tests/fake_plugin), which lies beside the test program. */
#define _POSIX_C_SOURCE 200809L
#include "tpj/pjrt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocation.h"
#include "base/log.h"
#include "fake.h"
#include "runner.h"

/* Two outputs like the inputs and one of another type, which the fake plugin leaves zero. The first input is donated. */
#define MODULE(attributes)                                                                                          \
    "\"builtin.module\"() ({\n\"func.func\"() <{" attributes "function_type = (tensor<2x3xf32>, tensor<4xi32>) -> " \
    "(tensor<2x3xf32>, tensor<4xi32>, tensor<f64>), sym_name = \"main\"}> ({}) : () -> ()\n}) : () -> ()\n"
static const char plain_module[] = MODULE("");
static const char donating_module[] = MODULE("arg_attrs = [{tf.aliasing_output = 0 : i32}, {}], ");
enum { N_OUTPUTS = 3 };

/* ---- one of everything, as a caller would use it ---- */
typedef struct scenario {
    tpj_client *client;
    tpj_executable *program, *loaded;
    tpj_buffer *floats, *integers, *across;
    tpj_buffer *first[N_OUTPUTS], *second[N_OUTPUTS];
    void *blob, *compiled_blob, *optimized;
    size_t blob_size;
    tpj_topology *topology;
    tpj_compiled *compiled;
    atomic_int n_done;
    int n_done_expected;
} scenario;

static const float some_floats[6] = {1, 2, 3, 4, 5, 6};
static const int32_t some_integers[4] = {10, 20, 30, 40};

static void count_done(void *context, int64_t nanoseconds) {
    if (nanoseconds > 0) atomic_fetch_add((atomic_int *)context, 1);
}

static void end_scenario(scenario *s) {
    for (int i = 0; i < N_OUTPUTS; i++) {
        tpj_buffer_release(s->first[i]);
        tpj_buffer_release(s->second[i]);
    }
    tpj_buffer_release(s->floats);
    tpj_buffer_release(s->integers);
    tpj_buffer_release(s->across);
    tpj_executable_release(s->program);
    tpj_executable_release(s->loaded);
    free(s->blob);
    free(s->compiled_blob);
    free(s->optimized);
    tpj_compiled_destroy(s->compiled);
    tpj_topology_destroy(s->topology);
    tpj_client_destroy(s->client); /* ends the launches that are late, and so their callbacks */
}

static tpj_status *expect(bool right, const char *what) {
    return right ? NULL : tpj_status_create(TPJ_INTERNAL, "wrong: %s", what);
}

static tpj_status *read_results(scenario *s, tpj_buffer **outputs) {
    float floats[6] = {0};
    int32_t integers[2] = {0};
    double zero = 1;
    bool ready = false;
    TPJ_TRY(tpj_buffer_to_host(outputs[0], floats, sizeof floats));
    TPJ_TRY(expect(memcmp(floats, some_floats, sizeof floats) == 0, "floats"));
    TPJ_TRY(tpj_buffer_is_ready(outputs[0], &ready));
    TPJ_TRY(expect(ready, "not ready after a read"));
    TPJ_TRY(tpj_buffer_to_host_part(outputs[1], 4, integers, sizeof integers));
    TPJ_TRY(expect(integers[0] == 20 && integers[1] == 30, "integers"));
    TPJ_TRY(tpj_buffer_wait(outputs[2]));
    TPJ_TRY(tpj_buffer_to_host(outputs[2], &zero, sizeof zero));
    TPJ_TRY(expect(zero == 0, "zero"));
    TPJ_TRY(tpj_buffer_on_ready(outputs[2], count_done, &s->n_done));
    s->n_done_expected++;
    return NULL;
}

static tpj_status *use_device(scenario *s, int device) {
    const int64_t float_dims[2] = {2, 3}, integer_dims[1] = {4}, keep[1] = {0};
    tpj_memory_stats stats;
    TPJ_TRY(tpj_buffer_from_host(s->client, device, TPJ_F32, 2, float_dims, some_floats, &s->floats));
    TPJ_TRY(tpj_buffer_from_host(s->client, device, TPJ_I32, 1, integer_dims, some_integers, &s->integers));
    tpj_buffer *inputs[2] = {s->floats, s->integers};
    TPJ_TRY(tpj_executable_compile(s->client, donating_module, strlen(donating_module), NULL, &s->program));
    TPJ_TRY(tpj_executable_execute(s->program, device, inputs, 2, keep, 1, s->first, N_OUTPUTS));
    TPJ_TRY(tpj_buffer_on_ready(s->first[0], count_done, &s->n_done));
    s->n_done_expected++;
    TPJ_TRY(read_results(s, s->first));
    TPJ_TRY(tpj_executable_serialize(s->program, &s->blob, &s->blob_size));
    TPJ_TRY(tpj_executable_deserialize(s->client, s->blob, s->blob_size, &s->loaded));
    TPJ_TRY(tpj_executable_execute(s->loaded, device, inputs, 2, NULL, 0, s->second, N_OUTPUTS));
    TPJ_TRY(read_results(s, s->second));
    TPJ_TRY(tpj_buffer_copy_to_device(s->integers, 0, &s->across));
    TPJ_TRY(tpj_buffer_wait(s->across));
    return tpj_client_memory_stats(s->client, device, &stats);
}

static tpj_status *use_topology(scenario *s, tpj_plugin *plugin) {
    tpj_compiled_memory memory;
    tpj_compiled_cost cost;
    TPJ_TRY(tpj_topology_create(plugin, "fake:2x2", &s->topology));
    TPJ_TRY(tpj_topology_compile(s->topology, plain_module, strlen(plain_module), NULL, &s->compiled));
    TPJ_TRY(tpj_compiled_memory_stats(s->compiled, &memory));
    TPJ_TRY(expect(memory.argument_bytes == 40 && memory.output_bytes == 48 && memory.peak_bytes == -1, "memory"));
    TPJ_TRY(tpj_compiled_cost_stats(s->compiled, &cost));
    TPJ_TRY(expect(cost.flops == 8 && cost.bytes_accessed == 96 && cost.optimal_seconds < 0, "cost"));
    size_t n;
    TPJ_TRY(tpj_compiled_serialize(s->compiled, &s->compiled_blob, &n));
    TPJ_TRY(expect(n == strlen(plain_module) + 1, "serialized size"));
    TPJ_TRY(tpj_compiled_optimized_program(s->compiled, &s->optimized, &n));
    return expect(n == strlen(plain_module) && memcmp(s->optimized, plain_module, n) == 0, "optimized program");
}

static tpj_status *run_scenario(void) {
    scenario s = {.n_done_expected = 0};
    tpj_status *status = NULL;
    tpj_plugin *plugin;
    TPJ_TRY_GOTO(tpj_plugin_open(fake_path(), false, &plugin));
    TPJ_TRY_GOTO(tpj_client_create(plugin, 3, &s.client));
    TPJ_TRY_GOTO(use_device(&s, tpj_client_n_devices(s.client) - 1));
    TPJ_TRY_GOTO(use_topology(&s, plugin));
done:
    end_scenario(&s);
    if (status == NULL) status = expect(atomic_load(&s.n_done) == s.n_done_expected, "callbacks");
    return status;
}

/* ---- sweeps ---- */
/* One failure, at the Nth place: an error (or a result that is right after all), nothing left behind, and then a success. */
static bool survives(int nth, bool plugin_fails, bool and_all_after, bool *out_reached) {
    long n_live_before = allocation_n_live();
    if (plugin_fails)
        atomic_store(&fake_controls()->fail_call, nth);
    else
        allocation_fail(nth, and_all_after);
    tpj_status *status = run_scenario();
    *out_reached = plugin_fails ? atomic_load(&fake_controls()->fail_call) <= 0 : allocation_has_failed();
    atomic_store(&fake_controls()->fail_call, 0);
    allocation_fail(0, false);
    bool explained = status == NULL ||
                     (*out_reached && plugin_fails && strstr(tpj_status_message(status), "injected fault")) ||
                     (*out_reached && !plugin_fails && tpj_status_code(status) == TPJ_OUT_OF_MEMORY);
    if (!explained) printf("fault %d: %s\n", nth, tpj_status_message(status));
    tpj_status_destroy(status);
    bool clean = atomic_load(&fake_controls()->n_live) == 0 && allocation_n_live() == n_live_before;
    if (!clean)
        printf("fault %d: %d objects, %ld blocks are left\n", nth, atomic_load(&fake_controls()->n_live),
               allocation_n_live() - n_live_before);
    status = run_scenario();
    bool recovers = status == NULL;
    if (!recovers) printf("fault %d, retry: %s\n", nth, tpj_status_message(status));
    tpj_status_destroy(status);
    return explained && clean && recovers;
}

static bool sweep(bool plugin_fails, bool and_all_after, int *out_n) {
    bool reached = true, good = true;
    tpj_status_destroy(run_scenario()); /* loads the plugin, which stays */
    for (*out_n = 0; reached && good && *out_n < 1000; ++*out_n)
        good = survives(*out_n + 1, plugin_fails, and_all_after, &reached);
    return good;
}

TEST(pjrt_survives_each_failing_call) {
    int n;
    for (int late = 0; late < 2; late++) {
        atomic_store(&fake_controls()->delay, late * 100);
        bool good = sweep(true, false, &n);
        atomic_store(&fake_controls()->delay, 0);
        CHECK(good);
        CHECK_OR(n > 80 && n < 1000, "%d calls", n);
    }
}

TEST(pjrt_survives_each_failing_call_of_a_tpu) {
    int n;
    fake_controls()->is_tpu = true;
    bool good = sweep(true, false, &n);
    fake_controls()->is_tpu = false;
    CHECK(good);
    CHECK_OR(n > 80 && n < 1000, "%d calls", n);
}

TEST(pjrt_survives_each_failing_allocation) {
    int n;
    CHECK(sweep(false, false, &n));
    CHECK_OR(n > 20 && n < 1000, "%d allocations", n);
    CHECK(sweep(false, true, &n));
    CHECK_OR(n > 20 && n < 1000, "%d allocations", n);
}

static int n_ignored;
static void count_ignored(void *context, tpj_log_level level, const char *message) {
    (void)context, (void)level;
    n_ignored += strstr(message, "injected fault of a destroy") != NULL;
}

TEST(pjrt_logs_what_a_destroy_reports) {
    n_ignored = 0;
    tpj_log_set_sink(count_ignored, NULL);
    tpj_log_set_level(TPJ_LOG_INFO);
    atomic_store(&fake_controls()->fail_destroy, true);
    tpj_status *status = run_scenario();
    atomic_store(&fake_controls()->fail_destroy, false);
    tpj_log_set_level(TPJ_LOG_WARNING);
    tpj_log_set_sink(NULL, NULL);
    CHECK_OK(status);
    CHECK_INT(atomic_load(&fake_controls()->n_live), 0);
    CHECK_OR(n_ignored > 10, "%d", n_ignored);
}

/* ---- threads ---- */
enum { N_THREADS = 4 };
static char shared_path[600];

static void *open_and_run(void *argument) {
    tpj_plugin **out_plugin = argument;
    tpj_status *status = tpj_plugin_open(shared_path, false, out_plugin);
    for (int i = 0; i < 10 && status == NULL; i++) status = run_scenario();
    return status;
}

TEST(pjrt_serves_threads_at_once) {
    pthread_t threads[N_THREADS];
    tpj_plugin *plugins[N_THREADS] = {NULL};
    void *status[N_THREADS];
    /* A path of its own, so that the threads meet while the plugin is loaded. */
    snprintf(shared_path, sizeof shared_path, "%.*s/././fake_plugin.so", (int)(strrchr(fake_path(), '/') - fake_path()),
             fake_path());
    atomic_store(&fake_controls()->delay, 50);
    for (int i = 0; i < N_THREADS; i++) pthread_create(&threads[i], NULL, open_and_run, &plugins[i]);
    for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], &status[i]);
    atomic_store(&fake_controls()->delay, 0);
    for (int i = 0; i < N_THREADS; i++) {
        CHECK_OK((tpj_status *)status[i]);
        CHECK(plugins[i] == plugins[0]);
    }
    CHECK_INT(atomic_load(&fake_controls()->n_live), 0);
}

typedef struct sharing {
    tpj_executable *program;
    tpj_buffer *input;
    atomic_int n_right;
} sharing;

/* Owns a reference to the input; the program is the test's. */
static void *launch_on_shared(void *argument) {
    sharing *s = argument;
    for (int i = 0; i < 200; i++) {
        tpj_buffer *output = NULL;
        int32_t integers[4] = {0};
        tpj_status *status = tpj_executable_execute(s->program, 0, &s->input, 1, NULL, 0, &output, 1);
        if (status == NULL) status = tpj_buffer_to_host(output, integers, sizeof integers);
        atomic_fetch_add(&s->n_right, status == NULL && integers[3] == 40);
        tpj_status_destroy(status);
        tpj_buffer_release(output);
    }
    tpj_buffer_release(s->input);
    return NULL;
}

TEST(buffers_and_programs_are_shared_by_threads) {
    static const char module[] = "function_type = (tensor<4xi32>) -> tensor<4xi32>";
    const int64_t dims[1] = {4};
    pthread_t threads[N_THREADS];
    tpj_plugin *plugin;
    tpj_client *client;
    sharing s = {.program = NULL};
    CHECK_OK(tpj_plugin_open(fake_path(), false, &plugin));
    CHECK_OK(tpj_client_create(plugin, 1, &client));
    CHECK_OK(tpj_executable_compile(client, module, strlen(module), NULL, &s.program));
    CHECK_OK(tpj_buffer_from_host(client, 0, TPJ_I32, 1, dims, some_integers, &s.input));
    atomic_store(&fake_controls()->delay, 20);
    for (int i = 0; i < N_THREADS; i++) {
        tpj_buffer_retain(s.input);
        pthread_create(&threads[i], NULL, launch_on_shared, &s);
    }
    tpj_buffer_release(s.input);
    for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
    atomic_store(&fake_controls()->delay, 0);
    tpj_executable_release(s.program);
    tpj_client_destroy(client);
    CHECK_INT(atomic_load(&s.n_right), 200 * N_THREADS);
    CHECK_INT(atomic_load(&fake_controls()->n_live), 0);
}

/* ---- a plugin that is none ---- */
TEST(plugin_errors_name_the_file) {
    tpj_plugin *plugin;
    char path[600];
    CHECK_ERROR(tpj_plugin_open("/nonexistent/pjrt.so", false, &plugin), TPJ_UNAVAILABLE,
                "cannot read the PJRT plugin /nonexistent/pjrt.so: No such file");
    CHECK_ERROR(tpj_plugin_open("/proc/self/status", false, &plugin), TPJ_UNAVAILABLE, "/proc/self/status");
    CHECK_ERROR(tpj_plugin_open("/lib/x86_64-linux-gnu/libm.so.6", false, &plugin), TPJ_UNAVAILABLE, "libm.so.6");
    snprintf(path, sizeof path, "%.*s/./fake_plugin.so", (int)(strrchr(fake_path(), '/') - fake_path()), fake_path());
    fake_controls()->api_size = 200;
    tpj_status *status = tpj_plugin_open(path, false, &plugin);
    fake_controls()->api_size = 0;
    CHECK_ERROR(status, TPJ_UNAVAILABLE, "implements PJRT API 0.114, and 0.81 or a later");
    tpj_plugin *again;
    int major, minor;
    CHECK_OK(tpj_plugin_open(path, false, &plugin));
    CHECK_OK(tpj_plugin_open(path, false, &again));
    CHECK(again == plugin);
    CHECK_STRING(tpj_plugin_path(plugin), path);
    tpj_plugin_api_version(plugin, &major, &minor);
    CHECK_INT(major, 0);
    CHECK_INT(minor, 114);
}

/* ---- details ---- */
typedef struct device {
    tpj_plugin *plugin;
    tpj_client *client;
} device;

static bool open_device(device *d, int n_devices) {
    *d = (device){NULL, NULL};
    return test_status_is(tpj_plugin_open(fake_path(), false, &d->plugin), TPJ_OK, "") &&
           test_status_is(tpj_client_create(d->plugin, n_devices, &d->client), TPJ_OK, "");
}

TEST(client_describes_its_devices) {
    device d;
    CHECK(open_device(&d, 3));
    CHECK_INT(tpj_client_n_devices(d.client), 3);
    CHECK_INT(tpj_client_device_id(d.client, 2), 12);
    CHECK_STRING(tpj_client_device_kind(d.client, 2), "fake device");
    CHECK_STRING(tpj_client_platform(d.client), "cpu");
    CHECK_STRING(tpj_client_platform_version(d.client), "fake 1");
    CHECK(tpj_client_is_cpu(d.client));
    CHECK(tpj_client_plugin(d.client) == d.plugin);
    tpj_memory_stats stats;
    CHECK_OK(tpj_client_memory_stats(d.client, 0, &stats));
    CHECK(!stats.known && stats.bytes_limit == -1);
    tpj_client_destroy(d.client);
    CHECK_ERROR(tpj_client_create(d.plugin, 100, &d.client), TPJ_RUNTIME, "fake_plugin.so: PJRT_Client_Create: ");
}

TEST(client_of_a_tpu_is_asked_without_options) {
    device d;
    fake_controls()->is_tpu = true;
    bool open = open_device(&d, 1);
    tpj_memory_stats stats;
    tpj_status *status = open ? tpj_client_memory_stats(d.client, 0, &stats) : NULL;
    fake_controls()->is_tpu = false;
    CHECK(open);
    CHECK_OK(status);
    CHECK_INT(tpj_client_n_devices(d.client), 4);
    CHECK(!tpj_client_is_cpu(d.client));
    CHECK(stats.known);
    CHECK_INT(stats.bytes_in_use, 1000);
    CHECK_INT(stats.peak_bytes_in_use, -1);
    CHECK_INT(stats.bytes_limit, 4096);
    tpj_client_destroy(d.client);
}

TEST(buffer_takes_a_byte_for_small_types_and_none_for_empty_ones) {
    device d;
    CHECK(open_device(&d, 1));
    const int64_t dims[2] = {0, 7}, five[1] = {5};
    const unsigned char nibbles[5] = {1, 2, 3, 4, 5};
    unsigned char read[5] = {0};
    tpj_buffer *empty, *small, *scalar;
    float one = 1, back = 0;
    CHECK_OK(tpj_buffer_from_host(d.client, 0, TPJ_F32, 2, dims, NULL, &empty));
    CHECK_OK(tpj_buffer_to_host(empty, NULL, 0));
    CHECK_INT(tpj_buffer_bytes(empty), 0);
    CHECK_OK(tpj_buffer_from_host(d.client, 0, TPJ_U4, 1, five, nibbles, &small));
    CHECK_INT(tpj_buffer_bytes(small), 5);
    CHECK_OK(tpj_buffer_to_host(small, read, 5));
    CHECK(memcmp(read, nibbles, 5) == 0);
    CHECK_OK(tpj_buffer_from_host(d.client, 0, TPJ_F32, 0, NULL, &one, &scalar));
    tpj_buffer_retain(scalar);
    tpj_buffer_release(scalar);
    CHECK_OK(tpj_buffer_to_host(scalar, &back, 4));
    CHECK(back == 1);
    CHECK_ERROR(tpj_buffer_to_host(scalar, &back, 3), TPJ_INTERNAL, "read of 3 bytes");
    CHECK_ERROR(tpj_buffer_to_host_part(scalar, 2, &back, 3), TPJ_INTERNAL, "3 bytes at 2");
    CHECK_ERROR(tpj_buffer_to_host_part(scalar, SIZE_MAX, &back, 3), TPJ_INTERNAL, "read of");
    tpj_buffer_release(empty);
    tpj_buffer_release(small);
    tpj_buffer_release(scalar);
    tpj_client_destroy(d.client);
    CHECK_INT(atomic_load(&fake_controls()->n_live), 0);
}

TEST(execute_consumes_what_is_donated) {
    device d;
    const int64_t float_dims[2] = {2, 3}, integer_dims[1] = {4}, keep[1] = {0};
    tpj_buffer *inputs[2], *outputs[N_OUTPUTS];
    tpj_executable *program;
    float floats[6];
    CHECK(open_device(&d, 1));
    CHECK_OK(tpj_buffer_from_host(d.client, 0, TPJ_F32, 2, float_dims, some_floats, &inputs[0]));
    CHECK_OK(tpj_buffer_from_host(d.client, 0, TPJ_I32, 1, integer_dims, some_integers, &inputs[1]));
    CHECK_OK(tpj_executable_compile(d.client, donating_module, strlen(donating_module), NULL, &program));
    CHECK_INT(tpj_executable_n_outputs(program), N_OUTPUTS);
    for (int round = 0; round < 2; round++) { /* kept first, then consumed */
        CHECK_OK(tpj_executable_execute(program, 0, inputs, 2, keep, round == 0, outputs, N_OUTPUTS));
        CHECK_INT(tpj_buffer_bytes(outputs[0]), 24); /* asked of the plugin */
        CHECK_INT(tpj_buffer_device(outputs[0]), 0);
        for (int i = 0; i < N_OUTPUTS; i++) tpj_buffer_release(outputs[i]);
    }
    CHECK_ERROR(tpj_buffer_to_host(inputs[0], floats, sizeof floats), TPJ_RUNTIME, "donated");
    outputs[0] = inputs[0];
    CHECK_ERROR(tpj_executable_execute(program, 0, inputs, 2, NULL, 0, outputs, N_OUTPUTS), TPJ_RUNTIME,
                "PJRT_LoadedExecutable_Execute: an input was donated before (INVALID_ARGUMENT)");
    CHECK(outputs[0] == inputs[0]); /* an error writes nothing */
    CHECK_ERROR(tpj_executable_execute(program, 0, inputs, 2, NULL, 0, outputs, 1), TPJ_INTERNAL, "3 outputs");
    tpj_buffer_release(inputs[0]);
    tpj_buffer_release(inputs[1]);
    tpj_executable_release(program);
    tpj_client_destroy(d.client);
    CHECK_INT(atomic_load(&fake_controls()->n_live), 0);
}

TEST(execute_reports_a_device_error_at_the_read) {
    device d;
    const int64_t dims[1] = {4};
    static const char module[] = "function_type = (tensor<4xi32>) -> tensor<4xi32>";
    tpj_buffer *input, *output, *next;
    tpj_executable *program;
    int32_t integers[4];
    CHECK(open_device(&d, 1));
    CHECK_OK(tpj_buffer_from_host(d.client, 0, TPJ_I32, 1, dims, some_integers, &input));
    CHECK_OK(tpj_executable_compile(d.client, module, strlen(module), NULL, &program));
    atomic_store(&fake_controls()->delay, 2000);
    atomic_store(&fake_controls()->fail_execution, 1);
    CHECK_OK(tpj_executable_execute(program, 0, &input, 1, NULL, 0, &output, 1));
    CHECK_OK(tpj_executable_execute(program, 0, &output, 1, NULL, 0, &next, 1)); /* on what has not failed yet */
    CHECK_ERROR(tpj_buffer_to_host(next, integers, sizeof integers), TPJ_DEVICE, "failed on the device (INTERNAL)");
    CHECK_ERROR(tpj_buffer_wait(output), TPJ_DEVICE, "failed on the device");
    atomic_store(&fake_controls()->delay, 0);
    tpj_buffer_release(input);
    tpj_buffer_release(output);
    tpj_buffer_release(next);
    tpj_executable_release(program);
    tpj_client_destroy(d.client);
    CHECK_INT(atomic_load(&fake_controls()->n_live), 0);
}

TEST(compile_options_are_checked) {
    device d;
    CHECK(open_device(&d, 2));
    tpj_executable *program = NULL;
    const int64_t second[1] = {11}, unknown[1] = {3}, twice[2] = {10, 10};
    const struct {
        tpj_compile_options options;
        const char *part; /* NULL: compiles */
    } cases[] = {
        {{.portable = true}, NULL},
        {{.device_ids = second}, NULL},
        {{.n_replicas = 2, .use_spmd = true}, NULL},
        {{.device_ids = unknown}, "name device 3, which is none of the 2 devices"},
        {{.device_ids = twice, .n_partitions = 2}, "device 10 twice"},
        {{.n_replicas = 3}, "need 3 devices, there are 2"},
        {{.n_replicas = -1}, "-1 replicas"},
        {{.portable = true, .n_partitions = 2}, "portable"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tpj_status *status =
            tpj_executable_compile(d.client, plain_module, strlen(plain_module), &cases[i].options, &program);
        if (cases[i].part != NULL) {
            CHECK_ERROR(status, TPJ_VALUE, cases[i].part);
        } else {
            CHECK_OK(status);
            tpj_executable_release(program);
        }
    }
    CHECK_ERROR(tpj_executable_compile(d.client, "", 0, NULL, &program), TPJ_RUNTIME, "does not parse");
    tpj_client_destroy(d.client);
}

TEST(execute_knows_the_device_of_a_program) {
    device d;
    const int64_t dims[1] = {4}, second[1] = {11};
    static const char module[] = "function_type = (tensor<4xi32>) -> tensor<4xi32>";
    const tpj_compile_options options = {.device_ids = second};
    tpj_executable *program;
    tpj_buffer *input, *output;
    CHECK(open_device(&d, 2));
    CHECK_OK(tpj_buffer_from_host(d.client, 1, TPJ_I32, 1, dims, some_integers, &input));
    CHECK_OK(tpj_executable_compile(d.client, module, strlen(module), &options, &program));
    CHECK_ERROR(tpj_executable_execute(program, 0, &input, 1, NULL, 0, &output, 1), TPJ_INTERNAL, "for device 1");
    CHECK_OK(tpj_executable_execute(program, 1, &input, 1, NULL, 0, &output, 1));
    CHECK_INT(tpj_buffer_device(output), 1);
    tpj_buffer_release(output);
    tpj_executable_release(program);
    CHECK_OK(tpj_executable_compile(d.client, module, strlen(module), NULL, &program)); /* portable: on any */
    CHECK_OK(tpj_executable_execute(program, 1, &input, 1, NULL, 0, &output, 1));
    CHECK_ERROR(tpj_executable_execute(program, 0, &input, 1, NULL, 0, &output, 1), TPJ_RUNTIME, "on another device");
    tpj_buffer_release(output);
    tpj_executable_release(program);
    tpj_buffer_release(input);
    tpj_client_destroy(d.client);
}

TEST(execute_takes_many_values) {
    enum { N = 40 }; /* inputs and outputs that do not fit on the stack */
    device d;
    char types[N * 16] = "", module[2 * N * 16 + 64];
    tpj_buffer *inputs[N], *outputs[N];
    tpj_executable *program;
    const int64_t dims[1] = {4};
    for (int i = 0; i < N; i++) strcat(types, i == 0 ? "tensor<4xi32>" : ", tensor<4xi32>");
    snprintf(module, sizeof module, "function_type = (%s) -> (%s)", types, types);
    CHECK(open_device(&d, 1));
    CHECK_OK(tpj_executable_compile(d.client, module, strlen(module), NULL, &program));
    for (int i = 0; i < N; i++) {
        int32_t values[4] = {i, i, i, i};
        CHECK_OK(tpj_buffer_from_host(d.client, 0, TPJ_I32, 1, dims, values, &inputs[i]));
    }
    CHECK_OK(tpj_executable_execute(program, 0, inputs, N, NULL, 0, outputs, N));
    for (int i = 0; i < N; i++) {
        int32_t values[4];
        CHECK_OK(tpj_buffer_to_host(outputs[i], values, sizeof values));
        CHECK_INT(values[3], i);
        tpj_buffer_release(inputs[i]);
        tpj_buffer_release(outputs[i]);
    }
    tpj_executable_release(program);
    tpj_client_destroy(d.client);
    CHECK_INT(atomic_load(&fake_controls()->n_live), 0);
}

TEST(topology_errors_name_it) {
    device d;
    CHECK(open_device(&d, 1));
    tpj_topology *topology;
    tpj_compiled *compiled;
    CHECK_ERROR(tpj_topology_create(d.plugin, "v6e", &topology), TPJ_RUNTIME,
                "topology \"v6e\": PJRT_TopologyDescription_Create");
    CHECK_OK(tpj_topology_create(d.plugin, "v6e:2x3", &topology));
    CHECK_INT(tpj_topology_n_devices(topology), 6);
    CHECK_INT(tpj_topology_device_id(topology, 5), 5);
    CHECK_STRING(tpj_topology_version(topology), "fake 1");
    CHECK_STRING(tpj_topology_device_kind(topology), "fake device");
    CHECK_INT(tpj_topology_memory_bytes(topology), 1000);
    int64_t id = 6;
    const tpj_compile_options options = {.device_ids = &id};
    CHECK_ERROR(tpj_topology_compile(topology, plain_module, strlen(plain_module), &options, &compiled), TPJ_VALUE,
                "device 6");
    for (id = 0; id < 6; id++) {
        CHECK_OK(tpj_topology_compile(topology, plain_module, strlen(plain_module), &options, &compiled));
        tpj_compiled_destroy(compiled);
    }
    tpj_topology_destroy(topology);
    tpj_client_destroy(d.client);
}

/* After fork: errors instead of calls. Exit status 1 for good. */
TEST(fork_gives_a_clear_error) {
    device d;
    const int64_t dims[1] = {4};
    tpj_buffer *buffer, *other;
    int state = 0;
    CHECK(open_device(&d, 1));
    CHECK_OK(tpj_buffer_from_host(d.client, 0, TPJ_I32, 1, dims, some_integers, &buffer));
    CHECK(!tpj_plugin_is_forked());
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int n_calls = atomic_load(&fake_controls()->n_calls);
        bool good = tpj_plugin_is_forked() &&
                    test_status_is(tpj_buffer_from_host(d.client, 0, TPJ_I32, 1, dims, some_integers, &other),
                                   TPJ_UNAVAILABLE, "\"spawn\"") &&
                    test_status_is(tpj_buffer_wait(buffer), TPJ_UNAVAILABLE, "forked after its first use") &&
                    test_status_is(tpj_client_create(d.plugin, 1, &d.client), TPJ_UNAVAILABLE, "forked");
        tpj_buffer_release(buffer);
        _exit(good && atomic_load(&fake_controls()->n_calls) == n_calls && atomic_load(&fake_controls()->n_live) > 0);
    }
    waitpid(child, &state, 0);
    tpj_buffer_release(buffer);
    tpj_client_destroy(d.client);
    CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 1);
}
