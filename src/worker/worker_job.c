/*
 * worker_job.c - all jobs: their preparation, their beginning and their end
 *
 * A job advances when events of its request come, when its client receives bytes, and when its client disconnects. It
 * is freed when its exchange has ended, its task is not being prepared, and the DONE event of every submitted reply was
 * read.
 */
#include "worker/worker_job.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "api/model_pages.h"
#include "base/draw.h"
#include "base/grow.h"
#include "base/message_queue.h"
#include "base/os.h"
#include "base/status.h"
#include "models/model.h"
#include "wire/frames.h"
#include "worker/lane.h"
#include "worker/worker_slots.h"

/* Tokens and text of one reply that are sent together: a step frame, or bytes of a stream. */
typedef struct job_step {
    bool is_open;
    uint32_t reply;
    bool has_begun; /* it has the beginning of the stream, which belongs to no token */
    bool has_ended;
    hearth_token *tokens; /* [n_tokens] */
    uint32_t n_tokens;
    uint32_t n_logprobs;      /* of each token */
    hearth_logprob *logprobs; /* [n_tokens * n_logprobs] */
    size_t tokens_capacity, logprobs_capacity;
    float state; /* of the sampler, after the last token; NaN: none */
} job_step;

/* The facts about a reply that the client has received. */
typedef struct job_reply {
    uint32_t n_tokens;
    uint32_t n_cached;    /* tokens of its prompt; final with the first token */
    bool has_cached;      /* n_cached is from the previous worker and does not change */
    bool has_sent_cached; /* the CACHED frame was sent to the front */
    uint64_t read_ns;     /* when its first PREFILL event came; 0: none came */
    uint32_t n_read;      /* tokens of its prompt in the context, as of the last PREFILL event */
    bool has_new_line;
} job_reply;

struct hth_job {
    hth_jobs *jobs;
    hth_job *prev, *next;
    hth_job *prev_waiting, *next_waiting;
    hth_http_exchange *exchange; /* NULL: the exchange has ended */
    hth_api_dialect dialect;
    bool is_framed;
    bool is_waiting;   /* WAITING */
    bool is_preparing; /* PREPARING on another thread */
    bool is_running;   /* RUNNING */
    uint64_t number;   /* counts the jobs that ran; 0: it never ran */
    uint64_t begun_ns;
    uint64_t started_ns; /* when the model accepted requests */
    double prepare_ms;
    uint64_t said_ns; /* time of the last write, or of the start */
    bool has_begun;   /* the chunked reply has begun */
    bool has_head;    /* the HEAD frame was written */
    bool has_sent_model;
    bool is_paused;
    bool is_writing;      /* all replies have ended, or vectors are ready; the body is sent piece by piece */
    size_t backlog;       /* bytes, at the last check */
    atomic_bool is_gone;  /* the client disconnected: the preparation can be skipped */
    atomic_uint n_worked; /* tokens of completed inputs for embeddings; set by the model's threads */
    unsigned n_work_sent; /* reported in WORK frames */
    uint32_t n_ended;     /* replies whose DONE was read */
    job_reply *replies;   /* [n_replies] */
    hth_frame_summary summary;
    hth_task task;
};

/* Requests are prepared by the threads of lanes. No kind of work waits for the next kind, which takes longer. */
typedef enum job_lane_kind {
    JOB_LANE_LARGE,       /* long bodies: milliseconds */
    JOB_LANE_HUGE,        /* up to the longest bodies: seconds */
    JOB_LANE_COMPLICATED, /* grammars, tools: no bound is known */
    JOB_LANE_FILES,       /* reads or writes files, so it waits for devices; one at a time */
    JOB_LANES,
} job_lane_kind;

/* The last job that ran under a slot's number. */
typedef struct seen_slot {
    hth_api_slot slot;
    char *salt; /* owned; of the key whose clients may see it, "": no key; NULL: no client may */
} seen_slot;

struct hth_jobs {
    hth_task_shared shared; /* owns prompts and slots */
    uint32_t silence_ms;
    bool has_digest; /* the model accepts requests */
    hth_job *list;
    size_t n;
    hth_job *waiting; /* jobs in WAITING */
    bool ends_lingering;
    uint64_t n_numbered;                        /* jobs that ran */
    seen_slot seen_slots[HTH_SLOT_NUMBERS_MAX]; /* the last job that ended, of each number */
    hth_lane *lanes[JOB_LANES];
    hth_message_queue *prepared; /* has room for all */
    atomic_bool has_worked;      /* n_worked of some job has changed */

    /* Scratch memory of the job that is running. */
    hth_buffer piece; /* text of the open step */
    hth_buffer wire;  /* bytes to write */
    job_step step;
};

enum {
    QUICK_BYTES_MAX = 4 << 10,   /* longer bodies go to a lane: their tokenization takes a millisecond or more */
    LARGE_BYTES_MAX = 256 << 10, /* longer ones take tenths of a second or more, so they have another lane */
    PREPARING_MAX = 65536,       /* in one lane: all requests of a dead worker come to the next worker at once */
    LANE_THREADS_MAX = 3,
    PROMPTS_BYTES_MAX = 32 << 20,
};

