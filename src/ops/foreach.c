/* Ops over lists of tensors: each result is written by the row of the op for one tensor, all of them in one program. */
#include "ops/ops.h"

/* Parameters of a list op in the order in which the one-tensor row takes them; rows name them in `hlo` as
 * "row, self, other, 1": "1" stands for a constant alpha, nothing for an argument left out. */
enum { MAX_PARTS = 6, MAX_TEXT = 96 };

/* Splits `text` at commas into parts, which point into `buffer`. */
static int split(const char *text, char buffer[MAX_TEXT], const char *parts[MAX_PARTS]) {
    int n = 0, length = 0;
    while (*text != '\0' && n < MAX_PARTS && length < MAX_TEXT - 1) {
        while (*text == ' ') text++;
        parts[n++] = &buffer[length];
        while (*text != '\0' && *text != ',' && length < MAX_TEXT - 1) buffer[length++] = *text++;
        if (*text == ',') text++;
        if (length < MAX_TEXT) buffer[length++] = '\0';
    }
    return n;
}

/* .hlo: "row, argument, argument, ..". The list that counts is the first T[] parameter: self, or exponent. */
static void emit_each(tpj_emit *e) {
    char buffer[MAX_TEXT] = {0};
    const char *parts[MAX_PARTS] = {""};
    int n_parts = split(tpj_row(e)->hlo, buffer, parts), n = 0;
    tpj_in_list(e, tpj_row(e)->variant != 0 ? "exponent" : "self", &n);
    for (int i = 0; i < n; i++) tpj_emit_row(e, parts[0], parts + 1, n_parts - 1, i);
}

/* As above, with lists that must be as long as self. */
static void emit_each_of_pairs(tpj_emit *e) {
    static const char *const names[] = {"other", "mat2", "src", "exponent", "tensors1", "tensor1"};
    char buffer[MAX_TEXT] = {0};
    const char *parts[MAX_PARTS] = {""};
    int n_parts = split(tpj_row(e)->hlo, buffer, parts), n = 0, n_other = 0;
    tpj_in_list(e, "self", &n);
    tpj_in_list(e, names[tpj_row(e)->variant], &n_other);
    if (n != n_other) {
        tpj_fail(e, TPJ_RUNTIME, "Tensor lists must have the same number of tensors, got %d and %d", n, n_other);
        return;
    }
    for (int i = 0; i < n; i++) tpj_emit_row(e, parts[0], parts + 1, n_parts - 1, i);
}

enum { OTHER, MAT2, SRC, EXPONENT, TENSORS1, TENSOR1 };

#define EACH(op) \
    {.name = "_foreach_" op, .params = "T[] self", .emit = emit_each, .hlo = op ", self", .layout = TPJ_LAYOUT_SELF}
#define ROW(op, parameters, calls) \
    {.name = "_foreach_" op, .params = parameters, .emit = emit_each, .hlo = calls, .layout = TPJ_LAYOUT_SELF}
#define PAIRS(op, parameters, calls, list) \
    {.name = "_foreach_" op,               \
     .params = parameters,                 \
     .emit = emit_each_of_pairs,           \
     .hlo = calls,                         \
     .layout = TPJ_LAYOUT_SELF,            \
     .variant = (list)}

#define WITH_SCALAR "T[] self, S scalar"
#define WITH_SCALARS "T[] self, S[] scalars"
#define WITH_LIST "T[] self, T[] other"
#define FUSED "T[] self, T[] tensor1, T[] tensor2"
/* Ops of two tensors or a tensor and a number. */
#define ARITHMETIC(op)                                                    \
    ROW(op ".Scalar", WITH_SCALAR, op ".Tensor, self, scalar"),           \
        ROW(op ".ScalarList", WITH_SCALARS, op ".Tensor, self, scalars"), \
        PAIRS(op ".List", WITH_LIST, op ".Tensor, self, other", OTHER)
/* add and sub have an alpha. */
#define SCALED(op)                                                           \
    ROW(op ".Scalar", WITH_SCALAR, op ".Tensor, self, scalar, 1"),           \
        ROW(op ".ScalarList", WITH_SCALARS, op ".Tensor, self, scalars, 1"), \
        PAIRS(op ".List", WITH_LIST ", S alpha=1", op ".Tensor, self, other, alpha", OTHER)
