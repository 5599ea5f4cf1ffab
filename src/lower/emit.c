/* What an emitter reads and writes: the tpj_emit functions of ops/ops.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lower/lowering.h"

/* ---- arguments by name ---- */

/* Position of a parameter in "T self, I[]? dim=None, ..", and its kind ("I[]?"); -1 when there is none. */
static int find_parameter(const char *params, const char *name, const char **out_kind, size_t *out_kind_length) {
    size_t length = strlen(name);
    for (int i = 0; params != NULL && *params != '\0'; i++) {
        params += strspn(params, " ");
        size_t kind = strcspn(params, " ");
        const char *word = params + kind + strspn(params + kind, " ");
        size_t word_length = strcspn(word, " =,");
        if (word_length == length && memcmp(word, name, length) == 0) {
            *out_kind = params;
            *out_kind_length = kind;
            return i;
        }
        params = strchr(word, ',');
        if (params != NULL) params++;
    }
    return -1;
}

static const tpj_arg no_arg = {.kind = TPJ_ARG_NONE};

const tpj_arg *tpj_emit_argument(tpj_emit *e, const char *name) {
    const char *kind;
    size_t kind_length;
    int i = find_parameter(e->node->op->params, name, &kind, &kind_length);
    if (i < 0) {
        tpj_fail(e, TPJ_INTERNAL, "the row has no parameter '%s'", name);
        return &no_arg;
    }
    return i < e->node->n_args ? &e->node->args[i] : &no_arg;
}

static void wrong_kind(tpj_emit *e, const char *name) {
    tpj_fail(e, TPJ_TYPE, "argument '%s' is of the wrong kind", name);
}

tpj_hlo *tpj_builder(tpj_emit *e) { return e->h; }
const tpj_op_def *tpj_row(tpj_emit *e) { return e->node->op; }
bool tpj_has(tpj_emit *e, const char *name) { return tpj_emit_argument(e, name)->kind != TPJ_ARG_NONE; }

/* A constant argument (a number given where a tensor or an operand may stand), in a dtype; TPJ_N_DTYPES: its own. */
static tpj_value *constant_of(tpj_emit *e, const tpj_arg *arg, tpj_dtype dtype) {
    bool own = dtype == TPJ_N_DTYPES;
    switch (arg->kind) {
        case TPJ_ARG_BOOL: return hlo_integer(e->h, own ? TPJ_BOOL : dtype, arg->boolean);
        case TPJ_ARG_INT:
            if (!own && !tpj_dtype_is_integral(dtype)) return hlo_number(e->h, dtype, (double)arg->integer);
            return hlo_integer(e->h, own ? TPJ_I64 : dtype, arg->integer);
        case TPJ_ARG_FLOAT: return hlo_number(e->h, own ? TPJ_F64 : dtype, arg->number);
        case TPJ_ARG_COMPLEX:
            return hlo_complex_number(e->h, own ? TPJ_C128 : dtype, arg->complex_number[0], arg->complex_number[1]);
        default: return NULL;
    }
}

static bool is_constant(const tpj_arg *arg) { return arg->kind >= TPJ_ARG_BOOL && arg->kind <= TPJ_ARG_COMPLEX; }

bool tpj_is_constant(tpj_emit *e, const char *name) { return is_constant(tpj_emit_argument(e, name)); }

bool tpj_numbers_are_constant(tpj_emit *e, const char *name, int *out_n) {
    const tpj_arg *arg = tpj_emit_argument(e, name);
    *out_n = is_constant(arg) ? 1 : arg->n;
    return arg->kind != TPJ_ARG_SCALARS;
}

static tpj_dtype dtype_of_constant(const tpj_arg *arg) {
    switch (arg->kind) {
        case TPJ_ARG_BOOL: return TPJ_BOOL;
        case TPJ_ARG_INT: return TPJ_I64;
        case TPJ_ARG_FLOAT: return TPJ_F64;
        default: return TPJ_C128;
    }
}

