#include "hlo/writer.h"

/* Scalars of the xs' dtypes, in the arena; NULL after failing. */
static tpj_type *scalar_types(tpj_hlo *h, tpj_value *const *xs, int n, int repeat) {
    tpj_type *types = TPJ_ARENA_ARRAY(&h->arena, tpj_type, n * repeat + 1);
    if (types == NULL) {
        hlo_fail(h, TPJ_OUT_OF_MEMORY, "no memory to write a region");
        return NULL;
    }
    for (int i = 0; i < n * repeat; i++) types[i] = hlo_type(xs[i / repeat]->type.dtype, 0, h->poison_dims);
    return types;
}

static void all_poison(tpj_hlo *h, tpj_value **out, int n) {
    for (int i = 0; i < n; i++) out[i] = &h->poison;
}

static bool same_shapes(tpj_hlo *h, const char *name, tpj_value *const *xs, int n) {
    for (int i = 1; i < n; i++) {
        if (hlo_same_dims(xs[0], xs[i])) continue;
        hlo_fail(h, TPJ_INTERNAL, "%s: shapes differ: %s and %s", name, hlo_type_string(h, &xs[0]->type),
                 hlo_type_string(h, &xs[i]->type));
        return false;
    }
    return true;
}

/* Types of the values, in the arena; NULL after failing. */
static tpj_type *types_of(tpj_hlo *h, tpj_value *const *xs, int n) {
    tpj_type *types = TPJ_ARENA_ARRAY(&h->arena, tpj_type, n + 1);
    if (types == NULL) hlo_fail(h, TPJ_OUT_OF_MEMORY, "no memory to write an op");
    for (int i = 0; i < n && types != NULL; i++) types[i] = xs[i]->type;
    return types;
}

void hlo_sort(tpj_hlo *h, tpj_value *const *xs, int n, int dim, bool stable, hlo_body less, void *context,
              tpj_value **out) {
    all_poison(h, out, n);
    if (!hlo_ready(h, xs, n) || !same_shapes(h, "sort", xs, n)) return;
    if (xs[0]->type.rank == 0 || xs[0]->type.dims[dim] <= 1 || hlo_elements(xs[0]) == 0) {
        for (int i = 0; i < n; i++) out[i] = xs[i];
        return;
    }
    tpj_type *pairs = scalar_types(h, xs, n, 2), *types = types_of(h, xs, n);
    tpj_type boolean = hlo_type(TPJ_BOOL, 0, h->poison_dims);
    int id = hlo_open(h, "sort", xs, n, n);
    hlo_regions_begin(h);
    hlo_region(h, pairs, 2 * n, less, context, &boolean, 1);
    hlo_regions_end(h);
    hlo_attributes_begin(h);
    hlo_attribute_text(h, "dimension = %d : i64, is_stable = %s", dim, stable ? "true" : "false");
    hlo_close(h, id, hlo_attributes(h), xs, n, types, n, out);
}

/* The dimensions of x that `dims` leaves, in the arena. */
static int64_t *remaining_dims(tpj_hlo *h, const tpj_value *x, const int64_t *dims, int n_dims, int *out_rank) {
    int64_t *rest = hlo_dims(h, x->type.rank);
    int rank = 0;
    for (int i = 0; i < x->type.rank && !h->failed; i++) {
        bool reduced = false;
        for (int k = 0; k < n_dims; k++) reduced = reduced || dims[k] == i;
        if (!reduced) rest[rank++] = x->type.dims[i];
    }
    *out_rank = rank;
    return rest;
}

void hlo_reduce_body(tpj_hlo *h, tpj_value *const *xs, tpj_value *const *inits, int n, const int64_t *dims, int n_dims,
                     hlo_body body, void *context, tpj_value **out) {
    all_poison(h, out, n);
    if (!hlo_ready(h, xs, n) || !hlo_ready(h, inits, n) || !same_shapes(h, "reduce", xs, n)) return;
    for (int i = 0; i < n; i++) {
        if (inits[i]->type.rank == 0 && inits[i]->type.dtype == xs[i]->type.dtype) continue;
        hlo_fail(h, TPJ_INTERNAL, "reduce of %s from %s", hlo_type_string(h, &xs[i]->type),
                 hlo_type_string(h, &inits[i]->type));
        return;
    }
    int rank = 0;
    const int64_t *rest = remaining_dims(h, xs[0], dims, n_dims, &rank);
    tpj_value **operands = TPJ_ARENA_ARRAY(&h->arena, tpj_value *, 2 * n + 1);
    tpj_type *scalars = scalar_types(h, xs, n, 1), *types = types_of(h, xs, n);
    tpj_type *arguments = TPJ_ARENA_ARRAY(&h->arena, tpj_type, 2 * n + 1);
    if (operands == NULL || arguments == NULL) hlo_fail(h, TPJ_OUT_OF_MEMORY, "no memory to write a reduction");
    if (h->failed) return;
    for (int i = 0; i < n; i++) {
        operands[i] = xs[i];
        operands[n + i] = inits[i];
        arguments[i] = arguments[n + i] = scalars[i];
        types[i] = hlo_type(xs[i]->type.dtype, rank, rest);
    }
    int id = hlo_open(h, "reduce", operands, 2 * n, n);
    hlo_regions_begin(h);
    hlo_region(h, arguments, 2 * n, body, context, scalars, n);
    hlo_regions_end(h);
    hlo_attributes_begin(h);
    hlo_attribute_array(h, "dimensions", dims, n_dims);
    hlo_close(h, id, hlo_attributes(h), operands, 2 * n, types, n, out);
}

void hlo_while(tpj_hlo *h, tpj_value *const *initial, int n, hlo_body condition, hlo_body body, void *context,
               tpj_value **out) {
    all_poison(h, out, n);
    if (!hlo_ready(h, initial, n)) return;
    tpj_type *types = types_of(h, initial, n);
    tpj_type boolean = hlo_type(TPJ_BOOL, 0, h->poison_dims);
    int id = hlo_open(h, "while", initial, n, n);
    hlo_regions_begin(h);
    hlo_region(h, types, n, condition, context, &boolean, 1);
    hlo_region(h, types, n, body, context, types, n);
    hlo_regions_end(h);
    hlo_close(h, id, NULL, initial, n, types, n, out);
}

void hlo_if(tpj_hlo *h, tpj_value *predicate, hlo_body on_true, hlo_body on_false, void *context, const tpj_type *types,
            int n, tpj_value **out) {
    all_poison(h, out, n);
    if (!hlo_ready(h, &predicate, 1)) return;
    int id = hlo_open(h, "if", &predicate, 1, n);
    hlo_regions_begin(h);
    hlo_region(h, NULL, 0, on_true, context, types, n);
    hlo_region(h, NULL, 0, on_false, context, types, n);
    hlo_regions_end(h);
    hlo_close(h, id, NULL, &predicate, 1, types, n, out);
}
