/* Reductions. Halves are reduced in F32; sums and products of integers in I64, as PyTorch's. Order statistics are in
 * sort.c. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ops/pointwise.h"

/* ---- which dimensions ---- */

/* How a row says it, in its `variant`: not at all, by the list "dim", by the number "dim" (None is all of them). */
enum { OVER_ALL, OVER_LIST, OVER_DIM };

typedef struct reduction {
    tpj_hlo *h;
    tpj_value *x;
    const int64_t *dims;
    int n_dims;
    bool keep;
} reduction;

static const int64_t *every_dim(tpj_hlo *h, int rank) {
    int64_t *dims = hlo_dims(h, rank);
    for (int i = 0; i < rank && !hlo_failed(h); i++) dims[i] = i;
    return dims;
}

static reduction reduction_of(tpj_emit *e, tpj_value *x) {
    tpj_hlo *h = tpj_builder(e);
    int rank = x->type.rank, over = tpj_row(e)->variant;
    reduction r = {.h = h, .x = x, .dims = every_dim(h, rank), .n_dims = rank};
    if (rank > 64) tpj_fail(e, TPJ_RUNTIME, "only tensors with up to 64 dims are supported");
    if (over == OVER_ALL) return r;
    r.keep = tpj_bool(e, "keepdim", false);
    if (over == OVER_LIST)
        r.dims = tpj_dims(e, "dim", rank, &r.n_dims);
    else if (tpj_has(e, "dim")) {
        int64_t *dims = hlo_dims(h, 1);
        dims[0] = tpj_dim(e, "dim", rank);
        r.dims = dims;
        r.n_dims = rank > 0;
    }
    return r;
}

/* self in `dtype`, and then in the dtype that arithmetic runs in: PyTorch rounds to the asked dtype before it sums. */
static reduction reduction_in(tpj_emit *e, tpj_dtype dtype) {
    tpj_value *x = tpj_in_as(e, "self", dtype);
    return reduction_of(e, hlo_convert(tpj_builder(e), x, tpj_compute_dtype(dtype)));
}

static int64_t n_reduced(const reduction *r) {
    int64_t n = 1;
    for (int i = 0; i < r->n_dims && !hlo_failed(r->h); i++) n *= hlo_dim(r->x, (int)r->dims[i]);
    return n;
}

static tpj_value *reduce_of(const reduction *r, const char *kind, tpj_value *x) {
    return hlo_reduce(r->h, kind, x, NULL, r->dims, r->n_dims);
}

/* The shape of the operand with ones where it was reduced. */
static tpj_value *with_ones(const reduction *r, tpj_value *reduced) {
    int rank = r->x->type.rank;
    int64_t *dims = hlo_dims(r->h, rank);
    if (hlo_failed(r->h)) return reduced;
    for (int i = 0; i < rank; i++) dims[i] = r->x->type.dims[i];
    for (int i = 0; i < r->n_dims; i++) dims[r->dims[i]] = 1;
    return hlo_reshape(r->h, reduced, rank, dims);
}

/* .. repeated to the operand's shape. */
static tpj_value *spread(const reduction *r, tpj_value *reduced) {
    return hlo_expand(r->h, with_ones(r, reduced), r->x->type.rank, r->x->type.dims);
}

static void out_reduced(tpj_emit *e, const reduction *r, tpj_value *reduced, tpj_dtype dtype) {
    tpj_out_as(e, r->keep ? with_ones(r, reduced) : reduced, dtype);
}

/* The name before the dot, for messages. */
static const char *base_name(tpj_emit *e) {
    const char *name = tpj_row(e)->name, *dot = strchr(name, '.');
    return dot == NULL ? name : tpj_arena_string_n(hlo_arena(tpj_builder(e)), name, (size_t)(dot - name));
}

