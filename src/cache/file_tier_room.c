/*
 * file_tier_room.c - room for new rows: the quota, what is to stay free on the device, and which rows go for it
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>

#include "base/os.h"
#include "cache/file_tier_inside.h"

enum {
    EVICT_BATCH_ROWS = 64,
    EVICT_ATTEMPTS = 8,
    GIVE_BACK_ATTEMPTS = 3, /* looks at the device, with an eviction between two of them */
};

/* Remove the files of rows that the index gave up; how many are gone. What stays is counted again, as the newest. */
static size_t remove_evicted(hth_file_tier *tier, hth_row_meta *rows, size_t n)
{
    hth_row_id gone[EVICT_BATCH_ROWS];
    char path[HTH_FILE_TIER_PATH_BYTES];
    size_t n_gone = 0;

    assert(n <= EVICT_BATCH_ROWS);
    for (size_t i = 0; i < n; i++) {
        int rc = -ENAMETOOLONG;
        bool ours = true;

        /* One who was stopped for long has lost it, and what has the name now is somebody else's. */
        if (hth_index_reservation_is_ours(tier->index, &rows[i].id, &ours, NULL) == HEARTH_OK && !ours)
            rc = -ENOENT;
        else if (hth_file_tier_path(tier, &rows[i].id, path, sizeof(path)))
            rc = hth_file_tier_remove_file(tier, &rows[i].id, path);
        if (rc == 0 || rc == -ENOENT) {
            gone[n_gone++] = rows[i].id;
        } else {
            rows[i].last_used_time = hth_os_unix_seconds();
            hth_file_tier_put_back(tier, &rows[i]);
        }
    }
    if (n_gone > 0) /* if it fails, the rows are ours to take again */
        (void)hth_index_release(tier->index, gone, n_gone, NULL);
    return n_gone;
}

/* What speaks for rows in one eviction. */
typedef struct advocate {
    const hth_file_tier *tier;
    hth_pins pins;
} advocate;

static bool is_needed(const hth_row_meta *meta, void *user_data)
{
    const advocate *a = user_data;

    return hth_pins_has(&a->pins, &meta->id.key) ||
           (a->tier->is_needed && a->tier->is_needed(meta, a->tier->user_data));
}

hearth_status hth_file_tier_evict_to(hth_file_tier *tier, uint64_t bytes_max, uint64_t *evicted_out, hearth_error *err)
{
    hth_row_meta rows[EVICT_BATCH_ROWS];
    advocate speaker = { .tier = tier };
    hearth_status status = hth_file_tier_pins(tier, &speaker.pins, err);
    uint64_t n_evicted = 0;
    size_t n;

    if (status != HEARTH_OK)
        return status;
    do {
        size_t n_gone;

        n = 0;
        status = hth_index_evict(tier->index, bytes_max, is_needed, &speaker, rows, EVICT_BATCH_ROWS, &n, err);
        hth_fs_step(tier->fs, "evicted from the index");
        if (status != HEARTH_OK || n == 0)
            break;
        n_gone = remove_evicted(tier, rows, n);
        n_evicted += n_gone;
        if (n_gone < n)
            status = hth_fail(err, HEARTH_IO, "%zu of %zu evicted rows in '%s' cannot be removed", n - n_gone, n,
                              tier->rows);
    } while (n == EVICT_BATCH_ROWS && status == HEARTH_OK);
    hth_pins_deinit(&speaker.pins);
    atomic_fetch_add(&tier->n_rows_evicted, n_evicted);
    if (evicted_out)
        *evicted_out = n_evicted;
    return status;
}

static hearth_status over_quota(const hth_file_tier *tier, uint64_t bytes, size_t n_bytes, const char *why,
                                hearth_error *err)
{
    return hth_fail(err, HEARTH_FULL,
                    "a row of %zu bytes does not fit the cache in '%s', which holds %" PRIu64 " of at most %" PRIu64
                    " bytes%s",
                    n_bytes, tier->directory, bytes, tier->bytes_max, why);
}

/* Is there a row that this one begins after? Rows from token 0, and those whose parent was never kept, have none. */
static bool has_parent(hth_file_tier *tier, const hth_row_meta *meta)
{
    static const hth_row_kind bearing[] = { HTH_ROW_BLOCK, HTH_ROW_TAIL };
    bool found = false;

    for (size_t i = 0; meta->first_position > 0 && i < sizeof(bearing) / sizeof(bearing[0]) && !found; i++) {
        hth_row_id id = { .key = meta->parent, .kind = bearing[i] };

        if (hth_index_get(tier->index, &id, NULL, &found, NULL) != HEARTH_OK)
            found = false;
    }
    return found;
}

/*
 * Evict for a new row until at most bytes_max are left; *n_evicted_out rows went. What the row stands on is the last to
 * go, and without that the row is of no use.
 */
static hearth_status evict_for(hth_file_tier *tier, const hth_row_meta *meta, uint64_t bytes_max,
                               uint64_t *n_evicted_out, hearth_error *err)
{
    hth_index_use uses[] = {
        { .id = { .key = meta->parent, .kind = HTH_ROW_BLOCK }, .last_used_time = hth_os_unix_seconds() + 1 },
        { .id = { .key = meta->parent, .kind = HTH_ROW_TAIL }, .last_used_time = hth_os_unix_seconds() + 1 },
    };
    bool stood = has_parent(tier, meta);
    hearth_status status;

    hth_file_tier_bring_notes(tier); /* uses that the index does not know yet decide, too */
    if (stood)
        (void)hth_index_touch(tier->index, uses, sizeof(uses) / sizeof(uses[0]), NULL); /* else the order is a guess */
    status = hth_file_tier_evict_to(tier, bytes_max, n_evicted_out, err);
    if (status == HEARTH_OK && stood && !has_parent(tier, meta))
        return hth_fail(err, HEARTH_FULL,
                        "a row of %" PRIu64 " bytes does not fit the cache in '%s': what it stands on had to go for it",
                        meta->bytes, tier->directory);
    return status;
}

