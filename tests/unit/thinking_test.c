/*
 * thinking_test.c - reasoning is closed when its budget is used up, at the end of a character, and not before
 */
#include <stdlib.h>
#include <string.h>

#include "sampling/sampler.h"
#include "sampling/thinking.h"
#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/support.h"

/* Bytes, and two control tokens, which have no text. */
enum { BEGIN = 256, END = 257, N_VOCAB = 258 };

static hearth_status piece(const void *model, hearth_token token, char *bytes, size_t capacity, size_t *n_out)
{
    (void)model;
    (void)capacity;
    bytes[0] = (char)token;
    *n_out = token < BEGIN;
    return HEARTH_OK;
}

static bool is_end(const void *model, hearth_token token)
{
    (void)model;
    (void)token;
    return false;
}

static hearth_status tokenize(const void *model, const char *text, hearth_token *tokens, size_t capacity, size_t *n_out,
                              hearth_error *err)
{
    const bool has_control = model != NULL;

    (void)err;
    *n_out = strlen(text);
    if (has_control && (strcmp(text, "<t>") == 0 || strcmp(text, "</t>") == 0)) {
        *n_out = 1;
        tokens[0] = text[1] == 't' ? BEGIN : END;
        return HEARTH_OK;
    }
    for (size_t i = 0; i < *n_out && *n_out <= capacity; i++)
        tokens[i] = (unsigned char)text[i];
    return HEARTH_OK;
}

static hearth_sampling bounded(int32_t budget)
{
    hearth_sampling s = hearth_sampling_default();

    s.thinking_budget = budget;
    s.thinking_begin = "<t>";
    s.thinking_end = "</t>";
    return s;
}

static hth_vocabulary *vocabulary_new(void)
{
    hth_vocabulary *vocabulary;

    assert_int_equal(
        hth_vocabulary_new(&(hth_vocabulary_source){ .n_tokens = N_VOCAB, .piece = piece, .is_end = is_end },
                           &vocabulary, NULL),
        HEARTH_OK);
    return vocabulary;
}

/* Accept the bytes of text, of which none is forced. */
static void accept_free(hth_thinking *t, const char *text)
{
    for (; *text; text++) {
        assert_int_equal(hth_thinking_forced(t), HTH_NO_TOKEN);
        hth_thinking_accept(t, (unsigned char)*text);
    }
}

/* The bytes of text are forced, one after the other, and nothing behind them. */
static void expect_forced(hth_thinking *t, const char *text)
{
    for (; *text; text++) {
        assert_int_equal(hth_thinking_forced(t), (unsigned char)*text);
        hth_thinking_accept(t, (unsigned char)*text);
    }
    assert_int_equal(hth_thinking_forced(t), HTH_NO_TOKEN);
}

static hth_thinking *open_thinking(const hearth_sampling *s, const void *model, const hth_vocabulary *vocabulary)
{
    hth_thinking_parts parts;
    hth_thinking *t;

    assert_int_equal(hth_thinking_read(s, tokenize, model, &parts, NULL), HEARTH_OK);
    t = hth_thinking_new(&parts, vocabulary);
    assert_non_null(t);
    return t;
}

TEST(reasoning_is_closed_after_its_budget)
{
    hth_vocabulary *vocabulary = vocabulary_new();
    hearth_sampling s = bounded(5);
    hth_thinking *t = open_thinking(&s, NULL, vocabulary);

    accept_free(t, "\n <t>abcde");
    expect_forced(t, "</t>");
    accept_free(t, "an answer, as long as it likes\n");
    accept_free(t, "<t>a</t>"); /* ends by itself */
    accept_free(t, "<t>fghij"); /* each piece has the whole budget */
    expect_forced(t, "</t>");
    hth_thinking_free(t);

    s.thinking_message = "Stop.";
    s.starts_thinking = true;
    t = open_thinking(&s, NULL, vocabulary);
    accept_free(t, "abcde");
    expect_forced(t, "Stop.</t>");
    hth_thinking_free(t);

    s = bounded(0);
    t = open_thinking(&s, NULL, vocabulary);
    accept_free(t, "<t>");
    expect_forced(t, "</t>");
    hth_thinking_free(t);
    hth_vocabulary_free(vocabulary);
}

TEST(a_text_that_is_quoted_begins_no_reasoning)
{
    hth_vocabulary *vocabulary = vocabulary_new();
    hearth_sampling s = bounded(3);
    hth_thinking *t = open_thinking(&s, NULL, vocabulary);

    accept_free(t, "The tag <t> is a tag, and ");
    for (int i = 0; i < 40; i++)
        accept_free(t, "blanks without end are no beginning, <t>");
    accept_free(t, "          ");
    for (int i = 0; i < 20; i++)
        accept_free(t, "          ");
    accept_free(t, "<t>abcdefgh\n<t>abc");
    expect_forced(t, "</t>");
    hth_thinking_free(t);
    hth_vocabulary_free(vocabulary);
}

TEST(a_character_is_not_cut)
{
    hth_vocabulary *vocabulary = vocabulary_new();
    hearth_sampling s = bounded(3);

    for (int i = 0; i < 2; i++) {
        hth_thinking *t = open_thinking(&s, NULL, vocabulary);

        accept_free(t, i == 0 ? "<t>ab\u20ac" : "<t>ab\U0001f600");
        expect_forced(t, "</t>");
        hth_thinking_free(t);
    }
    hth_vocabulary_free(vocabulary);
}

