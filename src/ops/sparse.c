/* Rows of different lengths: compressed row offsets and row numbers (sparse CSR), jagged and padded batches. */
#include "ops/indexing.h"

static tpj_value *ones(tpj_hlo *h, tpj_dtype dtype, int64_t n) { return hlo_full(h, dtype, 1, &n, 1); }

/* For each of n elements the number of rows that end at or before it, which is its row where rows are in order:
 * ends [m] -> [n]. */
static tpj_value *rows_of_elements(tpj_hlo *h, tpj_value *ends, int64_t n) {
    tpj_dtype dtype = ends->type.dtype;
    tpj_value *steps =
        tpj_scatter_rows(h, "add", hlo_zeros(h, dtype, 1, &n), 0, ends, ones(h, dtype, hlo_dim(ends, 0)));
    return hlo_cumulative(h, "add", steps, 0, false);
}

/* ---- compressed rows ---- */

/* self: row numbers [n] -> offsets [size + 1]: how many elements lie in the rows before each. */
static void emit_coo_to_csr(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *rows = tpj_in(e, "self");
    int64_t n = tpj_int(e, "size", 0) + 1;
    if (rows->type.rank != 1) {
        tpj_fail(e, TPJ_RUNTIME, "expected row indices of one dimension, but got %d", rows->type.rank);
        return;
    }
    tpj_dtype out = tpj_bool(e, "out_int32", false) ? TPJ_I32 : TPJ_I64;
    tpj_value *offsets = hlo_zeros(h, out, 1, &n);
    if (hlo_elements(rows) > 0) {
        tpj_value *next = hlo_add(h, rows, hlo_integer(h, rows->type.dtype, 1));
        offsets = tpj_scatter_rows(h, "add", offsets, 0, next, ones(h, out, hlo_dim(rows, 0)));
        offsets = hlo_cumulative(h, "add", offsets, 0, false);
    }
    tpj_out(e, offsets);
}

/* Batch coordinates of n elements per batch entry, one row [batch.. * n] of indices for each batch dimension. */
static void batch_rows(tpj_hlo *h, const tpj_type *columns, tpj_dtype dtype, int64_t total, tpj_value **rows) {
    for (int d = 0; d < columns->rank - 1; d++) {
        rows[d] = hlo_reshape(h, hlo_iota(h, dtype, columns->rank, columns->dims, d), 1, &total);
    }
}

/* crow_indices [.., m + 1], col_indices [.., n] -> [batch dims + 2, all elements]: batch, row and column of each. */
static void emit_csr_to_coo(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *offsets = tpj_in(e, "crow_indices"), *columns = tpj_in(e, "col_indices");
    tpj_dtype out = tpj_bool(e, "out_int32", false) ? TPJ_I32 : TPJ_I64;
    int rank = columns->type.rank;
    if (rank < 1 || offsets->type.rank != rank || hlo_dim(offsets, -1) < 1) {
        tpj_fail(e, TPJ_RUNTIME, "crow_indices and col_indices must have the same number of dimensions, of 1 or more");
        return;
    }
    int64_t n = hlo_dim(columns, -1), m = hlo_dim(offsets, -1) - 1, total = hlo_elements(columns);
    int64_t row_dims[] = {1, total}, dims[] = {rank + 1, total};
    if (total == 0) {
        tpj_out(e, hlo_zeros(h, out, 2, dims));
        return;
    }
    /* the ends of rows, counted through all of the batch */
    tpj_value *ends = hlo_convert(h, hlo_slice_dim(h, offsets, rank - 1, 1, m + 1, 1), TPJ_I64);
    int64_t n_ends = hlo_elements(ends), flat[] = {n_ends / (m > 0 ? m : 1), m};
    ends = hlo_reshape(h, ends, 2, flat);
    tpj_value *start = hlo_mul(h, hlo_iota(h, TPJ_I64, 2, flat, 0), hlo_integer(h, TPJ_I64, n));
    tpj_value *row = rows_of_elements(h, hlo_reshape(h, hlo_add(h, ends, start), 1, &n_ends), total);
    row = hlo_binary(h, "remainder", row, hlo_integer(h, TPJ_I64, m > 0 ? m : 1));
    tpj_value **rows = TPJ_ARENA_ARRAY(hlo_arena(h), tpj_value *, rank + 1);
    if (rows == NULL) {
        hlo_fail(h, TPJ_OUT_OF_MEMORY, "out of memory");
        return;
    }
    batch_rows(h, &columns->type, out, total, rows);
    bool transpose = tpj_bool(e, "transpose", false);
    rows[transpose ? rank : rank - 1] = hlo_convert(h, row, out);
    rows[transpose ? rank - 1 : rank] = hlo_convert(h, hlo_reshape(h, columns, 1, &total), out);
    for (int d = 0; d <= rank; d++) rows[d] = hlo_reshape(h, rows[d], 2, row_dims);
    tpj_out(e, hlo_concatenate(h, rows, rank + 1, 0));
}

/* ---- jagged and padded ---- */

