/*
 * worker_job.c - see worker_job.h
 *
 * A job is known by its box, whose news are all that ever happens to it but for its client going away. It is freed when its
 * exchange has ended, its task is not at work, and every reply that was submitted has told its end.
 *
 * Of a reply that goes on, what its known tokens release has left before, in another worker: it goes through the writer,
 * so that the writer knows it, and is thrown away. What has not been streamed has not left before; there the writer's
 * one body is thrown away only where all replies had ended, for then it had left, too. How much of its prompt was cached
 * was told there as well, and is said again here: what this worker finds in the cache is partly that one's own work.
 */
#include "server/worker_job.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "api/sse.h"
#include "base/mailbox.h"
#include "base/os.h"
#include "base/status.h"
#include "server/frames.h"

enum {
    QUICK_BYTES_MAX = 4 << 10, /* longer bodies are prepared beside the loop: tokens of these take a millisecond */
    PREPARING_MAX = 16384, /* that wait in one lane: when a worker died, all that it had come to the next one at once */
    PROMPTS_BYTES_MAX = 32 << 20,
    BOXES_MAX = 256, /* taken without looking at anything else */
};

static const char stream_type[] = "text/event-stream", body_type[] = "application/json";

/* What is told of a step, until it is written. */
typedef struct step {
    bool is_open;
    uint32_t reply;
    bool has_ended;
    hearth_token *tokens; /* [n_tokens] */
    uint32_t n_tokens;
    uint32_t capacity;
} step;

/* What was told of a reply. */
typedef struct job_reply {
    uint32_t n_tokens;
    uint32_t n_cached;   /* tokens of its prompt, as far as they are known */
    bool has_cached;     /* n_cached was told in another worker: it stays */
    bool is_cached_told; /* to the front */
} job_reply;

struct hth_job {
    hth_jobs *jobs;
    hth_job *prev, *next;
    hth_job *prev_waiting, *next_waiting;
    hth_http_exchange *exchange; /* NULL: it has ended */
    hth_api_dialect dialect;
    bool is_framed;
    bool is_waiting;   /* for the model */
    bool is_preparing; /* in a lane, or on the way back */
    bool is_running;   /* its replies were submitted */
    uint64_t begun_ns;
    bool has_begun; /* a stream, of frames or events */
    bool has_head;  /* the frame */
    bool has_told_model;
    bool is_paused;
    size_t backlog;      /* when that was last asked for */
    atomic_bool is_gone; /* the client: what waits to be prepared need not be */
    uint32_t n_ended;    /* replies whose end was told */
    job_reply *replies;  /* [n_replies] */
    hth_frame_summary summary;
    hth_task task;
};

/* Requests that are prepared one after the other, on a thread of their own. */
typedef enum lane_kind {
    LANE_LARGE,       /* takes milliseconds */
    LANE_COMPLICATED, /* grammars, tools: who knows */
    LANES,
} lane_kind;

typedef struct lane {
    hth_jobs *jobs;
    lane_kind kind;
    hth_mailbox *waiting;
    pthread_t thread;
    bool has_thread;
} lane;

struct hth_jobs {
    hth_jobs_options options;
    hearth_model *model; /* NULL: not loaded yet */
    const char *name;
    bool has_digest; /* the model takes requests */
    uint8_t model_digest[HTH_FRAME_MODEL_BYTES];
    hth_job *list;
    size_t n;
    hth_job *waiting; /* of the list, those that are */
    hth_memo *prompts;
    lane lanes[LANES];
    hth_mailbox *prepared; /* with room for all */

    /* Of the job whose news are being taken. */
    hth_buffer piece; /* what a step has released */
    hth_buffer wire;  /* what is to be written */
    step step;
};

static void settle(hth_job *job);

/* ---- the lanes ---- */

