/*
 * responses_tools.c - the tools of a request, and which of them may be called
 *
 * The model receives one list of functions. A function of a namespace has the namespace before its name. A tool whose
 * input is a text is a function with one argument. Tools that only OpenAI's own servers run are left out with a note,
 * because the model must not call a tool that nobody answers.
 */
#include "dialects/responses_inside.h"

#include <string.h>

#include "models/given.h"

/* The lists while they grow; there is memory for all tools that count_tools counted. */
typedef struct growing_tools {
    hearth_chat_tool *offered;     /* [n_max] */
    hth_api_responses_tool *names; /* [n_max] */
    size_t n, n_max;
    bool may_repeat; /* a tool that is there is passed over, and not refused */
} growing_tools;

const char *hth_api_responses_offered(hth_api_parse *parse, const char *name_space, const char *name)
{
    size_t n = name_space ? strlen(name_space) : 0;
    bool is_ended = n >= 2 && strcmp(name_space + n - 2, "__") == 0;

    return n > 0 ? hth_api_join(parse, name_space, is_ended ? "" : "__", name) : name;
}

const hth_api_responses_tool *hth_api_responses_tool_find(const hth_api_responses *responses, const char *offered)
{
    for (size_t i = 0; i < responses->n_tools; i++)
        if (strcmp(responses->tools[i].offered, offered) == 0)
            return &responses->tools[i];
    return NULL;
}

/* ---- tools ---- */

/* Describe a tool whose input is a text as a function of one text. A grammar of the input becomes text. */
static void offer_custom(hth_api_parse *parse, const hth_fields *fields, hearth_chat_tool *tool)
{
    const json_t *format = hth_fields_object(fields, "format");
    const char *definition = json_string_value(json_object_get(format, "definition"));
    const char *syntax = json_string_value(json_object_get(format, "syntax"));

    tool->parameters =
        "{\"type\":\"object\",\"properties\":{\"" HTH_API_RESPONSES_INPUT
        "\":{\"type\":\"string\"}},\"required\":[\"" HTH_API_RESPONSES_INPUT "\"],\"additionalProperties\":false}";
    if (!definition)
        return;
    tool->description = hth_api_join(parse, tool->description ? tool->description : "", "\nThe input follows this ",
                                     syntax && strcmp(syntax, "regex") == 0 ? "regular expression:\n" : "grammar:\n");
    if (tool->description)
        tool->description = hth_api_join(parse, tool->description, "", definition);
}

static bool is_offered(const growing_tools *tools, const char *name)
{
    for (size_t i = 0; i < tools->n; i++)
        if (strcmp(tools->names[i].offered, name) == 0)
            return true;
    return false;
}

static void parse_function(hth_api_parse *parse, const hth_fields *fields, const char *name_space, bool is_custom,
                           growing_tools *tools)
{
    static const char *const known[] = { "type", "name", "description", "parameters", "strict", "format", NULL };
    hearth_chat_tool *tool;
    hth_api_responses_tool *names;
    char path[HTH_PATH_BYTES];
    json_t *parameters;
    bool strict = false;

    if (tools->n == tools->n_max) { /* a guard: counting and reading might one day differ */
        hth_fields_fail(&parse->body, HTH_API_INVALID_VALUE, "tools", "has more than the %zu tools that were counted",
                        tools->n_max);
        return;
    }
    tool = &tools->offered[tools->n];
    names = &tools->names[tools->n];
    hth_fields_rest(fields, known);
    hth_fields_require(fields, "name");
    hth_fields_string(fields, "name", HTH_API_NAME_BYTES_MAX, &names->name);
    if (!names->name)
        return;
    names->name_space = name_space;
    names->is_custom = is_custom;
    tool->name = hth_api_responses_offered(parse, name_space, names->name);
    if (tools->may_repeat && is_offered(tools, hth_api_offered_name(parse, tool->name)))
        return;
    hth_api_check_tool_name(parse, fields, tools->offered, tools->n);
    names->offered = tool->name;
    hth_fields_string(fields, "description", HTH_API_TEXT_BYTES_MAX, &tool->description);
    hth_fields_bool(fields, "strict", &strict); /* arguments follow the schema in any case */
    tools->n++;
    if (is_custom) {
        offer_custom(parse, fields, tool);
        return;
    }
    parameters = hth_fields_object(fields, "parameters");
    if (!parameters)
        return;
    (void)hth_fields_path(fields, "parameters", path);
    hth_api_check_references(parse, path, parameters);
    tool->parameters = hth_api_schema_text(parse, path, parameters);
}

