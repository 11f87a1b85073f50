/*
 * grammar.c - generalised LL recognition over a graph-structured stack, a byte at a time
 *
 * A call is a rule that was entered at one place of the text: a node of the graph. Its edges say where to go on when
 * it ends: an element, in the call that made it. Entering the same rule at the same place again adds an edge, not a
 * node. A thread is an element and the call it is in. A state holds the threads that wait for a character or a token;
 * the next character takes those along whose class has it, and everything that can be reached from there without
 * another character is followed (close_over).
 *
 * Two things keep the graph from growing with the text. A call that is the last element of its alternative gets its
 * caller's edges instead of one to its caller (which is only known to be final where the caller began earlier in the
 * text; for the others shorten() does it afterwards). And calls that no thread leads to are dropped now and then.
 *
 * Characters are put together from bytes, because a token may hold a part of one: a state remembers what it has, and a
 * byte is refused as soon as no character that begins so would do.
 *
 * Trying a token pushes states, threads, nodes and edges onto their arrays; going back cuts the arrays. Nothing below
 * the cut ever refers to what was above it. Only what is accepted stays.
 */
#include "engine/grammar.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

enum {
    THREADS_MAX = 1 << 14, /* that one character may lead to, followed ones included */
    NODES_MAX = 1 << 20,   /* of the graph */
    STEPS_MAX = 1 << 21,   /* threads followed for one choice: trying candidates and, if need be, a mask */
    THREADS_FEW = 64,      /* so many are looked at for each token, more of them for all tokens at once */
    LOOKS_PER_STEP = 16,   /* threads that are only looked at cost less */
    COLLECT_NODES_MIN = 4096,
};

typedef struct thread {
    uint32_t element;
    uint32_t node;
} thread;

typedef struct edge {
    thread go_on; /* when the call ends */
    uint32_t next;
} edge;

typedef struct node {
    uint32_t edges; /* the first; NONE */
    uint32_t ended; /* the last closure in which the call ended */
} node;

/* A character of which some bytes are still to come. */
typedef struct partial {
    uint32_t value;
    uint32_t least; /* code point that this many bytes may stand for */
    uint32_t n_more;
} partial;

typedef struct state {
    uint32_t begin, end;                  /* of its threads */
    uint32_t n_threads, n_nodes, n_edges; /* of the arrays, when it was made */
    partial partial;
    bool is_complete;
} state;

typedef struct seen_entry {
    thread thread;
    uint32_t closure;
} seen_entry;

typedef struct rule_call {
    uint32_t closure; /* in which the rule was entered last */
    uint32_t node;    /* as this call */
} rule_call;

struct hth_grammar {
    hth_gbnf *gbnf;
    const hth_vocabulary *vocabulary;

    thread *threads;
    node *nodes; /* nodes[0]: the whole text */
    edge *edges;
    thread *work; /* threads to follow */
    size_t n_threads, n_nodes, n_edges, n_work;
    size_t threads_capacity, nodes_capacity, edges_capacity, work_capacity;