static bool is_dim_given(tpj_emit *e) {
    int n = 0;
    if (tpj_row(e)->variant == OVER_ALL) return false;
    if (tpj_row(e)->variant == OVER_LIST) tpj_ints(e, "dim", &n);
    return tpj_row(e)->variant == OVER_LIST ? n > 0 : tpj_has(e, "dim");
}

/* Extremes of nothing: the dimensions that are reduced must not be empty unless the result is. PyTorch's argmax and argmin
 * raise IndexError for all of nothing, the others RuntimeError. */
static bool check_not_empty(tpj_emit *e, const reduction *r) {
    if (hlo_failed(r->h) || hlo_elements(r->x) > 0) return !hlo_failed(r->h);
    if (!is_dim_given(e)) {
        bool index = tpj_row(e)->variant != OVER_ALL && strncmp(tpj_row(e)->name, "arg", 3) == 0;
        tpj_fail(
            e, index ? TPJ_INDEX : TPJ_RUNTIME,
            "%s(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
            "'dim' argument.",
            base_name(e));
        return false;
    }
    for (int i = 0; i < r->n_dims; i++) {
        if (hlo_dim(r->x, (int)r->dims[i]) > 0) continue;
        tpj_fail(e, TPJ_INDEX, "%s(): Expected reduction dim %d to have non-zero size.", base_name(e), (int)r->dims[i]);
        return false;
    }
    return true;
}

/* ---- hashes ---- */

/* The bits that a F32 has as a F64. On bits alone: a device may take numbers below the smallest normal one for zero. Their
 * fraction, an integer, becomes a float of its own. */
static tpj_value *double_bits(tpj_hlo *h, tpj_value *x) {
    enum { FRACTION = 23, WIDE_FRACTION = 52, BIAS = 127, WIDE_BIAS = 1023, LAST = 255, WIDE_LAST = 2047 };
    tpj_value *bits = hlo_bitcast(h, x, TPJ_I32), *mask = hlo_integer(h, TPJ_I32, (1 << FRACTION) - 1);
    tpj_value *tiny = hlo_bitcast(h, hlo_convert(h, hlo_and(h, bits, mask), TPJ_F32), TPJ_I32);
    tpj_value *field[2], *source[] = {bits, tiny};
    for (int i = 0; i < 2; i++) {
        field[i] = hlo_binary(h, "shift_right_logical", source[i], hlo_integer(h, TPJ_I32, FRACTION));
        field[i] = hlo_and(h, field[i], hlo_integer(h, TPJ_I32, LAST));
    }
    tpj_value *is_tiny = tpj_compare_number(h, "EQ", field[0], 0),
              *is_last = tpj_compare_number(h, "EQ", field[0], LAST);
    tpj_value *is_zero = hlo_and(h, is_tiny, tpj_compare_number(h, "EQ", field[1], 0));
    tpj_value *exponent = hlo_sub(h, field[1], hlo_integer(h, TPJ_I32, BIAS + FRACTION - 1));
    exponent = hlo_add(h, hlo_select(h, is_tiny, exponent, field[0]), hlo_integer(h, TPJ_I32, WIDE_BIAS - BIAS));
    exponent = hlo_select(h, is_last, hlo_integer(h, TPJ_I32, WIDE_LAST), exponent);
    exponent = hlo_select(h, is_zero, hlo_integer(h, TPJ_I32, 0), exponent);
    tpj_value *fraction = hlo_and(h, hlo_select(h, is_tiny, tiny, bits), mask);
    tpj_value *sign = hlo_binary(h, "shift_right_logical", bits, hlo_integer(h, TPJ_I32, 31));
    tpj_value *parts[] = {sign, exponent, fraction}, *all = hlo_integer(h, TPJ_U64, 0);
    static const int shift[] = {63, WIDE_FRACTION, WIDE_FRACTION - FRACTION};
    for (int i = 0; i < 3; i++) {
        tpj_value *wide = hlo_convert(h, parts[i], TPJ_U64);
        all = hlo_or(h, hlo_binary(h, "shift_left", wide, hlo_integer(h, TPJ_U64, shift[i])), all);
    }
    return all;
}

