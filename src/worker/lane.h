/*
 * lane.h - threads that do the work of clients in turns
 *
 * Work waits until a thread of its lane is free. The clients of a lane take turns, each with its oldest work, so a
 * client with much work delays the others by one piece of it each. A client with a name uses at most all threads except
 * one, so that no client's long work makes all others wait. Clients without a name count as one client.
 */
#ifndef HTH_WORKER_LANE_H
#define HTH_WORKER_LANE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct hth_lane hth_lane;

/* Does one piece of work, on a thread of the lane. */
typedef void (*hth_lane_fn)(void *work, void *user_data);

typedef struct hth_lane_options {
    unsigned n_threads;
    unsigned n_waiting_max;
    bool gives_way; /* its threads have a higher nice value */
    hth_lane_fn run;
    void *user_data;
} hth_lane_options;

/* HEARTH_NO_MEMORY, or the reason why a thread cannot be started. */
hearth_status hth_lane_new(const hth_lane_options *options, hth_lane **out, hearth_error *err);
/*
 * Accept no more work, finish the waiting work, and wait for the threads to end. Accepts NULL. Must not be called on a
 * thread of the lane.
 */
void hth_lane_end(hth_lane *lane);
void hth_lane_free(hth_lane *lane); /* ends it first; accepts NULL */

/*
 * Queue work of a client (NULL or "": without a name) for a thread. False: the queue is full, the lane has ended, or
 * there is no memory. Any thread.
 */
bool hth_lane_put(hth_lane *lane, const char *client, void *work);

#endif
