/* Simulated quantisation (training that is aware of it, with gradients), and products of quantised matrices.
 *
 * A number becomes q = zero_point + round(x / scale), clamped to [quant_min, quant_max], and (q - zero_point) * scale
 * again. NaN counts as the lowest; with one scale a tensor infinities count as what they are, but on the CPU's other kernels,
 * and here, what exceeds 64 bits is the lowest too. */
#include <math.h>

#include "ops/ops.h"

/* What a tensor is quantised with: scalars, or one of each a channel, broadcast to the tensor. */
typedef struct grid {
    tpj_hlo *h;
    tpj_dtype dtype; /* that is computed in */
    tpj_value *scale, *inverse, *zero_point;
    double low, high;
    bool rounds_sum; /* the zero point is added before rounding */
    bool saturates;  /* at any size */
} grid;

typedef struct quantised {
    tpj_value *value, *below, *above; /* [low, high], and whether it was clamped there */
} quantised;

static bool range_ok(tpj_emit *e, grid *out) {
    int64_t low = tpj_int(e, "quant_min", 0), high = tpj_int(e, "quant_max", 0);
    if (low > high) {
        tpj_fail(e, TPJ_RUNTIME, "`quant_min` should be less than or equal to `quant_max`.");
        return false;
    }
    *out = (grid){.h = tpj_builder(e), .low = (double)low, .high = (double)high};
    return true;
}

static bool floats_ok(tpj_emit *e, tpj_dtype dtype) {
    if (tpj_dtype_is_half(dtype) || dtype == TPJ_F32 || dtype == TPJ_F64) return true;
    tpj_fail(e, TPJ_NOT_IMPLEMENTED, "not implemented for '%s'", tpj_dtype_torch_name(dtype));
    return false;
}

/* Scale (of F32), its inverse and the zero point, in the dtype of the computation and the shape of x. */
static void spread(grid *g, tpj_value *scale, tpj_value *zero_point, const tpj_value *x) {
    tpj_hlo *h = g->h;
    g->dtype = x->type.dtype;
    tpj_value *inverse = hlo_div(h, hlo_full_like(h, scale, 1), scale);
    tpj_value *parts[] = {scale, inverse, zero_point};
    for (int i = 0; i < 3; i++)
        parts[i] = hlo_expand(h, hlo_convert(h, parts[i], g->dtype), x->type.rank, x->type.dims);
    g->scale = parts[0];
    g->inverse = parts[1];
    g->zero_point = parts[2];
}

static quantised quantise(const grid *g, tpj_value *x) {
    tpj_hlo *h = g->h;
    tpj_value *q = hlo_mul(h, x, g->inverse);
    if (g->rounds_sum) q = hlo_add(h, q, g->zero_point);
    q = hlo_unary(h, "round_nearest_even", q);
    if (!g->rounds_sum) q = hlo_add(h, q, g->zero_point);
    tpj_value *low = hlo_full_like(h, q, g->low), *high = hlo_full_like(h, q, g->high);
    tpj_value *limit = hlo_full_like(h, q, g->saturates ? INFINITY : 0x1p63);
    tpj_value *fits = hlo_compare(h, g->saturates ? "LE" : "LT", q, limit); /* false for NaN */
    tpj_value *inside = hlo_and(h, fits, hlo_compare(h, "GE", q, low));
    tpj_value *above = hlo_and(h, fits, hlo_compare(h, "GT", q, high));
    return (quantised){hlo_select(h, inside, hlo_select(h, above, high, q), low), hlo_not(h, inside), above};
}

static tpj_value *within(const grid *g, const quantised *q) { return hlo_not(g->h, hlo_or(g->h, q->below, q->above)); }

static tpj_value *restored(const grid *g, const quantised *q) {
    return hlo_mul(g->h, hlo_sub(g->h, q->value, g->zero_point), g->scale);
}

static tpj_value *flat_scalar(tpj_hlo *h, tpj_value *x) { return hlo_reshape(h, x, 0, NULL); }

/* A parameter of one element. */
static tpj_value *single(tpj_emit *e, const char *name, tpj_dtype dtype) {
    tpj_value *x = tpj_in_as(e, name, dtype);
    if (hlo_elements(x) == 1) return flat_scalar(tpj_builder(e), x);
    tpj_fail(e, TPJ_RUNTIME, "%s must hold one element", name);
    return hlo_number(tpj_builder(e), dtype, 1);
}

