#include "front/places.h"

#include <event2/event.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/draw.h"
#include "base/os.h"
#include "base/status.h"

enum {
    LOOK_MS = 250,      /* between two looks at seekers that wait */
    REPLY_TOKENS = 200, /* that a reply is expected to have */
    PULL_TOKENS = 256,  /* rows of fewer tokens are not worth asking for: a block */
};

struct hth_places {
    hth_places_options options;
    hth_place_seeker *waiting; /* the longest wait first */
    struct event *look;        /* pending while one waits */
    uint64_t own_id;
    uint64_t own_holder;
    uint64_t n_found; /* places that were given out */
    bool is_draining;
};

static size_t n_nodes(const hth_places *places)
{
    return places->options.nodes ? hth_nodes_n(places->options.nodes) : 0;
}

/* ---- the places of a model ---- */

static bool has_adapter(const hth_node_model *model, const char *adapter)
{
    for (size_t i = 0; i < model->n_adapters; i++)
        if (strcmp(model->adapters[i], adapter) == 0)
            return true;
    return false;
}

/*
 * May the request go to a model with this digest ("": unknown)? Two models of one name are one model unless their
 * digests differ. A request that had a place goes on only where the digest is known to be the same.
 */
static bool is_same_model(const hth_place_seeker *seeker, const char *here, const char *digest)
{
    if (seeker->digest[0])
        return strcmp(seeker->digest, digest) == 0;
    return !*here || !*digest || strcmp(here, digest) == 0;
}

/* Would a reply that has begun come out there as at its place? */
static bool has_same_bits(const hth_places *places, const hth_place_seeker *seeker, const char *keyspace)
{
    return !places->options.same_bits || !seeker->outlasts_breaks || !seeker->keyspace[0] ||
           strcmp(seeker->keyspace, keyspace) == 0;
}

static void add_place(hth_place_list *list, hth_node *node, uint64_t holder, const char *keyspace,
                      const hth_route_place *place)
{
    list->nodes[list->n_all] = node;
    list->holders[list->n_all] = holder;
    (void)snprintf(list->keyspaces[list->n_all], sizeof(list->keyspaces[0]), "%s", keyspace); /* a longer one is none */
    list->places[list->n_all++] = *place;
}

/* Add the nodes that can take the request. here: the digest of the model here; "": unknown, or it is not here. */
static void add_nodes(const hth_places *places, const hth_place_seeker *seeker, const char *here, hth_place_list *list)
{
    for (size_t i = 0; i < n_nodes(places); i++) {
        hth_node *node = hth_nodes_at(places->options.nodes, i);
        const hth_node_model *has = hth_node_takes(node, seeker->model) ? hth_node_model_of(node, seeker->model) : NULL;

        if (has && (!seeker->adapter || has_adapter(has, seeker->adapter)) &&
            is_same_model(seeker, here, has->digest) && has_same_bits(places, seeker, has->keyspace))
            add_place(list, node, hth_node_holder(node), has->keyspace,
                      &(hth_route_place){ .id = hth_node_id(node),
                                          .n_load = hth_node_load(node, seeker->model),
                                          .n_parallel = has->n_parallel,
                                          .is_ready = has->is_ready,
                                          .n_prompt_left = hth_node_prompt_left(node, seeker->model),
                                          .prompt_token_ns = has->prompt_token_ns,
                                          .reply_token_ns = has->reply_token_ns,
                                          .load_ms = has->load_ms,
                                          .pull_token_ns = has->pull_token_ns });
    }
    list->n = list->n_all;
}

static bool is_listed(const hth_place_list *list, const hth_node *node)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->nodes[i] == node)
            return true;
    return false;
}

/* Add the places whose rows others may fetch although they cannot take the request. */
static void add_sources(const hth_places *places, const hth_place_seeker *seeker, const hth_worker_load *own,
                        hth_place_list *list)
{
    static const hth_route_place none = { .id = 0 };

    for (size_t i = 0; i < n_nodes(places); i++) {
        const hth_node_state state = hth_node_state_of(hth_nodes_at(places->options.nodes, i));
        hth_node *node = hth_nodes_at(places->options.nodes, i);
        const hth_node_model *has = hth_node_knows(node, seeker->model);

        if (has && *has->keyspace && (state == HTH_NODE_UP || state == HTH_NODE_DRAINING) && !is_listed(list, node))
            add_place(list, node, hth_node_holder(node), has->keyspace, &none);
    }
    if (own->keyspace[0] && !is_listed(list, NULL))
        add_place(list, NULL, places->own_holder, own->keyspace, &none);
}

