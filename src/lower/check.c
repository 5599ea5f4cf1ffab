/* Checks of operands whose values only the device knows: indices, probabilities, counts. Each is one I64 scalar behind the
 * program's results, which is looked at by the next read (tpj_program_check), so that no launch waits for it. */
#include <string.h>

#include "lower/lowering.h"

static void add_check(tpj_emit *e, tpj_value *value, tpj_index_check check) {
    tpj_check_value *made = TPJ_ARENA_NEW(hlo_arena(e->h), tpj_check_value);
    if (made == NULL) return;
    check.op = e->node->op->name;
    check.file = e->node->file;
    check.line = e->node->line;
    *made = (tpj_check_value){.value = value, .check = check};
    *e->lowering->checks_end = made;
    e->lowering->checks_end = &made->next;
}

/* PyTorch's CPU kernels raise IndexError for a bad index, but for these, by the beginnings of their names. */
static tpj_code index_error(const char *op) {
    static const char *const runtime[] = {"gather",     "scatter",      "index_add", "_embedding_bag", "multi",
                                          "max_unpool", "searchsorted", "bucketize", "bincount"};
    for (size_t i = 0; i < sizeof runtime / sizeof runtime[0]; i++)
        if (strncmp(op, runtime[i], strlen(runtime[i])) == 0) return TPJ_RUNTIME;
    return TPJ_INDEX;
}

/* The index that is furthest outside of [low, size), if any is: seen as unsigned and from `low` on, it is the largest. One
 * maximum an index is all that a launch pays. Less `size`. */
static tpj_value *furthest(tpj_hlo *h, tpj_value *indices, tpj_value *limit, int64_t size, bool wrap) {
    tpj_dtype dtype = indices->type.dtype;
    tpj_value *from_low = wrap ? hlo_add(h, indices, limit) : indices;
    tpj_value *most = hlo_reduce_all(h, "maximum", hlo_bitcast(h, from_low, dtype == TPJ_I32 ? TPJ_U32 : TPJ_U64));
    most = hlo_convert(h, hlo_bitcast(h, most, dtype), TPJ_I64);
    return hlo_sub(h, most, hlo_integer(h, TPJ_I64, wrap ? 2 * size : size));
}

tpj_value *tpj_check_index(tpj_emit *e, tpj_value *indices, int64_t size, bool wrap) {
    tpj_hlo *h = e->h;
    bool narrow = indices->type.dtype == TPJ_I32 && size <= INT32_MAX / 2;
    if (!narrow) indices = hlo_convert(h, indices, TPJ_I64);
    tpj_value *zero = hlo_integer(h, indices->type.dtype, 0), *limit = hlo_integer(h, indices->type.dtype, size);
    if (e->lowering->options->check_index && hlo_elements(indices) > 0)
        add_check(e, furthest(h, indices, limit, size, wrap),
                  (tpj_index_check){.low = wrap ? -size : 0, .size = size, .code = index_error(e->node->op->name)});
    if (!wrap) return indices;
    return hlo_select(h, hlo_compare(h, "LT", indices, zero), hlo_add(h, indices, limit), indices);
}

void tpj_check_as(tpj_emit *e, tpj_value *bad, tpj_code code, const char *message) {
    if (!e->lowering->options->check_index || hlo_elements(bad) == 0) return;
    tpj_value *found = hlo_convert(e->h, hlo_reduce_all(e->h, "or", bad), TPJ_I64);
    add_check(e, hlo_sub(e->h, found, hlo_integer(e->h, TPJ_I64, 1)),
              (tpj_index_check){.low = 0, .size = 1, .code = code, .message = message});
}

void tpj_check(tpj_emit *e, tpj_value *bad, const char *message) { tpj_check_as(e, bad, TPJ_RUNTIME, message); }
