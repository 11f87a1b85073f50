/*
 * embedder.c - the line of requests, their evaluation, alone or as prompts, and their completion
 *
 * Only the thread takes jobs out of the line and changes their order; other threads add jobs at the end and set
 * is_cancelled. A job stays in the line until its on_done has returned, so that cancel and wait find it.
 */
#include "sched/embedder.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/deadline.h"
#include "base/os.h"
#include "base/smaller.h"

enum {
    EMBEDDER_INPUTS = 64, /* per evaluation */
    TOKENS_FILL = 512,    /* per evaluation, unless one input is longer: more are no faster, and delay all */
    PROMPTS_MAX = 32, /* at once; more would gain little, because few inputs that are worth caching fit in a batch */
    STATES_MAX = 8,   /* the same for models with state per sequence */
    PROMPT_CELLS_MIN = 2048,
    PROMPT_ROWS_MAX = 512, /* of an evaluation; their logits take memory */
};

typedef struct embedder_context {
    hth_engine_embedder *engine; /* NULL: none yet */
    hearth_pooling pooling;
} embedder_context;

/* One input of the evaluation in progress. */
typedef struct embedder_place {
    hth_embed_job *job;
    size_t input;
    size_t first_token; /* of the job's */
} embedder_place;

/* An input that is evaluated as a prompt. */
typedef struct embedder_prompt {
    hth_embedder *embedder;
    hth_embed_job *job; /* NULL: the place is free */
    size_t input;
    hth_slot *slot;
} embedder_prompt;

/* A call of hth_embedder_forget that waits for the thread. */
typedef struct embedder_removal {
    const uint8_t *fingerprint;
    const hearth_token *tokens;
    uint32_t n_tokens, n_kept;
    bool is_done;
    struct embedder_removal *next;
} embedder_removal;

struct hth_embedder {
    /* Fixed at creation; read without the lock. */
    hth_embedder_options options;
    hth_vector_memory *vectors; /* of jobs that have not ended, and of results that count */

    /*
     * Used by the thread. prompts and places do not change while the engine evaluates, because its threads also read
     * them.
     */
    hth_batcher *batcher;        /* of the prompts; NULL: none yet; likewise below */
    hth_engine_context *context; /* the batcher's */
    hth_workplace place;         /* the model's, but with this context */
    hth_schedule schedule;
    hth_pulse pulse; /* unused by the context */
    embedder_prompt prompts[PROMPTS_MAX];
    uint32_t n_prompts;                               /* that have begun */
    bool all_admitted;                                /* none of them waits for cells */
    embedder_context contexts[HTH_EMBEDDER_CONTEXTS]; /* most recently used first; the first one evaluates */
    embedder_place places[EMBEDDER_INPUTS];           /* [n_places] */
    size_t n_places;

    /* Guards the fields below. No other lock is taken and no callback runs while it is held. */
    pthread_mutex_t lock;
    pthread_cond_t changed;     /* the thread has something to do, or a job or removal has ended */
    hth_embed_job *line;        /* least recently served first */
    embedder_removal *removals; /* in their order */
    uint32_t n_jobs;
    uint64_t tokens_bytes; /* of all jobs */
    bool has_thread, is_closing, is_refusing;
    pthread_t thread;
    uint64_t n_inputs, n_evaluations;
};

static inline bool embed_job_is_over(const hth_embed_job *job)
{
    return atomic_load_explicit(&job->is_cancelled, memory_order_relaxed) ||
           (job->is_gone && atomic_load_explicit(job->is_gone, memory_order_relaxed));
}

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

