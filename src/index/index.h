/*
 * index.h - the rows that exist in a file tier, in LMDB, shared by all processes of a machine
 *
 * The files are the truth; the index is a view of them that makes lookups, totals and eviction order cheap. It runs
 * without sync. After a reboot or a version change, or when it is damaged or missing, it is emptied and refilled from
 * the files (by scan.c); in the meantime, lookups fall back to the files.
 *
 * Databases: rows ((key, kind) -> meta), tokens ((key, kind) -> a row's own tokens), children (parent key -> rows, the
 * most recently used first), lru ((last_used, key, kind)), reservations ((key, kind) -> (owner token, deadline)), meta
 * (version, totals), and the memory of removed rows (past.h). Rows and totals change in the same transaction.
 *
 * Reads are lock-free LMDB read transactions; any thread may read. Functions that open a write transaction say so; only
 * writer threads call them, so that a process that is stopped inside such a transaction does not stall a scheduler. An
 * index that is damaged or could not be opened warns once and answers HEARTH_IO or HEARTH_CORRUPT to everything, until
 * hth_index_maintain has made a new one. In the child of a fork every function except hth_index_close returns
 * HEARTH_MISUSE.
 */
#ifndef HTH_INDEX_INDEX_H
#define HTH_INDEX_INDEX_H

#include "base/fs.h"
#include "base/log.h"
#include "index/past.h"
#include "rows/row.h"

typedef struct hth_index hth_index;

typedef struct hth_index_options {
    const char *directory;        /* directory of the index; made when missing, mode 0700 */
    const char *owners_directory; /* must exist */
    const hth_fs *fs;             /* NULL: the system's. LMDB's own files do not go through it. Outlives the index */
    const hth_log *log;           /* may be NULL; outlives the index */
    const char *boot_id;          /* NULL: the system's; for tests */
} hth_index_options;

typedef struct hth_index_totals {
    uint64_t rows;
    uint64_t bytes;
    uint64_t rows_by_kind[HTH_ROW_KINDS];
    uint64_t index_bytes; /* size of the index's own file, which never shrinks */
    bool complete;        /* false while the index is being filled from the files: there are rows it does not know */
} hth_index_totals;

/*
 * Open or create the index. *rebuild_out: the index is incomplete, and the caller must fill it from the files, with
 * hth_index_adopt, and call hth_index_rebuilt at the end. rebuild_out NULL: the caller calls hth_index_claim_rebuild
 * later. That call may wait for another process that is writing; without it, opening waits for no process. A process
 * opens a directory at most once (an LMDB rule): a second open shares the first one and its options.
 *
 * Fails when no owner file can be created (HEARTH_PERMISSION, HEARTH_FULL, HEARTH_IO) or memory is short. A database
 * that cannot be opened is not a failure.
 */
hearth_status hth_index_open(const hth_index_options *options, hth_index **out, bool *rebuild_out, hearth_error *err);
void hth_index_close(hth_index *index); /* accepts NULL */
/*
 * One of several users calls this before its close: after the return, nothing is written to the log that it opened the
 * index with. Accepts NULL.
 */
void hth_index_forget_log(hth_index *index, const hth_log *log);

/* The token that marks this process's reservations. */
uint64_t hth_index_owner_token(const hth_index *index);
/* True when the owner of that token is alive, or if that is unknown. */
bool hth_index_owner_lives(const hth_index *index, uint64_t token);

/*
 * True when the index is incomplete and no process is filling it: the caller must fill it, as after hth_index_open.
 * Writer threads only.
 */
bool hth_index_claim_rebuild(hth_index *index);

/* ---- reads ---- */

/* Sets *found_out and, when true, *out (may be NULL). About half a microsecond; no system call, no allocation. */
hearth_status hth_index_get(hth_index *index, const hth_row_id *id, hth_row_meta *out, bool *found_out,
                            hearth_error *err);
/*
 * The same; when the row is not found, *is_complete_out (may be NULL) says whether the index is complete
 * (hth_index_totals).
 */
hearth_status hth_index_look(hth_index *index, const hth_row_id *id, hth_row_meta *out, bool *found_out,
                             bool *is_complete_out, hearth_error *err);
/* True when a row stands on this one: it begins where this one ends and has its key as parent. */
hearth_status hth_index_has_children(hth_index *index, const hth_row_meta *meta, bool *out, hearth_error *err);
/* The rows with this parent key, the most recently used first, at most capacity; *n_out: their number. */
hearth_status hth_index_children(hth_index *index, const hth_key *parent, hth_row_meta *out, size_t capacity,
                                 size_t *n_out, hearth_error *err);
