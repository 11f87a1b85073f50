/*
 * anthropic_request.c - /v1/messages and /v1/messages/count_tokens
 *
 * The parts of this file: the messages, the tools, the edits of the history, and the other fields of the body.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/parse.h"
#include "dialects/kinds.h"
#include "models/given.h"

/*
 * Record that an object asks for its prefix to be cached. This has no other effect, since every prefix is cached. Any
 * form of the field is accepted.
 */
static void note_cache_control(hth_api_parse *parse, const hth_fields *fields)
{
    hth_fields inside;
    const char *type = NULL;

    if (!hth_fields_enter(fields, "cache_control", &inside))
        return;
    hth_fields_rest(&inside, HTH_NAMES("type", "ttl", "scope"));
    hth_fields_string(&inside, "type", HTH_API_NAME_BYTES_MAX, &type);
    if (type && strcmp(type, "ephemeral") != 0)
        hth_fields_pass_over(&inside, "type");
    parse->request->has_cache_control = true;
}

/*
 * ---- the messages of Anthropic's API as turns of a conversation ----
 *
 * The text, thinking and tool_use blocks of an assistant's message become one turn. Each tool_result of a user's
 * message becomes a tool turn, and the texts between them become user turns. A system message between others becomes a
 * turn at its position. An unreadable block, such as an image, becomes a short text: the history keeps its shape, and
 * the block does not fail each later turn.
 */

enum {
    BLOCKS_MAX = 16384,
    SYSTEM_TURNS = 1,
};

/* The conversation while it grows; memory for all of it is allocated. */
typedef struct growing_turns {
    hearth_chat_turn *turns;
    size_t n;
} growing_turns;

/* Block i of array, the field of that name, and its type; NULL with the error filled. */
static const char *block_type(hth_api_parse *parse, const hth_fields *fields, const char *name, const json_t *array,
                              size_t i, hth_fields *block)
{
    const char *type = NULL;

    if (!hth_fields_item(fields, name, array, i, block))
        return NULL;
    type = hth_fields_required(block, "type", HTH_API_NAME_BYTES_MAX);
    note_cache_control(parse, block);
    return type;
}

/* ---- blocks that are not text, as text ---- */

/* The texts of the text blocks of an array, joined; NULL: none. */
static const char *joined_texts(hth_api_parse *parse, json_t *array)
{
    hth_api_joined all = { .text = NULL };

    for (size_t i = 0; i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        const char *text = json_string_value(json_object_get(json_array_get(array, i), "text"));

        if (text)
            hth_api_joined_add(parse, &all, text);
    }
    return all.text;
}

static const char *with_title(hth_api_parse *parse, const json_t *block, const char *text)
{
    const char *title = json_string_value(json_object_get(block, "title"));

    return text && title && *title ? hth_api_join(parse, title, "\n", text) : text;
}

/* The text in a document, a search result or a summary; NULL: none. */
static const char *text_inside(hth_api_parse *parse, const json_t *block, const char *type)
{
    json_t *source = json_object_get(block, "source"), *content = json_object_get(block, "content");
    const char *source_type = json_string_value(json_object_get(source, "type"));
    json_t *inside = json_object_get(source, "content");

    if (strcmp(type, "document") == 0 && source_type && strcmp(source_type, "text") == 0)
        return with_title(parse, block, json_string_value(json_object_get(source, "data")));
    if (strcmp(type, "document") == 0 && json_is_string(inside))
        return with_title(parse, block, json_string_value(inside));
    if (strcmp(type, "document") == 0)
        return with_title(parse, block, joined_texts(parse, inside));
    if (strcmp(type, "search_result") == 0)
        return with_title(parse, block, joined_texts(parse, content));
    if (strcmp(type, "compaction") == 0)
        return json_string_value(content);
    return NULL;
}

