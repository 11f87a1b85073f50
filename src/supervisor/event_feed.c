/*
 * Event n is in ring[n % HTH_EVENT_FEED_RING]. A listener wants a snapshot, or the event at its place. An event is
 * written in the turn of the loop after the one that reported it, because the state of a model may be changing then.
 */
#include "supervisor/event_feed.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/sse.h"
#include "base/os.h"
#include "base/status.h"
#include "wire/log_line.h"

typedef struct listener {
    hth_event_feed *feed;
    hth_http_exchange *exchange; /* NULL: the seat is free */
    uint64_t place;              /* number of its next event */
    bool wants_snapshot;
    bool has_lost; /* events from its place on were lost */
} listener;

struct hth_event_feed {
    hth_event_snapshot_fn snapshot;
    void *user_data;
    struct event *wake;
    struct event *heartbeat;
    listener listeners[HTH_EVENT_FEED_LISTENERS_MAX];
    uint64_t last; /* number of the last event; 0: none yet */
    hth_buffer ring[HTH_EVENT_FEED_RING];
    char prefix[16]; /* of ids */
    bool has_ended;
};

/* ---- writing ---- */

/* Release value as an event with this id. */
static void write_event(const hth_event_feed *feed, hth_buffer *out, uint64_t id, const char *name, json_t *value)
{
    hth_buffer_add_format(out, "id: %s-%" PRIu64 "\n", feed->prefix, id);
    hth_sse_add_take(out, name, value);
}

static void add_time(json_t *value)
{
    hth_line line = { .n = 0 };

    hth_line_add_time(&line, false);
    if (line.n > 0)
        (void)json_object_set_new(value, "time", json_stringn(line.text, line.n)); /* omitted without memory */
}

/* Write "lost", if the listener lost events, and a snapshot. False without memory: a later pump tries again. */
static bool write_snapshot(listener *l, hth_buffer *out)
{
    const hth_event_feed *feed = l->feed;
    json_t *value = feed->snapshot(feed->user_data);

    if (l->has_lost) /* without an id: a client that reconnects before it got the snapshot gets both */
        hth_sse_add_take(out, "lost", json_pack("{s:I}", "events", (json_int_t)(feed->last + 1 - l->place)));
    if (value)
        add_time(value);
    write_event(feed, out, feed->last, "snapshot", value);
    if (out->failed)
        return false;
    l->has_lost = false;
    l->wants_snapshot = false;
    l->place = feed->last + 1;
    return true;
}

/* Write as many events as the connection of the listener, if there is one, accepts. */
static void pump(listener *l)
{
    const hth_event_feed *feed = l->feed;

    while (l->exchange && (l->wants_snapshot || l->place <= feed->last) &&
           hth_http_stream_backlog(l->exchange) < HTH_HTTP_BACKLOG_MAX) {
        if (!l->wants_snapshot && feed->last - l->place >= HTH_EVENT_FEED_RING) {
            l->has_lost = true;
            l->wants_snapshot = true;
        }
        if (l->wants_snapshot) {
            hth_buffer out = { .text = NULL };
            const bool is_whole = write_snapshot(l, &out);

            if (is_whole)
                hth_http_stream_write(l->exchange, out.text, out.n);
            hth_buffer_deinit(&out);
            if (!is_whole)
                return;
        } else {
            const hth_buffer *event = &feed->ring[l->place++ % HTH_EVENT_FEED_RING];

            hth_http_stream_write(l->exchange, event->text, event->n);
        }
    }
}

static void pump_all(hth_event_feed *feed)
{
    for (size_t i = 0; i < HTH_EVENT_FEED_LISTENERS_MAX; i++)
        pump(&feed->listeners[i]);
}

static void on_wake(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    pump_all(user_data);
}

static void on_heartbeat(evutil_socket_t fd, short what, void *user_data)
{
    hth_event_feed *feed = user_data;
    hth_buffer comment = { .text = NULL };

    (void)fd;
    (void)what;
    hth_sse_add_comment(&comment, "");
    for (size_t i = 0; i < HTH_EVENT_FEED_LISTENERS_MAX && !comment.failed; i++) {
        hth_http_exchange *exchange = feed->listeners[i].exchange;

        if (exchange && hth_http_stream_backlog(exchange) == 0)
            hth_http_stream_write(exchange, comment.text, comment.n);
    }
    hth_buffer_deinit(&comment);
    pump_all(feed); /* for snapshots that failed for lack of memory */
}

/* ---- listeners ---- */

static void on_close(void *user_data)
{
    listener *l = user_data;

    l->exchange = NULL;
}

static void on_room(void *user_data)
{
    pump(user_data);
}

