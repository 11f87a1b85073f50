/*
 * request.c - the API of a request, its memory, and texts in it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/parse.h"

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

/* ---- memory that lives as long as a request ---- */

void *hth_api_allocate(hth_api_parse *parse, size_t n, size_t size)
{
    hth_api_memory *memory = NULL;

    if (n <= (SIZE_MAX / 2 - sizeof(*memory)) / (size ? size : 1))
        memory = calloc(1, sizeof(*memory) + n * size + 1);
    if (!memory) {
        hth_api_fail(parse->error, HTH_API_OVERLOADED, NULL, "no memory for the request");
        return NULL;
    }
    memory->next = parse->request->memory;
    parse->request->memory = memory;
    return memory->bytes;
}

void *hth_api_allocate_structs(hth_api_parse *parse, size_t n, size_t size)
{
    char *structs = hth_api_allocate(parse, n, size);

    for (size_t i = 0; structs && i < n; i++)
        memcpy(structs + i * size, &size, sizeof(size));
    return structs;
}

const char *hth_api_json_text(hth_api_parse *parse, const json_t *value)
{
    size_t n = json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
    char *text = hth_api_allocate(parse, n + 1, 1);

    if (text)
        (void)json_dumpb(value, text, n, JSON_COMPACT | JSON_ENCODE_ANY); /* same length as measured above */
    return text;
}

const char *hth_api_join(hth_api_parse *parse, const char *a, const char *between, const char *b)
{
    size_t capacity = strlen(a) + strlen(between) + strlen(b) + 1;
    char *text = hth_api_allocate(parse, capacity, 1);

    if (text)
        (void)snprintf(text, capacity, "%s%s%s", a, between, b); /* fits */
    return text;
}

void hth_api_joined_add(hth_api_parse *parse, hth_api_joined *joined, const char *text)
{
    size_t n_text = strlen(text), n = joined->n + 1 + n_text;

    if (!joined->text) {
        joined->text = text;
        joined->n = n_text;
        return;
    }
    if (n >= joined->capacity) { /* doubled, so that each byte is copied a few times at most */
        char *room = hth_api_allocate(parse, 2 * n, 1);

        if (!room)
            return;
        memcpy(room, joined->text, joined->n);
        joined->text = joined->room = room;
        joined->capacity = 2 * n;
    }
    joined->room[joined->n] = '\n';
    memcpy(joined->room + joined->n + 1, text, n_text + 1);
    joined->n = n;
}
