/* Running sums, products, extremes and log-sums along a dimension. */
#include "ops/indexing.h"

/* 0-dim tensors scan as one element. */
static tpj_value *read_scan(tpj_emit *e, tpj_dtype dtype, int *out_dim) {
    tpj_value *x = tpj_in_as(e, "self", dtype);
    *out_dim = tpj_dim(e, "dim", x->type.rank);
    return x;
}

static bool scans(const tpj_value *x) { return x->type.rank > 0 && hlo_elements(x) > 0; }

static void emit_cumulative(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_dtype_of(e, "dtype", tpj_sum_dtype(tpj_in_type(e, "self").dtype));
    int dim;
    tpj_value *x = read_scan(e, dtype, &dim);
    if (!scans(x)) {
        tpj_out(e, x);
        return;
    }
    tpj_value *wide = hlo_convert(h, x, tpj_compute_dtype(dtype));
    tpj_out_as(e, hlo_cumulative(h, tpj_row(e)->hlo, wide, dim, false), dtype);
}

/* The running extreme and where it was met: the last place among equals, and every NaN takes over from what came
 * before. */
static void emit_cumulative_extreme(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (tpj_dtype_is_complex(dtype)) {
        tpj_fail(e, TPJ_NOT_IMPLEMENTED, "not implemented for '%s'", tpj_dtype_torch_name(dtype));
        return;
    }
    int dim;
    tpj_value *x = read_scan(e, dtype == TPJ_BOOL ? TPJ_U8 : dtype, &dim);
    if (!scans(x)) {
        tpj_out_as(e, x, dtype);
        tpj_out(e, hlo_zeros(h, TPJ_I64, x->type.rank, x->type.dims));
        return;
    }
    tpj_value *wide = hlo_convert(h, x, tpj_compute_dtype(x->type.dtype));
    tpj_value *values = hlo_cumulative(h, tpj_row(e)->hlo, wide, dim, false);
    tpj_value *place = hlo_iota(h, TPJ_I32, x->type.rank, x->type.dims, dim);
    tpj_value *is_new = hlo_or(h, hlo_compare(h, "EQ", wide, values), hlo_is_nan(h, wide));
    tpj_value *met = hlo_select(h, is_new, place, hlo_integer(h, TPJ_I32, 0));
    tpj_out_as(e, values, dtype);
    tpj_out_as(e, hlo_cumulative(h, "maximum", met, dim, false), TPJ_I64);
}

/* log(exp(a) + exp(b)), the larger one taken out. Complex numbers are ordered by their real part. */
static tpj_value *log_add_exp(tpj_hlo *h, tpj_value *a, tpj_value *b) {
    tpj_value *swap = hlo_compare(h, "LT", hlo_real(h, a), hlo_real(h, b));
    tpj_value *most = hlo_select(h, swap, b, a), *least = hlo_select(h, swap, a, b);
    tpj_value *sum = hlo_add(h, most, hlo_unary(h, "log_plus_one", hlo_exp(h, hlo_sub(h, least, most))));
    /* equal infinities have no difference; a NaN on either side stays */
    tpj_value *same = hlo_compare(h, "EQ", a, b),
              *unbounded =
                  hlo_compare(h, "EQ", hlo_abs(h, hlo_real(h, a)), hlo_highest(h, hlo_real_dtype(a->type.dtype)));
    return hlo_select(h, hlo_and(h, same, unbounded), a, sum);
}

/* Doubling: after step k each place holds the sum of the 2^k places up to it. No extreme has to be known beforehand, so
 * that no term is lost however far apart they lie. */
static void emit_log_cumulative(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_in_type(e, "self").dtype, compute = tpj_compute_dtype(dtype);
    int dim;
    if (tpj_dtype_is_integral(dtype)) {
        tpj_fail(e, TPJ_NOT_IMPLEMENTED, "\"logcumsumexp_out_cpu\" not implemented for '%s'", tpj_dtype_name(dtype));
        return;
    }
    tpj_value *x = read_scan(e, compute, &dim);
    if (!scans(x)) {
        tpj_out_as(e, x, dtype);
        return;
    }
    int64_t n = hlo_dim(x, dim);
    tpj_value *nothing = hlo_lowest(h, hlo_real_dtype(compute));
    if (tpj_dtype_is_complex(compute)) nothing = hlo_complex(h, nothing, hlo_number(h, nothing->type.dtype, 0));
    for (int64_t reach = 1; reach < n; reach *= 2) {
        tpj_value *before = hlo_pad_dim(h, hlo_slice_dim(h, x, dim, 0, n - reach, 1), nothing, dim, reach, 0);
        x = log_add_exp(h, x, before);
    }
    tpj_out_as(e, x, dtype);
}

const tpj_op_def tpj_ops_scan[] = {
    {.name = "cumsum", .params = "T self, I dim, D? dtype=None", .emit = emit_cumulative, .hlo = "add"},
    {.name = "cumprod", .params = "T self, I dim, D? dtype=None", .emit = emit_cumulative, .hlo = "multiply"},
    {.name = "cummax", .params = "T self, I dim", .emit = emit_cumulative_extreme, .hlo = "maximum"},
    {.name = "cummin", .params = "T self, I dim", .emit = emit_cumulative_extreme, .hlo = "minimum"},
    {.name = "_cummax_helper", .params = "T self, I dim", .emit = emit_cumulative_extreme, .hlo = "maximum"},
    {.name = "_cummin_helper", .params = "T self, I dim", .emit = emit_cumulative_extreme, .hlo = "minimum"},
    {.name = "logcumsumexp", .params = "T self, I dim", .emit = emit_log_cumulative},
    {.name = "_logcumsumexp", .params = "T self, I dim", .emit = emit_log_cumulative},
    {0},
};
