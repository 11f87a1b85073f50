#include "http_client.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "http/http_head.h"
#include "report.h"

static const char event_begin[] = "data:";
enum { N_EVENT_BEGIN = sizeof(event_begin) - 1 };

int hth_dial(const char *path, uint16_t port)
{
    struct sockaddr_in tcp = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_un local = { .sun_family = AF_UNIX };
    const struct sockaddr *address = path ? (const struct sockaddr *)&local : (const struct sockaddr *)&tcp;
    const int yes = 1;
    int fd = socket(path ? AF_UNIX : AF_INET, SOCK_STREAM, 0);

    tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (path && !memccpy(local.sun_path, path, '\0', sizeof(local.sun_path)))
        hth_report_die("the path '%s' is too long for a socket", path);
    while (fd >= 0 && connect(fd, address, path ? sizeof(local) : sizeof(tcp)) != 0) {
        if (errno != EINTR && errno != EAGAIN)
            hth_report_die("cannot connect to %s: %s", path ? path : "the server's port", strerror(errno));
    }
    if (fd < 0)
        hth_report_die("cannot make a socket: %s", strerror(errno));
    if (!path)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)); /* only speed depends on it */
    return fd;
}

void hth_reply_begin(hth_reply *reply)
{
    memset(reply, 0, offsetof(hth_reply, head)); /* not the texts, which are large */
    reply->head[0] = '\0';
    reply->body[0] = '\0';
}

/* Does the head have this field, such as "\r\nconnection:", in any case? *value_out is its value and all behind it. */
static bool has_field(const hth_reply *reply, const char *name, const char **value_out)
{
    const char *at = strcasestr(reply->head, name);

    if (at)
        *value_out = at + strlen(name) + strspn(at + strlen(name), " \t");
    return at != NULL;
}

/* The head is complete: what body follows? */
static void read_head(hth_reply *reply)
{
    const char *value;

    if (strncmp(reply->head, "HTTP/1.", 7) != 0) {
        reply->part = HTH_REPLY_BROKEN;
        return;
    }
    reply->status = (int)strtol(reply->head + strcspn(reply->head, " "), NULL, 10);
    reply->closes = has_field(reply, "\r\nconnection:", &value) && strncasecmp(value, "close", 5) == 0;
    if (has_field(reply, "\r\ntransfer-encoding:", &value)) {
        reply->part = HTH_REPLY_CHUNKS;
    } else if (has_field(reply, "\r\ncontent-length:", &value)) {
        reply->n_left = strtoull(value, NULL, 10);
        reply->part = reply->n_left > 0 ? HTH_REPLY_BODY : HTH_REPLY_COMPLETE;
    } else {
        reply->part = HTH_REPLY_BROKEN;
    }
}

/* Bytes of the head, up to the empty line. Returns how many were taken. */
static size_t take_head(hth_reply *reply, const char *bytes, size_t n)
{
    const size_t room = HTH_REPLY_HEAD_MAX - reply->n_head, n_before = reply->n_head;
    size_t n_head;

    n = n < room ? n : room;
    memcpy(reply->head + n_before, bytes, n);
    reply->n_head += n;
    n_head = hth_http_head_find(reply->head, reply->n_head, &reply->n_scanned);
    if (n_head == SIZE_MAX || (n_head == 0 && n == room))
        reply->part = HTH_REPLY_BROKEN;
    else if (n_head > 0)
        reply->n_head = n_head;
    reply->head[reply->n_head] = '\0';
    if (n_head > 0 && reply->part == HTH_REPLY_HEAD)
        read_head(reply);
    return reply->n_head - n_before;
}

static void take_body(hth_reply *reply, const char *bytes, size_t n, uint64_t now_ns)
{
    const size_t room = HTH_REPLY_BODY_KEPT - reply->n_kept, n_kept = n < room ? n : room;

    memcpy(reply->body + reply->n_kept, bytes, n_kept);
    reply->n_kept += n_kept;
    reply->body[reply->n_kept] = '\0';
    reply->body_bytes += n;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            reply->n_matched = 0;
        } else if (reply->n_matched < N_EVENT_BEGIN && bytes[i] != event_begin[reply->n_matched]) {
            reply->n_matched = N_EVENT_BEGIN; /* the rest of the line is nothing else */
        } else if (reply->n_matched < N_EVENT_BEGIN && ++reply->n_matched == N_EVENT_BEGIN) {
            if (reply->n_events < HTH_REPLY_EVENTS_TIMED)
                reply->event_ns[reply->n_events] = now_ns;
            reply->n_events++;
        }
    }
}

static size_t take_chunks(hth_reply *reply, const char *bytes, size_t n, uint64_t now_ns)
{
    const char *piece;
    size_t n_used, n_piece;

    switch (hth_http_chunks_read(&reply->chunks, bytes, n, &n_used, &piece, &n_piece)) {
    case HTH_HTTP_CHUNKS_DATA: take_body(reply, piece, n_piece, now_ns); break;
    case HTH_HTTP_CHUNKS_END: reply->part = HTH_REPLY_COMPLETE; break;
    case HTH_HTTP_CHUNKS_BAD: reply->part = HTH_REPLY_BROKEN; break;
    case HTH_HTTP_CHUNKS_MORE: break;
    }
    return n_used;
}

void hth_reply_feed(hth_reply *reply, const char *bytes, size_t n, uint64_t now_ns)
{
    if (reply->first_ns == 0)
        reply->first_ns = now_ns;
    while (n > 0) {
        size_t n_used = n;

        switch (reply->part) {
        case HTH_REPLY_HEAD: n_used = take_head(reply, bytes, n); break;
        case HTH_REPLY_BODY:
            n_used = n < reply->n_left ? n : (size_t)reply->n_left;
            take_body(reply, bytes, n_used, now_ns);
            reply->n_left -= n_used;
            if (reply->n_left == 0)
                reply->part = HTH_REPLY_COMPLETE;
            break;
        case HTH_REPLY_CHUNKS: n_used = take_chunks(reply, bytes, n, now_ns); break;
        case HTH_REPLY_COMPLETE:
        case HTH_REPLY_BROKEN: reply->part = HTH_REPLY_BROKEN; return;
        }
        bytes += n_used;
        n -= n_used;
    }
}
