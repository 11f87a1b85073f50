/*
 * prompt_render.c - see prompt_render.h
 */
#include "cli/prompt_render.h"

#include <string.h>

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
    if (hearth_chat_render(model, messages, n_messages, &rendered, NULL, err) != HEARTH_OK)
        return NULL;
    return rendered;
}
