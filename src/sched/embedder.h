/*
 * embedder.h - the thread that evaluates inputs of embedding requests
 *
 * A model has one in addition to its scheduler. The thread and the engine's context start with the first request.
 * Requests wait in a line. An evaluation takes inputs from all requests with the pooling and adapters of the first one,
 * as many as fit; then the requests that took part go to the end of the line. So a request with many inputs does not
 * delay one with few, and no pooling and no set of adapters starves. If an evaluation for several requests fails, each
 * is then evaluated alone, so only a request that fails alone gets the error.
 *
 * There is a context for each pooling, at most HTH_EMBEDDER_CONTEXTS of them. A new one replaces the least recently
 * used. If the model's rows are cached, HEARTH_POOLING_LAST uses none of these contexts: its inputs are prompts in a
 * batcher of their own. Each input begins as soon as it gets its cells, one from each request in turn.
 *
 * Unless noted otherwise, all functions may be called from any thread, and block only for the lock, which is never held
 * during an evaluation.
 */
#ifndef HTH_SCHED_EMBEDDER_H
#define HTH_SCHED_EMBEDDER_H

#include <stdatomic.h>

#include "cache/counters.h"
#include "sched/batcher.h"
#include "sched/embeddings.h"

enum { HTH_EMBEDDER_CONTEXTS = 2 }; /* HTTP requests use two: the model's, and rank */

typedef struct hth_embedder hth_embedder;

typedef struct hth_embedder_options {
    const hth_backend *backend;
    hth_engine_model *model; /* outlives the embedder */
    const hth_log *log;
    uint32_t n_tokens_max; /* of an input */
    uint32_t n_threads;
    uint32_t queue_max; /* requests that have not ended */
    uint64_t bytes_max; /* of their tokens and vectors; a single request may have more */
    /* The model's scheduler's; place NULL: nothing is cached. */
    const hth_workplace *place;
    const hth_schedule *schedule;
    hth_engine_context_params context;
    uint32_t n_ctx_short; /* as in hth_engine_model_info */
    hth_counters *counters;
} hth_embedder_options;

/*
 * Called when inputs of the request are done; n_tokens is their total, including cached tokens. On the embedder's
 * thread, before on_done, and not for the last input. It must not call the embedder.
 */
typedef void (*hth_embed_worked_fn)(uint64_t n_tokens, void *user_data);

/* A request whose inputs are tokens. The submitter fills the first part; the rest is zero. */
typedef struct hth_embed_job {
    uint64_t id;
    hearth_token *tokens; /* owned; of all inputs, concatenated */
    uint32_t *n_tokens;   /* owned; [n_inputs], each 1 .. n_tokens_max */
    size_t n_inputs;
    int32_t norm;
    hth_counted_embeddings *embeddings; /* an owned reference; it has the pooling */
    hth_adapter_set *adapters;          /* an owned reference; NULL: none */
    hth_keyspace keyspace;              /* of its rows */
    bool no_cache_read;
    bool counts_answer;         /* its vectors count in bytes_max until the last reference to them is released */
    hearth_embedded_fn on_done; /* may be NULL; so may the next one */
    hth_embed_worked_fn on_worked;
    void *user_data;
    const atomic_bool *is_gone; /* true: the client is gone, as if it had cancelled; NULL: never */

    /* Used by the embedder. */
    struct hth_embed_job *prev, *next;
    atomic_bool is_cancelled;
    bool is_alone;   /* an evaluation of it with others failed */
    bool has_failed; /* with this error: */
    hearth_error error;
    uint32_t n_begun;         /* inputs in progress as prompts */
    uint64_t last_evaluation; /* the last counted evaluation of one of them */
    size_t n_taken;           /* inputs that were evaluated or are in progress */
    size_t tokens_taken;      /* of their tokens */
    size_t n_done;
    uint64_t tokens_done;     /* of their tokens */
    uint64_t tokens_reported; /* reported to on_worked */
    uint64_t submitted_ns, begun_ns;
} hth_embed_job;

/* Free a job that was not submitted, complete or not. Accepts NULL. */
void hth_embed_job_free(hth_embed_job *job);

/* The caller releases *out with hth_embedder_free. options is copied. HEARTH_NO_MEMORY. */
hearth_status hth_embedder_new(const hth_embedder_options *options, hth_embedder **out, hearth_error *err);
/*
 * Cancel all requests, end the thread and free. Blocks until every on_done has returned; must not be called from one.
 * No other call may be in progress. Accepts NULL.
 */
void hth_embedder_free(hth_embedder *embedder);

/*
 * Takes over the job, even on failure. On success, on_done is called exactly once, on the embedder's thread; on failure
 * it is not called. HEARTH_BUSY for queue_max or bytes_max, with err->retry_after_s; HEARTH_CANCELLED after refuse;
 * HEARTH_NO_MEMORY; HEARTH_IO if the thread does not start.
 */
hearth_status hth_embedder_submit(hth_embedder *embedder, hth_embed_job *job, hearth_error *err);
/*
 * The request ends soon, with HEARTH_CANCELLED unless it is complete. False if there is no such request, or it has
 * ended.
 */
bool hth_embedder_cancel(hth_embedder *embedder, uint64_t id);
void hth_embedder_cancel_all(hth_embedder *embedder);
/*
 * Block until the request has ended and its on_done has returned; true also for an unknown id. False after timeout_ms
 * (UINT32_MAX: no limit). Must not be called from a callback.
 */
bool hth_embedder_wait(hth_embedder *embedder, uint64_t id, uint32_t timeout_ms);
/* Refuse submissions from now on. Known requests continue. */
void hth_embedder_refuse(hth_embedder *embedder);
/* Block until no request is left. Must not be called from a callback. */
void hth_embedder_wait_idle(hth_embedder *embedder);
/* Is this the thread of an embedder, that is, a callback? */
bool hth_embedder_is_this_thread(void);

/*
 * hth_pool_forget, in the sequences of the embedder's context, before the rows of these tokens are removed. Blocks at
 * most for one evaluation, the creation of a context and callbacks: hold no lock that callbacks take. An input with
 * these tokens that is being evaluated keeps its cells, and its rows are saved.
 */
void hth_embedder_forget(hth_embedder *embedder, const uint8_t fingerprint[32], const hearth_token *tokens,
                         uint32_t n_tokens, uint32_t n_kept);

typedef struct hth_embedder_status {
    uint32_t n_requests; /* that have not ended */
    uint64_t n_inputs;   /* evaluated since the start */
    uint64_t n_evaluations;
} hth_embedder_status;

void hth_embedder_status_get(hth_embedder *embedder, hth_embedder_status *out);

#endif