/* One parameter a channel, [C] as [.., C, 1, ..]; false when they do not fit `x`. */
static bool channels(tpj_emit *e, const char *name, tpj_dtype dtype, const tpj_value *x, tpj_value **out) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *given = tpj_in_as(e, name, dtype);
    int64_t axis = tpj_int(e, "axis", 0), *dims = hlo_dims(h, x->type.rank);
    if (axis < 0 || axis >= x->type.rank) {
        tpj_fail(e, axis < 0 ? TPJ_RUNTIME : TPJ_INDEX, "`axis` must be between 0 and number of dimensions of input");
        return false;
    }
    if (given->type.rank != 1 || hlo_dim(given, 0) != hlo_dim(x, (int)axis)) {
        tpj_fail(e, TPJ_RUNTIME, "dimensions of scale and zero-point are not consistent with input tensor");
        return false;
    }
    for (int d = 0; d < x->type.rank; d++) dims[d] = d == axis ? hlo_dim(given, 0) : 1;
    *out = hlo_reshape(h, given, x->type.rank, dims);
    return true;
}

static tpj_value *clamped(const grid *g, tpj_value *zero_point) {
    tpj_dtype dtype = zero_point->type.dtype;
    return hlo_clamp(g->h, hlo_number(g->h, dtype, g->low), zero_point, hlo_number(g->h, dtype, g->high));
}

static tpj_value *rounded(const grid *g, tpj_value *zero_point) {
    return clamped(g, hlo_unary(g->h, "round_nearest_even", zero_point));
}

/* ---- one scale a tensor ---- */

/* The product with the scale is one of F32 whatever the tensor's dtype. */
static void out_single(tpj_emit *e, const grid *g, const quantised *q, bool with_mask) {
    tpj_hlo *h = g->h;
    tpj_value *steps = hlo_convert(h, hlo_sub(h, q->value, g->zero_point), TPJ_F32);
    tpj_out_as(e, hlo_mul(h, steps, hlo_convert(h, g->scale, TPJ_F32)), tpj_in_type(e, "self").dtype);
    if (with_mask) tpj_out(e, within(g, q));
}

static const char zero_point_message[] = "`zero_point` must be between `quant_min` and `quant_max`, but got ";

static void emit_per_tensor(tpj_emit *e) {
    grid g;
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (!range_ok(e, &g) || !floats_ok(e, dtype)) return;
    tpj_value *x = tpj_in_as(e, "self", tpj_compute_dtype(dtype));
    tpj_require(e, "zero_point", g.low, g.high, zero_point_message);
    g.saturates = true;
    spread(&g, tpj_scalar(e, "scale", TPJ_F32), tpj_scalar(e, "zero_point", TPJ_I64), x);
    quantised q = quantise(&g, x);
    out_single(e, &g, &q, true);
}

/* With parameters as tensors, and a switch: off lets all through. */
static void emit_per_tensor_switched(tpj_emit *e) {
    grid g;
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (!range_ok(e, &g) || !floats_ok(e, dtype)) return;
    tpj_hlo *h = g.h;
    tpj_value *given = tpj_in(e, "self"), *x = hlo_convert(h, given, tpj_compute_dtype(dtype));
    g.saturates = true;
    spread(&g, single(e, "scale", TPJ_F32), single(e, "zero_point", TPJ_I64), x);
    quantised q = quantise(&g, x);
    tpj_value *steps = hlo_convert(h, hlo_sub(h, q.value, g.zero_point), TPJ_F32);
    tpj_value *made = hlo_convert(h, hlo_mul(h, steps, hlo_convert(h, g.scale, TPJ_F32)), dtype);
    tpj_value *off = hlo_not(h, single(e, "fake_quant_enabled", TPJ_BOOL));
    tpj_out(e, hlo_select(h, off, given, made));
    tpj_out(e, hlo_or(h, hlo_expand(h, off, x->type.rank, x->type.dims), within(&g, &q)));
}

static void emit_learnable_per_tensor(tpj_emit *e) {
    grid g;
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (!range_ok(e, &g) || !floats_ok(e, dtype)) return;
    tpj_value *x = tpj_in_as(e, "self", tpj_compute_dtype(dtype));
    g.saturates = true;
    spread(&g, single(e, "scale", TPJ_F32), rounded(&g, single(e, "zero_point", TPJ_F32)), x);
    quantised q = quantise(&g, x);
    out_single(e, &g, &q, false);
}

