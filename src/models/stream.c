/*
 * stream.c - a reply that is read at the reader's pace
 *
 * A stream stands between the scheduler's thread, which appends text as it is generated and may not wait, and one
 * reader, who takes it out and may be slow. What waits is bounded by asking the scheduler to pause the request, not by
 * blocking its thread:
 *
 *   flowing --(buffer_bytes or more wait)--> paused --(half of that or less wait)--> flowing
 *
 * A few tokens may arrive after the pause was asked for, so the buffer grows where it must. Both changes are made under
 * the stream's lock, together with the call of hearth_pause: otherwise a reader that resumes could be overtaken by the
 * pause that it answers, and the request would stand still for ever. So the stream's lock is taken before the model's
 * and the scheduler's, which hold no lock of their own while they call back.
 *
 * The stream holds a reference of its model, and ends only after on_done, which is the last that the scheduler says.
 */
#include <stdlib.h>
#include <string.h>

#include "base/deadline.h"
#include "models/given.h"
#include "models/model_inside.h"
#include "sched/result.h"

enum { BUFFER_BYTES_DEFAULT = 64 << 10, BUFFER_BYTES_FIRST = 256, CHARACTER_BYTES_MAX = 4 };

struct hearth_stream {
    /* Fixed once it is open. */
    hearth_model *model; /* a reference */
    uint64_t request_id;
    size_t buffer_bytes;

    /* Guards the fields below. */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* text came, or the reply ended */
    char *bytes;            /* [capacity]; [begin, end) waits for the reader and consists of whole characters */
    size_t begin;
    size_t end;
    size_t capacity;
    bool is_paused;
    bool is_done;                /* on_done was called; result is known */
    bool is_told;                /* the reader knows */
    bool lost_text;              /* no memory for text that came: the reply is not whole */
    const hearth_result *result; /* a reference; NULL before the end */
};

/* ---- the scheduler's side ---------------------------------------------------------------------------------------- */

/* Make room for n more bytes behind the end; false when there is no memory. */
static bool reserve_locked(hearth_stream *stream, size_t n)
{
    size_t n_waiting = stream->end - stream->begin;
    size_t capacity = stream->capacity;
    char *grown;

    if (stream->capacity - stream->end >= n)
        return true;
    if (n_waiting > 0 && stream->begin > 0)
        memmove(stream->bytes, stream->bytes + stream->begin, n_waiting);
    stream->begin = 0;
    stream->end = n_waiting;
    if (stream->capacity - n_waiting >= n)
        return true;
    while (capacity - n_waiting < n)
        capacity *= 2; /* of text in memory, so far from the end of size_t */
    grown = realloc(stream->bytes, capacity);
    if (!grown)
        return false;
    stream->bytes = grown;
    stream->capacity = capacity;
    return true;
}

static bool append(uint64_t request_id, const char *text, size_t n_bytes, void *user_data)
{
    hearth_stream *stream = user_data;
    bool fits;

    pthread_mutex_lock(&stream->lock);
    fits = reserve_locked(stream, n_bytes);
    if (fits) {
        memcpy(stream->bytes + stream->end, text, n_bytes);
        stream->end += n_bytes;
    } else {
        stream->lost_text = true;
    }
    if (fits && !stream->is_paused && stream->end - stream->begin >= stream->buffer_bytes)
        stream->is_paused = hearth_pause(stream->model, request_id, true, NULL) == HEARTH_OK;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return fits;
}

static void take_result(uint64_t request_id, const hearth_result *result, void *user_data)
{
    hearth_stream *stream = user_data;

    (void)request_id; /* there is one */
    pthread_mutex_lock(&stream->lock);
    if (stream->lost_text)
        hth_counted_result_fail(result, HEARTH_NO_MEMORY, "no memory for the text that waits to be read");
    stream->result = hearth_result_ref(result);
    stream->is_done = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock); /* the last touch: whoever closes the stream has waited for it */
}

/* ---- the reader's side ------------------------------------------------------------------------------------------- */

static void stream_free(hearth_stream *stream)
{
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
    hearth_result_unref(stream->result);
    free(stream->bytes);
    hearth_model_unref(stream->model);
    free(stream);
}

static hearth_status check_request(const hearth_request *request, hearth_error *err)
{
    if (request->on_text || request->on_progress || request->on_token || request->on_done)
        return hth_fail(err, HEARTH_MISUSE,
                        "the request of a stream has a callback; its text is read with hearth_stream_read, so set "
                        "on_text, on_token, on_progress and on_done to NULL");
    if (request->n != 1)
        return hth_fail(err, HEARTH_MISUSE, "n is %u; a stream has one reply, so n must be 1", request->n);
    return HEARTH_OK;
}

