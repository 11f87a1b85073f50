/*
 * http_reply.c - see http_reply.h
 */
#include "http_reply.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CHUNK_LINE_MAX = 1024 };

static const char event_begin[] = "data:";

void http_reply_begin(http_reply *reply)
{
    /* Not the whole struct, which is large. */
    reply->part = HTTP_REPLY_HEAD;
    reply->status = 0;
    reply->closes = false;
    reply->n_left = 0;
    reply->n_line = 0;
    reply->n_matched = 0;
    reply->n_events = 0;
    memset(reply->event_ns, 0, sizeof(reply->event_ns));
    reply->first_ns = 0;
    reply->body_bytes = 0;
    reply->n_head = 0;
    reply->n_kept = 0;
}

static void complete(http_reply *reply)
{
    reply->body[reply->n_kept] = '\0';
    reply->part = HTTP_REPLY_COMPLETE;
}

/* Is this line of the head the field with this value's beginning? Names and values in any case. */
static bool has_value(const char *line, const char *name, const char *value)
{
    size_t n_name = strlen(name);

    if (strncasecmp(line, name, n_name) != 0 || line[n_name] != ':')
        return false;
    line += n_name + 1;
    line += strspn(line, " \t");
    return strncasecmp(line, value, strlen(value)) == 0;
}

