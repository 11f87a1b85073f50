/*
 * native_reply.c - the replies of /completion
 */
#include <math.h>
#include <string.h>

#include "api/json_values.h"
#include "api/model_pages.h"
#include "api/sse.h"
#include "api/writer.h"
#include "dialects/kinds.h"

/* After sampling: a probability, under another name. */
static json_t *logprob_json(hth_api_reply *reply, const hearth_logprob *from)
{
    const bool is_sampled = reply->request->options.logprobs_after_sampling;

    return json_pack("{s:i, s:o, s:o, s:o}", "id", from->token, "token", hth_api_token_text(reply, from->token, NULL),
                     "bytes", hth_api_token_bytes(reply->hearth, from->token), is_sampled ? "prob" : "logprob",
                     is_sampled ? json_real(exp((double)from->logprob)) : hth_api_logprob(from->logprob));
}

/* After sampling there may be fewer candidates than requested. */
static json_t *entry_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i)
{
    return hth_api_logprob_entry(reply, choice, i, logprob_json,
                                 reply->request->options.logprobs_after_sampling ? "top_probs" : "top_logprobs");
}

static const char *stop_type(const hth_api_choice *choice)
{
    return choice->finish != HEARTH_FINISH_STOP ? "limit" : choice->stop_text ? "word" : "eos";
}

/* Move the pending log probabilities into this event. */
static void take_tokens(hth_api_reply *reply, hth_api_choice *choice, json_t *to)
{
    if (reply->request->options.logprobs)
        json_object_set_new(to, "completion_probabilities",
                            hth_api_logprob_entries(reply, choice, 0, choice->pending.n, entry_json));
    choice->pending.n = 0;
}

static json_t *event_json(const hth_api_reply *reply, const hth_api_choice *choice, const char *text, size_t n,
                          json_t *ids_take)
{
    return json_pack("{s:I, s:s%, s:o, s:b, s:I, s:I, s:I}", "index", (json_int_t)choice->index, "content", text, n,
                     "tokens", ids_take, "stop", false, "id_slot", (json_int_t)reply->slot, "tokens_predicted",
                     (json_int_t)choice->n_tokens, "tokens_evaluated", (json_int_t)choice->n_prompt);
}

static void put_delta(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta, hth_buffer *out)
{
    json_t *event = event_json(reply, choice, delta->text, delta->n_bytes, hth_api_tokens_ids(&choice->pending));

    take_tokens(reply, choice, event);
    if (reply->request->wants_timings) /* the timings so far */
        hth_api_put_timings_so_far(event, choice);
    hth_sse_add_take(out, NULL, event);
}

static void put_progress(hth_api_reply *reply, hth_api_choice *choice, json_t *progress, hth_buffer *out)
{
    json_t *event = event_json(reply, choice, "", 0, json_array());

    json_object_set_new(event, "prompt_progress", progress);
    if (reply->request->wants_timings)
        hth_api_put_timings_so_far(event, choice);
    hth_sse_add_take(out, NULL, event);
}

/* The index of the prompt that a choice replies to. */
static size_t prompt_of(const hth_api_reply *reply, const hth_api_choice *choice)
{
    return choice->index / reply->request->options.n;
}

/* The client's prompt if it was text, or the text of a conversation's prompt. */
static json_t *prompt_json(const hth_api_reply *reply, const hth_api_choice *choice)
{
    size_t i = prompt_of(reply, choice);
    const hearth_request *asked = &reply->prepared->requests[i];
    const hth_api_text_prompt *prompt = reply->request->is_chat ? NULL : &reply->request->prompts[i];
    char *text = NULL;
    size_t n = 0;
    json_t *json;

    if (prompt)
        return json_string(prompt->n_pieces == 1 && prompt->pieces[0].text ? prompt->pieces[0].text : "");
    if (hearth_detokenize(reply->hearth, asked->tokens, asked->n_tokens, true, &text, &n, NULL) != HEARTH_OK)
        return json_string("");
    json = json_stringn(text, n);
    hearth_free(text);
    return json ? json : json_string("");
}

