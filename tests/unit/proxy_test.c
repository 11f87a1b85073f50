/*
 * proxy_test.c - replies on their way through the proxy, clients that leave or are slow, and requests that wait
 */
#include "base/os.h"
#include "support/relay_tests.h"

/* ---- replies ---- */

STAGED(a_stream_is_what_its_steps_release)
{
    hth_test_client client;

    begin_with(stage, &stream);
    client_ask(&client, stage, "{\"a\":1}");
    client_hear(&client, &stage->reply);
    assert_int_equal(stage->reply.status, 200);
    assert_true(stage->reply.is_chunked && stage->reply.is_whole);
    assert_string_equal(hth_buffer_text(&stage->reply.body), stream_text);
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
}

STAGED(a_whole_reply_has_its_length)
{
    begin_with(stage, &whole);
    exchange_whole(stage);
    assert_int_equal(stage->reply.status, 200);
    assert_true(!stage->reply.is_chunked && stage->reply.is_whole);
    assert_string_equal(hth_buffer_text(&stage->reply.body), "{\"text\":\"all of it\"}");
    assert_false(stage->record.is_stream);
    assert_int_equal(stage->record.bytes_out, stage->reply.body.n);
}

STAGED(a_worker_is_told_what_it_needs)
{
    char value[128], seed[2][128];

    begin_with(stage, &stream);
    exchange_whole(stage);
    exchange_whole(stage);
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
}

