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
 *
 * Whoever changes what has a row's name holds the row's reservation meanwhile: publish.c from before it writes, eviction,
 * removal and quarantine here from when they take the row out of the index until its file is gone or counted again. So
 * none of them meets a file that another process has just put there, and the totals are those of the files.
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

#include "base/os.h"
#include "cache/directory.h"
#include "cache/quarantine.h"
#include "cache/row_file.h"

enum {
    PATH_BYTES = 4096,
    USES_MAX = 16384,
    FOUND_MAX = 1024,
    LOST_MAX = 1024,
    SIGHTINGS_MAX = 256,
    FLUSH_AT = 4096, /* uses noted before a busy writer brings them to the index */
    EVICT_BATCH_ROWS = 64,
    EVICT_ATTEMPTS = 8,
    SEEN_MAX = 256,
    TAKEN_DEADLINE_S = 60,    /* to move or remove one file in */
    FOREIGN_S = 24 * 60 * 60, /* after which a temporary file of another machine was left behind */
};

/* Which file a row's bytes came from. */
typedef struct seen_file {
    hth_row_id id;
    uint64_t inode;
    uint64_t changed_ns;
} seen_file;

/* What readers noticed. */
typedef struct notes {
    hth_index_use *uses; /* [USES_MAX] */
    size_t n_uses;
    hth_row_meta *found; /* [FOUND_MAX], rows that the index did not know */
    size_t n_found;
    hth_row_id *lost; /* [LOST_MAX], rows whose file is gone */
    size_t n_lost;
    hth_index_sighting *sightings; /* [SIGHTINGS_MAX], beginnings of prompts that were kept */
    size_t n_sightings;
} notes;

struct hth_file_tier {
    /* Fixed after opening. */
    const hth_fs *fs;
    const hth_log *log;
    uint64_t bytes_max;
    uint64_t free_min;
    bool durable;
    hth_index_needed_fn is_needed;
    void *user_data;
    char directory[PATH_BYTES];
    char index_directory[PATH_BYTES]; /* of index/ and owners/ */
    char rows[PATH_BYTES];
    char owners[PATH_BYTES];
    char temporary[PATH_BYTES];
    char quarantine[PATH_BYTES];
    hth_index *index;
    hth_publisher publisher;

    /* Guards the fields below. Innermost lock. */
    pthread_mutex_t notes_lock;
    notes pending;
    seen_file seen[SEEN_MAX]; /* the last rows read, the place of n_seen comes next */
    uint64_t n_seen;

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
    if (status == HEARTH_OK && tier->durable)
        (void)hth_fs_sync_directory(tier->fs, tier->directory); /* likewise */
    return status;
}

/* ---- the thread that goes through files ---- */

static int start_scan_locked(hth_file_tier *tier, bool rebuild);

static hth_scan scan_of(hth_file_tier *tier)
{
    return (hth_scan){
        .fs = tier->fs,
        .log = tier->log,
        .index = tier->index,
        .rows_directory = tier->rows,
        .temporary_directory = tier->temporary,
        .durable = tier->durable,
        .foreign_s = strcmp(tier->index_directory, tier->directory) == 0 ? 0 : FOREIGN_S,
        .stop = &tier->stop,
    };
}

/* Fill the index; whether it is complete then is still to be told to it. */
static bool fill_index(hth_file_tier *tier, hth_scan *scan)
{
    bool complete = hth_scan_rebuild(scan);

    atomic_store(&tier->bytes_known, scan->bytes);
    atomic_fetch_add(&tier->n_rows_adopted, scan->n_adopted);
    return complete;
}

static void note_quota(hth_file_tier *tier)
{
    uint64_t quota = 0;

    if (tier->bytes_max != UINT64_MAX && hth_index_quota(tier->index, &quota, NULL) == HEARTH_OK &&
        quota != tier->bytes_max)
        (void)hth_index_set_quota(tier->index, tier->bytes_max, NULL); /* only shown to people */
}

