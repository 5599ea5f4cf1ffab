/* Plans of views against an enumeration of their linear indices: numbers alone, no plugin. */
#include "lower/view.h"
#include "runner.h"

static uint64_t random_state;

static int64_t draw(int64_t n) { /* 0 .. n - 1 */
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)n);
}

static int64_t product(int rank, const int64_t *sizes) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= sizes[i];
    return n;
}

/* The linear index of the view's element number `at` (row-major), and of the plan's for it with the slice moved by `start`. */
static int64_t index_of_view(const tpj_view *view, int64_t at, int64_t *out_position) {
    int64_t index = view->offset;
    for (int i = view->rank - 1; i >= 0; i--) {
        out_position[i] = at % view->sizes[i];
        at /= view->sizes[i];
        index += out_position[i] * view->strides[i];
    }
    return index;
}

static int64_t index_of_plan(const tpj_view_plan *plan, const tpj_view *view, const int64_t *position,
                             const int64_t *start) {
    int64_t index = 0;
    for (int k = 0; k < plan->rank; k++) {
        int64_t at = start[k];
        for (int i = 0; i < view->rank; i++)
            if (plan->source[i] == k) at += position[i] * plan->step[k];
        if (at >= plan->dims[k]) return -1;
        index = index * plan->dims[k] + at;
    }
    return index;
}

/* Every element of the view is where the plan reads it. */
static bool plan_is_right(const tpj_view_plan *plan, const tpj_view *view, const int64_t *start) {
    int64_t position[TPJ_VIEW_MAX_RANK], n = product(view->rank, view->sizes),
                                         covered = product(plan->rank, plan->dims);
    if (covered != (plan->cropped >= 0 ? plan->cropped : plan->n_elements)) return false;
    for (int64_t at = 0; at < n; at++)
        if (index_of_view(view, at, position) != index_of_plan(plan, view, position, start)) return false;
    return true;
}

/* A base of up to four dimensions. */
static tpj_type draw_base(int64_t *dims) {
    tpj_type base = {.dtype = TPJ_F32, .rank = (int)draw(5), .dims = dims};
    for (int i = 0; i < base.rank; i++) dims[i] = 1 + draw(5);
    return base;
}

/* What chains of slices, selects, transposes, expands and unsqueezes make of the base. */
static void draw_chain(const tpj_type *base, tpj_view *view, int64_t *sizes, int64_t *strides) {
    *view = (tpj_view){.dtype = base->dtype, .rank = base->rank, .sizes = sizes, .strides = strides};
    for (int i = 0; i < base->rank; i++) sizes[i] = base->dims[i];
    tpj_contiguous_strides(base->rank, base->dims, strides);
    for (int n = (int)draw(5); n > 0; n--) {
        int dim = view->rank > 0 ? (int)draw(view->rank) : -1;
        switch (draw(5)) {
            case 0: /* slice */
                if (dim >= 0 && sizes[dim] > 1) {
                    int64_t start = draw(sizes[dim]), step = 1 + draw(3);
                    view->offset += start * strides[dim];
                    sizes[dim] = (sizes[dim] - start + step - 1) / step;
                    strides[dim] *= step;
                }
                break;
            case 1: /* select */
                if (dim >= 0) {
                    view->offset += draw(sizes[dim]) * strides[dim];
                    view->rank--;
                    for (int i = dim; i < view->rank; i++) sizes[i] = sizes[i + 1], strides[i] = strides[i + 1];
                }
                break;
            case 2: /* transpose */
                if (dim >= 0) {
                    int other = (int)draw(view->rank);
                    int64_t size = sizes[dim], stride = strides[dim];
                    sizes[dim] = sizes[other], strides[dim] = strides[other];
                    sizes[other] = size, strides[other] = stride;
                }
                break;
            case 3: /* unsqueeze, with any stride */
                sizes[view->rank] = 1;
                strides[view->rank++] = draw(7);
                break;
            default: /* expand */
                sizes[view->rank] = 1 + draw(3);
                strides[view->rank++] = 0;
                break;
        }
    }
}

