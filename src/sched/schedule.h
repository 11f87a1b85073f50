/*
 * schedule.h - the options of a scheduler
 */
#ifndef HTH_SCHED_SCHEDULE_H
#define HTH_SCHED_SCHEDULE_H

#include "sched/strategy.h"

enum {
    HTH_PARALLEL_MAX = 128,
    HTH_TELL_TOKENS = 2048, /* the default of n_tell: takes about a millisecond */
};

typedef struct hth_schedule {
    uint32_t n_parallel;  /* maximum number of running requests, 1 .. HTH_PARALLEL_MAX */
    uint32_t n_sequences; /* at least n_parallel + 1; the context has one more, the scratch sequence */
    hth_strategy strategy;
    uint32_t prefill_chunk; /* 64, 128 or 256 */
    uint32_t max_tick_ms;
    uint32_t session_idle_ms;
    uint32_t stalled_ms; /* a request whose reader pauses longer is ended */
    uint32_t aging_ms;
    uint32_t n_tell; /* maximum tokens of echoed prompts and replayed replies per tick; >= 1 */
} hth_schedule;

#endif
