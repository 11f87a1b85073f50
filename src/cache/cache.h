/*
 * cache.h - the cache as the scheduler sees it: find rows, borrow them, put new ones in
 *
 * One cache serves all models of a process. Behind it stand the RAM tier, the file tier and the writer; what goes wrong
 * in any of them makes a lookup find less or a save keep less, and is never an error of the request.
 *
 *   lookup (lookup.h)   which rows cover the longest prefix of a prompt
 *   borrow              one row's bytes, verified, pinned in RAM; from a file it is read into a RAM slab first
 *   save                a slab to pack into; committing makes the row visible and hands it to the writer
 */
#ifndef HTH_CACHE_CACHE_H
#define HTH_CACHE_CACHE_H

#include "cache/counters.h"
#include "cache/file_tier_set.h"
#include "cache/ram_tier.h"
#include "cache/signing_key.h"
#include "cache/writer.h"

typedef struct hth_cache hth_cache;

typedef struct hth_cache_options {
    uint64_t ram_bytes_max;
    const char *ram_file_directory; /* on tmpfs; NULL: no such tier */
    uint64_t ram_file_bytes_max;
    uint64_t ram_file_free_min;
    const char *directory;               /* on a disk; NULL: no such tier */
    const char *const *more_directories; /* further roots of that tier, [n_more_directories] */
    size_t n_more_directories;           /* less than HTH_FILE_TIER_ROOTS_MAX */
    const char *index_directory;         /* its index lies below, for each root; NULL: beside the rows */
    uint64_t disk_bytes_max;             /* an equal part for each root; UINT64_MAX: none, and the noted one stays */
    uint64_t disk_free_min;
    unsigned n_writer_threads; /* 0: one; at most HTH_WRITER_THREADS_MAX */
    hth_writer_limits write_limits;
    bool save_on_second_use;    /* write a row to files when it is used for the first time, not when it is made */
    int ram_memory_fd;          /* -1: private memory; see hth_ram_tier_options */
    const hth_signing_key *key; /* sign rows, and lend only signed ones from files; NULL: no signatures */
    hth_counters *counters;     /* outlives the cache; NULL: its own */
    const hth_log *log;         /* outlives the cache */
    const hth_fs *fs;           /* NULL: the system's; for tests */
} hth_cache_options;

/* A directory that cannot be used costs its tier and one warning, not the cache. */
hearth_status hth_cache_open(const hth_cache_options *options, hth_cache **out, hearth_error *err);
/*
 * Writes what waits, for at most timeout_ms. No row borrowed, no save open. Accepts NULL. False when a writer hangs (see
 * hth_writer_close): the cache and what its options named then stay in use, for as long as the process lives.
 */
bool hth_cache_close(hth_cache *cache, uint32_t timeout_ms);
/* Wait until everything saved before the call is durable; false after timeout_ms. */
bool hth_cache_flush(hth_cache *cache, uint32_t timeout_ms);

/* ---- finding ---- */

/*
 * To look is not to use: what is found keeps its place in the order of eviction, is not pinned and is not verified; that
 * is for the borrow. Nothing waits for a device where an index knows all rows, which is the rule: see hth_file_tier_look.
 */

/* The tier that holds a row (HEARTH_TIER_NONE: none does); *out (may be NULL) what it is. */
hearth_tier hth_cache_find(hth_cache *cache, const hth_row_id *id, hth_row_meta *out);
/* The same for who asks for many: *n_names bounds how many files are looked for in vain. */
hearth_tier hth_cache_look(hth_cache *cache, const hth_row_id *id, hth_row_meta *out, unsigned *n_names);
/* Show a search the rows of every tier, the fastest first, until there is nothing better to be found. */
void hth_cache_find_leaf(hth_cache *cache, hth_leaf_search *search);
/* The row's own tokens, at most capacity of them; 0 where it is not there or no leaf (row.h). */
size_t hth_cache_tokens(hth_cache *cache, const hth_row_id *id, hearth_token *tokens, size_t capacity);
/* Rows whose parent is that key, over all tiers, each once; at most capacity. */
size_t hth_cache_children(hth_cache *cache, const hth_key *parent, hth_row_meta *out, size_t capacity);

