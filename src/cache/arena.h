/*
 * arena.h - memory for rows, mapped in large pieces, on huge pages where possible, touched before it is needed
 *
 * Packing 46 MB into freshly mapped memory was measured at 125 ms, into memory that was touched before at 2 ms: the
 * difference is page faults. So the arena maps segments of 64 MiB, and a helper thread faults a spare one in while
 * nobody waits. Slabs are runs of pages inside a segment. A segment without slabs is given back to the system when
 * another one is empty too.
 */
#ifndef HTH_CACHE_ARENA_H
#define HTH_CACHE_ARENA_H

#include "base/status.h"

#define HTH_ARENA_SEGMENT_BYTES ((size_t)64 << 20)

typedef struct hth_arena hth_arena;

/* An arena that maps at most bytes_max bytes. With warm, a helper thread faults in a first segment at once. */
hearth_status hth_arena_open(uint64_t bytes_max, bool warm, hth_arena **out, hearth_error *err);
void hth_arena_close(hth_arena *arena); /* all slabs must be back; accepts NULL */

/* A slab of at least n_bytes, aligned to 4 KiB; NULL when no run is free and no segment may be added. Any thread. */
uint8_t *hth_arena_take(hth_arena *arena, size_t n_bytes);
/* Give a slab back; n_bytes as taken. Any thread. */
void hth_arena_give(hth_arena *arena, uint8_t *slab, size_t n_bytes);

/* Bytes that a slab of n_bytes occupies. */
size_t hth_arena_slab_bytes(size_t n_bytes);

typedef struct hth_arena_totals {
    uint64_t mapped_bytes;
    uint64_t used_bytes; /* in slabs */
} hth_arena_totals;
void hth_arena_totals_get(hth_arena *arena, hth_arena_totals *out);

#endif
