/*
 * file_tier_inside.h - what the files of the file tier share
 *
 *   file_tier.c           the directories, opening, publishing
 *   file_tier_scanner.c   the thread that goes through files
 *   file_tier_reading.c   lookups and reads
 *   file_tier_notes.c     what readers noticed, and bringing it to the index
 *   file_tier_room.c      quota, free space and eviction
 *   file_tier_removal.c   quarantine and removal
 */
#ifndef HTH_CACHE_FILE_TIER_INSIDE_H
#define HTH_CACHE_FILE_TIER_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache/file_tier.h"

enum { HTH_FILE_TIER_PATH_BYTES = 4096, HTH_FILE_TIER_SEEN_MAX = 256 };

/* Which file a row's bytes came from. */
typedef struct hth_seen_file {
    hth_row_id id;
    uint64_t inode;
    uint64_t changed_ns;
} hth_seen_file;

/* What readers noticed. */
typedef struct hth_file_tier_notes {
    hth_index_use *uses; /* [USES_MAX] */
    size_t n_uses;
    hth_row_id *found; /* [FOUND_MAX], rows that the index did not know and that were found by their names */
    size_t n_found;
    hth_row_id *missed; /* [MISSED_MAX], each in the place of its key: rows that were not looked for by their names */
    bool *is_missed;    /* [MISSED_MAX] */
    size_t n_missed;
    hth_row_id *lost; /* [LOST_MAX], rows whose file is gone */
    size_t n_lost;
    hth_index_sighting *sightings; /* [SIGHTINGS_MAX], beginnings of prompts that were kept */
    size_t n_sightings;
} hth_file_tier_notes;

struct hth_file_tier {
    /* Fixed after opening. */
    const hth_fs *fs;
    const hth_log *log;
    uint64_t bytes_max;
    uint64_t free_min;
    bool spares_rows;
    bool durable;
    bool is_shared_by_machines; /* its rows; the index is this one's */
    hth_index_needed_fn is_needed;
    void *user_data;
    char directory[HTH_FILE_TIER_PATH_BYTES];
    char index_directory[HTH_FILE_TIER_PATH_BYTES]; /* of index/ and owners/ */
    char rows[HTH_FILE_TIER_PATH_BYTES];
    char owners[HTH_FILE_TIER_PATH_BYTES];
    char temporary[HTH_FILE_TIER_PATH_BYTES];
    char quarantine[HTH_FILE_TIER_PATH_BYTES];
    char pins[HTH_FILE_TIER_PATH_BYTES]; /* need not exist */
    hth_index *index;
    hth_publisher publisher;

    /* Guards the fields below. Innermost lock. */
    pthread_mutex_t notes_lock;
    hth_file_tier_notes pending;
    hth_seen_file seen[HTH_FILE_TIER_SEEN_MAX]; /* the last rows read, the place of n_seen comes next */
    uint64_t n_seen;

    /* Guards the fields below, and the claim and the end of a rebuild. The scan itself runs without it. */
    pthread_mutex_t scan_lock;
    pthread_cond_t scan_ended;
    pthread_t scanner;
    bool scanner_exists;  /* started and not joined yet */
    bool scanner_is_busy; /* started and not at its end yet */
    bool rebuild_wanted;
    _Atomic bool is_scanning; /* as scanner_is_busy, for who has not the lock */
    _Atomic bool stop;

    _Atomic uint64_t bytes_known; /* in rows, when the index was last asked; for when it cannot be */
    _Atomic uint64_t n_rows_written;
    _Atomic uint64_t n_bytes_written;
    _Atomic uint64_t n_rows_evicted;
    _Atomic uint64_t n_rows_quarantined;
    _Atomic uint64_t n_rows_adopted;
};

/* ---- the thread that goes through files ---- */

/* Have the files gone through, by the thread that is at it or a new one. 0 or an errno. */
int hth_file_tier_start_scan_locked(hth_file_tier *tier, bool rebuild);

/* ---- file_tier.c ---- */

/*
 * Make the directories anew where somebody removed them while the tier is open; what cannot be made is tried again. Where
 * the tier's own directory went, a process that was restricted to it cannot. Writer threads only.
 */
void hth_file_tier_restore_directories(hth_file_tier *tier);

/* ---- lookups ---- */

/* Look for a row that the index does not know by its name. */
bool hth_file_tier_find_file(hth_file_tier *tier, const hth_row_id *id, hth_row_meta *out);

/* ---- notes ---- */

bool hth_file_tier_notes_init(hth_file_tier_notes *n);
void hth_file_tier_notes_deinit(hth_file_tier_notes *n);
void hth_file_tier_note_found(hth_file_tier *tier, const hth_row_id *id);
/* A row that the index does not know, and whose file nobody has looked for. */
void hth_file_tier_note_missed(hth_file_tier *tier, const hth_row_id *id);
void hth_file_tier_note_lost(hth_file_tier *tier, const hth_row_id *id);
/* Which file a row was read from. */
void hth_file_tier_note_seen(hth_file_tier *tier, const hth_row_id *id, const hth_fs_stat *st);
/* Is this the file that the row was last read from? True where that is not known any more. */
bool hth_file_tier_was_seen(hth_file_tier *tier, const hth_row_id *id, const hth_fs_stat *st);
/* Is there something to bring, or so many uses? */
bool hth_file_tier_has_notes(hth_file_tier *tier, size_t n_uses_min);
/* Bring what was noted to the index. Writer threads only. */
void hth_file_tier_bring_notes(hth_file_tier *tier);

/* ---- room and removal ---- */

/* See that a new row fits, evicting what must go. HEARTH_FULL when it does not. */
hearth_status hth_file_tier_make_room(hth_file_tier *tier, const hth_row_meta *meta, size_t n_bytes, hearth_error *err);
/* Evict for a row that the device refused though it had room by its own account; false: nothing went for it. */
bool hth_file_tier_make_room_again(hth_file_tier *tier, const hth_row_meta *meta, size_t n_bytes);
/*
 * Count a row again that we hold and whose file stays, as what the file is now and with the uses that are known of it.
 */
void hth_file_tier_put_back(hth_file_tier *tier, const hth_row_meta *known);
/* Remove what has a row's name, under its reservation. 0, -ENOENT or -errno. */
int hth_file_tier_remove_file(hth_file_tier *tier, const hth_row_id *id, const char *path);

#endif
