/*
 * responses_items.c - the items of an input as turns of a conversation
 *
 * What a model says in one reply comes as several items: its reasoning, a message, calls. They are one turn again, so that
 * the prompt is the one that the reply was cached behind. A turn ends where something else follows, or where a further item
 * has no place in it: reasoning behind a message, a message behind a call.
 *
 * Items that only OpenAI's own servers make sense of (searches, pictures, programs) are left out with a note.
 */
#include "api/responses_inside.h"

#include <stdio.h>
#include <string.h>

/* ---- texts ---- */

/* One part's text. What is no text becomes a short one in its place, and does not count. */
static const char *parse_part(hth_api_parse *parse, const char *path, json_t *part, size_t *n_texts)
{
    static const char *const known[] = { "type", "text", "refusal", "annotations", "logprobs", "cache_control", NULL };
    hth_fields fields = hth_fields_inside(&parse->body, part, path);
    const char *type = "input_text", *text = "";
    bool is_refusal;

    *n_texts += 1;
    if (json_is_string(part))
        return json_string_value(part);
    if (!json_is_object(part)) {
        hth_fail_type(parse->error, path, "a text or an array of content parts", part);
        return text;
    }
    hth_fields_string(&fields, "type", HTH_RESPONSES_NAME_BYTES_MAX, &type);
    is_refusal = strcmp(type, "refusal") == 0;
    if (!is_refusal && strcmp(type, "text") != 0 && strcmp(type, "input_text") != 0 &&
        strcmp(type, "output_text") != 0 && strcmp(type, "summary_text") != 0 && strcmp(type, "reasoning_text") != 0) {
        *n_texts -= 1;
        return hth_api_replaced_part(parse, path, type);
    }
    hth_fields_rest(&fields, known);
    hth_fields_require(&fields, is_refusal ? "refusal" : "text");
    hth_fields_string(&fields, is_refusal ? "refusal" : "text", HTH_RESPONSES_TEXT_BYTES_MAX, &text);
    return text;
}

/* A text, or the texts of an array of parts; an item without any says nothing. Returns how many can be read. */
static size_t parse_texts(hth_api_parse *parse, const hth_fields *fields, const char *name, hearth_chat_turn *turn)
{
    json_t *value = hth_fields_any(fields, name);
    const char **parts;
    size_t n_texts = 0;
    char path[HTH_PATH_BYTES];

    (void)hth_fields_path(fields, name, path);
    turn->content = "";
    if (json_is_string(value))
        turn->content = json_string_value(value);
    else if (value && !json_is_array(value))
        hth_fail_type(parse->error, path, "a text or an array of content parts", value);
    if (!json_is_array(value) || json_array_size(value) == 0)
        return 1;
    parts = hth_api_allocate(parse, json_array_size(value), sizeof(*parts));
    for (size_t i = 0; parts && i < json_array_size(value) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        char part_path[HTH_PATH_BYTES];

        (void)snprintf(part_path, sizeof(part_path), "%.100s[%zu].", path, i); /* long enough for any index */
        parts[i] = parse_part(parse, part_path, json_array_get(value, i), &n_texts);
    }
    if (!parts)
        return n_texts;
    if (json_array_size(value) ==
        1) { /* the same prompt as that of a text by itself, also where a template knows parts */
        turn->content = parts[0];
        return n_texts;
    }
    turn->content = NULL;
    turn->parts = parts;
    turn->n_parts = json_array_size(value);
    return n_texts;
}

/* ---- an assistant's items ---- */

static bool has_content(const hearth_chat_turn *turn)
{
    return turn->content || turn->n_parts > 0;
}

/* The assistant's turn that an item belongs to. */
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
    hearth_chat_call *calls = (hearth_chat_call *)turn->calls; /* ours, and not given out yet */

    /* Room for a power of two, doubled when it is full. */
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

/* The members that both kinds of call have; the name is the one that the model was offered. */
static void parse_call_head(hth_api_parse *parse, const hth_fields *fields, hearth_chat_call *call)
{
    const char *name_space = NULL;

    hth_fields_require(fields, "name");
    hth_fields_string(fields, "id", HTH_RESPONSES_NAME_BYTES_MAX, &call->id);
    hth_fields_string(fields, "call_id", HTH_RESPONSES_NAME_BYTES_MAX, &call->id);
    hth_fields_string(fields, "name", HTH_RESPONSES_NAME_BYTES_MAX, &call->name);
    hth_fields_string(fields, "namespace", HTH_RESPONSES_NAME_BYTES_MAX, &name_space);
    if (call->name)
        call->name = hth_api_responses_offered(parse, name_space, call->name);
}

static void parse_call(hth_api_parse *parse, const hth_fields *fields, hth_api_turns *turns)
{
    static const char *const known[] = { "type", "id", "call_id", "name", "namespace", "arguments", "status", NULL };
    hearth_chat_call call = { .struct_size = sizeof(hearth_chat_call), .arguments = "" };

    hth_fields_rest(fields, known);
    parse_call_head(parse, fields, &call);
    hth_fields_string(fields, "arguments", HTH_RESPONSES_TEXT_BYTES_MAX, &call.arguments);
    if (strspn(call.arguments, " \t\r\n") == strlen(call.arguments))
        call.arguments = "{}";
    if (parse->error->kind == HTH_API_NO_ERROR)
        add_call(parse, turns, &call);
}

