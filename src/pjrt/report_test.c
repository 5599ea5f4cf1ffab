/* The function that programs report to, called as a plugin calls it, and what a launch's report says then. */
#include "pjrt/report.h"

#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "pjrt/internal.h"
#include "runner.h"

static tpj_client *client;
static tpj_report *report;

static tpj_status *start(int n_checks) {
    tpj_plugin *plugin;
    TPJ_TRY(tpj_plugin_open(fake_path(), false, &plugin));
    TPJ_TRY(tpj_client_create(plugin, 1, &client));
    return tpj_report_take(client, 0, n_checks, &report);
}

static void end(void) {
    tpj_report_give(report);
    tpj_client_destroy(client);
}

/* One check of `n` elements, as the program would make it. */
static void check(int dtype, const void *data, int64_t n, int64_t number, int64_t low, int64_t high) {
    uint64_t address = (uintptr_t)report;
    xla_ffi_buffer array = {.dtype = dtype, .data = (void *)(uintptr_t)data, .rank = 1, .dims = &n};
    xla_ffi_buffer operand = {.dtype = XLA_FFI_DATA_TYPE_S64, .data = &address};
    xla_ffi_scalar scalars[] = {
        {XLA_FFI_DATA_TYPE_S64, &number}, {XLA_FFI_DATA_TYPE_S64, &high}, {XLA_FFI_DATA_TYPE_S64, &low}};
    void *args[] = {&array, &operand}, *attrs[] = {&scalars[0], &scalars[1], &scalars[2]};
    xla_ffi_call_frame frame = {.stage = XLA_FFI_EXECUTION_STAGE_EXECUTE,
                                .args = {.size = 2, .args = args},
                                .attrs = {.size = 3, .attrs = attrs}};
    CHECK(tpj_report_handle(&frame) == NULL);
}

/* Whether a report finds something in one array, and that it says so in each way. */
static bool is_found(int dtype, const void *data, int64_t n, int64_t low, int64_t high, int64_t *out_element) {
    tpj_report_reset(report, 1);
    bool early = tpj_report_is_clear(report); /* the check has not been made yet */
    check(dtype, data, n, 0, low, high);
    int found = tpj_report_await(report, out_element);
    if (early || tpj_report_is_clear(report) != (found < 0)) *out_element = ~*out_element; /* which no test expects */
    return found == 0;
}

TEST(report_finds_every_element_that_is_outside) {
    enum { MOST = 37 }; /* blocks and what is left behind them */
    static const int64_t size = 5,
                         outside[] = {5, -6, 6, -7, INT64_MAX, INT64_MIN, INT64_MAX - 4, INT64_MIN + 5, 1LL << 40};
    int64_t indices[MOST], element = 0;
    CHECK_OK(start(1));
    for (int n = 1; n <= MOST; n++) {
        for (int i = 0; i < n; i++) indices[i] = i % 10 - 5;
        CHECK(!is_found(XLA_FFI_DATA_TYPE_S64, indices, n, -size, size - 1, &element));
        for (size_t k = 0; k < sizeof outside / sizeof *outside; k++) {
            int64_t inside = indices[n - 1];
            indices[n - 1] = outside[k];
            CHECK(is_found(XLA_FFI_DATA_TYPE_S64, indices, n, -size, size - 1, &element));
            CHECK(element == outside[k]);
            indices[n - 1] = inside;
        }
    }
    end();
}

TEST(report_finds_elements_of_32_bits) {
    static const int32_t size = INT32_MAX / 2, outside[] = {size, -1, INT32_MAX, INT32_MIN};
    int64_t element = 0;
    CHECK_OK(start(1));
    for (size_t k = 0; k < sizeof outside / sizeof *outside; k++) {
        int32_t indices[9] = {0, size - 1};
        CHECK(!is_found(XLA_FFI_DATA_TYPE_S32, indices, 9, 0, size - 1, &element));
        indices[8] = outside[k];
        CHECK(is_found(XLA_FFI_DATA_TYPE_S32, indices, 9, 0, size - 1, &element));
        CHECK(element == outside[k]);
    }
    end();
}

