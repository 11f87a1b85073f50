/*
 * common_request.c - fields that several endpoints have
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/request_inside.h"
#include "base/hash.h"

enum {
    STOPS_MAX = 64,
    STOP_BYTES_MAX = 1024,
    SESSION_BYTES_MAX = 128,
    PROMPTS_MAX = 128,
    MODEL_BYTES_MAX = 256,
};

void hth_api_parse_extras(hth_api_parse *parse)
{
    hearth_request *options = &parse->request->options;
    const char *parent = NULL;
    json_int_t priority = 0;

    hth_fields_string(&parse->body, "session_id", SESSION_BYTES_MAX, &options->session_id);
    if (options->session_id && !*options->session_id)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "session_id", "'session_id' is empty; leave it out");
    hth_fields_string(&parse->body, "cache_salt", HTH_API_SALT_BYTES_MAX, &options->cache_salt);
    hth_fields_integer(&parse->body, "priority", -100, 100, &priority);
    options->priority = (int32_t)priority;
    hth_fields_bool(&parse->body, "return_progress", &parse->request->wants_progress);
    hth_fields_string(&parse->body, "parent_key", 64, &parent);
    if (parent) {
        uint8_t *key = hth_api_allocate(parse, 32, 1);

        if (key && (strlen(parent) != 64 || !hth_hex_decode(parent, key, 32)))
            hth_api_fail(
                parse->error, HTH_API_INVALID_VALUE, "parent_key",
                "'parent_key' is not 64 hexadecimal digits; give the 'finish_key' of an earlier reply of /completion");
        options->parent_key = key;
    }
}

/* ---- messages ---- */

const char *hth_api_parse_role(hth_api_parse *parse, const hth_fields *fields, const char *const *roles,
                               const char *said)
{
    enum { ROLE_BYTES_MAX = 256 };
    const char *role = NULL;
    char path[HTH_PATH_BYTES];

    hth_fields_require(fields, "role");
    hth_fields_string(fields, "role", ROLE_BYTES_MAX, &role);
    if (!role)
        return NULL;
    for (; *roles; roles++)
        if (strcmp(*roles, role) == 0)
            return *roles;
    hth_api_fail(parse->error, HTH_API_INVALID_VALUE, hth_fields_path(fields, "role", path),
                 "'%s' is '%.40s'; it must be %s", path, role, said);
    return NULL;
}

bool hth_api_begins_reply(const hearth_chat_turn *last)
{
    return strcmp(last->role, "assistant") == 0 && last->n_calls == 0 &&
           (last->reasoning || last->n_parts > 0 || (last->content && *last->content));
}

/* ---- tools ---- */

bool hth_api_is_name(const char *text, size_t n_max)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

    return n >= 1 && n <= n_max && text[n] == '\0';
}

void hth_api_check_tool_name(hth_api_parse *parse, const char *path, const hearth_chat_tool *tools, size_t i,
                             size_t n_max)
{
    const char *name = tools[i].name;

    if (!name)
        return;
    if (!hth_api_is_name(name, n_max))
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, path,
                     "'%s' is '%.140s'; it must be 1 to %zu letters, digits, underscores and hyphens", path, name,
                     n_max);
    for (size_t j = 0; j < i; j++)
        if (tools[j].name && strcmp(tools[j].name, name) == 0)
            hth_api_fail(parse->error, HTH_API_INVALID_VALUE, path,
                         "'%s' is '%s', as that of tool %zu; give each tool a name of its own", path, name, j);
}

/* What "#/a/b" names in a document, as the engine looks for it; NULL where there is nothing. */
static const json_t *referred(const json_t *root, const char *reference)
{
    const json_t *at = root;

    if (strncmp(reference++, "#/", 2) != 0)
        return NULL;
    while (at && *reference == '/') {
        size_t n = strcspn(++reference, "/");
        char name[256]; /* longer ones are none that a schema may have */

        if (n >= sizeof(name))
            return NULL;
        memcpy(name, reference, n);
        name[n] = '\0';
        if (json_is_array(at) && n > 0 && n < 8 && strspn(reference, "0123456789") >= n)
            at = json_array_get(at, (size_t)strtoul(reference, NULL, 10));
        else
            at = json_object_get(at, name);
        reference += n;
    }
    return *reference ? NULL : at;
}

