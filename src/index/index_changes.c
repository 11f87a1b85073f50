/*
 * index_changes.c - the write transactions of publishing and removal
 */
#include "base/os.h"
#include "index/index_inside.h"
#include "index/index_past.h"

/* The rows that a write transaction changes, and the number of rows changed. */
typedef struct row_change {
    hth_index *index;
    const hth_row_head *rows; /* or */
    const hth_row_id *ids;
    hth_index_confirm_fn confirm; /* may be NULL */
    void *user_data;
    size_t n;
    size_t n_done;
} row_change;

/* ---- rows ---- */

typedef struct reserve_request {
    hth_index *index;
    const hth_row_id *ids;
    size_t n;
    uint32_t deadline_s;
    hth_reserve_result *results;
} reserve_request;

static int reserve_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    reserve_request *request = user_data;

    for (size_t i = 0; i < request->n; i++) {
        const hth_row_id *id = &request->ids[i];
        hth_row_meta meta;
        bool is_held;
        int rc;

        if (request->results[i] == HTH_RESERVED)
            hth_index_held_remove(request->index, id); /* the transaction began anew */
        request->results[i] = HTH_RESERVE_TAKEN;
        rc = hth_index_row_get(txn, dbs, id, &meta);
        if (rc == 0) {
            request->results[i] = HTH_RESERVE_EXISTS;
            continue;
        }
        if (rc != MDB_NOTFOUND)
            return rc;
        rc = hth_index_row_is_held(request->index, txn, dbs, id, &is_held);
        if (rc == 0 && is_held)
            continue;
        if (rc == 0)
            rc = hth_index_reserve_row(request->index, txn, dbs, id, request->deadline_s);
        if (rc != 0)
            return rc;
        request->results[i] = HTH_RESERVED;
    }
    return 0;
}

hearth_status hth_index_reserve(hth_index *index, const hth_row_id *ids, size_t n, uint32_t deadline_s,
                                hth_reserve_result *results, hearth_error *err)
{
    reserve_request request = {
        .index = index,
        .ids = ids,
        .n = n,
        .deadline_s = deadline_s,
        .results = results,
    };
    hearth_status status;

    for (size_t i = 0; i < n; i++)
        results[i] = HTH_RESERVE_TAKEN;
    status = hth_index_write_rows(index, reserve_body, &request, "reserve rows", err);
    for (size_t i = 0; status != HEARTH_OK && i < n; i++) {
        if (results[i] == HTH_RESERVED)
            hth_index_held_remove(index, &ids[i]);
        results[i] = HTH_RESERVE_TAKEN;
    }
    return status;
}

typedef struct take_request {
    hth_index *index;
    const hth_row_id *id;
    uint32_t deadline_s;
    hth_reserve_result result;
    bool was_known;
    hth_row_meta meta;
} take_request;

static int take_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    take_request *request = user_data;
    hth_index_totals totals;
    bool is_held;
    int rc;

    if (request->result == HTH_RESERVED)
        hth_index_held_remove(request->index, request->id); /* the transaction began anew */
    request->result = HTH_RESERVE_TAKEN;
    request->was_known = false;
    rc = hth_index_row_is_held(request->index, txn, dbs, request->id, &is_held);
    if (rc != 0 || is_held)
        return rc;
    rc = hth_index_row_get(txn, dbs, request->id, &request->meta);
    if (rc == 0) {
        request->was_known = true;
        if ((rc = hth_index_totals_read(txn, dbs, &totals)) != 0 ||
            (rc = hth_index_row_remove(txn, dbs, &request->meta, &totals)) != 0 ||
            (rc = hth_index_totals_write(txn, dbs, &totals)) != 0)
            return rc;
    } else if (rc != MDB_NOTFOUND) {
        return rc;
    }
    rc = hth_index_reserve_row(request->index, txn, dbs, request->id, request->deadline_s);
    if (rc == 0)
        request->result = HTH_RESERVED;
    return rc;
}

