/* Padding: with a constant, by reflection, by repeating the edge; and the gradients of the latter two.
 *
 * A reflected or repeated pad is slices and concatenations, one dimension after the other; its gradient folds the pads
 * back onto the elements that they were copied from. Negative pads crop. */
#include "ops/indexing.h"

static void emit_constant_pad(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int n = 0, rank = x->type.rank;
    const int64_t *pad = tpj_ints(e, "pad", &n);
    if (n % 2 != 0 || n / 2 > rank) {
        tpj_fail(
            e, TPJ_RUNTIME,
            "Length of pad should be even and no more than twice the number of dimensions of the input. Pad length is "
            "%d while the input has %d dimensions.",
            n, rank);
        return;
    }
    int64_t *low = hlo_dims(h, rank), *high = hlo_dims(h, rank);
    for (int i = 0; i < n / 2; i++) { /* the last dimension comes first */
        int d = rank - 1 - i;
        low[d] = pad[2 * i];
        high[d] = pad[2 * i + 1];
        if (x->type.dims[d] + low[d] + high[d] < 0) {
            tpj_fail(
                e, TPJ_RUNTIME,
                "The input size %lld, plus negative padding %lld and %lld resulted in a negative output size, which is "
                "invalid. Check dimension %d of your input.",
                (long long)x->type.dims[d], (long long)low[d], (long long)high[d], d);
            return;
        }
    }
    tpj_out(e, hlo_pad(h, x, tpj_scalar(e, "value", x->type.dtype), low, high, hlo_dims(h, rank)));
}

/* A dimension's pads; `reflect` or repeat. */
typedef struct edge {
    int dim;
    int64_t low, high; /* negative: cropped */
    bool reflect;
} edge;

static int64_t positive(int64_t n) { return n > 0 ? n : 0; }

/* n elements copied from the low (or high) end of x. */
static tpj_value *copied(tpj_hlo *h, tpj_value *x, const edge *p, bool low_end, int64_t n) {
    int64_t size = hlo_dim(x, p->dim), dim = p->dim;
    if (p->reflect) {
        tpj_value *inner =
            low_end ? hlo_slice_dim(h, x, p->dim, 1, 1 + n, 1) : hlo_slice_dim(h, x, p->dim, size - 1 - n, size - 1, 1);
        return hlo_reverse(h, inner, &dim, 1);
    }
    tpj_value *end = low_end ? hlo_slice_dim(h, x, p->dim, 0, 1, 1) : hlo_slice_dim(h, x, p->dim, size - 1, size, 1);
    return hlo_expand(h, end, x->type.rank, tpj_dims_with(h, x, p->dim, n));
}

static tpj_value *pad_edge(tpj_hlo *h, tpj_value *x, const edge *p) {
    int64_t low = positive(p->low), high = positive(p->high);
    tpj_value *parts[3];
    int n = 0;
    if (low > 0) parts[n++] = copied(h, x, p, true, low);
    parts[n++] = x;
    if (high > 0) parts[n++] = copied(h, x, p, false, high);
    tpj_value *padded = n == 1 ? x : hlo_concatenate(h, parts, n, p->dim);
    return hlo_slice_dim(h, padded, p->dim, positive(-p->low), hlo_dim(padded, p->dim) - positive(-p->high), 1);
}

/* The gradients of the n elements at an end, folded onto the ones they were copied from, in an array of `size`. */
static tpj_value *fold(tpj_hlo *h, tpj_value *part, const edge *p, bool low_end, int64_t size) {
    int64_t n = hlo_dim(part, p->dim), dim = p->dim;
    tpj_value *zero = hlo_number(h, part->type.dtype, 0);
    if (p->reflect) {
        part = hlo_reverse(h, part, &dim, 1);
        return low_end ? hlo_pad_dim(h, part, zero, p->dim, 1, size - 1 - n)
                       : hlo_pad_dim(h, part, zero, p->dim, size - 1 - n, 1);
    }
    part = hlo_unsqueeze(h, hlo_reduce_dim(h, "add", part, p->dim), p->dim);
    return low_end ? hlo_pad_dim(h, part, zero, p->dim, 0, size - 1) : hlo_pad_dim(h, part, zero, p->dim, size - 1, 0);
}

static tpj_value *unpad_edge(tpj_hlo *h, tpj_value *grad, const edge *p, int64_t size) {
    int64_t low = positive(p->low), high = positive(p->high);
    tpj_value *zero = hlo_number(h, grad->type.dtype, 0);
    grad = hlo_pad_dim(h, grad, zero, p->dim, positive(-p->low),
                       positive(-p->high)); /* what was cropped got no gradient */
    tpj_value *sum = hlo_slice_dim(h, grad, p->dim, low, low + size, 1);
    int64_t end = hlo_dim(grad, p->dim);
    if (low > 0) sum = hlo_add(h, sum, fold(h, hlo_slice_dim(h, grad, p->dim, 0, low, 1), p, true, size));
    if (high > 0) sum = hlo_add(h, sum, fold(h, hlo_slice_dim(h, grad, p->dim, end - high, end, 1), p, false, size));
    return sum;
}

