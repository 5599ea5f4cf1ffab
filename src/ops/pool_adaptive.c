/* Adaptive pooling: output o covers inputs floor(o * size / out) up to ceil((o + 1) * size / out). */
#include "ops/nn.h"
#include "ops/pool.h"

static int64_t first_of(int64_t o, int64_t size, int64_t out) { return o * size / out; }
static int64_t end_of(int64_t o, int64_t size, int64_t out) { return ((o + 1) * size + out - 1) / out; }

/* Element k of each output's window along dimension d; windows that are shorter repeat their last one. */
static tpj_value *element_of_windows(tpj_hlo *h, tpj_value *x, int d, int64_t out, int64_t k) {
    int64_t size = hlo_dim(x, d), *indices = hlo_dims(h, (int)out);
    if (out > 0 && size % out == 0) return hlo_slice_dim(h, x, d, k, k + (out - 1) * (size / out) + 1, size / out);
    for (int64_t o = 0; o < out; o++) {
        int64_t index = first_of(o, size, out) + k, last = end_of(o, size, out) - 1;
        indices[o] = index < last ? index : last;
    }
    return hlo_take(h, x, hlo_array_of_integers(h, TPJ_I32, 1, &out, indices), d);
}

static int64_t longest_window(int64_t size, int64_t out) {
    int64_t longest = 0;
    for (int64_t o = 0; o < out; o++) {
        int64_t length = end_of(o, size, out) - first_of(o, size, out);
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* Sums along dimension d, one an output. By slices where outputs are few, else by the windows' elements. */
static tpj_value *adaptive_sums(tpj_hlo *h, tpj_value *x, int d, int64_t out) {
    int64_t size = hlo_dim(x, d), longest = longest_window(size, out);
    const int64_t dims[] = {d};
    if (out > 0 && size % out == 0) {
        int64_t *split = hlo_dims(h, x->type.rank + 1), window[] = {d + 1};
        for (int k = 0; k < x->type.rank; k++) split[k < d ? k : k + 1] = hlo_dim(x, k);
        split[d] = out;
        split[d + 1] = size / out;
        return hlo_reduce(h, "add", hlo_reshape(h, x, x->type.rank + 1, split), NULL, window, 1);
    }
    if (out <= longest) {
        tpj_value **sums = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, out + 1);
        for (int64_t o = 0; sums != NULL && o < out; o++) {
            tpj_value *part = hlo_slice_dim(h, x, d, first_of(o, size, out), end_of(o, size, out), 1);
            sums[o] = hlo_unsqueeze(h, hlo_reduce(h, "add", part, NULL, dims, 1), d);
        }
        return sums == NULL ? hlo_fail(h, TPJ_OUT_OF_MEMORY, "out of host memory")
                            : hlo_concatenate(h, sums, (int)out, d);
    }
    tpj_value *sum = NULL;
    for (int64_t k = 0; k < longest; k++) {
        tpj_value *element = element_of_windows(h, x, d, out, k);
        int64_t *there = hlo_dims(h, (int)out);
        for (int64_t o = 0; o < out; o++) there[o] = first_of(o, size, out) + k < end_of(o, size, out);
        tpj_value *counts = tpj_nn_along(h, hlo_array_of_integers(h, TPJ_BOOL, 1, &out, there), element, d);
        element = tpj_nn_where(h, counts, element);
        sum = sum == NULL ? element : hlo_add(h, sum, element);
    }
    return sum;
}

/* 1 / the length of each output's window along dimension d, in the shape of `like`. */
static tpj_value *inverse_lengths(tpj_hlo *h, const tpj_value *like, int d, int64_t size, int64_t out) {
    double *values = TPJ_ARENA_ARRAY(hlo_arena(h), double, out);
    for (int64_t o = 0; values != NULL && o < out; o++)
        values[o] = 1.0 / (double)(end_of(o, size, out) - first_of(o, size, out));
    if (values == NULL) return hlo_fail(h, TPJ_OUT_OF_MEMORY, "out of host memory");
    return tpj_nn_along(h, hlo_array_of_numbers(h, like->type.dtype, 1, &out, values), like, d);
}

static bool begin_adaptive(tpj_emit *e, tpj_pool *p) {
    if (!tpj_pool_begin(e, p) || !tpj_nn_ints(e, "output_size", p->n, NULL, p->out)) return false;
    for (int i = 0; i < p->n; i++)
        if (p->out[i] < 0) {
            tpj_fail(e, TPJ_RUNTIME, "elements of output_size must be greater than or equal to 0");
            return false;
        }
    return true;
}

void tpj_emit_adaptive_avg_pool(tpj_emit *e) {
    tpj_pool p;
    if (!begin_adaptive(e, &p)) return;
    if (!tpj_nn_require_float(e, "self")) return;
    tpj_value *x = tpj_in_as(e, "self", p.compute);
    if (hlo_failed(p.h)) return;
    if (p.out[0] == 0 || p.out[1] == 0 || p.out[p.n - 1] == 0) {
        tpj_out(e, hlo_zeros(p.h, p.dtype, p.type.rank, tpj_pool_dims(&p, p.out)));
        return;
    }
    for (int i = p.n - 1; i >= 0; i--) {
        x = adaptive_sums(p.h, x, p.lead + i, p.out[i]);
        x = hlo_mul(p.h, x, inverse_lengths(p.h, x, p.lead + i, p.size[i], p.out[i]));
    }
    tpj_out_as(e, x, p.dtype);
}

/* Input h lies in the windows of outputs floor(h * out / size) up to ceil((h + 1) * out / size): the same rule, turned. */
void tpj_emit_adaptive_avg_pool_backward(tpj_emit *e) {
    tpj_pool p;
    if (!tpj_pool_begin(e, &p)) return;
    tpj_value *grad = tpj_in_as(e, "grad_output", p.compute);
    if (hlo_failed(p.h)) return;
    if (grad->type.rank != p.type.rank) {
        tpj_fail(e, TPJ_RUNTIME, "grad_output must have as many dimensions as the input");
        return;
    }
    if (hlo_elements(grad) == 0) {
        tpj_out(e, hlo_zeros(p.h, p.dtype, p.type.rank, p.type.dims));
        return;
    }
    for (int i = 0; i < p.n; i++) {
        int d = p.lead + i;
        grad = hlo_mul(p.h, grad, inverse_lengths(p.h, grad, d, p.size[i], hlo_dim(grad, d)));
        grad = adaptive_sums(p.h, grad, d, p.size[i]);
    }
    tpj_out_as(e, grad, p.dtype);
}

void tpj_emit_adaptive_max_pool(tpj_emit *e) {
    tpj_pool p;
    if (!begin_adaptive(e, &p)) return;
    tpj_value *x = tpj_in_as(e, "self", p.compute);
    if (hlo_failed(p.h)) return;
    tpj_pool_best found = {x, tpj_pool_places(&p, p.type.dims)};
    for (int i = p.n - 1; i >= 0; i--) {
        tpj_pool_best along = {NULL, NULL};
        int64_t longest = p.out[i] == 0 ? 1 : longest_window(p.size[i], p.out[i]);
        for (int64_t k = 0; k < longest; k++) {
            tpj_pool_best one = {element_of_windows(p.h, found.value, p.lead + i, p.out[i], k),
                                 element_of_windows(p.h, found.place, p.lead + i, p.out[i], k)};
            along = tpj_pool_better(&p, along, one, false);
        }
        found = along;
    }
    tpj_pool_out(e, &p, found);
}

void tpj_emit_adaptive_max_pool_backward(tpj_emit *e) {
    tpj_pool p;
    if (!tpj_pool_begin(e, &p)) return;
    tpj_value *grad = tpj_in_as(e, "grad_output", p.compute), *indices = tpj_in_as(e, "indices", TPJ_I32);
    if (hlo_failed(p.h)) return;
    for (int i = 0; i < p.n && grad->type.rank == p.type.rank; i++) p.out[i] = hlo_dim(grad, p.lead + i);
    if (!tpj_pool_check_gradient(e, &p, grad)) return;
    tpj_out_as(e, tpj_pool_scatter(&p, grad, indices), p.dtype);
}
