/*
 * index_records.h - the records of the index, inside its transactions: adding, changing and removing rows
 */
#ifndef HTH_INDEX_INDEX_RECORDS_H
#define HTH_INDEX_INDEX_RECORDS_H

#include "index/index.h"
#include "index/index_env.h"

enum {
    HTH_INDEX_ID_BYTES = HTH_KEY_BYTES + 1,
    HTH_INDEX_AGE_BYTES = 8 + HTH_INDEX_ID_BYTES,
    HTH_INDEX_RESERVATION_BYTES = 16,
};

static inline MDB_val hth_index_value(void *bytes, size_t n_bytes)
{
    return (MDB_val){ .mv_size = n_bytes, .mv_data = bytes };
}

/* A number whose bytes order keys. */
static inline void hth_index_put_ordered(uint8_t bytes[8], uint64_t number)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> (56 - 8 * i));
}

/* A row's name as a key, encoded into bytes. */
MDB_val hth_index_id_value(const hth_row_id *id, uint8_t bytes[HTH_INDEX_ID_BYTES]);
int hth_index_decode_id(const uint8_t *bytes, size_t n_bytes, hth_row_id *out);
int hth_index_decode_row(const hth_row_id *id, const MDB_val *value, hth_row_meta *out);
/* Encode the key of a row in lru. */
void hth_index_encode_age(const hth_row_meta *meta, uint8_t bytes[HTH_INDEX_AGE_BYTES]);

/* A row as its parent's record describes it. */
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

/* If a record that another database refers to is missing here, that is damage. */
static inline int hth_index_must_be_there(int rc)
{
    return rc == MDB_NOTFOUND ? MDB_CORRUPTED : rc;
}

int hth_index_row_get(const hth_index_txn *txn, const hth_row_id *id, hth_row_meta *out);
/* The row of a child of this parent. If the two records contradict each other, that is damage. */
int hth_index_child_get(const hth_index_txn *txn, const hth_key *parent, const hth_index_child *child,
                        hth_row_meta *out);
/* Add or replace a row. */
int hth_index_row_put(const hth_index_txn *txn, const hth_row_head *head, hth_index_totals *totals);
/*
 * Get the n_tokens tokens of a row, u32 little-endian, in memory of the transaction. MDB_NOTFOUND: the row cannot be a
 * leaf, or its file could not be read when the row was added.
 */
int hth_index_tokens_get(const hth_index_txn *txn, const hth_row_id *id, uint32_t n_tokens, const uint8_t **out);
/* Take out an existing row; meta is its present record. */
int hth_index_row_remove(const hth_index_txn *txn, const hth_row_meta *meta, hth_index_totals *totals);
/* Change the time or the hit count of an existing row. */
int hth_index_row_update(const hth_index_txn *txn, const hth_row_meta *old, const hth_row_meta *meta);
/*
 * Does a row stand on this one? A child begins where its parent ends, so positions only grow along a chain, and a loop
 * of forged rows cannot keep itself alive. Nothing stands on a row without tokens; a snapshot stands on nothing.
 */
int hth_index_bears_rows(const hth_index_txn *txn, const hth_row_meta *meta, bool *out);

int hth_index_state_get(const hth_index_txn *txn, hth_index_state *out);
int hth_index_state_put(const hth_index_txn *txn, const hth_index_state *s);
int hth_index_totals_read(const hth_index_txn *txn, hth_index_totals *out);
int hth_index_totals_write(const hth_index_txn *txn, const hth_index_totals *totals);

/*
 * ---- the memory of removed rows (past.h): index_past.c ----
 *
 * Getting an absent record returns MDB_NOTFOUND.
 */

int hth_index_past_note_gone(const hth_index_txn *txn, const hth_row_meta *meta, const hth_gone *gone);
/* Forget a removed row, because it is there again. 0 also when nothing was remembered about it. */
int hth_index_past_forget_gone(const hth_index_txn *txn, const hth_row_id *id);
int hth_index_past_gone(const hth_index_txn *txn, const hth_past_name *name, hth_gone *out);
int hth_index_past_ends_get(const hth_index_txn *txn, const hth_key *boundary, hth_past_ends *out);

int hth_index_past_note_beginning(const hth_index_txn *txn, const hth_beginning_name *name,
                                  const hth_beginning_space *space);
int hth_index_past_beginning(const hth_index_txn *txn, const hth_beginning_name *name, hth_beginning *out);
int hth_index_past_visit_beginnings(const hth_index_txn *txn, hth_beginning_visit_fn visit, void *user_data);

#endif
