/*
 * front_fleet.c - the front as a node of a fleet: its file, its name, the other nodes, and what it tells them
 *
 * The page for other nodes is made anew when it is older than PAGE_MS, however many ask.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/json_values.h"
#include "base/hex.h"
#include "base/os.h"
#include "base/status.h"
#include "front/front_request.h"
#include "front/model_names.h"

enum {
    PAGE_MS = 200,
};

/* ---- the page for other nodes ---- */

/* A model of the page, with room for its fingerprint and the names of its adapters. */
typedef struct own_model {
    char digest[HTH_WORKER_DIGEST_BYTES];
    const char **adapters; /* owned */
} own_model;

/* False without memory. */
static bool describe(const hth_front *front, const hth_server_model *model, own_model *own, hth_node_model *out)
{
    const hth_adapter_state *state = hth_supervisor_adapters(front->supervisor, model->name);
    const size_t n_loaded = state ? state->n_loaded : 0;
    hth_worker_load load = { .is_ready = false };
    size_t n = 0;

    (void)hth_supervisor_load_of(front->supervisor, model->name, &load);
    own->adapters = (const char **)calloc(model->n_adapters + n_loaded + 1, sizeof(char *));
    if (!own->adapters)
        return false;
    for (size_t i = 0; i < model->n_adapters; i++)
        own->adapters[n++] = model->adapters[i];
    for (size_t i = 0; i < n_loaded; i++)
        own->adapters[n++] = state->loaded[i].name;
    memcpy(own->digest, load.digest, sizeof(own->digest));
    *out = (hth_node_model){ .name = model->name,
                             .aliases = model->aliases,
                             .n_aliases = model->n_aliases,
                             .adapters = own->adapters,
                             .n_adapters = n,
                             .digest = own->digest,
                             .is_ready = load.is_ready,
                             .is_broken = load.is_broken,
                             .n_at_work = load.n_at_work,
                             .n_waiting = load.n_waiting,
                             .n_parallel = load.n_parallel };
    return true;
}

static void write_page(hth_front *front)
{
    const hth_server_options *options = front->options->options;
    own_model *own = calloc(options->n_models + 1, sizeof(*own));
    hth_node_page page = { .models = calloc(options->n_models + 1, sizeof(*page.models)) };
    bool ok = own && page.models;

    (void)snprintf(page.version, sizeof(page.version), "%s", hearth_version()); /* these fit */
    (void)snprintf(page.name, sizeof(page.name), "%s", front->fleet.name);
    (void)snprintf(page.epoch, sizeof(page.epoch), "%s", front->fleet.epoch);
    page.is_draining = front->is_draining || hth_places_is_draining(front->places);
    for (size_t i = 0; i < options->n_models && ok; i++) {
        ok = describe(front, &options->models[i], &own[i], &page.models[i]);
        page.n_models++;
    }
    hth_buffer_deinit(&front->fleet.page);
    if (ok)
        hth_node_page_write(&page, &front->fleet.page);
    else
        front->fleet.page.failed = true;
    for (size_t i = 0; own && i < page.n_models; i++)
        free((void *)own[i].adapters);
    free(own);
    free(page.models);
}

const hth_buffer *hth_front_fleet_page(hth_front *front)
{
    const uint64_t now_ns = hth_os_monotonic_ns();

    if (front->fleet.page_ns == 0 || now_ns - front->fleet.page_ns >= hth_ms_to_ns(PAGE_MS) ||
        front->fleet.page.failed) {
        write_page(front);
        front->fleet.page_ns = now_ns;
    }
    return &front->fleet.page;
}

/* ---- the models of other nodes ---- */

const char *hth_front_fleet_model(const hth_front *front, const char *name, bool by_patterns, bool *is_adapter_out)
{
    const hth_server_model *found = NULL;
    const char *own_name = NULL;

    for (size_t i = 0; front->fleet.nodes && !found && i < hth_nodes_n(front->fleet.nodes); i++) {
        const hth_node *node = hth_nodes_at(front->fleet.nodes, i);
        const hth_node_page *page = hth_node_page_of(node);
        hth_server_model *models = hth_node_may_belong(node) ? calloc(page->n_models + 1, sizeof(*models)) : NULL;
        const hth_server_options list = { .models = models, .n_models = page->n_models };

        for (size_t k = 0; models && k < page->n_models; k++)
            models[k] = (hth_server_model){ .name = page->models[k].name,
                                            .aliases = page->models[k].aliases,
                                            .n_aliases = page->models[k].n_aliases,
                                            .adapters = page->models[k].adapters,
                                            .n_adapters = page->models[k].n_adapters };
        found = models ? (by_patterns ? hth_model_named : hth_model_called)(&list, name, NULL) : NULL;
        if (found && strlen(found->name) > HTH_MODEL_NAME_BYTES_MAX)
            found = NULL; /* no model of this version */
        if (found) {
            *is_adapter_out = hth_model_has_adapter(found, name, NULL) && strcmp(found->name, name) != 0;
            own_name = found->name; /* the page's */
        }
        free(models);
    }
    return own_name;
}

