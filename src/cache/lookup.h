/*
 * lookup.h - which rows cover the longest known prefix of a prompt
 *
 * One pass over the tokens gives the keys of all block boundaries. What is looked for depends on how the model's state
 * can be cut:
 *
 *   cells               blocks by key, one after the other, until one is missing. What follows the last block may be
 *                       covered, to the token, by a leaf: a tail, or a block of another prompt that begins like ours
 *   cells with a window the same; of a row that is longer than the window, only the whole can be used
 *   states              the latest boundary whose whole state was saved
 *   cells and states    the latest boundary whose state was saved and up to which there are blocks, and a tail where it
 *                       lies inside a block
 *
 * States are listed under the last block boundary before them. Those inside a block are told from the states of other
 * prompts by their keys, which are computed from the boundary on.
 */
#ifndef HTH_CACHE_LOOKUP_H
#define HTH_CACHE_LOOKUP_H

#include "cache/cache.h"

enum {
    HTH_LOOKUP_STALE_MAX = 32, /* states that one lookup finds superseded */
    HTH_LOOKUP_STATES_KEPT = 2 /* latest states inside blocks that it does not: a turn's prompt and its reply */
};

typedef struct hth_lookup_row {
    hth_row_meta meta;
    uint32_t n_use; /* leading tokens of the row that the prompt shares; all but of the last row with tokens */
} hth_lookup_row;

typedef enum hth_lookup_way {
    HTH_LOOKUP_KEYS,             /* only the keys, no rows: the cache is not to be read */
    HTH_LOOKUP_CELLS,            /* blocks and leaves */
    HTH_LOOKUP_STATES,           /* states alone */
    HTH_LOOKUP_CELLS_AND_STATES, /* blocks, tails, and a state at the end */
} hth_lookup_way;

typedef struct hth_lookup {
    hth_lookup_way way; /* in which it was made */
    size_t n_tokens;
    hth_key *boundary_keys; /* [n_tokens / HTH_BLOCK_TOKENS + 1]; element i names the first i blocks */
    hth_key prompt_key;     /* names all n_tokens */
    hth_lookup_row *rows;   /* in order of position, covering [0, n_cached) without a gap; a state comes last */
    size_t n_rows;
    uint32_t n_cached;
    uint32_t
        n_agreed; /* n_cached or more: how far it agrees with cells that were looked at and cannot be used so far */
    hearth_tier logits_tier; /* where the logits after the last token are; HEARTH_TIER_NONE: nowhere */
    /*
     * States inside blocks of this very prompt that later ones supersede: a growing conversation leaves two a turn. Not
     * among them are those that served more than once, where other conversations part from this one.
     */
    hth_row_id stale[HTH_LOOKUP_STALE_MAX];
    size_t n_stale;
    /* The longest tail that the prompt goes on from all of, also where it is too short to be worth restoring. */
    bool has_tail;
    hth_row_meta tail;
} hth_lookup;

typedef struct hth_lookup_options {
    hth_lookup_way way;
    uint32_t n_window; /* positions that a row's window cells reach back from its end; 0: it has all of its cells */
    size_t n_limit;    /* leading tokens to cover at most */
} hth_lookup_options;

/*
 * Look up tokens [n_tokens], n_tokens >= 1. cache may be NULL, which is like HTH_LOOKUP_KEYS. stream is of that
 * keyspace; it is reset, fed the tokens and left after the last one, so that their reply can be fed next. *out is
 * released with hth_lookup_deinit. HEARTH_NO_MEMORY only.
 */
hearth_status hth_lookup_init(hth_lookup *out, hth_cache *cache, const hth_keyspace *keyspace, hth_key_stream *stream,
                              const hth_lookup_options *options, const hearth_token *tokens, size_t n_tokens,
                              hearth_error *err);
void hth_lookup_deinit(hth_lookup *lookup); /* accepts a lookup of zeros */

#endif
