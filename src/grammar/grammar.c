/*
 * grammar.c - generalized LL recognition over a graph-structured stack, one byte at a time
 *
 * grammar_graph.h explains states, threads and closures. Characters are assembled from bytes, because a token may end
 * inside a character. A state stores the bytes so far, and refuses a byte as soon as no allowed character begins with
 * them.
 *
 * Trying a token pushes states, threads, nodes and edges onto their arrays. Going back truncates the arrays: nothing
 * below the cut refers to anything above it. Only accepted text remains.
 */
#include "grammar/grammar.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/grammar_graph.h"

enum {
    THREADS_FEW = 64,    /* up to this many are checked for each token, more for all tokens at once */
    LOOKS_PER_STEP = 16, /* threads that are only visited cost less */
};

/* ---- characters -------------------------------------------------------------------------------------------------- */

/* Count a visit of all threads of a state. False if it is too much work. */
static bool look_at(hth_grammar *g, const hth_graph_state *from)
{
    g->n_steps += 1 + (from->end - from->begin) / LOOKS_PER_STEP;
    g->too_much = g->too_much || g->n_steps > HTH_GRAPH_STEPS_MAX;
    return !g->too_much;
}

static void take_character(hth_grammar *g, const hth_graph_state *from, uint32_t code_point)
{
    hth_graph_begin(g);
    if (!look_at(g, from))
        return;
    for (uint32_t i = from->begin; i < from->end; i++) {
        hth_graph_thread t = g->threads[i];
        hth_gbnf_element element = g->gbnf->elements[t.element];

        if (element.type == HTH_GBNF_CLASS && hth_gbnf_class_has(g->gbnf, element.value, code_point) &&
            !hth_graph_follow(g, (hth_graph_thread){ .element = t.element + 1, .node = t.node }))
            return; /* hth_graph_close fails, too: too_much or no_memory is set */
    }
}

static bool could_take(hth_grammar *g, const hth_graph_state *from, uint32_t first, uint32_t last)
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

/* Begin a character. False if no character begins with this byte. */
static bool begin_character(uint8_t byte, hth_graph_partial *out)
{
    if (byte >= 0xC2 && byte < 0xE0)
        *out = (hth_graph_partial){ .value = byte & 0x1Fu, .least = 0x80, .n_more = 1 };
    else if (byte >= 0xE0 && byte < 0xF0)
        *out = (hth_graph_partial){ .value = byte & 0x0Fu, .least = 0x800, .n_more = 2 };
    else if (byte >= 0xF0 && byte < 0xF5)
        *out = (hth_graph_partial){ .value = byte & 0x07u, .least = 0x10000, .n_more = 3 };
    else
        return false;
    return true;
}

/*
 * Accept one byte after from. If true, into is the state after it, with its closure. If needs_closure is not NULL, it
 * is instead set if a closure was begun, which the caller must end.
 */
static bool take_byte(hth_grammar *g, const hth_graph_state *from, uint8_t byte, hth_graph_state *into,
                      bool *needs_closure)
{
    hth_graph_partial p = from->partial;
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
    into->partial = (hth_graph_partial){ 0 };
    if (needs_closure) {
        *needs_closure = true;
        return !g->too_much && !g->no_memory;
    }
    return !g->too_much && !g->no_memory && hth_graph_close(g, into);
}

void hth_grammar_begin_choice(hth_grammar *g)
{
    g->n_steps = 0;
    g->too_much = false;
    g->no_memory = false;
}

static hearth_status fail_closure(const hth_grammar *g, hearth_error *err)
{
    if (g->no_memory)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to follow the grammar");
    /* The fault is in the caller's grammar, not in the engine. */
    return hth_fail(err, HEARTH_MISUSE,
                    "the grammar is too ambiguous here: too many ways to go on; write alternatives that begin apart");
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* Does an element for whole tokens match this token? A token that ends replies must be named explicitly. */
static bool element_takes(const hth_grammar *g, hth_gbnf_element element, hearth_token token)
{
    if (element.type == HTH_GBNF_TOKEN)
        return element.value == (uint32_t)token;
    return element.type == HTH_GBNF_TOKEN_NOT && element.value != (uint32_t)token && !g->vocabulary->is_end[token];
}

/* Set allowed for every token that a thread accepts as a whole: in one pass, because both may be many. */
static void mask_whole(const hth_grammar *g, bool *allowed)
{
    const hth_graph_state *now = &g->states[0];
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
        excludes_one = !any_not || (excludes_one && element.value == excluded); /* otherwise another accepts it */
        excluded = element.value;
        any_not = true;
    }
    for (uint32_t i = 0; any_not && i < g->vocabulary->n_tokens; i++)
        if (!g->vocabulary->is_end[i] && !(excludes_one && i == excluded))
            allowed[i] = true;
}

