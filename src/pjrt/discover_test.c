#define _XOPEN_SOURCE 700
#include "pjrt/discover.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner.h"

/* A made-up machine: a folder that stands for /. */
typedef struct machine {
    char root[64];
    char libtpu[128], cpu[128];
} machine;

static void add_file(const machine *m, const char *path, const char *content) {
    char full[256];
    snprintf(full, sizeof full, "%s%s", m->root, path);
    for (char *slash = strchr(full + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    if (file == NULL) abort();
    fputs(content, file);
    fclose(file);
}

static void add_pci(const machine *m, const char *device, const char *vendor, const char *class_code) {
    char path[128];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", device);
    add_file(m, path, vendor);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/class", device);
    add_file(m, path, class_code);
}

static machine make_machine(void) {
    machine m = {.root = "/tmp/tpj_discover_XXXXXX"};
    if (mkdtemp(m.root) == NULL) abort();
    snprintf(m.libtpu, sizeof m.libtpu, "%s/libtpu.so", m.root);
    snprintf(m.cpu, sizeof m.cpu, "%s/cpu.so", m.root);
    add_file(&m, "/libtpu.so", "");
    add_file(&m, "/cpu.so", "");
    return m;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static void remove_machine(const machine *m) { nftw(m->root, remove_entry, 8, FTW_DEPTH | FTW_PHYS); }

/* What is chosen with both plugins installed; the machine is removed. */
static tpj_hardware choose(const machine *m) {
    const char *cpu_paths[] = {"/nonexistent/plugin.so", m->cpu};
    tpj_discover_input input = {.libtpu_path = m->libtpu, .cpu_paths = cpu_paths, .n_cpu_paths = 2, .root = m->root};
    tpj_discover_result result = tpj_discover(&input);
    bool fits = result.plugin_path != NULL && result.reason != NULL &&
                strcmp(result.plugin_path, result.hardware == TPJ_HARDWARE_TPU ? m->libtpu : m->cpu) == 0;
    remove_machine(m);
    return fits ? result.hardware : TPJ_HARDWARE_NONE;
}

TEST(discover_cpu_without_hardware) {
    machine m = make_machine();
    CHECK_INT(choose(&m), TPJ_HARDWARE_CPU);
}

TEST(discover_tpu_by_pci) {
    machine m = make_machine();
    add_pci(&m, "0000:00:03.0", "0x8086\n", "0x010601\n");
    add_pci(&m, "0000:00:05.0", "0x1ae0\n", "0x120000\n");
    CHECK_INT(choose(&m), TPJ_HARDWARE_TPU);
}

TEST(discover_is_not_fooled_by_virtual_network_cards_and_disks) {
    machine m = make_machine();
    add_pci(&m, "0000:00:04.0", "0x1ae0\n", "0x020000\n");
    add_pci(&m, "0000:00:05.0", "0x1ae0\n", "0x010802\n");
    CHECK_INT(choose(&m), TPJ_HARDWARE_CPU);
}

TEST(discover_tpu_by_device_file) {
    machine m = make_machine();
    add_pci(&m, "0000:00:03.0", "0x8086\n", "0x010601\n");
    add_file(&m, "/dev/accel0", "");
    CHECK_INT(choose(&m), TPJ_HARDWARE_TPU);
}

TEST(discover_is_not_fooled_by_other_accelerators) {
    machine m = make_machine();
    add_file(&m, "/dev/accel/accel0", "");
    add_file(&m, "/dev/accelerometer", "");
    CHECK_INT(choose(&m), TPJ_HARDWARE_CPU);
}

TEST(discover_trusts_vfio_only_without_a_pci_list) {
    machine m = make_machine();
    add_file(&m, "/dev/vfio/vfio", "");
    add_file(&m, "/dev/vfio/11", "");
    CHECK_INT(choose(&m), TPJ_HARDWARE_TPU);
    m = make_machine();
    add_file(&m, "/dev/vfio/vfio", "");
    CHECK_INT(choose(&m), TPJ_HARDWARE_CPU);
    m = make_machine();
    add_file(&m, "/dev/vfio/11", "");
    add_pci(&m, "0000:00:03.0", "0x8086\n", "0x020000\n");
    CHECK_INT(choose(&m), TPJ_HARDWARE_CPU);
}

TEST(discover_obeys_the_setting) {
    machine m = make_machine();
    add_file(&m, "/dev/accel0", "");
    tpj_discover_input input = {.setting = "none", .libtpu_path = m.libtpu, .root = m.root};
    tpj_discover_result none = tpj_discover(&input);
    input.setting = "/some/plugin.so";
    input.other_accelerator = true;
    tpj_discover_result chosen = tpj_discover(&input);
    remove_machine(&m);
    CHECK_INT(none.hardware, TPJ_HARDWARE_NONE);
    CHECK(none.plugin_path == NULL);
    CHECK_INT(chosen.hardware, TPJ_HARDWARE_CHOSEN);
    CHECK_STRING(chosen.plugin_path, "/some/plugin.so");
}

TEST(discover_gives_way_to_another_accelerator) {
    machine m = make_machine();
    const char *cpu_paths[] = {m.cpu};
    tpj_discover_input input = {.cpu_paths = cpu_paths, .n_cpu_paths = 1, .other_accelerator = true, .root = m.root};
    tpj_discover_result without = tpj_discover(&input);
    add_file(&m, "/dev/accel3", "");
    input.libtpu_path = m.libtpu;
    tpj_discover_result with = tpj_discover(&input);
    remove_machine(&m);
    CHECK_INT(without.hardware, TPJ_HARDWARE_NONE);
    CHECK(strstr(without.reason, "another accelerator") != NULL);
    CHECK_INT(with.hardware, TPJ_HARDWARE_TPU);
}

TEST(discover_says_what_is_missing) {
    machine m = make_machine();
    tpj_discover_input input = {.root = m.root};
    tpj_discover_result bare = tpj_discover(&input);
    add_file(&m, "/dev/accel0", "");
    tpj_discover_result tpu = tpj_discover(&input);
    remove_machine(&m);
    CHECK_INT(bare.hardware, TPJ_HARDWARE_NONE);
    CHECK(strstr(bare.reason, "pip install fastatomstruct-xla-cpu") != NULL);
    CHECK_INT(tpu.hardware, TPJ_HARDWARE_NONE);
    CHECK(strstr(tpu.reason, "pip install libtpu") != NULL);
}
