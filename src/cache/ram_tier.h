/*
 * ram_tier.h - rows in memory, as complete KVC images
 *
 * A row is packed straight into a slab, is found by its id from the moment it is inserted, and is written to a file
 * from the same bytes. Rows are pinned while somebody reads or writes them; only unpinned ones are evicted, leaves (rows
 * that nothing in the tier stands on) before inner rows and the least recently used first, where a use of a row counts
 * as a use of what it stands on. Restores from a slower tier put their rows here too, so that the next one finds them in
 * memory.
 *
 * The memory may come from outside, as a file in memory that outlives the process. The tier then begins with the rows
 * that an earlier process, ended in whatever way, left in it. Each of those is checked in full before its first use, and
 * dropped when it is damaged. With a signing key it must carry a right signature, too. Rows get theirs when they are
 * written to a file, so with a key those that were saved and not yet written when the process ended are dropped.
 *
 * Every function may be called from any thread.
 */
#ifndef HTH_CACHE_RAM_TIER_H
#define HTH_CACHE_RAM_TIER_H

#include "cache/leaf.h"
#include "cache/past.h"
#include "cache/row.h"
#include "cache/signing_key.h"

typedef struct hth_ram_tier hth_ram_tier;
typedef struct hth_ram_row hth_ram_row;

typedef struct hth_ram_tier_options {
    uint64_t bytes_max; /* of slabs; memory between them may come to a sixteenth more */
    bool warm;          /* fault memory in ahead of use, on a helper thread */
    int memory_fd; /* -1: private memory; else a file in memory (hth_os_memory_file_new), which stays the caller's */
    const hth_signing_key
        *key; /* what adopted rows must be signed with; borrowed until the close. NULL: they need not */
    hth_past
        *past; /* remembers rows that are evicted and in no file, and damaged ones; outlives the tier. May be NULL */
} hth_ram_tier_options;

/*
 * A tier. With a memory_fd it locks the file for itself, whatever else holds descriptors of it, until the close or the
 * process's end, and adopts the rows in it, the least recently used of which are evicted where they exceed bytes_max;
 * what is in the file and is no RAM tier's memory of this version is cleared. Nobody may make the file shorter meanwhile.
 *
 * HEARTH_BUSY when another tier has the file; HEARTH_UNSUPPORTED where the system cannot do it; HEARTH_MISUSE when
 * memory_fd is no file; HEARTH_IO; HEARTH_NO_MEMORY. A tier in private memory is still to be had then.
 */
hearth_status hth_ram_tier_open(const hth_ram_tier_options *options, hth_ram_tier **out, hearth_error *err);
/* Every row unpinned. Rows in a memory file stay there for the next tier. Accepts NULL. */
void hth_ram_tier_close(hth_ram_tier *tier);

/*
 * A slab of n_bytes for a row that is to be filled by the caller, evicting what must go. The row is pinned once and
 * nobody else sees it until hth_ram_tier_insert. NULL when pinned rows leave no room. Where the system has no memory for
 * a memory file to grow, though the quota would allow it, older rows are evicted instead; NULL when that was not enough.
 * The quota stays: as soon as there is memory again, it is used.
 */
hth_ram_row *hth_ram_tier_reserve(hth_ram_tier *tier, size_t n_bytes);
/* A reserved row turned out to need only its first n_bytes, > 0; the pages behind them are free again. */
void hth_ram_row_shrink(hth_ram_tier *tier, hth_ram_row *row, size_t n_bytes);

/* The row's bytes, [hth_ram_row_bytes()]. Written only before the insert; valid while pinned. */
uint8_t *hth_ram_row_image(hth_ram_row *row);
size_t hth_ram_row_bytes(const hth_ram_row *row);
/* What the row was inserted as; of an adopted one what its head says. */
const hth_row_meta *hth_ram_row_meta(const hth_ram_row *row);

/*
 * Make a filled row visible as meta->id; the caller keeps its pin. When a row of that id is there already, the new one
 * is given back and the old one returned, pinned. Never fails.
 */
hth_ram_row *hth_ram_tier_insert(hth_ram_tier *tier, hth_ram_row *row, const hth_row_meta *meta);