/* A block as text: its own text, the text inside it, or a note that it was left out. */
static const char *text_of_block(hth_api_parse *parse, const hth_fields *fields, const char *type)
{
    const char *text = NULL;

    if (strcmp(type, "text") == 0) {
        hth_fields_rest(fields, HTH_NAMES("type", "text", "cache_control", "citations"));
        text = hth_fields_required(fields, "text", HTH_API_TEXT_BYTES_MAX);
        return text;
    }
    text = text_inside(parse, fields->object, type);
    return text ? text : hth_api_replaced_part(parse, fields, type);
}

/* Read a string, or an array of blocks, into turn. */
static void parse_texts(hth_api_parse *parse, const hth_fields *fields, const char *name, hearth_chat_turn *turn)
{
    const json_t *value = hth_fields_any(fields, name);
    const char **parts;

    if (!value)
        return; /* already an error */
    if (json_is_string(value)) {
        turn->content = json_string_value(value);
        return;
    }
    if (!json_is_array(value)) {
        hth_fields_wrong_type(fields, name, "a text or an array of blocks", value);
        return;
    }
    parts = hth_api_allocate(parse, json_array_size(value), sizeof(*parts));
    for (size_t i = 0; parts && i < json_array_size(value) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        hth_fields block;
        const char *type = block_type(parse, fields, name, value, i, &block);

        if (type)
            parts[i] = text_of_block(parse, &block, type);
    }
    turn->parts = parts;
    turn->n_parts = json_array_size(value);
    if (turn->n_parts == 0)
        turn->content = "";
}

/* ---- an assistant's blocks ---- */

static void parse_tool_use(hth_api_parse *parse, const hth_fields *fields, hearth_chat_call *call)
{
    json_t *input;

    hth_fields_rest(fields, HTH_NAMES("type", "id", "name", "input", "cache_control", "caller"));
    call->id = hth_fields_required(fields, "id", HTH_API_NAME_BYTES_MAX);
    call->name = hth_fields_required(fields, "name", HTH_API_NAME_BYTES_MAX);
    if (call->name)
        call->name = hth_api_offered_name(parse, call->name);
    hth_fields_require(fields, "input");
    input = hth_fields_object(fields, "input");
    call->arguments = input ? hth_api_json_text(parse, input) : "{}";
}

static void parse_assistant(hth_api_parse *parse, const hth_fields *message, json_t *array, growing_turns *out)
{
    hearth_chat_turn *turn = &out->turns[out->n++];
    size_t n = json_array_size(array), n_calls = 0, n_parts = 0;
    hearth_chat_call *calls = hth_api_allocate_structs(parse, n, sizeof(*calls));
    const char **parts = hth_api_allocate(parse, n, sizeof(*parts));
    hth_api_joined reasoning = { .text = NULL };

    turn->role = "assistant";
    for (size_t i = 0; calls && parts && i < n && parse->error->kind == HTH_API_NO_ERROR; i++) {
        hth_fields fields;
        const char *type = block_type(parse, message, "content", array, i, &fields);
        const char *thinking = NULL;

        if (!type)
            return;
        if (strcmp(type, "tool_use") == 0) {
            parse_tool_use(parse, &fields, &calls[n_calls++]);
        } else if (strcmp(type, "thinking") == 0) {
            thinking = hth_fields_required(&fields, "thinking", HTH_API_TEXT_BYTES_MAX);
            if (thinking)
                hth_api_joined_add(parse, &reasoning, thinking);
        } else if (strcmp(type, "redacted_thinking") != 0) {
            parts[n_parts] = text_of_block(parse, &fields, type);
            n_parts += parts[n_parts] != NULL;
        }
    }
    turn->reasoning = reasoning.text;
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
    json_t *content = hth_fields_any(fields, "content");
    bool is_error = false;

    turn->role = "tool";
    hth_fields_rest(fields, HTH_NAMES("type", "tool_use_id", "content", "is_error", "cache_control"));
    turn->call_id = hth_fields_required(fields, "tool_use_id", HTH_API_NAME_BYTES_MAX);
    hth_fields_bool(fields, "is_error", &is_error); /* the content describes the error */
    if (json_is_string(content) || json_is_array(content))
        parse_texts(parse, fields, "content", turn);
    else if (content)
        turn->content = hth_api_json_text(parse, content); /* some tools return an object or a number */
    if (turn->n_parts == 0 && (!turn->content || !*turn->content))
        turn->content = is_error ? "error" : "";
}

