/* Singular values and vectors.
 *
 * One-sided Jacobi (jacobi.c) finds V, whose columns A makes orthogonal: A V = W. Sorted by length, W = Q R with a diagonal R;
 * Q, times the phases of R's diagonal, is U. A Householder QR gives orthonormal columns whatever the singular values are, zero
 * included, and as many as full_matrices wants. (Demmel and Veselic 1992 on the accuracy; Drmac and Veselic 2008 on the QR
 * in front, that makes a square matrix of a tall one.) */
#include "ops/svd.h"

/* The right singular vectors of a [batch, m, n] as rows: [batch, n, n], in no order, and a row of zeros for odd n. */
static tpj_value *right_vectors(tpj_hlo *h, tpj_value *a) {
    int64_t m = hlo_dim(a, 1), n = hlo_dim(a, 2), square[] = {hlo_dim(a, 0), n, n};
    if (m >= 2 * n) { /* R has A's right singular vectors, and fewer rows */
        tpj_value *packed[2];
        tpj_reflect(h, a, packed);
        a = tpj_triangle(h, tpj_first_rows(h, packed[0], n), true);
        m = n;
    }
    tpj_value *identity = tpj_identity_like(h, hlo_zeros(h, a->type.dtype, 3, square), a->type.dtype);
    tpj_value *rows = hlo_concatenate(h, (tpj_value *[]){tpj_transposed(h, a, false), identity}, 2, 2);
    return hlo_slice_dim(h, tpj_jacobi(h, rows, m), 2, m, m + n, 1);
}

static tpj_value *squares_of_rows(tpj_hlo *h, tpj_value *rows) {
    tpj_value *size = hlo_abs(h, rows);
    return hlo_reduce_dim(h, "add", hlo_mul(h, size, size), 2);
}

/* The left vectors, [batch, m, columns], from W, [batch, m, n], whose columns are orthogonal and get shorter. */
static tpj_value *left_vectors(tpj_hlo *h, tpj_value *w, int64_t columns) {
    tpj_value *packed[2];
    tpj_reflect(h, w, packed);
    tpj_value *q = tpj_product_of_reflectors(h, packed[0], packed[1], columns);
    tpj_value *diagonal = tpj_diagonals(h, packed[0]), *size = hlo_abs(h, diagonal);
    tpj_value *is_zero = hlo_compare(h, "EQ", size, hlo_number(h, size->type.dtype, 0));
    tpj_value *phase = hlo_div(h, diagonal, hlo_convert(h, size, diagonal->type.dtype)),
              *one = hlo_number(h, phase->type.dtype, 1);
    phase = hlo_pad_dim(h, hlo_select(h, is_zero, one, phase), one, 1, 0, columns - hlo_dim(phase, 1));
    return tpj_scale_each(h, q, phase, 2);
}

/* m >= n > 0 */
static tpj_svd tall_svd(tpj_hlo *h, tpj_value *a, bool full, bool vectors) {
    tpj_value *scale, *order, *norm;
    a = tpj_in_range(h, a, &scale);
    tpj_dtype dtype = a->type.dtype, real = hlo_real_dtype(dtype);
    int64_t m = hlo_dim(a, 1), n = hlo_dim(a, 2);
    tpj_value *v = right_vectors(h, a), *w = hlo_matmul(h, v, tpj_transposed(h, a, false), dtype);
    norm = hlo_sqrt(h, squares_of_rows(h, w));
    tpj_value *padding = hlo_compare(h, "LT", squares_of_rows(h, v), hlo_number(h, real, 0.5));
    norm = hlo_select(h, padding, hlo_number(h, real, -1), norm);
    tpj_sort(h, norm, 1, true, &norm, &order);
    norm = hlo_slice_dim(h, norm, 1, 0, n, 1);
    tpj_svd svd = {.s = hlo_mul(h, norm, tpj_spread(h, scale, 2, norm->type.dims, 0))};
    if (!vectors) return svd;
    order = hlo_slice_dim(h, order, 1, 0, n, 1);
    svd.u = left_vectors(h, tpj_transposed(h, tpj_rows_at(h, w, order), false), full ? m : n);
    svd.vh = hlo_conj(h, tpj_rows_at(h, v, order));
    return svd;
}

tpj_svd tpj_svd_of(tpj_hlo *h, tpj_value *a, bool full, bool vectors) {
    tpj_dtype dtype = a->type.dtype;
    int64_t batch = hlo_dim(a, 0), m = hlo_dim(a, 1), n = hlo_dim(a, 2), k = m < n ? m : n;
    if (hlo_elements(a) == 0) {
        int64_t s[] = {batch, k}, u[] = {batch, m, full ? m : k}, vh[] = {batch, full ? n : k, n};
        return (tpj_svd){.s = hlo_zeros(h, hlo_real_dtype(dtype), 2, s),
                         .u = tpj_identity_like(h, hlo_zeros(h, dtype, 3, u), dtype),
                         .vh = tpj_identity_like(h, hlo_zeros(h, dtype, 3, vh), dtype)};
    }
    if (m >= n) return tall_svd(h, a, full, vectors);
    tpj_svd svd = tall_svd(h, tpj_transposed(h, a, true), full, vectors); /* A^H = V S U^H */
    if (!vectors) return svd;
    return (tpj_svd){.u = tpj_transposed(h, svd.vh, true), .s = svd.s, .vh = tpj_transposed(h, svd.u, true)};
}

/* NULL: vectors that were not asked for. */
static void out_vectors(tpj_emit *e, tpj_value *vectors, const tpj_value *like) {
    if (vectors != NULL) {
        tpj_out_columns(e, tpj_unflat_batch(tpj_builder(e), vectors, like));
    } else {
        tpj_out_empty(e, like->type.dtype);
    }
}

static void emit_svd(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *given = tpj_in(e, "A");
    if (!tpj_is_matrix(e, given, false)) return;
    if (tpj_has(e, "driver")) {
        tpj_fail(
            e, TPJ_RUNTIME,
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.");
        return;
    }
    bool vectors = tpj_bool(e, "compute_uv", true);
    tpj_check_as(e, hlo_is_nan(h, hlo_abs(h, given)), TPJ_LINALG,
                 "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values.");
    tpj_svd svd = tpj_svd_of(h, tpj_flat_batch(h, given), tpj_bool(e, "full_matrices", false), vectors);
    out_vectors(e, vectors ? svd.u : NULL, given);
    tpj_out(e, tpj_unflat_batch(h, svd.s, given));
    out_vectors(e, vectors ? svd.vh : NULL, given);
}

const tpj_op_def tpj_ops_svd[] = {
    {.name = "_linalg_svd", .params = "T A, B full_matrices=False, B compute_uv=True, Str? driver", .emit = emit_svd},
    {0},
};
