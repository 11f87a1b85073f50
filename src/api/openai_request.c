/*
 * openai_request.c - /v1/chat/completions, whose fields /apply-template has, too
 */
#include <stdio.h>
#include <string.h>

#include "api/request_inside.h"

enum {
    TEXT_BYTES_MAX = 32 << 20, /* the body's */
    NAME_BYTES_MAX = 256,
    TOOLS_MAX = 128,
    CALLS_MAX = 128,
    TOOL_NAME_BYTES_MAX = 64,
};

/* ---- messages ---- */

/* The texts of an array of parts. */
static void parse_parts(hth_api_parse *parse, const char *path, json_t *array, hearth_chat_turn *turn)
{
    static const char *const known[] = { "type", "text", "refusal", "cache_control", NULL };
    const char **parts = hth_api_allocate(parse, json_array_size(array), sizeof(*parts));

    for (size_t i = 0; parts && i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        json_t *part = json_array_get(array, i);
        char part_path[HTH_PATH_BYTES];
        hth_fields fields = { .object = part, .path = part_path, .error = parse->error };
        const char *type = NULL;

        (void)snprintf(part_path, sizeof(part_path), "%.100s[%zu].", path, i); /* long enough for any index */
        if (!json_is_object(part)) {
            hth_fail_type(parse->error, path, "a text or an array of content parts", part);
            return;
        }
        hth_fields_require(&fields, "type");
        hth_fields_string(&fields, "type", NAME_BYTES_MAX, &type);
        if (!type)
            return;
        if (strcmp(type, "refusal") == 0 && strcmp(turn->role, "assistant") != 0) {
            hth_api_fail(parse->error, HTH_API_INVALID_VALUE, path,
                         "'%stype' is 'refusal', which only a part of an assistant's message can be", part_path);
            return;
        }
        if (strcmp(type, "text") != 0 && strcmp(type, "refusal") != 0) {
            hth_api_fail(parse->error, HTH_API_UNSUPPORTED, path,
                         "'%stype' is '%.40s'; only text parts are supported here", part_path, type);
            return;
        }
        hth_fields_only(&fields, known);
        hth_fields_require(&fields, type);
        hth_fields_string(&fields, type, TEXT_BYTES_MAX, &parts[i]);
    }
    turn->parts = parts;
    turn->n_parts = json_array_size(array);
}

static void parse_content(hth_api_parse *parse, const hth_fields *fields, hearth_chat_turn *turn)
{
    json_t *content = hth_fields_any(fields, "content");
    char path[HTH_PATH_BYTES];

    (void)hth_fields_path(fields, "content", path);
    if (!content && turn->n_calls == 0 && !hth_fields_has(fields, "refusal"))
        hth_fields_require(fields, "content");
    else if (json_is_string(content))
        turn->content = json_string_value(content);
    else if (json_is_array(content))
        parse_parts(parse, path, content, turn);
    else if (content)
        hth_fail_type(parse->error, path, "a text or an array of content parts", content);
}

static void parse_call(hth_api_parse *parse, const hth_fields *fields, hearth_chat_call *call)
{
    static const char *const known[] = { "id", "type", "function", "index", NULL };
    static const char *const known_inside[] = { "name", "arguments", NULL };
    char path[HTH_PATH_BYTES];
    hth_fields function = { .error = parse->error };
    const char *type = "function";

    hth_fields_only(fields, known);
    hth_fields_string(fields, "id", NAME_BYTES_MAX, &call->id);
    hth_fields_string(fields, "type", NAME_BYTES_MAX, &type);
    if (strcmp(type, "function") != 0)
        hth_api_fail(parse->error, HTH_API_UNSUPPORTED, hth_fields_path(fields, "type", path),
                     "'%s' is '%.40s'; only calls of functions are supported here", path, type);
    hth_fields_require(fields, "function");
    function.object = hth_fields_object(fields, "function");
    function.path = hth_fields_path(fields, "function.", path);
    hth_fields_only(&function, known_inside);
    hth_fields_require(&function, "name");
    hth_fields_string(&function, "name", NAME_BYTES_MAX, &call->name);
    call->arguments = "";
    hth_fields_string(&function, "arguments", TEXT_BYTES_MAX, &call->arguments);
    if (strspn(call->arguments, " \t\r\n") == strlen(call->arguments))
        call->arguments = "{}";
}

