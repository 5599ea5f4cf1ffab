/* Runs a graph: loads a plugin, parses the graph, compiles it, feeds it and prints what comes out.
 *
 *     cc -std=c11 -Iinclude examples/c/run.c libtpj.so -Wl,-rpath,. -o run
 *     ./run plugin.so examples/c/softmax.graph
 *     ./run plugin.so examples/c/softmax.graph 1,2,3,4 0.5
 *
 * Behind the graph may stand a value for each of its inputs: numbers, which fill it over and over, or @file, whose bytes
 * are taken as they are. That of a random state is the seed. `-` and what is left out stand for a made-up value. */
#include <inttypes.h>
#include <string.h>

#include "common.h"
#include "tpj/program.h"

typedef struct session {
    tpj_client *client;
    tpj_graph *graph;
    tpj_program *program;
    tpj_feed *feeds;
    tpj_buffer **outputs;
    int64_t *sizes; /* of results whose size depends on data */
    uint64_t random[2];
} session;

/* ---- values of any dtype, as the widest of its class: the device converts ---- */

typedef union wide {
    int64_t integer;
    double number;
} wide;

static tpj_dtype wide_dtype(tpj_dtype dtype) {
    if (tpj_dtype_is_complex(dtype)) return TPJ_C128;
    return tpj_dtype_is_float(dtype) ? TPJ_F64 : TPJ_I64;
}

static size_t n_words(const tpj_type *type) {
    return (size_t)tpj_type_elements(type) * (tpj_dtype_is_complex(type->dtype) ? 2 : 1);
}

/* The buffer in another dtype, by a graph of one op that is made here. */
static tpj_status *convert(tpj_client *client, tpj_buffer *buffer, tpj_type type, tpj_dtype dtype, tpj_buffer **out) {
    tpj_status *status = NULL;
    tpj_graph *graph = NULL;
    tpj_program *program = NULL;
    const tpj_op_def *to_copy = tpj_op_find("_to_copy", 8);
    tpj_input input = {.kind = TPJ_INPUT_BUFFER, .type = type};
    tpj_arg args[3] = {{.kind = TPJ_ARG_VALUE}, {.kind = TPJ_ARG_DTYPE, .dtype = dtype}, {.kind = TPJ_ARG_NONE}};
    tpj_feed feed = {.buffer = buffer};
    TPJ_TRY_GOTO(tpj_graph_create(&graph));
    TPJ_TRY_GOTO(tpj_graph_add_input(graph, &input, &args[0].value));
    TPJ_TRY_GOTO(tpj_graph_add_node(graph, to_copy, args, 3, NULL, 0, &(int){0}));
    TPJ_TRY_GOTO(tpj_program_create(client, graph, NULL, &program));
    status = tpj_program_run(program, 0, &feed, 1, NULL, out);
done:
    tpj_program_release(program);
    tpj_graph_destroy(graph);
    return status;
}

static tpj_status *upload(tpj_client *client, tpj_type type, const wide *values, tpj_buffer **out) {
    tpj_buffer *buffer;
    tpj_dtype dtype = wide_dtype(type.dtype);
    TPJ_TRY(tpj_buffer_from_host(client, 0, dtype, type.rank, type.dims, values, &buffer));
    tpj_status *status = convert(client, buffer, (tpj_type){dtype, type.rank, type.dims}, type.dtype, out);
    tpj_buffer_release(buffer);
    return status;
}

