/* What the special functions share: arithmetic with constants, and polynomials. x and t are F32 or F64. */
#ifndef TPJ_OPS_SERIES_H
#define TPJ_OPS_SERIES_H

#include "ops/pointwise.h"

#define TPJ_LENGTH(table) ((int)(sizeof(table) / sizeof(table)[0]))

static inline tpj_value *plus(tpj_hlo *h, tpj_value *x, double c) { return hlo_add(h, x, tpj_like(h, x, c)); }
static inline tpj_value *times(tpj_hlo *h, tpj_value *x, double c) { return hlo_mul(h, x, tpj_like(h, x, c)); }
static inline tpj_value *over(tpj_hlo *h, double c, tpj_value *x) { return hlo_div(h, tpj_like(h, x, c), x); }
/* c - x */
static inline tpj_value *from(tpj_hlo *h, double c, tpj_value *x) { return hlo_sub(h, tpj_like(h, x, c), x); }

/* sum over i < n of coefficients[i] T_i(t), for t in [-1, 1]. F32 leaves out the terms that it cannot hold. */
tpj_value *tpj_chebyshev(tpj_hlo *h, const double *coefficients, int n, tpj_value *t);
/* sum over i < n of coefficients[i] x^i */
tpj_value *tpj_polynomial(tpj_hlo *h, const double *coefficients, int n, tpj_value *x);

#endif