hearth_status hth_index_take(hth_index *index, const hth_row_id *id, uint32_t deadline_s,
                             hth_reserve_result *result_out, bool *was_known_out, hth_row_meta *meta_out,
                             hearth_error *err)
{
    take_request request = { .index = index, .id = id, .deadline_s = deadline_s, .result = HTH_RESERVE_TAKEN };
    hearth_status status = hth_index_write_rows(index, take_body, &request, "take a row", err);

    if (status != HEARTH_OK) {
        if (request.result == HTH_RESERVED)
            hth_index_held_remove(index, id);
        return status;
    }
    *result_out = request.result;
    *was_known_out = request.was_known;
    if (request.was_known)
        *meta_out = request.meta;
    return HEARTH_OK;
}

static int release_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    row_change *change = user_data;
    int rc = 0;

    for (size_t i = 0; i < change->n && rc == 0; i++)
        rc = hth_index_reservation_drop(change->index, txn, dbs,
                                        change->ids ? &change->ids[i] : &change->rows[i].meta.id);
    return rc;
}

static int publish_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    row_change *change = user_data;
    hth_index_totals totals;
    int rc = hth_index_totals_read(txn, dbs, &totals);

    for (size_t i = 0; i < change->n && rc == 0; i++) {
        rc = hth_index_row_put(txn, dbs, &change->rows[i], &totals);
        if (rc == 0)
            rc = hth_index_reservation_drop(change->index, txn, dbs, &change->rows[i].meta.id);
    }
    return rc ? rc : hth_index_totals_write(txn, dbs, &totals);
}

hearth_status hth_index_publish(hth_index *index, const hth_row_head *rows, size_t n, hearth_error *err)
{
    row_change change = { .index = index, .rows = rows, .n = n };
    hearth_status status = hth_index_write_rows(index, publish_body, &change, "publish rows", err);

    if (status != HEARTH_OK) /* so that others need not wait for the deadlines; if this fails, too, they wait */
        (void)hth_index_write_rows(index, release_body, &change, "release reservations", NULL);
    for (size_t i = 0; i < n; i++)
        hth_index_held_remove(index, &rows[i].meta.id);
    hth_notifier_notify(index->notifier);
    return status;
}

/* Drop a reservation that no thread of ours holds. */
static int drop_unheld(hth_index *index, MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id)
{
    return hth_index_held_has(index, id) ? 0 : hth_index_reservation_drop(index, txn, dbs, id);
}

/* Put in one row that was found as a file, unless somebody else holds it. */
static int adopt_row(row_change *change, MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_head *head,
                     hth_index_totals *totals)
{
    const hth_row_id *id = &head->meta.id;
    hth_row_meta known;
    bool is_held;
    int rc = hth_index_row_get(txn, dbs, id, &known);

    if (rc == MDB_NOTFOUND) {
        rc = hth_index_row_is_held(change->index, txn, dbs, id, &is_held);
        if (rc != 0 || is_held || (change->confirm && !change->confirm(id, change->user_data)))
            return rc;
        rc = hth_index_row_put(txn, dbs, head, totals);
        if (rc == 0)
            change->n_done++;
    }
    return rc ? rc : drop_unheld(change->index, txn, dbs, id);
}

static int adopt_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    row_change *change = user_data;
    hth_index_totals totals;
    int rc = hth_index_totals_read(txn, dbs, &totals);

    change->n_done = 0;
    for (size_t i = 0; i < change->n && rc == 0; i++)
        rc = adopt_row(change, txn, dbs, &change->rows[i], &totals);
    return rc ? rc : hth_index_totals_write(txn, dbs, &totals);
}

hearth_status hth_index_adopt(hth_index *index, const hth_row_head *rows, size_t n, hth_index_confirm_fn is_there,
                              void *user_data, size_t *adopted_out, hearth_error *err)
{
    row_change change = { .index = index, .rows = rows, .confirm = is_there, .user_data = user_data, .n = n };
    hearth_status status = hth_index_write_rows(index, adopt_body, &change, "adopt rows", err);

    hth_notifier_notify(index->notifier);
    if (status == HEARTH_OK && adopted_out)
        *adopted_out = change.n_done;
    return status;
}

