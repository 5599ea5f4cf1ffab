/* The StableHLO writer: one function under construction, written as text in MLIR's generic form while it is built.
 *
 * It knows types, regions and broadcasting of scalars; it knows nothing of PyTorch. Every function infers its result type,
 * so shape and dtype rules are written once, here and in the rows that use it.
 *
 * Errors are sticky: the first failure is kept (hlo_status), and every later call returns a poison value, so emission code
 * needs no checks. Functions of this folder have the short prefix hlo_: emission code is read far more than written.
 *
 * Implicit scalar broadcasting: where two or more operands must have one shape (binary, compare, select, clamp), a rank-0
 * operand is broadcast to the others' shape. Nothing else is broadcast, and dtypes are never converted implicitly: a
 * mismatch is an error. No-ops are elided (convert to the same dtype, reshape to the same shape, identity transpose, full
 * slice, broadcast to the same shape).
 *
 * Threads: a builder belongs to one thread at a time. Values live as long as the builder. */
#ifndef TPJ_HLO_HLO_H
#define TPJ_HLO_HLO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"
#include "tpj/dtype.h"
#include "tpj/graph.h"
#include "tpj/status.h"

typedef struct tpj_hlo tpj_hlo;
typedef struct tpj_value {
    int id; /* prints as %id, or %id#result when n_of > 1 */
    int result, n_of;
    tpj_type type;        /* dims live in the builder's arena */
    struct tpj_value *of; /* a transpose: of what, else NULL */
    const int64_t *order; /* a transpose: its permutation, in the arena */
} tpj_value;

/* ---- life of a builder ---- */
tpj_status *hlo_create(tpj_hlo **out_builder) TPJ_MUST_USE;
void hlo_destroy(tpj_hlo *h);
/* A new parameter of the function; parameters are numbered in order of these calls. */
tpj_value *hlo_parameter(tpj_hlo *h, tpj_dtype dtype, int rank, const int64_t *dims);
/* Parameter `parameter` is donated and its memory holds output `output` (tf.aliasing_output); -1: any (jax.buffer_donor). */
void hlo_donate(tpj_hlo *h, int parameter, int output);
/* Where the following ops come from, for MLIR locations: op name and user's file and line (file may be NULL). */
void hlo_location(tpj_hlo *h, const char *name, const char *file, int line);
/* Ends the function with these results and returns the module's text, malloc'ed, or the first error. */
tpj_status *hlo_finish(tpj_hlo *h, const char *function_name, tpj_value *const *results, int n_results,
                       char **out_module, size_t *out_length) TPJ_MUST_USE;
/* Records an error (if it is the first) and returns the poison value, a f32 scalar. */
tpj_value *hlo_fail(tpj_hlo *h, tpj_code code, const char *format, ...) TPJ_PRINTF(3, 4);
bool hlo_failed(const tpj_hlo *h);
/* Whether the ops that follow may compute on float8. At first they may not: values of float8, of c32 and of the opaque
 * dtypes only move, and anything else fails as TPJ_NOT_IMPLEMENTED. c32 is converted to c64 for arithmetic. */
void hlo_allow_float8(tpj_hlo *h, bool allowed);
/* Whether the ops that follow take the forms that XLA's compiler for CPUs is quick with. At first they do not. */
void hlo_set_for_cpu(tpj_hlo *h, bool for_cpu);
/* How many ops were written so far that take tens of instructions an element (exponentials, roots, quotients, ..). */
int hlo_slow_ops(const tpj_hlo *h);
/* The value, whose making the compiler may not look at: neither fused nor simplified with what comes after it. */
tpj_value *hlo_barrier(tpj_hlo *h, tpj_value *x);
/* Takes the first error out of the builder (NULL: none). */
tpj_status *hlo_take_status(tpj_hlo *h) TPJ_MUST_USE;
tpj_arena *hlo_arena(tpj_hlo *h);     /* for arrays that emission needs; dies with the builder */
int64_t *hlo_dims(tpj_hlo *h, int n); /* zeroed array of n numbers in the arena */

