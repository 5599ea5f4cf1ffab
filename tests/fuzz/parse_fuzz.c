/* Fuzz target: parsing any bytes gives a graph or an error, and a graph prints to text that parses to the same text. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tpj/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition, const char *what, tpj_status *status) {
    if (condition) return;
    fprintf(stderr, "%s: %s\n", what, tpj_status_message(status));
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tpj_graph *graph = NULL, *again = NULL;
    tpj_status *status = tpj_graph_parse((const char *)data, size, &graph);
    if (status != NULL) {
        check(tpj_status_code(status) != TPJ_OK, "an error without a code", status);
        tpj_status_destroy(status);
        return 0;
    }
    char *text = NULL, *text_again = NULL;
    status = tpj_graph_print(graph, &text);
    check(status == NULL, "printing failed", status);
    status = tpj_graph_parse(text, strlen(text), &again);
    check(status == NULL, "the printed text does not parse", status);
    status = tpj_graph_print(again, &text_again);
    check(status == NULL, "printing failed", status);
    check(strcmp(text, text_again) == 0, "the text changed on its way", NULL);
    free(text);
    free(text_again);
    tpj_graph_destroy(graph);
    tpj_graph_destroy(again);
    return 0;
}
