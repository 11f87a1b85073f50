/*
 * file_tier.h - rows as files: <root>/<2 hex>/<64 hex>-<kind>.kvc
 *
 * One implementation for a disk and for tmpfs. The tier owns a root directory of row files, an index over them and a
 * quarantine folder. It is shared by any number of processes; the files are the truth.
 *
 *   <directory>/rows/ab/ab12...-block.kvc    the rows
 *   <directory>/index/                       LMDB
 *   <directory>/owners/                      one locked file per living process
 *   <directory>/temporary/                   files that are being written, where they need a name for it
 *   <directory>/quarantine/                  rows that failed their checks, at most 64 files
 *   <directory>/pins/ab12...                 prefixes that eviction passes over (pins.h)
 *
 * With an index_directory, index/ and owners/ lie there: a network file system can hold rows, but no LMDB and no locks
 * to rely on. Each machine then has an index of its own, finds the rows of others by their names, and evicts by its own
 * quota and its own knowledge of uses.
 *
 * Directories are made with mode 0700, files with 0600; a directory that others can write to, or that belongs to
 * another user, is refused, and so is one below a directory in which everybody can rename.
 */
#ifndef HTH_CACHE_FILE_TIER_H
#define HTH_CACHE_FILE_TIER_H

#include "base/fs.h"
#include "cache/index.h"
#include "cache/kvc.h"
#include "cache/pins.h"
#include "cache/publish.h"
#include "cache/row_file.h"
#include "cache/scan.h"

typedef struct hth_file_tier hth_file_tier;

typedef struct hth_file_tier_options {
    const char *directory;
    uint64_t bytes_max;    /* quota; rows are evicted beyond it. UINT64_MAX: none, and the noted one stays */
    bool with_noted_quota; /* the one that was noted holds, bytes_max only where none was */
    uint64_t free_min;     /* rows go for a write that would leave less free on the device */
    bool spares_rows;      /* no row goes for free_min, such a write is HEARTH_FULL: for those who only guess it */
    bool durable;          /* sync files and directories; false for tmpfs */
    const hth_fs *fs;      /* NULL: the system's */
    const hth_log *log;
    const char *index_directory; /* of index/ and owners/, on a local file system; NULL: directory */
    hth_publish_way publish_way; /* 0: the best that works */
    /* Speaks for rows that must not be evicted, see hth_index_evict; may be NULL. For a tier of several roots. */
    hth_index_needed_fn is_needed;
    void *user_data;
} hth_file_tier_options;

/*
 * Open or create the tier. A thread cleans up behind processes that died and, when the index wants rebuilding, fills it
 * from the files, while lookups already find rows by name. HEARTH_PERMISSION when the directory cannot be made or
 * written or others can write to it; HEARTH_FULL, HEARTH_IO, HEARTH_NO_MEMORY.
 */
hearth_status hth_file_tier_open(const hth_file_tier_options *options, hth_file_tier **out, hearth_error *err);
void hth_file_tier_close(hth_file_tier *tier); /* accepts NULL; ends what the thread is doing */
/* Wait until that thread has nothing left to do. Any thread. */
void hth_file_tier_settle(hth_file_tier *tier);

/* ---- any thread; no write transaction, no lock held across input or output ---- */

/*
 * Is the row there, and what is it? Asks the index; when that does not know it, the head of the file of that name, and
 * the row is then brought to the index by the next hth_file_tier_maintain. The payload is not read.
 */
bool hth_file_tier_has(hth_file_tier *tier, const hth_row_id *id, hth_row_meta *out);
/*
 * The same for a thread that is not to wait for a device. Where the index is complete and the directory this machine's
 * alone, the answer is the index's; a row that it does not know is looked for by its name by the next
 * hth_file_tier_maintain, should it be there all the same. Elsewhere the file is looked for here as long as *n_names is
 * not 0; each that is not there takes one from it.
 */
bool hth_file_tier_look(hth_file_tier *tier, const hth_row_id *id, hth_row_meta *out, unsigned *n_names);
/*
 * The same for n rows at once, in one read transaction: found[i] and, when true, out[i]; returns how many were found.
 * Without a system call and without allocation for rows that the index knows; each of the others costs a look for its
 * file, so ask in pieces where the first missing row ends the search.
 */
size_t hth_file_tier_has_many(hth_file_tier *tier, const hth_row_id *ids, size_t n, hth_row_meta *out, bool *found);
/*
 * Wait until a row that is being written, here or in another process, is there, or nobody is writing it any more, or
 * timeout_ms are over. True: it is there. Woken, not polled, where the system can (bell.h). For threads that may block.
 */
bool hth_file_tier_wait(hth_file_tier *tier, const hth_row_id *id, uint32_t timeout_ms);
/* Show a search what the index knows; see hth_index_find_leaf and hth_index_tokens. No file is read. */
void hth_file_tier_find_leaf(hth_file_tier *tier, hth_leaf_search *search);
size_t hth_file_tier_tokens(hth_file_tier *tier, const hth_row_id *id, hearth_token *out, size_t capacity);
/* Rows whose parent is that key; see hth_index_children. */
size_t hth_file_tier_children(hth_file_tier *tier, const hth_key *parent, hth_row_meta *out, size_t capacity);

