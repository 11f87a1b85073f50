/*
 * cached_embedder.h - embeddings of inputs whose prefixes the cache knows, or will know
 *
 * With HEARTH_POOLING_LAST, the vector of an input is that of its last token. All that it depends on is in the cells of
 * the tokens before. So an input is a prompt without a reply: a batcher with a context of its own looks it up, restores
 * its known prefix, evaluates the rest, and saves its rows. The context has the parameters of the model's, and its
 * prompts are cut into the same chunks. So inputs and prompts share their rows. Where the engine computes other cells
 * in a context of this size, no row of an input is read or saved.
 *
 * When no input is left, no cells are left either: the cache has the rows, or nobody has them.
 *
 * One thread at a time. No function may be called in a callback of an input.
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
    bool (*abort)(void *user_data); /* as hth_engine_context_params */
    void *abort_user_data;
} hth_cached_embedder_options;

/* An input that is being evaluated. It is the caller's, and stays where it is from begin until its on_end returns. */
typedef struct hth_cached_input {
    const hearth_token *tokens; /* [n_tokens], 1 .. n_tokens_max; copied by begin */
    uint32_t n_tokens;
    uint64_t id;
    const hth_keyspace *keyspace; /* of a request of the model */
    hth_adapter_set *adapters;    /* borrowed; NULL: none */
    bool no_cache_read;
    /* The vector, of as many values as the model's embeddings, not normalised; borrowed for the call. Before on_end. */
    void (*on_vector)(struct hth_cached_input *input, const float *values);
    /* It has ended, well or not, and n_evaluated of its tokens were evaluated. */
    void (*on_end)(struct hth_cached_input *input, const hearth_result *result, uint32_t n_evaluated);
    void *user_data;

    hth_slot *slot; /* the embedder's */
} hth_cached_input;

/*
 * Make the context. *out is the caller's, for hth_cached_embedder_close. HEARTH_NO_MEMORY; HEARTH_UNSUPPORTED if the
 * engine's context is too small for an input; the engine's statuses.
 */
hearth_status hth_cached_embedder_open(const hth_cached_embedder_options *options, hth_cached_embedder **out,
                                       hearth_error *err);
/* No input is evaluated (asserted). Accepts NULL. */
void hth_cached_embedder_close(hth_cached_embedder *embedder);

/* May one more input begin: is there a place, and has every input that began its cells? */
bool hth_cached_embedder_has_room(const hth_cached_embedder *embedder);
/*
 * Only while there is room (asserted). The input gets its cells now, or before every later input. HEARTH_NO_MEMORY and
 * the statuses of a slot: the input has not begun, and on_end is not called.
 */
hearth_status hth_cached_embedder_begin(hth_cached_embedder *embedder, hth_cached_input *input, hearth_error *err);
/* The input, which has begun, ends with the next tick. */
void hth_cached_embedder_cancel(hth_cached_embedder *embedder, hth_cached_input *input);
/* At most one evaluation. Calls the callbacks of inputs. */
void hth_cached_embedder_tick(hth_cached_embedder *embedder);
/* hth_pool_forget. */
void hth_cached_embedder_forget(hth_cached_embedder *embedder, const uint8_t fingerprint[32],
                                const hearth_token *tokens, uint32_t n_tokens, uint32_t n_kept);
/* Since the opening. */
uint64_t hth_cached_embedder_n_evaluations(const hth_cached_embedder *embedder);
/* The number, counted from 1, of the last evaluation with tokens of the input, which has begun; 0: none yet. */
uint64_t hth_cached_input_last_evaluation(const hth_cached_input *input);

#endif
