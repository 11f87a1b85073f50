/*
 * draw.c - a counter-based draw
 */
#include "base/draw.h"

#include "base/os.h"

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

double hth_draw_uniform(uint64_t seed, uint64_t position)
{
    return hth_draw_uniform_for(HTH_DRAW_TOKEN, seed, position);
}

double hth_draw_uniform_for(hth_draw_purpose purpose, uint64_t seed, uint64_t position)
{
    uint64_t of_seed = mix(seed);

    for (int i = 0; i < (int)purpose; i++) /* each purpose has its own seeds */
        of_seed = mix(of_seed);
    return (double)(mix(of_seed ^ position) >> 11) * 0x1.0p-53;
}

uint64_t hth_draw_seed(void)
{
    uint64_t seed;

    hth_os_random(&seed, sizeof(seed));
    return seed >> 12;
}
