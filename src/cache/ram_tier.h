/*
 * ram_tier.h - rows in memory, as complete KVC images
 *
 * A row is packed straight into a slab, is found by its id from the moment it is inserted, and is written to a file
 * from the same bytes. Rows are pinned while somebody reads or writes them; only unpinned ones are evicted, the least
 * recently used first. Restores from a slower tier put their rows here too, so that the next one finds them in memory.
 */
#ifndef HTH_CACHE_RAM_TIER_H
#define HTH_CACHE_RAM_TIER_H

#include "cache/row.h"

typedef struct hth_ram_tier hth_ram_tier;
typedef struct hth_ram_row hth_ram_row;

/* A tier of at most bytes_max bytes of slabs. warm: fault memory in ahead of use, on a helper thread. */
hearth_status hth_ram_tier_open(uint64_t bytes_max, bool warm, hth_ram_tier **out, hearth_error *err);
void hth_ram_tier_close(hth_ram_tier *tier); /* every row unpinned; accepts NULL */

/*
 * A slab of n_bytes for a row that is to be filled by the caller, evicting what must go. The row is pinned once and
 * nobody else sees it until hth_ram_tier_insert. NULL when pinned rows leave no room.
 */
hth_ram_row *hth_ram_tier_reserve(hth_ram_tier *tier, size_t n_bytes);

/* The row's bytes, [hth_ram_row_bytes()]. Written only before the insert; valid while pinned. */
uint8_t *hth_ram_row_image(hth_ram_row *row);
size_t hth_ram_row_bytes(const hth_ram_row *row);
/* What the row was inserted as. */
const hth_row_meta *hth_ram_row_meta(const hth_ram_row *row);

/*
 * Make a filled row visible as meta->id; the caller keeps its pin. When a row of that id is there already, the new one
 * is given back and the old one returned, pinned. Never fails.
 */
hth_ram_row *hth_ram_tier_insert(hth_ram_tier *tier, hth_ram_row *row, const hth_row_meta *meta);

/* Is the row in a file, or on its way there? Set by the writer; any thread. */
bool hth_ram_row_is_stored(const hth_ram_row *row);
void hth_ram_row_set_stored(hth_ram_row *row, bool stored);

/* Is a row of that id here? Neither pins nor marks it. */
bool hth_ram_tier_has(hth_ram_tier *tier, const hth_row_id *id);
/* The row of that id, pinned and marked as just used; NULL when it is not here. */
hth_ram_row *hth_ram_tier_pin(hth_ram_tier *tier, const hth_row_id *id);
/* One more pin for another holder. */
void hth_ram_tier_pin_again(hth_ram_tier *tier, hth_ram_row *row);
/* Give a pin back. A row that was never inserted, or was removed while pinned, is freed with its last pin. */
void hth_ram_tier_unpin(hth_ram_tier *tier, hth_ram_row *row);

/* Take a row out of sight; it is freed with its last pin. Nothing happens when it is not here. */
void hth_ram_tier_remove(hth_ram_tier *tier, const hth_row_id *id);

/* Rows whose parent is that key, at most capacity, the newest first; returns how many. */
size_t hth_ram_tier_children(hth_ram_tier *tier, const hth_key *parent, hth_row_meta *out, size_t capacity);

typedef struct hth_ram_tier_totals {
    uint64_t rows;
    uint64_t bytes; /* of slabs, rows that are being filled included */
    uint64_t rows_evicted;
} hth_ram_tier_totals;
void hth_ram_tier_totals_get(hth_ram_tier *tier, hth_ram_tier_totals *out);

#endif
