/*
 * ollama_reply.c - the replies of /api/chat and /api/generate
 *
 * A stream consists of lines; the last one has "done": true and the statistics. A tool call is one piece, with its
 * arguments as an object, so it is written when the next item begins. A call that the end of the reply truncates is
 * left out. All lines have the time at which the request began, so that the reply does not depend on the worker that
 * writes it.
 */
#include "api/sse.h"
#include "api/writer.h"
#include "dialects/kinds.h"
#include "dialects/ollama_answers.h"

/* The content of one object: all content of a body, or one piece of a stream. */
typedef struct said {
    const char *content;
    size_t n_content;
    const char *reasoning;
    size_t n_reasoning;
    json_t *calls; /* taken over; NULL: none */
} said;

static bool is_chat(const hth_api_reply *reply)
{
    return reply->request->kind == HTH_API_OLLAMA_CHAT;
}

/* ---- log probabilities ---- */

static json_t *logprob_json(hth_api_reply *reply, const hearth_logprob *from)
{
    return json_pack("{s:o, s:o, s:o}", "token", hth_api_token_text(reply, from->token, NULL), "logprob",
                     hth_api_logprob(from->logprob), "bytes", hth_api_token_bytes(reply->hearth, from->token));
}

static json_t *entry_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i)
{
    return choice->pending.n_each == 1 ? logprob_json(reply, hth_api_tokens_logprobs(&choice->pending, i))
                                       : hth_api_logprob_entry(reply, choice, i, logprob_json, "top_logprobs");
}

/* Move the pending log probabilities into this line. */
static void take_logprobs(hth_api_reply *reply, hth_api_choice *choice, json_t *to)
{
    if (!reply->request->options.logprobs || choice->pending.n == 0)
        return;
    json_object_set_new(to, "logprobs", hth_api_logprob_entries(reply, choice, 0, choice->pending.n, entry_json));
    choice->pending.n = 0;
}

/* ---- calls ---- */

/* A call as JSON; NULL if its arguments are not an object. */
static json_t *call_json(const hth_api_call *call, size_t index)
{
    json_t *arguments = hth_api_call_arguments(call);

    if (!arguments)
        return NULL;
    return json_pack("{s:s, s:{s:I, s:s, s:o}}", "id", call->id, "function", "index", (json_int_t)index, "name",
                     call->name, "arguments", arguments);
}

/* The complete calls among [begin, end); NULL: none. */
static json_t *calls_json(const hth_api_choice *choice, size_t begin, size_t end)
{
    json_t *calls = json_array();

    for (size_t i = begin; i < end; i++) {
        json_t *call = call_json(&choice->calls[i], i);

        if (call)
            json_array_append_new(calls, call);
    }
    if (json_array_size(calls) > 0)
        return calls;
    json_decref(calls);
    return NULL;
}

/* ---- lines ---- */

/* The beginning of every object: its content, and the role. */
static json_t *object_json(const hth_api_reply *reply, const said *what, bool is_done)
{
    json_t *object =
        json_pack("{s:s, s:o}", "model", reply->model, "created_at", hth_api_ollama_time(reply->created_s));
    json_t *message = is_chat(reply) ? json_pack("{s:s}", "role", "assistant") : object;

    json_object_set_new(message, is_chat(reply) ? "content" : "response",
                        json_stringn(what->content ? what->content : "", what->n_content));
    if (what->n_reasoning > 0)
        json_object_set_new(message, "thinking", json_stringn(what->reasoning, what->n_reasoning));
    if (what->calls)
        json_object_set_new(message, "tool_calls", what->calls);
    if (is_chat(reply))
        json_object_set_new(object, "message", message);
    json_object_set_new(object, "done", json_boolean(is_done));
    return object;
}

/* Write complete calls as a line of their own. */
static void put_calls(hth_api_reply *reply, hth_api_choice *choice, size_t end, hth_buffer *out)
{
    json_t *calls = calls_json(choice, choice->n_blocks, end), *line;

    choice->n_blocks = end;
    if (!calls)
        return;
    line = object_json(reply, &(said){ .calls = calls }, false);
    take_logprobs(reply, choice, line);
    hth_ndjson_add_take(out, line);
}

