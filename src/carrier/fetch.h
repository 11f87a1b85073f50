/*
 * fetch.h - get rows of another node
 */
#ifndef HTH_CARRIER_FETCH_H
#define HTH_CARRIER_FETCH_H

#include <stdatomic.h>

#include "base/log.h"
#include "carrier/row_protocol.h"
#include "carrier/tiers.h"

struct ssl_ctx_st;

typedef struct hth_fetch_order {
    const char *address;  /* of the node, "HOST:PORT" */
    hth_row_wish *wishes; /* [n], keys of boundaries that follow each other; the rows that are here are filled in */
    uint64_t compute_ns;  /* in which the rows would be computed; 0: unknown */
    uint64_t rate_age_ns; /* since rate was measured */
    double rate;          /* of the node, in bytes a second; 0: unknown */
    uint32_t n;
    uint32_t n_known; /* tokens of the prompt before the block of the first key; a part of a block does not count */
} hth_fetch_order;

typedef struct hth_fetched {
    uint64_t n_bytes;  /* of rows that came */
    uint64_t n_read;   /* likewise, with those of a row that did not come whole */
    uint64_t ns;       /* the whole fetch took */
    uint64_t data_ns;  /* since the manifest */
    uint32_t n_tokens; /* of the prompt that are here now, behind those that were known */
    uint32_t n_rows;
    hth_carrier_end end;
    bool gave_up; /* the judge ended it */
} hth_fetched;

/*
 * Fetch rows into the tiers. Blocks for as long as pull_judge.h allows; when *stop becomes true, it ends soon. Rows
 * that came before the end stay, whatever the end.
 */
void hth_fetch_rows(hth_tiers *tiers, struct ssl_ctx_st *context, const hth_fetch_order *order, const atomic_bool *stop,
                    const hth_log *log, hth_fetched *out);

#endif
