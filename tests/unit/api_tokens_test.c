/*
 * api_tokens_test.c - log probabilities wait for the text of their tokens, but not for ever, and come once
 */
#include <stdlib.h>
#include <string.h>

#include "api/prepare.h"
#include "api/reply.h"
#include "dialects/request_parse.h"
#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"

enum { N_TOKENS = 1000, N_TOP = 20 };

static const char native[] = "{\"prompt\":\"a\",\"n_probs\":20,\"stream\":true}",
                  completion[] = "{\"model\":\"m\",\"prompt\":\"a\",\"logprobs\":0,\"stream\":true}",
                  chat[] = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"logprobs\":true,"
                           "\"top_logprobs\":20,\"stream\":true}";

/* How many tokens the events tell the log probabilities of. */
static size_t count_entries(hth_api_kind kind, json_t *events)
{
    static const char *const places[] = { [HTH_API_CHAT] = "choices.0.logprobs.content",
                                          [HTH_API_COMPLETION] = "choices.0.logprobs.token_logprobs",
                                          [HTH_API_NATIVE_COMPLETION] = "completion_probabilities" };
    size_t i, n = 0;
    json_t *event;

    json_array_foreach(events, i, event) n += json_array_size(hth_test_at(event, places[kind]));
    return n;
}

/* Tokens none of which shows anything, as control tokens are. */
static void say_nothing(hth_api_reply *reply, uint32_t n_top, hth_buffer *out, size_t *n_longest)
{
    hearth_logprob logprobs[1 + N_TOP];
    static const hearth_stats stats = { .struct_size = sizeof(stats) };
    hearth_result result = { .stats = &stats, .status = HEARTH_OK, .finish_reason = HEARTH_FINISH_LENGTH, .text = "" };

    for (uint32_t i = 0; i <= n_top; i++)
        logprobs[i] = (hearth_logprob){ .token = (hearth_token)('a' + i), .logprob = -0.5f };
    for (uint32_t i = 0; i <= N_TOKENS; i++) {
        size_t n_before = out->n;
        const hearth_token_event event = {
            .token = 'a', .index = i, .text = "", .logprobs = logprobs, .n_top_logprobs = n_top
        };

        if (i < N_TOKENS)
            hth_api_reply_token(reply, 0, &event, out);
        else
            hth_api_reply_done(reply, 0, &result, out);
        if (out->n - n_before > *n_longest)
            *n_longest = out->n - n_before;
    }
}

STUB_TEST(log_probabilities_do_not_wait_for_text_for_ever)
{
    static const struct {
        hth_api_kind kind;
        const char *body;
        uint32_t n_top;
        bool leaves_before_the_end;
    } rows[] = {
        { HTH_API_NATIVE_COMPLETION, native, 20, true },
        { HTH_API_COMPLETION, completion, 0, false }, /* a thousand numbers may wait */
        { HTH_API_CHAT, chat, 20, true },
    };
    const hth_api_reply_options options = { .model = "m", .id = "0123", .created_s = 1 };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_api_error error;
        hth_api_request *request =
            hth_api_request_parse(rows[i].kind, rows[i].body, strlen(rows[i].body), NULL, &error);
        hth_api_prepared prepared;
        hth_api_reply *reply;
        hth_buffer out = { .text = NULL };
        size_t n_longest = 0;
        json_t *events;

        assert_non_null(request);
        assert_true(hth_api_prepare(f->model, request, 1, NULL, &prepared, &error));
        reply = hth_api_reply_new(f->model, request, &prepared, &options, &error);
        say_nothing(reply, rows[i].n_top, &out, &n_longest);
        assert_true(hth_api_reply_has_ended(reply));
        assert_false(hth_api_reply_has_unwritten(reply, 0));
        assert_int_equal(n_longest < out.n / 2, rows[i].leaves_before_the_end);
        events = hth_test_events(hth_buffer_text(&out));
        assert_int_equal(count_entries(rows[i].kind, events), N_TOKENS);
        hth_buffer_deinit(&out);
        hth_api_reply_free(reply);
        hth_api_prepared_deinit(&prepared);
        hth_api_request_free(request);
    }
}
