/*
 * index_past.c - the index's memory of removed rows: bounded records in two of its databases
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
 */
#include "index/index_records.h"

#include <string.h>

#include "base/bytes.h"

enum {
    TAG_GONE = 'g',
    TAG_ENDS = 'e',
    TAG_BEGINNING = 'b',
    TICKET_BYTES = 8,
    ORDER_BYTES = 1 + TICKET_BYTES,
    KEY_BYTES_MAX = 1 + (int)sizeof(hth_beginning_name),
    GONE_BYTES = 1 + 8 + HTH_PAST_NAME_BYTES,
    VALUE_BYTES_MAX = TICKET_BYTES + (int)sizeof(hth_beginning),
};

/* A kind of record. */
typedef struct form {
    uint8_t tag;
    size_t key_bytes;   /* without the tag */
    size_t value_bytes; /* without the ticket */
    uint64_t n_max;
} form;

static const form gone_form = { TAG_GONE, HTH_PAST_NAME_BYTES, GONE_BYTES, HTH_PAST_GONE_MAX };
static const form ends_form = { TAG_ENDS, HTH_PAST_DIGEST_BYTES, sizeof(hth_past_ends), HTH_PAST_ENDS_MAX };
static const form beginning_form = { TAG_BEGINNING, sizeof(hth_beginning_name), sizeof(hth_beginning),
                                     HTH_PAST_BEGINNINGS_MAX };

static void encode_order(const form *f, uint64_t ticket, uint8_t bytes[ORDER_BYTES])
{
    bytes[0] = f->tag;
    hth_index_put_ordered(bytes + 1, ticket);
}

/* False when the key belongs to another kind. */
static bool decode_order(const form *f, const MDB_val *key, uint64_t *ticket_out)
{
    const uint8_t *bytes = key->mv_data;
    uint64_t ticket = 0;

    if (key->mv_size != ORDER_BYTES || bytes[0] != f->tag)
        return false;
    for (int i = 0; i < TICKET_BYTES; i++)
        ticket = ticket << 8 | bytes[1 + i];
    *ticket_out = ticket;
    return true;
}

/* ---- any record ---- */

static void encode_key(const form *f, const void *key, uint8_t bytes[KEY_BYTES_MAX])
{
    bytes[0] = f->tag;
    memcpy(bytes + 1, key, f->key_bytes);
}

/* Get the value behind the ticket, in memory of the transaction. */
static int get(const hth_index_txn *txn, const form *f, const void *key, const uint8_t **value_out)
{
    uint8_t bytes[KEY_BYTES_MAX];
    MDB_val id = hth_index_value(bytes, 1 + f->key_bytes), value;
    int rc;

    encode_key(f, key, bytes);
    rc = mdb_get(txn->mdb, txn->dbs.past, &id, &value);
    if (rc != 0)
        return rc;
    if (value.mv_size != TICKET_BYTES + f->value_bytes)
        return MDB_CORRUPTED;
    *value_out = (const uint8_t *)value.mv_data + TICKET_BYTES;
    return 0;
}

static int forget(const hth_index_txn *txn, const form *f, const void *key)
{
    uint8_t bytes[KEY_BYTES_MAX], order[ORDER_BYTES];
    MDB_val id = hth_index_value(bytes, 1 + f->key_bytes), place = hth_index_value(order, ORDER_BYTES);
    const uint8_t *value;
    int rc = get(txn, f, key, &value);

    if (rc != 0)
        return rc == MDB_NOTFOUND ? 0 : rc;
    encode_key(f, key, bytes);
    encode_order(f, hth_get_u64(value - TICKET_BYTES), order);
    rc = hth_index_must_be_there(mdb_del(txn->mdb, txn->dbs.past_order, &place, NULL));
    return rc ? rc : hth_index_must_be_there(mdb_del(txn->mdb, txn->dbs.past, &id, NULL));
}

