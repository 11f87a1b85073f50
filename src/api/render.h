/*
 * render.h - renders a conversation through the model's template, even one that the template or a grammar rejects
 *
 * Two things that clients send are rewritten if rendering rejects them:
 *
 *   - A later system message. Many templates expect one system message, at the beginning, and refuse or drop others.
 *     Its text is then moved to the end of the message before it, between <system> and </system>.
 *   - A tool whose parameters cannot be compiled to a grammar. The model may then call it with any parameters; the note
 *     is "tools.NAME.parameters". If that is not enough, the schema becomes text in the description.
 *
 * The choice depends only on the template, the text of the turn and the tools, so a growing conversation keeps its
 * prefix.
 */
#ifndef HTH_API_RENDER_H
#define HTH_API_RENDER_H

#include "api/notes.h"
#include "hearth.h"

/* Parameters that accept any object. */
extern const char hth_api_any_parameters[];

/*
 * Like hearth_conversation_render. If every variant fails, the error is that of the conversation as given. notes may be
 * NULL. Any thread; may take as long as several renderings.
 */
hearth_status hth_api_render(hearth_model *model, const hearth_conversation *conversation,
                             const hearth_chat_prompt **out, hth_api_notes *notes, hearth_error *err);

/*
 * A new description of a tool that contains its parameters as text; NULL if out of memory. description and parameters
 * may be NULL.
 */
char *hth_api_described_parameters(const char *description, const char *parameters);

#endif
