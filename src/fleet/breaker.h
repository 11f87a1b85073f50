/*
 * breaker.h - whether requests for one model of one node are worth a try
 *
 *   CLOSED     requests go there
 *   OPEN       HTH_BREAKER_FAILURES in a row failed: none goes there until a pause is over, which doubles each time
 *   HALF OPEN  the pause is over: one request tries it; its success closes the breaker, its failure opens it again
 *
 * A broken connection and the death of a worker are failures. An answer is none, whatever its status, and neither is a
 * client that leaves. Pure functions of the breaker and the time.
 */
#ifndef HTH_FLEET_BREAKER_H
#define HTH_FLEET_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HTH_BREAKER_FAILURES = 3,
    HTH_BREAKER_PAUSE_MS_MIN = 1000,
    HTH_BREAKER_PAUSE_MS_MAX = 60000,
};

/* All zeros is a closed breaker. */
typedef struct hth_breaker {
    uint32_t n_failures; /* in a row */
    uint32_t n_openings; /* in a row */
    uint64_t open_until_ns;
    bool is_trying; /* the one request of HALF OPEN is on its way */
} hth_breaker;

static inline bool hth_breaker_is_closed(const hth_breaker *breaker)
{
    return breaker->n_openings == 0;
}

static inline bool hth_breaker_allows(const hth_breaker *breaker, uint64_t now_ns)
{
    return hth_breaker_is_closed(breaker) || (!breaker->is_trying && now_ns >= breaker->open_until_ns);
}

/* A request goes there, which the breaker allows. True: it is the trial, and its end must be told as the trial's. */
static inline bool hth_breaker_note_try(hth_breaker *breaker)
{
    breaker->is_trying = breaker->is_trying || !hth_breaker_is_closed(breaker);
    return breaker->is_trying;
}

/* A request ended in another way: its client left, or it moved. */
static inline void hth_breaker_note_end(hth_breaker *breaker, bool is_trial)
{
    breaker->is_trying = breaker->is_trying && !is_trial;
}

static inline void hth_breaker_note_success(hth_breaker *breaker)
{
    *breaker = (hth_breaker){ .n_failures = 0 };
}

static inline void hth_breaker_note_failure(hth_breaker *breaker, bool is_trial, uint64_t now_ns)
{
    uint64_t pause_ms = HTH_BREAKER_PAUSE_MS_MIN;

    if (breaker->n_failures < HTH_BREAKER_FAILURES)
        breaker->n_failures++;
    if (breaker->n_failures < HTH_BREAKER_FAILURES || (!hth_breaker_is_closed(breaker) && !is_trial))
        return; /* a request from before the opening fails late: it says nothing new */
    for (uint32_t i = 0; i < breaker->n_openings && pause_ms < HTH_BREAKER_PAUSE_MS_MAX; i++)
        pause_ms *= 2;
    if (pause_ms > HTH_BREAKER_PAUSE_MS_MAX)
        pause_ms = HTH_BREAKER_PAUSE_MS_MAX;
    breaker->n_openings++;
    breaker->is_trying = false;
    breaker->open_until_ns = now_ns + pause_ms * 1000000u;
}

#endif
