/* QR by Householder reflections, through the custom calls that every XLA compiler expands. */
#include "ops/matrices.h"

void tpj_reflect(tpj_hlo *h, tpj_value *a, tpj_value *out_packed[2]) {
    int64_t m = hlo_dim(a, 1), n = hlo_dim(a, 2), taus[] = {hlo_dim(a, 0), m < n ? m : n};
    tpj_type types[] = {a->type, {a->type.dtype, 2, taus}};
    if (hlo_elements(a) > 0) {
        hlo_op(h, "custom_call", &a, 1, "call_target_name = \"Qr\"", types, 2, out_packed);
        return;
    }
    out_packed[0] = a;
    out_packed[1] = hlo_zeros(h, a->type.dtype, 2, taus);
}

tpj_value *tpj_product_of_reflectors(tpj_hlo *h, tpj_value *reflectors, tpj_value *taus, int64_t columns) {
    tpj_dtype dtype = reflectors->type.dtype;
    int64_t dims[] = {hlo_dim(reflectors, 0), hlo_dim(reflectors, 1), columns}, n = hlo_dim(reflectors, 2);
    if (columns > n) reflectors = hlo_pad_dim(h, reflectors, hlo_number(h, dtype, 0), 2, 0, columns - n);
    if (tpj_product(dims, 3) == 0 || hlo_elements(taus) == 0) {
        return tpj_identity_like(h, hlo_zeros(h, dtype, 3, dims), dtype);
    }
    tpj_value *operands[] = {reflectors, taus};
    return hlo_op1(h, "custom_call", operands, 2, "call_target_name = \"ProductOfElementaryHouseholderReflectors\"",
                   dtype, 3, dims);
}

static void emit_qr(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *given = tpj_in(e, "A");
    if (!tpj_is_matrix(e, given, false)) return;
    const char *mode = tpj_string(e, "mode", "reduced");
    bool complete = mode[0] == 'c', only_r = mode[0] == 'r' && mode[1] == '\0';
    tpj_value *a = tpj_flat_batch(h, given);
    tpj_dtype dtype = a->type.dtype;
    int64_t batch = hlo_dim(a, 0), m = hlo_dim(a, 1), n = hlo_dim(a, 2), k = m < n ? m : n;
    int64_t rows = complete ? m : k, q_dims[] = {batch, m, rows}, r_dims[] = {batch, rows, n};
    if (hlo_elements(a) == 0) {
        if (only_r) {
            tpj_out_empty(e, dtype);
        } else {
            tpj_out_columns(e, tpj_unflat_batch(h, tpj_identity_like(h, hlo_zeros(h, dtype, 3, q_dims), dtype), given));
        }
        tpj_out_columns(e, tpj_unflat_batch(h, hlo_zeros(h, dtype, 3, r_dims), given));
        return;
    }
    tpj_value *packed[2];
    tpj_reflect(h, a, packed);
    tpj_value *r = tpj_first_rows(h, packed[0], rows);
    if (only_r) {
        tpj_out_empty(e, dtype);
    } else { /* the reflectors lie below the diagonal, in as many columns as Q has */
        tpj_value *reflectors = tpj_first_columns(h, packed[0], rows < n ? rows : n);
        tpj_out_columns(e, tpj_unflat_batch(h, tpj_product_of_reflectors(h, reflectors, packed[1], rows), given));
    }
    tpj_out_columns(e, tpj_unflat_batch(h, tpj_triangle(h, r, true), given));
}

static void emit_geqrf(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a = tpj_in(e, "self"), *packed[2];
    if (!tpj_is_matrix(e, a, false)) return;
    tpj_reflect(h, tpj_flat_batch(h, a), packed);
    tpj_out_columns(e, tpj_unflat_batch(h, packed[0], a));
    tpj_out(e, tpj_unflat_batch(h, packed[1], a));
}

/* Reflectors [.., m, n] and tau [.., k], k <= n, flattened: Q with `columns` columns. */
static tpj_value *read_reflectors(tpj_emit *e, const char *name, int64_t columns) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a = tpj_flat_batch(h, tpj_in(e, name)), *tau = tpj_in(e, "tau");
    int64_t taus[] = {hlo_dim(a, 0), hlo_dim(tau, -1)};
    return tpj_product_of_reflectors(h, a, hlo_reshape(h, tau, 2, taus), columns);
}

static bool reflectors_ok(tpj_emit *e, const char *name) {
    tpj_type a = tpj_in_type(e, name), tau = tpj_in_type(e, "tau");
    bool fits = a.rank >= 2 && tau.rank == a.rank - 1 && a.dims[a.rank - 2] >= a.dims[a.rank - 1] &&
                tau.dims[tau.rank - 1] <= a.dims[a.rank - 1] && a.dtype == tau.dtype;
    if (!fits) {
        tpj_fail(e, TPJ_RUNTIME,
                 "%s: input must be tall matrices of reflectors, with a tau of the same dtype, one number a reflector",
                 tpj_row(e)->name);
    }
    return fits;
}

static void emit_householder_product(tpj_emit *e) {
    if (!reflectors_ok(e, "input")) return;
    tpj_value *like = tpj_in(e, "input");
    tpj_out_columns(e, tpj_unflat_batch(tpj_builder(e), read_reflectors(e, "input", hlo_dim(like, -1)), like));
}

/* Q or its adjoint, times other from the left or the right. */
static void emit_ormqr(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *like = tpj_in(e, "self"), *other = tpj_in(e, "input3");
    tpj_value *tau = tpj_in(e, "input2");
    if (!tpj_is_matrix(e, like, false) || !tpj_is_matrix(e, other, false)) return;
    bool left = tpj_bool(e, "left", true), transpose = tpj_bool(e, "transpose", false);
    int64_t m = hlo_dim(like, -2), taus[] = {tpj_product(like->type.dims, like->type.rank - 2), hlo_dim(tau, -1)};
    if (hlo_dim(other, left ? -2 : -1) != m || tau->type.rank != like->type.rank - 1) {
        tpj_fail(e, TPJ_RUNTIME, "ormqr: other.shape[%d] must be equal to input.shape[-2]", left ? -2 : -1);
        return;
    }
    tpj_value *q = tpj_product_of_reflectors(h, tpj_flat_batch(h, like), hlo_reshape(h, tau, 2, taus), m);
    if (transpose) q = tpj_transposed(h, q, true);
    tpj_value *x = tpj_flat_batch(h, other),
              *y = left ? hlo_matmul(h, q, x, x->type.dtype) : hlo_matmul(h, x, q, x->type.dtype);
    tpj_out_columns(e, tpj_unflat_batch(h, y, other));
}

const tpj_op_def tpj_ops_qr[] = {
    {.name = "linalg_qr", .params = "T A, Str mode=reduced", .emit = emit_qr},
    {.name = "geqrf", .params = "T self", .emit = emit_geqrf},
    {.name = "linalg_householder_product", .params = "T input, T tau", .emit = emit_householder_product},
    {.name = "ormqr", .params = "T self, T input2, T input3, B left=True, B transpose=False", .emit = emit_ormqr},
    {0},
};
