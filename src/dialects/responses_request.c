/*
 * responses_request.c - /v1/responses and /v1/responses/input_tokens
 *
 *   1. the items of earlier responses, by their ids
 *   2. the items of an input as turns of a conversation
 *   3. the tools, each with a name for the model and a name for the client
 *   4. the conversation: instructions, earlier responses, the items of the input
 *   5. the form of the reply: format, reasoning, length, sampling
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/parse.h"
#include "api/request.h"
#include "base/json_bounds.h"
#include "dialects/kinds.h"
#include "dialects/response_record.h"
#include "models/given.h"

enum {
    INCLUDES_MAX = 64,
    METADATA_MAX = 1024, /* members; clients send at most 16 */
};

/*
 * ---- items of earlier responses that a request continues or names ----
 *
 * With the request, the front passes the records of the responses that its body names. The response that the request
 * continues is read as its input followed by its output. An item that is only referenced is looked up in all records.
 *
 * A reference is short and may occur often, and an item is long. So all referenced items together, counted once per
 * reference, may have only as many bytes as a body that contains them.
 */

/* An item of an earlier response, as JSON text or as a value. */
typedef struct past_item {
    hth_response_item record; /* its text is in the request's record; NULL: value has it, or it is not JSON */
    json_t *value;            /* borrowed from values; NULL: text has not been parsed yet */
    size_t at;                /* its index among all */
} past_item;

/* The earlier items that an input may name. They are indexed at the first lookup. Initially all zeros. */
typedef struct past_index {
    past_item *items; /* [n], sorted: clients choose the ids, and could make those of a hash table collide */
    size_t n;
    json_t *values; /* the parsed values, owned */
    bool is_read;
} past_index;

/* Parse a value of a record; it was valid when it was written. */
static json_t *load(const hth_api_parse *parse, const char *text, size_t n)
{
    const hth_api_limits *limits = parse->limits;

    return hth_json_is_within(text, n, limits->depth_max + 16, limits->values_max)
             ? json_loadb(text, n, JSON_ALLOW_NUL, NULL)
             : NULL;
}

/* Read the record at *at and advance *at past it; false after the last record. */
static bool next_record(const hth_api_parse *parse, size_t *at, hth_response_record *out)
{
    const hth_api_past *past = parse->past;

    if (!past || !hth_response_record_read(past->bytes + *at, past->n_bytes - *at, out))
        return false;
    *at += out->n_bytes;
    return true;
}

/* Count n more bytes of the request; false, with the error filled, if there are too many. */
static bool add_bytes(hth_api_parse *parse, const char *param, size_t n)
{
    const size_t n_max = parse->limits->body_bytes_max;

    if (parse->n_bytes > n_max || n > n_max - parse->n_bytes) {
        hth_api_fail(parse->error, HTH_API_TOO_LARGE, param,
                     "the request has more than %zu bytes, counting each item as often as it is named; name fewer "
                     "items (the limit is limits.body_bytes_max, as for a body)",
                     n_max);
        return false;
    }
    parse->n_bytes += n;
    return true;
}

/* The length of value as text; 0 for NULL. */
static size_t bytes_of(const json_t *value)
{
    return value ? json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY) : 0;
}

static hth_response_item *items_of(hth_api_parse *parse, const hth_response_record *record)
{
    hth_response_item *items = hth_api_allocate(parse, record->n_items, sizeof(*items));

    if (items)
        hth_response_record_items(record, items);
    return items;
}

static json_t *output_of(const hth_api_parse *parse, const hth_response_record *record)
{
    json_t *response = load(parse, record->response, record->n_response);
    json_t *output = json_incref(json_object_get(response, "output"));

    json_decref(response);
    return output;
}

