/*
 * prompt_render.c - see prompt_render.h
 */
#include "cli/prompt_render.h"

hearth_status hth_prompt_render(hearth_model *model, const hth_run_options *options, const char *prompt,
                                hearth_request *request, hearth_error *err)
{
    const hth_api_defaults *how = &options->setup.defaults;
    hearth_conversation conversation = hearth_conversation_default();
    const hearth_chat_turn turns[] = {
        { .struct_size = sizeof(turns[0]), .role = "system", .content = options->system },
        { .struct_size = sizeof(turns[0]), .role = "user", .content = prompt },
    };

    if (!options->chat) {
        request->prompt = prompt;
        return HEARTH_OK;
    }
    conversation.turns = options->system ? turns : turns + 1;
    conversation.n_turns = options->system ? 2 : 1;
    conversation.no_thinking = how->reasoning == HTH_API_REASONING_OFF;
    conversation.template_values = how->template_values;
    return hearth_conversation_render(model, &conversation, &request->chat, err);
}
