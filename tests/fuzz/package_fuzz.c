/* Fuzz target: any bytes as the files of a package are a package or an error. The first byte says which file they are. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "package/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tpj_status *read_tensors(tpj_arena *arena, const uint8_t *data, size_t size) {
    const tpj_tensor *tensors;
    int n;
    TPJ_TRY(tpj_safetensors_parse(arena, data, size, &tensors, &n));
    unsigned sum = 0;
    for (int i = 0; i < n; i++) sum += tpj_package_crc32(tensors[i].data, tensors[i].n_bytes); /* all of it is there */
    if (sum == 1 && n == 0) abort();
    return NULL;
}

/* The manifest up to a NUL, then the program. */
static tpj_status *read_manifest(tpj_arena *arena, const uint8_t *data, size_t size) {
    tpj_manifest manifest;
    const uint8_t *end = memchr(data, 0, size);
    size_t n = end != NULL ? (size_t)(end - data) : size;
    TPJ_TRY(tpj_manifest_parse(arena, (const char *)data, n, &manifest));
    char *program = end != NULL ? tpj_arena_string_n(arena, (const char *)end + 1, size - n - 1) : NULL;
    return program != NULL ? tpj_package_check_signature(&manifest, program) : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    tpj_arena arena;
    tpj_arena_init(&arena);
    tpj_status *status =
        data[0] % 2 ? read_tensors(&arena, data + 1, size - 1) : read_manifest(&arena, data + 1, size - 1);
    if (status != NULL && tpj_status_code(status) == TPJ_OK) abort(); /* an error without a code */
    tpj_status_destroy(status);
    tpj_arena_destroy(&arena);
    return 0;
}
