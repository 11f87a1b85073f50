#include "cache/segment.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { RUNS_MIN = 8 };

/* ---- which pages are held ---- */

/* The bits of pages [begin, end) that lie in word w. */
static uint64_t mask_of(uint32_t w, uint32_t begin, uint32_t end)
{
    uint64_t mask = UINT64_MAX;

    if (w == begin / 64)
        mask &= UINT64_MAX << begin % 64;
    if (w == (end - 1) / 64)
        mask &= UINT64_MAX >> (63 - (end - 1) % 64);
    return mask;
}

uint32_t hth_segment_hold(hth_segment *s, uint32_t begin, uint32_t n)
{
    uint32_t n_new = 0;

    for (uint32_t w = begin / 64; w <= (begin + n - 1) / 64; w++) {
        uint64_t mask = mask_of(w, begin, begin + n);

        n_new += (uint32_t)__builtin_popcountll(mask & ~s->held_bits[w]);
        s->held_bits[w] |= mask;
    }
    s->held += n_new;
    return n_new;
}

uint32_t hth_segment_n_held(const hth_segment *s, uint32_t begin, uint32_t n)
{
    uint32_t n_found = 0;

    for (uint32_t w = begin / 64; w <= (begin + n - 1) / 64; w++)
        n_found += (uint32_t)__builtin_popcountll(mask_of(w, begin, begin + n) & s->held_bits[w]);
    return n_found;
}

uint32_t hth_segment_let_go(hth_segment *s, uint32_t begin, uint32_t n)
{
    uint32_t n_gone = hth_segment_n_held(s, begin, n);

    for (uint32_t w = begin / 64; w <= (begin + n - 1) / 64; w++)
        s->held_bits[w] &= ~mask_of(w, begin, begin + n);
    s->held -= n_gone;
    return n_gone;
}

bool hth_segment_is_held(const hth_segment *s, uint32_t page)
{
    return s->held_bits[page / 64] >> page % 64 & 1;
}

/* ---- a mapping ---- */

uint64_t hth_segment_offset(const hth_segment *s, uint32_t page)
{
    return (uint64_t)s->place * HTH_ARENA_SEGMENT_BYTES + hth_page_bytes(page);
}

void hth_segment_free(hth_segment *s)
{
    if (!s)
        return;
    if (s->memory)
        (void)munmap(s->memory, hth_page_bytes(s->n_pages)); /* fails only for a bad range, our own bug */
    free(s->runs);
    free(s->held_bits);
    free(s);
}

hth_segment *hth_segment_new(int fd, uint64_t fd_begin, uint32_t place, uint32_t n_places)
{
    hth_segment *s = calloc(1, sizeof(*s));
    void *memory = MAP_FAILED;

    if (!s)
        return NULL;
    s->place = place;
    s->n_places = n_places;
    s->n_pages = n_places * HTH_SEGMENT_PAGES;
    s->longest = s->n_pages;
    s->capacity_runs = RUNS_MIN;
    s->runs = malloc(s->capacity_runs * sizeof(*s->runs));
    s->held_bits = calloc(s->n_pages / 64, sizeof(*s->held_bits));
    if (s->runs && s->held_bits)
        memory = mmap(NULL, hth_page_bytes(s->n_pages), PROT_READ | PROT_WRITE,
                      fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd,
                      fd < 0 ? 0 : (off_t)(fd_begin + hth_segment_offset(s, 0)));
    if (memory == MAP_FAILED) {
        hth_segment_free(s);
        return NULL;
    }
    s->memory = memory;
    s->runs[0] = (hth_run){ .begin = 0, .n = s->n_pages };
    s->n_runs = 1;
    return s;
}

/* ---- free runs ---- */

bool hth_segment_carve(hth_segment *s, size_t r, uint32_t begin, uint32_t n)
{
    hth_run *from;
    uint32_t left, right;

    if (s->n_slabs + 2 > s->capacity_runs) {
        uint32_t capacity = s->capacity_runs + s->capacity_runs / 2 + 2;
        hth_run *runs = realloc(s->runs, capacity * sizeof(*runs));

        if (!runs)
            return false;
        s->runs = runs;
        s->capacity_runs = capacity;
    }
    from = &s->runs[r];
    left = begin - from->begin;
    right = from->n - left - n;
    if (left > 0 && right > 0) {
        memmove(from + 1, from, (s->n_runs - r) * sizeof(*from));
        s->n_runs++;
        from[0].n = left;
        from[1] = (hth_run){ .begin = begin + n, .n = right };
    } else if (left > 0) {
        from->n = left;
    } else if (right > 0) {
        *from = (hth_run){ .begin = begin + n, .n = right };
    } else {
        memmove(from, from + 1, (s->n_runs - r - 1) * sizeof(*from));
        s->n_runs--;
    }
    s->n_slabs++;
    s->used += n;
    return true;
}

void hth_segment_give(hth_segment *s, uint32_t begin, uint32_t n)
{
    size_t at = 0;
    bool joins_left, joins_right;

    while (at < s->n_runs && s->runs[at].begin < begin)
        at++;
    joins_left = at > 0 && s->runs[at - 1].begin + s->runs[at - 1].n == begin;
    joins_right = at < s->n_runs && begin + n == s->runs[at].begin;
    if (joins_left && joins_right) {
        s->runs[at - 1].n += n + s->runs[at].n;
        memmove(&s->runs[at], &s->runs[at + 1], (s->n_runs - at - 1) * sizeof(s->runs[0]));
        s->n_runs--;
        at--;
    } else if (joins_left) {
        at--;
        s->runs[at].n += n;
    } else if (joins_right) {
        s->runs[at].begin = begin;
        s->runs[at].n += n;
    } else {
        assert(s->n_runs < s->capacity_runs);
        memmove(&s->runs[at + 1], &s->runs[at], (s->n_runs - at) * sizeof(s->runs[0]));
        s->runs[at] = (hth_run){ .begin = begin, .n = n };
        s->n_runs++;
    }
    if (s->runs[at].n > s->longest)
        s->longest = s->runs[at].n;
    s->used -= n;
}
