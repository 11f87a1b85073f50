/*
 * sampling_request.c - the fields that choose tokens: the chain, biases, grammars
 *
 * llama.cpp's fields, which all of the OpenAI endpoints take, too, with the names that other servers have for the same
 * thing. A number that names a default of its own (-1, 0) is that default.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/request_inside.h"

enum {
    BIAS_TEXT_BYTES_MAX = 1024,
    BIAS_TEXTS_BYTES_MAX = 16 << 10, /* together */
    BREAKERS_MAX = 64,
    TRIGGERS_MAX = 64,
};

/* ---- the chain ---- */

/* So many of the last tokens, -1: of all. */
static void parse_window(const hth_fields *body, const char *name, uint32_t *out)
{
    json_int_t n = (json_int_t)*out;

    hth_fields_integer(body, name, -1, HTH_API_LAST_N_MAX, &n);
    *out = n < 0 ? HTH_API_WHOLE_CONTEXT : (uint32_t)n;
}

static void parse_breakers(hth_api_parse *parse)
{
    hearth_sampling *sampling = &parse->request->sampling;
    json_t *value = hth_fields_any(&parse->body, "dry_sequence_breakers"), *array = value;
    const char **breakers;
    size_t n;

    if (json_is_string(value)) /* front ends send the array as text, or one text */
        array = json_loads(json_string_value(value), 0, NULL);
    n = json_is_array(array) ? json_array_size(array) : 1;
    if (value && !json_is_array(value) && !json_is_string(value))
        hth_fail_type(parse->error, "dry_sequence_breakers", "an array of texts", value);
    else if (n > BREAKERS_MAX)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "dry_sequence_breakers",
                     "'dry_sequence_breakers' has %zu elements; at most %d are allowed", n, BREAKERS_MAX);
    breakers = value && parse->error->kind == HTH_API_NO_ERROR ? hth_api_allocate(parse, n, sizeof(*breakers)) : NULL;
    for (size_t i = 0; breakers && i < n; i++) {
        const json_t *text = json_is_array(array) ? json_array_get(array, i) : value;

        if (json_is_string(text))
            breakers[i] = hth_api_join(parse, json_string_value(text), "", "");
        else
            hth_fail_type(parse->error, "dry_sequence_breakers", "an array of texts", text);
    }
    if (breakers) {
        sampling->dry_breakers = breakers;
        sampling->n_dry_breakers = n;
    }
    if (array != value)
        json_decref(array);
}

void hth_api_parse_chain(hth_api_parse *parse, double temperature_max)
{
    hearth_sampling *s = &parse->request->sampling;
    const hth_fields *body = &parse->body;
    json_int_t top_k = s->top_k, mirostat = 0;

    hth_fields_float(body, "temperature", 0, temperature_max, &s->temperature);
    hth_fields_integer(body, "top_k", -1, INT32_MAX, &top_k);
    s->top_k = top_k < 0 ? 0 : (int32_t)top_k;
    hth_fields_float(body, "top_p", 0, 1, &s->top_p);
    hth_fields_float(body, "min_p", 0, 1, &s->min_p);
    hth_fields_float(body, "typical_p", 0, 1, &s->typical_p);
    hth_fields_float(body, "repetition_penalty", 0.01, 1000, &s->repeat_penalty); /* vLLM's name */
    hth_fields_float(body, "repeat_penalty", 0.01, 1000, &s->repeat_penalty);
    parse_window(body, "repeat_last_n", &s->repeat_last_n);
    hth_fields_float(body, "frequency_penalty", -2, 2, &s->frequency_penalty);
    hth_fields_float(body, "presence_penalty", -2, 2, &s->presence_penalty);
    hth_fields_float(body, "dry_multiplier", 0, 1000, &s->dry_multiplier);
    hth_fields_float(body, "dry_base", 0, 1000, &s->dry_base);
    hth_fields_u32(body, "dry_allowed_length", 0, 65536, &s->dry_allowed_length);
    parse_window(body, "dry_penalty_last_n", &s->dry_last_n);
    hth_fields_float(body, "xtc_probability", 0, 1, &s->xtc_probability);
    hth_fields_float(body, "xtc_threshold", 0, 1, &s->xtc_threshold);
    hth_fields_integer(body, "mirostat", 0, 2, &mirostat);
    if (mirostat != 0)
        hth_fields_pass_over(body, "mirostat");
    parse_breakers(parse);
}

/* ---- biases ---- */

/* Biases as they are read. */
typedef struct biases {
    hth_api_parse *parse;
    double limit;
    hearth_logit_bias *tokens;
    size_t n_tokens;
    hth_api_text_bias *texts;
    size_t n_texts;
    size_t n_text_bytes;
} biases;

