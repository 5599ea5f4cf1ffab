/* Tensors made from numbers: fills, ranges, identity matrices. Fill values and range ends are operands. */
#include <math.h>

#include "ops/indexing.h"

/* ---- fills ---- */

/* The dtype of a number where none is asked for: the default float and complex for those kinds. */
static tpj_dtype number_dtype(tpj_emit *e, const char *name) {
    tpj_dtype dtype = tpj_scalar_dtype(e, name);
    return dtype == TPJ_F64 ? tpj_default_dtype(e) : dtype == TPJ_C128 ? tpj_default_complex_dtype(e) : dtype;
}

static bool sizes_ok(tpj_emit *e, const int64_t *sizes, int rank) {
    for (int d = 0; d < rank; d++) {
        if (sizes[d] >= 0) continue;
        tpj_fail(e, TPJ_RUNTIME, "Trying to create tensor with negative dimension %lld: %s", (long long)sizes[d],
                 tpj_shape_text(tpj_builder(e), rank, sizes));
        return false;
    }
    return true;
}

static tpj_value *filled(tpj_hlo *h, tpj_value *value, int rank, const int64_t *dims) {
    return hlo_broadcast_in_dim(h, value, rank, dims, NULL);
}

static void emit_full(tpj_emit *e) {
    int rank = 0;
    const int64_t *sizes = tpj_ints(e, "size", &rank);
    if (!sizes_ok(e, sizes, rank)) return;
    tpj_dtype dtype = tpj_dtype_of(e, "dtype", number_dtype(e, "fill_value"));
    tpj_out(e, filled(tpj_builder(e), tpj_scalar(e, "fill_value", dtype), rank, sizes));
}

/* variant: the number that fills. */
static void emit_constant(tpj_emit *e) {
    int rank = 0;
    const int64_t *sizes = tpj_ints(e, "size", &rank);
    if (!sizes_ok(e, sizes, rank)) return;
    tpj_out(e,
            hlo_full(tpj_builder(e), tpj_dtype_of(e, "dtype", tpj_default_dtype(e)), rank, sizes, tpj_row(e)->variant));
}

static void emit_full_like(tpj_emit *e) {
    tpj_type type = tpj_in_type(e, "self");
    tpj_dtype dtype = tpj_dtype_of(e, "dtype", type.dtype);
    tpj_out(e, filled(tpj_builder(e), tpj_scalar(e, "fill_value", dtype), type.rank, type.dims));
}

static void emit_constant_like(tpj_emit *e) {
    tpj_type type = tpj_in_type(e, "self");
    tpj_dtype dtype = tpj_dtype_of(e, "dtype", type.dtype);
    tpj_out(e, hlo_full(tpj_builder(e), dtype, type.rank, type.dims, tpj_row(e)->variant));
}

static void emit_zero(tpj_emit *e) {
    tpj_type type = tpj_in_type(e, "self");
    tpj_out(e, hlo_zeros(tpj_builder(e), type.dtype, type.rank, type.dims));
}

static void emit_fill(tpj_emit *e) {
    tpj_type type = tpj_in_type(e, "self");
    tpj_dtype given = tpj_scalar_dtype(e, "value");
    if (tpj_dtype_is_complex(given) && !tpj_dtype_is_complex(type.dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "value cannot be converted to type %s without overflow", tpj_dtype_name(type.dtype));
        return;
    }
    tpj_out(e, filled(tpj_builder(e), tpj_scalar(e, "value", type.dtype), type.rank, type.dims));
}

static void emit_fill_tensor(tpj_emit *e) {
    tpj_type type = tpj_in_type(e, "self");
    tpj_value *value = tpj_in_as(e, "value", type.dtype);
    if (value->type.rank != 0) {
        tpj_fail(e, TPJ_RUNTIME, "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.",
                 value->type.rank);
        return;
    }
    tpj_out(e, filled(tpj_builder(e), value, type.rank, type.dims));
}