    state *states;    /* states[0]: after what was accepted; above it a token that is tried, [n_bytes_max + 2] */
    rule_call *calls; /* [n_rules] */
    seen_entry *seen; /* threads of this closure, a hash table of n_seen_slots */
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

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

static bool reserve(hth_grammar *g, void **array, size_t n, size_t *capacity, size_t size)
{
    size_t more = *capacity ? 2 * *capacity : 256;
    void *grown;

    if (n < *capacity)
        return true;
    grown = realloc(*array, more * size);
    if (!grown) {
        g->no_memory = true;
        return false;
    }
    *array = grown;
    *capacity = more;
    return true;
}

static size_t slot_of(thread t, size_t n_slots)
{
    uint64_t x = ((uint64_t)t.element << 32 | t.node) * UINT64_C(0x9E3779B97F4A7C15);

    return (size_t)(x >> 32) & (n_slots - 1);
}

static bool same(thread a, thread b)
{
    return a.element == b.element && a.node == b.node;
}

static bool seen_grow(hth_grammar *g)
{
    size_t n_slots = 2 * g->n_seen_slots;
    seen_entry *slots = calloc(n_slots, sizeof(slots[0]));

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

/* Follow a thread, unless this closure did. False when it cannot go on. */
static bool follow(hth_grammar *g, thread t)
{
    size_t at;

    g->n_steps++;
    if (2 * (g->n_seen + 1) > g->n_seen_slots && !seen_grow(g))
        return false;
    for (at = slot_of(t, g->n_seen_slots); g->seen[at].closure == g->closure; at = (at + 1) & (g->n_seen_slots - 1))
        if (same(g->seen[at].thread, t))
            return true;
    if (++g->n_followed > THREADS_MAX || g->n_steps > STEPS_MAX) {
        g->too_much = true;
        return false;
    }
    g->seen[at] = (seen_entry){ .thread = t, .closure = g->closure };
    g->n_seen++;
    if (!reserve(g, (void **)&g->work, g->n_work, &g->work_capacity, sizeof(g->work[0])))
        return false;
    g->work[g->n_work++] = t;
    return true;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static bool add_edge(hth_grammar *g, uint32_t id, thread go_on)
{
    for (uint32_t i = g->nodes[id].edges; i != NONE; i = g->edges[i].next) {
        if (same(g->edges[i].go_on, go_on))
            return true;
        if (++g->n_steps > STEPS_MAX) {
            g->too_much = true;
            return false;
        }
    }
    if (!reserve(g, (void **)&g->edges, g->n_edges, &g->edges_capacity, sizeof(g->edges[0])))
        return false;
    g->edges[g->n_edges] = (edge){ .go_on = go_on, .next = g->nodes[id].edges };
    g->nodes[id].edges = (uint32_t)g->n_edges++;
    return g->nodes[id].ended != g->closure || follow(g, go_on); /* it had ended already, without a character */
}

/* Enter a rule from thread t, which stands on it. Nodes from first_new on were made in this closure. */
static bool enter(hth_grammar *g, thread t, size_t first_new)
{
    uint32_t rule = g->gbnf->elements[t.element].value;
    rule_call *call = &g->calls[rule];
    bool is_last = g->gbnf->elements[t.element + 1].type == HTH_GBNF_END;
    bool is_new = call->closure != g->closure;

    if (is_new) {
        if (g->n_nodes >= NODES_MAX) {
            g->too_much = true;
            return false;
        }
        if (!reserve(g, (void **)&g->nodes, g->n_nodes, &g->nodes_capacity, sizeof(g->nodes[0])))
            return false;
        g->nodes[g->n_nodes] = (node){ .edges = NONE };
        *call = (rule_call){ .closure = g->closure, .node = (uint32_t)g->n_nodes++ };
    }
    if (is_last && t.node > 0 && t.node < first_new) {
        for (uint32_t i = g->nodes[t.node].edges; i != NONE; i = g->edges[i].next)
            if (!add_edge(g, call->node, g->edges[i].go_on))
                return false;
    } else if (!add_edge(g, call->node, (thread){ .element = t.element + 1, .node = t.node })) {
        return false;
    }
    if (is_new)
        for (uint32_t i = g->gbnf->rules[rule]; i != NONE; i = g->gbnf->alternatives[i].next)
            if (!follow(g, (thread){ .element = g->gbnf->alternatives[i].begin, .node = call->node }))
                return false;
    return true;
}

static bool leave(hth_grammar *g, uint32_t id, state *into)
{
    if (id == 0) {
        into->is_complete = true;
        return true;
    }
    if (g->nodes[id].ended == g->closure)
        return true;
    g->nodes[id].ended = g->closure;
    for (uint32_t i = g->nodes[id].edges; i != NONE; i = g->edges[i].next)
        if (!follow(g, g->edges[i].go_on))
            return false;
    return true;
}

/* Begin a closure; threads are then given to follow(). */
static void begin_closure(hth_grammar *g)
{
    if (++g->closure == 0) { /* numbers are used up: forget all of them */
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

/* Follow everything that needs no character. into gets the threads that need one. False beyond a limit. */
static bool close_over(hth_grammar *g, state *into)
{
    size_t first_new = g->n_nodes;

    into->begin = (uint32_t)g->n_threads;
    into->is_complete = false;
    while (g->n_work > 0) {
        thread t = g->work[--g->n_work];
        bool ok = true;

        switch (g->gbnf->elements[t.element].type) {
        case HTH_GBNF_END: ok = leave(g, t.node, into); break;
        case HTH_GBNF_RULE: ok = enter(g, t, first_new); break;
        default:
            ok = reserve(g, (void **)&g->threads, g->n_threads, &g->threads_capacity, sizeof(g->threads[0]));
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

/* ---- characters -------------------------------------------------------------------------------------------------- */

/* Cut the arrays to where they were when the state was made. */
static void go_back(hth_grammar *g, const state *to)
{
    g->n_threads = to->n_threads;
    g->n_nodes = to->n_nodes;
    g->n_edges = to->n_edges;
}

/* All threads of a state are about to be looked at. False: too much. */
static bool look_at(hth_grammar *g, const state *from)
{
    g->n_steps += 1 + (from->end - from->begin) / LOOKS_PER_STEP;
    g->too_much = g->too_much || g->n_steps > STEPS_MAX;
    return !g->too_much;
}

static void take_character(hth_grammar *g, const state *from, uint32_t code_point)
{
    begin_closure(g);
    if (!look_at(g, from))
        return;
    for (uint32_t i = from->begin; i < from->end; i++) {
        thread t = g->threads[i];
        hth_gbnf_element element = g->gbnf->elements[t.element];

        if (element.type == HTH_GBNF_CLASS && hth_gbnf_class_has(g->gbnf, element.value, code_point) &&
            !follow(g, (thread){ .element = t.element + 1, .node = t.node }))
            return; /* close_over fails, too: too_much or no_memory is set */
    }
}

static bool could_take(hth_grammar *g, const state *from, uint32_t first, uint32_t last)
{
    if (!look_at(g, from))
        return false;
    for (uint32_t i = from->begin; i < from->end; i++) {
        hth_gbnf_element element = g->gbnf->elements[g->threads[i].element];

        if (element.type == HTH_GBNF_CLASS && hth_gbnf_class_has_any(g->gbnf, element.value, first, last))
            return true;
    }
    return false;
}

/* The beginning of a character; false for a byte that none begins with. */
static bool begin_character(uint8_t byte, partial *out)
{
    if (byte >= 0xC2 && byte < 0xE0)
        *out = (partial){ .value = byte & 0x1Fu, .least = 0x80, .n_more = 1 };
    else if (byte >= 0xE0 && byte < 0xF0)
        *out = (partial){ .value = byte & 0x0Fu, .least = 0x800, .n_more = 2 };
    else if (byte >= 0xF0 && byte < 0xF5)
        *out = (partial){ .value = byte & 0x07u, .least = 0x10000, .n_more = 3 };
    else
        return false;
    return true;
}

/*
 * One byte after from. True: into is the state after it, closed over; where needs_closure is not NULL, *needs_closure
 * tells instead that a closure was begun and is to be ended by the caller.
 */
static bool take_byte(hth_grammar *g, const state *from, uint8_t byte, state *into, bool *needs_closure)
{
    partial p = from->partial;
    uint32_t code_point = byte;
    uint32_t first, last;

    if (needs_closure)
        *needs_closure = false;
    if (p.n_more == 0 && byte >= 0x80) {
        if (!begin_character(byte, &p))
            return false;
    } else if (p.n_more > 0) {
        if ((byte & 0xC0) != 0x80)
            return false;
        p.value = p.value << 6 | (byte & 0x3Fu);
        p.n_more--;
        code_point = p.value;
    }
    if (p.n_more > 0) {
        first = p.value << 6 * p.n_more;
        last = first | ((1u << 6 * p.n_more) - 1);
        if (first < p.least)
            first = p.least;
        if (last > 0x10FFFF)
            last = 0x10FFFF;
        if (first > last || (first >= 0xD800 && last <= 0xDFFF) || !could_take(g, from, first, last))
            return false;
        *into = *from;
        into->partial = p;
        into->is_complete = false;
        return true;
    }
    if (code_point > 0x10FFFF || (code_point < p.least && byte >= 0x80) || (code_point & 0xFFFFF800u) == 0xD800)
        return false;
    take_character(g, from, code_point);
    into->partial = (partial){ 0 };
    if (needs_closure) {
        *needs_closure = true;
        return !g->too_much && !g->no_memory;
    }
    return !g->too_much && !g->no_memory && close_over(g, into);
}

/* Begin something that may take STEPS_MAX. */
static void begin_steps(hth_grammar *g)
{
    g->n_steps = 0;
    g->too_much = false;
    g->no_memory = false;
}

static hearth_status fail_closure(const hth_grammar *g, hearth_error *err)
{
    if (g->no_memory)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to follow the grammar");
    return hth_fail(err, HEARTH_ENGINE,
                    "the grammar is too ambiguous here: too many ways to go on; write alternatives that begin apart");
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* Does an element for whole tokens stand for this one? One that ends replies must be named. */
static bool element_takes(const hth_grammar *g, hth_gbnf_element element, hearth_token token)
{
    if (element.type == HTH_GBNF_TOKEN)
        return element.value == (uint32_t)token;
    return element.type == HTH_GBNF_TOKEN_NOT && element.value != (uint32_t)token && !g->vocabulary->is_end[token];
}

/* Set allowed for every token that a thread takes as a whole: in one pass, for there may be many of both. */
static void mask_whole(const hth_grammar *g, bool *allowed)
{
    const state *now = &g->states[0];
    uint32_t excluded = 0;
    bool any_not = false, excludes_one = false;

    if (!g->gbnf->has_tokens || now->partial.n_more > 0)
        return;
    for (uint32_t i = now->begin; i < now->end; i++) {
        hth_gbnf_element element = g->gbnf->elements[g->threads[i].element];

        if (element.type == HTH_GBNF_TOKEN)
            allowed[element.value] = true;
        if (element.type != HTH_GBNF_TOKEN_NOT)
            continue;
        excludes_one = !any_not || (excludes_one && element.value == excluded); /* what one excludes another takes */
        excluded = element.value;
        any_not = true;
    }
    for (uint32_t i = 0; any_not && i < g->vocabulary->n_tokens; i++)
        if (!g->vocabulary->is_end[i] && !(excludes_one && i == excluded))
            allowed[i] = true;
}

/* Does a thread take the token as a whole? */
static bool takes_whole(hth_grammar *g, hearth_token token)
{
    const state *now = &g->states[0];

    if (!g->gbnf->has_tokens || now->partial.n_more > 0)
        return false;
    if (now->end - now->begin > THREADS_FEW && !g->whole)
        g->whole = malloc(g->vocabulary->n_tokens * sizeof(g->whole[0]));
    if (now->end - now->begin > THREADS_FEW && g->whole) {
        if (!g->knows_whole) {
            memset(g->whole, 0, g->vocabulary->n_tokens * sizeof(g->whole[0]));
            mask_whole(g, g->whole);
            g->knows_whole = true;
        }
        return g->whole[token];
    }
    for (uint32_t i = now->begin; i < now->end; i++)
        if (element_takes(g, g->gbnf->elements[g->threads[i].element], token))
            return true;
    return false;
}

static bool takes_end(const hth_grammar *g)
{
    return g->states[0].is_complete && g->states[0].partial.n_more == 0;
}

/* Try bytes from states[depth] on; how many were taken. */
static uint32_t try_bytes(hth_grammar *g, const uint8_t *bytes, uint32_t depth, uint32_t n_bytes)
{
    while (depth < n_bytes) {
        go_back(g, &g->states[depth]);
        if (!take_byte(g, &g->states[depth], bytes[depth], &g->states[depth + 1], NULL))
            break;
        depth++;
    }
    return depth;
}

void hth_grammar_begin_choice(hth_grammar *g)
{
    begin_steps(g);
}

bool hth_grammar_allows(hth_grammar *g, hearth_token token)
{
    const hth_piece *piece = &g->vocabulary->pieces[token];
    bool is_end = g->vocabulary->is_end[token];
    uint32_t n;

    g->too_much = false;
    if (g->is_spent)
        return false;
    if (takes_whole(g, token) || (is_end && takes_end(g)))
        return true;
    if (is_end || piece->n_bytes == 0)
        return false;
    n = try_bytes(g, piece->bytes, 0, piece->n_bytes);
    go_back(g, &g->states[0]);
    return n == piece->n_bytes;
}

bool hth_grammar_allows_text(hth_grammar *g, const uint8_t *bytes, size_t n_bytes)
{
    state from = g->states[0];
    bool ok = !g->is_spent;

    g->too_much = false;
    for (size_t i = 0; ok && i < n_bytes; i++) {
        state into;

        ok = take_byte(g, &from, bytes[i], &into, NULL);
        from = into;
    }
    go_back(g, &g->states[0]);
    return ok;
}

hearth_status hth_grammar_mask(hth_grammar *g, bool *allowed, hearth_error *err)
{
    const hth_vocabulary *vocabulary = g->vocabulary;
    uint32_t depth = 0;
    uint32_t refused = 0; /* bytes of the last piece that are too much; 0: all of it was taken */

    for (uint32_t i = 0; i < vocabulary->n_tokens; i++)
        allowed[i] = !g->is_spent && vocabulary->is_end[i] && takes_end(g);
    if (!g->is_spent)
        mask_whole(g, allowed);
    for (uint32_t i = 0; i < vocabulary->n_sorted && !g->is_spent; i++) {
        const hth_piece *piece = &vocabulary->sorted[i];

        if (refused > 0 && vocabulary->shared[i] >= refused)
            continue;
        if (depth > vocabulary->shared[i])
            depth = vocabulary->shared[i];
        depth = try_bytes(g, piece->bytes, depth, piece->n_bytes);
        refused = depth < piece->n_bytes ? depth + 1 : 0;
        if (refused == 0)
            allowed[piece->token] = true;
        if (g->too_much || g->no_memory) {
            go_back(g, &g->states[0]);
            return fail_closure(g, err);
        }
    }
    go_back(g, &g->states[0]);
    return HEARTH_OK;
}

/* ---- accepting --------------------------------------------------------------------------------------------------- */

/* Give calls made in this closure, which are all final now, the edges of their callers where they were last. */
static bool shorten(hth_grammar *g, size_t first_new)
{
    for (size_t id = first_new; id < g->n_nodes; id++) {
        bool any = false;

        for (uint32_t i = g->nodes[id].edges; i != NONE && !any; i = g->edges[i].next)
            any = g->edges[i].go_on.node >= first_new &&
                  g->gbnf->elements[g->edges[i].go_on.element].type == HTH_GBNF_END;
        if (!any)
            continue;
        /* Follow the chains of last calls; what is at their ends replaces the edges. */
        begin_closure(g);
        for (uint32_t i = g->nodes[id].edges; i != NONE; i = g->edges[i].next)
            if (!follow(g, g->edges[i].go_on))
                return false;
        g->nodes[id].edges = NONE;
        while (g->n_work > 0) {
            thread t = g->work[--g->n_work];

            if (t.node >= first_new && g->gbnf->elements[t.element].type == HTH_GBNF_END) {
                for (uint32_t i = g->nodes[t.node].edges; i != NONE; i = g->edges[i].next)
                    if (!follow(g, g->edges[i].go_on))
                        return false;
                continue;
            }
            if (!reserve(g, (void **)&g->edges, g->n_edges, &g->edges_capacity, sizeof(g->edges[0])))
                return false;
            g->edges[g->n_edges] = (edge){ .go_on = t, .next = g->nodes[id].edges };
            g->nodes[id].edges = (uint32_t)g->n_edges++;
        }
    }
    return true;
}

/* Drop the calls that no thread of states[0] leads to. Without memory for that they stay. */
static void collect(hth_grammar *g)
{
    uint32_t *place = calloc(g->n_nodes, sizeof(place[0])); /* 0: not reached; later one more than the new place */
    edge *edges = malloc((g->n_edges ? g->n_edges : 1) * sizeof(edges[0]));
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
            for (uint32_t i = g->nodes[todo[--n_todo]].edges, next; i != NONE; i = next) {
                uint32_t to = g->edges[i].go_on.node;

                next = g->edges[i].next;
                if (!place[to]) {
                    place[to] = 1;
                    todo[n_todo++] = to;
                    /* The list of the node at hand goes on after those that were put on top of it. */
                }
            }
        for (size_t i = 0; i < g->n_nodes; i++)
            if (place[i])
                place[i] = (uint32_t)++n_nodes;
        for (size_t i = 0; i < g->n_nodes; i++) {
            uint32_t first = NONE;

            if (!place[i])
                continue;
            for (uint32_t j = g->nodes[i].edges; j != NONE; j = g->edges[j].next) {
                edges[n_edges] = g->edges[j];
                edges[n_edges].go_on.node = place[edges[n_edges].go_on.node] - 1;
                edges[n_edges].next = first;
                first = (uint32_t)n_edges++;
            }
            g->nodes[place[i] - 1] = (node){ .edges = first, .ended = g->nodes[i].ended };
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
    g->collect_at = 2 * g->n_nodes + COLLECT_NODES_MIN;
}

/* Make the state states[0], and forget what led to it. */
static void keep(hth_grammar *g, state now)
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

/* Close over what was followed, for good. */
static bool close_and_keep(hth_grammar *g)
{
    size_t first_new = g->n_nodes;
    state into = { .begin = 0 };

    if (!close_over(g, &into) || !shorten(g, first_new))
        return false;
    keep(g, into);
    return true;
}

/* Accept text, and what threads for whole tokens make of token (-1: no token). */
static bool accept_bytes(hth_grammar *g, const uint8_t *bytes, size_t n_bytes, hearth_token token)
{
    bool whole = token >= 0 && takes_whole(g, token);
    thread *after = NULL; /* threads that took the token as a whole */
    size_t n_after = 0;
    bool ok = true;

    if (whole) {
        const state *now = &g->states[0];

        after = malloc((now->end - now->begin) * sizeof(after[0]));
        if (!after) {
            g->no_memory = true;
            return false;
        }
        for (uint32_t i = now->begin; i < now->end; i++)
            if (element_takes(g, g->gbnf->elements[g->threads[i].element], token))
                after[n_after++] = (thread){ .element = g->threads[i].element + 1, .node = g->threads[i].node };
        /* As text it may not fit, or end inside a character: then it counts as a whole only. */
        if (n_bytes == 0 || !hth_grammar_allows_text(g, bytes, n_bytes) || (bytes[n_bytes - 1] >= 0x80)) {
            begin_closure(g);
            n_bytes = 0;
            for (size_t i = 0; i < n_after && ok; i++)
                ok = follow(g, after[i]);
            ok = ok && close_and_keep(g);
        }
    }
    for (size_t i = 0; ok && i < n_bytes; i++) {
        state into = { .begin = 0 };
        bool needs_closure;

        ok = take_byte(g, &g->states[0], bytes[i], &into, &needs_closure);
        if (ok && !needs_closure)
            g->states[0] = into;
        for (size_t j = 0; ok && needs_closure && i + 1 == n_bytes && j < n_after; j++)
            ok = follow(g, after[j]);
        if (ok && needs_closure)
            ok = close_and_keep(g);
    }
    free(after);
    return ok;
}

hearth_status hth_grammar_accept_text(hth_grammar *g, const uint8_t *bytes, size_t n_bytes, hearth_error *err)
{
    begin_steps(g);
    if (!g->is_spent && accept_bytes(g, bytes, n_bytes, -1))
        return HEARTH_OK;
    g->is_spent = true;
    if (g->too_much || g->no_memory)
        return fail_closure(g, err);
    return hth_fail(err, HEARTH_MISUSE, "the grammar does not allow the text that triggered it");
}

hearth_status hth_grammar_accept(hth_grammar *g, hearth_token token, hearth_error *err)
{
    const hth_piece *piece = &g->vocabulary->pieces[token];
    bool is_end = g->vocabulary->is_end[token];
    bool ok = false;

    begin_steps(g);
    if (!g->is_spent && is_end && takes_end(g) && !takes_whole(g, token)) {
        g->is_spent = true; /* nothing comes after it */
        return HEARTH_OK;
    }
    if (!g->is_spent && (takes_whole(g, token) || (!is_end && piece->n_bytes > 0)))
        ok = accept_bytes(g, piece->bytes, is_end ? 0 : piece->n_bytes, token);
    if (ok)
        return HEARTH_OK;
    g->is_spent = true;
    if (g->too_much || g->no_memory)
        return fail_closure(g, err);
    return hth_fail(err, HEARTH_MISUSE, "the grammar does not allow token %d here", token);
}

bool hth_grammar_is_complete(const hth_grammar *g)
{
    return g->is_spent || takes_end(g);
}

/* ---- making and releasing ---------------------------------------------------------------------------------------- */

hearth_status hth_grammar_new(hth_gbnf *gbnf_take, const hth_vocabulary *vocabulary, hth_grammar **out,
                              hearth_error *err)
{
    hth_grammar *g = calloc(1, sizeof(*g));
    bool ok;

    if (!g) {
        hth_gbnf_unref(gbnf_take);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a grammar");
    }
    g->gbnf = gbnf_take;
    g->vocabulary = vocabulary;
    g->n_seen_slots = 256;
    g->collect_at = COLLECT_NODES_MIN;
    g->seen = calloc(g->n_seen_slots, sizeof(g->seen[0]));
    g->calls = calloc(gbnf_take->n_rules, sizeof(g->calls[0]));
    g->states = calloc((size_t)vocabulary->n_bytes_max + 2, sizeof(g->states[0]));
    if (!g->seen || !g->calls || !g->states ||
        !reserve(g, (void **)&g->nodes, 0, &g->nodes_capacity, sizeof(g->nodes[0]))) {
        hth_grammar_free(g);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a grammar");
    }
    g->nodes[0] = (node){ .edges = NONE };
    g->n_nodes = 1;
    begin_steps(g);
    begin_closure(g);
    ok = true;
    for (uint32_t i = gbnf_take->rules[gbnf_take->root]; ok && i != NONE; i = gbnf_take->alternatives[i].next)
        ok = follow(g, (thread){ .element = gbnf_take->alternatives[i].begin, .node = 0 });
    if (!ok || !close_and_keep(g)) {
        hearth_status status =
            g->no_memory ? hth_fail(err, HEARTH_NO_MEMORY, "no memory for a grammar")
            : g->too_much
                ? hth_fail(err, HEARTH_MISUSE, "more than %d ways to begin; make the grammar smaller", (int)THREADS_MAX)
                : hth_fail(err, HEARTH_MISUSE, "the grammar matches no text at all");

        hth_grammar_free(g);
        return status;
    }
    *out = g;
    return HEARTH_OK;
}

void hth_grammar_free(hth_grammar *g)
{
    if (!g)
        return;
    hth_gbnf_unref(g->gbnf);
    free(g->threads);
    free(g->nodes);
    free(g->edges);
    free(g->work);
    free(g->states);
    free(g->calls);
    free(g->seen);
    free(g->whole);
    free(g);
}
