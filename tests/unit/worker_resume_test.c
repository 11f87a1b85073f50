/*
 * worker_resume_test.c - a reply that is broken off after any frame goes on, in another request, with the next byte
 *
 * A request is made once; then, for each place where its worker might have died, it is made again with what the front
 * would know by then. What the client has got before and gets then is together what it gets when nothing dies.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/worker_stage.h"

enum { REPLIES_MAX = 8, TOKENS_MAX = 256, FRAMES_MAX = 1024 };

/* What a front remembers. */
typedef struct memory {
    hth_buffer bytes; /* for the client */
    hth_buffer ahead; /* of a stream, those that belong to the next step */
    hth_buffer known; /* for the next worker */
    size_t known_last;
    hearth_token tokens[REPLIES_MAX][TOKENS_MAX];
    uint32_t n_tokens[REPLIES_MAX];
    bool has_ended[REPLIES_MAX];
    uint32_t n_models;
    uint8_t model[HTH_FRAME_MODEL_BYTES];
    bool has_cached[REPLIES_MAX];
    bool has_outcome[REPLIES_MAX];
    int status;
    bool is_stream;
    bool is_over; /* END has come */
    hth_frame_summary summary;
} memory;

/* Frames, each with where it begins. */
typedef struct frames {
    hth_test_heard heard;
    size_t begin[FRAMES_MAX + 1];
    size_t n;
} frames;

static void remember(memory *m, const hth_frame *frame)
{
    assert_false(m->is_over);
    hth_frame_add_known(&m->known, &m->known_last, frame);
    switch (frame->kind) {
    case HTH_FRAME_HEAD:
        assert_int_equal(m->bytes.n, 0);
        assert_int_equal(m->status, 0);
        m->status = frame->status;
        m->is_stream = frame->is_stream;
        assert_string_equal(frame->content_type, frame->is_stream ? "text/event-stream" : "application/json");
        break;
    case HTH_FRAME_STEP:
        assert_true(frame->reply < REPLIES_MAX);
        assert_false(m->has_ended[frame->reply]);
        assert_true(frame->n_bytes == 0 || (m->status > 0 && m->is_stream)); /* the head comes first */
        /* Bytes without what released them would be sent once more by the next worker. */
        assert_true(frame->n_bytes == 0 || frame->n_tokens > 0 || frame->reply_has_ended || frame->has_failed);
        assert_int_equal(frame->has_failed, m->status >= 400);
        for (uint32_t i = 0; i < frame->n_tokens; i++)
            m->tokens[frame->reply][m->n_tokens[frame->reply]++] = hth_frame_token(frame, i);
        m->has_ended[frame->reply] = frame->reply_has_ended;
        /* How it ended is known before its last bytes leave. */
        assert_true(!frame->reply_has_ended || m->has_outcome[frame->reply] || frame->has_failed);
        hth_buffer_add(&m->bytes, hth_buffer_text(&m->ahead), m->ahead.n);
        hth_buffer_add(&m->bytes, frame->bytes, frame->n_bytes);
        hth_buffer_clear(&m->ahead);
        break;
    case HTH_FRAME_BYTES:
        assert_true(m->status > 0);
        hth_buffer_add(m->is_stream ? &m->ahead : &m->bytes, frame->bytes, frame->n_bytes);
        break;
    case HTH_FRAME_RECORD: fail_msg("nothing of a chat is kept"); break;
    case HTH_FRAME_WORK: fail_msg("nothing is embedded"); break;
    case HTH_FRAME_OUTCOME:
        assert_true(frame->reply < REPLIES_MAX && !m->has_outcome[frame->reply]);
        m->has_outcome[frame->reply] = true;
        break;
    case HTH_FRAME_BROKEN: fail_msg("no other node answers"); break;
    case HTH_FRAME_CACHED:
        assert_true(frame->reply < REPLIES_MAX);
        assert_false(m->has_cached[frame->reply]);
        assert_int_equal(m->n_tokens[frame->reply], 0);
        m->has_cached[frame->reply] = true;
        break;
    case HTH_FRAME_MODEL:
        assert_int_equal(m->n_models, 0);
        m->n_models++;
        memcpy(m->model, frame->model, sizeof(m->model));
        break;
    case HTH_FRAME_END:
        m->is_over = true;
        m->summary = frame->summary;
        break;
    }
}

