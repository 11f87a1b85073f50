/*
 *   database      key                                        value
 *   rows          key 32, kind 1                             parent 32, first_position u32, n_tokens u32, bytes u64,
 *                                                            last_used_time u64, hit_count u32, save_reason u8
 *   tokens        key 32, kind 1                             the row's own tokens, u32 each, if they are known
 *   children      parent 32                                  ~last_used_time u64 big-endian, key 32, kind 1,
 *                                                            first_position u32, n_tokens u32 (sorted duplicates: the
 *                                                            most recently used first)
 *   lru           last_used_time u64 big-endian, key, kind   nothing
 *   reservations  key 32, kind 1                             owner token u64, deadline u64 (monotonic seconds)
 *   meta          "state"                                    complete u8, rebuilder's token u64, quota u64
 *                 "totals"                                   rows u64, bytes u64, rows by kind 5 x u64
 *   past, past_order   see index_past.c
 *
 * Integers are little-endian, except those that order lru and children. A database lives in one boot of one machine, so
 * all its readers share one monotonic clock. The version is in the environment's name (index_env.c).
 *
 * Every entry of children and lru and every total follows from rows and changes in the same transaction; tokens come
 * and go with their row. A contradiction is damage (MDB_CORRUPTED), and damage costs a rebuild.
 */
#include "index/index_records.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"

enum {
    ROW_BYTES = HTH_KEY_BYTES + 4 + 4 + 8 + 8 + 4 + 1,
    CHILD_BYTES = 8 + HTH_INDEX_ID_BYTES + 4 + 4,
    STATE_BYTES = 17,
    TOTALS_BYTES = 16 + 8 * HTH_ROW_KINDS,
};

static void encode_id(const hth_row_id *id, uint8_t bytes[HTH_INDEX_ID_BYTES])
{
    memcpy(bytes, id->key.bytes, HTH_KEY_BYTES);
    bytes[HTH_KEY_BYTES] = (uint8_t)id->kind;
}

MDB_val hth_index_id_value(const hth_row_id *id, uint8_t bytes[HTH_INDEX_ID_BYTES])
{
    encode_id(id, bytes);
    return hth_index_value(bytes, HTH_INDEX_ID_BYTES);
}

int hth_index_decode_id(const uint8_t *bytes, size_t n_bytes, hth_row_id *out)
{
    if (n_bytes != HTH_INDEX_ID_BYTES || bytes[HTH_KEY_BYTES] >= HTH_ROW_KINDS)
        return MDB_CORRUPTED;
    memcpy(out->key.bytes, bytes, HTH_KEY_BYTES);
    out->kind = (hth_row_kind)bytes[HTH_KEY_BYTES];
    return 0;
}

static void encode_row(const hth_row_meta *meta, uint8_t bytes[ROW_BYTES])
{
    memcpy(bytes, meta->parent.bytes, HTH_KEY_BYTES);
    hth_put_u32(bytes + 32, meta->first_position);
    hth_put_u32(bytes + 36, meta->n_tokens);
    hth_put_u64(bytes + 40, meta->bytes);
    hth_put_u64(bytes + 48, meta->last_used_time);
    hth_put_u32(bytes + 56, meta->hit_count);
    bytes[60] = meta->save_reason;
}

int hth_index_decode_row(const hth_row_id *id, const MDB_val *value, hth_row_meta *out)
{
    const uint8_t *bytes = value->mv_data;

    if (value->mv_size != ROW_BYTES)
        return MDB_CORRUPTED;
    *out = (hth_row_meta){
        .id = *id,
        .first_position = hth_get_u32(bytes + 32),
        .n_tokens = hth_get_u32(bytes + 36),
        .bytes = hth_get_u64(bytes + 40),
        .last_used_time = hth_get_u64(bytes + 48),
        .hit_count = hth_get_u32(bytes + 56),
        .save_reason = bytes[60],
    };
    memcpy(out->parent.bytes, bytes, HTH_KEY_BYTES);
    return 0;
}

void hth_index_encode_age(const hth_row_meta *meta, uint8_t bytes[HTH_INDEX_AGE_BYTES])
{
    hth_index_put_ordered(bytes, meta->last_used_time);
    encode_id(&meta->id, bytes + 8);
}