/* ---- the quota ---- */

static hearth_status make_room_in_quota(hth_file_tier *tier, const hth_row_meta *meta, size_t n_bytes,
                                        hearth_error *err)
{
    hth_index_totals totals = { .rows = 0 };
    hearth_status status;

    if (n_bytes > tier->bytes_max)
        return over_quota(tier, atomic_load(&tier->bytes_known), n_bytes, "; raise the quota", err);
    if (hth_index_totals_get(tier->index, &totals, NULL) != HEARTH_OK) {
        uint64_t known = atomic_load(&tier->bytes_known);

        return known > tier->bytes_max - n_bytes ? over_quota(tier, known, n_bytes, ", and its index is damaged", err)
                                                 : HEARTH_OK;
    }
    if (totals.bytes <= tier->bytes_max - n_bytes)
        return HEARTH_OK;
    if (!totals.complete)
        return over_quota(tier, totals.bytes, n_bytes, ", and its index is still being made", err);
    /* Another writer, here or in another process, may take the room that was made. */
    for (int i = 0; i < EVICT_ATTEMPTS && totals.bytes > tier->bytes_max - n_bytes; i++) {
        status = evict_for(tier, meta, tier->bytes_max - n_bytes, NULL, err);
        if (status != HEARTH_OK)
            return status;
        if (hth_index_totals_get(tier->index, &totals, err) != HEARTH_OK)
            return HEARTH_IO;
    }
    atomic_store(&tier->bytes_known, totals.bytes);
    return totals.bytes <= tier->bytes_max - n_bytes ? HEARTH_OK : over_quota(tier, totals.bytes, n_bytes, "", err);
}

/* ---- the device ---- */

/* Evict until so many bytes are gone; false when nothing went. *status_out: whether the row may still be written. */
static bool give_back(hth_file_tier *tier, const hth_row_meta *meta, uint64_t n_bytes, hearth_status *status_out,
                      hearth_error *err)
{
    hth_index_totals totals;
    uint64_t n_evicted = 0;

    if (tier->spares_rows || hth_index_totals_get(tier->index, &totals, NULL) != HEARTH_OK)
        return false; /* without an index nobody knows what is used least */
    *status_out = evict_for(tier, meta, totals.bytes > n_bytes ? totals.bytes - n_bytes : 0, &n_evicted, err);
    return n_evicted > 0;
}

/*
 * What the device lacks for a row and what is to stay free. For a row that would not fit with nothing of ours left, what
 * it lacks to what is to stay free: others may have taken that, and get it back.
 */
static uint64_t lacking(const hth_file_tier *tier, size_t n_bytes, uint64_t free_bytes)
{
    hth_index_totals totals = { .bytes = 0 };
    uint64_t wanted;

    if (__builtin_add_overflow(tier->free_min, n_bytes, &wanted))
        wanted = UINT64_MAX;
    (void)hth_index_totals_get(tier->index, &totals, NULL); /* without an index nothing can go */
    if (free_bytes < wanted && totals.bytes < wanted - free_bytes)
        wanted = tier->free_min;
    return wanted > free_bytes ? wanted - free_bytes : 0;
}

/*
 * The tier's own rows go first. A row may evict what it lacks and, should another writer have taken that, once more; not
 * until the device says that there is room, since some tell of what was removed much later.
 */
static hearth_status make_room_on_device(hth_file_tier *tier, const hth_row_meta *meta, size_t n_bytes,
                                         hearth_error *err)
{
    for (int i = 0; i < GIVE_BACK_ATTEMPTS; i++) {
        hearth_status status = HEARTH_OK;
        uint64_t free_bytes;
        int rc = hth_fs_free_bytes(tier->fs, tier->rows, &free_bytes);

        if (rc != 0)
            return hth_fail_errno(err, -rc, "cannot tell how much is free in '%s'", tier->rows);
        if (free_bytes >= n_bytes && free_bytes - n_bytes >= tier->free_min)
            return HEARTH_OK;
        if (i + 1 == GIVE_BACK_ATTEMPTS || !give_back(tier, meta, lacking(tier, n_bytes, free_bytes), &status, err))
            break;
        if (status != HEARTH_OK)
            return status;
    }
    return hth_fail(err, HEARTH_FULL,
                    "a row of %zu bytes would leave less than %" PRIu64 " bytes free beside '%s'; "
                    "make room on that device",
                    n_bytes, tier->free_min, tier->directory);
}

hearth_status hth_file_tier_make_room(hth_file_tier *tier, const hth_row_meta *meta, size_t n_bytes, hearth_error *err)
{
    hearth_status status = make_room_in_quota(tier, meta, n_bytes, err);

    return status == HEARTH_OK ? make_room_on_device(tier, meta, n_bytes, err) : status;
}

bool hth_file_tier_make_room_again(hth_file_tier *tier, const hth_row_meta *meta, size_t n_bytes)
{
    hearth_status status = HEARTH_OK;

    return give_back(tier, meta, n_bytes, &status, NULL) && status == HEARTH_OK;
}
