/*
 * native_reply.c - what /completion answers
 */
#include <string.h>

#include "api/native_settings.h"
#include "api/reply_inside.h"
#include "api/sse.h"
#include "api/usage.h"
#include "base/hash.h"
#include "models/model.h"

/* A token's bytes, which need not be whole characters. */
static json_t *token_bytes(hearth_model *model, hearth_token token)
{
    json_t *bytes = json_array();
    char piece[HTH_PIECE_BYTES_MAX];
    size_t n = 0;

    if (hth_model_piece(model, token, piece, sizeof(piece), &n, NULL) != HEARTH_OK)
        n = 0; /* the token is told without */
    for (size_t i = 0; i < n; i++)
        json_array_append_new(bytes, json_integer((unsigned char)piece[i]));
    return bytes;
}

static void put_logprobs(hth_api_reply *reply, hth_api_choice *choice, const hearth_token_event *event)
{
    json_t *entry = json_object(), *top = json_array();

    for (uint32_t i = 0; i < 1 + event->n_top_logprobs; i++) {
        const hearth_logprob *from = &event->logprobs[i];
        json_t *one = i == 0 ? entry : json_object();
        bool is_whole;

        json_object_set_new(one, "id", json_integer(from->token));
        json_object_set_new(one, "token", hth_api_token_text(reply, from->token, &is_whole));
        json_object_set_new(one, "bytes", token_bytes(reply->hearth, from->token));
        json_object_set_new(one, "logprob", hth_api_logprob(from->logprob));
        if (i > 0)
            json_array_append_new(top, one);
    }
    json_object_set_new(entry, "top_logprobs", top);
    if (!choice->logprobs)
        choice->logprobs = json_array();
    json_array_append_new(choice->logprobs, entry);
}

static json_t *take(json_t **from)
{
    json_t *value = *from;

    *from = NULL;
    return value ? value : json_array();
}

static const char *stop_type(const hth_api_choice *choice)
{
    return choice->finish != HEARTH_FINISH_STOP ? "limit" : choice->stop_text ? "word" : "eos";
}

static void add_logprobs(const hth_api_reply *reply, hth_api_choice *choice, json_t *to)
{
    if (reply->request->options.logprobs)
        json_object_set_new(to, "completion_probabilities", take(&choice->logprobs));
}

static json_t *timings_so_far(const hth_api_choice *choice)
{
    hearth_stats stats = choice->stats;

    if (stats.prompt_tokens == 0) { /* tokens came without */
        stats.prompt_tokens = choice->n_prompt;
        stats.cached_tokens = choice->n_restored;
    }
    stats.completion_tokens = choice->n_tokens;
    return hth_api_timings(&stats);
}

static void put_delta(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta, hth_buffer *out)
{
    json_t *event =
        json_pack("{s:I, s:s%, s:o, s:b, s:i, s:I, s:I}", "index", (json_int_t)choice->index, "content", delta->text,
                  delta->n_bytes, "tokens", take(&choice->tokens), "stop", false, "id_slot", -1, "tokens_predicted",
                  (json_int_t)choice->n_tokens, "tokens_evaluated", (json_int_t)choice->n_prompt);

    add_logprobs(reply, choice, event);
    if (reply->request->wants_timings) /* what is known of them by now */
        json_object_set_new(event, "timings", timings_so_far(choice));
    hth_sse_add_take(out, NULL, event);
}

/* The prompt as it was given, where it was text. */
static const char *prompt_text(const hth_api_reply *reply, const hth_api_choice *choice)
{
    const hth_api_text_prompt *prompt = &reply->request->prompts[choice->index / reply->request->options.n];

    return prompt->n_pieces == 1 && prompt->pieces[0].text ? prompt->pieces[0].text : "";
}

/* has_content: with its text, which of a stream has left already */
static json_t * final(hth_api_reply *reply, hth_api_choice *choice, bool has_content)
{
    const hearth_stats *stats = &choice->stats;
    const char *content = hth_buffer_text(&choice->content);
    json_t *body =
        json_pack("{s:I, s:s%, s:o, s:i, s:b, s:s, s:I, s:I, s:I, s:o, s:s, s:b, s:b, s:s, s:s, s:o}", "index",
                  (json_int_t)choice->index, "content", content, has_content ? choice->content.n : (size_t)0, "tokens",
                  take(&choice->tokens), "id_slot", -1, "stop", true, "model", reply->model, "tokens_predicted",
                  (json_int_t)stats->completion_tokens, "tokens_evaluated", (json_int_t)stats->prompt_tokens,
                  "tokens_cached", (json_int_t)stats->finish_tokens, "generation_settings",
                  hth_api_native_settings(&reply->prepared->requests[choice->index / reply->request->options.n]),
                  "prompt", prompt_text(reply, choice), "has_new_line",
                  memchr(content, '\n', choice->content.n) != NULL, "truncated", false, "stop_type", stop_type(choice),
                  "stopping_word", choice->stop_text ? choice->stop_text : "", "timings", hth_api_timings(stats));

    if (stats->finish_tokens > 0) {
        char key[2 * sizeof(stats->finish_key) + 1];

        hth_hex_encode(stats->finish_key, sizeof(stats->finish_key), key);
        json_object_set_new(body, "finish_key", json_string(key));
    }
    add_logprobs(reply, choice, body);
    return body;
}

static void put_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    hth_sse_add_take(out, NULL, final(reply, choice, false));
}

static void put_end(hth_api_reply *reply, hth_buffer *out)
{
    (void)reply; /* the last choice's event ends llama.cpp's streams */
    (void)out;
}

static json_t *whole(hth_api_reply *reply)
{
    json_t *all;

    if (reply->n_choices == 1)
        return final(reply, &reply->choices[0], true);
    all = json_array();
    for (size_t i = 0; i < reply->n_choices; i++)
        json_array_append_new(all, final(reply, &reply->choices[i], true));
    return all;
}

const hth_api_writer hth_api_write_native = {
    .delta = put_delta,
    .choice_end = put_choice_end,
    .end = put_end,
    .whole = whole,
    .logprobs = put_logprobs,
};