/* ---- one scale a channel ---- */

static bool parameters_ok(tpj_emit *e) {
    tpj_dtype scale = tpj_in_type(e, "scale").dtype, zero_point = tpj_in_type(e, "zero_point").dtype;
    if (scale != TPJ_F32 && scale != TPJ_BF16) {
        tpj_fail(e, TPJ_RUNTIME, "Scale must be Float or BFloat16, found %s", tpj_dtype_torch_name(scale));
        return false;
    }
    if (zero_point == TPJ_I32 || zero_point == TPJ_F32 || zero_point == TPJ_F16) return true;
    tpj_fail(e, TPJ_RUNTIME, "Zero-point must be Int32, Float or Half, found %s", tpj_dtype_torch_name(zero_point));
    return false;
}

static void emit_per_channel(tpj_emit *e) {
    grid g;
    tpj_value *scale, *zero_point;
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (!range_ok(e, &g) || !parameters_ok(e) || !floats_ok(e, dtype)) return;
    tpj_value *x = tpj_in_as(e, "self", tpj_compute_dtype(dtype));
    g.rounds_sum = tpj_in_type(e, "zero_point").dtype != TPJ_I32;
    tpj_dtype exact = g.rounds_sum ? TPJ_F32 : TPJ_I32;
    if (!channels(e, "scale", TPJ_F32, x, &scale) || !channels(e, "zero_point", exact, x, &zero_point)) return;
    tpj_value *low = hlo_full_like(g.h, zero_point, g.low), *high = hlo_full_like(g.h, zero_point, g.high);
    if (!g.rounds_sum)
        tpj_check(e, hlo_or(g.h, hlo_compare(g.h, "LT", zero_point, low), hlo_compare(g.h, "GT", zero_point, high)),
                  "`zero_point` must be between `quant_min` and `quant_max`.");
    spread(&g, scale, zero_point, x);
    quantised q = quantise(&g, x);
    tpj_out_as(e, restored(&g, &q), dtype);
    tpj_out(e, within(&g, &q));
}

static void emit_learnable_per_channel(tpj_emit *e) {
    grid g;
    tpj_value *scale, *zero_point;
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (!range_ok(e, &g) || !floats_ok(e, dtype)) return;
    tpj_value *x = tpj_in_as(e, "self", tpj_compute_dtype(dtype));
    if (!channels(e, "scale", TPJ_F32, x, &scale) || !channels(e, "zero_point", TPJ_F32, x, &zero_point)) return;
    spread(&g, scale, rounded(&g, zero_point), x);
    quantised q = quantise(&g, x);
    tpj_out_as(e, restored(&g, &q), dtype);
}

/* ---- gradients of learnable parameters (Esser et al., "Learned step size quantization", 2019) ---- */

/* Inside the range x passes and the scale gets the rounding error in steps; outside it the scale gets the steps of the end
 * of the range, and the zero point minus the scale. Summed over the dimensions but `axis` (-1: over all, to [1]). */
static void out_gradients(tpj_emit *e, const grid *g, tpj_value *grad, tpj_value *x, int axis) {
    tpj_hlo *h = g->h;
    quantised q = quantise(g, x);
    tpj_value *inside = within(g, &q), *zero = hlo_full_like(h, x, 0);
    tpj_value *factor = hlo_full_like(h, x, tpj_float(e, "grad_factor", 1));
    tpj_value *error = hlo_mul(h, hlo_sub(h, restored(g, &q), x), g->inverse);
    tpj_value *of_scale = hlo_select(h, inside, error, hlo_sub(h, q.value, g->zero_point));
    tpj_value *of_point = hlo_select(h, inside, zero, hlo_neg(h, g->scale));
    tpj_out(e, hlo_select(h, inside, grad, zero));
    tpj_value *parts[] = {of_scale, of_point};
    for (int i = 0; i < 2; i++) {
        tpj_value *sum = hlo_mul(h, hlo_mul(h, grad, parts[i]), factor);
        for (int d = x->type.rank - 1; d >= 0; d--)
            if (d != axis) sum = hlo_reduce_dim(h, "add", sum, d);
        tpj_out(e, axis < 0 ? hlo_unsqueeze(h, sum, 0) : sum);
    }
}

