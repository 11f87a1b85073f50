/*
 * routes.c - the table
 *
 * OpenAI's paths exist with and without "/v1", as in llama-server.
 */
#include "http/routes.h"

#include <string.h>

static const hth_route routes[] = {
    { "/v1/chat/completions", "/v1/chat/completions", "POST", HTH_ROUTE_GENERATE, HTH_API_CHAT, HTH_FOR_CLIENTS,
      "a reply to a chat" },
    { "/chat/completions", "/v1/chat/completions", "POST", HTH_ROUTE_GENERATE, HTH_API_CHAT, HTH_FOR_CLIENTS, NULL },
    { "/v1/chat/completions/input_tokens", "/v1/chat/completions/input_tokens", "POST", HTH_ROUTE_ASK,
      HTH_API_CHAT_TOKENS, HTH_FOR_CLIENTS, "the number of tokens of a chat" },
    { "/chat/completions/input_tokens", "/v1/chat/completions/input_tokens", "POST", HTH_ROUTE_ASK, HTH_API_CHAT_TOKENS,
      HTH_FOR_CLIENTS, NULL },
    { "/v1/completions", "/v1/completions", "POST", HTH_ROUTE_GENERATE, HTH_API_COMPLETION, HTH_FOR_CLIENTS,
      "a continuation of a text" },
    { "/v1/responses", "/v1/responses", "POST", HTH_ROUTE_GENERATE, HTH_API_RESPONSES, HTH_FOR_CLIENTS,
      "a reply to items, kept on request" },
    { "/responses", "/v1/responses", "POST", HTH_ROUTE_GENERATE, HTH_API_RESPONSES, HTH_FOR_CLIENTS, NULL },
    { "/v1/responses/input_tokens", "/v1/responses/input_tokens", "POST", HTH_ROUTE_ASK, HTH_API_RESPONSES_TOKENS,
      HTH_FOR_CLIENTS, "the number of tokens of such a request" },
    { "/responses/input_tokens", "/v1/responses/input_tokens", "POST", HTH_ROUTE_ASK, HTH_API_RESPONSES_TOKENS,
      HTH_FOR_CLIENTS, NULL },
    { "/v1/responses/", "/v1/responses/{id}", NULL, HTH_ROUTE_STORED, HTH_API_RESPONSES, HTH_FOR_CLIENTS,
      "a kept response: read, poll, cancel, delete" },
    { "/responses/", "/v1/responses/{id}", NULL, HTH_ROUTE_STORED, HTH_API_RESPONSES, HTH_FOR_CLIENTS, NULL },
    { "/v1/messages", "/v1/messages", "POST", HTH_ROUTE_GENERATE, HTH_API_MESSAGES, HTH_FOR_CLIENTS,
      "a reply to a chat" },
    { "/v1/messages/count_tokens", "/v1/messages/count_tokens", "POST", HTH_ROUTE_ASK, HTH_API_COUNT_TOKENS,
      HTH_FOR_CLIENTS, "the number of tokens of a chat" },
    { "/completion", "/completion", "POST", HTH_ROUTE_GENERATE, HTH_API_NATIVE_COMPLETION, HTH_FOR_CLIENTS,
      "a continuation of a text, or of tokens" },
    { "/completions", "/completion", "POST", HTH_ROUTE_GENERATE, HTH_API_NATIVE_COMPLETION, HTH_FOR_CLIENTS, NULL },
    { "/infill", "/infill", "POST", HTH_ROUTE_GENERATE, HTH_API_INFILL, HTH_FOR_CLIENTS, "the text between two texts" },
    { "/tokenize", "/tokenize", "POST", HTH_ROUTE_ASK, HTH_API_TOKENIZE, HTH_FOR_CLIENTS, "the tokens of a text" },
    { "/detokenize", "/detokenize", "POST", HTH_ROUTE_ASK, HTH_API_DETOKENIZE, HTH_FOR_CLIENTS, "the text of tokens" },
    { "/apply-template", "/apply-template", "POST", HTH_ROUTE_ASK, HTH_API_APPLY_TEMPLATE, HTH_FOR_CLIENTS,
      "the prompt that the chat template makes of a chat" },
    { "/v1/embeddings", "/v1/embeddings", "POST", HTH_ROUTE_EMBED, HTH_API_EMBEDDINGS, HTH_FOR_CLIENTS,
      "embeddings of texts" },
    { "/embedding", "/embedding", "POST", HTH_ROUTE_EMBED, HTH_API_NATIVE_EMBEDDING, HTH_FOR_CLIENTS,
      "embeddings of texts, also of each token" },
    { "/embeddings", "/embedding", "POST", HTH_ROUTE_EMBED, HTH_API_NATIVE_EMBEDDING, HTH_FOR_CLIENTS, NULL },
    { "/v1/rerank", "/v1/rerank", "POST", HTH_ROUTE_EMBED, HTH_API_RERANK, HTH_FOR_CLIENTS,
      "scores of documents for a query" },
    { "/rerank", "/v1/rerank", "POST", HTH_ROUTE_EMBED, HTH_API_RERANK, HTH_FOR_CLIENTS, NULL },
    { "/v1/reranking", "/v1/rerank", "POST", HTH_ROUTE_EMBED, HTH_API_RERANK, HTH_FOR_CLIENTS, NULL },
    { "/reranking", "/v1/rerank", "POST", HTH_ROUTE_EMBED, HTH_API_RERANK, HTH_FOR_CLIENTS, NULL },
    { "/v1/models", "/v1/models", "GET", HTH_ROUTE_MODELS, HTH_API_CHAT, HTH_FOR_CLIENTS,
      "the models that the client may use, or one of them" },
    { "/models", "/v1/models", "GET", HTH_ROUTE_MODELS, HTH_API_CHAT, HTH_FOR_CLIENTS, NULL },
    { "/v1/models/", "/v1/models", "GET", HTH_ROUTE_MODEL, HTH_API_CHAT, HTH_FOR_CLIENTS, NULL },
    { "/models/load", "/models/load", "POST", HTH_ROUTE_LOAD_MODEL, HTH_API_CHAT, HTH_FOR_CLIENTS, "load a model" },
    { "/models/unload", "/models/unload", "POST", HTH_ROUTE_UNLOAD_MODEL, HTH_API_CHAT, HTH_FOR_OPERATORS_TO_POST,
      "unload a model" },
    { "/api/chat", "/api/chat", "POST", HTH_ROUTE_GENERATE, HTH_API_OLLAMA_CHAT, HTH_FOR_CLIENTS, "a reply to a chat" },
    { "/api/generate", "/api/generate", "POST", HTH_ROUTE_GENERATE, HTH_API_OLLAMA_GENERATE, HTH_FOR_CLIENTS,
      "a continuation of a text" },
    { "/api/show", "/api/show", "GET, POST", HTH_ROUTE_ASK, HTH_API_OLLAMA_SHOW, HTH_FOR_CLIENTS, "facts of a model" },
    { "/api/tags", "/api/tags", "GET", HTH_ROUTE_OLLAMA_TAGS, HTH_API_OLLAMA_CHAT, HTH_FOR_CLIENTS,
      "the models that the client may use" },
    { "/api/ps", "/api/ps", "GET", HTH_ROUTE_OLLAMA_PS, HTH_API_OLLAMA_CHAT, HTH_FOR_CLIENTS, "the models in memory" },
    { "/api/version", "/api/version", "GET", HTH_ROUTE_OLLAMA_VERSION, HTH_API_OLLAMA_CHAT, HTH_FOR_CLIENTS,
      "the version" },
    { "/api/pull", "/api/pull", "POST", HTH_ROUTE_OLLAMA_PULL, HTH_API_OLLAMA_CHAT, HTH_FOR_CLIENTS,
      "whether a model is here; nothing is downloaded" },
    { "/api/push", "/api/push", "POST", HTH_ROUTE_OLLAMA_FILES, HTH_API_OLLAMA_CHAT, HTH_FOR_CLIENTS, "refused" },
    { "/api/create", "/api/create", "POST", HTH_ROUTE_OLLAMA_FILES, HTH_API_OLLAMA_CHAT, HTH_FOR_CLIENTS, "refused" },
    { "/api/copy", "/api/copy", "POST", HTH_ROUTE_OLLAMA_FILES, HTH_API_OLLAMA_CHAT, HTH_FOR_CLIENTS, "refused" },
    { "/api/delete", "/api/delete", "DELETE", HTH_ROUTE_OLLAMA_FILES, HTH_API_OLLAMA_CHAT, HTH_FOR_CLIENTS, "refused" },
    { "/api/embed", "/api/embed", "POST", HTH_ROUTE_EMBED, HTH_API_OLLAMA_EMBED, HTH_FOR_CLIENTS,
      "embeddings of texts" },
    { "/api/embeddings", "/api/embed", "POST", HTH_ROUTE_EMBED, HTH_API_OLLAMA_EMBEDDINGS, HTH_FOR_CLIENTS, NULL },
    { "/", "/", "GET", HTH_ROUTE_ROOT, HTH_API_OLLAMA_CHAT, HTH_FOR_ALL,
      "the page for browsers; the models for other clients" },
    { "/v1/streams/", "/v1/streams", NULL, HTH_ROUTE_STREAM, HTH_API_CHAT, HTH_FOR_CLIENTS,
      "go on with a kept stream" },
    { "/props", "/props", "GET", HTH_ROUTE_PROPS, HTH_API_NATIVE_COMPLETION, HTH_FOR_CLIENTS,
      "the properties of the model and the defaults of requests" },
    { "/slots", "/slots", "GET", HTH_ROUTE_SLOTS, HTH_API_NATIVE_COMPLETION, HTH_FOR_CLIENTS, "what the slots do" },
    { "/lora-adapters", "/lora-adapters", "GET, POST", HTH_ROUTE_ADAPTERS, HTH_API_NATIVE_COMPLETION,
      HTH_FOR_OPERATORS_TO_POST, "the adapters; POST sets their scales" },
    { "/v1/load_lora_adapter", "/v1/load_lora_adapter", "POST", HTH_ROUTE_LOAD_ADAPTER, HTH_API_CHAT, HTH_FOR_OPERATORS,
      "load an adapter" },
    { "/v1/unload_lora_adapter", "/v1/unload_lora_adapter", "POST", HTH_ROUTE_UNLOAD_ADAPTER, HTH_API_CHAT,
      HTH_FOR_OPERATORS, "unload an adapter" },
    { "/slots/", "/slots/{id}", "POST", HTH_ROUTE_SLOT, HTH_API_SLOT, HTH_FOR_CLIENTS,
      "save, restore or erase the cells of a slot" },
    { "/health", "/health", "GET", HTH_ROUTE_HEALTH, HTH_API_NATIVE_COMPLETION, HTH_FOR_ALL,
      "200 while every model is available" },
    { "/v1/health", "/health", "GET", HTH_ROUTE_HEALTH, HTH_API_NATIVE_COMPLETION, HTH_FOR_ALL, NULL },
    { "/ready", "/ready", "GET", HTH_ROUTE_HEALTH, HTH_API_NATIVE_COMPLETION, HTH_FOR_ALL,
      "200 while requests are accepted" },
    { "/metrics", "/metrics", NULL, HTH_ROUTE_ADMIN, HTH_API_CHAT, HTH_FOR_OPERATORS, "numbers for Prometheus" },
    { "/admin/explain", "/admin/explain", "POST", HTH_ROUTE_EXPLAIN, HTH_API_CHAT, HTH_FOR_OPERATORS,
      "why a prompt is not in the cache" },
    { "/admin/prefixes", "/admin/prefixes", "GET", HTH_ROUTE_PREFIXES, HTH_API_CHAT, HTH_FOR_OPERATORS,
      "the most used prefixes" },
    { "/admin/", "/admin", NULL, HTH_ROUTE_ADMIN, HTH_API_CHAT, HTH_FOR_OPERATORS, "state and orders of operators" },
};

