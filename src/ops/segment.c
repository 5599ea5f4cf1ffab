/* Reductions over segments: lengths [outer.., K] (or offsets [outer.., K + 1]) cut dimension `axis` of data [outer.., n,
 * inner..] into K pieces one after the other. Every element finds its segment by a search among the ends; elements in no
 * segment do not count. Whether the lengths fit is found by the count, on the device. */
#include <math.h>
#include <string.h>

#include "ops/indexing.h"
#include "ops/pointwise.h"

typedef enum reduction { SUM, MEAN, MAX, MIN, PROD } reduction;

typedef struct segments {
    tpj_hlo *h;
    reduction kind;
    int axis;
    int64_t n, k;
    tpj_value *data;    /* in the dtype that arithmetic runs in */
    tpj_value *lengths; /* [outer.., K], I64 */
    tpj_value *ends;    /* [outer.., K], I64 */
    tpj_value *start;   /* [outer.., 1], I64: where the first segment begins; NULL: at 0 */
    tpj_dtype dtype;
    const int64_t *reduced; /* data's dims with K for n */
} segments;

static bool read_kind(tpj_emit *e, reduction *out_kind) {
    static const struct {
        const char *name;
        reduction kind;
    } kinds[] = {{"sum", SUM}, {"mean", MEAN}, {"max", MAX},  {"amax", MAX},
                 {"min", MIN}, {"amin", MIN},  {"prod", PROD}};
    const char *name = tpj_string(e, "reduce", "");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        *out_kind = kinds[i].kind;
        if (strcmp(name, kinds[i].name) == 0) return true;
    }
    tpj_fail(e, TPJ_RUNTIME, "reduce argument must be either sum, prod, mean, amax or amin, got %s", name);
    return false;
}

/* The lengths, and where segments end. */
static bool read_bounds(tpj_emit *e, segments *s) {
    tpj_hlo *h = s->h;
    bool by_offsets = tpj_has(e, "offsets");
    if (!by_offsets && !tpj_has(e, "lengths")) {
        tpj_fail(e, TPJ_RUNTIME, "segment_reduce(): Either lengths or offsets must be defined.");
        return false;
    }
    const char *name = by_offsets ? "offsets" : "lengths";
    tpj_type type = tpj_in_type(e, name);
    if (type.dtype != TPJ_I32 && type.dtype != TPJ_I64) tpj_fail_dtype(e, type.dtype);
    if (type.rank != s->axis + 1)
        tpj_fail(e, TPJ_RUNTIME, "segment_reduce(): Expected axis to be the last dimension of %s but got %d.", name,
                 s->axis);
    if (hlo_failed(h)) return false;
    bool fits = !by_offsets || type.dims[s->axis] > 0;
    for (int i = 0; i < s->axis; i++) fits = fits && type.dims[i] == hlo_dim(s->data, i);
    if (!fits) {
        tpj_fail(e, TPJ_RUNTIME, "segment_reduce(): the sizes of %s do not fit those of data", name);
        return false;
    }
    tpj_value *bounds = tpj_in_as(e, name, TPJ_I64);
    int64_t size = type.dims[s->axis];
    if (by_offsets) {
        s->ends = hlo_slice_dim(h, bounds, s->axis, 1, size, 1);
        s->lengths = hlo_sub(h, s->ends, hlo_slice_dim(h, bounds, s->axis, 0, size - 1, 1));
        s->start = hlo_slice_dim(h, bounds, s->axis, 0, 1, 1);
    } else {
        s->lengths = bounds;
        s->ends = hlo_elements(bounds) == 0 ? bounds : hlo_cumulative(h, "add", bounds, s->axis, false);
    }
    s->k = hlo_dim(s->ends, s->axis);
    return true;
}

static bool segments_read(tpj_emit *e, segments *s) {
    *s = (segments){.h = tpj_builder(e)};
    tpj_hlo *h = s->h;
    s->dtype = tpj_in_type(e, "data").dtype;
    if (!read_kind(e, &s->kind)) return false;
    if (!tpj_dtype_is_float(s->dtype)) tpj_fail_dtype(e, s->dtype);
    if (hlo_failed(h)) return false;
    s->data = tpj_in_as(e, "data", tpj_compute_dtype(s->dtype));
    int rank = s->data->type.rank;
    if (rank == 0) {
        tpj_fail(e, TPJ_RUNTIME, "segment_reduce(): data must have a dimension");
        return false;
    }
    s->axis = tpj_dim(e, "axis", rank);
    if (hlo_failed(h)) return false;
    s->n = hlo_dim(s->data, s->axis);
    if (!read_bounds(e, s)) return false;
    int64_t *dims = hlo_dims(h, rank);
    if (hlo_failed(h)) return false;
    memcpy(dims, s->data->type.dims, sizeof *dims * (size_t)rank);
    dims[s->axis] = s->k;
    s->reduced = dims;
    return true;
}

