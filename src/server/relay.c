/*
 * relay.c - one relay and its workers: asked, listened to, replaced
 *
 *   ask      wait for a worker                         on_ready, on_failed
 *   run      send the request, with what is known      on_head, on_bytes, on_done
 *   take     a frame: its tokens are remembered, its bytes go to the client
 *   break_   the connection broke: ask for another one
 *   judge    was it the worker's death? Known when the supervisor has seen it, at the latest when there is another worker
 */
#include <assert.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/request.h"
#include "api/response_record.h"
#include "base/hash.h"
#include "base/os.h"
#include "base/status.h"
#include "server/proxy_inside.h"

enum {
    SUSPECT_DEATHS = 2,          /* from so many on a request is a suspect */
    CLEARED_TOKENS = 8,          /* a guess: further than this from where workers died, it was not the request */
    BREAKS_MORE_MAX = 32,        /* connections that may break without being held against the request */
    BODY_BYTES_KEPT = 256 << 10, /* of a reply that is no stream: a longer one leaves as it comes */
    AHEAD_BYTES_MAX = 256 << 20, /* that one step of a stream may release: far more than a context has text */
    KNOWN_BYTES_MAX = 16 << 20,  /* 4 million tokens; 32,000 with 64 log probabilities each */
    PART_BYTES_KEPT = 64 << 10,  /* memory of frames in pieces that is not given back at once */
    HEADERS_MAX = 12,
    STATUS_MAX = 599, /* libcurl takes any of three digits */
};

static void broken(hth_relay *relay);

/* ---- errors ---- */

static void fail_with(hth_relay *relay, hth_api_error_kind kind, const char *message)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, kind, NULL, "%s", message);
    hth_relay_fail(relay, &error);
}

static void fail_without_memory(hth_relay *relay)
{
    fail_with(relay, HTH_API_OVERLOADED, "the server has no memory for the reply");
}

/* Clients' libraries would send it again of themselves, and the next worker would die of it. */
static void fail_for_good(hth_relay *relay, const hth_api_error *error)
{
    if (!relay->has_begun && relay->exchange)
        hth_http_header_add(relay->exchange, "x-should-retry", "false");
    hth_warn(relay->proxy->options.log, "request %s: given up: %s", relay->request_id, error->message);
    hth_relay_fail(relay, error);
}

static void fail_after_deaths(hth_relay *relay)
{
    static const char lines[] = "; its last lines:"; /* of its log: not for clients */
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_worker_view view;
    const char *cause = "", *end;

    if (hth_proxy_view(relay->proxy, relay->model->name, &view))
        cause = view.last_death;
    end = strstr(cause, lines);
    hth_api_fail(&error, HTH_API_INTERNAL, NULL,
                 "workers of model '%s' died %u times while they computed this request, which is not tried again%s%.*s",
                 relay->model->name, relay->n_deaths, cause[0] ? "; the last one: " : "",
                 end ? (int)(end - cause) : (int)strlen(cause), cause);
    fail_for_good(relay, &error);
}

static void fail_after_breaks(hth_relay *relay)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(
        &error, HTH_API_INTERNAL, NULL,
        "connections to workers of model '%s' broke off %u times while they computed this request, which is not "
        "tried again",
        relay->model->name, relay->n_breaks);
    fail_for_good(relay, &error);
}

static void fail_of_one_run(hth_relay *relay)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(
        &error, HTH_API_INTERNAL, NULL,
        "the connection to the worker of model '%s' broke off before its answer; the request is not tried again: the "
        "next worker's slots are empty, and the file may be written or not; send the prompt and the request anew",
        relay->model->name);
    fail_for_good(relay, &error);
}

/* ---- deaths ---- */

static bool is_suspect(const hth_relay *relay)
{
    return relay->n_deaths >= SUSPECT_DEATHS && !relay->is_cleared;
}

/* Decide what can be decided. False: the relay is over. */
static bool judge(hth_relay *relay, const hth_worker_view *view)
{
    if (!relay->is_unjudged)
        return true;
    if (view->n_deaths > relay->n_deaths_then) {
        relay->is_unjudged = false;
        relay->is_cleared = false;
        relay->n_deaths++;
    } else if (view->generation > relay->generation) {
        relay->is_unjudged = false; /* stopped in order */
    }
    if (relay->n_deaths <= relay->proxy->options.retries_max)
        return true;
    fail_after_deaths(relay);
    return false;
}

