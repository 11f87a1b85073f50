/*
 * anthropic_reply.c - a message, and its events
 *
 * The content is a list of blocks. In a stream, one block is open at a time; content of another kind closes it.
 */
#include "api/sse.h"
#include "api/writer.h"
#include "dialects/kinds.h"

static const char *stop_reason(const hth_api_choice *choice)
{
    return choice->finish != HEARTH_FINISH_STOP ? "max_tokens"
         : choice->stop_text                    ? "stop_sequence"
         : choice->n_calls > 0                  ? "tool_use"
                                                : "end_turn";
}

/* The edits of the history; NULL if the client did not ask for edits. */
static json_t *edits_json(const hth_api_reply *reply)
{
    const hth_api_edits *edits = &reply->request->edits;
    json_t *applied;

    if (!edits->is_asked)
        return NULL;
    applied = json_array();
    if (edits->cleared_thinking_turns > 0)
        json_array_append_new(applied, json_pack("{s:s, s:I, s:I}", "type", "clear_thinking_20251015",
                                                 "cleared_thinking_turns", (json_int_t)edits->cleared_thinking_turns,
                                                 "cleared_input_tokens", (json_int_t)edits->cleared_thinking_tokens));
    if (edits->cleared_tool_uses > 0)
        json_array_append_new(applied, json_pack("{s:s, s:I, s:I}", "type", "clear_tool_uses_20250919",
                                                 "cleared_tool_uses", (json_int_t)edits->cleared_tool_uses,
                                                 "cleared_input_tokens", (json_int_t)edits->cleared_tool_tokens));
    return json_pack("{s:o}", "applied_edits", applied);
}

static json_t *message_json(const hth_api_reply *reply, json_t *content, const char *reason, const char *stop,
                            json_t *usage)
{
    return json_pack("{s:s+, s:s, s:s, s:s, s:o, s:s?, s:s?, s:o, s:o*}", "id", "msg_", reply->id, "type", "message",
                     "role", "assistant", "model", reply->model, "content", content, "stop_reason", reason,
                     "stop_sequence", stop, "usage", usage, "context_management", reason ? edits_json(reply) : NULL);
}

/* ---- the stream ---- */

static void begin(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    if (choice->has_begun)
        return;
    choice->has_begun = true;
    hth_sse_add_take(out, "message_start",
                     json_pack("{s:s, s:o}", "type", "message_start", "message",
                               message_json(reply, json_array(), NULL, NULL,
                                            hth_api_usage_anthropic(reply, choice->n_prompt, choice->n_restored,
                                                                    choice->n_tokens ? choice->n_tokens : 1))));
}

/*
 * Clients do not count comments or bytes as keep-alives. They wait for the beginning and then for pings, as Anthropic's
 * server sends them.
 */
static void put_idle(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    if (choice->has_begun)
        hth_sse_add_take(out, "ping", json_pack("{s:s}", "type", "ping"));
    else
        begin(reply, choice, out);
}

static void put_block_delta(const hth_api_choice *choice, json_t *delta, hth_buffer *out)
{
    hth_sse_add_take(out, "content_block_delta",
                     json_pack("{s:s, s:I, s:o}", "type", "content_block_delta", "index",
                               (json_int_t)choice->n_blocks - 1, "delta", delta));
}

static void close_block(hth_api_choice *choice, hth_buffer *out)
{
    if (choice->open_block < 0)
        return;
    if (choice->open_block == HEARTH_DELTA_REASONING) /* clients expect a signature */
        put_block_delta(choice, json_pack("{s:s, s:s}", "type", "signature_delta", "signature", ""), out);
    hth_sse_add_take(out, "content_block_stop",
                     json_pack("{s:s, s:I}", "type", "content_block_stop", "index", (json_int_t)choice->n_blocks - 1));
    choice->open_block = -1;
}