/* Is the name of a member a number, as token ids are written? Others are texts. */
static bool is_number(const char *name)
{
    name += *name == '-';
    return *name && !name[strspn(name, "0123456789")];
}

/* A token id written as the name of a member. */
static bool token_of(const char *name, hearth_token *out)
{
    if (*name == '-' || strlen(name) > 9)
        return false;
    *out = (hearth_token)strtol(name, NULL, 10);
    return true;
}

/* One bias: a number up to the limit, or false for a ban. False when it was refused. */
static bool parse_bias(hth_api_parse *parse, const json_t *value, double limit, float *out)
{
    double bias = json_number_value(value);

    if (!json_is_number(value) && !json_is_false(value)) {
        hth_fail_type(parse->error, "logit_bias", "biases that are numbers, or false", value);
        return false;
    }
    if (!(bias >= -limit && bias <= limit)) {
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "logit_bias",
                     "'logit_bias' has the bias %.9g; it must be %.9g to %.9g", bias, -limit, limit);
        return false;
    }
    *out = json_is_false(value) || bias <= -100 ? -INFINITY : (float)bias; /* -100: as OpenAI defines it, a ban */
    return true;
}

/* Its tokens are known where there is a model. */
static bool add_text(biases *b, const char *text, const json_t *value)
{
    size_t n = strlen(text);

    b->n_text_bytes += n;
    if (n > BIAS_TEXT_BYTES_MAX || b->n_text_bytes > BIAS_TEXTS_BYTES_MAX) {
        hth_api_fail(b->parse->error, HTH_API_INVALID_VALUE, "logit_bias",
                     "'logit_bias' has texts that are too long; one may have %d bytes, and all together %d",
                     BIAS_TEXT_BYTES_MAX, BIAS_TEXTS_BYTES_MAX);
        return false;
    }
    b->texts[b->n_texts].text = text;
    return parse_bias(b->parse, value, b->limit, &b->texts[b->n_texts++].bias);
}

static bool add_token(biases *b, hearth_token token, const json_t *value)
{
    b->tokens[b->n_tokens].token = token;
    return parse_bias(b->parse, value, b->limit, &b->tokens[b->n_tokens++].bias);
}

/* The pair of an array: [token, bias] or [text, bias]. */
static bool add_pair(biases *b, const json_t *pair)
{
    const json_t *token = json_array_get(pair, 0), *value = json_array_get(pair, 1);

    if (json_array_size(pair) != 2 || !(json_is_integer(token) || json_is_string(token))) {
        hth_fail_type(b->parse->error, "logit_bias", "an array of [token id or text, number or false]", pair);
        return false;
    }
    if (json_is_string(token))
        return add_text(b, json_string_value(token), value);
    if (json_integer_value(token) < 0 || json_integer_value(token) > INT32_MAX) {
        hth_api_fail(b->parse->error, HTH_API_INVALID_VALUE, "logit_bias",
                     "%" JSON_INTEGER_FORMAT " in 'logit_bias' is no token", json_integer_value(token));
        return false;
    }
    return add_token(b, (hearth_token)json_integer_value(token), value);
}

static bool add_member(biases *b, const char *name, const json_t *value)
{
    hearth_token token;

    if (!is_number(name))
        return add_text(b, name, value);
    if (token_of(name, &token))
        return add_token(b, token, value);
    hth_api_fail(b->parse->error, HTH_API_INVALID_VALUE, "logit_bias",
                 "'%.40s' in 'logit_bias' is not the id of a token", name);
    return false;
}

void hth_api_parse_logit_bias(hth_api_parse *parse, double limit)
{
    json_t *all = hth_fields_any(&parse->body, "logit_bias");
    size_t n_all = json_is_array(all) ? json_array_size(all) : json_object_size(all);
    biases b = { .parse = parse, .limit = limit };
    hth_api_request *request = parse->request;
    const char *name;
    json_t *value;

    if (!all)
        return;
    if (!json_is_array(all) && !json_is_object(all)) {
        hth_fail_type(parse->error, "logit_bias", "an object, or an array of pairs", all);
        return;
    }
    if (n_all > HTH_API_BIASES_MAX) {
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "logit_bias",
                     "'logit_bias' has %zu tokens; at most %d are allowed", n_all, HTH_API_BIASES_MAX);
        return;
    }
    b.tokens = hth_api_allocate(parse, n_all, sizeof(*b.tokens));
    b.texts = hth_api_allocate(parse, n_all, sizeof(*b.texts));
    if (!b.tokens || !b.texts)
        return;
    for (size_t i = 0; json_is_array(all) && i < n_all; i++)
        if (!add_pair(&b, json_array_get(all, i)))
            return;
    json_object_foreach(all, name, value)
    {
        if (!add_member(&b, name, value))
            return;
    }
    request->sampling.logit_bias = b.tokens;
    request->sampling.n_logit_bias = b.n_tokens;
    request->text_biases = b.texts;
    request->n_text_biases = b.n_texts;
}

