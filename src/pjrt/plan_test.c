/* The planning device, driven as the layers above drive it. */
#include "pjrt/plan.h"

#include <stdio.h>
#include <string.h>

#include "pjrt/plan_internal.h"
#include "runner.h"

#define MODULE(attributes, inputs, outputs)                                                                     \
    "\"builtin.module\"() <{sym_name = \"main\"}> ({\n\"func.func\"() <{" attributes "function_type = (" inputs \
    ") -> (" outputs "), sym_name = \"main\", sym_visibility = \"public\"}> ({\n}) : () -> ()\n}) : () -> ()\n"

static tpj_client *begin(int64_t memory_bytes) {
    tpj_plugin *plugin;
    static tpj_client *client; /* one for all tests, as a process has one */
    tpj_plan_target target = {"TPU v6 lite", "a version", 2, memory_bytes, NULL};
    if (tpj_plan_begin(&target) != NULL || tpj_plugin_open(TPJ_PLAN_PATH, false, &plugin) != NULL) return NULL;
    if (client == NULL && tpj_client_create(plugin, 2, &client) != NULL) return NULL;
    return client;
}

TEST(plan_reads_signatures) {
    static const struct {
        const char *type;
        int element, rank;
        int64_t n_bytes;
    } cases[] = {
        {"tensor<f32>", PJRT_BUFFER_TYPE_F32, 0, 4},
        {"tensor<4x8xbf16>", PJRT_BUFFER_TYPE_BF16, 2, 64},
        {"tensor<0x8xf64>", PJRT_BUFFER_TYPE_F64, 2, 0},
        {"tensor<3xi4>", PJRT_BUFFER_TYPE_S4, 1, 2},
        {"tensor<5xi1>", PJRT_BUFFER_TYPE_PRED, 1, 5},
        {"tensor<2xui16>", PJRT_BUFFER_TYPE_U16, 1, 4},
        {"tensor<2xcomplex<f32>>", PJRT_BUFFER_TYPE_C64, 1, 16},
        {"tensor<2xcomplex<f64>>", PJRT_BUFFER_TYPE_C128, 1, 32},
        {"tensor<7xf8E4M3FN>", PJRT_BUFFER_TYPE_F8E4M3FN, 1, 7},
        {"tensor<7xf8E4M3FNUZ>", PJRT_BUFFER_TYPE_F8E4M3FNUZ, 1, 7},
        {"tensor<1048576x1048576xf32>", PJRT_BUFFER_TYPE_F32, 2, INT64_C(1) << 42},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char module[512];
        tpj_plan_signature s;
        snprintf(module, sizeof module, "function_type = (%s, tensor<f32>) -> (%s), sym_name", cases[i].type,
                 cases[i].type);
        CHECK(tpj_plan_parse(module, &s));
        CHECK(s.n_inputs == 2 && s.n_outputs == 1);
        CHECK(s.inputs[0].element == cases[i].element && s.inputs[0].rank == cases[i].rank);
        CHECK(s.outputs[0].n_bytes == cases[i].n_bytes);
        CHECK(s.donated[0] == TPJ_PLAN_KEPT && s.donated[1] == TPJ_PLAN_KEPT);
        tpj_plan_signature_destroy(&s);
    }
}

TEST(plan_refuses_what_is_no_signature) {
    static const char *const modules[] = {"", "function_type = (tensor<4xf32>",
                                          "function_type = (tensor<4xwhat>) -> ()",
                                          "function_type = (tensor<?xf32>) -> ()", "function_type = () => ()"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        tpj_plan_signature s;
        CHECK(!tpj_plan_parse(modules[i], &s));
        tpj_plan_signature_destroy(&s);
    }
}

TEST(plan_reads_donations) {
    tpj_plan_signature s;
    CHECK(tpj_plan_parse(MODULE("arg_attrs = [{tf.aliasing_output = 1 : i32}, {}, {jax.buffer_donor = true}], ",
                                "tensor<4xf32>, tensor<4xf32>, tensor<4xf32>", "tensor<f32>, tensor<4xf32>"),
                         &s));
    CHECK(s.donated[0] == 1 && s.donated[1] == TPJ_PLAN_KEPT && s.donated[2] == TPJ_PLAN_ANY_OUTPUT);
    tpj_plan_signature_destroy(&s);
}

TEST(plan_device_is_the_target) {
    tpj_client *client = begin(1000);
    CHECK(client != NULL);
    tpj_memory_stats stats;
    CHECK(strcmp(tpj_client_platform(client), "tpu") == 0 && !tpj_client_is_cpu(client));
    CHECK(strcmp(tpj_client_platform_version(client), "a version") == 0);
    CHECK(strcmp(tpj_client_device_kind(client, 1), "TPU v6 lite") == 0);
    CHECK(tpj_client_n_devices(client) == 2);
    CHECK(tpj_client_plans(client) && !tpj_client_keeps_programs(client));
    CHECK_OK(tpj_client_memory_stats(client, 0, &stats));
    CHECK(stats.known && stats.bytes_limit == 1000);
}