static void emit_scalar_tensor(tpj_emit *e) {
    tpj_out(e, tpj_scalar(e, "s", tpj_dtype_of(e, "dtype", tpj_default_dtype(e))));
}

static void emit_eye(tpj_emit *e) {
    int64_t n = tpj_int(e, "n", 0), dims[] = {n, tpj_row(e)->variant != 0 ? tpj_int(e, "m", 0) : n};
    tpj_hlo *h = tpj_builder(e);
    if (dims[0] < 0 || dims[1] < 0) {
        tpj_fail(e, TPJ_RUNTIME, "n and m must be greater or equal to 0, got %lld and %lld", (long long)dims[0],
                 (long long)dims[1]);
        return;
    }
    tpj_out_as(e, tpj_band_mask(h, "EQ", 2, dims, 0), tpj_dtype_of(e, "dtype", tpj_default_dtype(e)));
}

/* ---- arange ---- */

enum { ARANGE_END = 1, ARANGE_START, ARANGE_STEP };
enum { SIZE_STEP_ZERO = -1, SIZE_WRONG_SIGN = -2, SIZE_NOT_FINITE = -3 };

/* start, end and step of an arange; what the overload lacks is a constant. */
typedef struct range {
    tpj_value *start, *end, *step;
    tpj_dtype dtype; /* of the result */
} range;

static range read_range(tpj_emit *e, tpj_dtype compute) {
    tpj_hlo *h = tpj_builder(e);
    int form = tpj_row(e)->variant;
    return (range){.start = form >= ARANGE_START ? tpj_scalar(e, "start", compute) : hlo_number(h, compute, 0),
                   .end = tpj_scalar(e, "end", compute),
                   .step = form >= ARANGE_STEP ? tpj_scalar(e, "step", compute) : hlo_number(h, compute, 1)};
}

/* I64 where all three are integers; else the default float. */
static tpj_dtype range_dtype(tpj_emit *e) {
    static const char *const names[] = {"end", "start", "step"};
    tpj_dtype dtype = TPJ_I64;
    for (int i = 0; i < tpj_row(e)->variant; i++) {
        if (!tpj_dtype_is_integral(tpj_scalar_dtype(e, names[i]))) dtype = tpj_default_dtype(e);
    }
    return dtype;
}

static bool range_is_constant(tpj_emit *e) {
    static const char *const names[] = {"end", "start", "step"};
    bool constant = true;
    for (int i = 0; i < tpj_row(e)->variant; i++) constant = constant && tpj_is_constant(e, names[i]);
    return constant;
}

static int64_t float_size(double start, double end, double step) {
    double n = ceil((end - start) / step);
    if (!(fabs(start) < HUGE_VAL) || !(fabs(end) < HUGE_VAL) || !(fabs(n) < 0x1p63)) return SIZE_NOT_FINITE;
    if (step > 0 ? end < start : end > start) return SIZE_WRONG_SIGN;
    return (int64_t)n;
}

/* How many numbers, or what is wrong. Counted in integers where all three are, as PyTorch does. */
static int64_t arange_size(const tpj_number *numbers, int n) {
    tpj_number zero = {.kind = TPJ_NUMBER_INT}, one = {.kind = TPJ_NUMBER_INT, .integer = 1};
    const tpj_number *given[] = {n > 1 ? &numbers[0] : &zero, &numbers[n > 1], n > 2 ? &numbers[2] : &one};
    double real[3];
    bool integers = true;
    for (int i = 0; i < 3; i++) {
        bool is_integer = given[i]->kind < TPJ_NUMBER_FLOAT;
        integers = integers && is_integer;
        real[i] = is_integer ? (double)given[i]->integer : given[i]->parts[0];
    }
    if (real[2] == 0) return SIZE_STEP_ZERO;
    int64_t start = given[0]->integer, end = given[1]->integer, step = given[2]->integer;
    if (!integers || step == INT64_MIN) return float_size(real[0], real[1], real[2]);
    if (step > 0 ? end < start : end > start) return SIZE_WRONG_SIGN;
    uint64_t span = step > 0 ? (uint64_t)end - (uint64_t)start : (uint64_t)start - (uint64_t)end;
    uint64_t width = (uint64_t)(step > 0 ? step : -step), size = span / width + (span % width != 0);
    return size <= INT64_MAX ? (int64_t)size : SIZE_NOT_FINITE;
}