/* x of [outer.., any] repeated to `dims` of data's rank. */
static tpj_value *over_inner(const segments *s, tpj_value *x, const int64_t *dims) {
    int64_t *mapping = hlo_dims(s->h, s->axis + 1);
    for (int i = 0; i <= s->axis && !hlo_failed(s->h); i++) mapping[i] = i;
    return hlo_broadcast_in_dim(s->h, x, s->data->type.rank, dims, mapping);
}

/* The segment of each element of data, I32, data's dims; K for none. */
static tpj_value *segment_of(const segments *s) {
    tpj_hlo *h = s->h;
    int64_t *dims = hlo_dims(h, s->axis + 1);
    if (hlo_failed(h)) return NULL;
    memcpy(dims, s->data->type.dims, sizeof *dims * (size_t)(s->axis + 1));
    tpj_value *place = hlo_iota(h, TPJ_I64, s->axis + 1, dims, s->axis);
    tpj_value *id = s->k == 0 ? hlo_zeros(h, TPJ_I32, s->axis + 1, dims) : tpj_search_sorted(h, s->ends, place, true);
    if (s->start != NULL) {
        tpj_value *before = hlo_compare(h, "LT", place, hlo_expand(h, s->start, s->axis + 1, dims));
        id = hlo_select(h, before, hlo_integer(h, TPJ_I32, s->k), id);
    }
    return over_inner(s, id, s->data->type.dims);
}

/* What the forward op has beyond that. */
static bool forward_read(tpj_emit *e, segments *s) {
    if (tpj_has(e, "indices"))
        tpj_fail(e, TPJ_RUNTIME, "segment_reduce(): indices based reduction is not supported yet.");
    return segments_read(e, s);
}

/* ---- do the lengths fit? ---- */

enum { FITS, NEGATIVE, WRONG_SUM, OVERLAPPING };

static void count_segment_reduce(tpj_emit *e) {
    segments s;
    if (!forward_read(e, &s)) return;
    tpj_hlo *h = s.h;
    bool by_offsets = s.start != NULL;
    tpj_value *fits = hlo_integer(h, TPJ_I64, FITS), *zero = hlo_integer(h, TPJ_I64, 0), *state = fits;
    if (!by_offsets && !tpj_bool(e, "unsafe", false)) {
        tpj_value *sum = hlo_reduce_dim(h, "add", s.lengths, s.axis);
        tpj_value *wrong = hlo_reduce_all(h, "or", hlo_compare(h, "NE", sum, hlo_integer(h, TPJ_I64, s.n)));
        state = hlo_select(h, wrong, hlo_integer(h, TPJ_I64, WRONG_SUM), state);
    }
    tpj_value *negative = hlo_reduce_all(h, "or", hlo_compare(h, "LT", s.lengths, zero));
    tpj_out(e, hlo_select(h, negative, hlo_integer(h, TPJ_I64, by_offsets ? OVERLAPPING : NEGATIVE), state));
}

static bool lengths_fit(tpj_emit *e) {
    int64_t found = tpj_size(e, 0);
    if (hlo_failed(tpj_builder(e))) return false; /* in a graph nobody has counted */
    switch (found) {
        case FITS: return true;
        case NEGATIVE: tpj_fail(e, TPJ_RUNTIME, "lengths contains negative value!"); break;
        case OVERLAPPING: tpj_fail(e, TPJ_RUNTIME, "offsets must not decrease"); break;
        default:
            tpj_fail(e, TPJ_RUNTIME,
                     "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) "
                     "when !unsafe.");
    }
    return false;
}

/* ---- forward ---- */

static const char *scatter_kind(reduction kind) {
    switch (kind) {
        case MAX: return "maximum";
        case MIN: return "minimum";
        case PROD: return "multiply";
        default: return "add";
    }
}

static tpj_value *initial_value(tpj_emit *e, const segments *s) {
    tpj_hlo *h = s->h;
    tpj_dtype dtype = s->data->type.dtype;
    if (tpj_has(e, "initial")) return tpj_scalar(e, "initial", dtype);
    if (s->kind == MAX) return hlo_number(h, dtype, -HUGE_VAL);
    if (s->kind == MIN) return hlo_number(h, dtype, HUGE_VAL);
    return hlo_number(h, dtype, s->kind == PROD ? 1 : 0);
}

static void emit_segment_reduce(tpj_emit *e) {
    segments s;
    if (!forward_read(e, &s) || !lengths_fit(e)) return;
    tpj_hlo *h = s.h;
    tpj_value *y = hlo_expand(h, initial_value(e, &s), s.data->type.rank, s.reduced);
    if (hlo_elements(s.data) > 0 && s.k > 0)
        y = tpj_scatter_along(h, scatter_kind(s.kind), y, s.axis, segment_of(&s), s.data);
    if (s.kind == MEAN) {
        tpj_value *lengths = over_inner(&s, hlo_convert(h, s.lengths, y->type.dtype), s.reduced);
        tpj_value *of_none = tpj_has(e, "initial") ? y : hlo_full_like(h, y, NAN);
        y = hlo_select(h, tpj_compare_number(h, "EQ", lengths, 0), of_none, hlo_div(h, y, lengths));
    }
    tpj_out_as(e, y, s.dtype);
}

/* ---- backward ---- */

