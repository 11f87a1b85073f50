/*
 * file_tier_notes.c - notes of readers, which a writer thread writes to the index
 *
 * Readers never write to the index. They note a use, a row that only its name found, a row that the index did not know
 * and that is to be looked for by name, or a row that the index knows and whose file is gone. The notes are bounded. A
 * lost note costs a little order of eviction or another look at a file.
 */
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cache/file_tier_inside.h"

enum {
    USES_MAX = 16384,
    FOUND_MAX = 1024,
    MISSED_MAX = 256,
    LOST_MAX = 1024,
    SIGHTINGS_MAX = 256,
    ADOPTED_MAX = 64, /* rows per transaction */
};

bool hth_file_tier_notes_init(hth_file_tier_notes *n)
{
    *n = (hth_file_tier_notes){ .n_uses = 0 };
    n->uses = malloc(USES_MAX * sizeof(*n->uses));
    n->found = malloc(FOUND_MAX * sizeof(*n->found));
    n->missed = malloc(MISSED_MAX * sizeof(*n->missed));
    n->is_missed = calloc(MISSED_MAX, sizeof(*n->is_missed));
    n->lost = malloc(LOST_MAX * sizeof(*n->lost));
    n->sightings = malloc(SIGHTINGS_MAX * sizeof(*n->sightings));
    return n->uses && n->found && n->missed && n->is_missed && n->lost && n->sightings;
}

void hth_file_tier_notes_deinit(hth_file_tier_notes *n)
{
    free(n->uses);
    free(n->found);
    free(n->missed);
    free(n->is_missed);
    free(n->lost);
    free(n->sightings);
    *n = (hth_file_tier_notes){ .uses = NULL };
}

/* ---- noting ---- */

void hth_file_tier_note_found(hth_file_tier *tier, const hth_row_id *id)
{
    pthread_mutex_lock(&tier->notes_lock);
    if (tier->pending.n_found < FOUND_MAX)
        tier->pending.found[tier->pending.n_found++] = *id;
    pthread_mutex_unlock(&tier->notes_lock);
}

void hth_file_tier_note_missed(hth_file_tier *tier, const hth_row_id *id)
{
    size_t place = id->key.bytes[0] % MISSED_MAX;

    pthread_mutex_lock(&tier->notes_lock);
    tier->pending.n_missed += !tier->pending.is_missed[place];
    tier->pending.is_missed[place] = true;
    tier->pending.missed[place] = *id;
    pthread_mutex_unlock(&tier->notes_lock);
}

void hth_file_tier_note_lost(hth_file_tier *tier, const hth_row_id *id)
{
    pthread_mutex_lock(&tier->notes_lock);
    if (tier->pending.n_lost < LOST_MAX)
        tier->pending.lost[tier->pending.n_lost++] = *id;
    pthread_mutex_unlock(&tier->notes_lock);
}

void hth_file_tier_note_seen(hth_file_tier *tier, const hth_row_id *id, const hth_fs_stat *st)
{
    pthread_mutex_lock(&tier->notes_lock);
    tier->seen[tier->n_seen++ % HTH_FILE_TIER_SEEN_MAX] =
        (hth_seen_file){ .id = *id, .inode = st->inode, .changed_ns = st->changed_ns };
    pthread_mutex_unlock(&tier->notes_lock);
}