/* All items up to the end of that response. */
static json_t *all_of(hth_api_parse *parse, const hth_response_record *record)
{
    hth_response_item *items = items_of(parse, record);
    json_t *all = json_array(), *output;
    bool is_good = true;

    for (size_t i = 0;
         items && is_good && i < record->n_items && add_bytes(parse, "previous_response_id", items[i].n_text); i++)
        is_good = json_array_append_new(all, load(parse, items[i].text, items[i].n_text)) == 0;
    output = is_good ? output_of(parse, record) : NULL;
    (void)add_bytes(parse, "previous_response_id", bytes_of(output)); /* the error is filled */
    if (!json_is_array(output) || json_array_extend(all, output))
        hth_api_fail(parse->error, HTH_API_INTERNAL, "previous_response_id",
                     "the response that 'previous_response_id' names cannot be read any more; send its items");
    json_decref(output);
    return all;
}

static bool is_text(const char *text, size_t n, const char *wanted)
{
    return strlen(wanted) == n && memcmp(text, wanted, n) == 0;
}

/* All items of the response that a request continues: its input, then its output. NULL with the error. */
static json_t *past_items(hth_api_parse *parse, const char *id)
{
    hth_response_record record;
    size_t at = 0;

    while (next_record(parse, &at, &record))
        if (is_text(record.id, record.n_id, id))
            return all_of(parse, &record);
    hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "previous_response_id",
                 "'previous_response_id' is '%.80s', which is not kept here (any more) for this key; send the "
                 "conversation's items as 'input'",
                 id);
    return NULL;
}

/* ---- items that are only referenced ---- */

/* By id; equal ids in the order of the records. */
static int compare(const void *a, const void *b)
{
    const past_item *one = a, *other = b;
    int order;

    if (one->record.n_id != other->record.n_id)
        return one->record.n_id < other->record.n_id ? -1 : 1;
    order = memcmp(one->record.id, other->record.id, one->record.n_id);
    return order ? order : one->at < other->at ? -1 : one->at > other->at;
}

static void add(past_index *index, const hth_response_item *record, json_t *value)
{
    index->items[index->n] = (past_item){ .record = *record, .value = value, .at = index->n };
    index->n++;
}

static void add_record(hth_api_parse *parse, past_index *index, const hth_response_record *record, json_t *output)
{
    hth_response_item *items = items_of(parse, record);
    json_t *value;
    size_t i;

    for (size_t k = 0; items && k < record->n_items; k++)
        add(index, &items[k], NULL);
    json_array_foreach(output, i, value)
    {
        const char *id = json_string_value(json_object_get(value, "id"));

        if (id)
            add(index, &(hth_response_item){ .id = id, .n_id = strlen(id), .n_text = bytes_of(value) }, value);
    }
}

/* Each record is read once, however many of its items are referenced. If out of memory, no item is found. */
static void read_records(hth_api_parse *parse, past_index *index)
{
    hth_response_record record;
    size_t n = 0, i = 0;

    index->is_read = true;
    index->values = json_array();
    for (size_t at = 0; next_record(parse, &at, &record);) {
        json_t *output = output_of(parse, &record);

        n += record.n_items + json_array_size(output);
        if (json_array_append_new(index->values, output ? output : json_null()))
            return;
    }
    index->items = n > 0 ? hth_api_allocate(parse, n, sizeof(*index->items)) : NULL;
    for (size_t at = 0; index->items && next_record(parse, &at, &record);)
        add_record(parse, index, &record, json_array_get(index->values, i++));
    if (index->items && index->n > 1)
        qsort(index->items, index->n, sizeof(*index->items), compare);
}

/* The value of an item; NULL if its text is not JSON. */
static json_t *value_of(hth_api_parse *parse, past_index *index, past_item *item)
{
    json_t *value;

    if (!item->value && item->record.text) {
        value = load(parse, item->record.text, item->record.n_text);
        item->record.text = NULL;
        if (json_array_append_new(index->values, value) == 0)
            item->value = value;
    }
    return item->value;
}

