/*
 * smaller.h - the smaller and the larger of two numbers
 */
#ifndef HTH_BASE_SMALLER_H
#define HTH_BASE_SMALLER_H

#include <stddef.h>

static inline size_t hth_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t hth_larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

#endif
