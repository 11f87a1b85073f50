/*
 * chat_server.h - a server with OpenAI's API: its address and its models
 */
#ifndef HTH_CHAT_CHAT_SERVER_H
#define HTH_CHAT_CHAT_SERVER_H

#include <stdbool.h>

#include "hearth.h"

enum { HTH_CHAT_SERVER_URL_BYTES = 2048 };

/* The address without a trailing "/" and "/v1". HEARTH_MISUSE if it is empty or too long. */
hearth_status hth_chat_server_base(const char *url, char out[HTH_CHAT_SERVER_URL_BYTES], hearth_error *err);
typedef struct hth_chat_server_model {
    char *name;         /* freed by the caller */
    bool tells_timings; /* the server is Hearth or llama-server and accepts `timings_per_token`; others may refuse it */
} hth_chat_server_model;

/* The first model in the server's list. key may be NULL. Blocks. One thread at a time. */
hearth_status hth_chat_server_find(const char *base, const char *key, hth_chat_server_model *out, hearth_error *err);

#endif
