/*
 * arena.c - slabs in the best-fitting runs of mapped segments (segment.h), within a limit of held memory
 *
 * The arena holds the pages of every slab. When that exceeds the limit, free held pages go back to the system, those of
 * the last segment first, so that this segment drains. A slab larger than a segment gets its own mapping of several
 * segment lengths, which is unmapped with it.
 *
 * Segments have places, counted in segment lengths. In a file they are offsets, so a slab's offset and length alone
 * determine its place in its segment.
 *
 * The helper thread sleeps until less than half a segment of held memory is free. Then, once no slab has been taken for
 * a while, it maps and touches one more segment, if the limit allows. But when the slabs of a series are cold, as in a
 * prefill on a GPU, the helper starts at once and stays ahead of the series; otherwise all further slabs would be cold,
 * too. For a series it touches a segment only as far as slabs of that size fit into it. Slabs taken in the meantime
 * still work: they fault as they are written. A thread that can get a slab only in this segment waits until the helper
 * has touched its current piece, perhaps while holding locks. So the helper lowers its priority only by a nice value:
 * with an idle policy, that thread could wait for as long as all cores decode.
 *
 * Invariant: held_bytes is the sum over the segments (plus the bytes that are being warmed). It exceeds bytes_max plus
 * the spare part only because of bytes in slabs. A range of the file that is being given back is not in any segment.
 */
#include "cache/arena.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/grow.h"
#include "base/os.h"
#include "cache/segment.h"

#define WARM_BYTES ((size_t)2 << 20) /* a huge page */
#define SLAB_BYTES_MAX ((size_t)1 << 42)
enum {
    QUIET_MS = 100,
    SERIES_AHEAD = 4,   /* slabs that are touched ahead of a series */
    ADDRESS_FACTOR = 4, /* addresses per byte of memory; no observed mixture of row sizes needed half of them */
    SPARE_PLACES = 4,
    CLAIMED_SEGMENTS_MAX = 8192, /* a bound on the mappings that a damaged directory can cause */
};
static_assert(HTH_ARENA_SEGMENT_BYTES % WARM_BYTES == 0, "a segment is warmed in whole pieces");
static_assert(SLAB_BYTES_MAX / HTH_PAGE_BYTES <= UINT32_MAX / 2, "pages of a segment are counted in 32 bits");

struct hth_arena {
    bool warm;
    bool has_warmer;
    pthread_t warmer;
    int fd;
    uint64_t fd_begin;

    /*
     * Guards the fields below. Innermost lock. Its holder maps segments and gives pages back to the system; page
     * faults, reads and writes of slabs happen without it.
     */
    pthread_mutex_t lock;
    pthread_cond_t wanted; /* wakes the warmer */
    pthread_cond_t warmed; /* a segment is ready */
    uint64_t bytes_max;
    uint64_t file_bytes;    /* size of the file */
    hth_segment *warming;   /* being warmed: it has no runs yet; held_bytes and used_bytes count all of it */
    bool is_awaited;        /* a thread waits for it, warm or not */
    hth_segment **segments; /* by place */
    size_t n_segments;
    size_t capacity_segments;
    uint64_t address_bytes;
    uint64_t held_bytes;
    uint64_t used_bytes;
    uint64_t n_taken;    /* calls of hth_arena_take so far */
    size_t series_bytes; /* of a slab of the series; 0: none yet */
    int64_t n_owed;      /* slabs still to be touched for it; below 0: more were touched than it needs */
    bool has_claims;     /* all slabs of the file are known: pages outside them are free */
    bool closing;
};

size_t hth_arena_slab_bytes(size_t n_bytes)
{
    if (n_bytes == 0)
        return HTH_PAGE_BYTES;
    return n_bytes > SIZE_MAX - HTH_PAGE_BYTES ? SIZE_MAX
                                               : (n_bytes + HTH_PAGE_BYTES - 1) / HTH_PAGE_BYTES * HTH_PAGE_BYTES;
}

/* ---- segments ---- */