/* Remember frames [0, n). */
static void remember_frames(memory *m, const frames *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hth_frame frame;
        size_t n_used;

        assert_int_equal(
            hth_frame_read(f->heard.body.text + f->begin[i], f->heard.body.n - f->begin[i], &frame, &n_used),
            HTH_FRAME_OK);
        remember(m, &frame);
    }
}

static frames ask(const hth_test_worker *worker, const char *target, const char *body, const hth_buffer *known)
{
    frames f = { .n = 0 };
    hth_buffer all = { .text = NULL };
    char headers[512];
    size_t at = 0;

    (void)snprintf(headers, sizeof(headers),
                   "Hearth-Frames: 1\r\nHearth-Id: abc123\r\nHearth-Created: 1700000000\r\nHearth-Seed: 77\r\n"
                   "Hearth-Known: %zu\r\nHearth-Elsewhere: %zu\r\n",
                   known ? known->n : 0, known ? known->n / 2 : 0);
    if (known)
        hth_buffer_add(&all, known->text, known->n);
    hth_buffer_add_text(&all, body);
    f.heard = hth_test_worker_ask(worker, "POST", target, headers, all.text, all.n);
    hth_buffer_deinit(&all);
    assert_int_equal(f.heard.status, 200);
    assert_true(f.heard.is_complete);
    while (at < f.heard.body.n) {
        hth_frame frame;
        size_t n_used;

        assert_true(f.n < FRAMES_MAX);
        assert_int_equal(hth_frame_read(f.heard.body.text + at, f.heard.body.n - at, &frame, &n_used), HTH_FRAME_OK);
        f.begin[f.n++] = at;
        at += n_used;
    }
    return f;
}

static void memory_free(memory *m)
{
    hth_buffer_deinit(&m->bytes);
    hth_buffer_deinit(&m->ahead);
    hth_buffer_deinit(&m->known);
    free(m);
}

/* What is not the same in two runs: how long things took. */
static void blank(hth_buffer *buffer)
{
    static const char begin[] = "\"timings\":{", measured[] = "\"prompt_ms\":";
    char *at = buffer->text;

    if (!at)
        return;
    while ((at = strstr(at, begin))) {
        char *end = strchr(at, '}'), *from = strstr(at, measured); /* how much was cached comes before it */

        assert_non_null(end);
        at += strlen(begin);
        if (from && from < end)
            memmove(from, end, strlen(end) + 1);
    }
    for (at = buffer->text; (at = strstr(at, "\"cache\":{\"hit\":")); at++) {
        char *end = strchr(at, '}');

        assert_non_null(end);
        memmove(at + strlen("\"cache\":{"), end, strlen(end) + 1);
    }
    buffer->n = strlen(buffer->text);
}

/* Replies to one request come mixed, as it happens: the events of each one after the other. */
static void sort_events(hth_buffer *buffer)
{
    hth_buffer sorted = { .text = NULL };

    for (int i = 0; i <= REPLIES_MAX; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "\"index\":%d,", i);
        for (const char *at = hth_buffer_text(buffer), *end; *at; at = end) {
            const char *index = strstr(at, "\"index\":");

            end = strstr(at, "\n\n");
            end = end ? end + 2 : at + strlen(at);
            if (index && index < end ? strncmp(index, name, strlen(name)) == 0 : i == REPLIES_MAX)
                hth_buffer_add(&sorted, at, (size_t)(end - at));
        }
    }
    assert_int_equal(sorted.n, buffer->n);
    hth_buffer_deinit(buffer);
    *buffer = sorted;
}

static void expect_equal(hth_buffer *whole, hth_buffer *parts, size_t n_frames, bool is_mixed)
{
    blank(whole);
    blank(parts);
    if (is_mixed) {
        sort_events(whole);
        sort_events(parts);
    }
    if (strcmp(hth_buffer_text(whole), hth_buffer_text(parts)) != 0)
        fail_msg("broken off after %zu frames it differs:\n%s\n---\n%s", n_frames, hth_buffer_text(whole),
                 hth_buffer_text(parts));
}

