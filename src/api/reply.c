/*
 * reply.c - turns tokens, text and results into calls to an API's writer
 */
#include "api/reply.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/sse.h"
#include "api/writer.h"
#include "base/grow.h"
#include "base/json_bounds.h"
#include "models/model.h"

/*
 * The number of log probabilities that may wait for text. Any more are written without text, so that no event becomes
 * much larger than others.
 */
enum { UNWRITTEN_MAX = 4096 };

/* Limits of the arguments of a call, which the model writes. */
enum { ARGUMENTS_DEPTH_MAX = 256, ARGUMENTS_VALUES_MAX = 1000000 };

/* ---- making and freeing ---- */

static void choice_deinit(hth_api_choice *choice)
{
    for (size_t i = 0; i < choice->n_calls; i++)
        hth_buffer_deinit(&choice->calls[i].arguments);
    free(choice->calls);
    free(choice->items);
    hth_buffer_deinit(&choice->content);
    hth_buffer_deinit(&choice->reasoning);
    hearth_chat_parser_free(choice->parser);
    hth_api_tokens_deinit(&choice->pending);
    hth_api_tokens_deinit(&choice->drawn);
}

void hth_api_reply_free(hth_api_reply *reply)
{
    if (!reply)
        return;
    for (size_t i = 0; i < reply->n_choices; i++)
        choice_deinit(&reply->choices[i]);
    free(reply->choices);
    free(reply);
}

static hearth_status make_parser(hearth_model *model, const hth_api_prepared *prepared, hearth_chat_parser **out,
                                 hearth_error *err)
{
    const hearth_chat_parser *like = prepared->prompts[0]->parser;

    return like ? hearth_chat_parser_like(like, out, err) : hearth_chat_parser_new(model, prepared->chat, out, err);
}

hth_api_reply *hth_api_reply_new(hearth_model *model, const hth_api_request *request, const hth_api_prepared *prepared,
                                 const hth_api_reply_options *options, hth_api_error *error)
{
    hth_api_reply *reply = calloc(1, sizeof(*reply));
    size_t n = prepared->n_requests * request->options.n;
    hearth_error err;

    *error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    if (reply)
        reply->choices = calloc(n, sizeof(*reply->choices));
    if (!reply || !reply->choices) {
        free(reply);
        hth_api_fail(error, HTH_API_OVERLOADED, NULL, "no memory for the reply");
        return NULL;
    }
    reply->hearth = model;
    reply->request = request;
    reply->prepared = prepared;
    reply->writer = request->writer;
    reply->http_status = 200;
    reply->created_s = options->created_s;
    (void)snprintf(reply->model, sizeof(reply->model), "%.256s", options->model); /* names are shorter */
    reply->slot = options->slot;
    (void)snprintf(reply->id, sizeof(reply->id), "%.40s", options->id);
    for (; reply->n_choices < n; reply->n_choices++) {
        hth_api_choice *choice = &reply->choices[reply->n_choices];

        choice->index = reply->n_choices;
        choice->open_block = -1;
        choice->n_prompt =
            /* fits: a context has fewer */
            (uint32_t)prepared->requests[choice->index / request->options.n].n_tokens;
        if (request->is_chat && !request->is_raw && make_parser(model, prepared, &choice->parser, &err) != HEARTH_OK) {
            hth_api_fail_status(error, &err);
            hth_api_reply_free(reply);
            return NULL;
        }
    }
    return reply;
}

size_t hth_api_reply_n(const hth_api_reply *reply)
{
    return reply->n_choices;
}

bool hth_api_reply_has_ended(const hth_api_reply *reply)
{
    return reply->has_ended;
}

size_t hth_api_reply_n_end_bytes(const hth_api_reply *reply)
{
    return reply->n_end_bytes;
}

int hth_api_reply_http_status(const hth_api_reply *reply)
{
    return reply->http_status;
}

int hth_api_reply_failure(const hth_api_reply *reply)
{
    return reply->failure;
}

