/*
 * front_fleet.c - the front as a node of a fleet: its file, its name, the other nodes, and what it tells them
 *
 * The page for other nodes is made anew when it is older than PAGE_MS, however many ask.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/json_values.h"
#include "api/peek.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/os.h"
#include "base/smaller.h"
#include "base/status.h"
#include "base/whole_file.h"
#include "front/front_request.h"
#include "front/ask_counts.h"
#include "front/model_names.h"
#include "wire/carrier_messages.h"

enum {
    PAGE_MS = 200,
    ANCHOR_BODY_BYTES_MAX = 2 << 20, /* a larger one would hold up the event loop */
    N_ANCHORS = 1 << 18,             /* the table takes at most 8 MiB */
};

/* ---- this node's cache, and what is known of prompts ---- */

static bool read_name(const char *path, char name[HTH_NODE_EPOCH_BYTES])
{
    const size_t n = HTH_NODE_EPOCH_BYTES - 1;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool ok = fd >= 0 && read(fd, name, n) == (ssize_t)n;

    name[n] = '\0';
    ok = ok && hth_is_hex(name, n);
    if (fd >= 0)
        (void)close(fd); /* only read from */
    return ok;
}

/* Make the file with a new name. False: there is no folder yet, it cannot be used, or another node made it just now. */
static bool make_name(const char *path, char name[HTH_NODE_EPOCH_BYTES])
{
    uint8_t drawn[(HTH_NODE_EPOCH_BYTES - 1) / 2];
    hth_whole_file *file;
    hearth_status status = hth_whole_file_begin(hth_fs_system(), path, HTH_WHOLE_FILE_NEW, &file, NULL);

    if (status != HEARTH_OK)
        return false;
    hth_os_random(drawn, sizeof(drawn));
    hth_hex_encode(drawn, sizeof(drawn), name);
    status = hth_whole_file_write(file, name, strlen(name), NULL);
    return hth_whole_file_end(file, status, NULL) == HEARTH_OK;
}

/*
 * A name of the cache that stays when the node starts anew, because it is beside the rows on the disk. It is unknown
 * until the first worker has made that folder. Without a disk it is the epoch.
 */
static void name_cache(hth_front *front)
{
    hth_fleet *fleet = &front->fleet;
    const char *learned = front->options->options->learned_path, *slash = learned ? strrchr(learned, '/') : NULL;
    char path[PATH_MAX], name[HTH_NODE_EPOCH_BYTES], text[HTH_NODE_NAME_BYTES + HTH_NODE_EPOCH_BYTES];
    uint8_t digest[HTH_SHA256_BYTES];

    if (fleet->has_cache)
        return;
    fleet->has_cache = slash &&
                       snprintf(path, sizeof(path), "%.*s/name", (int)(slash - learned), learned) < (int)sizeof(path) &&
                       (read_name(path, name) || make_name(path, name));
    if (fleet->has_cache) { /* several nodes may share the folder, and each has rows in its memory, too */
        (void)snprintf(text, sizeof(text), "%s %s", name, fleet->name); /* fits */
        hth_sha256_of(text, strlen(text), digest);
        hth_hex_encode(digest, (sizeof(fleet->cache) - 1) / 2, fleet->cache);
    } else if (!slash) {
        memcpy(fleet->cache, fleet->epoch, sizeof(fleet->cache));
        fleet->has_cache = true;
    }
    if (fleet->has_cache)
        hth_places_set_holder(front->places, hth_route_digest(fleet->cache, strlen(fleet->cache)));
}

size_t hth_front_fleet_anchors(const hth_front *front, const hth_route *route, const char *model, const char *adapter,
                               const char *salt, const char *body, size_t n, hth_anchor *out)
{
    hth_buffer scope = { .text = NULL };
    size_t n_out = 0;

    if (!front->fleet.credit || n == 0 || n > ANCHOR_BODY_BYTES_MAX)
        return 0;
    hth_buffer_add(&scope, (const char *)front->fleet.secret, sizeof(front->fleet.secret));
    hth_buffer_add_format(&scope, "%d", (int)route->api);
    hth_buffer_add(&scope, model, strlen(model) + 1);
    hth_buffer_add(&scope, adapter ? adapter : "", adapter ? strlen(adapter) + 1 : 1);
    hth_buffer_add(&scope, salt ? salt : "", salt ? strlen(salt) + 1 : 1);
    if (!scope.failed)
        n_out = hth_api_anchors(scope.text, scope.n, body, n, out);
    if (scope.text)
        hth_wipe(scope.text, scope.n);
    hth_buffer_deinit(&scope);
    return n_out;
}