/* What the client has after both, which is what it had before where that was a part of a body. */
static void join(memory *before, memory *after)
{
    if (!after->is_stream && before->bytes.n > 0) {
        assert_true(before->bytes.n <= after->bytes.n);
        assert_memory_equal(before->bytes.text, after->bytes.text, before->bytes.n);
        hth_buffer_clear(&before->bytes);
    }
    hth_buffer_add(&before->bytes, hth_buffer_text(&after->bytes), after->bytes.n);
}

/* The reply that goes on after n frames of f. */
static void go_on(const hth_test_worker *worker, const char *target, const char *body, const frames *f, size_t n,
                  memory *whole)
{
    memory *before = calloc(1, sizeof(*before)), *after = calloc(1, sizeof(*after));
    frames rest;

    remember_frames(before, f, n);
    after->n_models = before->n_models; /* it is not told twice, as is none of these */
    for (uint32_t i = 0; i < REPLIES_MAX; i++) {
        after->has_cached[i] = before->has_cached[i];
        after->has_outcome[i] = before->has_outcome[i] && before->has_ended[i];
    }
    rest = ask(worker, target, body, &before->known);
    remember_frames(after, &rest, rest.n);
    assert_true(after->is_over);
    join(before, after);
    expect_equal(&whole->bytes, &before->bytes, n,
                 whole->is_stream && (whole->n_tokens[1] > 0 || strstr(body, "\"n\"")));
    assert_int_equal(after->status, whole->status);
    assert_int_equal(after->summary.status, whole->summary.status);
    assert_int_equal(after->summary.figures.n_reply_tokens, whole->summary.figures.n_reply_tokens);
    assert_int_equal(after->summary.finish, whole->summary.finish);
    assert_int_equal(after->summary.figures.n_cached_tokens, whole->summary.figures.n_cached_tokens);
    for (uint32_t i = 0; i < REPLIES_MAX; i++) {
        assert_int_equal(before->n_tokens[i] + after->n_tokens[i], whole->n_tokens[i]);
        assert_memory_equal(after->tokens[i], whole->tokens[i] + before->n_tokens[i],
                            after->n_tokens[i] * sizeof(hearth_token));
        assert_int_equal(before->has_ended[i] + after->has_ended[i], whole->has_ended[i]);
    }
    hth_test_heard_deinit(&rest.heard);
    memory_free(before);
    memory_free(after);
}

static void expect_to_go_on_from_anywhere(const hth_test_worker *worker, const char *target, const char *body)
{
    frames first = ask(worker, target, body, NULL), whole; /* once so that the cache is warm */
    memory *m = calloc(1, sizeof(*m));
    uint32_t n_tokens = 0;

    hth_test_heard_deinit(&first.heard);
    whole = ask(worker, target, body, NULL);
    remember_frames(m, &whole, whole.n);
    assert_true(m->is_over);
    if (m->status != 200)
        fail_msg("%s %s: %d %s", target, body, m->status, hth_buffer_text(&m->bytes));
    for (uint32_t i = 0; i < REPLIES_MAX; i++) {
        assert_int_equal(m->has_cached[i], m->n_tokens[i] > 0);
        n_tokens += m->n_tokens[i];
    }
    assert_true(n_tokens >= 3);
    assert_int_equal(m->summary.figures.n_reply_tokens, n_tokens);
    /* All but END; of long replies not every place in the middle. */
    for (size_t n = 0; n<whole.n; n += n> 8 && n + 12 < whole.n ? 4 : 1)
        go_on(worker, target, body, &whole, n, m);
    hth_test_heard_deinit(&whole.heard);
    memory_free(m);
}

/* In how many frames is it told how much of each prompt was cached? */
static size_t n_until_cached_is_told(const frames *f, uint32_t n_replies)
{
    memory *m = calloc(1, sizeof(*m));
    size_t n = 0;
    uint32_t n_told = 0;

    while (n_told < n_replies) {
        remember_frames(m, &(frames){ .heard = f->heard, .begin = { f->begin[n] }, .n = 1 }, 1);
        n++;
        n_told = 0;
        for (uint32_t i = 0; i < REPLIES_MAX; i++)
            n_told += m->has_cached[i];
    }
    memory_free(m);
    return n;
}

#define PROMPT "once upon a time there was an old man who lived by the sea and he had a boat"
#define CHAT "\"messages\":[{\"role\":\"user\",\"content\":\"" PROMPT "\"}]"

