/*
 * responses_items.c - the items of an input as turns of a conversation
 *
 * The reasoning, the message and the calls of one reply come as several items. They become one turn again, so that the
 * prompt equals the one that the reply was cached behind. A turn ends where another role follows, or where an item does
 * not fit into it: reasoning after a message, a message after a call.
 *
 * Items that only OpenAI's own servers understand (searches, pictures, programs) are left out with a note.
 */
#include "dialects/responses_inside.h"

#include <string.h>

/* ---- texts ---- */

/*
 * Read a text, or an array of parts, into turn; an empty text when the field is absent. Returns the number of readable
 * parts.
 */
static size_t parse_texts(hth_api_parse *parse, const hth_fields *fields, const char *name, hearth_chat_turn *turn)
{
    json_t *value = hth_fields_any(fields, name);
    size_t n_readable;

    turn->content = json_is_string(value) ? json_string_value(value) : "";
    if (value && !json_is_string(value) && !json_is_array(value))
        hth_fields_wrong_type(fields, name, "a text or an array of content parts", value);
    if (json_array_size(value) == 0)
        return 1;
    n_readable = hth_api_parse_parts(parse, fields, name, "input_text", turn);
    turn->content = turn->n_parts == 0 ? "" : NULL; /* "": nothing but reasoning */
    if (turn->n_parts == 1) { /* the same prompt as that of one text, also where a template knows parts */
        turn->content = turn->parts[0];
        turn->parts = NULL;
        turn->n_parts = 0;
    }
    return n_readable;
}

/* ---- an assistant's items ---- */

static bool has_content(const hearth_chat_turn *turn)
{
    return turn->content || turn->n_parts > 0;
}

/* The turn of the assistant that an item belongs to. */
static hearth_chat_turn *open_turn(hth_api_turns *turns, bool is_new)
{
    if (!turns->is_open || is_new) {
        turns->turns[turns->n++].role = "assistant";
        turns->is_open = true;
        turns->reasoning = (hth_api_joined){ .text = NULL };
    }
    return &turns->turns[turns->n - 1];
}

static void add_call(hth_api_parse *parse, hth_api_turns *turns, const hearth_chat_call *call)
{
    hearth_chat_turn *turn = open_turn(turns, false);
    hearth_chat_call *calls = (hearth_chat_call *)turn->calls; /* ours, and not shared yet */

    /* The capacity is a power of two; double it when it is full. */
    if ((turn->n_calls & (turn->n_calls - 1)) == 0) {
        calls = hth_api_allocate_structs(parse, turn->n_calls ? 2 * turn->n_calls : 1, sizeof(*calls));
        if (!calls)
            return;
        if (turn->n_calls > 0)
            memcpy(calls, turn->calls, turn->n_calls * sizeof(*calls));
        turn->calls = calls;
    }
    calls[turn->n_calls++] = *call;
}

/* The members that both kinds of call have. The name becomes the one for the model. */
static void parse_call_head(hth_api_parse *parse, const hth_fields *fields, hearth_chat_call *call)
{
    const char *name_space = NULL;

    hth_fields_require(fields, "name");
    hth_fields_string(fields, "id", HTH_API_NAME_BYTES_MAX, &call->id);
    hth_fields_string(fields, "call_id", HTH_API_NAME_BYTES_MAX, &call->id);
    hth_fields_string(fields, "name", HTH_API_NAME_BYTES_MAX, &call->name);
    hth_fields_string(fields, "namespace", HTH_API_NAME_BYTES_MAX, &name_space);
    if (call->name)
        call->name = hth_api_offered_name(parse, hth_api_responses_offered(parse, name_space, call->name));
}

static void parse_call(hth_api_parse *parse, const hth_fields *fields, hth_api_turns *turns)
{
    static const char *const known[] = { "type", "id", "call_id", "name", "namespace", "arguments", "status", NULL };
    hearth_chat_call call = { .struct_size = sizeof(hearth_chat_call), .arguments = "" };

    hth_fields_rest(fields, known);
    parse_call_head(parse, fields, &call);
    hth_fields_string(fields, "arguments", HTH_API_TEXT_BYTES_MAX, &call.arguments);
    if (strspn(call.arguments, " \t\r\n") == strlen(call.arguments))
        call.arguments = "{}";
    if (parse->error->kind == HTH_API_NO_ERROR)
        add_call(parse, turns, &call);
}

/* A call of a tool whose input is a text, as a call of the function that stands for it. */
static void parse_custom_call(hth_api_parse *parse, const hth_fields *fields, hth_api_turns *turns)
{
    static const char *const known[] = { "type", "id", "call_id", "name", "namespace", "input", "status", NULL };
    const char *input = "";
    hearth_chat_call call = { .struct_size = sizeof(hearth_chat_call), .name = NULL };
    json_t *arguments;

    hth_fields_rest(fields, known);
    parse_call_head(parse, fields, &call);
    hth_fields_string(fields, "input", HTH_API_TEXT_BYTES_MAX, &input);
    arguments = json_pack("{s:s}", HTH_API_RESPONSES_INPUT, input);
    call.arguments = arguments ? hth_api_json_text(parse, arguments) : "{}";
    json_decref(arguments);
    if (parse->error->kind == HTH_API_NO_ERROR)
        add_call(parse, turns, &call);
}

