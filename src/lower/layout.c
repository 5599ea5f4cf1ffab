/* The memory order of results: PyTorch's rules on strides. */
#include <string.h>

#include "lower/lowering.h"
#include "lower/view.h"

enum { MAX_OPERANDS = 16, CONTIGUOUS_FORMAT = 0, PRESERVE_FORMAT = 1, CHANNELS_LAST = 2, CHANNELS_LAST_3D = 3 };

typedef struct operand_strides {
    tpj_dtype dtype;
    int rank;
    int64_t sizes[TPJ_VIEW_MAX_RANK], strides[TPJ_VIEW_MAX_RANK];
} operand_strides;

/* Sizes and strides of a graph input that is a tensor; false for numbers and results of nodes. */
static bool strides_of(tpj_lowering *lowering, tpj_ref ref, operand_strides *out) {
    if (ref.node != TPJ_INPUT) return false;
    const tpj_input *input = tpj_graph_input(lowering->graph, ref.result);
    if (input->kind != TPJ_INPUT_BUFFER || input->number) return false;
    const tpj_view *view = input->view;
    out->dtype = input->type.dtype;
    out->rank = view != NULL ? view->rank : input->type.rank;
    if (out->rank > TPJ_VIEW_MAX_RANK) return false;
    memcpy(out->sizes, view != NULL ? view->sizes : input->type.dims, sizeof(int64_t) * (size_t)out->rank);
    if (view != NULL)
        memcpy(out->strides, view->strides, sizeof(int64_t) * (size_t)out->rank);
    else
        tpj_contiguous_strides(out->rank, out->sizes, out->strides);
    return true;
}

static int tensor_operands(tpj_lowering *lowering, const tpj_node *node, operand_strides *out, int max) {
    int n = 0;
    for (int i = 0; i < node->n_args && n < max; i++) {
        const tpj_arg *arg = &node->args[i];
        if (arg->kind == TPJ_ARG_VALUE && strides_of(lowering, arg->value, &out[n])) n++;
        for (int k = 0; arg->kind == TPJ_ARG_VALUES && k < arg->n && n < max; k++)
            if (strides_of(lowering, arg->values[k], &out[n])) n++;
    }
    return n;
}

/* TensorIterator's comparison of two dimensions of the broadcast result: > 0 when a should lie outside b. */
static int compare_dims(const operand_strides *operands, int n, int rank, const int64_t *dims, int a, int b) {
    for (int k = 0; k < n; k++) {
        int shift = rank - operands[k].rank;
        int64_t sizes[2] = {1, 1}, strides[2] = {0, 0};
        for (int j = 0; j < 2; j++) {
            int dim = (j == 0 ? a : b) - shift;
            if (dim < 0) continue;
            sizes[j] = operands[k].sizes[dim];
            if (!(sizes[j] == 1 && dims[dim + shift] != 1)) strides[j] = operands[k].strides[dim];
        }
        if (strides[0] == 0 || strides[1] == 0) continue;
        if (strides[0] != strides[1]) return strides[0] < strides[1] ? -1 : 1;
        if (sizes[0] > sizes[1]) return 1;
    }
    return 0;
}

static bool order_of_operands(const operand_strides *operands, int n, int rank, const int64_t *dims, int *out_order) {
    int order[TPJ_VIEW_MAX_RANK]; /* innermost first, as TensorIterator sorts */
    for (int i = 0; i < rank; i++) order[i] = rank - 1 - i;
    for (int i = 1; i < rank; i++) {
        for (int inner = i - 1, moving = i; inner >= 0; inner--) {
            int comparison = compare_dims(operands, n, rank, dims, order[inner], order[moving]);
            if (comparison < 0) break;
            if (comparison == 0) continue;
            int swapped = order[inner];
            order[inner] = order[moving];
            order[moving] = swapped;
            moving = inner;
        }
    }
    bool row_major = true;
    for (int i = 0; i < rank; i++) {
        out_order[i] = order[rank - 1 - i];
        row_major = row_major && out_order[i] == i;
    }
    return !row_major;
}

