/*
 * solo.h - what a reply must be: computed on a context of its own, without scheduler, cache or sequences
 *
 * The chain of tokens that a prompt and sampling give is drawn straight from the engine; what ends it is applied
 * afterwards. Nothing of src/sched is used, not even its hash: that is written down here once more.
 */
#ifndef HTH_TEST_SOLO_H
#define HTH_TEST_SOLO_H

#include "sched/adapter_set.h"

/* The first n tokens after the prompt. The prompt is evaluated at most n_batch rows at a time. */
void test_solo_chain(const hth_backend *backend, hth_engine_model *model, const hearth_token *prompt, size_t n_prompt,
                     const hearth_sampling *sampling, uint32_t n, uint32_t n_batch, hearth_token *out);

/* The same with adapters. */
void test_solo_chain_with(const hth_backend *backend, hth_engine_model *model, const hth_adapter_set *adapters,
                          const hearth_token *prompt, size_t n_prompt, const hearth_sampling *sampling, uint32_t n,
                          uint32_t n_batch, hearth_token *out);

/* The token that is drawn from logits at that place of a request. */
hearth_token test_solo_draw(const hth_backend *backend, hth_engine_sampler *sampler, const float *logits,
                            uint64_t position, uint64_t seed);

typedef struct test_solo_reply {
    uint32_t n_tokens; /* of the chain */
    hearth_finish_reason reason;
    char *text; /* terminated; released with free */
    size_t n_bytes;
} test_solo_reply;

/*
 * What a request makes of the chain: where it ends, and its text. n_max: most tokens of the reply, n_chain as many as
 * are needed (asserted). Text must be ASCII.
 */
test_solo_reply test_solo_finish(const hth_backend *backend, const hth_engine_model *model,
                                 const hearth_request *request, uint32_t n_max, const hearth_token *chain,
                                 uint32_t n_chain);

#endif
