/*
 * cached_embedder.h - embeddings of inputs whose prefixes the cache knows, or will know
 *
 * With HEARTH_POOLING_LAST, the vector of an input is that of its last token. All that it depends on is in the cells of
 * the tokens before. So an input is a prompt without a reply: a batcher with a context of its own looks it up, restores
 * its known prefix, evaluates the rest, and saves its rows. The context has the parameters of the model's, and its
 * prompts are cut into the same chunks. So inputs and prompts share their rows.
 *
 * When no input is left, no cells are left either: the cache has the rows, or nobody has them. A removal of rows does
 * not look here, so rows of inputs that run may be saved again.
 *
 * One thread at a time.
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
    uint32_t n_tokens_max;            /* of an input */
    hth_counters *counters;
    bool (*abort)(void *user_data); /* as hth_engine_context_params */
    void *abort_user_data;
} hth_cached_embedder_options;

/* An input that is being evaluated. The caller owns it, from begin until its on_end. */
typedef struct hth_cached_input {
    const hearth_token *tokens; /* [n_tokens], 1 .. n_tokens_max */
    uint32_t n_tokens;
    uint64_t id;
    const hth_keyspace *keyspace; /* of a request of the model */
    hth_adapter_set *adapters;    /* borrowed; NULL: none */
    bool no_cache_read;
    void (*on_vector)(struct hth_cached_input *input, const float *values);
    /* It has ended, well or not, and n_evaluated of its tokens were evaluated. */
    void (*on_end)(struct hth_cached_input *input, const hearth_result *result, uint32_t n_evaluated);
    void *user_data;

    hth_slot *slot; /* the embedder's */
} hth_cached_input;

/* Makes the context. */
hearth_status hth_cached_embedder_open(const hth_cached_embedder_options *options, hth_cached_embedder **out,
                                       hearth_error *err);
void hth_cached_embedder_close(hth_cached_embedder *embedder); /* no input is evaluated; accepts NULL */

/* Inputs that may be evaluated at once, and those that are. */
uint32_t hth_cached_embedder_n_max(const hth_cached_embedder *embedder);
uint32_t hth_cached_embedder_n(const hth_cached_embedder *embedder);
/* Fewer than n_max are evaluated. After a failure the input has not begun. */
hearth_status hth_cached_embedder_begin(hth_cached_embedder *embedder, hth_cached_input *input, hearth_error *err);
/* It ends with the next tick. */
void hth_cached_embedder_cancel(hth_cached_embedder *embedder, hth_cached_input *input);
/* At most one evaluation; calls the inputs' callbacks. */
void hth_cached_embedder_tick(hth_cached_embedder *embedder);
uint64_t hth_cached_embedder_n_evaluations(const hth_cached_embedder *embedder);
/* The number, counted from 1, of the last evaluation with tokens of the input; 0: none yet. */
uint64_t hth_cached_input_last_evaluation(const hth_cached_input *input);

#endif
