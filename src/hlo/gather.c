#include <inttypes.h>
#include <string.h>

#include "hlo/writer.h"

/* `, name = [0, 1]` of a dimension-numbers attribute; nothing for an empty list, as MLIR prints it. */
static void number_list(tpj_text *text, const char *name, const int64_t *values, int n) {
    if (n == 0) return;
    tpj_text_printf(text, "%s = [", name);
    tpj_text_integers(text, values, (size_t)n);
    tpj_text_add(text, "], ");
}

/* Fills the scratch text with a gather's or a scatter's dimension numbers. */
static void write_numbers(tpj_hlo *h, bool scatter, const hlo_gather_numbers *numbers) {
    tpj_text *text = &h->scratch;
    hlo_attributes_begin(h);
    tpj_text_add(text, scatter ? "scatter_dimension_numbers = #stablehlo.scatter<"
                               : "dimension_numbers = #stablehlo.gather<");
    number_list(text, scatter ? "update_window_dims" : "offset_dims", numbers->offset_dims, numbers->n_offset_dims);
    number_list(text, scatter ? "inserted_window_dims" : "collapsed_slice_dims", numbers->collapsed,
                numbers->n_collapsed);
    number_list(text, scatter ? "input_batching_dims" : "operand_batching_dims", numbers->operand_batching,
                numbers->n_batching);
    number_list(text, scatter ? "scatter_indices_batching_dims" : "start_indices_batching_dims",
                numbers->indices_batching, numbers->n_batching);
    number_list(text, scatter ? "scatter_dims_to_operand_dims" : "start_index_map", numbers->start_index_map,
                numbers->n_start_index_map);
    tpj_text_printf(text, "index_vector_dim = %" PRId64 ">", numbers->index_vector_dim);
    hlo_attribute_text(h, "indices_are_sorted = %s", numbers->sorted ? "true" : "false");
    if (scatter) hlo_attribute_text(h, "unique_indices = %s", numbers->unique ? "true" : "false");
}

static bool contains(const int64_t *values, int n, int64_t value) {
    for (int i = 0; i < n; i++) {
        if (values[i] == value) return true;
    }
    return false;
}

tpj_value *hlo_gather(tpj_hlo *h, tpj_value *x, tpj_value *indices, const hlo_gather_numbers *numbers) {
    tpj_value *operands[] = {x, indices};
    if (!hlo_ready(h, operands, 2)) return &h->poison;
    int n_batch = indices->type.rank - (numbers->index_vector_dim < indices->type.rank);
    int rank = n_batch + numbers->n_offset_dims;
    int64_t *dims = hlo_dims(h, rank);
    if (h->failed) return &h->poison;
    /* Offset dimensions take the slice's sizes in order, the others the sizes of the indices. */
    int slice = 0, batch = 0;
    for (int i = 0; i < rank; i++) {
        if (contains(numbers->offset_dims, numbers->n_offset_dims, i)) {
            while (contains(numbers->collapsed, numbers->n_collapsed, slice) ||
                   contains(numbers->operand_batching, numbers->n_batching, slice))
                slice++;
            if (slice >= x->type.rank) return hlo_fail(h, TPJ_INTERNAL, "gather: more offsets than slice dimensions");
            dims[i] = numbers->slice_sizes[slice++];
        } else {
            if (batch == numbers->index_vector_dim) batch++;
            dims[i] = indices->type.dims[batch++];
        }
    }
    write_numbers(h, false, numbers);
    hlo_attribute_array(h, "slice_sizes", numbers->slice_sizes, x->type.rank);
    return hlo_op1(h, "gather", operands, 2, hlo_attributes(h), x->type.dtype, rank, dims);
}

static void replace_body(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)h;
    (void)context;
    results[0] = arguments[1];
}

tpj_value *hlo_scatter(tpj_hlo *h, const char *kind, tpj_value *x, tpj_value *indices, tpj_value *updates,
                       const hlo_gather_numbers *numbers) {
    tpj_value *operands[] = {x, indices, updates}, *out;
    if (!hlo_ready(h, operands, 3)) return &h->poison;
    if (x->type.dtype != updates->type.dtype) {
        return hlo_fail(h, TPJ_INTERNAL, "scatter of %s into %s", hlo_type_string(h, &updates->type),
                        hlo_type_string(h, &x->type));
    }
    bool replace = strcmp(kind, "replace") == 0;
    tpj_type scalar = hlo_type(x->type.dtype, 0, h->poison_dims);
    tpj_type arguments[] = {scalar, scalar};
    int id = hlo_open(h, "scatter", operands, 3, 1);
    hlo_regions_begin(h);
    hlo_region(h, arguments, 2, replace ? replace_body : hlo_combine_body, (void *)kind, &scalar, 1);
    hlo_regions_end(h);
    write_numbers(h, true, numbers);
    hlo_close(h, id, hlo_attributes(h), operands, 3, &x->type, 1, &out);
    return out;
}

