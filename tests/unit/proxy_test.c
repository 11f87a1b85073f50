/*
 * proxy_test.c - requests that go on in the next worker, and all the ways in which that ends
 */
#include "support/relay_stage.h"

#include <jansson.h>
#include <string.h>

#include "base/os.h"

static const char events[] = "text/event-stream", json[] = "application/json";

static const script_step stream_steps[] = {
    { .tokens = { 1 }, .n_tokens = 1, .bytes = "data: one\n\n" },
    { .tokens = { 2, 3 }, .n_tokens = 2, .bytes = "" },
    { .tokens = { 4 }, .n_tokens = 1, .bytes = "data: two three four\n\n" },
    { .tokens = { -5 }, .n_tokens = 1, .bytes = "data: five\n\ndata: more\n\n" },
    { .tokens = { 6 }, .n_tokens = 1, .bytes = "" },
    { .has_ended = true, .bytes = "data: six\n\ndata: [DONE]\n\n" },
};
static const char stream_text[] = "data: one\n\ndata: two three four\n\ndata: five\n\ndata: more\n\ndata: six\n\ndata: "
                                  "[DONE]\n\n";
static const reply_script stream = { .status = 200,
                                     .is_stream = true,
                                     .content_type = events,
                                     .steps = stream_steps,
                                     .n_steps = sizeof(stream_steps) / sizeof(stream_steps[0]) };

static const script_step whole_steps[] = {
    { .tokens = { 1 }, .n_tokens = 1, .bytes = "" },
    { .tokens = { 2, 3, 4 }, .n_tokens = 3, .bytes = "" },
    { .has_ended = true, .bytes = "{\"text\":\"all of it\"}" },
};
static const reply_script whole = {
    .status = 200, .content_type = json, .steps = whole_steps, .n_steps = sizeof(whole_steps) / sizeof(whole_steps[0])
};

static const script_step choices_steps[] = {
    { .reply = 0, .n_cached = 733 },
    { .reply = 2, .n_cached = 1 },
    { .reply = 0, .tokens = { 10 }, .n_tokens = 1, .bytes = "data: 0a\n\n" },
    { .reply = 2, .tokens = { 30 }, .n_tokens = 1, .bytes = "data: 2a\n\n" },
    { .reply = 1, .n_cached = 20 },
    { .reply = 1, .tokens = { 20, 21 }, .n_tokens = 2, .bytes = "data: 1a\n\n" },
    { .reply = 0, .tokens = { 11 }, .n_tokens = 1, .bytes = "", .has_ended = true },
    { .reply = 2, .tokens = { 31, 32 }, .n_tokens = 2, .bytes = "data: 2b\n\n" },
    { .reply = 2, .bytes = "data: 2c\n\n", .has_ended = true },
    { .reply = 1, .tokens = { 22 }, .n_tokens = 1, .bytes = "data: 1b\n\ndata: [DONE]\n\n", .has_ended = true },
};
static const char choices_text[] =
    "data: 0a\n\ndata: 2a\n\ndata: 1a\n\ndata: 2b\n\ndata: 2c\n\ndata: 1b\n\ndata: [DONE]\n\n";
static const reply_script choices = { .status = 200,
                                      .is_stream = true,
                                      .content_type = events,
                                      .steps = choices_steps,
                                      .n_steps = sizeof(choices_steps) / sizeof(choices_steps[0]) };

static int stage_setup(void **state)
{
    relay_stage *stage = malloc(sizeof(*stage));

    assert_non_null(stage);
    relay_stage_open(stage);
    *state = stage;
    return 0;
}

static int stage_teardown(void **state)
{
    relay_stage_close(*state);
    free(*state);
    return 0;
}

static void set_options(relay_stage *stage)
{
    hth_proxy_free(stage->proxy);
    assert_int_equal(hth_proxy_new(&stage->options, &stage->proxy, NULL), HEARTH_OK);
}

static void begin_with(relay_stage *stage, const reply_script *script)
{
    forget_runs(stage);
    memset(stage->runs, 0, sizeof(stage->runs));
    stage->script = script;
    if (!stage->supervisor.worker)
        worker_start(&stage->supervisor);
}

/* ---- replies ---- */

static void a_stream_is_what_its_steps_release(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };
    hth_test_client client;

    begin_with(stage, &stream);
    client_ask(&client, stage, "{\"a\":1}");
    client_hear(&client, &reply);
    assert_int_equal(reply.status, 200);
    assert_true(reply.is_chunked && reply.is_whole);
    assert_string_equal(hth_buffer_text(&reply.body), stream_text);
    assert_non_null(strstr(client.heard, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(client.heard, "Cache-Control: no-cache\r\n"));
    assert_non_null(strstr(client.heard, "X-Accel-Buffering: no\r\n"));
    hth_test_http_until(&stage->http, stage->n_over == 1);
    assert_int_equal(stage->record.status, 200);
    assert_true(stage->record.is_stream && stage->record.has_summary);
    assert_int_equal(stage->record.summary.figures.n_reply_tokens, 9);
    assert_int_equal(stage->record.bytes_out, sizeof(stream_text) - 1);
    assert_int_equal(stage->record.n_resumed, 0);
    assert_true(stage->record.first_byte_ms > 0 && stage->record.duration_ms >= stage->record.first_byte_ms);
    hth_test_client_close(&client);
    client_reply_deinit(&reply);
}

static void a_whole_reply_has_its_length(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    begin_with(stage, &whole);
    exchange_whole(stage, &reply);
    assert_int_equal(reply.status, 200);
    assert_true(!reply.is_chunked && reply.is_whole);
    assert_string_equal(hth_buffer_text(&reply.body), "{\"text\":\"all of it\"}");
    assert_false(stage->record.is_stream);
    assert_int_equal(stage->record.bytes_out, reply.body.n);
    client_reply_deinit(&reply);
}

static void header(const relay_stage *stage, unsigned run, const char *name, char *value, size_t capacity)
{
    const fake_request request = { .head = stage->heads[run] };

    if (!fake_request_header(&request, name, value, capacity))
        fail_msg("no header %s", name);
}

