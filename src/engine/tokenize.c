/*
 * tokenize.c - see tokenize.h
 */
#include "engine/tokenize.h"

#include <stdlib.h>

hearth_status hth_tokenize(const hth_backend *backend, const hth_engine_model *model, const char *text, size_t n_bytes,
                           unsigned flags, hearth_token **tokens_out, size_t *n_out, hearth_error *err)
{
    size_t capacity = n_bytes / 2 + 64; /* a guess that nearly always holds */
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
        status = backend->tokenize(model, text, n_bytes, flags, tokens, capacity, &n, &result, err);
        if (n > capacity)
            capacity = n;
    }
    if (status != HEARTH_OK) {
        free(tokens);
        return status;
    }
    *tokens_out = tokens;
    *n_out = n;
    return HEARTH_OK;
}