/* A row as a child of its parent. */
static void encode_child(const hth_row_meta *meta, uint8_t bytes[CHILD_BYTES])
{
    hth_index_put_ordered(bytes, ~meta->last_used_time);
    encode_id(&meta->id, bytes + 8);
    hth_put_u32(bytes + 8 + HTH_INDEX_ID_BYTES, meta->first_position);
    hth_put_u32(bytes + 12 + HTH_INDEX_ID_BYTES, meta->n_tokens);
}

int hth_index_decode_child(const MDB_val *value, hth_index_child *out)
{
    const uint8_t *bytes = value->mv_data;

    if (value->mv_size != CHILD_BYTES)
        return MDB_CORRUPTED;
    out->first_position = hth_get_u32(bytes + 8 + HTH_INDEX_ID_BYTES);
    out->n_tokens = hth_get_u32(bytes + 12 + HTH_INDEX_ID_BYTES);
    return hth_index_decode_id(bytes + 8, HTH_INDEX_ID_BYTES, &out->id);
}

/* ---- inside a transaction ---- */

int hth_index_row_get(const hth_index_txn *txn, const hth_row_id *id, hth_row_meta *out)
{
    uint8_t id_bytes[HTH_INDEX_ID_BYTES];
    MDB_val key = hth_index_id_value(id, id_bytes), value;
    int rc = mdb_get(txn->mdb, txn->dbs.rows, &key, &value);

    return rc ? rc : hth_index_decode_row(id, &value, out);
}

int hth_index_child_get(const hth_index_txn *txn, const hth_key *parent, const hth_index_child *child,
                        hth_row_meta *out)
{
    hth_row_meta meta;
    int rc = hth_index_must_be_there(hth_index_row_get(txn, &child->id, &meta));

    if (rc != 0)
        return rc;
    if (!hth_key_equal(&meta.parent, parent) || meta.first_position != child->first_position ||
        meta.n_tokens != child->n_tokens)
        return MDB_CORRUPTED;
    *out = meta;
    return 0;
}

int hth_index_state_get(const hth_index_txn *txn, hth_index_state *out)
{
    MDB_val key = hth_index_value("state", 5), value;
    const uint8_t *bytes;
    int rc = mdb_get(txn->mdb, txn->dbs.meta, &key, &value);

    if (rc == MDB_NOTFOUND) {
        *out = (hth_index_state){ .complete = false };
        return 0;
    }
    if (rc != 0)
        return rc;
    if (value.mv_size != STATE_BYTES)
        return MDB_CORRUPTED;
    bytes = value.mv_data;
    *out = (hth_index_state){
        .complete = bytes[0] == 1,
        .rebuilder = hth_get_u64(bytes + 1),
        .quota = hth_get_u64(bytes + 9),
    };
    return 0;
}

int hth_index_state_put(const hth_index_txn *txn, const hth_index_state *s)
{
    uint8_t bytes[STATE_BYTES];
    MDB_val key = hth_index_value("state", 5), value = hth_index_value(bytes, STATE_BYTES);

    bytes[0] = s->complete;
    hth_put_u64(bytes + 1, s->rebuilder);
    hth_put_u64(bytes + 9, s->quota);
    return mdb_put(txn->mdb, txn->dbs.meta, &key, &value, 0);
}

int hth_index_totals_read(const hth_index_txn *txn, hth_index_totals *out)
{
    MDB_val key = hth_index_value("totals", 6), value;
    const uint8_t *bytes;
    hth_index_state s;
    MDB_envinfo info;
    MDB_stat db;
    int rc = hth_index_state_get(txn, &s);

    if (rc == 0)
        rc = mdb_env_info(mdb_txn_env(txn->mdb), &info);
    if (rc == 0)
        rc = mdb_stat(txn->mdb, txn->dbs.meta, &db);
    if (rc != 0)
        return rc;
    rc = mdb_get(txn->mdb, txn->dbs.meta, &key, &value);
    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;
    if (rc == 0 && value.mv_size != TOTALS_BYTES)
        return MDB_CORRUPTED;
    *out = (hth_index_totals){ .index_bytes = (info.me_last_pgno + 1) * db.ms_psize, .complete = s.complete };
    if (rc == MDB_NOTFOUND)
        return 0;
    bytes = value.mv_data;
    out->rows = hth_get_u64(bytes);
    out->bytes = hth_get_u64(bytes + 8);
    for (size_t i = 0; i < HTH_ROW_KINDS; i++)
        out->rows_by_kind[i] = hth_get_u64(bytes + 16 + 8 * i);
    return 0;
}

