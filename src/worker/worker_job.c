/*
 * worker_job.c - all jobs: their preparation, their beginning and their end
 *
 * A job advances when events of its request come, when its client takes bytes, and when its client leaves. It is freed
 * when its exchange has ended, its task is not being prepared, and the DONE event of every submitted reply was read.
 */
#include "worker/worker_job_inside.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/draw.h"
#include "base/os.h"
#include "base/status.h"
#include "models/model.h"
#include "worker/worker_live_adapters.h"
#include "worker/worker_prefixes.h"
#include "worker/worker_slots.h"

enum {
    QUICK_BYTES_MAX = 4 << 10,   /* longer bodies go to a lane: their tokenization takes a millisecond or more */
    LARGE_BYTES_MAX = 256 << 10, /* longer ones take tenths of a second or more, so they do not go before others */
    PREPARING_MAX = 65536,       /* in one lane: all requests of a dead worker come to the next one at once */
    LANE_THREADS_MAX = 3,
    PROMPTS_BYTES_MAX = 32 << 20,
};

static void settle(hth_job *job);

/* False: the job goes on in another thread, and may be gone. */
static bool run(hth_task *task)
{
    if (task->kind == HTH_TASK_SLOT)
        hth_slot_order_run(task);
    else if (task->kind == HTH_TASK_PREFIXES)
        hth_worker_prefixes_run(task);
    else if (task->kind == HTH_TASK_ADAPTERS)
        hth_task_set_adapters(task);
    else if (!hth_task_run(task))
        return false;
    if (task->answer.failed)
        hth_api_fail(&task->error, HTH_API_OVERLOADED, NULL, "no memory for the answer");
    return true;
}

/* ---- the lanes ---- */

static void put_prepared(hth_job *job)
{
    hth_jobs *jobs = job->jobs; /* the job may be gone as soon as it is in the queue */

    (void)hth_message_queue_put(jobs->prepared, job); /* it has room for all */
    hth_event_queue_wake(jobs->options.queue);
}

/* hth_lane_fn */
static void prepare(void *work, void *user_data)
{
    const hth_job_lane *l = user_data;
    hth_jobs *jobs = l->jobs;
    hth_job *job = work;
    hth_task *task = &job->task;
    bool is_read = task->request != NULL;

    if (atomic_load_explicit(&job->is_gone, memory_order_relaxed))
        hth_api_fail(&task->error, HTH_API_OVERLOADED, NULL, "the client has gone");
    else if (!is_read)
        is_read = hth_task_read(task);
    if (is_read && l->kind == HTH_JOB_LANE_LARGE && hth_task_is_complicated(task) &&
        hth_lane_put(jobs->lanes[HTH_JOB_LANE_COMPLICATED].lane, task->front_salt, job))
        return;
    if (is_read && task->error.kind == HTH_API_NO_ERROR && !run(task))
        return;
    put_prepared(job);
}

