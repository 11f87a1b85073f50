/*
 * chat_parser.c - parse a reply while it is generated
 *
 * The engine always parses the whole text. This file makes a stream of its readings: each reading gives only the text
 * beyond what was given before. Given text is not taken back, even if a later reading lacks it.
 *
 * A reading for each token would take time quadratic in the length of the reply. So up to STEP_FROM bytes, the text is
 * read at each piece, and after that whenever it has grown by a 64th. All readings together cost at most 128 times the
 * last.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "models/model_inside.h"

enum {
    STEP_FROM = 4096,
    STEPS = 64,
    REPLY_BYTES_MAX = 16 << 20,
};

/* The reader for replies to one prompt. Reading does not change it. */
typedef struct shared_reader {
    const hth_backend *backend;
    hth_engine_chat_reader *reader;
    atomic_uint references;
} shared_reader;

/* Text that was given; it may contain NUL bytes. text is NULL if there is none. */
typedef struct given_text {
    char *text;
    size_t n;
} given_text;

struct hearth_chat_parser {
    shared_reader *shared;
    char *text;
    size_t n_text;
    size_t capacity;
    size_t n_read;  /* bytes of text at the last reading */
    bool is_broken; /* a reading failed; the next one is at the end */
    bool has_ended;
    given_text content;
    given_text reasoning;
    given_text *arguments; /* of each call, [n_calls] */
    size_t n_calls;
    hth_chat_reply reply; /* the last reading; deltas point into it */
    hearth_chat_delta *deltas;
    size_t n_deltas;
    size_t deltas_capacity;
};

static void reader_unref(shared_reader *shared)
{
    if (!shared || atomic_fetch_sub_explicit(&shared->references, 1, memory_order_acq_rel) != 1)
        return;
    shared->backend->chat_reader_free(shared->reader);
    free(shared);
}

/* Takes over the reference to shared. */
static hearth_status parser_new(shared_reader *shared_take, hearth_chat_parser **out, hearth_error *err)
{
    hearth_chat_parser *parser = shared_take ? calloc(1, sizeof(*parser)) : NULL;

    if (!parser) {
        reader_unref(shared_take);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a parser of replies");
    }
    parser->shared = shared_take;
    *out = parser;
    return HEARTH_OK;
}

