/*
 * upkeep.c - verify, gc, repair and remove
 *
 * verify takes the rows in the order of their first positions, so a row comes after the rows that it stands on. A row
 * with a correct key keeps the hash state of that key for the rows that begin at its end. So every row is read once and
 * every token is hashed once. A state is freed when no more rows can begin there.
 */
#include "cache/upkeep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hex.h"
#include "rows/row_file.h"

enum { PATH_BYTES = 4096, TOKENS_AT_ONCE = 1024, LOST_AT_ONCE = 256 };

/* ---- a growing list ---- */

typedef struct list {
    void *items;
    size_t n;
    size_t capacity;
} list;

/* Append a copy of an item; false: no memory. */
static bool list_add(list *l, const void *item, size_t item_bytes)
{
    void *items = hth_grown(l->items, l->n, &l->capacity, item_bytes);

    if (!items)
        return false;
    l->items = items;
    memcpy((uint8_t *)l->items + l->n++ * item_bytes, item, item_bytes);
    return true;
}

/* ---- verify: the rows ---- */

typedef struct checked_row {
    hth_file_tier *tier;
    hth_row_meta meta;      /* from the index or the head of the file */
    hth_key_stream *stream; /* at the end of the row, if its key was found correct; NULL if not, or once freed */
    hth_keyspace keyspace;  /* of stream */
    bool has_key;           /* its key was found correct */
} checked_row;

typedef struct verification {
    hth_file_tier *tier; /* the tier whose files are listed now */
    hth_upkeep_progress_fn progress;
    void *user_data;
    hth_upkeep_progress done;
    hth_verify_counts *counts;
    char folder[PATH_BYTES];

    list rows;            /* of checked_row, by first position */
    checked_row **by_key; /* [rows.n] */
    checked_row **by_end; /* [rows.n] */
    size_t n_ended;       /* rows of by_end with freed streams */
    uint8_t *bytes;       /* of the current row */
    size_t bytes_capacity;
    bool no_memory;
} verification;

static uint64_t end_of(const hth_row_meta *meta)
{
    return (uint64_t)meta->first_position + meta->n_tokens;
}

/* ---- verify: the key of a row ---- */

static void push_tokens(hth_key_stream *stream, const hth_kvc_info *info)
{
    hearth_token tokens[TOKENS_AT_ONCE];
    size_t n = hth_kvc_n_tokens(info);

    for (size_t i = 0; i < n;) {
        size_t n_now = n - i < TOKENS_AT_ONCE ? n - i : TOKENS_AT_ONCE;

        for (size_t k = 0; k < n_now; k++)
            tokens[k] = hth_kvc_token(info, i + k);
        hth_key_stream_push(stream, tokens, n_now);
        i += n_now;
    }
}

typedef enum finding {
    FINDING_SOUND,
    FINDING_UNVERIFIABLE,
    FINDING_BAD,
    FINDING_NO_MEMORY,
} finding;

/*
 * Is the key of the row that of the tokens of parent (NULL: no earlier tokens) followed by its own? *stream_out is left
 * at the row's end.
 */
static finding check_key(const checked_row *parent, const hth_kvc_info *info, hth_key_stream **stream_out)
{
    hth_key_stream *stream;
    hth_key computed;

    if (parent && end_of(&parent->meta) != info->first_position)
        return FINDING_BAD;
    stream = hth_key_stream_new(parent ? &parent->keyspace : &info->keyspace);
    if (!stream)
        return FINDING_NO_MEMORY;
    if (parent)
        hth_key_stream_copy(stream, parent->stream);
    push_tokens(stream, info);
    hth_key_stream_key(stream, &computed);
    if (!hth_key_equal(&computed, &info->own_key)) {
        hth_key_stream_free(stream);
        return FINDING_BAD;
    }
    *stream_out = stream;
    return FINDING_SOUND;
}

/*
 * Check a whole file as row id. parent: the row that it stands on, or for a row without tokens the row of its own key;
 * NULL: not here. *stream_out is written for a sound row with tokens.
 */
