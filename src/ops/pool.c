/* Pooling over the last two or three dimensions (the row's `variant`), adaptive pooling included.
 *
 * Maxima with their places are taken one dimension after the other, as comparisons of shifted slices: that fuses into one
 * loop, needs no gather, and keeps PyTorch's choice (the first of equal elements in row-major order, the last NaN). */
#include "ops/pool.h"
#include "ops/nn.h"

int64_t *tpj_pool_dims(const tpj_pool *p, const int64_t *sizes) {
    int64_t *dims = hlo_dims(p->h, p->type.rank);
    for (int d = 0; d < p->type.rank; d++) dims[d] = d < p->lead ? p->type.dims[d] : sizes[d - p->lead];
    return dims;
}

/* [C, *] or [N, C, *], and none of the sizes but the batch zero. */
bool tpj_pool_begin(tpj_emit *e, tpj_pool *p) {
    tpj_type type = tpj_in_type(e, "self");
    *p = (tpj_pool){.h = tpj_builder(e), .n = tpj_row(e)->variant, .type = type, .dtype = type.dtype};
    p->compute = tpj_compute_dtype(type.dtype);
    p->lead = type.rank - p->n;
    if (p->lead < 1 || p->lead > 2) {
        tpj_fail(
            e, TPJ_RUNTIME,
            "Expected %dD or %dD (batch mode) tensor with optional 0 dim batch size for input, but got %d dimensions",
            p->n + 1, p->n + 2, type.rank);
        return false;
    }
    for (int i = 0; i < p->n; i++) {
        p->size[i] = type.dims[p->lead + i];
        p->dilation[i] = 1;
    }
    for (int d = p->lead - 1; d < type.rank; d++)
        if (type.dims[d] == 0) {
            tpj_fail(e, TPJ_RUNTIME,
                     "Expected input's non-batch dimensions to have positive length, but dimension %d has size 0", d);
            return false;
        }
    return true;
}

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* kernel_size, stride (the kernel when empty), padding, dilation where the row has one, and the output sizes. */
static bool read_windows(tpj_emit *e, tpj_pool *p, bool dilated) {
    static const int64_t zeros[] = {0, 0, 0}, ones[] = {1, 1, 1};
    if (!tpj_nn_ints(e, "kernel_size", p->n, NULL, p->kernel) ||
        !tpj_nn_ints(e, "stride", p->n, p->kernel, p->stride) || !tpj_nn_ints(e, "padding", p->n, zeros, p->padding) ||
        (dilated && !tpj_nn_ints(e, "dilation", p->n, ones, p->dilation)))
        return false;
    bool ceil_mode = tpj_bool(e, "ceil_mode", false);
    for (int i = 0; i < p->n; i++) {
        if (p->kernel[i] <= 0 || p->stride[i] <= 0 || p->dilation[i] <= 0) {
            tpj_fail(e, TPJ_RUNTIME,
                     p->stride[i] == 0 ? "stride should not be zero"
                                       : "kernel size, stride and dilation should be greater than zero");
            return false;
        }
        int64_t extent = p->dilation[i] * (p->kernel[i] - 1) + 1;
        if (p->padding[i] < 0 || p->padding[i] > extent / 2) {
            tpj_fail(e, TPJ_RUNTIME,
                     "pad should be at most half of effective kernel size, but got pad=%lld, kernel_size=%lld and "
                     "dilation=%lld",
                     (long long)p->padding[i], (long long)p->kernel[i], (long long)p->dilation[i]);
            return false;
        }
        int64_t room = p->size[i] + 2 * p->padding[i] - extent + (ceil_mode ? p->stride[i] - 1 : 0);
        p->out[i] = floor_divide(room, p->stride[i]) + 1;
        /* The last window has to start inside the input or its left padding. */
        if (ceil_mode && (p->out[i] - 1) * p->stride[i] >= p->size[i] + p->padding[i]) p->out[i]--;
        if (p->out[i] < 1) {
            tpj_fail(e, TPJ_RUNTIME, "Given input size %lld, calculated output size %lld: output size is too small",
                     (long long)p->size[i], (long long)p->out[i]);
            return false;
        }
    }
    return true;
}

