/*
 * ollama_request.c - Ollama's /api/chat and /api/generate
 *
 * Both stream unless the client declines. A request without messages or prompt only loads the model. Tool results come
 * without the id of their call, but templates need ids, so calls and results are paired here. Fields that OpenAI's
 * chats share are read by the same functions.
 */
#include <stdio.h>
#include <string.h>

#include "api/parse.h"
#include "api/peek.h"
#include "dialects/kinds.h"

/* The fields that parse_ollama_common reads. */
#define API_OLLAMA_FIELDS                                                                                            \
    HTH_API_EXTRA_FIELDS, HTH_API_THINKING_FIELDS, "model", "stream", "format", "options", "keep_alive", "logprobs", \
        "top_logprobs", "truncate", "shift"
enum {
    CONTEXT_TOKENS_MAX = 1 << 24,
    IMAGES_MAX = 1024,
    DURATION_BYTES_MAX = 64,
};

/*
 * ---- the fields that Ollama's chats and completions share ----
 *
 * Sampling options are read as in other APIs. Options for loading a model have no effect: the server decides that, and
 * reloading for a request would lose the content of the context.
 */

/* ---- keep_alive ---- */

/* The front applies it (hth_api_peek_keep_alive). Here it is checked. Without a prompt, 0 gets a different response. */
static void parse_keep_alive(hth_api_parse *parse)
{
    json_t *value = hth_fields_any(&parse->body, "keep_alive");
    uint64_t ms = UINT64_MAX;

    if (!value)
        return;
    if (json_is_number(value))
        ms = json_number_value(value) != 0;
    else if (!json_is_string(value))
        hth_fields_wrong_type(&parse->body, "keep_alive", "a number of seconds or a duration such as \"5m\"", value);
    else if (json_string_length(value) > DURATION_BYTES_MAX || !hth_api_keep_alive_read(json_string_value(value), &ms))
        hth_fields_refuse(&parse->body, "keep_alive",
                          "is '%.40s'; it must be a number of seconds or a duration such as \"5m\"",
                          json_string_value(value));
    parse->request->is_unload = ms == 0;
}

/* ---- options ---- */

/* Options for loading a model. */
#define IDLE_FIELDS                                                                                        \
    "num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "numa", "low_vram", "f16_kv", \
        "logits_all", "vocab_only", "use_mmap", "use_mlock", "embedding_only", "penalize_newline"

static void parse_options(hth_api_parse *parse)
{
    hth_api_parse inside = *parse; /* the same request, with another object */
    json_int_t n = parse->request->options.n_predict;
    double tail_free = 1;

    if (!hth_fields_enter(&parse->body, "options", &inside.body))
        return;
    hth_fields_rest(&inside.body,
                    HTH_NAMES(HTH_API_SAMPLING_FIELDS, IDLE_FIELDS, "seed", "stop", "num_predict", "tfs_z"));
    hth_fields_pass_over_all(&inside.body, HTH_NAMES(IDLE_FIELDS));
    hth_fields_number(&inside.body, "tfs_z", -1e9, 1e9, &tail_free);
    if (tail_free < 1 && tail_free > 0) /* other values disable it */
        hth_fields_pass_over(&inside.body, "tfs_z");
    hth_api_parse_sampling(&inside, /* is_openai= */ false);
    hth_api_parse_stop(&inside, "stop");
    hth_fields_integer(&inside.body, "num_predict", -2, INT32_MAX, &n);
    hth_api_set_length(&inside, n);
}

/* Read "format": "json", or a JSON schema. */
static void parse_format(hth_api_parse *parse)
{
    json_t *format = hth_fields_any(&parse->body, "format");
    const char *word = json_string_value(format), *schema;

    if (!format || (word && !*word))
        return;
    schema =
        word && strcmp(word, "json") == 0 ? HTH_API_ANY_OBJECT : hth_api_parse_schema(parse, &parse->body, "format");
    if (parse->request->is_chat)
        parse->request->conversation.json_schema = schema;
    else
        parse->request->sampling.json_schema = schema;
}