/* The number in an id of this feed. False: the id is another feed's, or its event does not exist yet. */
static bool read_id(const hth_event_feed *feed, const char *id, uint64_t *out)
{
    const size_t n_prefix = strlen(feed->prefix);
    char *end;

    if (!id || strncmp(id, feed->prefix, n_prefix) != 0 || id[n_prefix] != '-' || id[n_prefix + 1] < '0' ||
        id[n_prefix + 1] > '9')
        return false;
    *out = strtoull(id + n_prefix + 1, &end, 10);
    return !*end && *out <= feed->last;
}

bool hth_event_feed_listen(hth_event_feed *feed, hth_http_exchange *exchange, hth_api_error *error)
{
    listener *l = feed->listeners;
    uint64_t seen = 0;

    while (l < feed->listeners + HTH_EVENT_FEED_LISTENERS_MAX && l->exchange)
        l++;
    if (feed->has_ended) {
        hth_api_fail(error, HTH_API_OVERLOADED, NULL, "the server is shutting down");
        return false;
    }
    if (l == feed->listeners + HTH_EVENT_FEED_LISTENERS_MAX) {
        hth_api_fail(error, HTH_API_OVERLOADED, NULL,
                     "%d clients listen to events already, and no more may; close one of them",
                     HTH_EVENT_FEED_LISTENERS_MAX);
        return false;
    }
    *l = (listener){ .feed = feed, .exchange = exchange };
    l->wants_snapshot = !read_id(feed, hth_http_header(exchange, "Last-Event-ID"), &seen);
    l->place = seen + 1;
    hth_http_header_add(exchange, "Cache-Control", "no-cache");
    hth_http_header_add(exchange, "X-Accel-Buffering", "no");
    hth_http_watch_set(exchange, &(hth_http_watch){ .on_close = on_close, .on_room = on_room, .user_data = l });
    hth_http_stream_begin(exchange, 200, HTH_SSE_CONTENT_TYPE);
    event_active(feed->wake, EV_TIMEOUT, 0);
    return true;
}

void hth_event_feed_end(hth_event_feed *feed)
{
    feed->has_ended = true;
    pump_all(feed);
    for (size_t i = 0; i < HTH_EVENT_FEED_LISTENERS_MAX; i++) {
        hth_http_exchange *exchange = feed->listeners[i].exchange;

        feed->listeners[i].exchange = NULL;
        if (exchange)
            hth_http_stream_end(exchange);
    }
}

/* ---- the feed ---- */

void hth_event_feed_tell_take(hth_event_feed *feed, const char *name, json_t *value)
{
    hth_buffer out = { .text = NULL };

    if (!feed || !value) {
        json_decref(value);
        return;
    }
    add_time(value);
    write_event(feed, &out, feed->last + 1, name, value);
    if (out.failed) {
        hth_buffer_deinit(&out);
        return;
    }
    feed->last++;
    hth_buffer_deinit(&feed->ring[feed->last % HTH_EVENT_FEED_RING]);
    feed->ring[feed->last % HTH_EVENT_FEED_RING] = out;
    event_active(feed->wake, EV_TIMEOUT, 0);
}

void hth_event_feed_set_heartbeat(hth_event_feed *feed, uint32_t ms)
{
    const struct timeval interval = { .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000 };

    (void)event_del(feed->heartbeat); /* cannot fail here */
    if (ms > 0)
        (void)event_add(feed->heartbeat, &interval); /* without memory there are no heartbeats */
}

hearth_status hth_event_feed_new(struct event_base *base, hth_event_snapshot_fn snapshot, void *user_data,
                                 hth_event_feed **out, hearth_error *err)
{
    hth_event_feed *feed = calloc(1, sizeof(*feed));
    uint32_t random;

    if (!feed)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the events of operators");
    hth_os_random(&random, sizeof(random));
    (void)snprintf(feed->prefix, sizeof(feed->prefix), "%08" PRIx32, random); /* fits */
    feed->snapshot = snapshot;
    feed->user_data = user_data;
    feed->wake = event_new(base, -1, 0, on_wake, feed);
    feed->heartbeat = event_new(base, -1, EV_PERSIST, on_heartbeat, feed);
    if (!feed->wake || !feed->heartbeat) {
        hth_event_feed_free(feed);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the events of operators");
    }
    *out = feed;
    return HEARTH_OK;
}

void hth_event_feed_free(hth_event_feed *feed)
{
    if (!feed)
        return;
    if (feed->wake)
        event_free(feed->wake);
    if (feed->heartbeat)
        event_free(feed->heartbeat);
    for (size_t i = 0; i < HTH_EVENT_FEED_RING; i++)
        hth_buffer_deinit(&feed->ring[i]);
    free(feed);
}
