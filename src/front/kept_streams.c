/*
 * A stream's log holds its last events, whole ones. An event is preceded by an id line with its number, unless the
 * stream consists of lines. The reader has a position in the log and gets the next bytes whenever its connection takes
 * more. Bytes of an incomplete event wait apart.
 */
#include "front/kept_streams.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <openssl/crypto.h>
#include <uthash.h>
#include <utlist.h>

#include "api/sse.h"
#include "base/hex.h"
#include "base/os.h"
#include "base/status.h"

enum { TICK_MS_MIN = 10, TICK_MS_MAX = 1000, ID_RANDOM_BYTES = 16, DIGITS_MAX = 18 };

/* An owner of streams, by its key. It is freed with its last stream. */
typedef struct tenant {
    UT_hash_handle hh;
    uint8_t key[HTH_KEPT_KEY_BYTES];
    uint64_t reserved_bytes;
    size_t n;
} tenant;

struct hth_kept_stream {
    hth_kept_streams *streams;
    hth_kept_stream *prev, *next;
    char id[HTH_KEPT_ID_BYTES];
    tenant *tenant;
    hth_kept_form form;
    uint64_t bytes_max;
    bool has_writer; /* RUNNING */
    bool is_whole;   /* ENDED: well */
    hth_kept_writer writer;
    bool is_pumping;  /* the reader is being written to (pump) */
    hth_buffer log;   /* events first + 1 .. last */
    hth_buffer piece; /* of an incomplete event */
    uint64_t first;   /* number of the last dropped event */
    uint64_t last;
    hth_http_exchange *reader; /* NULL: none */
    size_t n_read;             /* bytes of the log that the reader has */
    bool is_taken;             /* it began at another node */
    uint64_t n_ahead;          /* number of the last event that the reader has, if it is later than last */
    uint64_t alone_ns;         /* the time since when it has no reader, or has ended */
};

struct hth_kept_streams {
    hth_kept_options options;
    hth_kept_stream *list; /* the oldest first */
    size_t n;
    tenant *tenants;
    uint64_t reserved_bytes; /* bytes_max of all streams, and the memory of their writers */
    struct event *tick;
};

/* ---- all streams ---- */

static void watch_time(hth_kept_streams *streams)
{
    uint32_t ms = streams->options.keep_ms / 4;
    struct timeval wait;

    ms = ms < TICK_MS_MIN ? TICK_MS_MIN : ms > TICK_MS_MAX ? TICK_MS_MAX : ms;
    wait = (struct timeval){ .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000 };
    if (streams->list && !event_pending(streams->tick, EV_TIMEOUT, NULL))
        (void)event_add(streams->tick, &wait); /* without memory, the next stream tries again */
}

static tenant *tenant_find(const hth_kept_streams *streams, const uint8_t *key)
{
    tenant *t;

    HASH_FIND(hh, streams->tenants, key, HTH_KEPT_KEY_BYTES, t);
    return t;
}

/* Count one more stream for a tenant. NULL: no memory. */
static tenant *tenant_enter(hth_kept_streams *streams, const uint8_t *key, uint64_t bytes)
{
    tenant *t = tenant_find(streams, key);

    if (!t) {
        t = calloc(1, sizeof(*t));
        if (!t)
            return NULL;
        memcpy(t->key, key, sizeof(t->key));
        HASH_ADD(hh, streams->tenants, key, sizeof(t->key), t);
    }
    t->reserved_bytes += bytes;
    t->n++;
    return t;
}

static void tenant_leave(hth_kept_streams *streams, tenant *t, uint64_t bytes)
{
    t->reserved_bytes -= bytes;
    if (--t->n > 0)
        return;
    HASH_DEL(streams->tenants, t);
    free(t);
}

static void stream_free(hth_kept_stream *stream)
{
    hth_kept_streams *streams = stream->streams;

    assert(!stream->has_writer && !stream->reader);
    DL_DELETE(streams->list, stream);
    streams->n--;
    streams->reserved_bytes -= stream->bytes_max;
    tenant_leave(streams, stream->tenant, stream->bytes_max);
    hth_buffer_deinit(&stream->log);
    hth_buffer_deinit(&stream->piece);
    free(stream);
}