/*
 * The first item with this id that can be read, a new reference; NULL if there is none or, with the error filled, no
 * room for it.
 */
static json_t *past_find(hth_api_parse *parse, past_index *index, const char *id)
{
    const past_item wanted = { .record = { .id = id, .n_id = strlen(id) } }; /* before or equal to all items with it */
    size_t low = 0, high;

    if (!index->is_read)
        read_records(parse, index);
    for (high = index->n; low < high;) { /* count the items before it */
        size_t middle = low + (high - low) / 2;

        if (compare(&index->items[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < index->n && is_text(index->items[low].record.id, index->items[low].record.n_id, id); low++) {
        json_t *value = value_of(parse, index, &index->items[low]);

        if (value)
            return add_bytes(parse, "input", index->items[low].record.n_text) ? json_incref(value) : NULL;
    }
    return NULL;
}

static void past_index_deinit(past_index *index)
{
    json_decref(index->values);
}

/*
 * ---- the items of an input as turns of a conversation ----
 *
 * The reasoning, the message and the calls of one reply come as several items. They become one turn again, so that the
 * prompt has the same prefix as when the reply was cached. A turn ends where another role follows, or where an item
 * cannot belong to it: reasoning after a message, a message after a call.
 *
 * Items that only OpenAI's own servers understand (searches, images, programs) are left out with a note.
 */

/* The conversation while it grows; memory for one turn per item is allocated. */
typedef struct growing_turns {
    hearth_chat_turn *turns;
    size_t n;
    bool is_open;             /* the last turn is the assistant's, and the assistant's next item belongs to it */
    hth_api_joined reasoning; /* of that turn */
} growing_turns;

/* ---- texts ---- */

/*
 * Read a string, or an array of parts, into turn; an empty text if the field is absent. Returns the number of readable
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
    turn->content = turn->n_parts == 0 ? "" : NULL; /* "": only reasoning */
    if (turn->n_parts == 1) { /* the same prompt as for one text, even if a template supports parts */
        turn->content = turn->parts[0];
        turn->parts = NULL;
        turn->n_parts = 0;
    }
    return n_readable;
}

/* ---- an assistant's items ---- */

/* The turn of the assistant that an item belongs to. A text does not belong behind a message or a call. */
static hearth_chat_turn *open_turn(growing_turns *turns, bool is_text)
{
    const hearth_chat_turn *last = turns->is_open ? &turns->turns[turns->n - 1] : NULL;

    if (!last || (is_text && (last->content || last->n_parts > 0 || last->n_calls > 0))) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there is room for a turn of each item */
        turns->turns[turns->n++].role = "assistant";
        turns->is_open = true;
        turns->reasoning = (hth_api_joined){ .text = NULL };
    }
    return &turns->turns[turns->n - 1];
}

static void add_call(hth_api_parse *parse, growing_turns *turns, const hearth_chat_call *call)
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

/* The name of a tool for the model: the namespace and the name as one. */
static const char *responses_offered(hth_api_parse *parse, const char *name_space, const char *name)
{
    size_t n = name_space ? strlen(name_space) : 0;
    bool is_ended = n >= 2 && strcmp(name_space + n - 2, "__") == 0;

    return n > 0 ? hth_api_join(parse, name_space, is_ended ? "" : "__", name) : name;
}

/* The members that both kinds of call share. The name becomes the model's. */
static void parse_call_head(hth_api_parse *parse, const hth_fields *fields, hearth_chat_call *call)
{
    const char *name_space = NULL;

    hth_fields_require(fields, "name");
    hth_fields_string(fields, "id", HTH_API_NAME_BYTES_MAX, &call->id);
    hth_fields_string(fields, "call_id", HTH_API_NAME_BYTES_MAX, &call->id);
    hth_fields_string(fields, "name", HTH_API_NAME_BYTES_MAX, &call->name);
    hth_fields_string(fields, "namespace", HTH_API_NAME_BYTES_MAX, &name_space);
    if (call->name)
        call->name = hth_api_offered_name(parse, responses_offered(parse, name_space, call->name));
}

static void parse_call(hth_api_parse *parse, const hth_fields *fields, growing_turns *turns)
{
    hearth_chat_call call = { .struct_size = sizeof(hearth_chat_call), .arguments = "" };

    hth_fields_rest(fields, HTH_NAMES("type", "id", "call_id", "name", "namespace", "arguments", "status"));
    parse_call_head(parse, fields, &call);
    hth_fields_string(fields, "arguments", HTH_API_TEXT_BYTES_MAX, &call.arguments);
    if (strspn(call.arguments, " \t\r\n") == strlen(call.arguments))
        call.arguments = "{}";
    if (parse->error->kind == HTH_API_NO_ERROR)
        add_call(parse, turns, &call);
}

/* A call of a tool whose input is text, as a call of the function that represents it. */
static void parse_custom_call(hth_api_parse *parse, const hth_fields *fields, growing_turns *turns)
{
    const char *input = "";
    hearth_chat_call call = { .struct_size = sizeof(hearth_chat_call), .name = NULL };
    json_t *arguments;

    hth_fields_rest(fields, HTH_NAMES("type", "id", "call_id", "name", "namespace", "input", "status"));
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
    (void)parse_texts(parse, fields, name, &texts); /* parts that are left out are noted */
    if (texts.content && *texts.content)
        return texts.content;
    for (size_t i = 0; i < texts.n_parts && parse->error->kind == HTH_API_NO_ERROR; i++)
        hth_api_joined_add(parse, &all, texts.parts[i]);
    return all.text;
}

/* The reasoning of a reply: from content, from this server's encrypted_content, or from a summary. */
static void parse_reasoning_item(hth_api_parse *parse, const hth_fields *fields, growing_turns *turns)
{
    static const char ours[] = HTH_API_RESPONSES_REASONING;
    const char *text = joined(parse, fields, "content"), *encrypted = NULL;
    hearth_chat_turn *turn;

    hth_fields_rest(fields, HTH_NAMES("type", "id", "summary", "content", "encrypted_content", "status"));
    hth_fields_string(fields, "encrypted_content", HTH_API_TEXT_BYTES_MAX, &encrypted);
    if (!text && encrypted && strncmp(encrypted, ours, sizeof(ours) - 1) == 0)
        text = encrypted + sizeof(ours) - 1;
    if (!text)
        text = joined(parse, fields, "summary");
    if (!text || parse->error->kind != HTH_API_NO_ERROR)
        return;
    turn = open_turn(turns, true);
    hth_api_joined_add(parse, &turns->reasoning, text);
    turn->reasoning = turns->reasoning.text;
}

/* ---- items ---- */

/* is_question: it is the last item, which the reply answers. */
static void parse_message(hth_api_parse *parse, const hth_fields *fields, bool is_question, growing_turns *turns)
{
    hearth_chat_turn turn = { .struct_size = sizeof(hearth_chat_turn), .role = NULL }, *into;

    hth_fields_rest(fields, HTH_NAMES("type", "id", "role", "content", "status", "phase", "name"));
    turn.role = hth_api_parse_role(fields, HTH_NAMES("system", "developer", "user", "assistant"));
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
    into = open_turn(turns, true);
    into->content = turn.content;
    into->parts = turn.parts;
    into->n_parts = turn.n_parts;
    into->name = turn.name;
}

static void parse_output(hth_api_parse *parse, const hth_fields *fields, growing_turns *turns)
{
    hearth_chat_turn turn = { .struct_size = sizeof(hearth_chat_turn), .role = "tool" };

    hth_fields_rest(fields, HTH_NAMES("type", "id", "call_id", "output", "status", "name"));
    turn.call_id = hth_fields_required(fields, "call_id", HTH_API_NAME_BYTES_MAX);
    hth_fields_string(fields, "name", HTH_API_NAME_BYTES_MAX, &turn.name);
    (void)parse_texts(parse, fields, "output", &turn); /* as above */
    if (parse->error->kind != HTH_API_NO_ERROR)
        return;
    turns->turns[turns->n++] = turn;
    turns->is_open = false;
}

static void parse_item(hth_api_parse *parse, const hth_fields *fields, bool is_last, growing_turns *turns)
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
        parse_reasoning_item(parse, fields, turns);
    else if (strcmp(type, HTH_API_RESPONSES_MORE_TOOLS) != 0) /* its tools are read together with the others */
        hth_fields_note(fields, type);
}

