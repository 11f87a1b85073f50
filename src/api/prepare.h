/*
 * prepare.h - makes library requests from a client's request and a model
 *
 * It renders the conversation through the model's template, joins the texts and tokens of a prompt, and replaces the
 * client's grammar by that of the rendering.
 */
#ifndef HTH_API_PREPARE_H
#define HTH_API_PREPARE_H

#include "api/prompt.h"

typedef struct hth_api_prepared {
    const hearth_chat_prompt *chat; /* of a conversation; owned by its prompt */
    hearth_request *requests;       /* [n_requests], one for each prompt, each with options.n replies */
    hearth_sampling *samplings;     /* [n_requests], one for each request */
    size_t n_requests;
    hearth_logit_bias *biases; /* including those of texts; NULL: no bias is for a text */
    hearth_token *draft;       /* of the predicted reply; NULL: no prediction */
    hth_api_prompt **prompts;  /* [n_requests], references; their notes are those of rendering */
} hth_api_prepared;

/*
 * Fill *out. Release it with hth_api_prepared_deinit before request. seed is used if the client gave none; it should
 * differ for each request. The caller sets callbacks and timeouts. Prompts are tokens (request.n_tokens); a prompt
 * without tokens, or with more than fit in the context, is refused. False with error filled. Rendering and tokenizing
 * may take milliseconds, unless memory (may be NULL) has the prompts. Any thread.
 */
bool hth_api_prepare(hearth_model *model, const hth_api_request *request, uint64_t seed, hth_memo *memory,
                     hth_api_prepared *out, hth_api_error *error);
void hth_api_prepared_deinit(hth_api_prepared *prepared); /* accepts zeros */

/* Inputs for embeddings: those of the request, with inputs of mixed texts and tokens replaced by tokens. */
typedef struct hth_api_inputs {
    hearth_embed_input *list; /* [n_inputs] */
    hearth_token **joined;    /* [n_joined], owned: the tokens of the mixed inputs */
    size_t n_joined;
} hth_api_inputs;

/* Fill *out. Release it with hth_api_inputs_deinit, also after the request is gone. False with error filled. */
bool hth_api_prepare_inputs(hearth_model *model, const hth_api_request *request, hth_api_inputs *out,
                            hth_api_error *error);
void hth_api_inputs_deinit(hth_api_inputs *inputs); /* accepts zeros */

/* Render a conversation, of any length; the caller frees *out. False with error filled. */
bool hth_api_render_prompt(hearth_model *model, const hth_api_request *request, const hearth_chat_prompt **out,
                           hth_api_error *error);
/*
 * What the history knows of the prompt of a request that is one text, for another node; *out is the caller's then.
 * Zeros: nothing. False with error filled. Any thread.
 */
bool hth_api_known_prompt(hearth_model *model, const hth_api_request *request, hth_known_text *out,
                          hth_api_error *error);
/* The flags of such a prompt's text, for hth_model_learn. */
unsigned hth_api_prompt_flags(const hth_api_request *request);
/* Count the tokens of a conversation's prompt. False with error filled. */
bool hth_api_count_prompt(hearth_model *model, const hth_api_request *request, size_t *n_out, hth_api_error *error);

#endif
