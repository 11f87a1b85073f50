/*
 * explain.c - the rows that the cache has for a prompt, and the reason for a miss, without running the prompt
 *
 * The caller's thread reads the prompt as hearth_submit does, and looks it up as a sequence does. It ignores cells that
 * are only in the context, because they belong to the scheduler's thread. Each block becomes a row once it is
 * evaluated.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/changing_text.h"
#include "base/controls.h"
#include "base/structs.h"
#include "cache/why.h"
#include "models/model_inside.h"
#include "sched/sequence.h"
#include "sched/text_stream.h"

/* ---- sentences ---- */

typedef struct sentence {
    char *text;
    size_t capacity;
} sentence;

static void say(sentence *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Append. Text that does not fit is truncated at a character boundary. */
static void say(sentence *s, const char *format, ...)
{
    size_t n = strlen(s->text);
    va_list arguments;

    va_start(arguments, format);
    if (vsnprintf(s->text + n, s->capacity - n, format, arguments) >= (int)(s->capacity - n))
        hth_end_at_character(s->text, s->capacity);
    va_end(arguments);
}

/* Append text on one line, in quotes. */
static void say_quoted(sentence *s, const char *text)
{
    size_t n_control = 0; /* remaining bytes of a control character */

    say(s, "'");
    for (size_t n = strlen(text); n > 0; text++, n--) {
        const unsigned char byte = (unsigned char)*text;

        if (n_control == 0)
            n_control = hth_control_bytes(text, n);
        if (byte == '\n')
            say(s, "\\n");
        else if (n_control > 0)
            say(s, "\\x%02x", byte);
        else if (strlen(s->text) + 1 < s->capacity)
            say(s, "%c", byte);
        n_control -= n_control > 0;
    }
    say(s, "'");
}

static void say_time(sentence *s, uint64_t unix_s)
{
    time_t time = (time_t)unix_s;
    char text[32];
    struct tm parts;

    if (unix_s > 0 && localtime_r(&time, &parts) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &parts) > 0)
        say(s, " on %s", text);
}

/* part is the date, path or number that the token belongs to; "": unknown. */
static void say_where_it_left(sentence *s, const hearth_explanation *e, const char *part)
{
    say(s, "; token %" PRIu32 ", ", e->left_at + 1);
    say_quoted(s, e->left_text);
    say(s, ", is where the prompt leaves what was seen before");
    if (!*part)
        return;
    say(s, ", in %s: ", e->left_kind);
    say_quoted(s, part);
}

static void say_reason(sentence *s, const hearth_explanation *e, uint64_t gone_time, bool reads_cache, bool too_short)
{
    switch (e->miss) {
    case HEARTH_MISS_EVICTED:
        say(s, "; %s known and made room for others", e->known_tokens > 0 ? "what follows was" : "they were");
        say_time(s, gone_time);
        break;
    case HEARTH_MISS_DAMAGED:
        say(s, "; a row with %s failed its checks", e->known_tokens > 0 ? "what follows" : "them");
        say_time(s, gone_time);
        break;
    case HEARTH_MISS_BELOW_POLICY:
        if (too_short)
            say(s, "; prompts of this length are not kept (hearth run --policy min_tokens=N)");
        else
            say(s, "; the policy kept no state that what follows could go on from");
        break;
    case HEARTH_MISS_OTHER_ADAPTER: say(s, "; its beginning is known with other adapters or scales"); break;
    case HEARTH_MISS_OTHER_MODEL: say(s, "; its beginning is known of another model file"); break;
    case HEARTH_MISS_OTHER_PARAMETERS:
        say(s, "; its beginning is known under other context parameters or of another engine build");
        break;
    case HEARTH_MISS_OTHER_TENANT: say(s, "; its beginning is known under another cache salt"); break;
    case HEARTH_MISS_NOT_READ:
        say(s, reads_cache ? "; there is no cache, or nothing of this kind of model is cached"
                           : "; the request does not read the cache");
        break;
    default: break;
    }
}

static void fill_detail(hearth_explanation *e, uint64_t gone_time, bool reads_cache, bool too_short, const char *part)
{
    sentence s = { .text = e->detail, .capacity = sizeof(e->detail) };

    if (e->known_tokens >= e->prompt_tokens)
        say(&s, "all %" PRIu32 " tokens are known", e->prompt_tokens);
    else if (e->known_tokens > 0)
        say(&s, "the first %" PRIu32 " of %" PRIu32 " tokens are known", e->known_tokens, e->prompt_tokens);
    else
        say(&s, "none of the %" PRIu32 " tokens are known", e->prompt_tokens);
    if (e->tier != HEARTH_TIER_NONE)
        say(&s, " (%s)", hearth_tier_name(e->tier));
    if (e->known_tokens >= e->prompt_tokens && !e->knows_logits)
        say(&s, "; the scores after the last one are not, so some are evaluated again");
    say_reason(&s, e, gone_time, reads_cache, too_short);
    if (e->left_at > 0 && e->left_at < e->prompt_tokens && !too_short)
        say_where_it_left(&s, e, part);
    else if (e->left_at == 0 && e->miss == HEARTH_MISS_NEVER_SEEN)
        say(&s, "; nothing that begins like it was seen, as far as is remembered");
}