/* All places that could take a request of this seeker. after: the place that it lost; NULL: none. */
static void list_places(const hth_places *places, const hth_place_seeker *seeker, const hth_place *after,
                        hth_place_list *list)
{
    hth_worker_load load = { .digest = "" };
    bool is_here;

    list->n = list->n_all = 0;
    is_here = !seeker->is_elsewhere && hth_supervisor_load_of(places->options.supervisor, seeker->model, &load);
    if (!is_here || !seeker->is_local)
        add_nodes(places, seeker, load.digest, list);
    if (is_here && !seeker->was_local && is_same_model(seeker, "", load.digest) &&
        has_same_bits(places, seeker, load.keyspace) && (!places->is_draining || list->n == 0)) {
        add_place(list, NULL, places->own_holder, load.keyspace,
                  &(hth_route_place){ .id = places->own_id,
                                      .n_load = load.n_at_work + load.n_waiting,
                                      .n_parallel = load.n_parallel,
                                      .is_ready = load.is_ready &&
                                                  !(after && !after->node && after->generation == load.generation),
                                      .n_prompt_left = load.n_prompt_left,
                                      .prompt_token_ns = load.prompt_token_ns,
                                      .reply_token_ns = load.reply_token_ns,
                                      .load_ms = load.load_ms,
                                      .pull_token_ns = load.pull_token_ns });
        list->n++;
    }
    if (places->options.credit && seeker->n_anchors > 0)
        add_sources(places, seeker, &load, list);
}

/* Has any node the model, as far as it was ever told? */
static bool is_known(const hth_places *places, const char *model)
{
    for (size_t i = 0; i < n_nodes(places); i++)
        if (hth_node_had(hth_nodes_at(places->options.nodes, i), model))
            return true;
    return false;
}

/* ---- seeking ---- */

static hth_place_seeker *seeker_of(hth_worker_waiter *waiter)
{
    return (hth_place_seeker *)((char *)waiter - offsetof(hth_place_seeker, waiter));
}

static hearth_status seek(hth_place_seeker *seeker, const hth_place *after, hearth_error *err);

static void on_own_ready(hth_worker_waiter *waiter, const char *socket_path, uint64_t generation)
{
    hth_place_seeker *seeker = seeker_of(waiter);

    seeker->place = (hth_place){ .generation = generation,
                                 .n_deaths = hth_supervisor_n_deaths(seeker->places->options.supervisor, seeker->model),
                                 .socket_path = socket_path };
    seeker->on_found(seeker, &seeker->place);
}

static void on_own_failed(hth_worker_waiter *waiter, const hearth_error *err)
{
    hth_place_seeker *seeker = seeker_of(waiter);
    hearth_error other;

    seeker->was_local = true;
    if (n_nodes(seeker->places) == 0 || seeker->is_local || err->status == HEARTH_NOT_FOUND ||
        seek(seeker, NULL, &other) != HEARTH_OK)
        seeker->on_failed(seeker, err);
}

static hearth_status seek_here(hth_place_seeker *seeker, const hth_place *after, hearth_error *err)
{
    seeker->waiter = (hth_worker_waiter){ .on_ready = on_own_ready,
                                          .on_failed = on_own_failed,
                                          .since_ns = seeker->since_ns,
                                          .outlasts_breaks = seeker->outlasts_breaks };
    return hth_supervisor_want(seeker->places->options.supervisor, seeker->model,
                               after && !after->node ? after->generation : 0, &seeker->waiter, err);
}

static void find_node(hth_place_seeker *seeker, hth_node *node, uint32_t n_missing)
{
    seeker->place = (hth_place){ .node = node, .generation = hth_node_generation(node) };
    seeker->has_ended = false;
    seeker->is_trial = hth_node_note_sent(node, seeker->model, n_missing);
    seeker->on_found(seeker, &seeker->place);
}