hearth_status hearth_stream_open(hearth_model *model, const hearth_request *request, size_t buffer_bytes,
                                 hearth_stream **out, hearth_error *err)
{
    hth_given_request given;
    hearth_request *inner = &given.request;
    hearth_stream *stream;
    hearth_status status;

    if (!model || !out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_stream_open: model or out is NULL");
    status = hth_given_request_read(request, &given, err);
    if (status == HEARTH_OK)
        status = check_request(inner, err);
    if (status != HEARTH_OK)
        return status;
    stream = calloc(1, sizeof(*stream));
    if (!stream)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a stream");
    stream->model = hearth_model_ref(model);
    stream->buffer_bytes = buffer_bytes ? buffer_bytes : BUFFER_BYTES_DEFAULT;
    stream->capacity = BUFFER_BYTES_FIRST;
    stream->bytes = malloc(stream->capacity);
    pthread_mutex_init(&stream->lock, NULL);
    hth_condition_init(&stream->changed);
    if (!stream->bytes) {
        stream_free(stream);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a stream");
    }

    inner->on_text = append;
    inner->on_done = take_result;
    inner->user_data = stream;
    status = hearth_submit(model, inner, &stream->request_id, err);
    if (status != HEARTH_OK) {
        stream_free(stream); /* no callback comes */
        return status;
    }
    *out = stream;
    return HEARTH_OK;
}

/* As many of the n bytes of whole characters as fit into capacity. */
static size_t whole_characters(const char *bytes, size_t n, size_t capacity)
{
    if (n <= capacity)
        return n;
    n = capacity;
    while (n > 0 && ((unsigned char)bytes[n] & 0xc0) == 0x80)
        n--;
    return n;
}

/* Text was taken out: go on, or at least tell that the reader is there. */
static void read_on_locked(hearth_stream *stream)
{
    bool waits = stream->end - stream->begin > stream->buffer_bytes / 2;

    if (!stream->is_paused || stream->is_done)
        return;
    /* Pausing again begins stalled_ms anew: a reader that is slow but reads is not cancelled. */
    (void)hearth_pause(stream->model, stream->request_id, waits, NULL); /* not found: it has just ended */
    stream->is_paused = waits;
}

hearth_status hearth_stream_read(hearth_stream *stream, char *bytes, size_t capacity, uint32_t timeout_ms,
                                 size_t *n_out, hearth_error *err)
{
    struct timespec deadline = hth_deadline_after(timeout_ms);
    bool in_time = true;
    size_t n;

    if (!stream || !bytes || !n_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_stream_read: stream, bytes or n_out is NULL");
    if (capacity < CHARACTER_BYTES_MAX)
        return hth_fail(err, HEARTH_MISUSE,
                        "hearth_stream_read: capacity is %zu; it must be at least %d, one character", capacity,
                        CHARACTER_BYTES_MAX);
    pthread_mutex_lock(&stream->lock);
    while (stream->begin == stream->end && !stream->is_done && in_time)
        in_time = pthread_cond_timedwait(&stream->changed, &stream->lock, &deadline) == 0;
    n = whole_characters(stream->bytes + stream->begin, stream->end - stream->begin, capacity);
    if (n == 0 && !stream->is_done) {
        pthread_mutex_unlock(&stream->lock);
        return hth_fail(err, HEARTH_TIMED_OUT, "no text came within %u ms; the reply goes on", timeout_ms);
    }
    if (n > 0) {
        memcpy(bytes, stream->bytes + stream->begin, n);
        stream->begin += n;
        read_on_locked(stream);
    } else {
        stream->is_told = true;
    }
    pthread_mutex_unlock(&stream->lock);
    *n_out = n;
    return HEARTH_OK;
}

const hearth_result *hearth_stream_result(hearth_stream *stream)
{
    const hearth_result *result;

    if (!stream)
        return NULL;
    pthread_mutex_lock(&stream->lock);
    result = stream->is_told ? stream->result : NULL;
    pthread_mutex_unlock(&stream->lock);
    return result;
}

void hearth_stream_close(hearth_stream *stream)
{
    if (!stream)
        return;
    (void)hearth_cancel(stream->model, stream->request_id, NULL); /* not found: it has ended */
    pthread_mutex_lock(&stream->lock);
    while (!stream->is_done)
        pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
    stream_free(stream);
}