/* ---- constants ---- */
/* A scalar. Integers keep all 64 bits with hlo_integer; hlo_number rounds to the dtype (integers: truncates; bool: != 0). */
tpj_value *hlo_number(tpj_hlo *h, tpj_dtype dtype, double value);
tpj_value *hlo_integer(tpj_hlo *h, tpj_dtype dtype, int64_t value);
tpj_value *hlo_complex_number(tpj_hlo *h, tpj_dtype dtype, double real, double imaginary);
/* The same broadcast to the shape of `like` (its dtype too) or to dims. */
tpj_value *hlo_full_like(tpj_hlo *h, tpj_value *like, double value);
tpj_value *hlo_full(tpj_hlo *h, tpj_dtype dtype, int rank, const int64_t *dims, double value);
tpj_value *hlo_zeros(tpj_hlo *h, tpj_dtype dtype, int rank, const int64_t *dims);
tpj_value *hlo_array_of_integers(tpj_hlo *h, tpj_dtype dtype, int rank, const int64_t *dims, const int64_t *values);
tpj_value *hlo_array_of_numbers(tpj_hlo *h, tpj_dtype dtype, int rank, const int64_t *dims, const double *values);
/* Extremes as scalars: -inf/inf for floats, lowest/highest for integers, false/true for bool. */
tpj_value *hlo_lowest(tpj_hlo *h, tpj_dtype dtype);
tpj_value *hlo_highest(tpj_hlo *h, tpj_dtype dtype);
tpj_value *hlo_iota(tpj_hlo *h, tpj_dtype dtype, int rank, const int64_t *dims, int dimension);

/* ---- elementwise ---- */
/* `name` without a dialect means stablehlo ("tanh"); "chlo.erf" is taken as it is. Result type = operand type. */
tpj_value *hlo_unary(tpj_hlo *h, const char *name, tpj_value *x);
tpj_value *hlo_binary(tpj_hlo *h, const char *name, tpj_value *x, tpj_value *y);
tpj_value *hlo_add(tpj_hlo *h, tpj_value *x, tpj_value *y);
tpj_value *hlo_sub(tpj_hlo *h, tpj_value *x, tpj_value *y);
tpj_value *hlo_mul(tpj_hlo *h, tpj_value *x, tpj_value *y);
tpj_value *hlo_div(tpj_hlo *h, tpj_value *x, tpj_value *y); /* integers: truncates; the caller guards zero */
tpj_value *hlo_max(tpj_hlo *h, tpj_value *x, tpj_value *y); /* NaN propagates: see the note in elementwise.c */
tpj_value *hlo_min(tpj_hlo *h, tpj_value *x, tpj_value *y);
tpj_value *hlo_pow(tpj_hlo *h, tpj_value *x, tpj_value *y);
tpj_value *hlo_neg(tpj_hlo *h, tpj_value *x);
tpj_value *hlo_abs(tpj_hlo *h, tpj_value *x); /* complex gives the real dtype; unsigned is the identity */
tpj_value *hlo_exp(tpj_hlo *h, tpj_value *x);
tpj_value *hlo_log(tpj_hlo *h, tpj_value *x);
tpj_value *hlo_sqrt(tpj_hlo *h, tpj_value *x);
tpj_value *hlo_rsqrt(tpj_hlo *h, tpj_value *x);
tpj_value *hlo_tanh(tpj_hlo *h, tpj_value *x);
tpj_value *hlo_not(tpj_hlo *h, tpj_value *x); /* bitwise; logical for bool */
tpj_value *hlo_and(tpj_hlo *h, tpj_value *x, tpj_value *y);
tpj_value *hlo_or(tpj_hlo *h, tpj_value *x, tpj_value *y);
/* direction: "EQ" "NE" "LT" "LE" "GT" "GE". Result bool. Complex: EQ and NE only. */
tpj_value *hlo_compare(tpj_hlo *h, const char *direction, tpj_value *x, tpj_value *y);
tpj_value *hlo_is_nan(tpj_hlo *h, tpj_value *x); /* false everywhere for integers */
tpj_value *hlo_select(tpj_hlo *h, tpj_value *predicate, tpj_value *on_true, tpj_value *on_false);
tpj_value *hlo_clamp(tpj_hlo *h, tpj_value *low, tpj_value *x, tpj_value *high);
/* Value conversion with PyTorch's rules: to bool is "!= 0" (NaN is true), from complex drops the imaginary part. */
tpj_value *hlo_convert(tpj_hlo *h, tpj_value *x, tpj_dtype dtype);
tpj_value *hlo_real(tpj_hlo *h, tpj_value *x);                             /* real input: itself */
tpj_value *hlo_imag(tpj_hlo *h, tpj_value *x);                             /* real input: zeros */
tpj_value *hlo_complex(tpj_hlo *h, tpj_value *real, tpj_value *imaginary); /* of f16 (gives c32), f32 or f64 */
tpj_value *hlo_conj(tpj_hlo *h, tpj_value *x);                             /* real input: itself */
/* Reinterprets bits. Same width: same shape. Wider to narrower: a new last dimension (stablehlo's rule). Narrower to
 * wider: the last dimension must be the ratio and goes away. bool and complex are the caller's business. */
