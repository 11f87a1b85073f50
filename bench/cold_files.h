/*
 * cold_files.h - drop files from the page cache, and read them past it
 *
 * For comparing a restore from a device with the device's own speed. Only on Linux; elsewhere every function fails.
 */
#ifndef BENCH_COLD_FILES_H
#define BENCH_COLD_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The way to read a device. */
typedef enum hth_direct_way {
    HTH_DIRECT_IN_TURN, /* one piece after the other, as dd iflag=direct bs=1M */
    HTH_DIRECT_AT_ONCE, /* up to 64 pieces under way, as fio --direct=1 --iodepth=64 --bs=1M */
} hth_direct_way;

/*
 * Drop files' pages from the page cache; the files must be synced. Returns the bytes that are still in memory, or -1 if
 * that is impossible.
 */
int64_t hth_files_drop(char *const *paths, size_t n);

/*
 * Read whole files past the page cache. *bytes_out receives the bytes, *ms_out the time, opening included. False if the
 * system or the file system cannot do that.
 */
bool hth_files_read_direct(char *const *paths, size_t n, hth_direct_way way, uint64_t *bytes_out, double *ms_out);

#endif
