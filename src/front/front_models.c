/*
 * front_models.c - the model of a request, and pages about models that the front answers itself
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/peek.h"
#include "api/sse.h"
#include "base/gguf_text.h"
#include "base/os.h"
#include "dialects/ollama_answers.h"
#include "front/front_request.h"
#include "front/model_names.h"
#include "wire/needs_text.h"

enum { NOT_IMPLEMENTED = 501 };

static const char no_model[] = "there is no model '%.100s' here; GET /v1/models lists those that there are";

/* May the client use this model? False when it was refused. */
static bool check_right(hth_front_request *r, const char *model)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (hth_front_may_use(r, model))
        return true;
    hth_api_fail(&error, HTH_API_FORBIDDEN, "model",
                 "this key may not use the model '%s'; GET /v1/models lists those it may", model);
    hth_front_request_refuse(r, &error, "forbidden");
    return false;
}

/* The request is for this model. adapter: one of it, that the client named; NULL: none. False: it was refused. */
static bool take_model(hth_front_request *r, const char *model, const char *adapter)
{
    if (!check_right(r, model))
        return false;
    (void)snprintf(r->model, sizeof(r->model), "%s", model); /* fits: longer names are not found */
    r->record.model = r->model;
    r->names_adapter = adapter != NULL;
    if (adapter)
        (void)snprintf(r->adapter, sizeof(r->adapter), "%.*s", (int)sizeof(r->adapter) - 1, adapter);
    return true;
}

/* The model of other nodes that this name means, by its name there; NULL: it means one here, or none. */
static const char *choose_elsewhere(const hth_front_request *r, const char *name, const char *owner,
                                    bool *is_adapter_out)
{
    const hth_server_options *options = r->options->options;
    const char *found;

    if (hth_model_called(options, name, owner))
        return NULL;
    found = hth_front_fleet_model(r->front, name, false, is_adapter_out);
    if (!found && !hth_model_named(options, name, owner))
        found = hth_front_fleet_model(r->front, name, true, is_adapter_out);
    return found;
}

/*
 * The names of all nodes count alike: first those that are exact, here and then elsewhere, then the patterns. A name
 * that nobody has means the default model, unless a node has not told yet what it has.
 */
bool hth_front_choose_model(hth_front_request *r)
{
    const hth_server_options *options = r->options->options;
    const char *named = hth_http_query(r->exchange, "model"), *owner, *elsewhere = NULL;
    const hth_server_model *model;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_api_peeked peeked;
    bool is_adapter = false;
    size_t n = 0;
    const char *body = hth_http_body(r->exchange, &n);

    if (n > 0 && hth_api_peek(body, n, &peeked)) {
        if (!named && peeked.has_model)
            named = peeked.model;
        r->wants_events = peeked.has_stream && peeked.stream && hth_route_has_events(r->route);
    }
    if (!named && r->route->api == HTH_API_OLLAMA_SHOW && hth_api_peek_as(body, n, "name", &peeked) && peeked.has_model)
        named = peeked.model; /* the field's older name */
    owner = named ? hth_supervisor_adapter_owner(r->front->supervisor, named) : NULL;
    if (named && *named && r->front->fleet.nodes) {
        elsewhere = choose_elsewhere(r, named, owner, &is_adapter);
        if (elsewhere)
            return (r->is_elsewhere = take_model(r, elsewhere, is_adapter ? named : NULL));
        if (!hth_model_named(options, named, owner) && hth_front_fleet_is_young(r->front)) {
            hth_api_fail(&error, HTH_API_OVERLOADED, "model",
                         "no model '%.100s' is here, and a node of the fleet that may have it was not reached yet",
                         named);
            error.retry_after_s = 2;
            hth_front_request_refuse(r, &error, "overloaded");
            return false;
        }
    }
    model = hth_model_choose(options, named, owner, r->use ? hth_key_use_key(r->use) : NULL);
    if (!model) {
        hth_api_fail(&error, HTH_API_NOT_FOUND, "model",
                     hth_route_dialect(r->route) == HTH_API_OLLAMA /* its clients look for this text */
                         ? "model '%.100s' not found; GET /api/tags lists those that there are"
                         : no_model,
                     named ? named : "");
        hth_front_request_refuse(r, &error, "not_found");
        return false;
    }
    return take_model(r, model->name, named && hth_model_has_adapter(model, named, owner) ? named : NULL);
}

