/*
 * lookup.c - keys first, then rows
 */
#include "cache/lookup.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    CANDIDATES_MAX = 128, /* children of one prefix that one tier compares token by token */
    ENDS_MAX = 4096,      /* likewise, if the prompt was seen before: then one of them must cover its end */
    LEAF_TOKENS_MIN = 16, /* a shorter overlap is cheaper to compute than to read */
    NAMES_MAX = 8,        /* lookups of missing files, while an index does not know all rows */
};

static void append_row(hth_lookup *lookup, const hth_row_meta *meta, uint32_t n_use)
{
    lookup->rows[lookup->n_rows++] = (hth_lookup_row){ .meta = *meta, .n_use = n_use };
    lookup->n_cached = meta->first_position + n_use;
    if (lookup->n_agreed < lookup->n_cached)
        lookup->n_agreed = lookup->n_cached;
}

static bool is_block_at(const hth_row_meta *meta, size_t position)
{
    return meta->first_position == position && meta->n_tokens == HTH_BLOCK_TOKENS;
}

static void take_leaf(hth_lookup *lookup, const hth_row_meta *row, uint32_t n_shared, size_t rest)
{
    if (row->id.kind == HTH_ROW_TAIL && n_shared == row->n_tokens) {
        lookup->has_tail = true;
        lookup->tail = *row;
    }
    if (n_shared >= LEAF_TOKENS_MIN || n_shared == rest)
        append_row(lookup, row, n_shared);
}

/* Cover the tokens after the last block as far as any leaf reaches. */
static void find_leaf(hth_lookup *lookup, hth_cache *cache, const hth_lookup_options *options,
                      const hearth_token *tokens, unsigned *n_names)
{
    uint32_t position = lookup->n_cached;
    size_t rest = options->n_limit - position;
    bool to_the_end = position + rest == lookup->n_tokens && rest < HTH_BLOCK_TOKENS;
    hth_row_id exact = { .key = lookup->prompt_key, .kind = HTH_ROW_TAIL };
    hth_row_id logits = { .key = lookup->prompt_key, .kind = HTH_ROW_LOGITS };
    hth_leaf_search search = {
        .boundary = lookup->boundary_keys[position / HTH_BLOCK_TOKENS],
        .position = position,
        .tokens = tokens + position,
        .n_tokens = rest,
        .n_window = options->n_window,
        .n_rows_max = CANDIDATES_MAX,
    };
    hth_row_meta meta;

    if (rest == 0)
        return;
    if (to_the_end && hth_cache_look(cache, &exact, &meta, n_names) != HEARTH_TIER_NONE &&
        meta.first_position == position && meta.n_tokens == rest) {
        meta.parent = search.boundary; /* certain, as in find_blocks */
        take_leaf(lookup, &meta, (uint32_t)rest, rest);
        return;
    }
    hth_cache_find_leaf(cache, &search);
    /*
     * The logits show that the prompt was seen before. So a longer row has superseded its tail, and it is worth
     * searching longer for that row.
     */
    if (search.is_cut && search.n_shared < rest && to_the_end &&
        hth_cache_look(cache, &logits, &meta, n_names) != HEARTH_TIER_NONE) {
        search.n_rows_max = ENDS_MAX;
        hth_cache_find_leaf(cache, &search);
    }
    if (lookup->n_agreed < position + search.n_agreed)
        lookup->n_agreed = position + search.n_agreed;
    if (search.n_shared > 0)
        take_leaf(lookup, &search.row, search.n_shared, rest);
}

static void find_blocks(hth_lookup *lookup, hth_cache *cache, const hth_lookup_options *options,
                        const hearth_token *tokens, unsigned *n_names)
{
    size_t n_blocks = options->n_limit / HTH_BLOCK_TOKENS;

    for (size_t i = 0; i < n_blocks; i++) {
        hth_row_id id = { .key = lookup->boundary_keys[i + 1], .kind = HTH_ROW_BLOCK };
        hth_row_meta meta;

        if (hth_cache_look(cache, &id, &meta, n_names) == HEARTH_TIER_NONE || !is_block_at(&meta, i * HTH_BLOCK_TOKENS))
            break;
        /* The parent is certain here, even if the index adopted the row by its name alone. */
        meta.parent = lookup->boundary_keys[i];
        append_row(lookup, &meta, HTH_BLOCK_TOKENS);
    }
    find_leaf(lookup, cache, options, tokens, n_names);
}

/* ---- states ---- */

/* A search for the latest boundary that can be restored, starting at the beginning of the prompt. */
typedef struct state_search {
    hth_cache *cache;
    const hth_lookup_options *options;
    const hearth_token *tokens;
    unsigned *n_names;
    hth_key_stream *inside; /* walks from a boundary into the block */
    bool is_broken;         /* a block is missing: no later boundary can be restored */
    size_t n_blocks;        /* found so far; their rows come first in lookup->rows */
    bool found;
    hth_row_meta state; /* the latest usable one */
    bool has_tail;
    hth_row_meta tail;
    hth_row_meta inside_block[HTH_LOOKUP_STALE_MAX + HTH_LOOKUP_STATES_KEPT]; /* the latest of this prompt, in order */
    size_t n_inside_block;
} state_search;

