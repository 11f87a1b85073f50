/*
 * file_tier.c - rows as files, with an index over them
 *
 * Publishing is in publish.c, going through all files in scan.c, setting aside in quarantine.c. Here is the rest: the
 * directories, lookups and reads, quota and eviction, and what readers noticed and a writer thread brings to the index.
 *
 * Readers never write to the index. They note a use, a row that was found by its name only, or one that the index knows
 * and whose file is gone; the notes are bounded, and losing one costs a little order or another look at a file.
 *
 * One thread of the tier goes through files: at the start, and again when the index had to be replaced.
 */
#include "cache/file_tier.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "cache/publish.h"
#include "cache/quarantine.h"
#include "cache/row_file.h"
#include "cache/scan.h"

enum {
    PATH_BYTES = 4096,
    USES_MAX = 16384,
    FOUND_MAX = 1024,
    LOST_MAX = 1024,
    FLUSH_AT = 4096, /* uses noted before a busy writer brings them to the index */
    EVICT_BATCH_ROWS = 64,
    EVICT_ATTEMPTS = 8,
};

/* What readers noticed. */
typedef struct notes {
    hth_index_use *uses; /* [USES_MAX] */
    size_t n_uses;
    hth_row_meta *found; /* [FOUND_MAX], rows that the index did not know */
    size_t n_found;
    hth_row_id *lost; /* [LOST_MAX], rows whose file is gone */
    size_t n_lost;
} notes;

struct hth_file_tier {
    /* Fixed after opening. */
    const hth_fs *fs;
    const hth_log *log;
    uint64_t bytes_max;
    uint64_t free_min;
    char directory[PATH_BYTES];
    char rows[PATH_BYTES];
    char owners[PATH_BYTES];
    char temporary[PATH_BYTES];
    char quarantine[PATH_BYTES];
    hth_index *index;
    hth_publisher publisher;

    /* Guards pending. Innermost lock. */
    pthread_mutex_t notes_lock;
    notes pending;

    /* Guards the fields below, and the claim and the end of a rebuild. The scan itself runs without it. */
    pthread_mutex_t scan_lock;
    pthread_cond_t scan_ended;
    pthread_t scanner;
    bool scanner_exists;  /* started and not joined yet */
    bool scanner_is_busy; /* started and not at its end yet */
    bool rebuild_wanted;
    _Atomic bool stop;

    _Atomic uint64_t bytes_known; /* in rows, when the index was last asked; for when it cannot be */
    _Atomic uint64_t n_rows_written;
    _Atomic uint64_t n_bytes_written;
    _Atomic uint64_t n_rows_evicted;
    _Atomic uint64_t n_rows_quarantined;
    _Atomic uint64_t n_rows_adopted;
};

/* ---- directories ---- */

static bool join(char *path, const char *directory, const char *name)
{
    int n = snprintf(path, PATH_BYTES, "%s/%s", directory, name);

    return n > 0 && n < PATH_BYTES;
}

static hearth_status cannot_write(const char *path, int errnum, hearth_error *err)
{
    return hth_fail_errno(err, errnum,
                          "cannot write to '%s'; choose another cache directory with --cache or "
                          "$HEARTH_CACHE",
                          path);
}

/* Make the name of something in a directory durable, as far as the directory may be opened at all. */
static void sync_parent(const hth_fs *fs, const char *path)
{
    char parent[PATH_BYTES];
    char *slash;

    (void)snprintf(parent, sizeof(parent), "%s", path);
    slash = strrchr(parent, '/');
    if (slash == parent)
        slash[1] = '\0';
    else if (slash)
        *slash = '\0';
    (void)hth_fs_sync_directory(fs, slash ? parent : "."); /* lost with its directory, it was only a cache */
}

/* Make a directory and those above it. */
static hearth_status make_directories(const hth_fs *fs, const char *path, bool durable, hearth_error *err)
{
    char part[PATH_BYTES];
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
            return cannot_write(path, -rc, err); /* one above that cannot be made shows here, too */
        if (end == '\0')
            return HEARTH_OK;
        *at = end;
    }
}

