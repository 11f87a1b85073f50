/*
 * read_ahead.h - brings the rows of one restore into memory, in order, while earlier ones are unpacked
 *
 * Reading and checksumming a row costs about as much as unpacking it into the context. A helper thread reads the next
 * rows, so that both run at once. Reads that need the device are sent together: at most 64, and no more than the RAM
 * tier has room for.
 */
#ifndef HTH_CACHE_READ_AHEAD_H
#define HTH_CACHE_READ_AHEAD_H

#include "cache/lookup.h"

typedef struct hth_read_ahead hth_read_ahead;

/*
 * Begin to borrow rows[0..n) in order. cache, keyspace and rows must outlive the result. Without a helper thread (no
 * memory for one, or all rows are already in RAM), each row is borrowed when it is asked for. NULL without memory.
 */
hth_read_ahead *hth_read_ahead_begin(hth_cache *cache, const hth_keyspace *keyspace, const hth_lookup_row *rows,
                                     size_t n);
/* Wait for the next row; statuses as hth_cache_borrow. Do not call it again after a failure. */
hearth_status hth_read_ahead_next(hth_read_ahead *ahead, hth_borrowed_row *out, hearth_error *err);
/* Give back rows that were read but not asked for. Waits for ongoing reads. Accepts NULL. */
void hth_read_ahead_end(hth_read_ahead *ahead);

#endif
