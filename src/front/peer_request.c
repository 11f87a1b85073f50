/*
 * peer_request.c - a request of another node, for a worker of this one
 *
 *   WAITING  for the worker of its model
 *   RUNNING  the worker has it; its bytes are passed on as they come, frames as whole frames
 *   LOST     the connection to the worker broke: whether it died is known soon, and told to the node
 *
 * The other node is the client's front: it has the keys, the limits, the log, and the tokens of the reply. It continues
 * a reply that is lost here, anywhere. So nothing is tried again here. The listener has checked that the other side is
 * a member of the fleet, so its headers are trusted like those of this front.
 *
 * A question (HTH_HEADER_ASK) is no request: it goes only to a worker that is ready, also while this node drains, and
 * is counted nowhere.
 */
#include <event2/event.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "api/notes.h"
#include "base/os.h"
#include "base/status.h"
#include "front/front_request.h"

enum {
    HEADERS_MAX = 18,
    LOOK_MS = 10, /* between two looks whether the worker died */
    LOOKS_MAX = 100,
    SERVED_BYTES = 4 << 10, /* a worker that has sent so many has served */
};

static const char text_type[] = "text/plain; charset=utf-8";

struct hth_peer_request {
    hth_front *front;
    hth_peer_request *prev, *next; /* in front->peers */
    hth_http_exchange *exchange;
    const char *model, *from; /* headers of the request */
    hth_worker_waiter waiter;
    hth_upstream_call *call; /* NULL: none */
    hth_place place;         /* this node's worker that has it */
    bool is_question;
    bool has_begun;
    bool is_of_frames;
    bool is_paused;
    uint64_t n_passed;  /* bytes of frames */
    hth_buffer part;    /* of a frame */
    struct event *look; /* LOST */
    uint32_t n_looks;
};

/* The exchange has ended, or ends now. */
static void peer_free(hth_peer_request *r)
{
    hth_front *front = r->front;

    hth_worker_waiter_cancel(&r->waiter);
    hth_upstream_cancel(r->call);
    hth_buffer_deinit(&r->part);
    if (r->look)
        event_free(r->look);
    DL_DELETE(front->peers, r);
    if (!r->is_question)
        hth_front_note_over(front);
    free(r);
}

static void refuse(hth_peer_request *r, int status, uint32_t retry_after_s, const char *why)
{
    hth_http_retry_after_add(r->exchange, retry_after_s);
    if (!r->is_question)
        r->front->fleet.page_ns = 0; /* the next page tells what is new */
    hth_http_reply(r->exchange, status, text_type, why, strlen(why));
    peer_free(r);
}

static void cut(hth_peer_request *r)
{
    hth_http_abort(r->exchange);
    peer_free(r);
}

/* ---- the worker was lost ---- */

static void tell_lost(hth_peer_request *r, bool has_died)
{
    hth_buffer frame = { .text = NULL };

    if (!r->has_begun) {
        refuse(r, has_died ? HTH_NO_PLACE_DIED : HTH_NO_PLACE_ENDED, 0,
               has_died ? "its worker died" : "its worker ended");
        return;
    }
    r->front->fleet.page_ns = 0; /* as in refuse */
    if (!r->is_of_frames) {
        cut(r);
        return;
    }
    hth_frame_add_broken(&frame, has_died, r->place.generation);
    if (frame.failed) {
        cut(r);
    } else {
        hth_http_stream_write(r->exchange, frame.text, frame.n);
        hth_http_stream_end(r->exchange);
        peer_free(r);
    }
    hth_buffer_deinit(&frame);
}

static void look(hth_peer_request *r)
{
    const struct timeval wait = { .tv_usec = (suseconds_t)LOOK_MS * 1000 };
    const hth_place_fate fate = hth_places_fate(r->front->places, r->model, &r->place);

    if (fate == HTH_FATE_DIED || fate == HTH_FATE_ENDED || r->n_looks++ == LOOKS_MAX)
        tell_lost(r, fate == HTH_FATE_DIED);
    else if (!r->look || event_add(r->look, &wait) != 0)
        tell_lost(r, false); /* there is no memory to wait */
}

static void on_look(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    look(user_data);
}

static void lost(hth_peer_request *r)
{
    hth_supervisor_note_broken(r->front->supervisor, r->model, r->place.generation);
    r->look = event_new(r->front->base, -1, 0, on_look, r);
    look(r);
}

/* ---- the worker's reply ---- */

