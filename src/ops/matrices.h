/* What the families of linear algebra (linalg, lu, qr, ldl, svd, eigh) share: stacks of matrices, [.., rows, columns].
 *
 * Threads: as the builder that they write to. */
#ifndef TPJ_OPS_MATRICES_H
#define TPJ_OPS_MATRICES_H

#include "ops/indexing.h"

/* Two dimensions at least, a dtype that LAPACK has, and rows = columns when `square`; the op fails otherwise. */
bool tpj_is_matrix(tpj_emit *e, const tpj_value *a, bool square);
/* Matrices that are solved against: square, same dtype, matching sizes. `left`: A X = B, else X A = B. */
bool tpj_solvable(tpj_emit *e, const tpj_value *a, const tpj_value *b, bool left);

/* [batch, rows, columns] */
tpj_value *tpj_flat_batch(tpj_hlo *h, tpj_value *a);
/* x [batch, ..] with the batch dimensions of `like` ([.., rows, columns]) put back. */
tpj_value *tpj_unflat_batch(tpj_hlo *h, tpj_value *x, const tpj_value *like);
/* Broadcasts the batch dimensions of two stacks of matrices to each other. */
bool tpj_broadcast_batches(tpj_emit *e, tpj_value **a, tpj_value **b);

tpj_value *tpj_transposed(tpj_hlo *h, tpj_value *a, bool conjugate);
/* The upper or lower triangle, zeros elsewhere. */
tpj_value *tpj_triangle(tpj_hlo *h, tpj_value *a, bool upper);
/* The Hermitian matrices [batch, n, n] of which one triangle is given. */
tpj_value *tpj_hermitian(tpj_hlo *h, tpj_value *a, bool upper);
tpj_value *tpj_identity_like(tpj_hlo *h, const tpj_value *a, tpj_dtype dtype);
/* The diagonals of [batch, m, n]: [batch, min(m, n)]. */
tpj_value *tpj_diagonals(tpj_hlo *h, tpj_value *a);
/* x [batch] or [batch, m] repeated to dims, its second dimension going to `at`. */
tpj_value *tpj_spread(tpj_hlo *h, tpj_value *x, int rank, const int64_t *dims, int64_t at);
/* Rows (`at` 1) or columns (2) of a [batch, m, n] times the factors [batch, ..] of theirs, converted to its dtype. */
tpj_value *tpj_scale_each(tpj_hlo *h, tpj_value *a, tpj_value *factors, int64_t at);
/* Rows of [batch, m, n] in the order I32[batch, k]. */
tpj_value *tpj_rows_at(tpj_hlo *h, tpj_value *a, tpj_value *order);
/* a [batch, m, n] divided by a number that keeps the squares of its elements in range; out_scale, real [batch], is 1 for
 * matrices of usual size, which therefore stay exact. */
tpj_value *tpj_in_range(tpj_hlo *h, tpj_value *a, tpj_value **out_scale);
/* The first k columns / rows of [batch, m, n]. */
tpj_value *tpj_first_columns(tpj_hlo *h, tpj_value *a, int64_t k);
tpj_value *tpj_first_rows(tpj_hlo *h, tpj_value *a, int64_t k);

/* XLA's QR of [batch, m, n] (qr.c): reflectors below the diagonal, R on and above it; their factors [batch, min(m, n)]. */
void tpj_reflect(tpj_hlo *h, tpj_value *a, tpj_value *out_packed[2]);
/* The first `columns` columns of the product of reflectors, [batch, m, columns]. */
tpj_value *tpj_product_of_reflectors(tpj_hlo *h, tpj_value *reflectors, tpj_value *taus, int64_t columns);
/* Rotates rows [batch, n, ..] by pairs until their first `width` elements are orthogonal to each other (jacobi.c). They
 * come back in no order, and one more, of zeros, where n is odd. */
tpj_value *tpj_jacobi(tpj_hlo *h, tpj_value *rows, int64_t width);

/* A result that was not asked for: an empty vector. */
void tpj_out_empty(tpj_emit *e, tpj_dtype dtype);

#endif
