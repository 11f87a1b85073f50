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

/* Does the message have anything that can be read? */
static bool has_text(const json_t *parts)
{
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        const char *type = json_string_value(json_object_get(part, "type"));

        if (json_is_string(part) || !type || strstr(type, "text") || strcmp(type, "refusal") == 0)
            return true;
    }
    return false;
}

/* One part's text. What is no text becomes a short one in its place. */
static const char *parse_part(hth_api_parse *parse, const char *path, json_t *part)
{
    static const char *const known[] = { "type", "text", "refusal", "cache_control", NULL };
    hth_fields fields = hth_fields_inside(&parse->body, part, path);
    const char *type = NULL, *text = "";

    if (json_is_string(part))
        return json_string_value(part);
    if (!json_is_object(part)) {
        hth_fail_type(parse->error, path, "a text or an array of content parts", part);
        return text;
    }
    hth_fields_require(&fields, "type");
    hth_fields_string(&fields, "type", NAME_BYTES_MAX, &type);
    if (!type)
        return text;
    if (strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0) /* of OpenAI's other API */
        type = "text";
    if (strcmp(type, "text") != 0 && strcmp(type, "refusal") != 0)
        return hth_api_replaced_part(parse, path, type);
    hth_fields_rest(&fields, known);
    hth_fields_require(&fields, type);
    hth_fields_string(&fields, type, TEXT_BYTES_MAX, &text);
    return text;
}

/* The texts of an array of parts. */
static void parse_parts(hth_api_parse *parse, const char *path, json_t *array, bool is_question, hearth_chat_turn *turn)
{
    const char **parts = hth_api_allocate(parse, json_array_size(array), sizeof(*parts));

    if (is_question && json_array_size(array) > 0 && !has_text(array))
        hth_api_fail(parse->error, HTH_API_UNSUPPORTED, path,
                     "'%s' has nothing but parts that this server does not read; it reads text", path);
    for (size_t i = 0; parts && i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        char part_path[HTH_PATH_BYTES];

        (void)snprintf(part_path, sizeof(part_path), "%.100s[%zu].", path, i); /* long enough for any index */
        parts[i] = parse_part(parse, part_path, json_array_get(array, i));
    }
    turn->parts = parts;
    turn->n_parts = json_array_size(array);
}

void hth_api_parse_content(hth_api_parse *parse, const hth_fields *fields, bool is_question, hearth_chat_turn *turn)
{
    json_t *content = hth_fields_any(fields, "content");
    char path[HTH_PATH_BYTES];

    (void)hth_fields_path(fields, "content", path);
    if (json_is_string(content))
        turn->content = json_string_value(content);
    else if (json_is_array(content))
        parse_parts(parse, path, content, is_question, turn);
    else if (content)
        hth_fail_type(parse->error, path, "a text or an array of content parts", content);
    else if (!json_object_get(fields->object, "content") && turn->n_calls == 0 && strcmp(turn->role, "assistant") != 0)
        hth_fields_require(fields, "content");
    else if (turn->n_calls == 0)
        turn->content = ""; /* null */
}