static void leave_waiting(hth_place_seeker *seeker)
{
    if (seeker->waits)
        DL_DELETE(seeker->places->waiting, seeker);
    seeker->waits = false;
}

static void look_later(hth_places *places)
{
    static const struct timeval look = { .tv_usec = (suseconds_t)LOOK_MS * 1000 };

    (void)event_add(places->look, &look); /* without memory, the next change of a node looks */
}

/* No place can take it now. */
static void wait_for_any(hth_place_seeker *seeker)
{
    hth_places *places = seeker->places;

    DL_APPEND(places->waiting, seeker);
    seeker->waits = true;
    if (!event_pending(places->look, EV_TIMEOUT, NULL))
        look_later(places);
}

/* The place that has most of the prompt, and more than place i, in rows that place i can use; list->n_all: none has. */
static size_t source_for(const hth_place_list *list, size_t i)
{
    size_t best = list->n_all;
    uint32_t n_most = list->places[i].n_cached;

    for (size_t k = 0; k < list->n_all; k++)
        if (list->places[k].n_cached > n_most && list->keyspaces[i][0] &&
            strcmp(list->keyspaces[k], list->keyspaces[i]) == 0) {
            best = k;
            n_most = list->places[k].n_cached;
        }
    return n_most >= list->places[i].n_cached + PULL_TOKENS ? best : list->n_all;
}

/* Which place of the list, which is not empty. Fills what the places have of the prompt. */
static size_t choose(hth_places *places, const hth_place_seeker *seeker, hth_place_list *list,
                     hth_route_question *question)
{
    uint32_t n_cached[HTH_PLACES_MAX];
    hth_credit_answer answer;

    *question = (hth_route_question){ .policy = places->options.policy,
                                      .beginning = seeker->beginning,
                                      .draw = hth_draw_seed(),
                                      .turn = places->n_found,
                                      .n_reply = REPLY_TOKENS };
    if (places->options.credit) {
        answer = hth_credit_ask(places->options.credit, list->holders, list->n_all, seeker->anchors, seeker->n_anchors,
                                n_cached);
        question->n_prompt = answer.n_prompt;
        question->n_popular = answer.n_popular;
        for (size_t i = 0; i < list->n_all; i++)
            list->places[i].n_cached = n_cached[i];
        for (size_t i = 0; i < list->n; i++) {
            const size_t source = source_for(list, i);

            list->places[i].n_elsewhere = source < list->n_all ? list->places[source].n_cached : 0;
        }
    }
    return hth_route_choose(question, list->places, list->n);
}

size_t hth_places_choose(hth_places *places, const hth_place_seeker *seeker, hth_place_list *list,
                         hth_route_question *question)
{
    question->policy = places->options.policy;
    list_places(places, seeker, NULL, list);
    return list->n > 0 ? choose(places, seeker, list, question) : 0;
}

/* The node from which place i of the list may get rows of the prompt. */
static void note_source(hth_place_seeker *seeker, const hth_place_list *list, size_t i)
{
    const size_t source = source_for(list, i);
    const char *name = source == list->n_all ? ""
                     : list->nodes[source]   ? hth_node_name(list->nodes[source])
                                             : seeker->places->options.name;

    (void)snprintf(seeker->rows_node, sizeof(seeker->rows_node), "%s", name); /* a longer one is no name */
}

