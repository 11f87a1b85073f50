/*
 * native_request.c - llama.cpp's own endpoints: /completion, /tokenize, /detokenize
 *
 * Fields that are not known are passed over, as llama.cpp does.
 */
#include <math.h>
#include <string.h>

#include "api/request_inside.h"

enum {
    TEXT_BYTES_MAX = 32 << 20,
    NAME_BYTES_MAX = 256,
    BIASES_MAX = 4096,
    BREAKERS_MAX = 64,
    TRIGGERS_MAX = 64,
    TOKENS_MAX = 1 << 24,
};

/* So many of the last tokens, -1: of all. */
static void parse_window(const hth_fields *body, const char *name, uint32_t *out)
{
    json_int_t n = (json_int_t)*out;

    hth_fields_integer(body, name, -1, HTH_API_LAST_N_MAX, &n);
    *out = n < 0 ? HTH_API_WHOLE_CONTEXT : (uint32_t)n;
}

static void parse_chain(hth_api_parse *parse)
{
    hearth_sampling *s = &parse->request->options.sampling;
    const hth_fields *body = &parse->body;
    json_int_t top_k = s->top_k, mirostat = 0;

    hth_fields_float(body, "temperature", 0, 1000, &s->temperature);
    hth_fields_integer(body, "top_k", -1, INT32_MAX, &top_k);
    s->top_k = top_k < 0 ? 0 : (int32_t)top_k;
    hth_fields_float(body, "top_p", 0, 1, &s->top_p);
    hth_fields_float(body, "min_p", 0, 1, &s->min_p);
    hth_fields_float(body, "typical_p", 0, 1, &s->typical_p);
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
        hth_api_fail(parse->error, HTH_API_UNSUPPORTED, "mirostat", "'mirostat' is not supported; leave it out");
}

static void parse_breakers(hth_api_parse *parse)
{
    hearth_sampling *sampling = &parse->request->options.sampling;
    json_t *array = hth_fields_array(&parse->body, "dry_sequence_breakers", BREAKERS_MAX);
    const char **breakers = array ? hth_api_allocate(parse, json_array_size(array), sizeof(*breakers)) : NULL;

    for (size_t i = 0; breakers && i < json_array_size(array); i++) {
        breakers[i] = json_string_value(json_array_get(array, i));
        if (!breakers[i])
            hth_fail_type(parse->error, "dry_sequence_breakers", "an array of texts", json_array_get(array, i));
    }
    if (breakers) {
        sampling->dry_breakers = breakers;
        sampling->n_dry_breakers = json_array_size(array);
    }
}

/* [[token, bias], ...], where false is a ban; or an object as OpenAI has it. */
static void parse_biases(hth_api_parse *parse)
{
    json_t *array = hth_fields_any(&parse->body, "logit_bias");
    hearth_sampling *sampling = &parse->request->options.sampling;
    hearth_logit_bias *biases;

    if (json_is_object(array)) {
        hth_api_parse_logit_bias(parse, 1e6);
        return;
    }
    array = hth_fields_array(&parse->body, "logit_bias", BIASES_MAX);
    if (!array)
        return;
    biases = hth_api_allocate(parse, json_array_size(array), sizeof(*biases));
    for (size_t i = 0; biases && i < json_array_size(array); i++) {
        json_t *pair = json_array_get(array, i);
        json_t *token = json_array_get(pair, 0), *bias = json_array_get(pair, 1);

        if (json_array_size(pair) != 2 || !json_is_integer(token) || !(json_is_number(bias) || json_is_false(bias))) {
            hth_fail_type(parse->error, "logit_bias", "an array of [token id, number or false]", pair);
            return;
        }
        if (json_integer_value(token) < 0 || json_integer_value(token) > INT32_MAX)
            hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "logit_bias",
                         "%" JSON_INTEGER_FORMAT " in 'logit_bias' is no token", json_integer_value(token));
        biases[i].token = (hearth_token)json_integer_value(token);
        biases[i].bias = json_is_false(bias) ? -INFINITY : (float)json_number_value(bias);
    }
    sampling->logit_bias = biases;
    sampling->n_logit_bias = biases ? json_array_size(array) : 0;
}

