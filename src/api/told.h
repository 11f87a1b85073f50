/*
 * told.h - what is told of each token, from when it was drawn until it is written
 *
 * Kept as numbers: the JSON of 64 likeliest tokens takes a hundred times the memory, and a request may ask for them of a
 * hundred replies.
 */
#ifndef HTH_API_TOLD_H
#define HTH_API_TOLD_H

#include <jansson.h>

#include "hearth.h"

typedef struct hth_api_told_token {
    hearth_token id;
    uint32_t text_begin; /* bytes of text that came before it */
} hth_api_told_token;

/* All zeros: of none. */
typedef struct hth_api_told {
    hth_api_told_token *tokens; /* [n] */
    hearth_logprob *logprobs;   /* [n * n_each]: the token's own, then the likeliest ones */
    size_t n;
    size_t n_each; /* 0: they are not told */
    size_t capacity;
} hth_api_told;

void hth_api_told_deinit(hth_api_told *told); /* zeros afterwards */
void hth_api_told_clear(hth_api_told *told);  /* of none; the memory is kept */
/* Append a token; with_logprobs has to be the same each time. False without memory. */
bool hth_api_told_add(hth_api_told *told, const hearth_token_event *event, size_t text_begin, bool with_logprobs);
/* [n_each] of token i. */
const hearth_logprob *hth_api_told_logprobs(const hth_api_told *told, size_t i);
/* All tokens as an array of ids. */
json_t *hth_api_told_ids(const hth_api_told *told);

#endif