/* Is the row in a file, or on its way there? Set by the writer; false of an adopted row, since its file is not known. */
bool hth_ram_row_is_stored(const hth_ram_row *row);
void hth_ram_row_set_stored(hth_ram_row *row, bool stored);

/* Is a row of that id here, and what is it (out may be NULL)? Neither pins, nor marks, nor checks it. */
bool hth_ram_tier_has(hth_ram_tier *tier, const hth_row_id *id, hth_row_meta *out);
/*
 * Looks, which pin nothing, mark no use and verify nothing: whether a row is in a file (false: no such row here), its own
 * tokens, at most capacity (0: it is not here, or no leaf), and what a search wants to see.
 */
bool hth_ram_tier_is_stored(hth_ram_tier *tier, const hth_row_id *id, bool *stored_out);
size_t hth_ram_tier_tokens(hth_ram_tier *tier, const hth_row_id *id, hearth_token *out, size_t capacity);
void hth_ram_tier_find_leaf(hth_ram_tier *tier, hth_leaf_search *search);
/*
 * The row of that id, pinned and marked as just used; NULL when it is not here. The first pin of an adopted row reads it
 * whole; a damaged one, or with a key one that is not signed with it, is dropped and not here.
 */
hth_ram_row *hth_ram_tier_pin(hth_ram_tier *tier, const hth_row_id *id);
/* Count a use of each of these rows that is here; what is found of them tells. */
void hth_ram_tier_count_uses(hth_ram_tier *tier, const hth_row_id *ids, size_t n);
/* One more pin for another holder. */
void hth_ram_tier_pin_again(hth_ram_tier *tier, hth_ram_row *row);
/* Give a pin back. A row that was never inserted, or was removed while pinned, is freed with its last pin. */
void hth_ram_tier_unpin(hth_ram_tier *tier, hth_ram_row *row);

/* Take a row out of sight; it is freed with its last pin. Nothing happens when it is not here. */
void hth_ram_tier_remove(hth_ram_tier *tier, const hth_row_id *id);

/* Rows whose parent is that key, at most capacity, the newest first; returns how many. */
size_t hth_ram_tier_children(hth_ram_tier *tier, const hth_key *parent, hth_row_meta *out, size_t capacity);

/*
 * Evict unpinned rows until n_bytes of slabs were freed, and give as much memory back to the system. Returns the bytes
 * evicted, which are fewer only when the rest is pinned.
 */
uint64_t hth_ram_tier_evict_bytes(hth_ram_tier *tier, uint64_t n_bytes);
/*
 * A new quota. What exceeds it is evicted and its memory given back to the system now, what is pinned as soon as it is
 * not.
 */
void hth_ram_tier_set_bytes_max(hth_ram_tier *tier, uint64_t bytes_max);

/* One row of a dump. */
typedef struct hth_ram_row_state {
    hth_row_meta meta;
    uint64_t bytes; /* of the slab */
    uint32_t pins;
    bool stored;
    bool verified; /* false: adopted, and not used since */
    bool leaf;     /* nothing in the tier stands on it */
    uint64_t used_at;
} hth_ram_row_state;

/*
 * Every visible row at one moment, the most recently used first, as a new array that the caller frees; NULL with
 * *n_out == 0 when there are none. HEARTH_NO_MEMORY.
 */
hearth_status hth_ram_tier_dump(hth_ram_tier *tier, hth_ram_row_state **out, size_t *n_out, hearth_error *err);

typedef struct hth_ram_tier_totals {
    uint64_t rows;
    uint64_t bytes;        /* of slabs, rows that are being filled included */
    uint64_t bytes_max;    /* the quota in force */
    uint64_t bytes_mapped; /* memory held: slabs, and free memory that was touched before */
    uint64_t bytes_pinned; /* of slabs that somebody holds */
    uint64_t rows_evicted;
    uint64_t rows_adopted;         /* found in the memory file, with a sound head */
    uint64_t rows_adopted_dropped; /* found there and damaged or not signed, at once or at their first use */
} hth_ram_tier_totals;
void hth_ram_tier_totals_get(hth_ram_tier *tier, hth_ram_tier_totals *out);

#endif
