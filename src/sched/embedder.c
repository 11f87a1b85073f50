/*
 * embedder.c - the line of requests, their evaluations and their ends
 *
 * Only the thread takes jobs out of the line and changes their order; other threads add jobs at the end and set
 * is_cancelled. A job stays in the line until its on_done has returned, so that cancel and wait find it.
 */
#include "sched/embedder_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/deadline.h"
#include "base/os.h"

enum { TOKENS_FILL = 512 /* of an evaluation, unless one input is longer: more are no faster, and all wait for all */ };

static _Thread_local bool is_embedder_thread;

bool hth_embedder_is_this_thread(void)
{
    return is_embedder_thread;
}

void hth_embed_job_free(hth_embed_job *job)
{
    if (!job)
        return;
    if (job->embeddings)
        hearth_embeddings_unref(&job->embeddings->shown);
    hth_adapter_set_unref(job->adapters);
    free(job->tokens);
    free(job->n_tokens);
    free(job);
}

static uint64_t tokens_bytes(const hth_embed_job *job)
{
    return job->embeddings->shown.n_tokens_total * sizeof(*job->tokens);
}

/* ---- ending ---- */

/* Tell the caller. The lock is held before and after. */
static void end_locked(hth_embedder *embedder, hth_embed_job *job)
{
    uint64_t now_ns = hth_os_monotonic_ns();
    hearth_embeddings *shown = &job->embeddings->shown;

    pthread_mutex_unlock(&embedder->lock);
    shown->queue_ms = (double)((job->begun_ns ? job->begun_ns : now_ns) - job->submitted_ns) / 1e6;
    shown->compute_ms = job->begun_ns ? (double)(now_ns - job->begun_ns) / 1e6 : 0;
    if (job->on_done)
        job->on_done(job->id, shown, job->user_data);
    if (!job->counts_answer)
        hth_embeddings_uncount(job->embeddings);
    pthread_mutex_lock(&embedder->lock);
    DL_DELETE(embedder->line, job);
    embedder->n_jobs--;
    embedder->tokens_bytes -= tokens_bytes(job);
    pthread_cond_broadcast(&embedder->changed);
    hth_embed_job_free(job);
}

void hth_embedder_fail_locked(hth_embedder *embedder, hth_embed_job *job, const hearth_error *error)
{
    hth_embeddings_fail(job->embeddings, error);
    end_locked(embedder, job);
}

/* The first job of the line that is over or has all of its vectors, and of which nothing runs; NULL: none. */
static hth_embed_job *ended_locked(const hth_embedder *embedder)
{
    hth_embed_job *job;

    DL_FOREACH(embedder->line, job)
    {
        if (job->n_begun == 0 && (job->n_done == job->n_inputs || job->has_failed || hth_embed_job_is_over(job)))
            return job;
    }
    return NULL;
}

/* Tell who asks of inputs that are done. Jobs stay in the line, and come behind its end. */
static void tell_work_locked(hth_embedder *embedder)
{
    hth_embed_job *job;

    DL_FOREACH(embedder->line, job)
    {
        if (!job->on_worked || job->tokens_told == job->tokens_done)
            continue;
        job->tokens_told = job->tokens_done;
        pthread_mutex_unlock(&embedder->lock);
        job->on_worked(job->tokens_told, job->user_data);
        pthread_mutex_lock(&embedder->lock);
    }
}

static void end_jobs_locked(hth_embedder *embedder)
{
    hth_embed_job *job;

    while ((job = ended_locked(embedder))) {
        if (job->n_done < job->n_inputs) {
            if (!job->has_failed)
                (void)hth_fail(&job->error, HEARTH_CANCELLED, "the request was cancelled");
            hth_embedder_fail_locked(embedder, job, &job->error);
        } else {
            end_locked(embedder, job);
        }
    }
}

/* ---- choosing inputs ---- */

/* May the next input of the job join the evaluation, which is begun for first? */
static bool may_join(const hth_embedder *embedder, const hth_embed_job *job, const hth_embed_job *first,
                     uint32_t n_tokens)
{
    if (job->n_taken == job->n_inputs || job->embeddings->shown.pooling != first->embeddings->shown.pooling ||
        memcmp(hth_adapter_set_digest(job->adapters), hth_adapter_set_digest(first->adapters), 32) != 0 ||
        (job != first && (job->is_alone || first->is_alone)))
        return false;
    return embedder->n_places == 0 || (n_tokens + job->n_tokens[job->n_taken] <= TOKENS_FILL &&
                                       n_tokens + job->n_tokens[job->n_taken] <= embedder->options.n_tokens_max);
}

