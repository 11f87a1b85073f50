/*
 * relay_ask_test.c - the question what a worker knows of a prompt: only a whole answer in time is one
 */
#include <stdlib.h>
#include <string.h>

#include "front/history_ask.h"
#include "support/relay_tests.h"
#include "wire/history_part.h"

enum { ANSWER_BYTES_MAX = 4096 };

typedef struct asked {
    relay_stage stage;
    hth_buffer answer; /* of the worker, with its head */
    bool is_cut;       /* after the answer */
    bool is_silent;
    bool is_gone; /* the client of the worker */
    char head[2048];
    char *body; /* that the worker got */
    unsigned n_ends;
    hth_ask_end end;
    hth_buffer history;
} asked;

static void on_gone(void *user_data)
{
    asked *a = user_data;

    a->is_gone = true;
}

static void answer(fake_connection *connection, const fake_request *request, void *user_data)
{
    asked *a = user_data;

    (void)snprintf(a->head, sizeof(a->head), "%s", request->head);
    free(a->body);
    a->body = strdup(request->body);
    fake_on_gone(connection, on_gone, a);
    if (!a->is_silent)
        fake_write(connection, a->answer.text, a->answer.n);
    if (a->is_cut)
        fake_end(connection);
}

static void set_up(asked *a)
{
    *a = (asked){ .n_ends = 0 };
    relay_stage_open(&a->stage);
    a->stage.supervisor.handler = answer;
    a->stage.supervisor.user_data = a;
    worker_start(&a->stage.supervisor);
}

static void tear_down(asked *a)
{
    relay_stage_close(&a->stage);
    hth_buffer_deinit(&a->answer);
    hth_buffer_deinit(&a->history);
    free(a->body);
}

#define ASKED(name) TEST_WITH(asked, a, name, set_up, tear_down)

/* The worker answers with this status and body; n_claimed is its Content-Length. */
static void set_answer(asked *a, int status, const void *body, size_t n, size_t n_claimed)
{
    char head[128];

    (void)snprintf(head, sizeof(head), "HTTP/1.1 %d OK\r\nContent-Length: %zu\r\n\r\n", status, n_claimed);
    hth_buffer_clear(&a->answer);
    hth_buffer_add_text(&a->answer, head);
    if (n > 0)
        hth_buffer_add(&a->answer, body, n);
}

static void on_end(hth_ask_end end, hth_buffer *history_take, void *user_data)
{
    asked *a = user_data;

    a->n_ends++;
    a->end = end;
    hth_buffer_deinit(&a->history);
    a->history = *history_take;
}

static hth_history_ask *begin(asked *a)
{
    static const hth_upstream_header headers[] = { { "Content-Type", "application/json" },
                                                   { HTH_HEADER_SALT, "salt" } };
    const hth_upstream_request request = { .method = "POST",
                                           .target = "/v1/chat/completions",
                                           .headers = headers,
                                           .n_headers = 2,
                                           .body = { NULL, "past ", NULL, "body" },
                                           .body_bytes = { 0, 5, 0, 4 } };

    a->is_gone = false;
    return hth_history_ask_begin(&(hth_history_ask_options){ .upstream = a->stage.upstream,
                                                             .places = a->stage.places,
                                                             .model = "tiny",
                                                             .request = &request,
                                                             .bytes_max = ANSWER_BYTES_MAX,
                                                             .on_end = on_end,
                                                             .user_data = a });
}

/* Ask; the end has to be this one. */
static void expect(asked *a, hth_ask_end end)
{
    const unsigned n = a->n_ends;

    assert_non_null(begin(a));
    assert_int_equal(a->n_ends, n);
    hth_test_http_until(&a->stage.http, a->n_ends > n);
    assert_int_equal(a->n_ends, n + 1);
    assert_int_equal(a->end, end);
    assert_int_equal(a->history.n > 0, end == HTH_ASK_WELL);
    assert_int_equal(a->stage.supervisor.waiters.n_holders, 0);
}

/* A text of n tokens that are a byte each. */
static hth_buffer part_of(size_t n)
{
    hth_history_turn turn = { .n_bytes = (uint32_t)n, .n_tokens = (uint32_t)n };
    hth_known_text text = { .text = calloc(n, 1),
                            .n_bytes = n,
                            .tokens = calloc(n, sizeof(hearth_token)),
                            .n_tokens = n,
                            .turns = &turn,
                            .n_turns = 1 };
    hth_buffer out = { .text = NULL };

    hth_history_part_add(&out, &text);
    free(text.text);
    free(text.tokens);
    assert_false(out.failed);
    return out;
}

ASKED(a_whole_answer_is_passed_on)
{
    hth_buffer part = part_of(10);

    set_answer(a, 200, part.text, part.n, part.n);
    expect(a, HTH_ASK_WELL);
    assert_int_equal(a->history.n, part.n);
    assert_memory_equal(a->history.text, part.text, part.n);
    assert_non_null(strstr(a->head, "POST /v1/chat/completions HTTP/1.1\r\n"));
    assert_non_null(strstr(a->head, "\r\n" HTH_HEADER_ASK ": " HTH_ASK_HISTORY "\r\n"));
    assert_non_null(strstr(a->head, "\r\n" HTH_HEADER_SALT ": salt\r\n"));
    assert_string_equal(a->body, "past body");
    hth_buffer_deinit(&part);
}

ASKED(an_empty_answer_is_nothing)
{
    set_answer(a, 200, NULL, 0, 0);
    expect(a, HTH_ASK_NOTHING);
}

ASKED(other_answers_are_none)
{
    hth_buffer part = part_of(10), too_long = part_of(ANSWER_BYTES_MAX);

    set_answer(a, 200, "nonsense", 8, 8);
    expect(a, HTH_ASK_BROKEN);
    set_answer(a, 200, part.text, part.n - 1, part.n - 1);
    expect(a, HTH_ASK_BROKEN);
    set_answer(a, 404, part.text, part.n, part.n);
    expect(a, HTH_ASK_BROKEN);
    set_answer(a, 200, too_long.text, too_long.n, too_long.n);
    expect(a, HTH_ASK_BROKEN);
    a->is_cut = true;
    set_answer(a, 200, part.text, part.n, part.n + 1);
    expect(a, HTH_ASK_BROKEN);
    hth_buffer_deinit(&part);
    hth_buffer_deinit(&too_long);
}

ASKED(an_answer_that_does_not_come_is_not_waited_for)
{
    a->is_silent = true;
    expect(a, HTH_ASK_BROKEN);
    hth_test_http_until(&a->stage.http, a->is_gone);
}

ASKED(a_question_can_be_ended)
{
    hth_history_ask *ask;

    a->is_silent = true;
    ask = begin(a);
    assert_int_equal(a->stage.supervisor.waiters.n_holders, 1);
    hth_test_http_until(&a->stage.http, a->head[0]);
    hth_history_ask_cancel(ask);
    assert_int_equal(a->stage.supervisor.waiters.n_holders, 0);
    hth_test_http_until(&a->stage.http, a->is_gone);
    assert_int_equal(a->n_ends, 0);
    hth_history_ask_cancel(NULL);
}

ASKED(a_model_that_is_not_loaded_is_not_asked)
{
    worker_end(&a->stage.supervisor, HTH_WORKER_STOPPED);
    assert_null(begin(a));
    assert_null(a->stage.supervisor.waiters.first);
    assert_int_equal(a->n_ends, 0);
}
