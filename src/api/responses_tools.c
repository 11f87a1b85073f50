/*
 * responses_tools.c - the tools of a request, and which of them may be called
 *
 * The model is offered one list of functions. Those of a namespace have its name before theirs; a tool whose input is a
 * text is a function of one text. Tools that only OpenAI's own servers run are left out with a note: the model is not to
 * call what nobody answers.
 */
#include "api/responses_inside.h"

#include <stdio.h>
#include <string.h>

enum {
    TOOLS_MAX = 128,
    NAME_BYTES_MAX = 128, /* of an offered one, which has two names in it */
};

/* The lists as they grow; there is memory for all tools that were counted. */
typedef struct growing_tools {
    hearth_chat_tool *offered;     /* [n_max] */
    hth_api_responses_tool *names; /* [n_max] */
    size_t n, n_max;
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

/* What a function of one text takes; the format of the text is told where it is a grammar. */
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

static void parse_function(hth_api_parse *parse, const hth_fields *fields, const char *name_space, bool is_custom,
                           growing_tools *tools)
{
    static const char *const known[] = { "type", "name", "description", "parameters", "strict", "format", NULL };
    hearth_chat_tool *tool;
    hth_api_responses_tool *names;
    char path[HTH_PATH_BYTES];
    json_t *parameters;
    bool strict = false;

    if (tools->n == tools->n_max) { /* whoever counts and whoever reads may one day differ: never beyond the memory */
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "tools",
                     "'tools' has more than the %zu tools that were counted", tools->n_max);
        return;
    }
    tool = &tools->offered[tools->n];
    names = &tools->names[tools->n];
    hth_fields_rest(fields, known);
    hth_fields_require(fields, "name");
    hth_fields_string(fields, "name", HTH_RESPONSES_NAME_BYTES_MAX, &names->name);
    if (!names->name)
        return;
    names->name_space = name_space;
    names->is_custom = is_custom;
    names->offered = tool->name = hth_api_responses_offered(parse, name_space, names->name);
    hth_api_check_tool_name(parse, hth_fields_path(fields, "name", path), tools->offered, tools->n, NAME_BYTES_MAX);
    hth_fields_string(fields, "description", HTH_RESPONSES_TEXT_BYTES_MAX, &tool->description);
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
    json_t *array = hth_fields_array(fields, "tools", TOOLS_MAX);
    const char *name = NULL;
    char path[HTH_PATH_BYTES];

    hth_fields_rest(fields, known);
    hth_fields_require(fields, "name");
    hth_fields_string(fields, "name", HTH_RESPONSES_NAME_BYTES_MAX, &name);
    (void)hth_fields_path(fields, "tools", path);
    for (size_t i = 0; i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        char inside_path[HTH_PATH_BYTES];
        hth_fields inside = hth_fields_inside(fields, json_array_get(array, i), inside_path);

        (void)snprintf(inside_path, sizeof(inside_path), "%.100s[%zu].", path, i); /* long enough for any index */
        if (json_is_object(inside.object))
            parse_tool(parse, &inside, name, tools);
        else
            hth_fail_type(parse->error, path, "an array of objects", inside.object);
    }
}

static void parse_tool(hth_api_parse *parse, const hth_fields *fields, const char *name_space, growing_tools *tools)
{
    const char *type = "function";
    char path[HTH_PATH_BYTES];

    hth_fields_string(fields, "type", HTH_RESPONSES_NAME_BYTES_MAX, &type);
    if (strcmp(type, "function") == 0 || strcmp(type, "custom") == 0) {
        parse_function(parse, fields, name_space, *type == 'c', tools);
    } else if (strcmp(type, "namespace") == 0 && !name_space) {
        parse_namespace(parse, fields, tools);
    } else {
        (void)snprintf(path, sizeof(path), "%.60s%.40s", fields->path, type); /* cut: names are a client's */
        hth_api_note(parse->notes, path);
    }
}

/* How many tools there can be at most, with those in namespaces: only there is an array 'tools' looked into. */
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

/* Show those tools only that the array names; the others may not be called. */
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

