/* The graph, its textual form and the verifier. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "ir/graph.h"
#include "ir/params.h"
#include "runner.h"

static tpj_status *parse(const char *text, tpj_graph **out_graph) {
    return tpj_graph_parse(text, strlen(text), out_graph);
}

/* The text of the parsed text, malloc'ed. */
static tpj_status *reprint(const char *text, char **out_text) {
    tpj_graph *graph = NULL;
    TPJ_TRY(parse(text, &graph));
    tpj_status *status = tpj_graph_print(graph, out_text);
    tpj_graph_destroy(graph);
    return status;
}

static const char every_form[] =
    "graph {\n"
    "  %0 = input f32[4, 8] view(f32[8, 4] strides=[1, 8] offset=0)\n"
    "  %1 = scalar f64 number\n"
    "  %2 = random\n"
    "  %3 = input i64\n"
    "  %4 = input c64[0, 3] view(c64[0] strides=[0] offset=0 conj neg)\n"
    "  %5 = input f32[2] number\n"
    "  %6 = add.Tensor(self=%0, other=%5, alpha=%1) @ \"a \\\"quoted\\\"\\x0aname\":17\n"
    "  %7 = var_mean.correction(self=%6, dim=[0, -1], keepdim=true) : f32[1, 1], f32[1, 1]\n"
    "  %8 = cat(tensors=[%7, %7:1], dim=0) : f32[2, 1]\n"
    "  %9 = index.Tensor(self=%8, indices=[none, %3])\n"
    "  %10 = native_layer_norm_backward(grad_out=%0, input=%0, normalized_shape=[4], mean=%0, rstd=%0, "
    "output_mask=[true, false, true]) : f32[8, 4], none, f32[4]\n"
    "  return %6 order=[1, 0]\n"
    "  return %10:2\n"
    "  write %6 -> %0 view(f32[8, 4] strides=[1, 8] offset=0)\n"
    "}\n";

TEST(graph_text_prints_as_it_was) {
    char *text = NULL;
    CHECK_OK(reprint(every_form, &text));
    CHECK_STRING(text, every_form);
    free(text);
}

TEST(graph_text_reads_what_people_write) {
    char *text = NULL;
    CHECK_OK(reprint("# a comment\n\n graph {  # another\n\t%0=input f32[ 4,8 ]\r\n"
                     "%1 = add.Tensor( other = %0,\n   self=%0 )\n return %1\n}\n\n# the end",
                     &text));
    CHECK_STRING(text,
                 "graph {\n  %0 = input f32[4, 8]\n  %1 = add.Tensor(self=%0, other=%0, alpha=1)\n  return %1\n}\n");
    free(text);
}

/* A graph whose one op has this value as its baked number. */
static tpj_status *number_graph(const char *number, tpj_graph **out_graph) {
    char text[256];
    snprintf(text, sizeof text, "graph {\n%%0 = input f32[2]\n%%1 = threshold(self=%%0, threshold=%s, value=0)\n}",
             number);
    return parse(text, out_graph);
}

static const tpj_arg *number_arg(const tpj_graph *graph) { return &tpj_graph_node(graph, 0)->args[1]; }

TEST(graph_text_keeps_every_bit_of_a_float) {
    static const double values[] = {0.0,  -0.0,         0.1,      1.0 / 3,  5e-324, 1.7976931348623157e308,
                                    1e22, -123456789.0, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        tpj_graph *graph = NULL, *again = NULL;
        char *text = NULL;
        CHECK_OK(number_graph("0.5", &graph));
        ((tpj_arg *)number_arg(graph))->number = values[i];
        CHECK_OK(tpj_graph_print(graph, &text));
        CHECK_OK(parse(text, &again));
        CHECK_INT(number_arg(again)->kind, TPJ_ARG_FLOAT);
        CHECK(memcmp(&number_arg(again)->number, &values[i], sizeof values[i]) == 0);
        free(text);
        tpj_graph_destroy(graph);
        tpj_graph_destroy(again);
    }
}

