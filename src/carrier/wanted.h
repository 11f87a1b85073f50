/*
 * wanted.h - which rows of another node are taken
 *
 * A row is taken if it lies at a boundary that was asked for, or stands on one, and covers the positions that it must.
 * So a peer can neither fill the cache with rows that nobody asked for, nor replace others. Whether the tokens are
 * those of the prompt, and the keyspace the model's, the worker checks when it uses the row, as for every file.
 */
#ifndef HTH_CARRIER_WANTED_H
#define HTH_CARRIER_WANTED_H

#include "carrier/row_protocol.h"

enum { HTH_WANTED_ENDS_MAX = 32 };

typedef struct hth_wanted {
    const hth_row_wish *wishes; /* [n], borrowed; boundaries that follow each other */
    uint32_t n;
    uint32_t begin;  /* position where the block of the first one begins */
    uint32_t n_ends; /* of leaves that were taken, whose logits may follow */
    hth_row_meta ends[HTH_WANTED_ENDS_MAX];
} hth_wanted;

/* Is the row wanted? Notes the end of a leaf. */
bool hth_wanted_take(hth_wanted *wanted, const hth_row_meta *meta);

#endif
