/*
 * embed_request.c - requests for embeddings (OpenAI, llama.cpp, Ollama) and for scores (rerank)
 */
#include <string.h>

#include "api/parse.h"
#include "dialects/kinds.h"

enum { INPUTS_MAX = 65536, TOKENS_MAX = 1 << 20 };

/* The request's part for embeddings; NULL, with the error filled, if out of memory. */
static hth_api_embed *begin(hth_api_parse *parse, const char *const *known)
{
    hth_api_embed *embed = hth_api_allocate(parse, 1, sizeof(*embed));
    hearth_request *options = &parse->request->options;
    bool cache_prompt = true;

    hth_fields_rest(&parse->body, known);
    hth_fields_string(&parse->body, "cache_salt", HTH_API_SALT_BYTES_MAX, &options->cache_salt);
    hth_fields_bool(&parse->body, "cache_prompt", &cache_prompt);
    options->no_cache_read = !cache_prompt;
    hth_api_parse_adapters(parse);
    if (!embed)
        return NULL;
    embed->options = hearth_embed_request_default();
    parse->request->embed = embed;
    return embed;
}

/* ---- inputs ---- */

static void read_tokens(hth_api_parse *parse, const char *name, json_t *array, hearth_embed_input *out)
{
    if (json_array_size(array) == 0)
        hth_fields_refuse(&parse->body, name, "has an empty array of tokens; give at least one");
    else if (json_array_size(array) > TOKENS_MAX)
        hth_fields_refuse(&parse->body, name, "has %zu tokens; at most %d are allowed", json_array_size(array),
                          TOKENS_MAX);
    else
        out->tokens = hth_api_parse_tokens(parse, name, array);
    out->n_tokens = json_array_size(array);
}

static void read_input(hth_api_parse *parse, const char *name, json_t *value, hearth_embed_input *out)
{
    if (json_is_string(value))
        out->text = json_string_value(value);
    else if (json_is_array(value))
        read_tokens(parse, name, value, out);
    else
        hth_fields_wrong_type(&parse->body, name, "a text, an array of tokens, or an array of these", value);
}

static bool has_number(const json_t *array)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        if (json_is_number(json_array_get(array, i)))
            return true;
    return false;
}

/* A text, tokens, both mixed, an object with one of these as prompt_string, or an array of all these. */
static void read_inputs(hth_api_parse *parse, hth_api_embed *embed, const char *name)
{
    json_t *value = hth_fields_any(&parse->body, name);
    bool is_one = !json_is_array(value) || has_number(value);
    size_t n = is_one ? 1 : json_array_size(value);
    hearth_embed_input *inputs;
    hth_api_text_prompt *mixed = NULL;

    if (n > INPUTS_MAX) {
        hth_fields_refuse(&parse->body, name, "has %zu inputs; at most %d are allowed", n, INPUTS_MAX);
        return;
    }
    inputs = hth_api_allocate_structs(parse, n, sizeof(*inputs));
    if (!inputs || !value)
        return;
    for (size_t i = 0; i < n && !hth_fields_failed(&parse->body); i++) {
        json_t *one = hth_api_prompt_value(parse, name, is_one ? value : json_array_get(value, i));

        if (!hth_api_prompt_is_mixed(one)) {
            read_input(parse, name, one, &inputs[i]);
            continue;
        }
        if (!mixed)
            mixed = hth_api_allocate(parse, n, sizeof(*mixed));
        if (mixed)
            hth_api_parse_prompt(parse, name, one, /* mixed= */ true, &mixed[i]);
    }
    parse->request->prompts = mixed;
    parse->request->n_prompts = mixed ? n : 0;
    embed->options.inputs = inputs;
    embed->options.n_inputs = n;
}

static void require_inputs(hth_api_parse *parse, const hth_api_embed *embed, const char *name)
{
    hth_fields_require(&parse->body, name);
    if (embed && !hth_fields_failed(&parse->body) && embed->options.n_inputs == 0)
        hth_fields_refuse(&parse->body, name, "is empty; give at least one input");
}

/* ---- embeddings ---- */

static void parse_vectors(hth_api_parse *parse, const char *const *known, const char *inputs,
                          const char *const *formats)
{
    hth_api_embed *embed = begin(parse, known);
    json_int_t norm;

    if (!embed)
        return;
    read_inputs(parse, embed, inputs);
    require_inputs(parse, embed, inputs);
    embed->is_base64 = hth_fields_word(&parse->body, "encoding_format", formats) == 1;
    hth_fields_u32(&parse->body, "dimensions", 1, INT32_MAX, &embed->options.dimensions);
    hth_fields_bool(&parse->body, "truncate", &embed->options.truncate);
    norm = embed->options.norm;
    hth_fields_integer(&parse->body, "embd_normalize", -1, 64, &norm);
    embed->has_norm = hth_fields_has(&parse->body, "embd_normalize");
    embed->options.norm = (int32_t)norm;
}

