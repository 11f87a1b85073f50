/*
 * anthropic_messages.c - the messages of Anthropic's API as turns of a conversation
 *
 * The text, thinking and tool_use blocks of an assistant's message become one turn. Each tool_result of a user's
 * message becomes a turn of a tool, and the texts between them become turns of the user. A system message between
 * others becomes a turn at its place. A block that cannot be read, such as a picture, becomes a short text: the history
 * keeps its shape, and such a block must not fail each later turn.
 */
#include <string.h>

#include "dialects/anthropic_inside.h"

enum {
    BLOCKS_MAX = 16384,
    SYSTEM_TURNS = 1,
};

/* The conversation while it grows; there is memory for all of it. */
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
    hth_fields_require(block, "type");
    hth_fields_string(block, "type", HTH_API_NAME_BYTES_MAX, &type);
    hth_anthropic_cache_control(parse, block);
    return type;
}

/* ---- blocks that are no text, as text ---- */

/* The texts of the text blocks of an array, joined; NULL: there are none. */
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

/* The text in a document, a search result or a summary; NULL: there is none. */
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

/* A block as text: its own text, the text inside it, or the note that it was left out. */
static const char *text_of_block(hth_api_parse *parse, const hth_fields *fields, const char *type)
{
    static const char *const known[] = { "type", "text", "cache_control", "citations", NULL };
    const char *text = NULL;

    if (strcmp(type, "text") == 0) {
        hth_fields_rest(fields, known);
        hth_fields_require(fields, "text");
        hth_fields_string(fields, "text", HTH_API_TEXT_BYTES_MAX, &text);
        return text;
    }
    text = text_inside(parse, fields->object, type);
    return text ? text : hth_api_replaced_part(parse, fields, type);
}

/* Read a text, or an array of blocks, into turn. */
static void parse_texts(hth_api_parse *parse, const hth_fields *fields, const char *name, hearth_chat_turn *turn)
{
    const json_t *value = hth_fields_any(fields, name);
    const char **parts;

    if (!value)
        return; /* an error came before */
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
    static const char *const known[] = { "type", "id", "name", "input", "cache_control", "caller", NULL };
    json_t *input;

    hth_fields_rest(fields, known);
    hth_fields_require(fields, "id");
    hth_fields_string(fields, "id", HTH_API_NAME_BYTES_MAX, &call->id);
    hth_fields_require(fields, "name");
    hth_fields_string(fields, "name", HTH_API_NAME_BYTES_MAX, &call->name);
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
            hth_fields_require(&fields, "thinking");
            hth_fields_string(&fields, "thinking", HTH_API_TEXT_BYTES_MAX, &thinking);
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
    static const char *const known[] = { "type", "tool_use_id", "content", "is_error", "cache_control", NULL };
    json_t *content = hth_fields_any(fields, "content");
    bool is_error = false;

    turn->role = "tool";
    hth_fields_rest(fields, known);
    hth_fields_require(fields, "tool_use_id");
    hth_fields_string(fields, "tool_use_id", HTH_API_NAME_BYTES_MAX, &turn->call_id);
    hth_fields_bool(fields, "is_error", &is_error); /* the content tells the error */
    if (json_is_string(content) || json_is_array(content))
        parse_texts(parse, fields, "content", turn);
    else if (content)
        turn->content = hth_api_json_text(parse, content); /* some tools answer with an object or a number */
    if (turn->n_parts == 0 && (!turn->content || !*turn->content))
        turn->content = is_error ? "error" : "";
}

/* Does the array have a block that can be read? */
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
    hearth_chat_turn *text = NULL; /* the open turn of the user */

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
    static const char *const roles[] = { "user", "assistant", "system", NULL };
    static const char *const known[] = { "role", "content", NULL };
    const char *role;
    json_t *content;

    hth_fields_rest(fields, known);
    role = hth_api_parse_role(fields, roles);
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
    } else { /* also an empty array: a reply may have had no block, and comes back in the history */
        out->turns[out->n] = (hearth_chat_turn){ .struct_size = sizeof(hearth_chat_turn), .role = role };
        parse_texts(parse, fields, "content", &out->turns[out->n++]);
    }
}

/* The number of turns at most. */
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
 * A last message of the assistant is the beginning of the reply, given by the client. An empty one is none: a template
 * would drop it, together with the text that comes before a reply.
 */
static void continue_last(hth_api_parse *parse, growing_turns *turns)
{
    const hearth_chat_turn *last = turns->n > 0 ? &turns->turns[turns->n - 1] : NULL;

    if (parse->error->kind != HTH_API_NO_ERROR || !last || strcmp(last->role, "assistant") != 0)
        return;
    if (is_empty(last)) {
        turns->n--;
        if (turns->n == 0 || strcmp(turns->turns[turns->n - 1].role, "system") == 0)
            hth_fields_fail(&parse->body, HTH_API_INVALID_VALUE, "messages",
                            "has nothing but an empty message; give at least one of the user");
        return;
    }
    if (last->n_calls > 0)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "messages",
                     "'messages' ends with a tool_use; append its tool_result");
    parse->request->conversation.continue_last = true;
}

hearth_chat_turn *hth_anthropic_messages(hth_api_parse *parse)
{
    json_t *array, *system = hth_fields_any(&parse->body, "system");
    growing_turns turns = { .n = 0 };

    hth_fields_require(&parse->body, "messages");
    array = hth_fields_array(&parse->body, "messages", parse->limits->messages_max);
    if (!array)
        return NULL;
    if (json_array_size(array) == 0)
        hth_fields_fail(&parse->body, HTH_API_INVALID_VALUE, "messages", "is empty; give at least one message");
    if (count_turns(array) > BLOCKS_MAX)
        hth_fields_fail(&parse->body, HTH_API_INVALID_VALUE, "messages", "has more than %d blocks; send fewer",
                        BLOCKS_MAX);
    if (parse->error->kind == HTH_API_NO_ERROR)
        turns.turns = hth_api_allocate_structs(parse, count_turns(array), sizeof(*turns.turns));
    if (!turns.turns)
        return NULL;
    if (system && !(json_is_array(system) && json_array_size(system) == 0)) {
        turns.turns[turns.n].role = "system";
        parse_texts(parse, &parse->body, "system", &turns.turns[turns.n++]);
    }
    for (size_t i = 0; i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        hth_fields fields;

        if (!hth_fields_item(&parse->body, "messages", array, i, &fields))
            return NULL;
        parse_message(parse, &fields, i + 1 == json_array_size(array), &turns);
    }
    continue_last(parse, &turns);
    parse->request->conversation.turns = turns.turns;
    parse->request->conversation.n_turns = turns.n;
    return parse->error->kind == HTH_API_NO_ERROR ? turns.turns : NULL;
}