/* Arguments of a call as a JSON object in text. Templates need one; a model that is small writes others now and then. */
static const char *parse_arguments(hth_api_parse *parse, const hth_fields *function)
{
    json_t *value = hth_fields_any(function, "arguments"), *object;
    const char *text = "";
    char path[HTH_PATH_BYTES];

    if (json_is_object(value))
        return hth_api_json_text(parse, value);
    hth_fields_string(function, "arguments", TEXT_BYTES_MAX, &text);
    if (strspn(text, " \t\r\n") == strlen(text))
        return "{}";
    object = json_loads(text, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    if (!json_is_object(object)) {
        json_t *wrapped = json_pack("{s:s}", "arguments", text);

        hth_api_note(parse->notes, hth_fields_path(function, "arguments", path));
        text = wrapped ? hth_api_json_text(parse, wrapped) : "{}";
        json_decref(wrapped);
    }
    json_decref(object);
    return text;
}

static void parse_call(hth_api_parse *parse, const hth_fields *fields, hearth_chat_call *call)
{
    static const char *const known[] = { "id", "type", "function", "index", NULL };
    static const char *const known_inside[] = { "name", "arguments", "index", NULL };
    char path[HTH_PATH_BYTES];
    hth_fields function = hth_fields_inside(&parse->body, NULL, "");
    const char *type = "function";

    hth_fields_rest(fields, known);
    hth_fields_string(fields, "id", NAME_BYTES_MAX, &call->id);
    hth_fields_string(fields, "type", NAME_BYTES_MAX, &type);
    if (strcmp(type, "function") != 0)
        hth_api_fail(parse->error, HTH_API_UNSUPPORTED, hth_fields_path(fields, "type", path),
                     "'%s' is '%.40s'; only calls of functions are supported here", path, type);
    hth_fields_require(fields, "function");
    function.object = hth_fields_object(fields, "function");
    function.path = hth_fields_path(fields, "function.", path);
    hth_fields_rest(&function, known_inside);
    hth_fields_require(&function, "name");
    hth_fields_string(&function, "name", NAME_BYTES_MAX, &call->name);
    call->arguments = parse_arguments(parse, &function);
}

void hth_api_parse_calls(hth_api_parse *parse, const hth_fields *fields, hearth_chat_turn *turn)
{
    json_t *array = hth_fields_array(fields, "tool_calls", CALLS_MAX);
    hearth_chat_call *calls;

    if (!array)
        return;
    calls = hth_api_allocate_structs(parse, json_array_size(array), sizeof(*calls));
    for (size_t i = 0; calls && i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        char path[HTH_PATH_BYTES];
        hth_fields call = hth_fields_inside(&parse->body, json_array_get(array, i), path);

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

static void parse_message(hth_api_parse *parse, const hth_fields *fields, bool is_last, hearth_chat_turn *turn)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", "tool", "function", NULL };
    static const char *const known[] = {
        "role",    "content",     "name",  "tool_calls", "tool_call_id", "reasoning_content", "reasoning",
        "refusal", "annotations", "audio", NULL
    };

    hth_fields_rest(fields, known);
    turn->role = hth_api_parse_role(parse, fields, roles, "system, developer, user, assistant or tool");
    if (!turn->role)
        return;
    if (strcmp(turn->role, "function") == 0) /* what a tool was called before */
        turn->role = "tool";
    hth_fields_string(fields, "name", NAME_BYTES_MAX, &turn->name);
    if (strcmp(turn->role, "assistant") == 0) {
        hth_api_parse_calls(parse, fields, turn);
        if (json_is_string(hth_fields_any(fields, "reasoning")))
            hth_fields_string(fields, "reasoning", TEXT_BYTES_MAX, &turn->reasoning); /* other servers' name */
        else
            hth_fields_pass_over(fields, "reasoning");
        hth_fields_string(fields, "reasoning_content", TEXT_BYTES_MAX, &turn->reasoning);
    }
    if (strcmp(turn->role, "tool") == 0)
        hth_fields_string(fields, "tool_call_id", NAME_BYTES_MAX, &turn->call_id);
    hth_api_parse_content(parse, fields, is_last && strcmp(turn->role, "user") == 0, turn);
}

/*
 * A last message of the assistant is the beginning of the reply, which goes on, unless the client says that it is whole
 * (vLLM's two fields). One that says nothing, or calls a tool, is none.
 */
static void parse_beginning(hth_api_parse *parse, const hearth_chat_turn *last)
{
    bool goes_on = strcmp(last->role, "assistant") == 0, begins = false;

    hth_fields_bool(&parse->body, "add_generation_prompt", &begins);
    if (begins)
        goes_on = false;
    hth_fields_bool(&parse->body, "continue_final_message", &goes_on);
    if (goes_on && strcmp(last->role, "assistant") != 0)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "continue_final_message",
                     "'continue_final_message' is true, but the last message is no assistant's");
    parse->request->conversation.continue_last = goes_on && hth_api_begins_reply(last);
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
    turns = hth_api_allocate_structs(parse, json_array_size(array), sizeof(*turns));
    for (size_t i = 0; turns && i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        char path[HTH_PATH_BYTES];
        hth_fields fields;

        if (!hth_fields_item(&parse->body, "messages", array, i, path, &fields))
            return;
        parse_message(parse, &fields, i + 1 == json_array_size(array), &turns[i]);
    }
    parse->request->conversation.turns = turns;
    parse->request->conversation.n_turns = json_array_size(array);
    if (turns && parse->error->kind == HTH_API_NO_ERROR)
        parse_beginning(parse, &turns[json_array_size(array) - 1]);
}

/* ---- tools ---- */

/* The function of a tool, or of the older form 'functions'. */
static void parse_function(hth_api_parse *parse, const hth_fields *function, hearth_chat_tool *tools, size_t i)
{
    static const char *const known[] = { "name", "description", "parameters", "strict", NULL };
    hearth_chat_tool *tool = &tools[i];
    char inside[HTH_PATH_BYTES];
    json_t *parameters;
    bool strict = false;

    hth_fields_rest(function, known);
    hth_fields_require(function, "name");
    hth_fields_string(function, "name", NAME_BYTES_MAX, &tool->name);
    hth_api_check_tool_name(parse, hth_fields_path(function, "name", inside), tools, i, TOOL_NAME_BYTES_MAX);
    hth_fields_string(function, "description", TEXT_BYTES_MAX, &tool->description);
    hth_fields_bool(function, "strict", &strict); /* arguments follow the schema in any case */
    parameters = hth_fields_object(function, "parameters");
    if (parameters)
        hth_api_tool_schema(parse, tool, parameters);
}

/* Tool *n of the conversation; one that is no function is left out. */
static void parse_tool(hth_api_parse *parse, const hth_fields *fields, hearth_chat_tool *tools, size_t *n)
{
    static const char *const known[] = { "type", "function", "cache_control", NULL };
    char path[HTH_PATH_BYTES] = "";
    hth_fields function = hth_fields_inside(fields, NULL, path);
    const char *type = "function";

    hth_fields_string(fields, "type", NAME_BYTES_MAX, &type);
    if (strcmp(type, "function") != 0) {
        hth_api_note(parse->notes, hth_fields_path(fields, type, path));
        return;
    }
    hth_fields_rest(fields, known);
    hth_fields_require(fields, "function");
    function.object = hth_fields_object(fields, "function");
    (void)hth_fields_path(fields, "function.", path);
    parse_function(parse, &function, tools, (*n)++);
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

/* The one tool that may be called is the one that is shown. */
static void choose_tool(hth_api_parse *parse, const char *name)
{
    hearth_conversation *conversation = &parse->request->conversation;

    conversation->tools = tool_named(parse, name);
    conversation->n_tools = 1;
    conversation->tool_choice = HEARTH_TOOL_REQUIRED;
}

/* The older form of tool_choice: auto, none, or {"name": ...}. */
static void parse_function_call(hth_api_parse *parse)
{
    json_t *choice = hth_fields_any(&parse->body, "function_call");
    const char *word = json_string_value(choice), *name = json_string_value(json_object_get(choice, "name"));

    if (name)
        choose_tool(parse, name);
    else if (word && strcmp(word, "none") == 0)
        parse->request->conversation.tool_choice = HEARTH_TOOL_NONE;
    else if (!word || strcmp(word, "auto") != 0)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "function_call",
                     "'function_call' must be none, auto, or an object with a name");
}

static void parse_tool_choice(hth_api_parse *parse)
{
    hearth_conversation *conversation = &parse->request->conversation;
    json_t *choice = hth_fields_any(&parse->body, "tool_choice");
    const char *word = json_string_value(choice);
    const char *type = NULL, *name = NULL;
    hth_fields fields = hth_fields_inside(&parse->body, choice, "tool_choice.");
    hth_fields function = hth_fields_inside(&parse->body, NULL, "tool_choice.function.");

    if (!choice && hth_fields_has(&parse->body, "function_call")) {
        parse_function_call(parse);
        return;
    }
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
    if (name)
        choose_tool(parse, name);
}

void hth_api_parse_tools(hth_api_parse *parse)
{
    hearth_conversation *conversation = &parse->request->conversation;
    json_t *array = hth_fields_array(&parse->body, "tools", TOOLS_MAX);
    bool is_old = !array && hth_fields_has(&parse->body, "functions");
    const char *name = is_old ? "functions" : "tools";
    hearth_chat_tool *tools;
    size_t n = 0;

    if (is_old)
        array = hth_fields_array(&parse->body, name, TOOLS_MAX);
    if (array) {
        tools = hth_api_allocate_structs(parse, json_array_size(array), sizeof(*tools));
        for (size_t i = 0; tools && i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
            char path[HTH_PATH_BYTES];
            hth_fields fields;

            if (!hth_fields_item(&parse->body, name, array, i, path, &fields))
                return;
            if (is_old)
                parse_function(parse, &fields, tools, n++);
            else
                parse_tool(parse, &fields, tools, &n);
        }
        conversation->tools = tools;
        conversation->n_tools = n;
        parse->request->calls_are_functions = is_old;
    }
    hth_fields_bool(&parse->body, "parallel_tool_calls", &conversation->parallel_calls);
    if (parse->error->kind == HTH_API_NO_ERROR)
        parse_tool_choice(parse);
}

/* ---- the rest ---- */

static void parse_response_format(hth_api_parse *parse)
{
    static const char *const known[] = { "type", "json_schema", "schema", NULL };
    static const char *const known_inside[] = { "name", "schema", "strict", "description", NULL };
    hth_fields fields = hth_fields_inside(&parse->body, NULL, "response_format.");
    hth_fields inside = hth_fields_inside(&parse->body, NULL, "response_format.json_schema.");
    const char *type = NULL, *name = NULL, *description = NULL;
    bool strict = false;

    fields.object = hth_fields_object(&parse->body, "response_format");
    if (!fields.object)
        return;
    hth_fields_rest(&fields, known);
    hth_fields_require(&fields, "type");
    hth_fields_string(&fields, "type", NAME_BYTES_MAX, &type);
    if (!type || strcmp(type, "text") == 0)
        return;
    if (strcmp(type, "json_object") == 0) {
        parse->request->conversation.json_schema = "{\"type\":\"object\"}";
        if (hth_fields_has(&fields, "schema")) /* llama.cpp's */
            parse->request->conversation.json_schema = hth_api_parse_schema(parse, &fields, "schema");
        return;
    }
    if (strcmp(type, "json_schema") != 0) {
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "response_format.type",
                     "'response_format.type' is '%.40s'; it must be text, json_object or json_schema", type);
        return;
    }
    if (!hth_fields_has(&fields, "json_schema") && hth_fields_has(&fields, "schema")) {
        parse->request->conversation.json_schema = hth_api_parse_schema(parse, &fields, "schema");
        return;
    }
    hth_fields_require(&fields, "json_schema");
    inside.object = hth_fields_object(&fields, "json_schema");
    hth_fields_rest(&inside, known_inside);
    hth_fields_string(&inside, "name", NAME_BYTES_MAX, &name);
    if (name && !hth_api_is_name(name, TOOL_NAME_BYTES_MAX))
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "response_format.json_schema.name",
                     "'response_format.json_schema.name' is '%.80s'; it must be 1 to %d letters, digits, underscores "
                     "and hyphens",
                     name, TOOL_NAME_BYTES_MAX);
    hth_fields_string(&inside, "description", TEXT_BYTES_MAX, &description);
    hth_fields_bool(&inside, "strict", &strict); /* the reply follows the schema in any case */
    parse->request->conversation.json_schema =
        hth_fields_has(&inside, "schema") ? hth_api_parse_schema(parse, &inside, "schema") : "{\"type\":\"object\"}";
}

