/*
 * spare_rings.c - a few queues under a lock
 */
#include "cache/spare_rings.h"

#include <assert.h>
#include <string.h>

static bool is_worth_keeping(const hth_read_ring *ring)
{
    return strcmp(hth_read_ring_way(ring), "io_uring") == 0;
}

void hth_spare_rings_init(hth_spare_rings *spare, const hth_fs *fs, unsigned depth, size_t n)
{
    *spare = (hth_spare_rings){ .fs = fs, .depth = depth };
    pthread_mutex_init(&spare->lock, NULL);
    assert(n <= HTH_SPARE_RINGS_MAX);
    while (fs == hth_fs_system() && spare->n < n) {
        hth_read_ring *ring = hth_read_ring_open(fs, depth);

        if (!ring || !is_worth_keeping(ring)) {
            hth_read_ring_close(ring);
            break;
        }
        spare->rings[spare->n++] = ring;
    }
}

void hth_spare_rings_deinit(hth_spare_rings *spare)
{
    while (spare->n > 0)
        hth_read_ring_close(spare->rings[--spare->n]);
    pthread_mutex_destroy(&spare->lock);
}

hth_read_ring *hth_spare_rings_take(hth_spare_rings *spare)
{
    hth_read_ring *ring = NULL;

    pthread_mutex_lock(&spare->lock);
    if (spare->n > 0)
        ring = spare->rings[--spare->n];
    pthread_mutex_unlock(&spare->lock);
    return ring ? ring : hth_read_ring_open(spare->fs, spare->depth);
}

void hth_spare_rings_give(hth_spare_rings *spare, hth_read_ring *ring)
{
    if (ring && is_worth_keeping(ring)) {
        pthread_mutex_lock(&spare->lock);
        if (spare->n < HTH_SPARE_RINGS_MAX) {
            spare->rings[spare->n++] = ring;
            ring = NULL;
        }
        pthread_mutex_unlock(&spare->lock);
    }
    hth_read_ring_close(ring);
}