static void parse_calls(hth_api_parse *parse, const hth_fields *fields, hearth_chat_turn *turn)
{
    json_t *array = hth_fields_array(fields, "tool_calls", CALLS_MAX);
    hearth_chat_call *calls;

    if (!array)
        return;
    calls = hth_api_allocate(parse, json_array_size(array), sizeof(*calls));
    for (size_t i = 0; calls && i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        char path[HTH_PATH_BYTES];
        hth_fields call = { .object = json_array_get(array, i), .path = path, .error = parse->error };

        (void)snprintf(path, sizeof(path), "%.80stool_calls[%zu].", fields->path, i); /* long enough for any index */
        if (!json_is_object(call.object)) {
            hth_fail_type(parse->error, path, "an object", call.object);
            return;
        }
        parse_call(parse, &call, &calls[i]);
    }
    turn->calls = calls;
    turn->n_calls = calls ? json_array_size(array) : 0;
}

static void parse_message(hth_api_parse *parse, const hth_fields *fields, hearth_chat_turn *turn)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", "tool", NULL };
    static const char *const known[] = { "role",       "content",      "name",
                                         "tool_calls", "tool_call_id", "reasoning_content",
                                         "refusal",    "annotations",  "audio",
                                         NULL };
    static const char *const unsupported[] = { "function_call", NULL };
    char path[HTH_PATH_BYTES];
    size_t i = 0;

    hth_fields_unsupported(fields, unsupported);
    hth_fields_only(fields, known);
    hth_fields_require(fields, "role");
    hth_fields_string(fields, "role", NAME_BYTES_MAX, &turn->role);
    if (!turn->role)
        return;
    while (roles[i] && strcmp(roles[i], turn->role) != 0)
        i++;
    if (!roles[i])
        hth_api_fail(parse->error, strcmp(turn->role, "function") == 0 ? HTH_API_UNSUPPORTED : HTH_API_INVALID_VALUE,
                     hth_fields_path(fields, "role", path),
                     "'%s' is '%.40s'; it must be system, developer, user, assistant or tool", path, turn->role);
    hth_fields_string(fields, "name", NAME_BYTES_MAX, &turn->name);
    if (strcmp(turn->role, "assistant") == 0) {
        parse_calls(parse, fields, turn);
        hth_fields_string(fields, "reasoning_content", TEXT_BYTES_MAX, &turn->reasoning);
    }
    if (strcmp(turn->role, "tool") == 0) {
        hth_fields_require(fields, "tool_call_id");
        hth_fields_string(fields, "tool_call_id", NAME_BYTES_MAX, &turn->call_id);
    }
    parse_content(parse, fields, turn);
}

static void parse_messages(hth_api_parse *parse)
{
    json_t *array;
    hearth_chat_turn *turns;

    hth_fields_require(&parse->body, "messages");
    array = hth_fields_array(&parse->body, "messages", parse->limits->messages_max);
    if (!array)
        return;
    if (json_array_size(array) == 0)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "messages", "'messages' is empty; give at least one message");
    turns = hth_api_allocate(parse, json_array_size(array), sizeof(*turns));
    for (size_t i = 0; turns && i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        char path[HTH_PATH_BYTES];
        hth_fields fields;

        if (!hth_fields_item("messages", array, i, parse->error, path, &fields))
            return;
        parse_message(parse, &fields, &turns[i]);
    }
    parse->request->conversation.turns = turns;
    parse->request->conversation.n_turns = json_array_size(array);
}

/* ---- tools ---- */

