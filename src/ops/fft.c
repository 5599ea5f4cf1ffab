/* Fourier transforms over any dimensions. XLA transforms up to three trailing dimensions at a time; its inverses divide
 * by the number of elements, PyTorch's modes are folded into one factor. */
#include <math.h>

#include "ops/indexing.h"

enum { MAX_FFT_DIMS = 3 };
enum { NORM_NONE, NORM_BY_ROOT_N, NORM_BY_N }; /* PyTorch's fft_norm_mode */

/* One transform over dims[0..n), the last of them last, by way of a transpose. `size`: of the real side's last
 * dimension. */
static tpj_value *transform(tpj_hlo *h, tpj_value *x, const char *type, const int64_t *dims, int n, int64_t size) {
    int rank = x->type.rank, at = 0;
    int64_t *forth = hlo_dims(h, rank), *back = hlo_dims(h, rank), length[MAX_FFT_DIMS];
    bool *moved = TPJ_ARENA_ARRAY(hlo_arena(h), bool, rank);
    if (moved == NULL) return hlo_fail(h, TPJ_OUT_OF_MEMORY, "out of memory");
    for (int i = 0; i < n; i++) {
        moved[dims[i]] = true;
        length[i] = i == n - 1 ? size : hlo_dim(x, (int)dims[i]);
    }
    for (int d = 0; d < rank; d++) {
        if (!moved[d]) forth[at++] = d;
    }
    for (int i = 0; i < n; i++) forth[at++] = dims[i];
    for (int d = 0; d < rank; d++) back[forth[d]] = d;
    return hlo_transpose(h, hlo_fft(h, hlo_transpose(h, x, forth), type, length, n), back);
}

/* A complex transform over all dims, three at a time. */
static tpj_value *complex_transform(tpj_hlo *h, tpj_value *x, bool forward, const int64_t *dims, int n) {
    for (int at = 0; at < n; at += MAX_FFT_DIMS) {
        int count = n - at < MAX_FFT_DIMS ? n - at : MAX_FFT_DIMS;
        int64_t size = hlo_dim(x, (int)dims[at + count - 1]);
        x = transform(h, x, forward ? "FFT" : "IFFT", dims + at, count, size);
    }
    return x;
}

/* The mode's factor for a signal of n elements; what XLA's inverse divided by is given back. */
static tpj_value *normalize(tpj_emit *e, tpj_value *x, int64_t n, bool inverse) {
    tpj_hlo *h = tpj_builder(e);
    int64_t mode = tpj_int(e, "normalization", NORM_NONE);
    double size = (double)n, factor = mode == NORM_BY_N ? 1 / size : mode == NORM_BY_ROOT_N ? 1 / sqrt(size) : 1;
    if (inverse) factor *= size;
    return factor == 1 ? x : hlo_mul(h, x, hlo_number(h, x->type.dtype, factor));
}

static const int64_t *read_dims(tpj_emit *e, int rank, int *out_n) {
    const int64_t *dims = tpj_ints(e, "dim", out_n);
    int64_t *wrapped = hlo_dims(tpj_builder(e), *out_n > 0 ? *out_n : 0);
    for (int i = 0; i < *out_n; i++) {
        wrapped[i] = dims[i] < 0 ? dims[i] + rank : dims[i];
        if (wrapped[i] >= 0 && wrapped[i] < rank) continue;
        tpj_fail(e, TPJ_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -rank,
                 rank - 1, (long long)dims[i]);
        wrapped[i] = 0;
    }
    return wrapped;
}

static int64_t signal_size(const tpj_value *x, const int64_t *dims, int n) {
    int64_t size = 1;
    for (int i = 0; i < n; i++) size *= x->type.dims[dims[i]];
    return size;
}

static void emit_c2c(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int n = 0;
    const int64_t *dims = read_dims(e, x->type.rank, &n);
    if (!tpj_dtype_is_complex(x->type.dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "_fft_c2c expects a complex input, got %s", tpj_dtype_name(x->type.dtype));
        return;
    }
    if (hlo_failed(h)) return;
    if (hlo_elements(x) == 0) {
        tpj_out(e, x);
        return;
    }
    bool forward = tpj_bool(e, "forward", true);
    tpj_out(e, normalize(e, complex_transform(h, x, forward, dims, n), signal_size(x, dims, n), !forward));
}

static void emit_r2c(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self"), *y;
    int n = 0;
    const int64_t *dims = read_dims(e, x->type.rank, &n);
    if (x->type.dtype != TPJ_F32 && x->type.dtype != TPJ_F64) {
        tpj_fail(e, TPJ_RUNTIME, "Unsupported dtype %s", tpj_dtype_name(x->type.dtype));
        return;
    }
    if (hlo_failed(h) || n == 0) return;
    int64_t last = dims[n - 1], size = hlo_dim(x, (int)last);
    bool onesided = tpj_bool(e, "onesided", true);
    if (hlo_elements(x) == 0) {
        int64_t *shape = tpj_dims_with(h, x, (int)last, onesided ? size / 2 + 1 : size);
        tpj_out(e, hlo_zeros(h, hlo_complex_dtype(x->type.dtype), x->type.rank, shape));
        return;
    }
    if (onesided) {
        int count = n < MAX_FFT_DIMS ? n : MAX_FFT_DIMS;
        y = transform(h, x, "RFFT", dims + n - count, count, size);
        y = complex_transform(h, y, true, dims, n - count);
    } else {
        y = complex_transform(h, hlo_convert(h, x, hlo_complex_dtype(x->type.dtype)), true, dims, n);
    }
    tpj_out(e, normalize(e, y, signal_size(x, dims, n), false));
}

static void emit_c2r(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = tpj_in(e, "self");
    int n = 0;
    const int64_t *dims = read_dims(e, x->type.rank, &n);
    if (!tpj_dtype_is_complex(x->type.dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "_fft_c2r expects a complex input, got %s", tpj_dtype_name(x->type.dtype));
        return;
    }
    if (hlo_failed(h) || n == 0) return;
    int last = (int)dims[n - 1];
    int64_t size = tpj_int(e, "last_dim_size", 1);
    tpj_dtype real = hlo_real_dtype(x->type.dtype);
    if (hlo_elements(x) == 0) {
        tpj_out(e, hlo_zeros(h, real, x->type.rank, tpj_dims_with(h, x, last, size)));
        return;
    }
    x = hlo_pad_dim(h, x, hlo_complex_number(h, x->type.dtype, 0, 0), last, 0, size / 2 + 1 - hlo_dim(x, last));
    int count = n < MAX_FFT_DIMS ? n : MAX_FFT_DIMS;
    tpj_value *y = complex_transform(h, x, false, dims, n - count);
    y = transform(h, y, "IRFFT", dims + n - count, count, size);
    tpj_out(e, normalize(e, y, signal_size(y, dims, n), true));
}

const tpj_op_def tpj_ops_fft[] = {
    {.name = "_fft_c2c",
     .params = "T self, I[] dim, I normalization, B forward",
     .emit = emit_c2c,
     .layout = TPJ_LAYOUT_SPECTRUM},
    {.name = "_fft_r2c",
     .params = "T self, I[] dim, I normalization, B onesided",
     .emit = emit_r2c,
     .layout = TPJ_LAYOUT_SPECTRUM},
    {.name = "_fft_c2r",
     .params = "T self, I[] dim, I normalization, I last_dim_size",
     .emit = emit_c2r,
     .layout = TPJ_LAYOUT_SPECTRUM},
    {0},
};
