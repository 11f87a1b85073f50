/*
 * refusals.h - bounds how many refusals are logged
 *
 * A refused client can ask again at once and for ever, and must not fill the disk with lines of the log. So refusals
 * share an allowance of lines, which refills evenly. The next logged refusal tells how many were not logged. Metrics
 * count them all.
 */
#ifndef HTH_HTTP_REFUSALS_H
#define HTH_HTTP_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HTH_REFUSALS_AT_ONCE = 100,   /* lines after a quiet time */
    HTH_REFUSALS_PER_SECOND = 10, /* and then on */
};

/* All zeros at the beginning. One thread. */
typedef struct hth_refusals {
    uint64_t used_ns; /* of the allowance, in the time that a line takes to come back */
    uint64_t at_ns;
    uint64_t n_untold;
} hth_refusals;

/*
 * A refusal at now_ns (monotonic): may it be logged? If so, *n_untold_out is the number of refusals since the last
 * logged one; otherwise it is counted.
 */
bool hth_refusals_take(hth_refusals *refusals, uint64_t now_ns, uint64_t *n_untold_out);

#endif
