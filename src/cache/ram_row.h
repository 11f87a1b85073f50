/*
 * ram_row.h - a row of the RAM tier, for the files that implement the tier
 *
 * There may be tens of thousands of small rows, so their bookkeeping is small: the links are in the row, and the tables
 * that find it (ram_table.h) are arrays of pointers. tests/unit/ram_tier_test.c keeps the total under 300 bytes per
 * row.
 */
#ifndef HTH_CACHE_RAM_ROW_H
#define HTH_CACHE_RAM_ROW_H

#include <stdatomic.h>

#include "rows/row.h"

typedef struct hth_ram_row hth_ram_row;
struct hth_ram_row {
    /* Fixed once the row is inserted. */
    uint8_t *slab;
    size_t bytes; /* of the slab; the slab is whole pages */
    hth_row_meta meta;
    uint32_t tokens_at; /* offset of its own tokens in the slab; 0: it is not a leaf, or not a row of ours */

    atomic_bool stored;

    /* Guarded by the tier's lock. */
    bool visible;    /* in the table */
    bool unverified; /* adopted, and its bytes have not been checked yet */
    bool inner;      /* idle, and in the list of inner rows instead of leaves */
    uint32_t pins;
    uint32_t n_uses;              /* since the insert or the adoption */
    uint32_t slot;                /* in the directory; HTH_RAM_DIRECTORY_NO_SLOT */
    uint64_t used_at;             /* a later use has a larger number */
    hth_ram_row *prev, *next;     /* idle rows, the least recently used first */
    hth_ram_row *next_id;         /* rows of one bucket by id */
    hth_ram_row *next_family;     /* first children of one bucket by parent; valid in a first child */
    hth_ram_row *older, *younger; /* rows of one parent; the first is the youngest */
};

#endif
