/*
 * worker_history_test.c - a worker tells what it knows of a prompt, and another one learns it before the prompt's body
 *
 * Of so many tokens, nearly all are words that the stub's tokenizer never makes: a reply has far fewer tokens than its
 * text gets from the tokenizer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/worker_stage.h"
#include "wire/history_part.h"

#define TARGET "/v1/chat/completions"
#define SALT HTH_HEADER_SALT ": mine\r\n"
/* The greatest logits are those of letters. */
#define ANY "\"temperature\":2,\"top_k\":0,\"top_p\":1,\"min_p\":0"
#define OPTIONS "\"max_tokens\":8,\"ignore_eos\":true,\"seed\":1," ANY

enum { REPLY_TOKENS = 8, MEMORY = 1 << 20 };

typedef struct scene {
    hth_test_worker worker; /* first the one there, then the one here */
    const char *script;     /* of its replies; NULL: they are drawn */
    char body[4096];        /* of the second turn */
} scene;

static void start(scene *s)
{
    hth_test_worker_init(&s->worker, "stub:vocab=50000");
    s->worker.runtime.history_bytes_max = MEMORY;
    s->worker.model.chat_template = s->script;
    hth_test_worker_start(&s->worker);
}

static void stop(scene *s)
{
    hth_test_worker_stop(&s->worker);
    hth_test_worker_deinit(&s->worker);
}

/* From now on, the worker is another one, which knows nothing. */
static void move(scene *s)
{
    stop(s);
    start(s);
}

static json_t *answer_of(hth_test_heard *heard)
{
    json_t *answer;

    if (heard->status != 200)
        fail_msg("%s", hth_buffer_text(&heard->body));
    answer = hth_test_json(hth_buffer_text(&heard->body));
    hth_test_heard_deinit(heard);
    return answer;
}

