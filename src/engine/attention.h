/*
 * attention.h - the engine's attention of rows that decode, replaced where the build allows it
 *
 * See attention.c. Where it is not built in, everything here says so and the engine is as it was.
 */
#ifndef HTH_ENGINE_ATTENTION_H
#define HTH_ENGINE_ATTENTION_H

#include <stdbool.h>

#ifdef HTH_ATTENTION_RANGES

/* Reads HEARTH_ATTENTION ("engine" leaves the engine's own in place). Once, before the first context. */
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
