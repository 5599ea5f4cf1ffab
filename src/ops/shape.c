/* Rearranging elements: joining, repeating, rolling, triangles, diagonals, patches, pixel shuffles. */
#include "ops/indexing.h"

/* ---- joining ---- */

/* PyTorch leaves out empty vectors of any rank's list, for the sake of old programs. */
static bool is_legacy_empty(const tpj_value *x) { return x->type.rank == 1 && x->type.dims[0] == 0; }

/* Same rank and sizes as the first apart from `dim`. */
static bool joins(tpj_emit *e, const tpj_value *first, const tpj_value *x, int dim, int position) {
    if (x->type.rank != first->type.rank) {
        tpj_fail(e, TPJ_RUNTIME, "Tensors must have same number of dimensions: got %d and %d", first->type.rank,
                 x->type.rank);
        return false;
    }
    for (int d = 0; d < x->type.rank; d++) {
        if (d == dim || x->type.dims[d] == first->type.dims[d]) continue;
        tpj_fail(e, TPJ_RUNTIME,
                 "Sizes of tensors must match except in dimension %d. Expected size %lld but got size %lld for tensor "
                 "number "
                 "%d in the list.",
                 dim, (long long)first->type.dims[d], (long long)x->type.dims[d], position);
        return false;
    }
    return true;
}

static void emit_cat(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int n = 0, n_joined = 0, dim = 0;
    tpj_value **xs = tpj_in_list(e, "tensors", &n), *first = NULL;
    if (n == 0) {
        tpj_fail(e, TPJ_RUNTIME, "torch.cat(): expected a non-empty list of Tensors");
        return;
    }
    tpj_dtype dtype = tpj_promote(e, "tensors", NULL);
    for (int i = 0; i < n; i++) {
        if (xs[i]->type.rank == 0) {
            tpj_fail(e, TPJ_RUNTIME, "zero-dimensional tensor (at position %d) cannot be concatenated", i);
            return;
        }
        if (is_legacy_empty(xs[i])) continue;
        if (first == NULL) {
            first = xs[i];
            dim = tpj_dim(e, "dim", first->type.rank);
        }
        if (!joins(e, first, xs[i], dim, i)) return;
        xs[n_joined++] = hlo_convert(h, xs[i], dtype);
    }
    if (first == NULL) {
        tpj_out_as(e, xs[0], dtype);
        return;
    }
    tpj_out(e, n_joined == 1 ? xs[0] : hlo_concatenate(h, xs, n_joined, dim));
}

static void emit_stack(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int n = 0;
    tpj_value **xs = tpj_in_list(e, "tensors", &n);
    if (n == 0) {
        tpj_fail(e, TPJ_RUNTIME, "stack expects a non-empty TensorList");
        return;
    }
    int rank = xs[0]->type.rank, dim = tpj_dim(e, "dim", rank + 1);
    tpj_dtype dtype = tpj_promote(e, "tensors", NULL);
    for (int i = n - 1; i >= 0; i--) {
        if (!hlo_same_dims(xs[i], xs[0])) {
            tpj_fail(
                e, TPJ_RUNTIME, "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %d",
                tpj_shape_text(h, rank, xs[0]->type.dims), tpj_shape_text(h, xs[i]->type.rank, xs[i]->type.dims), i);
            return;
        }
        xs[i] = hlo_unsqueeze(h, hlo_convert(h, xs[i], dtype), dim);
    }
    tpj_out(e, n == 1 ? xs[0] : hlo_concatenate(h, xs, n, dim));
}

static void emit_block_diag(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int n = 0;
    tpj_value **xs = tpj_in_list(e, "tensors", &n);
    tpj_dtype dtype = tpj_promote(e, "tensors", NULL);
    int64_t columns = 0, at = 0;
    for (int i = 0; i < n; i++) {
        if (xs[i]->type.rank > 2) {
            tpj_fail(e, TPJ_RUNTIME,
                     "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input %d has %d dimensions", i,
                     xs[i]->type.rank);
            return;
        }
        int64_t dims[] = {xs[i]->type.rank == 2 ? hlo_dim(xs[i], 0) : 1, xs[i]->type.rank > 0 ? hlo_dim(xs[i], -1) : 1};
        xs[i] = hlo_reshape(h, hlo_convert(h, xs[i], dtype), 2, dims);
        columns += dims[1];
    }
    tpj_value *zero = hlo_number(h, dtype, 0);
    for (int i = 0; i < n; i++) {
        int64_t width = hlo_dim(xs[i], 1);
        xs[i] = hlo_pad_dim(h, xs[i], zero, 1, at, columns - at - width);
        at += width;
    }
    int64_t none[] = {1, 0};
    tpj_out(e, n == 0 ? hlo_zeros(h, dtype, 2, none) : n == 1 ? xs[0] : hlo_concatenate(h, xs, n, 0));
}