/* Notify the caller. The lock is held before and after. */
static void end_locked(hth_embedder *embedder, hth_embed_job *job)
{
    uint64_t now_ns = hth_os_monotonic_ns();
    hearth_embeddings *shown = &job->embeddings->shown;

    pthread_mutex_unlock(&embedder->lock);
    shown->queue_ms = hth_ms_between(job->submitted_ns, job->begun_ns ? job->begun_ns : now_ns);
    shown->compute_ms = job->begun_ns ? hth_ms_between(job->begun_ns, now_ns) : 0;
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

/* End the job with the error. The lock is held before and after. */
static void fail_locked(hth_embedder *embedder, hth_embed_job *job, const hearth_error *error)
{
    hth_embeddings_fail(job->embeddings, error);
    end_locked(embedder, job);
}

/* The first job of the line that is over or has all of its vectors, and has nothing in progress; NULL: none. */
static hth_embed_job *ended_locked(const hth_embedder *embedder)
{
    hth_embed_job *job;

    DL_FOREACH(embedder->line, job)
    {
        if (job->n_begun == 0 && (job->n_done == job->n_inputs || job->has_failed || embed_job_is_over(job)))
            return job;
    }
    return NULL;
}

/* Report finished inputs to jobs with on_worked. Jobs stay in the line; new ones are appended. */
static void tell_work_locked(hth_embedder *embedder)
{
    hth_embed_job *job;

    DL_FOREACH(embedder->line, job)
    {
        if (!job->on_worked || job->tokens_reported == job->tokens_done)
            continue;
        job->tokens_reported = job->tokens_done;
        pthread_mutex_unlock(&embedder->lock);
        job->on_worked(job->tokens_reported, job->user_data);
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
            fail_locked(embedder, job, &job->error);
        } else {
            end_locked(embedder, job);
        }
    }
}

/* ---- choosing inputs ---- */

/* May the next input of the job join the evaluation that begins with first? */
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
                (embedder_place){ .job = job, .input = job->n_taken, .first_token = job->tokens_taken };
            n_tokens += job->n_tokens[job->n_taken];
            job->tokens_taken += job->n_tokens[job->n_taken];
            job->n_taken++;
            has_taken = true;
        }
    }
}

/* Return the chosen inputs to their jobs. */
static void put_back_locked(hth_embedder *embedder)
{
    for (size_t i = 0; i < embedder->n_places; i++) {
        hth_embed_job *job = embedder->places[i].job;

        job->n_taken--;
        job->tokens_taken -= job->n_tokens[embedder->places[i].input];
    }
}

/* ---- evaluating ---- */

/* Is there no client left that waits for the evaluation? Called by the engine's threads. */
static bool wants_abort(void *user_data)
{
    const hth_embedder *embedder = user_data;

    for (size_t i = 0; i < embedder->n_places; i++)
        if (!embed_job_is_over(embedder->places[i].job))
            return false;
    return true;
}

/* Make the pooling's context the most recently used one, perhaps a new one in place of the least recently used. */
static hearth_status use_context(hth_embedder *embedder, hearth_pooling pooling, hearth_error *err)
{
    const hth_embedder_options *options = &embedder->options;
    const hth_embedder_params params = {
        .pooling = pooling,
        .n_tokens_max = options->n_tokens_max,
        .n_inputs_max = EMBEDDER_INPUTS,
        .n_threads = options->n_threads,
        .abort = wants_abort,
        .abort_user_data = embedder,
    };
    embedder_context *contexts = embedder->contexts, wanted;
    size_t i = 0;
    hearth_status status;

    while (i < HTH_EMBEDDER_CONTEXTS - 1 && contexts[i].engine && contexts[i].pooling != pooling)
        i++;
    wanted = contexts[i];
    if (!wanted.engine || wanted.pooling != pooling) {
        options->backend->embedder_free(wanted.engine); /* first, for its memory */
        contexts[i].engine = NULL;
        wanted = (embedder_context){ .pooling = pooling };
        status = options->backend->embedder_new(options->model, &params, &wanted.engine, err);
        if (status != HEARTH_OK)
            return status;
        hth_info(options->log, "a context for embeddings of at most %u tokens was made (pooling %s)",
                 options->n_tokens_max, hearth_pooling_name(pooling));
    }
    memmove(&contexts[1], &contexts[0], i * sizeof(*contexts));
    contexts[0] = wanted;
    return HEARTH_OK;
}

