/* Writing elements by index: scatter, index_add and relatives, index_put, masked writes, put. Writes through views of a
 * fixed shape (select_scatter, slice_backward, ..) are in view_write.c. */
#include <string.h>

#include "ops/indexing.h"

/* ---- reductions into places ---- */

typedef enum reduction {
    REDUCE_NONE,
    REDUCE_SUM,
    REDUCE_PROD,
    REDUCE_MEAN,
    REDUCE_AMAX,
    REDUCE_AMIN,
    REDUCE_UNKNOWN
} reduction;

static reduction reduction_of(const char *name) {
    static const struct {
        const char *name;
        reduction reduction;
    } names[] = {{"sum", REDUCE_SUM},   {"add", REDUCE_SUM},   {"prod", REDUCE_PROD}, {"multiply", REDUCE_PROD},
                 {"mean", REDUCE_MEAN}, {"amax", REDUCE_AMAX}, {"amin", REDUCE_AMIN}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i].name, name) == 0) return names[i].reduction;
    }
    return REDUCE_UNKNOWN;
}

static const char *const kinds[] = {"replace", "add", "multiply", "add", "maximum", "minimum"};

/* What a place starts from when its own value does not count. */
static tpj_value *reduction_identity(tpj_hlo *h, reduction r, tpj_dtype dtype) {
    if (r == REDUCE_AMAX) return hlo_lowest(h, dtype);
    if (r == REDUCE_AMIN) return hlo_highest(h, dtype);
    return hlo_number(h, dtype, r == REDUCE_PROD ? 1 : 0);
}

/* How updates are addressed: one position an element (torch.scatter) or whole slices (index_add). */
typedef tpj_value *(*write_function)(tpj_hlo *h, const char *kind, tpj_value *x, int dim, tpj_value *index,
                                     tpj_value *src);

/* Quotient rounded down, for integers. */
static tpj_value *floor_divide(tpj_hlo *h, tpj_value *x, tpj_value *y) {
    tpj_dtype dtype = x->type.dtype;
    tpj_value *quotient = hlo_div(h, x, y), *zero = hlo_number(h, dtype, 0);
    if (tpj_dtype_is_unsigned(dtype)) return quotient;
    tpj_value *inexact = hlo_compare(h, "NE", hlo_binary(h, "remainder", x, y), zero);
    tpj_value *down = hlo_and(h, inexact, hlo_compare(h, "LT", x, zero)); /* y counts, and is positive */
    return hlo_sub(h, quotient, hlo_convert(h, down, dtype));
}

/* x with src reduced into it; without `include_self` the places that src reaches start afresh. */
static tpj_value *write_reduced(tpj_hlo *h, write_function write, reduction r, bool include_self, tpj_value *x, int dim,
                                tpj_value *index, tpj_value *src) {
    tpj_dtype dtype = x->type.dtype, compute = tpj_accumulate_dtype(dtype);
    if (hlo_elements(src) == 0) return x;
    tpj_value *sum = hlo_convert(h, x, compute);
    src = hlo_convert(h, src, compute);
    if (!include_self) {
        tpj_value *fresh =
            hlo_broadcast_in_dim(h, reduction_identity(h, r, compute), src->type.rank, src->type.dims, NULL);
        sum = write(h, "replace", sum, dim, index, fresh);
    }
    sum = write(h, kinds[r], sum, dim, index, src);
    if (r == REDUCE_MEAN) {
        tpj_dtype counter = tpj_dtype_is_integral(compute) ? TPJ_I32 : hlo_real_dtype(compute);
        tpj_value *count = hlo_full(h, counter, x->type.rank, x->type.dims, include_self ? 1 : 0);
        count = write(h, "add", count, dim, index, hlo_full(h, counter, src->type.rank, src->type.dims, 1));
        count = hlo_convert(h, hlo_max(h, count, hlo_number(h, counter, 1)), compute);
        sum = tpj_dtype_is_integral(compute) ? floor_divide(h, sum, count) : hlo_div(h, sum, count);
    }
    return hlo_convert(h, sum, dtype);
}