/* The same for numbers that the graph knows. */
static int64_t constant_size(tpj_emit *e) {
    int form = tpj_row(e)->variant;
    double start = form >= ARANGE_START ? tpj_float(e, "start", 0) : 0, end = tpj_float(e, "end", 0);
    double step = form >= ARANGE_STEP ? tpj_float(e, "step", 1) : 1;
    return step == 0 ? SIZE_STEP_ZERO : float_size(start, end, step);
}

static void emit_arange(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_dtype_of(e, "dtype", range_dtype(e));
    int64_t n = range_is_constant(e) ? constant_size(e) : tpj_size(e, 0);
    if (n < 0) {
        tpj_fail(e, TPJ_RUNTIME,
                 n == SIZE_STEP_ZERO    ? "step must be nonzero"
                 : n == SIZE_WRONG_SIGN ? "upper bound and lower bound inconsistent with step sign"
                                        : "unsupported range");
        return;
    }
    tpj_dtype compute = tpj_compute_dtype(dtype);
    range r = read_range(e, compute);
    tpj_value *steps = hlo_mul(h, hlo_iota(h, compute, 1, &n, 0), r.step);
    tpj_out_as(e, hlo_add(h, steps, r.start), dtype);
}

/* ---- linspace and logspace ---- */

/* Counted from the nearer end, so that both ends are met exactly. Integers are interpolated in F64 and truncated. */
static tpj_value *interpolate(tpj_emit *e, tpj_dtype dtype, int64_t n) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype compute = tpj_dtype_is_integral(dtype) ? TPJ_F64 : tpj_compute_dtype(dtype);
    tpj_dtype ends = tpj_dtype_is_integral(dtype) ? dtype : compute;
    tpj_value *start = hlo_convert(h, tpj_scalar(e, "start", ends), compute);
    tpj_value *end = hlo_convert(h, tpj_scalar(e, "end", ends), compute);
    if (n <= 1) return filled(h, start, 1, &n);
    tpj_value *step = hlo_div(h, hlo_sub(h, end, start), hlo_number(h, compute, (double)(n - 1)));
    tpj_value *i = hlo_iota(h, TPJ_I32, 1, &n, 0), *last = hlo_integer(h, TPJ_I32, n - 1);
    tpj_value *up = hlo_add(h, hlo_mul(h, hlo_convert(h, i, compute), step), start);
    tpj_value *down = hlo_sub(h, end, hlo_mul(h, hlo_convert(h, hlo_sub(h, last, i), compute), step));
    return hlo_select(h, hlo_compare(h, "LT", i, hlo_integer(h, TPJ_I32, n / 2)), up, down);
}

static bool read_steps(tpj_emit *e, tpj_dtype *out_dtype, int64_t *out_n) {
    *out_n = tpj_int(e, "steps", 0);
    if (*out_n < 0) {
        tpj_fail(e, TPJ_RUNTIME, "number of steps must be non-negative");
        return false;
    }
    bool is_complex =
        tpj_dtype_is_complex(tpj_scalar_dtype(e, "start")) || tpj_dtype_is_complex(tpj_scalar_dtype(e, "end"));
    *out_dtype = tpj_dtype_of(e, "dtype", is_complex ? tpj_default_complex_dtype(e) : tpj_default_dtype(e));
    if (is_complex && !tpj_dtype_is_complex(*out_dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "inferred dtype complex can't be safely cast to passed dtype %s",
                 tpj_dtype_name(*out_dtype));
        return false;
    }
    return true;
}