bool hth_front_fleet_is_young(const hth_front *front)
{
    for (size_t i = 0; front->fleet.nodes && i < hth_nodes_n(front->fleet.nodes); i++)
        if (hth_node_may_belong(hth_nodes_at(front->fleet.nodes, i)) &&
            hth_node_age_ms(hth_nodes_at(front->fleet.nodes, i)) == UINT64_MAX)
            return true;
    return front->fleet.roster && hth_roster_is_young(front->fleet.roster);
}

/* ---- pages and orders of operators ---- */

static json_t *node_json(const hth_node *node)
{
    const hth_node_page *page = hth_node_page_of(node);
    json_t *models = json_array(), *object;
    const bool is_known = hth_node_age_ms(node) != UINT64_MAX;

    for (size_t i = 0; i < page->n_models; i++) {
        const hth_node_model *model = &page->models[i];

        (void)json_array_append_new(models, /* left out without memory */
                                    json_pack("{s:o, s:b, s:b, s:I, s:I, s:I, s:b}", "name",
                                              hth_json_string(model->name), "ready", model->is_ready, "broken",
                                              model->is_broken, "at_work", (json_int_t)model->n_at_work, "waiting",
                                              (json_int_t)model->n_waiting, "parallel", (json_int_t)model->n_parallel,
                                              "takes_requests", hth_node_takes(node, model->name)));
    }
    object = json_pack("{s:o, s:s, s:s, s:I, s:o}", "name", hth_json_string(hth_node_name(node)), "address",
                       hth_node_address(node), "state", hth_node_state_name(hth_node_state_of(node)), "in_flight",
                       (json_int_t)hth_node_in_flight(node), "models", models);
    if (*hth_node_why(node))
        (void)json_object_set_new(object, "why", hth_json_string(hth_node_why(node))); /* likewise */
    if (is_known)
        (void)json_object_set_new(object, "version", hth_json_string(page->version));
    if (is_known)
        (void)json_object_set_new(object, "seen_ms", json_integer((json_int_t)hth_node_age_ms(node)));
    return object;
}

static json_t *store_json(const hth_fleet *fleet)
{
    const bool is_up = hth_store_is_up(fleet->store);

    return json_pack("{s:o, s:b, s:o}", "address", hth_json_string(hth_store_address(fleet->store)), "up", is_up, "why",
                     hth_json_string(is_up ? hth_roster_why(fleet->roster) : hth_store_why(fleet->store)));
}

json_t *hth_front_fleet_json(void *user_data)
{
    hth_front *front = user_data;
    const hth_buffer *page;
    json_t *nodes, *own;

    if (!front->fleet.nodes)
        return json_pack("{s:b}", "fleet", 0);
    page = hth_front_fleet_page(front);
    own = page->failed ? NULL : json_loadb(page->text, page->n, 0, NULL);
    nodes = json_array();
    for (size_t i = 0; i < hth_nodes_n(front->fleet.nodes); i++) {
        const hth_node *node = hth_nodes_at(front->fleet.nodes, i);

        if (hth_node_state_of(node) != HTH_NODE_SELF)
            (void)json_array_append_new(nodes, node_json(node)); /* left out without memory */
    }
    return json_pack("{s:b, s:s, s:o, s:o, s:o*}", "fleet", 1, "certificate", hth_fleet_pem_print(front->fleet.pem),
                     "self", own, "nodes", nodes, "store", front->fleet.store ? store_json(&front->fleet) : NULL);
}

/* ---- draining ---- */

static hearth_status drain_self(hth_front *front, bool is_draining)
{
    if (is_draining != hth_places_is_draining(front->places))
        hth_info(&front->log, "an order: this node takes %s requests", is_draining ? "no more" : "again");
    front->fleet.page_ns = 0;
    hth_places_set_draining(front->places, is_draining);
    return HEARTH_OK;
}