/* ---- scatter ---- */

/* The operands of a scatter, brought to rank 1 at least; `src` NULL for a number. */
typedef struct scatter_operands {
    tpj_value *self, *x, *index, *src;
    int dim;
} scatter_operands;

static bool scatter_shapes_ok(tpj_emit *e, const scatter_operands *s) {
    tpj_hlo *h = tpj_builder(e);
    bool fits = s->x->type.rank == s->index->type.rank && (s->src == NULL || s->src->type.rank == s->index->type.rank);
    for (int d = 0; fits && d < s->index->type.rank; d++) {
        int64_t size = hlo_dim(s->index, d);
        fits = (d == s->dim || size <= hlo_dim(s->x, d)) && (s->src == NULL || size <= hlo_dim(s->src, d));
    }
    if (fits) return true;
    tpj_fail(e, TPJ_RUNTIME, "Expected index %s to be no larger than self %s apart from dimension %d%s%s",
             tpj_shape_text(h, s->index->type.rank, s->index->type.dims),
             tpj_shape_text(h, s->x->type.rank, s->x->type.dims), s->dim,
             s->src != NULL ? " and to be no larger than src " : "",
             s->src != NULL ? tpj_shape_text(h, s->src->type.rank, s->src->type.dims) : "");
    return false;
}

/* false: the op has failed, or nothing is written and self is the result. */
static bool read_scatter(tpj_emit *e, bool with_src, scatter_operands *out) {
    tpj_hlo *h = tpj_builder(e);
    scatter_operands s = {.self = tpj_in(e, "self"), .index = tpj_in(e, "index")};
    s.dim = tpj_dim(e, "dim", s.self->type.rank);
    if (hlo_elements(s.index) > 0 && s.index->type.dtype != TPJ_I64 && s.index->type.dtype != TPJ_I32) {
        tpj_fail(e, TPJ_RUNTIME, "scatter(): Expected dtype int32/int64 for index");
        return false;
    }
    if (with_src) {
        s.src = tpj_in(e, "src");
        if (s.src->type.dtype != s.self->type.dtype) {
            tpj_fail(e, TPJ_RUNTIME, "scatter(): Expected self.dtype to be equal to src.dtype");
            return false;
        }
        s.src = tpj_at_least_1d(h, s.src);
    }
    if (hlo_elements(s.index) == 0) {
        tpj_out(e, s.self);
        return false;
    }
    s.x = tpj_at_least_1d(h, s.self);
    s.index = tpj_at_least_1d(h, s.index);
    if (!scatter_shapes_ok(e, &s)) return false;
    if (with_src) s.src = hlo_slice(h, s.src, hlo_dims(h, s.src->type.rank), s.index->type.dims, NULL);
    s.index = tpj_index_argument(e, s.index, hlo_dim(s.x, s.dim), false);
    *out = s;
    return true;
}

static void out_scattered(tpj_emit *e, const scatter_operands *s, reduction r, bool include_self) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *result = r == REDUCE_NONE
                            ? tpj_scatter_along(h, "replace", s->x, s->dim, s->index, s->src)
                            : write_reduced(h, tpj_scatter_along, r, include_self, s->x, s->dim, s->index, s->src);
    tpj_out(e, hlo_reshape(h, result, s->self->type.rank, s->self->type.dims));
}

static void emit_scatter(tpj_emit *e) {
    scatter_operands s;
    if (read_scatter(e, true, &s)) out_scattered(e, &s, (reduction)tpj_row(e)->variant, true);
}

static void broadcast_number(tpj_emit *e, scatter_operands *s) {
    tpj_value *value = tpj_scalar(e, "value", s->self->type.dtype);
    s->src = hlo_broadcast_in_dim(tpj_builder(e), value, s->index->type.rank, s->index->type.dims, NULL);
}