static bool gradient_operands(tpj_emit *e, grid *g, tpj_value **out_grad, tpj_value **out_x) {
    tpj_type types[] = {tpj_in_type(e, "grad"), tpj_in_type(e, "self")};
    if (!range_ok(e, g)) return false;
    for (int i = 0; i < 2; i++) {
        if (types[i].dtype == TPJ_F32 || types[i].dtype == TPJ_BF16) continue;
        tpj_fail(e, TPJ_RUNTIME, "expected Float or BFloat16 operands, but got %s",
                 tpj_dtype_torch_name(types[i].dtype));
        return false;
    }
    g->rounds_sum = true;
    *out_grad = tpj_in_as(e, "grad", TPJ_F32);
    *out_x = tpj_in_as(e, "self", TPJ_F32);
    if (hlo_same_dims(*out_grad, *out_x)) return true;
    tpj_fail(e, TPJ_RUNTIME, "`X` and `dY` are not the same size");
    return false;
}

/* The zero point is rounded upwards here, where that of a channel and those going forward are rounded to even. */
static void emit_learnable_per_tensor_backward(tpj_emit *e) {
    grid g;
    tpj_value *grad, *x;
    if (!gradient_operands(e, &g, &grad, &x)) return;
    tpj_hlo *h = g.h;
    tpj_value *half = hlo_number(h, TPJ_F32, 0.5);
    tpj_value *zero_point = clamped(&g, hlo_add(h, single(e, "zero_point", TPJ_F32), half));
    spread(&g, single(e, "scale", TPJ_F32), hlo_convert(h, zero_point, TPJ_I64), x); /* cuts off towards zero */
    out_gradients(e, &g, grad, x, -1);
}

static void emit_learnable_per_channel_backward(tpj_emit *e) {
    grid g;
    tpj_value *grad, *x, *scale, *zero_point;
    if (!gradient_operands(e, &g, &grad, &x)) return;
    if (!channels(e, "scale", TPJ_F32, x, &scale) || !channels(e, "zero_point", TPJ_F32, x, &zero_point)) return;
    spread(&g, scale, rounded(&g, zero_point), x);
    out_gradients(e, &g, grad, x, (int)tpj_int(e, "axis", 0));
}

/* ---- products ---- */

/* self [m, k] times the transpose of mat2 I8 [n, k], each column of the result by its scale [n]. */
static void emit_weight_int8pack_mm(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type self = tpj_in_type(e, "self"), weight = tpj_in_type(e, "mat2"), scales = tpj_in_type(e, "scales");
    if (self.rank != 2 || (!tpj_dtype_is_half(self.dtype) && self.dtype != TPJ_F32)) {
        tpj_fail(e, TPJ_RUNTIME, "expects self to be a matrix of 32-bit or 16-bit floats");
        return;
    }
    if (weight.dtype != TPJ_I8 || weight.rank != 2 || weight.dims[1] != self.dims[1]) {
        tpj_fail(e, TPJ_RUNTIME, "expects mat2 to be an int8 matrix with rows of %lld elements",
                 (long long)self.dims[1]);
        return;
    }
    if (scales.rank != 1 || scales.dims[0] != weight.dims[0]) {
        tpj_fail(e, TPJ_RUNTIME, "expects scales to be a vector of %lld elements", (long long)weight.dims[0]);
        return;
    }
    static const int64_t columns = 1;
    tpj_value *x = tpj_in_as(e, "self", TPJ_F32), *w = tpj_in_as(e, "mat2", TPJ_F32);
    tpj_value *product = hlo_dot(h, x, w, NULL, NULL, 0, &columns, &columns, 1, TPJ_F32);
    tpj_value *scale = hlo_expand(h, tpj_in_as(e, "scales", TPJ_F32), 2, product->type.dims);
    tpj_out_as(e, hlo_mul(h, product, scale), self.dtype);
}

/* One scale a matrix, or one a row of self [m, 1] and a column of mat2 [1, n]. */
static bool scales_ok(tpj_emit *e, tpj_value *a, tpj_value *b, int64_t m, int64_t n) {
    bool one_each = hlo_elements(a) == 1 && hlo_elements(b) == 1;
    bool by_rows = a->type.rank == 2 && hlo_dim(a, 0) == m && hlo_dim(a, 1) == 1 && b->type.rank == 2 &&
                   hlo_dim(b, 0) == 1 && hlo_dim(b, 1) == n;
    if (one_each || by_rows) return true;
    tpj_fail(e, TPJ_VALUE, "Invalid scaling configuration: scales of one element each, or [%lld, 1] and [1, %lld]",
             (long long)m, (long long)n);
    return false;
}