static void *prepare(void *context)
{
    lane *l = context;
    hth_jobs *jobs = l->jobs;
    hth_job *job;

    hth_os_thread_name("hearth-prepare");
    while ((job = hth_mailbox_wait(l->waiting))) {
        hth_task *task = &job->task;
        bool is_read = task->request != NULL;

        if (atomic_load_explicit(&job->is_gone, memory_order_relaxed))
            hth_api_fail(&task->error, HTH_API_OVERLOADED, NULL, "the client has gone");
        else if (!is_read)
            is_read = hth_task_read(task);
        if (is_read && l->kind != LANE_COMPLICATED && hth_task_is_complicated(task) &&
            hth_mailbox_put(jobs->lanes[LANE_COMPLICATED].waiting, job) == HTH_MAILBOX_OK)
            continue;
        if (is_read && task->error.kind == HTH_API_NO_ERROR)
            hth_task_run(task);
        (void)hth_mailbox_put(jobs->prepared, job); /* there is room */
        hth_post_wake(jobs->options.post);
    }
    return NULL;
}

/* ---- making and ending ---- */

static hearth_status open_lane(hth_jobs *jobs, lane_kind kind, hearth_error *err)
{
    lane *l = &jobs->lanes[kind];
    int failed;

    l->jobs = jobs;
    l->kind = kind;
    l->waiting = hth_mailbox_new(PREPARING_MAX);
    if (!l->waiting)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the worker");
    failed = pthread_create(&l->thread, NULL, prepare, l);
    if (failed)
        return hth_fail_errno(err, failed, "cannot start a thread");
    l->has_thread = true;
    return HEARTH_OK;
}

hearth_status hth_jobs_new(const hth_jobs_options *options, hth_jobs **out, hearth_error *err)
{
    hth_jobs *jobs = calloc(1, sizeof(*jobs));
    hearth_status status = HEARTH_OK;

    if (!jobs)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the worker");
    jobs->options = *options;
    jobs->prepared = hth_mailbox_new(LANES * (size_t)(PREPARING_MAX + 1)); /* those that wait, and those at work */
    jobs->prompts = hth_api_prompts_new(PROMPTS_BYTES_MAX);
    if (!jobs->prepared || !jobs->prompts)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the worker");
    for (int i = LANES - 1; i >= 0 && status == HEARTH_OK; i--) /* the first one hands over to the last */
        status = open_lane(jobs, (lane_kind)i, err);
    if (status != HEARTH_OK) {
        hth_jobs_free(jobs);
        return status;
    }
    *out = jobs;
    return HEARTH_OK;
}

void hth_jobs_set_model(hth_jobs *jobs, hearth_model *model, const char *name)
{
    jobs->model = model;
    jobs->name = name;
}

size_t hth_jobs_n(const hth_jobs *jobs)
{
    return jobs->n;
}

static void job_free(hth_job *job)
{
    hth_jobs *jobs = job->jobs;

    assert(!job->exchange);
    DL_DELETE(jobs->list, job);
    jobs->n--;
    hth_task_deinit(&job->task);
    free(job->replies);
    free(job);
}

/* Is there nothing left that might touch it? */
static void free_if_over(hth_job *job)
{
    if (!job->exchange && !job->is_preparing && job->n_ended == job->task.n_submitted)
        job_free(job);
}

/* No preparing any more. */
static void stop(hth_jobs *jobs)
{
    hth_job *job;

    for (int i = 0; i < LANES; i++) {
        lane *l = &jobs->lanes[i];

        if (l->has_thread) {
            hth_mailbox_close(l->waiting);
            pthread_join(l->thread, NULL);
        }
        l->has_thread = false;
    }
    while (jobs->prepared && (job = hth_mailbox_take(jobs->prepared, 0)))
        settle(job);
}

/* Every exchange has ended, and what was submitted is cancelled: wait until it has ended. */
static void wait_for_all(hth_jobs *jobs)
{
    struct pollfd wake = { .fd = hth_post_fd(jobs->options.post), .events = POLLIN };

    while (jobs->list) {
        hth_jobs_take_news(jobs);
        if (jobs->list)
            (void)poll(&wake, 1, -1); /* when it fails, what has come is looked at once more */
    }
}

