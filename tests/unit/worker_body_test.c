/*
 * worker_body_test.c - replies that are no streams: however long they are, they leave a piece at a time, and are made
 * of nothing but their tokens and what was told of them
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/worker_stage.h"

#define LONG_BODY \
    "{\"prompt\":\"a\",\"n\":12,\"n_predict\":64,\"n_probs\":64,\"ignore_eos\":true,\"seed\":3,\"temperature\":1}"
enum { LONG_REPLIES = 12, LONG_TOKENS = 64, LONG_BYTES_MIN = 2 << 20 };

static void setup(hth_test_worker *worker)
{
    hth_test_worker_init(worker, "stub:");
    hth_test_worker_start(worker);
}

#define STAGED(name) TEST_WITH(hth_test_worker, worker, name, setup, hth_test_worker_deinit)

/* A request of the front's, with what it knows. */
static hth_test_heard ask_framed(const hth_test_worker *worker, const char *target, const char *body,
                                 const hth_buffer *known)
{
    hth_buffer all = { .text = NULL };
    char headers[128];
    hth_test_heard heard;
    int n;

    n = snprintf(headers, sizeof(headers),
                 "Hearth-Frames: 1\r\nHearth-Id: abc\r\nHearth-Created: 1\r\nHearth-Seed: 7\r\n");
    if (known)
        (void)snprintf(headers + n, sizeof(headers) - (size_t)n, "Hearth-Known: %zu\r\n", known->n);
    if (known)
        hth_buffer_add(&all, hth_buffer_text(known), known->n);
    hth_buffer_add_text(&all, body);
    heard = hth_test_worker_ask(worker, "POST", target, headers, all.text, all.n);
    hth_buffer_deinit(&all);
    assert_int_equal(heard.status, 200);
    assert_true(heard.is_complete);
    return heard;
}

/* What the frames of a whole reply say. */
typedef struct told {
    hth_buffer body;
    hth_buffer known; /* of what comes before the body's first byte */
    size_t known_last;
    uint32_t n_tokens, n_ended;
    uint32_t n_works, n_worked; /* WORK frames, and the last number */
    int status;
    bool is_over;
} told;

static told tell(const hth_test_heard *heard)
{
    told t = { .status = 0 };

    for (size_t at = 0, n_used; at < heard->body.n; at += n_used) {
        hth_frame frame;

        assert_int_equal(hth_frame_read(heard->body.text + at, heard->body.n - at, &frame, &n_used), HTH_FRAME_OK);
        assert_false(t.is_over);
        if (t.body.n == 0)
            hth_frame_add_known(&t.known, &t.known_last, &frame);
        else
            assert_true(frame.kind == HTH_FRAME_BYTES || frame.kind == HTH_FRAME_END);
        if (frame.kind == HTH_FRAME_HEAD)
            t.status = frame.status;
        if (frame.kind == HTH_FRAME_BYTES)
            hth_buffer_add(&t.body, frame.bytes, frame.n_bytes);
        t.n_tokens += frame.n_tokens;
        t.n_ended += frame.reply_has_ended;
        if (frame.kind == HTH_FRAME_WORK) {
            assert_true(frame.n_worked > t.n_worked);
            t.n_worked = frame.n_worked;
            t.n_works++;
        }
        t.is_over = frame.kind == HTH_FRAME_END;
    }
    assert_true(t.is_over);
    return t;
}

static void told_deinit(told *t)
{
    hth_buffer_deinit(&t->body);
    hth_buffer_deinit(&t->known);
}

static told ask(const hth_test_worker *worker, const char *target, const char *body, const hth_buffer *known)
{
    hth_test_heard heard = ask_framed(worker, target, body, known);
    told t = tell(&heard);

    hth_test_heard_deinit(&heard);
    return t;
}

static void expect_long(const char *text)
{
    json_t *all = hth_test_json(text);

    assert_int_equal(json_array_size(all), LONG_REPLIES);
    for (size_t i = 0; i < LONG_REPLIES; i++) {
        json_t *entries = json_object_get(json_array_get(all, i), "completion_probabilities");

        assert_int_equal(json_array_size(entries), LONG_TOKENS);
        for (size_t k = 0; k < LONG_TOKENS; k++)
            assert_int_equal(json_array_size(json_object_get(json_array_get(entries, k), "top_logprobs")), 64);
    }
}

