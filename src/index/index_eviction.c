/*
 * index_eviction.c - chooses the rows to evict, and records the uses that decide it
 */
#include <string.h>

#include "base/os.h"
#include "index/index_inside.h"
#include "index/index_past.h"

enum {
    EVICTED_DEADLINE_S = 60, /* time to remove the files of one round of eviction */
    DEPTH_MAX = 1 << 20,     /* rows of one prefix */
    AHEAD_S = 60,            /* the most that a time of use may be ahead of the clock */
};

/* ---- eviction ---- */

/* The kinds of rows that others can stand on. */
static const hth_row_kind bearing_kinds[] = { HTH_ROW_BLOCK, HTH_ROW_TAIL, HTH_ROW_SNAPSHOT };

enum { N_BEARING_KINDS = sizeof(bearing_kinds) / sizeof(bearing_kinds[0]) };

/* Move age back to the rows that meta stood on, if they are older: they may have become leaves. */
static int step_back(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *meta, uint8_t age[HTH_INDEX_AGE_BYTES])
{
    for (size_t i = 0; i < N_BEARING_KINDS; i++) {
        hth_row_id id = { .key = meta->parent, .kind = bearing_kinds[i] };
        uint8_t parent_age[HTH_INDEX_AGE_BYTES];
        hth_row_meta parent;
        int rc = hth_index_row_get(txn, dbs, &id, &parent);

        if (rc == MDB_NOTFOUND)
            continue;
        if (rc != 0)
            return rc;
        hth_index_encode_age(&parent, parent_age);
        if (memcmp(parent_age, age, HTH_INDEX_AGE_BYTES) < 0)
            memcpy(age, parent_age, HTH_INDEX_AGE_BYTES);
    }
    return 0;
}

typedef struct evict_request {
    hth_index *index;
    uint64_t bytes_max;
    hth_index_needed_fn is_needed; /* may be NULL */
    void *user_data;
    hth_row_meta *rows;
    size_t capacity;
    size_t n;
    hth_gone gone; /* the index remembers this of each row */
} evict_request;

static int evict_leaves(evict_request *request, MDB_txn *txn, const hth_index_dbs *dbs, MDB_cursor *cursor,
                        hth_index_totals *totals)
{
    uint8_t age[HTH_INDEX_AGE_BYTES] = { 0 };

    while (totals->bytes > request->bytes_max && request->n < request->capacity) {
        MDB_val key = hth_index_value(age, HTH_INDEX_AGE_BYTES), nothing;
        hth_row_meta meta;
        hth_row_id id;
        bool is_needed = true;
        int rc = mdb_cursor_get(cursor, &key, &nothing, MDB_SET_RANGE);

        while (rc == 0 && is_needed) {
            if (key.mv_size != HTH_INDEX_AGE_BYTES ||
                hth_index_decode_id((const uint8_t *)key.mv_data + 8, HTH_INDEX_ID_BYTES, &id) != 0)
                return MDB_CORRUPTED;
            if ((rc = hth_index_must_be_there(hth_index_row_get(txn, dbs, &id, &meta))) != 0 ||
                (rc = hth_index_bears_rows(txn, dbs, &meta, &is_needed)) != 0 ||
                (!is_needed && (rc = hth_index_row_is_held(request->index, txn, dbs, &id, &is_needed)) != 0))
                return rc;
            if (!is_needed && request->is_needed)
                is_needed = request->is_needed(&meta, request->user_data);
            if (is_needed)
                rc = mdb_cursor_get(cursor, &key, &nothing, MDB_NEXT);
        }
        if (rc != 0)
            return rc == MDB_NOTFOUND ? 0 : rc; /* all other rows are needed */

        memcpy(age, key.mv_data, HTH_INDEX_AGE_BYTES);
        if ((rc = hth_index_row_remove(txn, dbs, &meta, totals)) != 0 ||
            (rc = hth_index_past_note_gone(txn, dbs, &meta, &request->gone)) != 0 ||
            (rc = hth_index_reserve_row(request->index, txn, dbs, &id, EVICTED_DEADLINE_S)) != 0)
            return rc;
        request->rows[request->n++] = meta;
        if ((rc = step_back(txn, dbs, &meta, age)) != 0)
            return rc;
    }
    return 0;
}

/* Release the rows of an attempt that failed. */
static void let_go(evict_request *request)
{
    while (request->n > 0)
        hth_index_held_remove(request->index, &request->rows[--request->n].id);
}

/*
 * Rows that were used while the clock was ahead of its present time would outlast all later rows. So they count as used
 * now. This is enough: the index lives until the next boot, and times of files are bounded where they are read.
 */