/* Does the array have a readable block? */
static bool has_readable(hth_api_parse *parse, json_t *array)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *block = json_array_get(array, i);
        const char *type = json_string_value(json_object_get(block, "type"));

        if (!type || strcmp(type, "text") == 0 || strcmp(type, "tool_result") == 0 || text_inside(parse, block, type))
            return true; /* a block without a type is refused elsewhere */
    }
    return false;
}

static void parse_user(hth_api_parse *parse, const hth_fields *message, json_t *array, bool is_question,
                       growing_turns *out)
{
    size_t n = json_array_size(array);
    const char **parts = hth_api_allocate(parse, n, sizeof(*parts));
    hearth_chat_turn *text = NULL; /* the open user turn */

    if (is_question && !has_readable(parse, array))
        hth_fields_fail(message, HTH_API_UNSUPPORTED, "content",
                        "has nothing but blocks that this server does not read; it reads text");
    for (size_t i = 0; parts && i < n && parse->error->kind == HTH_API_NO_ERROR; i++) {
        hth_fields fields;
        const char *type = block_type(parse, message, "content", array, i, &fields);

        if (!type)
            return;
        if (strcmp(type, "tool_result") == 0) {
            parse_tool_result(parse, &fields, &out->turns[out->n++]);
            text = NULL;
            continue;
        }
        if (!text) {
            text = &out->turns[out->n++];
            text->role = "user";
            text->parts = parts + i;
        }
        parts[i] = text_of_block(parse, &fields, type);
        text->n_parts++;
    }
}

/* ---- messages ---- */

static void parse_message(hth_api_parse *parse, const hth_fields *fields, bool is_last, growing_turns *out)
{
    const char *role;
    json_t *content;

    hth_fields_rest(fields, HTH_NAMES("role", "content"));
    role = hth_api_parse_role(fields, HTH_NAMES("user", "assistant", "system"));
    if (!role)
        return;
    hth_fields_require(fields, "content");
    content = hth_fields_any(fields, "content");
    if (!content)
        return;
    if (json_is_array(content) && json_array_size(content) > 0 && *role == 'a') {
        parse_assistant(parse, fields, content, out);
    } else if (json_is_array(content) && json_array_size(content) > 0 && *role == 'u') {
        parse_user(parse, fields, content, is_last, out);
    } else { /* also an empty array: a reply without blocks comes back in the history like this */
        out->turns[out->n] = (hearth_chat_turn){ .struct_size = sizeof(hearth_chat_turn), .role = role };
        parse_texts(parse, fields, "content", &out->turns[out->n++]);
    }
}

/* The maximum number of turns. */
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
 * If the last message is the assistant's, it is the beginning of the reply. An empty message is not: a template would
 * drop it, together with the text that comes before a reply.
 */
static void continue_last(hth_api_parse *parse, growing_turns *turns)
{
    const hearth_chat_turn *last = turns->n > 0 ? &turns->turns[turns->n - 1] : NULL;

    if (parse->error->kind != HTH_API_NO_ERROR || !last || strcmp(last->role, "assistant") != 0)
        return;
    if (is_empty(last)) {
        turns->n--;
        if (turns->n == 0 || strcmp(turns->turns[turns->n - 1].role, "system") == 0)
            hth_fields_refuse(&parse->body, "messages",
                              "has nothing but an empty message; give at least one of the user");
        return;
    }
    if (last->n_calls > 0)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "messages",
                     "'messages' ends with a tool_use; append its tool_result");
    parse->request->conversation.continue_last = true;
}

