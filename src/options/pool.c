/*
 * pool.c - a list of allocations
 *
 * A configuration has a few hundred texts and is read rarely. So each text is a separate allocation, and memory
 * checkers find accesses beyond its end.
 */
#include "options/pool.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct piece {
    struct piece *next;
    max_align_t bytes[];
} piece;

struct hth_pool {
    piece *pieces;
    bool lacked_memory;
};

hth_pool *hth_pool_new(void)
{
    return calloc(1, sizeof(hth_pool));
}

void hth_pool_free(hth_pool *pool)
{
    piece *next;

    for (piece *p = pool ? pool->pieces : NULL; p; p = next) {
        next = p->next;
        free(p);
    }
    free(pool);
}

void *hth_pool_alloc(hth_pool *pool, size_t n_bytes)
{
    piece *p = n_bytes < SIZE_MAX / 2 ? calloc(1, sizeof(*p) + n_bytes) : NULL;

    if (!p) {
        pool->lacked_memory = true;
        return NULL;
    }
    p->next = pool->pieces;
    pool->pieces = p;
    return p->bytes;
}

char *hth_pool_text(hth_pool *pool, const char *text, size_t n)
{
    char *copy = hth_pool_alloc(pool, n + 1);

    if (copy)
        memcpy(copy, text, n);
    return copy;
}

char *hth_pool_format(hth_pool *pool, const char *format, ...)
{
    char text[HTH_POOL_FORMAT_BYTES];
    va_list arguments;
    int n;

    va_start(arguments, format);
    n = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return n >= 0 && n < (int)sizeof(text) ? hth_pool_text(pool, text, (size_t)n) : NULL;
}

bool hth_pool_lacked_memory(const hth_pool *pool)
{
    return pool->lacked_memory;
}
