/*
 * quarantine.h - a folder for rows that failed their checks, so that somebody can look at them
 */
#ifndef HTH_CACHE_QUARANTINE_H
#define HTH_CACHE_QUARANTINE_H

#include "base/fs.h"

#define HTH_QUARANTINE_FILES_MAX 64

/*
 * Move the file at path into the quarantine directory, and remove the oldest there until at most
 * HTH_QUARANTINE_FILES_MAX are left. name is the file's own. 0 or -errno; -ENOENT when it is gone already.
 */
int hth_quarantine_file(const hth_fs *fs, const char *directory, const char *path, const char *name);

/* How many files are there. */
size_t hth_quarantine_count(const hth_fs *fs, const char *directory);

#endif
