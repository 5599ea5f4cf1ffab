/* Ops registered at run time. */
#include <stdio.h>
#include <stdlib.h>

#include "runner.h"
#include "tpj/graph.h"
#include "tpj/lower.h"

static char seen[512];

static tpj_status *write_text(void *context, const char *op, const char *arguments, char **out_text) {
    snprintf(seen, sizeof seen, "%s %s", op, arguments);
    if (context == NULL) return tpj_status_create(TPJ_VALUE, "nothing to write");
    *out_text = malloc(strlen(context) + 1);
    strcpy(*out_text, context);
    return NULL;
}

static tpj_status *lower(const char *statement) {
    char text[1024];
    snprintf(text, sizeof text, "graph {\n%%0 = input f32[4]\n%s\nreturn %%1\n}\n", statement);
    tpj_graph *graph;
    tpj_lowered *lowered = NULL;
    TPJ_TRY(tpj_graph_parse(text, strlen(text), &graph));
    tpj_status *status = tpj_lower_graph(graph, NULL, &lowered);
    tpj_graph_destroy(graph);
    tpj_lowered_destroy(lowered);
    return status;
}

TEST(an_op_of_run_time_is_lowered_by_its_text) {
    static char text[] = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {}";
    const tpj_op_def *op;
    CHECK_OK(tpj_op_register("test::mine.one", "T x, T? y, I[] dims, F a, B b, Str s, D? d, F[]? none", write_text,
                             text, &op));
    CHECK(tpj_op_find("test::mine.one", strlen("test::mine.one")) == op);
    CHECK_STRING(tpj_op_family(op), "custom");
    CHECK_OK(lower("%1 = test::mine.one(x=%0, y=none, dims=[1, 2], a=2.0, b=true, s=\"a\\\"b\", d=bf16)"));
    CHECK_STRING(seen, "test::mine.one {\"x\": {\"dtype\": \"f32\", \"sizes\": [4]}, \"y\": null, \"dims\": [1, 2], "
                       "\"a\": 2.0, \"b\": true, \"s\": \"a\\\"b\", \"d\": {\"dtype\": \"bf16\"}, \"none\": null}");
    CHECK_ERROR(tpj_op_register("test::mine.one", "T x", write_text, text, &op), TPJ_RUNTIME, "registered already");
}

TEST(an_op_of_run_time_fails_by_its_name) {
    const tpj_op_def *op;
    CHECK_OK(tpj_op_register("test::fails", "T x, F a", write_text, NULL, &op));
    CHECK_ERROR(lower("%1 = test::fails(x=%0, a=inf)"), TPJ_VALUE,
                "test::fails(f32[4]): its StableHLO: nothing to write");
    CHECK(strstr(seen, "{\"float\": \"inf\"}") != NULL);
    CHECK_ERROR(tpj_op_register("fails", "T x", write_text, NULL, &op), TPJ_VALUE, "namespace");
    CHECK_ERROR(tpj_op_register("test::other", "T x, S a", write_text, NULL, &op), TPJ_VALUE, "the parameter a");
    CHECK_ERROR(tpj_op_register("test::other", "T x, Q a", write_text, NULL, &op), TPJ_VALUE, "cannot be read");
    CHECK(tpj_op_find("test::other", strlen("test::other")) == NULL);
}
