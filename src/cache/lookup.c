/*
 * lookup.c - keys first, then rows
 */
#include "cache/lookup.h"

#include <assert.h>
#include <stdlib.h>

enum {
    CANDIDATES_MAX = 128, /* children of one prefix that are compared token by token */
    LEAF_TOKENS_MIN = 16  /* a shorter overlap is cheaper to compute than to read */
};

static void compute_keys(hth_lookup *lookup, hth_key_stream *stream, const hearth_token *tokens)
{
    size_t n_blocks = lookup->n_tokens / HTH_BLOCK_TOKENS;

    hth_key_stream_reset(stream);
    hth_key_stream_key(stream, &lookup->boundary_keys[0]);
    for (size_t i = 0; i < n_blocks; i++) {
        hth_key_stream_push(stream, tokens + i * HTH_BLOCK_TOKENS, HTH_BLOCK_TOKENS);
        hth_key_stream_key(stream, &lookup->boundary_keys[i + 1]);
    }
    hth_key_stream_push(stream, tokens + n_blocks * HTH_BLOCK_TOKENS, lookup->n_tokens % HTH_BLOCK_TOKENS);
    hth_key_stream_key(stream, &lookup->prompt_key);
}

static void append_row(hth_lookup *lookup, const hth_row_meta *meta, uint32_t n_use)
{
    lookup->rows[lookup->n_rows++] = (hth_lookup_row){ .meta = *meta, .n_use = n_use };
    lookup->n_cached = meta->first_position + n_use;
}

static bool is_block_at(const hth_row_meta *meta, size_t position)
{
    return meta->first_position == position && meta->n_tokens == HTH_BLOCK_TOKENS;
}

/* How many of the row's tokens the prompt shares from position on. */
static uint32_t shared_tokens(hth_cache *cache, const hth_row_meta *meta, const hearth_token *tokens, size_t n_tokens)
{
    hearth_token theirs[HTH_BLOCK_TOKENS];
    size_t n = hth_cache_peek_tokens(cache, &meta->id, theirs, HTH_BLOCK_TOKENS);
    uint32_t shared = 0;

    if (n != meta->n_tokens)
        return 0;
    while (shared < n && shared < n_tokens && theirs[shared] == tokens[shared])
        shared++;
    return shared;
}

/* Cover what follows the last block as far as any leaf goes. */
static void find_leaf(hth_lookup *lookup, hth_cache *cache, const hearth_token *tokens)
{
    size_t position = lookup->n_cached;
    size_t rest = lookup->n_tokens - position;
    hth_row_id exact = { .key = lookup->prompt_key, .kind = HTH_ROW_TAIL };
    hth_row_meta candidates[CANDIDATES_MAX];
    const hth_row_meta *best = NULL;
    uint32_t best_shared = 0;
    hth_row_meta meta;
    size_t n;

    if (rest == 0)
        return;
    if (rest < HTH_BLOCK_TOKENS && hth_cache_find(cache, &exact, &meta) != HEARTH_TIER_NONE &&
        meta.first_position == position && meta.n_tokens == rest) {
        append_row(lookup, &meta, (uint32_t)rest);
        return;
    }
    n = hth_cache_children(cache, &lookup->boundary_keys[position / HTH_BLOCK_TOKENS], candidates, CANDIDATES_MAX);
    for (size_t i = 0; i < n; i++) {
        const hth_row_meta *candidate = &candidates[i];
        uint32_t shared;

        if ((candidate->id.kind != HTH_ROW_TAIL && candidate->id.kind != HTH_ROW_BLOCK) ||
            candidate->first_position != position || candidate->n_tokens > HTH_BLOCK_TOKENS ||
            candidate->n_tokens <= best_shared)
            continue;
        shared = shared_tokens(cache, candidate, tokens + position, rest);
        if (shared > best_shared) {
            best = candidate;
            best_shared = shared;
        }
    }
    if (best && (best_shared >= LEAF_TOKENS_MIN || best_shared == rest))
        append_row(lookup, best, best_shared);
}

