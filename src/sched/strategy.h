/*
 * strategy.h - choose the tokens of the next batch
 *
 * A strategy is a pure function. It gets the running requests, the room in the batch and the chunk size, and returns
 * how many tokens of each request to evaluate now. Three are built in:
 *
 *   decode_maximal    the next token of every reply, then prompts, the longest unserved first
 *   prefill_priority  prompts first; replies keep an eighth of the batch
 *   balanced          replies and prompts have half of the batch each; either may use room that the other does not need
 *
 * The result of a strategy is not trusted: hth_strategy_plan limits it to tokens that can be evaluated.
 */
#ifndef HTH_SCHED_STRATEGY_H
#define HTH_SCHED_STRATEGY_H

#include "hearth.h"

/* HTH_CHUNK_MIN: a chunk ends at a multiple of it, or with the prompt. Longer chunks do not change the bits. */
enum { HTH_CHUNK_MIN = 64, HTH_STRATEGY_NAME_BYTES = 64 };

typedef struct hth_strategy {
    char name[HTH_STRATEGY_NAME_BYTES];
    hearth_strategy_fn plan;
    void *user_data;
} hth_strategy;

/* The built-in strategy of that name; NULL: the default. False if there is none. */
bool hth_strategy_builtin(const char *name, hth_strategy *out);

/*
 * Ask a strategy and make its plan sound: n_tokens_out[i] <= items[i].n_ready; at most n_batch tokens and at least one
 * in all; no chunk longer than chunk; a chunk that ends inside a prompt ends at a multiple of HTH_CHUNK_MIN, if n_batch
 * allows. n >= 1, n_batch >= 1, chunk a power of two.
 */
void hth_strategy_plan(const hth_strategy *strategy, const hearth_plan_item *items, size_t n, uint32_t n_batch,
                       uint32_t chunk, uint32_t *n_tokens_out);

#endif
