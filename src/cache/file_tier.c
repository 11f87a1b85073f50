/*
 * file_tier.c - rows as files, with an index over them: directories, opening and closing, publishing
 *
 * publish.c publishes, scan.c scans all files, quarantine.c sets rows aside; file_tier_inside.h lists the other files
 * of the tier.
 *
 * Whoever changes the file of a row's name holds the row's reservation meanwhile. publish.c holds it from before it
 * writes. Eviction, removal and quarantine hold it from when they take the row out of the index until its file is gone
 * or counted again. So none of them meets a file that another process has just put there, and the totals match the
 * files.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/os.h"
#include "rows/directory.h"
#include "cache/file_tier_inside.h"

enum { FLUSH_AT = 4096 }; /* number of noted uses after which a busy writer writes them to the index */

/* ---- directories ---- */

static bool join(char *path, const char *directory, const char *name)
{
    int n = snprintf(path, HTH_FILE_TIER_PATH_BYTES, "%s/%s", directory, name);

    return n > 0 && n < HTH_FILE_TIER_PATH_BYTES;
}

static hearth_status cannot_write(const char *path, int errnum, hearth_error *err)
{
    return hth_fail_errno(err, errnum,
                          "cannot write to '%s'; choose another cache directory with --cache or "
                          "$HEARTH_CACHE",
                          path);
}

/* Make a new name in a directory durable, if the directory may be opened. */
static void sync_parent(const hth_fs *fs, const char *path)
{
    char parent[HTH_FILE_TIER_PATH_BYTES];
    char *slash;

    (void)snprintf(parent, sizeof(parent), "%s", path);
    slash = strrchr(parent, '/');
    if (slash == parent)
        slash[1] = '\0';
    else if (slash)
        *slash = '\0';
    (void)hth_fs_sync_directory(fs, slash ? parent
                                          : "."); /* on failure a crash may lose the directory: it was only a cache */
}

/* Make a directory and its parents. */
static hearth_status make_directories(const hth_fs *fs, const char *path, bool durable, hearth_error *err)
{
    char part[HTH_FILE_TIER_PATH_BYTES];
    int rc;

    (void)snprintf(part, sizeof(part), "%s", path);
    for (char *at = part + 1;; at++) {
        char end = *at;

        if (end != '/' && end != '\0')
            continue;
        *at = '\0';
        rc = hth_fs_make_directory(fs, part);
        if (rc == 0 && durable)
            sync_parent(fs, part);
        if (rc != 0 && rc != -EEXIST && end == '\0')
            return cannot_write(path, -rc, err); /* a missing directory above fails here, too */
        if (end == '\0')
            return HEARTH_OK;
        *at = end;
    }
}

static hearth_status make_part(hth_file_tier *tier, const char *directory, const char *name, char *path,
                               hearth_error *err)
{
    int rc;

    if (!join(path, directory, name))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", directory);
    rc = hth_fs_make_directory(tier->fs, path);
    if (rc != 0 && rc != -EEXIST)
        return cannot_write(path, -rc, err);
    return hth_directory_check(tier->fs, path, NULL, err);
}

static hearth_status make_root(const hth_fs *fs, const char *path, bool durable, hearth_error *err)
{
    hearth_status status = hth_directory_check_above(fs, path, err);

    if (status == HEARTH_OK)
        status = make_directories(fs, path, durable, err);
    return status == HEARTH_OK ? hth_directory_check(fs, path, NULL, err) : status;
}

static hearth_status make_parts(hth_file_tier *tier, hearth_error *err)
{
    hearth_status status = make_root(tier->fs, tier->directory, tier->durable, err);

    if (status == HEARTH_OK && strcmp(tier->index_directory, tier->directory) != 0)
        status = make_root(tier->fs, tier->index_directory, false, err);
    if (status == HEARTH_OK)
        status = make_part(tier, tier->directory, "rows", tier->rows, err);
    if (status == HEARTH_OK)
        status = make_part(tier, tier->index_directory, "owners", tier->owners, err);
    if (status == HEARTH_OK)
        status = make_part(tier, tier->directory, "temporary", tier->temporary, err);
    if (status == HEARTH_OK)
        status = make_part(tier, tier->directory, "quarantine", tier->quarantine, err);
    if (status == HEARTH_OK && !join(tier->pins, tier->directory, "pins")) /* the first pin makes it */
        status = hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", tier->directory);
    if (status == HEARTH_OK && tier->durable)
        (void)hth_fs_sync_directory(tier->fs, tier->directory); /* likewise */
    return status;
}