static void parse_logprobs(hth_api_parse *parse)
{
    hearth_request *options = &parse->request->options;

    hth_fields_bool(&parse->body, "logprobs", &options->logprobs);
    hth_fields_u32(&parse->body, "top_logprobs", 0, 20, &options->n_top_logprobs);
    if (!options->logprobs)
        options->n_top_logprobs = 0;
}

/* Here a prompt that does not fit is an error, and a full context ends the reply, so these fields have no effect. */
static void parse_overflow(hth_api_parse *parse)
{
    static const char *const names[] = { "truncate", "shift" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        bool is_wanted = false;

        hth_fields_bool(&parse->body, names[i], &is_wanted);
        if (is_wanted)
            hth_fields_pass_over(&parse->body, names[i]);
    }
}

/* Call it after request->is_chat is set. */
static void parse_ollama_common(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;

    request->stream = true;
    hth_fields_bool(&parse->body, "stream", &request->stream);
    parse_options(parse);
    parse_format(parse);
    parse_logprobs(parse);
    parse_keep_alive(parse);
    parse_overflow(parse);
    hth_api_parse_thinking(parse);
    hth_api_parse_extras(parse);
}

/* ---- images ---- */

/* Refuse images in the message that the reply answers. */
static void refuse_images(const hth_fields *fields)
{
    if (json_array_size(hth_fields_array(fields, "images", IMAGES_MAX)) > 0)
        hth_fields_fail(fields, HTH_API_UNSUPPORTED, "images",
                        "has images, which this server does not read; it reads text");
}

/* Replace the images of an older message by short texts after its own text. */
static void replace_images(hth_api_parse *parse, const hth_fields *fields, hearth_chat_turn *turn)
{
    size_t n = json_array_size(hth_fields_array(fields, "images", IMAGES_MAX));
    const char **parts;

    if (n == 0 || !turn->content)
        return;
    parts = hth_api_allocate(parse, n + 1, sizeof(*parts));
    if (!parts)
        return;
    parts[0] = turn->content;
    for (size_t i = 1; i <= n; i++)
        parts[i] = hth_api_replaced_part(parse, fields, "images[].image");
    turn->content = NULL;
    turn->parts = parts;
    turn->n_parts = n + 1;
}

/* ---- messages ---- */

static void parse_message(hth_api_parse *parse, const hth_fields *fields, bool is_last, hearth_chat_turn *turn)
{
    hth_fields_rest(
        fields, HTH_NAMES("role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id", "name"));
    turn->role = hth_api_parse_role(fields, HTH_NAMES("system", "developer", "user", "assistant", "tool"));
    if (!turn->role)
        return;
    hth_fields_string(fields, "name", HTH_API_NAME_BYTES_MAX, &turn->name);
    if (strcmp(turn->role, "assistant") == 0) {
        hth_api_parse_calls(parse, fields, turn);
        hth_fields_string(fields, "thinking", HTH_API_TEXT_BYTES_MAX, &turn->reasoning);
        if (turn->reasoning && !*turn->reasoning)
            turn->reasoning = NULL;
    }
    if (strcmp(turn->role, "tool") == 0) {
        hth_fields_string(fields, "tool_name", HTH_API_NAME_BYTES_MAX, &turn->name);
        hth_fields_string(fields, "tool_call_id", HTH_API_NAME_BYTES_MAX, &turn->call_id);
    }
    if (hth_fields_has(fields, "content"))
        hth_api_parse_content(parse, fields, is_last && strcmp(turn->role, "user") == 0, turn);
    else if (turn->n_calls == 0)
        turn->content = "";
    if (is_last)
        refuse_images(fields);
    else
        replace_images(parse, fields, turn);
}

/* ---- calls and their results ---- */

/* The latest calls, which may still get results. */
typedef struct open_calls {
    hearth_chat_call *calls; /* [n] */
    size_t n;
    bool *has_result; /* [n] */
    size_t n_before;  /* calls of earlier messages */
} open_calls;

