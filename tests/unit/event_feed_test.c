/*
 * event_feed_test.c - operators hear events in order, come back, and are told of lost ones
 */
#include "supervisor/event_feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/http_stage.h"
#include "support/support.h"

enum { LONG_BYTES = 64 << 10 };

typedef struct fixture {
    hth_test_http http;
    hth_event_feed *feed;
    int n_snapshots;
    hth_api_error error;
} fixture;

static json_t *snapshot(void *user_data)
{
    fixture *f = user_data;

    return json_pack("{s:i}", "state", ++f->n_snapshots);
}

static void set_up(fixture *f)
{
    const hth_http_options options = hth_http_options_default();
    hearth_error err;

    hth_test_http_open(&f->http, &options);
    assert_ok(hth_event_feed_new(f->http.base, snapshot, f, &f->feed, &err), err);
}

static void tear_down(fixture *f)
{
    hth_test_http_close(&f->http);
    hth_event_feed_free(f->feed);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

/* A client whose exchange waits for the feed. */
static void ask(fixture *f, hth_test_client *client, const char *last_id)
{
    const int n_handled = f->http.n_handled;
    char head[256], header[128] = "";

    if (last_id)
        (void)snprintf(header, sizeof(header), "Last-Event-ID: %s\r\n", last_id);
    (void)snprintf(head, sizeof(head), "GET /hold HTTP/1.1\r\nHost: h\r\n%s\r\n", header);
    hth_test_client_open(client, &f->http);
    hth_test_client_say(client, head);
    hth_test_http_until(&f->http, f->http.n_handled > n_handled);
}

static void listen_from(fixture *f, hth_test_client *client, const char *last_id)
{
    ask(f, client, last_id);
    assert_true(hth_event_feed_listen(f->feed, f->http.held, &f->error));
}

/* A new listener that has its snapshot. */
static void listen_anew(fixture *f, hth_test_client *client)
{
    listen_from(f, client, NULL);
    (void)hth_test_client_hear(client, "event: snapshot\n");
    (void)hth_test_client_hear(client, "}\n\n");
}

static void tell(fixture *f, const char *name, int number)
{
    hth_event_feed_tell_take(f->feed, name, json_pack("{s:i}", "number", number));
}

/* A copy of the id that was heard last. */
static char *last_id_of(const hth_test_client *client)
{
    const char *at = client->heard, *next;
    char *id;

    while ((next = strstr(at, "id: ")))
        at = next + strlen("id: ");
    id = strndup(at, strcspn(at, "\n"));
    assert_non_null(id);
    return id;
}

FIXTURE_TEST(a_listener_gets_a_snapshot_and_then_each_event_in_order)
{
    hth_test_client client;

    tell(f, "before", 1);
    listen_from(f, &client, NULL);
    (void)hth_test_client_hear(&client, "data: {\"state\":1,\"time\":\"20");
    tell(f, "load", 2);
    tell(f, "ready", 3);
    (void)hth_test_client_hear(&client, "-2\nevent: load\ndata: {\"number\":2,\"time\":\"20");
    (void)hth_test_client_hear(&client, "-3\nevent: ready\ndata: {\"number\":3,");
    assert_non_null(strstr(client.heard, "text/event-stream"));
    assert_non_null(strstr(client.heard, "-1\nevent: snapshot\n"));
    assert_null(strstr(client.heard, "event: before"));
    hth_test_client_close(&client);
}

FIXTURE_TEST(a_listener_that_comes_back_gets_the_events_that_it_missed)
{
    hth_test_client client, again;
    char *id;

    listen_anew(f, &client);
    tell(f, "load", 1);
    (void)hth_test_client_hear(&client, "event: load");
    id = last_id_of(&client);
    hth_test_client_close(&client);
    tell(f, "ready", 2);
    listen_from(f, &again, id);
    (void)hth_test_client_hear(&again, "event: ready\ndata: {\"number\":2,");
    assert_null(strstr(again.heard, "event: load"));
    assert_null(strstr(again.heard, "event: snapshot"));
    assert_int_equal(f->n_snapshots, 1);
    hth_test_client_close(&again);
    free(id);
}

FIXTURE_TEST(an_id_of_another_server_or_of_the_future_counts_as_none)
{
    static const char *const ids[] = { "", "x", "7", "00000000-1", "-1" };
    hth_test_client client;
    char *id, future[64];

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        listen_from(f, &client, ids[i]);
        (void)hth_test_client_hear(&client, "event: snapshot\n");
        id = last_id_of(&client);
        hth_test_client_close(&client);
        (void)snprintf(future, sizeof(future), "%.8s-5", id);
        listen_from(f, &client, future);
        (void)hth_test_client_hear(&client, "event: snapshot\n");
        hth_test_client_close(&client);
        free(id);
    }
}

