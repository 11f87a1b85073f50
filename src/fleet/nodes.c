#include "fleet/nodes.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/os.h"
#include "base/status.h"
#include "fleet/route.h"
#include "wire/exposition.h"

enum {
    ASK_MS = 1000,    /* between two questions */
    ANSWER_MS = 2000, /* for an answer; then its replies move */
    ORDER_MS = 5000,
    FRESH_MS = 1600, /* a node whose page in the store is not older is not asked; it makes one every half second */
    GONE_MS = 60000, /* a node of the store that is down for so long leaves the list */
    WHY_BYTES = 512,
};

/* What is known of a model of a node besides its page; kept while requests are there, or some have failed. */
typedef struct node_slot {
    struct node_slot *next;
    hth_breaker breaker;
    uint32_t n_in_flight;
    uint32_t n_sent;     /* since the page */
    uint32_t n_sent_old; /* since the page before, if both came by the store: the last one may not count them */
    uint64_t n_missing, n_missing_old; /* likewise: tokens that these have it compute */
    bool is_doubted;                   /* a place there was lost since the page: the model counts as absent */
    char model[];
} node_slot;

struct hth_node {
    hth_nodes *nodes;
    char *address;
    bool is_listed; /* by the operator; others came by the store */
    bool is_stored; /* its last page came by the store */
    bool is_cut;    /* the last question to this process failed: what the store has does not make it answer */
    hth_node_state state;
    hth_node_page page;
    bool is_doubted;          /* a connection broke since the page */
    bool asks_again;          /* as soon as the question on its way has ended */
    uint64_t page_ns;         /* when the page was made, as far as it is known; 0: never */
    uint64_t doubted_ns;      /* when it last failed: pages that were made before do not count */
    uint64_t generation;      /* of its process */
    hth_upstream_call *call;  /* asks for its page */
    hth_upstream_call *order; /* on its way */
    int order_status;
    hth_buffer answer;
    int status;                     /* of the answer */
    uint64_t n_ends[HTH_NODE_ENDS]; /* of requests of this node */
    node_slot *slots;
    char why[WHY_BYTES];
};

struct hth_nodes {
    hth_nodes_options options;
    struct event *timer;
    char name[HTH_NODE_NAME_BYTES];
    char epoch[HTH_NODE_EPOCH_BYTES];
    uint64_t n_generations;
    size_t n;
    hth_node *all[HTH_NODES_MAX];
    hth_node *gone[HTH_NODES_MAX]; /* [n_gone]: for new ones, because requests may still name them */
    size_t n_gone;
    bool is_full; /* it was said */
};

const char *hth_node_state_name(hth_node_state state)
{
    static const char *const names[] = {
        [HTH_NODE_UNKNOWN] = "unknown", [HTH_NODE_UP] = "up",           [HTH_NODE_DRAINING] = "draining",
        [HTH_NODE_DOWN] = "down",       [HTH_NODE_STRANGE] = "strange", [HTH_NODE_SELF] = "self"
    };

    return names[state];
}

/* ---- what happened to requests ---- */

static node_slot *slot_of(const hth_node *node, const char *model)
{
    node_slot *slot;

    LL_FOREACH(node->slots, slot)
    {
        if (strcmp(slot->model, model) == 0)
            return slot;
    }
    return NULL;
}

/* NULL without memory. */
static node_slot *slot_made(hth_node *node, const char *model)
{
    const size_t n = strlen(model) + 1;
    node_slot *slot = slot_of(node, model);

    if (slot)
        return slot;
    slot = calloc(1, sizeof(*slot) + n);
    if (!slot)
        return NULL;
    memcpy(slot->model, model, n);
    LL_PREPEND(node->slots, slot);
    return slot;
}

/* A new page is here: forget what it tells better. One of the store may be older than what was sent just before. */
static void renew_slots(hth_node *node)
{
    node_slot *slot, *next;

    LL_FOREACH_SAFE(node->slots, slot, next)
    {
        slot->n_sent_old = node->is_stored ? slot->n_sent : 0;
        slot->n_sent = 0;
        slot->n_missing_old = slot->n_missing; /* a worker tells its numbers a little later */
        slot->n_missing = 0;
        slot->is_doubted = false;
        if (slot->n_in_flight > 0 || slot->breaker.n_failures > 0)
            continue;
        LL_DELETE(node->slots, slot); /* NOLINT(clang-analyzer-unix.Malloc): freed ones have left the list */
        free(slot);
    }
}

