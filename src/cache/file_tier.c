/*
 * file_tier.c - rows as files, with an index over them: lookups, notes of readers, room, removal
 *
 * publish.c makes a file visible, scan.c reads all files.
 *
 * Every operation that changes the file of a row holds the row's reservation while it does so. publish.c takes it
 * before it writes. Eviction, removal and quarantine hold it from the moment they take the row out of the index until
 * its file is gone or counted again. So none of them hits a file that another process has just put there, and the
 * totals match the files.
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
#include <sys/resource.h>

#include "base/os.h"
#include "rows/directory.h"

enum { FILE_TIER_PATH_BYTES = 4096, FILE_TIER_SEEN_MAX = 256 };

/* The file that a row's bytes came from. */
typedef struct seen_file {
    hth_row_id id;
    uint64_t inode;
    uint64_t changed_ns;
} seen_file;

enum {
    USES_MAX = 16384,
    FOUND_MAX = 1024,
    MISSED_MAX = 256,
    LOST_MAX = 1024,
    SIGHTINGS_MAX = 256,
};

/* Notes of readers for the index. */
typedef struct file_tier_notes {
    hth_index_use uses[USES_MAX];
    size_t n_uses;
    hth_row_id found[FOUND_MAX]; /* rows that the index did not know and that were found by name */
    size_t n_found;
    hth_row_id missed[MISSED_MAX]; /* at the slot of their key: rows whose files have not been looked for */
    bool is_missed[MISSED_MAX];
    size_t n_missed;
    hth_row_id lost[LOST_MAX]; /* rows whose file is gone */
    size_t n_lost;
    hth_index_sighting sightings[SIGHTINGS_MAX]; /* prompt beginnings that a keyspace kept */
    size_t n_sightings;
} file_tier_notes;

struct hth_file_tier {
    /* Fixed after opening. */
    const hth_fs *fs;
    const hth_log *log;
    uint64_t bytes_max;
    uint64_t file_bytes_max; /* the limit on file sizes at the open */
    uint64_t free_min;
    bool spares_rows;
    bool durable;
    bool is_shared_by_machines; /* other machines share its rows; the index belongs to this machine */
    hth_index_needed_fn is_needed;
    void *user_data;
    char directory[FILE_TIER_PATH_BYTES];
    char index_directory[FILE_TIER_PATH_BYTES]; /* holds index/ and owners/ */
    char rows[FILE_TIER_PATH_BYTES];
    char owners[FILE_TIER_PATH_BYTES];
    char temporary[FILE_TIER_PATH_BYTES];
    char quarantine[FILE_TIER_PATH_BYTES];
    char pins[FILE_TIER_PATH_BYTES]; /* may be missing */
    hth_pin_folder pin_folder;
    hth_index *index;
    hth_publisher publisher;

    /* Guards the fields below. Innermost lock. */
    pthread_mutex_t notes_lock;
    file_tier_notes *pending;
    seen_file seen[FILE_TIER_SEEN_MAX]; /* a ring of the last rows read; n_seen selects the next place */
    uint64_t n_seen;

    /* Guards the fields below, and the claim and the end of a rebuild. The scan itself runs without it. */
    pthread_mutex_t scan_lock;
    pthread_cond_t scan_ended;
    pthread_t scanner;
    bool scanner_exists;  /* started but not joined yet */
    bool scanner_is_busy; /* started but not finished yet */
    bool rebuild_wanted;
    _Atomic bool is_scanning; /* copy of scanner_is_busy, to read without the lock */
    _Atomic bool stop;

    _Atomic uint64_t bytes_known; /* bytes of all rows when the index was last asked; used when the index fails */
    _Atomic uint64_t n_rows_written;
    _Atomic uint64_t n_bytes_written;
    _Atomic uint64_t n_rows_evicted;
    _Atomic uint64_t n_rows_quarantined;
    _Atomic uint64_t n_rows_adopted;
};

/* ---- directories ---- */

