/*
 * grammar_graph.h - the graph of a grammar's calls, and the closures that compute its next state
 *
 * A call is a rule that was entered at one position of the text: a node of the graph. Each edge of a node says where to
 * continue when the call ends: at an element, in the call that made it. Entering the same rule at the same position
 * again adds an edge, not a node. A thread is an element and its call. A state holds the threads that wait for a
 * character or a token. The next character advances each thread whose class contains it. A closure (hth_graph_close)
 * then follows all elements that can be reached without another character.
 *
 * Two measures keep the graph from growing with the text. First, when a call is the last element of its alternative, it
 * gets the edges of its caller instead of an edge to its caller. (The caller's edges are final only when the caller
 * began earlier in the text; shorten() handles the other callers afterwards.) Second, calls that no thread leads to are
 * dropped from time to time.
 *
 * To make a closure, call hth_graph_begin, hth_graph_follow for each first thread, and hth_graph_close. After a
 * failure, the grammar's no_memory or too_much has the reason.
 */
#ifndef HTH_GRAMMAR_GRAMMAR_GRAPH_H
#define HTH_GRAMMAR_GRAMMAR_GRAPH_H

#include "engine/vocabulary.h"
#include "grammar/gbnf.h"

#define HTH_GRAPH_NONE UINT32_MAX

enum {
    HTH_GRAPH_THREADS_MAX = 1 << 14, /* maximum threads after one character, including followed ones */
    HTH_GRAPH_STEPS_MAX = 1 << 21,   /* threads followed for one choice: candidates and, if needed, a mask */
    HTH_GRAPH_COLLECT_MIN = 4096,    /* fewest nodes at which unreachable nodes are dropped */
};

typedef struct hth_graph_thread {
    uint32_t element;
    uint32_t node;
} hth_graph_thread;

typedef struct hth_graph_edge {
    hth_graph_thread go_on; /* where to continue when the call ends */
    uint32_t next;
} hth_graph_edge;

typedef struct hth_graph_node {
    uint32_t edges; /* the first; HTH_GRAPH_NONE */
    uint32_t ended; /* the last closure in which the call ended */
} hth_graph_node;

/* A character whose last bytes are still missing. */
typedef struct hth_graph_partial {
    uint32_t value;
    uint32_t least; /* lowest code point for its number of bytes */
    uint32_t n_more;
} hth_graph_partial;

typedef struct hth_graph_state {
    uint32_t begin, end;                  /* of its threads */
    uint32_t n_threads, n_nodes, n_edges; /* lengths of the arrays when the state was made */
    hth_graph_partial partial;
    bool is_complete;
} hth_graph_state;

typedef struct hth_graph_seen {
    hth_graph_thread thread;
    uint32_t closure;
} hth_graph_seen;

typedef struct hth_graph_call {
    uint32_t closure; /* the last closure that entered the rule */
    uint32_t node;    /* the call that was made then */
} hth_graph_call;

typedef struct hth_grammar {
    hth_gbnf *gbnf;
    const hth_vocabulary *vocabulary;

    hth_graph_thread *threads;
    hth_graph_node *nodes; /* nodes[0]: the whole text */
    hth_graph_edge *edges;
    hth_graph_thread *work; /* threads still to be followed */
    size_t n_threads, n_nodes, n_edges, n_work;
    size_t threads_capacity, nodes_capacity, edges_capacity, work_capacity;

    hth_graph_state *states; /* [n_bytes_max + 2]; states[0]: after the accepted text; above: of a token on trial */
    hth_graph_call *calls;   /* [n_rules] */
    hth_graph_seen *seen;    /* the threads of this closure; a hash table of n_seen_slots */
    size_t n_seen, n_seen_slots;
    uint32_t closure; /* number of this closure */
    uint32_t n_followed;
    uint32_t n_steps; /* since hth_grammar_begin_choice */
    bool *whole;      /* by token, valid while knows_whole is set, [n_tokens]; NULL: not made yet */
    bool knows_whole;
    size_t collect_at;        /* drop unreachable nodes at this number of nodes */
    bool no_memory, too_much; /* why a closure failed */
    bool is_spent;
} hth_grammar;

/* Make room for one more element after n elements of that size. */
bool hth_graph_reserve(hth_grammar *g, void **array, size_t n, size_t *capacity, size_t size);

/* Begin a closure; the caller then passes its first threads to hth_graph_follow. */
void hth_graph_begin(hth_grammar *g);
/* Add the thread to the closure, unless it is already there. */
bool hth_graph_follow(hth_grammar *g, hth_graph_thread t);
/*
 * Follow all threads. The threads that wait for a character or a token become those of *into. False on failure, or if
 * no thread waits and the text is not complete.
 */
bool hth_graph_close(hth_grammar *g, hth_graph_state *into);
/* Close permanently: the state becomes states[0], and all earlier states and trial threads are discarded. */
bool hth_graph_close_and_keep(hth_grammar *g);

/* Truncate the arrays to their lengths when the state was made. */
static inline void hth_graph_go_back(hth_grammar *g, const hth_graph_state *to)
{
    g->n_threads = to->n_threads;
    g->n_nodes = to->n_nodes;
    g->n_edges = to->n_edges;
}

#endif