static void a_worker_is_told_what_it_needs(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };
    char value[128], seed[2][128];

    begin_with(stage, &stream);
    exchange_whole(stage, &reply);
    exchange_whole(stage, &reply);
    assert_int_equal(strncmp(stage->heads[0], "POST /v1/chat/completions HTTP/1.1\r\n", 36), 0);
    assert_string_equal(stage->bodies[0], "{\"a\":1}");
    header(stage, 0, HTH_HEADER_FRAMES, value, sizeof(value));
    assert_string_equal(value, "1");
    header(stage, 0, HTH_HEADER_ID, value, sizeof(value));
    assert_string_equal(value, "id0");
    header(stage, 0, HTH_HEADER_REQUEST_ID, value, sizeof(value));
    assert_string_equal(value, "of-the-client");
    header(stage, 0, HTH_HEADER_SALT, value, sizeof(value));
    assert_string_equal(value, "salt");
    header(stage, 0, "traceparent", value, sizeof(value));
    assert_string_equal(value, "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01");
    header(stage, 0, "Content-Type", value, sizeof(value));
    assert_string_equal(value, "application/json");
    header(stage, 0, HTH_HEADER_CREATED, value, sizeof(value));
    assert_true(hth_os_unix_seconds() - strtoul(value, NULL, 10) < 100);
    header(stage, 0, HTH_HEADER_SEED, seed[0], sizeof(seed[0]));
    header(stage, 1, HTH_HEADER_SEED, seed[1], sizeof(seed[1]));
    assert_string_not_equal(seed[0], seed[1]);
    assert_true(strtoull(seed[0], NULL, 10) < UINT64_C(1) << 53);
    assert_null(strstr(stage->heads[0], HTH_HEADER_KNOWN));
    client_reply_deinit(&reply);
}

static void an_error_of_the_worker_is_the_clients(void **state)
{
    static const script_step steps[] = { { .has_ended = true, .bytes = "{\"error\":1}" } };
    static const reply_script error = { .status = 400, .content_type = json, .steps = steps, .n_steps = 1 };
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    begin_with(stage, &error);
    exchange_whole(stage, &reply);
    assert_int_equal(reply.status, 400);
    assert_string_equal(hth_buffer_text(&reply.body), "{\"error\":1}");
    client_reply_deinit(&reply);
}

/* ---- workers that die ---- */

/* Break off the reply after every number of bytes, head of HTTP included. */
static void break_everywhere(relay_stage *stage, const reply_script *script, const char *text)
{
    client_reply reply = { .status = 0 };
    size_t n_bytes;

    begin_with(stage, script);
    exchange_whole(stage, &reply);
    n_bytes = stage->n_reply_bytes;
    for (size_t cut = 1; cut < n_bytes; cut++) {
        bool is_over;

        begin_with(stage, script);
        stage->runs[0].cut = cut;
        exchange_whole(stage, &reply);
        /* Once END is there, what follows does not matter. */
        is_over = stage->n_runs == 1;
        if (!is_over)
            assert_int_equal(stage->n_runs, 2);
        if ((is_over && cut < n_bytes - 10) || !reply.is_whole || reply.status != 200)
            fail_msg("cut at %zu of %zu: %d, '%s'", cut, n_bytes, reply.status, hth_buffer_text(&reply.body));
        assert_string_equal(hth_buffer_text(&reply.body), text);
        /* libcurl asks again itself where a kept connection ends without a byte. */
        assert_true(stage->record.n_resumed == (is_over ? 0 : 1) || cut < 20);
    }
    client_reply_deinit(&reply);
}

static void a_stream_that_breaks_anywhere_goes_on_with_the_next_byte(void **state)
{
    break_everywhere(*state, &stream, stream_text);
}

static void a_stream_of_several_replies_goes_on_with_each(void **state)
{
    break_everywhere(*state, &choices, choices_text);
}

static void a_whole_reply_that_breaks_anywhere_is_whole(void **state)
{
    break_everywhere(*state, &whole, "{\"text\":\"all of it\"}");
}

static void workers_may_die_one_after_the_other(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };
    uint64_t seed = hth_test_seed();

    stage->options.retries_max = 20;
    set_options(stage);
    for (int i = 0; i < 300; i++) {
        begin_with(stage, i % 2 ? &stream : &choices);
        stage->supervisor.fate = i % 3 ? FATE_DEAD : FATE_DEAD_LATE;
        for (int run = 0; run < 10; run++)
            stage->runs[run].cut = 100 + hth_test_random(&seed, 900);
        exchange_whole(stage, &reply);
        assert_true(reply.is_whole);
        assert_string_equal(hth_buffer_text(&reply.body), i % 2 ? stream_text : choices_text);
    }
    client_reply_deinit(&reply);
}

static void the_next_worker_gets_the_same_id_and_seed(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };
    static const char *const names[] = { HTH_HEADER_ID, HTH_HEADER_SEED, HTH_HEADER_CREATED, HTH_HEADER_SALT };

    begin_with(stage, &stream);
    stage->runs[0].cut = 300;
    exchange_whole(stage, &reply);
    assert_int_equal(stage->n_runs, 2);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char a[128], b[128];

        header(stage, 0, names[i], a, sizeof(a));
        header(stage, 1, names[i], b, sizeof(b));
        assert_string_equal(a, b);
    }
    assert_true(stage->n_known[1] > 0);
    assert_string_equal(stage->bodies[1], "{\"a\":1}");
    client_reply_deinit(&reply);
}

static void assert_error_body(const hth_buffer *body, hth_api_dialect dialect, const char *says)
{
    json_t *value = json_loads(hth_buffer_text(body), 0, NULL);
    const char *message = json_string_value(json_object_get(json_object_get(value, "error"), "message"));

    assert_non_null(message);
    if (!strstr(message, says))
        fail_msg("'%s' does not say '%s'", message, says);
    assert_int_equal(json_object_get(value, "type") != NULL, dialect == HTH_API_ANTHROPIC);
    json_decref(value);
}

static void a_request_whose_workers_die_too_often_is_an_error(void **state)
{
    relay_stage *stage = *state;

    for (hth_api_dialect dialect = HTH_API_OPENAI; dialect <= HTH_API_NATIVE; dialect++) {
        for (int late = 0; late < 2; late++) {
            client_reply reply = { .status = 0 };
            hth_test_client client;

            begin_with(stage, &whole);
            stage->dialect = dialect;
            stage->supervisor.fate = late ? FATE_DEAD_LATE : FATE_DEAD;
            for (int run = 0; run < 10; run++)
                stage->runs[run].cut = 200;
            client_ask(&client, stage, "{}");
            client_hear(&client, &reply);
            assert_int_equal(reply.status, 500);
            assert_int_equal(stage->n_runs, 4); /* and three retries */
            assert_non_null(strstr(client.heard, "x-should-retry: false\r\n"));
            assert_null(strstr(client.heard, "SECRET"));
            assert_error_body(&reply.body, dialect, "died 4 times");
            assert_error_body(&reply.body, dialect, "signal 11");
            hth_test_client_close(&client);
            client_reply_deinit(&reply);
        }
    }
}

static void no_retries_are_none(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    begin_with(stage, &whole);
    hth_proxy_set_limits(stage->proxy, 0, 1000, 0);
    stage->runs[0].cut = 200;
    exchange_whole(stage, &reply);
    assert_int_equal(reply.status, 500);
    assert_int_equal(stage->n_runs, 1);
    client_reply_deinit(&reply);
}

