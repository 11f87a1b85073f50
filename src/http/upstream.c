/*
 * upstream.c - libcurl's multi interface, driven by libevent
 *
 *   begin    an idle call (an easy handle whose constant options are set) gets the request and is queued
 *   soon     an event without a descriptor: it passes queued calls to libcurl, resumes paused ones and runs libcurl's
 *            timer of 0 ms. It is activated directly. So it runs in the same turn of the event loop, without a
 *            system call, and never within the function that activated it
 *   socket   libcurl reads and writes ready sockets, and calls on_head and on_bytes
 *   drain    after each of these steps: ended calls leave libcurl, then on_done is called
 *
 * While libcurl is on the stack (is_inside), its handles must not be added or removed, so soon carries out a
 * cancellation.
 *
 * A call is reused for many requests. Options that are the same for all are set once. The others are set without
 * allocation where possible: headers and short bodies are in memory of the call. libcurl never sees the memory of a
 * longer body: it gets copies through on_read, which refuses once the call is cancelled or released. The path goes into
 * the request unchanged; libcurl sees the same URL each time.
 *
 * Invariant: between turns of the event loop a call is in exactly one list. libcurl has the call while it is running,
 * noted or released.
 */
#include "http/upstream.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <utlist.h>

#include "api/buffer.h"
#include "api/notes.h"
#include "base/status.h"
#include "http/http_socket.h"

/*
 * libcurl registers a connection with the event loop at the beginning of each request and removes it at the end: two
 * system calls. Here a socket is registered for reading once, when it is made. It stays registered until it is closed,
 * or until it becomes readable while that is not wanted (the peer closed it, or the reader pauses).
 *
 * A socket to a node is NEW until it has brought the head of a reply. libcurl 7.88 closes a socket that it could not
 * connect without telling. So new sockets are looked at after each step in which libcurl may have closed one: an event
 * of a closed descriptor would hide the events of its next owner.
 */
typedef struct watched_socket {
    struct event *event;
    short wanted;                       /* events that libcurl waits for: EV_READ, EV_WRITE, both or none */
    short registered;                   /* events that the event loop watches: wanted, and perhaps EV_READ */
    bool is_borrowed;                   /* libcurl's own, for the lookup of a node's name: it is not closed here */
    struct watched_socket *prev, *next; /* NEW: in the upstream's list */
    bool is_new;
    int fd;
} watched_socket;

struct hth_upstream {
    struct event_base *base;
    const hth_upstream_tls *tls; /* NULL: no nodes are asked */
    CURLM *multi;
    struct event *soon;
    struct event *timer;        /* libcurl's timer */
    struct event *busy_timer;   /* pending while there are busy calls */
    struct event *linger_timer; /* pending while there are released calls, and a little longer */
    bool is_timer_due;          /* libcurl's timer of 0 ms */
    bool is_inside;             /* libcurl is on the stack */
    /* Lists, the oldest call first. */
    hth_upstream_call *idle;
    size_t n_idle;
    hth_upstream_call *queued;   /* soon passes them to libcurl */
    hth_upstream_call *busy;     /* busy_timer queues them again */
    hth_upstream_call *running;  /* libcurl has these, and the calls of the lists below */
    hth_upstream_call *noted;    /* soon ends or resumes them */
    hth_upstream_call *released; /* waiting for their end, so that the connection can be reused */
    watched_socket **sockets;    /* [n_sockets], by descriptor; NULL: another descriptor */
    watched_socket *new_sockets;
    size_t n_sockets;
    hth_upstream_numbers numbers;
};

/* The method set in libcurl. An unchanged option is not set again. */
typedef enum call_mode { CALL_NONE, CALL_GET, CALL_HEAD, CALL_POST, CALL_OTHER } call_mode;

struct hth_upstream_call {
    hth_upstream *upstream;
    CURL *easy;
    hth_upstream_watch watch;
    hth_upstream_call **list; /* the one that it is in; NULL: none */
    hth_upstream_call *prev, *next;

    call_mode mode;
    char *address; /* as set in libcurl: the path of a socket, or a node's "HOST:PORT" */
    bool is_node;  /* the address is a node's */
    struct curl_slist *headers;
    size_t n_headers_max;
    hth_buffer header_text;
    const void *body[HTH_UPSTREAM_PIECES];
    size_t body_bytes[HTH_UPSTREAM_PIECES];
    size_t n_body_read;    /* bytes of a long body that libcurl has read */
    hth_buffer short_body; /* a copy of the pieces, which libcurl sends from here */
    bool is_short;         /* the body is in short_body, or there is none */

    bool is_handed_over; /* passed to libcurl */
    bool has_head;
    bool is_quiet;   /* cancelled or released: no callbacks */
    bool is_cut;     /* soon must end it */
    bool is_paused;  /* on_bytes returned false */
    bool is_watched; /* libcurl waits for its socket */
    bool was_seen;   /* a released call: it was checked once */
    uint32_t n_busy_tries;
    int open_errno;  /* of its connection; 0: no failure there */
    bool has_opened; /* a connection */
    size_t n_head_bytes;
    size_t n_released_bytes;
    char error_text[CURL_ERROR_SIZE];
};

