/*
 * ram_tier.h - rows in memory, as complete KVC files
 *
 * A row is packed straight into a slab, can be found by its id once inserted, and is written to a file from the same
 * bytes. A reader or writer of a row pins it; only unpinned rows are evicted. Leaves (rows that nothing in the tier
 * stands on) go before inner rows, and the least recently used go first. A use of a row counts as a use of the rows
 * that it stands on. A restore from a slower tier also puts its rows here, so that the next restore finds them in
 * memory.
 *
 * The memory may be a file in memory that outlives the process. The tier then begins with the rows that an earlier
 * process left there, however that process ended. Each of them is checked in full before its first use, and dropped if
 * it is damaged. With a signing key, it must also carry a valid signature. A row gets its signature when it is written
 * to a file. So with a key, a row that was saved but not written when the process ended is dropped.
 *
 * Any thread may call every function.
 */
#ifndef HTH_CACHE_RAM_TIER_H
#define HTH_CACHE_RAM_TIER_H

#include "index/past.h"
#include "rows/row.h"
#include "rows/signing_key.h"

typedef struct hth_ram_tier hth_ram_tier;
typedef struct hth_ram_row hth_ram_row;

typedef struct hth_ram_tier_options {
    uint64_t bytes_max; /* of slabs; the gaps between them may add a sixteenth */
    bool warm;          /* fault memory in ahead of use, on a helper thread */
    int memory_fd; /* -1: private memory; otherwise a memory file (hth_os_memory_file_new), which the caller keeps */
    const hth_signing_key
        *key;       /* adopted rows must be signed with it; borrowed until the close. NULL: no signature needed */
    hth_past *past; /* remembers evicted rows that are in no file, and damaged rows; outlives the tier. May be NULL */
} hth_ram_tier_options;

/*
 * Open a tier. With a memory_fd, the tier locks the file until the close or the end of the process, even if others hold
 * descriptors of it. It adopts the rows in the file and evicts the least recently used of them that exceed bytes_max.
 * Content that is not the memory of a RAM tier of this version is cleared. The file must not be shortened while the
 * tier is open.
 *
 * HEARTH_BUSY if another tier has the file; HEARTH_UNSUPPORTED if the system cannot do it; HEARTH_MISUSE if memory_fd
 * is not a file; HEARTH_IO; HEARTH_NO_MEMORY. After a failure, the caller can still open a tier in private memory.
 */
hearth_status hth_ram_tier_open(const hth_ram_tier_options *options, hth_ram_tier **out, hearth_error *err);
/* Every row must be unpinned. Rows in a memory file stay there for the next tier. Accepts NULL. */
void hth_ram_tier_close(hth_ram_tier *tier);

/*
 * As hth_ram_tier_reserve. is_next: more rows of this size will follow, and memory for them is touched
 * (hth_arena_more_follow).
 */
hth_ram_row *hth_ram_tier_reserve_in(hth_ram_tier *tier, size_t n_bytes, bool is_next);
/*
 * Reserve a slab of n_bytes for a row that the caller fills, evicting other rows as needed. The row is pinned once, and
 * no other thread sees it until hth_ram_tier_insert. NULL if pinned rows leave no room. If the quota allows a memory
 * file to grow but the system has no memory for it, older rows are evicted instead; NULL if that was not enough. The
 * quota does not change, and is used in full again once there is memory.
 */
static inline hth_ram_row *hth_ram_tier_reserve(hth_ram_tier *tier, size_t n_bytes)
{
    return hth_ram_tier_reserve_in(tier, n_bytes, false);
}

/* The row's bytes, [hth_ram_row_bytes()]. Written only before the insert; valid while pinned. */
uint8_t *hth_ram_row_slab(hth_ram_row *row);
size_t hth_ram_row_bytes(const hth_ram_row *row);
/* The meta passed to the insert; for an adopted row, the meta from its head. */
const hth_row_meta *hth_ram_row_meta(const hth_ram_row *row);

/*
 * Make a filled row visible as meta->id; the caller keeps its pin. If a row of that id exists, the new one is released
 * and the old one is returned, pinned. Never fails.
 */
hth_ram_row *hth_ram_tier_insert(hth_ram_tier *tier, hth_ram_row *row, const hth_row_meta *meta);

