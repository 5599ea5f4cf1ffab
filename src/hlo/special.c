#include <inttypes.h>
#include <string.h>

#include "hlo/writer.h"

tpj_value *hlo_random_bits(tpj_hlo *h, tpj_value *state, tpj_dtype dtype, int rank, const int64_t *dims,
                           tpj_value **out_state) {
    tpj_value *out[2] = {&h->poison, &h->poison};
    if (out_state != NULL) *out_state = out[0];
    if (!hlo_ready(h, &state, 1)) return out[1];
    tpj_type types[] = {state->type, hlo_type(dtype, rank, dims)};
    if (tpj_type_elements(&types[1]) == 0) {
        if (out_state != NULL) *out_state = state;
        return hlo_zeros(h, dtype, rank, dims);
    }
    hlo_op(h, "rng_bit_generator", &state, 1, "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>", types, 2, out);
    if (out_state != NULL) *out_state = out[0];
    return out[1];
}

tpj_value *hlo_fft(tpj_hlo *h, tpj_value *x, const char *type, const int64_t *length, int n_dims) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    int rank = x->type.rank;
    int64_t *dims = hlo_dims(h, rank);
    if (h->failed) return &h->poison;
    if (rank < n_dims || n_dims < 1 || n_dims > 3) {
        return hlo_fail(h, TPJ_INTERNAL, "fft over %d dimensions of %s", n_dims, hlo_type_string(h, &x->type));
    }
    memcpy(dims, x->type.dims, sizeof *dims * (size_t)rank);
    tpj_dtype dtype = x->type.dtype;
    if (strcmp(type, "RFFT") == 0) {
        dims[rank - 1] = length[n_dims - 1] / 2 + 1;
        dtype = hlo_complex_dtype(dtype);
    } else if (strcmp(type, "IRFFT") == 0) {
        dims[rank - 1] = length[n_dims - 1];
        dtype = hlo_real_dtype(dtype);
    }
    hlo_attributes_begin(h);
    hlo_attribute_text(h, "fft_type = #stablehlo<fft_type %s>", type);
    hlo_attribute_array(h, "fft_length", length, n_dims);
    return hlo_op1(h, "fft", &x, 1, hlo_attributes(h), dtype, rank, dims);
}

tpj_value *hlo_cholesky(tpj_hlo *h, tpj_value *x, bool lower) {
    if (!hlo_ready(h, &x, 1)) return &h->poison;
    if (hlo_elements(x) == 0) return x;
    return hlo_op1(h, "cholesky", &x, 1, lower ? "lower = true" : "lower = false", x->type.dtype, x->type.rank,
                   x->type.dims);
}

tpj_value *hlo_triangular_solve(tpj_hlo *h, tpj_value *a, tpj_value *b, bool left, bool lower, bool unit,
                                const char *transpose) {
    tpj_value *operands[] = {a, b};
    if (!hlo_ready(h, operands, 2)) return &h->poison;
    if (hlo_elements(b) == 0) return b;
    hlo_attributes_begin(h);
    hlo_attribute_text(h, "left_side = %s, lower = %s, unit_diagonal = %s, transpose_a = #stablehlo<transpose %s>",
                       left ? "true" : "false", lower ? "true" : "false", unit ? "true" : "false", transpose);
    return hlo_op1(h, "triangular_solve", operands, 2, hlo_attributes(h), b->type.dtype, b->type.rank, b->type.dims);
}
