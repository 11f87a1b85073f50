/*
 * result_copy.c - see result_copy.h
 */
#include "models/result_copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* A copy of n bytes with a zero after them, so that there is one of nothing, too; NULL when there is no memory. */
static void *copy_of(const void *bytes, size_t n)
{
    char *copy = malloc(n + 1);

    if (copy && n > 0)
        memcpy(copy, bytes, n);
    if (copy)
        copy[n] = '\0';
    return copy;
}

/* The same of log probabilities of n tokens; NULL of none. */
static hearth_logprob *logprobs_of(const hearth_logprob *logprobs, size_t n, const hearth_result *result)
{
    return logprobs ? copy_of(logprobs, n * (1 + (size_t)result->n_top_logprobs) * sizeof(*logprobs)) : NULL;
}

void hth_result_copy(hearth_result *out, const hearth_result *result)
{
    size_t n_tokens = result->stats.completion_tokens;

    *out = *result;
    out->prompt = NULL;
    out->text = copy_of(result->text, result->n_bytes);
    out->tokens = copy_of(result->tokens, n_tokens * sizeof(*out->tokens));
    out->logprobs = logprobs_of(result->logprobs, n_tokens, result);
    out->prompt_logprobs = logprobs_of(result->prompt_logprobs, result->stats.prompt_tokens, result);
    if (out->text && out->tokens && (out->logprobs || !result->logprobs) &&
        (out->prompt_logprobs || !result->prompt_logprobs))
        return;
    hearth_result_free(out);
    out->status = hth_fail(&out->error, HEARTH_NO_MEMORY, "no memory for the reply");
}

const hearth_result *hth_result_copy_new(const hearth_result *result)
{
    hearth_result *copy = malloc(sizeof(*copy));

    if (copy)
        hth_result_copy(copy, result);
    return copy;
}

void hth_result_copy_free(const hearth_result *copy)
{
    hearth_result *own = (hearth_result *)(uintptr_t)copy; /* who made it owns it */

    hearth_result_free(own);
    free(own);
}