/*
 * ---- one job: events become bytes, and bytes go to the client ----
 *
 * The bytes of a stream are sent with the tokens that released them. A body is written after all of its replies have
 * ended, piece by piece as the client reads it, so that memory holds only one piece.
 *
 * When a reply is resumed after a worker died, the client has already received the text of the known tokens. The writer
 * processes that text again to restore its state, and its output is discarded. A body is written from its beginning,
 * and the front discards the bytes that it has already sent. Log probabilities, the number of cached tokens and the end
 * of a reply are copied from the previous worker. This worker's own values could differ: it found rows that the
 * previous worker had made, and its log probabilities can differ in the last digit.
 */

enum {
    STEP_BYTES_MAX = 64 << 10,              /* of a step; a larger one becomes a frame at once */
    BODY_BYTES_AT_ONCE = 32 << 10,          /* of a piece */
    BODY_WHOLE_BYTES = HTH_HTTP_BACKLOG_MAX /* a shorter body has a Content-Length */
};

static const char body_type[] = "application/json";

/* ---- whole replies ---- */

void hth_job_reply_error(hth_http_exchange *exchange, hth_api_dialect dialect, const hth_api_error *error)
{
    hth_buffer body = { .text = NULL };

    hth_api_error_write(dialect, error, &body);
    hth_http_retry_after_add(exchange, error->retry_after_s);
    hth_http_reply(exchange, hth_api_error_http_status(dialect, error), body_type, hth_buffer_text(&body), body.n);
    hth_buffer_deinit(&body);
}

/* Add the header that names ignored fields of the request. In framed jobs the front adds it. */
static void job_add_notes(hth_job *job)
{
    const hth_api_request *request = job->task.request;

    if (!job->is_framed && request && request->notes.n_bytes > 0)
        hth_http_header_add(job->exchange, HTH_API_NOTES_HEADER, request->notes.text);
}

/* Detach the exchange from the job; the caller ends it. */
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

/* Add the embedded tokens, which count in logs, metrics and limits. */
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

/* ---- steps ---- */

static bool is_streamed(const hth_job *job)
{
    return job->task.request->stream;
}

/* Add the step as a frame. It has log probabilities until the bytes that show them are sent. */
static void add_step(hth_job *job)
{
    hth_api_reply *reply = job->task.reply;
    hth_buffer *wire = &job->jobs->wire, *piece = &job->jobs->piece;
    job_step *s = &job->jobs->step;
    bool is_stream = is_streamed(job) && hth_api_reply_http_status(reply) == 200;
    hth_frame_tokens tokens = {
        .ids = s->tokens, .n = s->n_tokens, .has_state = s->n_tokens > 0 && !isnan(s->state), .state = s->state
    };
    unsigned flags = (s->has_begun ? HTH_STEP_BEGINS : 0) | (s->has_ended ? HTH_STEP_ENDS : 0);

    if (!is_stream || hth_api_reply_has_unwritten(reply, s->reply)) {
        tokens.logprobs = s->logprobs;
        tokens.n_logprobs = s->n_logprobs;
    }
    if (!job->has_sent_model && !job->task.known.has_model)
        hth_frame_add_model(wire, job->task.digest);
    job->has_sent_model = true;
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
    job_step *s = &job->jobs->step;

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
    const job_step *s = &job->jobs->step;

    return job->jobs->piece.n >= STEP_BYTES_MAX || hth_frame_token_bytes(s->n_tokens, s->n_logprobs) >= STEP_BYTES_MAX;
}

static bool add_logprobs(job_step *s, const hearth_logprob *logprobs)
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
    job_step *s = &job->jobs->step;
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

