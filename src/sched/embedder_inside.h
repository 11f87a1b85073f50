/*
 * embedder_inside.h - shared by the files of the embedder
 *
 *   embedder.c          the line of requests, evaluations of whole inputs, and ends
 *   embedder_prompts.c  inputs as prompts (cached_embedder.h)
 */
#ifndef HTH_SCHED_EMBEDDER_INSIDE_H
#define HTH_SCHED_EMBEDDER_INSIDE_H

#include <pthread.h>

#include "sched/embedder.h"

enum {
    HTH_EMBEDDER_PROMPTS = 64, /* at once, or fewer: more than hth_cached_embedder_has_room allows */
    HTH_EMBEDDER_INPUTS = 64,  /* of one evaluation */
};

/* One input of the evaluation in progress. */
typedef struct hth_embedder_place {
    hth_embed_job *job;
    size_t input;
    size_t first_token; /* of the job's */
} hth_embedder_place;

/* An input that is evaluated as a prompt. */
typedef struct hth_embedder_prompt {
    hth_embedder *embedder;
    hth_embed_job *job; /* NULL: the place is free */
    size_t input;
    hth_cached_input cached;
} hth_embedder_prompt;

/* A call of hth_embedder_forget that waits for the thread. */
typedef struct hth_embedder_removal {
    const uint8_t *fingerprint;
    const hearth_token *tokens;
    uint32_t n_tokens, n_kept;
    bool is_done;
    struct hth_embedder_removal *next;
} hth_embedder_removal;

struct hth_embedder {
    /* Fixed at creation; read without the lock. */
    hth_embedder_options options;
    hth_vector_memory *vectors; /* of jobs that have not ended, and of answers that count */

    /* Of the thread. prompts and places are fixed while the engine evaluates, because its threads read them, too. */
    hth_cached_embedder *cached; /* NULL: none yet */
    hth_embedder_prompt prompts[HTH_EMBEDDER_PROMPTS];
    struct {
        hth_engine_embedder *engine; /* NULL: none yet */
        hearth_pooling pooling;
    } contexts[HTH_EMBEDDER_CONTEXTS];              /* the latest first, which evaluates */
    hth_embedder_place places[HTH_EMBEDDER_INPUTS]; /* [n_places] */
    size_t n_places;

    /* Guards the fields below. No other lock is taken and no callback runs while it is held. */
    pthread_mutex_t lock;
    pthread_cond_t changed;         /* the thread has something to do, or a job or removal has ended */
    hth_embed_job *line;            /* least recently served first */
    hth_embedder_removal *removals; /* in their order */
    uint32_t n_jobs;
    uint64_t tokens_bytes; /* of all jobs */
    bool has_thread, is_closing, is_refusing;
    pthread_t thread;
    uint64_t n_inputs, n_evaluations;
};

static inline bool hth_embed_job_is_over(const hth_embed_job *job)
{
    return atomic_load_explicit(&job->is_cancelled, memory_order_relaxed) ||
           (job->is_gone && atomic_load_explicit(job->is_gone, memory_order_relaxed));
}

/* ---- embedder.c ---- */

/* End the job with the error. The lock is held before and after. */
void hth_embedder_fail_locked(hth_embedder *embedder, hth_embed_job *job, const hearth_error *error);

/* ---- embedder_prompts.c: only on the thread ---- */

/* Are the job's inputs prompts? */
bool hth_embed_job_is_cached(const hth_embedder *embedder, const hth_embed_job *job);
/* At most one evaluation of prompts. The first job of the line is such a job. The lock is held before and after. */
void hth_embedder_tick_prompts_locked(hth_embedder *embedder);
/* Between ticks, without the lock. */
void hth_embedder_forget_prompts(hth_embedder *embedder, const hth_embedder_removal *removal);

#endif
