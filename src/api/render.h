/*
 * render.h - a conversation through the model's template, also one that the template or a grammar cannot take as it is
 *
 * Two things that clients send are put otherwise where they do not go through:
 *
 *   - A message of the system behind the first. Many templates know one system message, at the beginning, and refuse
 *     others or leave one out. Then its text stands at the end of the message before it, between <system> and </system>.
 *   - A tool whose parameters make no grammar. It may be called with any, and is noted as "tools.NAME.parameters"; where
 *     that is not enough, its schema is told as text.
 *
 * Which of this is done depends on the template, the turn's text and the tools alone: a conversation that grows keeps its
 * beginning.
 */
#ifndef HTH_API_RENDER_H
#define HTH_API_RENDER_H

#include "api/notes.h"
#include "hearth.h"

/* The parameters of a tool that may be called with any. */
extern const char hth_api_any_parameters[];

/*
 * As hearth_conversation_render. Where it fails all the same, the error is that of the conversation as it was given. notes
 * may be NULL. Any thread; may take as long as several renderings.
 */
hearth_status hth_api_render(hearth_model *model, const hearth_conversation *conversation, hearth_chat_prompt *out,
                             hth_api_notes *notes, hearth_error *err);

/*
 * The description of a tool whose parameters are told as text, a new string. NULL without memory.
 * description and parameters may be NULL.
 */
char *hth_api_described_parameters(const char *description, const char *parameters);

#endif