/* The number of places that may be mapped: more than bytes_max needs, because only memory is scarce. */
static uint64_t places_max_locked(const hth_arena *arena)
{
    uint64_t places = arena->bytes_max / HTH_ARENA_SEGMENT_BYTES;

    return places > UINT32_MAX / 8 ? UINT32_MAX / 2 : ADDRESS_FACTOR * (places + 1) + SPARE_PLACES;
}

/* Make the file at least that long, counted from fd_begin. */
static bool grow_file_locked(hth_arena *arena, uint64_t n_bytes)
{
    uint64_t end;

    if (arena->fd < 0)
        return true;
    if (__builtin_add_overflow(arena->fd_begin, n_bytes, &end) || end > INT64_MAX)
        return false;
    if (end <= arena->file_bytes)
        return true;
    if (ftruncate(arena->fd, (off_t)end) != 0)
        return false;
    arena->file_bytes = end;
    return true;
}

/* Map n_places from place on; segments[at] is the next segment after them. */
static hth_segment *map_locked(hth_arena *arena, size_t at, uint32_t place, uint32_t n_places)
{
    hth_segment **segments =
        hth_grown(arena->segments, arena->n_segments, &arena->capacity_segments, sizeof(*segments));
    hth_segment *s;

    if (!segments)
        return NULL;
    arena->segments = segments;
    if (!grow_file_locked(arena, ((uint64_t)place + n_places) * HTH_ARENA_SEGMENT_BYTES))
        return NULL;
    s = hth_segment_new(arena->fd, arena->fd_begin, place, n_places);
    if (!s)
        return NULL;
    memmove(&arena->segments[at + 1], &arena->segments[at], (arena->n_segments - at) * sizeof(hth_segment *));
    arena->segments[at] = s;
    arena->n_segments++;
    arena->address_bytes += hth_page_bytes(s->n_pages);
    return s;
}

/* A new segment in the lowest gap that is wide enough. */
static hth_segment *add_segment_locked(hth_arena *arena, uint32_t n_places)
{
    uint64_t place = 0;
    size_t at = 0;

    for (; at < arena->n_segments; at++) {
        const hth_segment *s = arena->segments[at];

        if (s->place - place >= n_places)
            break;
        place = (uint64_t)s->place + s->n_places;
    }
    if (place + n_places > places_max_locked(arena))
        return NULL;
    return map_locked(arena, at, (uint32_t)place, n_places);
}

/* Return pages to the system that are in no slab, or in a slab that is no longer used. */
static void discard_pages_locked(hth_arena *arena, hth_segment *s, uint32_t begin, uint32_t n)
{
    if (!s->small_pages)
        hth_os_memory_small_pages(s->memory, hth_page_bytes(s->n_pages));
    s->small_pages = true;
    if (arena->fd < 0)
        hth_os_memory_discard(s->memory + hth_page_bytes(begin), hth_page_bytes(n));
    else
        (void)hth_os_file_punch(arena->fd, arena->fd_begin + hth_segment_offset(s, begin),
                                hth_page_bytes(n)); /* on failure it stays */
    arena->held_bytes -= hth_page_bytes(hth_segment_let_go(s, begin, n));
}

/* Discard up to n_pages held pages of a free run, starting at its end; returns how many. */
static uint64_t discard_run_locked(hth_arena *arena, hth_segment *s, hth_run free_run, uint64_t n_pages)
{
    uint32_t end = free_run.begin + free_run.n;
    uint64_t n_done = 0;

    while (end > free_run.begin && n_done < n_pages) {
        uint32_t begin = end;

        while (begin > free_run.begin && hth_segment_is_held(s, begin - 1) && end - begin < n_pages - n_done)
            begin--;
        if (begin == end) { /* not held */
            end--;
            continue;
        }
        discard_pages_locked(arena, s, begin, end - begin);
        n_done += end - begin;
        end = begin;
    }
    return n_done;
}

/* Give up to n_bytes of held memory that is in no slab back to the system; returns the bytes given. */
static uint64_t discard_free_locked(hth_arena *arena, uint64_t n_bytes)
{
    uint64_t n_pages = (n_bytes + HTH_PAGE_BYTES - 1) / HTH_PAGE_BYTES;
    uint64_t n_done = 0;

    for (size_t i = arena->n_segments; i > 0 && n_done < n_pages; i--) {
        hth_segment *s = arena->segments[i - 1];

        if (s->held <= s->used)
            continue;
        for (size_t r = s->n_runs; r > 0 && n_done < n_pages; r--)
            n_done += discard_run_locked(arena, s, s->runs[r - 1], n_pages - n_done);
    }
    return hth_page_bytes(n_done);
}