/* ---- grammars ---- */

static void parse_triggers(hth_api_parse *parse)
{
    hearth_sampling *sampling = &parse->request->sampling;
    json_t *array = hth_fields_array(&parse->body, "grammar_triggers", TRIGGERS_MAX);
    hearth_trigger *triggers =
        array ? hth_api_allocate_structs(parse, json_array_size(array), sizeof(*triggers)) : NULL;

    for (size_t i = 0; triggers && i < json_array_size(array); i++) {
        hth_fields fields = hth_fields_inside(&parse->body, json_array_get(array, i), "grammar_triggers.");
        json_int_t kind = -1, token = 0;

        if (!json_is_object(fields.object)) {
            hth_fail_type(parse->error, "grammar_triggers", "an array of objects", fields.object);
            return;
        }
        hth_fields_require(&fields, "type");
        hth_fields_integer(&fields, "type", 0, 2, &kind);
        hth_fields_require(&fields, kind == 0 ? "token" : "value");
        hth_fields_string(&fields, "value", 1024, &triggers[i].text);
        hth_fields_integer(&fields, "token", 0, INT32_MAX, &token);
        triggers[i].token = (hearth_token)token;
        triggers[i].kind = kind == 0 ? HEARTH_TRIGGER_TOKEN : kind == 1 ? HEARTH_TRIGGER_WORD : HEARTH_TRIGGER_PATTERN;
    }
    sampling->triggers = triggers;
    sampling->n_triggers = json_array_size(array);
}

const char *hth_api_parse_schema(hth_api_parse *parse, const hth_fields *fields, const char *name)
{
    json_t *schema = hth_fields_any(fields, name);
    char path[HTH_PATH_BYTES];
    const char *text = NULL;

    if (!schema)
        return NULL;
    (void)hth_fields_path(fields, name, path);
    if (json_is_object(schema))
        return hth_api_schema_text(parse, path, schema);
    if (json_is_string(schema)) { /* some clients send its text */
        json_t *inside = json_loads(json_string_value(schema), JSON_REJECT_DUPLICATES, NULL);

        text = json_is_object(inside) ? hth_api_schema_text(parse, path, inside) : NULL;
        json_decref(inside);
    }
    if (!text)
        hth_fail_type(parse->error, path, "an object", schema);
    return text;
}

void hth_api_parse_grammar(hth_api_parse *parse)
{
    hearth_sampling *sampling = &parse->request->sampling;
    const char *schema = hth_api_parse_schema(parse, &parse->body, "json_schema");

    if (!schema)
        schema = hth_api_parse_schema(parse, &parse->body, "guided_json"); /* vLLM's name */
    hth_fields_string(&parse->body, "guided_grammar", parse->limits->schema_bytes_max, &sampling->grammar);
    hth_fields_string(&parse->body, "grammar", parse->limits->schema_bytes_max, &sampling->grammar);
    if (sampling->grammar && !*sampling->grammar)
        sampling->grammar = NULL; /* llama.cpp's clients send it empty */
    if (sampling->grammar && schema)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "grammar",
                     "'grammar' and 'json_schema' cannot be used together");
    if (parse->request->is_chat)
        parse->request->conversation.json_schema = schema;
    else
        sampling->json_schema = schema;
    hth_fields_bool(&parse->body, "grammar_lazy", &sampling->grammar_is_lazy);
    parse_triggers(parse);
}

/* ---- what else llama.cpp's clients say of a request ---- */

void hth_api_parse_native_extras(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;
    hearth_request *options = &request->options;
    bool cache_prompt = true;

    hth_fields_bool(&parse->body, "ignore_eos", &options->ignore_eos);
    hth_fields_u32(&parse->body, "min_tokens", 0, INT32_MAX, &options->min_tokens);
    hth_fields_bool(&parse->body, "cache_prompt", &cache_prompt);
    options->no_cache_read = !cache_prompt;
    hth_fields_u32(&parse->body, "t_max_predict_ms", 0, INT32_MAX, &options->run_timeout_ms);
    hth_fields_bool(&parse->body, "timings_per_token", &request->wants_timings);
    hth_fields_integer(&parse->body, "id_slot", -1, INT32_MAX, &request->slot);
}
