#define _POSIX_C_SOURCE 200809L
#include "base/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "runner.h"

static char logged[1024];

static void keep_log(void *context, tpj_log_level level, const char *message) {
    (void)context;
    size_t n = strlen(logged);
    snprintf(logged + n, sizeof logged - n, "%s: %s\n", tpj_log_level_name(level), message);
}

/* The environment is read once in a process, so each case is a child, which exits with what `judge` says. */
static bool load_in_child(const char *name, const char *value, int (*judge)(tpj_status *status)) {
    int state = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setenv(name, value, 1);
        tpj_log_set_sink(keep_log, NULL);
        _exit(judge(tpj_config_load()));
    }
    waitpid(child, &state, 0);
    return WIFEXITED(state) && WEXITSTATUS(state) == 1;
}

static int has_four_devices(tpj_status *status) { return status == NULL && tpj_config_num_devices() == 4; }
static int has_default(tpj_status *status) { return status == NULL && tpj_config_num_devices() == 1; }
static int has_two_gib(tpj_status *status) {
    return status == NULL && tpj_config_program_cache_bytes() == (int64_t)2 << 30;
}
static int is_silent(tpj_status *status) { return status == NULL && strcmp(tpj_config_fallback(), "silent") == 0; }
static int has_no_check(tpj_status *status) { return status == NULL && !tpj_config_check_index(); }
static int logs_debug(tpj_status *status) { return status == NULL && tpj_log_enabled(TPJ_LOG_DEBUG); }
static int blames_range(tpj_status *status) {
    return tpj_status_code(status) == TPJ_VALUE && tpj_config_num_devices() == 1 &&
           strstr(tpj_status_message(status), "TORCH_PJRT_NUM_DEVICES=") != NULL &&
           strstr(tpj_status_message(status), "expected an integer from 1 to 1024") != NULL;
}
static int blames_choice(tpj_status *status) {
    return tpj_status_code(status) == TPJ_VALUE &&
           strstr(tpj_status_message(status), "TORCH_PJRT_FALLBACK=never: expected one of warn|error|silent") != NULL;
}
static int blames_bool(tpj_status *status) {
    return tpj_status_code(status) == TPJ_VALUE && strstr(tpj_status_message(status), "expected 0 or 1") != NULL;
}
static int warns_of_nearest(tpj_status *status) {
    bool again = tpj_config_load() == NULL; /* once only */
    return status == NULL && again &&
           strcmp(logged, "warning: TORCH_PJRT_NUM_DEVICE is no setting; did you mean TORCH_PJRT_NUM_DEVICES?\n") == 0;
}

TEST(config_reads_the_environment) {
    CHECK(load_in_child("TORCH_PJRT_NUM_DEVICES", "4", has_four_devices));
    CHECK(load_in_child("TORCH_PJRT_NUM_DEVICES", "", has_default));
    CHECK(load_in_child("TORCH_PJRT_PROGRAM_CACHE_BYTES", "2G", has_two_gib));
    CHECK(load_in_child("TORCH_PJRT_FALLBACK", "silent", is_silent));
    CHECK(load_in_child("TORCH_PJRT_CHECK_INDEX", "off", has_no_check));
    CHECK(load_in_child("TORCH_PJRT_LOG_LEVEL", "debug", logs_debug));
}

TEST(config_refuses_what_does_not_fit) {
    static const char *const bad[] = {"0", "-1", "1025", "many", "4x", "4KK", "99999999999999999999", "9000000T"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_OR(load_in_child("TORCH_PJRT_NUM_DEVICES", bad[i], blames_range), "\"%s\" was taken", bad[i]);
    CHECK(load_in_child("TORCH_PJRT_FALLBACK", "never", blames_choice));
    CHECK(load_in_child("TORCH_PJRT_CHECK_INDEX", "maybe", blames_bool));
}

TEST(config_warns_of_unknown_names) { CHECK(load_in_child("TORCH_PJRT_NUM_DEVICE", "2", warns_of_nearest)); }

TEST(config_lists_every_setting) {
    CHECK(tpj_config_n_settings() >= 9);
    CHECK(tpj_config_setting(-1) == NULL && tpj_config_setting(tpj_config_n_settings()) == NULL);
    CHECK(tpj_config_find("no_such_setting") == NULL);
    for (int i = 0; i < tpj_config_n_settings(); i++) {
        const tpj_setting *setting = tpj_config_setting(i);
        CHECK(tpj_config_find(setting->name) == setting);
        CHECK(strncmp(setting->env, "TORCH_PJRT_", 11) == 0 && strlen(setting->env) == 11 + strlen(setting->name));
        CHECK(strlen(setting->doc) > 20);
        CHECK((setting->kind == TPJ_SETTING_CHOICE) == (setting->choices != NULL));
        CHECK_OK(tpj_config_set(setting, setting->initial)); /* each default is a value that fits */
    }
}

TEST(config_changes_at_run_time) {
    const tpj_setting *setting = tpj_config_find("dump_dir");
    CHECK_OK(tpj_config_set(setting, "/tmp/one"));
    const char *one = tpj_config_dump_dir();
    CHECK_OK(tpj_config_set(setting, "/tmp/two"));
    CHECK_STRING(tpj_config_dump_dir(), "/tmp/two");
    CHECK_STRING(one, "/tmp/one"); /* still lent */
    CHECK_OK(tpj_config_set(setting, "/tmp/one"));
    CHECK(tpj_config_dump_dir() == one); /* and kept once */
    CHECK_OK(tpj_config_set(setting, ""));
    setting = tpj_config_find("program_cache_bytes");
    CHECK_ERROR(tpj_config_set(setting, "lots"), TPJ_VALUE, "program_cache_bytes=lots");
    CHECK_INT(tpj_config_integer(setting), 4294967296);
    CHECK_STRING(tpj_config_string(tpj_config_find("eager_mode")), "strict");
}

TEST(log_respects_the_level) {
    logged[0] = '\0';
    tpj_log_set_sink(keep_log, NULL);
    tpj_log(TPJ_LOG_INFO, "not %s", "this");
    tpj_log(TPJ_LOG_ERROR, "but %d", 1);
    tpj_log_set_level(TPJ_LOG_OFF);
    tpj_log(TPJ_LOG_ERROR, "nor that");
    tpj_log_set_level(TPJ_LOG_WARNING);
    tpj_log_set_sink(NULL, NULL);
    CHECK_STRING(logged, "error: but 1\n");
    CHECK(!tpj_log_enabled(TPJ_LOG_OFF) && !tpj_log_enabled(TPJ_LOG_INFO) && tpj_log_enabled(TPJ_LOG_WARNING));
}
