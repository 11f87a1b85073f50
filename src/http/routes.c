/*
 * routes.c - the table
 *
 * OpenAI's paths are known with and without "/v1", as llama-server has them.
 */
#include "http/routes.h"

#include <string.h>

static const hth_route routes[] = {
    { "/v1/chat/completions", "/v1/chat/completions", "POST", HTH_ROUTE_GENERATE, HTH_API_CHAT },
    { "/chat/completions", "/v1/chat/completions", "POST", HTH_ROUTE_GENERATE, HTH_API_CHAT },
    { "/v1/chat/completions/input_tokens", "/v1/chat/completions/input_tokens", "POST", HTH_ROUTE_ASK,
      HTH_API_CHAT_TOKENS },
    { "/chat/completions/input_tokens", "/v1/chat/completions/input_tokens", "POST", HTH_ROUTE_ASK,
      HTH_API_CHAT_TOKENS },
    { "/v1/completions", "/v1/completions", "POST", HTH_ROUTE_GENERATE, HTH_API_COMPLETION },
    { "/v1/responses", "/v1/responses", "POST", HTH_ROUTE_GENERATE, HTH_API_RESPONSES },
    { "/responses", "/v1/responses", "POST", HTH_ROUTE_GENERATE, HTH_API_RESPONSES },
    { "/v1/responses/input_tokens", "/v1/responses/input_tokens", "POST", HTH_ROUTE_ASK, HTH_API_RESPONSES_TOKENS },
    { "/responses/input_tokens", "/v1/responses/input_tokens", "POST", HTH_ROUTE_ASK, HTH_API_RESPONSES_TOKENS },
    { "/v1/responses/", "/v1/responses/{id}", NULL, HTH_ROUTE_STORED, HTH_API_RESPONSES },
    { "/responses/", "/v1/responses/{id}", NULL, HTH_ROUTE_STORED, HTH_API_RESPONSES },
    { "/v1/messages", "/v1/messages", "POST", HTH_ROUTE_GENERATE, HTH_API_MESSAGES },
    { "/v1/messages/count_tokens", "/v1/messages/count_tokens", "POST", HTH_ROUTE_ASK, HTH_API_COUNT_TOKENS },
    { "/completion", "/completion", "POST", HTH_ROUTE_GENERATE, HTH_API_NATIVE_COMPLETION },
    { "/completions", "/completion", "POST", HTH_ROUTE_GENERATE, HTH_API_NATIVE_COMPLETION },
    { "/infill", "/infill", "POST", HTH_ROUTE_GENERATE, HTH_API_INFILL },
    { "/tokenize", "/tokenize", "POST", HTH_ROUTE_ASK, HTH_API_TOKENIZE },
    { "/detokenize", "/detokenize", "POST", HTH_ROUTE_ASK, HTH_API_DETOKENIZE },
    { "/apply-template", "/apply-template", "POST", HTH_ROUTE_ASK, HTH_API_APPLY_TEMPLATE },
    { "/v1/embeddings", "/v1/embeddings", "POST", HTH_ROUTE_EMBED, HTH_API_EMBEDDINGS },
    { "/embedding", "/embedding", "POST", HTH_ROUTE_EMBED, HTH_API_NATIVE_EMBEDDING },
    { "/embeddings", "/embedding", "POST", HTH_ROUTE_EMBED, HTH_API_NATIVE_EMBEDDING },
    { "/v1/rerank", "/v1/rerank", "POST", HTH_ROUTE_EMBED, HTH_API_RERANK },
    { "/rerank", "/v1/rerank", "POST", HTH_ROUTE_EMBED, HTH_API_RERANK },
    { "/v1/reranking", "/v1/rerank", "POST", HTH_ROUTE_EMBED, HTH_API_RERANK },
    { "/reranking", "/v1/rerank", "POST", HTH_ROUTE_EMBED, HTH_API_RERANK },
    { "/v1/models", "/v1/models", "GET", HTH_ROUTE_MODELS, HTH_API_CHAT },
    { "/models", "/v1/models", "GET", HTH_ROUTE_MODELS, HTH_API_CHAT },
    { "/v1/models/", "/v1/models", "GET", HTH_ROUTE_MODEL, HTH_API_CHAT },
    { "/models/load", "/models/load", "POST", HTH_ROUTE_LOAD_MODEL, HTH_API_CHAT },
    { "/models/unload", "/models/unload", "POST", HTH_ROUTE_UNLOAD_MODEL, HTH_API_CHAT },
    { "/api/chat", "/api/chat", "POST", HTH_ROUTE_GENERATE, HTH_API_OLLAMA_CHAT },
    { "/api/generate", "/api/generate", "POST", HTH_ROUTE_GENERATE, HTH_API_OLLAMA_GENERATE },
    { "/api/show", "/api/show", "GET, POST", HTH_ROUTE_ASK, HTH_API_OLLAMA_SHOW },
    { "/api/tags", "/api/tags", "GET", HTH_ROUTE_OLLAMA_TAGS, HTH_API_OLLAMA_CHAT },
    { "/api/ps", "/api/ps", "GET", HTH_ROUTE_OLLAMA_PS, HTH_API_OLLAMA_CHAT },
    { "/api/version", "/api/version", "GET", HTH_ROUTE_OLLAMA_VERSION, HTH_API_OLLAMA_CHAT },
    { "/api/pull", "/api/pull", "POST", HTH_ROUTE_OLLAMA_PULL, HTH_API_OLLAMA_CHAT },
    { "/api/push", "/api/push", "POST", HTH_ROUTE_OLLAMA_FILES, HTH_API_OLLAMA_CHAT },
    { "/api/create", "/api/create", "POST", HTH_ROUTE_OLLAMA_FILES, HTH_API_OLLAMA_CHAT },
    { "/api/copy", "/api/copy", "POST", HTH_ROUTE_OLLAMA_FILES, HTH_API_OLLAMA_CHAT },
    { "/api/delete", "/api/delete", "DELETE", HTH_ROUTE_OLLAMA_FILES, HTH_API_OLLAMA_CHAT },
    { "/api/embed", "/api/embed", "POST", HTH_ROUTE_EMBED, HTH_API_OLLAMA_EMBED },
    { "/api/embeddings", "/api/embed", "POST", HTH_ROUTE_EMBED, HTH_API_OLLAMA_EMBEDDINGS },
    { "/", "/", "GET", HTH_ROUTE_ROOT, HTH_API_OLLAMA_CHAT },
    { "/v1/streams/", "/v1/streams", NULL, HTH_ROUTE_STREAM, HTH_API_CHAT },
    { "/props", "/props", "GET", HTH_ROUTE_PROPS, HTH_API_NATIVE_COMPLETION },
    { "/slots", "/slots", "GET", HTH_ROUTE_SLOTS, HTH_API_NATIVE_COMPLETION },
    { "/lora-adapters", "/lora-adapters", "GET, POST", HTH_ROUTE_ADAPTERS, HTH_API_NATIVE_COMPLETION },
    { "/v1/load_lora_adapter", "/v1/load_lora_adapter", "POST", HTH_ROUTE_LOAD_ADAPTER, HTH_API_CHAT },
    { "/v1/unload_lora_adapter", "/v1/unload_lora_adapter", "POST", HTH_ROUTE_UNLOAD_ADAPTER, HTH_API_CHAT },
    { "/slots/", "/slots/{id}", "POST", HTH_ROUTE_SLOT, HTH_API_SLOT },
    { "/health", "/health", "GET", HTH_ROUTE_HEALTH, HTH_API_NATIVE_COMPLETION },
    { "/v1/health", "/health", "GET", HTH_ROUTE_HEALTH, HTH_API_NATIVE_COMPLETION },
    { "/ready", "/ready", "GET", HTH_ROUTE_HEALTH, HTH_API_NATIVE_COMPLETION },
    { "/metrics", "/metrics", NULL, HTH_ROUTE_ADMIN, HTH_API_CHAT },
    { "/admin/explain", "/admin/explain", "POST", HTH_ROUTE_EXPLAIN, HTH_API_CHAT },
    { "/admin/prefixes", "/admin/prefixes", "GET", HTH_ROUTE_PREFIXES, HTH_API_CHAT },
    { "/admin/", "/admin", NULL, HTH_ROUTE_ADMIN, HTH_API_CHAT },
};

enum { N_ROUTES = sizeof(routes) / sizeof(routes[0]) };

/* Routes whose path is the beginning of what comes. */
static bool is_beginning(const hth_route *route)
{
    return route->path[1] && route->path[strlen(route->path) - 1] == '/';
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
    /* Ollama's are none: of what may be a stream there, the worker alone knows whether it is one. */
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
