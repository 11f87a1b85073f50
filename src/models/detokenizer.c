/*
 * detokenizer.c - tokens to text, all at once or incrementally
 *
 * A call first collects the bytes of all of its tokens, which can fail. Then it gives them to the text stream, which
 * keeps the bytes of an incomplete character. So a call that fails changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/utf8.h"
#include "models/model_inside.h"
#include "sched/text_stream.h"

struct hearth_detokenizer {
    hearth_model *model; /* a reference */
    bool special;
    hth_text_stream *stream;
    char *bytes; /* of the tokens of one call */
    size_t n_bytes;
    size_t capacity;
};

static hearth_status no_memory(size_t n_tokens, hearth_error *err)
{
    return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a text of %zu tokens", n_tokens);
}

/* Put the bytes of these tokens into d->bytes. function names the public function in messages. */
static hearth_status collect(hearth_detokenizer *d, const hearth_token *tokens, size_t n_tokens, const char *function,
                             hearth_error *err)
{
    const hearth_model *model = d->model;
    hearth_status status = hth_model_enter(d->model, function, err);

    if (status != HEARTH_OK)
        return status;
    d->n_bytes = 0;
    for (size_t i = 0; i < n_tokens && status == HEARTH_OK; i++) {
        char *grown = hth_grown_by(d->bytes, d->n_bytes, HTH_PIECE_BYTES_MAX, &d->capacity, 1);
        size_t n = 0;

        if (grown) {
            d->bytes = grown;
            status = model->backend->piece(model->engine_model, tokens[i], d->special, d->bytes + d->n_bytes,
                                           HTH_PIECE_BYTES_MAX, &n, err);
        } else {
            status = no_memory(n_tokens, err);
        }
        d->n_bytes += n;
    }
    hth_model_leave(d->model);
    return status;
}

/* ---- incrementally ---- */

hearth_status hearth_detokenizer_new(hearth_model *model, bool special, hearth_detokenizer **out, hearth_error *err)
{
    hearth_detokenizer *d;

    if (!model || !out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_detokenizer_new: model or out is NULL");
    d = calloc(1, sizeof(*d));
    if (d)
        d->stream = hth_text_stream_new(NULL, 0);
    if (!d || !d->stream) {
        free(d);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a detokenizer");
    }
    d->model = hearth_model_ref(model);
    d->special = special;
    *out = d;
    return HEARTH_OK;
}

hearth_status hearth_detokenizer_feed(hearth_detokenizer *detokenizer, const hearth_token *tokens, size_t n_tokens,
                                      const char **text_out, size_t *n_out, hearth_error *err)
{
    const char *text = "";
    hearth_status status;
    bool stopped;
    size_t n = 0;

    if (!detokenizer || (!tokens && n_tokens > 0) || !text_out || !n_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_detokenizer_feed: detokenizer, tokens, text_out or n_out is NULL");
    status = collect(detokenizer, tokens, n_tokens, "hearth_detokenizer_feed", err);
    if (status == HEARTH_OK &&
        !hth_text_stream_feed(detokenizer->stream, detokenizer->bytes, detokenizer->n_bytes, &text, &n, &stopped))
        status = no_memory(n_tokens, err);
    if (status != HEARTH_OK)
        return status;
    *text_out = text;
    *n_out = n;
    return HEARTH_OK;
}

hearth_status hearth_detokenizer_finish(hearth_detokenizer *detokenizer, const char **text_out, size_t *n_out,
                                        hearth_error *err)
{
    const char *text = "";
    size_t n = 0;

    if (!detokenizer || !text_out || !n_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_detokenizer_finish: detokenizer, text_out or n_out is NULL");
    if (!hth_text_stream_finish(detokenizer->stream, &text, &n))
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the end of a text");
    *text_out = text;
    *n_out = n;
    return HEARTH_OK;
}

void hearth_detokenizer_free(hearth_detokenizer *detokenizer)
{
    if (!detokenizer)
        return;
    hth_text_stream_free(detokenizer->stream);
    free(detokenizer->bytes);
    hearth_model_unref(detokenizer->model);
    free(detokenizer);
}

/* ---- all at once ---- */

hearth_status hearth_detokenize(hearth_model *model, const hearth_token *tokens, size_t n_tokens, bool special,
                                char **text_out, size_t *n_out, hearth_error *err)
{
    hearth_detokenizer d = { .model = model, .special = special };
    char *text = NULL;
    size_t n_text = 0;
    hearth_status status;

    if ((!tokens && n_tokens > 0) || !text_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_detokenize: tokens or text_out is NULL");
    status = collect(&d, tokens, n_tokens, "hearth_detokenize", err);
    if (status == HEARTH_OK) {
        text = hth_utf8_repaired(d.bytes, d.n_bytes, &n_text);
        if (!text)
            status = no_memory(n_tokens, err);
    }
    free(d.bytes);
    if (status != HEARTH_OK)
        return status;
    *text_out = text;
    if (n_out)
        *n_out = n_text;
    return HEARTH_OK;
}