/* The exclusive or of all elements as 64 bits: integers extended, floats as doubles. */
static void emit_hash_tensor(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    int64_t mode = tpj_int(e, "mode", 0);
    int n_dims;
    bool wide_unsigned = tpj_dtype_is_unsigned(dtype) && tpj_dtype_bytes(dtype) > 1;
    if (tpj_dtype_is_complex(dtype) || wide_unsigned) tpj_fail_dtype(e, dtype);
    if (mode != 0) tpj_fail(e, TPJ_RUNTIME, "Unknown hash_tensor mode: %lld", (long long)mode);
    tpj_value *x = tpj_in_as(e, "self", tpj_dtype_is_float(dtype) ? tpj_compute_dtype(dtype) : TPJ_I64);
    x = x->type.dtype == TPJ_F32 ? double_bits(h, x) : hlo_bitcast(h, x, TPJ_U64);
    reduction r = reduction_of(e, x);
    if (tpj_ints(e, "dim", &n_dims), n_dims == 0 && !hlo_failed(h) && hlo_elements(x) == 0)
        tpj_fail(e, TPJ_RUNTIME,
                 "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify "
                 "the reduction dim with the 'dim' argument.");
    if (check_not_empty(e, &r)) out_reduced(e, &r, reduce_of(&r, "xor", x), TPJ_U64);
}

/* ---- sums and products ---- */

/* The dtype of a sum: the argument, else self's, integers in I64. */
static tpj_dtype sum_dtype(tpj_emit *e) {
    return tpj_dtype_of(e, "dtype", tpj_sum_dtype(tpj_in_type(e, "self").dtype));
}

static void emit_sum(tpj_emit *e) {
    tpj_dtype dtype = sum_dtype(e);
    reduction r = reduction_in(e, dtype);
    out_reduced(e, &r, reduce_of(&r, tpj_row(e)->hlo, r.x), dtype);
}

static void emit_nansum(tpj_emit *e) {
    tpj_dtype dtype = sum_dtype(e);
    if (tpj_dtype_is_complex(tpj_in_type(e, "self").dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "nansum does not support complex inputs");
        return;
    }
    reduction r = reduction_in(e, dtype);
    tpj_value *numbers = hlo_select(r.h, hlo_is_nan(r.h, r.x), tpj_like(r.h, r.x, 0), r.x);
    out_reduced(e, &r, reduce_of(&r, "add", numbers), dtype);
}

static tpj_value *mean_of(const reduction *r) {
    return hlo_div(r->h, reduce_of(r, "add", r->x), tpj_like(r->h, r->x, (double)n_reduced(r)));
}

static void emit_mean(tpj_emit *e) {
    tpj_dtype given = tpj_in_type(e, "self").dtype, dtype = tpj_dtype_of(e, "dtype", given);
    if (tpj_dtype_is_integral(dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "mean(): %s dtype. %s dtype must be either a floating point or complex dtype. Got: %s",
                 tpj_has(e, "dtype") ? "unsupported output" : "could not infer output",
                 tpj_has(e, "dtype") ? "Optional" : "Input", tpj_dtype_torch_name(dtype));
        return;
    }
    reduction r = reduction_in(e, dtype);
    out_reduced(e, &r, mean_of(&r), dtype);
}

/* ---- variance ---- */

enum { WANT_VARIANCE = 1, WANT_DEVIATION = 2, WANT_MEAN = 4 };