void hth_api_parse_embeddings(hth_api_parse *parse)
{
    parse_vectors(parse,
                  HTH_NAMES("model", "input", "encoding_format", "dimensions", "user", "embd_normalize", "lora",
                            "cache_salt", "truncate", "cache_prompt"),
                  "input", HTH_NAMES("float", "base64"));
}

/* Base64 is not possible in this response. */
void hth_api_parse_native_embedding(hth_api_parse *parse)
{
    parse_vectors(parse,
                  HTH_NAMES("model", "input", "content", "encoding_format", "dimensions", "embd_normalize", "lora",
                            "cache_salt", "cache_prompt", "truncate"),
                  hth_fields_has(&parse->body, "input") ? "input" : "content", HTH_NAMES("float"));
}

/* ---- Ollama's ---- */

static hth_api_embed *begin_ollama(hth_api_parse *parse, const char *const *known, const char *inputs)
{
    hth_api_embed *embed = begin(parse, known);

    (void)hth_fields_any(&parse->body, "keep_alive"); /* the front applies it */
    hth_fields_pass_over(&parse->body, "options");
    if (!embed)
        return NULL;
    embed->options.truncate = true; /* as in Ollama */
    /* An empty text only loads the model. */
    if (!hth_fields_has(&parse->body, inputs) || (json_is_string(hth_fields_any(&parse->body, inputs)) &&
                                                  json_string_length(hth_fields_any(&parse->body, inputs)) == 0))
        return embed;
    read_inputs(parse, embed, inputs);
    return embed;
}

void hth_api_parse_ollama_embed(hth_api_parse *parse)
{
    hth_api_embed *embed = begin_ollama(parse,
                                        HTH_NAMES("model", "input", "truncate", "dimensions", "options", "keep_alive",
                                                  "lora", "cache_salt", "cache_prompt"),
                                        "input");

    if (!embed)
        return;
    hth_fields_bool(&parse->body, "truncate", &embed->options.truncate);
    hth_fields_u32(&parse->body, "dimensions", 0, INT32_MAX, &embed->options.dimensions);
}

void hth_api_parse_ollama_embeddings(hth_api_parse *parse)
{
    hth_api_embed *embed = begin_ollama(
        parse, HTH_NAMES("model", "prompt", "options", "keep_alive", "lora", "cache_salt", "cache_prompt"), "prompt");
    json_t *prompt = hth_fields_any(&parse->body, "prompt");

    if (prompt && !json_is_string(prompt))
        hth_fields_wrong_type(&parse->body, "prompt", "a text", prompt);
    if (embed)
        embed->options.norm = -1; /* Ollama's older endpoint returns unnormalized vectors */
}

/* ---- rerank ---- */

/* A document: a text, or an object with one. */
static void read_document(hth_api_parse *parse, const char *name, const json_t *array, size_t i,
                          hearth_embed_input *out)
{
    json_t *value = json_array_get(array, i);
    hth_fields fields;

    if (json_is_object(value)) {
        if (!hth_fields_item(&parse->body, name, array, i, &fields))
            return;
        out->text = hth_fields_required(&fields, "text", HTH_API_TEXT_BYTES_MAX);
    } else if (json_is_string(value)) {
        out->text = json_string_value(value);
    } else {
        hth_fields_wrong_type(&parse->body, name, "an array of texts", value);
    }
    if (out->text && !*out->text)
        hth_fields_refuse(&parse->body, name, "has an empty text; leave it out");
}

void hth_api_parse_rerank(hth_api_parse *parse)
{
    const char *name = hth_fields_has(&parse->body, "texts") ? "texts" : "documents";
    hth_api_embed *embed =
        begin(parse, HTH_NAMES("model", "query", "documents", "texts", "top_n", "return_text", "return_documents",
                               "truncate", "raw_scores", "lora", "cache_salt", "cache_prompt"));
    json_int_t top_n = 0;
    hearth_embed_input *inputs;
    json_t *array;

    if (!embed)
        return;
    embed->is_compact = strcmp(name, "texts") == 0;
    embed->options.query = hth_fields_required(&parse->body, "query", HTH_API_TEXT_BYTES_MAX);
    hth_fields_require(&parse->body, name);
    array = hth_fields_array(&parse->body, name, INPUTS_MAX);
    inputs = hth_api_allocate_structs(parse, json_array_size(array), sizeof(*inputs));
    for (size_t i = 0; inputs && i < json_array_size(array) && !hth_fields_failed(&parse->body); i++)
        read_document(parse, name, array, i, &inputs[i]);
    embed->options.inputs = inputs;
    embed->options.n_inputs = json_array_size(array);
    require_inputs(parse, embed, name);
    hth_fields_integer(&parse->body, "top_n", 1, INT32_MAX, &top_n);
    embed->top_n = (size_t)top_n;
    hth_fields_bool(&parse->body, "truncate", &embed->options.truncate);
    hth_fields_bool(&parse->body, "return_documents", &embed->wants_texts);
    hth_fields_bool(&parse->body, "return_text", &embed->wants_texts);
    hth_fields_pass_over(&parse->body, "raw_scores"); /* scores are always raw */
}