tpj_value *hlo_bitcast(tpj_hlo *h, tpj_value *x, tpj_dtype dtype);
/* NumPy broadcasting of x to dims (trailing dimensions aligned; sizes 1 are repeated). Fails when it does not fit. */
tpj_value *hlo_expand(tpj_hlo *h, tpj_value *x, int rank, const int64_t *dims);
/* Broadcasts two (or three) values to their common NumPy shape in place. */
void hlo_expand_together(tpj_hlo *h, tpj_value **x, tpj_value **y);
void hlo_expand_together3(tpj_hlo *h, tpj_value **x, tpj_value **y, tpj_value **z);

/* ---- shape ---- */
tpj_value *hlo_reshape(tpj_hlo *h, tpj_value *x, int rank, const int64_t *dims);
tpj_value *hlo_flatten(tpj_hlo *h, tpj_value *x); /* to rank 1 */
tpj_value *hlo_transpose(tpj_hlo *h, tpj_value *x,
                         const int64_t *permutation);        /* result dim i is x's dim permutation[i] */
tpj_value *hlo_swap(tpj_hlo *h, tpj_value *x, int a, int b); /* transpose of two dimensions */
/* stablehlo's: mapping[i] says which result dimension x's dimension i becomes. */
tpj_value *hlo_broadcast_in_dim(tpj_hlo *h, tpj_value *x, int rank, const int64_t *dims, const int64_t *mapping);
tpj_value *hlo_unsqueeze(tpj_hlo *h, tpj_value *x, int dim);
tpj_value *hlo_squeeze(tpj_hlo *h, tpj_value *x, int dim); /* the dimension must have size 1 */
tpj_value *hlo_slice(tpj_hlo *h, tpj_value *x, const int64_t *start, const int64_t *limit, const int64_t *step);
tpj_value *hlo_slice_dim(tpj_hlo *h, tpj_value *x, int dim, int64_t start, int64_t limit, int64_t step);
tpj_value *hlo_dynamic_slice(tpj_hlo *h, tpj_value *x, tpj_value *const *starts, const int64_t *sizes); /* scalars */
tpj_value *hlo_dynamic_update_slice(tpj_hlo *h, tpj_value *x, tpj_value *update, tpj_value *const *starts);
/* low/high may be negative (crops); interior >= 0. `value` is a scalar. */
tpj_value *hlo_pad(tpj_hlo *h, tpj_value *x, tpj_value *value, const int64_t *low, const int64_t *high,
                   const int64_t *interior);
tpj_value *hlo_pad_dim(tpj_hlo *h, tpj_value *x, tpj_value *value, int dim, int64_t low, int64_t high);
tpj_value *hlo_concatenate(tpj_hlo *h, tpj_value *const *xs, int n, int dim);
tpj_value *hlo_reverse(tpj_hlo *h, tpj_value *x, const int64_t *dims, int n);

/* ---- reductions and scans ---- */
/* kind: "add" "multiply" "maximum" "minimum" "and" "or". Reduces `dims` away; `init` is a scalar, NULL for the kind's
 * identity (0, 1, lowest, highest, true, false). maximum/minimum propagate NaN. The dtype stays x's. */