/* The one offset tensor [batch + 1], as index numbers; NULL: the op has failed. */
static tpj_value *read_offsets(tpj_emit *e) {
    int n = 0;
    tpj_value **offsets = tpj_in_list(e, "offsets", &n);
    if (n != 1) {
        tpj_fail(e, TPJ_RUNTIME, "one jagged dimension is supported, but there are %d offset tensors", n);
        return NULL;
    }
    if (offsets[0]->type.rank != 1 || hlo_dim(offsets[0], 0) < 1) {
        tpj_fail(e, TPJ_RUNTIME, "expected offsets of one dimension with one element or more");
        return NULL;
    }
    return hlo_convert(tpj_builder(e), offsets[0], TPJ_I64);
}

/* values [n, ..], offsets [batch + 1] -> [batch, max_length, ..], with padding where a row is shorter. */
static void emit_jagged_to_padded(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *values = tpj_in(e, "values"), *offsets = read_offsets(e);
    int n_lengths = 0;
    const int64_t *lengths = tpj_ints(e, "max_lengths", &n_lengths);
    if (offsets == NULL) return;
    if (n_lengths != 1 || lengths[0] < 0 || values->type.rank < 1) {
        tpj_fail(e, TPJ_RUNTIME, "expected values of one dimension or more and one maximum length, of 0 or more");
        return;
    }
    int64_t batch = hlo_dim(offsets, 0) - 1, places[] = {batch, lengths[0]}, n = hlo_dim(values, 0);
    int rank = values->type.rank + 1;
    int64_t *dims = hlo_dims(h, rank);
    dims[0] = batch;
    dims[1] = lengths[0];
    for (int d = 2; d < rank; d++) dims[d] = hlo_dim(values, d - 1);
    tpj_value *padding = tpj_scalar_or(e, "padding_value", values->type.dtype, 0);
    if (n == 0 || batch == 0 || lengths[0] == 0) {
        tpj_out(e, hlo_broadcast_in_dim(h, padding, rank, dims, NULL));
        return;
    }
    int64_t column[] = {batch, 1};
    tpj_value *start = hlo_reshape(h, hlo_slice_dim(h, offsets, 0, 0, batch, 1), 2, column);
    tpj_value *end = hlo_reshape(h, hlo_slice_dim(h, offsets, 0, 1, batch + 1, 1), 2, column);
    tpj_value *place = hlo_add(h, hlo_expand(h, start, 2, places), hlo_iota(h, TPJ_I64, 2, places, 1));
    tpj_value *is_there = hlo_compare(h, "LT", place, hlo_expand(h, end, 2, places));
    place = hlo_clamp(h, hlo_integer(h, TPJ_I64, 0), place, hlo_integer(h, TPJ_I64, n - 1));
    tpj_value *taken = hlo_take(h, values, tpj_index_narrow(h, place, n), 0);
    const int64_t mapping[] = {0, 1};
    tpj_out(e, hlo_select(h, hlo_broadcast_in_dim(h, is_there, rank, dims, mapping), taken, padding));
}

/* dense [batch, max_length, ..], offsets [batch + 1] -> [total, ..]: the padding left out. A row that is longer than
 * max_length is found by the index check. */
static void emit_padded_to_jagged(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *dense = tpj_in(e, "dense"), *offsets = read_offsets(e);
    if (offsets == NULL) return;
    int64_t batch = hlo_dim(offsets, 0) - 1, total = tpj_int(e, "total_L", -1);
    if (dense->type.rank < 2 || hlo_dim(dense, 0) != batch || total < 0) {
        tpj_fail(e, TPJ_RUNTIME, "expected a padded batch [%lld, ..] and its number of elements in all",
                 (long long)batch);
        return;
    }
    int64_t length = hlo_dim(dense, 1);
    int rank = dense->type.rank - 1;
    int64_t *dims = hlo_dims(h, rank), *flat = hlo_dims(h, rank);
    for (int d = 1; d < rank; d++) dims[d] = flat[d] = hlo_dim(dense, d + 1);
    dims[0] = total;
    flat[0] = batch * length;
    if (total == 0 || flat[0] == 0) {
        tpj_out(e, hlo_zeros(h, dense->type.dtype, rank, dims));
        return;
    }
    tpj_value *row = rows_of_elements(h, hlo_slice_dim(h, offsets, 0, 1, batch + 1, 1), total);
    row = tpj_check_index(e, row, batch, false); /* elements behind the last row */
    tpj_value *place = hlo_sub(h, hlo_iota(h, TPJ_I64, 1, &total, 0), hlo_take(h, offsets, row, 0));
    place = tpj_check_index(e, place, length, false);
    place = hlo_add(h, hlo_mul(h, row, hlo_integer(h, TPJ_I64, length)), place);
    tpj_out(e, hlo_take(h, hlo_reshape(h, dense, rank, flat), tpj_index_narrow(h, place, flat[0]), 0));
}

const tpj_op_def tpj_ops_sparse[] = {
    {.name = "_convert_indices_from_coo_to_csr",
     .params = "T self, I size, B out_int32=False",
     .emit = emit_coo_to_csr},
    {.name = "_convert_indices_from_csr_to_coo",
     .params = "T crow_indices, T col_indices, B out_int32=False, B transpose=False",
     .emit = emit_csr_to_coo},
    {.name = "_jagged_to_padded_dense_forward",
     .params = "T values, T[] offsets, I[] max_lengths, F~ padding_value=0.0",
     .emit = emit_jagged_to_padded},
    {.name = "_padded_dense_to_jagged_forward",
     .params = "T dense, T[] offsets, I? total_L=None",
     .emit = emit_padded_to_jagged},
    {0},
};