/* One input of each job in turn, until no further one fits. */
static void choose_locked(hth_embedder *embedder, uint32_t n_places_max)
{
    hth_embed_job *first = embedder->line, *job;
    uint32_t n_tokens = 0;
    bool has_taken = true;

    embedder->n_places = 0;
    while (has_taken && embedder->n_places < n_places_max) {
        has_taken = false;
        DL_FOREACH(first, job)
        {
            if (embedder->n_places == n_places_max || !may_join(embedder, job, first, n_tokens))
                continue;
            embedder->places[embedder->n_places++] =
                (hth_embedder_place){ .job = job, .input = job->n_taken, .first_token = job->tokens_taken };
            n_tokens += job->n_tokens[job->n_taken];
            job->tokens_taken += job->n_tokens[job->n_taken];
            job->n_taken++;
            has_taken = true;
        }
    }
}

/* Give back what was chosen. */
static void put_back_locked(hth_embedder *embedder)
{
    for (size_t i = 0; i < embedder->n_places; i++) {
        hth_embed_job *job = embedder->places[i].job;

        job->n_taken--;
        job->tokens_taken -= job->n_tokens[embedder->places[i].input];
    }
}

/* Those that took part go to the end of the line. */
static void rotate_locked(hth_embedder *embedder)
{
    for (size_t i = 0; i < embedder->n_places; i++) {
        hth_embed_job *job = embedder->places[i].job;

        DL_DELETE(embedder->line, job);
        DL_APPEND(embedder->line, job);
    }
}

/* ---- evaluating ---- */

/* Is nobody left who waits for the evaluation? The engine's threads ask. */
static bool wants_abort(void *user_data)
{
    const hth_embedder *embedder = user_data;

    for (size_t i = 0; i < embedder->n_places; i++)
        if (!hth_embed_job_is_over(embedder->places[i].job))
            return false;
    return true;
}

/* Make the context of the pooling the latest. False: there is none. */
static bool find_context(hth_embedder *embedder, hearth_pooling pooling)
{
    for (size_t i = 0; i < HTH_EMBEDDER_CONTEXTS && embedder->contexts[i].engine; i++) {
        if (embedder->contexts[i].pooling != pooling)
            continue;
        while (i > 0) {
            hth_engine_embedder *engine = embedder->contexts[i].engine;

            embedder->contexts[i] = embedder->contexts[i - 1];
            embedder->contexts[--i].engine = engine;
            embedder->contexts[i].pooling = pooling;
        }
        return true;
    }
    return false;
}

static hearth_status make_context(hth_embedder *embedder, hearth_pooling pooling, hearth_error *err)
{
    const hth_embedder_options *options = &embedder->options;
    hth_embedder_params params = {
        .pooling = pooling,
        .n_tokens_max = options->n_tokens_max,
        .n_inputs_max = HTH_EMBEDDER_INPUTS,
        .n_threads = options->n_threads,
        .abort = wants_abort,
        .abort_user_data = embedder,
    };
    hth_engine_embedder *engine = NULL;
    hearth_status status;

    if (find_context(embedder, pooling))
        return HEARTH_OK;
    options->backend->embedder_free(embedder->contexts[HTH_EMBEDDER_CONTEXTS - 1].engine); /* first, for its memory */
    embedder->contexts[HTH_EMBEDDER_CONTEXTS - 1].engine = NULL;
    status = options->backend->embedder_new(options->model, &params, &engine, err);
    if (status != HEARTH_OK)
        return status;
    memmove(&embedder->contexts[1], &embedder->contexts[0],
            (HTH_EMBEDDER_CONTEXTS - 1) * sizeof(embedder->contexts[0]));
    embedder->contexts[0].engine = engine;
    embedder->contexts[0].pooling = pooling;
    hth_info(options->log, "a context for embeddings of at most %u tokens was made (pooling %s)", options->n_tokens_max,
             hearth_pooling_name(pooling));
    return HEARTH_OK;
}

