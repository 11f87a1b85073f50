/*
 * chat.c - a chat template that everything above can be tested with
 *
 * A conversation becomes
 *
 *   <|im_start|>tools\nNAME PARAMETERS\n...<|im_end|>\n      where there are tools
 *   <|im_start|>ROLE\nTEXT<|im_end|>\n                       for each turn
 *   <|im_start|>assistant\n                                  and "<think></think>" behind it, not to think
 *
 * An assistant's TEXT, and so a reply, is reasoning, content and calls, each of which may be missing:
 *
 *   <think>REASONING</think>CONTENT<call>NAME ARGUMENTS</call><call>...</call>
 *
 * The turn of a tool begins with "ID: " where it says which call it answers. Further variables of the template are
 * written behind everything else, as "<values>JSON</values>". A call is the one thing that a grammar knows: names are
 * those of the tools, arguments any JSON object.
 */
#include "stub/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_bounds.h"

static const char think_begin[] = "<think>", think_end[] = "</think>", call_begin[] = "<call>", call_end[] = "</call>";

/* ---- prompts ---- */

/* Print into *text, [capacity]; what there is no room for shows in *n. */
static void put(char *text, size_t capacity, size_t *n, const char *part)
{
    size_t n_part = strlen(part);

    if (text && *n + n_part < capacity)
        memcpy(text + *n, part, n_part + 1);
    *n += n_part;
}

static void put_turn(char *text, size_t capacity, size_t *n, const hearth_chat_turn *turn, bool is_open)
{
    put(text, capacity, n, "<|im_start|>");
    put(text, capacity, n, turn->role);
    put(text, capacity, n, "\n");
    if (turn->call_id) {
        put(text, capacity, n, turn->call_id);
        put(text, capacity, n, ": ");
    }
    if (turn->reasoning) {
        put(text, capacity, n, think_begin);
        put(text, capacity, n, turn->reasoning);
        put(text, capacity, n, think_end);
    }
    if (turn->content)
        put(text, capacity, n, turn->content);
    for (size_t i = 0; !turn->content && i < turn->n_parts; i++)
        put(text, capacity, n, turn->parts[i]);
    for (size_t i = 0; i < turn->n_calls; i++) {
        put(text, capacity, n, call_begin);
        put(text, capacity, n, turn->calls[i].name);
        put(text, capacity, n, " ");
        put(text, capacity, n, turn->calls[i].arguments);
        put(text, capacity, n, call_end);
    }
    if (!is_open)
        put(text, capacity, n, "<|im_end|>\n");
}

/* The whole prompt; returns its length, also beyond capacity. */
static size_t put_prompt(char *text, size_t capacity, const hearth_conversation *c)
{
    size_t n = 0;

    if (c->n_tools > 0)
        put(text, capacity, &n, "<|im_start|>tools\n");
    for (size_t i = 0; i < c->n_tools; i++) {
        put(text, capacity, &n, c->tools[i].name);
        put(text, capacity, &n, " ");
        put(text, capacity, &n, c->tools[i].parameters ? c->tools[i].parameters : "{}");
        put(text, capacity, &n, "\n");
    }
    if (c->n_tools > 0)
        put(text, capacity, &n, "<|im_end|>\n");
    for (size_t i = 0; i < c->n_turns; i++)
        put_turn(text, capacity, &n, &c->turns[i], c->continue_last && i + 1 == c->n_turns);
    if (!c->continue_last && !c->no_reply) {
        put(text, capacity, &n, "<|im_start|>assistant\n");
        if (c->no_thinking) {
            put(text, capacity, &n, think_begin);
            put(text, capacity, &n, think_end);
        }
    }
    if (c->template_values) {
        put(text, capacity, &n, "<values>");
        put(text, capacity, &n, c->template_values);
        put(text, capacity, &n, "</values>");
    }
    return n;
}