/* ---- waiting ---- */

static hth_relay *relay_of(hth_worker_waiter *waiter)
{
    return (hth_relay *)((char *)waiter - offsetof(hth_relay, waiter));
}

static void run(hth_relay *relay, const char *socket_path, uint64_t generation);

static void on_ready(hth_worker_waiter *waiter, const char *socket_path, uint64_t generation)
{
    hth_relay *relay = relay_of(waiter);
    hth_proxy_model *model = relay->model;

    /* A view is costly: one for each generation, and after breaks. */
    if (generation != model->generation || relay->is_unjudged) {
        hth_worker_view view;

        if (hth_proxy_view(relay->proxy, model->name, &view)) {
            if (generation != model->generation)
                model->n_deaths = view.n_deaths;
            model->generation = generation;
            if (!judge(relay, &view))
                return;
        }
    }
    if (is_suspect(relay) && !hth_relay_take_turn(relay))
        return;
    run(relay, socket_path, generation);
}

static void on_failed(hth_worker_waiter *waiter, const hearth_error *err)
{
    hth_relay *relay = relay_of(waiter);
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_worker_view view;

    if (relay->is_unjudged && hth_proxy_view(relay->proxy, relay->model->name, &view)) {
        if (!judge(relay, &view))
            return;
        /* It lives and is well; the connection broke all the same. */
        if (relay->is_unjudged && view.state == HTH_WORKER_READY && view.generation == relay->generation) {
            relay->is_unjudged = false;
            hth_relay_ask(relay, 0);
            return;
        }
    }
    hth_api_fail(&error, err->status == HEARTH_NOT_FOUND ? HTH_API_NOT_FOUND : HTH_API_OVERLOADED, NULL, "%s",
                 err->message);
    error.retry_after_s = err->retry_after_s;
    if (error.kind == HTH_API_OVERLOADED && error.retry_after_s == 0)
        error.retry_after_s = 1;
    hth_relay_fail(relay, &error);
}

void hth_relay_ask(hth_relay *relay, uint64_t after)
{
    hearth_error err;

    relay->state = HTH_RELAY_WAITING;
    relay->waiter = (hth_worker_waiter){ .on_ready = on_ready, .on_failed = on_failed, .since_ns = relay->begun_ns };
    if (hth_supervisor_want(relay->proxy->options.supervisor, relay->model->name, after, &relay->waiter, &err) !=
        HEARTH_OK)
        hth_relay_fail_status(relay, &err);
    else if (hth_relay_may_begin_early(relay))
        hth_proxy_watch_time(relay->proxy);
}

void hth_relay_let_go(hth_relay *relay)
{
    hth_worker_waiter_cancel(&relay->waiter);
    hth_upstream_cancel(relay->call);
    relay->call = NULL;
    hth_relay_leave_line(relay);
}

void hth_relay_on_room(void *user_data)
{
    hth_relay *relay = user_data;

    if (relay->is_paused && relay->call)
        hth_upstream_resume(relay->call);
    relay->is_paused = false;
}

/* ---- frames ---- */

/* What the worker has passed over of the request. It goes into a header, so nothing but a list of notes counts. */
static void note_passed_over(hth_relay *relay, const char *notes, size_t n)
{
    const char *at = relay->notes;
    char note[HTH_API_NOTE_BYTES + 1];

    if (n == 0 || n >= sizeof(relay->notes))
        return;
    memcpy(relay->notes, notes, n);
    relay->notes[n] = '\0';
    while (hth_api_notes_next(&at, note))
        ;
    if (strcmp(at, ", " HTH_API_NOTES_REST) == 0)
        at += strlen(at);
    relay->notes[at - relay->notes] = '\0';
    relay->record.notes = relay->notes;
}