/* chat_template NULL: the model's. */
static void go_on_all_with(const char *model, const char *chat_template, const char *const (*cases)[2], size_t n)
{
    hth_test_worker worker;

    hth_test_worker_init(&worker, model);
    worker.model.chat_template = chat_template;
    hth_test_worker_start(&worker);
    for (size_t i = 0; i < n; i++) {
        hth_buffer streamed = { .text = NULL };

        expect_to_go_on_from_anywhere(&worker, cases[i][0], cases[i][1]);
        hth_buffer_add_text(&streamed, "{\"stream\":true,");
        hth_buffer_add_text(&streamed, cases[i][1] + 1);
        expect_to_go_on_from_anywhere(&worker, cases[i][0], streamed.text);
        hth_buffer_deinit(&streamed);
    }
    hth_test_worker_deinit(&worker);
}

static void go_on_all(const char *model, const char *const (*cases)[2], size_t n)
{
    go_on_all_with(model, NULL, cases, n);
}

#define HELD_BACK                                                                                                     \
    "\"aQQQ\",\"bQQQ\",\"cQQQ\",\"dQQQ\",\"eQQQ\",\"fQQQ\",\"gQQQ\",\"hQQQ\",\"iQQQ\",\"kQQQ\",\"lQQQ\",\"mQQQ\","    \
    "\"nQQQ\",\"oQQQ\",\"pQQQ\",\"rQQQ\",\"sQQQ\",\"tQQQ\",\"uQQQ\",\"vQQQ\",\"wQQQ\",\"xQQQ\",\"yQQQ\",\"zQQQ\",\" " \
    "QQQ\",\"QQQ\""

/* A fake model that takes its time, so that nearly every token has a frame of its own. */
TEST(a_reply_goes_on_with_the_next_byte_in_every_api)
{
    static const char *const cases[][2] = {
        { "/v1/completions", "{\"model\":\"m\",\"prompt\":\"" PROMPT "\",\"max_tokens\":12,\"seed\":3}" },
        { "/v1/completions", "{\"model\":\"m\",\"prompt\":\"" PROMPT "\",\"max_tokens\":6,\"n\":3,\"echo\":true}" },
        { "/v1/completions",
          "{\"model\":\"m\",\"prompt\":[\"" PROMPT "\",\"" PROMPT " x\"],\"max_tokens\":5,\"n\":2}" },
        { "/v1/completions",
          "{\"model\":\"m\",\"prompt\":\"" PROMPT "\",\"max_tokens\":40,\"stop\":[\"e\",\"QQQ\"],\"seed\":5}" },
        { "/v1/completions", /* nearly every token may begin a stop text: text is held back to the end */
          "{\"model\":\"m\",\"prompt\":\"" PROMPT "\",\"max_tokens\":6,\"n\":4,\"temperature\":1,\"stop\":[" HELD_BACK
          "]}" },
        { "/v1/completions", "{\"model\":\"m\",\"prompt\":\"" PROMPT "\",\"max_tokens\":8,\"logprobs\":2}" },
        { "/v1/completions", /* log probabilities are held back with their text */
          "{\"model\":\"m\",\"prompt\":\"" PROMPT
          "\",\"max_tokens\":6,\"n\":3,\"temperature\":1,\"logprobs\":2,\"stop\":[" HELD_BACK "]}" },
        { "/v1/chat/completions", "{\"model\":\"m\"," CHAT ",\"max_tokens\":12}" },
        { "/v1/chat/completions", "{\"model\":\"m\"," CHAT ",\"max_tokens\":8,\"n\":2,\"logprobs\":true,"
                                  "\"top_logprobs\":2}" },
        { "/v1/messages", "{\"model\":\"m\"," CHAT ",\"max_tokens\":12,\"stop_sequences\":[\"zz\"]}" },
        { "/v1/responses", "{\"model\":\"m\",\"input\":\"" PROMPT "\",\"max_output_tokens\":12,\"ignore_eos\":true,"
                           "\"store\":false}" },
        { "/v1/responses", "{\"model\":\"m\",\"input\":\"" PROMPT "\",\"max_output_tokens\":8,\"ignore_eos\":true,"
                           "\"store\":false,\"top_logprobs\":2}" },
        { "/completion", "{\"prompt\":\"" PROMPT "\",\"n_predict\":10,\"n\":2,\"return_tokens\":true}" },
        { "/completion", "{\"prompt\":\"" PROMPT "\",\"n_predict\":8,\"n_probs\":2,\"temperature\":1.5}" },
        { "/completion", "{\"prompt\":\"" PROMPT "\",\"n_predict\":6,\"n\":3,\"n_probs\":64,\"temperature\":1.5}" },
        /* Samplers whose state follows the probabilities of earlier tokens. */
        { "/completion", "{\"prompt\":\"" PROMPT "\",\"n_predict\":12,\"n\":2,\"mirostat\":2,\"mirostat_tau\":2,"
                         "\"mirostat_eta\":0.9,\"ignore_eos\":true,\"seed\":4}" },
        { "/v1/completions", "{\"model\":\"m\",\"prompt\":\"" PROMPT "\",\"max_tokens\":12,\"mirostat\":1,"
                             "\"mirostat_tau\":2,\"mirostat_eta\":0.9,\"logprobs\":1,\"ignore_eos\":true,\"seed\":5}" },
        { "/v1/chat/completions",
          "{\"model\":\"m\"," CHAT
          ",\"max_tokens\":12,\"adaptive_target\":0.3,\"adaptive_decay\":0.3,\"ignore_eos\":true,\"seed\":6}" },
    };

    go_on_all("stub:delay_us=1500", cases, sizeof(cases) / sizeof(cases[0]));
}

