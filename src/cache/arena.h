/*
 * arena.h - memory for rows: large mapped segments, huge pages where possible, faulted in ahead of use
 *
 * Packing 46 MB into freshly mapped memory took 125 ms, into memory that was touched before 2 ms. The difference is
 * page faults. So the arena maps segments of 64 MiB, and a helper thread faults a spare segment in while nobody waits.
 * A slab is a run of pages inside a segment.
 *
 * The arena counts addresses and memory apart. Addresses are plenty: the arena maps up to four times bytes_max. Memory
 * is scarce: it is the pages that were touched or promised to a slab, in use or free. A slab goes to the free run where
 * the fewest pages must be faulted in; among equal runs, to the shortest. The rows of a model have few sizes, so this
 * run is usually the hole that a row of the same size left. When all holes are too small, the slab gets fresh
 * addresses, and as many free pages elsewhere go back to the system. So fragments cost page faults, never rows: a slab
 * can be had as long as used_bytes and the slab together do not exceed bytes_max. To make such faults rare, the arena
 * may hold a sixteenth more than bytes_max: with a real mixture of rows at the limit, 1 page in 100 was faulted in,
 * without the sixteenth 28. (Segments for one size class each were no better, because the shares of the sizes vary.)
 *
 * The memory may be a file that outlives the process. Segments then lie in the file at multiples of their size, and the
 * next process claims the slabs that it knows at their offsets.
 */
#ifndef HTH_CACHE_ARENA_H
#define HTH_CACHE_ARENA_H

#include "base/status.h"

#define HTH_ARENA_SEGMENT_BYTES ((size_t)64 << 20)
#define HTH_ARENA_SPARE_PART 16 /* bytes_max / 16 may be held in addition, as free fragments */

typedef struct hth_arena hth_arena;

typedef struct hth_arena_options {
    uint64_t bytes_max; /* of all slabs; the memory held is at most a sixteenth more */
    bool warm;          /* a helper thread faults memory in ahead of use */
    int fd;             /* the file of the memory, borrowed until the close; -1: private memory */
    uint64_t fd_begin;  /* where in the file the arena begins: a multiple of HTH_ARENA_SEGMENT_BYTES */
} hth_arena_options;

/*
 * Open an empty arena. HEARTH_NO_MEMORY; with a file HEARTH_IO. With a file, no slab may be taken and nothing is warmed
 * before hth_arena_claims_end.
 */
hearth_status hth_arena_open(const hth_arena_options *options, hth_arena **out, hearth_error *err);
/*
 * Unmap everything. Slabs that were not given back become invalid; in a file their bytes stay, and free memory returns
 * to the system. Accepts NULL.
 */
void hth_arena_close(hth_arena *arena);

/*
 * Take a slab of at least n_bytes, aligned to 4 KiB. NULL: bytes_max, the address range or the system does not allow
 * it. *cold_out (may be NULL) tells whether pages of the slab must still be faulted in; see hth_arena_commit. The call
 * faults no page in. It may map a segment, give pages back to the system, and wait while the helper thread touches one
 * piece of 2 MiB. Any thread.
 */
uint8_t *hth_arena_take(hth_arena *arena, size_t n_bytes, bool *cold_out);
/*
 * Tell that a slab of n_bytes was taken, cold or not, and that others of its size follow one by one, as those of a
 * prefill do: memory for a few of them is touched in the pauses between them. A restore makes no pauses, so touching is
 * in its way where there are few CPUs. Slabs that are larger than a segment are touched by nobody ahead. Any thread.
 */
void hth_arena_more_follow(hth_arena *arena, size_t n_bytes, bool cold);
/*
 * Allocate the pages of a cold slab in the file before the first write: without a page left in the system, that write
 * would end the process. False: the system has none, and the slab may only be given back. Private memory needs no call.
 * Any thread; may take as long as zeroing the slab.
 */
bool hth_arena_commit(hth_arena *arena, uint8_t *slab, size_t n_bytes);
/* Give the end of a slab back: its size goes from n_bytes to n_bytes_left, > 0. Any thread. */
void hth_arena_shrink(hth_arena *arena, uint8_t *slab, size_t n_bytes, size_t n_bytes_left);
/* Give a slab back; n_bytes: its size now. May unmap a segment or return pages. Accepts NULL. Any thread. */
void hth_arena_give(hth_arena *arena, uint8_t *slab, size_t n_bytes);

/* Give up to n_bytes of free memory back to the system; returns the number of bytes given. Any thread. */
uint64_t hth_arena_release(hth_arena *arena, uint64_t n_bytes);
/* Set a new limit. Free memory beyond it goes back to the system now, slabs beyond it when they are given back. */
void hth_arena_set_bytes_max(hth_arena *arena, uint64_t bytes_max);

/* The offset of a slab in the file, counted from fd_begin. */
uint64_t hth_arena_offset(hth_arena *arena, const uint8_t *slab);
/*
 * Claim the slab of n_bytes that an earlier process had at this offset. NULL when it cannot be one: it is outside of
 * the file, crosses a segment's end or overlaps another slab. Only between hth_arena_open and hth_arena_claims_end.
 * Claimed slabs may exceed bytes_max.
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