/* Did the previous worker already send the bytes of this event? Only for streams. */
static bool has_left(const hth_job *job, const hth_reply_event *event)
{
    const hth_known_reply *known = hth_known_at(&job->task.known, event->reply);

    if (job->task.known.n_replies == 0 || !is_streamed(job))
        return false;
    if (known->has_ended)
        return true;
    switch (event->kind) {
    case HTH_REPLY_EVENT_TOKEN: return event->token.index < known->n;
    case HTH_REPLY_EVENT_TEXT: return job->replies[event->reply].n_tokens < known->n; /* it is sent with that token */
    case HTH_REPLY_EVENT_PREFILL: return known->n > 0; /* the prompt was evaluated before */
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
    if (token.index >= hth_known_at(&job->task.known, event->reply)->n)
        add_token(job, &token);
    if (token.stats) { /* use the number of cached tokens that the client has seen */
        stats = *token.stats;
        stats.cached_tokens = job->replies[event->reply].n_cached;
        token.stats = &stats;
    }
    hth_api_reply_token(reply, event->reply, &token, piece);
    if (token.n_bytes > 0)
        take_text(job, event->reply, token.text, token.n_bytes);
}

/*
 * Discard the bytes of an event that the previous worker has sent. Keep the end of all replies if this reply is the
 * last one to end in this worker but was not the last in the previous one.
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

/* Record the number of cached tokens of the prompt. It is final with the first token. */
static void take_cached(hth_job *job, const hth_reply_event *event)
{
    job_reply *reply = &job->replies[event->reply];

    if (event->kind == HTH_REPLY_EVENT_PROGRESS && !reply->has_cached)
        reply->n_cached = event->n_done;
    if (event->kind == HTH_REPLY_EVENT_DONE && !reply->has_cached)
        reply->n_cached = event->result->stats->cached_tokens;
    if (event->kind == HTH_REPLY_EVENT_PROGRESS || event->kind == HTH_REPLY_EVENT_PREFILL || reply->has_cached ||
        reply->has_sent_cached)
        return;
    reply->has_sent_cached = true;
    if (job->is_framed && hth_known_at(&job->task.known, event->reply)->n == 0)
        hth_frame_add_cached(&job->jobs->wire, event->reply, reply->n_cached);
}

static void take_prefill(hth_job *job, const hth_reply_event *event)
{
    job_reply *reply = &job->replies[event->reply];
    uint64_t now_ns = hth_os_monotonic_ns();

    reply->n_read = event->n_done;
    if (reply->read_ns == 0)
        reply->read_ns = now_ns;
    job->jobs->step.has_begun |= hth_api_reply_prefill(job->task.reply, event->reply, event->n_done,
                                                       (double)(now_ns - reply->read_ns) / 1e6, &job->jobs->piece);
}

/* ---- ends ---- */

static hth_frame_outcome outcome_of(const hearth_result *result)
{
    hth_frame_outcome outcome = {
        .finish = result->finish_reason,
        .stop_number = result->stop_number,
        .n_finish_tokens = result->stats->finish_tokens,
        .figures = hth_figures_of(result->stats),
    };

    static_assert(sizeof(outcome.finish_key) == sizeof(result->stats->finish_key), "a key is a key");
    memcpy(outcome.finish_key, result->stats->finish_key, sizeof(outcome.finish_key));
    return outcome;
}

/* The statistics that the API's writers need. */
static hearth_stats stats_of(const hth_frame_outcome *outcome)
{
    hearth_stats stats = { .struct_size = sizeof(stats), .finish_tokens = outcome->n_finish_tokens };

    hth_figures_to_stats(&outcome->figures, &stats);
    memcpy(stats.finish_key, outcome->finish_key, sizeof(outcome->finish_key));
    return stats;
}

static void add_to_summary(hth_job *job, uint32_t reply, const hearth_result *result)
{
    hth_frame_figures figures = hth_figures_of(result->stats);

    figures.slot = job->task.slot;
    figures.prepare_ms = job->prepare_ms;
    hth_figures_add(&job->summary.figures, &figures, reply == 0, reply % job->task.request->options.n == 0);
    if (reply == 0)
        job->summary.finish = result->finish_reason;
}

static void take_end(hth_job *job, const hth_reply_event *event)
{
    const hth_known *known = &job->task.known;
    const hth_frame_outcome *outcome = hth_known_outcome(known, event->reply);
    hearth_result result = *event->result; /* borrows its texts and arrays */
    hearth_stats stats = *event->result->stats;
    hth_frame_outcome ended;

    result.stats = &stats;
    stats.cached_tokens = job->replies[event->reply].n_cached;
    /* The reply ended in the previous worker, and this worker has reported all of its tokens. */
    if (outcome && job->replies[event->reply].n_tokens == hth_known_at(known, event->reply)->n) {
        stats = stats_of(outcome);
        result.status = HEARTH_OK;
        result.finish_reason = (hearth_finish_reason)outcome->finish;
        result.stop_number = outcome->stop_number;
    }
    add_to_summary(job, event->reply, &result);
    hth_api_reply_done(job->task.reply, event->reply, &result, &job->jobs->piece);
    if (!job->is_framed || hth_known_at(known, event->reply)->has_ended || hth_api_reply_failure(job->task.reply) != 0)
        return;
    ended = outcome_of(&result);
    hth_frame_add_outcome(&job->jobs->wire, event->reply, &ended);
}

static void take_event(hth_job *job, const hth_reply_event *event)
{
    hth_api_reply *reply = job->task.reply;
    hth_buffer *piece = &job->jobs->piece;
    job_step *s = &job->jobs->step;
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
        s->has_ended = !hth_known_at(&job->task.known, event->reply)->has_ended;
        break;
    }
    if (is_old)
        drop_old(job, n_before);
    if (event->kind == HTH_REPLY_EVENT_DONE || (event->kind == HTH_REPLY_EVENT_TOKEN && is_step_full(job)))
        close_step(job);
}

/* ---- bytes to the client ---- */

/*
 * Send the bytes in wire. is_over: they are the last, and the exchange ends. If memory ran out, the exchange is
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
        job_add_notes(job);
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

/* Reply with task->answer. The exchange ends. */
static void job_reply_answer(hth_job *job)
{
    const hth_buffer *answer = &job->task.answer;
    hth_buffer *wire = &job->jobs->wire;

    if (!job->is_framed) {
        job_add_notes(job);
        hth_http_reply(take_exchange(job), 200, body_type, hth_buffer_text(answer), answer->n);
        return;
    }
    hth_buffer_clear(wire);
    add_head(job, 200, false, 0);
    hth_frame_add_bytes(wire, hth_buffer_text(answer), answer->n);
    add_end(job, 200);
    write_wire(job, 200, body_type, true);
}

/* Reply with an error; at most frames without bytes were written before. The exchange ends. */
static void job_fail(hth_job *job, const hth_api_error *error)
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

/* Add the record of a completed reply, which the front stores. */
static void add_record(hth_job *job)
{
    hth_buffer *wire = &job->jobs->wire;
    hth_buffer record = { .text = NULL };

    hth_api_reply_record(job->task.reply, &record);
    if (!record.failed) /* without memory, it is not stored */
        hth_frame_add_record(wire, 0, hth_buffer_text(&record), record.n);
    hth_buffer_deinit(&record);
}

