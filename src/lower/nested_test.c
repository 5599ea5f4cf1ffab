/* Graphs inside of ops, as the rows of control.c hold them. */
#include <stdio.h>

#include "runner.h"
#include "tpj/lower.h"

#define ADD_ONE \
    "graph {\\x0a  %0 = input f32[4]\\x0a  %1 = add.Tensor(self=%0, other=%0, alpha=1) : f32[4]\\x0a  return %1\\x0a}"
#define NEGATE "graph {\\x0a  %0 = input f32[4]\\x0a  %1 = neg(self=%0) : f32[4]\\x0a  return %1\\x0a}"
#define POSITIVE "graph {\\x0a  %0 = input f32[4]\\x0a  %1 = any(self=%0)\\x0a  return %1\\x0a}"

/* Lowers a graph over a predicate and an array; whether the module holds `expected`. */
static tpj_status *lower(const char *statement, const char *expected, bool *out_found) {
    char text[4096];
    snprintf(text, sizeof text, "graph {\n%%0 = input bool\n%%1 = input f32[4]\n%s}\n", statement);
    tpj_graph *graph;
    tpj_lowered *lowered;
    *out_found = false;
    TPJ_TRY(tpj_graph_parse(text, strlen(text), &graph));
    tpj_status *status = tpj_lower_graph(graph, NULL, &lowered);
    tpj_graph_destroy(graph);
    TPJ_TRY(status);
    *out_found = strstr(lowered->module, expected) != NULL;
    tpj_lowered_destroy(lowered);
    return NULL;
}

TEST(nested_graphs_become_regions) {
    bool found;
    CHECK_OK(lower("%2 = cond(pred=%0, true_graph=\"" ADD_ONE "\", false_graph=\"" NEGATE "\", operands=[%1])\n",
                   "stablehlo.if", &found));
    CHECK(found);
    CHECK_OK(lower("%2 = while_loop(cond_graph=\"" POSITIVE "\", body_graph=\"" NEGATE
                   "\", carried=[%1], additional=[])\n",
                   "stablehlo.while", &found));
    CHECK(found);
    CHECK_OK(lower("%2 = expand(self=%1, size=[3, 4])\n%3 = scan(combine_graph=\"" NEGATE
                   "\", init=[], xs=[%2], additional=[])\n",
                   "stablehlo.dynamic_update_slice", &found));
    CHECK(found);
}

TEST(nested_graphs_that_do_not_fit) {
    bool found;
    CHECK_ERROR(
        lower("%2 = cond(pred=%0, true_graph=\"graph {\", false_graph=\"" NEGATE "\", operands=[%1])\n", "", &found),
        TPJ_VALUE, "true_graph: line 1");
    CHECK_ERROR(lower("%2 = cond(pred=%0, true_graph=\"" ADD_ONE "\", false_graph=\"" NEGATE "\", operands=[%1, %1])\n",
                      "", &found),
                TPJ_VALUE, "a graph with 1 inputs is given 2");
    CHECK_ERROR(lower("%2 = cond(pred=%0, true_graph=\"" POSITIVE "\", false_graph=\"" NEGATE "\", operands=[%1])\n",
                      "", &found),
                TPJ_VALUE, "does not say the type");
    CHECK_ERROR(lower("%2 = while_loop(cond_graph=\"" POSITIVE "\", body_graph=\"" NEGATE
                      "\", carried=[%1, %1], additional=[])\n",
                      "", &found),
                TPJ_VALUE, "the body returns 1 of 2 values");
    CHECK_ERROR(lower("%2 = scan(combine_graph=\"" NEGATE "\", init=[%1], xs=[], additional=[])\n", "", &found),
                TPJ_VALUE, "nothing to go over");
}

/* An op whose results' sizes somebody has to count first fails in a graph, where nobody has. */
TEST(sized_ops_in_a_graph) {
    bool found;
    CHECK_ERROR(
        lower("%2 = input i64[2]\n%3 = segment_reduce(data=%1, reduce=\"sum\", lengths=%2, axis=0, unsafe=false)\n", "",
              &found),
        TPJ_NOT_IMPLEMENTED, "depends on data");
    CHECK_ERROR(lower("%2 = nonzero(self=%1)\n", "", &found), TPJ_NOT_IMPLEMENTED, "depends on data");
}
