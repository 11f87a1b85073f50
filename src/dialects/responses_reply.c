/*
 * responses_reply.c - a response as an object, and the items of its output
 *
 * The object repeats the request along with the result, so that a reader needs nothing else. Reasoning, messages and
 * calls are items, in the order in which the model wrote them. Streams and bodies have the same items with the same
 * ids.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/request.h"
#include "api/sse.h"
#include "api/writer.h"
#include "dialects/kinds.h"
#include "dialects/response_record.h"

enum { RESPONSES_ID_BYTES = 80 };

/*
 * The maximum number of log probabilities that the end of a text repeats: as JSON they take a hundred times the memory.
 */
enum { REPEATED_LOGPROBS_MAX = 16384 };

/* ---- log probabilities ---- */

static json_t *logprob_json(hth_api_reply *reply, const hearth_logprob *from)
{
    return hth_api_text_logprob(reply, from, json_array());
}

static json_t *entry_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i)
{
    return hth_api_logprob_entry(reply, choice, i, logprob_json, "top_logprobs");
}

/* The log probabilities of tokens [begin, end). */
static json_t *logprobs_json(hth_api_reply *reply, const hth_api_choice *choice, size_t begin, size_t end)
{
    return hth_api_logprob_entries(reply, choice, begin, choice->pending.n_each > 0 ? end : begin, entry_json);
}

static json_t *all_logprobs(hth_api_reply *reply, const hth_api_choice *choice, const hth_api_item *item)
{
    bool is_short = (item->tokens_end - item->tokens_begin) * choice->pending.n_each <= REPEATED_LOGPROBS_MAX;

    return logprobs_json(reply, choice, item->tokens_begin, is_short ? item->tokens_end : item->tokens_begin);
}

/* ---- items ---- */

/* Is it a call of a tool whose input is text? */
static bool takes_text(const hth_api_reply *reply, const hth_api_choice *choice, const hth_api_item *item)
{
    const hth_api_responses_tool *tool =
        hth_api_responses_tool_find(reply->request->responses, choice->calls[item->call].name);

    return tool && tool->is_custom;
}

static const char *item_id(const hth_api_reply *reply, const hth_api_choice *choice, size_t i,
                           char id[RESPONSES_ID_BYTES])
{
    static const char *const prefixes[] = {
        [HEARTH_DELTA_REASONING] = "rs", [HEARTH_DELTA_CONTENT] = "msg", [HEARTH_DELTA_CALL] = "fc"
    };
    const hth_api_item *item = &choice->items[i];
    bool is_custom = item->kind == HEARTH_DELTA_CALL && takes_text(reply, choice, item);

    (void)snprintf(id, RESPONSES_ID_BYTES, "%s_%s_%zu", is_custom ? "ctc" : prefixes[item->kind], reply->id,
                   i); /* fits */
    return id;
}

static json_t *text_json(const hth_api_choice *choice, const hth_api_item *item)
{
    const hth_buffer *all = item->kind == HEARTH_DELTA_CONTENT ? &choice->content : &choice->reasoning;

    return json_stringn(hth_buffer_text(all) + item->begin, item->end - item->begin);
}

/* The text for a tool whose input is text: the one argument, or all arguments if the model wrote something else. */
static json_t *input_json(const hth_api_call *call)
{
    json_t *arguments = hth_api_call_arguments(call);
    json_t *input = json_object_get(arguments, HTH_API_RESPONSES_INPUT);

    input =
        json_is_string(input) ? json_incref(input) : json_stringn(hth_buffer_text(&call->arguments), call->arguments.n);
    json_decref(arguments);
    return input;
}