/* The texts of an array of parts, joined; NULL: none. */
static const char *joined(hth_api_parse *parse, const hth_fields *fields, const char *name)
{
    hearth_chat_turn texts = { .struct_size = sizeof(hearth_chat_turn), .content = NULL };
    hth_api_joined all = { .text = NULL };

    if (!json_is_array(hth_fields_any(fields, name)))
        return NULL;
    (void)parse_texts(parse, fields, name, &texts); /* parts that are left out leave a note */
    if (texts.content && *texts.content)
        return texts.content;
    for (size_t i = 0; i < texts.n_parts && parse->error->kind == HTH_API_NO_ERROR; i++)
        hth_api_joined_add(parse, &all, texts.parts[i]);
    return all.text;
}

/* The reasoning of a reply: as content, or as this server's encrypted_content, or as a summary. */
static void parse_reasoning(hth_api_parse *parse, const hth_fields *fields, hth_api_turns *turns)
{
    static const char *const known[] = { "type", "id", "summary", "content", "encrypted_content", "status", NULL };
    static const char ours[] = HTH_API_RESPONSES_REASONING;
    const char *text = joined(parse, fields, "content"), *encrypted = NULL;
    hearth_chat_turn *turn;

    hth_fields_rest(fields, known);
    hth_fields_string(fields, "encrypted_content", HTH_API_TEXT_BYTES_MAX, &encrypted);
    if (!text && encrypted && strncmp(encrypted, ours, sizeof(ours) - 1) == 0)
        text = encrypted + sizeof(ours) - 1;
    if (!text)
        text = joined(parse, fields, "summary");
    if (!text || parse->error->kind != HTH_API_NO_ERROR)
        return;
    turn = open_turn(turns, turns->is_open &&
                                (has_content(&turns->turns[turns->n - 1]) || turns->turns[turns->n - 1].n_calls > 0));
    hth_api_joined_add(parse, &turns->reasoning, text);
    turn->reasoning = turns->reasoning.text;
}

/* ---- items ---- */

/* is_question: it is the last item, which the reply answers. */
static void parse_message(hth_api_parse *parse, const hth_fields *fields, bool is_question, hth_api_turns *turns)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", NULL };
    static const char *const known[] = { "type", "id", "role", "content", "status", "phase", "name", NULL };
    hearth_chat_turn turn = { .struct_size = sizeof(hearth_chat_turn), .role = NULL }, *into;

    hth_fields_rest(fields, known);
    turn.role = hth_api_parse_role(fields, roles);
    if (!turn.role)
        return;
    hth_fields_string(fields, "name", HTH_API_NAME_BYTES_MAX, &turn.name);
    if (parse_texts(parse, fields, "content", &turn) == 0 && is_question && strcmp(turn.role, "user") == 0)
        hth_fields_fail(fields, HTH_API_UNSUPPORTED, "content", HTH_API_UNREADABLE_PARTS);
    if (parse->error->kind != HTH_API_NO_ERROR)
        return;
    if (strcmp(turn.role, "assistant") != 0) {
        turns->turns[turns->n++] = turn;
        turns->is_open = false;
        return;
    }
    into = open_turn(turns, turns->is_open &&
                                (has_content(&turns->turns[turns->n - 1]) || turns->turns[turns->n - 1].n_calls > 0));
    into->content = turn.content;
    into->parts = turn.parts;
    into->n_parts = turn.n_parts;
    into->name = turn.name;
}

static void parse_output(hth_api_parse *parse, const hth_fields *fields, hth_api_turns *turns)
{
    static const char *const known[] = { "type", "id", "call_id", "output", "status", "name", NULL };
    hearth_chat_turn turn = { .struct_size = sizeof(hearth_chat_turn), .role = "tool" };

    hth_fields_rest(fields, known);
    hth_fields_require(fields, "call_id");
    hth_fields_string(fields, "call_id", HTH_API_NAME_BYTES_MAX, &turn.call_id);
    hth_fields_string(fields, "name", HTH_API_NAME_BYTES_MAX, &turn.name);
    (void)parse_texts(parse, fields, "output", &turn); /* as above */
    if (parse->error->kind != HTH_API_NO_ERROR)
        return;
    turns->turns[turns->n++] = turn;
    turns->is_open = false;
}

static void parse_item(hth_api_parse *parse, const hth_fields *fields, bool is_last, hth_api_turns *turns)
{
    const char *type = hth_fields_has(fields, "role") || !hth_fields_has(fields, "id") ? "message" : "item_reference";

    hth_fields_string(fields, "type", HTH_API_NAME_BYTES_MAX, &type);
    if (strcmp(type, "message") == 0)
        parse_message(parse, fields, is_last, turns);
    else if (strcmp(type, "function_call") == 0)
        parse_call(parse, fields, turns);
    else if (strcmp(type, "custom_tool_call") == 0)
        parse_custom_call(parse, fields, turns);
    else if (strcmp(type, "function_call_output") == 0 || strcmp(type, "custom_tool_call_output") == 0)
        parse_output(parse, fields, turns);
    else if (strcmp(type, "reasoning") == 0)
        parse_reasoning(parse, fields, turns);
    else if (strcmp(type, HTH_API_RESPONSES_MORE_TOOLS) != 0) /* its tools are read with the others */
        hth_fields_note(fields, type);
}

void hth_api_turns_add(hth_api_turns *turns, const char *role, const char *text)
{
    turns->turns[turns->n++] =
        (hearth_chat_turn){ .struct_size = sizeof(hearth_chat_turn), .role = role, .content = text };
    turns->is_open = false;
}

void hth_api_parse_items(hth_api_parse *parse, const char *name, json_t *array, hth_api_turns *turns)
{
    for (size_t i = 0; i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        hth_fields fields;

        if (hth_fields_item(&parse->body, name, array, i, &fields))
            parse_item(parse, &fields, i + 1 == json_array_size(array), turns);
    }
}