static tpj_value *scale_for(tpj_hlo *h, tpj_value *scale, const tpj_value *product) {
    if (hlo_elements(scale) == 1) scale = flat_scalar(h, scale);
    return hlo_expand(h, scale, 2, product->type.dims);
}

static void emit_scaled_mm(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    static const char *const names[] = {"self", "mat2"};
    for (int i = 0; i < 2; i++) {
        tpj_type type = tpj_in_type(e, names[i]);
        if (type.rank == 2 && tpj_dtype_is_float8(type.dtype)) continue;
        tpj_fail(e, TPJ_RUNTIME, "Expected %s to be Float8 matrix got %s", names[i], tpj_dtype_torch_name(type.dtype));
        return;
    }
    tpj_value *x = tpj_in_as(e, "self", TPJ_F32), *y = tpj_in_as(e, "mat2", TPJ_F32);
    if (hlo_dim(x, 1) != hlo_dim(y, 0)) {
        tpj_fail(e, TPJ_RUNTIME, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                 (long long)hlo_dim(x, 0), (long long)hlo_dim(x, 1), (long long)hlo_dim(y, 0),
                 (long long)hlo_dim(y, 1));
        return;
    }
    tpj_value *a = tpj_in_as(e, "scale_a", TPJ_F32), *b = tpj_in_as(e, "scale_b", TPJ_F32);
    if (!scales_ok(e, a, b, hlo_dim(x, 0), hlo_dim(y, 1))) return;
    tpj_value *made = hlo_matmul(h, x, y, TPJ_F32);
    made = hlo_mul(h, made, hlo_mul(h, scale_for(h, a, made), scale_for(h, b, made)));
    if (tpj_has(e, "bias")) made = hlo_add(h, made, hlo_expand(h, tpj_in_as(e, "bias", TPJ_F32), 2, made->type.dims));
    tpj_dtype dtype = tpj_dtype_of(e, "out_dtype", tpj_in_type(e, "self").dtype);
    if (tpj_has(e, "scale_result") && tpj_has(e, "out_dtype") && tpj_dtype_is_float8(dtype)) /* as the CPU */
        made = hlo_div(h, made, scale_for(h, tpj_in_as(e, "scale_result", TPJ_F32), made));
    tpj_out_as(e, made, dtype);
}

#define RANGE "I quant_min, I quant_max"

const tpj_op_def tpj_ops_quantize[] = {
    {.name = "fake_quantize_per_tensor_affine_cachemask",
     .params = "T self, f scale, I~ zero_point, " RANGE,
     .emit = emit_per_tensor,
     .layout = TPJ_LAYOUT_POINTWISE},
    {.name = "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
     .params = "T self, T scale, T zero_point, T fake_quant_enabled, " RANGE,
     .emit = emit_per_tensor_switched,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "fake_quantize_per_channel_affine_cachemask",
     .params = "T self, T scale, T zero_point, I axis, " RANGE,
     .emit = emit_per_channel,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "_fake_quantize_learnable_per_tensor_affine",
     .params = "T self, T scale, T zero_point, " RANGE ", F grad_factor=1.0",
     .emit = emit_learnable_per_tensor,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "_fake_quantize_learnable_per_tensor_affine_backward",
     .params = "T grad, T self, T scale, T zero_point, " RANGE ", F grad_factor=1.0",
     .emit = emit_learnable_per_tensor_backward,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "_fake_quantize_learnable_per_channel_affine",
     .params = "T self, T scale, T zero_point, I axis, " RANGE ", F grad_factor=1.0",
     .emit = emit_learnable_per_channel,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "_fake_quantize_learnable_per_channel_affine_backward",
     .params = "T grad, T self, T scale, T zero_point, I axis, " RANGE ", F grad_factor=1.0",
     .emit = emit_learnable_per_channel_backward,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "_weight_int8pack_mm", .params = "T self, T mat2, T scales", .emit = emit_weight_int8pack_mm},
    {.name = "_scaled_mm",
     .params = "T self, T mat2, T scale_a, T scale_b, T? bias=None, T? scale_result=None, D? out_dtype=None",
     .emit = emit_scaled_mm,
     .flags = TPJ_OP_FLOAT8},
    {0},
};