static bool join(char *path, const char *directory, const char *name)
{
    int n = snprintf(path, FILE_TIER_PATH_BYTES, "%s/%s", directory, name);

    return n > 0 && n < FILE_TIER_PATH_BYTES;
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
    char parent[FILE_TIER_PATH_BYTES];
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
    char part[FILE_TIER_PATH_BYTES];
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

/*
 * Recreate directories that were removed while the tier was open. A later call retries those that failed. A process
 * that is restricted to the tier's own directory cannot recreate that directory itself. Writer threads only.
 */
static void restore_directories(hth_file_tier *tier)
{
    char index[FILE_TIER_PATH_BYTES];
    hth_fs_stat st;

    if (hth_fs_stat_path(tier->fs, tier->rows, &st) != -ENOENT &&
        hth_fs_stat_path(tier->fs, tier->temporary, &st) != -ENOENT)
        return;
    if (make_parts(tier, NULL) == HEARTH_OK &&
        make_part(tier, tier->index_directory, "index", index, NULL) == HEARTH_OK)
        hth_warn(tier->log, "the cache in '%s' was removed while it was in use; it begins anew", tier->directory);
}

/* ---- monitoring ---- */

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

/* ---- pins ---- */

const hth_pin_folder *hth_file_tier_pin_folder(const hth_file_tier *tier)
{
    return &tier->pin_folder;
}

bool hth_file_tiers_have_pin(hth_file_tier *const *tiers, size_t n, const hth_key *key)
{
    for (size_t i = 0; i < n; i++)
        if (hth_pin_file_exists(&tiers[i]->pin_folder, key))
            return true;
    return false;
}

uint64_t hth_file_tier_quota(hth_file_tier *tier)
{
    uint64_t noted = 0;

    if (tier->bytes_max != UINT64_MAX)
        return tier->bytes_max;
    return hth_index_quota(tier->index, &noted, NULL) == HEARTH_OK && noted > 0 ? noted : UINT64_MAX;
}

/*
 * ---- notes of readers, which a writer thread writes to the index ----
 *
 * Readers never write to the index. They note a use, a row that was found only by its name, a row that the index did
 * not know and that must be looked for by name, or a row that the index knows but whose file is gone. The notes are
 * bounded. A lost note costs only some accuracy of the eviction order or another file lookup.
 */

/* Memory is touched only as notes are made. NULL without memory. */
static file_tier_notes *notes_new(void)
{
    file_tier_notes *n = malloc(sizeof(*n));

    if (n) {
        n->n_uses = n->n_found = n->n_missed = n->n_lost = n->n_sightings = 0;
        memset(n->is_missed, 0, sizeof(n->is_missed));
    }
    return n;
}

static void note_found(hth_file_tier *tier, const hth_row_id *id)
{
    pthread_mutex_lock(&tier->notes_lock);
    if (tier->pending->n_found < FOUND_MAX)
        tier->pending->found[tier->pending->n_found++] = *id;
    pthread_mutex_unlock(&tier->notes_lock);
}

/* Note a row that the index does not know and whose file has not been looked for. */
static void note_missed(hth_file_tier *tier, const hth_row_id *id)
{
    size_t place = id->key.bytes[0] % MISSED_MAX;

    pthread_mutex_lock(&tier->notes_lock);
    tier->pending->n_missed += !tier->pending->is_missed[place];
    tier->pending->is_missed[place] = true;
    tier->pending->missed[place] = *id;
    pthread_mutex_unlock(&tier->notes_lock);
}

static void note_lost(hth_file_tier *tier, const hth_row_id *id)
{
    pthread_mutex_lock(&tier->notes_lock);
    if (tier->pending->n_lost < LOST_MAX)
        tier->pending->lost[tier->pending->n_lost++] = *id;
    pthread_mutex_unlock(&tier->notes_lock);
}

/* Note the file that a row was read from. */
static void note_seen(hth_file_tier *tier, const hth_row_id *id, const hth_fs_stat *st)
{
    pthread_mutex_lock(&tier->notes_lock);
    tier->seen[tier->n_seen++ % FILE_TIER_SEEN_MAX] =
        (seen_file){ .id = *id, .inode = st->inode, .changed_ns = st->changed_ns };
    pthread_mutex_unlock(&tier->notes_lock);
}

/* The last read of a row in seen; NULL if it is no longer known. Under notes_lock. */
static const seen_file *find_seen_locked(const hth_file_tier *tier, const hth_row_id *id)
{
    for (uint64_t i = 0; i < FILE_TIER_SEEN_MAX && i < tier->n_seen; i++) {
        const seen_file *s = &tier->seen[(tier->n_seen - 1 - i) % FILE_TIER_SEEN_MAX];

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

/* True when this is the file that the row was last read from, or when that is no longer known. */
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

void hth_file_tier_touch(hth_file_tier *tier, const hth_row_id *ids, size_t n)
{
    uint64_t now = hth_os_unix_seconds();
    file_tier_notes *pending;

    pthread_mutex_lock(&tier->notes_lock);
    pending = tier->pending; /* a writer thread replaces them under the lock, and frees them */
    for (size_t i = 0; i < n && pending->n_uses < USES_MAX; i++)
        pending->uses[pending->n_uses++] = (hth_index_use){ .id = ids[i], .last_used_time = now, .hits = 1 };
    pthread_mutex_unlock(&tier->notes_lock);
}

void hth_file_tier_note_beginning(hth_file_tier *tier, const hth_index_sighting *sighting)
{
    file_tier_notes *pending;

    pthread_mutex_lock(&tier->notes_lock);
    pending = tier->pending; /* as in hth_file_tier_touch */
    if (pending->n_sightings < SIGHTINGS_MAX)
        pending->sightings[pending->n_sightings++] = *sighting;
    pthread_mutex_unlock(&tier->notes_lock);
}

/* ---- finding rows, by the index or by their names ---- */

bool hth_file_tier_path(const hth_file_tier *tier, const hth_row_id *id, char *path, size_t capacity)
{
    return hth_row_file_path(tier->rows, id, path, capacity);
}

/* Look by name for a row that the index does not know. */
static bool find_file(hth_file_tier *tier, const hth_row_id *id, hth_row_meta *out)
{
    char path[FILE_TIER_PATH_BYTES];

    if (!hth_file_tier_path(tier, id, path, sizeof(path)) ||
        hth_row_file_meta(tier->fs, path, id, out, NULL) != HEARTH_OK)
        return false;
    note_found(tier, id);
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

/*
 * Does the index know every row with a file? It does not know rows of other machines, nor all rows during a scan of the
 * files.
 */
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
        note_missed(tier, id);
        return false;
    }
    if (find_file(tier, id, out))
        return true;
    (*n_names)--;
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
                              char path[FILE_TIER_PATH_BYTES], hearth_error *err)
{
    hearth_status status;

    if (!hth_file_tier_path(tier, id, path, FILE_TIER_PATH_BYTES))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", tier->directory);
    status = hth_row_file_open(tier->fs, path, fd_out, stat_out, err);
    if (status == HEARTH_NOT_FOUND)
        note_lost(tier, id);
    return status;
}

hearth_status hth_file_tier_open_file(hth_file_tier *tier, const hth_row_id *id, int *fd_out, size_t *n_bytes_out,
                                      hearth_error *err)
{
    char path[FILE_TIER_PATH_BYTES];
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
    char path[FILE_TIER_PATH_BYTES];
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

/* ---- writing notes to the index ---- */

static int compare_uses(const void *a, const void *b)
{
    const hth_index_use *left = a, *right = b;

    return hth_row_id_compare(&left->id, &right->id);
}

/* Merge all uses of each row into one; returns the new count. */
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

/* Store the time of a use with the file. That changes the file, so note that it is still the one that was read. */
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
    char path[FILE_TIER_PATH_BYTES];

    n = merge_uses(uses, n);
    if (n == 0)
        return;
    (void)hth_index_touch(tier->index, uses, n, NULL); /* a failing index has warned; the files also store the time */
    for (size_t i = 0; i < n; i++)
        if (hth_file_tier_path(tier, &uses[i].id, path, sizeof(path)))
            set_last_used(tier, &uses[i].id, path, uses[i].last_used_time);
}

enum { ADOPTED_MAX = 64 }; /* rows per transaction */

/* Rows to adopt together. */
typedef struct adoption {
    hth_row_head heads[ADOPTED_MAX];
    size_t n;
    bool synced[256]; /* folders that were synced: a process may have died after it linked a row, before the sync */
} adoption;

static void adopt(hth_file_tier *tier, adoption *a)
{
    hth_row_files files = hth_file_tier_files(tier);
    size_t n_adopted = 0;

    if (a->n > 0 &&
        hth_index_adopt(tier->index, a->heads, a->n, hth_row_file_is_there, &files, &n_adopted, NULL) == HEARTH_OK)
        atomic_fetch_add(&tier->n_rows_adopted, n_adopted);
    else
        for (size_t i = 0; i < a->n; i++)
            note_found(tier, &a->heads[i].meta.id); /* for when the index works again */
    a->n = 0;
}

/* Adopt a row if it has a file and the index still does not know it. */
static void adopt_by_name(hth_file_tier *tier, adoption *a, const hth_row_id *id)
{
    char path[FILE_TIER_PATH_BYTES];
    bool is_known = false;

    if ((hth_index_get(tier->index, id, NULL, &is_known, NULL) == HEARTH_OK && is_known) ||
        !hth_file_tier_path(tier, id, path, sizeof(path)) ||
        hth_row_file_head(tier->fs, path, id, &a->heads[a->n], NULL) != HEARTH_OK)
        return;
    if (!a->synced[id->key.bytes[0]])
        (void)hth_publish_sync_folder(&tier->publisher, id); /* on failure a crash may lose the row */
    a->synced[id->key.bytes[0]] = true;
    if (++a->n == ADOPTED_MAX)
        adopt(tier, a);
}

static void bring_unknown(hth_file_tier *tier, const file_tier_notes *noted)
{
    adoption *a = noted->n_found + noted->n_missed > 0 ? calloc(1, sizeof(*a)) : NULL;

    if (!a)
        return; /* without memory: later lookups note the rows again */
    for (size_t i = 0; i < noted->n_found; i++)
        adopt_by_name(tier, a, &noted->found[i]);
    for (size_t i = 0; i < MISSED_MAX; i++)
        if (noted->is_missed[i])
            adopt_by_name(tier, a, &noted->missed[i]);
    adopt(tier, a);
    free(a);
}

/* Write the notes to the index. Writer threads only. */
static void bring_notes(hth_file_tier *tier)
{
    hth_row_files files = hth_file_tier_files(tier);
    file_tier_notes *noted, *empty = notes_new();

    if (!empty)
        return; /* the notes stay for the next time */
    pthread_mutex_lock(&tier->notes_lock);
    noted = tier->pending;
    tier->pending = empty;
    pthread_mutex_unlock(&tier->notes_lock);

    bring_unknown(tier, noted);
    if (noted->n_lost > 0) /* if it fails, the next read notes them again */
        (void)hth_index_remove_lost(tier->index, noted->lost, noted->n_lost, hth_row_file_is_gone, &files, NULL, NULL);
    if (noted->n_sightings > 0) /* if it fails, a later miss has one explanation less */
        (void)hth_index_note_beginnings(tier->index, noted->sightings, noted->n_sightings, NULL);
    bring_uses(tier, noted->uses, noted->n_uses);
    free(noted);
}

/* True when there are notes to write to the index, or at least n_uses_min uses. */
static bool has_notes(hth_file_tier *tier, size_t n_uses_min)
{
    bool has;

    pthread_mutex_lock(&tier->notes_lock);
    has = tier->pending->n_uses >= n_uses_min || tier->pending->n_found > 0 || tier->pending->n_lost > 0 ||
          tier->pending->n_sightings == SIGHTINGS_MAX ||
          (n_uses_min == 1 && (tier->pending->n_sightings > 0 || tier->pending->n_missed > 0));
    pthread_mutex_unlock(&tier->notes_lock);
    return has;
}

/* ---- removing single rows: bad, superseded or unwanted ones ---- */

enum { TAKEN_DEADLINE_S = 60 }; /* time to move or remove one file */

/* Remove the file or directory with a row's name, under the row's reservation. 0, -ENOENT or -errno. */
static int remove_file(hth_file_tier *tier, const hth_row_id *id, const char *path)
{
    int rc = hth_fs_remove(tier->fs, path);

    if (rc == -ENOTEMPTY || rc == -EEXIST || rc == -EISDIR)
        rc = hth_quarantine_row(tier->fs, tier->quarantine, path, id);
    return rc;
}

/* A reserved row: no other process or thread may change it. */
typedef struct taken_row {
    const hth_row_id *id;
    bool is_reserved; /* false where the index does not work */
    bool was_known;
    hth_row_meta meta;
    char path[FILE_TIER_PATH_BYTES];
} taken_row;

/* False: another process or thread has it, or the path is too long. */
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

/* End with the file gone; the index remembers gone (may be NULL). */
static void end_gone(hth_file_tier *tier, const taken_row *row, const hth_gone *gone)
{
    hth_row_meta meta = { .id = *row->id };

    if (!row->is_reserved)
        return;
    if (row->was_known)
        meta = row->meta;
    if (gone) /* here and below: on failure we can still take the row again */
        (void)hth_index_release_gone(tier->index, &meta, gone, NULL);
    else
        (void)hth_index_release(tier->index, row->id, 1, NULL);
}

/* The head of a row's file. */
static bool read_head(hth_file_tier *tier, const hth_row_id *id, hth_row_head *out)
{
    char path[FILE_TIER_PATH_BYTES];

    return hth_file_tier_path(tier, id, path, sizeof(path)) &&
           hth_row_file_head(tier->fs, path, id, out, NULL) == HEARTH_OK;
}

/* Count a row again that we hold and whose file stays, as the file is now and with the known uses. */
static void put_back(hth_file_tier *tier, const hth_row_meta *known)
{
    hth_row_head now;

    if (read_head(tier, &known->id, &now)) {
        now.meta.hit_count = known->hit_count;
        now.meta.last_used_time = known->last_used_time;
    } else {
        now = (hth_row_head){ .meta = *known };
    }
    (void)hth_index_publish(tier->index, &now, 1, NULL); /* on failure the row is found by its name */
}

/* End with the file kept. */
static void end_kept(hth_file_tier *tier, const taken_row *row)
{
    hth_row_head now;

    if (!row->is_reserved)
        return;
    if (row->was_known)
        put_back(tier, &row->meta);
    else if (read_head(tier, row->id, &now))
        (void)hth_index_publish(tier->index, &now, 1, NULL); /* likewise */
    else
        end_gone(tier, row, NULL);
}

typedef enum verdict {
    VERDICT_BAD,
    VERDICT_SOUND,
    VERDICT_GONE,
    VERDICT_UNKNOWN, /* not enough memory to decide */
} verdict;

/* Read a file again and judge it. */
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

/* Move a bad file to the quarantine or, failing that, remove it. 0, -ENOENT, or -errno when it stays. */
static int set_aside(hth_file_tier *tier, const taken_row *row)
{
    int rc = hth_quarantine_row(tier->fs, tier->quarantine, row->path, row->id);

    if (rc != 0 && rc != -ENOENT)
        rc = hth_fs_remove(tier->fs, row->path); /* no copy is kept, but it will not be found again */
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

/* Is the file not the row of its name? */
static bool is_unsound(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes, void *user_data)
{
    hth_kvc_fault fault;
    hth_kvc_info info;

    (void)user_data;
    if (!hth_kvc_parse(bytes, n_bytes, &id->key, &info, &fault))
        return fault.reason != HTH_KVC_NO_MEMORY;
    return !hth_kvc_is_row(&info, id);
}

/* A sound file is bad, too, when it is the very file that was read and then refused. */
static bool is_suspect(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes, void *user_data)
{
    hth_file_tier *tier = user_data;
    char path[FILE_TIER_PATH_BYTES];
    hth_fs_stat st;

    if (is_unsound(id, bytes, n_bytes, NULL))
        return true;
    return hth_file_tier_path(tier, id, path, sizeof(path)) && hth_fs_stat_path(tier->fs, path, &st) == 0 &&
           was_seen(tier, id, &st);
}

bool hth_file_tier_quarantine(hth_file_tier *tier, const hth_row_id *id, const char *reason)
{
    return quarantine(tier, id, is_suspect, tier, reason) != REMOVAL_FAILED;
}

bool hth_file_tier_review(hth_file_tier *tier, const hth_row_id *id)
{
    return quarantine(tier, id, is_unsound, NULL, "it is not the row of its name") != REMOVAL_FAILED;
}

hearth_status hth_file_tier_remove_unwanted(hth_file_tier *tier, const hth_row_id *id, const hth_unwanted *unwanted,
                                            hearth_error *err)
{
    hth_gone gone = { .reason = HTH_GONE_SUPERSEDED, .time = hth_os_unix_seconds() };
    bool has_successor = unwanted && unwanted->successor;
    taken_row row;
    int rc;

    if (!hth_file_tier_path(tier, id, row.path, sizeof(row.path)))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", tier->directory);
    if (!take_row(tier, id, &row))
        return hth_fail(err, HEARTH_BUSY, "the row '%s' is being written or removed by another process; try again",
                        row.path);
    hth_fs_step(tier->fs, "taken");
    /* Look for a pin after the row was taken, as eviction does: see file_tier_pins.c. */
    if (unwanted && hth_file_tiers_have_pin(unwanted->roots, unwanted->n_roots, &id->key)) {
        end_kept(tier, &row);
        return hth_fail(err, HEARTH_NOT_FOUND, "the row '%s' is pinned", row.path);
    }
    rc = remove_file(tier, id, row.path);
    if (rc != 0 && rc != -ENOENT) {
        end_kept(tier, &row);
        return hth_fail_errno(err, -rc, "cannot remove the row '%s'", row.path);
    }
    if (!row.was_known && rc == -ENOENT) {
        end_gone(tier, &row, NULL);
        return hth_fail(err, HEARTH_NOT_FOUND, "there is no row '%s'", row.path);
    }
    if (has_successor)
        hth_past_name_of(unwanted->successor, &gone.successor);
    end_gone(tier, &row, has_successor ? &gone : NULL);
    return HEARTH_OK;
}

hearth_status hth_file_tier_remove(hth_file_tier *tier, const hth_row_id *id, hearth_error *err)
{
    return hth_file_tier_remove_unwanted(tier, id, NULL, err);
}

/* ---- room for new rows: the quota, the free space of the device, and the rows evicted for them ---- */

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
 * Remove the files of rows that the index has evicted. A row that was pinned since then is put back, and so are its
 * ancestors, which come later in rows. A row that cannot be removed is put back as the newest.
 */
static removed_count remove_evicted(hth_file_tier *tier, hth_row_meta *rows, size_t n)
{
    hth_row_meta kept[EVICT_BATCH_ROWS];
    hth_row_id gone[EVICT_BATCH_ROWS];
    char path[FILE_TIER_PATH_BYTES];
    removed_count count = { .n_gone = 0 };
    size_t n_kept = 0;

    assert(n <= EVICT_BATCH_ROWS);
    for (size_t i = 0; i < n; i++) {
        int rc = -ENAMETOOLONG;
        bool ours = true;
        bool stays = bears(&rows[i], kept, n_kept) || hth_pin_file_exists(&tier->pin_folder, &rows[i].id.key) ||
                     (tier->is_needed && tier->is_needed(&rows[i], tier->user_data));

        if (stays)
            kept[n_kept++] = rows[i];
        /*
         * A process that was stopped for a long time has lost the reservation, and the file may belong to another
         * process.
         */
        if (hth_index_reservation_is_ours(tier->index, &rows[i].id, &ours, NULL) == HEARTH_OK && !ours) {
            rc = -ENOENT;
        } else if (stays) {
            put_back(tier, &rows[i]);
            continue;
        } else if (hth_file_tier_path(tier, &rows[i].id, path, sizeof(path))) {
            rc = remove_file(tier, &rows[i].id, path);
        }
        if (rc == 0 || rc == -ENOENT) {
            gone[count.n_gone++] = rows[i].id;
        } else {
            count.n_failed++;
            rows[i].last_used_time = hth_os_unix_seconds();
            put_back(tier, &rows[i]);
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
        status = hth_pins_read(&tier->pin_folder, &speaker.pins, err);
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

    bring_notes(tier); /* uses that the index does not know yet count, too */
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
 * The index counts towards the quota only beyond INDEX_FREE_BYTES, so that a small quota is all for rows. It counts for
 * at most a quarter of the quota, because its file never shrinks and half of the quota may be pinned: a cache whose
 * quota was lowered could otherwise keep no rows.
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

/* Evict n_bytes; false when no row was evicted. *status_out: whether the new row may still be written. */
static bool give_back(hth_file_tier *tier, const hth_row_meta *meta, uint64_t n_bytes, hearth_status *status_out,
                      hearth_error *err)
{
    hth_index_totals totals;
    uint64_t n_evicted = 0;

    if (tier->spares_rows || hth_index_totals_get(tier->index, &totals, NULL) != HEARTH_OK)
        return false; /* without an index the least recently used rows are unknown */
    *status_out = evict_for(tier, meta, totals.bytes > n_bytes ? totals.bytes - n_bytes : 0, &n_evicted, err);
    return n_evicted > 0;
}

/*
 * The bytes that the device lacks for a row and for free_min. If the row would not fit even without any of our rows:
 * only the bytes that the device lacks for free_min, so that other programs get that space back.
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
 * The tier's own rows go first. A row evicts the bytes it lacks, and once more in case another writer took them. It
 * does not continue until the device reports room, because some devices report removed files much later.
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

/* Evict until a row fits; a row that is already there fits. HEARTH_FULL if it cannot fit. */
static hearth_status make_room(hth_file_tier *tier, const hth_row_meta *meta, size_t n_bytes, hearth_error *err)
{
    bool is_there = false;
    hearth_status status = make_room_in_quota(tier, meta, n_bytes, &is_there, err);

    return status == HEARTH_OK && !is_there ? make_room_on_device(tier, meta, n_bytes, err) : status;
}

/* Evict for a row that the device refused although it reported room. False: nothing was evicted, or that failed. */
static bool make_room_again(hth_file_tier *tier, const hth_row_meta *meta, size_t n_bytes)
{
    hearth_status status = HEARTH_OK;

    return give_back(tier, meta, n_bytes, &status, NULL) && status == HEARTH_OK;
}

enum { FLUSH_AT = 4096 }; /* number of noted uses after which a busy writer writes them to the index */

/* ---- writing ---- */

hearth_status hth_file_tier_publish(hth_file_tier *tier, const hth_row_meta *meta, const uint8_t *bytes, size_t n_bytes,
                                    bool *published_out, hearth_error *err)
{
    hth_publish_result result = HTH_PUBLISH_EXISTED;
    hearth_error why = { .message = "" };
    hearth_status status;
    hth_row_meta written;
    bool is_known = false;

    if (has_notes(tier, FLUSH_AT))
        bring_notes(tier);
    if (n_bytes > tier->file_bytes_max) /* no row is evicted for a row that cannot be written */
        return hth_fail_errno(err, EFBIG, "a row of %zu bytes is not written to '%s'", n_bytes, tier->directory);
    status = make_room(tier, meta, n_bytes, &why);
    if (status != HEARTH_OK) {
        if (err)
            *err = why;
        return status;
    }
    status = hth_publish(&tier->publisher, meta, bytes, n_bytes, &result, &is_known, err);
    if (status == HEARTH_FULL && make_room_again(tier, meta, n_bytes))
        status = hth_publish(&tier->publisher, meta, bytes, n_bytes, &result, &is_known, err);
    /*
     * If the index could not be updated, note the row for later, so that its totals match the files. Publishing fails
     * when the row's name cannot be made durable, but the row is there.
     */
    if (!is_known && (status != HEARTH_OK || result != HTH_PUBLISH_TAKEN) &&
        (hth_index_get(tier->index, &meta->id, NULL, &is_known, NULL) != HEARTH_OK || !is_known))
        (void)find_file(tier, &meta->id, &written);
    if (status != HEARTH_OK)
        return status;
    if (result == HTH_PUBLISH_WRITTEN) {
        atomic_fetch_add(&tier->n_rows_written, 1);
        atomic_fetch_add(&tier->n_bytes_written, n_bytes);
        atomic_fetch_add(&tier->bytes_known, n_bytes);
    } else if (result == HTH_PUBLISH_ADOPTED) {
        atomic_fetch_add(&tier->n_rows_adopted, 1);
    }
    if (published_out)
        *published_out = result == HTH_PUBLISH_WRITTEN;
    return HEARTH_OK;
}

/* ---- the tier's thread that scans the files: at the start, and again after the index was replaced ---- */

enum { FOREIGN_S = 24 * 60 * 60 }; /* age at which another machine's temporary file counts as abandoned */

static void set_busy_locked(hth_file_tier *tier, bool is_busy)
{
    tier->scanner_is_busy = is_busy;
    atomic_store(&tier->is_scanning, is_busy);
}

/* A row of another version is not damaged; its head just cannot be read here. */
static bool is_damaged(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes, void *user_data)
{
    hth_kvc_fault fault;
    hth_kvc_info info;

    (void)user_data;
    return !hth_kvc_parse(bytes, n_bytes, &id->key, &info, &fault) && fault.reason != HTH_KVC_NO_MEMORY &&
           fault.reason != HTH_KVC_UNSUPPORTED_VERSION;
}

static bool set_damaged_aside(const hth_row_id *id, void *user_data)
{
    return hth_file_tier_quarantine_if(user_data, id, is_damaged, NULL, "its head is damaged");
}

static hth_scan scan_of(hth_file_tier *tier)
{
    return (hth_scan){
        .rows = hth_file_tier_files(tier),
        .log = tier->log,
        .index = tier->index,
        .temporary_directory = tier->temporary,
        .durable = tier->durable,
        .foreign_s = tier->is_shared_by_machines ? FOREIGN_S : 0,
        .stop = &tier->stop,
        .damaged = set_damaged_aside,
        .damaged_user_data = tier,
    };
}

/* Fill the index; true when the scan was complete. The caller then reports that to the index. */
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
    else /* without an index the quota is enforced by the sum of the file sizes */
        complete = fill_index(tier, &scan) && rebuild;
    note_quota(tier);

    pthread_mutex_lock(&tier->scan_lock);
    if (complete && !tier->rebuild_wanted)          /* otherwise the filled index was replaced in the meantime */
        (void)hth_index_rebuilt(tier->index, NULL); /* on failure the next start fills it again */
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
        if (!rebuild)
            rebuild =
                hth_index_claim_rebuild(tier->index); /* in this thread, because it may wait for another process */
        scan_once(tier, rebuild);
        pthread_mutex_lock(&tier->scan_lock);
    } while (tier->rebuild_wanted && !atomic_load(&tier->stop));
    set_busy_locked(tier, false);
    pthread_cond_broadcast(&tier->scan_ended);
    pthread_mutex_unlock(&tier->scan_lock);
    return NULL;
}

/* Scan the files, by the thread that is running or by a new one. 0 or an errno. */
static int start_scan_locked(hth_file_tier *tier, bool rebuild)
{
    int failed;

    tier->rebuild_wanted = tier->rebuild_wanted || rebuild;
    if (tier->scanner_is_busy)
        return 0;
    if (tier->scanner_exists)
        (void)pthread_join(tier->scanner, NULL); /* it has released the lock for the last time, so this does not wait */
    set_busy_locked(tier, true);
    failed = pthread_create(&tier->scanner, NULL, scan_files, tier);
    tier->scanner_exists = failed == 0;
    set_busy_locked(tier, failed == 0);
    return failed;
}

bool hth_file_tier_rebuild_index(hth_file_tier *tier, hth_scan_progress_fn progress, void *user_data)
{
    hth_scan scan = scan_of(tier);
    bool complete = false;

    scan.progress = progress;
    scan.user_data = user_data;
    /* Take the place of the tier's own thread, which then does not start. */
    pthread_mutex_lock(&tier->scan_lock);
    while (tier->scanner_is_busy)
        pthread_cond_wait(&tier->scan_ended, &tier->scan_lock);
    set_busy_locked(tier, true);
    pthread_mutex_unlock(&tier->scan_lock);

    if (hth_index_clear(tier->index, NULL) == HEARTH_OK) {
        complete = fill_index(tier, &scan);
        note_quota(tier);
    }

    pthread_mutex_lock(&tier->scan_lock);
    if (tier->rebuild_wanted) { /* the index was replaced in the meantime */
        complete = false;
        set_busy_locked(tier, false);
        (void)start_scan_locked(tier, true); /* without a thread the index stays incomplete until the next start */
    } else {
        if (complete)
            complete = hth_index_rebuilt(tier->index, NULL) == HEARTH_OK;
        else
            hth_index_rebuild_failed(tier->index);
        set_busy_locked(tier, false);
    }
    pthread_cond_broadcast(&tier->scan_ended);
    pthread_mutex_unlock(&tier->scan_lock);
    return complete;
}

void hth_file_tier_settle(hth_file_tier *tier)
{
    pthread_mutex_lock(&tier->scan_lock);
    while (tier->scanner_is_busy)
        pthread_cond_wait(&tier->scan_ended, &tier->scan_lock);
    pthread_mutex_unlock(&tier->scan_lock);
}

void hth_file_tier_maintain(hth_file_tier *tier)
{
    restore_directories(tier);
    pthread_mutex_lock(&tier->scan_lock);
    if (hth_index_maintain(tier->index))
        (void)start_scan_locked(tier, true); /* without a thread the index stays incomplete until the next start */
    pthread_mutex_unlock(&tier->scan_lock);
    if (has_notes(tier, 1)) /* also for an index that was just opened or replaced */
        bring_notes(tier);
}

/* ---- opening ---- */

static hearth_status open_index(hth_file_tier *tier, hearth_error *err)
{
    char path[FILE_TIER_PATH_BYTES];
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
        .rows = hth_file_tier_files(tier),
        .log = tier->log,
        .index = tier->index,
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
    failed = start_scan_locked(tier, false);
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
    tier->pin_folder = (hth_pin_folder){ .fs = tier->fs, .directory = tier->pins, .durable = tier->durable };
    tier->is_needed = options->is_needed;
    tier->user_data = options->user_data;
    if (!*options->directory ||
        snprintf(tier->directory, FILE_TIER_PATH_BYTES, "%s", options->directory) >= FILE_TIER_PATH_BYTES) {
        status = hth_fail(err, HEARTH_MISUSE, "the cache directory '%.200s' is no usable path", options->directory);
        goto out;
    }
    if (snprintf(tier->index_directory, FILE_TIER_PATH_BYTES, "%s",
                 options->index_directory ? options->index_directory : tier->directory) >= FILE_TIER_PATH_BYTES) {
        status = hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", options->index_directory);
        goto out;
    }
    tier->is_shared_by_machines = strcmp(tier->index_directory, tier->directory) != 0;
    tier->pending = notes_new();
    if (!tier->pending) {
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
        (void)pthread_join(tier->scanner, NULL); /* no other thread joins it: the tier is no longer in use */
    hth_index_forget_log(tier->index, tier->log);
    hth_index_close(tier->index);
    free(tier->pending);
    pthread_cond_destroy(&tier->scan_ended);
    pthread_mutex_destroy(&tier->scan_lock);
    pthread_mutex_destroy(&tier->notes_lock);
    free(tier);
}