/* What stands there is no schema. */
static bool holds_values(const char *name)
{
    return strcmp(name, "const") == 0 || strcmp(name, "enum") == 0 || strcmp(name, "default") == 0 ||
           strcmp(name, "examples") == 0;
}

/* The first reference in a value that leads nowhere; NULL: none. Bodies are not nested deeper than their limit. */
static const char *lost_reference(const json_t *root, json_t *value)
{
    const char *lost = NULL, *name;
    json_t *member;
    size_t i;

    if (json_is_array(value)) {
        json_array_foreach(value, i, member)
        {
            lost = lost_reference(root, member);
            if (lost)
                return lost;
        }
        return NULL;
    }
    json_object_foreach(value, name, member)
    {
        if (holds_values(name))
            continue;
        if (strcmp(name, "$ref") == 0 && json_is_string(member) && !referred(root, json_string_value(member)))
            lost = json_string_value(member);
        else
            lost = lost_reference(root, member);
        if (lost)
            return lost;
    }
    return NULL;
}

const char *hth_api_lost_reference(json_t *schema)
{
    return lost_reference(schema, schema);
}

void hth_api_check_references(hth_api_parse *parse, const char *path, json_t *schema)
{
    const char *lost = parse->error->kind == HTH_API_NO_ERROR ? hth_api_lost_reference(schema) : NULL;

    if (lost)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, path,
                     "'%s' refers to '%.100s', which is not in it; references are '#/...' of the same schema", path,
                     lost);
}

const char *hth_api_replaced_part(hth_api_parse *parse, const char *path, const char *type)
{
    /* By how the types of all the APIs begin. */
    static const char *const kinds[] = { "image",    "input_image", "input_audio", "audio",         "video",
                                         "document", "file",        "input_file",  "search_result", NULL };
    static const char *const names[] = { "image",    "image", "audio", "audio",        "video",
                                         "document", "file",  "file",  "search result" };
    const char *name = "part";
    char note[HTH_PATH_BYTES];

    for (size_t i = 0; kinds[i]; i++)
        if (strncmp(type, kinds[i], strlen(kinds[i])) == 0) {
            name = names[i];
            break;
        }
    (void)snprintf(note, sizeof(note), "%.60s%s", path, type); /* cut where the path is long */
    hth_api_note(parse->notes, note);
    return hth_api_join(parse, "[", name, " left out]");
}

/* ---- fields of several endpoints ---- */

void hth_api_parse_stop(hth_api_parse *parse, const char *name)
{
    json_t *value = hth_fields_any(&parse->body, name);
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    const char **stop;
    size_t n_stop = 0;

    if (!value)
        return;
    if (!json_is_array(value) && !json_is_string(value)) {
        hth_fail_type(parse->error, name, "a text or an array of texts", value);
        return;
    }
    if (n > STOPS_MAX) {
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, name, "'%s' has %zu texts; at most %d are allowed", name, n,
                     STOPS_MAX);
        return;
    }
    stop = hth_api_allocate(parse, n, sizeof(*stop));
    for (size_t i = 0; stop && i < n; i++) {
        json_t *text = json_is_array(value) ? json_array_get(value, i) : value;

        if (!json_is_string(text)) {
            hth_fail_type(parse->error, name, "texts", text);
            return;
        }
        if (json_string_length(text) == 0)
            continue; /* clients fill in their forms so */
        if (json_string_length(text) > STOP_BYTES_MAX)
            hth_api_fail(parse->error, HTH_API_INVALID_VALUE, name,
                         "a text of '%s' is %zu bytes long; at most %d are allowed", name, json_string_length(text),
                         STOP_BYTES_MAX);
        stop[n_stop++] = json_string_value(text);
    }
    parse->request->options.stop = stop;
    parse->request->options.n_stop = n_stop;
}

void hth_api_set_length(hth_api_parse *parse, json_int_t n)
{
    parse->request->options.n_predict = n < 0 ? -1 : (int32_t)n;
    parse->request->options.prefill_only = n == 0;
}

void hth_api_parse_seed(hth_api_parse *parse, json_int_t low)
{
    json_int_t seed = -1;

    if (!hth_fields_has(&parse->body, "seed"))
        return;
    hth_fields_integer(&parse->body, "seed", low, INT64_MAX, &seed);
    parse->request->has_seed = low < -1 || seed >= 0;
    parse->request->sampling.seed = (uint64_t)seed;
}

