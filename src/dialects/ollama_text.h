/*
 * ollama_text.h - times and durations in Ollama's form
 */
#ifndef HTH_DIALECTS_OLLAMA_TEXT_H
#define HTH_DIALECTS_OLLAMA_TEXT_H

#include <jansson.h>

/* Unix time as "2026-01-31T12:00:00Z". */
json_t *hth_api_ollama_time(json_int_t unix_s);
/* Milliseconds as whole nanoseconds; at least 1, because clients divide by them. */
json_t *hth_api_ollama_duration(double ms);

#endif
