/* Views as functions of their values. Eager mode folds views into their consumers and never runs these rows; compiled
 * graphs and decompositions name them. */
#include "ops/indexing.h"

/* ---- reshapes ---- */

/* A size list with at most one -1, for n elements. NULL: the op has failed. */
static const int64_t *infer_size(tpj_emit *e, const int64_t *sizes, int rank, int64_t n) {
    tpj_hlo *h = tpj_builder(e);
    int64_t *dims = hlo_dims(h, rank), known = 1;
    int unknown = -1;
    for (int d = 0; d < rank; d++) {
        dims[d] = sizes[d];
        if (sizes[d] == -1 && unknown < 0) {
            unknown = d;
        } else {
            known *= sizes[d];
        }
    }
    if (unknown >= 0 && known > 0) dims[unknown] = n / known;
    if (known >= 0 && tpj_product(dims, rank) == n) return dims;
    tpj_fail(e, TPJ_RUNTIME, "shape '%s' is invalid for input of size %lld", tpj_shape_text(h, rank, sizes),
             (long long)n);
    return NULL;
}

static void emit_view(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self");
    int rank = 0;
    const int64_t *sizes = tpj_ints(e, "size", &rank);
    const int64_t *dims = infer_size(e, sizes, rank, hlo_elements(x));
    if (dims != NULL) tpj_out(e, hlo_reshape(tpj_builder(e), x, rank, dims));
}

static void emit_self(tpj_emit *e) { tpj_out(e, tpj_in(e, "self")); }
static void emit_conj(tpj_emit *e) { tpj_out(e, hlo_conj(tpj_builder(e), tpj_in(e, "self"))); }
static void emit_neg(tpj_emit *e) { tpj_out(e, hlo_neg(tpj_builder(e), tpj_in(e, "self"))); }

/* A complex value as real ones in a new last dimension [re, im], and back. */
static tpj_value *complex_to_pairs(tpj_hlo *h, tpj_value *x) {
    int rank = x->type.rank;
    tpj_value *parts[] = {hlo_unsqueeze(h, hlo_real(h, x), rank), hlo_unsqueeze(h, hlo_imag(h, x), rank)};
    return hlo_concatenate(h, parts, 2, rank);
}

static tpj_value *pairs_to_complex(tpj_hlo *h, tpj_value *x) {
    int last = x->type.rank - 1;
    tpj_value *parts[2];
    for (int i = 0; i < 2; i++) parts[i] = hlo_squeeze(h, hlo_slice_dim(h, x, last, i, i + 1, 1), last);
    return hlo_complex(h, parts[0], parts[1]);
}

static void emit_view_as_real(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self");
    if (!tpj_dtype_is_complex(x->type.dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "view_as_real is only supported for complex tensors");
        return;
    }
    tpj_out(e, complex_to_pairs(tpj_builder(e), x));
}

static void emit_view_as_complex(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self");
    if (x->type.rank == 0 || hlo_dim(x, -1) != 2) {
        tpj_fail(e, TPJ_RUNTIME, "Tensor must have a last dimension of size 2");
        return;
    }
    tpj_out(e, pairs_to_complex(tpj_builder(e), x));
}

/* The last dimension in pieces of `n` / the last two dimensions as one. */
static tpj_value *split_last(tpj_hlo *h, tpj_value *x, int64_t n) {
    int rank = x->type.rank;
    int64_t *dims = hlo_dims(h, rank + 1);
    for (int d = 0; d < rank; d++) dims[d] = x->type.dims[d];
    dims[rank - 1] /= n;
    dims[rank] = n;
    return hlo_reshape(h, x, rank + 1, dims);
}

static tpj_value *merge_last(tpj_hlo *h, tpj_value *x) {
    int rank = x->type.rank;
    int64_t *dims = tpj_dims_with(h, x, rank - 2, hlo_dim(x, -1) * hlo_dim(x, -2));
    return hlo_reshape(h, x, rank - 1, dims);
}

/* bool is a byte of 0 or 1 to PyTorch. */
static tpj_dtype stored_dtype(tpj_dtype dtype) { return dtype == TPJ_BOOL ? TPJ_U8 : hlo_real_dtype(dtype); }

