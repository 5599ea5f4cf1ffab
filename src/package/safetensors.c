#include "package/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "package/internal.h"
#include "package/json.h"

static const struct {
    const char *name;
    tpj_dtype dtype;
} dtypes[] = {
    {"BOOL", TPJ_BOOL},         {"U8", TPJ_U8},   {"I8", TPJ_I8},   {"U16", TPJ_U16},          {"I16", TPJ_I16},
    {"U32", TPJ_U32},           {"I32", TPJ_I32}, {"U64", TPJ_U64}, {"I64", TPJ_I64},          {"F16", TPJ_F16},
    {"BF16", TPJ_BF16},         {"F32", TPJ_F32}, {"F64", TPJ_F64}, {"F8_E4M3", TPJ_F8E4M3FN}, {"F8_E5M2", TPJ_F8E5M2},
    {"F8_E8M0", TPJ_F8E8M0FNU}, {"C64", TPJ_C64},
};

static tpj_status *find_dtype(const char *name, tpj_dtype *out) {
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            *out = dtypes[i].dtype;
            return NULL;
        }
    TPJ_ERROR(TPJ_VALUE, "the dtype '%.40s' is not known", name);
}

static tpj_status *read_tensor(tpj_arena *arena, const tpj_json *entry, const char *data, size_t n_data,
                               tpj_tensor *out) {
    const char *dtype;
    const tpj_json *offsets;
    out->name = entry->key;
    TPJ_TRY(tpj_json_string(entry, "dtype", &dtype));
    TPJ_TRY(find_dtype(dtype, &out->type.dtype));
    TPJ_TRY(tpj_package_read_shape(arena, entry, &out->type));
    TPJ_TRY(tpj_json_container(entry, "data_offsets", TPJ_JSON_ARRAY, &offsets));
    if (offsets->n != 2 || offsets->first->kind != TPJ_JSON_INTEGER || offsets->first->next->kind != TPJ_JSON_INTEGER)
        TPJ_ERROR(TPJ_VALUE, "\"data_offsets\" are not two integers");
    int64_t begin = offsets->first->integer, end = offsets->first->next->integer;
    if (begin < 0 || end < begin || (uint64_t)end > n_data) TPJ_ERROR(TPJ_VALUE, "its data lies outside of the file");
    TPJ_TRY(tpj_package_bytes(&out->type, &out->n_bytes));
    if ((uint64_t)(end - begin) != out->n_bytes)
        TPJ_ERROR(TPJ_VALUE, "it has %lld bytes where its shape has %zu", (long long)(end - begin), out->n_bytes);
    out->data = data + begin;
    return NULL;
}

/* By the place of their data, empty ones before what lies at the same place. */
static int compare(const void *a, const void *b) {
    const tpj_tensor *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes;
}

static tpj_status *check_places(tpj_tensor *tensors, int n, const char *data, size_t n_data) {
    if (n > 0) qsort(tensors, (size_t)n, sizeof *tensors, compare);
    const char *at = data;
    for (int i = 0; i < n; i++) {
        if (tensors[i].data != (const void *)at)
            TPJ_ERROR(TPJ_VALUE, "'%.200s' overlaps another tensor, or leaves a hole before it", tensors[i].name);
        at += tensors[i].n_bytes;
    }
    if ((size_t)(at - data) != n_data) TPJ_ERROR(TPJ_VALUE, "there are bytes behind the last tensor");
    return NULL;
}

tpj_status *tpj_safetensors_parse(tpj_arena *arena, const void *file, size_t n_bytes, const tpj_tensor **out_tensors,
                                  int *out_n_tensors) {
    const unsigned char *bytes = file;
    uint64_t n_header = 0;
    const tpj_json *header;
    if (n_bytes < 8) TPJ_ERROR(TPJ_VALUE, "the file is too short for safetensors");
    for (int i = 7; i >= 0; i--) n_header = n_header << 8 | bytes[i];
    if (n_header > n_bytes - 8) TPJ_ERROR(TPJ_VALUE, "the header is longer than the file");
    TPJ_TRY(tpj_json_parse(arena, (const char *)bytes + 8, (size_t)n_header, &header));
    if (header->kind != TPJ_JSON_OBJECT) TPJ_ERROR(TPJ_VALUE, "the header is no object");
    const char *data = (const char *)bytes + 8 + n_header;
    size_t n_data = n_bytes - 8 - (size_t)n_header;
    tpj_tensor *tensors = TPJ_ARENA_ARRAY(arena, tpj_tensor, header->n + 1);
    if (tensors == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    int n = 0;
    for (const tpj_json *entry = header->first; entry != NULL; entry = entry->next) {
        if (strcmp(entry->key, "__metadata__") == 0) continue;
        TPJ_TRY(tpj_status_annotate(read_tensor(arena, entry, data, n_data, &tensors[n]), "'%.200s'", entry->key));
        n++;
    }
    TPJ_TRY(check_places(tensors, n, data, n_data));
    *out_tensors = tensors;
    *out_n_tensors = n;
    return NULL;
}
