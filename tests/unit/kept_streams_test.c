/*
 * kept_streams_test.c - streams that are kept: who may read them, for how long, how much of them, and what else ends
 * them
 *
 * That pieces of a stream are the stream is tests/property/kept_streams_property_test.c.
 */
#include <string.h>

#include "support/relay_stage.h"

enum { KEEP_MS = 60000, BYTES_MAX = 64 << 10 };

static const script_step steps[] = {
    { .tokens = { 1 }, .n_tokens = 1, .bytes = "data: one\n\n" },
    { .tokens = { 2 }, .n_tokens = 1, .bytes = "event: e\ndata: two\n\n" },
    { .tokens = { 3 }, .n_tokens = 1, .bytes = "data: three\n\n", .has_ended = true },
};
static const reply_script story = {
    .status = 200, .is_stream = true, .content_type = "text/event-stream", .steps = steps, .n_steps = 3
};
static const char numbered[] = "id: 1\ndata: one\n\nid: 2\nevent: e\ndata: two\n\nid: 3\ndata: three\n\n";

enum { MANY = 1000 };
static script_step many_steps[MANY];
static char many_bytes[MANY][300];
static const reply_script many = {
    .status = 200, .is_stream = true, .content_type = "text/event-stream", .steps = many_steps, .n_steps = MANY
};

static void make_many(void)
{
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(many_bytes[i], sizeof(many_bytes[i]), "data: %0250d\n\n", i);
        many_steps[i] =
            (script_step){ .tokens = { i }, .n_tokens = 1, .bytes = many_bytes[i], .has_ended = i + 1 == MANY };
    }
}

static relay_stage *stage_new(uint32_t keep_ms, uint64_t total_bytes_max)
{
    relay_stage *stage = malloc(sizeof(*stage));

    relay_stage_open(stage);
    relay_stage_keep(
        stage, &(hth_kept_options){ .keep_ms = keep_ms, .bytes_max = BYTES_MAX, .total_bytes_max = total_bytes_max });
    stage->script = &story;
    worker_start(&stage->supervisor);
    return stage;
}

static void stage_free(relay_stage *stage)
{
    relay_stage_close(stage);
    free(stage);
}

static void ask(relay_stage *stage, hth_test_client *client, const char *method, const char *target)
{
    char head[256];

    (void)snprintf(head, sizeof(head), "%s /v1/streams/%s HTTP/1.1\r\nHost: h\r\n\r\n", method, target);
    hth_test_client_open(client, &stage->http);
    hth_test_client_say(client, head);
}

/* The whole reply to a request for a stream. */
static void fetch(relay_stage *stage, const char *method, const char *target, client_reply *out)
{
    hth_test_client client;

    ask(stage, &client, method, target);
    client_hear(&client, out);
    assert_true(out->is_whole);
    hth_test_client_close(&client);
}

static void expect(relay_stage *stage, const char *method, const char *target, int status, const char *body)
{
    fetch(stage, method, target, &stage->reply);
    assert_int_equal(stage->reply.status, status);
    if (status == 200)
        assert_string_equal(hth_buffer_text(&stage->reply.body), body);
    else
        assert_non_null(strstr(hth_buffer_text(&stage->reply.body), body));
}

/* Its reply has no body. */
static void drop(relay_stage *stage, const char *target)
{
    hth_test_client client;

    ask(stage, &client, "DELETE", target);
    hth_test_http_until(&stage->http, (client_reply_read(&client, &stage->reply), stage->reply.status > 0));
    assert_int_equal(stage->reply.status, 204);
    hth_test_client_close(&client);
}

/* Ask for a stream whose worker dies within its second step; there is no other until one is started. */
static void ask_and_lose(relay_stage *stage, hth_test_client *client)
{
    stage->supervisor.fate = FATE_GONE;
    stage->runs[stage->n_runs].cut = 190;
    client_ask(client, stage, "{\"a\":1}");
}

/* A client that hears one event of a stream whose worker then dies without another one, and leaves. */
static void begin_and_leave(relay_stage *stage)
{
    hth_test_client client;

    ask_and_lose(stage, &client);
    (void)hth_test_client_hear(&client, "data: one\n\n");
    hth_test_client_close(&client);
    hth_test_http_until(&stage->http, hth_http_server_numbers(stage->server).n_connections == 0);
}

/* ---- who asks for it, and who does not ---- */

