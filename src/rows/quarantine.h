/* quarantine.h - a folder for rows that failed their checks, so that people can examine them */
#ifndef HTH_ROWS_QUARANTINE_H
#define HTH_ROWS_QUARANTINE_H

#include "base/fs.h"
#include "rows/row.h"

#define HTH_QUARANTINE_FILES_MAX 64

/*
 * Move the file of row id at path into the quarantine directory, then remove the oldest files there until at most
 * HTH_QUARANTINE_FILES_MAX are left. A directory with the name of a row is also moved, but never removed. 0 or -errno;
 * -ENOENT if it is gone already.
 */
int hth_quarantine_row(const hth_fs *fs, const char *directory, const char *path, const hth_row_id *id);

/* The number of quarantined files. */
size_t hth_quarantine_count(const hth_fs *fs, const char *directory);

#endif
