/*
 * event_feed.h - /admin/events: the events of the server for operators, as server-sent events
 *
 * The feed keeps the last events in a ring. A listener has a place in the ring and gets the next events whenever its
 * connection takes more. So a slow listener holds nobody up, and costs at most the backlog of its connection and one
 * snapshot. When its next event has left the ring, it is told the number of lost events.
 *
 *   1. A new listener gets the event "snapshot": the state of all models. Its id is that of the last event before it.
 *   2. A listener that comes back names the id of the last event that it saw, and gets the later ones without a
 *      snapshot.
 *   3. Where events are lost, "lost" with their number and another snapshot take their place. "lost" has no id.
 *
 * An id has a part that differs with each start of the server; an id of another server counts as none. Event loop only.
 */
#ifndef HTH_SUPERVISOR_EVENT_FEED_H
#define HTH_SUPERVISOR_EVENT_FEED_H

#include <jansson.h>

#include "api/error.h"
#include "http/http.h"

struct event_base;

typedef struct hth_event_feed hth_event_feed;

enum { HTH_EVENT_FEED_RING = 256, HTH_EVENT_FEED_LISTENERS_MAX = 8 };

/* The state of all models, a new object; NULL without memory. Called from the event loop, never within a tell. */
typedef json_t *(*hth_event_snapshot_fn)(void *user_data);

hearth_status hth_event_feed_new(struct event_base *base, hth_event_snapshot_fn snapshot, void *user_data,
                                 hth_event_feed **out, hearth_error *err);
/* After the end of all exchanges. Accepts NULL. */
void hth_event_feed_free(hth_event_feed *feed);
/* Listeners without backlog get a comment after each such interval; 0: never. */
void hth_event_feed_set_heartbeat(hth_event_feed *feed, uint32_t ms);

/*
 * Tell all listeners an event and release value, an object, to which "time" is added. It leaves with a later turn of
 * the event loop. feed NULL: nobody listens. value NULL: there was no memory, and the event is not told. No listener
 * learns of an event that could not be kept for want of memory.
 */
void hth_event_feed_tell_take(hth_event_feed *feed, const char *name, json_t *value);

/* Reply with the events, from the header Last-Event-ID on. True: the exchange is taken over. False: error is filled. */
bool hth_event_feed_listen(hth_event_feed *feed, hth_http_exchange *exchange, hth_api_error *error);
/* The server ends: the streams end after the events that their connections still take. From now on _listen refuses. */
void hth_event_feed_end(hth_event_feed *feed);

#endif