/* Notify the writer that the rest is not wanted. */
static void give_up(hth_kept_stream *stream)
{
    if (!stream->has_writer)
        return;
    stream->has_writer = false;
    stream->writer.on_given_up(stream->writer.user_data);
}

static void on_tick(evutil_socket_t fd, short what, void *user_data)
{
    hth_kept_streams *streams = user_data;
    uint64_t now_ns = hth_os_monotonic_ns(), keep_ns = hth_ms_to_ns(streams->options.keep_ms);
    hth_kept_stream *stream, *next;

    (void)fd;
    (void)what;
    DL_FOREACH_SAFE(streams->list, stream, next)
    {
        if (stream->reader || now_ns - stream->alone_ns < keep_ns)
            continue;
        give_up(stream);
        stream_free(stream);
    }
    watch_time(streams);
}

hearth_status hth_kept_streams_new(struct event_base *base, const hth_kept_options *options, hth_kept_streams **out,
                                   hearth_error *err)
{
    hth_kept_streams *streams = calloc(1, sizeof(*streams));

    if (streams)
        streams->tick = event_new(base, -1, 0, on_tick, streams);
    if (!streams || !streams->tick) {
        free(streams);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for kept streams");
    }
    streams->options = *options;
    *out = streams;
    return HEARTH_OK;
}

void hth_kept_streams_free(hth_kept_streams *streams)
{
    if (!streams)
        return;
    while (streams->list)
        stream_free(streams->list);
    event_free(streams->tick);
    free(streams);
}

void hth_kept_streams_set_options(hth_kept_streams *streams, const hth_kept_options *options)
{
    streams->options = *options;
}

size_t hth_kept_streams_n(const hth_kept_streams *streams)
{
    return streams->n;
}

/* Comparing ids and keys takes constant time, which reveals nothing about them. */
static hth_kept_stream *find(hth_kept_streams *streams, const char *id, const uint8_t *key)
{
    hth_kept_stream *stream;

    DL_FOREACH(streams->list, stream)
    if (strlen(id) == strlen(stream->id) && CRYPTO_memcmp(id, stream->id, strlen(id)) == 0 &&
        CRYPTO_memcmp(key, stream->tenant->key, sizeof(stream->tenant->key)) == 0)
        return stream;
    return NULL;
}

/* ---- the reader ---- */

static void leave_reader(hth_kept_stream *stream)
{
    stream->reader = NULL;
    stream->alone_ns = hth_os_monotonic_ns();
}

/* The reader has everything: its reply ends. */
static void end_reader(hth_kept_stream *stream)
{
    hth_http_exchange *reader = stream->reader;

    leave_reader(stream);
    if (stream->is_whole)
        hth_http_stream_end(reader);
    else
        hth_http_abort(reader);
}

bool hth_kept_stream_is_full(const hth_kept_stream *stream)
{
    size_t n_unread = stream->log.n - stream->n_read;

    if (stream->reader)
        return n_unread + hth_http_stream_backlog(stream->reader) >= HTH_HTTP_BACKLOG_MAX;
    return stream->log.n >= stream->bytes_max;
}

/* Notify a waiting writer that there is room. */
static void tell_room(hth_kept_stream *stream)
{
    if (stream->has_writer && !hth_kept_stream_is_full(stream))
        stream->writer.on_room(stream->writer.user_data);
}

/* Send the reader as many bytes as its connection accepts. The reader may be gone, or complete, when this returns. */
static void pump(hth_kept_stream *stream)
{
    if (stream->is_pumping)
        return;
    stream->is_pumping = true;
    while (stream->reader && stream->n_read < stream->log.n &&
           hth_http_stream_backlog(stream->reader) < HTH_HTTP_BACKLOG_MAX) {
        size_t n = stream->log.n - stream->n_read, at = stream->n_read;

        n = n < HTH_HTTP_BACKLOG_MAX ? n : HTH_HTTP_BACKLOG_MAX;
        stream->n_read += n;
        hth_http_stream_write(stream->reader, stream->log.text + at, n);
    }
    if (stream->reader && !stream->has_writer && stream->n_read == stream->log.n)
        end_reader(stream);
    stream->is_pumping = false;
}

