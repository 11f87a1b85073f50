/*
 * anthropic_request.c - /v1/messages and /v1/messages/count_tokens
 *
 * A message of blocks becomes turns: an assistant's text, thinking and tool_use are one turn; of a user's blocks, each
 * tool_result is a turn of a tool, and the texts between them are turns of the user.
 */
#include <stdio.h>
#include <string.h>

#include "api/request_inside.h"

enum {
    TEXT_BYTES_MAX = 32 << 20,
    NAME_BYTES_MAX = 256,
    TOOLS_MAX = 128,
    BLOCKS_MAX = 16384,
    TOOL_NAME_BYTES_MAX = 128,
    SYSTEM_TURNS = 1,
};

/* The conversation as it grows; there is memory for all of it. */
typedef struct growing_turns {
    hearth_chat_turn *turns;
    size_t n;
} growing_turns;

static void note_cache_control(hth_api_parse *parse, const hth_fields *fields)
{
    static const char *const known[] = { "type", "ttl", "scope", NULL };
    char path[HTH_PATH_BYTES] = "", type_path[HTH_PATH_BYTES];
    hth_fields inside = hth_fields_inside(&parse->body, NULL, path);
    const char *type = NULL;

    inside.object = hth_fields_object(fields, "cache_control");
    if (!inside.object)
        return;
    (void)hth_fields_path(fields, "cache_control.", path);
    hth_fields_rest(&inside, known);
    hth_fields_require(&inside, "type");
    hth_fields_string(&inside, "type", NAME_BYTES_MAX, &type);
    (void)hth_fields_path(&inside, "type", type_path);
    if (type && strcmp(type, "ephemeral") != 0)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, type_path, "'%s' is '%.40s'; it must be ephemeral", type_path,
                     type);
    parse->request->has_cache_control = true;
}

/* The next block of an array and its type, or NULL with the error filled. */
static const char *block_type(hth_api_parse *parse, const char *path, json_t *array, size_t i, hth_fields *fields,
                              char block_path[HTH_PATH_BYTES])
{
    const char *type = NULL;

    (void)snprintf(block_path, HTH_PATH_BYTES, "%.100s[%zu].", path, i); /* long enough for any index */
    *fields = hth_fields_inside(&parse->body, json_array_get(array, i), block_path);
    if (!json_is_object(fields->object)) {
        hth_fail_type(parse->error, path, "a text or an array of blocks", fields->object);
        return NULL;
    }
    hth_fields_require(fields, "type");
    hth_fields_string(fields, "type", NAME_BYTES_MAX, &type);
    note_cache_control(parse, fields);
    return type;
}

static void fail_block(hth_api_parse *parse, const char *path, const char *type)
{
    hth_api_fail(parse->error, HTH_API_UNSUPPORTED, path, "'%.100stype' is '%.40s', which is not supported here", path,
                 type);
}

/* A text, or the texts of an array of text blocks. */
static void parse_texts(hth_api_parse *parse, const char *path, json_t *value, hearth_chat_turn *turn)
{
    static const char *const known[] = { "type", "text", "cache_control", "citations", NULL };
    const char **parts;

    if (json_is_string(value)) {
        turn->content = json_string_value(value);
        return;
    }
    if (!json_is_array(value)) {
        hth_fail_type(parse->error, path, "a text or an array of blocks", value);
        return;
    }
    parts = hth_api_allocate(parse, json_array_size(value), sizeof(*parts));
    for (size_t i = 0; parts && i < json_array_size(value) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        char block_path[HTH_PATH_BYTES];
        hth_fields fields;
        const char *type = block_type(parse, path, value, i, &fields, block_path);

        if (type && strcmp(type, "text") != 0)
            fail_block(parse, block_path, type);
        hth_fields_rest(&fields, known);
        hth_fields_require(&fields, "text");
        hth_fields_string(&fields, "text", TEXT_BYTES_MAX, &parts[i]);
    }
    turn->parts = parts;
    turn->n_parts = json_array_size(value);
}

/* ---- an assistant's blocks ---- */

