/*
 * worker_job_reply.c - one job: events into bytes, and bytes to its client
 *
 * The bytes of a stream leave with the tokens that released them. A body is written after all of its replies have
 * ended, piece by piece as its reader takes it, so that memory holds one piece only.
 *
 * When a reply is resumed after a worker died, the client has already received the text of the known tokens. The writer
 * processes that text again to restore its state, and its output is discarded. A body is written from its beginning,
 * and its reader discards the bytes that it has. Log probabilities, the number of cached tokens and the end of a reply
 * repeat what the worker before told. This worker's own values could differ: it found rows that the worker before had
 * made, and its log probabilities can differ in the last digit.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/os.h"
#include "worker/worker_job_inside.h"

enum {
    STEP_BYTES_MAX = 64 << 10,              /* of a step; a larger one becomes a frame at once */
    BODY_BYTES_AT_ONCE = 32 << 10,          /* of a piece */
    BODY_WHOLE_BYTES = HTH_HTTP_BACKLOG_MAX /* a shorter body has a Content-Length */
};

static const char body_type[] = "application/json";

/* ---- whole replies ---- */

static void add_retry_after(hth_http_exchange *exchange, uint32_t seconds)
{
    char text[16];

    if (seconds == 0)
        return;
    (void)snprintf(text, sizeof(text), "%u", seconds); /* sized for it */
    hth_http_header_add(exchange, "Retry-After", text);
}

void hth_job_reply_error(hth_http_exchange *exchange, hth_api_dialect dialect, const hth_api_error *error)
{
    hth_buffer body = { .text = NULL };

    hth_api_error_write(dialect, error, &body);
    add_retry_after(exchange, error->retry_after_s);
    hth_http_reply(exchange, hth_api_error_http_status(dialect, error), body_type, hth_buffer_text(&body), body.n);
    hth_buffer_deinit(&body);
}

void hth_job_add_notes(hth_job *job)
{
    const hth_api_request *request = job->task.request;

    if (!job->is_framed && request && request->notes.n_bytes > 0)
        hth_http_header_add(job->exchange, HTH_API_NOTES_HEADER, request->notes.text);
}

/* The exchange ends with this. */
static hth_http_exchange *take_exchange(hth_job *job)
{
    hth_http_exchange *exchange = job->exchange;

    job->exchange = NULL;
    return exchange;
}

static void add_head(hth_job *job, int status, bool is_stream, uint32_t retry_after_s)
{
    hth_frame_add_head(&job->jobs->wire, status, is_stream, retry_after_s,
                       is_stream ? hth_api_stream_type(job->dialect) : body_type,
                       job->task.request ? job->task.request->notes.text : NULL);
    job->has_head = true;
}

static void add_end(hth_job *job, int status)
{
    job->summary.status = (uint32_t)status;
    hth_frame_add_end(&job->jobs->wire, &job->summary);
}

/* The tokens count in logs, metrics and limits. */
static void add_embedded(hth_job *job)
{
    const hearth_embeddings *embeddings = job->task.embeddings;

    if (!embeddings)
        return;
    job->summary.figures.n_prompt_tokens = (uint32_t)embeddings->n_tokens_total; /* at most 4 Mi */
    job->summary.figures.n_cached_tokens = (uint32_t)embeddings->n_tokens_cached;
    job->summary.figures.prepare_ms = fmax(job->prepare_ms - embeddings->queue_ms - embeddings->compute_ms, 0);
    job->summary.figures.queue_ms = embeddings->queue_ms;
    job->summary.figures.prefill_ms = embeddings->compute_ms;
}

void hth_job_reply_answer(hth_job *job)
{
    const hth_buffer *answer = &job->task.answer;
    hth_buffer *wire = &job->jobs->wire;

    if (!job->is_framed) {
        hth_job_add_notes(job);
        hth_http_reply(take_exchange(job), 200, body_type, hth_buffer_text(answer), answer->n);
        return;
    }
    hth_buffer_clear(wire);
    add_head(job, 200, false, 0);
    hth_frame_add_bytes(wire, hth_buffer_text(answer), answer->n);
    add_end(job, 200);
    if (wire->failed)
        hth_http_abort(take_exchange(job));
    else
        hth_http_reply(take_exchange(job), 200, HTH_FRAMES_CONTENT_TYPE, wire->text, wire->n);
}