TEST(grammars_go_on_too)
{
    static const char *const cases[][2] = {
        { "/v1/chat/completions",
          "{\"model\":\"m\"," CHAT
          ",\"max_tokens\":40,\"temperature\":0.7,\"response_format\":{\"type\":\"json_schema\","
          "\"json_schema\":{\"name\":\"s\",\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}"
          ","
          "\"b\":{\"type\":\"boolean\"}},\"required\":[\"a\",\"b\"],\"additionalProperties\":false}}}}" },
        { "/completion", "{\"prompt\":\"" PROMPT "\",\"n_predict\":30,\"grammar\":\"root ::= \\\"a\\\" [b-d]+ "
                         "\\\"e\\\"\",\"temperature\":0.9}" },
    };

    go_on_all(HTH_TEST_MODELS "/hearth-tiny.gguf", cases, sizeof(cases) / sizeof(cases[0]));
}

TEST(calls_of_tools_go_on_too)
{
    static const char with_tools[] =
        "{% if tools %}Tools: {% for t in tools %}{{ t | tojson }}\n{% endfor %}{% endif %}"
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
        "{% if m.tool_calls %}{% for c in m.tool_calls %}<tool_call>{\"name\": \"{{ c.function.name }}\", "
        "\"arguments\": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}{% endif %}\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}";
    static const char *const cases[][2] = {
        { "/v1/chat/completions",
          "{\"model\":\"m\"," CHAT ",\"max_tokens\":60,\"tool_choice\":\"required\",\"tools\":[{\"type\":\"function\","
          "\"function\":{\"name\":\"look\",\"parameters\":{\"type\":\"object\",\"properties\":{\"where\":{\"type\":"
          "\"string\",\"enum\":[\"here\",\"there\"]}},\"required\":[\"where\"]}}}]}" },
        { "/v1/messages",
          "{\"model\":\"m\"," CHAT
          ",\"max_tokens\":60,\"tool_choice\":{\"type\":\"any\"},\"tools\":[{\"name\":\"look\","
          "\"input_schema\":{\"type\":\"object\",\"properties\":{\"where\":{\"type\":\"string\",\"enum\":[\"here\","
          "\"there\"]}},\"required\":[\"where\"]}}]}" },
    };

    go_on_all_with(HTH_TEST_MODELS "/hearth-tiny.gguf", with_tools, cases, sizeof(cases) / sizeof(cases[0]));
}

