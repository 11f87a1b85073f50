/*
 * told.c - tokens of a reply, kept as numbers
 */
#include <stdlib.h>
#include <string.h>

#include "api/writer.h"
#include "base/grow.h"

void hth_api_told_deinit(hth_api_told *told)
{
    free(told->tokens);
    free(told->logprobs);
    *told = (hth_api_told){ .n = 0 };
}

static bool grow(hth_api_told *told)
{
    hth_api_told_token *tokens =
        (hth_api_told_token *)hth_grown(told->tokens, told->n, &told->capacity, sizeof(*tokens));
    hearth_logprob *logprobs;

    if (!tokens)
        return false;
    told->tokens = tokens;
    if (told->n_each == 0)
        return true;
    logprobs = (hearth_logprob *)hth_grown_by(told->logprobs, told->n * told->n_each, told->n_each,
                                              &told->capacity_logprobs, sizeof(*logprobs));
    if (!logprobs)
        return false;
    told->logprobs = logprobs;
    return true;
}

bool hth_api_told_add(hth_api_told *told, const hearth_token_event *event, size_t text_begin, bool with_logprobs)
{
    if (told->n == 0)
        told->n_each = with_logprobs ? (size_t)1 + event->n_top_logprobs : 0;
    if (!grow(told))
        return false;
    told->tokens[told->n] = (hth_api_told_token){ .id = event->token, .text_begin = (uint32_t)text_begin };
    if (told->n_each > 0)
        memcpy(told->logprobs + told->n * told->n_each, event->logprobs, told->n_each * sizeof(*told->logprobs));
    told->n++;
    return true;
}

const hearth_logprob *hth_api_told_logprobs(const hth_api_told *told, size_t i)
{
    return told->logprobs + i * told->n_each;
}

json_t *hth_api_told_ids(const hth_api_told *told)
{
    json_t *ids = json_array();

    for (size_t i = 0; i < told->n; i++)
        json_array_append_new(ids, json_integer(told->tokens[i].id));
    return ids;
}