static void a_stream_that_has_begun_ends_with_the_error(void **state)
{
    static const char *const beginnings[] = { "data: {\"error\":{", "event: error\ndata: {", "data: {\"error\":{" };
    relay_stage *stage = *state;

    for (hth_api_dialect dialect = HTH_API_OPENAI; dialect <= HTH_API_NATIVE; dialect++) {
        client_reply reply = { .status = 0 };
        const char *first = "data: one\n\n", *after;

        begin_with(stage, &stream);
        stage->dialect = dialect;
        stage->runs[0].cut = 250;
        for (int run = 1; run < 10; run++)
            stage->runs[run].cut = 150; /* nothing new */
        exchange_whole(stage, &reply);
        assert_int_equal(reply.status, 200);
        assert_true(reply.is_whole);
        assert_int_equal(strncmp(hth_buffer_text(&reply.body), first, strlen(first)), 0);
        after = hth_buffer_text(&reply.body) + strlen(first);
        if (strncmp(after, "data: two", 9) == 0)
            after = strstr(after, "\n\n") + 2;
        assert_int_equal(strncmp(after, beginnings[dialect], strlen(beginnings[dialect])), 0);
        assert_non_null(strstr(after, "died 4 times"));
        assert_null(strstr(after, "[DONE]"));
        assert_int_equal(stage->record.status, 500);
        client_reply_deinit(&reply);
    }
}

static void stops_in_order_are_not_held_against_a_request(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    begin_with(stage, &stream);
    hth_proxy_set_limits(stage->proxy, 0, 1000, 0);
    stage->supervisor.fate = FATE_STOPPED;
    for (int run = 0; run < 12; run++)
        stage->runs[run].cut = 200;
    exchange_whole(stage, &reply);
    assert_int_equal(stage->n_runs, 13);
    assert_string_equal(hth_buffer_text(&reply.body), stream_text);
    client_reply_deinit(&reply);
}

static void but_not_for_ever(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    begin_with(stage, &whole);
    stage->supervisor.fate = FATE_STOPPED;
    for (int run = 0; run < RUNS_MAX; run++)
        stage->runs[run].cut = 200;
    exchange_whole(stage, &reply);
    assert_int_equal(reply.status, 500);
    assert_error_body(&reply.body, HTH_API_OPENAI, "broke off 36 times");
    client_reply_deinit(&reply);
}

static void a_connection_to_a_worker_that_is_well_is_made_again(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    begin_with(stage, &stream);
    stage->supervisor.fate = FATE_WELL;
    stage->runs[0].cut = 300;
    stage->runs[1].cut = 220;
    exchange_whole(stage, &reply);
    assert_int_equal(stage->n_runs, 3);
    assert_int_equal(stage->supervisor.generation, 1);
    assert_string_equal(hth_buffer_text(&reply.body), stream_text);
    client_reply_deinit(&reply);
}

static void send_noise(fake_connection *connection, const fake_request *request, void *user_data)
{
    relay_stage *stage = user_data;
    hth_buffer out = { .text = NULL }, frame = { .text = NULL };
    unsigned run = note_run(stage, request);
    const hth_frame_summary summary = { .status = 200 };

    script_head(&out, HTH_FRAMES_CONTENT_TYPE);
    switch (run % 5) {
    case 0: hth_buffer_add_text(&frame, "\xff\xff\xff\xff\x01 no frame"); break;
    case 1:
        hth_frame_add_head(&frame, 200, true, 0, events, NULL);
        hth_frame_add_step(&frame, 128, 0, NULL, "x", 1); /* no such reply */
        break;
    case 2: hth_frame_add_step(&frame, 0, 0, NULL, "x", 1); break; /* no head */
    case 3:
        hth_frame_add_head(&frame, 200, true, 0, events, NULL);
        hth_frame_add_head(&frame, 200, true, 0, events, NULL);
        break;
    default: hth_frame_add_end(&frame, &summary); break;
    }
    script_chunk(&out, &frame);
    fake_write(connection, out.text, out.n);
    hth_buffer_deinit(&frame);
    hth_buffer_deinit(&out);
    if (run == 4)
        stage->supervisor.handler = play;
}

static void what_is_no_frame_counts_as_a_broken_connection(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    stage->supervisor.handler = send_noise;
    stage->options.retries_max = 5;
    set_options(stage);
    begin_with(stage, &stream);
    exchange_whole(stage, &reply);
    assert_int_equal(stage->n_runs, 6);
    assert_string_equal(hth_buffer_text(&reply.body), stream_text);
    client_reply_deinit(&reply);
}

/* The reply of two runs of the same script, the first of which breaks off so many bytes before its end. */
static client_reply exchange_cut(relay_stage *stage, const reply_script *script, size_t n_missing)
{
    client_reply reply = { .status = 0 };
    size_t n_bytes;

    begin_with(stage, script);
    exchange_whole(stage, &reply);
    n_bytes = stage->n_reply_bytes;
    begin_with(stage, script);
    stage->runs[0].cut = n_bytes - n_missing;
    exchange_whole(stage, &reply);
    return reply;
}

/* What a worker says without a token is not an error for that: only the worker knows. */
static void text_that_no_token_released_does_not_end_a_stream(void **state)
{
    static const script_step steps[] = {
        { .tokens = { 1 }, .n_tokens = 1, .bytes = "data: one\n\n" },
        { .reply = 1, .bytes = "data: text\n\n" },
        { .tokens = { 2 }, .n_tokens = 1, .bytes = "data: two\n\n", .has_ended = true },
        { .reply = 1, .bytes = "data: [DONE]\n\n", .has_ended = true },
    };
    static const reply_script script = {
        .status = 200, .is_stream = true, .content_type = events, .steps = steps, .n_steps = 4
    };
    relay_stage *stage = *state;
    client_reply reply = exchange_cut(stage, &script, 120); /* in the frame of the second token, or the end's */

    assert_int_equal(stage->n_runs, 2);
    assert_true(reply.is_whole);
    assert_non_null(strstr(hth_buffer_text(&reply.body), "data: [DONE]\n\n"));
    assert_int_equal(stage->record.status, 200);
    client_reply_deinit(&reply);
}

static void a_stream_that_has_its_error_is_not_gone_on_with(void **state)
{
    static const script_step steps[] = {
        { .tokens = { 1 }, .n_tokens = 1, .bytes = "data: one\n\n" },
        { .bytes = "data: error\n\n", .has_ended = true, .has_failed = true },
    };
    static const reply_script script = {
        .status = 200, .is_stream = true, .content_type = events, .steps = steps, .n_steps = 2
    };
    relay_stage *stage = *state;
    client_reply reply = exchange_cut(stage, &script, 20); /* in END */

    assert_int_equal(stage->n_runs, 1);
    assert_true(reply.is_whole);
    assert_string_equal(hth_buffer_text(&reply.body), "data: one\n\ndata: error\n\n");
    assert_int_equal(stage->record.status, 500);
    client_reply_deinit(&reply);
}