static tpj_value *value_of(tpj_emit *e, const char *name, tpj_dtype dtype) {
    const tpj_arg *arg = tpj_emit_argument(e, name);
    if (arg->kind == TPJ_ARG_NONE) return NULL;
    if (is_constant(arg)) return constant_of(e, arg, dtype);
    if (arg->kind != TPJ_ARG_VALUE) {
        wrong_kind(e, name);
        return hlo_number(e->h, TPJ_F32, 0);
    }
    if (arg->value.node == TPJ_NO_VALUE) return NULL;
    tpj_value *value = tpj_lowering_value(e->lowering, arg->value, dtype);
    return value == NULL || dtype == TPJ_N_DTYPES ? value : hlo_convert(e->h, value, dtype);
}

tpj_value *tpj_in(tpj_emit *e, const char *name) { return value_of(e, name, TPJ_N_DTYPES); }
tpj_value *tpj_in_as(tpj_emit *e, const char *name, tpj_dtype dtype) { return value_of(e, name, dtype); }

static tpj_type type_of_ref(tpj_emit *e, tpj_ref ref) {
    if (ref.node == TPJ_INPUT) {
        const tpj_input *input = tpj_graph_input(e->lowering->graph, ref.result);
        if (input->view != NULL) return (tpj_type){input->view->dtype, input->view->rank, input->view->sizes};
        return input->type;
    }
    tpj_value *value = tpj_lowering_value(e->lowering, ref, TPJ_N_DTYPES);
    return value == NULL ? (tpj_type){.dtype = TPJ_N_DTYPES} : value->type;
}

tpj_type tpj_in_type(tpj_emit *e, const char *name) {
    const tpj_arg *arg = tpj_emit_argument(e, name);
    if (is_constant(arg)) return (tpj_type){.dtype = dtype_of_constant(arg)};
    if (arg->kind != TPJ_ARG_VALUE || arg->value.node == TPJ_NO_VALUE) return (tpj_type){.dtype = TPJ_N_DTYPES};
    return type_of_ref(e, arg->value);
}

tpj_value **tpj_in_list(tpj_emit *e, const char *name, int *out_n) {
    const tpj_arg *arg = tpj_emit_argument(e, name);
    if (arg->kind != TPJ_ARG_VALUES && arg->kind != TPJ_ARG_NONE) wrong_kind(e, name);
    *out_n = arg->kind == TPJ_ARG_VALUES ? arg->n : 0;
    tpj_value **values = TPJ_ARENA_ARRAY(hlo_arena(e->h), tpj_value *, *out_n + 1);
    for (int i = 0; values != NULL && i < *out_n; i++)
        if (arg->values[i].node != TPJ_NO_VALUE)
            values[i] = tpj_lowering_value(e->lowering, arg->values[i], TPJ_N_DTYPES);
    return values;
}

int64_t tpj_int(tpj_emit *e, const char *name, int64_t when_none) {
    const tpj_arg *arg = tpj_emit_argument(e, name);
    switch (arg->kind) {
        case TPJ_ARG_NONE: return when_none;
        case TPJ_ARG_INT: return arg->integer;
        case TPJ_ARG_BOOL: return arg->boolean;
        case TPJ_ARG_FLOAT: return (int64_t)arg->number;
        default: wrong_kind(e, name); return 0;
    }
}

double tpj_float(tpj_emit *e, const char *name, double when_none) {
    const tpj_arg *arg = tpj_emit_argument(e, name);
    switch (arg->kind) {
        case TPJ_ARG_NONE: return when_none;
        case TPJ_ARG_FLOAT: return arg->number;
        case TPJ_ARG_INT: return (double)arg->integer;
        case TPJ_ARG_BOOL: return arg->boolean;
        default: wrong_kind(e, name); return 0;
    }
}

bool tpj_bool(tpj_emit *e, const char *name, bool when_none) { return tpj_int(e, name, when_none) != 0; }

