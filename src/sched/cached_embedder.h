/*
 * cached_embedder.h - embeddings of inputs through the cache
 *
 * With HEARTH_POOLING_LAST, the vector of an input is that of its last token. It depends only on the cells of the
 * tokens before. So an input is a prompt without a reply: a batcher with its own context looks it up, restores its
 * known prefix, evaluates the rest, and saves its rows. The context has the same parameters as the model's, and its
 * prompts are split into the same chunks. So inputs and prompts share their rows. If the engine computes different
 * cells in a context of this size, no row of an input is read or saved.
 *
 * When no input is left, no cells are kept: the rows are in the cache, or lost.
 *
 * One thread at a time. No function may be called from a callback of an input.
 */
#ifndef HTH_SCHED_CACHED_EMBEDDER_H
#define HTH_SCHED_CACHED_EMBEDDER_H

#include "cache/counters.h"
#include "sched/batcher.h"

typedef struct hth_cached_embedder hth_cached_embedder;

typedef struct hth_cached_embedder_options {
    const hth_workplace *place;       /* the model's; borrowed */
    const hth_schedule *schedule;     /* likewise */
    hth_engine_context_params params; /* of the model's context */
    uint32_t n_ctx_short;             /* as in hth_engine_model_info */
    uint32_t n_tokens_max;            /* of an input */
    hth_counters *counters;
    bool (*abort)(void *user_data); /* as in hth_engine_context_params */
    void *abort_user_data;
} hth_cached_embedder_options;

/* An input that is being evaluated. The caller owns it and must not move it from begin until its on_end returns. */
typedef struct hth_cached_input {
    const hearth_token *tokens; /* [n_tokens], 1 .. n_tokens_max; copied by begin */
    uint32_t n_tokens;
    uint64_t id;
    const hth_keyspace *keyspace; /* of a request to the model */
    hth_adapter_set *adapters;    /* borrowed; NULL: none */
    bool no_cache_read;
    /*
     * Receives the vector: as many values as the model's embeddings have, not normalized, borrowed for the call. Called
     * before on_end.
     */
    void (*on_vector)(struct hth_cached_input *input, const float *values);
    /* The input has ended, successfully or not; n_evaluated of its tokens were evaluated. */
    void (*on_end)(struct hth_cached_input *input, const hearth_result *result, uint32_t n_evaluated);
    void *user_data;

    hth_slot *slot; /* the embedder's */
} hth_cached_input;

/*
 * Make the context. The caller releases *out with hth_cached_embedder_close. HEARTH_NO_MEMORY; HEARTH_UNSUPPORTED if
 * the engine's context is too small for an input; the engine's statuses.
 */
hearth_status hth_cached_embedder_open(const hth_cached_embedder_options *options, hth_cached_embedder **out,
                                       hearth_error *err);
/* No input may be in progress (asserted). Accepts NULL. */
void hth_cached_embedder_close(hth_cached_embedder *embedder);

/* May one more input begin? True if there is a place, and every input that has begun has its cells. */
bool hth_cached_embedder_has_room(const hth_cached_embedder *embedder);
/*
 * Call only while there is room (asserted). The input gets its cells now, or before any later input. After an error
 * (HEARTH_NO_MEMORY or a slot's status) the input has not begun, and on_end is not called.
 */
hearth_status hth_cached_embedder_begin(hth_cached_embedder *embedder, hth_cached_input *input, hearth_error *err);
/* End an input that has begun, with the next tick. */
void hth_cached_embedder_cancel(hth_cached_embedder *embedder, hth_cached_input *input);
/* Do at most one evaluation. Calls the callbacks of inputs. */
void hth_cached_embedder_tick(hth_cached_embedder *embedder);
/* hth_pool_forget. */
void hth_cached_embedder_forget(hth_cached_embedder *embedder, const uint8_t fingerprint[32],
                                const hearth_token *tokens, uint32_t n_tokens, uint32_t n_kept);
/* The number of evaluations since opening. */
uint64_t hth_cached_embedder_n_evaluations(const hth_cached_embedder *embedder);
/* The number, from 1, of the last evaluation with tokens of an input that has begun; 0: none yet. */
uint64_t hth_cached_input_last_evaluation(const hth_cached_input *input);

#endif
