/* The op table: one row an ATen overload, one place per op.
 *
 * A row's `emit` writes the op as StableHLO through the builder of src/hlo. Result shapes and dtypes fall out of what it
 * writes, so no rule is written twice: strict, deferred and compiled modes all run this one function.
 *
 * Only functional forms have rows. The in-place and out= forms ("add_.Tensor", "add.out") are derived from PyTorch's schema:
 * the row's result is converted to the target's dtype and written through the target's view.
 *
 *     static void emit_add(tpj_emit *e) { ... }
 *     const tpj_op_def tpj_ops_binary[] = {
 *         {.name = "add.Tensor", .params = "T self, T other, S alpha=1", .emit = emit_add, .layout = TPJ_LAYOUT_POINTWISE},
 *         {0}};
 *
 * Parameters. `.params` names the schema's arguments that matter, in the schema's order ("KIND name", "=default" optional);
 * the glue binds them by name to PyTorch's schema at load, a test compares. Kinds:
 *     T tensor   T? optional tensor   T[] list   T?[] list with holes   I int   I? optional   I[] ints   I[]? optional ints
 *     B bool   B? B[]   F float, baked   F?   F[]   D dtype   D?   Str string   Str?
 *     S number given at run time (alpha, clamp bounds, fill value, learning rate): an operand, so that it never recompiles
 *     S?  S[]   S! number baked into the program (read with tpj_number)   f float given at run time (an operand, as S)
 *     I~  F~  S~  I~[]  baked at first; where the value is seen to change from call to call, an operand (tpj_is_constant
 *         tells, and tpj_scalar and tpj_scalar_at read both). An emitter that needs the value after all fails the op,
 *         which is then compiled for it. Limits of such a number, and of S and f, are stated with tpj_require.
 *     S^  an exponent: as S~, but small whole and half numbers, infinities and NaN stay baked: their programs are better
 *     G generator (the state becomes an operand)   M memory format? (int, -1 when absent)
 * Arguments left out (layout, device, pin_memory, non_blocking, ..) have no influence on the program.
 */
#ifndef TPJ_OPS_OPS_H
#define TPJ_OPS_OPS_H

#include "hlo/hlo.h"
#include "tpj/graph.h"

typedef struct tpj_emit tpj_emit; /* one op being emitted: its arguments, the builder, its results */

/* Strides of the result, decided as PyTorch's CPU kernels do from the operands' strides. */
typedef enum tpj_layout {
    TPJ_LAYOUT_CONTIGUOUS = 0,
    TPJ_LAYOUT_POINTWISE, /* TensorIterator: the dimension order of the operands, the first deciding */
    TPJ_LAYOUT_SELF,      /* preserve_format of the first tensor argument (empty_like), for all results of its shape */
    TPJ_LAYOUT_CHANNELS_LAST, /* channels_last when the first tensor argument (or the weight) suggests it: conv, pooling, .. */
    TPJ_LAYOUT_MEMORY_FORMAT,  /* the argument memory_format, else preserve_format of self (clone, _to_copy, *_like) */
    TPJ_LAYOUT_REAL_POINTWISE, /* as POINTWISE; rows where an operand is complex */
    TPJ_LAYOUT_JOINED, /* channels_last where all tensor arguments suggest it (cat), the argument dims names some (roll) */
    TPJ_LAYOUT_STACKED, /* as JOINED, with one dimension more at the argument dim */
    TPJ_LAYOUT_SPECTRUM /* Fourier transforms: the dimensions of the argument after self innermost, as MKL leaves them */
} tpj_layout;

enum {
    TPJ_OP_RANDOM = 1,  /* draws from the generator */
    TPJ_OP_SIZED = 2,   /* data-dependent: `count` runs first, its number is read, then `emit` with tpj_size */
    TPJ_OP_FACTORY = 4, /* makes tensors from no tensor: the device comes from the call */
    TPJ_OP_SAME_DTYPE =
        8,             /* in-place: the result is converted to the target's dtype whatever it is (copy_, eq_). Others
                              fail where the target's dtype cannot hold the result's ("result type Float can't be cast ..") */
    TPJ_OP_FLOAT8 = 16 /* computes on float8, as PyTorch's CPU does for this op; without it, float8 only moves */
};

struct tpj_op_def {
    const char *name;   /* "add.Tensor" */
    const char *params; /* see above */
    void (*emit)(tpj_emit *e);
    void (*count)(tpj_emit *e); /* TPJ_OP_SIZED: emits one I64 scalar (or I64[n]: read with tpj_size(e, i)) */
    const char *writes; /* "running_mean, running_var": results after the schema's own go back into these arguments,
                                   for the few ops that update an argument which their schema does not mark */
    const char *hlo;    /* for emitters that serve many rows: the StableHLO or CHLO op, a direction, a kind */
    tpj_layout layout;
    unsigned flags;
    int variant;                                       /* for emitters that serve many rows */
    int64_t (*size)(const tpj_number *numbers, int n); /* TPJ_OP_SIZED: the size follows from the numbers of kind S
                                                          alone, and no program has to count */
};

