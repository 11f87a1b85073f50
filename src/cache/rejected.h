/*
 * rejected.h - rows of file tiers that count as missing until they are set aside
 *
 * A writer thread quarantines a row that failed its checks, and the next maintenance removes a row without a file from
 * the index. Until then this list remembers the row, so that the recomputed row can be saved. A full list forgets its
 * oldest row, which then fails its checks again. A row that cannot be set aside, because the device fails, stays in the
 * list.
 */
#ifndef HTH_CACHE_REJECTED_H
#define HTH_CACHE_REJECTED_H

#include <pthread.h>
#include <stdatomic.h>

#include "rows/row.h"

enum { HTH_REJECTED_MAX = 256 };

typedef struct hth_rejected_row {
    hth_row_id id;
    hearth_tier tier;
} hth_rejected_row;

typedef struct hth_rejected {
    pthread_mutex_t lock; /* innermost */
    _Atomic size_t n;     /* read without the lock to see that the list is empty, as it nearly always is */
    hth_rejected_row rows[HTH_REJECTED_MAX];
} hth_rejected;

void hth_rejected_init(hth_rejected *rejected);
void hth_rejected_deinit(hth_rejected *rejected);

/* Any thread. */
bool hth_rejected_has(hth_rejected *rejected, const hth_row_id *id, hearth_tier tier);
void hth_rejected_add(hth_rejected *rejected, const hth_row_id *id, hearth_tier tier);
/* The row was saved again: forget it in every tier. */
void hth_rejected_forget(hth_rejected *rejected, const hth_row_id *id);
/* The tier itself now knows that the row is gone. */
void hth_rejected_forget_in(hth_rejected *rejected, const hth_row_id *id, hearth_tier tier);

#endif