/* ---- order and repetition ---- */

static void emit_flip(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self");
    int n_named = 0, n = 0;
    tpj_ints(e, "dims", &n_named);
    const int64_t *dims = tpj_dims(e, "dims", x->type.rank, &n); /* an empty list counts as all there, as none here */
    tpj_out(e, n_named <= 0 || x->type.rank == 0 ? x : hlo_reverse(tpj_builder(e), x, dims, n));
}

/* By a number of places that is given at run time: a window into x beside itself. */
static tpj_value *roll_by(tpj_hlo *h, tpj_value *x, int dim, tpj_value *shift) {
    tpj_value *size = hlo_integer(h, TPJ_I64, hlo_dim(x, dim)), *zero = hlo_integer(h, TPJ_I64, 0);
    tpj_value *rest = hlo_binary(h, "remainder", shift, size); /* has shift's sign */
    tpj_value *back = hlo_select(h, hlo_compare(h, "GT", rest, zero), hlo_sub(h, size, rest), hlo_neg(h, rest));
    tpj_value *twice[] = {x, x}, **starts = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, x->type.rank);
    if (starts == NULL) return hlo_fail(h, TPJ_OUT_OF_MEMORY, "out of memory");
    for (int d = 0; d < x->type.rank; d++) starts[d] = d == dim ? back : zero;
    return hlo_dynamic_slice(h, hlo_concatenate(h, twice, 2, dim), starts, x->type.dims);
}

/* shifts[i] of the op's argument; NULL: they are given at run time. */
static tpj_value *roll(tpj_emit *e, tpj_value *x, int dim, const int64_t *shifts, int i) {
    tpj_hlo *h = tpj_builder(e);
    int64_t size = hlo_dim(x, dim);
    if (size == 0) return x;
    if (shifts == NULL) return roll_by(h, x, dim, tpj_scalar_at(e, "shifts", i, TPJ_I64));
    int64_t shift = shifts[i];
    int64_t start = ((-shift) % size + size) % size;
    if (start == 0) return x;
    tpj_value *parts[] = {hlo_slice_dim(h, x, dim, start, size, 1), hlo_slice_dim(h, x, dim, 0, start, 1)};
    return hlo_concatenate(h, parts, 2, dim);
}

static void emit_roll(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int n_shifts = 0, n_dims = 0, rank = x->type.rank;
    const int64_t *dims = tpj_ints(e, "dims", &n_dims);
    const int64_t *shifts = tpj_numbers_are_constant(e, "shifts", &n_shifts) ? tpj_ints(e, "shifts", &n_shifts) : NULL;
    if (n_shifts <= 0) {
        tpj_fail(e, TPJ_RUNTIME, "`shifts` required");
        return;
    }
    if (n_dims <= 0 && n_shifts == 1) {
        tpj_out(e, hlo_reshape(h, roll(e, hlo_flatten(h, x), 0, shifts, 0), rank, x->type.dims));
        return;
    }
    if (n_dims != n_shifts) {
        tpj_fail(e, TPJ_RUNTIME, "shifts and dimensions must align. shifts: %d, dims:%d", n_shifts, n_dims);
        return;
    }
    for (int i = 0; i < n_dims; i++) {
        int64_t dim = dims[i] < 0 ? dims[i] + rank : dims[i];
        if (dim < 0 || dim >= rank) {
            tpj_fail(e, TPJ_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -rank,
                     rank - 1, (long long)dims[i]);
            return;
        }
        x = roll(e, x, (int)dim, shifts, i);
    }
    tpj_out(e, x);
}