/* Padding so that the windows cover all of the array: low as given, high (negative: a crop) up to the last window's end. */
static void window_padding(const tpj_pool *p, int64_t *low, int64_t *high) {
    for (int d = 0; d < p->type.rank; d++) low[d] = high[d] = 0;
    for (int i = 0; i < p->n; i++) {
        int64_t end = (p->out[i] - 1) * p->stride[i] + p->dilation[i] * (p->kernel[i] - 1) + 1;
        low[p->lead + i] = p->padding[i];
        high[p->lead + i] = end - p->size[i] - p->padding[i];
    }
}

/* ---- maxima ---- */

tpj_value *tpj_pool_places(const tpj_pool *p, const int64_t *dims) {
    tpj_hlo *h = p->h;
    tpj_value *place = NULL;
    for (int i = 0; i < p->n; i++) {
        tpj_value *coordinate = hlo_iota(h, TPJ_I32, p->type.rank, dims, p->lead + i);
        if (place != NULL) place = hlo_mul(h, place, hlo_integer(h, TPJ_I32, p->size[i]));
        place = place == NULL ? coordinate : hlo_add(h, place, coordinate);
    }
    return place;
}

tpj_pool_best tpj_pool_better(const tpj_pool *p, tpj_pool_best a, tpj_pool_best b, bool padded) {
    tpj_hlo *h = p->h;
    if (a.value == NULL) return b;
    tpj_value *wins = hlo_compare(h, "GT", b.value, a.value);
    if (tpj_dtype_is_float(p->compute)) wins = hlo_or(h, wins, hlo_is_nan(h, b.value));
    if (padded) {
        wins = hlo_or(h, wins, hlo_compare(h, "LT", a.place, hlo_integer(h, TPJ_I32, 0)));
        wins = hlo_and(h, wins, hlo_compare(h, "GE", b.place, hlo_integer(h, TPJ_I32, 0)));
    }
    return (tpj_pool_best){hlo_select(h, wins, b.value, a.value), hlo_select(h, wins, b.place, a.place)};
}

void tpj_pool_out(tpj_emit *e, const tpj_pool *p, tpj_pool_best found) {
    tpj_out_as(e, found.value, p->dtype);
    tpj_out_as(e, found.place, TPJ_I64);
}

static void emit_max_pool(tpj_emit *e) {
    tpj_pool p;
    int64_t low[TPJ_POOL_RANK], high[TPJ_POOL_RANK];
    if (!tpj_pool_begin(e, &p) || !read_windows(e, &p, true)) return;
    tpj_hlo *h = p.h;
    tpj_value *x = tpj_in_as(e, "self", p.compute);
    if (hlo_failed(h)) return;
    window_padding(&p, low, high);
    bool padded = false;
    for (int d = 0; d < p.type.rank; d++) padded = padded || low[d] > 0 || high[d] > 0;
    tpj_pool_best found = {hlo_pad(h, x, hlo_lowest(h, p.compute), low, high, NULL),
                           hlo_pad(h, tpj_pool_places(&p, p.type.dims), hlo_integer(h, TPJ_I32, -1), low, high, NULL)};
    for (int i = p.n - 1; i >= 0; i--) {
        tpj_pool_best along = {NULL, NULL};
        for (int64_t k = 0; k < p.kernel[i]; k++) {
            int64_t start = k * p.dilation[i], limit = start + (p.out[i] - 1) * p.stride[i] + 1;
            tpj_pool_best one = {hlo_slice_dim(h, found.value, p.lead + i, start, limit, p.stride[i]),
                                 hlo_slice_dim(h, found.place, p.lead + i, start, limit, p.stride[i])};
            along = tpj_pool_better(&p, along, one, padded);
        }
        found = along;
    }
    tpj_pool_out(e, &p, found);
}

/* grad and indices [.., out] to the input's shape: each plane's gradients added at their places. */
tpj_value *tpj_pool_scatter(const tpj_pool *p, tpj_value *grad, tpj_value *indices) {
    tpj_hlo *h = p->h;
    int64_t planes = 1, area = 1, outs = 1;
    for (int d = 0; d < p->lead; d++) planes *= p->type.dims[d];
    for (int i = 0; i < p->n; i++) {
        area *= p->size[i];
        outs *= p->out[i];
    }
    const int64_t flat[] = {planes, area}, rows[] = {planes, outs}, columns[] = {planes, outs, 1};
    const int64_t batch[] = {0}, plane_dim[] = {1};
    const hlo_gather_numbers numbers = {.collapsed = plane_dim,
                                        .n_collapsed = 1,
                                        .operand_batching = batch,
                                        .indices_batching = batch,
                                        .n_batching = 1,
                                        .start_index_map = plane_dim,
                                        .n_start_index_map = 1,
                                        .index_vector_dim = 2};
    tpj_value *result = hlo_scatter(h, "add", hlo_zeros(h, p->compute, 2, flat), hlo_reshape(h, indices, 3, columns),
                                    hlo_reshape(h, grad, 2, rows), &numbers);
    return hlo_reshape(h, result, p->type.rank, p->type.dims);
}

