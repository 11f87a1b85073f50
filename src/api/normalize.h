/*
 * normalize.h - removes text that clients put into prompts, that changes each time and means nothing to the model
 *
 * A prefix is reused as far as it is the same. So one changing line at the beginning, such as a version or the number
 * of a session, makes everything behind it cold. Claude Code writes such a line and calls it a header itself. It is
 * removed in its exact form and place, before the prompt is rendered. Nothing else changes. docs/clients.md tells of it.
 */
#ifndef HTH_API_NORMALIZE_H
#define HTH_API_NORMALIZE_H

#include "api/parse.h"

/* Take the line out of the conversation of the request, which receives its name. */
void hth_api_normalize(hth_api_parse *parse);

#endif
