#include "grammar/grammar_graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

enum { NODES_MAX = 1 << 20 }; /* of the graph */

/* ---- threads of a closure ---- */

bool hth_graph_reserve(hth_grammar *g, void **array, size_t n, size_t *capacity, size_t size)
{
    void *grown = hth_grown(*array, n, capacity, size);

    if (!grown) {
        g->no_memory = true;
        return false;
    }
    *array = grown;
    return true;
}

static size_t slot_of(hth_graph_thread t, size_t n_slots)
{
    uint64_t x = ((uint64_t)t.element << 32 | t.node) * UINT64_C(0x9E3779B97F4A7C15);

    return (size_t)(x >> 32) & (n_slots - 1);
}

static bool same(hth_graph_thread a, hth_graph_thread b)
{
    return a.element == b.element && a.node == b.node;
}

static bool seen_grow(hth_grammar *g)
{
    size_t n_slots = 2 * g->n_seen_slots;
    hth_graph_seen *slots = calloc(n_slots, sizeof(slots[0]));

    if (!slots) {
        g->no_memory = true;
        return false;
    }
    for (size_t i = 0; i < g->n_seen_slots; i++) {
        size_t at = slot_of(g->seen[i].thread, n_slots);

        if (g->seen[i].closure != g->closure)
            continue;
        while (slots[at].closure == g->closure)
            at = (at + 1) & (n_slots - 1);
        slots[at] = g->seen[i];
    }
    free(g->seen);
    g->seen = slots;
    g->n_seen_slots = n_slots;
    return true;
}

bool hth_graph_follow(hth_grammar *g, hth_graph_thread t)
{
    size_t at;

    g->n_steps++;
    if (2 * (g->n_seen + 1) > g->n_seen_slots && !seen_grow(g))
        return false;
    for (at = slot_of(t, g->n_seen_slots); g->seen[at].closure == g->closure; at = (at + 1) & (g->n_seen_slots - 1))
        if (same(g->seen[at].thread, t))
            return true;
    if (++g->n_followed > HTH_GRAPH_THREADS_MAX || g->n_steps > HTH_GRAPH_STEPS_MAX) {
        g->too_much = true;
        return false;
    }
    g->seen[at] = (hth_graph_seen){ .thread = t, .closure = g->closure };
    g->n_seen++;
    if (!hth_graph_reserve(g, (void **)&g->work, g->n_work, &g->work_capacity, sizeof(g->work[0])))
        return false;
    g->work[g->n_work++] = t;
    return true;
}

/* ---- calls ---- */

static bool add_edge(hth_grammar *g, uint32_t id, hth_graph_thread go_on)
{
    for (uint32_t i = g->nodes[id].edges; i != HTH_GRAPH_NONE; i = g->edges[i].next) {
        if (same(g->edges[i].go_on, go_on))
            return true;
        if (++g->n_steps > HTH_GRAPH_STEPS_MAX) {
            g->too_much = true;
            return false;
        }
    }
    if (!hth_graph_reserve(g, (void **)&g->edges, g->n_edges, &g->edges_capacity, sizeof(g->edges[0])))
        return false;
    g->edges[g->n_edges] = (hth_graph_edge){ .go_on = go_on, .next = g->nodes[id].edges };
    g->nodes[id].edges = (uint32_t)g->n_edges++;
    return g->nodes[id].ended != g->closure ||
           hth_graph_follow(g, go_on); /* it had already ended, without a character */
}

