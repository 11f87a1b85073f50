/*
 * index_holds.c - reservations, and the rows that threads of this process hold
 *
 * A reservation in the index informs other processes. Between threads of this process, only the list of held rows
 * counts, whatever the index says: a transaction that dropped a reservation may have failed, or a new environment may
 * know of none. A held row is given to nobody else, so a hold has one holder. A thread that gives up a hold, also
 * because the transaction that was to reserve the row failed, therefore gives up its own.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/grow.h"
#include "base/os.h"
#include "index/index_inside.h"

/* ---- reservations inside a transaction ---- */

static uint64_t now_s(void)
{
    return hth_os_monotonic_ns() / 1000000000u;
}

int hth_index_reservation_get(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id, hth_index_reservation *out)
{
    uint8_t id_bytes[HTH_INDEX_ID_BYTES];
    MDB_val key = hth_index_value(id_bytes, HTH_INDEX_ID_BYTES), value;
    int rc;

    hth_index_encode_id(id, id_bytes);
    rc = mdb_get(txn, dbs->reservations, &key, &value);
    if (rc != 0)
        return rc;
    if (value.mv_size != HTH_INDEX_RESERVATION_BYTES)
        return MDB_CORRUPTED;
    out->owner = hth_get_u64(value.mv_data);
    out->deadline = hth_get_u64((const uint8_t *)value.mv_data + 8);
    return 0;
}

static int reservation_put(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id, uint64_t owner,
                           uint32_t deadline_s)
{
    uint8_t id_bytes[HTH_INDEX_ID_BYTES], bytes[HTH_INDEX_RESERVATION_BYTES];
    MDB_val key = hth_index_value(id_bytes, HTH_INDEX_ID_BYTES),
            value = hth_index_value(bytes, HTH_INDEX_RESERVATION_BYTES);

    hth_index_encode_id(id, id_bytes);
    hth_put_u64(bytes, owner);
    hth_put_u64(bytes + 8, now_s() + deadline_s);
    return mdb_put(txn, dbs->reservations, &key, &value, 0);
}

/* ---- what this process holds ---- */

/* The index of the row in held, or n_held. */
static size_t held_find_locked(const hth_index *index, const hth_row_id *id)
{
    size_t i = 0;

    while (i < index->n_held && !hth_row_id_equal(&index->held[i], id))
        i++;
    return i;
}

bool hth_index_held_has(hth_index *index, const hth_row_id *id)
{
    bool has;

    pthread_mutex_lock(&index->held_lock);
    has = held_find_locked(index, id) < index->n_held;
    pthread_mutex_unlock(&index->held_lock);
    return has;
}

/* Add a row that is not held. 0 or ENOMEM. */
static int held_add(hth_index *index, const hth_row_id *id)
{
    hth_row_id *held;
    int rc = 0;

    pthread_mutex_lock(&index->held_lock);
    assert(held_find_locked(index, id) == index->n_held);
    held = hth_grown(index->held, index->n_held, &index->held_capacity, sizeof(*held));
    if (held) {
        index->held = held;
        index->held[index->n_held++] = *id;
    } else {
        rc = ENOMEM;
    }
    pthread_mutex_unlock(&index->held_lock);
    return rc;
}

void hth_index_held_remove(hth_index *index, const hth_row_id *id)
{
    size_t i;

    pthread_mutex_lock(&index->held_lock);
    i = held_find_locked(index, id);
    if (i < index->n_held)
        index->held[i] = index->held[--index->n_held];
    pthread_mutex_unlock(&index->held_lock);
}

bool hth_index_reservation_is_foreign(const hth_index *index, const hth_index_reservation *r)
{
    return r->owner != hth_owner_token(index->owner) && r->deadline > now_s() &&
           hth_owner_lives(index->owner, r->owner);
}

int hth_index_row_is_held(hth_index *index, MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id, bool *out)
{
    hth_index_reservation r;
    int rc;

    *out = hth_index_held_has(index, id);
    if (*out)
        return 0;
    rc = hth_index_reservation_get(txn, dbs, id, &r);
    if (rc == 0)
        *out = hth_index_reservation_is_foreign(index, &r);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

int hth_index_reservation_drop(hth_index *index, MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id)
{
    uint8_t id_bytes[HTH_INDEX_ID_BYTES];
    MDB_val key = hth_index_value(id_bytes, HTH_INDEX_ID_BYTES);
    hth_index_reservation r;
    int rc = hth_index_reservation_get(txn, dbs, id, &r);

    if (rc == MDB_NOTFOUND)
        return 0;
    if (rc != 0)
        return rc;
    if (r.owner != hth_owner_token(index->owner) && hth_owner_lives(index->owner, r.owner))
        return 0;
    hth_index_encode_id(id, id_bytes);
    return mdb_del(txn, dbs->reservations, &key, NULL);
}

int hth_index_reserve_row(hth_index *index, MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id,
                          uint32_t deadline_s)
{
    int rc = held_add(index, id);

    if (rc != 0)
        return rc;
    rc = reservation_put(txn, dbs, id, hth_owner_token(index->owner), deadline_s);
    if (rc != 0)
        hth_index_held_remove(index, id);
    return rc;
}

/* ---- asking for reservations ---- */

hearth_status hth_index_reservation_is_ours(hth_index *index, const hth_row_id *id, bool *ours_out, hearth_error *err)
{
    static const char what[] = "look up a reservation";
    hth_index_read read;
    hth_index_reservation r;
    hearth_status status = hth_index_reading_begin(index, &read, what, err);
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_reservation_get(read.txn, &read.dbs, id, &r);
    status = hth_index_reading_end(index, &read, rc == MDB_NOTFOUND ? 0 : rc, what, err);
    if (status == HEARTH_OK)
        *ours_out = rc == 0 && r.owner == hth_owner_token(index->owner);
    return status;
}

static int collect_orphans(const hth_index *index, MDB_txn *txn, const hth_index_dbs *dbs, hth_row_id *out,
                           size_t capacity, size_t *n_out)
{
    uint64_t dead_owner = 0; /* 0 is nobody's token */
    MDB_val key, value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, dbs->reservations, &cursor);

    if (rc != 0)
        return rc;
    *n_out = 0;
    while (*n_out < capacity && (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        hth_row_id id;
        uint64_t owner;

        rc = value.mv_size == HTH_INDEX_RESERVATION_BYTES ? hth_index_decode_id(key.mv_data, key.mv_size, &id)
                                                          : MDB_CORRUPTED;
        if (rc != 0)
            break;
        owner = hth_get_u64(value.mv_data);
        if (owner != dead_owner && hth_owner_lives(index->owner, owner))
            continue;
        dead_owner = owner;
        out[(*n_out)++] = id;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

hearth_status hth_index_orphans(hth_index *index, hth_row_id *out, size_t capacity, size_t *n_out, hearth_error *err)
{
    static const char what[] = "list reservations";
    hth_index_read read;
    hearth_status status = hth_index_reading_begin(index, &read, what, err);
    size_t n = 0;

    if (status != HEARTH_OK)
        return status;
    status =
        hth_index_reading_end(index, &read, collect_orphans(index, read.txn, &read.dbs, out, capacity, &n), what, err);
    if (status == HEARTH_OK)
        *n_out = n;
    return status;
}