/* ---- steps ---- */

static bool is_streamed(const hth_job *job)
{
    return job->task.request->stream;
}

/* Add the step as a frame. Log probabilities go with it while bytes that show them have not left. */
static void add_step(hth_job *job)
{
    hth_api_reply *reply = job->task.reply;
    hth_buffer *wire = &job->jobs->wire, *piece = &job->jobs->piece;
    hth_job_step *s = &job->jobs->step;
    bool is_stream = is_streamed(job) && hth_api_reply_http_status(reply) == 200;
    hth_frame_tokens tokens = {
        .ids = s->tokens, .n = s->n_tokens, .has_state = s->n_tokens > 0 && !isnan(s->state), .state = s->state
    };
    unsigned flags = (s->has_begun ? HTH_STEP_BEGINS : 0) | (s->has_ended ? HTH_STEP_ENDS : 0);

    if (!is_stream || hth_api_reply_has_untold(reply, s->reply)) {
        tokens.logprobs = s->logprobs;
        tokens.n_logprobs = s->n_logprobs;
    }
    if (!job->has_told_model && !job->task.known.has_model)
        hth_frame_add_model(wire, job->task.digest);
    job->has_told_model = true;
    if (hth_api_reply_failure(reply) != 0)
        flags |= HTH_STEP_FAILS; /* the last frame of the reply */
    if (piece->n > 0 && !job->has_head)
        add_head(job, hth_api_reply_http_status(reply), is_stream, 0);
    if (!is_stream)
        hth_frame_add_bytes(wire, hth_buffer_text(piece), piece->n);
    hth_frame_add_step(wire, s->reply, flags, &tokens, hth_buffer_text(piece), is_stream ? piece->n : 0);
}

/* Add the open step to the wire: as a frame, or as bytes for a client. */
static void close_step(hth_job *job)
{
    hth_buffer *wire = &job->jobs->wire, *piece = &job->jobs->piece;
    hth_job_step *s = &job->jobs->step;

    if (!job->is_framed)
        hth_buffer_add(wire, hth_buffer_text(piece), piece->n);
    else if (s->is_open && (s->n_tokens > 0 || piece->n > 0 || s->has_ended))
        add_step(job);
    wire->failed |= piece->failed;
    hth_buffer_clear(piece);
    s->is_open = false;
    s->has_begun = false;
    s->has_ended = false;
    s->n_tokens = 0;
}

/* Is the open step as large as a frame should be? */
static bool is_step_full(const hth_job *job)
{
    const hth_job_step *s = &job->jobs->step;

    return job->jobs->piece.n >= STEP_BYTES_MAX || hth_frame_token_bytes(s->n_tokens, s->n_logprobs) >= STEP_BYTES_MAX;
}

static bool add_logprobs(hth_job_step *s, const hearth_logprob *logprobs)
{
    size_t n = (size_t)s->n_tokens * s->n_logprobs;
    hearth_logprob *grown;

    if (s->n_logprobs == 0)
        return true;
    grown = hth_grown_by(s->logprobs, n, s->n_logprobs, &s->logprobs_capacity, sizeof(*grown));
    if (!grown)
        return false;
    s->logprobs = grown;
    memcpy(grown + n, logprobs, s->n_logprobs * sizeof(*grown));
    return true;
}

static void add_token(hth_job *job, const hearth_token_event *token)
{
    hth_job_step *s = &job->jobs->step;
    hearth_token *grown = hth_grown(s->tokens, s->n_tokens, &s->tokens_capacity, sizeof(*grown));

    s->n_logprobs = token->logprobs ? 1 + token->n_top_logprobs : 0;
    if (grown)
        s->tokens = grown;
    if (!grown || !add_logprobs(s, token->logprobs)) {
        job->jobs->wire.failed = true;
        return;
    }
    s->tokens[s->n_tokens++] = token->token;
    s->state = token->sampler_state;
}