static void on_close(void *user_data)
{
    hth_kept_stream *stream = user_data;

    leave_reader(stream);
    tell_room(stream);
}

static void on_room(void *user_data)
{
    hth_kept_stream *stream = user_data;

    pump(stream);
    tell_room(stream);
}

void hth_kept_stream_take_reader(hth_kept_stream *stream, hth_http_exchange *exchange)
{
    hth_http_exchange *before = stream->reader;

    stream->reader = exchange;
    hth_http_watch_set(exchange, &(hth_http_watch){ .on_close = on_close, .on_room = on_room, .user_data = stream });
    if (before)
        hth_http_abort(before);
    pump(stream);
    tell_room(stream);
}

/* ---- the writer ---- */

/*
 * The stream to drop for a new one: the oldest that has ended and has no reader, of the tenant that holds the most.
 * Streams of other tenants stay if the newcomer would hold more than those do. NULL: none.
 */
static hth_kept_stream *to_leave(const hth_kept_streams *streams, const uint8_t *key, uint64_t bytes)
{
    const tenant *newcomer = tenant_find(streams, key);
    const uint64_t held = bytes + (newcomer ? newcomer->reserved_bytes : 0);
    hth_kept_stream *stream, *found = NULL;

    /* NOLINTBEGIN(clang-analyzer-unix.Malloc,clang-analyzer-core.NullDereference): each in the list has a tenant */
    DL_FOREACH(streams->list, stream)
    {
        if (stream->has_writer || stream->reader ||
            (stream->tenant != newcomer && stream->tenant->reserved_bytes < held))
            continue;
        if (!found || stream->tenant->reserved_bytes > found->tenant->reserved_bytes)
            found = stream;
    }
    /* NOLINTEND(clang-analyzer-unix.Malloc,clang-analyzer-core.NullDereference) */
    return found;
}

bool hth_kept_streams_have_room(hth_kept_streams *streams, const uint8_t *key, size_t n_bytes)
{
    const hth_kept_options *options = &streams->options;
    const uint64_t bytes = options->bytes_max + n_bytes;
    hth_kept_stream *stream;

    if (options->keep_ms == 0 || n_bytes > options->bytes_max)
        return false;
    while (streams->reserved_bytes + bytes > options->total_bytes_max && (stream = to_leave(streams, key, bytes)))
        stream_free(stream);
    return streams->reserved_bytes + bytes <= options->total_bytes_max;
}

hth_kept_stream *hth_kept_stream_new(hth_kept_streams *streams, hth_kept_form form, const char *id, const uint8_t *key,
                                     size_t n_bytes, const hth_kept_writer *writer)
{
    hth_kept_stream *stream;

    assert(strlen(id) < sizeof(stream->id));
    if (!hth_kept_streams_have_room(streams, key, n_bytes))
        return NULL;
    stream = calloc(1, sizeof(*stream));
    if (!stream)
        return NULL;
    stream->bytes_max = streams->options.bytes_max + n_bytes;
    stream->tenant = tenant_enter(streams, key, stream->bytes_max);
    if (!stream->tenant) {
        free(stream);
        return NULL;
    }
    stream->streams = streams;
    memcpy(stream->id, id, strlen(id) + 1);
    stream->form = form;
    stream->writer = *writer;
    stream->has_writer = true;
    stream->alone_ns = hth_os_monotonic_ns();
    streams->reserved_bytes += stream->bytes_max;
    DL_APPEND(streams->list, stream);
    streams->n++;
    watch_time(streams);
    return stream;
}

/* The end of the first event of a text; NULL: no event is complete. */
static const char *end_of_event(const hth_kept_stream *stream, const char *text, size_t n)
{
    const size_t n_end = stream->form == HTH_KEPT_LINES ? 1 : 2;
    const char *end = memmem(text, n, "\n\n", n_end);

    return end ? end + n_end : NULL;
}