static void keep_limit_locked(hth_arena *arena)
{
    uint64_t held_max = arena->bytes_max + arena->bytes_max / HTH_ARENA_SPARE_PART;

    if (arena->held_bytes > held_max)
        (void)discard_free_locked(arena, arena->held_bytes - held_max); /* the rest is in slabs */
}

static size_t index_of_locked(const hth_arena *arena, const uint8_t *slab)
{
    size_t i = 0;

    while (i < arena->n_segments && !(slab >= arena->segments[i]->memory &&
                                      slab < arena->segments[i]->memory + hth_page_bytes(arena->segments[i]->n_pages)))
        i++;
    assert(i < arena->n_segments); /* the slab is from this arena */
    return i;
}

/* Take a segment without slabs out of the list; the caller frees it. */
static hth_segment *detach_locked(hth_arena *arena, size_t at)
{
    hth_segment *s = arena->segments[at];

    assert(s->used == 0);
    /* In a file the place may be mapped again at once, so its pages go now. */
    if (arena->fd >= 0 && s->held > 0)
        discard_pages_locked(arena, s, 0, s->n_pages);
    arena->held_bytes -= hth_page_bytes(s->held);
    arena->address_bytes -= hth_page_bytes(s->n_pages);
    arena->n_segments--;
    memmove(&arena->segments[at], &arena->segments[at + 1], (arena->n_segments - at) * sizeof(hth_segment *));
    return s;
}

/* ---- the helper thread ---- */

/* The bytes of a segment to touch next: as much as slabs of the series fit into, or all. */
static size_t warm_bytes_locked(const hth_arena *arena)
{
    size_t n_bytes = HTH_ARENA_SEGMENT_BYTES;

    if (arena->n_owed > 0)
        n_bytes -= n_bytes % arena->series_bytes;
    return (n_bytes + WARM_BYTES - 1) / WARM_BYTES * WARM_BYTES;
}

static bool wants_warming_locked(const hth_arena *arena)
{
    return (arena->n_owed > 0 || arena->held_bytes - arena->used_bytes < HTH_ARENA_SEGMENT_BYTES / 2) &&
           arena->held_bytes + warm_bytes_locked(arena) <= arena->bytes_max;
}

/*
 * Touch the start of a segment piece by piece, so that page faults of other threads never wait long for ours. Stop when
 * another thread needs the segment as it is. Returns the bytes touched.
 */
static size_t warm(hth_arena *arena, const hth_segment *s, size_t n_bytes)
{
    size_t at = 0;

    for (; at < n_bytes; at += WARM_BYTES) {
        bool stop;

        pthread_mutex_lock(&arena->lock);
        stop = arena->closing || arena->is_awaited;
        pthread_mutex_unlock(&arena->lock);
        if (stop)
            break;
        if (arena->fd >= 0 &&
            hth_os_file_allocate(arena->fd, arena->fd_begin + hth_segment_offset(s, (uint32_t)(at / HTH_PAGE_BYTES)),
                                 WARM_BYTES) != 0)
            break;
        hth_os_memory_prefault(s->memory + at, WARM_BYTES);
    }
    return at;
}

/*
 * Wait until no slab has been taken for a while: warming would slow down a running restore or prefill, through the
 * memory bus and the lock of the address space. False when a slab was taken, a series needs memory or the arena closes.
 */
static bool is_quiet_locked(hth_arena *arena)
{
    uint64_t n_taken = arena->n_taken;
    struct timespec deadline = hth_deadline_after(QUIET_MS);
    int waited = 0;

    while (waited != ETIMEDOUT && !arena->closing && arena->n_owed <= 0)
        waited = pthread_cond_timedwait(&arena->wanted, &arena->lock, &deadline);
    return !arena->closing && arena->n_owed <= 0 && arena->n_taken == n_taken;
}