enum {
    SOCKETS_FIRST = 64,         /* size of the table of sockets */
    CONNECTIONS_IDLE_MAX = 256, /* kept for later requests, for all workers */
    CALLS_IDLE_MAX = 64,
    BUSY_US_MIN = 1000,   /* before retrying a listener with a full queue; grows by this amount each time */
    BUSY_TRIES_MAX = 100, /* tries: 5 s in total */
    RELEASED_LOOK_S = 1,  /* between checks of released calls; the second check closes the connection */
    URL_BYTES = 512,
    READ_BYTES = 16 << 10,         /* per read; each running call has a buffer of this size */
    RELEASED_BYTES_MAX = 64 << 10, /* limit of the bytes still to come */
    SHORT_BODY_BYTES = 16 << 10,   /* a body up to this size is copied, and sent in one write with the head */
    HEAD_BYTES_MAX = 64 << 10, /* of a reply, including the trailer of a chunked body: libcurl 7.88 keeps all of it */
};

/* ---- lists ---- */

static void list_leave(hth_upstream_call *call)
{
    if (call->list)
        DL_DELETE(*call->list,
                  call); /* NOLINT(clang-analyzer-unix.Malloc): a call leaves its list before it is freed */
    call->list = NULL;
}

/* Remove and return the first call; NULL: the list is empty. */
static hth_upstream_call *list_take(hth_upstream_call **list)
{
    hth_upstream_call *call = *list;

    if (call)
        list_leave(call); /* NOLINT(clang-analyzer-unix.Malloc): as above */
    return call;
}

static void list_join(hth_upstream_call **list, hth_upstream_call *call)
{
    list_leave(call);
    call->list = list;
    DL_APPEND(*list, call);
}

/* Put the call on soon's list. */
static void note(hth_upstream_call *call)
{
    list_join(&call->upstream->noted, call);
    event_active(call->upstream->soon, EV_TIMEOUT, 0);
}

static void cut_without_memory(hth_upstream_call *call)
{
    call->open_errno = ENOMEM;
    call->is_cut = true;
    note(call);
}

/* ---- ends of calls ---- */

/* libcurl must not have it, and it must be in no list. Accepts NULL. */
static void call_free(hth_upstream_call *call)
{
    if (!call)
        return;
    curl_easy_cleanup(call->easy);
    hth_buffer_deinit(&call->header_text);
    hth_buffer_deinit(&call->short_body);
    free(call->headers);
    free(call->address);
    free(call);
}

/* Return a call that has left libcurl and is no longer referred to. */
static void call_give(hth_upstream_call *call)
{
    hth_upstream *upstream = call->upstream;

    if (upstream->n_idle >= CALLS_IDLE_MAX) {
        call_free(call);
        return;
    }
    list_join(&upstream->idle, call);
    upstream->n_idle++;
}

static void watched_free(hth_upstream *upstream, watched_socket *watched);

/* Forget the new sockets that libcurl has closed. */
static void forget_closed(hth_upstream *upstream)
{
    watched_socket *watched, *next;

    DL_FOREACH_SAFE(upstream->new_sockets, watched, next)
    {
        if (fcntl(watched->fd, F_GETFD) >= 0)
            continue;
        upstream->sockets[watched->fd] = NULL;
        watched_free(upstream, watched);
    }
}

/*
 * Take the call back from libcurl, which closes its connection unless the reply is complete. libcurl must not be on the
 * stack.
 */
static void call_take_back(hth_upstream_call *call)
{
    if (call->is_handed_over)
        (void)curl_multi_remove_handle(call->upstream->multi, call->easy); /* cannot fail: it was added */
    call->is_handed_over = false;
    forget_closed(call->upstream);
    list_leave(call);
}

static void call_end(hth_upstream_call *call)
{
    call_take_back(call);
    call->upstream->numbers.n_calls--;
    call_give(call);
}

static hearth_status tell_failure(const hth_upstream_call *call, CURLcode code, hearth_error *err)
{
    const char *what = call->is_node ? "node" : "worker",
               *why = call->error_text[0] ? call->error_text : curl_easy_strerror(code);

    if (call->open_errno == ENOMEM || code == CURLE_OUT_OF_MEMORY)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to ask the %s at '%s'", what, call->address);
    if (call->open_errno)
        return hth_fail_errno(err, call->open_errno, "cannot connect to the %s at '%s'", what, call->address);
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        return hth_fail(
            err, HEARTH_PERMISSION,
            "it shows a certificate of another fleet, or one that has expired (%s); all nodes need the same "
            "fleet.pem",
            why);
    if (call->is_node) /* whoever asks knows which */
        return hth_fail(err, code == CURLE_OPERATION_TIMEDOUT ? HEARTH_TIMED_OUT : HEARTH_IO, "%s", why);
    return hth_fail(err, HEARTH_IO, "the connection to the worker at '%s' failed: %s", call->address, why);
}

/*
 * A full queue of the listener empties soon. libcurl does not report it, but treats such a connection as in progress.
 */
