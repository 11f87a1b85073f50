/*
 * prompt_lookup.c - choose the lookup method by the kind of model
 */
#include "sched/prompt_lookup.h"

static hth_lookup_way way_of(const hth_prompt_place *place, bool read_cache)
{
    if (!read_cache || !place->cache)
        return HTH_LOOKUP_KEYS;
    switch (place->kind) {
    case HTH_MODEL_RECURRENT: return HTH_LOOKUP_STATES;
    case HTH_MODEL_HYBRID: return HTH_LOOKUP_CELLS_AND_STATES;
    case HTH_MODEL_UNCACHED: return HTH_LOOKUP_KEYS;
    default: return HTH_LOOKUP_CELLS;
    }
}

hth_lookup_options hth_prompt_lookup_options(const hth_prompt_place *place, size_t n_limit, bool read_cache)
{
    return (hth_lookup_options){
        .way = way_of(place, read_cache),
        .n_window = place->n_window,
        .n_limit = n_limit,
    };
}

hearth_status hth_prompt_lookup(const hth_prompt_place *place, const hth_keyspace *keyspace, const hearth_token *prompt,
                                size_t n_prompt, bool read_cache, hth_lookup *out, hearth_error *err)
{
    hth_lookup_options options = hth_prompt_lookup_options(place, n_prompt, read_cache);
    hth_key_stream *stream = hth_key_stream_new(keyspace);
    hearth_status status;

    if (!stream)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for looking up a prompt of %zu tokens", n_prompt);
    status = hth_lookup_init(out, place->cache, keyspace, stream, &options, prompt, n_prompt, err);
    hth_key_stream_free(stream);
    return status;
}

hearth_tier hth_prompt_lookup_tier(const hth_prompt_place *place, const hth_lookup *lookup)
{
    hearth_tier slowest = lookup->logits_tier;

    for (size_t i = 0; i < lookup->n_rows; i++) {
        hearth_tier tier = hth_cache_find(place->cache, &lookup->rows[i].meta.id, NULL);

        if (tier > slowest)
            slowest = tier;
    }
    return slowest;
}
