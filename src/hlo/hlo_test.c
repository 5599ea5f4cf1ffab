#include "hlo/hlo.h"

#include <math.h>
#include <stdlib.h>

#include "allocation.h"
#include "runner.h"

static const int64_t TWO_BY_THREE[] = {2, 3};

/* The module that returns `value`, malloc'ed; NULL when the builder failed. Destroys the builder. */
static char *module_of(tpj_hlo *h, tpj_value *value) {
    char *module = NULL;
    size_t length = 0;
    tpj_status *status = hlo_finish(h, "test", &value, 1, &module, &length);
    hlo_destroy(h);
    if (status != NULL) tpj_status_destroy(status);
    return module;
}

#define CHECK_MODULE_HAS(h, value, part)                                                                            \
    do {                                                                                                            \
        char *module = module_of((h), (value));                                                                     \
        bool found = module != NULL && strstr(module, (part)) != NULL;                                              \
        if (!found) test_fail(__FILE__, __LINE__, "no \"%s\" in\n%s", (part), module == NULL ? "(error)" : module); \
        free(module);                                                                                               \
        if (!found) return;                                                                                         \
    } while (0)

/* The builder's error, which is expected to have the code and to hold the part. */
#define CHECK_FAILS(h, code, part)                \
    do {                                          \
        tpj_status *failure = hlo_take_status(h); \
        hlo_destroy(h);                           \
        CHECK_ERROR(failure, code, part);         \
    } while (0)

TEST(hlo_writes_a_whole_module) {
    tpj_hlo *h;
    CHECK_OK(hlo_create(&h));
    tpj_value *x = hlo_parameter(h, TPJ_F32, 2, TWO_BY_THREE);
    hlo_donate(h, 0, 0);
    hlo_parameter(h, TPJ_BOOL, 0, NULL);
    hlo_location(h, "add.Tensor", "a \"b\".py", 17);
    char *module = module_of(h, hlo_add(h, x, x));
    static const char expected[] =
        "\"builtin.module\"() <{sym_name = \"test\"}> ({\n"
        "\"func.func\"() <{arg_attrs = [{tf.aliasing_output = 0 : i32}, {}], "
        "function_type = (tensor<2x3xf32>, tensor<i1>) -> (tensor<2x3xf32>), sym_name = \"main\", sym_visibility = "
        "\"public\"}> ({\n"
        "^bb0(%0: tensor<2x3xf32>, %1: tensor<i1>):\n"
        "%2 = \"stablehlo.add\"(%0, %0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc(#loc1)\n"
        "\"func.return\"(%2) : (tensor<2x3xf32>) -> ()\n"
        "}) : () -> ()\n"
        "}) : () -> ()\n"
        "#loc1 = loc(\"add.Tensor\"(\"a \\\"b\\\".py\":17:0))\n";
    bool same = module != NULL && strcmp(module, expected) == 0;
    if (!same) test_fail(__FILE__, __LINE__, "got\n%s", module == NULL ? "(error)" : module);
    free(module);
}

TEST(hlo_writes_regions) {
    tpj_hlo *h;
    CHECK_OK(hlo_create(&h));
    tpj_value *x = hlo_parameter(h, TPJ_F32, 2, TWO_BY_THREE);
    CHECK_MODULE_HAS(h, hlo_reduce_dim(h, "maximum", x, 1),
                     "%2 = \"stablehlo.reduce\"(%0, %1) ({\n"
                     "^bb0(%3: tensor<f32>, %4: tensor<f32>):\n"
                     "%5 = \"stablehlo.maximum\"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
                     "\"stablehlo.return\"(%5) : (tensor<f32>) -> ()\n"
                     "}) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>\n");
}

TEST(hlo_names_results_of_many) {
    tpj_hlo *h;
    CHECK_OK(hlo_create(&h));
    tpj_value *x = hlo_parameter(h, TPJ_F32, 2, TWO_BY_THREE), *value, *index;
    hlo_arg_reduce(h, true, x, 1, &value, &index);
    CHECK_INT(index->type.dtype, TPJ_I32);
    CHECK_MODULE_HAS(h, index, "#1) : (tensor<2xi32>) -> ()");
}