/* Bounds: clamp_min and maximum are one thing here. */
#define BOUND(op, row)                                                                                                \
    ROW(op ".Scalar", WITH_SCALAR, row ", self, scalar"), ROW(op ".ScalarList", WITH_SCALARS, row ", self, scalars"), \
        PAIRS(op ".List", WITH_LIST, row ".Tensor, self, other", OTHER)

const tpj_op_def tpj_ops_foreach[] = {
    EACH("abs"),
    EACH("acos"),
    EACH("asin"),
    EACH("atan"),
    EACH("ceil"),
    EACH("cos"),
    EACH("cosh"),
    EACH("erf"),
    EACH("erfc"),
    EACH("exp"),
    EACH("expm1"),
    EACH("floor"),
    EACH("frac"),
    EACH("lgamma"),
    EACH("log"),
    EACH("log10"),
    EACH("log1p"),
    EACH("log2"),
    EACH("max"),
    EACH("neg"),
    EACH("reciprocal"),
    EACH("round"),
    EACH("rsqrt"),
    EACH("sigmoid"),
    EACH("sign"),
    EACH("sin"),
    EACH("sinh"),
    EACH("sqrt"),
    EACH("tan"),
    EACH("tanh"),
    EACH("trunc"),
    EACH("zero"),
    SCALED("add"),
    SCALED("sub"),
    ARITHMETIC("mul"),
    ARITHMETIC("div"),
    BOUND("clamp_max", "clamp_max"),
    BOUND("clamp_min", "clamp_min"),
    BOUND("minimum", "clamp_max"),
    BOUND("maximum", "clamp_min"),
    ROW("add.Tensor", "T[] self, T other, S alpha=1", "add.Tensor, self, other, alpha"),
    ROW("mul.Tensor", "T[] self, T other", "mul.Tensor, self, other"),
    ROW("div.Tensor", "T[] self, T other", "div.Tensor, self, other"),
    ROW("pow.Scalar", "T[] self, S^ exponent", "pow.Tensor_Scalar, self, exponent"),
    ROW("pow.ScalarList", "T[] self, S^[] exponent", "pow.Tensor_Scalar, self, exponent"),
    PAIRS("pow.List", "T[] self, T[] exponent", "pow.Tensor_Tensor, self, exponent", EXPONENT),
    {.name = "_foreach_pow.ScalarAndTensor",
     .params = "S self, T[] exponent",
     .emit = emit_each,
     .hlo = "pow.Scalar, self, exponent",
     .layout = TPJ_LAYOUT_SELF,
     .variant = 1},
    PAIRS("addcmul.Scalar", FUSED ", S value=1", "addcmul, self, tensor1, tensor2, value", TENSOR1),
    PAIRS("addcmul.ScalarList", FUSED ", S[] scalars", "addcmul, self, tensor1, tensor2, scalars", TENSOR1),
    PAIRS("addcdiv.Scalar", FUSED ", S value=1", "addcdiv, self, tensor1, tensor2, value", TENSOR1),
    PAIRS("addcdiv.ScalarList", FUSED ", S[] scalars", "addcdiv, self, tensor1, tensor2, scalars", TENSOR1),
    PAIRS("lerp.Scalar", "T[] self, T[] tensors1, S weight", "lerp.Scalar, self, tensors1, weight", TENSORS1),
    PAIRS("lerp.ScalarList", "T[] self, T[] tensors1, S[] weight", "lerp.Scalar, self, tensors1, weight", TENSORS1),
    PAIRS("lerp.List", "T[] self, T[] tensors1, T[] weights", "lerp.Tensor, self, tensors1, weights", TENSORS1),
    PAIRS("copy", "T[] self, T[] src", "copy, self, src", SRC),
    ROW("clone", "T[] self, M? memory_format=None", "clone, self"),
    ROW("norm.Scalar", "T[] self, S^ ord=2, D? dtype=None", "linalg_vector_norm, self, ord, , , dtype"),
    PAIRS("mm", "T[] self, T[] mat2", "mm, self, mat2", MAT2),
    {0},
};