/* Enter a rule from thread t, whose element it is. Nodes from first_new on were made in this closure. */
static bool enter(hth_grammar *g, hth_graph_thread t, size_t first_new)
{
    uint32_t rule = g->gbnf->elements[t.element].value;
    hth_graph_call *call = &g->calls[rule];
    bool is_last = g->gbnf->elements[t.element + 1].type == HTH_GBNF_END;
    bool is_new = call->closure != g->closure;

    if (is_new) {
        if (g->n_nodes >= NODES_MAX) {
            g->too_much = true;
            return false;
        }
        if (!hth_graph_reserve(g, (void **)&g->nodes, g->n_nodes, &g->nodes_capacity, sizeof(g->nodes[0])))
            return false;
        g->nodes[g->n_nodes] = (hth_graph_node){ .edges = HTH_GRAPH_NONE };
        *call = (hth_graph_call){ .closure = g->closure, .node = (uint32_t)g->n_nodes++ };
    }
    if (is_last && t.node > 0 && t.node < first_new) {
        for (uint32_t i = g->nodes[t.node].edges; i != HTH_GRAPH_NONE; i = g->edges[i].next)
            if (!add_edge(g, call->node, g->edges[i].go_on))
                return false;
    } else if (!add_edge(g, call->node, (hth_graph_thread){ .element = t.element + 1, .node = t.node })) {
        return false;
    }
    if (is_new)
        for (uint32_t i = g->gbnf->rules[rule]; i != HTH_GRAPH_NONE; i = g->gbnf->alternatives[i].next)
            if (!hth_graph_follow(g,
                                  (hth_graph_thread){ .element = g->gbnf->alternatives[i].begin, .node = call->node }))
                return false;
    return true;
}

static bool leave(hth_grammar *g, uint32_t id, hth_graph_state *into)
{
    if (id == 0) {
        into->is_complete = true;
        return true;
    }
    if (g->nodes[id].ended == g->closure)
        return true;
    g->nodes[id].ended = g->closure;
    for (uint32_t i = g->nodes[id].edges; i != HTH_GRAPH_NONE; i = g->edges[i].next)
        if (!hth_graph_follow(g, g->edges[i].go_on))
            return false;
    return true;
}

void hth_graph_begin(hth_grammar *g)
{
    if (++g->closure == 0) { /* the numbers wrapped around: discard all marks */
        memset(g->seen, 0, g->n_seen_slots * sizeof(g->seen[0]));
        memset(g->calls, 0, g->gbnf->n_rules * sizeof(g->calls[0]));
        for (size_t i = 0; i < g->n_nodes; i++)
            g->nodes[i].ended = 0;
        g->closure = 1;
    }
    g->n_seen = 0;
    g->n_followed = 0;
    g->n_work = 0;
}

bool hth_graph_close(hth_grammar *g, hth_graph_state *into)
{
    size_t first_new = g->n_nodes;

    into->begin = (uint32_t)g->n_threads;
    into->is_complete = false;
    while (g->n_work > 0) {
        hth_graph_thread t = g->work[--g->n_work];
        bool ok = true;

        switch (g->gbnf->elements[t.element].type) {
        case HTH_GBNF_END: ok = leave(g, t.node, into); break;
        case HTH_GBNF_RULE: ok = enter(g, t, first_new); break;
        default:
            ok = hth_graph_reserve(g, (void **)&g->threads, g->n_threads, &g->threads_capacity, sizeof(g->threads[0]));
            if (ok)
                g->threads[g->n_threads++] = t;
        }
        if (!ok)
            return false;
    }
    into->end = (uint32_t)g->n_threads;
    into->n_threads = (uint32_t)g->n_threads;
    into->n_nodes = (uint32_t)g->n_nodes;
    into->n_edges = (uint32_t)g->n_edges;
    return into->end > into->begin || into->is_complete;
}

/* ---- keeping the accepted state ---- */

/* Calls made in this closure are final now: where they were last elements, give them the edges of their callers. */
static bool shorten(hth_grammar *g, size_t first_new)
{
    for (size_t id = first_new; id < g->n_nodes; id++) {
        bool any = false;

        for (uint32_t i = g->nodes[id].edges; i != HTH_GRAPH_NONE && !any; i = g->edges[i].next)
            any = g->edges[i].go_on.node >= first_new &&
                  g->gbnf->elements[g->edges[i].go_on.element].type == HTH_GBNF_END;
        if (!any)
            continue;
        /* Follow the chains of last calls. The edges at their ends replace the edges of the call. */
        hth_graph_begin(g);
        for (uint32_t i = g->nodes[id].edges; i != HTH_GRAPH_NONE; i = g->edges[i].next)
            if (!hth_graph_follow(g, g->edges[i].go_on))
                return false;
        g->nodes[id].edges = HTH_GRAPH_NONE;
        while (g->n_work > 0) {
            hth_graph_thread t = g->work[--g->n_work];

            if (t.node >= first_new && g->gbnf->elements[t.element].type == HTH_GBNF_END) {
                for (uint32_t i = g->nodes[t.node].edges; i != HTH_GRAPH_NONE; i = g->edges[i].next)
                    if (!hth_graph_follow(g, g->edges[i].go_on))
                        return false;
                continue;
            }
            if (!hth_graph_reserve(g, (void **)&g->edges, g->n_edges, &g->edges_capacity, sizeof(g->edges[0])))
                return false;
            g->edges[g->n_edges] = (hth_graph_edge){ .go_on = t, .next = g->nodes[id].edges };
            g->nodes[id].edges = (uint32_t)g->n_edges++;
        }
    }
    return true;
}

