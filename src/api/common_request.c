/*
 * common_request.c - fields that several endpoints share
 */
#include <string.h>

#include "api/parse.h"
#include "base/hex.h"
#include "sched/request.h"

void hth_api_parse_adapters(hth_api_parse *parse)
{
    json_t *list = hth_fields_array(&parse->body, "lora", HTH_ADAPTERS_MAX);
    hearth_adapter_scale *adapters;
    hth_fields one;

    if (!list)
        return;
    adapters = hth_api_allocate(parse, json_array_size(list) + 1, sizeof(*adapters)); /* an empty list is a list, too */
    for (size_t i = 0; adapters && hth_fields_item(&parse->body, "lora", list, i, &one); i++) {
        hth_fields_require(&one, "id");
        hth_fields_require(&one, "scale");
        hth_fields_u32(&one, "id", 0, UINT32_MAX, &adapters[i].id);
        hth_fields_float(&one, "scale", -HTH_ADAPTER_SCALE_MAX, HTH_ADAPTER_SCALE_MAX, &adapters[i].scale);
        hth_fields_rest(&one, HTH_NAMES("id", "scale"));
    }
    parse->request->options.adapters = adapters;
    parse->request->options.n_adapters = adapters ? json_array_size(list) : 0;
}

void hth_api_parse_extras(hth_api_parse *parse)
{
    hearth_request *options = &parse->request->options;
    const char *parent = NULL;
    json_int_t priority = options->priority; /* the default */

    hth_fields_string(&parse->body, "session_id", HTH_SESSION_BYTES_MAX, &options->session_id);
    if (options->session_id && !*options->session_id)
        hth_fields_refuse(&parse->body, "session_id", "is empty; leave it out");
    hth_fields_string(&parse->body, "cache_salt", HTH_API_SALT_BYTES_MAX, &options->cache_salt);
    hth_fields_integer(&parse->body, "priority", -100, 100, &priority);
    options->priority = (int32_t)priority;
    hth_fields_bool(&parse->body, "return_progress", &parse->request->wants_progress);
    hth_api_parse_adapters(parse);
    hth_fields_string(&parse->body, "parent_key", 64, &parent);
    if (parent) {
        uint8_t *key = hth_api_allocate(parse, 32, 1);

        options->n_parent_digits = key ? (uint32_t)hth_hex_decode_first(parent, key, 32) : 0;
        if (key && options->n_parent_digits == 0)
            hth_fields_refuse(
                &parse->body, "parent_key",
                "is not 1 to 64 hexadecimal digits, the first ones of the 'finish_key' of an earlier reply "
                "of /completion");
        options->parent_key = key;
    }
}

/* ---- messages ---- */

const char *hth_api_parse_role(const hth_fields *fields, const char *const *roles)
{
    int role;

    hth_fields_require(fields, "role");
    role = hth_fields_word(fields, "role", roles);
    return role < 0 ? NULL : roles[role];
}

bool hth_api_begins_reply(const hearth_chat_turn *last)
{
    return strcmp(last->role, "assistant") == 0 && last->n_calls == 0 &&
           (last->reasoning || last->n_parts > 0 || (last->content && *last->content));
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
        hth_fields_wrong_type(&parse->body, name, "a text or an array of texts", value);
        return;
    }
    if (n > HTH_STOPS_MAX) {
        hth_fields_refuse(&parse->body, name, "has %zu texts; at most %d are allowed", n, HTH_STOPS_MAX);
        return;
    }
    stop = hth_api_allocate(parse, n, sizeof(*stop));
    for (size_t i = 0; stop && i < n; i++) {
        json_t *text = json_is_array(value) ? json_array_get(value, i) : value;

        if (!json_is_string(text)) {
            hth_fields_wrong_type(&parse->body, name, "texts", text);
            return;
        }
        if (json_string_length(text) == 0)
            continue; /* some clients send empty texts for empty fields of a form */
        if (json_string_length(text) > HTH_STOP_BYTES_MAX)
            hth_fields_refuse(&parse->body, name, "has a text of %zu bytes; at most %d are allowed",
                              json_string_length(text), HTH_STOP_BYTES_MAX);
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

void hth_api_parse_openai_common(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;
    hth_fields options;

    hth_fields_bool(&parse->body, "stream", &request->stream);
    if (hth_fields_enter(&parse->body, "stream_options", &options)) {
        if (!request->stream)
            hth_fields_note(&parse->body, "stream_options");
        hth_fields_rest(&options, HTH_NAMES("include_usage", "include_obfuscation"));
        hth_fields_bool(&options, "include_usage", &request->include_usage);
        hth_fields_bool(&options, "include_obfuscation", NULL); /* no effect here */
    }
    hth_api_parse_sampling(parse, /* is_openai= */ true);
    hth_fields_u32(&parse->body, "n", 1, HTH_API_REPLIES_MAX, &request->options.n);
    hth_api_parse_stop(parse, "stop");
    hth_api_parse_extras(parse);
}
