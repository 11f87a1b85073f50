/*
 * responses_reply.c - a response as an object, and the items of its output
 *
 * The object repeats the request beside the result, so that a reader needs nothing else. Reasoning, messages and calls
 * are items, in the order in which the model wrote them. Streams and bodies have the same items with the same ids.
 */
#include "dialects/responses_reply.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/logprobs.h"
#include "dialects/response_record.h"
#include "api/usage.h"
#include "dialects/kinds.h"

/* The limit of log probabilities that the end of a text repeats: their JSON takes a hundred times their memory. */
enum { REPEATED_LOGPROBS_MAX = 16384 };

/* ---- log probabilities ---- */

static json_t *logprob_json(hth_api_reply *reply, const hearth_logprob *from)
{
    return hth_api_text_logprob(reply, from, json_array());
}

static json_t *entry_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i)
{
    return hth_api_logprob_entry(reply, choice, i, logprob_json);
}

json_t *hth_api_responses_logprobs(hth_api_reply *reply, const hth_api_choice *choice, size_t begin, size_t end)
{
    return hth_api_logprob_entries(reply, choice, begin, choice->told.n_each > 0 ? end : begin, entry_json);
}

static json_t *all_logprobs(hth_api_reply *reply, const hth_api_choice *choice, const hth_api_item *item)
{
    bool is_short = (item->told_end - item->told_begin) * choice->told.n_each <= REPEATED_LOGPROBS_MAX;

    return hth_api_responses_logprobs(reply, choice, item->told_begin, is_short ? item->told_end : item->told_begin);
}

/* ---- items ---- */

const char *hth_api_responses_item_id(const hth_api_reply *reply, const hth_api_choice *choice, size_t i,
                                      char id[HTH_RESPONSES_ID_BYTES])
{
    static const char *const prefixes[] = {
        [HEARTH_DELTA_REASONING] = "rs", [HEARTH_DELTA_CONTENT] = "msg", [HEARTH_DELTA_CALL] = "fc"
    };
    const hth_api_item *item = &choice->items[i];
    bool is_custom = item->kind == HEARTH_DELTA_CALL && hth_api_responses_is_custom(reply, choice, item);

    (void)snprintf(id, HTH_RESPONSES_ID_BYTES, "%s_%s_%zu", is_custom ? "ctc" : prefixes[item->kind], reply->id,
                   i); /* fits */
    return id;
}

json_t *hth_api_responses_text(const hth_api_choice *choice, const hth_api_item *item)
{
    const hth_buffer *all = item->kind == HEARTH_DELTA_CONTENT ? &choice->content : &choice->reasoning;

    return json_stringn(hth_buffer_text(all) + item->begin, item->end - item->begin);
}

bool hth_api_responses_is_custom(const hth_api_reply *reply, const hth_api_choice *choice, const hth_api_item *item)
{
    const hth_api_responses_tool *tool =
        hth_api_responses_tool_find(reply->request->responses, choice->calls[item->call].name);

    return tool && tool->is_custom;
}

/* The text for a tool whose input is a text: the one argument, or all arguments when the model wrote something else. */
json_t *hth_api_responses_input(const hth_api_call *call)
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
    char id[HTH_RESPONSES_ID_BYTES];
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s}", "type", tool && tool->is_custom ? "custom_tool_call" : "function_call", "id",
        hth_api_responses_item_id(reply, choice, i, id), "call_id", call->id, "name", tool ? tool->name : call->name);

    if (tool && tool->name_space)
        json_object_set_new(object, "namespace", json_string(tool->name_space));
    if (tool && tool->is_custom)
        json_object_set_new(object, "input", is_empty ? json_string("") : hth_api_responses_input(call));
    else
        json_object_set_new(object, "arguments",
                            is_empty ? json_string("")
                                     : json_stringn(hth_buffer_text(&call->arguments), call->arguments.n));
    json_object_set_new(object, "status", json_string(status));
    return object;
}

