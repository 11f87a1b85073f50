/*
 * openai_body.c - see openai_body.h
 */
#include "dialects/openai_body.h"

#include "api/sse.h"
#include "api/usage.h"

const char *hth_api_openai_finish_reason(const hth_api_reply *reply, const hth_api_choice *choice)
{
    if (choice->finish != HEARTH_FINISH_STOP)
        return "length";
    if (choice->n_calls == 0)
        return "stop";
    return reply->request->calls_are_functions ? "function_call" : "tool_calls";
}

json_t *hth_api_openai_envelope(const hth_api_reply *reply, const char *id_prefix, const char *object)
{
    return json_pack("{s:s+, s:s, s:I, s:s, s:s}", "id", id_prefix, reply->id, "object", object, "created",
                     reply->created_s, "model", reply->model, "system_fingerprint", "hearth-" HEARTH_VERSION);
}

static void add_timings(const hth_api_reply *reply, json_t *to)
{
    if (reply->n_choices == 1)
        hth_api_put_timings(to, &reply->choices[0].stats);
}

static bool is_verbose(const hth_api_reply *reply)
{
    return reply->request->is_verbose && reply->n_choices == 1;
}

void hth_api_openai_put_delta(const hth_api_reply *reply, const hth_api_choice *choice, json_t *chunk_take,
                              hth_buffer *out)
{
    if (reply->request->wants_timings && reply->n_choices == 1)
        hth_api_put_timings_so_far(chunk_take, choice);
    hth_sse_add_take(out, NULL, chunk_take);
}

void hth_api_openai_put_choice_end(hth_api_reply *reply, json_t *chunk_take, hth_buffer *out)
{
    if (is_verbose(reply))
        json_object_set_new(chunk_take, "__verbose", hth_api_native_final(reply, &reply->choices[0], false));
    if (!reply->request->include_usage) /* otherwise a chunk follows */
        add_timings(reply, chunk_take);
    hth_sse_add_take(out, NULL, chunk_take);
}

json_t *hth_api_openai_chunk(const hth_api_reply *reply, json_t *envelope_take, json_t *choice_take)
{
    json_object_set_new(envelope_take, "choices", json_pack("[o]", choice_take));
    if (reply->request->include_usage)
        json_object_set_new(envelope_take, "usage", json_null());
    return envelope_take;
}

void hth_api_openai_put_end(hth_api_reply *reply, json_t *envelope_take, hth_buffer *out)
{
    if (reply->request->include_usage) {
        json_object_set_new(envelope_take, "choices", json_array());
        json_object_set_new(envelope_take, "usage", hth_api_usage_openai(reply));
        add_timings(reply, envelope_take);
        hth_sse_add_take(out, NULL, envelope_take);
    } else {
        json_decref(envelope_take);
    }
    hth_sse_add_done(out);
}

void hth_api_openai_body_begin_take(json_t *envelope, hth_buffer *out)
{
    hth_api_add_open_take(out, envelope);
    hth_buffer_add_text(out, ",\"choices\":[");
}

void hth_api_openai_choice_begin_take(json_t *choice, hth_buffer *out)
{
    hth_api_add_open_take(out, choice);
    hth_buffer_add_text(out, ",\"logprobs\":");
}

void hth_api_openai_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    if (!hth_api_has_lists(reply))
        hth_buffer_add_text(out, "null");
    hth_buffer_add_text(out, ",\"finish_reason\":\"");
    hth_buffer_add_text(out, hth_api_openai_finish_reason(reply, choice));
    hth_buffer_add_text(out, "\"}");
}

void hth_api_openai_body_end(hth_api_reply *reply, hth_buffer *out)
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