static void emit_scatter_value(tpj_emit *e) {
    scatter_operands s;
    if (!read_scatter(e, false, &s)) return;
    broadcast_number(e, &s);
    out_scattered(e, &s, REDUCE_NONE, true);
}

static bool read_reduction(tpj_emit *e, reduction *out_reduction) {
    const char *name = tpj_string(e, "reduce", "");
    *out_reduction = reduction_of(name);
    if (*out_reduction != REDUCE_UNKNOWN) return true;
    tpj_fail(e, TPJ_RUNTIME, "reduce argument must be one of the supported reductions, got %s", name);
    return false;
}

static void emit_scatter_reduce(tpj_emit *e) {
    scatter_operands s;
    reduction r;
    if (!read_reduction(e, &r) || !read_scatter(e, true, &s)) return;
    out_scattered(e, &s, r, tpj_row(e)->variant == 0 || tpj_bool(e, "include_self", true));
}

static void emit_scatter_value_reduce(tpj_emit *e) {
    scatter_operands s;
    reduction r;
    if (!read_reduction(e, &r) || !read_scatter(e, false, &s)) return;
    broadcast_number(e, &s);
    out_scattered(e, &s, r, true);
}

/* ---- whole slices: index_add, index_copy, index_fill, index_reduce ---- */

/* self, the index vector, and (with_source) the slices that it names. false: the op has failed. */
static bool read_slices(tpj_emit *e, bool with_source, scatter_operands *out) {
    tpj_hlo *h = tpj_builder(e);
    scatter_operands s = {.self = tpj_in(e, "self"), .index = tpj_in(e, "index")};
    s.dim = tpj_dim(e, "dim", s.self->type.rank);
    s.x = tpj_at_least_1d(h, s.self);
    if (s.index->type.rank > 1) {
        tpj_fail(e, TPJ_INDEX, "Index is supposed to be a vector, but got dim: %d", s.index->type.rank);
        return false;
    }
    if (s.index->type.dtype != TPJ_I64 && s.index->type.dtype != TPJ_I32) {
        tpj_fail(e, TPJ_RUNTIME, "Expected dtype int32/int64 for index");
        return false;
    }
    s.index = tpj_index_argument(e, tpj_at_least_1d(h, s.index), hlo_dim(s.x, s.dim), false);
    if (with_source) {
        s.src = tpj_in(e, "source");
        if (s.src->type.dtype != s.self->type.dtype) {
            tpj_fail(e, TPJ_RUNTIME, "self and source expected to have the same dtype, but got %s and %s",
                     tpj_dtype_name(s.self->type.dtype), tpj_dtype_name(s.src->type.dtype));
            return false;
        }
        int64_t *dims = tpj_dims_with(h, s.x, s.dim, hlo_dim(s.index, 0));
        int rank = s.x->type.rank;
        bool fits =
            hlo_elements(s.src) == tpj_product(dims, rank) && (s.src->type.rank <= 1 || s.src->type.rank == rank);
        for (int d = 0; fits && s.src->type.rank == rank && d < rank; d++) fits = hlo_dim(s.src, d) == dims[d];
        if (!fits) {
            tpj_fail(e, TPJ_RUNTIME, "source %s does not match self %s with %lld indices at dimension %d",
                     tpj_shape_text(h, s.src->type.rank, s.src->type.dims),
                     tpj_shape_text(h, s.self->type.rank, s.self->type.dims), (long long)hlo_dim(s.index, 0), s.dim);
            return false;
        }
        s.src = hlo_reshape(h, s.src, rank, dims);
    }
    *out = s;
    return true;
}

static void out_slices(tpj_emit *e, const scatter_operands *s, tpj_value *result) {
    tpj_out(e, hlo_reshape(tpj_builder(e), result, s->self->type.rank, s->self->type.dims));
}