static bool is_to_be_tried_again(hth_upstream_call *call, CURLcode code)
{
    hth_upstream *upstream = call->upstream;

    if (code != CURLE_COULDNT_CONNECT || call->is_quiet || call->open_errno || call->is_node)
        return false;
    call->open_errno = hth_http_probe_unix(call->address);
    if (call->open_errno == EAGAIN)
        call->open_errno = 0;
    if (call->open_errno || ++call->n_busy_tries > BUSY_TRIES_MAX)
        return false;
    list_join(&upstream->busy, call);
    if (!event_pending(upstream->busy_timer, EV_TIMEOUT, NULL)) {
        const struct timeval wait = { .tv_usec = (suseconds_t)BUSY_US_MIN * (suseconds_t)call->n_busy_tries };

        if (event_add(upstream->busy_timer, &wait) != 0) {
            list_leave(call);
            return false;
        }
    }
    return true;
}

/* Finish a call that is in no list and has left libcurl. */
static void call_finish(hth_upstream_call *call, CURLcode code)
{
    hth_upstream_watch watch = call->watch;
    bool is_quiet = call->is_quiet;
    hearth_error err = { .status = HEARTH_OK };
    hearth_status status = HEARTH_OK;

    /* libcurl accepts a truncated head as complete. */
    if (code == CURLE_OK && !call->has_head)
        code = CURLE_GOT_NOTHING;
    if (code != CURLE_OK && is_to_be_tried_again(call, code))
        return;
    if (code != CURLE_OK)
        status = tell_failure(call, code, &err);
    call->upstream->numbers.n_calls--;
    call_give(call);
    if (!is_quiet)
        watch.on_done(status, &err, watch.user_data);
}

/* Finish ended calls. on_done may begin and cancel calls. */
static void drain(hth_upstream *upstream)
{
    CURLMsg *message;
    int n_left;

    while ((message = curl_multi_info_read(upstream->multi, &n_left)) != NULL) {
        hth_upstream_call *call = NULL;
        CURLcode code = message->data.result; /* removing the handle frees message */

        if (message->msg != CURLMSG_DONE ||
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call) != CURLE_OK)
            continue;
        call_take_back(call);
        call_finish(call, code);
    }
}

/*
 * libcurl had no memory to register the wait of a call, and does not report which call: cut all calls without a wait.
 */
static void cut_forgotten(hth_upstream *upstream)
{
    hth_upstream_call *call, *next;

    DL_FOREACH_SAFE(upstream->running, call, next)
    {
        if (!call->is_watched && !call->is_paused)
            cut_without_memory(call);
    }
}

static void act(hth_upstream *upstream, curl_socket_t fd, int what)
{
    CURLMcode code;
    int n_running;

    assert(!upstream->is_inside);
    upstream->is_inside = true;
    code = curl_multi_socket_action(upstream->multi, fd, what, &n_running);
    upstream->is_inside = false;
    forget_closed(upstream);
    drain(upstream);
    if (code != CURLM_OK)
        cut_forgotten(upstream);
}

/* ---- sockets ---- */

static void on_event(evutil_socket_t fd, short what, void *user_data)
{
    hth_upstream *upstream = user_data;
    watched_socket *watched = upstream->sockets[fd];

    what &= watched->wanted;
    if (what) {
        act(upstream, fd, (what & EV_READ ? CURL_CSELECT_IN : 0) | (what & EV_WRITE ? CURL_CSELECT_OUT : 0));
        return;
    }
    (void)event_del(watched->event); /* cannot fail for an event of event_new */
    watched->registered = 0;
}

static bool table_reach(hth_upstream *upstream, size_t fd)
{
    size_t n = upstream->n_sockets ? upstream->n_sockets : SOCKETS_FIRST;
    watched_socket **grown;

    if (fd < upstream->n_sockets)
        return true;
    while (n <= fd)
        n *= 2;
    grown = realloc(upstream->sockets, n * sizeof(*grown));
    if (!grown)
        return false;
    memset(grown + upstream->n_sockets, 0, (n - upstream->n_sockets) * sizeof(*grown));
    upstream->sockets = grown;
    upstream->n_sockets = n;
    return true;
}

/* Accepts NULL. */
static void watched_free(hth_upstream *upstream, watched_socket *watched)
{
    if (!watched)
        return;
    if (watched->is_new)
        DL_DELETE(upstream->new_sockets, watched); /* NOLINT(clang-analyzer-unix.Malloc): freed ones have left it */
    if (watched->event)
        event_free(watched->event);
    free(watched);
}

static watched_socket *watched_new(hth_upstream *upstream, int fd)
{
    watched_socket *watched = calloc(1, sizeof(*watched));

    if (!watched)
        return NULL;
    watched->event = event_new(upstream->base, fd, EV_READ | EV_PERSIST, on_event, upstream);
    watched->registered = EV_READ;
    watched->fd = fd;
    if (watched->event && event_add(watched->event, NULL) == 0)
        return watched;
    watched_free(upstream, watched);
    return NULL;
}