static void take_head(hth_relay *relay, const hth_frame *frame)
{
    relay->has_run_head = true;
    if (relay->has_begun) {
        relay->is_refused = frame->is_stream != relay->is_stream || frame->status != relay->status;
        relay->n_again = relay->is_stream || relay->is_refused ? 0 : relay->record.bytes_out;
        relay->again_crc = 0;
        return;
    }
    hth_buffer_clear(&relay->body); /* it comes from its beginning */
    relay->has_head = true;
    relay->is_stream = frame->is_stream;
    relay->status = frame->status;
    relay->retry_after_s = frame->retry_after_s;
    memcpy(relay->content_type, frame->content_type, sizeof(relay->content_type));
    note_passed_over(relay, frame->notes, frame->n_notes);
    if (frame->is_stream)
        hth_relay_begin_stream(relay, frame->status, frame->content_type);
}

static void remember(hth_relay *relay, const hth_frame *frame)
{
    if (relay->is_refused || relay->is_known_lost)
        return;
    hth_frame_add_known(&relay->fresh, &relay->fresh_last, frame);
    if (!relay->fresh.failed && relay->fresh.n + relay->known.n <= HTH_KNOWN_BYTES_MAX)
        return;
    relay->is_known_lost = true;
    hth_buffer_deinit(&relay->fresh);
}

/* How long the tokens took, for metrics. */
static void note_tokens(hth_relay *relay, const hth_frame *frame)
{
    hth_metrics *metrics = relay->proxy->options.metrics;
    uint64_t *step_ns = &relay->step_ns, now_ns;

    if (!metrics || frame->n_tokens == 0)
        return;
    if (frame->reply > 0) {
        if (!relay->more_step_ns)
            relay->more_step_ns = calloc(HTH_API_REPLIES_MAX, sizeof(*relay->more_step_ns));
        if (!relay->more_step_ns)
            return;
        step_ns = &relay->more_step_ns[frame->reply];
    }
    now_ns = hth_os_monotonic_ns();
    if (*step_ns > 0)
        hth_metrics_note_tokens(metrics, relay->model->name, (double)(now_ns - *step_ns) / 1e6, frame->n_tokens);
    *step_ns = now_ns;
}

/* ---- bodies, with frames and without ---- */

static void keep(hth_relay *relay, const void *bytes, size_t n)
{
    hth_buffer_add(&relay->body, bytes, n);
    if (relay->body.failed)
        fail_without_memory(relay);
}

/* What has left is not what this worker says: nobody can tell which of them is right. */
static void cut_different(hth_relay *relay)
{
    hth_warn(relay->proxy->options.log, "request %s: the next worker of model '%s' makes another reply of it: cut off",
             relay->request_id, relay->model->name);
    hth_relay_cut(relay, 502);
}

/* Bytes that the client has already; how many of them that were. The relay may be over. */
static size_t pass_over(hth_relay *relay, const void *bytes, size_t n)
{
    size_t n_passed = n < relay->n_again ? n : (size_t)relay->n_again;

    relay->again_crc = hth_crc32c(relay->again_crc, bytes, n_passed);
    relay->n_again -= n_passed;
    if (relay->n_again == 0 && relay->again_crc != relay->body_crc)
        cut_different(relay);
    return n_passed;
}

/* It is longer than what is kept of one: it begins to leave. */
static void begin_body(hth_relay *relay)
{
    hth_relay_begin_stream(relay, relay->status, relay->content_type);
    relay->body_crc = hth_crc32c(0, hth_buffer_text(&relay->body), relay->body.n);
    hth_relay_write(relay, hth_buffer_text(&relay->body), relay->body.n);
    hth_buffer_deinit(&relay->body);
}

/* More of a body. A short one leaves whole, so that another worker may begin it anew; a longer one leaves as it comes. */
static void take_body(hth_relay *relay, const char *bytes, size_t n)
{
    if (relay->n_again > 0) {
        size_t n_passed = pass_over(relay, bytes, n);

        bytes += n_passed;
        n -= n_passed;
    }
    if (relay->state == HTH_RELAY_OVER || n == 0)
        return;
    if (relay->is_refused || !relay->has_begun) {
        if (relay->body.n + n <= BODY_BYTES_KEPT) {
            keep(relay, bytes, n);
            return;
        }
        if (relay->is_refused) /* only its reason is wanted */
            return;
        begin_body(relay);
    }
    relay->body_crc = hth_crc32c(relay->body_crc, bytes, n);
    hth_relay_write(relay, bytes, n);
}

/* ---- what frames say ---- */

