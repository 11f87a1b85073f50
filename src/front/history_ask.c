#include "front/history_ask.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "wire/history_part.h"

struct hth_history_ask {
    hth_history_ask_options options; /* request is valid only within hth_history_ask_begin */
    hth_worker_waiter waiter;        /* holds this node's worker, if that is asked */
    hth_upstream_call *call;         /* NULL: it could not begin */
    bool is_answer;                  /* the bytes that come are a worker's answer */
    bool is_too_long;
    hth_buffer answer;
};

void hth_history_ask_cancel(hth_history_ask *ask)
{
    if (!ask)
        return;
    hth_upstream_cancel(ask->call);
    hth_worker_waiter_cancel(&ask->waiter);
    hth_buffer_deinit(&ask->answer);
    free(ask);
}

void hth_history_ask_move_body(hth_history_ask *ask, size_t piece, const void *bytes)
{
    hth_upstream_move_body(ask->call, piece, bytes);
}

/* ---- the answer ---- */

static void on_head(const hth_upstream_head *head, void *user_data)
{
    hth_history_ask *ask = user_data;

    ask->is_answer = head->status == 200 && (head->is_of_worker || !ask->options.node);
}

static bool on_bytes(const void *bytes, size_t n, void *user_data)
{
    hth_history_ask *ask = user_data;

    ask->is_too_long = ask->is_too_long || n > ask->options.bytes_max - ask->answer.n;
    if (ask->is_too_long)
        hth_buffer_deinit(&ask->answer);
    else if (ask->is_answer)
        hth_buffer_add(&ask->answer, bytes, n);
    return true;
}

static void on_done(hearth_status status, const hearth_error *err, void *user_data)
{
    hth_history_ask *ask = user_data;
    const hth_history_ask_options options = ask->options;
    hth_buffer answer = ask->answer;
    hth_ask_end end = HTH_ASK_BROKEN;

    (void)err;
    if (status == HEARTH_OK && ask->is_answer && !ask->is_too_long && !answer.failed)
        end = answer.n == 0                                    ? HTH_ASK_NOTHING
            : hth_history_part_is_whole(answer.text, answer.n) ? HTH_ASK_WELL
                                                               : HTH_ASK_BROKEN;
    ask->call = NULL;
    ask->answer = (hth_buffer){ .text = NULL };
    hth_history_ask_cancel(ask);
    if (end != HTH_ASK_WELL)
        hth_buffer_deinit(&answer);
    options.on_end(end, &answer, options.user_data);
}

/* ---- the question ---- */

static void send(hth_history_ask *ask, const char *socket_path)
{
    const hth_upstream_watch watch = { .on_head = on_head, .on_bytes = on_bytes, .on_done = on_done, .user_data = ask };
    hth_upstream_header headers[HTH_ASK_HEADERS_MAX];
    hth_upstream_request request = *ask->options.request;

    assert(request.n_headers < HTH_ASK_HEADERS_MAX);
    memcpy(headers, request.headers, request.n_headers * sizeof(*headers));
    headers[request.n_headers++] = (hth_upstream_header){ .name = HTH_HEADER_ASK, .value = HTH_ASK_HISTORY };
    request.headers = headers;
    request.socket_path = socket_path;
    request.timeout_ms = HTH_ASK_TIMEOUT_MS;
    if (hth_upstream_begin(ask->options.upstream, &request, &watch, &ask->call, NULL) != HEARTH_OK)
        ask->call = NULL;
}

static void on_ready(hth_worker_waiter *waiter, const char *socket_path, uint64_t generation)
{
    (void)generation;
    send((hth_history_ask *)((char *)waiter - offsetof(hth_history_ask, waiter)), socket_path);
}

/* Never called: the waiter does not wait. */
static void on_failed(hth_worker_waiter *waiter, const hearth_error *err)
{
    (void)waiter;
    (void)err;
}

hth_history_ask *hth_history_ask_begin(const hth_history_ask_options *options)
{
    hth_history_ask *ask = calloc(1, sizeof(*ask));
    hearth_error err;

    if (!ask)
        return NULL;
    *ask = (hth_history_ask){ .options = *options, .waiter = { .on_ready = on_ready, .on_failed = on_failed } };
    if (options->node)
        send(ask, NULL);
    else if (hth_places_want_loaded(options->places, options->model, &ask->waiter, &err) != HEARTH_OK)
        ask->call = NULL;
    ask->options.request = NULL;
    if (ask->call)
        return ask;
    hth_history_ask_cancel(ask);
    return NULL;
}
