/*
 * quarantine.h - a folder for rows that failed their checks, so that somebody can look at them
 */
#ifndef HTH_CACHE_QUARANTINE_H
#define HTH_CACHE_QUARANTINE_H

#include "base/fs.h"
#include "cache/row.h"

#define HTH_QUARANTINE_FILES_MAX 64

/*
 * Move what is at path, the row id's file, into the quarantine directory, and remove the oldest files there until at
 * most HTH_QUARANTINE_FILES_MAX are left. A directory that has a row's name is moved, too, and then left to people. 0
 * or -errno; -ENOENT when it is gone already.
 */
int hth_quarantine_row(const hth_fs *fs, const char *directory, const char *path, const hth_row_id *id);

/* How many files are there. */
size_t hth_quarantine_count(const hth_fs *fs, const char *directory);

#endif