tpj_dtype tpj_dtype_of(tpj_emit *e, const char *name, tpj_dtype when_none) {
    const tpj_arg *arg = tpj_emit_argument(e, name);
    if (arg->kind == TPJ_ARG_DTYPE) return arg->dtype;
    if (arg->kind != TPJ_ARG_NONE) wrong_kind(e, name);
    return when_none;
}

const char *tpj_string(tpj_emit *e, const char *name, const char *when_none) {
    const tpj_arg *arg = tpj_emit_argument(e, name);
    if (arg->kind == TPJ_ARG_STRING) return arg->string;
    if (arg->kind != TPJ_ARG_NONE) wrong_kind(e, name);
    return when_none;
}

const int64_t *tpj_ints(tpj_emit *e, const char *name, int *out_n) {
    const tpj_arg *arg = tpj_emit_argument(e, name);
    *out_n = -1;
    if (arg->kind == TPJ_ARG_INT) { /* PyTorch's int[1] accepts one number */
        *out_n = 1;
        return &arg->integer;
    }
    if (arg->kind == TPJ_ARG_NONE) return NULL;
    if (arg->kind == TPJ_ARG_INTS || arg->n == 0) {
        static const int64_t nothing[1];
        *out_n = arg->n;
        return arg->n > 0 ? arg->integers : nothing;
    }
    wrong_kind(e, name);
    return NULL;
}

const double *tpj_floats(tpj_emit *e, const char *name, int *out_n) {
    const tpj_arg *arg = tpj_emit_argument(e, name);
    *out_n = arg->kind == TPJ_ARG_FLOATS ? arg->n : -1;
    if (arg->kind != TPJ_ARG_FLOATS && arg->kind != TPJ_ARG_NONE) wrong_kind(e, name);
    return arg->kind == TPJ_ARG_FLOATS ? arg->numbers : NULL;
}

const bool *tpj_bools(tpj_emit *e, const char *name, int *out_n) {
    const tpj_arg *arg = tpj_emit_argument(e, name);
    *out_n = arg->kind == TPJ_ARG_BOOLS ? arg->n : -1;
    if (arg->kind != TPJ_ARG_BOOLS && arg->kind != TPJ_ARG_NONE) wrong_kind(e, name);
    return arg->kind == TPJ_ARG_BOOLS ? arg->booleans : NULL;
}

tpj_value *tpj_scalar(tpj_emit *e, const char *name, tpj_dtype dtype) { return value_of(e, name, dtype); }

tpj_value *tpj_scalar_or(tpj_emit *e, const char *name, tpj_dtype dtype, double when_none) {
    tpj_value *value = tpj_scalar(e, name, dtype);
    return value != NULL ? value : hlo_number(e->h, dtype, when_none);
}

tpj_value *tpj_scalar_at(tpj_emit *e, const char *name, int i, tpj_dtype dtype) {
    const tpj_arg *arg = tpj_emit_argument(e, name);
    if (i >= 0 && i < arg->n) {
        if (arg->kind == TPJ_ARG_SCALARS)
            return hlo_convert(e->h, tpj_lowering_value(e->lowering, arg->values[i], dtype), dtype);
        if (arg->kind == TPJ_ARG_FLOATS) return hlo_number(e->h, dtype, arg->numbers[i]);
        if (arg->kind == TPJ_ARG_INTS) return hlo_integer(e->h, dtype, arg->integers[i]);
    }
    wrong_kind(e, name);
    return hlo_number(e->h, dtype, 0);
}

tpj_dtype tpj_scalar_dtype(tpj_emit *e, const char *name) {
    const tpj_arg *arg = tpj_emit_argument(e, name);
    if (is_constant(arg)) return dtype_of_constant(arg);
    if (arg->kind == TPJ_ARG_SCALARS && arg->n > 0) return type_of_ref(e, arg->values[0]).dtype;
    if (arg->kind == TPJ_ARG_VALUE) return type_of_ref(e, arg->value).dtype;
    return TPJ_F64;
}

