/* The safetensors format (https://github.com/huggingface/safetensors, "Format"): 8 bytes little-endian with the length of
 * the header, the header as JSON ({"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}}), the data. Strict:
 * arrays do not overlap and leave no holes, their bytes are what dtype and shape say, and the last one ends with the file. */
#ifndef TPJ_PACKAGE_SAFETENSORS_H
#define TPJ_PACKAGE_SAFETENSORS_H

#include "base/arena.h"
#include "tpj/dtype.h"
#include "tpj/graph.h"
#include "tpj/status.h"

typedef struct tpj_tensor {
    const char *name;
    tpj_type type;
    const void *data; /* in the file's bytes, little-endian, row-major; of any alignment */
    size_t n_bytes;
} tpj_tensor;

/* The tensors by the order of their data, in the arena; `data` is borrowed from `file`. Errors: TPJ_VALUE. */
tpj_status *tpj_safetensors_parse(tpj_arena *arena, const void *file, size_t n_bytes, const tpj_tensor **out_tensors,
                                  int *out_n_tensors) TPJ_MUST_USE;

#endif