static finding check_row(const hth_row_id *id, const checked_row *parent, const uint8_t *bytes, size_t n_bytes,
                         hth_keyspace *keyspace_out, hth_key_stream **stream_out)
{
    hth_kvc_fault fault;
    hth_kvc_info info;

    if (!hth_kvc_parse(bytes, n_bytes, &id->key, &info, &fault))
        return fault.reason == HTH_KVC_NO_MEMORY ? FINDING_NO_MEMORY : FINDING_BAD;
    if (!hth_kvc_is_row(&info, id))
        return FINDING_BAD;
    *keyspace_out = info.keyspace;
    if (info.first_position == 0)
        return hth_kvc_n_tokens(&info) > 0 ? check_key(NULL, &info, stream_out) : FINDING_UNVERIFIABLE;
    if (!parent)
        return FINDING_UNVERIFIABLE;
    if (hth_kvc_n_tokens(&info) == 0) {
        if (!hth_key_equal(&parent->meta.id.key, &id->key))
            return FINDING_UNVERIFIABLE; /* no row here has its key */
        return end_of(&parent->meta) == info.first_position ? FINDING_SOUND : FINDING_BAD;
    }
    return check_key(parent, &info, stream_out);
}

/* For hth_file_tier_quarantine_if; user_data is the parent. */
static bool is_unsound(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes, void *user_data)
{
    hth_key_stream *stream = NULL;
    hth_keyspace keyspace;
    finding found = check_row(id, user_data, bytes, n_bytes, &keyspace, &stream);

    hth_key_stream_free(stream);
    return found == FINDING_BAD;
}

/* ---- verify: the list of rows ---- */

/* A file with the name of a row. */
static bool add_file(const char *name, void *user_data)
{
    verification *v = user_data;
    checked_row row = { .tier = v->tier };
    char path[PATH_BYTES];
    hth_row_id id;
    bool found = false;

    if (!hth_row_file_parse_name(name, &id) || !hth_file_tier_path(v->tier, &id, path, sizeof(path)))
        return true;
    if (hth_index_get(hth_file_tier_index(v->tier), &id, &row.meta, &found, NULL) != HEARTH_OK || !found) {
        hearth_status status = hth_row_file_meta(hth_file_tier_fs(v->tier), path, &id, &row.meta, NULL);

        if (status == HEARTH_NOT_FOUND)
            return true;
        if (status != HEARTH_OK) {
            v->counts->quarantined +=
                hth_file_tier_quarantine_if(v->tier, &id, is_unsound, NULL, "its head is damaged");
            return true;
        }
    }
    v->done.bytes_total += row.meta.bytes;
    if (!list_add(&v->rows, &row, sizeof(row)))
        v->no_memory = true;
    return !v->no_memory;
}

static bool add_folder(const char *name, void *user_data)
{
    verification *v = user_data;

    if (!hth_is_hex(name, 2) ||
        snprintf(v->folder, sizeof(v->folder), "%s/%s", hth_file_tier_rows_directory(v->tier), name) >= PATH_BYTES)
        return true;
    (void)hth_fs_list(hth_file_tier_fs(v->tier), v->folder, add_file, v); /* without the folder there are no rows */
    return !v->no_memory;
}

static int compare_first(const void *a, const void *b)
{
    const hth_row_meta *left = &((const checked_row *)a)->meta, *right = &((const checked_row *)b)->meta;

    if (left->first_position != right->first_position)
        return left->first_position < right->first_position ? -1 : 1;
    return right->n_tokens > left->n_tokens ? 1 : -(right->n_tokens < left->n_tokens);
}

static int compare_key(const void *a, const void *b)
{
    return memcmp((*(checked_row *const *)a)->meta.id.key.bytes, (*(checked_row *const *)b)->meta.id.key.bytes,
                  HTH_KEY_BYTES);
}

static int compare_end(const void *a, const void *b)
{
    uint64_t left = end_of(&(*(checked_row *const *)a)->meta), right = end_of(&(*(checked_row *const *)b)->meta);

    return left < right ? -1 : left > right;
}

