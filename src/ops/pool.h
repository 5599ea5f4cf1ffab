/* What the files of the pool family share. A row's `variant` is the number of pooled dimensions, two or three.
 *
 * Threads: as the builder that they write to. */
#ifndef TPJ_OPS_POOL_H
#define TPJ_OPS_POOL_H

#include "ops/ops.h"

enum { TPJ_POOL_SPATIAL = 3, TPJ_POOL_RANK = 5 }; /* at most */

/* The input [C, *] or [N, C, *], and the windows over its last n dimensions where the op has windows. */
typedef struct tpj_pool {
    tpj_hlo *h;
    tpj_dtype dtype, compute;
    int n, lead;   /* pooled dimensions; dimensions before them */
    tpj_type type; /* of the input */
    int64_t kernel[TPJ_POOL_SPATIAL], stride[TPJ_POOL_SPATIAL], padding[TPJ_POOL_SPATIAL], dilation[TPJ_POOL_SPATIAL];
    int64_t size[TPJ_POOL_SPATIAL], out[TPJ_POOL_SPATIAL]; /* of the input; of the output */
} tpj_pool;

/* Elements and their numbers within the plane (I32; -1: padding). */
typedef struct tpj_pool_best {
    tpj_value *value, *place;
} tpj_pool_best;

/* Reads the argument "self". Fails the op and returns false when it cannot be pooled. */
bool tpj_pool_begin(tpj_emit *e, tpj_pool *p);
/* The input's leading dimensions, then `sizes`. */
int64_t *tpj_pool_dims(const tpj_pool *p, const int64_t *sizes);
/* The number of each element within its plane, I32, in the input's shape. */
tpj_value *tpj_pool_places(const tpj_pool *p, const int64_t *dims);
/* The better of two, where `a` comes before `b` (or is empty). `padded`: padding may be among them, and never wins. */
tpj_pool_best tpj_pool_better(const tpj_pool *p, tpj_pool_best a, tpj_pool_best b, bool padded);
/* The op's two results: the maxima, and their places as I64. */
void tpj_pool_out(tpj_emit *e, const tpj_pool *p, tpj_pool_best found);
/* Whether a gradient has the output's shape; fails the op. */
bool tpj_pool_check_gradient(tpj_emit *e, const tpj_pool *p, const tpj_value *grad);
/* grad and indices (I32) in the output's shape to the input's: each plane's gradients added at their places. */
tpj_value *tpj_pool_scatter(const tpj_pool *p, tpj_value *grad, tpj_value *indices);

/* ---- emitters of rows of the family ---- */
void tpj_emit_adaptive_avg_pool(tpj_emit *e);
void tpj_emit_adaptive_avg_pool_backward(tpj_emit *e);
void tpj_emit_adaptive_max_pool(tpj_emit *e);
void tpj_emit_adaptive_max_pool_backward(tpj_emit *e);
void tpj_emit_max_unpool(tpj_emit *e);
void tpj_emit_fractional_max_pool(tpj_emit *e);
void tpj_emit_fractional_max_pool_backward(tpj_emit *e);

#endif