/*
 * Read a row's bytes. size_fn is called once with the file's size and returns the buffer to read into (NULL: give up,
 * HEARTH_NO_MEMORY). On success the whole file is in that buffer, *n_out bytes, not yet checked.
 * HEARTH_NOT_FOUND when the file is gone; HEARTH_IO; HEARTH_CORRUPT when its size makes no sense (over 4 GiB, under
 * 80).
 */
typedef uint8_t *(*hth_file_tier_buffer_fn)(size_t n_bytes, void *user_data);
hearth_status hth_file_tier_read(hth_file_tier *tier, const hth_row_id *id, hth_file_tier_buffer_fn buffer,
                                 void *user_data, size_t *n_out, hearth_error *err);

/* Open a row's file for reading by the caller, who closes it with hth_fs_close. Statuses as hth_file_tier_read. */
hearth_status hth_file_tier_open_file(hth_file_tier *tier, const hth_row_id *id, int *fd_out, size_t *n_bytes_out,
                                      hearth_error *err);

/* Note a use of these rows; brought to the index by the next hth_file_tier_maintain. Never blocks on the index. */
void hth_file_tier_touch(hth_file_tier *tier, const hth_row_id *ids, size_t n);

/* Note that a keyspace kept the beginning of a prompt; brought to the index likewise. */
void hth_file_tier_note_beginning(hth_file_tier *tier, const hth_index_sighting *sighting);

/* ---- writer threads only ---- */

/*
 * Publish a complete KVC image under its id, by the protocol of publish.h. *published_out (may be NULL): false when the
 * row was there already or another living process is writing it, which is success too. HEARTH_FULL when quota or free
 * space do not allow it after evicting what may be evicted.
 */
hearth_status hth_file_tier_publish(hth_file_tier *tier, const hth_row_meta *meta, const uint8_t *bytes, size_t n_bytes,
                                    bool *published_out, hearth_error *err);

/*
 * Move a row that failed its checks, or that the engine refused, to the quarantine folder and out of the index. reason
 * goes to the log. A file that is sound and not the one that this tier read last under the name stays: somebody
 * replaced it meanwhile. So does one that another process is writing or removing. False when the bad row may be there
 * still: the device failed, or somebody else has it.
 */
bool hth_file_tier_quarantine(hth_file_tier *tier, const hth_row_id *id, const char *reason);

/* Is a whole file, read again while nobody else may change it, to be set aside? */
typedef bool (*hth_file_tier_judge_fn)(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes, void *user_data);
/*
 * The same with another judge of the bytes; what cannot be read is set aside in any case, but for want of memory. True:
 * it was.
 */
bool hth_file_tier_quarantine_if(hth_file_tier *tier, const hth_row_id *id, hth_file_tier_judge_fn is_bad,
                                 void *user_data, const char *reason);

/*
 * Remove a row: file and index entry. HEARTH_NOT_FOUND when there is none; HEARTH_BUSY when another process is writing
 * or removing it; others when the file stays, and then it stays counted.
 */
hearth_status hth_file_tier_remove(hth_file_tier *tier, const hth_row_id *id, hearth_error *err);
/* The same, and the index remembers (past.h) that row successor holds what it held. */
hearth_status hth_file_tier_remove_superseded(hth_file_tier *tier, const hth_row_id *id, const hth_row_id *successor,
                                              hearth_error *err);

/*
 * Bring noted uses, rows found by name and rows whose file is gone to the index; replace an index that was damaged.
 * Called by a writer thread when idle and at the end.
 */
void hth_file_tier_maintain(hth_file_tier *tier);

/*
 * Evict least recently used rows without children until at most bytes_max bytes are left; *evicted_out rows. Rows that
 * end a pinned prefix stay. If the pins cannot be read, nothing is evicted.
 */
hearth_status hth_file_tier_evict_to(hth_file_tier *tier, uint64_t bytes_max, uint64_t *evicted_out, hearth_error *err);

/* ---- pins (pins.h): any thread that may block on files; see file_tier_set.h for adding them ---- */

hearth_status hth_file_tier_pins(const hth_file_tier *tier, hth_pins *out, hearth_error *err);
/* HEARTH_NOT_FOUND when it is not pinned here. */
hearth_status hth_file_tier_unpin(const hth_file_tier *tier, const hth_key *key, hearth_error *err);

/* ---- for `hearth cache` ---- */

hth_index *hth_file_tier_index(hth_file_tier *tier); /* borrowed; lives as long as the tier */
/* Path of a row's file into path[capacity]; false when it does not fit. */
bool hth_file_tier_path(const hth_file_tier *tier, const hth_row_id *id, char *path, size_t capacity);
/* Where its rows are, for hth_row_file_is_there and hth_row_file_is_gone; borrows from the tier. */
hth_row_files hth_file_tier_files(const hth_file_tier *tier);
const hth_fs *hth_file_tier_fs(const hth_file_tier *tier);
/* The folder of the fan-out folders; borrowed. */
const char *hth_file_tier_rows_directory(const hth_file_tier *tier);
/* The folder of rows that failed their checks; borrowed. */
const char *hth_file_tier_quarantine_directory(const hth_file_tier *tier);
uint64_t hth_file_tier_bytes_max(const hth_file_tier *tier);
/* Remove the temporary files of dead processes, adopt what they linked. */
void hth_file_tier_recover(hth_file_tier *tier);
/*
 * Fill the index anew from the files on the calling thread, which keeps the tier's own thread from doing so. False when
 * progress (may be NULL) ended it or the index failed: then the index is incomplete, and whoever opens the tier next
 * goes on. Rows are found and published all the while.
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