static void put_delta(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta, hth_buffer *out)
{
    said what = { .content = NULL };
    json_t *line;

    if (delta->kind == HEARTH_DELTA_CALL)
        put_calls(reply, choice, delta->call, out);
    if (delta->kind == HEARTH_DELTA_CALL || delta->kind == HEARTH_DELTA_ARGUMENTS)
        return;
    if (delta->n_bytes > 0) /* an empty delta only releases log probabilities */
        put_calls(reply, choice, choice->n_calls, out);
    if (delta->kind == HEARTH_DELTA_REASONING)
        what = (said){ .reasoning = delta->text, .n_reasoning = delta->n_bytes };
    else
        what = (said){ .content = delta->text, .n_content = delta->n_bytes };
    line = object_json(reply, &what, false);
    take_logprobs(reply, choice, line);
    hth_ndjson_add_take(out, line);
}

/* ---- ends ---- */

static void add_numbers(json_t *to, const hth_api_choice *choice)
{
    const hearth_stats *stats = &choice->stats;

    json_object_set_new(to, "done_reason", json_string(choice->finish == HEARTH_FINISH_STOP ? "stop" : "length"));
    json_object_set_new(to, "total_duration", hth_api_ollama_duration(stats->ttft_ms + stats->decode_ms));
    json_object_set_new(to, "load_duration", hth_api_ollama_duration(stats->queue_ms));
    json_object_set_new(to, "prompt_eval_count", json_integer(stats->prompt_tokens));
    json_object_set_new(to, "prompt_eval_duration", hth_api_ollama_duration(stats->restore_ms + stats->prefill_ms));
    json_object_set_new(to, "eval_count", json_integer(stats->completion_tokens));
    json_object_set_new(to, "eval_duration", hth_api_ollama_duration(stats->decode_ms));
}

static void add_tokens(const hearth_token *tokens, size_t n, bool *has_some, hth_buffer *out)
{
    for (size_t i = 0; i < n; i++) {
        hth_buffer_add_format(out, "%s%d", *has_some ? "," : "", (int)tokens[i]);
        *has_some = true;
    }
}

/*
 * Append the prompt and the reply as tokens, which the next request can continue. They are written as text directly,
 * because there can be a whole context of them.
 */
static void add_context(const hth_api_reply *reply, const hth_api_choice *choice, hth_buffer *out)
{
    const hth_api_prompt *prompt = reply->prepared->prompts[choice->index / reply->request->options.n];
    bool has_some = false;

    if (!reply->request->wants_context)
        return;
    hth_buffer_add_text(out, ",\"context\":[");
    add_tokens(prompt->tokens, prompt->n_tokens, &has_some, out);
    for (size_t i = 0; i < choice->drawn.n; i++)
        add_tokens(&choice->drawn.list[i].id, 1, &has_some, out);
    hth_buffer_add_text(out, "]");
}

static void put_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    json_t *line;

    put_calls(reply, choice, choice->n_calls, out);
    line = object_json(reply, &(said){ .content = NULL }, true);
    take_logprobs(reply, choice, line);
    add_numbers(line, choice);
    hth_api_add_open_take(out, line);
    add_context(reply, choice, out);
    hth_buffer_add_text(out, "}\n");
}

static void put_idle(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    (void)reply;
    (void)choice;
    hth_ndjson_add_nothing(out);
}

/* ---- all at once ---- */

static void put_choice_body(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    const said what = { .content = hth_buffer_text(&choice->content),
                        .n_content = choice->content.n,
                        .reasoning = hth_buffer_text(&choice->reasoning),
                        .n_reasoning = choice->reasoning.n,
                        .calls = calls_json(choice, 0, choice->n_calls) };
    json_t *body = object_json(reply, &what, true);

    add_numbers(body, choice);
    hth_api_add_open_take(out, body);
}

static void put_choice_body_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    add_context(reply, choice, out);
    hth_buffer_add_text(out, "}");
}

static const hth_api_list lists[] = { { ",\"logprobs\":[", entry_json, "]" } };

const hth_api_writer hth_api_write_ollama = {
    .delta = put_delta,
    .idle = put_idle,
    .choice_end = put_choice_end,
    .choice_body = put_choice_body,
    .lists = lists,
    .n_lists = sizeof(lists) / sizeof(lists[0]),
    .choice_body_end = put_choice_body_end,
};