/* A value of each segment for each of its elements. */
static tpj_value *of_segment(const segments *s, tpj_value *x, tpj_value *id) {
    return hlo_take_along(s->h, x, hlo_min(s->h, id, hlo_integer(s->h, TPJ_I32, s->k - 1)), s->axis);
}

/* How many elements of a segment hold, or another reduction of x, for each of its elements. */
static tpj_value *total_of_segment(const segments *s, const char *kind, tpj_value *x, tpj_value *id) {
    double identity = kind[0] == 'm' ? 1 : 0;
    tpj_value *start = hlo_full(s->h, x->type.dtype, s->data->type.rank, s->reduced, identity);
    return of_segment(s, tpj_scatter_along(s->h, kind, start, s->axis, id, x), id);
}

/* grad where the element is the extreme, shared among equal ones; a negative one is not, as on the CPU. */
static tpj_value *extreme_gradient(const segments *s, tpj_value *grad, tpj_value *output, tpj_value *id) {
    tpj_hlo *h = s->h;
    tpj_value *chosen = hlo_or(h, hlo_is_nan(h, s->data), hlo_compare(h, "EQ", s->data, output));
    tpj_value *count = total_of_segment(s, "add", hlo_convert(h, chosen, grad->type.dtype), id);
    tpj_value *shared = hlo_and(h, tpj_compare_number(h, "GE", count, 2), tpj_compare_number(h, "GT", grad, 0));
    return tpj_select_or(h, chosen, hlo_select(h, shared, hlo_div(h, grad, count), grad), 0);
}

/* grad times the product of the others: the output over the element, but where that is zero or NaN. */
static tpj_value *product_gradient(const segments *s, tpj_value *initial, tpj_value *grad, tpj_value *output,
                                   tpj_value *id) {
    tpj_hlo *h = s->h;
    tpj_value *data = s->data, *is_zero = tpj_compare_number(h, "EQ", data, 0), *is_nan = hlo_is_nan(h, data);
    tpj_value *special = hlo_or(h, is_zero, is_nan), *one = tpj_like(h, data, 1);
    tpj_value *rest = total_of_segment(s, "multiply", hlo_select(h, special, one, data), id);
    tpj_value *zeros = total_of_segment(s, "add", hlo_convert(h, is_zero, data->type.dtype), id);
    tpj_value *nans = total_of_segment(s, "add", hlo_convert(h, is_nan, data->type.dtype), id);
    zeros = hlo_sub(h, zeros, hlo_convert(h, is_zero, data->type.dtype)); /* of the others */
    nans = hlo_sub(h, nans, hlo_convert(h, is_nan, data->type.dtype));
    rest = hlo_mul(h, rest, tpj_select_or(h, tpj_compare_number(h, "EQ", zeros, 0), hlo_full_like(h, rest, 1), 0));
    rest = tpj_select_or(h, tpj_compare_number(h, "EQ", nans, 0), rest, NAN);
    tpj_value *plain = hlo_div(h, hlo_mul(h, grad, output), data);
    return hlo_select(h, special, hlo_mul(h, grad, hlo_mul(h, rest, initial)), plain);
}

static void emit_segment_reduce_backward(tpj_emit *e) {
    segments s;
    if (!segments_read(e, &s)) return;
    tpj_hlo *h = s.h;
    tpj_dtype compute = s.data->type.dtype;
    if (hlo_elements(s.data) == 0 || s.k == 0) {
        tpj_out(e, hlo_zeros(h, s.dtype, s.data->type.rank, s.data->type.dims));
        return;
    }
    tpj_value *id = segment_of(&s), *y;
    tpj_value *grad = of_segment(&s, tpj_in_as(e, "grad", compute), id);
    tpj_value *output = of_segment(&s, tpj_in_as(e, "output", compute), id);
    if (s.kind == SUM) {
        y = grad;
    } else if (s.kind == MEAN) {
        tpj_value *lengths = over_inner(&s, hlo_convert(h, s.lengths, compute), s.reduced);
        y = hlo_div(h, grad, of_segment(&s, lengths, id));
    } else if (s.kind == PROD) {
        y = product_gradient(&s, initial_value(e, &s), grad, output, id);
    } else {
        y = extreme_gradient(&s, grad, output, id);
    }
    tpj_value *counted = hlo_compare(h, "LT", id, hlo_integer(h, TPJ_I32, s.k));
    tpj_out_as(e, tpj_select_or(h, counted, y, 0), s.dtype);
}

const tpj_op_def tpj_ops_segment[] = {
    {.name = "segment_reduce",
     .params = "T data, Str reduce, T? lengths=None, T? indices=None, T? offsets=None, I axis=0, B unsafe=false, "
               "S? initial=None",
     .emit = emit_segment_reduce,
     .count = count_segment_reduce,
     .flags = TPJ_OP_SIZED},
    {.name = "_segment_reduce_backward",
     .params = "T grad, T output, T data, Str reduce, T? lengths=None, T? offsets=None, I axis=0, S? initial=None",
     .emit = emit_segment_reduce_backward},
    {0},
};
