/*
 * ollama_pages.h - the pages of Ollama's API that the front answers without a worker
 */
#ifndef HTH_FRONT_OLLAMA_PAGES_H
#define HTH_FRONT_OLLAMA_PAGES_H

#include "dialects/ollama_answers.h"
#include "http/routes.h"
#include "supervisor/options.h"
#include "supervisor/supervisor.h"

typedef struct hth_ollama_request {
    const hth_route *route; /* of kind ROOT or OLLAMA_... */
    const hth_server_options *options;
    const hth_supervisor *supervisor;
    const hth_server_key *key;          /* of the client; NULL: no key is required */
    const hth_api_listed_model *models; /* [n_models], which the client may use */
    size_t n_models;
    const char *bytes; /* [n_bytes], the body of the request */
    size_t n_bytes;
} hth_ollama_request;

/* Append the page to out; *type_out: its content type. False with error filled: it is refused, and out is unchanged. */
bool hth_ollama_page(const hth_ollama_request *request, hth_buffer *out, const char **type_out, hth_api_error *error);

#endif
