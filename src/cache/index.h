/*
 * index.h - what rows exist in a file tier, in LMDB, shared by all processes of a machine
 *
 * The files are the truth; the index is a view of them that makes lookups, totals and eviction order cheap. It runs
 * without sync: when the boot id changed, the version is another one, or it is damaged or missing, it is emptied and
 * filled again from the files (scan.c does that) while lookups fall back to the files.
 *
 * Databases: rows ((key, kind) -> meta), children (parent key -> (key, kind), duplicates), lru ((last_used, key,
 * kind)), reservations ((key, kind) -> (owner token, deadline)), meta (version, totals). Totals are kept in the same
 * transaction as the rows.
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
 * files: with hth_index_adopt, and hth_index_rebuilt at the end. Opened at most once a process and directory (an LMDB
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

/* ---- reads ---- */

/* *found_out and, when true, *out. */
hearth_status hth_index_get(hth_index *index, const hth_row_id *id, hth_row_meta *out, bool *found_out,
                            hearth_error *err);
/* Rows whose parent is that key, at most capacity into out, the most recently used first; *n_out how many. */
hearth_status hth_index_children(hth_index *index, const hth_key *parent, hth_row_meta *out, size_t capacity,
                                 size_t *n_out, hearth_error *err);
hearth_status hth_index_totals_get(hth_index *index, hth_index_totals *out, hearth_error *err);
/* Call visit for every row, in key order or least recently used first, until it returns false. */
typedef bool (*hth_index_visit_fn)(const hth_row_meta *meta, void *user_data);
hearth_status hth_index_visit(hth_index *index, bool by_age, hth_index_visit_fn visit, void *user_data,
                              hearth_error *err);
/* Reservations whose owner is dead, at most capacity; *n_out how many. */
hearth_status hth_index_orphans(hth_index *index, hth_row_id *out, size_t capacity, size_t *n_out, hearth_error *err);
/* The quota that was last set by any process; 0: none was. */
hearth_status hth_index_quota(hth_index *index, uint64_t *out, hearth_error *err);

/* ---- writes: writer threads only ---- */

typedef enum hth_reserve_result {
    HTH_RESERVED,       /* ours: write the row, then publish or release */
    HTH_RESERVE_EXISTS, /* the row is there already */
    HTH_RESERVE_TAKEN,  /* another living owner, or another thread of ours, is writing it */
} hth_reserve_result;

/*
 * Reserve ids[i] for this process until now + deadline_s; results into results[i]. A reservation whose owner died (its
 * lock is free) or whose deadline passed is taken over. One transaction.
 */
hearth_status hth_index_reserve(hth_index *index, const hth_row_id *ids, size_t n, uint32_t deadline_s,
                                hth_reserve_result *results, hearth_error *err);
/* Is the reservation still ours? A read. */
hearth_status hth_index_reservation_is_ours(hth_index *index, const hth_row_id *id, bool *ours_out, hearth_error *err);
/* Put rows in and drop our reservations of them; a row that is there is replaced. One transaction. */
hearth_status hth_index_publish(hth_index *index, const hth_row_meta *rows, size_t n, hearth_error *err);
/*
 * Put in rows that were found as files: those that are there stay as they are, those that a living owner is writing or
 * removing are left to it. *adopted_out (may be NULL) how many were put in. One transaction.
 */
hearth_status hth_index_adopt(hth_index *index, const hth_row_meta *rows, size_t n, size_t *adopted_out,
                              hearth_error *err);
/* Drop our reservations and those of dead owners. One transaction. */
hearth_status hth_index_release(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err);
hearth_status hth_index_remove(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err);
/*
 * Take the least recently used rows without children out until at most bytes_max bytes are left, at most capacity of
 * them, and reserve them for us, so that nobody publishes them while their files are removed; release them after that.
 * None while the index is incomplete, since unknown rows may stand on known ones. One transaction.
 */
hearth_status hth_index_evict(hth_index *index, uint64_t bytes_max, hth_row_id *ids, size_t capacity, size_t *n_out,
                              hearth_error *err);
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
/* Empty everything, for a rebuild by the caller. */
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
