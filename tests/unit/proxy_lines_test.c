/*
 * proxy_lines_test.c - streams that are lines of JSON on their way through the proxy
 *
 * What is told between lines, to keep a connection alive or to end it, has to be a line of its own or nothing at all
 * for who reads it.
 */
#include "support/relay_tests.h"

#include <jansson.h>
#include <string.h>

#include "api/sse.h"

static const script_step steps[] = {
    { .tokens = { 1 }, .n_tokens = 1, .bytes = "{\"a\":1}\n" },
    { .tokens = { 2, 3 }, .n_tokens = 2, .bytes = "" },
    { .tokens = { 4 }, .n_tokens = 1, .bytes = "{\"a\":2}\n{\"a\":3}\n" },
    { .tokens = { 5 }, .n_tokens = 1, .bytes = "{\"a\":4}\n" },
    { .has_ended = true, .bytes = "{\"done\":true}\n" },
};
static const char text[] = "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n{\"a\":4}\n{\"done\":true}\n";
static const reply_script lines = { .status = 200,
                                    .is_stream = true,
                                    .content_type = HTH_NDJSON_CONTENT_TYPE,
                                    .steps = steps,
                                    .n_steps = sizeof(steps) / sizeof(steps[0]) };

static void lines_setup(relay_stage *stage)
{
    relay_stage_open(stage);
    stage->dialect = HTH_API_OLLAMA;
}

#define LINES_TEST(name) TEST_WITH(relay_stage, stage, name, lines_setup, relay_stage_close)

/* The same without the space that readers do not see; every line has to be JSON as it came. */
static void read_lines(const char *body, hth_buffer *out)
{
    while (*body) {
        size_t n = strcspn(body, "\n");
        json_t *value = json_loadb(body, n, 0, NULL);

        if (!value || body[n] != '\n')
            fail_msg("'%.*s' is no line", (int)n, body);
        json_decref(value);
        while (*body == ' ') {
            body++;
            n--;
        }
        hth_buffer_add(out, body, n + 1);
        body += n + 1;
    }
}

LINES_TEST(a_stream_of_lines_is_one)
{
    hth_test_client client;

    begin_with(stage, &lines);
    client_ask(&client, stage, "{}");
    client_hear(&client, &stage->reply);
    assert_string_equal(hth_buffer_text(&stage->reply.body), text);
    assert_non_null(strstr(client.heard, "Content-Type: application/x-ndjson\r\n"));
    assert_non_null(strstr(client.heard, "X-Accel-Buffering: no\r\n"));
    assert_true(stage->record.is_stream);
    hth_test_client_close(&client);
}

LINES_TEST(a_silent_stream_of_lines_gets_space)
{
    hth_test_client client;
    hth_buffer read = { .text = NULL };

    stage->options.limits.keep_alive_ms = 20;
    set_options(stage);
    begin_with(stage, &lines);
    stage->supervisor.fate = FATE_GONE;
    stage->runs[0].cut = 300;
    client_ask(&client, stage, "{}");
    (void)hth_test_client_hear(&client, "\r\n1\r\n \r\n1\r\n \r\n"); /* two of them */
    worker_start(&stage->supervisor);
    client_hear(&client, &stage->reply);
    read_lines(hth_buffer_text(&stage->reply.body), &read);
    assert_string_equal(hth_buffer_text(&read), text);
    hth_test_client_close(&client);
    hth_buffer_deinit(&read);
}

LINES_TEST(an_error_is_the_last_line)
{
    for (int silent = 0; silent < 2; silent++) {
        hth_api_error error = { .kind = HTH_API_OVERLOADED, .message = "the server stops" };
        hth_buffer read = { .text = NULL };
        hth_test_client client;

        stage->options.limits.keep_alive_ms = silent ? 20 : 60000;
        set_options(stage);
        begin_with(stage, &lines);
        stage->supervisor.fate = FATE_GONE;
        stage->runs[0].cut = 300;
        client_ask(&client, stage, "{}");
        (void)hth_test_client_hear(&client, silent ? "\r\n1\r\n \r\n" : "{\"a\":1}\n");
        hth_proxy_end_all(stage->proxy, &error);
        client_hear(&client, &stage->reply);
        assert_true(stage->reply.is_whole);
        read_lines(hth_buffer_text(&stage->reply.body), &read);
        assert_int_equal(strncmp(read.text, "{\"a\":1}\n", 8), 0);
        assert_string_equal(strstr(read.text, "{\"error\""), "{\"error\":\"the server stops\"}\n");
        assert_int_equal(stage->record.status, 503);
        hth_test_client_close(&client);
        hth_buffer_deinit(&read);
    }
}

LINES_TEST(why_no_worker_goes_on_is_told)
{
    const char *error;

    stage->supervisor.handler = refuse_later;
    begin_with(stage, &lines);
    stage->runs[0].cut = 300;
    exchange_whole(stage);
    error = strstr(hth_buffer_text(&stage->reply.body), "\n{\"error\":\"");
    assert_non_null(error);
    assert_non_null(strstr(error, "too many wait"));
}

/* The whole of a reply that has no tokens, as that to a request without messages. */
static void answer_at_once(fake_connection *connection, const fake_request *request, void *user_data)
{
    static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 29\r\n\r\n"
                                "{\"done\":true,\"reason\":\"load\"}";

    (void)note_run(user_data, request);
    fake_write(connection, reply, sizeof(reply) - 1);
}

LINES_TEST(a_whole_reply_behind_an_early_beginning_is_the_only_line)
{
    hth_buffer read = { .text = NULL };
    hth_test_client client;

    stage->wants_events = true;
    stage->options.limits.keep_alive_ms = 20;
    set_options(stage);
    stage->supervisor.handler = answer_at_once;
    client_ask(&client, stage, "{}");
    (void)hth_test_client_hear(&client, "\r\n1\r\n \r\n"); /* no worker is there yet */
    worker_start(&stage->supervisor);
    client_hear(&client, &stage->reply);
    assert_int_equal(stage->reply.status, 200);
    assert_true(stage->reply.is_whole);
    read_lines(hth_buffer_text(&stage->reply.body), &read);
    assert_string_equal(hth_buffer_text(&read), "{\"done\":true,\"reason\":\"load\"}\n");
    hth_test_http_until(&stage->http, stage->n_over == 1);
    assert_int_equal(stage->record.status, 200);
    hth_test_client_close(&client);
    hth_buffer_deinit(&read);
}
