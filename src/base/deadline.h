/*
 * deadline.h - waiting on a condition variable until a deadline that clock adjustments do not move
 */
#ifndef HTH_BASE_DEADLINE_H
#define HTH_BASE_DEADLINE_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Initialise a condition variable whose timed waits use the clock of hth_deadline_after. */
void hth_condition_init(pthread_cond_t *condition);
/* The time timeout_ms from now, for pthread_cond_timedwait on such a condition variable. */
struct timespec hth_deadline_after(uint32_t timeout_ms);

#endif