/* Read "system" and "messages" into the turns of the conversation. Returns the turns; NULL with the error filled. */
static hearth_chat_turn *parse_messages(hth_api_parse *parse)
{
    json_t *array, *system = hth_fields_any(&parse->body, "system");
    growing_turns turns = { .n = 0 };
    hth_fields fields;

    hth_fields_require(&parse->body, "messages");
    array = hth_fields_array(&parse->body, "messages", parse->limits->messages_max);
    if (!array)
        return NULL;
    if (json_array_size(array) == 0)
        hth_fields_refuse(&parse->body, "messages", "is empty; give at least one message");
    if (count_turns(array) > BLOCKS_MAX)
        hth_fields_refuse(&parse->body, "messages", "has more than %d blocks; send fewer", BLOCKS_MAX);
    if (parse->error->kind == HTH_API_NO_ERROR)
        turns.turns = hth_api_allocate_structs(parse, count_turns(array), sizeof(*turns.turns));
    if (!turns.turns)
        return NULL;
    if (system && !(json_is_array(system) && json_array_size(system) == 0)) {
        turns.turns[turns.n].role = "system";
        parse_texts(parse, &parse->body, "system", &turns.turns[turns.n++]);
    }
    for (size_t i = 0; hth_fields_item(&parse->body, "messages", array, i, &fields); i++)
        parse_message(parse, &fields, i + 1 == json_array_size(array), &turns);
    continue_last(parse, &turns);
    parse->request->conversation.turns = turns.turns;
    parse->request->conversation.n_turns = turns.n;
    return parse->error->kind == HTH_API_NO_ERROR ? turns.turns : NULL;
}

/*
 * ---- the tools of Anthropic's API, and the choice among them ----
 *
 * The model is offered the client's own tools. Tools that Anthropic's servers run (web search, code execution), and
 * tools that one model was trained on (a shell, an editor), have no description that another model could read: they are
 * left out with a note. A tool whose parameters are not a usable schema is still offered, with any parameters.
 */

enum { TOOLS_SENT_MAX = 8192 }; /* including the tools that are left out */

/* ---- one tool ---- */

/* Note fields about callers and deferred loading, which this server does not support. The tool is still offered. */
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
    json_t *schema;

    hth_fields_rest(fields, HTH_NAMES("type", "name", "description", "input_schema", "cache_control", "strict",
                                      "eager_input_streaming", "input_examples", "defer_loading", "allowed_callers"));
    note_cache_control(parse, fields);
    tool->name = hth_fields_required(fields, "name", HTH_API_NAME_BYTES_MAX);
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

/* Was a tool of that name left out? */
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
        hth_fields_refuse(fields, "name", "is '%s', which is not in 'tools'", name);
}

static void parse_tool_choice(hth_api_parse *parse)
{
    hearth_conversation *conversation = &parse->request->conversation;
    const char *type = NULL, *name = NULL;
    bool one_only = false;
    hth_fields fields;

    if (!hth_fields_enter(&parse->body, "tool_choice", &fields))
        return;
    hth_fields_rest(&fields, HTH_NAMES("type", "name", "disable_parallel_tool_use"));
    type = hth_fields_required(&fields, "type", HTH_API_NAME_BYTES_MAX);
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
            hth_fields_refuse(&fields, "type", "is 'any', but there are no 'tools'; give some");
    } else if (strcmp(type, "tool") == 0) {
        name = hth_fields_required(&fields, "name", HTH_API_NAME_BYTES_MAX);
        choose_tool(parse, &fields, name);
    } else if (strcmp(type, "auto") != 0) {
        hth_fields_refuse(&fields, "type", "is '%.40s'; it must be auto, any, tool or none", type);
    }
}

/* Read "tools" and "tool_choice". */
static void parse_tools(hth_api_parse *parse)
{
    json_t *array = hth_fields_array(&parse->body, "tools", TOOLS_SENT_MAX);
    hearth_chat_tool *tools = array ? hth_api_allocate_structs(parse, json_array_size(array), sizeof(*tools)) : NULL;
    hth_fields fields;
    size_t n = 0;

    for (size_t i = 0; tools && hth_fields_item(&parse->body, "tools", array, i, &fields); i++) {
        if (!is_own(&fields))
            continue;
        if (n == HTH_TOOLS_MAX)
            hth_fields_refuse(&parse->body, "tools", "has more than %d tools; send fewer", HTH_TOOLS_MAX);
        else
            parse_tool(parse, &fields, tools, n++);
    }
    parse->request->conversation.tools = tools;
    parse->request->conversation.n_tools = n;
    if (parse->error->kind == HTH_API_NO_ERROR)
        parse_tool_choice(parse);
}

