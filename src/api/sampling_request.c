/*
 * sampling_request.c - the fields of sampling: numbers, biases, grammars
 *
 * These are llama.cpp's fields. All OpenAI endpoints accept them, too, also under the names that other servers use. A
 * number that stands for a default (-1, 0) means that default.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/parse.h"
#include "api/sampler_names.h"
#include "sampling/sampling.h"

enum {
    BIAS_TEXT_BYTES_MAX = 1024,
    BIAS_TEXTS_BYTES_MAX = 16 << 10, /* together */
};

/* ---- the chain ---- */

static void parse_breakers(hth_api_parse *parse)
{
    hearth_sampling *sampling = &parse->request->sampling;
    json_t *value = hth_fields_any(&parse->body, "dry_sequence_breakers"), *array = value;
    const char **breakers;
    size_t n;

    if (json_is_string(value)) /* some front ends send the array as a string, or a single name */
        array = json_loads(json_string_value(value), 0, NULL);
    n = json_is_array(array) ? json_array_size(array) : 1;
    if (value && !json_is_array(value) && !json_is_string(value))
        hth_fields_wrong_type(&parse->body, "dry_sequence_breakers", "an array of texts", value);
    else if (n > HTH_DRY_BREAKERS_MAX)
        hth_fields_refuse(&parse->body, "dry_sequence_breakers", "has %zu elements; at most %d are allowed", n,
                          HTH_DRY_BREAKERS_MAX);
    breakers = value && parse->error->kind == HTH_API_NO_ERROR ? hth_api_allocate(parse, n, sizeof(*breakers)) : NULL;
    for (size_t i = 0; breakers && i < n; i++) {
        const json_t *text = json_is_array(array) ? json_array_get(array, i) : value;

        if (json_is_string(text))
            breakers[i] = hth_api_join(parse, json_string_value(text), "", "");
        else
            hth_fields_wrong_type(&parse->body, "dry_sequence_breakers", "an array of texts", text);
    }
    if (breakers) {
        sampling->dry_breakers = breakers;
        sampling->n_dry_breakers = n;
    }
    if (array != value)
        json_decref(array);
}

/* Note a step that Hearth does not have (llama.cpp's "infill", steps of other servers). The chain omits it. */
static void pass_over_sampler(hth_api_parse *parse, const char *name, const char *sampler)
{
    hearth_error err = { .message = "" };
    char path[HTH_PATH_BYTES];

    if (parse->body.notes) {
        (void)snprintf(path, sizeof(path), "%s[].%.40s", name, sampler); /* fits */
        hth_fields_note(&parse->body, path);
    } else {
        hth_api_sampler_unknown(sampler, strlen(sampler), &err);
        hth_fields_refuse(&parse->body, name, "is wrong: %s", err.message);
    }
}

/* The order of the chain: an array of names, or a string of letters. */
static void parse_samplers(hth_api_parse *parse, const char *name)
{
    json_t *value = hth_fields_any(&parse->body, name);
    const char *text = json_string_value(value);
    size_t n = text ? strlen(text) : json_array_size(value), n_known = 0;
    hearth_sampler *samplers;

    if (!value)
        return;
    if (!text && !json_is_array(value)) {
        hth_fields_wrong_type(&parse->body, name, "an array of names, or a text of letters", value);
        return;
    }
    if (n > HTH_SAMPLERS_MAX) {
        hth_fields_refuse(&parse->body, name, "has %zu samplers; at most %d are allowed", n, HTH_SAMPLERS_MAX);
        return;
    }
    samplers = hth_api_allocate(parse, n + 1, sizeof(*samplers));
    for (size_t i = 0; samplers && i < n; i++) {
        const json_t *word = json_array_get(value, i);
        char letter[2] = { text ? text[i] : '\0', '\0' };

        if (!text && !json_is_string(word)) {
            hth_fields_wrong_type(&parse->body, name, "an array of names, or a text of letters", word);
            return;
        }
        if (text ? hth_api_sampler_of_letter(*letter, &samplers[n_known])
                 : hth_api_sampler_of_name(json_string_value(word), json_string_length(word), &samplers[n_known]))
            n_known++;
        else
            pass_over_sampler(parse, name, text ? letter : json_string_value(word));
    }
    parse->request->sampling.samplers = samplers;
    parse->request->sampling.n_samplers = n_known;
}