/* Two passes: the mean, then the squares of what is left, which loses nothing where the mean is large. */
static void emit_variance(tpj_emit *e, int want) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_in_type(e, "self").dtype, real = hlo_real_dtype(dtype);
    if (tpj_dtype_is_integral(dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "%s(): input tensor must be floating point or complex", base_name(e));
        return;
    }
    reduction r = reduction_in(e, dtype);
    tpj_value *mean = mean_of(&r), *rest = hlo_sub(h, r.x, spread(&r, mean)), *square = hlo_mul(h, rest, rest);
    if (tpj_dtype_is_complex(dtype)) {
        tpj_value *re = hlo_real(h, rest), *im = hlo_imag(h, rest);
        square = hlo_add(h, hlo_mul(h, re, re), hlo_mul(h, im, im));
    }
    tpj_value *y = reduce_of(&r, "add", square);
    tpj_value *freedom =
        hlo_sub(h, tpj_like(h, y, (double)n_reduced(&r)), tpj_scalar_or(e, "correction", y->type.dtype, 1));
    y = hlo_div(h, y, hlo_max(h, freedom, tpj_like(h, y, 0)));
    out_reduced(e, &r, want & WANT_DEVIATION ? hlo_sqrt(h, y) : y, real);
    if (want & WANT_MEAN) out_reduced(e, &r, mean, dtype);
}

static void emit_var(tpj_emit *e) { emit_variance(e, WANT_VARIANCE); }
static void emit_std(tpj_emit *e) { emit_variance(e, WANT_DEVIATION); }
static void emit_var_mean(tpj_emit *e) { emit_variance(e, WANT_VARIANCE | WANT_MEAN); }
static void emit_std_mean(tpj_emit *e) { emit_variance(e, WANT_DEVIATION | WANT_MEAN); }

/* ---- norms ---- */

/* The p-norm of real numbers >= 0. */
static tpj_value *norm_of(const reduction *r, tpj_value *size, double p) {
    tpj_hlo *h = r->h;
    if (p == HUGE_VAL) return reduce_of(r, "maximum", size);
    if (p == -HUGE_VAL) return reduce_of(r, "minimum", size);
    if (p == 0) return reduce_of(r, "add", hlo_convert(h, tpj_compare_number(h, "NE", size, 0), size->type.dtype));
    if (p == 1) return reduce_of(r, "add", size);
    if (p == 2) return hlo_sqrt(h, reduce_of(r, "add", hlo_mul(h, size, size)));
    tpj_value *powers = p == 3 ? hlo_mul(h, hlo_mul(h, size, size), size) : hlo_pow(h, size, tpj_like(h, size, p));
    tpj_value *sum = reduce_of(r, "add", powers);
    return hlo_pow(h, sum, tpj_like(h, sum, 1 / p));
}

/* The norm that an argument names. */
static tpj_value *norm_by(tpj_emit *e, const reduction *r, tpj_value *size, const char *name) {
    tpj_hlo *h = r->h;
    if (!tpj_has(e, name) || tpj_is_constant(e, name)) return norm_of(r, size, tpj_float(e, name, 2));
    tpj_value *sum = reduce_of(r, "add", hlo_pow(h, size, tpj_scalar(e, name, size->type.dtype)));
    tpj_value *p = tpj_scalar(e, name, sum->type.dtype);
    return hlo_pow(h, sum, hlo_div(h, tpj_like(h, p, 1), p));
}

static void emit_norm_of(tpj_emit *e, const char *name, tpj_dtype dtype) {
    if (tpj_dtype_is_integral(dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "%s: Expected a floating point or complex tensor as input. Got %s",
                 strcmp(tpj_row(e)->name, "linalg_vector_norm") == 0 ? "linalg.vector_norm" : base_name(e),
                 tpj_dtype_torch_name(dtype));
        return;
    }
    reduction r = reduction_in(e, dtype);
    double p = tpj_has(e, name) && !tpj_is_constant(e, name) ? -1 : tpj_float(e, name, 2); /* -1: compiled for it */
    if (n_reduced(&r) == 0 && (p < 0 || p == HUGE_VAL) && !hlo_failed(r.h))
        tpj_fail(
            e, TPJ_RUNTIME,
            "linalg.vector_norm cannot compute the %g norm on an empty tensor because the operation does not have an "
            "identity",
            p);
    tpj_value *size = hlo_abs(r.h, r.x);
    /* |x| of complex numbers needs its square root only where it is not squared again, which the compiler sees to. */
    out_reduced(e, &r, norm_by(e, &r, size, name), hlo_real_dtype(dtype));
}

