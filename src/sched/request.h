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
    hearth_token *prompt;  /* owned, [n_prompt], n_prompt >= 1 */
    hth_prompt_text *text; /* a reference; NULL: the prompt was not made from one text */
    uint32_t n_prompt;
    int32_t n_predict; /* 0: prefill only */
    uint32_t min_tokens;
    bool ignore_eos;
    bool no_cache_read;
    bool echo;
    bool logprobs;
    bool logprobs_after_sampling;
    bool prompt_logprobs;
    uint32_t n_top_logprobs;
    int32_t priority;
    hearth_sampling sampling; /* numbers only: its pointers are NULL */
    char **stop;              /* owned, [n_stop] */
    size_t n_stop;
    hearth_token *stop_tokens; /* owned, [n_stop_tokens] */
    size_t n_stop_tokens;
    hearth_token *shown_tokens; /* owned, [n_shown_tokens] */
    size_t n_shown_tokens;
    hearth_token *replayed; /* owned, [n_replayed] */
    uint32_t n_replayed;
    float replayed_state; /* NaN: none */
    bool tell_replayed;
    bool is_resumed;
    bool is_steered;     /* biases or a grammar of the caller influence how a text is tokenized */
    bool verify;         /* end after the first token that differs from the draft */
    uint32_t draft_max;  /* longest draft; 0: none */
    uint32_t draft_min;  /* a shorter draft is not verified */
    hearth_token *draft; /* owned, [n_draft], expected tokens of the reply */
    size_t n_draft;
    char *session; /* owned; NULL: none */
    bool has_parent_key;
    uint8_t parent_key[32];
    uint32_t n_parent_digits;  /* number of its digits that are given: 1 .. 64 */
    uint32_t n_parent;         /* tokens of the prompt that parent_key covers */
    hth_keyspace keyspace;     /* the model's, with the request's adapters and salt */
    hth_adapter_set *adapters; /* owned; NULL: none */
    uint32_t queue_timeout_ms; /* 0: none; likewise the next two */
    uint32_t run_timeout_ms;
    uint32_t deadline_ms;
    hearth_text_fn on_text;
    hearth_token_fn on_token;
    hearth_progress_fn on_progress;
    hearth_done_fn on_done;
    /* Receives the prompt's embedding, [n_embedding], before on_done; requires n_predict 0. NULL: not wanted. */
    void (*on_vector)(const float *values, void *user_data);
    void *user_data;
    uint64_t submitted_ns;

    /* Set by any thread. The scheduler reads them between evaluations; the engine's abort callback reads cancelled. */
    atomic_bool cancelled;
    atomic_uint paused;   /* a set of hth_pause; 0: not paused */
    atomic_uint n_pauses; /* number of calls that paused it: each shows that its reader is alive */
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

/* Does it belong to the session, under that effective fingerprint? False for a NULL session. */
bool hth_request_is_of_session(const hth_request *request, const uint8_t fingerprint[32], const char *session);

#endif