static void parse_number(const hth_fields *body, const char *name, const hth_sampling_number *number, double high,
                         hearth_sampling *sampling)
{
    const bool takes_negatives = hth_sampling_number_takes_negatives(number);
    double value = hth_sampling_get(number, sampling);
    json_int_t integer = (json_int_t)value;

    if (!hth_fields_has(body, name))
        return;
    if (hth_sampling_number_is_real(number)) {
        hth_fields_number(body, name, takes_negatives ? -1e9 : hth_sampling_low(number, sampling), high, &value);
    } else {
        hth_fields_integer(body, name, takes_negatives ? -1 : (json_int_t)number->low, (json_int_t)high, &integer);
        value = (double)integer;
    }
    if (takes_negatives && value < 0)
        value = 0;
    hth_sampling_set(number, value, sampling);
}

static void parse_chain(hth_api_parse *parse, double temperature_max)
{
    hearth_sampling *sampling = &parse->request->sampling;

    for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++) {
        const hth_sampling_number *number = &hth_sampling_numbers[i];
        double high = number->in_sampling == offsetof(hearth_sampling, temperature) ? temperature_max : number->high;

        if (*number->config && strcmp(number->config, number->name) != 0)
            parse_number(&parse->body, number->config, number, high, sampling);
        parse_number(&parse->body, number->name, number, high, sampling);
    }
    parse->request->has_mirostat |= hth_fields_has(&parse->body, "mirostat");
    parse_samplers(parse, "sampler_seq");
    parse_samplers(parse, "samplers");
    parse_breakers(parse);
}

/* ---- biases ---- */

/* Biases while they are read. */
typedef struct biases {
    hth_api_parse *parse;
    double limit;
    hearth_logit_bias *tokens;
    size_t n_tokens;
    hth_api_text_bias *texts;
    size_t n_texts;
    size_t n_text_bytes;
} biases;

/* Read one bias: a number within the limit, or false for a ban. False when it was refused. */
static bool parse_bias(hth_api_parse *parse, const json_t *value, double limit, float *out)
{
    double bias = json_number_value(value);

    if (!json_is_number(value) && !json_is_false(value)) {
        hth_fields_wrong_type(&parse->body, "logit_bias", "biases that are numbers, or false", value);
        return false;
    }
    if (!(bias >= -limit && bias <= limit)) {
        hth_fields_refuse(&parse->body, "logit_bias", "has the bias %.9g; it must be %.9g to %.9g", bias, -limit,
                          limit);
        return false;
    }
    *out = json_is_false(value) || bias <= -100 ? -INFINITY : (float)bias; /* -100 is a ban, as in OpenAI's API */
    return true;
}

