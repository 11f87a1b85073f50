/*
 * serve.h - give rows to another node, on a connection of its
 */
#ifndef HTH_CARRIER_SERVE_H
#define HTH_CARRIER_SERVE_H

#include <stdatomic.h>

#include "base/log.h"
#include "carrier/tiers.h"

struct ssl_ctx_st;

typedef struct hth_served {
    uint64_t n_bytes;
    uint32_t n_rows;
} hth_served;

/*
 * Answer the requests of a connection, which this closes, until the other node ends it, is silent for too long, or
 * *stop is true. Blocks; memory is bounded. *out: what it got. *is_member becomes true when the other side has shown
 * that it belongs to the fleet.
 */
void hth_serve(hth_tiers *tiers, struct ssl_ctx_st *context, int fd, const atomic_bool *stop, const hth_log *log,
               hth_served *out, atomic_bool *is_member);

#endif
