/*
 * conversation_test.c - what a conversation leaves behind while it grows, and what every earlier moment of it still
 * finds
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { TOKENS_MAX = 4000, TURNS = 12 };

typedef struct fixture {
    char *directory;
    hearth_runtime_options options;
    hearth_runtime *runtime;
} fixture;

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    f->options = hth_test_runtime_options(f->directory);
    f->runtime = hth_test_runtime_open(&f->options);
}

static void tear_down(fixture *f)
{
    hearth_runtime_close(f->runtime);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static void open_again(fixture *f)
{
    hearth_runtime_close(f->runtime);
    f->runtime = hth_test_runtime_open(&f->options);
}

typedef struct turn {
    size_t n_prompt; /* tokens of the conversation that were asked with */
    hearth_token reply[32];
    size_t n_reply;
} turn;

/* Conversations are tokens, so that they can go on from a reply exactly. */
typedef struct conversation {
    hearth_token tokens[TOKENS_MAX];
    size_t n;
    turn turns[TURNS];
} conversation;

static hearth_request request_of(const conversation *c, size_t n_tokens)
{
    hearth_request request = hth_test_greedy(NULL, 20);

    request.tokens = c->tokens;
    request.n_tokens = n_tokens;
    return request;
}

/* A user says n tokens, the model 20. */
static void take_turn(conversation *c, size_t i, hearth_model *model, size_t n)
{
    hearth_request request;
    const hearth_result *result;

    for (size_t j = 0; j < n; j++)
        c->tokens[c->n + j] = (hearth_token)('a' + ((c->n + j) * 7 + i * 3) % 26);
    c->n += n;
    request = request_of(c, c->n);
    result = hth_test_complete(model, &request);
    c->turns[i].n_prompt = c->n;
    c->turns[i].n_reply = result->stats->completion_tokens;
    assert_in_range(c->turns[i].n_reply, 1, 32);
    memcpy(c->turns[i].reply, result->tokens, c->turns[i].n_reply * sizeof(hearth_token));
    memcpy(c->tokens + c->n, result->tokens, c->turns[i].n_reply * sizeof(hearth_token));
    c->n += c->turns[i].n_reply;
    hearth_result_unref(result);
}

static void expect_reply(const conversation *c, size_t i, const hearth_result *result)
{
    assert_int_equal(result->stats->completion_tokens, c->turns[i].n_reply);
    assert_memory_equal(result->tokens, c->turns[i].reply, c->turns[i].n_reply * sizeof(hearth_token));
}

/* Ask each earlier prompt again: it gets the reply that it got. */
static void expect_every_reply(const conversation *c, hearth_model *model)
{
    for (size_t i = TURNS; i-- > 0;) {
        hearth_request request = request_of(c, c->turns[i].n_prompt);
        const hearth_result *result = hth_test_complete(model, &request);

        expect_reply(c, i, result);
        hearth_result_unref(result);
    }
}

/* And all of them are exact hits. */
static void expect_every_turn_exact(const conversation *c, hearth_model *model)
{
    for (size_t i = TURNS; i-- > 0;) {
        hearth_request request = request_of(c, c->turns[i].n_prompt);
        const hearth_result *result = hth_test_complete(model, &request);

        assert_int_equal(result->stats->hit, HEARTH_HIT_EXACT);
        assert_int_equal(result->stats->n_prefill_evaluations, 0);
        expect_reply(c, i, result);
        hearth_result_unref(result);
    }
}

static void talk(conversation *c, hearth_model *model)
{
    for (size_t i = 0; i < TURNS; i++)
        take_turn(c, i, model, 60 + i * 5);
}

FIXTURE_TEST(a_growing_conversation_leaves_one_tail_and_every_turn_is_still_exact)
{
    conversation *c = calloc(1, sizeof(*c));
    hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);

    talk(c, model);
    hth_test_flush(f->runtime);
    assert_int_equal(hth_test_n_files(f->directory, "-tail.kvc"), 1);
    assert_int_equal(hth_test_n_files(f->directory, "-block.kvc"), (c->n - 1) / 256);
    assert_int_equal(hth_test_n_files(f->directory, "-logits.kvc"), TURNS);
    expect_every_turn_exact(c, model); /* from what lives, and from RAM */

    hearth_model_unref(model);
    open_again(f);
    model = hth_test_model_load(f->runtime, "stub:", NULL);
    expect_every_turn_exact(c, model); /* from the disk */
    hth_test_model_end(f->runtime, model);
    hth_test_flush(f->runtime);
    /* A reply that was given again is in the longer rows; one that went on into another block leaves its end there. */
    assert_in_range(hth_test_n_files(f->directory, "-tail.kvc"), 1, 2);
    free(c);
}