static hearth_status evaluate(hth_embedder *embedder, hth_decode_result *result, hearth_error *err)
{
    hth_embedder_input inputs[EMBEDDER_INPUTS];

    for (size_t i = 0; i < embedder->n_places; i++) {
        const embedder_place *p = &embedder->places[i];

        inputs[i] =
            (hth_embedder_input){ .tokens = p->job->tokens + p->first_token, .n_tokens = p->job->n_tokens[p->input] };
    }
    return embedder->options.backend->embed(embedder->contexts[0].engine, inputs, embedder->n_places, result, err);
}

/* Keep the vectors of the evaluation. */
static hearth_status take_vectors(hth_embedder *embedder, hearth_error *err)
{
    for (size_t i = 0; i < embedder->n_places; i++) {
        const embedder_place *p = &embedder->places[i];
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

/* Did the evaluation include more than one job? */
static bool has_several(const hth_embedder *embedder)
{
    for (size_t i = 1; i < embedder->n_places; i++)
        if (embedder->places[i].job != embedder->places[0].job)
            return true;
    return false;
}

/* Count the evaluation, and move the jobs that took part to the end of the line. */
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
        DL_DELETE(embedder->line, job);
        DL_APPEND(embedder->line, job);
    }
}

static void note_failed_locked(hth_embedder *embedder, const hearth_error *error)
{
    put_back_locked(embedder);
    if (!has_several(embedder)) {
        fail_locked(embedder, embedder->places[0].job, error);
        return;
    }
    for (size_t i = 0; i < embedder->n_places; i++)
        embedder->places[i].job->is_alone = true;
}

/* Do one evaluation, which includes at least the first job in the line. */
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
    status = use_context(embedder, pooling, &error);
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

/*
 * ---- inputs as prompts ----
 *
 * With HEARTH_POOLING_LAST, the vector of an input is that of its last token. It depends only on the cells of the
 * tokens before. So an input is a prompt without a reply: a batcher with its own context looks it up, restores its
 * known prefix, evaluates the rest, and saves its rows. The context has the same parameters as the model's, and its
 * prompts are split into the same chunks. So inputs and prompts share their rows. If the engine computes different
 * cells in a context of this size, no row of an input is read or saved.
 *
 * When no input is left, no cells are kept: the rows are in the cache, or lost.
 */

/* Are the job's inputs evaluated as prompts? */
static bool is_cached(const hth_embedder *embedder, const hth_embed_job *job)
{
    return embedder->options.place && job->embeddings->shown.pooling == HEARTH_POOLING_LAST;
}

/* Is there no client left that waits for any of the prompts? Called by the engine's threads. */
static bool wants_abort_of_prompts(void *user_data)
{
    const hth_embedder *embedder = user_data;
    bool has_any = false; /* if there is none, the engine is testing a new context */

    for (size_t i = 0; i < PROMPTS_MAX; i++) {
        const hth_embed_job *job = embedder->prompts[i].job;

        if (job && !embed_job_is_over(job))
            return false;
        has_any |= job != NULL;
    }
    return has_any;
}

