/*
 * prompt_render.h - a prompt of the command line as it goes to the tokenizer
 */
#ifndef HTH_CLI_PROMPT_RENDER_H
#define HTH_CLI_PROMPT_RENDER_H

#include "cli/run_options.h"

/*
 * Rendered through the model's chat template where it is a chat, with the flags that it then needs; as it is otherwise. A
 * new string; NULL with a message.
 */
char *hth_prompt_render(hearth_model *model, const hth_run_options *options, const char *prompt,
                        unsigned *tokenize_flags, hearth_error *err);

#endif
