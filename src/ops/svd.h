/* The singular value decomposition, for the rows that are built on it. Threads: as the builder that is written to. */
#ifndef TPJ_OPS_SVD_H
#define TPJ_OPS_SVD_H

#include "ops/matrices.h"

/* A = U diag(S) Vh; S real and descending. */
typedef struct tpj_svd {
    tpj_value *u, *s, *vh; /* [batch, m, k], [batch, k], [batch, k, n]; u and vh square when `full` */
} tpj_svd;
/* a: [batch, m, n]. Without `vectors` u and vh may be NULL. */
tpj_svd tpj_svd_of(tpj_hlo *h, tpj_value *a, bool full, bool vectors);

#endif