static hearth_status list_rows(verification *v, hth_file_tier *const *tiers, size_t n_tiers, hearth_error *err)
{
    checked_row *rows;
    size_t n;

    for (size_t i = 0; i < n_tiers; i++) {
        const char *directory = hth_file_tier_rows_directory(tiers[i]);
        int rc;

        v->tier = tiers[i];
        rc = hth_fs_list(hth_file_tier_fs(v->tier), directory, add_folder, v);
        if (rc != 0)
            return hth_fail_errno(err, -rc, "cannot list the rows in '%s'", directory);
    }
    rows = v->rows.items;
    n = v->rows.n;
    v->by_key = malloc((n + 1) * sizeof(checked_row *));
    v->by_end = malloc((n + 1) * sizeof(checked_row *));
    if (v->no_memory || !v->by_key || !v->by_end)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a list of %zu rows", n);
    v->done.n_rows_total = n;
    if (n == 0)
        return HEARTH_OK;
    qsort(rows, n, sizeof(*rows), compare_first);
    for (size_t i = 0; i < n; i++)
        v->by_key[i] = v->by_end[i] = &rows[i];
    qsort(v->by_key, n, sizeof(checked_row *), compare_key);
    qsort(v->by_end, n, sizeof(checked_row *), compare_end);
    return HEARTH_OK;
}

/* ---- verify: one row ---- */

/* A row of that key with tokens, whose key was found correct; NULL: none. */
static checked_row *find_ended(const verification *v, const hth_key *key)
{
    size_t low = 0, high = v->rows.n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (memcmp(v->by_key[middle]->meta.id.key.bytes, key->bytes, HTH_KEY_BYTES) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < v->rows.n && hth_key_equal(&v->by_key[low]->meta.id.key, key); low++)
        if (v->by_key[low]->has_key)
            return v->by_key[low];
    return NULL;
}

static uint8_t *take_bytes(size_t n_bytes, void *user_data)
{
    verification *v = user_data;

    if (n_bytes > v->bytes_capacity) {
        free(v->bytes); /* the earlier row in it has been checked */
        v->bytes = malloc(n_bytes);
        v->bytes_capacity = v->bytes ? n_bytes : 0;
    }
    return v->bytes;
}

/* The row that the key of this row is computed from or compared with; NULL: not here. */
static checked_row *find_basis(const verification *v, const hth_row_meta *meta)
{
    bool has_cells = meta->id.kind != HTH_ROW_STATE && meta->id.kind != HTH_ROW_LOGITS;
    checked_row *same_key;

    if (meta->first_position == 0)
        return NULL;
    /* A state inside a block has the beginning of the block as its parent; the tail of its own key ends there, too. */
    same_key = has_cells ? NULL : find_ended(v, &meta->id.key);
    return same_key ? same_key : find_ended(v, &meta->parent);
}

static finding verify_row(verification *v, checked_row *row)
{
    checked_row *parent = find_basis(v, &row->meta);
    finding found = FINDING_BAD;
    size_t n = 0;
    hearth_status status = hth_file_tier_read(row->tier, &row->meta.id, take_bytes, v, &n, NULL);

    if (status == HEARTH_NOT_FOUND) {
        v->counts->gone++;
        return FINDING_SOUND;
    }
    if (status == HEARTH_NO_MEMORY)
        return FINDING_NO_MEMORY;
    if (parent && !parent->stream)
        parent = NULL; /* its end is before this row: the file changed after its head was read */
    if (status == HEARTH_OK)
        found = check_row(&row->meta.id, parent, v->bytes, n, &row->keyspace, &row->stream);
    row->has_key = row->stream != NULL;
    if (found == FINDING_BAD)
        v->counts->quarantined +=
            hth_file_tier_quarantine_if(row->tier, &row->meta.id, is_unsound, parent, "it did not pass verification");
    v->counts->sound += found == FINDING_SOUND;
    v->counts->unverifiable += found == FINDING_UNVERIFIABLE;
    return found;
}

static bool tell(verification *v)
{
    return !v->progress || v->progress(&v->done, v->user_data);
}

static hearth_status verify_rows(verification *v, hearth_error *err)
{
    checked_row *rows = v->rows.items;

    for (size_t i = 0; i < v->rows.n; i++) {
        if (!tell(v))
            return hth_fail(err, HEARTH_CANCELLED, "verification ended after %zu of %zu rows", i, v->rows.n);
        while (v->n_ended < v->rows.n && end_of(&v->by_end[v->n_ended]->meta) < rows[i].meta.first_position) {
            hth_key_stream_free(v->by_end[v->n_ended]->stream);
            v->by_end[v->n_ended++]->stream = NULL;
        }
        if (verify_row(v, &rows[i]) == FINDING_NO_MEMORY)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory to verify a row of %llu bytes",
                            (unsigned long long)rows[i].meta.bytes);
        v->done.n_rows++;
        v->done.bytes += rows[i].meta.bytes;
    }
    (void)tell(v); /* the end is reached, whatever the answer */
    return HEARTH_OK;
}