static json_t *call_json(const hth_api_reply *reply, const hth_api_choice *choice, size_t i, const char *status,
                         bool is_empty)
{
    const hth_api_item *item = &choice->items[i];
    const hth_api_call *call = &choice->calls[item->call];
    const hth_api_responses_tool *tool = hth_api_responses_tool_find(reply->request->responses, call->name);
    char id[RESPONSES_ID_BYTES];
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s}", "type", tool && tool->is_custom ? "custom_tool_call" : "function_call", "id",
                  item_id(reply, choice, i, id), "call_id", call->id, "name", tool ? tool->name : call->name);

    if (tool && tool->name_space)
        json_object_set_new(object, "namespace", json_string(tool->name_space));
    if (tool && tool->is_custom)
        json_object_set_new(object, "input", is_empty ? json_string("") : input_json(call));
    else
        json_object_set_new(object, "arguments",
                            is_empty ? json_string("")
                                     : json_stringn(hth_buffer_text(&call->arguments), call->arguments.n));
    json_object_set_new(object, "status", json_string(status));
    return object;
}

/* The one part of a message or of reasoning. */
static json_t *part_json(hth_api_reply *reply, const hth_api_choice *choice, const hth_api_item *item, bool is_empty)
{
    json_t *text = is_empty ? json_string("") : text_json(choice, item);

    if (item->kind == HEARTH_DELTA_REASONING)
        return json_pack("{s:s, s:o}", "type",
                         reply->request->responses->has_summary ? "summary_text" : "reasoning_text", "text", text);
    return json_pack("{s:s, s:o, s:[], s:o}", "type", "output_text", "text", text, "annotations", "logprobs",
                     is_empty ? json_array() : all_logprobs(reply, choice, item));
}

static json_t *reasoning_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i, const char *status,
                              bool is_empty)
{
    const hth_api_responses *asked = reply->request->responses;
    const hth_api_item *item = &choice->items[i];
    char id[RESPONSES_ID_BYTES];
    json_t *parts = json_array(), *object;

    if (!is_empty)
        json_array_append_new(parts, part_json(reply, choice, item, false));
    object = json_pack("{s:s, s:s, s:o}", "type", "reasoning", "id", item_id(reply, choice, i, id), "summary",
                       asked->has_summary ? parts : json_array());
    if (!asked->has_summary)
        json_object_set_new(object, "content", parts);
    if (asked->has_encrypted && !is_empty) {
        hth_buffer text = { .text = NULL };

        hth_buffer_add_text(&text, HTH_API_RESPONSES_REASONING);
        hth_buffer_add(&text, hth_buffer_text(&choice->reasoning) + item->begin, item->end - item->begin);
        json_object_set_new(object, "encrypted_content", json_stringn(hth_buffer_text(&text), text.n));
        hth_buffer_deinit(&text);
    }
    json_object_set_new(object, "status", json_string(status));
    return object;
}

/* Item i in the client's form. is_empty: without content, as at its beginning. */
static json_t *item_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i, const char *status,
                         bool is_empty)
{
    const hth_api_item *item = &choice->items[i];
    char id[RESPONSES_ID_BYTES];
    json_t *content;

    if (item->kind == HEARTH_DELTA_CALL)
        return call_json(reply, choice, i, status, is_empty);
    if (item->kind == HEARTH_DELTA_REASONING)
        return reasoning_json(reply, choice, i, status, is_empty);
    content = json_array();
    if (!is_empty)
        json_array_append_new(content, part_json(reply, choice, item, false));
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "type", "message", "id", item_id(reply, choice, i, id), "status",
                     status, "role", "assistant", "content", content);
}

/* ---- the object ---- */

/* The client's value of a field, or otherwise, which is taken over. */
static json_t *given(const hth_api_reply *reply, const char *name, json_t *otherwise)
{
    json_t *value = json_object_get(reply->request->body, name);

    if (!value || json_is_null(value))
        return otherwise;
    json_decref(otherwise);
    return json_incref(value);
}

static json_t *reasoning_asked(const hth_api_reply *reply)
{
    json_t *asked = json_object_get(reply->request->body, "reasoning"),
           *object = json_pack("{s:n, s:n}", "effort", "summary");

    if (json_is_object(asked))
        (void)json_object_update(object, asked); /* if out of memory, the object lacks a member */
    return object;
}

