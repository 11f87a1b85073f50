/*
 * index.h - what rows exist in a file tier, in LMDB, shared by all processes of a machine
 *
 * The files are the truth; the index is a view of them that makes lookups, totals and eviction order cheap. It runs
 * without sync: when the boot id changed, the version is another one, or it is damaged or missing, it is emptied and
 * filled again from the files (scan.c does that) while lookups fall back to the files.
 *
 * Databases: rows ((key, kind) -> meta), tokens ((key, kind) -> a row's own tokens), children (parent key -> rows, the
 * most recently used first), lru ((last_used, key, kind)), reservations ((key, kind) -> (owner token, deadline)), meta (version, totals), and what is remembered of rows
 * that went (index_past.h). Totals are kept in the same transaction as the rows.
 *
 * Reads are lock-free LMDB read transactions and may come from any thread. Functions that open a write transaction say
 * so; only writer threads call them, so that a process stopped in the middle of one stalls no scheduler. An index that
 * is damaged or could not be opened answers HEARTH_IO or HEARTH_CORRUPT to everything, after one warning, until
 * hth_index_maintain made a new one. In the child of a fork every function but hth_index_close is HEARTH_MISUSE.
 */
#ifndef HTH_CACHE_INDEX_H
#define HTH_CACHE_INDEX_H

#include "base/fs.h"
#include "base/log.h"
#include "cache/leaf.h"
#include "cache/past.h"
#include "cache/row.h"

typedef struct hth_index hth_index;

typedef struct hth_index_options {
    const char *directory;        /* of the index; made when missing, mode 0700 */
    const char *owners_directory; /* exists */
    const hth_fs *fs;             /* NULL: the system's. LMDB's own files do not go through it. Outlives the index */
    const hth_log *log;           /* may be NULL; outlives the index */
    const char *boot_id;          /* NULL: the system's; for tests */
} hth_index_options;

typedef struct hth_index_totals {
    uint64_t rows;
    uint64_t bytes;
    uint64_t rows_by_kind[HTH_ROW_KINDS];
    bool complete; /* false while the index is being filled from the files: there are rows that it does not know */
} hth_index_totals;

/*
 * Open or create the index. *rebuild_out tells that it is incomplete and that the caller is the one to fill it from the
 * files: with hth_index_adopt, and hth_index_rebuilt at the end. NULL: the caller asks with hth_index_claim_rebuild
 * later, which may wait for another process that is writing; without it, opening waits for none. Opened at most once a process and directory (an LMDB
 * rule): a second open in one process shares the first, with its options.
 *
 * Fails when no owner file can be made (HEARTH_PERMISSION, HEARTH_FULL, HEARTH_IO) or memory is short. A database that
 * cannot be opened is no failure.
 */
hearth_status hth_index_open(const hth_index_options *options, hth_index **out, bool *rebuild_out, hearth_error *err);
void hth_index_close(hth_index *index); /* accepts NULL */

/* The token that signs this process's reservations. */
uint64_t hth_index_owner_token(const hth_index *index);
/* Does the owner of that token live? True in doubt. */
bool hth_index_owner_lives(const hth_index *index, uint64_t token);

/*
 * Is the index incomplete, and nobody filling it? Then the caller is the one to do so, as after hth_index_open. Writer
 * threads only.
 */
bool hth_index_claim_rebuild(hth_index *index);

/* ---- reads ---- */

/* *found_out and, when true, *out. */
hearth_status hth_index_get(hth_index *index, const hth_row_id *id, hth_row_meta *out, bool *found_out,
                            hearth_error *err);
/* The same and, where it is not found, whether the index is complete (hth_index_totals). */
hearth_status hth_index_look(hth_index *index, const hth_row_id *id, hth_row_meta *out, bool *found_out,
                             bool *is_complete_out, hearth_error *err);
/*
 * The same for n rows at once, in one transaction: found[i] and, when true, out[i] (out may be NULL). About half a
 * microsecond a row; no system call, no allocation.
 */
hearth_status hth_index_get_many(hth_index *index, const hth_row_id *ids, size_t n, hth_row_meta *out, bool *found,
                                 hearth_error *err);
/* Does a row stand on this one: begin where it ends, with its key as parent? */
hearth_status hth_index_has_children(hth_index *index, const hth_row_meta *meta, bool *out, hearth_error *err);
/* Rows whose parent is that key, at most capacity into out, the most recently used first; *n_out how many. */
hearth_status hth_index_children(hth_index *index, const hth_key *parent, hth_row_meta *out, size_t capacity,
                                 size_t *n_out, hearth_error *err);
