/* What the neural network families (activation, softmax, loss, norm, pool, attention, ..) share.
 *
 * Threads: as the builder that they write to. */
#ifndef TPJ_OPS_NN_H
#define TPJ_OPS_NN_H

#include "ops/ops.h"

/* A pointwise op being emitted: one or two operands, expanded together and in the compute dtype. */
typedef struct tpj_nn {
    tpj_hlo *h;
    tpj_dtype dtype, compute; /* of the result; of the arithmetic */
    tpj_value *x, *grad;      /* grad is NULL for a forward op */
} tpj_nn;

/* Reads `x` (and `grad` unless NULL). Fails the op and returns false when the result dtype is not floating point. */
bool tpj_nn_begin(tpj_emit *e, const char *x, const char *grad, tpj_nn *out_nn);
/* As above for any dtype but bool, complex ones included: computed in the promoted dtype, halves in F32. */
bool tpj_nn_begin_any(tpj_emit *e, const char *x, const char *grad, tpj_nn *out_nn);
/* Fails the op unless the argument is floating point (halves included). */
bool tpj_nn_require_float(tpj_emit *e, const char *name);

/* Reads a list of n bools, such as output_mask. All false, and the op failed, where the list is another. */
void tpj_nn_mask(tpj_emit *e, const char *name, int n, bool *out_mask);
/* Reads a list of ints into n numbers: one given stands for all, none given takes `when_empty` (NULL: an error). */
bool tpj_nn_ints(tpj_emit *e, const char *name, int n, const int64_t *when_empty, int64_t *out_values);

/* A scalar of x's dtype. */
tpj_value *tpj_nn_number(tpj_hlo *h, tpj_value *x, double value);
/* 1 / (1 + exp(-x)) */
tpj_value *tpj_nn_sigmoid(tpj_hlo *h, tpj_value *x);
/* x + value, x * value with a constant. */
tpj_value *tpj_nn_add_number(tpj_hlo *h, tpj_value *x, double value);
tpj_value *tpj_nn_mul_number(tpj_hlo *h, tpj_value *x, double value);
/* on_true where the predicate holds, zero elsewhere. */
tpj_value *tpj_nn_where(tpj_hlo *h, tpj_value *predicate, tpj_value *on_true);

/* Puts back, by repetition, the dimensions that a reduction over `dims` of `like` took away. */
tpj_value *tpj_nn_spread(tpj_hlo *h, tpj_value *reduced, const tpj_value *like, const int64_t *dims, int n_dims);
/* Reduces and spreads: the result has x's shape. */
tpj_value *tpj_nn_reduce_spread(tpj_hlo *h, const char *kind, tpj_value *x, const int64_t *dims, int n_dims);
/* A vector along dimension `dim` of `like`, repeated over the others. */
tpj_value *tpj_nn_along(tpj_hlo *h, tpj_value *vector, const tpj_value *like, int dim);
/* The dimensions of a value but one, or from `first` on; arrays in the builder's arena. */
const int64_t *tpj_nn_dims_but(tpj_hlo *h, int rank, int dim);
const int64_t *tpj_nn_dims_from(tpj_hlo *h, int rank, int first);

/* PyTorch's loss reductions. */
enum { TPJ_REDUCTION_NONE = 0, TPJ_REDUCTION_MEAN = 1, TPJ_REDUCTION_SUM = 2 };
/* Applies the op's argument "reduction" to elementwise losses. The mean of nothing is NaN. */
tpj_value *tpj_nn_reduce_loss(tpj_emit *e, tpj_value *losses);

#endif
