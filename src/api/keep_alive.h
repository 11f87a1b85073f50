/*
 * keep_alive.h - how long a model stays loaded after a request, in the form Ollama's clients use
 */
#ifndef HTH_API_KEEP_ALIVE_H
#define HTH_API_KEEP_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Read a number of seconds, or a duration in Go's form ("1h30m", "300ms", "-1s"), into *ms. Negative values mean
 * forever: UINT64_MAX. False, with *ms unchanged, if the text is neither. Pure.
 */
bool hth_api_keep_alive_read(const char *text, uint64_t *ms);

/* The same for a number of seconds, which must be finite. Returns milliseconds. */
uint64_t hth_api_keep_alive_of(double seconds);

#endif