TEST(hlo_writes_one_constant_per_value_and_region) {
    tpj_hlo *h;
    CHECK_OK(hlo_create(&h));
    CHECK(hlo_number(h, TPJ_F32, 0.1) == hlo_number(h, TPJ_F32, 0.1f));
    CHECK(hlo_number(h, TPJ_F32, 0.0) != hlo_number(h, TPJ_F32, -0.0));
    CHECK(hlo_number(h, TPJ_F32, 1) != hlo_number(h, TPJ_F64, 1));
    CHECK(hlo_integer(h, TPJ_U8, 256 + 7) == hlo_integer(h, TPJ_U8, 7));
    hlo_destroy(h);
}

static const struct literal_case {
    tpj_dtype dtype;
    double value;
    const char *text;
} LITERALS[] = {
    {TPJ_F32, 0.1, "dense<1.0e-01> : tensor<f32>"},
    {TPJ_F64, 0.1, "dense<1.0e-01> : tensor<f64>"},
    {TPJ_F32, -0.0, "dense<-0.0e+00> : tensor<f32>"},
    {TPJ_F32, 1e39, "dense<0x7F800000> : tensor<f32>"},
    {TPJ_F16, 65520, "dense<0x7C00> : tensor<f16>"},
    {TPJ_F16, 65519, "dense<6.5519e+04> : tensor<f16>"},
    {TPJ_BF16, -HUGE_VAL, "dense<0xFF80> : tensor<bf16>"},
    {TPJ_F64, NAN, "dense<0x7FF8000000000000> : tensor<f64>"},
    {TPJ_F8E4M3FN, HUGE_VAL, "dense<0x7E> : tensor<f8E4M3FN>"},
    {TPJ_I32, -3.9, "dense<-3> : tensor<i32>"},
    {TPJ_U8, 300, "dense<44> : tensor<ui8>"},
    {TPJ_U64, 0x1p63, "dense<9223372036854775808> : tensor<ui64>"},
    {TPJ_BOOL, NAN, "dense<true> : tensor<i1>"},
    {TPJ_C64, 2, "dense<(2.0e+00, 0.0e+00)> : tensor<complex<f32>>"},
};

TEST(hlo_writes_exact_literals) {
    for (size_t i = 0; i < sizeof LITERALS / sizeof *LITERALS; i++) {
        tpj_hlo *h;
        CHECK_OK(hlo_create(&h));
        CHECK_MODULE_HAS(h, hlo_number(h, LITERALS[i].dtype, LITERALS[i].value), LITERALS[i].text);
    }
}

TEST(hlo_writes_extremes) {
    tpj_hlo *h;
    CHECK_OK(hlo_create(&h));
    CHECK(hlo_lowest(h, TPJ_I64) == hlo_integer(h, TPJ_I64, INT64_MIN));
    CHECK(hlo_highest(h, TPJ_I16) == hlo_integer(h, TPJ_I16, INT16_MAX));
    CHECK(hlo_highest(h, TPJ_U64) == hlo_integer(h, TPJ_U64, -1));
    CHECK(hlo_lowest(h, TPJ_F32) == hlo_number(h, TPJ_F32, -HUGE_VAL));
    CHECK(hlo_highest(h, TPJ_BOOL) == hlo_integer(h, TPJ_BOOL, 1));
    hlo_destroy(h);
}

TEST(hlo_writes_arrays_as_little_endian_blobs) {
    tpj_hlo *h;
    CHECK_OK(hlo_create(&h));
    const int64_t dims[] = {3};
    CHECK_MODULE_HAS(h, hlo_array_of_integers(h, TPJ_I16, 1, dims, (const int64_t[]){1, -2, 258}),
                     "dense<\"0x0100FEFF0201\"> : tensor<3xi16>");
    CHECK_OK(hlo_create(&h));
    CHECK_MODULE_HAS(h, hlo_array_of_numbers(h, TPJ_F32, 1, dims, (const double[]){1, 0, -2}),
                     "dense<\"0x0000803F00000000000000C0\"> : tensor<3xf32>");
}