static void take_step(hth_relay *relay, const hth_frame *frame)
{
    relay->n_new_tokens += frame->n_tokens;
    relay->record.n_tokens_out += frame->n_tokens;
    if (relay->n_new_tokens >= CLEARED_TOKENS && is_suspect(relay)) {
        relay->is_cleared = true;
        hth_relay_leave_line(relay);
    }
    note_tokens(relay, frame);
    if (frame->n_tokens > 0 || frame->reply_has_ended || frame->reply_has_begun)
        remember(relay, frame);
    if (!relay->has_begun || !relay->is_stream)
        return;
    relay->has_failed = relay->has_failed || frame->has_failed;
    hth_relay_write(relay, hth_buffer_text(&relay->ahead), relay->ahead.n);
    hth_relay_write(relay, frame->bytes, frame->n_bytes);
    hth_buffer_deinit(&relay->ahead);
}

/* Bytes ahead of their step. */
static void take_ahead(hth_relay *relay, const hth_frame *frame)
{
    if (frame->n_bytes > AHEAD_BYTES_MAX - relay->ahead.n) {
        fail_with(relay, HTH_API_INTERNAL, "one event of the reply is larger than this server passes on");
        return;
    }
    hth_buffer_add(&relay->ahead, frame->bytes, frame->n_bytes);
    if (relay->ahead.failed)
        fail_without_memory(relay);
}

static hth_api_error_kind kind_of(int status)
{
    switch (status) {
    case 404: return HTH_API_NOT_FOUND;
    case 413: return HTH_API_TOO_LARGE;
    case 503:
    case 529: return HTH_API_OVERLOADED;
    case 504: return HTH_API_TIMED_OUT;
    default: return status >= 400 && status < 500 ? HTH_API_INVALID_VALUE : HTH_API_INTERNAL;
    }
}

/*
 * The stream has begun, and this worker refuses the request: it says why, in the body of a reply. Where nothing of the reply
 * was told before, that is all; otherwise what was broken off cannot go on.
 */
static void fail_as_refused(hth_relay *relay, int status)
{
    json_t *body = json_loadb(hth_buffer_text(&relay->body), relay->body.n, 0, NULL);
    const json_t *said = json_object_get(body, "error");
    const char *why = json_string_value(json_is_object(said) ? json_object_get(said, "message") : said);
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (!why)
        why = "no reason given";
    if (relay->record.n_tokens_out == 0)
        hth_api_fail(&error, kind_of(status), NULL, "%s", why);
    else
        hth_api_fail(&error, status == 503 || status == 529 ? HTH_API_OVERLOADED : HTH_API_INTERNAL, NULL,
                     "the reply was broken off with its worker, and the next one cannot go on: %s", why);
    json_decref(body);
    relay->record.why =
        "the reply was broken off with its worker, and the next one cannot go on"; /* no worker's words */
    hth_relay_fail(relay, &error);
}

/* The exchange ends, so the call is given up before: its connection can be used again. */
static void release_call(hth_relay *relay)
{
    hth_upstream_call *call = relay->call;

    relay->call = NULL;
    hth_upstream_release(call);
}

/* A piece of what is to be kept. What nobody keeps, or is too long, is passed over. */
static void take_record(hth_relay *relay, const hth_frame *frame)
{
    hth_buffer *record = &relay->record_bytes;
    hth_response_record read;

    if (!relay->on_record || relay->has_whole_record)
        return;
    if (record->n + frame->n_bytes > HTH_RESPONSE_RECORD_BYTES_MAX)
        record->failed = true;
    hth_buffer_add(record, frame->bytes, frame->n_bytes);
    if (!frame->has_begun) {
        relay->has_whole_record = frame->is_last && !record->failed;
        return;
    }
    if (!frame->is_last)
        return;
    if (relay->on_begun && relay->exchange && !relay->has_begun && !record->failed &&
        hth_response_record_read(record->text, record->n, &read) &&
        hth_relay_detach(relay, read.response, read.n_response))
        relay->on_begun(record->text, record->n, relay->user_data);
    hth_buffer_deinit(record);
}

static void end_well(hth_relay *relay, int status)
{
    if (relay->has_whole_record)
        relay->on_record(relay->record_bytes.text, relay->record_bytes.n, relay->user_data);
    if (relay->has_begun)
        hth_relay_end_stream(relay, status);
    else
        hth_relay_reply(relay, relay->status, relay->content_type, hth_buffer_text(&relay->body), relay->body.n);
}

