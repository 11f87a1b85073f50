#include "api/json_values.h"

#include <stdlib.h>
#include <string.h>

#include "base/hex.h"

json_t *hth_json_text(const char *text, size_t n)
{
    json_t *value = json_stringn(text, n);

    return value ? value : json_null();
}

json_t *hth_json_string(const char *text)
{
    return text ? hth_json_text(text, strlen(text)) : json_null();
}

json_t *hth_json_strings(const char *const *texts, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < n && texts && texts[i]; i++) {
        if (json_array_append_new(array, hth_json_string(texts[i])) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

json_t *hth_json_hex(const uint8_t *bytes, size_t n)
{
    char *text = malloc(2 * n + 1);
    json_t *value = NULL;

    if (text) {
        hth_hex_encode(bytes, n, text);
        value = json_stringn_nocheck(text, 2 * n);
    }
    free(text);
    return value;
}

json_t *hth_json_bytes(const char *bytes, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(array, json_integer((unsigned char)bytes[i]));
    return array;
}

json_t *hth_api_explanation_json(const hearth_explanation *about, size_t n_plain)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:b, s:s, s:s, s:I, s:s, s:s}", "prompt_tokens",
                     (json_int_t)about->prompt_tokens, "known_tokens", (json_int_t)about->known_tokens,
                     "history_tokens", (json_int_t)about->history_tokens, "plain_names", (json_int_t)n_plain,
                     "knows_logits", (int)about->knows_logits, "tier", hearth_tier_name(about->tier), "miss",
                     hearth_miss_name(about->miss), "left_at", (json_int_t)about->left_at, "left_text",
                     about->left_text, "left_kind", about->left_kind);
}