/* Append the items of an array; name is its field, for errors. */
static void parse_items(hth_api_parse *parse, const char *name, json_t *array, growing_turns *turns)
{
    hth_fields fields;

    for (size_t i = 0; hth_fields_item(&parse->body, name, array, i, &fields); i++)
        parse_item(parse, &fields, i + 1 == json_array_size(array), turns);
}

/*
 * ---- the tools of a request, and the choice among them ----
 *
 * The model receives one list of functions. A function of a namespace has the namespace before its name. A tool whose
 * input is text is a function with one argument. Tools that only OpenAI's own servers run are left out with a note,
 * because the model must not call a tool that returns no result.
 */

/* The lists while they grow; memory for all tools that count_tools counted is allocated. */
typedef struct growing_tools {
    hearth_chat_tool *offered;     /* [n_max] */
    hth_api_responses_tool *names; /* [n_max] */
    size_t n, n_max;
    bool may_repeat; /* a repeated tool is skipped and not refused */
} growing_tools;

/* ---- tools ---- */

/*
 * Describe a tool whose input is text as a function with one string argument. A grammar for the input is added to the
 * description as text.
 */
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
    hearth_chat_tool *tool;
    hth_api_responses_tool *names;
    char path[HTH_PATH_BYTES];
    json_t *parameters;

    if (tools->n == tools->n_max) { /* a guard, in case counting and reading ever differ */
        hth_fields_refuse(&parse->body, "tools", "has more than the %zu tools that were counted", tools->n_max);
        return;
    }
    tool = &tools->offered[tools->n];
    names = &tools->names[tools->n];
    hth_fields_rest(fields, HTH_NAMES("type", "name", "description", "parameters", "strict", "format"));
    names->name = hth_fields_required(fields, "name", HTH_API_NAME_BYTES_MAX);
    if (!names->name)
        return;
    names->name_space = name_space;
    names->is_custom = is_custom;
    tool->name = responses_offered(parse, name_space, names->name);
    if (tools->may_repeat && is_offered(tools, hth_api_offered_name(parse, tool->name)))
        return;
    hth_api_check_tool_name(parse, fields, tools->offered, tools->n);
    names->offered = tool->name;
    hth_fields_string(fields, "description", HTH_API_TEXT_BYTES_MAX, &tool->description);
    hth_fields_bool(fields, "strict", NULL); /* arguments follow the schema in any case */
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
    json_t *array = hth_fields_array(fields, "tools", HTH_TOOLS_MAX);
    const char *name;
    hth_fields inside;

    hth_fields_rest(fields, HTH_NAMES("type", "name", "description", "tools"));
    name = hth_fields_required(fields, "name", HTH_API_NAME_BYTES_MAX);
    for (size_t i = 0; hth_fields_item(fields, "tools", array, i, &inside); i++)
        parse_tool(parse, &inside, name, tools);
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

