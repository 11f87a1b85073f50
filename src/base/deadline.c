/*
 * deadline.c - uses the monotonic clock where condition variables support it, and the wall clock on the one system
 * where they do not
 */
#include "base/deadline.h"

#ifdef __APPLE__ /* has no pthread_condattr_setclock */
#define CONDITION_CLOCK CLOCK_REALTIME
#else
#define CONDITION_CLOCK CLOCK_MONOTONIC
#endif

void hth_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
#ifndef __APPLE__
    pthread_condattr_setclock(&attributes, CONDITION_CLOCK);
#endif
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

struct timespec hth_deadline_after(uint32_t timeout_ms)
{
    struct timespec at;

    clock_gettime(CONDITION_CLOCK, &at);
    at.tv_sec += timeout_ms / 1000;
    at.tv_nsec += (long)(timeout_ms % 1000) * 1000000L;
    if (at.tv_nsec >= 1000000000L) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000L;
    }
    return at;
}
