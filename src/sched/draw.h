/*
 * draw.h - randomness that is a function of (seed, position) and nothing else
 *
 * A reply that is broken off and continued elsewhere, or sampled from saved logits instead of computed ones, must draw
 * the same token at the same position. So there is no generator with a state: the draw for a position is a hash of seed
 * and position (the finaliser of SplitMix64, applied twice; Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014).
 */
#ifndef HTH_SCHED_DRAW_H
#define HTH_SCHED_DRAW_H

#include "engine/backend.h"

/* A number in [0, 1), with 53 bits. */
double hth_draw_uniform(uint64_t seed, uint64_t position);

/* The candidate that falls on that draw; candidates as hth_backend.sampler_apply gives them, n >= 1. */
hearth_token hth_draw_token(const hth_candidate *candidates, size_t n, uint64_t seed, uint64_t position);

#endif
