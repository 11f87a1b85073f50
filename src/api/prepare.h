/*
 * prepare.h - a client's request and a model make requests of the library
 *
 * The conversation goes through the model's template, texts and tokens of a prompt are joined, and what template and
 * client want (stops, grammars, schemas) is put together.
 */
#ifndef HTH_API_PREPARE_H
#define HTH_API_PREPARE_H

#include "api/prompt.h"

typedef struct hth_api_prepared {
    hearth_chat_prompt chat;    /* of a conversation; a prompt's, which owns it */
    hearth_request *requests;   /* [n_requests], one a prompt, each with options.n replies */
    hearth_sampling *samplings; /* [n_requests], theirs */
    size_t n_requests;
    hearth_logit_bias *biases; /* with those of texts; NULL: the request has none of these */
    const char **stop;         /* what requests point to, like these */
    hth_api_prompt **prompts;  /* [n_requests], references; NULL: of an empty text. A conversation's has notes, too */
} hth_api_prepared;

/*
 * Fill *out, to be released with hth_api_prepared_deinit before request. seed is used where the client gave none: a
 * different one for each request. Callbacks and timeouts are the caller's to set. Prompts are tokens
 * (n_tokens of a request says how many), but for an empty text, which hearth_submit refuses. False with error filled. Renders and
 * tokenizes, so it may take milliseconds, unless memory (NULL: none) has the prompts; any thread.
 */
bool hth_api_prepare(hearth_model *model, const hth_api_request *request, uint64_t seed, hth_memo *memory,
                     hth_api_prepared *out, hth_api_error *error);
void hth_api_prepared_deinit(hth_api_prepared *prepared); /* accepts zeros */

/* Tokens of a conversation's prompt, for count_tokens. False with error filled. */
bool hth_api_count_prompt(hearth_model *model, const hth_api_request *request, size_t *n_out, hth_api_error *error);

#endif