hearth_status hth_index_release(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err)
{
    row_change change = { .index = index, .ids = ids, .n = n };

    hearth_status status = hth_index_write_rows(index, release_body, &change, "release reservations", err);

    for (size_t i = 0; i < n; i++)
        hth_index_held_remove(index, &ids[i]);
    hth_notifier_notify(index->notifier);
    return status;
}

typedef struct gone_request {
    hth_index *index;
    const hth_row_meta *meta;
    const hth_gone *gone;
} gone_request;

static int release_gone_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    const gone_request *request = user_data;
    hth_row_meta known;
    int rc = hth_index_reservation_drop(request->index, txn, dbs, &request->meta->id);

    if (rc == 0)
        rc = hth_index_row_get(txn, dbs, &request->meta->id, &known);
    /* A row that is there was put in by somebody else after our deadline. */
    return rc == MDB_NOTFOUND ? hth_index_past_note_gone(txn, dbs, request->meta, request->gone) : rc;
}

hearth_status hth_index_release_gone(hth_index *index, const hth_row_meta *meta, const hth_gone *gone,
                                     hearth_error *err)
{
    gone_request request = { .index = index, .meta = meta, .gone = gone };
    hearth_status status = hth_index_write_rows(index, release_gone_body, &request, "release a reservation", err);

    hth_index_held_remove(index, &meta->id);
    hth_notifier_notify(index->notifier);
    return status;
}

static int release_dead_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    row_change *change = user_data;
    int rc = 0;

    for (size_t i = 0; i < change->n && rc == 0; i++) {
        hth_index_reservation r;

        rc = hth_index_reservation_get(txn, dbs, &change->ids[i], &r);
        if (rc == 0 && r.owner != hth_owner_token(change->index->owner))
            rc = hth_index_reservation_drop(change->index, txn, dbs, &change->ids[i]);
        else if (rc == MDB_NOTFOUND)
            rc = 0;
    }
    return rc;
}

hearth_status hth_index_release_dead(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err)
{
    row_change change = { .index = index, .ids = ids, .n = n };

    hearth_status status = hth_index_write_rows(index, release_dead_body, &change, "release dead reservations", err);

    hth_notifier_notify(index->notifier);
    return status;
}

static int remove_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    row_change *change = user_data;
    hth_index_totals totals;
    int rc = hth_index_totals_read(txn, dbs, &totals);

    change->n_done = 0;
    for (size_t i = 0; i < change->n && rc == 0; i++) {
        hth_row_meta meta;

        rc = hth_index_row_get(txn, dbs, &change->ids[i], &meta);
        if (rc == 0 && (!change->confirm || change->confirm(&meta.id, change->user_data))) {
            rc = hth_index_row_remove(txn, dbs, &meta, &totals);
            change->n_done++;
        } else if (rc == MDB_NOTFOUND) {
            rc = 0;
        }
    }
    return rc ? rc : hth_index_totals_write(txn, dbs, &totals);
}

hearth_status hth_index_remove_lost(hth_index *index, const hth_row_id *ids, size_t n, hth_index_confirm_fn is_gone,
                                    void *user_data, size_t *removed_out, hearth_error *err)
{
    row_change change = { .index = index, .ids = ids, .confirm = is_gone, .user_data = user_data, .n = n };
    hearth_status status = hth_index_write_rows(index, remove_body, &change, "remove rows", err);

    if (status == HEARTH_OK && removed_out)
        *removed_out = change.n_done;
    return status;
}

hearth_status hth_index_remove(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err)
{
    return hth_index_remove_lost(index, ids, n, NULL, NULL, NULL, err);
}

typedef struct note_request {
    const hth_index_sighting *sightings;
    size_t n;
} note_request;

