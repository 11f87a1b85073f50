/*
 * refusals.c - see refusals.h
 */
#include "http/refusals.h"

#define LINE_NS (UINT64_C(1000000000) / HTH_REFUSALS_PER_SECOND)

bool hth_refusals_take(hth_refusals *refusals, uint64_t now_ns, uint64_t *n_untold_out)
{
    const uint64_t passed_ns = now_ns > refusals->at_ns ? now_ns - refusals->at_ns : 0;

    refusals->used_ns -= passed_ns < refusals->used_ns ? passed_ns : refusals->used_ns;
    if (passed_ns > 0)
        refusals->at_ns = now_ns;
    if (refusals->used_ns > (HTH_REFUSALS_AT_ONCE - 1) * LINE_NS) {
        refusals->n_untold++;
        return false;
    }
    refusals->used_ns += LINE_NS;
    *n_untold_out = refusals->n_untold;
    refusals->n_untold = 0;
    return true;
}
