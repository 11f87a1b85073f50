/*
 * history_files.h - the history of a model on disk
 *
 * A folder holds files of entries (history_entry.h), "<16 hex digits>.history". A process writes only to files that it
 * made itself, one at a time, and locks the file while it lives. So processes never wait for each other, and a kill
 * leaves at most one entry that was cut off, which the reader passes over. Entries are written behind requests by a
 * thread of their own, and are not synced: a power cut may lose the latest ones.
 *
 * Opening reads all files, in the order of their numbers. A new file gets a number above those that were read, so a
 * record comes before those that stand on it. What others write later is read at the next opening.
 *
 * When the files of the folder hold more than twice the memory of the history, or are more than 16, the thread writes
 * all records to a new file and syncs it. Then it removes the files whose records are in the history, to their last
 * byte, and whose writers have ended; before, it reads again the files that have changed. While one cannot be read,
 * none is removed. What stays, also after a failure, is no reason to begin again: the next time comes when as much has
 * been added. A kill in between leaves records twice, which is harmless. Whoever adds nothing writes nothing.
 *
 * The folders of all models lie beside each other, and together hold at most about four times the memory of a history
 * (history_room.h).
 */
#ifndef HTH_HISTORY_HISTORY_FILES_H
#define HTH_HISTORY_HISTORY_FILES_H

#include "base/fs.h"
#include "base/log.h"
#include "history/history_entry.h"

typedef struct hth_history_files hth_history_files;

typedef struct hth_history_files_options {
    hth_history *history;  /* outlives the files */
    const char *directory; /* made with the first file if it is missing, and so is the one above it, of all models */
    size_t bytes_max;      /* of the history */
    hth_history_text_fn text_of; /* as long as the files are open, also on their thread */
    void *user_data;
    const hth_signing_key *key; /* NULL: entries are not signed, and signatures not looked at */
    const hth_fs *fs;           /* NULL: the system's */
    const hth_log *log;
} hth_history_files_options;

/*
 * Read the files into the history, and begin to write what is added to it. Blocks on files. A folder that cannot be
 * used, or that others can write to, costs one warning; the status is then that of the cause.
 */
hearth_status hth_history_files_open(const hth_history_files_options *options, hth_history_files **out,
                                     hearth_error *err);
/* Something was added to the history. Any thread; never waits for a device. Accepts NULL. */
void hth_history_files_wake(hth_history_files *files);
/* Wait until all that was added before the call is written; false after timeout_ms. */
bool hth_history_files_flush(hth_history_files *files, uint32_t timeout_ms);
/*
 * Write what is left, and close. False when that takes longer than timeout_ms: then the files and all that their
 * options named stay in use. Accepts NULL.
 */
bool hth_history_files_close(hth_history_files *files, uint32_t timeout_ms);

#endif
