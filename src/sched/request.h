/*
 * request.h - a request inside the scheduler: copied, tokenized and checked
 */
#ifndef HTH_SCHED_REQUEST_H
#define HTH_SCHED_REQUEST_H

#include <stdatomic.h>

#include "base/status.h"
#include "engine/backend.h"
#include "rows/key.h"
#include "sched/adapter_set.h"
#include "sched/true_tokens.h"

enum {
    HTH_REPLIES_MAX = 128, /* of one prompt */
    HTH_STOPS_MAX = 64,    /* stop texts */
    HTH_STOP_BYTES_MAX = 1024,
    HTH_STOP_TOKENS_MAX = 64,
    HTH_SESSION_BYTES_MAX = 128,
    HTH_PRIORITY_MAX = 100, /* the lowest is -HTH_PRIORITY_MAX */
};

/* A holder of a request's pause. The request continues when it has no holder. */
typedef enum hth_pause {
    HTH_PAUSE_CALLER = 1, /* hearth_pause */
    HTH_PAUSE_EVENTS = 2, /* its event queue is full */
} hth_pause;

typedef struct hth_request hth_request;

struct hth_request {
    /* Fixed at creation. */
    uint64_t id;
    /*
     * The public request, with copies of stop, stop_tokens, replayed, draft_tokens, session_id and parent_key, which
     * are owned; its other pointers are NULL. n_predict is 0 with prefill_only. no_cache_read is also set with
     * prompt_logprobs, logprobs with n_top_logprobs, is_resumed with replayed tokens. n_parent_digits is 1 .. 64.
     */
    hearth_request options;
    hearth_sampling sampling; /* numbers, and shown_tokens, which is owned; the other pointers are NULL */
    hearth_token *prompt;     /* owned, [n_prompt], n_prompt >= 1 */
    uint32_t n_prompt;
    hth_prompt_text *text;     /* a reference; NULL: the prompt was not made from one text */
    bool is_steered;           /* biases or a grammar of the caller influence how a text is tokenized */
    uint32_t draft_max;        /* longest draft; 0: none */
    uint32_t draft_min;        /* a shorter draft is not verified */
    uint32_t n_parent;         /* tokens of the prompt that parent_key covers */
    hth_keyspace keyspace;     /* the model's, with the request's adapters and salt */
    hth_adapter_set *adapters; /* owned; NULL: none */
    /* Receives the prompt's embedding, [n_embedding], before on_done; requires n_predict 0. NULL: not wanted. */
    void (*on_vector)(const float *values, void *user_data);
    uint64_t submitted_ns;

    /* Set by any thread. The scheduler reads them between evaluations; the engine's abort callback reads cancelled. */
    atomic_bool cancelled;
    atomic_bool rows_came; /* hearth_rows_came was called */
    atomic_uint paused;    /* a set of hth_pause; 0: not paused */
    atomic_uint n_pauses;  /* number of calls that paused it: each shows that its reader is alive */
    /* If not 0, no client waits for the reply, and prefill continues until this time of the workplace's clock. */
    _Atomic uint64_t linger_until_ns;

    /* The scheduler's list of known requests; guarded by its lock. */
    hth_request *prev, *next;
};

/*
 * Copy a public request, whose sampling is not NULL, with the tokens of its prompt, which are taken over even on
 * failure. The caller sets text, keyspace, adapters and n_parent. HEARTH_MISUSE names an option that is out of range;
 * HEARTH_INVALID_TEXT; HEARTH_NO_MEMORY.
 */
hearth_status hth_request_new(const hearth_request *from, hearth_token *tokens_take, size_t n_tokens, uint64_t id,
                              hth_request **out, hearth_error *err);
void hth_request_free(hth_request *request); /* accepts NULL */

#endif
