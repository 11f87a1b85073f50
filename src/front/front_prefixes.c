/*
 * front_prefixes.c - GET /admin/prefixes?model=NAME: the most used prefixes, which the model's worker reports
 *
 * The request does not count as a use of the model: it starts no worker, and does not keep an idle model from leaving.
 */
#include <stdlib.h>

#include "front/front_request.h"

enum { REPLY_BYTES_MAX = 1 << 20 };

typedef struct question {
    hth_front_request *r;
    hth_upstream_call *call;
    int status;
    hth_buffer reply;
} question;

static void question_free(question *q)
{
    hth_buffer_deinit(&q->reply);
    free(q);
}

static void on_gone(void *user_data)
{
    question *q = user_data;

    hth_upstream_cancel(q->call);
    hth_front_request_drop(q->r);
    question_free(q);
}

static void on_head(const hth_upstream_head *head, void *user_data)
{
    question *q = user_data;

    q->status = head->status;
}

static bool on_bytes(const void *bytes, size_t n, void *user_data)
{
    question *q = user_data;

    if (q->reply.n + n <= REPLY_BYTES_MAX)
        hth_buffer_add(&q->reply, bytes, n);
    else
        q->reply.failed = true;
    return true;
}

static void on_done(hearth_status status, const hearth_error *err, void *user_data)
{
    question *q = user_data;
    hth_front_request *r = q->r;

    (void)err; /* of the connection */
    if (status != HEARTH_OK || q->reply.failed || q->status > HTH_UPSTREAM_STATUS_MAX) {
        hth_front_request_fail(r, NULL, HTH_API_OVERLOADED,
                               "the model's worker ended before it answered; ask again when the model is ready");
    } else {
        hth_http_reply(r->exchange, q->status, "application/json", hth_buffer_text(&q->reply), q->reply.n);
        hth_front_request_drop(r);
    }
    question_free(q);
}

void hth_front_show_prefixes(hth_front_request *r)
{
    hth_upstream_watch watch = { .on_head = on_head, .on_bytes = on_bytes, .on_done = on_done };
    hth_worker_view view;
    hearth_error err;
    question *q;

    if (!hth_front_choose_model(r))
        return;
    if (!hth_supervisor_view_of(r->front->supervisor, r->model, &view) || !view.socket_path) {
        hth_front_request_fail(
            r, NULL, HTH_API_CONFLICT,
            "the model is not loaded, and its worker tells its prefixes; `hearth cache stat` shows those in files");
        return;
    }
    q = calloc(1, sizeof(*q));
    if (!q) {
        hth_front_request_fail(r, NULL, HTH_API_OVERLOADED, "no memory for the request");
        return;
    }
    q->r = r;
    watch.user_data = q;
    if (hth_upstream_begin(
            r->front->upstream,
            &(hth_upstream_request){ .socket_path = view.socket_path, .method = "GET", .target = r->route->path },
            &watch, &q->call, &err) != HEARTH_OK) {
        hth_front_request_fail(r, NULL, HTH_API_OVERLOADED, "%s", err.message);
        question_free(q);
        return;
    }
    hth_http_watch_set(r->exchange, &(hth_http_watch){ .on_close = on_gone, .user_data = q });
}