/* ---- events into bytes ---- */

/* Did the worker before already send the bytes of this event? Only of streams. */
static bool has_left(const hth_job *job, const hth_reply_event *event)
{
    const hth_known *known = &job->task.known;

    if (known->n_replies == 0 || !is_streamed(job))
        return false;
    if (hth_known_has_ended(known, event->reply))
        return true;
    switch (event->kind) {
    case HTH_REPLY_EVENT_TOKEN: return event->token.index < hth_known_n(known, event->reply);
    case HTH_REPLY_EVENT_TEXT:
        return job->replies[event->reply].n_tokens <
               hth_known_n(known, event->reply);                               /* the text leaves with that token */
    case HTH_REPLY_EVENT_PREFILL: return hth_known_n(known, event->reply) > 0; /* the prompt was read before */
    default: return false;
    }
}

static void take_text(hth_job *job, uint32_t reply, const char *text, size_t n)
{
    job->replies[reply].has_new_line |= n > 0 && memchr(text, '\n', n);
    hth_api_reply_text(job->task.reply, reply, text, n, &job->jobs->piece);
}

static void take_token(hth_job *job, const hth_reply_event *event)
{
    hth_api_reply *reply = job->task.reply;
    hth_buffer *piece = &job->jobs->piece;
    hearth_token_event token = event->token;
    const hearth_logprob *known;
    hearth_stats stats;
    uint32_t n_known = 0;

    job->replies[event->reply].n_tokens = token.index + 1;
    known = hth_known_logprobs(&job->task.known, event->reply, token.index, &n_known);
    if (token.logprobs && known && n_known == 1 + token.n_top_logprobs)
        token.logprobs = known;
    if (token.index >= hth_known_n(&job->task.known, event->reply))
        add_token(job, &token);
    if (token.stats) { /* with the number of cached tokens that the client has seen */
        stats = *token.stats;
        stats.cached_tokens = job->replies[event->reply].n_cached;
        token.stats = &stats;
    }
    hth_api_reply_token(reply, event->reply, &token, piece);
    if (token.n_bytes > 0)
        take_text(job, event->reply, token.text, token.n_bytes);
}

/*
 * Discard the bytes of an event that the worker before has sent. The end of all replies stays, where this reply is the
 * last one to end here but was not there.
 */
static void drop_old(hth_job *job, size_t n_before)
{
    hth_buffer *piece = &job->jobs->piece;
    size_t n_end = hth_api_reply_n_end_bytes(job->task.reply);

    if (hth_api_reply_failure(job->task.reply) != 0 || piece->failed)
        return;
    if (hth_known_is_all(&job->task.known, job->task.n_replies))
        n_end = 0;
    if (n_end > 0)
        memmove(piece->text + n_before, piece->text + piece->n - n_end, n_end);
    piece->n = n_before + n_end;
    job->jobs->step.has_ended |= n_end > 0; /* the step frame repeats the end of the reply */
}

/* Note the number of cached tokens of the prompt. It is final with the first token. */
static void take_cached(hth_job *job, const hth_reply_event *event)
{
    hth_job_reply *reply = &job->replies[event->reply];

    if (event->kind == HTH_REPLY_EVENT_PROGRESS && !reply->has_cached)
        reply->n_cached = event->n_done;
    if (event->kind == HTH_REPLY_EVENT_DONE && !reply->has_cached)
        reply->n_cached = event->result->stats->cached_tokens;
    if (event->kind == HTH_REPLY_EVENT_PROGRESS || event->kind == HTH_REPLY_EVENT_PREFILL || reply->has_cached ||
        reply->is_cached_told)
        return;
    reply->is_cached_told = true;
    if (job->is_framed && hth_known_n(&job->task.known, event->reply) == 0)
        hth_frame_add_cached(&job->jobs->wire, event->reply, reply->n_cached);
}

