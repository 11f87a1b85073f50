/*
 * usage.h - token counts and timings in the form of each API
 */
#ifndef HTH_API_USAGE_H
#define HTH_API_USAGE_H

#include "api/writer.h"

/* OpenAI's usage, over all choices. These functions return new objects; NULL if out of memory. */
json_t *hth_api_usage_openai(const hth_api_reply *reply);
/* The same under the names of /v1/responses. */
json_t *hth_api_usage_responses(const hth_api_reply *reply);
/* Anthropic's usage: n_prompt tokens in the prompt, n_cached of them cached, n_output in the reply. */
json_t *hth_api_usage_anthropic(const hth_api_reply *reply, uint32_t n_prompt, uint32_t n_cached, uint32_t n_output);
/*
 * llama.cpp's timings of one choice, even before its end. Every member is a number, because typed clients expect that.
 */
json_t *hth_api_timings(const hearth_stats *stats);
/* What the cache knew about the prompt: hit, tier, miss, and left_at with left_text. */
json_t *hth_api_cache(const hearth_stats *stats);
/* Add both as the members `timings` and `cache`. */
void hth_api_put_timings(json_t *to, const hearth_stats *stats);
/* The same while the reply is written: `timings_per_token`. */
void hth_api_put_timings_so_far(json_t *to, const hth_api_choice *choice);

#endif
