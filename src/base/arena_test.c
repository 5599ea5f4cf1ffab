#include "base/arena.h"

#include <stdint.h>

#include "runner.h"

TEST(arena_gives_aligned_zeroed_memory) {
    tpj_arena arena;
    tpj_arena_init(&arena);
    bool aligned = true, zeroed = true;
    for (size_t n = 0; n < 3000; n += 7) {
        unsigned char *memory = tpj_arena_alloc(&arena, n);
        aligned = aligned && (uintptr_t)memory % 16 == 0;
        for (size_t i = 0; i < n; i++) zeroed = zeroed && memory[i] == 0;
        memset(memory, 0xff, n); /* the next one must not see it, nor overlap */
    }
    bool failed = arena.failed;
    tpj_arena_destroy(&arena);
    CHECK(aligned);
    CHECK(zeroed);
    CHECK(!failed);
}

TEST(arena_blocks_do_not_overlap) {
    enum { N = 200 };
    tpj_arena arena;
    int *numbers[N];
    int wrong = 0;
    tpj_arena_init(&arena);
    for (int i = 0; i < N; i++) {
        numbers[i] = TPJ_ARENA_ARRAY(&arena, int, 1 + i * 13);
        for (int j = 0; j < 1 + i * 13; j++) numbers[i][j] = i;
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < 1 + i * 13; j++) wrong += numbers[i][j] != i;
    tpj_arena_destroy(&arena);
    CHECK_INT(wrong, 0);
}

TEST(arena_copies_text) {
    tpj_arena arena;
    tpj_arena_init(&arena);
    const char *part = tpj_arena_string_n(&arena, "abcdef", 3);
    const char *whole = tpj_arena_string(&arena, "abc");
    const char *printed = tpj_arena_printf(&arena, "%s-%05d", "x", 42);
    bool fits = strcmp(part, whole) == 0 && strcmp(printed, "x-00042") == 0;
    tpj_arena_destroy(&arena);
    CHECK(fits);
}

TEST(arena_refuses_a_size_that_cannot_be) {
    tpj_arena arena;
    tpj_arena_init(&arena);
    tpj_arena_alloc(&arena, 1); /* a block with room, which a size that wraps around would seem to fit */
    void *huge = tpj_arena_alloc(&arena, SIZE_MAX / 2 + 1);
    void *nearly = tpj_arena_alloc(&arena, SIZE_MAX - 3);
    bool failed = arena.failed;
    tpj_arena_destroy(&arena);
    CHECK(huge == NULL);
    CHECK(nearly == NULL);
    CHECK(failed);
}
