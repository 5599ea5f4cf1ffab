/* Unpooling, and pooling whose windows start where random samples say. */
#include "ops/nn.h"
#include "ops/pool.h"

/* The input's elements at the places that `indices` name, zeros elsewhere. */
void tpj_emit_max_unpool(tpj_emit *e) {
    static const int64_t batch[] = {0}, place[] = {1};
    tpj_pool p;
    if (!tpj_pool_begin(e, &p) || !tpj_nn_ints(e, "output_size", p.n, NULL, p.out)) return;
    tpj_value *x = tpj_in(e, "self"), *index = tpj_in(e, "indices");
    if (hlo_failed(p.h)) return;
    if (index->type.dtype != TPJ_I64 || !hlo_same_dims(x, index)) {
        tpj_fail(e, TPJ_RUNTIME, "indices must be int64 and have the input's shape");
        return;
    }
    int64_t planes = 1, area = 1, elements = 1;
    for (int d = 0; d < p.lead; d++) planes *= p.type.dims[d];
    for (int i = 0; i < p.n; i++) {
        area *= p.out[i];
        elements *= p.size[i];
    }
    const int64_t flat[] = {planes, area}, rows[] = {planes, elements}, columns[] = {planes, elements, 1};
    const hlo_gather_numbers numbers = {.collapsed = place,
                                        .n_collapsed = 1,
                                        .operand_batching = batch,
                                        .indices_batching = batch,
                                        .n_batching = 1,
                                        .start_index_map = place,
                                        .n_start_index_map = 1,
                                        .index_vector_dim = 2};
    index = hlo_convert(p.h, tpj_check_index(e, index, area, false), TPJ_I32);
    tpj_value *y = hlo_scatter(p.h, "replace", hlo_zeros(p.h, p.dtype, 2, flat), hlo_reshape(p.h, index, 3, columns),
                               hlo_reshape(p.h, x, 2, rows), &numbers);
    tpj_out(e, hlo_reshape(p.h, y, p.type.rank, tpj_pool_dims(&p, p.out)));
}

static bool begin(tpj_emit *e, tpj_pool *p) {
    if (!tpj_pool_begin(e, p) || !tpj_nn_ints(e, "kernel_size", p->n, NULL, p->kernel) ||
        !tpj_nn_ints(e, "output_size", p->n, NULL, p->out))
        return false;
    for (int i = 0; i < p->n; i++)
        if (p->out[i] < 1 || p->kernel[i] < 1 || p->out[i] + p->kernel[i] - 1 > p->size[i]) {
            tpj_fail(e, TPJ_RUNTIME, "fractional_max_pool%dd(): pool size %lld too large relative to input size %lld",
                     p->n, (long long)p->kernel[i], (long long)p->size[i]);
            return false;
        }
    return true;
}

/* Where windows start along dimension i, I32 [N, C, out]: floor((o + u) alpha) - floor(u alpha) for a sample u, and the
 * last one as far back as it can. */
static tpj_value *window_starts(const tpj_pool *p, tpj_value *samples, int i) {
    tpj_hlo *h = p->h;
    int64_t out = p->out[i], room = p->size[i] - p->kernel[i];
    int64_t column =
        p->n == 2 ? 1 - i : i; /* two samples are for width and height, three for depth, height and width */
    const int64_t dims[] = {hlo_dim(samples, 0), hlo_dim(samples, 1), out};
    tpj_value *last = hlo_integer(h, TPJ_I32, room);
    if (out == 1) return hlo_expand(h, last, 3, dims);
    double alpha = (double)room / (double)(out - 1);
    tpj_value *u = hlo_expand(h, hlo_slice_dim(h, samples, 2, column, column + 1, 1), 3, dims);
    tpj_value *o = hlo_add(h, hlo_iota(h, p->compute, 3, dims, 2), u);
    tpj_value *start = hlo_convert(h, tpj_nn_mul_number(h, o, alpha), TPJ_I32);
    start = hlo_sub(h, start, hlo_convert(h, tpj_nn_mul_number(h, u, alpha), TPJ_I32));
    tpj_value *is_last = hlo_compare(h, "EQ", hlo_iota(h, TPJ_I32, 3, dims, 2), hlo_integer(h, TPJ_I32, out - 1));
    return hlo_select(h, is_last, last, start);
}

/* Element k of each window along dimension i of x [N, C, *]. */
static tpj_value *element(const tpj_pool *p, tpj_value *x, tpj_value *starts, int i, int64_t k) {
    int64_t dims[2 + TPJ_POOL_SPATIAL], mapping[] = {0, 1, 2 + i};
    for (int d = 0; d < x->type.rank; d++) dims[d] = d == 2 + i ? p->out[i] : hlo_dim(x, d);
    tpj_value *index = hlo_add(p->h, starts, hlo_integer(p->h, TPJ_I32, k));
    return hlo_take_along(p->h, x, hlo_broadcast_in_dim(p->h, index, x->type.rank, dims, mapping), 2 + i);
}

void tpj_emit_fractional_max_pool(tpj_emit *e) {
    tpj_pool p;
    if (!begin(e, &p)) return;
    tpj_hlo *h = p.h;
    tpj_value *x = tpj_in_as(e, "self", p.compute), *samples = tpj_in_as(e, "random_samples", p.compute);
    if (hlo_failed(h)) return;
    int64_t batched[2 + TPJ_POOL_SPATIAL] = {p.lead == 2 ? p.type.dims[0] : 1, p.type.dims[p.lead - 1]};
    for (int i = 0; i < p.n; i++) batched[2 + i] = p.size[i];
    if (samples->type.rank != 3 || hlo_dim(samples, 0) < batched[0] || hlo_dim(samples, 1) < batched[1] ||
        hlo_dim(samples, 2) != p.n) {
        tpj_fail(e, TPJ_RUNTIME, "Expect _random_samples to be of the input's batch and channels, and %d", p.n);
        return;
    }
    const int64_t zeros[] = {0, 0, 0}, ones[] = {1, 1, 1}, used[] = {batched[0], batched[1], p.n};
    samples = hlo_slice(h, samples, zeros, used, ones);
    tpj_pool_best found = {hlo_reshape(h, x, 2 + p.n, batched),
                           hlo_reshape(h, tpj_pool_places(&p, p.type.dims), 2 + p.n, batched)};
    for (int i = p.n - 1; i >= 0; i--) {
        tpj_value *starts = window_starts(&p, samples, i);
        tpj_pool_best along = {NULL, NULL};
        for (int64_t k = 0; k < p.kernel[i]; k++) {
            tpj_pool_best one = {element(&p, found.value, starts, i, k), element(&p, found.place, starts, i, k)};
            along = tpj_pool_better(&p, along, one, false);
        }
        found = along;
    }
    const int64_t *dims = tpj_pool_dims(&p, p.out);
    found.value = hlo_reshape(h, found.value, p.type.rank, dims);
    found.place = hlo_reshape(h, found.place, p.type.rank, dims);
    tpj_pool_out(e, &p, found);
}

void tpj_emit_fractional_max_pool_backward(tpj_emit *e) {
    tpj_pool p;
    if (!begin(e, &p)) return;
    tpj_value *grad = tpj_in_as(e, "grad_output", p.compute), *indices = tpj_in_as(e, "indices", TPJ_I32);
    if (hlo_failed(p.h) || !tpj_pool_check_gradient(e, &p, grad)) return;
    tpj_out_as(e, tpj_pool_scatter(&p, grad, indices), p.dtype);
}