/* Add a segment and touch it; false when the system has no memory. Unlocks in the meantime. */
static bool warm_one_locked(hth_arena *arena)
{
    const size_t n_bytes = warm_bytes_locked(arena);
    const bool is_of_series = arena->n_owed > 0;
    hth_segment *s = add_segment_locked(arena, 1);
    size_t n_warm;

    if (!s)
        return false;
    s->n_runs = 0; /* no slab may lie in it yet */
    s->longest = 0;
    arena->held_bytes += n_bytes; /* claimed, so that the limit holds in the meantime */
    arena->used_bytes += n_bytes;
    arena->warming = s;
    arena->is_awaited = false;
    pthread_mutex_unlock(&arena->lock);

    n_warm = warm(arena, s, n_bytes);

    pthread_mutex_lock(&arena->lock);
    arena->warming = NULL;
    arena->used_bytes -= n_bytes;
    arena->held_bytes -= n_bytes;
    if (is_of_series) /* at the limit, slabs take precedence */
        arena->n_owed = arena->is_awaited ? 0 : arena->n_owed - (int64_t)(n_warm / arena->series_bytes);
    s->runs[0] = (hth_run){ .begin = 0, .n = s->n_pages };
    s->n_runs = 1;
    s->longest = s->n_pages;
    if (n_warm > 0)
        arena->held_bytes += hth_page_bytes(hth_segment_hold(s, 0, (uint32_t)(n_warm / HTH_PAGE_BYTES)));
    keep_limit_locked(arena);
    pthread_cond_broadcast(&arena->warmed);
    return n_warm > 0;
}

static void *warm_segments(void *context)
{
    hth_arena *arena = context;
    bool first = true;

    hth_os_thread_name("hearth-arena");
    pthread_mutex_lock(&arena->lock);
    while (!arena->closing) {
        if (!wants_warming_locked(arena)) {
            pthread_cond_wait(&arena->wanted, &arena->lock);
            continue;
        }
        if (!first && arena->n_owed <= 0 && !is_quiet_locked(arena))
            continue;
        if (!warm_one_locked(arena) && !arena->closing)
            pthread_cond_wait(&arena->wanted, &arena->lock); /* no memory now; the next request tries again */
        /* The first segment is needed soon. For later ones, the restore that caused them takes precedence. */
        if (first)
            hth_os_thread_nice(HTH_OS_NICE_HELPER);
        first = false;
    }
    pthread_mutex_unlock(&arena->lock);
    return NULL;
}

static void start_warmer(hth_arena *arena)
{
    /* Without the helper only the first use of memory is slower. */
    arena->has_warmer = arena->warm && pthread_create(&arena->warmer, NULL, warm_segments, arena) == 0;
}

/* ---- opening and closing ---- */

hearth_status hth_arena_open(const hth_arena_options *options, hth_arena **out, hearth_error *err)
{
    hth_arena *arena = calloc(1, sizeof(*arena));
    struct stat st;

    assert(options->fd < 0 || options->fd_begin % HTH_ARENA_SEGMENT_BYTES == 0);
    if (!arena)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the RAM tier's arena");
    arena->fd = options->fd;
    arena->fd_begin = options->fd_begin;
    arena->bytes_max = options->bytes_max;
    arena->warm = options->warm;
    if (arena->fd >= 0) {
        if (fstat(arena->fd, &st) != 0) {
            hearth_status status = hth_fail_errno(err, errno, "cannot see the size of the RAM tier's memory");

            free(arena);
            return status;
        }
        arena->file_bytes = (uint64_t)st.st_size;
    }
    pthread_mutex_init(&arena->lock, NULL);
    hth_condition_init(&arena->wanted);
    pthread_cond_init(&arena->warmed, NULL);
    if (arena->fd < 0)
        start_warmer(arena);
    *out = arena;
    return HEARTH_OK;
}