static void take_noted_quota(hth_file_tier *tier)
{
    uint64_t quota = 0;

    if (hth_index_quota(tier->index, &quota, NULL) == HEARTH_OK && quota > 0)
        tier->bytes_max = quota;
}

void hth_file_tier_recover(hth_file_tier *tier)
{
    hth_scan scan = scan_of(tier);

    hth_scan_recover(&scan);
    atomic_fetch_add(&tier->n_rows_adopted, scan.n_adopted);
}

static void scan_once(hth_file_tier *tier, bool rebuild)
{
    hth_scan scan = scan_of(tier);
    hth_index_totals totals;
    bool complete = false;

    hth_file_tier_recover(tier);
    if (!rebuild && hth_index_totals_get(tier->index, &totals, NULL) == HEARTH_OK)
        atomic_store(&tier->bytes_known, totals.bytes);
    else /* where there is no index, the sum of the sizes holds the quota */
        complete = fill_index(tier, &scan) && rebuild;
    note_quota(tier);

    pthread_mutex_lock(&tier->scan_lock);
    if (complete && !tier->rebuild_wanted)          /* another index took the place of the one that was filled */
        (void)hth_index_rebuilt(tier->index, NULL); /* if not, the next start fills it once more */
    else if (rebuild && !complete)
        hth_index_rebuild_failed(tier->index);
    pthread_mutex_unlock(&tier->scan_lock);
}

