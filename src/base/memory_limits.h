/*
 * memory_limits.h - the limits of the memory that this process may use, and their use, as the files of Linux tell them
 *
 * The machine is a limit. So is each control group with a limit that this process is in, and each one above it. Memory
 * that the system frees when somebody wants it counts as free: the page cache, slabs, and the cache of ZFS.
 */
#ifndef HTH_BASE_MEMORY_LIMITS_H
#define HTH_BASE_MEMORY_LIMITS_H

#include <stddef.h>
#include <stdint.h>

enum { HTH_MEMORY_LIMITS_MAX = 16 };

typedef struct hth_memory_limit {
    uint64_t used_bytes; /* without memory that the system frees by itself */
    uint64_t total_bytes;
    double stall; /* percent of the last ten seconds in which a process stood still for want of memory; 0: unknown */
} hth_memory_limit;

typedef struct hth_memory_limits {
    hth_memory_limit at[HTH_MEMORY_LIMITS_MAX];
    size_t n; /* 0: nothing is known */
} hth_memory_limits;

/*
 * root is "" for the system; tests have their own. A missing file is no limit: other systems than Linux have none.
 * Reads some small files of the kernel, which does not block. Any thread.
 */
void hth_memory_limits_read(const char *root, hth_memory_limits *out);
/* Add a limit, unless total is 0 or there are too many. */
void hth_memory_limits_add(hth_memory_limits *to, uint64_t used, uint64_t total, double stall);

/* The lowest limit; 0: none is known. */
uint64_t hth_memory_limits_total_bytes(const hth_memory_limits *limits);
/* Free bytes of the limit that has the least of them, at least 1; 0: none is known. */
uint64_t hth_memory_limits_free_bytes(const hth_memory_limits *limits);

#endif
