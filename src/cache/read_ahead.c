/*
 * read_ahead.c - a window of rows between one reading thread and one unpacking thread
 *
 * Rows [n_taken, n_started) are in the window: being read, or done. All rows before n_ready are done; only these are
 * handed out. Rows that the system has in memory are copied at once, and only a few rows ahead, so that a row is still
 * in the CPU caches when it is unpacked. The first row that would wait for a device shows that the rows are cold: from
 * then on all reads of the window go to the device together.
 *
 * A failure is put into the window like a row, and no row after it is handed out.
 */
#include "cache/read_ahead.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/os.h"
#include "cache/cache_inside.h"

enum {
    WARM_ROWS = 3, /* rows read ahead if no device is involved */
};

typedef enum place_state { PLACE_EMPTY, PLACE_OUT, PLACE_DONE } place_state;

typedef struct place {
    place_state state; /* guarded by the lock; the other fields belong to the reader until PLACE_DONE */
    hth_row_read read;
    size_t index;
    hearth_status status;
    hearth_error err;
    hth_borrowed_row row;
} place;

struct hth_read_ahead {
    hth_cache *cache;
    const hth_keyspace *keyspace;
    const hth_lookup_row *rows;
    size_t n_rows;
    bool has_thread;
    pthread_t thread;

    /* Reading thread only. */
    hth_read_ring *ring; /* NULL until a row was cold */
    bool is_cold;
    size_t n_out;
    bool failed; /* a row failed; no row after it is started */

    /* Guards the fields below. Innermost lock; no row is read while it is held. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t n_started;
    size_t n_ready;
    size_t n_taken;
    size_t n_asked; /* calls of next; each call gives back the row of the previous one */
    bool ending;
    place window[HTH_COLD_ROWS];
};

static place *place_of(hth_read_ahead *ahead, size_t i)
{
    return &ahead->window[i % HTH_COLD_ROWS];
}

static const hth_row_meta *meta_of(const hth_read_ahead *ahead, size_t i)
{
    return &ahead->rows[i].meta;
}

/* ---- one row, on the reading thread ---- */

static void set_done(hth_read_ahead *ahead, place *at)
{
    if (at->status != HEARTH_OK)
        ahead->failed = true;
    pthread_mutex_lock(&ahead->lock);
    at->state = PLACE_DONE;
    while (ahead->n_ready < ahead->n_started && place_of(ahead, ahead->n_ready)->state == PLACE_DONE)
        ahead->n_ready++;
    pthread_cond_broadcast(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
}

/* The read is complete: turn it into a row. If the file is damaged, try the file of another tier. */
static void finish(hth_read_ahead *ahead, place *at)
{
    const hth_row_meta *meta = meta_of(ahead, at->index);
    hearth_tier tier = ahead->cache->levels[at->read.level].tier;
    hth_ram_row *row = NULL;

    at->status = hth_cache_file_finish(ahead->cache, &at->read, ahead->keyspace, meta, &row, &at->err);
    if (at->status == HEARTH_OK)
        at->status = hth_cache_borrow_pinned(ahead->cache, ahead->keyspace, meta, row, tier, &at->row, &at->err);
    else if (at->status == HEARTH_CORRUPT &&
             hth_cache_borrow(ahead->cache, ahead->keyspace, meta, &at->row, NULL) == HEARTH_OK)
        at->status = HEARTH_OK;
    set_done(ahead, at);
}

/* Read the rest of a row on this thread. */
static void read_here(hth_read_ahead *ahead, place *at)
{
    hth_read_rest(ahead->cache->fs, &at->read.ring);
    finish(ahead, at);
}

/*
 * A file on tmpfs is in memory, but the system (Linux 6.18) does not report that: a non-blocking read returns nothing.
 * Through the ring the same rows took 8 ms each instead of 0.5.
 */
static bool is_memory_file(const hth_read_ahead *ahead, const place *at)
{
    return ahead->cache->levels[at->read.level].tier == HEARTH_TIER_RAM_FILE;
}

/* Send the read of a row to the device, together with others. Without a ring, read it here and wait. */
static void send_out(hth_read_ahead *ahead, place *at)
{
    if (!ahead->ring)
        ahead->ring = hth_spare_rings_take(&ahead->cache->rings);
    if (ahead->ring) {
        hth_read_ring_add(ahead->ring, &at->read.ring);
        ahead->n_out++;
    } else {
        read_here(ahead, at);
    }
}

/*
 * Wait until the rows before row i have been given back: then no pin of this restore keeps their slabs from being
 * freed.
 */
static void await_room(hth_read_ahead *ahead, size_t i)
{
    pthread_mutex_lock(&ahead->lock);
    while (ahead->n_asked <= i && !ahead->ending)
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    pthread_mutex_unlock(&ahead->lock);
}

/* Begin to read row i, or finish it at once. False, with nothing begun, if its slab must wait for reads in flight. */
static bool start(hth_read_ahead *ahead, size_t i)
{
    const hth_row_meta *meta = meta_of(ahead, i);
    place *at = place_of(ahead, i);
    hth_ram_row *pinned = hth_ram_tier_pin(ahead->cache->ram, &meta->id);

    *at = (place){ .index = i };
    if (pinned) {
        at->status =
            hth_cache_borrow_pinned(ahead->cache, ahead->keyspace, meta, pinned, HEARTH_TIER_RAM, &at->row, &at->err);
    } else {
        at->status = hth_cache_file_open(ahead->cache, meta, &at->read, &at->err);
        if (at->status == HEARTH_NO_MEMORY && ahead->n_out > 0)
            return false;
        if (at->status == HEARTH_NO_MEMORY) {
            await_room(ahead, i);
            at->status = hth_cache_file_open(ahead->cache, meta, &at->read, &at->err);
        }
    }
    pthread_mutex_lock(&ahead->lock);
    at->state = PLACE_OUT;
    ahead->n_started++;
    pthread_mutex_unlock(&ahead->lock);

    if (pinned || at->status != HEARTH_OK) {
        set_done(ahead, at);
    } else if (is_memory_file(ahead, at)) {
        read_here(ahead, at);
    } else if (!ahead->is_cold && hth_read_now(ahead->cache->fs, &at->read.ring)) {
        finish(ahead, at);
    } else {
        ahead->is_cold = true;
        send_out(ahead, at);
    }
    return true;
}

/* ---- the reading thread ---- */

static bool may_start_locked(const hth_read_ahead *ahead)
{
    size_t n_most = ahead->is_cold ? HTH_COLD_ROWS : WARM_ROWS;

    return !ahead->ending && !ahead->failed && ahead->n_started < ahead->n_rows &&
           ahead->n_started - ahead->n_taken < n_most;
}

/* The next row to start; false if none may start now. Waits only if no read is in flight. */
static bool next_to_start(hth_read_ahead *ahead, size_t *i_out)
{
    bool may;

    pthread_mutex_lock(&ahead->lock);
    while (!(may = may_start_locked(ahead)) && ahead->n_out == 0 && !ahead->ending && !ahead->failed &&
           ahead->n_started < ahead->n_rows)
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    *i_out = ahead->n_started;
    pthread_mutex_unlock(&ahead->lock);
    return may;
}

static place *place_of_read(hth_ring_read *read)
{
    return (place *)(void *)((char *)read - offsetof(place, read.ring));
}

static void *read_rows(void *context)
{
    hth_read_ahead *ahead = context;
    hth_ring_read *read;
    size_t i;

    hth_os_thread_name("hearth-reader");
    for (;;) {
        while (next_to_start(ahead, &i) && start(ahead, i))
            ;
        if (ahead->n_out == 0)
            break;
        read = hth_read_ring_wait(ahead->ring);
        ahead->n_out--;
        finish(ahead, place_of_read(read));
    }
    hth_spare_rings_give(&ahead->cache->rings, ahead->ring);
    return NULL;
}

/* ---- the unpacking thread ---- */

static bool is_all_in_ram(hth_cache *cache, const hth_lookup_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!hth_ram_tier_has(cache->ram, &rows[i].meta.id, NULL))
            return false;
    return true;
}

