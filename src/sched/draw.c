/*
 * draw.c - find the candidate for the drawn number
 */
#include "sched/draw.h"

#include <assert.h>

hearth_token hth_draw_token(const hth_candidate *candidates, size_t n, uint64_t seed, uint64_t position)
{
    double at = hth_draw_uniform(seed, position);
    double sum = 0;

    assert(n > 0);
    for (size_t i = 0; i + 1 < n; i++) {
        sum += candidates[i].probability;
        if (at < sum)
            return candidates[i].token;
    }
    return candidates[n - 1].token; /* also if rounding leaves the sum slightly below 1 */
}