/* ---- asking ---- */

static void ask(hth_node *node);

static bool answers(const hth_node *node)
{
    return node->state == HTH_NODE_UP || node->state == HTH_NODE_DRAINING;
}

/* why: "" or the reason of the state. Tells the change, or that the page is new. */
static void set_state(hth_node *node, hth_node_state state, const char *why)
{
    const hth_nodes *nodes = node->nodes;
    const bool is_new = node->state != state, did_answer = answers(node);
    const bool is_other = is_new || strcmp(node->why, why) != 0;

    node->state = state;
    (void)snprintf(node->why, sizeof(node->why), "%s", why); /* cut: for people */
    hth_end_at_character(node->why, sizeof(node->why));
    if (state == HTH_NODE_UP && is_new)
        hth_info(nodes->options.log, "node '%s' at %s is up", hth_node_name(node), node->address);
    else if (state == HTH_NODE_DRAINING && is_new)
        hth_info(nodes->options.log, "node '%s' at %s is draining", hth_node_name(node), node->address);
    else if (state == HTH_NODE_STRANGE && is_other)
        hth_warn(nodes->options.log, "the node at %s does not belong to this fleet: %s", node->address, why);
    else if (state == HTH_NODE_DOWN && is_new)
        hth_log_line(nodes->options.log, did_answer ? HEARTH_LOG_WARNING : HEARTH_LOG_INFO, "hearth",
                     "node %s%s%s cannot be reached: %s", node->page.name, node->page.name[0] ? " at " : "",
                     node->address, why);
    nodes->options.on_look(node, is_new, nodes->options.user_data);
}

/* Is this the name of another node that answers? */
static bool is_taken(const hth_node *node, const char *name)
{
    const hth_nodes *nodes = node->nodes;

    for (size_t i = 0; i < nodes->n; i++) {
        const hth_node *other = nodes->all[i];

        if (other != node && answers(other) && strcmp(other->page.name, name) == 0 &&
            strcmp(other->page.epoch, node->page.epoch) != 0)
            return true;
    }
    return false;
}

/* An earlier entry of the list that is the same process; NULL: none. */
static const hth_node *twin_of(const hth_node *node)
{
    const hth_nodes *nodes = node->nodes;

    for (size_t i = 0; nodes->all[i] != node; i++)
        if (answers(nodes->all[i]) && strcmp(nodes->all[i]->page.epoch, node->page.epoch) == 0)
            return nodes->all[i];
    return NULL;
}

/* made_ns: the time of the page. Takes the page. */
static void take_page(hth_node *node, hth_node_page *page, uint64_t made_ns)
{
    const hth_nodes *nodes = node->nodes;
    char why[WHY_BYTES];

    if (strcmp(node->page.epoch, page->epoch) != 0) {
        node->generation = ++node->nodes->n_generations;
        node->is_cut = false;
    }
    hth_node_page_deinit(&node->page);
    node->page = *page;
    node->page_ns = made_ns;
    if (!node->asks_again) { /* otherwise it was asked before what is doubted */
        node->is_doubted = false;
        renew_slots(node);
    }
    if (strcmp(page->epoch, nodes->epoch) == 0) {
        set_state(node, HTH_NODE_SELF, "");
    } else if (twin_of(node)) {
        (void)snprintf(why, sizeof(why), "it is the node at %s, which is in the list, too",
                       twin_of(node)->address); /* cut if too long: for people */
        set_state(node, HTH_NODE_STRANGE, why);
    } else if (strcmp(page->name, nodes->name) == 0 || is_taken(node, page->name)) {
        (void)snprintf(why, sizeof(why),
                       "it has the name '%s', which %s has, too; give each its own (fleet { name = ... })", page->name,
                       strcmp(page->name, nodes->name) == 0 ? "this node" : "another node"); /* fits */
        set_state(node, HTH_NODE_STRANGE, why);
    } else if (node->is_cut) {
        memcpy(why, node->why, sizeof(why));
        set_state(node, node->state, why);
    } else {
        set_state(node, page->is_draining ? HTH_NODE_DRAINING : HTH_NODE_UP, "");
    }
}

