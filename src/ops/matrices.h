/* What the families of linear algebra (linalg, lu, qr) share: stacks of matrices, [.., rows, columns].
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
tpj_value *tpj_identity_like(tpj_hlo *h, const tpj_value *a, tpj_dtype dtype);
/* The diagonals of [batch, m, n]: [batch, min(m, n)]. */
tpj_value *tpj_diagonals(tpj_hlo *h, tpj_value *a);
/* The first k columns / rows of [batch, m, n]. */
tpj_value *tpj_first_columns(tpj_hlo *h, tpj_value *a, int64_t k);
tpj_value *tpj_first_rows(tpj_hlo *h, tpj_value *a, int64_t k);

/* A result that was not asked for: an empty vector. */
void tpj_out_empty(tpj_emit *e, tpj_dtype dtype);

#endif
