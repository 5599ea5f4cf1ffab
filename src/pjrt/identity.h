/* What compiled programs depend on beside the module: for whoever keeps them. */
#ifndef TPJ_PJRT_IDENTITY_H
#define TPJ_PJRT_IDENTITY_H

#include "base/text.h"
#include "tpj/pjrt.h"

/* Appends lines that are equal in two processes only if a program that one of them compiled with these options (NULL: as
 * in tpj_executable_compile) may be loaded by the other: plugin (its size and a hash of parts of it, as plugins do not
 * check), its version, devices, on a CPU plugin the processor's model and features, and the options. Thread-safe. */
tpj_status *tpj_client_identify(tpj_client *client, const tpj_compile_options *options,
                                tpj_text *out_text) TPJ_MUST_USE;

/* The same for a client that is not here, a TPU's: what its plugin would say of it, and the CompileOptionsProto. */
typedef struct tpj_absent_client {
    const char *plugin_path, *platform, *version, *device_kind, *options;
    size_t options_length;
} tpj_absent_client;
tpj_status *tpj_identify_absent(const tpj_absent_client *absent, tpj_text *out_text) TPJ_MUST_USE;

#endif
