/*
 * anthropic_tools.c - the tools of Anthropic's API, and which of them may be called
 *
 * The model is offered the client's own tools. Tools that Anthropic's servers run (web search, code execution), and
 * tools that one model was trained with (a shell, an editor), have no description that another model could read: they
 * are left out with a note. A tool whose parameters are no usable schema is offered all the same, with any parameters.
 */
#include <string.h>

#include "dialects/anthropic_inside.h"
#include "models/given.h"

enum { TOOLS_SENT_MAX = 8192 }; /* with the tools that are left out */

/* ---- one tool ---- */

/*
 * Note fields about callers and deferred loading, which this server does not support. The tool is offered all the same.
 */
static void note_callers(const hth_fields *fields)
{
    json_t *callers = hth_fields_array(fields, "allowed_callers", 16);
    bool is_deferred = false;

    hth_fields_bool(fields, "defer_loading", &is_deferred);
    if (is_deferred)
        hth_fields_pass_over(fields, "defer_loading");
    for (size_t i = 0; i < json_array_size(callers); i++) {
        const char *caller = json_string_value(json_array_get(callers, i));

        if (!caller)
            hth_fields_wrong_type(fields, "allowed_callers", "an array of texts", json_array_get(callers, i));
        else if (strcmp(caller, "direct") != 0)
            hth_fields_pass_over(fields, "allowed_callers");
    }
}

static void parse_tool(hth_api_parse *parse, const hth_fields *fields, hearth_chat_tool *tools, size_t i)
{
    hearth_chat_tool *tool = &tools[i];
    static const char *const known[] = { "type",
                                         "name",
                                         "description",
                                         "input_schema",
                                         "cache_control",
                                         "strict",
                                         "eager_input_streaming",
                                         "input_examples",
                                         "defer_loading",
                                         "allowed_callers",
                                         NULL };
    json_t *schema;

    hth_fields_rest(fields, known);
    hth_anthropic_cache_control(parse, fields);
    hth_fields_require(fields, "name");
    hth_fields_string(fields, "name", HTH_API_NAME_BYTES_MAX, &tool->name);
    hth_api_check_tool_name(parse, fields, tools, i);
    note_callers(fields);
    hth_fields_string(fields, "description", HTH_API_TEXT_BYTES_MAX, &tool->description);
    hth_fields_require(fields, "input_schema");
    schema = hth_fields_object(fields, "input_schema");
    if (schema)
        hth_api_tool_schema(parse, tool, schema);
}

/* Is it one of the client's own tools? Others are noted by their type. */
static bool is_own(const hth_fields *fields)
{
    const char *type = "custom";

    hth_fields_string(fields, "type", HTH_API_NAME_BYTES_MAX, &type);
    if (strcmp(type, "custom") == 0)
        return true;
    hth_fields_note(fields, type);
    return false;
}

/* ---- the choice ---- */

/* Does the request have a tool of that name that was left out? */
static bool was_left_out(hth_api_parse *parse, const char *name)
{
    json_t *array = json_object_get(parse->body.object, "tools");

    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *one = json_string_value(json_object_get(json_array_get(array, i), "name"));

        if (one && strcmp(one, name) == 0)
            return true;
    }
    return false;
}

static void choose_tool(hth_api_parse *parse, const hth_fields *fields, const char *name)
{
    if (!name || hth_api_choose_tool(parse, name))
        return;
    if (was_left_out(parse, name))
        hth_fields_pass_over(fields, "name");
    else
        hth_fields_fail(fields, HTH_API_INVALID_VALUE, "name", "is '%s', which is not in 'tools'", name);
}

static void parse_tool_choice(hth_api_parse *parse)
{
    static const char *const known[] = { "type", "name", "disable_parallel_tool_use", NULL };
    hearth_conversation *conversation = &parse->request->conversation;
    const char *type = NULL, *name = NULL;
    bool one_only = false;
    hth_fields fields;

    if (!hth_fields_enter(&parse->body, "tool_choice", &fields))
        return;
    hth_fields_rest(&fields, known);
    hth_fields_require(&fields, "type");
    hth_fields_string(&fields, "type", HTH_API_NAME_BYTES_MAX, &type);
    hth_fields_bool(&fields, "disable_parallel_tool_use", &one_only);
    conversation->parallel_calls = !one_only;
    if (!type)
        return;
    if (strcmp(type, "none") == 0) {
        conversation->tool_choice = HEARTH_TOOL_NONE;
    } else if (strcmp(type, "any") == 0) {
        conversation->tool_choice = conversation->n_tools > 0 ? HEARTH_TOOL_REQUIRED : HEARTH_TOOL_AUTO;
        if (conversation->n_tools == 0 && json_array_size(json_object_get(parse->body.object, "tools")) > 0)
            hth_fields_pass_over(&fields, "type");
        else if (conversation->n_tools == 0)
            hth_fields_fail(&fields, HTH_API_INVALID_VALUE, "type", "is 'any', but there are no 'tools'; give some");
    } else if (strcmp(type, "tool") == 0) {
        hth_fields_require(&fields, "name");
        hth_fields_string(&fields, "name", HTH_API_NAME_BYTES_MAX, &name);
        choose_tool(parse, &fields, name);
    } else if (strcmp(type, "auto") != 0) {
        hth_fields_fail(&fields, HTH_API_INVALID_VALUE, "type", "is '%.40s'; it must be auto, any, tool or none", type);
    }
}

void hth_anthropic_tools(hth_api_parse *parse)
{
    json_t *array = hth_fields_array(&parse->body, "tools", TOOLS_SENT_MAX);
    hearth_chat_tool *tools = array ? hth_api_allocate_structs(parse, json_array_size(array), sizeof(*tools)) : NULL;
    size_t n = 0;

    for (size_t i = 0; tools && i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        hth_fields fields;

        if (!hth_fields_item(&parse->body, "tools", array, i, &fields))
            return;
        if (!is_own(&fields))
            continue;
        if (n == HTH_TOOLS_MAX)
            hth_fields_fail(&parse->body, HTH_API_INVALID_VALUE, "tools", "has more than %d tools; send fewer",
                            HTH_TOOLS_MAX);
        else
            parse_tool(parse, &fields, tools, n++);
    }
    parse->request->conversation.tools = tools;
    parse->request->conversation.n_tools = n;
    if (parse->error->kind == HTH_API_NO_ERROR)
        parse_tool_choice(parse);
}