/* The replies were submitted. If the front keeps a record of the reply, send it the record's beginning. */
static void job_tell_begun(hth_job *job)
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

/* Send the bytes in wire, then as much of the body as the client accepts now. */
static void write_body(hth_job *job)
{
    const hth_buffer *wire = &job->jobs->wire;

    job->is_writing = true;
    if (job->has_begun) /* even if the backlog is full */
        write_wire(job, 200, body_type, false);
    while (job->exchange && hth_http_stream_backlog(job->exchange) < HTH_HTTP_BACKLOG_MAX) {
        bool is_over = add_body_piece(job);

        if (is_over || wire->failed || job->has_begun || wire->n > BODY_WHOLE_BYTES)
            write_wire(job, 200, body_type, is_over);
    }
}

/* Write the body from its beginning, or on, as the client received bytes. The exchange may end. */
static void job_write_on(hth_job *job)
{
    hth_buffer_clear(&job->jobs->wire);
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
    if (!job->exchange || !job->has_begun)
        return;
    /* A client that reads too slowly makes its replies wait. */
    job->backlog = hth_http_stream_backlog(job->exchange);
    if (job->backlog >= HTH_HTTP_BACKLOG_MAX && !job->is_paused) {
        job->is_paused = true;
        hth_task_pause(&job->task, true);
    }
}

/* Read the events of the request that was taken from the queue, and write their bytes. The exchange may end. */
static void job_take_events(hth_job *job)
{
    hth_jobs *jobs = job->jobs;
    hth_reply_event event;

    hth_buffer_clear(&jobs->wire);
    hth_buffer_clear(&jobs->piece);
    jobs->step.is_open = jobs->step.has_ended = false;
    jobs->step.n_tokens = 0;
    while (hth_event_queue_read(jobs->shared.queue, &event)) {
        job->n_ended += event.kind == HTH_REPLY_EVENT_DONE;
        if (job->exchange && !hth_api_reply_has_ended(job->task.reply))
            take_event(job, &event);
    }
    if (job->exchange)
        write_events(job);
}

/* Allocate job->replies, with the facts from the previous worker. False without memory. */
static bool job_begin_replies(hth_job *job)
{
    hth_task *task = &job->task;

    job->replies = calloc(task->n_replies ? task->n_replies : 1, sizeof(*job->replies));
    if (!job->replies)
        return false;
    for (uint32_t i = 0; i < task->n_replies; i++) {
        const hth_known_reply *known = hth_known_at(&task->known, i);
        job_reply *reply = &job->replies[i];

        reply->has_cached = known->has_cached;
        reply->n_cached = known->n_cached;
        if (known->has_cached)
            hth_api_reply_progress(task->reply, i, HEARTH_PHASE_RESTORE, known->n_cached);
        if (known->has_begun)
            hth_api_reply_note_reply_begun(task->reply, i);
    }
    return true;
}

/*
 * A stream was silent for a while, because its prompt is long or it waits for other requests. Send its head and a
 * keep-alive, so that neither the client nor a proxy takes the connection for dead. The exchange may end.
 */
static void job_say_idle(hth_job *job)
{
    hth_buffer *wire = &job->jobs->wire, *piece = &job->jobs->piece;
    hth_api_reply *reply = job->task.reply;
    bool begins;

    if (hth_api_reply_has_ended(reply) || (job->has_begun && hth_http_stream_backlog(job->exchange) > 0))
        return;
    hth_buffer_clear(wire);
    hth_buffer_clear(piece);
    if (!job->replies[0].has_cached) /* preliminary; final with the first token */
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

/*
 * ---- the job under the number of each slot, for GET /slots ----
 *
 * A slot is a number of a request (slot_memory.h). A client sees the facts, without texts and tokens, about requests
 * under its key's salt that add no salt of their own. Of other requests it sees only that they run.
 */

/* The facts about the first reply of a job that runs, or ran. The caller owns slot->params. */
static hth_api_slot slot_of(const hth_job *job)
{
    const hearth_request *request = &job->task.prepared.requests[0];
    const job_reply *reply = &job->replies[0];
    const bool is_running = job->n_ended < job->task.n_submitted;
    const uint32_t n_prompt = (uint32_t)request->n_tokens; /* at most the context */
    const uint32_t n_done = reply->n_tokens > 0 ? n_prompt : reply->n_read;
    const uint32_t n_evaluated = n_done > reply->n_cached ? n_done - reply->n_cached : 0;
    const int64_t n_remain = (int64_t)request->n_predict - reply->n_tokens;

    return (hth_api_slot){
        .is_processing = is_running,
        .task = job->number,
        .params = hth_api_native_numbers(request, job->task.request),
        .n_prompt = n_prompt,
        .n_cached = reply->n_cached,
        .n_read = n_evaluated,
        .n_decoded = reply->n_tokens,
        .n_remain = request->n_predict < 0 ? -1 : n_remain,
        .has_next = is_running,
        .has_new_line = reply->has_new_line,
    };
}

/* The salt of the key whose clients may see the facts, "": no key; NULL: no client may. */
static const char *salt_of(const hth_job *job)
{
    if (job->task.has_own_salt)
        return NULL;
    return job->task.front_salt ? job->task.front_salt : "";
}

static bool is_seen_by(const char *salt, const char *asker)
{
    return salt && strcmp(salt, asker) == 0;
}

static void seen_slot_deinit(seen_slot *seen)
{
    json_decref(seen->slot.params);
    free(seen->salt);
}

/* A job with a slot ends: keep the facts about it. */
static void job_keep_slot(const hth_job *job)
{
    seen_slot *seen = &job->jobs->seen_slots[job->task.slot];
    const char *salt = salt_of(job);

    if (job->number == 0 || job->number < seen->slot.task)
        return;
    seen_slot_deinit(seen);
    *seen = (seen_slot){ .slot = slot_of(job), .salt = salt ? strdup(salt) : NULL };
}

/*
 * Replace jobs that ran by running ones; of several jobs with one number, the last. Returns the number of replies that
 * may run.
 */
static uint32_t add_running(const hth_jobs *jobs, const char *asker, hth_api_slot *slots)
{
    uint32_t n_replies = 0;
    const hth_job *job;

    DL_FOREACH(jobs->list, job)
    {
        hth_api_slot *slot = &slots[job->task.slot];
        const uint32_t n_running = job->task.n_submitted - job->n_ended;

        if (job->number == 0)
            continue;
        n_replies += n_running;
        json_decref(slot->params);
        if (is_seen_by(salt_of(job), asker))
            *slot = slot_of(job);
        else
            *slot = (hth_api_slot){ .is_processing = n_running > 0, .n_decoded = job->replies[0].n_tokens };
    }
    return n_replies;
}

/*
 * Mark as many slots as processing as requests run. A request that waits has a number already, so it may lose its mark.
 * A request with several replies has one number, so idle slots are marked for the others. A request with a token runs,
 * even if n_running was read before that.
 */
static void mark_running(hth_api_slot *slots, uint32_t n_slots, uint32_t n_running)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < n_slots; i++)
        n += slots[i].is_processing && slots[i].n_decoded > 0;
    for (uint32_t i = 0; i < n_slots; i++) {
        if (!slots[i].is_processing || slots[i].n_decoded > 0)
            continue;
        slots[i].is_processing = n < n_running;
        n += slots[i].is_processing;
    }
    for (uint32_t i = 0; i < n_slots && n < n_running; i++) {
        n += !slots[i].is_processing;
        slots[i].is_processing = true;
    }
}

