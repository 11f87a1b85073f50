/*
 * front_stream.h - GET and DELETE /v1/streams/ID: read on, or abandon, a kept stream
 */
#ifndef HTH_FRONT_FRONT_STREAM_H
#define HTH_FRONT_FRONT_STREAM_H

#include "api/error.h"
#include "front/kept_streams.h"

/* Does the request ask for its stream to be kept? */
bool hth_front_wants_kept(const hth_http_exchange *exchange);
/* Write an unguessable id to out: 32 hexadecimal digits, terminated. */
void hth_front_stream_id(char out[HTH_KEPT_ID_BYTES]);

/*
 * Reply with the stream of this id, after the event that the query ("after") or the header Last-Event-ID names, else
 * from its beginning. key, [HTH_KEPT_KEY_BYTES], is the client's. True: the exchange is taken over. False: error is
 * filled.
 */
bool hth_front_stream_read(hth_kept_streams *kept, hth_http_exchange *exchange, const char *id, const uint8_t *key,
                           hth_api_error *error);
/* Abandon the stream: its writer ends, too. False: error is filled. The caller must answer the exchange. */
bool hth_front_stream_drop(hth_kept_streams *kept, const char *id, const uint8_t *key, hth_api_error *error);

#endif
