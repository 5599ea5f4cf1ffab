#define _GNU_SOURCE /* memmem */
#include "exec/compile.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "cache/disk.h"
#include "pjrt/identity.h"
#include "pjrt/plan.h"

/* The nearest first. Either may be NULL. */
enum { LOCAL, SHARED, N_FOLDERS };
static tpj_disk *folders[N_FOLDERS];
static pthread_once_t folders_opened = PTHREAD_ONCE_INIT;

bool tpj_compile_folder(char *out_path, size_t n) {
    const char *folder = tpj_config_cache_dir();
    if (strcmp(folder, "none") == 0 || tpj_config_cache_bytes() == 0) return false;
    int length = snprintf(out_path, n, "%s", folder);
    if (length == 0) {
        if (!tpj_config_user_cache(out_path, n)) return false;
        size_t parent = strlen(out_path);
        length = (int)parent + snprintf(out_path + parent, n - parent, "/torch_pjrt");
    }
    return length > 0 && (size_t)length < n;
}

static void open_folders(void) {
    char local[4096];
    const char *shared = tpj_config_cache_shared_dir();
    if (tpj_compile_folder(local, sizeof local)) folders[LOCAL] = tpj_disk_open(local, tpj_config_cache_bytes());
    if (shared[0] != '\0') folders[SHARED] = tpj_disk_open(shared, -1);
}

void tpj_compile_forget_folders(void) {
    for (int i = 0; i < N_FOLDERS; i++) {
        tpj_disk_close(folders[i]);
        folders[i] = NULL;
    }
    folders_opened = (pthread_once_t)PTHREAD_ONCE_INIT;
}

/* Locations come last; what is before them decides what the program does. */
static size_t length_without_locations(const char *module, size_t n) {
    const char *found = memmem(module, n, "\n#loc", 5);
    return found != NULL ? (size_t)(found - module) + 1 : n;
}

/* Bytes that the plugin cannot load (it does not check all that it depends on) are as good as none. */
static tpj_executable *load_from(tpj_client *client, tpj_disk *disk, const tpj_disk_key *key, tpj_disk *nearer) {
    size_t n_bytes;
    tpj_executable *executable = NULL;
    void *data = tpj_disk_find(disk, key, &n_bytes);
    if (data == NULL) return NULL;
    tpj_status *status = tpj_executable_deserialize(client, data, n_bytes, &executable);
    if (status != NULL) {
        tpj_log(TPJ_LOG_INFO, "a kept program cannot be loaded and is removed: %s", tpj_status_message(status));
        tpj_status_destroy(status);
        tpj_disk_remove(disk, key);
        executable = NULL;
    } else if (nearer != NULL) {
        tpj_disk_save(nearer, key, data, n_bytes);
    }
    free(data);
    return executable;
}

static tpj_executable *load(tpj_client *client, const tpj_disk_key *key) {
    tpj_executable *executable = load_from(client, folders[LOCAL], key, NULL);
    return executable != NULL ? executable : load_from(client, folders[SHARED], key, folders[LOCAL]);
}

/* A program that cannot be serialized is not kept, that is all. */
static void keep(tpj_executable *executable, const tpj_disk_key *key) {
    void *data;
    size_t n_bytes;
    tpj_status *status = tpj_executable_serialize(executable, &data, &n_bytes);
    if (status != NULL) {
        tpj_log(TPJ_LOG_INFO, "a program is not kept: %s", tpj_status_message(status));
        tpj_status_destroy(status);
        return;
    }
    for (int i = 0; i < N_FOLDERS; i++) tpj_disk_save(folders[i], key, data, n_bytes);
    free(data);
}

tpj_status *tpj_compile(tpj_client *client, const char *module, size_t module_length,
                        const tpj_compile_options *options, tpj_executable **out_executable, bool *out_loaded) {
    tpj_status *status = NULL;
    tpj_text identity = {0};
    *out_loaded = false;
    pthread_once(&folders_opened, open_folders);
    if ((folders[LOCAL] == NULL && folders[SHARED] == NULL) || !tpj_client_keeps_programs(client))
        return tpj_executable_compile(client, module, module_length, options, out_executable);
    TPJ_TRY_GOTO(tpj_client_identify(client, options, &identity));
    tpj_disk_key key = {identity.data, module, identity.length, length_without_locations(module, module_length)};
    tpj_executable *executable = load(client, &key);
    int lock = -1;
    if (executable == NULL) {
        lock = tpj_disk_lock(folders[SHARED] != NULL ? folders[SHARED] : folders[LOCAL], &key);
        executable = load(client, &key); /* whoever held the lock may have compiled it */
    }
    *out_loaded = executable != NULL;
    if (executable == NULL) {
        status = tpj_executable_compile(client, module, module_length, options, &executable);
        if (status == NULL) keep(executable, &key);
    }
    tpj_disk_unlock(lock);
    if (status == NULL) *out_executable = executable;
done:
    tpj_text_destroy(&identity);
    return status;
}

tpj_status *tpj_compile_keep(const char *folder, const tpj_absent_client *absent, const char *module,
                             size_t module_length, const void *data, size_t n_bytes) {
    tpj_text identity = {0};
    tpj_status *status = tpj_identify_absent(absent, &identity);
    tpj_disk *disk = status == NULL ? tpj_disk_open(folder, -1) : NULL;
    if (status == NULL && disk == NULL)
        status = tpj_status_create(TPJ_VALUE, "%s cannot be a folder of programs", folder);
    if (status == NULL) {
        tpj_disk_key key = {identity.data, module, identity.length, length_without_locations(module, module_length)};
        size_t n_found;
        tpj_disk_save(disk, &key, data, n_bytes);
        void *found = tpj_disk_find(disk, &key, &n_found);
        if (found == NULL) status = tpj_status_create(TPJ_RUNTIME, "%s: the program could not be written", folder);
        free(found);
    }
    tpj_disk_close(disk);
    tpj_text_destroy(&identity);
    return status;
}
