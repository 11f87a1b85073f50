/*
 * openai_request.c - /v1/chat/completions, /apply-template, which accepts the same fields, and /v1/completions
 */
#include <string.h>

#include "api/parse.h"
#include "dialects/kinds.h"
#include "models/given.h"

/* ---- messages ---- */

/*
 * The arguments of a call as the text of a JSON object, which templates need. Small models sometimes write other text,
 * which becomes the member "arguments" of an object.
 */
static const char *parse_arguments(hth_api_parse *parse, const hth_fields *function)
{
    json_t *value = hth_fields_any(function, "arguments"), *object;
    const char *text = "";
    json_error_t problem;

    if (json_is_object(value))
        return hth_api_json_text(parse, value);
    hth_fields_string(function, "arguments", HTH_API_TEXT_BYTES_MAX, &text);
    if (strspn(text, " \t\r\n") == strlen(text))
        return "{}";
    object = json_loads(text, JSON_DECODE_INT_AS_REAL, &problem);
    if (!object) {
        object = hth_api_json_repaired(text, strlen(text), 0, parse->notes, &problem);
        if (json_is_object(object))
            text = hth_api_json_text(parse, object);
    }
    if (!json_is_object(object)) {
        json_t *wrapped = json_pack("{s:s}", "arguments", text);

        hth_fields_note(function, "arguments");
        text = wrapped ? hth_api_json_text(parse, wrapped) : "{}";
        json_decref(wrapped);
    }
    json_decref(object);
    return text;
}

static void parse_call(hth_api_parse *parse, const hth_fields *fields, hearth_chat_call *call)
{
    const char *type = "function";
    hth_fields function;

    hth_fields_rest(fields, HTH_NAMES("id", "type", "function", "index"));
    hth_fields_string(fields, "id", HTH_API_NAME_BYTES_MAX, &call->id);
    hth_fields_string(fields, "type", HTH_API_NAME_BYTES_MAX, &type);
    if (strcmp(type, "function") != 0)
        hth_fields_fail(fields, HTH_API_UNSUPPORTED, "type", "is '%.40s'; only calls of functions are supported here",
                        type);
    (void)hth_fields_enter_required(fields, "function", &function); /* a missing one is refused */
    hth_fields_rest(&function, HTH_NAMES("name", "arguments", "index"));
    call->name = hth_fields_required(&function, "name", HTH_API_NAME_BYTES_MAX);
    if (call->name)
        call->name = hth_api_offered_name(parse, call->name);
    call->arguments = parse_arguments(parse, &function);
}

void hth_api_parse_calls(hth_api_parse *parse, const hth_fields *fields, hearth_chat_turn *turn)
{
    json_t *array = hth_fields_array(fields, "tool_calls", HTH_CALLS_MAX);
    hearth_chat_call *calls;
    hth_fields call;

    if (!array)
        return;
    calls = hth_api_allocate_structs(parse, json_array_size(array), sizeof(*calls));
    for (size_t i = 0; calls && hth_fields_item(fields, "tool_calls", array, i, &call); i++)
        parse_call(parse, &call, &calls[i]);
    turn->calls = calls;
    turn->n_calls = calls ? json_array_size(array) : 0;
}

static void parse_message(hth_api_parse *parse, const hth_fields *fields, bool is_last, hearth_chat_turn *turn)
{
    hth_fields_rest(fields, HTH_NAMES("role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content",
                                      "reasoning", "refusal", "annotations", "audio"));
    turn->role = hth_api_parse_role(fields, HTH_NAMES("system", "developer", "user", "assistant", "tool", "function"));
    if (!turn->role)
        return;
    if (strcmp(turn->role, "function") == 0) /* the older name of a tool */
        turn->role = "tool";
    hth_fields_string(fields, "name", HTH_API_NAME_BYTES_MAX, &turn->name);
    if (strcmp(turn->role, "assistant") == 0) {
        hth_api_parse_calls(parse, fields, turn);
        if (json_is_string(hth_fields_any(fields, "reasoning")))
            /* the name in other servers */
            hth_fields_string(fields, "reasoning", HTH_API_TEXT_BYTES_MAX, &turn->reasoning);
        else
            hth_fields_pass_over(fields, "reasoning");
        hth_fields_string(fields, "reasoning_content", HTH_API_TEXT_BYTES_MAX, &turn->reasoning);
    }
    if (strcmp(turn->role, "tool") == 0)
        hth_fields_string(fields, "tool_call_id", HTH_API_NAME_BYTES_MAX, &turn->call_id);
    hth_api_parse_content(parse, fields, is_last && strcmp(turn->role, "user") == 0, turn);
}

