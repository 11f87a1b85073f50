/*
 * peek_fuzz.c - what is found in any body, and that it is what the parser finds
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/peek.h"
#include "base/json_bounds.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* A body that the parser takes, too. */
static void compare(const json_t *body, const hth_api_peeked *peeked)
{
    const json_t *model = json_object_get(body, "model"), *stream = json_object_get(body, "stream");

    require(peeked->has_model == json_is_string(model));
    if (peeked->has_model && !peeked->model_is_cut)
        require(strcmp(peeked->model, json_string_value(model)) == 0);
    if (peeked->model_is_cut)
        require(json_string_length(model) > HTH_API_PEEK_MODEL_BYTES_MAX);
    require(peeked->has_stream == json_is_boolean(stream));
    require(peeked->stream == json_is_true(stream));
}

/* The response that a body goes on from is the one that the parser finds, where it can be one of ours. */
static void compare_past(const json_t *body, const hth_api_peeked_past *past)
{
    const char *id = json_string_value(json_object_get(body, "previous_response_id"));
    bool is_found = false;

    for (size_t i = 0; i < past->n; i++) {
        require(strncmp(past->ids[i], "resp_", 5) == 0 && strlen(past->ids[i]) < HTH_API_PEEK_ID_BYTES);
        is_found = is_found || (id && strcmp(past->ids[i], id) == 0);
    }
    if (id && strncmp(id, "resp_", 5) == 0 && strlen(id) > 5 && strlen(id) < HTH_API_PEEK_ID_BYTES)
        require(is_found || past->n == HTH_API_PEEK_PAST_MAX);
}

/* The parts lie in the body, one behind the other. How many there are. */
static size_t check_beginning(const char *text, size_t n_bytes)
{
    hth_api_span spans[HTH_API_PEEK_SPANS_MAX];
    const size_t n = hth_api_peek_beginning(text, n_bytes, spans);
    const char *at = text;

    require(n <= HTH_API_PEEK_SPANS_MAX);
    for (size_t i = 0; i < n; i++) {
        require(spans[i].n > 0 && spans[i].at >= at && spans[i].n <= (size_t)(text + n_bytes - spans[i].at));
        at = spans[i].at + spans[i].n;
    }
    return n;
}

/* There is a part for each member that can have one. */
static void compare_beginning(const json_t *body, size_t n)
{
    static const char *const keys[] = { "system", "instructions", "messages", "input", "prompt" };
    size_t n_members = 0;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        n_members += json_object_get(body, keys[i]) != NULL;
    require(n == (n_members < HTH_API_PEEK_SPANS_MAX ? n_members : HTH_API_PEEK_SPANS_MAX));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    const char *text = (const char *)bytes;
    hth_api_peeked peeked;
    hth_api_peeked_past past;
    bool is_object = hth_api_peek(text, n_bytes, &peeked);
    bool is_whole = hth_api_peek_past(text, n_bytes, &past);
    size_t n_parts = check_beginning(text, n_bytes);
    uint64_t keep_ms = 7;
    json_t *body = NULL;

    require(hth_api_peek_keep_alive(text, n_bytes, &keep_ms) || keep_ms == 7);
    require(strlen(peeked.model) <= HTH_API_PEEK_MODEL_BYTES_MAX);
    /* jansson 2.14 passes over a zero byte behind a number or a word. */
    if (n_bytes > 0 && !memchr(text, '\0', n_bytes) && hth_json_is_within(text, n_bytes, 64, 1000000))
        body = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(body)) {
        require(is_object);
        compare(body, &peeked);
        require(is_whole);
        compare_past(body, &past);
        compare_beginning(body, n_parts);
    }
    json_decref(body);
    return 0;
}
