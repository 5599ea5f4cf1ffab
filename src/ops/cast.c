/* Copies and changes of dtype. */
#include "ops/ops.h"

static void emit_to_copy(tpj_emit *e) {
    tpj_out(e, tpj_in_as(e, "self", tpj_dtype_of(e, "dtype", tpj_in_type(e, "self").dtype)));
}

static void emit_clone(tpj_emit *e) { tpj_out(e, tpj_in(e, "self")); }

/* src as it would be after self.copy_(src). */
static void emit_copy(tpj_emit *e) {
    tpj_type type = tpj_in_type(e, "self");
    tpj_out(e, hlo_expand(tpj_builder(e), tpj_in_as(e, "src", type.dtype), type.rank, type.dims));
}

static void emit_view_as_real(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int rank = x->type.rank;
    if (!tpj_dtype_is_complex(x->type.dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "view_as_real is only supported for complex tensors");
        return;
    }
    tpj_value *parts[] = {hlo_unsqueeze(h, hlo_real(h, x), rank), hlo_unsqueeze(h, hlo_imag(h, x), rank)};
    tpj_out(e, hlo_concatenate(h, parts, 2, rank));
}

static void emit_view_as_complex(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int last = x->type.rank - 1;
    if (last < 0 || hlo_dim(x, last) != 2) {
        tpj_fail(e, TPJ_RUNTIME, "Tensor must have a last dimension of size 2");
        return;
    }
    tpj_value *real = hlo_squeeze(h, hlo_slice_dim(h, x, last, 0, 1, 1), last);
    tpj_out(e, hlo_complex(h, real, hlo_squeeze(h, hlo_slice_dim(h, x, last, 1, 2, 1), last)));
}

const tpj_op_def tpj_ops_cast[] = {
    {.name = "_to_copy",
     .params = "T self, D? dtype, M memory_format",
     .emit = emit_to_copy,
     .flags = TPJ_OP_FLOAT8,
     .layout = TPJ_LAYOUT_MEMORY_FORMAT},
    {.name = "clone", .params = "T self, M memory_format", .emit = emit_clone, .layout = TPJ_LAYOUT_MEMORY_FORMAT},
    {.name = "copy", .params = "T self, T src", .emit = emit_copy, .flags = TPJ_OP_FLOAT8, .layout = TPJ_LAYOUT_SELF},
    {.name = "detach_copy", .params = "T self", .emit = emit_clone, .layout = TPJ_LAYOUT_SELF},
    {.name = "alias_copy", .params = "T self", .emit = emit_clone, .layout = TPJ_LAYOUT_SELF},
    {.name = "view_as_real_copy", .params = "T self", .emit = emit_view_as_real},
    {.name = "view_as_complex_copy", .params = "T self", .emit = emit_view_as_complex},
    {0},
};