static void parse_tool_use(hth_api_parse *parse, const hth_fields *fields, hearth_chat_call *call)
{
    static const char *const known[] = { "type", "id", "name", "input", "cache_control", "caller", NULL };
    json_t *input;

    hth_fields_rest(fields, known);
    hth_fields_require(fields, "id");
    hth_fields_string(fields, "id", NAME_BYTES_MAX, &call->id);
    hth_fields_require(fields, "name");
    hth_fields_string(fields, "name", NAME_BYTES_MAX, &call->name);
    hth_fields_require(fields, "input");
    input = hth_fields_object(fields, "input");
    call->arguments = input ? hth_api_json_text(parse, input) : "{}";
}

static void parse_assistant(hth_api_parse *parse, const char *path, json_t *array, growing_turns *out)
{
    hearth_chat_turn *turn = &out->turns[out->n++];
    size_t n = json_array_size(array), n_calls = 0, n_parts = 0;
    hearth_chat_call *calls = hth_api_allocate(parse, n, sizeof(*calls));
    const char **parts = hth_api_allocate(parse, n, sizeof(*parts));

    turn->role = "assistant";
    for (size_t i = 0; calls && parts && i < n && parse->error->kind == HTH_API_NO_ERROR; i++) {
        char block_path[HTH_PATH_BYTES];
        hth_fields fields;
        const char *type = block_type(parse, path, array, i, &fields, block_path);
        const char *thinking = NULL;

        if (!type)
            return;
        if (strcmp(type, "text") == 0) {
            hth_fields_require(&fields, "text");
            hth_fields_string(&fields, "text", TEXT_BYTES_MAX, &parts[n_parts++]);
        } else if (strcmp(type, "tool_use") == 0) {
            parse_tool_use(parse, &fields, &calls[n_calls++]);
        } else if (strcmp(type, "thinking") == 0) {
            hth_fields_require(&fields, "thinking");
            hth_fields_string(&fields, "thinking", TEXT_BYTES_MAX, &thinking);
            if (thinking)
                turn->reasoning = turn->reasoning ? hth_api_join(parse, turn->reasoning, "\n", thinking) : thinking;
        } else if (strcmp(type, "redacted_thinking") != 0) {
            fail_block(parse, block_path, type);
        }
    }
    turn->parts = parts;
    turn->n_parts = n_parts;
    turn->calls = calls;
    turn->n_calls = n_calls;
    if (n_parts == 0)
        turn->content = n_calls > 0 ? NULL : "";
}

/* ---- a user's blocks ---- */

static void parse_tool_result(hth_api_parse *parse, const hth_fields *fields, hearth_chat_turn *turn)
{
    static const char *const known[] = { "type", "tool_use_id", "content", "is_error", "cache_control", NULL };
    json_t *content = hth_fields_any(fields, "content");
    char path[HTH_PATH_BYTES];
    bool is_error = false;

    turn->role = "tool";
    hth_fields_rest(fields, known);
    hth_fields_require(fields, "tool_use_id");
    hth_fields_string(fields, "tool_use_id", NAME_BYTES_MAX, &turn->call_id);
    hth_fields_bool(fields, "is_error", &is_error); /* the content says what went wrong */
    if (content)
        parse_texts(parse, hth_fields_path(fields, "content", path), content, turn);
    if (!turn->content && turn->n_parts == 0)
        turn->content = is_error ? "error" : "";
}

static void parse_user(hth_api_parse *parse, const char *path, json_t *array, growing_turns *out)
{
    size_t n = json_array_size(array);
    const char **parts = hth_api_allocate(parse, n, sizeof(*parts));
    hearth_chat_turn *text = NULL; /* the user's turn that is open */

    for (size_t i = 0; parts && i < n && parse->error->kind == HTH_API_NO_ERROR; i++) {
        char block_path[HTH_PATH_BYTES];
        hth_fields fields;
        const char *type = block_type(parse, path, array, i, &fields, block_path);

        if (!type)
            return;
        if (strcmp(type, "text") == 0) {
            if (!text) {
                text = &out->turns[out->n++];
                text->role = "user";
                text->parts = parts + i;
            }
            hth_fields_require(&fields, "text");
            hth_fields_string(&fields, "text", TEXT_BYTES_MAX, (const char **)&text->parts[text->n_parts]);
            text->n_parts++;
        } else if (strcmp(type, "tool_result") == 0) {
            parse_tool_result(parse, &fields, &out->turns[out->n++]);
            text = NULL;
        } else {
            fail_block(parse, block_path, type);
        }
    }
}

/* ---- messages ---- */