/* malloc'ed. */
static tpj_status *download(tpj_client *client, tpj_buffer *buffer, tpj_type type, wide **out_values) {
    tpj_buffer *converted;
    size_t n = n_words(&type);
    wide *values = calloc(n + 1, sizeof *values);
    if (values == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of memory");
    tpj_status *status = convert(client, buffer, type, wide_dtype(type.dtype), &converted);
    if (status == NULL) {
        status = tpj_buffer_to_host(converted, values, n * sizeof *values);
        tpj_buffer_release(converted);
    }
    if (status == NULL)
        *out_values = values;
    else
        free(values);
    return status;
}

/* ---- feeding ---- */

/* Small numbers that differ, exact in every dtype. */
static wide made_up(tpj_dtype dtype, size_t i) {
    if (!tpj_dtype_is_integral(dtype)) return (wide){.number = (double)(i % 23) / 4 - 2.5};
    return (wide){.integer = (int64_t)(dtype == TPJ_BOOL ? i % 2 : i % 5)};
}

/* The numbers of "1,2.5,3", over and over. */
static tpj_status *fill(const char *text, tpj_dtype dtype, wide *values, size_t n) {
    const char *at = text;
    for (size_t i = 0; i < n; i++) {
        char *end;
        if (tpj_dtype_is_integral(dtype))
            values[i].integer = strtoll(at, &end, 0);
        else
            values[i].number = strtod(at, &end);
        if (end == at || (*end != ',' && *end != '\0'))
            TPJ_ERROR(TPJ_VALUE, "'%s' is no list of numbers for %s", text, tpj_dtype_name(dtype));
        at = *end == ',' ? end + 1 : text;
    }
    return NULL;
}

static tpj_status *feed_from_file(session *s, const char *path, tpj_type type, tpj_buffer **out) {
    char *data = NULL;
    size_t n = 0;
    TPJ_TRY(read_file(path, &data, &n));
    size_t expected = (size_t)tpj_type_elements(&type) * tpj_dtype_bytes(type.dtype);
    tpj_status *status = n == expected
                             ? tpj_buffer_from_host(s->client, 0, type.dtype, type.rank, type.dims, data, out)
                             : tpj_status_create(TPJ_VALUE, "%s has %zu bytes, the input has %zu", path, n, expected);
    free(data);
    return status;
}

static tpj_status *feed_buffer(session *s, const char *text, tpj_type type, tpj_buffer **out) {
    if (text != NULL && text[0] == '@') return feed_from_file(s, text + 1, type, out);
    size_t n = n_words(&type);
    wide *values = calloc(n + 1, sizeof *values);
    if (values == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++) values[i] = made_up(type.dtype, i);
    tpj_status *status = text != NULL ? fill(text, type.dtype, values, n) : NULL;
    if (status == NULL) status = upload(s->client, type, values, out);
    free(values);
    return status;
}

static tpj_status *feed_number(const char *text, tpj_number *out) {
    wide value;
    *out = (tpj_number){.kind = TPJ_NUMBER_INT, .integer = 1};
    if (text == NULL) return NULL;
    bool integral = text[strcspn(text, ".eEnN")] == '\0';
    TPJ_TRY(fill(text, integral ? TPJ_I64 : TPJ_F64, &value, 1));
    *out = (tpj_number){.kind = integral ? TPJ_NUMBER_INT : TPJ_NUMBER_FLOAT};
    if (integral)
        out->integer = value.integer;
    else
        out->parts[0] = value.number;
    return NULL;
}

static tpj_status *make_feeds(session *s, char **texts, int n_texts) {
    int next = 0;
    for (int i = 0; i < tpj_graph_n_inputs(s->graph); i++) {
        const tpj_input *input = tpj_graph_input(s->graph, i);
        if (input->alias > 0) continue; /* an earlier input's buffer */
        const char *text = next < n_texts && strcmp(texts[next], "-") != 0 ? texts[next] : NULL;
        next++;
        switch (input->kind) {
            case TPJ_INPUT_BUFFER: TPJ_TRY(feed_buffer(s, text, input->type, &s->feeds[i].buffer)); break;
            case TPJ_INPUT_SCALAR: TPJ_TRY(feed_number(text, &s->feeds[i].number)); break;
            case TPJ_INPUT_RANDOM: s->random[0] = text != NULL ? strtoull(text, NULL, 0) : 0; break;
        }
    }
    if (next < n_texts) TPJ_ERROR(TPJ_VALUE, "the graph has %d inputs that take a value, %d were given", next, n_texts);
    return NULL;
}

/* ---- printing ---- */

static void print_element(tpj_dtype dtype, const wide *values, int64_t at) {
    if (tpj_dtype_is_complex(dtype))
        printf(" %g%+gi", values[2 * at].number, values[2 * at + 1].number);
    else if (tpj_dtype_is_float(dtype))
        printf(" %g", values[at].number);
    else
        printf(" %" PRId64, values[at].integer);
}

/* A line for each row of the last dimension, behind the indices of the others; long ones are cut. */
static void print_values(const tpj_result *result, const wide *values) {
    enum { MOST_ROWS = 16, MOST_COLUMNS = 12 };
    const tpj_type *type = &result->type;
    int last = type->rank - 1;
    int64_t n_columns = last >= 0 ? type->dims[last] : 1;
    int64_t n_rows = n_columns > 0 ? tpj_type_elements(type) / n_columns : 0;
    for (int64_t row = 0; row < n_rows && row < MOST_ROWS; row++) {
        int64_t indices[64], rest = row, at = 0;
        for (int k = last - 1; k >= 0; k--) {
            indices[k] = rest % type->dims[k];
            rest /= type->dims[k];
            at += indices[k] * result->strides[k];
        }
        printf(" ");
        for (int k = 0; k < last; k++)
            printf("%s%" PRId64 "%s", k == 0 ? "[" : ", ", indices[k], k == last - 1 ? "]" : "");
        for (int64_t i = 0; i < n_columns && i < MOST_COLUMNS; i++)
            print_element(type->dtype, values, at + (last >= 0 ? i * result->strides[last] : 0));
        printf(n_columns > MOST_COLUMNS ? " ..\n" : "\n");
    }
    if (n_rows > MOST_ROWS) printf("  ..\n");
}

static tpj_status *print_result(session *s, int i) {
    const tpj_result *result = tpj_program_result(s->program, i);
    if (result->none) {
        printf("result %d: none\n", i);
        return NULL;
    }
    printf("result %d: %s[", i, tpj_dtype_name(result->type.dtype));
    for (int k = 0; k < result->type.rank; k++) printf(k == 0 ? "%" PRId64 : ", %" PRId64, result->type.dims[k]);
    printf("]");
    if (result->target >= 0) printf(", in place of input %d", result->target);
    printf("\n");
    wide *values = NULL;
    TPJ_TRY(download(s->client, s->outputs[i], result->base, &values));
    print_values(result, values);
    free(values);
    return NULL;
}

/* ---- the whole ---- */

/* Compiles the graph and runs it. */
static tpj_status *compile_and_run(session *s, const tpj_lower_options *options) {
    TPJ_TRY(tpj_program_create(s->client, s->graph, options, &s->program));
    s->outputs = calloc((size_t)tpj_program_n_results(s->program) + 1, sizeof *s->outputs);
    if (s->outputs == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of memory");
    return tpj_program_run(s->program, 0, s->feeds, tpj_graph_n_inputs(s->graph), s->random, s->outputs);
}

static void release_program(session *s) {
    for (int i = 0; s->outputs != NULL && i < tpj_program_n_results(s->program); i++) tpj_buffer_release(s->outputs[i]);
    free(s->outputs);
    tpj_program_release(s->program);
    s->outputs = NULL;
    s->program = NULL;
}

/* The sizes of the last op's results, where they depend on data (nonzero, unique): a program of their own counts them. */
static tpj_status *count(session *s, tpj_lower_options *options) {
    int n_nodes = tpj_graph_n_nodes(s->graph);
    if (n_nodes == 0 || !tpj_op_is_sized(tpj_graph_node(s->graph, n_nodes - 1)->op)) return NULL;
    tpj_lower_options counting = *options;
    counting.count_only = true;
    TPJ_TRY(compile_and_run(s, &counting));
    const tpj_result *result = tpj_program_result(s->program, 0);
    s->sizes = malloc(result->n_bytes);
    if (s->sizes == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of memory");
    TPJ_TRY(tpj_buffer_to_host(s->outputs[0], s->sizes, result->n_bytes));
    options->sizes = s->sizes;
    options->n_sizes = (int)tpj_type_elements(&result->type);
    release_program(s);
    return NULL;
}

static tpj_status *run(session *s, char **args, int n_args) {
    tpj_plugin *plugin;
    char *text = NULL;
    size_t length = 0;
    tpj_lower_options options = {.check_index = TPJ_CHECK_RESULT};
    TPJ_TRY(read_file(args[2], &text, &length));
    tpj_status *status = tpj_graph_parse(text, length, &s->graph);
    free(text);
    TPJ_TRY(status);
    TPJ_TRY(tpj_plugin_open(args[1], false, &plugin));
    TPJ_TRY(tpj_client_create(plugin, 0, &s->client));
    s->feeds = calloc((size_t)tpj_graph_n_inputs(s->graph) + 1, sizeof *s->feeds);
    if (s->feeds == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of memory");
    TPJ_TRY(make_feeds(s, args + 3, n_args - 3));
    TPJ_TRY(count(s, &options));
    TPJ_TRY(compile_and_run(s, &options));
    for (int i = 0; i < tpj_program_n_results(s->program); i++) TPJ_TRY(print_result(s, i));
    return NULL;
}

int main(int n_args, char **args) {
    if (n_args < 3) {
        fprintf(stderr, "usage: %s PLUGIN.so GRAPH [VALUE ..], a VALUE being 1,2,3 or @file or -\n", args[0]);
        return 2;
    }
    session s = {NULL};
    int result = report(run(&s, args, n_args));
    release_program(&s);
    for (int i = 0; s.feeds != NULL && i < tpj_graph_n_inputs(s.graph); i++) tpj_buffer_release(s.feeds[i].buffer);
    free(s.feeds);
    free(s.sizes);
    tpj_graph_destroy(s.graph);
    if (s.client != NULL) tpj_client_destroy(s.client); /* after its buffers and programs */
    return result;
}
