/*
 * ollama_pages.h - what the front answers of Ollama's API without asking a worker
 */
#ifndef HTH_SERVER_OLLAMA_PAGES_H
#define HTH_SERVER_OLLAMA_PAGES_H

#include "api/ollama_answers.h"
#include "server/routes.h"

/*
 * The page of a route of kind ROOT or OLLAMA_..., made of the models that the client may use. request: the body that came, [n_request]. *type_out:
 * the content type. False with error filled: it is refused, and out is as it was.
 */
bool hth_ollama_page(const hth_route *route, const hth_api_listed_model *models, size_t n_models, const char *request,
                     size_t n_request, hth_buffer *out, const char **type_out, hth_api_error *error);

#endif
