/*
 * shared_limits.h - the limits of keys for the whole fleet, by its store
 *
 * Each node decides alone, with what all have used as of the last exchange: it tells the store what was used here, and
 * reads the sums, every HTH_LIMITS_BEAT_MS while something is used here, and every second otherwise. So no request
 * waits for the store, and within a beat, each node can let through what is left of a limit. While the store is down,
 * each node has its part of every limit, by the number of nodes that answer.
 *
 *   hearth:1:{FLEET}:limit:KEY   a hash: what is used of a minute's requests and tokens, when, and what each node runs
 *
 * Event loop only.
 */
#ifndef HTH_FRONT_SHARED_LIMITS_H
#define HTH_FRONT_SHARED_LIMITS_H

#include "fleet/nodes.h"
#include "front/keys.h"
#include "store/store.h"

enum { HTH_LIMITS_BEAT_MS = 200 };

typedef struct hth_shared_limits hth_shared_limits;

typedef struct hth_shared_limits_options {
    struct event_base *base;
    hth_store *store; /* outlives the limits, like the rest */
    hth_nodes *nodes;
    hth_keys *keys;
    const char *fleet; /* as in hth_roster_options */
    const char *name;  /* of this node */
    const hth_log *log;
} hth_shared_limits_options;

hearth_status hth_shared_limits_new(const hth_shared_limits_options *options, hth_shared_limits **out,
                                    hearth_error *err);
void hth_shared_limits_free(hth_shared_limits *limits); /* accepts NULL */

#endif