static void emit_view_dtype(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    tpj_dtype from = x->type.dtype, to = tpj_dtype_of(e, "dtype", from);
    int64_t from_bytes = (int64_t)tpj_dtype_bytes(from), to_bytes = (int64_t)tpj_dtype_bytes(to);
    if (from == to) {
        tpj_out(e, x);
        return;
    }
    if (from_bytes != to_bytes && x->type.rank == 0) {
        tpj_fail(e, TPJ_RUNTIME, "self.dim() cannot be 0 to view %s as %s (different element sizes)",
                 tpj_dtype_name(from), tpj_dtype_name(to));
        return;
    }
    if (from_bytes < to_bytes && hlo_dim(x, -1) % (to_bytes / from_bytes) != 0) {
        tpj_fail(e, TPJ_RUNTIME, "self.size(-1) must be divisible by %lld to view %s as %s (different element sizes)",
                 (long long)(to_bytes / from_bytes), tpj_dtype_name(from), tpj_dtype_name(to));
        return;
    }
    bool scalar = x->type.rank == 0;
    x = tpj_at_least_1d(h, x);
    if (tpj_dtype_is_complex(from)) x = merge_last(h, complex_to_pairs(h, x));
    if (from == TPJ_BOOL) x = hlo_convert(h, x, TPJ_U8);
    tpj_dtype target = stored_dtype(to);
    int64_t now = (int64_t)tpj_dtype_bytes(x->type.dtype), then = (int64_t)tpj_dtype_bytes(target);
    if (now < then) x = split_last(h, x, then / now);
    x = hlo_bitcast(h, x, target);
    if (now > then) x = merge_last(h, x);
    if (tpj_dtype_is_complex(to)) x = pairs_to_complex(h, split_last(h, x, 2));
    if (to == TPJ_BOOL) x = hlo_convert(h, x, TPJ_BOOL);
    tpj_out(e, scalar ? hlo_reshape(h, x, 0, NULL) : x);
}

/* ---- dimensions ---- */

static void emit_permute(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int n = 0, rank = x->type.rank, n_distinct = 0;
    const int64_t *dims = tpj_ints(e, "dims", &n);
    if (n != rank) {
        tpj_fail(
            e, TPJ_RUNTIME,
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            "ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %d",
            rank, n);
        return;
    }
    tpj_dims(e, "dims", rank, &n_distinct); /* range and repeats */
    int64_t *permutation = hlo_dims(h, rank);
    for (int d = 0; d < rank && !hlo_failed(h); d++) permutation[d] = dims[d] < 0 ? dims[d] + rank : dims[d];
    if (!hlo_failed(h)) tpj_out(e, hlo_transpose(h, x, permutation));
}

static void emit_transpose(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self");
    int a = tpj_dim(e, "dim0", x->type.rank), b = tpj_dim(e, "dim1", x->type.rank);
    tpj_out(e, x->type.rank == 0 || a == b ? x : hlo_swap(tpj_builder(e), x, a, b));
}

static void emit_t(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self");
    if (x->type.rank > 2) {
        tpj_fail(e, TPJ_RUNTIME, "t() expects a tensor with <= 2 dimensions, but self is %dD", x->type.rank);
        return;
    }
    tpj_out(e, x->type.rank == 2 ? hlo_swap(tpj_builder(e), x, 0, 1) : x);
}

static void emit_expand(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int rank = 0, own = x->type.rank;
    const int64_t *sizes = tpj_ints(e, "size", &rank);
    if (rank < own) {
        tpj_fail(
            e, TPJ_RUNTIME,
            "expand: the number of sizes provided (%d) must be greater or equal to the number of dimensions in the "
            "tensor (%d)",
            rank, own);
        return;
    }
    int64_t *dims = hlo_dims(h, rank);
    for (int d = 0; d < rank; d++) {
        int64_t size = d >= rank - own ? x->type.dims[d - (rank - own)] : 1;
        dims[d] = sizes[d] == -1 && d >= rank - own ? size : sizes[d];
        if (dims[d] >= 0 && (dims[d] == size || size == 1)) continue;
        tpj_fail(
            e, TPJ_RUNTIME,
            "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton dimension %d.",
            (long long)dims[d], (long long)size, d);
        return;
    }
    tpj_out(e, hlo_expand(h, x, rank, dims));
}

static void emit_unsqueeze(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self");
    tpj_out(e, hlo_unsqueeze(tpj_builder(e), x, tpj_dim(e, "dim", x->type.rank + 1)));
}

enum { SQUEEZE_ALL, SQUEEZE_DIM, SQUEEZE_DIMS };

