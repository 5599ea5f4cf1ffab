#include <inttypes.h>

#include "hlo/writer.h"

/* ---- matrix products ---- */

static bool in_list(const int64_t *values, int n, int64_t value) {
    for (int i = 0; i < n; i++) {
        if (values[i] == value) return true;
    }
    return false;
}

/* Where each dimension of a dot's operand goes in [batch, x free, y free, contract]. */
static int64_t *operand_mapping(tpj_hlo *h, int rank, const int64_t *batch, int n_batch, const int64_t *contract,
                                int n_contract, int first_free, int first_contract) {
    int64_t *mapping = hlo_dims(h, rank);
    for (int i = 0; i < rank && !h->failed; i++) {
        mapping[i] = -1;
        for (int k = 0; k < n_batch; k++) mapping[i] = batch[k] == i ? k : mapping[i];
        for (int k = 0; k < n_contract; k++) mapping[i] = contract[k] == i ? first_contract + k : mapping[i];
        if (mapping[i] < 0) mapping[i] = first_free++;
    }
    return mapping;
}

/* The TPU's compiler has no dot of 64-bit integers. As multiply and sum it fuses into one loop everywhere. */
static tpj_value *integer_dot(tpj_hlo *h, tpj_value *x, tpj_value *y, const int64_t *x_batch, const int64_t *y_batch,
                              int n_batch, const int64_t *x_contract, const int64_t *y_contract, int n_contract,
                              int rank, const int64_t *dims) {
    int full = rank + n_contract, n_x_free = x->type.rank - n_batch - n_contract;
    int64_t *full_dims = hlo_dims(h, full), *reduced = hlo_dims(h, n_contract);
    int64_t *x_map = operand_mapping(h, x->type.rank, x_batch, n_batch, x_contract, n_contract, n_batch, rank);
    int64_t *y_map =
        operand_mapping(h, y->type.rank, y_batch, n_batch, y_contract, n_contract, n_batch + n_x_free, rank);
    if (h->failed) return &h->poison;
    for (int i = 0; i < rank; i++) full_dims[i] = dims[i];
    for (int i = 0; i < n_contract; i++) {
        full_dims[rank + i] = x->type.dims[x_contract[i]];
        reduced[i] = rank + i;
    }
    tpj_value *product = hlo_mul(h, hlo_broadcast_in_dim(h, x, full, full_dims, x_map),
                                 hlo_broadcast_in_dim(h, y, full, full_dims, y_map));
    return hlo_reduce(h, "add", product, NULL, reduced, n_contract);
}

static void dot_dimension_list(tpj_text *text, const char *name, const int64_t *values, int n, const char *end) {
    tpj_text_printf(text, "%s = [", name);
    tpj_text_integers(text, values, (size_t)n);
    tpj_text_printf(text, "]%s", end);
}

/* What `x` is a transpose of, with the dimensions that are named renamed to its own; `x` itself where it is none, or one that
 * moves a free dimension behind another. */
static tpj_value *read_through(tpj_hlo *h, tpj_value *x, const int64_t **batch, int n_batch, const int64_t **contract,
                               int n_contract) {
    if (x->of == NULL) return x;
    int64_t last = -1, *to_batch = hlo_dims(h, n_batch), *to_contract = hlo_dims(h, n_contract);
    for (int i = 0; i < x->type.rank && !h->failed; i++) {
        if (in_list(*batch, n_batch, i) || in_list(*contract, n_contract, i)) continue;
        if (x->order[i] < last) return x;
        last = x->order[i];
    }
    if (h->failed) return x;
    for (int i = 0; i < n_batch; i++) to_batch[i] = x->order[(*batch)[i]];
    for (int i = 0; i < n_contract; i++) to_contract[i] = x->order[(*contract)[i]];
    *batch = to_batch;
    *contract = to_contract;
    return read_through(h, x->of, batch, n_batch, contract, n_contract);
}

/* The elements of the free dimensions of a product without batch, of which there is one at most; `out_dim`: that one, -1 for
 * none. */
static int64_t free_elements(const tpj_value *x, const int64_t *contract, int n_contract, int *out_dim) {
    *out_dim = -1;
    for (int i = 0; i < x->type.rank; i++) *out_dim = in_list(contract, n_contract, i) ? *out_dim : i;
    return *out_dim < 0 ? 1 : x->type.dims[*out_dim];
}

/* XLA's compiler for CPUs has kernels for matrices of bfloat16, and none for a matrix and a vector: one row takes it 5 to 8
 * times as long as four. Such an operand is filled up with zero rows. `out_dim`: -1, or which of x's dimensions it is. */
