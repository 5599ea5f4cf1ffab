/* Checks of operands whose values only the device knows: indices, probabilities, counts. What they find is looked at by the
 * next read, so that no launch waits for it. */
#include <string.h>

#include "hlo/writer.h"
#include "lower/lowering.h"
#include "pjrt/report.h"

/* Calls the host's function that looks at the values. */
static void report(tpj_emit *e, tpj_value *values, const tpj_index_check *check) {
    tpj_hlo *h = e->h;
    tpj_value *operands[] = {values, tpj_lowering_report(e->lowering)};
    hlo_attributes_begin(h);
    hlo_attribute_text(h,
                       "call_target_name = \"%s\", has_side_effect = true, api_version = 4 : i32, backend_config = "
                       "{check = %d : i64, high = %lld : i64, low = %lld : i64}",
                       TPJ_REPORT_TARGET, e->lowering->n_checks, (long long)check->size - 1, (long long)check->low);
    hlo_op(h, "custom_call", operands, 2, hlo_attributes(h), NULL, 0, NULL);
}

/* The value that is furthest outside of [low, size), if any is: seen as unsigned and from `low` on, it is the largest. I64[1]. */
static tpj_value *furthest(tpj_hlo *h, tpj_value *values, int64_t low) {
    static const int64_t one = 1;
    tpj_dtype dtype = values->type.dtype;
    tpj_value *least = hlo_integer(h, dtype, low);
    tpj_value *from_low = hlo_bitcast(h, hlo_sub(h, values, least), dtype == TPJ_I32 ? TPJ_U32 : TPJ_U64);
    tpj_value *most = hlo_bitcast(h, hlo_reduce_all(h, "maximum", from_low), dtype);
    return hlo_reshape(h, hlo_convert(h, hlo_add(h, most, least), TPJ_I64), 1, &one);
}

/* `values`: I32 or I64. */
static void add_check(tpj_emit *e, tpj_value *values, tpj_index_check check) {
    tpj_lowering *lowering = e->lowering;
    tpj_check_value *made = TPJ_ARENA_NEW(hlo_arena(e->h), tpj_check_value);
    if (made == NULL) return;
    check.op = e->node->op->name;
    check.file = e->node->file;
    check.line = e->node->line;
    *made = (tpj_check_value){.check = check};
    if (lowering->options->check_index == TPJ_CHECK_REPORT)
        report(e, values, &check);
    else
        made->value = furthest(e->h, values, check.low);
    *lowering->checks_end = made;
    lowering->checks_end = &made->next;
    lowering->n_checks++;
}

/* PyTorch's CPU kernels raise IndexError for a bad index, but for these, by the beginnings of their names. */
static tpj_code index_error(const char *op) {
    static const char *const runtime[] = {"gather",     "scatter",      "index_add", "_embedding_bag", "multi",
                                          "max_unpool", "searchsorted", "bucketize", "bincount"};
    for (size_t i = 0; i < sizeof runtime / sizeof runtime[0]; i++)
        if (strncmp(op, runtime[i], strlen(runtime[i])) == 0) return TPJ_RUNTIME;
    return TPJ_INDEX;
}

tpj_value *tpj_check_index(tpj_emit *e, tpj_value *indices, int64_t size, bool wrap) {
    tpj_hlo *h = e->h;
    bool narrow = indices->type.dtype == TPJ_I32 && size <= INT32_MAX / 2;
    if (!narrow) indices = hlo_convert(h, indices, TPJ_I64);
    tpj_value *zero = hlo_integer(h, indices->type.dtype, 0), *limit = hlo_integer(h, indices->type.dtype, size);
    if (e->lowering->options->check_index != TPJ_CHECK_NONE && hlo_elements(indices) > 0)
        add_check(e, indices,
                  (tpj_index_check){.low = wrap ? -size : 0, .size = size, .code = index_error(e->node->op->name)});
    if (!wrap) return indices;
    return hlo_select(h, hlo_compare(h, "LT", indices, zero), hlo_add(h, indices, limit), indices);
}

void tpj_check_as(tpj_emit *e, tpj_value *bad, tpj_code code, const char *message) {
    if (e->lowering->options->check_index == TPJ_CHECK_NONE || hlo_elements(bad) == 0) return;
    add_check(e, hlo_convert(e->h, hlo_reduce_all(e->h, "or", bad), TPJ_I64),
              (tpj_index_check){.low = 0, .size = 1, .code = code, .message = message});
}

void tpj_check(tpj_emit *e, tpj_value *bad, const char *message) { tpj_check_as(e, bad, TPJ_RUNTIME, message); }
