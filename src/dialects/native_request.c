/*
 * native_request.c - llama.cpp's own endpoints: /completion, /tokenize, /detokenize, and the body of POST /slots/N
 */
#include <string.h>

#include "api/parse.h"
#include "base/utf8.h"
#include "dialects/kinds.h"

enum {
    TOKENS_MAX = 1 << 24,
    RESPONSE_FIELDS_MAX = 64,
    FILENAME_BYTES_MAX = 255,
};

/* The members to include in the reply: names, or paths with slashes. */
static void parse_response_fields(hth_api_parse *parse)
{
    json_t *array = hth_fields_array(&parse->body, "response_fields", RESPONSE_FIELDS_MAX);

    for (size_t i = 0; i < json_array_size(array); i++)
        if (!json_is_string(json_array_get(array, i))) {
            hth_fields_wrong_type(&parse->body, "response_fields", "an array of texts", json_array_get(array, i));
            return;
        }
    if (json_array_size(array) == 0)
        return;
    parse->request->response_fields = array;
    parse->request->omits_probabilities = true;
    for (size_t i = 0; i < json_array_size(array); i++)
        if (strcmp(json_string_value(json_array_get(array, i)), "completion_probabilities") == 0)
            parse->request->omits_probabilities = false;
}

void hth_api_parse_native(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;
    hearth_request *options = &request->options;
    json_int_t n_tokens = options->n_predict, n_reuse = 0;

    hth_fields_rest(&parse->body,
                    HTH_NAMES(HTH_API_EXTRA_FIELDS, HTH_API_SAMPLING_FIELDS, "model", "stream", "max_tokens",
                              "n_predict", "n", "n_probs", "return_tokens", "seed", "stop", "prompt", "response_fields",
                              "n_cache_reuse", "input_prefix", "input_suffix", "input_extra"));
    if (request->kind != HTH_API_INFILL)
        hth_fields_pass_over_all(&parse->body, HTH_NAMES("input_prefix", "input_suffix", "input_extra"));
    hth_fields_bool(&parse->body, "stream", &request->stream);
    hth_fields_integer(&parse->body, "max_tokens", -2, INT32_MAX, &n_tokens);
    hth_fields_integer(&parse->body, "n_predict", -2, INT32_MAX, &n_tokens);
    hth_api_set_length(parse, n_tokens);
    hth_fields_u32(&parse->body, "n", 1, HTH_API_REPLIES_MAX, &options->n);
    hth_fields_u32(&parse->body, "n_probs", 0, 64, &options->n_top_logprobs);
    options->logprobs = options->n_top_logprobs > 0;
    hth_fields_bool(&parse->body, "return_tokens", &request->wants_tokens);
    hth_api_parse_sampling(parse, /* is_openai= */ false);
    hth_api_parse_stop(parse, "stop");
    hth_api_parse_extras(parse);
    parse_response_fields(parse);
    hth_fields_integer(&parse->body, "n_cache_reuse", 0, INT32_MAX, &n_reuse);
    if (n_reuse > 0) /* moved cells differ from those that the model would compute */
        hth_fields_pass_over(&parse->body, "n_cache_reuse");
    if (request->kind == HTH_API_INFILL)
        hth_api_parse_infill(parse);
    else
        hth_api_parse_prompts(parse, /* mixed= */ true);
}

void hth_api_parse_tokenize(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;

    request->parse_special = true;
    hth_fields_rest(&parse->body, HTH_NAMES("model", "content", "add_special", "parse_special", "with_pieces"));
    request->text = hth_fields_required(&parse->body, "content", HTH_API_TEXT_BYTES_MAX);
    hth_fields_bool(&parse->body, "add_special", &request->add_special);
    hth_fields_bool(&parse->body, "parse_special", &request->parse_special);
    hth_fields_bool(&parse->body, "with_pieces", &request->with_pieces);
}

void hth_api_parse_detokenize(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;
    json_t *array;

    hth_fields_rest(&parse->body, HTH_NAMES("model", "tokens"));
    hth_fields_require(&parse->body, "tokens");
    array = hth_fields_array(&parse->body, "tokens", TOKENS_MAX);
    if (!array)
        return;
    request->tokens = hth_api_parse_tokens(parse, "tokens", array);
    request->n_tokens = json_array_size(array);
}

/*
 * The file is in a directory of the operator, so its name must be a plain file name. Names with a special meaning in a
 * shell or a path, or that look like another name, are refused. The replacement character stands for NUL and invalid
 * characters in texts.
 */
static bool is_filename(const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F || name[i] == '/' || name[i] == '\\')
            return false;
    return n > 0 && n <= FILENAME_BYTES_MAX && name[0] != '.' && !strstr(name, HTH_UTF8_REPLACEMENT);
}

void hth_api_parse_slot(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;

    hth_fields_rest(&parse->body, HTH_NAMES("model", "filename", "cache_salt", "lora"));
    hth_fields_string(&parse->body, "filename", parse->limits->body_bytes_max, &request->filename);
    hth_fields_string(&parse->body, "cache_salt", HTH_API_SALT_BYTES_MAX, &request->options.cache_salt);
    hth_api_parse_adapters(parse);
    if (request->filename && !is_filename(request->filename))
        hth_fields_refuse(
            &parse->body, "filename",
            "is no plain name of a file: give 1 to %d bytes without '/', '\\' and control characters, that "
            "do not begin with '.'",
            FILENAME_BYTES_MAX);
}