/* ---- verify: entries without a file ---- */

static bool add_id(const hth_row_meta *meta, void *user_data)
{
    return list_add(user_data, &meta->id, sizeof(meta->id));
}

static void drop_lost(hth_file_tier *tier, hth_verify_counts *counts)
{
    hth_index *index = hth_file_tier_index(tier);
    hth_row_files files = hth_file_tier_files(tier);
    list ids = { .n = 0 };
    size_t n_lost = 0;
    hth_row_id *id;

    (void)hth_index_visit(index, false, add_id, &ids, NULL); /* other code rebuilds a damaged index */
    id = ids.items;
    for (size_t i = 0; i < ids.n; i++)
        if (hth_row_file_is_gone(&id[i], &files))
            id[n_lost++] = id[i];
    for (size_t i = 0; i < n_lost; i += LOST_AT_ONCE) {
        size_t n_removed = 0, n = n_lost - i < LOST_AT_ONCE ? n_lost - i : LOST_AT_ONCE;

        (void)hth_index_remove_lost(index, id + i, n, hth_row_file_is_gone, &files, &n_removed, NULL); /* likewise */
        counts->gone += n_removed;
    }
    free(ids.items);
}

hearth_status hth_file_tiers_verify(hth_file_tier *const *tiers, size_t n, hth_upkeep_progress_fn progress,
                                    void *user_data, hth_verify_counts *counts, hearth_error *err)
{
    verification v = { .progress = progress, .user_data = user_data, .counts = counts };
    hearth_status status;
    checked_row *rows;

    *counts = (hth_verify_counts){ .sound = 0 };
    status = list_rows(&v, tiers, n, err);
    if (status == HEARTH_OK)
        status = verify_rows(&v, err);
    for (size_t i = 0; status == HEARTH_OK && i < n; i++)
        drop_lost(tiers[i], counts);
    rows = v.rows.items;
    for (size_t i = 0; i < v.rows.n; i++)
        hth_key_stream_free(rows[i].stream);
    free(v.rows.items);
    free(v.by_key);
    free(v.by_end);
    free(v.bytes);
    return status;
}

/* ---- gc ---- */

static void tidy(hth_file_tier *tier)
{
    hth_file_tier_maintain(tier); /* writes outstanding uses to the index, because they decide */
    hth_file_tier_settle(tier);   /* an incomplete index evicts nothing */
    hth_file_tier_recover(tier);
}

hearth_status hth_file_tier_gc(hth_file_tier *tier, uint64_t bytes_max, uint64_t *evicted_out, hearth_error *err)
{
    hth_index_totals totals;
    uint64_t most = UINT64_MAX;

    tidy(tier);
    /* Without an index nothing is evicted, and the eviction reports why. */
    if (hth_index_totals_get(hth_file_tier_index(tier), &totals, NULL) == HEARTH_OK)
        most = hth_file_tier_rows_bytes_max(tier, &totals);
    return hth_file_tier_evict_to(tier, bytes_max < most ? bytes_max : most, evicted_out, err);
}

hearth_status hth_file_tier_set_gc(hth_file_tier_set *set, uint64_t bytes_max, uint64_t *evicted_out, hearth_error *err)
{
    for (size_t i = 0; i < hth_file_tier_set_n_roots(set); i++)
        tidy(hth_file_tier_set_roots(set)[i]);
    return hth_file_tier_set_evict_to(set, bytes_max, evicted_out, err);
}

/* ---- repair ---- */

typedef struct repair {
    hth_upkeep_progress_fn progress;
    void *user_data;
    bool is_cancelled;
} repair;

static bool tell_repair(uint64_t n_rows, uint64_t n_rows_estimated, void *user_data)
{
    repair *r = user_data;
    hth_upkeep_progress done = { .n_rows = n_rows, .n_rows_total = n_rows_estimated };

    r->is_cancelled = r->progress && !r->progress(&done, r->user_data);
    return !r->is_cancelled;
}

