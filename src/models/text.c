/*
 * text.c - text to tokens
 */
#include <stdlib.h>
#include <string.h>

#include "models/model_inside.h"
#include "sched/text_stream.h" /* of UTF-8 alone */

enum {
    PROMPT_BYTES_MAX = 256 << 20,
};

hearth_status hth_check_text(const char *what, const char *text, size_t n_bytes, hearth_error *err)
{
    if (n_bytes > PROMPT_BYTES_MAX)
        return hth_fail(err, HEARTH_TOO_LONG, "%s is %zu bytes long; at most %d are read", what, n_bytes,
                        PROMPT_BYTES_MAX);
    if (!hth_utf8_is_valid(text, n_bytes))
        return hth_fail(err, HEARTH_INVALID_TEXT, "%s is not valid UTF-8; convert it first, for example with iconv",
                        what);
    return HEARTH_OK;
}

hearth_status hth_model_tokenize(hearth_model *model, const char *text, size_t n_bytes, unsigned flags,
                                 hearth_token **tokens_out, size_t *n_out, hearth_error *err)
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
        status =
            model->backend->tokenize(model->engine_model, text, n_bytes, flags, tokens, capacity, &n, &result, err);
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

hearth_status hearth_tokenize(hearth_model *model, const char *text, size_t n_bytes, unsigned flags,
                              hearth_token *tokens, size_t capacity, size_t *n_out, hearth_error *err)
{
    hearth_token *all = NULL;
    size_t n = 0;
    hearth_status status;

    if ((!text && n_bytes > 0) || (!tokens && capacity > 0) || !n_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_tokenize: text, tokens or n_out is NULL");
    status = hth_model_enter(model, "hearth_tokenize", err);
    if (status != HEARTH_OK)
        return status;
    status = hth_check_text("the text", text, n_bytes, err);
    if (status == HEARTH_OK)
        status = hth_model_tokenize(model, text, n_bytes, flags, &all, &n, err);
    hth_model_leave(model);
    if (status != HEARTH_OK)
        return status;
    *n_out = n;
    if (n > capacity && capacity > 0)
        status =
            hth_fail(err, HEARTH_TOO_LONG, "the text has %zu tokens, more than the %zu there is room for", n, capacity);
    else if (capacity > 0 && n > 0)
        memcpy(tokens, all, n * sizeof(*tokens));
    free(all);
    return status;
}

hearth_status hth_model_template(hearth_model *model, char **out, hearth_error *err)
{
    hearth_status status = hth_model_enter(model, "hth_model_template", err);
    char *copy = NULL;

    if (status != HEARTH_OK)
        return status;
    if (model->info.chat_template) { /* the engine's text lives until we leave */
        copy = strdup(model->info.chat_template);
        if (!copy)
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the chat template");
    }
    hth_model_leave(model);
    if (status == HEARTH_OK)
        *out = copy;
    return status;
}
