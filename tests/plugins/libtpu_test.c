/* Compiling for TPUs with the libtpu in TPJ_TEST_PLUGIN, on a machine that need not have one. */
#include <stdlib.h>

#include "runner.h"
#include "tpj/pjrt.h"

static tpj_plugin *libtpu(void) {
    tpj_plugin *plugin = NULL;
    const char *path = getenv("TPJ_TEST_PLUGIN");
    if (!test_status_is(tpj_plugin_open(path == NULL ? "" : path, true, &plugin), TPJ_OK, "")) abort();
    return plugin;
}

static const char product[] =
    "module { func.func @main(%a: tensor<256x256xf32>) -> tensor<256x256xf32> {\n"
    "%b = stablehlo.dot %a, %a : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>\n"
    "return %b : tensor<256x256xf32> } }";

TEST(topologies_have_their_devices) {
    const struct {
        const char *name;
        int n_devices;
        const char *kind;
        int64_t least_memory;
    } cases[] = {{"v5e:1x1", 1, "TPU v5 lite", 15LL << 30},
                 {"v6e:2x4", 8, "TPU v6 lite", 31LL << 30},
                 {"v4:2x2x1", 4, "TPU v4", 30LL << 30},
                 {"v5p:2x2x1", 4, "TPU v5", 95LL << 30},
                 {"tpu7x:2x2x1", 8, "TPU7x", 94LL << 30}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tpj_topology *topology;
        CHECK_OK(tpj_topology_create(libtpu(), cases[i].name, &topology));
        CHECK_INT(tpj_topology_n_devices(topology), cases[i].n_devices);
        CHECK_STRING(tpj_topology_device_kind(topology), cases[i].kind);
        CHECK(tpj_topology_memory_bytes(topology) > cases[i].least_memory);
        CHECK(strstr(tpj_topology_version(topology), "TPU") != NULL);
        tpj_topology_destroy(topology);
    }
    tpj_topology *topology;
    CHECK_ERROR(tpj_topology_create(libtpu(), "v99:1x1", &topology), TPJ_RUNTIME, "topology \"v99:1x1\": ");
}

TEST(one_chip_memory_and_cost) {
    tpj_topology *topology;
    tpj_compiled *compiled;
    tpj_compiled_memory memory;
    tpj_compiled_cost cost;
    CHECK_OK(tpj_topology_create(libtpu(), "v6e:1x1", &topology));
    CHECK_OK(tpj_topology_compile(topology, product, strlen(product), NULL, &compiled));
    CHECK_OK(tpj_compiled_memory_stats(compiled, &memory));
    CHECK_INT(memory.argument_bytes, 256 * 256 * 4);
    CHECK_INT(memory.output_bytes, 256 * 256 * 4);
    CHECK(memory.code_bytes > 0 && memory.peak_bytes > 0);
    CHECK_OK(tpj_compiled_cost_stats(compiled, &cost));
    CHECK(cost.flops > 2.0 * 256 * 256 * 255 && cost.bytes_accessed > 0);
    void *data;
    size_t n;
    CHECK_OK(tpj_compiled_serialize(compiled, &data, &n));
    CHECK(n > 1000);
    free(data);
    CHECK_OK(tpj_compiled_optimized_program(compiled, &data, &n));
    CHECK(n > 100);
    free(data);
    tpj_compiled_destroy(compiled);
    tpj_topology_destroy(topology);
}

TEST(a_mesh_of_eight_shares_the_work) {
    static const char module[] = "module { sdy.mesh @mesh = <[\"x\"=8]>\n"
                                 "func.func @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, "
                                 "[{\"x\"}, {}]>}) -> tensor<f32> {\n"
                                 "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
                                 "%s = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0, 1]"
                                 " : (tensor<64x128xf32>, tensor<f32>) -> tensor<f32>\n return %s : tensor<f32> } }";
    const tpj_compile_options options = {.n_partitions = 8, .use_spmd = true, .use_shardy = true};
    tpj_topology *topology;
    tpj_compiled *compiled;
    tpj_compiled_memory memory;
    CHECK_OK(tpj_topology_create(libtpu(), "v6e:2x4", &topology));
    CHECK_OK(tpj_topology_compile(topology, module, strlen(module), &options, &compiled));
    CHECK_OK(tpj_compiled_memory_stats(compiled, &memory));
    CHECK_INT(memory.argument_bytes, 64 * 128 * 4 / 8);
    tpj_compiled_destroy(compiled);
    tpj_topology_destroy(topology);
}

TEST(what_would_abort_the_compiler_is_an_error) {
    const int64_t id = 5;
    const tpj_option unknown = {.name = "xla_no_such_option", .kind = TPJ_OPTION_INT, .int_value = 1};
    const tpj_compile_options no_device = {.device_ids = &id}, no_option = {.options = &unknown, .n_options = 1};
    const tpj_compile_options too_many = {.n_replicas = 2};
    tpj_topology *topology;
    tpj_compiled *compiled;
    CHECK_OK(tpj_topology_create(libtpu(), "v5e:1x1", &topology));
    CHECK_ERROR(tpj_topology_compile(topology, product, strlen(product), &no_device, &compiled), TPJ_VALUE, "device 5");
    CHECK_ERROR(tpj_topology_compile(topology, product, strlen(product), &too_many, &compiled), TPJ_VALUE,
                "there are 1");
    CHECK_ERROR(tpj_topology_compile(topology, product, strlen(product), &no_option, &compiled), TPJ_RUNTIME,
                "xla_no_such_option");
    CHECK_ERROR(tpj_topology_compile(topology, "", 0, NULL, &compiled), TPJ_DEVICE, "PJRT_Compile: ");
    tpj_topology_destroy(topology);
}

TEST(memory_that_does_not_suffice_is_found_without_hardware) {
    static const char module[] =
        "module { func.func @main(%a: tensor<65536x65536xf32>) -> tensor<65536x65536xf32> {\n"
        "%b = stablehlo.dot %a, %a : (tensor<65536x65536xf32>, tensor<65536x65536xf32>) -> tensor<65536x65536xf32>\n"
        "return %b : tensor<65536x65536xf32> } }";
    tpj_topology *topology;
    tpj_compiled *compiled;
    CHECK_OK(tpj_topology_create(libtpu(), "v5e:1x1", &topology));
    CHECK_ERROR(tpj_topology_compile(topology, module, strlen(module), NULL, &compiled), TPJ_OUT_OF_MEMORY, "HBM");
    tpj_topology_destroy(topology);
}

TEST(a_client_without_a_tpu_is_an_error) {
    tpj_client *client;
    tpj_status *status = tpj_client_create(libtpu(), 1, &client);
    if (status == NULL) {
        tpj_client_destroy(client);
        test_skip("this machine has a TPU");
        return;
    }
    CHECK_ERROR(status, TPJ_UNAVAILABLE, "libtpu.so: PJRT_Client_Create: ");
}