static hearth_status evaluate(hth_embedder *embedder, hth_decode_result *result, hearth_error *err)
{
    hth_embedder_input inputs[HTH_EMBEDDER_INPUTS];

    for (size_t i = 0; i < embedder->n_places; i++) {
        const hth_embedder_place *p = &embedder->places[i];

        inputs[i] =
            (hth_embedder_input){ .tokens = p->job->tokens + p->first_token, .n_tokens = p->job->n_tokens[p->input] };
    }
    return embedder->options.backend->embed(embedder->contexts[0].engine, inputs, embedder->n_places, result, err);
}

/* Keep the vectors of the evaluation. */
static hearth_status take_vectors(hth_embedder *embedder, hearth_error *err)
{
    for (size_t i = 0; i < embedder->n_places; i++) {
        const hth_embedder_place *p = &embedder->places[i];
        hth_counted_embeddings *embeddings = p->job->embeddings;
        int32_t norm = embedder->contexts[0].pooling == HEARTH_POOLING_RANK ? -1 : p->job->norm;

        for (uint32_t k = 0; k < embeddings->n_vectors[p->input]; k++) {
            const float *values = embedder->options.backend->embedding(embedder->contexts[0].engine, i, k);

            if (!values)
                return hth_fail(err, HEARTH_ENGINE, "the engine gave no vector for input %zu", p->input);
            hth_embeddings_set(embeddings, p->input, k, values, norm);
        }
    }
    return HEARTH_OK;
}

/* Did the evaluation serve more than one job? */
static bool has_several(const hth_embedder *embedder)
{
    for (size_t i = 1; i < embedder->n_places; i++)
        if (embedder->places[i].job != embedder->places[0].job)
            return true;
    return false;
}

static void note_evaluated_locked(hth_embedder *embedder)
{
    embedder->n_evaluations++;
    embedder->n_inputs += embedder->n_places;
    for (size_t i = 0; i < embedder->n_places; i++) {
        hth_embed_job *job = embedder->places[i].job;
        bool is_first = true;

        for (size_t k = 0; k < i; k++)
            is_first &= embedder->places[k].job != job;
        job->embeddings->shown.n_evaluations += is_first;
        job->embeddings->shown.n_tokens_evaluated += job->n_tokens[embedder->places[i].input];
        job->n_done++;
        job->tokens_done += job->n_tokens[embedder->places[i].input];
    }
    rotate_locked(embedder);
}

static void note_failed_locked(hth_embedder *embedder, const hearth_error *error)
{
    put_back_locked(embedder);
    if (!has_several(embedder)) {
        hth_embedder_fail_locked(embedder, embedder->places[0].job, error);
        return;
    }
    for (size_t i = 0; i < embedder->n_places; i++)
        embedder->places[i].job->is_alone = true;
}

/* One evaluation, of the first job in the line at least. */
static void tick_locked(hth_embedder *embedder)
{
    hearth_pooling pooling = embedder->line->embeddings->shown.pooling;
    const hth_adapter_set *adapters = embedder->line->adapters; /* the job stays: only this thread removes it */
    hth_decode_result result = HTH_DECODE_ABORTED;
    hearth_error error = { .status = HEARTH_OK };
    uint64_t now_ns = hth_os_monotonic_ns();
    uint32_t n_places_max = 1;
    hearth_status status;

    pthread_mutex_unlock(&embedder->lock);
    status = make_context(embedder, pooling, &error);
    if (status == HEARTH_OK)
        status = hth_adapter_set_embed(adapters, embedder->options.backend, embedder->contexts[0].engine, &error);
    if (status == HEARTH_OK)
        n_places_max = embedder->options.backend->embedder_inputs(embedder->contexts[0].engine);
    pthread_mutex_lock(&embedder->lock);
    choose_locked(embedder, n_places_max);
    for (size_t i = 0; i < embedder->n_places; i++)
        if (embedder->places[i].job->begun_ns == 0)
            embedder->places[i].job->begun_ns = now_ns;
    pthread_mutex_unlock(&embedder->lock);
    if (status == HEARTH_OK)
        status = evaluate(embedder, &result, &error);
    if (status == HEARTH_OK && result == HTH_DECODE_OK)
        status = take_vectors(embedder, &error);
    pthread_mutex_lock(&embedder->lock);
    if (status != HEARTH_OK)
        note_failed_locked(embedder, &error);
    else if (result == HTH_DECODE_OK)
        note_evaluated_locked(embedder);
    else
        put_back_locked(embedder); /* all of its jobs are over */
    embedder->n_places = 0;
}