/*
 * Is the row in a file, or on its way there? The writer sets it. False for an adopted row, because it is unknown
 * whether it has a file.
 */
bool hth_ram_row_is_stored(const hth_ram_row *row);
void hth_ram_row_set_stored(hth_ram_row *row, bool stored);

/* Is a row of that id here? Its meta goes to out (may be NULL). Does not pin, use or verify the row. */
bool hth_ram_tier_has(hth_ram_tier *tier, const hth_row_id *id, hth_row_meta *out);
/*
 * These do not pin, use or verify a row either. They return whether a row is in a file (false: no such row here), its
 * own tokens, at most capacity (0: not here, or not a leaf), and the leaves that a search asks for.
 */
bool hth_ram_tier_is_stored(hth_ram_tier *tier, const hth_row_id *id, bool *stored_out);
size_t hth_ram_tier_tokens(hth_ram_tier *tier, const hth_row_id *id, hearth_token *out, size_t capacity);
void hth_ram_tier_find_leaf(hth_ram_tier *tier, hth_leaf_search *search);
/*
 * The row of that id, pinned and marked as just used; NULL if it is not here. The first pin of an adopted row reads it
 * whole. If it is damaged, or not signed with the key, it is dropped, and the result is NULL.
 */
hth_ram_row *hth_ram_tier_pin(hth_ram_tier *tier, const hth_row_id *id);
/* Count a use of each of these rows that is here. The meta that a lookup returns contains the count. */
void hth_ram_tier_count_uses(hth_ram_tier *tier, const hth_row_id *ids, size_t n);
/* Add a pin for another holder. */
void hth_ram_tier_pin_again(hth_ram_tier *tier, hth_ram_row *row);
/* Give a pin back. The last unpin frees a row that was never inserted, or was removed while pinned. */
void hth_ram_tier_unpin(hth_ram_tier *tier, hth_ram_row *row);

/* Hide a row; its last unpin frees it. Does nothing if it is not here. */
void hth_ram_tier_remove(hth_ram_tier *tier, const hth_row_id *id);

/* Rows with that parent, at most capacity, the newest first. Returns their number. */
size_t hth_ram_tier_children(hth_ram_tier *tier, const hth_key *parent, hth_row_meta *out, size_t capacity);

/*
 * Evict unpinned rows until n_bytes of slabs are free, and return as much memory to the system. Returns the evicted
 * bytes; they are fewer only if all other rows are pinned.
 */
uint64_t hth_ram_tier_evict_bytes(hth_ram_tier *tier, uint64_t n_bytes);
/*
 * Set a new quota. Rows that exceed it are evicted and their memory returns to the system now, a little at a time, so
 * that other threads never wait long; pinned rows follow as soon as they are unpinned. One thread at a time.
 */
void hth_ram_tier_set_bytes_max(hth_ram_tier *tier, uint64_t bytes_max);

/* One row of a dump. */
typedef struct hth_ram_row_state {
    hth_row_meta meta;
    uint64_t bytes; /* of the slab */
    uint32_t pins;
    bool stored;
    bool verified; /* false: adopted and not used since */
    bool leaf;     /* no row in the tier stands on it */
    uint64_t used_at;
} hth_ram_row_state;

/*
 * A snapshot of all visible rows, the most recently used first, as a new array that the caller frees; NULL with *n_out
 * == 0 if there are none. HEARTH_NO_MEMORY.
 */
hearth_status hth_ram_tier_dump(hth_ram_tier *tier, hth_ram_row_state **out, size_t *n_out, hearth_error *err);

typedef struct hth_ram_tier_totals {
    uint64_t rows;
    uint64_t bytes;        /* of slabs, including those of rows that are being filled */
    uint64_t bytes_max;    /* the quota in force */
    uint64_t bytes_mapped; /* memory held: slabs, and free memory that was touched */
    uint64_t bytes_pinned; /* of pinned slabs */
    uint64_t rows_evicted;
    uint64_t rows_displaced;       /* rows that found no free room: other rows were evicted, or they got no slab */
    uint64_t rows_adopted;         /* found in the memory file, with a sound head */
    uint64_t rows_adopted_dropped; /* found there and damaged or not signed, at the opening or at their first use */
} hth_ram_tier_totals;
void hth_ram_tier_totals_get(hth_ram_tier *tier, hth_ram_tier_totals *out);

#endif
