/*
 * replay_test.c - replayed tokens that callbacks hear of: the same pieces as when they were drawn
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { LOG_BYTES = 1 << 16, TOKENS_MAX = 64 };

/* Everything that callbacks were told, as one text; and where in it each token's share ends. */
typedef struct told {
    char text[LOG_BYTES];
    size_t n;
    size_t after[TOKENS_MAX + 1]; /* [n_tokens + 1]: bytes of text before token i */
    uint32_t n_tokens;
    uint32_t n_replayed;
    char said[LOG_BYTES]; /* the text alone, of both callbacks */
} told;

static float states[TOKENS_MAX]; /* of the sampler, after each drawn token */

static bool hear_token(uint64_t id, const hearth_token_event *event, void *user_data)
{
    told *t = user_data;

    (void)id;
    assert_int_equal(event->index, t->n_tokens);
    assert_int_equal(strlen(event->text), event->n_bytes);
    assert_true(!event->is_replayed || t->n_replayed == t->n_tokens); /* all of them come first */
    t->n_replayed += event->is_replayed;
    if (!event->is_replayed)
        states[event->index] = event->sampler_state;
    t->after[t->n_tokens++] = t->n;
    strcat(t->said, event->text);
    t->n += (size_t)snprintf(t->text + t->n, LOG_BYTES - t->n, "(%d:%s)", event->token, event->text);
    return true;
}

static bool hear_text(uint64_t id, const char *text, size_t n_bytes, void *user_data)
{
    told *t = user_data;

    (void)id;
    assert_int_equal(strlen(text), n_bytes);
    strcat(t->said, text);
    t->n += (size_t)snprintf(t->text + t->n, LOG_BYTES - t->n, "[%s]", text);
    return true;
}

/* Run it, with the first n tokens of known, and hear all of it. */
static const hearth_result *run(hearth_model *model, const hearth_request *given, const hearth_result *known,
                                uint32_t n, told *out)
{
    hearth_request request = *given;

    memset(out, 0, sizeof(*out));
    request.on_token = hear_token;
    request.on_text = hear_text;
    request.user_data = out;
    request.replayed = known ? known->tokens : NULL;
    request.n_replayed = n;
    request.replayed_state = n > 0 ? states[n - 1] : NAN;
    request.tell_replayed = known != NULL;
    return hth_test_complete(model, &request);
}

static void expect_the_same_from_any_token(hearth_model *model, const hearth_request *request)
{
    told *first = malloc(sizeof(*first)), *again = malloc(sizeof(*again));
    const hearth_result *whole = run(model, request, NULL, 0, first);
    uint32_t n = whole->stats->completion_tokens;

    assert_true(n > 2 && n <= TOKENS_MAX);
    assert_string_equal(first->said, whole->text); /* each piece is delivered once, by one of the two */
    for (uint32_t k = 0; k <= n; k++) {
        const hearth_result *rest = run(model, request, whole, k, again);

        assert_string_equal(again->text, first->text);
        assert_int_equal(again->n_replayed, k);
        assert_string_equal(rest->text, whole->text);
        assert_int_equal(rest->finish_reason, whole->finish_reason);
        assert_int_equal(rest->stop_number, whole->stop_number);
        assert_int_equal(rest->stats->completion_tokens, n);
        if (k == n) {
            assert_int_equal(rest->stats->n_decode_evaluations + rest->stats->n_prefill_evaluations, 0);
            assert_int_equal(rest->stats->cached_tokens, rest->stats->prompt_tokens);
        }
        hearth_result_unref(rest);
    }
    hearth_result_unref(whole);
    free(first);
    free(again);
}

STUB_TEST(replayed_tokens_are_told_as_they_were_when_they_were_drawn)
{
    char *prompt = hth_test_prompt(300, 3);
    hearth_request request = hth_test_greedy(prompt, 24);

    request.ignore_eos = true;
    expect_the_same_from_any_token(f->model, &request);
    free(prompt);
}

