/*
 * spare_rings.c - a few queues under a lock, see cache_inside.h
 */
#include "cache/cache_inside.h"

#include <assert.h>
#include <string.h>

#include "base/os.h"

static bool is_worth_keeping(const hth_read_ring *ring)
{
    return strcmp(hth_read_ring_way(ring), "io_uring") == 0;
}

typedef struct order {
    hth_spare_rings *spare;
    size_t n;
} order;

static void *open_rings(void *context)
{
    const order *todo = context;
    hth_spare_rings *spare = todo->spare;

    hth_os_thread_name("hearth-rings");
    while (spare->n < todo->n) {
        hth_read_ring *ring = hth_read_ring_open(spare->fs, spare->depth);

        if (!ring || !is_worth_keeping(ring)) {
            hth_read_ring_close(ring);
            break;
        }
        spare->rings[spare->n++] = ring;
    }
    return NULL;
}

/*
 * Create the queues on a thread that then ends. When a queue is closed, Linux interrupts the thread that created it.
 * Otherwise, that would be a thread of the application, whose next blocking call would fail with EINTR.
 */
void hth_spare_rings_init(hth_spare_rings *spare, const hth_fs *fs, unsigned depth, size_t n)
{
    order todo = { .spare = spare, .n = n };
    pthread_t thread;

    *spare = (hth_spare_rings){ .fs = fs, .depth = depth };
    pthread_mutex_init(&spare->lock, NULL);
    assert(n <= HTH_SPARE_RINGS_MAX);
    if (fs == hth_fs_system() && pthread_create(&thread, NULL, open_rings, &todo) == 0)
        (void)pthread_join(thread, NULL); /* the thread was just made */
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