/*
 * Open the calls of an assistant's turn. A call without an id gets one of nine letters and digits, as some templates
 * require.
 */
static bool open_calls_of(hth_api_parse *parse, hearth_chat_turn *turn, open_calls *open)
{
    size_t n = turn->n_calls;
    hearth_chat_call *calls = hth_api_allocate_structs(parse, n, sizeof(*calls));
    bool *has_result = hth_api_allocate(parse, n, sizeof(*has_result));

    if (!calls || !has_result)
        return false;
    memcpy(calls, turn->calls, n * sizeof(*calls));
    for (size_t i = 0; i < n; i++) {
        char *id = calls[i].id && *calls[i].id ? NULL : hth_api_allocate(parse, 10, 1);

        if (id) {
            (void)snprintf(id, 10, "call%05zu", (open->n_before + i) % 100000); /* fits */
            calls[i].id = id;
        }
    }
    turn->calls = calls;
    open->n_before += n;
    open->calls = calls;
    open->n = n;
    open->has_result = has_result;
    return true;
}

/*
 * The call that a result belongs to: the one with its id; otherwise the first with its name and no result; otherwise
 * the first without a result.
 */
static size_t call_of(const open_calls *open, const hearth_chat_turn *turn)
{
    size_t i = 0;

    if (turn->call_id) {
        while (i < open->n && (!open->calls[i].id || strcmp(open->calls[i].id, turn->call_id) != 0))
            i++;
        return i;
    }
    while (i < open->n &&
           (open->has_result[i] || (turn->name && open->calls[i].name && strcmp(open->calls[i].name, turn->name) != 0)))
        i++;
    return i;
}

static void pair_results(hth_api_parse *parse, hearth_chat_turn *turns, size_t n)
{
    open_calls open = { .n = 0 };

    for (size_t i = 0; i < n && parse->error->kind == HTH_API_NO_ERROR; i++) {
        hearth_chat_turn *turn = &turns[i];
        size_t call;

        if (turn->n_calls > 0 && !open_calls_of(parse, turn, &open))
            return;
        if (strcmp(turn->role, "tool") != 0)
            continue;
        call = call_of(&open, turn);
        if (call == open.n || !open.has_result)
            continue;
        open.has_result[call] = true;
        if (!turn->call_id)
            turn->call_id = open.calls[call].id;
        if (!turn->name)
            turn->name = open.calls[call].name;
    }
}

static void parse_messages(hth_api_parse *parse)
{
    json_t *array = hth_fields_array(&parse->body, "messages", parse->limits->messages_max);
    size_t n = json_array_size(array);
    hearth_chat_turn *turns;
    hth_fields fields;

    if (n == 0) {
        parse->request->is_load = true;
        return;
    }
    turns = hth_api_allocate_structs(parse, n, sizeof(*turns));
    for (size_t i = 0; turns && hth_fields_item(&parse->body, "messages", array, i, &fields); i++)
        parse_message(parse, &fields, i + 1 == n, &turns[i]);
    if (!turns || parse->error->kind != HTH_API_NO_ERROR)
        return;
    pair_results(parse, turns, n);
    parse->request->conversation.continue_last = hth_api_begins_reply(&turns[n - 1]);
    parse->request->conversation.turns = turns;
    parse->request->conversation.n_turns = n;
}

void hth_api_parse_ollama_chat(hth_api_parse *parse)
{
    parse->request->is_chat = true;
    hth_fields_rest(&parse->body, HTH_NAMES(API_OLLAMA_FIELDS, "messages", "tools", "tool_choice"));
    parse_messages(parse);
    parse_ollama_common(parse);
    hth_api_parse_tools(parse);
}

/* ---- /api/generate ---- */