static void emit_index_add(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    scatter_operands s;
    if (!read_slices(e, true, &s)) return;
    tpj_dtype compute = tpj_accumulate_dtype(s.self->type.dtype);
    s.src = hlo_mul(h, hlo_convert(h, s.src, compute), tpj_scalar(e, "alpha", compute));
    out_slices(e, &s, write_reduced(h, tpj_scatter_rows, REDUCE_SUM, true, s.x, s.dim, s.index, s.src));
}

static void emit_index_copy(tpj_emit *e) {
    scatter_operands s;
    if (!read_slices(e, true, &s)) return;
    out_slices(e, &s, tpj_scatter_rows(tpj_builder(e), "replace", s.x, s.dim, s.index, s.src));
}

static void emit_index_fill(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    scatter_operands s;
    if (!read_slices(e, false, &s)) return;
    tpj_dtype dtype = s.self->type.dtype;
    bool number = tpj_row(e)->variant == 0;
    tpj_value *value = number ? tpj_scalar(e, "value", dtype) : tpj_in_as(e, "value", dtype);
    if (value->type.rank != 0) {
        tpj_fail(e, TPJ_RUNTIME,
                 "index_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
                 value->type.rank);
        return;
    }
    int64_t *dims = tpj_dims_with(h, s.x, s.dim, hlo_dim(s.index, 0));
    s.src = hlo_broadcast_in_dim(h, value, s.x->type.rank, dims, NULL);
    out_slices(e, &s, tpj_scatter_rows(h, "replace", s.x, s.dim, s.index, s.src));
}

static void emit_index_reduce(tpj_emit *e) {
    scatter_operands s;
    reduction r;
    if (!read_reduction(e, &r) || !read_slices(e, true, &s)) return;
    bool include_self = tpj_bool(e, "include_self", true);
    out_slices(e, &s, write_reduced(tpj_builder(e), tpj_scatter_rows, r, include_self, s.x, s.dim, s.index, s.src));
}

/* ---- index_put and put ---- */

static void emit_index_put(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self"), *values = tpj_in(e, "values");
    int n = 0;
    tpj_value **indices = tpj_in_list(e, "indices", &n);
    tpj_dtype dtype = x->type.dtype;
    if (values->type.dtype != dtype) {
        tpj_fail(
            e, TPJ_RUNTIME,
            "Index put requires the source and destination dtypes match, got %s for the destination and %s for the "
            "source.",
            tpj_dtype_name(dtype), tpj_dtype_name(values->type.dtype));
        return;
    }
    tpj_index_plan plan;
    if (!tpj_index_plan_make(e, x, indices, n, &plan)) return;
    tpj_value *parts[] = {values, NULL};
    int rank;
    const int64_t *dims;
    parts[1] = hlo_zeros(h, dtype, plan.rank, plan.dims);
    while (values->type.rank > plan.rank && hlo_dim(values, 0) == 1) values = hlo_squeeze(h, values, 0);
    parts[0] = values;
    if (!tpj_common_shape(h, parts, 2, &rank, &dims) || rank != plan.rank ||
        tpj_product(dims, rank) != tpj_product(plan.dims, rank)) {
        tpj_fail(e, TPJ_RUNTIME,
                 "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s",
                 tpj_shape_text(h, values->type.rank, values->type.dims), tpj_shape_text(h, plan.rank, plan.dims));
        return;
    }
    if (plan.empty) {
        tpj_out(e, x);
        return;
    }
    bool accumulate = tpj_bool(e, "accumulate", false);
    tpj_dtype compute = accumulate ? tpj_accumulate_dtype(dtype) : dtype;
    hlo_gather_numbers numbers = tpj_index_plan_numbers(h, x, &plan);
    values = hlo_expand(h, hlo_convert(h, values, compute), plan.rank, plan.dims);
    tpj_value *result =
        hlo_scatter(h, accumulate ? "add" : "replace", hlo_convert(h, x, compute), plan.starts, values, &numbers);
    tpj_out_as(e, result, dtype);
}