STAGED(an_error_of_the_worker_is_the_clients)
{
    static const script_step steps[] = { { .has_ended = true, .bytes = "{\"error\":1}" } };
    static const reply_script error = { .status = 400, .content_type = json, .steps = steps, .n_steps = 1 };

    begin_with(stage, &error);
    exchange_whole(stage);
    assert_int_equal(stage->reply.status, 400);
    assert_string_equal(hth_buffer_text(&stage->reply.body), "{\"error\":1}");
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

STAGED(a_client_that_leaves_ends_its_request_in_the_worker)
{
    static const size_t cuts[] = { 0, 50, 150, 200, 230, 260, 280 };

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

STAGED(a_client_that_leaves_waits_no_more)
{
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

STAGED(a_slow_client_holds_its_worker_back_and_gets_everything)
{
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

STAGED(a_request_waits_for_its_worker)
{
    hth_test_client client;

    stage->script = &whole;
    client_ask(&client, stage, "{}");
    hth_test_http_until(&stage->http, stage->supervisor.waiters.n == 1);
    worker_start(&stage->supervisor);
    client_hear(&client, &stage->reply);
    assert_int_equal(stage->reply.status, 200);
    hth_test_client_close(&client);
}

STAGED(a_worker_that_does_not_come_is_an_error_that_says_when_to_try_again)
{
    static const int statuses[] = { 503, 529, 503 };

    for (hth_api_dialect dialect = HTH_API_OPENAI; dialect <= HTH_API_NATIVE; dialect++) {
        const hearth_error busy = { .status = HEARTH_BUSY, .message = "out of order: it fell", .retry_after_s = 17 };
        const hearth_error late = { .status = HEARTH_TIMED_OUT, .message = "not ready within 5 s: it is loading" };
        const hearth_error *errors[] = { &busy, &late };

        for (int i = 0; i < 2; i++) {
            hth_test_client client;

            stage->dialect = dialect;
            client_ask(&client, stage, "{}");
            hth_test_http_until(&stage->http, stage->supervisor.waiters.n == 1);
            hth_waiters_tell_failed(&stage->supervisor.waiters, 0, errors[i]);
            client_hear(&client, &stage->reply);
            assert_int_equal(stage->reply.status, statuses[dialect]);
            assert_non_null(strstr(client.heard, i ? "Retry-After: 1\r\n" : "Retry-After: 17\r\n"));
            assert_error_body(&stage->reply.body, dialect, errors[i]->message);
            hth_test_client_close(&client);
        }
    }
}

STAGED(a_model_that_is_not_there_is_not_found)
{
    stage->model = "nobody";
    exchange_whole(stage);
    assert_int_equal(stage->reply.status, 404);
    assert_error_body(&stage->reply.body, HTH_API_OPENAI, "nobody");
    assert_string_equal(stage->record.why, "there is no model 'nobody'");
}

STAGED(a_silent_stream_gets_comments)
{
    hth_test_client client;
    hth_buffer text = { .text = NULL };

    stage->options.limits.keep_alive_ms = 20;
    set_options(stage);
    begin_with(stage, &stream);
    stage->supervisor.fate = FATE_GONE;
    stage->runs[0].cut = 300;
    client_ask(&client, stage, "{}");
    (void)hth_test_client_hear(&client, "\n\n\r\n3\r\n:\n\n\r\n3\r\n:\n\n"); /* two of them */
    worker_start(&stage->supervisor);
    client_hear(&client, &stage->reply);
    for (const char *at = hth_buffer_text(&stage->reply.body); *at; at++) {
        if (strncmp(at, ":\n\n", 3) == 0)
            at += 2;
        else
            hth_buffer_add(&text, at, 1);
    }
    assert_string_equal(hth_buffer_text(&text), stream_text);
    hth_test_client_close(&client);
    hth_buffer_deinit(&text);
}

/* Its head and a comment, before anybody knows what becomes of it. */
static void begin_without_worker(relay_stage *stage, hth_test_client *client)
{
    stage->options.limits.keep_alive_ms = 20;
    stage->wants_events = true;
    set_options(stage);
    client_ask(client, stage, "{}");
    (void)hth_test_client_hear(client, "Content-Type: text/event-stream\r\n");
    (void)hth_test_client_hear(client, ":\n\n\r\n3\r\n:\n\n");
    assert_int_equal(stage->n_runs, 0);
}

STAGED(a_stream_that_waits_for_its_worker_begins_with_comments)
{
    hth_test_client client;
    const char *at;

    stage->script = &stream;
    begin_without_worker(stage, &client);
    worker_start(&stage->supervisor);
    client_hear(&client, &stage->reply);
    assert_int_equal(stage->reply.status, 200);
    for (at = hth_buffer_text(&stage->reply.body); strncmp(at, ":\n\n", 3) == 0; at += 3)
        ;
    assert_string_equal(at, stream_text);
    hth_test_client_close(&client);
}

STAGED(its_comments_tell_what_it_waits_for)
{
    static const char comment[] = ": loading 45%\n\n";
    hth_test_client client;
    const char *at;

    stage->script = &stream;
    stage->options.limits.keep_alive_ms = 20;
    stage->wants_events = true;
    stage->supervisor.wait = "loading 45%";
    set_options(stage);
    client_ask(&client, stage, "{}");
    (void)hth_test_client_hear(&client, ": loading 45%\n\n\r\nf\r\n: loading 45%\n\n");
    worker_start(&stage->supervisor);
    client_hear(&client, &stage->reply);
    for (at = hth_buffer_text(&stage->reply.body); strncmp(at, comment, strlen(comment)) == 0; at += strlen(comment))
        ;
    assert_string_equal(at, stream_text);
    hth_test_client_close(&client);
}

/* What a worker answers later. */
static fake_connection *held_connection;
static hth_buffer held_reply;

static void hold(fake_connection *connection, const fake_request *request, void *user_data)
{
    relay_stage *stage = user_data;
    const unsigned run = note_run(stage, request);

    held_connection = connection;
    script_write(stage->script, request->body, stage->n_known[run], &held_reply);
}

STAGED(a_stream_whose_worker_hashes_the_file_begins_with_comments)
{
    static const char comment[] = ": hashing 45%\n\n";
    hth_test_client client;
    const char *at;

    stage->supervisor.handler = hold;
    stage->options.limits.keep_alive_ms = 20;
    stage->wants_events = true;
    stage->supervisor.wait_there = "hashing 45%";
    begin_with(stage, &stream);
    set_options(stage);
    client_ask(&client, stage, "{}");
    (void)hth_test_client_hear(&client, ": hashing 45%\n\n\r\nf\r\n: hashing 45%\n\n");
    fake_write(held_connection, held_reply.text, held_reply.n);
    client_hear(&client, &stage->reply);
    assert_int_equal(stage->n_runs, 1);
    for (at = hth_buffer_text(&stage->reply.body); strncmp(at, comment, strlen(comment)) == 0; at += strlen(comment))
        ;
    assert_string_equal(at, stream_text);
    hth_test_client_close(&client);
    hth_buffer_deinit(&held_reply);
}

STAGED(a_stream_of_lines_has_no_place_for_words)
{
    static const script_step steps[] = { { .tokens = { 1 }, .n_tokens = 1, .bytes = "{\"one\":1}\n" },
                                         { .has_ended = true, .bytes = "" } };
    static const reply_script lines = {
        .status = 200, .is_stream = true, .content_type = "application/x-ndjson", .steps = steps, .n_steps = 2
    };
    hth_test_client client;
    const char *at;

    stage->script = &lines;
    stage->dialect = HTH_API_OLLAMA;
    stage->options.limits.keep_alive_ms = 20;
    stage->wants_events = true;
    stage->supervisor.wait = "loading 45%";
    set_options(stage);
    client_ask(&client, stage, "{}");
    (void)hth_test_client_hear(&client, "\r\n1\r\n \r\n");
    worker_start(&stage->supervisor);
    client_hear(&client, &stage->reply);
    at = hth_buffer_text(&stage->reply.body);
    assert_string_equal(at + strspn(at, " "), "{\"one\":1}\n");
    hth_test_client_close(&client);
}

STAGED(what_its_worker_refuses_then_is_told_in_an_event)
{
    static const script_step steps[] = { { .bytes = "{\"error\":{\"message\":\"'top_k' is wrong\"}}" } };
    static const reply_script refusal = {
        .status = 400, .content_type = "application/json", .steps = steps, .n_steps = 1
    };
    hth_test_client client;

    stage->script = &refusal;
    begin_without_worker(stage, &client);
    worker_start(&stage->supervisor);
    client_hear(&client, &stage->reply);
    assert_non_null(strstr(hth_buffer_text(&stage->reply.body),
                           "data: {\"error\":{\"message\":\"'top_k' is wrong\",\"type\":"
                           "\"invalid_request_error\""));
    hth_test_client_close(&client);
}

STAGED(all_can_be_ended_at_once)
{
    hth_test_client waits, whole_runs, streams, plain;
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
        client_hear(all[i], &stage->reply);
        assert_true(stage->reply.is_whole);
        assert_int_equal(stage->reply.status, all[i] == &streams ? 200 : 503);
        assert_non_null(strstr(hth_buffer_text(&stage->reply.body), "the server stops"));
        hth_test_client_close(all[i]);
    }
    assert_int_equal(stage->supervisor.waiters.n, 0);
}