void hth_arena_close(hth_arena *arena)
{
    if (!arena)
        return;
    pthread_mutex_lock(&arena->lock);
    arena->closing = true;
    pthread_cond_signal(&arena->wanted);
    pthread_mutex_unlock(&arena->lock);
    if (arena->has_warmer)
        pthread_join(arena->warmer, NULL);
    if (arena->has_claims)
        (void)hth_arena_release(arena, arena->held_bytes); /* what was warmed would stay in the file */
    for (size_t i = 0; i < arena->n_segments; i++)
        hth_segment_free(arena->segments[i]);
    free(arena->segments);
    pthread_cond_destroy(&arena->wanted);
    pthread_cond_destroy(&arena->warmed);
    pthread_mutex_destroy(&arena->lock);
    free(arena);
}

/* ---- slabs ---- */

/*
 * Choose a free run of n pages or more: the one with the fewest pages to fault in, then the shortest, then the lowest.
 * Few runs are long enough to be examined closely.
 */
static hth_segment *best_run_locked(hth_arena *arena, uint32_t n, size_t *run_out)
{
    hth_segment *best = NULL;
    uint32_t best_cold = UINT32_MAX, best_n = UINT32_MAX;

    for (size_t i = 0; i < arena->n_segments && (best_cold > 0 || best_n > n); i++) {
        hth_segment *s = arena->segments[i];
        uint32_t longest = 0;

        if (s->n_places > 1 || s->longest < n)
            continue;
        for (size_t r = 0; r < s->n_runs; r++) {
            uint32_t run_n = s->runs[r].n;
            uint32_t cold;

            if (run_n > longest)
                longest = run_n;
            if (run_n < n)
                continue;
            cold = s->held > s->used ? n - hth_segment_n_held(s, s->runs[r].begin, n) : n;
            if (cold < best_cold || (cold == best_cold && run_n < best_n)) {
                best = s;
                best_cold = cold;
                best_n = run_n;
                *run_out = r;
            }
        }
        s->longest = longest;
    }
    return best;
}

/* Take pages from any segment or from a new one; NULL when there are none. */
static uint8_t *take_locked(hth_arena *arena, size_t bytes, bool *cold_out)
{
    uint32_t n = (uint32_t)(bytes / HTH_PAGE_BYTES);
    uint32_t n_places = (n + HTH_SEGMENT_PAGES - 1) / HTH_SEGMENT_PAGES;
    uint32_t begin, n_new;
    size_t r = 0;
    hth_segment *s = n_places > 1 ? NULL : best_run_locked(arena, n, &r);

    if (!s)
        s = add_segment_locked(arena, n_places);
    if (!s)
        return NULL;
    begin = s->runs[r].begin;
    if (!hth_segment_carve(s, r, begin, n))
        return NULL;
    arena->used_bytes += bytes;
    n_new = hth_segment_hold(s, begin, n);
    arena->held_bytes += hth_page_bytes(n_new);
    keep_limit_locked(arena);
    *cold_out = n_new > 0;
    return s->memory + hth_page_bytes(begin);
}

uint8_t *hth_arena_take(hth_arena *arena, size_t n_bytes, bool *cold_out)
{
    size_t bytes = hth_arena_slab_bytes(n_bytes);
    uint8_t *slab = NULL;
    bool cold = false;

    if (bytes > SLAB_BYTES_MAX)
        return NULL;
    pthread_mutex_lock(&arena->lock);
    for (;;) {
        if (arena->used_bytes <= arena->bytes_max && bytes <= arena->bytes_max - arena->used_bytes)
            slab = take_locked(arena, bytes, &cold);
        if (slab || !arena->warming || bytes > arena->bytes_max)
            break;
        arena->is_awaited = true; /* its segment may be all the memory that the limit allows */
        pthread_cond_wait(&arena->warmed, &arena->lock);
    }
    arena->n_taken++;
    if (wants_warming_locked(arena))
        pthread_cond_signal(&arena->wanted);
    pthread_mutex_unlock(&arena->lock);
    if (cold_out)
        *cold_out = cold;
    return slab;
}

void hth_arena_more_follow(hth_arena *arena, size_t n_bytes, bool cold)
{
    size_t bytes = hth_arena_slab_bytes(n_bytes);

    if (bytes > HTH_ARENA_SEGMENT_BYTES)
        return;
    pthread_mutex_lock(&arena->lock);
    if (cold) {
        arena->series_bytes = bytes;
        arena->n_owed = SERIES_AHEAD;
    } else if (bytes == arena->series_bytes && arena->n_owed < SERIES_AHEAD) {
        arena->n_owed++;
    }
    if (wants_warming_locked(arena))
        pthread_cond_signal(&arena->wanted);
    pthread_mutex_unlock(&arena->lock);
}

