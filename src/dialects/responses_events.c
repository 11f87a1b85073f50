/*
 * responses_events.c - a response as events
 *
 *   response.created, response.in_progress
 *   for each item: output_item.added, then the beginning, the deltas and the end of its part, output_item.done
 *   response.completed, response.incomplete or response.failed
 *
 * One item is open at a time. Events are numbered from 0; signs of life between them have no number of their own. The
 * input of a tool that takes a text is one delta at the end of the call: until then it is JSON that the client must not
 * see.
 */
#include "dialects/responses_reply.h"

#include <string.h>

#include "api/sse.h"
#include "api/usage.h"

enum { BEGINNING_EVENTS = 2 }; /* response.created, response.in_progress */

/* ---- events ---- */

/* Write an event; takes fields, which lack its type and number. */
static void put(hth_api_choice *choice, const char *type, json_t *fields_take, hth_buffer *out)
{
    json_t *event;

    if (choice->has_begun && choice->n_events == 0)
        choice->n_events = BEGINNING_EVENTS; /* another worker has sent them */
    event = json_pack("{s:s, s:I}", "type", type, "sequence_number", (json_int_t)choice->n_events++);

    if (!event || !fields_take || json_object_update(event, fields_take)) {
        json_decref(event);
        event = NULL; /* the buffer fails, as without memory */
    }
    json_decref(fields_take);
    hth_sse_add_take(out, type, event);
}

/* Write an event with text of the reply, or with its last part; takes fields. */
static void put_text_of(const hth_api_reply *reply, hth_api_choice *choice, const char *type, const char *name,
                        json_t *fields_take, hth_buffer *out)
{
    if (reply->request->wants_timings && strcmp(name, "delta") == 0)
        hth_api_put_timings_so_far(fields_take, choice);
    put(choice, type, fields_take, out);
}

/* Write an event about the last item that was opened. */
static void put_item(hth_api_reply *reply, hth_api_choice *choice, const char *type, const char *status, bool is_empty,
                     hth_buffer *out)
{
    size_t i = choice->n_opened - 1;

    put(choice, type,
        json_pack("{s:I, s:o}", "output_index", (json_int_t)i, "item",
                  hth_api_responses_item(reply, choice, i, status, is_empty)),
        out);
}

/* Write an event about the part of the open item; takes value, the member of that name. */
static void put_inside(hth_api_reply *reply, hth_api_choice *choice, const char *type, const char *name,
                       json_t *value_take, hth_buffer *out)
{
    size_t i = choice->n_opened - 1;
    const hth_api_item *item = &choice->items[i];
    char id[HTH_RESPONSES_ID_BYTES];
    json_t *fields = json_pack("{s:s, s:I, s:o}", "item_id", hth_api_responses_item_id(reply, choice, i, id),
                               "output_index", (json_int_t)i, name, value_take);

    if (item->kind == HEARTH_DELTA_CONTENT || item->kind == HEARTH_DELTA_REASONING)
        json_object_set_new(fields,
                            item->kind == HEARTH_DELTA_REASONING && reply->request->responses->has_summary
                                ? "summary_index"
                                : "content_index",
                            json_integer(0));
    put_text_of(reply, choice, type, name, fields, out);
}

static void put_text(hth_api_reply *reply, hth_api_choice *choice, const char *type, const char *name,
                     json_t *text_take, json_t *logprobs_take, hth_buffer *out)
{
    size_t i = choice->n_opened - 1;
    char id[HTH_RESPONSES_ID_BYTES];

    put_text_of(reply, choice, type, name,
                json_pack("{s:s, s:I, s:i, s:o, s:o}", "item_id", hth_api_responses_item_id(reply, choice, i, id),
                          "output_index", (json_int_t)i, "content_index", 0, name, text_take, "logprobs",
                          logprobs_take),
                out);
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

    if (!hth_api_responses_is_custom(reply, choice, item)) {
        put_inside(reply, choice, "response.function_call_arguments.done", "arguments",
                   json_stringn(hth_buffer_text(&call->arguments), call->arguments.n), out);
        return;
    }
    input = hth_api_responses_input(call);
    put_inside(reply, choice, "response.custom_tool_call_input.delta", "delta", json_incref(input), out);
    put_inside(reply, choice, "response.custom_tool_call_input.done", "input", input, out);
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
        json_t *part = hth_api_responses_part(reply, choice, item, false);

        if (item->kind == HEARTH_DELTA_CONTENT)
            put_text(reply, choice, types->done, "text", json_incref(json_object_get(part, "text")),
                     json_incref(json_object_get(part, "logprobs")), out);
        else
            put_inside(reply, choice, types->done, "text", json_incref(json_object_get(part, "text")), out);
        put_inside(reply, choice, types->part_done, "part", part, out);
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
        put_inside(reply, choice, types_of(reply, item)->added, "part",
                   hth_api_responses_part(reply, choice, item, true), out);
}