/* hth_embed_worked_fn, on a thread of the model */
static void note_worked(uint64_t n_tokens, void *user_data)
{
    hth_job *job = user_data;

    atomic_store_explicit(&job->n_worked, (unsigned)n_tokens, memory_order_relaxed); /* at most 4 Mi */
    atomic_store_explicit(&job->jobs->has_worked, true, memory_order_release);
    hth_event_queue_wake(job->jobs->options.queue);
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

/* ---- making and ending ---- */

static hearth_status open_lane(hth_jobs *jobs, hth_job_lane_kind kind, hearth_error *err)
{
    static const unsigned n_threads[HTH_JOB_LANES] = {
        [HTH_JOB_LANE_LARGE] = 2,
        [HTH_JOB_LANE_HUGE] = LANE_THREADS_MAX,
        [HTH_JOB_LANE_COMPLICATED] = LANE_THREADS_MAX,
        [HTH_JOB_LANE_FILES] = 1,
    };
    const hth_lane_options options = {
        .n_threads = n_threads[kind],
        .n_waiting_max = PREPARING_MAX,
        .gives_way = kind == HTH_JOB_LANE_HUGE,
        .run = prepare,
        .user_data = &jobs->lanes[kind],
    };

    jobs->lanes[kind].jobs = jobs;
    jobs->lanes[kind].kind = kind;
    return hth_lane_new(&options, &jobs->lanes[kind].lane, err);
}

hearth_status hth_jobs_new(const hth_jobs_options *options, hth_jobs **out, hearth_error *err)
{
    hth_jobs *jobs = calloc(1, sizeof(*jobs));
    hearth_status status = HEARTH_OK;

    if (!jobs)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the worker");
    jobs->options = *options;
    /* In lanes, waiting and at work; and at the model, which takes fewer than PREPARING_MAX requests for embeddings. */
    jobs->prepared = hth_message_queue_new((HTH_JOB_LANES + 1) * (size_t)(PREPARING_MAX + LANE_THREADS_MAX));
    jobs->prompts = hth_api_prompts_new(PROMPTS_BYTES_MAX);
    jobs->slots = hth_slot_memory_new(HTH_SLOT_TOKENS_MAX);
    if (!jobs->prepared || !jobs->prompts || !jobs->slots)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the worker");
    /* LARGE hands over to COMPLICATED, so that opens first and ends last. */
    for (int i = HTH_JOB_LANES - 1; i >= 0 && status == HEARTH_OK; i--)
        status = open_lane(jobs, (hth_job_lane_kind)i, err);
    if (status != HEARTH_OK) {
        hth_jobs_free(jobs);
        return status;
    }
    *out = jobs;
    return HEARTH_OK;
}

void hth_jobs_set_model(hth_jobs *jobs, hearth_model *model, const char *name, const char *shown)
{
    jobs->model = model;
    jobs->name = name;
    jobs->shown = shown;
}

size_t hth_jobs_n(const hth_jobs *jobs)
{
    return jobs->n;
}

static void job_free(hth_job *job)
{
    hth_jobs *jobs = job->jobs;

    assert(!job->exchange);
    hth_job_keep_slot(job);
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

/* End the lanes. */
static void stop(hth_jobs *jobs)
{
    hth_job *job;

    for (int i = 0; i < HTH_JOB_LANES; i++)
        hth_lane_end(jobs->lanes[i].lane);
    while (jobs->prepared && (job = hth_message_queue_take(jobs->prepared, 0)))
        settle(job);
}

/* Every exchange has ended and every reply is cancelled: wait for the DONE events. */
static void wait_for_all(hth_jobs *jobs)
{
    struct pollfd wake = { .fd = hth_event_queue_fd(jobs->options.queue), .events = POLLIN };

    while (jobs->list) {
        hth_jobs_take_events(jobs);
        if (jobs->list)
            (void)poll(&wake, 1, -1); /* if it fails, the loop tries again */
    }
}

void hth_jobs_free(hth_jobs *jobs)
{
    if (!jobs)
        return;
    stop(jobs);
    hth_jobs_end_lingering(jobs);
    wait_for_all(jobs);
    if (jobs->has_digest)
        hth_embed_wait_idle(jobs->model); /* take_embeddings may still be at work behind its last job */
    for (int i = 0; i < HTH_JOB_LANES; i++)
        hth_lane_free(jobs->lanes[i].lane);
    hth_message_queue_free(jobs->prepared);
    hth_memo_free(jobs->prompts);
    hth_slot_memory_free(jobs->slots);
    for (size_t i = 0; i < HTH_SLOT_NUMBERS_MAX; i++)
        hth_seen_slot_deinit(&jobs->seen_slots[i]);
    hth_buffer_deinit(&jobs->piece);
    hth_buffer_deinit(&jobs->wire);
    free(jobs->step.tokens);
    free(jobs->step.logprobs);
    free(jobs);
}

/* ---- from the beginning ---- */

/* The preparation is over. */
static void settle(hth_job *job)
{
    hth_task *task = &job->task;
    const hth_api_error no_memory = { .kind = HTH_API_OVERLOADED, .message = "no memory for the reply" };

    job->is_preparing = false;
    job->prepare_ms = (double)(hth_os_monotonic_ns() - job->started_ns) / 1e6;
    if (job->exchange && task->error.kind != HTH_API_NO_ERROR)
        hth_job_fail(job, &task->error);
    else if (job->exchange && task->kind == HTH_TASK_EMBED)
        hth_job_begin_body(job);
    else if (job->exchange && task->kind != HTH_TASK_GENERATE)
        hth_job_reply_answer(job);
    else if (!hth_job_begin_replies(job) && job->exchange)
        hth_job_fail(job, &no_memory);
    else if (job->exchange)
        hth_job_tell_begun(job);
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
        hth_task_linger(&job->task, job->jobs->ends_lingering ? 0 : job->jobs->options.settings->linger_ms);
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
    hth_job_write_on(job);
    free_if_over(job);
}

static void prepare_elsewhere(hth_job *job, hth_job_lane_kind kind)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_task *task = &job->task;

    if (!task->request) { /* the thread reads the body, which may outlive the exchange */
        task->bytes_copy = malloc(task->n_bytes + 1);
        if (task->bytes_copy)
            memcpy(task->bytes_copy, task->bytes, task->n_bytes);
        task->bytes = task->bytes_copy;
    }
    job->is_preparing = true;
    if ((task->request || task->bytes_copy) && hth_lane_put(job->jobs->lanes[kind].lane, task->front_salt, job))
        return;
    job->is_preparing = false;
    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "too many requests wait to be prepared; try again in a second");
    error.retry_after_s = 1;
    hth_job_fail(job, &error);
    free_if_over(job);
}

