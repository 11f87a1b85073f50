/*
 * openai_reply.c - chat.completion and text_completion, each as a stream of chunks or as a body
 */
#include <math.h>

#include "api/sse.h"
#include "api/writer.h"
#include "dialects/kinds.h"

static const char *finish_reason(const hth_api_reply *reply, const hth_api_choice *choice)
{
    if (choice->finish != HEARTH_FINISH_STOP)
        return "length";
    if (choice->n_calls == 0)
        return "stop";
    return reply->request->calls_are_functions ? "function_call" : "tool_calls";
}

/* The members that every object begins with. chat_object: the type of the object in a chat. */
static json_t *envelope(const hth_api_reply *reply, const char *chat_object)
{
    const bool is_chat = reply->request->kind == HTH_API_CHAT;

    return json_pack("{s:s+, s:s, s:I, s:s, s:s}", "id", is_chat ? "chatcmpl-" : "cmpl-", reply->id, "object",
                     is_chat ? chat_object : "text_completion", "created", reply->created_s, "model", reply->model,
                     "system_fingerprint", "hearth-" HEARTH_VERSION);
}

static bool is_verbose(const hth_api_reply *reply)
{
    return reply->request->is_verbose && reply->n_choices == 1;
}

/* The last object of a reply with one choice has llama.cpp's `timings`. */
static void add_timings(const hth_api_reply *reply, json_t *to)
{
    if (reply->n_choices == 1)
        hth_api_put_timings(to, &reply->choices[0].stats);
}

/* ---- the stream ---- */

/* A chunk with one choice; takes it. */
static json_t *chunk_take(const hth_api_reply *reply, json_t *choice)
{
    json_t *chunk = envelope(reply, "chat.completion.chunk");

    json_object_set_new(chunk, "choices", json_pack("[o]", choice));
    if (reply->request->include_usage)
        json_object_set_new(chunk, "usage", json_null());
    return chunk;
}

/* Write a chunk with text of a choice; takes it. It has `timings` if the client asked for them per token. */
static void put_delta_take(const hth_api_reply *reply, const hth_api_choice *choice, json_t *chunk, hth_buffer *out)
{
    if (reply->request->wants_timings && reply->n_choices == 1)
        hth_api_put_timings_so_far(chunk, choice);
    hth_sse_add_take(out, NULL, chunk);
}

/* Write the chunk that ends a choice; takes it. It has `__verbose` if the client asked for it. */
static void put_choice_end_take(hth_api_reply *reply, json_t *chunk, hth_buffer *out)
{
    if (is_verbose(reply))
        json_object_set_new(chunk, "__verbose", hth_api_native_final(reply, &reply->choices[0], false));
    if (!reply->request->include_usage) /* otherwise a chunk follows */
        add_timings(reply, chunk);
    hth_sse_add_take(out, NULL, chunk);
}

static void put_end(hth_api_reply *reply, hth_buffer *out)
{
    if (reply->request->include_usage) {
        json_t *chunk = envelope(reply, "chat.completion.chunk");

        json_object_set_new(chunk, "choices", json_array());
        json_object_set_new(chunk, "usage", hth_api_usage_openai(reply));
        add_timings(reply, chunk);
        hth_sse_add_take(out, NULL, chunk);
    }
    hth_sse_add_done(out);
}

/* ---- all at once ---- */

static void put_body_begin(hth_api_reply *reply, hth_buffer *out)
{
    hth_api_add_open_take(out, envelope(reply, "chat.completion"));
    hth_buffer_add_text(out, ",\"choices\":[");
}

/* Begin a choice: takes the members before "logprobs". */
static void put_choice_begin_take(json_t *choice, hth_buffer *out)
{
    hth_api_add_open_take(out, choice);
    hth_buffer_add_text(out, ",\"logprobs\":");
}

static void put_choice_body_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    if (!hth_api_has_lists(reply))
        hth_buffer_add_text(out, "null");
    hth_buffer_add_format(out, ",\"finish_reason\":\"%s\"}", finish_reason(reply, choice));
}

