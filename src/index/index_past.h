/*
 * index_past.h - the index's memory of removed rows, inside its transactions
 *
 *   database     key                                    value
 *   past         tag u8 'g', name 17                    ticket u64, reason u8, time u64, name of the successor 17
 *                tag u8 'e', half of a key 16           ticket u64, ends 8 x u8
 *                tag u8 'b', scope 16, digest 16        ticket u64, 4 x (base 16, fingerprint 16, parameters 16,
 *                                                       key 32, kind u8, used u8)
 *   past_order   tag u8, ticket u64 big-endian          key in past
 *
 * The records are those of past.h. A new record gets the next ticket of its tag. Then all records of this tag are
 * removed whose tickets are older by the tag's bound or more. So each tag has its own bounded space. Records that
 * contradict each other are damage, as everywhere in the index.
 *
 * Functions return 0, an LMDB code or an errno; getting an absent record returns MDB_NOTFOUND.
 */
#ifndef HTH_INDEX_INDEX_PAST_H
#define HTH_INDEX_INDEX_PAST_H

#include "index/index_env.h"
#include "index/past.h"

int hth_index_past_note_gone(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *meta, const hth_gone *gone);
/* Forget a removed row, because it is there again. 0 also when nothing was remembered about it. */
int hth_index_past_forget_gone(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id);
int hth_index_past_gone(MDB_txn *txn, const hth_index_dbs *dbs, const hth_past_name *name, hth_gone *out);
int hth_index_past_ends_get(MDB_txn *txn, const hth_index_dbs *dbs, const hth_key *boundary, hth_past_ends *out);

int hth_index_past_note_beginning(MDB_txn *txn, const hth_index_dbs *dbs, const hth_beginning_name *name,
                                  const hth_beginning_space *space);
int hth_index_past_beginning(MDB_txn *txn, const hth_index_dbs *dbs, const hth_beginning_name *name,
                             hth_beginning *out);
int hth_index_past_visit_beginnings(MDB_txn *txn, const hth_index_dbs *dbs, hth_beginning_visit_fn visit,
                                    void *user_data);

#endif