TEST(hlo_leaves_out_what_does_nothing) {
    tpj_hlo *h;
    CHECK_OK(hlo_create(&h));
    tpj_value *x = hlo_parameter(h, TPJ_F32, 2, TWO_BY_THREE);
    const int64_t identity[] = {0, 1}, zeros[] = {0, 0};
    CHECK(hlo_convert(h, x, TPJ_F32) == x);
    CHECK(hlo_reshape(h, x, 2, TWO_BY_THREE) == x);
    CHECK(hlo_expand(h, x, 2, TWO_BY_THREE) == x);
    CHECK(hlo_transpose(h, x, identity) == x);
    CHECK(hlo_slice(h, x, zeros, TWO_BY_THREE, NULL) == x);
    CHECK(hlo_pad_dim(h, x, hlo_number(h, TPJ_F32, 0), 0, 0, 0) == x);
    CHECK(hlo_concatenate(h, &x, 1, 0) == x);
    CHECK(hlo_reduce(h, "add", x, NULL, NULL, 0) == x);
    CHECK(hlo_conj(h, x) == x && hlo_real(h, x) == x);
    hlo_destroy(h);
}

TEST(hlo_infers_shapes) {
    tpj_hlo *h;
    CHECK_OK(hlo_create(&h));
    tpj_value *x = hlo_parameter(h, TPJ_F32, 2, TWO_BY_THREE);
    const int64_t low[] = {1, -1}, high[] = {0, 2}, interior[] = {1, 0}, row[] = {4, 1, 3};
    tpj_value *padded = hlo_pad(h, x, hlo_number(h, TPJ_F32, 0), low, high, interior);
    CHECK(hlo_dim(padded, 0) == 4 && hlo_dim(padded, 1) == 4);
    tpj_value *y = hlo_parameter(h, TPJ_F32, 3, row), *wide = x;
    hlo_expand_together(h, &wide, &y);
    CHECK(hlo_same_dims(wide, y) && wide->type.rank == 3 && hlo_elements(y) == 24);
    tpj_value *strided = hlo_slice_dim(h, x, 1, 0, 3, 2);
    CHECK(hlo_dim(strided, -1) == 2);
    const int64_t size[] = {1, 2};
    tpj_value *windows = hlo_reduce_window(h, "add", x, NULL, &(hlo_window){.size = size});
    CHECK(hlo_dim(windows, 0) == 2 && hlo_dim(windows, 1) == 2);
    tpj_value *product = hlo_matmul(h, x, hlo_swap(h, x, 0, 1), TPJ_F32);
    CHECK(hlo_dim(product, 0) == 2 && hlo_dim(product, 1) == 2);
    tpj_value *bytes = hlo_bitcast(h, x, TPJ_U8);
    CHECK(bytes->type.rank == 3 && hlo_dim(bytes, 2) == 4);
    CHECK(hlo_same_dims(hlo_bitcast(h, bytes, TPJ_F32), x));
    CHECK(!hlo_failed(h));
    hlo_destroy(h);
}

TEST(hlo_keeps_the_first_error) {
    tpj_hlo *h;
    CHECK_OK(hlo_create(&h));
    tpj_value *x = hlo_parameter(h, TPJ_F32, 2, TWO_BY_THREE);
    const int64_t dims[] = {4};
    tpj_value *y = hlo_parameter(h, TPJ_F32, 1, dims);
    tpj_value *bad = hlo_add(h, x, y);
    /* What follows looks at the poison value as if it had a shape. */
    tpj_value *more = hlo_reduce_dim(h, "no such kind", hlo_add(h, bad, NULL), (int)hlo_dim(bad, -1));
    CHECK(hlo_failed(h) && more == bad);
    CHECK_FAILS(h, TPJ_RUNTIME, "add: shapes differ: f32[2,3] and f32[4]");
}

TEST(hlo_explains_shapes_that_do_not_broadcast) {
    tpj_hlo *h;
    CHECK_OK(hlo_create(&h));
    tpj_value *x = hlo_parameter(h, TPJ_F32, 2, TWO_BY_THREE);
    const int64_t dims[] = {4};
    tpj_value *y = hlo_parameter(h, TPJ_F32, 1, dims);
    hlo_expand_together(h, &x, &y);
    CHECK_FAILS(h, TPJ_RUNTIME,
                "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1");
}

TEST(hlo_rejects_mixed_dtypes) {
    tpj_hlo *h;
    CHECK_OK(hlo_create(&h));
    hlo_mul(h, hlo_number(h, TPJ_F32, 1), hlo_number(h, TPJ_F64, 1));
    CHECK_FAILS(h, TPJ_INTERNAL, "multiply: dtypes differ: f32[] and f64[]");
}

