/*
 * chat_prompt.c - what a rendered conversation holds is given back
 */
#include <stdlib.h>

#include "hearth.h"

void hearth_chat_prompt_free(hearth_chat_prompt *prompt)
{
    if (!prompt)
        return;
    for (size_t i = 0; i < prompt->n_triggers; i++)
        free((void *)prompt->triggers[i].text);
    for (size_t i = 0; i < prompt->n_stop; i++)
        free(prompt->stop[i]);
    free(prompt->triggers);
    free(prompt->stop);
    free(prompt->shown_tokens);
    free(prompt->text);
    free(prompt->grammar);
    free(prompt->grammar_prefix);
    free(prompt->parser);
    *prompt = (hearth_chat_prompt){ .text = NULL };
}
