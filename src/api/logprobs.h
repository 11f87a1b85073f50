/*
 * logprobs.h - tokens of a reply and their log probabilities as JSON
 *
 * All functions return new values; NULL if out of memory.
 */
#ifndef HTH_API_LOGPROBS_H
#define HTH_API_LOGPROBS_H

#include "api/writer.h"

/* The text of a token; the name of a control token. *is_whole is set if the text consists of whole characters. */
json_t *hth_api_token_text(hth_api_reply *reply, hearth_token token, bool *is_whole);
/* The bytes of a token's text as an array of numbers; they may end inside a character. */
json_t *hth_api_token_bytes(hearth_model *model, hearth_token token);
/* A log probability; null if it is unknown. JSON has no infinity, so -9999 stands for it, as in OpenAI's API. */
json_t *hth_api_logprob(float logprob);
/*
 * {"token", "logprob", "bytes"}, as in both of OpenAI's APIs. no_bytes, which the function takes over, is used for a
 * token that is not whole characters.
 */
json_t *hth_api_text_logprob(hth_api_reply *reply, const hearth_logprob *from, json_t *no_bytes_take);

/* One token with its log probability, in the form of an API. */
typedef json_t *(*hth_api_logprob_fn)(hth_api_reply *reply, const hearth_logprob *from);
/* Token i of choice->told, with the likeliest tokens at its position as "top_logprobs". */
json_t *hth_api_logprob_entry(hth_api_reply *reply, const hth_api_choice *choice, size_t i, hth_api_logprob_fn form);
/* The entries of tokens [begin, end) as an array. */
json_t *hth_api_logprob_entries(hth_api_reply *reply, const hth_api_choice *choice, size_t begin, size_t end,
                                hth_api_entry_fn entry);

#endif