static void put_body_end(hth_api_reply *reply, hth_buffer *out)
{
    hth_buffer_add_text(out, "],\"usage\":");
    hth_buffer_add_json_take(out, hth_api_usage_openai(reply));
    if (reply->n_choices == 1) {
        hth_buffer_add_text(out, ",\"timings\":");
        hth_buffer_add_json_take(out, hth_api_timings(&reply->choices[0].stats));
        hth_buffer_add_text(out, ",\"cache\":");
        hth_buffer_add_json_take(out, hth_api_cache(&reply->choices[0].stats));
    }
    if (is_verbose(reply)) {
        hth_buffer_add_text(out, ",\"__verbose\":");
        hth_buffer_add_json_take(out, hth_api_native_final(reply, &reply->choices[0], true));
    }
    hth_buffer_add_text(out, "}");
}

/* ---- chats: log probabilities ---- */

static json_t *chat_logprob_json(hth_api_reply *reply, const hearth_logprob *from)
{
    return hth_api_text_logprob(reply, from, json_null());
}

static json_t *entry_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i)
{
    return hth_api_logprob_entry(reply, choice, i, chat_logprob_json, "top_logprobs");
}

/* Take the pending log probabilities, or null. */
static json_t *take_chat_logprobs(hth_api_reply *reply, hth_api_choice *choice)
{
    json_t *content;

    if (choice->pending.n == 0)
        return json_null();
    content = hth_api_logprob_entries(reply, choice, 0, choice->pending.n, entry_json);
    choice->pending.n = 0;
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}

/* ---- chats: the stream ---- */

/* A chunk with one choice; takes delta and logprobs. */
static json_t *chat_chunk_take(const hth_api_reply *reply, const hth_api_choice *choice, json_t *delta,
                               json_t *logprobs, const char *reason)
{
    return chunk_take(reply, json_pack("{s:I, s:o, s:o, s:s?}", "index", (json_int_t)choice->index, "delta", delta,
                                       "logprobs", logprobs, "finish_reason", reason));
}

/* In llama.cpp's form. */
static void put_chat_progress(hth_api_reply *reply, hth_api_choice *choice, json_t *progress, hth_buffer *out)
{
    json_t *chunk =
        chat_chunk_take(reply, choice, json_pack("{s:s, s:n}", "role", "assistant", "content"), json_null(), NULL);

    json_object_set_new(chunk, "prompt_progress", progress);
    put_delta_take(reply, choice, chunk, out);
}

static void begin_chat(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    if (choice->has_begun)
        return;
    choice->has_begun = true;
    /* Log probabilities belong to the text that follows. */
    hth_sse_add_take(
        out, NULL,
        chat_chunk_take(reply, choice, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), json_null(), NULL));
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

static void put_chat_delta(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta,
                           hth_buffer *out)
{
    json_t *said;

    begin_chat(reply, choice, out);
    if (delta->kind == HEARTH_DELTA_CONTENT)
        said = json_pack("{s:s%}", "content", delta->text, delta->n_bytes);
    else if (delta->kind == HEARTH_DELTA_REASONING)
        said = json_pack("{s:s%}", "reasoning_content", delta->text, delta->n_bytes);
    else
        said = call_delta(reply, choice, delta);
    put_delta_take(reply, choice, chat_chunk_take(reply, choice, said, take_chat_logprobs(reply, choice), NULL), out);
}

static void put_chat_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    begin_chat(reply, choice, out);
    put_choice_end_take(
        reply,
        chat_chunk_take(reply, choice, json_object(), take_chat_logprobs(reply, choice), finish_reason(reply, choice)),
        out);
}

/* ---- chats: all at once ---- */

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

static void put_chat_choice(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    put_choice_begin_take(
        json_pack("{s:I, s:o}", "index", (json_int_t)choice->index, "message", message_json(reply, choice)), out);
}

static const hth_api_list chat_lists[] = { { "{\"content\":[", entry_json, "],\"refusal\":null}" } };

const hth_api_writer hth_api_write_chat = {
    .begin = begin_chat,
    .progress = put_chat_progress,
    .delta = put_chat_delta,
    .choice_end = put_chat_choice_end,
    .end = put_end,
    .body_begin = put_body_begin,
    .choice_body = put_chat_choice,
    .lists = chat_lists,
    .n_lists = sizeof(chat_lists) / sizeof(chat_lists[0]),
    .choice_body_end = put_choice_body_end,
    .body_end = put_body_end,
};