TEST(graph_text_tells_numbers_apart) {
    static const struct {
        const char *text;
        tpj_arg_kind kind;
    } cases[] = {
        {"7", TPJ_ARG_INT},
        {"-9223372036854775808", TPJ_ARG_INT},
        {"7.0", TPJ_ARG_FLOAT},
        {"7e0", TPJ_ARG_FLOAT},
        {"0x1.8p1", TPJ_ARG_FLOAT},
        {"nan", TPJ_ARG_FLOAT},
        {"nan(0x7ff8000000000001)", TPJ_ARG_FLOAT},
        {"-inf", TPJ_ARG_FLOAT},
        {"true", TPJ_ARG_BOOL},
        {"complex(1, -2.5)", TPJ_ARG_COMPLEX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tpj_graph *graph = NULL;
        char *first = NULL, *second = NULL;
        CHECK_OK(number_graph(cases[i].text, &graph));
        CHECK_INT(number_arg(graph)->kind, cases[i].kind);
        CHECK_OK(tpj_graph_print(graph, &first));
        CHECK_OK(reprint(first, &second));
        CHECK_STRING(first, second);
        free(first);
        free(second);
        tpj_graph_destroy(graph);
    }
}

TEST(graph_text_refuses_what_is_wrong) {
    static const struct {
        const char *line, *message; /* line 3 of a graph with the inputs %0 (f32[4, 8]) and %1 (random) */
    } cases[] = {
        {"%2 = ad.Tensor(self=%0)", "line 4, column 6: there is no op 'ad.Tensor'"},
        {"%3 = relu(self=%0)", "expected %2"},
        {"%2 = relu(self=%2)", "%2 is not defined above"},
        {"%2 = relu(self=%0:1)", "is an input and has one result"},
        {"%2 = relu(slef=%0)", "relu has no parameter 'slef'"},
        {"%2 = relu(self=%0, self=%0)", "given twice"},
        {"%2 = relu()", "%2 = relu: parameter 'self': is missing, expected a tensor"},
        {"%2 = relu(self=%1)", "%2 = relu: parameter 'self': expected a tensor, not a random state"},
        {"%2 = relu(self=1.5)", "%2 = relu: parameter 'self': expected a tensor"},
        {"%2 = cat(tensors=[%0, none])", "%2 = cat: parameter 'tensors': element 1: none is not allowed"},
        {"%2 = cat(tensors=[%0, 1])", "must be of one kind"},
        {"%2 = native_layer_norm_backward(output_mask=[true, 4])", "must be of one kind"},
        {"%2 = cat(tensors=[%0)", "expected ']'"},
        {"%2 = gelu(self=%0, approximate=\"no)", "without its closing quote"},
        {"%2 = gelu(self=%0, approximate=\"\\q\")", "unknown escape"},
        {"%2 = threshold(self=%0, threshold=99999999999999999999, value=0)", "does not fit 64 bits"},
        {"%2 = threshold(self=%0, threshold=1.2.3, value=0)", "expected a number"},
        {"%2 = threshold(self=%0, threshold=nan(12), value=0)", "bits of a NaN"},
        {"%2 = relu(self=%0) and more", "expected the end of the line"},
        {"%2 = relu(self=%0) : f32[4", "expected ']'"},
        {"%2 = input f32[2] view(f32[3] strides=[1] offset=0)", "a view reaches element 2 of a buffer of 2"},
        {"%2 = input f32[2] view(f32[2] strides=[-1] offset=1)", "stride is negative"},
        {"%2 = input f32[2] view(f32[2, 2] strides=[1] offset=0)", "a view of 2 dimensions has 1 strides"},
        {"%2 = input f32[-1]", "size -1 at dimension 0"},
        {"%2 = input f32[4611686018427387904, 4]", "does not fit 63 bits"},
        {"%2 = input f33[2]", "expected a type"},
        {"return %7", "%7 is not defined above"},
        {"return %0 order=[0, 0]", "dimension 1 is missing in the order"},
        {"return %0 order=[0]", "an order of 1 dimensions for a value of 2"},
        {"return %0 view(f32[2] strides=[1] offset=0)", "a view without a buffer to write"},
        {"write %0 -> %1", "%1 is no buffer to write"},
        {"write %0 -> %0 view(f32[4] strides=[1] offset=29)", "a view reaches element 32"},
        {"write %0 -> %0\nwrite %0 -> %0", "%0 is written twice"},
        {"hello", "expected a definition"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        tpj_graph *graph = NULL;
        snprintf(text, sizeof text, "graph {\n%%0 = input f32[4, 8]\n%%1 = random\n%s\n}\n", cases[i].line);
        tpj_status *status = parse(text, &graph);
        CHECK_OR(status != NULL && strstr(tpj_status_message(status), cases[i].message) != NULL, "%s: %s",
                 cases[i].line, tpj_status_message(status));
        tpj_status_destroy(status);
    }
}

TEST(graph_text_refuses_every_beginning_of_a_graph) {
    for (size_t n = 0; n + 2 < sizeof every_form; n++) {
        char *part = malloc(n + 1); /* of its own, so that reading past its end is seen */
        CHECK(part != NULL);
        memcpy(part, every_form, n);
        tpj_graph *graph = NULL;
        tpj_status *status = tpj_graph_parse(part, n, &graph);
        free(part);
        CHECK_OR(status != NULL, "%zu characters are a graph", n);
        tpj_status_destroy(status);
    }
}

TEST(graph_copies_all_that_it_is_given) {
    tpj_graph *graph = NULL;
    CHECK_OK(tpj_graph_create(&graph));
    int64_t dims[] = {4, 8}, strides[] = {1, 8}, list[] = {1, 0};
    int order[] = {1, 0};
    char file[] = "train.py";
    tpj_view view = {.dtype = TPJ_F32, .rank = 2, .sizes = dims, .strides = strides};
    tpj_input input = {.kind = TPJ_INPUT_BUFFER, .type = {TPJ_F32, 2, dims}, .view = &view};
    tpj_ref value;
    CHECK_OK(tpj_graph_add_input(graph, &input, &value));
    tpj_arg args[] = {{.kind = TPJ_ARG_VALUE, .value = value}, {.kind = TPJ_ARG_INTS, .n = 2, .integers = list}};
    int node = -1;
    CHECK_OK(tpj_graph_add_node(graph, tpj_op_find("permute", 7), args, 2, file, 17, &node));
    tpj_output output = {.value = {node, 0}, .target = -1, .order = order, .n_order = 2};
    CHECK_OK(tpj_graph_add_output(graph, &output));
    memset(dims, 0, sizeof dims);
    memset(strides, 0, sizeof strides);
    memset(list, 0, sizeof list);
    memset(order, 0, sizeof order);
    memset(file, 0, sizeof file);
    CHECK_INT(tpj_graph_input(graph, 0)->type.dims[1], 8);
    CHECK_INT(tpj_graph_input(graph, 0)->view->strides[1], 8);
    CHECK_INT(tpj_graph_node(graph, node)->args[1].integers[0], 1);
    CHECK_STRING(tpj_graph_node(graph, node)->file, "train.py");
    CHECK_INT(tpj_graph_output(graph, 0)->order[0], 1);
    tpj_graph_destroy(graph);
}

TEST(graph_holds_many_nodes) {
    enum { N = 1000 };
    tpj_graph *graph = NULL, *again = NULL;
    CHECK_OK(tpj_graph_create(&graph));
    int64_t dims[] = {2};
    tpj_input input = {.kind = TPJ_INPUT_BUFFER, .type = {TPJ_F32, 1, dims}};
    tpj_ref value;
    CHECK_OK(tpj_graph_add_input(graph, &input, &value));
    for (int i = 0; i < N; i++) {
        tpj_arg arg = {.kind = TPJ_ARG_VALUE, .value = value};
        value.result = 0;
        CHECK_OK(tpj_graph_add_node(graph, tpj_op_find("relu", 4), &arg, 1, NULL, 0, &value.node));
    }
    CHECK_OK(tpj_graph_verify(graph));
    char *text = NULL;
    CHECK_OK(tpj_graph_print(graph, &text));
    CHECK_OK(parse(text, &again));
    CHECK_INT(tpj_graph_n_nodes(again), N);
    free(text);
    tpj_graph_destroy(graph);
    tpj_graph_destroy(again);
}

TEST(type_elements_counts_and_overflows) {
    int64_t dims[] = {3, 5}, zero[] = {INT64_MAX, INT64_MAX, 0}, large[] = {INT64_MAX, 2};
    CHECK_INT(tpj_type_elements(&(tpj_type){TPJ_F32, 0, NULL}), 1);
    CHECK_INT(tpj_type_elements(&(tpj_type){TPJ_F32, 2, dims}), 15);
    CHECK_INT(tpj_type_elements(&(tpj_type){TPJ_F32, 3, zero}), 0);
    CHECK_INT(tpj_type_elements(&(tpj_type){TPJ_F32, 2, large}), -1);
}

TEST(params_are_read_one_by_one) {
    const char *cursor = "T self, I[]? dim=[0, 1], S! value=1.5, T?[] indices, Str how=\"a, b\", M memory_format";
    tpj_param p;
    CHECK(tpj_param_next(&cursor, &p) && p.kind == TPJ_PARAM_TENSOR && !p.optional && !p.list);
    CHECK(tpj_param_next(&cursor, &p) && p.kind == TPJ_PARAM_INT && p.optional && p.list && !p.holes);
    CHECK(p.default_length == strlen("[0, 1]") && memcmp(p.default_text, "[0, 1]", p.default_length) == 0);
    CHECK(tpj_param_next(&cursor, &p) && p.kind == TPJ_PARAM_SCALAR && p.baked);
    CHECK(tpj_param_next(&cursor, &p) && p.kind == TPJ_PARAM_TENSOR && p.list && p.holes && !p.optional);
    CHECK(tpj_param_next(&cursor, &p) && p.kind == TPJ_PARAM_STRING && p.default_length == strlen("\"a, b\""));
    CHECK(tpj_param_next(&cursor, &p) && p.kind == TPJ_PARAM_MEMORY_FORMAT && p.optional);
    CHECK(!tpj_param_next(&cursor, &p) && *cursor == '\0');
    cursor = "T self, Q other";
    CHECK(tpj_param_next(&cursor, &p) && !tpj_param_next(&cursor, &p) && *cursor != '\0');
}

TEST(op_table_is_sound) {
    int n = 0;
    for (const tpj_op_def *op; (op = tpj_op_at(n)) != NULL; n++) {
        const char *name = tpj_op_name(op), *cursor = tpj_op_params(op);
        CHECK_OR(tpj_op_find(name, strlen(name)) == op, "%s has two rows", name);
        CHECK_OR(cursor != NULL, "%s has no parameters", name);
        tpj_param p;
        while (tpj_param_next(&cursor, &p)) {}
        CHECK_OR(*cursor == '\0', "%s: malformed parameter at '%s'", name, cursor);
    }
    CHECK(n > 300);
    CHECK(tpj_op_at(-1) == NULL);
    CHECK(tpj_op_find("add", 3) == NULL && tpj_op_find("", 0) == NULL && tpj_op_find("relu\0x", 6) == NULL);
}
