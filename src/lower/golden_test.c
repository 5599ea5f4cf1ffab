/* Golden files: each tests/golden/NAME.graph lowers to the text of NAME.mlir, and reads back as it is printed. `make golden`
 * rewrites the modules. A first line "# options: check_index sizes=3" sets the options of the lowering. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "tpj/lower.h"

static const char folder[] = "tests/golden"; /* make runs the tests in the root */
enum { N_PATH = 300 };

/* malloc'ed; NULL when it cannot be read. */
static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    fseek(file, 0, SEEK_END);
    long n = ftell(file);
    rewind(file);
    char *text = n >= 0 ? calloc((size_t)n + 1, 1) : NULL;
    if (text != NULL && fread(text, 1, (size_t)n, file) != (size_t)n) text[0] = '\0';
    fclose(file);
    return text;
}

static bool write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    if (file == NULL) return false;
    bool written = fwrite(text, 1, strlen(text), file) == strlen(text);
    return fclose(file) == 0 && written;
}

static tpj_lower_options options_of(const char *text, int64_t *size) {
    static const char mark[] = "# options:";
    tpj_lower_options options = {0};
    if (strncmp(text, mark, sizeof mark - 1) != 0) return options;
    char line[200];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
    options.check_index = strstr(line, "check_index") != NULL ? TPJ_CHECK_RESULT : TPJ_CHECK_NONE;
    options.count_only = strstr(line, "count_only") != NULL;
    if (strstr(line, "precision=DEFAULT") != NULL) options.precision = "DEFAULT";
    const char *sizes = strstr(line, "sizes=");
    if (sizes != NULL) {
        *size = strtoll(sizes + strlen("sizes="), NULL, 10);
        options.sizes = size;
        options.n_sizes = 1;
    }
    return options;
}

static tpj_status *lower(const char *text, const tpj_lower_options *options, char **out_module) {
    tpj_graph *graph;
    tpj_lowered *lowered;
    TPJ_TRY(tpj_graph_parse(text, strlen(text), &graph));
    tpj_status *status = tpj_lower_graph(graph, options, &lowered);
    tpj_graph_destroy(graph);
    TPJ_TRY(status);
    *out_module = strdup(lowered->module);
    tpj_lowered_destroy(lowered);
    return NULL;
}

/* What the graph of a text is printed as. */
static tpj_status *printed(const char *text, char **out_text) {
    tpj_graph *graph;
    TPJ_TRY(tpj_graph_parse(text, strlen(text), &graph));
    tpj_status *status = tpj_graph_verify(graph);
    if (status == NULL) status = tpj_graph_print(graph, out_text);
    tpj_graph_destroy(graph);
    return status;
}

/* The number of the first line that differs, and where it begins in both. */
static int first_difference(const char **a, const char **b) {
    for (int line = 1;; line++) {
        size_t n = strcspn(*a, "\n"), m = strcspn(*b, "\n");
        if (n != m || memcmp(*a, *b, n) != 0 || (*a)[n] != (*b)[n]) return line;
        if ((*a)[n] == '\0') return 0;
        *a += n + 1;
        *b += n + 1;
    }
}

static void check_module(const char *path, const char *module) {
    char *expected = read_text(path);
    const char *a = module, *b = expected != NULL ? expected : "";
    int line = first_difference(&a, &b);
    if (line > 0)
        test_fail(path, line, "is\n%.*s\nexpected\n%.*s\n(make golden rewrites it)", (int)strcspn(a, "\n"), a,
                  (int)strcspn(b, "\n"), b);
    free(expected);
}

/* The graph that is read from the printed text lowers to the same module, and is printed as the same text. */
static void check_printed(const char *path, const char *text, const tpj_lower_options *options, const char *module) {
    char *once = NULL, *twice = NULL, *module_again = NULL;
    tpj_status *status = printed(text, &once);
    if (status == NULL) status = printed(once, &twice);
    if (status == NULL) status = lower(once, options, &module_again);
    if (status != NULL)
        test_fail(path, 1, "printed: %s", tpj_status_message(status));
    else if (strcmp(once, twice) != 0)
        test_fail(path, 1, "is printed as\n%s\nand that as\n%s", once, twice);
    else if (strcmp(module, module_again) != 0)
        test_fail(path, 1, "lowers to another module when it is printed and read:\n%s", once);
    tpj_status_destroy(status);
    free(once);
    free(twice);
    free(module_again);
}

static void check_one(const char *path) {
    int64_t size;
    char module_path[N_PATH], *text = read_text(path), *module = NULL;
    snprintf(module_path, sizeof module_path, "%.*s.mlir", (int)(strlen(path) - strlen(".graph")), path);
    tpj_lower_options options = options_of(text != NULL ? text : "", &size);
    tpj_status *status = text == NULL ? tpj_status_create(TPJ_VALUE, "cannot be read") : lower(text, &options, &module);
    if (status != NULL)
        test_fail(path, 1, "%s", tpj_status_message(status));
    else
        check_printed(path, text, &options, module);
    if (module != NULL && getenv("TPJ_GOLDEN_WRITE") == NULL)
        check_module(module_path, module);
    else if (module != NULL && !write_text(module_path, module))
        test_fail(module_path, 1, "cannot be written");
    tpj_status_destroy(status);
    free(text);
    free(module);
}

static int is_graph(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');
    return dot != NULL && strcmp(dot, ".graph") == 0;
}

TEST(golden_graphs_lower_to_their_modules) {
    struct dirent **entries;
    int n = scandir(folder, &entries, is_graph, alphasort);
    CHECK_OR(n > 30, "%d graphs in %s", n, folder);
    for (int i = 0; i < n; i++) {
        char path[N_PATH];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        check_one(path);
        free(entries[i]);
    }
    free(entries);
}