static void emit_squeeze(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int rank = x->type.rank, form = tpj_row(e)->variant, n = 0, kept = 0, n_named = 0;
    const int64_t *chosen = NULL;
    int64_t one = form == SQUEEZE_DIM ? tpj_dim(e, "dim", rank) : 0, *dims = hlo_dims(h, rank);
    if (form == SQUEEZE_DIM) chosen = &one, n = 1;
    if (form == SQUEEZE_DIMS) {
        tpj_ints(e, "dim", &n_named);
        chosen = tpj_dims(e, "dim", rank, &n);
        if (n_named == 0) n = 0; /* squeeze(dim=()) removes nothing */
    }
    for (int d = 0, k = 0; d < rank; d++) {
        bool named = form == SQUEEZE_ALL || (k < n && chosen[k] == d);
        if (form != SQUEEZE_ALL && named) k++;
        if (!named || x->type.dims[d] != 1) dims[kept++] = x->type.dims[d];
    }
    tpj_out(e, hlo_reshape(h, x, kept, dims));
}

/* ---- parts ---- */

static void emit_slice(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self");
    if (x->type.rank == 0) {
        tpj_fail(e, TPJ_RUNTIME, "slice() cannot be applied to a 0-dim tensor.");
        return;
    }
    int dim = tpj_dim(e, "dim", x->type.rank);
    int64_t size = hlo_dim(x, dim), start = tpj_int(e, "start", 0), end = tpj_int(e, "end", size);
    int64_t step = tpj_int(e, "step", 1);
    if (step <= 0) {
        tpj_fail(e, TPJ_RUNTIME, "slice step must be positive");
        return;
    }
    tpj_slice_bounds(&start, &end, step, size);
    tpj_out(e, hlo_slice_dim(tpj_builder(e), x, dim, start, end, step));
}

static void emit_narrow_copy(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self");
    if (x->type.rank == 0) {
        tpj_fail(e, TPJ_RUNTIME, "narrow() cannot be applied to a 0-dim tensor.");
        return;
    }
    int dim = tpj_dim(e, "dim", x->type.rank);
    int64_t size = hlo_dim(x, dim), start = tpj_int(e, "start", 0), length = tpj_int(e, "length", 0);
    if (start < -size || start > size) {
        tpj_fail(e, TPJ_INDEX, "start out of range (expected to be in range of [%lld, %lld], but got %lld)",
                 (long long)-size, (long long)size, (long long)start);
        return;
    }
    if (start < 0) start += size;
    if (length < 0 || start < 0 || start + length > size) {
        tpj_fail(e, TPJ_RUNTIME, "start (%lld) + length (%lld) exceeds dimension size (%lld).", (long long)start,
                 (long long)length, (long long)size);
        return;
    }
    tpj_out(e, hlo_slice_dim(tpj_builder(e), x, dim, start, start + length, 1));
}

static tpj_value *select_at(tpj_hlo *h, tpj_value *x, int dim, int64_t index) {
    return hlo_squeeze(h, hlo_slice_dim(h, x, dim, index, index + 1, 1), dim);
}

static void emit_select(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self");
    if (x->type.rank == 0) {
        tpj_fail(e, TPJ_INDEX, "select() cannot be applied to a 0-dim tensor.");
        return;
    }
    int dim = tpj_dim(e, "dim", x->type.rank);
    int64_t size = hlo_dim(x, dim), index = tpj_int(e, "index", 0);
    if (index < -size || index >= size) {
        tpj_fail(e, TPJ_INDEX, "select(): index %lld out of range for tensor of size %s at dimension %d",
                 (long long)index, tpj_shape_text(tpj_builder(e), x->type.rank, x->type.dims), dim);
        return;
    }
    tpj_out(e, select_at(tpj_builder(e), x, dim, index < 0 ? index + size : index));
}

static void emit_unbind(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self");
    int dim = tpj_dim(e, "dim", x->type.rank);
    if (x->type.rank == 0) {
        tpj_fail(e, TPJ_INDEX, "Dimension specified as 0 but tensor has no dimensions");
        return;
    }
    for (int64_t i = 0; i < hlo_dim(x, dim); i++) tpj_out(e, select_at(tpj_builder(e), x, dim, i));
}

static void emit_split(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int dim = tpj_dim(e, "dim", x->type.rank);
    int64_t piece = tpj_int(e, "split_size", 0), size = x->type.rank > 0 ? hlo_dim(x, dim) : 0;
    if (x->type.rank == 0 || piece < 0 || (piece == 0 && size != 0)) {
        tpj_fail(e, TPJ_RUNTIME, "split expects split_size be non-negative, and at least a 1-dimensional tensor");
        return;
    }
    if (size == 0) tpj_out(e, x);
    for (int64_t at = 0; at < size; at += piece) {
        tpj_out(e, hlo_slice_dim(h, x, dim, at, at + piece < size ? at + piece : size, 1));
    }
}