static void parse_tool(hth_api_parse *parse, const hth_fields *fields, hearth_chat_tool *tools, size_t i)
{
    hearth_chat_tool *tool = &tools[i];
    static const char *const known[] = { "type", "function", NULL };
    static const char *const known_inside[] = { "name", "description", "parameters", "strict", NULL };
    char path[HTH_PATH_BYTES], inside[HTH_PATH_BYTES];
    hth_fields function = { .error = parse->error };
    const char *type = NULL;
    json_t *parameters;
    bool strict = false;

    hth_fields_require(fields, "type");
    hth_fields_string(fields, "type", NAME_BYTES_MAX, &type);
    if (type && strcmp(type, "function") != 0)
        hth_api_fail(parse->error, HTH_API_UNSUPPORTED, hth_fields_path(fields, "type", path),
                     "'%s' is '%.40s'; only functions are supported here", path, type);
    hth_fields_only(fields, known);
    hth_fields_require(fields, "function");
    function.object = hth_fields_object(fields, "function");
    function.path = hth_fields_path(fields, "function.", path);
    hth_fields_only(&function, known_inside);
    hth_fields_require(&function, "name");
    hth_fields_string(&function, "name", NAME_BYTES_MAX, &tool->name);
    hth_api_check_tool_name(parse, hth_fields_path(&function, "name", inside), tools, i, TOOL_NAME_BYTES_MAX);
    hth_fields_string(&function, "description", TEXT_BYTES_MAX, &tool->description);
    hth_fields_bool(&function, "strict", &strict); /* arguments follow the schema in any case */
    parameters = hth_fields_object(&function, "parameters");
    if (parameters) {
        (void)hth_fields_path(&function, "parameters", inside);
        hth_api_check_references(parse, inside, parameters);
        tool->parameters = hth_api_schema_text(parse, inside, parameters);
    }
}

/* Of the tools, the one of that name; otherwise an error. */
static const hearth_chat_tool *tool_named(hth_api_parse *parse, const char *name)
{
    const hearth_conversation *conversation = &parse->request->conversation;

    for (size_t i = 0; i < conversation->n_tools; i++)
        if (strcmp(conversation->tools[i].name, name) == 0)
            return &conversation->tools[i];
    hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "tool_choice",
                 "'tool_choice' names the tool '%.64s', which is not in 'tools'", name);
    return NULL;
}

static void parse_tool_choice(hth_api_parse *parse)
{
    hearth_conversation *conversation = &parse->request->conversation;
    json_t *choice = hth_fields_any(&parse->body, "tool_choice");
    const char *word = json_string_value(choice);
    const char *type = NULL, *name = NULL;
    hth_fields fields = { .object = choice, .path = "tool_choice.", .error = parse->error };
    hth_fields function = { .path = "tool_choice.function.", .error = parse->error };

    if (!choice)
        return;
    if (word && (strcmp(word, "auto") == 0 || strcmp(word, "none") == 0 || strcmp(word, "required") == 0)) {
        conversation->tool_choice = *word == 'a' ? HEARTH_TOOL_AUTO
                                  : *word == 'n' ? HEARTH_TOOL_NONE
                                                 : HEARTH_TOOL_REQUIRED;
        if (conversation->tool_choice == HEARTH_TOOL_REQUIRED && conversation->n_tools == 0)
            hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "tool_choice",
                         "'tool_choice' is 'required', but there are no 'tools'");
        return;
    }
    if (word) {
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "tool_choice",
                     "'tool_choice' is '%.40s'; it must be none, auto, required, or name a function", word);
        return;
    }
    if (!json_is_object(choice)) {
        hth_fail_type(parse->error, "tool_choice", "a text or an object", choice);
        return;
    }
    hth_fields_require(&fields, "type");
    hth_fields_string(&fields, "type", NAME_BYTES_MAX, &type);
    if (type && strcmp(type, "function") != 0)
        hth_api_fail(parse->error, HTH_API_UNSUPPORTED, "tool_choice",
                     "'tool_choice.type' is '%.40s'; only function is supported here", type);
    hth_fields_require(&fields, "function");
    function.object = hth_fields_object(&fields, "function");
    hth_fields_require(&function, "name");
    hth_fields_string(&function, "name", TOOL_NAME_BYTES_MAX, &name);
    if (name) {
        /* The one tool that may be called is the one that is shown. */
        conversation->tools = tool_named(parse, name);
        conversation->n_tools = 1;
        conversation->tool_choice = HEARTH_TOOL_REQUIRED;
    }
}