static size_t put_grammar(char *text, size_t capacity, const hearth_conversation *c)
{
    static const char json_rules[] =
        "object ::= \"{\" (pair (\",\" pair)*)? \"}\"\n"
        "pair ::= string \":\" value\n"
        "value ::= object | \"[\" (value (\",\" value)*)? \"]\" | string | \"-\"? [1-9] [0-9]? "
        "| \"true\" | \"false\" | \"null\"\n"
        "string ::= \"\\\"\" [a-zA-Z0-9 _./-]* \"\\\"\"\n";
    size_t n = 0;

    put(text, capacity, &n, c->parallel_calls ? "root ::= call+\n" : "root ::= call\n");
    put(text, capacity, &n, "call ::= \"<call>\" (");
    for (size_t i = 0; i < c->n_tools; i++) {
        put(text, capacity, &n, i > 0 ? " | \"" : "\"");
        put(text, capacity, &n, c->tools[i].name);
        put(text, capacity, &n, "\"");
    }
    put(text, capacity, &n, ") \" \" object \"</call>\"\n");
    put(text, capacity, &n, json_rules);
    return n;
}

/* What put writes, as a new string; NULL without memory. */
static char *written(size_t (*put_all)(char *, size_t, const hearth_conversation *), const hearth_conversation *c,
                     size_t *n_out)
{
    size_t n = put_all(NULL, 0, c);
    char *text = calloc(1, n + 1);

    if (text)
        (void)put_all(text, n + 1, c);
    *n_out = n;
    return text;
}

static hearth_status check_json(const char *what, const char *text, hearth_error *err)
{
    if (text && (*text != '{' || !hth_json_is_within(text, strlen(text), 64, 4096)))
        return hth_fail(err, HEARTH_MISUSE, "%s is not a JSON object within the limits", what);
    return HEARTH_OK;
}

static hearth_status check_all_json(const hearth_conversation *c, hearth_error *err)
{
    hearth_status status = check_json("template_values", c->template_values, err);

    if (status == HEARTH_OK)
        status = check_json("the schema", c->json_schema, err);
    for (size_t i = 0; i < c->n_tools && status == HEARTH_OK; i++)
        status = check_json("the parameters of a tool", c->tools[i].parameters, err);
    for (size_t i = 0; i < c->n_turns; i++)
        for (size_t j = 0; j < c->turns[i].n_calls && status == HEARTH_OK; j++)
            status = check_json("the arguments of a call", c->turns[i].calls[j].arguments, err);
    return status;
}

hearth_status hth_stub_chat_prompt(const hth_engine_model *model, const hearth_conversation *conversation,
                                   hearth_chat_prompt *out, hearth_error *err)
{
    bool has_calls = conversation && conversation->n_tools > 0 && conversation->tool_choice != HEARTH_TOOL_NONE;
    hearth_chat_prompt made = { .can_think = true };
    hearth_trigger *trigger;
    hearth_status status;
    char *parser;
    size_t n;

    if (!model || !conversation || !out)
        return hth_fail(err, HEARTH_MISUSE, "a prompt needs a conversation");
    status = check_all_json(conversation, err);
    if (status != HEARTH_OK)
        return status;
    made.text = written(put_prompt, conversation, &made.n_bytes);
    made.parser = parser = calloc(1, 8);
    made.triggers = trigger = calloc(1, sizeof(*trigger));
    made.thinking_begin = strdup(think_begin);
    made.thinking_end = strdup(think_end);
    if (has_calls)
        made.grammar = written(put_grammar, conversation, &n);
    if (has_calls && trigger && conversation->tool_choice == HEARTH_TOOL_AUTO) {
        made.grammar_is_lazy = true;
        *trigger = (hearth_trigger){ .struct_size = sizeof(*trigger),
                                     .kind = HEARTH_TRIGGER_WORD,
                                     .text = strdup(call_begin) };
        made.n_triggers = 1;
    }
    if (!made.text || !parser || !trigger || !made.thinking_begin || !made.thinking_end ||
        (has_calls && !made.grammar) || (made.n_triggers > 0 && !trigger->text)) {
        hth_chat_prompt_clear(&made);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a prompt");
    }
    (void)snprintf(parser, 8, "stub%s%s", has_calls ? "c" : "", conversation->reasoning_in_content ? "" : "r");
    *out = made;
    return HEARTH_OK;
}

/* ---- replies ---- */

struct hth_engine_chat_reader {
    bool finds_calls;
    bool finds_reasoning;
};