enum { N_ROUTES = sizeof(routes) / sizeof(routes[0]) };

/* Is the route's path a prefix of the requested paths? */
static bool is_beginning(const hth_route *route)
{
    return route->path[1] && route->path[strlen(route->path) - 1] == '/';
}

const hth_route *hth_routes(size_t *n_out)
{
    *n_out = N_ROUTES;
    return routes;
}

const hth_route *hth_route_find(const char *path)
{
    for (int i = 0; i < N_ROUTES; i++) {
        const hth_route *route = &routes[i];
        size_t n = strlen(route->path);

        if (is_beginning(route) ? strncmp(path, route->path, n) == 0 && path[n] : strcmp(path, route->path) == 0)
            return route;
    }
    return NULL;
}

bool hth_route_has_events(const hth_route *route)
{
    /* Not Ollama's: only the worker knows whether a reply that may be a stream is one. */
    return route->kind == HTH_ROUTE_GENERATE &&
           (route->api == HTH_API_CHAT || route->api == HTH_API_COMPLETION || route->api == HTH_API_MESSAGES ||
            route->api == HTH_API_NATIVE_COMPLETION || route->api == HTH_API_INFILL || route->api == HTH_API_RESPONSES);
}

bool hth_route_is_once(const hth_route *route, const char *action)
{
    return route->kind == HTH_ROUTE_SLOT && action && strcmp(action, "restore") != 0;
}

