/*
 * worker_lanes_test.c - no body makes others wait: several are prepared at once, and nobody prepares what nobody needs
 *
 * The stub engine tokenizes long texts once a file is gone.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/worker_stage.h"

enum { LONG_BYTES = 300 << 10, SHORT_BYTES = 8 << 10, N_LONG = 5, N_CTX = 64 << 10 };

typedef struct stage {
    hth_test_worker worker;
    char reading[128]; /* while it is there, no long text is tokenized */
    char model[200];
} stage;

static void set_up(stage *s)
{
    FILE *file;

    hth_test_worker_init(&s->worker, s->model);
    (void)snprintf(s->reading, sizeof(s->reading), "%s/reading", s->worker.directory); /* fits, and so does the next */
    (void)snprintf(s->model, sizeof(s->model), "stub:reading=%s", s->reading);
    file = fopen(s->reading, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    s->worker.model.n_ctx = N_CTX;
    hth_test_worker_start(&s->worker);
}

static void tear_down(stage *s)
{
    (void)unlink(s->reading); /* a test may have removed it */
    hth_test_worker_deinit(&s->worker);
}

/* A body with n letters between two texts. */
static hth_buffer body_of(const char *before, size_t n, const char *behind)
{
    hth_buffer body = { .text = NULL };

    hth_buffer_add_text(&body, before);
    for (size_t i = 0; i < n; i++)
        hth_buffer_add(&body, "a", 1);
    hth_buffer_add_text(&body, behind);
    assert_false(body.failed);
    return body;
}

static hth_test_heard ask(const stage *s, const char *target, const char *before, size_t n, const char *behind)
{
    hth_buffer body = body_of(before, n, behind);
    hth_test_heard heard = hth_test_worker_post(&s->worker, target, hth_buffer_text(&body));

    hth_buffer_deinit(&body);
    return heard;
}

#define STAGED(name) TEST_WITH(stage, s, name, set_up, tear_down)

static int send_long(const stage *s)
{
    hth_buffer body = body_of("{\"prompt\":\"", LONG_BYTES, "\"}");
    int fd = hth_test_worker_connect(&s->worker);

    hth_test_worker_send(fd, "POST", "/completion", "", body.text, body.n);
    hth_buffer_deinit(&body);
    return fd;
}

/* A body above 4 KiB is answered; complicated or not. */
static void expect_answer(const stage *s, bool is_complicated)
{
    hth_test_heard heard =
        ask(s, "/completion", "{\"prompt\":\"", SHORT_BYTES,
            is_complicated ? "\",\"n_predict\":2,\"logit_bias\":[[\"b\",1]]}" : "\",\"n_predict\":2}");

    if (heard.status != 200)
        fail_msg("%d: %s", heard.status, hth_buffer_text(&heard.body));
    hth_test_heard_deinit(&heard);
}

STAGED(a_body_waits_for_none_that_takes_longer)
{
    int fds[N_LONG];

    for (int i = 0; i < N_LONG; i++)
        fds[i] = send_long(s);
    expect_answer(s, false);
    expect_answer(s, true);
    assert_int_equal(unlink(s->reading), 0);
    for (int i = 0; i < N_LONG; i++) {
        hth_test_heard heard = hth_test_worker_hear(fds[i]);

        assert_int_equal(heard.status, 400); /* all are read now, and do not fit */
        assert_non_null(strstr(heard.body.text, "the prompt (307201 tokens)"));
        hth_test_heard_deinit(&heard);
        close(fds[i]);
    }
}

/* Otherwise the worker would not end before the file is gone. */
STAGED(texts_that_nobody_waits_for_are_not_tokenized_to_their_end)
{
    int gone = send_long(s), stays = send_long(s);

    expect_answer(s, false); /* the long ones have arrived */
    close(gone);
    expect_answer(s, false);
    hth_test_worker_stop(&s->worker);
    assert_int_equal(access(s->reading, F_OK), 0);
    close(stays);
}

STAGED(a_prompt_that_cannot_fit_is_refused_before_it_is_read)
{
    enum { BYTES = 12 * N_CTX + 120 }; /* no token of the stub has more than 12 bytes of a text */
    static const char *const cases[][4] = {
        { "/completion", "{\"prompt\":\"", "\"}", "\"n_prompt_tokens\":65546" },
        { "/completion", "{\"prompt\":[1,\"", "\",2]}", "\"n_ctx\":65536" },
        { "/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]}", "\"messages\"" },
        { "/v1/messages", "{\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]}",
          "prompt is too long: " },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hth_test_heard heard = ask(s, cases[i][0], cases[i][1], BYTES, cases[i][2]);

        assert_int_equal(heard.status, 400);
        if (!strstr(heard.body.text, cases[i][3]) || (i < 3 && !strstr(heard.body.text, "(at least 655")))
            fail_msg("%s", heard.body.text);
        hth_test_heard_deinit(&heard);
    }
}

/* The answer has every token, or their number, however many they are. */
STAGED(a_text_that_is_to_be_tokenized_or_counted_is_not_refused)
{
    hth_test_heard heard;

    assert_int_equal(unlink(s->reading), 0);
    heard = ask(s, "/tokenize", "{\"content\":\"", 13 * N_CTX, "\"}");
    assert_int_equal(heard.status, 200);
    hth_test_heard_deinit(&heard);
    heard =
        ask(s, "/v1/messages/count_tokens", "{\"messages\":[{\"role\":\"user\",\"content\":\"", 13 * N_CTX, "\"}]}");
    assert_int_equal(heard.status, 200);
    hth_test_heard_deinit(&heard);
}
