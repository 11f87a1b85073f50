/*
 * responses_request.c - /v1/responses and /v1/responses/input_tokens
 *
 *   1. the conversation: instructions, earlier responses (responses_past.c), the items of the input (responses_items.c)
 *   2. the tools, each with a name for the model and a name for the client (responses_tools.c)
 *   3. the form of the answer: format, reasoning, length, sampling
 */
#include "dialects/responses_inside.h"
#include "dialects/kinds.h"

#include <stdio.h>
#include <string.h>

enum {
    INCLUDES_MAX = 64,
    METADATA_MAX = 1024, /* members; clients send at most 16 */
};

/* ---- the conversation ---- */

/* The item that a plain text means. */
static json_t *item_of_text(const json_t *text)
{
    return json_pack("{s:s, s:s, s:[{s:s, s:O}]}", "type", "message", "role", "user", "content", "type", "input_text",
                     "text", text);
}

/* The item itself, or the earlier item that it names, as a new reference; NULL with the error. */
static json_t *item_meant(hth_api_parse *parse, hth_api_past_index *past, size_t i, json_t *item)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    const char *id = json_string_value(json_object_get(item, "id"));
    bool is_reference = type ? strcmp(type, "item_reference") == 0 : id && json_object_size(item) == 1;
    char path[HTH_PATH_BYTES];
    json_t *found;

    if (!is_reference)
        return json_incref(item);
    (void)snprintf(path, sizeof(path), "input[%zu].id", i);
    found = id ? hth_api_past_find(parse, past, id) : NULL;
    if (!found)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, path,
                     "'%s' is '%.80s', which is no item that is kept here (any more) for this key; send the item", path,
                     id ? id : "");
    return found;
}

static void check_count(hth_api_parse *parse, size_t n)
{
    if (n > parse->limits->messages_max)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "input",
                     "the conversation has %zu items; at most %u are allowed", n, parse->limits->messages_max);
}

/*
 * The input as a new array of items, in which named items are replaced by the items themselves. n_before items come
 * before it. Errors are filled.
 */
static json_t *read_input(hth_api_parse *parse, size_t n_before)
{
    json_t *input = hth_fields_any(&parse->body, "input"), *items = json_array(), *item;
    hth_api_past_index past = { .n = 0 };
    size_t i;

    if (input && !json_is_string(input) && !json_is_array(input))
        hth_fields_wrong_type(&parse->body, "input", "a text or an array of items", input);
    if (json_is_string(input))
        /* without memory the input is empty, which is refused */
        (void)json_array_append_new(items, item_of_text(input));
    /* Checked before any item is looked for. */
    check_count(parse, n_before + (json_is_string(input) ? 1 : json_array_size(input)));
    json_array_foreach(input, i, item)
    {
        if (parse->error->kind == HTH_API_NO_ERROR)
            (void)json_array_append_new(items, item_meant(parse, &past, i, item)); /* NULL comes with the error */
    }
    hth_api_past_index_deinit(&past);
    return items;
}

/* Store the items of the request in the form in which they are kept: each has a type and an id. */
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
    hth_api_turns turns = { .n = 0 };
    const char *instructions = NULL, *previous = NULL;
    json_t *before = NULL, *items;

    hth_fields_string(&parse->body, "instructions", HTH_API_TEXT_BYTES_MAX, &instructions);
    hth_fields_string(&parse->body, "previous_response_id", HTH_API_NAME_BYTES_MAX, &previous);
    responses->is_kept = true;
    hth_fields_bool(&parse->body, "store", &responses->is_kept);
    if (previous && parse->error->kind == HTH_API_NO_ERROR)
        before = hth_api_past_items(parse, previous);
    items = read_input(parse, json_array_size(before));
    if (parse->error->kind == HTH_API_NO_ERROR)
        turns.turns =
            hth_api_allocate_structs(parse, json_array_size(before) + json_array_size(items) + 1, sizeof(*turns.turns));
    if (turns.turns) {
        if (instructions && *instructions)
            hth_api_turns_add(&turns, "system", instructions);
        hth_api_parse_items(parse, "previous_response_id", before, &turns);
        hth_api_parse_items(parse, "input", items, &turns);
        if (turns.n == 0)
            hth_api_fail(parse->error, hth_fields_has(&parse->body, "input") ? HTH_API_INVALID_VALUE : HTH_API_MISSING,
                         "input",
                         hth_fields_has(&parse->body, "input") ? "'input' has no message; give at least one"
                                                               : "'input' is missing");
        keep_items(parse, before, items); /* the turns borrow from them */
        conversation->turns = turns.turns;
        conversation->n_turns = turns.n;
    }
    json_decref(before);
    json_decref(items);
}