static void parse_message(hth_api_parse *parse, const hth_fields *fields, growing_turns *out)
{
    static const char *const known[] = { "role", "content", NULL };
    char path[HTH_PATH_BYTES];
    const char *role = NULL;
    json_t *content;

    hth_fields_rest(fields, known);
    hth_fields_require(fields, "role");
    hth_fields_string(fields, "role", NAME_BYTES_MAX, &role);
    if (role && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, hth_fields_path(fields, "role", path),
                     "'%s' is '%.40s'; it must be user or assistant", path, role);
    hth_fields_require(fields, "content");
    content = hth_fields_any(fields, "content");
    if (!content || !role)
        return;
    (void)hth_fields_path(fields, "content", path);
    if (json_is_array(content) && json_array_size(content) == 0)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, path, "'%s' is empty; give at least one block", path);
    else if (json_is_array(content) && *role == 'a')
        parse_assistant(parse, path, content, out);
    else if (json_is_array(content))
        parse_user(parse, path, content, out);
    else if (json_is_string(content))
        out->turns[out->n++] =
            (hearth_chat_turn){ .role = *role == 'a' ? "assistant" : "user", .content = json_string_value(content) };
    else
        hth_fail_type(parse->error, path, "a text or an array of blocks", content);
}

/* How many turns there can be at most. */
static size_t count_turns(const json_t *array)
{
    size_t n = SYSTEM_TURNS;

    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *content = json_object_get(json_array_get(array, i), "content");

        n += json_is_array(content) ? json_array_size(content) + 1 : 1;
    }
    return n;
}

static bool is_empty(const hearth_chat_turn *turn)
{
    for (size_t i = 0; i < turn->n_parts; i++)
        if (*turn->parts[i])
            return false;
    return turn->n_calls == 0 && !turn->reasoning && (!turn->content || !*turn->content);
}

/*
 * A last message of the assistant is a beginning of the reply that the client puts into the model's mouth. One that says
 * nothing is none: a template would leave it out, and with it what comes before a reply.
 */
static void continue_last(hth_api_parse *parse, growing_turns *turns)
{
    const hearth_chat_turn *last = turns->n > 0 ? &turns->turns[turns->n - 1] : NULL;

    if (parse->error->kind != HTH_API_NO_ERROR || !last || strcmp(last->role, "assistant") != 0)
        return;
    if (is_empty(last)) {
        turns->n--;
        if (turns->n == 0 || strcmp(turns->turns[turns->n - 1].role, "system") == 0)
            hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "messages",
                         "'messages' has nothing but an empty message; give at least one of the user");
        return;
    }
    if (last->n_calls > 0)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "messages",
                     "the last message uses a tool; give its tool_result behind it");
    parse->request->conversation.continue_last = true;
}

static void parse_messages(hth_api_parse *parse)
{
    json_t *array, *system = hth_fields_any(&parse->body, "system");
    growing_turns turns = { .n = 0 };

    hth_fields_require(&parse->body, "messages");
    array = hth_fields_array(&parse->body, "messages", parse->limits->messages_max);
    if (!array)
        return;
    if (json_array_size(array) == 0)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "messages", "'messages' is empty; give at least one message");
    if (count_turns(array) > BLOCKS_MAX)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "messages", "'messages' has more than %d blocks", BLOCKS_MAX);
    if (parse->error->kind == HTH_API_NO_ERROR)
        turns.turns = hth_api_allocate(parse, count_turns(array), sizeof(*turns.turns));
    if (!turns.turns)
        return;
    if (system) {
        turns.turns[turns.n].role = "system";
        parse_texts(parse, "system", system, &turns.turns[turns.n++]);
    }
    for (size_t i = 0; i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        char path[HTH_PATH_BYTES];
        hth_fields fields;

        if (!hth_fields_item(&parse->body, "messages", array, i, path, &fields))
            return;
        parse_message(parse, &fields, &turns);
    }
    continue_last(parse, &turns);
    parse->request->conversation.turns = turns.turns;
    parse->request->conversation.n_turns = turns.n;
}

/* ---- tools ---- */