static void parse_tool(hth_api_parse *parse, const hth_fields *fields, const char *name_space, growing_tools *tools);

/* The tools in a namespace. */
static void parse_namespace(hth_api_parse *parse, const hth_fields *fields, growing_tools *tools)
{
    static const char *const known[] = { "type", "name", "description", "tools", NULL };
    json_t *array = hth_fields_array(fields, "tools", HTH_TOOLS_MAX);
    const char *name = NULL;

    hth_fields_rest(fields, known);
    hth_fields_require(fields, "name");
    hth_fields_string(fields, "name", HTH_API_NAME_BYTES_MAX, &name);
    for (size_t i = 0; i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        hth_fields inside;

        if (hth_fields_item(fields, "tools", array, i, &inside))
            parse_tool(parse, &inside, name, tools);
    }
}

static void parse_tool(hth_api_parse *parse, const hth_fields *fields, const char *name_space, growing_tools *tools)
{
    const char *type = "function";

    hth_fields_string(fields, "type", HTH_API_NAME_BYTES_MAX, &type);
    if (strcmp(type, "function") == 0 || strcmp(type, "custom") == 0)
        parse_function(parse, fields, name_space, *type == 'c', tools);
    else if (strcmp(type, "namespace") == 0 && !name_space)
        parse_namespace(parse, fields, tools);
    else
        hth_fields_note(fields, type);
}

/* The number of tools at most, with those in namespaces. Only there is an array 'tools' read. */
static size_t count_tools(const json_t *array)
{
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *tool = json_array_get(array, i);
        const char *type = json_string_value(json_object_get(tool, "type"));
        size_t k = type && strcmp(type, "namespace") == 0 ? json_array_size(json_object_get(tool, "tools")) : 0;

        n += k > 0 ? k : 1;
    }
    return n;
}

/* ---- the choice ---- */

static bool is_named(const hth_api_responses_tool *tool, const json_t *named)
{
    const char *name = json_string_value(json_object_get(named, "name"));
    const char *name_space = json_string_value(json_object_get(named, "namespace"));

    if (!name)
        return false;
    if (!name_space && strcmp(tool->offered, name) == 0)
        return true;
    return strcmp(tool->name, name) == 0 &&
           (!name_space || (tool->name_space && strcmp(tool->name_space, name_space) == 0));
}

/* Offer only the tools in the array; the others may not be called. */
static void narrow(hth_api_parse *parse, const hth_api_responses *responses, const json_t *names)
{
    hearth_conversation *conversation = &parse->request->conversation;
    hearth_chat_tool *some = hth_api_allocate_structs(parse, conversation->n_tools, sizeof(*some));
    size_t n = 0;

    for (size_t i = 0; some && responses->tools && i < conversation->n_tools; i++)
        for (size_t k = 0; k < json_array_size(names); k++)
            if (is_named(&responses->tools[i], json_array_get(names, k))) {
                some[n++] = conversation->tools[i];
                break;
            }
    conversation->tools = some;
    conversation->n_tools = n;
}

/* Read the field of that name, a word that tells which tools may be called. */
static void choose_word(hth_api_parse *parse, const hth_fields *fields, const char *name)
{
    hearth_conversation *conversation = &parse->request->conversation;
    const char *word = "auto";

    hth_fields_string(fields, name, HTH_API_NAME_BYTES_MAX, &word);
    if (strcmp(word, "auto") == 0)
        conversation->tool_choice = HEARTH_TOOL_AUTO;
    else if (strcmp(word, "none") == 0)
        conversation->tool_choice = HEARTH_TOOL_NONE;
    else if (strcmp(word, "required") == 0)
        conversation->tool_choice = HEARTH_TOOL_REQUIRED;
    else
        hth_fields_fail(fields, HTH_API_INVALID_VALUE, name,
                        "is '%.40s'; it must be none, auto, required, or name a tool", word);
    if (conversation->tool_choice == HEARTH_TOOL_REQUIRED && conversation->n_tools == 0)
        hth_fields_fail(fields, HTH_API_INVALID_VALUE, name,
                        "is 'required', but there are no 'tools' that can be called here; give some");
}

