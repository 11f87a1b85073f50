/*
 * usage.h - tokens, counted as each API counts them
 */
#ifndef HTH_API_USAGE_H
#define HTH_API_USAGE_H

#include "api/reply_inside.h"

/* OpenAI's, of all choices. New objects; NULL without memory. */
json_t *hth_api_usage_openai(const hth_api_reply *reply);
/* The same in the names of /v1/responses. */
json_t *hth_api_usage_responses(const hth_api_reply *reply);
/* Anthropic's: n_prompt tokens, n_cached of them cached, n_output of the reply. */
json_t *hth_api_usage_anthropic(const hth_api_reply *reply, uint32_t n_prompt, uint32_t n_cached, uint32_t n_output);
/* llama.cpp's timings of one choice, whether or not it has ended. */
json_t *hth_api_timings(const hearth_stats *stats);

#endif