void hth_jobs_slots_write(const hth_jobs *jobs, const hearth_model_info *info, const char *salt, hth_buffer *out)
{
    hth_api_slot *slots = calloc(HTH_SLOT_NUMBERS_MAX, sizeof(*slots));
    const char *asker = salt ? salt : "";
    uint32_t n_replies;

    out->failed |= !slots;
    if (!slots)
        return;
    for (size_t i = 0; i < HTH_SLOT_NUMBERS_MAX; i++) /* the jobs that ran last */
        if (is_seen_by(jobs->seen_slots[i].salt, asker)) {
            slots[i] = jobs->seen_slots[i].slot;
            json_incref(slots[i].params);
        }
    n_replies = add_running(jobs, asker, slots);
    mark_running(slots, info->n_parallel, n_replies < info->n_running ? n_replies : info->n_running);
    hth_api_slots_write(info, slots, jobs->shared.model && hth_model_drafts(jobs->shared.model), out);
    for (size_t i = 0; i < HTH_SLOT_NUMBERS_MAX; i++)
        json_decref(slots[i].params);
    free(slots);
}

/* ---- the lanes ---- */

static void put_prepared(hth_job *job)
{
    hth_jobs *jobs = job->jobs; /* the job may be gone as soon as it is in the queue */

    (void)hth_message_queue_put(jobs->prepared, job); /* cannot fail: it has room for all */
    hth_event_queue_wake(jobs->shared.queue);
}

/* hth_lane_fn */
static void prepare(void *work, void *user_data)
{
    hth_lane *const *lane = user_data;
    hth_job *job = work;
    hth_jobs *jobs = job->jobs;
    hth_task *task = &job->task;
    bool is_read = task->request != NULL;

    if (atomic_load_explicit(&job->is_gone, memory_order_relaxed))
        hth_api_fail(&task->error, HTH_API_OVERLOADED, NULL, "the client has gone");
    else if (!is_read)
        is_read = hth_task_read(task);
    if (is_read && lane == &jobs->lanes[JOB_LANE_LARGE] && hth_task_is_complicated(task) &&
        hth_lane_put(jobs->lanes[JOB_LANE_COMPLICATED], task->front_salt, job))
        return;
    if (is_read && task->error.kind == HTH_API_NO_ERROR && !hth_task_run(task))
        return;
    put_prepared(job);
}

/* hth_embed_worked_fn, on a thread of the model */
static void note_worked(uint64_t n_tokens, void *user_data)
{
    hth_job *job = user_data;

    atomic_store_explicit(&job->n_worked, (unsigned)n_tokens, memory_order_relaxed); /* at most 4 Mi */
    atomic_store_explicit(&job->jobs->has_worked, true, memory_order_release);
    hth_event_queue_wake(job->jobs->shared.queue);
}

/* hearth_embedded_fn, on a thread of the model */
static void take_embeddings(uint64_t id, const hearth_embeddings *embeddings, void *user_data)
{
    hth_job *job = user_data;

    (void)id;
    job->task.embeddings = hearth_embeddings_ref(embeddings);
    hth_task_begin_vectors(&job->task);
    put_prepared(job);
}

