/*
 * ram_table.h - finds rows of the RAM tier by id, and the rows that follow a prefix
 *
 * Two chained hash tables over the same rows. Keys are SHA-256 digests, of which any eight bytes are a hash already. The
 * links are in the rows, so adding one needs no memory and cannot fail; where the tables cannot grow, chains do. (uthash
 * would need 112 bytes of handles a row, which is more than the rest of it.)
 *
 * No thread of its own: the RAM tier's lock guards it.
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

/* False when there is no memory; table may then be deinitialised, too. */
bool hth_ram_table_init(hth_ram_table *table);
void hth_ram_table_deinit(hth_ram_table *table); /* rows are the caller's */

/* NULL when it is not there. */
hth_ram_row *hth_ram_table_find(const hth_ram_table *table, const hth_row_id *id);
/* The youngest row whose parent is that key; the others by their older. NULL when there is none. */
hth_ram_row *hth_ram_table_children(const hth_ram_table *table, const hth_key *parent);
/* A row whose meta is set and whose id is not in the table. */
void hth_ram_table_add(hth_ram_table *table, hth_ram_row *row);
void hth_ram_table_remove(hth_ram_table *table, hth_ram_row *row);

#endif
