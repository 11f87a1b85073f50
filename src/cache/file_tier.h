/*
 * file_tier.h - rows as files: <root>/<2 hex>/<64 hex>-<kind>.kvc
 *
 * One implementation serves disks and tmpfs. The tier owns a root directory of row files, an index over them and a
 * quarantine folder. Any number of processes share it; the files are the truth.
 *
 *   <directory>/rows/ab/ab12...-block.kvc    the rows
 *   <directory>/index/                       LMDB
 *   <directory>/owners/                      one locked file per living process
 *   <directory>/temporary/                   files that are being written, if they need a name for that
 *   <directory>/quarantine/                  rows that failed their checks, at most 64 files
 *   <directory>/pins/ab12...                 prefixes that eviction passes over (pins.h)
 *
 * With an index_directory, index/ and owners/ lie there: a network file system can hold rows, but neither LMDB nor
 * reliable locks. Each machine then has its own index, finds the rows of other machines by their names, and evicts by
 * its own quota and the uses it knows of.
 *
 * Directories are made with mode 0700, files with 0600. The tier refuses a directory that others can write to, that
 * belongs to another user, or that lies below a directory in which any user can rename entries.
 */
#ifndef HTH_CACHE_FILE_TIER_H
#define HTH_CACHE_FILE_TIER_H

#include "base/fs.h"
#include "cache/pins.h"
#include "cache/publish.h"
#include "cache/scan.h"
#include "index/index.h"
#include "rows/kvc.h"
#include "rows/row_file.h"

typedef struct hth_file_tier hth_file_tier;

typedef struct hth_file_tier_options {
    const char *directory;
    uint64_t bytes_max;    /* quota; rows beyond it are evicted. UINT64_MAX: no quota, keep the recorded one */
    bool with_noted_quota; /* use the recorded quota; bytes_max applies only if none was recorded */
    uint64_t free_min;     /* bytes that every write must leave free on the device; rows are evicted for that */
    bool spares_rows;      /* free_min is a guess: evict no rows for it; such a write is HEARTH_FULL */
    bool durable;          /* sync files and directories; false for tmpfs */
    const hth_fs *fs;      /* NULL: the system's */
    const hth_log *log;
    const char *index_directory; /* holds index/ and owners/, on a local file system; NULL: directory */
    hth_publish_way publish_way; /* 0: the best way that works */
    /* Says which rows must not be evicted, see hth_index_evict; may be NULL. For a tier with several roots. */
    hth_index_needed_fn is_needed;
    void *user_data;
} hth_file_tier_options;

/*
 * Open or create the tier. A thread cleans up after dead processes. When the index needs a rebuild, that thread fills
 * it from the files, and lookups find rows by name in the meantime. HEARTH_PERMISSION when the directory cannot be
 * created or written, or when others can write to it; HEARTH_FULL, HEARTH_IO, HEARTH_NO_MEMORY.
 */
hearth_status hth_file_tier_open(const hth_file_tier_options *options, hth_file_tier **out, hearth_error *err);
void hth_file_tier_close(hth_file_tier *tier); /* accepts NULL; stops the thread */
/* Wait until that thread is idle. Any thread. */
void hth_file_tier_settle(hth_file_tier *tier);

/* ---- any thread; no write transaction, no lock held across input or output ---- */

/*
 * Find a row, first in the index. When the index does not know it, read the head of its file; the next
 * hth_file_tier_maintain then adds the row to the index. The image is not read.
 */
bool hth_file_tier_has(hth_file_tier *tier, const hth_row_id *id, hth_row_meta *out);
/*
 * The same for a thread that must not wait for a device. Where the index is complete and no other machine uses the
 * directory, the index alone answers; for a row it does not know, the next hth_file_tier_maintain looks by name, in
 * case the file exists. Otherwise this call looks for the file itself while *n_names is not 0; each missing file
 * subtracts one from *n_names.
 */
