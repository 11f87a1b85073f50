/*
 * prompt_render.h - a prompt from the command line, rendered for the tokenizer
 */
#ifndef HTH_CLI_PROMPT_RENDER_H
#define HTH_CLI_PROMPT_RENDER_H

#include "options/run_options.h"

/*
 * Put prompt into *request: unchanged or, if options ask for a chat, as a rendered conversation in request->chat, to be
 * released with hearth_chat_prompt_free. prompt is borrowed and must not move. request is not changed on failure.
 */
hearth_status hth_prompt_render(hearth_model *model, const hth_run_options *options, const char *prompt,
                                hearth_request *request, hearth_error *err);

#endif