void hth_jobs_free(hth_jobs *jobs)
{
    if (!jobs)
        return;
    stop(jobs);
    wait_for_all(jobs);
    for (int i = 0; i < LANES; i++)
        hth_mailbox_free(jobs->lanes[i].waiting);
    hth_mailbox_free(jobs->prepared);
    hth_memo_free(jobs->prompts);
    hth_buffer_deinit(&jobs->piece);
    hth_buffer_deinit(&jobs->wire);
    free(jobs->step.tokens);
    free(jobs);
}

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

/* The exchange ends with this. */
static hth_http_exchange *take_exchange(hth_job *job)
{
    hth_http_exchange *exchange = job->exchange;

    job->exchange = NULL;
    return exchange;
}

static void add_head(hth_job *job, int status, bool is_stream, uint32_t retry_after_s)
{
    hth_frame_add_head(&job->jobs->wire, status, is_stream, retry_after_s, is_stream ? stream_type : body_type);
    job->has_head = true;
}

/* Nothing has been written yet, and this is all there will be. */
static void reply_error(hth_job *job, const hth_api_error *error)
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
    hth_frame_add_step(wire, 0, HTH_STEP_ENDS | HTH_STEP_FAILS, NULL, 0, hth_buffer_text(piece), piece->n);
    job->summary.status = (uint32_t)status;
    hth_frame_add_end(wire, &job->summary);
    if (wire->failed)
        hth_http_abort(take_exchange(job));
    else
        hth_http_reply(take_exchange(job), 200, HTH_FRAMES_CONTENT_TYPE, wire->text, wire->n);
}

/* ---- news into bytes ---- */

static bool is_streamed(const hth_job *job)
{
    return job->task.request->stream;
}

/* Has what comes of this already left, in another worker? */
static bool has_left(const hth_job *job, const hth_news *news)
{
    const hth_known *known = &job->task.known;

    if (known->n_replies == 0)
        return false;
    if (!is_streamed(job))
        return hth_known_is_all(known, job->task.n_replies);
    if (hth_known_has_ended(known, news->reply))
        return true;
    switch (news->kind) {
    case HTH_NEWS_TOKEN: return news->event.index < hth_known_n(known, news->reply);
    case HTH_NEWS_TEXT:
        return job->replies[news->reply].n_tokens < hth_known_n(known, news->reply); /* it leaves with that token */
    default: return false;
    }
}

/* The step that is open, as a frame or, for who wants none, as its bytes. */
static void close_step(hth_job *job)
{
    hth_buffer *wire = &job->jobs->wire, *piece = &job->jobs->piece;
    step *s = &job->jobs->step;

    if (!job->is_framed) {
        hth_buffer_add(wire, hth_buffer_text(piece), piece->n);
    } else if (s->is_open && (s->n_tokens > 0 || piece->n > 0 || s->has_ended)) {
        int status = hth_api_reply_http_status(job->task.reply);
        unsigned flags = s->has_ended ? HTH_STEP_ENDS : 0;

        if (!job->has_told_model && !job->task.known.has_model)
            hth_frame_add_model(wire, job->jobs->model_digest);
        job->has_told_model = true;
        if (hth_api_reply_failure(job->task.reply) != 0)
            flags |= HTH_STEP_FAILS; /* nothing is written after it */
        if (piece->n > 0 && !job->has_head)
            add_head(job, status, is_streamed(job) && status == 200, 0);
        hth_frame_add_step(wire, s->reply, flags, s->tokens, s->n_tokens, hth_buffer_text(piece), piece->n);
    }
    wire->failed |= piece->failed;
    hth_buffer_clear(piece);
    s->is_open = false;
    s->has_ended = false;
    s->n_tokens = 0;
}

