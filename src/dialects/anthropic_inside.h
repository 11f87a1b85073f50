/*
 * anthropic_inside.h - functions that the readers of Anthropic's requests share
 */
#ifndef HTH_DIALECTS_ANTHROPIC_INSIDE_H
#define HTH_DIALECTS_ANTHROPIC_INSIDE_H

#include "api/request_inside.h"

/*
 * Note that an object asks to cache its prefix. The request has no other effect, since every prefix is cached. Any form
 * of the field is accepted.
 */
void hth_anthropic_cache_control(hth_api_parse *parse, const hth_fields *fields);

/* Read "system" and "messages" into the turns of the conversation. Returns the turns; NULL with the error filled. */
hearth_chat_turn *hth_anthropic_messages(hth_api_parse *parse);
/* Read "tools" and "tool_choice". */
void hth_anthropic_tools(hth_api_parse *parse);
/* Apply "context_management" to the turns of the conversation, after all other fields were read. */
void hth_anthropic_edits(hth_api_parse *parse, hearth_chat_turn *turns);

#endif