static json_t *text_asked(const hth_api_reply *reply)
{
    json_t *asked = json_object_get(reply->request->body, "text"),
           *object = json_pack("{s:{s:s}}", "format", "type", "text");

    if (json_is_object(asked))
        (void)json_object_update(object, asked); /* likewise */
    return object;
}

static json_t *rounded(float value)
{
    return json_real(round((double)value * 1e6) / 1e6);
}

/* The response with this status and output; takes output. */
static json_t *response_json(const hth_api_reply *reply, const char *status, json_t *output_take)
{
    const hearth_request *options = &reply->request->options;
    json_t *object = json_pack("{s:s+, s:s, s:I, s:s, s:b, s:n, s:n, s:n}", "id", "resp_", reply->id, "object",
                               "response", "created_at", reply->created_s, "status", status, "background",
                               reply->request->responses->in_background, "completed_at", "error", "incomplete_details");

    json_object_set_new(object, "instructions", given(reply, "instructions", json_null()));
    json_object_set_new(object, "max_output_tokens", given(reply, "max_output_tokens", json_null()));
    json_object_set_new(object, "max_tool_calls", given(reply, "max_tool_calls", json_null()));
    json_object_set_new(object, "metadata", given(reply, "metadata", json_object()));
    json_object_set_new(object, "model", json_string(reply->model));
    json_object_set_new(object, "output", output_take);
    json_object_set_new(object, "parallel_tool_calls", json_boolean(reply->request->conversation.parallel_calls));
    json_object_set_new(object, "previous_response_id", given(reply, "previous_response_id", json_null()));
    json_object_set_new(object, "prompt_cache_key", given(reply, "prompt_cache_key", json_null()));
    json_object_set_new(object, "reasoning", reasoning_asked(reply));
    json_object_set_new(object, "safety_identifier", given(reply, "safety_identifier", json_null()));
    json_object_set_new(object, "service_tier", json_string("default"));
    json_object_set_new(object, "store", json_boolean(reply->request->responses->is_kept));
    json_object_set_new(object, "temperature", rounded(reply->request->sampling.temperature));
    json_object_set_new(object, "text", text_asked(reply));
    json_object_set_new(object, "tool_choice", given(reply, "tool_choice", json_string("auto")));
    json_object_set_new(object, "tools", given(reply, "tools", json_array()));
    json_object_set_new(object, "top_logprobs", json_integer(options->n_top_logprobs));
    json_object_set_new(object, "top_p", rounded(reply->request->sampling.top_p));
    json_object_set_new(object, "truncation", json_string("disabled"));
    json_object_set_new(object, "usage", json_null());
    json_object_set_new(object, "user", given(reply, "user", json_null()));
    return object;
}

/* Did anything other than the model end it? */
static bool was_cut(const hth_api_choice *choice)
{
    return choice->finish != HEARTH_FINISH_STOP;
}

/* The status of an item at the response's end. */
static const char *status_of(const hth_api_choice *choice, size_t i)
{
    return was_cut(choice) && i + 1 == choice->n_items ? "incomplete" : "completed";
}

/* The response at its end, with its whole output. */
static json_t *ended_json(hth_api_reply *reply, const hth_api_choice *choice)
{
    const hearth_stats *stats = &choice->stats;
    double ms = stats->queue_ms + stats->restore_ms + stats->prefill_ms + stats->decode_ms;
    bool is_cut = was_cut(choice);
    json_t *output = json_array(), *object;

    for (size_t i = 0; i < choice->n_items; i++)
        json_array_append_new(output, item_json(reply, choice, i, status_of(choice, i), false));
    object = response_json(reply, is_cut ? "incomplete" : "completed", output);
    if (is_cut)
        json_object_set_new(object, "incomplete_details", json_pack("{s:s}", "reason", "max_output_tokens"));
    else /* from the reply's own times, which a second worker also knows */
        json_object_set_new(object, "completed_at", json_integer(reply->created_s + (json_int_t)(ms / 1000)));
    json_object_set_new(object, "usage", hth_api_usage_responses(reply));
    return object;
}

