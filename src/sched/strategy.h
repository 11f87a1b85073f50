/*
 * strategy.h - what goes into the next batch
 *
 * A strategy is a pure function from (running requests, room in the batch, chunk size) to how many tokens of each are
 * evaluated now. Three are built in:
 *
 *   decode_maximal    every reply's next token, then prompts in the order of their waiting, as many as there is room for
 *   prefill_priority  prompts first, but for an eighth of the batch that replies keep
 *   balanced          replies and prompts share the batch in halves; what one does not need the other takes
 *
 * What a strategy answers is not trusted: it is cut to what can be evaluated.
 */
#ifndef HTH_SCHED_STRATEGY_H
#define HTH_SCHED_STRATEGY_H

#include "hearth.h"

/* Chunks of prompts end at multiples of this wherever the prompt does not: bits do not depend on longer ones. */
enum { HTH_CHUNK_MIN = 64, HTH_CHUNK_MAX = 256, HTH_STRATEGY_NAME_BYTES = 64 };

typedef struct hth_strategy {
    char name[HTH_STRATEGY_NAME_BYTES];
    hearth_strategy_fn plan;
    void *user_data;
} hth_strategy;

/* A built-in one by name; NULL means the default. False when there is none of that name. */
bool hth_strategy_builtin(const char *name, hth_strategy *out);

/*
 * Ask a strategy and make its plan sound: n_tokens_out[i] <= items[i].n_ready, at most n_batch in all, chunks that end
 * inside a prompt cut at multiples of HTH_CHUNK_MIN (where n_batch allows), none longer than chunk; at least one token
 * in all. n >= 1, n_batch >= 1, chunk a power of two.
 */
void hth_strategy_plan(const hth_strategy *strategy, const hearth_plan_item *items, size_t n, uint32_t n_batch,
                       uint32_t chunk, uint32_t *n_tokens_out);

#endif
