/*
 * logprobs.c - tokens of a reply and their log probabilities as JSON
 */
#include <math.h>
#include <string.h>

#include "api/json_values.h"
#include "api/writer.h"
#include "base/utf8.h"
#include "models/model.h"

json_t *hth_api_logprob(float logprob)
{
    if (isnan(logprob))
        return json_null();                                          /* unknown */
    return json_real(isfinite(logprob) ? (double)logprob : -9999.0); /* OpenAI's value for impossible tokens */
}

json_t *hth_api_token_text(hth_api_reply *reply, hearth_token token, bool *is_whole)
{
    char *text = NULL;
    size_t n = 0;
    json_t *value = NULL;

    if (hearth_detokenize(reply->hearth, &token, 1, true, &text, &n, NULL) == HEARTH_OK)
        value = json_stringn(text, n);
    if (is_whole)
        *is_whole = value && !memmem(text, n, HTH_UTF8_REPLACEMENT, 3);
    hearth_free(text);
    return value ? value : json_string("");
}

json_t *hth_api_token_bytes(hearth_model *model, hearth_token token)
{
    char piece[HTH_PIECE_BYTES_MAX];
    size_t n = 0;

    if (hearth_token_bytes(model, token, piece, sizeof(piece), &n, NULL) != HEARTH_OK)
        n = 0; /* the token is shown without bytes */
    return hth_json_bytes(piece, n);
}

json_t *hth_api_text_logprob(hth_api_reply *reply, const hearth_logprob *from, json_t *no_bytes_take)
{
    bool is_whole;
    json_t *text = hth_api_token_text(reply, from->token, &is_whole), *bytes = no_bytes_take;

    if (is_whole) {
        bytes = hth_json_bytes(json_string_value(text), json_string_length(text));
        json_decref(no_bytes_take);
    }
    return json_pack("{s:o, s:o, s:o}", "token", text, "logprob", hth_api_logprob(from->logprob), "bytes", bytes);
}

json_t *hth_api_logprob_entry(hth_api_reply *reply, const hth_api_choice *choice, size_t i, hth_api_logprob_fn form,
                              const char *top)
{
    const hearth_logprob *logprobs = hth_api_tokens_logprobs(&choice->pending, i);
    json_t *entry = form(reply, &logprobs[0]), *likeliest = json_array();

    for (size_t k = 1; k < choice->pending.n_each && logprobs[k].token >= 0; k++)
        json_array_append_new(likeliest, form(reply, &logprobs[k]));
    json_object_set_new(entry, top, likeliest);
    return entry;
}

json_t *hth_api_logprob_entries(hth_api_reply *reply, const hth_api_choice *choice, size_t begin, size_t end,
                                hth_api_entry_fn entry)
{
    json_t *entries = json_array();

    for (size_t i = begin; i < end; i++)
        json_array_append_new(entries, entry(reply, choice, i));
    return entries;
}
