/*
 * file_tier_inside.h - shared by the files of the file tier
 *
 *   file_tier.c           the directories, opening, publishing
 *   file_tier_scanner.c   the thread that scans the files
 *   file_tier_reading.c   lookups and reads
 *   file_tier_notes.c     the notes of readers, and writing them to the index
 *   file_tier_room.c      quota, free space and eviction
 *   file_tier_removal.c   quarantine and removal
 */
#ifndef HTH_CACHE_FILE_TIER_INSIDE_H
#define HTH_CACHE_FILE_TIER_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache/file_tier.h"

enum { HTH_FILE_TIER_PATH_BYTES = 4096, HTH_FILE_TIER_SEEN_MAX = 256 };

/* The file that a row's bytes came from. */
typedef struct hth_seen_file {
    hth_row_id id;
    uint64_t inode;
    uint64_t changed_ns;
} hth_seen_file;

/* Notes of readers for the index. */
typedef struct hth_file_tier_notes {
    hth_index_use *uses; /* [USES_MAX] */
    size_t n_uses;
    hth_row_id *found; /* [FOUND_MAX], rows that the index did not know and that were found by name */
    size_t n_found;
    hth_row_id *missed; /* [MISSED_MAX], at the place of their key: rows whose files nobody looked for */
    bool *is_missed;    /* [MISSED_MAX] */
    size_t n_missed;
    hth_row_id *lost; /* [LOST_MAX], rows whose file is gone */
    size_t n_lost;
    hth_index_sighting *sightings; /* [SIGHTINGS_MAX], beginnings of prompts that a keyspace kept */
    size_t n_sightings;
} hth_file_tier_notes;

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
    char directory[HTH_FILE_TIER_PATH_BYTES];
    char index_directory[HTH_FILE_TIER_PATH_BYTES]; /* holds index/ and owners/ */
    char rows[HTH_FILE_TIER_PATH_BYTES];
    char owners[HTH_FILE_TIER_PATH_BYTES];
    char temporary[HTH_FILE_TIER_PATH_BYTES];
    char quarantine[HTH_FILE_TIER_PATH_BYTES];
    char pins[HTH_FILE_TIER_PATH_BYTES]; /* may be missing */
    hth_index *index;
    hth_publisher publisher;

    /* Guards the fields below. Innermost lock. */
    pthread_mutex_t notes_lock;
    hth_file_tier_notes pending;
    hth_seen_file seen[HTH_FILE_TIER_SEEN_MAX]; /* a ring of the last rows read; n_seen selects the next place */
    uint64_t n_seen;

    /* Guards the fields below, and the claim and the end of a rebuild. The scan itself runs without it. */
    pthread_mutex_t scan_lock;
    pthread_cond_t scan_ended;
    pthread_t scanner;
    bool scanner_exists;  /* started and not joined yet */
    bool scanner_is_busy; /* started and not finished yet */
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

/* ---- the thread that scans the files ---- */

/* Scan the files, by the thread that is running or by a new one. 0 or an errno. */
int hth_file_tier_start_scan_locked(hth_file_tier *tier, bool rebuild);

/* ---- file_tier.c ---- */

/*
 * Make the directories again that somebody removed while the tier is open. A later call tries failed ones again. A
 * process that is restricted to the tier's own directory cannot make this directory again. Writer threads only.
 */
void hth_file_tier_restore_directories(hth_file_tier *tier);

/* ---- lookups ---- */

/* Look by name for a row that the index does not know. */
bool hth_file_tier_find_file(hth_file_tier *tier, const hth_row_id *id, hth_row_meta *out);

/* ---- notes ---- */

bool hth_file_tier_notes_init(hth_file_tier_notes *n);
void hth_file_tier_notes_deinit(hth_file_tier_notes *n);
void hth_file_tier_note_found(hth_file_tier *tier, const hth_row_id *id);
/* Note a row that the index does not know and whose file nobody looked for. */
void hth_file_tier_note_missed(hth_file_tier *tier, const hth_row_id *id);
void hth_file_tier_note_lost(hth_file_tier *tier, const hth_row_id *id);
/* Note the file that a row was read from. */
void hth_file_tier_note_seen(hth_file_tier *tier, const hth_row_id *id, const hth_fs_stat *st);
/* True when this is the file that the row was last read from, or when that is not known any more. */
bool hth_file_tier_was_seen(hth_file_tier *tier, const hth_row_id *id, const hth_fs_stat *st);
/* True when there are notes to write to the index, or at least n_uses_min uses. */
bool hth_file_tier_has_notes(hth_file_tier *tier, size_t n_uses_min);
/* Write the notes to the index. Writer threads only. */
void hth_file_tier_bring_notes(hth_file_tier *tier);

/* ---- room and removal ---- */

/* Evict until a row fits; a row that is there already fits. HEARTH_FULL when it cannot fit. */
hearth_status hth_file_tier_make_room(hth_file_tier *tier, const hth_row_meta *meta, size_t n_bytes, hearth_error *err);
/* Evict for a row that the device refused although it reported room. False: nothing was evicted, or that failed. */
bool hth_file_tier_make_room_again(hth_file_tier *tier, const hth_row_meta *meta, size_t n_bytes);
/* Count a row again that we hold and whose file stays: as the file is now, with the known uses. */
void hth_file_tier_put_back(hth_file_tier *tier, const hth_row_meta *known);
/* Remove the file or directory with a row's name, under the row's reservation. 0, -ENOENT or -errno. */
int hth_file_tier_remove_file(hth_file_tier *tier, const hth_row_id *id, const char *path);

#endif
