/*
 * prompt.h - a prompt that is ready to be evaluated, and what names it
 *
 * Rendering a conversation and cutting it into tokens costs as much as all the rest of a request whose rows are known, and
 * gives the same each time. So a prompt is shared once it is made, and has a key by which it is found again: a digest of
 * everything that it is made of, the conversation with its tools and options, or the pieces of text, and the request's
 * salt, so that it shows in nobody's times what another tenant has asked.
 */
#ifndef HTH_API_PROMPT_H
#define HTH_API_PROMPT_H

#include <stdatomic.h>

#include "api/request.h"
#include "base/memo.h"

typedef struct hth_api_prompt {
    hearth_chat_prompt chat;    /* of a conversation; zeros otherwise */
    hearth_chat_parser *parser; /* of a conversation, to make others like it; NULL: without memory for it */
    hearth_token *tokens;       /* [n_tokens] */
    size_t n_tokens;
    atomic_uint references;
} hth_api_prompt;

/* An empty one; NULL without memory. Not changed any more once it is shared. */
hth_api_prompt *hth_api_prompt_new(void);
hth_api_prompt *hth_api_prompt_ref(hth_api_prompt *prompt);
void hth_api_prompt_unref(hth_api_prompt *prompt); /* accepts NULL */
/* Memory that it takes, about. */
size_t hth_api_prompt_bytes(const hth_api_prompt *prompt);

/* What names prompt i of a request, in this process. False without memory. */
bool hth_api_prompt_key(const hth_api_request *request, size_t i, uint8_t key[HTH_MEMO_KEY_BYTES]);

#endif