/* The first run is the script's; those after it refuse. */
static void refuse_later(fake_connection *connection, const fake_request *request, void *user_data)
{
    relay_stage *stage = user_data;
    hth_buffer out = { .text = NULL }, frame = { .text = NULL };
    const hth_frame_summary summary = { .status = 503 };
    static const char body[] = "{\"error\":{\"message\":\"too many wait\"}}";

    if (stage->n_runs == 0) {
        play(connection, request, stage);
        return;
    }
    if (note_run(stage, request) == 1 && stage->model[0] == 't') {
        script_head(&out, HTH_FRAMES_CONTENT_TYPE);
        hth_frame_add_head(&frame, 503, false, 1, json, NULL);
        hth_frame_add_bytes(&frame, body, sizeof(body) - 1);
        hth_frame_add_end(&frame, &summary);
        script_chunk(&out, &frame);
        hth_buffer_clear(&frame);
        script_chunk(&out, &frame);
    }
    fake_write(connection, out.text, out.n);
    hth_buffer_deinit(&frame);
    hth_buffer_deinit(&out);
}

static void a_stream_that_no_worker_takes_ends_with_the_reason(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    stage->supervisor.handler = refuse_later;
    begin_with(stage, &stream);
    stage->runs[0].cut = 300;
    exchange_whole(stage, &reply);
    assert_true(reply.is_whole);
    assert_non_null(strstr(hth_buffer_text(&reply.body), "data: {\"error\":{"));
    assert_non_null(strstr(hth_buffer_text(&reply.body), "too many wait"));
    assert_int_equal(stage->record.status, 503);
    client_reply_deinit(&reply);
}

static void a_whole_reply_that_no_worker_takes_is_the_refusal(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    stage->supervisor.handler = refuse_later;
    begin_with(stage, &whole);
    stage->runs[0].cut = 200;
    exchange_whole(stage, &reply);
    assert_int_equal(reply.status, 503);
    assert_string_equal(hth_buffer_text(&reply.body), "{\"error\":{\"message\":\"too many wait\"}}");
    client_reply_deinit(&reply);
}

/* ---- requests that kill ---- */

enum { LONG_STEPS = 80, STEPS_A_RUN = 10, OTHERS = 12 };

/* A long stream, of which workers send some more steps each time, until nobody kills them any more. */
typedef struct killing {
    relay_stage *stage;
    script_step steps[LONG_STEPS];
    reply_script script;
    hth_buffer text;
    unsigned n_runs, n_kills, n_kills_max;
    bool is_silent; /* requests are held without an answer */
    fake_connection *held[64];
    size_t n_held;
} killing;

static killing *killing_new(relay_stage *stage)
{
    killing *all = calloc(1, sizeof(*all));

    assert_non_null(all);
    all->stage = stage;
    for (int i = 0; i < LONG_STEPS; i++) {
        all->steps[i] = (script_step){ .tokens = { i },
                                       .n_tokens = 1,
                                       .bytes = i % 2 ? "data: odd\n\n" : "data: even\n\n",
                                       .has_ended = i == LONG_STEPS - 1 };
        hth_buffer_add_text(&all->text, all->steps[i].bytes);
    }
    all->script = (reply_script){
        .status = 200, .is_stream = true, .content_type = events, .steps = all->steps, .n_steps = LONG_STEPS
    };
    return all;
}

static void killing_free(killing *all)
{
    hth_buffer_deinit(&all->text);
    free(all);
}

static void live_or_die(fake_connection *connection, const fake_request *request, void *user_data)
{
    killing *all = user_data;
    char number[32];
    size_t n_known =
        fake_request_header(request, HTH_HEADER_KNOWN, number, sizeof(number)) ? strtoul(number, NULL, 10) : 0;
    hth_buffer out = { .text = NULL };
    const char *at;

    all->n_runs++;
    if (all->is_silent) {
        assert_true(all->n_held < 64);
        all->held[all->n_held++] = connection;
        return;
    }
    if (strcmp(request->body + n_known, "kill") == 0) {
        all->n_kills++;
        fake_end(connection);
        return;
    }
    script_write(&all->script, request->body, n_known, &out);
    if (all->n_kills < all->n_kills_max) {
        at = out.text;
        for (int i = 0; i < STEPS_A_RUN && at; i++)
            at = memmem(at + 1, (size_t)(out.text + out.n - at - 1), "data: ", 6);
        assert_non_null(at);
        fake_write(connection, out.text, (size_t)(at + 20 - out.text)); /* into the next frame */
    } else {
        fake_write(connection, out.text, out.n);
    }
    hth_buffer_deinit(&out);
}

static void turn(relay_stage *stage)
{
    for (int i = 0; i < 20; i++)
        hth_test_http_turn(&stage->http);
}

static void one_request_that_kills_is_told_from_those_that_were_there(void **state)
{
    relay_stage *stage = *state;
    killing *all = killing_new(stage);
    hth_test_client others[OTHERS], killer;
    client_reply reply = { .status = 0 };

    all->n_kills_max = 4;
    stage->supervisor.handler = live_or_die;
    stage->supervisor.user_data = all;
    for (int i = 0; i < OTHERS; i++) {
        client_ask(&others[i], stage, "{}");
        if (i == OTHERS / 2)
            client_ask(&killer, stage, "kill");
    }
    turn(stage);
    worker_start(&stage->supervisor);
    client_hear(&killer, &reply);
    assert_int_equal(reply.status, 500);
    assert_int_equal(all->n_kills, 4);
    assert_error_body(&reply.body, HTH_API_OPENAI, "died 4 times");
    hth_test_client_close(&killer);
    for (int i = 0; i < OTHERS; i++) {
        client_hear(&others[i], &reply);
        assert_true(reply.is_whole);
        assert_string_equal(hth_buffer_text(&reply.body), hth_buffer_text(&all->text));
        hth_test_client_close(&others[i]);
    }
    client_reply_deinit(&reply);
    killing_free(all);
}

