/* Unit tests in C: src/<folder>/<name>_test.c holds tests, which register themselves. A check that fails says where and
 * what, and ends its test. build/asan/unit_tests [part of a name] runs them.
 *
 *     TEST(arena_gives_zeroed_memory) {
 *         CHECK(p != NULL);
 *     } */
#ifndef TPJ_TESTS_RUNNER_H
#define TPJ_TESTS_RUNNER_H

#include <stdbool.h>
#include <string.h>

#include "tpj/status.h"
typedef struct test {
    const char *name;
    void (*run)(void);
    struct test *next;
} test;

void test_register(test *one);
void test_fail(const char *file, int line, const char *format, ...) TPJ_PRINTF(3, 4);
void test_skip(const char *why); /* the caller returns */
/* Takes the status; true when it has that code and its message contains `part`. */
bool test_status_is(tpj_status *status, tpj_code code, const char *part);

#define TEST(test_name)                                                   \
    static void test_name(void);                                          \
    __attribute__((constructor)) static void register_##test_name(void) { \
        static test one = {#test_name, test_name, NULL};                  \
        test_register(&one);                                              \
    }                                                                     \
    static void test_name(void)

#define CHECK_OR(condition, ...)                        \
    do {                                                \
        if (!(condition)) {                             \
            test_fail(__FILE__, __LINE__, __VA_ARGS__); \
            return;                                     \
        }                                               \
    } while (0)
#define CHECK(condition) CHECK_OR(condition, "%s", #condition)
#define CHECK_OK(status) CHECK_ERROR(status, TPJ_OK, "")
#define CHECK_ERROR(status, code, part) CHECK_OR(test_status_is((status), (code), (part)), "%s", #status)
#define CHECK_STRING(a, b) CHECK_OR(strcmp((a), (b)) == 0, "%s is \"%s\", expected \"%s\"", #a, (a), (b))
#define CHECK_INT(a, b) CHECK_OR((a) == (b), "%s is %lld, expected %lld", #a, (long long)(a), (long long)(b))
#endif
