/*
 * ollama_pages.c - see ollama_pages.h
 *
 * Clients of Ollama look for a server, list models and pull the one that they want before they use it. What is there is
 * pulled at once; nothing is fetched, made or removed over HTTP: which models there are is the operator's to say.
 */
#include "front/ollama_pages.h"

#include "api/sse.h"
#include "api/peek.h"
#include "front/keys.h"
#include "front/model_names.h"

enum { NOT_IMPLEMENTED = 501 };

static bool refuse(hth_api_error *error, const char *param, const char *message)
{
    hth_api_fail(error, HTH_API_UNSUPPORTED, param, "%s", message);
    error->status = NOT_IMPLEMENTED;
    return false;
}

/* Does this client have a model with this name or alias? The default model does not count. */
static bool is_here(const hth_ollama_request *request, const char *name)
{
    const hth_server_model *model =
        hth_model_named(request->options, name, hth_supervisor_adapter_owner(request->supervisor, name));

    return model && (!request->key || hth_key_allows_model(request->key, model->name));
}

static bool pull(const hth_ollama_request *request, hth_buffer *out, const char **type_out, hth_api_error *error)
{
    hth_api_peeked peeked;
    bool is_stream;

    (void)hth_api_peek(request->bytes, request->n_bytes, &peeked); /* fields found before a parse error count */
    is_stream = !peeked.has_stream || peeked.stream;
    if (!peeked.has_model)
        (void)hth_api_peek_as(request->bytes, request->n_bytes, "name", &peeked); /* the field's older name */
    if (!peeked.has_model) {
        hth_api_fail(error, HTH_API_MISSING, "model", "the body must be a JSON object with the text 'model'");
        return false;
    }
    if (is_here(request, peeked.model)) {
        *type_out = is_stream ? HTH_NDJSON_CONTENT_TYPE : "application/json";
        hth_api_ollama_pulled_write(is_stream, out);
        return true;
    }
    hth_api_fail(
        error, HTH_API_UNSUPPORTED, "model",
        "model '%.100s' is not here, and this server fetches none; give its file to 'hearth serve', as a model "
        "of that name",
        peeked.model);
    error->status = NOT_IMPLEMENTED;
    return false;
}

bool hth_ollama_page(const hth_ollama_request *request, hth_buffer *out, const char **type_out, hth_api_error *error)
{
    *error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    *type_out = "application/json";
    switch (request->route->kind) {
    case HTH_ROUTE_OLLAMA_TAGS: hth_api_ollama_tags_write(request->models, request->n_models, out); return true;
    case HTH_ROUTE_OLLAMA_PS: hth_api_ollama_ps_write(request->models, request->n_models, out); return true;
    case HTH_ROUTE_OLLAMA_VERSION: hth_api_ollama_version_write(out); return true;
    case HTH_ROUTE_OLLAMA_PULL: return pull(request, out, type_out, error);
    case HTH_ROUTE_OLLAMA_FILES:
        return refuse(
            error, NULL,
            "models are not made, copied, sent or removed over HTTP; the configuration of 'hearth serve' says "
            "which there are");
    default: break;
    }
    *type_out = "text/plain; charset=utf-8";
    hth_buffer_add_text(out, "Hearth is running\n");
    return true;
}
