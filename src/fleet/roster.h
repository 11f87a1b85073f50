/*
 * roster.h - the nodes that are in the fleet now, as the store knows them
 *
 * Each node holds a lease in the store: its epoch, its address and its page (node_page.h), for HTH_ROSTER_LEASE_MS. It
 * renews the lease and reads those of all others in one exchange, twice a second. A node that ended or died is no
 * longer there, and neither is what was known of its last life, because its next one has another epoch.
 *
 *   hearth:1:{FLEET}:node:NAME   "EPOCH ADDRESS\n" and the page, until the lease ends
 *   hearth:1:{FLEET}:nodes       the names, by the time of their last lease
 *
 * FLEET is the beginning of the certificate's digest, so several fleets can share a store and do not see each other.
 * The store is no authority: a node that it names has to show the fleet's certificate, as any other. Event loop only.
 */
#ifndef HTH_FLEET_ROSTER_H
#define HTH_FLEET_ROSTER_H

#include "api/buffer.h"
#include "base/log.h"
#include "fleet/nodes.h"
#include "store/store.h"

#define HTH_ROSTER_KEY "hearth:1:{%s}:" /* a format: all keys of the fleet FLEET begin so */

enum {
    HTH_ROSTER_LEASE_MS = 3000,
    HTH_ROSTER_FLEET_BYTES = 17,
};

typedef struct hth_roster hth_roster;

typedef struct hth_roster_options {
    struct event_base *base;
    hth_store *store;  /* outlives the roster, like the rest */
    hth_nodes *nodes;  /* learn the pages */
    const char *fleet; /* HTH_ROSTER_FLEET_BYTES - 1 digits */
    const char *name;
    const char *epoch;
    const char *host; /* where other nodes reach this one; NULL: where it reaches the store from */
    uint16_t port;
    const hth_log *log;
    const hth_buffer *(*page)(void *user_data); /* of this node, now */
    void *user_data;
} hth_roster_options;

hearth_status hth_roster_new(const hth_roster_options *options, hth_roster **out, hearth_error *err);
void hth_roster_free(hth_roster *roster); /* accepts NULL */
/* The store came or went: renew the lease now. */
void hth_roster_on_store(hth_roster *roster);
/* Give the lease back: this node ends. */
void hth_roster_leave(hth_roster *roster);
/* May the store tell nodes that are not known yet? It has not answered, and was not down for a lease's time either. */
bool hth_roster_is_young(const hth_roster *roster);
/* Why this node has no lease though the store is up; "": it has one. */
const char *hth_roster_why(const hth_roster *roster);
/* Append the metrics of the store to a page of Prometheus' format. */
void hth_roster_write_metrics(const hth_roster *roster, hth_buffer *out);

/*
 * Read the beginning of a lease, [n]: the epoch, the address, and where the page begins. False: it is no lease. Pure.
 */
typedef struct hth_lease {
    char epoch[HTH_NODE_EPOCH_BYTES];
    char address[256];
    const char *page;
    size_t n_page;
} hth_lease;
bool hth_lease_read(const char *text, size_t n, hth_lease *out);

#endif
