/*
 * prompt.h - a prompt that is ready to be evaluated, and a memory of those that were made lately
 *
 * Rendering a conversation and cutting it into tokens costs as much as all the rest of a request whose rows are known, and
 * gives the same each time. A prompt is found again by a digest of everything that it is made of: the conversation with its
 * tools and options, or the pieces of text, and the request's salt, so that it shows in nobody's times what another
 * tenant has asked.
 */
#ifndef HTH_API_PROMPT_H
#define HTH_API_PROMPT_H

#include <stdatomic.h>

#include "api/request.h"
#include "base/memo.h"

typedef struct hth_api_prompt {
    hearth_chat_prompt chat;    /* of a conversation; zeros otherwise */
    hearth_chat_parser *parser; /* to make others like it; NULL: there is none */
    hearth_token *tokens;       /* [n_tokens] */
    size_t n_tokens;
    hth_api_notes notes; /* of what the template or a grammar could not take */
    atomic_uint references;
} hth_api_prompt;

/* An empty one; NULL without memory. Not changed any more once it is shared. */
hth_api_prompt *hth_api_prompt_new(void);
hth_api_prompt *hth_api_prompt_ref(hth_api_prompt *prompt);
void hth_api_prompt_unref(hth_api_prompt *prompt); /* accepts NULL */

/* What names prompt i of a request, with options.cache_salt. False without memory. */
bool hth_api_prompt_key(const hth_api_request *request, size_t i, uint8_t key[HTH_MEMO_KEY_BYTES]);

/* A memory of one model's prompts, for hth_memo_find and hth_memo_free. NULL without memory. */
hth_memo *hth_api_prompts_new(size_t bytes_max);
/* Keep one until others need its room. One that is larger than an eighth of it is not kept. */
void hth_api_prompts_keep(hth_memo *prompts, const uint8_t key[HTH_MEMO_KEY_BYTES], hth_api_prompt *prompt);

#endif
