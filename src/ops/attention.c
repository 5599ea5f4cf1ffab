/* Scaled dot product attention, forward and backward.
 *
 * Written as dot, softmax, dot: TPU compilers recognise the form, where nothing is masked, and make it one kernel. Scores
 * and softmax are F32 for halves. Only the logarithm of the softmax's denominator is kept for the backward pass, which computes the
 * probabilities again. Key and value may have fewer heads than the query: each serves a group of query heads, which is
 * laid along the query's length. */
#include "ops/nn.h"

#include <math.h>

typedef struct attention {
    tpj_hlo *h;
    tpj_dtype dtype, compute;
    int64_t batch, heads, kv_heads, group, length, key_length, width, value_width;
    tpj_value *query, *key, *value; /* query: [batch, kv_heads, group * length, width], others with key_length */
    bool drops;
    bool plain;                 /* nothing between the dots but a softmax: the query is scaled, and not the scores */
    tpj_value *scale, *dropout; /* in the compute dtype; in F64 */
} attention;

/* [batch, heads, length, n] to [batch, kv_heads, group * length, n] and back. */
static tpj_value *fold(const attention *a, tpj_value *x, int64_t n) {
    const int64_t dims[] = {a->batch, a->kv_heads, a->group * a->length, n};
    return hlo_reshape(a->h, x, 4, dims);
}
static tpj_value *unfold(const attention *a, tpj_value *x, int64_t n) {
    const int64_t dims[] = {a->batch, a->heads, a->length, n};
    return hlo_reshape(a->h, x, 4, dims);
}

/* Whether the forward pass has the form that TPU compilers make one kernel of, which keeps no scores in memory: dot,
 * softmax, dot, each without a step in between. The scaled query is rounded to BF16 once, as the probabilities are; the
 * backward pass does the same, so that its probabilities are those of the forward pass. */
static bool is_plain(tpj_emit *e, const attention *a) {
    return !a->drops && !tpj_has(e, "attn_bias") && !tpj_bool(e, "is_causal", false) &&
           (a->dtype == TPJ_BF16 || a->dtype == TPJ_F32);
}

static bool begin(tpj_emit *e, attention *a) {
    tpj_hlo *h = tpj_builder(e);
    tpj_type q = tpj_in_type(e, "query"), k = tpj_in_type(e, "key"), v = tpj_in_type(e, "value");
    *a = (attention){.h = h, .dtype = q.dtype, .compute = tpj_compute_dtype(q.dtype)};
    if (!tpj_nn_require_float(e, "query")) return false;
    if (q.rank != 4 || k.rank != 4 || v.rank != 4 || k.dtype != q.dtype || v.dtype != q.dtype) {
        tpj_fail(e, TPJ_RUNTIME, "Expected query, key, and value to be 4-dimensional and to have the same dtype");
        return false;
    }
    a->batch = q.dims[0];
    a->heads = q.dims[1];
    a->kv_heads = k.dims[1];
    a->length = q.dims[2];
    a->key_length = k.dims[2];
    a->width = q.dims[3];
    a->value_width = v.dims[3];
    if (k.dims[0] != a->batch || v.dims[0] != a->batch || v.dims[1] != a->kv_heads || v.dims[2] != a->key_length ||
        k.dims[3] != a->width || a->kv_heads <= 0 || a->heads % a->kv_heads != 0) {
        tpj_fail(e, TPJ_RUNTIME, "the sizes of query, key and value do not fit each other");
        return false;
    }
    a->group = a->heads / a->kv_heads;
    tpj_require(e, "dropout_p", 0, 1, "dropout probability has to be between 0 and 1, but got ");
    a->drops = !tpj_is_constant(e, "dropout_p") || tpj_float(e, "dropout_p", 0) > 0;
    a->dropout = tpj_scalar_or(e, "dropout_p", TPJ_F64, 0);
    a->plain = is_plain(e, a);
    a->scale = tpj_scalar_or(e, "scale", a->compute, 1 / sqrt((double)a->width));
    a->query = fold(a, tpj_in(e, "query"), a->width);
    a->key = tpj_in(e, "key");
    a->value = tpj_in(e, "value");
    return !hlo_failed(h);
}

