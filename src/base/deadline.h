/*
 * deadline.h - waiting on a condition until a moment that no clock adjustment moves
 */
#ifndef HTH_BASE_DEADLINE_H
#define HTH_BASE_DEADLINE_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Initialise a condition whose timed waits use the clock of hth_deadline_after. */
void hth_condition_init(pthread_cond_t *condition);
/* The moment timeout_ms from now, for pthread_cond_timedwait on such a condition. */
struct timespec hth_deadline_after(uint32_t timeout_ms);

#endif
