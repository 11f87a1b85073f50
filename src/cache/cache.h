/*
 * cache.h - the cache as the scheduler sees it: find rows, borrow them, save new ones
 *
 * One cache serves all models of a process. Behind it are the RAM tier, the file tiers and the writer. When one of them
 * fails, a lookup finds less or a save keeps less. The request itself never fails because of that.
 *
 *   lookup (lookup.h)   which rows cover the longest prefix of a prompt
 *   borrow              pin one row in RAM and get its verified bytes; a row in a file is read into a RAM slab first
 *   save                get a slab to pack into; the commit makes the row visible and hands it to the writer
 */
#ifndef HTH_CACHE_CACHE_H
#define HTH_CACHE_CACHE_H

#include "cache/counters.h"
#include "cache/file_tier_set.h"
#include "cache/ram_tier.h"
#include "cache/writer.h"
#include "rows/signing_key.h"

typedef struct hth_cache hth_cache;

typedef struct hth_cache_options {
    uint64_t ram_bytes_max;
    const char *ram_file_directory; /* on tmpfs; NULL: no such tier */
    uint64_t ram_file_bytes_max;
    uint64_t ram_file_free_min;
    const char *directory;               /* on a disk; NULL: no such tier */
    const char *const *more_directories; /* further roots of that tier, [n_more_directories] */
    size_t n_more_directories;           /* less than HTH_FILE_TIER_ROOTS_MAX */
    const char *index_directory;         /* the index of each root lies below it; NULL: beside the rows */
    uint64_t disk_bytes_max; /* split equally among the roots; UINT64_MAX: no quota, keep the recorded one */
    uint64_t disk_free_min;
    unsigned n_writer_threads; /* 0: one; at most HTH_WRITER_THREADS_MAX */
    hth_writer_limits write_limits;
    bool save_on_second_use;    /* write a row to files at its first use instead of at its save */
    bool is_of_copies;          /* of the carrier: what is lost can be had again, so no file is synced */
    int ram_memory_fd;          /* -1: private memory; see hth_ram_tier_options */
    const hth_signing_key *key; /* sign rows, and use rows from files only if signed; NULL: no signatures */
    hth_counters *counters;     /* outlives the cache; NULL: the cache makes its own */
    const hth_log *log;         /* outlives the cache */
    const hth_fs *fs;           /* NULL: the system's; others are for tests */
} hth_cache_options;

/* If a directory cannot be used, the cache opens without that tier and logs one warning. */
hearth_status hth_cache_open(const hth_cache_options *options, hth_cache **out, hearth_error *err);
/*
 * Write the queued rows, for at most timeout_ms, and close. No row may be borrowed and no save open. Accepts NULL.
 * False when a writer hangs (see hth_writer_close): the cache and everything its options point to then stay in use
 * until the process ends.
 */
bool hth_cache_close(hth_cache *cache, uint32_t timeout_ms);
/* Wait until everything saved before the call is durable; false after timeout_ms. */
bool hth_cache_flush(hth_cache *cache, uint32_t timeout_ms);

/* ---- finding ---- */

/*
 * Finding a row does not count as using it: the row keeps its place in the eviction order, and is neither pinned nor
 * verified. Borrowing it does all of that. No call waits for a device where an index knows all rows, which is the
 * normal case: see hth_file_tier_look.
 */

/* The tier that holds a row, or HEARTH_TIER_NONE; *out (may be NULL) describes the row. */
hearth_tier hth_cache_find(hth_cache *cache, const hth_row_id *id, hth_row_meta *out);
/* The same for callers that ask for many rows: at most *n_names missing files are looked up by name. */
hearth_tier hth_cache_look(hth_cache *cache, const hth_row_id *id, hth_row_meta *out, unsigned *n_names);
/* Show a search the rows of every tier, the fastest tier first, until no better row can be found. */
void hth_cache_find_leaf(hth_cache *cache, hth_leaf_search *search);
/* The row's own tokens, at most capacity of them; 0 when the row is absent or not a leaf (row.h). */
size_t hth_cache_tokens(hth_cache *cache, const hth_row_id *id, hearth_token *tokens, size_t capacity);
/* The rows with this parent key in all tiers, each once; at most capacity. */
size_t hth_cache_children(hth_cache *cache, const hth_key *parent, hth_row_meta *out, size_t capacity);

