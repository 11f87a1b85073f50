/*
 * history_room.h - the bound of the files of all histories
 *
 * Each model has a folder of files "<16 hex digits>.history"; the folders lie side by side. A model that is never
 * loaded again leaves its folder behind. So a process that starts a new file first removes the files that were written
 * longest ago, of any model, until all together are within a number of bytes. A file whose writer is alive stays.
 * Without a file, its texts are tokenized again.
 */
#ifndef HTH_HISTORY_HISTORY_ROOM_H
#define HTH_HISTORY_HISTORY_ROOM_H

#include "base/fs.h"

#define HTH_HISTORY_SUFFIX ".history"

enum {
    HTH_HISTORY_NAME_DIGITS = 16,
    HTH_HISTORY_NAME_BYTES = HTH_HISTORY_NAME_DIGITS + sizeof(HTH_HISTORY_SUFFIX), /* with the terminating NUL */
    HTH_HISTORY_PATH_BYTES = 4096,
};

/* The number in the name of a file. False: not a file of a history. */
bool hth_history_file_number(const char *name, uint64_t *out);

/*
 * Enforce the bound in the parent folder of directory, which belongs to one model. Folders without files are removed.
 */
void hth_history_room_make(const hth_fs *fs, const char *directory, uint64_t bytes_max);

#endif