/* variant: the number of padded dimensions, and this for reflection */
enum { REFLECT = 8, MOST_PADDED = 3 };

/* The pads of the row's dimensions, checked against the input's type. */
static bool read_edges(tpj_emit *e, tpj_type type, edge *out, int *out_n) {
    tpj_hlo *h = tpj_builder(e);
    int variant = tpj_row(e)->variant, n_dims = variant & ~REFLECT, n = 0;
    const int64_t *padding = tpj_ints(e, "padding", &n);
    if (n_dims > MOST_PADDED || n != 2 * n_dims) {
        tpj_fail(e, TPJ_RUNTIME, "padding size is expected to be %d", 2 * n_dims);
        return false;
    }
    bool valid = type.rank == n_dims + 1 || type.rank == n_dims + 2;
    for (int d = type.rank == n_dims + 2 ? 1 : 0; valid && d < type.rank; d++) valid = type.dims[d] != 0;
    if (!valid) {
        tpj_fail(e, TPJ_RUNTIME,
                 "Expected %dD or %dD (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
                 "input, but got: %s",
                 n_dims + 1, n_dims + 2, tpj_shape_text(h, type.rank, type.dims));
        return false;
    }
    for (int i = 0; i < n_dims; i++) {
        edge p = {
            .dim = type.rank - 1 - i, .low = padding[2 * i], .high = padding[2 * i + 1], .reflect = variant >= REFLECT};
        int64_t size = type.dims[p.dim];
        if (p.reflect && (p.low >= size || p.high >= size)) {
            tpj_fail(
                e, TPJ_RUNTIME,
                "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
                "(%lld, %lld) at dimension %d of input %s",
                (long long)p.low, (long long)p.high, p.dim, tpj_shape_text(h, type.rank, type.dims));
            return false;
        }
        if (size + p.low + p.high < 1) {
            tpj_fail(e, TPJ_RUNTIME, "input (size %lld at dimension %d) is too small for padding (%lld, %lld)",
                     (long long)size, p.dim, (long long)p.low, (long long)p.high);
            return false;
        }
        out[i] = p;
    }
    *out_n = n_dims;
    return true;
}

static void emit_pad(tpj_emit *e) {
    tpj_value *x = tpj_in(e, "self");
    edge edges[MOST_PADDED];
    int n;
    if (!read_edges(e, x->type, edges, &n)) return;
    for (int i = 0; i < n; i++) x = pad_edge(tpj_builder(e), x, &edges[i]);
    tpj_out(e, x);
}

static void emit_pad_backward(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type type = tpj_in_type(e, "self");
    tpj_dtype dtype = tpj_in_type(e, "grad_output").dtype;
    tpj_value *grad = tpj_in_as(e, "grad_output", tpj_accumulate_dtype(dtype));
    edge edges[MOST_PADDED];
    int n;
    if (!read_edges(e, type, edges, &n)) return;
    for (int i = 0; i < n; i++) {
        int64_t size = type.dims[edges[i].dim] + edges[i].low + edges[i].high;
        if (grad->type.rank == type.rank && hlo_dim(grad, edges[i].dim) == size) continue;
        tpj_fail(e, TPJ_RUNTIME, "grad_output size %s does not match the padded input: expected %lld at dimension %d",
                 tpj_shape_text(h, grad->type.rank, grad->type.dims), (long long)size, edges[i].dim);
        return;
    }
    for (int i = 0; i < n; i++) grad = unpad_edge(h, grad, &edges[i], type.dims[edges[i].dim]);
    tpj_out_as(e, grad, dtype);
}

#define PAD_ROWS(mode, dims, code)                                                            \
    {.name = mode "_pad" dims,                                                                \
     .params = "T self, I[] padding",                                                         \
     .emit = emit_pad,                                                                        \
     .layout = TPJ_LAYOUT_CHANNELS_LAST,                                                      \
     .variant = (code)},                                                                      \
    {                                                                                         \
        .name = mode "_pad" dims "_backward", .params = "T grad_output, T self, I[] padding", \
        .emit = emit_pad_backward, .variant = (code)                                          \
    }

const tpj_op_def tpj_ops_pad[] = {
    {.name = "constant_pad_nd",
     .params = "T self, I[] pad, S value=0",
     .emit = emit_constant_pad,
     .layout = TPJ_LAYOUT_CHANNELS_LAST},
    PAD_ROWS("reflection", "1d", 1 | REFLECT),
    PAD_ROWS("reflection", "2d", 2 | REFLECT),
    PAD_ROWS("reflection", "3d", 3 | REFLECT),
    PAD_ROWS("replication", "1d", 1),
    PAD_ROWS("replication", "2d", 2),
    PAD_ROWS("replication", "3d", 3),
    {0},
};