/* The maximum number of tools, including those in namespaces. Only namespaces have a nested array 'tools'. */
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

/* Read the field of that name, a word that says which tools may be called. */
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
        hth_fields_refuse(fields, name, "is '%.40s'; it must be none, auto, required, or name a tool", word);
    if (conversation->tool_choice == HEARTH_TOOL_REQUIRED && conversation->n_tools == 0)
        hth_fields_refuse(fields, name, "is 'required', but there are no 'tools' that can be called here; give some");
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
    name = hth_fields_required(fields, "name", HTH_API_NAME_BYTES_MAX);
    if (parse->error->kind != HTH_API_NO_ERROR || !name)
        return;
    names = json_pack("[O]", fields->object);
    narrow(parse, responses, names);
    json_decref(names);
    conversation->tool_choice = HEARTH_TOOL_REQUIRED;
    if (conversation->n_tools == 0)
        hth_fields_refuse(&parse->body, "tool_choice",
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

/* The tools that an input item adds (Codex discovers tools while it runs); NULL: none. */
static json_t *added_tools(const json_t *item)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    json_t *tools = json_object_get(item, "tools");

    return type && strcmp(type, HTH_API_RESPONSES_MORE_TOOLS) == 0 && json_is_array(tools) ? tools : NULL;
}

