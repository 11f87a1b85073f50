/*
 * anthropic_request.c - /v1/messages and /v1/messages/count_tokens
 *
 * The fields of the body but messages (anthropic_messages.c), tools (anthropic_tools.c) and what is left out of a long
 * history (anthropic_edits.c).
 */
#include <stdio.h>
#include <string.h>

#include "api/anthropic_inside.h"

void hth_anthropic_cache_control(hth_api_parse *parse, const hth_fields *fields)
{
    static const char *const known[] = { "type", "ttl", "scope", NULL };
    char path[HTH_PATH_BYTES] = "";
    hth_fields inside = hth_fields_inside(&parse->body, NULL, path);
    const char *type = NULL;

    inside.object = hth_fields_object(fields, "cache_control");
    if (!inside.object)
        return;
    (void)hth_fields_path(fields, "cache_control.", path);
    hth_fields_rest(&inside, known);
    hth_fields_string(&inside, "type", HTH_ANTHROPIC_NAME_BYTES_MAX, &type);
    if (type && strcmp(type, "ephemeral") != 0)
        hth_fields_pass_over(&inside, "type");
    parse->request->has_cache_control = true;
}

static void parse_thinking(hth_api_parse *parse)
{
    static const char *const known[] = { "type", "budget_tokens", "display", NULL };
    hth_fields fields = hth_fields_inside(&parse->body, NULL, "thinking.");
    const char *type = parse->reasoning == HTH_API_REASONING_ON ? "adaptive" : "disabled";
    json_int_t budget = 0;

    fields.object = hth_fields_object(&parse->body, "thinking");
    if (fields.object) {
        hth_fields_rest(&fields, known);
        hth_fields_require(&fields, "type");
        hth_fields_string(&fields, "type", HTH_ANTHROPIC_NAME_BYTES_MAX, &type);
        hth_fields_integer(&fields, "budget_tokens", 0, INT32_MAX,
                           &budget); /* the template decides how long it thinks */
    }
    parse->request->wants_thinking = strcmp(type, "enabled") == 0 || strcmp(type, "adaptive") == 0;
    parse->request->conversation.no_thinking = !parse->request->wants_thinking;
    if (!parse->request->wants_thinking && strcmp(type, "disabled") != 0)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "thinking.type",
                     "'thinking.type' is '%.40s'; it must be enabled, adaptive or disabled", type);
}

/* What the reply is to be like: as JSON of a schema, or thought over so much. */
static void parse_output_format(hth_api_parse *parse, const hth_fields *outer, const char *name)
{
    static const char *const known[] = { "type", "schema", NULL };
    char path[HTH_PATH_BYTES] = "", inside[HTH_PATH_BYTES];
    hth_fields fields = hth_fields_inside(&parse->body, NULL, path);
    const char *type = NULL;
    json_t *schema;

    fields.object = hth_fields_object(outer, name);
    if (!fields.object)
        return;
    (void)snprintf(path, sizeof(path), "%s%s.", outer->path, name); /* names are ours, and short */
    hth_fields_rest(&fields, known);
    hth_fields_require(&fields, "type");
    hth_fields_string(&fields, "type", HTH_ANTHROPIC_NAME_BYTES_MAX, &type);
    if (type && strcmp(type, "json_schema") != 0)
        hth_api_fail(parse->error, HTH_API_UNSUPPORTED, hth_fields_path(&fields, "type", inside),
                     "'%s' is '%.40s'; only json_schema is supported here", inside, type);
    hth_fields_require(&fields, "schema");
    schema = hth_fields_object(&fields, "schema");
    if (schema)
        parse->request->conversation.json_schema =
            hth_api_schema_text(parse, hth_fields_path(&fields, "schema", inside), schema);
}

static void parse_output_config(hth_api_parse *parse)
{
    static const char *const known[] = { "effort", "format", NULL };
    hth_fields fields = hth_fields_inside(&parse->body, NULL, "output_config.");
    const char *effort = NULL;
    json_t *values;

    fields.object = hth_fields_object(&parse->body, "output_config");
    parse_output_format(parse, &parse->body, "output_format"); /* its name in the beta */
    if (!fields.object)
        return;
    hth_fields_rest(&fields, known);
    parse_output_format(parse, &fields, "format");
    hth_fields_string(&fields, "effort", HTH_ANTHROPIC_NAME_BYTES_MAX, &effort);
    if (effort && !hth_api_is_effort(effort))
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "output_config.effort",
                     "'output_config.effort' is '%.40s'; it must be low, medium, high, xhigh or max", effort);
    if (!effort)
        return;
    values = json_pack("{s:s}", "reasoning_effort", effort);
    parse->request->conversation.template_values = values ? hth_api_json_text(parse, values) : NULL;
    json_decref(values);
}

/*
 * A conversation that the server is to have kept: the next request would come without its history. Clients are told so in
 * the form that they know, and send all of it.
 */
static void refuse_thread(hth_api_parse *parse)
{
    if (!hth_fields_has(&parse->body, "thread"))
        return;
    hth_api_fail(parse->error, HTH_API_UNSUPPORTED, "thread",
                 "'thread' is not supported here; send the whole conversation in 'messages'");
    parse->error->details = "{\"error_code\":\"thread_unsupported_request\",\"unsupported\":[\"thread\"]}";
}

void hth_api_parse_messages(hth_api_parse *parse)
{
    static const char *const known[] = { HTH_API_EXTRA_FIELDS, "model", "messages", "max_tokens", "system", "stream",
                                         "temperature", "top_p", "top_k", "stop_sequences", "tools", "tool_choice",
                                         "thinking", "cache_control", "metadata", "service_tier", "output_config",
                                         "output_format", "context_management", "thread",
                                         /* accepted, without effect */
                                         "inference_geo", "speed", "diagnostics", "user_profile_id", "workspace_id",
                                         "betas", NULL };
    hth_api_request *request = parse->request;
    hearth_sampling *sampling = &request->sampling;
    json_int_t n_tokens = request->options.n_predict, top_k = sampling->top_k;
    hearth_chat_turn *turns;

    request->is_chat = true;
    refuse_thread(parse);
    hth_fields_rest(&parse->body, known);
    hth_fields_require(&parse->body, "model");
    hth_fields_string(&parse->body, "model", HTH_ANTHROPIC_NAME_BYTES_MAX, &request->model);
    if (request->kind == HTH_API_MESSAGES)
        hth_fields_require(&parse->body, "max_tokens");
    hth_fields_integer(&parse->body, "max_tokens", 0, INT32_MAX, &n_tokens);
    hth_api_set_length(parse, n_tokens);
    hth_fields_bool(&parse->body, "stream", &request->stream);
    hth_fields_float(&parse->body, "temperature", 0, 2, &sampling->temperature);
    hth_fields_float(&parse->body, "top_p", 0, 1, &sampling->top_p);
    hth_fields_integer(&parse->body, "top_k", -1, INT32_MAX, &top_k);
    sampling->top_k = top_k < 0 ? 0 : (int32_t)top_k; /* either way: all of them */
    hth_anthropic_cache_control(parse, &parse->body);
    if (hth_fields_array(&parse->body, "stop_sequences", SIZE_MAX)) /* not a text alone, as others have it */
        hth_api_parse_stop(parse, "stop_sequences");
    hth_api_parse_extras(parse);
    turns = hth_anthropic_messages(parse);
    hth_anthropic_tools(parse);
    parse_thinking(parse);
    parse_output_config(parse);
    hth_anthropic_edits(parse, turns);
}
