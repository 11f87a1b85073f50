/*
 * scan.c - walks the files of a tier: after a crash, and to fill the index
 *
 * Both walks only add complete rows, so they may run while this process and others publish, read and remove rows. The
 * transaction that adopts a row checks again that its file exists. A process that removes a file reserves its row
 * first, so no entry stays behind.
 */
#include "cache/scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/os.h"

enum {
    PATH_BYTES = 4096,
    BATCH_ROWS = 256, /* rows of one transaction */
    TOKEN_DIGITS = 16,
    FOLDERS = 256,
};

static bool is_stopped(const hth_scan *scan)
{
    return atomic_load(scan->stop);
}

/* ---- after a crash ---- */

/* The token of the owner, from the beginning of the name of a temporary file; 0 for other names. */
static uint64_t temporary_owner(const char *name)
{
    if (strlen(name) < TOKEN_DIGITS + 2 || strspn(name, "0123456789abcdef") != TOKEN_DIGITS ||
        name[TOKEN_DIGITS] != '-')
        return 0;
    return strtoull(name, NULL, 16);
}

static bool remove_temporary(const char *name, void *user_data)
{
    const hth_scan *scan = user_data;
    uint64_t owner = temporary_owner(name);
    char path[PATH_BYTES];
    hth_fs_stat st;

    if (is_stopped(scan))
        return false;
    if (owner == 0 || hth_index_owner_lives(scan->index, owner))
        return true; /* not ours, or still being written */
    if (snprintf(path, sizeof(path), "%s/%s", scan->temporary_directory, name) >= (int)sizeof(path))
        return true;
    if (scan->foreign_s > 0 &&
        (hth_fs_stat_path(scan->rows.fs, path, &st) != 0 || st.mtime + scan->foreign_s > hth_os_unix_seconds()))
        return true;                          /* its owner may live on another machine */
    (void)hth_fs_remove(scan->rows.fs, path); /* a remaining file is found again at the next start */
    return true;
}

/* Which of these rows have files, into found[n]? Their owners may have died before they made the names durable. */
static size_t read_heads(const hth_scan *scan, const hth_row_id *ids, size_t n, hth_row_head *found)
{
    char path[PATH_BYTES], folder[PATH_BYTES];
    size_t n_found = 0;

    for (size_t i = 0; i < n; i++) {
        if (!hth_row_file_path(scan->rows.rows_directory, &ids[i], path, sizeof(path)) ||
            hth_row_file_head(scan->rows.fs, path, &ids[i], &found[n_found], NULL) != HEARTH_OK)
            continue;
        if (scan->durable && hth_row_file_folder(scan->rows.rows_directory, &ids[i], folder, sizeof(folder)))
            (void)hth_fs_sync_directory(scan->rows.fs, folder); /* a failure costs at most the row */
        n_found++;
    }
    return n_found;
}

/* Adopt the rows that a dead owner linked, and drop its reservations in any case. */
static bool recover_rows(hth_scan *scan, const hth_row_id *ids, size_t n)
{
    hth_row_head *found = malloc(n * sizeof(*found));
    size_t n_adopted = 0, n_found;
    bool adopted;

    if (!found)
        return false; /* the next start tries again */
    n_found = read_heads(scan, ids, n, found);
    adopted = n_found == 0 || hth_index_adopt(scan->index, found, n_found, hth_row_file_is_there, &scan->rows,
                                              &n_adopted, NULL) == HEARTH_OK;
    free(found);
    scan->n_adopted += n_adopted;
    return adopted && hth_index_release_dead(scan->index, ids, n, NULL) == HEARTH_OK;
}

void hth_scan_recover(hth_scan *scan)
{
    hth_row_id ids[BATCH_ROWS];
    size_t n = BATCH_ROWS;

    (void)hth_fs_list(scan->rows.fs, scan->temporary_directory, remove_temporary, scan); /* likewise */
    while (n == BATCH_ROWS && !is_stopped(scan)) {
        if (hth_index_orphans(scan->index, ids, BATCH_ROWS, &n, NULL) != HEARTH_OK || n == 0 ||
            !recover_rows(scan, ids, n))
            return;
    }
}

/* ---- filling the index ---- */

typedef struct rebuild {
    hth_scan *scan;
    const char *folder; /* its name, two digits */
    hth_row_head batch[BATCH_ROWS];
    size_t n_batch;
    uint64_t n_rows;
    unsigned n_folders;
    uint64_t n_foreign;
    char first_foreign[PATH_BYTES];
    bool failed;
    bool is_cancelled;
} rebuild;