static void parse_logprobs(hth_api_parse *parse)
{
    hearth_request *options = &parse->request->options;

    hth_fields_bool(&parse->body, "logprobs", &options->logprobs);
    hth_fields_u32(&parse->body, "top_logprobs", 0, 20, &options->n_top_logprobs);
    if (!options->logprobs) {
        hth_fields_pass_over(&parse->body, "top_logprobs");
        options->n_top_logprobs = 0;
    }
}

static void parse_length(hth_api_parse *parse)
{
    json_int_t n = parse->request->options.n_predict;

    hth_fields_integer(&parse->body, "n_predict", -2, INT32_MAX, &n); /* llama.cpp's name; below 0: no limit */
    hth_fields_integer(&parse->body, "max_tokens", -2, INT32_MAX, &n);
    hth_fields_integer(&parse->body, "max_completion_tokens", -2, INT32_MAX, &n);
    hth_api_set_length(parse, n);
}

/*
 * llama.cpp's fields for a reply that is to stay as the model writes it. Reasoning can only stay in it together with calls,
 * since both are taken out by one reader.
 */
static void parse_reply_form(hth_api_parse *parse)
{
    const hearth_conversation *conversation = &parse->request->conversation;
    const char *format = "auto";
    bool has_calls = conversation->n_tools > 0 && conversation->tool_choice != HEARTH_TOOL_NONE, parses_calls = true;

    hth_fields_string(&parse->body, "reasoning_format", NAME_BYTES_MAX, &format);
    hth_fields_bool(&parse->body, "parse_tool_calls", &parses_calls);
    if (strcmp(format, "none") != 0 && strcmp(format, "auto") != 0 && strcmp(format, "deepseek") != 0 &&
        strcmp(format, "deepseek-legacy") != 0)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "reasoning_format",
                     "'reasoning_format' is '%.40s'; it must be none, auto, deepseek or deepseek-legacy", format);
    parse->request->is_raw = strcmp(format, "none") == 0 && (!has_calls || !parses_calls);
    if (parse->request->is_raw)
        return;
    if (strcmp(format, "none") == 0 || strcmp(format, "deepseek-legacy") == 0)
        hth_fields_pass_over(&parse->body, "reasoning_format");
    if (!parses_calls && has_calls)
        hth_fields_pass_over(&parse->body, "parse_tool_calls");
}

