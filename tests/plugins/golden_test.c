/* Every golden module compiles with a real plugin. TPJ_TEST_PLUGIN is its path, TPJ_TEST_GOLDEN the folder;
 * tests/python/test_golden.py builds and runs this for every plugin that is installed. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "runner.h"
#include "tpj/pjrt.h"

static tpj_status *compile_file(tpj_client *client, const char *path) {
    enum { N_MODULE = 1 << 20 };
    static char module[N_MODULE];
    tpj_executable *program;
    FILE *file = fopen(path, "rb");
    if (file == NULL) return tpj_status_create(TPJ_VALUE, "cannot read %s", path);
    size_t n = fread(module, 1, sizeof module - 1, file);
    fclose(file);
    module[n] = '\0';
    TPJ_TRY(tpj_executable_compile(client, module, n, NULL, &program));
    tpj_executable_release(program);
    return NULL;
}

static int is_module(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');
    return dot != NULL && strcmp(dot, ".mlir") == 0;
}

TEST(golden_modules_compile) {
    const char *path = getenv("TPJ_TEST_PLUGIN"), *folder = getenv("TPJ_TEST_GOLDEN");
    tpj_plugin *plugin;
    tpj_client *client;
    struct dirent **entries;
    CHECK_OK(tpj_plugin_open(path == NULL ? "" : path, false, &plugin));
    CHECK_OK(tpj_client_create(plugin, 1, &client));
    int n = scandir(folder == NULL ? "." : folder, &entries, is_module, alphasort);
    CHECK_OR(n > 30, "%d modules", n);
    for (int i = 0; i < n; i++) {
        char module[600];
        snprintf(module, sizeof module, "%s/%s", folder, entries[i]->d_name);
        tpj_status *status = compile_file(client, module);
        if (status != NULL) test_fail(module, 1, "%s", tpj_status_message(status));
        tpj_status_destroy(status);
        free(entries[i]);
    }
    free(entries);
    tpj_client_destroy(client);
}
