/*
 * lookup.h - the rows that cover the longest known prefix of a prompt
 *
 * One pass over the tokens gives the keys of all block boundaries. The search depends on how the state of the model can
 * be cut:
 *
 *   cells               blocks by key, one after the other, until one is missing. A leaf may cover the tokens after the
 *                       last block, exact to the token: a tail, or a block of another prompt that begins the same way
 *   cells with a window the same, but a row that is longer than the window can only be used as a whole
 *   states              the latest boundary whose whole state was saved
 *   cells and states    the latest boundary with a saved state and all blocks up to it, and a tail if the boundary lies
 *                       inside a block
 *
 * A state is listed under the last block boundary before it. States of this prompt and of others inside a block differ
 * by their keys, which are computed from the boundary on.
 */
#ifndef HTH_CACHE_LOOKUP_H
#define HTH_CACHE_LOOKUP_H

#include "cache/cache.h"

enum {
    HTH_LOOKUP_STALE_MAX = 32, /* superseded states that one lookup reports */
    HTH_LOOKUP_STATES_KEPT = 2 /* latest states inside blocks: those of a turn's prompt and reply; not reported */
};

typedef struct hth_lookup_row {
    hth_row_meta meta;
    uint32_t n_use; /* leading tokens that the row shares with the prompt: all, except in the last row with tokens */
} hth_lookup_row;

typedef enum hth_lookup_way {
    HTH_LOOKUP_KEYS,             /* only the keys, no rows: reading the cache is off */
    HTH_LOOKUP_CELLS,            /* blocks and leaves */
    HTH_LOOKUP_STATES,           /* states alone */
    HTH_LOOKUP_CELLS_AND_STATES, /* blocks, tails, and a state at the end */
} hth_lookup_way;

typedef struct hth_lookup {
    hth_lookup_way way;
    size_t n_tokens;
    hth_key *boundary_keys; /* [n_tokens / HTH_BLOCK_TOKENS + 1]; element i is the key of the first i blocks */
    hth_key prompt_key;     /* key of all n_tokens */
    hth_lookup_row *rows;   /* in order of position, covering [0, n_cached) without a gap; a state comes last */
    size_t n_rows;
    uint32_t n_cached;
    uint32_t n_agreed;       /* n_cached or more: agreement with all compared cells, usable so far or not */
    hearth_tier logits_tier; /* tier of the logits after the last token; HEARTH_TIER_NONE: no tier */
    /*
     * States inside blocks of this prompt that later states supersede: a growing conversation leaves two per turn.
     * States that were used more than once are not included: other conversations branch off there.
     */
    hth_row_id stale[HTH_LOOKUP_STALE_MAX];
    size_t n_stale;
    /* The longest tail that the prompt contains in full, even if it is too short to be worth a restore. */
    bool has_tail;
    hth_row_meta tail;
} hth_lookup;

typedef struct hth_lookup_options {
    hth_lookup_way way;
    uint32_t n_window; /* positions before the end of a row that have window cells; 0: the row has all of its cells */
    size_t n_limit;    /* maximum number of leading tokens to cover */
} hth_lookup_options;

/*
 * Look up tokens [n_tokens], n_tokens >= 1. cache may be NULL, which means HTH_LOOKUP_KEYS. stream belongs to that
 * keyspace; the lookup resets it and feeds it the tokens, so the caller can feed the reply next. Release *out with
 * hth_lookup_deinit. The only error is HEARTH_NO_MEMORY.
 */
hearth_status hth_lookup_init(hth_lookup *out, hth_cache *cache, const hth_keyspace *keyspace, hth_key_stream *stream,
                              const hth_lookup_options *options, const hearth_token *tokens, size_t n_tokens,
                              hearth_error *err);
void hth_lookup_deinit(hth_lookup *lookup); /* accepts a zeroed lookup */

#endif