/* The value of a header as a number; 0: it is no number. */
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

/* Read the headers of the front, and set defaults for missing ones. False without memory. */
static bool read_headers(hth_job *job)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    enum { ID_LETTERS = 24 };
    const hth_http_exchange *exchange = job->exchange;
    const char *id = hth_http_header(exchange, HTH_HEADER_ID), *salt = hth_http_header(exchange, HTH_HEADER_SALT);
    hth_task *task = &job->task;
    uint8_t random[ID_LETTERS];

    hth_os_random(random, sizeof(random));
    for (size_t i = 0; i < ID_LETTERS; i++)
        task->id[i] = letters[random[i] % (sizeof(letters) - 1)];
    if (id && is_id(id))
        (void)snprintf(task->id, sizeof(task->id), "%s", id); /* fits */
    task->seed =
        hth_http_header(exchange, HTH_HEADER_SEED) ? header_number(exchange, HTH_HEADER_SEED) : hth_draw_seed();
    task->created_s = (json_int_t)(header_number(exchange, HTH_HEADER_CREATED) & INT64_MAX);
    if (task->created_s == 0)
        task->created_s = (json_int_t)hth_os_unix_seconds();
    task->n_known = (size_t)header_number(exchange, HTH_HEADER_KNOWN);
    task->n_past = (size_t)header_number(exchange, HTH_HEADER_PAST);
    task->goes_on = hth_http_header(exchange, HTH_HEADER_KNOWN) != NULL;
    task->names_adapter = hth_http_header(exchange, HTH_HEADER_ADAPTER) != NULL;
    job->is_framed = (task->kind == HTH_TASK_GENERATE || task->kind == HTH_TASK_EMBED) &&
                     hth_http_header(exchange, HTH_HEADER_FRAMES);
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
        .model = jobs->model,
        .queue = jobs->options.queue,
        .prompts = jobs->prompts,
        .slots = jobs->slots,
        .live_adapters = jobs->options.live_adapters,
        .settings = jobs->options.settings,
        .defaults = jobs->options.defaults,
        .model_name = jobs->name,
        .shown_name = jobs->shown,
        .model_digest = jobs->model_digest,
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
        prepare_elsewhere(job, HTH_JOB_LANE_FILES);
        return;
    }
    /* A query is joined with each document, so a short body may have many tokens. */
    if (job->task.n_bytes > QUICK_BYTES_MAX || job->task.n_known > 0 || job->task.api == HTH_API_RERANK) {
        prepare_elsewhere(job, job->task.n_bytes > LARGE_BYTES_MAX ? HTH_JOB_LANE_HUGE : HTH_JOB_LANE_LARGE);
        return;
    }
    if (hth_task_read(&job->task)) {
        if (hth_task_is_complicated(&job->task)) {
            prepare_elsewhere(job, HTH_JOB_LANE_COMPLICATED);
            return;
        }
        job->is_preparing = true;
        if (!run(&job->task))
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
    memcpy(jobs->model_digest, digest, sizeof(jobs->model_digest));
    jobs->has_digest = true;
    while (jobs->waiting) {
        hth_job *job = jobs->waiting;

        DL_DELETE2(jobs->waiting, job, prev_waiting, next_waiting);
        job->is_waiting = false;
        start(job);
    }
}

/* ---- the loop ---- */

/* Tell the front of inputs that are done. */
static void tell_work(hth_jobs *jobs)
{
    hth_job *job;

    DL_FOREACH(jobs->list, job)
    {
        if (job->exchange && job->is_preparing && job->is_framed)
            hth_job_tell_work(job);
    }
}

void hth_jobs_take_events(hth_jobs *jobs)
{
    hth_event_queue *queue = jobs->options.queue;
    hth_request_events *events;
    hth_job *job;

    /* Collect before looking at prepared jobs: a lane queues its job first and then wakes the loop. */
    hth_event_queue_collect(queue);
    if (atomic_exchange_explicit(&jobs->has_worked, false, memory_order_acquire))
        tell_work(jobs);
    while ((job = hth_message_queue_take(jobs->prepared, 0)))
        settle(job);
    while ((events = hth_event_queue_take(queue))) {
        job = hth_request_events_owner(events);
        hth_job_take_events(job);
        free_if_over(job);
    }
}

static void renew_pause(hth_job *job)
{
    size_t backlog = hth_http_stream_backlog(job->exchange);

    if (backlog < job->backlog)
        hth_task_pause(&job->task, true); /* pausing again renews the pause: the reader still reads */
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
        if (job->is_running && job->task.request->stream && jobs->options.silence_ms > 0 &&
            now_ns - job->said_ns >= hth_ms_to_ns(jobs->options.silence_ms))
            hth_job_say_idle(job);
    }
}