/*
 * ---- "context_management": parts of a long history that are hidden from the model ----
 *
 * Two edits are applied before the history is rendered; the client keeps the whole history:
 *
 *   clear_tool_uses_20250919  above a number of tokens or tool uses, a short text replaces the results of all but
 *                             the newest uses; their inputs become empty if the client asks for that
 *   clear_thinking_20251015   the reasoning of all but the newest turns of the assistant is left out
 *
 * Tokens are estimated at four bytes each. So the edits are the same for every model, and are known before the model is
 * loaded. The reply reports the edits that were applied. Other edits are ignored with a note.
 */

enum {
    EDITS_MAX = 16,
    NAMES_MAX = 1024,
    BYTES_A_TOKEN = 4,
    TRIGGER_TOKENS = 100000, /* Anthropic's default */
    KEEP_USES = 3,
    KEEP_THINKING_TURNS = 1,
};

static const char cleared_result[] = "[result cleared to save room]";

typedef struct history {
    hth_api_parse *parse;
    hearth_chat_turn *turns;
    size_t n_turns;
    hearth_chat_call **calls; /* [n_turns], of tool turns; an element is NULL: it has none; NULL: not looked for yet */
} history;

/* ---- sizes ---- */

static size_t content_bytes(const hearth_chat_turn *turn)
{
    size_t n = turn->content ? strlen(turn->content) : 0;

    for (size_t i = 0; !turn->content && i < turn->n_parts; i++)
        n += strlen(turn->parts[i]);
    return n;
}

/* The tokens of the prompt, without those that the template adds. */
static size_t prompt_tokens(const history *h)
{
    const hearth_conversation *conversation = &h->parse->request->conversation;
    size_t n = 0;

    for (size_t i = 0; i < h->n_turns; i++) {
        const hearth_chat_turn *turn = &h->turns[i];

        n += content_bytes(turn) + (turn->reasoning ? strlen(turn->reasoning) : 0);
        for (size_t j = 0; j < turn->n_calls; j++)
            n += strlen(turn->calls[j].name) + strlen(turn->calls[j].arguments);
    }
    for (size_t i = 0; i < conversation->n_tools; i++) {
        const hearth_chat_tool *tool = &conversation->tools[i];

        n += strlen(tool->name) + (tool->description ? strlen(tool->description) : 0) +
             (tool->parameters ? strlen(tool->parameters) : 0);
    }
    return n / BYTES_A_TOKEN;
}

/* ---- fields ---- */

/* Read {"type": one of types, "value": n}. Returns the index of the type; -1 if the field is absent or wrong. */
static int parse_amount(const hth_fields *edit, const char *name, const char *const *types, json_int_t low,
                        json_int_t *value)
{
    hth_fields fields;
    int type;

    if (!hth_fields_enter(edit, name, &fields))
        return -1;
    hth_fields_rest(&fields, HTH_NAMES("type", "value"));
    hth_fields_require(&fields, "type");
    type = hth_fields_word(&fields, "type", types);
    hth_fields_require(&fields, "value");
    hth_fields_integer(&fields, "value", low, INT32_MAX, value);
    return type;
}

/* ---- names ---- */