/* Make a socket, not connected. -1 with errno. Later calls for it need no memory. */
static int watched_open(hth_upstream *upstream, int family)
{
    int fd = family == AF_UNIX ? hth_http_unix_socket() : hth_http_node_socket(family);

    if (fd < 0)
        return -1;
    if (table_reach(upstream, (size_t)fd)) {
        watched_socket *watched;

        /* Not NULL: libcurl has just closed another one of this number, and looks are yet to come. */
        watched_free(upstream, upstream->sockets[fd]);
        watched = upstream->sockets[fd] = watched_new(upstream, fd);
        if (watched && family != AF_UNIX) {
            watched->is_new = true;
            DL_APPEND(upstream->new_sockets, watched);
        }
        if (watched)
            return fd;
    }
    (void)close(fd); /* unused */
    errno = ENOMEM;
    return -1;
}

/* Watch a descriptor of libcurl's own. NULL without memory. */
static watched_socket *watched_borrow(hth_upstream *upstream, int fd)
{
    watched_socket *watched = table_reach(upstream, (size_t)fd) ? watched_new(upstream, fd) : NULL;

    if (watched) {
        watched->is_borrowed = true;
        upstream->sockets[fd] = watched;
    }
    return watched;
}

/* Set the wanted events. False: it is no watched socket and nothing is wanted, or the system fails. */
static bool watched_want(hth_upstream *upstream, int fd, short what)
{
    watched_socket *watched = (size_t)fd < upstream->n_sockets ? upstream->sockets[fd] : NULL;
    short registered;

    if (!watched && what)
        watched = watched_borrow(upstream, fd);
    if (!watched)
        return false;
    if (watched->is_borrowed && !what) { /* libcurl closes it now */
        watched_free(upstream, watched);
        upstream->sockets[fd] = NULL;
        return true;
    }
    registered = (short)(what | (watched->registered & EV_READ));
    watched->wanted = what;
    if (registered == watched->registered)
        return true;
    (void)event_del(watched->event); /* as above */
    watched->registered = 0;
    if (event_assign(watched->event, upstream->base, fd, (short)(registered | EV_PERSIST), on_event, upstream) != 0 ||
        event_add(watched->event, NULL) != 0)
        return false;
    watched->registered = registered;
    return true;
}

/* ---- libcurl calls back ---- */

/* Called when libcurl waits for other events than before. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user_data, void *socket_data)
{
    hth_upstream *upstream = user_data;
    short wanted = (short)((what == CURL_POLL_IN || what == CURL_POLL_INOUT ? EV_READ : 0) |
                           (what == CURL_POLL_OUT || what == CURL_POLL_INOUT ? EV_WRITE : 0));
    hth_upstream_call *call = NULL;
    bool is_watched = watched_want(upstream, fd, wanted) && wanted;

    (void)socket_data;
    if (curl_easy_getinfo(easy, CURLINFO_PRIVATE, &call) != CURLE_OK || !call)
        return 0; /* not a watched socket: libcurl uses its own for connections that it closes */
    call->is_watched = is_watched;
    /* The system is out of memory. A failure returned here would fail every later transfer, so only this one ends. */
    if (wanted && !is_watched)
        cut_without_memory(call);
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *user_data)
{
    hth_upstream *upstream = user_data;
    struct timeval wait = { .tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000 };

    (void)multi;
    upstream->is_timer_due = timeout_ms == 0;
    if (timeout_ms == 0)
        event_active(upstream->soon, EV_TIMEOUT, 0);
    if (timeout_ms > 0)
        (void)event_add(upstream->timer, &wait); /* on failure an idle connection is closed later */
    else if (event_pending(upstream->timer, EV_TIMEOUT, NULL))
        (void)event_del(upstream->timer); /* it was assigned */
    return 0;
}