/* One upload, two launches (of which the second donates), a read: what is held, and at most, at each event. */
TEST(plan_counts_memory) {
    static const char plain[] = MODULE("", "tensor<256xf32>", "tensor<256xf32>, tensor<128xf32>");
    static const char donating[] =
        MODULE("arg_attrs = [{tf.aliasing_output = 0 : i32}], ", "tensor<256xf32>", "tensor<256xf32>");
    tpj_client *client = begin(1 << 20);
    CHECK(client != NULL);
    float data[256] = {1}, read[256];
    int64_t size = 256;
    tpj_buffer *input, *made[2], *donated;
    tpj_executable *first, *second;
    size_t known = tpj_plan_n_programs();
    CHECK_OK(tpj_executable_compile(client, plain, sizeof plain - 1, NULL, &first));
    CHECK_OK(tpj_executable_compile(client, donating, sizeof donating - 1, NULL, &second));
    CHECK_OK(tpj_buffer_from_host(client, 0, TPJ_F32, 1, &size, data, &input));
    CHECK_OK(tpj_executable_execute(first, 0, &input, 1, NULL, 0, made, 2));
    tpj_buffer_release(input); /* right behind the launch: it could have been donated */
    CHECK_OK(tpj_executable_execute(second, 0, made, 1, NULL, 0, &donated, 1));
    CHECK_OK(tpj_buffer_to_host(donated, read, sizeof read));
    CHECK(read[0] == 0 && read[255] == 0);
    tpj_plan_mark(7);

    static const tpj_plan_event expected[] = {
        {.what = TPJ_PLAN_UPLOAD, .subject = -1, .bytes = 1024, .live = 1024, .most = 1024},
        {.what = TPJ_PLAN_LAUNCH, .subject = 0, .bytes = 1536, .live = 2560, .most = 2560},
        {.what = TPJ_PLAN_LAUNCH, .subject = 1, .bytes = 0, .live = 1536, .most = 1536},
        {.what = TPJ_PLAN_READ, .subject = -1, .bytes = 1024, .live = 1536, .most = 1536},
        {.what = TPJ_PLAN_MARK, .subject = 7, .bytes = 0, .live = 1536, .most = 1536},
    };
    tpj_plan_event events[8];
    CHECK(tpj_plan_events(0, 8, events) == 5);
    CHECK(tpj_plan_events(4, 8, events) == 1 && tpj_plan_events(5, 8, events) == 0);
    CHECK(tpj_plan_events(0, 8, events) == 5);
    for (int i = 0; i < 5; i++) {
        int64_t subject = expected[i].subject + (events[i].what == TPJ_PLAN_LAUNCH ? (int64_t)known : 0);
        CHECK(events[i].what == expected[i].what && events[i].subject == subject);
        CHECK(events[i].bytes == expected[i].bytes && events[i].live == expected[i].live);
        CHECK(events[i].most == expected[i].most);
    }
    tpj_plan_program program;
    CHECK(tpj_plan_n_programs() == known + 2 && !tpj_plan_program_get(known + 2, &program));
    CHECK(tpj_plan_program_get(known, &program));
    CHECK(program.argument_bytes == 1024 && program.output_bytes == 1536 && program.alias_bytes == 0);
    CHECK(program.n_launches == 1 && program.missed_bytes == 1024);
    CHECK(tpj_plan_program_get(known + 1, &program));
    CHECK(program.alias_bytes == 1024 && program.missed_bytes == 0);
    int64_t types[TPJ_PLAN_TYPES];
    tpj_plan_peak(0, types);
    CHECK(types[PJRT_BUFFER_TYPE_F32] == 2560 && types[PJRT_BUFFER_TYPE_BF16] == 0);

    CHECK_ERROR(tpj_executable_execute(second, 0, made, 1, NULL, 0, &donated, 1), TPJ_RUNTIME, "donated");
    tpj_buffer_release(made[0]);
    tpj_buffer_release(made[1]);
    tpj_buffer_release(donated);
    tpj_executable_release(first);
    tpj_executable_release(second);
}

TEST(plan_reports_errors) {
    tpj_client *client = begin(1 << 20);
    CHECK(client != NULL);
    tpj_executable *executable;
    CHECK_ERROR(tpj_executable_compile(client, "what", 4, NULL, &executable), TPJ_RUNTIME, "does not parse");
    tpj_plan_target none = {"TPU", "", 0, 0, NULL}, absent = {"TPU", "", 1, 0, "/no/such/plugin.so"};
    CHECK_ERROR(tpj_plan_begin(&none), TPJ_VALUE, "0 devices");
    CHECK_ERROR(tpj_plan_begin(&absent), TPJ_UNAVAILABLE, "/no/such/plugin.so");
}

static int64_t n_read;
static int64_t answer(int64_t n_bytes, bool is_bool) {
    n_read += n_bytes;
    return is_bool ? 5 + TPJ_PLAN_TRUE : 6 + TPJ_PLAN_TRUE;
}

TEST(plan_says_who_reads_and_bools_may_be_true) {
    tpj_client *client = begin(1 << 20);
    CHECK(client != NULL);
    const int64_t three = 3;
    const unsigned char given[3] = {0, 1, 0};
    unsigned char bools[3] = {7, 7, 7}, bytes[3] = {7, 7, 7};
    tpj_buffer *a, *b;
    CHECK_OK(tpj_buffer_from_host(client, 1, TPJ_BOOL, 1, &three, given, &a));
    CHECK_OK(tpj_buffer_from_host(client, 1, TPJ_U8, 1, &three, given, &b));
    tpj_plan_on_read(answer);
    CHECK_OK(tpj_buffer_to_host(a, bools, 3));
    CHECK_OK(tpj_buffer_to_host(b, bytes, 3));
    tpj_plan_on_read(NULL);
    CHECK(bools[0] == 1 && bools[2] == 1 && bytes[0] == 0 && bytes[2] == 0 && n_read == 6);
    tpj_plan_event events[3];
    CHECK_INT(tpj_plan_events(0, 3, events), 2); /* the uploads are too small for events */
    CHECK(events[0].subject == 5 && events[1].subject == 6 && events[0].device == 1 && events[0].live == 6);
    tpj_buffer_release(a);
    tpj_buffer_release(b);
}