/* ---- the token where the prompt diverged ---- */

enum { TOKENS_AROUND = 24, PART_BYTES = 64 };

/* Find the text that changes each time (a date, say) to which the token belongs, from the tokens around it. */
static void find_part(const hearth_model *model, const hth_model_prompt *prompt, hearth_explanation *e,
                      char part[PART_BYTES])
{
    size_t begin = e->left_at > TOKENS_AROUND ? e->left_at - TOKENS_AROUND : 0, end = e->left_at + TOKENS_AROUND;
    char text[2 * TOKENS_AROUND * HTH_TOKEN_TEXT_BYTES];
    size_t n = 0, token_begin = 0, token_end = 0;
    hth_changing_text found;

    for (size_t i = begin; i < end && i < prompt->n_tokens; i++) {
        hth_token_text(model->backend, model->engine_model, prompt->tokens[i], text + n);
        if (i == e->left_at)
            token_begin = n;
        n += strlen(text + n);
        if (i == e->left_at)
            token_end = n;
    }
    for (size_t at = token_begin; at < token_end; at++)
        if (hth_changing_text_at(text, n, at, &found)) {
            (void)snprintf(e->left_kind, sizeof(e->left_kind), "%s", found.kind); /* fits */
            if (snprintf(part, PART_BYTES, "%.*s", (int)(found.end - found.begin), text + found.begin) >= PART_BYTES)
                hth_end_at_character(part, PART_BYTES);
            return;
        }
}

/* ---- the result ---- */

static hearth_status explain(const hearth_model *model, const hth_model_prompt *prompt, hearth_explanation *out,
                             hearth_error *err)
{
    hth_why_answer why;
    hth_lookup lookup;
    char part[PART_BYTES] = "";
    hearth_status status = hth_prompt_lookup(&model->place, &prompt->keyspace, prompt->tokens, prompt->n_tokens,
                                             !prompt->no_cache_read, &lookup, err);

    if (status != HEARTH_OK)
        return status;
    hth_why_of_all(model->place.cache, &prompt->keyspace, &lookup, &model->place.policy, prompt->tokens,
                   prompt->n_tokens, 0, &why);
    out->prompt_tokens = (uint32_t)prompt->n_tokens;
    out->known_tokens = lookup.n_cached;
    out->history_tokens = (uint32_t)prompt->n_known;
    out->knows_logits = lookup.logits_tier != HEARTH_TIER_NONE;
    out->tier = model->place.cache ? hth_prompt_lookup_tier(&model->place, &lookup) : HEARTH_TIER_NONE;
    out->miss = why.miss;
    if (out->miss == HEARTH_MISS_NONE && out->known_tokens == out->prompt_tokens && !out->knows_logits)
        out->miss = HEARTH_MISS_NO_LOGITS;
    out->left_at = why.left_at;
    hth_lookup_deinit(&lookup);
    static_assert(sizeof(out->left_text) == HTH_TOKEN_TEXT_BYTES, "the public struct has room for the text");
    if (why.left_at < prompt->n_tokens) {
        hth_token_text(model->backend, model->engine_model, prompt->tokens[why.left_at], out->left_text);
        find_part(model, prompt, out, part);
    }
    fill_detail(out, why.gone_time, !prompt->no_cache_read,
                !hth_policy_should_save_prompt((int64_t)prompt->n_tokens, &model->place.policy), part);
    return HEARTH_OK;
}

hearth_status hearth_explain(hearth_model *model, const hearth_request *request, hearth_explanation *explanation,
                             hearth_error *err)
{
    hearth_explanation filled = { .struct_size = sizeof(filled) };
    hth_model_prompt prompt;
    hearth_status status;

    if (!model || !explanation || explanation->struct_size < sizeof(size_t))
        return hth_fail(err, HEARTH_MISUSE,
                        "hearth_explain: set explanation->struct_size to sizeof(hearth_explanation)");
    status = hth_model_prompt_take(model, request, "hearth_explain", &prompt, err);
    if (status != HEARTH_OK)
        return status;
    status = explain(model, &prompt, &filled, err);
    hth_model_prompt_give_back(model, &prompt);
    if (status != HEARTH_OK)
        return status;
    hth_struct_write(explanation, &filled, sizeof(filled));
    return HEARTH_OK;
}