static void parse_modalities(hth_api_parse *parse)
{
    json_t *array = hth_fields_array(&parse->body, "modalities", 16);

    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *word = json_string_value(json_array_get(array, i));

        if (!word)
            hth_fail_type(parse->error, "modalities", "an array of texts", json_array_get(array, i));
        else if (strcmp(word, "text") != 0)
            hth_fields_pass_over(&parse->body, "modalities");
    }
}

void hth_api_parse_chat(hth_api_parse *parse)
{
    static const char *const known[] = { HTH_API_OPENAI_FIELDS, HTH_API_THINKING_FIELDS, "messages",
                                         "max_completion_tokens", "max_tokens", "n_predict", "logprobs", "top_logprobs",
                                         "tools", "tool_choice", "functions", "function_call", "parallel_tool_calls",
                                         "response_format", "reasoning_format", "parse_tool_calls", "modalities",
                                         "add_generation_prompt", "continue_final_message",
                                         /* accepted, without effect */
                                         "user", "store", "metadata", "service_tier", "safety_identifier",
                                         "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
                                         "verbosity", "prediction", "moderation", NULL };

    parse->request->is_chat = true;
    hth_fields_rest(&parse->body, known);
    parse_messages(parse);
    hth_api_parse_openai_common(parse);
    parse_length(parse);
    parse_logprobs(parse);
    hth_api_parse_tools(parse);
    parse_response_format(parse);
    hth_api_parse_thinking(parse);
    parse_reply_form(parse);
    parse_modalities(parse);
}
