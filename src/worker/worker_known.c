#include "worker/worker_known.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

void hth_known_deinit(hth_known *known)
{
    for (uint32_t i = 0; i < known->n_replies; i++) {
        free(known->replies[i].tokens);
        free(known->replies[i].logprobs);
    }
    free(known->replies);
    *known = (hth_known){ .n_replies = 0 };
}

/* Reply i, allocated with all replies before it; NULL without memory. */
static hth_known_reply *reply_at(hth_known *known, uint32_t i)
{
    if (i >= known->n_replies) {
        hth_known_reply *grown = realloc(known->replies, ((size_t)i + 1) * sizeof(*grown));

        if (!grown)
            return NULL;
        memset(grown + known->n_replies, 0, (i + 1 - known->n_replies) * sizeof(*grown));
        known->replies = grown;
        known->n_replies = i + 1;
    }
    return &known->replies[i];
}

/* Append a step's log probabilities; the tokens follow. False without memory. */
static bool add_logprobs(hth_known_reply *reply, const hth_frame *step)
{
    const hearth_logprob unknown = { .token = -1, .logprob = NAN };
    hearth_logprob *grown;
    size_t n;

    if (step->n_tokens == 0 || (reply->n_logprobs == 0 && step->n_logprobs == 0))
        return true;
    if (reply->n_logprobs == 0) {
        reply->likely_begin = reply->n;
        reply->n_logprobs = step->n_logprobs;
    }
    n = (size_t)(reply->n - reply->likely_begin) * reply->n_logprobs;
    grown = hth_grown_by(reply->logprobs, n, (size_t)step->n_tokens * reply->n_logprobs, &reply->logprobs_capacity,
                         sizeof(*grown));
    if (!grown)
        return false;
    reply->logprobs = grown;
    for (uint32_t i = 0; i < step->n_tokens; i++)
        for (uint32_t k = 0; k < reply->n_logprobs; k++)
            grown[n++] = k < step->n_logprobs ? hth_frame_logprob(step, i, k) : unknown;
    return true;
}

/* Append a step's tokens; false without memory. */
static bool add_step(hth_known_reply *reply, const hth_frame *frame)
{
    if (frame->n_tokens > UINT32_MAX / 4 - reply->n || !add_logprobs(reply, frame))
        return false;
    if (frame->n_tokens > 0) {
        hearth_token *grown = hth_grown_by(reply->tokens, reply->n, frame->n_tokens, &reply->capacity, sizeof(*grown));

        if (!grown)
            return false;
        reply->tokens = grown;
    }
    for (uint32_t i = 0; i < frame->n_tokens; i++)
        reply->tokens[reply->n++] = hth_frame_token(frame, i);
    if (frame->n_tokens > 0)
        reply->state = frame->has_state ? frame->state : NAN;
    reply->has_begun |= frame->reply_has_begun || frame->n_tokens > 0;
    reply->has_ended |= frame->reply_has_ended;
    return true;
}

/* is_elsewhere: its tokens were drawn at another node, like all before them. False without memory. */
static bool add(hth_known *known, const hth_frame *frame, bool is_elsewhere)
{
    hth_known_reply *reply;

    if (frame->kind == HTH_FRAME_MODEL) {
        known->has_model = true;
        memcpy(known->model, frame->model, sizeof(known->model));
        return true;
    }
    reply = reply_at(known, frame->reply);
    if (!reply)
        return false;
    switch (frame->kind) {
    case HTH_FRAME_STEP:
        if (!add_step(reply, frame))
            return false;
        if (is_elsewhere)
            reply->n_elsewhere = reply->n;
        return true;
    case HTH_FRAME_OUTCOME:
        reply->has_outcome = true;
        reply->outcome = frame->outcome;
        return true;
    default:
        reply->has_cached = true;
        reply->n_cached = frame->n_cached;
        return true;
    }
}

static bool is_known(const hth_frame *frame, uint32_t n_replies_max)
{
    switch (frame->kind) {
    case HTH_FRAME_MODEL: return true;
    case HTH_FRAME_STEP:
    case HTH_FRAME_CACHED:
    case HTH_FRAME_OUTCOME: return frame->n_bytes == 0 && frame->reply < n_replies_max;
    default: return false;
    }
}

bool hth_known_read(const char *bytes, size_t n_bytes, size_t n_elsewhere, uint32_t n_replies_max, hth_known *out,
                    hth_api_error *error)
{
    hth_known known = { .n_replies = 0 };
    size_t at = 0;

    while (at < n_bytes && error->kind == HTH_API_NO_ERROR) {
        hth_frame frame;
        size_t n_used = 0;

        if (hth_frame_read(bytes + at, n_bytes - at, &frame, &n_used) != HTH_FRAME_OK ||
            !is_known(&frame, n_replies_max)) {
            hth_api_fail(error, HTH_API_INVALID_VALUE, NULL, "what should be known of the reply is no such frames");
            break;
        }
        if (!add(&known, &frame, at < n_elsewhere))
            hth_api_fail(error, HTH_API_OVERLOADED, NULL, "no memory for what is known of the reply");
        at += n_used;
    }
    if (error->kind != HTH_API_NO_ERROR) {
        hth_known_deinit(&known);
        return false;
    }
    *out = known;
    return true;
}

const hth_known_reply *hth_known_at(const hth_known *known, uint32_t i)
{
    static const hth_known_reply nothing;

    return i < known->n_replies ? &known->replies[i] : &nothing;
}

const hearth_logprob *hth_known_logprobs(const hth_known *known, uint32_t reply, uint32_t i, uint32_t *n_out)
{
    const hth_known_reply *r = hth_known_at(known, reply);

    if (r->n_logprobs == 0 || i < r->likely_begin || i >= r->n)
        return NULL;
    *n_out = r->n_logprobs;
    return r->logprobs + (size_t)(i - r->likely_begin) * r->n_logprobs;
}

const hth_frame_outcome *hth_known_outcome(const hth_known *known, uint32_t i)
{
    const hth_known_reply *r = hth_known_at(known, i);

    return r->has_ended && r->has_outcome ? &r->outcome : NULL;
}

bool hth_known_is_all(const hth_known *known, uint32_t n_replies)
{
    for (uint32_t i = 0; i < n_replies; i++)
        if (!hth_known_at(known, i)->has_ended)
            return false;
    return true;
}