/* Tools that are shown later, or called by code, need a server that runs them. */
static void check_callers(hth_api_parse *parse, const hth_fields *fields)
{
    json_t *callers = hth_fields_array(fields, "allowed_callers", 16);
    char path[HTH_PATH_BYTES];
    bool is_deferred = false;

    hth_fields_bool(fields, "defer_loading", &is_deferred);
    (void)hth_fields_path(fields, is_deferred ? "defer_loading" : "allowed_callers", path);
    if (is_deferred)
        hth_api_fail(parse->error, HTH_API_UNSUPPORTED, path,
                     "'%s' is true, which is not supported here; give the model all of its tools", path);
    for (size_t i = 0; i < json_array_size(callers); i++) {
        const char *caller = json_string_value(json_array_get(callers, i));

        if (!caller)
            hth_fail_type(parse->error, path, "an array of texts", json_array_get(callers, i));
        else if (strcmp(caller, "direct") != 0)
            hth_api_fail(parse->error, HTH_API_UNSUPPORTED, path,
                         "'%s' has '%.40s'; only direct calls are supported here", path, caller);
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
    char path[HTH_PATH_BYTES];
    const char *type = "custom";
    json_t *schema;

    hth_fields_string(fields, "type", NAME_BYTES_MAX, &type);
    if (strcmp(type, "custom") != 0)
        hth_api_fail(parse->error, HTH_API_UNSUPPORTED, hth_fields_path(fields, "type", path),
                     "'%s' is '%.40s'; only tools of the client's own are supported here", path, type);
    hth_fields_rest(fields, known);
    note_cache_control(parse, fields);
    hth_fields_require(fields, "name");
    hth_fields_string(fields, "name", NAME_BYTES_MAX, &tool->name);
    hth_api_check_tool_name(parse, hth_fields_path(fields, "name", path), tools, i, TOOL_NAME_BYTES_MAX);
    check_callers(parse, fields);
    hth_fields_string(fields, "description", TEXT_BYTES_MAX, &tool->description);
    hth_fields_require(fields, "input_schema");
    schema = hth_fields_object(fields, "input_schema");
    if (schema) {
        (void)hth_fields_path(fields, "input_schema", path);
        hth_api_check_references(parse, path, schema);
        tool->parameters = hth_api_schema_text(parse, path, schema);
    }
}

static void choose_tool(hth_api_parse *parse, const char *name)
{
    hearth_conversation *conversation = &parse->request->conversation;

    for (size_t i = 0; name && conversation->tools && i < conversation->n_tools; i++)
        if (strcmp(conversation->tools[i].name, name) == 0) {
            conversation->tools = &conversation->tools[i];
            conversation->n_tools = 1;
            conversation->tool_choice = HEARTH_TOOL_REQUIRED;
            return;
        }
    if (name)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "tool_choice",
                     "'tool_choice.name' is '%s', which is not in 'tools'", name);
}

static void parse_tool_choice(hth_api_parse *parse)
{
    static const char *const known[] = { "type", "name", "disable_parallel_tool_use", NULL };
    hearth_conversation *conversation = &parse->request->conversation;
    hth_fields fields = hth_fields_inside(&parse->body, NULL, "tool_choice.");
    const char *type = NULL, *name = NULL;
    bool one_only = false;

    fields.object = hth_fields_object(&parse->body, "tool_choice");
    if (!fields.object)
        return;
    hth_fields_rest(&fields, known);
    hth_fields_require(&fields, "type");
    hth_fields_string(&fields, "type", NAME_BYTES_MAX, &type);
    hth_fields_bool(&fields, "disable_parallel_tool_use", &one_only);
    conversation->parallel_calls = !one_only;
    if (!type)
        return;
    if (strcmp(type, "none") == 0) {
        conversation->tool_choice = HEARTH_TOOL_NONE;
    } else if (strcmp(type, "any") == 0) {
        conversation->tool_choice = HEARTH_TOOL_REQUIRED;
        if (conversation->n_tools == 0)
            hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "tool_choice",
                         "'tool_choice.type' is 'any', but there are no 'tools'");
    } else if (strcmp(type, "tool") == 0) {
        hth_fields_require(&fields, "name");
        hth_fields_string(&fields, "name", TOOL_NAME_BYTES_MAX, &name);
        choose_tool(parse, name);
    } else if (strcmp(type, "auto") != 0) {
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "tool_choice",
                     "'tool_choice.type' is '%.40s'; it must be auto, any, tool or none", type);
    }
}

