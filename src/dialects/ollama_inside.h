/*
 * ollama_inside.h - what the readers of Ollama's requests share
 *
 *   ollama_request.c  messages, prompts
 *   ollama_options.c  the fields that chats and completions share: options, format, keep_alive
 */
#ifndef HTH_DIALECTS_OLLAMA_INSIDE_H
#define HTH_DIALECTS_OLLAMA_INSIDE_H

#include "api/request_inside.h"

/* The fields that hth_api_parse_ollama_common reads. */
#define HTH_API_OLLAMA_FIELDS                                                                                        \
    HTH_API_EXTRA_FIELDS, HTH_API_THINKING_FIELDS, "model", "stream", "format", "options", "keep_alive", "logprobs", \
        "top_logprobs", "truncate", "shift"
/* Call it once request->is_chat is known. */
void hth_api_parse_ollama_common(hth_api_parse *parse);

#endif