static void emit_vector_norm(tpj_emit *e) {
    emit_norm_of(e, "ord", tpj_dtype_of(e, "dtype", tpj_in_type(e, "self").dtype));
}

static void emit_norm(tpj_emit *e) { emit_norm_of(e, "p", tpj_in_type(e, "self").dtype); }

static void emit_norm_dtype(tpj_emit *e) {
    emit_norm_of(e, "p", tpj_dtype_of(e, "dtype", tpj_in_type(e, "self").dtype));
}

/* Scales down the slices along dim whose norm is above maxnorm. */
static void emit_renorm(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    tpj_value *x = tpj_in_as(e, "self", tpj_compute_dtype(dtype));
    int rank = x->type.rank, dim = tpj_dim(e, "dim", rank);
    if (rank < 2) {
        tpj_fail(e, TPJ_RUNTIME, "renorm: input needs at least 2 dimensions, got %d dimensions", rank);
        return;
    }
    tpj_require(e, "p", DBL_TRUE_MIN, HUGE_VAL, "renorm: non-positive norm not supported: ");
    tpj_require(e, "maxnorm", 0, HUGE_VAL, "renorm: expected maxnorm to be >= 0, got ");
    int64_t *dims = hlo_dims(h, rank);
    if (hlo_failed(h)) return;
    for (int i = 0; i < rank - 1; i++) dims[i] = i + (i >= dim);
    reduction r = {.h = h, .x = x, .dims = dims, .n_dims = rank - 1};
    tpj_value *norm = norm_by(e, &r, hlo_abs(h, x), "p"), *limit = tpj_scalar(e, "maxnorm", norm->type.dtype);
    tpj_value *factor = hlo_div(h, limit, hlo_add(h, norm, tpj_like(h, norm, 1e-7)));
    factor = tpj_select_or(h, hlo_compare(h, "GT", norm, limit), factor, 1);
    tpj_out_as(e, hlo_mul(h, x, spread(&r, hlo_convert(h, factor, x->type.dtype))), dtype);
}

/* Relative to the largest (of the real parts), so that nothing overflows. */
static void emit_logsumexp(tpj_emit *e) {
    tpj_dtype dtype = tpj_float_dtype(e, tpj_in_type(e, "self").dtype);
    reduction r = reduction_in(e, dtype);
    tpj_value *largest = reduce_of(&r, "maximum", hlo_real(r.h, r.x));
    largest = hlo_select(r.h, tpj_is_infinite(r.h, largest), tpj_like(r.h, largest, 0), largest);
    largest = hlo_convert(r.h, largest, r.x->type.dtype);
    tpj_value *sum = reduce_of(&r, "add", hlo_exp(r.h, hlo_sub(r.h, r.x, spread(&r, largest))));
    out_reduced(e, &r, hlo_add(r.h, hlo_log(r.h, sum), largest), dtype);
}

/* ---- logic and counts ---- */

/* all, any: bool, but bytes for bytes. */
static void emit_logic(tpj_emit *e) {
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    reduction r = reduction_of(e, tpj_in_as(e, "self", TPJ_BOOL));
    out_reduced(e, &r, reduce_of(&r, tpj_row(e)->hlo, r.x), dtype == TPJ_U8 ? TPJ_U8 : TPJ_BOOL);
}