static void parse_tools(hth_api_parse *parse)
{
    hearth_conversation *conversation = &parse->request->conversation;
    json_t *array = hth_fields_array(&parse->body, "tools", TOOLS_MAX);
    hearth_chat_tool *tools;

    if (array) {
        tools = hth_api_allocate(parse, json_array_size(array), sizeof(*tools));
        for (size_t i = 0; tools && i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
            char path[HTH_PATH_BYTES];
            hth_fields fields;

            if (!hth_fields_item("tools", array, i, parse->error, path, &fields))
                return;
            parse_tool(parse, &fields, tools, i);
        }
        conversation->tools = tools;
        conversation->n_tools = json_array_size(array);
    }
    hth_fields_bool(&parse->body, "parallel_tool_calls", &conversation->parallel_calls);
    if (parse->error->kind == HTH_API_NO_ERROR)
        parse_tool_choice(parse);
}

/* ---- the rest ---- */

static void parse_response_format(hth_api_parse *parse)
{
    static const char *const known[] = { "type", "json_schema", NULL };
    static const char *const known_inside[] = { "name", "schema", "strict", "description", NULL };
    hth_fields fields = { .path = "response_format.", .error = parse->error };
    hth_fields inside = { .path = "response_format.json_schema.", .error = parse->error };
    const char *type = NULL, *name = NULL, *description = NULL;
    json_t *schema;
    bool strict = false;

    fields.object = hth_fields_object(&parse->body, "response_format");
    if (!fields.object)
        return;
    hth_fields_only(&fields, known);
    hth_fields_require(&fields, "type");
    hth_fields_string(&fields, "type", NAME_BYTES_MAX, &type);
    if (!type || strcmp(type, "text") == 0)
        return;
    if (strcmp(type, "json_object") == 0) {
        parse->request->conversation.json_schema = "{\"type\":\"object\"}";
        return;
    }
    if (strcmp(type, "json_schema") != 0) {
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "response_format.type",
                     "'response_format.type' is '%.40s'; it must be text, json_object or json_schema", type);
        return;
    }
    hth_fields_require(&fields, "json_schema");
    inside.object = hth_fields_object(&fields, "json_schema");
    hth_fields_only(&inside, known_inside);
    hth_fields_require(&inside, "name");
    hth_fields_string(&inside, "name", NAME_BYTES_MAX, &name);
    if (name && !hth_api_is_name(name, TOOL_NAME_BYTES_MAX))
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "response_format.json_schema.name",
                     "'response_format.json_schema.name' is '%.80s'; it must be 1 to %d letters, digits, underscores "
                     "and hyphens",
                     name, TOOL_NAME_BYTES_MAX);
    hth_fields_string(&inside, "description", TEXT_BYTES_MAX, &description);
    hth_fields_bool(&inside, "strict", &strict); /* the reply follows the schema in any case */
    schema = hth_fields_object(&inside, "schema");
    parse->request->conversation.json_schema =
        schema ? hth_api_schema_text(parse, "response_format.json_schema.schema", schema) : "{\"type\":\"object\"}";
}

