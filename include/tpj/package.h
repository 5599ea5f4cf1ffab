/* Packages: a model that torch_pjrt.export.save wrote into a folder, run without Python.
 *
 *     tpj_package_open("folder", &package);
 *     tpj_package_load(package, client, 0);
 *     for each input: tpj_buffer_from_host(client, 0, value->type.dtype, value->type.rank, value->type.dims, data, &in[i]);
 *     tpj_package_run(package, in, n_inputs, out);
 *     tpj_buffer_to_host(out[0], data, tpj_package_output(package, 0)->n_bytes);
 *
 * examples/c/run_exported.c is the whole of it, docs/export.md the format.
 *
 * Threads: one at a time; a package without buffers that change (tpj_package_has_state) may be run by any number. */
#ifndef TPJ_PACKAGE_H
#define TPJ_PACKAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "tpj/graph.h"
#include "tpj/pjrt.h"
#include "tpj/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tpj_package tpj_package;

/* An input or an output. Borrowed from the package. */
typedef struct tpj_package_value {
    const char *name;
    tpj_type type;
    size_t n_bytes;     /* on the host: dense, row-major */
    const char *writes; /* outputs: the name of the input whose new contents it is; NULL: a result of its own */
} tpj_package_value;

/* Reads the manifest, the program and the weights, and checks them: sizes and checksums of the files, and that dtypes and
 * shapes fit. Needs no device. Errors name the file: TPJ_VALUE when it is missing, damaged or does not fit the others,
 * TPJ_NOT_IMPLEMENTED for another version of the format. */
TPJ_API tpj_status *tpj_package_open(const char *folder, tpj_package **out_package) TPJ_MUST_USE;
TPJ_API void tpj_package_close(tpj_package *package); /* NULL is allowed; before the client is destroyed */

TPJ_API int tpj_package_n_inputs(const tpj_package *package);
TPJ_API const tpj_package_value *tpj_package_input(const tpj_package *package, int i);
TPJ_API int tpj_package_n_outputs(const tpj_package *package);
TPJ_API const tpj_package_value *tpj_package_output(const tpj_package *package, int i);
/* Whether a run changes buffers of the model, which the next run reads. */
TPJ_API bool tpj_package_has_state(const tpj_package *package);

/* Puts the weights on a device of the client, which must outlive the package, and loads the program: a compiled one of the
 * package where it was made for this very plugin and processor, otherwise the StableHLO is compiled. Once a package.
 * Errors: TPJ_DEVICE and TPJ_OUT_OF_MEMORY from the plugin; the package is then as it was. */
TPJ_API tpj_status *tpj_package_load(tpj_package *package, tpj_client *client, int device) TPJ_MUST_USE;
/* Whether the loaded program came compiled. */
TPJ_API bool tpj_package_is_precompiled(const tpj_package *package);

/* Runs it on the device that it was loaded on. `inputs`: one for each input, of its type, borrowed and never written to.
 * `outputs` receives a new buffer for each output, which the caller owns; on error nothing is written to it, and the
 * model's buffers are as they were. Returns before the work ends, unless the program checks indices.
 * Errors: TPJ_TYPE and TPJ_VALUE naming the input; TPJ_INDEX for an index out of range; TPJ_DEVICE. */
TPJ_API tpj_status *tpj_package_run(tpj_package *package, tpj_buffer *const *inputs, int n_inputs,
                                    tpj_buffer **outputs) TPJ_MUST_USE;

/* What a package may keep of a compiled program: a StableHLO module compiled for the client, malloc'ed bytes that the
 * caller frees, and the text (malloc'ed too) that another client has to have in common with this one to load them: plugin,
 * version, devices, and on a CPU plugin the processor. TPJ_DEVICE where the plugin refuses or cannot serialise. */
TPJ_API tpj_status *tpj_package_compile(tpj_client *client, const char *module, size_t module_length, void **out_data,
                                        size_t *out_n_bytes, char **out_identity) TPJ_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
