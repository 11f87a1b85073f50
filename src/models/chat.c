/*
 * chat.c - conversations to prompts
 *
 * This file checks conversations for all engines, except their JSON, which each engine checks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "engine/backend.h"
#include "models/given.h"
#include "models/model_inside.h"

enum { NAME_BYTES_MAX = 256 };

static hearth_status check(const char *what, const char *text, hearth_error *err)
{
    return text ? hth_check_text(what, text, strlen(text), err) : HEARTH_OK;
}

static hearth_status check_name(const char *what, const char *text, hearth_error *err)
{
    if (text && strnlen(text, NAME_BYTES_MAX + 1) > NAME_BYTES_MAX)
        return hth_fail(err, HEARTH_MISUSE, "%s is longer than %d bytes", what, NAME_BYTES_MAX);
    return check(what, text, err);
}

static hearth_status check_turn(const hearth_chat_turn *turn, size_t i, hearth_error *err)
{
    hearth_status status;

    if (!turn->role || !*turn->role)
        return hth_fail(err, HEARTH_MISUSE, "turn %zu of the conversation has no role", i);
    status = check_name("a role", turn->role, err);
    if (status == HEARTH_OK)
        status = check("a turn's content", turn->content, err);
    for (size_t j = 0; j < turn->n_parts && status == HEARTH_OK; j++)
        status = turn->parts[j] ? check("a part of a turn", turn->parts[j], err)
                                : hth_fail(err, HEARTH_MISUSE, "part %zu of turn %zu is NULL", j, i);
    if (status == HEARTH_OK)
        status = check("a turn's reasoning", turn->reasoning, err);
    for (size_t j = 0; j < turn->n_calls && status == HEARTH_OK; j++) {
        if (!turn->calls[j].name || !turn->calls[j].arguments)
            return hth_fail(err, HEARTH_MISUSE, "call %zu of turn %zu has no name or no arguments", j, i);
        status = check_name("the name of a call", turn->calls[j].name, err);
        if (status == HEARTH_OK)
            status = check("the arguments of a call", turn->calls[j].arguments, err);
        if (status == HEARTH_OK)
            status = check_name("the id of a call", turn->calls[j].id, err);
    }
    if (status == HEARTH_OK)
        status = check_name("the id of a call", turn->call_id, err);
    return status == HEARTH_OK ? check_name("a turn's name", turn->name, err) : status;
}

static hearth_status check_tool(const hearth_chat_tool *tool, size_t i, hearth_error *err)
{
    hearth_status status;

    if (!tool->name || !hth_is_name(tool->name, HTH_TOOL_NAME_BYTES_MAX))
        return hth_fail(err, HEARTH_MISUSE,
                        "the name of tool %zu is not 1 to %d letters, digits, underscores and hyphens", i,
                        HTH_TOOL_NAME_BYTES_MAX);
    status = check("the description of a tool", tool->description, err);
    return status == HEARTH_OK ? check("the parameters of a tool", tool->parameters, err) : status;
}

static hearth_status check_conversation(const hearth_conversation *c, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    if (c->tool_choice != HEARTH_TOOL_AUTO && c->tool_choice != HEARTH_TOOL_NONE &&
        c->tool_choice != HEARTH_TOOL_REQUIRED)
        return hth_fail(err, HEARTH_MISUSE, "tool_choice is %d, which means nothing", (int)c->tool_choice);
    if (c->tool_choice == HEARTH_TOOL_REQUIRED && c->n_tools == 0)
        return hth_fail(err, HEARTH_MISUSE, "a tool has to be called, but there are none");
    if (c->tool_choice == HEARTH_TOOL_REQUIRED && c->json_schema)
        return hth_fail(err, HEARTH_MISUSE, "a reply that has to call a tool cannot follow a JSON schema, too");
    if (c->continue_last && c->turns[c->n_turns - 1].n_calls > 0)
        return hth_fail(err, HEARTH_MISUSE, "the last turn calls tools, so it is no beginning of a reply");
    for (size_t i = 0; i < c->n_turns && status == HEARTH_OK; i++)
        status = check_turn(&c->turns[i], i, err);
    for (size_t i = 0; i < c->n_tools && status == HEARTH_OK; i++)
        status = check_tool(&c->tools[i], i, err);
    if (status == HEARTH_OK)
        status = check("the schema", c->json_schema, err);
    return status == HEARTH_OK ? check("template_values", c->template_values, err) : status;
}

/* Warn once that a conversation is rendered with a template that the model may not know. */
static void warn_of_template(hearth_model *model)
{
    if (strcmp(model->info.chat_template_kind, "fallback") != 0 || atomic_exchange(&model->has_warned, true))
        return;
    hth_warn(hth_runtime_log(model->runtime),
             "model '%s' has no chat template: conversations have the form of " HTH_CHAT_TEMPLATE_FALLBACK
             ", which it may not know; give its own with --chat-template (a name or a file)",
             model->name);
}

/* Add a built-in template's stop texts, because the model may have no token for them. */
static hearth_status add_stops(const hth_chat_template *of, hearth_chat_prompt *prompt, hearth_error *err)
{
    size_t room = prompt->n_stop + HTH_CHAT_TEMPLATE_STOPS_MAX;
    const char **stop = (const char **)realloc((void *)prompt->stop, room * sizeof(*stop));

    if (!stop)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a prompt");
    prompt->stop = stop;
    for (size_t i = 0; i < HTH_CHAT_TEMPLATE_STOPS_MAX && of->stop[i]; i++) {
        stop[prompt->n_stop] = strdup(of->stop[i]);
        if (!stop[prompt->n_stop])
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a prompt");
        prompt->n_stop++;
    }
    return HEARTH_OK;
}

static hearth_status render(hearth_model *model, const hearth_conversation *conversation, hearth_chat_prompt *out,
                            hearth_error *err)
{
    hearth_status status = check_conversation(conversation, err);

    if (status == HEARTH_OK)
        status = hth_model_enter(model, "hearth_conversation_render", err);
    if (status != HEARTH_OK)
        return status;
    status = model->backend->chat_prompt(model->engine_model, conversation, out, err);
    warn_of_template(model);
    hth_model_leave(model);
    return status == HEARTH_OK && model->chat_template ? add_stops(model->chat_template, out, err) : status;
}

hearth_status hearth_conversation_render(hearth_model *model, const hearth_conversation *conversation,
                                         const hearth_chat_prompt **out, hearth_error *err)
{
    hth_given_conversation given;
    hearth_chat_prompt *prompt;
    hearth_status status;

    if (!conversation || !out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_conversation_render: conversation or out is NULL");
    prompt = calloc(1, sizeof(*prompt));
    if (!prompt)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a prompt");
    status = hth_given_conversation_read(conversation, &given, err);
    if (status == HEARTH_OK) {
        status = render(model, &given.conversation, prompt, err);
        hth_given_conversation_free(&given);
    }
    if (status != HEARTH_OK) {
        hearth_chat_prompt_free(prompt);
        return status;
    }
    prompt->struct_size = sizeof(*prompt);
    *out = prompt;
    return HEARTH_OK;
}

void hearth_chat_prompt_free(const hearth_chat_prompt *prompt)
{
    hearth_chat_prompt *own = (hearth_chat_prompt *)prompt; /* const is for callers only */

    if (own)
        hth_chat_prompt_clear(own);
    free(own);
}
