/*
 * kept_streams.h - streams of events that outlive the connections of their readers
 *
 *   RUNNING  the writer adds events, with or without a reader
 *   ENDED    the stream is complete
 *
 * A client can ask to keep its stream. The writer then adds events here, and they go on to the reader: first the client
 * that began the stream, later any client that asks for its id with the same key. Each event gets a number from 1 on,
 * as a line "id: N". In a stream of lines, each line is an event, and its number is that of the line. There is one
 * reader at a time. A new reader replaces the old one, whose connection may have died unnoticed.
 *
 * Memory and time are bounded. A stream keeps its last bytes_max bytes. Events that were read are dropped first;
 * without a reader, the writer waits when the memory is full. After keep_ms without a reader, a running stream is
 * abandoned and an ended one is dropped. There are at most total_bytes_max / bytes_max streams. A new stream replaces
 * the oldest ended one of the key that holds the most bytes. It replaces no stream of another key if its own key would
 * then hold more than that one.
 *
 * An event that was written to a connection may never have arrived. So events stay as long as there is room, and a
 * reader that reconnects names the last event that it has. Event loop only.
 */
#ifndef HTH_FRONT_KEPT_STREAMS_H
#define HTH_FRONT_KEPT_STREAMS_H

#include "api/error.h"
#include "http/http.h"
#include "supervisor/server_options.h"

struct event_base;

typedef struct hth_kept_streams hth_kept_streams;
typedef struct hth_kept_stream hth_kept_stream;

enum { HTH_KEPT_ID_BYTES = 41, HTH_KEPT_KEY_BYTES = 32 };

/* The request header that asks for a kept stream, and the reply header with the stream's id. */
#define HTH_HEADER_RESUME "x-hearth-resume"
#define HTH_HEADER_STREAM "x-hearth-stream"

typedef enum hth_kept_form {
    HTH_KEPT_EVENTS, /* server-sent events */
    HTH_KEPT_LINES,  /* lines of JSON (api/sse.h) */
} hth_kept_form;

/* The writer of a stream. Callbacks come from the event loop, until hth_kept_stream_end. */
typedef struct hth_kept_writer {
    void (*on_room)(void *user_data); /* the stream has room again */
    void (*on_given_up)(
        void *user_data); /* there was no reader: the stream is gone, and must be neither written nor ended */
    void *user_data;
} hth_kept_writer;

hearth_status hth_kept_streams_new(struct event_base *base, const hth_kept_options *options, hth_kept_streams **out,
                                   hearth_error *err);
/* No stream may have a writer or a reader (asserted). Accepts NULL. */
void hth_kept_streams_free(hth_kept_streams *streams);
/* The new keep_ms applies to all streams, the rest to new ones. */
void hth_kept_streams_set_options(hth_kept_streams *streams, const hth_kept_options *options);
size_t hth_kept_streams_n(const hth_kept_streams *streams);

/* ---- the writer ---- */

/*
 * Is there room for one more stream of this key, if its writer keeps n_bytes besides? Ended streams may be dropped for
 * it.
 */
bool hth_kept_streams_have_room(hth_kept_streams *streams, const uint8_t *key, size_t n_bytes);
/*
 * Make a stream without a reader. id: unguessable letters and digits, shorter than HTH_KEPT_ID_BYTES; key:
 * [HTH_KEPT_KEY_BYTES], which its readers must have. NULL: no stream can be kept now, or no memory.
 */
hth_kept_stream *hth_kept_stream_new(hth_kept_streams *streams, hth_kept_form form, const char *id, const uint8_t *key,
                                     size_t n_bytes, const hth_kept_writer *writer);
/* Set the first reader, whose reply has begun. The stream owns the exchange, which may have ended when this returns. */
void hth_kept_stream_take_reader(hth_kept_stream *stream, hth_http_exchange *exchange);
/*
 * Add bytes of events, in pieces of any size. Comments, and spaces between lines, go to the current reader only. False
 * without memory.
 */
bool hth_kept_stream_write(hth_kept_stream *stream, const void *bytes, size_t n);
/* Must the writer wait for on_room? */
bool hth_kept_stream_is_full(const hth_kept_stream *stream);
/* The writer has finished. is_whole false: the reader's connection is cut to show that the end is missing. */
void hth_kept_stream_end(hth_kept_stream *stream, bool is_whole);

/*
 * Add a stream that began at another node and has ended, unless it is here: its events, whose form content_type names.
 * False: none can be kept now, or no memory.
 */
bool hth_kept_stream_add_ended(hth_kept_streams *streams, const char *content_type, const char *id, const uint8_t *key,
                               const hth_buffer *events);
/* The writer has finished, and so has this stream: its reader's connection is cut, and it is not found any more. */
void hth_kept_stream_discard(hth_kept_stream *stream);
/*
 * The stream began at another node, which may have sent some events more than this one knows: a reader that has them
 * gets those that follow.
 */
void hth_kept_stream_note_taken(hth_kept_stream *stream);

/* ---- readers ---- */

/* Does the request ask for its stream to be kept? */
bool hth_kept_is_wanted(const hth_http_exchange *exchange);
/* Write an unguessable id to out: 32 hexadecimal digits, terminated. */
void hth_kept_id_draw(char out[HTH_KEPT_ID_BYTES]);

/*
 * GET /v1/streams/ID: reply with the stream of this id, after the event that the query ("after") or the header
 * Last-Event-ID names, else from its beginning. key, [HTH_KEPT_KEY_BYTES], is the client's. True: the stream owns the
 * exchange. False with error: the caller must answer it. A stream of another key gets the same answer as a missing one.
 */
bool hth_kept_streams_read(hth_kept_streams *streams, hth_http_exchange *exchange, const char *id, const uint8_t *key,
                           hth_api_error *error);
/* DELETE: drop a stream. Its writer's on_given_up is called, and its reader's connection ends. False with error. */
bool hth_kept_streams_drop(hth_kept_streams *streams, const char *id, const uint8_t *key, hth_api_error *error);

#endif
