/*
 * prompt.h - a prompt that is ready for evaluation, and a memory of recent ones
 *
 * Rendering and tokenizing a conversation costs as much as the rest of a request whose rows are cached, and gives the
 * same result each time. The memory finds a prompt by a digest of everything that it depends on: the conversation with
 * its tools and options, or the pieces of text, and the salt. Because of the salt, a tenant cannot find out by timing
 * what another tenant has asked.
 */
#ifndef HTH_API_PROMPT_H
#define HTH_API_PROMPT_H

#include <stdatomic.h>

#include "api/request.h"
#include "base/memo.h"
#include "sched/true_tokens.h"

typedef struct hth_api_prompt {
    const hearth_chat_prompt *chat; /* of a conversation; NULL otherwise */
    hearth_chat_parser *parser;     /* to make other parsers like it; NULL: none */
    hearth_token *tokens;           /* [n_tokens] */
    size_t n_tokens;
    hth_prompt_text *text; /* the source of all tokens; NULL: none */
    hth_api_notes notes;   /* about parts that the template or a grammar does not support */
    atomic_uint references;
} hth_api_prompt;

/* A new, empty prompt; NULL if out of memory. A shared prompt must not be changed. */
hth_api_prompt *hth_api_prompt_new(void);
void hth_api_prompt_unref(hth_api_prompt *prompt); /* accepts NULL */

/* The key of prompt i of a request, which includes options.cache_salt. False if out of memory. */
bool hth_api_prompt_key(const hth_api_request *request, size_t i, uint8_t key[HTH_MEMO_KEY_BYTES]);

/* A memory for the prompts of one model, for hth_memo_find and hth_memo_free. NULL if out of memory. */
hth_memo *hth_api_prompts_new(size_t bytes_max);
/* Keep a prompt until others need its space. A prompt larger than an eighth of the memory is not kept. */
void hth_api_prompts_keep(hth_memo *prompts, const uint8_t key[HTH_MEMO_KEY_BYTES], hth_api_prompt *prompt);

typedef struct hth_api_roles {
    hearth_token tokens[HEARTH_SPECIALS];
} hth_api_roles;

/*
 * Make the pieces of the prompt of /infill. The caller frees *out, which points into infill and to *roles. False, with
 * error filled, if the model has no infill tokens.
 */
bool hth_api_infill_pieces(hearth_model *model, const hth_api_infill *infill, hth_api_roles *roles, hth_api_piece **out,
                           size_t *n_out, hth_api_error *error);

#endif