static void parse_tools(hth_api_parse *parse, const json_t *array, growing_tools *tools)
{
    hth_fields fields;

    for (size_t i = 0; tools->names && hth_fields_item(&parse->body, "tools", array, i, &fields); i++)
        parse_tool(parse, &fields, NULL, tools);
}

/* Read tools, tool_choice and parallel_tool_calls. */
static void parse_responses_tools(hth_api_parse *parse, hth_api_responses *responses)
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
        hth_fields_refuse(&parse->body, "tools", "has %zu tools; at most %d are allowed", n, HTH_TOOLS_MAX);
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

/* ---- the conversation ---- */

/* The item itself, or the earlier item that it names, as a new reference; NULL with the error. */
static json_t *item_meant(hth_api_parse *parse, past_index *past, size_t i, json_t *item)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    const char *id = json_string_value(json_object_get(item, "id"));
    bool is_reference = type ? strcmp(type, "item_reference") == 0 : id && json_object_size(item) == 1;
    char path[HTH_PATH_BYTES];
    json_t *found;

    if (!is_reference)
        return json_incref(item);
    (void)snprintf(path, sizeof(path), "input[%zu].id", i);
    found = id ? past_find(parse, past, id) : NULL;
    if (!found)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, path,
                     "'%s' is '%.80s', which is no item that is kept here (any more) for this key; send the item", path,
                     id ? id : "");
    return found;
}

/*
 * The input as a new array of items, in which references are replaced by the items themselves. n_before items come
 * before it. Fills the error.
 */
static json_t *read_input(hth_api_parse *parse, size_t n_before)
{
    json_t *input = hth_fields_any(&parse->body, "input"), *items = json_array(), *item;
    past_index past = { .is_read = false };
    size_t i, n;

    if (input && !json_is_string(input) && !json_is_array(input))
        hth_fields_wrong_type(&parse->body, "input", "a text or an array of items", input);
    if (json_is_string(input))
        /* if out of memory, the input is empty, which is refused */
        (void)json_array_append_new(items, json_pack("{s:s, s:s, s:[{s:s, s:O}]}", "type", "message", "role", "user",
                                                     "content", "type", "input_text", "text", input));
    n = n_before + (json_is_string(input) ? 1 : json_array_size(input));
    if (n > parse->limits->messages_max) /* before any item is looked up */
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "input",
                     "the conversation has %zu items; at most %u are allowed", n, parse->limits->messages_max);
    json_array_foreach(input, i, item)
    {
        if (parse->error->kind == HTH_API_NO_ERROR)
            (void)json_array_append_new(items, item_meant(parse, &past, i, item)); /* NULL if the error is filled */
    }
    past_index_deinit(&past);
    return items;
}

