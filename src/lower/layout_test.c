/* Strides of results. The expected ones are those of PyTorch's CPU kernels for the same operands. */
#include <stdio.h>

#include "runner.h"
#include "tpj/lower.h"

/* Lowers one op; its first result's strides as text. */
static tpj_status *strides_of(const char *statements, char *out_text, size_t size) {
    char graph_text[2048];
    snprintf(graph_text, sizeof graph_text, "graph {\n%s}\n", statements);
    tpj_graph *graph;
    tpj_lowered *lowered;
    out_text[0] = '\0';
    TPJ_TRY(tpj_graph_parse(graph_text, strlen(graph_text), &graph));
    tpj_status *status = tpj_lower_graph(graph, NULL, &lowered);
    tpj_graph_destroy(graph);
    TPJ_TRY(status);
    size_t at = 0;
    const tpj_lowered_result *result = &lowered->results[0];
    for (int i = 0; i < result->type.rank && at < size; i++)
        at += (size_t)snprintf(out_text + at, size - at, i == 0 ? "%lld" : " %lld", (long long)result->strides[i]);
    tpj_lowered_destroy(lowered);
    return NULL;
}

#define CHECK_STRIDES(statements, expected)                    \
    do {                                                       \
        char text[256];                                        \
        CHECK_OK(strides_of((statements), text, sizeof text)); \
        CHECK_STRING(text, (expected));                        \
    } while (0)

TEST(layout_of_pointwise_results) {
    /* row-major, transposed, both, the first deciding, a dimension of size 1, an expanded operand */
    CHECK_STRIDES("%0 = input f32[2, 3]\n%1 = neg(self=%0)\n", "3 1");
    CHECK_STRIDES("%0 = input f32[3, 2] view(f32[2, 3] strides=[1, 2] offset=0)\n%1 = neg(self=%0)\n", "1 2");
    CHECK_STRIDES("%0 = input f32[3, 2] view(f32[2, 3] strides=[1, 2] offset=0)\n%1 = input f32[2, 3]\n"
                  "%2 = add.Tensor(self=%0, other=%1, alpha=1)\n",
                  "1 2");
    CHECK_STRIDES("%0 = input f32[2, 3]\n%1 = input f32[3, 2] view(f32[2, 3] strides=[1, 2] offset=0)\n"
                  "%2 = add.Tensor(self=%0, other=%1, alpha=1)\n",
                  "3 1");
    CHECK_STRIDES("%0 = input f32[4, 3, 2] view(f32[2, 3, 4] strides=[1, 2, 6] offset=0)\n%1 = exp(self=%0)\n",
                  "1 2 6");
    CHECK_STRIDES("%0 = input f32[4, 6] view(f32[4, 3] strides=[6, 2] offset=0)\n%1 = exp(self=%0)\n", "3 1");
    CHECK_STRIDES("%0 = input f32[3] view(f32[2, 3] strides=[0, 1] offset=0)\n%1 = exp(self=%0)\n", "3 1");
    CHECK_STRIDES("%0 = input f32[3] view(f32[3, 2] strides=[1, 0] offset=0)\n%1 = exp(self=%0)\n", "2 1");
    CHECK_STRIDES("%0 = input f32\n%1 = exp(self=%0)\n", "");
    CHECK_STRIDES("%0 = input f32[7]\n%1 = exp(self=%0)\n", "1");
}

TEST(layout_of_channels_last) {
    /* [2, 3, 4, 5] stored as NHWC */
    const char *conv = "%0 = input f32[2, 4, 5, 3] view(f32[2, 3, 4, 5] strides=[60, 1, 15, 3] offset=0)\n"
                       "%1 = input f32[6, 3, 1, 1]\n"
                       "%2 = convolution(input=%0, weight=%1, stride=[1, 1], padding=[0, 0], dilation=[1, 1], "
                       "transposed=false, output_padding=[0, 0], groups=1)\n";
    CHECK_STRIDES(conv, "120 1 30 6");
    CHECK_STRIDES(
        "%0 = input f32[2, 4, 5, 3] view(f32[2, 3, 4, 5] strides=[60, 1, 15, 3] offset=0)\n%1 = exp(self=%0)\n",
        "60 1 15 3");
    CHECK_STRIDES("%0 = input f32[2, 3, 4, 5]\n%1 = input f32[6, 3, 1, 1]\n"
                  "%2 = convolution(input=%0, weight=%1, stride=[1, 1], padding=[0, 0], dilation=[1, 1], "
                  "transposed=false, output_padding=[0, 0], groups=1)\n",
                  "120 20 5 1");
}

TEST(layout_by_memory_format) {
    const char *turned = "%0 = input f32[4, 3, 2] view(f32[2, 3, 4] strides=[1, 2, 6] offset=0)\n%1 = clone(self=%0";
    char statements[512];
    snprintf(statements, sizeof statements, "%s)\n", turned);
    CHECK_STRIDES(statements, "1 2 6");
    snprintf(statements, sizeof statements, "%s, memory_format=0)\n", turned); /* contiguous */
    CHECK_STRIDES(statements, "12 4 1");
    snprintf(statements, sizeof statements, "%s, memory_format=1)\n", turned); /* preserve */
    CHECK_STRIDES(statements, "1 2 6");
    CHECK_STRIDES("%0 = input f32[2, 3, 4, 5]\n%1 = clone(self=%0, memory_format=2)\n", "60 1 15 3");
    CHECK_STRIDES("%0 = input f32[2, 3, 4, 5, 6]\n%1 = clone(self=%0, memory_format=3)\n", "360 1 90 18 3");
}

TEST(layout_of_contiguous_results) {
    CHECK_STRIDES("%0 = input f32[3, 2] view(f32[2, 3] strides=[1, 2] offset=0)\n%1 = input f32[3, 4]\n"
                  "%2 = mm(self=%0, mat2=%1)\n",
                  "4 1");
    CHECK_STRIDES("%0 = input f32[3, 2] view(f32[2, 3] strides=[1, 2] offset=0)\n%1 = cat(tensors=[%0, %0], dim=0)\n",
                  "3 1");
}

TEST(layout_of_many_dimensions) {
    char statements[1024] =
        "%0 = input f32[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2] view(f32[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2] "
        "strides=[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048] offset=0)\n%1 = neg(self=%0)\n";
    CHECK_STRIDES(statements, "1 2 4 8 16 32 64 128 256 512 1024 2048");
}
