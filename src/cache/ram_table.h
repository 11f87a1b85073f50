/*
 * ram_table.h - finds rows of the RAM tier by id, and the rows that follow a prefix
 *
 * Two chained hash tables over the same rows. Keys are SHA-256 digests, so any eight bytes of a key are a hash. The
 * links are in the rows, so adding a row needs no memory and cannot fail. If the tables cannot grow, the chains do.
 * (uthash would need 112 bytes of handles per row, more than all other bookkeeping of a row.)
 *
 * The lock of the RAM tier guards the tables.
 */
#ifndef HTH_CACHE_RAM_TABLE_H
#define HTH_CACHE_RAM_TABLE_H

#include "cache/ram_row.h"

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
