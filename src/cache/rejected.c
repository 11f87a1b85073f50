/*
 * rejected.c - a short list under a lock, see cache_inside.h
 */
#include "cache/cache_inside.h"

#include <string.h>

void hth_rejected_init(hth_rejected *rejected)
{
    pthread_mutex_init(&rejected->lock, NULL);
    atomic_init(&rejected->n, 0);
}

void hth_rejected_deinit(hth_rejected *rejected)
{
    pthread_mutex_destroy(&rejected->lock);
}

static size_t n_of(const hth_rejected *rejected)
{
    return atomic_load_explicit(&rejected->n, memory_order_relaxed);
}

static size_t find_locked(const hth_rejected *rejected, const hth_row_id *id, hearth_tier tier)
{
    size_t n = n_of(rejected);
    size_t i = 0;

    while (i < n && !(rejected->rows[i].tier == tier && hth_row_id_equal(&rejected->rows[i].id, id)))
        i++;
    return i;
}

static void remove_locked(hth_rejected *rejected, size_t i)
{
    size_t n = n_of(rejected) - 1;

    memmove(&rejected->rows[i], &rejected->rows[i + 1], (n - i) * sizeof(rejected->rows[0]));
    atomic_store_explicit(&rejected->n, n, memory_order_relaxed);
}

bool hth_rejected_has(hth_rejected *rejected, const hth_row_id *id, hearth_tier tier)
{
    bool found;

    if (n_of(rejected) == 0)
        return false;
    pthread_mutex_lock(&rejected->lock);
    found = find_locked(rejected, id, tier) < n_of(rejected);
    pthread_mutex_unlock(&rejected->lock);
    return found;
}

void hth_rejected_add(hth_rejected *rejected, const hth_row_id *id, hearth_tier tier)
{
    pthread_mutex_lock(&rejected->lock);
    if (find_locked(rejected, id, tier) == n_of(rejected)) {
        if (n_of(rejected) == HTH_REJECTED_MAX)
            remove_locked(rejected, 0);
        rejected->rows[n_of(rejected)] = (hth_rejected_row){ .id = *id, .tier = tier };
        atomic_store_explicit(&rejected->n, n_of(rejected) + 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&rejected->lock);
}

void hth_rejected_forget_in(hth_rejected *rejected, const hth_row_id *id, hearth_tier tier)
{
    size_t i;

    if (n_of(rejected) == 0)
        return;
    pthread_mutex_lock(&rejected->lock);
    i = find_locked(rejected, id, tier);
    if (i < n_of(rejected))
        remove_locked(rejected, i);
    pthread_mutex_unlock(&rejected->lock);
}

void hth_rejected_forget(hth_rejected *rejected, const hth_row_id *id)
{
    if (n_of(rejected) == 0)
        return;
    pthread_mutex_lock(&rejected->lock);
    for (size_t i = n_of(rejected); i-- > 0;)
        if (hth_row_id_equal(&rejected->rows[i].id, id))
            remove_locked(rejected, i);
    pthread_mutex_unlock(&rejected->lock);
}