static void emit_repeat(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int n = 0, rank = x->type.rank;
    const int64_t *repeats = tpj_ints(e, "repeats", &n);
    if (n < rank) {
        tpj_fail(e, TPJ_RUNTIME,
                 "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
        return;
    }
    int64_t *spread = hlo_dims(h, 2 * n), *mapping = hlo_dims(h, rank), *result = hlo_dims(h, n);
    for (int d = 0; d < n; d++) { /* [repeat, size] a dimension */
        int own = d - (n - rank);
        if (repeats[d] < 0) {
            tpj_fail(e, TPJ_RUNTIME, "Trying to create tensor with negative dimension %lld", (long long)repeats[d]);
            return;
        }
        spread[2 * d] = repeats[d];
        spread[2 * d + 1] = own >= 0 ? x->type.dims[own] : 1;
        result[d] = spread[2 * d] * spread[2 * d + 1];
        if (own >= 0) mapping[own] = 2 * d + 1;
    }
    tpj_out(e, hlo_reshape(h, hlo_broadcast_in_dim(h, x, 2 * n, spread, mapping), n, result));
}

/* ---- triangles and diagonals ---- */

static void emit_triangle(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    if (x->type.rank < 2) {
        tpj_fail(e, TPJ_RUNTIME, "%s: input tensor must have at least 2 dimensions", tpj_row(e)->name);
        return;
    }
    int rank = x->type.rank;
    tpj_value *rows = hlo_iota(h, TPJ_I32, rank, x->type.dims, rank - 2);
    tpj_value *columns = hlo_iota(h, TPJ_I32, rank, x->type.dims, rank - 1);
    tpj_value *diagonal = tpj_scalar(e, "diagonal", TPJ_I32);
    if (diagonal != NULL) rows = hlo_add(h, rows, diagonal);
    tpj_value *kept = hlo_compare(h, tpj_row(e)->hlo, columns, rows);
    tpj_out(e, hlo_select(h, kept, x, hlo_number(h, x->type.dtype, 0)));
}

static void emit_trace(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype given = tpj_in_type(e, "self").dtype, dtype = tpj_sum_dtype(given);
    tpj_value *x = tpj_in(e, "self");
    if (x->type.rank != 2) {
        tpj_fail(e, TPJ_RUNTIME, "trace: expected a matrix");
        return;
    }
    int64_t rows = hlo_dim(x, 0), columns = hlo_dim(x, 1), n = rows < columns ? rows : columns;
    tpj_value *diagonal =
        hlo_slice_dim(h, hlo_flatten(h, x), 0, 0, n > 0 ? (n - 1) * (columns + 1) + 1 : 0, columns + 1);
    tpj_out_as(e, hlo_reduce_all(h, "add", hlo_convert(h, diagonal, tpj_compute_dtype(dtype))), dtype);
}

/* The vectors in x's last dimension become diagonals of square matrices, whose dimensions then move to dim1 and
 * dim2. */
static void emit_diag_embed(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_at_least_1d(h, tpj_in(e, "self"));
    int rank = x->type.rank, dim1 = tpj_dim(e, "dim1", rank + 1), dim2 = tpj_dim(e, "dim2", rank + 1);
    if (dim1 == dim2) {
        tpj_fail(e, TPJ_RUNTIME, "diagonal dimensions cannot be identical %d, %d", dim1, dim2);
        return;
    }
    int64_t offset = tpj_int(e, "offset", 0), n = hlo_dim(x, -1), size = n + (offset < 0 ? -offset : offset);
    int64_t start = (offset < 0 ? -offset * size : offset), step = size + 1;
    int64_t *low = hlo_dims(h, rank), *high = hlo_dims(h, rank), *interior = hlo_dims(h, rank);
    int64_t *square = hlo_dims(h, rank + 1), *permutation = hlo_dims(h, rank + 1);
    for (int d = 0; d < rank - 1; d++) square[d] = x->type.dims[d];
    square[rank - 1] = square[rank] = size;
    tpj_value *matrices;
    if (n == 0 || hlo_elements(x) == 0) {
        matrices = hlo_zeros(h, x->type.dtype, rank + 1, square);
    } else {
        low[rank - 1] = start;
        interior[rank - 1] = step - 1;
        high[rank - 1] = size * size - (start + (n - 1) * step + 1);
        tpj_value *flat = hlo_pad(h, x, hlo_number(h, x->type.dtype, 0), low, high, interior);
        matrices = hlo_reshape(h, flat, rank + 1, square);
    }
    for (int d = 0, k = 0; d <= rank; d++) permutation[d] = d == dim1 ? rank - 1 : d == dim2 ? rank : k++;
    tpj_out(e, hlo_transpose(h, matrices, permutation));
}

/* ---- patches ---- */

/* One spatial dimension of im2col and col2im. */
typedef struct patch {
    int64_t kernel, dilation, padding, stride;
    int64_t size, n; /* of the image, padding excluded; how many windows fit */
} patch;

static bool read_patches(tpj_emit *e, const int64_t sizes[2], patch out[2]) {
    static const char *const names[] = {"kernel_size", "dilation", "padding", "stride"};
    for (int i = 0; i < 4; i++) {
        int n = 0;
        const int64_t *values = tpj_ints(e, names[i], &n);
        for (int d = 0; d < 2; d++) {
            int64_t value = n > 0 ? values[n > 1 ? d : 0] : 0;
            *(int64_t *[]){&out[d].kernel, &out[d].dilation, &out[d].padding, &out[d].stride}[i] = value;
            if (value < 0 || (value == 0 && i != 2)) {
                tpj_fail(e, TPJ_RUNTIME, "%s should be greater than zero, but got %lld", names[i], (long long)value);
                return false;
            }
        }
    }
    for (int d = 0; d < 2; d++) {
        patch *p = &out[d];
        p->size = sizes[d];
        int64_t reach = p->size + 2 * p->padding - p->dilation * (p->kernel - 1) - 1;
        p->n = reach < 0 ? 0 : reach / p->stride + 1;
        if (p->n < 1) {
            tpj_fail(e, TPJ_RUNTIME, "calculated shape of the array of sliding blocks is too small (non-positive)");
            return false;
        }
    }
    return true;
}

/* The dimension `dim` of x in windows: it becomes [kernel, n]. One strided slice for each place in the kernel. */
static tpj_value *cut_windows(tpj_hlo *h, tpj_value *x, int dim, const patch *p) {
    x = hlo_pad_dim(h, x, hlo_number(h, x->type.dtype, 0), dim, p->padding, p->padding);
    tpj_value **parts = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, p->kernel);
    if (parts == NULL) return hlo_fail(h, TPJ_OUT_OF_MEMORY, "out of memory");
    for (int64_t k = 0; k < p->kernel; k++) {
        int64_t start = k * p->dilation;
        parts[k] =
            hlo_unsqueeze(h, hlo_slice_dim(h, x, dim, start, start + (p->n - 1) * p->stride + 1, p->stride), dim);
    }
    return p->kernel == 1 ? parts[0] : hlo_concatenate(h, parts, (int)p->kernel, dim);
}

