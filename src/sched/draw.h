/*
 * draw.h - the token that a draw falls on
 *
 * The draw itself is a function of (seed, position), see base/draw.h.
 */
#ifndef HTH_SCHED_DRAW_H
#define HTH_SCHED_DRAW_H

#include "base/draw.h"
#include "engine/backend.h"

/* The candidate that falls on the draw at position; candidates as hth_backend.sampler_apply gives them, n >= 1. */
hearth_token hth_draw_token(const hth_candidate *candidates, size_t n, uint64_t seed, uint64_t position);

#endif
