#define _POSIX_C_SOURCE 200809L
#include "pjrt/discover.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PATH = 512 };

/* The value of a PCI attribute file ("0x1ae0"); -1 where it cannot be read. */
static long read_number(const char *folder, const char *device, const char *attribute) {
    char path[MAX_PATH], text[32] = "";
    int n = snprintf(path, sizeof path, "%s/%s/%s", folder, device, attribute);
    FILE *file = n > 0 && n < (int)sizeof path ? fopen(path, "r") : NULL;
    if (file == NULL) return -1;
    char *line = fgets(text, sizeof text, file);
    fclose(file);
    return line == NULL ? -1 : strtol(line, NULL, 16);
}

/* Google's virtual machines show its network card and its disks under the same vendor, so the class decides: a TPU is
 * neither. Generations to come are found too, which a list of device numbers would not do. */
static bool is_tpu(const char *folder, const char *device) {
    enum { VENDOR_GOOGLE = 0x1ae0, CLASS_STORAGE = 0x01, CLASS_NETWORK = 0x02 };
    if (read_number(folder, device, "vendor") != VENDOR_GOOGLE) return false;
    long class_code = read_number(folder, device, "class");
    return class_code >= 0 && class_code >> 16 != CLASS_STORAGE && class_code >> 16 != CLASS_NETWORK;
}

/* Whether a folder has an entry that is `prefix` and then a number. */
static bool has_numbered(const char *folder, const char *prefix) {
    DIR *list = opendir(folder);
    bool found = false;
    for (const struct dirent *entry; list != NULL && !found && (entry = readdir(list)) != NULL;) {
        const char *rest = entry->d_name;
        if (strncmp(rest, prefix, strlen(prefix)) != 0) continue;
        rest += strlen(prefix);
        found = *rest != '\0' && rest[strspn(rest, "0123456789")] == '\0';
    }
    if (list != NULL) closedir(list);
    return found;
}

/* Whether sysfs lists PCI devices at all; if so, whether a TPU is among them. */
static bool scan_pci(const char *folder, bool *out_tpu) {
    DIR *list = opendir(folder);
    bool any = false;
    *out_tpu = false;
    for (const struct dirent *entry; list != NULL && !*out_tpu && (entry = readdir(list)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        any = true;
        *out_tpu = is_tpu(folder, entry->d_name);
    }
    if (list != NULL) closedir(list);
    return any;
}

/* The PCI list is the better witness, for /dev/vfio holds whatever device was passed through. Containers often hide sysfs
 * and map the device files alone; then these decide. /dev/accel0 is a TPU: other accelerators have /dev/accel/accel0. */
bool tpj_discover_tpu(const char *root) {
    char pci[MAX_PATH], dev[MAX_PATH], vfio[MAX_PATH];
    bool tpu;
    if (root == NULL) root = "";
    if (strlen(root) > MAX_PATH / 2) return false;
    snprintf(pci, sizeof pci, "%s/sys/bus/pci/devices", root);
    snprintf(dev, sizeof dev, "%s/dev", root);
    snprintf(vfio, sizeof vfio, "%s/dev/vfio", root);
    bool has_pci = scan_pci(pci, &tpu);
    return tpu || has_numbered(dev, "accel") || (!has_pci && has_numbered(vfio, ""));
}

static bool is_readable(const char *path) { return path != NULL && path[0] != '\0' && access(path, R_OK) == 0; }

tpj_discover_result tpj_discover(const tpj_discover_input *input) {
    const char *setting = input->setting == NULL ? "" : input->setting;
    if (strcmp(setting, "none") == 0)
        return (tpj_discover_result){TPJ_HARDWARE_NONE, NULL, "TORCH_PJRT_PLUGIN=none turns the device off"};
    if (setting[0] != '\0')
        return (tpj_discover_result){TPJ_HARDWARE_CHOSEN, setting, "TORCH_PJRT_PLUGIN names the plugin"};

    bool tpu = tpj_discover_tpu(input->root);
    if (tpu && is_readable(input->libtpu_path))
        return (tpj_discover_result){TPJ_HARDWARE_TPU, input->libtpu_path, "this machine has a TPU"};
    if (input->other_accelerator)
        return (tpj_discover_result){
            TPJ_HARDWARE_NONE, NULL,
            "PyTorch uses another accelerator here; set TORCH_PJRT_PLUGIN to a plugin's path to "
            "use device \"tpu\" instead"};
    for (int i = 0; i < input->n_cpu_paths; i++)
        if (is_readable(input->cpu_paths[i]))
            return (tpj_discover_result){TPJ_HARDWARE_CPU, input->cpu_paths[i],
                                         tpu ? "a CPU plugin: this machine has a TPU, but libtpu is not installed (pip "
                                               "install libtpu)"
                                             : "a CPU plugin: this machine has no TPU"};
    return (tpj_discover_result){
        TPJ_HARDWARE_NONE, NULL,
        tpu ? "this machine has a TPU, but libtpu is not installed: pip install libtpu"
            : "no TPU and no CPU plugin were found: pip install fastatomstruct-xla-cpu, or set "
              "TORCH_PJRT_PLUGIN to a plugin's path"};
}
