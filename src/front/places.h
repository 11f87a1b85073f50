/*
 * places.h - where a request is computed: by this node's worker of its model, or by another node of the fleet
 *
 * A seeker asks for a place, gets one or a failure, and holds the place until it asks again or is cancelled. It does
 * not need to know which kind of place it has. Without a fleet, the place is always this node's worker, as the
 * supervisor gives it.
 *
 *   asks -> this node's worker: starts it if needed, and waits for it (supervisor.h)
 *        -> another node: at once
 *        -> neither can take it now: waits until a node can, as long as requests wait for a worker
 *
 * fleet/route.h chooses among the places that can take it. Event loop only.
 */
#ifndef HTH_FRONT_PLACES_H
#define HTH_FRONT_PLACES_H

#include "fleet/credit.h"
#include "fleet/nodes.h"
#include "fleet/route.h"
#include "supervisor/supervisor.h"

typedef struct hth_places hth_places;

/* One life of a worker process, or of another node. */
typedef struct hth_place {
    hth_node *node;          /* NULL: this node's worker */
    uint64_t generation;     /* 0: no place yet */
    uint64_t n_deaths;       /* of this node's workers of the model, before this generation */
    const char *socket_path; /* of this node's worker; valid during on_found */
} hth_place;

static inline bool hth_place_is_same(const hth_place *a, const hth_place *b)
{
    return a->node == b->node && a->generation == b->generation;
}

/* A member of the object that seeks. The caller sets the first members and clears the rest to zero. */
typedef struct hth_place_seeker hth_place_seeker;
struct hth_place_seeker {
    /* Both may be called within hth_places_want, and may call it again, even with this seeker. */
    void (*on_found)(hth_place_seeker *seeker, const hth_place *place);
    /* The search is over without a place; err as in hth_worker_waiter. */
    void (*on_failed)(hth_place_seeker *seeker, const hearth_error *err);
    uint64_t since_ns;         /* earlier seekers come first */
    bool outlasts_breaks;      /* as in hth_worker_waiter */
    bool is_local;             /* about this node: only its own worker, if it has the model */
    bool is_elsewhere;         /* this node cannot take it: it lacks the model or the adapter */
    uint64_t beginning;        /* of its prompt, as in hth_route_question */
    const char *adapter;       /* that the place must have; NULL: none. Lives as long as the seeker */
    const hth_anchor *anchors; /* [n_anchors] of its prompt, for BY_TIME; likewise */
    size_t n_anchors;
    /* Of the places. */
    hth_places *places;
    const char *model;
    hth_place place;                     /* that it holds; generation 0: none */
    bool has_ended;                      /* the end of the request there was noted */
    bool is_trial;                       /* it is the trial of the place's breaker */
    bool was_refused;                    /* the node had no place */
    uint64_t holder;                     /* the cache of the place; 0: unknown */
    uint32_t n_predicted;                /* tokens of the prompt that it probably has */
    char rows_node[HTH_NODE_NAME_BYTES]; /* the node that has more of them, and rows that it can use; "": none */
    hth_worker_waiter waiter;
    hth_place_seeker *prev, *next; /* while it waits for any place */
    bool waits;
    uint64_t until_ns;
    /* Of the model at the places that it held: others do not count; "": unknown. */
    char digest[HTH_WORKER_DIGEST_BYTES];
    char
        keyspace[HTH_WORKER_KEYSPACE_BYTES]; /* likewise, of the last one; with same_bits, others take no begun reply */
    uint32_t n_refusals;                     /* by nodes that had no place after all */
    char refusal[256];                       /* the reason of the last one; "": none */
    bool was_local; /* this node's worker failed in this search: it is not asked again before the next one */
};

typedef struct hth_places_options {
    struct event_base *base;
    hth_supervisor *supervisor; /* outlives the places, like the rest */
    hth_nodes *nodes;           /* NULL: no fleet */
    const char *name;           /* of this node */
    hth_credit *credit;         /* NULL: no policy needs it */
    hth_route_policy policy;
    uint32_t wait_timeout_ms;
    bool same_bits; /* a reply that has begun goes on only where rows could be shared with its place */
    /* Requests at this node (NULL: this one) should move: it drains, or does not answer. May call hth_places_want. */
    void (*on_leave)(const hth_node *node, void *user_data);
    void *user_data;
} hth_places_options;

hearth_status hth_places_new(const hth_places_options *options, hth_places **out, hearth_error *err);
void hth_places_free(hth_places *places); /* after the end of all seekers; accepts NULL */
void hth_places_set_wait_timeout(hth_places *places, uint32_t ms);
/* A node was asked: for on_look of hth_nodes_options. */
void hth_places_on_node(hth_places *places, hth_node *node);