static int note_beginnings_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    const note_request *request = user_data;
    int rc = 0;

    for (size_t i = 0; i < request->n && rc == 0; i++)
        rc = hth_index_past_note_beginning(txn, dbs, &request->sightings[i].name, &request->sightings[i].space);
    return rc;
}

hearth_status hth_index_note_beginnings(hth_index *index, const hth_index_sighting *sightings, size_t n,
                                        hearth_error *err)
{
    note_request request = { .sightings = sightings, .n = n };

    return hth_index_write_rows(index, note_beginnings_body, &request, "note beginnings", err);
}

/* ---- state ---- */

/* Claim the rebuild of an incomplete index that nobody is filling. */
static int claim_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    row_change *change = user_data;
    hth_index_state s;
    int rc = hth_index_state_get(txn, dbs, &s);

    change->n_done = 0;
    if (rc != 0 || s.complete || (s.rebuilder != 0 && hth_owner_lives(change->index->owner, s.rebuilder)))
        return rc;
    s.rebuilder = hth_owner_token(change->index->owner);
    change->n_done = 1;
    return hth_index_state_put(txn, dbs, &s);
}

bool hth_index_claim_rebuild(hth_index *index)
{
    row_change change = { .index = index };
    hth_index_totals totals = { .rows = 0 };
    int rc;

    if (hth_index_totals_get(index, &totals, NULL) != HEARTH_OK || totals.complete)
        return false;
    rc = hth_index_env_write(index->env, claim_body, &change);
    return hth_index_finish(index, rc, "claim", NULL) == HEARTH_OK && change.n_done == 1;
}

static int set_quota_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    const uint64_t *quota = user_data;
    hth_index_state s;
    int rc = hth_index_state_get(txn, dbs, &s);

    s.quota = *quota;
    return rc ? rc : hth_index_state_put(txn, dbs, &s);
}

hearth_status hth_index_set_quota(hth_index *index, uint64_t bytes_max, hearth_error *err)
{
    return hth_index_write_rows(index, set_quota_body, &bytes_max, "set the quota", err);
}

static int clear_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    const hth_index *index = user_data;
    hth_index_totals none = { .rows = 0 };
    hth_index_state s;
    int rc;

    if ((rc = hth_index_state_get(txn, dbs, &s)) != 0 || (rc = mdb_drop(txn, dbs->rows, 0)) != 0 ||
        (rc = mdb_drop(txn, dbs->children, 0)) != 0 || (rc = mdb_drop(txn, dbs->tokens, 0)) != 0 ||
        (rc = mdb_drop(txn, dbs->lru, 0)) != 0 || (rc = hth_index_totals_write(txn, dbs, &none)) != 0)
        return rc;
    /* Reservations stay: they protect the rows that others are writing. */
    s.complete = false;
    s.rebuilder = hth_owner_token(index->owner);
    return hth_index_state_put(txn, dbs, &s);
}

hearth_status hth_index_clear(hth_index *index, hearth_error *err)
{
    return hth_index_write_rows(index, clear_body, index, "clear", err);
}

static int rebuilt_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    const hth_index *index = user_data;
    hth_index_state s;
    int rc = hth_index_state_get(txn, dbs, &s);

    if (rc != 0 || s.rebuilder != hth_owner_token(index->owner))
        return rc; /* not the index that we were filling */
    s.complete = true;
    return hth_index_state_put(txn, dbs, &s);
}

hearth_status hth_index_rebuilt(hth_index *index, hearth_error *err)
{
    return hth_index_write_rows(index, rebuilt_body, index, "finish the rebuild", err);
}

static int unclaim_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    const hth_index *index = user_data;
    hth_index_state s;
    int rc = hth_index_state_get(txn, dbs, &s);

    if (rc != 0 || s.rebuilder != hth_owner_token(index->owner))
        return rc;
    s.rebuilder = 0;
    return hth_index_state_put(txn, dbs, &s);
}

void hth_index_rebuild_failed(hth_index *index)
{
    (void)hth_index_write_rows(index, unclaim_body, index, "give up the rebuild",
                               NULL); /* if this fails, the claim ends with its owner */
}