static curl_socket_t on_open(void *user_data, curlsocktype purpose, struct curl_sockaddr *address)
{
    hth_upstream_call *call = user_data;
    int fd = watched_open(call->upstream, address->family); /* libcurl connects it */

    (void)purpose;
    call->open_errno = fd < 0 ? errno : 0;
    call->has_opened = true;
    call->upstream->numbers.n_connections_opened += fd >= 0;
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int on_close(void *user_data, curl_socket_t fd)
{
    hth_upstream *upstream = user_data;

    if ((size_t)fd < upstream->n_sockets) {
        watched_free(upstream, upstream->sockets[fd]);
        upstream->sockets[fd] = NULL;
    }
    (void)close(fd); /* an error would change nothing */
    return 0;
}

/* The connection of the call works: its socket is no longer NEW. */
static void note_connected(hth_upstream_call *call)
{
    hth_upstream *upstream = call->upstream;
    curl_socket_t fd = CURL_SOCKET_BAD;
    watched_socket *watched;

    if (curl_easy_getinfo(call->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd < 0 ||
        (size_t)fd >= upstream->n_sockets)
        return;
    watched = upstream->sockets[fd];
    if (!watched || !watched->is_new)
        return;
    DL_DELETE(upstream->new_sockets, watched);
    watched->is_new = false;
}

static void tell_head(hth_upstream_call *call)
{
    hth_upstream_head head = { .content_type = "", .notes = "" };
    struct curl_header *notes;
    long status = 0;
    curl_off_t retry_after_s = 0;
    char *content_type = NULL;

    if (curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK || status < 200)
        return;                                                                /* 1xx: the reply's own head follows */
    (void)curl_easy_getinfo(call->easy, CURLINFO_CONTENT_TYPE, &content_type); /* NULL if there is none */
    (void)curl_easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    head.status = (int)status;
    if (content_type)
        head.content_type = content_type;
    if (retry_after_s > 0 && retry_after_s <= UINT32_MAX)
        head.retry_after_s = (uint32_t)retry_after_s;
    if (curl_easy_header(call->easy, HTH_API_NOTES_HEADER, 0, CURLH_HEADER, -1, &notes) == CURLHE_OK)
        head.notes = notes->value;
    head.is_of_worker = curl_easy_header(call->easy, HTH_HEADER_ANSWER, 0, CURLH_HEADER, -1, &notes) == CURLHE_OK;
    call->has_head = true;
    if (call->has_opened)
        note_connected(call);
    if (!call->is_quiet)
        call->watch.on_head(&head, call->watch.user_data);
}

/* A line of the head, or of a chunked body's trailer. */
static size_t on_header(char *line, size_t size, size_t n, void *user_data)
{
    hth_upstream_call *call = user_data;

    (void)size; /* always 1 */
    call->n_head_bytes += n;
    if (call->n_head_bytes > HEAD_BYTES_MAX)
        return 0;
    if (!call->has_head && (line[0] == '\r' || line[0] == '\n'))
        tell_head(call);
    return call->is_cut ? 0 : n;
}

static size_t on_piece(char *bytes, size_t size, size_t n, void *user_data)
{
    hth_upstream_call *call = user_data;

    (void)size; /* always 1 */
    if (!call->is_quiet && !call->watch.on_bytes(bytes, n, call->watch.user_data) && !call->is_quiet) {
        call->is_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (call->is_quiet)
        call->n_released_bytes += n;
    return call->is_cut || call->n_released_bytes > RELEASED_BYTES_MAX ? 0 : n;
}

static uint64_t call_body_bytes(const hth_upstream_call *call)
{
    uint64_t n = 0;

    for (size_t i = 0; i < HTH_UPSTREAM_PIECES; i++)
        n += call->body_bytes[i];
    return n;
}

/* libcurl reads a long body. */
static size_t on_read(char *bytes, size_t size, size_t n, void *user_data)
{
    hth_upstream_call *call = user_data;
    size_t at = call->n_body_read, n_room = size * n, n_done = 0;

    if (call->is_quiet)
        return CURL_READFUNC_ABORT; /* the pieces may be gone */
    for (size_t i = 0; i < HTH_UPSTREAM_PIECES; i++) {
        size_t n_piece;

        if (at >= call->body_bytes[i]) {
            at -= call->body_bytes[i];
            continue;
        }
        n_piece = call->body_bytes[i] - at;
        if (n_piece > n_room - n_done)
            n_piece = n_room - n_done;
        memcpy(bytes + n_done, (const char *)call->body[i] + at, n_piece);
        n_done += n_piece;
        at = 0;
    }
    call->n_body_read += n_done;
    return n_done;
}

/* libcurl sends a body again if a kept connection turned out to be closed. */
static int on_seek(void *user_data, curl_off_t offset, int origin)
{
    hth_upstream_call *call = user_data;

    if (origin != SEEK_SET || offset < 0 || call->has_head || (uint64_t)offset > call_body_bytes(call))
        return CURL_SEEKFUNC_FAIL;
    call->n_body_read = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* ---- making and setting calls ---- */

/* The texts live as long as the upstream, so libcurl makes no copies. */
static struct curl_blob blob_of(const char *text)
{
    return (struct curl_blob){ .data = (void *)text, .len = strlen(text), .flags = CURL_BLOB_NOCOPY };
}

static CURLcode set_tls(CURL *easy, const hth_upstream_tls *tls)
{
    struct curl_blob certificate = blob_of(tls->certificate), key = blob_of(tls->key),
                     authorities = blob_of(tls->authorities);
    CURLcode code = curl_easy_setopt(easy, CURLOPT_SSLCERT_BLOB, &certificate);

    if (!code)
        code = curl_easy_setopt(easy, CURLOPT_SSLKEY_BLOB, &key);
    if (!code)
        code = curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &authorities);
    if (!code)
        code = curl_easy_setopt(easy, CURLOPT_CAPATH, NULL); /* the system's authorities do not count */
    if (!code)
        code = curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3);
    return code;
}

static CURLcode set_constants(hth_upstream_call *call)
{
    static const struct {
        CURLoption option;
        long value;
    } numbers[] = {
        { CURLOPT_NOSIGNAL, 1 }, /* otherwise libcurl sets a signal handler and resets it for each piece */
        { CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1 },
        { CURLOPT_BUFFERSIZE, READ_BYTES },
        { CURLOPT_CONNECTTIMEOUT_MS, HTH_HTTP_SILENT_MS },
        { CURLOPT_QUICK_EXIT, 1 },     /* otherwise the end of a call waits for a lookup of a name */
        { CURLOPT_SSL_VERIFYHOST, 0 }, /* nodes have addresses, and one certificate for all: it is pinned */
    };
    CURL *easy = call->easy;
    CURLcode code = CURLE_OK;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !code; i++)
        code = curl_easy_setopt(easy, numbers[i].option, numbers[i].value);
    if (!code)
        code = curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* no proxy, not even from the environment */
    if (!code && call->upstream->tls)
        code = set_tls(easy, call->upstream->tls);
    if (code)
        return code;
    /* libcurl only stores these pointers, so nothing here can fail. */
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error_text);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_piece);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
    (void)curl_easy_setopt(easy, CURLOPT_READDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
    (void)curl_easy_setopt(easy, CURLOPT_SEEKDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    (void)curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, call->upstream); /* connections outlive calls */
    return CURLE_OK;
}