/* Two deaths, and clients that were there both times; the third worker says nothing. */
static killing *suspects_open(relay_stage *stage, hth_test_client *clients, size_t n)
{
    killing *all = killing_new(stage);

    all->is_silent = true;
    stage->supervisor.handler = live_or_die;
    stage->supervisor.user_data = all;
    stage->supervisor.fate = FATE_GONE;
    for (int death = 0; death < 2; death++) {
        worker_start(&stage->supervisor);
        for (size_t i = 0; i < n && death == 0; i++)
            client_ask(&clients[i], stage, "{}");
        hth_test_http_until(&stage->http, all->n_held == n);
        worker_end(&stage->supervisor, HTH_WORKER_READY); /* nobody has seen it yet */
        hth_test_http_until(&stage->http, stage->supervisor.waiters.n == n);
        stage->supervisor.n_deaths++;
        all->n_held = 0;
    }
    all->n_runs = 0;
    worker_start(&stage->supervisor);
    turn(stage);
    return all;
}

static void let_go(killing *all, size_t i)
{
    hth_buffer out = { .text = NULL };

    script_write(&all->script, "", 0, &out);
    fake_write(all->held[i], out.text, out.n);
    hth_buffer_deinit(&out);
}

static void suspects_run_one_after_the_other(void **state)
{
    enum { N = 5 };
    relay_stage *stage = *state;
    hth_test_client clients[N];
    client_reply reply = { .status = 0 };
    killing *all = suspects_open(stage, clients, N);

    for (size_t i = 0; i < N; i++) {
        turn(stage);
        assert_int_equal(all->n_runs, i + 1);
        let_go(all, i);
        hth_test_http_until(&stage->http, stage->n_over == i + 1);
    }
    for (size_t i = 0; i < N; i++) {
        client_hear(&clients[i], &reply);
        assert_string_equal(hth_buffer_text(&reply.body), hth_buffer_text(&all->text));
        hth_test_client_close(&clients[i]);
    }
    client_reply_deinit(&reply);
    killing_free(all);
}

static void suspects_wait_for_a_bounded_time(void **state)
{
    enum { N = 4 };
    relay_stage *stage = *state;
    hth_test_client clients[N];
    client_reply reply = { .status = 0 };
    unsigned n_refused = 0;
    killing *all;

    stage->options.wait_timeout_ms = 30;
    set_options(stage);
    all = suspects_open(stage, clients, N);
    hth_test_http_until(&stage->http, stage->n_over == N - 1);
    assert_int_equal(all->n_runs, 1);
    let_go(all, 0);
    for (size_t i = 0; i < N; i++) {
        client_hear(&clients[i], &reply);
        n_refused += reply.status == 503;
        if (reply.status == 503)
            assert_error_body(&reply.body, HTH_API_OPENAI, "waited for too long");
        else
            assert_string_equal(hth_buffer_text(&reply.body), hth_buffer_text(&all->text));
        hth_test_client_close(&clients[i]);
    }
    assert_int_equal(n_refused, N - 1);
    client_reply_deinit(&reply);
    killing_free(all);
}

static void suspects_that_leave_make_room(void **state)
{
    enum { N = 4 };
    relay_stage *stage = *state;
    hth_test_client clients[N];
    killing *all = suspects_open(stage, clients, N);

    assert_int_equal(all->n_runs, 1);
    for (size_t i = 0; i < N; i++) {
        hth_test_client_close(&clients[i]); /* in line or on its turn */
        hth_test_http_until(&stage->http, stage->n_over == i + 1);
        assert_int_equal(stage->record.status, 499);
        turn(stage);
    }
    assert_int_equal(hth_proxy_n_relays(stage->proxy), 0);
    killing_free(all);
}

/* ---- clients that leave, and slow ones ---- */

static bool worker_saw_end;

static void saw_end(void *user_data)
{
    (void)user_data;
    worker_saw_end = true;
}

/* Answers as far as the path of the test asks, and waits. */
static void answer_in_part(fake_connection *connection, const fake_request *request, void *user_data)
{
    relay_stage *stage = user_data;
    hth_buffer out = { .text = NULL };
    unsigned run = note_run(stage, request);

    fake_on_gone(connection, saw_end, NULL);
    script_write(stage->script, request->body, stage->n_known[run], &out);
    assert_true(stage->runs[run].cut < out.n);
    if (stage->runs[run].cut > 0)
        fake_write(connection, out.text, stage->runs[run].cut);
    hth_buffer_deinit(&out);
}

static void a_client_that_leaves_ends_its_request_in_the_worker(void **state)
{
    static const size_t cuts[] = { 0, 50, 150, 200, 230, 260, 280 };
    relay_stage *stage = *state;

    stage->supervisor.handler = answer_in_part;
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        hth_test_client client;

        worker_saw_end = false;
        begin_with(stage, i % 2 ? &stream : &whole);
        stage->runs[0].cut = cuts[i];
        client_ask(&client, stage, "{}");
        hth_test_http_until(&stage->http, stage->n_runs == 1);
        turn(stage);
        hth_test_client_close(&client);
        hth_test_http_until(&stage->http, worker_saw_end && stage->n_over == i + 1);
        assert_int_equal(stage->record.status, 499);
        assert_false(stage->record.has_summary);
        /* Most cuts leave a step or more of the stream whole. */
        if (i == 3 || i == 5)
            assert_true(stage->record.n_tokens_out >= 1 && stage->record.n_tokens_out <= 9);
        assert_int_equal(hth_upstream_counts(stage->upstream).n_calls, 0);
    }
}

static void a_client_that_leaves_waits_no_more(void **state)
{
    relay_stage *stage = *state;
    hth_test_client client;

    forget_runs(stage);
    client_ask(&client, stage, "{}");
    hth_test_http_until(&stage->http, stage->supervisor.waiters.n == 1);
    hth_test_client_close(&client);
    hth_test_http_until(&stage->http, stage->n_over == 1);
    assert_int_equal(stage->supervisor.waiters.n, 0);
    assert_int_equal(stage->record.status, 499);
    assert_true(stage->record.first_byte_ms <= 0);
}

enum { FLOOD_STEPS = 4000, FLOOD_BYTES = 4096 };

static void flood(fake_connection *connection, const fake_request *request, void *user_data)
{
    relay_stage *stage = user_data;
    static char bytes[FLOOD_BYTES + 1];
    hth_buffer out = { .text = NULL }, frame = { .text = NULL };
    const hth_frame_summary summary = { .status = 200 };

    (void)note_run(stage, request);
    script_head(&out, HTH_FRAMES_CONTENT_TYPE);
    hth_frame_add_head(&frame, 200, true, 0, events, NULL);
    script_chunk(&out, &frame);
    for (int i = 0; i < FLOOD_STEPS; i++) {
        memset(bytes, 'a' + i % 26, FLOOD_BYTES);
        hth_buffer_clear(&frame);
        hth_frame_add_step(&frame, 0, i + 1 == FLOOD_STEPS ? HTH_STEP_ENDS : 0,
                           &(hth_frame_tokens){ .ids = &(hearth_token){ i }, .n = 1 }, bytes, FLOOD_BYTES);
        script_chunk(&out, &frame);
    }
    hth_buffer_clear(&frame);
    hth_frame_add_end(&frame, &summary);
    script_chunk(&out, &frame);
    hth_buffer_clear(&frame);
    script_chunk(&out, &frame);
    fake_write(connection, out.text, out.n);
    hth_buffer_deinit(&frame);
    hth_buffer_deinit(&out);
}