/* A turn of the conversation there; the body is then that of the next turn. */
static void set_up(scene *s)
{
    static const char first[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me\"}]," OPTIONS "}";
    hth_test_heard heard;
    json_t *reply;

    start(s);
    heard = hth_test_worker_ask(&s->worker, "POST", TARGET, SALT, first, strlen(first));
    reply = answer_of(&heard);
    (void)snprintf(
        s->body, sizeof(s->body),
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me\"},{\"role\":\"assistant\",\"content\":\"%s\"},"
        "{\"role\":\"user\",\"content\":\"more\"}]," OPTIONS "}",
        json_string_value(json_object_get(
            json_object_get(json_array_get(json_object_get(reply, "choices"), 0), "message"), "content")));
}

#define SCENE_TEST(name) TEST_WITH(scene, s, name, set_up, stop)

/* What it knows there, with these headers. */
static hth_test_heard ask_history(const scene *s, const char *headers, const char *target, const char *body)
{
    char all[256];
    hth_test_heard heard;

    (void)snprintf(all, sizeof(all), HTH_HEADER_ASK ": " HTH_ASK_HISTORY "\r\n%s", headers);
    heard = hth_test_worker_ask(&s->worker, "POST", target, all, body, strlen(body));
    assert_int_equal(heard.status, 200);
    return heard;
}

/* Ask here, with a history of n bytes before the body, as the header says. */
static hth_test_heard ask_here(const scene *s, const char *headers, const void *history, size_t n, size_t n_claimed)
{
    hth_buffer body = { .text = NULL };
    char all[256];
    hth_test_heard heard;

    (void)snprintf(all, sizeof(all), HTH_HEADER_HISTORY ": %zu\r\n%s", n_claimed, headers);
    if (n > 0)
        hth_buffer_add(&body, history, n);
    hth_buffer_add_text(&body, s->body);
    heard = hth_test_worker_ask(&s->worker, "POST", TARGET, all, body.text, body.n);
    hth_buffer_deinit(&body);
    return heard;
}

static int prompt_tokens_here(const scene *s, const char *headers, const hth_buffer *history)
{
    hth_test_heard heard = ask_here(s, headers, history->text, history->n, history->n);

    return (int)json_integer_value(json_object_get(json_object_get(answer_of(&heard), "usage"), "prompt_tokens"));
}

SCENE_TEST(a_worker_learns_what_another_one_knows)
{
    const hth_buffer nothing = { .text = NULL };
    hth_test_heard known = ask_history(s, SALT, TARGET, s->body);
    hth_known_text text;
    int n_before, n_after;

    assert_true(hth_history_part_read(known.body.text, known.body.n, &text));
    assert_int_equal(text.n_turns, 1);
    assert_true(text.turns[0].n_reply_bytes > 2 * REPLY_TOKENS);
    move(s);
    n_before = prompt_tokens_here(s, SALT, &nothing); /* it keeps this prompt */
    n_after = prompt_tokens_here(s, SALT, &known.body);
    /* The tokenizer makes a token of each byte of the reply. */
    assert_int_equal(n_before - n_after, (int)text.turns[0].n_reply_bytes - REPLY_TOKENS);
    assert_int_equal(prompt_tokens_here(s, SALT, &nothing), n_after); /* and from then on */
    assert_int_equal(prompt_tokens_here(s, "", &nothing), n_before);  /* but not for others */
    hth_known_text_deinit(&text);
    hth_test_heard_deinit(&known);
}

SCENE_TEST(only_the_tenant_is_told_and_nothing_is_begun)
{
    const char *const strangers[] = { "", HTH_HEADER_SALT ": others\r\n" };
    hth_test_heard heard;

    for (size_t i = 0; i < 2; i++) {
        heard = ask_history(s, strangers[i], TARGET, s->body);
        assert_int_equal(heard.body.n, 0);
        hth_test_heard_deinit(&heard);
    }
    heard = ask_history(s, SALT, "/v1/completions", "{\"prompt\":\"Tell me\"}");
    assert_int_equal(heard.body.n, 0);
    hth_test_heard_deinit(&heard);
    heard = ask_history(s, SALT, "/v1/completions", "{\"prompt\":[\"Tell me\",\"Tell me\"]}");
    assert_int_equal(heard.body.n, 0);
    hth_test_heard_deinit(&heard);
    assert_int_equal(hth_test_worker_n_busy(&s->worker), 0);
}

static void expect_refused(hth_test_heard heard, const char *why)
{
    assert_int_equal(heard.status, 400);
    assert_non_null(strstr(hth_buffer_text(&heard.body), why));
    hth_test_heard_deinit(&heard);
}

SCENE_TEST(a_history_of_another_form_is_refused)
{
    hth_test_heard known = ask_history(s, SALT, TARGET, s->body);

    move(s);
    expect_refused(ask_here(s, SALT, known.body.text, known.body.n, known.body.n + strlen(s->body) + 1),
                   "the body is shorter than what should be before it");
    expect_refused(ask_here(s, SALT HTH_HEADER_PAST ": 1\r\n", NULL, 0, strlen(s->body)),
                   "the body is shorter than what should be before it");
    expect_refused(ask_here(s, SALT, known.body.text, known.body.n, SIZE_MAX),
                   "the body is shorter than what should be before it");
    expect_refused(ask_here(s, SALT, known.body.text, known.body.n, known.body.n - 1), "no such tokens");
    expect_refused(ask_here(s, SALT, "nonsense", 8, 8), "no such tokens");
    hth_test_heard_deinit(&known);
}

SCENE_TEST(a_history_that_is_wrong_changes_nothing)
{
    const hth_buffer nothing = { .text = NULL };
    hth_test_heard known = ask_history(s, SALT, TARGET, s->body);
    int n;

    move(s);
    n = prompt_tokens_here(s, SALT, &nothing);
    known.body.text[known.body.n - 1]++; /* of its text */
    assert_int_equal(prompt_tokens_here(s, SALT, &known.body), n);
    hth_test_heard_deinit(&known);
}

/* The client sends the call back with other blanks than the model wrote. */
SCENE_TEST(a_worker_learns_the_words_of_a_model_elsewhere)
{
    static const char question[] = "{\"role\":\"user\",\"content\":\"What is it?\"}",
                      tools[] = "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]";
    const hth_buffer nothing = { .text = NULL };
    hth_test_heard known;
    int n_there, n_plain;

    s->script = "#script\n<call>f {\"a\":[1,2]}</call>";
    move(s);
    (void)snprintf(s->body, sizeof(s->body), "{\"messages\":[%s],%s}", question, tools);
    (void)prompt_tokens_here(s, SALT, &nothing);
    (void)snprintf(s->body, sizeof(s->body),
                   "{\"messages\":[%s,{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\","
                   "\"function\":{\"name\":\"f\",\"arguments\":\"{ \\\"a\\\": [1, 2] }\"}}]},"
                   "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"It is.\"}],%s}",
                   question, tools);
    n_there = prompt_tokens_here(s, SALT, &nothing);
    known = ask_history(s, SALT, TARGET, s->body);
    assert_true(known.body.n > 0);
    move(s);
    n_plain = prompt_tokens_here(s, HTH_HEADER_SALT ": others\r\n", &nothing);
    assert_true(n_plain > n_there); /* for the blanks */
    assert_int_equal(prompt_tokens_here(s, SALT, &known.body), n_there);
    hth_test_heard_deinit(&known);
}
