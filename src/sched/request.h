/*
 * request.h - a request as the scheduler holds it: everything copied, tokenized and checked
 */
#ifndef HTH_SCHED_REQUEST_H
#define HTH_SCHED_REQUEST_H

#include <stdatomic.h>

#include "base/status.h"

typedef struct hth_request hth_request;

struct hth_request {
    /* Fixed at creation. */
    uint64_t id;
    hearth_token *prompt; /* owned, [n_prompt], n_prompt >= 1 */
    uint32_t n_prompt;
    int32_t n_predict;
    bool ignore_eos;
    bool no_cache_read;
    hearth_sampling sampling;
    char **stop; /* owned, [n_stop] */
    size_t n_stop;
    bool has_parent_key;
    uint8_t parent_key[32];
    bool has_salt;
    uint8_t fingerprint[32]; /* with has_salt: the model's effective one with the request's salt */
    hearth_text_fn on_text;
    hearth_progress_fn on_progress;
    hearth_done_fn on_done;
    void *user_data;
    uint64_t submitted_ns;

    /* Set by anybody, read by the scheduler between evaluations and by the engine's abort callback. */
    atomic_bool cancelled;

    /* The scheduler's list of requests that are known by id; guarded by its lock. */
    hth_request *prev, *next;
};

/*
 * Copy a public request with these tokens (taken over, also on failure). HEARTH_MISUSE naming an option out of range;
 * HEARTH_NO_MEMORY.
 */
hearth_status hth_request_new(const hearth_request *from, hearth_token *tokens_take, size_t n_tokens, uint64_t id,
                              hth_request **out, hearth_error *err);
void hth_request_free(hth_request *request); /* accepts NULL */

#endif
