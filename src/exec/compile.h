/* From a module to a program that is loaded: kept ones come from the folders that the settings cache_dir and
 * cache_shared_dir name, others from the compiler, which fills the folders. */
#ifndef TPJ_EXEC_COMPILE_H
#define TPJ_EXEC_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrt/identity.h"
#include "tpj/pjrt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `module`: StableHLO text whose locations are the lines that begin with "#loc" and end it: those are no part of what is
 * kept, so that the same program of another line of the user's is the same program. NULL options are the defaults of
 * tpj_executable_compile, whose errors these are. One process at a time compiles a module, the others wait for it.
 * `out_loaded`: it was kept and not compiled. Thread-safe. */
tpj_status *tpj_compile(tpj_client *client, const char *module, size_t module_length,
                        const tpj_compile_options *options, tpj_executable **out_executable,
                        bool *out_loaded) TPJ_MUST_USE;

/* The folder that cache_dir names, into `out_path`; false when nothing is kept. Exported for
 * the command `torch_pjrt cache`. */
TPJ_API bool tpj_compile_folder(char *out_path, size_t n);

/* Saves a program that was compiled for a client that is not here, as that client will look it up in the folder. */
TPJ_API tpj_status *tpj_compile_keep(const char *folder, const tpj_absent_client *absent, const char *module,
                                     size_t module_length, const void *data, size_t n_bytes) TPJ_MUST_USE;

/* For tests: reads the settings again at the next compilation. No other thread may be compiling. */
void tpj_compile_forget_folders(void);

#ifdef __cplusplus
}
#endif
#endif
