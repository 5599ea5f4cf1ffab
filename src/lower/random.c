/* Random numbers: they reach beyond one op's arithmetic, to the generator.
 *
 * Numbers are counter-based (Threefry 2x32, 20 rounds, of Salmon et al. 2011, through rng_bit_generator): the state is the
 * generator's (seed, offset); a program says how far a launch advances the offset, so that the same seed gives the same
 * numbers in every mode and on every plugin. */
#include "lower/lowering.h"
#include "lower/view.h"

enum { OFFSET_ALIGNMENT = 4 }; /* PyTorch's convention for offsets of counter-based generators */

static tpj_value *next_state(tpj_lowering *lowering, uint64_t count) {
    tpj_hlo *h = lowering->h;
    tpj_value *state = lowering->random_state;
    if (lowering->random_count > 0) {
        static const int64_t two = 2;
        int64_t advance[2] = {0, (int64_t)lowering->random_count};
        state = hlo_add(h, state, hlo_array_of_integers(h, TPJ_U64, 1, &two, advance));
    }
    lowering->random_count += (count + OFFSET_ALIGNMENT - 1) / OFFSET_ALIGNMENT * OFFSET_ALIGNMENT;
    return state;
}

/* Words of 32 bits: two a block, the first ones of all blocks and then the second ones. As a flat array the generator would put
 * them together as pairs, in an array whose last dimension is 2, and that takes 64 times its bytes in a TPU's tiles; so it
 * gets a dimension of 2 in front. Where it can, it also gets the dimensions that are wanted, or they would be moved: which
 * number is which does not depend on that. */
static tpj_value *pairs_of_words(tpj_emit *e, tpj_value *state, int64_t words, int rank, const int64_t *dims) {
    int64_t shape[TPJ_VIEW_MAX_RANK + 1] = {2, words / 2};
    int first = 0, n_dims = 2;
    while (first < rank && dims[first] == 1) first++;
    if (first < rank && dims[first] % 2 == 0 && rank - first <= TPJ_VIEW_MAX_RANK) {
        shape[1] = dims[first] / 2;
        for (int i = first + 1; i < rank; i++) shape[n_dims++] = dims[i];
    }
    return hlo_random_bits(e->h, state, TPJ_U32, n_dims, shape, NULL);
}

tpj_value *tpj_random_bits(tpj_emit *e, tpj_dtype dtype, int rank, const int64_t *dims) {
    if (e->lowering->random_state == NULL) {
        tpj_fail(e, TPJ_INTERNAL, "the program has no random state");
        return hlo_zeros(e->h, dtype, rank, dims);
    }
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    if (n == 0) return hlo_zeros(e->h, dtype, rank, dims);
    uint64_t blocks = ((uint64_t)n * tpj_dtype_bytes(dtype) + 7) / 8; /* a block is 64 bits */
    /* the generator fills an array of whole blocks; the shape is ours, so that it never changes the numbers */
    int64_t words = (int64_t)(blocks * 8 / tpj_dtype_bytes(dtype));
    tpj_value *state = next_state(e->lowering, blocks), *bits;
    if (dtype == TPJ_U32)
        bits = pairs_of_words(e, state, words, rank, dims);
    else
        bits = hlo_random_bits(e->h, state, dtype, 1, &words, NULL);
    if (words == n) return hlo_reshape(e->h, bits, rank, dims);
    return hlo_reshape(e->h, hlo_slice_dim(e->h, hlo_reshape(e->h, bits, 1, &words), 0, 0, n, 1), rank, dims);
}

tpj_value *tpj_random_uniform(tpj_emit *e, tpj_dtype dtype, int rank, const int64_t *dims) {
    bool wide = dtype == TPJ_F64;
    tpj_value *bits = tpj_random_bits(e, wide ? TPJ_U64 : TPJ_U32, rank, dims);
    bits = hlo_binary(e->h, "shift_right_logical", bits, hlo_integer(e->h, bits->type.dtype, wide ? 11 : 8));
    return hlo_mul(e->h, hlo_convert(e->h, bits, dtype), hlo_number(e->h, dtype, wide ? 0x1p-53 : 0x1p-24));
}

/* Inverse transform of an open uniform: sqrt(2) * erf_inv(2u - 1), u at the middle of its cell so that no end is hit. */
tpj_value *tpj_random_normal(tpj_emit *e, tpj_dtype dtype, int rank, const int64_t *dims) {
    bool wide = dtype == TPJ_F64;
    tpj_value *u = tpj_random_uniform(e, dtype, rank, dims);
    u = hlo_add(e->h, hlo_mul(e->h, u, hlo_number(e->h, dtype, 2)),
                hlo_number(e->h, dtype, wide ? 0x1p-53 - 1 : 0x1p-24 - 1));
    return hlo_mul(e->h, hlo_unary(e->h, "chlo.erf_inv", u), hlo_number(e->h, dtype, 1.41421356237309504880));
}
