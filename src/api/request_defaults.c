/*
 * request_defaults.c - puts the defaults of the server into a request
 */
#include <string.h>

#include "api/parse.h"

/* The template variable "enable_thinking" means the same as reasoning; reasoning wins when both are set. */
static hth_api_reasoning reasoning_of(const hth_api_defaults *defaults)
{
    json_t *values = defaults->template_values && defaults->reasoning == HTH_API_REASONING_AUTO
                       ? json_loads(defaults->template_values, 0, NULL)
                       : NULL;
    const json_t *enable = json_object_get(values, "enable_thinking");
    hth_api_reasoning reasoning = json_is_true(enable)  ? HTH_API_REASONING_ON
                                : json_is_false(enable) ? HTH_API_REASONING_OFF
                                                        : defaults->reasoning;

    json_decref(values);
    return reasoning;
}

void hth_api_defaults_begin(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;

    if (!parse->defaults)
        return;
    hth_api_defaults_fill(parse->defaults, &request->options, &request->sampling);
    parse->reasoning = reasoning_of(parse->defaults);
    request->conversation.no_thinking = parse->reasoning == HTH_API_REASONING_OFF;
}

static bool has_system(const hearth_conversation *conversation)
{
    for (size_t i = 0; i < conversation->n_turns; i++)
        if (strcmp(conversation->turns[i].role, "system") == 0 || strcmp(conversation->turns[i].role, "developer") == 0)
            return true;
    return false;
}

static void add_system(hth_api_parse *parse)
{
    hearth_conversation *conversation = &parse->request->conversation;
    hearth_chat_turn *turns = hth_api_allocate_structs(parse, conversation->n_turns + 1, sizeof(*turns));

    if (!turns)
        return;
    turns[0].role = "system";
    turns[0].content = parse->defaults->system;
    memcpy(turns + 1, conversation->turns, conversation->n_turns * sizeof(*turns));
    conversation->turns = turns;
    conversation->n_turns++;
}

/* Merge the variables; the client's win over the defaults'. */
static void merge_values(hth_api_parse *parse)
{
    hearth_conversation *conversation = &parse->request->conversation;
    json_t *values = json_loads(parse->defaults->template_values, 0, NULL);
    json_t *own = conversation->template_values ? json_loads(conversation->template_values, 0, NULL) : NULL;

    (void)json_object_del(values, "enable_thinking"); /* already applied as no_thinking; may be missing */
    if (!values || (own && json_object_update(values, own) != 0))
        hth_api_fail(parse->error, HTH_API_OVERLOADED, NULL, "no memory for the request");
    else if (json_object_size(values) > 0)
        conversation->template_values = hth_api_json_text(parse, values);
    json_decref(own);
    json_decref(values);
}

void hth_api_defaults_end(hth_api_parse *parse)
{
    if (!parse->defaults || !parse->request->is_chat)
        return;
    if (parse->defaults->system && parse->request->conversation.n_turns > 0 &&
        !has_system(&parse->request->conversation))
        add_system(parse);
    if (parse->defaults->template_values)
        merge_values(parse);
}