/* The adjoint: [kernel, n] at dim become the line that they were cut from, what windows share added up. */
static tpj_value *add_windows(tpj_hlo *h, tpj_value *x, int dim, const patch *p) {
    int rank = x->type.rank;
    int64_t length = p->size + 2 * p->padding;
    int64_t *low = hlo_dims(h, rank - 1), *high = hlo_dims(h, rank - 1), *interior = hlo_dims(h, rank - 1);
    tpj_value *sum = NULL, *zero = hlo_number(h, x->type.dtype, 0);
    for (int64_t k = 0; k < p->kernel; k++) {
        tpj_value *part = hlo_squeeze(h, hlo_slice_dim(h, x, dim, k, k + 1, 1), dim);
        low[dim] = k * p->dilation;
        interior[dim] = p->stride - 1;
        high[dim] = length - (low[dim] + (p->n - 1) * p->stride + 1);
        part = hlo_pad(h, part, zero, low, high, interior);
        sum = sum == NULL ? part : hlo_add(h, sum, part);
    }
    return hlo_slice_dim(h, sum, dim, p->padding, p->padding + p->size, 1);
}

static void emit_im2col(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *self = tpj_in(e, "self"), *x = self;
    if (x->type.rank != 3 && x->type.rank != 4) {
        tpj_fail(e, TPJ_RUNTIME,
                 "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
                 "dimensions for input, but got: %s",
                 tpj_shape_text(h, x->type.rank, x->type.dims));
        return;
    }
    if (x->type.rank == 3) x = hlo_unsqueeze(h, x, 0);
    patch p[2];
    if (!read_patches(e, x->type.dims + 2, p)) return;
    int64_t batch = hlo_dim(x, 0), channels = hlo_dim(x, 1);
    tpj_value *windows = cut_windows(h, cut_windows(h, x, 2, &p[0]), 4, &p[1]); /* [N, C, kh, oh, kw, ow] */
    int64_t order[] = {0, 1, 2, 4, 3, 5};
    int64_t dims[] = {batch, channels * p[0].kernel * p[1].kernel, p[0].n * p[1].n};
    tpj_value *columns = hlo_reshape(h, hlo_transpose(h, windows, order), 3, dims);
    tpj_out(e, self->type.rank == 3 ? hlo_squeeze(h, columns, 0) : columns);
}

