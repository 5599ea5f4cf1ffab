#include "ops/nn.h"

bool tpj_nn_require_float(tpj_emit *e, const char *name) {
    tpj_dtype dtype = tpj_in_type(e, name).dtype;
    if (tpj_dtype_is_float(dtype)) return true;
    tpj_fail(e, TPJ_NOT_IMPLEMENTED, "not implemented for '%s': the argument '%s' must be floating point",
             tpj_dtype_name(dtype), name);
    return false;
}

static bool begin(tpj_emit *e, const char *x, const char *grad, tpj_nn *out_nn) {
    tpj_hlo *h = tpj_builder(e);
    *out_nn = (tpj_nn){.h = h};
    out_nn->dtype = grad == NULL ? tpj_promote(e, x, NULL) : tpj_promote(e, grad, x, NULL);
    out_nn->compute = tpj_compute_dtype(out_nn->dtype);
    out_nn->x = tpj_in_as(e, x, out_nn->compute);
    if (grad == NULL) return !hlo_failed(h);
    out_nn->grad = tpj_in_as(e, grad, out_nn->compute);
    if (!hlo_failed(h)) hlo_expand_together(h, &out_nn->grad, &out_nn->x);
    return !hlo_failed(h);
}

bool tpj_nn_begin(tpj_emit *e, const char *x, const char *grad, tpj_nn *out_nn) {
    if (!tpj_nn_require_float(e, x) || (grad != NULL && !tpj_nn_require_float(e, grad))) return false;
    return begin(e, x, grad, out_nn);
}

bool tpj_nn_begin_any(tpj_emit *e, const char *x, const char *grad, tpj_nn *out_nn) {
    if (tpj_in_type(e, x).dtype == TPJ_BOOL) {
        tpj_fail(e, TPJ_RUNTIME, "Boolean inputs not supported");
        return false;
    }
    return begin(e, x, grad, out_nn);
}

void tpj_nn_mask(tpj_emit *e, const char *name, int n, bool *out_mask) {
    int n_given;
    const bool *given = tpj_bools(e, name, &n_given);
    if (n_given != n) tpj_fail(e, TPJ_RUNTIME, "%s must have %d elements", name, n);
    for (int i = 0; i < n; i++) out_mask[i] = n_given == n && given[i];
}

bool tpj_nn_ints(tpj_emit *e, const char *name, int n, const int64_t *when_empty, int64_t *out_values) {
    int n_given;
    const int64_t *given = tpj_ints(e, name, &n_given);
    if (n_given > 0 && n_given != n && n_given != 1) {
        tpj_fail(e, TPJ_RUNTIME, "%s must either be a single int, or a tuple of %d ints", name, n);
        return false;
    }
    if (n_given <= 0 && when_empty == NULL) {
        tpj_fail(e, TPJ_RUNTIME, "%s must not be empty", name);
        return false;
    }
    for (int i = 0; i < n; i++) out_values[i] = n_given <= 0 ? when_empty[i] : given[n_given == 1 ? 0 : i];
    return true;
}

tpj_value *tpj_nn_number(tpj_hlo *h, tpj_value *x, double value) {
    tpj_dtype dtype = x->type.dtype;
    return tpj_dtype_is_complex(dtype) ? hlo_complex_number(h, dtype, value, 0) : hlo_number(h, dtype, value);
}

tpj_value *tpj_nn_sigmoid(tpj_hlo *h, tpj_value *x) { return hlo_unary(h, "logistic", x); }

tpj_value *tpj_nn_add_number(tpj_hlo *h, tpj_value *x, double value) {
    return hlo_add(h, x, tpj_nn_number(h, x, value));
}
tpj_value *tpj_nn_mul_number(tpj_hlo *h, tpj_value *x, double value) {
    return hlo_mul(h, x, tpj_nn_number(h, x, value));
}

tpj_value *tpj_nn_where(tpj_hlo *h, tpj_value *predicate, tpj_value *on_true) {
    return hlo_select(h, predicate, on_true, tpj_nn_number(h, on_true, 0));
}

tpj_value *tpj_nn_spread(tpj_hlo *h, tpj_value *reduced, const tpj_value *like, const int64_t *dims, int n_dims) {
    int64_t *mapping = hlo_dims(h, reduced->type.rank);
    int n = 0;
    for (int d = 0; d < like->type.rank; d++) {
        bool gone = false;
        for (int i = 0; i < n_dims && !gone; i++) gone = dims[i] == d;
        if (!gone && n < reduced->type.rank) mapping[n++] = d;
    }
    return hlo_broadcast_in_dim(h, reduced, like->type.rank, like->type.dims, mapping);
}

tpj_value *tpj_nn_reduce_spread(tpj_hlo *h, const char *kind, tpj_value *x, const int64_t *dims, int n_dims) {
    return tpj_nn_spread(h, hlo_reduce(h, kind, x, NULL, dims, n_dims), x, dims, n_dims);
}

tpj_value *tpj_nn_along(tpj_hlo *h, tpj_value *vector, const tpj_value *like, int dim) {
    int64_t mapping[] = {dim};
    return hlo_broadcast_in_dim(h, vector, like->type.rank, like->type.dims, mapping);
}

const int64_t *tpj_nn_dims_but(tpj_hlo *h, int rank, int dim) {
    int64_t *dims = hlo_dims(h, rank);
    for (int d = 0, n = 0; d < rank; d++)
        if (d != dim) dims[n++] = d;
    return dims;
}

const int64_t *tpj_nn_dims_from(tpj_hlo *h, int rank, int first) {
    int64_t *dims = hlo_dims(h, rank);
    for (int d = first; d < rank; d++) dims[d - first] = d;
    return dims;
}

tpj_value *tpj_nn_reduce_loss(tpj_emit *e, tpj_value *losses) {
    tpj_hlo *h = tpj_builder(e);
    int64_t reduction = tpj_int(e, "reduction", TPJ_REDUCTION_MEAN);
    if (reduction == TPJ_REDUCTION_NONE) return losses;
    tpj_value *sum = hlo_reduce_all(h, "add", losses);
    if (reduction == TPJ_REDUCTION_SUM) return sum;
    return hlo_div(h, sum, tpj_nn_number(h, sum, (double)hlo_elements(losses)));
}
