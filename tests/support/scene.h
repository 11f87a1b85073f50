/*
 * scene.h - what tests of the batcher begin with: texts, prompts, and what a request must answer
 *
 * What that is comes from support/solo.h, which knows no scheduler.
 */
#ifndef HTH_TEST_SCENE_H
#define HTH_TEST_SCENE_H

#include <stdlib.h>
#include <string.h>

#include "sched/batcher.h"
#include "stub/backend.h"
#include "support/cmocka_all.h"
#include "support/solo.h"
#include "support/stage.h"
#include "support/support.h"

enum { TOKENS_MAX = 4096 };

static hearth_token text[TOKENS_MAX];  /* what most prompts begin with */
static hearth_token other[TOKENS_MAX]; /* and what has nothing in common with it */

static inline int make_texts(void **state)
{
    (void)state;
    test_tokens(1, text, TOKENS_MAX);
    test_tokens(2, other, TOKENS_MAX);
    other[0] = 'A';
    return 0;
}

static inline test_reply *submit(test_stage *stage, const hearth_request *request)
{
    hearth_error err;
    test_reply *reply = test_stage_submit(stage, request, NULL, &err);

    if (!reply)
        fail_msg("%s", err.message);
    return reply;
}

/* A prompt: n_shared tokens of the text, then n_own that no other variant has. Released with free. */
static inline hearth_token *prompt_of(size_t n_shared, size_t n_own, uint64_t variant)
{
    hearth_token *tokens = malloc((n_shared + n_own + 1) * sizeof(*tokens));

    assert_non_null(tokens);
    memcpy(tokens, text, n_shared * sizeof(*tokens));
    test_tokens(1000 + variant, tokens + n_shared, n_own);
    if (n_own > 0)
        tokens[n_shared] = (hearth_token)('0' + variant);
    return tokens;
}

/* It ended well, with the whole reply that the same request has alone. */
static inline void expect_as_alone(const test_stage *stage, const test_reply *reply, const hearth_request *request)
{
    const hearth_result *result = reply->result;
    uint32_t room = stage->options.n_ctx - (uint32_t)request->n_tokens + 1;
    uint32_t n_max = request->prefill_only                                         ? 0
                   : request->n_predict < 0 || (uint32_t)request->n_predict > room ? room
                                                                                   : (uint32_t)request->n_predict;
    hearth_token *chain = malloc((n_max + 1) * sizeof(*chain));
    test_solo_reply alone;

    assert_int_equal(reply->n_done, 1);
    if (result->status != HEARTH_OK)
        fail_msg("%s", result->error.message);
    test_solo_chain(hth_backend_stub(), stage->engine_model, request->tokens, request->n_tokens, request->sampling,
                    n_max, 512, chain);
    alone = test_solo_finish(hth_backend_stub(), stage->engine_model, request, n_max, chain, n_max);
    assert_int_equal(result->stats->completion_tokens, alone.n_tokens);
    assert_memory_equal(result->tokens, chain, alone.n_tokens * sizeof(*chain));
    assert_string_equal(result->text, alone.text);
    assert_int_equal(result->finish_reason, alone.reason);
    free(alone.text);
    free(chain);
}

/* Run a request and all that were submitted before it, and compare its reply with that of an engine of its own. */
static inline test_reply *run_as_alone(test_stage *stage, const hearth_request *request)
{
    test_reply *reply = submit(stage, request);

    test_stage_run(stage);
    expect_as_alone(stage, reply, request);
    return reply;
}

static inline void expect_ended(const test_reply *reply, hearth_status status, hearth_finish_reason reason)
{
    assert_int_equal(reply->n_done, 1);
    assert_int_equal(reply->result->status, status);
    assert_int_equal(reply->result->finish_reason, reason);
}

static inline test_stage_options with_cache(void)
{
    test_stage_options options = test_stage_options_default();

    options.ram_bytes = 64 << 20;
    return options;
}

#endif