hearth_status hth_front_fleet_drain(const char *name, bool is_draining, void *user_data, hearth_error *err)
{
    hth_front *front = user_data;

    if (!front->fleet.nodes)
        return hth_fail(err, HEARTH_UNSUPPORTED, "this server is no node of a fleet (fleet.file, --fleet)");
    if (!*name || strcmp(name, front->fleet.name) == 0)
        return drain_self(front, is_draining);
    for (size_t i = 0; i < hth_nodes_n(front->fleet.nodes); i++) {
        hth_node *node = hth_nodes_at(front->fleet.nodes, i);

        if (strcmp(hth_node_name(node), name) == 0 && hth_node_may_belong(node))
            return hth_node_state_of(node) == HTH_NODE_DOWN
                     ? hth_fail(err, HEARTH_BUSY, "node '%s' cannot be reached: %s", name, hth_node_why(node))
                     : hth_node_order_drain(node, is_draining, err);
    }
    return hth_fail(err, HEARTH_NOT_FOUND, "there is no node '%s'; 'hearth fleet ls' lists those that there are", name);
}

/* ---- other nodes ask ---- */

static void answer(hth_http_exchange *exchange, int status, const char *text)
{
    hth_http_reply(exchange, status, "text/plain; charset=utf-8", text, strlen(text));
}

void hth_front_fleet_handle(hth_front *front, hth_http_exchange *exchange)
{
    const char *path = hth_http_path(exchange), *method = hth_http_method(exchange);
    const hth_buffer *page;
    const char *order;
    hearth_error err;

    if (strcmp(path, HTH_FLEET_PAGE_PATH) == 0 && strcmp(method, "GET") == 0) {
        page = hth_front_fleet_page(front);
        if (page->failed)
            answer(exchange, 503, "this node has no memory for its page");
        else
            hth_http_reply(exchange, 200, "application/json", page->text, page->n);
    } else if (strcmp(path, HTH_FLEET_ASK_PATH) == 0 && strcmp(method, "POST") == 0) {
        hth_peer_ask(front, exchange);
    } else if (strcmp(path, HTH_FLEET_DRAIN_PATH) == 0 && strcmp(method, "POST") == 0) {
        order = hth_http_query(exchange, "draining");
        if (!order || (strcmp(order, "0") != 0 && strcmp(order, "1") != 0))
            answer(exchange, 400, "draining is 0 or 1");
        else if (hth_front_fleet_drain("", strcmp(order, "1") == 0, front, &err) == HEARTH_OK)
            answer(exchange, 200, "ok");
        else
            answer(exchange, 503, err.message);
    } else {
        answer(exchange, 404, "other nodes ask nothing of this kind");
    }
}

/* ---- the beginning and the end ---- */

hearth_status hth_front_fleet_open(hth_front *front, const hth_server_options *options, hearth_error *err)
{
    hth_fleet *fleet = &front->fleet;
    uint8_t epoch[(HTH_NODE_EPOCH_BYTES - 1) / 2];

    if (options->fleet.name)
        (void)snprintf(fleet->name, sizeof(fleet->name), "%s", options->fleet.name); /* it was checked */
    else if (!hth_os_hostname(fleet->name, sizeof(fleet->name)) || !hth_node_name_is_valid(fleet->name))
        (void)snprintf(fleet->name, sizeof(fleet->name), "node");
    if (!options->fleet.file)
        return HEARTH_OK;
    hth_os_random(epoch, sizeof(epoch));
    hth_hex_encode(epoch, sizeof(epoch), fleet->epoch);
    return hth_fleet_pem_read(options->fleet.file, &fleet->pem, err);
}

static void on_look(hth_node *node, bool is_new, void *user_data)
{
    hth_front *front = user_data;

    if (is_new)
        hth_event_feed_tell_take(front->feed, "node",
                                 json_pack("{s:o, s:s, s:s, s:o}", "name", hth_json_string(hth_node_name(node)),
                                           "address", hth_node_address(node), "state",
                                           hth_node_state_name(hth_node_state_of(node)), "why",
                                           hth_json_string(hth_node_why(node))));
    if (is_new && hth_node_state_of(node) == HTH_NODE_DOWN)
        hth_peer_end_of(front, hth_node_name(node));
    hth_places_on_node(front->places, node);
}

