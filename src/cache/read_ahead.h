/*
 * read_ahead.h - the rows of one restore, brought into memory in order while earlier ones are unpacked
 *
 * Reading and checksumming a row costs about as much as unpacking it into the context. A helper thread does the former
 * for the rows that come next, so that both go on at once. Rows that a device must be asked for go out to it together,
 * at most 64 of them and no more than the RAM tier has room for.
 */
#ifndef HTH_CACHE_READ_AHEAD_H
#define HTH_CACHE_READ_AHEAD_H

#include "cache/lookup.h"

typedef struct hth_read_ahead hth_read_ahead;

/*
 * Begin to borrow rows[0..n) in order. cache, keyspace and rows outlive it. Without a thread or without memory for one
 * (and where all rows are in RAM already) every row is borrowed when it is asked for. NULL without any memory.
 */
hth_read_ahead *hth_read_ahead_begin(hth_cache *cache, const hth_keyspace *keyspace, const hth_lookup_row *rows,
                                     size_t n);
/* The next row, waiting for it; as hth_cache_borrow. After a failure there is no next one. */
hearth_status hth_read_ahead_next(hth_read_ahead *ahead, hth_borrowed_row *out, hearth_error *err);
/* Give back what was read and not asked for. Waits for a read that is under way. Accepts NULL. */
void hth_read_ahead_end(hth_read_ahead *ahead);

#endif
