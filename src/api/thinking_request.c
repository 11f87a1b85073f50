/*
 * thinking_request.c - how much the model thinks before it answers, and variables of the template
 *
 * Servers and clients have many names for the same thing: reasoning_effort (OpenAI), enable_thinking and
 * chat_template_kwargs (vLLM, llama.cpp), think (Ollama), thinking (Anthropic), reasoning (OpenRouter). All of them
 * mean two things: whether the model thinks, and how much. When two fields contradict each other, the later one in the
 * order of the code below wins.
 */
#include "api/parse.h"
#include "sampling/sampling.h"

enum { EFFORT_BYTES_MAX = 16 };

typedef struct thinking {
    const char *effort; /* NULL: the template's own default */
    bool is_off;
} thinking;

const char *const hth_api_efforts[] = { "none", "minimal", "low", "medium", "high", "xhigh", "max", NULL };

/* Read a word: an effort, or "on" or "off" in some form. */
static void take_word(hth_api_parse *parse, const char *name, const char *word, thinking *out)
{
    if (hth_is_among(word, HTH_NAMES("none", "minimal", "off", "disabled"))) {
        out->is_off = true;
        out->effort = NULL;
    } else if (hth_is_among(word, HTH_NAMES("on", "auto", "enabled", "adaptive"))) {
        out->is_off = false;
    } else if (hth_is_among(word, hth_api_efforts)) {
        out->is_off = false;
        out->effort = word;
    } else {
        hth_fields_refuse(&parse->body, name, "is '%.40s'; it must be none, minimal, low, medium, high, xhigh or max",
                          word);
    }
}

/* Read a bound of reasoning; -1: the default. */
static void take_budget(const hth_fields *fields, const char *name, hth_api_parse *parse)
{
    json_int_t budget = -1;

    hth_fields_integer(fields, name, -1, INT32_MAX, &budget);
    if (budget >= 0)
        parse->request->sampling.thinking_budget = (int32_t)budget;
}

/* Read a field that is true or false, a word, or an object with "type", "effort" or "enabled". */
static void take_field(hth_api_parse *parse, const char *name, thinking *out)
{
    static const char *const words[] = { "type", "effort" };
    json_t *value = hth_fields_any(&parse->body, name);
    hth_fields inside;

    if (json_is_boolean(value)) {
        out->is_off = json_is_false(value);
    } else if (json_is_string(value)) {
        take_word(parse, name, json_string_value(value), out);
    } else if (json_is_object(value)) {
        if (json_is_boolean(json_object_get(value, "enabled")))
            out->is_off = json_is_false(json_object_get(value, "enabled"));
        (void)hth_fields_enter(&parse->body, name, &inside); /* it is an object */
        take_budget(&inside, "budget_tokens", parse);
        take_budget(&inside, "max_tokens", parse);
        for (size_t i = 0; i < 2; i++)
            if (json_is_string(json_object_get(value, words[i])))
                take_word(parse, name, json_string_value(json_object_get(value, words[i])), out);
    } else if (value) {
        hth_fields_wrong_type(&parse->body, name, "true, false, a word or an object", value);
    }
}

/* Refuse variables that the server itself sets. */
static void refuse_reserved(hth_api_parse *parse, const json_t *values)
{
    const char *reserved = hth_api_template_value_reserved(values);

    if (reserved)
        hth_fields_refuse(&parse->body, "chat_template_kwargs", "has '%s', which the server itself sets; take it out",
                          reserved);
}

static void parse_message(hth_api_parse *parse)
{
    const char *message = NULL;

    hth_fields_string(&parse->body, "reasoning_budget_message", HTH_THINKING_MESSAGE_BYTES_MAX, &message);
    if (message)
        parse->request->sampling.thinking_message = *message ? message : NULL;
}

void hth_api_parse_thinking(hth_api_parse *parse)
{
    static const char *const budgets[] = { "thinking_token_budget", "thinking_budget", "reasoning_budget",
                                           "thinking_budget_tokens", "reasoning_budget_tokens" };
    hearth_conversation *conversation = &parse->request->conversation;
    json_t *values = hth_fields_object(&parse->body, "chat_template_kwargs"), *all;
    thinking wanted = { .is_off = conversation->no_thinking };
    const char *effort = NULL;

    take_field(parse, "reasoning", &wanted);
    take_field(parse, "thinking", &wanted);
    take_field(parse, "think", &wanted);
    take_field(parse, "enable_thinking", &wanted);
    hth_fields_string(&parse->body, "reasoning_effort", EFFORT_BYTES_MAX, &effort);
    if (effort)
        take_word(parse, "reasoning_effort", effort, &wanted);
    for (size_t i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++)
        take_budget(&parse->body, budgets[i], parse);
    parse_message(parse);
    refuse_reserved(parse, values);
    if (json_is_boolean(json_object_get(values, "enable_thinking")))
        wanted.is_off = json_is_false(json_object_get(values, "enable_thinking"));
    conversation->no_thinking = wanted.is_off;
    if ((!values || json_object_size(values) == 0) && !wanted.effort)
        return;
    all = values ? json_copy(values) : json_object();
    if (wanted.effort)
        json_object_set_new(all, "reasoning_effort", json_string(wanted.effort));
    conversation->template_values = all ? hth_api_json_text(parse, all) : NULL;
    json_decref(all);
}