/* The row's own tokens, at most capacity; 0 when the row is absent or not a leaf (row.h). Not verified: see row.h. */
size_t hth_index_tokens(hth_index *index, const hth_row_id *id, hearth_token *out, size_t capacity);
/*
 * Show a search the rows whose parent is its boundary, the most recently used first, at most n_rows_max of them. About
 * a microsecond for each row compared; no system call.
 */
hearth_status hth_index_find_leaf(hth_index *index, hth_leaf_search *search, hearth_error *err);
/* What a writer needs before it stores a row, in one transaction: is the row there, and the totals. */
hearth_status hth_index_before_storing(hth_index *index, const hth_row_id *id, bool *is_there_out,
                                       hth_index_totals *totals_out, hearth_error *err);
hearth_status hth_index_totals_get(hth_index *index, hth_index_totals *out, hearth_error *err);
/* Call visit for every row, in key order or least recently used first, until it returns false. */
typedef bool (*hth_index_visit_fn)(const hth_row_meta *meta, void *user_data);
hearth_status hth_index_visit(hth_index *index, bool by_age, hth_index_visit_fn visit, void *user_data,
                              hearth_error *err);
/* The reservations of dead owners, at most capacity; *n_out: their number. */
hearth_status hth_index_orphans(hth_index *index, hth_row_id *out, size_t capacity, size_t *n_out, hearth_error *err);
/* The quota that was last set by any process; 0: none was set. */
hearth_status hth_index_quota(hth_index *index, uint64_t *out, hearth_error *err);

/*
 * The records of rows that were once here and of prompt beginnings (past.h). False, with *out unchanged, when nothing
 * is remembered or the index cannot be used. About a microsecond; no system call, no allocation.
 */
bool hth_index_gone(hth_index *index, const hth_past_name *name, hth_gone *out);
bool hth_index_past_ends(hth_index *index, const hth_key *boundary, hth_past_ends *out);
bool hth_index_beginning(hth_index *index, const hth_beginning_name *name, hth_beginning *out);
/* Visit all beginnings until visit returns false. A callback must not call the index. */
void hth_index_visit_beginnings(hth_index *index, hth_beginning_visit_fn visit, void *user_data);

/* The result of hth_index_wait. */
typedef enum hth_wait_result {
    HTH_WAIT_THERE,     /* the row is in the index */
    HTH_WAIT_NO_WRITER, /* the row is absent, and no living process is writing it (or that is unknown) */
    HTH_WAIT_TIMEOUT,   /* the row is still being written */
} hth_wait_result;

/*
 * Wait until the row is published, its reservation is gone, or timeout_ms have passed. A process on this machine that
 * publishes or abandons a row wakes the caller (see notifier.h). If an owner dies silently, that is noticed within 200
 * ms. Any thread; never waits for a lock of another process.
 */
hth_wait_result hth_index_wait(hth_index *index, const hth_row_id *id, uint32_t timeout_ms);

/* A number that changes when any process publishes or abandons any row. Any thread. */
uint32_t hth_index_changes(const hth_index *index);

/* ---- writes: writer threads only ---- */

typedef enum hth_reserve_result {
    HTH_RESERVED,       /* ours: write the row, then publish or release */
    HTH_RESERVE_EXISTS, /* the row is there already */
    HTH_RESERVE_TAKEN,  /* another living owner, or another thread of ours, is writing it */
} hth_reserve_result;

/*
 * Reserve a row for this process until now + deadline_s. *result_out is written in any case. The call takes over a
 * reservation of another process whose owner died (its lock is free) or whose deadline passed. A row that a thread of
 * this process holds is HTH_RESERVE_TAKEN, whatever reservations the index has. A row that was passed to
 * hth_index_publish or hth_index_release is free, even if those calls failed. One transaction.
 */
hearth_status hth_index_reserve(hth_index *index, const hth_row_id *id, uint32_t deadline_s,
                                hth_reserve_result *result_out, hearth_error *err);
/* Sets *ours_out to whether the reservation is still ours. A read transaction. */
hearth_status hth_index_reservation_is_ours(hth_index *index, const hth_row_id *id, bool *ours_out, hearth_error *err);
/*
 * Add rows and drop our reservations of them; existing rows are replaced. For the holder of the rows; others use
 * hth_index_adopt. One transaction.
 */
