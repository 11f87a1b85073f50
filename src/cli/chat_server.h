/*
 * chat_server.h - a server with OpenAI's API: its address and its models
 */
#ifndef HTH_CLI_CHAT_SERVER_H
#define HTH_CLI_CHAT_SERVER_H

#include "hearth.h"

enum { HTH_CHAT_SERVER_URL_BYTES = 2048 };

/* The address without "/" and "/v1" at its end. HEARTH_MISUSE: it is empty or too long. */
hearth_status hth_chat_server_base(const char *url, char out[HTH_CHAT_SERVER_URL_BYTES], hearth_error *err);
/* The first model of the server's list: a new string, for free(). key NULL: none. Blocks. One thread at a time. */
hearth_status hth_chat_server_model(const char *base, const char *key, char **out, hearth_error *err);

#endif