void hth_file_tier_restore_directories(hth_file_tier *tier)
{
    char index[HTH_FILE_TIER_PATH_BYTES];
    hth_fs_stat st;

    if (hth_fs_stat_path(tier->fs, tier->rows, &st) != -ENOENT &&
        hth_fs_stat_path(tier->fs, tier->temporary, &st) != -ENOENT)
        return;
    if (make_parts(tier, NULL) == HEARTH_OK &&
        make_part(tier, tier->index_directory, "index", index, NULL) == HEARTH_OK)
        hth_warn(tier->log, "the cache in '%s' was removed while it was in use; it begins anew", tier->directory);
}

/* ---- opening ---- */

static hearth_status open_index(hth_file_tier *tier, hearth_error *err)
{
    char path[HTH_FILE_TIER_PATH_BYTES];
    hth_index_options options = {
        .directory = path,
        .owners_directory = tier->owners,
        .fs = tier->fs,
        .log = tier->log,
    };
    hearth_status status = make_part(tier, tier->index_directory, "index", path, err);

    return status == HEARTH_OK ? hth_index_open(&options, &tier->index, NULL, err) : status;
}

static void take_noted_quota(hth_file_tier *tier)
{
    uint64_t quota = 0;

    if (hth_index_quota(tier->index, &quota, NULL) == HEARTH_OK && quota > 0)
        tier->bytes_max = quota;
}

static hearth_status open_files(hth_file_tier *tier, const hth_file_tier_options *options, hearth_error *err)
{
    hearth_status status;
    uint32_t number;
    int failed;

    status = make_parts(tier, err);
    if (status == HEARTH_OK)
        status = open_index(tier, err);
    if (status != HEARTH_OK)
        return status;
    if (options->with_noted_quota)
        take_noted_quota(tier);
    tier->publisher = (hth_publisher){
        .fs = tier->fs,
        .log = tier->log,
        .index = tier->index,
        .rows_directory = tier->rows,
        .temporary_directory = tier->temporary,
        .quarantine_directory = tier->quarantine,
        .durable = tier->durable,
    };
    /* Another tier of this process shares the token, so this tier's numbers start at a random point. */
    hth_os_random(&number, sizeof(number));
    atomic_store(&tier->publisher.n_temporaries, (uint64_t)number << 24);
    status = hth_publish_probe(tier->fs, tier->temporary, hth_index_owner_token(tier->index), options->publish_way,
                               &tier->publisher.way, err);
    if (status == HEARTH_OK)
        status = hth_publish_check_folders(&tier->publisher, err);
    if (status != HEARTH_OK)
        return status;

    pthread_mutex_lock(&tier->scan_lock);
    failed = hth_file_tier_start_scan_locked(tier, false);
    pthread_mutex_unlock(&tier->scan_lock);
    return failed ? hth_fail_errno(err, failed, "cannot start a thread for the cache in '%s'", tier->directory)
                  : HEARTH_OK;
}

/* In bytes, of this process. */
static uint64_t limit_of_files(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

hearth_status hth_file_tier_open(const hth_file_tier_options *options, hth_file_tier **out, hearth_error *err)
{
    hth_file_tier *tier = calloc(1, sizeof(*tier));
    hearth_error why = { .message = "" };
    hearth_status status;

    if (!tier)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the cache in '%s'", options->directory);
    pthread_mutex_init(&tier->notes_lock, NULL);
    pthread_mutex_init(&tier->scan_lock, NULL);
    pthread_cond_init(&tier->scan_ended, NULL);
    tier->fs = options->fs ? options->fs : hth_fs_system();
    tier->log = options->log;
    tier->bytes_max = options->bytes_max;
    tier->file_bytes_max = limit_of_files();
    tier->free_min = options->free_min;
    tier->spares_rows = options->spares_rows;
    tier->durable = options->durable;
    tier->is_needed = options->is_needed;
    tier->user_data = options->user_data;
    if (!*options->directory ||
        snprintf(tier->directory, HTH_FILE_TIER_PATH_BYTES, "%s", options->directory) >= HTH_FILE_TIER_PATH_BYTES) {
        status = hth_fail(err, HEARTH_MISUSE, "the cache directory '%.200s' is no usable path", options->directory);
        goto out;
    }
    if (snprintf(tier->index_directory, HTH_FILE_TIER_PATH_BYTES, "%s",
                 options->index_directory ? options->index_directory : tier->directory) >= HTH_FILE_TIER_PATH_BYTES) {
        status = hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", options->index_directory);
        goto out;
    }
    tier->is_shared_by_machines = strcmp(tier->index_directory, tier->directory) != 0;
    if (!hth_file_tier_notes_init(&tier->pending)) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the cache in '%s'", tier->directory);
        goto out;
    }
    status = open_files(tier, options, &why);
    if (status == HEARTH_PERMISSION && why.system_errno != 0 && !strstr(why.message, "--cache"))
        hth_fail_prefix(&why,
                        "the cache directory '%s' cannot be used; choose another one with --cache or "
                        "$HEARTH_CACHE",
                        tier->directory);
    if (status != HEARTH_OK) {
        if (err)
            *err = why;
        goto out;
    }
    *out = tier;
    return HEARTH_OK;
out:
    hth_file_tier_close(tier);
    return status;
}