/* Choose one tool: a function, or one of OpenAI's own, which cannot be called here and so is ignored. */
static void choose_one(hth_api_parse *parse, const hth_api_responses *responses, const hth_fields *fields,
                       const char *type)
{
    hearth_conversation *conversation = &parse->request->conversation;
    const char *name = NULL;
    json_t *names;

    if (strcmp(type, "function") != 0 && strcmp(type, "custom") != 0) {
        hth_fields_note(fields, type);
        return;
    }
    hth_fields_require(fields, "name");
    hth_fields_string(fields, "name", HTH_API_NAME_BYTES_MAX, &name);
    if (parse->error->kind != HTH_API_NO_ERROR || !name)
        return;
    names = json_pack("[O]", fields->object);
    narrow(parse, responses, names);
    json_decref(names);
    conversation->tool_choice = HEARTH_TOOL_REQUIRED;
    if (conversation->n_tools == 0)
        hth_fields_fail(&parse->body, HTH_API_INVALID_VALUE, "tool_choice",
                        "names the tool '%.64s', which is not in 'tools'; name one of them", name);
}

static void parse_choice(hth_api_parse *parse, const hth_api_responses *responses)
{
    json_t *choice = hth_fields_any(&parse->body, "tool_choice");
    const char *type = "function";
    hth_fields fields;
    json_t *names;

    if (json_is_string(choice)) {
        choose_word(parse, &parse->body, "tool_choice");
    } else if (json_is_object(choice)) {
        (void)hth_fields_enter(&parse->body, "tool_choice", &fields); /* it is an object */
        hth_fields_string(&fields, "type", HTH_API_NAME_BYTES_MAX, &type);
        if (strcmp(type, "allowed_tools") != 0) {
            choose_one(parse, responses, &fields, type);
            return;
        }
        hth_fields_require(&fields, "tools");
        names = hth_fields_array(&fields, "tools", HTH_TOOLS_MAX);
        if (names)
            narrow(parse, responses, names);
        if (parse->error->kind == HTH_API_NO_ERROR)
            choose_word(parse, &fields, "mode");
    } else if (choice) {
        hth_fields_wrong_type(&parse->body, "tool_choice", "a text or an object", choice);
    }
}

/* The tools that an item of the input adds (Codex finds tools while it works); NULL: it adds none. */
static json_t *added_tools(const json_t *item)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    json_t *tools = json_object_get(item, "tools");

    return type && strcmp(type, HTH_API_RESPONSES_MORE_TOOLS) == 0 && json_is_array(tools) ? tools : NULL;
}

static void parse_tools(hth_api_parse *parse, const json_t *array, growing_tools *tools)
{
    for (size_t i = 0; tools->names && i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        hth_fields fields;

        if (hth_fields_item(&parse->body, "tools", array, i, &fields))
            parse_tool(parse, &fields, NULL, tools);
    }
}

void hth_api_parse_responses_tools(hth_api_parse *parse, hth_api_responses *responses)
{
    hearth_conversation *conversation = &parse->request->conversation;
    json_t *array = hth_fields_array(&parse->body, "tools", HTH_TOOLS_MAX);
    const json_t *input = json_object_get(parse->body.object, "input");
    growing_tools tools = { .n = 0 };
    size_t n = count_tools(array);

    for (size_t i = 0; i < json_array_size(input); i++)
        n += count_tools(added_tools(json_array_get(input, i)));

    hth_fields_bool(&parse->body, "parallel_tool_calls", &conversation->parallel_calls);
    if (n > HTH_TOOLS_MAX)
        hth_fields_fail(&parse->body, HTH_API_INVALID_VALUE, "tools", "has %zu tools; at most %d are allowed", n,
                        HTH_TOOLS_MAX);
    if (parse->error->kind != HTH_API_NO_ERROR)
        return;
    if (n > 0) {
        tools.offered = hth_api_allocate_structs(parse, n, sizeof(*tools.offered));
        tools.names = tools.offered ? hth_api_allocate(parse, n, sizeof(*tools.names)) : NULL;
        tools.n_max = n;
    }
    parse_tools(parse, array, &tools);
    tools.may_repeat = true; /* a history repeats its items */
    for (size_t i = 0; i < json_array_size(input); i++)
        parse_tools(parse, added_tools(json_array_get(input, i)), &tools);
    conversation->tools = tools.offered;
    conversation->n_tools = tools.n;
    responses->tools = tools.names;
    responses->n_tools = tools.n;
    if (parse->error->kind == HTH_API_NO_ERROR)
        parse_choice(parse, responses);
}
