/*
 * reply.c - replay, draw, deliver, stop
 */
#include "sched/reply.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/os.h"
#include "sampling/filters.h"
#include "sampling/sampling.h"
#include "sched/logprobs.h"

enum {
    TOKEN_BYTES_EXPECTED = 8,
    RESERVED_MAX = 4096, /* maximum number of tokens to reserve memory for */
};

/* Free the reply without changing the request. */
static void discard(hth_reply *reply)
{
    if (reply->sampler)
        reply->place->backend->sampler_free(reply->sampler);
    hth_text_stream_free(reply->text);
    hth_text_stream_free(reply->echo);
    if (reply->result)
        hearth_result_unref(&reply->result->shown);
    free(reply->pieces);
    free(reply);
}

void hth_reply_free(hth_reply *reply)
{
    if (!reply)
        return;
    reply->result->prompt = reply->request->prompt;
    reply->request->prompt = NULL;
    discard(reply);
}

/* ---- growing ---- */

/* Make room for text of needed bytes in total. False if out of memory, with nothing changed. */
static bool grow_text(hth_reply *reply, size_t needed)
{
    hth_counted_result *result = reply->result;
    char *text = hth_grown_by(result->text, 0, needed, &reply->text_capacity, 1);

    if (text)
        result->shown.text = result->text = text;
    return text != NULL;
}

/* The same for tokens and their log probabilities. */
static bool grow_tokens(hth_reply *reply, size_t needed)
{
    hth_counted_result *result = reply->result;
    size_t n_each = 1 + result->shown.n_top_logprobs;
    hearth_token *tokens = hth_grown_by(result->tokens, 0, needed, &reply->tokens_capacity, sizeof(*tokens));
    hearth_logprob *logprobs;

    if (!tokens)
        return false;
    result->shown.tokens = result->tokens = tokens;
    if (!reply->request->options.logprobs)
        return true;
    logprobs = hth_grown_by(result->logprobs, 0, needed * n_each, &reply->logprobs_capacity, sizeof(*logprobs));
    if (logprobs)
        result->shown.logprobs = result->logprobs = logprobs;
    return logprobs != NULL;
}

void hth_reply_reserve(hth_reply *reply)
{
    uint32_t n = reply->n_max < RESERVED_MAX ? reply->n_max : RESERVED_MAX;

    (void)grow_tokens(reply, n); /* on failure, each token tries again */
    (void)grow_text(reply, (size_t)n * TOKEN_BYTES_EXPECTED + 1);
}

static bool append_text(hth_reply *reply, const char *text, size_t n)
{
    hth_counted_result *result = reply->result;

    if (!grow_text(reply, result->shown.n_bytes + n + 1))
        return false;
    memcpy(result->text + result->shown.n_bytes, text, n);
    result->shown.n_bytes += n;
    result->text[result->shown.n_bytes] = '\0';
    return true;
}

/* ---- the end ---- */

void hth_reply_end(hth_reply *reply, hearth_status status, hearth_finish_reason reason)
{
    if (reply->ended)
        return;
    reply->ended = true;
    reply->result->shown.status = status;
    reply->result->shown.error.status = status;
    reply->result->shown.finish_reason = reason;
}

static void end_without_memory(hth_reply *reply)
{
    (void)hth_fail(&reply->result->shown.error, HEARTH_NO_MEMORY, "no memory for the reply");
    hth_reply_end(reply, HEARTH_NO_MEMORY, HEARTH_FINISH_NONE);
}

static void end_refused(hth_reply *reply)
{
    reply->refused = true;
    reply->was_whole = false;
    (void)hth_fail(&reply->result->shown.error, HEARTH_CANCELLED, "the request was cancelled by its reader");
    hth_reply_end(reply, HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED);
}

/* Deliver text with on_text. False when the reply has ended. */
static bool tell_text(hth_reply *reply, const char *text, size_t n)
{
    const hth_request *request = reply->request;

    if (n > 0 && request->options.on_text &&
        !request->options.on_text(request->id, text, n, request->options.user_data))
        end_refused(reply);
    return !reply->ended;
}