FIXTURE_TEST(each_turn_may_be_another_process)
{
    conversation *c = calloc(1, sizeof(*c));

    for (size_t i = 0; i < TURNS; i++) {
        hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);

        take_turn(c, i, model, 50);
        hearth_model_unref(model);
        open_again(f);
        assert_int_equal(hth_test_n_files(f->directory, "-tail.kvc"), 1);
    }
    free(c);
}

FIXTURE_TEST(replies_are_those_of_a_runtime_without_a_cache)
{
    static const char *const kinds[] = { "stub:", "stub:kind=window", "stub:kind=recurrent", "stub:kind=hybrid" };
    conversation *with = calloc(1, sizeof(*with)), *without = calloc(1, sizeof(*without));
    hearth_runtime_options options = f->options;
    hearth_runtime *uncached;

    options.cache_disabled = true;
    uncached = hth_test_runtime_open(&options);
    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
        hearth_model *model = hth_test_model_load(f->runtime, kinds[kind], NULL);
        hearth_model *alone = hth_test_model_load(uncached, kinds[kind], NULL);

        with->n = without->n = 0;
        talk(with, model);
        talk(without, alone);
        assert_int_equal(with->n, without->n);
        assert_memory_equal(with->tokens, without->tokens, with->n * sizeof(hearth_token));
        expect_every_reply(with, model);
        hearth_model_unref(model);
        hearth_model_unref(alone);
    }
    hearth_runtime_close(uncached);
    free(with);
    free(without);
}

FIXTURE_TEST(a_prompt_that_is_computed_anew_leaves_no_stale_tail)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);
    conversation *c = calloc(1, sizeof(*c));
    hearth_request request;
    const hearth_result *result;

    take_turn(c, 0, model, 300);
    request = request_of(c, c->turns[0].n_prompt);
    request.no_cache_read = true;
    result = hth_test_complete(model, &request);
    expect_reply(c, 0, result);
    hearth_result_unref(result);
    hth_test_flush(f->runtime);
    assert_int_equal(hth_test_n_files(f->directory, "-tail.kvc"), 1);
    hearth_model_unref(model);
    free(c);
}

FIXTURE_TEST(two_replies_to_one_prompt_keep_a_tail_each)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);
    char *prompt = hth_test_prompt(300, 0);
    hearth_request request = hth_test_greedy(prompt, 20);
    hearth_sampling sampling = hearth_sampling_default();

    request.sampling = &sampling;
    sampling.temperature = 100; /* any token is as likely as any other */
    sampling.top_k = 0;
    sampling.top_p = 1;
    sampling.min_p = 0;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        const hearth_result *result;

        sampling.seed = seed;
        result = hth_test_complete(model, &request);
        assert_int_equal(result->stats->hit, seed == 1 ? HEARTH_HIT_NONE : HEARTH_HIT_EXACT);
        hearth_result_unref(result);
    }
    hth_test_flush(f->runtime);
    assert_int_equal(hth_test_n_files(f->directory, "-tail.kvc"), 2);
    hearth_model_unref(model);
    free(prompt);
}

/* More prompts begin alike than are compared token by token. */
FIXTURE_TEST(a_prompt_is_exact_however_many_others_begin_where_it_does)
{
    enum { PROMPTS = 300 };
    hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);
    char prompt[400];
    hearth_request request = hth_test_greedy(prompt, 10);

    for (int run = 0; run < 2; run++) {
        for (unsigned i = 0; i < PROMPTS; i++) {
            const hearth_result *result;

            memset(prompt, 's', 300); /* a block that all share */
            (void)snprintf(prompt + 300, sizeof(prompt) - 300, "%03u and what else there is to say of it", i);
            result = hth_test_complete(model, &request);
            if (run == 1)
                assert_int_equal(result->stats->hit, HEARTH_HIT_EXACT);
            hearth_result_unref(result);
        }
        hearth_model_unref(model);
        open_again(f);
        model = hth_test_model_load(f->runtime, "stub:", NULL);
    }
    hearth_model_unref(model);
}

