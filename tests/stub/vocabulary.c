/*
 * vocabulary.c - the tokens of the stub engine: bytes, control tokens and made-up words
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stub/inside.h"

enum { LONG_BYTES = 64 << 10 }; /* of a text that waits for the file `reading` to be gone */

static const char *const control_names[] = { "<s>", "</s>", "<|im_start|>", "<|im_end|>" };

/* The control token whose name text begins with, or -1. */
static hearth_token control_token_at(const char *text, size_t n_bytes)
{
    for (size_t i = 0; i < sizeof(control_names) / sizeof(control_names[0]); i++) {
        size_t n = strlen(control_names[i]);

        if (n <= n_bytes && memcmp(text, control_names[i], n) == 0)
            return TOKEN_BOS + (hearth_token)i;
    }
    return -1;
}

/* The made-up word that text begins with, if the tokenizer knows it; *n_out: its bytes. -1: none. */
static hearth_token word_at(const hth_engine_model *model, const char *text, size_t n_bytes, size_t *n_out)
{
    hearth_token first = model->joins_words ? FIRST_WORD_TOKEN : (hearth_token)(model->n_vocab - model->n_defined);
    hearth_token word = 0;
    size_t n = 2;

    if (first >= (hearth_token)model->n_vocab || n_bytes < 5 || memcmp(text, " w", 2) != 0)
        return -1;
    for (; n < 5 && text[n] >= '0' && text[n] <= '9'; n++)
        word = 10 * word + (text[n] - '0');
    if (n < 5 || word < first || word >= (hearth_token)model->n_vocab)
        return -1;
    *n_out = n;
    return word;
}

/* False: it was asked to stop. */
static bool wait_for_reading(const hth_engine_model *model, const hth_tokenize_stop *stop)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    bool is_asked = stop && stop->is_asked(stop->user_data);

    while (!is_asked && model->reading[0] && access(model->reading, F_OK) == 0) {
        (void)nanosleep(&pause, NULL); /* a signal only makes the stub faster */
        is_asked = stop && stop->is_asked(stop->user_data);
    }
    return !is_asked;
}

uint32_t hth_stub_token_bytes_max(void)
{
    size_t n = 0;

    for (size_t i = 0; i < sizeof(control_names) / sizeof(control_names[0]); i++)
        n = strlen(control_names[i]) > n ? strlen(control_names[i]) : n;
    return (uint32_t)n; /* words are shorter */
}

hearth_status hth_stub_tokenize(const hth_engine_model *model, const char *text, size_t n_bytes, unsigned flags,
                                hearth_token *tokens, size_t capacity, size_t *n_out, hth_tokenize_result *result,
                                const hth_tokenize_stop *stop, hearth_error *err)
{
    size_t n = 0;

    if (!model || (!text && n_bytes > 0) || (!tokens && capacity > 0) || !n_out || !result)
        return hth_fail(err, HEARTH_MISUSE, "tokenize needs a model, a text and room");
    if (n_bytes >= LONG_BYTES && !wait_for_reading(model, stop))
        return hth_fail(err, HEARTH_CANCELLED, "no client waits for the tokens of the text any more");
    if (flags & HEARTH_TOKENIZE_BOS) {
        if (n < capacity)
            tokens[n] = TOKEN_BOS;
        n++;
    }
    for (size_t i = 0; i < n_bytes; n++) {
        hearth_token token = flags & HEARTH_TOKENIZE_SPECIAL ? control_token_at(text + i, n_bytes - i) : -1;
        size_t n_read = token < 0 ? 1 : strlen(control_names[token - TOKEN_BOS]);

        if (token < 0)
            token = word_at(model, text + i, n_bytes - i, &n_read);
        if (token < 0)
            token = (unsigned char)text[i];
        i += n_read;
        if (n < capacity)
            tokens[n] = token;
    }
    *n_out = n;
    *result = n <= capacity ? HTH_TOKENIZE_OK : HTH_TOKENIZE_MORE_ROOM;
    return HEARTH_OK;
}

hearth_status hth_stub_piece(const hth_engine_model *model, hearth_token token, bool special, char *bytes,
                             size_t capacity, size_t *n_out, hearth_error *err)
{
    char text[32];
    size_t n;

    if (!model || (!bytes && capacity > 0) || !n_out || token < 0 || (uint32_t)token >= model->n_vocab)
        return hth_fail(err, HEARTH_MISUSE, "token %d is not in the vocabulary", token);
    if (token < TOKEN_BOS) {
        text[0] = (char)token;
        n = 1;
    } else if (token < FIRST_WORD_TOKEN) {
        n = special ? strlen(control_names[token - TOKEN_BOS]) : 0;
        memcpy(text, control_names[token - TOKEN_BOS], n);
    } else {
        n = (size_t)snprintf(text, sizeof(text), model->other_words ? " v%d" : " w%d", token);
    }
    if (n > capacity)
        return hth_fail(err, HEARTH_MISUSE, "the text of token %d needs %zu bytes", token, n);
    if (n > 0)
        memcpy(bytes, text, n);
    *n_out = n;
    return HEARTH_OK;
}

bool hth_stub_is_end(const hth_engine_model *model, hearth_token token)
{
    return model && (token == TOKEN_EOS || token == TOKEN_TURN_END);
}

hearth_status hth_stub_token_flags(const hth_engine_model *model, hearth_token token, unsigned *out, hearth_error *err)
{
    if (!model || !out || token < 0 || (uint32_t)token >= model->n_vocab)
        return hth_fail(err, HEARTH_MISUSE, "token %d is not in the vocabulary", token);
    *out = token < TOKEN_BOS                                          ? HEARTH_TOKEN_BYTE
         : token < FIRST_WORD_TOKEN                                   ? HEARTH_TOKEN_CONTROL
         : token >= (hearth_token)(model->n_vocab - model->n_defined) ? HEARTH_TOKEN_USER_DEFINED
                                                                      : HEARTH_TOKEN_NORMAL;
    if (hth_stub_is_end(model, token))
        *out |= HEARTH_TOKEN_END;
    return HEARTH_OK;
}

static hearth_status text_of_token(const void *model, hearth_token token, char *bytes, size_t capacity, size_t *n_out)
{
    return hth_stub_piece(model, token, false, bytes, capacity, n_out, NULL);
}

static bool ends_reply(const void *model, hearth_token token)
{
    return hth_stub_is_end(model, token);
}

hth_texts *hth_stub_texts_new(const hth_engine_model *model)
{
    return hth_texts_new(&(hth_vocabulary_source){
        .n_tokens = model->n_vocab, .piece = text_of_token, .is_end = ends_reply, .model = model });
}