/* Of all texts up to the first message of the user. */
uint64_t hth_front_beginning_of(const char *body, size_t n)
{
    hth_api_span spans[HTH_API_PEEK_SPANS_MAX];
    uint8_t digests[HTH_API_PEEK_SPANS_MAX * sizeof(uint64_t)];
    const size_t n_spans = hth_api_peek_beginning(body, n, spans);

    for (size_t i = 0; i < n_spans; i++)
        hth_put_u64(digests + i * sizeof(uint64_t), hth_route_digest(spans[i].at, spans[i].n));
    return n_spans > 0 ? hth_route_digest(digests, n_spans * sizeof(uint64_t)) : 0;
}

/* ---- the page for other nodes ---- */

/* A model of the page, with room for its digests and the names of its adapters. */
typedef struct own_model {
    char digest[HTH_WORKER_DIGEST_BYTES];
    char keyspace[HTH_WORKER_KEYSPACE_BYTES];
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
    memcpy(own->keyspace, load.keyspace, sizeof(own->keyspace));
    *out = (hth_node_model){ .name = model->name,
                             .aliases = model->aliases,
                             .n_aliases = model->n_aliases,
                             .adapters = own->adapters,
                             .n_adapters = n,
                             .digest = own->digest,
                             .keyspace = own->keyspace,
                             .is_ready = load.is_ready,
                             .is_broken = load.is_broken,
                             .has_history = load.has_history,
                             .n_at_work = load.n_at_work,
                             .n_waiting = load.n_waiting,
                             .n_parallel = load.n_parallel,
                             .n_prompt_left = (uint32_t)hth_smaller(load.n_prompt_left, UINT32_MAX),
                             .prompt_token_ns = (uint32_t)hth_smaller(load.prompt_token_ns, UINT32_MAX),
                             .reply_token_ns = (uint32_t)hth_smaller(load.reply_token_ns, UINT32_MAX),
                             .load_ms = load.load_ms,
                             .pull_token_ns = load.pull_token_ns };
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
    name_cache(front);
    (void)snprintf(page.cache, sizeof(page.cache), "%s", front->fleet.cache);
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

void hth_front_fleet_metrics(const void *user_data, hth_buffer *out)
{
    const hth_front *front = user_data;

    if (!front->fleet.nodes)
        return;
    hth_nodes_write_metrics(front->fleet.nodes, out);
    hth_ask_counts_write_metrics(hth_proxy_n_asks(front->proxy), out);
    if (front->fleet.credit)
        hth_credit_write_metrics(front->fleet.credit, out);
    if (front->fleet.roster)
        hth_roster_write_metrics(front->fleet.roster, out);
    if (front->fleet.journals)
        hth_journals_write_metrics(front->fleet.journals, out);
    if (hth_supervisor_carrier(front->supervisor))
        hth_carrier_link_write_metrics(hth_supervisor_carrier(front->supervisor), out);
}

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

/* ---- why a node takes a request ---- */

static json_t *place_json(const hth_front *front, const hth_place_list *list, const hth_route_question *question,
                          size_t i, bool is_chosen)
{
    const hth_route_place *place = &list->places[i];
    const hth_route_time time = hth_route_time_of(question, list->places, list->n, i);

    return json_pack("{s:o, s:b, s:b, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "node",
                     hth_json_string(list->nodes[i] ? hth_node_name(list->nodes[i]) : front->fleet.name), "chosen",
                     is_chosen, "ready", place->is_ready, "load", (json_int_t)place->n_load, "parallel",
                     (json_int_t)place->n_parallel, "cached_tokens", (json_int_t)place->n_cached, "elsewhere_tokens",
                     (json_int_t)place->n_elsewhere, "load_s", time.load_s, "wait_s", time.wait_s, "prompt_s",
                     time.prompt_s, "pull_s", time.pull_s, "cost_s", time.cost_s);
}

json_t *hth_front_fleet_why(const char *endpoint, const char *body, size_t n, void *user_data, hearth_error *err)
{
    hth_front *front = user_data;
    const hth_route *route = hth_route_find(endpoint);
    hth_anchor anchors[HTH_ANCHORS_MAX];
    hth_api_peeked peeked;
    hth_place_seeker seeker = { .anchors = anchors };
    hth_route_question question = { .n_prompt = 0 };
    hth_place_list list;
    json_t *places;
    size_t chosen;
    bool is_adapter = false;
    const hth_server_model *own;

    if (!front->fleet.nodes) {
        (void)hth_fail(err, HEARTH_UNSUPPORTED, "this server is no node of a fleet (fleet.file, --fleet)");
        return NULL;
    }
    if (!route || route->kind != HTH_ROUTE_GENERATE || !hth_api_peek(body, n, &peeked)) {
        (void)hth_fail(err, HEARTH_MISUSE, "it needs an endpoint that generates ('/v1/chat/completions'), and a body");
        return NULL;
    }
    own = hth_model_called(front->options->options, peeked.model, NULL);
    seeker.model = own ? own->name : hth_front_fleet_model(front, peeked.model, false, &is_adapter);
    if (!seeker.model) {
        (void)hth_fail(err, HEARTH_NOT_FOUND, "no node has a model of the name '%.100s'", peeked.model);
        return NULL;
    }
    seeker.is_elsewhere = !own;
    is_adapter =
        is_adapter || (own && strcmp(own->name, peeked.model) != 0 && hth_model_has_adapter(own, peeked.model, NULL));
    seeker.adapter = is_adapter ? peeked.model : NULL;
    seeker.beginning = hth_front_beginning_of(body, n);
    seeker.n_anchors = hth_front_fleet_anchors(front, route, seeker.model, seeker.adapter, NULL, body, n, anchors);
    chosen = hth_places_choose(front->places, &seeker, &list, &question);
    places = json_array();
    for (size_t i = 0; i < list.n; i++)
        (void)json_array_append_new(places, place_json(front, &list, &question, i, i == chosen)); /* or left out */
    return json_pack("{s:o, s:s, s:I, s:I, s:o}", "model", hth_json_string(seeker.model), "policy",
                     hth_route_policy_names[question.policy], "prompt_tokens", (json_int_t)question.n_prompt,
                     "popular_tokens", (json_int_t)question.n_popular, "places", places);
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

/* A connection for rows, of another node's carrier. */
static void serve_rows_take(int fd, void *user_data)
{
    const hth_front *front = user_data;
    hth_carrier_link *carrier = front->supervisor ? hth_supervisor_carrier(front->supervisor) : NULL;

    if (carrier)
        hth_carrier_link_serve_take(carrier, fd);
    else
        (void)close(fd); /* nothing was written to it */
}

hearth_status hth_front_fleet_listen(hth_front *front, hearth_error *err)
{
    return hth_http_server_set_other(front->http, HTH_FRONT_FLEET, (uint8_t)HTH_CARRIER_PREAMBLE[0], serve_rows_take,
                                     front, err);
}

static void on_look(hth_node *node, bool is_new, void *user_data)
{
    hth_front *front = user_data;
    hth_carrier_link *carrier = hth_supervisor_carrier(front->supervisor);
    const bool has_rows = hth_node_state_of(node) == HTH_NODE_UP || hth_node_state_of(node) == HTH_NODE_DRAINING;

    if (is_new)
        hth_event_feed_tell_take(front->feed, "node",
                                 json_pack("{s:o, s:s, s:s, s:o}", "name", hth_json_string(hth_node_name(node)),
                                           "address", hth_node_address(node), "state",
                                           hth_node_state_name(hth_node_state_of(node)), "why",
                                           hth_json_string(hth_node_why(node))));
    if (is_new && hth_node_state_of(node) == HTH_NODE_DOWN)
        hth_peer_end_of(front, hth_node_name(node));
    if (carrier && has_rows)
        hth_carrier_link_note_node(carrier, hth_node_name(node), hth_node_address(node));
    else if (carrier && is_new)
        hth_carrier_link_forget_node(carrier, hth_node_address(node));
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
    if (status == HEARTH_OK && fleet->credit && fleet->shares_secret)
        status = hth_credit_feed_new(&(hth_credit_feed_options){ .base = front->base,
                                                                 .store = fleet->store,
                                                                 .credit = fleet->credit,
                                                                 .fleet = fleet->id,
                                                                 .epoch = fleet->epoch,
                                                                 .log = &front->log },
                                     &fleet->feed, err);
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
    if (status == HEARTH_OK && of->file)
        front->fleet.shares_secret = hth_fleet_pem_secret(front->fleet.pem, front->fleet.secret);
    if (status == HEARTH_OK && of->file && of->policy == HTH_ROUTE_BY_TIME)
        status = hth_credit_new(N_ANCHORS, &front->fleet.credit, err);
    if (status == HEARTH_OK && of->file && of->store)
        status = begin_store(front, of, err);
    if (status == HEARTH_OK)
        status = hth_places_new(&(hth_places_options){ .base = front->base,
                                                       .supervisor = front->supervisor,
                                                       .nodes = front->fleet.nodes,
                                                       .name = front->fleet.name,
                                                       .credit = front->fleet.credit,
                                                       .policy = of->policy,
                                                       .wait_timeout_ms = options->relay.wait_timeout_ms,
                                                       .same_bits = of->same_bits,
                                                       .on_leave = on_leave,
                                                       .user_data = front },
                                &front->places, err);
    if (status == HEARTH_OK)
        name_cache(front);
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
    hth_credit_feed_free(front->fleet.feed);
    hth_shared_limits_free(front->fleet.limits);
    hth_roster_free(front->fleet.roster);
    hth_store_free(front->fleet.store);
    hth_places_free(front->places);
    hth_credit_free(front->fleet.credit);
    hth_nodes_free(front->fleet.nodes);
    hth_buffer_deinit(&front->fleet.page);
}