static void put_record(const hth_api_reply *reply, json_t *response_take, hth_buffer *out)
{
    char id[RESPONSES_ID_BYTES];

    (void)snprintf(id, sizeof(id), "resp_%s", reply->id); /* fits */
    hth_response_record_add(out, id, response_take, reply->request->items);
    json_decref(response_take);
}

void hth_api_reply_record(hth_api_reply *reply, hth_buffer *out)
{
    const hth_api_responses *asked = reply->request->responses;

    if (asked && asked->is_kept && reply->has_ended && reply->failure == 0)
        put_record(reply, ended_json(reply, &reply->choices[0]), out);
}

void hth_api_reply_record_begun(const hth_api_reply *reply, hth_buffer *out)
{
    const hth_api_responses *asked = reply->request->responses;

    if (asked && asked->in_background && !reply->request->stream)
        put_record(reply, response_json(reply, "in_progress", json_array()), out);
}

/*
 * ---- a response as events ----
 *
 * response.created, response.in_progress
 *   for each item: output_item.added, then the beginning, the deltas and the end of its part, output_item.done
 *   response.completed, response.incomplete or response.failed
 *
 * One item is open at a time. Events are numbered from 0; keep-alives between them have no number of their own. The
 * input of a tool that takes text is one delta at the end of the call: until then it is JSON that the client must not
 * see.
 */

enum { BEGINNING_EVENTS = 2 }; /* response.created, response.in_progress */

/* ---- events ---- */

/* Write an event; takes fields, to which the type and the number are added. */
static void put(hth_api_choice *choice, const char *type, json_t *fields_take, hth_buffer *out)
{
    json_t *event;

    if (choice->has_begun && choice->n_events == 0)
        choice->n_events = BEGINNING_EVENTS; /* another worker has sent them */
    event = json_pack("{s:s, s:I}", "type", type, "sequence_number", (json_int_t)choice->n_events++);

    if (!event || !fields_take || json_object_update(event, fields_take)) {
        json_decref(event);
        event = NULL; /* the buffer fails, as if out of memory */
    }
    json_decref(fields_take);
    hth_sse_add_take(out, type, event);
}

/* Write an event about the last item that was opened. */
static void put_item(hth_api_reply *reply, hth_api_choice *choice, const char *type, const char *status, bool is_empty,
                     hth_buffer *out)
{
    size_t i = choice->n_opened - 1;

    put(choice, type,
        json_pack("{s:I, s:o}", "output_index", (json_int_t)i, "item", item_json(reply, choice, i, status, is_empty)),
        out);
}

/*
 * Write an event about the part of the open item; takes value, the member of that name, and the log probabilities,
 * which a message's delta and text have (otherwise NULL). Without memory for a member, the buffer fails.
 */
static void put_inside(hth_api_reply *reply, hth_api_choice *choice, const char *type, const char *name,
                       json_t *value_take, json_t *logprobs_take, hth_buffer *out)
{
    size_t i = choice->n_opened - 1;
    const hth_api_item *item = &choice->items[i];
    const bool is_reasoning = item->kind == HEARTH_DELTA_REASONING;
    const bool has_logprobs = item->kind == HEARTH_DELTA_CONTENT && strcmp(name, "part") != 0;
    int failed = 0;
    char id[RESPONSES_ID_BYTES];
    json_t *fields = json_pack("{s:s, s:I}", "item_id", item_id(reply, choice, i, id), "output_index", (json_int_t)i);

    if (has_logprobs)
        failed |= json_object_set_new(fields, "content_index", json_integer(0));
    failed |= json_object_set_new(fields, name, value_take);
    if (has_logprobs)
        failed |= json_object_set_new(fields, "logprobs", logprobs_take);
    else if (item->kind != HEARTH_DELTA_CALL)
        failed |= json_object_set_new(
            fields, is_reasoning && reply->request->responses->has_summary ? "summary_index" : "content_index",
            json_integer(0));
    if (reply->request->wants_timings && strcmp(name, "delta") == 0)
        hth_api_put_timings_so_far(fields, choice);
    if (failed) {
        json_decref(fields);
        fields = NULL;
    }
    put(choice, type, fields, out);
}