/* Sorted names, so that lookups are fast even with many calls. */
typedef struct names {
    const char **names;
    size_t n;
} names;

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The strings of an array, sorted. Other elements are left out. If out of memory, the error is filled. */
static names names_of(hth_api_parse *parse, const json_t *array)
{
    names out = { .n = 0 };

    if (json_array_size(array) > 0)
        out.names = hth_api_allocate(parse, json_array_size(array), sizeof(*out.names));
    for (size_t i = 0; out.names && i < json_array_size(array); i++) {
        const char *one = json_string_value(json_array_get(array, i));

        if (one)
            out.names[out.n++] = one;
    }
    if (out.n > 1)
        qsort(out.names, out.n, sizeof(*out.names), compare_names);
    return out;
}

static bool is_among(const names *all, const char *name)
{
    return all->n > 0 && bsearch(&name, all->names, all->n, sizeof(*all->names), compare_names);
}

/* ---- the call that a result belongs to ---- */

/*
 * Find the call of each tool turn: the first call with its id in the last turn before it that has one. False if out of
 * memory, with the error filled.
 */
static bool find_calls(history *h)
{
    hearth_chat_call **calls;
    json_t *by_id; /* the indices of the latest calls; a JSON object's hash is keyed, and clients choose the ids */
    size_t n = 0;

    if (h->calls)
        return true;
    for (size_t i = 0; i < h->n_turns; i++)
        n += h->turns[i].n_calls;
    calls = hth_api_allocate(h->parse, n, sizeof(*calls));
    h->calls = hth_api_allocate(h->parse, h->n_turns, sizeof(*h->calls));
    if (!calls || !h->calls)
        return false;
    by_id = json_object();
    n = 0;
    for (size_t i = 0; i < h->n_turns; i++) {
        const hearth_chat_turn *turn = &h->turns[i];
        const json_t *found = turn->call_id ? json_object_get(by_id, turn->call_id) : NULL;

        h->calls[i] = found ? calls[json_integer_value(found)] : NULL;
        for (size_t k = turn->n_calls; k > 0; k--) {
            const char *id = turn->calls[k - 1].id;

            if (id) /* without memory, the call is not found */
                (void)json_object_set_new(by_id, id, json_integer((json_int_t)n));
            calls[n++] = (hearth_chat_call *)&turn->calls[k - 1]; /* our own, and not shared yet */
        }
    }
    json_decref(by_id);
    return true;
}

/* ---- tool uses ---- */

typedef struct tool_clearing {
    names excluded;
    bool all_inputs;
    names inputs;
    size_t n_keep;
} tool_clearing;

static bool clears_input(const tool_clearing *clearing, const hearth_chat_call *call)
{
    return clearing->all_inputs || is_among(&clearing->inputs, call->name);
}

/*
 * Clear the results of all uses but the newest, or only count the savings. Results no longer than the replacement stay.
 */
static void clear_uses(const history *h, const tool_clearing *clearing, bool only_count, uint32_t *n_uses,
                       size_t *n_bytes)
{
    size_t n_later = 0;

    *n_uses = 0;
    *n_bytes = 0;
    for (size_t i = h->n_turns; i > 0; i--) {
        hearth_chat_turn *turn = &h->turns[i - 1];
        hearth_chat_call *call;
        size_t n;

        if (strcmp(turn->role, "tool") != 0)
            continue;
        call = h->calls[i - 1];
        if ((call && is_among(&clearing->excluded, call->name)) || n_later++ < clearing->n_keep)
            continue;
        n = content_bytes(turn);
        if (n <= strlen(cleared_result))
            continue;
        ++*n_uses;
        *n_bytes += n - strlen(cleared_result);
        if (call && clears_input(clearing, call))
            *n_bytes += strlen(call->arguments) - strlen("{}"); /* no object is shorter */
        if (only_count)
            continue;
        turn->content = cleared_result;
        turn->parts = NULL;
        turn->n_parts = 0;
        if (call && clears_input(clearing, call))
            call->arguments = "{}";
    }
}