STUB_TEST(mirostat_and_adaptive_p_continue_from_their_state)
{
    char *prompt = hth_test_prompt(40, 3);
    hearth_request request = hth_test_greedy(prompt, 24);
    const hearth_result *result;
    hearth_error err;

    for (int kind = 0; kind < 3; kind++) {
        hearth_sampling sampling = hearth_sampling_default();

        sampling.seed = 7;
        sampling.mirostat = kind;
        sampling.mirostat_tau = 2;
        sampling.mirostat_eta = 0.5f;
        sampling.adaptive_target = 0.3f;
        request.sampling = &sampling;
        request.ignore_eos = true;
        expect_the_same_from_any_token(f->model, &request);
        request.n_replayed = 2;
        request.replayed = (const hearth_token[]){ 'a', 'b' };
        assert_int_equal(hearth_complete(f->model, &request, &result, &err), HEARTH_MISUSE);
        assert_non_null(strstr(err.message, "set replayed_state"));
        request.n_replayed = 0;
        request.replayed = NULL;
    }
    free(prompt);
}

STUB_TEST(a_result_says_which_stop_text_ended_the_reply)
{
    char *prompt = hth_test_prompt(300, 3);
    hearth_request request = hth_test_greedy(prompt, 24);
    const char *stop[2] = { "this is never said" };
    const hearth_result *whole, *stopped;

    request.ignore_eos = true;
    whole = hth_test_complete(f->model, &request);
    assert_int_equal(whole->stop_number, 0);
    assert_true(whole->n_bytes > 10);
    stop[1] = whole->text + whole->n_bytes - 8;
    request.stop = stop;
    request.n_stop = 2;
    stopped = hth_test_complete(f->model, &request);
    assert_int_equal(stopped->finish_reason, HEARTH_FINISH_STOP);
    assert_int_equal(stopped->stop_number, 2);
    expect_the_same_from_any_token(f->model, &request);
    hearth_result_unref(stopped);
    hearth_result_unref(whole);
    free(prompt);
}

/* Many rows in one evaluation have other bits than single rows. A chunk over the prompt's end has other bits, too. */
STUB_TEST(replayed_tokens_that_are_not_cached_are_evaluated_one_by_one_behind_the_prompt)
{
    enum { N_KNOWN = 100 };
    char *prompt = hth_test_prompt(70, 5);
    hearth_request request = hth_test_greedy(prompt, N_KNOWN + 1);
    const hearth_result *whole, *rest;

    request.ignore_eos = true;
    whole = hth_test_complete(f->model, &request);
    assert_int_equal(whole->stats->completion_tokens, N_KNOWN + 1);
    request.replayed = whole->tokens;
    request.n_replayed = N_KNOWN;
    request.cache_salt = "somewhere that nothing of it is known";
    rest = hth_test_complete(f->model, &request);
    assert_string_equal(rest->text, whole->text);
    assert_int_equal(rest->stats->cached_tokens, 0);
    assert_int_equal(rest->stats->n_prefill_evaluations + rest->stats->n_decode_evaluations, 1 + N_KNOWN);
    hearth_result_unref(rest);
    hearth_result_unref(whole);
    free(prompt);
}

/* Those of other machines may have other bits anyway. Chunks end with the prompt and at multiples of their length. */
STUB_TEST(replayed_tokens_from_elsewhere_are_evaluated_in_chunks)
{
    enum { N_PROMPT = 200, N_KNOWN = 100 };
    char *prompt = hth_test_prompt(N_PROMPT, 5);
    hearth_request request = hth_test_greedy(prompt, N_KNOWN + 1);
    const hearth_result *whole, *rest;
    hearth_error err;

    request.ignore_eos = true;
    whole = hth_test_complete(f->model, &request);
    assert_int_equal(whole->stats->completion_tokens, N_KNOWN + 1);
    request.replayed = whole->tokens;
    request.n_replayed = N_KNOWN;
    for (size_t n = 0; n <= N_KNOWN; n += 20) {
        const uint32_t n_chunks = n == 0 ? 0 : whole->stats->prompt_tokens + n <= 256 ? 1 : 2;

        request.no_cache_read = true;
        request.n_replayed_elsewhere = n;
        rest = hth_test_complete(f->model, &request);
        assert_string_equal(rest->text, whole->text);
        assert_int_equal(rest->stats->cached_tokens, 0);
        assert_int_equal(rest->stats->n_prefill_evaluations, 1);
        assert_int_equal(rest->stats->n_decode_evaluations, n_chunks + N_KNOWN - n);
        hearth_result_unref(rest);
    }
    request.n_replayed_elsewhere = N_KNOWN + 1;
    assert_int_equal(hearth_complete(f->model, &request, &rest, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "n_replayed_elsewhere is 101"));
    hearth_result_unref(whole);
    free(prompt);
}