static bool channels_last_order(int rank, int *out_order) {
    if (rank != 4 && rank != 5) return false;
    out_order[0] = 0;
    for (int i = 2; i < rank; i++) out_order[i - 1] = i;
    out_order[rank - 1] = 1;
    return true;
}

/* PyTorch's is_channels_last_strides: the strides suggest NHWC and are not plain NCHW in disguise. */
static bool suggests_channels_last(const operand_strides *x) {
    if (x->rank != 4 && x->rank != 5) return false;
    int order[5];
    channels_last_order(x->rank, order);
    int64_t least = 0;
    if (x->strides[1] == 0) return false;
    for (int k = x->rank - 1; k >= 0; k--) {
        int dim = order[k];
        if (x->sizes[dim] == 0 || x->strides[dim] < least) return false;
        if (dim == 0 && least == x->strides[1]) return false;
        least = x->strides[dim];
        if (x->sizes[dim] > 1) least *= x->sizes[dim];
    }
    return true;
}

/* A list may hold thousands, and one that is not channels_last decides. */
static bool all_suggest_channels_last(tpj_lowering *lowering, const tpj_node *node, int rank) {
    const tpj_arg *arg = &node->args[0];
    const tpj_ref *refs = arg->kind == TPJ_ARG_VALUES ? arg->values : &arg->value;
    int n = arg->kind == TPJ_ARG_VALUES ? arg->n : 1, n_known = 0;
    for (int i = 0; i < n; i++) {
        operand_strides operand;
        if (!strides_of(lowering, refs[i], &operand)) continue;
        n_known++;
        if (operand.rank != rank || !suggests_channels_last(&operand)) return false;
    }
    return n_known > 0;
}

/* PyTorch rolls by joining two parts, of which one is empty, and so in rows, where nothing moves; without dims it rolls
 * all elements as one row. */
static bool rolls_as_rows(const tpj_node *node, const tpj_value *value) {
    const tpj_arg *shifts = &node->args[1], *dims = &node->args[2];
    if (dims->kind != TPJ_ARG_INTS || dims->n == 0) return true;
    for (int i = 0; shifts->kind == TPJ_ARG_INTS && i < dims->n && i < shifts->n; i++) {
        int64_t dim = dims->integers[i] < 0 ? dims->integers[i] + value->type.rank : dims->integers[i];
        int64_t size = value->type.dims[dim];
        if (size == 0 || shifts->integers[i] % size == 0) return true;
    }
    return false;
}

static bool joined_order(tpj_lowering *lowering, const tpj_node *node, const tpj_value *value, int *out_order) {
    int rank = value->type.rank;
    if (strcmp(node->op->name, "roll") == 0 && rolls_as_rows(node, value)) return false;
    return all_suggest_channels_last(lowering, node, rank) && channels_last_order(rank, out_order);
}

/* PyTorch joins along the dimension and splits it in two; behind the last one there is nothing to split. */
static bool stacked_order(tpj_lowering *lowering, const tpj_node *node, const tpj_value *value, int *out_order) {
    int joined[TPJ_VIEW_MAX_RANK], rank = value->type.rank - 1, n = 0;
    int64_t dim = node->args[1].kind == TPJ_ARG_INT ? node->args[1].integer : 0;
    if (dim < 0) dim += rank + 1;
    if (dim >= rank || !all_suggest_channels_last(lowering, node, rank) || !channels_last_order(rank, joined))
        return false;
    for (int i = 0; i < rank; i++) {
        if (joined[i] == dim) out_order[n++] = joined[i];
        out_order[n++] = joined[i] + (joined[i] >= dim ? 1 : 0);
    }
    return true;
}

static int64_t memory_format_of(const tpj_node *node) {
    const char *params = tpj_op_params(node->op);
    for (int i = 0; i < node->n_args && params != NULL; i++) {
        const char *comma = strchr(params, ',');
        size_t length = comma != NULL ? (size_t)(comma - params) : strlen(params);
        const char *start = params + strspn(params, " ");
        if (start[0] == 'M' && (start[1] == ' ' || start[1] == '?') && start < params + length)
            return node->args[i].kind == TPJ_ARG_INT ? node->args[i].integer : PRESERVE_FORMAT;
        params = comma != NULL ? comma + 1 : NULL;
    }
    return PRESERVE_FORMAT;
}

