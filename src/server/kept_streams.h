/*
 * kept_streams.h - streams of events that outlive the connections of those who read them
 *
 *   RUNNING  its writer adds to it, with or without a reader
 *   ENDED    all of it is here
 *
 * A stream whose client asked for that is written here, event after event, and from here to its reader: first to the
 * client that began it, later to whoever asks for it by its id and shows the same key. Each event gets a number, from 1 on,
 * as a line "id: N" of its own. Of a stream of lines each line is an event, whose number is that of the line. There is one reader at a time: who comes takes the place of the one before, whose connection
 * may be dead without anybody knowing.
 *
 * Everything is bounded. A stream keeps its last bytes_max bytes; what was read leaves first, and a writer without a reader
 * waits when they are full. A stream that nobody reads is given up after keep_ms, and an ended one forgotten. All together
 * are as many as total_bytes_max allows at bytes_max each; for a new one the oldest that has ended goes.
 *
 * What was read was handed to the connection, not necessarily received: so events are kept after that, as far as there is
 * room, and a reader that comes back says which one it has seen last. Event loop only.
 */
#ifndef HTH_SERVER_KEPT_STREAMS_H
#define HTH_SERVER_KEPT_STREAMS_H

#include "server/http.h"

struct event_base;

typedef struct hth_kept_streams hth_kept_streams;
typedef struct hth_kept_stream hth_kept_stream;

enum { HTH_KEPT_ID_BYTES = 41, HTH_KEPT_KEY_BYTES = 32 };

/* Header of a request whose stream is to be kept, and of the replies with its id. */
#define HTH_HEADER_RESUME "x-hearth-resume"
#define HTH_HEADER_STREAM "x-hearth-stream"

typedef struct hth_kept_options {
    uint32_t keep_ms;         /* without a reader, or after its end; 0: no stream is kept */
    uint64_t bytes_max;       /* of one stream */
    uint64_t total_bytes_max; /* of all */
} hth_kept_options;

typedef enum hth_kept_form {
    HTH_KEPT_EVENTS, /* server-sent events */
    HTH_KEPT_LINES,  /* of JSON, as api/ndjson.h has them */
} hth_kept_form;

/* Who writes a stream. Called from the event loop, until hth_kept_stream_end. */
typedef struct hth_kept_writer {
    void (*on_room)(void *user_data); /* it is not full any more */
    void (*on_given_up)(
        void *user_data); /* nobody came for it: nothing may be written any more, and it is not to be ended */
    void *user_data;
} hth_kept_writer;

hearth_status hth_kept_streams_new(struct event_base *base, const hth_kept_options *options, hth_kept_streams **out,
                                   hearth_error *err);
/* No stream has a writer or a reader any more (asserted). Accepts NULL. */
void hth_kept_streams_free(hth_kept_streams *streams);
/* For streams to come, and for how long those that are here are kept. */
void hth_kept_streams_set_options(hth_kept_streams *streams, const hth_kept_options *options);
size_t hth_kept_streams_n(const hth_kept_streams *streams);

/* ---- the writer ---- */

/* Is there room for one more, whose writer keeps n_bytes beside it? */
bool hth_kept_streams_have_room(hth_kept_streams *streams, size_t n_bytes);
/*
 * A new one. id: letters and digits, unguessable, of fewer than HTH_KEPT_ID_BYTES; key: [HTH_KEPT_KEY_BYTES], what its readers
 * have to show. NULL: none is kept, or no memory. It has no reader yet.
 */
hth_kept_stream *hth_kept_stream_new(hth_kept_streams *streams, hth_kept_form form, const char *id, const uint8_t *key,
                                     size_t n_bytes, const hth_kept_writer *writer);
/* Its first reader, whose reply has begun: taken over. The reader may be gone when this returns. */
void hth_kept_stream_take_reader(hth_kept_stream *stream, hth_http_exchange *exchange);
/* Add events: they may come in pieces. Comments, and spaces between lines, go to the reader alone. False without memory. */
bool hth_kept_stream_write(hth_kept_stream *stream, const void *bytes, size_t n);
/* Is the writer to wait for on_room? */
bool hth_kept_stream_is_full(const hth_kept_stream *stream);
/* The writer is done with it. is_whole false: nobody shall take it for a stream that has ended well. */
void hth_kept_stream_end(hth_kept_stream *stream, bool is_whole);

/* ---- who comes for it ---- */

typedef enum hth_kept_found {
    HTH_KEPT_FOUND,
    HTH_KEPT_UNKNOWN, /* there is none of this id for this key */
    HTH_KEPT_GONE,    /* there is, but events behind that one are not here any more */
    HTH_KEPT_TOO_FAR, /* it has not come to that event */
} hth_kept_found;

/*
 * Reply with what comes behind event number after. FOUND: the exchange is taken over. Otherwise it is the caller's to
 * answer; of GONE and TOO_FAR *limit_out is the first number that is possible, or the last.
 */
hth_kept_found hth_kept_streams_read(hth_kept_streams *streams, const char *id, const uint8_t *key, uint64_t after,
                                     hth_http_exchange *exchange, uint64_t *limit_out);
/* Nobody wants it any more: its writer is told, its reader's connection ends. False: UNKNOWN. */
bool hth_kept_streams_drop(hth_kept_streams *streams, const char *id, const uint8_t *key);

#endif