static void take_end(hth_relay *relay, const hth_frame *frame)
{
    int status = (int)frame->summary.status;

    release_call(relay);
    relay->record.has_summary = true;
    relay->record.summary = frame->summary;
    if (status < 200 || status > 599)
        status = relay->status;
    if (relay->is_refused)
        fail_as_refused(relay, status);
    else if (relay->n_again > 0)
        cut_different(relay);
    else
        end_well(relay, status);
}

/* False: it makes no sense. */
static bool take(hth_relay *relay, const hth_frame *frame)
{
    bool is_stream = relay->has_run_head && relay->is_stream && !relay->is_refused;

    switch (frame->kind) {
    case HTH_FRAME_HEAD:
        if (relay->has_run_head)
            return false;
        take_head(relay, frame);
        return true;
    case HTH_FRAME_STEP:
        if (frame->reply >= HTH_API_REPLIES_MAX || (frame->n_bytes > 0 && !is_stream))
            return false;
        take_step(relay, frame);
        return true;
    case HTH_FRAME_BYTES:
        if (!relay->has_run_head)
            return false;
        if (is_stream)
            take_ahead(relay, frame);
        else
            take_body(relay, frame->bytes, frame->n_bytes);
        return true;
    case HTH_FRAME_CACHED:
    case HTH_FRAME_OUTCOME:
        if (frame->reply >= HTH_API_REPLIES_MAX)
            return false;
        remember(relay, frame);
        return true;
    case HTH_FRAME_MODEL: remember(relay, frame); return true;
    case HTH_FRAME_RECORD: take_record(relay, frame); return true;
    case HTH_FRAME_END:
        if (!relay->has_run_head || relay->ahead.n > 0)
            return false;
        take_end(relay, frame);
        return true;
    }
    return false;
}

/* What the worker says is not to be trusted. */
static void give_up_call(hth_relay *relay, const char *what)
{
    hth_upstream_cancel(relay->call);
    relay->call = NULL;
    hth_warn(relay->proxy->options.log, "request %s: the worker of model '%s' sent something that is no %s",
             relay->request_id, relay->model->name, what);
    broken(relay);
}

/* Frames, of which the last one may be in part. Those that are whole are read where they are. */
static void take_frames(hth_relay *relay, const char *bytes, size_t n)
{
    hth_upstream_call *call = relay->call;
    bool is_joined = relay->part.n > 0;
    hth_frame_result result = HTH_FRAME_OK;

    if (is_joined) {
        hth_buffer_add(&relay->part, bytes, n);
        bytes = relay->part.text;
        n = relay->part.n;
    }
    while (!relay->part.failed && result == HTH_FRAME_OK && relay->call == call) {
        hth_frame frame;
        size_t n_used = 0;

        result = hth_frame_read(bytes, n, &frame, &n_used);
        bytes += n_used;
        n -= n_used;
        if (result == HTH_FRAME_BAD || (result == HTH_FRAME_OK && !take(relay, &frame))) {
            give_up_call(relay, "frame");
            return;
        }
    }
    if (relay->call != call)
        return; /* it has ended, one way or another */
    if (!is_joined && n > 0) {
        hth_buffer_add(&relay->part, bytes, n);
    } else if (is_joined && !relay->part.failed && bytes != relay->part.text) {
        /* Only where a frame was taken: one that comes in many pieces would cost its square. */
        memmove(relay->part.text, bytes, n);
        relay->part.n = n;
    }
    if (relay->part.failed)
        fail_without_memory(relay);
    else if (n == 0 && relay->part.capacity > PART_BYTES_KEPT)
        hth_buffer_deinit(&relay->part);
}

/* ---- replies without frames ---- */

/*
 * A stream of lines began early, with nothing but space between lines, and the whole reply is one answer: as Ollama's, that
 * a model is loaded.
 */
static bool is_one_line(const hth_relay *relay)
{
    return relay->is_refused && relay->is_lines && relay->status == 200 && relay->record.n_tokens_out == 0;
}