/* What output places give to the inputs that kernel element `position` met: spread by the stride, shifted. */
static tpj_value *spread_back(const tpj_pool *p, tpj_value *x, const int64_t *position, const int64_t *total) {
    int64_t low[TPJ_POOL_RANK] = {0}, high[TPJ_POOL_RANK] = {0}, interior[TPJ_POOL_RANK] = {0};
    for (int i = 0; i < p->n; i++) {
        int d = p->lead + i;
        low[d] = position[i] * p->dilation[i];
        interior[d] = p->stride[i] - 1;
        high[d] = total[i] - low[d] - ((p->out[i] - 1) * p->stride[i] + 1);
    }
    return hlo_pad(p->h, x, tpj_nn_number(p->h, x, 0), low, high, interior);
}

/* For small kernels: an input gets the gradient of each window that it met and whose index names it. No scatter. */
static tpj_value *compare_back(const tpj_pool *p, tpj_value *grad, tpj_value *indices, int64_t n_elements) {
    tpj_hlo *h = p->h;
    int64_t total[TPJ_POOL_SPATIAL], position[TPJ_POOL_SPATIAL], low[TPJ_POOL_RANK], high[TPJ_POOL_RANK];
    tpj_value *sum = NULL;
    window_padding(p, low, high);
    for (int i = 0; i < p->n; i++) total[i] = p->size[i] + low[p->lead + i] + high[p->lead + i];
    for (int64_t k = 0; k < n_elements; k++) {
        int64_t rest = k;
        for (int i = p->n - 1; i >= 0; rest /= p->kernel[i--]) position[i] = rest % p->kernel[i];
        tpj_value *place = NULL; /* of the input that this element of each window meets */
        for (int i = 0; i < p->n; i++) {
            tpj_value *at = hlo_iota(h, TPJ_I32, p->type.rank, grad->type.dims, p->lead + i);
            at = hlo_mul(h, at, hlo_integer(h, TPJ_I32, p->stride[i]));
            at = hlo_add(h, at, hlo_integer(h, TPJ_I32, position[i] * p->dilation[i] - p->padding[i]));
            place = place == NULL ? at : hlo_add(h, hlo_mul(h, place, hlo_integer(h, TPJ_I32, p->size[i])), at);
        }
        tpj_value *own = tpj_nn_where(h, hlo_compare(h, "EQ", indices, place), grad);
        own = spread_back(p, own, position, total);
        sum = sum == NULL ? own : hlo_add(h, sum, own);
    }
    for (int d = 0; d < p->type.rank; d++) {
        low[d] = -low[d];
        high[d] = -high[d];
    }
    return hlo_pad(h, sum, tpj_nn_number(h, sum, 0), low, high, NULL);
}

bool tpj_pool_check_gradient(tpj_emit *e, const tpj_pool *p, const tpj_value *grad) {
    const int64_t *dims = tpj_pool_dims(p, p->out);
    bool fits = grad->type.rank == p->type.rank;
    for (int d = 0; fits && d < p->type.rank; d++) fits = hlo_dim(grad, d) == dims[d];
    if (!fits) tpj_fail(e, TPJ_RUNTIME, "grad_output does not have the shape of the pooling's output");
    return fits;
}

static void emit_max_pool_backward(tpj_emit *e) {
    enum { MAX_COMPARED = 32 };
    tpj_pool p;
    if (!tpj_pool_begin(e, &p) || !read_windows(e, &p, true)) return;
    tpj_value *grad = tpj_in_as(e, "grad_output", p.compute), *indices = tpj_in_as(e, "indices", TPJ_I32);
    if (hlo_failed(p.h) || !tpj_pool_check_gradient(e, &p, grad)) return;
    int64_t n_elements = 1;
    for (int i = 0; i < p.n; i++) n_elements *= p.kernel[i];
    tpj_value *x =
        n_elements <= MAX_COMPARED ? compare_back(&p, grad, indices, n_elements) : tpj_pool_scatter(&p, grad, indices);
    tpj_out_as(e, x, p.dtype);
}

/* ---- means ---- */