static void flush_batch(rebuild *r)
{
    size_t n_adopted = 0;

    /* Without an index the scan still runs to the end, because the caller needs the sum of the sizes. */
    if (r->n_batch > 0 && hth_index_adopt(r->scan->index, r->batch, r->n_batch, hth_row_file_is_there, &r->scan->rows,
                                          &n_adopted, NULL) != HEARTH_OK)
        r->failed = true;
    r->scan->n_adopted += n_adopted;
    r->n_batch = 0;
}

/* Keys are spread evenly, so the folders so far give an estimate of the total. False: end the scan. */
static bool tell_progress(rebuild *r)
{
    unsigned n_behind = r->n_folders > 0 ? r->n_folders : 1;

    if (!r->scan->progress || r->scan->progress(r->n_rows, r->n_rows * FOLDERS / n_behind, r->scan->user_data))
        return true;
    r->failed = true;
    r->is_cancelled = true;
    return false;
}

static void note_foreign(rebuild *r, const char *path)
{
    if (r->n_foreign++ == 0)
        (void)snprintf(r->first_foreign, sizeof(r->first_foreign), "%s", path);
}

/* A damaged file would use space outside any quota, and would never be found. */
static bool is_taken_away(const rebuild *r, const hth_row_id *id, hearth_status status)
{
    return status == HEARTH_CORRUPT && r->scan->damaged && r->scan->damaged(id, r->scan->damaged_user_data);
}

static bool rebuild_file(const char *name, void *user_data)
{
    rebuild *r = user_data;
    char path[PATH_BYTES];
    hearth_status status;
    hth_row_id id;

    if (is_stopped(r->scan))
        return false;
    if (snprintf(path, sizeof(path), "%s/%s/%s", r->scan->rows.rows_directory, r->folder, name) >= (int)sizeof(path))
        return true;
    if (!hth_row_file_parse_name(name, &id) || strncmp(name, r->folder, 2) != 0) {
        note_foreign(r, path);
        return true;
    }
    status = hth_row_file_head(r->scan->rows.fs, path, &id, &r->batch[r->n_batch], NULL);
    if (status == HEARTH_OK) {
        r->scan->bytes += r->batch[r->n_batch].meta.bytes;
        r->n_rows++;
        if (++r->n_batch == BATCH_ROWS) {
            flush_batch(r);
            return tell_progress(r);
        }
    } else if (status != HEARTH_NOT_FOUND && !is_taken_away(r, &id, status)) { /* not removed before or by this call */
        note_foreign(r, path);
    }
    return true;
}

static bool rebuild_folder(const char *name, void *user_data)
{
    rebuild *r = user_data;
    char path[PATH_BYTES];
    int rc;

    if (is_stopped(r->scan) || r->is_cancelled)
        return false;
    if (snprintf(path, sizeof(path), "%s/%s", r->scan->rows.rows_directory, name) >= (int)sizeof(path))
        return true;
    if (!hth_is_hex(name, 2)) {
        note_foreign(r, path);
        return true;
    }
    r->folder = name;
    r->n_folders++;
    if (r->scan->durable)
        (void)hth_fs_sync_directory(r->scan->rows.fs, path); /* its process may have died before this sync */
    rc = hth_fs_list(r->scan->rows.fs, path, rebuild_file, r);
    if (rc == -ENOTDIR)
        note_foreign(r, path);
    else if (rc != 0 && rc != -ENOENT)
        r->failed = true;
    return true;
}

bool hth_scan_rebuild(hth_scan *scan)
{
    rebuild *r = calloc(1, sizeof(*r));
    bool complete;

    if (!r)
        return false; /* no memory now; the next start tries again */
    r->scan = scan;
    scan->bytes = 0;
    if (hth_fs_list(scan->rows.fs, scan->rows.rows_directory, rebuild_folder, r) != 0)
        r->failed = true;
    flush_batch(r);
    if (r->n_rows > 0 && !r->is_cancelled) {
        r->n_folders = FOLDERS; /* all folders are done */
        (void)tell_progress(r);
    }
    if (r->n_foreign > 0)
        hth_warn(scan->log, "%llu files in '%s' are no rows and are left alone, such as '%s'; they may be removed",
                 (unsigned long long)r->n_foreign, scan->rows.rows_directory, r->first_foreign);
    complete = !r->failed && !is_stopped(scan);
    free(r);
    return complete;
}
