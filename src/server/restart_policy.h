/*
 * restart_policy.h - when a worker that died is started again
 *
 * A worker that had been ready for healthy_ms (30 s by default) is started again at once. Each further death in a row doubles the
 * pause, up to HTH_RESTART_PAUSE_MAX_MS, with half of it drawn by lot, so that many workers do not start in step. Deaths
 * in a row that come with hardly any service between them (HTH_RESTART_DEATHS_MAX within twice healthy_ms of being
 * ready) break the circuit: the model is refused for a pause that doubles with every try that fails.
 *
 * A pure function of what happened: time and the draw are passed in.
 */
#ifndef HTH_SERVER_RESTART_POLICY_H
#define HTH_SERVER_RESTART_POLICY_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HTH_RESTART_FIRST_MS = 50,  /* the longest pause before the first restart */
    HTH_RESTART_PAUSE_MS = 500, /* the second one; it doubles from here */
    HTH_RESTART_PAUSE_MAX_MS = 30000,
    HTH_RESTART_DEATHS_MAX = 5,
    HTH_RESTART_BROKEN_MS = 30000,
    HTH_RESTART_BROKEN_MAX_MS = 600000,
};

/* What is remembered of a model's deaths. All zeros: there was none. */
typedef struct hth_restart_policy {
    uint32_t n_deaths;                         /* in a row */
    uint32_t n_breaks;                         /* in a row */
    uint32_t ready_ms[HTH_RESTART_DEATHS_MAX]; /* how long each of the last lives had been ready, the latest first */
} hth_restart_policy;

typedef struct hth_restart {
    bool is_broken;    /* requests are refused during the pause */
    uint32_t pause_ms; /* before the next start */
} hth_restart;

/* A worker died. healthy_ms: of being ready, after which what went before is forgotten; ready_ms: how long it had been ready, 0 where it never was; draw: in [0, 1). */
hth_restart hth_restart_after_death(hth_restart_policy *policy, uint32_t healthy_ms, uint64_t ready_ms, double draw);

#endif