/* The last read of a row in seen; NULL when it is not known any more. Under notes_lock. */
static const hth_seen_file *find_seen_locked(const hth_file_tier *tier, const hth_row_id *id)
{
    for (uint64_t i = 0; i < HTH_FILE_TIER_SEEN_MAX && i < tier->n_seen; i++) {
        const hth_seen_file *s = &tier->seen[(tier->n_seen - 1 - i) % HTH_FILE_TIER_SEEN_MAX];

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

bool hth_file_tier_was_seen(hth_file_tier *tier, const hth_row_id *id, const hth_fs_stat *st)
{
    const hth_seen_file *s;
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
    hth_file_tier_notes *pending = &tier->pending;

    pthread_mutex_lock(&tier->notes_lock);
    for (size_t i = 0; i < n && pending->n_uses < USES_MAX; i++)
        pending->uses[pending->n_uses++] = (hth_index_use){ .id = ids[i], .last_used_time = now, .hits = 1 };
    pthread_mutex_unlock(&tier->notes_lock);
}

void hth_file_tier_note_beginning(hth_file_tier *tier, const hth_index_sighting *sighting)
{
    hth_file_tier_notes *pending = &tier->pending;

    pthread_mutex_lock(&tier->notes_lock);
    if (pending->n_sightings < SIGHTINGS_MAX)
        pending->sightings[pending->n_sightings++] = *sighting;
    pthread_mutex_unlock(&tier->notes_lock);
}

/* ---- bringing notes to the index ---- */

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

/* Store the time of a use with the file. The file changes by that, so note that it is still the one that was read. */
static void set_last_used(hth_file_tier *tier, const hth_row_id *id, const char *path, uint64_t time)
{
    hth_fs_stat before, after;
    bool seen = was_read(tier, id) && hth_fs_stat_path(tier->fs, path, &before) == 0 &&
                hth_file_tier_was_seen(tier, id, &before);

    if (hth_fs_set_mtime(tier->fs, path, time) == 0 && seen && hth_fs_stat_path(tier->fs, path, &after) == 0 &&
        after.inode == before.inode)
        hth_file_tier_note_seen(tier, id, &after);
}

static void bring_uses(hth_file_tier *tier, hth_index_use *uses, size_t n)
{
    char path[HTH_FILE_TIER_PATH_BYTES];

    n = merge_uses(uses, n);
    if (n == 0)
        return;
    (void)hth_index_touch(tier->index, uses, n, NULL); /* a failing index has warned; the files also store the time */
    for (size_t i = 0; i < n; i++)
        if (hth_file_tier_path(tier, &uses[i].id, path, sizeof(path)))
            set_last_used(tier, &uses[i].id, path, uses[i].last_used_time);
}

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
            hth_file_tier_note_found(tier, &a->heads[i].meta.id); /* for a time when the index works */
    a->n = 0;
}

/* Adopt a row if it has a file and the index still does not know it. */
static void adopt_by_name(hth_file_tier *tier, adoption *a, const hth_row_id *id)
{
    char path[HTH_FILE_TIER_PATH_BYTES];
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

static void bring_unknown(hth_file_tier *tier, const hth_file_tier_notes *noted)
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

void hth_file_tier_bring_notes(hth_file_tier *tier)
{
    hth_row_files files = hth_file_tier_files(tier);
    hth_file_tier_notes noted, empty;

    if (!hth_file_tier_notes_init(&empty)) {
        hth_file_tier_notes_deinit(&empty);
        return; /* the notes stay for the next time */
    }
    pthread_mutex_lock(&tier->notes_lock);
    noted = tier->pending;
    tier->pending = empty;
    pthread_mutex_unlock(&tier->notes_lock);

    bring_unknown(tier, &noted);
    if (noted.n_lost > 0) /* if it fails, the next read notes them again */
        (void)hth_index_remove_lost(tier->index, noted.lost, noted.n_lost, hth_row_file_is_gone, &files, NULL, NULL);
    if (noted.n_sightings > 0) /* if it fails, a later miss has one explanation less */
        (void)hth_index_note_beginnings(tier->index, noted.sightings, noted.n_sightings, NULL);
    bring_uses(tier, noted.uses, noted.n_uses);
    hth_file_tier_notes_deinit(&noted);
}

bool hth_file_tier_has_notes(hth_file_tier *tier, size_t n_uses_min)
{
    bool has;

    pthread_mutex_lock(&tier->notes_lock);
    has = tier->pending.n_uses >= n_uses_min || tier->pending.n_found > 0 || tier->pending.n_lost > 0 ||
          tier->pending.n_sightings == SIGHTINGS_MAX ||
          (n_uses_min == 1 && (tier->pending.n_sightings > 0 || tier->pending.n_missed > 0));
    pthread_mutex_unlock(&tier->notes_lock);
    return has;
}

void hth_file_tier_maintain(hth_file_tier *tier)
{
    hth_file_tier_restore_directories(tier);
    pthread_mutex_lock(&tier->scan_lock);
    if (hth_index_maintain(tier->index))
        (void)hth_file_tier_start_scan_locked(
            tier, true); /* without a thread the index stays incomplete until the next start */
    pthread_mutex_unlock(&tier->scan_lock);
    if (hth_file_tier_has_notes(tier, 1)) /* also for an index that was just opened or replaced */
        hth_file_tier_bring_notes(tier);
}