hth_read_ahead *hth_read_ahead_begin(hth_cache *cache, const hth_keyspace *keyspace, const hth_lookup_row *rows,
                                     size_t n)
{
    hth_read_ahead *ahead = calloc(1, sizeof(*ahead));

    if (!ahead)
        return NULL;
    ahead->cache = cache;
    ahead->keyspace = keyspace;
    ahead->rows = rows;
    ahead->n_rows = n;
    pthread_mutex_init(&ahead->lock, NULL);
    pthread_cond_init(&ahead->changed, NULL);
    ahead->has_thread =
        n > 1 && !is_all_in_ram(cache, rows, n) && pthread_create(&ahead->thread, NULL, read_rows, ahead) == 0;
    return ahead;
}

hearth_status hth_read_ahead_next(hth_read_ahead *ahead, hth_borrowed_row *out, hearth_error *err)
{
    place *from;
    hearth_status status;

    if (!ahead->has_thread)
        return hth_cache_borrow(ahead->cache, ahead->keyspace, meta_of(ahead, ahead->n_taken++), out, err);

    pthread_mutex_lock(&ahead->lock);
    ahead->n_asked++;
    pthread_cond_broadcast(&ahead->changed);
    while (ahead->n_ready == ahead->n_taken)
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    from = place_of(ahead, ahead->n_taken);
    status = from->status;
    if (status == HEARTH_OK)
        *out = from->row;
    else if (err)
        *err = from->err;
    ahead->n_taken++;
    pthread_cond_broadcast(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
    if (status == HEARTH_OK)
        out->begin_ns = hth_os_monotonic_ns(); /* the row waited in the window before */
    return status;
}

void hth_read_ahead_end(hth_read_ahead *ahead)
{
    if (!ahead)
        return;
    if (ahead->has_thread) {
        pthread_mutex_lock(&ahead->lock);
        ahead->ending = true;
        pthread_cond_broadcast(&ahead->changed);
        pthread_mutex_unlock(&ahead->lock);
        pthread_join(ahead->thread, NULL);
        for (size_t i = ahead->n_taken; i < ahead->n_started; i++) {
            place *left = place_of(ahead, i);

            if (left->status == HEARTH_OK)
                hth_cache_return_unused(ahead->cache, &left->row);
        }
    }
    pthread_cond_destroy(&ahead->changed);
    pthread_mutex_destroy(&ahead->lock);
    free(ahead);
}