hearth_status hth_stub_chat_reader_new(const char *parser, hth_engine_chat_reader **out, hearth_error *err)
{
    hth_engine_chat_reader *reader;

    if (!parser || strncmp(parser, "stub", 4) != 0 || !out)
        return hth_fail(err, HEARTH_MISUSE, "a reader of replies needs the parser of a prompt");
    reader = calloc(1, sizeof(*reader));
    if (!reader)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a reader of replies");
    reader->finds_calls = strchr(parser + 4, 'c') != NULL;
    reader->finds_reasoning = strchr(parser + 4, 'r') != NULL;
    *out = reader;
    return HEARTH_OK;
}

void hth_stub_chat_reader_free(hth_engine_chat_reader *reader)
{
    free(reader);
}

/* Where mark begins in [text, end), or, unless the text is whole, where its beginning ends the text; else end. */
static const char *find(const char *text, const char *end, const char *mark, bool is_whole, bool *found)
{
    size_t n_mark = strlen(mark);

    *found = false;
    for (const char *at = text; at < end; at++) {
        size_t n = (size_t)(end - at) < n_mark ? (size_t)(end - at) : n_mark;

        if (memcmp(at, mark, n) != 0 || (n < n_mark && is_whole))
            continue;
        *found = n == n_mark;
        return at;
    }
    return end;
}

/* Put [begin, end) behind the *n bytes of *text. */
static bool append(char **text, size_t *n, const char *begin, const char *end)
{
    size_t n_more = (size_t)(end - begin);
    char *grown = realloc(*text, *n + n_more + 1);

    if (!grown)
        return false;
    memcpy(grown + *n, begin, n_more);
    *n += n_more;
    grown[*n] = '\0';
    *text = grown;
    return true;
}

/* A call from behind its mark to the next text; NULL without memory. */
static const char *read_call(const char *at, const char *end, bool is_whole, hth_chat_reply *out)
{
    hth_chat_reply_call *calls = realloc(out->calls, (out->n_calls + 1) * sizeof(*calls));
    const char *space = memchr(at, ' ', (size_t)(end - at));
    hth_chat_reply_call *call;
    const char *arguments_end;
    size_t n_id = 0, n_name = 0;
    bool found;

    if (!calls)
        return NULL;
    out->calls = calls;
    if (!space)
        return end; /* its name is not known yet */
    call = &calls[out->n_calls++];
    *call = (hth_chat_reply_call){ NULL };
    arguments_end = find(space + 1, end, call_end, is_whole, &found);
    if (!append(&call->id, &n_id, at, at) || !append(&call->name, &n_name, at, space) ||
        !append(&call->arguments, &call->n_arguments, space + 1, arguments_end))
        return NULL;
    return found ? arguments_end + strlen(call_end) : end;
}

hearth_status hth_stub_chat_read(const hth_engine_chat_reader *reader, const char *text, size_t n_bytes, bool is_whole,
                                 hth_chat_reply *out, hearth_error *err)
{
    hth_chat_reply reply = { NULL };
    const char *at = text, *end = text + n_bytes;
    bool ok = append(&reply.reasoning, &reply.n_reasoning, at, at) && append(&reply.content, &reply.n_content, at, at);
    bool found;

    if (ok && reader->finds_reasoning && find(at, end, think_begin, is_whole, &found) == at && at < end) {
        const char *until = found ? find(at + strlen(think_begin), end, think_end, is_whole, &found) : end;
        bool has_begun = (size_t)(end - at) >= strlen(think_begin);

        ok = !has_begun || append(&reply.reasoning, &reply.n_reasoning, at + strlen(think_begin), until);
        at = has_begun && found ? until + strlen(think_end) : end;
    }
    while (ok && at < end) {
        const char *call = end;

        found = false;
        if (reader->finds_calls)
            call = find(at, end, call_begin, is_whole, &found);
        ok = append(&reply.content, &reply.n_content, at, call);
        at = end;
        if (ok && found) {
            at = read_call(call + strlen(call_begin), end, is_whole, &reply);
            ok = at != NULL;
        }
    }
    if (!ok) {
        hth_chat_reply_clear(&reply);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to read a reply");
    }
    *out = reply;
    return HEARTH_OK;
}
