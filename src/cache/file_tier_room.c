/*
 * file_tier_room.c - room for new rows: the quota, the free space of the device, and the rows that are evicted for them
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>

#include "base/os.h"
#include "cache/file_tier_inside.h"

enum {
    EVICT_BATCH_ROWS = 64,
    EVICT_ATTEMPTS = 8,
    EVICT_IDLE_ROUNDS = 2,  /* rounds in a row that remove nothing; a new pin causes one */
    GIVE_BACK_ATTEMPTS = 3, /* checks of the device, with an eviction between two of them */
    INDEX_FREE_BYTES = 1 << 20,
};

/* Does a row stand on this one? */
static bool bears(const hth_row_meta *row, const hth_row_meta *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (hth_key_equal(&rows[i].parent, &row->id.key))
            return true;
    return false;
}

typedef struct removed_count {
    size_t n_gone;
    size_t n_failed;
} removed_count;

/*
 * Remove the files of rows that the index gave up. A row that was pinned since then is put back, and so are its
 * ancestors, which come later in rows. A row that cannot be removed is put back as the newest.
 */
static removed_count remove_evicted(hth_file_tier *tier, hth_row_meta *rows, size_t n)
{
    hth_row_meta kept[EVICT_BATCH_ROWS];
    hth_row_id gone[EVICT_BATCH_ROWS];
    char path[HTH_FILE_TIER_PATH_BYTES];
    removed_count count = { .n_gone = 0 };
    size_t n_kept = 0;

    assert(n <= EVICT_BATCH_ROWS);
    for (size_t i = 0; i < n; i++) {
        int rc = -ENAMETOOLONG;
        bool ours = true;
        bool stays = bears(&rows[i], kept, n_kept) || hth_file_tier_is_pinned(tier, &rows[i].id.key) ||
                     (tier->is_needed && tier->is_needed(&rows[i], tier->user_data));

        if (stays)
            kept[n_kept++] = rows[i];
        /* A process that was stopped for long has lost the reservation, and the file may be another process's. */
        if (hth_index_reservation_is_ours(tier->index, &rows[i].id, &ours, NULL) == HEARTH_OK && !ours) {
            rc = -ENOENT;
        } else if (stays) {
            hth_file_tier_put_back(tier, &rows[i]);
            continue;
        } else if (hth_file_tier_path(tier, &rows[i].id, path, sizeof(path))) {
            rc = hth_file_tier_remove_file(tier, &rows[i].id, path);
        }
        if (rc == 0 || rc == -ENOENT) {
            gone[count.n_gone++] = rows[i].id;
        } else {
            count.n_failed++;
            rows[i].last_used_time = hth_os_unix_seconds();
            hth_file_tier_put_back(tier, &rows[i]);
        }
    }
    if (count.n_gone > 0) /* on failure we can still take the rows again */
        (void)hth_index_release(tier->index, gone, count.n_gone, NULL);
    return count;
}

/* The reasons to keep rows in one eviction. */
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
    hearth_status status;
    uint64_t n_evicted = 0;
    int n_idle_rounds = 0;
    size_t n;

    do {
        advocate speaker = { .tier = tier }; /* read each time: rows of a new pin were put back and now stay */

        n = 0;
        status = hth_file_tier_pins(tier, &speaker.pins, err);
        if (status == HEARTH_OK)
            status = hth_index_evict(tier->index, bytes_max, is_needed, &speaker, rows, EVICT_BATCH_ROWS, &n, err);
        hth_pins_deinit(&speaker.pins);
        hth_fs_step(tier->fs, "evicted from the index");
        if (status == HEARTH_OK && n > 0) {
            removed_count count = remove_evicted(tier, rows, n);

            n_evicted += count.n_gone;
            n_idle_rounds = count.n_gone > 0 ? 0 : n_idle_rounds + 1;
            if (count.n_failed > 0)
                status = hth_fail(err, HEARTH_IO, "%zu of %zu evicted rows in '%s' cannot be removed", count.n_failed,
                                  n, tier->rows);
            else if (n_idle_rounds == EVICT_IDLE_ROUNDS)
                status = hth_fail(err, HEARTH_IO,
                                  "no row can be evicted from '%s': pins in '%s' can be listed, but perhaps not looked "
                                  "up; check the folder's permissions and its device",
                                  tier->rows, tier->pins);
        }
    } while (n == EVICT_BATCH_ROWS && status == HEARTH_OK);
    atomic_fetch_add(&tier->n_rows_evicted, n_evicted);
    if (evicted_out)
        *evicted_out = n_evicted;
    return status;
}

/* bytes_max: hth_file_tier_rows_bytes_max */
static hearth_status over_quota(const hth_file_tier *tier, uint64_t bytes, uint64_t bytes_max, size_t n_bytes,
                                const char *why, hearth_error *err)
{
    return hth_fail(err, HEARTH_FULL,
                    "a row of %zu bytes does not fit the cache in '%s', which holds %" PRIu64 " of at most %" PRIu64
                    " bytes of rows%s",
                    n_bytes, tier->directory, bytes, bytes_max, why);
}

