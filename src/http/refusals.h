/*
 * refusals.h - limits the number of logged refusals
 *
 * A refused client can retry at once and for ever, and must not fill the disk with log lines. So refusals share an
 * allowance of lines, which refills evenly. The next logged refusal reports how many were not logged. Metrics count all
 * of them.
 */
#ifndef HTH_HTTP_REFUSALS_H
#define HTH_HTTP_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HTH_REFUSALS_AT_ONCE = 100,   /* burst of lines after a quiet time */
    HTH_REFUSALS_PER_SECOND = 10, /* afterwards */
};

/* All zeros at the beginning. One thread. */
typedef struct hth_refusals {
    uint64_t used_ns; /* used allowance, as the time in which it refills */
    uint64_t at_ns;
    uint64_t n_untold;
} hth_refusals;

/*
 * May a refusal at now_ns (monotonic) be logged? If so, *n_untold_out is the number of refusals since the last logged
 * one; otherwise the refusal is counted.
 */
bool hth_refusals_take(hth_refusals *refusals, uint64_t now_ns, uint64_t *n_untold_out);

#endif