/* Add a bias for a text. It is tokenized later, when the model is known. */
static bool add_text(biases *b, const char *text, const json_t *value)
{
    size_t n = strlen(text);

    b->n_text_bytes += n;
    if (n > BIAS_TEXT_BYTES_MAX || b->n_text_bytes > BIAS_TEXTS_BYTES_MAX) {
        hth_fields_refuse(&b->parse->body, "logit_bias",
                          "has texts that are too long; one may have %d bytes, and all together %d",
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

/* Read a pair of an array: [token, bias] or [text, bias]. */
static bool add_pair(biases *b, const json_t *pair)
{
    const json_t *token = json_array_get(pair, 0), *value = json_array_get(pair, 1);

    if (json_array_size(pair) != 2 || !(json_is_integer(token) || json_is_string(token))) {
        hth_fields_wrong_type(&b->parse->body, "logit_bias", "an array of [token id or text, number or false]", pair);
        return false;
    }
    if (json_is_string(token))
        return add_text(b, json_string_value(token), value);
    if (json_integer_value(token) < 0 || json_integer_value(token) > INT32_MAX) {
        hth_fields_refuse(&b->parse->body, "logit_bias",
                          "has %" JSON_INTEGER_FORMAT ", which is no token; tokens are numbers from 0 on",
                          json_integer_value(token));
        return false;
    }
    return add_token(b, (hearth_token)json_integer_value(token), value);
}

/* Read a member of an object. A name that is a number is a token id; any other name is a text. */
static bool add_member(biases *b, const char *name, const json_t *value)
{
    const char *digits = name + (*name == '-');

    if (!*digits || digits[strspn(digits, "0123456789")])
        return add_text(b, name, value);
    if (digits == name && strlen(name) <= 9)
        return add_token(b, (hearth_token)strtol(name, NULL, 10), value);
    hth_fields_refuse(&b->parse->body, "logit_bias", "has '%.40s', which is no token; tokens are numbers from 0 on",
                      name);
    return false;
}

/*
 * logit_bias: an object from token ids or texts to biases, or an array of pairs, as in llama.cpp. limit is the largest
 * bias.
 */
static void parse_logit_bias(hth_api_parse *parse, double limit)
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
        hth_fields_wrong_type(&parse->body, "logit_bias", "an object, or an array of pairs", all);
        return;
    }
    if (n_all > HTH_LOGIT_BIAS_MAX) {
        hth_fields_refuse(&parse->body, "logit_bias", "has %zu tokens; at most %d are allowed", n_all,
                          HTH_LOGIT_BIAS_MAX);
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
    json_t *array = hth_fields_array(&parse->body, "grammar_triggers", HTH_TRIGGERS_MAX);
    hearth_trigger *triggers =
        array ? hth_api_allocate_structs(parse, json_array_size(array), sizeof(*triggers)) : NULL;
    hth_fields fields;

    for (size_t i = 0; triggers && hth_fields_item(&parse->body, "grammar_triggers", array, i, &fields); i++) {
        json_int_t kind = -1, token = 0;

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
    hearth_sampling *sampling = &parse->request->sampling;
    const char *schema = hth_api_parse_schema(parse, &parse->body, "json_schema");

    if (!schema)
        schema = hth_api_parse_schema(parse, &parse->body, "guided_json"); /* vLLM's name */
    hth_fields_string(&parse->body, "guided_grammar", parse->limits->schema_bytes_max, &sampling->grammar);
    hth_fields_string(&parse->body, "grammar", parse->limits->schema_bytes_max, &sampling->grammar);
    if (sampling->grammar && !*sampling->grammar)
        sampling->grammar = NULL; /* clients of llama.cpp send it empty */
    if (sampling->grammar && schema)
        hth_fields_refuse(&parse->body, "grammar", "and 'json_schema' cannot be used together; leave one out");
    if (parse->request->is_chat)
        parse->request->conversation.json_schema = schema;
    else
        sampling->json_schema = schema;
    hth_fields_bool(&parse->body, "grammar_lazy", &sampling->grammar_is_lazy);
    parse_triggers(parse);
}

/* ---- other fields of llama.cpp ---- */

/*
 * -1: the model's setting. A draft longer than Hearth's maximum is reduced to it, because llama-server's default is
 * longer.
 */
static void parse_draft_length(hth_api_parse *parse, const char *name, int32_t *out)
{
    json_int_t n = *out;

    hth_fields_integer(&parse->body, name, -1, INT32_MAX, &n);
    *out = n < HEARTH_DRAFT_MAX ? (int32_t)n : HEARTH_DRAFT_MAX;
}

static void parse_native_extras(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;
    hearth_request *options = &request->options;
    bool cache_prompt = true;

    parse_draft_length(parse, "speculative.n_max", &options->draft_max);
    parse_draft_length(parse, "speculative.n_min", &options->draft_min);
    hth_fields_bool(&parse->body, "ignore_eos", &options->ignore_eos);
    hth_fields_u32(&parse->body, "min_tokens", 0, INT32_MAX, &options->min_tokens);
    hth_fields_bool(&parse->body, "cache_prompt", &cache_prompt);
    options->no_cache_read = !cache_prompt;
    hth_fields_u32(&parse->body, "t_max_predict_ms", 0, INT32_MAX, &options->run_timeout_ms);
    hth_fields_bool(&parse->body, "timings_per_token", &request->wants_timings);
    hth_fields_bool(&parse->body, "verbose", &request->is_verbose);
    hth_fields_bool(&parse->body, "post_sampling_probs", &options->logprobs_after_sampling);
    hth_fields_integer(&parse->body, "id_slot", -1, INT32_MAX, &request->slot);
}

/* -1 asks for a new one. */
static void parse_seed(hth_api_parse *parse, json_int_t low)
{
    json_int_t seed = -1;
    double real;

    if (!hth_fields_has(&parse->body, "seed"))
        return;
    hth_fields_integer(&parse->body, "seed", low, INT64_MAX, &seed);
    real = json_real_value(hth_fields_any(&parse->body, "seed")); /* some clients send unsigned 64 bits */
    if (real >= 0x1p63 && real < 0x1p64)
        seed = (json_int_t)((uint64_t)real & INT64_MAX);
    /* Any other negative seed loses its sign, so that counting up from it never reaches HEARTH_SEED_RANDOM. */
    parse->request->sampling.seed = seed == -1 ? HEARTH_SEED_RANDOM : (uint64_t)seed & INT64_MAX;
}

void hth_api_parse_sampling(hth_api_parse *parse, bool is_openai)
{
    parse_chain(parse, is_openai ? 2 : 1000);
    parse_logit_bias(parse, is_openai ? 100 : 1e6);
    parse_grammar(parse);
    parse_native_extras(parse);
    parse_seed(parse, is_openai ? INT64_MIN : -1);
}