/* The row's own tokens, at most capacity; 0 for one that is not there or is no leaf (row.h). Not verified: see leaf.h. */
size_t hth_index_tokens(hth_index *index, const hth_row_id *id, hearth_token *out, size_t capacity);
/*
 * Show a search the rows whose parent is its boundary, the most recently used first, at most n_rows_max of them. About a
 * microsecond a row that is compared; no system call.
 */
hearth_status hth_index_find_leaf(hth_index *index, hth_leaf_search *search, hearth_error *err);
hearth_status hth_index_totals_get(hth_index *index, hth_index_totals *out, hearth_error *err);
/* Call visit for every row, in key order or least recently used first, until it returns false. */
typedef bool (*hth_index_visit_fn)(const hth_row_meta *meta, void *user_data);
hearth_status hth_index_visit(hth_index *index, bool by_age, hth_index_visit_fn visit, void *user_data,
                              hearth_error *err);
/* Reservations whose owner is dead, at most capacity; *n_out how many. */
hearth_status hth_index_orphans(hth_index *index, hth_row_id *out, size_t capacity, size_t *n_out, hearth_error *err);
/* The quota that was last set by any process; 0: none was. */
hearth_status hth_index_quota(hth_index *index, uint64_t *out, hearth_error *err);

/*
 * What is remembered of rows that were here and of beginnings of prompts (past.h). False, *out unchanged, when nothing
 * is, or when the index cannot be used. About a microsecond; no system call, no allocation.
 */
bool hth_index_gone(hth_index *index, const hth_past_name *name, hth_gone *out);
bool hth_index_past_ends(hth_index *index, const hth_key *boundary, hth_past_ends *out);
bool hth_index_beginning(hth_index *index, const hth_beginning_name *name, hth_beginning *out);
/* All beginnings, until visit says false; no callback may come back to the index. */
void hth_index_visit_beginnings(hth_index *index, hth_beginning_visit_fn visit, void *user_data);

/* What hth_index_wait ended with. */
typedef enum hth_wait_result {
    HTH_WAIT_THERE,   /* the row is in the index */
    HTH_WAIT_NOBODY,  /* it is not, and nobody who lives is writing it (or the index cannot tell) */
    HTH_WAIT_TIMEOUT, /* it is still being written */
} hth_wait_result;

/*
 * Wait until the row is published, its reservation is gone, or timeout_ms are over. Woken by whoever publishes or gives
 * up, in any process of this machine (see bell.h); that an owner died without a word is noticed within 200 ms. Any
 * thread; waits for no lock of another process.
 */
hth_wait_result hth_index_wait(hth_index *index, const hth_row_id *id, uint32_t timeout_ms);

/*
 * For waiting until any row is published or given up, by any process: read the number, look for what is wanted, then
 * sleep until the number is another one or timeout_ms are over; may return early. Any thread.
 */
uint32_t hth_index_changes(const hth_index *index);
void hth_index_wait_change(hth_index *index, uint32_t seen, uint32_t timeout_ms);

/* ---- writes: writer threads only ---- */

typedef enum hth_reserve_result {
    HTH_RESERVED,       /* ours: write the row, then publish or release */
    HTH_RESERVE_EXISTS, /* the row is there already */
    HTH_RESERVE_TAKEN,  /* another living owner, or another thread of ours, is writing it */
} hth_reserve_result;

/*
 * Reserve ids[i] for this process until now + deadline_s; results into results[i]. A reservation of another process
 * whose owner died (its lock is free) or whose deadline passed is taken over. What a thread of
 * this process holds is taken whatever the index says; what was given up by hth_index_publish or hth_index_release is
 * free, even where these failed. One transaction.
 */
hearth_status hth_index_reserve(hth_index *index, const hth_row_id *ids, size_t n, uint32_t deadline_s,
                                hth_reserve_result *results, hearth_error *err);
/* Is the reservation still ours? A read. */
hearth_status hth_index_reservation_is_ours(hth_index *index, const hth_row_id *id, bool *ours_out, hearth_error *err);
/*
 * Put rows in and drop our reservations of them; a row that is there is replaced. For whoever holds the rows; others use
 * hth_index_adopt. One transaction.
 */