static hearth_status check_directory(const hth_fs *fs, const char *path, hearth_error *err)
{
    hth_fs_stat st;
    int rc = hth_fs_stat_path(fs, path, &st);

    if (rc != 0)
        return hth_fail_errno(err, -rc, "cannot look at the cache directory '%s'", path);
    if (!st.is_directory)
        return hth_fail(err, HEARTH_PERMISSION, "'%s' is no directory; choose one with --cache or $HEARTH_CACHE", path);
    if (st.uid != (uint32_t)geteuid())
        return hth_fail(err, HEARTH_PERMISSION,
                        "the cache directory '%s' belongs to another user (uid %" PRIu32
                        "), who could put rows into it; choose one of your own with --cache or $HEARTH_CACHE",
                        path, st.uid);
    if (st.permissions & 022)
        return hth_fail(err, HEARTH_PERMISSION,
                        "others can write to the cache directory '%s' (mode %04" PRIo32
                        "); forbid it with: chmod go-w '%s'",
                        path, st.permissions, path);
    return HEARTH_OK;
}

static hearth_status make_part(hth_file_tier *tier, const char *name, char *path, hearth_error *err)
{
    int rc;

    if (!join(path, tier->directory, name))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", tier->directory);
    rc = hth_fs_make_directory(tier->fs, path);
    if (rc != 0 && rc != -EEXIST)
        return cannot_write(path, -rc, err);
    return check_directory(tier->fs, path, err);
}

static hearth_status make_parts(hth_file_tier *tier, bool durable, hearth_error *err)
{
    hearth_status status = make_directories(tier->fs, tier->directory, durable, err);

    if (status == HEARTH_OK)
        status = check_directory(tier->fs, tier->directory, err);
    if (status == HEARTH_OK)
        status = make_part(tier, "rows", tier->rows, err);
    if (status == HEARTH_OK)
        status = make_part(tier, "owners", tier->owners, err);
    if (status == HEARTH_OK)
        status = make_part(tier, "temporary", tier->temporary, err);
    if (status == HEARTH_OK)
        status = make_part(tier, "quarantine", tier->quarantine, err);
    if (status == HEARTH_OK && durable)
        (void)hth_fs_sync_directory(tier->fs, tier->directory); /* likewise */
    return status;
}

/* ---- the thread that goes through files ---- */

static void scan_once(hth_file_tier *tier, bool rebuild)
{
    hth_scan scan = {
        .fs = tier->fs,
        .log = tier->log,
        .index = tier->index,
        .rows_directory = tier->rows,
        .temporary_directory = tier->temporary,
        .stop = &tier->stop,
    };
    hth_index_totals totals;
    bool complete = false;

    hth_scan_recover(&scan);
    if (!rebuild && hth_index_totals_get(tier->index, &totals, NULL) == HEARTH_OK) {
        atomic_store(&tier->bytes_known, totals.bytes);
    } else { /* where there is no index, the sum of the sizes holds the quota */
        complete = hth_scan_rebuild(&scan) && rebuild;
        atomic_store(&tier->bytes_known, scan.bytes);
    }
    if (tier->bytes_max != UINT64_MAX) {
        uint64_t quota = 0;

        if (hth_index_quota(tier->index, &quota, NULL) == HEARTH_OK && quota != tier->bytes_max)
            (void)hth_index_set_quota(tier->index, tier->bytes_max, NULL); /* only shown to people */
    }
    atomic_fetch_add(&tier->n_rows_adopted, scan.n_adopted);

    pthread_mutex_lock(&tier->scan_lock);
    if (complete && !tier->rebuild_wanted)          /* another index took the place of the one that was filled */
        (void)hth_index_rebuilt(tier->index, NULL); /* if not, the next start fills it once more */
    else if (rebuild && !complete)
        hth_index_rebuild_failed(tier->index);
    pthread_mutex_unlock(&tier->scan_lock);
}