static hearth_status make_prompt_context(hth_embedder *embedder, hearth_error *err)
{
    const hth_embedder_options *options = &embedder->options;
    hth_engine_context_params params = options->context;
    hth_workplace *place = &embedder->place;
    hth_engine_context_info info;
    uint8_t hash[sizeof(place->keyspace.ctx_params_hash)];
    hearth_status status;

    *place = *options->place;
    params.n_ctx = hth_larger(options->n_tokens_max, hth_smaller(PROMPT_CELLS_MIN, place->n_ctx));
    if (place->n_ctx > options->n_ctx_short) /* with the same RoPE factors as the model's context */
        params.n_ctx = hth_larger(params.n_ctx, options->n_ctx_short + 1);
    params.n_batch = hth_smaller(place->n_batch, PROMPT_ROWS_MAX);
    params.n_seq_max = embedder->schedule.n_sequences + 1; /* one more, the scratch sequence */
    params.abort = wants_abort_of_prompts;
    params.abort_user_data = embedder;
    status = options->backend->context_new(place->engine_model, &params, &embedder->context, err);
    if (status != HEARTH_OK)
        return status;
    options->backend->context_info(embedder->context, &info);
    if (info.n_ctx < options->n_tokens_max)
        return hth_fail(
            err, HEARTH_UNSUPPORTED,
            "the engine made a context of %u tokens for embeddings, and inputs may have %u; a smaller n_batch "
            "allows shorter inputs only",
            info.n_ctx, options->n_tokens_max);
    place->context = embedder->context;
    place->n_ctx = info.n_ctx;
    place->n_batch = info.n_batch;
    place->idle_cost = info.idle_cost;
    hth_sha256_of(info.params_text, strlen(info.params_text), hash);
    if (memcmp(hash, place->keyspace.ctx_params_hash, sizeof(hash)) != 0) {
        place->cache = NULL;
        hth_info(place->log,
                 "embeddings use no cache: their context of %u tokens has not the parameters of the model's, of %u",
                 info.n_ctx, options->place->n_ctx);
    }
    place->true_tokens = NULL;
    place->draft_model = NULL;
    place->on_work = NULL; /* it reports the scheduler's work */
    return HEARTH_OK;
}

/* Count an evaluation with a prompt of the job. Several of its prompts may report the same evaluation. */
static void note_evaluation(const embedder_prompt *p)
{
    uint64_t number = p->slot->last_ticked;

    p->job->embeddings->shown.n_evaluations += number > p->job->last_evaluation;
    if (number > p->job->last_evaluation)
        p->job->last_evaluation = number;
}

/* Free the place of a prompt. */
static void leave(embedder_prompt *p, const hearth_error *error)
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

/* An hth_ended_fn. */
static void prompt_ended(hth_slot *slot, void *user_data)
{
    hth_embedder *embedder = user_data;
    embedder_prompt *p = slot->request->options.user_data;
    hearth_embeddings *shown = &p->job->embeddings->shown;
    const hearth_result *result = &slot->reply->result->shown;

    hth_batcher_count(embedder->options.counters, slot);
    embedder->n_prompts--;
    note_evaluation(p);
    shown->n_tokens_evaluated += slot->n_evaluated;
    if (result->status == HEARTH_OK)
        shown->n_tokens_cached += result->stats->cached_tokens;
    leave(p, result->status == HEARTH_OK ? NULL : &result->error);
}

static void close_batcher(hth_embedder *embedder)
{
    hth_batcher_close(embedder->batcher);
    embedder->options.backend->context_free(embedder->context);
    embedder->batcher = NULL;
    embedder->context = NULL;
}

/* HEARTH_UNSUPPORTED if the engine's context is too small for an input. */
static hearth_status open_batcher(hth_embedder *embedder, hearth_error *err)
{
    const hth_embedder_options *options = &embedder->options;
    hearth_status status;

    if (embedder->batcher)
        return HEARTH_OK;
    embedder->all_admitted = true;
    embedder->schedule = *options->schedule;
    embedder->schedule.n_parallel = options->place->kind == HTH_MODEL_PLAIN ? PROMPTS_MAX : STATES_MAX;
    embedder->schedule.n_sequences = embedder->schedule.n_parallel + 1;
    status = make_prompt_context(embedder, err);
    if (status == HEARTH_OK)
        status = hth_batcher_open(&embedder->place, &embedder->schedule, &embedder->pulse, prompt_ended, embedder,
                                  &embedder->batcher, err);
    if (status == HEARTH_OK)
        hth_info(options->log, "a context for embeddings of at most %u tokens was made, which uses the cache",
                 options->n_tokens_max);
    else
        close_batcher(embedder);
    return status;
}

