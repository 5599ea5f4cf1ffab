/* Writing through a view of fixed shape: the *_scatter ops, and the gradients of views, which write into zeros. */
#include "ops/indexing.h"

/* ---- what is written into: self, or zeros of input_sizes ---- */

static tpj_value *zeros_of_input(tpj_emit *e, tpj_dtype dtype) {
    int rank = 0;
    const int64_t *sizes = tpj_ints(e, "input_sizes", &rank);
    return hlo_zeros(tpj_builder(e), dtype, rank, sizes);
}

enum { INTO_SELF, INTO_ZEROS };

/* The target and what goes into it (src in target's dtype). */
static void read_write(tpj_emit *e, tpj_value **out_target, tpj_value **out_src) {
    tpj_hlo *h = tpj_builder(e);
    bool backward = tpj_row(e)->variant == INTO_ZEROS;
    tpj_value *src = tpj_in(e, backward ? "grad_output" : "src");
    *out_target = backward ? zeros_of_input(e, src->type.dtype) : tpj_in(e, "self");
    *out_src = hlo_convert(h, src, (*out_target)->type.dtype);
}

/* src has the view's dims; a *_scatter fails otherwise. */
static bool same_shape(tpj_emit *e, const tpj_value *src, int rank, const int64_t *dims) {
    tpj_hlo *h = tpj_builder(e);
    bool same = src->type.rank == rank;
    for (int d = 0; same && d < rank; d++) same = src->type.dims[d] == dims[d];
    if (same) return true;
    tpj_fail(e, TPJ_RUNTIME, "expected src to have a size equal to the slice of self. src size = %s, slice size = %s",
             tpj_shape_text(h, src->type.rank, src->type.dims), tpj_shape_text(h, rank, dims));
    return false;
}

/* The target with src, `step` apart, from a position of `dim` that is given at run time and may be negative. */
static void write_at(tpj_emit *e, tpj_value *target, tpj_value *src, int dim, const char *name, int64_t step) {
    tpj_hlo *h = tpj_builder(e);
    int rank = target->type.rank;
    int64_t size = hlo_dim(target, dim), *interior = hlo_dims(h, rank), *zeros = hlo_dims(h, rank);
    tpj_dtype dtype = tpj_index_dtype(size);
    tpj_value **starts = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, rank), *start = tpj_scalar(e, name, dtype);
    if (starts == NULL || interior == NULL || zeros == NULL) return;
    if (step > 1 && tpj_row(e)->variant == INTO_SELF) {
        tpj_fail(e, TPJ_NOT_IMPLEMENTED, "a slice with steps needs a start that is known");
        return;
    }
    interior[dim] = step - 1;
    if (step > 1) src = hlo_pad(h, src, hlo_number(h, src->type.dtype, 0), zeros, zeros, interior);
    tpj_value *wrapped = hlo_add(h, start, hlo_integer(h, dtype, size));
    for (int d = 0; d < rank; d++) starts[d] = hlo_integer(h, dtype, 0);
    starts[dim] = hlo_select(h, hlo_compare(h, "LT", start, starts[dim]), wrapped, start);
    tpj_out(e, hlo_dynamic_update_slice(h, target, src, starts)); /* which clamps the start as a slice does */
}

static void emit_slice_write(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *target, *src;
    read_write(e, &target, &src);
    int dim = tpj_dim(e, "dim", target->type.rank), rank = target->type.rank;
    if (rank == 0) {
        tpj_fail(e, TPJ_RUNTIME, "slice() cannot be applied to a 0-dim tensor.");
        return;
    }
    int64_t step = tpj_int(e, "step", 1), size = hlo_dim(target, dim);
    if (step <= 0) {
        tpj_fail(e, TPJ_RUNTIME, "slice step must be positive");
        return;
    }
    if (tpj_has(e, "start") && !tpj_is_constant(e, "start")) {
        int64_t n = src->type.rank == rank ? hlo_dim(src, dim) : 0;
        if (same_shape(e, src, rank, tpj_dims_with(h, target, dim, n))) write_at(e, target, src, dim, "start", step);
        return;
    }
    int64_t start = tpj_int(e, "start", 0), end = tpj_int(e, "end", size);
    int64_t n = tpj_slice_bounds(&start, &end, step, size);
    if (!same_shape(e, src, rank, tpj_dims_with(h, target, dim, n))) return;
    if (tpj_row(e)->variant == INTO_ZEROS && n > 0) { /* one pad, for XLA to fuse */
        int64_t *low = hlo_dims(h, rank), *high = hlo_dims(h, rank), *interior = hlo_dims(h, rank);
        low[dim] = start;
        interior[dim] = step - 1;
        high[dim] = size - (start + (n - 1) * step + 1);
        tpj_out(e, hlo_pad(h, src, hlo_number(h, src->type.dtype, 0), low, high, interior));
        return;
    }
    tpj_out(e, tpj_write_slice(h, target, src, dim, start, step));
}

