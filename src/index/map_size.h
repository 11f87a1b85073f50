/*
 * map_size.h - notices that somebody made a mapped file shorter
 *
 * An access of a map behind the end of its file ends the process (SIGBUS). So whoever reads or writes a map of a file
 * that never becomes shorter looks at the size first. A file that did become shorter is lengthened again: the zeros at
 * its end are wrong, but can be read. Only an access at that very moment may still end the process.
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
 * Look at the file, and give it n_bytes_min if it has fewer. *was_cut_out: it became shorter since it was last seen,
 * and its content is lost in part. 0, or an errno: the map cannot be used. Any thread; a system call, usually one.
 */
int hth_map_size_look(hth_map_size *size, uint64_t n_bytes_min, bool *was_cut_out);

#endif
