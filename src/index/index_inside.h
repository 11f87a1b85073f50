/*
 * index_inside.h - shared by the files of the index
 *
 *   index.c            opening, and reads
 *   index_records.c    the records of the databases; rows in and out of them inside a transaction
 *   index_holds.c      reservations, and the rows that threads of this process hold
 *   index_changes.c    the write transactions of publishing and removal
 *   index_eviction.c   the choice of rows to evict, and the uses that decide it
 *   index_env.c        the environment; index_past.c: the memory of removed rows
 */
#ifndef HTH_INDEX_INDEX_INSIDE_H
#define HTH_INDEX_INDEX_INSIDE_H

#include <pthread.h>
#include <sys/types.h>

#include "index/notifier.h"
#include "index/index.h"
#include "index/index_env.h"
#include "index/owner.h"

enum {
    HTH_INDEX_ID_BYTES = HTH_KEY_BYTES + 1,
    HTH_INDEX_AGE_BYTES = 8 + HTH_INDEX_ID_BYTES,
    HTH_INDEX_RESERVATION_BYTES = 16,
};

struct hth_index {
    hth_index *next; /* in the registry */
    uint64_t device;
    uint64_t inode;
    size_t n_refs;

    pid_t pid;
    unsigned n_forks; /* at the opening */
    const hth_fs *fs;
    hth_owner *owner;
    hth_index_env *env;
    hth_notifier *notifier;

    /* Guards the rows that threads of this process hold. Innermost lock. */
    pthread_mutex_t held_lock;
    hth_row_id *held;
    size_t n_held;
    size_t held_capacity;
};

/* ---- common to all calls ---- */

/* HEARTH_MISUSE in the child of a fork. */
hearth_status hth_index_check_process(const hth_index *index, hearth_error *err);
/* Turn the result of a transaction into a status. */
hearth_status hth_index_finish(hth_index *index, int rc, const char *what, hearth_error *err);
/*
 * Begin a read transaction as hth_index_env_read_begin does, but return a status; HEARTH_MISUSE in the child of a fork.
 * After HEARTH_OK, end it with reading_end, or with hth_index_env_read_end when nobody needs the cause of a failure. rc
 * is the result of the reads.
 */
hearth_status hth_index_reading_begin(hth_index *index, hth_index_read *read, const char *what, hearth_error *err);
hearth_status hth_index_reading_end(hth_index *index, hth_index_read *read, int rc, const char *what,
                                    hearth_error *err);
/* Run body in a write transaction. */
hearth_status hth_index_write_rows(hth_index *index, hth_index_body_fn body, void *user_data, const char *what,
                                   hearth_error *err);

/* ---- records ---- */

MDB_val hth_index_value(void *bytes, size_t n_bytes);
void hth_index_encode_id(const hth_row_id *id, uint8_t bytes[HTH_INDEX_ID_BYTES]);
int hth_index_decode_id(const uint8_t *bytes, size_t n_bytes, hth_row_id *out);
int hth_index_decode_row(const hth_row_id *id, const MDB_val *value, hth_row_meta *out);
/* Encode the key of a row in lru. */
void hth_index_encode_age(const hth_row_meta *meta, uint8_t bytes[HTH_INDEX_AGE_BYTES]);

/* A row as it stands in its parent's record. */
typedef struct hth_index_child {
    hth_row_id id;
    uint32_t first_position;
    uint32_t n_tokens;
} hth_index_child;

int hth_index_decode_child(const MDB_val *value, hth_index_child *out);

typedef struct hth_index_state {
    bool complete;
    uint64_t rebuilder;
    uint64_t quota;
} hth_index_state;

/* ---- inside a transaction: 0, an LMDB code or an errno ---- */

/* A record that rows promises is missing here: that is damage. */
int hth_index_must_be_there(int rc);

int hth_index_row_get(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id, hth_row_meta *out);
/* The row of a child of this parent. That the two records contradict each other is damage. */
int hth_index_child_get(MDB_txn *txn, const hth_index_dbs *dbs, const hth_key *parent, const hth_index_child *child,
                        hth_row_meta *out);
/* Add or replace a row. */
int hth_index_row_put(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_head *head, hth_index_totals *totals);
/*
 * Get the n_tokens tokens of a row, u32 little-endian, in memory of the transaction. MDB_NOTFOUND: the row can be no
 * leaf, or its file could not be read when the row was put in.
 */
int hth_index_tokens_get(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id, uint32_t n_tokens,
                         const uint8_t **out);
/* Take out an existing row; meta is its present record. */
int hth_index_row_remove(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *meta, hth_index_totals *totals);
/* Change the time or the hit count of an existing row. */
int hth_index_row_update(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *old, const hth_row_meta *meta);
/*
 * Does a row stand on this one? A child begins where its parent ends, so positions only grow along a chain, and a loop
 * of forged rows cannot keep itself alive. Nothing stands on a row without tokens; a snapshot stands on nothing.
 */
int hth_index_bears_rows(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *meta, bool *out);

int hth_index_state_get(MDB_txn *txn, const hth_index_dbs *dbs, hth_index_state *out);
int hth_index_state_put(MDB_txn *txn, const hth_index_dbs *dbs, const hth_index_state *s);
int hth_index_totals_read(MDB_txn *txn, const hth_index_dbs *dbs, hth_index_totals *out);
int hth_index_totals_write(MDB_txn *txn, const hth_index_dbs *dbs, const hth_index_totals *totals);

/* ---- reservations ---- */

typedef struct hth_index_reservation {
    uint64_t owner;
    uint64_t deadline;
} hth_index_reservation;

/* True when a thread of this process holds the row. */
bool hth_index_held_has(hth_index *index, const hth_row_id *id);
void hth_index_held_remove(hth_index *index, const hth_row_id *id);
int hth_index_reservation_get(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id, hth_index_reservation *out);
/* True when another process that lives has the reservation, and its deadline has not passed. */
bool hth_index_reservation_is_foreign(const hth_index *index, const hth_index_reservation *r);
/* *out: a thread of ours, or another process, holds the row. */
int hth_index_row_is_held(hth_index *index, MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id, bool *out);
/* Add a reservation of ours for a row that nobody holds; from now on a thread of ours holds it. */
int hth_index_reserve_row(hth_index *index, MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id,
                          uint32_t deadline_s);
/* Drop the reservation of a row when it is ours or its owner is dead. */
int hth_index_reservation_drop(hth_index *index, MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id);

#endif