static void take_prefill(hth_job *job, const hth_reply_event *event)
{
    hth_job_reply *reply = &job->replies[event->reply];
    uint64_t now_ns = hth_os_monotonic_ns();

    reply->n_read = event->n_done;
    if (reply->read_ns == 0)
        reply->read_ns = now_ns;
    job->jobs->step.has_begun |= hth_api_reply_prefill(job->task.reply, event->reply, event->n_done,
                                                       (double)(now_ns - reply->read_ns) / 1e6, &job->jobs->piece);
}

/* ---- ends ---- */

static hth_frame_figures figures_of(const hearth_stats *stats)
{
    return (hth_frame_figures){
        .n_prompt_tokens = stats->prompt_tokens,
        .n_cached_tokens = stats->cached_tokens,
        .n_reply_tokens = stats->completion_tokens,
        .hit = stats->hit,
        .tier = stats->tier,
        .miss = stats->miss,
        .n_draft_tokens = stats->draft_tokens,
        .n_draft_accepted_tokens = stats->draft_accepted_tokens,
        .left_at = stats->left_at,
        .slot = HTH_FRAME_NO_SLOT,
        .queue_ms = stats->queue_ms,
        .restore_ms = stats->restore_ms,
        .prefill_ms = stats->prefill_ms,
        .ttft_ms = stats->ttft_ms,
        .decode_ms = stats->decode_ms,
    };
}

static hth_frame_outcome outcome_of(const hearth_result *result)
{
    hth_frame_outcome outcome = {
        .finish = result->finish_reason,
        .stop_number = result->stop_number,
        .n_finish_tokens = result->stats->finish_tokens,
        .figures = figures_of(result->stats),
    };

    static_assert(sizeof(outcome.finish_key) == sizeof(result->stats->finish_key), "a key is a key");
    memcpy(outcome.finish_key, result->stats->finish_key, sizeof(outcome.finish_key));
    return outcome;
}

/* The statistics that the API's writers need. */
static hearth_stats stats_of(const hth_frame_outcome *outcome)
{
    const hth_frame_figures *figures = &outcome->figures;
    hearth_stats stats = {
        .struct_size = sizeof(stats),
        .prompt_tokens = figures->n_prompt_tokens,
        .cached_tokens = figures->n_cached_tokens,
        .completion_tokens = figures->n_reply_tokens,
        .hit = (hearth_hit)figures->hit,
        .tier = (hearth_tier)figures->tier,
        .miss = (hearth_miss)figures->miss,
        .draft_tokens = figures->n_draft_tokens,
        .draft_accepted_tokens = figures->n_draft_accepted_tokens,
        .left_at = figures->left_at,
        .finish_tokens = outcome->n_finish_tokens,
        .queue_ms = figures->queue_ms,
        .restore_ms = figures->restore_ms,
        .prefill_ms = figures->prefill_ms,
        .ttft_ms = figures->ttft_ms,
        .decode_ms = figures->decode_ms,
    };

    memcpy(stats.finish_key, outcome->finish_key, sizeof(outcome->finish_key));
    return stats;
}

static void add_to_summary(hth_job *job, uint32_t reply, const hearth_result *result)
{
    hth_frame_figures figures = figures_of(result->stats), *sum = &job->summary.figures;

    sum->n_reply_tokens += figures.n_reply_tokens;
    sum->n_draft_tokens += figures.n_draft_tokens;
    sum->n_draft_accepted_tokens += figures.n_draft_accepted_tokens;
    if (reply % job->task.request->options.n == 0) {
        sum->n_prompt_tokens += figures.n_prompt_tokens;
        sum->n_cached_tokens += figures.n_cached_tokens;
    }
    if (reply > 0)
        return;
    figures.n_prompt_tokens = sum->n_prompt_tokens;
    figures.n_cached_tokens = sum->n_cached_tokens;
    figures.n_reply_tokens = sum->n_reply_tokens;
    figures.n_draft_tokens = sum->n_draft_tokens;
    figures.n_draft_accepted_tokens = sum->n_draft_accepted_tokens;
    figures.slot = job->task.slot;
    figures.prepare_ms = job->prepare_ms;
    *sum = figures;
    job->summary.finish = result->finish_reason;
}

