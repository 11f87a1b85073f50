/*
 * api_input.h - what the fuzz targets of the API's parsers do with an input
 *
 * An input is a body and, behind a zero byte, the reply of a model. The body is parsed and prepared for a stub model;
 * where it is one that generates, the reply is written twice, as a stream and as a body. What must hold: an error is
 * one, whole and in the API's shape, or there is none; every event is JSON; the stream says the text that the body
 * says. A request for embeddings is answered by the stub, and the answer is JSON.
 */
#ifndef HTH_TESTS_API_INPUT_H
#define HTH_TESTS_API_INPUT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/reply.h"
#include "dialects/answers.h"
#include "dialects/request_parse.h"

static hearth_model *fuzz_model(void)
{
    static hearth_runtime *runtime;
    static hearth_model *model;
    hearth_runtime_options options = hearth_runtime_options_default();

    options.cache_disabled = true;
    if (!model && (hearth_runtime_open(&options, &runtime, NULL) != HEARTH_OK ||
                   hearth_model_load(runtime, "stub:labels=2", NULL, &model, NULL) != HEARTH_OK))
        abort();
    return model;
}

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_error(hth_api_kind kind, const hth_api_error *error)
{
    hth_buffer out = { .text = NULL };
    json_t *body;

    require(error->kind != HTH_API_NO_ERROR && error->message[0]);
    require(hth_api_error_http_status(hth_api_kind_dialect(kind), error) >= 400);
    hth_api_error_write(hth_api_kind_dialect(kind), error, &out);
    body = json_loads(hth_buffer_text(&out), 0, NULL);
    require(body && json_object_get(body, "error"));
    json_decref(body);
    hth_buffer_deinit(&out);
}

/* Every event of a stream is JSON; texts of those that have one are joined in said. */
static void read_events(char *text, hth_buffer *said)
{
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *event, *choice, *content;

        if (*line != '{' && strncmp(line, "data: ", 6) != 0) {
            require(strncmp(line, "event: ", 7) == 0);
            continue;
        }
        if (strcmp(line, "data: [DONE]") == 0)
            continue;
        event = json_loads(*line == '{' ? line : line + 6, 0, NULL); /* Ollama's are lines */
        require(event != NULL);
        choice = json_array_get(json_object_get(event, "choices"), 0);
        content = json_object_get(json_object_get(choice, "delta"), "content");
        if (!content)
            content = json_object_get(choice, "text");
        if (!content)
            content = json_object_get(json_object_get(event, "delta"), "text");
        if (!content)
            content = json_object_get(event, "content");
        if (!content)
            content = json_object_get(json_object_get(event, "message"), "content");
        if (!content)
            content = json_object_get(event, "response");
        if (json_is_string(content))
            hth_buffer_add(said, json_string_value(content), json_string_length(content));
        json_decref(event);
    }
}

/* The text of a body's first choice. */
static void read_body(const char *text, hth_buffer *said)
{
    json_t *body = json_loads(text, 0, NULL);
    json_t *first = json_is_array(body) ? json_array_get(body, 0) : body;
    json_t *choice = json_array_get(json_object_get(first, "choices"), 0);
    json_t *content = json_object_get(json_object_get(choice, "message"), "content"), *block;
    size_t i;

    require(body != NULL);
    if (!content)
        content = json_object_get(choice, "text");
    if (!content)
        content = json_object_get(first, "content");
    if (!content)
        content = json_object_get(json_object_get(first, "message"), "content");
    if (!content)
        content = json_object_get(first, "response");
    json_array_foreach(content, i, block) if (json_object_get(block, "text"))
        hth_buffer_add_text(said, json_string_value(json_object_get(block, "text")));
    if (json_is_string(content))
        hth_buffer_add_text(said, json_string_value(content));
    json_decref(body);
}

