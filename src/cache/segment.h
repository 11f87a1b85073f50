/*
 * segment.h - one mapping of an arena: its free runs of pages, and one bit per page that says whether the page is held
 *
 * The free runs are in an array sorted by position. A returned run joins its neighbours. A page is held once it was
 * touched or promised to a slab.
 *
 * Segments have places, counted in segment lengths; in a file a place is an offset. Not thread-safe: the lock of the
 * arena guards its segments.
 */
#ifndef HTH_CACHE_SEGMENT_H
#define HTH_CACHE_SEGMENT_H

#include <stdbool.h>

#include "cache/arena.h"

#define HTH_PAGE_BYTES ((size_t)4096)
#define HTH_SEGMENT_PAGES ((uint32_t)(HTH_ARENA_SEGMENT_BYTES / HTH_PAGE_BYTES))

typedef struct hth_run { /* pages */
    uint32_t begin;
    uint32_t n;
} hth_run;

typedef struct hth_segment {
    uint8_t *memory;
    uint32_t place;
    uint32_t n_places; /* more than one for a single large slab */
    uint32_t n_pages;
    uint32_t used; /* pages in slabs */
    uint32_t held;
    uint32_t n_slabs;
    uint32_t longest; /* upper bound of the longest free run */
    bool small_pages;
    uint32_t n_runs;
    uint32_t capacity_runs;
    hth_run *runs;       /* free, by position, never adjacent */
    uint64_t *held_bits; /* one bit per page */
} hth_segment;

static inline size_t hth_page_bytes(uint64_t n_pages)
{
    return (size_t)n_pages * HTH_PAGE_BYTES;
}

/*
 * Make a segment: one free run of pages that are not held, in private memory (fd -1) or in a file whose segments begin
 * at fd_begin. The place must be free. NULL without memory or addresses.
 */
hth_segment *hth_segment_new(int fd, uint64_t fd_begin, uint32_t place, uint32_t n_places);
/* Unmap a segment. Accepts NULL. */
void hth_segment_free(hth_segment *s);
/* The offset of a page from the first place. */
uint64_t hth_segment_offset(const hth_segment *s, uint32_t page);

/* Hold n > 0 pages. Returns how many of them were not held before. */
uint32_t hth_segment_hold(hth_segment *s, uint32_t begin, uint32_t n);
/* Note that n > 0 pages were returned to the system. Returns how many of them were held. */
uint32_t hth_segment_let_go(hth_segment *s, uint32_t begin, uint32_t n);
uint32_t hth_segment_n_held(const hth_segment *s, uint32_t begin, uint32_t n);
bool hth_segment_is_held(const hth_segment *s, uint32_t page);

/*
 * Turn n pages from begin on, which lie in free run r, into a slab. This also makes room for the resulting free runs: n
 * slabs divide a segment into at most n + 1 of them, so giving a slab back cannot fail. False without memory.
 */
bool hth_segment_carve(hth_segment *s, size_t r, uint32_t begin, uint32_t n);
/* Free the pages of a slab; they join the runs beside them. */
void hth_segment_give(hth_segment *s, uint32_t begin, uint32_t n);

#endif