/*
 * Seek a place for a request for the model, whose name lives as long as the seeker. after: the place that was lost, so
 * that a later generation is needed there; NULL: any will do. The seeker gives up what it holds, with the end OTHER.
 * On an error, no callback comes, and the seeker holds nothing. HEARTH_NOT_FOUND: no place has the model, nor was one
 * known to have it. HEARTH_BUSY: too many nodes refused it. Others as in hth_supervisor_want.
 */
hearth_status hth_places_want(hth_places *places, const char *model, const hth_place *after, hth_place_seeker *seeker,
                              hearth_error *err);
/* End the search, or give up the place. Accepts a seeker that does neither. */
void hth_place_seeker_cancel(hth_place_seeker *seeker);

/* Note what model the place has that the seeker holds, in digest and keyspace. */
void hth_place_seeker_note_model(hth_place_seeker *seeker);
/* What happened at the place that the seeker holds. It holds it on. */
void hth_places_note_end(hth_place_seeker *seeker, hth_node_end end);
/* The node of the place had none after all, for this reason. It holds it on. */
void hth_places_note_refused(hth_place_seeker *seeker, const char *why);
/* The request came so far there that a death of its worker is no failed start. */
void hth_places_note_served(hth_place_seeker *seeker);

/* The place computed a prompt of so many tokens, of which it had so many. */
void hth_places_note_cached(hth_place_seeker *seeker, uint32_t n_prompt, uint32_t n_cached);

/* What became of a place whose connection broke. Of another node, nothing is known: ENDED. */
typedef enum hth_place_fate {
    HTH_FATE_UNKNOWN, /* not known yet */
    HTH_FATE_DIED,    /* its process died */
    HTH_FATE_ENDED,   /* it ended in order, or is replaced */
    HTH_FATE_WORKS,   /* it works */
} hth_place_fate;
hth_place_fate hth_places_fate(hth_places *places, const char *model, const hth_place *place);
/* The cause of the last death of the model's workers here; "": none is known. */
void hth_places_last_death(hth_places *places, const char *model, char *out, size_t capacity);

/* What a request waits for, as hth_supervisor_tell_wait. place NULL: it has none. */
void hth_places_tell_wait(const hth_places *places, const char *model, const hth_place *place,
                          char out[HTH_WAIT_TEXT_BYTES]);
/*
 * Hold this node's worker of the model while something is asked that is no request: hth_supervisor_want_loaded.
 */
hearth_status hth_places_want_loaded(hth_places *places, const char *model, hth_worker_waiter *waiter,
                                     hearth_error *err);
/*
 * The node of rows_node, if it and the place keep a history of the model, and it can be asked now. *node_out NULL: this
 * one.
 */
bool hth_places_knows(const hth_place_seeker *seeker, const hth_node **node_out);
/* Is there another place that could take the request of the seeker, which holds one, now? */
bool hth_places_has_other(const hth_place_seeker *seeker);

/* ---- this node in the fleet ---- */

bool hth_places_has_fleet(const hth_places *places);
const char *hth_places_node_name(const hth_places *places, const hth_place *place); /* of the place's node */
const char *hth_places_own_name(const hth_places *places);                          /* of this node */
/* By an operator's order, or because the server ends: this node takes no more requests, if others can. */
void hth_places_set_draining(hth_places *places, bool is_draining);
bool hth_places_is_draining(const hth_places *places);
/* Of this node's cache, for credit.h. */
void hth_places_set_holder(hth_places *places, uint64_t holder);

/*
 * The places that could take a request now, [n], as hth_places_choose saw them. Behind them, up to n_all, are those
 * that cannot, but whose rows others may fetch.
 */
enum { HTH_PLACES_MAX = HTH_NODES_MAX + 1 };
typedef struct hth_place_list {
    hth_route_place places[HTH_PLACES_MAX];
    hth_node *nodes[HTH_PLACES_MAX];                           /* NULL: this one */
    uint64_t holders[HTH_PLACES_MAX];                          /* their caches */
    char keyspaces[HTH_PLACES_MAX][HTH_WORKER_KEYSPACE_BYTES]; /* of the model there; "": unknown */
    size_t n, n_all;
} hth_place_list;
/*
 * Which place a seeker that has none would get now. It counts as a question to the credit. Returns its index. list->n
 * 0: none can take it, and only the policy of *question is set. Otherwise *question is what the choice was made by.
 */
size_t hth_places_choose(hth_places *places, const hth_place_seeker *seeker, hth_place_list *list,
                         hth_route_question *question);

#endif