static void on_head(const hth_upstream_head *head, void *user_data)
{
    hth_peer_request *r = user_data;

    r->is_of_frames = strcmp(head->content_type, HTH_FRAMES_CONTENT_TYPE) == 0;
    r->has_begun = true;
    if (*head->notes)
        hth_http_header_add(r->exchange, HTH_API_NOTES_HEADER, head->notes);
    hth_http_retry_after_add(r->exchange, head->retry_after_s);
    hth_http_header_add(r->exchange, HTH_HEADER_ANSWER, "1");
    hth_http_stream_begin(r->exchange, head->status <= HTH_UPSTREAM_STATUS_MAX ? head->status : 502,
                          head->content_type);
}

/* Whole frames only, so that a frame of this front can follow. False: these are no frames, or there is no memory. */
static bool pass_frames(hth_peer_request *r, const char *bytes, size_t n)
{
    size_t n_whole;

    if (r->part.n > 0) {
        hth_buffer_add(&r->part, bytes, n);
        bytes = r->part.text;
        n = r->part.n;
    }
    n_whole = r->part.failed ? HTH_FRAME_BAD_BYTES : hth_frame_whole_bytes(bytes, n);
    if (n_whole == HTH_FRAME_BAD_BYTES)
        return false;
    hth_http_stream_write(r->exchange, bytes, n_whole);
    r->n_passed += n_whole;
    if (r->n_passed >= SERVED_BYTES && r->n_passed - n_whole < SERVED_BYTES)
        hth_supervisor_note_served(r->front->supervisor, r->model, r->place.generation);
    if (r->part.n == 0) {
        hth_buffer_add(&r->part, bytes + n_whole, n - n_whole);
    } else if (n_whole > 0) {
        memmove(r->part.text, bytes + n_whole, n - n_whole);
        r->part.n = n - n_whole;
    }
    if (r->part.failed)
        return false;
    if (r->part.n == 0)
        hth_buffer_deinit(&r->part);
    return true;
}

static bool on_bytes(const void *bytes, size_t n, void *user_data)
{
    hth_peer_request *r = user_data;

    if (hth_http_stream_backlog(r->exchange) >= HTH_HTTP_BACKLOG_MAX) {
        r->is_paused = true;
        return false;
    }
    if (!r->is_of_frames)
        hth_http_stream_write(r->exchange, bytes, n);
    else if (!pass_frames(r, bytes, n))
        cut(r);
    return true;
}

static void on_done(hearth_status status, const hearth_error *err, void *user_data)
{
    hth_peer_request *r = user_data;

    (void)err;
    r->call = NULL;
    if (status != HEARTH_OK || !r->has_begun) {
        lost(r);
        return;
    }
    if (!r->is_question)
        hth_supervisor_note_served(r->front->supervisor, r->model, r->place.generation);
    hth_http_stream_end(r->exchange);
    peer_free(r);
}

static void on_room(void *user_data)
{
    hth_peer_request *r = user_data;

    if (r->is_paused && r->call)
        hth_upstream_resume(r->call);
    r->is_paused = false;
}

static void on_close(void *user_data)
{
    peer_free(user_data);
}

/* ---- the request ---- */

/*
 * May other nodes ask this of a worker? Only what models answer: a worker obeys its front in everything, and members of
 * the fleet give no orders about adapters, slots and pages.
 */
static bool is_allowed(const char *method, const char *target, bool is_question)
{
    const hth_route *route = hth_route_find(target);

    return route && strcmp(route->path, target) == 0 && (!route->method || hth_method_is(route->method, method)) &&
           (route->kind == HTH_ROUTE_GENERATE ||
            (!is_question && (route->kind == HTH_ROUTE_ASK || route->kind == HTH_ROUTE_EMBED)));
}

static size_t take_headers(const hth_http_exchange *exchange, hth_upstream_header headers[HEADERS_MAX])
{
    static const char *const names[] = { "Content-Type",   HTH_HEADER_REQUEST_ID, "traceparent",
                                         HTH_HEADER_SALT,  HTH_HEADER_ADAPTER,    HTH_HEADER_FRAMES,
                                         HTH_HEADER_ID,    HTH_HEADER_CREATED,    HTH_HEADER_SEED,
                                         HTH_HEADER_KNOWN, HTH_HEADER_AGE,        HTH_HEADER_ELSEWHERE,
                                         HTH_HEADER_PAST,  HTH_HEADER_ROWS,       HTH_HEADER_HISTORY,
                                         HTH_HEADER_ASK };
    size_t n = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = hth_http_header(exchange, names[i]);

        if (value)
            headers[n++] = (hth_upstream_header){ .name = names[i], .value = value };
    }
    return n;
}