void hth_reply_flush(hth_reply *reply)
{
    const hth_request *request = reply->request;
    const char *text = "";
    size_t n = 0;

    if (reply->refused) /* the reader does not want held text either */
        return;
    if (hth_text_stream_finish(reply->text, &text, &n) && (n == 0 || append_text(reply, text, n))) {
        if (n > 0 && request->options.on_text)
            (void)request->options.on_text(request->id, text, n,
                                           request->options.user_data); /* the reply has ended anyway */
    } else if (reply->result->shown.status == HEARTH_OK) {
        reply->ended = false; /* ended well so far */
        end_without_memory(reply);
    }
}

/* ---- tokens ---- */

static bool is_among(hearth_token token, const hearth_token *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tokens[i] == token)
            return true;
    return false;
}

static bool append_token(hth_reply *reply, hearth_token token, const float *logits)
{
    hth_counted_result *result = reply->result;
    uint32_t n = result->stats.completion_tokens;
    size_t n_each = 1 + result->shown.n_top_logprobs;

    if (!grow_tokens(reply, (size_t)n + 1)) {
        end_without_memory(reply);
        return false;
    }
    result->tokens[n] = token;
    if (reply->request->options.logprobs && logits && !reply->request->options.logprobs_after_sampling)
        hth_logprobs(logits, reply->place->n_vocab, token, result->shown.n_top_logprobs, result->logprobs + n * n_each);
    else if (reply->request->options.logprobs && !logits)
        for (size_t i = 0; i < n_each; i++) /* unknown for a replayed token */
            result->logprobs[n * n_each + i] = (hearth_logprob){ .token = i == 0 ? token : -1, .logprob = NAN };
    result->stats.completion_tokens++;
    return true;
}

/*
 * Deliver token index and the text that it released with on_token; without on_token, deliver the text with on_text.
 * False when that ended the reply.
 */
static bool announce(hth_reply *reply, uint32_t index, bool is_replayed, const char *text, size_t n_text)
{
    const hth_request *request = reply->request;
    hearth_token_event event = {
        .struct_size = sizeof(event),
        .token = reply->result->tokens[index],
        .index = index,
        .text = n_text > 0 ? text : "",
        .n_bytes = n_text,
        .n_top_logprobs = reply->result->shown.n_top_logprobs,
        .is_replayed = is_replayed,
        .stats = &reply->result->stats,
        .sampler_state = is_replayed ? NAN : reply->result->shown.sampler_state,
    };

    if (!request->options.on_token)
        return tell_text(reply, text, n_text);
    if (request->options.logprobs)
        event.logprobs = reply->result->logprobs + (size_t)index * (1 + event.n_top_logprobs);
    if (request->options.on_token(request->id, &event, request->options.user_data))
        return true;
    end_refused(reply);
    return false;
}

/* Feed the text of a token to the stream. False after a failure, which ends the reply. */
static bool feed(hth_reply *reply, hearth_token token, const char **text_out, size_t *n_out, bool *stopped_out)
{
    char piece[HTH_PIECE_BYTES_MAX];
    size_t n_piece = 0;
    bool is_shown = is_among(token, reply->request->sampling.shown_tokens, reply->request->sampling.n_shown_tokens);
    hearth_status status = reply->place->backend->piece(reply->place->engine_model, token, is_shown, piece,
                                                        sizeof(piece), &n_piece, &reply->result->shown.error);

    if (status != HEARTH_OK)
        hth_reply_end(reply, status, HEARTH_FINISH_NONE);
    else if (!hth_text_stream_feed(reply->text, piece, n_piece, text_out, n_out, stopped_out))
        end_without_memory(reply);
    return !reply->ended;
}

/* Note the times of the first two drawn tokens, and of the latest one. */
static void note_token_time(hth_reply *reply)
{
    hearth_stats *stats = &reply->result->stats;
    uint64_t now = hth_workplace_now(reply->place);

    if (!reply->first_token_ns) {
        reply->first_token_ns = now;
        stats->ttft_ms = hth_ms_between(reply->request->submitted_ns, now);
    } else if (stats->second_token_ms == 0) {
        stats->second_token_ms = hth_ms_between(reply->request->submitted_ns, now);
    }
    stats->decode_ms = hth_ms_between(reply->first_token_ns, now);
}

