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
    uint32_t n_parallel;  /* most requests that run at once, 1 .. HTH_PARALLEL_MAX */
    uint32_t n_sequences; /* at least n_parallel + 1; the context has one more, the scratch sequence */
    hth_strategy strategy;
    uint32_t prefill_chunk; /* 64, 128 or 256 */
    uint32_t max_tick_ms;
    uint32_t session_idle_ms;
    uint32_t stalled_ms; /* a reader that pauses longer is given up */
    uint32_t aging_ms;
    uint32_t n_tell; /* most tokens of echoed prompts and replayed replies that a tick delivers; >= 1 */
} hth_schedule;

#endif