static void emit_put(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *self = tpj_in(e, "self"), *index = tpj_in(e, "index"), *source = tpj_in(e, "source");
    if (index->type.dtype != TPJ_I64 || source->type.dtype != self->type.dtype) {
        tpj_fail(e, TPJ_RUNTIME,
                 "put_(): Expected a long tensor for index and a source of self's dtype, but got %s and %s",
                 tpj_dtype_name(index->type.dtype), tpj_dtype_name(source->type.dtype));
        return;
    }
    if (hlo_elements(index) != hlo_elements(source)) {
        tpj_fail(
            e, TPJ_RUNTIME,
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = %lld, "
            "index.numel() = %lld",
            (long long)hlo_elements(source), (long long)hlo_elements(index));
        return;
    }
    if (hlo_elements(index) > 0 && hlo_elements(self) == 0) {
        tpj_fail(e, TPJ_INDEX, "put_(): Tried to put elements into an empty tensor");
        return;
    }
    tpj_value *x = hlo_flatten(h, self);
    index = tpj_index_argument(e, hlo_flatten(h, index), hlo_dim(x, 0), true);
    reduction r = tpj_bool(e, "accumulate", false) ? REDUCE_SUM : REDUCE_NONE;
    tpj_value *src = hlo_flatten(h, source);
    tpj_value *result = r == REDUCE_NONE ? tpj_scatter_rows(h, "replace", x, 0, index, src)
                                         : write_reduced(h, tpj_scatter_rows, r, true, x, 0, index, src);
    tpj_out(e, hlo_reshape(h, result, self->type.rank, self->type.dims));
}

/* ---- masks ---- */

static bool read_mask(tpj_emit *e, tpj_value **out_mask) {
    *out_mask = tpj_in(e, "mask");
    if ((*out_mask)->type.dtype == TPJ_BOOL) return true;
    tpj_fail(e, TPJ_RUNTIME, "expected mask dtype to be Bool but got %s", tpj_dtype_name((*out_mask)->type.dtype));
    return false;
}

static void emit_masked_fill(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self"), *mask;
    if (!read_mask(e, &mask)) return;
    tpj_dtype dtype = x->type.dtype;
    bool number = tpj_row(e)->variant == 0;
    tpj_dtype given = number ? tpj_scalar_dtype(e, "value") : tpj_in_type(e, "value").dtype;
    if (!tpj_dtype_is_complex(dtype) && tpj_dtype_is_complex(given)) {
        tpj_fail(e, TPJ_RUNTIME, "value cannot be converted to type %s without overflow", tpj_dtype_name(dtype));
        return;
    }
    tpj_value *value = number ? tpj_scalar(e, "value", dtype) : tpj_in_as(e, "value", dtype);
    if (value->type.rank != 0) {
        tpj_fail(e, TPJ_RUNTIME,
                 "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
                 value->type.rank);
        return;
    }
    hlo_expand_together(h, &x, &mask);
    tpj_out(e, hlo_select(h, mask, value, x));
}

static void emit_masked_scatter(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self"), *source = hlo_flatten(h, tpj_in(e, "source")), *mask;
    if (!read_mask(e, &mask)) return;
    if (source->type.dtype != x->type.dtype) {
        tpj_fail(e, TPJ_RUNTIME, "masked_scatter: expected self and source to have same dtypes but got %s and %s",
                 tpj_dtype_name(x->type.dtype), tpj_dtype_name(source->type.dtype));
        return;
    }
    hlo_expand_together(h, &x, &mask);
    int64_t n = hlo_dim(source, 0);
    if (n == 0 || hlo_elements(x) == 0) {
        tpj_out(e, x);
        return;
    }
    tpj_value *flat = hlo_flatten(h, mask), *at = tpj_mask_positions(h, flat, n - 1);
    tpj_check(e, hlo_compare(h, "GT", tpj_mask_count(h, flat), hlo_integer(h, TPJ_I64, n)),
              "masked_scatter: Number of elements of source < number of ones in mask");
    at = hlo_min(h, at, hlo_integer(h, at->type.dtype, n - 1));
    tpj_value *taken = hlo_reshape(h, hlo_take(h, source, at, 0), x->type.rank, x->type.dims);
    tpj_out(e, hlo_select(h, mask, taken, x));
}

