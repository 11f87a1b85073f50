/*
 * worker_known.h - the progress of replies in another worker: the frames before a request's body
 */
#ifndef HTH_WORKER_WORKER_KNOWN_H
#define HTH_WORKER_WORKER_KNOWN_H

#include "api/request.h"
#include "hearth.h"
#include "wire/frames.h"

typedef struct hth_known_reply {
    hearth_token *tokens; /* [n] */
    uint32_t n;
    uint32_t n_elsewhere; /* the first of them, drawn at other nodes */
    size_t capacity;
    /* Log probabilities of the tokens from likely_begin on, n_logprobs of each; NaN: not known. */
    uint32_t likely_begin;
    uint32_t n_logprobs; /* 0: none are known */
    hearth_logprob *logprobs;
    size_t logprobs_capacity;
    float state;    /* of the sampler, after the last token; NaN: none */
    bool has_begun; /* the beginning of its stream was sent, with tokens or before them */
    bool has_ended;
    bool has_outcome;
    hth_frame_outcome outcome; /* of its end */
    bool has_cached;           /* the number of cached prompt tokens is known */
    uint32_t n_cached;
} hth_known_reply;

/* All zeros: nothing is known. */
typedef struct hth_known {
    bool has_model; /* the digest is that of the previous worker */
    uint8_t model[HTH_FRAME_MODEL_BYTES];
    hth_known_reply *replies; /* [n_replies]; nothing is known about later ones */
    uint32_t n_replies;
} hth_known;

/*
 * Read STEP, CACHED, MODEL and OUTCOME frames, [n_bytes] without anything else, of at most n_replies_max replies. The
 * tokens of those that begin in the first n_elsewhere bytes were drawn at other nodes. Release with hth_known_deinit.
 * False with error filled, and nothing to release. Any thread.
 */
bool hth_known_read(const char *bytes, size_t n_bytes, size_t n_elsewhere, uint32_t n_replies_max, hth_known *out,
                    hth_api_error *error);
void hth_known_deinit(hth_known *known); /* zeros afterwards */

/* What is known of reply i; all zeros: nothing. */
const hth_known_reply *hth_known_at(const hth_known *known, uint32_t i);
/* The *n_out log probabilities of token i of a reply; NULL: unknown. */
const hearth_logprob *hth_known_logprobs(const hth_known *known, uint32_t reply, uint32_t i, uint32_t *n_out);
/* The end of reply i; NULL: it has not ended, or its end is unknown. */
const hth_frame_outcome *hth_known_outcome(const hth_known *known, uint32_t i);
/* Have all of n_replies ended? */
bool hth_known_is_all(const hth_known *known, uint32_t n_replies);

#endif
