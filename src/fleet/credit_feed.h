/*
 * credit_feed.h - nodes tell each other through the store what they know of caches (credit.h)
 *
 *   hearth:1:{FLEET}:credit   a stream of the last batches; each has the epoch of its node, and records of credit.h
 *
 * A node adds its batch and reads those of others in one exchange, every HTH_CREDIT_FEED_MS. A node that starts reads
 * what the stream still has: some thousand batches, of minutes while few nodes are busy. Records are holders,
 * digests with a secret key, and counts. So all nodes need the same key: where each has a file of its own
 * (fleet_pem.h), there is no feed. While the store is down nothing is lost but time; after an error, it pauses for
 * seconds. Event loop only.
 */
#ifndef HTH_FLEET_CREDIT_FEED_H
#define HTH_FLEET_CREDIT_FEED_H

#include "base/log.h"
#include "fleet/credit.h"
#include "store/store.h"

enum { HTH_CREDIT_FEED_MS = 100 };

typedef struct hth_credit_feed hth_credit_feed;

typedef struct hth_credit_feed_options {
    struct event_base *base;
    hth_store *store;   /* outlives the feed, like the rest */
    hth_credit *credit; /* export and import */
    const char *fleet;  /* digits, as in roster.h */
    const char *epoch;  /* of this life of the node: its own batches are skipped */
    const hth_log *log;
} hth_credit_feed_options;

/* HEARTH_NO_MEMORY. */
hearth_status hth_credit_feed_new(const hth_credit_feed_options *options, hth_credit_feed **out, hearth_error *err);
void hth_credit_feed_free(hth_credit_feed *feed); /* accepts NULL */

#endif