/* Make a call with its constant options set. NULL without memory. */
static hth_upstream_call *call_new(hth_upstream *upstream)
{
    hth_upstream_call *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    call->upstream = upstream;
    call->easy = curl_easy_init();
    if (!call->easy || set_constants(call) != CURLE_OK) {
        call_free(call);
        return NULL;
    }
    return call;
}

static void add_line(hth_buffer *out, const char *name, const char *separator, const char *value)
{
    hth_buffer_add_text(out, name);
    hth_buffer_add_text(out, separator);
    hth_buffer_add(out, value, strlen(value) + 1); /* with its NUL */
}

/*
 * Set the headers as libcurl's list, in memory that the next request reuses. A name without a value keeps libcurl
 * from adding that header.
 */
static bool set_headers(hth_upstream_call *call, const hth_upstream_request *request)
{
    static const char *const unwanted[] = { "Accept", "Expect", "Content-Type" };
    enum { N_UNWANTED = sizeof(unwanted) / sizeof(unwanted[0]) };
    size_t n = 0;
    bool has_type = false;
    char *at;

    if (call->n_headers_max < request->n_headers + N_UNWANTED) {
        size_t n_max = request->n_headers + N_UNWANTED;
        struct curl_slist *grown = realloc(call->headers, n_max * sizeof(*grown));

        if (!grown)
            return false;
        call->headers = grown;
        call->n_headers_max = n_max;
    }
    hth_buffer_clear(&call->header_text);
    for (; n < request->n_headers; n++) {
        const hth_upstream_header *header = &request->headers[n];

        /* "Name;" is an empty header. */
        add_line(&call->header_text, header->name, header->value[0] ? ": " : ";", header->value);
        has_type = has_type || strcasecmp(header->name, "Content-Type") == 0;
    }
    for (size_t i = 0; i < N_UNWANTED - (has_type ? 1 : 0); i++, n++)
        add_line(&call->header_text, unwanted[i], ":", "");
    if (call->header_text.failed)
        return false;
    at = call->header_text.text;
    for (size_t i = 0; i < n; i++) {
        call->headers[i] = (struct curl_slist){ .data = at, .next = i + 1 < n ? &call->headers[i + 1] : NULL };
        at += strlen(at) + 1;
    }
    return curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK;
}

static bool set_mode(hth_upstream_call *call, const char *method, bool has_body)
{
    call_mode mode = CALL_OTHER;
    CURLoption option = has_body ? CURLOPT_POST : CURLOPT_HTTPGET;

    if (strcmp(method, "POST") == 0) {
        mode = CALL_POST;
        option = CURLOPT_POST;
    } else if (strcmp(method, "GET") == 0 && !has_body) {
        mode = CALL_GET;
    } else if (strcmp(method, "HEAD") == 0 && !has_body) {
        mode = CALL_HEAD;
        option = CURLOPT_NOBODY;
    }
    if (mode == call->mode && mode != CALL_OTHER)
        return true;
    call->mode = CALL_NONE;
    if (curl_easy_setopt(call->easy, option, 1L) != CURLE_OK ||
        curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, mode == CALL_OTHER ? method : NULL) != CURLE_OK)
        return false;
    call->mode = mode;
    return true;
}

/* Of the URL, libcurl uses the scheme and the host alone: the path is in the request's target, unchanged. */
static bool set_url(hth_upstream_call *call, const hth_upstream_request *request)
{
    char url[URL_BYTES];
    const int n = snprintf(url, sizeof(url), request->node ? "https://%s/" : "http://worker/", request->node);

    return n > 0 && (size_t)n < sizeof(url) && curl_easy_setopt(call->easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(call->easy, CURLOPT_UNIX_SOCKET_PATH, request->socket_path) == CURLE_OK;
}

static bool set_address(hth_upstream_call *call, const hth_upstream_request *request)
{
    const bool is_node = request->node != NULL;
    const char *address = is_node ? request->node : request->socket_path;
    char *copy;

    if (call->address && call->is_node == is_node && strcmp(call->address, address) == 0)
        return true;
    copy = strdup(address);
    free(call->address);
    call->address = NULL;
    if (!copy || !set_url(call, request)) {
        free(copy);
        return false;
    }
    call->address = copy;
    call->is_node = is_node;
    return true;
}

/* Set a body of n bytes, which may be 0. False without memory. */
static bool set_body(hth_upstream_call *call, uint64_t n)
{
    hth_buffer_clear(&call->short_body);
    for (size_t i = 0; call->is_short && i < HTH_UPSTREAM_PIECES; i++)
        if (call->body_bytes[i] > 0)
            hth_buffer_add(&call->short_body, call->body[i], call->body_bytes[i]);
    /* These cannot fail: libcurl only stores the pointer and the number. */
    (void)curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, call->is_short ? hth_buffer_text(&call->short_body) : NULL);
    (void)curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
    return !call->short_body.failed;
}

