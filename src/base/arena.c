#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tpj_arena_block {
    tpj_arena_block *next;
    size_t capacity, used;
    _Alignas(16) unsigned char data[];
};

enum { BLOCK_BYTES = 16 * 1024, ALIGNMENT = 16 };

void tpj_arena_init(tpj_arena *arena) { *arena = (tpj_arena){0}; }

void tpj_arena_destroy(tpj_arena *arena) {
    for (tpj_arena_block *block = arena->blocks, *next; block != NULL; block = next) {
        next = block->next;
        free(block);
    }
    *arena = (tpj_arena){0};
}

void *tpj_arena_alloc(tpj_arena *arena, size_t n) {
    size_t need = (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    tpj_arena_block *block = arena->blocks;
    if (n > SIZE_MAX / 2 || block == NULL || block->capacity - block->used < need) {
        size_t capacity = need > BLOCK_BYTES ? need : BLOCK_BYTES;
        block = n > SIZE_MAX / 2 ? NULL : malloc(sizeof *block + capacity);
        if (block == NULL) {
            arena->failed = true;
            return NULL;
        }
        *block = (tpj_arena_block){.next = arena->blocks, .capacity = capacity};
        arena->blocks = block;
    }
    void *memory = block->data + block->used;
    block->used += need;
    arena->n_bytes += need;
    return memset(memory, 0, n);
}

void *tpj_arena_copy(tpj_arena *arena, const void *data, size_t n) {
    void *memory = tpj_arena_alloc(arena, n);
    if (memory != NULL && n > 0) memcpy(memory, data, n);
    return memory;
}

char *tpj_arena_string_n(tpj_arena *arena, const char *text, size_t n) {
    char *copy = tpj_arena_alloc(arena, n + 1);
    if (copy != NULL) memcpy(copy, text, n);
    return copy;
}

char *tpj_arena_string(tpj_arena *arena, const char *text) { return tpj_arena_string_n(arena, text, strlen(text)); }

char *tpj_arena_printf(tpj_arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *text = n < 0 ? NULL : tpj_arena_alloc(arena, (size_t)n + 1);
    if (text != NULL) vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}