/* True when other processes can add rows. */
bool hth_cache_is_shared(const hth_cache *cache);
/* A number that changes when any process publishes, abandons or removes a row. Without file tiers it never changes. */
uint32_t hth_cache_changes(hth_cache *cache);

/* ---- borrowing ---- */

typedef struct hth_borrowed_row {
    hth_ram_row *pin;
    hearth_tier tier; /* the tier in which it was found */
    hth_kvc_info info;
    const uint8_t *image;
    size_t image_bytes;
    uint64_t begin_ns; /* start of the unpacking, which ends when the row is returned */
} hth_borrowed_row;

/*
 * Borrow a row. keyspace NULL: accept any; out->info tells which. A row from a file must pass every check before it is
 * used: its format, both checksums, and its own key, kind, keyspace, parent and first position, which must be as in
 * expected. A file that fails is quarantined, and the status is HEARTH_CORRUPT. HEARTH_NOT_FOUND: no tier has the row
 * (any more). HEARTH_NO_MEMORY: no room in RAM. HEARTH_IO. Give the row back with hth_cache_return.
 */
hearth_status hth_cache_borrow(hth_cache *cache, const hth_keyspace *keyspace, const hth_row_meta *expected,
                               hth_borrowed_row *out, hearth_error *err);
void hth_cache_return(hth_cache *cache, hth_borrowed_row *row);
/* The same for a row that was not restored into a context: it is not counted as a restore. */
void hth_cache_return_unused(hth_cache *cache, hth_borrowed_row *row);
/*
 * Set aside a row that the engine or a caller found to be wrong: remove it from RAM and quarantine its files. reason is
 * a static string.
 */
void hth_cache_reject(hth_cache *cache, const hth_row_id *id, const char *reason);
/*
 * An index describes a sound row wrongly: hide the row until a writer thread has checked its file and corrected the
 * index.
 */
void hth_cache_review(hth_cache *cache, const hth_row_id *id);
/*
 * The same as hth_cache_reject, but complete when the call returns, and even if the checks find no fault. True: no tier
 * has the row any more. May write to an index, so not for the scheduler's thread.
 */
bool hth_cache_quarantine(hth_cache *cache, const hth_row_id *id, const char *reason);
/*
 * Remove a row that will not be needed again from every tier. Readers that hold the row keep it; a pinned row keeps its
 * file. Never waits.
 */
void hth_cache_forget(hth_cache *cache, const hth_row_id *id);
/* The same for superseded, once the saved row id, which contains all of superseded, has been written. Never waits. */
void hth_cache_supersede(hth_cache *cache, const hth_row_id *id, const hth_row_id *superseded);
/* The index knows a row whose file is gone: treat the row as absent until it is saved again. */
void hth_cache_note_gone(hth_cache *cache, const hth_row_id *id);
/* Note that these rows served a request. */
void hth_cache_touch(hth_cache *cache, const hth_row_id *ids, size_t n);

/* ---- pins ---- */

/*
 * Pin a prefix in the slowest file tier, where rows last longest: see hth_file_tier_set_pin, also for the statuses.
 * HEARTH_UNSUPPORTED without file tiers. In RAM and in faster tiers the prefix's rows are evicted like any others. The
 * functions below find and remove pins in any tier.
 */
hearth_status hth_cache_pin(hth_cache *cache, const hth_key *key, hearth_error *err);
hearth_status hth_cache_unpin(hth_cache *cache, const hth_key *key, hearth_error *err);
/* The same, before the caller removes all rows at the end of the prefix: HEARTH_OK even if it is not pinned. */
hearth_status hth_cache_unpin_to_remove(hth_cache *cache, const hth_key *key, hearth_error *err);
bool hth_cache_is_pinned(hth_cache *cache, const hth_key *key);

/* ---- saving ---- */

/*
 * True when nothing needs to be saved for this id. A row that is only in RAM, because its write was dropped or failed,
 * is queued for the file tier again.
 */