/* Set the call to this request, whatever it was before. False without memory. */
static bool call_set(hth_upstream_call *call, const hth_upstream_request *request, const hth_upstream_watch *watch)
{
    uint64_t n_body;

    call->watch = *watch;
    memcpy(call->body, request->body, sizeof(call->body));
    memcpy(call->body_bytes, request->body_bytes, sizeof(call->body_bytes));
    n_body = call_body_bytes(call);
    call->is_short = n_body <= SHORT_BODY_BYTES;
    call->n_body_read = 0;
    call->has_head = false;
    call->is_quiet = false;
    call->is_cut = false;
    call->is_paused = false;
    call->is_watched = false;
    call->was_seen = false;
    call->n_busy_tries = 0;
    call->n_head_bytes = 0;
    call->n_released_bytes = 0;
    call->open_errno = 0;
    call->has_opened = false;
    call->error_text[0] = '\0';
    if ((n_body > 0 || strcmp(request->method, "POST") == 0) && !set_body(call, n_body))
        return false;
    return set_mode(call, request->method, n_body > 0) && set_address(call, request) && set_headers(call, request) &&
           curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms) == CURLE_OK &&
           curl_easy_setopt(call->easy, CURLOPT_REQUEST_TARGET, request->target) == CURLE_OK;
}

/* ---- calls ---- */

/* Get an idle call, or a new one, that is in no list. NULL without memory. */
static hth_upstream_call *call_take(hth_upstream *upstream)
{
    hth_upstream_call *call = upstream->idle ? upstream->idle->prev : NULL; /* the newest */

    if (!call)
        return call_new(upstream);
    list_leave(call);
    upstream->n_idle--;
    return call;
}

/* libcurl writes these texts into the request unchanged, so check them. */
static bool is_well_formed(const hth_upstream_request *request)
{
    for (size_t i = 0; i < request->n_headers; i++)
        if (strpbrk(request->headers[i].value, "\r\n") || strpbrk(request->headers[i].name, "\r\n:"))
            return false;
    for (const char *at = request->target; *at; at++)
        if ((unsigned char)*at <= ' ' || *at == 0x7f)
            return false;
    return request->target[0] == '/' && !strpbrk(request->method, " \r\n");
}

void hth_upstream_set_tls(hth_upstream *upstream, const hth_upstream_tls *tls)
{
    assert(!upstream->idle && upstream->numbers.n_calls == 0); /* calls get it when they are made */
    upstream->tls = tls;
}

hearth_status hth_upstream_begin(hth_upstream *upstream, const hth_upstream_request *request,
                                 const hth_upstream_watch *watch, hth_upstream_call **out, hearth_error *err)
{
    hth_upstream_call *call;

    assert(!request->node || upstream->tls);
    if (!is_well_formed(request))
        return hth_fail(err, HEARTH_MISUSE,
                        "a request for a worker or a node has a line break in a header, or a target that is "
                        "no path");
    call = call_take(upstream);
    if (call && !call_set(call, request, watch)) {
        call_give(call);
        call = NULL;
    }
    if (!call)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to ask the worker");
    list_join(&upstream->queued, call);
    upstream->numbers.n_calls++;
    event_active(upstream->soon, EV_TIMEOUT, 0);
    *out = call;
    return HEARTH_OK;
}

void hth_upstream_resume(hth_upstream_call *call)
{
    if (call->is_paused && !call->is_quiet)
        note(call);
}

void hth_upstream_cancel(hth_upstream_call *call)
{
    if (!call)
        return;
    call->is_quiet = true;
    if (!call->upstream->is_inside) {
        call_end(call);
        return;
    }
    call->is_cut = true;
    note(call);
}

void hth_upstream_move_body(hth_upstream_call *call, size_t piece, const void *bytes)
{
    assert(piece < HTH_UPSTREAM_PIECES);
    call->body[piece] = bytes;
}

bool hth_upstream_has_sent(const hth_upstream_call *call)
{
    return call->has_head && (call->is_short || call->n_body_read == call_body_bytes(call));
}

static void linger(hth_upstream *upstream)
{
    static const struct timeval look = { .tv_sec = RELEASED_LOOK_S };

    if (!event_pending(upstream->linger_timer, EV_TIMEOUT, NULL))
        (void)event_add(upstream->linger_timer, &look); /* without memory, they last as long as their worker */
}

void hth_upstream_release(hth_upstream_call *call)
{
    hth_upstream *upstream = call->upstream;

    /* If the reply came before the whole request was sent, the connection cannot be reused. */
    if (call->list != &upstream->running || call->is_paused ||
        (!call->is_short && call->n_body_read < call_body_bytes(call))) {
        hth_upstream_cancel(call);
        return;
    }
    call->is_quiet = true;
    list_join(&upstream->released, call);
    linger(upstream);
}

/* ---- turns of the event loop ---- */

static void hand_over(hth_upstream_call *call)
{
    hth_upstream *upstream = call->upstream;

    call->is_handed_over = curl_multi_add_handle(upstream->multi, call->easy) == CURLM_OK;
    if (call->is_handed_over) {
        list_join(&upstream->running, call);
        return;
    }
    call_finish(call, CURLE_OUT_OF_MEMORY);
}

