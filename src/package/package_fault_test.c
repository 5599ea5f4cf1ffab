/* A whole package on the fake plugin: memory that runs out, calls that fail and files that are cut leave an error, nothing
 * behind, and a package that works as soon as they do not. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "allocation.h"
#include "base/text.h"
#include "fake.h"
#include "package/internal.h"
#include "pjrt/internal.h"
#include "runner.h"
#include "tpj/package.h"

enum { N = 6 };

/* The fake plugin copies each argument to the result of its number: "y" is "x", and the buffer "w" keeps its value. */
static const char module[] =
    "\"builtin.module\"() ({\n\"func.func\"() ({\n}) {arg_attrs = [{}, {}], function_type = (tensor<2x3xf32>, "
    "tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>), sym_name = \"main\", sym_visibility = \"public\"} : () -> "
    "()\n}) : () -> ()\n";

static char folder[64];
static const char *const names[] = {"manifest.json", "program.mlir", "weights.safetensors"};
static tpj_text files[3];

static bool write_file(int i, size_t n) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    FILE *file = fopen(path, "wb");
    if (file == NULL) return false;
    bool good = fwrite(files[i].data, 1, n, file) == n;
    return fclose(file) == 0 && good;
}

static void make_weights(tpj_text *out) {
    static const char header[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}";
    const float values[N] = {1, 2, 3, 4, 5, 6};
    const char length[8] = {(char)(sizeof header - 1)};
    tpj_text_append(out, length, sizeof length);
    tpj_text_append(out, header, sizeof header - 1);
    tpj_text_append(out, (const char *)values, sizeof values);
}

static void list_file(tpj_text *out, int i, const char *comma) {
    tpj_text_printf(out, "\"%s\": {\"bytes\": %zu, \"crc32\": %u}%s", names[i], files[i].length,
                    tpj_package_crc32(files[i].data, files[i].length), comma);
}

static void make_manifest(tpj_text *out) {
    tpj_text_add(out, "{\"format\": \"torch_pjrt.package\", \"version\": 1, \"program\": \"program.mlir\", "
                      "\"weights_file\": \"weights.safetensors\", \"files\": {");
    list_file(out, 1, ", ");
    list_file(out, 2, "}, ");
    tpj_text_add(out,
                 "\"inputs\": [{\"name\": \"x\", \"dtype\": \"f32\", \"shape\": [2, 3]}], "
                 "\"outputs\": [{\"name\": \"y\", \"dtype\": \"f32\", \"shape\": [2, 3]}], "
                 "\"weights\": [{\"name\": \"w\", \"dtype\": \"f32\", \"shape\": [2, 3]}], "
                 "\"arguments\": [{\"input\": 0}, {\"weight\": 0}], \"results\": [{\"output\": 0}, {\"weight\": 0}], "
                 "\"checks\": [], \"executables\": []}\n");
}

static bool make_package(void) {
    snprintf(folder, sizeof folder, "/tmp/torch_pjrt_package_XXXXXX");
    if (mkdtemp(folder) == NULL) return false;
    tpj_text_add(&files[1], module);
    make_weights(&files[2]);
    make_manifest(&files[0]);
    return write_file(0, files[0].length) && write_file(1, files[1].length) && write_file(2, files[2].length);
}

static void remove_package(void) {
    for (int i = 0; i < 3; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
        tpj_text_destroy(&files[i]);
        files[i] = (tpj_text){0};
    }
    rmdir(folder);
}

static tpj_status *run_twice(tpj_package *package, tpj_client *client, tpj_buffer **x, tpj_buffer **y) {
    static const int64_t dims[] = {2, 3};
    const float given[N] = {7, 8, 9, 10, 11, 12};
    float got[N];
    TPJ_TRY(tpj_buffer_from_host(client, 0, TPJ_F32, 2, dims, given, x));
    for (int i = 0; i < 2; i++) { /* the second reads the buffer that the first has left */
        tpj_buffer_release(*y);
        *y = NULL;
        TPJ_TRY(tpj_package_run(package, x, 1, y));
        TPJ_TRY(tpj_buffer_to_host(*y, got, sizeof got));
        if (memcmp(got, given, sizeof got) != 0) return tpj_status_create(TPJ_INTERNAL, "wrong values");
    }
    return NULL;
}