/* ---- from the beginning ---- */

static void job_free(hth_job *job)
{
    hth_jobs *jobs = job->jobs;

    assert(!job->exchange);
    job_keep_slot(job);
    DL_DELETE(jobs->list, job);
    jobs->n--;
    hth_task_deinit(&job->task);
    free(job->replies);
    free(job);
}

/* Free the job if nothing can use it any more. */
static void free_if_over(hth_job *job)
{
    if (!job->exchange && !job->is_preparing && job->n_ended == job->task.n_submitted)
        job_free(job);
}

/* The preparation is over. */
static void settle(hth_job *job)
{
    hth_task *task = &job->task;
    const hth_api_error no_memory = { .kind = HTH_API_OVERLOADED, .message = "no memory for the reply" };

    job->is_preparing = false;
    job->prepare_ms = (double)(hth_os_monotonic_ns() - job->started_ns) / 1e6;
    if (job->exchange && task->error.kind != HTH_API_NO_ERROR)
        job_fail(job, &task->error);
    else if (job->exchange && task->kind == HTH_TASK_EMBED)
        job_write_on(job);
    else if (job->exchange && task->kind != HTH_TASK_GENERATE)
        job_reply_answer(job);
    else if (!job_begin_replies(job) && job->exchange)
        job_fail(job, &no_memory);
    else if (job->exchange)
        job_tell_begun(job);
    if (!job->exchange)
        hth_task_cancel(task);
    job->is_running = job->exchange != NULL;
    if (job->is_running && task->has_slot)
        job->number = ++job->jobs->n_numbered;
    for (uint32_t i = 0; i < task->n_parts; i++)
        hth_request_part_open(&task->parts[i]);
    free_if_over(job);
}

static void stop_waiting(hth_job *job)
{
    if (job->is_waiting)
        DL_DELETE2(job->jobs->waiting, job, prev_waiting, next_waiting);
    job->is_waiting = false;
}

static void on_close(void *user_data)
{
    hth_job *job = user_data;

    stop_waiting(job);
    job->exchange = NULL;
    atomic_store_explicit(&job->is_gone, true, memory_order_relaxed);
    if (!job->is_preparing && job->task.n_submitted > 0)
        hth_task_linger(&job->task, job->jobs->ends_lingering ? 0 : job->jobs->shared.settings->linger_ms);
    free_if_over(job);
}

void hth_jobs_end_lingering(hth_jobs *jobs)
{
    hth_job *job;

    jobs->ends_lingering = true;
    DL_FOREACH(jobs->list, job)
    if (!job->exchange && !job->is_preparing)
        hth_task_cancel(&job->task);
}

static void on_room(void *user_data)
{
    hth_job *job = user_data;

    if (job->is_paused) {
        job->is_paused = false;
        hth_task_pause(&job->task, false);
    }
    if (job->is_writing)
        job_write_on(job);
    free_if_over(job);
}

static void prepare_elsewhere(hth_job *job, job_lane_kind kind)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_task *task = &job->task;

    if (!task->request) { /* the thread reads the body, perhaps after the end of the exchange */
        task->bytes_copy = malloc(task->n_bytes + 1);
        if (task->bytes_copy)
            memcpy(task->bytes_copy, task->bytes, task->n_bytes);
        task->bytes = task->bytes_copy;
    }
    job->is_preparing = true;
    if ((task->request || task->bytes_copy) && hth_lane_put(job->jobs->lanes[kind], task->front_salt, job))
        return;
    job->is_preparing = false;
    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "too many requests wait to be prepared; try again in a second");
    error.retry_after_s = 1;
    job_fail(job, &error);
    free_if_over(job);
}

/* The value of a header as a number; 0: it is not a number. */
static uint64_t header_number(const hth_http_exchange *exchange, const char *name)
{
    const char *text = hth_http_header(exchange, name);
    uint64_t value;

    if (!text || text[strspn(text, "0123456789")])
        return 0;
    errno = 0;
    value = strtoull(text, NULL, 10);
    return errno == 0 ? value : 0;
}

/* Read the headers from the front, with defaults for missing ones. False without memory. */
static bool read_headers(hth_job *job)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    enum { ID_LETTERS = 24 };
    const hth_http_exchange *exchange = job->exchange;
    const char *id = hth_http_header(exchange, HTH_HEADER_ID), *salt = hth_http_header(exchange, HTH_HEADER_SALT);
    const char *rows_from = hth_http_header(exchange, HTH_HEADER_ROWS);
    hth_task *task = &job->task;
    const size_t n_id = id ? strspn(id, letters) : 0;
    uint8_t random[ID_LETTERS];

    hth_os_random(random, sizeof(random));
    for (size_t i = 0; i < ID_LETTERS; i++)
        task->id[i] = letters[random[i] % (sizeof(letters) - 1)];
    if (n_id > 0 && n_id < HTH_TASK_ID_BYTES && id[n_id] == '\0')
        memcpy(task->id, id, n_id + 1);
    task->seed =
        hth_http_header(exchange, HTH_HEADER_SEED) ? header_number(exchange, HTH_HEADER_SEED) : hth_draw_seed();
    task->created_s = (json_int_t)(header_number(exchange, HTH_HEADER_CREATED) & INT64_MAX);
    if (task->created_s == 0)
        task->created_s = (json_int_t)hth_os_unix_seconds();
    task->n_known = (size_t)header_number(exchange, HTH_HEADER_KNOWN);
    task->n_elsewhere = (size_t)header_number(exchange, HTH_HEADER_ELSEWHERE);
    task->n_past = (size_t)header_number(exchange, HTH_HEADER_PAST);
    task->n_history = (size_t)header_number(exchange, HTH_HEADER_HISTORY);
    task->age_us = header_number(exchange, HTH_HEADER_AGE);
    task->goes_on = hth_http_header(exchange, HTH_HEADER_KNOWN) != NULL;
    task->names_adapter = hth_http_header(exchange, HTH_HEADER_ADAPTER) != NULL;
    job->is_framed = (task->kind == HTH_TASK_GENERATE || task->kind == HTH_TASK_EMBED) &&
                     hth_http_header(exchange, HTH_HEADER_FRAMES);
    if (rows_from && *rows_from)
        task->rows_from = strdup(rows_from); /* without memory they are computed */
    if (!salt)
        return true;
    task->front_salt = strdup(salt);
    return task->front_salt;
}

