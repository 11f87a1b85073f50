/*
 * openai_reply.c - chat.completion and chat.completion.chunk
 */
#include <string.h>

#include "api/reply_inside.h"
#include "api/sse.h"
#include "api/usage.h"

static const char *finish_reason(const hth_api_choice *choice)
{
    return choice->finish != HEARTH_FINISH_STOP ? "length" : choice->n_calls > 0 ? "tool_calls" : "stop";
}

/* ---- log probabilities ---- */

static json_t *logprob_entry(hth_api_reply *reply, const hearth_logprob *from)
{
    bool is_whole;
    json_t *text = hth_api_token_text(reply, from->token, &is_whole);
    json_t *bytes = is_whole ? json_array() : json_null();
    const char *at = json_string_value(text);

    for (size_t i = 0; is_whole && i < json_string_length(text); i++)
        json_array_append_new(bytes, json_integer((unsigned char)at[i]));
    return json_pack("{s:o, s:o, s:o}", "token", text, "logprob", hth_api_logprob(from->logprob), "bytes", bytes);
}

static void put_logprobs(hth_api_reply *reply, hth_api_choice *choice, const hearth_token_event *event)
{
    json_t *entry = logprob_entry(reply, &event->logprobs[0]);
    json_t *top = json_array();

    for (uint32_t i = 0; i < event->n_top_logprobs; i++)
        json_array_append_new(top, logprob_entry(reply, &event->logprobs[1 + i]));
    json_object_set_new(entry, "top_logprobs", top);
    if (!choice->logprobs)
        choice->logprobs = json_array();
    json_array_append_new(choice->logprobs, entry);
}

/* The log probabilities that wait, or null. */
static json_t *take_logprobs(hth_api_choice *choice)
{
    json_t *content = choice->logprobs;

    choice->logprobs = NULL;
    return content ? json_pack("{s:o, s:n}", "content", content, "refusal") : json_null();
}

/* ---- the stream ---- */

static json_t *envelope(const hth_api_reply *reply, const char *object)
{
    return json_pack("{s:s+, s:s, s:I, s:s, s:s}", "id", "chatcmpl-", reply->id, "object", object, "created",
                     reply->created_s, "model", reply->model, "system_fingerprint", "hearth-" HEARTH_VERSION);
}

/* A chunk of one choice; takes delta. */
static void put_chunk(const hth_api_reply *reply, hth_api_choice *choice, json_t *delta, const char *reason,
                      hth_buffer *out)
{
    json_t *chunk = envelope(reply, "chat.completion.chunk");

    json_object_set_new(chunk, "choices",
                        json_pack("[{s:I, s:o, s:o, s:s?}]", "index", (json_int_t)choice->index, "delta", delta,
                                  "logprobs", take_logprobs(choice), "finish_reason", reason));
    if (reply->request->include_usage)
        json_object_set_new(chunk, "usage", json_null());
    hth_sse_add_take(out, NULL, chunk);
}

static void begin(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    json_t *waiting = choice->logprobs;

    if (choice->has_begun)
        return;
    choice->has_begun = true;
    choice->logprobs = NULL; /* they belong to the text behind */
    put_chunk(reply, choice, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL, out);
    choice->logprobs = waiting;
}

static json_t *call_delta(const hth_api_choice *choice, const hearth_chat_delta *delta)
{
    const hth_api_call *call = &choice->calls[delta->call];

    if (delta->kind == HEARTH_DELTA_ARGUMENTS)
        return json_pack("{s:[{s:i, s:{s:s%}}]}", "tool_calls", "index", (int)delta->call, "function", "arguments",
                         delta->text, delta->n_bytes);
    return json_pack("{s:[{s:i, s:s, s:s, s:{s:s, s:s}}]}", "tool_calls", "index", (int)delta->call, "id", call->id,
                     "type", "function", "function", "name", call->name, "arguments", "");
}

static void put_delta(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta, hth_buffer *out)
{
    json_t *said;

    begin(reply, choice, out);
    if (delta->kind == HEARTH_DELTA_CONTENT)
        said = json_pack("{s:s%}", "content", delta->text, delta->n_bytes);
    else if (delta->kind == HEARTH_DELTA_REASONING)
        said = json_pack("{s:s%}", "reasoning_content", delta->text, delta->n_bytes);
    else
        said = call_delta(choice, delta);
    put_chunk(reply, choice, said, NULL, out);
}

static void put_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    begin(reply, choice, out);
    put_chunk(reply, choice, json_object(), finish_reason(choice), out);
}

static void put_end(hth_api_reply *reply, hth_buffer *out)
{
    if (reply->request->include_usage) {
        json_t *chunk = envelope(reply, "chat.completion.chunk");

        json_object_set_new(chunk, "choices", json_array());
        json_object_set_new(chunk, "usage", hth_api_usage_openai(reply));
        hth_sse_add_take(out, NULL, chunk);
    }
    hth_sse_add_done(out);
}

/* ---- all at once ---- */

static json_t *calls_json(const hth_api_choice *choice)
{
    json_t *calls = json_array();

    for (size_t i = 0; i < choice->n_calls; i++)
        json_array_append_new(calls,
                              json_pack("{s:s, s:s, s:{s:s, s:s%}}", "id", choice->calls[i].id, "type", "function",
                                        "function", "name", choice->calls[i].name, "arguments",
                                        hth_buffer_text(&choice->calls[i].arguments), choice->calls[i].arguments.n));
    return calls;
}

static json_t *message_json(const hth_api_choice *choice)
{
    json_t *content = choice->n_calls > 0 && choice->content.n == 0
                        ? json_null()
                        : json_stringn(hth_buffer_text(&choice->content), choice->content.n);
    json_t *message = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", content, "refusal");

    if (choice->reasoning.n > 0)
        json_object_set_new(message, "reasoning_content",
                            json_stringn(hth_buffer_text(&choice->reasoning), choice->reasoning.n));
    if (choice->n_calls > 0)
        json_object_set_new(message, "tool_calls", calls_json(choice));
    return message;
}

static json_t *whole(hth_api_reply *reply)
{
    json_t *body = envelope(reply, "chat.completion");
    json_t *choices = json_array();

    for (size_t i = 0; i < reply->n_choices; i++)
        json_array_append_new(choices,
                              json_pack("{s:I, s:o, s:o, s:s}", "index", (json_int_t)i, "message",
                                        message_json(&reply->choices[i]), "logprobs", take_logprobs(&reply->choices[i]),
                                        "finish_reason", finish_reason(&reply->choices[i])));
    json_object_set_new(body, "choices", choices);
    json_object_set_new(body, "usage", hth_api_usage_openai(reply));
    return body;
}

const hth_api_writer hth_api_write_chat = {
    .begin = begin,
    .delta = put_delta,
    .choice_end = put_choice_end,
    .end = put_end,
    .whole = whole,
    .logprobs = put_logprobs,
};