/* Write a reply in pieces; the other choices, where there are any, are empty. */
static void write_reply(const hth_api_request *request, const hth_api_prepared *prepared, const char *text, size_t n,
                        hth_buffer *out)
{
    const hth_api_reply_options options = { .model = "m", .id = "1" };
    static const hearth_stats stats = { .struct_size = sizeof(stats) };
    hearth_result result = { .stats = &stats, .status = HEARTH_OK, .finish_reason = HEARTH_FINISH_STOP };
    hth_api_error error;
    hth_api_reply *reply = hth_api_reply_new(fuzz_model(), request, prepared, &options, &error);

    require(reply != NULL);
    result.text = "";
    for (size_t at = 0; at < n;) {
        size_t n_piece = 1 + (unsigned char)text[at] % 7;

        if (n_piece > n - at)
            n_piece = n - at;
        while (at + n_piece < n && ((unsigned char)text[at + n_piece] & 0xc0) == 0x80)
            n_piece++;
        hth_api_reply_text(reply, 0, text + at, n_piece, out);
        at += n_piece;
    }
    for (size_t i = 0; i < hth_api_reply_n(reply); i++)
        hth_api_reply_done(reply, i, &result, out);
    require(hth_api_reply_has_ended(reply));
    if (!request->stream)
        require(hth_api_reply_body(reply, SIZE_MAX, out));
    require(!out->failed);
    hth_api_reply_free(reply);
}

static void write_both(hth_api_request *request, const hth_api_prepared *prepared, const char *text, size_t n)
{
    hth_buffer stream = { .text = NULL }, body = { .text = NULL }, a = { .text = NULL }, b = { .text = NULL };
    json_t *checked = json_stringn(text, n); /* the library gives UTF-8 without zeros only */

    if (checked && !memchr(text, 0, n)) {
        request->stream = true;
        write_reply(request, prepared, text, n, &stream);
        request->stream = false;
        write_reply(request, prepared, text, n, &body);
        if (stream.text)
            read_events(stream.text, &a);
        read_body(hth_buffer_text(&body), &b);
        if (hth_api_kind_dialect(request->kind) != HTH_API_OPENAI || request->options.n * prepared->n_requests == 1)
            require(strcmp(hth_buffer_text(&a), hth_buffer_text(&b)) == 0);
    }
    json_decref(checked);
    hth_buffer_deinit(&stream);
    hth_buffer_deinit(&body);
    hth_buffer_deinit(&a);
    hth_buffer_deinit(&b);
}

static void embed(const hth_api_request *request)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    const hearth_embeddings *embeddings = NULL;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer out = { .text = NULL };
    hearth_embed_request options;
    hearth_error err;

    require(hearth_model_info_get(fuzz_model(), &info, NULL) == HEARTH_OK);
    if (request->embed->options.n_inputs > 0 && hth_api_embed_options(&info, request, &options, &error) &&
        hearth_embed(fuzz_model(), &options, &embeddings, &err) != HEARTH_OK)
        hth_api_fail_status(&error, &err);
    if (error.kind == HTH_API_NO_ERROR) {
        json_t *body;

        hth_api_embed_answer *answer = hth_api_embed_answer_new(request, embeddings, "m");

        require(answer);
        while (!hth_api_embed_answer_write(answer, 1, &out))
            require(!out.failed);
        hth_api_embed_answer_free(answer);
        body = json_loads(hth_buffer_text(&out), 0, NULL);
        require(body);
        json_decref(body);
    }
    if (error.kind != HTH_API_NO_ERROR)
        check_error(request->kind, &error);
    hearth_embeddings_unref(embeddings);
    hth_buffer_deinit(&out);
}

static void fuzz_api(hth_api_kind kind, const uint8_t *bytes, size_t n_bytes)
{
    const uint8_t *zero = n_bytes ? memchr(bytes, 0, n_bytes) : NULL;
    size_t n_body = zero ? (size_t)(zero - bytes) : n_bytes;
    hth_api_prepared prepared;
    hth_api_error error;
    hth_api_request *request = hth_api_request_parse(kind, (const char *)bytes, n_body, NULL, &error);
    hth_buffer out = { .text = NULL };

    if (!request) {
        check_error(kind, &error);
        return;
    }
    require(error.kind == HTH_API_NO_ERROR);
    if (request->embed) {
        embed(request);
    } else if (kind == HTH_API_TOKENIZE || kind == HTH_API_DETOKENIZE || kind == HTH_API_APPLY_TEMPLATE ||
               kind == HTH_API_COUNT_TOKENS || kind == HTH_API_RESPONSES_TOKENS || kind == HTH_API_OLLAMA_SHOW ||
               request->is_load) {
        if (!hth_api_answer(fuzz_model(), request, &out, &error))
            check_error(kind, &error);
        hth_buffer_deinit(&out);
    } else if (!hth_api_prepare(fuzz_model(), request, 1, NULL, &prepared, &error)) {
        check_error(kind, &error);
    } else {
        if (zero)
            write_both(request, &prepared, (const char *)zero + 1, n_bytes - n_body - 1);
        hth_api_prepared_deinit(&prepared);
    }
    hth_api_request_free(request);
}

#endif