/* [b, h, m, n] x [b, h, n or m, k] with the given dimensions contracted, in the compute dtype. */
static tpj_value *dot(const attention *a, tpj_value *x, tpj_value *y, int64_t x_dim, int64_t y_dim) {
    const int64_t batch_dims[] = {0, 1}, x_dims[] = {x_dim}, y_dims[] = {y_dim};
    return hlo_dot(a->h, x, y, batch_dims, batch_dims, 2, x_dims, y_dims, 1, a->compute);
}

/* Where a query may see a key, in [batch, heads, length, key_length]; NULL: everywhere. Causal: keys up to its own place. */
static tpj_value *visible(tpj_emit *e, const attention *a) {
    const int64_t dims[] = {a->batch, a->heads, a->length, a->key_length};
    if (tpj_bool(e, "is_causal", false)) {
        const int64_t square[] = {a->length, a->key_length}, mapping[] = {2, 3};
        tpj_value *row = hlo_iota(a->h, TPJ_I32, 2, square, 0), *column = hlo_iota(a->h, TPJ_I32, 2, square, 1);
        return hlo_broadcast_in_dim(a->h, hlo_compare(a->h, "LE", column, row), 4, dims, mapping);
    }
    if (!tpj_has(e, "attn_bias") || tpj_in_type(e, "attn_bias").dtype != TPJ_BOOL) return NULL;
    return hlo_expand(a->h, tpj_in(e, "attn_bias"), 4, dims);
}

/* The scores in [batch, kv_heads, group * length, key_length]: scale q k + bias, -inf where hidden. */
static tpj_value *scores(tpj_emit *e, const attention *a) {
    tpj_hlo *h = a->h;
    if (a->plain) {
        tpj_value *query = hlo_mul(h, hlo_convert(h, a->query, a->compute), a->scale);
        return dot(a, hlo_convert(h, query, a->dtype), a->key, 3, 3);
    }
    tpj_value *x = hlo_mul(h, dot(a, a->query, a->key, 3, 3), a->scale);
    const int64_t dims[] = {a->batch, a->heads, a->length, a->key_length};
    if (tpj_has(e, "attn_bias") && tpj_in_type(e, "attn_bias").dtype != TPJ_BOOL) {
        tpj_value *bias = hlo_expand(h, tpj_in_as(e, "attn_bias", a->compute), 4, dims);
        x = hlo_add(h, x, fold(a, bias, a->key_length));
    }
    tpj_value *seen = visible(e, a);
    if (seen != NULL) x = hlo_select(h, fold(a, seen, a->key_length), x, tpj_nn_number(h, x, -INFINITY));
    return x;
}

/* The factors of dropout, 0 or 1 / (1 - p), drawn from a seed u64[2]: the backward pass draws the same ones again. */
static tpj_value *dropout_factors(const attention *a, tpj_value *seed) {
    tpj_hlo *h = a->h;
    int64_t n = a->batch * a->heads * a->length * a->key_length, even = n + n % 2;
    if (n == 0) {
        const int64_t dims[] = {a->batch, a->heads, a->length, a->key_length};
        return fold(a, hlo_zeros(h, a->compute, 4, dims), a->key_length);
    }
    tpj_value *bits = hlo_random_bits(h, seed, TPJ_U32, 1, &even, NULL);
    bits = fold(a, hlo_slice_dim(h, bits, 0, 0, n, 1), a->key_length);
    /* 2^32 does not fit the bits: where all are dropped, the limit is one less and the factor is 0 */
    tpj_value *one = hlo_number(h, TPJ_F64, 1), *all = hlo_compare(h, "GE", a->dropout, one);
    tpj_value *limit = hlo_mul(h, a->dropout, hlo_number(h, TPJ_F64, 0x1p32));
    limit = hlo_convert(h, hlo_min(h, limit, hlo_number(h, TPJ_F64, 0x1p32 - 1)), TPJ_U32);
    tpj_value *kept = hlo_compare(h, "GE", bits, limit);
    tpj_value *factor = hlo_select(h, all, hlo_number(h, TPJ_F64, 0), hlo_div(h, one, hlo_sub(h, one, a->dropout)));
    return hlo_mul(h, hlo_convert(h, kept, a->compute), hlo_convert(h, factor, a->compute));
}