/* The request's on_vector. */
static void take_vector(const float *values, void *user_data)
{
    const embedder_prompt *p = user_data;

    hth_embeddings_set(p->job->embeddings, p->input, 0, values, p->job->norm);
}

/*
 * A place for the next input of the first job that has one left, and its tokens. The job goes to the end of the line.
 * NULL: none.
 */
static embedder_prompt *choose_prompt_locked(hth_embedder *embedder, const hearth_token **tokens_out)
{
    embedder_prompt *p = embedder->prompts;
    hth_embed_job *job;

    DL_FOREACH(embedder->line, job)
    {
        if (is_cached(embedder, job) && job->n_taken < job->n_inputs && !job->has_failed && !embed_job_is_over(job))
            break;
    }
    if (!job)
        return NULL;
    while (p->job)
        p++;
    *p = (embedder_prompt){ .embedder = embedder, .job = job, .input = job->n_taken };
    *tokens_out = job->tokens + job->tokens_taken;
    job->tokens_taken += job->n_tokens[job->n_taken++];
    job->n_begun++;
    if (job->begun_ns == 0)
        job->begun_ns = hth_os_monotonic_ns();
    DL_DELETE(embedder->line, job);
    DL_APPEND(embedder->line, job);
    return p;
}

/* The prompt gets its cells now, or before any later one. After an error, it has not begun. */
static hearth_status begin_prompt(embedder_prompt *p, const hearth_token *from, hearth_error *err)
{
    hth_embedder *embedder = p->embedder;
    hth_embed_job *job = p->job;
    uint32_t n_tokens = job->n_tokens[p->input];
    hearth_sampling sampling = hearth_sampling_default();
    hearth_request given = hearth_request_default();
    hearth_token *tokens = malloc(n_tokens * sizeof(*tokens));
    hth_request *request;
    hearth_status status;

    if (!tokens)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for an input of %u tokens", n_tokens);
    memcpy(tokens, from, n_tokens * sizeof(*tokens));
    sampling.seed = 0;
    given.sampling = &sampling;
    given.prefill_only = true;
    given.no_cache_read = job->no_cache_read;
    given.user_data = p;
    status = hth_request_new(&given, tokens, n_tokens, job->id, &request, err);
    if (status != HEARTH_OK)
        return status;
    request->on_vector = take_vector;
    request->adapters = hth_adapter_set_ref(job->adapters);
    request->keyspace = job->keyspace;
    status = hth_slot_new(&embedder->batcher->place, request, &sampling, NULL, &p->slot, err);
    if (status != HEARTH_OK) {
        hth_request_free(request);
        return status;
    }
    embedder->n_prompts++;
    hth_batcher_add(embedder->batcher, p->slot);
    embedder->all_admitted = hth_batcher_admit_now(embedder->batcher);
    return HEARTH_OK;
}

/* Begin inputs, one of each job in turn, as long as there is a place and each gets its cells at once. */
static void begin_prompts_locked(hth_embedder *embedder)
{
    const hearth_token *tokens;
    embedder_prompt *p;

    while (embedder->n_prompts < embedder->schedule.n_parallel && embedder->all_admitted &&
           (p = choose_prompt_locked(embedder, &tokens))) {
        hearth_error error = { .status = HEARTH_OK };

        pthread_mutex_unlock(&embedder->lock);
        if (begin_prompt(p, tokens, &error) != HEARTH_OK)
            leave(p, &error);
        pthread_mutex_lock(&embedder->lock);
    }
}