/* ---- the thread ---- */

static void do_removals_locked(hth_embedder *embedder)
{
    hth_embedder_removal *one;

    while ((one = embedder->removals)) {
        LL_DELETE(embedder->removals, one);
        pthread_mutex_unlock(&embedder->lock);
        hth_embedder_forget_prompts(embedder, one);
        pthread_mutex_lock(&embedder->lock);
        one->is_done = true;
        pthread_cond_broadcast(&embedder->changed);
    }
}

static void *run(void *user_data)
{
    hth_embedder *embedder = user_data;

    hth_os_thread_name("hearth-embed");
    is_embedder_thread = true;
    pthread_mutex_lock(&embedder->lock);
    for (;;) {
        end_jobs_locked(embedder);
        tell_work_locked(embedder);
        do_removals_locked(embedder);
        if (embedder->line && hth_embed_job_is_cached(embedder, embedder->line))
            hth_embedder_tick_prompts_locked(embedder);
        else if (embedder->line)
            tick_locked(embedder);
        else if (embedder->is_closing)
            break;
        else
            pthread_cond_wait(&embedder->changed, &embedder->lock);
    }
    pthread_mutex_unlock(&embedder->lock);
    return NULL;
}

/* ---- other threads ---- */

hearth_status hth_embedder_new(const hth_embedder_options *options, hth_embedder **out, hearth_error *err)
{
    hth_embedder *embedder = calloc(1, sizeof(*embedder));

    if (!embedder)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for embeddings");
    embedder->options = *options;
    embedder->vectors = hth_vector_memory_new();
    if (!embedder->vectors) {
        free(embedder);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for embeddings");
    }
    pthread_mutex_init(&embedder->lock, NULL);
    hth_condition_init(&embedder->changed);
    *out = embedder;
    return HEARTH_OK;
}

void hth_embedder_free(hth_embedder *embedder)
{
    bool has_thread;

    if (!embedder)
        return;
    hth_embedder_refuse(embedder);
    hth_embedder_cancel_all(embedder);
    pthread_mutex_lock(&embedder->lock);
    embedder->is_closing = true;
    has_thread = embedder->has_thread;
    pthread_cond_broadcast(&embedder->changed);
    pthread_mutex_unlock(&embedder->lock);
    if (has_thread)
        pthread_join(embedder->thread, NULL);
    for (size_t i = 0; i < HTH_EMBEDDER_CONTEXTS; i++)
        embedder->options.backend->embedder_free(embedder->contexts[i].engine);
    hth_cached_embedder_close(embedder->cached);
    hth_vector_memory_unref(embedder->vectors);
    pthread_cond_destroy(&embedder->changed);
    pthread_mutex_destroy(&embedder->lock);
    free(embedder);
}

static hearth_status start_thread_locked(hth_embedder *embedder, hearth_error *err)
{
    int failed = embedder->has_thread ? 0 : pthread_create(&embedder->thread, NULL, run, embedder);

    if (failed)
        return hth_fail_errno(err, failed, "cannot start a thread for embeddings");
    embedder->has_thread = true;
    return HEARTH_OK;
}

hearth_status hth_embedder_submit(hth_embedder *embedder, hth_embed_job *job, hearth_error *err)
{
    const uint64_t bytes_more = tokens_bytes(job) + hth_embeddings_bytes(job->embeddings);
    hearth_status status = HEARTH_OK;
    uint64_t n_bytes;

    job->submitted_ns = hth_os_monotonic_ns();
    pthread_mutex_lock(&embedder->lock);
    n_bytes = embedder->tokens_bytes + hth_vector_memory_bytes(embedder->vectors);
    if (embedder->is_refusing)
        status = hth_fail(err, HEARTH_CANCELLED, "the model is being unloaded; load it again");
    else if (embedder->n_jobs >= embedder->options.queue_max)
        status = hth_fail(err, HEARTH_BUSY, "%u embedding requests wait already; try again later", embedder->n_jobs);
    else if (n_bytes > 0 && n_bytes + bytes_more > embedder->options.bytes_max)
        status = hth_fail(err, HEARTH_BUSY,
                          "embedding requests that wait, and answers that are still being read, take %llu MiB already; "
                          "try again later",
                          (unsigned long long)(n_bytes >> 20));
    if (status == HEARTH_BUSY && err)
        err->retry_after_s = 1;
    if (status == HEARTH_OK)
        status = start_thread_locked(embedder, err);
    if (status == HEARTH_OK) {
        DL_APPEND(embedder->line, job);
        embedder->n_jobs++;
        embedder->tokens_bytes += tokens_bytes(job);
        hth_embeddings_count(job->embeddings, embedder->vectors);
        pthread_cond_broadcast(&embedder->changed);
    }
    pthread_mutex_unlock(&embedder->lock);
    if (status != HEARTH_OK)
        hth_embed_job_free(job);
    return status;
}