/* Make the prompt a user message, after the context if there is one. */
static void parse_question(hth_api_parse *parse, const char *prompt)
{
    hth_api_request *request = parse->request;
    hearth_chat_turn *turns = hth_api_allocate_structs(parse, 2, sizeof(*turns));
    json_t *context = hth_fields_array(&parse->body, "context", CONTEXT_TOKENS_MAX);
    const char *system = NULL;
    size_t n = 0;

    if (!turns)
        return;
    hth_fields_string(&parse->body, "system", HTH_API_TEXT_BYTES_MAX, &system);
    if (system && *system)
        turns[n++] = (hearth_chat_turn){ .struct_size = sizeof(hearth_chat_turn), .role = "system", .content = system };
    turns[n++] = (hearth_chat_turn){ .struct_size = sizeof(hearth_chat_turn), .role = "user", .content = prompt };
    request->is_chat = true;
    request->wants_context = true;
    request->conversation.turns = turns;
    request->conversation.n_turns = n;
    if (json_array_size(context) == 0)
        return;
    request->context = hth_api_parse_tokens(parse, "context", context);
    request->n_context = request->context ? json_array_size(context) : 0;
}

/* Does the template consist only of the prompt? Other templates, in Ollama's own language, are ignored. */
static bool is_bare_template(const char *template)
{
    static const char *const words[] = { "{{", ".Prompt", "}}" };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        template += strspn(template, " \t\r\n");
        if (strncmp(template, words[i], strlen(words[i])) != 0)
            return false;
        template += strlen(words[i]);
    }
    return template[strspn(template, " \t\r\n")] == '\0';
}

/* Does the prompt go to the model without a template? */
static bool parse_is_raw(hth_api_parse *parse)
{
    const char *template = NULL, *system = NULL;
    bool is_raw = false;

    hth_fields_bool(&parse->body, "raw", &is_raw);
    hth_fields_string(&parse->body, "template", HTH_API_TEXT_BYTES_MAX, &template);
    hth_fields_string(&parse->body, "system", HTH_API_TEXT_BYTES_MAX, &system);
    if (is_raw && ((template && *template) || (system && *system) || hth_fields_has(&parse->body, "context")))
        hth_fields_refuse(&parse->body, "raw",
                          "is true, so 'template', 'system' and 'context' have no place; take them out");
    if (is_raw || !template || !*template)
        return is_raw;
    if (is_bare_template(template) && !(system && *system) && !hth_fields_has(&parse->body, "context"))
        return true;
    hth_fields_pass_over(&parse->body, "template");
    return false;
}

/* Fields for images, which this server does not generate. */
#define DRAWING_FIELDS "width", "height", "steps"

void hth_api_parse_ollama_generate(hth_api_parse *parse)
{
    const char *prompt = "", *suffix = "";
    bool is_raw;

    hth_fields_rest(&parse->body, HTH_NAMES(API_OLLAMA_FIELDS, DRAWING_FIELDS, "prompt", "suffix", "system", "template",
                                            "context", "raw", "images"));
    hth_fields_pass_over_all(&parse->body, HTH_NAMES(DRAWING_FIELDS));
    hth_fields_string(&parse->body, "prompt", HTH_API_TEXT_BYTES_MAX, &prompt);
    hth_fields_string(&parse->body, "suffix", HTH_API_TEXT_BYTES_MAX, &suffix);
    refuse_images(&parse->body);
    is_raw = parse_is_raw(parse);
    if (*suffix) { /* text to insert is not an answer to a question */
        parse->request->suffix = suffix;
        is_raw = true;
    }
    if (!*prompt)
        parse->request->is_load = true;
    else if (is_raw)
        hth_api_set_prompt(parse, prompt); /* without a template */
    else
        parse_question(parse, prompt);
    parse_ollama_common(parse);
}

/* ---- /api/show ---- */

void hth_api_parse_ollama_show(hth_api_parse *parse)
{
    const char *name = NULL; /* of the model: the older field */

    hth_fields_rest(&parse->body, HTH_NAMES("model", "name", "verbose", "system", "template", "options"));
    hth_fields_pass_over_all(&parse->body, HTH_NAMES("system", "template", "options"));
    hth_fields_string(&parse->body, "name", HTH_API_NAME_BYTES_MAX, &name);
    if (!parse->request->model)
        parse->request->model = name;
}
