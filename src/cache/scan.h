/*
 * scan.h - going through a tier's files: after a crash, and to fill the index
 */
#ifndef HTH_CACHE_SCAN_H
#define HTH_CACHE_SCAN_H

#include <stdatomic.h>

#include "base/fs.h"
#include "base/log.h"
#include "cache/index.h"

/* Of a rebuild: rows so far and how many there may be; false ends it. On the thread that scans. */
typedef bool (*hth_scan_progress_fn)(uint64_t n_rows, uint64_t n_rows_estimated, void *user_data);

/*
 * Of a rebuild: a file has a row's name and no head of a row. True: it was taken away. On the thread that scans, outside of
 * transactions.
 */
typedef bool (*hth_scan_damaged_fn)(const hth_row_id *id, void *user_data);

typedef struct hth_scan {
    const hth_fs *fs;
    const hth_log *log;
    hth_index *index;
    const char *rows_directory;
    const char *temporary_directory;
    bool durable;                  /* make the names of rows durable before the index says that they are there */
    uint32_t foreign_s;            /* temporary files of owners unknown to this machine go when they are that old */
    const _Atomic bool *stop;      /* set to end a scan early */
    hth_scan_progress_fn progress; /* may be NULL */
    void *user_data;
    hth_scan_damaged_fn damaged; /* may be NULL */
    void *damaged_user_data;
    uint64_t n_adopted; /* result: rows that the index did not know */
    uint64_t bytes;     /* result of hth_scan_rebuild: of all rows */
} hth_scan;

/*
 * Clean up behind processes that died: remove their temporary files, adopt the rows that they linked and did not
 * announce, drop their reservations. Opens write transactions.
 */
void hth_scan_recover(hth_scan *scan);

/*
 * Put every row file into the index. What is no row, and not taken by damaged, is left alone and reported in one warning.
 * False when it was stopped or the index failed: then the index stays incomplete. Opens write transactions.
 */
bool hth_scan_rebuild(hth_scan *scan);

#endif