/* Take a place, or wait. HEARTH_NOT_FOUND: there is none, and none to wait for. */
static hearth_status seek(hth_place_seeker *seeker, const hth_place *after, hearth_error *err)
{
    hth_places *places = seeker->places;
    hth_route_question question;
    hth_place_list list;
    size_t i;

    if (n_nodes(places) == 0)
        return seek_here(seeker, after, err);
    list_places(places, seeker, after, &list);
    if (list.n == 0 && (seeker->was_local || !is_known(places, seeker->model)))
        return hth_fail(err, HEARTH_NOT_FOUND, "no node of the fleet has the model '%s'", seeker->model);
    if (list.n == 0) {
        wait_for_any(seeker);
        return HEARTH_OK;
    }
    i = choose(places, seeker, &list, &question);
    places->n_found++;
    seeker->holder = list.holders[i];
    seeker->n_predicted = list.places[i].n_cached;
    note_source(seeker, &list, i);
    if (places->options.credit)
        hth_credit_note(places->options.credit, seeker->holder, seeker->anchors, seeker->n_anchors, 0);
    if (!list.nodes[i])
        return seek_here(seeker, after, err);
    find_node(seeker, list.nodes[i],
              question.n_prompt > seeker->n_predicted ? question.n_prompt - seeker->n_predicted : 0);
    return HEARTH_OK;
}

void hth_place_seeker_note_model(hth_place_seeker *seeker)
{
    const hth_node_model *has = seeker->place.node ? hth_node_knows(seeker->place.node, seeker->model) : NULL;
    hth_worker_load load = { .digest = "" };
    const char *digest = has ? has->digest : load.digest, *keyspace = has ? has->keyspace : load.keyspace;

    if (!seeker->place.node)
        (void)hth_supervisor_load_of(seeker->places->options.supervisor, seeker->model, &load);
    if (*digest)
        (void)snprintf(seeker->digest, sizeof(seeker->digest), "%s", digest); /* a longer one is no digest */
    if (*keyspace)
        (void)snprintf(seeker->keyspace, sizeof(seeker->keyspace), "%s", keyspace); /* likewise */
}

/* The wait for the next place begins anew, unless the node of this one had none after all. */
static void give_up_place(hth_place_seeker *seeker)
{
    if (seeker->place.generation == 0)
        return;
    if (n_nodes(seeker->places) > 0)
        hth_place_seeker_note_model(seeker);
    if (!seeker->was_refused) {
        seeker->until_ns = 0;
        seeker->n_refusals = 0;
    }
    seeker->was_refused = false;
    hth_places_note_end(seeker, HTH_NODE_END_OTHER);
    seeker->place = (hth_place){ .generation = 0 };
}

hearth_status hth_places_want(hth_places *places, const char *model, const hth_place *after, hth_place_seeker *seeker,
                              hearth_error *err)
{
    const hth_place lost = after ? *after : (hth_place){ .generation = 0 }; /* after may be the seeker's own */

    hth_place_seeker_cancel(seeker);
    seeker->places = places;
    seeker->model = model;
    seeker->was_local = false;
    if (seeker->n_refusals > 2 * n_nodes(places) + 2)
        return hth_fail(err, HEARTH_BUSY, "no node can take a request for the model '%s': %s", model, seeker->refusal);
    if (seeker->until_ns == 0)
        seeker->until_ns = hth_os_monotonic_ns() + hth_ms_to_ns(places->options.wait_timeout_ms);
    return seek(seeker, after ? &lost : NULL, err);
}

void hth_place_seeker_cancel(hth_place_seeker *seeker)
{
    if (!seeker->places)
        return;
    leave_waiting(seeker);
    hth_worker_waiter_cancel(&seeker->waiter);
    give_up_place(seeker);
}

/* ---- those that wait ---- */

static void fail_late(hth_place_seeker *seeker)
{
    hearth_error err;

    (void)hth_fail(&err, HEARTH_TIMED_OUT, "no node that has the model '%s' took the request in time%s%s",
                   seeker->model, seeker->refusal[0] ? "; the last answer: " : "", seeker->refusal);
    seeker->on_failed(seeker, &err);
}

/* The one whose wait ends first. */
static hth_place_seeker *oldest(const hth_places *places)
{
    hth_place_seeker *seeker, *first = places->waiting;

    DL_FOREACH(places->waiting, seeker)
    {
        if (seeker->until_ns < first->until_ns)
            first = seeker;
    }
    return first;
}