/* Store the items of the request in their stored form: each has a type and an id. */
static void keep_items(hth_api_parse *parse, const json_t *before, const json_t *items)
{
    json_t *kept = json_copy((json_t *)before), *item;
    size_t i;

    if (!kept)
        kept = json_array();
    json_array_foreach(items, i, item)
    {
        json_t *copy = json_copy(item);
        char id[32];

        (void)snprintf(id, sizeof(id), "item_%zu", json_array_size(kept)); /* fits */
        if (!json_object_get(copy, "type"))
            json_object_set_new(copy, "type", json_string("message"));
        if (!json_is_string(json_object_get(copy, "id")))
            json_object_set_new(copy, "id", json_string(id));
        json_array_append_new(kept, copy);
    }
    parse->request->items = kept;
}

static void parse_input(hth_api_parse *parse, hth_api_responses *responses)
{
    hearth_conversation *conversation = &parse->request->conversation;
    growing_turns turns = { .n = 0 };
    const char *instructions = NULL, *previous = NULL;
    json_t *before = NULL, *items;

    hth_fields_string(&parse->body, "instructions", HTH_API_TEXT_BYTES_MAX, &instructions);
    hth_fields_string(&parse->body, "previous_response_id", HTH_API_NAME_BYTES_MAX, &previous);
    responses->is_kept = true;
    hth_fields_bool(&parse->body, "store", &responses->is_kept);
    if (previous && parse->error->kind == HTH_API_NO_ERROR)
        before = past_items(parse, previous);
    items = read_input(parse, json_array_size(before));
    if (parse->error->kind == HTH_API_NO_ERROR)
        turns.turns =
            hth_api_allocate_structs(parse, json_array_size(before) + json_array_size(items) + 1, sizeof(*turns.turns));
    if (turns.turns) {
        if (instructions && *instructions)
            turns.turns[turns.n++] = (hearth_chat_turn){ .struct_size = sizeof(hearth_chat_turn),
                                                         .role = "system",
                                                         .content = instructions };
        parse_items(parse, "previous_response_id", before, &turns);
        parse_items(parse, "input", items, &turns);
        if (turns.n == 0)
            hth_api_fail(parse->error, hth_fields_has(&parse->body, "input") ? HTH_API_INVALID_VALUE : HTH_API_MISSING,
                         "input",
                         hth_fields_has(&parse->body, "input") ? "'input' has no message; give at least one"
                                                               : "'input' is missing");
        keep_items(parse, before, items); /* the turns borrow from the items */
        conversation->turns = turns.turns;
        conversation->n_turns = turns.n;
    }
    json_decref(before);
    json_decref(items);
}

/* ---- how to answer ---- */

static void parse_text(hth_api_parse *parse)
{
    hth_fields fields, format;
    int type;

    (void)hth_fields_enter(&parse->body, "text", &fields); /* if absent, there is no format */
    hth_fields_rest(&fields, HTH_NAMES("format", "verbosity"));
    hth_fields_pass_over(&fields, "verbosity");
    if (!hth_fields_enter(&fields, "format", &format))
        return;
    hth_fields_rest(&format, HTH_NAMES("type", "name", "schema", "strict", "description"));
    hth_fields_require(&format, "type");
    type = hth_fields_word(&format, "type", HTH_NAMES("text", "json_object", "json_schema"));
    hth_fields_string(&format, "name", HTH_API_NAME_BYTES_MAX, NULL); /* some models read it */
    hth_fields_bool(&format, "strict", NULL);                         /* the reply follows the schema in any case */
    if (type <= 0)
        return;
    parse->request->conversation.json_schema = HTH_API_ANY_OBJECT;
    if (type == 1)
        return;
    hth_fields_require(&format, "schema");
    parse->request->conversation.json_schema = hth_api_parse_schema(parse, &format, "schema");
}