/* Was the latest token, with this index, the last one that a verification request asks for? */
static bool is_verified(const hth_request *request, uint32_t index, hearth_token token)
{
    return request->options.verify &&
           (index >= request->options.n_draft_tokens || request->options.draft_tokens[index] != token);
}

/* Append a token, deliver the text that it releases, and end the reply if necessary. True while the reply continues. */
static bool take_token(hth_reply *reply, hearth_token token, const float *logits)
{
    const hth_request *request = reply->request;
    bool ends = is_among(token, request->options.stop_tokens, request->options.n_stop_tokens) ||
                ((!request->options.ignore_eos || reply->has_grammar) &&
                 reply->place->backend->is_end(reply->place->engine_model, token));
    const char *text = "";
    size_t n_text = 0;
    bool stopped = false;

    if (!append_token(reply, token, logits) || (!ends && !feed(reply, token, &text, &n_text, &stopped)))
        return false;
    if (!reply->is_silent)
        note_token_time(reply);
    if (reply->pieces && reply->is_silent)
        reply->pieces[reply->n_pieces++] = (uint32_t)n_text;
    if (n_text > 0 && !append_text(reply, text, n_text)) {
        end_without_memory(reply);
        return false;
    }
    if (!reply->is_silent && !announce(reply, reply->result->stats.completion_tokens - 1, false, text, n_text))
        return false;
    if (stopped)
        reply->result->shown.stop_number = (uint32_t)hth_text_stream_stop(reply->text) + 1; /* there are few */
    if (ends || stopped)
        hth_reply_end(reply, HEARTH_OK, HEARTH_FINISH_STOP);
    else if (reply->result->stats.completion_tokens >= reply->n_max ||
             is_verified(request, reply->result->stats.completion_tokens - 1, token))
        hth_reply_end(reply, HEARTH_OK, HEARTH_FINISH_LENGTH);
    return !reply->ended;
}

/* Call it before the sampler accepts the token, which invalidates the candidates. */
static void note_candidates(hth_reply *reply, const hth_candidate *candidates, size_t n_candidates, hearth_token token)
{
    uint32_t n = reply->result->stats.completion_tokens, n_top = reply->result->shown.n_top_logprobs;

    if (grow_tokens(reply, (size_t)n + 1)) /* if this fails, so does taking the token */
        hth_logprobs_of_candidates(candidates, n_candidates, token, n_top,
                                   reply->result->logprobs + (size_t)n * (1 + n_top));
}

bool hth_reply_draw(hth_reply *reply, const float *logits)
{
    const hth_backend *backend = reply->place->backend;
    const hth_request *request = reply->request;
    uint32_t n = reply->result->stats.completion_tokens;
    hth_sample_at at = {
        .position = (uint64_t)request->n_prompt + n,
        .forbids_end = n < request->options.min_tokens || (request->options.ignore_eos && reply->has_grammar),
    };
    const hth_candidate *candidates;
    size_t n_candidates;
    hearth_token token = 0;
    float state;
    hearth_status status =
        backend->sampler_apply(reply->sampler, logits, &at, &candidates, &n_candidates, &reply->result->shown.error);

    if (status == HEARTH_OK) {
        token = hth_draw_token(candidates, n_candidates, request->sampling.seed, at.position);
        if (request->options.logprobs_after_sampling)
            note_candidates(reply, candidates, n_candidates, token);
        status = backend->sampler_accept(reply->sampler, token, true, &reply->result->shown.error);
        if (backend->sampler_state(reply->sampler, &state))
            reply->result->shown.sampler_state = state;
    }
    if (status != HEARTH_OK) {
        hth_reply_end(reply, status, HEARTH_FINISH_NONE);
        return false;
    }
    return take_token(reply, token, logits);
}

/* ---- the beginning ---- */

/* Append a piece of the prompt's text, and deliver it. */
static void echo_piece(hth_reply *reply, const char *text, size_t n)
{
    if (reply->pieces && n > 0)
        reply->pieces[reply->n_pieces++] = (uint32_t)n;
    if (n > 0 && !append_text(reply, text, n))
        end_without_memory(reply);
    else if (!reply->is_silent)
        (void)tell_text(reply, text, n); /* the caller checks whether the reply has ended */
}

