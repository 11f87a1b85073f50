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
 * (cached_embedder.h). Each begins as soon as there is a place, one of each request in turn.
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
    uint64_t bytes_max; /* of their tokens and vectors; one request alone may have more */
    /* Of the model's scheduler; place NULL: nothing is cached. */
    const hth_workplace *place;
    const hth_schedule *schedule;
    hth_engine_context_params context;
    hth_counters *counters;
} hth_embedder_options;

/* A request whose inputs are tokens. */
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
    hearth_embedded_fn on_done; /* may be NULL */
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
    uint64_t n_bytes; /* of its tokens and vectors */
    uint64_t submitted_ns, begun_ns;
} hth_embed_job;

void hth_embed_job_free(hth_embed_job *job); /* accepts NULL */

hearth_status hth_embedder_new(const hth_embedder_options *options, hth_embedder **out, hearth_error *err);
/* Cancel what waits, end the thread and free. Accepts NULL. Blocks. */
void hth_embedder_free(hth_embedder *embedder);

/*
 * Takes the job, also on failure; on_done is not called then. HEARTH_BUSY, HEARTH_CANCELLED after refuse,
 * HEARTH_NO_MEMORY. Any thread, and so are all that follow.
 */
hearth_status hth_embedder_submit(hth_embedder *embedder, hth_embed_job *job, hearth_error *err);
/* False: there is no such request, or it has ended. */
bool hth_embedder_cancel(hth_embedder *embedder, uint64_t id);
void hth_embedder_cancel_all(hth_embedder *embedder);
/* Wait until the request has ended and its on_done has returned; false after timeout_ms (UINT32_MAX: no limit). */
bool hth_embedder_wait(hth_embedder *embedder, uint64_t id, uint32_t timeout_ms);
/* Submissions fail from now on. */
void hth_embedder_refuse(hth_embedder *embedder);
void hth_embedder_wait_idle(hth_embedder *embedder);
/* Is this the thread of an embedder, in a callback? */
bool hth_embedder_is_this_thread(void);

typedef struct hth_embedder_status {
    uint32_t n_requests; /* that have not ended */
    uint64_t n_inputs;   /* evaluated since the beginning */
    uint64_t n_evaluations;
} hth_embedder_status;

void hth_embedder_status_get(hth_embedder *embedder, hth_embedder_status *out);

#endif