TEST(a_kept_stream_has_an_id_and_numbers)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);
    hth_test_client client;

    client_ask(&client, stage, "{\"a\":1}");
    client_hear(&client, &stage->reply);
    assert_non_null(strstr(client.heard, "x-hearth-stream: id0\r\n"));
    assert_string_equal(hth_buffer_text(&stage->reply.body), numbered);
    hth_test_client_close(&client);
    expect(stage, "GET", "id0", 200, numbered);
    expect(stage, "GET", "id0?after=2", 200, "id: 3\ndata: three\n\n");
    expect(stage, "GET", "id0?after=3", 200, "");
    stage_free(stage);
}

TEST(who_does_not_ask_has_it_as_ever)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);
    hth_test_client client;

    stage->wants_kept = false;
    client_ask(&client, stage, "{\"a\":1}");
    client_hear(&client, &stage->reply);
    assert_null(strstr(client.heard, "x-hearth-stream"));
    assert_string_equal(hth_buffer_text(&stage->reply.body), "data: one\n\nevent: e\ndata: two\n\ndata: three\n\n");
    hth_test_client_close(&client);
    expect(stage, "GET", "id0", 404, "x-hearth-resume");
    /* And its request ends when it leaves. */
    begin_and_leave(stage);
    hth_test_http_until(&stage->http, stage->n_over == 2);
    assert_int_equal(stage->record.status, HTH_STATUS_CLIENT_GONE);
    stage_free(stage);
}

TEST(a_stream_goes_on_in_another_worker_without_its_client)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);

    begin_and_leave(stage);
    assert_int_equal(stage->n_over, 0);
    worker_start(&stage->supervisor);
    hth_test_http_until(&stage->http, stage->n_over == 1);
    assert_int_equal(stage->record.status, 200);
    assert_int_equal(stage->n_runs, 2);
    assert_string_equal(stage->bodies[1], "{\"a\":1}"); /* though the connection that it came by is gone */
    expect(stage, "GET", "id0?after=1", 200, "id: 2\nevent: e\ndata: two\n\nid: 3\ndata: three\n\n");
    stage_free(stage);
}

TEST(the_reader_of_a_kept_stream_alone_is_told_that_its_worker_ended)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);
    hth_test_client client;

    for (int i = 0; i < 2; i++) {
        stage->wants_kept = i == 0;
        ask_and_lose(stage, &client);
        (void)hth_test_client_hear(&client, stage->wants_kept ? ": worker ended\n\n" : "data: one\n\n");
        worker_start(&stage->supervisor);
        (void)hth_test_client_hear(&client, "data: three\n\n");
        assert_true(!strstr(client.heard, "worker ended") == !stage->wants_kept);
        hth_test_client_close(&client);
    }
    stage_free(stage);
}

TEST(nobody_else_may_read_it)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);

    begin_and_leave(stage);
    expect(stage, "GET", "id0?stranger=1", 404, "no stream 'id0'");
    expect(stage, "DELETE", "id0?stranger=1", 404, "no stream 'id0'");
    assert_int_equal(hth_kept_streams_n(stage->kept), 1);
    worker_start(&stage->supervisor);
    expect(stage, "GET", "id0", 200, numbered);
    stage_free(stage);
}

TEST(places_that_make_no_sense_are_refused)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);

    begin_and_leave(stage);
    expect(stage, "GET", "id0?after=2", 400, "has come to event 1 only");
    expect(stage, "GET", "id0?after=x", 400, "'after' is 'x'");
    expect(stage, "GET", "id0?after=-1", 400, "'after' is '-1'");
    expect(stage, "GET", "id0?after=99999999999999999999", 400, "'after' is '99999999999999999999'");
    drop(stage, "id0");
    stage_free(stage);
}

/* ---- readers ---- */

TEST(who_comes_takes_the_place_of_the_one_before)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);
    hth_test_client first, second;

    ask_and_lose(stage, &first);
    (void)hth_test_client_hear(&first, "data: one\n\n");
    ask(stage, &second, "GET", "id0");
    (void)hth_test_client_hear(&second, "data: one\n\n");
    hth_test_client_hear_end(&first);
    worker_start(&stage->supervisor);
    client_hear(&second, &stage->reply);
    assert_string_equal(hth_buffer_text(&stage->reply.body), numbered);
    hth_test_client_close(&first);
    hth_test_client_close(&second);
    stage_free(stage);
}

