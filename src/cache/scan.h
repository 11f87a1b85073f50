/*
 * scan.h - going through a tier's files: after a crash, and to fill the index
 */
#ifndef HTH_CACHE_SCAN_H
#define HTH_CACHE_SCAN_H

#include <stdatomic.h>

#include "base/fs.h"
#include "base/log.h"
#include "cache/index.h"

typedef struct hth_scan {
    const hth_fs *fs;
    const hth_log *log;
    hth_index *index;
    const char *rows_directory;
    const char *temporary_directory;
    const _Atomic bool *stop; /* set to end a scan early */
    uint64_t n_adopted;       /* result: rows that the index did not know */
    uint64_t bytes;           /* result of hth_scan_rebuild: of all rows */
} hth_scan;

/*
 * Clean up behind processes that died: remove their temporary files, adopt the rows that they linked and did not
 * announce, drop their reservations. Opens write transactions.
 */
void hth_scan_recover(hth_scan *scan);

/*
 * Put every row file into the index. What is no row is left alone and reported in one warning. False when it was
 * stopped or the index failed: then the index stays incomplete. Opens write transactions.
 */
bool hth_scan_rebuild(hth_scan *scan);

#endif
