/*
 * chat_reply.c - release an engine's results for conversations
 */
#include "engine/backend.h"

#include <stdlib.h>

void hth_chat_prompt_clear_triggers(hearth_chat_prompt *prompt)
{
    for (size_t i = 0; i < prompt->n_triggers; i++)
        free((void *)prompt->triggers[i].text);
    free((void *)prompt->triggers);
    prompt->triggers = NULL;
    prompt->n_triggers = 0;
}

void hth_chat_prompt_clear(hearth_chat_prompt *prompt)
{
    hth_chat_prompt_clear_triggers(prompt);
    for (size_t i = 0; i < prompt->n_stop; i++)
        free((void *)prompt->stop[i]);
    free((void *)prompt->stop);
    free((void *)prompt->shown_tokens);
    free((void *)prompt->text);
    free((void *)prompt->grammar);
    free((void *)prompt->grammar_prefix);
    free((void *)prompt->parser);
    free((void *)prompt->thinking_begin);
    free((void *)prompt->thinking_end);
    free((void *)prompt->plain);
    *prompt = (hearth_chat_prompt){ 0 };
}

void hth_chat_reply_clear(hth_chat_reply *reply)
{
    for (size_t i = 0; i < reply->n_calls; i++) {
        free(reply->calls[i].id);
        free(reply->calls[i].name);
        free(reply->calls[i].arguments);
    }
    free(reply->calls);
    free(reply->reasoning);
    free(reply->content);
    *reply = (hth_chat_reply){ 0 };
}
