/*
 * routes.h - the paths, their methods, and the API that each belongs to
 *
 * Front and worker share the table, so that both know the same paths.
 */
#ifndef HTH_HTTP_ROUTES_H
#define HTH_HTTP_ROUTES_H

#include "api/request.h"

typedef enum hth_route_kind {
    HTH_ROUTE_GENERATE, /* a model generates; api names the form of the body */
    HTH_ROUTE_ASK,      /* a model answers without generating; likewise */
    HTH_ROUTE_EMBED,    /* a model makes embeddings, or scores; likewise */
    HTH_ROUTE_EXPLAIN,  /* why a prompt is cold; of the admin API */
    HTH_ROUTE_PREFIXES, /* the most used prefixes; likewise */
    HTH_ROUTE_MODELS,
    HTH_ROUTE_MODEL, /* /v1/models/NAME */
    HTH_ROUTE_PROPS,
    HTH_ROUTE_SLOTS,
    HTH_ROUTE_SLOT,     /* /slots/N: saves, restores or erases one */
    HTH_ROUTE_ADAPTERS, /* /lora-adapters */
    HTH_ROUTE_HEALTH,   /* and /ready: open to everybody */
    HTH_ROUTE_OLLAMA_TAGS,
    HTH_ROUTE_OLLAMA_PS,
    HTH_ROUTE_OLLAMA_VERSION,
    /* From here on the front answers; a worker has no such path. */
    HTH_ROUTE_FRONT_ONLY,
    HTH_ROUTE_STORED = HTH_ROUTE_FRONT_ONLY, /* /v1/responses/ID and below it: a kept response */
    HTH_ROUTE_STREAM,                        /* /v1/streams/ID: a kept stream */
    HTH_ROUTE_LOAD_ADAPTER,                  /* vLLM's, for operators */
    HTH_ROUTE_UNLOAD_ADAPTER,                /* likewise */
    HTH_ROUTE_LOAD_MODEL,                    /* llama.cpp's */
    HTH_ROUTE_UNLOAD_MODEL,                  /* likewise, for operators where there are keys */
    HTH_ROUTE_ADMIN,                         /* /metrics and /admin/... */
    HTH_ROUTE_ROOT,                          /* the page, or a check that a server is there */
    HTH_ROUTE_OLLAMA_PULL,
    HTH_ROUTE_OLLAMA_FILES, /* changes the set of models */
    HTH_ROUTE_KINDS,
} hth_route_kind;

/* The clients that may use a route. Every client of the operators' own listener may use all routes. */
typedef enum hth_route_right {
    HTH_FOR_CLIENTS, /* with a key, if there are keys */
    HTH_FOR_ALL,
    HTH_FOR_OPERATORS,         /* with an admin key */
    HTH_FOR_OPERATORS_TO_POST, /* with keys, other clients may only read: a POST affects all clients */
} hth_route_right;

typedef struct hth_route {
    const char *path;     /* the requested path; for MODEL, STREAM, STORED and ADMIN its prefix */
    const char *endpoint; /* its name in logs and metrics, the same for equivalent paths */
    /* "POST", or a list as in the header Allow. NULL: ADMIN, STREAM and STORED check the method themselves. */
    const char *method;
    hth_route_kind kind;
    hth_api_kind api; /* the form of the body of GENERATE, ASK and EMBED; of all, the API whose errors it has */
    hth_route_right right;
    const char *about; /* a line for docs/api.md; NULL: another path of the endpoint above */
} hth_route;

/* The table. *n_out receives the number of routes. */
const hth_route *hth_routes(size_t *n_out);

/* The route of a path; NULL: none. */
const hth_route *hth_route_find(const char *path);
/* Are its streams server-sent events, so that a comment may come first? */
bool hth_route_has_events(const hth_route *route);
/* Must a request be sent to one worker only? The prompt of a slot, which is saved or erased, dies with its worker. */
bool hth_route_is_once(const hth_route *route, const char *action);
/* Is the method in the list wanted? HEAD is allowed wherever GET is. */
bool hth_method_is(const char *wanted, const char *method);
/* Is the path begin, a NAME of at least one byte, which may have slashes, and end? *n_out: the bytes of the NAME. */
bool hth_path_has_name(const char *path, const char *begin, const char *end, size_t *n_out);
/* The API whose error format applies: that of the route, else OpenAI's. route may be NULL. */
hth_api_dialect hth_route_dialect(const hth_route *route);
/* Likewise by path, with or without a route: paths below an API's paths belong to that API. */
hth_api_dialect hth_path_dialect(const char *path);
/* The body of a protocol error (hth_http_error_fn) in that format, in text. NULL without memory. */
const char *hth_protocol_error_text(int status, const char *why, const char *path, hth_buffer *text);

#endif