static void emit_count_nonzero(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = hlo_convert(h, tpj_in_as(e, "self", TPJ_BOOL), TPJ_I64);
    reduction r = {.h = h, .x = x, .dims = every_dim(h, x->type.rank), .n_dims = x->type.rank};
    if (tpj_has(e, "dim")) r.dims = tpj_dims(e, "dim", x->type.rank, &r.n_dims);
    tpj_out(e, reduce_of(&r, "add", x));
}

/* ---- extremes ---- */

static bool is_maximum(tpj_emit *e) { return strcmp(tpj_row(e)->hlo, "maximum") == 0; }

/* self for a comparison: bool as bytes, halves as they are. */
static tpj_value *ordered_self(tpj_emit *e) {
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    if (tpj_dtype_is_complex(dtype)) tpj_fail_dtype(e, dtype);
    return tpj_in_as(e, "self", dtype == TPJ_BOOL ? TPJ_U8 : tpj_compute_dtype(dtype));
}

static void emit_extreme(tpj_emit *e) {
    reduction r = reduction_of(e, ordered_self(e));
    if (check_not_empty(e, &r)) out_reduced(e, &r, reduce_of(&r, tpj_row(e)->hlo, r.x), tpj_in_type(e, "self").dtype);
}

static void emit_aminmax(tpj_emit *e) {
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    reduction r = reduction_of(e, ordered_self(e));
    if (!check_not_empty(e, &r)) return;
    out_reduced(e, &r, reduce_of(&r, "minimum", r.x), dtype);
    out_reduced(e, &r, reduce_of(&r, "maximum", r.x), dtype);
}

/* max.dim, min.dim: values and indices. */
static void emit_extreme_dim(tpj_emit *e) {
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    reduction r = reduction_of(e, ordered_self(e));
    if (!check_not_empty(e, &r)) return;
    tpj_value *value = r.x, *index = hlo_zeros(r.h, TPJ_I64, 0, NULL);
    if (r.n_dims > 0) hlo_arg_reduce(r.h, is_maximum(e), r.x, (int)r.dims[0], &value, &index);
    out_reduced(e, &r, value, dtype);
    out_reduced(e, &r, index, TPJ_I64);
}

static void emit_arg_extreme(tpj_emit *e) {
    reduction r = reduction_of(e, ordered_self(e));
    if (!check_not_empty(e, &r)) return;
    bool whole = !tpj_has(e, "dim");
    tpj_value *x = whole ? hlo_flatten(r.h, r.x) : r.x, *index = hlo_zeros(r.h, TPJ_I64, 0, NULL);
    if (x->type.rank > 0) hlo_arg_reduce(r.h, is_maximum(e), x, whole ? 0 : (int)r.dims[0], NULL, &index);
    out_reduced(e, &r, index, TPJ_I64);
}

/* ---- rows ---- */

#define OVER(kind, op, parameters, function, ...) \
    {.name = op, .params = parameters, .emit = function, .variant = kind, __VA_ARGS__}
#define MOMENT(op, function) OVER(OVER_LIST, op, "T self, I[]? dim, S~? correction, B keepdim=false", function)

