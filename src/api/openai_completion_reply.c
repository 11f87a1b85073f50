/*
 * openai_completion_reply.c - text_completion, streamed and whole
 */
#include <string.h>

#include "api/reply_inside.h"
#include "api/sse.h"
#include "api/usage.h"

static const char *finish_reason(const hth_api_choice *choice)
{
    return choice->finish != HEARTH_FINISH_STOP ? "length" : "stop";
}

/* {"tokens", "token_logprobs", "top_logprobs", "text_offset"}: four arrays side by side */
static void put_logprobs(hth_api_reply *reply, hth_api_choice *choice, const hearth_token_event *event)
{
    json_t *top = json_object();
    bool is_whole;

    if (!choice->logprobs)
        choice->logprobs =
            json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs", "top_logprobs", "text_offset");
    for (uint32_t i = 0; i < event->n_top_logprobs; i++) {
        json_t *name = hth_api_token_text(reply, event->logprobs[1 + i].token, &is_whole);

        /* Likelier ones come first; of those that are written alike, the likeliest counts. */
        if (!json_object_get(top, json_string_value(name)))
            json_object_set_new(top, json_string_value(name), hth_api_logprob(event->logprobs[1 + i].logprob));
        json_decref(name);
    }
    json_array_append_new(json_object_get(choice->logprobs, "tokens"),
                          hth_api_token_text(reply, event->token, &is_whole));
    json_array_append_new(json_object_get(choice->logprobs, "token_logprobs"),
                          hth_api_logprob(event->logprobs[0].logprob));
    json_array_append_new(json_object_get(choice->logprobs, "top_logprobs"), top);
    json_array_append_new(json_object_get(choice->logprobs, "text_offset"), json_integer((json_int_t)choice->n_text));
}

static json_t *take_logprobs(hth_api_choice *choice)
{
    json_t *logprobs = choice->logprobs;

    choice->logprobs = NULL;
    return logprobs ? logprobs : json_null();
}

static json_t *envelope(const hth_api_reply *reply)
{
    return json_pack("{s:s+, s:s, s:I, s:s, s:s}", "id", "cmpl-", reply->id, "object", "text_completion", "created",
                     reply->created_s, "model", reply->model, "system_fingerprint", "hearth-" HEARTH_VERSION);
}

static void put_chunk(const hth_api_reply *reply, hth_api_choice *choice, const char *text, size_t n,
                      const char *reason, hth_buffer *out)
{
    json_t *chunk = envelope(reply);

    json_object_set_new(chunk, "choices",
                        json_pack("[{s:I, s:s%, s:o, s:s?}]", "index", (json_int_t)choice->index, "text", text, n,
                                  "logprobs", take_logprobs(choice), "finish_reason", reason));
    if (reply->request->include_usage)
        json_object_set_new(chunk, "usage", json_null());
    hth_sse_add_take(out, NULL, chunk);
}

static void put_delta(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta, hth_buffer *out)
{
    put_chunk(reply, choice, delta->text, delta->n_bytes, NULL, out);
}

static void put_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    put_chunk(reply, choice, "", 0, finish_reason(choice), out);
}

static void put_end(hth_api_reply *reply, hth_buffer *out)
{
    if (reply->request->include_usage) {
        json_t *chunk = envelope(reply);

        json_object_set_new(chunk, "choices", json_array());
        json_object_set_new(chunk, "usage", hth_api_usage_openai(reply));
        hth_sse_add_take(out, NULL, chunk);
    }
    hth_sse_add_done(out);
}

static json_t *whole(hth_api_reply *reply)
{
    json_t *body = envelope(reply);
    json_t *choices = json_array();

    for (size_t i = 0; i < reply->n_choices; i++) {
        hth_api_choice *choice = &reply->choices[i];

        json_array_append_new(choices, json_pack("{s:I, s:s%, s:o, s:s}", "index", (json_int_t)i, "text",
                                                 hth_buffer_text(&choice->content), choice->content.n, "logprobs",
                                                 take_logprobs(choice), "finish_reason", finish_reason(choice)));
    }
    json_object_set_new(body, "choices", choices);
    json_object_set_new(body, "usage", hth_api_usage_openai(reply));
    return body;
}

const hth_api_writer hth_api_write_completion = {
    .delta = put_delta,
    .choice_end = put_choice_end,
    .end = put_end,
    .whole = whole,
    .logprobs = put_logprobs,
};