static void end_plain(hth_relay *relay)
{
    if (is_one_line(relay)) {
        hth_buffer_add(&relay->body, "\n", 1);
        if (relay->body.failed) {
            fail_without_memory(relay);
            return;
        }
        hth_relay_write(relay, relay->body.text, relay->body.n);
        if (relay->state != HTH_RELAY_OVER)
            hth_relay_end_stream(relay, relay->status);
    } else if (relay->is_refused)
        fail_as_refused(relay, relay->status);
    else if (relay->has_begun)
        hth_relay_end_stream(relay, relay->status);
    else
        hth_relay_reply(relay, relay->status, relay->content_type[0] ? relay->content_type : NULL,
                        hth_buffer_text(&relay->body), relay->body.n);
}

/* ---- a run ---- */

static void on_head(const hth_upstream_head *head, void *user_data)
{
    hth_relay *relay = user_data;

    if (head->status > STATUS_MAX) {
        give_up_call(relay, "reply");
        return;
    }
    relay->is_framed = relay->generates && strcmp(head->content_type, HTH_FRAMES_CONTENT_TYPE) == 0;
    if (relay->is_framed)
        return;
    if (relay->has_begun) {
        relay->is_refused = true; /* plain streams that have begun are not run again */
        relay->status = head->status;
        return;
    }
    hth_buffer_clear(&relay->body);
    relay->status = head->status;
    relay->retry_after_s = head->retry_after_s;
    (void)snprintf(relay->content_type, sizeof(relay->content_type), "%s",
                   head->content_type); /* cut where it is too long */
    note_passed_over(relay, head->notes, strlen(head->notes));
}

static bool on_bytes(const void *bytes, size_t n, void *user_data)
{
    hth_relay *relay = user_data;

    if (hth_relay_is_backlogged(relay)) {
        relay->is_paused = true;
        return false;
    }
    if (relay->is_framed)
        take_frames(relay, bytes, n);
    else
        take_body(relay, bytes, n);
    return true;
}

static void on_done(hearth_status status, const hearth_error *err, void *user_data)
{
    hth_relay *relay = user_data;

    relay->call = NULL;
    if (status == HEARTH_NO_MEMORY)
        hth_relay_fail_status(relay, err);
    else if (status == HEARTH_OK && !relay->is_framed)
        end_plain(relay);
    else
        broken(relay);
}

static void broken(hth_relay *relay)
{
    hth_proxy_model *model = relay->model;
    bool is_anothers_turn =
        (model->on_turn && model->on_turn != relay) || model->generation_of_turn == relay->generation;
    hth_worker_view view;

    if (relay->has_failed) {
        hth_relay_end_stream(relay, 500); /* it has had its error */
        return;
    }
    if (!relay->generates && relay->has_begun) {
        hth_relay_cut(relay, 502);
        return;
    }
    if (model->on_turn == relay) {
        model->generation_of_turn = relay->generation;
        is_anothers_turn = false;
    }
    hth_relay_leave_line(relay);
    relay->n_breaks++;
    relay->is_unjudged = !is_anothers_turn;
    hth_info(relay->proxy->options.log, "request %s: the connection to the worker of model '%s' broke",
             relay->request_id, model->name);
    hth_supervisor_note_broken(relay->proxy->options.supervisor, model->name, relay->generation);
    if (relay->is_known_lost && relay->has_begun) {
        fail_with(relay, HTH_API_OVERLOADED,
                  "the reply was broken off with its worker and cannot go on: it is too long to be remembered here");
        return;
    }
    if (relay->is_once) {
        fail_of_one_run(relay);
        return;
    }
    if (relay->n_breaks > relay->proxy->options.retries_max + BREAKS_MORE_MAX) {
        fail_after_breaks(relay);
        return;
    }
    if (relay->is_unjudged && hth_proxy_view(relay->proxy, model->name, &view) && !judge(relay, &view))
        return;
    hth_relay_ask(relay, relay->generation);
}

static void add_header(hth_upstream_request *request, hth_upstream_header *headers, const char *name, const char *value)
{
    if (!value)
        return;
    assert(request->n_headers < HEADERS_MAX);
    headers[request->n_headers++] = (hth_upstream_header){ .name = name, .value = value };
}

static const char *number_text(char *text, size_t capacity, uint64_t number)
{
    (void)snprintf(text, capacity, "%llu", (unsigned long long)number); /* fits */
    return text;
}

