/*
 * relay_tests.h - what the tests of the proxy share: their fixture, the scripts of replies, and checks of what arrived
 */
#ifndef HTH_TESTS_RELAY_TESTS_H
#define HTH_TESTS_RELAY_TESTS_H

#include <jansson.h>
#include <string.h>

#include "support/relay_stage.h"

/* ---- scripts ---- */

static const char events[] = "text/event-stream", json[] = "application/json";

static const script_step stream_steps[] = {
    { .tokens = { 1 }, .n_tokens = 1, .bytes = "data: one\n\n" },
    { .tokens = { 2, 3 }, .n_tokens = 2, .bytes = "" },
    { .tokens = { 4 }, .n_tokens = 1, .bytes = "data: two three four\n\n" },
    { .tokens = { -5 }, .n_tokens = 1, .bytes = "data: five\n\ndata: more\n\n" },
    { .tokens = { 6 }, .n_tokens = 1, .bytes = "" },
    { .has_ended = true, .bytes = "data: six\n\ndata: [DONE]\n\n" },
};
static const char stream_text[] = "data: one\n\ndata: two three four\n\ndata: five\n\ndata: more\n\ndata: six\n\ndata: "
                                  "[DONE]\n\n";
static const reply_script stream = { .status = 200,
                                     .is_stream = true,
                                     .content_type = events,
                                     .steps = stream_steps,
                                     .n_steps = sizeof(stream_steps) / sizeof(stream_steps[0]) };

static const script_step whole_steps[] = {
    { .tokens = { 1 }, .n_tokens = 1, .bytes = "" },
    { .tokens = { 2, 3, 4 }, .n_tokens = 3, .bytes = "" },
    { .has_ended = true, .bytes = "{\"text\":\"all of it\"}" },
};
static const reply_script whole = {
    .status = 200, .content_type = json, .steps = whole_steps, .n_steps = sizeof(whole_steps) / sizeof(whole_steps[0])
};

static const script_step choices_steps[] = {
    { .reply = 0, .n_cached = 733 },
    { .reply = 2, .n_cached = 1 },
    { .reply = 0, .tokens = { 10 }, .n_tokens = 1, .bytes = "data: 0a\n\n" },
    { .reply = 2, .tokens = { 30 }, .n_tokens = 1, .bytes = "data: 2a\n\n" },
    { .reply = 1, .n_cached = 20 },
    { .reply = 1, .tokens = { 20, 21 }, .n_tokens = 2, .bytes = "data: 1a\n\n" },
    { .reply = 0, .tokens = { 11 }, .n_tokens = 1, .bytes = "", .has_ended = true },
    { .reply = 2, .tokens = { 31, 32 }, .n_tokens = 2, .bytes = "data: 2b\n\n" },
    { .reply = 2, .bytes = "data: 2c\n\n", .has_ended = true },
    { .reply = 1, .tokens = { 22 }, .n_tokens = 1, .bytes = "data: 1b\n\ndata: [DONE]\n\n", .has_ended = true },
};
static const char choices_text[] =
    "data: 0a\n\ndata: 2a\n\ndata: 1a\n\ndata: 2b\n\ndata: 2c\n\ndata: 1b\n\ndata: [DONE]\n\n";
static const reply_script choices = { .status = 200,
                                      .is_stream = true,
                                      .content_type = events,
                                      .steps = choices_steps,
                                      .n_steps = sizeof(choices_steps) / sizeof(choices_steps[0]) };

/* ---- the fixture ---- */

#define STAGED(name) TEST_WITH(relay_stage, stage, name, relay_stage_open, relay_stage_close)

static inline void set_options(relay_stage *stage)
{
    hth_proxy_free(stage->proxy);
    assert_int_equal(hth_proxy_new(&stage->options, &stage->proxy, NULL), HEARTH_OK);
}

static inline void begin_with(relay_stage *stage, const reply_script *script)
{
    forget_runs(stage);
    memset(stage->runs, 0, sizeof(stage->runs));
    stage->script = script;
    if (!stage->supervisor.worker)
        worker_start(&stage->supervisor);
}

/* The first run is the script's. The second one is refused, and those after it get nothing. */
static inline void refuse_later(fake_connection *connection, const fake_request *request, void *user_data)
{
    relay_stage *stage = user_data;
    const char *body = stage->dialect == HTH_API_OLLAMA ? "{\"error\":\"too many wait\"}"
                                                        : "{\"error\":{\"message\":\"too many wait\"}}";
    hth_buffer out = { .text = NULL }, frame = { .text = NULL };
    const hth_frame_summary summary = { .status = 503 };

    if (stage->n_runs == 0) {
        play(connection, request, stage);
        return;
    }
    if (note_run(stage, request) == 1 && stage->model[0] == 't') {
        script_head(&out, HTH_FRAMES_CONTENT_TYPE);
        hth_frame_add_head(&frame, 503, false, 1, json, NULL);
        hth_frame_add_bytes(&frame, body, strlen(body));
        hth_frame_add_end(&frame, &summary);
        script_chunk(&out, &frame);
        hth_buffer_clear(&frame);
        script_chunk(&out, &frame);
    }
    fake_write(connection, out.text, out.n);
    hth_buffer_deinit(&frame);
    hth_buffer_deinit(&out);
}

static inline void turn(relay_stage *stage)
{
    for (int i = 0; i < 20; i++)
        hth_test_http_turn(&stage->http);
}

/* ---- checks ---- */

static inline void header(const relay_stage *stage, unsigned run, const char *name, char *value, size_t capacity)
{
    const fake_request request = { .head = stage->heads[run] };

    if (!fake_request_header(&request, name, value, capacity))
        fail_msg("no header %s", name);
}

static inline void assert_error_body(const hth_buffer *body, hth_api_dialect dialect, const char *says)
{
    json_t *value = json_loads(hth_buffer_text(body), 0, NULL);
    const char *message = json_string_value(json_object_get(json_object_get(value, "error"), "message"));

    assert_non_null(message);
    if (!strstr(message, says))
        fail_msg("'%s' does not say '%s'", message, says);
    assert_int_equal(json_object_get(value, "type") != NULL, dialect == HTH_API_ANTHROPIC);
    json_decref(value);
}

#endif
