/*
 * arena.h - memory for rows: large mapped segments, huge pages where possible, faulted in ahead of use
 *
 * Packing 46 MB into freshly mapped memory took 125 ms; into memory that had been touched before, it took 2 ms. The
 * difference is page faults. So the arena maps segments of 64 MiB, and a helper thread faults in a spare segment while
 * no thread is waiting for one. A slab is a run of pages inside a segment.
 *
 * The arena counts addresses and memory separately. Addresses are plentiful: the arena maps up to four times bytes_max.
 * Memory is scarce: it is the pages that were touched or are promised to a slab, whether in use or free. A slab goes to
 * the free run where the fewest pages must be faulted in; a tie goes to the shortest run. The rows of a model come in
 * few sizes, so this run is usually the hole that a row of the same size left. When all holes are too small, the slab
 * gets fresh addresses, and the same number of free pages elsewhere goes back to the system. So fragmentation costs
 * page faults, never rows: a slab is available as long as used_bytes plus the slab does not exceed bytes_max. To make
 * such faults rare, the arena may hold a sixteenth more than bytes_max: with a realistic mixture of rows at the limit,
 * 1 page in 100 had to be faulted in; without the sixteenth, 28 in 100. (One segment per size class was no better,
 * because the shares of the sizes vary.)
 *
 * The memory may be a file that outlives the process. Segments then lie in the file at multiples of their size, and the
 * next process claims the slabs it knows by their offsets.
 */
#ifndef HTH_CACHE_ARENA_H
#define HTH_CACHE_ARENA_H

#include "base/status.h"

#define HTH_ARENA_SEGMENT_BYTES ((size_t)64 << 20)
#define HTH_ARENA_SPARE_PART 16 /* bytes_max / 16 may be held in addition, as free fragments */

typedef struct hth_arena hth_arena;

typedef struct hth_arena_options {
    uint64_t bytes_max; /* limit for all slabs; the memory held may exceed it by a sixteenth */
    bool warm;          /* a helper thread faults memory in ahead of use */
    int fd;             /* the file that backs the memory, borrowed until the close; -1: private memory */
    uint64_t fd_begin;  /* where in the file the arena begins: a multiple of HTH_ARENA_SEGMENT_BYTES */
} hth_arena_options;

/*
 * Open an empty arena. Errors: HEARTH_NO_MEMORY; with a file, also HEARTH_IO. With a file, no slab may be taken and
 * nothing is warmed before hth_arena_claims_end.
 */
hearth_status hth_arena_open(const hth_arena_options *options, hth_arena **out, hearth_error *err);
/*
 * Unmap everything. Slabs that were not given back become invalid. In a file, their bytes stay; free memory returns to
 * the system. Accepts NULL.
 */
void hth_arena_close(hth_arena *arena);

/*
 * Take a slab of at least n_bytes, aligned to 4 KiB. NULL: bytes_max, the address range or the system does not allow
 * it. *cold_out (may be NULL) says whether pages of the slab must still be faulted in; see hth_arena_commit. The call
 * itself faults in no pages. It may map a segment, give pages back to the system, and wait while the helper thread
 * touches one piece of 2 MiB. Any thread.
 */
uint8_t *hth_arena_take(hth_arena *arena, size_t n_bytes, bool *cold_out);
/*
 * Announce that a slab of n_bytes was taken, cold or not, and that more slabs of this size will follow one by one, as
 * in a prefill. The helper then touches memory for a few of them in the pauses between them. A restore has no pauses,
 * so on a machine with few CPUs the touching would slow it down. Slabs larger than a segment are never touched ahead.
 * Any thread.
 */
void hth_arena_more_follow(hth_arena *arena, size_t n_bytes, bool cold);
/*
 * Allocate the pages of a cold slab in the file before the first write: if the system had no page left, that write
 * would kill the process. False: the system has no memory, and the slab may only be given back. Private memory does not
 * need this call. Any thread; may take as long as zeroing the slab.
 */
bool hth_arena_commit(hth_arena *arena, uint8_t *slab, size_t n_bytes);
/* Give a slab of n_bytes back. May unmap a segment or return pages. Accepts NULL. Any thread. */
void hth_arena_give(hth_arena *arena, uint8_t *slab, size_t n_bytes);

/* Return up to n_bytes of free memory to the system; returns the number of bytes given. Any thread. */
uint64_t hth_arena_release(hth_arena *arena, uint64_t n_bytes);
/* Set a new limit. Free memory beyond it returns to the system now; slabs beyond it return when they are given back. */
void hth_arena_set_bytes_max(hth_arena *arena, uint64_t bytes_max);

/* The offset of a slab in the file, counted from fd_begin. */
uint64_t hth_arena_offset(hth_arena *arena, const uint8_t *slab);
/*
 * Claim the slab of n_bytes that an earlier process had at this offset. NULL when there cannot be one: it lies outside
 * the file, crosses the end of a segment or overlaps another slab. Call it only between hth_arena_open and
 * hth_arena_claims_end. Claimed slabs may exceed bytes_max.
 */
uint8_t *hth_arena_claim(hth_arena *arena, uint64_t offset, uint64_t n_bytes);
/* Give all parts of the file that were not claimed back to the system, and start normal operation. */
void hth_arena_claims_end(hth_arena *arena);

/* The bytes that a slab of n_bytes occupies: whole pages. */
size_t hth_arena_slab_bytes(size_t n_bytes);

typedef struct hth_arena_totals {
    uint64_t mapped_bytes; /* memory held: touched or promised to slabs */
    uint64_t used_bytes;   /* in slabs */
    uint64_t address_bytes;
} hth_arena_totals;
void hth_arena_totals_get(hth_arena *arena, hth_arena_totals *out);

#endif
