/* A package in memory: what manifest.c reads and package.c runs. docs/export.md defines the manifest. */
#ifndef TPJ_PACKAGE_INTERNAL_H
#define TPJ_PACKAGE_INTERNAL_H

#include "base/arena.h"
#include "package/json.h"
#include "package/safetensors.h"
#include "tpj/package.h"

/* A parameter of the program: an input of the caller's, or a weight. */
typedef struct tpj_package_argument {
    bool is_input;
    int index; /* into inputs, or weights */
} tpj_package_argument;

/* A result of the program: an output of the caller's (index >= 0), the new contents of a weight (weight >= 0), or both. */
typedef struct tpj_package_result {
    tpj_type type;
    int output, weight;
} tpj_package_result;

typedef struct tpj_package_weight {
    const char *name;
    tpj_type type;
    tpj_buffer *buffer; /* NULL until the package is loaded */
} tpj_package_weight;

/* All is well where the elements that the check looked at lie in [low, size): see tpj_index_check in tpj/lower.h. */
typedef struct tpj_package_check {
    const char *op, *message; /* message "": the index is out of bounds */
    int64_t low, size;
    tpj_code code;
} tpj_package_check;

typedef struct tpj_package_executable {
    const char *file, *identity;
} tpj_package_executable;

typedef struct tpj_manifest {
    const tpj_json *files; /* {"name": {"bytes": n, "crc32": n}} */
    const char *program, *weights_file;
    tpj_package_value *inputs, *outputs;
    tpj_package_weight *weights;
    tpj_package_argument *arguments;
    tpj_package_result *results;
    tpj_package_check *checks;
    tpj_package_executable *executables;
    int n_inputs, n_outputs, n_weights, n_arguments, n_results, n_checks, n_executables;
} tpj_manifest;

/* All in the arena. Errors: TPJ_VALUE, TPJ_NOT_IMPLEMENTED for a version that is not this one. */
tpj_status *tpj_manifest_parse(tpj_arena *arena, const char *text, size_t length,
                               tpj_manifest *out_manifest) TPJ_MUST_USE;

/* "shape" of an entry: sizes >= 0 whose product fits. */
tpj_status *tpj_package_read_shape(tpj_arena *arena, const tpj_json *entry, tpj_type *out_type) TPJ_MUST_USE;
/* Host bytes of an array; an error where they do not fit. */
tpj_status *tpj_package_bytes(const tpj_type *type, size_t *out_n_bytes) TPJ_MUST_USE;

/* Whether the module's arguments and results are the manifest's; `program` ends with a NUL. Errors: TPJ_VALUE. */
tpj_status *tpj_package_check_signature(const tpj_manifest *manifest, const char *program) TPJ_MUST_USE;

/* The checksum of zlib and PNG: polynomial 0xEDB88320, reflected (ISO 3309). */
uint32_t tpj_package_crc32(const void *data, size_t n_bytes);

#endif
