/*
 * map_size.h - notices when another program made a mapped file shorter
 *
 * An access to a map beyond the end of its file kills the process (SIGBUS). So code that reads or writes the map of a
 * file that should never become shorter checks the size first. A file that did become shorter is lengthened again: the
 * zeros at its end are wrong, but can be read. Only an access at that very moment may still kill the process.
 */
#ifndef HTH_INDEX_MAP_SIZE_H
#define HTH_INDEX_MAP_SIZE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The caller owns fd. */
typedef struct hth_map_size {
    int fd;
    _Atomic uint64_t n_bytes; /* the largest size that was seen */
} hth_map_size;

/*
 * Check the file's size, and extend it to n_bytes_min if it is shorter. *was_cut_out: it became shorter since it was
 * last seen, and part of its content is lost. Returns 0, or an errno if the map cannot be used. Any thread; usually one
 * system call.
 */
int hth_map_size_look(hth_map_size *size, uint64_t n_bytes_min, bool *was_cut_out);

#endif
