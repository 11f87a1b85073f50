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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    const char *text = (const char *)bytes;
    hth_api_peeked peeked;
    bool is_object = hth_api_peek(text, n_bytes, &peeked);
    json_t *body = NULL;

    require(strlen(peeked.model) <= HTH_API_PEEK_MODEL_BYTES_MAX);
    /* jansson 2.14 passes over a zero byte behind a number or a word. */
    if (n_bytes > 0 && !memchr(text, '\0', n_bytes) && hth_json_is_within(text, n_bytes, 64, 1000000))
        body = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(body)) {
        require(is_object);
        compare(body, &peeked);
    }
    json_decref(body);
    return 0;
}
