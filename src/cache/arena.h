/*
 * arena.h - memory for rows, mapped in large pieces, on huge pages where possible, touched before it is needed
 *
 * Packing 46 MB into freshly mapped memory was measured at 125 ms, into memory that was touched before at 2 ms: the
 * difference is page faults. So the arena maps segments of 64 MiB, and a helper thread faults a spare one in while
 * nobody waits. Slabs are runs of pages inside a segment.
 *
 * Two things are counted apart. Addresses are plenty: up to four times bytes_max are mapped. Memory is scarce: pages that
 * were touched or promised to a slab, in use or free. A slab goes where the fewest pages have to be faulted in, and of
 * such places where it fits best, which for the few sizes that a model's rows have is the hole that a row of its size
 * left. When the holes are too small it gets fresh addresses, and as many free pages elsewhere go back to the system. So
 * fragments cost page faults, never rows: as long as used_bytes and the slab together do not exceed bytes_max, there is a
 * slab. To make such faults rare, a sixteenth more than bytes_max may be held: with rows of a real mixture at the limit
 * 1 page in 100 was faulted in then, and 28 without. (Segments for one size class each were tried: no better, as the
 * shares of the sizes vary.)
 *
 * The memory may be a file that outlives the process. Segments then lie in it at multiples of their size, and the next
 * process claims the slabs it knows of where they are.
 */
#ifndef HTH_CACHE_ARENA_H
#define HTH_CACHE_ARENA_H

#include "base/status.h"

#define HTH_ARENA_SEGMENT_BYTES ((size_t)64 << 20)
#define HTH_ARENA_SPARE_PART 16 /* bytes_max / 16 may be held besides, in free fragments */

typedef struct hth_arena hth_arena;

typedef struct hth_arena_options {
    uint64_t bytes_max; /* of slabs; memory held: at most a sixteenth more */
    bool warm;          /* a helper thread faults memory in ahead of use */
    int fd;             /* a file to live in, borrowed until the close; -1: private memory */
    uint64_t fd_begin;  /* where in the file the arena begins: a multiple of HTH_ARENA_SEGMENT_BYTES */
} hth_arena_options;

/*
 * An empty arena. HEARTH_NO_MEMORY; with a file HEARTH_IO. In a file nothing may be taken, and nothing is warmed, before
 * hth_arena_claims_end.
 */
hearth_status hth_arena_open(const hth_arena_options *options, hth_arena **out, hearth_error *err);
/* Unmap everything. Slabs that are out are gone with it; in a file their bytes stay. Accepts NULL. */
void hth_arena_close(hth_arena *arena);

/*
 * A slab of at least n_bytes, aligned to 4 KiB; NULL when bytes_max, the address range or the system does not allow one.
 * *cold_out (may be NULL): some of its pages are not there yet; see hth_arena_commit. Faults no page in, but may map a
 * segment, give pages back to the system, and wait while the helper thread touches one piece of 2 MiB. Any thread.
 */
uint8_t *hth_arena_take(hth_arena *arena, size_t n_bytes, bool *cold_out);
/*
 * In a file: make a cold slab's pages be there before anybody writes to them, which would otherwise end the process when
 * the system has none. False when it has none: the slab is good for giving back only. Private memory needs no call. Any
 * thread; may take as long as zeroing the slab.
 */
bool hth_arena_commit(hth_arena *arena, uint8_t *slab, size_t n_bytes);
/* Give the end of a slab back: it was of n_bytes and is of n_bytes_left, > 0, from now on. Any thread. */
void hth_arena_shrink(hth_arena *arena, uint8_t *slab, size_t n_bytes, size_t n_bytes_left);
/* Give a slab back; n_bytes as taken or left. May unmap a segment or give pages back. Accepts NULL. Any thread. */
void hth_arena_give(hth_arena *arena, uint8_t *slab, size_t n_bytes);

/* Give up to n_bytes of free memory back to the system; returns how many it was. Any thread. */
uint64_t hth_arena_release(hth_arena *arena, uint64_t n_bytes);
/* A new limit. What is free beyond it goes back to the system now, what is in slabs when they are given back. */
void hth_arena_set_bytes_max(hth_arena *arena, uint64_t bytes_max);

/* Where a slab lies in the file, from fd_begin on. */
uint64_t hth_arena_offset(hth_arena *arena, const uint8_t *slab);
/*
 * The slab of n_bytes at that offset of a file, as an earlier process had it; NULL when there cannot be one: outside of
 * the file, across a segment's end, over another slab. Only between the opening and hth_arena_claims_end; may exceed
 * bytes_max.
 */
uint8_t *hth_arena_claim(hth_arena *arena, uint64_t offset, uint64_t n_bytes);
/* Give everything in the file that was not claimed back to the system, and begin to work. */
void hth_arena_claims_end(hth_arena *arena);

/* Bytes that a slab of n_bytes occupies. */
size_t hth_arena_slab_bytes(size_t n_bytes);

typedef struct hth_arena_totals {
    uint64_t mapped_bytes; /* memory held: touched or promised to slabs */
    uint64_t used_bytes;   /* in slabs */
    uint64_t address_bytes;
} hth_arena_totals;
void hth_arena_totals_get(hth_arena *arena, hth_arena_totals *out);

#endif
