/*
 * request.c - check and copy requests
 */
#include "sched/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "sampling/sampling.h"

enum {
    SHOWN_TOKENS_MAX = 64,
    TOP_LOGPROBS_MAX = 64,
    KEY_DIGITS = 64, /* hex digits */
};

static hearth_status check_numbers(const hearth_request *from, hearth_error *err)
{
    if (from->n_predict < -1)
        return hth_fail(err, HEARTH_MISUSE, "n_predict is %d; it must be -1 (no limit) or more", from->n_predict);
    if (from->priority < -HTH_PRIORITY_MAX || from->priority > HTH_PRIORITY_MAX)
        return hth_fail(err, HEARTH_MISUSE, "priority is %d; it must be -%d to %d", from->priority, HTH_PRIORITY_MAX,
                        HTH_PRIORITY_MAX);
    if (from->n_top_logprobs > TOP_LOGPROBS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "n_top_logprobs is %u; it must be at most %d", from->n_top_logprobs,
                        TOP_LOGPROBS_MAX);
    if (from->n_stop > HTH_STOPS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "stop has %zu texts; at most %d are allowed", from->n_stop, HTH_STOPS_MAX);
    if (from->n_stop_tokens > HTH_STOP_TOKENS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "stop_tokens has %zu tokens; at most %d are allowed", from->n_stop_tokens,
                        HTH_STOP_TOKENS_MAX);
    if (from->sampling->n_shown_tokens > SHOWN_TOKENS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "shown_tokens has %zu tokens; at most %d are allowed",
                        from->sampling->n_shown_tokens, SHOWN_TOKENS_MAX);
    if ((!from->stop_tokens && from->n_stop_tokens > 0) || (!from->replayed && from->n_replayed > 0) ||
        (!from->sampling->shown_tokens && from->sampling->n_shown_tokens > 0) ||
        (!from->draft_tokens && from->n_draft_tokens > 0))
        return hth_fail(err, HEARTH_MISUSE,
                        "stop_tokens, shown_tokens, replayed or draft_tokens is NULL although its count is not 0");
    if (from->draft_max < -1 || from->draft_max > HEARTH_DRAFT_MAX)
        return hth_fail(err, HEARTH_MISUSE, "draft_max is %d; it must be 0 to %d, or -1: as the model was loaded",
                        from->draft_max, HEARTH_DRAFT_MAX);
    if (from->draft_min < -1 || from->draft_min > HEARTH_DRAFT_MAX)
        return hth_fail(err, HEARTH_MISUSE, "draft_min is %d; it must be 0 to %d, or -1: as the model was loaded",
                        from->draft_min, HEARTH_DRAFT_MAX);
    if (from->n_parent_digits > KEY_DIGITS)
        return hth_fail(err, HEARTH_MISUSE, "n_parent_digits is %u; a key has %d", from->n_parent_digits, KEY_DIGITS);
    if (from->verify && from->n_draft_tokens == 0)
        return hth_fail(err, HEARTH_MISUSE, "verify needs draft_tokens to compare the reply with");
    if (from->session_id &&
        (!*from->session_id || strnlen(from->session_id, HTH_SESSION_BYTES_MAX + 1) > HTH_SESSION_BYTES_MAX))
        return hth_fail(err, HEARTH_MISUSE, "session_id is empty or longer than %d bytes", HTH_SESSION_BYTES_MAX);
    if (from->session_id && from->n > 1)
        return hth_fail(err, HEARTH_MISUSE, "n is %u; a request with a session_id has one reply", from->n);
    if (from->prompt_logprobs && from->n > 1)
        return hth_fail(err, HEARTH_MISUSE, "n is %u; a request with prompt_logprobs has one reply", from->n);
    if (from->n_replayed > 0 && from->n > 1)
        return hth_fail(err, HEARTH_MISUSE, "n is %u; a request with replayed tokens has one reply", from->n);
    return HEARTH_OK;
}

static hearth_status copy_stops(hth_request *request, const hearth_request *from, hearth_error *err)
{
    request->stop = calloc(from->n_stop ? from->n_stop : 1, sizeof(*request->stop));
    if (!request->stop)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the stop texts");
    for (; request->n_stop < from->n_stop; request->n_stop++) {
        const char *text = from->stop ? from->stop[request->n_stop] : NULL;

        if (!text || strnlen(text, HTH_STOP_BYTES_MAX + 1) > HTH_STOP_BYTES_MAX)
            return hth_fail(err, HEARTH_MISUSE, "stop text %zu is missing or longer than %d bytes", request->n_stop,
                            HTH_STOP_BYTES_MAX);
        if (!*text)
            return hth_fail(err, HEARTH_MISUSE, "stop text %zu is empty; give at least one character", request->n_stop);
        if (!hth_utf8_is_valid(text, strlen(text)))
            return hth_fail(err, HEARTH_INVALID_TEXT, "stop text %zu is not valid UTF-8; no reply could contain it",
                            request->n_stop);
        request->stop[request->n_stop] = strdup(text);
        if (!request->stop[request->n_stop])
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the stop texts");
    }
    return HEARTH_OK;
}

/* Copy tokens [n] to *out; if n is 0, *out does not change. False if out of memory. */
static bool copy_tokens(const hearth_token *tokens, size_t n, hearth_token **out)
{
    if (n == 0)
        return true;
    *out = malloc(n * sizeof(*tokens));
    if (*out)
        memcpy(*out, tokens, n * sizeof(*tokens));
    return *out != NULL;
}