/* ---- limits of numbers ---- */

static bool is_run_time_number(tpj_emit *e, const tpj_arg *arg) {
    return arg->kind == TPJ_ARG_VALUE && arg->value.node == TPJ_INPUT &&
           tpj_graph_input(e->lowering->graph, arg->value.result)->kind == TPJ_INPUT_SCALAR;
}

static void add_requirement(tpj_emit *e, tpj_requirement requirement) {
    tpj_required_number *made = TPJ_ARENA_NEW(hlo_arena(e->h), tpj_required_number);
    if (made == NULL) return;
    requirement.op = e->node->op->name;
    *made = (tpj_required_number){requirement, e->lowering->required};
    e->lowering->required = made;
}

static void require(tpj_emit *e, const char *name, tpj_requirement requirement) {
    const tpj_arg *arg = tpj_emit_argument(e, name);
    if (is_run_time_number(e, arg)) {
        requirement.input = arg->value.result;
        requirement.other = -1;
        add_requirement(e, requirement);
    } else if (is_constant(arg)) {
        double value = tpj_float(e, name, 0);
        if (!(value >= requirement.low && value <= requirement.high))
            tpj_fail(e, requirement.code, "%s%g", requirement.message, value);
    }
}

void tpj_require(tpj_emit *e, const char *name, double low, double high, const char *message) {
    require(e, name, (tpj_requirement){.low = low, .high = high, .code = TPJ_RUNTIME, .message = message});
}

void tpj_require_index(tpj_emit *e, const char *name, int64_t size, const char *message) {
    require(e, name,
            (tpj_requirement){.low = -(double)size, .high = (double)size - 1, .code = TPJ_INDEX, .message = message});
}

void tpj_require_order(tpj_emit *e, const char *name, const char *other, bool equal, const char *message) {
    const tpj_arg *first = tpj_emit_argument(e, name), *second = tpj_emit_argument(e, other);
    if (is_run_time_number(e, first) && is_run_time_number(e, second)) {
        add_requirement(e, (tpj_requirement){.input = first->value.result,
                                             .other = second->value.result,
                                             .equal = equal,
                                             .code = TPJ_RUNTIME,
                                             .message = message});
    } else if (is_constant(first) && is_constant(second)) {
        bool integers = first->kind == TPJ_ARG_INT && second->kind == TPJ_ARG_INT;
        double x = tpj_float(e, name, 0), y = tpj_float(e, other, 0);
        bool below = integers ? first->integer < second->integer : x < y;
        bool same = integers ? first->integer == second->integer : x == y;
        if (!below && !(equal && same)) tpj_fail(e, TPJ_RUNTIME, "%s%g, %g", message, x, y);
    }
}

void tpj_require_distance(tpj_emit *e, const char *name, const char *other, double most, const char *message) {
    const tpj_arg *first = tpj_emit_argument(e, name), *second = tpj_emit_argument(e, other);
    if (is_run_time_number(e, first) && is_run_time_number(e, second)) {
        add_requirement(e, (tpj_requirement){.input = first->value.result,
                                             .other = second->value.result,
                                             .high = most,
                                             .code = TPJ_RUNTIME,
                                             .message = message});
    } else if (is_constant(first) && is_constant(second)) {
        double x = tpj_float(e, name, 0), y = tpj_float(e, other, 0);
        if (!(y - x <= most)) tpj_fail(e, TPJ_RUNTIME, "%s%g, %g", message, x, y);
    }
}

void tpj_fit_span(tpj_emit *e, const char *low, const char *high, uint64_t span) {
    const tpj_arg *last = tpj_emit_argument(e, high), *first = low != NULL ? tpj_emit_argument(e, low) : last;
    if (!is_run_time_number(e, first) || !is_run_time_number(e, last)) return;
    int other = low != NULL ? last->value.result : -1;
    add_requirement(e, (tpj_requirement){.input = first->value.result, .other = other, .span = span, .code = TPJ_OK});
}