static void edit_tool_uses(history *h, const hth_fields *edit)
{
    hth_api_edits *edits = &h->parse->request->edits;
    json_int_t trigger = TRIGGER_TOKENS, keep = KEEP_USES, at_least = 0;
    json_t *inputs = hth_fields_any(edit, "clear_tool_inputs"), *excluded; /* true, false, or a list of names */
    tool_clearing clearing = { .all_inputs = json_is_true(inputs) };
    size_t n_bytes, n_uses = 0;
    uint32_t n_cleared;
    bool by_uses;

    hth_fields_rest(edit, HTH_NAMES("type", "trigger", "keep", "clear_at_least", "clear_tool_inputs", "exclude_tools"));
    excluded = hth_fields_array(edit, "exclude_tools", NAMES_MAX);
    by_uses = parse_amount(edit, "trigger", HTH_NAMES("input_tokens", "tool_uses"), 0, &trigger) == 1;
    (void)parse_amount(edit, "keep", HTH_NAMES("tool_uses"), 0, &keep); /* there is one type */
    (void)parse_amount(edit, "clear_at_least", HTH_NAMES("input_tokens"), 0, &at_least);
    if (hth_fields_failed(edit))
        return;
    clearing.n_keep = (size_t)keep;
    for (size_t i = 0; i < h->n_turns; i++)
        n_uses += strcmp(h->turns[i].role, "tool") == 0;
    if ((by_uses ? n_uses : prompt_tokens(h)) <= (size_t)trigger)
        return;
    clearing.excluded = names_of(h->parse, excluded);
    clearing.inputs = names_of(h->parse, inputs);
    if (!find_calls(h) || hth_fields_failed(edit))
        return;
    clear_uses(h, &clearing, true, &n_cleared, &n_bytes);
    if (n_cleared == 0 || n_bytes / BYTES_A_TOKEN < (size_t)at_least)
        return;
    clear_uses(h, &clearing, false, &n_cleared, &n_bytes);
    edits->cleared_tool_uses += n_cleared;
    edits->cleared_tool_tokens += (uint32_t)(n_bytes / BYTES_A_TOKEN);
}

/* ---- thinking ---- */

static void edit_thinking(const history *h, const hth_fields *edit)
{
    hth_api_edits *edits = &h->parse->request->edits;
    json_t *keep = hth_fields_any(edit, "keep");
    const char *word = json_string_value(json_is_object(keep) ? json_object_get(keep, "type") : keep);
    json_int_t n_keep = KEEP_THINKING_TURNS, n_turns = 0;
    bool in_turn = false, was_counted = false;
    size_t n_bytes = 0;

    hth_fields_rest(edit, HTH_NAMES("type", "keep"));
    if (word && strcmp(word, "all") == 0)
        return;
    (void)parse_amount(edit, "keep", HTH_NAMES("thinking_turns"), 1, &n_keep); /* there is one type */
    if (hth_fields_failed(edit))
        return;
    /* Count from the end. All messages between two user messages, including tool results, are one turn. */
    for (size_t i = h->n_turns; i > 0; i--) {
        hearth_chat_turn *turn = &h->turns[i - 1];

        if (strcmp(turn->role, "user") == 0)
            in_turn = false;
        if (strcmp(turn->role, "assistant") != 0)
            continue;
        if (!in_turn)
            was_counted = false;
        n_turns += !in_turn;
        in_turn = true;
        if (n_turns <= n_keep || !turn->reasoning)
            continue;
        n_bytes += strlen(turn->reasoning);
        turn->reasoning = NULL;
        edits->cleared_thinking_turns += !was_counted;
        was_counted = true;
    }
    edits->cleared_thinking_tokens += (uint32_t)(n_bytes / BYTES_A_TOKEN);
}

/* ---- all edits ---- */

/* Apply "context_management" to the turns of the conversation, after all other fields were read. */
static void apply_edits(hth_api_parse *parse, hearth_chat_turn *turns)
{
    history h = { .parse = parse, .turns = turns, .n_turns = parse->request->conversation.n_turns };
    hth_fields fields, edit;
    json_t *array;

    if (!hth_fields_enter(&parse->body, "context_management", &fields) || !turns)
        return;
    parse->request->edits.is_asked = true;
    hth_fields_rest(&fields, HTH_NAMES("edits"));
    array = hth_fields_array(&fields, "edits", EDITS_MAX);
    for (size_t i = 0; hth_fields_item(&fields, "edits", array, i, &edit); i++) {
        const char *type = hth_fields_required(&edit, "type", HTH_API_NAME_BYTES_MAX);
        if (!type)
            return;
        if (strcmp(type, "clear_tool_uses_20250919") == 0)
            edit_tool_uses(&h, &edit);
        else if (strcmp(type, "clear_thinking_20251015") == 0)
            edit_thinking(&h, &edit);
        else
            hth_fields_note(&edit, type);
    }
}