hearth_status hth_file_tier_repair(hth_file_tier *tier, hth_upkeep_progress_fn progress, void *user_data,
                                   hearth_error *err)
{
    repair r = { .progress = progress, .user_data = user_data };

    hth_file_tier_maintain(tier); /* replaces a damaged index first */
    if (hth_file_tier_rebuild_index(tier, tell_repair, &r))
        return HEARTH_OK;
    if (r.is_cancelled)
        return hth_fail(err, HEARTH_CANCELLED, "repair ended; the index of '%s' is incomplete",
                        hth_file_tier_rows_directory(tier));
    return hth_fail(err, HEARTH_IO, "the index of '%s' could not be made anew", hth_file_tier_rows_directory(tier));
}

/* ---- remove ---- */

/* A row and its root. */
typedef struct placed_row {
    hth_file_tier *tier;
    hth_row_meta meta;
} placed_row;

/* Append the rows of a root that stand on `above`; false: no memory. */
static bool add_children(hth_file_tier *tier, const hth_row_meta *above, list *rows)
{
    size_t capacity = 64, n;
    bool added = true;

    if (above->n_tokens == 0)
        return true;
    for (;;) {
        hth_row_meta *children = malloc(capacity * sizeof(*children));

        if (!children)
            return false;
        n = hth_file_tier_children(tier, &above->id.key, children, capacity);
        for (size_t k = 0; n < capacity && k < n && added; k++) {
            placed_row row = { .tier = tier, .meta = children[k] };

            if (row.meta.first_position >= end_of(above)) /* ends the walk, even if rows name each other as parent */
                added = list_add(rows, &row, sizeof(row));
        }
        free(children);
        if (n < capacity)
            return added;
        capacity *= 4;
    }
}

/*
 * The row, in every root that has it, and all rows that stand on it; each row comes after the rows that it stands on.
 * False: no memory.
 */
static bool list_tree(hth_file_tier *const *tiers, size_t n, const hth_row_id *id, list *rows)
{
    for (size_t i = 0; i < n; i++) {
        placed_row row = { .tier = tiers[i] };

        if (hth_file_tier_has(tiers[i], id, &row.meta) && !list_add(rows, &row, sizeof(row)))
            return false;
    }
    for (size_t at = 0; at < rows->n; at++)
        for (size_t i = 0; i < n; i++) {
            hth_row_meta above = ((const placed_row *)rows->items)[at].meta;

            if (!add_children(tiers[i], &above, rows))
                return false;
        }
    return true;
}

/* Remove a row that no root could describe. It is damaged or missing; the status of the removal says which. */
static hearth_status remove_unlisted(hth_file_tier *const *tiers, size_t n, const hth_row_id *id, uint64_t *removed_out,
                                     hearth_error *err)
{
    hearth_status status = HEARTH_NOT_FOUND;

    for (size_t i = 0; i < n && status == HEARTH_NOT_FOUND; i++)
        status = hth_file_tier_remove(tiers[i], id, err);
    *removed_out = status == HEARTH_OK;
    return status == HEARTH_OK ? hth_file_tiers_drop_pin(tiers, n, &id->key, err) : status;
}

hearth_status hth_file_tiers_remove_tree(hth_file_tier *const *tiers, size_t n, const hth_row_id *id,
                                         hth_upkeep_progress_fn progress, void *user_data, uint64_t *removed_out,
                                         hearth_error *err)
{
    hth_upkeep_progress done = { .n_rows = 0 };
    hearth_status status = HEARTH_OK;
    list rows = { .n = 0 };

    if (!list_tree(tiers, n, id, &rows))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a list of %zu rows", rows.n);
    else if (rows.n == 0)
        status = remove_unlisted(tiers, n, id, &done.n_rows, err);
    done.n_rows_total = rows.n;
    for (size_t i = rows.n; status == HEARTH_OK && i-- > 0;) {
        const placed_row *row = &((const placed_row *)rows.items)[i];

        if (progress && !progress(&done, user_data)) {
            status =
                hth_fail(err, HEARTH_CANCELLED, "removal ended after %zu of %zu rows", (size_t)done.n_rows, rows.n);
            break;
        }
        status = hth_file_tier_remove(row->tier, &row->meta.id, err);
        done.n_rows += status == HEARTH_OK;
        done.bytes += status == HEARTH_OK ? row->meta.bytes : 0;
        if (status == HEARTH_NOT_FOUND)
            status = HEARTH_OK;
        if (status == HEARTH_OK)
            status = hth_file_tiers_drop_pin(tiers, n, &row->meta.id.key, err);
    }
    free(rows.items);
    if (removed_out)
        *removed_out = done.n_rows;
    return status;
}