void hth_api_parse_openai_common(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;
    json_t *stream_options;

    hth_fields_string(&parse->body, "model", MODEL_BYTES_MAX, &request->model);
    hth_fields_bool(&parse->body, "stream", &request->stream);
    stream_options = hth_fields_object(&parse->body, "stream_options");
    if (stream_options) {
        static const char *const known[] = { "include_usage", "include_obfuscation", NULL };
        hth_fields fields = hth_fields_inside(&parse->body, stream_options, "stream_options.");
        bool obfuscate = false;

        if (!request->stream)
            hth_fields_pass_over(&parse->body, "stream_options");
        hth_fields_rest(&fields, known);
        hth_fields_bool(&fields, "include_usage", &request->include_usage);
        hth_fields_bool(&fields, "include_obfuscation", &obfuscate); /* without effect */
    }
    hth_api_parse_chain(parse, 2);
    hth_fields_u32(&parse->body, "n", 1, HTH_API_REPLIES_MAX, &request->options.n);
    hth_api_parse_logit_bias(parse, 100);
    hth_api_parse_grammar(parse);
    hth_api_parse_native_extras(parse);
    hth_api_parse_seed(parse, INT64_MIN);
    hth_api_parse_stop(parse, "stop");
    hth_api_parse_extras(parse);
}

/* ---- prompts ---- */

const hearth_token *hth_api_parse_tokens(hth_api_parse *parse, const char *path, json_t *array)
{
    hearth_token *tokens = hth_api_allocate(parse, json_array_size(array), sizeof(*tokens));

    for (size_t i = 0; tokens && i < json_array_size(array); i++) {
        json_t *id = json_array_get(array, i);

        if (!json_is_integer(id)) {
            hth_fail_type(parse->error, path, "an array of token ids", id);
            return NULL;
        }
        if (json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX) {
            hth_api_fail(parse->error, HTH_API_INVALID_VALUE, path, "%" JSON_INTEGER_FORMAT " in '%s' is no token",
                         json_integer_value(id), path);
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

/* Texts and runs of tokens of an array, one after the other. */
static void parse_mixed(hth_api_parse *parse, json_t *array, hth_api_text_prompt *out)
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
        pieces[n].tokens = hth_api_parse_tokens(parse, "prompt", run);
        pieces[n++].n_tokens = json_array_size(run);
        json_decref(run);
        if (parse->error->kind != HTH_API_NO_ERROR)
            return;
    }
    out->pieces = pieces;
    out->n_pieces = n;
}

static void parse_prompt(hth_api_parse *parse, json_t *value, bool mixed, hth_api_text_prompt *out)
{
    hth_api_piece *piece;

    if (json_is_array(value) && mixed && all_are(value, is_text_or_number)) {
        parse_mixed(parse, value, out);
        return;
    }
    piece = hth_api_allocate(parse, 1, sizeof(*piece));
    if (!piece)
        return;
    if (json_is_string(value)) {
        piece->text = json_string_value(value);
    } else if (json_is_array(value) && all_are(value, is_number)) {
        piece->tokens = hth_api_parse_tokens(parse, "prompt", value);
        piece->n_tokens = json_array_size(value);
    } else {
        hth_fail_type(parse->error, "prompt", "a text, an array of token ids, or an array of these", value);
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
    is_one = !json_is_array(value) || all_are(value, is_number) ||
             (mixed && all_are(value, is_text_or_number) && !all_are(value, is_text));
    n = is_one ? 1 : json_array_size(value);
    if (n == 0 || n > PROMPTS_MAX) {
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "prompt", "'prompt' has %zu prompts; 1 to %d are allowed", n,
                     PROMPTS_MAX);
        return;
    }
    if (n * parse->request->options.n > HTH_API_REPLIES_MAX)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "n",
                     "%zu prompts with %u replies each are too many; at most %d replies are allowed", n,
                     parse->request->options.n, HTH_API_REPLIES_MAX);
    prompts = hth_api_allocate(parse, n, sizeof(*prompts));
    for (size_t i = 0; prompts && i < n && parse->error->kind == HTH_API_NO_ERROR; i++)
        parse_prompt(parse, is_one ? value : json_array_get(value, i), mixed, &prompts[i]);
    parse->request->prompts = prompts;
    parse->request->n_prompts = n;
}