/* Can other processes put rows into it? */
bool hth_cache_is_shared(const hth_cache *cache);
/*
 * For waiting for rows that another process is about to write: read the number, look for them, then wait until the
 * number is another one. False when nothing was published, given up or taken away by anybody for timeout_ms; at once
 * without file tiers, where there is nobody to wait for.
 */
uint32_t hth_cache_changes(hth_cache *cache);
bool hth_cache_wait_change(hth_cache *cache, uint32_t seen, uint32_t timeout_ms);

/* ---- borrowing ---- */

typedef struct hth_borrowed_row {
    hth_ram_row *pin;
    hearth_tier tier; /* where it was found */
    hth_kvc_info info;
    const uint8_t *payload;
    size_t payload_bytes;
    uint64_t lent_ns; /* until it is given back it is being unpacked */
} hth_borrowed_row;

/*
 * Borrow a row. keyspace NULL: of whichever it is, which out->info says. What is read from a file must pass every check
 * (format, both checksums, own key, kind, keyspace, parent and first position as in expected) before anybody sees it;
 * what fails is quarantined and the answer is
 * HEARTH_CORRUPT. HEARTH_NOT_FOUND: no tier has it (any more). HEARTH_NO_MEMORY: no room in RAM. HEARTH_IO.
 * Give it back with hth_cache_return.
 */
hearth_status hth_cache_borrow(hth_cache *cache, const hth_keyspace *keyspace, const hth_row_meta *expected,
                               hth_borrowed_row *out, hearth_error *err);
void hth_cache_return(hth_cache *cache, hth_borrowed_row *row);
/* The same for one that was not put into a context: it counts as no restore. */
void hth_cache_return_unused(hth_cache *cache, hth_borrowed_row *row);
/* Set aside a row that the engine or a caller found to be wrong: out of RAM, its file quarantined. reason is static. */
void hth_cache_reject(hth_cache *cache, const hth_row_id *id, const char *reason);
/*
 * The same at once, and though its checks find nothing wrong: true when no tier has it any more. May write to an index:
 * not for the scheduler's thread.
 */
bool hth_cache_quarantine(hth_cache *cache, const hth_row_id *id, const char *reason);
/*
 * Drop a row that nothing will want again, from every tier; readers that hold it keep it. A pinned one keeps its file.
 * Never waits.
 */
void hth_cache_forget(hth_cache *cache, const hth_row_id *id);
/* The same with superseded, once row id, which is saved and holds all of it, is written. Never waits. */
void hth_cache_supersede(hth_cache *cache, const hth_row_id *id, const hth_row_id *superseded);
/*
 * A row that the index knows has lost its file: it counts as not there until it is saved again.
 */
void hth_cache_note_gone(hth_cache *cache, const hth_row_id *id);
/* Note that these rows served a request. */
void hth_cache_touch(hth_cache *cache, const hth_row_id *ids, size_t n);

/* ---- pins ---- */

/*
 * Pin a prefix in the slowest file tier, which is where rows last, or give the pin back: see hth_file_tier_set_pin, the
 * statuses as there. HEARTH_UNSUPPORTED without file tiers. In RAM and in faster tiers its rows give way as others do.
 */
hearth_status hth_cache_pin(hth_cache *cache, const hth_key *key, hearth_error *err);
hearth_status hth_cache_unpin(hth_cache *cache, const hth_key *key, hearth_error *err);
bool hth_cache_is_pinned(hth_cache *cache, const hth_key *key);

/* ---- saving ---- */

/*
 * Is there nothing to save for this id? A row that is in RAM only, because its write was dropped or failed, is queued for
 * the file tier again.
 */
