/*
 * ram_row.h - a row of the RAM tier, as the files that implement the tier see it
 *
 * Tens of thousands of rows may be small, so their bookkeeping is: links are in the row, and the tables that find it
 * (ram_table.h) are arrays of pointers. Under 300 bytes a row in all is what tests/unit/ram_tier_test.c counts.
 */
#ifndef HTH_CACHE_RAM_ROW_H
#define HTH_CACHE_RAM_ROW_H

#include <stdatomic.h>

#include "cache/ram_tier.h"

struct hth_ram_row {
    /* Fixed from the insert to the end. */
    uint8_t *image;
    size_t bytes; /* of the image; the slab is whole pages */
    hth_row_meta meta;
    uint32_t tokens_at; /* where in the image its own tokens are; 0: it is no leaf, or no row of ours */

    atomic_bool stored;

    /* Guarded by the tier's lock. */
    bool visible;    /* in the table */
    bool unverified; /* adopted, and nobody has checked its bytes yet */
    bool inner;      /* idle and in the list of inner rows, else in that of leaves */
    uint32_t pins;
    uint32_t n_uses;              /* since it came here */
    uint32_t slot;                /* in the directory; HTH_RAM_DIRECTORY_NO_SLOT */
    uint64_t used_at;             /* a later use has a larger number */
    hth_ram_row *prev, *next;     /* idle rows, the least recently used first */
    hth_ram_row *next_id;         /* rows of one bucket by id */
    hth_ram_row *next_family;     /* first children of one bucket by parent; valid in a first child */
    hth_ram_row *older, *younger; /* rows of one parent, the first is the youngest */
};

#endif