/* Find the row of that name, if it has this position and number of tokens. */
static bool find_at(const state_search *search, const hth_key *key, hth_row_kind kind, const hth_key *parent,
                    size_t position, size_t n_tokens, hth_row_meta *out)
{
    hth_row_id id = { .key = *key, .kind = kind };

    if (hth_cache_look(search->cache, &id, out, search->n_names) == HEARTH_TIER_NONE ||
        out->first_position != position || out->n_tokens != n_tokens)
        return false;
    out->parent = *parent;
    return true;
}

/* Select a state of this prompt inside block i, or at its start, if it can be used. */
static void consider(state_search *search, const hth_row_meta *state, const hth_key *boundary_key, size_t i)
{
    size_t n_inside = state->first_position - i * HTH_BLOCK_TOKENS;
    hth_row_meta tail;

    if (search->options->way == HTH_LOOKUP_CELLS_AND_STATES && n_inside > 0 &&
        !find_at(search, &state->id.key, HTH_ROW_TAIL, boundary_key, i * HTH_BLOCK_TOKENS, n_inside, &tail))
        return;
    search->found = true;
    search->state = *state;
    search->state.parent = *boundary_key;
    search->has_tail = search->options->way == HTH_LOOKUP_CELLS_AND_STATES && n_inside > 0;
    if (search->has_tail)
        search->tail = tail;
}

static void note_inside(state_search *search, const hth_row_meta *state)
{
    enum { CAPACITY = sizeof(search->inside_block) / sizeof(search->inside_block[0]) };

    if (search->n_inside_block == CAPACITY)
        memmove(search->inside_block, search->inside_block + 1, --search->n_inside_block * sizeof(*state));
    search->inside_block[search->n_inside_block++] = *state;
}

static int by_position(const void *a, const void *b)
{
    const hth_row_meta *left = a, *right = b;

    return left->first_position < right->first_position ? -1 : left->first_position > right->first_position;
}

/* The states inside the block after a boundary, by position, including those of other prompts. */
static size_t states_inside(const state_search *search, const hth_key *boundary_key, size_t i, hth_row_meta *out)
{
    size_t begin = i * HTH_BLOCK_TOKENS;
    size_t n = hth_cache_children(search->cache, boundary_key, out, CANDIDATES_MAX);
    size_t n_kept = 0;

    for (size_t j = 0; j < n; j++)
        if (out[j].id.kind == HTH_ROW_STATE && out[j].n_tokens == 0 && out[j].first_position > begin &&
            out[j].first_position < begin + HTH_BLOCK_TOKENS && out[j].first_position <= search->options->n_limit)
            out[n_kept++] = out[j];
    qsort(out, n_kept, sizeof(*out), by_position);
    return n_kept;
}

static void look_inside(hth_lookup *lookup, state_search *search, size_t i, const hth_key_stream *stream)
{
    const hth_key *boundary_key = &lookup->boundary_keys[i];
    hth_row_meta candidates[CANDIDATES_MAX];
    size_t n = states_inside(search, boundary_key, i, candidates);
    size_t position = i * HTH_BLOCK_TOKENS;
    hth_key key = { { 0 } };

    if (n == 0)
        return;
    hth_key_stream_copy(search->inside, stream);
    for (size_t j = 0; j < n; j++) {
        if (candidates[j].first_position > position) {
            hth_key_stream_push(search->inside, search->tokens + position, candidates[j].first_position - position);
            hth_key_stream_key(search->inside, &key);
            position = candidates[j].first_position;
        }
        if (!hth_key_equal(&key, &candidates[j].id.key))
            continue;
        note_inside(search, &candidates[j]);
        consider(search, &candidates[j], boundary_key, i);
    }
}

static void look_at_boundary(hth_lookup *lookup, state_search *search, size_t i, const hth_key_stream *stream)
{
    const hth_key *key = &lookup->boundary_keys[i];
    size_t position = i * HTH_BLOCK_TOKENS;
    hth_row_meta meta;

    if (search->is_broken || position > search->options->n_limit)
        return;
    if (search->options->way == HTH_LOOKUP_CELLS_AND_STATES && i > 0) {
        if (!find_at(search, key, HTH_ROW_BLOCK, &lookup->boundary_keys[i - 1], position - HTH_BLOCK_TOKENS,
                     HTH_BLOCK_TOKENS, &meta)) {
            search->is_broken = true;
            return;
        }
        lookup->rows[search->n_blocks++] = (hth_lookup_row){ .meta = meta, .n_use = HTH_BLOCK_TOKENS };
    }
    if (i > 0 && find_at(search, key, HTH_ROW_STATE, key, position, 0, &meta))
        consider(search, &meta, key, i);
    look_inside(lookup, search, i, stream);
}

