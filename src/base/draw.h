/*
 * draw.h - random numbers that depend only on (seed, position)
 *
 * A reply may be interrupted and continued elsewhere, or sampled from saved logits instead of computed ones. It must
 * draw the same token at the same position. So there is no stateful generator: the draw for a position is a hash of
 * seed and position (the finaliser of SplitMix64, applied twice; Steele, Lea and Flood, "Fast splittable pseudorandom
 * number generators", OOPSLA 2014).
 */
#ifndef HTH_BASE_DRAW_H
#define HTH_BASE_DRAW_H

#include <stdint.h>

/* The purpose of a draw. Two purposes at one position are independent. */
typedef enum hth_draw_purpose {
    HTH_DRAW_TOKEN = 0,
    HTH_DRAW_XTC = 1, /* whether top choices are excluded */
} hth_draw_purpose;

/* A number in [0, 1), with 53 bits: the draw of the token at position. */
double hth_draw_uniform(uint64_t seed, uint64_t position);
/* Likewise, for any purpose; HTH_DRAW_TOKEN gives the same result as hth_draw_uniform. */
double hth_draw_uniform_for(hth_draw_purpose purpose, uint64_t seed, uint64_t position);

/* A new seed, below 2^52. JSON readers that use doubles represent it exactly, and also the seeds counted up from it. */
uint64_t hth_draw_seed(void);

#endif