/* The answer is here. */
static void take_answer(hth_node *node)
{
    hth_node_page page;
    hearth_error err = { .message = "" };
    char why[WHY_BYTES];

    if (node->status != 200 || node->answer.failed) {
        node->is_cut = true;
        (void)snprintf(why, sizeof(why),
                       node->answer.failed ? "its page is too long, or there is no memory for it"
                                           : "it answers with status %d",
                       node->status); /* fits */
        set_state(node, HTH_NODE_DOWN, why);
        return;
    }
    switch (hth_node_page_read(hth_buffer_text(&node->answer), node->answer.n, &page, &err)) {
    case HEARTH_OK:
        node->is_stored = false;
        node->is_cut = false;
        take_page(node, &page, hth_os_monotonic_ns());
        break;
    case HEARTH_NO_MEMORY: set_state(node, HTH_NODE_DOWN, err.message); break;
    default: set_state(node, HTH_NODE_STRANGE, err.message); break;
    }
}

static void on_head(const hth_upstream_head *head, void *user_data)
{
    hth_node *node = user_data;

    node->status = head->status;
}

static bool on_bytes(const void *bytes, size_t n, void *user_data)
{
    hth_node *node = user_data;

    if (n > HTH_NODE_PAGE_BYTES_MAX - node->answer.n)
        node->answer.failed = true;
    hth_buffer_add(&node->answer, bytes, n);
    return true;
}

static void on_done(hearth_status status, const hearth_error *err, void *user_data)
{
    hth_node *node = user_data;

    node->call = NULL;
    if (status == HEARTH_OK) {
        take_answer(node);
    } else {
        node->doubted_ns = hth_os_monotonic_ns();
        node->is_cut = true;
        set_state(node, status == HEARTH_PERMISSION ? HTH_NODE_STRANGE : HTH_NODE_DOWN, err->message);
    }
    hth_buffer_deinit(&node->answer);
    if (node->asks_again) {
        node->asks_again = false;
        ask(node);
    }
}

static void ask(hth_node *node)
{
    const hth_upstream_request request = {
        .node = node->address, .timeout_ms = ANSWER_MS, .method = "GET", .target = HTH_FLEET_PAGE_PATH
    };
    const hth_upstream_watch watch = {
        .on_head = on_head, .on_bytes = on_bytes, .on_done = on_done, .user_data = node
    };
    hearth_error err;

    if (node->call || node->state == HTH_NODE_SELF)
        return;
    node->status = 0;
    if (hth_upstream_begin(node->nodes->options.upstream, &request, &watch, &node->call, &err) != HEARTH_OK)
        node->is_doubted = true; /* no memory: it is asked again with the next tick. This may be within note_end */
}

/* As soon as possible: what is known of the node is doubted. */
static void ask_anew(hth_node *node)
{
    if (node->call)
        node->asks_again = true; /* the question on its way may be answered from before */
    else
        ask(node);
}

static bool is_younger(const hth_node *node, uint64_t ms)
{
    return node->page_ns > 0 && hth_os_monotonic_ns() - node->page_ns < ms * 1000000u;
}

/* Nobody misses it: it came by the store, and is down for long. */
static bool is_gone(const hth_node *node)
{
    return !node->is_listed && node->state == HTH_NODE_DOWN && !is_younger(node, GONE_MS) && !node->call &&
           !node->order && hth_node_in_flight(node) == 0;
}

static void remove_gone(hth_nodes *nodes)
{
    size_t n = 0;

    for (size_t i = 0; i < nodes->n; i++) {
        hth_node *node = nodes->all[i];

        if (is_gone(node))
            nodes->gone[nodes->n_gone++] = node;
        else
            nodes->all[n++] = node;
    }
    nodes->n = n;
}

static void on_timer(evutil_socket_t fd, short what, void *user_data)
{
    hth_nodes *nodes = user_data;

    (void)fd;
    (void)what;
    remove_gone(nodes);
    for (size_t i = 0; i < nodes->n; i++)
        if (!nodes->all[i]->is_stored || nodes->all[i]->is_cut || !is_younger(nodes->all[i], FRESH_MS))
            ask(nodes->all[i]);
}

/* ---- all nodes ---- */

/* Free what the node has. */
static void empty_node(hth_node *node)
{
    node_slot *slot, *next;

    hth_upstream_cancel(node->call);
    hth_upstream_cancel(node->order);
    hth_node_page_deinit(&node->page);
    hth_buffer_deinit(&node->answer);
    LL_FOREACH_SAFE(node->slots, slot, next)
    free(slot);
    free(node->address);
}