/* ---- the writer ---- */

void hth_api_responses_begin(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    if (choice->has_begun)
        return;
    put(choice, "response.created",
        json_pack("{s:o}", "response", hth_api_responses_object(reply, "in_progress", json_array())), out);
    put(choice, "response.in_progress",
        json_pack("{s:o}", "response", hth_api_responses_object(reply, "in_progress", json_array())), out);
    choice->has_begun = true;
}

/*
 * In llama.cpp's form. As a sign of life it has no number of its own: how many there are depends on what the cache
 * knows, and a second worker goes on with the numbers of the first.
 */
void hth_api_responses_progress(hth_api_reply *reply, hth_api_choice *choice, json_t *progress_take, hth_buffer *out)
{
    json_t *event;

    hth_api_responses_begin(reply, choice, out);
    event = json_pack("{s:s, s:I, s:o, s:o}", "type", "response.in_progress", "sequence_number",
                      (json_int_t)choice->n_events, "response",
                      hth_api_responses_object(reply, "in_progress", json_array()), "prompt_progress", progress_take);
    if (reply->request->wants_timings)
        hth_api_put_timings_so_far(event, choice);
    hth_sse_add_take(out, "response.in_progress", event);
}

void hth_api_responses_idle(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    if (choice->has_begun)
        hth_sse_add_take(out, "keepalive",
                         json_pack("{s:s, s:I}", "type", "keepalive", "sequence_number", (json_int_t)choice->n_events));
    else
        hth_api_responses_begin(reply, choice, out);
}

void hth_api_responses_delta(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta,
                             hth_buffer *out)
{
    const hth_api_item *item;
    size_t told_begin;
    json_t *text;

    hth_api_responses_begin(reply, choice, out);
    while (choice->n_opened < choice->n_items)
        open_item(reply, choice, out);
    if (!choice->has_open_item || delta->kind == HEARTH_DELTA_CALL || delta->n_bytes == 0)
        return;
    item = &choice->items[choice->n_opened - 1];
    told_begin = choice->n_told_written > item->told_begin ? choice->n_told_written : item->told_begin;
    text = json_stringn(delta->text, delta->n_bytes);
    if (delta->kind == HEARTH_DELTA_CONTENT)
        put_text(reply, choice, content_part.delta, "delta", text,
                 hth_api_responses_logprobs(reply, choice, told_begin, item->told_end), out);
    else if (delta->kind == HEARTH_DELTA_REASONING)
        put_inside(reply, choice, types_of(reply, item)->delta, "delta", text, out);
    else if (!hth_api_responses_is_custom(reply, choice, item))
        put_inside(reply, choice, "response.function_call_arguments.delta", "delta", text, out);
    else
        json_decref(text);
    choice->n_told_written = item->told_end;
}

void hth_api_responses_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    bool is_cut = hth_api_responses_is_cut(choice);
    json_t *fields = json_pack("{s:o}", "response", hth_api_responses_ended(reply, choice));

    hth_api_responses_begin(reply, choice, out);
    close_item(reply, choice, is_cut ? "incomplete" : "completed", out);
    hth_api_put_timings(fields, &choice->stats);
    put(choice, is_cut ? "response.incomplete" : "response.completed", fields, out);
}

/* An open item stays incomplete: the response says that it failed. */
void hth_api_responses_fail(hth_api_reply *reply, const hth_api_error *error, hth_buffer *out)
{
    hth_api_choice *choice = &reply->choices[0];
    json_t *problem = hth_api_error_json(HTH_API_OPENAI, error), *response;
    const json_t *inside = json_object_get(problem, "error");
    const char *type = json_string_value(json_object_get(inside, "type"));

    if (!choice->has_begun) {
        hth_api_error_write_event(HTH_API_OPENAI_RESPONSES, error, out);
    } else {
        response = hth_api_responses_object(reply, "failed", json_array());
        for (size_t i = 0; i < choice->n_items; i++)
            json_array_append_new(
                json_object_get(response, "output"),
                hth_api_responses_item(reply, choice, i,
                                       i + 1 == choice->n_items && choice->has_open_item ? "incomplete" : "completed",
                                       false));
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
