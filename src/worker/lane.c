#include "worker/lane.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Without memory for its table, an addition to a hash fails and the item is not in it. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "base/os.h"

typedef struct piece {
    void *work;
    struct piece *prev, *next;
} piece;

/* A client with waiting or running work. */
typedef struct client {
    piece *pieces; /* the oldest first */
    unsigned n_at_work;
    struct client *prev, *next; /* in the queue while it has pieces */
    UT_hash_handle hh;
    char name[]; /* "": none */
} client;

struct hth_lane {
    hth_lane_options options; /* constant */
    unsigned n_threads;       /* running; used by the thread that makes and ends the lane */

    /* Guards the fields below. Innermost lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    client *clients;
    client *line; /* clients with pieces, in the order of turns */
    unsigned n_waiting;
    bool has_ended;

    pthread_t threads[]; /* [n_threads] */
};

/* ---- clients, under the lock ---- */

static client *client_of_locked(hth_lane *lane, const char *name)
{
    size_t n = strlen(name);
    client *c, *found;

    HASH_FIND(hh, lane->clients, name, n, found);
    if (found)
        return found;
    c = calloc(1, sizeof(*c) + n + 1);
    if (!c)
        return NULL;
    memcpy(c->name, name, n);
    HASH_ADD_KEYPTR(hh, lane->clients, c->name, n, c);
    HASH_FIND(hh, lane->clients, name, n, found);
    if (!found)
        free(c);
    return found;
}

static void forget_if_idle_locked(hth_lane *lane, client *c)
{
    if (c->pieces || c->n_at_work > 0)
        return;
    HASH_DEL(lane->clients, c);
    free(c);
}

static bool has_turn(const hth_lane *lane, const client *c)
{
    unsigned n = lane->options.n_threads;

    return c->n_at_work < (c->name[0] && n > 1 ? n - 1 : n);
}

/* Move the client whose turn is next to the end of the queue, and return it. NULL: no client may have a turn now. */
static client *next_locked(hth_lane *lane)
{
    client *c;

    DL_FOREACH(lane->line, c)
    {
        if (!has_turn(lane, c))
            continue;
        DL_DELETE(lane->line, c);
        if (c->pieces->next)
            DL_APPEND(lane->line, c);
        return c;
    }
    return NULL;
}

static void *take_locked(hth_lane *lane, client *c)
{
    piece *first = c->pieces;
    void *work = first->work;

    DL_DELETE(c->pieces, first);
    free(first);
    c->n_at_work++;
    lane->n_waiting--;
    return work;
}

/* ---- threads ---- */

static void *work_on(void *context)
{
    hth_lane *lane = context;

    hth_os_thread_name("hearth-prepare");
    if (lane->options.gives_way)
        hth_os_thread_nice(HTH_OS_NICE_HELPER);
    pthread_mutex_lock(&lane->lock);
    while (lane->n_waiting > 0 || !lane->has_ended) {
        client *c = next_locked(lane);
        void *work = c ? take_locked(lane, c) : NULL;

        if (!c) {
            pthread_cond_wait(&lane->changed, &lane->lock);
            continue;
        }
        pthread_mutex_unlock(&lane->lock);
        lane->options.run(work, lane->options.user_data);
        pthread_mutex_lock(&lane->lock);
        c->n_at_work--;
        forget_if_idle_locked(lane, c);
    }
    pthread_cond_broadcast(&lane->changed); /* other threads may wait for a turn that will not come */
    pthread_mutex_unlock(&lane->lock);
    return NULL;
}

static hearth_status start(hth_lane *lane, hearth_error *err)
{
    for (; lane->n_threads < lane->options.n_threads; lane->n_threads++) {
        int failed = pthread_create(&lane->threads[lane->n_threads], NULL, work_on, lane);

        if (failed)
            return hth_fail_errno(err, failed, "cannot start a thread");
    }
    return HEARTH_OK;
}

hearth_status hth_lane_new(const hth_lane_options *options, hth_lane **out, hearth_error *err)
{
    hth_lane *lane = calloc(1, sizeof(*lane) + options->n_threads * sizeof(lane->threads[0]));
    hearth_status status;

    assert(options->n_threads > 0);
    if (!lane)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the threads of a lane");
    lane->options = *options;
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->changed, NULL);
    status = start(lane, err);
    if (status != HEARTH_OK) {
        hth_lane_free(lane);
        return status;
    }
    *out = lane;
    return HEARTH_OK;
}

void hth_lane_end(hth_lane *lane)
{
    if (!lane)
        return;
    pthread_mutex_lock(&lane->lock);
    lane->has_ended = true;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
    while (lane->n_threads > 0)
        pthread_join(lane->threads[--lane->n_threads], NULL);
}

void hth_lane_free(hth_lane *lane)
{
    if (!lane)
        return;
    hth_lane_end(lane);
    assert(!lane->clients);
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->lock);
    free(lane);
}

bool hth_lane_put(hth_lane *lane, const char *name, void *work)
{
    piece *p = malloc(sizeof(*p));
    client *c = NULL;

    if (!p)
        return false;
    p->work = work;
    pthread_mutex_lock(&lane->lock);
    if (!lane->has_ended && lane->n_waiting < lane->options.n_waiting_max)
        c = client_of_locked(lane, name ? name : "");
    if (c) {
        if (!c->pieces)
            DL_APPEND(lane->line, c);
        DL_APPEND(c->pieces, p);
        lane->n_waiting++;
        pthread_cond_signal(&lane->changed);
    }
    pthread_mutex_unlock(&lane->lock);
    if (!c)
        free(p);
    return c;
}
