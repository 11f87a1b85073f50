/*
 * normalize.h - removes text that clients add to prompts, that changes each time and means nothing to the model
 *
 * A prefix is reused only as far as it is identical. So one changing line at the beginning, such as a version or a
 * session number, makes everything after it cold. Claude Code writes such a line, which it calls a header. The line is
 * removed before the prompt is rendered, if it has its exact form and place. Nothing else changes. docs/clients.md
 * describes it.
 */
#ifndef HTH_API_NORMALIZE_H
#define HTH_API_NORMALIZE_H

#include "api/parse.h"

/* Remove the line from the request's conversation and record its name in the request. */
void hth_api_normalize(hth_api_parse *parse);

#endif
