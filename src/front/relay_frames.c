/*
 * relay_frames.c - one relay: the bytes of its worker become the bytes of its client
 *
 *   on head, with frames        SILENT -> FRAMES     HEAD frame: FRAMES -> REPLY    END frame: the relay is over
 *   on head, without frames     SILENT -> PLAIN      the end of the body: the relay is over
 *
 * STEP frames bring tokens and, in a stream, bytes; BYTES frames bring the bytes of a body, or bytes of a stream before
 * their STEP. The relay remembers tokens, so that another worker can continue the reply, and forwards the bytes.
 *
 * A body of at most BODY_BYTES_KEPT bytes leaves whole at its end, so another worker can begin it anew. A longer body
 * leaves as it comes. When its worker dies, the next worker sends it from the beginning: the relay discards the bytes
 * that the client has, and checks by their checksum that they are the same.
 *
 * A worker that gets a reply whose stream has begun can refuse it. The worker's answer then goes to relay->body, and
 * its reason ends the stream (is_refused).
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/request.h"
#include "dialects/response_record.h"
#include "base/hash.h"
#include "base/os.h"
#include "base/status.h"
#include "front/proxy_inside.h"

enum {
    CLEARED_TOKENS = 8,          /* a guess: a reply that came so far after a death was not its cause */
    BODY_BYTES_KEPT = 256 << 10, /* a longer body leaves as it comes */
    AHEAD_BYTES_MAX = 256 << 20, /* of one step of a stream: far more than the text of a context */
    KNOWN_BYTES_MAX = 16 << 20,  /* 4 million tokens; 32,000 with 64 log probabilities each */
    PART_BYTES_KEPT = 64 << 10,  /* a larger buffer of partial frames is freed when it is empty */
};

void hth_relay_note_ignored(hth_relay *relay, const char *notes, size_t n)
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
    relay->run = HTH_RUN_REPLY;
    if (relay->has_begun) {
        relay->is_refused = frame->is_stream != relay->is_stream || frame->status != relay->status;
        relay->n_again = relay->is_stream || relay->is_refused ? 0 : relay->record.bytes_out;
        relay->again_crc = 0;
        return;
    }
    hth_buffer_clear(&relay->body); /* the worker sends it from its beginning */
    relay->has_head = true;
    relay->is_stream = frame->is_stream;
    relay->status = frame->status;
    relay->retry_after_s = frame->retry_after_s;
    memcpy(relay->content_type, frame->content_type, sizeof(relay->content_type));
    hth_relay_note_ignored(relay, frame->notes, frame->n_notes);
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

static void note_served(const hth_relay *relay)
{
    hth_supervisor_note_served(relay->proxy->options.supervisor, relay->model->name, relay->generation);
}

/* Tell the metrics how long the tokens took. */
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
        hth_relay_fail_without_memory(relay);
}

/* The client has other bytes than this worker sends, and nothing tells which are right: cut the reply off. */
static void cut_different(hth_relay *relay)
{
    hth_warn(relay->proxy->options.log, "request %s: the next worker of model '%s' makes another reply of it: cut off",
             relay->request_id, relay->model->name);
    hth_relay_cut(relay, 502);
}

/* Discard bytes that the client has, and return how many. The relay may be over. */
static size_t pass_over(hth_relay *relay, const void *bytes, size_t n)
{
    size_t n_passed = n < relay->n_again ? n : (size_t)relay->n_again;

    relay->again_crc = hth_crc32c(relay->again_crc, bytes, n_passed);
    relay->n_again -= n_passed;
    if (relay->n_again == 0 && relay->again_crc != relay->body_crc)
        cut_different(relay);
    return n_passed;
}

/* The body is too long to be kept: it begins to leave. */
static void begin_body(hth_relay *relay)
{
    hth_relay_begin_stream(relay, relay->status, relay->content_type);
    relay->body_crc = hth_crc32c(0, hth_buffer_text(&relay->body), relay->body.n);
    hth_relay_write(relay, hth_buffer_text(&relay->body), relay->body.n);
    hth_buffer_deinit(&relay->body);
}

/*
 * More of a body. A short one leaves whole, so that another worker may begin it anew; a longer one leaves as it comes.
 */
void hth_relay_take_body(hth_relay *relay, const char *bytes, size_t n)
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
        if (relay->is_refused) /* only the reason in its first bytes is needed */
            return;
        begin_body(relay);
    }
    relay->body_crc = hth_crc32c(relay->body_crc, bytes, n);
    hth_relay_write(relay, bytes, n);
}

/* ---- what frames say ---- */