static void go_on(hth_upstream_call *call)
{
    hth_upstream *upstream = call->upstream;
    CURLcode code;

    call->is_paused = false;
    upstream->is_inside = true; /* this calls on_bytes with the bytes that were held back */
    code = curl_easy_pause(call->easy, CURLPAUSE_CONT);
    upstream->is_inside = false;
    if (code == CURLE_OK || call->is_cut)
        return;
    call_take_back(call);
    call_finish(call, code);
}

static void end_or_go_on(hth_upstream_call *call)
{
    list_join(&call->upstream->running, call);
    if (!call->is_cut) {
        go_on(call);
    } else if (call->is_quiet) {
        call_end(call);
    } else {
        call_take_back(call);
        call_finish(call, CURLE_OUT_OF_MEMORY);
    }
}

static void on_soon(evutil_socket_t fd, short what, void *user_data)
{
    hth_upstream *upstream = user_data;
    hth_upstream_call *call;

    (void)fd;
    (void)what;
    while ((call = list_take(&upstream->noted)) != NULL)
        end_or_go_on(call);
    while ((call = list_take(&upstream->queued)) != NULL)
        hand_over(call);
    if (upstream->is_timer_due) {
        upstream->is_timer_due = false;
        act(upstream, CURL_SOCKET_TIMEOUT, 0);
    }
}

static void on_curl_timer(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    act(user_data, CURL_SOCKET_TIMEOUT, 0);
}

static void on_busy_timer(evutil_socket_t fd, short what, void *user_data)
{
    hth_upstream *upstream = user_data;

    (void)fd;
    (void)what;
    while (upstream->busy)
        list_join(&upstream->queued, upstream->busy);
    event_active(upstream->soon, EV_TIMEOUT, 0);
}

static void on_linger_timer(evutil_socket_t fd, short what, void *user_data)
{
    hth_upstream *upstream = user_data;
    hth_upstream_call *call, *next;

    (void)fd;
    (void)what;
    DL_FOREACH_SAFE(upstream->released, call, next)
    {
        if (call->was_seen)
            call_end(call);
        else
            call->was_seen = true;
    }
    if (upstream->released)
        linger(upstream);
}

/* ---- all transfers ---- */

static void *watch_new(hth_upstream *upstream, event_callback_fn callback)
{
    return event_new(upstream->base, -1, 0, callback, upstream);
}

static bool multi_set(hth_upstream *upstream)
{
    CURLM *multi = upstream->multi;

    return curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket) == CURLM_OK &&
           curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, upstream) == CURLM_OK &&
           curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer) == CURLM_OK &&
           curl_multi_setopt(multi, CURLMOPT_TIMERDATA, upstream) == CURLM_OK &&
           curl_multi_setopt(multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING) == CURLM_OK &&
           curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_IDLE_MAX) == CURLM_OK;
}

hearth_status hth_upstream_new(struct event_base *base, hth_upstream **out, hearth_error *err)
{
    hth_upstream *upstream = calloc(1, sizeof(*upstream));

    if (!upstream)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for requests to workers");
    if (curl_global_init(CURL_GLOBAL_SSL) != CURLE_OK) {
        free(upstream);
        return hth_fail(err, HEARTH_FAILED, "libcurl cannot be initialised");
    }
    upstream->base = base;
    upstream->multi = curl_multi_init();
    upstream->soon = watch_new(upstream, on_soon);
    upstream->timer = watch_new(upstream, on_curl_timer);
    upstream->busy_timer = watch_new(upstream, on_busy_timer);
    upstream->linger_timer = watch_new(upstream, on_linger_timer);
    if (!upstream->multi || !upstream->soon || !upstream->timer || !upstream->busy_timer || !upstream->linger_timer ||
        !multi_set(upstream)) {
        hth_upstream_free(upstream);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for requests to workers");
    }
    *out = upstream;
    return HEARTH_OK;
}

static void event_free_if(struct event *event)
{
    if (event)
        event_free(event);
}

void hth_upstream_free(hth_upstream *upstream)
{
    hth_upstream_call *call;

    if (!upstream)
        return;
    while ((call = list_take(&upstream->noted)) != NULL)
        call_end(call); /* cancelled just before */
    while ((call = list_take(&upstream->released)) != NULL)
        call_end(call);
    assert(upstream->numbers.n_calls == 0);
    while ((call = list_take(&upstream->idle)) != NULL)
        call_free(call);
    (void)curl_multi_cleanup(upstream->multi); /* closes the remaining connections */
    for (size_t fd = 0; fd < upstream->n_sockets; fd++)
        assert(!upstream->sockets[fd]);
    free(upstream->sockets);
    event_free_if(upstream->soon);
    event_free_if(upstream->timer);
    event_free_if(upstream->busy_timer);
    event_free_if(upstream->linger_timer);
    free(upstream);
    curl_global_cleanup();
}

hth_upstream_numbers hth_upstream_counts(const hth_upstream *upstream)
{
    return upstream->numbers;
}

struct event_base *hth_upstream_base(const hth_upstream *upstream)
{
    return upstream->base;
}
