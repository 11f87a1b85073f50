/*
 * grow.h - an array that grows at its end
 */
#ifndef HTH_BASE_GROW_H
#define HTH_BASE_GROW_H

#include <stddef.h>
#include <stdlib.h>

enum { HTH_GROW_FIRST = 16 }; /* items of the first allocation */

/*
 * Make room for n_more (at least 1) items of size bytes after the array's n items. Returns items itself if they fit in
 * *capacity, otherwise a larger array that replaces it, with *capacity at least doubled. NULL without memory: items and
 * *capacity are unchanged. items comes from this function, or is NULL with *capacity 0. Release it with free.
 */
static inline void *hth_grown_by(void *items, size_t n, size_t n_more, size_t *capacity, size_t size)
{
    size_t more = *capacity ? 2 * *capacity : HTH_GROW_FIRST, n_needed, n_bytes;
    void *grown;

    if (__builtin_add_overflow(n, n_more, &n_needed))
        return NULL;
    if (n_needed <= *capacity)
        return items;
    if (more < n_needed)
        more = n_needed;
    if (more < *capacity || __builtin_mul_overflow(more, size, &n_bytes))
        return NULL;
    grown = realloc(items, n_bytes);
    if (grown)
        *capacity = more;
    return grown;
}

/* The same for one more item. */
static inline void *hth_grown(void *items, size_t n, size_t *capacity, size_t size)
{
    return hth_grown_by(items, n, 1, capacity, size);
}

#endif