/* ---- items ---- */

typedef struct part_types {
    const char *added, *delta, *done, *part_done;
} part_types;

static const part_types content_part = { "response.content_part.added", "response.output_text.delta",
                                         "response.output_text.done", "response.content_part.done" };
static const part_types reasoning_part = { "response.content_part.added", "response.reasoning_text.delta",
                                           "response.reasoning_text.done", "response.content_part.done" };
static const part_types summary_part = { "response.reasoning_summary_part.added",
                                         "response.reasoning_summary_text.delta",
                                         "response.reasoning_summary_text.done",
                                         "response.reasoning_summary_part.done" };

static const part_types *types_of(const hth_api_reply *reply, const hth_api_item *item)
{
    return item->kind == HEARTH_DELTA_CONTENT     ? &content_part
         : reply->request->responses->has_summary ? &summary_part
                                                  : &reasoning_part;
}

static void close_call(hth_api_reply *reply, hth_api_choice *choice, const hth_api_item *item, hth_buffer *out)
{
    const hth_api_call *call = &choice->calls[item->call];
    json_t *input;

    if (!takes_text(reply, choice, item)) {
        put_inside(reply, choice, "response.function_call_arguments.done", "arguments",
                   json_stringn(hth_buffer_text(&call->arguments), call->arguments.n), NULL, out);
        return;
    }
    input = input_json(call);
    put_inside(reply, choice, "response.custom_tool_call_input.delta", "delta", json_incref(input), NULL, out);
    put_inside(reply, choice, "response.custom_tool_call_input.done", "input", input, NULL, out);
}

static void close_item(hth_api_reply *reply, hth_api_choice *choice, const char *status, hth_buffer *out)
{
    const hth_api_item *item;

    if (!choice->has_open_item)
        return;
    choice->has_open_item = false;
    item = &choice->items[choice->n_opened - 1];
    if (item->kind == HEARTH_DELTA_CALL) {
        close_call(reply, choice, item, out);
    } else {
        const part_types *types = types_of(reply, item);
        json_t *part = part_json(reply, choice, item, false);

        put_inside(reply, choice, types->done, "text", json_incref(json_object_get(part, "text")),
                   json_incref(json_object_get(part, "logprobs")), out);
        put_inside(reply, choice, types->part_done, "part", part, NULL, out);
    }
    put_item(reply, choice, "response.output_item.done", status, false, out);
}

/* Write the beginning of the item that has just begun. */
static void open_item(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    const hth_api_item *item;

    close_item(reply, choice, "completed", out);
    item = &choice->items[choice->n_opened++];
    choice->has_open_item = true;
    put_item(reply, choice, "response.output_item.added", "in_progress", true, out);
    if (item->kind != HEARTH_DELTA_CALL)
        put_inside(reply, choice, types_of(reply, item)->added, "part", part_json(reply, choice, item, true), NULL,
                   out);
}

/* ---- the writer ---- */

static void begin(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    if (choice->has_begun)
        return;
    put(choice, "response.created", json_pack("{s:o}", "response", response_json(reply, "in_progress", json_array())),
        out);
    put(choice, "response.in_progress",
        json_pack("{s:o}", "response", response_json(reply, "in_progress", json_array())), out);
    choice->has_begun = true;
}

/*
 * In llama.cpp's form. Like a keep-alive, it has no number of its own: the number of these events depends on the cache,
 * and a second worker continues the numbering of the first.
 */
