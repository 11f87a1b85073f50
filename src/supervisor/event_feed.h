/*
 * event_feed.h - /admin/events: the server's events for operators, as server-sent events
 *
 * The feed keeps the last events in a ring. A listener has a position in the ring and gets the next events whenever its
 * connection accepts more bytes. So a slow listener delays no other one, and costs at most the backlog of its
 * connection and one snapshot. If its next event has left the ring, it gets the number of lost events.
 *
 *   1. A new listener gets the event "snapshot": the state of all models. Its id is that of the last event before it.
 *   2. A listener that reconnects sends the id of the last event that it saw, and gets the later ones without a
 *      snapshot.
 *   3. Where events are lost, "lost" with their number and another snapshot take their place. "lost" has no id.
 *
 * A part of each id differs with every start of the server. An id from another server counts as no id. Event loop only.
 */
#ifndef HTH_SUPERVISOR_EVENT_FEED_H
#define HTH_SUPERVISOR_EVENT_FEED_H

#include <jansson.h>

#include "api/error.h"
#include "http/http.h"

struct event_base;

typedef struct hth_event_feed hth_event_feed;

enum { HTH_EVENT_FEED_RING = 256, HTH_EVENT_FEED_LISTENERS_MAX = 8 };

/*
 * The state of all models, a new object; NULL without memory. Called from the event loop, never within
 * hth_event_feed_tell_take.
 */
typedef json_t *(*hth_event_snapshot_fn)(void *user_data);

hearth_status hth_event_feed_new(struct event_base *base, hth_event_snapshot_fn snapshot, void *user_data,
                                 hth_event_feed **out, hearth_error *err);
/* After the end of all exchanges. Accepts NULL. */
void hth_event_feed_free(hth_event_feed *feed);
/* Listeners without a backlog get a comment after each such interval; 0: never. */
void hth_event_feed_set_heartbeat(hth_event_feed *feed, uint32_t ms);

/*
 * Send an event to all listeners, and release value, an object, to which "time" is added. The event is sent in a later
 * turn of the event loop. feed NULL: there are no listeners. value NULL: there was no memory, and no event is sent. An
 * event that cannot be stored for lack of memory reaches no listener.
 */
void hth_event_feed_tell_take(hth_event_feed *feed, const char *name, json_t *value);

/* Reply with the events, from the header Last-Event-ID on. True: the exchange is taken over. False: error is filled. */
bool hth_event_feed_listen(hth_event_feed *feed, hth_http_exchange *exchange, hth_api_error *error);
/*
 * The server ends: each stream ends after the events that its connection still accepts. hth_event_feed_listen refuses
 * from now on.
 */
void hth_event_feed_end(hth_event_feed *feed);

#endif