/* The text of one token of the prompt. */
static void echo_token(hth_reply *reply, hearth_token token)
{
    char piece[HTH_PIECE_BYTES_MAX];
    const char *text = "";
    size_t n_piece = 0, n = 0;
    bool stopped;

    if (reply->place->backend->piece(reply->place->engine_model, token, false, piece, sizeof(piece), &n_piece, NULL) !=
        HEARTH_OK)
        return; /* impossible: longer than any token's text */
    if (!hth_text_stream_feed(reply->echo, piece, n_piece, &text, &n, &stopped))
        end_without_memory(reply);
    else
        echo_piece(reply, text, n);
}

/* Echo at most n more tokens of the prompt; the last one also releases the held text. Returns how many. */
static uint32_t echo_some(hth_reply *reply, uint32_t n)
{
    const hth_request *request = reply->request;
    uint32_t n_before = reply->n_prompt_delivered;
    const char *text = "";
    size_t n_left = 0;

    if (!reply->echo)
        reply->echo = hth_text_stream_new(NULL, 0); /* without stop texts, which do not apply to the prompt */
    if (!reply->echo)
        end_without_memory(reply);
    while (!reply->ended && reply->n_prompt_delivered < request->n_prompt && reply->n_prompt_delivered - n_before < n)
        echo_token(reply, request->prompt[reply->n_prompt_delivered++]);
    reply->is_delivered = reply->ended || reply->n_prompt_delivered == request->n_prompt;
    if (!reply->ended && reply->is_delivered) {
        if (!hth_text_stream_finish(reply->echo, &text, &n_left))
            end_without_memory(reply);
        else
            echo_piece(reply, text, n_left);
    }
    return reply->n_prompt_delivered - n_before;
}

/* Deliver at most n more pieces of the replay; returns how many. */
static uint32_t tell_some(hth_reply *reply, uint32_t n)
{
    uint32_t n_before = reply->n_pieces_delivered;

    while (!reply->refused && reply->n_pieces_delivered < reply->n_pieces && reply->n_pieces_delivered - n_before < n) {
        uint32_t i = reply->n_pieces_delivered++, n_bytes = reply->pieces[i];
        char *text = reply->result->text + reply->n_bytes_delivered;
        char after = text[n_bytes];

        text[n_bytes] = '\0'; /* callbacks get terminated text */
        if (i < reply->n_echoed)
            (void)tell_text(reply, text, n_bytes);
        else
            (void)announce(reply, i - reply->n_echoed, true, text, n_bytes);
        text[n_bytes] = after;
        reply->n_bytes_delivered += n_bytes;
    }
    reply->is_delivered = reply->refused || reply->n_pieces_delivered == reply->n_pieces;
    return reply->n_pieces_delivered - n_before;
}

uint32_t hth_reply_tell(hth_reply *reply, uint32_t n)
{
    if (reply->is_delivered)
        return 0;
    if (reply->pieces)
        return tell_some(reply, n);
    if (reply->request->options.echo && reply->request->options.n_replayed == 0)
        return echo_some(reply, n);
    reply->is_delivered = true;
    return 0;
}

/* Make the sampler and feed it the last tokens of the prompt. */
static hearth_status make_sampler(hth_reply *reply, const hearth_sampling *sampling, const hth_reply *like,
                                  hearth_error *err)
{
    const hth_backend *backend = reply->place->backend;
    const hth_request *request = reply->request;
    uint32_t n_recent = sampling->repeat_last_n;
    hearth_status status = like ? backend->sampler_new_like(like->sampler, sampling, &reply->sampler, err)
                                : backend->sampler_new(reply->place->engine_model, sampling, &reply->sampler, err);

    if (hth_sampling_has_dry(sampling) && sampling->dry_last_n > n_recent)
        n_recent = sampling->dry_last_n;
    if (n_recent > request->n_prompt)
        n_recent = request->n_prompt;
    for (uint32_t i = request->n_prompt - n_recent; status == HEARTH_OK && i < request->n_prompt; i++)
        status = backend->sampler_accept(reply->sampler, request->prompt[i], false, err);
    return status;
}