static void open_block(hth_api_choice *choice, hearth_chat_delta_kind kind, json_t *block, hth_buffer *out)
{
    close_block(choice, out);
    choice->open_block = (int)kind;
    hth_sse_add_take(out, "content_block_start",
                     json_pack("{s:s, s:I, s:o}", "type", "content_block_start", "index",
                               (json_int_t)choice->n_blocks++, "content_block", block));
}

static void put_delta(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta, hth_buffer *out)
{
    const hth_api_call *call;

    begin(reply, choice, out);
    switch (delta->kind) {
    case HEARTH_DELTA_REASONING:
        if (!reply->request->wants_thinking)
            return;
        if (choice->open_block != HEARTH_DELTA_REASONING)
            open_block(choice, delta->kind,
                       json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", ""), out);
        put_block_delta(
            choice, json_pack("{s:s, s:s%}", "type", "thinking_delta", "thinking", delta->text, delta->n_bytes), out);
        return;
    case HEARTH_DELTA_CONTENT:
        if (choice->open_block != HEARTH_DELTA_CONTENT)
            open_block(choice, delta->kind, json_pack("{s:s, s:s}", "type", "text", "text", ""), out);
        put_block_delta(choice, json_pack("{s:s, s:s%}", "type", "text_delta", "text", delta->text, delta->n_bytes),
                        out);
        return;
    case HEARTH_DELTA_CALL:
        call = &choice->calls[delta->call];
        open_block(choice, delta->kind,
                   json_pack("{s:s, s:s, s:s, s:{}}", "type", "tool_use", "id", call->id, "name", call->name, "input"),
                   out);
        return;
    case HEARTH_DELTA_ARGUMENTS:
        put_block_delta(
            choice, json_pack("{s:s, s:s%}", "type", "input_json_delta", "partial_json", delta->text, delta->n_bytes),
            out);
        return;
    }
}

/* The usage of a choice that has ended. */
static json_t *usage_json(const hth_api_reply *reply, const hth_api_choice *choice)
{
    return hth_api_usage_anthropic(reply, choice->stats.prompt_tokens, choice->stats.cached_tokens,
                                   choice->stats.completion_tokens);
}

static void put_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    begin(reply, choice, out);
    close_block(choice, out);
    hth_sse_add_take(out, "message_delta",
                     json_pack("{s:s, s:{s:s, s:s?}, s:o, s:o*}", "type", "message_delta", "delta", "stop_reason",
                               stop_reason(choice), "stop_sequence", choice->stop_text, "usage",
                               usage_json(reply, choice), "context_management", edits_json(reply)));
}

static void put_end(hth_api_reply *reply, hth_buffer *out)
{
    (void)reply;
    hth_sse_add_take(out, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

/* ---- all at once ---- */

static void put_choice_body(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    json_t *content = json_array();

    if (choice->reasoning.n > 0 && reply->request->wants_thinking)
        json_array_append_new(content,
                              json_pack("{s:s, s:s%, s:s}", "type", "thinking", "thinking",
                                        hth_buffer_text(&choice->reasoning), choice->reasoning.n, "signature", ""));
    if (choice->content.n > 0)
        json_array_append_new(content, json_pack("{s:s, s:s%}", "type", "text", "text",
                                                 hth_buffer_text(&choice->content), choice->content.n));
    for (size_t i = 0; i < choice->n_calls; i++) {
        json_t *input = hth_api_call_arguments(&choice->calls[i]);

        if (!input) /* the reply was truncated inside the arguments */
            input = json_object();
        json_array_append_new(content, json_pack("{s:s, s:s, s:s, s:o}", "type", "tool_use", "id", choice->calls[i].id,
                                                 "name", choice->calls[i].name, "input", input));
    }
    hth_buffer_add_json_take(
        out, message_json(reply, content, stop_reason(choice), choice->stop_text, usage_json(reply, choice)));
}

const hth_api_writer hth_api_write_messages = {
    .begin = begin,
    .idle = put_idle,
    .delta = put_delta,
    .choice_end = put_choice_end,
    .end = put_end,
    .choice_body = put_choice_body,
};