static void emit_select_write(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *target, *src;
    read_write(e, &target, &src);
    int rank = target->type.rank, dim = tpj_dim(e, "dim", rank);
    if (rank == 0) {
        tpj_fail(e, TPJ_INDEX, "select() cannot be applied to a 0-dim tensor.");
        return;
    }
    int64_t size = hlo_dim(target, dim), *dims = hlo_dims(h, rank);
    for (int d = 0, k = 0; d < rank; d++) {
        if (d != dim) dims[k++] = target->type.dims[d];
    }
    if (!same_shape(e, src, rank - 1, dims)) return;
    src = hlo_unsqueeze(h, src, dim);
    if (!tpj_is_constant(e, "index")) {
        tpj_require_index(e, "index", size, "select(): index out of range: ");
        write_at(e, target, src, dim, "index", 1);
        return;
    }
    int64_t index = tpj_int(e, "index", 0);
    if (index < -size || index >= size) {
        tpj_fail(e, TPJ_INDEX, "select(): index %lld out of range for tensor of size %lld at dimension %d",
                 (long long)index, (long long)size, dim);
        return;
    }
    if (index < 0) index += size;
    if (tpj_row(e)->variant == INTO_ZEROS) {
        tpj_out(e, hlo_pad_dim(h, src, hlo_number(h, src->type.dtype, 0), dim, index, size - 1 - index));
        return;
    }
    tpj_out(e, tpj_write_slice(h, target, src, dim, index, 1));
}

static void emit_diagonal_write(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *target, *src;
    read_write(e, &target, &src);
    tpj_diagonal d;
    if (!tpj_diagonal_read(e, target, &d)) return;
    int last = d.flat->type.rank - 1;
    if (!same_shape(e, src, last + 1, tpj_dims_with(h, d.flat, last, d.length))) return;
    tpj_value *flat;
    if (tpj_row(e)->variant == INTO_ZEROS && d.length > 0) {
        int64_t *low = hlo_dims(h, last + 1), *high = hlo_dims(h, last + 1), *interior = hlo_dims(h, last + 1);
        low[last] = d.start;
        interior[last] = d.step - 1;
        high[last] = hlo_dim(d.flat, last) - (d.start + (d.length - 1) * d.step + 1);
        flat = hlo_pad(h, src, hlo_number(h, src->type.dtype, 0), low, high, interior);
    } else {
        flat = tpj_write_slice(h, d.flat, src, last, d.start, d.step);
    }
    tpj_out(e, tpj_diagonal_restore(h, &d, target->type.rank, flat));
}

/* Self counts as contiguous, as in as_strided. */
static void emit_as_strided_scatter(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self"), *src = tpj_in_as(e, "src", x->type.dtype);
    int rank = 0, n_strides = 0;
    const int64_t *sizes = tpj_ints(e, "size", &rank), *strides = tpj_ints(e, "stride", &n_strides);
    if (n_strides != rank || !same_shape(e, src, rank, sizes)) {
        tpj_fail(e, TPJ_RUNTIME, "mismatch in length of strides and shape");
        return;
    }
    if (tpj_product(sizes, rank) == 0) {
        tpj_out(e, x);
        return;
    }
    int64_t offset = tpj_int(e, "storage_offset", 0), n = hlo_elements(x), last = offset;
    tpj_dtype dtype = tpj_index_dtype(n);
    tpj_value *at = hlo_broadcast_in_dim(h, hlo_integer(h, dtype, offset), rank, sizes, NULL);
    for (int d = 0; d < rank; d++) {
        last += (sizes[d] - 1) * strides[d];
        at = hlo_add(h, at, hlo_mul(h, hlo_iota(h, dtype, rank, sizes, d), hlo_integer(h, dtype, strides[d])));
    }
    if (offset < 0 || last >= n) {
        tpj_fail(e, TPJ_RUNTIME,
                 "setStorage: sizes %s, strides %s, storage offset %lld are out of bounds for %lld elements",
                 tpj_shape_text(h, rank, sizes), tpj_shape_text(h, rank, strides), (long long)offset, (long long)n);
        return;
    }
    tpj_value *flat = tpj_scatter_rows(h, "replace", hlo_flatten(h, x), 0, hlo_flatten(h, at), hlo_flatten(h, src));
    tpj_out(e, hlo_reshape(h, flat, x->type.rank, x->type.dims));
}

