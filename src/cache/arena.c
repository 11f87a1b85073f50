/*
 * arena.c - first-fit runs of pages in mapped segments
 *
 * Each segment keeps its free runs in an array sorted by offset; giving a slab back merges it with its neighbours.
 * First fit keeps low segments full and lets high ones drain. A row larger than a segment gets one of its own.
 *
 * The helper thread sleeps until fewer than half a segment of touched memory is free, then maps and touches one more,
 * if the limit allows. Slabs taken before it is done still work: they fault as they are written.
 */
#include "cache/arena.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/deadline.h"
#include "base/os.h"

#define PAGE_BYTES ((size_t)4096)
enum { QUIET_MS = 100 };
#define WARM_BYTES ((size_t)2 << 20) /* a huge page */
static_assert(HTH_ARENA_SEGMENT_BYTES % WARM_BYTES == 0, "a segment is warmed in whole pieces");

typedef struct run {
    size_t offset;
    size_t bytes;
} run;

typedef struct segment {
    struct segment *next;
    uint8_t *memory;
    size_t bytes;
    size_t used; /* bytes in slabs */
    size_t n_slabs;
    size_t n_runs;
    size_t capacity_runs;
    run *runs; /* free, by offset, never adjacent */
} segment;

struct hth_arena {
    uint64_t bytes_max; /* fixed at creation */
    bool warm;
    pthread_t warmer; /* valid when warm */

    /* Guards the fields below. Innermost lock; no memory is touched while it is held. */
    pthread_mutex_t lock;
    pthread_cond_t wanted; /* wakes the warmer */
    pthread_cond_t warmed; /* a segment is ready */
    bool warming;          /* a segment is on its way; mapped_bytes and used_bytes hold its place */
    bool hurry;            /* somebody waits for it, warm or not */
    segment *segments;     /* oldest first */
    uint64_t mapped_bytes;
    uint64_t used_bytes;
    uint64_t n_taken; /* calls of hth_arena_take, ever */
    bool closing;
};

