/* Kept programs, on the fake plugin. */
#define _GNU_SOURCE /* mkdtemp */
#include "exec/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "fake.h"
#include "pjrt/identity.h"
#include "pjrt/internal.h"
#include "runner.h"

#define MODULE(sizes)                                                                                          \
    "\"builtin.module\"() ({\n\"func.func\"() <{function_type = (tensor<" sizes "xf32>) -> (tensor<" sizes     \
    "xf32>), sym_name = \"main\"}> ({\n^bb0(%0: tensor<" sizes "xf32>):\n\"func.return\"(%0) : (tensor<" sizes \
    "xf32>) -> ()\n}) : () -> ()\n}) : () -> ()\n"

static char local[64], shared[64];
static tpj_client *client;

static tpj_status *use(const char *local_folder, const char *shared_folder) {
    tpj_compile_forget_folders();
    TPJ_TRY(tpj_config_set(tpj_config_find("cache_dir"), local_folder));
    return tpj_config_set(tpj_config_find("cache_shared_dir"), shared_folder);
}

static tpj_status *start(void) {
    tpj_plugin *plugin;
    snprintf(local, sizeof local, "/tmp/tpj_local_XXXXXX");
    snprintf(shared, sizeof shared, "/tmp/tpj_shared_XXXXXX");
    if (mkdtemp(local) == NULL || mkdtemp(shared) == NULL) TPJ_ERROR(TPJ_INTERNAL, "no folder");
    TPJ_TRY(tpj_plugin_open(fake_path(), false, &plugin));
    TPJ_TRY(tpj_client_create(plugin, 1, &client));
    return use(local, shared);
}

static void finish(void) {
    char command[256];
    tpj_client_destroy(client);
    tpj_status_destroy(use("none", ""));
    tpj_compile_forget_folders();
    snprintf(command, sizeof command, "rm -rf %s %s", local, shared);
    if (system(command) != 0) test_fail(__FILE__, __LINE__, "%s", command);
}

/* Whether the module was loaded (1), compiled (0), or neither (-1). */
static int make(const char *module) {
    tpj_executable *executable;
    bool loaded;
    tpj_status *status = tpj_compile(client, module, strlen(module), NULL, &executable, &loaded);
    if (status != NULL) {
        tpj_status_destroy(status);
        return -1;
    }
    tpj_executable_release(executable);
    return loaded;
}

TEST(compile_loads_what_was_compiled_before) {
    CHECK_OK(start());
    CHECK_INT(make(MODULE("3")), 0);
    CHECK_INT(make(MODULE("3")), 1);
    CHECK_INT(make(MODULE("4")), 0);
    CHECK_INT(make(MODULE("3") "#loc1 = loc(\"add\"(\"train.py\":3:0))\n"), 1); /* locations do not count */
    CHECK_INT(make(MODULE("3") "#loc1 = loc(\"add\"(\"train.py\":4:0))\n"), 1);
    CHECK_OK(use("none", ""));
    CHECK_INT(make(MODULE("3")), 0);
    finish();
}

TEST(compile_fetches_from_the_shared_folder) {
    char command[256];
    CHECK_OK(start());
    CHECK_INT(make(MODULE("3")), 0);
    snprintf(command, sizeof command, "rm -rf %s/*", local);
    CHECK_INT(system(command), 0);
    CHECK_INT(make(MODULE("3")), 1);
    CHECK_OK(use(local, "")); /* it has come into the near one */
    CHECK_INT(make(MODULE("3")), 1);
    finish();
}

TEST(compile_keeps_nothing_of_a_module_that_fails) {
    CHECK_OK(start());
    for (int i = 0; i < 2; i++) {
        atomic_store(&fake_controls()->fail_call, 1);
        CHECK_INT(make(MODULE("3")), -1);
    }
    atomic_store(&fake_controls()->fail_call, 0);
    CHECK_INT(make(MODULE("3")), 0);
    finish();
}

/* Each call of the plugin fails once, with and without a kept program: a failing load is a compilation, a failing
 * serialization keeps nothing. */