bool hth_file_tier_rebuild_index(hth_file_tier *tier, hth_scan_progress_fn progress, void *user_data)
{
    hth_scan scan = scan_of(tier);
    bool complete = false;

    scan.progress = progress;
    scan.user_data = user_data;
    /* Like the tier's own thread, which does not start meanwhile. */
    pthread_mutex_lock(&tier->scan_lock);
    while (tier->scanner_is_busy)
        pthread_cond_wait(&tier->scan_ended, &tier->scan_lock);
    tier->scanner_is_busy = true;
    pthread_mutex_unlock(&tier->scan_lock);

    if (hth_index_clear(tier->index, NULL) == HEARTH_OK) {
        complete = fill_index(tier, &scan);
        note_quota(tier);
    }

    pthread_mutex_lock(&tier->scan_lock);
    if (tier->rebuild_wanted) { /* the index was replaced meanwhile */
        complete = false;
        tier->scanner_is_busy = false;
        (void)start_scan_locked(tier, true); /* without a thread the index stays incomplete until the next start */
    } else {
        if (complete)
            complete = hth_index_rebuilt(tier->index, NULL) == HEARTH_OK;
        else
            hth_index_rebuild_failed(tier->index);
        tier->scanner_is_busy = false;
    }
    pthread_cond_broadcast(&tier->scan_ended);
    pthread_mutex_unlock(&tier->scan_lock);
    return complete;
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
        if (!rebuild)
            rebuild = hth_index_claim_rebuild(tier->index); /* here, since it may wait for another process */
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

static hearth_status open_index(hth_file_tier *tier, hearth_error *err)
{
    char path[PATH_BYTES];
    hth_index_options options = {
        .directory = path,
        .owners_directory = tier->owners,
        .fs = tier->fs,
        .log = tier->log,
    };
    hearth_status status = make_part(tier, tier->index_directory, "index", path, err);

    return status == HEARTH_OK ? hth_index_open(&options, &tier->index, NULL, err) : status;
}

static bool notes_init(notes *n)
{
    n->uses = malloc(USES_MAX * sizeof(*n->uses));
    n->found = malloc(FOUND_MAX * sizeof(*n->found));
    n->lost = malloc(LOST_MAX * sizeof(*n->lost));
    n->sightings = malloc(SIGHTINGS_MAX * sizeof(*n->sightings));
    return n->uses && n->found && n->lost && n->sightings;
}

static void notes_deinit(notes *n)
{
    free(n->uses);
    free(n->found);
    free(n->lost);
    free(n->sightings);
    *n = (notes){ .uses = NULL };
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
    /* Numbers go on where another tier of this process, which shares its token, cannot be. */
    hth_os_random(&number, sizeof(number));
    atomic_store(&tier->publisher.n_temporaries, (uint64_t)number << 24);
    status = hth_publish_probe(tier->fs, tier->temporary, hth_index_owner_token(tier->index), options->publish_way,
                               &tier->publisher.way, err);
    if (status == HEARTH_OK)
        status = hth_publish_check_folders(&tier->publisher, err);
    if (status != HEARTH_OK)
        return status;

    pthread_mutex_lock(&tier->scan_lock);
    failed = start_scan_locked(tier, false);
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
    tier->durable = options->durable;
    tier->is_needed = options->is_needed;
    tier->user_data = options->user_data;
    if (!*options->directory || snprintf(tier->directory, PATH_BYTES, "%s", options->directory) >= PATH_BYTES) {
        status = hth_fail(err, HEARTH_MISUSE, "the cache directory '%.200s' is no usable path", options->directory);
        goto out;
    }
    if (snprintf(tier->index_directory, PATH_BYTES, "%s",
                 options->index_directory ? options->index_directory : tier->directory) >= PATH_BYTES) {
        status = hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", options->index_directory);
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

/* Look for a row that the index does not know by its name. */
static bool find_file(hth_file_tier *tier, const hth_row_id *id, hth_row_meta *out)
{
    char path[PATH_BYTES];

    if (!hth_file_tier_path(tier, id, path, sizeof(path)) ||
        hth_row_file_meta(tier->fs, path, id, out, NULL) != HEARTH_OK)
        return false;
    note_found(tier, out);
    return true;
}

bool hth_file_tier_has(hth_file_tier *tier, const hth_row_id *id, hth_row_meta *out)
{
    hth_row_meta meta;
    bool found = false;

    if ((hth_index_get(tier->index, id, &meta, &found, NULL) != HEARTH_OK || !found) && !find_file(tier, id, &meta))
        return false;
    if (out)
        *out = meta;
    return true;
}

size_t hth_file_tier_has_many(hth_file_tier *tier, const hth_row_id *ids, size_t n, hth_row_meta *out, bool *found)
{
    bool answered = hth_index_get_many(tier->index, ids, n, out, found, NULL) == HEARTH_OK;
    size_t n_found = 0;

    for (size_t i = 0; i < n; i++) {
        if (!answered || !found[i])
            found[i] = find_file(tier, &ids[i], &out[i]);
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

static void note_seen(hth_file_tier *tier, const hth_row_id *id, const hth_fs_stat *st)
{
    pthread_mutex_lock(&tier->notes_lock);
    tier->seen[tier->n_seen++ % SEEN_MAX] = (seen_file){ .id = *id, .inode = st->inode, .changed_ns = st->changed_ns };
    pthread_mutex_unlock(&tier->notes_lock);
}

/* The place of the last read of a row in seen; NULL: not known any more. Under notes_lock. */
static const seen_file *find_seen_locked(const hth_file_tier *tier, const hth_row_id *id)
{
    for (uint64_t i = 0; i < SEEN_MAX && i < tier->n_seen; i++) {
        const seen_file *s = &tier->seen[(tier->n_seen - 1 - i) % SEEN_MAX];

        if (hth_row_id_equal(&s->id, id))
            return s;
    }
    return NULL;
}

static bool was_read(hth_file_tier *tier, const hth_row_id *id)
{
    bool known;

    pthread_mutex_lock(&tier->notes_lock);
    known = find_seen_locked(tier, id) != NULL;
    pthread_mutex_unlock(&tier->notes_lock);
    return known;
}

/* Is this the file that the row was last read from? True where that is not known any more. */
static bool was_seen(hth_file_tier *tier, const hth_row_id *id, const hth_fs_stat *st)
{
    const seen_file *s;
    bool seen;

    pthread_mutex_lock(&tier->notes_lock);
    s = find_seen_locked(tier, id);
    seen = !s || (s->inode == st->inode && s->changed_ns == st->changed_ns);
    pthread_mutex_unlock(&tier->notes_lock);
    return seen;
}

hearth_status hth_file_tier_open_file(hth_file_tier *tier, const hth_row_id *id, int *fd_out, size_t *n_bytes_out,
                                      hearth_error *err)
{
    char path[PATH_BYTES];
    hth_fs_stat st = { .bytes = 0 };
    hearth_status status = open_row(tier, id, fd_out, &st, path, err);

    if (status == HEARTH_OK) {
        note_seen(tier, id, &st);
        *n_bytes_out = (size_t)st.bytes;
    }
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
    note_seen(tier, id, &st);
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

void hth_file_tier_note_beginning(hth_file_tier *tier, const hth_index_sighting *sighting)
{
    notes *pending = &tier->pending;

    pthread_mutex_lock(&tier->notes_lock);
    if (pending->n_sightings < SIGHTINGS_MAX)
        pending->sightings[pending->n_sightings++] = *sighting;
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

/* Keep the time of a use with the file. That changes it, and it still is the one that was read. */
static void set_last_used(hth_file_tier *tier, const hth_row_id *id, const char *path, uint64_t time)
{
    hth_fs_stat before, after;
    bool seen = was_read(tier, id) && hth_fs_stat_path(tier->fs, path, &before) == 0 && was_seen(tier, id, &before);

    if (hth_fs_set_mtime(tier->fs, path, time) == 0 && seen && hth_fs_stat_path(tier->fs, path, &after) == 0 &&
        after.inode == before.inode)
        note_seen(tier, id, &after);
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
            set_last_used(tier, &uses[i].id, path, uses[i].last_used_time);
}

static void adopt_found(hth_file_tier *tier, const hth_row_meta *found, size_t n)
{
    hth_row_files files = hth_file_tier_files(tier);
    bool synced[256] = { false };
    size_t n_adopted = 0;

    /* Who linked them may have died before it did this. */
    for (size_t i = 0; i < n; i++) {
        if (!synced[found[i].id.key.bytes[0]])
            (void)hth_publish_sync_folder(&tier->publisher, &found[i].id); /* a row is not worth more */
        synced[found[i].id.key.bytes[0]] = true;
    }
    if (n > 0 && hth_index_adopt(tier->index, found, n, hth_row_file_is_there, &files, &n_adopted, NULL) == HEARTH_OK)
        atomic_fetch_add(&tier->n_rows_adopted, n_adopted);
    else
        for (size_t i = 0; i < n; i++)
            note_found(tier, &found[i]); /* for an index that works */
}

static void bring_notes(hth_file_tier *tier)
{
    hth_row_files files = hth_file_tier_files(tier);
    notes noted, empty;

    if (!notes_init(&empty)) {
        notes_deinit(&empty);
        return; /* what was noted stays for the next time */
    }
    empty.n_uses = empty.n_found = empty.n_lost = empty.n_sightings = 0;
    pthread_mutex_lock(&tier->notes_lock);
    noted = tier->pending;
    tier->pending = empty;
    pthread_mutex_unlock(&tier->notes_lock);

    adopt_found(tier, noted.found, noted.n_found);
    if (noted.n_lost > 0) /* if it fails, the next read notes them again */
        (void)hth_index_remove_lost(tier->index, noted.lost, noted.n_lost, hth_row_file_is_gone, &files, NULL, NULL);
    if (noted.n_sightings > 0) /* if it fails, a later miss has one explanation less */
        (void)hth_index_note_beginnings(tier->index, noted.sightings, noted.n_sightings, NULL);
    bring_uses(tier, noted.uses, noted.n_uses);
    notes_deinit(&noted);
}

static bool has_notes(hth_file_tier *tier, size_t n_uses_min)
{
    bool has;

    pthread_mutex_lock(&tier->notes_lock);
    has = tier->pending.n_uses >= n_uses_min || tier->pending.n_found > 0 || tier->pending.n_lost > 0 ||
          tier->pending.n_sightings == SIGHTINGS_MAX || (n_uses_min == 1 && tier->pending.n_sightings > 0);
    pthread_mutex_unlock(&tier->notes_lock);
    return has;
}

void hth_file_tier_maintain(hth_file_tier *tier)
{
    pthread_mutex_lock(&tier->scan_lock);
    if (hth_index_maintain(tier->index))
        (void)start_scan_locked(tier, true); /* without a thread the index stays incomplete until the next start */
    pthread_mutex_unlock(&tier->scan_lock);
    if (has_notes(tier, 1)) /* an index that was opened or replaced just now gets them, too */
        bring_notes(tier);
}

/* ---- room ---- */

/* Remove what has a row's name, under its reservation. 0, -ENOENT or -errno. */
static int remove_file(hth_file_tier *tier, const hth_row_id *id, const char *path)
{
    int rc = hth_fs_remove(tier->fs, path);

    if (rc == -ENOTEMPTY || rc == -EEXIST || rc == -EISDIR)
        rc = hth_quarantine_row(tier->fs, tier->quarantine, path, id);
    return rc;
}

/* Remove the files of rows that the index gave up; how many are gone. What stays is counted again, as the newest. */
static size_t remove_evicted(hth_file_tier *tier, hth_row_meta *rows, size_t n)
{
    hth_row_id gone[EVICT_BATCH_ROWS];
    char path[PATH_BYTES];
    size_t n_gone = 0, n_kept = 0;

    assert(n <= EVICT_BATCH_ROWS);
    for (size_t i = 0; i < n; i++) {
        int rc = -ENAMETOOLONG;
        bool ours = true;

        /* One who was stopped for long has lost it, and what has the name now is somebody else's. */
        if (hth_index_reservation_is_ours(tier->index, &rows[i].id, &ours, NULL) == HEARTH_OK && !ours)
            rc = -ENOENT;
        else if (hth_file_tier_path(tier, &rows[i].id, path, sizeof(path)))
            rc = remove_file(tier, &rows[i].id, path);
        if (rc == 0 || rc == -ENOENT) {
            gone[n_gone++] = rows[i].id;
        } else {
            rows[n_kept] = rows[i];
            rows[n_kept++].last_used_time = hth_os_unix_seconds();
        }
    }
    /* Where these fail, the rows are ours to take again, or are found by their names. */
    if (n_kept > 0)
        (void)hth_index_publish(tier->index, rows, n_kept, NULL);
    if (n_gone > 0)
        (void)hth_index_release(tier->index, gone, n_gone, NULL);
    return n_gone;
}

hearth_status hth_file_tier_evict_to(hth_file_tier *tier, uint64_t bytes_max, uint64_t *evicted_out, hearth_error *err)
{
    hth_row_meta rows[EVICT_BATCH_ROWS];
    hearth_status status = HEARTH_OK;
    uint64_t n_evicted = 0;
    size_t n;

    do {
        size_t n_gone;

        n = 0;
        status =
            hth_index_evict(tier->index, bytes_max, tier->is_needed, tier->user_data, rows, EVICT_BATCH_ROWS, &n, err);
        hth_fs_step(tier->fs, "evicted from the index");
        if (status != HEARTH_OK || n == 0)
            break;
        n_gone = remove_evicted(tier, rows, n);
        n_evicted += n_gone;
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
    hth_row_meta written;
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
    /*
     * What the index could not be told it is told later, so that its totals are those of the files. A row whose name
     * could not be made durable has failed, and is there all the same.
     */
    if ((status != HEARTH_OK || result != HTH_PUBLISH_TAKEN) &&
        (hth_index_get(tier->index, &meta->id, NULL, &is_there, NULL) != HEARTH_OK || !is_there))
        (void)find_file(tier, &meta->id, &written);
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

/* ---- taking away ---- */

/* A row that nobody else may change meanwhile. */
typedef struct taken_row {
    const hth_row_id *id;
    bool is_reserved; /* false where the index does not work */
    bool was_known;
    hth_row_meta meta;
    char path[PATH_BYTES];
} taken_row;

/* False: somebody else has it, or there is no such path. */
static bool take_row(hth_file_tier *tier, const hth_row_id *id, taken_row *out)
{
    hth_reserve_result result = HTH_RESERVE_TAKEN;

    out->id = id;
    out->was_known = false;
    if (!hth_file_tier_path(tier, id, out->path, sizeof(out->path)))
        return false;
    out->is_reserved =
        hth_index_take(tier->index, id, TAKEN_DEADLINE_S, &result, &out->was_known, &out->meta, NULL) == HEARTH_OK;
    return !out->is_reserved || result == HTH_RESERVED;
}

/* Its file is gone; gone (may be NULL) is what is to be remembered of it. */
static void end_gone(hth_file_tier *tier, const taken_row *row, const hth_gone *gone)
{
    hth_row_meta meta = { .id = *row->id };

    if (!row->is_reserved)
        return;
    if (row->was_known)
        meta = row->meta;
    if (gone) /* here and below: it is ours to take again in any case */
        (void)hth_index_release_gone(tier->index, &meta, gone, NULL);
    else
        (void)hth_index_release(tier->index, row->id, 1, NULL);
}

/* Its file stays; it is counted as what it is now. */
static void end_kept(hth_file_tier *tier, taken_row *row)
{
    hth_row_meta now;

    if (!row->is_reserved)
        return;
    if (hth_row_file_meta(tier->fs, row->path, row->id, &now, NULL) == HEARTH_OK) {
        if (row->was_known) {
            now.hit_count = row->meta.hit_count;
            now.last_used_time = row->meta.last_used_time;
        }
        row->meta = now;
    } else if (!row->was_known) {
        end_gone(tier, row, NULL);
        return;
    }
    (void)hth_index_publish(tier->index, &row->meta, 1, NULL); /* if not, it is found by its name */
}

typedef enum verdict {
    VERDICT_BAD,
    VERDICT_SOUND,
    VERDICT_GONE,
    VERDICT_UNKNOWN, /* no memory to tell */
} verdict;

/* Read a file again, and judge it. */
static verdict judge_file(hth_file_tier *tier, const taken_row *row, hth_file_tier_judge_fn is_bad, void *user_data)
{
    verdict result = VERDICT_BAD;
    hth_fs_stat st = { .bytes = 0 };
    uint8_t *bytes;
    size_t n = 0;
    int fd = -1;
    hearth_status status = hth_row_file_open(tier->fs, row->path, &fd, &st, NULL);

    if (status != HEARTH_OK)
        return status == HEARTH_NOT_FOUND ? VERDICT_GONE : VERDICT_BAD;
    bytes = malloc((size_t)st.bytes);
    if (!bytes)
        result = VERDICT_UNKNOWN;
    else if (hth_fs_read_full(tier->fs, fd, bytes, (size_t)st.bytes, 0, &n) == 0 && n == st.bytes)
        result = is_bad(row->id, bytes, n, user_data) ? VERDICT_BAD : VERDICT_SOUND;
    free(bytes);
    hth_fs_close(tier->fs, fd);
    return result;
}

/* Move a bad file away or, if that cannot be, remove it. 0, -ENOENT or -errno: then it stays. */
static int set_aside(hth_file_tier *tier, const taken_row *row)
{
    int rc = hth_quarantine_row(tier->fs, tier->quarantine, row->path, row->id);

    if (rc != 0 && rc != -ENOENT)
        rc = hth_fs_remove(tier->fs, row->path); /* not kept, but at least not found again */
    return rc;
}

typedef enum removal { REMOVAL_FAILED, REMOVAL_NEEDLESS, REMOVAL_DONE } removal;

static removal quarantine(hth_file_tier *tier, const hth_row_id *id, hth_file_tier_judge_fn is_bad, void *user_data,
                          const char *reason)
{
    char name[HTH_ROW_FILE_NAME_BYTES];
    verdict judged;
    taken_row row;
    int rc;

    if (!take_row(tier, id, &row))
        return REMOVAL_FAILED;
    hth_fs_step(tier->fs, "taken");
    judged = judge_file(tier, &row, is_bad, user_data);
    if (judged == VERDICT_GONE) {
        end_gone(tier, &row, NULL);
        return REMOVAL_NEEDLESS;
    }
    if (judged != VERDICT_BAD) {
        end_kept(tier, &row);
        return judged == VERDICT_SOUND ? REMOVAL_NEEDLESS : REMOVAL_FAILED;
    }
    rc = set_aside(tier, &row);
    hth_row_file_name(id, name);
    if (rc == 0) {
        atomic_fetch_add(&tier->n_rows_quarantined, 1);
        hth_info(tier->log, "the cached row '%s' was set aside: %s", name, reason);
    } else if (rc != -ENOENT) {
        hearth_error why;

        (void)hth_fail_errno(&why, -rc, "the bad row '%s' cannot be removed", row.path);
        hth_warn(tier->log, "%s", why.message);
        end_kept(tier, &row);
        return REMOVAL_FAILED;
    }
    end_gone(tier, &row, &(hth_gone){ .reason = HTH_GONE_DAMAGED, .time = hth_os_unix_seconds() });
    return rc == 0 ? REMOVAL_DONE : REMOVAL_NEEDLESS;
}

bool hth_file_tier_quarantine_if(hth_file_tier *tier, const hth_row_id *id, hth_file_tier_judge_fn is_bad,
                                 void *user_data, const char *reason)
{
    return quarantine(tier, id, is_bad, user_data, reason) == REMOVAL_DONE;
}

static bool is_unsound(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes)
{
    hth_kvc_fault fault;
    hth_kvc_info info;

    if (!hth_kvc_parse(bytes, n_bytes, &id->key, &info, &fault))
        return fault.reason != HTH_KVC_NO_MEMORY;
    return !info.has_kind || info.kind != (uint8_t)id->kind || !info.has_own_key ||
           !hth_key_equal(&info.own_key, &id->key);
}

/* A sound file is bad all the same when it is the very one that was read, and then refused. */
static bool is_suspect(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes, void *user_data)
{
    hth_file_tier *tier = user_data;
    char path[PATH_BYTES];
    hth_fs_stat st;

    if (is_unsound(id, bytes, n_bytes))
        return true;
    return hth_file_tier_path(tier, id, path, sizeof(path)) && hth_fs_stat_path(tier->fs, path, &st) == 0 &&
           was_seen(tier, id, &st);
}

bool hth_file_tier_quarantine(hth_file_tier *tier, const hth_row_id *id, const char *reason)
{
    return quarantine(tier, id, is_suspect, tier, reason) != REMOVAL_FAILED;
}

static hearth_status remove_row(hth_file_tier *tier, const hth_row_id *id, const hth_gone *gone, hearth_error *err)
{
    taken_row row;
    int rc;

    if (!hth_file_tier_path(tier, id, row.path, sizeof(row.path)))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", tier->directory);
    if (!take_row(tier, id, &row))
        return hth_fail(err, HEARTH_BUSY, "the row '%s' is being written or removed by another process; try again",
                        row.path);
    hth_fs_step(tier->fs, "taken");
    rc = remove_file(tier, id, row.path);
    if (rc != 0 && rc != -ENOENT) {
        end_kept(tier, &row);
        return hth_fail_errno(err, -rc, "cannot remove the row '%s'", row.path);
    }
    if (!row.was_known && rc == -ENOENT) {
        end_gone(tier, &row, NULL);
        return hth_fail(err, HEARTH_NOT_FOUND, "there is no row '%s'", row.path);
    }
    end_gone(tier, &row, gone);
    return HEARTH_OK;
}

hearth_status hth_file_tier_remove(hth_file_tier *tier, const hth_row_id *id, hearth_error *err)
{
    return remove_row(tier, id, NULL, err);
}

hearth_status hth_file_tier_remove_superseded(hth_file_tier *tier, const hth_row_id *id, const hth_row_id *successor,
                                              hearth_error *err)
{
    hth_gone gone = { .reason = HTH_GONE_SUPERSEDED, .time = hth_os_unix_seconds() };

    hth_past_name_of(successor, &gone.successor);
    return remove_row(tier, id, &gone, err);
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
