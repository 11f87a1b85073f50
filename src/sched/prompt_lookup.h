/*
 * prompt_lookup.h - how the rows of a model are looked for
 *
 * One place for what follows from the kind of a model, for all who look prompts up: sequences, which then restore what
 * was found, and whoever only wants to know.
 */
#ifndef HTH_SCHED_PROMPT_LOOKUP_H
#define HTH_SCHED_PROMPT_LOOKUP_H

#include "cache/lookup.h"
#include "engine/backend.h"

/* What of a model a lookup depends on besides the keyspace. */
typedef struct hth_prompt_place {
    hth_cache *cache; /* NULL: nothing is cached */
    hth_model_kind kind;
    uint32_t n_window; /* 0: none */
} hth_prompt_place;

/* Options for a lookup of n_limit tokens at most. Without read_cache, and where nothing is cached, only for keys. */
hth_lookup_options hth_prompt_lookup_options(const hth_prompt_place *place, size_t n_limit, bool read_cache);

/*
 * Look a prompt up in a keyspace, without a sequence. Any thread. *out is released with hth_lookup_deinit.
 * HEARTH_NO_MEMORY.
 */
hearth_status hth_prompt_lookup(const hth_prompt_place *place, const hth_keyspace *keyspace, const hearth_token *prompt,
                                size_t n_prompt, bool read_cache, hth_lookup *out, hearth_error *err);

/* The slowest tier that a row of the lookup would come from now; HEARTH_TIER_NONE: there are none. */
hearth_tier hth_prompt_lookup_tier(const hth_prompt_place *place, const hth_lookup *lookup);

#endif