void hth_file_tier_close(hth_file_tier *tier)
{
    bool scanner_exists;

    if (!tier)
        return;
    atomic_store(&tier->stop, true);
    pthread_mutex_lock(&tier->scan_lock);
    scanner_exists = tier->scanner_exists;
    pthread_mutex_unlock(&tier->scan_lock);
    if (scanner_exists)
        (void)pthread_join(tier->scanner, NULL); /* nobody else joins it: the tier is not in use any more */
    hth_index_forget_log(tier->index, tier->log);
    hth_index_close(tier->index);
    hth_file_tier_notes_deinit(&tier->pending);
    pthread_cond_destroy(&tier->scan_ended);
    pthread_mutex_destroy(&tier->scan_lock);
    pthread_mutex_destroy(&tier->notes_lock);
    free(tier);
}

/* ---- writing ---- */

hearth_status hth_file_tier_publish(hth_file_tier *tier, const hth_row_meta *meta, const uint8_t *bytes, size_t n_bytes,
                                    bool *published_out, hearth_error *err)
{
    hth_publish_result result = HTH_PUBLISH_EXISTED;
    hearth_error why = { .message = "" };
    hearth_status status;
    hth_row_meta written;
    bool is_known = false;

    if (hth_file_tier_has_notes(tier, FLUSH_AT))
        hth_file_tier_bring_notes(tier);
    if (n_bytes > tier->file_bytes_max) /* no row is evicted for one that cannot be written */
        return hth_fail_errno(err, EFBIG, "a row of %zu bytes is not written to '%s'", n_bytes, tier->directory);
    status = hth_file_tier_make_room(tier, meta, n_bytes, &why);
    if (status != HEARTH_OK) {
        if (err)
            *err = why;
        return status;
    }
    status = hth_publish(&tier->publisher, meta, bytes, n_bytes, &result, &is_known, err);
    if (status == HEARTH_FULL && hth_file_tier_make_room_again(tier, meta, n_bytes))
        status = hth_publish(&tier->publisher, meta, bytes, n_bytes, &result, &is_known, err);
    /*
     * If the index could not be updated, note the row for later, so that its totals match the files. Publishing fails
     * when the row's name cannot be made durable, but the row is there.
     */
    if (!is_known && (status != HEARTH_OK || result != HTH_PUBLISH_TAKEN) &&
        (hth_index_get(tier->index, &meta->id, NULL, &is_known, NULL) != HEARTH_OK || !is_known))
        (void)hth_file_tier_find_file(tier, &meta->id, &written);
    if (status != HEARTH_OK)
        return status;
    switch (result) {
    case HTH_PUBLISH_WRITTEN:
    case HTH_PUBLISH_REPLACED:
        atomic_fetch_add(&tier->n_rows_written, 1);
        atomic_fetch_add(&tier->n_bytes_written, n_bytes);
        atomic_fetch_add(&tier->bytes_known, n_bytes);
        break;
    case HTH_PUBLISH_ADOPTED: atomic_fetch_add(&tier->n_rows_adopted, 1); break;
    case HTH_PUBLISH_EXISTED:
    case HTH_PUBLISH_TAKEN: break;
    }
    if (published_out)
        *published_out = result == HTH_PUBLISH_WRITTEN || result == HTH_PUBLISH_REPLACED;
    return HEARTH_OK;
}

/* ---- watching ---- */

hth_index *hth_file_tier_index(hth_file_tier *tier)
{
    return tier->index;
}

const hth_fs *hth_file_tier_fs(const hth_file_tier *tier)
{
    return tier->fs;
}

hth_row_files hth_file_tier_files(const hth_file_tier *tier)
{
    return (hth_row_files){ .fs = tier->fs, .rows_directory = tier->rows };
}

const char *hth_file_tier_rows_directory(const hth_file_tier *tier)
{
    return tier->rows;
}

const char *hth_file_tier_quarantine_directory(const hth_file_tier *tier)
{
    return tier->quarantine;
}

uint64_t hth_file_tier_bytes_max(const hth_file_tier *tier)
{
    return tier->bytes_max;
}

void hth_file_tier_counts_get(const hth_file_tier *tier, hth_file_tier_counts *out)
{
    *out = (hth_file_tier_counts){
        .rows_written = atomic_load(&tier->n_rows_written),
        .bytes_written = atomic_load(&tier->n_bytes_written),
        .rows_evicted = atomic_load(&tier->n_rows_evicted),
        .rows_quarantined = atomic_load(&tier->n_rows_quarantined),
        .rows_adopted = atomic_load(&tier->n_rows_adopted),
    };
}
