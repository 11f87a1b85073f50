/* scan.h - walks the files of a tier: after a crash, and to fill the index */
#ifndef HTH_CACHE_SCAN_H
#define HTH_CACHE_SCAN_H

#include <stdatomic.h>

#include "base/fs.h"
#include "base/log.h"
#include "index/index.h"
#include "rows/row_file.h"

/*
 * During a rebuild: the number of rows so far, and an estimate of the total. Returning false ends the rebuild. Called
 * on the scanning thread.
 */
typedef bool (*hth_scan_progress_fn)(uint64_t n_rows, uint64_t n_rows_estimated, void *user_data);

/*
 * During a rebuild: a file has the name of a row but not the head of one. True: the callback removed it. Called on the
 * scanning thread, outside transactions.
 */
typedef bool (*hth_scan_damaged_fn)(const hth_row_id *id, void *user_data);

typedef struct hth_scan {
    hth_row_files rows;
    const hth_log *log;
    hth_index *index;
    const char *temporary_directory;
    bool durable;                  /* make the names of rows durable before the index announces the rows */
    uint32_t foreign_s;            /* minimum age for removing temporary files of owners unknown to this machine */
    const _Atomic bool *stop;      /* set to end a scan early */
    hth_scan_progress_fn progress; /* may be NULL */
    void *user_data;
    hth_scan_damaged_fn damaged; /* may be NULL */
    void *damaged_user_data;
    uint64_t n_adopted; /* result: rows that were new to the index */
    uint64_t bytes;     /* result of hth_scan_rebuild: bytes of all rows */
} hth_scan;

/*
 * Clean up after dead processes: remove their temporary files, adopt rows that they linked but did not announce, drop
 * their reservations. Opens write transactions.
 */
void hth_scan_recover(hth_scan *scan);

/*
 * Add every row file to the index. Files that are not rows and that damaged does not remove stay, and one warning
 * reports them. False if the scan was stopped or the index failed: the index then stays incomplete. Opens write
 * transactions.
 */
bool hth_scan_rebuild(hth_scan *scan);

#endif
