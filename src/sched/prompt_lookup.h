/*
 * prompt_lookup.h - look up the rows of a prompt
 *
 * The kind of a model decides how its rows are looked up. This file does it both for sequences, which restore the found
 * rows, and for callers that only query.
 */
#ifndef HTH_SCHED_PROMPT_LOOKUP_H
#define HTH_SCHED_PROMPT_LOOKUP_H

#include "cache/lookup.h"
#include "engine/backend.h"

/* The inputs of a lookup besides prompt and keyspace. */
typedef struct hth_prompt_place {
    hth_cache *cache; /* NULL: nothing is cached */
    hth_model_kind kind;
    uint32_t n_window; /* 0: none */
} hth_prompt_place;

/* Options for a lookup of at most n_limit tokens. Without read_cache or a cache, the lookup only computes keys. */
hth_lookup_options hth_prompt_lookup_options(const hth_prompt_place *place, size_t n_limit, bool read_cache);

/*
 * Look a prompt up in a keyspace, without a sequence. Any thread. *out is released with hth_lookup_deinit.
 * HEARTH_NO_MEMORY.
 */
hearth_status hth_prompt_lookup(const hth_prompt_place *place, const hth_keyspace *keyspace, const hearth_token *prompt,
                                size_t n_prompt, bool read_cache, hth_lookup *out, hearth_error *err);

/* The slowest tier that the rows of the lookup are in now; HEARTH_TIER_NONE: no rows. */
hearth_tier hth_prompt_lookup_tier(const hth_prompt_place *place, const hth_lookup *lookup);

#endif