STUB_TEST(the_prompt_that_is_echoed_is_told_again_too)
{
    char *prompt = hth_test_prompt(40, 4);
    hearth_request request = hth_test_greedy(prompt, 6);

    request.echo = true;
    request.ignore_eos = true;
    expect_the_same_from_any_token(f->model, &request);
    free(prompt);
}

/* The end is held back by stop texts: it is released at the end only, however that comes about. */
STUB_TEST(a_reply_that_had_ended_ends_in_the_same_way_and_computes_nothing)
{
    char *prompt = hth_test_prompt(300, 5), stop[3] = "";
    const char *stops[] = { stop, "never in it" };
    hearth_request request = hth_test_greedy(prompt, 40);
    const hearth_result *whole;
    told *t = malloc(sizeof(*t));

    request.ignore_eos = true;
    whole = run(f->model, &request, NULL, 0, t);
    assert_true(whole->n_bytes > 20);
    memcpy(stop, whole->text + 12, 2);
    hearth_result_unref(whole);
    request.stop = stops;
    request.n_stop = 2;
    whole = run(f->model, &request, NULL, 0, t);
    assert_int_equal(whole->finish_reason, HEARTH_FINISH_STOP);
    hearth_result_unref(whole);
    expect_the_same_from_any_token(f->model, &request);
    free(t);
    free(prompt);
}

static bool refuse(uint64_t id, const hearth_token_event *event, void *user_data)
{
    (void)id;
    (void)user_data;
    return event->index < 3;
}

STUB_TEST(who_hears_a_replayed_token_may_refuse_it)
{
    hearth_request request = hth_test_greedy("a prompt for refusals", 8);
    const hearth_result *whole, *rest;

    request.ignore_eos = true;
    whole = hth_test_complete(f->model, &request);
    request.replayed = whole->tokens;
    request.n_replayed = 6;
    request.tell_replayed = true;
    request.on_token = refuse;
    assert_int_equal(hearth_complete(f->model, &request, &rest, NULL), HEARTH_CANCELLED);
    assert_int_equal(rest->finish_reason, HEARTH_FINISH_CANCELLED);
    hearth_result_unref(whole);
    hearth_result_unref(rest);
}

/*
 * Where no row is left of what a reply had evaluated, that is evaluated as it was: its logits have the same bits, so
 * the reply goes on as if it had not been broken off.
 */
TEST(a_reply_that_goes_on_without_any_row_has_the_bits_of_the_unbroken_one)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options model_options = hearth_model_options_default();
    char *prompt = hth_test_prompt(400, 7);
    hearth_request request = hth_test_greedy(prompt, 40);
    hearth_sampling sampling = hearth_sampling_default();
    const hearth_result *whole;

    options.cache_disabled = true;
    model_options.n_threads = 1;
    model_options.n_ctx = 2048;
    request.ignore_eos = true;
    sampling.temperature = 1.5f;
    sampling.seed = 5;
    request.sampling = &sampling;
    request.logprobs = true;
    for (uint32_t k = 0; k < 40; k += k < 4 ? 1 : 7) { /* each in a new context: nothing is there any more */
        hearth_runtime *runtime = hth_test_runtime_open(&options);
        hearth_model *model = hth_test_model_load(runtime, HTH_TEST_MODELS "/hearth-tiny.gguf", &model_options);
        const hearth_result *rest;

        request.replayed = k > 0 ? whole->tokens : NULL;
        request.n_replayed = k;
        rest = hth_test_complete(model, &request);
        if (k == 0) {
            whole = rest;
        } else {
            assert_memory_equal(rest->tokens, whole->tokens, 40 * sizeof(*whole->tokens));
            assert_memory_equal(rest->logprobs + k, whole->logprobs + k, (40 - k) * sizeof(*whole->logprobs));
            hearth_result_unref(rest);
        }
        hearth_model_unref(model);
        hearth_runtime_close(runtime);
    }
    hearth_result_unref(whole);
    free(prompt);
}
