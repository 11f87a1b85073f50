/*
 * grow.h - an array that grows at its end
 */
#ifndef HTH_BASE_GROW_H
#define HTH_BASE_GROW_H

#include <stddef.h>
#include <stdlib.h>

enum { HTH_GROW_FIRST = 16 }; /* items of the first allocation */

/*
 * The array with room for one more than its n items of size bytes: items itself while n < *capacity, otherwise a larger
 * one in its place, and *capacity doubles. NULL without memory: items and *capacity stay as they are. items came from
 * here, or is NULL with *capacity 0; free releases it.
 */
static inline void *hth_grown(void *items, size_t n, size_t *capacity, size_t size)
{
    size_t more = *capacity ? 2 * *capacity : HTH_GROW_FIRST, n_bytes;
    void *grown;

    if (n < *capacity)
        return items;
    if (more < *capacity || __builtin_mul_overflow(more, size, &n_bytes))
        return NULL;
    grown = realloc(items, n_bytes);
    if (grown)
        *capacity = more;
    return grown;
}

#endif