/* Sorts dimensions by self's strides, the largest outermost. */
static void sort_by_strides(const operand_strides *x, int *dims, int n) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && x->strides[dims[k - 1]] < x->strides[dims[k]]; k--) {
            int swapped = dims[k];
            dims[k] = dims[k - 1];
            dims[k - 1] = swapped;
        }
}

/* PyTorch's transforms by MKL: what is transformed lies innermost, behind the other dimensions, both in the order of
 * self's strides; between real and complex numbers the last transformed dimension stays the last. */
static bool spectrum_order(const tpj_node *node, const operand_strides *x, const tpj_value *value, int *out_order) {
    const tpj_arg *dims = &node->args[1];
    int rank = x->rank, n = dims->n, n_before = 0, inner[TPJ_VIEW_MAX_RANK];
    bool transformed[TPJ_VIEW_MAX_RANK] = {false};
    if (dims->kind != TPJ_ARG_INTS || n <= 0 || n > rank || rank != value->type.rank) return false;
    for (int i = 0; i < n; i++) {
        int64_t dim = dims->integers[i] < 0 ? dims->integers[i] + rank : dims->integers[i];
        if (dim < 0 || dim >= rank || transformed[dim]) return false;
        transformed[dim] = true;
        inner[i] = (int)dim;
    }
    for (int d = 0; d < rank; d++)
        if (!transformed[d]) out_order[n_before++] = d;
    sort_by_strides(x, out_order, n_before);
    sort_by_strides(x, inner, x->dtype == value->type.dtype ? n : n - 1);
    memcpy(out_order + n_before, inner, sizeof(int) * (size_t)n);
    return true;
}

bool tpj_layout_columns(const tpj_value *value, int *out_order) {
    int rank = value->type.rank;
    if (rank < 2 || rank > TPJ_VIEW_MAX_RANK) return false;
    for (int i = 0; i < rank - 2; i++) out_order[i] = i;
    out_order[rank - 2] = rank - 1;
    out_order[rank - 1] = rank - 2;
    return true;
}

bool tpj_layout_order(tpj_lowering *lowering, const tpj_node *node, const tpj_value *value, int *out_order) {
    int rank = value->type.rank;
    if (rank < 2 || rank > TPJ_VIEW_MAX_RANK || node->op->layout == TPJ_LAYOUT_CONTIGUOUS) return false;
    tpj_layout layout = node->op->layout;
    if (layout == TPJ_LAYOUT_JOINED) return joined_order(lowering, node, value, out_order);
    if (layout == TPJ_LAYOUT_STACKED) return stacked_order(lowering, node, value, out_order);
    operand_strides operands[MAX_OPERANDS];
    int n = tensor_operands(lowering, node, operands, MAX_OPERANDS);
    if (n == 0) return false;
    if (layout == TPJ_LAYOUT_REAL_POINTWISE) {
        if (tpj_dtype_is_complex(operands[0].dtype)) return false;
        layout = TPJ_LAYOUT_POINTWISE;
    }
    if (layout == TPJ_LAYOUT_CHANNELS_LAST) {
        for (int i = 0; i < n && i < 2; i++)
            if (operands[i].rank == rank && suggests_channels_last(&operands[i]))
                return channels_last_order(rank, out_order);
        return false;
    }
    if (layout == TPJ_LAYOUT_SPECTRUM) return spectrum_order(node, &operands[0], value, out_order);
    if (layout == TPJ_LAYOUT_MEMORY_FORMAT) {
        int64_t format = memory_format_of(node);
        if (format == CONTIGUOUS_FORMAT) return false;
        if (format == CHANNELS_LAST || format == CHANNELS_LAST_3D) return channels_last_order(rank, out_order);
    }
    if (layout != TPJ_LAYOUT_POINTWISE) n = 1; /* preserve_format of self */
    for (int i = 0; i < n; i++)
        if (operands[i].rank > rank) return false;
    if (layout != TPJ_LAYOUT_POINTWISE && operands[0].rank != rank) return false;
    return order_of_operands(operands, n, rank, value->type.dims, out_order);
}