static hearth_status copy_lists(hth_request *request, const hearth_request *from, hearth_error *err)
{
    if (!copy_tokens(from->stop_tokens, from->n_stop_tokens, &request->stop_tokens) ||
        !copy_tokens(from->sampling->shown_tokens, from->sampling->n_shown_tokens, &request->shown_tokens) ||
        !copy_tokens(from->replayed, from->n_replayed, &request->replayed) ||
        !copy_tokens(from->draft_tokens, from->n_draft_tokens, &request->draft))
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a request");
    request->n_stop_tokens = from->n_stop_tokens;
    request->n_shown_tokens = from->sampling->n_shown_tokens;
    request->n_replayed = (uint32_t)from->n_replayed;
    request->n_draft = from->n_draft_tokens;
    if (from->session_id) {
        request->session = strdup(from->session_id);
        if (!request->session)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a request");
    }
    return copy_stops(request, from, err);
}

/* The grammar of a rendered conversation allows every tokenization of a call, and is not the caller's. */
static bool is_steered(const hearth_request *from)
{
    const hearth_sampling *sampling = from->sampling;
    const char *of_chat = from->chat ? from->chat->grammar : NULL;

    return sampling->n_logit_bias > 0 || sampling->json_schema || (sampling->grammar && sampling->grammar != of_chat);
}

hearth_status hth_request_new(const hearth_request *from, hearth_token *tokens_take, size_t n_tokens, uint64_t id,
                              hth_request **out, hearth_error *err)
{
    uint32_t draft_max = from->draft_max >= 0     ? (uint32_t)from->draft_max
                       : from->n_draft_tokens > 0 ? HEARTH_DRAFT_MAX
                                                  : 0;
    uint32_t draft_min = from->draft_min > 0 ? (uint32_t)from->draft_min : 0;
    hth_request *request = calloc(1, sizeof(*request));
    hearth_status status;

    if (!request) {
        free(tokens_take);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a request");
    }
    *request = (hth_request){
        .id = id,
        .prompt = tokens_take,
        .n_prompt = (uint32_t)n_tokens,
        .n_predict = from->prefill_only ? 0 : from->n_predict,
        .min_tokens = from->min_tokens,
        .ignore_eos = from->ignore_eos,
        .no_cache_read = from->no_cache_read || from->prompt_logprobs,
        .echo = from->echo,
        .logprobs = from->logprobs || from->n_top_logprobs > 0,
        .logprobs_after_sampling = from->logprobs && from->logprobs_after_sampling,
        .prompt_logprobs = from->prompt_logprobs,
        .n_top_logprobs = from->n_top_logprobs,
        .tell_replayed = from->tell_replayed,
        .replayed_state = from->replayed_state,
        .is_resumed = from->is_resumed || from->n_replayed > 0,
        .draft_max = draft_max,
        .draft_min = draft_min < draft_max ? draft_min : draft_max,
        .is_steered = is_steered(from),
        .verify = from->verify,
        .priority = from->priority,
        .sampling = *from->sampling,
        .has_parent_key = from->parent_key != NULL,
        .n_parent_digits = from->n_parent_digits ? from->n_parent_digits : KEY_DIGITS,
        .queue_timeout_ms = from->queue_timeout_ms,
        .run_timeout_ms = from->run_timeout_ms,
        .deadline_ms = from->deadline_ms,
        .on_text = from->on_text,
        .on_token = from->on_token,
        .on_progress = from->on_progress,
        .on_done = from->on_done,
        .user_data = from->user_data,
    };
    request->sampling.dry_breakers = NULL; /* owned by the caller; the sampler makes a copy */
    request->sampling.logit_bias = NULL;
    request->sampling.grammar = request->sampling.json_schema = NULL;
    request->sampling.triggers = NULL;
    request->sampling.samplers = NULL;
    request->sampling.thinking_message = request->sampling.thinking_begin = request->sampling.thinking_end = NULL;
    if (from->parent_key)
        memcpy(request->parent_key, from->parent_key, sizeof(request->parent_key));
    status = check_numbers(from, err);
    if (status == HEARTH_OK)
        status = hth_sampling_check(from->sampling, err);
    if (status == HEARTH_OK)
        status = copy_lists(request, from, err);
    if (status != HEARTH_OK) {
        hth_request_free(request);
        return status;
    }
    *out = request;
    return HEARTH_OK;
}

bool hth_request_is_of_session(const hth_request *request, const uint8_t fingerprint[32], const char *session)
{
    return session && request->session && strcmp(request->session, session) == 0 &&
           memcmp(request->keyspace.fingerprint, fingerprint, sizeof(request->keyspace.fingerprint)) == 0;
}

void hth_request_free(hth_request *request)
{
    if (!request)
        return;
    for (size_t i = 0; i < request->n_stop; i++)
        free(request->stop[i]);
    free(request->stop);
    free(request->stop_tokens);
    free(request->shown_tokens);
    free(request->replayed);
    hth_adapter_set_unref(request->adapters);
    free(request->draft);
    free(request->session);
    free(request->prompt);
    hth_prompt_text_unref(request->text);
    free(request);
}