/* Further variables of the template, with how much to think among them. */
static void parse_template_values(hth_api_parse *parse)
{
    static const char *const reserved[] = {
        "messages", "tools", "bos_token", "eos_token", "add_generation_prompt", NULL
    };
    hearth_conversation *conversation = &parse->request->conversation;
    json_t *values = hth_fields_object(&parse->body, "chat_template_kwargs");
    const char *effort = NULL;
    json_t *all;

    hth_fields_string(&parse->body, "reasoning_effort", 16, &effort);
    if (effort && (strcmp(effort, "none") == 0 || strcmp(effort, "minimal") == 0)) {
        conversation->no_thinking = true;
        effort = NULL;
    } else if (effort && !hth_api_is_effort(effort)) {
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "reasoning_effort",
                     "'reasoning_effort' is '%s'; it must be none, minimal, low, medium, high, xhigh or max", effort);
    }
    for (size_t i = 0; values && reserved[i]; i++)
        if (json_object_get(values, reserved[i]))
            hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "chat_template_kwargs",
                         "'chat_template_kwargs' has '%s', which the server gives the template itself; take it out",
                         reserved[i]);
    if (json_is_false(json_object_get(values, "enable_thinking")))
        conversation->no_thinking = true;
    if ((!values || json_object_size(values) == 0) && !effort)
        return;
    all = values ? json_copy(values) : json_object();
    if (effort)
        json_object_set_new(all, "reasoning_effort", json_string(effort));
    conversation->template_values = all ? hth_api_json_text(parse, all) : NULL;
    json_decref(all);
}

static void parse_logprobs(hth_api_parse *parse)
{
    hearth_request *options = &parse->request->options;

    hth_fields_bool(&parse->body, "logprobs", &options->logprobs);
    hth_fields_u32(&parse->body, "top_logprobs", 0, 20, &options->n_top_logprobs);
    if (hth_fields_has(&parse->body, "top_logprobs") && !options->logprobs)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "top_logprobs",
                     "'top_logprobs' is only allowed with 'logprobs': true");
}

static void parse_length(hth_api_parse *parse)
{
    json_int_t n = -1;

    hth_fields_integer(&parse->body, "max_tokens", 1, INT32_MAX, &n);
    hth_fields_integer(&parse->body, "max_completion_tokens", 1, INT32_MAX, &n);
    parse->request->options.n_predict = (int32_t)n;
}

static void parse_modalities(hth_api_parse *parse)
{
    json_t *array = hth_fields_array(&parse->body, "modalities", 16);

    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *word = json_string_value(json_array_get(array, i));

        if (!word)
            hth_fail_type(parse->error, "modalities", "an array of texts", json_array_get(array, i));
        else if (strcmp(word, "text") != 0)
            hth_api_fail(parse->error, HTH_API_UNSUPPORTED, "modalities",
                         "'modalities' has '%.40s'; only text is supported", word);
    }
}

void hth_api_parse_chat(hth_api_parse *parse)
{
    static const char *const known[] = {
        HTH_API_EXTRA_FIELDS, "messages", "model", "stream", "stream_options", "max_completion_tokens", "max_tokens",
        "temperature", "top_p", "top_k", "min_p", "repeat_penalty", "frequency_penalty", "presence_penalty",
        "logit_bias", "logprobs", "top_logprobs", "n", "seed", "stop", "tools", "tool_choice", "parallel_tool_calls",
        "response_format", "reasoning_effort", "chat_template_kwargs", "modalities",
        /* accepted, without effect */
        "user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
        "prompt_cache_options", "verbosity", "prediction", "moderation", NULL
    };
    static const char *const unsupported[] = { "audio", "web_search_options", "functions", "function_call", NULL };

    parse->request->is_chat = true;
    hth_fields_unsupported(&parse->body, unsupported);
    if (parse->request->kind == HTH_API_CHAT) /* llama.cpp's endpoint passes over what it does not know */
        hth_fields_only(&parse->body, known);
    parse_messages(parse);
    hth_api_parse_openai_common(parse);
    parse_length(parse);
    parse_logprobs(parse);
    parse_tools(parse);
    parse_response_format(parse);
    parse_template_values(parse);
    parse_modalities(parse);
}