/* ---- what an emitter reads ---- */
tpj_hlo *tpj_builder(tpj_emit *e);
const tpj_op_def *tpj_row(tpj_emit *e);
/* Tensor argument, read through its view. NULL for None. A Python number (wrapped) comes as a rank-0 value of its own
 * dtype (I64, F64, BOOL, C128); prefer tpj_in_as, which makes it directly in the dtype wanted. */
tpj_value *tpj_in(tpj_emit *e, const char *name);
tpj_value *tpj_in_as(tpj_emit *e, const char *name, tpj_dtype dtype);
/* Type without materialising; dtype TPJ_N_DTYPES for None. */
tpj_type tpj_in_type(tpj_emit *e, const char *name);
/* Tensor list: n values in the builder's arena, NULL for holes. _as converts each. */
tpj_value **tpj_in_list(tpj_emit *e, const char *name, int *out_n);
bool tpj_has(tpj_emit *e, const char *name); /* the argument is there and not None */
bool tpj_is_constant(
    tpj_emit *e, const char *name); /* the number of kind S, f, I~, F~, S~, S^ is known: read with tpj_int, tpj_float */
int64_t tpj_int(tpj_emit *e, const char *name, int64_t when_none);
double tpj_float(tpj_emit *e, const char *name, double when_none); /* kinds F and S! */
bool tpj_bool(tpj_emit *e, const char *name, bool when_none);
tpj_dtype tpj_dtype_of(tpj_emit *e, const char *name, tpj_dtype when_none);
const char *tpj_string(tpj_emit *e, const char *name, const char *when_none);
const int64_t *tpj_ints(tpj_emit *e, const char *name, int *out_n); /* n = -1 and NULL for None */
const double *tpj_floats(tpj_emit *e, const char *name, int *out_n);
const bool *tpj_bools(tpj_emit *e, const char *name, int *out_n);
/* Kinds S and f: a rank-0 operand in the dtype wanted; NULL for None. */
tpj_value *tpj_scalar(tpj_emit *e, const char *name, tpj_dtype dtype);
/* The same; a constant for None. */
tpj_value *tpj_scalar_or(tpj_emit *e, const char *name, tpj_dtype dtype, double when_none);
tpj_value *tpj_scalar_at(tpj_emit *e, const char *name, int i, tpj_dtype dtype); /* element of S[], I~[] */
/* Kind I~[]: how many there are, and whether tpj_ints can read them. */
bool tpj_numbers_are_constant(tpj_emit *e, const char *name, int *out_n);
/* The dtype a number counts as in promotion: BOOL, I64, F64 (meaning "default float") or C128. */
tpj_dtype tpj_scalar_dtype(tpj_emit *e, const char *name);
int64_t tpj_size(tpj_emit *e, int i); /* TPJ_OP_SIZED: what `count` found */

/* A dimension argument, wrapped into [0, rank) (rank 0 counts as 1); IndexError as PyTorch's when out of range. */
int tpj_dim(tpj_emit *e, const char *name, int rank);
/* A dim list wrapped, sorted and checked for repeats; None or empty means all dims. */
const int64_t *tpj_dims(tpj_emit *e, const char *name, int rank, int *out_n);

/* ---- promotion (PyTorch's rules: dimensioned tensors before 0-dim tensors before Python numbers) ---- */
/* The result dtype of the named arguments ("self", "other"; tensors, lists and numbers of kind S), NULL ends the list. */
tpj_dtype tpj_promote(tpj_emit *e, const char *name, ...);
/* "Float", "Long", ..: PyTorch's name of a dtype, for messages. */
const char *tpj_dtype_torch_name(tpj_dtype dtype);
/* Two dtypes of one category. */
tpj_dtype tpj_promote_dtypes(tpj_dtype a, tpj_dtype b);
/* torch.get_default_dtype() at the call; the complex dtype of its width. */
tpj_dtype tpj_default_dtype(tpj_emit *e);
tpj_dtype tpj_default_complex_dtype(tpj_emit *e);
/* Integers and bool become the default float. */
tpj_dtype tpj_float_dtype(tpj_emit *e, tpj_dtype dtype);
/* The dtype arithmetic runs in: halves and float8 in F32, c32 in C64, others themselves. */
tpj_dtype tpj_compute_dtype(tpj_dtype dtype);
/* The dtype sums are kept in: integers and bool in I64, as PyTorch's sum and prod. */
tpj_dtype tpj_sum_dtype(tpj_dtype dtype);