/* The first worker found nothing of the prompt; the second one finds what the first has left. */
TEST(what_was_said_of_the_cache_stays_true)
{
    static const char *const cases[][2] = {
        { "/v1/messages", "{\"model\":\"m\",\"cache_control\":{\"type\":\"ephemeral\"},\"max_tokens\":5,\"messages\":[{"
                          "\"role\":\"user\",\"content\":\"1 " PROMPT " " PROMPT " " PROMPT "\"}]%s}" },
        { "/v1/completions", "{\"model\":\"m\",\"max_tokens\":4,\"n\":2,\"prompt\":[\"2 " PROMPT " " PROMPT
                             "\",\"3 " PROMPT "\"],\"stream_options\":{\"include_usage\":true}%s}" },
        { "/v1/completions",
          "{\"model\":\"m\",\"max_tokens\":4,\"logprobs\":1,\"prompt\":\"4 " PROMPT " " PROMPT "\",\"stream_"
          "options\":{\"include_usage\":true}%s}" },
        { "/completion", "{\"prompt\":\"5 " PROMPT " " PROMPT "\",\"n_predict\":5,\"timings_per_token\":true%s}" },
    };
    static const uint32_t n_replies[] = { 1, 4, 1, 1 };
    hth_test_worker worker;

    hth_test_worker_init(&worker, "stub:delay_us=1500");
    hth_test_worker_start(&worker);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memory *m = calloc(1, sizeof(*m));
        char body[1024];
        frames whole;

        (void)snprintf(body, sizeof(body), cases[i][1], ",\"stream\":true");
        whole = ask(&worker, cases[i][0], body, NULL);
        remember_frames(m, &whole, whole.n);
        assert_in_range(m->summary.figures.n_cached_tokens, 0, 2); /* a token that all texts begin with */
        for (size_t n = n_until_cached_is_told(&whole, n_replies[i]); n < whole.n; n++)
            go_on(&worker, cases[i][0], body, &whole, n, m);
        hth_test_heard_deinit(&whole.heard);
        memory_free(m);
    }
    hth_test_worker_deinit(&worker);
}

static memory *remember_all(const hth_test_worker *worker, const char *body, const hth_buffer *known)
{
    frames f = ask(worker, "/v1/completions", body, known);
    memory *m = calloc(1, sizeof(*m));

    remember_frames(m, &f, f.n);
    hth_test_heard_deinit(&f.heard);
    return m;
}

/* The queue has filled before the requests of the dead worker came. */
TEST(who_goes_on_is_not_refused_for_a_full_queue)
{
    static const char stream[] =
        "{\"model\":\"m\",\"stream\":true,\"prompt\":\"" PROMPT "\",\"max_tokens\":3,\"n\":2,\"logprobs\":1}";
    static const char long_one[] = "{\"prompt\":\"" PROMPT "\",\"n_predict\":60,\"ignore_eos\":true}";
    enum { CLIENTS = 4 };
    hth_test_worker worker;
    hth_buffer nothing = { .text = NULL }, known = { .text = NULL };
    int fds[CLIENTS];

    hth_test_worker_init(&worker, "stub:delay_us=2000");
    worker.model.n_parallel = 1;
    worker.model.queue_max = CLIENTS - 1;
    hth_test_worker_start(&worker);
    for (int turn = 0; turn < 2; turn++) {
        memory *m;
        hth_test_heard heard;

        for (int i = 0; i < CLIENTS; i++) {
            fds[i] = hth_test_worker_connect(&worker);
            hth_test_worker_send(fds[i], "POST", "/completion", "", long_one, strlen(long_one));
        }
        do {
            heard =
                hth_test_worker_post(&worker, "/v1/completions", "{\"model\":\"m\",\"prompt\":\"x\",\"max_tokens\":1}");
            hth_test_heard_deinit(&heard);
        } while (heard.status != 503);
        if (turn == 1) /* of one of its replies something is known, of the other nothing */
            hth_frame_add_cached(&known, 1, 0);
        m = remember_all(&worker, stream, turn == 0 ? &nothing : &known);
        assert_int_equal(m->status, 200);
        assert_int_equal(m->summary.status, 200);
        assert_int_equal(m->n_tokens[0], 3);
        assert_int_equal(m->n_tokens[1], 3);
        memory_free(m);
        for (int i = 0; i < CLIENTS; i++)
            close(fds[i]);
    }
    hth_buffer_deinit(&known);
    hth_test_worker_deinit(&worker);
}

/*
 * A reply whose end the client has may end once more after the others. What follows after all replies has not left yet.
 */