TEST(report_finds_everything_in_an_empty_dimension) {
    static const int64_t indices[] = {0};
    int64_t element = 7;
    CHECK_OK(start(1));
    CHECK(is_found(XLA_FFI_DATA_TYPE_S64, indices, 1, 0, -1, &element));
    CHECK(element == 0);
    CHECK(!is_found(XLA_FFI_DATA_TYPE_S64, indices, 0, 0, -1, &element));
    end();
}

TEST(report_names_the_first_check_and_is_clear_when_all_were_made) {
    static const int64_t good[] = {1}, bad[] = {9}, worse[] = {11};
    int64_t element;
    CHECK_OK(start(3));
    check(XLA_FFI_DATA_TYPE_S64, worse, 1, 2, 0, 4);
    check(XLA_FFI_DATA_TYPE_S64, bad, 1, 1, 0, 4);
    CHECK(!tpj_report_is_clear(report));
    check(XLA_FFI_DATA_TYPE_S64, good, 1, 0, 0, 4);
    CHECK(!tpj_report_is_clear(report));
    CHECK_INT(tpj_report_await(report, &element), 1);
    CHECK(element == 9);
    tpj_report_reset(report, 2);
    check(XLA_FFI_DATA_TYPE_S64, good, 1, 1, 0, 4);
    CHECK(!tpj_report_is_clear(report));
    check(XLA_FFI_DATA_TYPE_S64, good, 1, 0, 0, 4);
    CHECK(tpj_report_is_clear(report));
    end();
}

TEST(report_says_what_it_is_when_it_is_registered) {
    xla_ffi_metadata metadata = {.struct_size = sizeof metadata, .api_version = {.minor_version = -1}, .traits = 7};
    xla_ffi_metadata_extension extension = {{.type = XLA_FFI_EXTENSION_METADATA}, &metadata};
    xla_ffi_call_frame frame = {.extension_start = &extension.extension_base};
    CHECK(tpj_report_handle(&frame) == NULL);
    CHECK_INT(metadata.api_version.major_version, 0);
    CHECK_INT(metadata.api_version.minor_version, 1);
    CHECK_INT(metadata.traits, 0);
}

TEST(reports_that_were_given_back_are_taken_again) {
    tpj_report *other;
    CHECK_OK(start(1));
    CHECK_OK(tpj_report_take(client, 0, 1, &other));
    CHECK(other != report);
    tpj_report_give(other);
    tpj_report *again;
    CHECK_OK(tpj_report_take(client, 0, 1, &again));
    CHECK(again == other);
    tpj_report_give(again);
    end();
}

/* A launch that was seen to be in order is never awaited: what it left must not outlive the report's next use. */
TEST(reports_keep_nothing_of_launches_that_nobody_waited_for) {
    static const char module[] = "function_type = (tensor<1xi32>) -> tensor<1xi32>";
    static const int32_t number[] = {1};
    static const int64_t dims[] = {1};
    tpj_buffer *input, *output;
    tpj_executable *program;
    CHECK_OK(start(1));
    CHECK_OK(tpj_buffer_from_host(client, 0, TPJ_I32, 1, dims, number, &input));
    CHECK_OK(tpj_executable_compile(client, module, strlen(module), NULL, &program));
    for (int i = 0; i < 3; i++) {
        int64_t index = 0;
        tpj_report_reset(report, 1);
        CHECK_OK(tpj_executable_execute_reporting(program, 0, &input, 1, &output, 1, report));
        check(XLA_FFI_DATA_TYPE_S64, &index, 1, 0, 0, 0); /* late: the program runs behind from now on */
        CHECK(tpj_report_is_clear(report));
        tpj_buffer_release(output);
    }
    tpj_buffer_release(input);
    tpj_executable_release(program);
    end();
    CHECK_INT(atomic_load(&fake_controls()->n_live), 0);
}