/* ---- known prompts whose logits are gone ---- */

FIXTURE_TEST(a_prompt_without_its_logits_is_evaluated_from_its_last_boundary)
{
    static const size_t lengths[] = { 100, 511, 512, 513, 700 }; /* one more token begins every text */

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);
        char *prompt = hth_test_prompt(lengths[i], 0);
        hearth_request request = hth_test_greedy(prompt, 20);
        const hearth_result *cold = hth_test_complete(model, &request);
        const hearth_result *again, *once_more;
        char *logits;

        hth_test_model_end(f->runtime, model);
        hth_test_flush(f->runtime);
        while (hth_test_n_files(f->directory, "-logits.kvc") > 0) {
            logits = hth_test_file(f->directory, "-logits.kvc");
            assert_int_equal(unlink(logits), 0);
            free(logits);
        }
        open_again(f);
        model = hth_test_model_load(f->runtime, "stub:", NULL);
        again = hth_test_complete(model, &request);
        assert_int_equal(again->stats->cached_tokens, lengths[i] / 256 * 256);
        assert_int_equal(again->stats->hit, lengths[i] >= 256 ? HEARTH_HIT_PREFIX : HEARTH_HIT_NONE);
        assert_int_equal(again->stats->n_prefill_evaluations, 1);
        assert_string_equal(again->text, cold->text);
        once_more = hth_test_complete(model, &request); /* its logits are saved again */
        assert_int_equal(once_more->stats->hit, HEARTH_HIT_EXACT);
        assert_string_equal(once_more->text, cold->text);
        hearth_result_unref(cold);
        hearth_result_unref(again);
        hearth_result_unref(once_more);
        hearth_model_unref(model);
        free(prompt);
    }
}

FIXTURE_TEST(a_prompt_that_is_too_short_to_be_kept_restores_no_row_of_prompt_and_reply)
{
    char *prompt = hth_test_prompt(6, 0);
    hearth_request request = hth_test_greedy(prompt, 20);
    const hearth_result *results[2];

    for (int run = 0; run < 2; run++) {
        hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);

        results[run] = hth_test_complete(model, &request);
        hth_test_model_end(f->runtime, model);
        hth_test_flush(f->runtime);
        assert_int_equal(hth_test_n_files(f->directory, "-tail.kvc"), 1); /* of both together */
        assert_int_equal(hth_test_n_files(f->directory, "-logits.kvc"), 0);
        open_again(f);
    }
    assert_int_equal(results[0]->stats->prompt_tokens, 7);
    assert_int_equal(results[0]->stats->miss, HEARTH_MISS_BELOW_POLICY);
    assert_int_equal(results[1]->stats->miss, HEARTH_MISS_NO_LOGITS);
    assert_int_equal(results[1]->stats->hit, HEARTH_HIT_NONE);
    assert_int_equal(results[1]->stats->cached_tokens, 0);
    assert_int_equal(results[1]->stats->rows_restored, 0);
    assert_int_equal(results[1]->stats->restored_bytes, 0);
    assert_string_equal(results[1]->text, results[0]->text);
    hearth_result_unref(results[0]);
    hearth_result_unref(results[1]);
    free(prompt);
}

FIXTURE_TEST(a_prompt_that_another_one_begins_with_restores_the_blocks_before_its_last_boundary)
{
    static const size_t lengths[] = { 255, 256, 500, 511, 512 };
    char *prompt = hth_test_prompt(600, 0);
    hearth_request request = hth_test_greedy(prompt, 1);
    hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);

    hearth_result_unref(hth_test_complete(model, &request));
    for (size_t i = sizeof(lengths) / sizeof(lengths[0]); i-- > 0;) {
        const hearth_result *result;

        hth_test_model_end(f->runtime, model);
        open_again(f);
        model = hth_test_model_load(f->runtime, "stub:", NULL);
        prompt[lengths[i]] = '\0';
        result = hth_test_complete(model, &request);
        assert_int_equal(result->stats->miss, HEARTH_MISS_NO_LOGITS);
        assert_int_equal(result->stats->cached_tokens, lengths[i] / 256 * 256);
        assert_int_equal(result->stats->rows_restored, lengths[i] / 256);
        hearth_result_unref(result);
    }
    hearth_model_unref(model);
    free(prompt);
}