json_t *hth_api_responses_part(hth_api_reply *reply, const hth_api_choice *choice, const hth_api_item *item,
                               bool is_empty)
{
    json_t *text = is_empty ? json_string("") : hth_api_responses_text(choice, item);

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
    char id[HTH_RESPONSES_ID_BYTES];
    json_t *parts = json_array(), *object;

    if (!is_empty)
        json_array_append_new(parts, hth_api_responses_part(reply, choice, item, false));
    object = json_pack("{s:s, s:s, s:o}", "type", "reasoning", "id", hth_api_responses_item_id(reply, choice, i, id),
                       "summary", asked->has_summary ? parts : json_array());
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

json_t *hth_api_responses_item(hth_api_reply *reply, const hth_api_choice *choice, size_t i, const char *status,
                               bool is_empty)
{
    const hth_api_item *item = &choice->items[i];
    char id[HTH_RESPONSES_ID_BYTES];
    json_t *content;

    if (item->kind == HEARTH_DELTA_CALL)
        return call_json(reply, choice, i, status, is_empty);
    if (item->kind == HEARTH_DELTA_REASONING)
        return reasoning_json(reply, choice, i, status, is_empty);
    content = json_array();
    if (!is_empty)
        json_array_append_new(content, hth_api_responses_part(reply, choice, item, false));
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "type", "message", "id",
                     hth_api_responses_item_id(reply, choice, i, id), "status", status, "role", "assistant", "content",
                     content);
}

/* ---- the object ---- */

/* The client's value of a field, or otherwise, which is taken. */
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
        (void)json_object_update(object, asked); /* without memory the object lacks a member */
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

json_t *hth_api_responses_object(const hth_api_reply *reply, const char *status, json_t *output_take)
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

bool hth_api_responses_is_cut(const hth_api_choice *choice)
{
    return choice->finish != HEARTH_FINISH_STOP;
}

json_t *hth_api_responses_ended(hth_api_reply *reply, const hth_api_choice *choice)
{
    const hearth_stats *stats = &choice->stats;
    double ms = stats->queue_ms + stats->restore_ms + stats->prefill_ms + stats->decode_ms;
    bool is_cut = hth_api_responses_is_cut(choice);
    json_t *output = json_array(), *object;

    for (size_t i = 0; i < choice->n_items; i++)
        json_array_append_new(output,
                              hth_api_responses_item(reply, choice, i, hth_api_responses_status(choice, i), false));
    object = hth_api_responses_object(reply, is_cut ? "incomplete" : "completed", output);
    if (is_cut)
        json_object_set_new(object, "incomplete_details", json_pack("{s:s}", "reason", "max_output_tokens"));
    else /* from the reply's own times, which a second worker knows, too */
        json_object_set_new(object, "completed_at", json_integer(reply->created_s + (json_int_t)(ms / 1000)));
    json_object_set_new(object, "usage", hth_api_usage_responses(reply));
    return object;
}

const char *hth_api_responses_status(const hth_api_choice *choice, size_t i)
{
    return hth_api_responses_is_cut(choice) && i + 1 == choice->n_items ? "incomplete" : "completed";
}

static void put_record(const hth_api_reply *reply, json_t *response_take, hth_buffer *out)
{
    char id[HTH_RESPONSES_ID_BYTES];

    (void)snprintf(id, sizeof(id), "resp_%s", reply->id); /* fits */
    hth_response_record_add(out, id, response_take, reply->request->items);
    json_decref(response_take);
}

void hth_api_reply_record(hth_api_reply *reply, hth_buffer *out)
{
    const hth_api_responses *asked = reply->request->responses;

    if (asked && asked->is_kept && reply->has_ended && reply->failure == 0)
        put_record(reply, hth_api_responses_ended(reply, &reply->choices[0]), out);
}

void hth_api_reply_record_begun(const hth_api_reply *reply, hth_buffer *out)
{
    const hth_api_responses *asked = reply->request->responses;

    if (asked && asked->in_background && !reply->request->stream)
        put_record(reply, hth_api_responses_object(reply, "in_progress", json_array()), out);
}

/* ---- all at once ---- */

static void put_choice_body(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    hth_buffer_add_json_take(out, hth_api_responses_ended(reply, choice));
}

const hth_api_writer hth_api_write_responses = {
    .has_items = true,
    .begin = hth_api_responses_begin,
    .idle = hth_api_responses_idle,
    .progress = hth_api_responses_progress,
    .delta = hth_api_responses_delta,
    .choice_end = hth_api_responses_choice_end,
    .fail = hth_api_responses_fail,
    .choice_body = put_choice_body,
};