/* Drop events that were read, to make room for new ones. */
static void trim(hth_kept_stream *stream)
{
    size_t wanted = stream->log.n - (size_t)(stream->bytes_max - stream->bytes_max / 4), n = 0;
    const char *end;

    while (n < wanted && (end = end_of_event(stream, stream->log.text + n, stream->log.n - n)) &&
           (size_t)(end - stream->log.text) <= stream->n_read) {
        n = (size_t)(end - stream->log.text);
        stream->first++;
    }
    memmove(stream->log.text, stream->log.text + n, stream->log.n - n);
    stream->log.n -= n;
    stream->n_read -= n;
}

/* Send a comment or a space, for the current reader only. It is not kept. */
static void tell_reader(hth_kept_stream *stream, const char *text, size_t n)
{
    if (stream->reader && stream->n_read == stream->log.n)
        hth_http_stream_write(stream->reader, text, n);
}

/* Add a complete event. */
static void add_event(hth_kept_stream *stream, const char *event, size_t n)
{
    char line[32] = "";

    if (stream->form == HTH_KEPT_EVENTS && event[0] == ':') {
        tell_reader(stream, event, n);
        return;
    }
    stream->last++;
    if (stream->form == HTH_KEPT_EVENTS)
        (void)snprintf(line, sizeof(line), "id: %" PRIu64 "\n", stream->last); /* fits */
    hth_buffer_add_text(&stream->log, line);
    hth_buffer_add(&stream->log, event, n);
    if (stream->last <= stream->n_ahead)
        stream->n_read = stream->log.n;
}

/* Is it a keep-alive space before the next line? */
static bool is_space(const hth_kept_stream *stream, const char *text, size_t n)
{
    size_t n_spaces = 0;

    if (stream->form != HTH_KEPT_LINES || stream->piece.n > 0)
        return false;
    while (n_spaces < n && text[n_spaces] == ' ')
        n_spaces++;
    return n_spaces == n;
}

bool hth_kept_stream_write(hth_kept_stream *stream, const void *bytes, size_t n)
{
    const char *end, *at;

    assert(stream->has_writer);
    if (is_space(stream, bytes, n)) {
        tell_reader(stream, bytes, n);
        return true;
    }
    hth_buffer_add(&stream->piece, bytes, n);
    if (stream->piece.failed)
        return false;
    at = stream->piece.text;
    n = stream->piece.n;
    while ((end = end_of_event(stream, at, n))) {
        add_event(stream, at, (size_t)(end - at));
        n -= (size_t)(end - at);
        at = end;
    }
    memmove(stream->piece.text, at, n);
    stream->piece.n = n;
    if (stream->log.failed)
        return false;
    pump(stream);
    if (stream->log.n > stream->bytes_max && stream->reader)
        trim(stream);
    return true;
}

void hth_kept_stream_end(hth_kept_stream *stream, bool is_whole)
{
    stream->has_writer = false;
    stream->is_whole = is_whole && stream->piece.n == 0;
    stream->alone_ns = hth_os_monotonic_ns();
    pump(stream);
}

/* Drop a stream that has no writer. */
static void drop(hth_kept_stream *stream)
{
    hth_http_exchange *reader = stream->reader;

    stream->reader = NULL;
    if (reader)
        hth_http_abort(reader);
    stream_free(stream);
}

void hth_kept_stream_discard(hth_kept_stream *stream)
{
    stream->has_writer = false;
    drop(stream);
}

bool hth_kept_stream_add_ended(hth_kept_streams *streams, const char *content_type, const char *id, const uint8_t *key,
                               const hth_buffer *events)
{
    static const hth_kept_writer nobody;
    const bool is_lines = strcmp(content_type, HTH_NDJSON_CONTENT_TYPE) == 0;
    hth_kept_stream *stream;

    if (find(streams, id, key))
        return true; /* two readers came at once */
    stream = hth_kept_stream_new(streams, is_lines ? HTH_KEPT_LINES : HTH_KEPT_EVENTS, id, key, 0, &nobody);
    if (!stream)
        return false;
    if (events->n == 0 || hth_kept_stream_write(stream, events->text, events->n)) {
        hth_kept_stream_end(stream, true);
        return true;
    }
    hth_kept_stream_discard(stream);
    return false;
}