const tpj_op_def tpj_ops_reduce[] = {
    OVER(OVER_ALL, "sum", "T self, D? dtype", emit_sum, .hlo = "add"),
    OVER(OVER_LIST, "sum.dim_IntList", "T self, I[]? dim, B keepdim=false, D? dtype", emit_sum, .hlo = "add"),
    OVER(OVER_ALL, "prod", "T self, D? dtype", emit_sum, .hlo = "multiply"),
    OVER(OVER_DIM, "prod.dim_int", "T self, I dim, B keepdim=false, D? dtype", emit_sum, .hlo = "multiply"),
    OVER(OVER_LIST, "nansum", "T self, I[]? dim, B keepdim=false, D? dtype", emit_nansum),
    OVER(OVER_LIST, "hash_tensor", "T self, I[] dim=[], B keepdim=false, I mode=0", emit_hash_tensor),
    OVER(OVER_ALL, "mean", "T self, D? dtype", emit_mean),
    OVER(OVER_LIST, "mean.dim", "T self, I[]? dim, B keepdim=false, D? dtype", emit_mean),
    MOMENT("var.correction", emit_var),
    MOMENT("std.correction", emit_std),
    MOMENT("var_mean.correction", emit_var_mean),
    MOMENT("std_mean.correction", emit_std_mean),
    OVER(OVER_LIST, "linalg_vector_norm", "T self, S^ ord=2, I[]? dim, B keepdim=false, D? dtype", emit_vector_norm),
    OVER(OVER_ALL, "norm.Scalar", "T self, S^ p=2", emit_norm),
    OVER(OVER_ALL, "norm.ScalarOpt_dtype", "T self, S^? p, D dtype", emit_norm_dtype),
    OVER(OVER_LIST, "norm.ScalarOpt_dim", "T self, S^? p, I[] dim, B keepdim=false", emit_norm),
    OVER(OVER_LIST, "norm.ScalarOpt_dim_dtype", "T self, S^? p, I[] dim, B keepdim, D dtype", emit_norm_dtype),
    {.name = "renorm", .params = "T self, S^ p, I dim, S~ maxnorm", .emit = emit_renorm},
    OVER(OVER_LIST, "logsumexp", "T self, I[] dim, B keepdim=false", emit_logsumexp),
    OVER(OVER_ALL, "all", "T self", emit_logic, .hlo = "and", .flags = TPJ_OP_FLOAT8),
    OVER(OVER_DIM, "all.dim", "T self, I dim, B keepdim=false", emit_logic, .hlo = "and", .flags = TPJ_OP_FLOAT8),
    OVER(OVER_LIST, "all.dims", "T self, I[]? dim, B keepdim=false", emit_logic, .hlo = "and", .flags = TPJ_OP_FLOAT8),
    OVER(OVER_ALL, "any", "T self", emit_logic, .hlo = "or", .flags = TPJ_OP_FLOAT8),
    OVER(OVER_DIM, "any.dim", "T self, I dim, B keepdim=false", emit_logic, .hlo = "or", .flags = TPJ_OP_FLOAT8),
    OVER(OVER_LIST, "any.dims", "T self, I[]? dim, B keepdim=false", emit_logic, .hlo = "or", .flags = TPJ_OP_FLOAT8),
    OVER(OVER_ALL, "count_nonzero", "T self, I? dim", emit_count_nonzero),
    OVER(OVER_ALL, "count_nonzero.dim_IntList", "T self, I[] dim", emit_count_nonzero),
    OVER(OVER_LIST, "amax", "T self, I[] dim=[], B keepdim=false", emit_extreme, .hlo = "maximum"),
    OVER(OVER_LIST, "amin", "T self, I[] dim=[], B keepdim=false", emit_extreme, .hlo = "minimum"),
    OVER(OVER_ALL, "max", "T self", emit_extreme, .hlo = "maximum"),
    OVER(OVER_ALL, "min", "T self", emit_extreme, .hlo = "minimum"),
    OVER(OVER_DIM, "aminmax", "T self, I? dim, B keepdim=false", emit_aminmax),
    OVER(OVER_ALL, "_aminmax", "T self", emit_aminmax),
    OVER(OVER_DIM, "_aminmax.dim", "T self, I dim, B keepdim=false", emit_aminmax),
    OVER(OVER_DIM, "max.dim", "T self, I dim, B keepdim=false", emit_extreme_dim, .hlo = "maximum"),
    OVER(OVER_DIM, "min.dim", "T self, I dim, B keepdim=false", emit_extreme_dim, .hlo = "minimum"),
    OVER(OVER_DIM, "argmax", "T self, I? dim, B keepdim=false", emit_arg_extreme, .hlo = "maximum"),
    OVER(OVER_DIM, "argmin", "T self, I? dim, B keepdim=false", emit_arg_extreme, .hlo = "minimum"),
    {0},
};
