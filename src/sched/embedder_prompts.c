/*
 * embedder_prompts.c - inputs as prompts: begun in turn, evaluated in the cached embedder, and counted
 */
#include "sched/embedder_inside.h"

#include <utlist.h>

#include "base/os.h"

bool hth_embed_job_is_cached(const hth_embedder *embedder, const hth_embed_job *job)
{
    return embedder->options.place && job->embeddings->shown.pooling == HEARTH_POOLING_LAST;
}

/* Is nobody left who waits for one of the prompts? The engine's threads ask. */
static bool wants_abort_of_prompts(void *user_data)
{
    const hth_embedder *embedder = user_data;
    bool has_any = false; /* without one, the engine tests a new context */

    for (size_t i = 0; i < HTH_EMBEDDER_PROMPTS; i++) {
        const hth_embed_job *job = embedder->prompts[i].job;

        if (job && !hth_embed_job_is_over(job))
            return false;
        has_any |= job != NULL;
    }
    return has_any;
}

static hearth_status open_cached(hth_embedder *embedder, hearth_error *err)
{
    const hth_embedder_options *options = &embedder->options;
    hth_cached_embedder_options cached = {
        .place = options->place,
        .schedule = options->schedule,
        .params = options->context,
        .n_ctx_short = options->n_ctx_short,
        .n_tokens_max = options->n_tokens_max,
        .counters = options->counters,
        .abort = wants_abort_of_prompts,
        .abort_user_data = embedder,
    };
    hearth_status status;

    if (embedder->cached)
        return HEARTH_OK;
    status = hth_cached_embedder_open(&cached, &embedder->cached, err);
    if (status == HEARTH_OK)
        hth_info(options->log, "a context for embeddings of at most %u tokens was made, which uses the cache",
                 options->n_tokens_max);
    return status;
}

/* Count an evaluation in which a prompt of the job took part; several of its prompts may tell of one. */
static void note_evaluation(hth_embed_job *job, const hth_cached_input *cached)
{
    uint64_t number = hth_cached_input_last_evaluation(cached);

    job->embeddings->shown.n_evaluations += number > job->last_evaluation;
    if (number > job->last_evaluation)
        job->last_evaluation = number;
}

static void take_vector(hth_cached_input *cached, const float *values)
{
    const hth_embedder_prompt *p = cached->user_data;

    hth_embeddings_set(p->job->embeddings, p->input, 0, values, p->job->norm);
}

/* The place of a prompt is free again. */
static void leave(hth_embedder_prompt *p, const hearth_error *error)
{
    hth_embed_job *job = p->job;

    pthread_mutex_lock(&p->embedder->lock);
    if (error && !job->has_failed)
        job->error = *error;
    job->has_failed |= error != NULL;
    job->n_done += !error;
    job->tokens_done += error ? 0 : job->n_tokens[p->input];
    p->embedder->n_inputs += !error;
    job->n_begun--;
    pthread_mutex_unlock(&p->embedder->lock);
    p->job = NULL;
}

static void prompt_ended(hth_cached_input *cached, const hearth_result *result, uint32_t n_evaluated)
{
    hth_embedder_prompt *p = cached->user_data;
    hearth_embeddings *shown = &p->job->embeddings->shown;

    note_evaluation(p->job, cached);
    shown->n_tokens_evaluated += n_evaluated;
    if (result->status == HEARTH_OK)
        shown->n_tokens_cached += result->stats->cached_tokens;
    leave(p, result->status == HEARTH_OK ? NULL : &result->error);
}

static bool has_more(const hth_embed_job *job)
{
    return job->n_taken < job->n_inputs && !job->has_failed && !hth_embed_job_is_over(job);
}