void hth_kept_stream_note_taken(hth_kept_stream *stream)
{
    stream->is_taken = true;
}

/* ---- readers ---- */

bool hth_kept_is_wanted(const hth_http_exchange *exchange)
{
    const char *value = hth_http_header(exchange, HTH_HEADER_RESUME);

    return value && *value && strcmp(value, "0") != 0;
}

void hth_kept_id_draw(char out[HTH_KEPT_ID_BYTES])
{
    uint8_t random[ID_RANDOM_BYTES];

    static_assert(2 * sizeof(random) < HTH_KEPT_ID_BYTES, "it fits");
    hth_os_random(random, sizeof(random));
    hth_hex_encode(random, sizeof(random), out);
}

/* The position in the log where the event after this number begins. */
static size_t begin_of(const hth_kept_stream *stream, uint64_t after)
{
    const char *at = hth_buffer_text(&stream->log), *end = at + stream->log.n;

    for (uint64_t number = stream->first; number < after; number++) {
        at = end_of_event(stream, at, (size_t)(end - at));
        assert(at);
    }
    return (size_t)(at - hth_buffer_text(&stream->log));
}

/* The last event that the client has seen; 0: none. */
static bool read_after(hth_http_exchange *exchange, uint64_t *out, hth_api_error *error)
{
    const char *query = hth_http_query(exchange, "after");
    const char *text = query ? query : hth_http_header(exchange, "Last-Event-ID");
    size_t n = text ? strspn(text, "0123456789") : 0;

    *out = 0;
    if (!text || !*text)
        return true;
    if (text[n] || n > DIGITS_MAX) {
        hth_api_fail(error, HTH_API_INVALID_VALUE, "after",
                     "%s is '%.40s'; it must be the number of the last event that was seen, 0 for none",
                     query ? "'after'" : "Last-Event-ID", text);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        *out = 10 * *out + (uint64_t)(text[i] - '0');
    return true;
}

static bool fail_unknown(const char *id, hth_api_error *error)
{
    hth_api_fail(
        error, HTH_API_NOT_FOUND, NULL,
        "there is no stream '%.40s' for this key; streams are kept for requests with the header '" HTH_HEADER_RESUME
        ": 1', and for a while only",
        id);
    return false;
}

bool hth_kept_streams_read(hth_kept_streams *streams, hth_http_exchange *exchange, const char *id, const uint8_t *key,
                           hth_api_error *error)
{
    hth_kept_stream *stream;
    uint64_t after;

    if (!read_after(exchange, &after, error))
        return false;
    stream = find(streams, id, key);
    if (!stream)
        return fail_unknown(id, error);
    if (after < stream->first) {
        hth_api_fail(error, HTH_API_NOT_FOUND, "after",
                     "events up to number %" PRIu64 " of this stream are not kept any more; 'after' is %" PRIu64,
                     stream->first, after);
        error->status = 410;
        return false;
    }
    if (after > stream->last && !(stream->is_taken && stream->has_writer)) {
        hth_api_fail(error, HTH_API_INVALID_VALUE, "after",
                     "'after' is %" PRIu64 ", but this stream has come to event %" PRIu64 " only", after, stream->last);
        return false;
    }
    hth_http_header_add(exchange, HTH_HEADER_STREAM, stream->id);
    hth_http_header_add(exchange, "Cache-Control", "no-cache");
    hth_http_header_add(exchange, "X-Accel-Buffering", "no");
    hth_http_stream_begin(exchange, 200,
                          stream->form == HTH_KEPT_LINES ? HTH_NDJSON_CONTENT_TYPE : HTH_SSE_CONTENT_TYPE);
    stream->n_ahead = after;
    stream->n_read = begin_of(stream, after < stream->last ? after : stream->last);
    hth_kept_stream_take_reader(stream, exchange);
    return true;
}

bool hth_kept_streams_drop(hth_kept_streams *streams, const char *id, const uint8_t *key, hth_api_error *error)
{
    hth_kept_stream *stream = find(streams, id, key);

    if (!stream)
        return fail_unknown(id, error);
    give_up(stream);
    drop(stream);
    return true;
}
