/* Planning of views: numbers only, no emission. */
#include <string.h>

#include "lower/view.h"

void tpj_contiguous_strides(int rank, const int64_t *sizes, int64_t *out_strides) {
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        out_strides[i] = stride;
        stride *= sizes[i] > 1 ? sizes[i] : 1;
    }
}

/* The view's dimensions that walk (size > 1, stride > 0), by falling stride. */
static int walking_dims(const tpj_view *view, int *out_dims) {
    int n = 0;
    for (int i = 0; i < view->rank; i++) {
        if (view->sizes[i] <= 1 || view->strides[i] == 0) continue;
        int k = n++;
        for (; k > 0 && view->strides[out_dims[k - 1]] < view->strides[i]; k--) out_dims[k] = out_dims[k - 1];
        out_dims[k] = i;
    }
    return n;
}

bool tpj_view_is_dense(const tpj_view *view, int64_t n_elements, int *out_order) {
    if (view->offset != 0) return false;
    int64_t elements = 1;
    for (int i = 0; i < view->rank; i++) elements *= view->sizes[i];
    if (elements != n_elements) return false;
    if (elements == 0) {
        for (int i = 0; out_order != NULL && i < view->rank; i++) out_order[i] = i;
        return true;
    }
    int walking[TPJ_VIEW_MAX_RANK], n = walking_dims(view, walking);
    int64_t expected = 1;
    for (int k = n - 1; k >= 0; k--) {
        if (view->strides[walking[k]] != expected) return false;
        expected *= view->sizes[walking[k]];
    }
    if (expected != elements) return false; /* a repeated dimension */
    if (out_order != NULL) {
        int at = 0;
        for (int i = 0; i < view->rank; i++)
            if (view->sizes[i] <= 1) out_order[at++] = i;
        for (int k = 0; k < n; k++) out_order[at++] = walking[k];
        if (n == view->rank || at == view->rank) { /* dims of size 1 keep their place where the rest is row-major */
            bool row_major = true;
            for (int k = 1; k < n; k++) row_major = row_major && walking[k - 1] < walking[k];
            for (int i = 0; row_major && i < view->rank; i++) out_order[i] = i;
        }
    }
    return true;
}

/* Fills the plan for an array reshaped by falling `units` (each divides the one before, the last is 1): dimension i counts
 * steps of units[i]. False when some view dimension does not fit into one of those dimensions. */
static bool plan_with_units(const tpj_view *view, const int *walking, int n_walking, int64_t n_elements,
                            const int64_t *units, int n_units, tpj_view_plan *plan) {
    plan->rank = n_units;
    int64_t above = n_elements, rest = view->offset;
    for (int i = 0; i < n_units; i++) {
        if (above % units[i] != 0) return false;
        plan->dims[i] = above / units[i];
        plan->start[i] = rest / units[i];
        rest %= units[i];
        plan->count[i] = plan->step[i] = 1;
        above = units[i];
    }
    for (int i = 0; i < view->rank; i++) plan->source[i] = -1;
    for (int k = 0, unit = 0; k < n_walking; k++) {
        int64_t stride = view->strides[walking[k]], size = view->sizes[walking[k]];
        while (unit < n_units && units[unit] > stride) unit++;
        if (unit == n_units || stride % units[unit] != 0 || plan->count[unit] != 1) return false;
        plan->step[unit] = stride / units[unit];
        plan->count[unit] = size;
        plan->source[walking[k]] = unit;
    }
    for (int i = 0; i < n_units; i++)
        if (plan->start[i] + (plan->count[i] - 1) * plan->step[i] >= plan->dims[i]) return false;
    return true;
}

/* Adds a unit to a falling list without repeats. */
static int insert_unit(int64_t *units, int n, int64_t unit) {
    int k = n;
    for (; k > 0 && units[k - 1] <= unit; k--)
        if (units[k - 1] == unit) return n;
    memmove(units + k + 1, units + k, sizeof *units * (size_t)(n - k));
    units[k] = unit;
    return n + 1;
}

static bool is_empty(const tpj_view *view) {
    for (int i = 0; i < view->rank; i++)
        if (view->sizes[i] == 0) return true;
    return false;
}

/* Linear index of the view's last element, counted from its first. */
static int64_t reach_of(const tpj_view *view) {
    int64_t reach = 0;
    for (int i = 0; i < view->rank; i++) reach += (view->sizes[i] - 1) * view->strides[i];
    return reach;
}

