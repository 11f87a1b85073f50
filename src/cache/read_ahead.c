/*
 * read_ahead.c - a ring between one reading thread and one unpacking thread
 *
 * Places [n_taken, n_ready) of the ring hold rows that were read and not asked for. A failure is put into the ring like
 * a row and is the last entry.
 */
#include "cache/read_ahead.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/os.h"

typedef struct place {
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

    /* Guards the fields below. Innermost lock; no row is read while it is held. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t n_ready;
    size_t n_taken;
    size_t n_asked; /* calls of next; when one begins, the row of the one before was given back */
    bool ending;
    place ring[HTH_READ_AHEAD_ROWS];
};

static bool may_read_locked(const hth_read_ahead *ahead)
{
    return ahead->n_ready - ahead->n_taken < HTH_READ_AHEAD_ROWS;
}

/* Borrow row i. When pinned rows fill the tier, wait until those before it were given back and try once more. */
static void borrow_patiently(hth_read_ahead *ahead, size_t i, place *into)
{
    into->status = hth_cache_borrow(ahead->cache, ahead->keyspace, &ahead->rows[i].meta, &into->row, &into->err);
    if (into->status != HEARTH_NO_MEMORY)
        return;
    pthread_mutex_lock(&ahead->lock);
    while (ahead->n_asked <= i && !ahead->ending)
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    pthread_mutex_unlock(&ahead->lock);
    into->status = hth_cache_borrow(ahead->cache, ahead->keyspace, &ahead->rows[i].meta, &into->row, &into->err);
}

static void *read_rows(void *context)
{
    hth_read_ahead *ahead = context;
    bool goes_on = true;

    hth_os_thread_name("hearth-reader");
    for (size_t i = 0; goes_on && i < ahead->n_rows; i++) {
        place *into = &ahead->ring[i % HTH_READ_AHEAD_ROWS];

        pthread_mutex_lock(&ahead->lock);
        while (!may_read_locked(ahead) && !ahead->ending)
            pthread_cond_wait(&ahead->changed, &ahead->lock);
        goes_on = !ahead->ending;
        pthread_mutex_unlock(&ahead->lock);
        if (!goes_on)
            break;

        borrow_patiently(ahead, i, into);
        goes_on = into->status == HEARTH_OK;
        pthread_mutex_lock(&ahead->lock);
        ahead->n_ready++;
        pthread_cond_broadcast(&ahead->changed);
        pthread_mutex_unlock(&ahead->lock);
    }
    return NULL;
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
    ahead->has_thread = n > 1 && hth_cache_find(cache, &rows[0].meta.id, NULL) != HEARTH_TIER_RAM &&
                        pthread_create(&ahead->thread, NULL, read_rows, ahead) == 0;
    return ahead;
}

hearth_status hth_read_ahead_next(hth_read_ahead *ahead, hth_borrowed_row *out, hearth_error *err)
{
    place *from;
    hearth_status status;

    if (!ahead->has_thread)
        return hth_cache_borrow(ahead->cache, ahead->keyspace, &ahead->rows[ahead->n_taken++].meta, out, err);

    pthread_mutex_lock(&ahead->lock);
    ahead->n_asked++;
    pthread_cond_broadcast(&ahead->changed);
    while (ahead->n_ready == ahead->n_taken)
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    from = &ahead->ring[ahead->n_taken % HTH_READ_AHEAD_ROWS];
    status = from->status;
    if (status == HEARTH_OK)
        *out = from->row;
    else if (err)
        *err = from->err;
    ahead->n_taken++;
    pthread_cond_broadcast(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
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
        for (size_t i = ahead->n_taken; i < ahead->n_ready; i++) {
            place *left = &ahead->ring[i % HTH_READ_AHEAD_ROWS];

            if (left->status == HEARTH_OK)
                hth_cache_return(ahead->cache, &left->row);
        }
    }
    pthread_cond_destroy(&ahead->changed);
    pthread_mutex_destroy(&ahead->lock);
    free(ahead);
}