static void parse_include(hth_api_parse *parse, hth_api_responses *responses)
{
    json_t *array = hth_fields_array(&parse->body, "include", INCLUDES_MAX);

    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *word = json_string_value(json_array_get(array, i));

        if (!word)
            hth_fields_wrong_type(&parse->body, "include", "an array of texts", json_array_get(array, i));
        else if (strcmp(word, "reasoning.encrypted_content") == 0)
            responses->has_encrypted = true;
        else if (strcmp(word, "message.output_text.logprobs") == 0)
            responses->wants_logprobs = true;
        else
            hth_api_note(parse->notes, "include"); /* for tools that this server does not run */
    }
}

static void parse_reasoning(hth_api_parse *parse, hth_api_responses *responses)
{
    const json_t *reasoning = hth_fields_any(&parse->body, "reasoning");
    const json_t *summary = json_object_get(reasoning, "summary");

    if (!json_is_string(summary))
        summary = json_object_get(reasoning, "generate_summary"); /* the older name */
    responses->has_summary = json_is_string(summary) && strcmp(json_string_value(summary), "none") != 0;
    hth_api_parse_thinking(parse);
}

/* The reply repeats these fields, so they must have their types. */
static void check_given_back(hth_api_parse *parse)
{
    const json_t *metadata = hth_fields_object(&parse->body, "metadata");
    const char *text = NULL;

    if (json_object_size(metadata) > METADATA_MAX)
        hth_fields_refuse(&parse->body, "metadata", "has %zu members; at most %d are kept", json_object_size(metadata),
                          METADATA_MAX);
    hth_fields_string(&parse->body, "truncation", HTH_API_NAME_BYTES_MAX, &text);
    if (text && strcmp(text, "disabled") != 0) /* shortening changes the conversation: the client must decide */
        hth_fields_pass_over(&parse->body, "truncation");
}

void hth_api_parse_responses(hth_api_parse *parse)
{
    hth_api_responses *responses = hth_api_allocate(parse, 1, sizeof(*responses));
    hearth_request *options = &parse->request->options;
    json_int_t n_tokens = options->n_predict;

    if (!responses)
        return;
    parse->request->is_chat = true;
    parse->request->responses = responses;
    hth_fields_unsupported(&parse->body, HTH_NAMES("conversation", "prompt"));
    hth_fields_rest(&parse->body,
                    HTH_NAMES(HTH_API_OPENAI_FIELDS, HTH_API_THINKING_FIELDS, "input", "instructions",
                              "max_output_tokens", "tools", "tool_choice", "parallel_tool_calls", "text", "include",
                              "top_logprobs", "metadata", "truncation", /* accepted, without effect */ "user", "store",
                              "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
                              "prompt_cache_options", "client_metadata", "max_tool_calls", "background",
                              "previous_response_id"));
    hth_fields_bool(&parse->body, "background", &responses->in_background);
    parse_input(parse, responses);
    hth_api_parse_openai_common(parse);
    if (options->n != 1) { /* a request has one response */
        hth_fields_pass_over(&parse->body, "n");
        options->n = 1;
    }
    hth_fields_integer(&parse->body, "max_output_tokens", 1, INT32_MAX, &n_tokens);
    hth_api_set_length(parse, n_tokens);
    parse_responses_tools(parse, responses);
    parse_text(parse);
    parse_include(parse, responses);
    parse_reasoning(parse, responses);
    hth_fields_u32(&parse->body, "top_logprobs", 0, 20, &options->n_top_logprobs);
    options->logprobs = responses->wants_logprobs || options->n_top_logprobs > 0;
    check_given_back(parse);
    if (responses->in_background && !responses->is_kept)
        hth_fields_refuse(&parse->body, "background",
                          "is true and 'store' is false, so the response could not be fetched; set 'store' to true");
}

/* ---- for replies ---- */

const hth_api_responses_tool *hth_api_responses_tool_find(const hth_api_responses *responses, const char *offered)
{
    for (size_t i = 0; i < responses->n_tools; i++)
        if (strcmp(responses->tools[i].offered, offered) == 0)
            return &responses->tools[i];
    return NULL;
}
