/*
 * draw.h - draw a token from its candidates
 */
#ifndef HTH_SCHED_DRAW_H
#define HTH_SCHED_DRAW_H

#include "base/draw.h"
#include "engine/backend.h"

/* Draw one of n >= 1 candidates of hth_backend.sampler_apply. The draw depends on (seed, position), see base/draw.h. */
hearth_token hth_draw_token(const hth_candidate *candidates, size_t n, uint64_t seed, uint64_t position);

#endif
