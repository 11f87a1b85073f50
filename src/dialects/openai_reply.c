/*
 * openai_reply.c - chat.completion and chat.completion.chunk
 */
#include "api/logprobs.h"
#include "api/sse.h"
#include "dialects/kinds.h"
#include "dialects/openai_body.h"

/* ---- log probabilities ---- */

static json_t *logprob_json(hth_api_reply *reply, const hearth_logprob *from)
{
    return hth_api_text_logprob(reply, from, json_null());
}

static json_t *entry_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i)
{
    return hth_api_logprob_entry(reply, choice, i, logprob_json);
}

/* Take the pending log probabilities, or null. */
static json_t *take_logprobs(hth_api_reply *reply, hth_api_choice *choice)
{
    json_t *content;

    if (choice->told.n == 0)
        return json_null();
    content = hth_api_logprob_entries(reply, choice, 0, choice->told.n, entry_json);
    hth_api_told_clear(&choice->told);
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}

/* ---- the stream ---- */

static json_t *envelope(const hth_api_reply *reply, const char *object)
{
    return hth_api_openai_envelope(reply, "chatcmpl-", object);
}

/* A chunk with one choice; takes delta and logprobs. */
static json_t *chunk_json(const hth_api_reply *reply, const hth_api_choice *choice, json_t *delta, json_t *logprobs,
                          const char *reason)
{
    return hth_api_openai_chunk(reply, envelope(reply, "chat.completion.chunk"),
                                json_pack("{s:I, s:o, s:o, s:s?}", "index", (json_int_t)choice->index, "delta", delta,
                                          "logprobs", logprobs, "finish_reason", reason));
}

static void put_chunk(const hth_api_reply *reply, const hth_api_choice *choice, json_t *delta, json_t *logprobs,
                      const char *reason, hth_buffer *out)
{
    hth_sse_add_take(out, NULL, chunk_json(reply, choice, delta, logprobs, reason));
}

/* In llama.cpp's form. */
static void put_progress(hth_api_reply *reply, hth_api_choice *choice, json_t *progress, hth_buffer *out)
{
    json_t *chunk =
        chunk_json(reply, choice, json_pack("{s:s, s:n}", "role", "assistant", "content"), json_null(), NULL);

    json_object_set_new(chunk, "prompt_progress", progress);
    hth_api_openai_put_delta(reply, choice, chunk, out);
}

static void begin(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    if (choice->has_begun)
        return;
    choice->has_begun = true;
    /* Log probabilities belong to the text that follows. */
    put_chunk(reply, choice, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), json_null(), NULL, out);
}

/* OpenAI's older form has only one call. */
static json_t *function_delta(const hth_api_choice *choice, const hearth_chat_delta *delta)
{
    if (delta->call > 0)
        return json_object();
    if (delta->kind == HEARTH_DELTA_ARGUMENTS)
        return json_pack("{s:{s:s%}}", "function_call", "arguments", delta->text, delta->n_bytes);
    return json_pack("{s:{s:s, s:s}}", "function_call", "name", choice->calls[0].name, "arguments", "");
}

static json_t *call_delta(const hth_api_reply *reply, const hth_api_choice *choice, const hearth_chat_delta *delta)
{
    const hth_api_call *call = &choice->calls[delta->call];

    if (reply->request->calls_are_functions)
        return function_delta(choice, delta);
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
        said = call_delta(reply, choice, delta);
    hth_api_openai_put_delta(reply, choice, chunk_json(reply, choice, said, take_logprobs(reply, choice), NULL), out);
}

static void put_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    begin(reply, choice, out);
    hth_api_openai_put_choice_end(reply,
                                  chunk_json(reply, choice, json_object(), take_logprobs(reply, choice),
                                             hth_api_openai_finish_reason(reply, choice)),
                                  out);
}

static void put_end(hth_api_reply *reply, hth_buffer *out)
{
    hth_api_openai_put_end(reply, envelope(reply, "chat.completion.chunk"), out);
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

static json_t *message_json(const hth_api_reply *reply, const hth_api_choice *choice)
{
    json_t *content = choice->n_calls > 0 && choice->content.n == 0
                        ? json_null()
                        : json_stringn(hth_buffer_text(&choice->content), choice->content.n);
    json_t *message = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", content, "refusal");

    if (choice->reasoning.n > 0)
        json_object_set_new(message, "reasoning_content",
                            json_stringn(hth_buffer_text(&choice->reasoning), choice->reasoning.n));
    if (choice->n_calls > 0 && reply->request->calls_are_functions)
        json_object_set_new(message, "function_call",
                            json_pack("{s:s, s:s%}", "name", choice->calls[0].name, "arguments",
                                      hth_buffer_text(&choice->calls[0].arguments), choice->calls[0].arguments.n));
    else if (choice->n_calls > 0)
        json_object_set_new(message, "tool_calls", calls_json(choice));
    return message;
}

static void put_body_begin(hth_api_reply *reply, hth_buffer *out)
{
    hth_api_openai_body_begin_take(envelope(reply, "chat.completion"), out);
}

static void put_choice_body(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    hth_api_openai_choice_begin_take(
        json_pack("{s:I, s:o}", "index", (json_int_t)choice->index, "message", message_json(reply, choice)), out);
}

static const hth_api_list lists[] = { { "{\"content\":[", entry_json, "],\"refusal\":null}" } };

const hth_api_writer hth_api_write_chat = {
    .begin = begin,
    .progress = put_progress,
    .delta = put_delta,
    .choice_end = put_choice_end,
    .end = put_end,
    .body_begin = put_body_begin,
    .choice_body = put_choice_body,
    .lists = lists,
    .n_lists = sizeof(lists) / sizeof(lists[0]),
    .choice_body_end = hth_api_openai_choice_end,
    .body_end = hth_api_openai_body_end,
};