TEST(the_end_of_all_replies_comes_whichever_ends_last)
{
    enum { LONG = 2500 };
    hth_test_worker worker;
    hth_buffer body = { .text = NULL }, known = { .text = NULL };
    memory *whole, *rest;

    hth_buffer_add_text(&body, "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
                               "\"logprobs\":1,\"max_tokens\":3,\"prompt\":[\"");
    for (int i = 0; i < LONG; i++)
        hth_buffer_add(&body, &"abcdefghijklmnopqrstuvwxyz"[i * i % 26], 1);
    hth_buffer_add_text(&body, "\",\"" PROMPT "\"]}");
    hth_test_worker_init(&worker, "stub:delay_us=1500");
    worker.runtime.cache_disabled = true;
    hth_test_worker_start(&worker);
    whole = remember_all(&worker, body.text, NULL);
    hth_test_worker_stop(&worker);
    hth_frame_add_step(&known, 0, HTH_STEP_ENDS,
                       &(hth_frame_tokens){ .ids = whole->tokens[0], .n = whole->n_tokens[0] }, NULL, 0);
    hth_test_worker_start(&worker); /* which knows nothing of the prompts: the long one takes its time */
    rest = remember_all(&worker, body.text, &known);
    assert_int_equal(rest->n_tokens[0], 0);
    assert_int_equal(rest->n_tokens[1], whole->n_tokens[1]);
    assert_non_null(strstr(rest->bytes.text, "\"index\":1,"));
    assert_null(strstr(rest->bytes.text, "\"index\":0,"));
    assert_non_null(strstr(rest->bytes.text, "\"usage\":{"));
    assert_non_null(strstr(rest->bytes.text, "data: [DONE]"));
    memory_free(whole);
    memory_free(rest);
    hth_buffer_deinit(&body);
    hth_buffer_deinit(&known);
    hth_test_worker_deinit(&worker);
}

static void expect_failed(const hth_test_worker *worker, const hth_buffer *known, const char *body, int status,
                          const char *why)
{
    frames f = ask(worker, "/v1/completions", body, known);
    memory *m = calloc(1, sizeof(*m));

    remember_frames(m, &f, f.n);
    assert_true(m->is_over);
    assert_int_equal(m->status, status);
    assert_int_equal(m->summary.status, (uint32_t)status);
    assert_non_null(strstr(m->bytes.text, why));
    hth_test_heard_deinit(&f.heard);
    memory_free(m);
}

static void expect_refused(const hth_test_worker *worker, const hth_buffer *known, const char *body)
{
    expect_failed(worker, known, body, 400, "invalid_request_error");
}

TEST(what_cannot_be_known_of_a_reply_is_refused)
{
    static const char body[] = "{\"model\":\"m\",\"prompt\":\"" PROMPT "\",\"max_tokens\":8}";
    static const uint8_t other_model[HTH_FRAME_MODEL_BYTES] = { 1 };
    const hearth_token no_token = 100000, token = 65;
    hth_test_worker worker;
    hth_buffer known = { .text = NULL };

    hth_test_worker_init(&worker, "stub:");
    hth_test_worker_start(&worker);
    hth_buffer_add_text(&known, "this is no frame at all");
    expect_refused(&worker, &known, body);
    hth_buffer_clear(&known);
    hth_frame_add_step(&known, 0, 0, &(hth_frame_tokens){ .ids = &no_token, .n = 1 }, NULL, 0);
    expect_refused(&worker, &known, body);
    hth_buffer_clear(&known);
    hth_frame_add_step(&known, 1, HTH_STEP_ENDS, NULL, NULL, 0); /* there is one reply */
    expect_refused(&worker, &known, body);
    hth_buffer_clear(&known);
    hth_frame_add_step(&known, UINT32_MAX, HTH_STEP_ENDS, NULL, NULL, 0);
    expect_refused(&worker, &known, body);
    hth_buffer_clear(&known);
    hth_frame_add_head(&known, 200, true, 0, "text/plain", NULL);
    expect_refused(&worker, &known, body);
    hth_buffer_clear(&known);
    hth_frame_add_model(&known, other_model); /* whose tokens mean something else */
    hth_frame_add_step(&known, 0, 0, &(hth_frame_tokens){ .ids = &token, .n = 1 }, NULL, 0);
    expect_failed(&worker, &known, body, 500, "was changed meanwhile");
    hth_buffer_deinit(&known);
    hth_test_worker_deinit(&worker);
}