hearth_status hth_index_publish(hth_index *index, const hth_row_head *rows, size_t n, hearth_error *err);
/*
 * Reserve one row whatever the index knows of it, for changing its file: a row that is there is taken out, *was_known_out
 * and *meta_out say so. End with hth_index_publish when it stays, with hth_index_release when it is gone. *result_out is
 * HTH_RESERVED or HTH_RESERVE_TAKEN. One transaction.
 */
hearth_status hth_index_take(hth_index *index, const hth_row_id *id, uint32_t deadline_s,
                             hth_reserve_result *result_out, bool *was_known_out, hth_row_meta *meta_out,
                             hearth_error *err);
/*
 * Is it as the caller believes? Called inside the write transaction, perhaps more than once for a row, since between an
 * earlier look at the files and the transaction others may have written. May touch files, may not call the index.
 */
typedef bool (*hth_index_confirm_fn)(const hth_row_id *id, void *user_data);
/*
 * Put in rows that were found as files: those that are there stay as they are, those that a living owner is writing or
 * removing are left to it, those that is_there (may be NULL) denies are skipped. *adopted_out (may be NULL) how many
 * were put in. One transaction.
 */
hearth_status hth_index_adopt(hth_index *index, const hth_row_head *rows, size_t n, hth_index_confirm_fn is_there,
                              void *user_data, size_t *adopted_out, hearth_error *err);
/* Drop the caller's reservations and those of dead owners. One transaction. */
hearth_status hth_index_release(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err);
/* The same with one row that was taken and whose file is gone now, and remember why. One transaction. */
hearth_status hth_index_release_gone(hth_index *index, const hth_row_meta *meta, const hth_gone *gone,
                                     hearth_error *err);
/* Remember that keyspaces kept beginnings of prompts. One transaction. */
typedef struct hth_index_sighting {
    hth_beginning_name name;
    hth_beginning_space space;
} hth_index_sighting;
hearth_status hth_index_note_beginnings(hth_index *index, const hth_index_sighting *sightings, size_t n,
                                        hearth_error *err);
hearth_status hth_index_remove(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err);
/* Take out those rows that is_gone confirms; *removed_out (may be NULL) how many. One transaction. */
hearth_status hth_index_remove_lost(hth_index *index, const hth_row_id *ids, size_t n, hth_index_confirm_fn is_gone,
                                    void *user_data, size_t *removed_out, hearth_error *err);
/*
 * Take the least recently used rows without children out until at most bytes_max bytes are left, at most capacity of
 * them, and reserve them for us, so that nobody publishes them while their files are removed; release them after that,
 * or publish those whose file stays. They are remembered as evicted until they are published again. None while the index is incomplete, since unknown rows may stand on known ones. A
 * row that is_needed (may be NULL) speaks for stays, too; it is called inside the transaction and may read other
 * indexes. One transaction.
 */
typedef bool (*hth_index_needed_fn)(const hth_row_meta *meta, void *user_data);
hearth_status hth_index_evict(hth_index *index, uint64_t bytes_max, hth_index_needed_fn is_needed, void *user_data,
                              hth_row_meta *rows, size_t capacity, size_t *n_out, hearth_error *err);
/*
 * Set last_used_time, where it is later, and add to hit_count of rows that are there; others are skipped. The rows that
 * a used row stands on become as recent as it is. One transaction.
 */
typedef struct hth_index_use {
    hth_row_id id;
    uint64_t last_used_time;
    uint32_t hits;
} hth_index_use;
hearth_status hth_index_touch(hth_index *index, const hth_index_use *uses, size_t n, hearth_error *err);
/* Note the quota for those who only look. */
hearth_status hth_index_set_quota(hth_index *index, uint64_t bytes_max, hearth_error *err);
/* Empty everything but the reservations and what is remembered, for a rebuild by the caller. */
hearth_status hth_index_clear(hth_index *index, hearth_error *err);
/* The rebuild that the caller was told to do is complete. */
hearth_status hth_index_rebuilt(hth_index *index, hearth_error *err);
/*
 * Replace a damaged index, follow another process that did so, forget readers that died. True when the index is
 * incomplete and the caller is the one to fill it, as after hth_index_open.
 */
bool hth_index_maintain(hth_index *index);

/* The caller could not fill the index: the next hth_index_maintain, or another process, may claim it again. */
void hth_index_rebuild_failed(hth_index *index);
/* Drop the reservations of dead owners among ids; those of living ones, ours too, stay. One transaction. */
hearth_status hth_index_release_dead(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err);

#endif
