/* Comparisons and membership. */
#include "ops/pointwise.h"

/* In a dtype that StableHLO compares. Bits without a meaning are equal or not as integers. */
static tpj_value *comparable(tpj_hlo *h, tpj_value *x) {
    tpj_dtype dtype = x->type.dtype;
    if (tpj_dtype_is_opaque(dtype)) return hlo_bitcast(h, x, tpj_dtype_carrier(dtype));
    return tpj_dtype_is_float8(dtype) || dtype == TPJ_C32 ? hlo_convert(h, x, tpj_compute_dtype(dtype)) : x;
}

/* Operands are compared in their common dtype: a number is rounded to the tensor's dtype first. */
static void emit_compare(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_promote(e, "self", "other", NULL);
    tpj_value *x = comparable(h, tpj_in_as(e, "self", dtype)), *y = comparable(h, tpj_in_as(e, "other", dtype));
    bool ordered = tpj_row(e)->variant != 0;
    if (ordered && (tpj_dtype_is_complex(dtype) || tpj_dtype_is_opaque(dtype))) {
        tpj_fail_dtype(e, dtype);
        return;
    }
    hlo_expand_together(h, &x, &y);
    tpj_out(e, hlo_compare(h, tpj_row(e)->hlo, x, y));
}

/* Every element against every candidate: the comparison fuses into the reduction, so nothing of that size is stored. */
static void is_in(tpj_emit *e, const char *elements, const char *candidates) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_promote(e, elements, candidates, NULL);
    tpj_value *x = tpj_in_as(e, elements, dtype), *y = hlo_flatten(h, tpj_in_as(e, candidates, dtype));
    int rank = x->type.rank;
    tpj_value *wide = hlo_unsqueeze(h, x, rank);
    hlo_expand_together(h, &wide, &y);
    tpj_value *found = hlo_reduce_dim(h, "or", hlo_compare(h, "EQ", wide, y), rank);
    tpj_out(e, tpj_bool(e, "invert", false) ? hlo_not(h, found) : found);
}

static void emit_isin(tpj_emit *e) { is_in(e, "elements", "test_elements"); }
static void emit_isin_number(tpj_emit *e) { is_in(e, "elements", "test_element"); }
static void emit_number_isin(tpj_emit *e) { is_in(e, "element", "test_elements"); }

enum { UNORDERED, ORDERED };
#define COMPARE_WITH(op, other, direction, kind)       \
    {.name = op,                                       \
     .params = "T self, " other,                       \
     .emit = emit_compare,                             \
     .hlo = direction,                                 \
     .variant = kind,                                  \
     .flags = (kind) == UNORDERED ? TPJ_OP_FLOAT8 : 0, \
     .layout = TPJ_LAYOUT_POINTWISE}
#define COMPARE(op, direction, kind) \
    COMPARE_WITH(op ".Tensor", "T other", direction, kind), COMPARE_WITH(op ".Scalar", "S other", direction, kind)

const tpj_op_def tpj_ops_compare[] = {
    COMPARE("eq", "EQ", UNORDERED),
    COMPARE("ne", "NE", UNORDERED),
    COMPARE("lt", "LT", ORDERED),
    COMPARE("le", "LE", ORDERED),
    COMPARE("gt", "GT", ORDERED),
    COMPARE("ge", "GE", ORDERED),
    {.name = "isin.Tensor_Tensor",
     .params = "T elements, T test_elements, B assume_unique=false, B invert=false",
     .emit = emit_isin,
     .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "isin.Tensor_Scalar",
     .params = "T elements, S test_element, B assume_unique=false, B invert=false",
     .emit = emit_isin_number,
     .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "isin.Scalar_Tensor",
     .params = "S element, T test_elements, B assume_unique=false, B invert=false",
     .emit = emit_number_isin,
     .layout = TPJ_LAYOUT_POINTWISE},
    {0},
};