static const int64_t last[] = {3};

/* The result in the compute dtype, [batch, kv_heads, group * length, value_width], and what the backward pass needs. */
typedef struct attended {
    tpj_value *output, *logsumexp; /* logsumexp: [batch, heads, length] */
    tpj_value *seed;               /* of dropout; NULL without */
} attended;

static attended attend(tpj_emit *e, const attention *a) {
    tpj_hlo *h = a->h;
    attended result = {.seed = NULL};
    tpj_value *x = scores(e, a), *zero = tpj_nn_number(h, x, 0);
    tpj_value *shift = hlo_reduce(h, "maximum", x, NULL, last, 1);
    /* A row that sees nothing gives zeros: its maximum of -inf is replaced, so that its powers are exp(-inf). */
    if (!a->plain) shift = hlo_select(h, hlo_compare(h, "EQ", shift, tpj_nn_number(h, x, -INFINITY)), zero, shift);
    tpj_value *powers = hlo_exp(h, hlo_sub(h, x, tpj_nn_spread(h, shift, x, last, 1)));
    tpj_value *sum = hlo_reduce(h, "add", powers, NULL, last, 1), *divisor = sum;
    if (!a->plain) divisor = hlo_select(h, hlo_compare(h, "EQ", sum, zero), tpj_nn_number(h, x, 1), sum);
    tpj_value *probabilities = hlo_div(h, powers, tpj_nn_spread(h, divisor, x, last, 1));
    if (a->drops) {
        const int64_t two[] = {2};
        result.seed = tpj_random_bits(e, TPJ_U64, 1, two);
        probabilities = hlo_mul(h, probabilities, dropout_factors(a, result.seed));
    }
    const int64_t rows[] = {a->batch, a->heads, a->length};
    result.output = dot(a, hlo_convert(h, probabilities, a->dtype), a->value, 3, 2);
    result.logsumexp = hlo_reshape(h, hlo_add(h, shift, hlo_log(h, sum)), 3, rows);
    return result;
}

/* Results are in the schema's order; the places of its integers and unused tensors are none. */
static void emit_attention(tpj_emit *e) {
    attention a;
    if (!begin(e, &a)) return;
    tpj_hlo *h = a.h;
    attended result = attend(e, &a);
    tpj_value *seed = result.seed;
    tpj_out_as(e, unfold(&a, result.output, a.value_width), a.dtype);
    tpj_out(e, result.logsumexp);
    for (int i = 0; i < 4; i++) tpj_out_none(e); /* cum_seq_q, cum_seq_k, max_q, max_k */
    if (seed == NULL)
        tpj_out_none(e);
    else
        tpj_out(e, hlo_bitcast(h, seed, TPJ_I64)); /* philox_seed */
    tpj_out_none(e);                               /* philox_offset */
    tpj_out_none(e);                               /* debug_attn_mask */
}

/* Eager mode without gradients: the logarithm of the denominator is left out, which would be computed apart. */
static void emit_attention_alone(tpj_emit *e) {
    attention a;
    if (!begin(e, &a)) return;
    if (a.drops) {
        tpj_fail(e, TPJ_NOT_IMPLEMENTED, "with dropout, call torch.nn.functional.scaled_dot_product_attention");
        return;
    }
    attended result = attend(e, &a);
    const int64_t none[] = {a.batch, a.heads, 0};
    tpj_out_as(e, unfold(&a, result.output, a.value_width), a.dtype);
    bool wanted = tpj_bool(e, "compute_log_sumexp", false);
    tpj_out(e, wanted ? result.logsumexp : hlo_zeros(a.h, a.compute, 3, none));
    tpj_out_none(e); /* philox_seed, philox_offset */
    tpj_out_none(e);
}

/* Sums what broadcasting repeated: x in [batch, heads, length, key_length] back to a type that expands to it. */
static tpj_value *sum_to(tpj_hlo *h, tpj_value *x, const tpj_type *type) {
    int64_t *dims = hlo_dims(h, 4);
    int n = 0;
    for (int d = 0; d < 4; d++) {
        int own = d - (4 - type->rank);
        if (own < 0 || (type->dims[own] == 1 && hlo_dim(x, d) != 1)) dims[n++] = d;
    }
    return hlo_reshape(h, hlo_reduce(h, "add", x, NULL, dims, n), type->rank, type->dims);
}

