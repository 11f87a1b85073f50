/*
 * prompt_render.c - see prompt_render.h
 */
#include "cli/prompt_render.h"

#include <string.h>

/* A conversation that says whether to think, or has variables of the template. */
static char *render_thinking(hearth_model *model, const hth_api_defaults *how, const hearth_chat_message *messages,
                             size_t n, hearth_error *err)
{
    hearth_conversation conversation = hearth_conversation_default();
    hearth_chat_turn turns[2] = {
        { .struct_size = sizeof(hearth_chat_turn), .role = messages[0].role, .content = messages[0].content }
    };
    hearth_chat_prompt prompt;
    char *text;

    if (n > 1)
        turns[1] = (hearth_chat_turn){ .struct_size = sizeof(hearth_chat_turn),
                                       .role = messages[1].role,
                                       .content = messages[1].content };
    conversation.turns = turns;
    conversation.n_turns = n;
    conversation.no_thinking = how->reasoning == HTH_API_REASONING_OFF;
    conversation.template_values = how->template_values;
    if (hearth_conversation_render(model, &conversation, &prompt, err) != HEARTH_OK)
        return NULL;
    text = strdup(prompt.text);
    hearth_chat_prompt_free(&prompt);
    if (!text)
        *err = (hearth_error){ .status = HEARTH_NO_MEMORY, .message = "no memory for the prompt" };
    return text;
}

char *hth_prompt_render(hearth_model *model, const hth_run_options *options, const char *prompt,
                        unsigned *tokenize_flags, hearth_error *err)
{
    hearth_chat_message messages[2];
    size_t n_messages = 0;
    char *rendered = NULL;

    if (!options->chat) {
        rendered = strdup(prompt);
        if (!rendered)
            *err = (hearth_error){ .status = HEARTH_NO_MEMORY, .message = "no memory for the prompt" };
        return rendered;
    }
    if (options->system)
        messages[n_messages++] = (hearth_chat_message){ .role = "system", .content = options->system };
    messages[n_messages++] = (hearth_chat_message){ .role = "user", .content = prompt };
    *tokenize_flags |= HEARTH_TOKENIZE_SPECIAL;
    if (options->setup.defaults.reasoning != HTH_API_REASONING_AUTO || options->setup.defaults.template_values)
        return render_thinking(model, &options->setup.defaults, messages, n_messages, err);
    if (hearth_chat_render(model, messages, n_messages, &rendered, NULL, err) != HEARTH_OK)
        return NULL;
    return rendered;
}