static tpj_status *use_package(void) {
    tpj_plugin *plugin;
    tpj_client *client = NULL;
    tpj_package *package = NULL;
    tpj_buffer *x = NULL, *y = NULL;
    tpj_status *status;
    TPJ_TRY_GOTO(tpj_plugin_open(fake_path(), false, &plugin));
    TPJ_TRY_GOTO(tpj_client_create(plugin, 1, &client));
    TPJ_TRY_GOTO(tpj_package_open(folder, &package));
    TPJ_TRY_GOTO(tpj_package_load(package, client, 0));
    TPJ_TRY_GOTO(run_twice(package, client, &x, &y));
done:
    tpj_buffer_release(x);
    tpj_buffer_release(y);
    tpj_package_close(package);
    if (client != NULL) tpj_client_destroy(client);
    return status;
}

/* One fault, at the Nth place. False where it is not answered as it should be; *out_reached: whether it was met. */
static bool survives(int nth, bool plugin_fails, bool *out_reached) {
    long n_blocks = allocation_n_live();
    fake_plugin_controls *controls = fake_controls();
    if (plugin_fails)
        atomic_store(&controls->fail_call, nth);
    else
        allocation_fail(nth, false);
    tpj_status *status = use_package();
    *out_reached = plugin_fails ? atomic_load(&controls->fail_call) <= 0 : allocation_has_failed();
    atomic_store(&controls->fail_call, 0);
    allocation_fail(0, false);
    bool explained =
        status == NULL || (*out_reached && (plugin_fails ? strstr(tpj_status_message(status), "injected fault") != NULL
                                                         : tpj_status_code(status) == TPJ_OUT_OF_MEMORY));
    if (!explained) printf("fault %d: %s\n", nth, tpj_status_message(status));
    tpj_status_destroy(status);
    bool clean = allocation_n_live() == n_blocks && atomic_load(&controls->n_live) == 0;
    if (!clean)
        printf("fault %d: %ld blocks and %d objects are left\n", nth, allocation_n_live() - n_blocks,
               atomic_load(&controls->n_live));
    return explained && clean;
}

static void sweep(bool plugin_fails) {
    bool reached = true, good = make_package();
    tpj_status *first = good ? use_package() : NULL; /* what stays for the life of the process is there now */
    good = good && first == NULL;
    if (first != NULL) printf("%s\n", tpj_status_message(first));
    tpj_status_destroy(first);
    int n = 0;
    while (reached && good && n < 2000) good = survives(++n, plugin_fails, &reached);
    tpj_status *last = use_package();
    bool recovers = last == NULL;
    tpj_status_destroy(last);
    remove_package();
    CHECK(good);
    CHECK(!reached && n > 10);
    CHECK(recovers);
}

TEST(package_survives_memory_that_runs_out) { sweep(false); }
TEST(package_survives_each_failing_call) { sweep(true); }

TEST(package_files_that_are_cut_are_errors) {
    bool good = make_package(), refused = true, whole;
    for (int i = 0; i < 3 && good && refused; i++) {
        for (size_t n = 0; n + 1 < files[i].length && refused; n++) { /* the manifest's last byte is a newline */
            tpj_status *status = write_file(i, n) ? use_package() : NULL;
            refused = tpj_status_code(status) == TPJ_VALUE && strstr(tpj_status_message(status), names[i]) != NULL;
            if (!refused) printf("%s, %zu bytes: %s\n", names[i], n, status ? tpj_status_message(status) : "taken");
            tpj_status_destroy(status);
        }
        good = write_file(i, files[i].length);
    }
    tpj_status *status = use_package();
    whole = status == NULL;
    tpj_status_destroy(status);
    remove_package();
    CHECK(good);
    CHECK(refused);
    CHECK(whole);
}

TEST(package_bytes_that_changed_are_errors) {
    bool good = make_package(), refused = true;
    for (int i = 1; i < 3 && good && refused; i++) {
        for (size_t n = 0; n < files[i].length && refused; n++) {
            files[i].data[n] ^= 1;
            tpj_status *status = write_file(i, files[i].length) ? use_package() : NULL;
            refused = test_status_is(status, TPJ_VALUE, "damaged");
            files[i].data[n] ^= 1;
        }
        good = write_file(i, files[i].length);
    }
    remove_package();
    CHECK(good);
    CHECK(refused);
}