static void on_leave(const hth_node *node, void *user_data)
{
    hth_front *front = user_data;

    hth_proxy_leave(front->proxy, node);
}

static const hth_buffer *own_page(void *user_data)
{
    return hth_front_fleet_page(user_data);
}

static void on_store(void *user_data)
{
    hth_front *front = user_data;

    hth_event_feed_tell_take(
        front->feed, "store",
        json_pack("{s:o, s:b, s:o}", "address", hth_json_string(hth_store_address(front->fleet.store)), "up",
                  hth_store_is_up(front->fleet.store), "why", hth_json_string(hth_store_why(front->fleet.store))));
    hth_roster_on_store(front->fleet.roster);
}

/* Where other nodes reach this one; NULL: at the address from which it reaches the store. */
static const char *published_host(const hth_fleet_options *of)
{
    static const char *const all[] = { "*", "0.0.0.0", "::", "[::]" };

    if (of->host)
        return of->host;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(of->listen.host, all[i]) == 0)
            return NULL;
    return of->listen.host;
}

static hearth_status begin_store(hth_front *front, const hth_fleet_options *of, hearth_error *err)
{
    hth_fleet *fleet = &front->fleet;
    hearth_status status = hth_store_new(&(hth_store_options){ .base = front->base,
                                                               .url = of->store,
                                                               .password_file = of->store_password_file,
                                                               .authorities = of->store_authorities,
                                                               .log = &front->log,
                                                               .on_change = on_store,
                                                               .user_data = front },
                                         &fleet->store, err);

    (void)snprintf(fleet->id, sizeof(fleet->id), "%s",
                   of->id ? of->id : hth_fleet_pem_fleet(fleet->pem)); /* a beginning */
    if (status == HEARTH_OK)
        status = hth_roster_new(&(hth_roster_options){ .base = front->base,
                                                       .store = fleet->store,
                                                       .nodes = fleet->nodes,
                                                       .fleet = fleet->id,
                                                       .name = fleet->name,
                                                       .epoch = fleet->epoch,
                                                       .host = published_host(of),
                                                       .port = fleet->port,
                                                       .log = &front->log,
                                                       .page = own_page,
                                                       .user_data = front },
                                &fleet->roster, err);
    if (status == HEARTH_OK)
        status = hth_shared_limits_new(&(hth_shared_limits_options){ .base = front->base,
                                                                     .store = fleet->store,
                                                                     .nodes = fleet->nodes,
                                                                     .keys = front->keys,
                                                                     .fleet = fleet->id,
                                                                     .name = fleet->name,
                                                                     .log = &front->log },
                                       &fleet->limits, err);
    return status;
}

hearth_status hth_front_fleet_begin(hth_front *front, const hth_server_options *options, hearth_error *err)
{
    const hth_fleet_options *of = &options->fleet;
    hearth_status status = HEARTH_OK;

    if (of->file)
        status = hth_nodes_new(&(hth_nodes_options){ .base = front->base,
                                                     .upstream = front->upstream,
                                                     .addresses = of->peers,
                                                     .n = of->n_peers,
                                                     .name = front->fleet.name,
                                                     .epoch = front->fleet.epoch,
                                                     .log = &front->log,
                                                     .on_look = on_look,
                                                     .user_data = front },
                               &front->fleet.nodes, err);
    if (status == HEARTH_OK && of->file && of->store)
        status = begin_store(front, of, err);
    if (status == HEARTH_OK)
        status = hth_places_new(&(hth_places_options){ .base = front->base,
                                                       .supervisor = front->supervisor,
                                                       .nodes = front->fleet.nodes,
                                                       .name = front->fleet.name,
                                                       .policy = of->policy,
                                                       .wait_timeout_ms = options->relay.wait_timeout_ms,
                                                       .on_leave = on_leave,
                                                       .user_data = front },
                                &front->places, err);
    return status;
}

void hth_front_fleet_start(hth_front *front)
{
    if (front->fleet.nodes)
        hth_nodes_begin(front->fleet.nodes);
    if (front->fleet.store)
        hth_store_begin(front->fleet.store);
}

void hth_front_fleet_end(hth_front *front)
{
    hth_shared_limits_free(front->fleet.limits);
    hth_roster_free(front->fleet.roster);
    hth_store_free(front->fleet.store);
    hth_places_free(front->places);
    hth_nodes_free(front->fleet.nodes);
    hth_buffer_deinit(&front->fleet.page);
}