/* ---- the request ---- */

static void parse_thinking(hth_api_parse *parse)
{
    int type = parse->reasoning == HTH_API_REASONING_ON;
    json_int_t budget = -1;
    hth_fields fields;

    if (hth_fields_enter(&parse->body, "thinking", &fields)) {
        hth_fields_rest(&fields, HTH_NAMES("type", "budget_tokens", "display"));
        hth_fields_require(&fields, "type");
        type = hth_fields_word(&fields, "type", HTH_NAMES("disabled", "enabled", "adaptive"));
        hth_fields_integer(&fields, "budget_tokens", 0, INT32_MAX, &budget);
        if (budget >= 0)
            parse->request->sampling.thinking_budget = (int32_t)budget;
    }
    parse->request->wants_thinking = type > 0;
    parse->request->conversation.no_thinking = !parse->request->wants_thinking;
}

/* The format of the reply: JSON that follows a schema. */
static void parse_output_format(hth_api_parse *parse, const hth_fields *outer, const char *name)
{
    char path[HTH_PATH_BYTES];
    const char *type = NULL;
    hth_fields fields;
    json_t *schema;

    if (!hth_fields_enter(outer, name, &fields))
        return;
    hth_fields_rest(&fields, HTH_NAMES("type", "schema"));
    type = hth_fields_required(&fields, "type", HTH_API_NAME_BYTES_MAX);
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
    hth_fields fields;
    json_t *values;
    int effort;

    parse_output_format(parse, &parse->body, "output_format"); /* the name in the beta API */
    if (!hth_fields_enter(&parse->body, "output_config", &fields))
        return;
    hth_fields_rest(&fields, HTH_NAMES("effort", "format"));
    parse_output_format(parse, &fields, "format");
    effort = hth_fields_word(&fields, "effort", hth_api_efforts);
    if (effort < 0)
        return;
    values = json_pack("{s:s}", "reasoning_effort", hth_api_efforts[effort]);
    parse->request->conversation.template_values = values ? hth_api_json_text(parse, values) : NULL;
    json_decref(values);
}

/*
 * The request continues a conversation that the server should have stored, and comes without its history. The error has
 * the form that clients know, so they send the whole conversation.
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
    hth_api_request *request = parse->request;
    hearth_sampling *sampling = &request->sampling;
    json_int_t n_tokens = request->options.n_predict, top_k = sampling->top_k;
    hearth_chat_turn *turns;

    request->is_chat = true;
    refuse_thread(parse);
    hth_fields_rest(&parse->body,
                    HTH_NAMES(HTH_API_EXTRA_FIELDS, "model", "messages", "max_tokens", "system", "stream",
                              "temperature", "top_p", "top_k", "stop_sequences", "tools", "tool_choice", "thinking",
                              "cache_control", "metadata", "service_tier", "output_config", "output_format",
                              "context_management", "thread", /* accepted, without effect */ "inference_geo", "speed",
                              "diagnostics", "user_profile_id", "workspace_id", "betas"));
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
    note_cache_control(parse, &parse->body);
    /* a single string, which other APIs allow, is an error */
    if (hth_fields_array(&parse->body, "stop_sequences", SIZE_MAX))
        hth_api_parse_stop(parse, "stop_sequences");
    hth_api_parse_extras(parse);
    turns = parse_messages(parse);
    parse_tools(parse);
    parse_thinking(parse);
    parse_output_config(parse);
    apply_edits(parse, turns);
}