/* Windows that do not overlap: each is filled up to the step, and they lie one behind the other. x: [.., n, size]. */
static tpj_value *join_windows(tpj_hlo *h, tpj_value *x, int64_t step, int64_t length) {
    int rank = x->type.rank, window = rank - 2;
    int64_t n = hlo_dim(x, window), size = hlo_dim(x, -1);
    tpj_value *zero = hlo_number(h, x->type.dtype, 0);
    int64_t *dims = tpj_dims_with(h, x, window, n * step);
    tpj_value *line = hlo_reshape(h, hlo_pad_dim(h, x, zero, rank - 1, 0, step - size), rank - 1, dims);
    return hlo_pad_dim(h, line, zero, window, 0, length - n * step); /* crops when the last window is cut short */
}

/* The adjoint of unfold: what windows share is added up. */
static void emit_unfold_backward(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int rank = 0;
    const int64_t *sizes = tpj_ints(e, "input_sizes", &rank);
    tpj_dtype dtype = tpj_in_type(e, "grad_in").dtype;
    tpj_value *grad = tpj_in_as(e, "grad_in", tpj_accumulate_dtype(dtype));
    int dim = tpj_dim(e, "dim", rank);
    int64_t size = tpj_int(e, "size", 1), step = tpj_int(e, "step", 1), length = rank > 0 ? sizes[dim] : 1;
    if (hlo_elements(grad) == 0 || rank == 0) {
        tpj_value *zeros = hlo_zeros(h, dtype, rank, sizes);
        tpj_out(e, rank == 0 && hlo_elements(grad) > 0 ? hlo_reshape(h, hlo_convert(h, grad, dtype), 0, NULL) : zeros);
        return;
    }
    /* the window's elements beside the windows, both behind the other dimensions: [.., n, size] */
    int64_t *behind = hlo_dims(h, rank + 1), *back = hlo_dims(h, rank);
    for (int d = 0, k = 0; d < rank; d++) {
        if (d != dim) behind[k++] = d;
        back[d] = d < dim ? d : d == dim ? rank - 1 : d - 1;
    }
    behind[rank - 1] = dim;
    behind[rank] = rank;
    tpj_value *windows = hlo_transpose(h, grad, behind), *line;
    if (step >= size) {
        line = join_windows(h, windows, step, length);
    } else {
        int64_t n = hlo_dim(windows, -2), cells[] = {n, size};
        tpj_value *at = hlo_mul(h, hlo_iota(h, TPJ_I32, 2, cells, 0), hlo_integer(h, TPJ_I32, step));
        at = hlo_flatten(h, hlo_add(h, at, hlo_iota(h, TPJ_I32, 2, cells, 1)));
        tpj_value *src = hlo_reshape(h, windows, rank, tpj_dims_with(h, windows, rank - 1, n * size));
        tpj_value *zeros = hlo_zeros(h, windows->type.dtype, rank, tpj_dims_with(h, windows, rank - 1, length));
        line = tpj_scatter_rows(h, "add", zeros, rank - 1, at, src);
    }
    tpj_out_as(e, hlo_transpose(h, line, back), dtype);
}

const tpj_op_def tpj_ops_view_write[] = {
    {.name = "slice_scatter",
     .params = "T self, T src, I dim=0, I? start=None, I? end=None, I step=1",
     .emit = emit_slice_write,
     .variant = INTO_SELF,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "select_scatter",
     .params = "T self, T src, I dim, I~ index",
     .emit = emit_select_write,
     .variant = INTO_SELF,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "diagonal_scatter",
     .params = "T self, T src, I offset=0, I dim1=0, I dim2=1",
     .emit = emit_diagonal_write,
     .variant = INTO_SELF,
     .layout = TPJ_LAYOUT_SELF},
    {.name = "as_strided_scatter",
     .params = "T self, T src, I[] size, I[] stride, I? storage_offset=None",
     .emit = emit_as_strided_scatter},
    {.name = "slice_backward",
     .params = "T grad_output, I[] input_sizes, I dim, I~ start, I~ end, I step",
     .emit = emit_slice_write,
     .variant = INTO_ZEROS},
    {.name = "select_backward",
     .params = "T grad_output, I[] input_sizes, I dim, I~ index",
     .emit = emit_select_write,
     .variant = INTO_ZEROS},
    {.name = "diagonal_backward",
     .params = "T grad_output, I[] input_sizes, I offset, I dim1, I dim2",
     .emit = emit_diagonal_write,
     .variant = INTO_ZEROS},
    {.name = "unfold_backward",
     .params = "T grad_in, I[] input_sizes, I dim, I size, I step",
     .emit = emit_unfold_backward},
    {0},
};