int64_t tpj_size(tpj_emit *e, int i) {
    const tpj_lower_options *options = e->lowering->options;
    if (i < options->n_sizes) return options->sizes[i];
    tpj_fail(e, TPJ_NOT_IMPLEMENTED, "the result's size depends on data and is not known here");
    return 0;
}

int tpj_dim(tpj_emit *e, const char *name, int rank) {
    int64_t dim = tpj_int(e, name, 0), span = rank > 0 ? rank : 1;
    if (dim < -span || dim >= span) {
        tpj_fail(e, TPJ_INDEX, "Dimension out of range (expected to be in range of [%lld, %lld], but got %lld)",
                 (long long)-span, (long long)span - 1, (long long)dim);
        return 0;
    }
    return (int)(dim < 0 ? dim + span : dim);
}

const int64_t *tpj_dims(tpj_emit *e, const char *name, int rank, int *out_n) {
    int n;
    const int64_t *dims = tpj_ints(e, name, &n);
    int64_t *wrapped = hlo_dims(e->h, rank + 1), span = rank > 0 ? rank : 1;
    *out_n = 0;
    if (wrapped == NULL) return NULL;
    bool *seen = TPJ_ARENA_ARRAY(hlo_arena(e->h), bool, span);
    for (int i = 0; seen != NULL && i < n; i++) {
        int64_t dim = dims[i] < 0 ? dims[i] + span : dims[i];
        if (dim < 0 || dim >= span) {
            tpj_fail(e, TPJ_INDEX, "Dimension out of range (expected to be in range of [%lld, %lld], but got %lld)",
                     (long long)-span, (long long)span - 1, (long long)dims[i]);
            return wrapped;
        }
        if (seen[dim]) {
            tpj_fail(e, TPJ_RUNTIME, "dim %lld appears multiple times in the list of dims", (long long)dim);
            return wrapped;
        }
        seen[dim] = true;
    }
    for (int dim = 0; dim < rank; dim++)
        if (n <= 0 || (seen != NULL && seen[dim])) wrapped[(*out_n)++] = dim;
    return wrapped;
}

/* ---- promotion ---- */

tpj_dtype tpj_default_dtype(tpj_emit *e) {
    tpj_dtype given = e->lowering->options->default_dtype;
    return given == TPJ_BOOL ? TPJ_F32 : given;
}

tpj_dtype tpj_default_complex_dtype(tpj_emit *e) { return hlo_complex_dtype(tpj_default_dtype(e)); }

tpj_dtype tpj_float_dtype(tpj_emit *e, tpj_dtype dtype) {
    return tpj_dtype_is_integral(dtype) ? tpj_default_dtype(e) : dtype;
}

/* What a Python number counts as: it has a class, and the default dtype's precision. */
static tpj_dtype number_dtype(tpj_emit *e, tpj_dtype dtype) {
    if (dtype == TPJ_F64) return tpj_default_dtype(e);
    return dtype == TPJ_C128 ? tpj_default_complex_dtype(e) : dtype;
}

tpj_dtype tpj_compute_dtype(tpj_dtype dtype) {
    return tpj_dtype_is_half(dtype) ? TPJ_F32 : dtype == TPJ_C32 ? TPJ_C64 : dtype;
}
tpj_dtype tpj_sum_dtype(tpj_dtype dtype) { return tpj_dtype_is_integral(dtype) ? TPJ_I64 : dtype; }

/* The unsigned types that PyTorch added later: of the integers they promote with none. */
static bool is_wide_unsigned(tpj_dtype dtype) { return tpj_dtype_is_unsigned(dtype) && tpj_dtype_bytes(dtype) > 1; }

