/*
 * refusals.h - how many refusals the log is told of
 *
 * Somebody who is refused may ask again at once, and for ever; what he costs is a reply, and not a disk full of lines. So
 * refusals share an allowance of lines, which fills up evenly; those beyond it are counted, and the count is told with the
 * next one that is logged. Metrics count them all.
 */
#ifndef HTH_SERVER_REFUSALS_H
#define HTH_SERVER_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HTH_REFUSALS_AT_ONCE = 100,   /* lines after a quiet time */
    HTH_REFUSALS_PER_SECOND = 10, /* and then on */
};

/* Zeroed: none were told of. One thread. */
typedef struct hth_refusals {
    uint64_t used_ns; /* of the allowance, in the time that a line takes to come back */
    uint64_t at_ns;
    uint64_t n_untold;
} hth_refusals;

/*
 * A refusal at now_ns (monotonic): may it be logged? If so, *n_untold_out is how many before it were not, to be told before
 * it; otherwise it is one of those.
 */
bool hth_refusals_take(hth_refusals *refusals, uint64_t now_ns, uint64_t *n_untold_out);

#endif
