/* What the parts of a call cost without PyTorch: finding its program under its key, making and freeing a storage, launching
 * x + y, reading one number. One line of JSON: nanoseconds, the best of several rounds.
 *
 *     build/bench/dispatch PLUGIN.so */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "eager/eager.h"

enum { N_CALLS = 5000, N_ROUNDS = 7, N_KEYS = 1000, N_WORDS = 8 };

static tpj_program *program;
static tpj_storage *x, *y;
static uint64_t keys[N_KEYS][N_WORDS];

static void check(tpj_status *status) {
    if (status == NULL) return;
    fprintf(stderr, "%s\n", tpj_status_message(status));
    exit(1);
}

static void prepare(void) {
    static const char text[] = "graph {\n  %0 = input f32[8, 8]\n  %1 = input f32[8, 8]\n"
                               "  %2 = add.Tensor(self=%0, other=%1, alpha=1)\n}\n";
    static const int64_t dims[2] = {8, 8};
    static const tpj_lower_options options;
    float ones[64];
    tpj_graph *graph;
    for (int i = 0; i < 64; i++) ones[i] = 1;
    check(tpj_storage_create(0, sizeof ones, &x));
    check(tpj_storage_create(0, sizeof ones, &y));
    check(tpj_storage_from_host(x, TPJ_F32, 2, dims, ones));
    check(tpj_storage_from_host(y, TPJ_F32, 2, dims, ones));
    check(tpj_graph_parse(text, strlen(text), &graph));
    check(tpj_eager_compile(keys[0], N_WORDS, 0, graph, &options, &program));
    for (int i = 1; i < N_KEYS; i++) { /* a table as full as a program's that has many shapes */
        tpj_program *same;
        keys[i][0] = (uint64_t)i;
        if (i % 50 != 0) continue;
        check(tpj_eager_compile(keys[i], N_WORDS, 0, graph, &options, &same));
        tpj_program_release(same);
    }
    tpj_graph_destroy(graph);
    check(tpj_runtime_synchronize(0));
}

static void look_up(void) { tpj_program_release(tpj_eager_find(keys[0], N_WORDS)); }
static void look_up_in_vain(void) { (void)tpj_eager_find(keys[1], N_WORDS); }

static void make_storage(void) {
    tpj_storage *storage;
    check(tpj_storage_create(0, 256, &storage));
    tpj_storage_destroy(storage);
}

static void launch(void) {
    tpj_operand operands[2] = {{.storage = x}, {.storage = y}};
    tpj_storage *result;
    check(tpj_eager_run(program, 0, operands, 2, NULL, &result));
    tpj_storage_destroy(result);
}

static void read_number(void) {
    float number;
    check(tpj_storage_to_host(x, 0, &number, sizeof number));
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double nanoseconds(void (*call)(void)) {
    double best = 1e9;
    for (int round = 0; round < N_ROUNDS; round++) {
        double began = seconds();
        for (int i = 0; i < N_CALLS; i++) call();
        double took = seconds() - began;
        if (took < best) best = took;
    }
    return best / N_CALLS * 1e9;
}

int main(int n_args, char **args) {
    static const struct {
        const char *name;
        void (*call)(void);
    } parts[] = {{"find a program", look_up},
                 {"find none", look_up_in_vain},
                 {"make and free a storage", make_storage},
                 {"launch x + y", launch},
                 {"read a number", read_number}};
    if (n_args != 2) {
        fprintf(stderr, "usage: %s PLUGIN.so\n", args[0]);
        return 2;
    }
    tpj_runtime_configure(args[1], "", 1);
    check(tpj_runtime_start());
    prepare();
    printf("{");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        printf("%s\"%s ns\": %.1f", i > 0 ? ", " : "", parts[i].name, nanoseconds(parts[i].call));
    printf("}\n");
    tpj_program_release(program);
    return 0;
}
