/*
 * history_files.h - the history of a model on disk
 *
 * A folder holds files of entries (history_entry.h), "<16 hex digits>.history". A process writes only to files that it
 * made itself, one at a time, and locks the file while it lives. So processes never wait for each other, and a kill
 * leaves at most one entry that was cut off, which the reader skips. A separate thread writes the entries after
 * requests and does not sync them: a power cut may lose the latest ones.
 *
 * Opening reads all files, in the order of their numbers. A new file gets a number above those that were read, so a
 * record comes before those that stand on it. Entries that other processes write later are read at the next opening.
 *
 * When the files of the folder hold more than twice the memory of the history, or there are more than 16 of them, the
 * thread writes all records to a new file and syncs it. Then it removes the files that were read into the history to
 * their last byte and whose writers have ended; files that have changed are read again first. While any file cannot be
 * read, none is removed. What remains, even after a failure, does not trigger another merge: the next one comes when as
 * much again has been added. A kill in between leaves records twice, which is harmless. A process that adds nothing
 * writes nothing.
 *
 * The folders of all models lie side by side, and together hold at most about four times the memory of a history: a new
 * file first makes room by removing the oldest files of any model.
 */
#ifndef HTH_HISTORY_HISTORY_FILES_H
#define HTH_HISTORY_HISTORY_FILES_H

#include "base/fs.h"
#include "base/log.h"
#include "history/history_entry.h"

typedef struct hth_history_files hth_history_files;

typedef struct hth_history_files_options {
    hth_history *history;  /* outlives the files */
    const char *directory; /* created with the first file if missing, like its parent, which is shared by all models */
    size_t bytes_max;      /* of the history */
    hth_history_text_fn text_of; /* used as long as the files are open, also on their thread */
    void *user_data;
    const hth_signing_key *key; /* NULL: entries are not signed, and signatures are ignored */
    const hth_fs *fs;           /* NULL: the system's */
    const hth_log *log;
} hth_history_files_options;

/*
 * Read the files into the history, and start writing what is added to it. Blocks on files. If the folder cannot be
 * used, or other users can write to it, one warning is logged and the status is that of the cause.
 */
hearth_status hth_history_files_open(const hth_history_files_options *options, hth_history_files **out,
                                     hearth_error *err);
/* Notify the thread that something was added to the history. Any thread; never waits for a device. Accepts NULL. */
void hth_history_files_wake(hth_history_files *files);
/* Wait until all that was added before the call is written; false after timeout_ms. */
bool hth_history_files_flush(hth_history_files *files, uint32_t timeout_ms);
/*
 * Write what is left, and close. False when that takes longer than timeout_ms: the files and everything their options
 * point to then stay in use. Accepts NULL.
 */
bool hth_history_files_close(hth_history_files *files, uint32_t timeout_ms);

#endif
