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
    if (from->n_replayed_elsewhere > from->n_replayed)
        return hth_fail(err, HEARTH_MISUSE, "n_replayed_elsewhere is %zu, but n_replayed is %zu",
                        from->n_replayed_elsewhere, from->n_replayed);
    if (from->n_replayed > 0 && from->n > 1)
        return hth_fail(err, HEARTH_MISUSE, "n is %u; a request with replayed tokens has one reply", from->n);
    return HEARTH_OK;
}

static hearth_status copy_stops(char **stop, const hearth_request *from, hearth_error *err)
{
    for (size_t i = 0; i < from->n_stop; i++) {
        const char *text = from->stop ? from->stop[i] : NULL;

        if (!text || strnlen(text, HTH_STOP_BYTES_MAX + 1) > HTH_STOP_BYTES_MAX)
            return hth_fail(err, HEARTH_MISUSE, "stop text %zu is missing or longer than %d bytes", i,
                            HTH_STOP_BYTES_MAX);
        if (!*text)
            return hth_fail(err, HEARTH_MISUSE, "stop text %zu is empty; give at least one character", i);
        if (!hth_utf8_is_valid(text, strlen(text)))
            return hth_fail(err, HEARTH_INVALID_TEXT, "stop text %zu is not valid UTF-8; no reply could contain it", i);
        stop[i] = strdup(text);
        if (!stop[i])
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the stop texts");
    }
    return HEARTH_OK;
}

/* A copy of n_bytes bytes, of one at least. *ok becomes false if out of memory. */
static void *copy_of(const void *from, size_t n_bytes, bool *ok)
{
    void *copy = malloc(n_bytes ? n_bytes : 1);

    if (copy && n_bytes > 0)
        memcpy(copy, from, n_bytes);
    *ok &= copy != NULL;
    return copy;
}

static hearth_status copy_lists(hth_request *request, const hearth_request *from, hearth_error *err)
{
    const hearth_sampling *sampling = from->sampling;
    hearth_request *own = &request->options;
    char **stop = calloc(from->n_stop + 1, sizeof(*stop));
    bool ok = stop != NULL;

    own->stop = (const char *const *)stop;
    own->stop_tokens = copy_of(from->stop_tokens, from->n_stop_tokens * sizeof(*from->stop_tokens), &ok);
    own->replayed = copy_of(from->replayed, from->n_replayed * sizeof(*from->replayed), &ok);
    own->draft_tokens = copy_of(from->draft_tokens, from->n_draft_tokens * sizeof(*from->draft_tokens), &ok);
    request->sampling.shown_tokens =
        copy_of(sampling->shown_tokens, sampling->n_shown_tokens * sizeof(*sampling->shown_tokens), &ok);
    if (from->session_id)
        own->session_id = copy_of(from->session_id, strlen(from->session_id) + 1, &ok);
    if (from->parent_key)
        own->parent_key = copy_of(from->parent_key, HTH_KEY_BYTES, &ok);
    return ok ? copy_stops(stop, from, err) : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a request");
}

/* The numbers and callbacks of a request, as request.h says. */
static hearth_request options_of(const hearth_request *from)
{
    hearth_request own = *from;

    own.prompt = own.cache_salt = own.session_id = NULL;
    own.tokens = own.stop_tokens = own.replayed = own.draft_tokens = NULL;
    own.stop = NULL;
    own.sampling = NULL;
    own.parent_key = NULL;
    own.events = NULL;
    own.chat = NULL;
    own.adapters = NULL;
    own.n_predict = from->prefill_only ? 0 : from->n_predict;
    own.no_cache_read = from->no_cache_read || from->prompt_logprobs;
    own.logprobs = from->logprobs || from->n_top_logprobs > 0;
    own.logprobs_after_sampling = from->logprobs && from->logprobs_after_sampling;
    own.is_resumed = from->is_resumed || from->n_replayed > 0;
    own.n_parent_digits = from->n_parent_digits ? from->n_parent_digits : KEY_DIGITS;
    return own;
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
        .options = options_of(from),
        .sampling = *from->sampling,
        .prompt = tokens_take,
        .n_prompt = (uint32_t)n_tokens,
        .is_steered = is_steered(from),
        .draft_max = draft_max,
        .draft_min = draft_min < draft_max ? draft_min : draft_max,
    };
    request->sampling.dry_breakers = NULL; /* owned by the caller; the sampler makes a copy; likewise below */
    request->sampling.logit_bias = NULL;
    request->sampling.grammar = request->sampling.json_schema = NULL;
    request->sampling.triggers = NULL;
    request->sampling.samplers = NULL;
    request->sampling.shown_tokens = NULL;
    request->sampling.thinking_message = request->sampling.thinking_begin = request->sampling.thinking_end = NULL;
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

void hth_request_free(hth_request *request)
{
    const hearth_request *own;

    if (!request)
        return;
    own = &request->options;
    for (size_t i = 0; own->stop && i < own->n_stop; i++)
        free((void *)own->stop[i]);
    free((void *)own->stop);
    free((void *)own->stop_tokens);
    free((void *)own->replayed);
    free((void *)own->draft_tokens);
    free((void *)own->session_id);
    free((void *)own->parent_key);
    free((void *)request->sampling.shown_tokens);
    hth_adapter_set_unref(request->adapters);
    free(request->prompt);
    hth_prompt_text_unref(request->text);
    free(request);
}
