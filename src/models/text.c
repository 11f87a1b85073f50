/*
 * text.c - text to tokens and back, and conversations to text
 */
#include <stdlib.h>
#include <string.h>

#include "models/model_inside.h"
#include "sched/text_stream.h"

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
    if (n > capacity)
        status =
            hth_fail(err, HEARTH_TOO_LONG, "the text has %zu tokens, more than the %zu there is room for", n, capacity);
    else if (n > 0)
        memcpy(tokens, all, n * sizeof(*tokens));
    free(all);
    return status;
}

hearth_status hth_model_piece(hearth_model *model, hearth_token token, char *bytes, size_t capacity, size_t *n_out,
                              hearth_error *err)
{
    hearth_status status = hth_model_enter(model, "hth_model_piece", err);

    if (status != HEARTH_OK)
        return status;
    status = model->backend->piece(model->engine_model, token, true, bytes, capacity, n_out, err);
    hth_model_leave(model);
    return status;
}

hearth_status hth_model_template(hearth_model *model, char **out, hearth_error *err)
{
    hearth_status status = hth_model_enter(model, "hth_model_template", err);
    char *copy = NULL;

    if (status != HEARTH_OK)
        return status;
    if (model->info.chat_template) { /* the engine's, which is there until we leave */
        copy = strdup(model->info.chat_template);
        if (!copy)
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the chat template");
    }
    hth_model_leave(model);
    if (status == HEARTH_OK)
        *out = copy;
    return status;
}

bool hth_model_fill_tokens(const hearth_model *model, hearth_token out[3])
{
    const hth_engine_model_info *info = &model->info;

    if (info->fill_prefix < 0 || info->fill_suffix < 0 || info->fill_middle < 0)
        return false;
    out[0] = info->fill_prefix;
    out[1] = info->fill_suffix;
    out[2] = info->fill_middle;
    return true;
}

typedef struct text_builder {
    char *text;
    size_t n;
    size_t capacity;
} text_builder;

static bool build(text_builder *builder, const char *bytes, size_t n)
{
    if (!builder->text || builder->n + n + 1 > builder->capacity) {
        size_t capacity = 2 * (builder->n + n + 1) + 64;
        char *grown = realloc(builder->text, capacity);

        if (!grown)
            return false;
        builder->text = grown;
        builder->capacity = capacity;
    }
    memcpy(builder->text + builder->n, bytes, n);
    builder->n += n;
    builder->text[builder->n] = '\0';
    return true;
}

hearth_status hearth_detokenize(hearth_model *model, const hearth_token *tokens, size_t n_tokens, bool special,
                                char **text_out, size_t *n_out, hearth_error *err)
{
    text_builder builder = { .text = NULL };
    hth_text_stream *stream;
    const char *text = "";
    size_t n_text = 0;
    hearth_status status;

    if ((!tokens && n_tokens > 0) || !text_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_detokenize: tokens or text_out is NULL");
    status = hth_model_enter(model, "hearth_detokenize", err);
    if (status != HEARTH_OK)
        return status;
    stream = hth_text_stream_new(NULL, 0);
    if (!stream || !build(&builder, "", 0))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a text of %zu tokens", n_tokens);
    for (size_t i = 0; status == HEARTH_OK && i < n_tokens; i++) {
        char piece[HTH_PIECE_BYTES_MAX];
        size_t n_piece = 0;
        bool stopped;

        status = model->backend->piece(model->engine_model, tokens[i], special, piece, sizeof(piece), &n_piece, err);
        if (status == HEARTH_OK &&
            (!hth_text_stream_feed(stream, piece, n_piece, &text, &n_text, &stopped) || !build(&builder, text, n_text)))
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a text of %zu tokens", n_tokens);
    }
    if (status == HEARTH_OK && (!hth_text_stream_finish(stream, &text, &n_text) || !build(&builder, text, n_text)))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a text of %zu tokens", n_tokens);
    hth_model_leave(model);
    hth_text_stream_free(stream);
    if (status != HEARTH_OK) {
        free(builder.text);
        return status;
    }
    *text_out = builder.text;
    if (n_out)
        *n_out = builder.n;
    return HEARTH_OK;
}

hearth_status hearth_chat_render(hearth_model *model, const hearth_chat_message *messages, size_t n_messages,
                                 char **text_out, size_t *n_out, hearth_error *err)
{
    char *text = NULL;
    hearth_status status;

    if (!messages || n_messages == 0 || !text_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_chat_render: at least one message and text_out are needed");
    for (size_t i = 0; i < n_messages; i++) {
        if (!messages[i].role || !messages[i].content)
            return hth_fail(err, HEARTH_MISUSE, "hearth_chat_render: message %zu has no role or no content", i);
        status = hth_check_text("a message", messages[i].content, strlen(messages[i].content), err);
        if (status != HEARTH_OK)
            return status;
    }
    status = hth_model_enter(model, "hearth_chat_render", err);
    if (status != HEARTH_OK)
        return status;
    status = model->backend->chat_render(model->engine_model, messages, n_messages, &text, err);
    hth_model_leave(model);
    if (status != HEARTH_OK)
        return status;
    *text_out = text;
    if (n_out)
        *n_out = strlen(text);
    return HEARTH_OK;
}