/*
 * A last message of the assistant is the beginning of the reply, unless the client says that the message is complete
 * (vLLM's two fields). An empty message, or one that calls a tool, is not.
 */
static void parse_beginning(hth_api_parse *parse, const hearth_chat_turn *last)
{
    bool goes_on = strcmp(last->role, "assistant") == 0, begins = false;

    hth_fields_bool(&parse->body, "add_generation_prompt", &begins);
    if (begins)
        goes_on = false;
    hth_fields_bool(&parse->body, "continue_final_message", &goes_on);
    if (begins && goes_on)
        hth_fields_refuse(&parse->body, "continue_final_message",
                          "and 'add_generation_prompt' are both true; a reply goes on with the last message or begins "
                          "anew: leave one of them out");
    if (goes_on && strcmp(last->role, "assistant") != 0)
        hth_fields_refuse(&parse->body, "continue_final_message",
                          "is true, but the last message is not the assistant's; append one, or set it to false");
    parse->request->conversation.continue_last = goes_on && hth_api_begins_reply(last);
    /*
     * A prompt that gets no reply may end with its last message; otherwise the prompt needs the beginning of a reply.
     */
    parse->request->conversation.no_reply = parse->request->kind == HTH_API_APPLY_TEMPLATE && !begins &&
                                            !parse->request->conversation.continue_last &&
                                            hth_fields_has(&parse->body, "add_generation_prompt");
}

static void parse_messages(hth_api_parse *parse)
{
    json_t *array;
    hearth_chat_turn *turns;
    hth_fields fields;

    hth_fields_require(&parse->body, "messages");
    array = hth_fields_array(&parse->body, "messages", parse->limits->messages_max);
    if (!array)
        return;
    if (json_array_size(array) == 0)
        hth_fields_refuse(&parse->body, "messages", "is empty; give at least one message");
    turns = hth_api_allocate_structs(parse, json_array_size(array), sizeof(*turns));
    for (size_t i = 0; turns && hth_fields_item(&parse->body, "messages", array, i, &fields); i++)
        parse_message(parse, &fields, i + 1 == json_array_size(array), &turns[i]);
    parse->request->conversation.turns = turns;
    parse->request->conversation.n_turns = json_array_size(array);
    if (turns && parse->error->kind == HTH_API_NO_ERROR)
        parse_beginning(parse, &turns[json_array_size(array) - 1]);
}

/* ---- tools ---- */

/* Read the function of a tool, or of the older form 'functions'. */
static void parse_function(hth_api_parse *parse, const hth_fields *function, hearth_chat_tool *tools, size_t i)
{
    hearth_chat_tool *tool = &tools[i];
    json_t *parameters;

    hth_fields_rest(function, HTH_NAMES("name", "description", "parameters", "strict"));
    tool->name = hth_fields_required(function, "name", HTH_API_NAME_BYTES_MAX);
    hth_api_check_tool_name(parse, function, tools, i);
    hth_fields_string(function, "description", HTH_API_TEXT_BYTES_MAX, &tool->description);
    hth_fields_bool(function, "strict", NULL); /* arguments always follow the schema */
    parameters = hth_fields_object(function, "parameters");
    if (parameters)
        hth_api_tool_schema(parse, tool, parameters);
}

/* Read tool *n of the conversation. A tool that is not a function is left out. */
static void parse_tool(hth_api_parse *parse, const hth_fields *fields, hearth_chat_tool *tools, size_t *n)
{
    const char *type = "function";
    hth_fields function;

    hth_fields_string(fields, "type", HTH_API_NAME_BYTES_MAX, &type);
    if (strcmp(type, "function") != 0) {
        hth_fields_note(fields, type);
        return;
    }
    hth_fields_rest(fields, HTH_NAMES("type", "function", "cache_control"));
    (void)hth_fields_enter_required(fields, "function", &function); /* a missing one is refused */
    parse_function(parse, &function, tools, (*n)++);
}

/* Offer only the tool that must be called. */
static void choose_tool(hth_api_parse *parse, const char *name)
{
    if (!hth_api_choose_tool(parse, name))
        hth_fields_refuse(&parse->body, "tool_choice",
                          "names the tool '%.64s', which is not in 'tools'; name one of them", name);
}

/* Read the older form of tool_choice: auto, none, or {"name": ...}. */
static void parse_function_call(hth_api_parse *parse)
{
    json_t *choice = hth_fields_any(&parse->body, "function_call");
    const char *word = json_string_value(choice), *name = json_string_value(json_object_get(choice, "name"));

    if (name)
        choose_tool(parse, name);
    else if (word && strcmp(word, "none") == 0)
        parse->request->conversation.tool_choice = HEARTH_TOOL_NONE;
    else if (!word || strcmp(word, "auto") != 0)
        hth_fields_refuse(&parse->body, "function_call", "must be none, auto, or an object with a name");
}

