/*
 * restart_policy.h - the pause before a dead worker is started again
 *
 * A worker that had been ready for healthy_ms (30 s by default), or that served a request, is started again at once:
 * whatever killed it, it does its work. Of those that served nothing, each further death in a row
 * doubles the pause, up to HTH_RESTART_PAUSE_MAX_MS, with half of it random, so that many workers do not start in step.
 * HTH_RESTART_DEATHS_MAX deaths in a row with less than twice healthy_ms of readiness between them break the circuit:
 * requests are refused for a pause that doubles with every failed try.
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
    uint32_t ready_ms[HTH_RESTART_DEATHS_MAX]; /* time of readiness of the last processes, the latest first */
} hth_restart_policy;

typedef struct hth_restart {
    bool is_broken;    /* requests are refused during the pause */
    uint32_t pause_ms; /* before the next start */
} hth_restart;

/* What a process did until it died. */
typedef struct hth_restart_life {
    uint64_t ready_ms; /* time of readiness; 0: it never was ready */
    bool has_served;   /* it finished a reply, or brought one further */
} hth_restart_life;

/*
 * A worker died. After healthy_ms of readiness, or some service, earlier deaths are forgotten. draw: a random number in
 * [0, 1).
 */
hth_restart hth_restart_after_death(hth_restart_policy *policy, uint32_t healthy_ms, const hth_restart_life *life,
                                    double draw);

#endif
