/*
 * told.h - tokens and their log probabilities, from sampling until they are written
 *
 * They are kept as numbers: the JSON of the 64 likeliest tokens takes a hundred times the memory, and one request may
 * ask for them in a hundred replies.
 */
#ifndef HTH_API_TOLD_H
#define HTH_API_TOLD_H

#include <jansson.h>

#include "hearth.h"

typedef struct hth_api_told_token {
    hearth_token id;
    uint32_t text_begin; /* bytes of text before it */
} hth_api_told_token;

/* All zeros: no tokens. */
typedef struct hth_api_told {
    hth_api_told_token *tokens; /* [n] */
    hearth_logprob *logprobs;   /* [n * n_each]: the token's own, then those of the likeliest tokens */
    size_t n;
    size_t n_each;            /* 0: no log probabilities */
    size_t capacity;          /* of tokens */
    size_t capacity_logprobs; /* of logprobs */
} hth_api_told;

void hth_api_told_deinit(hth_api_told *told); /* leaves all zeros */
void hth_api_told_clear(hth_api_told *told);  /* removes all tokens but keeps the memory */
/* Append a token. with_logprobs must be the same in all calls. False if out of memory. */
bool hth_api_told_add(hth_api_told *told, const hearth_token_event *event, size_t text_begin, bool with_logprobs);
/* The log probabilities of token i, [n_each]. */
const hearth_logprob *hth_api_told_logprobs(const hth_api_told *told, size_t i);
/* The ids of all tokens as an array. */
json_t *hth_api_told_ids(const hth_api_told *told);

#endif