static void emit_split_with_sizes(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int n = 0, dim = tpj_dim(e, "dim", x->type.rank);
    const int64_t *sizes = tpj_ints(e, "split_sizes", &n);
    int64_t size = x->type.rank > 0 ? hlo_dim(x, dim) : 0, sum = 0;
    for (int i = 0; i < n; i++) sum = sizes[i] < 0 || sum < 0 ? -1 : sum + sizes[i];
    if (x->type.rank == 0 || sum != size) {
        tpj_fail(e, TPJ_RUNTIME,
                 "split_with_sizes expects split_sizes to sum exactly to %lld (input tensor's size at dimension %d), "
                 "but got "
                 "split_sizes=%s",
                 (long long)size, dim, tpj_shape_text(h, n, sizes));
        return;
    }
    for (int64_t i = 0, at = 0; i < n; at += sizes[i++]) tpj_out(e, hlo_slice_dim(h, x, dim, at, at + sizes[i], 1));
}

static void emit_diagonal(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_diagonal d;
    if (!tpj_diagonal_read(e, tpj_in(e, "self"), &d)) return;
    int last = d.flat->type.rank - 1;
    int64_t limit = d.length > 0 ? d.start + (d.length - 1) * d.step + 1 : d.start;
    tpj_out(e, hlo_slice_dim(h, d.flat, last, d.start, limit, d.step));
}

/* Windows of `size` along a dimension, `step` apart: their elements become a new last dimension. */
static void emit_unfold(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *self = tpj_in(e, "self"), *x = tpj_at_least_1d(h, self);
    int dim = tpj_dim(e, "dimension", self->type.rank), rank = x->type.rank;
    int64_t size = tpj_int(e, "size", 1), step = tpj_int(e, "step", 1), length = hlo_dim(x, dim);
    if (size < 0 || size > length || step <= 0) {
        tpj_fail(e, TPJ_RUNTIME, "maximum size for tensor at dimension %d is %lld but size is %lld, step %lld", dim,
                 (long long)length, (long long)size, (long long)step);
        return;
    }
    int64_t n = (length - size) / step + 1;
    tpj_value *windows; /* [.., n, size, ..] */
    if (step == size && size > 0) {
        int64_t *dims = hlo_dims(h, rank + 1);
        for (int d = 0; d <= rank; d++)
            dims[d] = d < dim ? x->type.dims[d] : d == dim ? n : d == dim + 1 ? size : x->type.dims[d - 1];
        windows = hlo_reshape(h, hlo_slice_dim(h, x, dim, 0, n * size, 1), rank + 1, dims);
    } else {
        int64_t dims[] = {n, size};
        tpj_value *first = hlo_mul(h, hlo_iota(h, TPJ_I32, 2, dims, 0), hlo_integer(h, TPJ_I32, step));
        windows = hlo_take(h, x, hlo_add(h, first, hlo_iota(h, TPJ_I32, 2, dims, 1)), dim);
    }
    int64_t *permutation = hlo_dims(h, rank + 1);
    for (int d = 0; d < rank; d++) permutation[d] = d <= dim ? d : d + 1;
    permutation[rank] = dim + 1;
    tpj_value *result = hlo_transpose(h, windows, permutation);
    tpj_out(e, self->type.rank == 0 ? hlo_reshape(h, result, 1, &size) : result);
}