int hth_index_totals_write(const hth_index_txn *txn, const hth_index_totals *totals)
{
    uint8_t bytes[TOTALS_BYTES];
    MDB_val key = hth_index_value("totals", 6), value = hth_index_value(bytes, TOTALS_BYTES);

    hth_put_u64(bytes, totals->rows);
    hth_put_u64(bytes + 8, totals->bytes);
    for (size_t i = 0; i < HTH_ROW_KINDS; i++)
        hth_put_u64(bytes + 16 + 8 * i, totals->rows_by_kind[i]);
    return mdb_put(txn->mdb, txn->dbs.meta, &key, &value, 0);
}

static int age_put(const hth_index_txn *txn, const hth_row_meta *meta)
{
    uint8_t age[HTH_INDEX_AGE_BYTES];
    MDB_val key = hth_index_value(age, HTH_INDEX_AGE_BYTES), nothing = hth_index_value(NULL, 0);

    hth_index_encode_age(meta, age);
    return mdb_put(txn->mdb, txn->dbs.lru, &key, &nothing, 0);
}

static int age_remove(const hth_index_txn *txn, const hth_row_meta *meta)
{
    uint8_t age[HTH_INDEX_AGE_BYTES];
    MDB_val key = hth_index_value(age, HTH_INDEX_AGE_BYTES);

    hth_index_encode_age(meta, age);
    return hth_index_must_be_there(mdb_del(txn->mdb, txn->dbs.lru, &key, NULL));
}

static int child_put(const hth_index_txn *txn, const hth_row_meta *meta)
{
    hth_key parent = meta->parent;
    uint8_t child[CHILD_BYTES];
    MDB_val key = hth_index_value(parent.bytes, HTH_KEY_BYTES), value = hth_index_value(child, CHILD_BYTES);

    encode_child(meta, child);
    return mdb_put(txn->mdb, txn->dbs.children, &key, &value, 0);
}

static int child_remove(const hth_index_txn *txn, const hth_row_meta *meta)
{
    hth_key parent = meta->parent;
    uint8_t child[CHILD_BYTES];
    MDB_val key = hth_index_value(parent.bytes, HTH_KEY_BYTES), value = hth_index_value(child, CHILD_BYTES);

    encode_child(meta, child);
    return hth_index_must_be_there(mdb_del(txn->mdb, txn->dbs.children, &key, &value));
}

int hth_index_tokens_get(const hth_index_txn *txn, const hth_row_id *id, uint32_t n_tokens, const uint8_t **out)
{
    uint8_t id_bytes[HTH_INDEX_ID_BYTES];
    MDB_val key = hth_index_id_value(id, id_bytes), value;
    int rc = mdb_get(txn->mdb, txn->dbs.tokens, &key, &value);

    if (rc == 0 && value.mv_size != 4 * (size_t)n_tokens)
        return MDB_CORRUPTED;
    if (rc == 0)
        *out = value.mv_data;
    return rc;
}

static int tokens_put(const hth_index_txn *txn, const hth_row_head *head)
{
    uint8_t id_bytes[HTH_INDEX_ID_BYTES], tokens[4 * HTH_BLOCK_TOKENS];
    MDB_val key = hth_index_id_value(&head->meta.id, id_bytes);
    MDB_val value = hth_index_value(tokens, 4 * (size_t)head->meta.n_tokens);

    if (!head->has_tokens)
        return 0;
    assert(hth_row_can_be_leaf(&head->meta.id, head->meta.n_tokens));
    for (size_t i = 0; i < head->meta.n_tokens; i++)
        hth_put_u32(tokens + 4 * i, (uint32_t)head->tokens[i]);
    return mdb_put(txn->mdb, txn->dbs.tokens, &key, &value, 0);
}