void hth_api_reply_fail(hth_api_reply *reply, const hth_api_error *error, hth_buffer *out)
{
    hth_api_dialect dialect = hth_api_kind_dialect(reply->request->kind);

    if (reply->has_ended)
        return;
    reply->has_ended = true;
    reply->failure = hth_api_error_http_status(dialect, error);
    if (reply->has_written && reply->writer->fail) {
        reply->writer->fail(reply, error, out);
    } else if (reply->has_written) {
        hth_api_error_write_event(dialect, error, out);
    } else {
        reply->http_status = reply->failure;
        hth_api_error_write(dialect, error, out);
    }
}

static void fail_memory(hth_api_reply *reply, hth_buffer *out)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "no memory for the reply");
    hth_api_reply_fail(reply, &error, out);
}

static void fail_status(hth_api_reply *reply, const hearth_error *err, hth_buffer *out)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail_status(&error, err);
    hth_api_reply_fail(reply, &error, out);
}

/* Choice i, if its reply still goes on; otherwise NULL. */
static hth_api_choice *open_choice(const hth_api_reply *reply, size_t i)
{
    return reply->has_ended || i >= reply->n_choices || reply->choices[i].has_ended ? NULL : &reply->choices[i];
}

/* ---- calls ---- */

/*
 * Make an id for a call that has none from the model: nine letters and digits, because the templates of some models
 * require this form when the call comes back. It depends only on the id of the reply, so that a worker that continues
 * the reply makes the same id (FNV-1a, by G. Fowler, L. C. Noll and K.-P. Vo).
 */