static void put_progress(hth_api_reply *reply, hth_api_choice *choice, json_t *progress_take, hth_buffer *out)
{
    json_t *event;

    begin(reply, choice, out);
    event = json_pack("{s:s, s:I, s:o, s:o}", "type", "response.in_progress", "sequence_number",
                      (json_int_t)choice->n_events, "response", response_json(reply, "in_progress", json_array()),
                      "prompt_progress", progress_take);
    if (reply->request->wants_timings)
        hth_api_put_timings_so_far(event, choice);
    hth_sse_add_take(out, "response.in_progress", event);
}

static void put_idle(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    if (choice->has_begun)
        hth_sse_add_take(out, "keepalive",
                         json_pack("{s:s, s:I}", "type", "keepalive", "sequence_number", (json_int_t)choice->n_events));
    else
        begin(reply, choice, out);
}

static void put_delta(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta, hth_buffer *out)
{
    const hth_api_item *item;
    size_t tokens_begin;
    json_t *text;

    begin(reply, choice, out);
    while (choice->n_opened < choice->n_items)
        open_item(reply, choice, out);
    if (!choice->has_open_item || delta->kind == HEARTH_DELTA_CALL || delta->n_bytes == 0)
        return;
    item = &choice->items[choice->n_opened - 1];
    tokens_begin = choice->n_pending_written > item->tokens_begin ? choice->n_pending_written : item->tokens_begin;
    text = json_stringn(delta->text, delta->n_bytes);
    if (delta->kind == HEARTH_DELTA_CONTENT || delta->kind == HEARTH_DELTA_REASONING)
        put_inside(reply, choice, types_of(reply, item)->delta, "delta", text,
                   delta->kind == HEARTH_DELTA_CONTENT ? logprobs_json(reply, choice, tokens_begin, item->tokens_end)
                                                       : NULL,
                   out);
    else if (!takes_text(reply, choice, item))
        put_inside(reply, choice, "response.function_call_arguments.delta", "delta", text, NULL, out);
    else
        json_decref(text);
    choice->n_pending_written = item->tokens_end;
}

static void put_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    bool is_cut = was_cut(choice);
    json_t *fields = json_pack("{s:o}", "response", ended_json(reply, choice));

    begin(reply, choice, out);
    close_item(reply, choice, is_cut ? "incomplete" : "completed", out);
    hth_api_put_timings(fields, &choice->stats);
    put(choice, is_cut ? "response.incomplete" : "response.completed", fields, out);
}

/* An open item stays incomplete: the response says that it failed. */
static void put_failure(hth_api_reply *reply, const hth_api_error *error, hth_buffer *out)
{
    hth_api_choice *choice = &reply->choices[0];
    json_t *problem = hth_api_error_json(HTH_API_OPENAI, error), *response;
    const json_t *inside = json_object_get(problem, "error");
    const char *type = json_string_value(json_object_get(inside, "type"));

    if (!choice->has_begun) {
        hth_api_error_write_event(HTH_API_OPENAI_RESPONSES, error, out);
    } else {
        response = response_json(reply, "failed", json_array());
        for (size_t i = 0; i < choice->n_items; i++)
            json_array_append_new(
                json_object_get(response, "output"),
                item_json(reply, choice, i,
                          i + 1 == choice->n_items && choice->has_open_item ? "incomplete" : "completed", false));
        json_object_set_new(response, "error",
                            json_pack("{s:s?, s:s}", "code",
                                      type && strcmp(type, "server_error") == 0
                                          ? type
                                          : json_string_value(json_object_get(inside, "code")),
                                      "message", error->message));
        put(choice, "response.failed", json_pack("{s:o}", "response", response), out);
    }
    json_decref(problem);
}

/* ---- all at once ---- */

static void put_choice_body(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    hth_buffer_add_json_take(out, ended_json(reply, choice));
}

const hth_api_writer hth_api_write_responses = {
    .has_items = true,
    .begin = begin,
    .idle = put_idle,
    .progress = put_progress,
    .delta = put_delta,
    .choice_end = put_choice_end,
    .fail = put_failure,
    .choice_body = put_choice_body,
};