bool hth_file_tier_look(hth_file_tier *tier, const hth_row_id *id, hth_row_meta *out, unsigned *n_names);
/* Show a search the rows of the index; see hth_index_find_leaf and hth_index_tokens. No file is read. */
void hth_file_tier_find_leaf(hth_file_tier *tier, hth_leaf_search *search);
size_t hth_file_tier_tokens(hth_file_tier *tier, const hth_row_id *id, hearth_token *out, size_t capacity);
/* The rows with this parent key; see hth_index_children. */
size_t hth_file_tier_children(hth_file_tier *tier, const hth_key *parent, hth_row_meta *out, size_t capacity);

/*
 * Read a row's file. buffer is called once with the file's size and returns the memory to read into (NULL: the call
 * fails with HEARTH_NO_MEMORY). After HEARTH_OK the whole file is there, *n_out bytes, not yet checked.
 * HEARTH_NOT_FOUND when the file is gone; HEARTH_IO; HEARTH_CORRUPT when its size is impossible (over 4 GiB, under 80
 * bytes).
 */
typedef uint8_t *(*hth_file_tier_buffer_fn)(size_t n_bytes, void *user_data);
hearth_status hth_file_tier_read(hth_file_tier *tier, const hth_row_id *id, hth_file_tier_buffer_fn buffer,
                                 void *user_data, size_t *n_out, hearth_error *err);

/* Open a row's file for the caller, who closes it with hth_fs_close. Statuses as hth_file_tier_read. */
hearth_status hth_file_tier_open_file(hth_file_tier *tier, const hth_row_id *id, int *fd_out, size_t *n_bytes_out,
                                      hearth_error *err);

/* Note a use of these rows; the next hth_file_tier_maintain writes it to the index. Never waits for the index. */
void hth_file_tier_touch(hth_file_tier *tier, const hth_row_id *ids, size_t n);

/* Note that a keyspace kept the beginning of a prompt; the note reaches the index in the same way. */
void hth_file_tier_note_beginning(hth_file_tier *tier, const hth_index_sighting *sighting);

/* ---- writer threads only ---- */

/*
 * Publish a complete KVC file under its id, by the protocol of publish.h. *published_out (may be NULL): false when the
 * row was there already or another living process is writing it; that also counts as success. HEARTH_FULL when the
 * quota or the free space is too small even after eviction.
 */
hearth_status hth_file_tier_publish(hth_file_tier *tier, const hth_row_meta *meta, const uint8_t *bytes, size_t n_bytes,
                                    bool *published_out, hearth_error *err);

/*
 * Move a row that failed its checks, or that the engine refused, to the quarantine folder and take it out of the index.
 * reason goes to the log. A sound file other than the one this tier last read under the name stays: it was replaced in
 * the meantime. A file that another process is writing or removing stays, too. False when the bad row may still be
 * there: the device failed, or another process has it.
 */
bool hth_file_tier_quarantine(hth_file_tier *tier, const hth_row_id *id, const char *reason);

/*
 * Update the index from the file of a row, or set the file aside if it is not sound. False when the index may still be
 * wrong.
 */
bool hth_file_tier_review(hth_file_tier *tier, const hth_row_id *id);

/* Judge a whole file, which is read again while no other process may change it. True: set it aside. */
typedef bool (*hth_file_tier_judge_fn)(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes, void *user_data);
/*
 * The same, but a callback of the caller judges the bytes. A file that cannot be read is set aside in any case, unless
 * memory is short. True: the file was set aside.
 */
bool hth_file_tier_quarantine_if(hth_file_tier *tier, const hth_row_id *id, hth_file_tier_judge_fn is_bad,
                                 void *user_data, const char *reason);

/*
 * Remove a row: file and index entry. HEARTH_NOT_FOUND when it does not exist; HEARTH_BUSY when another process is
 * writing or removing it; with any other error the file stays and remains counted.
 */