static void add_token(hth_job *job, hearth_token token)
{
    step *s = &job->jobs->step;

    if (s->n_tokens == s->capacity) {
        uint32_t capacity = 2 * s->capacity + 64;
        hearth_token *grown = realloc(s->tokens, capacity * sizeof(*grown));

        if (!grown) {
            job->jobs->wire.failed = true;
            return;
        }
        s->tokens = grown;
        s->capacity = capacity;
    }
    s->tokens[s->n_tokens++] = token;
}

/* A token that was to come out as it did in another worker came out otherwise. */
static bool is_another(const hth_job *job, const hth_news *news)
{
    const hth_known *known = &job->task.known;

    return news->event.index < hth_known_n(known, news->reply) &&
           known->replies[news->reply].tokens[news->event.index] != news->event.token;
}

static void fail(hth_job *job, hth_api_error_kind kind, const char *message)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, kind, NULL, "%s", message);
    hth_api_reply_fail(job->task.reply, &error, &job->jobs->piece);
}

static void take_token(hth_job *job, const hth_news *news)
{
    hth_api_reply *reply = job->task.reply;
    hth_buffer *piece = &job->jobs->piece;
    hearth_token_event event = news->event;
    hearth_stats stats;

    job->replies[news->reply].n_tokens = event.index + 1;
    if (is_another(job, news)) {
        fail(job, HTH_API_INTERNAL, "the reply was broken off and cannot be gone on with: it came out differently");
        return;
    }
    if (event.stats) { /* as the client was told of the cache before */
        stats = *event.stats;
        stats.cached_tokens = job->replies[news->reply].n_cached;
        event.stats = &stats;
    }
    hth_api_reply_token(reply, news->reply, &event, piece);
    if (event.n_bytes > 0)
        hth_api_reply_text(reply, news->reply, event.text, event.n_bytes, piece);
}

static void add_to_summary(hth_job *job, const hth_news *news)
{
    const hearth_stats *stats = &news->result->stats;
    hth_frame_summary *summary = &job->summary;

    summary->n_reply_tokens += stats->completion_tokens;
    if (news->reply % job->task.request->options.n == 0) {
        summary->n_prompt_tokens += stats->prompt_tokens;
        summary->n_cached_tokens += job->replies[news->reply].n_cached;
    }
    if (news->reply > 0)
        return;
    summary->hit = stats->hit;
    summary->tier = stats->tier;
    summary->miss = stats->miss;
    summary->finish = news->result->finish_reason;
    summary->queue_ms = stats->queue_ms;
    summary->restore_ms = stats->restore_ms;
    summary->prefill_ms = stats->prefill_ms;
    summary->ttft_ms = stats->ttft_ms;
    summary->decode_ms = stats->decode_ms;
}

/*
 * The news have left before, in another worker, but for the end of all replies, where this was the last one here but not
 * there.
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
    job->jobs->step.has_ended |= n_end > 0; /* said once more: with what it ends */
}

/* How much of its prompt was cached: at the latest its first token says it for good. */
static void take_cached(hth_job *job, const hth_news *news)
{
    job_reply *reply = &job->replies[news->reply];

    if (news->kind == HTH_NEWS_PROGRESS && !reply->has_cached)
        reply->n_cached = news->n_done;
    if (news->kind == HTH_NEWS_DONE && !reply->has_cached)
        reply->n_cached = news->result->stats.cached_tokens;
    if (news->kind == HTH_NEWS_PROGRESS || reply->has_cached || reply->is_cached_told)
        return;
    reply->is_cached_told = true;
    if (job->is_framed && hth_known_n(&job->task.known, news->reply) == 0)
        hth_frame_add_cached(&job->jobs->wire, news->reply, reply->n_cached);
}

static void take_end(hth_job *job, const hth_news *news)
{
    hearth_result result = *news->result; /* borrows what it holds */

    result.stats.cached_tokens = job->replies[news->reply].n_cached;
    add_to_summary(job, news);
    hth_api_reply_done(job->task.reply, news->reply, &result, &job->jobs->piece);
}