bool hth_arena_commit(hth_arena *arena, uint8_t *slab, size_t n_bytes)
{
    size_t bytes = hth_arena_slab_bytes(n_bytes);
    hth_segment *s;
    uint32_t begin;
    bool done;

    if (arena->fd < 0)
        return true;
    done = hth_os_file_allocate(arena->fd, arena->fd_begin + hth_arena_offset(arena, slab), bytes) == 0;
    if (!done) {
        pthread_mutex_lock(&arena->lock);
        s = arena->segments[index_of_locked(arena, slab)];
        begin = (uint32_t)((size_t)(slab - s->memory) / HTH_PAGE_BYTES);
        discard_pages_locked(arena, s, begin, (uint32_t)(bytes / HTH_PAGE_BYTES));
        pthread_mutex_unlock(&arena->lock);
    }
    return done;
}

/* One empty segment is kept: otherwise a working set at its edge would map and unmap for every row. */
static bool is_one_too_many_locked(const hth_arena *arena, const hth_segment *just_emptied)
{
    if (just_emptied->n_places > 1)
        return true;
    for (size_t i = 0; i < arena->n_segments; i++) {
        const hth_segment *s = arena->segments[i];

        if (s != just_emptied && s != arena->warming && s->used == 0)
            return true;
    }
    return false;
}

void hth_arena_give(hth_arena *arena, uint8_t *slab, size_t n_bytes)
{
    size_t bytes = hth_arena_slab_bytes(n_bytes);
    hth_segment *unmapped = NULL;
    hth_segment *s;
    size_t at;

    if (!slab)
        return;
    pthread_mutex_lock(&arena->lock);
    at = index_of_locked(arena, slab);
    s = arena->segments[at];
    hth_segment_give(s, (uint32_t)((size_t)(slab - s->memory) / HTH_PAGE_BYTES), (uint32_t)(bytes / HTH_PAGE_BYTES));
    s->n_slabs--;
    arena->used_bytes -= bytes;
    if (s->used == 0 && is_one_too_many_locked(arena, s))
        unmapped = detach_locked(arena, at);
    keep_limit_locked(arena);
    pthread_mutex_unlock(&arena->lock);
    hth_segment_free(unmapped);
}

/* ---- limits ---- */

uint64_t hth_arena_release(hth_arena *arena, uint64_t n_bytes)
{
    uint64_t n_done;

    pthread_mutex_lock(&arena->lock);
    n_done = discard_free_locked(arena, n_bytes);
    pthread_mutex_unlock(&arena->lock);
    return n_done;
}

void hth_arena_set_bytes_max(hth_arena *arena, uint64_t bytes_max)
{
    pthread_mutex_lock(&arena->lock);
    arena->bytes_max = bytes_max;
    if (arena->held_bytes > bytes_max)
        (void)discard_free_locked(arena, arena->held_bytes - bytes_max); /* the rest is in slabs */
    if (wants_warming_locked(arena))
        pthread_cond_signal(&arena->wanted);
    pthread_mutex_unlock(&arena->lock);
}

/* ---- a file's slabs ---- */

uint64_t hth_arena_offset(hth_arena *arena, const uint8_t *slab)
{
    const hth_segment *s;
    uint64_t offset;

    pthread_mutex_lock(&arena->lock);
    s = arena->segments[index_of_locked(arena, slab)];
    offset = hth_segment_offset(s, 0) + (uint64_t)(slab - s->memory);
    pthread_mutex_unlock(&arena->lock);
    return offset;
}

