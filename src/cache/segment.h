/*
 * segment.h - one mapping of an arena: its free runs of pages, and a bit a page for whether the page is held
 *
 * The free runs are in an array sorted by position; a run that is given back joins its neighbours. A page is held when it
 * was touched, or promised to a slab.
 *
 * Segments have places, counted in segment lengths; in a file they are offsets. Not thread-safe: the arena's lock guards
 * its segments.
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
    uint32_t n_places; /* more than one: for a single large slab */
    uint32_t n_pages;
    uint32_t used; /* pages in slabs */
    uint32_t held;
    uint32_t n_slabs;
    uint32_t longest; /* no free run is longer; it may be less */
    bool small_pages;
    uint32_t n_runs;
    uint32_t capacity_runs;
    hth_run *runs;       /* free, by position, never adjacent */
    uint64_t *held_bits; /* a bit a page */
} hth_segment;

static inline size_t hth_page_bytes(uint64_t n_pages)
{
    return (size_t)n_pages * HTH_PAGE_BYTES;
}

/*
 * One free run of pages that are not held, in private memory (fd -1) or in a file whose segments begin at fd_begin. The
 * place must be free. NULL without memory or addresses.
 */
hth_segment *hth_segment_new(int fd, uint64_t fd_begin, uint32_t place, uint32_t n_places);
/* Unmaps it. Accepts NULL. */
void hth_segment_free(hth_segment *s);
/* Of a page, from the first place on. */
uint64_t hth_segment_offset(const hth_segment *s, uint32_t page);

/* Hold n > 0 pages; returns how many were not held before. */
uint32_t hth_segment_hold(hth_segment *s, uint32_t begin, uint32_t n);
/* n > 0 pages went back to the system; returns how many of them were held. */
uint32_t hth_segment_let_go(hth_segment *s, uint32_t begin, uint32_t n);
uint32_t hth_segment_n_held(const hth_segment *s, uint32_t begin, uint32_t n);
bool hth_segment_is_held(const hth_segment *s, uint32_t page);

/*
 * Make n pages from begin on, which lie in free run r, a slab. Room for the free runs that may come is made here: n
 * slabs part a segment into at most n + 1 of them, so that giving one back cannot fail. False without memory.
 */
bool hth_segment_carve(hth_segment *s, size_t r, uint32_t begin, uint32_t n);
/* Pages of a slab become free and join the runs beside them. */
void hth_segment_give(hth_segment *s, uint32_t begin, uint32_t n);

#endif