static tpj_value *fill_up_one_row(tpj_hlo *h, tpj_value *x, const tpj_value *y, const int64_t *x_contract,
                                  const int64_t *y_contract, int n_contract, int *out_dim) {
    enum { N_ROWS = 4 };
    int y_dim, x_free = x->type.rank - n_contract, y_free = y->type.rank - n_contract;
    *out_dim = -1;
    if (!h->for_cpu || x->type.dtype != TPJ_BF16 || x_free != 1 || y_free != 1) return x;
    if (free_elements(y, y_contract, n_contract, &y_dim) == 1) return x;
    if (free_elements(x, x_contract, n_contract, out_dim) == 1)
        return hlo_pad_dim(h, x, hlo_zeros(h, x->type.dtype, 0, NULL), *out_dim, 0, N_ROWS - 1);
    *out_dim = -1;
    return x;
}

/* XLA's compiler for CPUs decides early that a product of bfloat16 is one for its kernels, and may then move a transpose from
 * an operand's own operands into the product, for which it has none: the launch fails. Operands are kept as they are. */
static tpj_value *keep_apart(tpj_hlo *h, tpj_value *x) {
    return h->for_cpu && x->type.dtype == TPJ_BF16 ? hlo_barrier(h, x) : x;
}

static tpj_value *dot_general(tpj_hlo *h, tpj_value *x, tpj_value *y, const int64_t *x_batch, const int64_t *y_batch,
                              int n_batch, const int64_t *x_contract, const int64_t *y_contract, int n_contract,
                              tpj_dtype result) {
    tpj_value *xs[] = {x, y};
    int rank = x->type.rank + y->type.rank - n_batch - 2 * n_contract, n = 0;
    int64_t *dims = hlo_dims(h, rank);
    if (h->failed) return &h->poison;
    bool fits = x->type.dtype == y->type.dtype;
    for (int i = 0; i < n_batch; i++) {
        dims[n++] = x->type.dims[x_batch[i]];
        fits = fits && x->type.dims[x_batch[i]] == y->type.dims[y_batch[i]];
    }
    for (int i = 0; i < n_contract; i++) fits = fits && x->type.dims[x_contract[i]] == y->type.dims[y_contract[i]];
    for (int i = 0; i < x->type.rank; i++) {
        if (!in_list(x_batch, n_batch, i) && !in_list(x_contract, n_contract, i)) dims[n++] = x->type.dims[i];
    }
    for (int i = 0; i < y->type.rank; i++) {
        if (!in_list(y_batch, n_batch, i) && !in_list(y_contract, n_contract, i)) dims[n++] = y->type.dims[i];
    }
    if (!fits) {
        return hlo_fail(h, TPJ_RUNTIME, "%s and %s do not contract", hlo_type_string(h, &x->type),
                        hlo_type_string(h, &y->type));
    }
    if (x->type.dtype == TPJ_I64 || x->type.dtype == TPJ_U64) {
        tpj_value *out =
            integer_dot(h, x, y, x_batch, y_batch, n_batch, x_contract, y_contract, n_contract, rank, dims);
        return hlo_convert(h, out, result);
    }
    hlo_attributes_begin(h);
    tpj_text_add(&h->scratch, "dot_dimension_numbers = #stablehlo.dot<");
    if (n_batch > 0) {
        dot_dimension_list(&h->scratch, "lhs_batching_dimensions", x_batch, n_batch, ", ");
        dot_dimension_list(&h->scratch, "rhs_batching_dimensions", y_batch, n_batch, ", ");
    }
    dot_dimension_list(&h->scratch, "lhs_contracting_dimensions", x_contract, n_contract, ", ");
    dot_dimension_list(&h->scratch, "rhs_contracting_dimensions", y_contract, n_contract, ">");
    hlo_attribute_precision(h, x->type.dtype);
    return hlo_op1(h, "dot_general", xs, 2, hlo_attributes(h), result, rank, dims);
}

tpj_value *hlo_dot(tpj_hlo *h, tpj_value *x, tpj_value *y, const int64_t *x_batch, const int64_t *y_batch, int n_batch,
                   const int64_t *x_contract, const int64_t *y_contract, int n_contract, tpj_dtype result) {
    if (!hlo_ready(h, (tpj_value *[]){x, y}, 2)) return &h->poison;
    int x_one = -1, y_one = -1;
    x = read_through(h, x, &x_batch, n_batch, &x_contract, n_contract);
    y = read_through(h, y, &y_batch, n_batch, &y_contract, n_contract);
    if (n_batch == 0) x = fill_up_one_row(h, x, y, x_contract, y_contract, n_contract, &x_one);
    if (n_batch == 0) y = fill_up_one_row(h, y, x, y_contract, x_contract, n_contract, &y_one);
    x = keep_apart(h, x);
    y = keep_apart(h, y);
    if (h->failed) return &h->poison;
    tpj_value *out = dot_general(h, x, y, x_batch, y_batch, n_batch, x_contract, y_contract, n_contract, result);
    if (h->failed || (x_one < 0 && y_one < 0)) return out;
    return hlo_slice_dim(h, out, x_one >= 0 ? 0 : 1, 0, 1, 1);
}

