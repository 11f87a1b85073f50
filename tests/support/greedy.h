/*
 * greedy.h - sampling that draws the likeliest token
 */
#ifndef HTH_TESTS_GREEDY_H
#define HTH_TESTS_GREEDY_H

#include "hearth.h"

/* The defaults with temperature 0. To be used while the calling thread lives; not to be changed. */
static inline const hearth_sampling *hth_test_greedy_sampling(void)
{
    static _Thread_local hearth_sampling greedy;

    greedy = hearth_sampling_default();
    greedy.temperature = 0;
    return &greedy;
}

#endif
