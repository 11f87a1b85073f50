/*
 * cold_files.h - files out of the page cache, and read past it
 *
 * For holding a restore from a device against what the device gives. Linux; elsewhere nothing here can be done and
 * everything says so.
 */
#ifndef BENCH_COLD_FILES_H
#define BENCH_COLD_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a device is read. */
typedef enum hth_direct_way {
    HTH_DIRECT_IN_TURN, /* one piece after the other, as dd iflag=direct bs=1M */
    HTH_DIRECT_AT_ONCE, /* up to 64 pieces under way, as fio --direct=1 --iodepth=64 --bs=1M */
} hth_direct_way;

/*
 * Drop files' pages from the page cache, which wants them synced. Returns the bytes that are in memory still, or -1
 * where that cannot be done.
 */
int64_t hth_files_drop(char *const *paths, size_t n);

/*
 * Read whole files past the page cache. *bytes_out how many bytes, *ms_out how long, opening included. False where the
 * system or the file system cannot.
 */
bool hth_files_read_direct(char *const *paths, size_t n, hth_direct_way way, uint64_t *bytes_out, double *ms_out);

#endif