/* Does a thread accept the token as a whole? */
static bool takes_whole(hth_grammar *g, hearth_token token)
{
    const hth_graph_state *now = &g->states[0];

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

/* Try bytes from states[depth] on. Returns how many were accepted. */
static uint32_t try_bytes(hth_grammar *g, const uint8_t *bytes, uint32_t depth, uint32_t n_bytes)
{
    while (depth < n_bytes) {
        hth_graph_go_back(g, &g->states[depth]);
        if (!take_byte(g, &g->states[depth], bytes[depth], &g->states[depth + 1], NULL))
            break;
        depth++;
    }
    return depth;
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
    hth_graph_go_back(g, &g->states[0]);
    return n == piece->n_bytes;
}

bool hth_grammar_allows_text(hth_grammar *g, const uint8_t *bytes, size_t n_bytes)
{
    hth_graph_state from = g->states[0];
    bool ok = !g->is_spent;

    g->too_much = false;
    for (size_t i = 0; ok && i < n_bytes; i++) {
        hth_graph_state into;

        ok = take_byte(g, &from, bytes[i], &into, NULL);
        from = into;
    }
    hth_graph_go_back(g, &g->states[0]);
    return ok;
}

hearth_status hth_grammar_mask(hth_grammar *g, bool *allowed, hearth_error *err)
{
    const hth_vocabulary *vocabulary = g->vocabulary;
    uint32_t depth = 0;
    uint32_t refused = 0; /* bytes of the last piece up to the refused one; 0: all of it was accepted */

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
            hth_graph_go_back(g, &g->states[0]);
            return fail_closure(g, err);
        }
    }
    hth_graph_go_back(g, &g->states[0]);
    return HEARTH_OK;
}

/* ---- accepting --------------------------------------------------------------------------------------------------- */

/* Accept text; threads for whole tokens accept token instead (-1: no token). */
static bool accept_bytes(hth_grammar *g, const uint8_t *bytes, size_t n_bytes, hearth_token token)
{
    bool whole = token >= 0 && takes_whole(g, token);
    hth_graph_thread *after = NULL; /* threads that accepted the token as a whole */
    size_t n_after = 0;
    bool ok = true;

    if (whole) {
        const hth_graph_state *now = &g->states[0];

        after = malloc((now->end - now->begin) * sizeof(after[0]));
        if (!after) {
            g->no_memory = true;
            return false;
        }
        for (uint32_t i = now->begin; i < now->end; i++)
            if (element_takes(g, g->gbnf->elements[g->threads[i].element], token))
                after[n_after++] =
                    (hth_graph_thread){ .element = g->threads[i].element + 1, .node = g->threads[i].node };
        /* As text it may not match, or may end inside a character: then it only counts as a whole token. */
        if (n_bytes == 0 || !hth_grammar_allows_text(g, bytes, n_bytes) || (bytes[n_bytes - 1] >= 0x80)) {
            hth_graph_begin(g);
            n_bytes = 0;
            for (size_t i = 0; i < n_after && ok; i++)
                ok = hth_graph_follow(g, after[i]);
            ok = ok && hth_graph_close_and_keep(g);
        }
    }
    for (size_t i = 0; ok && i < n_bytes; i++) {
        hth_graph_state into = { .begin = 0 };
        bool needs_closure;

        ok = take_byte(g, &g->states[0], bytes[i], &into, &needs_closure);
        if (ok && !needs_closure)
            g->states[0] = into;
        for (size_t j = 0; ok && needs_closure && i + 1 == n_bytes && j < n_after; j++)
            ok = hth_graph_follow(g, after[j]);
        if (ok && needs_closure)
            ok = hth_graph_close_and_keep(g);
    }
    free(after);
    return ok;
}

hearth_status hth_grammar_accept_text(hth_grammar *g, const uint8_t *bytes, size_t n_bytes, hearth_error *err)
{
    hth_grammar_begin_choice(g);
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

    hth_grammar_begin_choice(g);
    if (!g->is_spent && is_end && takes_end(g) && !takes_whole(g, token)) {
        g->is_spent = true; /* nothing follows it */
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
    g->collect_at = HTH_GRAPH_COLLECT_MIN;
    g->seen = calloc(g->n_seen_slots, sizeof(g->seen[0]));
    g->calls = calloc(gbnf_take->n_rules, sizeof(g->calls[0]));
    g->states = calloc((size_t)vocabulary->n_bytes_max + 2, sizeof(g->states[0]));
    if (!g->seen || !g->calls || !g->states ||
        !hth_graph_reserve(g, (void **)&g->nodes, 0, &g->nodes_capacity, sizeof(g->nodes[0]))) {
        hth_grammar_free(g);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a grammar");
    }
    g->nodes[0] = (hth_graph_node){ .edges = HTH_GRAPH_NONE };
    g->n_nodes = 1;
    hth_grammar_begin_choice(g);
    hth_graph_begin(g);
    ok = true;
    for (uint32_t i = gbnf_take->rules[gbnf_take->root]; ok && i != HTH_GRAPH_NONE; i = gbnf_take->alternatives[i].next)
        ok = hth_graph_follow(g, (hth_graph_thread){ .element = gbnf_take->alternatives[i].begin, .node = 0 });
    if (!ok || !hth_graph_close_and_keep(g)) {
        hearth_status status = g->no_memory ? hth_fail(err, HEARTH_NO_MEMORY, "no memory for a grammar")
                             : g->too_much
                                 ? hth_fail(err, HEARTH_MISUSE, "more than %d ways to begin; make the grammar smaller",
                                            (int)HTH_GRAPH_THREADS_MAX)
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