/* torch.promote_types. */
tpj_dtype tpj_promote_dtypes(tpj_dtype a, tpj_dtype b) {
    if (a == b || b == TPJ_N_DTYPES) return a;
    if (a == TPJ_N_DTYPES) return b;
    tpj_class class_a = tpj_dtype_class(a), class_b = tpj_dtype_class(b);
    if (class_a > class_b) return tpj_promote_dtypes(b, a);
    size_t bytes_a = tpj_dtype_bytes(a), bytes_b = tpj_dtype_bytes(b);
    switch (class_b) {
        case TPJ_CLASS_COMPLEX:
            if (class_a < TPJ_CLASS_FLOAT) return b;
            if (a == TPJ_C128 || b == TPJ_C128 || a == TPJ_F64) return TPJ_C128;
            return a == TPJ_F16 ? b : TPJ_C64;
        case TPJ_CLASS_FLOAT:
            if (class_a != TPJ_CLASS_FLOAT) return b;
            if (bytes_a == bytes_b) return TPJ_F32; /* f16 with bf16 */
            return bytes_a > bytes_b ? a : b;
        default: break;
    }
    if (class_a == TPJ_CLASS_BOOL) return b;
    if (class_a == class_b) return bytes_a > bytes_b ? a : b;
    return bytes_b > 1 ? b : TPJ_I16; /* u8 with a signed type */
}

/* Fails for the pairs that PyTorch does not promote. */
static tpj_dtype promote_pair(tpj_emit *e, tpj_dtype a, tpj_dtype b) {
    if (a == b || a == TPJ_N_DTYPES || b == TPJ_N_DTYPES) return tpj_promote_dtypes(a, b);
    const char *name_a = tpj_dtype_torch_name(a), *name_b = tpj_dtype_torch_name(b);
    bool floats = tpj_dtype_is_float(a) || tpj_dtype_is_float(b);
    if (tpj_dtype_is_opaque(a) || tpj_dtype_is_opaque(b))
        tpj_fail(e, TPJ_RUNTIME, "Promotion from %s and %s is unsupported.", name_a, name_b);
    else if (tpj_dtype_is_float8(a) || tpj_dtype_is_float8(b))
        tpj_fail(e, TPJ_RUNTIME, "Promotion for Float8 Types is not supported, attempted to promote %s and %s", name_a,
                 name_b);
    else if ((is_wide_unsigned(a) || is_wide_unsigned(b)) && !floats)
        tpj_fail(e, TPJ_RUNTIME,
                 "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote %s and %s", name_a,
                 name_b);
    return tpj_promote_dtypes(a, b);
}

/* The three categories of torch.result_type. */
typedef struct promotion {
    tpj_dtype dims, zero_dim, number;
} promotion;

static void promote_ref(tpj_emit *e, tpj_ref ref, promotion *p) {
    if (ref.node == TPJ_NO_VALUE) return;
    tpj_type type = type_of_ref(e, ref);
    tpj_dtype *category = type.rank > 0 ? &p->dims : &p->zero_dim;
    if (tpj_lowering_is_number(e->lowering, ref)) {
        category = &p->number;
        type.dtype = number_dtype(e, type.dtype);
    }
    *category = promote_pair(e, *category, type.dtype);
}

static void promote_arg(tpj_emit *e, const tpj_arg *arg, promotion *p) {
    if (is_constant(arg)) {
        p->number = promote_pair(e, p->number, number_dtype(e, dtype_of_constant(arg)));
    } else if (arg->kind == TPJ_ARG_VALUE) {
        promote_ref(e, arg->value, p);
    } else if (arg->kind == TPJ_ARG_VALUES || arg->kind == TPJ_ARG_SCALARS) {
        for (int i = 0; i < arg->n; i++) promote_ref(e, arg->values[i], p);
    }
}