FIXTURE_TEST(events_that_left_the_ring_are_counted_and_a_snapshot_takes_their_place)
{
    hth_test_client client;
    char *id;

    listen_anew(f, &client);
    id = last_id_of(&client);
    hth_test_client_close(&client);
    for (int i = 1; i <= HTH_EVENT_FEED_RING; i++)
        tell(f, "load", i);
    listen_from(f, &client, id);
    (void)hth_test_client_hear(&client, "\"number\":256,"); /* all are there still */
    assert_null(strstr(client.heard, "event: lost"));
    assert_non_null(strstr(client.heard, "\"number\":1,"));
    hth_test_client_close(&client);
    tell(f, "load", HTH_EVENT_FEED_RING + 1);
    listen_from(f, &client, id);
    (void)hth_test_client_hear(&client, "event: lost\ndata: {\"events\":257}\n\n");
    assert_true(!strstr(client.heard, "id: ") || strstr(client.heard, "id: ") > strstr(client.heard, "event: lost"));
    (void)hth_test_client_hear(&client, "-257\nevent: snapshot\ndata: {\"state\":2,");
    tell(f, "ready", 0);
    (void)hth_test_client_hear(&client, "-258\nevent: ready\n");
    hth_test_client_close(&client);
    free(id);
}

FIXTURE_TEST(a_slow_listener_loses_events_while_others_get_all)
{
    hth_test_client slow, quick;
    char *text = malloc(LONG_BYTES);
    unsigned long long n_lost = 0;

    assert_non_null(text);
    memset(text, 'x', LONG_BYTES);
    listen_anew(f, &slow);
    listen_anew(f, &quick);
    for (int i = 0; i < 2 * HTH_EVENT_FEED_RING; i++) {
        char end[32];

        hth_event_feed_tell_take(f->feed, "big", json_pack("{s:s#, s:i}", "text", text, (int)LONG_BYTES, "number", i));
        (void)snprintf(end, sizeof(end), "\"number\":%d,", i);
        (void)hth_test_client_hear(&quick, end);
        hth_test_client_forget(&quick);
    }
    (void)hth_test_client_hear(&slow, "event: lost\ndata: {\"events\":");
    tell(f, "ready", 0);
    (void)hth_test_client_hear(&slow, "event: ready");
    assert_int_equal(sscanf(strstr(slow.heard, "{\"events\":"), "{\"events\":%llu}", &n_lost), 1);
    assert_true(n_lost > HTH_EVENT_FEED_RING && n_lost < 2ULL * HTH_EVENT_FEED_RING);
    assert_int_equal(f->n_snapshots, 3);
    hth_test_client_close(&slow);
    hth_test_client_close(&quick);
    free(text);
}

FIXTURE_TEST(silence_is_filled_with_comments)
{
    hth_test_client client;

    hth_event_feed_set_heartbeat(f->feed, 1);
    listen_from(f, &client, NULL);
    for (int i = 0; i < 3; i++)
        (void)hth_test_client_hear(&client, "\r\n:\n\n\r\n");
    hth_event_feed_set_heartbeat(f->feed, 0);
    hth_test_client_close(&client);
}

FIXTURE_TEST(there_is_a_limit_of_listeners_and_those_who_left_do_not_count)
{
    hth_test_client clients[HTH_EVENT_FEED_LISTENERS_MAX], late;

    for (int i = 0; i < HTH_EVENT_FEED_LISTENERS_MAX; i++)
        listen_from(f, &clients[i], NULL);
    ask(f, &late, NULL);
    assert_false(hth_event_feed_listen(f->feed, f->http.held, &f->error));
    assert_non_null(strstr(f->error.message, "8 clients listen to events already"));
    hth_test_client_close(&clients[0]);
    hth_test_http_until(&f->http, hth_event_feed_listen(f->feed, f->http.held, &f->error));
    (void)hth_test_client_hear(&late, "event: snapshot\n");
    tell(f, "load", 1);
    (void)hth_test_client_hear(&late, "event: load");
    hth_test_client_close(&late);
    for (int i = 1; i < HTH_EVENT_FEED_LISTENERS_MAX; i++)
        hth_test_client_close(&clients[i]);
}

FIXTURE_TEST(at_the_end_streams_end_with_the_last_event)
{
    hth_test_client client, late;

    listen_anew(f, &client);
    tell(f, "unload", 1);
    hth_event_feed_end(f->feed);
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    assert_non_null(strstr(client.heard, "event: unload"));
    tell(f, "later", 2);
    ask(f, &late, NULL);
    assert_false(hth_event_feed_listen(f->feed, f->http.held, &f->error));
    assert_non_null(strstr(f->error.message, "shutting down"));
    hth_http_abort(f->http.held);
    hth_test_client_close(&late);
    hth_test_client_close(&client);
}

FIXTURE_TEST(without_a_feed_and_without_memory_nothing_is_told)
{
    hth_event_feed_tell_take(NULL, "load", json_object());
    hth_event_feed_tell_take(f->feed, "load", NULL);
}