TEST(view_plans_of_chains_are_slices) {
    int n_gathers = 0;
    random_state = 1;
    for (int round = 0; round < 20000; round++) {
        int64_t dims[5], sizes[16], strides[16];
        tpj_type base = draw_base(dims);
        tpj_view view;
        tpj_view_plan plan;
        draw_chain(&base, &view, sizes, strides);
        CHECK_OK(tpj_view_make_plan(&base, &view, &plan));
        CHECK_INT(plan.n_elements, product(base.rank, base.dims));
        n_gathers += plan.gather;
        if (!plan.gather && !plan.empty) CHECK(plan_is_right(&plan, &view, plan.start));
    }
    CHECK_INT(n_gathers, 0);
}

/* Any sizes, strides and offset that lie inside: as_strided. */
static bool draw_any(int64_t n_elements, tpj_view *view, int64_t *sizes, int64_t *strides) {
    *view = (tpj_view){.dtype = TPJ_F32, .rank = (int)draw(4), .sizes = sizes, .strides = strides};
    int64_t reach = 0;
    for (int i = 0; i < view->rank; i++) {
        sizes[i] = 1 + draw(4);
        strides[i] = draw(13);
        reach += (sizes[i] - 1) * strides[i];
    }
    if (reach >= n_elements) return false;
    view->offset = draw(n_elements - reach);
    return true;
}

TEST(view_plans_of_any_strides_are_right) {
    int n_slices = 0, n_gathers = 0;
    random_state = 2;
    for (int round = 0; round < 20000; round++) {
        int64_t dims[5], sizes[16], strides[16];
        tpj_type base = draw_base(dims);
        tpj_view view;
        tpj_view_plan plan;
        if (!draw_any(product(base.rank, base.dims), &view, sizes, strides)) continue;
        CHECK_OK(tpj_view_make_plan(&base, &view, &plan));
        n_gathers += plan.gather;
        n_slices += !plan.gather;
        if (!plan.gather) CHECK(plan_is_right(&plan, &view, plan.start));
    }
    CHECK(n_slices > 1000 && n_gathers > 100); /* both ways were met */
}

/* The plan made for one offset is right for every offset that is said to fit, and says so of its own. */
TEST(view_plans_serve_the_offsets_that_fit) {
    int n_moved = 0;
    random_state = 3;
    for (int round = 0; round < 4000; round++) {
        int64_t dims[5], sizes[16], strides[16], units[2 * TPJ_VIEW_MAX_RANK], most[2 * TPJ_VIEW_MAX_RANK];
        tpj_type base = draw_base(dims);
        tpj_view view;
        tpj_view_plan plan;
        if (!draw_any(product(base.rank, base.dims), &view, sizes, strides)) continue;
        CHECK_OK(tpj_view_make_plan(&base, &view, &plan));
        int n = tpj_view_plan_room(&plan, &view, units, most);
        CHECK(n > 0 || plan.rank == 0);
        CHECK(tpj_offset_fits(view.offset, n, units, most));
        int64_t reach = index_of_view(&view, product(view.rank, sizes) - 1, (int64_t[16]){0}) - view.offset;
        for (int64_t offset = 0; offset < plan.n_elements; offset++) {
            if (!tpj_offset_fits(offset, n, units, most)) continue;
            CHECK(offset + reach < plan.n_elements);
            int64_t start[2 * TPJ_VIEW_MAX_RANK], rest = offset;
            for (int k = 0; k < n; k++) start[k] = rest / units[k], rest %= units[k];
            tpj_view moved = view;
            moved.offset = offset;
            if (!plan.gather) CHECK(plan_is_right(&plan, &moved, start));
            n_moved += offset != view.offset;
        }
    }
    CHECK(n_moved > 10000);
}

TEST(view_plans_keep_dimensions_of_the_base) {
    /* column 3 of [8, 10]: a slice of that base, not of a flat one */
    int64_t dims[2] = {8, 10}, size = 8, stride = 10;
    tpj_type base = {TPJ_F32, 2, dims};
    tpj_view view = {.dtype = TPJ_F32, .rank = 1, .sizes = &size, .strides = &stride, .offset = 3};
    tpj_view_plan plan;
    CHECK_OK(tpj_view_make_plan(&base, &view, &plan));
    CHECK(!plan.gather && plan.rank == 2);
    CHECK_INT(plan.dims[0], 8);
    CHECK_INT(plan.start[1], 3);
    CHECK_INT(plan.count[0], 8);
    CHECK_INT(plan.source[0], 0);
}