/* ---- completions: log probabilities, four arrays side by side ---- */

static json_t *token_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i)
{
    return hth_api_token_text(reply, choice->pending.list[i].id, NULL);
}

static json_t *logprob_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i)
{
    (void)reply;
    return hth_api_logprob(hth_api_tokens_logprobs(&choice->pending, i)[0].logprob);
}

static json_t *top_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i)
{
    const hearth_logprob *logprobs = hth_api_tokens_logprobs(&choice->pending, i);
    json_t *top;

    if (isnan(logprobs[0].logprob))
        return json_null(); /* the first token has no probability */
    top = json_object();
    for (size_t k = 1; k < choice->pending.n_each && logprobs[k].token >= 0; k++) {
        json_t *name = hth_api_token_text(reply, logprobs[k].token, NULL);

        /* Likelier tokens come first: of tokens with the same text, the likeliest is kept. */
        if (!json_object_get(top, json_string_value(name)))
            json_object_set_new(top, json_string_value(name), hth_api_logprob(logprobs[k].logprob));
        json_decref(name);
    }
    return top;
}

static json_t *offset_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i)
{
    (void)reply;
    return json_integer((json_int_t)choice->pending.list[i].text_begin);
}

static const hth_api_list lists[] = {
    { "{\"tokens\":[", token_json, "]" },
    { ",\"token_logprobs\":[", logprob_json, "]" },
    { ",\"top_logprobs\":[", top_json, "]" },
    { ",\"text_offset\":[", offset_json, "]}" },
};

/* Take the pending log probabilities, or null. */
static json_t *take_logprobs(hth_api_reply *reply, hth_api_choice *choice)
{
    size_t n = choice->pending.n;
    json_t *logprobs;

    if (n == 0)
        return json_null();
    logprobs = json_pack("{s:o, s:o, s:o, s:o}", "tokens", hth_api_logprob_entries(reply, choice, 0, n, token_json),
                         "token_logprobs", hth_api_logprob_entries(reply, choice, 0, n, logprob_json), "top_logprobs",
                         hth_api_logprob_entries(reply, choice, 0, n, top_json), "text_offset",
                         hth_api_logprob_entries(reply, choice, 0, n, offset_json));
    choice->pending.n = 0;
    return logprobs;
}

/* ---- completions: stream and body ---- */

static json_t *text_chunk(hth_api_reply *reply, hth_api_choice *choice, const char *text, size_t n, const char *reason)
{
    return chunk_take(reply, json_pack("{s:I, s:s%, s:o, s:s?}", "index", (json_int_t)choice->index, "text", text, n,
                                       "logprobs", take_logprobs(reply, choice), "finish_reason", reason));
}

/* In llama.cpp's form. */
static void put_progress(hth_api_reply *reply, hth_api_choice *choice, json_t *progress, hth_buffer *out)
{
    json_t *chunk = text_chunk(reply, choice, "", 0, NULL);

    json_object_set_new(chunk, "prompt_progress", progress);
    put_delta_take(reply, choice, chunk, out);
}

static void put_delta(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta, hth_buffer *out)
{
    put_delta_take(reply, choice, text_chunk(reply, choice, delta->text, delta->n_bytes, NULL), out);
}

static void put_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    put_choice_end_take(reply, text_chunk(reply, choice, "", 0, finish_reason(reply, choice)), out);
}

static void put_choice(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    (void)reply;
    put_choice_begin_take(json_pack("{s:I, s:s%}", "index", (json_int_t)choice->index, "text",
                                    hth_buffer_text(&choice->content), choice->content.n),
                          out);
}

const hth_api_writer hth_api_write_completion = {
    .progress = put_progress,
    .delta = put_delta,
    .choice_end = put_choice_end,
    .end = put_end,
    .body_begin = put_body_begin,
    .choice_body = put_choice,
    .lists = lists,
    .n_lists = sizeof(lists) / sizeof(lists[0]),
    .choice_body_end = put_choice_body_end,
    .body_end = put_body_end,
};