static void *scan_files(void *context)
{
    hth_file_tier *tier = context;

    hth_os_thread_name("hearth-scan");
    pthread_mutex_lock(&tier->scan_lock);
    do {
        bool rebuild = tier->rebuild_wanted;

        tier->rebuild_wanted = false;
        pthread_mutex_unlock(&tier->scan_lock);
        scan_once(tier, rebuild);
        pthread_mutex_lock(&tier->scan_lock);
    } while (tier->rebuild_wanted && !atomic_load(&tier->stop));
    tier->scanner_is_busy = false;
    pthread_cond_broadcast(&tier->scan_ended);
    pthread_mutex_unlock(&tier->scan_lock);
    return NULL;
}

/* Have the files gone through, by the thread that is at it or a new one. 0 or an errno. */
static int start_scan_locked(hth_file_tier *tier, bool rebuild)
{
    int failed;

    tier->rebuild_wanted = tier->rebuild_wanted || rebuild;
    if (tier->scanner_is_busy)
        return 0;
    if (tier->scanner_exists)
        (void)pthread_join(tier->scanner, NULL); /* it let go of the lock for the last time: no wait */
    tier->scanner_is_busy = true;
    failed = pthread_create(&tier->scanner, NULL, scan_files, tier);
    tier->scanner_exists = failed == 0;
    tier->scanner_is_busy = failed == 0;
    return failed;
}

void hth_file_tier_settle(hth_file_tier *tier)
{
    pthread_mutex_lock(&tier->scan_lock);
    while (tier->scanner_is_busy)
        pthread_cond_wait(&tier->scan_ended, &tier->scan_lock);
    pthread_mutex_unlock(&tier->scan_lock);
}

/* ---- opening ---- */

static hearth_status open_index(hth_file_tier *tier, bool *rebuild_out, hearth_error *err)
{
    char path[PATH_BYTES];
    hth_index_options options = {
        .directory = path,
        .owners_directory = tier->owners,
        .fs = tier->fs,
        .log = tier->log,
    };
    hearth_status status = make_part(tier, "index", path, err);

    return status == HEARTH_OK ? hth_index_open(&options, &tier->index, rebuild_out, err) : status;
}

static bool notes_init(notes *n)
{
    n->uses = malloc(USES_MAX * sizeof(*n->uses));
    n->found = malloc(FOUND_MAX * sizeof(*n->found));
    n->lost = malloc(LOST_MAX * sizeof(*n->lost));
    return n->uses && n->found && n->lost;
}

static void notes_deinit(notes *n)
{
    free(n->uses);
    free(n->found);
    free(n->lost);
    *n = (notes){ .uses = NULL };
}

