/*
 * ollama_options.c - the fields that Ollama's chats and completions share
 *
 * Options that choose tokens are read as in other APIs. Options that say how to load a model have no effect: the server
 * decides that, and a change with each request would lose the content of the cache.
 */
#include <string.h>

#include "api/keep_alive.h"
#include "dialects/ollama_inside.h"

enum { DURATION_BYTES_MAX = 64 };

/* ---- keep_alive ---- */

/* The front obeys it (hth_api_peek_keep_alive). Here it is checked, and 0 without a prompt is answered otherwise. */
static void parse_keep_alive(hth_api_parse *parse)
{
    json_t *value = hth_fields_any(&parse->body, "keep_alive");
    uint64_t ms = UINT64_MAX;

    if (!value)
        return;
    if (json_is_number(value))
        ms = json_number_value(value) != 0;
    else if (!json_is_string(value))
        hth_fields_wrong_type(&parse->body, "keep_alive", "a number of seconds or a duration such as \"5m\"", value);
    else if (json_string_length(value) > DURATION_BYTES_MAX || !hth_api_keep_alive_read(json_string_value(value), &ms))
        hth_fields_fail(&parse->body, HTH_API_INVALID_VALUE, "keep_alive",
                        "is '%.40s'; it must be a number of seconds or a duration such as \"5m\"",
                        json_string_value(value));
    parse->request->is_unload = ms == 0;
}

/* ---- options ---- */

/* Options that say how to load a model. */
#define IDLE_FIELDS                                                                                        \
    "num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "numa", "low_vram", "f16_kv", \
        "logits_all", "vocab_only", "use_mmap", "use_mlock", "embedding_only", "penalize_newline"

static void parse_options(hth_api_parse *parse)
{
    static const char *const known[] = { HTH_API_SAMPLING_FIELDS, IDLE_FIELDS, "seed", "stop",
                                         "num_predict",           "tfs_z",     NULL };
    static const char *const idle[] = { IDLE_FIELDS };
    hth_api_parse inside = *parse; /* the same request, with another object */
    json_int_t n = parse->request->options.n_predict;
    double tail_free = 1;

    if (!hth_fields_enter(&parse->body, "options", &inside.body))
        return;
    hth_fields_rest(&inside.body, known);
    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
        hth_fields_pass_over(&inside.body, idle[i]);
    hth_fields_number(&inside.body, "tfs_z", -1e9, 1e9, &tail_free);
    if (tail_free < 1 && tail_free > 0) /* other values switch it off */
        hth_fields_pass_over(&inside.body, "tfs_z");
    hth_api_parse_chain(&inside, 1000);
    hth_api_parse_logit_bias(&inside, 1e6);
    hth_api_parse_grammar(&inside);
    hth_api_parse_native_extras(&inside);
    hth_api_parse_seed(&inside, -1);
    hth_api_parse_stop(&inside, "stop");
    hth_fields_integer(&inside.body, "num_predict", -2, INT32_MAX, &n);
    hth_api_set_length(&inside, n);
}

/* Read "format": "json", or a JSON schema. */
static void parse_format(hth_api_parse *parse)
{
    json_t *format = hth_fields_any(&parse->body, "format");
    const char *word = json_string_value(format), *schema;

    if (!format || (word && !*word))
        return;
    schema =
        word && strcmp(word, "json") == 0 ? HTH_API_ANY_OBJECT : hth_api_parse_schema(parse, &parse->body, "format");
    if (parse->request->is_chat)
        parse->request->conversation.json_schema = schema;
    else
        parse->request->sampling.json_schema = schema;
}

static void parse_logprobs(hth_api_parse *parse)
{
    hearth_request *options = &parse->request->options;

    hth_fields_bool(&parse->body, "logprobs", &options->logprobs);
    hth_fields_u32(&parse->body, "top_logprobs", 0, 20, &options->n_top_logprobs);
    if (!options->logprobs)
        options->n_top_logprobs = 0;
}

/* A prompt that does not fit is an error here, and a full context ends the reply, so these fields have no effect. */
static void parse_overflow(hth_api_parse *parse)
{
    static const char *const names[] = { "truncate", "shift" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        bool is_wanted = false;

        hth_fields_bool(&parse->body, names[i], &is_wanted);
        if (is_wanted)
            hth_fields_pass_over(&parse->body, names[i]);
    }
}

void hth_api_parse_ollama_common(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;

    request->stream = true;
    hth_fields_string(&parse->body, "model", HTH_API_NAME_BYTES_MAX, &request->model);
    hth_fields_bool(&parse->body, "stream", &request->stream);
    parse_options(parse);
    parse_format(parse);
    parse_logprobs(parse);
    parse_keep_alive(parse);
    parse_overflow(parse);
    hth_api_parse_thinking(parse);
    hth_api_parse_extras(parse);
}