/* An index into a dimension without elements, for a result that has some. */
static tpj_value *nothing_there(tpj_hlo *h, int dim) {
    return hlo_fail(h, TPJ_INDEX, "index is out of bounds for dimension %d with size 0", dim);
}

tpj_value *hlo_take(tpj_hlo *h, tpj_value *x, tpj_value *indices, int dim) {
    tpj_value *both[] = {x, indices};
    if (!hlo_ready(h, both, 2)) return &h->poison;
    if (dim < 0 || dim >= x->type.rank) return hlo_fail(h, TPJ_INTERNAL, "take: dimension %d", dim);
    int rank = x->type.rank, n_index = indices->type.rank, n_out = rank - 1 + n_index;
    int64_t *dims = hlo_dims(h, n_out), *offsets = hlo_dims(h, rank), *sizes = hlo_dims(h, rank);
    if (h->failed) return &h->poison;
    int n_offsets = 0;
    bool empty = false;
    for (int i = 0; i < n_out; i++) {
        bool from_index = i >= dim && i < dim + n_index;
        dims[i] = from_index ? indices->type.dims[i - dim] : x->type.dims[i < dim ? i : i - n_index + 1];
        empty = empty || dims[i] == 0;
        if (!from_index) offsets[n_offsets++] = i;
    }
    if (empty) return hlo_zeros(h, x->type.dtype, n_out, dims);
    if (x->type.dims[dim] == 0) return nothing_there(h, dim);
    for (int i = 0; i < rank; i++) sizes[i] = i == dim ? 1 : x->type.dims[i];
    int64_t along[] = {dim};
    hlo_gather_numbers numbers = {.offset_dims = offsets,
                                  .n_offset_dims = n_offsets,
                                  .collapsed = along,
                                  .n_collapsed = 1,
                                  .start_index_map = along,
                                  .n_start_index_map = 1,
                                  .index_vector_dim = n_index,
                                  .slice_sizes = sizes};
    return hlo_gather(h, x, indices, &numbers);
}

tpj_value *hlo_take_along(tpj_hlo *h, tpj_value *x, tpj_value *indices, int dim) {
    tpj_value *both[] = {x, indices};
    if (!hlo_ready(h, both, 2)) return &h->poison;
    int rank = x->type.rank;
    if (rank != indices->type.rank || (rank > 0 && (dim < 0 || dim >= rank))) {
        return hlo_fail(h, TPJ_INTERNAL, "take_along: %s at dimension %d of %s", hlo_type_string(h, &indices->type),
                        dim, hlo_type_string(h, &x->type));
    }
    if (rank == 0) return x;
    if (hlo_elements(indices) == 0) return hlo_zeros(h, x->type.dtype, rank, indices->type.dims);
    if (x->type.dims[dim] == 0) return nothing_there(h, dim);
    int64_t *start = hlo_dims(h, rank), *limit = hlo_dims(h, rank), *batch = hlo_dims(h, rank),
            *ones = hlo_dims(h, rank);
    if (h->failed) return &h->poison;
    int n_batch = 0;
    for (int i = 0; i < rank; i++) {
        limit[i] = i == dim ? x->type.dims[i] : indices->type.dims[i];
        ones[i] = 1;
        if (i != dim) batch[n_batch++] = i;
    }
    x = hlo_slice(h, x, start, limit, NULL);
    int64_t along[] = {dim};
    hlo_gather_numbers numbers = {.collapsed = along,
                                  .n_collapsed = 1,
                                  .operand_batching = batch,
                                  .indices_batching = batch,
                                  .n_batching = n_batch,
                                  .start_index_map = along,
                                  .n_start_index_map = 1,
                                  .index_vector_dim = rank,
                                  .slice_sizes = ones};
    return hlo_gather(h, x, indices, &numbers);
}
