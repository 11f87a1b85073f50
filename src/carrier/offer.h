/*
 * offer.h - which rows a node gives for a request
 *
 * A prefix of plain attention is as long as its blocks reach without a gap, so the blocks of the longest run from the
 * first key go along, and then what stands on the last of them: tails, and the logits for a prompt that ends there.
 * Models with a recurrent state need the state at the end of the prefix, too. So where a state is known at a boundary
 * of the run, or inside the block after it, the run ends with the last of these. A model of such state alone has no
 * blocks; then the last state among all keys is all it needs. States go first: they tell the client that it needs all
 * of the rows.
 */
#ifndef HTH_CARRIER_OFFER_H
#define HTH_CARRIER_OFFER_H

#include "carrier/row_protocol.h"
#include "carrier/tiers.h"

enum { HTH_OFFER_LEAVES_MAX = 4 }; /* tails, or states, of one boundary */

typedef struct hth_offer {
    hth_row_list rows; /* in the order in which they are given */
    hth_row_manifest manifest;
} hth_offer;

/* Fill *out, which hth_offer_deinit releases. False: no memory. May read files by name. */
bool hth_offer_make(hth_tiers *tiers, const hth_row_wish *wishes, uint32_t n_wishes, hth_offer *out);
void hth_offer_deinit(hth_offer *offer);

#endif