static void make_call_id(const hth_api_reply *reply, const hth_api_choice *choice, char id[10])
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char text[128];
    int n = snprintf(text, sizeof(text), "%s/%zu/%zu", reply->id, choice->index, choice->n_calls); /* fits */

    for (int i = 0; i < n; i++)
        hash = (hash ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    hash ^= hash >> 32;
    for (int i = 0; i < 9; i++, hash /= 36)
        id[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[hash % 36];
    id[9] = '\0';
}

/* Append the call that a delta begins; a call without an id gets one. False if out of memory. */
static bool add_call(const hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta)
{
    hth_api_call *calls = hth_grown(choice->calls, choice->n_calls, &choice->calls_capacity, sizeof(*calls)), *call;

    if (!calls)
        return false;
    choice->calls = calls;
    call = &calls[choice->n_calls];
    *call = (hth_api_call){ .arguments = { .text = NULL } };
    (void)snprintf(call->name, sizeof(call->name), "%.256s",
                   reply->request->responses ? delta->text /* the Responses API has its own table */
                                             : hth_api_given_name(reply->request, delta->text)); /* fits */
    if (delta->id[0] && strlen(delta->id) < sizeof(call->id))
        (void)snprintf(call->id, sizeof(call->id), "%s", delta->id); /* fits */
    else
        make_call_id(reply, choice, call->id);
    choice->n_calls++;
    return true;
}

json_t *hth_api_call_arguments(const hth_api_call *call)
{
    const char *text = hth_buffer_text(&call->arguments);
    json_t *arguments = NULL;

    if (hth_json_is_within(text, call->arguments.n, ARGUMENTS_DEPTH_MAX, ARGUMENTS_VALUES_MAX))
        arguments = json_loadb(text, call->arguments.n, JSON_ALLOW_NUL, NULL);
    if (json_is_object(arguments))
        return arguments;
    json_decref(arguments);
    return NULL;
}

/*
 * ---- the pieces of a reply, in the order in which they came ----
 *
 * Content and reasoning are stored as two texts, and calls as a list; an item is a piece of one of them. An item ends
 * where a delta of another kind comes. A token belongs to the item of the text that follows it.
 */

static hth_api_item *add_item(hth_api_choice *choice, hearth_chat_delta_kind kind, size_t begin)
{
    hth_api_item *items = hth_grown(choice->items, choice->n_items, &choice->items_capacity, sizeof(*items));

    if (!items)
        return NULL;
    choice->items = items;
    items += choice->n_items++;
    *items = (hth_api_item){ .kind = kind, .begin = begin, .end = begin, .tokens_begin = choice->n_pending_taken };
    return items;
}

/* Append a delta, before it is stored: it begins an item, or extends the last one. False if out of memory. */
static bool note_item(hth_api_choice *choice, const hearth_chat_delta *delta)
{
    hth_api_item *item = choice->n_items > 0 ? &choice->items[choice->n_items - 1] : NULL;
    bool is_text = delta->kind == HEARTH_DELTA_CONTENT || delta->kind == HEARTH_DELTA_REASONING;

    if (delta->kind == HEARTH_DELTA_CALL) {
        item = add_item(choice, delta->kind, 0);
        if (item)
            item->call = choice->n_calls; /* the call that comes next */
    } else if (is_text && (!item || item->kind != delta->kind)) {
        item = add_item(choice, delta->kind,
                        delta->kind == HEARTH_DELTA_CONTENT ? choice->content.n : choice->reasoning.n);
    }
    if (!item)
        return false;
    if (is_text)
        item->end += delta->n_bytes;
    choice->n_pending_taken = choice->pending.n;
    item->tokens_end = choice->pending.n;
    return true;
}

/* ---- text ---- */

/* Store a delta. False if out of memory. */
static bool remember(const hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta)
{
    choice->is_answering = choice->is_answering || delta->kind != HEARTH_DELTA_REASONING;
    if (reply->writer->has_items && !note_item(choice, delta))
        return false;
    switch (delta->kind) {
    case HEARTH_DELTA_REASONING:
        hth_buffer_add(&choice->reasoning, delta->text, delta->n_bytes);
        return !choice->reasoning.failed;
    case HEARTH_DELTA_CONTENT:
        hth_buffer_add(&choice->content, delta->text, delta->n_bytes);
        return !choice->content.failed;
    case HEARTH_DELTA_CALL: return add_call(reply, choice, delta);
    case HEARTH_DELTA_ARGUMENTS:
        hth_buffer_add(&choice->calls[delta->call].arguments, delta->text, delta->n_bytes);
        return !choice->calls[delta->call].arguments.failed;
    }
    return true;
}

static void say(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta, hth_buffer *out)
{
    if (!remember(reply, choice, delta)) {
        fail_memory(reply, out);
        return;
    }
    if (reply->request->stream) {
        reply->writer->delta(reply, choice, delta, out);
        reply->has_written = reply->has_written || out->n > 0;
    }
}

static void feed(hth_api_reply *reply, hth_api_choice *choice, const char *text, size_t n, bool is_last,
                 hth_buffer *out)
{
    const hearth_chat_delta *deltas = NULL;
    size_t n_deltas = 0;
    hearth_error err;

    choice->n_text += n;
    if (!choice->parser) {
        if (n > 0)
            say(reply, choice,
                &(hearth_chat_delta){ .kind = HEARTH_DELTA_CONTENT, .text = text, .n_bytes = n, .id = "" }, out);
        return;
    }
    if (hearth_chat_parser_feed(choice->parser, text, n, is_last, &deltas, &n_deltas, &err) != HEARTH_OK) {
        fail_status(reply, &err, out);
        return;
    }
    for (size_t i = 0; i < n_deltas && !reply->has_ended; i++)
        say(reply, choice, &deltas[i], out);
}

void hth_api_reply_text(hth_api_reply *reply, size_t i, const char *text, size_t n_bytes, hth_buffer *out)
{
    hth_api_choice *choice = open_choice(reply, i);

    if (choice)
        feed(reply, choice, text, n_bytes, false, out);
}

/* ---- tokens ---- */

void hth_api_reply_progress(hth_api_reply *reply, size_t i, hearth_phase phase, uint32_t n_done)
{
    if (i >= reply->n_choices)
        return;
    if (phase == HEARTH_PHASE_RESTORE)
        reply->choices[i].n_restored = n_done;
}

bool hth_api_reply_prefill(hth_api_reply *reply, size_t i, uint32_t n_done, double ms, hth_buffer *out)
{
    hth_api_choice *choice;
    bool had_begun;

    if (reply->has_ended || !reply->request->stream || !reply->request->wants_progress || !reply->writer->progress ||
        i >= reply->n_choices || i % reply->request->options.n != 0)
        return false;
    choice = &reply->choices[i];
    had_begun = choice->has_begun;
    reply->writer->progress(reply, choice,
                            json_pack("{s:I, s:I, s:I, s:I}", "total", (json_int_t)choice->n_prompt, "cache",
                                      (json_int_t)choice->n_restored, "processed", (json_int_t)n_done, "time_ms",
                                      (json_int_t)ms),
                            out);
    reply->has_written = true;
    return choice->has_begun && !had_begun;
}

bool hth_api_reply_idle(hth_api_reply *reply, hth_buffer *out)
{
    hth_api_choice *choice = &reply->choices[0];
    bool had_begun = choice->has_begun;

    if (reply->writer->idle)
        reply->writer->idle(reply, choice, out);
    else
        hth_sse_add_comment(out, "");
    reply->has_written = true;
    return choice->has_begun && !had_begun;
}

void hth_api_reply_note_reply_begun(hth_api_reply *reply, size_t i)
{
    if (i < reply->n_choices)
        reply->choices[i].has_begun = true;
}

/* As in llama.cpp: streamed events always have token ids. */
static bool wants_tokens(const hth_api_request *request)
{
    return request->wants_tokens || (request->kind == HTH_API_NATIVE_COMPLETION && request->stream);
}

/* Keep a token until it is written. */
static void note(hth_api_reply *reply, hth_api_choice *choice, const hearth_token_event *event, hth_buffer *out)
{
    const hearth_request *options = &reply->request->options;
    bool with_logprobs = (options->logprobs || options->n_top_logprobs > 0) && event->logprobs;
    hth_api_tokens *tokens = &choice->pending;

    if (!with_logprobs && !wants_tokens(reply->request))
        return;
    if (!hth_api_tokens_add(tokens, event, choice->n_text, with_logprobs)) {
        fail_memory(reply, out);
        return;
    }
    if (!reply->request->stream || reply->writer->has_items || tokens->n * tokens->n_each < UNWRITTEN_MAX)
        return;
    reply->writer->delta(reply, choice, &(hearth_chat_delta){ .kind = HEARTH_DELTA_CONTENT, .text = "", .id = "" },
                         out);
    reply->has_written = true;
}

bool hth_api_reply_has_unwritten(const hth_api_reply *reply, size_t i)
{
    return reply->choices[i].pending.n > 0 && reply->choices[i].pending.n_each > 0;
}

void hth_api_reply_token(hth_api_reply *reply, size_t i, const hearth_token_event *event, hth_buffer *out)
{
    hth_api_choice *choice = open_choice(reply, i);

    if (!choice)
        return;
    choice->n_tokens++;
    if (reply->request->stream && reply->writer->begin) {
        /*
         * The text of the token may be held back for a long time, for example as the beginning of a tool call, but the
         * client should see that the reply has begun.
         */
        reply->writer->begin(reply, choice, out);
        reply->has_written = reply->has_written || out->n > 0;
    }
    if (event->stats)
        choice->stats = *event->stats;
    if (!choice->is_answering)
        choice->n_reasoning_tokens++;
    note(reply, choice, event, out);
    if (reply->request->wants_context && !hth_api_tokens_add(&choice->drawn, event, choice->n_text, false))
        fail_memory(reply, out);
}

/* ---- ends ---- */

/* The client's stop text that ended a reply. The template's stop texts come after the client's and are not reported. */
static const char *stop_text(const hth_api_reply *reply, const hearth_result *result)
{
    const hearth_request *asked = &reply->request->options;

    return result->stop_number > 0 && result->stop_number <= asked->n_stop ? asked->stop[result->stop_number - 1]
                                                                           : NULL;
}

/* Did the reply end in a way that its client asked for? */
static bool ended_well(const hth_api_reply *reply, const hearth_result *result)
{
    return result->status == HEARTH_OK ||
           (result->finish_reason == HEARTH_FINISH_TIMED_OUT && reply->request->options.run_timeout_ms > 0);
}

static void end_all(hth_api_reply *reply, hth_buffer *out)
{
    size_t n_before = out->n;

    if (reply->request->stream && reply->writer->end)
        reply->writer->end(reply, out);
    reply->n_end_bytes = out->n - n_before;
    reply->has_ended = true;
}

/* The number of bytes of a token's text in an echo; 0 for control tokens. */
static size_t n_echoed(hearth_model *model, hearth_token token)
{
    char piece[HTH_PIECE_BYTES_MAX];
    char *text = NULL;
    size_t n_text = 0, n_piece = 0;

    if (hearth_detokenize(model, &token, 1, false, &text, &n_text, NULL) != HEARTH_OK)
        return 0;
    hearth_free(text);
    if (n_text > 0 && hearth_token_bytes(model, token, piece, sizeof(piece), &n_piece, NULL) != HEARTH_OK)
        n_piece = n_text; /* longer than any piece */
    return n_piece;
}

/*
 * Put the log probabilities of the prompt's tokens before those of the reply. If the request had already ended in
 * another worker, they were not computed.
 */
static void tell_prompt(hth_api_reply *reply, hth_api_choice *choice, const hearth_result *result, hth_buffer *out)
{
    const hearth_request *asked = &reply->prepared->requests[choice->index / reply->request->options.n];
    hth_api_tokens tokens = { .n = 0 };
    size_t n_each = 1 + (size_t)result->n_top_logprobs, n_text = 0;
    bool ok = true;

    if (!result->prompt_logprobs) {
        hth_api_error error = { .kind = HTH_API_NO_ERROR };

        hth_api_fail(&error, HTH_API_OVERLOADED, NULL,
                     "the worker ended before the reply was written; send the request again");
        hth_api_reply_fail(reply, &error, out);
        return;
    }
    for (size_t i = 0; ok && i < asked->n_tokens; i++) {
        const hearth_token_event event = { .token = asked->tokens[i],
                                           .logprobs = result->prompt_logprobs + i * n_each,
                                           .n_top_logprobs = result->n_top_logprobs };

        ok = hth_api_tokens_add(&tokens, &event, n_text, true);
        n_text += n_echoed(reply->hearth, event.token);
    }
    for (size_t i = 0; ok && i < choice->pending.n; i++)
        ok = hth_api_tokens_add(&tokens,
                                &(hearth_token_event){ .token = choice->pending.list[i].id,
                                                       .logprobs = hth_api_tokens_logprobs(&choice->pending, i),
                                                       .n_top_logprobs = result->n_top_logprobs },
                                choice->pending.list[i].text_begin, true);
    if (!ok) {
        hth_api_tokens_deinit(&tokens);
        fail_memory(reply, out);
        return;
    }
    hth_api_tokens_deinit(&choice->pending);
    choice->pending = tokens;
}

void hth_api_reply_done(hth_api_reply *reply, size_t i, const hearth_result *result, hth_buffer *out)
{
    hth_api_choice *choice = open_choice(reply, i);

    if (!choice)
        return;
    if (!ended_well(reply, result)) {
        fail_status(reply, &result->error, out);
        return;
    }
    choice->stats = *result->stats;
    choice->finish = result->finish_reason;
    choice->stop_text = stop_text(reply, result);
    choice->n_prompt = result->stats->prompt_tokens;
    choice->n_restored = result->stats->cached_tokens;
    /* Text that was not delivered in pieces. */
    if (result->n_bytes > choice->n_text)
        feed(reply, choice, result->text + choice->n_text, result->n_bytes - choice->n_text, false, out);
    if (!reply->has_ended)
        feed(reply, choice, "", 0, true, out);
    if (!reply->has_ended && reply->request->options.prompt_logprobs)
        tell_prompt(reply, choice, result, out);
    if (reply->has_ended)
        return;
    choice->has_ended = true;
    reply->n_ended++;
    if (reply->request->stream) {
        reply->writer->choice_end(reply, choice, out);
        reply->has_written = true;
    }
    if (reply->n_ended == reply->n_choices)
        end_all(reply, out);
}
