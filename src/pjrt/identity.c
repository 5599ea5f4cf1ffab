#define _GNU_SOURCE /* pread, strdup */
#include "pjrt/identity.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "pjrt/internal.h"

/* The size and a hash of 256 evenly spaced pages. Plugins hold 60 to 300 MB, most of it machine code: two builds differ
 * nearly everywhere, and reading all would take longer than most programs take to compile. */
static void identify_file(const char *path, tpj_text *text) {
    enum { N_PAGES = 256, PAGE = 4096 };
    char page[PAGE];
    struct stat status;
    uint64_t hash = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) != 0) status.st_size = 0;
    for (int i = 0; i < N_PAGES && status.st_size > 0; i++) {
        ssize_t n = pread(file, page, sizeof page, (off_t)(status.st_size / N_PAGES * i));
        if (n > 0) hash = tpj_hash_bytes(hash, page, (size_t)n);
    }
    if (file >= 0) close(file);
    const char *name = strrchr(path, '/');
    tpj_text_printf(text, "plugin: %s, %lld bytes, %016" PRIx64 "\n", name != NULL ? name + 1 : path,
                    (long long)status.st_size, hash);
}

/* The first processor's lines that say what code it runs; not those that change, such as its clock. */
static void identify_processor(tpj_text *text) {
    static const char *const names[] = {"vendor_id",       "cpu family",       "model",       "model name", "flags",
                                        "CPU implementer", "CPU architecture", "CPU variant", "CPU part",   "Features"};
    char line[8192];
    uint64_t hash = 0;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && line[0] != '\n') {
        size_t n = strcspn(line, "\t:");
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strlen(names[i]) == n && memcmp(names[i], line, n) == 0) {
                hash = tpj_hash_bytes(hash, line, strlen(line));
                if (strcmp(names[i], "model name") == 0 && line[n] != '\0')
                    tpj_text_printf(text, "processor: %s", line + strcspn(line, ":") + 1);
            }
    }
    if (file != NULL) fclose(file);
    tpj_text_printf(text, "processor features: %016" PRIx64 "\n", hash);
}

/* A program of a TPU may run on any of its devices, however many there are: a slice is planned for before anybody knows how
 * many of its chips each host has. */
static void identify_platform(const char *path, const char *platform, const char *version, const char *devices,
                              tpj_text *text) {
    identify_file(path, text);
    tpj_text_printf(text, "platform: %s, %s\ndevices: %s\n", platform, version, devices);
}

static void add_options(const char *options, size_t n, tpj_text *text) {
    tpj_text_add(text, "options: ");
    for (size_t i = 0; i < n; i++) tpj_text_printf(text, "%02x", (unsigned char)options[i]);
    tpj_text_add(text, "\n");
}

static char *identify(const tpj_client *client) {
    tpj_text text = {0}, devices = {0};
    if (client->is_cpu) tpj_text_printf(&devices, "%d of %d, ", client->n_devices, client->n_global_ids);
    tpj_text_add(&devices, client->n_devices > 0 ? client->devices[0].kind : "none");
    identify_platform(client->plugin->path, client->platform, client->platform_version, tpj_text_string(&devices),
                      &text);
    if (client->is_cpu) identify_processor(&text);
    char *identity = text.failed || devices.failed ? NULL : strdup(tpj_text_string(&text));
    tpj_text_destroy(&text);
    tpj_text_destroy(&devices);
    return identity;
}

tpj_status *tpj_identify_absent(const tpj_absent_client *absent, tpj_text *out_text) {
    identify_platform(absent->plugin_path, absent->platform, absent->version, absent->device_kind, out_text);
    add_options(absent->options, absent->options_length, out_text);
    if (out_text->failed) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    return NULL;
}

tpj_status *tpj_client_identify(tpj_client *client, const tpj_compile_options *options, tpj_text *out_text) {
    char *identity = atomic_load_explicit(&client->identity, memory_order_acquire), *none = NULL;
    if (identity == NULL) {
        identity = identify(client);
        if (identity == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
        if (!atomic_compare_exchange_strong(&client->identity, &none, identity)) { /* another thread was faster */
            free(identity);
            identity = none;
        }
    }
    tpj_text proto = {0};
    TPJ_TRY(tpj_executable_write_options(client, options, &proto));
    tpj_text_add(out_text, identity);
    add_options(proto.data, proto.length, out_text);
    bool failed = proto.failed || out_text->failed;
    tpj_text_destroy(&proto);
    if (failed) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    return NULL;
}
