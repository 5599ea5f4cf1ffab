#include <string.h>

#include "hlo/writer.h"

bool hlo_match(tpj_hlo *h, const char *name, tpj_value **xs, int n) {
    if (!hlo_ready(h, xs, n)) return false;
    const tpj_value *shape = xs[0];
    for (int i = 1; i < n && shape->type.rank == 0; i++) shape = xs[i];
    for (int i = 0; i < n; i++) {
        if (xs[i]->type.rank == 0) xs[i] = hlo_broadcast_in_dim(h, xs[i], shape->type.rank, shape->type.dims, NULL);
        if (h->failed) return false;
        if (hlo_same_dims(xs[i], shape)) continue;
        hlo_fail(h, TPJ_RUNTIME, "%s: shapes differ: %s and %s", name, hlo_type_string(h, &shape->type),
                 hlo_type_string(h, &xs[i]->type));
        return false;
    }
    return true;
}

bool hlo_same_dtypes(tpj_hlo *h, const char *name, const tpj_value *x, const tpj_value *y) {
    if (x->type.dtype == y->type.dtype) return true;
    hlo_fail(h, TPJ_INTERNAL, "%s: dtypes differ: %s and %s", name, hlo_type_string(h, &x->type),
             hlo_type_string(h, &y->type));
    return false;
}

tpj_value *hlo_op_like(tpj_hlo *h, const char *name, tpj_value *const *xs, int n, tpj_dtype dtype) {
    return hlo_op1(h, name, xs, n, NULL, dtype, xs[0]->type.rank, xs[0]->type.dims);
}

tpj_value *hlo_unary(tpj_hlo *h, const char *name, tpj_value *x) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    return hlo_op_like(h, name, &x, 1, strcmp(name, "is_finite") == 0 ? TPJ_BOOL : x->type.dtype);
}

tpj_value *hlo_binary(tpj_hlo *h, const char *name, tpj_value *x, tpj_value *y) {
    tpj_value *xs[] = {x, y};
    if (!hlo_match(h, name, xs, 2) || !hlo_same_dtypes(h, name, xs[0], xs[1])) return &h->poison;
    return hlo_op_like(h, name, xs, 2, xs[0]->type.dtype);
}

tpj_value *hlo_add(tpj_hlo *h, tpj_value *x, tpj_value *y) { return hlo_binary(h, "add", x, y); }
tpj_value *hlo_sub(tpj_hlo *h, tpj_value *x, tpj_value *y) { return hlo_binary(h, "subtract", x, y); }
tpj_value *hlo_mul(tpj_hlo *h, tpj_value *x, tpj_value *y) { return hlo_binary(h, "multiply", x, y); }
tpj_value *hlo_div(tpj_hlo *h, tpj_value *x, tpj_value *y) { return hlo_binary(h, "divide", x, y); }
/* StableHLO's maximum and minimum propagate NaN. XLA's CPU compiler keeps that promise only with its option
 * xla_cpu_enable_fast_min_max off, which the compile options for CPU plugins set: a select beside each one would cost the
 * TPU its native reductions. */
tpj_value *hlo_max(tpj_hlo *h, tpj_value *x, tpj_value *y) { return hlo_binary(h, "maximum", x, y); }
tpj_value *hlo_min(tpj_hlo *h, tpj_value *x, tpj_value *y) { return hlo_binary(h, "minimum", x, y); }
tpj_value *hlo_pow(tpj_hlo *h, tpj_value *x, tpj_value *y) { return hlo_binary(h, "power", x, y); }
tpj_value *hlo_and(tpj_hlo *h, tpj_value *x, tpj_value *y) { return hlo_binary(h, "and", x, y); }
tpj_value *hlo_or(tpj_hlo *h, tpj_value *x, tpj_value *y) { return hlo_binary(h, "or", x, y); }
tpj_value *hlo_not(tpj_hlo *h, tpj_value *x) { return hlo_unary(h, "not", x); }
tpj_value *hlo_neg(tpj_hlo *h, tpj_value *x) {
    if (hlo_ready(h, &x, 1) && x->type.dtype == TPJ_C32) /* two signs are turned, nothing is rounded */
        return hlo_complex(h, hlo_neg(h, hlo_real(h, x)), hlo_neg(h, hlo_imag(h, x)));
    return hlo_unary(h, "negate", x);
}
tpj_value *hlo_exp(tpj_hlo *h, tpj_value *x) { return hlo_unary(h, "exponential", x); }
tpj_value *hlo_log(tpj_hlo *h, tpj_value *x) { return hlo_unary(h, "log", x); }
tpj_value *hlo_sqrt(tpj_hlo *h, tpj_value *x) { return hlo_unary(h, "sqrt", x); }
tpj_value *hlo_rsqrt(tpj_hlo *h, tpj_value *x) { return hlo_unary(h, "rsqrt", x); }
tpj_value *hlo_tanh(tpj_hlo *h, tpj_value *x) { return hlo_unary(h, "tanh", x); }

tpj_value *hlo_abs(tpj_hlo *h, tpj_value *x) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    if (tpj_dtype_is_unsigned(x->type.dtype)) return x;
    return hlo_op_like(h, "abs", &x, 1, hlo_real_dtype(x->type.dtype));
}

tpj_value *hlo_compare(tpj_hlo *h, const char *direction, tpj_value *x, tpj_value *y) {
    tpj_value *xs[] = {x, y};
    if (!hlo_match(h, "compare", xs, 2) || !hlo_same_dtypes(h, "compare", xs[0], xs[1])) return &h->poison;
    hlo_attributes_begin(h);
    hlo_attribute_text(h, "comparison_direction = #stablehlo<comparison_direction %s>", direction);
    return hlo_op1(h, "compare", xs, 2, hlo_attributes(h), TPJ_BOOL, xs[0]->type.rank, xs[0]->type.dims);
}

tpj_value *hlo_is_nan(tpj_hlo *h, tpj_value *x) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    if (tpj_dtype_is_integral(x->type.dtype)) return hlo_full(h, TPJ_BOOL, x->type.rank, x->type.dims, 0);
    return hlo_compare(h, "NE", x, x);
}

tpj_value *hlo_select(tpj_hlo *h, tpj_value *predicate, tpj_value *on_true, tpj_value *on_false) {
    tpj_value *xs[] = {predicate, on_true, on_false};
    if (!hlo_match(h, "select", xs, 3) || !hlo_same_dtypes(h, "select", xs[1], xs[2])) return &h->poison;
    if (xs[0]->type.dtype != TPJ_BOOL) {
        return hlo_fail(h, TPJ_INTERNAL, "select: the predicate is %s", hlo_type_string(h, &xs[0]->type));
    }
    return hlo_op_like(h, "select", xs, 3, xs[1]->type.dtype);
}

tpj_value *hlo_clamp(tpj_hlo *h, tpj_value *low, tpj_value *x, tpj_value *high) {
    tpj_value *xs[] = {low, x, high};
    if (!hlo_match(h, "clamp", xs, 3)) return &h->poison;
    if (!hlo_same_dtypes(h, "clamp", xs[0], xs[1]) || !hlo_same_dtypes(h, "clamp", xs[1], xs[2])) return &h->poison;
    return hlo_op_like(h, "clamp", xs, 3, xs[1]->type.dtype);
}