static void take_end(hth_job *job, const hth_reply_event *event)
{
    const hth_known *known = &job->task.known;
    const hth_frame_outcome *outcome = hth_known_outcome(known, event->reply);
    hearth_result result = *event->result; /* borrows its texts and arrays */
    hearth_stats stats = *event->result->stats;
    hth_frame_outcome told;

    result.stats = &stats;
    stats.cached_tokens = job->replies[event->reply].n_cached;
    /* The reply ended in the worker before, and this worker has told all of its tokens. */
    if (outcome && job->replies[event->reply].n_tokens == hth_known_n(known, event->reply)) {
        stats = stats_of(outcome);
        result.status = HEARTH_OK;
        result.finish_reason = (hearth_finish_reason)outcome->finish;
        result.stop_number = outcome->stop_number;
    }
    add_to_summary(job, event->reply, &result);
    hth_api_reply_done(job->task.reply, event->reply, &result, &job->jobs->piece);
    if (!job->is_framed || hth_known_has_ended(known, event->reply) || hth_api_reply_failure(job->task.reply) != 0)
        return;
    told = outcome_of(&result);
    hth_frame_add_outcome(&job->jobs->wire, event->reply, &told);
}

static void take_event(hth_job *job, const hth_reply_event *event)
{
    hth_api_reply *reply = job->task.reply;
    hth_buffer *piece = &job->jobs->piece;
    hth_job_step *s = &job->jobs->step;
    bool is_old = has_left(job, event);
    size_t n_before;

    if (s->is_open && s->reply != event->reply)
        close_step(job);
    take_cached(job, event);
    s->is_open = true;
    s->reply = event->reply;
    n_before = piece->n;
    switch (event->kind) {
    case HTH_REPLY_EVENT_PROGRESS:
        hth_api_reply_progress(reply, event->reply, HEARTH_PHASE_RESTORE, job->replies[event->reply].n_cached);
        break;
    case HTH_REPLY_EVENT_PREFILL: take_prefill(job, event); break;
    case HTH_REPLY_EVENT_TEXT: take_text(job, event->reply, event->token.text, event->token.n_bytes); break;
    case HTH_REPLY_EVENT_TOKEN: take_token(job, event); break;
    case HTH_REPLY_EVENT_DONE:
        take_end(job, event);
        s->has_ended = !hth_known_has_ended(&job->task.known, event->reply);
        break;
    }
    if (is_old)
        drop_old(job, n_before);
    if (event->kind == HTH_REPLY_EVENT_DONE || (event->kind == HTH_REPLY_EVENT_TOKEN && is_step_full(job)))
        close_step(job);
}

/* ---- bytes to the client ---- */

/* A client that reads too slowly makes its replies wait. */
static void hold_back(hth_job *job)
{
    job->backlog = hth_http_stream_backlog(job->exchange);
    if (job->backlog < HTH_HTTP_BACKLOG_MAX || job->is_paused)
        return;
    job->is_paused = true;
    hth_task_pause(&job->task, true);
}

/*
 * Write the bytes of the wire. is_over: they are the last, and the exchange ends. When memory ran out, the exchange is
 * aborted. Replies that still run when the exchange ends are cancelled.
 */
static void write_wire(hth_job *job, int status, const char *type, bool is_over)
{
    hth_buffer *wire = &job->jobs->wire;

    if (job->is_framed) { /* the HEAD frame has both */
        status = 200;
        type = HTH_FRAMES_CONTENT_TYPE;
    }
    if (!job->has_begun)
        hth_job_add_notes(job);
    if (wire->failed) {
        hth_http_abort(take_exchange(job));
    } else if (is_over && !job->has_begun) {
        hth_http_reply(take_exchange(job), status, type, hth_buffer_text(wire), wire->n);
    } else if (is_over || wire->n > 0) {
        job->said_ns = hth_os_monotonic_ns();
        if (!job->has_begun)
            hth_http_stream_begin(job->exchange, status, type);
        job->has_begun = true;
        hth_http_stream_write(job->exchange, hth_buffer_text(wire), wire->n);
        if (is_over)
            hth_http_stream_end(take_exchange(job));
    }
    hth_buffer_clear(wire);
    if (!job->exchange && job->n_ended < job->task.n_submitted)
        hth_task_cancel(&job->task);
}