/* The architecture that a GGUF file names; "": none. */
static void read_architecture(const char *path, char *out, size_t capacity)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || !hth_gguf_text_read(fd, "general.architecture", out, capacity))
        out[0] = '\0';
    if (fd >= 0)
        (void)close(fd); /* only read from */
}

/*
 * The facts about a model that are known without asking its worker. Strings of *view live as long as the supervisor's.
 */
static hth_api_listed_model listed(const hth_front *front, const hth_server_model *of, hth_worker_view *view)
{
    hth_api_listed_model model = {
        .name = of->name,
        .shown = of->shown,
        .created_s = front->started_s,
        .file_bytes = hth_model_files_bytes(of->path),
        .aliases = of->aliases,
        .n_aliases = of->n_aliases,
        .tags = of->tags,
        .n_tags = of->n_tags,
    };

    if (!hth_supervisor_view_of(front->supervisor, of->name, view))
        return model;
    model.info = view->status.has_numbers ? &view->status.info : NULL;
    model.has_failed = view->state == HTH_WORKER_BROKEN;
    model.status = view->state == HTH_WORKER_READY                                         ? "loaded"
                 : view->state == HTH_WORKER_STARTING || view->state == HTH_WORKER_WAITING ? "loading"
                                                                                           : "unloaded";
    if (view->leaves_in_ms < UINT64_MAX)
        model.expires_s = (int64_t)(hth_os_unix_seconds() + view->leaves_in_ms / 1000);
    return model;
}

static size_t n_adapters(const hth_server_options *options, const hth_supervisor *supervisor)
{
    size_t n = 0;

    for (size_t i = 0; i < options->n_models; i++) {
        const hth_adapter_state *state = hth_supervisor_adapters(supervisor, options->models[i].name);

        n += options->models[i].n_adapters + (state ? state->n_loaded : 0);
    }
    return n;
}

/* List the adapters of the listed models after them, under their own names. Returns their number. */
static size_t list_adapters(const hth_server_options *options, const hth_supervisor *supervisor,
                            hth_api_listed_model *models, size_t n_listed)
{
    size_t n = 0;

    for (size_t i = 0; i < n_listed; i++) {
        const hth_server_model *of = hth_model_exactly(options, models[i].name); /* NULL: on other nodes */
        const hth_adapter_state *state = hth_supervisor_adapters(supervisor, models[i].name);

        for (size_t j = 0; of && j < of->n_adapters; j++) {
            models[n_listed + n] = models[i];
            models[n_listed + n++].asked = of->adapters[j];
        }
        for (size_t j = 0; state && j < state->n_loaded; j++) {
            models[n_listed + n] = models[i];
            models[n_listed + n++].asked = state->loaded[j].name;
        }
    }
    return n;
}

static bool is_listed(const hth_api_listed_model *models, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(models[i].name, name) == 0)
            return true;
    return false;
}

static hth_api_listed_model listed_elsewhere(const hth_front *front, const hth_node_model *model)
{
    return (hth_api_listed_model){ .name = model->name,
                                   .created_s = front->started_s,
                                   .status = model->is_ready ? "loaded" : "unloaded",
                                   .has_failed = model->is_broken,
                                   .aliases = model->aliases,
                                   .n_aliases = model->n_aliases };
}

/* The models of a node that can be asked. */
static size_t n_models_of(const hth_node *node)
{
    return hth_node_state_of(node) == HTH_NODE_UP ? hth_node_page_of(node)->n_models : 0;
}