/* Do at most one evaluation, without the lock. */
static void evaluate_prompts(hth_embedder *embedder)
{
    for (const embedder_prompt *p = embedder->prompts; p < embedder->prompts + PROMPTS_MAX; p++)
        if (p->job && (p->job->has_failed || embed_job_is_over(p->job)))
            hth_batcher_cancel(embedder->batcher, p->slot->request); /* the client is gone */
    (void)hth_batcher_tick(embedder->batcher); /* while there are inputs, there is something to do */
    embedder->all_admitted = hth_batcher_admit_now(embedder->batcher);
    if (embedder->n_prompts == 0)
        hth_batcher_save(embedder->batcher, HEARTH_SAVE_EVICT); /* and empty the finished sequences */
    for (const embedder_prompt *p = embedder->prompts; p < embedder->prompts + PROMPTS_MAX; p++)
        if (p->job)
            note_evaluation(p);
}

/*
 * Do at most one evaluation of prompts. The first job of the line must have prompts. The lock is held before and after.
 */
static void tick_prompts_locked(hth_embedder *embedder)
{
    hth_embed_job *first = embedder->line; /* stays: only this thread removes it */
    hth_embed_job *other;
    hearth_error error = { .status = HEARTH_OK };
    uint64_t n_before;
    hearth_status status;

    pthread_mutex_unlock(&embedder->lock);
    status = open_batcher(embedder, &error);
    pthread_mutex_lock(&embedder->lock);
    if (status != HEARTH_OK) {
        fail_locked(embedder, first, &error);
        return;
    }
    begin_prompts_locked(embedder);
    pthread_mutex_unlock(&embedder->lock);
    n_before = embedder->batcher->n_ticks;
    evaluate_prompts(embedder);
    pthread_mutex_lock(&embedder->lock);
    embedder->n_evaluations += embedder->batcher->n_ticks - n_before;
    DL_FOREACH(embedder->line, other)
    {
        if (!is_cached(embedder, other))
            break;
    }
    if (other) { /* another pooling gets the next turn; a job that got no place keeps its turn */
        DL_DELETE(embedder->line, other);
        DL_PREPEND(embedder->line, other);
    }
}

/* Called between ticks, without the lock. */
static void forget_prompts(hth_embedder *embedder, const embedder_removal *removal)
{
    if (embedder->batcher)
        hth_batcher_forget(embedder->batcher, removal->fingerprint, removal->tokens, removal->n_tokens,
                           removal->n_kept);
}

/* ---- the thread ---- */

static void do_removals_locked(hth_embedder *embedder)
{
    embedder_removal *one;

    while ((one = embedder->removals)) {
        LL_DELETE(embedder->removals, one);
        pthread_mutex_unlock(&embedder->lock);
        forget_prompts(embedder, one);
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
        if (embedder->line && is_cached(embedder, embedder->line))
            tick_prompts_locked(embedder);
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
    close_batcher(embedder);
    hth_vector_memory_unref(embedder->vectors);
    pthread_cond_destroy(&embedder->changed);
    pthread_mutex_destroy(&embedder->lock);
    free(embedder);
}

hearth_status hth_embedder_submit(hth_embedder *embedder, hth_embed_job *job, hearth_error *err)
{
    const uint64_t bytes_more = tokens_bytes(job) + job->embeddings->n_bytes;
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
    if (status == HEARTH_OK && !embedder->has_thread) {
        int failed = pthread_create(&embedder->thread, NULL, run, embedder);

        if (failed)
            status = hth_fail_errno(err, failed, "cannot start a thread for embeddings");
        embedder->has_thread = !failed;
    }
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
    embedder_removal one = { .fingerprint = fingerprint, .tokens = tokens, .n_tokens = n_tokens, .n_kept = n_kept };

    pthread_mutex_lock(&embedder->lock);
    if (embedder->has_thread && pthread_equal(pthread_self(), embedder->thread)) { /* in a callback */
        pthread_mutex_unlock(&embedder->lock);
        forget_prompts(embedder, &one);
        return;
    }
    if (embedder->line) { /* if the line is empty, the thread keeps no cells */
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
