/* Which plugin to use, found without loading one: settings, device files and the PCI list. No client, no network.
 *
 * Threads: thread-safe; it only reads files. */
#ifndef TPJ_PJRT_DISCOVER_H
#define TPJ_PJRT_DISCOVER_H

#include <stdbool.h>

#include "tpj/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the caller knows: where packages are installed is Python's knowledge. Strings may be NULL. */
typedef struct tpj_discover_input {
    const char *setting;          /* TORCH_PJRT_PLUGIN: a path, "none", or empty */
    const char *libtpu_path;      /* the installed libtpu.so */
    const char *const *cpu_paths; /* CPU plugins, the preferred first */
    int n_cpu_paths;
    bool other_accelerator; /* PyTorch has a CUDA, XPU or MPS device: it has room for one accelerator */
    const char *root;       /* where /dev and /sys are; NULL for the machine's own. For tests */
} tpj_discover_input;

typedef enum tpj_hardware {
    TPJ_HARDWARE_NONE,
    TPJ_HARDWARE_CHOSEN, /* the user named the plugin */
    TPJ_HARDWARE_TPU,
    TPJ_HARDWARE_CPU
} tpj_hardware;

typedef struct tpj_discover_result {
    tpj_hardware hardware;
    const char *plugin_path; /* borrowed from the input; NULL for TPJ_HARDWARE_NONE */
    const char *reason;      /* static: why, and for none what to do */
} tpj_discover_result;

/* Never fails: without a plugin the result says why. */
TPJ_API tpj_discover_result tpj_discover(const tpj_discover_input *input);
/* Whether this machine has a TPU. */
TPJ_API bool tpj_discover_tpu(const char *root);

#ifdef __cplusplus
}
#endif
#endif