tpj_value *hlo_matmul(tpj_hlo *h, tpj_value *x, tpj_value *y, tpj_dtype result) {
    tpj_value *xs[] = {x, y};
    if (!hlo_ready(h, xs, 2)) return &h->poison;
    int rank = x->type.rank;
    if (rank < 2 || rank != y->type.rank) {
        return hlo_fail(h, TPJ_INTERNAL, "matmul of %s and %s", hlo_type_string(h, &x->type),
                        hlo_type_string(h, &y->type));
    }
    int64_t *batch = hlo_dims(h, rank);
    for (int i = 0; i < rank - 2 && !h->failed; i++) batch[i] = i;
    int64_t x_contract = rank - 1, y_contract = rank - 2;
    return hlo_dot(h, x, y, batch, batch, rank - 2, &x_contract, &y_contract, 1, result);
}

/* ---- convolution ---- */

/* One array's `[b, f, 0, 1]`: `first` and `second` are the letters of its two special dimensions. */
static void dimension_letters(tpj_text *text, char first, int64_t first_at, char second, int64_t second_at,
                              const int64_t *spatial, int n_spatial) {
    tpj_text_add(text, "[");
    for (int i = 0; i < n_spatial + 2; i++) {
        if (i > 0) tpj_text_add(text, ", ");
        if (i == first_at) tpj_text_printf(text, "%c", first);
        if (i == second_at) tpj_text_printf(text, "%c", second);
        for (int k = 0; k < n_spatial; k++) {
            if (spatial[k] == i) tpj_text_printf(text, "%d", k);
        }
    }
    tpj_text_add(text, "]");
}

static int64_t or_one(const int64_t *values, int i) { return values == NULL ? 1 : values[i]; }
static int64_t or_zero(const int64_t *values, int i) { return values == NULL ? 0 : values[i]; }
static int64_t dilate(int64_t size, int64_t by) { return size == 0 ? 0 : (size - 1) * by + 1; }

static int64_t *convolution_dims(tpj_hlo *h, const tpj_value *x, const tpj_value *kernel, const hlo_convolution *c) {
    int64_t *dims = hlo_dims(h, c->n_spatial + 2);
    if (h->failed) return dims;
    dims[c->output_batch] = x->type.dims[c->input_batch] / c->batch_groups;
    dims[c->output_feature] = kernel->type.dims[c->kernel_output];
    for (int i = 0; i < c->n_spatial; i++) {
        int64_t size = dilate(x->type.dims[c->input_spatial[i]], or_one(c->input_dilation, i));
        int64_t padded = size + or_zero(c->low, i) + or_zero(c->high, i);
        int64_t window = dilate(kernel->type.dims[c->kernel_spatial[i]], or_one(c->kernel_dilation, i));
        dims[c->output_spatial[i]] = padded < window ? 0 : (padded - window) / or_one(c->step, i) + 1;
    }
    return dims;
}

tpj_value *hlo_convolve(tpj_hlo *h, tpj_value *x, tpj_value *kernel, const hlo_convolution *c, tpj_dtype result) {
    tpj_value *xs[] = {x, kernel};
    if (!hlo_ready(h, xs, 2)) return &h->poison;
    int rank = c->n_spatial + 2;
    if (x->type.rank != rank || kernel->type.rank != rank || x->type.dtype != kernel->type.dtype) {
        return hlo_fail(h, TPJ_INTERNAL, "convolution of %s with %s", hlo_type_string(h, &x->type),
                        hlo_type_string(h, &kernel->type));
    }
    const int64_t *dims = convolution_dims(h, x, kernel, c);
    if (h->failed) return &h->poison;
    hlo_attributes_begin(h);
    tpj_text *text = &h->scratch;
    tpj_text_add(text, "dimension_numbers = #stablehlo.conv<");
    dimension_letters(text, 'b', c->input_batch, 'f', c->input_feature, c->input_spatial, c->n_spatial);
    tpj_text_add(text, "x");
    dimension_letters(text, 'i', c->kernel_input, 'o', c->kernel_output, c->kernel_spatial, c->n_spatial);
    tpj_text_add(text, "->");
    dimension_letters(text, 'b', c->output_batch, 'f', c->output_feature, c->output_spatial, c->n_spatial);
    tpj_text_printf(text, ">, batch_group_count = %" PRId64 " : i64, feature_group_count = %" PRId64 " : i64",
                    c->batch_groups, c->feature_groups);
    hlo_attribute_array_or(h, "window_strides", c->step, c->n_spatial, 1);
    hlo_attribute_array_or(h, "lhs_dilation", c->input_dilation, c->n_spatial, 1);
    hlo_attribute_array_or(h, "rhs_dilation", c->kernel_dilation, c->n_spatial, 1);
    hlo_attribute_padding(h, c->low, c->high, c->n_spatial);
    if (c->reverse_kernel) {
        tpj_text_add(text, ", window_reversal = array<i1");
        for (int i = 0; i < c->n_spatial; i++) tpj_text_add(text, i == 0 ? ": true" : ", true");
        tpj_text_add(text, ">");
    }
    hlo_attribute_precision(h, x->type.dtype);
    return hlo_op1(h, "convolution", xs, 2, hlo_attributes(h), result, rank, dims);
}