static hth_peer_request *request_of(hth_worker_waiter *waiter)
{
    return (hth_peer_request *)((char *)waiter - offsetof(hth_peer_request, waiter));
}

static void on_ready(hth_worker_waiter *waiter, const char *socket_path, uint64_t generation)
{
    hth_peer_request *r = request_of(waiter);
    hth_upstream_header headers[HEADERS_MAX];
    hth_upstream_request request = { .socket_path = socket_path,
                                     .method = hth_http_header(r->exchange, HTH_HEADER_METHOD),
                                     .target = hth_http_header(r->exchange, HTH_HEADER_TARGET),
                                     .headers = headers,
                                     .n_headers = take_headers(r->exchange, headers) };
    const hth_upstream_watch watch = { .on_head = on_head, .on_bytes = on_bytes, .on_done = on_done, .user_data = r };
    hearth_error err;

    r->place =
        (hth_place){ .generation = generation, .n_deaths = hth_supervisor_n_deaths(r->front->supervisor, r->model) };
    if (strcmp(request.method, "POST") == 0)
        request.body[0] = hth_http_body(r->exchange, &request.body_bytes[0]);
    if (hth_upstream_begin(r->front->upstream, &request, &watch, &r->call, &err) != HEARTH_OK)
        refuse(r, 503, 0, err.message);
}

static void on_failed(hth_worker_waiter *waiter, const hearth_error *err)
{
    refuse(request_of(waiter), err->status == HEARTH_NOT_FOUND ? 404 : 503, err->retry_after_s, err->message);
}

/* When it came: a request that another node lost keeps its time. */
static uint64_t came_ns(const hth_http_exchange *exchange)
{
    const char *age = hth_http_header(exchange, HTH_HEADER_AGE);
    uint64_t now_ns = hth_os_monotonic_ns(), age_us = age ? strtoull(age, NULL, 10) : 0;

    return age_us < now_ns / 1000 ? now_ns - 1000 * age_us : 0;
}

void hth_peer_ask(hth_front *front, hth_http_exchange *exchange)
{
    static const char no_memory[] = "this node has no memory for the request";
    const char *method = hth_http_header(exchange, HTH_HEADER_METHOD),
               *target = hth_http_header(exchange, HTH_HEADER_TARGET);
    hth_peer_request *r = calloc(1, sizeof(*r));
    hearth_error err;

    if (!r) {
        hth_http_reply(exchange, 503, text_type, no_memory, sizeof(no_memory) - 1);
        return;
    }
    *r = (hth_peer_request){ .front = front,
                             .exchange = exchange,
                             .model = hth_http_header(exchange, HTH_HEADER_MODEL),
                             .from = hth_http_header(exchange, HTH_HEADER_FROM) };
    r->is_question = hth_http_header(exchange, HTH_HEADER_ASK) != NULL;
    DL_APPEND(front->peers, r);
    front->n_requests += !r->is_question;
    hth_http_watch_set(exchange, &(hth_http_watch){ .on_close = on_close, .on_room = on_room, .user_data = r });
    if (!r->model || !method || !target || !is_allowed(method, target, r->is_question)) {
        refuse(r, 400, 0, "nodes ask only for what models answer, and all need the same version");
        return;
    }
    if (!r->is_question && (front->is_draining || hth_places_is_draining(front->places))) {
        refuse(r, 503, 0, "this node is draining");
        return;
    }
    r->waiter = (hth_worker_waiter){ .on_ready = on_ready,
                                     .on_failed = on_failed,
                                     .since_ns = came_ns(exchange),
                                     .outlasts_breaks = hth_http_header(exchange, HTH_HEADER_KNOWN) != NULL };
    if ((r->is_question ? hth_supervisor_want_loaded(front->supervisor, r->model, &r->waiter, &err)
                        : hth_supervisor_want(front->supervisor, r->model, 0, &r->waiter, &err)) != HEARTH_OK)
        on_failed(&r->waiter, &err);
}

void hth_peer_end_of(hth_front *front, const char *node)
{
    hth_peer_request *r, *next;

    DL_FOREACH_SAFE(front->peers, r, next)
    {
        if (r->from && strcmp(r->from, node) == 0)
            cut(r);
    }
}

void hth_peer_end_all(hth_front *front)
{
    while (front->peers)
        cut(front->peers); /* NOLINT(clang-analyzer-unix.Malloc): it leaves the list before it is freed */
}