TEST(signs_of_life_have_no_numbers)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);
    hth_test_client client;

    hth_proxy_set_limits(stage->proxy,
                         &(hth_relay_limits){ .retries_max = 3, .wait_timeout_ms = 60000, .keep_alive_ms = 20 });
    ask_and_lose(stage, &client);
    (void)hth_test_client_hear(&client, "data: one\n\n");
    (void)hth_test_client_hear(&client, ":\n\n");
    worker_start(&stage->supervisor);
    client_hear(&client, &stage->reply);
    assert_null(strstr(hth_buffer_text(&stage->reply.body), "id: 4"));
    hth_test_client_close(&client);
    expect(stage, "GET", "id0", 200, numbered);
    stage_free(stage);
}

/* ---- streams of lines ---- */

static const script_step line_steps[] = {
    { .tokens = { 1 }, .n_tokens = 1, .bytes = "{\"a\":1}\n" },
    { .tokens = { 2 }, .n_tokens = 1, .bytes = "{\"a\":2}\n{\"a\":3}\n" },
    { .tokens = { 3 }, .n_tokens = 1, .bytes = "{\"done\":true}\n", .has_ended = true },
};
static const reply_script lines = {
    .status = 200, .is_stream = true, .content_type = "application/x-ndjson", .steps = line_steps, .n_steps = 3
};

/* Its lines are as ever; a reader counts them. */
TEST(a_stream_of_lines_is_kept_by_their_numbers)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);
    hth_test_client client;

    stage->dialect = HTH_API_OLLAMA;
    stage->script = &lines;
    client_ask(&client, stage, "{\"a\":1}");
    client_hear(&client, &stage->reply);
    assert_non_null(strstr(client.heard, "x-hearth-stream: id0\r\n"));
    assert_string_equal(hth_buffer_text(&stage->reply.body), "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n{\"done\":true}\n");
    hth_test_client_close(&client);
    expect(stage, "GET", "id0", 200, "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n{\"done\":true}\n");
    expect(stage, "GET", "id0?after=2", 200, "{\"a\":3}\n{\"done\":true}\n");
    expect(stage, "GET", "id0?after=4", 200, "");
    expect(stage, "GET", "id0?after=5", 400, "has come to event 4 only");
    ask(stage, &client, "GET", "id0");
    client_hear(&client, &stage->reply);
    assert_non_null(strstr(client.heard, "Content-Type: application/x-ndjson\r\n"));
    hth_test_client_close(&client);
    stage_free(stage);
}

TEST(spaces_between_lines_are_for_who_reads_now)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);
    hth_test_client client;

    stage->dialect = HTH_API_OLLAMA;
    stage->script = &lines;
    hth_proxy_set_limits(stage->proxy,
                         &(hth_relay_limits){ .retries_max = 3, .wait_timeout_ms = 60000, .keep_alive_ms = 20 });
    ask_and_lose(stage, &client);
    (void)hth_test_client_hear(&client, "{\"a\":1}\n");
    (void)hth_test_client_hear(&client, "\r\n \r\n"); /* a chunk of its own */
    worker_start(&stage->supervisor);
    client_hear(&client, &stage->reply);
    assert_non_null(strstr(hth_buffer_text(&stage->reply.body), "\n "));
    hth_test_client_close(&client);
    expect(stage, "GET", "id0", 200, "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n{\"done\":true}\n");
    stage_free(stage);
}

/* ---- bounds ---- */

TEST(of_a_long_stream_the_last_part_is_kept)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);
    hth_test_client client;
    unsigned first = 0;
    char target[64];
    const char *at;

    make_many();
    stage->script = &many;
    client_ask(&client, stage, "{\"a\":1}");
    client_hear(&client, &stage->reply);
    assert_non_null(strstr(hth_buffer_text(&stage->reply.body), "id: 1\n"));
    assert_non_null(strstr(hth_buffer_text(&stage->reply.body), "id: 1000\n"));
    hth_test_client_close(&client);
    fetch(stage, "GET", "id0?after=1", &stage->reply);
    assert_int_equal(stage->reply.status, 410);
    at = strstr(hth_buffer_text(&stage->reply.body), "up to number ");
    assert_non_null(at);
    first = (unsigned)strtoul(at + 13, NULL, 10);
    assert_in_range(first, 500, 950);
    (void)snprintf(target, sizeof(target), "id0?after=%u", first);
    fetch(stage, "GET", target, &stage->reply);
    assert_int_equal(stage->reply.status, 200);
    assert_true(stage->reply.body.n <= BYTES_MAX + 300);
    assert_non_null(strstr(hth_buffer_text(&stage->reply.body), "id: 1000\n"));
    stage_free(stage);
}