/* Count the letters that came, and forget them. */
static void count_letters(hth_test_client *client, size_t counts[26])
{
    hth_test_client_listen(client);
    for (size_t i = 0; i < client->n_heard; i++)
        if (client->heard[i] >= 'a' && client->heard[i] <= 'z')
            counts[client->heard[i] - 'a']++;
    hth_test_client_forget(client);
}

static void a_slow_client_holds_its_worker_back_and_gets_everything(void **state)
{
    relay_stage *stage = *state;
    hth_test_client client;
    size_t counts[26] = { 0 };

    stage->supervisor.handler = flood;
    begin_with(stage, &stream);
    client_ask(&client, stage, "{}");
    (void)hth_test_client_hear(&client, "\r\n\r\n");
    memmove(client.heard, hth_test_client_body(&client), strlen(hth_test_client_body(&client)) + 1);
    client.n_heard = strlen(client.heard);
    for (int i = 0; i < 200; i++)
        hth_test_http_turn(&stage->http);
    assert_int_equal(stage->n_over, 0); /* 16 MB are in no buffer between */
    assert_true(fake_worker_n_connections(stage->supervisor.worker) == 1);
    hth_test_http_until(&stage->http, (count_letters(&client, counts), stage->n_over == 1));
    for (int i = 0; i < 10; i++) {
        hth_test_http_turn(&stage->http);
        count_letters(&client, counts);
    }
    for (size_t i = 0; i < 26; i++)
        assert_int_equal(counts[i], (FLOOD_STEPS / 26 + (i < FLOOD_STEPS % 26)) * (size_t)FLOOD_BYTES);
    assert_int_equal(stage->record.bytes_out, (size_t)FLOOD_STEPS * FLOOD_BYTES);
    hth_test_client_close(&client);
}

/* ---- waiting ---- */

static void a_request_waits_for_its_worker(void **state)
{
    relay_stage *stage = *state;
    hth_test_client client;
    client_reply reply = { .status = 0 };

    stage->script = &whole;
    client_ask(&client, stage, "{}");
    hth_test_http_until(&stage->http, stage->supervisor.waiters.n == 1);
    worker_start(&stage->supervisor);
    client_hear(&client, &reply);
    assert_int_equal(reply.status, 200);
    hth_test_client_close(&client);
    client_reply_deinit(&reply);
}

static void a_worker_that_does_not_come_is_an_error_that_says_when_to_try_again(void **state)
{
    static const int statuses[] = { 503, 529, 503 };
    relay_stage *stage = *state;

    for (hth_api_dialect dialect = HTH_API_OPENAI; dialect <= HTH_API_NATIVE; dialect++) {
        const hearth_error busy = { .status = HEARTH_BUSY, .message = "out of order: it fell", .retry_after_s = 17 };
        const hearth_error late = { .status = HEARTH_TIMED_OUT, .message = "not ready within 5 s: it is loading" };
        const hearth_error *errors[] = { &busy, &late };

        for (int i = 0; i < 2; i++) {
            hth_test_client client;
            client_reply reply = { .status = 0 };

            stage->dialect = dialect;
            client_ask(&client, stage, "{}");
            hth_test_http_until(&stage->http, stage->supervisor.waiters.n == 1);
            hth_waiters_tell_failed(&stage->supervisor.waiters, 0, errors[i]);
            client_hear(&client, &reply);
            assert_int_equal(reply.status, statuses[dialect]);
            assert_non_null(strstr(client.heard, i ? "Retry-After: 1\r\n" : "Retry-After: 17\r\n"));
            assert_error_body(&reply.body, dialect, errors[i]->message);
            hth_test_client_close(&client);
            client_reply_deinit(&reply);
        }
    }
}

static void a_model_that_is_not_there_is_not_found(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    stage->model = "nobody";
    exchange_whole(stage, &reply);
    assert_int_equal(reply.status, 404);
    assert_error_body(&reply.body, HTH_API_OPENAI, "nobody");
    assert_string_equal(stage->record.why, "there is no model 'nobody'");
    client_reply_deinit(&reply);
}

static void a_silent_stream_gets_comments(void **state)
{
    relay_stage *stage = *state;
    hth_test_client client;
    client_reply reply = { .status = 0 };
    hth_buffer text = { .text = NULL };

    stage->options.keep_alive_ms = 20;
    set_options(stage);
    begin_with(stage, &stream);
    stage->supervisor.fate = FATE_GONE;
    stage->runs[0].cut = 300;
    client_ask(&client, stage, "{}");
    (void)hth_test_client_hear(&client, "\n\n\r\n3\r\n:\n\n\r\n3\r\n:\n\n"); /* two of them */
    worker_start(&stage->supervisor);
    client_hear(&client, &reply);
    for (const char *at = hth_buffer_text(&reply.body); *at; at++) {
        if (strncmp(at, ":\n\n", 3) == 0)
            at += 2;
        else
            hth_buffer_add(&text, at, 1);
    }
    assert_string_equal(hth_buffer_text(&text), stream_text);
    hth_test_client_close(&client);
    hth_buffer_deinit(&text);
    client_reply_deinit(&reply);
}

/* Its head and a comment, before anybody knows what becomes of it. */
static void begin_without_worker(relay_stage *stage, hth_test_client *client)
{
    stage->options.keep_alive_ms = 20;
    stage->wants_events = true;
    set_options(stage);
    client_ask(client, stage, "{}");
    (void)hth_test_client_hear(client, "Content-Type: text/event-stream\r\n");
    (void)hth_test_client_hear(client, ":\n\n\r\n3\r\n:\n\n");
    assert_int_equal(stage->n_runs, 0);
}

static void a_stream_that_waits_for_its_worker_begins_with_comments(void **state)
{
    relay_stage *stage = *state;
    hth_test_client client;
    client_reply reply = { .status = 0 };
    const char *at;

    stage->script = &stream;
    begin_without_worker(stage, &client);
    worker_start(&stage->supervisor);
    client_hear(&client, &reply);
    assert_int_equal(reply.status, 200);
    for (at = hth_buffer_text(&reply.body); strncmp(at, ":\n\n", 3) == 0; at += 3)
        ;
    assert_string_equal(at, stream_text);
    hth_test_client_close(&client);
    client_reply_deinit(&reply);
}