static void parse_tools(hth_api_parse *parse)
{
    json_t *array = hth_fields_array(&parse->body, "tools", TOOLS_MAX);
    hearth_chat_tool *tools = array ? hth_api_allocate(parse, json_array_size(array), sizeof(*tools)) : NULL;

    for (size_t i = 0; tools && i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        char path[HTH_PATH_BYTES];
        hth_fields fields;

        if (!hth_fields_item(&parse->body, "tools", array, i, path, &fields))
            return;
        parse_tool(parse, &fields, tools, i);
    }
    parse->request->conversation.tools = tools;
    parse->request->conversation.n_tools = json_array_size(array);
    if (parse->error->kind == HTH_API_NO_ERROR)
        parse_tool_choice(parse);
}

/* ---- the rest ---- */

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
        hth_fields_string(&fields, "type", NAME_BYTES_MAX, &type);
        if (strcmp(type, "enabled") == 0)
            hth_fields_require(&fields, "budget_tokens");
        hth_fields_integer(&fields, "budget_tokens", 1, INT32_MAX,
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
    hth_fields_string(&fields, "type", NAME_BYTES_MAX, &type);
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
    static const char *const unsupported[] = { "task_budget", NULL };
    hth_fields fields = hth_fields_inside(&parse->body, NULL, "output_config.");
    const char *effort = NULL;
    json_t *values;

    fields.object = hth_fields_object(&parse->body, "output_config");
    parse_output_format(parse, &parse->body, "output_format"); /* its name in the beta */
    if (!fields.object)
        return;
    hth_fields_unsupported(&fields, unsupported);
    hth_fields_rest(&fields, known);
    parse_output_format(parse, &fields, "format");
    hth_fields_string(&fields, "effort", NAME_BYTES_MAX, &effort);
    if (effort && !hth_api_is_effort(effort))
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "output_config.effort",
                     "'output_config.effort' is '%.40s'; it must be low, medium, high, xhigh or max", effort);
    if (!effort)
        return;
    values = json_pack("{s:s}", "reasoning_effort", effort);
    parse->request->conversation.template_values = values ? hth_api_json_text(parse, values) : NULL;
    json_decref(values);
}

void hth_api_parse_messages(hth_api_parse *parse)
{
    static const char *const known[] = { HTH_API_EXTRA_FIELDS, "model", "messages", "max_tokens", "system", "stream",
                                         "temperature", "top_p", "top_k", "stop_sequences", "tools", "tool_choice",
                                         "thinking", "cache_control", "metadata", "service_tier", "output_config",
                                         "output_format",
                                         /* accepted, without effect */
                                         "inference_geo", "speed", "diagnostics", "user_profile_id", "workspace_id",
                                         NULL };
    static const char *const unsupported[] = { "container", "mcp_servers", "context_management", NULL };
    hth_api_request *request = parse->request;
    hearth_sampling *sampling = &request->options.sampling;
    json_int_t n_tokens = request->options.n_predict, top_k = sampling->top_k;

    request->is_chat = true;
    hth_fields_unsupported(&parse->body, unsupported);
    hth_fields_rest(&parse->body, known);
    hth_fields_require(&parse->body, "model");
    hth_fields_string(&parse->body, "model", NAME_BYTES_MAX, &request->model);
    if (request->kind == HTH_API_MESSAGES)
        hth_fields_require(&parse->body, "max_tokens");
    hth_fields_integer(&parse->body, "max_tokens", 1, INT32_MAX, &n_tokens);
    request->options.n_predict = (int32_t)n_tokens;
    hth_fields_bool(&parse->body, "stream", &request->stream);
    hth_fields_float(&parse->body, "temperature", 0, 1, &sampling->temperature);
    hth_fields_float(&parse->body, "top_p", 0, 1, &sampling->top_p);
    hth_fields_integer(&parse->body, "top_k", 0, INT32_MAX, &top_k);
    sampling->top_k = (int32_t)top_k;
    note_cache_control(parse, &parse->body);
    if (hth_fields_array(&parse->body, "stop_sequences", SIZE_MAX)) /* not a text alone, as others have it */
        hth_api_parse_stop(parse, "stop_sequences");
    hth_api_parse_extras(parse);
    parse_messages(parse);
    parse_tools(parse);
    parse_thinking(parse);
    parse_output_config(parse);
}