static void parse_tool_choice(hth_api_parse *parse)
{
    hearth_conversation *conversation = &parse->request->conversation;
    json_t *choice = hth_fields_any(&parse->body, "tool_choice");
    const char *word = json_string_value(choice);
    const char *type = NULL, *name = NULL;
    hth_fields fields, function;

    if (!choice && hth_fields_has(&parse->body, "function_call")) {
        parse_function_call(parse);
        return;
    }
    if (!choice)
        return;
    if (word && hth_is_among(word, HTH_NAMES("auto", "none", "required"))) {
        conversation->tool_choice = *word == 'a' ? HEARTH_TOOL_AUTO
                                  : *word == 'n' ? HEARTH_TOOL_NONE
                                                 : HEARTH_TOOL_REQUIRED;
        if (conversation->tool_choice == HEARTH_TOOL_REQUIRED && conversation->n_tools == 0)
            hth_fields_refuse(&parse->body, "tool_choice", "is 'required', but there are no 'tools'; give some");
        return;
    }
    if (word) {
        hth_fields_refuse(&parse->body, "tool_choice",
                          "is '%.40s'; it must be none, auto, required, or name a function", word);
        return;
    }
    if (!json_is_object(choice)) {
        hth_fields_wrong_type(&parse->body, "tool_choice", "a text or an object", choice);
        return;
    }
    (void)hth_fields_enter(&parse->body, "tool_choice", &fields); /* cannot fail: it is an object */
    type = hth_fields_required(&fields, "type", HTH_API_NAME_BYTES_MAX);
    if (type && strcmp(type, "function") != 0)
        hth_fields_fail(&fields, HTH_API_UNSUPPORTED, "type", "is '%.40s'; only function is supported here", type);
    (void)hth_fields_enter_required(&fields, "function", &function); /* a missing one is refused */
    name = hth_fields_required(&function, "name", HTH_API_NAME_BYTES_MAX);
    if (name)
        choose_tool(parse, name);
}