bool hth_cache_is_saved(hth_cache *cache, const hth_row_id *id);
/* Number of rows that were not kept, for any reason. A save that must be durable compares it before and after. */
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
    const char *model; /* its name, for display; NULL: none */
    size_t image_bytes;
    const char *text; /* text of the tokens, [n_text_bytes], kept in the row; NULL: prompts are private */
    size_t n_text_bytes;
    const hth_row_id *superseded; /* a row that is redundant once this one is durable; NULL: none */
} hth_save;

typedef struct hth_slab hth_slab;

/*
 * A slab for the row's image; NULL when RAM has no room (counted as dropped). Everything that save points to must stay
 * valid until the commit or abort.
 */
hth_slab *hth_cache_save_begin(hth_cache *cache, const hth_save *save);
/* Where the image goes, [image_bytes]. */
uint8_t *hth_slab_image(hth_slab *slab);
/* The image is complete: make the row visible and queue it for the file tier. Frees the slab. */
void hth_cache_save_commit(hth_cache *cache, hth_slab *slab);
void hth_cache_save_abort(hth_cache *cache, hth_slab *slab); /* accepts NULL */
/*
 * Add a complete KVC file from another cache, which the caller has checked like any file. The row goes to RAM and, like
 * a row of HEARTH_SAVE_EVICT, immediately to files. *is_new_out: the row was absent before. HEARTH_FULL when pinned
 * rows leave no room in RAM. Copies bytes.
 */
hearth_status hth_cache_put(hth_cache *cache, const hth_row_meta *meta, const uint8_t *bytes, size_t n_bytes,
                            bool *is_new_out, hearth_error *err);
/* The key that signs rows; NULL: rows are not signed. */
const hth_signing_key *hth_cache_signing_key(const hth_cache *cache);

/* ---- monitoring and control ---- */

/* The writer's limits. Without file tiers there is no writer, and both functions do nothing. */
void hth_cache_write_limits_get(hth_cache *cache, hth_writer_limits *out);
void hth_cache_write_limits_set(hth_cache *cache, const hth_writer_limits *limits);

/* Fill the fields that only the tiers know: the rows evicted since the last reset, and the present sizes. */
void hth_cache_counters(hth_cache *cache, hearth_counters *out);
/* Restart the count of evicted rows at zero. */
void hth_cache_counters_reset(hth_cache *cache);
/* A row of one tier, for hth_cache_rows. */
typedef struct hth_cache_row {
    hth_row_meta meta;
    hearth_tier tier;
    uint32_t n_pins; /* RAM tier only */
} hth_cache_row;
typedef bool (*hth_cache_row_fn)(const hth_cache_row *row, void *user_data);
/* Show every row of every tier, the fastest tier and the least recently used row first, until on_row returns false. */
hearth_status hth_cache_rows(hth_cache *cache, hth_cache_row_fn on_row, void *user_data, hearth_error *err);
/*
 * Evict until n_bytes are freed in each of the given tiers, a set of HEARTH_EVICT_...; *bytes_out: the bytes freed in
 * all of them together. May write to an index, so not for the scheduler's thread.
 */
hearth_status hth_cache_evict(hth_cache *cache, uint64_t n_bytes, unsigned tiers, uint64_t *bytes_out,
                              hearth_error *err);

/* The RAM tier's state, and its quota: see hth_ram_tier_set_bytes_max. */
void hth_cache_ram_totals(hth_cache *cache, hth_ram_tier_totals *out);
void hth_cache_set_ram_bytes_max(hth_cache *cache, uint64_t bytes_max);

/* Quotas in bytes. 0: no such tier, or a tier without a quota. */
typedef struct hth_tier_quotas {
    uint64_t ram;
    uint64_t ram_file;
    uint64_t disk;
} hth_tier_quotas;

/* The quotas in force; all 0 if cache is NULL. Any thread. */
hth_tier_quotas hth_tier_quotas_of(hth_cache *cache);

/*
 * Remove the remains of dead processes in the file tiers and evict down to the quotas; *rows_out: rows removed. Not for
 * the scheduler's thread either.
 */
hearth_status hth_cache_gc(hth_cache *cache, uint64_t *rows_out, hearth_error *err);

/* True when rows survive this process and a reboot, that is, when there is a disk tier. */
bool hth_cache_is_durable(const hth_cache *cache);

#endif