/* The four ways to cut the base, the most natural first: what lies in one dimension of the base stays in one. */
static bool plan_by_slices(const tpj_view *view, const int64_t *base, int n_base, int64_t last, tpj_view_plan *plan) {
    int walking[TPJ_VIEW_MAX_RANK], n_walking = walking_dims(view, walking), n = 0;
    int64_t units[2 * TPJ_VIEW_MAX_RANK + 1], stride = 1;
    /* 1. the base as it is, but for dimensions of size 1: slices, selects and permutations */
    for (int i = n_base - 1; i >= 0; i--) {
        n = insert_unit(units, n, stride);
        stride *= base[i];
    }
    n = insert_unit(units, n, 1);
    if (plan_with_units(view, walking, n_walking, plan->n_elements, units, n, plan)) return true;
    /* 2. base dimensions split where the view splits them */
    for (int k = 0; k < n_walking; k++) n = insert_unit(units, n, view->strides[walking[k]]);
    if (plan_with_units(view, walking, n_walking, plan->n_elements, units, n, plan)) return true;
    /* 3. dimensions of the view alone: merged base dimensions */
    n = 0;
    for (int k = 0; k < n_walking; k++) n = insert_unit(units, n, view->strides[walking[k]]);
    n = insert_unit(units, n, 1);
    if (plan_with_units(view, walking, n_walking, plan->n_elements, units, n, plan)) return true;
    /* 4. the same on a prefix that the outermost stride divides */
    int64_t cropped = plan->n_elements / units[0] * units[0];
    if (cropped <= last || !plan_with_units(view, walking, n_walking, cropped, units, n, plan)) return false;
    plan->cropped = cropped;
    return true;
}

tpj_status *tpj_view_make_plan(const tpj_type *base, const tpj_view *view, tpj_view_plan *out_plan) {
    if (view->rank > TPJ_VIEW_MAX_RANK || base->rank > TPJ_VIEW_MAX_RANK)
        TPJ_ERROR(TPJ_RUNTIME, "tensors of more than %d dimensions are not supported", TPJ_VIEW_MAX_RANK);
    /* under another dtype, the base is one row of its bytes */
    int64_t n_elements = 1;
    for (int i = 0; i < base->rank; i++) n_elements *= base->dims[i];
    bool same = base->dtype == view->dtype;
    if (!same) n_elements = n_elements * (int64_t)tpj_dtype_bytes(base->dtype) / (int64_t)tpj_dtype_bytes(view->dtype);
    *out_plan = (tpj_view_plan){.cropped = -1, .n_elements = n_elements, .empty = is_empty(view)};
    if (out_plan->empty) return NULL;
    int64_t last = view->offset + reach_of(view);
    if (view->offset < 0 || last >= n_elements)
        TPJ_ERROR(TPJ_RUNTIME, "a view reaches element %lld of a storage of %lld", (long long)last,
                  (long long)n_elements);
    if (!plan_by_slices(view, same ? base->dims : &n_elements, same ? base->rank : 1, last, out_plan))
        *out_plan = (tpj_view_plan){.cropped = -1, .n_elements = n_elements, .gather = true};
    return NULL;
}

/* ---- other offsets ---- */

int tpj_view_plan_room(const tpj_view_plan *plan, const tpj_view *view, int64_t *out_units, int64_t *out_most) {
    if (plan->empty) return 0;
    if (plan->gather) {
        out_units[0] = 1;
        out_most[0] = plan->n_elements - 1 - reach_of(view);
        return 1;
    }
    int64_t unit = 1;
    for (int i = plan->rank - 1; i >= 0; i--) {
        out_units[i] = unit;
        out_most[i] = plan->dims[i] - 1 - (plan->count[i] - 1) * plan->step[i];
        unit *= plan->dims[i];
    }
    return plan->rank;
}

bool tpj_offset_fits(int64_t offset, int n, const int64_t *units, const int64_t *most) {
    for (int i = 0; i < n; i++) {
        if (offset / units[i] > most[i]) return false;
        offset %= units[i];
    }
    return offset >= 0;
}

tpj_dtype tpj_view_offset_dtype(const tpj_view_plan *plan) {
    return plan->n_elements < INT32_MAX ? TPJ_I32 : TPJ_I64; /* a TPU has no 64-bit scalar unit */
}
