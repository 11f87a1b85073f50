/*
 * counted_server.c - hot paths of requests and of streamed replies
 */
#include <stdlib.h>
#include <string.h>

#include "api/peek.h"
#include "api/reply.h"
#include "dialects/request_parse.h"
#include "history/history.h"
#include "counted.h"
#include "report.h"
#include "http/http_head.h"
#include "wire/frames.h"

enum { N_TURNS = 20, N_PIECES = 64 };

/* A chat of N_TURNS questions and answers, the caller's. */
static void make_chat(hth_buffer *out)
{
    hth_buffer_add_text(out, "{\"model\":\"m\",\"temperature\":0.7,\"messages\":[");
    for (unsigned i = 0; i < N_TURNS; i++)
        hth_buffer_add_text(
            out, "{\"role\":\"user\",\"content\":\"Which of these files holds the options of the server?\"},"
                 "{\"role\":\"assistant\",\"content\":\"It is \\\"serve_options.c\\\", beside the table.\\nShall I "
                 "open it?\"},");
    hth_buffer_add_text(out, "{\"role\":\"user\",\"content\":\"Yes.\"}],\"tools\":[{\"type\":\"function\",\"function\":"
                             "{\"name\":\"open\",\"parameters\":{\"type\":\"object\",\"properties\":{\"path\":"
                             "{\"type\":\"string\"}},\"required\":[\"path\"]}}}],\"stream\":true}");
    if (out->failed)
        hth_report_die("no memory for a chat");
}

static void count_head(void)
{
    static const char text[] =
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: application/json\r\n"
        "Content-Type: application/json\r\nUser-Agent: counted/1.0\r\nConnection: keep-alive\r\n"
        "Authorization: Bearer 0123456789abcdef\r\nAccept-Encoding: gzip, deflate\r\n"
        "Content-Length: 4096\r\n\r\n";
    char copy[sizeof(text)];
    hth_http_head head;
    const char *why;

    for (unsigned i = 0; i < 2; i++) {
        size_t n_scanned = 0;

        memcpy(copy, text, sizeof(text));
        if (i == 1)
            hth_count_begin();
        if (hth_http_head_find(copy, sizeof(text) - 1, &n_scanned) != sizeof(text) - 1 ||
            hth_http_head_parse(copy, sizeof(text) - 1, &head, &why) != 0 ||
            !hth_http_head_field(&head, copy, "authorization"))
            hth_report_die("the head was refused");
    }
    hth_count_end("head of an HTTP request");
}

static void count_peek(const hth_buffer *chat)
{
    hth_api_peeked peeked;

    for (unsigned i = 0; i < 2; i++) {
        if (i == 1)
            hth_count_begin();
        if (!hth_api_peek(chat->text, chat->n, &peeked) || !peeked.stream)
            hth_report_die("the front misread the chat");
    }
    hth_count_end("look for the model in a chat of 20 turns");
}

static hth_api_request *parse(const hth_buffer *chat)
{
    hth_api_error error;
    hth_api_request *request = hth_api_request_parse(HTH_API_CHAT, chat->text, chat->n, NULL, &error);

    if (!request)
        hth_report_die("%s", error.message);
    return request;
}

static void count_parse(const hth_buffer *chat)
{
    hth_api_request_free(parse(chat));
    hth_count_begin();
    hth_api_request_free(parse(chat));
    hth_count_end("parse a chat of 20 turns");
}

static bool always(size_t n_bytes, void *user_data)
{
    (void)n_bytes;
    (void)user_data;
    return true;
}

