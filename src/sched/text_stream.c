/*
 * text_stream.c - two stages: bytes become characters, then stop texts are searched
 *
 * `held` has valid text that may begin a stop text, then up to three bytes of an unfinished character. The search
 * compares every stop text at every position, because `held` is short and stop texts are few.
 */
#include "sched/text_stream.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/utf8.h"

struct hth_text_stream {
    const char *const *stop; /* [n_stop] */
    size_t *stop_bytes;      /* their lengths; 0: ignored */
    size_t n_stop;
    char *held; /* bytes not released yet */
    size_t n_held;
    size_t n_text; /* leading bytes of held that are whole characters */
    size_t capacity;
    char *out; /* the text that the last call released */
    size_t out_capacity;
    bool stopped;
    size_t stopped_by; /* the index of the stop text */
};

hth_text_stream *hth_text_stream_new(const char *const *stop, size_t n_stop)
{
    hth_text_stream *stream = calloc(1, sizeof(*stream));

    if (!stream)
        return NULL;
    stream->stop = stop;
    stream->n_stop = n_stop;
    stream->stop_bytes = calloc(n_stop + 1, sizeof(*stream->stop_bytes));
    if (!stream->stop_bytes) {
        free(stream);
        return NULL;
    }
    for (size_t i = 0; i < n_stop; i++)
        stream->stop_bytes[i] = strlen(stop[i]);
    return stream;
}

void hth_text_stream_free(hth_text_stream *stream)
{
    if (!stream)
        return;
    free(stream->stop_bytes);
    free(stream->held);
    free(stream->out);
    free(stream);
}

static bool reserve(char **buffer, size_t *capacity, size_t needed)
{
    char *grown = hth_grown_by(*buffer, 0, needed, capacity, 1);

    if (grown)
        *buffer = grown;
    return grown != NULL;
}

/*
 * Append bytes to held: whole characters, replacements for invalid bytes, then an unfinished character. The caller has
 * made sure that held has room for a replacement of every byte.
 */
static void settle_characters(hth_text_stream *stream, const char *bytes, size_t n_bytes)
{
    /* At most 3 bytes wait. They are read from a copy, because replacements may overwrite them in held. */
    char waiting[4];
    size_t n_waiting = stream->n_held - stream->n_text;
    size_t at = 0;

    memcpy(waiting, stream->held + stream->n_text, n_waiting);
    while (at < n_waiting + n_bytes) {
        char window[4];
        size_t n = 0;
        int length;

        for (; n < sizeof(window) && at + n < n_waiting + n_bytes; n++)
            window[n] = at + n < n_waiting ? waiting[at + n] : bytes[at + n - n_waiting];
        length = hth_utf8_character(window, n);
        if (length == 0) {
            memcpy(stream->held + stream->n_text, window, n);
            stream->n_held = stream->n_text + n;
            return;
        }
        if (length < 0) {
            memcpy(stream->held + stream->n_text, HTH_UTF8_REPLACEMENT, 3);
            stream->n_text += 3;
            at++;
        } else {
            memcpy(stream->held + stream->n_text, window, (size_t)length);
            stream->n_text += (size_t)length;
            at += (size_t)length;
        }
    }
    stream->n_held = stream->n_text;
}

/* Position of the first whole stop text, and its index; n_text: none. */
static size_t find_stop(const hth_text_stream *stream, size_t *which_out)
{
    for (size_t at = 0; at < stream->n_text; at++)
        for (size_t i = 0; i < stream->n_stop; i++) {
            size_t n = stream->stop_bytes[i];

            if (n > 0 && n <= stream->n_text - at && memcmp(stream->held + at, stream->stop[i], n) == 0) {
                *which_out = i;
                return at;
            }
        }
    return stream->n_text;
}

/* Position of the first unfinished stop text; n_text: none. */
static size_t find_beginning(const hth_text_stream *stream)
{
    for (size_t at = 0; at < stream->n_text; at++)
        for (size_t i = 0; i < stream->n_stop; i++) {
            size_t rest = stream->n_text - at;

            if (stream->stop_bytes[i] > rest && memcmp(stream->held + at, stream->stop[i], rest) == 0)
                return at;
        }
    return stream->n_text;
}

static void release(hth_text_stream *stream, size_t n, const char **text_out, size_t *n_out)
{
    memcpy(stream->out, stream->held, n);
    stream->out[n] = '\0';
    memmove(stream->held, stream->held + n, stream->n_held - n);
    stream->n_held -= n;
    stream->n_text -= n;
    *text_out = stream->out;
    *n_out = n;
}

bool hth_text_stream_feed(hth_text_stream *stream, const char *bytes, size_t n_bytes, const char **text_out,
                          size_t *n_out, bool *stopped_out)
{
    size_t needed = stream->n_held + 3 * (n_bytes + 4); /* every byte may become a replacement of three */
    size_t stop;

    if (!reserve(&stream->held, &stream->capacity, needed) || !reserve(&stream->out, &stream->out_capacity, needed + 1))
        return false;
    assert(stream->held);
    assert(stream->out);
    if (!stream->stopped) {
        settle_characters(stream, bytes, n_bytes);
        stop = find_stop(stream, &stream->stopped_by);
        if (stop < stream->n_text) {
            stream->stopped = true;
            stream->n_held = stream->n_text = stop;
        }
    }
    *stopped_out = stream->stopped;
    release(stream, stream->stopped ? stream->n_text : find_beginning(stream), text_out, n_out);
    return true;
}

size_t hth_text_stream_stop(const hth_text_stream *stream)
{
    assert(stream->stopped);
    return stream->stopped_by;
}

bool hth_text_stream_finish(hth_text_stream *stream, const char **text_out, size_t *n_out)
{
    size_t n_waiting = stream->n_held - stream->n_text;

    if (!reserve(&stream->held, &stream->capacity, stream->n_text + 3) ||
        !reserve(&stream->out, &stream->out_capacity, stream->n_text + 4))
        return false;
    if (n_waiting > 0) {
        memcpy(stream->held + stream->n_text, HTH_UTF8_REPLACEMENT, 3);
        stream->n_text += 3;
        stream->n_held = stream->n_text;
    }
    release(stream, stream->n_text, text_out, n_out);
    return true;
}

/* ---- one token ---- */

static void append(char text[HTH_TOKEN_TEXT_BYTES], const char *more)
{
    size_t n = strlen(text);

    if (snprintf(text + n, HTH_TOKEN_TEXT_BYTES - n, "%s", more) >= (int)(HTH_TOKEN_TEXT_BYTES - n))
        hth_end_at_character(text, HTH_TOKEN_TEXT_BYTES);
}

void hth_token_text(const hth_backend *backend, const hth_engine_model *model, hearth_token token,
                    char text[HTH_TOKEN_TEXT_BYTES])
{
    hth_text_stream *stream = hth_text_stream_new(NULL, 0);
    char piece[HTH_PIECE_BYTES_MAX];
    const char *released;
    size_t n_piece = 0, n_released;
    bool stopped;

    text[0] = '\0';
    if (stream && backend->piece(model, token, true, piece, sizeof(piece), &n_piece, NULL) == HEARTH_OK &&
        hth_text_stream_feed(stream, piece, n_piece, &released, &n_released, &stopped)) {
        append(text, released);
        if (hth_text_stream_finish(stream, &released, &n_released))
            append(text, released);
    }
    hth_text_stream_free(stream);
}