/* Self counts as the contiguous tensor of its shape, at offset 0: what a graph knows of strides. */
static void emit_as_strided(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = hlo_flatten(h, tpj_in(e, "self"));
    int rank = 0, n_strides = 0;
    const int64_t *sizes = tpj_ints(e, "size", &rank), *strides = tpj_ints(e, "stride", &n_strides);
    int64_t offset = tpj_int(e, "storage_offset", 0), n = hlo_dim(x, 0), last = offset, dense = 1;
    if (n_strides != rank) {
        tpj_fail(e, TPJ_RUNTIME, "mismatch in length of strides and shape");
        return;
    }
    bool contiguous = true, empty = tpj_product(sizes, rank) == 0;
    for (int d = rank - 1; d >= 0; d--) {
        last += (sizes[d] - 1) * strides[d];
        contiguous = contiguous && (sizes[d] == 1 || strides[d] == dense);
        dense *= sizes[d];
    }
    if (empty) {
        tpj_out(e, hlo_zeros(h, x->type.dtype, rank, sizes));
        return;
    }
    if (offset < 0 || last >= n) {
        tpj_fail(e, TPJ_RUNTIME,
                 "setStorage: sizes %s, strides %s, storage offset %lld are out of bounds for %lld elements",
                 tpj_shape_text(h, rank, sizes), tpj_shape_text(h, rank, strides), (long long)offset, (long long)n);
        return;
    }
    if (contiguous) {
        tpj_out(e, hlo_reshape(h, hlo_slice_dim(h, x, 0, offset, offset + dense, 1), rank, sizes));
        return;
    }
    tpj_dtype dtype = tpj_index_dtype(n);
    tpj_value *at = hlo_broadcast_in_dim(h, hlo_integer(h, dtype, offset), rank, sizes, NULL);
    for (int d = 0; d < rank; d++) {
        if (sizes[d] == 1 || strides[d] == 0) continue;
        at = hlo_add(h, at, hlo_mul(h, hlo_iota(h, dtype, rank, sizes, d), hlo_integer(h, dtype, strides[d])));
    }
    tpj_out(e, hlo_take(h, x, at, 0));
}

const tpj_op_def tpj_ops_view[] = {
    {.name = "view", .params = "T self, I[] size", .emit = emit_view},
    {.name = "_unsafe_view", .params = "T self, I[] size", .emit = emit_view},
    {.name = "_reshape_alias", .params = "T self, I[] size", .emit = emit_view},
    {.name = "view.dtype", .params = "T self, D dtype", .emit = emit_view_dtype},
    {.name = "view_as_real", .params = "T self", .emit = emit_view_as_real},
    {.name = "view_as_complex", .params = "T self", .emit = emit_view_as_complex},
    {.name = "alias", .params = "T self", .emit = emit_self},
    {.name = "detach", .params = "T self", .emit = emit_self},
    {.name = "lift", .params = "T self", .emit = emit_self, .layout = TPJ_LAYOUT_SELF},
    {.name = "lift_fresh", .params = "T self", .emit = emit_self},
    {.name = "_conj", .params = "T self", .emit = emit_conj},
    {.name = "_neg_view", .params = "T self", .emit = emit_neg},
    {.name = "permute", .params = "T self, I[] dims", .emit = emit_permute},
    {.name = "transpose.int", .params = "T self, I dim0, I dim1", .emit = emit_transpose},
    {.name = "t", .params = "T self", .emit = emit_t},
    {.name = "expand", .params = "T self, I[] size", .emit = emit_expand},
    {.name = "unsqueeze", .params = "T self, I dim", .emit = emit_unsqueeze},
    {.name = "squeeze", .params = "T self", .emit = emit_squeeze, .variant = SQUEEZE_ALL},
    {.name = "squeeze.dim", .params = "T self, I dim", .emit = emit_squeeze, .variant = SQUEEZE_DIM},
    {.name = "squeeze.dims", .params = "T self, I[] dim", .emit = emit_squeeze, .variant = SQUEEZE_DIMS},
    {.name = "slice.Tensor", .params = "T self, I dim=0, I? start=None, I? end=None, I step=1", .emit = emit_slice},
    {.name = "narrow_copy", .params = "T self, I dim, I start, I length", .emit = emit_narrow_copy},
    {.name = "select.int", .params = "T self, I dim, I index", .emit = emit_select},
    {.name = "unbind.int", .params = "T self, I dim=0", .emit = emit_unbind},
    {.name = "split.Tensor", .params = "T self, I split_size, I dim=0", .emit = emit_split},
    {.name = "unsafe_split.Tensor", .params = "T self, I split_size, I dim=0", .emit = emit_split},
    {.name = "split_with_sizes", .params = "T self, I[] split_sizes, I dim=0", .emit = emit_split_with_sizes},
    {.name = "unsafe_split_with_sizes", .params = "T self, I[] split_sizes, I dim=0", .emit = emit_split_with_sizes},
    {.name = "diagonal", .params = "T self, I offset=0, I dim1=0, I dim2=1", .emit = emit_diagonal},
    {.name = "unfold", .params = "T self, I dimension, I size, I step", .emit = emit_unfold},
    {.name = "as_strided", .params = "T self, I[] size, I[] stride, I? storage_offset=None", .emit = emit_as_strided},
    {0},
};
