/*
 * attention.h - replace the engine's attention of rows that decode, where the build allows it
 *
 * attention.c explains it. A build without it has the engine's own attention, and the functions here say so.
 */
#ifndef HTH_KERNELS_ATTENTION_H
#define HTH_KERNELS_ATTENTION_H

#include <stdbool.h>

#ifdef HTH_ATTENTION_RANGES

/* Read HEARTH_ATTENTION ("engine": keep the engine's own attention). Call it once, before the first context. */
void hth_attention_start(void);
/* Fixed from hth_attention_start on; any thread. */
bool hth_attention_is_on(void);

#else

static inline void hth_attention_start(void)
{
}

static inline bool hth_attention_is_on(void)
{
    return false;
}

#endif
#endif