void hth_api_parse_tools(hth_api_parse *parse)
{
    hearth_conversation *conversation = &parse->request->conversation;
    json_t *array = hth_fields_array(&parse->body, "tools", HTH_TOOLS_MAX);
    bool is_old = !array && hth_fields_has(&parse->body, "functions");
    const char *name = is_old ? "functions" : "tools";
    hearth_chat_tool *tools;
    hth_fields fields;
    size_t n = 0;

    if (is_old)
        array = hth_fields_array(&parse->body, name, HTH_TOOLS_MAX);
    if (array) {
        tools = hth_api_allocate_structs(parse, json_array_size(array), sizeof(*tools));
        for (size_t i = 0; tools && hth_fields_item(&parse->body, name, array, i, &fields); i++) {
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
    const char **json_schema = &parse->request->conversation.json_schema;
    hth_fields fields, inside;
    int type;

    if (!hth_fields_enter(&parse->body, "response_format", &fields))
        return;
    hth_fields_rest(&fields, HTH_NAMES("type", "json_schema", "schema"));
    hth_fields_require(&fields, "type");
    type = hth_fields_word(&fields, "type", HTH_NAMES("text", "json_object", "json_schema"));
    if (type <= 0)
        return;
    *json_schema = HTH_API_ANY_OBJECT;
    /* llama.cpp's form */
    if (hth_fields_has(&fields, "schema") && (type == 1 || !hth_fields_has(&fields, "json_schema"))) {
        *json_schema = hth_api_parse_schema(parse, &fields, "schema");
        return;
    }
    if (type == 1)
        return;
    (void)hth_fields_enter_required(&fields, "json_schema", &inside); /* a missing one is refused */
    hth_fields_rest(&inside, HTH_NAMES("name", "schema", "strict", "description"));
    hth_fields_string(&inside, "name", HTH_API_NAME_BYTES_MAX, NULL);
    hth_fields_string(&inside, "description", HTH_API_TEXT_BYTES_MAX, NULL);
    hth_fields_bool(&inside, "strict", NULL); /* replies always follow the schema */
    if (hth_fields_has(&inside, "schema"))
        *json_schema = hth_api_parse_schema(parse, &inside, "schema");
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
 * llama.cpp's fields for a reply with the model's raw text. One parser extracts both reasoning and calls, so reasoning
 * can only stay in the text if calls stay, too.
 */
static void parse_reply_form(hth_api_parse *parse)
{
    const hearth_conversation *conversation = &parse->request->conversation;
    int format;
    bool has_calls = conversation->n_tools > 0 && conversation->tool_choice != HEARTH_TOOL_NONE, parses_calls = true;

    format =
        hth_fields_word(&parse->body, "reasoning_format", HTH_NAMES("none", "auto", "deepseek", "deepseek-legacy"));
    hth_fields_bool(&parse->body, "parse_tool_calls", &parses_calls);
    parse->request->is_raw = format == 0 && (!has_calls || !parses_calls);
    if (parse->request->is_raw)
        return;
    if (format == 0 || format == 3)
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
            hth_fields_wrong_type(&parse->body, "modalities", "an array of texts", json_array_get(array, i));
        else if (strcmp(word, "text") != 0)
            hth_fields_pass_over(&parse->body, "modalities");
    }
}

/* The text that the reply probably contains: a draft of it. */
static void parse_prediction(hth_api_parse *parse)
{
    hearth_chat_turn turn = { .struct_size = sizeof(turn), .role = "user" };
    const char **texts;
    hth_fields fields;

    if (!hth_fields_enter(&parse->body, "prediction", &fields))
        return;
    hth_fields_rest(&fields, HTH_NAMES("type", "content"));
    hth_fields_require(&fields, "type");
    (void)hth_fields_word(&fields, "type", HTH_NAMES("content")); /* the only type */
    hth_api_parse_content(parse, &fields, false, &turn);
    if (turn.content) {
        texts = hth_api_allocate(parse, 1, sizeof(*texts));
        if (!texts)
            return;
        texts[0] = turn.content;
        turn.parts = texts;
        turn.n_parts = 1;
    }
    parse->request->prediction = turn.parts;
    parse->request->n_prediction = turn.n_parts;
}

void hth_api_parse_chat(hth_api_parse *parse)
{
    parse->request->is_chat = true;
    hth_fields_rest(&parse->body,
                    HTH_NAMES(HTH_API_OPENAI_FIELDS, HTH_API_THINKING_FIELDS, "messages", "max_completion_tokens",
                              "max_tokens", "n_predict", "logprobs", "top_logprobs", "tools", "tool_choice",
                              "functions", "function_call", "parallel_tool_calls", "response_format",
                              "reasoning_format", "parse_tool_calls", "modalities", "add_generation_prompt",
                              "continue_final_message", "prediction", /* accepted, without effect */ "user", "store",
                              "metadata", "service_tier", "safety_identifier", "prompt_cache_key",
                              "prompt_cache_retention", "prompt_cache_options", "verbosity", "moderation"));
    parse_messages(parse);
    hth_api_parse_openai_common(parse);
    parse_length(parse);
    parse_logprobs(parse);
    hth_api_parse_tools(parse);
    parse_response_format(parse);
    hth_api_parse_thinking(parse);
    parse_reply_form(parse);
    parse_modalities(parse);
    parse_prediction(parse);
}

/* ---- /v1/completions ---- */

void hth_api_parse_completion(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;
    json_int_t n_tokens = request->options.n_predict; /* OpenAI's default of 16 would truncate most replies */
    uint32_t best_of;

    hth_fields_rest(&parse->body, HTH_NAMES(HTH_API_OPENAI_FIELDS, "prompt", "max_tokens", "n_predict", "echo",
                                            "logprobs", "best_of", "user", "suffix"));
    hth_api_parse_openai_common(parse);
    hth_fields_bool(&parse->body, "echo", &request->echo);
    hth_fields_integer(&parse->body, "n_predict", -2, INT32_MAX, &n_tokens);
    hth_fields_integer(&parse->body, "max_tokens", -2, INT32_MAX, &n_tokens);
    hth_api_set_length(parse, n_tokens);
    request->options.echo = request->echo;
    request->options.logprobs = hth_fields_has(&parse->body, "logprobs");
    hth_fields_u32(&parse->body, "logprobs", 0, 5, &request->options.n_top_logprobs);
    request->options.prompt_logprobs = request->options.logprobs && request->echo;
    if (request->options.prompt_logprobs && (request->stream || request->options.n > 1))
        hth_fields_fail(
            &parse->body, HTH_API_UNSUPPORTED, "logprobs",
            "together with 'echo' is not supported in a stream, nor with 'n' above 1; leave one of them out");
    hth_fields_string(&parse->body, "suffix", HTH_API_TEXT_BYTES_MAX, &request->suffix);
    if (request->suffix && !*request->suffix)
        request->suffix = NULL;
    best_of = request->options.n;
    hth_fields_u32(&parse->body, "best_of", 1, HTH_API_REPLIES_MAX, &best_of);
    if (best_of != request->options.n)
        hth_fields_pass_over(&parse->body, "best_of");
    hth_api_parse_prompts(parse, /* mixed= */ false);
}
