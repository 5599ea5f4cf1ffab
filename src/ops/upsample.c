/* Interpolation: every mode is, one dimension after the other, a weighted sum of a few elements ("taps") of the input for
 * each output. Places and weights depend on sizes alone, so they are computed here, in the precision that PyTorch's CPU
 * uses (float, or double for F64), and are constants of the program. */
#include <math.h>

#include "ops/grid_sampler.h"
#include "ops/indexing.h"
#include "ops/nn.h"

enum { MAX_SPATIAL = 3, MAX_TAPS_TAKEN = 4 };

typedef enum mode { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, LINEAR_AA, CUBIC_AA, LANCZOS_AA } mode;
#define VARIANT(mode, n) ((mode) * 4 + (n)) /* a row's variant: the mode and the number of dimensions */

/* For output o: the sum over k < n of weight[k * out + o] * input[index[k * out + o]]. */
typedef struct taps {
    int64_t in, out, n;
    int64_t *index;
    double *weight;
} taps;

/* One rounding of float arithmetic, or none for double: a double operation rounded to float is the float operation. */
static double rounded(bool wide, double x) { return wide ? x : (double)(float)x; }

/* Inputs per output along a dimension. `scale` is the user's factor, 0 when there is none. */
static double step_of(bool wide, int64_t in, int64_t out, bool align_corners, double scale) {
    if (align_corners) return out > 1 ? rounded(wide, (double)(in - 1) / (double)(out - 1)) : 0;
    return scale > 0 ? rounded(wide, 1 / scale) : rounded(wide, (double)in / (double)out);
}

/* The place of output o in the input, before clamping. */
static double place_of(bool wide, double step, int64_t o, bool align_corners) {
    if (align_corners) return rounded(wide, step * (double)o);
    return rounded(wide, rounded(wide, step * ((double)o + 0.5)) - 0.5);
}

static int64_t clamp_index(int64_t i, int64_t size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }

static void set_tap(taps *t, int64_t k, int64_t o, int64_t index, double weight) {
    t->index[k * t->out + o] = clamp_index(index, t->in);
    t->weight[k * t->out + o] = weight;
}

/* Where the sizes' ratio is 1 or 2, most of PyTorch's kernels go by it, whatever scale was given (`by_ratio`). */
static void nearest_taps(taps *t, bool exact, bool by_ratio, double scale) {
    if (by_ratio && !exact && (t->out == t->in || t->out == 2 * t->in)) scale = 0;
    double step = step_of(false, t->in, t->out, false, scale);
    for (int64_t o = 0; o < t->out; o++) {
        double place = floor(rounded(false, step * ((double)o + (exact ? 0.5 : 0))));
        set_tap(t, 0, o, (int64_t)place, 1);
    }
}

static void linear_taps(taps *t, bool wide, bool align_corners, double scale) {
    double step = step_of(wide, t->in, t->out, align_corners, scale);
    for (int64_t o = 0; o < t->out; o++) {
        double place = t->in == t->out ? (double)o : place_of(wide, step, o, align_corners);
        if (place < 0) place = 0;
        int64_t index = clamp_index((int64_t)place, t->in);
        double second = fmin(fmax(rounded(wide, place - (double)index), 0), 1);
        set_tap(t, 0, o, index, rounded(wide, 1 - second));
        set_tap(t, 1, o, index + 1, second);
    }
}