static void returns_nothing(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)h;
    (void)arguments;
    (void)results;
    (void)context;
}

TEST(hlo_notices_a_region_without_a_result) {
    tpj_hlo *h;
    CHECK_OK(hlo_create(&h));
    tpj_value *x = hlo_parameter(h, TPJ_F32, 2, TWO_BY_THREE), *out;
    hlo_sort(h, &x, 1, 1, true, returns_nothing, NULL, &out);
    CHECK_FAILS(h, TPJ_INTERNAL, "operand 0 is missing");
}

TEST(hlo_makes_zeros_where_there_is_nothing_to_gather) {
    tpj_hlo *h;
    CHECK_OK(hlo_create(&h));
    const int64_t empty[] = {0}, one[] = {1};
    tpj_value *x = hlo_parameter(h, TPJ_F32, 1, empty);
    CHECK_INT(hlo_dim(hlo_take(h, x, hlo_parameter(h, TPJ_I32, 1, empty), 0), 0), 0);
    CHECK(!hlo_failed(h));
    hlo_take(h, x, hlo_parameter(h, TPJ_I32, 1, one), 0);
    CHECK_FAILS(h, TPJ_INDEX, "dimension 0 with size 0");
}

/* A cumulative sum of this shape along dimension 1 keeps the shape, and is or is not written as a window. */
static bool cumulative_is(int64_t rows, int64_t columns, bool reverse, const char *op, bool expected) {
    tpj_hlo *h;
    tpj_status *status = hlo_create(&h);
    if (status != NULL) {
        tpj_status_destroy(status);
        return false;
    }
    const int64_t dims[] = {rows, columns};
    tpj_value *x = hlo_parameter(h, TPJ_F32, 2, dims), *y = hlo_cumulative(h, "add", x, 1, reverse);
    bool same = hlo_same_dims(x, y);
    char *module = module_of(h, y);
    bool fits = same && module != NULL && (strstr(module, op) != NULL) == expected;
    free(module);
    return fits;
}

TEST(hlo_chooses_the_form_of_cumulative_ops) {
    CHECK(cumulative_is(4, 100, false, "reduce_window", true));
    CHECK(cumulative_is(4096, 100, true, "reduce_window", false));
    CHECK(cumulative_is(4096, 4096, false, "transpose", false));
    CHECK(cumulative_is(3, 20001, false, "transpose", true));
    CHECK(cumulative_is(3, 20001, true, "reverse", true));
    CHECK(cumulative_is(3, 1, false, "stablehlo", false));
}

static void ascending(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    results[0] = hlo_compare(h, "LT", arguments[0], arguments[1]);
}

/* Something of everything, for the sweep below. */
static tpj_status *write_something(char **out_module) {
    tpj_hlo *h;
    TPJ_TRY(hlo_create(&h));
    size_t length;
    tpj_value *x = hlo_parameter(h, TPJ_F32, 2, TWO_BY_THREE), *index, *sorted;
    hlo_set_precision(h, "HIGH");
    hlo_location(h, "everything", "test.py", 1);
    const int64_t three[] = {3};
    tpj_value *y = hlo_array_of_numbers(h, TPJ_F32, 1, three, (const double[]){1, 2, 3});
    hlo_expand_together(h, &x, &y);
    x = hlo_matmul(h, hlo_add(h, x, y), hlo_swap(h, x, 0, 1), TPJ_F32);
    hlo_arg_reduce(h, true, x, 1, NULL, &index);
    x = hlo_take(h, hlo_cumulative(h, "add", x, 0, true), index, 0);
    x = hlo_concatenate(h, (tpj_value *const[]){x, hlo_full_like(h, x, 2)}, 2, 0);
    hlo_sort(h, &x, 1, 1, true, ascending, NULL, &sorted);
    tpj_value *result =
        hlo_clamp(h, hlo_number(h, TPJ_F32, 0), hlo_slice_dim(h, sorted, 0, 0, 1, 1), hlo_number(h, TPJ_F32, 1));
    tpj_status *status = hlo_finish(h, "everything", &result, 1, out_module, &length);
    hlo_destroy(h);
    return status;
}