TEST(compile_survives_each_failing_call) {
    char command[256];
    CHECK_OK(start());
    CHECK_OK(use(local, ""));
    for (int kept = 0; kept < 2; kept++)
        for (int nth = 1; nth < 12; nth++) {
            snprintf(command, sizeof command, "rm -rf %s/*", local);
            CHECK_INT(system(command), 0);
            if (kept) CHECK_INT(make(MODULE("3")), 0);
            atomic_store(&fake_controls()->fail_call, nth);
            int result = make(MODULE("3"));
            bool failed = atomic_exchange(&fake_controls()->fail_call, 0) <= 0;
            if (kept) CHECK_OR(result >= 0, "call %d", nth);
            if (!failed) CHECK_INT(result, kept);
            CHECK_OR(make(MODULE("3")) >= 0, "after call %d", nth);
        }
    CHECK_INT(atomic_load(&fake_controls()->n_live) > 0, 1); /* the client */
    finish();
    CHECK_INT(atomic_load(&fake_controls()->n_live), 0);
}

TEST(identity_tells_plugins_devices_and_options_apart) {
    tpj_plugin *plugin;
    tpj_client *other;
    tpj_text first = {0}, again = {0}, two = {0}, optimised = {0};
    CHECK_OK(start());
    CHECK_OK(tpj_plugin_open(fake_path(), false, &plugin));
    CHECK_OK(tpj_client_create(plugin, 2, &other));
    CHECK_OK(tpj_client_identify(client, NULL, &first));
    CHECK_OK(tpj_client_identify(client, NULL, &again));
    CHECK_OK(tpj_client_identify(other, NULL, &two));
    tpj_compile_options options = {.portable = true, .optimization_level = 2};
    CHECK_OK(tpj_client_identify(client, &options, &optimised));
    CHECK_STRING(tpj_text_string(&first), tpj_text_string(&again));
    CHECK(strcmp(tpj_text_string(&first), tpj_text_string(&two)) != 0);
    CHECK(strcmp(tpj_text_string(&first), tpj_text_string(&optimised)) != 0);
    CHECK(strstr(tpj_text_string(&first), "plugin: ") != NULL && strstr(tpj_text_string(&first), " 0 bytes") == NULL);
    tpj_text_destroy(&first);
    tpj_text_destroy(&again);
    tpj_text_destroy(&two);
    tpj_text_destroy(&optimised);
    tpj_client_destroy(other);
    finish();
}

/* What `torch_pjrt compile` puts into the folder for a TPU that is not there, that TPU's client finds: however many devices
 * it has, and whatever the locations are. */
TEST(compile_loads_what_was_kept_for_an_absent_tpu) {
    static const char module[] = MODULE("5"), located[] = MODULE("5") "#loc1 = loc(\"add\")\n";
    char data[sizeof module];
    tpj_text proto = {0};
    fake_controls()->is_tpu = true;
    tpj_status *status = start();
    fake_controls()->is_tpu = false;
    CHECK_OK(status);
    CHECK(!tpj_client_is_cpu(client) && tpj_client_n_devices(client) > 1);
    CHECK_OK(tpj_executable_write_options(client, NULL, &proto));
    tpj_absent_client absent = {fake_path(),
                                tpj_client_platform(client),
                                tpj_client_platform_version(client),
                                tpj_client_device_kind(client, 0),
                                proto.data,
                                proto.length};
    data[0] = 'p'; /* as the fake plugin serializes */
    memcpy(data + 1, module, sizeof module - 1);
    CHECK_OK(tpj_compile_keep(local, &absent, located, sizeof located - 1, data, sizeof data));
    CHECK_INT(make(module), 1);
    absent.device_kind = "another";
    CHECK_OK(tpj_compile_keep(local, &absent, MODULE("6"), sizeof MODULE("6") - 1, data, sizeof data));
    CHECK_INT(make(MODULE("6")), 0);
    CHECK_ERROR(tpj_compile_keep("/proc/none", &absent, module, sizeof module - 1, data, sizeof data), TPJ_RUNTIME,
                "/proc/none");
    tpj_text_destroy(&proto);
    finish();
}