/* After the replayed tokens: restore the state that does not follow from the tokens. */
static hearth_status continue_sampler(hth_reply *reply, hearth_error *err)
{
    const hth_request *request = reply->request;
    float state;

    if (!reply->place->backend->sampler_state(reply->sampler, &state))
        return HEARTH_OK;
    if (isnan(request->options.replayed_state))
        return hth_fail(err, HEARTH_MISUSE,
                        "the %zu replayed tokens were drawn with %s, whose state they do not tell; set replayed_state "
                        "to the sampler_state of the last of them",
                        request->options.n_replayed, request->sampling.mirostat != 0 ? "mirostat" : "adaptive_target");
    reply->place->backend->sampler_set_state(reply->sampler, request->options.replayed_state);
    reply->result->shown.sampler_state = request->options.replayed_state;
    return HEARTH_OK;
}

static hearth_status replay(hth_reply *reply, hearth_error *err)
{
    const hth_request *request = reply->request;
    hearth_status status;

    if (request->options.n_replayed == 0)
        return HEARTH_OK;
    if (request->options.tell_replayed) {
        reply->pieces =
            calloc(request->options.n_replayed + (request->options.echo ? (size_t)request->n_prompt + 1 : 0),
                   sizeof(*reply->pieces));
        if (!reply->pieces)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu replayed tokens", request->options.n_replayed);
    }
    reply->is_silent = true;
    if (request->options.echo)
        (void)echo_some(reply, request->n_prompt); /* the loop below reports an end */
    reply->is_delivered = false;
    reply->n_echoed = reply->n_pieces;
    for (uint32_t i = 0; i < request->options.n_replayed; i++) {
        hearth_token token = request->options.replayed[i];

        if (token < 0 || (uint32_t)token >= reply->place->n_vocab)
            return hth_fail(err, HEARTH_MISUSE, "replayed token %u is %d; this model has tokens 0 to %u", i, token,
                            reply->place->n_vocab - 1);
        status = reply->place->backend->sampler_accept(reply->sampler, token, true, err);
        if (status == HEARTH_MISUSE)
            return hth_fail(err, HEARTH_MISUSE, "replayed token %u is %d, which the request's grammar forbids there", i,
                            token);
        if (status != HEARTH_OK)
            return status;
        if (take_token(reply, token, NULL))
            continue;
        reply->was_whole = request->options.tell_replayed && i + 1 == request->options.n_replayed &&
                           reply->result->shown.status == HEARTH_OK;
        if (!reply->was_whole)
            return hth_fail(err, reply->result->shown.status == HEARTH_OK ? HEARTH_MISUSE : reply->result->shown.status,
                            "the reply has ended with replayed token %u; there is nothing to go on with", i);
    }
    reply->is_silent = false;
    return reply->was_whole ? HEARTH_OK : continue_sampler(reply, err);
}

hearth_status hth_reply_new(const hth_workplace *workplace, hth_request *request, const hearth_sampling *sampling,
                            const hth_reply *like, hth_reply **out, hearth_error *err)
{
    hth_reply *reply = calloc(1, sizeof(*reply));
    uint32_t room = workplace->n_ctx - request->n_prompt + 1; /* nothing is evaluated after the last token */
    hearth_status status;

    assert(request->n_prompt <= workplace->n_ctx);
    if (!reply || !(reply->result = hth_counted_result_new())) {
        free(reply);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to run a request");
    }
    reply->place = workplace;
    reply->request = request;
    reply->has_grammar = sampling->grammar || sampling->json_schema;
    reply->n_max = request->options.n_predict < 0 || (uint32_t)request->options.n_predict > room
                     ? room
                     : (uint32_t)request->options.n_predict;
    reply->result->shown.n_top_logprobs = request->options.n_top_logprobs;
    reply->result->stats.prompt_tokens = request->n_prompt;
    reply->result->stats.history_tokens = request->text ? request->text->n_known : 0;
    reply->result->shown.prompt = request->prompt;
    reply->result->shown.seed = request->sampling.seed;
    reply->result->shown.sampler_state = NAN;
    reply->text = hth_text_stream_new(request->options.stop, request->options.n_stop);
    if (!reply->text || !append_text(reply, "", 0)) { /* an empty reply has an empty text, not NULL */
        discard(reply);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to run a request");
    }
    status = make_sampler(reply, sampling, like, err);
    if (status == HEARTH_OK)
        status = replay(reply, err);
    if (status != HEARTH_OK) {
        discard(reply);
        return status;
    }
    *out = reply;
    return HEARTH_OK;
}
