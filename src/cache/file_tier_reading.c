/*
 * file_tier_reading.c - finds rows by the index or by their names, and reads them
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/os.h"
#include "cache/file_tier_inside.h"

/* ---- lookups ---- */

bool hth_file_tier_path(const hth_file_tier *tier, const hth_row_id *id, char *path, size_t capacity)
{
    return hth_row_file_path(tier->rows, id, path, capacity);
}

bool hth_file_tier_find_file(hth_file_tier *tier, const hth_row_id *id, hth_row_meta *out)
{
    char path[HTH_FILE_TIER_PATH_BYTES];

    if (!hth_file_tier_path(tier, id, path, sizeof(path)) ||
        hth_row_file_meta(tier->fs, path, id, out, NULL) != HEARTH_OK)
        return false;
    hth_file_tier_note_found(tier, id);
    return true;
}

bool hth_file_tier_has(hth_file_tier *tier, const hth_row_id *id, hth_row_meta *out)
{
    hth_row_meta meta;
    bool found = false;

    if ((hth_index_get(tier->index, id, &meta, &found, NULL) != HEARTH_OK || !found) &&
        !hth_file_tier_find_file(tier, id, &meta))
        return false;
    if (out)
        *out = meta;
    return true;
}

/* Does the index know every row with a file? Not the rows of other machines, and not during a scan of the files. */
static bool knows_all(hth_file_tier *tier, bool is_complete)
{
    return is_complete && !tier->is_shared_by_machines && !atomic_load(&tier->is_scanning);
}

bool hth_file_tier_look(hth_file_tier *tier, const hth_row_id *id, hth_row_meta *out, unsigned *n_names)
{
    bool found = false, is_complete = false;

    if (hth_index_look(tier->index, id, out, &found, &is_complete, NULL) == HEARTH_OK && found)
        return true;
    if (knows_all(tier, is_complete) || *n_names == 0) {
        hth_file_tier_note_missed(tier, id);
        return false;
    }
    if (hth_file_tier_find_file(tier, id, out))
        return true;
    (*n_names)--;
    return false;
}

size_t hth_file_tier_has_many(hth_file_tier *tier, const hth_row_id *ids, size_t n, hth_row_meta *out, bool *found)
{
    bool answered = hth_index_get_many(tier->index, ids, n, out, found, NULL) == HEARTH_OK;
    size_t n_found = 0;

    for (size_t i = 0; i < n; i++) {
        if (!answered || !found[i])
            found[i] = hth_file_tier_find_file(tier, &ids[i], &out[i]);
        n_found += found[i];
    }
    return n_found;
}

bool hth_file_tier_wait(hth_file_tier *tier, const hth_row_id *id, uint32_t timeout_ms)
{
    switch (hth_index_wait(tier->index, id, timeout_ms)) {
    case HTH_WAIT_THERE: return true;
    case HTH_WAIT_NOBODY: return hth_file_tier_has(tier, id, NULL);
    case HTH_WAIT_TIMEOUT: break;
    }
    return false;
}

void hth_file_tier_find_leaf(hth_file_tier *tier, hth_leaf_search *search)
{
    (void)hth_index_find_leaf(tier->index, search, NULL); /* a failing index finds nothing */
}

size_t hth_file_tier_tokens(hth_file_tier *tier, const hth_row_id *id, hearth_token *out, size_t capacity)
{
    return hth_index_tokens(tier->index, id, out, capacity);
}

size_t hth_file_tier_children(hth_file_tier *tier, const hth_key *parent, hth_row_meta *out, size_t capacity)
{
    size_t n = 0;

    return hth_index_children(tier->index, parent, out, capacity, &n, NULL) == HEARTH_OK ? n : 0;
}

/* ---- reads ---- */

/* Open a row's file; note a file that is gone. */
static hearth_status open_row(hth_file_tier *tier, const hth_row_id *id, int *fd_out, hth_fs_stat *stat_out,
                              char path[HTH_FILE_TIER_PATH_BYTES], hearth_error *err)
{
    hearth_status status;

    if (!hth_file_tier_path(tier, id, path, HTH_FILE_TIER_PATH_BYTES))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", tier->directory);
    status = hth_row_file_open(tier->fs, path, fd_out, stat_out, err);
    if (status == HEARTH_NOT_FOUND)
        hth_file_tier_note_lost(tier, id);
    return status;
}

hearth_status hth_file_tier_open_file(hth_file_tier *tier, const hth_row_id *id, int *fd_out, size_t *n_bytes_out,
                                      hearth_error *err)
{
    char path[HTH_FILE_TIER_PATH_BYTES];
    hth_fs_stat st = { .bytes = 0 };
    hearth_status status = open_row(tier, id, fd_out, &st, path, err);

    if (status == HEARTH_OK) {
        hth_file_tier_note_seen(tier, id, &st);
        *n_bytes_out = (size_t)st.bytes;
    }
    return status;
}

hearth_status hth_file_tier_read(hth_file_tier *tier, const hth_row_id *id, hth_file_tier_buffer_fn buffer,
                                 void *user_data, size_t *n_out, hearth_error *err)
{
    char path[HTH_FILE_TIER_PATH_BYTES];
    hearth_status status;
    hth_fs_stat st = { .bytes = 0 };
    uint8_t *bytes;
    size_t n = 0;
    int fd = -1, rc;

    status = open_row(tier, id, &fd, &st, path, err);
    if (status != HEARTH_OK)
        return status;
    bytes = buffer((size_t)st.bytes, user_data);
    if (!bytes) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the %" PRIu64 " bytes of the row '%s'", st.bytes, path);
        goto out;
    }
    rc = hth_fs_read_full(tier->fs, fd, bytes, (size_t)st.bytes, 0, &n);
    if (rc != 0)
        status = hth_fail_errno(err, -rc, "cannot read the row '%s'", path);
    else if (n < st.bytes)
        status = hth_fail(err, HEARTH_CORRUPT, "the row '%s' became shorter while it was read", path);
    else
        *n_out = n;
    hth_file_tier_note_seen(tier, id, &st);
out:
    hth_fs_close(tier->fs, fd);
    return status;
}