hearth_status hth_file_tier_remove(hth_file_tier *tier, const hth_row_id *id, hearth_error *err);
typedef struct hth_unwanted {
    const hth_row_id *successor; /* holds the content of the removed row; the index remembers it (past.h). NULL: none */
    hth_file_tier *const *roots; /* [n_roots], where a pin of the row may lie */
    size_t n_roots;
} hth_unwanted;
/*
 * The same for a row that is no longer needed. A pinned row stays; the status is then HEARTH_NOT_FOUND. unwanted NULL:
 * as hth_file_tier_remove.
 */
hearth_status hth_file_tier_remove_unwanted(hth_file_tier *tier, const hth_row_id *id, const hth_unwanted *unwanted,
                                            hearth_error *err);

/*
 * Write the notes to the index: uses, rows found by name, rows whose file is gone. Replace a damaged index. A writer
 * thread calls this when idle and at the end.
 */
void hth_file_tier_maintain(hth_file_tier *tier);

/*
 * Evict least recently used rows without children until at most bytes_max bytes are left; *evicted_out: the rows
 * evicted. Rows that end a pinned prefix stay. If the pins cannot be read, nothing is evicted.
 */
hearth_status hth_file_tier_evict_to(hth_file_tier *tier, uint64_t bytes_max, uint64_t *evicted_out, hearth_error *err);

/* ---- pins (pins.h): any thread that may block on files; see file_tier_set.h for adding them ---- */

const hth_pin_folder *hth_file_tier_pin_folder(const hth_file_tier *tier); /* borrowed */
/* True when the pin lies in one of n tiers, or if that is unknown. */
bool hth_file_tiers_have_pin(hth_file_tier *const *tiers, size_t n, const hth_key *key);
/*
 * After a removal from the n roots of a tier: remove the pin of a prefix if no row ends it any more. HEARTH_OK also
 * when the prefix is not pinned or such a row remains; other statuses as hth_pin_remove.
 */
hearth_status hth_file_tiers_drop_pin(hth_file_tier *const *tiers, size_t n, const hth_key *key, hearth_error *err);

/* ---- for `hearth cache` ---- */

hth_index *hth_file_tier_index(hth_file_tier *tier); /* borrowed; lives as long as the tier */
/* Write the path of a row's file to path[capacity]; false when it does not fit. */
bool hth_file_tier_path(const hth_file_tier *tier, const hth_row_id *id, char *path, size_t capacity);
/* The location of the tier's rows, for hth_row_file_is_there and hth_row_file_is_gone; borrows from the tier. */
hth_row_files hth_file_tier_files(const hth_file_tier *tier);
const hth_fs *hth_file_tier_fs(const hth_file_tier *tier);
/* The folder that contains the <2 hex> folders; borrowed. */
const char *hth_file_tier_rows_directory(const hth_file_tier *tier);
/* The folder of rows that failed their checks; borrowed. */
const char *hth_file_tier_quarantine_directory(const hth_file_tier *tier);
uint64_t hth_file_tier_bytes_max(const hth_file_tier *tier);
/* The quota in force; UINT64_MAX if none is known. */
uint64_t hth_file_tier_quota(hth_file_tier *tier);
/* The part of the quota that is left for rows, because the index also counts. */
uint64_t hth_file_tier_rows_bytes_max(const hth_file_tier *tier, const hth_index_totals *totals);
/* Remove the temporary files of dead processes; adopt the rows that those processes linked. */
void hth_file_tier_recover(hth_file_tier *tier);
/*
 * Rebuild the index from the files on the calling thread; the tier's own thread does not start in the meantime. False
 * when progress (may be NULL) ended the rebuild or the index failed: the index is then incomplete, and the next process
 * that opens the tier continues. Rows can be found and published throughout.
 */
bool hth_file_tier_rebuild_index(hth_file_tier *tier, hth_scan_progress_fn progress, void *user_data);
typedef struct hth_file_tier_counts {
    uint64_t rows_written;
    uint64_t bytes_written;
    uint64_t rows_evicted;
    uint64_t rows_quarantined;
    uint64_t rows_adopted;
} hth_file_tier_counts;
void hth_file_tier_counts_get(const hth_file_tier *tier, hth_file_tier_counts *out);

#endif