TEST(view_plans_count_in_64_bits) {
    int64_t dims[2] = {4, (int64_t)1 << 33}, sizes[2] = {2, 3}, strides[2] = {(int64_t)1 << 34, (int64_t)1 << 30};
    tpj_type base = {TPJ_U8, 2, dims};
    tpj_view view = {.dtype = TPJ_U8, .rank = 2, .sizes = sizes, .strides = strides, .offset = ((int64_t)1 << 33) + 5};
    tpj_view_plan plan;
    int64_t position[2];
    CHECK_OK(tpj_view_make_plan(&base, &view, &plan));
    CHECK(!plan.gather);
    CHECK(tpj_view_offset_dtype(&plan) == TPJ_I64);
    for (int64_t at = 0; at < 6; at++) {
        int64_t want = index_of_view(&view, at, position);
        CHECK_INT(index_of_plan(&plan, &view, position, plan.start), want);
    }
    CHECK_INT(index_of_view(&view, 5, position), ((int64_t)1 << 33) + 5 + ((int64_t)1 << 34) + ((int64_t)1 << 31));
    view.offset = (int64_t)1 << 34; /* the last row that is read would be row 4 of 4 */
    CHECK_ERROR(tpj_view_make_plan(&base, &view, &plan), TPJ_RUNTIME, "reaches element");
}

TEST(view_plans_under_another_dtype) {
    int64_t dims[2] = {3, 4}, size = 5, stride = 2;
    tpj_type base = {TPJ_F64, 2, dims};
    tpj_view view = {.dtype = TPJ_I16, .rank = 1, .sizes = &size, .strides = &stride, .offset = 39};
    tpj_view_plan plan;
    CHECK_OK(tpj_view_make_plan(&base, &view, &plan));
    CHECK_INT(plan.n_elements, 48);
    CHECK(tpj_view_offset_dtype(&plan) == TPJ_I32);
    view.offset = 40;
    CHECK_ERROR(tpj_view_make_plan(&base, &view, &plan), TPJ_RUNTIME, "element 48 of a storage of 48");
    view.offset = -1;
    CHECK_ERROR(tpj_view_make_plan(&base, &view, &plan), TPJ_RUNTIME, "reaches");
}

TEST(view_plans_of_nothing) {
    int64_t dims[2] = {0, 4}, sizes[2] = {3, 0}, strides[2] = {1, 1}, units[8], most[8];
    tpj_type base = {TPJ_F32, 2, dims};
    tpj_view view = {.dtype = TPJ_F32, .rank = 2, .sizes = sizes, .strides = strides, .offset = 100};
    tpj_view_plan plan;
    CHECK_OK(tpj_view_make_plan(&base, &view, &plan));
    CHECK(plan.empty);
    CHECK_INT(tpj_view_plan_room(&plan, &view, units, most), 0);
    view.rank = TPJ_VIEW_MAX_RANK + 1;
    CHECK_ERROR(tpj_view_make_plan(&base, &view, &plan), TPJ_RUNTIME, "64 dimensions");
}

TEST(views_that_are_dense) {
    int order[TPJ_VIEW_MAX_RANK];
    int64_t sizes[3] = {2, 3, 4}, strides[3] = {12, 4, 1}, turned[3] = {3, 1, 6}, gap[3] = {24, 4, 1},
            repeated[3] = {0, 4, 1};
    tpj_view view = {.dtype = TPJ_F32, .rank = 3, .sizes = sizes, .strides = strides};
    CHECK(tpj_view_is_dense(&view, 24, order));
    CHECK(order[0] == 0 && order[1] == 1 && order[2] == 2);
    CHECK(!tpj_view_is_dense(&view, 25, NULL)); /* elements that it does not name */
    view.strides = turned;
    CHECK(tpj_view_is_dense(&view, 24, order));
    CHECK(order[0] == 2 && order[1] == 0 && order[2] == 1);
    view.strides = gap;
    CHECK(!tpj_view_is_dense(&view, 24, NULL));
    view.strides = repeated;
    CHECK(!tpj_view_is_dense(&view, 24, NULL));
    view.strides = strides;
    view.offset = 1;
    CHECK(!tpj_view_is_dense(&view, 24, NULL));
}