json_t *hth_api_native_final(hth_api_reply *reply, hth_api_choice *choice, bool has_content)
{
    const hearth_stats *stats = &choice->stats;
    const char *content = hth_buffer_text(&choice->content);
    /* In a stream the pending ones, otherwise all of them if the client wants them. */
    const bool has_ids = reply->request->stream || reply->request->wants_tokens;
    json_t *body = json_pack(
        "{s:I, s:s%, s:o, s:I, s:b, s:s, s:I, s:I, s:I, s:o, s:o, s:b, s:b, s:s, s:s}", "index",
        (json_int_t)choice->index, "content", content, has_content ? choice->content.n : (size_t)0, "tokens",
        has_ids ? hth_api_tokens_ids(&choice->pending) : json_array(), "id_slot", (json_int_t)reply->slot, "stop", true,
        "model", reply->model, "tokens_predicted", (json_int_t)stats->completion_tokens, "tokens_evaluated",
        (json_int_t)stats->prompt_tokens, "tokens_cached", (json_int_t)stats->finish_tokens, "generation_settings",
        hth_api_native_settings(&reply->prepared->requests[prompt_of(reply, choice)], reply->request), "prompt",
        prompt_json(reply, choice), "has_new_line", memchr(content, '\n', choice->content.n) != NULL, "truncated",
        false, "stop_type", stop_type(choice), "stopping_word", choice->stop_text ? choice->stop_text : "");

    hth_api_put_timings(body, stats);
    if (stats->finish_tokens > 0)
        json_object_set_new(body, "finish_key", hth_json_hex(stats->finish_key, sizeof(stats->finish_key)));
    return body;
}

/* The member at a path of names with slashes between them; NULL: none. */
static json_t *member_at(json_t *from, const char *path)
{
    while (from && *path) {
        size_t n = strcspn(path, "/");

        from = json_object_getn(from, path, n);
        path += n;
        path += *path == '/';
    }
    return from;
}

/* Only the members that the client wants, each under its path. Takes body. */
static json_t *selected_take(const hth_api_reply *reply, json_t *body)
{
    const json_t *fields = reply->request->response_fields;
    json_t *selected;

    if (!fields)
        return body;
    selected = json_object();
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const char *path = json_string_value(json_array_get(fields, i));
        json_t *member = member_at(body, path);

        if (member && member != body)
            json_object_set(selected, path, member);
    }
    json_decref(body);
    return selected;
}

static void put_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    json_t *event = hth_api_native_final(reply, choice, false);

    take_tokens(reply, choice, event);
    hth_sse_add_take(out, NULL, selected_take(reply, event));
}

/* ---- all at once ---- */

static void put_body_begin(hth_api_reply *reply, hth_buffer *out)
{
    if (reply->n_choices > 1)
        hth_buffer_add_text(out, "[");
}

static void put_choice_body(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    json_t *body = selected_take(reply, hth_api_native_final(reply, choice, true));
    bool is_empty = json_object_size(body) == 0;

    hth_api_add_open_take(out, body);
    if (!is_empty && hth_api_has_lists(reply))
        hth_buffer_add_text(out, ",");
}

static void put_choice_body_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    (void)reply;
    (void)choice;
    hth_buffer_add_text(out, "}");
}

static void put_body_end(hth_api_reply *reply, hth_buffer *out)
{
    if (reply->n_choices > 1)
        hth_buffer_add_text(out, "]");
}

static const hth_api_list lists[] = { { "\"completion_probabilities\":[", entry_json, "]" } };

const hth_api_writer hth_api_write_native = {
    .progress = put_progress,
    .delta = put_delta,
    .choice_end = put_choice_end,
    .body_begin = put_body_begin,
    .choice_body = put_choice_body,
    .lists = lists,
    .n_lists = sizeof(lists) / sizeof(lists[0]),
    .choice_body_end = put_choice_body_end,
    .body_end = put_body_end,
};
