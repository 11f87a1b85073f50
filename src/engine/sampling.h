/*
 * sampling.h - which sampling options make sense
 */
#ifndef HTH_ENGINE_SAMPLING_H
#define HTH_ENGINE_SAMPLING_H

#include "hearth.h"

/* The most recent tokens that a repeat penalty can look at. */
#define HTH_REPEAT_LAST_N_MAX 65536u

/* What is wrong with sampling values, to follow the word "sampling" in a message; NULL when nothing is. */
static inline const char *hth_sampling_problem(const hearth_sampling *sampling)
{
    /* Written so that a NaN is a problem. */
    if (!(sampling->temperature >= 0 && sampling->temperature <= 1000))
        return "temperature must be 0 to 1000";
    if (sampling->top_k < 0)
        return "top_k must not be negative";
    if (!(sampling->top_p >= 0 && sampling->top_p <= 1))
        return "top_p must be 0 to 1";
    if (!(sampling->min_p >= 0 && sampling->min_p <= 1))
        return "min_p must be 0 to 1";
    if (!(sampling->repeat_penalty >= 0.01f && sampling->repeat_penalty <= 1000))
        return "repeat_penalty must be 0.01 to 1000";
    if (sampling->repeat_last_n > HTH_REPEAT_LAST_N_MAX)
        return "repeat_last_n must be at most 65536";
    return NULL;
}

#endif
