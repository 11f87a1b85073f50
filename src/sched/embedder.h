/*
 * embedder.h - the thread that evaluates inputs of embedding requests
 *
 * A model has one beside its scheduler. The thread and the engine's context start with the first request. Requests wait
 * in a line. An evaluation takes inputs of all requests with pooling and adapters of the first one, as many as fit;
 * then the requests that took part go to the end of the line. So a request with many inputs does not delay one with
 * few, and no pooling and no set of adapters starves. When the engine fails under several requests, each is evaluated
 * alone afterwards, so only the request that fails alone gets the error.
 *
 * There is a context for each pooling, at most HTH_EMBEDDER_CONTEXTS of them. One more replaces the least recently
 * used. Where the model's rows are cached, HEARTH_POOLING_LAST has none of these: its inputs are prompts
 * (cached_embedder.h). Each begins as soon as it gets its cells, one of each request in turn.
 *
 * All functions may be called from any thread, except where they say otherwise. None of them blocks for longer than the
 * lock, which is never held during an evaluation, unless it says so.
 */
#ifndef HTH_SCHED_EMBEDDER_H
#define HTH_SCHED_EMBEDDER_H

#include <stdatomic.h>

#include "sched/adapter_set.h"
#include "sched/cached_embedder.h"
#include "sched/embeddings.h"

enum { HTH_EMBEDDER_CONTEXTS = 2 }; /* requests over HTTP have two: the model's, and rank */

typedef struct hth_embedder hth_embedder;

typedef struct hth_embedder_options {
    const hth_backend *backend;
    hth_engine_model *model; /* outlives the embedder */
    const hth_log *log;
    uint32_t n_tokens_max; /* of an input */
    uint32_t n_threads;
    uint32_t queue_max; /* requests that have not ended */
    uint64_t bytes_max; /* of their tokens, and of vectors; one request alone may have more */
    /* Of the model's scheduler; place NULL: nothing is cached. */
    const hth_workplace *place;
    const hth_schedule *schedule;
    hth_engine_context_params context;
    uint32_t n_ctx_short; /* as in hth_engine_model_info */
    hth_counters *counters;
} hth_embedder_options;

/*
 * Inputs of the request are done, which have n_tokens together, cached ones too. On the embedder's thread, before
 * on_done, and not for the last input. It may not call the embedder.
 */
typedef void (*hth_embed_worked_fn)(uint64_t n_tokens, void *user_data);

/* A request whose inputs are tokens. The submitter fills the first part; the rest is zero. */
typedef struct hth_embed_job {
    uint64_t id;
    hearth_token *tokens; /* owned; of all inputs, one behind the other */
    uint32_t *n_tokens;   /* owned; [n_inputs], each 1 .. n_tokens_max */
    size_t n_inputs;
    int32_t norm;
    hth_counted_embeddings *embeddings; /* a reference, owned; it names the pooling */
    hth_adapter_set *adapters;          /* a reference, owned; NULL: none */
    hth_keyspace keyspace;              /* of its rows */
    bool no_cache_read;
    bool counts_answer;         /* its vectors count in bytes_max until the last reference to them is given back */
    hearth_embedded_fn on_done; /* may be NULL; so may the next one */
    hth_embed_worked_fn on_worked;
    void *user_data;
    const atomic_bool *is_gone; /* true: nobody waits for it any more, as if it was cancelled; NULL: never */

    /* Of the embedder. */
    struct hth_embed_job *prev, *next;
    atomic_bool is_cancelled;
    bool is_alone;   /* the engine failed under it and others */
    bool has_failed; /* with this error: */
    hearth_error error;
    uint32_t n_begun;         /* inputs that are evaluated as prompts now */
    uint64_t last_evaluation; /* of one of them, that was counted */
    size_t n_taken;           /* inputs that were evaluated or are now */
    size_t tokens_taken;      /* of their tokens */
    size_t n_done;
    uint64_t tokens_done; /* of their tokens */
    uint64_t tokens_told; /* to on_worked */
    uint64_t submitted_ns, begun_ns;
} hth_embed_job;

/* A job that was not submitted, whole or half made. Accepts NULL. */
void hth_embed_job_free(hth_embed_job *job);

/* *out is the caller's, for hth_embedder_free. options is copied. HEARTH_NO_MEMORY. */
hearth_status hth_embedder_new(const hth_embedder_options *options, hth_embedder **out, hearth_error *err);
/*
 * Cancel what waits, end the thread and free. Blocks until every on_done has returned; not in one. No other call may be
 * in progress. Accepts NULL.
 */
void hth_embedder_free(hth_embedder *embedder);

/*
 * Takes the job, also on failure; on_done is not called then. Otherwise it is called exactly once, on the embedder's
 * thread. HEARTH_BUSY for queue_max or bytes_max, with err->retry_after_s; HEARTH_CANCELLED after refuse;
 * HEARTH_NO_MEMORY; HEARTH_IO if the thread does not start.
 */
hearth_status hth_embedder_submit(hth_embedder *embedder, hth_embed_job *job, hearth_error *err);
/* The request ends soon, with HEARTH_CANCELLED unless it is complete. False: there is none, or it has ended. */
bool hth_embedder_cancel(hth_embedder *embedder, uint64_t id);
void hth_embedder_cancel_all(hth_embedder *embedder);
/*
 * Block until the request has ended and its on_done has returned; true also for an unknown id. False after timeout_ms
 * (UINT32_MAX: no limit). Not in a callback.
 */
bool hth_embedder_wait(hth_embedder *embedder, uint64_t id, uint32_t timeout_ms);
/* Submissions fail from now on. Known requests continue. */
void hth_embedder_refuse(hth_embedder *embedder);
/* Block until no request is left. Not in a callback. */
void hth_embedder_wait_idle(hth_embedder *embedder);
/* Is this the thread of an embedder, in a callback? */
bool hth_embedder_is_this_thread(void);

/*
 * hth_pool_forget, in the sequences of the embedder's context, before the rows of these tokens are removed. Blocks for
 * one evaluation, the making of a context and callbacks at most: hold no lock that callbacks take. An input of these
 * tokens that is being evaluated keeps its cells, and its rows are saved.
 */
void hth_embedder_forget(hth_embedder *embedder, const uint8_t fingerprint[32], const hearth_token *tokens,
                         uint32_t n_tokens, uint32_t n_kept);

typedef struct hth_embedder_status {
    uint32_t n_requests; /* that have not ended */
    uint64_t n_inputs;   /* evaluated since the beginning */
    uint64_t n_evaluations;
} hth_embedder_status;

void hth_embedder_status_get(hth_embedder *embedder, hth_embedder_status *out);

#endif