/* Compute the keys of a prompt; search (may be NULL) looks at each block boundary, with the stream there. */
static void compute_keys(hth_lookup *lookup, hth_key_stream *stream, const hearth_token *tokens, state_search *search)
{
    size_t n_blocks = lookup->n_tokens / HTH_BLOCK_TOKENS;

    hth_key_stream_reset(stream);
    for (size_t i = 0; i <= n_blocks; i++) {
        size_t n_rest = lookup->n_tokens - i * HTH_BLOCK_TOKENS;

        hth_key_stream_key(stream, &lookup->boundary_keys[i]);
        if (search)
            look_at_boundary(lookup, search, i, stream);
        hth_key_stream_push(stream, tokens + i * HTH_BLOCK_TOKENS,
                            n_rest < HTH_BLOCK_TOKENS ? n_rest : HTH_BLOCK_TOKENS);
    }
    hth_key_stream_key(stream, &lookup->prompt_key);
}

/* If too many prompts end inside a block, the compared children may lack the state at the end of this prompt. */
static void look_at_end(hth_lookup *lookup, state_search *search)
{
    size_t i = lookup->n_tokens / HTH_BLOCK_TOKENS;
    hth_row_meta meta;

    if (search->is_broken || lookup->n_tokens % HTH_BLOCK_TOKENS == 0 || search->options->n_limit < lookup->n_tokens ||
        (search->found && search->state.first_position == lookup->n_tokens))
        return;
    if (find_at(search, &lookup->prompt_key, HTH_ROW_STATE, &lookup->boundary_keys[i], lookup->n_tokens, 0, &meta))
        consider(search, &meta, &lookup->boundary_keys[i], i);
}

static void take_found(hth_lookup *lookup, const state_search *search)
{
    size_t n_stale =
        search->n_inside_block > HTH_LOOKUP_STATES_KEPT ? search->n_inside_block - HTH_LOOKUP_STATES_KEPT : 0;

    for (size_t i = 0; i < n_stale; i++)
        if (search->inside_block[i].hit_count < 2)
            lookup->stale[lookup->n_stale++] = search->inside_block[i].id;
    if (!search->found)
        return;
    if (search->options->way == HTH_LOOKUP_CELLS_AND_STATES)
        lookup->n_rows = search->state.first_position / HTH_BLOCK_TOKENS; /* these blocks are already there */
    if (search->has_tail)
        append_row(lookup, &search->tail, search->tail.n_tokens);
    append_row(lookup, &search->state, 0);
}

static hearth_status find_states(hth_lookup *lookup, hth_cache *cache, const hth_keyspace *keyspace,
                                 hth_key_stream *stream, const hth_lookup_options *options, const hearth_token *tokens,
                                 unsigned *n_names, hearth_error *err)
{
    state_search search = { .cache = cache, .options = options, .tokens = tokens, .n_names = n_names };

    search.inside = hth_key_stream_new(keyspace);
    if (!search.inside)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for looking up a prompt of %zu tokens", lookup->n_tokens);
    compute_keys(lookup, stream, tokens, &search);
    look_at_end(lookup, &search);
    take_found(lookup, &search);
    hth_key_stream_free(search.inside);
    return HEARTH_OK;
}

hearth_status hth_lookup_init(hth_lookup *out, hth_cache *cache, const hth_keyspace *keyspace, hth_key_stream *stream,
                              const hth_lookup_options *options, const hearth_token *tokens, size_t n_tokens,
                              hearth_error *err)
{
    size_t n_blocks = n_tokens / HTH_BLOCK_TOKENS;
    hth_lookup_way way = cache ? options->way : HTH_LOOKUP_KEYS;
    hth_lookup lookup = { .way = way, .n_tokens = n_tokens };
    hearth_status status = HEARTH_OK;
    unsigned n_names = NAMES_MAX;

    assert(n_tokens > 0);
    assert(options->n_limit <= n_tokens);
    lookup.boundary_keys = malloc((n_blocks + 1) * sizeof(*lookup.boundary_keys));
    lookup.rows = malloc((n_blocks + 2) * sizeof(*lookup.rows)); /* blocks, a leaf, a state */
    if (!lookup.boundary_keys || !lookup.rows) {
        hth_lookup_deinit(&lookup);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for looking up a prompt of %zu tokens", n_tokens);
    }
    if (way == HTH_LOOKUP_STATES || way == HTH_LOOKUP_CELLS_AND_STATES)
        status = find_states(&lookup, cache, keyspace, stream, options, tokens, &n_names, err);
    else
        compute_keys(&lookup, stream, tokens, NULL);
    if (status != HEARTH_OK) {
        hth_lookup_deinit(&lookup);
        return status;
    }
    if (way == HTH_LOOKUP_CELLS)
        find_blocks(&lookup, cache, options, tokens, &n_names);
    if (way != HTH_LOOKUP_KEYS && lookup.n_cached == n_tokens) {
        hth_row_id logits = { .key = lookup.prompt_key, .kind = HTH_ROW_LOGITS };
        hth_row_meta meta;

        lookup.logits_tier = hth_cache_look(cache, &logits, &meta, &n_names);
    }
    *out = lookup;
    return HEARTH_OK;
}

void hth_lookup_deinit(hth_lookup *lookup)
{
    free(lookup->boundary_keys);
    free(lookup->rows);
    *lookup = (hth_lookup){ .n_tokens = 0 };
}