/* The segment of exactly these places, mapped now if the places are free; NULL when another segment is there. */
static hth_segment *segment_at_locked(hth_arena *arena, uint32_t place, uint32_t n_places)
{
    size_t at = 0;

    while (at < arena->n_segments && arena->segments[at]->place < place)
        at++;
    if (at < arena->n_segments && arena->segments[at]->place == place)
        return arena->segments[at]->n_places == n_places ? arena->segments[at] : NULL;
    if (at > 0 && arena->segments[at - 1]->place + arena->segments[at - 1]->n_places > place)
        return NULL;
    if (at < arena->n_segments && arena->segments[at]->place - place < n_places)
        return NULL;
    if (arena->n_segments >= places_max_locked(arena) + CLAIMED_SEGMENTS_MAX)
        return NULL;
    return map_locked(arena, at, place, n_places);
}

static uint8_t *claim_locked(hth_arena *arena, uint64_t offset, size_t bytes)
{
    uint32_t n = (uint32_t)(bytes / HTH_PAGE_BYTES);
    uint32_t n_places = (n + HTH_SEGMENT_PAGES - 1) / HTH_SEGMENT_PAGES;
    uint32_t begin = (uint32_t)(offset % HTH_ARENA_SEGMENT_BYTES / HTH_PAGE_BYTES);
    hth_segment *s;

    if (n_places > 1 ? begin != 0 : begin + n > HTH_SEGMENT_PAGES)
        return NULL;
    if (offset / HTH_ARENA_SEGMENT_BYTES > UINT32_MAX / 4)
        return NULL;
    s = segment_at_locked(arena, (uint32_t)(offset / HTH_ARENA_SEGMENT_BYTES), n_places);
    if (!s)
        return NULL;
    for (size_t r = 0; r < s->n_runs; r++) {
        const hth_run *from = &s->runs[r];

        if (begin < from->begin || begin - from->begin >= from->n || n > from->n - (begin - from->begin))
            continue;
        if (!hth_segment_carve(s, r, begin, n))
            return NULL;
        arena->used_bytes += bytes;
        arena->held_bytes += hth_page_bytes(hth_segment_hold(s, begin, n));
        return s->memory + hth_page_bytes(begin);
    }
    return NULL;
}

uint8_t *hth_arena_claim(hth_arena *arena, uint64_t offset, uint64_t n_bytes)
{
    uint8_t *slab = NULL;
    size_t bytes;
    uint64_t end;

    assert(arena->fd >= 0);
    if (n_bytes == 0 || n_bytes > SLAB_BYTES_MAX || offset % HTH_PAGE_BYTES != 0)
        return NULL;
    bytes = hth_arena_slab_bytes((size_t)n_bytes);
    if (__builtin_add_overflow(offset, bytes, &end) || __builtin_add_overflow(end, arena->fd_begin, &end))
        return NULL;
    pthread_mutex_lock(&arena->lock);
    if (end <= arena->file_bytes)
        slab = claim_locked(arena, offset, bytes);
    pthread_mutex_unlock(&arena->lock);
    return slab;
}

static void punch_locked(const hth_arena *arena, uint64_t begin, uint64_t end)
{
    if (begin < end)
        (void)hth_os_file_punch(arena->fd, begin, end - begin); /* on failure it stays in the file, unused */
}

void hth_arena_claims_end(hth_arena *arena)
{
    uint64_t done;

    assert(arena->fd >= 0);
    pthread_mutex_lock(&arena->lock);
    done = arena->fd_begin; /* everything below this offset is claimed or given back */
    for (size_t i = 0; i < arena->n_segments; i++) {
        hth_segment *s = arena->segments[i];

        punch_locked(arena, done, arena->fd_begin + hth_segment_offset(s, 0));
        for (size_t r = 0; r < s->n_runs; r++)
            discard_pages_locked(arena, s, s->runs[r].begin, s->runs[r].n);
        done = arena->fd_begin + hth_segment_offset(s, s->n_pages);
    }
    punch_locked(arena, done, arena->file_bytes);
    arena->has_claims = true;
    pthread_mutex_unlock(&arena->lock);
    start_warmer(arena);
}

void hth_arena_totals_get(hth_arena *arena, hth_arena_totals *out)
{
    pthread_mutex_lock(&arena->lock);
    *out = (hth_arena_totals){ .mapped_bytes = arena->held_bytes,
                               .used_bytes = arena->used_bytes,
                               .address_bytes = arena->address_bytes };
    pthread_mutex_unlock(&arena->lock);
}
