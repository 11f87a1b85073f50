/*
 * prompt_request.c - prompts of text and tokens
 */
#include "api/parse.h"

enum { PROMPTS_MAX = 128 };

const hearth_token *hth_api_parse_tokens(hth_api_parse *parse, const char *name, json_t *array)
{
    hearth_token *tokens = hth_api_allocate(parse, json_array_size(array), sizeof(*tokens));

    for (size_t i = 0; tokens && i < json_array_size(array); i++) {
        json_t *id = json_array_get(array, i);

        if (!json_is_integer(id)) {
            hth_fields_wrong_type(&parse->body, name, "an array of token ids", id);
            return NULL;
        }
        if (json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX) {
            hth_fields_refuse(&parse->body, name,
                              "has %" JSON_INTEGER_FORMAT ", which is no token; tokens are numbers from 0 on",
                              json_integer_value(id));
            return NULL;
        }
        tokens[i] = (hearth_token)json_integer_value(id);
    }
    return tokens;
}

static bool all_are(const json_t *array, bool (*is)(const json_t *))
{
    for (size_t i = 0; i < json_array_size(array); i++)
        if (!is(json_array_get(array, i)))
            return false;
    return json_array_size(array) > 0;
}

static bool is_text(const json_t *value)
{
    return json_is_string(value);
}

static bool is_number(const json_t *value)
{
    return json_is_number(value);
}

static bool is_text_or_number(const json_t *value)
{
    return json_is_string(value) || json_is_number(value);
}

/* The texts and the runs of tokens in an array, as consecutive pieces. */
static void parse_mixed(hth_api_parse *parse, const char *name, json_t *array, hth_api_text_prompt *out)
{
    hth_api_piece *pieces = hth_api_allocate(parse, json_array_size(array), sizeof(*pieces));
    size_t n = 0;

    for (size_t i = 0; pieces && i < json_array_size(array);) {
        json_t *value = json_array_get(array, i);
        json_t *run;

        if (json_is_string(value)) {
            pieces[n++].text = json_string_value(value);
            i++;
            continue;
        }
        run = json_array();
        for (; json_is_number(json_array_get(array, i)); i++)
            json_array_append(run, json_array_get(array, i));
        pieces[n].tokens = hth_api_parse_tokens(parse, name, run);
        pieces[n++].n_tokens = json_array_size(run);
        json_decref(run);
        if (parse->error->kind != HTH_API_NO_ERROR)
            return;
    }
    out->pieces = pieces;
    out->n_pieces = n;
}

bool hth_api_prompt_is_mixed(const json_t *value)
{
    return json_is_array(value) && all_are(value, is_text_or_number) && !all_are(value, is_text) &&
           !all_are(value, is_number);
}

json_t *hth_api_prompt_value(hth_api_parse *parse, const char *name, json_t *value)
{
    json_t *text = json_object_get(value, "prompt_string");

    if (!text)
        return value;
    if (json_object_get(value, "multimodal_data"))
        hth_fields_refuse(&parse->body, name,
                          "has multimodal_data, which no model here can read; send prompt_string alone");
    return text;
}

void hth_api_parse_prompt(hth_api_parse *parse, const char *name, json_t *value, bool mixed, hth_api_text_prompt *out)
{
    hth_api_piece *piece;

    value = hth_api_prompt_value(parse, name, value);
    if (json_is_array(value) && mixed && all_are(value, is_text_or_number)) {
        parse_mixed(parse, name, value, out);
        return;
    }
    piece = hth_api_allocate(parse, 1, sizeof(*piece));
    if (!piece)
        return;
    if (json_is_string(value)) {
        piece->text = json_string_value(value);
    } else if (json_is_array(value) && all_are(value, is_number)) {
        piece->tokens = hth_api_parse_tokens(parse, name, value);
        piece->n_tokens = json_array_size(value);
    } else {
        hth_fields_wrong_type(&parse->body, name,
                              "a text, an array of token ids, an object with prompt_string, or an array of these",
                              value);
    }
    out->pieces = piece;
    out->n_pieces = 1;
}

void hth_api_parse_prompts(hth_api_parse *parse, bool mixed)
{
    json_t *value;
    hth_api_text_prompt *prompts;
    bool is_one;
    size_t n;

    hth_fields_require(&parse->body, "prompt");
    value = hth_fields_any(&parse->body, "prompt");
    if (!value)
        return;
    is_one = !json_is_array(value) || all_are(value, is_number) || (mixed && hth_api_prompt_is_mixed(value));
    n = is_one ? 1 : json_array_size(value);
    if (n == 0 || n > PROMPTS_MAX) {
        hth_fields_refuse(&parse->body, "prompt", "has %zu prompts; 1 to %d are allowed", n, PROMPTS_MAX);
        return;
    }
    if (n * parse->request->options.n > HTH_API_REPLIES_MAX)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "n",
                     "%zu prompts with %u replies each are too many; at most %d replies are allowed", n,
                     parse->request->options.n, HTH_API_REPLIES_MAX);
    prompts = hth_api_allocate(parse, n, sizeof(*prompts));
    for (size_t i = 0; prompts && i < n && parse->error->kind == HTH_API_NO_ERROR; i++)
        hth_api_parse_prompt(parse, "prompt", is_one ? value : json_array_get(value, i), mixed, &prompts[i]);
    parse->request->prompts = prompts;
    parse->request->n_prompts = n;
}

void hth_api_set_prompt(hth_api_parse *parse, const char *text)
{
    hth_api_piece *piece = hth_api_allocate(parse, 1, sizeof(*piece));
    hth_api_text_prompt *prompt = hth_api_allocate(parse, 1, sizeof(*prompt));

    if (!piece || !prompt)
        return;
    piece->text = text;
    *prompt = (hth_api_text_prompt){ .pieces = piece, .n_pieces = 1 };
    parse->request->prompts = prompt;
    parse->request->n_prompts = 1;
}