static void parse_triggers(hth_api_parse *parse)
{
    hearth_sampling *sampling = &parse->request->options.sampling;
    json_t *array = hth_fields_array(&parse->body, "grammar_triggers", TRIGGERS_MAX);
    hearth_trigger *triggers = array ? hth_api_allocate(parse, json_array_size(array), sizeof(*triggers)) : NULL;

    for (size_t i = 0; triggers && i < json_array_size(array); i++) {
        hth_fields fields = { .object = json_array_get(array, i), .path = "grammar_triggers.", .error = parse->error };
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

static void parse_grammar(hth_api_parse *parse)
{
    hearth_sampling *sampling = &parse->request->options.sampling;
    json_t *schema = hth_fields_any(&parse->body, "json_schema");

    hth_fields_string(&parse->body, "grammar", parse->limits->schema_bytes_max, &sampling->grammar);
    if (sampling->grammar && !*sampling->grammar)
        sampling->grammar = NULL; /* llama.cpp's clients send it empty */
    if (json_is_object(schema))
        sampling->json_schema = hth_api_schema_text(parse, "json_schema", schema);
    else if (schema)
        hth_fail_type(parse->error, "json_schema", "an object", schema);
    if (sampling->grammar && sampling->json_schema)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "grammar",
                     "'grammar' and 'json_schema' cannot be used together");
    hth_fields_bool(&parse->body, "grammar_lazy", &sampling->grammar_is_lazy);
    parse_triggers(parse);
}

void hth_api_parse_native(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;
    hearth_request *options = &request->options;
    json_int_t n_tokens = -1;
    bool cache_prompt = true;

    hth_fields_string(&parse->body, "model", NAME_BYTES_MAX, &request->model);
    hth_fields_bool(&parse->body, "stream", &request->stream);
    hth_fields_integer(&parse->body, "max_tokens", -1, INT32_MAX, &n_tokens);
    hth_fields_integer(&parse->body, "n_predict", -1, INT32_MAX, &n_tokens);
    options->n_predict = (int32_t)n_tokens;
    options->prefill_only = n_tokens == 0;
    hth_fields_u32(&parse->body, "n", 1, HTH_API_REPLIES_MAX, &options->n);
    hth_fields_bool(&parse->body, "ignore_eos", &options->ignore_eos);
    hth_fields_u32(&parse->body, "min_tokens", 0, INT32_MAX, &options->min_tokens);
    hth_fields_u32(&parse->body, "n_probs", 0, 64, &options->n_top_logprobs);
    options->logprobs = options->n_top_logprobs > 0;
    hth_fields_bool(&parse->body, "cache_prompt", &cache_prompt);
    options->no_cache_read = !cache_prompt;
    hth_fields_u32(&parse->body, "t_max_predict_ms", 0, INT32_MAX, &options->run_timeout_ms);
    hth_fields_bool(&parse->body, "return_tokens", &request->wants_tokens);
    hth_fields_bool(&parse->body, "timings_per_token", &request->wants_timings);
    parse_chain(parse);
    parse_breakers(parse);
    parse_biases(parse);
    parse_grammar(parse);
    hth_api_parse_seed(parse, -1);
    hth_api_parse_stop(parse, "stop");
    hth_api_parse_extras(parse);
    hth_api_parse_prompts(parse, /* mixed= */ true);
}

void hth_api_parse_tokenize(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;

    request->parse_special = true;
    hth_fields_string(&parse->body, "model", NAME_BYTES_MAX, &request->model);
    hth_fields_require(&parse->body, "content");
    hth_fields_string(&parse->body, "content", TEXT_BYTES_MAX, &request->text);
    hth_fields_bool(&parse->body, "add_special", &request->add_special);
    hth_fields_bool(&parse->body, "parse_special", &request->parse_special);
    hth_fields_bool(&parse->body, "with_pieces", &request->with_pieces);
}

void hth_api_parse_detokenize(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;
    json_t *array;

    hth_fields_string(&parse->body, "model", NAME_BYTES_MAX, &request->model);
    hth_fields_require(&parse->body, "tokens");
    array = hth_fields_array(&parse->body, "tokens", TOKENS_MAX);
    if (!array)
        return;
    request->tokens = hth_api_parse_tokens(parse, "tokens", array);
    request->n_tokens = json_array_size(array);
}
