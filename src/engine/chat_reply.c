/*
 * chat_reply.c - see chat_reply.h
 */
#include "engine/chat_reply.h"

#include <stdlib.h>

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