static void emit_linspace(tpj_emit *e) {
    tpj_dtype dtype;
    int64_t n;
    if (read_steps(e, &dtype, &n)) tpj_out_as(e, interpolate(e, dtype, n), dtype);
}

static void emit_logspace(tpj_emit *e) {
    tpj_dtype dtype;
    int64_t n;
    if (!read_steps(e, &dtype, &n)) return;
    tpj_value *exponent = interpolate(e, dtype, n);
    tpj_value *base = tpj_scalar(e, "base", exponent->type.dtype);
    tpj_out_as(e, hlo_pow(tpj_builder(e), filled(tpj_builder(e), base, 1, &n), exponent), dtype);
}

#define CONSTANT_LIKE "T self, D? dtype=None, M? memory_format=None"

const tpj_op_def tpj_ops_create[] = {
    {.name = "full", .params = "I[] size, S fill_value, D? dtype=None", .emit = emit_full, .flags = TPJ_OP_FACTORY},
    {.name = "zeros",
     .params = "I[] size, D? dtype=None",
     .emit = emit_constant,
     .flags = TPJ_OP_FACTORY,
     .variant = 0},
    {.name = "ones", .params = "I[] size, D? dtype=None", .emit = emit_constant, .flags = TPJ_OP_FACTORY, .variant = 1},
    {.name = "full_like",
     .params = "T self, S fill_value, D? dtype=None, M? memory_format=None",
     .emit = emit_full_like,
     .layout = TPJ_LAYOUT_MEMORY_FORMAT},
    {.name = "zeros_like",
     .params = CONSTANT_LIKE,
     .emit = emit_constant_like,
     .layout = TPJ_LAYOUT_MEMORY_FORMAT,
     .variant = 0},
    {.name = "ones_like",
     .params = CONSTANT_LIKE,
     .emit = emit_constant_like,
     .layout = TPJ_LAYOUT_MEMORY_FORMAT,
     .variant = 1},
    {.name = "zero", .params = "T self", .emit = emit_zero, .layout = TPJ_LAYOUT_SELF},
    {.name = "fill.Scalar", .params = "T self, S value", .emit = emit_fill, .layout = TPJ_LAYOUT_SELF},
    {.name = "fill.Tensor",
     .params = "T self, T value",
     .emit = emit_fill_tensor,
     .flags = TPJ_OP_FLOAT8,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "scalar_tensor", .params = "S s, D? dtype=None", .emit = emit_scalar_tensor, .flags = TPJ_OP_FACTORY},
    {.name = "eye", .params = "I n, D? dtype=None", .emit = emit_eye, .flags = TPJ_OP_FACTORY},
    {.name = "eye.m", .params = "I n, I m, D? dtype=None", .emit = emit_eye, .flags = TPJ_OP_FACTORY, .variant = 1},
    {.name = "arange",
     .params = "S end, D? dtype=None",
     .emit = emit_arange,
     .size = arange_size,
     .flags = TPJ_OP_FACTORY | TPJ_OP_SIZED,
     .variant = ARANGE_END},
    {.name = "arange.start",
     .params = "S start, S end, D? dtype=None",
     .emit = emit_arange,
     .size = arange_size,
     .flags = TPJ_OP_FACTORY | TPJ_OP_SIZED,
     .variant = ARANGE_START},
    {.name = "arange.start_step",
     .params = "S start, S end, S step=1, D? dtype=None",
     .emit = emit_arange,
     .size = arange_size,
     .flags = TPJ_OP_FACTORY | TPJ_OP_SIZED,
     .variant = ARANGE_STEP},
    {.name = "linspace",
     .params = "S start, S end, I steps, D? dtype=None",
     .emit = emit_linspace,
     .flags = TPJ_OP_FACTORY},
    {.name = "logspace",
     .params = "S start, S end, I steps, f base=10.0, D? dtype=None",
     .emit = emit_logspace,
     .flags = TPJ_OP_FACTORY},
    {0},
};