/* A lower category counts only where it is of a higher class than all above it. */
static tpj_dtype combine(tpj_emit *e, tpj_dtype higher, tpj_dtype lower) {
    if (higher == TPJ_N_DTYPES) return lower;
    if (lower == TPJ_N_DTYPES) return higher;
    tpj_class a = tpj_dtype_class(higher), b = tpj_dtype_class(lower);
    if (b == TPJ_CLASS_UNSIGNED) b = TPJ_CLASS_SIGNED;
    if (a == TPJ_CLASS_UNSIGNED) a = TPJ_CLASS_SIGNED;
    if (b == TPJ_CLASS_COMPLEX && a == TPJ_CLASS_FLOAT) /* of the width of the higher one */
        return higher == TPJ_F16 ? TPJ_C32 : hlo_complex_dtype(higher);
    return b > a ? promote_pair(e, higher, lower) : higher;
}

tpj_dtype tpj_promote(tpj_emit *e, const char *name, ...) {
    promotion p = {TPJ_N_DTYPES, TPJ_N_DTYPES, TPJ_N_DTYPES};
    va_list names;
    va_start(names, name);
    for (const char *each = name; each != NULL; each = va_arg(names, const char *))
        promote_arg(e, tpj_emit_argument(e, each), &p);
    va_end(names);
    tpj_dtype dtype = combine(e, p.dims, combine(e, p.zero_dim, p.number));
    return dtype == TPJ_N_DTYPES ? tpj_default_dtype(e) : dtype;
}

const char *tpj_dtype_torch_name(tpj_dtype dtype) {
    static const char *const names[TPJ_N_DTYPES] = {
        [TPJ_BOOL] = "Bool",
        [TPJ_U8] = "Byte",
        [TPJ_I8] = "Char",
        [TPJ_I16] = "Short",
        [TPJ_I32] = "Int",
        [TPJ_I64] = "Long",
        [TPJ_U16] = "UInt16",
        [TPJ_U32] = "UInt32",
        [TPJ_U64] = "UInt64",
        [TPJ_F16] = "Half",
        [TPJ_BF16] = "BFloat16",
        [TPJ_F32] = "Float",
        [TPJ_F64] = "Double",
        [TPJ_C32] = "ComplexHalf",
        [TPJ_C64] = "ComplexFloat",
        [TPJ_C128] = "ComplexDouble",
        [TPJ_F8E4M3FN] = "Float8_e4m3fn",
        [TPJ_F8E5M2] = "Float8_e5m2",
        [TPJ_F8E4M3FNUZ] = "Float8_e4m3fnuz",
        [TPJ_F8E5M2FNUZ] = "Float8_e5m2fnuz",
        [TPJ_F8E8M0FNU] = "Float8_e8m0fnu",
        [TPJ_F4X2] = "Float4_e2m1fn_x2",
    };
    const char *name = (unsigned)dtype < TPJ_N_DTYPES ? names[dtype] : NULL;
    return name != NULL ? name : tpj_dtype_name(dtype);
}

/* ---- results ---- */

static void append_result(tpj_emit *e, tpj_value *value) {
    if (e->n_results == e->capacity) {
        int capacity = e->capacity > 0 ? e->capacity * 2 : 8;
        tpj_value **results = TPJ_ARENA_ARRAY(hlo_arena(e->h), tpj_value *, capacity);
        if (results == NULL) return;
        if (e->n_results > 0) memcpy(results, e->results, sizeof *results * (size_t)e->n_results);
        e->results = results;
        e->capacity = capacity;
    }
    e->results[e->n_results++] = value;
}

void tpj_out(tpj_emit *e, tpj_value *value) { append_result(e, value); }
void tpj_out_as(tpj_emit *e, tpj_value *value, tpj_dtype dtype) { append_result(e, hlo_convert(e->h, value, dtype)); }
void tpj_out_columns(tpj_emit *e, tpj_value *value) {
    e->by_columns |= (uint64_t)1 << (e->n_results & 63);
    append_result(e, value);
}
void tpj_out_none(tpj_emit *e) { append_result(e, NULL); }

void tpj_fail(tpj_emit *e, tpj_code code, const char *format, ...) {
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    hlo_fail(e->h, code, "%s", message);
}