/* List the models of other nodes that this one lacks, too, each once. Returns the number of all. */
static size_t list_elsewhere(const hth_front_request *r, hth_api_listed_model *models, size_t n)
{
    const hth_nodes *nodes = r->front->fleet.nodes;

    for (size_t i = 0; nodes && i < hth_nodes_n(nodes); i++) {
        const hth_node *node = hth_nodes_at(nodes, i);

        for (size_t k = 0; k < n_models_of(node); k++) {
            const hth_node_model *model = &hth_node_page_of(node)->models[k];

            if (hth_front_may_use(r, model->name) && !is_listed(models, n, model->name))
                models[n++] = listed_elsewhere(r->front, model);
        }
    }
    return n;
}

/* A model of another node by its own name, if the client may use it. */
static bool find_elsewhere(const hth_front_request *r, const char *name, hth_api_listed_model *out)
{
    const hth_nodes *nodes = r->front->fleet.nodes;

    for (size_t i = 0; nodes && i < hth_nodes_n(nodes) && hth_front_may_use(r, name); i++) {
        const hth_node *node = hth_nodes_at(nodes, i);

        for (size_t k = 0; k < n_models_of(node); k++)
            if (strcmp(hth_node_page_of(node)->models[k].name, name) == 0) {
                *out = listed_elsewhere(r->front, &hth_node_page_of(node)->models[k]);
                return true;
            }
    }
    return false;
}

static size_t n_elsewhere(const hth_nodes *nodes)
{
    size_t n = 0;

    for (size_t i = 0; nodes && i < hth_nodes_n(nodes); i++)
        n += hth_node_page_of(hth_nodes_at(nodes, i))->n_models;
    return n;
}

/* The model of this name, if the client may use it; the default model does not count. NULL: there is none. */
static const hth_server_model *model_of(const hth_front_request *r, const char *name)
{
    const hth_server_model *model =
        hth_model_named(r->options->options, name, hth_supervisor_adapter_owner(r->front->supervisor, name));

    return model && hth_front_may_use(r, model->name) ? model : NULL;
}

/*
 * Clients of Ollama pull the model that they want before they use it. A model that is there is pulled at once. Nothing
 * is fetched: the operator alone decides which models there are. *type_out: the content type of the page.
 */
static void pull(const hth_front_request *r, hth_buffer *out, const char **type_out, hth_api_error *error)
{
    size_t n = 0;
    const char *bytes = hth_http_body(r->exchange, &n);
    hth_api_listed_model one;
    hth_api_peeked peeked;
    bool is_stream;

    (void)hth_api_peek(bytes, n, &peeked); /* fields found before a parse error count */
    is_stream = !peeked.has_stream || peeked.stream;
    if (!peeked.has_model)
        (void)hth_api_peek_as(bytes, n, "name", &peeked); /* the field's older name */
    if (!peeked.has_model) {
        hth_api_fail(error, HTH_API_MISSING, "model", "the body must be a JSON object with the text 'model'");
    } else if (model_of(r, peeked.model) || find_elsewhere(r, peeked.model, &one)) {
        *type_out = is_stream ? HTH_NDJSON_CONTENT_TYPE : *type_out;
        hth_api_ollama_pulled_write(is_stream, out);
    } else {
        hth_api_fail(error, HTH_API_UNSUPPORTED, "model",
                     "model '%.100s' is not here, and this server fetches none; give its file to 'hearth serve', as a "
                     "model of that name",
                     peeked.model);
        error->status = NOT_IMPLEMENTED;
    }
}

