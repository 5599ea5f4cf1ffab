#include "runner.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/config.h"

static test *tests;
static bool failed;
static const char *skipped;

void test_register(test *one) {
    test **link = &tests; /* kept in order of names: constructors run in no order to rely on */
    while (*link != NULL && strcmp((*link)->name, one->name) < 0) link = &(*link)->next;
    one->next = *link;
    *link = one;
}

void test_fail(const char *file, int line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("%s:%d: ", file, line);
    vprintf(format, args);
    printf("\n");
    va_end(args);
    failed = true;
}

void test_skip(const char *why) { skipped = why; }
bool test_status_is(tpj_status *status, tpj_code code, const char *part) {
    bool fits = tpj_status_code(status) == code && strstr(tpj_status_message(status), part) != NULL;
    if (!fits)
        printf("status: code %d, %s; expected code %d, %s\n", (int)tpj_status_code(status), tpj_status_message(status),
               (int)code, part);
    tpj_status_destroy(status);
    return fits;
}

int main(int n_args, char **args) {
    int n_passed = 0, n_failed = 0, n_skipped = 0;
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was printed before a crash tells where */
    for (const test *one = tests; one != NULL; one = one->next) {
        if (n_args > 1 && strstr(one->name, args[1]) == NULL) continue;
        failed = false;
        skipped = NULL;
        /* the user's folder is not ours to fill */
        tpj_status_destroy(tpj_config_set(tpj_config_find("cache_dir"), "none"));
        tpj_status_destroy(tpj_config_set(tpj_config_find("compile_threads"), "0")); /* where faults fall is known */
        one->run();
        n_failed += failed;
        n_skipped += !failed && skipped != NULL;
        n_passed += !failed && skipped == NULL;
        if (failed) printf("FAILED %s\n", one->name);
        if (!failed && skipped != NULL) printf("skipped %s: %s\n", one->name, skipped);
    }
    printf("c tests: %d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
    return n_failed > 0 || n_passed + n_skipped == 0;
}