/* A call whose input is a text, as the function that it is offered as. */
static void parse_custom_call(hth_api_parse *parse, const hth_fields *fields, hth_api_turns *turns)
{
    static const char *const known[] = { "type", "id", "call_id", "name", "namespace", "input", "status", NULL };
    const char *input = "";
    hearth_chat_call call = { .struct_size = sizeof(hearth_chat_call), .name = NULL };
    json_t *arguments;

    hth_fields_rest(fields, known);
    parse_call_head(parse, fields, &call);
    hth_fields_string(fields, "input", HTH_RESPONSES_TEXT_BYTES_MAX, &input);
    arguments = json_pack("{s:s}", HTH_API_RESPONSES_INPUT, input);
    call.arguments = arguments ? hth_api_json_text(parse, arguments) : "{}";
    json_decref(arguments);
    if (parse->error->kind == HTH_API_NO_ERROR)
        add_call(parse, turns, &call);
}

/* The texts of an array of parts, one behind the other; NULL: none. */
static const char *joined(hth_api_parse *parse, const hth_fields *fields, const char *name)
{
    hearth_chat_turn texts = { .struct_size = sizeof(hearth_chat_turn), .content = NULL };
    hth_api_joined all = { .text = NULL };

    if (!json_is_array(hth_fields_any(fields, name)))
        return NULL;
    (void)parse_texts(parse, fields, name, &texts); /* what is left out says so */
    if (texts.content && *texts.content)
        return texts.content;
    for (size_t i = 0; i < texts.n_parts && parse->error->kind == HTH_API_NO_ERROR; i++)
        hth_api_joined_add(parse, &all, texts.parts[i]);
    return all.text;
}

/* What it thought: as it is, or as this server gave it in encrypted_content, or in its summary. */
static void parse_reasoning(hth_api_parse *parse, const hth_fields *fields, hth_api_turns *turns)
{
    static const char *const known[] = { "type", "id", "summary", "content", "encrypted_content", "status", NULL };
    static const char ours[] = HTH_API_RESPONSES_REASONING;
    const char *text = joined(parse, fields, "content"), *encrypted = NULL;
    hearth_chat_turn *turn;

    hth_fields_rest(fields, known);
    hth_fields_string(fields, "encrypted_content", HTH_RESPONSES_TEXT_BYTES_MAX, &encrypted);
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

/* is_question: nothing follows it, so that the reply is to answer it. */
static void parse_message(hth_api_parse *parse, const hth_fields *fields, bool is_question, hth_api_turns *turns)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", NULL };
    static const char *const known[] = { "type", "id", "role", "content", "status", "phase", "name", NULL };
    hearth_chat_turn turn = { .struct_size = sizeof(hearth_chat_turn), .role = NULL }, *into;
    char path[HTH_PATH_BYTES];

    hth_fields_rest(fields, known);
    turn.role = hth_api_parse_role(parse, fields, roles, "user, assistant, system or developer");
    if (!turn.role)
        return;
    hth_fields_string(fields, "name", HTH_RESPONSES_NAME_BYTES_MAX, &turn.name);
    if (parse_texts(parse, fields, "content", &turn) == 0 && is_question && strcmp(turn.role, "user") == 0)
        hth_api_fail(parse->error, HTH_API_UNSUPPORTED, hth_fields_path(fields, "content", path),
                     "'%s' has nothing but parts that this server does not read; it reads text", path);
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
    hth_fields_string(fields, "call_id", HTH_RESPONSES_NAME_BYTES_MAX, &turn.call_id);
    hth_fields_string(fields, "name", HTH_RESPONSES_NAME_BYTES_MAX, &turn.name);
    (void)parse_texts(parse, fields, "output", &turn); /* likewise */
    if (parse->error->kind != HTH_API_NO_ERROR)
        return;
    turns->turns[turns->n++] = turn;
    turns->is_open = false;
}

static void parse_item(hth_api_parse *parse, const hth_fields *fields, bool is_last, hth_api_turns *turns)
{
    const char *type = hth_fields_has(fields, "role") || !hth_fields_has(fields, "id") ? "message" : "item_reference";
    char path[HTH_PATH_BYTES];

    hth_fields_string(fields, "type", HTH_RESPONSES_NAME_BYTES_MAX, &type);
    if (strcmp(type, "message") == 0) {
        parse_message(parse, fields, is_last, turns);
    } else if (strcmp(type, "function_call") == 0) {
        parse_call(parse, fields, turns);
    } else if (strcmp(type, "custom_tool_call") == 0) {
        parse_custom_call(parse, fields, turns);
    } else if (strcmp(type, "function_call_output") == 0 || strcmp(type, "custom_tool_call_output") == 0) {
        parse_output(parse, fields, turns);
    } else if (strcmp(type, "reasoning") == 0) {
        parse_reasoning(parse, fields, turns);
    } else {
        (void)snprintf(path, sizeof(path), "%.60s%.40s", fields->path, type); /* cut: names are a client's */
        hth_api_note(parse->notes, path);
    }
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
        char path[HTH_PATH_BYTES];
        hth_fields fields;

        if (hth_fields_item(&parse->body, name, array, i, path, &fields))
            parse_item(parse, &fields, i + 1 == json_array_size(array), turns);
    }
}