static hth_job *job_new(hth_jobs *jobs, hth_http_exchange *exchange, hth_task_kind kind, hth_api_kind api)
{
    hth_job *job = calloc(1, sizeof(*job));

    if (!job)
        return NULL;
    job->jobs = jobs;
    job->exchange = exchange;
    job->dialect = hth_api_kind_dialect(api);
    job->begun_ns = job->said_ns = hth_os_monotonic_ns();
    job->task = (hth_task){
        .shared = &jobs->shared,
        .kind = kind,
        .api = api,
        .owner = job,
        .is_gone = &job->is_gone,
        .on_embedded = take_embeddings,
        .on_worked = note_worked,
    };
    job->task.bytes = hth_http_body(exchange, &job->task.n_bytes);
    if (kind == HTH_TASK_SLOT)
        hth_slot_order_read(exchange, &job->task);
    job->summary.figures.slot = HTH_FRAME_NO_SLOT;
    if (kind == HTH_TASK_EMBED)
        job->summary.figures.hit = HTH_FRAME_NO_HIT;
    if (!read_headers(job)) {
        free(job->task.rows_from);
        free(job);
        return NULL;
    }
    DL_APPEND(jobs->list, job);
    jobs->n++;
    return job;
}

static void start(hth_job *job)
{
    job->started_ns = hth_os_monotonic_ns();
    if (job->task.kind == HTH_TASK_SLOT || job->task.kind == HTH_TASK_PREFIXES || job->task.kind == HTH_TASK_ADAPTERS) {
        prepare_elsewhere(job, JOB_LANE_FILES);
        return;
    }
    /* A query is joined with each document, so a short body may have many tokens. */
    if (job->task.n_bytes > QUICK_BYTES_MAX || job->task.n_known > 0 || job->task.api == HTH_API_RERANK) {
        prepare_elsewhere(job, job->task.n_bytes > LARGE_BYTES_MAX ? JOB_LANE_HUGE : JOB_LANE_LARGE);
        return;
    }
    if (hth_task_read(&job->task)) {
        if (hth_task_is_complicated(&job->task)) {
            prepare_elsewhere(job, JOB_LANE_COMPLICATED);
            return;
        }
        job->is_preparing = true;
        if (!hth_task_run(&job->task))
            return;
    }
    settle(job);
}

void hth_jobs_begin(hth_jobs *jobs, hth_http_exchange *exchange, hth_task_kind kind, hth_api_kind api)
{
    hth_job *job = job_new(jobs, exchange, kind, api);

    if (!job) {
        hth_api_error error = { .kind = HTH_API_OVERLOADED, .message = "no memory for the request" };

        hth_job_reply_error(exchange, hth_api_kind_dialect(api), &error);
        return;
    }
    hth_http_watch_set(exchange, &(hth_http_watch){ .on_close = on_close, .on_room = on_room, .user_data = job });
    if (jobs->has_digest || (kind == HTH_TASK_ANSWER && job->task.n_known == 0)) {
        start(job);
        return;
    }
    job->is_waiting = true;
    DL_APPEND2(jobs->waiting, job, prev_waiting, next_waiting);
}

void hth_jobs_set_digest(hth_jobs *jobs, const uint8_t digest[HTH_FRAME_MODEL_BYTES])
{
    memcpy(jobs->shared.model_digest, digest, sizeof(jobs->shared.model_digest));
    jobs->has_digest = true;
    while (jobs->waiting) {
        hth_job *job = jobs->waiting;

        stop_waiting(job); /* NOLINT(clang-analyzer-unix.Malloc): a job leaves its list before it is freed */
        start(job);
    }
}

/* ---- the loop ---- */

/* Report the tokens of completed inputs for embeddings to the front. */
static void tell_work(hth_jobs *jobs)
{
    hth_job *job;

    DL_FOREACH(jobs->list, job)
    {
        const unsigned n = atomic_load_explicit(&job->n_worked, memory_order_relaxed);

        if (!job->exchange || !job->is_preparing || !job->is_framed || n == job->n_work_sent)
            continue;
        job->n_work_sent = n;
        hth_buffer_clear(&jobs->wire);
        hth_frame_add_work(&jobs->wire, n);
        write_wire(job, 200, body_type, false);
    }
}

