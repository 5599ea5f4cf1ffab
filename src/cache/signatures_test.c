#include "cache/signatures.h"

#include <stdlib.h>

#include "allocation.h"
#include "runner.h"

static int n_dropped;
static uintptr_t dropped_sum;

static void drop(void *value) {
    n_dropped++;
    dropped_sum += (uintptr_t)value;
}

static void *number(uintptr_t n) { return (void *)n; }

static void start(tpj_signatures *signatures, size_t most_bytes) {
    n_dropped = 0;
    dropped_sum = 0;
    tpj_signatures_init(signatures, most_bytes, drop);
}

TEST(signatures_find_what_was_inserted) {
    tpj_signatures s;
    start(&s, SIZE_MAX);
    uint64_t a[3] = {1, 2, 3}, b[3] = {1, 2, 4};
    CHECK(tpj_signatures_find(&s, a, 3) == NULL);
    CHECK_OK(tpj_signatures_insert(&s, a, 3, number(10), 1));
    CHECK_OK(tpj_signatures_insert(&s, b, 3, number(20), 1));
    CHECK_OK(tpj_signatures_insert(&s, a, 2, number(30), 1)); /* a prefix is another key */
    CHECK(tpj_signatures_find(&s, a, 3) == number(10));
    CHECK(tpj_signatures_find(&s, b, 3) == number(20));
    CHECK(tpj_signatures_find(&s, a, 2) == number(30));
    CHECK(tpj_signatures_find(&s, a, 1) == NULL);
    CHECK_INT(s.n_bytes, 3);
    tpj_signatures_destroy(&s);
    CHECK_INT(n_dropped, 3);
    CHECK_INT(dropped_sum, 60);
}

TEST(signatures_replace) {
    tpj_signatures s;
    start(&s, SIZE_MAX);
    uint64_t key[1] = {7};
    CHECK_OK(tpj_signatures_insert(&s, key, 1, number(1), 10));
    CHECK_OK(tpj_signatures_insert(&s, key, 1, number(2), 20));
    CHECK(tpj_signatures_find(&s, key, 1) == number(2));
    CHECK(n_dropped == 1 && dropped_sum == 1);
    CHECK(s.n_entries == 1 && s.n_bytes == 20);
    tpj_signatures_destroy(&s);
}

TEST(signatures_grow) {
    enum { N = 5000 };
    tpj_signatures s;
    start(&s, SIZE_MAX);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t key[2] = {i << 32, i & 3};
        CHECK_OK(tpj_signatures_insert(&s, key, 2, number(i + 1), 1));
    }
    for (uint64_t i = 0; i < N; i++) {
        uint64_t key[2] = {i << 32, i & 3}, absent[2] = {i << 32, 4};
        CHECK(tpj_signatures_find(&s, key, 2) == number(i + 1));
        CHECK(tpj_signatures_find(&s, absent, 2) == NULL);
    }
    CHECK_INT(s.n_entries, N);
    CHECK(s.capacity >= 2 * N && (s.capacity & (s.capacity - 1)) == 0);
    tpj_signatures_clear(&s);
    CHECK_INT(n_dropped, N);
    CHECK_INT(s.n_bytes, 0);
    uint64_t key[1] = {5};
    CHECK(tpj_signatures_find(&s, key, 1) == NULL);
    CHECK_OK(tpj_signatures_insert(&s, key, 1, number(1), 1)); /* usable again */
    tpj_signatures_destroy(&s);
}

/* The bound holds, what was used lately stays, and what left was given back once. */
TEST(signatures_evict_the_least_recently_used) {
    enum { N = 2000, MOST = 100 };
    tpj_signatures s;
    start(&s, MOST);
    uint64_t hot[1] = {UINT64_MAX};
    CHECK_OK(tpj_signatures_insert(&s, hot, 1, number(9), 1));
    for (uint64_t i = 0; i < N; i++) {
        CHECK_OK(tpj_signatures_insert(&s, &i, 1, number(1), 1));
        CHECK(tpj_signatures_find(&s, &i, 1) == number(1)); /* the newest is there */
        CHECK(tpj_signatures_find(&s, hot, 1) == number(9));
        CHECK(s.n_bytes <= MOST && s.n_entries == s.n_bytes);
    }
    CHECK(s.n_entries >= MOST / 2); /* batches, not everything */
    CHECK_INT(n_dropped + (int)s.n_entries, N + 1);
    tpj_signatures_destroy(&s);
    CHECK_INT(n_dropped, N + 1);
}

TEST(signatures_hold_one_entry_that_is_too_large) {
    tpj_signatures s;
    start(&s, 10);
    uint64_t key[1] = {1};
    CHECK_OK(tpj_signatures_insert(&s, key, 1, number(1), 1000));
    tpj_status *status = tpj_signatures_insert(&s, key, 1, number(2), 1000);
    CHECK_OK(status);
    tpj_signatures_destroy(&s);
    CHECK_INT(n_dropped, 2);
}

TEST(signatures_without_memory) {
    for (int nth = 1; nth < 4; nth++) {
        tpj_signatures s;
        start(&s, SIZE_MAX);
        uint64_t key[1] = {1};
        long live = allocation_n_live();
        allocation_fail(nth, false);
        tpj_status *status = tpj_signatures_insert(&s, key, 1, number(1), 1);
        bool failed = allocation_has_failed();
        allocation_fail(0, false);
        if (failed) {
            CHECK_ERROR(status, TPJ_OUT_OF_MEMORY, "");
            CHECK_INT(n_dropped, 1); /* the value was taken all the same */
            CHECK(tpj_signatures_find(&s, key, 1) == NULL);
            CHECK_OK(tpj_signatures_insert(&s, key, 1, number(1), 1));
        } else {
            CHECK_OK(status);
        }
        CHECK(tpj_signatures_find(&s, key, 1) == number(1));
        tpj_signatures_destroy(&s);
        CHECK_INT(allocation_n_live(), live);
    }
}
