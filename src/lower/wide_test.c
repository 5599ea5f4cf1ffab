/* Index arithmetic past 2^31 and 2^32, on types alone: no such array is made, but its programs are written. */
#include <string.h>

#include "runner.h"
#include "tpj/lower.h"

/* The module of one op over arrays of more elements than 32 bits count; malloc'ed by the lowering. */
static tpj_status *lower(const char *text, tpj_lowered **out_lowered) {
    static const int64_t sizes[] = {5};
    const tpj_lower_options options = {.check_index = TPJ_CHECK_RESULT, .sizes = sizes, .n_sizes = 1};
    tpj_graph *graph;
    TPJ_TRY(tpj_graph_parse(text, strlen(text), &graph));
    tpj_status *status = tpj_lower_graph(graph, &options, out_lowered);
    tpj_graph_destroy(graph);
    return status;
}

#define VECTOR "  %0 = input f32[5000000000]\n"
#define ROWS "  %0 = input f32[5000000000, 2]\n"
#define INDEX "  %1 = input i64[7]\n"

TEST(indices_of_large_arrays_are_wide) {
    static const char *const graphs[] = {
        "graph {\n" VECTOR INDEX "  %2 = take(self=%0, index=%1)\n}\n",
        "graph {\n" VECTOR INDEX "  %2 = index.Tensor(self=%0, indices=[%1])\n}\n",
        "graph {\n" ROWS INDEX "  %2 = index_select(self=%0, dim=0, index=%1)\n}\n",
        "graph {\n" ROWS INDEX "  %2 = embedding(weight=%0, indices=%1)\n}\n",
        "graph {\n" VECTOR INDEX "  %2 = gather(self=%0, dim=0, index=%1)\n}\n",
        "graph {\n" VECTOR INDEX "  %2 = input f32[7]\n  %3 = scatter_add(self=%0, dim=0, index=%1, src=%2)\n}\n",
        "graph {\n" VECTOR INDEX "  %2 = input f32[7]\n  %3 = index_put(self=%0, indices=[%1], values=%2)\n}\n",
        "graph {\n" VECTOR "  %1 = nonzero(self=%0)\n}\n",
        "graph {\n" VECTOR "  %1 = argmax(self=%0, dim=0)\n}\n",
        "graph {\n" VECTOR "  %1 = max.dim(self=%0, dim=0)\n}\n",
        "graph {\n" VECTOR "  %1 = sort(self=%0, dim=0)\n}\n",
    };
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
        tpj_lowered *lowered = NULL;
        CHECK_OK(lower(graphs[i], &lowered));
        const char *narrow = strstr(lowered->module, "i32>");
        CHECK_STRING(narrow != NULL ? graphs[i] : "", "");
        CHECK(strstr(lowered->module, "xi64>") != NULL);
        tpj_lowered_destroy(lowered);
    }
}
