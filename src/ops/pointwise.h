/* What the families of pointwise ops and reductions (unary, binary, compare, reduce) share. */
#ifndef TPJ_OPS_POINTWISE_H
#define TPJ_OPS_POINTWISE_H

#include "ops/ops.h"

/* Two operands in the dtype that arithmetic on `dtype` runs in, broadcast together. */
typedef struct tpj_pair {
    tpj_hlo *h;
    tpj_dtype dtype; /* of the result */
    tpj_value *x, *y;
} tpj_pair;

/* Reads two arguments (tensors or numbers) for a result of `dtype`. */
tpj_pair tpj_pair_read(tpj_emit *e, const char *x, const char *y, tpj_dtype dtype);

/* Fails the op as PyTorch does where a kernel lacks a dtype. */
void tpj_fail_dtype(tpj_emit *e, tpj_dtype dtype);

/* A scalar of x's dtype. */
tpj_value *tpj_like(tpj_hlo *h, tpj_value *x, double value);
/* x compared with a constant. */
tpj_value *tpj_compare_number(tpj_hlo *h, const char *direction, tpj_value *x, double value);
/* Whether the sign bit is set, that of -0 and NaN too; integers: negative. */
tpj_value *tpj_sign_bit(tpj_hlo *h, tpj_value *x);
/* +inf or -inf; false everywhere for integers. */
tpj_value *tpj_is_infinite(tpj_hlo *h, tpj_value *x);
/* Rounds toward zero; x is a float. */
tpj_value *tpj_truncate(tpj_hlo *h, tpj_value *x);
/* on_true where the predicate holds, else the number. */
tpj_value *tpj_select_or(tpj_hlo *h, tpj_value *predicate, tpj_value *on_true, double otherwise);
/* x / y of one shape, floats correctly rounded. XLA turns a division by a number that is the same everywhere into a product
 * with its reciprocal, which is off by one bit now and then: 49 / 49 is not 1. */
tpj_value *tpj_divide(tpj_hlo *h, tpj_value *x, tpj_value *y);
/* x rounded to a half and kept as it is, F32. A conversion there and back would be simplified away. Other dtypes: x. */
tpj_value *tpj_rounded(tpj_hlo *h, tpj_value *x, tpj_dtype dtype);

/* special.c: x is F32 or F64. */
tpj_value *tpj_bessel_i(tpj_hlo *h, tpj_value *x, int order, bool scaled);
tpj_value *tpj_erfcx(tpj_hlo *h, tpj_value *x);
tpj_value *tpj_log_ndtr(tpj_hlo *h, tpj_value *x);
tpj_value *tpj_ndtri(tpj_hlo *h, tpj_value *x);
tpj_value *tpj_zeta(tpj_hlo *h, tpj_value *s, tpj_value *q); /* Hurwitz's; of one shape */

#endif