TEST(hlo_survives_running_out_of_memory) {
    bool refused = true;
    for (int nth = 1; refused; nth++) {
        char *module = NULL;
        long before = allocation_n_live();
        allocation_fail(nth, nth % 2 == 0);
        tpj_status *status = write_something(&module);
        refused = allocation_has_failed();
        allocation_fail(0, false);
        CHECK_ERROR(status, refused ? TPJ_OUT_OF_MEMORY : TPJ_OK, refused ? "memory" : "");
        free(module);
        CHECK_INT(allocation_n_live(), before);
        CHECK(nth < 10000);
    }
}

/* The text of a dot of x f32[2, 3, 5] with y f32[dims] transposed by `order`, contracting x's last dimension with y's first of
 * two, or of three with the batch. */
static char *dot_of_transposed(int rank, const int64_t *dims, const int64_t *order) {
    static const int64_t x_dims[] = {2, 3, 5};
    tpj_hlo *h;
    if (hlo_create(&h) != NULL) return NULL;
    tpj_value *x = hlo_parameter(h, TPJ_F32, 3, x_dims);
    tpj_value *y = hlo_transpose(h, hlo_parameter(h, TPJ_F32, rank, dims), order);
    int64_t batch = 0, x_contract = 2, y_contract = 1;
    return module_of(h, hlo_dot(h, x, y, &batch, &batch, 1, &x_contract, &y_contract, 1, TPJ_F32));
}

TEST(hlo_dot_reads_through_transposes) {
    static const struct {
        int64_t dims[4], order[4];
        int rank;
        const char *expected; /* of the dot's operands and dimensions */
    } cases[] = {
        {{2, 7, 5},
         {0, 2, 1},
         3,
         "(%0, %1) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], "
         "rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], "
         "rhs_contracting_dimensions = [2]>"},
        {{7, 5, 2},
         {2, 1, 0},
         3,
         "rhs_batching_dimensions = [2], lhs_contracting_dimensions = [2], "
         "rhs_contracting_dimensions = [1]>"},
        {{7, 2, 9, 5},
         {1, 3, 0, 2},
         4,
         "(%0, %1) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], "
         "rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], "
         "rhs_contracting_dimensions = [3]>"},
        /* the result would have its free dimensions the other way */
        {{7, 2, 9, 5}, {1, 3, 2, 0}, 4, "(%0, %2) {dot_dimension_numbers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *module = dot_of_transposed(cases[i].rank, cases[i].dims, cases[i].order);
        bool found = module != NULL && strstr(module, cases[i].expected) != NULL;
        if (!found) test_fail(__FILE__, __LINE__, "no \"%s\" in\n%s", cases[i].expected, module ? module : "(error)");
        free(module);
    }
}

/* Of a bfloat16 row and a matrix, for a CPU: four rows, of which one is left. */
TEST(hlo_dot_fills_up_one_row_for_a_cpu) {
    static const int64_t row[] = {1, 3}, matrix[] = {5, 3}, contract = 1;
    static const struct {
        bool for_cpu, swapped;
        tpj_dtype dtype;
        const char *expected;
    } cases[] = {
        {true, false, TPJ_BF16, "(tensor<4x3xbf16>, tensor<5x3xbf16>) -> tensor<4x5xf32>"},
        {true, true, TPJ_BF16, "(tensor<5x3xbf16>, tensor<4x3xbf16>) -> tensor<5x4xf32>"},
        {true, true, TPJ_BF16, "-> tensor<5x1xf32>"},
        {true, false, TPJ_F32, "(tensor<1x3xf32>, tensor<5x3xf32>) -> tensor<1x5xf32>"},
        {false, false, TPJ_BF16, "(tensor<1x3xbf16>, tensor<5x3xbf16>) -> tensor<1x5xf32>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tpj_hlo *h;
        CHECK_OK(hlo_create(&h));
        hlo_set_for_cpu(h, cases[i].for_cpu);
        tpj_value *x = hlo_parameter(h, cases[i].dtype, 2, row), *y = hlo_parameter(h, cases[i].dtype, 2, matrix);
        tpj_value *xs[] = {cases[i].swapped ? y : x, cases[i].swapped ? x : y};
        CHECK_MODULE_HAS(h, hlo_dot(h, xs[0], xs[1], NULL, NULL, 0, &contract, &contract, 1, TPJ_F32),
                         cases[i].expected);
    }
}
