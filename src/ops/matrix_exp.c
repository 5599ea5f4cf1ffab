/* The exponential of a matrix, by scaling and squaring (Moler and Van Loan 2003): exp(A) = exp(A / 2^s)^(2^s), the inner
 * one by the Taylor polynomial of degree 16 in Paterson and Stockmeyer's form, which takes six products. Zero gives the identity
 * exactly. */
#include "ops/matrices.h"

enum { DEGREE = 16, GROUP = 4, MOST_SQUARINGS = 1023 };

/* The 1-norm that the polynomial is good for: x^17 / 17! stays below the rounding of e^x. */
static double most_norm(tpj_dtype real) { return real == TPJ_F64 ? 0.75 : 2.0; }

/* How often each matrix has to be halved: I32[batch]. */
static tpj_value *halvings_of(tpj_hlo *h, tpj_value *a) {
    tpj_value *norm = hlo_reduce_dim(h, "maximum", hlo_reduce_dim(h, "add", hlo_abs(h, a), 1), 1);
    tpj_dtype real = norm->type.dtype;
    tpj_value *ratio = hlo_mul(h, norm, hlo_number(h, real, 1 / most_norm(real)));
    tpj_value *log2 = hlo_mul(h, hlo_log(h, ratio), hlo_number(h, real, 1.44269504088896340736));
    log2 = hlo_clamp(h, hlo_number(h, real, 0), hlo_unary(h, "ceil", log2), hlo_number(h, real, MOST_SQUARINGS));
    tpj_value *is_number = hlo_compare(h, "EQ", norm, norm); /* NaN needs none */
    return hlo_convert(h, hlo_select(h, is_number, log2, hlo_number(h, real, 0)), TPJ_I32);
}

/* 2^-n, exact: a product of the powers that n's bits name. */
static tpj_value *power_of_half(tpj_hlo *h, tpj_value *n, tpj_dtype dtype) {
    tpj_value *result = hlo_full(h, dtype, n->type.rank, n->type.dims, 1);
    double power = 0.5;
    for (int bit = 1; bit <= MOST_SQUARINGS; bit *= 2, power *= power) {
        tpj_value *is_set =
            hlo_compare(h, "NE", hlo_and(h, n, hlo_integer(h, TPJ_I32, bit)), hlo_integer(h, TPJ_I32, 0));
        result = hlo_select(h, is_set, hlo_mul(h, result, hlo_number(h, dtype, power)), result);
    }
    return result;
}

static tpj_value *taylor(tpj_hlo *h, tpj_value *a) {
    tpj_dtype dtype = a->type.dtype;
    tpj_value *powers[GROUP + 1] = {tpj_identity_like(h, a, dtype), a}, *sum = NULL;
    for (int i = 2; i <= GROUP; i++) powers[i] = hlo_matmul(h, powers[i - 1], a, dtype);
    double factorial[DEGREE + 1] = {1};
    for (int i = 1; i <= DEGREE; i++) factorial[i] = factorial[i - 1] * i;
    for (int group = DEGREE / GROUP; group-- > 0;) {
        tpj_value *part = sum != NULL ? hlo_matmul(h, sum, powers[GROUP], dtype)
                                      : hlo_mul(h, powers[GROUP], hlo_number(h, dtype, 1 / factorial[DEGREE]));
        for (int i = GROUP; i-- > 0;) {
            tpj_value *factor = hlo_number(h, dtype, 1 / factorial[group * GROUP + i]);
            part = hlo_add(h, part, hlo_mul(h, powers[i], factor));
        }
        sum = part;
    }
    return sum;
}

enum { STEP, SQUARINGS, POWER, STATES };

static void squarings_remain(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    results[0] = hlo_compare(h, "LT", arguments[STEP], hlo_reduce_all(h, "maximum", arguments[SQUARINGS]));
}

static void square(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    tpj_value *x = arguments[POWER], *more = hlo_compare(h, "LT", arguments[STEP], arguments[SQUARINGS]);
    results[STEP] = hlo_add(h, arguments[STEP], hlo_integer(h, TPJ_I32, 1));
    results[SQUARINGS] = arguments[SQUARINGS];
    results[POWER] = hlo_select(h, tpj_spread(h, more, 3, x->type.dims, 0), hlo_matmul(h, x, x, x->type.dtype), x);
}

static void emit_matrix_exp(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype dtype = tpj_in_type(e, "self").dtype;
    tpj_value *given = tpj_in_as(e, "self", tpj_compute_dtype(dtype));
    if (tpj_dtype_is_integral(dtype)) {
        tpj_fail(e, TPJ_RUNTIME, "linalg.matrix_exp: Expected a floating point or complex tensor as input. Got %s",
                 tpj_dtype_torch_name(dtype));
        return;
    }
    if (!tpj_is_matrix(e, given, true)) return;
    tpj_value *a = tpj_flat_batch(h, given);
    if (hlo_elements(a) == 0 || hlo_dim(a, 1) == 1) {
        tpj_out_as(e, hlo_exp(h, given), dtype);
        return;
    }
    tpj_value *halvings = halvings_of(h, a);
    a = tpj_scale_each(h, a, power_of_half(h, halvings, hlo_real_dtype(a->type.dtype)), 0);
    tpj_value *initial[STATES] = {hlo_integer(h, TPJ_I32, 0), halvings, taylor(h, a)}, *final[STATES];
    hlo_while(h, initial, STATES, squarings_remain, square, NULL, final);
    tpj_out_as(e, tpj_unflat_batch(h, final[POWER], given), dtype);
}

const tpj_op_def tpj_ops_matrix_exp[] = {
    {.name = "linalg_matrix_exp", .params = "T self", .emit = emit_matrix_exp},
    {0},
};