TEST(control_tokens_are_recognised_without_text)
{
    hth_vocabulary *vocabulary = vocabulary_new();
    hearth_sampling s = bounded(2);
    hth_thinking *t = open_thinking(&s, &s, vocabulary);

    hth_thinking_accept(t, BEGIN);
    hth_thinking_accept(t, 'a');
    hth_thinking_accept(t, END);
    accept_free(t, "abcdef");
    hth_thinking_accept(t, BEGIN);
    accept_free(t, "ab");
    assert_int_equal(hth_thinking_forced(t), END);
    hth_thinking_accept(t, END);
    accept_free(t, "abc");
    hth_thinking_free(t);
    hth_vocabulary_free(vocabulary);
}

TEST(forced_tokens_do_not_move_the_state_of_the_chain)
{
    hth_vocabulary *vocabulary = vocabulary_new();
    float logits[N_VOCAB] = { 0 };

    for (int mirostat = 0; mirostat <= 2; mirostat++) {
        hearth_sampling s = bounded(2);
        hth_engine_sampler *sampler;
        hth_thinking_parts parts;
        const hth_candidate *candidates;
        float before, after;
        size_t n = 0;

        s.mirostat = mirostat;
        s.adaptive_target = 0.3f;
        s.top_k = 0;
        assert_int_equal(hth_thinking_read(&s, tokenize, NULL, &parts, NULL), HEARTH_OK);
        assert_int_equal(
            hth_sampler_new(&s,
                            &(hth_sampler_parts){ .n_vocab = N_VOCAB, .vocabulary = vocabulary, .thinking = &parts },
                            &sampler, NULL),
            HEARTH_OK);
        for (const char *c = "<t>ab</t>c"; *c; c++) {
            assert_true(hth_sampler_state(sampler, &before));
            assert_int_equal(hth_sampler_apply(sampler, logits, &(hth_sample_at){ 0 }, &candidates, &n, NULL),
                             HEARTH_OK);
            assert_int_equal(hth_sampler_accept(sampler, (unsigned char)*c, true, NULL), HEARTH_OK);
            assert_true(hth_sampler_state(sampler, &after));
            assert_int_equal(n == 1, after == before);
        }
        hth_sampler_free(sampler);
    }
    hth_vocabulary_free(vocabulary);
}

TEST(a_message_has_room_for_so_many_tokens)
{
    hth_thinking_parts parts;
    hearth_sampling s = bounded(2);
    char message[601];
    hearth_error err;

    memset(message, 'a', 600);
    message[600] = '\0';
    s.thinking_message = message;
    assert_int_equal(hth_thinking_read(&s, tokenize, NULL, &parts, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "thinking_message has 600 tokens; it must be at most 508"));
    message[508] = '\0';
    assert_int_equal(hth_thinking_read(&s, tokenize, NULL, &parts, &err), HEARTH_OK);
    s.thinking_end = "";
    assert_int_equal(hth_sampling_check(&s, &err), HEARTH_MISUSE);
    s = bounded(-2);
    assert_int_equal(hth_sampling_check(&s, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "thinking_budget is -2"));
}

/* ---- over HTTP ---- */

/* A reply that reasons for twenty letters, as long as nothing ends it. */
#define REASONS                                                                                                \
    "\"grammar\":\"root ::= \\\"<think>\\\" [a-z]+ \\\"</think>\\\" \\\"ok\\\"\",\"logit_bias\":{\"60\":-50}," \
    "\"max_tokens\":60,\"seed\":3,"

STUB_TEST(every_api_takes_a_budget)
{
    static const struct {
        hth_api_kind kind;
        const char *body, *at;
        size_t n_expected;
    } rows[] = {
        { HTH_API_CHAT, REASONS "\"reasoning_budget_tokens\":5", "choices.0.message.reasoning_content", 5 },
        { HTH_API_CHAT, REASONS "\"thinking_budget_tokens\":6", "choices.0.message.reasoning_content", 6 },
        { HTH_API_CHAT, REASONS "\"reasoning\":{\"max_tokens\":7}", "choices.0.message.reasoning_content", 7 },
        { HTH_API_CHAT, REASONS "\"thinking_budget\":3,\"reasoning_budget_message\":\"stop\"",
          "choices.0.message.reasoning_content", 7 },
        { HTH_API_OLLAMA_CHAT,
          "\"stream\":false,\"thinking_token_budget\":4,\"options\":{\"grammar\":\"root ::= \\\"<think>\\\" [a-z]+ "
          "\\\"</think>\\\" \\\"ok\\\"\",\"logit_bias\":{\"60\":-50},\"num_predict\":60}",
          "message.thinking", 4 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char body[1024];
        hth_test_answer answer;
        json_t *reply;

        snprintf(body, sizeof(body), "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],%s}", rows[i].body);
        print_message("%s\n", body);
        answer = hth_test_api_run(f->model, rows[i].kind, body);
        reply = hth_test_json(hth_buffer_text(&answer.text));
        assert_int_equal(strlen(hth_test_text_at(reply, rows[i].at)), rows[i].n_expected);
    }
}