static void what_its_worker_refuses_then_is_told_in_an_event(void **state)
{
    static const script_step steps[] = { { .bytes = "{\"error\":{\"message\":\"'top_k' is wrong\"}}" } };
    static const reply_script refusal = {
        .status = 400, .content_type = "application/json", .steps = steps, .n_steps = 1
    };
    relay_stage *stage = *state;
    hth_test_client client;
    client_reply reply = { .status = 0 };

    stage->script = &refusal;
    begin_without_worker(stage, &client);
    worker_start(&stage->supervisor);
    client_hear(&client, &reply);
    assert_non_null(strstr(hth_buffer_text(&reply.body), "data: {\"error\":{\"message\":\"'top_k' is wrong\",\"type\":"
                                                         "\"invalid_request_error\""));
    hth_test_client_close(&client);
    client_reply_deinit(&reply);
}

static void all_can_be_ended_at_once(void **state)
{
    relay_stage *stage = *state;
    hth_test_client waits, whole_runs, streams, plain;
    client_reply reply = { .status = 0 };
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_test_client *all[] = { &waits, &whole_runs, &streams, &plain };

    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "the server stops");
    stage->supervisor.handler = answer_in_part;
    begin_with(stage, &stream);
    stage->runs[0].cut = 300;
    client_ask(&streams, stage, "{}");
    (void)hth_test_client_hear(&streams, "data: one");
    stage->script = &whole;
    client_ask(&whole_runs, stage, "{}");
    hth_test_http_until(&stage->http, stage->n_runs == 2);
    stage->generates = false;
    client_ask(&plain, stage, "{}");
    hth_test_http_until(&stage->http, stage->n_runs == 3);
    stage->generates = true;
    stage->supervisor.fate = FATE_GONE;
    stage->supervisor.state = HTH_WORKER_STOPPED; /* for those to come */
    client_ask(&waits, stage, "{}");
    hth_test_http_until(&stage->http, stage->supervisor.waiters.n == 1);
    hth_proxy_end_all(stage->proxy, &error);
    for (size_t i = 0; i < 4; i++) {
        client_hear(all[i], &reply);
        assert_true(reply.is_whole);
        assert_int_equal(reply.status, all[i] == &streams ? 200 : 503);
        assert_non_null(strstr(hth_buffer_text(&reply.body), "the server stops"));
        hth_test_client_close(all[i]);
    }
    assert_int_equal(stage->supervisor.waiters.n, 0);
    client_reply_deinit(&reply);
}

/* ---- what generates nothing ---- */