tpj_value *hlo_reduce(tpj_hlo *h, const char *kind, tpj_value *x, tpj_value *init, const int64_t *dims, int n_dims);
tpj_value *hlo_reduce_dim(tpj_hlo *h, const char *kind, tpj_value *x, int dim);
tpj_value *hlo_reduce_all(tpj_hlo *h, const char *kind, tpj_value *x);
/* The index (dtype I32, I64 of more than 2^31 elements, converted by the caller) and value of the first maximum (or minimum) along dim; NaN counts as the
 * extreme and wins, as in PyTorch. Either output may be NULL. */
void hlo_arg_reduce(tpj_hlo *h, bool maximum, tpj_value *x, int dim, tpj_value **out_value, tpj_value **out_index);
/* Window per dimension (sizes, steps, base dilation, window dilation, padding pairs low/high); NULL means ones / zeros. */
typedef struct hlo_window {
    const int64_t *size, *step, *base_dilation, *window_dilation, *low, *high;
} hlo_window;
tpj_value *hlo_reduce_window(tpj_hlo *h, const char *kind, tpj_value *x, tpj_value *init, const hlo_window *window);
/* select: "GE" picks the window's maximum. */
tpj_value *hlo_select_and_scatter(tpj_hlo *h, tpj_value *x, tpj_value *source, tpj_value *init,
                                  const hlo_window *window);
/* Cumulative add/multiply/maximum/minimum along dim. */
tpj_value *hlo_cumulative(tpj_hlo *h, const char *kind, tpj_value *x, int dim, bool reverse);

/* ---- regions ---- */
/* A region's body: receives the block's arguments and returns its results through `results` (n_results of them). */
typedef void (*hlo_body)(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context);
/* Sorts all xs together along dim by a comparator over (a0, b0, a1, b1, ..) that returns one bool. out: n values. */
void hlo_sort(tpj_hlo *h, tpj_value *const *xs, int n, int dim, bool stable, hlo_body less, void *context,
              tpj_value **out);
/* General reduction of n arrays with n scalar inits: the body gets (accumulators.., elements..) and returns n. */
void hlo_reduce_body(tpj_hlo *h, tpj_value *const *xs, tpj_value *const *inits, int n, const int64_t *dims, int n_dims,
                     hlo_body body, void *context, tpj_value **out);
/* while: condition returns one bool, body returns n values of the initial values' types. */
void hlo_while(tpj_hlo *h, tpj_value *const *initial, int n, hlo_body condition, hlo_body body, void *context,
               tpj_value **out);
/* if: both branches take no arguments and return n values; types are those of the branches' results. */
void hlo_if(tpj_hlo *h, tpj_value *predicate, hlo_body on_true, hlo_body on_false, void *context, const tpj_type *types,
            int n, tpj_value **out);

/* ---- gather and scatter (stablehlo's dimension numbers) ---- */
typedef struct hlo_gather_numbers {
    const int64_t *offset_dims;
    int n_offset_dims; /* scatter: update_window_dims */
    const int64_t *collapsed;
    int n_collapsed; /* scatter: inserted_window_dims */
    const int64_t *operand_batching;
    const int64_t *indices_batching;
    int n_batching;
    const int64_t *start_index_map;
    int n_start_index_map; /* scatter: scatter_dims_to_operand_dims */
    int64_t index_vector_dim;
    const int64_t *slice_sizes; /* gather only; one per operand dimension */
    bool sorted, unique;
} hlo_gather_numbers;
/* Out-of-range starts are clamped by the device: rows that can see bad indices must check them (tpj_check_index). */
tpj_value *hlo_gather(tpj_hlo *h, tpj_value *x, tpj_value *indices, const hlo_gather_numbers *numbers);
/* kind: "add" "multiply" "maximum" "minimum" or "replace". Out-of-range updates are dropped. */
tpj_value *hlo_scatter(tpj_hlo *h, const char *kind, tpj_value *x, tpj_value *indices, tpj_value *updates,
                       const hlo_gather_numbers *numbers);
/* Rows of x along dim named by an index array of any rank: result dims = x[:dim] + indices.dims + x[dim+1:]. */
tpj_value *hlo_take(tpj_hlo *h, tpj_value *x, tpj_value *indices, int dim);
/* torch.gather: indices has x's rank; result has indices' shape. */
tpj_value *hlo_take_along(tpj_hlo *h, tpj_value *x, tpj_value *indices, int dim);

