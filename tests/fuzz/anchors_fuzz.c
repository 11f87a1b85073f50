/*
 * anchors_fuzz.c - the anchors of any body, and that those of a body that the parser takes do not depend on white space
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/anchors.h"
#include "base/json_bounds.h"

enum { SMALL_BYTES = 2000 }; /* even with all the white space below, its strides are the shortest */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check(const hth_anchor *anchors, size_t n, size_t n_bytes)
{
    require(n <= HTH_ANCHORS_MAX);
    for (size_t i = 0; i < n; i++) {
        require(anchors[i].digest != 0 && anchors[i].n_bytes <= n_bytes);
        require(anchors[i].n_bytes > (i > 0 ? anchors[i - 1].n_bytes : 0));
    }
}

/* The number of anchors of a small JSON body. */
static size_t count_expected(const json_t *body)
{
    static const char *const heads[] = {
        "cache_salt",
        "lora",
        "previous_response_id",
        "raw",
        "template",
        "context",
        "chat_template_kwargs",
        "enable_thinking",
        "think",
        "reasoning",
        "reasoning_effort",
        "system",
        "instructions",
        "tools",
        "functions",
        "input_extra",
    };
    static const char *const names[] = { "messages", "input", "input_prefix", "prompt" };
    const json_t *growing = NULL;
    size_t n = 0, n_head = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !growing; i++) {
        growing = json_object_get(body, names[i]);
        if (!json_is_string(growing) && !json_is_array(growing) && !json_is_object(growing))
            growing = NULL;
    }
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        if (json_object_get(body, heads[i]) && !json_is_null(json_object_get(body, heads[i])))
            n_head = 1;
    if (!growing)
        return 0;
    if (json_is_string(growing))
        return n_head + (json_string_length(growing) > 0);
    if (json_is_object(growing))
        return n_head + 1;
    for (size_t i = 0; i < json_array_size(growing); i++) {
        const json_t *element = json_array_get(growing, i);
        const bool has_anchor = json_is_string(element) || json_is_array(element) || json_is_object(element);

        n += has_anchor && n < HTH_ANCHOR_ENDS;
        if (i + 1 == json_array_size(growing) && !has_anchor)
            n++;
    }
    return n_head + n;
}

/* Write the text, without zero bytes, with white space at all marks outside of strings. Returns the number of bytes. */
static size_t write_spaced(const char *text, size_t n, char *out)
{
    bool in_string = false, is_escaped = false;
    size_t n_out = 0;

    for (size_t i = 0; i < n; i++) {
        const bool is_mark = !in_string && strchr("[]{},:", text[i]);

        if (is_mark)
            out[n_out++] = '\n';
        out[n_out++] = text[i];
        if (is_mark)
            out[n_out++] = ' ';
        in_string = text[i] == '"' && !is_escaped ? !in_string : in_string;
        is_escaped = in_string && text[i] == '\\' && !is_escaped;
    }
    return n_out;
}

static void compare_spaced(const char *text, size_t n_text, const hth_anchor *anchors, size_t n)
{
    hth_anchor others[HTH_ANCHORS_MAX];
    char spaced[3 * SMALL_BYTES];

    require(hth_api_anchors("s", 1, spaced, write_spaced(text, n_text, spaced), others) == n);
    for (size_t i = 0; i < n; i++)
        require(others[i].digest == anchors[i].digest && others[i].n_bytes == anchors[i].n_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    const char *text = (const char *)bytes;
    hth_anchor anchors[HTH_ANCHORS_MAX];
    const size_t n = hth_api_anchors("s", 1, text, n_bytes, anchors);
    json_t *body = NULL;

    check(anchors, n, n_bytes);
    /* jansson 2.14 passes over a zero byte behind a number or a word. */
    if (n_bytes > 0 && n_bytes <= SMALL_BYTES && !memchr(text, '\0', n_bytes) &&
        hth_json_is_within(text, n_bytes, 64, 1000000))
        body = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(body)) {
        const size_t n_expected = count_expected(body);

        require(n >= n_expected && n <= n_expected + n_bytes / HTH_ANCHOR_STRIDE_BYTES_MIN);
        compare_spaced(text, n_bytes, anchors, n);
    }
    json_decref(body);
    return 0;
}
