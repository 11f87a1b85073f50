/*
 * tokenize.c - see tokenize.h
 */
#include "engine/tokenize.h"

#include <stdlib.h>

static bool has_gone(void *user_data)
{
    return atomic_load_explicit((const atomic_bool *)user_data, memory_order_relaxed);
}

/* Give back the memory that the tokens of a long text did not need. */
static hearth_token *fitted(hearth_token *tokens, size_t n)
{
    hearth_token *smaller = realloc(tokens, (n + 1) * sizeof(*tokens));

    return smaller ? smaller : tokens;
}

hearth_status hth_tokenize(const hth_backend *backend, const hth_engine_model *model, const char *text, size_t n_bytes,
                           unsigned flags, const atomic_bool *is_gone, hearth_token **tokens_out, size_t *n_out,
                           hearth_error *err)
{
    const hth_tokenize_stop stop = { .is_asked = has_gone, .user_data = (void *)(uintptr_t)is_gone };
    size_t capacity = n_bytes + 64; /* nearly always enough, so that no text is tokenized twice */
    hth_tokenize_result result = HTH_TOKENIZE_MORE_ROOM;
    hearth_token *tokens = NULL;
    hearth_status status = HEARTH_OK;
    size_t n = 0;

    while (status == HEARTH_OK && result == HTH_TOKENIZE_MORE_ROOM) {
        hearth_token *grown = realloc(tokens, capacity * sizeof(*tokens));

        if (!grown) {
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu tokens", capacity);
            break;
        }
        tokens = grown;
        status =
            backend->tokenize(model, text, n_bytes, flags, tokens, capacity, &n, &result, is_gone ? &stop : NULL, err);
        if (n > capacity)
            capacity = n;
    }
    if (status != HEARTH_OK) {
        free(tokens);
        return status;
    }
    *tokens_out = fitted(tokens, n);
    *n_out = n;
    return HEARTH_OK;
}
