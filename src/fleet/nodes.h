/*
 * nodes.h - the other nodes of the fleet: what they told last, and how requests there ended
 *
 *   UNKNOWN   it has not answered yet
 *   UP        its last page came in time
 *   DRAINING  likewise, and it takes no more requests of others
 *   DOWN      it does not answer; why tells the reason
 *   STRANGE   it answers, but does not belong here: another protocol, or the name of another node
 *   SELF      it is this node: the list of nodes may be the same on all machines
 *
 * The operator's list has nodes, and so has the store (roster.h), from which they can also leave again. A node is asked
 * every second for its page, unless the store has a fresh one. So without a store, or while it is lost, all are asked.
 * A node that the store knows, and that does not answer this node, is asked until it does, and DOWN meanwhile.
 *
 * A node that broke a connection is asked at once, and takes no request until it answers. Requests that this node sent
 * since the last page count as load of their place at once. Event loop only.
 */
#ifndef HTH_FLEET_NODES_H
#define HTH_FLEET_NODES_H

#include "base/log.h"
#include "fleet/breaker.h"
#include "fleet/node_page.h"
#include "http/upstream.h"

typedef enum hth_node_state {
    HTH_NODE_UNKNOWN,
    HTH_NODE_UP,
    HTH_NODE_DRAINING,
    HTH_NODE_DOWN,
    HTH_NODE_STRANGE,
    HTH_NODE_SELF,
} hth_node_state;
const char *hth_node_state_name(hth_node_state state); /* "up" */

typedef struct hth_nodes hth_nodes;
typedef struct hth_node hth_node; /* one; lives as long as the nodes, or becomes another one after a minute */

/* Paths and headers of requests among nodes. */
#define HTH_FLEET_PAGE_PATH "/fleet/node"
#define HTH_FLEET_ASK_PATH "/fleet/ask"
#define HTH_FLEET_DRAIN_PATH "/fleet/drain" /* ?draining=1 or 0 */
#define HTH_HEADER_MODEL "Hearth-Model"     /* the model's own name on the node that is asked */
#define HTH_HEADER_METHOD "Hearth-Method"   /* of the request for its worker */
#define HTH_HEADER_TARGET "Hearth-Target"   /* likewise */
#define HTH_HEADER_FROM "Hearth-From"       /* the name of the node that asks */
#define HTH_HEADER_NODE "x-hearth-node"     /* of a reply to a client: the node that computed its beginning */

/* The status if a worker had the request, and died, or ended otherwise; with others, no worker had it. */
enum { HTH_NO_PLACE_DIED = 502, HTH_NO_PLACE_ENDED = 504 };

enum { HTH_NODES_MAX = 64 };

typedef struct hth_nodes_options {
    struct event_base *base;
    hth_upstream *upstream;       /* with the fleet's certificates; outlives the nodes, like the rest */
    const char *const *addresses; /* [n], "HOST:PORT"; copied */
    size_t n;
    const char *name; /* of this node */
    const char *epoch;
    const hth_log *log;
    /* The node was asked: its page may be another one. is_new: its state has changed. */
    void (*on_look)(hth_node *node, bool is_new, void *user_data);
    void *user_data;
} hth_nodes_options;

hearth_status hth_nodes_new(const hth_nodes_options *options, hth_nodes **out, hearth_error *err);
void hth_nodes_free(hth_nodes *nodes); /* after the end of all requests to nodes; accepts NULL */
/* Ask now and then every second. */
void hth_nodes_begin(hth_nodes *nodes);
/* The store has this page, [n], of the node that listens at this address; it is so old. It may be no page at all. */
void hth_nodes_note_page(hth_nodes *nodes, const char *address, const char *text, size_t n, uint64_t age_ns);

size_t hth_nodes_n(const hth_nodes *nodes);
hth_node *hth_nodes_at(const hth_nodes *nodes, size_t i);

/* ---- one node ---- */

const char *hth_node_address(const hth_node *node);
const char *hth_node_name(const hth_node *node); /* its address until it has told its name */
hth_node_state hth_node_state_of(const hth_node *node);
/* May it be a member of the fleet other than this node? Also before its first answer. */
bool hth_node_may_belong(const hth_node *node);
const char *hth_node_why(const hth_node *node); /* of DOWN and STRANGE; else "" */
/* Its last page; zeros until there is one. Valid until on_look. */
const hth_node_page *hth_node_page_of(const hth_node *node);
uint64_t hth_node_age_ms(const hth_node *node); /* of the page; UINT64_MAX: there is none */
uint64_t hth_node_id(const hth_node *node);     /* a digest of its name, for hth_route_place */
uint64_t hth_node_holder(const hth_node *node); /* a digest of its cache's name, for credit.h; 0: unknown */
/* The same number during one life of its process, as far as it is known. */
uint64_t hth_node_generation(const hth_node *node);

/* The model of this name that it has; NULL: none, or it cannot be asked. */
const hth_node_model *hth_node_model_of(const hth_node *node, const char *model);
/* The same, also if it cannot be asked now, by its last page. */
const hth_node_model *hth_node_knows(const hth_node *node, const char *model);
/* Does it have the model, by its last page, and may it belong to the fleet? */
bool hth_node_had(const hth_node *node, const char *model);
/* May a request for the model go there now? */
bool hth_node_takes(const hth_node *node, const char *model);
/* Requests for the model at work and waiting there, those of this node included. */
uint32_t hth_node_load(const hth_node *node, const char *model);
uint32_t hth_node_in_flight(const hth_node *node); /* of this node, for all models */
/* Tokens of prompts that it still has to compute for the model, those that were sent since its page included. */
uint64_t hth_node_prompt_left(const hth_node *node, const char *model);

/*
 * Order it to take no more requests, or to take them again. It tells its new state with its next page. HEARTH_BUSY: an
 * order is on its way already. HEARTH_NO_MEMORY.
 */
hearth_status hth_node_order_drain(hth_node *node, bool is_draining, hearth_error *err);

/* Append the metrics of all nodes to a page of Prometheus' format. */
void hth_nodes_write_metrics(const hth_nodes *nodes, hth_buffer *out);

/* ---- requests of this node ---- */

/* How a request ended there. */
typedef enum hth_node_end {
    HTH_NODE_END_WELL,   /* with an answer, whatever it says */
    HTH_NODE_END_OTHER,  /* its client left, or it moved */
    HTH_NODE_END_FULL,   /* the node had no place */
    HTH_NODE_END_DIED,   /* the worker died; the node says so */
    HTH_NODE_END_BROKEN, /* the connection broke */
    HTH_NODE_ENDS,
} hth_node_end;

/*
 * A request goes there, of whose prompt it has to compute about n_missing tokens. Each has one end. True: it is the
 * trial of a breaker, which its end must tell.
 */
bool hth_node_note_sent(hth_node *node, const char *model, uint32_t n_missing);
void hth_node_note_end(hth_node *node, const char *model, hth_node_end end, bool is_trial);
/* It has come so far there that the place works. */
void hth_node_note_served(hth_node *node, const char *model);

#endif