/* Frames are bounded, which hth_frame_read sees to. */
STAGED(a_long_body_leaves_in_bounded_frames_once_its_tokens_are_told)
{
    told t = ask(worker, "/completion", LONG_BODY, NULL);

    assert_int_equal(t.status, 200);
    assert_int_equal(t.n_tokens, LONG_REPLIES * LONG_TOKENS);
    assert_int_equal(t.n_ended, LONG_REPLIES);
    assert_true(t.body.n > LONG_BYTES_MIN);
    expect_long(t.body.text);
    told_deinit(&t);
}

STAGED(the_next_worker_writes_the_same_bytes)
{
    static const char *const cases[][2] = {
        { "/completion", LONG_BODY },
        { "/completion",
          "{\"prompt\":\"a\",\"n\":3,\"n_predict\":9,\"temperature\":1,\"seed\":5,\"return_tokens\":true}" },
        { "/completion", "{\"prompt\":\"a\",\"n_predict\":0}" },
        { "/v1/completions",
          "{\"model\":\"m\",\"prompt\":[\"a\",\"bcd\"],\"n\":2,\"max_tokens\":7,\"logprobs\":3,\"temperature\":1.5}" },
        { "/v1/chat/completions", "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"n\":2,"
                                  "\"max_tokens\":9,\"logprobs\":true,\"top_logprobs\":4,\"temperature\":1.5}" },
        { "/v1/messages",
          "{\"model\":\"m\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        told first = ask(worker, cases[i][0], cases[i][1], NULL), second;

        hth_test_worker_stop(worker);
        hth_test_worker_start(worker);
        second = ask(worker, cases[i][0], cases[i][1], &first.known);
        assert_int_equal(second.n_tokens, 0);
        if (first.body.n != second.body.n || memcmp(first.body.text, second.body.text, first.body.n) != 0)
            fail_msg("%s comes out otherwise:\n%.2000s\n---\n%.2000s", cases[i][1], first.body.text, second.body.text);
        told_deinit(&first);
        told_deinit(&second);
    }
}

/*
 * In another batch, logits are rounded otherwise. So neither the tokens nor their log probabilities are computed once
 * more: these are ones that no computation comes to.
 */
STAGED(what_was_drawn_is_not_drawn_again)
{
    static const char body[] = "{\"prompt\":\"once upon a time\",\"n_predict\":6,\"n_probs\":1,\"seed\":3}";
    const hearth_token ids[] = { 'Q', 'Z' };
    const hearth_logprob logprobs[] = {
        { .token = 'Q', .logprob = -77 },
        { .token = 'R', .logprob = -0.5f },
        { .token = 'Z', .logprob = -78 },
        { .token = 'S', .logprob = -0.25f },
    };
    hth_buffer known = { .text = NULL };
    json_t *reply, *entries, *entry;
    told t;

    hth_frame_add_step(&known, 0, 0, &(hth_frame_tokens){ .ids = ids, .n = 2, .logprobs = logprobs, .n_logprobs = 2 },
                       NULL, 0);
    t = ask(worker, "/completion", body, &known);
    if (t.status != 200)
        fail_msg("%d: %s", t.status, hth_buffer_text(&t.body));
    assert_int_equal(t.n_tokens, 4);
    reply = hth_test_json(t.body.text);
    assert_memory_equal(json_string_value(json_object_get(reply, "content")), "QZ", 2);
    entries = json_object_get(reply, "completion_probabilities");
    assert_int_equal(json_array_size(entries), 6);
    entry = json_array_get(entries, 1);
    assert_true(json_number_value(json_object_get(entry, "logprob")) == -78);
    entry = json_array_get(json_object_get(entry, "top_logprobs"), 0);
    assert_int_equal(json_integer_value(json_object_get(entry, "id")), 'S');
    assert_true(json_number_value(json_object_get(entry, "logprob")) == -0.25);
    hth_buffer_deinit(&known);
    told_deinit(&t);
}

STAGED(a_client_of_the_worker_itself_gets_it_in_pieces_too)
{
    hth_test_heard heard = hth_test_worker_post(worker, "/completion", LONG_BODY);

    assert_int_equal(heard.status, 200);
    assert_false(heard.has_length);
    assert_true(heard.is_complete);
    expect_long(heard.body.text);
    hth_test_heard_deinit(&heard);
    heard = hth_test_worker_post(worker, "/completion", "{\"prompt\":\"a\",\"n_predict\":3}");
    assert_true(heard.has_length);
    hth_test_heard_deinit(&heard);
}

STAGED(a_body_waits_for_its_reader_who_may_leave)
{
    hth_test_heard heard;
    int slow = hth_test_worker_connect(worker), gone = hth_test_worker_connect(worker);
    char some[4096];

    hth_test_worker_send(slow, "POST", "/completion", "", LONG_BODY, strlen(LONG_BODY));
    hth_test_worker_send(gone, "POST", "/completion", "", LONG_BODY, strlen(LONG_BODY));
    assert_true(read(gone, some, sizeof(some)) > 0); /* its body is on its way */
    close(gone);
    for (int i = 0; i < 20; i++) { /* others are served meanwhile */
        heard = hth_test_worker_post(worker, "/completion", "{\"prompt\":\"a\",\"n_predict\":3}");
        if (heard.status != 200)
            fail_msg("%d: %s", heard.status, hth_buffer_text(&heard.body));
        hth_test_heard_deinit(&heard);
    }
    heard = hth_test_worker_hear(slow);
    assert_true(heard.is_complete);
    expect_long(heard.body.text);
    hth_test_heard_deinit(&heard);
    close(slow);
}

TEST(finished_inputs_of_embeddings_are_told_before_the_answer)
{
    static const char *const models[] = { "stub:delay_us=100", "stub:delay_us=100,encoder=1" };
    enum { N_INPUTS = 60, N_BYTES = 200 };
    char *text = hth_test_prompt(N_BYTES, 1);

    for (int i = 0; i < 2; i++) {
        hth_buffer body = { .text = NULL };
        hth_test_worker worker;
        told t;

        hth_buffer_add_text(&body, "{\"cache_prompt\":false,\"input\":[");
        for (int k = 0; k < N_INPUTS; k++) {
            hth_buffer_add_text(&body, k > 0 ? ",\"" : "\"");
            hth_buffer_add_text(&body, text);
            hth_buffer_add_text(&body, "\"");
        }
        hth_buffer_add_text(&body, "]}");
        hth_test_worker_init(&worker, models[i]);
        hth_test_worker_start(&worker);
        t = ask(&worker, "/v1/embeddings", body.text, NULL);
        assert_int_equal(t.status, 200);
        assert_int_equal(t.n_worked, N_INPUTS * (1 + N_BYTES));
        assert_true(t.n_works > 1); /* some while the rest was evaluated, which took a second */
        told_deinit(&t);
        hth_test_worker_deinit(&worker);
        hth_buffer_deinit(&body);
    }
    free(text);
}

/* An input with the byte 1 fails, after others were told of. */
TEST(embeddings_that_fail_after_finished_inputs_have_an_error)
{
    char *text = hth_test_prompt(500, 1), body[2048];
    hth_test_worker worker;
    told t;

    (void)snprintf(body, sizeof(body), "{\"input\":[\"%s\",\"%s\",\"%s\",\"\\u0001\"]}", text, text, text); /* fits */
    hth_test_worker_init(&worker, "stub:delay_us=500,encoder=1");
    hth_test_worker_start(&worker);
    t = ask(&worker, "/v1/embeddings", body, NULL);
    assert_int_equal(t.status, 500);
    assert_true(t.n_worked > 0);
    assert_non_null(strstr(t.body.text, "error"));
    told_deinit(&t);
    hth_test_worker_deinit(&worker);
    free(text);
}