TEST(a_stream_that_is_full_waits_for_a_reader)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);
    hth_test_client client;
    uint64_t last = 0;

    make_many();
    stage->script = &many;
    stage->supervisor.fate = FATE_GONE;
    stage->runs[0].cut = 700; /* of the first events */
    client_ask(&client, stage, "{\"a\":1}");
    (void)hth_test_client_hear(&client, "id: 1\n");
    hth_test_client_close(&client);
    hth_test_http_until(&stage->http, hth_http_server_numbers(stage->server).n_connections == 0);
    worker_start(&stage->supervisor);
    for (int i = 0; i < 100; i++)
        hth_test_http_turn(&stage->http);
    assert_int_equal(stage->n_over, 0); /* there is more than is kept */
    fetch(stage, "GET", "id0", &stage->reply);
    for (const char *at = hth_buffer_text(&stage->reply.body); (at = strstr(at, "id: ")); at += 4) {
        assert_int_equal(strtoull(at + 4, NULL, 10), last + 1);
        last++;
    }
    assert_int_equal(last, MANY);
    stage_free(stage);
}

TEST(a_stream_that_nobody_reads_is_given_up)
{
    relay_stage *stage = stage_new(/* keep_ms= */ 50, 1 << 20);

    begin_and_leave(stage);
    hth_test_http_until(&stage->http, stage->n_over == 1);
    assert_int_equal(stage->record.status, HTH_STATUS_CLIENT_GONE);
    assert_int_equal(hth_kept_streams_n(stage->kept), 0);
    expect(stage, "GET", "id0", 404, "no stream 'id0'");
    stage_free(stage);
}

TEST(an_ended_stream_is_forgotten)
{
    relay_stage *stage = stage_new(/* keep_ms= */ 50, 1 << 20);

    exchange_whole(stage);
    assert_string_equal(hth_buffer_text(&stage->reply.body), numbered);
    hth_test_http_until(&stage->http, hth_kept_streams_n(stage->kept) == 0);
    stage_free(stage);
}

TEST(beyond_the_bound_of_all_the_oldest_that_ended_goes)
{
    relay_stage *stage = stage_new(KEEP_MS, 2 * (uint64_t)(BYTES_MAX + 100));

    exchange_whole(stage);
    begin_and_leave(stage); /* runs */
    worker_start(&stage->supervisor);
    hth_test_http_until(&stage->http, stage->n_over == 2);
    exchange_whole(stage);
    assert_string_equal(hth_buffer_text(&stage->reply.body), numbered);
    assert_int_equal(hth_kept_streams_n(stage->kept), 2);
    expect(stage, "GET", "id0", 404, "no stream 'id0'");
    expect(stage, "GET", "id1", 200, numbered);
    expect(stage, "GET", "id2", 200, numbered);
    stage_free(stage);
}

TEST(who_keeps_many_streams_drives_out_its_own)
{
    relay_stage *stage = stage_new(KEEP_MS, 3 * (uint64_t)(BYTES_MAX + 100));

    stage->is_other = true;
    exchange_whole(stage); /* id0: the oldest, of somebody else */
    stage->is_other = false;
    for (int i = 0; i < 4; i++)
        exchange_whole(stage);
    assert_int_equal(hth_kept_streams_n(stage->kept), 3);
    expect(stage, "GET", "id0?stranger=1", 200, numbered);
    expect(stage, "GET", "id2", 404, "no stream 'id2'");
    expect(stage, "GET", "id3", 200, numbered);
    expect(stage, "GET", "id4", 200, numbered);
    stage->is_other = true; /* has one, and may have as many as the others */
    exchange_whole(stage);
    expect(stage, "GET", "id0?stranger=1", 200, numbered);
    expect(stage, "GET", "id5?stranger=1", 200, numbered);
    expect(stage, "GET", "id3", 404, "no stream 'id3'");
    stage_free(stage);
}

TEST(where_all_run_a_new_one_is_not_kept)
{
    relay_stage *stage = stage_new(KEEP_MS, BYTES_MAX + 100);
    hth_test_client client;

    make_many();
    stage->script = &many;
    stage->supervisor.fate = FATE_GONE;
    stage->runs[0].cut = 700;
    client_ask(&client, stage, "{\"a\":1}");
    (void)hth_test_client_hear(&client, "id: 1\n");
    hth_test_client_close(&client);
    worker_start(&stage->supervisor); /* the first one goes on, until it is full */
    hth_test_http_until(&stage->http, stage->n_runs == 2);
    stage->script = &story;
    client_ask(&client, stage, "{\"a\":1}");
    client_hear(&client, &stage->reply);
    assert_int_equal(stage->reply.status, 200);
    assert_null(strstr(client.heard, "x-hearth-stream"));
    assert_string_equal(hth_buffer_text(&stage->reply.body), "data: one\n\nevent: e\ndata: two\n\ndata: three\n\n");
    hth_test_client_close(&client);
    drop(stage, "id0");
    stage_free(stage);
}