bool hth_method_is(const char *wanted, const char *method)
{
    size_t n_method;

    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    n_method = strlen(method);
    for (const char *word = wanted; *word; word += strspn(word, ", ")) {
        size_t n = strcspn(word, ", ");

        if (n == n_method && strncmp(word, method, n) == 0)
            return true;
        word += n;
    }
    return false;
}

bool hth_path_has_name(const char *path, const char *begin, const char *end, size_t *n_out)
{
    const size_t n = strlen(path), n_begin = strlen(begin), n_end = strlen(end);

    if (n <= n_begin + n_end || strncmp(path, begin, n_begin) != 0 || strcmp(path + n - n_end, end) != 0)
        return false;
    *n_out = n - n_begin - n_end;
    return true;
}

hth_api_dialect hth_route_dialect(const hth_route *route)
{
    return route ? hth_api_kind_dialect(route->api) : HTH_API_OPENAI;
}

hth_api_dialect hth_path_dialect(const char *path)
{
    const hth_route *route = hth_route_find(path);

    if (!route && strncmp(path, "/api/", 5) == 0)
        return HTH_API_OLLAMA;
    return !route && strncmp(path, "/v1/messages/", 13) == 0 ? HTH_API_ANTHROPIC : hth_route_dialect(route);
}

const char *hth_protocol_error_text(int status, const char *why, const char *path, hth_buffer *text)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_api_error_kind kind = status == 413 || status == 414 || status == 431 ? HTH_API_TOO_LARGE
                            : status == 408                                   ? HTH_API_TIMED_OUT
                            : status == 501                                   ? HTH_API_UNSUPPORTED
                            : status == 503                                   ? HTH_API_OVERLOADED
                                                                              : HTH_API_INVALID_VALUE;

    hth_api_fail(&error, kind, NULL, "%s", why);
    error.status = status;
    hth_buffer_clear(text);
    hth_api_error_write(hth_path_dialect(path), &error, text);
    return text->failed ? NULL : hth_buffer_text(text);
}
