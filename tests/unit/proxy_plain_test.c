/*
 * proxy_plain_test.c - requests that generate nothing: the proxy passes their replies on as they are
 */
#include "support/relay_tests.h"

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

STAGED(what_generates_nothing_is_passed_on_as_it_is)
{
    hth_test_client client;

    stage->generates = false;
    stage->supervisor.handler = answer_plainly;
    begin_with(stage, &stream);
    client_ask(&client, stage, "{}");
    client_hear(&client, &stage->reply);
    assert_int_equal(stage->reply.status, 200);
    assert_string_equal(hth_buffer_text(&stage->reply.body), "{\"tokens\":1}");
    assert_non_null(strstr(client.heard, "Content-Type: application/json; charset=utf-8\r\n"));
    assert_null(strstr(stage->heads[0], HTH_HEADER_FRAMES));
    hth_test_client_close(&client);
}

STAGED(a_body_goes_with_post_only)
{
    static const char no_body[] = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n";
    static const char *const methods[] = { "GET", "HEAD" };

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

STAGED(what_generates_nothing_is_asked_for_again_where_it_breaks)
{
    stage->generates = false;
    stage->supervisor.handler = answer_plainly;
    for (size_t cut = 1; cut < sizeof(plain_reply) - 1; cut++) {
        begin_with(stage, &stream);
        stage->runs[0].cut = cut;
        exchange_whole(stage);
        assert_int_equal(stage->n_runs, 2);
        assert_int_equal(stage->reply.status, 200);
        assert_string_equal(hth_buffer_text(&stage->reply.body), "{\"tokens\":1}");
    }
}

/* Its worker may have done it, and the next one knows nothing of what it was about. */
STAGED(what_may_be_done_once_only_is_not_asked_for_again)
{
    stage->generates = false;
    stage->is_once = true;
    stage->supervisor.handler = answer_plainly;
    for (size_t cut = 1; cut < sizeof(plain_reply) - 1; cut += 10) {
        begin_with(stage, &stream);
        stage->runs[0].cut = cut;
        exchange_whole(stage);
        assert_int_equal(stage->n_runs, 1);
        assert_int_equal(stage->reply.status, 500);
        assert_non_null(strstr(hth_buffer_text(&stage->reply.body), "not tried again"));
    }
    begin_with(stage, &stream);
    exchange_whole(stage);
    assert_int_equal(stage->reply.status, 200);
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

STAGED(a_large_reply_streams_and_a_part_of_it_is_seen_to_be_one)
{
    stage->generates = false;
    stage->supervisor.handler = answer_plainly;
    begin_with(stage, &stream);
    large_exchange(stage, &stage->reply);
    assert_true(stage->reply.is_whole);
    assert_int_equal(stage->reply.body.n, LARGE_BYTES);
    assert_int_equal(stage->record.status, 200);
    begin_with(stage, &stream);
    stage->runs[0].cut = LARGE_BYTES / 2;
    large_exchange(stage, &stage->reply);
    assert_false(stage->reply.is_whole);
    assert_int_equal(stage->n_runs, 1);
    assert_int_equal(stage->record.status, 502);
    begin_with(stage, &stream);
    stage->runs[0].cut = LARGE_BYTES / 16; /* nothing has left yet */
    large_exchange(stage, &stage->reply);
    assert_true(stage->reply.is_whole);
    assert_int_equal(stage->n_runs, 2);
}

STAGED(a_worker_that_answers_without_frames_is_believed)
{
    stage->supervisor.handler = answer_plainly;
    begin_with(stage, &stream);
    exchange_whole(stage);
    assert_int_equal(stage->reply.status, 200);
    assert_string_equal(hth_buffer_text(&stage->reply.body), "{\"tokens\":1}");
    assert_false(stage->record.has_summary);
}

static void answer_with_no_status(fake_connection *connection, const fake_request *request, void *user_data)
{
    static const char large_status[] = "HTTP/1.1 999 Beyond\r\nContent-Length: 2\r\n\r\n{}";

    (void)note_run(user_data, request);
    fake_write(connection, large_status, sizeof(large_status) - 1);
}

STAGED(a_status_that_is_none_is_no_reply)
{
    stage->supervisor.handler = answer_with_no_status;
    stage->supervisor.fate = FATE_WELL;
    for (int generates = 0; generates < 2; generates++) {
        stage->generates = generates == 1;
        begin_with(stage, &stream);
        exchange_whole(stage);
        assert_int_equal(stage->reply.status, 500);
        assert_int_equal(stage->record.status, 500);
    }
}