/* ---- how to answer ---- */

static void parse_text(hth_api_parse *parse)
{
    static const char *const known[] = { "format", "verbosity", NULL };
    static const char *const known_inside[] = { "type", "name", "schema", "strict", "description", NULL };
    static const char *const types[] = { "text", "json_object", "json_schema", NULL };
    const char *name = NULL;
    hth_fields fields, format;
    bool strict = false;
    int type;

    (void)hth_fields_enter(&parse->body, "text", &fields); /* without it there is no format */
    hth_fields_rest(&fields, known);
    hth_fields_pass_over(&fields, "verbosity");
    if (!hth_fields_enter(&fields, "format", &format))
        return;
    hth_fields_rest(&format, known_inside);
    hth_fields_require(&format, "type");
    type = hth_fields_word(&format, "type", types);
    hth_fields_string(&format, "name", HTH_API_NAME_BYTES_MAX, &name); /* some models read it */
    hth_fields_bool(&format, "strict", &strict);                       /* the reply follows the schema in any case */
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
            hth_api_note(parse->notes, "include"); /* of tools that this server does not run */
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

static void parse_logprobs(hth_api_parse *parse, const hth_api_responses *responses)
{
    hearth_request *options = &parse->request->options;

    hth_fields_u32(&parse->body, "top_logprobs", 0, 20, &options->n_top_logprobs);
    options->logprobs = responses->wants_logprobs || options->n_top_logprobs > 0;
}

static void parse_length(hth_api_parse *parse)
{
    json_int_t n = parse->request->options.n_predict;

    hth_fields_integer(&parse->body, "max_output_tokens", 1, INT32_MAX, &n);
    hth_api_set_length(parse, n);
}

/* The reply repeats these fields, so they must have their types. */
static void check_given_back(hth_api_parse *parse)
{
    const json_t *metadata = hth_fields_object(&parse->body, "metadata");
    const char *text = NULL;

    if (json_object_size(metadata) > METADATA_MAX)
        hth_fields_fail(&parse->body, HTH_API_INVALID_VALUE, "metadata", "has %zu members; at most %d are kept",
                        json_object_size(metadata), METADATA_MAX);
    hth_fields_string(&parse->body, "truncation", HTH_API_NAME_BYTES_MAX, &text);
    if (text && strcmp(text, "disabled") != 0) /* a shortened conversation is another one: the client must decide */
        hth_fields_pass_over(&parse->body, "truncation");
}

void hth_api_parse_responses(hth_api_parse *parse)
{
    static const char *const known[] = { HTH_API_OPENAI_FIELDS, HTH_API_THINKING_FIELDS, "input", "instructions",
                                         "max_output_tokens", "tools", "tool_choice", "parallel_tool_calls", "text",
                                         "include", "top_logprobs", "metadata", "truncation",
                                         /* accepted, without effect */
                                         "user", "store", "service_tier", "safety_identifier", "prompt_cache_key",
                                         "prompt_cache_retention", "prompt_cache_options", "client_metadata",
                                         "max_tool_calls", "background", "previous_response_id", NULL };
    static const char *const unsupported[] = { "conversation", "prompt", NULL };
    hth_api_responses *responses = hth_api_allocate(parse, 1, sizeof(*responses));

    if (!responses)
        return;
    parse->request->is_chat = true;
    parse->request->responses = responses;
    hth_fields_unsupported(&parse->body, unsupported);
    hth_fields_rest(&parse->body, known);
    hth_fields_bool(&parse->body, "background", &responses->in_background);
    parse_input(parse, responses);
    hth_api_parse_openai_common(parse);
    if (parse->request->options.n != 1) { /* a request has one response */
        hth_fields_pass_over(&parse->body, "n");
        parse->request->options.n = 1;
    }
    parse_length(parse);
    hth_api_parse_responses_tools(parse, responses);
    parse_text(parse);
    parse_include(parse, responses);
    parse_reasoning(parse, responses);
    parse_logprobs(parse, responses);
    check_given_back(parse);
    if (responses->in_background && !responses->is_kept)
        hth_fields_fail(&parse->body, HTH_API_INVALID_VALUE, "background",
                        "is true and 'store' is false, so nobody could ask for the response; set 'store' to true");
}