static void emit_col2im(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    tpj_value *self = tpj_in_as(e, "self", tpj_accumulate_dtype(dtype)), *x = self;
    int n = 0;
    const int64_t *sizes = tpj_ints(e, "output_size", &n);
    patch p[2];
    if (n != 2 || (x->type.rank != 2 && x->type.rank != 3)) {
        tpj_fail(e, TPJ_RUNTIME, "Expected 2D or 3D (batch mode) tensor for input and an output_size of 2 numbers");
        return;
    }
    if (!read_patches(e, sizes, p)) return;
    if (x->type.rank == 2) x = hlo_unsqueeze(h, x, 0);
    int64_t window = p[0].kernel * p[1].kernel;
    if (hlo_dim(x, 1) % window != 0 || hlo_dim(x, 2) != p[0].n * p[1].n) {
        tpj_fail(
            e, TPJ_RUNTIME,
            "Given output_size, kernel_size, dilation, padding and stride, expected input of shape [.., a multiple of "
            "%lld, %lld], but got %s",
            (long long)window, (long long)(p[0].n * p[1].n), tpj_shape_text(h, x->type.rank, x->type.dims));
        return;
    }
    int64_t dims[] = {hlo_dim(x, 0), hlo_dim(x, 1) / window, p[0].kernel, p[1].kernel, p[0].n, p[1].n};
    int64_t order[] = {0, 1, 2, 4, 3, 5};
    tpj_value *windows = hlo_transpose(h, hlo_reshape(h, x, 6, dims), order);
    tpj_value *image = add_windows(h, add_windows(h, windows, 4, &p[1]), 2, &p[0]);
    tpj_out_as(e, self->type.rank == 2 ? hlo_squeeze(h, image, 0) : image, dtype);
}

/* ---- shuffles ---- */

/* [.., a, b, ..] with the n dimensions at the end of x split as `split` says, permuted and put together as `joined`. */
static tpj_value *regroup(tpj_hlo *h, tpj_value *x, int n, const int64_t *split, int n_split, const int64_t *order,
                          const int64_t *joined, int n_joined) {
    int lead = x->type.rank - n;
    int64_t *dims = hlo_dims(h, lead + n_split), *permutation = hlo_dims(h, lead + n_split),
            *result = hlo_dims(h, lead + n_joined);
    for (int d = 0; d < lead; d++) dims[d] = result[d] = x->type.dims[d], permutation[d] = d;
    for (int i = 0; i < n_split; i++) dims[lead + i] = split[i], permutation[lead + i] = lead + order[i];
    for (int i = 0; i < n_joined; i++) result[lead + i] = joined[i];
    x = hlo_reshape(h, x, lead + n_split, dims);
    return hlo_reshape(h, hlo_transpose(h, x, permutation), lead + n_joined, result);
}

