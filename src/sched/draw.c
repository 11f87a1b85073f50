/*
 * draw.c - a counter-based draw
 */
#include "sched/draw.h"

#include <assert.h>

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

double hth_draw_uniform(uint64_t seed, uint64_t position)
{
    return (double)(mix(mix(seed) ^ position) >> 11) * 0x1.0p-53;
}

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
    return candidates[n - 1].token; /* also where rounding left the sum a little under 1 */
}
