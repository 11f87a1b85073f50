/*
 * text.c - text to tokens
 */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "engine/tokenize.h"
#include "models/model_inside.h"
#include "models/reply_reading.h"

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

/* The history of the model; NULL: none, or the model has no fingerprint yet. */
static hth_true_tokens *history_of(hearth_model *model)
{
    hth_true_tokens *known;

    pthread_mutex_lock(&model->lock);
    known = model->scheduler ? model->place.true_tokens : NULL;
    pthread_mutex_unlock(&model->lock);
    return known;
}

static unsigned flags_of(const hth_prompt_source *source)
{
    return source->flags | (source->chat ? HTH_PROMPT_CHAT : 0u);
}

/* The text in the model's own words, [*n_out], which the caller frees; NULL: it stays as it is. */
static char *own_words(hearth_model *model, hth_true_tokens *known, const hth_prompt_source *source,
                       const hth_keyspace *keyspace, size_t *n_out)
{
    hth_reply_reading reading = { .backend = model->backend, .parser = source->chat ? source->chat->parser : NULL };
    char *own = NULL;

    *n_out = source->n_bytes;
    if (reading.parser && !source->no_cache_read)
        hth_true_tokens_own_words(known, keyspace->fingerprint, source->text, source->n_bytes, flags_of(source),
                                  hth_reply_says_the_same, &reading, &own, n_out);
    hth_reply_reading_end(&reading);
    return own;
}

/* Take the tokens of a text from the history, as far as they are known. */
static hearth_status tokens_of_history(hearth_model *model, hth_true_tokens *known, const hth_prompt_source *source,
                                       const hth_keyspace *keyspace, hth_prompt_tokens *out, hearth_error *err)
{
    const unsigned flags = flags_of(source);
    size_t n_bytes, n_known = 0;
    char *own = own_words(model, known, source, keyspace, &n_bytes);
    const char *text = own ? own : source->text;
    hearth_status status;

    if (source->no_cache_read)
        status = hth_tokenize(model->backend, model->engine_model, text, n_bytes, source->flags, source->is_gone,
                              &out->tokens, &out->n_tokens, err);
    else
        status = hth_true_tokens_of(known, keyspace->fingerprint, text, n_bytes, flags, source->is_gone, &out->tokens,
                                    &out->n_tokens, &n_known, err);
    if (status == HEARTH_OK) /* if out of memory, the reply is not recorded */
        out->text = hth_prompt_text_new(text, n_bytes, flags, (uint32_t)n_known);
    if (out->text)
        memcpy(out->text->fingerprint, keyspace->fingerprint, sizeof(out->text->fingerprint));
    free(own);
    return status;
}

/* The text of a rendered conversation with its marks; NULL if out of memory. */
static char *marked_text(const hearth_chat_prompt *chat, size_t *n_out)
{
    char *made = malloc(chat->n_bytes + chat->n_plain);
    size_t done = 0, n = 0;

    for (size_t i = 0; made && i < chat->n_plain; i++) {
        memcpy(made + n, chat->text + done, chat->plain[i] - done);
        n += chat->plain[i] - done;
        made[n++] = HTH_PLAIN_MARK;
        done = chat->plain[i];
    }
    if (made)
        memcpy(made + n, chat->text + done, chat->n_bytes - done);
    *n_out = n + chat->n_bytes - done;
    return made;
}

static hearth_status text_tokens(hearth_model *model, const hth_prompt_source *source, hth_prompt_tokens *out,
                                 hearth_error *err)
{
    hth_true_tokens *known = source->n_bytes > 0 ? history_of(model) : NULL;
    hth_prompt_tokens made = { .tokens = NULL };
    hth_keyspace keyspace;
    hearth_status status;

    if (known) { /* adapters do not change the tokens of a text */
        status = hth_model_keyspace(model, NULL, source->cache_salt, &keyspace, err);
        if (status == HEARTH_OK)
            status = tokens_of_history(model, known, source, &keyspace, &made, err);
    } else {
        status = hth_tokenize(model->backend, model->engine_model, source->text, source->n_bytes, source->flags,
                              source->is_gone, &made.tokens, &made.n_tokens, err);
    }
    if (status == HEARTH_OK)
        *out = made;
    return status;
}

/* Of source, with marks if it needs them. *text_out: the memory of its text, which the caller frees. */
static hearth_status mark(const hth_prompt_source *source, hth_prompt_source *out, char **text_out, hearth_error *err)
{
    *out = *source;
    *text_out = NULL;
    if (!source->chat || source->chat->n_plain == 0)
        return HEARTH_OK;
    *text_out = marked_text(source->chat, &out->n_bytes);
    if (!*text_out)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a prompt");
    out->text = *text_out;
    return HEARTH_OK;
}

hearth_status hth_model_text_tokens(hearth_model *model, const hth_prompt_source *source, hth_prompt_tokens *out,
                                    hearth_error *err)
{
    hth_prompt_source marked;
    char *text;
    hearth_status status = mark(source, &marked, &text, err);

    if (status == HEARTH_OK)
        status = text_tokens(model, &marked, out, err);
    free(text);
    return status;
}

