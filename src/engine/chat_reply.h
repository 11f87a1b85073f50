/*
 * chat_reply.h - what an engine hands upwards of conversations: a reply taken apart, and the parts of a prompt
 *
 * Everything is malloc'ed, so that the module which holds an engine and the library can free each other's.
 */
#ifndef HTH_ENGINE_CHAT_REPLY_H
#define HTH_ENGINE_CHAT_REPLY_H

#include "hearth.h"

typedef struct hth_chat_reply_call {
    char *id; /* "" where there is none */
    char *name;
    char *arguments; /* n_arguments bytes */
    size_t n_arguments;
} hth_chat_reply_call;

/* Strings are terminated and never NULL, unless all of it is zeros. Those with a length may have NUL bytes within. */
typedef struct hth_chat_reply {
    char *reasoning; /* n_reasoning bytes */
    char *content;   /* n_content bytes */
    size_t n_reasoning;
    size_t n_content;
    hth_chat_reply_call *calls; /* [n_calls] */
    size_t n_calls;
} hth_chat_reply;

/* Free what it holds; zeros afterwards. */
void hth_chat_reply_clear(hth_chat_reply *reply);

#endif
