/*
 * ram_table.h - a row of the RAM tier, and tables that find it by its id or by the prefix that it follows
 *
 * There may be tens of thousands of small rows, so their bookkeeping is small: the links are in the row, and the tables
 * are arrays of pointers. tests/unit/ram_tier_test.c keeps the total under 300 bytes per row.
 *
 * Two chained hash tables over the same rows. Keys are SHA-256 digests, so any eight bytes of a key are a hash. The
 * links are in the rows, so adding a row needs no memory and cannot fail. If the tables cannot grow, the chains do.
 * (uthash would need 112 bytes of handles per row, more than all other bookkeeping of a row.)
 *
 * The lock of the RAM tier guards the tables.
 */
#ifndef HTH_CACHE_RAM_TABLE_H
#define HTH_CACHE_RAM_TABLE_H

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

typedef struct hth_ram_table {
    size_t n_rows;
    size_t n_buckets;       /* of each table; a power of two */
    hth_ram_row **by_id;    /* [n_buckets] */
    hth_ram_row **families; /* [n_buckets], first children by their parent's key */
} hth_ram_table;

/* False without memory; even then, table may be deinitialised. */
bool hth_ram_table_init(hth_ram_table *table);
void hth_ram_table_deinit(hth_ram_table *table); /* the rows belong to the caller */

/* NULL if there is no such row. */
hth_ram_row *hth_ram_table_find(const hth_ram_table *table, const hth_row_id *id);
/* The youngest row with that parent; `older` leads to the others. NULL if there is none. */
hth_ram_row *hth_ram_table_children(const hth_ram_table *table, const hth_key *parent);
/* Add a row with its meta set. No row of the same id may be in the table. */
void hth_ram_table_add(hth_ram_table *table, hth_ram_row *row);
void hth_ram_table_remove(hth_ram_table *table, hth_ram_row *row);

#endif
