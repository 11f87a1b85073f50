/*
 * keep_alive.h - for how long a model stays loaded after a request, as Ollama's clients say it
 */
#ifndef HTH_API_KEEP_ALIVE_H
#define HTH_API_KEEP_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Read a number of seconds, or a duration in Go's form ("1h30m", "300ms", "-1s"), into *ms; UINT64_MAX: for ever, which
 * negative values mean. False, with *ms unchanged: the text is neither. Pure.
 */
bool hth_api_keep_alive_read(const char *text, uint64_t *ms);

/* The same of a number, in milliseconds. It must be finite. */
uint64_t hth_api_keep_alive_of(double seconds);

#endif