static int tokens_remove(const hth_index_txn *txn, const hth_row_meta *meta)
{
    uint8_t id_bytes[HTH_INDEX_ID_BYTES];
    MDB_val key = hth_index_id_value(&meta->id, id_bytes);
    int rc = mdb_del(txn->mdb, txn->dbs.tokens, &key, NULL);

    return rc == MDB_NOTFOUND ? 0 : rc;
}

int hth_index_row_remove(const hth_index_txn *txn, const hth_row_meta *meta, hth_index_totals *totals)
{
    uint8_t id_bytes[HTH_INDEX_ID_BYTES];
    MDB_val id = hth_index_id_value(&meta->id, id_bytes);
    int rc;

    if ((rc = hth_index_must_be_there(mdb_del(txn->mdb, txn->dbs.rows, &id, NULL))) != 0 ||
        (rc = child_remove(txn, meta)) != 0 || (rc = age_remove(txn, meta)) != 0 ||
        (rc = tokens_remove(txn, meta)) != 0)
        return rc;
    if (totals->rows == 0 || totals->bytes < meta->bytes || totals->rows_by_kind[meta->id.kind] == 0)
        return MDB_CORRUPTED;
    totals->rows--;
    totals->bytes -= meta->bytes;
    totals->rows_by_kind[meta->id.kind]--;
    return 0;
}

int hth_index_row_put(const hth_index_txn *txn, const hth_row_head *head, hth_index_totals *totals)
{
    const hth_row_meta *meta = &head->meta;
    uint8_t id_bytes[HTH_INDEX_ID_BYTES], row[ROW_BYTES];
    MDB_val id = hth_index_id_value(&meta->id, id_bytes), value = hth_index_value(row, ROW_BYTES);
    hth_row_meta old;
    int rc = hth_index_row_get(txn, &meta->id, &old);

    if (rc == 0)
        rc = hth_index_row_remove(txn, &old, totals);
    else if (rc == MDB_NOTFOUND)
        rc = 0;
    if (rc != 0)
        return rc;

    encode_row(meta, row);
    if ((rc = mdb_put(txn->mdb, txn->dbs.rows, &id, &value, 0)) != 0 || (rc = child_put(txn, meta)) != 0 ||
        (rc = age_put(txn, meta)) != 0 || (rc = tokens_put(txn, head)) != 0 ||
        (rc = hth_index_past_forget_gone(txn, &meta->id)) != 0)
        return rc;
    totals->rows++;
    totals->bytes += meta->bytes;
    totals->rows_by_kind[meta->id.kind]++;
    return 0;
}

int hth_index_row_update(const hth_index_txn *txn, const hth_row_meta *old, const hth_row_meta *meta)
{
    uint8_t id_bytes[HTH_INDEX_ID_BYTES], row[ROW_BYTES];
    MDB_val id = hth_index_id_value(&meta->id, id_bytes), value = hth_index_value(row, ROW_BYTES);
    int rc = 0;

    encode_row(meta, row);
    if (old->last_used_time != meta->last_used_time) {
        if ((rc = age_remove(txn, old)) != 0 || (rc = child_remove(txn, old)) != 0 || (rc = age_put(txn, meta)) != 0)
            return rc;
        rc = child_put(txn, meta);
    }
    return rc ? rc : mdb_put(txn->mdb, txn->dbs.rows, &id, &value, 0);
}

int hth_index_bears_rows(const hth_index_txn *txn, const hth_row_meta *meta, bool *out)
{
    uint64_t end = (uint64_t)meta->first_position + meta->n_tokens;
    hth_key parent = meta->id.key;
    MDB_val key = hth_index_value(parent.bytes, HTH_KEY_BYTES), value;
    MDB_cursor *cursor;
    int rc;

    *out = false;
    if (meta->n_tokens == 0)
        return 0;
    rc = mdb_cursor_open(txn->mdb, txn->dbs.children, &cursor);
    if (rc != 0)
        return rc;
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET); rc == 0 && !*out;
         rc = *out ? 0 : mdb_cursor_get(cursor, &key, &value, MDB_NEXT_DUP)) {
        hth_index_child child;

        if ((rc = hth_index_decode_child(&value, &child)) != 0)
            break;
        *out = child.first_position >= end;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}