/* The head is complete: what body follows? */
static void read_head(http_reply *reply)
{
    bool is_chunked = false, has_length = false;

    reply->head[reply->n_head] = '\0';
    if (strncmp(reply->head, "HTTP/1.", 7) != 0 || reply->n_head < 12) {
        reply->part = HTTP_REPLY_BROKEN;
        return;
    }
    reply->closes = reply->head[7] == '0';
    reply->status = (int)strtol(reply->head + 8, NULL, 10);
    for (const char *line = strstr(reply->head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (has_value(line, "content-length", "")) {
            has_length = true;
            reply->n_left = strtoull(line + strlen("content-length:"), NULL, 10);
        } else if (has_value(line, "transfer-encoding", "chunked")) {
            is_chunked = true;
        } else if (has_value(line, "connection", "close")) {
            reply->closes = true;
        }
    }
    if (is_chunked)
        reply->part = HTTP_REPLY_CHUNK_SIZE;
    else if (reply->status / 100 == 1) /* another head follows */
        http_reply_begin(reply);
    else if (reply->status == 204 || reply->status == 304 || (has_length && reply->n_left == 0))
        complete(reply);
    else
        reply->part = has_length ? HTTP_REPLY_BODY : HTTP_REPLY_TO_END;
}

/* Bytes of the head, up to the empty line. Returns how many were taken. */
static size_t take_head(http_reply *reply, const char *bytes, size_t n)
{
    size_t room = HTTP_REPLY_HEAD_MAX - reply->n_head;
    size_t n_new = n < room ? n : room;
    size_t from = reply->n_head > 3 ? reply->n_head - 3 : 0; /* the end may have begun before */
    const char *end;

    memcpy(reply->head + reply->n_head, bytes, n_new);
    reply->head[reply->n_head + n_new] = '\0';
    end = strstr(reply->head + from, "\r\n\r\n");
    if (!end) {
        reply->n_head += n_new;
        if (n_new == room)
            reply->part = HTTP_REPLY_BROKEN;
        return n_new;
    }
    n_new = (size_t)(end - reply->head) + 4 - reply->n_head;
    reply->n_head += n_new;
    read_head(reply);
    return n_new;
}

static void note_event(http_reply *reply, uint64_t now_ns)
{
    if (reply->n_events < HTTP_REPLY_EVENTS_TIMED)
        reply->event_ns[reply->n_events] = now_ns;
    reply->n_events++;
}

/* Bytes of the body. n_matched is SIZE_MAX within a line that is no event. */
static void take_body(http_reply *reply, const char *bytes, size_t n, uint64_t now_ns)
{
    size_t room = HTTP_REPLY_BODY_KEPT - reply->n_kept;
    const char *end = bytes + n;

    memcpy(reply->body + reply->n_kept, bytes, n < room ? n : room);
    reply->n_kept += n < room ? n : room;
    reply->body_bytes += n;
    while (bytes < end) {
        const char *line_end;

        while (bytes < end && reply->n_matched < sizeof(event_begin) - 1 && *bytes == event_begin[reply->n_matched]) {
            reply->n_matched++;
            bytes++;
        }
        if (bytes == end && reply->n_matched < sizeof(event_begin) - 1)
            return;
        if (reply->n_matched == sizeof(event_begin) - 1)
            note_event(reply, now_ns);
        reply->n_matched = SIZE_MAX;
        line_end = bytes < end ? memchr(bytes, '\n', (size_t)(end - bytes)) : NULL;
        if (!line_end)
            return;
        bytes = line_end + 1;
        reply->n_matched = 0;
    }
}

/* A byte of a line that says how long the next chunk is. */
static void take_chunk_size(http_reply *reply, char byte)
{
    int digit;

    if (byte == '\n') {
        reply->n_line = 0;
        reply->part = reply->n_left > 0 ? HTTP_REPLY_CHUNK : HTTP_REPLY_TRAILER;
        return;
    }
    digit = byte >= '0' && byte <= '9' ? byte - '0'
          : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
          : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                       : -1;
    if (digit >= 0 && reply->n_line < 16)
        reply->n_left = reply->n_left * 16 + (uint64_t)digit;
    else if (reply->n_line < 16 && (byte == '\r' || byte == ';'))
        reply->n_line = 16; /* the rest of the line says nothing */
    else if (reply->n_line < 16)
        reply->part = HTTP_REPLY_BROKEN;
    if (++reply->n_line > CHUNK_LINE_MAX)
        reply->part = HTTP_REPLY_BROKEN;
}

static void take_trailer(http_reply *reply, char byte)
{
    if (byte == '\n') {
        if (reply->n_line == 0)
            complete(reply);
        reply->n_line = 0;
    } else if (byte != '\r') {
        reply->n_line++;
    }
}

size_t http_reply_feed(http_reply *reply, const char *bytes, size_t n, uint64_t now_ns)
{
    size_t at = 0;

    if (n > 0 && reply->first_ns == 0)
        reply->first_ns = now_ns;
    while (at < n) {
        size_t n_now = n - at;

        switch (reply->part) {
        case HTTP_REPLY_HEAD: at += take_head(reply, bytes + at, n_now); break;
        case HTTP_REPLY_TO_END:
            take_body(reply, bytes + at, n_now, now_ns);
            at = n;
            break;
        case HTTP_REPLY_BODY:
        case HTTP_REPLY_CHUNK:
            n_now = n_now < reply->n_left ? n_now : (size_t)reply->n_left;
            take_body(reply, bytes + at, n_now, now_ns);
            at += n_now;
            reply->n_left -= n_now;
            if (reply->n_left == 0 && reply->part == HTTP_REPLY_BODY)
                complete(reply);
            else if (reply->n_left == 0)
                reply->part = HTTP_REPLY_CHUNK_END;
            break;
        case HTTP_REPLY_CHUNK_END:
            if (bytes[at++] == '\n')
                reply->part = HTTP_REPLY_CHUNK_SIZE;
            break;
        case HTTP_REPLY_CHUNK_SIZE: take_chunk_size(reply, bytes[at++]); break;
        case HTTP_REPLY_TRAILER: take_trailer(reply, bytes[at++]); break;
        case HTTP_REPLY_COMPLETE:
        case HTTP_REPLY_BROKEN: return at;
        }
    }
    return at;
}

void http_reply_end(http_reply *reply)
{
    if (reply->part == HTTP_REPLY_TO_END)
        complete(reply);
    else if (reply->part != HTTP_REPLY_COMPLETE)
        reply->part = HTTP_REPLY_BROKEN;
}