hearth_status hearth_chat_parser_new(hearth_model *model, const hearth_chat_prompt *prompt, hearth_chat_parser **out,
                                     hearth_error *err)
{
    shared_reader *shared;
    hearth_status status;

    if (!model || !prompt || !prompt->parser || !out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_chat_parser_new: a model, a rendered prompt and out are needed");
    shared = calloc(1, sizeof(*shared));
    if (shared) {
        shared->backend = model->backend; /* backends are never unloaded */
        atomic_init(&shared->references, 1);
        status = shared->backend->chat_reader_new(prompt->parser, &shared->reader, err);
        if (status != HEARTH_OK) {
            free(shared);
            return status;
        }
    }
    return parser_new(shared, out, err);
}

hearth_status hearth_chat_parser_like(const hearth_chat_parser *parser, hearth_chat_parser **out, hearth_error *err)
{
    if (!parser || !out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_chat_parser_like: parser or out is NULL");
    atomic_fetch_add_explicit(&parser->shared->references, 1, memory_order_relaxed);
    return parser_new(parser->shared, out, err);
}

void hearth_chat_parser_free(hearth_chat_parser *parser)
{
    if (!parser)
        return;
    reader_unref(parser->shared);
    hth_chat_reply_clear(&parser->reply);
    for (size_t i = 0; i < parser->n_calls; i++)
        free(parser->arguments[i].text);
    free(parser->arguments);
    free(parser->content.text);
    free(parser->reasoning.text);
    free(parser->deltas);
    free(parser->text);
    free(parser);
}

static bool add_delta(hearth_chat_parser *parser, hearth_chat_delta delta)
{
    hearth_chat_delta *grown = hth_grown(parser->deltas, parser->n_deltas, &parser->deltas_capacity, sizeof(*grown));

    if (!grown)
        return false;
    parser->deltas = grown;
    delta.struct_size = sizeof(delta);
    parser->deltas[parser->n_deltas++] = delta;
    return true;
}

/* Append; false if out of memory. */
static bool extend(given_text *given, const char *more, size_t n_more)
{
    char *grown = realloc(given->text, given->n + n_more);

    if (!grown)
        return false;
    memcpy(grown + given->n, more, n_more);
    *given = (given_text){ .text = grown, .n = given->n + n_more };
    return true;
}

/*
 * Give the part of delta's text (the whole text of a reading) beyond *given, and extend *given. False if out of memory.
 */
static bool give(hearth_chat_parser *parser, hearth_chat_delta delta, given_text *given)
{
    size_t n_given = given->n;

    /* A reading that differs from the given text gives nothing. A later one may continue the given text again. */
    if (delta.n_bytes <= n_given || (n_given > 0 && memcmp(delta.text, given->text, n_given) != 0))
        return true;
    delta.text += n_given;
    delta.n_bytes -= n_given;
    delta.id = "";
    return extend(given, delta.text, delta.n_bytes) && add_delta(parser, delta);
}

/* Give a call when its name is complete: when arguments, another call or the end of the text follow. */
static bool give_calls(hearth_chat_parser *parser, bool is_last)
{
    const hth_chat_reply *reply = &parser->reply;

    for (size_t i = 0; i < reply->n_calls; i++) {
        const hth_chat_reply_call *call = &reply->calls[i];

        if (i >= parser->n_calls) {
            given_text *grown;

            if (!*call->name || (call->n_arguments == 0 && i + 1 == reply->n_calls && !is_last))
                return true;
            grown = realloc(parser->arguments, (i + 1) * sizeof(*grown));
            if (!grown)
                return false;
            parser->arguments = grown;
            parser->arguments[parser->n_calls++] = (given_text){ .text = NULL };
            if (!add_delta(parser, (hearth_chat_delta){ .kind = HEARTH_DELTA_CALL,
                                                        .call = (uint32_t)i,
                                                        .text = call->name,
                                                        .n_bytes = strlen(call->name),
                                                        .id = call->id }))
                return false;
        }
        if (i + 1 == parser->n_calls && /* those before it are complete */
            !give(parser,
                  (hearth_chat_delta){ .kind = HEARTH_DELTA_ARGUMENTS,
                                       .call = (uint32_t)i,
                                       .text = call->arguments,
                                       .n_bytes = call->n_arguments },
                  &parser->arguments[i]))
            return false;
    }
    return true;
}

/*
 * The reply has ended in a form that its template does not expect, for example with a brace that does not begin a call.
 * The remaining text becomes content unchanged. If there were calls, nothing is given, because the text of calls cannot
 * be distinguished from the rest.
 */
static bool give_rest(hearth_chat_parser *parser)
{
    const given_text *const given[] = { &parser->reasoning, &parser->content };
    const char *rest = parser->text;
    size_t n_rest = parser->n_text;

    if (parser->n_calls > 0)
        return true;
    for (size_t i = 0; i < 2 && n_rest > 0; i++) {
        const char *at = memmem(rest, n_rest, given[i]->text ? given[i]->text : "", given[i]->n);

        if (!at)
            return true; /* the given text differs from the written text */
        n_rest -= (size_t)(at - rest) + given[i]->n;
        rest = at + given[i]->n;
    }
    return n_rest == 0 ||
           (extend(&parser->content, rest, n_rest) &&
            add_delta(parser,
                      (hearth_chat_delta){ .kind = HEARTH_DELTA_CONTENT, .text = rest, .n_bytes = n_rest, .id = "" }));
}

/* Read the whole text again and give the new part. */
static hearth_status read_all(hearth_chat_parser *parser, bool is_last, hearth_error *err)
{
    hth_chat_reply reply = { NULL };
    hearth_status status =
        parser->shared->backend->chat_read(parser->shared->reader, parser->text, parser->n_text, is_last, &reply, err);
    bool ok = true;

    parser->n_read = parser->n_text;
    if (status == HEARTH_NO_MEMORY)
        return status;
    if (status != HEARTH_OK) {
        parser->is_broken = !is_last && parser->n_text > STEP_FROM;
        ok = !is_last || give_rest(parser);
        return ok ? HEARTH_OK : hth_fail(err, HEARTH_NO_MEMORY, "no memory to read a reply");
    }
    hth_chat_reply_clear(&parser->reply);
    parser->reply = reply;
    ok = give(parser,
              (hearth_chat_delta){
                  .kind = HEARTH_DELTA_REASONING, .text = reply.reasoning, .n_bytes = reply.n_reasoning },
              &parser->reasoning) &&
         give(parser,
              (hearth_chat_delta){ .kind = HEARTH_DELTA_CONTENT, .text = reply.content, .n_bytes = reply.n_content },
              &parser->content) &&
         give_calls(parser, is_last);
    return ok ? HEARTH_OK : hth_fail(err, HEARTH_NO_MEMORY, "no memory to read a reply");
}

static bool append(hearth_chat_parser *parser, const char *text, size_t n_bytes)
{
    char *grown = hth_grown_by(parser->text, parser->n_text, n_bytes + 1, &parser->capacity, 1);

    if (!grown)
        return false;
    parser->text = grown;
    if (n_bytes > 0)
        memcpy(parser->text + parser->n_text, text, n_bytes);
    parser->n_text += n_bytes;
    parser->text[parser->n_text] = '\0';
    return true;
}

hearth_status hearth_chat_parser_feed(hearth_chat_parser *parser, const char *text, size_t n_bytes, bool is_last,
                                      const hearth_chat_delta **deltas_out, size_t *n_out, hearth_error *err)
{
    hearth_status status = HEARTH_OK;
    size_t n_new;

    if (!parser || (!text && n_bytes > 0) || !deltas_out || !n_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_chat_parser_feed: parser, text or an output is NULL");
    if (parser->has_ended)
        return hth_fail(err, HEARTH_MISUSE, "hearth_chat_parser_feed: the reply has ended already");
    if (n_bytes > REPLY_BYTES_MAX || parser->n_text + n_bytes > REPLY_BYTES_MAX)
        return hth_fail(err, HEARTH_TOO_LONG, "the reply is longer than %d bytes", REPLY_BYTES_MAX);
    if (!append(parser, text, n_bytes))
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to read a reply");
    parser->n_deltas = 0;
    n_new = parser->n_text - parser->n_read;
    if (is_last || (n_new > 0 && !parser->is_broken && (parser->n_text < STEP_FROM || n_new >= parser->n_text / STEPS)))
        status = read_all(parser, is_last, err);
    if (status != HEARTH_OK)
        return status;
    parser->has_ended = is_last;
    *deltas_out = parser->deltas;
    *n_out = parser->n_deltas;
    return HEARTH_OK;
}