/* One thing, for a client who is still there. */
static void take_news(hth_job *job, const hth_news *news)
{
    hth_api_reply *reply = job->task.reply;
    hth_buffer *piece = &job->jobs->piece;
    step *s = &job->jobs->step;
    bool is_old = has_left(job, news);
    size_t n_before;

    if (s->is_open && s->reply != news->reply)
        close_step(job);
    take_cached(job, news);
    s->is_open = true;
    s->reply = news->reply;
    n_before = piece->n;
    switch (news->kind) {
    case HTH_NEWS_PROGRESS:
        hth_api_reply_progress(reply, news->reply, HEARTH_PHASE_RESTORE, job->replies[news->reply].n_cached);
        break;
    case HTH_NEWS_TEXT: hth_api_reply_text(reply, news->reply, news->event.text, news->event.n_bytes, piece); break;
    case HTH_NEWS_TOKEN:
        if (news->event.index >= hth_known_n(&job->task.known, news->reply))
            add_token(job, news->event.token);
        take_token(job, news);
        break;
    case HTH_NEWS_DONE:
        take_end(job, news);
        s->has_ended = !hth_known_has_ended(&job->task.known, news->reply);
        break;
    }
    if (is_old)
        drop_old(job, n_before);
    if (news->kind == HTH_NEWS_DONE)
        close_step(job);
}

/* ---- bytes to the client ---- */

/* A client that takes too little makes its replies wait. */
static void hold_back(hth_job *job)
{
    job->backlog = hth_http_stream_backlog(job->exchange);
    if (job->backlog < HTH_HTTP_BACKLOG_MAX || job->is_paused)
        return;
    job->is_paused = true;
    hth_task_pause(&job->task, true);
}

/* Write what has come; the exchange ends with the reply. */
static void write_news(hth_job *job)
{
    const hth_api_reply *reply = job->task.reply;
    bool has_ended = hth_api_reply_has_ended(reply);
    int failure = hth_api_reply_failure(reply), status = hth_api_reply_http_status(reply);
    bool is_stream = is_streamed(job) && status == 200;
    const char *type = job->is_framed ? HTH_FRAMES_CONTENT_TYPE : is_stream ? stream_type : body_type;
    hth_buffer *wire = &job->jobs->wire;

    close_step(job);
    if (job->is_framed && has_ended) {
        if (!job->has_head)
            add_head(job, status, is_stream, 0);
        job->summary.status = (uint32_t)(failure ? failure : status);
        hth_frame_add_end(wire, &job->summary);
    }
    if (job->is_framed)
        status = 200; /* the frames have their own */
    if (wire->failed) {
        hth_http_abort(take_exchange(job));
    } else if (has_ended && !job->has_begun) {
        hth_http_reply(take_exchange(job), status, type, hth_buffer_text(wire), wire->n);
    } else if (wire->n > 0) {
        if (!job->has_begun)
            hth_http_stream_begin(job->exchange, status, type);
        job->has_begun = true;
        hth_http_stream_write(job->exchange, wire->text, wire->n);
        if (has_ended)
            hth_http_stream_end(take_exchange(job));
        else
            hold_back(job);
    }
    if (!job->exchange && job->n_ended < job->task.n_submitted)
        hth_task_cancel(&job->task); /* it failed while others of its replies run */
}

static void take_box(hth_job *job)
{
    hth_jobs *jobs = job->jobs;
    hth_news news;

    hth_buffer_clear(&jobs->wire);
    hth_buffer_clear(&jobs->piece);
    jobs->step.is_open = jobs->step.has_ended = false;
    jobs->step.n_tokens = 0;
    while (hth_post_read(jobs->options.post, &news)) {
        job->n_ended += news.kind == HTH_NEWS_DONE;
        if (job->exchange && !hth_api_reply_has_ended(job->task.reply))
            take_news(job, &news);
    }
    if (job->exchange)
        write_news(job);
    free_if_over(job);
}

/* ---- from the beginning ---- */