static void emit_pixel_shuffle(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int64_t r = tpj_int(e, "upscale_factor", 1);
    if (x->type.rank < 3 || r <= 0 || hlo_dim(x, -3) % (r * r) != 0) {
        tpj_fail(
            e, TPJ_RUNTIME,
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor");
        return;
    }
    int64_t c = hlo_dim(x, -3) / (r * r), height = hlo_dim(x, -2), width = hlo_dim(x, -1);
    int64_t split[] = {c, r, r, height, width}, order[] = {0, 3, 1, 4, 2}, joined[] = {c, height * r, width * r};
    tpj_out(e, regroup(h, x, 3, split, 5, order, joined, 3));
}

static void emit_pixel_unshuffle(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int64_t r = tpj_int(e, "downscale_factor", 1);
    if (x->type.rank < 3 || r <= 0 || hlo_dim(x, -2) % r != 0 || hlo_dim(x, -1) % r != 0) {
        tpj_fail(e, TPJ_RUNTIME, "pixel_unshuffle expects height and width to be divisible by downscale_factor");
        return;
    }
    int64_t c = hlo_dim(x, -3), height = hlo_dim(x, -2) / r, width = hlo_dim(x, -1) / r;
    int64_t split[] = {c, height, r, width, r}, order[] = {0, 2, 4, 1, 3}, joined[] = {c * r * r, height, width};
    tpj_out(e, regroup(h, x, 3, split, 5, order, joined, 3));
}

static void emit_channel_shuffle(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int64_t groups = tpj_int(e, "groups", 1);
    if (x->type.rank < 3 || groups <= 0 || hlo_dim(x, 1) % groups != 0) {
        tpj_fail(e, TPJ_RUNTIME,
                 "channel_shuffle expects input with > 2 dims and a number of channels divisible by groups, got %s",
                 tpj_shape_text(h, x->type.rank, x->type.dims));
        return;
    }
    int64_t channels = hlo_dim(x, 1), rest = tpj_product(x->type.dims + 2, x->type.rank - 2);
    int64_t dims[] = {hlo_dim(x, 0), groups, channels / groups, rest};
    tpj_value *swapped = hlo_swap(h, hlo_reshape(h, x, 4, dims), 1, 2);
    tpj_out(e, hlo_reshape(h, swapped, x->type.rank, x->type.dims));
}

const tpj_op_def tpj_ops_shape[] = {
    {.name = "cat", .params = "T[] tensors, I dim=0", .emit = emit_cat, .layout = TPJ_LAYOUT_JOINED},
    {.name = "stack", .params = "T[] tensors, I dim=0", .emit = emit_stack, .layout = TPJ_LAYOUT_STACKED},
    {.name = "_stack", .params = "T[] tensors, I dim=0", .emit = emit_stack, .layout = TPJ_LAYOUT_STACKED},
    {.name = "block_diag", .params = "T[] tensors", .emit = emit_block_diag},
    {.name = "flip", .params = "T self, I[] dims", .emit = emit_flip, .layout = TPJ_LAYOUT_SELF},
    {.name = "roll", .params = "T self, I~[] shifts, I[] dims=[]", .emit = emit_roll, .layout = TPJ_LAYOUT_JOINED},
    {.name = "repeat", .params = "T self, I[] repeats", .emit = emit_repeat},
    {.name = "tril", .params = "T self, I~ diagonal=0", .emit = emit_triangle, .hlo = "LE"},
    {.name = "triu", .params = "T self, I~ diagonal=0", .emit = emit_triangle, .hlo = "GE"},
    {.name = "trace", .params = "T self", .emit = emit_trace},
    {.name = "diag_embed", .params = "T self, I offset=0, I dim1=-2, I dim2=-1", .emit = emit_diag_embed},
    {.name = "im2col", .params = "T self, I[] kernel_size, I[] dilation, I[] padding, I[] stride", .emit = emit_im2col},
    {.name = "col2im",
     .params = "T self, I[] output_size, I[] kernel_size, I[] dilation, I[] padding, I[] stride",
     .emit = emit_col2im},
    {.name = "pixel_shuffle",
     .params = "T self, I upscale_factor",
     .emit = emit_pixel_shuffle,
     .layout = TPJ_LAYOUT_CHANNELS_LAST},
    {.name = "pixel_unshuffle",
     .params = "T self, I downscale_factor",
     .emit = emit_pixel_unshuffle,
     .layout = TPJ_LAYOUT_CHANNELS_LAST},
    {.name = "channel_shuffle",
     .params = "T self, I groups",
     .emit = emit_channel_shuffle,
     .layout = TPJ_LAYOUT_CHANNELS_LAST},
    {0},
};