/* A node for this address: one that is gone, or a new one. NULL without memory, or beyond HTH_NODES_MAX. */
static hth_node *add_node(hth_nodes *nodes, const char *address)
{
    hth_node *node;
    char *copy;

    if (nodes->n + nodes->n_gone == HTH_NODES_MAX && nodes->n_gone == 0)
        return NULL;
    copy = strdup(address);
    node = nodes->n_gone > 0 ? nodes->gone[0] : calloc(1, sizeof(*node));
    if (!copy || !node) {
        free(copy);
        if (nodes->n_gone == 0)
            free(node);
        return NULL;
    }
    if (nodes->n_gone > 0) { /* the one that is gone for the longest time */
        nodes->n_gone--;
        memmove(nodes->gone, nodes->gone + 1, nodes->n_gone * sizeof(hth_node *));
        empty_node(node);
    }
    *node = (hth_node){ .nodes = nodes, .address = copy };
    nodes->all[nodes->n++] = node;
    return node;
}

hearth_status hth_nodes_new(const hth_nodes_options *options, hth_nodes **out, hearth_error *err)
{
    hth_nodes *nodes = calloc(1, sizeof(*nodes));
    bool ok = nodes != NULL;

    if (ok) {
        nodes->options = *options;
        nodes->options.addresses = NULL;
        (void)snprintf(nodes->name, sizeof(nodes->name), "%s", options->name); /* both fit */
        (void)snprintf(nodes->epoch, sizeof(nodes->epoch), "%s", options->epoch);
        nodes->timer = event_new(options->base, -1, EV_PERSIST, on_timer, nodes);
        ok = nodes->timer != NULL;
    }
    for (size_t i = 0; ok && i < options->n; i++) {
        hth_node *node = add_node(nodes, options->addresses[i]);

        ok = node != NULL;
        if (ok)
            node->is_listed = true;
    }
    if (!ok) {
        hth_nodes_free(nodes);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the nodes of the fleet");
    }
    *out = nodes;
    return HEARTH_OK;
}

void hth_nodes_free(hth_nodes *nodes)
{
    if (!nodes)
        return;
    for (size_t i = 0; i < nodes->n + nodes->n_gone; i++) {
        hth_node *node = i < nodes->n ? nodes->all[i] : nodes->gone[i - nodes->n];

        empty_node(node);
        free(node);
    }
    if (nodes->timer)
        event_free(nodes->timer);
    free(nodes);
}

static hth_node *node_at(hth_nodes *nodes, const char *address)
{
    for (size_t i = 0; i < nodes->n; i++)
        if (strcmp(nodes->all[i]->address, address) == 0)
            return nodes->all[i];
    return add_node(nodes, address);
}

/* Is there no room for it? It is said once. */
static void tell_full(hth_nodes *nodes, const char *address)
{
    if (!nodes->is_full)
        hth_warn(nodes->options.log, "the node at %s is ignored: this version knows at most %d nodes", address,
                 HTH_NODES_MAX);
    nodes->is_full = true;
}

void hth_nodes_note_page(hth_nodes *nodes, const char *address, const char *text, size_t n, uint64_t age_ns)
{
    const uint64_t now_ns = hth_os_monotonic_ns(), made_ns = now_ns > age_ns ? now_ns - age_ns : 1;
    hth_node *node = node_at(nodes, address);
    hth_node_page page;
    hearth_error err;

    if (!node) {
        tell_full(nodes, address);
        return;
    }
    if (node->state == HTH_NODE_SELF || made_ns <= node->page_ns || made_ns <= node->doubted_ns)
        return;
    node->is_stored = true;
    switch (hth_node_page_read(text, n, &page, &err)) {
    case HEARTH_OK: take_page(node, &page, made_ns); break;
    case HEARTH_NO_MEMORY: break; /* it is asked when its page is old */
    default:
        if (!node->is_cut)
            set_state(node, HTH_NODE_STRANGE, err.message);
    }
}

void hth_nodes_begin(hth_nodes *nodes)
{
    const struct timeval wait = { .tv_sec = ASK_MS / 1000 };

    (void)event_add(nodes->timer, &wait); /* fails without memory at the start of the process only */
    on_timer(-1, 0, nodes);
}

size_t hth_nodes_n(const hth_nodes *nodes)
{
    return nodes->n;
}