static void count_history(const hth_buffer *chat)
{
    static const hth_history_space space = { .bytes = { 1 } };
    hth_history *history = hth_history_new((size_t)1 << 20, UINT32_MAX);
    hearth_token *tokens = calloc(chat->n, sizeof(*tokens));
    hth_history_found found = { .n_bytes = 0 };

    if (!history || !tokens)
        hth_report_die("no memory for a history");
    for (size_t i = 1; i <= N_TURNS; i++)
        hth_history_add(history, &space, chat->text, chat->n * i / N_TURNS, 0, tokens, chat->n * i / N_TURNS / 4);
    for (unsigned i = 0; i < 2; i++) {
        free(found.tokens);
        if (i == 1)
            hth_count_begin();
        if (!hth_history_find(history, &space, chat->text, chat->n, always, NULL, &found) || found.n_bytes != chat->n)
            hth_report_die("the history does not know the chat");
    }
    hth_count_end("tokens of a known chat of 20 turns");
    free(found.tokens);
    free(tokens);
    hth_history_free(history);
}

void hth_count_requests(void)
{
    hth_buffer chat = { .n = 0 };

    make_chat(&chat);
    count_head();
    count_peek(&chat);
    count_parse(&chat);
    count_history(&chat);
    hth_buffer_deinit(&chat);
}

/* ---- replies ---- */

static void stream_pieces(hth_api_reply *reply, uint32_t index, hth_buffer *out)
{
    static const char piece[] = " warm";

    for (uint32_t i = 0; i < N_PIECES; i++) {
        hth_api_reply_token(reply, 0, &(hearth_token_event){ .token = 'x', .index = index + i, .text = piece }, out);
        hth_api_reply_text(reply, 0, piece, sizeof(piece) - 1, out);
        if (out->n == 0 || out->failed)
            hth_report_die("a piece of text gave no event");
        hth_buffer_clear(out);
    }
}

static void count_chunks(hearth_model *model)
{
    static const char body[] = "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}";
    const hth_api_reply_options options = { .model = "m", .id = "0123", .created_s = 1700000000 };
    hth_api_error error;
    hth_api_prepared prepared = { .n_requests = 0 };
    hth_api_request *request = parse(&(hth_buffer){ .text = (char *)body, .n = sizeof(body) - 1 });
    hth_api_reply *reply = NULL;
    hth_buffer out = { .n = 0 };

    if (hth_api_prepare(model, request, 7, NULL, &prepared, &error))
        reply = hth_api_reply_new(model, request, &prepared, &options, &error);
    if (!reply)
        hth_report_die("%s", error.message);
    stream_pieces(reply, 0, &out);
    hth_count_begin();
    stream_pieces(reply, N_PIECES, &out);
    hth_count_end("64 chunks of a streamed chat");
    hth_buffer_deinit(&out);
    hth_api_reply_free(reply);
    hth_api_prepared_deinit(&prepared);
    hth_api_request_free(request);
}

static void pass_frames(hth_buffer *buffer)
{
    static const char event[] = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" warm\"}}]}\n\n";
    const hearth_token token = 7;
    hth_frame frame;
    size_t used, at = 0;

    hth_buffer_clear(buffer);
    for (unsigned i = 0; i < N_PIECES; i++)
        hth_frame_add_step(buffer, 0, 0, &(hth_frame_tokens){ .ids = &token, .n = 1 }, event, sizeof(event) - 1);
    for (unsigned i = 0; i < N_PIECES; i++, at += used)
        if (hth_frame_read(buffer->text + at, buffer->n - at, &frame, &used) != HTH_FRAME_OK)
            hth_report_die("a frame is damaged");
}

static void count_frames(void)
{
    hth_buffer buffer = { .n = 0 };

    pass_frames(&buffer);
    hth_count_begin();
    pass_frames(&buffer);
    hth_count_end("64 frames between worker and front");
    hth_buffer_deinit(&buffer);
}

void hth_count_replies(void)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options model_options = hearth_model_options_default();
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_error err = { .message = "" };

    options.log = hth_report_log;
    hth_report_check(hearth_runtime_open(&options, &runtime, &err), &err);
    hth_report_check(hearth_model_load(runtime, "stub:", &model_options, &model, &err), &err);
    count_chunks(model);
    count_frames();
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
}