/* Keys' cubic convolution with parameter a, at distance |x|. */
static double cubic_filter(double x, double a) {
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

static void cubic_taps(taps *t, bool wide, bool align_corners, double scale) {
    double step = step_of(wide, t->in, t->out, align_corners, scale);
    for (int64_t o = 0; o < t->out; o++) {
        double place = place_of(wide, step, o, align_corners);
        int64_t index = (int64_t)floor(place);
        if (index > t->in - 1) index = t->in - 1;
        double rest = fmin(fmax(rounded(wide, place - (double)index), 0), 1);
        for (int k = 0; k < 4; k++) set_tap(t, k, o, index + k - 1, cubic_filter(rest - (k - 1), -0.75));
    }
}

#define PI 3.14159265358979323846
static double sinc(double x) { return x == 0 ? 1 : sin(PI * x) / (PI * x); }

static double antialias_filter(mode m, double x) {
    if (m == CUBIC_AA) return cubic_filter(x, -0.5);
    if (m == LANCZOS_AA) return fabs(x) < 3 ? sinc(x) * sinc(x / 3) : 0;
    return fabs(x) < 1 ? 1 - fabs(x) : 0;
}

static double antialias_support(mode m, double step) {
    double half = m == LINEAR_AA ? 1 : m == CUBIC_AA ? 2 : 3;
    return step >= 1 ? half * step : half;
}

/* The filter is widened by the step when the image shrinks, and its weights are made to sum to one. */
static void antialias_taps(taps *t, mode m, bool wide, bool align_corners, double scale) {
    double step = step_of(wide, t->in, t->out, align_corners, scale);
    double support = antialias_support(m, step), inverse = step >= 1 ? 1 / step : 1;
    for (int64_t o = 0; o < t->out; o++) {
        double center = rounded(wide, step * ((double)o + 0.5)), total = 0;
        int64_t first = (int64_t)rounded(wide, rounded(wide, center - support) + 0.5);
        int64_t end = (int64_t)rounded(wide, rounded(wide, center + support) + 0.5);
        if (first < 0) first = 0;
        if (end > t->in) end = t->in;
        for (int64_t k = 0; k < t->n; k++) {
            double distance = ((double)(k + first) - center + 0.5) * inverse;
            double weight = first + k < end ? antialias_filter(m, distance) : 0;
            set_tap(t, k, o, first + k, weight);
            total += weight;
        }
        for (int64_t k = 0; k < t->n; k++)
            if (total != 0) t->weight[k * t->out + o] /= total;
    }
}

static bool make_taps(tpj_hlo *h, mode m, bool wide, int64_t in, int64_t out, bool align_corners, bool by_ratio,
                      double scale, taps *t) {
    static const int64_t counts[] = {[NEAREST] = 1, [NEAREST_EXACT] = 1, [LINEAR] = 2, [CUBIC] = 4};
    *t = (taps){.in = in, .out = out};
    bool antialias = m >= LINEAR_AA;
    t->n = antialias ? (int64_t)ceil(antialias_support(m, step_of(wide, in, out, align_corners, scale))) * 2 + 1
                     : counts[m];
    t->index = TPJ_ARENA_ARRAY(hlo_arena(h), int64_t, t->n *out);
    t->weight = TPJ_ARENA_ARRAY(hlo_arena(h), double, t->n *out);
    if (t->index == NULL || t->weight == NULL) return false;
    if (antialias)
        antialias_taps(t, m, wide, align_corners, scale);
    else if (m == LINEAR)
        linear_taps(t, wide, align_corners, scale);
    else if (m == CUBIC)
        cubic_taps(t, wide, align_corners, scale);
    else
        nearest_taps(t, m == NEAREST_EXACT, by_ratio, scale);
    return true;
}

/* How often each input stands, when output o is input o / n for all o (a whole number of repetitions); else 0. */
static int64_t repetition(const taps *t) {
    if (t->n != 1 || t->in == 0 || t->out % t->in != 0) return 0;
    int64_t n = t->out / t->in;
    for (int64_t o = 0; o < t->out; o++)
        if (t->index[o] != o / n) return 0;
    return n;
}

/* x's dimension d split into [in, n], or joined again. */
static int64_t *split_dims(tpj_hlo *h, const tpj_value *x, int d, int64_t in, int64_t n) {
    int64_t *dims = hlo_dims(h, x->type.rank + 1);
    for (int k = 0; k < x->type.rank; k++) dims[k < d ? k : k + 1] = hlo_dim(x, k);
    dims[d] = in;
    dims[d + 1] = n;
    return dims;
}

static tpj_value *with_size(tpj_hlo *h, tpj_value *x, int rank, const tpj_value *like, int d, int64_t size) {
    int64_t *dims = hlo_dims(h, rank);
    for (int k = 0; k < rank; k++) dims[k] = k == d ? size : hlo_dim(like, k);
    return hlo_reshape(h, x, rank, dims);
}

static tpj_value *repeat(tpj_hlo *h, tpj_value *x, int d, int64_t n) {
    int64_t *mapping = hlo_dims(h, x->type.rank);
    for (int k = 0; k < x->type.rank; k++) mapping[k] = k <= d ? k : k + 1;
    tpj_value *y = hlo_broadcast_in_dim(h, x, x->type.rank + 1, split_dims(h, x, d, hlo_dim(x, d), n), mapping);
    return with_size(h, y, x->type.rank, x, d, hlo_dim(x, d) * n);
}

/* The taps as a matrix [out, in]. Made where it is used: two short constants a tap, however large the matrix is. */
static tpj_value *matrix(tpj_hlo *h, const taps *t, tpj_dtype dtype) {
    const int64_t dims[] = {t->out, t->in}, rows[] = {0};
    tpj_value *column = hlo_iota(h, TPJ_I32, 2, dims, 1), *sum = NULL;
    for (int64_t k = 0; k < t->n; k++) {
        tpj_value *index = hlo_array_of_integers(h, TPJ_I32, 1, &t->out, t->index + k * t->out);
        tpj_value *weight = hlo_array_of_numbers(h, dtype, 1, &t->out, t->weight + k * t->out);
        tpj_value *here = hlo_compare(h, "EQ", column, hlo_broadcast_in_dim(h, index, 2, dims, rows));
        tpj_value *part = tpj_nn_where(h, here, hlo_broadcast_in_dim(h, weight, 2, dims, rows));
        sum = sum == NULL ? part : hlo_add(h, sum, part);
    }
    return sum;
}

/* Contracts dimension d of x with dimension `side` of a matrix; the other one takes its place. */
static tpj_value *apply_matrix(tpj_hlo *h, tpj_value *m, int64_t side, tpj_value *x, int d) {
    const int64_t sides[] = {side}, dims[] = {d};
    tpj_value *y = hlo_dot(h, m, x, NULL, NULL, 0, sides, dims, 1, x->type.dtype);
    int64_t *permutation = hlo_dims(h, x->type.rank); /* the new dimension comes first */
    for (int k = 0; k < x->type.rank; k++) permutation[k] = k < d ? k + 1 : k == d ? 0 : k;
    return hlo_transpose(h, y, permutation);
}

static tpj_value *interpolate(tpj_hlo *h, tpj_value *x, int d, const taps *t) {
    int64_t n = repetition(t);
    if (n > 0) return repeat(h, x, d, n);
    if (t->n > MAX_TAPS_TAKEN) return apply_matrix(h, matrix(h, t, x->type.dtype), 1, x, d);
    tpj_value *sum = NULL;
    for (int64_t k = 0; k < t->n; k++) {
        tpj_value *part = hlo_take(h, x, hlo_array_of_integers(h, TPJ_I32, 1, &t->out, t->index + k * t->out), d);
        if (t->n > 1) {
            tpj_value *weight = hlo_array_of_numbers(h, x->type.dtype, 1, &t->out, t->weight + k * t->out);
            part = hlo_mul(h, part, tpj_nn_along(h, weight, part, d));
        }
        sum = sum == NULL ? part : hlo_add(h, sum, part);
    }
    return sum;
}

/* The transposed sum: what outputs give back to the inputs that they were made from. */
static tpj_value *interpolate_back(tpj_hlo *h, tpj_value *grad, int d, const taps *t) {
    int64_t n = repetition(t);
    if (n == 0) return apply_matrix(h, matrix(h, t, grad->type.dtype), 0, grad, d);
    const int64_t dims[] = {d + 1};
    tpj_value *split = hlo_reshape(h, grad, grad->type.rank + 1, split_dims(h, grad, d, t->in, n));
    return hlo_reduce(h, "add", split, NULL, dims, 1);
}

/* ---- the ops ---- */

typedef struct geometry {
    tpj_hlo *h;
    tpj_dtype dtype, compute;
    mode m;
    int n;
    int64_t in[MAX_SPATIAL], out[MAX_SPATIAL];
    bool align_corners;
    double scale[MAX_SPATIAL]; /* 0: not given */
} geometry;

/* Scale arguments by the number of dimensions: "scales", or one a dimension. */
static const char *const scale_names[4][MAX_SPATIAL] = {
    {0}, {"scales"}, {"scales_h", "scales_w"}, {"scales_d", "scales_h", "scales_w"}};

static bool begin(tpj_emit *e, const char *input, geometry *g) {
    tpj_type type = tpj_in_type(e, input);
    int variant = tpj_row(e)->variant;
    *g = (geometry){.h = tpj_builder(e), .dtype = type.dtype, .compute = tpj_compute_dtype(type.dtype)};
    g->m = (mode)(variant / 4);
    g->n = variant % 4;
    if (type.rank != g->n + 2) {
        tpj_fail(e, TPJ_RUNTIME, "It is expected input to be of %d dimensions, but got %d", g->n + 2, type.rank);
        return false;
    }
    if (tpj_product(type.dims + 1, type.rank - 1) == 0) { /* a batch may be empty, an image may not */
        tpj_fail(e, TPJ_RUNTIME, "Non-empty %dD data tensor expected", type.rank);
        return false;
    }
    bool nearest = g->m == NEAREST || g->m == NEAREST_EXACT;
    if (type.dtype == TPJ_U8 && !nearest)
        g->compute = TPJ_I32;
    else if (!nearest && !tpj_nn_require_float(e, input))
        return false;
    g->align_corners = !nearest && tpj_bool(e, "align_corners", false);
    if (!tpj_nn_ints(e, "output_size", g->n, NULL, g->out)) return false;
    for (int i = 0; i < g->n; i++) {
        g->in[i] = type.dims[2 + i];
        g->scale[i] = tpj_float(e, scale_names[g->n][i], 0);
    }
    return true;
}

static bool check_sizes(tpj_emit *e, const geometry *g) {
    for (int i = 0; i < g->n; i++)
        if (g->in[i] <= 0 || g->out[i] <= 0) {
            tpj_fail(e, TPJ_RUNTIME,
                     "Input and output sizes should be greater than 0, but got input %lld and output %lld",
                     (long long)g->in[i], (long long)g->out[i]);
            return false;
        }
    return true;
}

static bool taps_of(tpj_emit *e, const geometry *g, int i, bool backward, taps *t) {
    bool wide = g->compute == TPJ_F64 || g->compute == TPJ_I32;
    if (make_taps(g->h, g->m, wide, g->in[i], g->out[i], g->align_corners, backward || g->n == 2, g->scale[i], t))
        return true;
    tpj_fail(e, TPJ_OUT_OF_MEMORY, "out of host memory");
    return false;
}

/* ---- bytes: PyTorch's CPU works in whole numbers and rounds to bytes after each dimension ---- */

/* Adds up the weights of taps that were clamped to one element, and rounds all to multiples of 2^-bits: as many bits as
 * the largest weight leaves in 16. Returns the bits. */
static int whole_weights(taps *t) {
    double largest = 0;
    for (int64_t o = 0; o < t->out; o++)
        for (int64_t k = t->n - 1; k > 0; k--)
            if (t->index[k * t->out + o] == t->index[(k - 1) * t->out + o]) {
                t->weight[(k - 1) * t->out + o] += t->weight[k * t->out + o];
                t->weight[k * t->out + o] = 0;
            }
    for (int64_t i = 0; i < t->n * t->out; i++) largest = fmax(largest, t->weight[i]);
    int bits = 0;
    while (bits < 22 && (int64_t)(0.5 + largest * (double)((int64_t)1 << (bits + 1))) < (1 << 15)) bits++;
    for (int64_t i = 0; i < t->n * t->out; i++) t->weight[i] = round(t->weight[i] * (double)((int64_t)1 << bits));
    return bits;
}

/* x: I32, and so is the result. */
static tpj_value *interpolate_bytes(tpj_hlo *h, tpj_value *x, int d, taps *t) {
    int bits = whole_weights(t);
    tpj_value *sum;
    if (t->n > MAX_TAPS_TAKEN) {
        sum = interpolate(h, hlo_convert(h, x, TPJ_F64), d, t); /* exact */
        sum = hlo_convert(h, sum, TPJ_I32);
    } else {
        sum = interpolate(h, x, d, t);
    }
    sum = hlo_add(h, sum, hlo_integer(h, TPJ_I32, bits > 0 ? 1 << (bits - 1) : 0));
    sum = hlo_binary(h, "shift_right_arithmetic", sum, hlo_integer(h, TPJ_I32, bits));
    return hlo_clamp(h, hlo_integer(h, TPJ_I32, 0), sum, hlo_integer(h, TPJ_I32, 255));
}

static void emit_upsample(tpj_emit *e) {
    geometry g;
    taps t;
    if (!begin(e, "self", &g) || !check_sizes(e, &g)) return;
    tpj_value *x = tpj_in_as(e, "self", g.compute);
    for (int i = g.n - 1; i >= 0 && !hlo_failed(g.h); i--) {
        if (!taps_of(e, &g, i, false, &t)) return;
        x = g.compute == TPJ_I32 ? interpolate_bytes(g.h, x, 2 + i, &t) : interpolate(g.h, x, 2 + i, &t);
    }
    tpj_out_as(e, x, g.dtype);
}

static void emit_upsample_backward(tpj_emit *e) {
    geometry g;
    taps t;
    int n_sizes;
    if (!begin(e, "grad_output", &g)) return;
    const int64_t *sizes = tpj_ints(e, "input_size", &n_sizes);
    tpj_value *grad = tpj_in_as(e, "grad_output", g.compute);
    if (hlo_failed(g.h)) return;
    bool fits = n_sizes == g.n + 2 && sizes[0] == hlo_dim(grad, 0) && sizes[1] == hlo_dim(grad, 1);
    for (int i = 0; i < g.n && fits; i++) {
        fits = g.in[i] == g.out[i]; /* the gradient has the output's size */
        g.in[i] = sizes[2 + i];
    }
    if (!fits) {
        tpj_fail(e, TPJ_RUNTIME, "grad_output does not have the shape of the interpolation's output");
        return;
    }
    if (!check_sizes(e, &g)) return;
    for (int i = 0; i < g.n && !hlo_failed(g.h); i++) {
        if (!taps_of(e, &g, i, true, &t)) return;
        grad = interpolate_back(g.h, grad, 2 + i, &t);
    }
    tpj_out_as(e, grad, g.dtype);
}

#define ROW(op, parameters, emitter, mode, n) \
    {.name = op, .params = parameters, .emit = emitter, .variant = VARIANT(mode, n), .layout = TPJ_LAYOUT_CHANNELS_LAST}
#define SCALES1 "F? scales"
#define SCALES2 "F? scales_h, F? scales_w"
#define SCALES3 "F? scales_d, F? scales_h, F? scales_w"
/* The forward row and its gradient's. */
#define BOTH(op, extra, scales, mode, n)                                                                             \
    ROW(op, "T self, I[] output_size, " extra scales, emit_upsample, mode, n),                                       \
        ROW(op "_backward", "T grad_output, I[] output_size, I[] input_size, " extra scales, emit_upsample_backward, \
            mode, n)
#define ALIGN "B align_corners, "

const tpj_op_def tpj_ops_upsample[] = {
    BOTH("upsample_nearest1d", "", SCALES1, NEAREST, 1),
    BOTH("upsample_nearest2d", "", SCALES2, NEAREST, 2),
    BOTH("upsample_nearest3d", "", SCALES3, NEAREST, 3),
    BOTH("_upsample_nearest_exact1d", "", SCALES1, NEAREST_EXACT, 1),
    BOTH("_upsample_nearest_exact2d", "", SCALES2, NEAREST_EXACT, 2),
    BOTH("_upsample_nearest_exact3d", "", SCALES3, NEAREST_EXACT, 3),
    BOTH("upsample_linear1d", ALIGN, SCALES1, LINEAR, 1),
    BOTH("upsample_bilinear2d", ALIGN, SCALES2, LINEAR, 2),
    BOTH("upsample_trilinear3d", ALIGN, SCALES3, LINEAR, 3),
    BOTH("upsample_bicubic2d", ALIGN, SCALES2, CUBIC, 2),
    BOTH("_upsample_bilinear2d_aa", ALIGN, SCALES2, LINEAR_AA, 2),
    BOTH("_upsample_bicubic2d_aa", ALIGN, SCALES2, CUBIC_AA, 2),
    ROW("_upsample_lanczos2d_aa", "T self, I[] output_size, " ALIGN SCALES2, emit_upsample, LANCZOS_AA, 2),
    {.name = "grid_sampler_2d", .params = TPJ_GRID_SAMPLER, .emit = tpj_emit_grid_sampler, .variant = 2},
    {.name = "grid_sampler_3d", .params = TPJ_GRID_SAMPLER, .emit = tpj_emit_grid_sampler, .variant = 3},
    {.name = "grid_sampler_2d_backward",
     .params = TPJ_GRID_SAMPLER_BACKWARD,
     .emit = tpj_emit_grid_sampler_backward,
     .variant = 2},
    {.name = "grid_sampler_3d_backward",
     .params = TPJ_GRID_SAMPLER_BACKWARD,
     .emit = tpj_emit_grid_sampler_backward,
     .variant = 3},
    {0}};