void hth_job_fail(hth_job *job, const hth_api_error *error)
{
    hth_buffer *wire = &job->jobs->wire, *piece = &job->jobs->piece;
    int status = hth_api_error_http_status(job->dialect, error);

    if (!job->is_framed) {
        hth_job_reply_error(take_exchange(job), job->dialect, error);
        return;
    }
    hth_buffer_clear(wire);
    hth_buffer_clear(piece);
    hth_api_error_write(job->dialect, error, piece);
    add_head(job, status, false, error->retry_after_s);
    hth_frame_add_bytes(wire, hth_buffer_text(piece), piece->n);
    add_end(job, status);
    wire->failed |= piece->failed;
    write_wire(job, 200, body_type, true);
}

void hth_job_tell_work(hth_job *job)
{
    unsigned n = atomic_load_explicit(&job->n_worked, memory_order_relaxed);

    if (n == job->n_worked_told)
        return;
    job->n_worked_told = n;
    hth_buffer_clear(&job->jobs->wire);
    hth_frame_add_work(&job->jobs->wire, n);
    write_wire(job, 200, body_type, false);
}

/* The front stores this record of a reply that ended well. */
static void add_record(hth_job *job)
{
    hth_buffer *wire = &job->jobs->wire;
    hth_buffer record = { .text = NULL };

    hth_api_reply_record(job->task.reply, &record);
    if (!record.failed) /* without memory it is not stored */
        hth_frame_add_record(wire, 0, hth_buffer_text(&record), record.n);
    hth_buffer_deinit(&record);
}

void hth_job_tell_begun(hth_job *job)
{
    hth_buffer *wire = &job->jobs->wire;
    hth_buffer record = { .text = NULL };

    if (job->is_framed)
        hth_api_reply_record_begun(job->task.reply, &record);
    hth_buffer_clear(wire);
    if (!record.failed)
        hth_frame_add_record(wire, HTH_RECORD_BEGUN, hth_buffer_text(&record), record.n);
    hth_buffer_deinit(&record);
    if (wire->n > 0)
        write_wire(job, 200, body_type, false);
}

/* Add the next piece of the body to the wire. True: it was the last, and its end was added. */
static bool add_body_piece(hth_job *job)
{
    hth_buffer *wire = &job->jobs->wire, *piece = &job->jobs->piece;
    bool is_over;

    hth_buffer_clear(piece);
    is_over = job->task.vectors ? hth_api_embed_answer_write(job->task.vectors, BODY_BYTES_AT_ONCE, piece)
                                : hth_api_reply_body(job->task.reply, BODY_BYTES_AT_ONCE, piece);
    if (!job->is_framed) {
        hth_buffer_add(wire, hth_buffer_text(piece), piece->n);
    } else {
        if (!job->has_head && job->task.embeddings)
            hth_frame_add_work(wire, (uint32_t)job->task.embeddings->n_tokens_total); /* at most 4 Mi */
        if (!job->has_head)
            add_head(job, 200, false, 0);
        hth_frame_add_bytes(wire, hth_buffer_text(piece), piece->n);
        if (is_over && job->task.reply)
            add_record(job);
        if (is_over && job->task.vectors)
            add_embedded(job);
        if (is_over)
            add_end(job, 200);
    }
    wire->failed |= piece->failed;
    return is_over;
}

/* Write the bytes of the wire, then as much of the body as the reader takes now. */
static void write_body(hth_job *job)
{
    const hth_buffer *wire = &job->jobs->wire;

    job->is_writing = true;
    if (job->has_begun) /* even while the backlog is full */
        write_wire(job, 200, body_type, false);
    while (job->exchange && hth_http_stream_backlog(job->exchange) < HTH_HTTP_BACKLOG_MAX) {
        bool is_over = add_body_piece(job);

        if (is_over || wire->failed || job->has_begun || wire->n > BODY_WHOLE_BYTES)
            write_wire(job, 200, body_type, is_over);
    }
}