/* Drop the calls that no thread of states[0] leads to. If out of memory, they stay. */
static void collect(hth_grammar *g)
{
    uint32_t *place = calloc(g->n_nodes, sizeof(place[0])); /* 0: not reached; later the new index plus one */
    hth_graph_edge *edges = malloc((g->n_edges ? g->n_edges : 1) * sizeof(edges[0]));
    uint32_t *todo = malloc(g->n_nodes * sizeof(todo[0]));
    size_t n_todo = 0, n_nodes = 0, n_edges = 0;

    if (place && edges && todo) {
        place[0] = 1;
        for (size_t i = 0; i < g->n_threads; i++)
            if (!place[g->threads[i].node]) {
                place[g->threads[i].node] = 1;
                todo[n_todo++] = g->threads[i].node;
            }
        while (n_todo > 0)
            for (uint32_t i = g->nodes[todo[--n_todo]].edges, next; i != HTH_GRAPH_NONE; i = next) {
                uint32_t to = g->edges[i].go_on.node;

                next = g->edges[i].next;
                if (!place[to]) {
                    place[to] = 1;
                    todo[n_todo++] = to;
                    /* The list of this node continues after the nodes that were pushed on top of it. */
                }
            }
        for (size_t i = 0; i < g->n_nodes; i++)
            if (place[i])
                place[i] = (uint32_t)++n_nodes;
        for (size_t i = 0; i < g->n_nodes; i++) {
            uint32_t first = HTH_GRAPH_NONE;

            if (!place[i])
                continue;
            for (uint32_t j = g->nodes[i].edges; j != HTH_GRAPH_NONE; j = g->edges[j].next) {
                edges[n_edges] = g->edges[j];
                edges[n_edges].go_on.node = place[edges[n_edges].go_on.node] - 1;
                edges[n_edges].next = first;
                first = (uint32_t)n_edges++;
            }
            g->nodes[place[i] - 1] = (hth_graph_node){ .edges = first, .ended = g->nodes[i].ended };
        }
        for (size_t i = 0; i < g->n_threads; i++)
            g->threads[i].node = place[g->threads[i].node] - 1;
        if (n_edges > 0)
            memcpy(g->edges, edges, n_edges * sizeof(edges[0]));
        g->n_nodes = n_nodes;
        g->n_edges = n_edges;
    }
    free(place);
    free(edges);
    free(todo);
    g->collect_at = 2 * g->n_nodes + HTH_GRAPH_COLLECT_MIN;
}

/* Make the state states[0], and discard the states before it. */
static void keep(hth_grammar *g, hth_graph_state now)
{
    size_t n = now.end - now.begin;

    g->knows_whole = false;
    if (n > 0)
        memmove(g->threads, g->threads + now.begin, n * sizeof(g->threads[0]));
    g->n_threads = n;
    if (g->n_nodes >= g->collect_at)
        collect(g);
    now.begin = 0;
    now.end = (uint32_t)n;
    now.n_threads = (uint32_t)n;
    now.n_nodes = (uint32_t)g->n_nodes;
    now.n_edges = (uint32_t)g->n_edges;
    g->states[0] = now;
}

bool hth_graph_close_and_keep(hth_grammar *g)
{
    size_t first_new = g->n_nodes;
    hth_graph_state into = { .begin = 0 };

    if (!hth_graph_close(g, &into) || !shorten(g, first_new))
        return false;
    keep(g, into);
    return true;
}