/* Nothing that was said of the reply counts: it begins anew. */
static void forget(hth_relay *relay)
{
    relay->has_head = false;
    relay->is_known_lost = false;
    relay->record.n_tokens_out = 0;
    hth_buffer_clear(&relay->body);
    hth_buffer_clear(&relay->known);
    hth_buffer_clear(&relay->fresh);
}

static void begin_run(hth_relay *relay)
{
    relay->is_framed = false;
    relay->has_run_head = false;
    relay->is_refused = false;
    relay->is_paused = false;
    relay->n_new_tokens = 0;
    relay->n_again = 0;
    hth_buffer_clear(&relay->part);
    hth_buffer_deinit(&relay->ahead);
    hth_buffer_deinit(&relay->record_bytes);
    relay->has_whole_record = false;
    /* A whole reply that was an error was no tokens' doing: the next worker answers anew. */
    if (!relay->generates || (!relay->has_begun && (relay->is_known_lost || (relay->has_head && relay->status >= 400))))
        forget(relay);
    if (relay->fresh.n > 0)
        hth_buffer_add(&relay->known, relay->fresh.text, relay->fresh.n);
    hth_buffer_clear(&relay->fresh);
}

static const char *body_of(const hth_relay *relay, size_t *n_out)
{
    if (!relay->kept_body)
        return hth_http_body(relay->exchange, n_out);
    *n_out = relay->n_kept_body;
    return relay->kept_body;
}

/* Send the request. */
static void run(hth_relay *relay, const char *socket_path, uint64_t generation)
{
    const hth_upstream_watch watch = {
        .on_head = on_head, .on_bytes = on_bytes, .on_done = on_done, .user_data = relay
    };
    const char *type = relay->kept_body ? relay->kept_type : hth_http_header(relay->exchange, "Content-Type");
    hth_upstream_header headers[HEADERS_MAX];
    hth_upstream_request request = {
        .socket_path = socket_path, .method = relay->method, .target = relay->target, .headers = headers
    };
    char seed[24], created[24], n_known[24], n_past[24];
    hearth_error err;

    begin_run(relay);
    if (relay->known.failed) {
        fail_without_memory(relay);
        return;
    }
    if (strcmp(relay->method, "POST") == 0) /* elsewhere it means nothing, and HEAD with one is no HEAD for libcurl */
        request.body[2] = body_of(relay, &request.body_bytes[2]);
    add_header(&request, headers, "Content-Type", type ? type : "application/json");
    add_header(&request, headers, HTH_HEADER_REQUEST_ID, relay->request_id);
    add_header(&request, headers, "traceparent", relay->traceparent);
    add_header(&request, headers, HTH_HEADER_SALT, relay->salt);
    if (relay->generates) {
        add_header(&request, headers, HTH_HEADER_FRAMES, "1");
        add_header(&request, headers, HTH_HEADER_ID, relay->id);
        add_header(&request, headers, HTH_HEADER_CREATED, number_text(created, sizeof(created), relay->created_s));
        add_header(&request, headers, HTH_HEADER_SEED, number_text(seed, sizeof(seed), relay->seed));
    }
    /* Another worker had it, so it has its place in the queue, whether or not anything came of it there. */
    if (relay->generates && relay->n_runs > 0) {
        request.body[0] = relay->known.text;
        request.body_bytes[0] = relay->known.n;
        add_header(&request, headers, HTH_HEADER_KNOWN, number_text(n_known, sizeof(n_known), relay->known.n));
    }
    if (relay->past_bytes > 0) {
        request.body[1] = relay->past;
        request.body_bytes[1] = relay->past_bytes;
        add_header(&request, headers, HTH_HEADER_PAST, number_text(n_past, sizeof(n_past), relay->past_bytes));
    }
    relay->generation = generation;
    relay->n_deaths_then = relay->model->n_deaths;
    relay->state = HTH_RELAY_RUNNING;
    relay->n_runs++;
    if (relay->n_runs > 1)
        hth_info(relay->proxy->options.log, "request %s: goes on in another worker of model '%s'", relay->request_id,
                 relay->model->name);
    if (hth_upstream_begin(relay->proxy->options.upstream, &request, &watch, &relay->call, &err) != HEARTH_OK)
        hth_relay_fail_status(relay, &err);
}