static const char plain_reply[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: "
                                  "12\r\n\r\n{\"tokens\":1}";
enum { LARGE_BYTES = 1 << 20 };

static void answer_plainly(fake_connection *connection, const fake_request *request, void *user_data)
{
    relay_stage *stage = user_data;
    unsigned run = note_run(stage, request);
    size_t cut = stage->runs[run].cut;

    if (strstr(request->head, "/large") == NULL) {
        fake_write(connection, plain_reply, cut ? cut : sizeof(plain_reply) - 1);
    } else {
        char *large = malloc(LARGE_BYTES), head[128];

        assert_non_null(large);
        memset(large, 'l', LARGE_BYTES);
        (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", LARGE_BYTES);
        fake_write_text(connection, head);
        fake_write(connection, large, cut ? cut : LARGE_BYTES);
        free(large);
    }
    if (cut)
        fake_end(connection);
}

static void what_generates_nothing_is_passed_on_as_it_is(void **state)
{
    relay_stage *stage = *state;
    hth_test_client client;
    client_reply reply = { .status = 0 };

    stage->generates = false;
    stage->supervisor.handler = answer_plainly;
    begin_with(stage, &stream);
    client_ask(&client, stage, "{}");
    client_hear(&client, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(hth_buffer_text(&reply.body), "{\"tokens\":1}");
    assert_non_null(strstr(client.heard, "Content-Type: application/json; charset=utf-8\r\n"));
    assert_null(strstr(stage->heads[0], HTH_HEADER_FRAMES));
    hth_test_client_close(&client);
    client_reply_deinit(&reply);
}

static void a_body_goes_with_post_only(void **state)
{
    static const char no_body[] = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n";
    static const char *const methods[] = { "GET", "HEAD" };
    relay_stage *stage = *state;

    stage->generates = false;
    stage->supervisor.handler = answer_plainly;
    for (size_t i = 0; i < 2; i++) {
        hth_test_client client;
        char text[128];

        begin_with(stage, &stream);
        stage->runs[0].cut = i == 1 ? strlen(no_body) : 0;
        (void)snprintf(text, sizeof(text), "%s /props HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}", methods[i]);
        hth_test_client_open(&client, &stage->http);
        hth_test_client_say(&client, text);
        hth_test_http_until(&stage->http, stage->n_over == i + 1);
        assert_int_equal(strncmp(stage->heads[0], methods[i], strlen(methods[i])), 0);
        assert_string_equal(stage->bodies[0], "");
        assert_int_equal(stage->record.status, 200);
        hth_test_client_close(&client);
    }
}

static void and_again_where_it_breaks(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    stage->generates = false;
    stage->supervisor.handler = answer_plainly;
    for (size_t cut = 1; cut < sizeof(plain_reply) - 1; cut++) {
        begin_with(stage, &stream);
        stage->runs[0].cut = cut;
        exchange_whole(stage, &reply);
        assert_int_equal(stage->n_runs, 2);
        assert_int_equal(reply.status, 200);
        assert_string_equal(hth_buffer_text(&reply.body), "{\"tokens\":1}");
    }
    client_reply_deinit(&reply);
}

/* Its worker may have done it, and the next one knows nothing of what it was about. */
static void unless_it_may_be_done_once_only(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    stage->generates = false;
    stage->is_once = true;
    stage->supervisor.handler = answer_plainly;
    for (size_t cut = 1; cut < sizeof(plain_reply) - 1; cut += 10) {
        begin_with(stage, &stream);
        stage->runs[0].cut = cut;
        exchange_whole(stage, &reply);
        assert_int_equal(stage->n_runs, 1);
        assert_int_equal(reply.status, 500);
        assert_non_null(strstr(hth_buffer_text(&reply.body), "not tried again"));
    }
    begin_with(stage, &stream);
    exchange_whole(stage, &reply);
    assert_int_equal(reply.status, 200);
    client_reply_deinit(&reply);
}

static void large_exchange(relay_stage *stage, client_reply *reply)
{
    hth_test_client client;
    unsigned n_over = stage->n_over;

    hth_test_client_open(&client, &stage->http);
    hth_test_client_say(&client, "GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
    client_hear(&client, reply);
    hth_test_http_until(&stage->http, stage->n_over > n_over);
    hth_test_client_close(&client);
}

static void a_large_reply_streams_and_a_part_of_it_is_seen_to_be_one(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    stage->generates = false;
    stage->supervisor.handler = answer_plainly;
    begin_with(stage, &stream);
    large_exchange(stage, &reply);
    assert_true(reply.is_whole);
    assert_int_equal(reply.body.n, LARGE_BYTES);
    assert_int_equal(stage->record.status, 200);
    begin_with(stage, &stream);
    stage->runs[0].cut = LARGE_BYTES / 2;
    large_exchange(stage, &reply);
    assert_false(reply.is_whole);
    assert_int_equal(stage->n_runs, 1);
    assert_int_equal(stage->record.status, 502);
    begin_with(stage, &stream);
    stage->runs[0].cut = LARGE_BYTES / 16; /* nothing has left yet */
    large_exchange(stage, &reply);
    assert_true(reply.is_whole);
    assert_int_equal(stage->n_runs, 2);
    client_reply_deinit(&reply);
}

static void a_worker_that_answers_without_frames_is_believed(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    stage->supervisor.handler = answer_plainly;
    begin_with(stage, &stream);
    exchange_whole(stage, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(hth_buffer_text(&reply.body), "{\"tokens\":1}");
    assert_false(stage->record.has_summary);
    client_reply_deinit(&reply);
}

static void answer_with_no_status(fake_connection *connection, const fake_request *request, void *user_data)
{
    static const char large_status[] = "HTTP/1.1 999 Beyond\r\nContent-Length: 2\r\n\r\n{}";

    (void)note_run(user_data, request);
    fake_write(connection, large_status, sizeof(large_status) - 1);
}

static void a_status_that_is_none_is_no_reply(void **state)
{
    relay_stage *stage = *state;
    client_reply reply = { .status = 0 };

    stage->supervisor.handler = answer_with_no_status;
    stage->supervisor.fate = FATE_WELL;
    for (int generates = 0; generates < 2; generates++) {
        stage->generates = generates == 1;
        begin_with(stage, &stream);
        exchange_whole(stage, &reply);
        assert_int_equal(reply.status, 500);
        assert_int_equal(stage->record.status, 500);
    }
    client_reply_deinit(&reply);
}

/* ---- many at once ---- */

static void many_streams_survive_workers_that_die_at_random(void **state)
{
    enum { N = 100 };
    relay_stage *stage = *state;
    hth_test_client *clients = calloc(N, sizeof(*clients));
    client_reply reply = { .status = 0 };
    uint64_t seed = hth_test_seed();
    killing *all = killing_new(stage);

    assert_non_null(clients);
    stage->options.retries_max = 100;
    set_options(stage);
    all->n_kills_max = 1; /* steps come in parts */
    stage->supervisor.handler = live_or_die;
    stage->supervisor.user_data = all;
    worker_start(&stage->supervisor);
    for (int i = 0; i < N; i++)
        client_ask(&clients[i], stage, "{}");
    for (int death = 0; death < 6; death++) {
        for (uint64_t n = hth_test_random(&seed, 40); n > 0; n--)
            hth_test_http_turn(&stage->http);
        stage->supervisor.fate = hth_test_random(&seed, 2) ? FATE_DEAD : FATE_DEAD_LATE;
        hth_supervisor_note_broken(&stage->supervisor, "tiny", stage->supervisor.generation);
        hth_test_http_until(&stage->http, stage->supervisor.worker != NULL);
    }
    all->n_kills_max = 0;
    turn(stage);
    hth_supervisor_note_broken(&stage->supervisor, "tiny", stage->supervisor.generation);
    for (int i = 0; i < N; i++) {
        client_hear(&clients[i], &reply);
        assert_true(reply.is_whole);
        assert_string_equal(hth_buffer_text(&reply.body), hth_buffer_text(&all->text));
        hth_test_client_close(&clients[i]);
    }
    free(clients);
    client_reply_deinit(&reply);
    killing_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define STAGED(test) cmocka_unit_test_setup_teardown(test, stage_setup, stage_teardown)
        STAGED(a_stream_is_what_its_steps_release),
        STAGED(a_whole_reply_has_its_length),
        STAGED(a_worker_is_told_what_it_needs),
        STAGED(an_error_of_the_worker_is_the_clients),
        STAGED(a_stream_that_breaks_anywhere_goes_on_with_the_next_byte),
        STAGED(a_stream_of_several_replies_goes_on_with_each),
        STAGED(a_whole_reply_that_breaks_anywhere_is_whole),
        STAGED(workers_may_die_one_after_the_other),
        STAGED(the_next_worker_gets_the_same_id_and_seed),
        STAGED(a_request_whose_workers_die_too_often_is_an_error),
        STAGED(no_retries_are_none),
        STAGED(a_stream_that_has_begun_ends_with_the_error),
        STAGED(stops_in_order_are_not_held_against_a_request),
        STAGED(but_not_for_ever),
        STAGED(a_connection_to_a_worker_that_is_well_is_made_again),
        STAGED(what_is_no_frame_counts_as_a_broken_connection),
        STAGED(text_that_no_token_released_does_not_end_a_stream),
        STAGED(a_stream_that_has_its_error_is_not_gone_on_with),
        STAGED(a_stream_that_no_worker_takes_ends_with_the_reason),
        STAGED(a_whole_reply_that_no_worker_takes_is_the_refusal),
        STAGED(one_request_that_kills_is_told_from_those_that_were_there),
        STAGED(suspects_run_one_after_the_other),
        STAGED(suspects_wait_for_a_bounded_time),
        STAGED(suspects_that_leave_make_room),
        STAGED(a_client_that_leaves_ends_its_request_in_the_worker),
        STAGED(a_client_that_leaves_waits_no_more),
        STAGED(a_slow_client_holds_its_worker_back_and_gets_everything),
        STAGED(a_request_waits_for_its_worker),
        STAGED(a_worker_that_does_not_come_is_an_error_that_says_when_to_try_again),
        STAGED(a_model_that_is_not_there_is_not_found),
        STAGED(a_silent_stream_gets_comments),
        STAGED(a_stream_that_waits_for_its_worker_begins_with_comments),
        STAGED(what_its_worker_refuses_then_is_told_in_an_event),
        STAGED(all_can_be_ended_at_once),
        STAGED(what_generates_nothing_is_passed_on_as_it_is),
        STAGED(unless_it_may_be_done_once_only),
        STAGED(a_body_goes_with_post_only),
        STAGED(and_again_where_it_breaks),
        STAGED(a_large_reply_streams_and_a_part_of_it_is_seen_to_be_one),
        STAGED(a_worker_that_answers_without_frames_is_believed),
        STAGED(a_status_that_is_none_is_no_reply),
        STAGED(many_streams_survive_workers_that_die_at_random),
#undef STAGED
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