void hth_jobs_take_events(hth_jobs *jobs)
{
    hth_event_queue *queue = jobs->shared.queue;
    hth_request_events *events;
    hth_job *job;

    /* Collect before checking for prepared jobs: a lane queues its job first and then wakes the loop. */
    hth_event_queue_collect(queue);
    if (atomic_exchange_explicit(&jobs->has_worked, false, memory_order_acquire))
        tell_work(jobs);
    while ((job = hth_message_queue_take(jobs->prepared, 0)))
        settle(job);
    while ((events = hth_event_queue_take(queue))) {
        job = hth_request_events_owner(events);
        job_take_events(job);
        free_if_over(job);
    }
}

void hth_jobs_look_after(hth_jobs *jobs)
{
    uint64_t now_ns = hth_os_monotonic_ns();
    hth_job *job;

    DL_FOREACH(jobs->list, job)
    {
        if (!job->exchange)
            continue;
        if (job->is_paused) {
            const size_t backlog = hth_http_stream_backlog(job->exchange);

            if (backlog < job->backlog)
                hth_task_pause(&job->task, true); /* pausing again renews the pause, because the client still reads */
            job->backlog = backlog;
        }
        if (job->is_running && job->task.request->stream && jobs->silence_ms > 0 &&
            now_ns - job->said_ns >= hth_ms_to_ns(jobs->silence_ms))
            job_say_idle(job);
    }
}

/* ---- making and ending ---- */

static hearth_status open_lane(hth_jobs *jobs, job_lane_kind kind, hearth_error *err)
{
    static const unsigned n_threads[JOB_LANES] = {
        [JOB_LANE_LARGE] = 2,
        [JOB_LANE_HUGE] = LANE_THREADS_MAX,
        [JOB_LANE_COMPLICATED] = LANE_THREADS_MAX,
        [JOB_LANE_FILES] = 1,
    };
    const hth_lane_options options = {
        .n_threads = n_threads[kind],
        .n_waiting_max = PREPARING_MAX,
        .gives_way = kind == JOB_LANE_HUGE,
        .run = prepare,
        .user_data = &jobs->lanes[kind],
    };

    return hth_lane_new(&options, &jobs->lanes[kind], err);
}

hearth_status hth_jobs_new(const hth_task_shared *shared, uint32_t silence_ms, hth_jobs **out, hearth_error *err)
{
    hth_jobs *jobs = calloc(1, sizeof(*jobs));
    hearth_status status = HEARTH_OK;

    if (!jobs)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the worker");
    jobs->shared = *shared;
    jobs->silence_ms = silence_ms;
    /*
     * Room for waiting and running jobs in lanes, and for those at the model, which accepts fewer than PREPARING_MAX
     * requests for embeddings.
     */
    jobs->prepared = hth_message_queue_new((JOB_LANES + 1) * (size_t)(PREPARING_MAX + LANE_THREADS_MAX));
    jobs->shared.prompts = hth_api_prompts_new(PROMPTS_BYTES_MAX);
    jobs->shared.slots = hth_slot_memory_new(HTH_SLOT_TOKENS_MAX);
    if (!jobs->prepared || !jobs->shared.prompts || !jobs->shared.slots)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the worker");
    /* LARGE passes jobs on to COMPLICATED, so COMPLICATED opens first and ends last. */
    for (int i = JOB_LANES - 1; i >= 0 && status == HEARTH_OK; i--)
        status = open_lane(jobs, (job_lane_kind)i, err);
    if (status != HEARTH_OK) {
        hth_jobs_free(jobs);
        return status;
    }
    *out = jobs;
    return HEARTH_OK;
}

void hth_jobs_set_model(hth_jobs *jobs, hearth_model *model, const char *name, const char *shown)
{
    jobs->shared.model = model;
    jobs->shared.model_name = name;
    jobs->shared.shown_name = shown;
}

size_t hth_jobs_n(const hth_jobs *jobs)
{
    return jobs->n;
}

void hth_jobs_free(hth_jobs *jobs)
{
    struct pollfd wake = { .events = POLLIN };
    hth_job *job;

    if (!jobs)
        return;
    for (int i = 0; i < JOB_LANES; i++)
        hth_lane_end(jobs->lanes[i]);
    while (jobs->prepared && (job = hth_message_queue_take(jobs->prepared, 0)))
        settle(job);
    hth_jobs_end_lingering(jobs);
    /* Every exchange has ended and every reply is cancelled: wait for the DONE events. */
    wake.fd = hth_event_queue_fd(jobs->shared.queue);
    while (jobs->list) {
        hth_jobs_take_events(jobs);
        if (jobs->list)
            (void)poll(&wake, 1, -1); /* if it fails, the loop tries again */
    }
    if (jobs->has_digest)
        hth_embed_wait_idle(jobs->shared.model); /* take_embeddings may still run after its last job */
    for (int i = 0; i < JOB_LANES; i++)
        hth_lane_free(jobs->lanes[i]);
    hth_message_queue_free(jobs->prepared);
    hth_memo_free(jobs->shared.prompts);
    hth_slot_memory_free(jobs->shared.slots);
    for (size_t i = 0; i < HTH_SLOT_NUMBERS_MAX; i++)
        seen_slot_deinit(&jobs->seen_slots[i]);
    hth_buffer_deinit(&jobs->piece);
    hth_buffer_deinit(&jobs->wire);
    free(jobs->step.tokens);
    free(jobs->step.logprobs);
    free(jobs);
}
