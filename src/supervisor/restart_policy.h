/*
 * restart_policy.h - the pause before a dead worker is started again
 *
 * A worker that was ready for healthy_ms (30 s by default), or that served a request, is restarted at once: it can do
 * its work, whatever killed it. For workers that served nothing, each further death in a row doubles the pause, up to
 * HTH_RESTART_PAUSE_MAX_MS. Half of the pause is random, so that many workers do not start in step.
 * HTH_RESTART_DEATHS_MAX deaths in a row with less than twice healthy_ms of readiness between them break the circuit:
 * requests are refused during a pause that doubles with every failed try.
 *
 * A pure function: times and the random number are passed in.
 */
#ifndef HTH_SUPERVISOR_RESTART_POLICY_H
#define HTH_SUPERVISOR_RESTART_POLICY_H

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

/* The recent deaths of a model's workers. All zeros: none. */
typedef struct hth_restart_policy {
    uint32_t n_deaths;                         /* in a row */
    uint32_t n_breaks;                         /* in a row */
    uint32_t ready_ms[HTH_RESTART_DEATHS_MAX]; /* how long the last processes were ready, the latest first */
} hth_restart_policy;

typedef struct hth_restart {
    bool is_broken;    /* requests are refused during the pause */
    uint32_t pause_ms; /* before the next start */
} hth_restart;

/* The life of a process that died. */
typedef struct hth_restart_life {
    uint64_t ready_ms; /* how long it was ready; 0: it never was */
    bool has_served;   /* it finished or continued a reply */
} hth_restart_life;

/*
 * A worker died. If it was ready for healthy_ms or served something, earlier deaths are forgotten. draw: a random
 * number in [0, 1).
 */
hth_restart hth_restart_after_death(hth_restart_policy *policy, uint32_t healthy_ms, const hth_restart_life *life,
                                    double draw);

#endif