static hth_embed_job *find_locked(const hth_embedder *embedder, uint64_t id)
{
    hth_embed_job *job;

    DL_FOREACH(embedder->line, job)
    {
        if (job->id == id)
            return job;
    }
    return NULL;
}

bool hth_embedder_cancel(hth_embedder *embedder, uint64_t id)
{
    hth_embed_job *job;

    pthread_mutex_lock(&embedder->lock);
    job = find_locked(embedder, id);
    if (job)
        atomic_store_explicit(&job->is_cancelled, true, memory_order_relaxed);
    pthread_mutex_unlock(&embedder->lock);
    return job;
}

void hth_embedder_cancel_all(hth_embedder *embedder)
{
    hth_embed_job *job;

    pthread_mutex_lock(&embedder->lock);
    DL_FOREACH(embedder->line, job)
    atomic_store_explicit(&job->is_cancelled, true, memory_order_relaxed);
    pthread_mutex_unlock(&embedder->lock);
}

bool hth_embedder_wait(hth_embedder *embedder, uint64_t id, uint32_t timeout_ms)
{
    struct timespec deadline = hth_deadline_after(timeout_ms == UINT32_MAX ? 0 : timeout_ms);
    int waited = 0;
    bool has_ended;

    pthread_mutex_lock(&embedder->lock);
    while (!(has_ended = !find_locked(embedder, id)) && waited != ETIMEDOUT)
        waited = timeout_ms == UINT32_MAX ? pthread_cond_wait(&embedder->changed, &embedder->lock)
                                          : pthread_cond_timedwait(&embedder->changed, &embedder->lock, &deadline);
    pthread_mutex_unlock(&embedder->lock);
    return has_ended;
}

void hth_embedder_forget(hth_embedder *embedder, const uint8_t fingerprint[32], const hearth_token *tokens,
                         uint32_t n_tokens, uint32_t n_kept)
{
    hth_embedder_removal one = { .fingerprint = fingerprint, .tokens = tokens, .n_tokens = n_tokens, .n_kept = n_kept };

    pthread_mutex_lock(&embedder->lock);
    if (embedder->has_thread && pthread_equal(pthread_self(), embedder->thread)) { /* in a callback, between ticks */
        pthread_mutex_unlock(&embedder->lock);
        hth_embedder_forget_prompts(embedder, &one);
        return;
    }
    if (embedder->line) { /* otherwise the thread keeps no cells */
        LL_APPEND(embedder->removals, &one);
        pthread_cond_broadcast(&embedder->changed);
        while (!one.is_done)
            pthread_cond_wait(&embedder->changed, &embedder->lock);
    }
    pthread_mutex_unlock(&embedder->lock);
}

void hth_embedder_refuse(hth_embedder *embedder)
{
    pthread_mutex_lock(&embedder->lock);
    embedder->is_refusing = true;
    pthread_mutex_unlock(&embedder->lock);
}

void hth_embedder_wait_idle(hth_embedder *embedder)
{
    pthread_mutex_lock(&embedder->lock);
    while (embedder->line)
        pthread_cond_wait(&embedder->changed, &embedder->lock);
    pthread_mutex_unlock(&embedder->lock);
}

void hth_embedder_status_get(hth_embedder *embedder, hth_embedder_status *out)
{
    pthread_mutex_lock(&embedder->lock);
    *out = (hth_embedder_status){ .n_requests = embedder->n_jobs,
                                  .n_inputs = embedder->n_inputs,
                                  .n_evaluations = embedder->n_evaluations };
    pthread_mutex_unlock(&embedder->lock);
}