/* ---- contractions ---- */
/* dot_general. Result dims: batch, x's free, y's free. `result` may be wider than the operands (bf16 x bf16 -> f32).
 * A transpose that leaves the free dimensions in their order is read through, not made: compilers that look for it
 * themselves do not always find it (XLA's for CPUs makes it for one row, and for bfloat16: 3 to 8 times the time).
 * precision: "DEFAULT" "HIGH" "HIGHEST"; NULL takes the builder's setting (hlo_set_precision), HIGHEST at first. */
tpj_value *hlo_dot(tpj_hlo *h, tpj_value *x, tpj_value *y, const int64_t *x_batch, const int64_t *y_batch, int n_batch,
                   const int64_t *x_contract, const int64_t *y_contract, int n_contract, tpj_dtype result);
/* [..., m, k] x [..., k, n], equal leading dimensions. */
tpj_value *hlo_matmul(tpj_hlo *h, tpj_value *x, tpj_value *y, tpj_dtype result);
void hlo_set_precision(tpj_hlo *h, const char *precision);
typedef struct hlo_convolution {
    int n_spatial;
    /* dimension numbers: position of batch, feature, spatial dims in each array */
    int64_t input_batch, input_feature, kernel_input, kernel_output, output_batch, output_feature;
    const int64_t *input_spatial, *kernel_spatial, *output_spatial;
    const int64_t *step, *low, *high, *input_dilation, *kernel_dilation;
    bool reverse_kernel;
    int64_t feature_groups, batch_groups;
} hlo_convolution;
tpj_value *hlo_convolve(tpj_hlo *h, tpj_value *x, tpj_value *kernel, const hlo_convolution *numbers, tpj_dtype result);

/* ---- others ---- */
/* THREE_FRY random bits (u32 or u64) of a shape from state u64[2]; out_state may be NULL. */
tpj_value *hlo_random_bits(tpj_hlo *h, tpj_value *state, tpj_dtype dtype, int rank, const int64_t *dims,
                           tpj_value **out_state);
/* type: "FFT" "IFFT" "RFFT" "IRFFT" over the last n_dims dims; length: sizes of those dims (of the real side). */
tpj_value *hlo_fft(tpj_hlo *h, tpj_value *x, const char *type, const int64_t *length, int n_dims);
tpj_value *hlo_cholesky(tpj_hlo *h, tpj_value *x, bool lower);
tpj_value *hlo_triangular_solve(tpj_hlo *h, tpj_value *a, tpj_value *b, bool left, bool lower, bool unit,
                                const char *transpose);
/* The general form: any op by its full name, attributes as MLIR text without braces ("dimension = 0 : i64"), n_results
 * results of the given types into out. */
void hlo_op(tpj_hlo *h, const char *name, tpj_value *const *operands, int n_operands, const char *attributes,
            const tpj_type *types, int n_results, tpj_value **out);
tpj_value *hlo_op1(tpj_hlo *h, const char *name, tpj_value *const *operands, int n_operands, const char *attributes,
                   tpj_dtype dtype, int rank, const int64_t *dims);

/* Calls a function that is given as StableHLO text: the function @main of it, or its first; a module around it, further
 * functions, and aliases may be there. Operands must be of the types of its parameters, which have fixed sizes. Returns how
 * many results there are (`out` holds n_most), 0 after failing (TPJ_VALUE). */
int hlo_call(tpj_hlo *h, const char *text, tpj_value *const *operands, int n_operands, tpj_value **out, int n_most);

/* ---- small helpers for emission code ---- */
static inline int64_t hlo_dim(const tpj_value *x, int dim) { return x->type.dims[dim < 0 ? dim + x->type.rank : dim]; }
int64_t hlo_elements(const tpj_value *x);
bool hlo_same_dims(const tpj_value *x, const tpj_value *y);
tpj_dtype hlo_real_dtype(tpj_dtype dtype);    /* c32 -> f16, c64 -> f32, c128 -> f64, else itself */
tpj_dtype hlo_complex_dtype(tpj_dtype dtype); /* that arithmetic runs in: f32 -> c64, f64 -> c128, halves -> c64 */

#endif