/* Make room for what is told of each reply, with what was told in another worker. */
static bool begin_replies(hth_job *job)
{
    hth_task *task = &job->task;

    job->replies = calloc(task->n_replies ? task->n_replies : 1, sizeof(*job->replies));
    if (!job->replies)
        return false;
    for (uint32_t i = 0; i < task->n_replies; i++) {
        job_reply *reply = &job->replies[i];

        reply->has_cached = hth_known_cached(&task->known, i, &reply->n_cached);
        if (reply->has_cached)
            hth_api_reply_progress(task->reply, i, HEARTH_PHASE_RESTORE, reply->n_cached);
    }
    return true;
}

/* The task has been run. */
static void settle(hth_job *job)
{
    hth_task *task = &job->task;
    const hth_api_error no_memory = { .kind = HTH_API_OVERLOADED, .message = "no memory for the reply" };

    job->is_preparing = false;
    if (job->exchange && task->error.kind != HTH_API_NO_ERROR)
        reply_error(job, &task->error);
    else if (job->exchange && task->kind != HTH_TASK_GENERATE)
        hth_http_reply(take_exchange(job), 200, body_type, hth_buffer_text(&task->answer), task->answer.n);
    else if (!begin_replies(job) && job->exchange)
        reply_error(job, &no_memory);
    if (!job->exchange)
        hth_task_cancel(task);
    job->is_running = job->exchange != NULL;
    if (task->n_submitted > 0)
        hth_box_open(task->box);
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
    if (!job->is_preparing)
        hth_task_cancel(&job->task);
    free_if_over(job);
}

static void on_room(void *user_data)
{
    hth_job *job = user_data;

    if (!job->is_paused)
        return;
    job->is_paused = false;
    hth_task_pause(&job->task, false);
}

static void prepare_elsewhere(hth_job *job, lane_kind kind)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_task *task = &job->task;

    if (!task->request) { /* what is to be read has to outlive the exchange */
        task->bytes_copy = malloc(task->n_bytes + 1);
        if (task->bytes_copy)
            memcpy(task->bytes_copy, task->bytes, task->n_bytes);
        task->bytes = task->bytes_copy;
    }
    job->is_preparing = true;
    if ((task->request || task->bytes_copy) && hth_mailbox_put(job->jobs->lanes[kind].waiting, job) == HTH_MAILBOX_OK)
        return;
    job->is_preparing = false;
    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "too many requests wait to be prepared; try again in a second");
    error.retry_after_s = 1;
    reply_error(job, &error);
    free_if_over(job);
}

/* A header's value as a number; 0 where it is none. */
static uint64_t header_number(const hth_http_exchange *exchange, const char *name)
{
    const char *text = hth_http_header(exchange, name);
    uint64_t value = 0;

    for (; text && *text >= '0' && *text <= '9'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');

        if (value > (UINT64_MAX - digit) / 10)
            return 0;
        value = 10 * value + digit;
    }
    return text && !*text ? value : 0;
}

static bool is_id(const char *text)
{
    size_t n = strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

    return n > 0 && n < HTH_TASK_ID_BYTES && text[n] == '\0';
}