hearth_status hth_model_prompt_of_text(hearth_model *model, const hth_prompt_source *source, hth_prompt_tokens *out,
                                       hearth_error *err)
{
    hearth_status status = hth_model_enter(model, "hth_model_prompt_of_text", err);

    if (status != HEARTH_OK)
        return status;
    status = hth_check_text("the text", source->text, source->n_bytes, err);
    if (status == HEARTH_OK)
        status = hth_model_text_tokens(model, source, out, err);
    hth_model_leave(model);
    return status;
}

/* ---- the history of a prompt, for another node and from it ---- */

static hearth_status known_of_text(hearth_model *model, hth_true_tokens *known, const hth_prompt_source *source,
                                   hth_known_text *out, hearth_error *err)
{
    hth_keyspace keyspace;
    hearth_status status = hth_model_keyspace(model, NULL, source->cache_salt, &keyspace, err);
    size_t n_bytes;
    char *own;

    if (status != HEARTH_OK)
        return status;
    own = own_words(model, known, source, &keyspace, &n_bytes);
    if (!hth_true_tokens_known(known, keyspace.fingerprint, own ? own : source->text, n_bytes, flags_of(source), out))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the history of a prompt");
    free(own);
    return status;
}

hearth_status hth_model_known_of_text(hearth_model *model, const hth_prompt_source *source, hth_known_text *out,
                                      hearth_error *err)
{
    hearth_status status = hth_model_enter(model, "hth_model_known_of_text", err);
    hth_known_text found = { .n_bytes = 0 };
    hth_prompt_source marked;
    hth_true_tokens *known;
    char *text = NULL;

    if (status != HEARTH_OK)
        return status;
    known = source->n_bytes > 0 && !source->no_cache_read ? history_of(model) : NULL;
    status = hth_check_text("the text", source->text, source->n_bytes, err);
    if (status == HEARTH_OK)
        status = mark(source, &marked, &text, err);
    if (status == HEARTH_OK && known)
        status = known_of_text(model, known, &marked, &found, err);
    hth_model_leave(model);
    free(text);
    if (status == HEARTH_OK)
        *out = found;
    return status;
}

bool hth_model_learn(hearth_model *model, const char *cache_salt, unsigned flags, const hth_known_text *text)
{
    hth_true_tokens *known;
    hth_keyspace keyspace;
    bool ok;

    if (hth_model_enter(model, "hth_model_learn", NULL) != HEARTH_OK)
        return false;
    known = history_of(model);
    ok = known && hth_model_keyspace(model, NULL, cache_salt, &keyspace, NULL) == HEARTH_OK &&
         hth_true_tokens_learn(known, keyspace.fingerprint, text, flags);
    hth_model_leave(model);
    return ok;
}

/* Return n tokens to the caller. */
static hearth_status give_tokens(const hearth_token *from, size_t n, hearth_token *tokens, size_t capacity,
                                 size_t *n_out, hearth_error *err)
{
    *n_out = n;
    if (n > capacity && capacity > 0)
        return hth_fail(err, HEARTH_TOO_LONG, "the text has %zu tokens, more than the %zu there is room for", n,
                        capacity);
    if (capacity > 0 && n > 0)
        memcpy(tokens, from, n * sizeof(*tokens));
    return HEARTH_OK;
}

hearth_status hearth_tokenize(hearth_model *model, const char *text, size_t n_bytes, unsigned flags,
                              hearth_token *tokens, size_t capacity, size_t *n_out, hearth_error *err)
{
    return hth_model_tokenize(model, text, n_bytes, flags, NULL, tokens, capacity, n_out, err);
}

hearth_status hth_model_tokenize(hearth_model *model, const char *text, size_t n_bytes, unsigned flags,
                                 const atomic_bool *is_gone, hearth_token *tokens, size_t capacity, size_t *n_out,
                                 hearth_error *err)
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
        status = hth_tokenize(model->backend, model->engine_model, text, n_bytes, flags, is_gone, &all, &n, err);
    hth_model_leave(model);
    if (status != HEARTH_OK)
        return status;
    status = give_tokens(all, n, tokens, capacity, n_out, err);
    free(all);
    return status;
}

hearth_status hearth_prompt_tokenize(hearth_model *model, const hearth_request *request, hearth_token *tokens,
                                     size_t capacity, size_t *n_out, hearth_error *err)
{
    hth_model_prompt prompt;
    hearth_status status;

    if (!model || (!tokens && capacity > 0) || !n_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_prompt_tokenize: model, tokens or n_out is NULL");
    status = hth_model_prompt_take(model, request, "hearth_prompt_tokenize", &prompt, err);
    if (status != HEARTH_OK)
        return status;
    status = give_tokens(prompt.tokens, prompt.n_tokens, tokens, capacity, n_out, err);
    hth_model_prompt_give_back(model, &prompt);
    return status;
}