static hearth_status open_files(hth_file_tier *tier, const hth_file_tier_options *options, hearth_error *err)
{
    bool rebuild = false;
    hearth_status status;
    uint32_t number;
    int failed;

    status = make_parts(tier, options->durable, err);
    if (status == HEARTH_OK)
        status = open_index(tier, &rebuild, err);
    if (status != HEARTH_OK)
        return status;
    tier->publisher = (hth_publisher){
        .fs = tier->fs,
        .log = tier->log,
        .index = tier->index,
        .rows_directory = tier->rows,
        .temporary_directory = tier->temporary,
        .durable = options->durable,
    };
    /* Numbers go on where another tier of this process, which shares its token, cannot be. */
    hth_os_random(&number, sizeof(number));
    atomic_store(&tier->publisher.n_temporaries, (uint64_t)number << 24);
    status =
        hth_publish_probe(tier->fs, tier->temporary, hth_index_owner_token(tier->index), &tier->publisher.way, err);
    if (status != HEARTH_OK)
        return status;
    hth_publish_sync_folders(&tier->publisher);

    pthread_mutex_lock(&tier->scan_lock);
    failed = start_scan_locked(tier, rebuild);
    pthread_mutex_unlock(&tier->scan_lock);
    return failed ? hth_fail_errno(err, failed, "cannot start a thread for the cache in '%s'", tier->directory)
                  : HEARTH_OK;
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
    tier->free_min = options->free_min;
    if (!*options->directory || snprintf(tier->directory, PATH_BYTES, "%s", options->directory) >= PATH_BYTES) {
        status = hth_fail(err, HEARTH_MISUSE, "the cache directory '%.200s' is no usable path", options->directory);
        goto out;
    }
    if (!notes_init(&tier->pending)) {
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
        (void)pthread_join(tier->scanner, NULL); /* nobody else joins: the tier is not in use any more */
    hth_index_close(tier->index);
    notes_deinit(&tier->pending);
    pthread_cond_destroy(&tier->scan_ended);
    pthread_mutex_destroy(&tier->scan_lock);
    pthread_mutex_destroy(&tier->notes_lock);
    free(tier);
}

/* ---- lookups ---- */

bool hth_file_tier_path(const hth_file_tier *tier, const hth_row_id *id, char *path, size_t capacity)
{
    return hth_row_file_path(tier->rows, id, path, capacity);
}

static void note_found(hth_file_tier *tier, const hth_row_meta *meta)
{
    pthread_mutex_lock(&tier->notes_lock);
    if (tier->pending.n_found < FOUND_MAX)
        tier->pending.found[tier->pending.n_found++] = *meta;
    pthread_mutex_unlock(&tier->notes_lock);
}

static void note_lost(hth_file_tier *tier, const hth_row_id *id)
{
    pthread_mutex_lock(&tier->notes_lock);
    if (tier->pending.n_lost < LOST_MAX)
        tier->pending.lost[tier->pending.n_lost++] = *id;
    pthread_mutex_unlock(&tier->notes_lock);
}

bool hth_file_tier_has(hth_file_tier *tier, const hth_row_id *id, hth_row_meta *out)
{
    char path[PATH_BYTES];
    hth_row_meta meta;
    bool found = false;

    if (hth_index_get(tier->index, id, &meta, &found, NULL) != HEARTH_OK || !found) {
        if (!hth_file_tier_path(tier, id, path, sizeof(path)) ||
            hth_row_file_meta(tier->fs, path, id, &meta, NULL) != HEARTH_OK)
            return false;
        note_found(tier, &meta);
    }
    if (out)
        *out = meta;
    return true;
}

size_t hth_file_tier_children(hth_file_tier *tier, const hth_key *parent, hth_row_meta *out, size_t capacity)
{
    size_t n = 0;

    return hth_index_children(tier->index, parent, out, capacity, &n, NULL) == HEARTH_OK ? n : 0;
}

/* ---- reads ---- */

/* Open a row's file; a file that is gone is noted. */
static hearth_status open_row(hth_file_tier *tier, const hth_row_id *id, int *fd_out, hth_fs_stat *stat_out,
                              char path[PATH_BYTES], hearth_error *err)
{
    hearth_status status;

    if (!hth_file_tier_path(tier, id, path, PATH_BYTES))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", tier->directory);
    status = hth_row_file_open(tier->fs, path, fd_out, stat_out, err);
    if (status == HEARTH_NOT_FOUND)
        note_lost(tier, id);
    return status;
}

hearth_status hth_file_tier_open_file(hth_file_tier *tier, const hth_row_id *id, int *fd_out, size_t *n_bytes_out,
                                      hearth_error *err)
{
    char path[PATH_BYTES];
    hth_fs_stat st = { .bytes = 0 };
    hearth_status status = open_row(tier, id, fd_out, &st, path, err);

    if (status == HEARTH_OK)
        *n_bytes_out = (size_t)st.bytes;
    return status;
}

hearth_status hth_file_tier_read(hth_file_tier *tier, const hth_row_id *id, hth_file_tier_buffer_fn buffer,
                                 void *user_data, size_t *n_out, hearth_error *err)
{
    char path[PATH_BYTES];
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
out:
    hth_fs_close(tier->fs, fd);
    return status;
}

hearth_status hth_file_tier_read_head(hth_file_tier *tier, const hth_row_id *id, uint8_t *bytes, size_t capacity,
                                      size_t *n_out, uint64_t *file_bytes_out, hearth_error *err)
{
    char path[PATH_BYTES];
    hearth_status status;
    hth_fs_stat st = { .bytes = 0 };
    size_t n = 0;
    int fd = -1, rc;

    status = open_row(tier, id, &fd, &st, path, err);
    if (status != HEARTH_OK)
        return status;
    rc = hth_fs_read_full(tier->fs, fd, bytes, capacity < st.bytes ? capacity : (size_t)st.bytes, 0, &n);
    hth_fs_close(tier->fs, fd);
    if (rc != 0)
        return hth_fail_errno(err, -rc, "cannot read the row '%s'", path);
    *n_out = n;
    *file_bytes_out = st.bytes;
    return HEARTH_OK;
}

void hth_file_tier_touch(hth_file_tier *tier, const hth_row_id *ids, size_t n)
{
    uint64_t now = hth_os_unix_seconds();
    notes *pending = &tier->pending;

    pthread_mutex_lock(&tier->notes_lock);
    for (size_t i = 0; i < n && pending->n_uses < USES_MAX; i++)
        pending->uses[pending->n_uses++] = (hth_index_use){ .id = ids[i], .last_used_time = now, .hits = 1 };
    pthread_mutex_unlock(&tier->notes_lock);
}

/* ---- bringing notes to the index ---- */

static int compare_uses(const void *a, const void *b)
{
    const hth_index_use *left = a, *right = b;
    int order = memcmp(left->id.key.bytes, right->id.key.bytes, HTH_KEY_BYTES);

    return order ? order : (int)left->id.kind - (int)right->id.kind;
}

/* Make one use of all uses of a row; the new count. */
static size_t merge_uses(hth_index_use *uses, size_t n)
{
    size_t n_merged = 0;

    qsort(uses, n, sizeof(*uses), compare_uses);
    for (size_t i = 0; i < n; i++) {
        hth_index_use *last = n_merged > 0 ? &uses[n_merged - 1] : NULL;

        if (!last || !hth_row_id_equal(&last->id, &uses[i].id)) {
            uses[n_merged++] = uses[i];
            continue;
        }
        last->hits += uses[i].hits;
        if (uses[i].last_used_time > last->last_used_time)
            last->last_used_time = uses[i].last_used_time;
    }
    return n_merged;
}

static void bring_uses(hth_file_tier *tier, hth_index_use *uses, size_t n)
{
    char path[PATH_BYTES];

    n = merge_uses(uses, n);
    if (n == 0)
        return;
    (void)hth_index_touch(tier->index, uses, n, NULL); /* an index that fails has said so; the files remember, too */
    for (size_t i = 0; i < n; i++)
        if (hth_file_tier_path(tier, &uses[i].id, path, sizeof(path)))
            (void)hth_fs_set_mtime(tier->fs, path, uses[i].last_used_time);
}

/* Keep those of ids whose file is there, or is not there; the new count. */
static size_t keep_found(hth_file_tier *tier, hth_row_meta *found, size_t n)
{
    char path[PATH_BYTES];
    hth_fs_stat st;
    size_t n_kept = 0;

    for (size_t i = 0; i < n; i++)
        if (hth_file_tier_path(tier, &found[i].id, path, sizeof(path)) && hth_fs_stat_path(tier->fs, path, &st) == 0)
            found[n_kept++] = found[i];
    return n_kept;
}

static size_t keep_lost(hth_file_tier *tier, hth_row_id *lost, size_t n)
{
    char path[PATH_BYTES];
    hth_fs_stat st;
    size_t n_kept = 0;

    for (size_t i = 0; i < n; i++)
        if (hth_file_tier_path(tier, &lost[i], path, sizeof(path)) && hth_fs_stat_path(tier->fs, path, &st) == -ENOENT)
            lost[n_kept++] = lost[i];
    return n_kept;
}

static void bring_notes(hth_file_tier *tier)
{
    size_t n_adopted = 0;
    notes noted, empty;

    if (!notes_init(&empty)) {
        notes_deinit(&empty);
        return; /* what was noted stays for the next time */
    }
    empty.n_uses = empty.n_found = empty.n_lost = 0;
    pthread_mutex_lock(&tier->notes_lock);
    noted = tier->pending;
    tier->pending = empty;
    pthread_mutex_unlock(&tier->notes_lock);

    noted.n_found = keep_found(tier, noted.found, noted.n_found);
    if (noted.n_found > 0 && hth_index_adopt(tier->index, noted.found, noted.n_found, &n_adopted, NULL) == HEARTH_OK)
        atomic_fetch_add(&tier->n_rows_adopted, n_adopted);
    noted.n_lost = keep_lost(tier, noted.lost, noted.n_lost);
    if (noted.n_lost > 0)
        (void)hth_index_remove(tier->index, noted.lost, noted.n_lost, NULL); /* else the next read notes it again */
    bring_uses(tier, noted.uses, noted.n_uses);
    notes_deinit(&noted);
}

static bool has_notes(hth_file_tier *tier, size_t n_uses_min)
{
    bool has;

    pthread_mutex_lock(&tier->notes_lock);
    has = tier->pending.n_uses >= n_uses_min || tier->pending.n_found > 0 || tier->pending.n_lost > 0;
    pthread_mutex_unlock(&tier->notes_lock);
    return has;
}

void hth_file_tier_maintain(hth_file_tier *tier)
{
    if (has_notes(tier, 1))
        bring_notes(tier);
    pthread_mutex_lock(&tier->scan_lock);
    if (hth_index_maintain(tier->index))
        (void)start_scan_locked(tier, true); /* without a thread the index stays incomplete until the next start */
    pthread_mutex_unlock(&tier->scan_lock);
}

/* ---- room ---- */

/* Remove the files of rows that the index gave up; how many are gone. */
static size_t remove_files(hth_file_tier *tier, const hth_row_id *ids, size_t n)
{
    char path[PATH_BYTES];
    size_t n_gone = 0;

    for (size_t i = 0; i < n; i++) {
        int rc = hth_file_tier_path(tier, &ids[i], path, sizeof(path)) ? hth_fs_remove(tier->fs, path) : -ENAMETOOLONG;

        if (rc == 0 || rc == -ENOENT)
            n_gone++;
    }
    return n_gone;
}

hearth_status hth_file_tier_evict_to(hth_file_tier *tier, uint64_t bytes_max, uint64_t *evicted_out, hearth_error *err)
{
    hth_row_id ids[EVICT_BATCH_ROWS];
    hearth_status status = HEARTH_OK;
    uint64_t n_evicted = 0;
    size_t n;

    do {
        size_t n_gone;

        n = 0;
        status = hth_index_evict(tier->index, bytes_max, ids, EVICT_BATCH_ROWS, &n, err);
        hth_fs_step(tier->fs, "evicted from the index");
        if (status != HEARTH_OK || n == 0)
            break;
        n_gone = remove_files(tier, ids, n);
        n_evicted += n_gone;
        (void)hth_index_release(tier->index, ids, n, NULL); /* else their deadline does */
        if (n_gone < n)
            status = hth_fail(err, HEARTH_IO, "%zu of %zu evicted rows in '%s' cannot be removed", n - n_gone, n,
                              tier->rows);
    } while (n == EVICT_BATCH_ROWS && status == HEARTH_OK);
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

/* Evict for a new row; what it stands on is the last to go, and without that the row is of no use. */
static hearth_status evict_for(hth_file_tier *tier, const hth_row_meta *meta, size_t n_bytes, hearth_error *err)
{
    hth_index_use uses[] = {
        { .id = { .key = meta->parent, .kind = HTH_ROW_BLOCK }, .last_used_time = hth_os_unix_seconds() + 1 },
        { .id = { .key = meta->parent, .kind = HTH_ROW_TAIL }, .last_used_time = hth_os_unix_seconds() + 1 },
    };
    bool stood = has_parent(tier, meta);

    bring_notes(tier); /* uses that the index does not know yet decide, too */
    if (stood)
        (void)hth_index_touch(tier->index, uses, sizeof(uses) / sizeof(uses[0]), NULL); /* else the order is a guess */
    if (hth_file_tier_evict_to(tier, tier->bytes_max - n_bytes, NULL, err) != HEARTH_OK)
        return err ? err->status : HEARTH_IO;
    if (stood && !has_parent(tier, meta))
        return over_quota(tier, tier->bytes_max, n_bytes, ", and what it stands on had to go", err);
    return HEARTH_OK;
}

static hearth_status make_room(hth_file_tier *tier, const hth_row_meta *meta, size_t n_bytes, hearth_error *err)
{
    hth_index_totals totals = { .rows = 0 };
    hearth_status status;
    uint64_t free_bytes;
    int rc = hth_fs_free_bytes(tier->fs, tier->rows, &free_bytes);

    if (rc != 0)
        return hth_fail_errno(err, -rc, "cannot tell how much is free in '%s'", tier->rows);
    if (free_bytes < n_bytes || free_bytes - n_bytes < tier->free_min)
        return hth_fail(err, HEARTH_FULL,
                        "a row of %zu bytes would leave less than %" PRIu64 " bytes free beside '%s'; "
                        "make room on that device",
                        n_bytes, tier->free_min, tier->directory);

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
        status = evict_for(tier, meta, n_bytes, err);
        if (status != HEARTH_OK)
            return status;
        if (hth_index_totals_get(tier->index, &totals, err) != HEARTH_OK)
            return HEARTH_IO;
    }
    atomic_store(&tier->bytes_known, totals.bytes);
    return totals.bytes <= tier->bytes_max - n_bytes ? HEARTH_OK : over_quota(tier, totals.bytes, n_bytes, "", err);
}

/* ---- writing ---- */

hearth_status hth_file_tier_publish(hth_file_tier *tier, const hth_row_meta *meta, const uint8_t *bytes, size_t n_bytes,
                                    bool *published_out, hearth_error *err)
{
    hth_publish_result result = HTH_PUBLISH_EXISTED;
    hearth_error why = { .message = "" };
    hearth_status status;
    bool is_there = false;

    if (has_notes(tier, FLUSH_AT))
        bring_notes(tier);
    /* A row that is there needs no room. */
    if (hth_index_get(tier->index, &meta->id, NULL, &is_there, NULL) != HEARTH_OK || !is_there) {
        status = make_room(tier, meta, n_bytes, &why);
        if (status != HEARTH_OK) {
            if (err)
                *err = why;
            return status;
        }
    }
    status = hth_publish(&tier->publisher, meta, bytes, n_bytes, &result, err);
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

void hth_file_tier_quarantine(hth_file_tier *tier, const hth_row_id *id, const char *reason)
{
    char path[PATH_BYTES], name[HTH_ROW_FILE_NAME_BYTES];
    int rc;

    if (!hth_file_tier_path(tier, id, path, sizeof(path)))
        return;
    hth_row_file_name(id, name);
    rc = hth_quarantine_file(tier->fs, tier->quarantine, path, name);
    if (rc != 0 && rc != -ENOENT)
        rc = hth_fs_remove(tier->fs, path); /* not kept, but at least not found again */
    if (rc == 0) {
        atomic_fetch_add(&tier->n_rows_quarantined, 1);
        hth_info(tier->log, "the cached row '%s' was set aside: %s", name, reason);
    } else if (rc != -ENOENT) {
        hearth_error why;

        (void)hth_fail_errno(&why, -rc, "the bad row '%s' cannot be removed", path);
        hth_warn(tier->log, "%s", why.message);
    }
    (void)hth_index_remove(tier->index, id, 1, NULL); /* if not, the next read finds the file gone */
}

hearth_status hth_file_tier_remove(hth_file_tier *tier, const hth_row_id *id, hearth_error *err)
{
    char path[PATH_BYTES];
    bool was_known = false;
    int rc;

    if (!hth_file_tier_path(tier, id, path, sizeof(path)))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", tier->directory);
    if (hth_index_get(tier->index, id, NULL, &was_known, NULL) != HEARTH_OK)
        was_known = false;
    rc = hth_fs_remove(tier->fs, path);
    if (rc != 0 && rc != -ENOENT)
        return hth_fail_errno(err, -rc, "cannot remove the row '%s'", path);
    if (was_known)
        (void)hth_index_remove(tier->index, id, 1, NULL); /* likewise */
    else if (rc == -ENOENT)
        return hth_fail(err, HEARTH_NOT_FOUND, "there is no row '%s'", path);
    return HEARTH_OK;
}

/* ---- watching ---- */

hth_index *hth_file_tier_index(hth_file_tier *tier)
{
    return tier->index;
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