void hth_front_list_models(hth_front_request *r)
{
    const hth_server_options *options = r->options->options;
    const char *type = r->route->kind == HTH_ROUTE_ROOT ? "text/plain; charset=utf-8" : "application/json";
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer body = { .text = NULL };
    size_t n = 0;
    hth_api_listed_model *models =
        calloc(options->n_models + n_elsewhere(r->front->fleet.nodes) + n_adapters(options, r->front->supervisor) + 1,
               sizeof(*models));
    hth_worker_view *views = calloc(options->n_models + 1, sizeof(*views));

    if (models && views) {
        for (size_t i = 0; i < options->n_models; i++)
            if (hth_front_may_use(r, options->models[i].name)) {
                models[n] = listed(r->front, &options->models[i], &views[n]);
                if (r->route->kind != HTH_ROUTE_MODELS && !models[n].info)
                    read_architecture(options->models[i].path, models[n].architecture, sizeof(models[n].architecture));
                n++;
            }
        n = list_elsewhere(r, models, n);
        switch (r->route->kind) {
        case HTH_ROUTE_MODELS:
            hth_api_models_write(models, n + list_adapters(options, r->front->supervisor, models, n), &body);
            break;
        case HTH_ROUTE_OLLAMA_TAGS: hth_api_ollama_tags_write(models, n, &body); break;
        case HTH_ROUTE_OLLAMA_PS: hth_api_ollama_ps_write(models, n, &body); break;
        case HTH_ROUTE_OLLAMA_VERSION: hth_api_ollama_version_write(&body); break;
        case HTH_ROUTE_OLLAMA_PULL: pull(r, &body, &type, &error); break;
        case HTH_ROUTE_OLLAMA_FILES:
            hth_api_fail(&error, HTH_API_UNSUPPORTED, NULL,
                         "models are not made, copied, sent or removed over HTTP; the configuration of 'hearth serve' "
                         "says which there are");
            error.status = NOT_IMPLEMENTED;
            break;
        default: hth_buffer_add_text(&body, "Hearth is running\n"); break;
        }
    }
    if (!models || !views || body.failed)
        hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "no memory for the list of models");
    if (error.kind != HTH_API_NO_ERROR)
        hth_front_request_refuse(r, &error, error.kind == HTH_API_OVERLOADED ? "overloaded" : NULL);
    else
        hth_front_request_answer(r, 200, type, &body);
    hth_buffer_deinit(&body);
    free(models);
    free(views);
}

void hth_front_show_model(hth_front_request *r)
{
    const char *name = hth_front_below(r);
    const hth_server_model *model = model_of(r, name);
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_api_listed_model one;
    hth_worker_view view;
    hth_buffer body = { .text = NULL };

    if (!model && !find_elsewhere(r, name, &one)) {
        hth_api_fail(&error, HTH_API_NOT_FOUND, "model", no_model, name);
        hth_front_request_refuse(r, &error, "not_found");
        return;
    }
    if (model)
        one = listed(r->front, model, &view);
    one.asked = name;
    hth_api_model_write(&one, &body);
    if (body.failed) {
        hth_api_fail(&error, HTH_API_INVALID_VALUE, "model",
                     "the model cannot be shown under the name that was asked for; ask for it in UTF-8");
        hth_front_request_refuse(r, &error, NULL);
    } else {
        hth_front_request_answer(r, 200, "application/json", &body);
    }
    hth_buffer_deinit(&body);
}

void hth_front_order_model(hth_front_request *r)
{
    hearth_status (*order)(hth_supervisor * supervisor, const char *model, hearth_error *err) =
        r->route->kind == HTH_ROUTE_LOAD_MODEL ? hth_supervisor_load : hth_supervisor_unload;
    const hth_server_model *model = NULL;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer body = { .text = NULL };
    hth_api_peeked peeked;
    hearth_error err = { .status = HEARTH_OK };
    size_t n = 0;
    const char *bytes = hth_http_body(r->exchange, &n);

    (void)hth_api_peek(bytes ? bytes : "", n, &peeked); /* fields found before a parse error count */
    if (peeked.has_model)
        model = model_of(r, peeked.model);
    else
        hth_api_fail(&error, HTH_API_MISSING, "model", "the body must be a JSON object with the text 'model'");
    if (peeked.has_model && !model)
        hth_api_fail(&error, HTH_API_NOT_FOUND, "model", no_model, peeked.model);
    if (model && order(r->front->supervisor, model->name, &err) != HEARTH_OK)
        hth_api_fail_order(&error, &err);
    if (error.kind != HTH_API_NO_ERROR) {
        hth_front_request_refuse(r, &error, NULL);
        return;
    }
    hth_buffer_add_text(&body, "{\"success\":true}");
    hth_front_request_answer(r, 200, "application/json", &body);
    hth_buffer_deinit(&body);
}