static void choose_word(hth_api_parse *parse, const char *path, const char *word)
{
    hearth_conversation *conversation = &parse->request->conversation;

    if (strcmp(word, "auto") == 0)
        conversation->tool_choice = HEARTH_TOOL_AUTO;
    else if (strcmp(word, "none") == 0)
        conversation->tool_choice = HEARTH_TOOL_NONE;
    else if (strcmp(word, "required") == 0)
        conversation->tool_choice = HEARTH_TOOL_REQUIRED;
    else
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, path,
                     "'%s' is '%.40s'; it must be none, auto, required, or name a tool", path, word);
    if (conversation->tool_choice == HEARTH_TOOL_REQUIRED && conversation->n_tools == 0)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, path,
                     "'%s' is 'required', but there are no 'tools' that can be called here", path);
}

/* One tool: a function, or one of OpenAI's own, which cannot be called and so need not be. */
static void choose_one(hth_api_parse *parse, const hth_api_responses *responses, const hth_fields *fields,
                       const char *type)
{
    hearth_conversation *conversation = &parse->request->conversation;
    char path[HTH_PATH_BYTES];
    const char *name = NULL;
    json_t *names;

    if (strcmp(type, "function") != 0 && strcmp(type, "custom") != 0) {
        (void)snprintf(path, sizeof(path), "tool_choice.%.40s", type);
        hth_api_note(parse->notes, path);
        return;
    }
    hth_fields_require(fields, "name");
    hth_fields_string(fields, "name", HTH_RESPONSES_NAME_BYTES_MAX, &name);
    if (parse->error->kind != HTH_API_NO_ERROR || !name)
        return;
    names = json_pack("[O]", fields->object);
    narrow(parse, responses, names);
    json_decref(names);
    conversation->tool_choice = HEARTH_TOOL_REQUIRED;
    if (conversation->n_tools == 0)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "tool_choice",
                     "'tool_choice' names the tool '%.64s', which is not in 'tools'", name);
}

static void parse_choice(hth_api_parse *parse, const hth_api_responses *responses)
{
    json_t *choice = hth_fields_any(&parse->body, "tool_choice");
    hth_fields fields = hth_fields_inside(&parse->body, choice, "tool_choice.");
    const char *type = "function", *mode = "auto";
    json_t *names;

    if (json_is_string(choice)) {
        choose_word(parse, "tool_choice", json_string_value(choice));
    } else if (json_is_object(choice)) {
        hth_fields_string(&fields, "type", HTH_RESPONSES_NAME_BYTES_MAX, &type);
        if (strcmp(type, "allowed_tools") != 0) {
            choose_one(parse, responses, &fields, type);
            return;
        }
        hth_fields_string(&fields, "mode", HTH_RESPONSES_NAME_BYTES_MAX, &mode);
        hth_fields_require(&fields, "tools");
        names = hth_fields_array(&fields, "tools", TOOLS_MAX);
        if (names)
            narrow(parse, responses, names);
        if (parse->error->kind == HTH_API_NO_ERROR)
            choose_word(parse, "tool_choice.mode", mode);
    } else if (choice) {
        hth_fail_type(parse->error, "tool_choice", "a text or an object", choice);
    }
}

void hth_api_parse_responses_tools(hth_api_parse *parse, hth_api_responses *responses)
{
    hearth_conversation *conversation = &parse->request->conversation;
    json_t *array = hth_fields_array(&parse->body, "tools", TOOLS_MAX);
    growing_tools tools = { .n = 0 };
    size_t n = count_tools(array);

    hth_fields_bool(&parse->body, "parallel_tool_calls", &conversation->parallel_calls);
    if (n > TOOLS_MAX)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "tools", "'tools' has %zu tools; at most %d are allowed", n,
                     TOOLS_MAX);
    if (parse->error->kind != HTH_API_NO_ERROR)
        return;
    if (n > 0) {
        tools.offered = hth_api_allocate_structs(parse, n, sizeof(*tools.offered));
        tools.names = tools.offered ? hth_api_allocate(parse, n, sizeof(*tools.names)) : NULL;
        tools.n_max = n;
    }
    for (size_t i = 0; tools.names && i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        char path[HTH_PATH_BYTES];
        hth_fields fields;

        if (!hth_fields_item(&parse->body, "tools", array, i, path, &fields))
            return;
        parse_tool(parse, &fields, NULL, &tools);
    }
    conversation->tools = tools.offered;
    conversation->n_tools = tools.n;
    responses->tools = tools.names;
    responses->n_tools = tools.n;
    if (parse->error->kind == HTH_API_NO_ERROR)
        parse_choice(parse, responses);
}
