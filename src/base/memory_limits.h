/*
 * memory_limits.h - the memory limits of this process and how much of each is used, as reported by files of Linux
 *
 * The machine is a limit. So is each control group with a limit that this process is in, and each one above it. Memory
 * that the system frees on demand counts as free: the page cache, slabs, and the cache of ZFS.
 */
#ifndef HTH_BASE_MEMORY_LIMITS_H
#define HTH_BASE_MEMORY_LIMITS_H

#include <stddef.h>
#include <stdint.h>

enum { HTH_MEMORY_LIMITS_MAX = 16 };

typedef struct hth_memory_limit {
    uint64_t used_bytes; /* without memory that the system frees by itself */
    uint64_t total_bytes;
    double stall; /* percent of the last ten seconds in which a process stalled for lack of memory; 0: unknown */
} hth_memory_limit;

typedef struct hth_memory_limits {
    hth_memory_limit at[HTH_MEMORY_LIMITS_MAX];
    size_t n; /* 0: nothing is known */
} hth_memory_limits;

/*
 * root is "" for the system; tests use their own. A missing file means no limit; systems other than Linux have no such
 * files. Reads a few small kernel files, which does not block. Any thread.
 */
void hth_memory_limits_read(const char *root, hth_memory_limits *out);
/* Add a limit, unless total is 0 or there are too many. */
void hth_memory_limits_add(hth_memory_limits *to, uint64_t used, uint64_t total, double stall);

/* The lowest limit; 0 if none is known. */
uint64_t hth_memory_limits_total_bytes(const hth_memory_limits *limits);
/* Free bytes under the limit with the fewest of them, at least 1; 0 if none is known. */
uint64_t hth_memory_limits_free_bytes(const hth_memory_limits *limits);

#endif