/* ---- other ends ---- */

TEST(who_does_not_want_it_any_more_says_so)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);

    begin_and_leave(stage);
    drop(stage, "id0");
    hth_test_http_until(&stage->http, stage->n_over == 1);
    assert_int_equal(stage->record.status, HTH_STATUS_CLIENT_GONE);
    expect(stage, "DELETE", "id0", 404, "no stream 'id0'");
    stage_free(stage);
}

TEST(an_error_ends_it_as_its_last_event)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    begin_and_leave(stage);
    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "the server stops");
    hth_proxy_end_all(stage->proxy, &error);
    hth_test_http_until(&stage->http, stage->n_over == 1);
    fetch(stage, "GET", "id0?after=1", &stage->reply);
    assert_int_equal(stage->reply.status, 200);
    if (!strstr(hth_buffer_text(&stage->reply.body), "id: 2\ndata: {\"error\":"))
        fail_msg("it ends with: %s", hth_buffer_text(&stage->reply.body));
    stage_free(stage);
}

/* ---- streams of other nodes ---- */

static void on_nothing(void *user_data)
{
    (void)user_data;
}

static hth_kept_stream *take_stream(relay_stage *stage)
{
    const hth_kept_writer writer = { .on_room = on_nothing, .on_given_up = on_nothing };
    hth_kept_stream *stream = hth_kept_stream_new(stage->kept, HTH_KEPT_EVENTS, "taken", relay_stage_key, 0, &writer);

    assert_non_null(stream);
    hth_kept_stream_note_taken(stream);
    assert_true(hth_kept_stream_write(stream, "data: one\n\n", 11));
    return stream;
}

TEST(a_reader_that_is_ahead_gets_what_follows)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);
    hth_kept_stream *stream = take_stream(stage);
    hth_test_client client;

    ask(stage, &client, "GET", "taken?after=3");
    hth_test_http_until(&stage->http, (client_reply_read(&client, &stage->reply), stage->reply.status > 0));
    assert_int_equal(stage->reply.status, 200);
    for (int i = 0; i < 4; i++)
        assert_true(hth_kept_stream_write(stream, "data: x\n\n", 9));
    hth_kept_stream_end(stream, true);
    client_hear(&client, &stage->reply);
    assert_string_equal(hth_buffer_text(&stage->reply.body), "id: 4\ndata: x\n\nid: 5\ndata: x\n\n");
    hth_test_client_close(&client);
    expect(stage, "GET", "taken?after=6", 400, "has come to event 5");
    stage_free(stage);
}

TEST(a_stream_that_went_away_is_not_found_any_more)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);
    hth_kept_stream *stream = take_stream(stage);
    hth_test_client client;

    ask(stage, &client, "GET", "taken");
    (void)hth_test_client_hear(&client, "data: one\n\n");
    hth_kept_stream_discard(stream);
    hth_test_http_until(&stage->http, hth_http_server_numbers(stage->server).n_connections == 0);
    hth_test_client_close(&client);
    expect(stage, "GET", "taken", 404, "there is no stream");
    stage_free(stage);
}

TEST(a_stream_that_ended_elsewhere_is_read_from_anywhere)
{
    relay_stage *stage = stage_new(KEEP_MS, 1 << 20);
    hth_buffer events = { .text = NULL };

    hth_buffer_add_text(&events, "data: one\n\ndata: two\n\n");
    assert_true(hth_kept_stream_add_ended(stage->kept, "text/event-stream", "over", relay_stage_key, &events));
    expect(stage, "GET", "over?after=1", 200, "id: 2\ndata: two\n\n");
    expect(stage, "GET", "over", 200, "id: 1\ndata: one\n\nid: 2\ndata: two\n\n");
    assert_true(hth_kept_stream_add_ended(stage->kept, "text/event-stream", "over", relay_stage_key, &events));
    assert_int_equal(hth_kept_streams_n(stage->kept), 1);
    hth_buffer_deinit(&events);
    stage_free(stage);
}
