/* Arena: memory that lives and dies together (a graph, a module under emission).
 *
 * One thread at a time. When memory runs out, allocation returns NULL and the arena is marked failed: code that fills
 * many small nodes may check once, at its end, with the flag. */
#ifndef TPJ_BASE_ARENA_H
#define TPJ_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tpj/status.h"

typedef struct tpj_arena_block tpj_arena_block;
typedef struct tpj_arena {
    tpj_arena_block *blocks; /* newest first */
    size_t n_bytes;          /* handed out so far */
    bool failed;
} tpj_arena;

void tpj_arena_init(tpj_arena *arena);
void tpj_arena_destroy(tpj_arena *arena);

/* Zeroed memory of n bytes, 16-byte aligned. NULL only when memory is out (the arena is then marked failed). */
void *tpj_arena_alloc(tpj_arena *arena, size_t n);
void *tpj_arena_copy(tpj_arena *arena, const void *data, size_t n);
/* A NUL-terminated copy of n characters / of a string / of a printf result. NULL only when memory is out. */
char *tpj_arena_string_n(tpj_arena *arena, const char *text, size_t n);
char *tpj_arena_string(tpj_arena *arena, const char *text);
char *tpj_arena_printf(tpj_arena *arena, const char *format, ...) TPJ_PRINTF(2, 3);

#define TPJ_ARENA_NEW(arena, type) ((type *)tpj_arena_alloc((arena), sizeof(type)))
#define TPJ_ARENA_ARRAY(arena, type, n) ((type *)tpj_arena_alloc((arena), sizeof(type) * (size_t)(n)))

#endif
