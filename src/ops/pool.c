/* Pooling over the last two or three dimensions (the row's `variant`), adaptive pooling included.
 *
 * Maxima with their places are taken one dimension after the other, as comparisons of shifted slices: that fuses into one
 * loop, needs no gather, and keeps PyTorch's choice (the first of equal elements in row-major order, the last NaN). */
#include "ops/nn.h"

enum { MAX_SPATIAL = 3, MAX_RANK = 5 };

typedef struct pool {
    tpj_hlo *h;
    tpj_dtype dtype, compute;
    int n, lead; /* pooled dimensions; dimensions before them */
    tpj_type type;                                                      /* of the input */
    int64_t kernel[MAX_SPATIAL], stride[MAX_SPATIAL], padding[MAX_SPATIAL], dilation[MAX_SPATIAL];
    int64_t size[MAX_SPATIAL], out[MAX_SPATIAL];
} pool;

/* What `dims` of the input become: the leading ones stay. */
static int64_t *with_spatial(const pool *p, const int64_t *sizes) {
    int64_t *dims = hlo_dims(p->h, p->type.rank);
    for (int d = 0; d < p->type.rank; d++) dims[d] = d < p->lead ? p->type.dims[d] : sizes[d - p->lead];
    return dims;
}

/* The type of the input: [C, *] or [N, C, *]. */
static bool begin(tpj_emit *e, pool *p) {
    tpj_type type = tpj_in_type(e, "self");
    *p = (pool){.h = tpj_builder(e), .n = tpj_row(e)->variant, .type = type, .dtype = type.dtype};
    p->compute = tpj_compute_dtype(type.dtype);
    p->lead = type.rank - p->n;
    if (p->lead < 1 || p->lead > 2) {
        tpj_fail(e, TPJ_RUNTIME, "Expected %dD or %dD (batch mode) tensor with optional 0 dim batch size for input, but got %d dimensions",
                 p->n + 1, p->n + 2, type.rank);
        return false;
    }
    for (int i = 0; i < p->n; i++) {
        p->size[i] = type.dims[p->lead + i];
        p->dilation[i] = 1;
    }
    for (int d = p->lead - 1; d < type.rank; d++)
        if (type.dims[d] == 0) {
            tpj_fail(e, TPJ_RUNTIME, "Expected input's non-batch dimensions to have positive length, but dimension %d has size 0", d);
            return false;
        }
    return true;
}

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* kernel_size, stride (the kernel when empty), padding, dilation where the row has one, and the output sizes. */
static bool read_windows(tpj_emit *e, pool *p, bool dilated) {
    static const int64_t zeros[] = {0, 0, 0}, ones[] = {1, 1, 1};
    if (!tpj_nn_ints(e, "kernel_size", p->n, NULL, p->kernel) || !tpj_nn_ints(e, "stride", p->n, p->kernel, p->stride) ||
        !tpj_nn_ints(e, "padding", p->n, zeros, p->padding) || (dilated && !tpj_nn_ints(e, "dilation", p->n, ones, p->dilation)))
        return false;
    bool ceil_mode = tpj_bool(e, "ceil_mode", false);
    for (int i = 0; i < p->n; i++) {
        if (p->kernel[i] <= 0 || p->stride[i] <= 0 || p->dilation[i] <= 0) {
            tpj_fail(e, TPJ_RUNTIME, p->stride[i] == 0 ? "stride should not be zero"
                                                       : "kernel size, stride and dilation should be greater than zero");
            return false;
        }
        int64_t extent = p->dilation[i] * (p->kernel[i] - 1) + 1;
        if (p->padding[i] < 0 || p->padding[i] > extent / 2) {
            tpj_fail(e, TPJ_RUNTIME, "pad should be at most half of effective kernel size, but got pad=%lld, kernel_size=%lld and dilation=%lld",
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
static void window_padding(const pool *p, int64_t *low, int64_t *high) {
    for (int d = 0; d < p->type.rank; d++) low[d] = high[d] = 0;
    for (int i = 0; i < p->n; i++) {
        int64_t end = (p->out[i] - 1) * p->stride[i] + p->dilation[i] * (p->kernel[i] - 1) + 1;
        low[p->lead + i] = p->padding[i];
        high[p->lead + i] = end - p->size[i] - p->padding[i];
    }
}

/* ---- maxima ---- */

/* The number of each element within its plane, I32, in x's shape. */
static tpj_value *places(const pool *p, const int64_t *dims) {
    tpj_hlo *h = p->h;
    tpj_value *place = NULL;
    for (int i = 0; i < p->n; i++) {
        tpj_value *coordinate = hlo_iota(h, TPJ_I32, p->type.rank, dims, p->lead + i);
        if (place != NULL) place = hlo_mul(h, place, hlo_integer(h, TPJ_I32, p->size[i]));
        place = place == NULL ? coordinate : hlo_add(h, place, coordinate);
    }
    return place;
}

typedef struct best {
    tpj_value *value, *place; /* place -1: padding */
} best;

/* The better of two, where `a` comes before `b`. */
static best better(const pool *p, best a, best b, bool padded) {
    tpj_hlo *h = p->h;
    if (a.value == NULL) return b;
    tpj_value *wins = hlo_compare(h, "GT", b.value, a.value);
    if (tpj_dtype_is_float(p->compute)) wins = hlo_or(h, wins, hlo_is_nan(h, b.value));
    if (padded) {
        wins = hlo_or(h, wins, hlo_compare(h, "LT", a.place, hlo_integer(h, TPJ_I32, 0)));
        wins = hlo_and(h, wins, hlo_compare(h, "GE", b.place, hlo_integer(h, TPJ_I32, 0)));
    }
    return (best){hlo_select(h, wins, b.value, a.value), hlo_select(h, wins, b.place, a.place)};
}

static void finish_maxima(tpj_emit *e, const pool *p, best found) {
    tpj_out_as(e, found.value, p->dtype);
    tpj_out_as(e, found.place, TPJ_I64);
}

static void emit_max_pool(tpj_emit *e) {
    pool p;
    int64_t low[MAX_RANK], high[MAX_RANK];
    if (!begin(e, &p) || !read_windows(e, &p, true)) return;
    tpj_hlo *h = p.h;
    tpj_value *x = tpj_in_as(e, "self", p.compute);
    if (hlo_failed(h)) return;
    window_padding(&p, low, high);
    bool padded = false;
    for (int d = 0; d < p.type.rank; d++) padded = padded || low[d] > 0 || high[d] > 0;
    best found = {hlo_pad(h, x, hlo_lowest(h, p.compute), low, high, NULL),
                  hlo_pad(h, places(&p, p.type.dims), hlo_integer(h, TPJ_I32, -1), low, high, NULL)};
    for (int i = p.n - 1; i >= 0; i--) {
        best along = {NULL, NULL};
        for (int64_t k = 0; k < p.kernel[i]; k++) {
            int64_t start = k * p.dilation[i], limit = start + (p.out[i] - 1) * p.stride[i] + 1;
            best one = {hlo_slice_dim(h, found.value, p.lead + i, start, limit, p.stride[i]),
                        hlo_slice_dim(h, found.place, p.lead + i, start, limit, p.stride[i])};
            along = better(&p, along, one, padded);
        }
        found = along;
    }
    finish_maxima(e, &p, found);
}

/* grad and indices [.., out] to the input's shape: each plane's gradients added at their places. */
static tpj_value *scatter_planes(const pool *p, tpj_value *grad, tpj_value *indices) {
    tpj_hlo *h = p->h;
    int64_t planes = 1, area = 1, outs = 1;
    for (int d = 0; d < p->lead; d++) planes *= p->type.dims[d];
    for (int i = 0; i < p->n; i++) {
        area *= p->size[i];
        outs *= p->out[i];
    }
    const int64_t flat[] = {planes, area}, rows[] = {planes, outs}, columns[] = {planes, outs, 1};
    const int64_t batch[] = {0}, plane_dim[] = {1};
    const hlo_gather_numbers numbers = {
        .collapsed = plane_dim, .n_collapsed = 1, .operand_batching = batch, .indices_batching = batch, .n_batching = 1,
        .start_index_map = plane_dim, .n_start_index_map = 1, .index_vector_dim = 2};
    tpj_value *result = hlo_scatter(h, "add", hlo_zeros(h, p->compute, 2, flat), hlo_reshape(h, indices, 3, columns),
                                    hlo_reshape(h, grad, 2, rows), &numbers);
    return hlo_reshape(h, result, p->type.rank, p->type.dims);
}

/* What output places give to the inputs that kernel element `position` met: spread by the stride, shifted. */
static tpj_value *spread_back(const pool *p, tpj_value *x, const int64_t *position, const int64_t *total) {
    int64_t low[MAX_RANK] = {0}, high[MAX_RANK] = {0}, interior[MAX_RANK] = {0};
    for (int i = 0; i < p->n; i++) {
        int d = p->lead + i;
        low[d] = position[i] * p->dilation[i];
        interior[d] = p->stride[i] - 1;
        high[d] = total[i] - low[d] - ((p->out[i] - 1) * p->stride[i] + 1);
    }
    return hlo_pad(p->h, x, tpj_nn_number(p->h, x, 0), low, high, interior);
}

/* For small kernels: an input gets the gradient of each window that it met and whose index names it. No scatter. */
static tpj_value *compare_back(const pool *p, tpj_value *grad, tpj_value *indices, int64_t n_elements) {
    tpj_hlo *h = p->h;
    int64_t total[MAX_SPATIAL], position[MAX_SPATIAL], low[MAX_RANK], high[MAX_RANK];
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

static bool check_gradient(tpj_emit *e, const pool *p, const tpj_value *grad) {
    const int64_t *dims = with_spatial(p, p->out);
    bool fits = grad->type.rank == p->type.rank;
    for (int d = 0; fits && d < p->type.rank; d++) fits = hlo_dim(grad, d) == dims[d];
    if (!fits) tpj_fail(e, TPJ_RUNTIME, "grad_output does not have the shape of the pooling's output");
    return fits;
}

static void emit_max_pool_backward(tpj_emit *e) {
    enum { MAX_COMPARED = 32 };
    pool p;
    if (!begin(e, &p) || !read_windows(e, &p, true)) return;
    tpj_value *grad = tpj_in_as(e, "grad_output", p.compute), *indices = tpj_in_as(e, "indices", TPJ_I32);
    if (hlo_failed(p.h) || !check_gradient(e, &p, grad)) return;
    int64_t n_elements = 1;
    for (int i = 0; i < p.n; i++) n_elements *= p.kernel[i];
    tpj_value *x = n_elements <= MAX_COMPARED ? compare_back(&p, grad, indices, n_elements) : scatter_planes(&p, grad, indices);
    tpj_out_as(e, x, p.dtype);
}

/* ---- means ---- */

/* What each window's sum is divided by, as an array along each dimension whose product it is; or NULL and one number. */
static tpj_value *divide_by_count(tpj_emit *e, const pool *p, tpj_value *x) {
    tpj_hlo *h = p->h;
    int64_t override = tpj_int(e, "divisor_override", 0);
    bool include_pad = tpj_bool(e, "count_include_pad", true);
    double same = 1;
    if (tpj_has(e, "divisor_override")) return hlo_div(h, x, tpj_nn_number(h, x, (double)override));
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
    if (!tpj_has(e, "divisor_override") || tpj_int(e, "divisor_override", 1) != 0) return true;
    tpj_fail(e, TPJ_RUNTIME, "divisor must be not zero");
    return false;
}

static tpj_value *window_sums(const pool *p, tpj_value *x, const int64_t *steps, const int64_t *low, const int64_t *high) {
    int64_t size[MAX_RANK] = {1, 1, 1, 1, 1}, step[MAX_RANK] = {1, 1, 1, 1, 1};
    for (int i = 0; i < p->n; i++) {
        size[p->lead + i] = p->kernel[i];
        step[p->lead + i] = steps[i];
    }
    const hlo_window window = {.size = size, .step = step, .low = low, .high = high};
    return hlo_reduce_window(p->h, "add", x, tpj_nn_number(p->h, x, 0), &window);
}

static void emit_avg_pool(tpj_emit *e) {
    pool p;
    int64_t low[MAX_RANK], high[MAX_RANK];
    if (!check_divisor(e) || !begin(e, &p) || !read_windows(e, &p, false)) return;
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
    pool p;
    int64_t low[MAX_RANK] = {0}, high[MAX_RANK] = {0}, interior[MAX_RANK] = {0};
    if (!check_divisor(e) || !begin(e, &p) || !read_windows(e, &p, false)) return;
    tpj_value *grad = tpj_in_as(e, "grad_output", p.compute);
    if (hlo_failed(p.h) || !check_gradient(e, &p, grad)) return;
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

/* ---- adaptive pooling: output o covers inputs floor(o * size / out) up to ceil((o + 1) * size / out) ---- */

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
        return sums == NULL ? hlo_fail(h, TPJ_OUT_OF_MEMORY, "out of host memory") : hlo_concatenate(h, sums, (int)out, d);
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

static bool begin_adaptive(tpj_emit *e, pool *p) {
    if (!begin(e, p) || !tpj_nn_ints(e, "output_size", p->n, NULL, p->out)) return false;
    for (int i = 0; i < p->n; i++)
        if (p->out[i] < 0) {
            tpj_fail(e, TPJ_RUNTIME, "elements of output_size must be greater than or equal to 0");
            return false;
        }
    return true;
}

static void emit_adaptive_avg_pool(tpj_emit *e) {
    pool p;
    if (!begin_adaptive(e, &p)) return;
    if (!tpj_nn_require_float(e, "self")) return;
    tpj_value *x = tpj_in_as(e, "self", p.compute);
    if (hlo_failed(p.h)) return;
    if (p.out[0] == 0 || p.out[1] == 0 || p.out[p.n - 1] == 0) {
        tpj_out(e, hlo_zeros(p.h, p.dtype, p.type.rank, with_spatial(&p, p.out)));
        return;
    }
    for (int i = p.n - 1; i >= 0; i--) {
        x = adaptive_sums(p.h, x, p.lead + i, p.out[i]);
        x = hlo_mul(p.h, x, inverse_lengths(p.h, x, p.lead + i, p.size[i], p.out[i]));
    }
    tpj_out_as(e, x, p.dtype);
}

/* Input h lies in the windows of outputs floor(h * out / size) up to ceil((h + 1) * out / size): the same rule, turned. */
static void emit_adaptive_avg_pool_backward(tpj_emit *e) {
    pool p;
    if (!begin(e, &p)) return;
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

static void emit_adaptive_max_pool(tpj_emit *e) {
    pool p;
    if (!begin_adaptive(e, &p)) return;
    tpj_value *x = tpj_in_as(e, "self", p.compute);
    if (hlo_failed(p.h)) return;
    best found = {x, places(&p, p.type.dims)};
    for (int i = p.n - 1; i >= 0; i--) {
        best along = {NULL, NULL};
        int64_t longest = p.out[i] == 0 ? 1 : longest_window(p.size[i], p.out[i]);
        for (int64_t k = 0; k < longest; k++) {
            best one = {element_of_windows(p.h, found.value, p.lead + i, p.out[i], k),
                        element_of_windows(p.h, found.place, p.lead + i, p.out[i], k)};
            along = better(&p, along, one, false);
        }
        found = along;
    }
    finish_maxima(e, &p, found);
}

static void emit_adaptive_max_pool_backward(tpj_emit *e) {
    pool p;
    if (!begin(e, &p)) return;
    tpj_value *grad = tpj_in_as(e, "grad_output", p.compute), *indices = tpj_in_as(e, "indices", TPJ_I32);
    if (hlo_failed(p.h)) return;
    for (int i = 0; i < p.n && grad->type.rank == p.type.rank; i++) p.out[i] = hlo_dim(grad, p.lead + i);
    if (!check_gradient(e, &p, grad)) return;
    tpj_out_as(e, scatter_planes(&p, grad, indices), p.dtype);
}

#define ROW(op, parameters, emitter, n) \
    {.name = op, .params = parameters, .emit = emitter, .variant = n, .layout = TPJ_LAYOUT_CHANNELS_LAST}
#define MAX_PARAMS "T self, I[] kernel_size, I[]? stride, I[]? padding, I[]? dilation, B ceil_mode=false"
#define MAX_BACKWARD "T grad_output, T self, I[] kernel_size, I[]? stride, I[] padding, I[] dilation, B ceil_mode, T indices"
#define AVG_TAIL ", B ceil_mode=false, B count_include_pad=true, I? divisor_override"
#define AVG_PARAMS "T self, I[] kernel_size, I[]? stride, I[]? padding" AVG_TAIL
#define AVG_BACKWARD "T grad_output, T self, I[] kernel_size, I[]? stride, I[] padding" AVG_TAIL

const tpj_op_def tpj_ops_pool[] = {
    ROW("max_pool2d_with_indices", MAX_PARAMS, emit_max_pool, 2),
    ROW("max_pool3d_with_indices", MAX_PARAMS, emit_max_pool, 3),
    ROW("max_pool2d_with_indices_backward", MAX_BACKWARD, emit_max_pool_backward, 2),
    ROW("max_pool3d_with_indices_backward", MAX_BACKWARD, emit_max_pool_backward, 3),
    ROW("avg_pool2d", AVG_PARAMS, emit_avg_pool, 2),
    ROW("avg_pool3d", AVG_PARAMS, emit_avg_pool, 3),
    ROW("avg_pool2d_backward", AVG_BACKWARD, emit_avg_pool_backward, 2),
    ROW("avg_pool3d_backward", AVG_BACKWARD, emit_avg_pool_backward, 3),
    ROW("_adaptive_avg_pool2d", "T self, I[] output_size", emit_adaptive_avg_pool, 2),
    ROW("_adaptive_avg_pool3d", "T self, I[] output_size", emit_adaptive_avg_pool, 3),
    ROW("_adaptive_avg_pool2d_backward", "T grad_output, T self", emit_adaptive_avg_pool_backward, 2),
    ROW("_adaptive_avg_pool3d_backward", "T grad_output, T self", emit_adaptive_avg_pool_backward, 3),
    ROW("adaptive_max_pool2d", "T self, I[] output_size", emit_adaptive_max_pool, 2),
    ROW("adaptive_max_pool3d", "T self, I[] output_size", emit_adaptive_max_pool, 3),
    ROW("adaptive_max_pool2d_backward", "T grad_output, T self, T indices", emit_adaptive_max_pool_backward, 2),
    ROW("adaptive_max_pool3d_backward", "T grad_output, T self, T indices", emit_adaptive_max_pool_backward, 3),
    {0}};