bool hth_cache_is_saved(hth_cache *cache, const hth_row_id *id);
/* Rows that were not kept so far, for whatever reason: a save that must be durable compares it before and after. */
uint64_t hth_cache_n_lost(hth_cache *cache);

typedef struct hth_save {
    const hth_keyspace *keyspace;
    hth_row_id id;
    hth_key parent; /* key of [0, first_position); a snapshot's: of the last block boundary before its end */
    uint32_t first_position;
    const hearth_token *tokens; /* the row's own, [n_tokens] */
    uint32_t n_tokens;
    uint32_t context_size;
    hearth_save_reason reason;
    const char *engine_build;
    size_t payload_bytes;
    const char *text; /* of the tokens, [n_text_bytes], kept in the row; NULL: prompts are private */
    size_t n_text_bytes;
    const hth_row_id *superseded; /* a row that nobody needs once this one is durable; NULL: none */
} hth_save;

typedef struct hth_save_slot hth_save_slot;

/*
 * A slab for the row's payload, or NULL when there is no room in RAM (counted as dropped). What save points to must
 * stay until the commit or abort.
 */
hth_save_slot *hth_cache_save_begin(hth_cache *cache, const hth_save *save);
/* Where the payload goes, [payload_bytes]. */
uint8_t *hth_save_slot_payload(hth_save_slot *slot);
/* The payload is complete: make the row visible and queue it for the file tier. Frees the slot. */
void hth_cache_save_commit(hth_cache *cache, hth_save_slot *slot);
void hth_cache_save_abort(hth_cache *cache, hth_save_slot *slot); /* accepts NULL */
/*
 * Put a row in whose image another cache made, head included, and which the caller has checked as a file is. It goes to RAM
 * and to files as one that was saved because memory goes. *is_new_out: it was not there before. HEARTH_FULL when pinned
 * rows leave no room in RAM. Copies image.
 */
hearth_status hth_cache_put(hth_cache *cache, const hth_row_meta *meta, const uint8_t *image, size_t n_bytes,
                            bool *is_new_out, hearth_error *err);
/* What rows are signed with; NULL: nothing. */
const hth_signing_key *hth_cache_signing_key(const hth_cache *cache);

/* ---- watching and steering ---- */

/* The writer's bounds; without file tiers there are none, and both do nothing. */
void hth_cache_write_limits_get(hth_cache *cache, hth_writer_limits *out);
void hth_cache_write_limits_set(hth_cache *cache, const hth_writer_limits *limits);

/* Fill what only the tiers know: rows evicted since the last reset, and what there is now. */
void hth_cache_counters(hth_cache *cache, hearth_counters *out);
hth_counters *hth_cache_counters_of(hth_cache *cache);
/* Begin to count rows evicted at zero again. */
void hth_cache_counters_reset(hth_cache *cache);
/* A row of one tier, as hth_cache_rows shows it. */
typedef struct hth_cache_row {
    hth_row_meta meta;
    hearth_tier tier;
    uint32_t n_pins; /* RAM tier only */
} hth_cache_row;
typedef bool (*hth_cache_row_fn)(const hth_cache_row *row, void *user_data);
/* Every row of every tier, the fastest first, in each the least recently used first, until the callback says false. */
hearth_status hth_cache_rows(hth_cache *cache, hth_cache_row_fn on_row, void *user_data, hearth_error *err);
/*
 * Evict until n_bytes were freed in each of the tiers, a set of HEARTH_EVICT_...; *bytes_out how many were, in all. May
 * write to an index: not for the scheduler's thread.
 */
hearth_status hth_cache_evict(hth_cache *cache, uint64_t n_bytes, unsigned tiers, uint64_t *bytes_out,
                              hearth_error *err);

/* Remove what dead processes left in the file tiers and evict down to the quotas; *rows_out how many. Likewise. */
hearth_status hth_cache_gc(hth_cache *cache, uint64_t *rows_out, hearth_error *err);

/* True when rows are kept beyond this process. */
bool hth_cache_is_durable(const hth_cache *cache);

#endif