/* ---- what an emitter writes ---- */
void tpj_out(tpj_emit *e, tpj_value *value);
void tpj_out_as(tpj_emit *e, tpj_value *value, tpj_dtype dtype); /* converted */
/* A stack of matrices which PyTorch's CPU leaves as LAPACK writes them: column after column in memory. */
void tpj_out_columns(tpj_emit *e, tpj_value *value);
void tpj_out_none(tpj_emit *e); /* a result that is an undefined tensor */
/* Lets another row write this op's next results. Its arguments, in its order, are named parameters of this op: element i
 * of a list, others as they are; "": absent; "1": the number. */
void tpj_emit_row(tpj_emit *e, const char *row, const char *const *arguments, int n_arguments, int i);
/* The number must lie in [low, high]; NaN never does. One that is known fails the op here, one that is given at run time
 * fails the launch before anything ran: RuntimeError, "message" and the number. `message` is static. None is fine. */
void tpj_require(tpj_emit *e, const char *name, double low, double high, const char *message);
/* An int must lie in [-size, size), or it is an IndexError. */
void tpj_require_index(tpj_emit *e, const char *name, int64_t size, const char *message);
/* The number `name` must be below `other`, or equal to it where `equal` says so. */
void tpj_require_order(tpj_emit *e, const char *name, const char *other, bool equal, const char *message);
/* The numbers `name` and `other` are at most so far apart. */
void tpj_require_distance(tpj_emit *e, const char *name, const char *other, double most, const char *message);
/* high - low (NULL: 0) must lie in [1, span]: for others the op is compiled with the numbers as they are. */
void tpj_fit_span(tpj_emit *e, const char *low, const char *high, uint64_t span);
/* Fails the op. Messages end up as "op(types): message". */
void tpj_fail(tpj_emit *e, tpj_code code, const char *format, ...) TPJ_PRINTF(3, 4);
/* TPJ_OP_RANDOM: n uniform random bits of u32 or u64; advances the generator by what was used. */
tpj_value *tpj_random_bits(tpj_emit *e, tpj_dtype dtype, int rank, const int64_t *dims);
/* Uniform floats in [0, 1) of F32 or F64, with 24 or 53 random bits. */
tpj_value *tpj_random_uniform(tpj_emit *e, tpj_dtype dtype, int rank, const int64_t *dims);
/* Normal floats (mean 0, deviation 1) of F32 or F64. */
tpj_value *tpj_random_normal(tpj_emit *e, tpj_dtype dtype, int rank, const int64_t *dims);
/* Indices along a dimension of `size` elements that rows read from the user: records a bounds check when checking is on,
 * and wraps negative ones when `wrap`. Returns the indices to use (I32 or I64 as given). */
tpj_value *tpj_check_index(tpj_emit *e, tpj_value *indices, int64_t size, bool wrap);
/* Operands that must not be: where checking is on, any true element of `bad` (BOOL) is a RuntimeError with the message
 * (static) at the next read. */
void tpj_check(tpj_emit *e, tpj_value *bad, const char *message);
/* The same with another kind of error. */
void tpj_check_as(tpj_emit *e, tpj_value *bad, tpj_code code, const char *message);

/* ---- rows of run time ---- */
/* Adds a row whose name has a namespace ("lib::op"); borrowed for the life of the process. Thread-safe.
 * Errors: TPJ_VALUE without a namespace, TPJ_RUNTIME for a name that is there. */
tpj_status *tpj_op_add(const tpj_op_def *row) TPJ_MUST_USE;

/* ---- the families: each file ends with its array, closed by an empty row ---- */
/* clang-format off */
#define TPJ_OP_FAMILIES(X) \
    X(unary) X(binary) X(compare) X(cast) X(reduce) X(scan) X(sort) X(matmul) X(distance) X(conv) X(pool) \
    X(upsample) X(linalg) X(lu) X(qr) X(eigh) X(svd) X(lstsq) X(ldl) X(matrix_exp) X(fft) X(norm) X(softmax) X(loss) X(activation) X(attention) X(index) \
    X(sized) X(embedding) X(scatter) X(view) X(view_write) X(shape) X(pad) X(create) X(random) X(distribution) \
    X(histogram) X(optim) X(foreach) X(rnn) X(bessel) X(orthogonal) X(igamma) X(distribution_grad) X(ctc) X(sparse) X(control) \
    X(segment) X(quantize)
/* clang-format on */
#define TPJ_OP_FAMILY_DECLARATION(family) extern const tpj_op_def tpj_ops_##family[];
TPJ_OP_FAMILIES(TPJ_OP_FAMILY_DECLARATION)
#undef TPJ_OP_FAMILY_DECLARATION

#endif