static void take_step(hth_relay *relay, const hth_frame *frame)
{
    if (relay->n_new_tokens < CLEARED_TOKENS && relay->n_new_tokens + frame->n_tokens >= CLEARED_TOKENS)
        note_served(relay);
    relay->n_new_tokens += frame->n_tokens;
    relay->came_further = relay->came_further || frame->n_tokens > 0;
    relay->record.n_tokens_out += frame->n_tokens;
    if (relay->n_new_tokens >= CLEARED_TOKENS && hth_relay_is_suspect(relay)) {
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

/* Keep bytes of a stream until their step comes. */
static void take_ahead(hth_relay *relay, const hth_frame *frame)
{
    if (frame->n_bytes > AHEAD_BYTES_MAX - relay->ahead.n) {
        hth_relay_fail_with(relay, HTH_API_INTERNAL, "one event of the reply is larger than this server passes on");
        return;
    }
    hth_buffer_add(&relay->ahead, frame->bytes, frame->n_bytes);
    if (relay->ahead.failed)
        hth_relay_fail_without_memory(relay);
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
 * The worker refused a reply whose stream has begun; its answer is in relay->body. End the stream with the reason.
 * Where the client has tokens already, tell that the reply cannot be continued.
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
        "the reply was broken off with its worker, and the next one cannot go on"; /* not the worker's words */
    hth_relay_fail(relay, &error);
}

/* Release the call before the exchange ends, so that its connection can be used again. */
static void release_call(hth_relay *relay)
{
    hth_upstream_call *call = relay->call;

    relay->call = NULL;
    hth_upstream_release(call);
}

/* Take a piece of the reply's record. A record that nobody stores, or that is too long, is dropped. */
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
    note_served(relay);
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

/* False: the frame is not allowed here. */
static bool take(hth_relay *relay, const hth_frame *frame)
{
    bool is_stream = relay->run == HTH_RUN_REPLY && relay->is_stream && !relay->is_refused;

    switch (frame->kind) {
    case HTH_FRAME_HEAD:
        if (relay->run == HTH_RUN_REPLY)
            return false;
        take_head(relay, frame);
        return true;
    case HTH_FRAME_STEP:
        if (frame->reply >= HTH_API_REPLIES_MAX || (frame->n_bytes > 0 && !is_stream))
            return false;
        take_step(relay, frame);
        return true;
    case HTH_FRAME_BYTES:
        if (relay->run != HTH_RUN_REPLY)
            return false;
        if (is_stream)
            take_ahead(relay, frame);
        else
            hth_relay_take_body(relay, frame->bytes, frame->n_bytes);
        return true;
    case HTH_FRAME_CACHED:
    case HTH_FRAME_OUTCOME:
        if (frame->reply >= HTH_API_REPLIES_MAX)
            return false;
        remember(relay, frame);
        return true;
    case HTH_FRAME_MODEL: remember(relay, frame); return true;
    case HTH_FRAME_RECORD: take_record(relay, frame); return true;
    case HTH_FRAME_WORK:
        if (frame->n_worked > relay->record.n_tokens_in) { /* a worker before may have done more */
            relay->record.n_tokens_in = frame->n_worked;
            relay->came_further = true;
        }
        return true;
    case HTH_FRAME_END:
        if (relay->run != HTH_RUN_REPLY || relay->ahead.n > 0)
            return false;
        take_end(relay, frame);
        return true;
    }
    return false;
}

void hth_relay_take_frames(hth_relay *relay, const char *bytes, size_t n)
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
            hth_relay_give_up_call(relay, "frame");
            return;
        }
    }
    if (relay->call != call)
        return; /* the call has ended */
    if (!is_joined && n > 0) {
        hth_buffer_add(&relay->part, bytes, n);
    } else if (is_joined && !relay->part.failed && bytes != relay->part.text) {
        /* Only after a whole frame: moving each piece of a long frame would take quadratic time. */
        memmove(relay->part.text, bytes, n);
        relay->part.n = n;
    }
    if (relay->part.failed)
        hth_relay_fail_without_memory(relay);
    else if (n == 0 && relay->part.capacity > PART_BYTES_KEPT)
        hth_buffer_deinit(&relay->part);
}

/* ---- replies without frames ---- */

/*
 * A stream of lines began early with spaces only, and the worker's whole reply is one line. This happens when Ollama's
 * client loads a model.
 */
static bool is_one_line(const hth_relay *relay)
{
    return relay->is_refused && relay->form == HTH_FORM_LINES && relay->status == 200 &&
           relay->record.n_tokens_out == 0;
}

void hth_relay_end_plain(hth_relay *relay)
{
    if (is_one_line(relay)) {
        hth_buffer_add(&relay->body, "\n", 1);
        if (relay->body.failed) {
            hth_relay_fail_without_memory(relay);
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