/* Each that waits now looks for a place again; those that find none wait in their order. */
static void look_again(hth_places *places)
{
    hth_place_seeker *seeker;
    size_t n;

    DL_COUNT(places->waiting, seeker, n);
    for (; n > 0 && (seeker = places->waiting) != NULL; n--) {
        hearth_error err;

        leave_waiting(seeker);
        if (seek(seeker, NULL, &err) != HEARTH_OK)
            seeker->on_failed(seeker, &err);
    }
    while (places->waiting && hth_os_monotonic_ns() >= (seeker = oldest(places))->until_ns) {
        leave_waiting(seeker);
        fail_late(seeker);
    }
}

static void on_look(evutil_socket_t fd, short what, void *user_data)
{
    hth_places *places = user_data;

    (void)fd;
    (void)what;
    look_again(places);
    if (places->waiting)
        look_later(places);
}

void hth_places_on_node(hth_places *places, hth_node *node)
{
    if (hth_node_state_of(node) == HTH_NODE_DRAINING || hth_node_state_of(node) == HTH_NODE_DOWN)
        places->options.on_leave(node, places->options.user_data);
    if (places->options.credit && hth_node_state_of(node) == HTH_NODE_UP)
        hth_credit_add_holder(places->options.credit, hth_node_holder(node));
    look_again(places);
}

/* ---- what happens at a place ---- */

void hth_places_note_end(hth_place_seeker *seeker, hth_node_end end)
{
    const hth_place *place = &seeker->place;

    if (place->generation == 0)
        return;
    if (place->node && !seeker->has_ended)
        hth_node_note_end(place->node, seeker->model, end, seeker->is_trial);
    else if (!place->node && end == HTH_NODE_END_BROKEN)
        hth_supervisor_note_broken(seeker->places->options.supervisor, seeker->model, place->generation);
    seeker->has_ended = place->node != NULL;
}

void hth_places_note_refused(hth_place_seeker *seeker, const char *why)
{
    seeker->n_refusals++;
    seeker->was_refused = true;
    (void)snprintf(seeker->refusal, sizeof(seeker->refusal), "%s", why); /* cut: for people */
    hth_end_at_character(seeker->refusal, sizeof(seeker->refusal));
    hth_places_note_end(seeker, HTH_NODE_END_FULL);
}

void hth_places_note_served(hth_place_seeker *seeker)
{
    const hth_place *place = &seeker->place;

    if (place->generation > 0 && place->node)
        hth_node_note_served(place->node, seeker->model);
    else if (place->generation > 0)
        hth_supervisor_note_served(seeker->places->options.supervisor, seeker->model, place->generation);
}

void hth_places_note_cached(hth_place_seeker *seeker, uint32_t n_prompt, uint32_t n_cached)
{
    hth_places *places = seeker->places;

    if (!places || !places->options.credit || seeker->holder == 0 || seeker->n_anchors == 0)
        return;
    hth_credit_learn(places->options.credit, seeker->holder,
                     seeker->n_predicted < n_prompt ? seeker->n_predicted : n_prompt, n_cached);
    hth_credit_note(places->options.credit, seeker->holder, seeker->anchors, seeker->n_anchors, n_prompt);
}

hth_place_fate hth_places_fate(hth_places *places, const char *model, const hth_place *place)
{
    hth_worker_load load;

    /* A node that lost its worker says so; otherwise the connection is gone, and nothing can be asked about it. */
    if (place->node || !hth_supervisor_load_of(places->options.supervisor, model, &load))
        return HTH_FATE_ENDED;
    return load.n_deaths > place->n_deaths                       ? HTH_FATE_DIED
         : load.generation > place->generation                   ? HTH_FATE_ENDED
         : load.is_ready && load.generation == place->generation ? HTH_FATE_WORKS
                                                                 : HTH_FATE_UNKNOWN;
}

void hth_places_last_death(hth_places *places, const char *model, char *out, size_t capacity)
{
    hth_worker_view view;

    out[0] = '\0';
    if (hth_supervisor_view_of(places->options.supervisor, model, &view))
        (void)snprintf(out, capacity, "%s", view.last_death); /* cut: for people */
}