/* The gradient of masked_scatter's source: the masked gradients in front, zeros behind. */
static void emit_masked_scatter_backward(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *grad = tpj_in(e, "grad_output"), *mask = tpj_in_as(e, "mask", TPJ_BOOL);
    int rank = 0;
    const int64_t *sizes = tpj_ints(e, "sizes", &rank);
    hlo_expand_together(h, &grad, &mask);
    tpj_value *front = tpj_compact(h, hlo_flatten(h, mask), hlo_flatten(h, grad), tpj_product(sizes, rank),
                                   hlo_number(h, grad->type.dtype, 0));
    tpj_out(e, hlo_reshape(h, front, rank, sizes));
}

const tpj_op_def tpj_ops_scatter[] = {
    {.name = "scatter.src", .params = "T self, I dim, T index, T src", .emit = emit_scatter, .variant = REDUCE_NONE},
    {.name = "scatter_add", .params = "T self, I dim, T index, T src", .emit = emit_scatter, .variant = REDUCE_SUM},
    {.name = "scatter.value", .params = "T self, I dim, T index, S value", .emit = emit_scatter_value},
    {.name = "scatter.reduce", .params = "T self, I dim, T index, T src, Str reduce", .emit = emit_scatter_reduce},
    {.name = "scatter.value_reduce",
     .params = "T self, I dim, T index, S value, Str reduce",
     .emit = emit_scatter_value_reduce},
    {.name = "scatter_reduce.two",
     .params = "T self, I dim, T index, T src, Str reduce, B include_self=True",
     .emit = emit_scatter_reduce,
     .variant = 1},
    {.name = "index_add", .params = "T self, I dim, T index, T source, S alpha=1", .emit = emit_index_add},
    {.name = "index_copy", .params = "T self, I dim, T index, T source", .emit = emit_index_copy},
    {.name = "index_fill.int_Scalar",
     .params = "T self, I dim, T index, S value",
     .emit = emit_index_fill,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "index_fill.int_Tensor",
     .params = "T self, I dim, T index, T value",
     .emit = emit_index_fill,
     .layout = TPJ_LAYOUT_SELF,
     .variant = 1},
    {.name = "index_reduce",
     .params = "T self, I dim, T index, T source, Str reduce, B include_self=True",
     .emit = emit_index_reduce},
    {.name = "index_put",
     .params = "T self, T?[] indices, T values, B accumulate=False",
     .emit = emit_index_put,
     .flags = TPJ_OP_FLOAT8,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "_index_put_impl",
     .params = "T self, T?[] indices, T values, B accumulate=False",
     .emit = emit_index_put,
     .flags = TPJ_OP_FLOAT8,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "_unsafe_index_put",
     .params = "T self, T?[] indices, T values, B accumulate=False",
     .emit = emit_index_put,
     .flags = TPJ_OP_FLOAT8,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "put",
     .params = "T self, T index, T source, B accumulate=False",
     .emit = emit_put,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "masked_fill.Scalar", .params = "T self, T mask, S value", .emit = emit_masked_fill},
    {.name = "masked_fill.Tensor", .params = "T self, T mask, T value", .emit = emit_masked_fill, .variant = 1},
    {.name = "masked_scatter", .params = "T self, T mask, T source", .emit = emit_masked_scatter},
    {.name = "masked_scatter_backward",
     .params = "T grad_output, T mask, I[] sizes",
     .emit = emit_masked_scatter_backward},
    {0},
};
