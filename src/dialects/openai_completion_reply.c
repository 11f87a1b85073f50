/*
 * openai_completion_reply.c - text_completion, as a stream or a body
 */
#include <math.h>

#include "api/logprobs.h"
#include "api/sse.h"
#include "dialects/kinds.h"
#include "dialects/openai_body.h"

/* ---- log probabilities: four arrays side by side ---- */

static json_t *token_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i)
{
    bool is_whole;

    return hth_api_token_text(reply, choice->told.tokens[i].id, &is_whole);
}

static json_t *logprob_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i)
{
    (void)reply;
    return hth_api_logprob(hth_api_told_logprobs(&choice->told, i)[0].logprob);
}

static json_t *top_json(hth_api_reply *reply, const hth_api_choice *choice, size_t i)
{
    const hearth_logprob *logprobs = hth_api_told_logprobs(&choice->told, i);
    json_t *top;

    if (isnan(logprobs[0].logprob))
        return json_null(); /* the first token has no probability */
    top = json_object();
    for (size_t k = 1; k < choice->told.n_each && logprobs[k].token >= 0; k++) {
        bool is_whole;
        json_t *name = hth_api_token_text(reply, logprobs[k].token, &is_whole);

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
    return json_integer((json_int_t)choice->told.tokens[i].text_begin);
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
    size_t n = choice->told.n;
    json_t *logprobs;

    if (n == 0)
        return json_null();
    logprobs = json_pack("{s:o, s:o, s:o, s:o}", "tokens", hth_api_logprob_entries(reply, choice, 0, n, token_json),
                         "token_logprobs", hth_api_logprob_entries(reply, choice, 0, n, logprob_json), "top_logprobs",
                         hth_api_logprob_entries(reply, choice, 0, n, top_json), "text_offset",
                         hth_api_logprob_entries(reply, choice, 0, n, offset_json));
    hth_api_told_clear(&choice->told);
    return logprobs;
}

/* ---- the stream ---- */

static json_t *envelope(const hth_api_reply *reply)
{
    return hth_api_openai_envelope(reply, "cmpl-", "text_completion");
}

static json_t *chunk_json(hth_api_reply *reply, hth_api_choice *choice, const char *text, size_t n, const char *reason)
{
    return hth_api_openai_chunk(reply, envelope(reply),
                                json_pack("{s:I, s:s%, s:o, s:s?}", "index", (json_int_t)choice->index, "text", text, n,
                                          "logprobs", take_logprobs(reply, choice), "finish_reason", reason));
}

/* In llama.cpp's form. */
static void put_progress(hth_api_reply *reply, hth_api_choice *choice, json_t *progress, hth_buffer *out)
{
    json_t *chunk = chunk_json(reply, choice, "", 0, NULL);

    json_object_set_new(chunk, "prompt_progress", progress);
    hth_api_openai_put_delta(reply, choice, chunk, out);
}

static void put_delta(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta, hth_buffer *out)
{
    hth_api_openai_put_delta(reply, choice, chunk_json(reply, choice, delta->text, delta->n_bytes, NULL), out);
}

static void put_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    hth_api_openai_put_choice_end(reply, chunk_json(reply, choice, "", 0, hth_api_openai_finish_reason(reply, choice)),
                                  out);
}

static void put_end(hth_api_reply *reply, hth_buffer *out)
{
    hth_api_openai_put_end(reply, envelope(reply), out);
}

/* ---- all at once ---- */

static void put_body_begin(hth_api_reply *reply, hth_buffer *out)
{
    hth_api_openai_body_begin_take(envelope(reply), out);
}

static void put_choice_body(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out)
{
    (void)reply;
    hth_api_openai_choice_begin_take(json_pack("{s:I, s:s%}", "index", (json_int_t)choice->index, "text",
                                               hth_buffer_text(&choice->content), choice->content.n),
                                     out);
}

const hth_api_writer hth_api_write_completion = {
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