void hth_job_begin_body(hth_job *job)
{
    hth_buffer_clear(&job->jobs->wire);
    write_body(job);
}

void hth_job_write_on(hth_job *job)
{
    hth_buffer_clear(&job->jobs->wire);
    if (job->is_writing)
        write_body(job);
}

/* Write the bytes of all events that were read. The exchange ends with the reply. */
static void write_events(hth_job *job)
{
    const hth_api_reply *reply = job->task.reply;
    bool has_ended = hth_api_reply_has_ended(reply);
    int failure = hth_api_reply_failure(reply), status = hth_api_reply_http_status(reply);
    bool is_stream = is_streamed(job) && status == 200;

    close_step(job);
    if (has_ended && !failure && !is_stream) {
        write_body(job);
        return;
    }
    if (job->is_framed && has_ended) {
        if (!job->has_head)
            add_head(job, status, is_stream, 0);
        if (!failure)
            add_record(job);
        add_end(job, failure ? failure : status);
    }
    write_wire(job, status, is_stream ? hth_api_stream_type(job->dialect) : body_type, has_ended);
    if (job->exchange && job->has_begun)
        hold_back(job);
}

void hth_job_take_events(hth_job *job)
{
    hth_jobs *jobs = job->jobs;
    hth_reply_event event;

    hth_buffer_clear(&jobs->wire);
    hth_buffer_clear(&jobs->piece);
    jobs->step.is_open = jobs->step.has_ended = false;
    jobs->step.n_tokens = 0;
    while (hth_event_queue_read(jobs->options.queue, &event)) {
        job->n_ended += event.kind == HTH_REPLY_EVENT_DONE;
        if (job->exchange && !hth_api_reply_has_ended(job->task.reply))
            take_event(job, &event);
    }
    if (job->exchange)
        write_events(job);
}

/* ---- from the beginning ---- */

bool hth_job_begin_replies(hth_job *job)
{
    hth_task *task = &job->task;

    job->replies = calloc(task->n_replies ? task->n_replies : 1, sizeof(*job->replies));
    if (!job->replies)
        return false;
    for (uint32_t i = 0; i < task->n_replies; i++) {
        hth_job_reply *reply = &job->replies[i];

        reply->has_cached = hth_known_cached(&task->known, i, &reply->n_cached);
        if (reply->has_cached)
            hth_api_reply_progress(task->reply, i, HEARTH_PHASE_RESTORE, reply->n_cached);
        if (hth_known_has_begun(&task->known, i))
            hth_api_reply_note_reply_begun(task->reply, i);
    }
    return true;
}

void hth_job_say_idle(hth_job *job)
{
    hth_buffer *wire = &job->jobs->wire, *piece = &job->jobs->piece;
    hth_api_reply *reply = job->task.reply;
    bool begins;

    if (hth_api_reply_has_ended(reply) || (job->has_begun && hth_http_stream_backlog(job->exchange) > 0))
        return;
    hth_buffer_clear(wire);
    hth_buffer_clear(piece);
    if (!job->replies[0].has_cached) /* a first number; final with the first token */
        hth_api_reply_progress(reply, 0, HEARTH_PHASE_RESTORE, hth_request_events_n_restored(job->task.events, 0));
    begins = hth_api_reply_idle(reply, piece);
    if (!job->is_framed) {
        hth_buffer_add(wire, hth_buffer_text(piece), piece->n);
    } else {
        if (!job->has_head)
            add_head(job, 200, true, 0);
        hth_frame_add_step(wire, 0, begins ? HTH_STEP_BEGINS : 0, NULL, hth_buffer_text(piece), piece->n);
    }
    wire->failed |= piece->failed;
    hth_buffer_clear(piece);
    write_wire(job, 200, hth_api_stream_type(job->dialect), false);
}
