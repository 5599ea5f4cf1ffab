/* Functions given as text. */
#include <stdlib.h>

#include "hlo/hlo.h"
#include "runner.h"

static const int64_t FOUR[] = {4};

/* Calls the text with one f32[4] operand; the module, malloc'ed, or NULL and the error. */
static tpj_status *call(const char *text, int n_calls, char **out_module) {
    tpj_hlo *h;
    *out_module = NULL;
    TPJ_TRY(hlo_create(&h));
    tpj_value *x = hlo_parameter(h, TPJ_F32, 1, FOUR), *out[4] = {x};
    for (int i = 0; i < n_calls; i++) {
        tpj_value *given = out[0];
        hlo_call(h, text, &given, 1, out, 4);
    }
    size_t length;
    tpj_status *status = hlo_finish(h, "test", out, 1, out_module, &length);
    hlo_destroy(h);
    return status;
}

TEST(functions_get_names_of_their_own) {
    static const char text[] =
        "// func.func @in_a_comment\n"
        "#map = affine_map<(d0) -> (d0)>\n"
        "module @jit {\n"
        "  func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }\n"
        "  func.func public @main(%a: tensor<4xf32> {x = #map, s = \"@f #map )\"}) -> (tensor<4xf32> {y}) {\n"
        "    %0 = call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
        "    %1 = stablehlo.custom_call @target(%0) : (tensor<4xf32>) -> tensor<4xf32>\n"
        "    return %1 : tensor<4xf32>\n  }\n"
        "} loc(#loc)\n#loc = loc(unknown)\n";
    char *module;
    CHECK_OK(call(text, 2, &module));
    bool fine = strstr(module, "#k0_map = affine_map") != NULL && strstr(module, "#k1_loc = loc(unknown)") != NULL &&
                strstr(module, "func.func private @k0_f(") != NULL && strstr(module, "call @k1_f(%a)") != NULL &&
                strstr(module, "{x = #k0_map, s = \"@f #map )\"}") != NULL &&
                strstr(module, "custom_call @target(") != NULL &&
                strstr(module, "\"func.call\"(%1) {callee = @k1_main}") != NULL;
    if (!fine) test_fail(__FILE__, __LINE__, "%s", module);
    free(module);
}

TEST(the_first_function_is_called_where_none_is_main) {
    char *module;
    CHECK_OK(call("func.func @a(%x: tensor<4xf32>) -> tensor<2x0xcomplex<f64>> {}\nfunc.func @b() {}", 1, &module));
    bool fine = strstr(module, "callee = @k0_a} : (tensor<4xf32>) -> tensor<2x0xcomplex<f64>>") != NULL;
    if (!fine) test_fail(__FILE__, __LINE__, "%s", module);
    free(module);
}

TEST(functions_that_do_not_fit_are_errors) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "no func.func"},
        {"\"func.func @main(", "no func.func"},
        {"func.func", "expected func.func @name"},
        {"func.func @(", "expected func.func @name"},
        {"func.func @f", "the type ''"},
        {"func.func @f(", "takes 0 operands"},
        {"func.func @f(%x: tensor<4xf32", "has 0 results"},
        {"func.func @f(%x: tensor<4xf64>) -> tensor<f32>", "takes f64[4] as operand 0, and f32[4] is given"},
        {"func.func @f(%x: tensor<4xf32>, %y: tensor<f32>)", "takes 2 operands, and 1 are given"},
        {"func.func @f(%x: !token) -> tensor<f32>", "'!token'"},
        {"func.func @f(%x: tensor<?xf32>) -> tensor<f32>", "'?xf32'"},
        {"func.func @f(%x: tensor<4xf32>)", "has 0 results"},
        {"func.func @f(%x: tensor<4xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)",
         "has 5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *module;
        tpj_status *status = call(cases[i].text, 1, &module);
        bool named = status != NULL && strstr(tpj_status_message(status), cases[i].message) != NULL;
        if (!named) test_fail(__FILE__, __LINE__, "%s: %s", cases[i].text, tpj_status_message(status));
        tpj_status_destroy(status);
        free(module);
    }
}
