/* Eigenvalues and eigenvectors of Hermitian matrices.
 *
 * B = A + 2 |A| I is positive definite, so that the one-sided Jacobi iteration of jacobi.c turns its columns into multiples of
 * its eigenvectors, which are A's: no product of rotations is kept, and the vectors are orthogonal to the last bits. The
 * eigenvalues are Rayleigh quotients with A itself, which do not suffer from the shift. (The Eigh custom call of XLA leaves
 * errors of 1e-9 in float64.) */
#include <math.h>

#include "ops/matrices.h"

/* Twice the largest row sum, at least twice the largest eigenvalue (Gershgorin): real [batch]. 1 for zero matrices. */
static tpj_value *shift_of(tpj_hlo *h, tpj_value *a) {
    tpj_value *size = hlo_reduce_dim(h, "maximum", hlo_reduce_dim(h, "add", hlo_abs(h, a), 2), 1);
    tpj_value *is_zero = hlo_compare(h, "EQ", size, hlo_number(h, size->type.dtype, 0));
    return hlo_select(h, is_zero, hlo_number(h, size->type.dtype, 1), hlo_add(h, size, size));
}

/* a: Hermitian, [batch, n, n], n > 0. The eigenvalues in ascending order, real [batch, n], and the eigenvectors as rows. */
static void eigenpairs(tpj_hlo *h, tpj_value *a, tpj_value **out_values, tpj_value **out_rows) {
    tpj_dtype dtype = a->type.dtype, real = hlo_real_dtype(dtype);
    int64_t n = hlo_dim(a, 2);
    tpj_value *columns = tpj_transposed(h, a, false), *scale;
    tpj_value *shift = tpj_scale_each(h, tpj_identity_like(h, a, dtype), shift_of(h, a), 0);
    tpj_value *rows = tpj_jacobi(h, hlo_add(h, columns, shift), n), *size = hlo_abs(h, rows);
    tpj_value *norm = hlo_sqrt(h, hlo_reduce_dim(h, "add", hlo_mul(h, size, size), 2)), *one = hlo_number(h, real, 1);
    tpj_value *padding = hlo_compare(h, "EQ", norm, hlo_number(h, real, 0)); /* the row that an odd n got */
    scale = hlo_div(h, one, hlo_select(h, padding, one, norm));
    rows = tpj_scale_each(h, rows, scale, 1);
    tpj_value *products = hlo_mul(h, hlo_conj(h, rows), hlo_matmul(h, rows, columns, dtype));
    tpj_value *values = hlo_reduce_dim(h, "add", hlo_real(h, products), 2), *order;
    values = hlo_select(h, padding, hlo_number(h, real, INFINITY), values);
    tpj_sort(h, values, 1, false, &values, &order);
    *out_values = hlo_slice_dim(h, values, 1, 0, n, 1);
    *out_rows = tpj_rows_at(h, rows, hlo_slice_dim(h, order, 1, 0, n, 1));
}

static void emit_eigh(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *given = tpj_in(e, "A"), *values, *rows, *scale;
    if (!tpj_is_matrix(e, given, true)) return;
    tpj_value *a = tpj_flat_batch(h, given);
    tpj_dtype dtype = a->type.dtype;
    if (hlo_elements(a) == 0) {
        values = hlo_zeros(h, hlo_real_dtype(dtype), 2, a->type.dims);
        rows = a;
    } else {
        a = tpj_hermitian(h, a, tpj_string(e, "UPLO", "L")[0] != 'L' && tpj_string(e, "UPLO", "L")[0] != 'l');
        tpj_value *size = hlo_abs(h, a); /* of what is read: the other triangle may hold anything */
        tpj_check_as(
            e, hlo_not(h, hlo_compare(h, "LT", size, hlo_number(h, size->type.dtype, INFINITY))), TPJ_LINALG,
            "linalg.eigh: The algorithm failed to converge because the input matrix contained non-finite values.");
        eigenpairs(h, tpj_in_range(h, a, &scale), &values, &rows);
        values = hlo_mul(h, values, tpj_spread(h, scale, 2, values->type.dims, 0));
    }
    tpj_out(e, tpj_unflat_batch(h, values, given));
    if (tpj_bool(e, "compute_v", true)) {
        tpj_out_columns(e, tpj_unflat_batch(h, tpj_transposed(h, rows, false), given));
    } else {
        tpj_out_empty(e, dtype);
    }
}

const tpj_op_def tpj_ops_eigh[] = {
    {.name = "_linalg_eigh", .params = "T A, Str UPLO=L, B compute_v=True", .emit = emit_eigh},
    {0},
};