hth_node *hth_nodes_at(const hth_nodes *nodes, size_t i)
{
    return nodes->all[i];
}

/* ---- one node ---- */

const char *hth_node_address(const hth_node *node)
{
    return node->address;
}

const char *hth_node_name(const hth_node *node)
{
    return node->page.name[0] ? node->page.name : node->address;
}

hth_node_state hth_node_state_of(const hth_node *node)
{
    return node->state;
}

bool hth_node_may_belong(const hth_node *node)
{
    return node->state != HTH_NODE_SELF && node->state != HTH_NODE_STRANGE;
}

const char *hth_node_why(const hth_node *node)
{
    return node->why;
}

const hth_node_page *hth_node_page_of(const hth_node *node)
{
    return &node->page;
}

uint64_t hth_node_age_ms(const hth_node *node)
{
    return node->page_ns > 0 ? (hth_os_monotonic_ns() - node->page_ns) / 1000000u : UINT64_MAX;
}

uint64_t hth_node_id(const hth_node *node)
{
    return hth_route_digest(node->page.name, strlen(node->page.name));
}

uint64_t hth_node_holder(const hth_node *node)
{
    return node->page.cache[0] ? hth_route_digest(node->page.cache, strlen(node->page.cache)) : 0;
}

uint64_t hth_node_generation(const hth_node *node)
{
    return node->generation;
}

const hth_node_model *hth_node_knows(const hth_node *node, const char *model)
{
    for (size_t i = 0; i < node->page.n_models; i++)
        if (strcmp(node->page.models[i].name, model) == 0)
            return &node->page.models[i];
    return NULL;
}

const hth_node_model *hth_node_model_of(const hth_node *node, const char *model)
{
    return answers(node) ? hth_node_knows(node, model) : NULL;
}

bool hth_node_had(const hth_node *node, const char *model)
{
    return hth_node_may_belong(node) && hth_node_knows(node, model);
}

bool hth_node_takes(const hth_node *node, const char *model)
{
    const node_slot *slot = slot_of(node, model);
    const hth_node_model *has = node->state == HTH_NODE_UP && !node->is_doubted ? hth_node_model_of(node, model) : NULL;

    return has && !has->is_broken &&
           (!slot || (!slot->is_doubted && hth_breaker_allows(&slot->breaker, hth_os_monotonic_ns())));
}

uint32_t hth_node_load(const hth_node *node, const char *model)
{
    const node_slot *slot = slot_of(node, model);
    const hth_node_model *has = hth_node_model_of(node, model);

    return (has ? has->n_at_work + has->n_waiting : 0) + (slot ? slot->n_sent + slot->n_sent_old : 0);
}

uint64_t hth_node_prompt_left(const hth_node *node, const char *model)
{
    const node_slot *slot = slot_of(node, model);
    const hth_node_model *has = hth_node_model_of(node, model);

    return (has ? has->n_prompt_left : 0) + (slot ? slot->n_missing + slot->n_missing_old : 0);
}

uint32_t hth_node_in_flight(const hth_node *node)
{
    const node_slot *slot;
    uint32_t n = 0;

    LL_FOREACH(node->slots, slot)
    n += slot->n_in_flight;
    return n;
}

/* ---- metrics ---- */

void hth_nodes_write_metrics(const hth_nodes *nodes, hth_buffer *out)
{
    static const char up[] = "hearth_node_up", flight[] = "hearth_node_requests_in_flight",
                      ends[] = "hearth_node_requests_total";
    static const char *const names[HTH_NODE_ENDS] = { [HTH_NODE_END_WELL] = "answered",
                                                      [HTH_NODE_END_OTHER] = "left",
                                                      [HTH_NODE_END_FULL] = "no_place",
                                                      [HTH_NODE_END_DIED] = "worker_died",
                                                      [HTH_NODE_END_BROKEN] = "broken" };

    hth_exposition_family(out, up, "gauge", "1 while the other node answers, and belongs to the fleet.");
    for (size_t i = 0; i < nodes->n; i++)
        if (nodes->all[i]->state != HTH_NODE_SELF)
            hth_exposition_count(out, up, (hth_labels){ &(hth_label){ "node", nodes->all[i]->address }, 1 },
                                 answers(nodes->all[i]));
    hth_exposition_family(out, flight, "gauge", "Requests of this node that the other node has.");
    for (size_t i = 0; i < nodes->n; i++)
        if (nodes->all[i]->state != HTH_NODE_SELF)
            hth_exposition_count(out, flight, (hth_labels){ &(hth_label){ "node", nodes->all[i]->address }, 1 },
                                 hth_node_in_flight(nodes->all[i]));
    hth_exposition_family(out, ends, "counter", "Requests of this node that the other node had, by their end there.");
    for (size_t i = 0; i < nodes->n; i++)
        for (int end = 0; end < HTH_NODE_ENDS && nodes->all[i]->state != HTH_NODE_SELF; end++) {
            const hth_label labels[] = { { "node", nodes->all[i]->address }, { "end", names[end] } };

            hth_exposition_count(out, ends, (hth_labels){ labels, 2 }, nodes->all[i]->n_ends[end]);
        }
}