/* What each window's sum is divided by, as an array along each dimension whose product it is; or NULL and one number. */
static tpj_value *divide_by_count(tpj_emit *e, const tpj_pool *p, tpj_value *x) {
    tpj_hlo *h = p->h;
    bool include_pad = tpj_bool(e, "count_include_pad", true);
    double same = 1;
    if (tpj_has(e, "divisor_override")) return hlo_div(h, x, tpj_scalar(e, "divisor_override", x->type.dtype));
    tpj_value *divisor = NULL;
    for (int i = 0; i < p->n; i++) {
        double *counts = TPJ_ARENA_ARRAY(hlo_arena(h), double, p->out[i]);
        bool uniform = true;
        for (int64_t o = 0; counts != NULL && o < p->out[i]; o++) {
            int64_t start = o * p->stride[i] - p->padding[i], end = start + p->kernel[i];
            if (end > p->size[i] + p->padding[i]) end = p->size[i] + p->padding[i];
            if (!include_pad) {
                start = start < 0 ? 0 : start;
                end = end > p->size[i] ? p->size[i] : end;
            }
            counts[o] = (double)(end - start);
            uniform = uniform && counts[o] == counts[0];
        }
        if (counts == NULL) return x;
        if (uniform) {
            same *= counts[0];
            continue;
        }
        tpj_value *along = tpj_nn_along(h, hlo_array_of_numbers(h, p->compute, 1, &p->out[i], counts), x, p->lead + i);
        divisor = divisor == NULL ? along : hlo_mul(h, divisor, along);
    }
    tpj_value *factor = tpj_nn_number(h, x, same);
    return hlo_div(h, x, divisor == NULL ? factor : hlo_mul(h, divisor, factor));
}

static bool check_divisor(tpj_emit *e) {
    tpj_fit_span(e, NULL, "divisor_override", INT32_MAX); /* zero is compiled for, and fails here */
    if (!tpj_is_constant(e, "divisor_override")) return true;
    if (tpj_int(e, "divisor_override", 1) != 0) return true;
    tpj_fail(e, TPJ_RUNTIME, "divisor must be not zero");
    return false;
}

static tpj_value *window_sums(const tpj_pool *p, tpj_value *x, const int64_t *steps, const int64_t *low,
                              const int64_t *high) {
    int64_t size[TPJ_POOL_RANK] = {1, 1, 1, 1, 1}, step[TPJ_POOL_RANK] = {1, 1, 1, 1, 1};
    for (int i = 0; i < p->n; i++) {
        size[p->lead + i] = p->kernel[i];
        step[p->lead + i] = steps[i];
    }
    const hlo_window window = {.size = size, .step = step, .low = low, .high = high};
    return hlo_reduce_window(p->h, "add", x, tpj_nn_number(p->h, x, 0), &window);
}

static void emit_avg_pool(tpj_emit *e) {
    tpj_pool p;
    int64_t low[TPJ_POOL_RANK], high[TPJ_POOL_RANK];
    if (!check_divisor(e) || !tpj_pool_begin(e, &p) || !read_windows(e, &p, false)) return;
    tpj_value *x = tpj_in_as(e, "self", p.compute);
    if (hlo_failed(p.h)) return;
    window_padding(&p, low, high);
    x = hlo_pad(p.h, x, tpj_nn_number(p.h, x, 0), low, high, NULL); /* a window op cannot crop */
    x = window_sums(&p, x, p.stride, NULL, NULL);
    tpj_out_as(e, divide_by_count(e, &p, x), p.dtype);
}

/* Every input gets the sum of its windows' gradients: windows of the same kernel over the gradients, spread by the stride. */
static void emit_avg_pool_backward(tpj_emit *e) {
    static const int64_t ones[] = {1, 1, 1};
    tpj_pool p;
    int64_t low[TPJ_POOL_RANK] = {0}, high[TPJ_POOL_RANK] = {0}, interior[TPJ_POOL_RANK] = {0};
    if (!check_divisor(e) || !tpj_pool_begin(e, &p) || !read_windows(e, &p, false)) return;
    tpj_value *grad = tpj_in_as(e, "grad_output", p.compute);
    if (hlo_failed(p.h) || !tpj_pool_check_gradient(e, &p, grad)) return;
    grad = divide_by_count(e, &p, grad);
    for (int i = 0; i < p.n; i++) {
        int d = p.lead + i;
        interior[d] = p.stride[i] - 1;
        low[d] = p.kernel[i] - 1 - p.padding[i];
        high[d] = p.size[i] + p.padding[i] - ((p.out[i] - 1) * p.stride[i] + 1);
    }
    grad = hlo_pad(p.h, grad, tpj_nn_number(p.h, grad, 0), low, high, interior);
    tpj_out_as(e, window_sums(&p, grad, ones, NULL, NULL), p.dtype);
}

