/*
 * reply_tokens.c - tokens of a reply, kept as numbers
 */
#include <stdlib.h>
#include <string.h>

#include "api/writer.h"
#include "base/grow.h"

void hth_api_tokens_deinit(hth_api_tokens *tokens)
{
    free(tokens->list);
    free(tokens->logprobs);
    *tokens = (hth_api_tokens){ .n = 0 };
}

static bool grow(hth_api_tokens *tokens)
{
    hth_api_token *list = (hth_api_token *)hth_grown(tokens->list, tokens->n, &tokens->capacity, sizeof(*list));
    hearth_logprob *logprobs;

    if (!list)
        return false;
    tokens->list = list;
    if (tokens->n_each == 0)
        return true;
    logprobs = (hearth_logprob *)hth_grown_by(tokens->logprobs, tokens->n * tokens->n_each, tokens->n_each,
                                              &tokens->capacity_logprobs, sizeof(*logprobs));
    if (!logprobs)
        return false;
    tokens->logprobs = logprobs;
    return true;
}

bool hth_api_tokens_add(hth_api_tokens *tokens, const hearth_token_event *event, size_t text_begin, bool with_logprobs)
{
    if (tokens->n == 0)
        tokens->n_each = with_logprobs ? (size_t)1 + event->n_top_logprobs : 0;
    if (!grow(tokens))
        return false;
    tokens->list[tokens->n] = (hth_api_token){ .id = event->token, .text_begin = (uint32_t)text_begin };
    if (tokens->n_each > 0)
        memcpy(tokens->logprobs + tokens->n * tokens->n_each, event->logprobs,
               tokens->n_each * sizeof(*tokens->logprobs));
    tokens->n++;
    return true;
}

const hearth_logprob *hth_api_tokens_logprobs(const hth_api_tokens *tokens, size_t i)
{
    return tokens->logprobs + i * tokens->n_each;
}

json_t *hth_api_tokens_ids(const hth_api_tokens *tokens)
{
    json_t *ids = json_array();

    for (size_t i = 0; i < tokens->n; i++)
        json_array_append_new(ids, json_integer(tokens->list[i].id));
    return ids;
}