size_t hth_arena_slab_bytes(size_t n_bytes)
{
    return n_bytes > SIZE_MAX - PAGE_BYTES ? SIZE_MAX : (n_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static void segment_free(segment *s)
{
    if (!s)
        return;
    if (s->memory)
        (void)munmap(s->memory, s->bytes); /* fails only for a bad range, which would be our bug */
    free(s->runs);
    free(s);
}

static segment *segment_new(size_t bytes)
{
    segment *s = calloc(1, sizeof(*s));
    void *memory;

    if (!s)
        return NULL;
    s->capacity_runs = 16;
    s->runs = malloc(s->capacity_runs * sizeof(*s->runs));
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
        s->memory = memory;
        s->bytes = bytes;
    }
    if (!s->runs || !s->memory) {
        segment_free(s);
        return NULL;
    }
    s->runs[0] = (run){ .offset = 0, .bytes = bytes };
    s->n_runs = 1;
    return s;
}

/*
 * Room for the free runs that may come: n slabs part a segment into at most n + 1 of them. Done when a slab is taken,
 * so that giving one back cannot fail.
 */
static bool reserve_runs(segment *s, size_t n_slabs)
{
    if (n_slabs + 1 > s->capacity_runs) {
        size_t capacity = 2 * (n_slabs + 1);
        run *runs = realloc(s->runs, capacity * sizeof(*runs));

        if (!runs)
            return false;
        s->runs = runs;
        s->capacity_runs = capacity;
    }
    return true;
}

static void append_locked(hth_arena *arena, segment *s)
{
    segment **link = &arena->segments;

    while (*link)
        link = &(*link)->next;
    *link = s;
}

static uint64_t free_bytes_locked(const hth_arena *arena)
{
    return arena->mapped_bytes - arena->used_bytes;
}

static bool wants_warming_locked(const hth_arena *arena)
{
    return free_bytes_locked(arena) < HTH_ARENA_SEGMENT_BYTES / 2 &&
           arena->mapped_bytes + HTH_ARENA_SEGMENT_BYTES <= arena->bytes_max;
}

/*
 * Touch a segment piece by piece, so that nobody else's page fault waits long for ours, until it is done or somebody
 * needs the segment as it is.
 */
static void warm(hth_arena *arena, segment *s)
{
    for (size_t at = 0; at < s->bytes; at += WARM_BYTES) {
        bool stop;

        pthread_mutex_lock(&arena->lock);
        stop = arena->closing || arena->hurry;
        pthread_mutex_unlock(&arena->lock);
        if (stop)
            return;
        hth_os_memory_prefault(s->memory + at, WARM_BYTES);
    }
}

/*
 * Wait until no slab was taken for a while: a restore or a prefill that is under way would pay for the segment with the
 * memory bus and the address space's lock. False when something happened meanwhile.
 */
static bool is_quiet_locked(hth_arena *arena)
{
    uint64_t n_taken = arena->n_taken;
    struct timespec deadline = hth_deadline_after(QUIET_MS);
    int waited = 0;

    while (waited != ETIMEDOUT && !arena->closing)
        waited = pthread_cond_timedwait(&arena->wanted, &arena->lock, &deadline);
    return !arena->closing && arena->n_taken == n_taken;
}

static void *warm_segments(void *context)
{
    hth_arena *arena = context;
    bool first = true;

    hth_os_thread_name("hearth-arena");
    pthread_mutex_lock(&arena->lock);
    while (!arena->closing) {
        segment *s;

        if (!wants_warming_locked(arena)) {
            pthread_cond_wait(&arena->wanted, &arena->lock);
            continue;
        }
        if (!first && !is_quiet_locked(arena))
            continue;
        arena->mapped_bytes += HTH_ARENA_SEGMENT_BYTES; /* claimed, so that the limit holds meanwhile */
        arena->used_bytes += HTH_ARENA_SEGMENT_BYTES;
        arena->warming = true;
        arena->hurry = false;
        pthread_mutex_unlock(&arena->lock);

        s = segment_new(HTH_ARENA_SEGMENT_BYTES);
        if (s)
            warm(arena, s);
        /* The first segment is wanted soon; the others must not take a core from the restore that asked for them. */
        if (first)
            hth_os_thread_background();
        first = false;

        pthread_mutex_lock(&arena->lock);
        arena->used_bytes -= HTH_ARENA_SEGMENT_BYTES;
        arena->warming = false;
        if (s)
            append_locked(arena, s);
        else
            arena->mapped_bytes -= HTH_ARENA_SEGMENT_BYTES;
        pthread_cond_broadcast(&arena->warmed);
        if (!s && !arena->closing)
            pthread_cond_wait(&arena->wanted, &arena->lock); /* no memory now; try at the next wish */
    }
    pthread_mutex_unlock(&arena->lock);
    return NULL;
}

hearth_status hth_arena_open(uint64_t bytes_max, bool warm, hth_arena **out, hearth_error *err)
{
    hth_arena *arena = calloc(1, sizeof(*arena));

    if (!arena)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the RAM tier's arena");
    arena->bytes_max = bytes_max;
    pthread_mutex_init(&arena->lock, NULL);
    hth_condition_init(&arena->wanted);
    pthread_cond_init(&arena->warmed, NULL);
    /* Without the helper rows still work, only their first use is slower. */
    arena->warm = warm && pthread_create(&arena->warmer, NULL, warm_segments, arena) == 0;
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
    if (arena->warm)
        pthread_join(arena->warmer, NULL);
    assert(arena->used_bytes == 0);
    for (segment *s = arena->segments, *next; s; s = next) {
        next = s->next;
        segment_free(s);
    }
    pthread_cond_destroy(&arena->wanted);
    pthread_cond_destroy(&arena->warmed);
    pthread_mutex_destroy(&arena->lock);
    free(arena);
}

static uint8_t *take_from(segment *s, size_t bytes)
{
    for (size_t i = 0; i < s->n_runs; i++) {
        uint8_t *slab;

        if (s->runs[i].bytes < bytes)
            continue;
        if (!reserve_runs(s, s->n_slabs + 1))
            return NULL;
        slab = s->memory + s->runs[i].offset;
        s->runs[i].offset += bytes;
        s->runs[i].bytes -= bytes;
        if (s->runs[i].bytes == 0) {
            memmove(&s->runs[i], &s->runs[i + 1], (s->n_runs - i - 1) * sizeof(s->runs[0]));
            s->n_runs--;
        }
        s->n_slabs++;
        s->used += bytes;
        return slab;
    }
    return NULL;
}

/* At the limit, empty segments make room for one of another size. */
static void unmap_empty_locked(hth_arena *arena)
{
    for (segment **link = &arena->segments; *link;) {
        segment *s = *link;

        if (s->used > 0) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        arena->mapped_bytes -= s->bytes;
        segment_free(s);
    }
}

/* A free run of any segment, or of a new one; NULL when the limit does not allow one. */
static uint8_t *take_locked(hth_arena *arena, size_t bytes)
{
    uint8_t *slab = NULL;
    uint64_t left;
    segment *s;

    for (s = arena->segments; s && !slab; s = s->next)
        slab = take_from(s, bytes);
    if (slab)
        return slab;
    if (arena->bytes_max - arena->mapped_bytes < bytes)
        unmap_empty_locked(arena);
    left = arena->bytes_max - arena->mapped_bytes;
    if (left >= HTH_ARENA_SEGMENT_BYTES && bytes <= HTH_ARENA_SEGMENT_BYTES)
        s = segment_new(HTH_ARENA_SEGMENT_BYTES);
    else
        s = left >= bytes ? segment_new(bytes) : NULL; /* at the limit, or larger than a segment: just as large */
    if (!s)
        return NULL;
    append_locked(arena, s);
    arena->mapped_bytes += s->bytes;
    return take_from(s, bytes);
}

uint8_t *hth_arena_take(hth_arena *arena, size_t n_bytes)
{
    size_t bytes = hth_arena_slab_bytes(n_bytes ? n_bytes : 1);
    uint8_t *slab;

    if (bytes > arena->bytes_max)
        return NULL;
    pthread_mutex_lock(&arena->lock);
    while (!(slab = take_locked(arena, bytes)) && arena->warming) {
        arena->hurry = true; /* its segment may be all that the limit allows */
        pthread_cond_wait(&arena->warmed, &arena->lock);
    }
    if (slab)
        arena->used_bytes += bytes;
    arena->n_taken++;
    if (wants_warming_locked(arena))
        pthread_cond_signal(&arena->wanted);
    pthread_mutex_unlock(&arena->lock);
    return slab;
}

static void give_to(segment *s, size_t offset, size_t bytes)
{
    size_t at = 0;
    bool joins_left, joins_right;

    while (at < s->n_runs && s->runs[at].offset < offset)
        at++;
    joins_left = at > 0 && s->runs[at - 1].offset + s->runs[at - 1].bytes == offset;
    joins_right = at < s->n_runs && offset + bytes == s->runs[at].offset;
    if (joins_left && joins_right) {
        s->runs[at - 1].bytes += bytes + s->runs[at].bytes;
        memmove(&s->runs[at], &s->runs[at + 1], (s->n_runs - at - 1) * sizeof(s->runs[0]));
        s->n_runs--;
    } else if (joins_left) {
        s->runs[at - 1].bytes += bytes;
    } else if (joins_right) {
        s->runs[at].offset = offset;
        s->runs[at].bytes += bytes;
    } else {
        assert(s->n_runs < s->capacity_runs);
        memmove(&s->runs[at + 1], &s->runs[at], (s->n_runs - at) * sizeof(s->runs[0]));
        s->runs[at] = (run){ .offset = offset, .bytes = bytes };
        s->n_runs++;
    }
    s->n_slabs--;
    s->used -= bytes;
}

/* Keep one empty segment, so that a working set at its edge does not map and unmap at every row. */
static segment *unlink_spare_locked(hth_arena *arena, segment *just_emptied)
{
    for (segment *s = arena->segments; s; s = s->next)
        if (s != just_emptied && s->used == 0) {
            for (segment **link = &arena->segments; *link; link = &(*link)->next)
                if (*link == just_emptied) {
                    *link = just_emptied->next;
                    arena->mapped_bytes -= just_emptied->bytes;
                    return just_emptied;
                }
        }
    return NULL;
}

void hth_arena_give(hth_arena *arena, uint8_t *slab, size_t n_bytes)
{
    size_t bytes = hth_arena_slab_bytes(n_bytes ? n_bytes : 1);
    segment *unmapped = NULL;
    segment *s;

    if (!slab)
        return;
    pthread_mutex_lock(&arena->lock);
    for (s = arena->segments; s; s = s->next)
        if (slab >= s->memory && slab < s->memory + s->bytes)
            break;
    assert(s);
    give_to(s, (size_t)(slab - s->memory), bytes);
    arena->used_bytes -= bytes;
    if (s->used == 0)
        unmapped = unlink_spare_locked(arena, s);
    pthread_mutex_unlock(&arena->lock);
    segment_free(unmapped);
}

void hth_arena_totals_get(hth_arena *arena, hth_arena_totals *out)
{
    pthread_mutex_lock(&arena->lock);
    *out = (hth_arena_totals){ .mapped_bytes = arena->mapped_bytes, .used_bytes = arena->used_bytes };
    pthread_mutex_unlock(&arena->lock);
}