#define ROW(op, parameters, emitter, n) \
    {.name = op, .params = parameters, .emit = emitter, .variant = n, .layout = TPJ_LAYOUT_CHANNELS_LAST}
/* PyTorch's CPU kernels of these give their results in row-major order, whatever that of the input. */
#define PLAIN(op, parameters, emitter, n) {.name = op, .params = parameters, .emit = emitter, .variant = n}
#define MAX_PARAMS "T self, I[] kernel_size, I[]? stride, I[]? padding, I[]? dilation, B ceil_mode=false"
#define MAX_BACKWARD \
    "T grad_output, T self, I[] kernel_size, I[]? stride, I[] padding, I[] dilation, B ceil_mode, T indices"
#define AVG_TAIL ", B ceil_mode=false, B count_include_pad=true, I~? divisor_override"
#define AVG_PARAMS "T self, I[] kernel_size, I[]? stride, I[]? padding" AVG_TAIL
#define AVG_BACKWARD "T grad_output, T self, I[] kernel_size, I[]? stride, I[] padding" AVG_TAIL
#define FRACTIONAL "T self, I[] kernel_size, I[] output_size, T random_samples"
#define FRACTIONAL_BACKWARD "T grad_output, T self, I[] kernel_size, I[] output_size, T indices"

const tpj_op_def tpj_ops_pool[] = {
    ROW("max_pool2d_with_indices", MAX_PARAMS, emit_max_pool, 2),
    ROW("max_pool3d_with_indices", MAX_PARAMS, emit_max_pool, 3),
    ROW("max_pool2d_with_indices_backward", MAX_BACKWARD, emit_max_pool_backward, 2),
    ROW("max_pool3d_with_indices_backward", MAX_BACKWARD, emit_max_pool_backward, 3),
    ROW("avg_pool2d", AVG_PARAMS, emit_avg_pool, 2),
    PLAIN("avg_pool3d", AVG_PARAMS, emit_avg_pool, 3),
    ROW("avg_pool2d_backward", AVG_BACKWARD, emit_avg_pool_backward, 2),
    ROW("avg_pool3d_backward", AVG_BACKWARD, emit_avg_pool_backward, 3),
    ROW("_adaptive_avg_pool2d", "T self, I[] output_size", tpj_emit_adaptive_avg_pool, 2),
    PLAIN("_adaptive_avg_pool3d", "T self, I[] output_size", tpj_emit_adaptive_avg_pool, 3),
    ROW("_adaptive_avg_pool2d_backward", "T grad_output, T self", tpj_emit_adaptive_avg_pool_backward, 2),
    ROW("_adaptive_avg_pool3d_backward", "T grad_output, T self", tpj_emit_adaptive_avg_pool_backward, 3),
    ROW("adaptive_max_pool2d", "T self, I[] output_size", tpj_emit_adaptive_max_pool, 2),
    PLAIN("adaptive_max_pool3d", "T self, I[] output_size", tpj_emit_adaptive_max_pool, 3),
    ROW("adaptive_max_pool2d_backward", "T grad_output, T self, T indices", tpj_emit_adaptive_max_pool_backward, 2),
    ROW("adaptive_max_pool3d_backward", "T grad_output, T self, T indices", tpj_emit_adaptive_max_pool_backward, 3),
    ROW("max_unpool2d", "T self, T indices, I[] output_size", tpj_emit_max_unpool, 2),
    PLAIN("max_unpool3d", "T self, T indices, I[] output_size", tpj_emit_max_unpool, 3),
    PLAIN("fractional_max_pool2d", FRACTIONAL, tpj_emit_fractional_max_pool, 2),
    PLAIN("fractional_max_pool3d", FRACTIONAL, tpj_emit_fractional_max_pool, 3),
    ROW("fractional_max_pool2d_backward", FRACTIONAL_BACKWARD, tpj_emit_fractional_max_pool_backward, 2),
    ROW("fractional_max_pool3d_backward", FRACTIONAL_BACKWARD, tpj_emit_fractional_max_pool_backward, 3),
    {0}};