void hth_places_tell_wait(const hth_places *places, const char *model, const hth_place *place,
                          char out[HTH_WAIT_TEXT_BYTES])
{
    const hth_node *node = place ? place->node : NULL;
    const hth_node_model *has = node ? hth_node_model_of(node, model) : NULL;

    out[0] = '\0';
    if (!node)
        hth_supervisor_tell_wait(places->options.supervisor, model, place ? place->generation : 0, out);
    else if (!has || !has->is_ready)
        (void)snprintf(out, HTH_WAIT_TEXT_BYTES, "waiting for node '%.32s'", hth_node_name(node)); /* fits */
}

hearth_status hth_places_want_loaded(hth_places *places, const char *model, hth_worker_waiter *waiter,
                                     hearth_error *err)
{
    return hth_supervisor_want_loaded(places->options.supervisor, model, waiter, err);
}

/* Does the node (NULL: this one) keep the tokens of earlier conversations with the model? */
static bool has_history(const hth_places *places, const hth_node *node, const char *model)
{
    const hth_node_model *has = node ? hth_node_knows(node, model) : NULL;
    hth_worker_load load;

    if (node)
        return has && has->has_history;
    return hth_supervisor_load_of(places->options.supervisor, model, &load) && load.has_history;
}

/* The node of this name, if it answers; NULL: none does. */
static const hth_node *node_called(const hth_places *places, const char *name)
{
    for (size_t i = 0; i < n_nodes(places); i++) {
        const hth_node *node = hth_nodes_at(places->options.nodes, i);
        const hth_node_state state = hth_node_state_of(node);

        if (strcmp(hth_node_name(node), name) == 0 && (state == HTH_NODE_UP || state == HTH_NODE_DRAINING))
            return node;
    }
    return NULL;
}

bool hth_places_knows(const hth_place_seeker *seeker, const hth_node **node_out)
{
    const hth_places *places = seeker->places;
    const bool is_here = strcmp(seeker->rows_node, places->options.name) == 0;
    const hth_node *node = is_here ? NULL : node_called(places, seeker->rows_node);

    *node_out = node;
    return seeker->rows_node[0] && (is_here || node) && has_history(places, node, seeker->model) &&
           has_history(places, seeker->place.node, seeker->model);
}

bool hth_places_has_other(const hth_place_seeker *seeker)
{
    hth_place_seeker asked = *seeker;
    hth_place_list list;

    asked.was_local = false;
    hth_place_seeker_note_model(&asked);
    list_places(seeker->places, &asked, NULL, &list);
    for (size_t i = 0; i < list.n; i++)
        if (list.nodes[i] != seeker->place.node)
            return true;
    return false;
}

/* ---- all places ---- */

hearth_status hth_places_new(const hth_places_options *options, hth_places **out, hearth_error *err)
{
    hth_places *places = calloc(1, sizeof(*places));

    if (places) {
        places->options = *options;
        places->own_id = hth_route_digest(options->name, strlen(options->name));
        places->look = event_new(options->base, -1, 0, on_look, places);
    }
    if (!places || !places->look) {
        hth_places_free(places);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the places of requests");
    }
    *out = places;
    return HEARTH_OK;
}

void hth_places_free(hth_places *places)
{
    if (!places)
        return;
    if (places->look)
        event_free(places->look);
    free(places);
}

void hth_places_set_wait_timeout(hth_places *places, uint32_t ms)
{
    places->options.wait_timeout_ms = ms;
}

/* ---- this node in the fleet ---- */

bool hth_places_has_fleet(const hth_places *places)
{
    return places->options.nodes != NULL;
}

const char *hth_places_node_name(const hth_places *places, const hth_place *place)
{
    return place->node ? hth_node_name(place->node) : places->options.name;
}

const char *hth_places_own_name(const hth_places *places)
{
    return places->options.name;
}

void hth_places_set_draining(hth_places *places, bool is_draining)
{
    const bool begins = is_draining && !places->is_draining;

    places->is_draining = is_draining;
    if (begins && n_nodes(places) > 0)
        places->options.on_leave(NULL, places->options.user_data);
}

bool hth_places_is_draining(const hth_places *places)
{
    return places->is_draining;
}

void hth_places_set_holder(hth_places *places, uint64_t holder)
{
    places->own_holder = holder;
    if (places->options.credit)
        hth_credit_add_holder(places->options.credit, holder);
}