/* Is the row's parent in the index? Rows from token 0, and rows whose parent was never kept, have none. */
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
 * Evict for a new row until at most bytes_max are left; *n_evicted_out: the rows evicted. The rows that it stands on go
 * last, because without them the new row is useless.
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

    hth_file_tier_bring_notes(tier); /* uses that the index does not know yet count, too */
    if (stood)
        (void)hth_index_touch(tier->index, uses, sizeof(uses) / sizeof(uses[0]),
                              NULL); /* on failure the order is a guess */
    status = hth_file_tier_evict_to(tier, bytes_max, n_evicted_out, err);
    if (status == HEARTH_OK && stood && !has_parent(tier, meta))
        return hth_fail(err, HEARTH_FULL,
                        "a row of %" PRIu64 " bytes does not fit the cache in '%s': what it stands on had to go for it",
                        meta->bytes, tier->directory);
    return status;
}

/* ---- the quota ---- */

/*
 * The index counts for the quota beyond INDEX_FREE_BYTES, so that a small quota is one of rows, and with at most a
 * quarter of the quota, because its file never becomes smaller, and half may be pinned: a cache whose quota was lowered
 * would keep no row.
 */
uint64_t hth_file_tier_rows_bytes_max(const hth_file_tier *tier, const hth_index_totals *totals)
{
    uint64_t n_index = totals->index_bytes > INDEX_FREE_BYTES ? totals->index_bytes - INDEX_FREE_BYTES : 0;

    if (tier->bytes_max == UINT64_MAX)
        return UINT64_MAX;
    return tier->bytes_max - (n_index < tier->bytes_max / 4 ? n_index : tier->bytes_max / 4);
}

/* *is_there_out: the row is there and needs no room. */
static hearth_status make_room_in_quota(hth_file_tier *tier, const hth_row_meta *meta, size_t n_bytes,
                                        bool *is_there_out, hearth_error *err)
{
    hth_index_totals totals = { .rows = 0 };
    bool knows = hth_index_before_storing(tier->index, &meta->id, is_there_out, &totals, NULL) == HEARTH_OK;
    uint64_t bytes_max = hth_file_tier_rows_bytes_max(tier, &totals);
    hearth_status status;

    if (knows && *is_there_out)
        return HEARTH_OK;
    if (n_bytes > bytes_max)
        return over_quota(tier, atomic_load(&tier->bytes_known), bytes_max, n_bytes, "; raise the quota", err);
    if (!knows) {
        uint64_t known = atomic_load(&tier->bytes_known);

        return known > bytes_max - n_bytes
                 ? over_quota(tier, known, bytes_max, n_bytes, ", and its index is damaged", err)
                 : HEARTH_OK;
    }
    if (totals.bytes <= bytes_max - n_bytes)
        return HEARTH_OK;
    if (!totals.complete)
        return over_quota(tier, totals.bytes, bytes_max, n_bytes, ", and its index is still being made", err);
    /* Another writer, here or in another process, may take the room that was made, so try again. */
    for (int i = 0; i < EVICT_ATTEMPTS && totals.bytes > bytes_max - n_bytes; i++) {
        status = evict_for(tier, meta, bytes_max - n_bytes, NULL, err);
        if (status != HEARTH_OK)
            return status;
        if (hth_index_totals_get(tier->index, &totals, err) != HEARTH_OK)
            return HEARTH_IO;
    }
    atomic_store(&tier->bytes_known, totals.bytes);
    return totals.bytes <= bytes_max - n_bytes ? HEARTH_OK
                                               : over_quota(tier, totals.bytes, bytes_max, n_bytes, "", err);
}

/* ---- the device ---- */

/* Evict n_bytes; false when no row went. *status_out: whether the new row may still be written. */
static bool give_back(hth_file_tier *tier, const hth_row_meta *meta, uint64_t n_bytes, hearth_status *status_out,
                      hearth_error *err)
{
    hth_index_totals totals;
    uint64_t n_evicted = 0;

    if (tier->spares_rows || hth_index_totals_get(tier->index, &totals, NULL) != HEARTH_OK)
        return false; /* without an index the least used rows are unknown */
    *status_out = evict_for(tier, meta, totals.bytes > n_bytes ? totals.bytes - n_bytes : 0, &n_evicted, err);
    return n_evicted > 0;
}

/*
 * The bytes that the device lacks for a row and for free_min. If the row would not fit even without all our rows: only
 * the bytes that the device lacks for free_min, which others may have taken and get back.
 */
static uint64_t lacking(const hth_file_tier *tier, size_t n_bytes, uint64_t free_bytes)
{
    hth_index_totals totals = { .bytes = 0 };
    uint64_t wanted;

    if (__builtin_add_overflow(tier->free_min, n_bytes, &wanted))
        wanted = UINT64_MAX;
    (void)hth_index_totals_get(tier->index, &totals, NULL); /* without an index nothing can be evicted */
    if (free_bytes < wanted && totals.bytes < wanted - free_bytes)
        wanted = tier->free_min;
    return wanted > free_bytes ? wanted - free_bytes : 0;
}

/*
 * The tier's own rows go first. A row evicts the bytes that it lacks, and once more in case another writer took
 * them. It does not go on until the device reports room, because some devices report removed files much later.
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
    bool is_there = false;
    hearth_status status = make_room_in_quota(tier, meta, n_bytes, &is_there, err);

    return status == HEARTH_OK && !is_there ? make_room_on_device(tier, meta, n_bytes, err) : status;
}

bool hth_file_tier_make_room_again(hth_file_tier *tier, const hth_row_meta *meta, size_t n_bytes)
{
    hearth_status status = HEARTH_OK;

    return give_back(tier, meta, n_bytes, &status, NULL) && status == HEARTH_OK;
}
