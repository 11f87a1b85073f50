/*
 * rejected.h - rows of file tiers that count as not there until they were set aside
 *
 * A row that failed its checks is quarantined by a writer thread, a row whose file is gone leaves the index with the
 * next maintenance. Until then it is remembered here, so that what is computed instead is saved. A full list forgets
 * its oldest, which is then found bad once more. A row that cannot be set aside, because the device fails, stays in it.
 */
#ifndef HTH_CACHE_REJECTED_H
#define HTH_CACHE_REJECTED_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache/row.h"

enum { HTH_REJECTED_MAX = 256 };

typedef struct hth_rejected_row {
    hth_row_id id;
    hearth_tier tier;
} hth_rejected_row;

typedef struct hth_rejected {
    pthread_mutex_t lock; /* innermost */
    _Atomic size_t n;     /* read without the lock to see that there is none, which is nearly always so */
    hth_rejected_row rows[HTH_REJECTED_MAX];
} hth_rejected;

void hth_rejected_init(hth_rejected *rejected);
void hth_rejected_deinit(hth_rejected *rejected);

/* Any thread. */
bool hth_rejected_has(hth_rejected *rejected, const hth_row_id *id, hearth_tier tier);
void hth_rejected_add(hth_rejected *rejected, const hth_row_id *id, hearth_tier tier);
/* The row was saved anew: forget it in every tier. */
void hth_rejected_forget(hth_rejected *rejected, const hth_row_id *id);
/* The tier itself knows now that the row is not there. */
void hth_rejected_forget_in(hth_rejected *rejected, const hth_row_id *id, hearth_tier tier);

#endif