/* ---- orders ---- */

static void on_order_head(const hth_upstream_head *head, void *user_data)
{
    hth_node *node = user_data;

    node->order_status = head->status;
}

static bool on_order_bytes(const void *bytes, size_t n, void *user_data)
{
    (void)bytes;
    (void)n;
    (void)user_data;
    return true;
}

static void on_order_done(hearth_status status, const hearth_error *err, void *user_data)
{
    hth_node *node = user_data;

    node->order = NULL;
    if (status != HEARTH_OK)
        hth_warn(node->nodes->options.log, "node '%s' did not take an order: %s", hth_node_name(node), err->message);
    else if (node->order_status != 200)
        hth_warn(node->nodes->options.log, "node '%s' refused an order with status %d", hth_node_name(node),
                 node->order_status);
    ask_anew(node);
}

hearth_status hth_node_order_drain(hth_node *node, bool is_draining, hearth_error *err)
{
    const hth_upstream_request request = { .node = node->address,
                                           .timeout_ms = ORDER_MS,
                                           .method = "POST",
                                           .target = is_draining ? HTH_FLEET_DRAIN_PATH "?draining=1"
                                                                 : HTH_FLEET_DRAIN_PATH "?draining=0" };
    const hth_upstream_watch watch = {
        .on_head = on_order_head, .on_bytes = on_order_bytes, .on_done = on_order_done, .user_data = node
    };

    if (node->order)
        return hth_fail(err, HEARTH_BUSY, "an order is on its way to node '%s' already", hth_node_name(node));
    return hth_upstream_begin(node->nodes->options.upstream, &request, &watch, &node->order, err);
}

/* ---- requests of this node ---- */

void hth_node_note_served(hth_node *node, const char *model)
{
    node_slot *slot = slot_of(node, model);

    if (slot)
        hth_breaker_note_success(&slot->breaker);
}

bool hth_node_note_sent(hth_node *node, const char *model, uint32_t n_missing)
{
    node_slot *slot = slot_made(node, model);

    if (!slot)
        return false; /* without memory: its load is known with the next page */
    slot->n_sent++;
    slot->n_missing += n_missing;
    slot->n_in_flight++;
    return hth_breaker_note_try(&slot->breaker);
}

void hth_node_note_end(hth_node *node, const char *model, hth_node_end end, bool is_trial)
{
    node_slot *slot = slot_of(node, model);

    node->n_ends[end]++;
    if (slot && slot->n_in_flight > 0)
        slot->n_in_flight--;
    if (slot && slot->n_sent > 0)
        slot->n_sent--;
    else if (slot && slot->n_sent_old > 0)
        slot->n_sent_old--;
    if (slot && end == HTH_NODE_END_WELL)
        hth_breaker_note_success(&slot->breaker);
    else if (slot && (end == HTH_NODE_END_DIED || end == HTH_NODE_END_BROKEN))
        hth_breaker_note_failure(&slot->breaker, is_trial, hth_os_monotonic_ns());
    else if (slot)
        hth_breaker_note_end(&slot->breaker, is_trial);
    if (slot && (end == HTH_NODE_END_DIED || end == HTH_NODE_END_FULL))
        slot->is_doubted = true;
    if (end == HTH_NODE_END_BROKEN)
        node->is_doubted = true;
    if (end == HTH_NODE_END_DIED || end == HTH_NODE_END_FULL || end == HTH_NODE_END_BROKEN) {
        node->doubted_ns = hth_os_monotonic_ns();
        ask_anew(node);
    }
}