static void emit_attention_backward(tpj_emit *e) {
    attention a;
    bool mask[4];
    tpj_nn_mask(e, "grad_input_mask", 4, mask);
    if (!begin(e, &a)) return;
    tpj_hlo *h = a.h;
    tpj_value *x = scores(e, &a), *grad = fold(&a, tpj_in_as(e, "grad_out", a.dtype), a.value_width);
    const int64_t rows[] = {a.batch, a.kv_heads, a.group * a.length};
    tpj_value *lse = hlo_reshape(h, tpj_in_as(e, "logsumexp", a.compute), 3, rows);
    /* +inf for a row that saw nothing: its probabilities are zero. */
    lse = hlo_select(h, hlo_compare(h, "EQ", lse, tpj_nn_number(h, lse, -INFINITY)), tpj_nn_number(h, lse, INFINITY),
                     lse);
    tpj_value *probabilities = hlo_exp(h, hlo_sub(h, x, tpj_nn_spread(h, lse, x, last, 1)));
    tpj_value *dropped = probabilities, *slope = dot(&a, grad, a.value, 3, 3);
    if (a.drops) {
        if (!tpj_has(e, "philox_seed")) {
            tpj_fail(e, TPJ_RUNTIME, "the seed of the forward pass's dropout is missing");
            return;
        }
        tpj_value *factors = dropout_factors(&a, hlo_bitcast(h, tpj_in(e, "philox_seed"), TPJ_U64));
        dropped = hlo_mul(h, probabilities, factors);
        slope = hlo_mul(h, slope, factors);
    }
    tpj_value *product =
        hlo_mul(h, hlo_convert(h, grad, a.compute), fold(&a, tpj_in_as(e, "out", a.compute), a.value_width));
    tpj_value *delta = hlo_reduce(h, "add", product, NULL, last, 1);
    slope = hlo_mul(h, probabilities, hlo_sub(h, slope, tpj_nn_spread(h, delta, x, last, 1)));
    tpj_value *scaled = hlo_convert(h, hlo_mul(h, slope, a.scale), a.dtype);
    if (mask[0])
        tpj_out_as(e, unfold(&a, dot(&a, scaled, a.key, 3, 2), a.width), a.dtype);
    else
        tpj_out_none(e);
    if (mask[1])
        tpj_out_as(e, dot(&a, scaled, a.query, 2, 2), a.dtype);
    else
        tpj_out_none(e);
    if (mask[2])
        tpj_out_as(e, dot(&a, hlo_convert(h, dropped, a.dtype), grad, 2, 2), a.dtype);
    else
        tpj_out_none(e);
    tpj_type bias = tpj_in_type(e, "attn_bias");
    if (mask[3] && tpj_has(e, "attn_bias") && bias.dtype != TPJ_BOOL)
        tpj_out_as(e, sum_to(h, unfold(&a, slope, a.key_length), &bias), bias.dtype);
    else
        tpj_out_none(e);
}

const tpj_op_def tpj_ops_attention[] = {
    {.name = "_scaled_dot_product_fused_attention_overrideable",
     .params = "T query, T key, T value, T? attn_bias, F~ dropout_p=0.0, B is_causal=false, F~? scale",
     .emit = emit_attention,
     .flags = TPJ_OP_RANDOM},
    {.name = "_scaled_dot_product_efficient_attention",
     .params = "T query, T key, T value, T? attn_bias, B compute_log_sumexp, F dropout_p=0.0, B is_causal=false, "
               "F~? scale",
     .emit = emit_attention_alone},
    {.name = "_scaled_dot_product_fused_attention_overrideable_backward",
     .params =
         "T grad_out, T query, T key, T value, T? attn_bias, B[] grad_input_mask, T out, T logsumexp, F~ dropout_p, "
         "B is_causal, T? philox_seed, F~? scale",
     .emit = emit_attention_backward},
    {0}};
