/*
 * chat_reply.h - an engine's results for conversations: the parts of a prompt and of a reply
 *
 * All memory comes from malloc, so that the library can free the results of an engine module.
 */
#ifndef HTH_ENGINE_CHAT_REPLY_H
#define HTH_ENGINE_CHAT_REPLY_H

#include "hearth.h"

typedef struct hth_chat_reply_call {
    char *id; /* "" if there is none */
    char *name;
    char *arguments; /* n_arguments bytes */
    size_t n_arguments;
} hth_chat_reply_call;

/* Strings are terminated and not NULL, except in a zeroed reply. Strings with a length may contain NUL bytes. */
typedef struct hth_chat_reply {
    char *reasoning; /* n_reasoning bytes */
    char *content;   /* n_content bytes */
    size_t n_reasoning;
    size_t n_content;
    hth_chat_reply_call *calls; /* [n_calls] */
    size_t n_calls;
} hth_chat_reply;

/* Free the triggers and leave none. */
void hth_chat_prompt_clear_triggers(hearth_chat_prompt *prompt);
/* Free everything in it and zero it. */
void hth_chat_prompt_clear(hearth_chat_prompt *prompt);
/* Likewise. */
void hth_chat_reply_clear(hth_chat_reply *reply);

#endif
