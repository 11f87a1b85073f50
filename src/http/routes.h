/*
 * routes.h - which paths there are, what they take, and whose formats they speak
 *
 * Front and worker share the table, so that no path is known to one of them only.
 */
#ifndef HTH_HTTP_ROUTES_H
#define HTH_HTTP_ROUTES_H

#include "api/request.h"

typedef enum hth_route_kind {
    HTH_ROUTE_GENERATE, /* a model generates; api says what the body is */
    HTH_ROUTE_ASK,      /* a model answers without generating; likewise */
    HTH_ROUTE_EMBED,    /* a model makes embeddings, or scores; likewise */
    HTH_ROUTE_STORED,   /* /v1/responses/ID and below it: what is kept; the front's */
    HTH_ROUTE_EXPLAIN,  /* why a prompt is cold; of the admin API */
    HTH_ROUTE_PREFIXES, /* the most used prefixes; likewise */
    HTH_ROUTE_MODELS,
    HTH_ROUTE_MODEL,  /* /v1/models/NAME */
    HTH_ROUTE_STREAM, /* /v1/streams/ID: one that is kept */
    HTH_ROUTE_PROPS,
    HTH_ROUTE_SLOTS,
    HTH_ROUTE_ADAPTERS,       /* /lora-adapters */
    HTH_ROUTE_LOAD_ADAPTER,   /* vLLM's, for operators; the front's */
    HTH_ROUTE_UNLOAD_ADAPTER, /* likewise */
    HTH_ROUTE_LOAD_MODEL,     /* llama.cpp's; the front's */
    HTH_ROUTE_UNLOAD_MODEL,   /* likewise, for operators where there are keys */
    HTH_ROUTE_SLOT,           /* /slots/N: what is to become of one */
    HTH_ROUTE_HEALTH,         /* and /ready: open to everybody */
    HTH_ROUTE_ADMIN,          /* /metrics and /admin/... */
    HTH_ROUTE_ROOT,           /* somebody looks whether there is a server */
    /* Ollama's, which the front answers (ollama_pages.h). */
    HTH_ROUTE_OLLAMA_TAGS,
    HTH_ROUTE_OLLAMA_PS,
    HTH_ROUTE_OLLAMA_VERSION,
    HTH_ROUTE_OLLAMA_PULL,
    HTH_ROUTE_OLLAMA_FILES, /* what changes the models that there are */
    HTH_ROUTE_KINDS,
} hth_route_kind;

/* Who may use a route. Whoever reaches the operators' own listener may do everything. */
typedef enum hth_route_right {
    HTH_FOR_CLIENTS, /* with a key, where there are keys */
    HTH_FOR_ALL,
    HTH_FOR_OPERATORS,         /* with an admin key */
    HTH_FOR_OPERATORS_TO_POST, /* others may only read, where there are keys: a POST changes what all clients get */
} hth_route_right;

typedef struct hth_route {
    const char *path;     /* what comes; of a MODEL, a STREAM, a STORED and an ADMIN its beginning */
    const char *endpoint; /* how logs and metrics name it, the same for paths that are one thing */
    /* "POST", or several as Allow has them; an ADMIN's pages, STREAMs and what is STORED decide themselves: NULL */
    const char *method;
    hth_route_kind kind;
    hth_api_kind api; /* of GENERATE, ASK and EMBED */
    hth_route_right right;
    const char *about; /* a line for docs/api.md; NULL: the path is another name of the endpoint above */
} hth_route;

/* The table. *n_out receives the number of routes. */
const hth_route *hth_routes(size_t *n_out);

/* The route of a path; NULL: there is none. */
const hth_route *hth_route_find(const char *path);
/* Are its streams server-sent events, so that a comment may stand before anything else? */
bool hth_route_has_events(const hth_route *route);
/* Is a request for this only told to one worker? A slot's prompt, which is saved or erased, dies with its worker. */
bool hth_route_is_once(const hth_route *route, const char *action);
/* Is the method among those that are wanted? HEAD is wherever GET is. */
bool hth_method_is(const char *wanted, const char *method);
/* In whose shape an error on this path is: by its route, else OpenAI's. route may be NULL. */
hth_api_dialect hth_route_dialect(const hth_route *route);
/* The same by the path, whether there is a route or not: what is below an API's paths is for that API's clients. */
hth_api_dialect hth_path_dialect(const char *path);

#endif