hearth_status hth_index_publish(hth_index *index, const hth_row_head *rows, size_t n, hearth_error *err);
/*
 * Reserve one row in order to change its file, whether or not the index knows it. A known row is taken out of the
 * index; *was_known_out and *meta_out describe it. End with hth_index_publish if the file stays, or with
 * hth_index_release if it is gone. *result_out is HTH_RESERVED or HTH_RESERVE_TAKEN. One transaction.
 */
hearth_status hth_index_take(hth_index *index, const hth_row_id *id, uint32_t deadline_s,
                             hth_reserve_result *result_out, bool *was_known_out, hth_row_meta *meta_out,
                             hearth_error *err);
/*
 * Confirm the caller's belief about a row. It is called inside the write transaction, perhaps more than once for a row,
 * because others may have written since the caller looked at the files. May use files, must not call the index.
 */
typedef bool (*hth_index_confirm_fn)(const hth_row_id *id, void *user_data);
/*
 * Add rows that were found as files. Rows that are already there stay as they are; rows that a living owner is writing
 * or removing are left to that owner; rows for which is_there (may be NULL) returns false are skipped. *adopted_out
 * (may be NULL): the number of rows added. One transaction.
 */
hearth_status hth_index_adopt(hth_index *index, const hth_row_head *rows, size_t n, hth_index_confirm_fn is_there,
                              void *user_data, size_t *adopted_out, hearth_error *err);
/* Drop the reservations that the caller or a dead owner has. One transaction. */
hearth_status hth_index_release(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err);
/* The same for one taken row whose file is now gone; the index remembers why. One transaction. */
hearth_status hth_index_release_gone(hth_index *index, const hth_row_meta *meta, const hth_gone *gone,
                                     hearth_error *err);
/* Remember that keyspaces kept beginnings of prompts. One transaction. */
typedef struct hth_index_sighting {
    hth_beginning_name name;
    hth_beginning_space space;
} hth_index_sighting;
hearth_status hth_index_note_beginnings(hth_index *index, const hth_index_sighting *sightings, size_t n,
                                        hearth_error *err);
/*
 * Take out the rows that is_gone (NULL: any) confirms; *removed_out (may be NULL): their number. One transaction.
 */
hearth_status hth_index_remove_lost(hth_index *index, const hth_row_id *ids, size_t n, hth_index_confirm_fn is_gone,
                                    void *user_data, size_t *removed_out, hearth_error *err);
/*
 * Take out the least recently used rows without children until at most bytes_max bytes are left, at most capacity of
 * them. They become reserved for us, so that no other process publishes them while the caller removes their files. The
 * caller then releases them, or publishes those whose files stay. The index remembers them as evicted until they are
 * published again. Nothing is evicted while the index is incomplete, because unknown rows may stand on known ones. A
 * row for which is_needed (may be NULL) returns true stays. is_needed is called inside the transaction and may read
 * other indexes. One transaction.
 */
typedef bool (*hth_index_needed_fn)(const hth_row_meta *meta, void *user_data);
hearth_status hth_index_evict(hth_index *index, uint64_t bytes_max, hth_index_needed_fn is_needed, void *user_data,
                              hth_row_meta *rows, size_t capacity, size_t *n_out, hearth_error *err);
/*
 * Raise last_used_time to a later time and add to hit_count, for rows that are there; others are skipped. The rows that
 * a used row stands on become as recent as it is. One transaction.
 */
typedef struct hth_index_use {
    hth_row_id id;
    uint64_t last_used_time;
    uint32_t hits;
} hth_index_use;
hearth_status hth_index_touch(hth_index *index, const hth_index_use *uses, size_t n, hearth_error *err);
/* Record the quota for processes that only display it. */
hearth_status hth_index_set_quota(hth_index *index, uint64_t bytes_max, hearth_error *err);
/* Empty the index, except for reservations and the memory of the past, before a rebuild by the caller. */
hearth_status hth_index_clear(hth_index *index, hearth_error *err);
/* Report that the caller has completed its rebuild. */
hearth_status hth_index_rebuilt(hth_index *index, hearth_error *err);
/*
 * Replace a damaged index, switch to one that another process replaced, forget dead readers. True when the index is
 * incomplete and the caller must fill it, as after hth_index_open.
 */
bool hth_index_maintain(hth_index *index);

/* The caller could not fill the index: its next hth_index_maintain, or another process, may claim it again. */
void hth_index_rebuild_failed(hth_index *index);
/* Drop the reservations of dead owners among ids; those of living owners and ours stay. One transaction. */
hearth_status hth_index_release_dead(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err);

#endif
