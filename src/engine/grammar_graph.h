/*
 * grammar_graph.h - the graph of a grammar's calls, and the closures that make the next state of it
 *
 * A call is a rule that was entered at one place of the text: a node of the graph. Its edges say where to go on when
 * it ends: an element, in the call that made it. Entering the same rule at the same place again adds an edge, not a
 * node. A thread is an element and the call it is in. A state holds the threads that wait for a character or a token;
 * the next character takes those along whose class has it, and everything that can be reached from there without
 * another character is followed (hth_graph_close).
 *
 * Two things keep the graph from growing with the text. A call that is the last element of its alternative gets its
 * caller's edges instead of one to its caller (which is only known to be final where the caller began earlier in the
 * text; for the others shorten() does it afterwards). And calls that no thread leads to are dropped now and then.
 *
 * A closure is everything that can be reached without another character: hth_graph_begin, hth_graph_follow for each
 * thread to begin with, hth_graph_close. Where one fails, no_memory or too_much of the grammar says why.
 */
#ifndef HTH_ENGINE_GRAMMAR_GRAPH_H
#define HTH_ENGINE_GRAMMAR_GRAPH_H

#include "engine/grammar.h"

#define HTH_GRAPH_NONE UINT32_MAX

enum {
    HTH_GRAPH_THREADS_MAX = 1 << 14, /* that one character may lead to, followed ones included */
    HTH_GRAPH_STEPS_MAX = 1 << 21,   /* threads followed for one choice: trying candidates and, if need be, a mask */
    HTH_GRAPH_COLLECT_MIN = 4096,    /* nodes from which on those are dropped that nothing leads to */
};

typedef struct hth_graph_thread {
    uint32_t element;
    uint32_t node;
} hth_graph_thread;

typedef struct hth_graph_edge {
    hth_graph_thread go_on; /* when the call ends */
    uint32_t next;
} hth_graph_edge;

typedef struct hth_graph_node {
    uint32_t edges; /* the first; HTH_GRAPH_NONE */
    uint32_t ended; /* the last closure in which the call ended */
} hth_graph_node;

/* A character of which some bytes are still to come. */
typedef struct hth_graph_partial {
    uint32_t value;
    uint32_t least; /* code point that this many bytes may stand for */
    uint32_t n_more;
} hth_graph_partial;

typedef struct hth_graph_state {
    uint32_t begin, end;                  /* of its threads */
    uint32_t n_threads, n_nodes, n_edges; /* of the arrays, when it was made */
    hth_graph_partial partial;
    bool is_complete;
} hth_graph_state;

typedef struct hth_graph_seen {
    hth_graph_thread thread;
    uint32_t closure;
} hth_graph_seen;

typedef struct hth_graph_call {
    uint32_t closure; /* in which the rule was entered last */
    uint32_t node;    /* as this call */
} hth_graph_call;

struct hth_grammar {
    hth_gbnf *gbnf;
    const hth_vocabulary *vocabulary;

    hth_graph_thread *threads;
    hth_graph_node *nodes; /* nodes[0]: the whole text */
    hth_graph_edge *edges;
    hth_graph_thread *work; /* threads to follow */
    size_t n_threads, n_nodes, n_edges, n_work;
    size_t threads_capacity, nodes_capacity, edges_capacity, work_capacity;

    hth_graph_state *states; /* states[0]: after what was accepted; above it a token that is tried, [n_bytes_max + 2] */
    hth_graph_call *calls;   /* [n_rules] */
    hth_graph_seen *seen;    /* threads of this closure, a hash table of n_seen_slots */
    size_t n_seen, n_seen_slots;
    uint32_t closure; /* number of this closure */
    uint32_t n_followed;
    uint32_t n_steps; /* since begin_steps */
    bool *whole;      /* by token, as long as knows_whole is set, [n_tokens]; NULL: not made yet */
    bool knows_whole;
    size_t collect_at;        /* nodes */
    bool no_memory, too_much; /* why a closure failed */
    bool is_spent;
};

/* Room for one more behind n elements of that size. */
bool hth_graph_reserve(hth_grammar *g, void **array, size_t n, size_t *capacity, size_t size);

/* Begin a closure; threads are then given to hth_graph_follow. */
void hth_graph_begin(hth_grammar *g);
/* The thread belongs to the closure, if it does not yet. */
bool hth_graph_follow(hth_grammar *g, hth_graph_thread t);
/*
 * Follow everything; the threads that wait for a character or a token become those of *into. False also where there are
 * none and the text is not complete.
 */
bool hth_graph_close(hth_grammar *g, hth_graph_state *into);
/* Close over what was followed, for good: the state becomes states[0], and what led to it is forgotten. */
bool hth_graph_close_and_keep(hth_grammar *g);

/* Cut the arrays to where they were when the state was made. */
static inline void hth_graph_go_back(hth_grammar *g, const hth_graph_state *to)
{
    g->n_threads = to->n_threads;
    g->n_nodes = to->n_nodes;
    g->n_edges = to->n_edges;
}

#endif