static int bound_times(MDB_txn *txn, const hth_index_dbs *dbs, MDB_cursor *cursor, uint64_t now)
{
    for (;;) {
        MDB_val key, nothing;
        hth_row_meta old, bounded;
        hth_row_id id;
        int rc = mdb_cursor_get(cursor, &key, &nothing, MDB_LAST);

        if (rc != 0)
            return rc == MDB_NOTFOUND ? 0 : rc;
        if (key.mv_size != HTH_INDEX_AGE_BYTES ||
            hth_index_decode_id((const uint8_t *)key.mv_data + 8, HTH_INDEX_ID_BYTES, &id) != 0)
            return MDB_CORRUPTED;
        rc = hth_index_must_be_there(hth_index_row_get(txn, dbs, &id, &old));
        if (rc != 0 || old.last_used_time <= now + AHEAD_S)
            return rc;
        bounded = old;
        bounded.last_used_time = now;
        rc = hth_index_row_update(txn, dbs, &old, &bounded);
        if (rc != 0)
            return rc;
    }
}

static int evict_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    evict_request *request = user_data;
    hth_index_totals totals;
    MDB_cursor *cursor;
    int rc = hth_index_totals_read(txn, dbs, &totals);

    let_go(request);
    if (rc != 0 || !totals.complete)
        return rc;
    rc = mdb_cursor_open(txn, dbs->lru, &cursor);
    if (rc != 0)
        return rc;
    rc = bound_times(txn, dbs, cursor, request->gone.time);
    if (rc == 0)
        rc = evict_leaves(request, txn, dbs, cursor, &totals);
    mdb_cursor_close(cursor);
    return rc ? rc : hth_index_totals_write(txn, dbs, &totals);
}

hearth_status hth_index_evict(hth_index *index, uint64_t bytes_max, hth_index_needed_fn is_needed, void *user_data,
                              hth_row_meta *rows, size_t capacity, size_t *n_out, hearth_error *err)
{
    evict_request request = {
        .index = index,
        .bytes_max = bytes_max,
        .is_needed = is_needed,
        .user_data = user_data,
        .rows = rows,
        .capacity = capacity,
        .gone = { .reason = HTH_GONE_EVICTED, .time = hth_os_unix_seconds() },
    };
    hearth_status status = hth_index_write_rows(index, evict_body, &request, "evict rows", err);

    if (status == HEARTH_OK)
        *n_out = request.n;
    else
        let_go(&request);
    return status;
}

/* ---- uses ---- */

/* Make a row's ancestors as recent as time. Stop at the first that is: its ancestors were touched with it. */
static int touch_ancestors(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *row, uint64_t time)
{
    hth_row_meta at = *row;

    for (int depth = 0; depth < DEPTH_MAX && at.first_position > 0; depth++) {
        hth_row_meta next = { .n_tokens = 0 };

        for (size_t i = 0; i < N_BEARING_KINDS; i++) {
            hth_row_id id = { .key = at.parent, .kind = bearing_kinds[i] };
            hth_row_meta old, touched;
            int rc = hth_index_row_get(txn, dbs, &id, &old);

            if (rc == MDB_NOTFOUND || (rc == 0 && old.last_used_time >= time))
                continue;
            if (rc != 0)
                return rc;
            touched = old;
            touched.last_used_time = time;
            if ((rc = hth_index_row_update(txn, dbs, &old, &touched)) != 0)
                return rc;
            if (old.first_position < at.first_position && next.n_tokens == 0)
                next = old;
        }
        if (next.n_tokens == 0)
            break;
        at = next;
    }
    return 0;
}

typedef struct touch_request {
    const hth_index_use *uses;
    size_t n;
} touch_request;

static int touch_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    const touch_request *request = user_data;

    for (size_t i = 0; i < request->n; i++) {
        const hth_index_use *use = &request->uses[i];
        hth_row_meta old, meta;
        int rc = hth_index_row_get(txn, dbs, &use->id, &old);

        if (rc == MDB_NOTFOUND)
            continue;
        if (rc != 0)
            return rc;
        meta = old;
        if (use->last_used_time > meta.last_used_time)
            meta.last_used_time = use->last_used_time;
        if (__builtin_add_overflow(meta.hit_count, use->hits, &meta.hit_count))
            meta.hit_count = UINT32_MAX;
        if ((rc = hth_index_row_update(txn, dbs, &old, &meta)) != 0 ||
            (rc = touch_ancestors(txn, dbs, &meta, meta.last_used_time)) != 0)
            return rc;
    }
    return 0;
}

hearth_status hth_index_touch(hth_index *index, const hth_index_use *uses, size_t n, hearth_error *err)
{
    touch_request request = { .uses = uses, .n = n };

    return hth_index_write_rows(index, touch_body, &request, "note uses", err);
}