/* What the front says of the request; without one it is made up here. False without memory. */
static bool read_headers(hth_job *job)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    enum { ID_LETTERS = 24 };
    const hth_http_exchange *exchange = job->exchange;
    const char *id = hth_http_header(exchange, HTH_HEADER_ID), *salt = hth_http_header(exchange, HTH_HEADER_SALT);
    hth_task *task = &job->task;
    uint8_t random[ID_LETTERS + 8];

    hth_os_random(random, sizeof(random));
    for (size_t i = 0; i < ID_LETTERS; i++)
        task->id[i] = letters[random[i] % (sizeof(letters) - 1)];
    if (id && is_id(id))
        (void)snprintf(task->id, sizeof(task->id), "%s", id); /* fits */
    memcpy(&task->seed, random + ID_LETTERS, sizeof(task->seed));
    task->seed >>= 11; /* shown as a JSON number, which many readers keep as a double */
    if (hth_http_header(exchange, HTH_HEADER_SEED))
        task->seed = header_number(exchange, HTH_HEADER_SEED);
    task->created_s = (json_int_t)(header_number(exchange, HTH_HEADER_CREATED) & INT64_MAX);
    if (task->created_s == 0)
        task->created_s = (json_int_t)hth_os_unix_seconds();
    task->n_known = (size_t)header_number(exchange, HTH_HEADER_KNOWN);
    task->goes_on = hth_http_header(exchange, HTH_HEADER_KNOWN) != NULL;
    job->is_framed = task->kind == HTH_TASK_GENERATE && hth_http_header(exchange, HTH_HEADER_FRAMES);
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
    job->begun_ns = hth_os_monotonic_ns();
    job->task = (hth_task){
        .model = jobs->model,
        .post = jobs->options.post,
        .prompts = jobs->prompts,
        .limits = jobs->options.limits,
        .model_name = jobs->name,
        .model_digest = jobs->model_digest,
        .kind = kind,
        .api = api,
        .owner = job,
        .is_gone = &job->is_gone,
    };
    job->task.bytes = hth_http_body(exchange, &job->task.n_bytes);
    if (!read_headers(job)) {
        free(job);
        return NULL;
    }
    DL_APPEND(jobs->list, job);
    jobs->n++;
    return job;
}

static void start(hth_job *job)
{
    if (job->task.n_bytes > QUICK_BYTES_MAX || job->task.n_known > 0) {
        prepare_elsewhere(job, LANE_LARGE);
        return;
    }
    if (hth_task_read(&job->task)) {
        if (hth_task_is_complicated(&job->task)) {
            prepare_elsewhere(job, LANE_COMPLICATED);
            return;
        }
        hth_task_run(&job->task);
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
    memcpy(jobs->model_digest, digest, sizeof(jobs->model_digest));
    jobs->has_digest = true;
    while (jobs->waiting) {
        hth_job *job = jobs->waiting;

        stop_waiting(job);
        start(job);
    }
}

/* ---- the loop ---- */

void hth_jobs_take_news(hth_jobs *jobs)
{
    hth_post *post = jobs->options.post;
    hth_box *box = NULL;
    hth_job *job;

    hth_post_clear_wake(post);
    while ((job = hth_mailbox_take(jobs->prepared, 0)))
        settle(job);
    for (int n = 0; n < BOXES_MAX && (box = hth_post_take(post)); n++)
        take_box(hth_box_owner(box));
    if (box)
        hth_post_wake(post); /* there may be more, but others want a turn */
}

/*
 * Nothing has come of a stream for a while, because its prompt is long or others are before it: its head leaves now, so
 * that nobody on the way takes the connection for dead.
 */
static void begin_stream(hth_job *job)
{
    hth_buffer *wire = &job->jobs->wire;

    hth_buffer_clear(wire);
    if (job->is_framed)
        add_head(job, 200, true, 0);
    else
        hth_sse_add_comment(wire);
    if (wire->failed)
        return;
    hth_api_reply_note_begun(job->task.reply);
    job->has_begun = true;
    hth_http_stream_begin(job->exchange, 200, job->is_framed ? HTH_FRAMES_CONTENT_TYPE : stream_type);
    hth_http_stream_write(job->exchange, wire->text, wire->n);
}

static void renew_pause(hth_job *job)
{
    size_t backlog = hth_http_stream_backlog(job->exchange);

    if (backlog < job->backlog)
        hth_task_pause(&job->task, true); /* said again it means that the reader still reads */
    job->backlog = backlog;
}

void hth_jobs_look_after(hth_jobs *jobs)
{
    uint64_t now_ns = hth_os_monotonic_ns();
    hth_job *job;

    DL_FOREACH(jobs->list, job)
    {
        if (!job->exchange)
            continue;
        if (job->is_paused)
            renew_pause(job);
        if (job->is_running && !job->has_begun && is_streamed(job) &&
            now_ns - job->begun_ns >= hth_ms_to_ns(jobs->options.silence_ms))
            begin_stream(job);
    }
}