static void find_blocks(hth_lookup *lookup, hth_cache *cache, const hearth_token *tokens)
{
    size_t n_blocks = lookup->n_tokens / HTH_BLOCK_TOKENS;

    for (size_t i = 0; i < n_blocks; i++) {
        hth_row_id id = { .key = lookup->boundary_keys[i + 1], .kind = HTH_ROW_BLOCK };
        hth_row_meta meta;

        if (hth_cache_find(cache, &id, &meta) == HEARTH_TIER_NONE || !is_block_at(&meta, i * HTH_BLOCK_TOKENS))
            break;
        /* The parent is known here for certain, whatever the index says of a row that it adopted by name. */
        meta.parent = lookup->boundary_keys[i];
        append_row(lookup, &meta, HTH_BLOCK_TOKENS);
    }
    find_leaf(lookup, cache, tokens);
}

/* The longest snapshot of a prefix; snapshots are listed under the last block boundary before their end. */
static void find_snapshot(hth_lookup *lookup, hth_cache *cache, const hth_keyspace *keyspace,
                          const hearth_token *tokens)
{
    hth_row_id exact = { .key = lookup->prompt_key, .kind = HTH_ROW_SNAPSHOT };
    hth_row_meta meta;

    if (hth_cache_find(cache, &exact, &meta) != HEARTH_TIER_NONE && meta.first_position == 0 &&
        meta.n_tokens == lookup->n_tokens) {
        append_row(lookup, &meta, meta.n_tokens);
        return;
    }
    for (size_t i = (lookup->n_tokens - 1) / HTH_BLOCK_TOKENS + 1; i-- > 0;) {
        hth_row_meta candidates[CANDIDATES_MAX];
        size_t n = hth_cache_children(cache, &lookup->boundary_keys[i], candidates, CANDIDATES_MAX);
        const hth_row_meta *best = NULL;

        for (size_t j = 0; j < n; j++) {
            hth_key key;

            if (candidates[j].id.kind != HTH_ROW_SNAPSHOT || candidates[j].n_tokens > lookup->n_tokens ||
                candidates[j].first_position != 0 || (best && candidates[j].n_tokens <= best->n_tokens))
                continue;
            if (hth_key_of(keyspace, tokens, candidates[j].n_tokens, &key) &&
                hth_key_equal(&key, &candidates[j].id.key))
                best = &candidates[j];
        }
        if (best) {
            append_row(lookup, best, best->n_tokens);
            return;
        }
    }
}

hearth_status hth_lookup_init(hth_lookup *out, hth_cache *cache, const hth_keyspace *keyspace, hth_key_stream *stream,
                              hth_lookup_way way, const hearth_token *tokens, size_t n_tokens, hearth_error *err)
{
    size_t n_blocks = n_tokens / HTH_BLOCK_TOKENS;
    hth_lookup lookup = { .n_tokens = n_tokens };

    assert(n_tokens > 0);
    lookup.boundary_keys = malloc((n_blocks + 1) * sizeof(*lookup.boundary_keys));
    lookup.rows = malloc((n_blocks + 1) * sizeof(*lookup.rows));
    if (!lookup.boundary_keys || !lookup.rows) {
        hth_lookup_deinit(&lookup);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for looking up a prompt of %zu tokens", n_tokens);
    }
    compute_keys(&lookup, stream, tokens);
    if (cache && way == HTH_LOOKUP_BLOCKS)
        find_blocks(&lookup, cache, tokens);
    else if (cache && way == HTH_LOOKUP_SNAPSHOTS)
        find_snapshot(&lookup, cache, keyspace, tokens);
    if (cache && way != HTH_LOOKUP_KEYS && lookup.n_cached == n_tokens) {
        hth_row_id logits = { .key = lookup.prompt_key, .kind = HTH_ROW_LOGITS };

        lookup.logits_tier = hth_cache_find(cache, &logits, NULL);
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
