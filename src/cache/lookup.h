/*
 * lookup.h - which rows cover the longest known prefix of a prompt
 *
 * One pass over the tokens gives the keys of all block boundaries. Blocks are found by key, one after the other, until
 * one is missing. What follows the last block may be covered, to the token, by a leaf: a tail, or a block of another
 * prompt that begins like ours. Models whose state cannot be cut into blocks look for whole snapshots instead.
 */
#ifndef HTH_CACHE_LOOKUP_H
#define HTH_CACHE_LOOKUP_H

#include "cache/cache.h"

typedef struct hth_lookup_row {
    hth_row_meta meta;
    uint32_t n_use; /* leading tokens of the row that the prompt shares; all but of the last row */
} hth_lookup_row;

typedef struct hth_lookup {
    size_t n_tokens;
    hth_key *boundary_keys; /* [n_tokens / HTH_BLOCK_TOKENS + 1]; element i names the first i blocks */
    hth_key prompt_key;     /* names all n_tokens */
    hth_lookup_row *rows;   /* in order of position, covering [0, n_cached) without a gap */
    size_t n_rows;
    uint32_t n_cached;
    hearth_tier logits_tier; /* where the logits after the last token are; HEARTH_TIER_NONE: nowhere */
} hth_lookup;

typedef enum hth_lookup_way {
    HTH_LOOKUP_BLOCKS,    /* blocks and leaves */
    HTH_LOOKUP_SNAPSHOTS, /* whole states */
    HTH_LOOKUP_KEYS,      /* only the keys, no rows: the cache is not to be read */
} hth_lookup_way;

/*
 * Look up tokens [n_tokens], n_tokens >= 1. cache may be NULL, which is like HTH_LOOKUP_KEYS. stream is of that
 * keyspace; it is reset, fed the tokens and left after the last one, so that their reply can be fed next. *out is
 * released with hth_lookup_deinit. HEARTH_NO_MEMORY only.
 */
hearth_status hth_lookup_init(hth_lookup *out, hth_cache *cache, const hth_keyspace *keyspace, hth_key_stream *stream,
                              hth_lookup_way way, const hearth_token *tokens, size_t n_tokens, hearth_error *err);
void hth_lookup_deinit(hth_lookup *lookup); /* accepts a lookup of zeros */

#endif
