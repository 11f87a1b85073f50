/*
 * request.c - see request.h
 */
#include "api/request.h"

#include <stdlib.h>

hth_api_dialect hth_api_kind_dialect(hth_api_kind kind)
{
    static const hth_api_dialect dialects[HTH_API_KINDS] = {
        [HTH_API_CHAT] = HTH_API_OPENAI,
        [HTH_API_CHAT_TOKENS] = HTH_API_OPENAI,
        [HTH_API_COMPLETION] = HTH_API_OPENAI,
        [HTH_API_MESSAGES] = HTH_API_ANTHROPIC,
        [HTH_API_COUNT_TOKENS] = HTH_API_ANTHROPIC,
        [HTH_API_NATIVE_COMPLETION] = HTH_API_NATIVE,
        [HTH_API_INFILL] = HTH_API_NATIVE,
        [HTH_API_TOKENIZE] = HTH_API_NATIVE,
        [HTH_API_DETOKENIZE] = HTH_API_NATIVE,
        [HTH_API_APPLY_TEMPLATE] = HTH_API_NATIVE,
        [HTH_API_SLOT] = HTH_API_NATIVE,
        [HTH_API_RESPONSES] = HTH_API_OPENAI_RESPONSES,
        [HTH_API_RESPONSES_TOKENS] = HTH_API_OPENAI_RESPONSES,
        [HTH_API_OLLAMA_CHAT] = HTH_API_OLLAMA,
        [HTH_API_OLLAMA_GENERATE] = HTH_API_OLLAMA,
        [HTH_API_OLLAMA_SHOW] = HTH_API_OLLAMA,
        [HTH_API_EMBEDDINGS] = HTH_API_OPENAI,
        [HTH_API_NATIVE_EMBEDDING] = HTH_API_NATIVE,
        [HTH_API_RERANK] = HTH_API_OPENAI,
        [HTH_API_OLLAMA_EMBED] = HTH_API_OLLAMA,
        [HTH_API_OLLAMA_EMBEDDINGS] = HTH_API_OLLAMA,
    };

    return dialects[kind];
}

void hth_api_request_free(hth_api_request *request)
{
    if (!request)
        return;
    while (request->memory) {
        hth_api_memory *memory = request->memory;

        request->memory = memory->next;
        free(memory);
    }
    json_decref(request->items);
    json_decref(request->body);
    free(request);
}