/* The last ticket of a kind; 0: none. */
static int last_ticket(MDB_cursor *cursor, const form *f, uint64_t *out)
{
    uint8_t order[ORDER_BYTES];
    MDB_val place = hth_index_value(order, ORDER_BYTES), id;
    int rc;

    *out = 0;
    encode_order(f, UINT64_MAX, order); /* no ticket is that large */
    rc = mdb_cursor_get(cursor, &place, &id, MDB_SET_RANGE);
    rc = mdb_cursor_get(cursor, &place, &id, rc == 0 ? MDB_PREV : MDB_LAST);
    if (rc == 0 && !decode_order(f, &place, out))
        *out = 0;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Remove the records of a kind that are too old, measured from this ticket. */
static int trim(const hth_index_txn *txn, MDB_cursor *cursor, const form *f, uint64_t ticket)
{
    for (;;) {
        uint8_t order[ORDER_BYTES], bytes[KEY_BYTES_MAX];
        MDB_val place = hth_index_value(order, ORDER_BYTES), id;
        uint64_t oldest;
        int rc;

        encode_order(f, 0, order);
        rc = mdb_cursor_get(cursor, &place, &id, MDB_SET_RANGE);
        if (rc != 0)
            return rc == MDB_NOTFOUND ? 0 : rc;
        if (!decode_order(f, &place, &oldest) || oldest >= ticket || ticket - oldest < f->n_max)
            return 0;
        if (id.mv_size > sizeof(bytes))
            return MDB_CORRUPTED;
        memcpy(bytes, id.mv_data, id.mv_size);
        id.mv_data = bytes;
        rc = mdb_cursor_del(cursor, 0);
        if (rc == 0)
            rc = hth_index_must_be_there(mdb_del(txn->mdb, txn->dbs.past, &id, NULL));
        if (rc != 0)
            return rc;
    }
}

/* Put a record in as the newest of its kind. */
static int put(const hth_index_txn *txn, const form *f, const void *key, const void *value)
{
    uint8_t bytes[KEY_BYTES_MAX], order[ORDER_BYTES], record[VALUE_BYTES_MAX];
    MDB_val id = hth_index_value(bytes, 1 + f->key_bytes), place = hth_index_value(order, ORDER_BYTES);
    MDB_val whole = hth_index_value(record, TICKET_BYTES + f->value_bytes);
    MDB_cursor *cursor;
    uint64_t ticket;
    int rc = forget(txn, f, key);

    if (rc == 0)
        rc = mdb_cursor_open(txn->mdb, txn->dbs.past_order, &cursor);
    if (rc != 0)
        return rc;
    rc = last_ticket(cursor, f, &ticket);
    if (rc == 0 && ticket >= UINT64_MAX - 1)
        rc = MDB_CORRUPTED;
    if (rc == 0) {
        encode_key(f, key, bytes);
        encode_order(f, ++ticket, order);
        hth_put_u64(record, ticket);
        memcpy(record + TICKET_BYTES, value, f->value_bytes);
        rc = mdb_put(txn->mdb, txn->dbs.past, &id, &whole, 0);
    }
    if (rc == 0)
        rc = mdb_put(txn->mdb, txn->dbs.past_order, &place, &id, 0);
    if (rc == 0)
        rc = trim(txn, cursor, f, ticket);
    mdb_cursor_close(cursor);
    return rc;
}

/* ---- rows ---- */

static int note_end(const hth_index_txn *txn, const hth_row_meta *meta)
{
    uint8_t end = hth_past_end_of(meta);
    hth_past_ends ends = { { 0 } };
    int rc;

    if (end == 0)
        return 0;
    rc = hth_index_past_ends_get(txn, &meta->parent, &ends);
    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;
    return hth_past_ends_add(&ends, end) ? put(txn, &ends_form, meta->parent.bytes, &ends) : 0;
}

int hth_index_past_note_gone(const hth_index_txn *txn, const hth_row_meta *meta, const hth_gone *gone)
{
    uint8_t value[GONE_BYTES];
    hth_past_name name;
    int rc;

    hth_past_name_of(&meta->id, &name);
    value[0] = (uint8_t)gone->reason;
    hth_put_u64(value + 1, gone->time);
    memcpy(value + 9, gone->successor.bytes, HTH_PAST_NAME_BYTES);
    rc = put(txn, &gone_form, &name, value);
    return rc ? rc : note_end(txn, meta);
}

int hth_index_past_forget_gone(const hth_index_txn *txn, const hth_row_id *id)
{
    hth_past_name name;

    hth_past_name_of(id, &name);
    return forget(txn, &gone_form, &name);
}

int hth_index_past_gone(const hth_index_txn *txn, const hth_past_name *name, hth_gone *out)
{
    const uint8_t *value;
    int rc = get(txn, &gone_form, name, &value);

    if (rc != 0)
        return rc;
    if (value[0] < HTH_GONE_SUPERSEDED || value[0] > HTH_GONE_DAMAGED)
        return MDB_CORRUPTED;
    *out = (hth_gone){ .reason = (hth_gone_reason)value[0], .time = hth_get_u64(value + 1) };
    memcpy(out->successor.bytes, value + 9, HTH_PAST_NAME_BYTES);
    return 0;
}

int hth_index_past_ends_get(const hth_index_txn *txn, const hth_key *boundary, hth_past_ends *out)
{
    const uint8_t *value;
    int rc = get(txn, &ends_form, boundary->bytes, &value);

    if (rc == 0)
        memcpy(out, value, sizeof(*out));
    return rc;
}

/* ---- beginnings ---- */

int hth_index_past_beginning(const hth_index_txn *txn, const hth_beginning_name *name, hth_beginning *out)
{
    const uint8_t *value;
    int rc = get(txn, &beginning_form, name, &value);

    if (rc == 0)
        memcpy(out, value, sizeof(*out));
    return rc;
}

int hth_index_past_note_beginning(const hth_index_txn *txn, const hth_beginning_name *name,
                                  const hth_beginning_space *space)
{
    hth_beginning beginning = { .spaces = { { .is_used = 0 } } };
    int rc = hth_index_past_beginning(txn, name, &beginning);

    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;
    return hth_beginning_add(&beginning, space) ? put(txn, &beginning_form, name, &beginning) : 0;
}

int hth_index_past_visit_beginnings(const hth_index_txn *txn, hth_beginning_visit_fn visit, void *user_data)
{
    const form *f = &beginning_form;
    uint8_t tag = f->tag;
    MDB_val key = hth_index_value(&tag, 1), value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn->mdb, txn->dbs.past, &cursor);

    if (rc != 0)
        return rc;
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE); rc == 0;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        const uint8_t *bytes = key.mv_data;

        if (key.mv_size == 0 || bytes[0] != f->tag)
            break;
        if (key.mv_size != 1 + f->key_bytes || value.mv_size != TICKET_BYTES + f->value_bytes) {
            rc = MDB_CORRUPTED;
            break;
        }
        if (!visit((const void *)(bytes + 1), (const void *)((const uint8_t *)value.mv_data + TICKET_BYTES), user_data))
            break;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}
