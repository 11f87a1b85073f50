/*
 * attention.h - replaces the engine's attention, where the build allows it
 *
 * See attention.c. A build without it uses the engine's own attention, and hth_attention_is_on is then false.
 */
#ifndef HTH_KERNELS_ATTENTION_H
#define HTH_KERNELS_ATTENTION_H

#include <stdbool.h>

#ifdef HTH_ATTENTION_RANGES

/* Read HEARTH_ATTENTION ("engine": keep the engine's own attention). Call it once, before the first context. */
void hth_attention_start(void);
/* Does not change after hth_attention_start; any thread. */
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
