/*
 * anthropic_request.c - /v1/messages and /v1/messages/count_tokens
 *
 * It reads the fields of the body, except messages (anthropic_messages.c), tools (anthropic_tools.c) and edits of the
 * history (anthropic_edits.c).
 */
#include <string.h>

#include "dialects/anthropic_inside.h"
#include "dialects/kinds.h"

void hth_anthropic_cache_control(hth_api_parse *parse, const hth_fields *fields)
{
    static const char *const known[] = { "type", "ttl", "scope", NULL };
    hth_fields inside;
    const char *type = NULL;

    if (!hth_fields_enter(fields, "cache_control", &inside))
        return;
    hth_fields_rest(&inside, known);
    hth_fields_string(&inside, "type", HTH_API_NAME_BYTES_MAX, &type);
    if (type && strcmp(type, "ephemeral") != 0)
        hth_fields_pass_over(&inside, "type");
    parse->request->has_cache_control = true;
}

static void parse_thinking(hth_api_parse *parse)
{
    static const char *const known[] = { "type", "budget_tokens", "display", NULL };
    static const char *const types[] = { "disabled", "enabled", "adaptive", NULL };
    int type = parse->reasoning == HTH_API_REASONING_ON;
    json_int_t budget = -1;
    hth_fields fields;

    if (hth_fields_enter(&parse->body, "thinking", &fields)) {
        hth_fields_rest(&fields, known);
        hth_fields_require(&fields, "type");
        type = hth_fields_word(&fields, "type", types);
        hth_fields_integer(&fields, "budget_tokens", 0, INT32_MAX, &budget);
        if (budget >= 0)
            parse->request->sampling.thinking_budget = (int32_t)budget;
    }
    parse->request->wants_thinking = type > 0;
    parse->request->conversation.no_thinking = !parse->request->wants_thinking;
}

/* The form of the reply: JSON that follows a schema. */
static void parse_output_format(hth_api_parse *parse, const hth_fields *outer, const char *name)
{
    static const char *const known[] = { "type", "schema", NULL };
    char path[HTH_PATH_BYTES];
    const char *type = NULL;
    hth_fields fields;
    json_t *schema;

    if (!hth_fields_enter(outer, name, &fields))
        return;
    hth_fields_rest(&fields, known);
    hth_fields_require(&fields, "type");
    hth_fields_string(&fields, "type", HTH_API_NAME_BYTES_MAX, &type);
    if (type && strcmp(type, "json_schema") != 0)
        hth_fields_fail(&fields, HTH_API_UNSUPPORTED, "type", "is '%.40s'; only json_schema is supported here", type);
    hth_fields_require(&fields, "schema");
    schema = hth_fields_object(&fields, "schema");
    if (schema)
        parse->request->conversation.json_schema =
            hth_api_schema_text(parse, hth_fields_path(&fields, "schema", path), schema);
}

static void parse_output_config(hth_api_parse *parse)
{
    static const char *const known[] = { "effort", "format", NULL };
    hth_fields fields;
    json_t *values;
    int effort;

    parse_output_format(parse, &parse->body, "output_format"); /* the name in the beta */
    if (!hth_fields_enter(&parse->body, "output_config", &fields))
        return;
    hth_fields_rest(&fields, known);
    parse_output_format(parse, &fields, "format");
    effort = hth_fields_word(&fields, "effort", hth_api_efforts);
    if (effort < 0)
        return;
    values = json_pack("{s:s}", "reasoning_effort", hth_api_efforts[effort]);
    parse->request->conversation.template_values = values ? hth_api_json_text(parse, values) : NULL;
    json_decref(values);
}

/*
 * A conversation that the server should have kept: the request comes without its history. The error has the form that
 * clients know, so they send the whole conversation.
 */
static void refuse_thread(hth_api_parse *parse)
{
    if (!hth_fields_has(&parse->body, "thread"))
        return;
    hth_fields_fail(&parse->body, HTH_API_UNSUPPORTED, "thread",
                    "is not supported here; send the whole conversation in 'messages'");
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
    hth_fields_string(&parse->body, "model", HTH_API_NAME_BYTES_MAX, &request->model);
    if (request->kind == HTH_API_MESSAGES)
        hth_fields_require(&parse->body, "max_tokens");
    hth_fields_integer(&parse->body, "max_tokens", 0, INT32_MAX, &n_tokens);
    hth_api_set_length(parse, n_tokens);
    hth_fields_bool(&parse->body, "stream", &request->stream);
    hth_fields_float(&parse->body, "temperature", -1e9, 2, &sampling->temperature);
    if (sampling->temperature < 0)
        sampling->temperature = 0; /* greedy, as in the other APIs */
    hth_fields_float(&parse->body, "top_p", 0, 1, &sampling->top_p);
    hth_fields_integer(&parse->body, "top_k", -1, INT32_MAX, &top_k);
    sampling->top_k = top_k < 0 ? 0 : (int32_t)top_k; /* both mean all tokens */
    hth_anthropic_cache_control(parse, &parse->body);
    /* a single text, as other APIs allow, is an error */
    if (hth_fields_array(&parse->body, "stop_sequences", SIZE_MAX))
        hth_api_parse_stop(parse, "stop_sequences");
    hth_api_parse_extras(parse);
    turns = hth_anthropic_messages(parse);
    hth_anthropic_tools(parse);
    parse_thinking(parse);
    parse_output_config(parse);
    hth_anthropic_edits(parse, turns);
}