/* A place for the next input of the first job that has one. The job goes to the end of the line. NULL: none has. */
static hth_embedder_prompt *choose_prompt_locked(hth_embedder *embedder)
{
    hth_embedder_prompt *p = embedder->prompts;
    hth_embed_job *job;

    DL_FOREACH(embedder->line, job)
    {
        if (hth_embed_job_is_cached(embedder, job) && has_more(job))
            break;
    }
    if (!job)
        return NULL;
    while (p->job)
        p++;
    *p = (hth_embedder_prompt){ .embedder = embedder, .job = job, .input = job->n_taken };
    p->cached = (hth_cached_input){
        .tokens = job->tokens + job->tokens_taken,
        .n_tokens = job->n_tokens[job->n_taken],
        .id = job->id,
        .keyspace = &job->keyspace,
        .adapters = job->adapters,
        .no_cache_read = job->no_cache_read,
        .on_vector = take_vector,
        .on_end = prompt_ended,
        .user_data = p,
    };
    job->tokens_taken += job->n_tokens[job->n_taken++];
    job->n_begun++;
    if (job->begun_ns == 0)
        job->begun_ns = hth_os_monotonic_ns();
    DL_DELETE(embedder->line, job);
    DL_APPEND(embedder->line, job);
    return p;
}

/* Begin inputs, one of each job in turn, as long as each gets its cells at once. */
static void begin_prompts_locked(hth_embedder *embedder)
{
    hth_embedder_prompt *p;

    while (hth_cached_embedder_has_room(embedder->cached) && (p = choose_prompt_locked(embedder))) {
        hearth_error error = { .status = HEARTH_OK };

        pthread_mutex_unlock(&embedder->lock);
        if (hth_cached_embedder_begin(embedder->cached, &p->cached, &error) != HEARTH_OK)
            leave(p, &error);
        pthread_mutex_lock(&embedder->lock);
    }
}

/* Cancel the inputs of jobs that nobody waits for. */
static void cancel_prompts(hth_embedder *embedder)
{
    for (hth_embedder_prompt *p = embedder->prompts; p < embedder->prompts + HTH_EMBEDDER_PROMPTS; p++)
        if (p->job && (p->job->has_failed || hth_embed_job_is_over(p->job)))
            hth_cached_embedder_cancel(embedder->cached, &p->cached);
}

void hth_embedder_tick_prompts_locked(hth_embedder *embedder)
{
    hth_embed_job *first = embedder->line; /* stays: only this thread removes it */
    hth_embed_job *other;
    hearth_error error = { .status = HEARTH_OK };
    uint64_t n_before;
    hearth_status status;

    pthread_mutex_unlock(&embedder->lock);
    status = open_cached(embedder, &error);
    pthread_mutex_lock(&embedder->lock);
    if (status != HEARTH_OK) {
        hth_embedder_fail_locked(embedder, first, &error);
        return;
    }
    begin_prompts_locked(embedder);
    pthread_mutex_unlock(&embedder->lock);
    cancel_prompts(embedder);
    n_before = hth_cached_embedder_n_evaluations(embedder->cached);
    hth_cached_embedder_tick(embedder->cached);
    for (const hth_embedder_prompt *p = embedder->prompts; p < embedder->prompts + HTH_EMBEDDER_PROMPTS; p++)
        if (p->job)
            note_evaluation(p->job, &p->cached);
    pthread_mutex_lock(&embedder->lock);
    embedder->n_evaluations += hth_cached_embedder_n_evaluations(embedder->cached) - n_before;
    DL_FOREACH(embedder->line, other)
    {
        if (!hth_embed_job_is_cached(embedder, other))
            break;
    }
    if (other) { /* another pooling has the next turn; a job that got no place keeps its turn */
        DL_DELETE(embedder->line, other);
        DL_PREPEND(embedder->line, other);
    }
}

void hth_embedder_forget_prompts(hth_embedder *embedder, const hth_embedder_removal *removal)
{
    if (embedder->cached)
        hth_cached_embedder_forget(embedder->cached, removal->fingerprint, removal->tokens, removal->n_tokens,
                                   removal->n_kept);
}
