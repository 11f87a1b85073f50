/*
 * anthropic_inside.h - what the files share that read a request of Anthropic's API
 */
#ifndef HTH_API_ANTHROPIC_INSIDE_H
#define HTH_API_ANTHROPIC_INSIDE_H

#include "api/request_inside.h"

enum {
    HTH_ANTHROPIC_TEXT_BYTES_MAX = 32 << 20,
    HTH_ANTHROPIC_NAME_BYTES_MAX = 256,
};

/* Note that an object asks for its prefix to be kept, which is done without. Any form of it is accepted. */
void hth_anthropic_cache_control(hth_api_parse *parse, const hth_fields *fields);

/* "system" and "messages" become the turns of the conversation, which are returned; NULL with the error filled. */
hearth_chat_turn *hth_anthropic_messages(hth_api_parse *parse);
/* "tools" and "tool_choice". */
void hth_anthropic_tools(hth_api_parse *parse);
/* "context_management", applied to the conversation's turns, when everything else was read. */
void hth_anthropic_edits(hth_api_parse *parse, hearth_chat_turn *turns);

#endif
